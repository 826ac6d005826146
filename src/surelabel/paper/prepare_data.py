"""Make the data that a scale needs: the first rows of a data set, or patch features of them."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch

from surelabel import files
from surelabel.config import DataConfig
from surelabel.data import Corpus, Examples, load_corpus
from surelabel.errors import DataError, SurelabelError
from surelabel.models.patches import draw_filters
from surelabel.paper.tables import PreparedData, Trial, find_scale


def prepare(
    scale: str,
    data_root: Path | None,
    folder: Path,
    trials: Sequence[Trial],
    tell: Callable[[str], None] = lambda _: None,
) -> dict[str, str]:
    """Make the missing files that these trials read; return why any of them could not be made.

    The result maps the names of trials without their file to the reason. `data_root` holds a folder
    for each data set, such as cifar10; None searches the usual places.
    """
    failures: dict[str, str] = {}
    for prepared in find_scale(scale).prepared.values():
        path = prepared.path(folder)
        readers = [trial for trial in trials if trial.config.data.source == str(path)]
        if not readers or path.is_file():
            continue
        tell(f"preparing {path}")
        try:
            prepare_one(prepared, data_root, folder)
        except SurelabelError as error:
            failures |= {trial.name: str(error) for trial in readers}
    return failures


def prepare_one(prepared: PreparedData, data_root: Path | None, folder: Path) -> None:
    """Make a file; writes are atomic, so a file that exists is complete."""
    root = None if data_root is None else str(data_root / prepared.data)
    corpus = load_corpus(DataConfig(source=prepared.data, root=root))
    _write(prepared.path(folder), _KINDS[prepared.kind](prepared, corpus))


def _subset(prepared: PreparedData, corpus: Corpus) -> dict[str, np.ndarray]:
    """Return the images themselves."""
    train, test = _first_rows(prepared, corpus)
    return {"x": _images(train).numpy(), "x_test": _images(test).numpy(), **_labels(train, test, corpus.class_names)}


def _patches(prepared: PreparedData, corpus: Corpus) -> dict[str, np.ndarray]:
    """Return features of the images, with filters drawn from the training images."""
    train, test = _first_rows(prepared, corpus)
    filters = draw_filters(_images(train), prepared.num_filters, prepared.patch_size, prepared.seed)
    x, x_test = (filters.features(_images(rows)).numpy() for rows in (train, test))
    return {"x": x, "x_test": x_test, **_labels(train, test, corpus.class_names)}


_KINDS = {"subset": _subset, "patches": _patches}


def _first_rows(prepared: PreparedData, corpus: Corpus) -> tuple[Examples, Examples]:
    parts = {"training": (corpus.train, prepared.num_train), "test": (corpus.tests["test"], prepared.num_test)}
    for name, (rows, count) in parts.items():
        if len(rows) < count:
            raise DataError(f"{prepared.data}: {len(rows)} {name} rows; this scale needs the first {count}")
    train, test = (rows.subset(np.arange(count)) for rows, count in parts.values())
    num_present, num_classes = len(np.unique(train.label.numpy())), len(corpus.class_names)
    if num_present < num_classes:  # folders of images are sorted by class
        raise DataError(
            f"{prepared.data}: its first {prepared.num_train} rows hold only {num_present} of {num_classes} classes; "
            "this scale needs the data in their original order: the hub's parquet files or the python batches"
        )
    return train, test


def _images(rows: Examples) -> torch.Tensor:
    """Return (N, C, H, W) uint8 in memory."""
    return rows.x[torch.arange(len(rows))]


def _labels(train: Examples, test: Examples, class_names: tuple[str, ...]) -> dict[str, np.ndarray]:
    """Return labels, ids and class names; the labels are clean, and runs inject noise into them."""
    return {
        "y": train.label.numpy(),
        "clean": (train.label if train.clean is None else train.clean).numpy(),
        "ids": train.ids.astype(np.str_),
        "y_test": test.label.numpy(),
        "ids_test": test.ids.astype(np.str_),
        "class_names": np.array(class_names),
    }


def _write(path: Path, arrays: dict[str, np.ndarray]) -> None:
    """Write a file completely or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    files.replace_stream(path, lambda file: np.savez(file, **arrays))  # type: ignore[arg-type]
