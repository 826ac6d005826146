"""Nested plain values and tensors in one safetensors file: reading it can run no code.

The metadata in its header hold all but the tensors as JSON, with references to them:

    {"dict": [["step", 3], ["weights", {"tensor": "0"}], ["best", {"float": "inf"}]]}

JSON's lists are lists, and its numbers, texts, booleans and null are Python's. safetensors' own
writer would copy all tensors first.
"""

import functools
import json
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import torch
from torch import Tensor

TREE = "surelabel"
"""Name of the metadata that hold the JSON."""
DTYPES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}


def write_state(file: IO[bytes], state: Any) -> None:
    """Write a state; of all its tensors at most one is copied at a time."""
    tensors: list[Tensor] = []
    tree = _pack(state, tensors, {})
    # Each tensor begins at a multiple of its element's size, because larger elements come first.
    order = sorted(range(len(tensors)), key=lambda number: -tensors[number].element_size())
    header: dict[str, Any] = {"__metadata__": {TREE: json.dumps(tree, allow_nan=False)}}
    end = 0
    for number in order:
        tensor = tensors[number]
        begin, end = end, end + tensor.numel() * tensor.element_size()
        header[str(number)] = {
            "dtype": DTYPES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [begin, end],
        }
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    file.write(len(text).to_bytes(8, "little") + text)
    for number in order:
        file.write(tensors[number].detach().cpu().reshape(-1).view(torch.uint8).numpy().data)


def read_state(path: str | os.PathLike[str], device: torch.device, is_mapped: bool = False) -> Any:
    """Read a state; if `is_mapped`, tensors are read from the file when they are used."""
    from safetensors import safe_open

    def read(name: str) -> Tensor:
        """Copy a tensor; a file of its own lets go of what was read of it."""
        with safe_open(Path(path), "pt", device=str(device)) as file:
            tensor: Tensor = file.get_tensor(name).clone()
        return tensor

    with safe_open(Path(path), "pt", device=str(device)) as file:
        tree = json.loads((file.metadata() or {})[TREE])
        return _unpack(tree, functools.cache(file.get_tensor if is_mapped else read))


def _pack(value: Any, tensors: list[Tensor], places: dict[Any, int]) -> Any:
    """Return a value as JSON, and append its tensors; one that occurs twice is stored once."""
    if isinstance(value, Tensor):
        if value.dtype not in DTYPES:
            raise TypeError(f"a state cannot hold tensors of {value.dtype}")
        place = (value.data_ptr(), value.dtype, value.shape, value.stride(), value.device)
        if places.setdefault(place, len(tensors)) == len(tensors):
            tensors.append(value)
        return {"tensor": str(places[place])}
    if isinstance(value, dict):
        return {"dict": [[_pack(key, tensors, places), _pack(inner, tensors, places)] for key, inner in value.items()]}
    if isinstance(value, list | tuple):
        packed = [_pack(inner, tensors, places) for inner in value]
        return packed if isinstance(value, list) else {"tuple": packed}
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": repr(float(value))}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"a state cannot hold a {type(value).__name__}")


def _unpack(tree: Any, tensor: Callable[[str], Tensor]) -> Any:
    """Return the value that `_pack` was given."""
    if isinstance(tree, list):
        return [_unpack(inner, tensor) for inner in tree]
    if not isinstance(tree, dict):
        return tree
    ((kind, content),) = tree.items()
    if kind == "dict":
        return {_unpack(key, tensor): _unpack(inner, tensor) for key, inner in content}
    if kind == "tuple":
        return tuple(_unpack(inner, tensor) for inner in content)
    if kind == "tensor":
        return tensor(content)
    if kind == "float":
        return float(content)
    raise ValueError(f"{kind}: no kind of value")
