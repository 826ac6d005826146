"""Labels are exact or refused: every type and value, in every source that takes labels."""

import dataclasses
import datetime
import sys
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from surelabel.errors import DataError

sys.path.insert(0, str(Path(__file__).parents[2] / "faults"))
from label_sources import SOURCES, Labels

WHOLE = [
    Labels(f"{kind}", values := [np.iinfo(kind).min, 1, np.iinfo(kind).max], tuple(map(str, values)), arrow, kind)
    for kind, arrow in [
        *((np.int8, pa.int8()), (np.int16, pa.int16()), (np.int32, pa.int32()), (np.int64, pa.int64())),
        *((np.uint8, pa.uint8()), (np.uint16, pa.uint16()), (np.uint32, pa.uint32()), (np.uint64, pa.uint64())),
    ]
]
FLOATS = [
    case
    for kind, arrow in ((np.float16, pa.float16()), (np.float32, pa.float32()), (np.float64, pa.float64()))
    for case in (
        Labels(f"{kind} whole", [3.0, -0.0, -2.0, 512.0], ("3", "0", "-2", "512"), arrow, kind),
        Labels(f"{kind} fraction", [1.0, 0.5], None, arrow, kind),
        Labels(f"{kind} nan", [1.0, float("nan")], None, arrow, kind),
        Labels(f"{kind} inf", [1.0, float("inf")], None, arrow, kind),
    )
]
DAY = datetime.date(2020, 1, 31)
CASES = [
    *WHOLE,
    *FLOATS,
    Labels("minus inf", [1.0, float("-inf")], None, pa.float64(), np.float64),
    Labels("2^53 as a float", [1.0, 2.0**53], None, pa.float64(), np.float64),
    Labels("1e300", [1.0, 1e300], None, pa.float64(), np.float64),
    Labels("tweet ids", tweets := [2**60 + 1, 2**60 + 3], tuple(map(str, tweets)), pa.int64(), np.int64),
    Labels("bool", [True, False], ("True", "False"), pa.bool_(), np.bool_),
    Labels("decimal", [Decimal("3.00"), Decimal("-1.00")], ("3", "-1"), pa.decimal128(9, 2)),
    Labels("huge", [Decimal(10**30), Decimal(10**30 + 1)], (str(10**30), str(10**30 + 1)), pa.decimal128(38, 0)),
    Labels("decimal fraction", [Decimal("3.00"), Decimal("3.25")], None, pa.decimal128(9, 2)),
    Labels("string", ["b", "a"], ("b", "a"), pa.string(), np.str_),
    Labels("large string", ["b", "a"], ("b", "a"), pa.large_string(), np.str_),
    Labels("string view", ["b", "a"], ("b", "a"), pa.string_view()),
    Labels("dictionary", ["b", "a"], ("b", "a"), pa.dictionary(pa.int32(), pa.string())),
    Labels("dictionary of numbers", [7, 2**60 + 1], ("7", str(2**60 + 1)), pa.dictionary(pa.int32(), pa.int64())),
    Labels("leading zeros", ["007", "7"], ("007", "7"), pa.string(), np.str_),
    Labels("numbers as text", ["1.0", "1"], ("1.0", "1"), pa.string(), np.str_),
    Labels("words for missing", ["nan", "None", "NA"], ("nan", "None", "NA"), pa.string(), np.str_),
    Labels("bytes", ["ä".encode(), b"a"], ("ä", "a"), pa.binary(), np.bytes_),
    Labels("bytes of one length", [b"b", b"a"], ("b", "a"), pa.binary(1), np.bytes_),
    Labels("not UTF-8", [b"\xff\xfe", b"a"], None, pa.binary(), np.bytes_),
    Labels("date", [DAY, datetime.date(2021, 1, 1)], None, pa.date32(), "datetime64[D]"),
    Labels("timestamp", [datetime.datetime(2020, 1, 31, 1), None], None, pa.timestamp("ns"), "datetime64[ns]"),
    Labels("duration", [datetime.timedelta(1), datetime.timedelta(2)], None, pa.duration("us"), "timedelta64[us]"),
    Labels("time", [datetime.time(1), datetime.time(2)], None, pa.time32("s")),
    Labels("null beside text", ["a", None, "b"], None, pa.string()),
    Labels("null beside numbers", [1, None, 2], None, pa.int64()),
    Labels("all null", [None, None], None, pa.null()),
    Labels("1 beside '1'", [1, "1"], None),
    Labels("1 beside True", [1, True], None),
    Labels("a number beside text", ["a", 1.5], None),
    Labels("bytes beside text", ["a", b"b"], ("a", "b")),
    Labels("2^64", [1, 2**64], None),
    Labels("lists", [[1], [2]], None, pa.list_(pa.int64())),
    Labels("pairs", [[1, 2], [2, 1]], None, pa.list_(pa.int64()), None),
    Labels("records", [{"a": 1}, {"a": 2}], None, pa.struct({"a": pa.int64()})),
    Labels("complex", [1 + 0j, 2 + 1j], None, None, np.complex128),
    Labels("spaces around", [" a", "b\t"], ("a", "b"), pa.string(), np.str_),
    Labels("spaces inside", ["a  b", "a b"], ("a  b", "a b"), pa.string(), np.str_),
    Labels("odd spaces around", ["\u00a0a\u2003", "b"], ("a", "b"), pa.string(), np.str_),
    Labels("normal forms", ["\u00e9", "e\u0301"], ("\u00e9", "e\u0301"), pa.string(), np.str_),
    Labels("other scripts", ["猫", "🐕"], ("猫", "🐕"), pa.string(), np.str_),
    Labels("signs of CSV", ['a"b', "a,b;c"], ('a"b', "a,b;c"), pa.string(), np.str_),
    Labels("a line break inside", ["a\nb", "a"], ("a\nb", "a"), pa.string(), np.str_),
    Labels("a NUL inside", ["a\0b", "a"], None, pa.string(), np.str_),
    Labels("a NUL at the end", ["a\0", "a"], None, pa.string()),
    Labels("empty text", ["a", ""], None, pa.string(), np.str_),
    Labels("spaces only", ["a", " \t"], None, pa.string(), np.str_),
]
TRIED = [(source, case) for source, (_, holds) in SOURCES.items() for case in CASES if holds(case)]


