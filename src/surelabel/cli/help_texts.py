"""Defaults and choices for help texts, from the configuration; PyTorch is not imported for them."""

from typing import get_args

from surelabel.config import RunConfig
from surelabel.methods import names


def default_text(field: str) -> str:
    """Return the default of a setting, such as train.epochs, for a help text."""
    part, name = field.split(".")
    value = getattr(RunConfig.model_fields[part].default, name)
    return f"Default: {value}"


def choices_text(field: str) -> str:
    """Return the allowed values of a setting, for a help text."""
    part, name = field.split(".")
    values = get_args(type(RunConfig.model_fields[part].default).model_fields[name].annotation)
    return f"{', '.join(values[:-1])} or {values[-1]}"


def method_names() -> str:
    """List the methods, without importing them."""
    return ", ".join(names())
