"""Any map-style torch Dataset: rows by number, each (x, label) or {"image": x, "label": label}.

x is a Pillow image, or an array or tensor: an image in any usual layout, as whole numbers in 0..255
or floats in [0, 1], or a vector of features. The data set is read once, into memory. The number of
a row is its id, so reading a row twice must return the same row; some are read twice to check that.
Classes are named by the attribute `classes`, as in torchvision's data sets.
"""

import io
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from PIL import Image, ImageOps
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, IterableDataset

from surelabel.config import DataConfig
from surelabel.data.images.load import Blobs, Images, fit_to_shape, load_images, square_shape
from surelabel.data.inputs import Inputs, Shape
from surelabel.data.sources.array_conversion import as_pixels, as_tensor, channels_first, tensor_to_array
from surelabel.data.sources.interface import Parts, Rows
from surelabel.data.sources.labels import name_labels
from surelabel.data.sources.tables.columns import LABELS
from surelabel.errors import DataError

KIND = "a torch Dataset"

_INPUTS = ("image", "img", "x", "pixel_values", "features")
_READ_TWICE = 32
"""Rows that are read twice; random flips of all images go unnoticed once in 2^32 times."""
_ROWS_AT_ONCE = 256
"""Rows that are converted together."""

_ORIENTATION = 0x0112
"""The EXIF tag."""
_PPM = {"L": b"P5", "RGB": b"P6"}
_PNG = ("1", "L", "LA", "P", "RGB", "RGBA", "I", "I;16")

Input = np.ndarray | Image.Image


def accepts(data: Any) -> bool:
    """Return whether `data` has rows by number, or can be iterated, which `read` refuses later."""
    if isinstance(data, str | bytes | Mapping | list | tuple | set | np.ndarray | Tensor | type):
        return False
    return isinstance(data, Dataset | DataLoader) or hasattr(data, "__getitem__") or hasattr(data, "__iter__")


def describe(data: Any) -> str:
    """Return the placeholder for the data in a configuration."""
    return f"<dataset {type(data).__name__}>"


def read(data: Any, config: DataConfig, shape: Shape | None = None) -> Parts:
    """Read all rows, in their order."""
    where = describe(data)
    num_rows = _num_rows(data, where)
    buffer, labels = _Reader(data, where, num_rows, needs_label=config.labels is None).read_all()
    class_names = _class_names(data)
    x, kept, encoded = buffer.inputs(config, shape)
    names = name_labels(
        labels,
        lambda row, text: DataError(f"{where}: the label of row {row} {text}"),
        class_names,
        may_be_missing=config.labels is not None,
    )
    ids = np.arange(num_rows).astype(np.str_)
    return Parts(Rows(x, names[kept], ids[kept], positions=kept, encoded=encoded), class_names=class_names)


def _num_rows(data: Any, where: str) -> int:
    if isinstance(data, DataLoader):
        raise DataError(f"{where}: yields batches; pass the data set itself, because surelabel makes its own batches")
    if isinstance(data, IterableDataset) or not (hasattr(data, "__getitem__") and hasattr(data, "__len__")):
        raise DataError(
            f"{where}: an iterable data set, whose rows have no numbers; "
            "pass one with __len__ and __getitem__, or arrays"
        )
    if not len(data):
        raise DataError(f"{where}: no rows to train on")
    return len(data)


class _Item(NamedTuple):
    x: Input
    label: Any

    def differs_from(self, other: "_Item") -> bool:
        """Return whether any pixel or the label is different."""
        if repr(self.label) != repr(other.label) or isinstance(self.x, Image.Image) != isinstance(other.x, Image.Image):
            return True
        if isinstance(self.x, Image.Image):
            return self.x != other.x
        mine, theirs = np.asarray(self.x), np.asarray(other.x)
        return not np.array_equal(mine, theirs, equal_nan=mine.dtype.kind == "f")


