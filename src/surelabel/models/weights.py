"""Weights from files: read without executing anything, and fitted into a backbone with every mismatch named."""

import os
import re
import socket
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies

import torch
from torch import Tensor, nn

from surelabel.errors import ConfigError

State = dict[str, Tensor]

FILES = ("model.safetensors", "pytorch_model.bin")
"""What weights are called there, in the order in which they are looked for."""
INSTALL = 'pip install "surelabel[vision]"'
_PATIENCE = 5.0
"""Seconds to wait for the hub; its own client would try for a minute."""

_WRAPPERS = ("module.", "_orig_mod.")
"""Beginnings of names that data-parallel and compiled networks add."""
_INNER = ("state_dict", "model")
"""Where training scripts keep the weights within what they save."""
_SHOWN = 3


def read_weights(path: str | Path) -> State:
    """The tensors of a .safetensors file or of one that torch.save wrote, by name."""
    path = Path(path)
    if not path.is_file():
        raise ConfigError(f"model.weights: {path}: no such file; expected a .safetensors or .pth file, or pretrained")
    try:
        content = _safetensors(path) if path.suffix == ".safetensors" else _pickled(path)
    except Exception as error:  # each reader has a dozen errors of its own for files that are no weights
        raise ConfigError(f"model.weights: {path}: not readable as weights: {_first_line(error)}") from None
    for key in _INNER:
        if isinstance(content.get(key), Mapping):
            content = content[key]
    state = {_unwrapped(str(name)): value for name, value in content.items() if isinstance(value, Tensor)}
    if not state:
        raise ConfigError(f"model.weights: {path}: there are no tensors in it; expected a state dict, name to tensor")
    return state


def _safetensors(path: Path) -> Mapping[str, Any]:
    from safetensors.torch import load_file

    return load_file(path)


def _pickled(path: Path) -> Mapping[str, Any]:
    content = torch.load(path, map_location="cpu", weights_only=True)  # executes nothing
    if not isinstance(content, Mapping):
        raise TypeError(f"expected a state dict, name to tensor, got {type(content).__name__}")
    return content


def _unwrapped(name: str) -> str:
    for wrapper in _WRAPPERS:
        name = name.removeprefix(wrapper)
    return name


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0].strip()


def load_weights(backbone: nn.Module, state: Mapping[str, Tensor], where: str) -> str | None:
    """Put `state` into a backbone, and say which classifier was left out; every other mismatch is an error.

    A backbone may say what files call its layers (`file_names`, patterns and replacements) and their classifier
    (`classifier_names`), and may know how to convert a state of another layout (`adapted`).
    """
    own, classifier = backbone.state_dict(), getattr(backbone, "classifier_names", ())
    in_file = {_renamed(name, own, getattr(backbone, "file_names", ())): name for name in state}
    kept, ignored = _without_classifier({name: state[old] for name, old in in_file.items()}, own, classifier)
    kept = _completed(kept, own)
    if _faults(kept, own) and (adapted := getattr(backbone, "adapted", None)) is not None:
        kept, more = _without_classifier(adapted(kept), own, classifier)
        ignored += more
    if faults := _faults(kept, own):
        raise ConfigError(f"model.weights: {where}: does not fit the network: {'; '.join(faults)}")
    backbone.load_state_dict(kept)
    unused = sorted(in_file.get(name, name) for name in ignored)
    return f"{where}: its classifier is not used ({_list(unused)})" if unused else None


def _completed(state: State, own: Mapping[str, Tensor]) -> State:
    """Differences that are none: a counter that nothing reads, and the first layer of colour images where these are grey."""
    counters = {name: own[name] for name in own if name.endswith("num_batches_tracked") and name not in state}
    grey = {
        name: state[name].sum(1, keepdim=True) for name in own if name in state and _sees_colour(state[name], own[name])
    }
    return state | counters | grey


def _sees_colour(weight: Tensor, own: Tensor) -> bool:
    """Whether a convolution takes 3 channels where this one takes 1: a grey image is three times the same."""
    return (
        weight.dim() == 4 and own.dim() == 4 and (weight.shape[1], own.shape[1]) == (3, 1) and len(weight) == len(own)
    )


def _without_classifier(state: State, own: Mapping[str, Tensor], classifiers: Iterable[str]) -> tuple[State, list[str]]:
    """`state` and the names that were left out: those under a classifier's name that the network does not know."""
    beginnings = tuple(f"{name}." for name in classifiers)
    ignored = [name for name in state if beginnings and name.startswith(beginnings) and name not in own]
    return {name: value for name, value in state.items() if name not in ignored}, ignored


def _renamed(name: str, own: Mapping[str, Tensor], patterns: Iterable[tuple[str, str]]) -> str:
    if name in own:
        return name
    for pattern, replacement in patterns:
        name = re.sub(f"^{pattern}", replacement, name)
    return name


def _faults(state: Mapping[str, Tensor], own: Mapping[str, Tensor]) -> list[str]:
    """What keeps `state` from being loaded, a clause for each kind of mismatch."""
    missing, unknown = [name for name in own if name not in state], [name for name in state if name not in own]
    other = [
        f"{name} {tuple(state[name].shape)} instead of {tuple(own[name].shape)}"
        for name in own
        if name in state and state[name].shape != own[name].shape
    ]
    kinds = {"missing": missing, "unknown": unknown, "of another shape": other}
    return [f"{len(names)} {kind}: {_list(names)}" for kind, names in kinds.items() if names]


def _list(names: list[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")


def hub_file(repository: str) -> Path:
    """The file with the weights of a repository, such as timm/resnet50.a1_in1k."""
    try:
        import huggingface_hub
    except ImportError:
        raise ConfigError(f"model.weights: fetching weights needs a package that is not here: {INSTALL}") from None
    known = [huggingface_hub.try_to_load_from_cache(repository, name) for name in FILES]
    found = next((file for file in known if isinstance(file, str)), None)
    return Path(found or _fetched(huggingface_hub, repository))


def _fetched(hub: Any, repository: str) -> str:
    """What was downloaded; every way in which that can fail ends in the same advice."""
    reason = "the hub does not answer"
    for name in FILES if _is_reachable() else ():
        try:
            return hub.hf_hub_download(repository, name)
        except Exception as error:  # of the client, of its HTTP library, of the system
            reason = " ".join(str(error).split())[:200] or type(error).__name__
    raise ConfigError(
        f"model.weights: {repository} could not be fetched ({reason}); on a machine with a network download "
        f"{_endpoint()}/{repository}/resolve/main/{FILES[0]}, and set model.weights=/path/to/{FILES[0]}"
    )


def _endpoint() -> str:
    return os.environ.get("HF_ENDPOINT", "https://huggingface.co").rstrip("/")


def _is_reachable() -> bool:
    """Whether the hub answers at all; behind a proxy only trying can tell."""
    if os.environ.get("HF_HUB_OFFLINE", "0").upper() not in ("", "0", "NO", "OFF", "FALSE"):
        return False
    if getproxies():
        return True
    place = urlsplit(_endpoint())
    try:
        address = (place.hostname or "", place.port or (443 if place.scheme == "https" else 80))
        socket.create_connection(address, timeout=_PATIENCE).close()
    except OSError:
        return False
    return True
