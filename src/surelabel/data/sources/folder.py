"""Folders of images: ROOT/CLASS/image.png, or ROOT/train/CLASS/image.png with ROOT/test beside it.

A folder `train` means the second form if no image stands directly in it; folders beside `train` and `test` (val, valid)
are then left alone, and can be named as `data.test`. Images may lie deeper inside their class folder. Names that start
with a dot are passed over, others must be UTF-8. Links may not lead out of the root, so that a foreign folder cannot
pull in other files. With `data.labels` images may also lie outside class folders; that file then has to label them.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from surelabel.config import DataConfig
from surelabel.data.images.load import Files, is_image, load_images
from surelabel.data.inputs import Inputs, Shape
from surelabel.data.sources.checks import is_utf8, refuse_lost_classes, refuse_not_utf8
from surelabel.data.sources.interface import Parts, Rows
from surelabel.errors import DataError

KIND = "a folder with a sub-folder of images for each class"
BUNDLED: tuple[str, ...] = ()


def accepts(source: str) -> bool:
    """Any folder that exists."""
    return bool(source) and Path(source).is_dir()


def read(config: DataConfig, shape: Shape | None = None) -> Parts:
    """A row for each image, in the order of the sorted paths, which are the ids."""
    root = Path(config.source)
    if not _has_parts(root):
        return Parts(_rows(root, root, config, shape))
    train = _rows(root / "train", root, config, shape)
    if not (root / "test").is_dir():
        return Parts(train)
    return Parts(train, {"test": _rows(root / "test", root, config, shape or tuple(train.x.shape[1:]))})


def read_inputs(config: DataConfig, shape: Shape) -> tuple[Inputs, np.ndarray]:
    """Every image at any depth, with or without class folders."""
    root = Path(config.source)
    paths = list(_images(root, root))
    if not paths:
        raise DataError(f"{root}: no images in this folder")
    x, kept = load_images(Files(paths), config, shape, config.source)
    return x, _ids(paths, root)[kept]


def _has_parts(root: Path) -> bool:
    return (root / "train").is_dir() and not any(map(is_image, _entries(root / "train")))


def _rows(folder: Path, root: Path, config: DataConfig, shape: Shape | None) -> Rows:
    paths, names = _loose_images(folder, root, config), []
    names += [""] * len(paths)
    for class_folder in _class_folders(folder, is_needed=not paths):
        images = list(_images(class_folder, root))
        if not images:
            raise DataError(f"{class_folder}: a class folder without images")
        paths += images
        names += [class_folder.name] * len(images)
    x, kept = load_images(Files(paths), config, shape, config.source)
    if shape is None:
        refuse_lost_classes(np.array(names), np.array(names)[kept], config.source)
    return Rows(x, np.array(names)[kept], _ids(paths, root)[kept])


def _loose_images(folder: Path, root: Path, config: DataConfig) -> list[Path]:
    """Images in no class folder, which only `data.labels` can label."""
    loose = [entry for entry in _entries(folder) if is_image(entry) and entry.is_file()]
    if loose and config.labels is None:
        more = f" (and {len(loose) - 1} more)" if len(loose) > 1 else ""
        raise DataError(
            f"{loose[0]}{more}: an image without a label; expected {folder}/CLASS/{loose[0].name}, or data.labels (--labels)"
        )
    return [_linked(path, root) for path in loose]


def _class_folders(folder: Path, is_needed: bool) -> list[Path]:
    folders = [entry for entry in _entries(folder) if entry.is_dir()]
    if not folders and is_needed:
        raise DataError(f"{folder}: no class folders; expected {folder}/CLASS/image.png")
    return folders


def _images(folder: Path, root: Path, above: tuple[Path, ...] = ()) -> Iterator[Path]:
    """Images at any depth; `above` are the real folders on the way, by which a circle of links is noticed."""
    real = _inside(folder, root)
    if real in above:
        raise DataError(f"{folder}: a link to a folder that it lies in")
    for entry in _entries(folder):
        if entry.is_dir():
            yield from _images(entry, root, (*above, real))
        elif is_image(entry):
            yield _linked(entry, root)


def _linked(path: Path, root: Path) -> Path:
    """The path; a link must stay inside the root."""
    if path.is_symlink():
        _inside(path, root)
    return path


def _inside(path: Path, root: Path) -> Path:
    """The real path, which must lie in the root."""
    real = path.resolve()
    if not real.is_relative_to(root.resolve()):
        raise DataError(f"{path}: a link that leads out of {root}; copy the files, or give the folder they are in")
    return real


def _entries(folder: Path) -> list[Path]:
    try:
        entries = sorted(entry for entry in folder.iterdir() if not entry.name.startswith((".", "__MACOSX")))
    except OSError as error:
        raise DataError(f"{folder}: not readable as a folder ({error.strerror})") from None
    for entry in entries:
        # What is neither folder nor image is passed over, whatever its name.
        if not is_utf8(entry.name) and (entry.is_dir() or is_image(entry)):
            refuse_not_utf8(entry)
    return entries


def _ids(paths: list[Path], root: Path) -> np.ndarray:
    return np.array([path.relative_to(root).as_posix() for path in paths])