class _Reader:
    """Reads the rows of a data set, whatever their form."""

    def __init__(self, data: Any, where: str, num_rows: int, needs_label: bool) -> None:
        self._data, self._where, self._num_rows, self._needs_label = data, where, num_rows, needs_label
        targets: Any = getattr(data, "targets", ())
        self._targets = targets if hasattr(targets, "__len__") and len(targets) == num_rows else None

    def read_all(self) -> tuple["_RowBuffer", list[Any]]:
        """Read the inputs and labels of all rows, and some of them a second time."""
        checked = set(np.linspace(0, self._num_rows - 1, _READ_TWICE).astype(int).tolist())
        first_read, labels = {}, []
        item = self._read(0)
        buffer = (
            _ImageBuffer(self._where) if isinstance(item.x, Image.Image) else _ArrayBuffer(self._num_rows, self._where)
        )
        for row in range(self._num_rows):
            item = self._read(row) if row else item
            buffer.add(item.x, row)
            labels.append(item.label)
            if row in checked:
                first_read[row] = item._replace(x=item.x.copy())
        for row, before in first_read.items():
            if before.differs_from(self._read(row)):
                raise DataError(
                    f"{self._where}: row {row} differs when it is read again; remove random transforms and "
                    "use train.augment instead"
                )
        return buffer, labels

    def _read(self, row: int) -> _Item:
        try:
            item = self._data[row]
        # The user's code: the message names the row, and the cause is kept for its author.
        except Exception as error:
            reason = " ".join(str(error).split())
            raise DataError(f"{self._where}: row {row} cannot be read ({type(error).__name__}: {reason})") from error
        x, label = self._split(item, row)
        if isinstance(x, Tensor):
            x = tensor_to_array(x)
        return _Item(x if isinstance(x, Image.Image) else np.asarray(x), _to_scalar(label))

    def _split(self, item: Any, row: int) -> tuple[Any, Any]:
        """Return the input and the label of an item."""
        if isinstance(item, tuple | list) and len(item) >= 2:
            return item[0], item[1]
        if isinstance(item, Mapping):
            x, label = _first_value(item, _INPUTS), _first_value(item, LABELS)
            if x is not None and (label is not None or not self._needs_label):
                return x, label
        elif self._targets is not None:
            return item, self._targets[row]
        elif not self._needs_label:
            return item, None
        keys = f"a mapping of {', '.join(map(str, item))}" if isinstance(item, Mapping) else type(item).__name__
        raise DataError(f"{self._where}: row {row} is {keys}; expected (x, label) or {{'image': x, 'label': label}}")


def _first_value(item: Mapping[str, Any], keys: Iterable[str]) -> Any:
    return next((item[key] for key in keys if key in item), None)


def _to_scalar(label: Any) -> Any:
    """Return the element of tensors and arrays that have a single one."""
    if isinstance(label, Tensor):
        label = tensor_to_array(label)
    return label.reshape(-1)[0] if isinstance(label, np.ndarray) and label.size == 1 else label


def _class_names(data: Any) -> tuple[str, ...] | None:
    """Return the classes of the data set, or of the one it is a subset of.

    Equal names, which ImageNet has, get their number.
    """
    classes = getattr(data, "classes", None)
    if classes is None and hasattr(data, "dataset"):
        return _class_names(data.dataset)
    if not isinstance(classes, list | tuple) or not classes:
        return None
    names = [", ".join(map(str, name)) if isinstance(name, tuple | list) else str(name) for name in classes]
    names = [name.strip() for name in names]
    counts = Counter(names)
    return tuple(name if counts[name] == 1 else f"{name} ({number})" for number, name in enumerate(names))


class _RowBuffer(ABC):
    """Inputs of a known number of rows, added in their order."""

    @abstractmethod
    def add(self, x: Input, row: int) -> None:
        """Keep a copy of the next row."""

    @abstractmethod
    def inputs(self, config: DataConfig, shape: Shape | None) -> Images:
        """Return all rows, and the positions of those that could be read."""


