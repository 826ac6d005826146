"""Formats of other tools that an export can contain, by name."""

from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from surelabel.errors import ConfigError
from surelabel.exporting import cleanlab_frames, fiftyone, hugging_face, label_studio
from surelabel.exporting.material import Material

FORMATS: Mapping[str, Callable[[Path, Material], None]] = {
    "label-studio": label_studio.write,
    "fiftyone": fiftyone.write,
    "cleanlab": cleanlab_frames.write_label_issues,
    "datalab": cleanlab_frames.write_datalab,
    "hf": hugging_face.write,
}


def check_formats(names: Collection[str]) -> None:
    """Raise if there is no such format."""
    for name in names:
        if name not in FORMATS:
            raise ConfigError(f"--format {name}: expected {', '.join(FORMATS)}")


def write_formats(folder: Path, names: Collection[str], material: Material) -> None:
    """Write the files of these formats into the folder of an export."""
    for name in dict.fromkeys(names):
        FORMATS[name](folder, material)
