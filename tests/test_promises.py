"""What the README and the demo claim, measured on digits with 40 % wrong labels."""

import json
import subprocess
import sys

import numpy as np
import pytest

import surelabel

pytestmark = [pytest.mark.training, pytest.mark.timeout(900)]

NOISY = {"noise": {"kind": "symmetric", "rate": 0.4}, "train.threads": 1}


def test_demo_cross_entropy_memorises_and_car_refuses_finds_and_corrects(tmp_path):
    """The demo's JSON for seeds 0, 1 and 2, in the mean; one test, so that the three demos run once."""
    results = []
    for seed in (0, 1, 2):
        command = [sys.executable, "-m", "surelabel", "demo", "--seed", str(seed), "--json"]
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=True)
        results.append(json.loads(done.stdout.splitlines()[-1]))

    def mean(method, figure):
        return np.mean([result[method][figure] for result in results])

    assert mean("cross_entropy", "test_accuracy") <= 0.75
    assert mean("cross_entropy", "memorised") > 0.9
    assert mean("car", "test_accuracy") >= 0.95
    assert mean("car", "memorised") < 0.2
    assert mean("car", "quality_auroc") >= 0.99
    assert mean("car", "correction_accuracy") >= 0.94


@pytest.mark.parametrize("options", [{"method.threshold": 0.95}, {"method.targets": "none"}], ids=str)
def test_verdict_stands_where_targets_say_little(options, tmp_path):
    """Rows whose target was never blended, or was blended only after memorisation, still get a verdict that ranks."""
    run = surelabel.fit("digits", tmp_path / "run", settings={"method": "car", **NOISY, **options})
    assert surelabel.audit(run).measures()["quality_auroc"] >= 0.90


def test_defaults_need_no_tuning(tmp_path):
    """`surelabel fit digits --noise symmetric:0.4` alone, without the demo's settings; one seed, so with a margin."""
    run = surelabel.fit("digits", tmp_path / "run", settings={"noise": {"kind": "symmetric", "rate": 0.4}})
    assert run.metrics()[-1]["tests"]["test"]["top1"] >= 0.93
    assert surelabel.audit(run).measures()["quality_auroc"] >= 0.99
