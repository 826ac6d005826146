"""`surelabel methods`: what methods there are, what each trains and keeps, and its options."""

import re
from typing import TYPE_CHECKING, Annotated, Any

import typer

from surelabel import console
from surelabel.cli.options import Json, app

if TYPE_CHECKING:
    from torch import Tensor

    from surelabel.core.method import Method

NUM_SAMPLES, NUM_CLASSES, NUM_EPOCHS = 97, 10, 200
"""Of the task on which methods are looked at; 97 is no other size in it, so a table with 97 rows is one per sample."""
_BOUNDS = {"exclusiveMinimum": ">", "minimum": ">=", "exclusiveMaximum": "<", "maximum": "<="}


@app.command()
def methods(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Show this one with its options.")] = None,
    json: Json = False,
) -> None:
    """The training methods there are, or one of them with its options."""
    from surelabel.methods import names

    found = [described(one) for one in (names() if name is None else [name])]
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
            "by rule" if option["default"] is None else str(option["default"]),
            option["help"],
        ]
        for option in method["options"]
    ]
    console.say_table(("name", "type", "default", "help"), rows, wrap=True)
    first = method["options"][0]["name"]
    console.say(f"\nSet one: surelabel fit DATA --method {method['name']} --set method.{first}=VALUE")


def described(name: str) -> dict[str, Any]:
    """A method's name, year, kind, summary and paper, what it trains and keeps, and its options with type, default and meaning."""
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
    return {**about, **shape_of(method), "options": options}


def shape_of(method: "type[Method]") -> dict[str, Any]:
    """What a method with its defaults trains and keeps, read off an instance for a task that is small."""
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
        "state": state_of(instance),
    }


def state_of(method: "Method") -> list[dict[str, Any]]:
    """Name and shape, in N samples and K classes, of what a method keeps for each sample."""
    from surelabel.core.state import SampleStore

    tables = {name: store.rows[:-1] for name, store in method.named_modules() if isinstance(store, SampleStore)}
    # What the task says, the given labels and who confirmed them, is not state: it is not saved either.
    buffers = {name: buffer for name, buffer in method.named_buffers(recurse=False) if name in method.state_dict()}
    tables |= {name: buffer for name, buffer in buffers.items() if NUM_SAMPLES in buffer.shape}
    return [{"name": name, "shape": symbols(rows)} for name, rows in stacked(tables).items()]


def stacked(tables: "dict[str, Tensor]") -> "dict[str, Tensor]":
    """Tables of a list, whose names are numbers, as one."""
    import torch

    groups: dict[str, list[Tensor]] = {}
    for name, rows in tables.items():
        groups.setdefault(re.sub(r"\.\d+$", "", name), []).append(rows)
    return {name: torch.stack(group) if len(group) > 1 else group[0] for name, group in groups.items()}


def symbols(table: "Tensor") -> list[str]:
    """The axes of a table: N, K, K + 1 or a number."""
    known = {NUM_SAMPLES: "N", NUM_CLASSES: "K", NUM_CLASSES + 1: "K + 1"}
    before = list(table.shape).index(NUM_SAMPLES)
    # Classes come after samples: ten tables are not K of them.
    return [str(size) if axis < before else known.get(size, str(size)) for axis, size in enumerate(table.shape)]


def type_text(annotation: Any) -> str:
    """A type with its bounds, in words: the JSON schema that pydantic makes of it, in short."""
    from pydantic import TypeAdapter

    schema = TypeAdapter(annotation).json_schema()
    kinds = [_schema_text(kind) for kind in schema.get("anyOf", [schema]) if kind.get("type") != "null"]
    return " or ".join(kinds)


def _schema_text(schema: dict[str, Any]) -> str:
    if "enum" in schema:
        return ", ".join(map(str, schema["enum"]))
    limits = [f"{sign} {schema[key]:g}" for key, sign in _BOUNDS.items() if key in schema]
    return " ".join([str(schema.get("type", "any")), ", ".join(limits)]).strip()
