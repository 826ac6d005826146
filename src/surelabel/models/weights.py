"""Weights for backbones: from a file or the Hugging Face hub, checked name by name when loaded.

Reading a file never executes code.
"""

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
from torch.torch_version import TorchVersion

from surelabel.errors import ConfigError, missing_package

State = dict[str, Tensor]

SAFE_PICKLES = "2.10"
"""The first version of PyTorch without a known hole in `weights_only` (CVE-2026-24747)."""
HUB_FILES = ("model.safetensors", "pytorch_model.bin")
"""The names of files of weights on the hub, in the order in which they are tried."""
_HUB_TIMEOUT = 5.0
"""Seconds to wait for the hub; its client alone would retry for a minute."""

_WRAPPERS = ("module.", "_orig_mod.")
"""Prefixes that data-parallel and compiled networks add to names."""
_NESTED = ("state_dict", "model")
"""Keys under which training scripts save the weights."""
_NUM_SHOWN = 3


def read_weights(path: str | Path) -> State:
    """Read tensors by name from a .safetensors file or from one written by torch.save."""
    path = Path(path)
    if not path.is_file():
        raise ConfigError(f"model.weights: {path}: no such file; expected a .safetensors or .pth file, or pretrained")
    try:
        content = _read_safetensors(path) if path.suffix == ".safetensors" else _read_pickle(path)
    except Exception as error:  # each reader has a dozen errors for files that hold no weights
        raise ConfigError(f"model.weights: {path}: not readable as weights: {_first_line(error)}") from None
    for key in _NESTED:
        if isinstance(content.get(key), Mapping):
            content = content[key]
    state = {_strip_prefixes(str(name)): value for name, value in content.items() if isinstance(value, Tensor)}
    if not state:
        raise ConfigError(f"model.weights: {path}: contains no tensors; expected a state dict, name to tensor")
    return state


def _read_safetensors(path: Path) -> Mapping[str, Any]:
    from safetensors.torch import load_file

    content: dict[str, Tensor] = load_file(path)
    return content


def _read_pickle(path: Path) -> Mapping[str, Any]:
    if TorchVersion(torch.__version__) < TorchVersion(SAFE_PICKLES):
        raise TypeError(
            f"PyTorch {torch.__version__} may run code in it; use PyTorch {SAFE_PICKLES} or a .safetensors file"
        )
    content = torch.load(path, map_location="cpu", weights_only=True)  # executes nothing
    if not isinstance(content, Mapping):
        raise TypeError(f"expected a state dict, name to tensor, got {type(content).__name__}")
    return content


def _strip_prefixes(name: str) -> str:
    for wrapper in _WRAPPERS:
        name = name.removeprefix(wrapper)
    return name


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0].strip()


def load_weights(backbone: nn.Module, state: Mapping[str, Tensor], where: str) -> str | None:
    """Load `state` into a backbone; any mismatch other than a classifier raises ConfigError.

    Returns a note that names the classifier's weights, which are not used, or None. A backbone may
    have `file_names`, patterns and replacements for the names in files, `classifier_names`, the
    classifier's names in files, and `adapt`, a function that converts a state of another layout.
    """
    own, classifier = backbone.state_dict(), getattr(backbone, "classifier_names", ())
    in_file = {_rename(name, own, getattr(backbone, "file_names", ())): name for name in state}
    kept, ignored = _drop_classifier({name: state[old] for name, old in in_file.items()}, own, classifier)
    kept = _reconcile(kept, own)
    if _describe_mismatches(kept, own) and (adapt := getattr(backbone, "adapt", None)) is not None:
        kept, more = _drop_classifier(adapt(kept), own, classifier)
        ignored += more
    if mismatches := _describe_mismatches(kept, own):
        raise ConfigError(f"model.weights: {where}: does not fit the network: {'; '.join(mismatches)}")
    backbone.load_state_dict(kept)
    unused = sorted(in_file.get(name, name) for name in ignored)
    return f"{where}: its classifier is not used ({_join(unused)})" if unused else None


