"""Exports that are killed: nothing is left behind, and there is always an export to go back to."""

import signal
import subprocess
import sys
import threading

import pytest

from surelabel.exporting import export, undo
from surelabel.exporting.place import claimed
from surelabel.runs.decisions import Journal

KILLED_EXPORT = """
import os, shutil, signal, sys
from pathlib import Path
from surelabel.exporting import export, place
from surelabel.runs.run_dir import RunDir
from surelabel.verdicts import audit

run, out, moment = RunDir(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
replace, rmtree = Path.replace, shutil.rmtree

def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

def die_at(self, target):
    if self.name.endswith(".tmp") and target == out or (moment == "before" and self == out):
        die()
    return replace(self, target)

if moment == "writing":
    export.__globals__["write_tables"] = die
elif moment == "after":
    shutil.rmtree = die
else:
    Path.replace = die_at
export(run, audit(run), {}, out)
"""
MOMENTS = ("writing", "before", "between", "after")


def kill(run, out, moment):
    command = [sys.executable, "-c", KILLED_EXPORT, str(run.path), str(out), moment]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def again(run, verdict, tmp_path):
    """Return a function that exports the run to the same place."""
    return lambda: export(run, verdict, Journal(run.path / "none.jsonl").decisions(), tmp_path / "out")


@pytest.mark.parametrize("moment", MOMENTS)
def test_the_next_export_leaves_nothing_of_a_killed_one(run, again, tmp_path, moment):
    again()
    kill(run, tmp_path / "out", moment)
    assert len(names(tmp_path)) == 2  # so it was killed in the middle
    again()
    assert names(tmp_path) == ["out"]


def test_an_export_that_was_moved_away_is_put_back_and_can_be_undone(run, again, tmp_path, caplog):
    again()
    before = (tmp_path / "out" / "export.json").read_bytes()
    kill(run, tmp_path / "out", "between")
    assert "out" not in names(tmp_path)
    with claimed(tmp_path / "out"):
        assert (tmp_path / "out" / "export.json").read_bytes() == before
    assert undo(tmp_path / "out") == []
    assert names(tmp_path) == []


def test_an_old_export_goes_back_if_the_new_one_cannot_take_its_place(again, tmp_path, monkeypatch):
    again()
    before = (tmp_path / "out" / "export.json").read_bytes()
    replace = type(tmp_path).replace

    def fail(self, target):
        if self.suffix == ".tmp" and target == tmp_path / "out":
            raise OSError(28, "No space left on device")
        return replace(self, target)

    monkeypatch.setattr(type(tmp_path), "replace", fail)
    with pytest.raises(OSError, match="No space"):
        again()
    assert names(tmp_path) == ["out"]
    assert (tmp_path / "out" / "export.json").read_bytes() == before


def test_folders_that_are_not_ours_stay(again, tmp_path):
    kept = [".out.notes.tmp", ".out.2024.tmp", ".other.0123456789abcdef.tmp", "out.tmp"]
    for name in kept:
        (tmp_path / name).mkdir()
    (tmp_path / ".out.0123456789abcdee.tmp").symlink_to(tmp_path / "out.tmp")
    again()
    assert names(tmp_path) == sorted([*kept, ".out.0123456789abcdee.tmp", "out"])


def test_a_second_export_waits_for_the_first(again, tmp_path):
    with claimed(tmp_path / "out"):
        (tmp_path / ".out.0123456789abcdef.tmp").mkdir()  # the first one at work
        second = threading.Thread(target=again)
        second.start()
        second.join(0.3)
        assert second.is_alive()
        assert names(tmp_path) == [".out.0123456789abcdef.tmp"]
    second.join(60)
    assert names(tmp_path) == ["out"]
