"""The same labels in every source that takes labels: files, frames, data sets, arrays and lists."""

import csv
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from PIL import Image

from surelabel.config import DataConfig
from surelabel.data import load_corpus

REPEATS = 3


@dataclass(frozen=True)
class Labels:
    """Values of one type, and what they are called as classes."""

    name: str
    values: Sequence[Any]
    expected: tuple[str, ...] | None
    """The class of each value; None if typed sources refuse one of them."""
    arrow: Any = None
    """The arrow type; None if no column can hold the values."""
    numpy: Any = None
    """The type of an array; None if no array can hold the values."""

    @property
    def rows(self) -> list[Any]:
        """All values, several times."""
        return list(self.values) * REPEATS


def column(labels: Labels) -> Any:
    """Return an arrow column; values of a view or a dictionary are cast to it."""
    kind = labels.arrow
    if pa.types.is_dictionary(kind):
        return pa.array(labels.rows, kind.value_type).dictionary_encode()
    return pa.array(labels.rows, kind)


def features(count: int) -> np.ndarray:
    """Return different features for each row."""
    return np.arange(2 * count, dtype=np.float32).reshape(count, 2)


def table(labels: Labels) -> Any:
    """Return a table of two features and the labels."""
    x = features(len(labels.rows))
    return pa.table({"f": x[:, 0], "g": x[:, 1], "label": column(labels)})


def array(labels: Labels) -> np.ndarray:
    """Return the labels as an array."""
    return np.array(labels.rows, dtype=labels.numpy)


def names_in(source: Any, data: Any = None, **settings: Any) -> tuple[str, ...]:
    """Return the class of each value, as the source reads it."""
    config = DataConfig(source=str(source), cache=False, **settings)
    corpus = load_corpus(config, data)
    found = tuple(corpus.class_names[number] for number in corpus.train.label.tolist())
    size = len(found) // REPEATS
    assert found == found[:size] * REPEATS
    return found[:size]


def in_csv(labels: Labels, folder: Path) -> tuple[str, ...]:
    """Read a table of text: what the names are compared with."""
    assert labels.expected is not None
    path = folder / "t.csv"
    with path.open("w", newline="") as file:
        rows = zip(features(len(labels.rows))[:, 0], labels.expected * REPEATS, strict=True)
        csv.writer(file).writerows([("f", "label"), *rows])
    return names_in(path)


def in_label_file(labels: Labels, folder: Path) -> tuple[str, ...]:
    """Give the text of the labels in a file of labels."""
    assert labels.expected is not None
    count = len(labels.rows)
    np.savez(folder / "x.npz", x=features(count), y=np.arange(count) % 2)
    with (folder / "l.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("id", "label"), *enumerate(labels.expected * REPEATS)])
    return names_in(folder / "x.npz", labels=str(folder / "l.csv"))


def in_parquet(labels: Labels, folder: Path) -> tuple[str, ...]:
    """Read a parquet file."""
    pq.write_table(table(labels), folder / "t.parquet")
    return names_in(folder / "t.parquet")


def in_parquet_folder(labels: Labels, folder: Path) -> tuple[str, ...]:
    """Read a folder as the hub has it, of two files."""
    whole, half = table(labels), len(labels.rows) // 2
    for number, part in enumerate((whole.slice(0, half), whole.slice(half))):
        (folder / "hub").mkdir(exist_ok=True)
        pq.write_table(part, folder / "hub" / f"train-{number:05d}-of-00002.parquet")
    return names_in(folder / "hub")


def in_arrow(labels: Labels, _folder: Path) -> tuple[str, ...]:
    """Read an arrow table, as polars and others hand it over."""
    return names_in("<frame>", table(labels))


def in_frame(labels: Labels, _folder: Path) -> tuple[str, ...]:
    """Read a pandas frame with the type that pandas chooses."""
    return names_in("<frame>", frame(labels))


def frame(labels: Labels) -> Any:
    """Return a pandas frame."""
    if labels.arrow is not None:
        return table(labels).to_pandas()
    x = features(len(labels.rows))
    return pd.DataFrame({"f": x[:, 0], "g": x[:, 1], "label": pd.Series(labels.rows, dtype=object)})


def in_hub(labels: Labels, _folder: Path) -> tuple[str, ...]:
    """Read an object of the package datasets."""
    import datasets

    return names_in("<dataset x>", datasets.Dataset(datasets.table.InMemoryTable(table(labels))))


def in_npz(labels: Labels, folder: Path) -> tuple[str, ...]:
    """Read an archive."""
    np.savez(folder / "a.npz", x=features(len(labels.rows)), y=array(labels))
    return names_in(folder / "a.npz")


def in_npz_column(labels: Labels, folder: Path) -> tuple[str, ...]:
    """Read an archive whose labels are (N, 1)."""
    np.savez(folder / "a.npz", x=features(len(labels.rows)), y=array(labels)[:, None])
    return names_in(folder / "a.npz")


def in_npy(labels: Labels, folder: Path) -> tuple[str, ...]:
    """Read an array with its labels beside it."""
    np.save(folder / "x.npy", features(len(labels.rows)))
    np.save(folder / "y.npy", array(labels))
    return names_in(folder / "x.npy")


def in_arrays(labels: Labels, _folder: Path) -> tuple[str, ...]:
    """Take arrays."""
    return names_in("<arrays>", (features(len(labels.rows)), array(labels)))


def in_list(labels: Labels, _folder: Path) -> tuple[str, ...]:
    """Take a list."""
    return names_in("<arrays>", (features(len(labels.rows)), labels.rows))


def in_series(labels: Labels, _folder: Path) -> tuple[str, ...]:
    """Take a column of a pandas frame as labels."""
    return names_in("<arrays>", (features(len(labels.rows)), frame(labels)["label"]))


def in_tensor(labels: Labels, _folder: Path) -> tuple[str, ...]:
    """Take a tensor."""
    return names_in("<arrays>", (torch.from_numpy(features(len(labels.rows))), torch.from_numpy(array(labels))))


class Items(torch.utils.data.Dataset):
    """A torch data set of features and labels."""

    def __init__(self, labels: Labels) -> None:
        self.x, self.y = features(len(labels.rows)), labels.rows

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, row: int) -> Any:
        return self.x[row], self.y[row]


