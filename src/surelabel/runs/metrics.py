"""The lines of metrics.jsonl, one JSON object per epoch, whose known fields have these types."""

import json
from typing import Any, NotRequired

from pydantic import ConfigDict, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from surelabel.config import one_line


class Row(TypedDict):
    """The metrics of an epoch, as far as they are read again; there may be others."""

    __pydantic_config__ = ConfigDict(extra="allow")  # type: ignore[misc]

    epoch: int
    loss: NotRequired[float]
    terms: NotRequired[dict[str, float]]
    seconds: NotRequired[float]
    samples_per_second: NotRequired[float]
    tests: NotRequired[dict[str, dict[str, float]]]
    validation: NotRequired[dict[str, float]]
    given_accuracy: NotRequired[float]
    correction_accuracy: NotRequired[float]
    clean_labels: NotRequired[dict[str, float]]
    false_labels: NotRequired[dict[str, float]]


_row = TypeAdapter(Row)


def read_line(line: str) -> dict[str, Any]:
    """Return the metrics in a line; raise ValueError if it is not JSON or not of an epoch."""
    try:
        content: dict[str, Any] = json.loads(line)
        _row.validate_python(content)
    except ValidationError as error:
        raise ValueError(one_line(error).removeprefix(": ")) from None
    return content
