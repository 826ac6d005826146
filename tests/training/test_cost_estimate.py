"""The estimate that `surelabel plan` makes before anything starts."""

import json
import os
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from typer.testing import CliRunner

from surelabel.cli import app
from surelabel.config import validate
from surelabel.training import cost_estimate
from surelabel.training.cost_estimate import plan


@pytest.fixture
def repeated(tmp_path):
    """Write twenty rows in two classes with duplicates.

    Row 1 repeats row 0 with another label, row 3 repeats row 2, and test row 1 repeats row 5.
    """
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(20, 4)).astype(np.float32), np.arange(20) % 2
    x[1], x[3], y[3] = x[0], x[2], y[2]
    x_test = rng.normal(size=(6, 4)).astype(np.float32)
    x_test[1] = x[5]
    np.savez(tmp_path / "twins.npz", x=x, y=y, x_test=x_test, y_test=np.zeros(6, dtype=int))
    return tmp_path / "twins.npz"


def config_for(source, **train):
    return validate(
        {
            "data": {"source": str(source)},
            "model": {"name": "mlp", "options": {"widths": [8], "norm": "none"}},
            "train": {"epochs": 3, "batch_size": 8, "threads": 1, "device": "cpu", **train},
        }
    )


def test_sizes_balance_duplicates_and_leaks(repeated):
    found = plan(config_for(repeated))
    assert found.sizes == {"train": 20, "test": 6}
    assert found.class_counts == {"0": 11, "1": 9}
    assert [group.ids for group in found.twins] == [("0", "1"), ("2", "3")]
    assert [group.disagree for group in found.twins] == [True, False]
    assert found.leaked == {"test": ["test/1"]}


def test_memory_is_that_of_inputs_tables_and_weights(repeated):
    found = plan(config_for(repeated))
    assert found.bytes["inputs"] == 26 * 4 * 4
    # CAR: targets (20, 2), how often each was corrected, and tau.
    of_method, of_record = 2 + 1 + 1, 3 + 2 + 1 + 4
    # The label, the last prediction and what was learned; a table has a further row for padding.
    of_history, of_padding = 8 + 8 + 5 * 4 + 1, of_record * 4
    of_course = 20 * (20 * (2 + 2 * (2 + 2)) + 4) + 4  # 20 rows at 20 checkpoints, in 16 bits; 20 epochs; the stride
    of_rows = 20 * ((of_method + of_record) * 4 + of_history)
    assert found.bytes["per-sample state"] == of_rows + of_padding + of_course
    num_weights = (4 * 8 + 8) + (8 * 2 + 2) + (8 + 1)
    assert found.bytes["weights and optimiser"] == 3 * 4 * num_weights
    assert found.peak_bytes > sum(found.bytes.values())


@pytest.mark.training
def test_a_run_needs_no_more_memory_than_the_plan_says(tmp_path):
    rng = np.random.default_rng(0)
    label = rng.integers(0, 10, 3000)
    x = (rng.normal(size=(10, 16))[label] + rng.normal(size=(3000, 16))).astype(np.float32)
    np.savez(tmp_path / "data.npz", x=x, y=label)

    def peak_of(*arguments):
        command = [sys.executable, "-m", "surelabel", *arguments]
        with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
            printed = process.stdout.read()
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        assert process.returncode == 0
        return printed, used.ru_maxrss * (1 if sys.platform == "darwin" else 1024)

    printed, _ = peak_of("plan", "data.npz", "--epochs", "1", "--json")
    _, peak = peak_of("fit", "data.npz", "--epochs", "1", "--out", "run")
    assert peak <= json.loads(printed)["peak_bytes"]


def test_time_is_the_timed_step_for_every_step_of_the_run(repeated):
    found = plan(config_for(repeated, epochs=40))
    assert (found.epochs, found.batches) == (40, 3)
    assert found.total_seconds - found.other_seconds == pytest.approx(found.step_seconds * (40 * 3 + 40 * 6 / 8 / 3))


