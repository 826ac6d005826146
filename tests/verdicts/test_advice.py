"""The causes and next steps that an audit names if it cannot tell how many labels are wrong."""

import json
from pathlib import Path

import numpy as np
import pytest

import surelabel
from surelabel.runs.run_dir import RunDir
from surelabel.verdicts import Audit
from surelabel.verdicts.advice import Training, training_of

RIGHT = np.repeat(["a", "b"], 50)


def audit_of(training, prediction=RIGHT, quality=0.9):
    """Return an audit of 100 rows without calibration, which cannot tell."""
    columns = {"id": np.arange(100).astype(str), "given": RIGHT, "suggested": prediction, "prediction": prediction}
    more = {"quality": np.full(100, quality), "verdict": np.full(100, "training")}
    return Audit({**columns, **more}, ("a", "b"), training=training)


def advice(training, **kinds):
    return " ".join(audit_of(training, **kinds).warnings)


class TestCauses:
    def test_the_default_method_is_not_advised_to_those_who_used_it(self):
        for method in ("car", "adaptive_car", "elr", "dividemix", "somebody.elses"):
            assert "--method" not in advice(Training(method, {1: 0.5, 2: 0.99, 3: 1.0, 4: 1.0}))

    def test_others_are_told_of_it(self):
        assert "--method car" in advice(Training("cross_entropy", {1: 0.5, 2: 0.99, 3: 1.0, 4: 1.0}))

    def test_features_get_a_linear_network(self):
        assert "model.widths=[]" in advice(Training("car", {1: 1.0, 2: 1.0}, on_features=True))
        assert "docs/networks.md" in advice(Training("car", {1: 1.0, 2: 1.0}))

    def test_training_that_ended_too_early(self):
        text = advice(Training("car", {1: 0.2, 2: 0.3, 3: 0.4, 4: 0.6}), prediction=RIGHT[::-1])
        assert "ended too early" in text
        assert "rose by 20 points" in text
        assert "--epochs 16" in text

    def test_a_network_that_has_unlearned_the_classes(self):
        text = advice(Training("car", {1: 0.3, 40: 0.85, 200: 0.4}))
        assert "unlearned the classes: it predicted 85 % of the given labels in epoch 40 and 40 % in epoch 200" in text
        assert "unlearned" not in advice(Training("car", {1: 0.3, 40: 0.85, 200: 0.6})), "wrong labels are let go"

    def test_a_class_that_the_network_has_lost_is_named(self):
        text = advice(None, prediction=np.full(100, "a"))
        assert "predicts 1 of the classes for no training row: 'b'" in text
        assert "for no training row" not in advice(None)

    @pytest.mark.parametrize("agreement", [{}, {1: 0.7}, {1: 0.5, 2: 0.7, 3: 0.7, 4: 0.7}])
    def test_a_network_that_has_settled_is_not_told_to_train_longer(self, agreement):
        assert "--epochs" not in advice(Training("car", agreement), prediction=RIGHT[::-1])

    def test_nothing_is_counted_that_is_not_known(self):
        text = " ".join(audit_of(None).sentences())
        assert "not known" in text
        assert "About" not in text


class TestReading:
    def test_a_run_that_does_not_say(self, run_of):
        assert training_of(run_of()) is None

    def test_a_stored_run(self, stored):
        training = surelabel.audit(stored("digits")).training
        assert (training.method, training.epochs) == ("car", 200)
        assert training.agreement[200] == pytest.approx(0.822, abs=0.001)

    @pytest.mark.parametrize(
        "line",
        ["5", '{"epoch": 1, "given_accuracy": null}', '{"given_accuracy": 0.5}', '{"epoch": 1, "given_accuracy": "x"}'],
    )
    def test_odd_metrics_do_not_stop_an_audit(self, stored, line):
        run = stored("digits")
        text = f"{line}\n{(run / 'metrics.jsonl').read_text()}"
        RunDir(run).write("metrics.jsonl", lambda path: path.write_text(text))
        assert surelabel.audit(run).training is None


@pytest.mark.training
class TestFlow:
    @pytest.fixture(autouse=True)
    def folder(self, tmp_path, monkeypatch, make_blobs):
        monkeypatch.chdir(tmp_path)
        make_blobs(Path("data.npz"), num_samples=240)

    @pytest.mark.parametrize(("method", "expected"), [("cross_entropy", "--method car"), ("car", "linear network")])
    def test_a_network_that_memorised_is_told_so(self, done, method, expected):
        rng = np.random.default_rng(0)
        y = np.arange(300) % 5
        x = (rng.normal(size=(5, 200)) * 0.2)[y] + rng.normal(size=(300, 200))
        np.savez("wide.npz", x=x.astype(np.float32), y=y)
        deep = ["--model", "mlp", "--epochs", "40"]
        done("fit", "wide.npz", "--noise", "symmetric:0.2", "--method", method, *deep, "--out", "run")
        text = " ".join(json.loads(done("audit", "run", "--json"))["warnings"])
        assert "memorised" in text
        assert expected in text
