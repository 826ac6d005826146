"""Paths that are not UTF-8, a full standard output, and a user without a home directory."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

NAME = os.fsdecode(b"r\xff")
SHOWN = "r\\udcff"


@pytest.fixture
def run(runs, tmp_path, monkeypatch):
    """Copy a finished run, and its data, into a working folder."""
    monkeypatch.chdir(tmp_path)
    shutil.copy(runs / "data.npz", tmp_path)
    return Path(shutil.copytree(runs / "done", tmp_path / "run"))


class TestNotUtf8:
    @pytest.mark.parametrize("command", ["audit", "report", "export", "resume"])
    def test_a_run(self, run, done, command):
        run.rename(NAME)
        assert SHOWN in done(command, NAME)

    def test_json_has_a_path_that_leads_there(self, run, done):
        run.rename(NAME)
        assert Path(json.loads(done("audit", NAME, "--json"))["csv"]).is_file()

    def test_an_export(self, run, done):
        done("export", "run", "--out", NAME, "--format", "hf", "--format", "cleanlab")
        assert (Path(NAME) / "cleaned.csv").is_file()
        done("export", "run", "--out", NAME, "--undo")

    def test_a_model_cannot_be_read_there(self, run, call):
        run.rename(NAME)
        result = call("predict", NAME, "data.npz")
        assert result.exit_code == 2
        assert f"error: {SHOWN}/model.safetensors: not readable" in result.stderr.replace(NAME, SHOWN)

    def test_training(self, run, done):
        assert SHOWN in done("fit", "data.npz", "--out", NAME, "--epochs", 1, "--threads", 1)
        assert SHOWN in done("audit", NAME)


def test_a_full_standard_output_is_named(run):
    with Path("/dev/full").open("wb") as full:
        ended = subprocess.run(
            [sys.executable, "-m", "surelabel", "audit", "run"], stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert ended.returncode == 2
    assert ended.stderr.splitlines()[-1].startswith("error: standard output: No space left on device")


def test_without_a_home_there_is_no_cache(tmp_path, monkeypatch, done):
    def fail():
        raise RuntimeError("Could not determine home directory.")

    for name in ("SURELABEL_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "home", fail)
    monkeypatch.chdir(tmp_path)
    for number in range(8):
        place = tmp_path / "images" / "ab"[number % 2]
        place.mkdir(parents=True, exist_ok=True)
        image = np.full((8, 8, 3), 20 * number, np.uint8)
        Image.fromarray(image).save(place / f"{number}.png")
    done("noise", "images", "--noise", "symmetric:0.5", "--out", "noisy.csv")
    assert (tmp_path / "noisy.csv").is_file()
