"""Training from a command to `done`: each piece of work happens once."""

import numpy as np
import pytest

import surelabel
from surelabel.config import RunConfig
from surelabel.console import ProgressLines
from surelabel.engine import record
from surelabel.engine.loop import Interrupted
from surelabel.runs.decisions import Journal, Wish
from surelabel.runs.run_dir import OPINION_FILE
from surelabel.runs.samples import NUM_KEPT, TopK
from surelabel.training import build
from surelabel.training.warm_start import WarmStart

NUM_CLASSES = 40


@pytest.fixture
def counts(monkeypatch):
    """Count validated configurations, built methods and applied warm starts."""
    found = {"validated": 0, "built": 0, "warm": 0}

    def count(name, function):
        def counted(*arguments, **options):
            found[name] += 1
            return function(*arguments, **options)

        return counted

    monkeypatch.setattr(RunConfig, "model_validate", count("validated", RunConfig.model_validate))
    monkeypatch.setattr(build, "method", count("built", build.method))
    monkeypatch.setattr(WarmStart, "apply", count("warm", WarmStart.apply))
    return found


QUICK = ["--epochs", "2", "--threads", "1", "--model", "mlp", "--set", "model.widths=[8]", "--batch-size", "16"]


def test_fit_validates_and_builds_once(blobs, tmp_path, done, counts):
    done("fit", blobs, "--out", tmp_path / "run", *QUICK)
    assert counts == {"validated": 1, "built": 1, "warm": 0}


def test_a_warm_start_is_applied_once(blobs, tmp_path, done, counts):
    done("fit", blobs, "--out", tmp_path / "run", *QUICK)
    counts.update(validated=0, built=0)
    done("fit", blobs, "--out", tmp_path / "again", "--warm-start", tmp_path / "run", *QUICK)
    # The second configuration is that of the run to start from.
    assert counts == {"validated": 2, "built": 1, "warm": 1}


def test_resume_validates_and_builds_once(tiny, tmp_path, done, counts):
    stops = iter([False] * 7 + [True])
    with pytest.raises(Interrupted):
        surelabel.fit(tiny("car"), tmp_path / "run", interrupt=lambda: next(stops))
    counts.update(validated=0, built=0)
    done("resume", tmp_path / "run")
    assert counts == {"validated": 1, "built": 1, "warm": 0}


@pytest.fixture
def long(tiny, make_blobs, tmp_path):
    """Settings of a run of twelve epochs on 240 rows."""
    source = make_blobs(tmp_path / "many.npz", num_samples=240)
    return tiny("car", data__source=str(source), train__epochs=12)


def test_changed_predictions_are_the_same_after_an_interruption(long, tmp_path):
    whole = surelabel.fit(long, tmp_path / "whole")
    calls = iter(range(10_000))
    with pytest.raises(Interrupted):
        surelabel.fit(long, tmp_path / "stopped", interrupt=lambda: next(calls) == 100)
    resumed = surelabel.resume(tmp_path / "stopped")
    changed = [row.get("changed_predictions") for row in resumed.metrics()]
    assert changed == [row.get("changed_predictions") for row in whole.metrics()]


def test_what_to_watch_instead_of_the_loss(long, tmp_path):
    lines = []
    run = surelabel.fit(long, tmp_path / "run", progress=ProgressLines(lines.append, every=0))
    text = "\n".join(lines)
    assert "the loss of car may rise in a normal run" in text
    first, *rest = run.metrics()
    assert "changed_predictions" not in first
    assert all(0 <= row["changed_predictions"] <= 1 for row in rest)
    assert f"changed predictions {100 * rest[-1]['changed_predictions']:.1f} %" in text
    lines.clear()
    long["method"]["name"] = "cross_entropy"
    surelabel.fit(long, tmp_path / "plain", progress=ProgressLines(lines.append, every=0))
    assert "may rise" not in "\n".join(lines)


