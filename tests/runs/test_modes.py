"""Files follow the umask, so that colleagues can use a run; exported images are on disk."""

import os
from pathlib import Path

import pytest
from PIL import Image

from surelabel import api

pytestmark = pytest.mark.training

SETTINGS = {"model": "mlp", "train.epochs": 1, "train.threads": 1, "train.device": "cpu"}


@pytest.fixture
def photos(tmp_path, monkeypatch):
    for row in range(24):
        path = tmp_path / "photos" / "ab"[row % 2] / f"{row}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.effect_noise((8, 8), 50).save(path)
    monkeypatch.setenv("SURELABEL_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def modes(*folders):
    found = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    assert found
    return {path.name: oct(path.stat().st_mode & 0o777) for path in found}


@pytest.mark.parametrize(("umask", "mode"), [(0o022, "0o644"), (0o027, "0o640")])
def test_every_file_follows_the_umask(photos, done, umask, mode):
    before = os.umask(umask)
    try:
        api.fit("photos", "run", settings=SETTINGS)
        done("audit", "run")
        done("export", "run", "--images", "copy", "--format", "hf", "--out", "export")
    finally:
        os.umask(before)
    found = modes(photos / "run", photos / "cache", photos / "export")
    assert {"model.safetensors", "trajectory.safetensors", "samples.parquet", "audit.csv"} <= set(found)
    assert {name: other for name, other in found.items() if other != mode} == {}


def test_exported_images_are_synced_before_they_appear(photos, done, monkeypatch):
    api.fit("photos", "run", settings=SETTINGS)
    synced, fsync = set(), os.fsync

    def record(descriptor):
        path = str(Path(f"/proc/self/fd/{descriptor}").readlink())
        synced.add(path.partition(".tmp/")[2])  # in the folder that is renamed later
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", record)
    done("export", "run", "--images", "copy", "--out", "export")
    written = {str(path.relative_to(photos / "export")) for path in (photos / "export").rglob("*")}
    assert any(name.endswith(".png") for name in written)
    assert written <= synced