def test_time_has_the_start_and_the_verdict_on_all_rows(repeated, monkeypatch):
    clock = iter(range(10**6))  # a second passes whenever somebody looks at it
    judged = []

    def judge(_config, corpus, columns):
        judged.append((len(corpus.train), len(columns["quality"])))
        return [next(clock) for _ in range(100)]

    monkeypatch.setattr(cost_estimate, "JUDGED_ROWS", 5)
    monkeypatch.setattr(cost_estimate.second_opinion, "judge_run", judge)
    monkeypatch.setattr(cost_estimate, "time", SimpleNamespace(perf_counter=lambda: float(next(clock))))
    found = plan(config_for(repeated, epochs=40))
    assert judged == [(5, 5)]
    # Imports; one second each for reading and starting; 101 for 5 of 20 rows.
    assert found.other_seconds == cost_estimate.IMPORT_SECONDS + 1 + 1 + 101 * 20 / 5


def test_time_of_runs_without_a_second_opinion_has_the_calibration(repeated, monkeypatch):
    clock = iter(range(10**6))
    monkeypatch.setattr(cost_estimate.second_opinion, "judge_run", lambda *_: None)
    monkeypatch.setattr(cost_estimate, "calibrate", lambda _: [next(clock) for _ in range(100)])
    monkeypatch.setattr(cost_estimate, "time", SimpleNamespace(perf_counter=lambda: float(next(clock))))
    found = plan(config_for(repeated, epochs=40))
    assert found.other_seconds == cost_estimate.IMPORT_SECONDS + 1 + 1 + 101


def test_nothing_is_left_behind(repeated, tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path / "elsewhere"))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.setattr("tempfile.tempdir", None)
    plan(config_for(repeated))
    assert list((tmp_path / "elsewhere").iterdir()) == []


@pytest.mark.parametrize("command", [["plan"], ["fit", "--dry-run"]])
def test_both_commands_say_it_and_start_nothing(command, repeated, monkeypatch):
    monkeypatch.chdir(repeated.parent)
    name, *options = command
    result = CliRunner().invoke(app, [name, str(repeated), "--epochs", "2", "--threads", "1", *options])
    assert result.exit_code == 0, result.output
    assert "20 train, 6 test" in result.output
    assert "1 carry different labels" in result.output
    assert "0 (0), 1 (1)" in result.output
    assert "also trained on: 1: test/1" in result.output
    assert "Memory: inputs" in result.output
    assert "Time: about" in result.output
    assert not (repeated.parent / "runs").exists()


def test_as_json(repeated):
    result = CliRunner().invoke(app, ["plan", str(repeated), "--epochs", "2", "--threads", "1", "--json"])
    found = json.loads(result.output.splitlines()[-1])
    assert found["conflicts"] == [{"ids": ["0", "1"], "labels": [0, 1]}]
    assert found["duplicates"] == 2
    assert found["sizes"] == {"train": 20, "test": 6}


class TestBusyCores:
    """Threads that wait for each other are slow where other programs use their cores."""

    @pytest.fixture
    def note(self, repeated, monkeypatch):
        def make(load, threads):
            monkeypatch.setattr("os.getloadavg", lambda: (load, 0.0, 0.0))
            monkeypatch.setattr("surelabel.training.cores.count_cores", lambda: 4)
            return [text for text in plan(config_for(repeated, threads=threads)).warnings if "--threads" in text]

        return make

    def test_the_plan_says_how_many_threads_are_free(self, note):
        assert note(load=2.6, threads=2) == [
            "other programs keep about 2.6 of 4 cores busy, and 2 threads that wait for each other may be slower than "
            "1: try --threads 1"
        ]

    def test_nothing_is_said_where_there_is_room(self, note):
        assert note(load=2.4, threads=2) == []
        assert note(load=9.0, threads=1) == []
