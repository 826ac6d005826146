"""Networks that judge the rows they were not trained on."""

import json

import numpy as np
import pyarrow.parquet as pq
import pytest
from sklearn.datasets import load_digits
from tests.conftest import write_blobs

import surelabel
from surelabel.api import Interrupted, make_config
from surelabel.console import ProgressLines
from surelabel.errors import ConfigError, RunError
from surelabel.training import build, folds
from surelabel.training.cost_estimate import plan

SETTINGS = {
    "train.epochs": 2,
    "train.threads": 1,
    "train.device": "cpu",
    "train.folds": 3,
    "model": {"name": "mlp", "options": {"widths": [16]}},
}
NUM_CLASSES = 3

MEMORISER = '''
import torch
from surelabel.core import Method, Step
from surelabel.losses import cross_entropy


class Memoriser(Method):
    """Knows the label of every input that it was trained on, and nothing of others."""

    def __init__(self, task):
        super().__init__(task)
        self.network, self.seen, self.num_classes = task.network(), {}, task.num_classes

    def step(self, batch, _clock):
        self.seen |= {x.numpy().tobytes(): int(label) for x, label in zip(batch.x, batch.label)}
        logits = self.network(batch.x).logits
        return Step({"loss": batch.mean(cross_entropy(logits, batch.label))}, seen=logits.detach())

    def predict(self, x):
        found = torch.full((len(x), self.num_classes), 1 / self.num_classes)
        for row, one in enumerate(x):
            if one.numpy().tobytes() in self.seen:
                found[row] = 1e-3
                found[row, self.seen[one.numpy().tobytes()]] = 1 - 2e-3
        return found
'''


@pytest.fixture
def data(tmp_path):
    return write_blobs(tmp_path / "blobs.npz", num_samples=90)


@pytest.fixture
def memoriser(tmp_path, monkeypatch):
    package = tmp_path / "stand_ins"
    package.mkdir()
    (package / "memoriser.py").write_text(MEMORISER)
    monkeypatch.syspath_prepend(str(tmp_path))
    return "stand_ins.memoriser"


def expert_of(run):
    [expert] = [one for one in run.second_opinion()["experts"] if one["name"] == folds.EXPERT]
    return expert


class TestLeftOut:
    """A memoriser would predict every given label that it has seen: a loss near 0."""

    chance = np.log(NUM_CLASSES)

    def test_no_network_saw_the_label_that_it_judges(self, data, memoriser, tmp_path):
        settings = {**SETTINGS, "method": memoriser, "data.validation_fraction": 0.2}
        run = surelabel.fit(data, tmp_path / "run", settings=settings)
        assert expert_of(run)["loss"] == pytest.approx(self.chance, abs=0.02)

    def test_this_would_be_noticed(self, data, memoriser, tmp_path, monkeypatch):
        train_fold = folds._train_fold
        monkeypatch.setattr(folds, "_train_fold", lambda setup, number, _, run: train_fold(setup, number, ALL, run))
        run = surelabel.fit(data, tmp_path / "run", settings={**SETTINGS, "method": memoriser})
        assert expert_of(run)["loss"] < 0.1

    def test_confirmed_rows_are_trained_on_and_not_judged(self, data, memoriser, tmp_path):
        confirmed = tmp_path / "trusted.csv"
        confirmed.write_text("id\n" + "".join(f"{row}\n" for row in range(45)))
        settings = {**SETTINGS, "method": memoriser, "data.trusted": str(confirmed)}
        run = surelabel.fit(data, tmp_path / "run", settings=settings)
        assert expert_of(run)["loss"] == pytest.approx(self.chance, abs=0.05)
        corpus, _ = build.corpus(run.config().data, None, 0)
        fold_of = folds.assign_folds(corpus, 3, seed=0)
        assert (fold_of[:45] == folds.ALWAYS_TRAINED_ON).all()
        assert np.bincount(fold_of[45:]).tolist() == [15, 15, 15]

    def test_each_fold_has_its_share_of_every_label(self, data):
        corpus, _ = build.corpus(make_config(data).data, None, 0)
        fold_of, label = folds.assign_folds(corpus, 4, seed=5), corpus.train.label.numpy()
        counts = np.array([np.bincount(label[fold_of == fold], minlength=NUM_CLASSES) for fold in range(4)])
        assert np.ptp(counts, axis=0).max() <= 1
        assert np.ptp(counts.sum(1)) <= 1
        assert (folds.assign_folds(corpus, 4, seed=6) != fold_of).any()


ALL = np.arange(90)


STOPPED = {**SETTINGS, "data.validation_fraction": 0.1, "train.batch_size": 20}
"""The run has 8 to 10 steps, and each of its three folds 6."""


