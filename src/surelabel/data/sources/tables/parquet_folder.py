"""Folders of parquet files in the hub's layout: train and test parts by name, in one or in many files.

Files lie in the folder or in sub-folders, as in data/train-00000-of-00002.parquet or plain_text/test-00000-of-00001.parquet or
default/train/0000.parquet. Parts called validation and others are left alone. Files without such a name are all to train
on. Links may not lead out of the folder, except into the store of a hub's download.
"""

import os
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np

from surelabel.config import DataConfig
from surelabel.data.images.load import is_image
from surelabel.data.inputs import Inputs, Shape
from surelabel.data.sources.interface import Parts
from surelabel.data.sources.tables.columns import roles_of
from surelabel.data.sources.tables.parquet_file import SUFFIX, read_parquet
from surelabel.data.sources.tables.rows import Part, inputs_of, parts_of
from surelabel.errors import DataError

KIND = "a folder of .parquet files as the hub has them"
BUNDLED: tuple[str, ...] = ()

_SPLIT = re.compile(r"(?:^|[-_. ])(train|test|validation|valid|val|dev)(?:[-_. ]|$)", re.IGNORECASE)
_SHARD = re.compile(r"-(\d+)-of-(\d+)$")
_DEEPEST = 2
"""Sub-folders below the root."""
_LOOKED_AT = 200
"""Entries of a sub-folder by which it is judged: folders of images have many."""


def accepts(source: str) -> bool:
    """A folder with parquet files, unless it is one of images that has them beside."""
    if not source or not Path(source).is_dir():
        return False
    files = list(_files(Path(source), _LOOKED_AT))
    return any(_split(path, Path(source)) for path in files) or (bool(files) and not _has_images(Path(source)))


def read(config: DataConfig, shape: Shape | None = None) -> Parts:
    """The training part and the test part."""
    root = Path(config.source)
    files = _by_split(root)
    main = "test" if shape is not None and "test" in files else "train"
    if main not in files:
        raise DataError(f"{root}: no train part, only {', '.join(sorted(files))}; expected train-*{SUFFIX}")
    train = _opened(files[main], config, is_test=shape is not None)
    if shape is not None or "test" not in files:
        return parts_of(train, config, shape)
    return parts_of(train, config, None, {"test": _opened(files["test"], config, is_test=True)})


def read_inputs(config: DataConfig, shape: Shape) -> tuple[Inputs, np.ndarray]:
    """The test part, or the training part where there is no other."""
    files = _by_split(Path(config.source))
    return inputs_of(_opened(files.get("test") or files["train"], config, needs_label=False), config, shape)


def _opened(files: list[Path], config: DataConfig, needs_label: bool = True, is_test: bool = False) -> Part:
    roles = partial(roles_of, config=config, needs_label=needs_label, is_test=is_test)
    where = str(files[0]) if len(files) == 1 else config.source
    return read_parquet(files, where, roles)


def _by_split(root: Path) -> dict[str, list[Path]]:
    """Files by the name of their part."""
    files: defaultdict[str, list[Path]] = defaultdict(list)
    for path in sorted(_files(root)):
        files[_split(path, root) or ""].append(_inside(path, root))
    unnamed = files.pop("", [])
    if not files:
        files["train"] = unnamed
    _refuse_several(root, [path for paths in files.values() for path in paths])
    for paths in files.values():
        _refuse_missing_shards(paths)
    return dict(files)


def _files(root: Path, most: int | None = None, depth: int = _DEEPEST) -> Iterator[Path]:
    """Parquet files of the highest folders that have any; of each folder only the first entries, if so asked."""
    entries = _entries(root, most)
    found = [Path(entry.path) for entry in entries if entry.name.lower().endswith(SUFFIX)]
    yield from found
    if not found and depth:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from _files(Path(entry.path), most, depth - 1)


def _entries(folder: Path, most: int | None = None) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return [entry for entry in islice(entries, most) if not entry.name.startswith(".")]
    except OSError as error:
        raise DataError(f"{folder}: not readable as a folder ({error.strerror})") from None


def _has_images(root: Path) -> bool:
    folders = [root, *(Path(entry.path) for entry in _entries(root, _LOOKED_AT) if entry.is_dir(follow_symlinks=False))]
    return any(is_image(Path(entry.name)) for folder in folders for entry in _entries(folder, _LOOKED_AT))


def _split(path: Path, root: Path) -> str | None:
    """train, test or validation: the file's name says it, or a folder's."""
    for name in reversed(path.relative_to(root).with_suffix("").parts):
        if found := _SPLIT.search(name):
            split = found[1].lower()
            return split if split in ("train", "test") else "validation"
    return None


def _inside(path: Path, root: Path) -> Path:
    """The path, which must not lead out of the root."""
    base = root.resolve()
    stores = [folder.parent / "blobs" for folder in (base, *base.parents) if folder.name == "snapshots"]
    if not any(path.resolve().is_relative_to(place) for place in (base, *stores)):
        raise DataError(f"{path}: a link that leads out of {root}; copy the file, or give the folder it is in")
    return path


def _refuse_several(root: Path, paths: list[Path]) -> None:
    folders = [path.relative_to(root).parts[:-1] for path in paths]
    sets = sorted({"/".join(name for name in parts if not _SPLIT.search(name)) for parts in folders})
    if len(sets) > 1:
        raise DataError(f"{root}: several data sets in the folders {', '.join(sets)}; give one of them")


def _refuse_missing_shards(paths: list[Path]) -> None:
    """Half of a download looks like a whole data set."""
    numbers = {(found[2], int(found[1])): path for path in paths if (found := _SHARD.search(path.stem))}
    for (total, _), path in numbers.items():
        missing = [other for other in range(int(total)) if (total, other) not in numbers]
        if missing:
            name = _SHARD.sub(f"-{missing[0]:0{len(total)}d}-of-{total}", path.stem) + path.suffix
            more = f" (and {len(missing) - 1} more)" if len(missing) > 1 else ""
            raise DataError(f"{path.with_name(name)}{more}: missing; {total.lstrip('0')} files belong together")
