"""Runs on a Ray cluster of two nodes on this machine, one of which loses a worker."""

import contextlib
import shutil
import sys
import tempfile
from pathlib import Path

import pytest

from surelabel.errors import ConfigError, RunError
from surelabel.jobs import Job, RayBackend, ray_node, run_all
from surelabel.jobs.ray_node import pack_run, unpack_run
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


@pytest.mark.training
@pytest.mark.timeout(900)  # starting workers takes long on a busy machine
def test_trials_complete_though_a_worker_is_killed(two_nodes, trial, tmp_path, killer, blobs):
    long, from_file = trial(epochs=150), trial("car", source=str(blobs))
    broken = trial(seed=1, source=str(blobs), labels="missing.csv")
    watcher = killer(long.name, kills_parent=True)  # the Ray worker
    backend = RayBackend(two_nodes, shared=False)
    result = run_all([long, from_file, broken], tmp_path / "apart", backend=backend, progress=watcher)
    assert sorted(result.done) == sorted([long.name, from_file.name])
    assert "missing.csv" in result.failed[broken.name]
    assert len(watcher.of(long.name)) == 2
    run = RunDir.open(tmp_path / "apart" / "runs" / long.name)
    assert run.is_done
    assert [row["epoch"] for row in run.metrics()] == list(range(1, 151))
    assert len(run.samples()) == len(run.labels())
    assert not list(Path.home().iterdir()), "nothing is written to the home folder"
    (scratch,) = tmp_path.glob("surelabel-*")
    assert not list((scratch / "runs").glob("*/done")), "runs that arrived are removed"
    another = trial("car", seed=2, source=str(blobs))
    assert run_all([long, from_file, another], tmp_path / "apart", backend=backend).done == [another.name]


def test_a_node_keeps_a_run_until_it_has_arrived(trial, tmp_path, monkeypatch, blobs):
    one = trial(epochs=1, source=str(blobs))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(ray_node, "_this_node", lambda: "this")
    order = ray_node.NodeJob(Job(one.name, one.config, tmp_path / "elsewhere"), "folder-id", False, {})
    *_, first = ray_node.train_on_node(order)
    monkeypatch.setattr("subprocess.Popen", None)  # it is not trained again
    (again,) = ray_node.train_on_node(order)
    assert again.files == first.files
    assert RunDir(order.on_own_disk().path).is_done
    ray_node.remove_copy(order)
    assert not order.on_own_disk().path.exists()


def test_files_come_back_unchanged_and_others_are_refused(trial, tmp_path, blobs):
    from surelabel import api

    one = trial(epochs=1, source=str(blobs))
    there = api.fit(one.config, tmp_path / "there")
    files = pack_run(there.path)
    assert "state.safetensors" not in files
    unpack_run(files, tmp_path / "here", one.config)
    assert RunDir.open(tmp_path / "here").samples() == there.samples()
    for wrong in ("../evil", "a/b", ".hidden", "state.safetensors", ""):
        with pytest.raises(RunError, match="which a run does not have"):
            unpack_run({**files, wrong: b""}, tmp_path / "other", one.config)
    with pytest.raises(RunError, match="not as bytes"):
        unpack_run({**files, "notes": print}, tmp_path / "other", one.config)
    with pytest.raises(RunError, match="came back without done"):
        unpack_run({name: data for name, data in files.items() if name != "done"}, tmp_path / "other", one.config)
    assert not (tmp_path / "other").exists()


def test_missing_ray_names_the_package_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ConfigError, match=r"surelabel\[ray\]"), RayBackend("auto"):
        pass


def test_no_cluster_at_the_address(trial, tmp_path):
    pytest.importorskip("ray")
    with pytest.raises(ConfigError, match=r"no cluster at 127.0.0.1:1: .*; expected auto, host:port, or local"):
        run_all([trial()], tmp_path, backend=RayBackend("127.0.0.1:1"))
