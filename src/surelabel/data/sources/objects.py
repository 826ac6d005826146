"""Python objects as data: arrays, data sets, frames, or a mapping of train and test to these."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from surelabel.config import DataConfig
from surelabel.data.cells import Cells
from surelabel.data.inputs import Shape
from surelabel.data.sources import arrays, torch_dataset
from surelabel.data.sources.interface import ObjectSource, Parts, Rows
from surelabel.data.sources.tables import frames, hub
from surelabel.errors import DataError

OBJECT_SOURCES: tuple[ObjectSource, ...] = (arrays, hub, frames, torch_dataset)

_PASS_AGAIN = "this run's data was a Python object, which only Python can pass again: surelabel.resume(run, data=...)"


def describe_object(data: Any) -> str | None:
    """Return the placeholder for an object, such as <arrays>; None if it is not data."""
    if _is_divided(data):
        return describe_object(data["train"])
    source = _find_source(data)
    return None if source is None else source.describe(data)


def is_object(source: str) -> bool:
    """Return whether a configuration's source is the placeholder for an object."""
    return source.startswith("<") and source.endswith(">")


def read_object(data: Any, config: DataConfig, shape: Shape | None = None) -> Parts:
    """Read the labelled rows of `data`."""
    if data is None:
        raise DataError(f"{config.source}: {_PASS_AGAIN}")
    if _is_divided(data):
        return _read_divided(data, config)
    source = _find_source(data)
    if source is None:
        raise DataError(f"{type(data).__name__}: not supported as data; expected {list_kinds()}")
    return source.read(data, config, shape)


def list_kinds() -> str:
    """List the kinds of objects that can be data, for error messages."""
    single = "; ".join(source.KIND for source in OBJECT_SOURCES)
    return f"{single}; a mapping of train and test with any of these"


def _read_divided(data: Mapping[str, Any], config: DataConfig) -> Parts:
    parts = read_object(data["train"], config)
    if "test" not in data:
        return parts
    x = parts.train.x
    same = config.model_copy(update=x.settings) if isinstance(x, Cells) else config
    test = read_object(data["test"], same, tuple(x.shape[1:])).train
    return replace(parts, tests={"test": _with_prefix(test, "test/")})


def _with_prefix(rows: Rows, prefix: str) -> Rows:
    """Return the rows with ids that no training row has."""
    return replace(rows, ids=np.char.add(prefix, rows.ids))


def _is_divided(data: Any) -> bool:
    """Return whether `data` maps train, and perhaps test, to data; other keys are ignored."""
    return isinstance(data, Mapping) and "train" in data and "data" not in data and "x" not in data


def _find_source(data: Any) -> ObjectSource | None:
    return next((source for source in OBJECT_SOURCES if source.accepts(data)), None)
