"""Cached arrays: made once, complete or not at all, by one process at a time."""

import errno
import fcntl
import logging
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from surelabel.data import cache

KEY = cache.make_key("test")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("SURELABEL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(cache, "_reported", set())
    return tmp_path / "cache"


class Fill:
    """Writes 0, 1, 2, ... and counts its calls."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, out: np.ndarray) -> None:
        self.calls += 1
        out[:] = np.arange(out.size).reshape(out.shape)


def get(fill, shape=(4, 3), dtype=np.int32):
    return cache.load_or_fill(KEY, shape, dtype, fill)


EXPECTED = np.arange(12, dtype=np.int32).reshape(4, 3)


class TestFolder:
    def test_the_first_that_is_set(self, monkeypatch):
        monkeypatch.setenv("XDG_CACHE_HOME", "/there")
        monkeypatch.setenv("HOME", "/me")
        monkeypatch.setenv("SURELABEL_CACHE", "/here")
        assert cache.folder() == Path("/here")
        monkeypatch.delenv("SURELABEL_CACHE")
        assert cache.folder() == Path("/there/surelabel")
        monkeypatch.delenv("XDG_CACHE_HOME")
        assert cache.folder() == Path("/me/.cache/surelabel")


class TestArray:
    @pytest.mark.parametrize("place", [-1, 150, 3])
    def test_a_flipped_bit_is_noticed_and_the_array_made_again(self, folder, caplog, place):
        fill = Fill()
        get(fill)
        content = bytearray(cache.array_path(KEY).read_bytes())
        content[place] ^= 1
        cache.array_path(KEY).write_bytes(content)
        with caplog.at_level(logging.WARNING, "surelabel"):
            found = get(fill)
        assert found.tolist() == EXPECTED.tolist()
        assert fill.calls == 2
        assert f"{cache.array_path(KEY)}: incomplete or damaged; it is made again" in caplog.text
        assert cache.find(KEY).about == {}

    def test_an_array_without_a_checksum_is_made_again(self, folder):
        fill = Fill()
        get(fill)
        (folder / f"{KEY}.json").write_text("{}")
        assert get(fill).tolist() == EXPECTED.tolist()
        assert fill.calls == 2

    def test_made_once_and_read_again(self, folder):
        fill = Fill()
        for _ in range(3):
            found = get(fill)
            np.testing.assert_array_equal(found, EXPECTED)
            assert found.dtype == np.int32
        assert fill.calls == 1
        assert not list(folder.glob("*.tmp"))

    def test_it_cannot_be_written_to(self):
        get(Fill())
        with pytest.raises(ValueError, match="read-only"):
            get(Fill())[0] = 1

    def test_another_key_is_another_array(self):
        get(Fill())
        other = cache.load_or_fill(cache.make_key("test", 2), (2,), np.float32, lambda out: out.fill(7))
        assert other.tolist() == [7, 7]
        assert get(Fill()).shape == (4, 3)

    def test_another_shape_or_type_is_made_again(self):
        get(Fill())
        assert get(Fill(), shape=(2, 2)).shape == (2, 2)
        assert get(Fill(), shape=(2, 2), dtype=np.uint8).dtype == np.uint8

    @pytest.mark.parametrize("suffix", ["npy", "json"])
    @pytest.mark.parametrize(
        "damage", [lambda b: b[:-1], lambda _: b"", lambda b: b"x" * len(b), lambda b: b + b"more"]
    )
    def test_a_damaged_file_is_made_again(self, folder, suffix, damage):
        get(Fill())
        path = folder / f"{KEY}.{suffix}"
        path.write_bytes(damage(path.read_bytes()))
        fill = Fill()
        np.testing.assert_array_equal(get(fill), EXPECTED)
        assert fill.calls == 1

    @pytest.mark.parametrize("suffix", ["npy", "json"])
    def test_a_pipe_is_not_read(self, folder, suffix):
        get(Fill())
        (folder / f"{KEY}.{suffix}").unlink()
        os.mkfifo(folder / f"{KEY}.{suffix}")
        fill = Fill()
        np.testing.assert_array_equal(get(fill), EXPECTED)
        assert fill.calls == 1

    def test_a_failing_fill_leaves_no_file_and_raises_its_error(self, folder):
        def fill(out):
            raise OSError("the data cannot be read")

        with pytest.raises(OSError, match="the data cannot be read"):
            get(fill)
        assert [path.suffix for path in folder.iterdir()] == [".lock"]
        np.testing.assert_array_equal(get(Fill()), EXPECTED)

    def test_an_empty_array(self):
        assert get(lambda _: None, shape=(0, 3)).shape == (0, 3)


class TestEntry:
    def test_metadata_are_cached_too(self):
        def make(allocate):
            allocate((1,), np.uint8)[:] = 1
            allocate((2,), np.uint8)[:] = 5  # the last array is the one that counts
            return {"names": ["a"], "number": 3}

        for made in (cache.load_or_make(KEY, make), cache.load_or_make(KEY, make)):
            assert made.array.tolist() == [5, 5]
            assert made.about == {"names": ["a"], "number": 3}


class TestWithoutACache:
    def test_without_a_folder_arrays_are_in_memory_and_the_reason_is_logged_once(self, folder, caplog):
        folder.write_text("a file")
        with caplog.at_level(logging.WARNING, "surelabel"):
            for _ in range(2):
                fill = Fill()
                np.testing.assert_array_equal(get(fill), EXPECTED)
                assert fill.calls == 1
        (line,) = [record.getMessage() for record in caplog.records]
        assert "cannot keep data for the next run here" in line
        assert "$SURELABEL_CACHE names another folder" in line

    def test_a_full_disk_is_noticed_before_anything_is_written(self, folder, monkeypatch, caplog):
        def full(*arguments):
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(os, "posix_fallocate", full)
        np.testing.assert_array_equal(get(Fill()), EXPECTED)
        assert not list(folder.glob("*.npy*"))
        assert "No space left on device" in caplog.text

    def test_a_disk_that_fails_at_the_end_does_not_lose_the_array(self, monkeypatch):
        def full(*arguments):
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(os, "fsync", full)
        np.testing.assert_array_equal(get(Fill()), EXPECTED)
        assert cache.find(KEY) is None


WORKER = """
import runpy, sys, time
import numpy as np

# By its path: importing the package would load torch, which takes longer than the rest of the test.
cache = runpy.run_path(sys.argv[2])

def fill(out):
    with open(sys.argv[1], "a") as log:
        log.write("filled ")
    time.sleep(0.5)
    out[:] = 1

assert cache["load_or_fill"]("key", (1000,), np.uint8, fill).sum() == 1000
"""


class TestProcesses:
    def test_the_second_waits_and_reads(self, tmp_path):
        command = [sys.executable, "-c", WORKER, str(tmp_path / "log"), cache.__file__]
        workers = [subprocess.Popen(command) for _ in range(2)]
        assert [worker.wait(60) for worker in workers] == [0, 0]
        assert (tmp_path / "log").read_text() == "filled "

    def test_files_of_killed_processes_are_removed_and_those_of_running_ones_are_not(self, folder):
        folder.mkdir()
        for name in ("dead", "alive"):
            (folder / f".{name}.npy.1234.tmp").write_text("half")
        with (folder / "alive.lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            get(Fill())
            assert [path.name for path in folder.glob("*.tmp")] == [".alive.npy.1234.tmp"]

    def test_what_a_killed_process_left_of_the_same_array_is_removed(self, folder):
        folder.mkdir()
        (folder / f".{KEY}.npy.1234.tmp").write_text("half")
        get(Fill())
        assert not list(folder.glob("*.tmp"))
