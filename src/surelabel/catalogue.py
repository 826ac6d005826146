"""The training methods in words: what `surelabel methods` lists."""

import inspect
import re
from typing import Any

import torch
from pydantic import TypeAdapter
from torch import Tensor

from surelabel import methods
from surelabel.config import ModelConfig
from surelabel.core.method import Method, Task, option_help, options_of
from surelabel.core.state import SampleStore
from surelabel.training.build import NetworkFactory

NUM_SAMPLES, NUM_CLASSES, NUM_EPOCHS = 97, 10, 200
"""Of the task on which methods are looked at; 97 is no other size in it, so a table with 97 rows is one per sample."""
_BOUNDS = {"exclusiveMinimum": ">", "minimum": ">=", "exclusiveMaximum": "<", "maximum": "<="}


def described(name: str) -> dict[str, Any]:
    """A method's name, year, kind, summary and paper, what it trains and keeps, and its options with type, default and meaning."""
    method = methods.find(name)
    texts = option_help(method)
    options = [
        {"name": key, "type": type_text(option.annotation), "default": option.default, "help": texts.get(key, "")}
        for key, option in options_of(method).items()
    ]
    summary = (inspect.getdoc(method) or "").partition("\n")[0]
    about = {"name": name, "year": method.year, "kind": method.kind, "summary": summary, "paper": method.paper}
    return {**about, **shape_of(method), "options": options}


def shape_of(method: type[Method]) -> dict[str, Any]:
    """What a method with its defaults trains and keeps, read off an instance for a task that is small."""
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


def state_of(method: Method) -> list[dict[str, Any]]:
    """Name and shape, in N samples and K classes, of what a method keeps for each sample."""
    tables = {name: store.rows[:-1] for name, store in method.named_modules() if isinstance(store, SampleStore)}
    # What the task says, the given labels and who confirmed them, is not state: it is not saved either.
    buffers = {name: buffer for name, buffer in method.named_buffers(recurse=False) if name in method.state_dict()}
    tables |= {name: buffer for name, buffer in buffers.items() if NUM_SAMPLES in buffer.shape}
    return [{"name": name, "shape": symbols(rows)} for name, rows in stacked(tables).items()]


def stacked(tables: dict[str, Tensor]) -> dict[str, Tensor]:
    """Tables of a list, whose names are numbers, as one."""
    groups: dict[str, list[Tensor]] = {}
    for name, rows in tables.items():
        groups.setdefault(re.sub(r"\.\d+$", "", name), []).append(rows)
    return {name: torch.stack(group) if len(group) > 1 else group[0] for name, group in groups.items()}


def symbols(table: Tensor) -> list[str]:
    """The axes of a table: N, K, K + 1 or a number."""
    known = {NUM_SAMPLES: "N", NUM_CLASSES: "K", NUM_CLASSES + 1: "K + 1"}
    before = list(table.shape).index(NUM_SAMPLES)
    # Classes come after samples: ten tables are not K of them.
    return [str(size) if axis < before else known.get(size, str(size)) for axis, size in enumerate(table.shape)]


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
