"""`surelabel demo photos`: the pictures, the photos made of them, and the demo from end to end."""

import csv
import io
import json
import sys
from importlib import metadata

import numpy as np
import pytest
from PIL import Image

from surelabel.cli import demo_pictures
from surelabel.encoding import registry
from surelabel.errors import ConfigError
from surelabel.runs.run_dir import RunDir

COUNT = 60
DEMO = sys.modules["surelabel.cli.demo"]  # surelabel.cli.demo is the command


@pytest.fixture
def few(monkeypatch, tmp_path):
    """Make few photos, in an empty current folder."""
    monkeypatch.setattr(DEMO, "NUM_PHOTOS", COUNT)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def read(folder):
    """Return the content of each file by its path within the folder."""
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*.jpg")}


class TestPhotos:
    def test_a_fifth_is_in_a_wrong_folder(self, tmp_path):
        photos = demo_pictures.write_photos(tmp_path / "p", 0, COUNT)
        assert photos.num_wrong == COUNT * 0.2
        assert set(read(photos.folder)) == set(photos.truth)
        assert sorted(path.name for path in photos.folder.iterdir()) == sorted(demo_pictures.PICTURES)
        assert set(np.unique(list(photos.truth.values()), return_counts=True)[1]) == {COUNT // 10}
        with (tmp_path / "p-truth.csv").open(newline="") as file:
            assert {row["id"]: row["label"] for row in csv.DictReader(file)} == photos.truth

    def test_sizes_differ(self, tmp_path):
        photos = demo_pictures.write_photos(tmp_path / "p", 0, COUNT)
        sizes = [Image.open(io.BytesIO(content)).size for content in read(photos.folder).values()]
        assert len(set(sizes)) > COUNT // 2
        assert min(map(min, sizes)) >= 96
        assert max(map(max, sizes)) <= 160

    def test_a_seed_repeats_and_another_one_differs(self, tmp_path):
        first, again, other = (
            read(demo_pictures.write_photos(tmp_path / name, seed, 10).folder)
            for name, seed in (("a", 1), ("b", 1), ("c", 2))
        )
        assert first == again
        assert not set(first.values()) & set(other.values())

    def test_parts_lie_within_their_picture(self):
        """A white picture has no black corners, however it is turned."""
        white, random = Image.new("RGB", (300, 200), "white"), np.random.default_rng(0)
        for _ in range(300):
            assert np.asarray(demo_pictures.take_photo(white, random)).min() > 60

    def test_the_package_is_missing(self, monkeypatch):
        def missing(package):
            raise metadata.PackageNotFoundError(package)

        monkeypatch.setattr(metadata, "files", missing)
        with pytest.raises(ConfigError, match=r"scikit-image: pip install 'surelabel\[photos\]'"):
            demo_pictures.open_pictures()


class TestRefused:
    def test_another_name(self, call, few):
        result = call("demo", "fotos")
        assert result.exit_code == 2
        assert "fotos: did you mean photos? expected digits or photos" in result.stderr
        assert list(few.iterdir()) == []

    def test_a_folder_that_is_taken(self, call, few):
        (few / "full").mkdir()
        (few / "full/file").touch()
        result = call("demo", "photos", "--out", "full")
        assert result.exit_code == 2
        assert "full: already exists and is not an empty folder" in result.stderr


@pytest.mark.training
def test_on_pixels_it_says_what_to_install(call, few, monkeypatch):
    """The extra is missing: its weights are, but the pictures are there."""
    monkeypatch.delenv(registry.SWITCH)
    monkeypatch.setattr(registry.Backbone, "is_installed", lambda self: False)
    monkeypatch.setattr(DEMO, "PIXEL_EPOCHS", 1)
    result = call("demo", "photos", "--json")
    assert result.exit_code == 0, result.output
    content = json.loads(result.stdout)
    assert (content["photos"], content["wrong"], content["epochs"]) == (COUNT, COUNT // 5, 1)
    assert (content["features"], content["right_before"]) == ("none", 0.8)
    assert result.stderr.count("pip install 'surelabel[photos]'") == 1
    assert [path.name for path in few.iterdir()] == ["surelabel-demo"]
    assert (few / "surelabel-demo/photos.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.training
def test_with_pretrained_features_it_finds_and_corrects(call, few, pretrained_features, monkeypatch):
    monkeypatch.setattr(DEMO, "NUM_PHOTOS", 200)
    result = call("demo", "photos", "--out", "kept", "--json")
    assert result.exit_code == 0, result.output
    content = json.loads(result.stdout)
    assert content["features"] == "efficientnet_lite0"
    assert content["auroc"] > 0.95
    assert content["right_after"] > content["right_before"] == 0.8
    assert (few / "kept/photos.png").stat().st_size < 400_000
    assert RunDir.open(few / "kept/run").is_done
    for command in (["report", "kept/run"], ["export", "kept/run", "--images", "copy"]):
        assert call(*command).exit_code == 0, command
