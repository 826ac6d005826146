"""Any map-style torch Dataset: rows by number, each (x, label) or {"image": x, "label": label}.

x is a Pillow image, or an array or tensor: an image in any usual layout, as whole numbers in 0..255 or floats in [0, 1], or a
vector of features. The data set is read once, into memory. The number of a row is its id, so a row must always be the
same one: some are read twice to see that. Classes have the names in its attribute `classes`, as torchvision's data sets do.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, IterableDataset

from surelabel.config import DataConfig
from surelabel.data.inputs import Shape
from surelabel.data.sources.array_conversion import label_names
from surelabel.data.sources.collecting import Arrays, Collected, Content, Pictures
from surelabel.data.sources.interface import Parts, Rows
from surelabel.data.sources.tables.columns import LABELS
from surelabel.errors import DataError

KIND = "a torch Dataset"

_INPUTS = ("image", "img", "x", "pixel_values", "features")
_READ_TWICE = 32
"""Rows that are read twice; a random mirroring of all images goes unnoticed once in 2^32 times."""


class _Item(NamedTuple):
    x: Content
    label: Any

    def differs_from(self, other: "_Item") -> bool:
        """In any pixel or in the label."""
        if self.label != other.label or isinstance(self.x, Image.Image) != isinstance(other.x, Image.Image):
            return True
        if isinstance(self.x, Image.Image):
            return self.x != other.x
        mine, theirs = np.asarray(self.x), np.asarray(other.x)
        return not np.array_equal(mine, theirs, equal_nan=mine.dtype.kind == "f")


def accepts(data: Any) -> bool:
    """What has rows by number, or gives them one after the other, which is refused later."""
    if isinstance(data, str | bytes | Mapping | list | tuple | set | np.ndarray | Tensor | type):
        return False
    return isinstance(data, Dataset | DataLoader) or hasattr(data, "__getitem__") or hasattr(data, "__iter__")


def describe(data: Any) -> str:
    """What stands for the data in a configuration."""
    return f"<dataset {type(data).__name__}>"


def read(data: Any, config: DataConfig, shape: Shape | None = None) -> Parts:
    """All rows, in their order."""
    where = describe(data)
    num_rows = _length(data, where)
    rows = _Reader(data, where, num_rows, needs_label=config.labels is None)
    collected, labels = rows.all()
    class_names = _class_names(data)
    x, kept = collected.inputs(config, shape)
    names = _names(labels, class_names, where)
    ids = np.arange(num_rows).astype(np.str_)
    return Parts(Rows(x, names[kept], ids[kept]), class_names=class_names)


def _length(data: Any, where: str) -> int:
    if isinstance(data, DataLoader):
        raise DataError(f"{where}: batches; give the data set itself, surelabel makes its own batches")
    if isinstance(data, IterableDataset) or not (hasattr(data, "__getitem__") and hasattr(data, "__len__")):
        raise DataError(
            f"{where}: an iterable data set, whose rows have no numbers; give one with __len__ and __getitem__, or arrays"
        )
    if not len(data):
        raise DataError(f"{where}: no rows to train on")
    return len(data)


class _Reader:
    """Rows of a data set, whatever form they have."""

    def __init__(self, data: Any, where: str, num_rows: int, needs_label: bool) -> None:
        self._data, self._where, self._num_rows, self._needs_label = data, where, num_rows, needs_label
        targets: Any = getattr(data, "targets", ())
        self._targets = targets if hasattr(targets, "__len__") and len(targets) == num_rows else None

    def all(self) -> tuple[Collected, list[Any]]:
        """Inputs and labels of all rows, which must be the same when some of them are read once more."""
        spread = set(np.linspace(0, self._num_rows - 1, _READ_TWICE).astype(int).tolist())
        first_read, labels = {}, []
        item = self._item(0)
        collected = (Pictures if isinstance(item.x, Image.Image) else Arrays)(self._num_rows, self._where)
        for row in range(self._num_rows):
            item = self._item(row) if row else item
            collected.add(item.x, row)
            labels.append(item.label)
            if row in spread:
                first_read[row] = item._replace(x=item.x.copy())
        for row, before in first_read.items():
            self._refuse_another(row, before)
        return collected, labels

    def _refuse_another(self, row: int, before: _Item) -> None:
        if before.differs_from(self._item(row)):
            raise DataError(
                f"{self._where}: row {row} is another one when it is read again; leave random transforms to train.augment, "
                "because a label is judged by all that is seen of its row"
            )

    def _item(self, row: int) -> _Item:
        try:
            item = self._data[row]
        # Code of somebody else: the line names the row, and the cause is kept for its author.
        except Exception as error:
            reason = " ".join(str(error).split())
            raise DataError(f"{self._where}: row {row} cannot be read ({type(error).__name__}: {reason})") from error
        x, label = self._parted(item, row)
        return _Item(_content(x), _label(label))

    def _parted(self, item: Any, row: int) -> tuple[Any, Any]:
        if isinstance(item, tuple | list) and len(item) >= 2:
            return item[0], item[1]
        if isinstance(item, Mapping):
            x, label = _first(item, _INPUTS), _first(item, LABELS)
            if x is not None and (label is not None or not self._needs_label):
                return x, label
        elif self._targets is not None:
            return item, self._targets[row]
        elif not self._needs_label:
            return item, None
        keys = f"a mapping of {', '.join(map(str, item))}" if isinstance(item, Mapping) else type(item).__name__
        raise DataError(f"{self._where}: row {row} is {keys}; expected (x, label) or {{'image': x, 'label': label}}")


def _first(item: Mapping[str, Any], keys: Iterable[str]) -> Any:
    return next((item[key] for key in keys if key in item), None)


def _content(x: Any) -> Content:
    if isinstance(x, Image.Image):
        return x
    if isinstance(x, Tensor):
        x = x.detach().cpu()
        return (x.float() if x.dtype == torch.bfloat16 else x).numpy()
    return np.asarray(x)


def _label(label: Any) -> Any:
    """A number or a text; tensors and arrays of one element count as that."""
    if isinstance(label, Tensor):
        label = label.detach().cpu().numpy()
    return label.item() if isinstance(label, np.ndarray | np.generic) and label.size == 1 else label


def _names(labels: list[Any], class_names: tuple[str, ...] | None, where: str) -> np.ndarray:
    for row, label in enumerate(labels):
        if label is None:
            labels[row] = ""
        elif not isinstance(label, int | float | str) or isinstance(label, str) != isinstance(labels[0], str):
            raise DataError(f"{where}: row {row} has the label {label!r}; labels are whole numbers, or all are text")
    if set(labels) == {""}:
        return np.array(labels)
    return label_names(np.array(labels), class_names, f"{where}: labels")


def _class_names(data: Any) -> tuple[str, ...] | None:
    """Of the data set or of the one that it is a part of; equal names, as ImageNet has, get their number."""
    classes = getattr(data, "classes", None)
    if classes is None and hasattr(data, "dataset"):
        return _class_names(data.dataset)
    if not isinstance(classes, list | tuple) or not classes:
        return None
    names = [", ".join(map(str, name)) if isinstance(name, tuple | list) else str(name) for name in classes]
    return tuple(name if names.count(name) == 1 else f"{name} ({number})" for number, name in enumerate(names))
