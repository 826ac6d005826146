"""The claims of the README and the demo, measured on digits with 40 % wrong labels."""

import json
import subprocess
import sys

import numpy as np
import pytest

import surelabel
from surelabel.cli.demo import EPOCHS

pytestmark = [pytest.mark.training, pytest.mark.timeout(900)]

NOISY = {"noise": {"kind": "symmetric", "rate": 0.4}, "train.threads": 1}


@pytest.fixture(scope="module")
def demos(tmp_path_factory, done):
    """Return the demo's JSON for three seeds: one as shipped, two with half the epochs.

    Both methods reach their final figures in half the epochs, so the same limits hold.
    """
    folder = tmp_path_factory.mktemp("demos")
    shipped = [sys.executable, "-m", "surelabel", "demo", "--json"]
    texts = [subprocess.run(shipped, capture_output=True, text=True, cwd=folder, check=True).stdout]
    for seed in (1, 2):
        figure = folder / f"{seed}.png"
        texts.append(done("demo", "--seed", seed, "--epochs", EPOCHS // 2, "--figure", figure, "--json"))
    return [json.loads(text.splitlines()[-1]) for text in texts]


@pytest.mark.parametrize("which", ["shipped", "mean"])
def test_demo_cross_entropy_memorises_and_car_refuses_finds_and_corrects(demos, which):
    results = demos if which == "mean" else demos[:1]

    def mean(method, figure):
        return np.mean([result[method][figure] for result in results])

    assert mean("cross_entropy", "test_accuracy") <= 0.75
    assert mean("cross_entropy", "memorised") > 0.9
    assert mean("car", "test_accuracy") >= 0.95
    assert mean("car", "memorised") < 0.2
    assert mean("car", "quality_auroc") >= 0.99
    assert mean("car", "correction_accuracy") >= 0.94


@pytest.mark.parametrize("options", [{"method.threshold": 0.95}, {"method.targets": "none"}], ids=str)
def test_verdicts_rank_labels_where_targets_say_little(options, tmp_path):
    """Rows whose target was blended late or never still get a verdict that ranks them."""
    alone = {"train.second_opinion": False}
    run = surelabel.fit("digits", tmp_path / "run", settings={"method": "car", **NOISY, **alone, **options})
    assert surelabel.audit(run).measures()["quality_auroc"] >= 0.90


def test_defaults_need_no_tuning(tmp_path):
    """Train only with `--noise symmetric:0.4`, without the settings of the demo; one seed."""
    run = surelabel.fit("digits", tmp_path / "run", settings={"noise": {"kind": "symmetric", "rate": 0.4}})
    assert run.metrics()[-1]["tests"]["test"]["top1"] >= 0.93
    assert surelabel.audit(run).measures()["quality_auroc"] >= 0.99
