"""A run that a cluster's node was told to train: what it is told, where it trains, and what it returns."""

import contextlib
import os
import secrets
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from surelabel import files
from surelabel.config import RunConfig
from surelabel.jobs.attempt import attempt
from surelabel.jobs.events import Ended
from surelabel.jobs.travelling import packed

TOKEN_FILE = ".reproduction"
"""In the reproduction's folder: a worker that finds the same words there sees the same disk."""


@dataclass(frozen=True)
class Errand:
    """What a worker is told of a run."""

    name: str
    config: RunConfig
    folder: Path
    token: str
    shared: bool | None
    files: dict[str, Any]
    """References to the content of data files, by their path here."""

    @property
    def is_shared(self) -> bool:
        """Whether this process sees the disk of the one that sent the errand."""
        if self.shared is not None:
            return self.shared
        with contextlib.suppress(OSError):
            return (self.folder / TOKEN_FILE).read_text(encoding="utf-8") == self.token
        return False

    @property
    def scratch(self) -> Path:
        """A folder of this node; the same for the next attempt, which goes on from what it finds."""
        return Path(tempfile.gettempdir()) / f"surelabel-{self.token}"

    @property
    def place(self) -> Path:
        """Of the run in it."""
        return self.scratch / self.name


@dataclass(frozen=True)
class Answer:
    """What a worker returns: how the run ended, and where the disk is not shared its files and the node that still has them."""

    ended: Ended
    files: dict[str, bytes] | None = None
    node: str = ""


def train_on_node(errand: Errand, board: Any) -> Answer:
    """The task: train, and return the files where the disk is not shared."""
    os.environ["OMP_NUM_THREADS"] = str(errand.config.train.threads)
    if errand.is_shared:
        return Answer(attempt(errand.name, errand.config, errand.folder / "runs" / errand.name, board.tell.remote))
    errand.scratch.mkdir(mode=0o700, exist_ok=True)
    ended = attempt(errand.name, _with_files(errand), errand.place, board.tell.remote)
    if ended.reason is not None:
        return Answer(ended)
    return Answer(ended, packed(errand.place), _this_node())


def forget(errand: Errand) -> None:
    """The task on the node that trained, once the files have arrived: a run that got lost on its way would be there to send again."""
    shutil.rmtree(errand.place, ignore_errors=True)


def _this_node() -> str:
    import ray

    return str(ray.get_runtime_context().get_node_id())


def _with_files(errand: Errand) -> RunConfig:
    """The configuration with data files that are not on this node taken from the cluster's store."""
    data = errand.config.data
    changes = {}
    for field in ("source", "test"):
        path = getattr(data, field)
        if path in errand.files and not Path(path).is_file():
            changes[field] = str(_fetched(errand.files[path], errand.scratch / "data" / Path(path).name))
    return errand.config.model_copy(update={"data": data.model_copy(update=changes)})


def _fetched(reference: Any, path: Path) -> Path:
    import ray

    if not path.is_file():
        path.parent.mkdir(exist_ok=True)
        files.replace_bytes(path, ray.get(reference))  # in one step: another run on this node may want it too
    return path


def token(folder: Path) -> str:
    """Words that only this folder has, written when it is first used."""
    file = folder / TOKEN_FILE
    if not file.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        files.replace_text(file, secrets.token_hex(8))
    return file.read_text(encoding="utf-8")
