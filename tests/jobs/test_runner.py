"""Many trials on this machine: what is skipped, resumed, retried, refused and listed.

Starting a process takes seconds, so that few tests do.
"""

from types import SimpleNamespace

import pytest

from surelabel import api
from surelabel.engine.loop import Interrupted
from surelabel.errors import ConfigError, RunError
from surelabel.jobs import Job, LocalBackend, Trial, find_state, run_all
from surelabel.jobs.worker import train
from surelabel.runs.run_dir import RunDir


def run_of(trial, folder):
    return RunDir(folder / "runs" / trial.name)


def begun(trial, folder, steps):
    """Start the run of a trial and interrupt it after a number of steps."""
    calls = iter(range(steps + 1))
    with pytest.raises(Interrupted):
        api.fit(trial.config, run_of(trial, folder).path, interrupt=lambda: next(calls) == steps)


def without_threads(trial):
    train = trial.config.train.model_copy(update={"threads": None})
    return Trial(trial.cell, trial.config.model_copy(update={"train": train}))


@pytest.mark.training
def test_equal_trials_run_once_and_finished_ones_are_skipped(trial, tmp_path, starts, monkeypatch, blobs):
    monkeypatch.setattr("surelabel.jobs.local_backend.count_cores", lambda: 6)
    first, second = without_threads(trial(source=str(blobs))), trial("car", source=str(blobs))
    outcome = run_all([first, Trial({"also": "here"}, first.config), second], tmp_path, backend=LocalBackend(workers=3))
    assert sorted(outcome.done) == sorted([first.name, second.name])
    assert outcome.is_complete
    threads = [run_of(one, tmp_path).environment()["threads"] for one in (first, second)]
    assert threads == [2, 1], "the cores are shared, unless the configuration says otherwise"
    stamp = (run_of(first, tmp_path).path / "done").stat().st_mtime_ns
    again = run_all([first, second], tmp_path, progress=starts)
    assert (again.done, sorted(again.skipped)) == ([], sorted(outcome.done))
    assert (starts.num_updates, starts.starts, starts.ends) == (1, [], [])
    assert (run_of(first, tmp_path).path / "done").stat().st_mtime_ns == stamp


@pytest.mark.training
def test_killed_run_resumes_bit_identically(trial, tmp_path, killer, outcome):
    long = trial("car", epochs=60)
    begun(long, tmp_path, steps=40)
    watcher = killer(long.name)
    result = run_all([long], tmp_path, progress=watcher)
    assert result.done == [long.name]
    first, second = watcher.of(long.name)
    assert (first.first_epoch, second.first_epoch) == (1, 1)
    assert first.pid != second.pid
    alone = api.fit(long.config, tmp_path / "alone")
    assert outcome(run_of(long, tmp_path)) == outcome(alone)


@pytest.mark.training
def test_failures_are_listed_with_their_reasons_and_the_rest_is_done(trial, tmp_path, killer, blobs):
    doomed, missing = trial(epochs=900), trial(source=str(blobs), labels="missing.csv")
    blocked, fine = trial(seed=1, source=str(blobs)), trial(seed=2, source=str(blobs))
    lock = run_of(blocked, tmp_path).path / "lock"
    lock.mkdir(parents=True)  # a lock that cannot be opened
    watcher = killer(doomed.name, times=2)
    result = run_all([doomed, missing, blocked, fine], tmp_path, workers=2, progress=watcher)
    assert result.done == [fine.name]
    assert set(result.failed) == {doomed.name, missing.name, blocked.name} == set(watcher.ends) - {fine.name}
    assert "its process died with signal SIGKILL" in result.failed[doomed.name]
    assert find_state(doomed, run_of(doomed, tmp_path).path) == "begun"
    assert "missing.csv" in result.failed[missing.name]
    assert result.failed[blocked.name].startswith("IsADirectoryError")
    assert "Traceback" in (tmp_path / "logs" / f"{blocked.name}.txt").read_text()


