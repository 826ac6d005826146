"""`surelabel export`."""

import shlex
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from surelabel import screen
from surelabel.cli.application import Json, Run, Trust, app
from surelabel.errors import ConfigError

if TYPE_CHECKING:
    from surelabel.runs import RunDir


@app.command()
def export(
    run: Run,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="New folder. Default: RUN/export")] = None,
    min_probability: Annotated[
        float, typer.Option(metavar="P", min=0, max=1, help="Take suggestions from this P(wrong) on.")
    ] = 0.5,
    class_cap: Annotated[
        float | None, typer.Option(metavar="S", min=0, max=1, help="Largest share of a class to relabel.")
    ] = None,
    images: Annotated[str | None, typer.Option(metavar="link|copy", help="The images too, in class folders.")] = None,
    undo: Annotated[bool, typer.Option("--undo", help="Remove what an export wrote.")] = False,
    onnx: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the trained model as ONNX instead.")] = None,
    trust: Trust = False,
    json: Json = False,
) -> None:
    """The cleaned labels as files for other tools, with who decided what; the data themselves are never changed."""
    folder = out or run / "export"
    if undo:
        from surelabel.exporting import undo as take_back

        left = take_back(folder)
        _say(
            json,
            {"removed": folder, "left": left},
            f"Removed the export in {folder}" + (f"; left: {left}" if left else ""),
        )
    elif onnx is not None:
        _write_onnx(run, onnx, trust, json)
    else:
        _write(run, folder, min_probability, class_cap, images, json)


def _write(
    run: Path, folder: Path, min_probability: float, class_cap: float | None, images: str | None, json: bool
) -> None:
    from surelabel.data.objects import is_object
    from surelabel.data.originals import original_files
    from surelabel.exporting import Rules, export
    from surelabel.reviewing.journal import FILE_NAME, Journal
    from surelabel.runs import RunDir
    from surelabel.verdicts import audit
    from surelabel.whereabouts import config_from_here

    if images not in (None, "link", "copy"):
        raise ConfigError(f"--images {images}: expected link or copy")
    run_dir = RunDir.open(run)
    table = audit(run_dir)
    decisions = Journal(run / FILE_NAME).decisions()
    paths = original_files(config_from_here(run_dir).data, map(str, table.columns["id"])) if images else None
    rules = Rules(min_probability, class_cap)
    written = export(run_dir, table, decisions, folder, rules=rules, images=images, paths=paths)
    for text in written.warnings:
        screen.tell(f"note: {text}")
    counts = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in written.counts.items())
    _say(json, {"export": written.folder, **written.counts}, f"{written.folder}: {counts}")
    if not json and not is_object(run_dir.config().data.source):
        screen.say(f"Retrain: {shlex.join(_retraining(run_dir, folder))}")


def _retraining(run: "RunDir", export: Path) -> list[str]:
    """The command that trains on the cleaned labels, from here."""
    from surelabel.whereabouts import moved_paths

    files = ["--labels", str(export / "cleaned.csv"), "--trusted", str(export / "decisions.csv")]
    named = ("data.labels", "data.trusted", "noise.path")
    settings = [f"{name}={dumps(path)}" for name, path in moved_paths(run).items() if name not in named]
    # The labels after cleaning hold what noise was added; it must not be added again.
    settings += [] if run.config().noise is None else ["noise=null"]
    changes = [word for setting in settings for word in ("--set", setting)]
    return ["surelabel", "fit", "--config", str(run.path / "config.json"), *files, *changes]


def _write_onnx(run: Path, file: Path, trust: bool, json: bool) -> None:
    from surelabel import api
    from surelabel.onnx_export import write_onnx
    from surelabel.runs import RunDir
    from surelabel.whereabouts import refuse_losing

    refuse_losing(file, [RunDir.open(run)], option="--onnx")
    difference = write_onnx(api.load(run, trust=trust), file)
    _say(
        json,
        {"onnx": file, "largest_difference": difference},
        f"{file}: differs from the model by at most {difference:.1g}",
    )


def _say(json: bool, content: dict[str, object], text: str) -> None:
    if json:
        screen.say_json(content)
    else:
        screen.say(text)
