"""Python objects as data: arrays, data sets and frames, or a mapping of train and test with any of these."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from surelabel.config import DataConfig
from surelabel.data.inputs import Shape
from surelabel.data.sources import arrays, torch_dataset
from surelabel.data.sources.interface import ObjectSource, Parts, Rows
from surelabel.data.sources.tables import frames, hub
from surelabel.errors import DataError

OBJECT_SOURCES: tuple[ObjectSource, ...] = (arrays, hub, frames, torch_dataset)

_AGAIN = "this run's data was a Python object, which only Python can pass again: surelabel.resume(run, data=...)"


def describe_object(data: Any) -> str | None:
    """What stands for an object in a configuration, such as <arrays>; None for what is no data."""
    if _is_divided(data):
        return describe_object(data["train"])
    source = _source_of(data)
    return None if source is None else source.describe(data)


def is_object(source: str) -> bool:
    """Whether a configuration's source stands for an object."""
    return source.startswith("<") and source.endswith(">")


def read_object(data: Any, config: DataConfig, shape: Shape | None = None) -> Parts:
    """The labelled rows of `data`."""
    if data is None:
        raise DataError(f"{config.source}: {_AGAIN}")
    if _is_divided(data):
        return _divided(data, config)
    source = _source_of(data)
    if source is None:
        raise DataError(f"{type(data).__name__}: no kind of data; possible are {list_kinds()}")
    return source.read(data, config, shape)


def list_kinds() -> str:
    """What can be given."""
    single = "; ".join(source.KIND for source in OBJECT_SOURCES)
    return f"{single}; a mapping of train and test with any of these"


def _divided(data: Mapping[str, Any], config: DataConfig) -> Parts:
    parts = read_object(data["train"], config)
    shape = tuple(parts.train.x.shape[1:])
    tests = {name: _marked(read_object(data[name], config, shape).train, name) for name in ("test",) if name in data}
    return replace(parts, tests=tests or parts.tests)


def _marked(rows: Rows, name: str) -> Rows:
    """With ids that training rows have not."""
    return replace(rows, ids=np.char.add(f"{name}/", rows.ids))


def _is_divided(data: Any) -> bool:
    """A mapping of parts; others than train and test are left alone."""
    return isinstance(data, Mapping) and "train" in data and "data" not in data and "x" not in data


def _source_of(data: Any) -> ObjectSource | None:
    return next((source for source in OBJECT_SOURCES if source.accepts(data)), None)
