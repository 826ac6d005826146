"""`surelabel export`: write the cleaned labels, or the model as ONNX."""

import shlex
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from surelabel import console
from surelabel.cli.options import Json, Run, Trust, app
from surelabel.errors import ConfigError

if TYPE_CHECKING:
    from surelabel.exporting import Exported, Rules
    from surelabel.runs.run_dir import RunDir
    from surelabel.verdicts import Audit


@app.command()
def export(
    run: Run,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="New folder. Default: RUN/export")] = None,
    accept: Annotated[
        str,
        typer.Option(
            metavar="safe|all",
            help="Suggestions to accept: those that are likely right, if the audit can tell; or all of them.",
        ),
    ] = "safe",
    min_probability: Annotated[
        float, typer.Option(metavar="P", min=0, max=1, help="P(wrong) from which a label looks wrong.")
    ] = 0.5,
    class_cap: Annotated[
        float | None,
        typer.Option(
            metavar="S",
            min=0,
            max=1,
            help="Largest share of a class that the model may relabel. Default: 0.5; 1 with --accept all",
        ),
    ] = None,
    rewrite: Annotated[
        list[str] | None,
        typer.Option(metavar="SPLIT", help="Let the model relabel this held-out split too, e.g. validation."),
    ] = None,
    annotators: Annotated[
        str,
        typer.Option(
            metavar="last|majority|agree",
            help="Of several annotators: the last decision, that of more than half, or that of all. Other rows count "
            "as unsure.",
        ),
    ] = "last",
    images: Annotated[str | None, typer.Option(metavar="link|copy", help="The images too, in class folders.")] = None,
    formats: Annotated[
        list[str] | None,
        typer.Option(
            "--format",
            metavar="NAME",
            help="Also write files for another tool: label-studio, fiftyone, cleanlab, datalab or hf (Hugging Face). "
            "May be repeated.",
        ),
    ] = None,
    undo: Annotated[bool, typer.Option("--undo", help="Remove what an export wrote.")] = False,
    onnx: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the trained model as ONNX instead.")] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Export although decisions are lost: decisions.jsonl is damaged.")
    ] = False,
    trust: Trust = False,
    json: Json = False,
) -> None:
    """Write the cleaned labels as files for other tools; the data themselves are never changed."""
    folder = out or run / "export"
    if undo:
        from surelabel.exporting import undo as undo_export

        left = undo_export(folder)
        _say_either(
            json,
            {"removed": folder, "left": left},
            f"Removed the export in {folder}" + (f"; left: {left}" if left else ""),
        )
    elif onnx is not None:
        _write_onnx(run, onnx, trust, json)
    else:
        from surelabel.exporting import Rules

        rules = Rules(accept, min_probability, class_cap)
        chosen = {"rewrite": rewrite or [], "formats": formats or []}
        _write(run, folder, rules, json, images=images, force=force, annotators=annotators, **chosen)


def _write(
    run: Path,
    folder: Path,
    rules: "Rules",
    json: bool,
    *,
    rewrite: list[str],
    images: str | None,
    force: bool,
    annotators: str,
    formats: list[str],
) -> None:
    from surelabel.data.sources.image_files import original_files
    from surelabel.data.sources.objects import is_object
    from surelabel.data.sources.tables.row_cells import read_texts
    from surelabel.exporting import export
    from surelabel.runs.decisions import FILE_NAME, REMOVE, RULES, UNSURE, Journal
    from surelabel.runs.locate import config_from_here
    from surelabel.runs.run_dir import RunDir
    from surelabel.verdicts import audit

    if images not in (None, "link", "copy"):
        raise ConfigError(f"--images {images}: expected link or copy")
    run_dir = RunDir.open(run)
    if annotators not in RULES:
        raise ConfigError(f"--annotators {annotators}: expected {', '.join(RULES)}")
    table = audit(run_dir, annotators=annotators)
    decisions = Journal(run / FILE_NAME, rule=annotators).decisions()
    here = config_from_here(run_dir).data
    texts = read_texts(here) if formats else None
    paths = original_files(here, map(str, table.columns["id"])) if images or (formats and texts is None) else None
    written = export(
        run_dir,
        table,
        decisions,
        folder,
        rules=rules,
        rewrite=rewrite,
        images=images,
        paths=paths,
        force=force,
        formats=formats,
        texts=texts,
    )
    for text in written.warnings:
        console.tell(f"note: {text}")
    if json:
        before, after = written.cleaned.expected_right or (None, None)
        more = {
            "expected_right_before": before,
            "expected_right_after": after,
            "expected_right_between": written.cleaned.right_between,
            "doubt": written.cleaned.doubt,
        }
        listed = {"removed": REMOVE, "unsure": UNSURE}
        more |= {name: len(written.cleaned.list_decisions(action)) for name, action in listed.items()}
        console.say_json({"export": written.folder, **written.counts, **more})
        return
    _say_counts(run, table, written, has_more=rules.accept == "safe")
    if not is_object(run_dir.config().data.source):
        console.say(f"Retrain: {shlex.join(_retrain_command(run_dir, folder))}")
        if (method := run_dir.config().method).is_foreign:
            console.say(f"  Its method {method.name} is not part of surelabel: add --trust if you trust that module")