def test_other_content_is_refused_and_kept(trial, tmp_path):
    wanted, stranger = trial(seed=1), trial(seed=1, epochs=1)
    api.fit(stranger.config, run_of(wanted, tmp_path).path)
    scribble = run_of(trial(seed=2), tmp_path).path
    scribble.mkdir()
    (scribble / "notes.txt").write_text("mine")
    result = run_all([wanted, trial(seed=2)], tmp_path)
    assert "another configuration: train.epochs is 1 there and 2 here" in result.failed[wanted.name]
    assert "not a run directory" in result.failed[trial(seed=2).name]
    assert run_of(wanted, tmp_path).is_done
    assert (scribble / "notes.txt").read_text() == "mine"


def test_a_network_that_the_run_has_chosen_is_no_other_configuration(blobs, tmp_path):
    settings = {"train.epochs": 60, "train.second_opinion": False, "train.threads": 1, "train.device": "cpu"}
    trial = Trial({"data": "blobs"}, api.make_config(str(blobs), settings))
    run = api.fit(trial.config, run_of(trial, tmp_path).path)
    assert run.network_choice()["chosen"]
    assert run.config().model.name != trial.config.model.name
    assert find_state(trial, run.path) == "done"
    other = trial.config.model_copy(update={"model": trial.config.model.model_copy(update={"mirror": True})})
    with pytest.raises(RunError, match="another configuration"):
        find_state(Trial(trial.cell, other), run.path)


def test_run_resumes_after_its_data_have_moved(trial, tmp_path, blobs):
    here = trial(source=str(blobs))
    begun(here, tmp_path, steps=1)
    (tmp_path / "moved").mkdir()
    moved = blobs.rename(tmp_path / "moved" / blobs.name)
    there = trial(source=str(moved))
    assert there.name == here.name
    assert find_state(there, run_of(there, tmp_path).path) == "begun"
    train(there.config, run_of(there, tmp_path).path)
    assert run_of(there, tmp_path).is_done
    assert run_of(there, tmp_path).config().data.source == str(moved)


@pytest.mark.training
def test_ctrl_c_saves_all_runs_and_the_same_call_resumes_them(trial, tmp_path, ctrl_c, starts):
    trials = [trial(seed=seed, epochs=200) for seed in range(2)]
    with pytest.raises(KeyboardInterrupt):
        run_all(trials, tmp_path, workers=2, progress=ctrl_c)
    assert not any(run_of(one, tmp_path).is_done for one in trials)
    assert any(run_of(one, tmp_path).state_file.is_file() for one in trials)
    saved = {one.name: len(run_of(one, tmp_path).metrics()) for one in trials}
    assert any(saved.values())
    assert len(run_all(trials, tmp_path, workers=2, progress=starts).done) == 2
    assert {name: start.first_epoch for name, start in starts.starts} == saved, "they are resumed, not started again"


def test_no_workers():
    with pytest.raises(ConfigError, match="workers: got 0"):
        LocalBackend(0)


@pytest.mark.parametrize(("visible", "expected"), [(None, ["0", "1", "0"]), ("3,5", ["3", "5", "3"])])
def test_runs_are_spread_over_the_gpus(visible, expected, trial, tmp_path, monkeypatch):
    """Checks the environment of the processes; the tests do not assume two GPUs."""
    given = []

    def start_process(command, env, **others):
        given.append(env["CUDA_VISIBLE_DEVICES"])
        return SimpleNamespace()

    monkeypatch.setattr("subprocess.Popen", start_process)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    backend = LocalBackend(3)
    for seed in range(3):
        one = trial(seed=seed)
        backend.start(Job(one.name, one.config, tmp_path))
    assert given == expected


def test_one_gpu_needs_no_environment(monkeypatch):
    monkeypatch.setattr("torch.cuda.device_count", lambda: 1)
    assert LocalBackend(2)._freest_gpu() is None
