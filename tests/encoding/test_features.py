"""Features are computed once per content, whatever happens to the cache."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from surelabel.config import DataConfig
from surelabel.data import load_corpus
from surelabel.data.images.encode import Files
from surelabel.data.inputs import MappedInputs
from surelabel.data.pictures import Pictures
from surelabel.encoding import features
from surelabel.encoding.features import features_of


@dataclass
class Counting:
    """Computes means of colours, and counts how many rows it was asked for."""

    cache_key: str | None = "means"
    num_features: int = 3
    stop_after: int | None = None
    count: int = 0
    chunks: list[int] = field(default_factory=list)

    def encode(self, content):
        if self.stop_after is not None and self.count >= self.stop_after:
            raise KeyboardInterrupt
        self.count += len(content)
        self.chunks.append(len(content))
        return expected(content)


def expected(content):
    rows = [content.pixels(np.array([row]), 8)[0].float().mean((1, 2)).numpy() for row in range(len(content))]
    return np.array(rows, dtype=np.float32).reshape(-1, 3)


def of_arrays(number=40, seed=0, side=8):
    rng = np.random.default_rng(seed)
    return Pictures(torch.from_numpy(rng.integers(0, 256, (number, 3, side, side), dtype=np.uint8)))


def computed(*parts, **options):
    """Return how many rows are computed for these parts."""
    encoder = Counting(**options)
    found = features_of([part.with_encoder(encoder) for part in parts], lambda _: None)
    for part, x in zip(parts, found, strict=True):
        np.testing.assert_allclose(x[torch.arange(len(part))].numpy(), expected(part), rtol=1e-6)
    return encoder.count


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("SURELABEL_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def stored(cache):
    """Return the only file of features, of 40 known rows."""
    assert computed(of_arrays()) == 40
    (file,) = cache.glob("*.features")
    return file


@pytest.fixture
def photos(tmp_path):
    """Write twelve pictures of different sizes, as two classes of a folder."""
    rng = np.random.default_rng(0)
    for number in range(12):
        folder = tmp_path / "photos" / "ab"[number % 2]
        folder.mkdir(parents=True, exist_ok=True)
        pixels = rng.integers(0, 256, (20 + number, 30, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / f"{number}.png")
    return tmp_path / "photos"


class TestOncePerContent:
    def test_the_second_time_nothing_is_computed(self):
        assert computed(of_arrays()) == 40
        assert computed(of_arrays()) == 0

    def test_in_other_parts_and_orders_they_are_found(self):
        whole = of_arrays()
        computed(whole)
        order = np.random.default_rng(1).permutation(40)
        assert computed(whole.subset(order[:30]), whole.subset(order[30:])) == 0

    def test_only_new_rows_are_computed(self):
        computed(of_arrays())
        both = Pictures(torch.cat([of_arrays(5, seed=1).stored, of_arrays().stored]))
        assert computed(both) == 5

    def test_equal_rows_are_computed_once(self):
        one = of_arrays(1).stored
        assert computed(Pictures(one.repeat(7, 1, 1, 1)), Pictures(one)) == 1

    def test_equal_bytes_in_another_shape_are_other_pictures(self):
        wide = of_arrays().stored.view(40, 3, 4, 16)
        computed(of_arrays())
        assert computed(Pictures(wide)) == 40

    def test_another_encoder_has_its_own(self):
        computed(of_arrays())
        assert computed(of_arrays(), cache_key="other means") == 40
        assert computed(of_arrays()) == 0

    def test_an_encoder_without_a_key_is_fast_and_not_cached(self, cache):
        assert computed(of_arrays(), cache_key=None) == 40
        assert computed(of_arrays(), cache_key=None) == 40
        assert not list(cache.glob("*.features"))

    def test_files_are_known_by_their_content(self, photos):
        def rows(folder):
            train = load_corpus(DataConfig(source=str(folder))).train
            assert isinstance(train.encoded, Files)
            return Pictures(train.stored)

        assert computed(rows(photos)) == 12
        for number, file in enumerate(sorted(photos.rglob("*.png"))):
            file.rename(file.parents[1] / "ab"[number < 6] / f"renamed{number}.png")
        assert computed(rows(photos.rename(photos.with_name("moved")))) == 0

    def test_an_edited_file_is_computed_again(self, photos):
        paths = sorted(photos.rglob("*.png"))
        assert computed(Pictures(Files(paths))) == 12
        Image.new("RGB", (30, 30)).save(paths[3])
        assert computed(Pictures(Files(paths))) == 1


class TestDamage:
    @pytest.mark.parametrize("place", ["features", "row", "check"])
    def test_a_damaged_record_is_computed_again_and_then_known(self, stored, place):
        record = np.dtype([("row", "V16"), ("check", "<u4"), ("features", "<f4", (3,))])
        content = bytearray(stored.read_bytes())
        content[7 * record.itemsize + record.fields[place][1]] ^= 1
        stored.write_bytes(bytes(content))
        assert computed(of_arrays()) == 1
        assert computed(of_arrays()) == 0

    @pytest.mark.parametrize("lost", [1, 31, 32, 33])
    def test_a_file_that_was_cut_off_is_completed(self, stored, lost):
        size = stored.stat().st_size
        os.truncate(stored, size - lost)
        assert computed(of_arrays()) == -(-lost // 32)
        assert stored.stat().st_size == size
        assert computed(of_arrays()) == 0

    def test_bytes_of_another_kind_are_ignored(self, stored):
        stored.write_bytes(os.urandom(1000))
        assert computed(of_arrays()) == 40
        assert computed(of_arrays()) == 0

    def test_an_empty_file(self, stored):
        stored.write_bytes(b"")
        assert computed(of_arrays()) == 40
        assert computed(of_arrays()) == 0


class TestInterrupted:
    def test_what_was_saved_before_is_not_computed_again(self, monkeypatch):
        monkeypatch.setattr(features, "SAVE_EVERY", 0.0)
        monkeypatch.setattr(features, "CHUNK", 8)
        with pytest.raises(KeyboardInterrupt):
            computed(of_arrays(), stop_after=24)
        assert computed(of_arrays()) == 16

    def test_a_killed_process(self, tmp_path):
        """It dies while others wait for it, with features saved and others not."""
        process = start(tmp_path, "first", seconds=0.2)
        wait_for(lambda: any(file.stat().st_size for file in (tmp_path / "cache").glob("*.features")))
        process.send_signal(signal.SIGKILL)
        process.wait()
        done = int((tmp_path / "first").read_text())
        assert 0 < done < 40
        assert 40 - done <= computed(of_arrays()) < 40


SCRIPT = """
import sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from tests.encoding.test_features import Counting, of_arrays
from surelabel.encoding import features
features.CHUNK, features.SAVE_EVERY = 8, 0.0

