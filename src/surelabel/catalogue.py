"""The training methods in words: what `surelabel methods` lists."""

import inspect
from typing import Any

from pydantic import TypeAdapter

from surelabel import methods
from surelabel.core.method import option_help, options_of

_BOUNDS = {"exclusiveMinimum": ">", "minimum": ">=", "exclusiveMaximum": "<", "maximum": "<="}


def described(name: str) -> dict[str, Any]:
    """A method's name, year, kind, summary and paper, and its options with type, default and meaning."""
    method = methods.find(name)
    texts = option_help(method)
    options = [
        {"name": key, "type": type_text(option.annotation), "default": option.default, "help": texts.get(key, "")}
        for key, option in options_of(method).items()
    ]
    summary = (inspect.getdoc(method) or "").partition("\n")[0]
    about = {"name": name, "year": method.year, "kind": method.kind, "summary": summary, "paper": method.paper}
    return {**about, "options": options}


def type_text(annotation: Any) -> str:
    """A type with its bounds, in words: the JSON schema that pydantic makes of it, in short."""
    schema = TypeAdapter(annotation).json_schema()
    kinds = [_schema_text(kind) for kind in schema.get("anyOf", [schema]) if kind.get("type") != "null"]
    return " or ".join(kinds)


def _schema_text(schema: dict[str, Any]) -> str:
    if "enum" in schema:
        return ", ".join(map(str, schema["enum"]))
    limits = [f"{sign} {schema[key]:g}" for key, sign in _BOUNDS.items() if key in schema]
    return " ".join([str(schema.get("type", "any")), ", ".join(limits)]).strip()
