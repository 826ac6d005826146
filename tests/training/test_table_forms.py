"""Runs whose tables of targets are dense, top-k or in a file."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import yaml

from surelabel.api import Interrupted, fit, resume
from surelabel.config import validate
from surelabel.errors import ConfigError
from surelabel.runs.run_dir import RunDir
from surelabel.training import build
from surelabel.training.cost_estimate import plan

METHODS = ("adaptive_car", "car", "elr", "sat", "selc")


@pytest.fixture
def settings(tiny, tmp_path):
    """A run of a few epochs, in which targets change, by method and form."""

    def make(method="car", **train):
        options = {"momentum": 0.5, "correction_start": 1} if method in ("car", "sat", "selc") else {}
        changes = {f"train__{name}": value for name, value in train.items()}
        return tiny(method, method__options=options, train__second_opinion=method == "adaptive_car", **changes)

    return make


def assert_equal(one, other):
    """Check that metrics and verdicts are equal bit by bit."""
    for a, b in zip(one.metrics(), other.metrics(), strict=True):
        assert (a["loss"], a["given_accuracy"]) == (b["loss"], b["given_accuracy"])
    assert one.samples().equals(other.samples())


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("form", [{"store": "topk", "store_k": 3}, {"store": "memmap"}])
def test_a_form_that_leaves_nothing_out_gives_the_samples_of_the_dense_one(method, form, settings, tmp_path):
    assert_equal(
        fit(settings(method, store="dense"), tmp_path / "dense"), fit(settings(method, **form), tmp_path / "other")
    )


@pytest.mark.parametrize("form", [{"store": "topk", "store_k": 2}, {"store": "memmap"}])
@pytest.mark.parametrize("method", ["car", "adaptive_car"])
def test_a_stopped_run_resumes_bit_by_bit(method, form, settings, tmp_path):
    config = settings(method, **form)
    whole = fit(config, tmp_path / "whole")
    with pytest.raises(Interrupted):
        fit(config, tmp_path / "stopped", interrupt=iter([False] * 4 + [True]).__next__)
    assert_equal(whole, resume(tmp_path / "stopped"))


@pytest.mark.parametrize("method", ["car", "adaptive_car"])
def test_tables_looked_at_in_chunks_give_the_same(method, settings, tmp_path, monkeypatch):
    whole = fit(settings(method), tmp_path / "whole")
    monkeypatch.setattr("surelabel.core.state.CHUNK_VALUES", 30)
    assert_equal(whole, fit(settings(method), tmp_path / "chunks"))


def test_confirmed_labels_stay_fixed(settings, tmp_path):
    (tmp_path / "trusted.csv").write_text("id\n0\n7\n")
    config = settings("car", store="topk", store_k=2)
    config["data"]["trusted"] = str(tmp_path / "trusted.csv")
    samples = fit(config, tmp_path / "run").samples()
    for row in (0, 7):
        target = samples["target"][row].as_py()
        assert target == np.eye(3)[samples["given"][row].as_py()].tolist()


@pytest.mark.parametrize("form", ["topk", "memmap"])
def test_other_methods_refuse_it_before_training(form, settings, tmp_path):
    with pytest.raises(ConfigError, match=rf"train\.store: mixup has no {form} .*adaptive_car, car, elr, sat or selc"):
        fit(settings("mixup", store=form), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_large_tables_are_top_k_by_default_if_the_method_allows_it(settings, monkeypatch):
    monkeypatch.setattr(build, "DENSE_BELOW", 1000)
    config = {name: plan_of(settings(name, store_k=2)) for name in ("car", "mixup")}
    assert config == {"car": "topk", "mixup": "dense"}


def plan_of(content):
    return build.table_form(validate(content), 1000, 3).name


def test_the_plan_counts_every_form(settings):
    sizes = {}
    for form in ("dense", "topk", "memmap"):
        sizes[form] = plan(validate(settings("car", store=form, store_k=2))).bytes
    # 2 of 3 classes: a number of 2 bytes and a value of 4 for each, and the value of the others.
    difference = sizes["topk"]["per-sample state"] - sizes["dense"]["per-sample state"]
    num_rows = 75
    assert difference == num_rows * (2 * (2 + 4) + 4 - 3 * 4)
    assert sizes["memmap"]["tables on disk"] == num_rows * 3 * 4
    assert sizes["dense"]["per-sample state"] - sizes["memmap"]["per-sample state"] == num_rows * 3 * 4


def test_a_killed_run_with_tables_in_a_file_resumes_bit_by_bit(settings, tmp_path):
    """What the file held when the process was killed is not what the saved state says."""
    config = settings("car", store="memmap", epochs=60)
    whole = fit(config, tmp_path / "whole")
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(config))
    code = (
        "import sys, surelabel.engine.loop as loop; loop.SAVE_EVERY = 0.0\n"
        "import yaml, surelabel.api as api\n"
        "api.fit(yaml.safe_load(open(sys.argv[1])), sys.argv[2])"
    )
    words = [sys.executable, "-c", code, str(tmp_path / "config.yaml"), str(tmp_path / "killed")]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while (
            not (tmp_path / "killed" / "metrics.jsonl").exists() or not RunDir(tmp_path / "killed").state_file.exists()
        ):
            assert process.poll() is None, "it ended before it could be killed"
            time.sleep(0.01)
        time.sleep(0.05)
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    assert not (tmp_path / "killed" / "done").exists()
    assert_equal(whole, resume(tmp_path / "killed"))
