"""Folders of parquet files in the layout of the Hugging Face hub.

Files are in the folder or in sub-folders, such as data/train-00000-of-00002.parquet,
plain_text/test-00000-of-00001.parquet or default/train/0000.parquet. Splits other than train and
test are ignored. Files whose name tells no split are all for training. Links must not lead out of
the folder, except into the store of a hub's download.
"""

import os
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np

from surelabel.config import DataConfig
from surelabel.data.images.load import is_image
from surelabel.data.inputs import Inputs, Shape
from surelabel.data.sources.checks import and_more, download_stores, resolve_inside
from surelabel.data.sources.interface import Parts
from surelabel.data.sources.tables.columns import Roles, find_roles
from surelabel.data.sources.tables.parquet_file import SUFFIX, read_parquet
from surelabel.data.sources.tables.rows import TablePart, make_inputs, make_parts, settings_like
from surelabel.data.sources.tables.table import Table
from surelabel.errors import DataError

KIND = "a folder of .parquet files as the hub has them"
BUNDLED: tuple[str, ...] = ()

_SPLIT = re.compile(r"(?:^|[-_. ])(train|test|validation|valid|val|dev)(?:[-_. ]|$)", re.IGNORECASE)
_SHARD = re.compile(r"-(\d+)-of-(\d+)$")
_MAX_DEPTH = 2
"""Levels of sub-folders below the root."""
_MAX_ENTRIES = 200
"""Entries of a sub-folder that are looked at to judge it: folders of images have many."""


def accepts(source: str) -> bool:
    """Return whether this is a folder of parquet files, not one of images that also has some."""
    if not source or not Path(source).is_dir():
        return False
    files = list(_files(Path(source), _MAX_ENTRIES))
    return any(_split(path, Path(source)) for path in files) or (bool(files) and not _has_images(Path(source)))


def read(config: DataConfig, shape: Shape | None = None) -> Parts:
    """Read the training split and the test split."""
    root = Path(config.source)
    files = _files_by_split(root)
    main = "test" if shape is not None and "test" in files else "train"
    if main not in files:
        raise DataError(f"{root}: no train part, only {', '.join(sorted(files))}; expected train-*{SUFFIX}")
    train = _read(files[main], config, is_test=shape is not None)
    if shape is not None or "test" not in files:
        return make_parts(train, config, shape)
    same = config.model_copy(update=settings_like(train, config))
    return make_parts(train, config, None, {"test": _read(files["test"], same, is_test=True)})


def read_inputs(config: DataConfig, shape: Shape) -> tuple[Inputs, np.ndarray]:
    """Read the inputs of the test split, or of the training split if there is no other."""
    files = _files_by_split(Path(config.source))
    return make_inputs(_read(files.get("test") or files["train"], config, needs_label=False), config, shape)


def read_training_files(config: DataConfig, find_roles: Callable[[Table], Roles]) -> TablePart:
    """Read the training split, with the columns that `find_roles` finds."""
    files = _files_by_split(Path(config.source))["train"]
    return read_parquet(files, config.source, find_roles)


def read_table(config: DataConfig) -> TablePart:
    """Read the table of the training split; a label column is not needed."""
    return _read(_files_by_split(Path(config.source))["train"], config, needs_label=False)


def _read(files: list[Path], config: DataConfig, needs_label: bool = True, is_test: bool = False) -> TablePart:
    roles = partial(find_roles, config=config, needs_label=needs_label, is_test=is_test)
    where = str(files[0]) if len(files) == 1 else config.source
    return read_parquet(files, where, roles)


def _files_by_split(root: Path) -> dict[str, list[Path]]:
    files: defaultdict[str, list[Path]] = defaultdict(list)
    stores = download_stores(root)
    for path in sorted(_files(root)):
        resolve_inside(path, root, stores)
        files[_split(path, root) or ""].append(path)
    unnamed = files.pop("", [])
    if not files:
        files["train"] = unnamed
    _refuse_several_sets(root, [path for paths in files.values() for path in paths])
    for paths in files.values():
        _refuse_missing_shards(paths)
    return dict(files)


def _files(root: Path, most: int | None = None, depth: int = _MAX_DEPTH) -> Iterator[Path]:
    """Yield the parquet files of the topmost folders that have any.

    At most `most` entries of each folder are looked at.
    """
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
    inner = (Path(entry.path) for entry in _entries(root, _MAX_ENTRIES) if entry.is_dir(follow_symlinks=False))
    return any(is_image(Path(entry.name)) for folder in (root, *inner) for entry in _entries(folder, _MAX_ENTRIES))


def _split(path: Path, root: Path) -> str | None:
    """Return train, test or validation, as the name of the file or of a folder says."""
    for name in reversed(path.relative_to(root).with_suffix("").parts):
        if found := _SPLIT.search(name):
            split = found[1].lower()
            return split if split in ("train", "test") else "validation"
    return None


def _refuse_several_sets(root: Path, paths: list[Path]) -> None:
    folders = [path.relative_to(root).parts[:-1] for path in paths]
    sets = sorted({"/".join(name for name in parts if not _SPLIT.search(name)) for parts in folders})
    if len(sets) > 1:
        raise DataError(f"{root}: several data sets in the folders {', '.join(sets)}; give one of them")


def _refuse_missing_shards(paths: list[Path]) -> None:
    """Raise if a shard is missing: half of a download looks like a whole data set."""
    numbers = {(found[2], int(found[1])): path for path in paths if (found := _SHARD.search(path.stem))}
    for (total, _), path in numbers.items():
        missing = [other for other in range(int(total)) if (total, other) not in numbers]
        if missing:
            name = _SHARD.sub(f"-{missing[0]:0{len(total)}d}-of-{total}", path.stem) + path.suffix
            first = f"{path.with_name(name)}{and_more(len(missing))}"
            raise DataError(f"{first}: missing; {total.lstrip('0')} files belong together")
