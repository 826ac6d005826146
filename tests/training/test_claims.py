"""A folder belongs to one run from the moment `fit` starts until it ends."""

import os
import signal

import numpy as np
import pytest

import surelabel
from surelabel.engine.loop import Interrupted
from surelabel.errors import RunError, SurelabelError
from surelabel.runs.run_dir import RunDir
from surelabel.training import build, head

COMPARED = {"model": {"name": "auto", "options": {"widths": [8]}}, "train__epochs": 16}
"""Changes under which networks are compared first."""


@pytest.fixture
def during(monkeypatch):
    """`during("read", work)`: do some work once, while data are read or networks compared."""
    places = {"read": (build, "corpus"), "compare": (head, "_measure")}

    def install(place, work):
        owner, name = places[place]
        original = getattr(owner, name)

        def disturbed(*arguments, **options):
            monkeypatch.setattr(owner, name, original)
            work()
            return original(*arguments, **options)

        monkeypatch.setattr(owner, name, disturbed)

    return install


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("place", ["read", "compare"])
def test_a_second_fit_is_refused_from_the_first_moment(tiny, tmp_path, during, place):
    refused = []

    def start_second():
        with pytest.raises(RunError, match="run") as caught:
            surelabel.fit(tiny("gce", train__epochs=1), tmp_path / "run")
        refused.append(str(caught.value))

    during(place, start_second)
    run = surelabel.fit(tiny("cross_entropy", **COMPARED), tmp_path / "run")
    assert len(refused) == 1
    assert run.config().method.name == "cross_entropy"
    assert len(run.metrics()) == 16


def test_a_second_resume_is_refused_while_the_first_reads(tiny, tmp_path, during):
    with pytest.raises(Interrupted):
        surelabel.fit(tiny("car"), tmp_path / "run", interrupt=lambda: True)
    refused = []

    def start_second():
        with pytest.raises(RunError, match="another process is training"):
            surelabel.resume(tmp_path / "run")
        refused.append(True)

    during("read", start_second)
    assert surelabel.resume(tmp_path / "run").is_done
    assert refused == [True]


def test_a_folder_that_is_taken_before_the_lock_is_refused(tiny, tmp_path, monkeypatch):
    """What is true before the lock is checked again under it."""
    monkeypatch.setattr(RunDir, "is_free", property(lambda _: True))
    surelabel.fit(tiny("car", train__epochs=1), tmp_path / "run")
    monkeypatch.undo()
    looks = iter([True])
    is_free = RunDir.is_free.fget
    monkeypatch.setattr(RunDir, "is_free", property(lambda self: next(looks, None) or is_free(self)))
    with pytest.raises(RunError, match="not empty; choose another folder"):
        surelabel.fit(tiny("gce", train__epochs=1), tmp_path / "run")
    assert RunDir(tmp_path / "run").config().method.name == "car"


BAD = {
    "data": {"data__source": "nothere.npz"},
    "labels": {"data__labels": "nothere.csv"},
    "device": {"train__device": "mps"},
    "method": {"method__options": {"momentun": 1}},
}


@pytest.mark.parametrize("changes", BAD.values(), ids=BAD)
def test_a_start_that_fails_leaves_nothing(tiny, tmp_path, changes):
    for out in (tmp_path / "runs" / "first", tmp_path / "empty"):
        (tmp_path / "empty").mkdir(exist_ok=True)
        with pytest.raises(SurelabelError):
            surelabel.fit(tiny("car", **changes), out)
    assert not (tmp_path / "runs").exists()
    assert names(tmp_path / "empty") == []
    assert surelabel.fit(tiny("car", train__epochs=1), tmp_path / "empty").is_done


@pytest.mark.parametrize("place", ["read", "compare"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_resume_works_from_the_first_second(tiny, tmp_path, during, outcome, number, place):
    config = tiny("cross_entropy", **COMPARED)
    during(place, lambda: os.kill(os.getpid(), number))
    with pytest.raises(Interrupted) as caught:
        surelabel.fit(config, tmp_path / "run")
    assert caught.value.args == (number,)
    assert not [name for name in names(tmp_path / "run") if name.startswith(".")]
    with pytest.raises(RunError, match="not empty; resume the run with: surelabel resume"):
        surelabel.fit(config, tmp_path / "run")
    with pytest.raises(RunError, match="not ended; finish it with: surelabel resume"):
        surelabel.audit(tmp_path / "run")
    resumed = surelabel.resume(tmp_path / "run")
    whole = surelabel.fit(config, tmp_path / "whole")
    assert outcome(resumed) == outcome(whole)
    assert names(resumed.path) == names(whole.path)


def test_networks_are_compared_inside_the_run(tiny, tmp_path, during, monkeypatch):
    """A killed process leaves nothing elsewhere, and the next start removes what it left here."""
    seen = []
    trained = head._loss_on_held_out
    monkeypatch.setattr(head, "_loss_on_held_out", lambda run, *more: seen.append(run.path) or trained(run, *more))
    run = surelabel.fit(tiny("cross_entropy", **COMPARED), tmp_path / "run")
    assert seen
    assert {path.parent for path in seen} == {run.path}
    assert all(path.name.startswith(".") and path.name.endswith(".tmp") for path in seen)
    assert not any(path.exists() for path in seen)


def test_the_lock_of_a_start_that_was_undone_is_not_held_twice(tiny, tmp_path):
    """A lock that was deleted between opening and locking it protects nothing."""
    run, again = RunDir(tmp_path / "run"), RunDir(tmp_path / "run")
    with run.locked():
        (run.path / "lock").unlink()
        with again.locked(), pytest.raises(RunError, match="another process"), RunDir(run.path).locked():
            pytest.fail("the lock was given twice")


def test_a_run_in_memory_is_resumed_with_its_data(tmp_path, during):
    y = np.arange(60) % 3
    data = 4 * np.eye(3)[y], y
    during("read", lambda: os.kill(os.getpid(), signal.SIGTERM))
    fast = {"train.epochs": 2, "train.second_opinion": False, "model": "mlp"}
    with pytest.raises(Interrupted):
        surelabel.fit(data, tmp_path / "run", settings=fast)
    assert surelabel.resume(tmp_path / "run", data=data).is_done
