"""Read dictionaries of plain values and number arrays from pickles without running any code.

`torch.load(weights_only=True)` cannot do this. It reads only files of `torch.save`, while the
original CIFAR batches are plain pickles of Python 2; and it refuses numpy arrays, which both the
batches and the files of CIFAR-N contain. Allowing them with `torch.serialization.safe_globals` is
not safe: a forged file may then call `numpy.ndarray(shape, "O", buffer)`, which turns arbitrary
bytes into object pointers.

A pickle names functions for its reader to call. Here the few names that arrays need lead to
stand-ins, which only collect their arguments; every other name is refused. numpy then makes the
arrays from bytes and a type that is checked to be a number.
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
"""First value in files of torch before version 1.6; two more precede the content."""


class _Type:
    """Stand-in for a numpy dtype of numbers."""

    __slots__ = ("_code", "_order")

    def __init__(self, code: str | bytes, *_: object) -> None:
        self._code, self._order = _text(code), "|"

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self._order = _text(state[1])

    def to_numpy(self) -> np.dtype[Any]:
        match = _NUMBER.fullmatch(self._code)
        if not match or self._order not in tuple("|<>="):
            raise ValueError(f"an array of type {self._code!r}")
        return np.dtype(f"{self._order}{match[1]}{match[2]}")


class _Array:
    """Stand-in for a numpy array."""

    __slots__ = ("_state",)

    def __init__(self, *state: Any) -> None:
        self._state = state

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        *_, shape, dtype, is_fortran, content = state
        self._state = (content, dtype, shape, "F" if is_fortran else "C")

    def to_numpy(self) -> np.ndarray:
        content, dtype, shape, order = self._state
        if not isinstance(content, bytes | bytearray):  # bytes(n) allocates n bytes
            raise ValueError("an array whose content is not bytes")
        return (
            np.frombuffer(bytes(content), dtype.to_numpy())
            .reshape(shape, order="F" if _text(order) == "F" else "C")
            .copy()
        )


class _Call:
    """Stand-in for a function; it has no attributes that a pickle could overwrite."""

    __slots__ = ()


class _NewType(_Call):
    """Makes a stand-in for a dtype."""

    __slots__ = ()

    def __call__(self, *arguments: Any) -> _Type:
        return _Type(*arguments)


class _NewArray(_Call):
    """Makes an empty array, whose state follows in the pickle."""

    __slots__ = ()

    def __call__(self, *_: Any) -> _Array:
        return _Array()


class _FilledArray(_Call):
    """Makes an array from content, type, shape and order."""

    __slots__ = ()

    def __call__(self, *arguments: Any) -> _Array:
        return _Array(*arguments)


class _Encode(_Call):
    """Makes bytes: Python 3 pickles them so in protocols 0 to 2."""

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
    """Refuses every name that has no stand-in."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _STAND_INS:
            raise pickle.UnpicklingError(f"it names {module}.{name}; only arrays of numbers and plain values are read")
        return _STAND_INS[module, name]()


def read_pickle(content: BinaryIO, where: str) -> dict[str, Any]:
    """Read a pickled dictionary whose values are plain or arrays of numbers; keys become text."""
    return _with_data_error(lambda: _to_dictionary(_unpickle(content)), where)


def read_torch(path: Path) -> dict[str, Any]:
    """Read such a dictionary from a file of `torch.save`, in the zip format or the older one."""
    return _with_data_error(lambda: _to_dictionary(_unpickle_torch(path)), str(path))


def _with_data_error(read: Callable[[], dict[str, Any]], where: str) -> dict[str, Any]:
    try:
        return read()
    # A pickle is a program: a damaged or forged one can raise anything.
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise DataError(f"{where}: refused as a pickle of arrays and plain values ({reason})") from None


def _unpickle(content: BinaryIO) -> Any:
    # The text of Python 2, which wrote the original CIFAR batches, is bytes.
    return _Unpickler(content, encoding="bytes").load()


def _unpickle_torch(path: Path) -> Any:
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            member = next(name for name in archive.namelist() if name.split("/")[-1] == "data.pkl")
            return _unpickle(io.BytesIO(archive.read(member)))
    with path.open("rb") as file:
        first = _unpickle(file)
        if first != _TORCH_MAGIC:
            return first
        return [_unpickle(file) for _ in ("version", "machine", "content")][-1]


def _to_dictionary(content: Any) -> dict[str, Any]:
    if not isinstance(content, dict):
        raise ValueError(f"expected a dictionary, found {type(content).__name__.lstrip('_').lower()}")
    return {_text(key): value.to_numpy() if isinstance(value, _Array) else value for key, value in content.items()}


def _text(value: str | bytes) -> str:
    return value.decode("utf-8") if isinstance(value, bytes) else str(value)
