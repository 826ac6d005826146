"""Train a job on a node of a Ray cluster, with or without a disk that it shares with the caller."""

import contextlib
import re
import secrets
import shutil
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from surelabel import files
from surelabel.config import RunConfig
from surelabel.errors import RunError
from surelabel.jobs.training_process import POLL_SECONDS, Ending, Report, TrainingProcess
from surelabel.jobs.trial import Job
from surelabel.runs import checksums
from surelabel.runs.run_dir import RunDir

ID_FILE = ".folder-id"
"""In the caller's folder: a node that finds the same text there shares the disk."""
STOP_SECONDS = 60.0
"""How long a run may take to save its state when it is cancelled or loses its Ray worker."""
SAFE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
NOT_SENT = {"lock", "state.safetensors", checksums.FILE_NAME}
"""Files of a run that stay on the node that trained it."""


@dataclass(frozen=True)
class NodeJob:
    """A job as it is sent to a node."""

    job: Job
    folder_id: str
    is_shared: bool | None
    """Whether the node shares the caller's disk; None lets the node find out."""
    data_files: dict[str, Any]
    """Ray references to the contents of data files, by path on the caller's machine."""

    def shares_disk(self) -> bool:
        """Return whether this process sees the caller's folder."""
        if self.is_shared is not None:
            return self.is_shared
        with contextlib.suppress(OSError):
            return (self.job.folder / ID_FILE).read_text(encoding="utf-8") == self.folder_id
        return False

    def on_own_disk(self) -> Job:
        """Return the job in a folder of this node; a retry finds the run there and resumes it."""
        return replace(self.job, folder=Path(tempfile.gettempdir()) / f"surelabel-{self.folder_id}")


@dataclass(frozen=True)
class NodeReport:
    """A report from a node; without a shared disk, the last one brings the files of the run."""

    report: Report
    files: dict[str, bytes] | None = None
    node: str = ""
    log: str = ""


def train_on_node(node_job: NodeJob) -> Iterator[NodeReport]:
    """Train, and yield reports; this is the Ray task."""
    if node_job.shares_disk():
        for report, _ in _follow(node_job.job):
            yield NodeReport(report)
        return
    job = node_job.on_own_disk()
    job.folder.mkdir(mode=0o700, exist_ok=True)
    job = replace(job, config=_with_data_files(node_job, job))
    for report, log in _follow(job):
        if report.ending is None or report.ending.reason is not None:
            yield NodeReport(report, log=log)
        else:
            yield NodeReport(report, pack_run(job.path), _this_node())


def remove_copy(node_job: NodeJob) -> None:
    """Remove a run from the node that trained it; a Ray task, run once the files have arrived."""
    shutil.rmtree(node_job.on_own_disk().path, ignore_errors=True)


def _follow(job: Job) -> Iterator[tuple[Report, str]]:
    """Yield reports of a training process; the last one with the log of the process."""
    _wait_for_lock(job.path)
    if RunDir(job.path).is_done:  # an earlier task finished it, but its files did not arrive
        yield Report(job.name, ending=Ending()), ""
        return
    process = TrainingProcess(job)
    try:
        while True:
            report = process.poll()
            if report is None:
                time.sleep(POLL_SECONDS)
            elif report.ending is None:
                yield report, ""
            else:
                yield report, process.read_log()
                return
    finally:
        process.stop_or_kill(STOP_SECONDS)


def _wait_for_lock(path: Path) -> None:
    """Wait until the process of an earlier task, whose Ray worker died, has saved its state."""
    end = time.monotonic() + STOP_SECONDS
    while (path / "lock").is_file() and time.monotonic() < end:
        try:
            with RunDir(path).locked():
                return
        except RunError:
            time.sleep(POLL_SECONDS)


def _this_node() -> str:
    import ray

    return str(ray.get_runtime_context().get_node_id())


def _with_data_files(node_job: NodeJob, job: Job) -> RunConfig:
    """Fetch data files that this node lacks, and return the configuration with their paths here."""
    data = job.config.data
    changes = {}
    for field in ("source", "test"):
        path = getattr(data, field)
        if path in node_job.data_files and not Path(path).is_file():
            changes[field] = str(_fetch(node_job.data_files[path], job.folder / "data" / Path(path).name))
    return job.config.model_copy(update={"data": data.model_copy(update=changes)})


def _fetch(reference: Any, path: Path) -> Path:
    import ray

    if not path.is_file():
        path.parent.mkdir(exist_ok=True)
        files.replace_bytes(path, ray.get(reference))  # atomic: another job on this node may read it
    return path


def make_folder_id(folder: Path) -> str:
    """Return the random text that identifies a folder; write it on first use."""
    file = folder / ID_FILE
    if not file.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        files.replace_text(file, secrets.token_hex(8), files.unlisted)
    return file.read_text(encoding="utf-8")


def pack_run(path: Path) -> dict[str, bytes]:
    """Return the files of a finished run by name, as bytes."""
    RunDir.open(path).require_done()
    entries = (file for file in path.iterdir() if file.is_file() and SAFE_NAME.fullmatch(file.name))
    return {file.name: file.read_bytes() for file in entries if file.name not in NOT_SENT}


def unpack_run(content: dict[str, bytes], path: Path, config: RunConfig) -> None:
    """Write the files of a run that a node has trained, with the configuration of this machine."""
    _check_files(content, path)
    run = RunDir(path)
    with run.locked():
        run.write_json("config.json", config.model_dump(mode="json"))
        # `done` is written last: it says that the run is complete.
        for name in [*(content.keys() - {"config.json", "done"}), "done"]:
            run.write(name, partial(_fill, content[name]))
        run.state_file.unlink(missing_ok=True)  # of an earlier attempt on this machine


def _fill(content: bytes, path: Path) -> None:
    path.write_bytes(content)


def _check_files(content: dict[str, bytes], path: Path) -> None:
    for name, data in content.items():
        if not isinstance(name, str) or not SAFE_NAME.fullmatch(name) or name in NOT_SENT:
            raise RunError(f"{path}: a file called {name!r} came back, which a run does not have")
        if not isinstance(data, bytes):
            raise RunError(f"{path}: {name} came back as {type(data).__name__}, not as bytes")
    if missing := {"done", "config.json", "data.json"} - set(content):
        raise RunError(f"{path}: came back without {', '.join(sorted(missing))}")
