"""The content of data.json: what is known of a run's data, as far as it is read again."""

from typing import Annotated, Any, NotRequired

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from surelabel.config import one_line

Size = Annotated[int, Field(ge=0)]


class Recorded(TypedDict):
    """What is known of a run that another training loop recorded."""

    missing: list[str]


class Description(TypedDict):
    """The fields of data.json; there may be others."""

    __pydantic_config__ = ConfigDict(extra="allow", strict=True)  # type: ignore[misc]

    schema: int
    class_names: Annotated[list[str], Field(min_length=1)]
    input_shape: list[Size]
    stored_shape: NotRequired[list[Size]]
    num_train: Size
    num_validation: Size
    tests: NotRequired[dict[str, Size]]
    fingerprint: str
    digests: NotRequired[dict[str, str]]
    recorded: NotRequired[Recorded]


_description = TypeAdapter(Description)


def check(content: dict[str, Any]) -> None:
    """Raise ValueError if a field is missing or has a wrong type."""
    try:
        _description.validate_python(content)
    except ValidationError as error:
        raise ValueError(one_line(error)) from None
    shape, stored = content["input_shape"], content.get("stored_shape", content["input_shape"])
    if not shape and "recorded" not in content:
        raise ValueError("input_shape: expected at least one number, got []")
    if stored != shape and not len(stored) == len(shape) == 3:
        raise ValueError(f"stored_shape: expected the shape {shape} or that of larger images, got {stored}")
