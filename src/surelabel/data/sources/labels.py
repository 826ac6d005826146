"""How a value becomes a label, the same in all sources: as a CSV file would spell it, or refused.

Text, and bytes in UTF-8, are class names without the spaces around them. Whole numbers of any type
and size are their digits, also those that are stored as floats, as pandas does beside missing ones;
truth values are True and False. If the classes have names, numbers are positions among these, and
-1 is no label. Blank text, null and NaN are missing. All else is refused: fractions, infinity,
dates, lists, and text beside numbers.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from surelabel.config import shorten
from surelabel.data.sources.checks import and_more
from surelabel.errors import DataError

Fail = Callable[[int, str], Exception]
"""Makes the error about a row from what is wrong with its label, as in (3, "is inf; ...")."""

RULE = "labels are whole numbers or text"
_KINDS = {str: "text", bytes: "text", bool: "truth values", int: "numbers", float: "numbers", Decimal: "numbers"}
"""A label is of the first type that it is an instance of; bool is an int too."""
_EXACT = 2**53
"""From here on, neighbouring whole numbers are the same float."""
_UNLABELLED = -1
"""How the Hugging Face hub marks rows without a label."""


def name_labels(
    values: Any, fail: Fail, class_names: tuple[str, ...] | None = None, may_be_missing: bool = False
) -> np.ndarray:
    """Return the class names (N,) of an arrow column, an array or a list; missing ones are ""."""
    distinct, place = _find_distinct(values, fail)
    names, faults, kinds = [""] * len(distinct), dict[int, str](), list[str]()
    _, first_row = np.unique(place, return_index=True)
    for number in np.argsort(first_row).tolist():
        try:
            names[number] = _spell(distinct[number])
            kinds += [_kind(distinct[number])] if names[number] else []
            if kinds and kinds[-1] != kinds[0]:
                raise ValueError(f"others are {kinds[0]}; {RULE}, not both")
            if class_names is not None and names[number]:
                names[number] = _find_class(names[number], distinct[number], class_names)
            if not names[number] and not may_be_missing:
                raise ValueError("labels must not be blank or missing")
        except ValueError as error:
            faults[number] = str(error)
    if faults:
        rows = np.flatnonzero(np.isin(place, list(faults)))
        number = int(place[rows[0]])
        raise fail(int(rows[0]), f"is {shorten(repr(distinct[number]))}{and_more(len(rows))}; {faults[number]}")
    labels: np.ndarray = np.array(names, dtype=np.str_)[place]
    return labels


def name_classes(names: Iterable[Any], where: str) -> tuple[str, ...]:
    """Return the names of classes, spelled like labels; they must differ from one another."""
    found = name_labels(list(names), lambda row, text: DataError(f"{where}: row {row} {text}")).tolist()
    for name, count in Counter(found).items():
        if count > 1:
            raise DataError(f"{where} holds {name!r} {count} times; names must differ")
    return tuple(found)


def _spell(value: Any) -> str:
    """Return the name of one label, "" if it is missing; raise ValueError if it is none."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return ""
    if isinstance(value, bytes):
        try:
            value = value.decode()
        except UnicodeDecodeError:
            raise ValueError("not UTF-8; expected text") from None
    if isinstance(value, str):
        return _check_text(value.strip())
    if isinstance(value, bool | int):
        return str(value)
    if not isinstance(value, float | Decimal):
        raise ValueError(RULE)
    if value.is_nan() if isinstance(value, Decimal) else value != value:
        return ""
    is_exact = isinstance(value, Decimal) or abs(value) < _EXACT
    if not is_exact or value in (float("inf"), float("-inf")) or value != int(value):
        raise ValueError(RULE)
    return str(int(value))


def _check_text(text: str) -> str:
    """Return the text; raise ValueError if it has characters that files or arrays cannot keep."""
    if "\0" in text:
        raise ValueError("it has a NUL character; expected text")
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise ValueError("it has a lone surrogate, which is not a character; expected text")
    return text


def _kind(value: Any) -> str:
    return next(name for kind, name in _KINDS.items() if isinstance(value, kind))


def _find_class(name: str, value: Any, class_names: tuple[str, ...]) -> str:
    """Return the class at a position, or the name itself if the label is text."""
    if isinstance(value, str | bytes):
        if name not in class_names:
            raise ValueError(f"there is no such class; available: {shorten(', '.join(class_names))}")
        return name
    if int(value) == _UNLABELLED:
        return ""
    if not 0 <= int(value) < len(class_names):
        raise ValueError(f"there are {len(class_names)} classes, counted from 0")
    return class_names[int(value)]


def _find_distinct(values: Any, fail: Fail) -> tuple[list[Any], np.ndarray]:
    """Return the distinct values as Python's, and which of them each row (N,) has."""
    if isinstance(values, pa.ChunkedArray):
        return _distinct_in_arrow(values, fail)
    if isinstance(values, np.ndarray) and values.dtype.kind in "biufSU":
        distinct, place = np.unique(values, return_inverse=True)
        return distinct.tolist(), place.reshape(-1)
    if isinstance(values, np.ndarray) and values.dtype.kind not in "OT":
        raise fail(0, f"is {shorten(repr(values[0]))}; {RULE}")  # tolist() would make numbers of dates
    return _distinct_objects(values)


def _distinct_in_arrow(values: Any, fail: Fail) -> tuple[list[Any], np.ndarray]:
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    if pa.types.is_float16(values.type):
        values = values.cast(pa.float32())  # arrow 26 joins the dictionaries of chunks as bits: 15360 for 1.0
    if pa.types.is_temporal(values.type):
        rows = np.flatnonzero(~np.asarray(values.is_null()))
        if len(rows):  # pandas is needed to convert nanoseconds
            raise fail(int(rows[0]), f"is {values[int(rows[0])].cast(pa.string())}; {RULE}")
        return [None], np.zeros(len(values), dtype=np.int64)
    try:
        encoded = values.dictionary_encode("encode").combine_chunks()
    except pa.ArrowNotImplementedError:  # lists and other nested types
        return _distinct_objects(values.to_pylist())
    return encoded.dictionary.to_pylist(), np.asarray(encoded.indices, dtype=np.int64)


def _distinct_objects(values: Iterable[Any]) -> tuple[list[Any], np.ndarray]:
    """Tell 1 from True and from "1", which are equal, or would be in one array."""
    distinct: dict[Any, tuple[int, Any]] = {}
    place = []
    for value in values:
        if isinstance(value, np.generic) and value.dtype.kind in "biufSU":
            value = value.item()
        try:
            found = distinct.setdefault((type(value), value), (len(distinct), value))
        except TypeError:  # a list has no hash
            found = distinct.setdefault((type(value), repr(value)), (len(distinct), value))
        place.append(found[0])
    return [value for _, value in distinct.values()], np.array(place, dtype=np.int64)
