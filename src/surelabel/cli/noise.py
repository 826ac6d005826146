"""`surelabel noise`: write noisy labels to a file."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from surelabel import console
from surelabel.cli.options import Json, app, takes_some_settings
from surelabel.config import RunConfig


@app.command()
@takes_some_settings(
    "data",
    "root",
    "labels",
    "trusted",
    "image_root",
    "label_column",
    "text_column",
    "group",
    "unreadable",
    "noise",
    "seed",
    "cache",
    "config",
    "set_",
)
def noise(
    settings: RunConfig,
    config: Path | None,
    out: Annotated[
        Path,
        typer.Option(
            metavar="FILE", help="File to write: .npy with class numbers by row, or .csv with id and class name."
        ),
    ],
    json: Json = False,
) -> None:
    """Write the noisy labels that fit would train on, for use with fit --noise file:FILE."""
    from surelabel import api
    from surelabel.data.protected_files import list_configured_files
    from surelabel.files import refuse_overwriting
    from surelabel.noise import manifest_path

    inputs = [*list_configured_files(settings), *([config] if config else [])]
    refuse_overwriting([out, manifest_path(out)], inputs, "--out")
    manifest, files = api.write_noise(settings, out)
    if json:
        found = manifest.model_dump(exclude={"realised_matrix", "realised_counts", "class_names"})
        console.say_json({"labels": files[0], "manifest": files[1], **found})
        return
    console.say(manifest.describe())
    use = shlex.join(["surelabel", "fit", settings.data.source, "--noise", f"file:{files[0]}"])
    console.say(f"Labels: {files[0]}   Manifest: {files[1]}   Use them: {use}")