def test_p_wrong_is_stored_and_decisions_do_not_rewrite_it(tiny, tmp_path):
    run = surelabel.fit(tiny("car", data__validation_fraction=0.2), tmp_path / "run")
    samples, table = run.samples(), surelabel.audit(run)
    stored = dict(zip(samples["id"].to_pylist(), samples["p_wrong"].to_pylist(), strict=True))
    audited = dict(zip(table.columns["id"], table.columns["p_wrong"], strict=True))
    assert stored == audited
    files = [run.path / "samples.parquet", run.path / OPINION_FILE]
    before = [file.read_bytes() for file in files]
    row = next(table.head(1))
    Journal(run.path / "decisions.jsonl").append([Wish(str(row["id"]), str(row["given"]), "keep")])
    updated = surelabel.audit(run)
    assert updated.columns["p_wrong"][updated.columns["id"] == row["id"]].tolist() == [0.0]
    assert [file.read_bytes() for file in files] == before


@pytest.mark.parametrize("name", ["car", "mixup"], ids=["from steps", "from passes over all rows"])
def test_mean_probabilities_are_stored_with_their_margin(name, tiny, tmp_path):
    run = surelabel.fit(tiny(name, data__validation_fraction=0.2), tmp_path / "run")
    samples = run.samples()
    given, trained = samples["given"].to_numpy(), samples["split"].to_numpy() == "train"
    mean = TopK.from_table(samples, "mean_probability", len(run.data()["class_names"])).dense()
    assert np.isnan(mean[~trained]).all()
    assert samples["margin_of_mean"].null_count == (~trained).sum()
    mean, given = mean[trained], given[trained]
    assert mean.sum(1) == pytest.approx(np.ones(len(mean)), abs=1e-5)
    at_given = mean[np.arange(len(mean)), given]
    assert at_given == pytest.approx(samples["mean_given_probability"].to_numpy()[trained], abs=1e-5)
    others = np.where(np.arange(mean.shape[1]) == given[:, None], 0, mean).max(1)
    assert samples["margin_of_mean"].to_numpy()[trained] == pytest.approx(np.log(at_given / others), abs=1e-4)


def test_a_run_without_mean_probabilities_is_audited(tiny, tmp_path, monkeypatch):
    monkeypatch.setattr(record, "MOST_BYTES", 0)
    run = surelabel.fit(tiny("car"), tmp_path / "run")
    assert not {"mean_probability", "margin_of_mean"} & set(run.samples().column_names)
    assert len(surelabel.audit(run)) == len(run.samples())


class TestManyClasses:
    """Only the largest probabilities of many classes are stored; every command reads them."""

    @pytest.fixture(scope="class")
    @classmethod
    def run(cls, tmp_path_factory, make_blobs):
        folder = tmp_path_factory.mktemp("many")
        source = make_blobs(folder / "blobs.npz", num_samples=400, num_classes=NUM_CLASSES)
        settings = {"train.epochs": 3, "train.threads": 1, "model": "mlp", "data.validation_fraction": 0.1}
        return surelabel.fit(source, folder / "run", settings=settings)

    def test_storage(self, run):
        samples = run.samples()
        for name in ("mean_probability", "target", "probability"):
            assert samples.schema.field(name).type.list_size == NUM_KEPT
            soft = TopK.from_table(samples, name, NUM_CLASSES)
            known = np.isfinite(soft.values).all(1)
            assert (soft.classes == samples["given"].to_numpy()[:, None]).any(1)[known].all()
            assert known.all() == (name != "mean_probability")
        np.testing.assert_array_equal(soft.argmax(), samples["prediction"].to_numpy())
        at_given = np.take_along_axis(soft.dense(), samples["given"].to_numpy()[:, None], axis=1)[:, 0]
        np.testing.assert_allclose(at_given, samples["given_probability"].to_numpy(), rtol=1e-6)

    def test_commands(self, run, tmp_path, done):
        table = surelabel.audit(run)
        assert table.joint_counts.sum(0) == pytest.approx(np.bincount(run.labels()["given"].to_numpy()))
        done("export", run.path, "--out", tmp_path / "export")
        probability = np.load(tmp_path / "export" / "pred_probs.npy")
        assert probability.shape == (400, NUM_CLASSES)
        assert probability.sum(1) == pytest.approx(np.ones(400), abs=1e-4)
        done("report", run.path, "--out", tmp_path / "report.html")
