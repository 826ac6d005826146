"""`surelabel gate`: pass or fail by the fraction of wrong labels, for CI."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from surelabel import console
from surelabel.cli.options import Json, Run, app, warn_of_damage
from surelabel.errors import ConfigError

if TYPE_CHECKING:
    from surelabel.runs.run_dir import RunDir
    from surelabel.verdicts.gate import Gate


@app.command()
def gate(
    run: Run,
    max_wrong: Annotated[
        float | None, typer.Option(metavar="S", help="Largest allowed fraction of wrong labels, such as 0.02.")
    ] = None,
    class_max: Annotated[
        float | None, typer.Option(metavar="S", help="The same for the labels of every given class.")
    ] = None,
    against: Annotated[
        Path | None,
        typer.Option(metavar="RUN", help="Fail if more labels are wrong than in this run, by more than noise allows."),
    ] = None,
    accept_estimate: Annotated[
        bool, typer.Option("--accept-estimate", help="Compare limits with the estimates, not with whole intervals.")
    ] = False,
    junit: Annotated[Path | None, typer.Option(metavar="FILE.xml", help="Also write JUnit XML.")] = None,
    markdown: Annotated[
        Path | None, typer.Option(metavar="FILE.md", help='Also write a summary, e.g. to "$GITHUB_STEP_SUMMARY".')
    ] = None,
    json: Json = False,
) -> None:
    """Pass or fail by the fraction of wrong labels, for CI.

    Exit codes: 0 passed, 1 failed, 2 error, 3 unknown: a limit lies within the interval of a rate.
    """
    from surelabel.runs.run_dir import RunDir
    from surelabel.verdicts import audit
    from surelabel.verdicts.gate import UNKNOWN, check_labels

    runs = [RunDir.open(path) for path in (run, against) if path is not None]
    _check_files({"--junit": junit, "--markdown": markdown}, runs)
    audits = [audit(each) for each in runs]
    for each, found in zip(runs, audits, strict=True):
        warn_of_damage(each.path, found.damage)
    baseline = audits[1] if against is not None else None
    outcome = check_labels(
        audits[0], max_wrong=max_wrong, class_max=class_max, against=baseline, accept_estimate=accept_estimate
    )
    _write_files(outcome, str(run), junit, markdown)
    if json:
        console.say_json({"run": run, **outcome.to_dict()})
    else:
        console.say(outcome.line)
    if outcome.outcome == UNKNOWN:
        place = shlex.quote(str(run))
        console.tell(f"note: surelabel audit {place} says why; 100 labels checked at random settle it: docs/gate.md")
    raise typer.Exit(outcome.exit_code)


def _write_files(outcome: "Gate", run: str, junit: Path | None, markdown: Path | None) -> None:
    if junit is None and markdown is None:
        return
    from surelabel.files import replace_text
    from surelabel.reporting.gate_files import to_junit, to_markdown  # it loads PyTorch

    if junit is not None:
        replace_text(junit, to_junit(outcome, run))
    if markdown is not None:
        replace_text(markdown, to_markdown(outcome, run))


def _check_files(files: dict[str, Path | None], runs: "list[RunDir]") -> None:
    """Raise if a file to write is a folder, lies in none, or is an input."""
    for option, file in files.items():
        if file is None:
            continue
        from surelabel.data.protected_files import refuse_overwriting_inputs

        refuse_overwriting_inputs([file], runs, option=option)
        if file.is_dir() or not file.parent.is_dir():
            raise ConfigError(f"{option} {file}: expected a file in a folder that exists")
