"""A finished run judges the labels of new data, and says when they are unlike its own."""

import csv
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits

import surelabel
from surelabel.errors import DataError, RunError

RATE = 0.15
QUICK = {"model": "mlp", "epochs": 12, "threads": 1, "device": "cpu"}


def with_noise(label, rate=RATE, seed=0):
    rng = np.random.default_rng(seed)
    return np.where(rng.random(len(label)) < rate, (label + rng.integers(1, 10, len(label))) % 10, label)


@dataclass(frozen=True)
class Digits:
    """The half of the digits that is new to the run, and the folder with both halves."""

    folder: Path
    x: np.ndarray
    label: np.ndarray
    clean: np.ndarray

    def __truediv__(self, name):
        return self.folder / name


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    """Write both halves of the digits, with wrong labels."""
    folder = tmp_path_factory.mktemp("new_data")
    x, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    first, second = order[:900], order[900:]
    images = (x * 255 / 16).round().astype(np.uint8).reshape(-1, 1, 8, 8)
    np.savez(folder / "train.npz", x=images[first], y=with_noise(y[first]))
    made = Digits(folder, images[second], with_noise(y[second], seed=1), y[second])
    np.savez(folder / "new.npz", x=made.x, y=made.label)
    return made


@pytest.fixture(scope="module")
def run(digits):
    settings = {"data.validation_fraction": 0.25, "train.second_opinion": False}
    return surelabel.fit(str(digits / "train.npz"), digits / "run", **QUICK, settings=settings)


@pytest.fixture(scope="module")
def same(run, digits):
    return surelabel.audit(run, data=digits / "new.npz")


def drift_of(audit):
    return {drift.name: drift.share for drift in audit.drifts}


class TestDataOfTheSameKind:
    def test_wrong_labels_are_found_and_counted(self, same, digits):
        wrong = set(np.flatnonzero(digits.label != digits.clean))
        first = {int(row["id"]) for row in same.head(len(wrong))}
        assert len(first & wrong) > 0.8 * len(wrong)
        low, high = same.noise_rate.interval
        assert low <= len(wrong) / len(digits.label) <= high
        assert same.can_tell

    def test_there_is_no_drift(self, same):
        assert drift_of(same) == {"probability": 0, "distance": 0}
        assert same.caveats == ()

    def test_it_says_what_kind_of_verdict_this_is(self, same, run):
        assert set(same.columns["verdict"]) == {"prediction"}
        assert set(same.columns["split"]) == {"new"}
        assert any("Judged by prediction" in text and str(run.path) in text for text in same.sentences())
        assert np.isnan(same.columns["mean_margin"]).all()

    def test_nothing_in_the_run_changes(self, run, digits):
        before = {path.name: path.read_bytes() for path in run.path.iterdir()}
        surelabel.audit(run, data=digits / "new.npz")
        assert {path.name: path.read_bytes() for path in run.path.iterdir()} == before

    def test_objects_are_read_like_files(self, same, run, digits):
        other = surelabel.audit(run, data=(digits.x, digits.label))
        assert other.p_wrong.tolist() == same.p_wrong.tolist()

    def test_without_noise_few_look_wrong(self, run, digits):
        audit = surelabel.audit(run, data=(digits.x, digits.clean))
        assert audit.noise_rate.interval[0] == 0
        assert audit.num_suspicious < 0.02 * len(digits.clean)