class Slow(Counting):
    def encode(self, content):
        time.sleep(float(sys.argv[3]))
        found = super().encode(content)
        Path(sys.argv[2]).write_text(str(self.count))
        return found

Path(sys.argv[2]).write_text("0")
(found,) = features.features_of([of_arrays().with_encoder(Slow())], lambda _: None)
assert found.shape == (40, 3)
"""


def start(folder, name, seconds):
    """Start a process that computes 40 rows slowly and writes how many it has computed."""
    root = str(Path(__file__).parents[2])
    return subprocess.Popen([sys.executable, "-c", SCRIPT, root, str(folder / name), str(seconds)])


def wait_for(condition):
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_two_processes_share_the_work(tmp_path):
    both = [start(tmp_path, name, seconds=0.1) for name in ("first", "second")]
    assert [process.wait(timeout=100) for process in both] == [0, 0]
    assert sorted(int((tmp_path / name).read_text()) for name in ("first", "second")) == [0, 40]
    assert computed(of_arrays()) == 0


class TestUnusualPlaces:
    def test_a_cache_that_cannot_be_written(self, tmp_path, monkeypatch):
        (tmp_path / "file").write_text("")
        monkeypatch.setenv("SURELABEL_CACHE", str(tmp_path / "file"))
        assert computed(of_arrays()) == 40
        assert computed(of_arrays()) == 40

    def test_many_features_stay_in_a_file(self, monkeypatch):
        monkeypatch.setattr(features, "IN_MEMORY_BELOW", 100)
        assert computed(of_arrays()) == 40
        (found,) = features_of([of_arrays().with_encoder(Counting())])
        assert isinstance(found, MappedInputs)
        assert computed(of_arrays()) == 0

    def test_no_rows(self):
        assert computed(of_arrays(), of_arrays(0)) == 40


def test_progress_is_told(monkeypatch):
    monkeypatch.setattr(features, "TELL_EVERY", 0.0)
    monkeypatch.setattr(features, "CHUNK", 16)
    said = []
    features_of([of_arrays().with_encoder(Counting())], said.append)
    assert "40 rows" in said[0]
    assert said[1].startswith("features: 16 of 40 rows")
    assert "a second" in said[1]


def test_features_of_a_part_are_encoded_in_chunks(monkeypatch):
    monkeypatch.setattr(features, "CHUNK", 16)
    encoder = Counting()
    features_of([of_arrays(20).with_encoder(encoder), of_arrays(5, seed=1).with_encoder(encoder)])
    assert max(encoder.chunks) <= 16
    assert sum(encoder.chunks) == 25
