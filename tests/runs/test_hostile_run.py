"""A run directory from a stranger, full of links: no command may write through any of them."""

import os
import shutil

import numpy as np
import pytest

from surelabel import api, noise
from surelabel.data import cache
from surelabel.errors import RunError
from surelabel.runs.decisions import Journal, Wish

GUESSED = [
    "audit.csv",
    "predictions-data.csv",
    "report.html",
    "decisions.csv",
    "config.json",
    "metrics.jsonl",
    "state.safetensors",
    "samples.parquet",
    "model.safetensors",
    "done",
    "export",
]
"""Names of files that commands write."""


@pytest.fixture
def scene(runs, tmp_path, monkeypatch):
    """Copy the runs into the working folder, and put a user's file outside it."""
    shutil.copytree(runs, tmp_path / "scene")
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "precious.txt").write_text("precious")
    monkeypatch.chdir(tmp_path / "scene")
    return tmp_path / "scene"


@pytest.fixture
def victim(scene):
    """Return the user's file, and check after the test that it is unchanged and alone."""
    path = scene.parent / "home" / "precious.txt"
    yield path
    assert path.read_text() == "precious"
    assert [each.name for each in path.parent.iterdir()] == ["precious.txt"]


def lay_guessed_links(run, victim):
    for name in GUESSED:
        (run / f".{name}.{os.getpid()}.tmp").symlink_to(victim)


@pytest.mark.parametrize(
    "command",
    [
        ("audit", "done"),
        ("predict", "done", "data.npz"),
        ("report", "done"),
        ("export", "done"),
        ("resume", "stopped"),
    ],
)
def test_guessable_temporary_names_are_not_written_through(scene, victim, done, command):
    lay_guessed_links(scene / command[1], victim)
    done(*command)


def test_the_lock_is_not_opened_through_a_link(scene, victim, call):
    (scene / "stopped" / "lock").unlink()
    (scene / "stopped" / "lock").symlink_to(victim)
    result = call("resume", "stopped")
    assert result.exit_code == 2
    assert "stopped/lock: is a link to" in result.stderr


@pytest.mark.parametrize("name", ["audit.csv", "report.html", "predictions-data.csv"])
def test_a_link_in_an_outputs_place_is_not_replaced(scene, victim, call, name):
    (scene / "done" / name).symlink_to(victim)
    command = {"a": ("audit", "done"), "r": ("report", "done"), "p": ("predict", "done", "data.npz")}[name[0]]
    result = call(*command)
    assert result.exit_code == 2
    assert f"done/{name}: surelabel did not write this file" in result.stderr


@pytest.mark.parametrize(
    "name", ["checksums.json", "config.json", "state.safetensors", "data.json", "done", "labels.parquet"]
)
def test_a_link_in_the_place_of_a_file_of_the_run_is_not_written_through(scene, victim, call, name):
    (scene / "stopped" / name).unlink(missing_ok=True)
    (scene / "stopped" / name).symlink_to(victim)
    result = call("resume", "stopped")
    assert result.exit_code == 0 or result.stderr.splitlines()[-1].startswith("error: ")


def test_a_pipe_in_the_place_of_the_checksums_is_refused(scene, call):
    (scene / "done" / "checksums.json").unlink()
    os.mkfifo(scene / "done" / "checksums.json")
    result = call("audit", "done")
    assert result.exit_code == 2
    assert "done/checksums.json: not readable as checksums" in result.stderr


def test_a_pipe_in_the_place_of_a_manifest_is_refused(scene, call):
    (scene / "done" / "export").mkdir()
    os.mkfifo(scene / "done" / "export" / "export.json")
    result = call("export", "done", "--undo")
    assert result.exit_code == 2
    assert "done/export/export.json: not a regular file" in result.stderr


def test_figures_are_not_drawn_where_a_link_in_the_run_leads(scene, victim, call):
    (scene / "done" / "figures").symlink_to(victim.parent)
    result = call("figures", "all", "done")
    assert result.exit_code == 2
    assert "done/figures: is a link to" in result.stderr


def test_leftovers_of_exports_are_removed_and_links_among_them_not_followed(scene, victim, done):
    for run in ("done", "stopped"):
        left = scene / run / ".export.0123456789abcdef.tmp"
        left.mkdir()
        (left / "inner").symlink_to(victim.parent)
    done("export", "done")
    done("resume", "stopped")
    assert [path.name for run in ("done", "stopped") for path in (scene / run).glob(".*")] == []


def test_metrics_are_not_appended_through_a_link(scene, victim, call):
    (scene / "stopped" / "metrics.jsonl").unlink(missing_ok=True)
    (scene / "stopped" / "metrics.jsonl").symlink_to(victim)
    call("resume", "stopped")


def test_an_export_does_not_go_where_a_link_in_the_run_leads(scene, victim, call, done):
    done("export", "done", "--out", "mine")
    before = (scene / "mine" / "export.json").read_bytes()
    (scene / "done" / "export").symlink_to(scene / "mine")
    for out in ([], ["--out", "./done/../done/export"]):
        result = call("export", "done", *out)
        assert result.exit_code == 2
        assert "is a link to" in result.stderr
    assert (scene / "mine" / "export.json").read_bytes() == before


def test_an_export_goes_where_a_link_of_the_user_leads(scene, victim, done):
    (scene / "place").mkdir()
    (scene / "link").symlink_to(scene / "place")
    done("export", "done", "--out", "link")
    assert (scene / "link").is_symlink()
    assert (scene / "place" / "cleaned.csv").is_file()


def test_decisions_are_not_written_through_a_link(scene, victim):
    (scene / "done" / "decisions.jsonl").symlink_to(victim)
    with pytest.raises(RunError, match="is a link to"):
        Journal(scene / "done" / "decisions.jsonl").append([Wish("0", "0", "keep")])


def test_tensorboard_is_not_written_through_a_link(scene, victim, call):
    pytest.importorskip("tensorboard")
    (scene / "stopped" / "tensorboard").symlink_to(victim.parent)
    result = call("resume", "stopped", "--log", "tensorboard")
    assert result.exit_code == 2
    assert "tensorboard: is a link to" in result.stderr


@pytest.mark.parametrize("name", ["{key}.npy.tmp", "{key}.json.tmp", "{key}.lock", ".{key}.npy.{pid}.tmp"])
def test_a_shared_cache_is_not_written_through_links(scene, victim, tmp_path, monkeypatch, name):
    monkeypatch.setenv("SURELABEL_CACHE", str(tmp_path / "cache"))
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / name.format(key="k", pid=os.getpid())).symlink_to(victim)
    found = cache.load_or_fill("k", (3,), np.float32, lambda out: out.fill(2))
    assert found.tolist() == [2, 2, 2]


def test_noisy_labels_are_not_written_through_a_link(scene, victim):
    for name in ("noisy.npy", "noisy.json"):
        (scene / f".{name}.{os.getpid()}.tmp").symlink_to(victim)
    api.write_noise("data.npz", "noisy.npy", settings={"noise": {"kind": "symmetric", "rate": 0.3}})
    assert noise.read_manifest(scene / "noisy.json").realised_rate > 0


def test_taking_an_export_back_does_not_follow_a_link(scene, victim, call, done):
    done("export", "done", "--out", "mine")
    before = sorted((scene / "mine").iterdir())
    (scene / "done" / "export").symlink_to(scene / "mine")
    result = call("export", "done", "--undo")
    assert result.exit_code == 2
    assert "is a link to" in result.stderr
    assert sorted((scene / "mine").iterdir()) == before