class TestShiftedData:
    @pytest.mark.parametrize(
        "shift", [lambda x: np.rot90(x, axes=(2, 3)).copy(), lambda x: 255 - x, lambda x: x[::-1, :, ::-1, ::-1] // 3]
    )
    def test_the_audit_warns_and_cannot_tell(self, run, digits, shift):
        audit = surelabel.audit(run, data=(shift(digits.x), digits.label))
        assert max(drift_of(audit).values()) > 0.5
        assert not audit.can_tell
        assert "unlike those of the run" in audit.warnings[0]
        assert audit.columns["is_outlier"].mean() > 0.1 or drift_of(audit)["probability"] > 0.3

    def test_half_of_the_rows(self, run, digits):
        x = digits.x.copy()
        x[::2] = np.rot90(x[::2], axes=(2, 3))
        audit = surelabel.audit(run, data=(x, digits.label))
        assert 0.3 < drift_of(audit)["distance"] <= 0.55
        low, high = audit.noise_rate.interval
        assert low <= np.mean(digits.label != digits.clean) <= high


class TestRunsThatKnowLess:
    @pytest.fixture(scope="class")
    @classmethod
    def bare(cls, digits):
        """A run without held-out rows whose data are Python objects, which cannot be read again."""
        data = dict(np.load(digits / "train.npz"))
        return surelabel.fit(data, digits / "bare", **{**QUICK, "epochs": 3}, settings={"train.second_opinion": False})

    def test_they_say_what_was_not_compared(self, bare, digits):
        audit = surelabel.audit(bare, data=digits / "new.npz")
        assert audit.drifts == ()
        assert "isolation" not in audit.columns
        assert any("held out no rows" in text for text in audit.warnings)
        assert any("outliers were not looked for" in text for text in audit.warnings)

    def test_copies_of_training_rows_are_named(self, run, digits):
        audit = surelabel.audit(run, data=digits / "train.npz")
        assert any("copies of training rows" in text for text in audit.warnings)

    def test_few_rows_use_the_held_out_rows_of_the_run(self, run, digits):
        audit = surelabel.audit(run, data=(digits.x[:12], digits.label[:12]))
        assert any("12 rows are too few to calibrate by themselves" in text for text in audit.sentences())
        suspects = {int(row["id"]) for row in audit.head(int((digits.label != digits.clean)[:12].sum()))}
        assert suspects == set(np.flatnonzero((digits.label != digits.clean)[:12]))

    @pytest.mark.parametrize("has_opinion", [False, True])
    def test_few_rows_have_the_p_wrong_of_held_out_rows_of_that_quality(self, run, digits, tmp_path, has_opinion):
        if has_opinion:
            settings = {"data.validation_fraction": 0.25}
            run = surelabel.fit(str(digits / "train.npz"), tmp_path / "run", **QUICK, settings=settings)
        samples = run.samples()
        held_out = samples["split"].to_numpy() == "validation"
        quality, p_wrong = (samples[name].to_numpy()[held_out] for name in ("quality", "p_wrong"))
        audit = surelabel.audit(run, data=(digits.x[:12], digits.label[:12]))
        assert any("P(wrong) is that of the run's held-out rows" in text for text in audit.sentences())
        assert audit.is_calibrated
        wrong = (digits.label != digits.clean)[:12]
        for row in audit.head(12):
            near = p_wrong[np.abs(quality - row["quality"]).argsort()[:15]]
            assert near.min() - 1e-9 <= row["p_wrong"] <= near.max() + 1e-9
        assert (np.diff(audit.columns["p_wrong"][audit.columns["quality"].argsort()]) <= 0).all()
        low, high = audit.noise_rate.interval
        assert low <= wrong.mean() <= high
        assert high - low < 0.7

    def test_few_rows_are_only_ranked_where_few_rows_were_held_out(self, digits, tmp_path):
        settings = {"data.validation_fraction": 0.04}
        run = surelabel.fit(str(digits / "train.npz"), tmp_path / "run", **QUICK, settings=settings)
        audit = surelabel.audit(run, data=(digits.x[:12], digits.label[:12]))
        assert any("P(wrong) is 1 - quality, a rank and no probability" in text for text in audit.sentences())
        assert not audit.is_calibrated
        assert audit.columns["p_wrong"] == pytest.approx(1 - audit.columns["quality"])

    def test_other_classes_are_refused(self, run, digits):
        with pytest.raises(DataError, match=r"the class '10'"):
            surelabel.audit(run, data=(digits.x, digits.label + 2))

    def test_a_recorded_run_has_no_network(self, tmp_path, digits):
        from surelabel.callbacks import Recorder

        recorder = Recorder(4)
        recorder.see(range(4), np.eye(4), range(4))
        with pytest.raises(RunError, match="no model"):
            surelabel.audit(recorder.save(tmp_path / "run"), data=digits / "new.npz")


class TestCommand:
    def test_it_writes_a_table(self, run, digits, done, tmp_path):
        found = json.loads(done("audit", run.path, "--data", digits / "new.npz", "--json"))
        assert found["csv"] == str(run.path / "audit-new.csv")
        assert [drift["name"] for drift in found["drift"]] == ["probability", "distance"]
        assert "Judged by prediction" in found["basis"][0]
        with (run.path / "audit-new.csv").open() as file:
            rows = list(csv.DictReader(file))
        assert len(rows) == len(digits.label)
        assert {row["verdict"] for row in rows} == {"prediction"}
        assert "Judged by prediction" in done(
            "audit", run.path, "--data", digits / "new.npz", "--out", tmp_path / "a.csv"
        )

    def test_new_data_are_not_overwritten(self, run, digits, call):
        before = (digits / "new.npz").read_bytes()
        assert call("audit", run.path, "--data", digits / "new.npz", "--out", digits / "new.npz").exit_code == 2
        assert (digits / "new.npz").read_bytes() == before


def test_text(text_run, done):
    """Text becomes features as in the run."""
    found = json.loads(done("audit", text_run / "run", "--data", text_run / "reviews.csv", "--json"))
    assert found["rows"] == 120
    assert any("copies of training rows" in text for text in found["warnings"])