def in_torch_dataset(labels: Labels, _folder: Path) -> tuple[str, ...]:
    """Take a torch Dataset."""
    return names_in("<dataset Items>", Items(labels))


def in_folder(labels: Labels, folder: Path) -> tuple[str, ...]:
    """Read an image folder whose folders have these names, in the order of the values."""
    for number, name in enumerate(labels.values):
        for copy in range(REPEATS):
            (folder / "images" / name).mkdir(parents=True, exist_ok=True)
            image = Image.new("RGB", (8, 8), (number, copy, 0))
            image.save(folder / "images" / name / f"{number}-{copy}.png")
    corpus = load_corpus(DataConfig(source=str(folder / "images"), cache=False))
    by_name = {Path(id).name: corpus.class_names[label] for id, label in zip(*_ids_and_labels(corpus), strict=True)}
    return tuple(by_name[f"{number}-0.png"] for number in range(len(labels.values)))


def _ids_and_labels(corpus: Any) -> tuple[list[str], list[int]]:
    return corpus.train.ids.tolist(), corpus.train.label.tolist()


def is_folder_name(value: Any) -> bool:
    """Return whether a folder can be called so, and is not passed over."""
    return isinstance(value, str) and bool(value.strip()) and not set(value) & set("/\0") and value[0] != "."


NUMBERS = (np.bool_, np.int8, np.int16, np.int32, np.int64, np.uint8, np.float16, np.float32, np.float64)

SOURCES: dict[str, tuple[Callable[[Labels, Path], tuple[str, ...]], Callable[[Labels], bool]]] = {
    "csv": (in_csv, lambda labels: labels.expected is not None),
    "labels.csv": (in_label_file, lambda labels: labels.expected is not None),
    "parquet": (in_parquet, lambda labels: labels.arrow is not None and "view" not in str(labels.arrow)),
    "parquet folder": (in_parquet_folder, lambda labels: labels.arrow is not None and "view" not in str(labels.arrow)),
    "arrow": (in_arrow, lambda labels: labels.arrow is not None),
    "pandas": (in_frame, lambda _: True),
    "datasets": (in_hub, lambda labels: labels.arrow is not None and _fits_datasets(labels.arrow)),
    "npz": (in_npz, lambda labels: labels.numpy is not None),
    "npz (N, 1)": (in_npz_column, lambda labels: labels.numpy is not None),
    "npy": (in_npy, lambda labels: labels.numpy is not None),
    "arrays": (in_arrays, lambda labels: labels.numpy is not None),
    "list": (in_list, lambda _: True),
    "series": (in_series, lambda _: True),
    "tensor": (in_tensor, lambda labels: labels.numpy in NUMBERS),
    "torch Dataset": (in_torch_dataset, lambda _: True),
    "folder": (in_folder, lambda labels: all(map(is_folder_name, labels.values))),
}
"""How to read labels from each source, and whether it can hold them."""


def _fits_datasets(kind: Any) -> bool:
    import datasets

    try:
        datasets.Features.from_arrow_schema(pa.schema({"label": kind}))
    except Exception:  # it has no type of its own for some of arrow's
        return False
    return True
