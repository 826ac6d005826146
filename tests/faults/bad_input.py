"""A bad input: files and a command to run on them. And makers of such files."""

import functools
import hashlib
import io
import os
import zipfile
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from hypothesis import strategies as st
from PIL import Image

QUICK = ("--model", "mlp", "--set", "model.widths=[4]", "--set", "train.second_opinion=false")
COMMANDS = {
    "plan": ("plan", "--epochs", "1", "--threads", "1", *QUICK),
    "fit": ("fit", "--epochs", "1", "--threads", "1", "--out", "run", *QUICK),
    "noise": ("noise", "--noise", "symmetric:0.4", "--out", "noisy.csv"),
}
commands = st.sampled_from([COMMANDS[name] for name in ("noise", "noise", "plan", "fit")])
"""Commands that read data; training takes longest."""


@dataclass(frozen=True)
class Pipe:
    """A named pipe, which nothing is written to."""


@dataclass(frozen=True)
class Link:
    """A symbolic link."""

    target: str


Content = bytes | Link | Pipe


@dataclass(frozen=True)
class BadInput:
    """Files to write into an empty folder, and the arguments of a command that runs there."""

    name: str
    files: dict[str, Content] = field(default_factory=dict)
    arguments: tuple[str, ...] = ()

    def digest(self) -> bytes:
        """Return a hash of files and arguments; inputs with another one are distinct."""
        return hashlib.sha256(repr((self.files, self.arguments)).encode(errors="backslashreplace")).digest()

    def write(self, folder: Path) -> None:
        """Write the files."""
        for name, content in self.files.items():
            path = folder / os.fsdecode(os.fsencode(name))
            path.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(content, Link):
                path.symlink_to(content.target)
            elif isinstance(content, bytes):
                path.write_bytes(content)
            else:
                os.mkfifo(path)


def npz(**arrays: np.ndarray) -> bytes:
    """Return an archive of a small data set with these arrays in place of its own."""
    x = np.random.default_rng(0).normal(size=(24, 4)).astype(np.float32)
    file = io.BytesIO()
    np.savez(file, **{"x": x, "y": np.arange(24) % 2, **arrays}, allow_pickle=True)
    return file.getvalue()


def npy(array: np.ndarray) -> bytes:
    """Return an array as a file."""
    file = io.BytesIO()
    np.save(file, array, allow_pickle=True)
    return file.getvalue()


@functools.cache
def png(side: int = 8, mode: str = "RGB", kind: str = "PNG") -> bytes:
    """Return an image."""
    file = io.BytesIO()
    Image.new(mode, (side, side)).save(file, kind)
    return file.getvalue()


@functools.cache
def zip_of(name: str, content: bytes) -> bytes:
    """Return an archive with one member."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)  # without the time of day
    return file.getvalue()


def tell(content: object) -> str:
    """Return what a name says of the content of a file."""
    return f"{len(content)} bytes" if isinstance(content, bytes) else repr(content)
