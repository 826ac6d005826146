"""Pickles read without running anything: plain values and arrays of numbers, nothing else.

A pickle names functions for its reader to call. Here the few names that arrays need lead to stand-ins of our own, which
only collect what they are given; every other name is refused. Not even numpy's own constructors are called: `ndarray`
with a buffer makes objects out of arbitrary memory. For the same reason files of torch are opened here and not by
`torch.load`, whose `weights_only` was safe only after several repairs, and which refuses numpy arrays.
"""

import io
import pickle
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from surelabel.errors import DataError

_NUMBER = re.compile(r"[|<>=]?([biuf])([1248])")
_TORCH_MAGIC = 0x1950A86A20F9469CFC6C
"""The first value in files of torch before version 1.6; two more stand before the content."""


class _Type:
    """Stands for a numpy dtype of numbers."""

    __slots__ = ("_code", "_order")

    def __init__(self, code: str | bytes, *_: object) -> None:
        self._code, self._order = _text(code), "|"

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self._order = _text(state[1])

    def value(self) -> np.dtype[Any]:
        match = _NUMBER.fullmatch(self._code)
        if not match or self._order not in "|<>=":
            raise ValueError(f"an array of type {self._code!r}")
        return np.dtype(f"{self._order}{match[1]}{match[2]}")


class _Array:
    """Stands for a numpy array."""

    __slots__ = ("_state",)

    def __init__(self, *state: Any) -> None:
        self._state = state

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        *_, shape, dtype, is_fortran, content = state
        self._state = (content, dtype, shape, "F" if is_fortran else "C")

    def value(self) -> np.ndarray:
        content, dtype, shape, order = self._state
        return (
            np.frombuffer(bytes(content), dtype.value())
            .reshape(shape, order="F" if _text(order) == "F" else "C")
            .copy()
        )


class _Call:
    """A name of the pickle that may be called; without attributes, so that a pickle has nothing to overwrite."""

    __slots__ = ()


class _NewType(_Call):
    __slots__ = ()

    def __call__(self, *arguments: Any) -> _Type:
        return _Type(*arguments)


class _NewArray(_Call):
    """An empty array: its state follows."""

    __slots__ = ()

    def __call__(self, *_: Any) -> _Array:
        return _Array()


class _FilledArray(_Call):
    """Arguments are content, type, shape and order."""

    __slots__ = ()

    def __call__(self, *arguments: Any) -> _Array:
        return _Array(*arguments)


class _Encode(_Call):
    """How Python 3 writes bytes for Python 2."""

    __slots__ = ()

    def __call__(self, text: str, codec: str) -> bytes:
        if codec != "latin1":
            raise ValueError(f"the codec {codec!r}")
        return text.encode("latin-1")


_STAND_INS = {
    ("numpy", "ndarray"): _Call,
    ("numpy", "dtype"): _NewType,
    ("numpy.core.multiarray", "_reconstruct"): _NewArray,
    ("numpy._core.multiarray", "_reconstruct"): _NewArray,
    ("numpy.core.numeric", "_frombuffer"): _FilledArray,
    ("numpy._core.numeric", "_frombuffer"): _FilledArray,
    ("_codecs", "encode"): _Encode,
}


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _STAND_INS:
            raise pickle.UnpicklingError(f"it names {module}.{name}; only arrays of numbers and plain values are read")
        return _STAND_INS[module, name]()


def read_pickle(content: BinaryIO, where: str) -> dict[str, Any]:
    """The dictionary in a pickle, with text keys, and values that are plain or arrays of numbers."""
    return _guarded(lambda: _dictionary(_unpickled(content)), where)


def read_torch(path: Path) -> dict[str, Any]:
    """The dictionary of arrays that `torch.save` has written to `path`, in its zip format or the one before."""
    return _guarded(lambda: _dictionary(_torch_content(path)), str(path))


def _guarded(read: Callable[[], dict[str, Any]], where: str) -> dict[str, Any]:
    try:
        return read()
    # A pickle is a program: one that is damaged or forged can raise anything on its way.
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise DataError(f"{where}: refused as a pickle of arrays and plain values ({reason})") from None


def _unpickled(content: BinaryIO) -> Any:
    # Python 2, which wrote the original CIFAR batches, had bytes where we have text.
    return _Unpickler(content, encoding="bytes").load()


def _torch_content(path: Path) -> Any:
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            member = next(name for name in archive.namelist() if name.split("/")[-1] == "data.pkl")
            return _unpickled(io.BytesIO(archive.read(member)))
    with path.open("rb") as file:
        first = _unpickled(file)
        if first != _TORCH_MAGIC:
            return first
        return [_unpickled(file) for _ in ("version", "machine", "content")][-1]


def _dictionary(content: Any) -> dict[str, Any]:
    if not isinstance(content, dict):
        raise ValueError(f"expected a dictionary, found {type(content).__name__.lstrip('_').lower()}")
    return {_text(key): value.value() if isinstance(value, _Array) else value for key, value in content.items()}


def _text(value: str | bytes) -> str:
    return value.decode("utf-8") if isinstance(value, bytes) else str(value)
