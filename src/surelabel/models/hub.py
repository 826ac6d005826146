"""Weights from the Hugging Face hub: from its local cache, else fetched, else one line that says how to bring a file."""

import os
import socket
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies

from surelabel.errors import ConfigError

FILES = ("model.safetensors", "pytorch_model.bin")
"""What weights are called there, in the order in which they are looked for."""
INSTALL = 'pip install "surelabel[vision]"'
_PATIENCE = 5.0
"""Seconds to wait for the hub; its own client would try for a minute."""


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
