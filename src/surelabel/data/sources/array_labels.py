"""Arrays of labels to class names: whole numbers or strings in, strings out, and bad ones refused with their row."""

import numpy as np

from surelabel.errors import DataError

_TEXT = "UST"
"""Kinds of arrays that hold text: str, bytes, and strings of any length."""


def label_names(y: np.ndarray, class_names: tuple[str, ...] | None, where: str) -> np.ndarray:
    """(N,) str: the class of each row; whole numbers count the entries of `class_names`, if there are any."""
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.ndim != 1 or y.dtype.kind not in "biuf" + _TEXT:
        raise DataError(f"{where} is {y.dtype} of shape {y.shape}; labels are (N,) whole numbers or strings")
    if y.dtype.kind in _TEXT:
        return _named(text(y), class_names, where)
    numbers = _whole_numbers(y, where)
    if class_names is None:
        return numbers.astype(np.str_)
    _refuse(numbers >= len(class_names), y, where, f"class_names has {len(class_names)} entries, counted from 0")
    return np.array(class_names)[numbers]


def distinct_names(values: np.ndarray, source: str) -> tuple[str, ...]:
    """Class names, of which none may come twice."""
    names = tuple(map(str, text(values.reshape(-1))))
    for name in names:
        if names.count(name) > 1:
            raise DataError(f"{source}: class_names holds {name!r} {names.count(name)} times; names must differ")
    return names


def text(values: np.ndarray) -> np.ndarray:
    """Anything as str; bytes are UTF-8."""
    return np.char.decode(values, "utf-8") if values.dtype.kind == "S" else values.astype(np.str_)


def _whole_numbers(y: np.ndarray, where: str) -> np.ndarray:
    # Negated, so that NaN, which compares as false, is refused too.
    with np.errstate(invalid="ignore"):
        is_label = (y >= 0) & (y == np.floor(y)) & (y < 2**53)
    _refuse(~is_label, y, where, "labels are whole numbers from 0, or strings")
    return y.astype(np.int64)


def _named(names: np.ndarray, class_names: tuple[str, ...] | None, where: str) -> np.ndarray:
    _refuse(np.char.strip(names) == "", names, where, "labels must not be blank")
    if class_names is not None:
        _refuse(~np.isin(names, class_names), names, where, f"class_names has {', '.join(class_names)}")
    return names


def _refuse(is_bad: np.ndarray, y: np.ndarray, where: str, rule: str) -> None:
    rows = np.flatnonzero(is_bad)
    if len(rows):
        more = f" (and {len(rows) - 1} more)" if len(rows) > 1 else ""
        raise DataError(f"{where}: row {rows[0]} is {y[rows[0]].item()!r}{more}; {rule}")
