"""Disks that are full or read-only: one line names the file, and what was saved is not lost."""

import errno
import json
import os
import resource
from pathlib import Path

import numpy as np
import pytest

from surelabel import api, files
from surelabel.engine import loop
from surelabel.runs.run_dir import RunDir


@pytest.fixture
def settings(tiny, monkeypatch):
    monkeypatch.setattr(loop, "SAVE_EVERY", 0.0)
    return tiny("car", model__options={"widths": [500, 100], "norm": "none"})


@pytest.fixture
def config(settings, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(settings))
    return tmp_path / "config.json"


@pytest.fixture
def limit():
    """Return a function that limits the size of files; writing more fails as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    yield lambda size: resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


class Room:
    """A disk that is full from the `last`-th write on: new files can be created, and stay empty."""

    def __init__(self, monkeypatch, last):
        self.left, self.monkeypatch, self.sync = last, monkeypatch, files.sync

    def __enter__(self):
        def sync(path):
            self.left -= 1
            if self.left < 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            self.sync(path)

        self.monkeypatch.setattr(files, "sync", sync)

    def __exit__(self, *_):
        self.monkeypatch.setattr(files, "sync", self.sync)


def the_error(result):
    assert result.exit_code == 2
    last = result.stderr.strip().splitlines()[-1]
    assert last.startswith("error: ")
    assert "Traceback" not in result.stderr
    return last


def test_a_state_that_is_too_large_is_named_and_the_run_goes_on_from_the_one_before(
    config, settings, tmp_path, call, done, limit
):
    whole = api.fit(settings, tmp_path / "whole")
    steps = iter(range(1000))
    with pytest.raises(loop.Interrupted):
        api.fit(settings, tmp_path / "run", interrupt=lambda: next(steps) > 6)
    before = (tmp_path / "run" / "state.safetensors").read_bytes()
    limit(len(before) // 2)
    error = the_error(call("resume", tmp_path / "run"))
    assert f"{tmp_path / 'run' / 'state.safetensors'}: File too large; free some space first" in error
    assert f"surelabel resume {tmp_path / 'run'}" in error
    assert (tmp_path / "run" / "state.safetensors").read_bytes() == before
    assert not list((tmp_path / "run").glob(".*"))
    limit(resource.RLIM_INFINITY)
    done("resume", tmp_path / "run")
    assert RunDir(tmp_path / "run").samples().equals(whole.samples())


@pytest.mark.parametrize("write", ["tensors", "table", "json", "metrics"])
def test_every_kind_of_file_is_named(tmp_path, limit, write):
    import torch

    run = RunDir(tmp_path)
    writes = {
        "tensors": lambda: run.write_tensors("a", {"a": torch.zeros(10_000)}),
        "table": lambda: run.write_table("a", {"a": np.random.default_rng(0).normal(size=10_000)}),
        "json": lambda: run.write_json("a", list(range(10_000))),
        "metrics": lambda: run.append_metrics({"epoch": list(range(10_000))}),
    }
    limit(4096)
    with pytest.raises(OSError, match="File too large") as caught:
        writes[write]()
    assert caught.value.filename == str(tmp_path / ("metrics.jsonl" if write == "metrics" else "a"))
    assert not list(tmp_path.glob(".*"))


def test_a_disk_that_fills_at_any_write_loses_nothing(config, settings, tmp_path, call, monkeypatch):
    whole, is_done = api.fit(settings, tmp_path / "whole"), False
    for last in range(0, 200, 23):
        run = tmp_path / f"run{last}"
        with Room(monkeypatch, last):
            result = call("fit", "--config", config, "--out", run)
        is_done = result.exit_code == 0
        if is_done:
            break
        assert "No space left on device; free some space first" in the_error(result)
        assert str(run) in the_error(result)
        resumed = api.resume(run) if RunDir(run).has_begun else api.fit(settings, run)
        assert resumed.samples().equals(whole.samples()), f"full from write {last} on"
    assert is_done
    assert last > 50


def test_a_read_only_disk_is_one_line(config, tmp_path, call, monkeypatch):
    def refuse(path, *_, **__):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))

    monkeypatch.setattr(Path, "mkdir", refuse)
    assert f"{tmp_path / 'run'}: Read-only file system" in the_error(
        call("fit", "--config", config, "--out", tmp_path / "run")
    )
