"""Labels of random types and values, in random sources: exact, or refused in one line."""

import datetime
import math
import shutil
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
from label_sources import SOURCES, Labels
from tally import Options, Tally

from surelabel.errors import SurelabelError

INTEGERS = {
    **{np.int8: pa.int8(), np.int16: pa.int16(), np.int32: pa.int32(), np.int64: pa.int64()},
    **{np.uint8: pa.uint8(), np.uint16: pa.uint16(), np.uint32: pa.uint32(), np.uint64: pa.uint64()},
}
FLOATS = {np.float16: pa.float16(), np.float32: pa.float32(), np.float64: pa.float64()}
TEXTS = (
    "a",
    "b",
    " c",
    "",
    "\t",
    "1",
    "01",
    "1.0",
    "nan",
    "None",
    "é",
    "e\u0301",
    "猫",
    "a\0",
    "x,y",
    '"',
    "true",
    "-1",
    "\x1b[1m",
)


def draw_labels(random: Random) -> Labels:
    """Return at least two labels of one type, or of several, and what they must be called."""
    count = random.randrange(2, 6)
    kind = random.choice(["integer", "float", "text", "bytes", "decimal", "bool", "date", "mixture"])
    if kind == "integer":
        numpy, arrow = random.choice(list(INTEGERS.items()))
        limits = np.iinfo(numpy)
        edges = [int(limits.min), int(limits.max), 0, 1, random.randrange(int(limits.min), int(limits.max) + 1)]
        return _labels(f"{numpy.__name__}", [random.choice(edges) for _ in range(count)], arrow, numpy)
    if kind == "float":
        numpy, arrow = random.choice(list(FLOATS.items()))
        edges = [0.0, -0.0, 1.0, 2048.0, 0.5, math.nan, math.inf, -math.inf, -3.0, 2.0 ** random.randrange(70)]
        with np.errstate(over="ignore"):
            values = [float(numpy(random.choice(edges))) for _ in range(count)]
        return _labels(f"{numpy.__name__}", values, arrow, numpy)
    if kind == "text":
        arrow = random.choice([pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())])
        values: list[Any] = [random.choice([*TEXTS, None]) for _ in range(count)]
        is_array = None not in values and not any(value.endswith("\0") for value in values)
        return _labels("text", values, arrow, np.str_ if is_array else None)
    if kind == "bytes":
        values = [random.choice([b"a", b"b", "é".encode(), b"\xff", b" c"]) for _ in range(count)]
        return _labels("bytes", values, pa.binary(), np.bytes_)
    if kind == "decimal":
        values = [Decimal(random.randrange(-(10**8), 10**8)) / random.choice([1, 1, 100]) for _ in range(count)]
        return _labels("decimal", values, pa.decimal128(20, 2))
    if kind == "bool":
        return _labels("bool", [random.random() < 0.5 for _ in range(count)], pa.bool_(), np.bool_)
    if kind == "date":
        values = [datetime.date(2000 + random.randrange(50), 1, 1) for _ in range(count)]
        return _labels("date", values, pa.date32(), "datetime64[D]")
    values = [random.choice([1, "1", True, 2.5, None, b"a", "a", 2**64, 1.0, math.nan]) for _ in range(count)]
    return _labels("mixture", values, None)


def _labels(name: str, values: list[Any], arrow: Any, numpy: Any = None) -> Labels:
    """Work out the names in another way than the program does, one value at a time."""
    names = [_name(value) for value in values]
    kinds = {_kind(value) for value, name in zip(values, names, strict=True) if name}
    is_refused = None in names or "" in names or len(kinds) > 1
    expected = None if is_refused else tuple(str(name) for name in names)
    return Labels(f"{name} {values!r}", values, expected, arrow, numpy)


def _name(value: Any) -> str | None:
    """Return what a CSV file has in place of a value; None if no label is like that."""
    if value is None:
        return ""
    if isinstance(value, bytes):
        text = value.decode(errors="replace")
        return None if "\ufffd" in text else text.strip()
    if isinstance(value, str):
        return None if "\0" in value else value.strip()
    if isinstance(value, float | Decimal):
        if math.isnan(value):
            return ""
        text = f"{value:f}"
        whole, _, fraction = text.partition(".")
        is_large = isinstance(value, float) and abs(value) >= 2**53
        return None if "inf" in text or fraction.strip("0") or is_large else str(int(whole))
    return str(value) if isinstance(value, bool | int) else None


def _kind(value: Any) -> str:
    return "text" if isinstance(value, str | bytes) else "bool" if isinstance(value, bool) else "number"


def judge(source: str, labels: Labels, folder: Path) -> str | None:
    """Return what is wrong with how a source reads labels; None if they are exact or refused."""
    try:
        found = SOURCES[source][0](labels, folder)
    except SurelabelError as error:
        single = len(set(labels.expected or ())) == 1  # one class is too few to train on
        if "\n" in str(error) or (labels.expected is not None and not single and labels.arrow is not None):
            return f"refused: {error}"
        return None
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None if found == labels.expected else f"became {found}, expected {labels.expected}"


def run_types(options: Options) -> Tally:
    """Draw labels and a source that can hold them."""
    tally = Tally("types", planned=options.count or 1000)
    for number in range(tally.planned):
        random = options.random("types", number)
        labels = draw_labels(random)
        source = random.choice([name for name, (_, holds) in SOURCES.items() if holds(labels)])
        folder = options.folder / str(number)
        folder.mkdir()
        tally.judge(f"{source}: {labels.name} ({number} of seed {options.seed})", judge(source, labels, folder))
        shutil.rmtree(folder, ignore_errors=True)
    return tally
