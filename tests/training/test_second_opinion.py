import numpy as np
import pandas as pd
import pytest
import torch

import surelabel
from surelabel.data.corpus import Examples
from surelabel.training import second_opinion
from surelabel.training.second_opinion import LEAST_ROWS, SIDE, feature_sets, features_of

SETTINGS = {"train.epochs": 15, "train.threads": 1, "train.device": "cpu"}


def embeddings(num_rows=400, num_classes=5, size=120, spread=0.35, seed=0):
    """Draw wide features, whose labels any network memorises at once; a fifth is wrong."""
    rng = np.random.default_rng(seed)
    clean = np.arange(num_rows) % num_classes
    x = (rng.normal(size=(num_classes, size)) * spread)[clean] + rng.normal(size=(num_rows, size))
    given = clean.copy()
    wrong = rng.choice(num_rows, num_rows // 5, replace=False)
    given[wrong] = (given[wrong] + rng.integers(1, num_classes, len(wrong))) % num_classes
    return {"x": x.astype(np.float32), "y": given, "clean": clean}


@pytest.fixture(scope="module")
def data():
    return embeddings()


@pytest.fixture(scope="module")
def run(data, tmp_path_factory):
    settings = {**SETTINGS, "data.validation_fraction": 0.2}
    return surelabel.fit(data, tmp_path_factory.mktemp("judged") / "run", settings=settings)


class TestMemorisedLabels:
    def test_they_are_found_all_the_same(self, run, data, tmp_path):
        alone = surelabel.fit(data, tmp_path / "alone", settings={**SETTINGS, "train.second_opinion": False})
        audit = surelabel.audit(run)
        found = audit.measures()
        assert found["quality_auroc"] > 0.97
        assert found["quality_auroc"] > surelabel.audit(alone).measures()["quality_auroc"]
        assert found["estimated_wrong_labels"] == pytest.approx(0.2, abs=0.05)
        low, high = audit.noise_rate.interval
        assert low <= 0.2 <= high
        assert "About" in audit.sentences()[0]

    def test_correcting_them_helps(self, run):
        audit = surelabel.audit(run)
        clean = audit.to_frame().sort_values("row").clean
        assert (audit.corrected() == clean).mean() > 0.9

    def test_held_out_rows_are_judged_alike(self, run):
        columns = surelabel.audit(run).columns
        held_out = columns["split"] == "validation"
        wrong = columns["given"] != columns["clean"]
        assert held_out.sum() == 80
        assert columns["p_wrong"][held_out & wrong].mean() > 0.7
        assert columns["p_wrong"][held_out & ~wrong].mean() < 0.2

    def test_the_run_says_which_evidence_it_had(self, run):
        opinion = run.second_opinion()
        assert {expert["name"] for expert in opinion["experts"]} == {"linear", "gaussian 0.5", "gaussian 2"}
        assert 0.5 < opinion["power"] <= 1

    def test_bounds_enclose_the_probability(self, run):
        samples = run.samples()
        low, p_wrong, high = (samples[name].to_numpy() for name in ("p_wrong_low", "p_wrong", "p_wrong_high"))
        assert (low >= 0).all()
        assert (low <= p_wrong).all()
        assert (p_wrong <= high).all()
        assert (high <= 1).all()


def test_confirmed_labels_are_right(data, tmp_path):
    wrong = np.flatnonzero(data["y"] != data["clean"])[:10]
    file = tmp_path / "trusted.csv"
    file.write_text("id\n" + "".join(f"{row}\n" for row in wrong))
    run = surelabel.fit(data, tmp_path / "run", settings={**SETTINGS, "data.trusted": str(file)})
    columns = surelabel.audit(run).columns
    trusted = np.isin(columns["id"], wrong.astype(str))
    assert trusted.sum() == 10
    assert (columns["p_wrong"][trusted] == 0).all()
    assert (columns["suggested"] == columns["given"])[trusted].all()


def test_few_rows_have_none(tmp_path):
    small = {name: values[: LEAST_ROWS - 1] for name, values in embeddings().items()}
    run = surelabel.fit(small, tmp_path / "run", settings=SETTINGS)
    assert run.second_opinion() == {"separated": {"training": False}}
    assert len(surelabel.audit(run)) == LEAST_ROWS - 1


class TestFeatures:
    def examples(self, x):
        return Examples(x, torch.zeros(len(x), dtype=torch.int64), np.arange(len(x)).astype(str))

    def test_vectors_and_tiny_images_are_taken_whole(self):
        for shape in ((7, 5), (7, 1, 8, 8)):
            x = torch.rand(shape)
            (features,) = features_of([self.examples(x)], seed=0)
            np.testing.assert_allclose(features, x.flatten(1).numpy())

    @pytest.mark.parametrize("side", [SIDE, 3 * SIDE])
    def test_images_are_described_by_random_patches_of_any_part_alike(self, side):
        images = torch.randint(0, 256, (12, 3, side, side), dtype=torch.uint8)
        first, second = features_of([self.examples(images), self.examples(images[:5])], seed=0)
        assert first.shape[0] == 12
        np.testing.assert_allclose(first[:5], second, atol=1e-4)
        assert np.isfinite(first).all()

    def test_images_are_described_twice_and_vectors_once(self):
        images = torch.randint(0, 256, (12, 3, SIDE, SIDE), dtype=torch.uint8)
        sets = feature_sets([self.examples(images), self.examples(images[:5])], seed=0)
        assert {name: len(features) for name, features in sets.items()} == {"patches": 17, "gradients": 17}
        assert list(feature_sets([self.examples(torch.rand(7, 5))], seed=0)) == ["inputs"]


class TestTripledRows:
    """Each row three times with a little jitter, and the same label, also where it is wrong."""

    @pytest.fixture
    def tripled(self):
        once, rng = embeddings(num_rows=200), np.random.default_rng(1)
        x = np.repeat(once["x"], 3, axis=0)
        x += rng.normal(scale=0.02, size=x.shape).astype(np.float32)
        labels = {name: np.repeat(once[name], 3) for name in ("y", "clean")}
        return {"x": x, **labels, "patient": np.repeat(np.arange(200), 3)}

    def judge(self, data, out, **settings):
        run = surelabel.fit(data, out, model="mlp", settings=SETTINGS, **settings)
        audit = surelabel.audit(run)
        wrong = audit.columns["given"] != audit.columns["clean"]
        return audit.measures()["quality_auroc"], audit.ranked(audit.is_suspicious)[wrong].mean(), audit.noise_rate.rate

    def test_their_mistakes_are_found_if_groups_are_left_out_together(self, tripled, tmp_path, monkeypatch):
        monkeypatch.setattr(second_opinion, "number_duplicates", lambda features, _: np.zeros(len(features), int))
        unaware = {name: values for name, values in tripled.items() if name != "patient"}
        auroc, found, rate = self.judge(unaware, tmp_path / "alone")
        assert auroc < 0.85
        assert (found, rate) == pytest.approx((0, 0), abs=0.02)
        auroc, found, rate = self.judge(tripled, tmp_path / "groups", group="patient")
        assert auroc > 0.98
        assert found > 0.9
        assert rate == pytest.approx(0.2, abs=0.03)

    def test_copies_are_found_without_a_group_and_neighbours_once(self, tripled, tmp_path, monkeypatch):
        del tripled["patient"]
        calls, find = [], second_opinion.find_neighbours
        monkeypatch.setattr(second_opinion, "find_neighbours", lambda *args: calls.append(args) or find(*args))
        for method, folds in (("car", 2), ("adaptive_car", 0)):
            auroc, found, _ = self.judge(tripled, tmp_path / method, method=method, folds=folds)
            assert auroc > 0.98
            assert found > 0.9
        assert len(calls) == 2

    def test_the_command(self, tripled, tmp_path, done):
        table = pd.DataFrame(tripled["x"]).add_prefix("x").assign(label=tripled["y"], patient=tripled["patient"])
        table.to_csv(tmp_path / "data.csv", index=False)
        options = ("--group", "patient", "--epochs", 2, "--model", "mlp", "--threads", 1)
        done("fit", tmp_path / "data.csv", *options, "--out", tmp_path / "run")
        ranked = surelabel.audit(tmp_path / "run").columns["id"].astype(int)
        wrong = (tripled["clean"] != tripled["y"])[ranked]
        assert wrong[: wrong.sum()].mean() > 0.85