@pytest.mark.parametrize(("source", "case"), TRIED, ids=[f"{source}-{case.name}" for source, case in TRIED])
def test_labels_are_exact_or_refused(source, case, tmp_path):
    read = SOURCES[source][0]
    if case.name == "2^64" and source in ("list", "series", "torch Dataset"):
        case = dataclasses.replace(case, expected=("1", str(2**64)))  # Python's numbers have no largest one
    one_cell_lists = case.name == "lists" and source in ("list", "series")  # these are (N, 1)
    if case.expected is not None or one_cell_lists:
        assert read(case, tmp_path) == (case.expected or ("1", "2"))
        return
    with pytest.raises(DataError) as caught:
        read(case, tmp_path)
    text = str(caught.value)
    assert "\n" not in text
    assert any(name in text for name in ("label", "y:", "y is", "folder"))
    if case.name != "pairs" or source not in ("list", "series"):
        assert any(shown in text for value in case.values for shown in _spellings(value)), text


def _spellings(value):
    """Return how a message may name a value."""
    yield from (repr(value), str(value)) if value not in ("", None) else ()
    if value in ("", None) or value != value or not str(value).strip():
        yield from ("blank", "missing")
    if isinstance(value, datetime.timedelta):
        yield str(value // datetime.timedelta(microseconds=1))
    if isinstance(value, datetime.datetime | datetime.date):
        yield value.strftime("%Y-%m-%d")


def test_the_list_is_long_enough():
    assert len({case.name for case in CASES}) == len(CASES) >= 33
    assert {source for source, _ in TRIED} == set(SOURCES)
