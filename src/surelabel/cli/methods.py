"""`surelabel methods`: list the methods, what each trains and stores, and its options."""

import re
from typing import TYPE_CHECKING, Annotated, Any

import typer

from surelabel import console
from surelabel.cli.options import Json, app
from surelabel.methods import check_name, names

if TYPE_CHECKING:
    from torch import Tensor

    from surelabel.core.method import Method

NUM_SAMPLES, NUM_CLASSES, NUM_EPOCHS = 97, 10, 200
"""Sizes of the task on which methods are built; only per-sample tables have 97 rows."""
_BOUNDS = {"exclusiveMinimum": ">", "minimum": ">=", "exclusiveMaximum": "<", "maximum": "<="}


@app.command()
def methods(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Show only this method, with its options.")] = None,
    json: Json = False,
) -> None:
    """List the training methods, or show one of them with its options."""
    found = [describe(one) for one in (names() if name is None else [check_name(name)])]
    if json:
        console.say_json(found)
    elif name is None:
        _say_methods(found)
        console.say("Options of one: surelabel methods NAME   Use it: surelabel fit DATA --method NAME")
    else:
        _say_method(found[0])


def _say_methods(found: list[dict[str, Any]]) -> None:
    plain = ("name", "year", "kind", "networks")
    rows = [
        [
            *(method[column] for column in plain),
            method["forward_passes"],
            method["backward_passes"],
            ", ".join(method["stages"]),
            _state_text(method),
        ]
        for method in found
    ]
    console.say_table((*plain, "forward", "backward", "stages", "state per sample"), rows, wrap=True)
    console.say("\nforward, backward: passes of a network over a batch in one step. N samples, K classes.")


def _state_text(method: dict[str, Any]) -> str:
    return ", ".join(f"{table['name']} ({' x '.join(table['shape'])})" for table in method["state"]) or "none"


def _say_method(method: dict[str, Any]) -> None:
    console.say_prose(
        f"{method['name']}: {method['summary']}\n{method['paper']}, {method['year']} ({method['kind']})\n"
    )
    if method["when"]:
        console.say_prose(f"{method['when']}\n")
    console.say_prose(
        f"Networks: {method['networks']}. Passes a step: {method['forward_passes']} forward, "
        f"{method['backward_passes']} backward. Stages: {', '.join(method['stages'])}. "
        f"State per sample: {_state_text(method)}.\n"
    )
    if not method["options"]:
        console.say("It has no options.")
        return
    rows = [
        [
            option["name"],
            option["type"],
            _value_text(option["default"]),
            option["help"],
        ]
        for option in method["options"]
    ]
    console.say_table(("name", "type", "default", "help"), rows, wrap=True)
    if tried := method["candidates"]:
        shown = "; ".join(f"{name} {', '.join(map(_value_text, values))}" for name, values in tried.items())
        console.say_prose(f"\nTried by surelabel tune: {shown}. {method['candidates_from']}")
    first = method["options"][0]["name"]
    console.say(f"\nSet one: surelabel fit DATA --method {method['name']} --set method.{first}=VALUE")


def _value_text(value: Any) -> str:
    return "by rule" if value is None else str(value)


def describe(name: str) -> dict[str, Any]:
    """Describe a method: its paper, what it trains and stores, and its options."""
    import inspect

    from surelabel import methods
    from surelabel.core.method import option_help, options_of

    method = methods.find(name)
    texts = option_help(method)
    options = [
        {"name": key, "type": type_text(option.annotation), "default": option.default, "help": texts.get(key, "")}
        for key, option in options_of(method).items()
    ]
    summary = (inspect.getdoc(method) or "").partition("\n")[0]
    about = {"name": name, "year": method.year, "kind": method.kind, "summary": summary, "paper": method.paper}
    about["when"] = method.when
    tried = {"candidates": dict(method.candidates.values), "candidates_from": method.candidates.source}
    return {**about, **describe_training(method), "options": options, **tried}


def describe_training(method: "type[Method]") -> dict[str, Any]:
    """Describe what a method with default options trains and stores, by building a small one."""
    import torch

    from surelabel.config import ModelConfig
    from surelabel.core.method import Task
    from surelabel.training.build import NetworkFactory

    given = torch.arange(NUM_SAMPLES) % NUM_CLASSES
    factory = NetworkFactory(ModelConfig(name="mlp", options={"widths": [2]}), (2,), NUM_CLASSES, seed=0)
    instance = method(Task(NUM_CLASSES, NUM_SAMPLES, given, NUM_EPOCHS, factory))
    return {
        "networks": len(instance.networks()),
        "forward_passes": method.forward_passes,
        "backward_passes": method.backward_passes,
        "stages": [stage.name for stage in instance.stages()],
        "state": per_sample_state(instance),
    }


def per_sample_state(method: "Method") -> list[dict[str, Any]]:
    """Return name and shape, in N and K, of the tables a method stores per sample."""
    from surelabel.core.state import SampleStore

    tables = {name: store.rows[:-1] for name, store in method.named_modules() if isinstance(store, SampleStore)}
    # The task's given labels and trusted mask are not state: they are not saved.
    buffers = {name: buffer for name, buffer in method.named_buffers(recurse=False) if name in method.state_dict()}
    tables |= {name: buffer for name, buffer in buffers.items() if NUM_SAMPLES in buffer.shape}
    return [{"name": name, "shape": axis_names(rows)} for name, rows in stack_lists(tables).items()]


def stack_lists(tables: "dict[str, Tensor]") -> "dict[str, Tensor]":
    """Stack the tables of a list, whose names end in numbers."""
    import torch

    groups: dict[str, list[Tensor]] = {}
    for name, rows in tables.items():
        groups.setdefault(re.sub(r"\.\d+$", "", name), []).append(rows)
    return {name: torch.stack(group) if len(group) > 1 else group[0] for name, group in groups.items()}


def axis_names(table: "Tensor") -> list[str]:
    """Name the axes of a table: N, K, K + 1 or a number."""
    known = {NUM_SAMPLES: "N", NUM_CLASSES: "K", NUM_CLASSES + 1: "K + 1"}
    before = list(table.shape).index(NUM_SAMPLES)
    # Class axes come after the sample axis: a stack of ten tables is not K tables.
    return [str(size) if axis < before else known.get(size, str(size)) for axis, size in enumerate(table.shape)]


def type_text(annotation: Any) -> str:
    """Describe a type and its bounds, from the JSON schema that pydantic makes of it."""
    from pydantic import TypeAdapter

    schema = TypeAdapter(annotation).json_schema()
    kinds = [_schema_text(kind) for kind in schema.get("anyOf", [schema]) if kind.get("type") != "null"]
    return " or ".join(kinds)


def _schema_text(schema: dict[str, Any]) -> str:
    if "enum" in schema or "const" in schema:
        return ", ".join(map(str, schema.get("enum", [schema.get("const")])))
    if "items" in schema:
        return f"list of {_schema_text(schema['items'])}"
    if schema.get("type") == "object" or "$ref" in schema:
        return "mapping"
    limits = [f"{sign} {schema[key]:.15g}" for key, sign in _BOUNDS.items() if key in schema]
    return " ".join([str(schema.get("type", "any")), ", ".join(limits)]).strip()