class TestResume:
    @pytest.fixture
    def whole(self, data, tmp_path):
        return surelabel.fit(data, tmp_path / "whole", settings=STOPPED)

    @pytest.mark.parametrize("stop_after", [[7], [13], [12, 3], [10, 10]])
    def test_an_interrupted_run_ends_like_another(self, whole, data, tmp_path, stop_after):
        first, *later = stop_after
        with pytest.raises(Interrupted):
            surelabel.fit(data, tmp_path / "run", settings=STOPPED, interrupt=stopping(first))
        for more in later:
            with pytest.raises(Interrupted):
                surelabel.resume(tmp_path / "run", interrupt=stopping(more))
        run = surelabel.resume(tmp_path / "run")
        assert run.is_done
        assert pq.read_table(run.path / "samples.parquet").equals(pq.read_table(whole.path / "samples.parquet"))
        assert run.second_opinion() == whole.second_opinion()
        assert {file.name for file in run.path.iterdir()} == {file.name for file in whole.path.iterdir()}

    @pytest.mark.parametrize("name", ["folds", "folds/1"])
    def test_a_fold_is_not_written_through_a_link(self, data, tmp_path, name):
        with pytest.raises(Interrupted):
            surelabel.fit(data, tmp_path / "run", settings=STOPPED, interrupt=stopping(3))
        (tmp_path / "victim").mkdir()
        link = tmp_path / "run" / name
        link.parent.mkdir(exist_ok=True)
        link.symlink_to(tmp_path / "victim")
        with pytest.raises(RunError, match=f"{name}: is a link to"):
            surelabel.resume(tmp_path / "run")
        assert list((tmp_path / "victim").iterdir()) == []

    def test_a_fold_that_has_ended_is_not_trained_again(self, data, tmp_path):
        with pytest.raises(Interrupted):
            surelabel.fit(data, tmp_path / "run", settings=STOPPED, interrupt=stopping(20))
        assert (tmp_path / "run" / "folds" / "1" / folds.PREDICTIONS).is_file()
        count = stopping(1000)
        surelabel.resume(tmp_path / "run", interrupt=count)
        assert count.steps <= 8
        assert not (tmp_path / "run" / "folds").exists()


@pytest.mark.parametrize("method", ["dividemix", "elr_plus", "forward", "incv", "noise_adaptation"])
def test_methods_with_several_stages_train_and_resume_folds(method, data, tmp_path):
    settings = {**SETTINGS, "method": method, "train.epochs": 4, "train.folds": 2, "train.batch_size": 30}
    count = stopping(0)
    whole = surelabel.fit(data, tmp_path / "whole", settings=settings, interrupt=count)
    with pytest.raises(Interrupted):
        surelabel.fit(data, tmp_path / "run", settings=settings, interrupt=stopping(count.steps - 2))
    assert (tmp_path / "run" / "folds" / "2" / "state.safetensors").is_file()
    run = surelabel.resume(tmp_path / "run")
    assert pq.read_table(run.path / "samples.parquet").equals(pq.read_table(whole.path / "samples.parquet"))
    assert run.second_opinion() == whole.second_opinion()


class stopping:  # noqa: N801 - it is called like a function
    """Asks to stop after this many steps."""

    def __init__(self, after):
        self.after, self.steps = after, 0

    def __call__(self):
        self.steps += 1
        return self.steps == self.after


def shifted_digits(num_rows=500, num_classes=4, side=12, rate=0.3):
    """Draw digits at random places: easy for convolutions, hard for kernels of pixels."""
    rng = np.random.default_rng(0)
    images, labels = load_digits(return_X_y=True)
    rows = rng.permutation(np.flatnonzero(labels < num_classes))[:num_rows]
    x, clean = np.zeros((num_rows, 1, side, side), np.float32), labels[rows]
    for row, image in enumerate(images[rows].reshape(-1, 8, 8) / 16):
        top, left = rng.integers(0, side - 7, 2)
        x[row, 0, top : top + 8, left : left + 8] = image
    given, wrong = clean.copy(), rng.choice(num_rows, int(rate * num_rows), replace=False)
    given[wrong] = (given[wrong] + rng.integers(1, num_classes, len(wrong))) % num_classes
    return {"x": x, "y": given, "clean": clean}