def _say_counts(run: Path, table: "Audit", written: "Exported", has_more: bool) -> None:
    """Print the counts, the expected number of right labels, and what to review first."""
    from surelabel.runs.decisions import REMOVE, UNSURE
    from surelabel.verdicts.corrections import REVIEW

    counts, cleaned = written.counts, written.cleaned
    parts = ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in counts.items() if name != "rows")
    console.say(f"{written.folder}: {counts['rows']:,} rows: {parts}")
    for action, text in (
        (REMOVE, "removed: removed.csv"),
        (UNSURE, "unsure, for somebody else to look at: unsure.csv"),
    ):
        if count := len(cleaned.list_decisions(action)):
            console.say(f"{count:,} row{'s'[: count != 1]} {text}")
    if table.review is not None:
        console.say_prose(table.sentences()[0])
    if cleaned.expected_right is not None:
        before, after = cleaned.expected_right
        of = f"{len(table):,}" if len(cleaned) == len(table) else f"{len(table):,} and {len(cleaned):,}"
        ends = " to ".join(f"{end:,.0f}" for end in cleaned.right_between or ())
        console.say(f"Labels expected to be right: {before:,.0f} before, {after:,.0f} after ({ends}), of {of}")
    else:
        console.say("Labels expected to be right: not known, before or after")
    if cleaned.doubt is not None:
        doubt = cleaned.doubt.replace(REVIEW, f"surelabel review {shlex.quote(str(run))}")
        console.say_prose(f"No suggestion was accepted: {doubt}.")
    if counts["review_first"]:
        place = shlex.quote(str(run))
        count = counts["review_first"]
        verb = "looks wrong and keeps its label" if count == 1 else "look wrong and keep their labels"
        console.say(f"Review first: {count:,} label{'s'[: count != 1]} {verb}")
        console.say(f"  surelabel review {place}                  look at them and decide")
        if has_more:
            console.say(f"  surelabel export {place} --accept all     accept every suggestion unseen")


def _retrain_command(run: "RunDir", export: Path) -> list[str]:
    """Return the command that trains on the cleaned labels from the current folder."""
    from surelabel.config import MethodConfig
    from surelabel.runs.locate import moved_paths
    from surelabel.runs.run_dir import RECORDED

    files = ["--labels", str(export / "cleaned.csv"), "--trusted", str(export / "decisions.csv")]
    named = ("data.labels", "data.trusted", "noise.path")
    settings = [f"{name}={dumps(path)}" for name, path in moved_paths(run).items() if name not in named]
    # A run that another loop recorded names no method of ours.
    method = ["--method", MethodConfig().name] if RECORDED in run.data() else []
    # The cleaned labels already contain the added noise.
    settings += [] if run.config().noise is None else ["noise=null"]
    changes = [word for setting in settings for word in ("--set", setting)]
    return ["surelabel", "fit", "--config", str(run.path / "config.json"), *method, *files, *changes]


def _write_onnx(run: Path, file: Path, trust: bool, json: bool) -> None:
    from surelabel import api
    from surelabel.data.protected_files import refuse_overwriting_inputs
    from surelabel.exporting.onnx import write_onnx
    from surelabel.runs.run_dir import RunDir

    refuse_overwriting_inputs([file], [RunDir.open(run)], option="--onnx")
    difference = write_onnx(api.load(run, trust=trust), file)
    _say_either(
        json,
        {"onnx": file, "largest_difference": difference},
        f"{file}: differs from the model by at most {difference:.1g}",
    )


def _say_either(json: bool, content: dict[str, object], text: str) -> None:
    if json:
        console.say_json(content)
    else:
        console.say(text)
