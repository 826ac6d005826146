"""Runs on a Ray cluster of two nodes on this machine, one of which loses a worker."""

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
import torch

from surelabel import api
from surelabel.config import validate
from surelabel.errors import ConfigError, RunError
from surelabel.jobs import Job, RayBackend, Trial, run_all
from surelabel.jobs.ray_backend import train_in_place
from surelabel.jobs.training_process import write_config
from surelabel.runs.run_dir import RunDir

SETTINGS = {
    "RAY_AUTH_MODE": "disabled",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_DEDUP_LOGS": "0",
    "RAY_worker_niceness": "0",
}


@pytest.fixture
def two_nodes(monkeypatch, tmp_path):
    """The address of a cluster of two nodes on loopback, each with room for one run."""
    pytest.importorskip("ray", reason='ray is not installed: pip install "surelabel[ray]"')
    for name, value in SETTINGS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("TMPDIR", str(tmp_path))  # where workers train
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    # Fabric imports torchmetrics if it is there, and that imports matplotlib, which caches fonts.
    monkeypatch.setenv("MPLCONFIGDIR", str(tmp_path / "matplotlib"))
    import ray
    from ray.cluster_utils import Cluster as Nodes

    folder = tempfile.mkdtemp(prefix="r", dir="/tmp")  # short: paths of sockets have at most 107 characters
    (Path(folder) / "ray").mkdir()
    monkeypatch.setenv("RAY_TMPDIR", folder)
    nodes = Nodes(initialize_head=False)
    try:
        for _ in range(2):
            nodes.add_node(num_cpus=1, object_store_memory=80 * 2**20)
        yield nodes.address
    finally:
        ray.shutdown()
        nodes.shutdown()
    assert not processes_of(folder)
    shutil.rmtree(folder)


def processes_of(folder):
    """Return the command lines of processes that name the folder, as those of Ray do."""
    lines = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            lines.append(entry.read_bytes().decode(errors="replace"))
    return [line for line in lines if folder in line]


@pytest.fixture
def relative(trial, tmp_path, monkeypatch, blobs, call):
    """Two trials whose paths are relative to another folder than that of the cluster."""
    monkeypatch.chdir(tmp_path)
    assert blobs.parent == tmp_path
    Path("labels.csv").write_text("id,label\n0,1\n")
    Path("trusted.csv").write_text("id,label\n1,2\n")
    call("noise", "blobs.npz", "--noise", "symmetric:0.2", "--out", "noisy.npy")
    first = trial(source="blobs.npz", labels="labels.csv", trusted="trusted.csv")
    network = api.load(api.fit(trial(epochs=1, source="blobs.npz").config, "run")).method.network
    torch.save(network.backbone.state_dict(), "weights.pth")
    second = trial(seed=3, source="blobs.npz").config.model_dump(mode="json")
    noise = {"kind": "file", "path": "noisy.npy"}
    model = {**second["model"], "weights": "weights.pth"}
    return first, Trial({}, validate({**second, "noise": noise, "model": model}))


@pytest.mark.training
@pytest.mark.timeout(900)  # starting workers takes long on a busy machine
def test_trials_complete_though_a_worker_is_killed(two_nodes, trial, tmp_path, killer, relative):
    long, broken = trial(epochs=150), trial(seed=1, source="blobs.npz", labels="missing.csv")
    watcher = killer(long.name, kills_parent=True)  # the Ray worker
    result = run_all([long, *relative, broken], "out", backend=RayBackend(two_nodes), progress=watcher)
    assert list(result.failed) == [broken.name], result.failed
    assert "missing.csv" in result.failed[broken.name]
    assert sorted(result.done) == sorted([long.name, *(one.name for one in relative)])
    assert len(watcher.of(long.name)) == 2
    run = RunDir.open(tmp_path / "out" / "runs" / long.name)
    assert [row["epoch"] for row in run.metrics()] == list(range(1, 151))
    assert not list(Path.home().iterdir()), "nothing is written to the home folder"


@pytest.mark.parametrize("missing", ["out", "here"])
def test_a_node_that_does_not_share_the_disk_refuses_the_job(trial, tmp_path, missing):
    one, places = trial(), {"out": tmp_path / "out", "here": tmp_path / "here"}
    job = Job(one.name, one.config, places["out"])
    if missing == "here":
        write_config(job)
    with pytest.raises(RunError, match=rf"{missing}.*: the node .* does not see it; use a disk that all nodes share"):
        next(train_in_place(job, places["here"]))
    assert not job.path.exists()


LISTENING = """
import sys
from pathlib import Path
from tests.jobs.test_ray_backend import list_listening
from surelabel.config import validate
from surelabel.jobs import ProgressDisplay, RayBackend, Trial, run_all

class Display(ProgressDisplay):
    def update(self, overview):
        if overview.running:
            found.update(list_listening())

found = set()
config = {"data": {"source": "blobs.npz"}, "train": {"epochs": 30, "threads": 1, "second_opinion": False}}
outcome = run_all([Trial({}, validate(config))], "out", backend=RayBackend("local"), progress=Display())
print(sorted(found), outcome.failed)
"""


def list_listening():
    """Yield the addresses at which this session's processes listen, from /proc."""
    inodes = set()
    for pid in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if os.getsid(int(pid.name)) == os.getsid(0):
                inodes |= {str(file.readlink()) for file in (pid / "fd").iterdir()}
    for table, width in (("tcp", 8), ("tcp6", 32)):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == "0A" and f"socket:[{words[9]}]" in inodes:
                yield words[1][:width]


@pytest.mark.training
@pytest.mark.timeout(900)
def test_a_local_cluster_listens_on_this_machine_only(tmp_path, blobs):
    pytest.importorskip("ray")
    path = os.pathsep.join([str(Path(__file__).parents[2]), *filter(None, sys.path)])
    home = {"HOME": str(tmp_path / "home"), "MPLCONFIGDIR": str(tmp_path / "matplotlib")}
    (tmp_path / "home").mkdir()
    ended = subprocess.run(
        [sys.executable, "-c", LISTENING],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": path, **home},
        start_new_session=True,  # by which the processes of this cluster are known
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stderr
    loopback = ["0000000000000000FFFF00000100007F", "0100007F"]
    assert ended.stdout == f"{loopback} {{}}\n"
    assert not list((tmp_path / "home").iterdir()), "no token is written to the home folder"


def test_missing_ray_names_the_package_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ConfigError, match=r"surelabel\[ray\]"), RayBackend("auto"):
        pass


def test_no_cluster_at_the_address(trial, tmp_path):
    pytest.importorskip("ray")
    with pytest.raises(ConfigError, match=r"no cluster at 127.0.0.1:1: .*; expected auto, host:port, or local"):
        run_all([trial()], tmp_path, backend=RayBackend("127.0.0.1:1"))
