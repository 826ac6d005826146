"""Folders of images: ROOT/CLASS/image.png, or ROOT/train/CLASS/image.png and the same for test.

A folder `train` means the second form, unless it directly contains an image. Folders next to
`train` and `test`, such as val, are then ignored; they can be named as `data.test`. Images may be
deeper inside their class folder; one without images is mentioned and passed over. Names that start
with a dot are skipped, others must be UTF-8. Links must not lead out of the root, so that a folder
from elsewhere cannot pull in other files. With `data.labels`, images may also be outside class
folders; that file must then label them.
"""

import logging
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from surelabel.config import DataConfig
from surelabel.data.images.load import Files, is_image, load_images
from surelabel.data.inputs import Inputs, Shape
from surelabel.data.sources.checks import and_more, is_utf8, refuse_lost_classes, refuse_not_utf8, resolve_inside
from surelabel.data.sources.interface import Parts, Rows
from surelabel.data.sources.labels import name_labels
from surelabel.errors import DataError

_log = logging.getLogger("surelabel")

KIND = "a folder with a sub-folder of images for each class"
BUNDLED: tuple[str, ...] = ()


def accepts(source: str) -> bool:
    """Return whether `source` is a folder that exists."""
    return bool(source) and Path(source).is_dir()


def read(config: DataConfig, shape: Shape | None = None) -> Parts:
    """Read a row for each image, in the order of the sorted paths, which are the ids."""
    root = Path(config.source)
    if not _is_divided(root):
        return Parts(_read_rows(root, root, config, shape))
    train = _read_rows(root / "train", root, config, shape)
    if not (root / "test").is_dir():
        return Parts(train)
    return Parts(train, {"test": _read_rows(root / "test", root, config, shape or tuple(train.x.shape[1:]))})


def read_inputs(config: DataConfig, shape: Shape) -> tuple[Inputs, np.ndarray]:
    """Read every image at any depth, with or without class folders."""
    root = Path(config.source)
    paths = list(_images(root, root))
    if not paths:
        raise DataError(f"{root}: no images in this folder")
    x, kept, _ = load_images(Files(paths, root), config, shape, config.source)
    return x, _ids(paths, root)[kept]


def _is_divided(root: Path) -> bool:
    return (root / "train").is_dir() and not any(map(is_image, _entries(root / "train")))


def _read_rows(folder: Path, root: Path, config: DataConfig, shape: Shape | None) -> Rows:
    paths = _loose_images(folder, root, config)
    names, empty = [""] * len(paths), []
    for class_folder in _class_folders(folder, is_needed=not paths):
        images = list(_images(class_folder, root))
        if not images:
            empty.append(class_folder)
        paths += images
        names += [class_folder.name] * len(images)
    if not paths:
        raise DataError(f"{folder}: no images in its class folders")
    for class_folder in empty:
        _log.warning("%s: a class folder without images is passed over", class_folder)
    labels = name_labels(
        names,
        lambda row, text: DataError(f"{paths[row]}: its class folder {text}"),
        may_be_missing=config.labels is not None,
    )
    x, kept, encoded = load_images(Files(paths, root), config, shape, config.source)
    if shape is None:
        refuse_lost_classes(labels, labels[kept], config.source)
    return Rows(x, labels[kept], _ids(paths, root)[kept], positions=kept, encoded=encoded)


def _loose_images(folder: Path, root: Path, config: DataConfig) -> list[Path]:
    """Return the images in no class folder, which only `data.labels` can label."""
    loose = [entry for entry in _entries(folder) if is_image(entry) and entry.is_file()]
    if loose and config.labels is None:
        first = f"{loose[0]}{and_more(len(loose))}"
        raise DataError(
            f"{first}: an image without a label; expected {folder}/CLASS/{loose[0].name}, or data.labels (--labels)"
        )
    return [_check_link(path, root) for path in loose]


def _class_folders(folder: Path, is_needed: bool) -> list[Path]:
    folders = [entry for entry in _entries(folder) if entry.is_dir()]
    if not folders and is_needed:
        raise DataError(f"{folder}: no class folders; expected {folder}/CLASS/image.png")
    return folders


def _images(folder: Path, root: Path, above: tuple[Path, ...] = ()) -> Iterator[Path]:
    """Yield the images at any depth; `above` are the parent folders, to detect circular links."""
    real = resolve_inside(folder, root)
    if real in above:
        raise DataError(f"{folder}: a link to a folder that contains it")
    for entry in _entries(folder):
        if entry.is_dir():
            yield from _images(entry, root, (*above, real))
        elif is_image(entry):
            yield _check_link(entry, root)


def _check_link(path: Path, root: Path) -> Path:
    """Return the path; raise if it is a link that leads out of the root."""
    if path.is_symlink():
        resolve_inside(path, root)
    return path


def _entries(folder: Path) -> list[Path]:
    try:
        entries = sorted(entry for entry in folder.iterdir() if not entry.name.startswith((".", "__MACOSX")))
    except OSError as error:
        raise DataError(f"{folder}: not readable as a folder ({error.strerror})") from None
    for entry in entries:
        # Entries that are neither folders nor images are skipped, whatever their name.
        if not is_utf8(entry.name) and (entry.is_dir() or is_image(entry)):
            refuse_not_utf8(entry)
    return entries


def _ids(paths: list[Path], root: Path) -> np.ndarray:
    return np.array([path.relative_to(root).as_posix() for path in paths])