def _reconcile(state: State, own: Mapping[str, Tensor]) -> State:
    """Resolve two harmless differences: missing batch counters, a colour stem for grey images."""
    counters = {name: own[name] for name in own if name.endswith("num_batches_tracked") and name not in state}
    grey = {
        name: state[name].sum(1, keepdim=True) for name in own if name in state and _is_colour(state[name], own[name])
    }
    return state | counters | grey


def _is_colour(weight: Tensor, own: Tensor) -> bool:
    """Return whether a convolution in the file takes 3 channels and ours takes 1.

    Summing it over channels is exact, because a grey image has three equal channels.
    """
    return (
        weight.dim() == 4 and own.dim() == 4 and (weight.shape[1], own.shape[1]) == (3, 1) and len(weight) == len(own)
    )


def _drop_classifier(state: State, own: Mapping[str, Tensor], classifiers: Iterable[str]) -> tuple[State, list[str]]:
    """Return `state` without its classifier, and the names that were dropped."""
    prefixes = tuple(f"{name}." for name in classifiers)
    ignored = [name for name in state if prefixes and name.startswith(prefixes) and name not in own]
    return {name: value for name, value in state.items() if name not in ignored}, ignored


def _rename(name: str, own: Mapping[str, Tensor], patterns: Iterable[tuple[str, str]]) -> str:
    if name in own:
        return name
    for pattern, replacement in patterns:
        name = re.sub(f"^{pattern}", replacement, name)
    return name


def _describe_mismatches(state: Mapping[str, Tensor], own: Mapping[str, Tensor]) -> list[str]:
    """Describe why `state` cannot be loaded, with one clause for each kind of mismatch."""
    missing, unknown = [name for name in own if name not in state], [name for name in state if name not in own]
    other = [
        f"{name} {tuple(state[name].shape)} instead of {tuple(own[name].shape)}"
        for name in own
        if name in state and state[name].shape != own[name].shape
    ]
    kinds = {"missing": missing, "unknown": unknown, "of another shape": other}
    return [f"{len(names)} {kind}: {_join(names)}" for kind, names in kinds.items() if names]


def _join(names: list[str]) -> str:
    return ", ".join(names[:_NUM_SHOWN]) + (", ..." if len(names) > _NUM_SHOWN else "")


def fetch_weights(repository: str) -> Path:
    """Return the path of a hub repository's weights, downloaded unless they are cached.

    A repository is, for example, timm/resnet50.a1_in1k.
    """
    try:
        import huggingface_hub
    except ImportError:
        raise missing_package("model.weights: downloading weights", "huggingface_hub", "photos") from None
    cached = [huggingface_hub.try_to_load_from_cache(repository, name) for name in HUB_FILES]
    found = next((file for file in cached if isinstance(file, str)), None)
    return Path(found or _download(huggingface_hub, repository))


def _download(hub: Any, repository: str) -> str:
    """Download weights and return their path; every failure ends in the same advice."""
    reason = "the hub does not answer"
    for name in HUB_FILES if _is_reachable() else ():
        try:
            return str(hub.hf_hub_download(repository, name))
        except Exception as error:  # from the client, its HTTP library or the system
            reason = " ".join(str(error).split())[:200] or type(error).__name__
    raise ConfigError(
        f"model.weights: {repository} could not be downloaded ({reason}); on a machine with internet access, download "
        f"{_endpoint()}/{repository}/resolve/main/{HUB_FILES[0]}, and set model.weights=/path/to/{HUB_FILES[0]}, "
        f"or --features NAME=/path/to/{HUB_FILES[0]}"
    )


def _endpoint() -> str:
    return os.environ.get("HF_ENDPOINT", "https://huggingface.co").rstrip("/")


def _is_reachable() -> bool:
    """Return whether the hub answers at all; behind a proxy, assume that it does."""
    if os.environ.get("HF_HUB_OFFLINE", "0").upper() not in ("", "0", "NO", "OFF", "FALSE"):
        return False
    if getproxies():
        return True
    url = urlsplit(_endpoint())
    try:
        address = (url.hostname or "", url.port or (443 if url.scheme == "https" else 80))
        socket.create_connection(address, timeout=_HUB_TIMEOUT).close()
    except OSError:
        return False
    return True