@pytest.mark.training
def test_the_verdict_gets_better_where_the_network_knows_more(tmp_path):
    data = shifted_digits()
    settings = {
        **SETTINGS,
        "train.epochs": 12,
        "train.batch_size": 32,
        "model": {"name": "cnn", "options": {"width": 12}},
    }
    without, with_folds = (
        surelabel.audit(surelabel.fit(data, tmp_path / str(number), settings={**settings, "train.folds": number}))
        for number in (0, 3)
    )
    before, after = (audit.measures() for audit in (without, with_folds))
    assert after["quality_auroc"] > before["quality_auroc"] + 0.01
    assert after["calibration_error"] < before["calibration_error"] + 0.01
    low, high = with_folds.noise_rate.interval
    assert low <= 0.3 <= high
    assert high - low < np.subtract(*without.noise_rate.interval[::-1])


def test_the_command_shows_every_fold_and_says_which_evidence_it_had(data, tmp_path, call):
    words = "--folds", 2, "--epochs", 1, "--device", "cpu", "--threads", 1
    result = call("fit", data, *words, "--out", tmp_path / "run")
    assert result.exit_code == 0
    assert [f"car, fold {number} of 2  epoch 1/1" in result.stderr for number in (1, 2)] == [True, True]
    experts = json.loads((tmp_path / "run" / "second_opinion.json").read_text())["experts"]
    assert [one["name"] for one in experts][-1] == "folds"


def test_parts_of_a_progress_have_their_own_epochs():
    lines = []
    whole = ProgressLines(lines.append, title="car")
    whole.begin(3, 0)
    part = whole.part("fold 1 of 2")
    part.begin(1, 0)
    part.epoch({"epoch": 1, "loss": 1.0, "samples_per_second": 1})
    assert lines[0].startswith("car, fold 1 of 2  epoch 1/1")
    assert (whole.title, whole.num_epochs) == ("car", 3)


@pytest.mark.parametrize(
    ("settings", "allowed"), [({"train.folds": 1}, "0, or from 2 to 20"), ({"train.folds": 21}, "20")]
)
def test_other_numbers_of_folds_are_refused(data, settings, allowed):
    with pytest.raises(ConfigError, match=rf"train\.folds: .*{allowed}"):
        make_config(data, settings)


def test_without_a_second_opinion_there_are_none(data, tmp_path):
    settings = {**SETTINGS, "train.second_opinion": False}
    count = stopping(0)
    run = surelabel.fit(data, tmp_path / "run", settings=settings, interrupt=count)
    assert count.steps == 2 * 2
    assert any("train.folds has no effect" in text for text in run.config().notices())


def test_weights_that_may_have_seen_the_labels_are_not_used(data, tmp_path):
    first = surelabel.fit(data, tmp_path / "first", settings={**SETTINGS, "train.folds": 0})
    cold, warm = (
        surelabel.fit(data, tmp_path / name, settings={**SETTINGS, "train.warm_start": start})
        for name, start in (("cold", None), ("warm", str(first.path)))
    )
    assert expert_of(warm)["loss"] == expert_of(cold)["loss"]
    assert any("train.warm_start" in text for text in warm.config().notices())
    assert not any("train.warm_start" in text for text in cold.config().notices())


def test_the_plan_counts_them(tmp_path, call):
    np.savez(tmp_path / "x.npz", x=np.random.default_rng(0).normal(size=(40, 3)), y=np.arange(40) % 2)
    settings = {"train.epochs": 3, "train.threads": 1, "train.device": "cpu"}
    for number, has_opinion, trainings in ((0, True, 1), (5, True, 5), (5, False, 1)):
        own = {**settings, "train.folds": number, "train.second_opinion": has_opinion}
        found = plan(make_config(tmp_path / "x.npz", own))
        training = found.total_seconds - found.other_seconds
        assert training == pytest.approx(trainings * found.epochs * found.batches * found.step_seconds)
    assert "then 4 folds" in call("plan", tmp_path / "x.npz", "--folds", 4, "--epochs", 1).stdout.replace("\n", " ")


def test_networks_of_folds_learn_the_labels_as_given(data, tmp_path, monkeypatch):
    given = np.load(data)["y"].tolist()
    lines = [f"{row},{(label + 1) % NUM_CLASSES},{label},model" for row, label in enumerate(given[:30])]
    (tmp_path / "cleaned.csv").write_text("\n".join(["id,label,given,decided_by", *lines]))
    learned = []

    class Spy(folds.Engine):
        def __init__(self, setup):
            rows = setup.corpus.train
            learned.append(dict(zip(map(int, rows.ids), rows.label.tolist(), strict=True)))
            super().__init__(setup)

    monkeypatch.setattr(folds, "Engine", Spy)
    surelabel.fit(data, tmp_path / "run", labels=tmp_path / "cleaned.csv", settings=SETTINGS)
    assert len(learned) == 3
    assert all(label == given[row] for fold in learned for row, label in fold.items())
