"""`surelabel settings`: list every field that --set takes, from the models of the configuration."""

import json as json_format
import re
import shutil
import textwrap
from collections.abc import Iterator
from typing import Annotated, Any, get_args

import typer
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from surelabel import console
from surelabel.cli.methods import type_text
from surelabel.cli.options import Json, app
from surelabel.config import RunConfig
from surelabel.errors import ConfigError

INDENT = "    "
HOW_TO_SET = (
    "Set one: surelabel fit DATA --set FIELD=VALUE, or in a file for --config.",
    "Options of a method are set as method.OPTION: surelabel methods NAME lists them.",
)
KIND = "kind"
"""The field that says which of several models a setting has."""


@app.command()
def settings(
    part: Annotated[
        str | None,
        typer.Argument(metavar="PART", help="Show only one part: data, noise, method, model, optimiser or train."),
    ] = None,
    json: Json = False,
) -> None:
    """List every setting that --set takes, with its type, default and meaning."""
    if part is not None and part not in RunConfig.model_fields:
        raise ConfigError(f"there is no part {part!r}; available: {', '.join(RunConfig.model_fields)}")
    found = [row for row in list_settings() if part is None or row["name"].startswith(f"{part}.")]
    if json:
        console.say_json(found)
        return
    width = min(100, shutil.get_terminal_size().columns)
    for row in found:
        head = f"{row['name']}: {row['type']}; {_default_text(row)}"
        console.say(textwrap.fill(head, width, subsequent_indent=INDENT))
        console.say(textwrap.fill(row["meaning"], width, initial_indent=INDENT, subsequent_indent=INDENT))
    console.say()
    for sentence in HOW_TO_SET:
        console.say(textwrap.fill(sentence, width))


def _default_text(row: dict[str, Any]) -> str:
    if row["is_required"]:
        return "no default"
    value = row["default"]
    return f"default {value if isinstance(value, str) else json_format.dumps(value)}"


def list_settings() -> list[dict[str, Any]]:
    """Return name, type, default and meaning of every field, by dotted name."""
    return list(_walk(RunConfig, "", ""))


def _walk(model: type[BaseModel], prefix: str, only_for: str) -> Iterator[dict[str, Any]]:
    for name, field in model.model_fields.items():
        inner, dotted = _models_in(field), f"{prefix}{name}"
        is_variant_name = name == KIND and bool(only_for)
        if len(inner) > 1:
            yield _describe_kinds(f"{dotted}.{KIND}", field, inner)
        elif not is_variant_name and (not inner or field.description):
            yield _describe(dotted, field, only_for)
        for one in inner:
            yield from _walk(one, f"{dotted}.", one.model_fields[KIND].default if len(inner) > 1 else "")


def _models_in(field: FieldInfo) -> list[type[BaseModel]]:
    found = (field.annotation, *get_args(field.annotation))
    return [one for one in found if isinstance(one, type) and issubclass(one, BaseModel)]


def _describe_kinds(name: str, field: FieldInfo, models: list[type[BaseModel]]) -> dict[str, Any]:
    """Describe a field that has one of several models, each with settings of its own."""
    meanings = {model.model_fields[KIND].default: (model.__doc__ or "").partition("\n")[0] for model in models}
    meaning = " ".join(f"{kind}: {text}" for kind, text in meanings.items())
    default = field.get_default(call_default_factory=True).kind
    return {"name": name, "type": ", ".join(meanings), "default": default, "is_required": False, "meaning": meaning}


def _with_bounds(field: FieldInfo) -> Any:
    return Annotated[(field.annotation, *field.metadata)] if field.metadata else field.annotation


def _describe(name: str, field: FieldInfo, only_for: str) -> dict[str, Any]:
    default = None if field.is_required() else field.get_default(call_default_factory=True)
    if isinstance(default, BaseModel):
        default = default.model_dump(mode="json")
    # As YAML has it, in which --set reads values.
    meaning = re.sub(r"\bNone\b", "null", " ".join((field.description or "").split()))
    return {
        "name": name,
        "type": type_text(_with_bounds(field)),
        "default": default,
        "is_required": field.is_required(),
        "meaning": f"With kind {only_for}: {meaning[:1].lower()}{meaning[1:]}" if only_for and meaning else meaning,
    }
