"""Training again on the labels of an export: what the model suggested cannot certify itself."""

import csv
import json
import shlex
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.training

ROWS = 900
QUICK = ["--threads", "1", "--model", "mlp", "--set", "model.widths=[32]", "--epochs", "12"]


def rows_of(path):
    with Path(path).open(newline="", encoding="utf-8") as file:
        return {row["id"]: row for row in csv.DictReader(file)}


def write_digits(path, noise, seed=0):
    """Write noisy digits without their true labels; return these by id."""
    from sklearn.datasets import load_digits

    bundle, rng = load_digits(), np.random.default_rng(seed)
    chosen = rng.permutation(len(bundle.target))[:ROWS]
    x, y = bundle.images[chosen].reshape(ROWS, -1).astype(np.float32), bundle.target[chosen]
    kind, rate = noise
    shift = np.ones(ROWS, dtype=int) if kind == "pair" else rng.integers(1, 10, ROWS)
    np.savez(path, x=x, y=np.where(rng.random(ROWS) < rate, (y + shift) % 10, y))
    return {str(row): str(label) for row, label in enumerate(y)}


def wrong_share(labels, truth):
    return sum(label != truth[id] for id, label in labels.items()) / len(labels)


def retrain(done, text, out, *more):
    line = next(line for line in text.splitlines() if line.startswith("Retrain: surelabel "))
    return done(*shlex.split(line.removeprefix("Retrain: surelabel ")), "--out", out, *QUICK, *more)


class Flow:
    """A first run, its export, a second run on it, and a second export."""

    def __init__(self, done, noise, *more):
        self.truth = write_digits("data.npz", noise)
        done("fit", "data.npz", "--out", "first", *QUICK, *more)
        self.printed = retrain(done, done("export", "first"), "second", *more)
        self.cleaned = rows_of("first/export/cleaned.csv")
        self.found = json.loads(done("audit", "second", "--json"))
        self.text = done("audit", "second")
        self.rows = rows_of("second/audit.csv")
        done("report", "second", "--out", "report.html")
        self.page = Path("report.html").read_text(encoding="utf-8")
        self.own = {id for id, row in self.cleaned.items() if row["decided_by"] == "model"}
        self.true_rate = wrong_share({id: row["label"] for id, row in self.cleaned.items()}, self.truth)
        done("export", "second")
        self.again = rows_of("second/export/cleaned.csv")


@pytest.fixture(scope="module", params=[("symmetric", 0.2), ("pair", 0.3)], ids=lambda noise: noise[0])
def flow(request, done, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("retraining"))
        yield Flow(done, request.param)


class TestVerdict:
    def test_the_interval_holds_the_true_rate(self, flow):
        low, high = flow.found["noise_interval"]
        assert len(flow.own) > 50
        assert low <= flow.true_rate <= high
        assert flow.found["noise_rate"] == pytest.approx(flow.true_rate, abs=0.05)

    def test_a_gate_below_the_true_rate_does_not_pass(self, flow, call):
        for share in (0.5, 0.9):
            assert call("gate", "second", "--max-wrong", f"{share * flow.true_rate:.4f}").exit_code in (1, 3)

    def test_wrong_suggestions_are_not_certified(self, flow):
        wrong = [float(flow.rows[id]["p_wrong"]) for id in flow.own if flow.rows[id]["given"] != flow.truth[id]]
        right = [float(flow.rows[id]["p_wrong"]) for id in flow.own if flow.rows[id]["given"] == flow.truth[id]]
        assert np.mean(wrong) > 0.1
        assert np.mean(wrong) > 2 * np.mean(right)

    def test_own_labels_are_counted(self, flow):
        sentence = f"{len(flow.own):,} of {ROWS} labels are surelabel's own suggestions"
        assert sentence in flow.printed
        assert sentence in flow.text
        assert flow.found["own_labels"] == len(flow.own)
        assert f"{len(flow.own):,} of {ROWS} labels are surelabel" in flow.page

    def test_the_label_in_use_and_the_original_are_both_told(self, flow):
        assert {id: row["given"] for id, row in flow.rows.items()} == {
            id: row["label"] for id, row in flow.cleaned.items()
        }
        assert {id: row["original"] for id, row in flow.rows.items()} == {
            id: row["given"] for id, row in flow.cleaned.items()
        }


class TestSecondExport:
    def test_it_keeps_what_the_user_gave(self, flow):
        assert {id: row["given"] for id, row in flow.again.items()} == {
            id: row["given"] for id, row in flow.cleaned.items()
        }

    def test_who_decided_stays_true(self, flow):
        for row in flow.again.values():
            is_own = row["label"] != row["given"]
            assert row["decided_by"] == ("model" if is_own else "nobody")
            assert row["changed"] == str(is_own)

    def test_it_does_not_make_labels_worse(self, flow):
        labels = {id: row["label"] for id, row in flow.again.items()}
        assert wrong_share(labels, flow.truth) <= flow.true_rate
