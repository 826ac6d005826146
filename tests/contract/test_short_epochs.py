"""Epochs of a fixed number of batches: no method takes an epoch for a visit of every row."""

from collections import defaultdict

import numpy as np
import pytest

from surelabel import methods
from surelabel.api import fit
from surelabel.engine.metrics import Metrics
from surelabel.engine.record import SampleRecord

pytestmark = pytest.mark.training

ALL = methods.names()


@pytest.fixture
def short(tiny):
    """`short("car")`: eight epochs of eight rows, which leave some of the 75 rows out."""

    def settings(name, balanced):
        epoch = {"batches": 2, "balanced": balanced}
        return tiny(name, data__epoch=epoch, train__batch_size=4, train__epochs=8)

    return settings


@pytest.mark.parametrize("name", ALL)
def test_every_row_has_a_verdict(name, short, tmp_path, engines):
    run = fit(short(name, balanced=True), tmp_path / "run")
    samples, clean = run.samples(), run.labels()["clean"].to_numpy()
    quality, suggested = (samples[column].to_numpy() for column in ("quality", "suggested_probability"))
    assert ((quality >= 0) & (quality <= 1)).all()
    assert ((suggested > 1 / 3 - 1e-6) & (suggested < 1 + 1e-5)).all(), "the largest of three probabilities"
    target = np.stack(samples["target"].to_pylist())
    np.testing.assert_allclose(target.sum(1), 1, atol=1e-5)
    if "correction_accuracy" in (row := run.metrics()[-1]):
        assert row["correction_accuracy"] == pytest.approx((target.argmax(1) == clean).mean())
    (engine,) = engines
    for before, after in zip(*(m.target_tables() for m in (engine.setup.make_method(0), engine.method)), strict=True):
        if (before.store.whole().sum(1) > 0).all():  # a table that starts as distributions stays so
            np.testing.assert_allclose(after.store.whole().sum(1), 1, atol=1e-5)


@pytest.mark.parametrize("name", ALL)
def test_means_are_over_visits(name, short, tmp_path, monkeypatch):
    """The mean of p at the given label is over all that steps saw of a row."""
    visits, is_from_passes = defaultdict(list), []
    see, look = SampleRecord.see, Metrics._look

    def note(self, index, logits, label):
        for row, values in zip(index.tolist(), self.values(logits, label)[:, 1].tolist(), strict=True):
            visits[row].append(values)
        see(self, index, logits, label)

    monkeypatch.setattr(SampleRecord, "see", note)
    monkeypatch.setattr(Metrics, "_look", lambda self: (is_from_passes.append(True), look(self))[1])
    samples = fit(short(name, balanced=False), tmp_path / "run").samples()
    if is_from_passes:  # steps on mixed rows see no row by itself: one visit in each of these passes
        return
    expected = [np.mean(visits[row]) if row in visits else 1 / 3 for row in range(75)]
    np.testing.assert_allclose(samples["mean_given_probability"].to_numpy(), expected, atol=1e-5)
