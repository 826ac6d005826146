"""`surelabel tune`: from data to a configuration that `fit` takes."""

import csv
import json
from importlib import import_module
from types import SimpleNamespace

import pytest
import yaml

from surelabel.config import validate
from surelabel.overrides import read_config
from surelabel.runs.run_dir import RunDir

TINY = ["--model", "mlp", "--set", "model.widths=[8]", "--epochs", "3", "--batch-size", "16", "--threads", "1"]
COMMAND = import_module("surelabel.cli.tune")  # the package has a function of this name


@pytest.fixture
def tune(call, blobs, tmp_path, monkeypatch, in_this_process):
    """`tune("--method", "elr")`: a search on the blobs, whose runs train in this process."""
    monkeypatch.chdir(tmp_path)

    def run(*words, before=lambda job: None):
        backend = in_this_process(before)
        monkeypatch.setattr(COMMAND, "make_backend", lambda workers, ray: backend)
        return call("tune", blobs, *TINY, *words), backend.started

    return run


def test_from_data_to_a_configuration_for_fit(tune, call, tmp_path):
    words = "--method", "elr", "--noise", "pair:0.3", "--seed", 3, "--set", "method.momentum=0.9", "--json"
    result, started = tune(*words, "--set", "optimiser.schedule.kind=one_cycle")
    assert result.exit_code == 0, result.stderr
    assert "test accuracy" not in result.stderr
    printed = json.loads(result.stdout)
    assert [job.config.data.validation_fold for job in started] == [0, 0, 0, 1, 1, 2, 2]
    folder = tmp_path / "tuning" / "blobs-elr"
    assert printed["folder"] == str(folder)
    best = read_config(folder / "best.yaml")
    assert best["method"] == {"name": "elr", "options": printed["options"]}
    assert set(printed["options"]) == {"momentum", "regularisation"}
    config = validate(best)
    assert (config.train.epochs, config.train.seed, config.noise.kind) == (3, 3, "pair")
    assert (config.optimiser.schedule.kind, config.train.second_opinion) == ("one_cycle", True)
    assert config.data.validation_fraction == 0
    shown = call("fit", "--config", folder / "best.yaml", "--dry-run")
    assert shown.exit_code == 0, shown.stderr
    rows = list(csv.DictReader((folder / "table.csv").read_text().splitlines()))
    assert [row["state"] for row in rows] == ["chosen", "compared", "dropped"]
    assert [row["rung"] for row in rows] == ["3", "3", "1"]
    assert rows[0]["candidate"] == printed["chosen"]
    assert "| chosen |" in (folder / "table.md").read_text()
    again, started = tune(*words, "--set", "optimiser.schedule.kind=one_cycle")
    assert not started, "all runs were done before"
    assert json.loads(again.stdout)["candidates"] == printed["candidates"]


def test_it_is_stopped_and_resumed(tune):
    words = "--method", "elr", "--try", "regularisation=3,7", "--json"

    def press_ctrl_c(job):
        if job.config.data.validation_fold == 1:
            raise KeyboardInterrupt

    result, started = tune(*words, before=press_ctrl_c)
    assert (result.exit_code, result.stdout) == (130, "")
    assert "Resume with the same command" in result.stderr
    done = [job.name for job in started]
    result, started = tune(*words)
    assert result.exit_code == 0, result.stderr
    assert len(done) == 2
    assert len(started) == 4
    assert not set(done) & {job.name for job in started}


def test_a_candidate_that_diverges_is_listed(tune):
    result, _ = tune("--method", "sl", "--try", "forward_weight=0.1,1e38", "--out", "out")
    assert result.exit_code == 0, result.stderr
    (line,) = [line for line in result.stdout.splitlines() if line.startswith("forward_weight=1e+38")]
    assert "failed" in line
    assert "surelabel fit --config" in result.stdout
    assert yaml.safe_load((RunDir("out").path / "best.yaml").read_text())["method"]["options"] == {
        "forward_weight": 0.1
    }


def test_a_budget_ends_with_the_best_so_far(tune, monkeypatch):
    clock = [0.0]
    monkeypatch.setattr("surelabel.tuning.search.time", SimpleNamespace(monotonic=lambda: clock[-1]))
    words = "--method", "elr", "--try", "regularisation=1,3,7", "--out", "out"
    result, started = tune(*words, "--budget", 1, before=lambda job: clock.append(clock[-1] + 40))
    assert result.exit_code == 0, result.stderr
    assert len(started) == 2
    assert "budget is used up" in result.stderr
    assert "not ended" in result.stdout


def test_without_any_run_there_is_no_choice(tune, tmp_path):
    result, started = tune("--method", "elr", "--out", tmp_path / "out", "--budget", 1e-9)
    assert (result.exit_code, started) == (1, [])
    assert "no candidate" in result.stderr
    assert sorted(file.name for file in (tmp_path / "out").glob("[!.]*")) == ["table.csv", "table.md"]


def test_a_plan_trains_nothing(tune, tmp_path):
    result, started = tune("--method", "elr", "--dry-run", "--json")
    plan = json.loads(result.stdout)
    assert (plan["rungs"], plan["cost_in_runs"]) == ([6, 3, 2], pytest.approx(22 / 3))
    assert plan["candidates"][0] == {"regularisation": 3.0, "momentum": 0.7}
    shown, _ = tune("--method", "elr", "--dry-run")
    assert "regularisation=7, momentum=0.9" in shown.stdout
    assert "the cost of 7.3 runs" in shown.stdout
    assert not started
    assert not (tmp_path / "tuning").exists()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--try", "regularisation"], "expected OPTION=VALUE,VALUE"),
        (["--try", "regularisation=[1"], "not readable as YAML"),
        (["--try", "lambda=1,2"], "method.lambda: elr has no such option"),
        (["--budget", "0"], "budget: got 0"),
        (["--set", "method.momentum=2"], "method.momentum"),
        (["--set", "data.source=missing.npz"], "missing.npz"),
    ],
)
def test_refused(tune, words, expected):
    result, _ = tune("--method", "elr", *words, "--out", "out")
    assert result.exit_code == 2
    assert result.stdout == ""
    assert expected in result.stderr.splitlines()[-1]
    assert result.stderr.splitlines()[-1].startswith("error: ")


@pytest.mark.training
def test_runs_train_in_processes(call, blobs, tmp_path):
    words = "--method", "elr", "--try", "regularisation=3,7", "--out", tmp_path / "out", "--workers", 2
    result = call("tune", blobs, *TINY, *words, "--budget", 0.001)
    assert result.exit_code == 0, result.stderr
    assert "budget is used up" in result.stderr
    assert len(list(tmp_path.glob("out/runs/*/done"))) == 2