class _ImageBuffer(_RowBuffer):
    """Pillow images, which may differ in size and mode."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._blobs: list[bytes] = []

    def add(self, x: Input, row: int) -> None:
        """Keep the image uncompressed, in a format that the package `images` can read."""
        if not isinstance(x, Image.Image):
            raise DataError(f"{self._where}: row {row} is of type {type(x).__name__}, but row 0 is an image")
        if x.mode == "F":
            raise DataError(f"{self._where}: row {row}: pixels are 32-bit floats; 8-bit and 16-bit images are allowed")
        self._blobs.append(_encode(x if x.getexif().get(_ORIENTATION, 1) == 1 else ImageOps.exif_transpose(x)))

    def inputs(self, config: DataConfig, shape: Shape | None) -> Images:
        """Decode all images once, without a cache: there is no file to recognise them by."""
        names = [f"{self._where}, row {row}" for row in range(len(self._blobs))]
        in_memory = config.model_copy(update={"cache": False, "decode": "once"})
        return load_images(Blobs(self._blobs, names), in_memory, shape, self._where)


def _encode(image: Image.Image) -> bytes:
    # PPM is a header and the pixels: far faster than PNG, which takes the modes that PPM lacks.
    if image.mode in _PPM and not image.has_transparency_data:
        return b"%b %d %d 255\n" % (_PPM[image.mode], *image.size) + image.tobytes()
    plain = image if image.mode in _PNG else image.convert("RGB")
    file = io.BytesIO()
    plain.save(file, "PNG", compress_level=0)
    return file.getvalue()


class _ArrayBuffer(_RowBuffer):
    """Arrays of one shape: feature vectors, or images as pixels or floats in [0, 1]."""

    def __init__(self, num_rows: int, where: str) -> None:
        self._num_rows, self._where = num_rows, where
        self._chunk = np.empty(0)
        self._all = np.empty(0)
        self._num_added = 0

    def add(self, x: Input, row: int) -> None:
        """Copy the row, since a data set may reuse its memory for the next one."""
        if not isinstance(x, np.ndarray):
            raise DataError(f"{self._where}: row {row} is of type {type(x).__name__}, but row 0 is an array")
        if not self._num_added:
            self._allocate(x)
        if x.shape != self._chunk.shape[1:]:
            expected = self._chunk.shape[1:]
            raise DataError(
                f"{self._where}: row {row} has the shape {x.shape} and row 0 {expected}; all must have the same"
            )
        place = self._num_added % _ROWS_AT_ONCE
        self._chunk[place] = x
        self._num_added += 1
        if place == _ROWS_AT_ONCE - 1 or self._num_added == self._num_rows:
            self._convert(place + 1)

    def inputs(self, config: DataConfig, shape: Shape | None) -> Images:
        """Return the rows in `shape`, or in the size that the configuration asks for."""
        x: Inputs = as_tensor(self._all)
        size = shape or square_shape(x, config.image_size)
        return Images(fit_to_shape(x, size, self._where, config.crop), np.arange(self._num_rows), None)

    def _allocate(self, x: np.ndarray) -> None:
        if x.ndim not in (1, 2, 3) or not x.size or x.dtype.kind not in "biuf":
            raise DataError(
                f"{self._where}: row 0 is {x.dtype} of shape {x.shape}; "
                "expected an image (H, W), (H, W, C) or (C, H, W), or features (D,)"
            )
        self._chunk = np.empty((_ROWS_AT_ONCE, *x.shape), dtype=x.dtype)
        inner = x.shape if x.ndim == 1 else channels_first(self._chunk, self._where).shape[1:]
        self._all = np.empty((self._num_rows, *inner), dtype=np.float32 if x.ndim == 1 else np.uint8)

    def _convert(self, count: int) -> None:
        """Convert the last `count` rows to their final type."""
        start = self._num_added - count
        rows = self._chunk[:count]
        if rows.ndim == 2:
            with np.errstate(over="ignore"):
                self._all[start : self._num_added] = rows
        else:
            self._all[start : self._num_added] = self._to_pixels(rows)

    def _to_pixels(self, rows: np.ndarray) -> np.ndarray:
        try:
            return as_pixels(channels_first(rows, self._where), self._where)
        except DataError as error:
            raise DataError(
                f"{error}; remove the normalisation transform, surelabel normalises inputs itself"
            ) from None
