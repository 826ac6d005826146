"""Algorithm 1 of the paper, step by step, and the verdict that we add to it."""

import math
import re
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

import surelabel
from surelabel.config import CosineRestarts, OptimiserConfig
from surelabel.core import Clock, Task
from surelabel.engine.optim import rate_at
from surelabel.methods._targets import MomentumTargets
from surelabel.methods.car import CAR, car_terms, default_penalty_weight

GIVEN = torch.tensor([0, 1, 2, 2])
ONE_HOT = F.one_hot(GIVEN, 3).float()
# Logits of three classes and h: tau is 0.5, 0.75, 0.9 and 0.95.
X = torch.tensor(
    [
        [1.0, 0.0, -1.0, 0.0],
        [2.0, 0.5, 0.0, math.log(3)],
        [0.0, 0.0, 3.0, math.log(9)],
        [1.0, 2.0, 0.5, math.log(19)],
    ]
)
P = X[:, :3].softmax(1)


def current(method):
    """The table that the loss aims at now, or None."""
    return next((table.store for table in method.target_tables() if table.is_current), None)


@pytest.fixture
def make_car(make_task):
    def make(epochs=20, restart_period=1, **options):
        return CAR(make_task(GIVEN, epochs=epochs, restart_period=restart_period), **options)

    return make


@pytest.fixture
def train(make_batch, make_clock):
    """One step on the rows at `index`, by default all of them."""

    def step(method, epoch, index=(0, 1, 2, 3), x=X):
        index = torch.tensor(index)
        return method.step(make_batch(x[index], GIVEN[index], index), make_clock(epoch))

    return step


class TestTargets:
    def test_start_as_the_given_labels(self, make_car):
        assert torch.equal(current(make_car()).whole(), ONE_HOT)

    def test_do_not_change_before_the_start(self, make_car, train):
        method = make_car(correction_start=4)
        for epoch in (1, 2, 3):
            train(method, epoch)
        assert torch.equal(current(method).whole(), ONE_HOT)

    def test_blend_with_p_from_the_start_on(self, make_car, train):
        method = make_car(correction_start=4, momentum=0.75)
        train(method, 4)
        assert torch.allclose(current(method).whole(), 0.75 * ONE_HOT + 0.25 * P)
        train(method, 5)
        assert torch.allclose(current(method).whole(), 0.75 * (0.75 * ONE_HOT + 0.25 * P) + 0.25 * P)

    def test_only_of_rows_in_the_batch(self, make_car, train):
        method = make_car(correction_start=1, momentum=0.5)
        train(method, 1, index=(3, 0))
        expected = ONE_HOT.clone()
        expected[[0, 3]] = 0.5 * ONE_HOT[[0, 3]] + 0.5 * P[[0, 3]]
        assert torch.allclose(current(method).whole(), expected)

    def test_of_rows_below_the_threshold_are_kept(self, make_car, train):
        method = make_car(correction_start=1, momentum=0.5, threshold=0.8)
        train(method, 1)
        blended = 0.5 * ONE_HOT + 0.5 * P
        assert torch.equal(current(method).whole()[:2], ONE_HOT[:2])
        assert torch.allclose(current(method).whole()[2:], blended[2:])

    def test_a_tau_equal_to_the_threshold_is_enough(self, make_car, train):
        method = make_car(correction_start=1, momentum=0.5, threshold=0.5)
        train(method, 1)
        assert torch.allclose(current(method).whole()[0], 0.5 * ONE_HOT[0] + 0.5 * P[0])

    def test_keep_the_floor_of_the_authors_code_and_are_not_renormalised(self, make_car, train):
        method = make_car(correction_start=2, momentum=0.5, target_floor=0.1, threshold=0.6)
        assert torch.equal(current(method).whole(), ONE_HOT.clamp(min=0.1))
        train(method, 1)
        train(method, 2)
        expected = (0.5 * ONE_HOT.clamp(min=0.1) + 0.5 * P).clamp(min=0.1)
        assert torch.allclose(current(method).whole()[1:], expected[1:])
        assert torch.equal(current(method).whole()[0], ONE_HOT[0].clamp(min=0.1))  # its tau is 0.5
        assert (current(method).whole().sum(1) > 1).all()

    def test_padding_changes_nothing(self, make_car, make_batch, make_clock):
        method = make_car(correction_start=1)
        index, weight = torch.tensor([-1, -1]), torch.zeros(2)
        step = method.step(make_batch(X[:2], GIVEN[:2], index, weight), make_clock(1))
        assert torch.equal(current(method).whole(), ONE_HOT)
        assert [term.item() for term in step.terms.values()] == [0, 0]


class TestLoss:
    def test_uses_the_target_after_its_update(self, make_car, train):
        method = make_car(correction_start=1, momentum=0.75, penalty_weight=2.0, reverse_weight=0.5, log_zero=-3.0)
        terms = train(method, 1).terms
        target = 0.75 * ONE_HOT + 0.25 * P
        q = (tau := X[:, 3:].sigmoid()) * (P - target) + target
        assert terms["cace"].item() == pytest.approx(-(target * q.log()).sum(1).mean().item(), rel=1e-5)
        assert terms["penalty"].item() == pytest.approx(-2 * tau.log().mean().item(), rel=1e-5)
        reverse = -(q * target.log().clamp(min=-3)).sum(1).mean().item()
        assert terms["reverse"].item() == pytest.approx(0.5 * reverse, rel=1e-5)
        before = car_terms(X[:, :3], X[:, 3], ONE_HOT).cace.mean().item()
        assert abs(terms["cace"].item() - before) > 0.05

    @pytest.mark.parametrize("targets", ["car", "none", "temporal_ensembling"])
    def test_clamps_one_hot_targets_with_the_floor_of_the_authors_code(self, targets, make_car, train):
        terms = train(make_car(correction_start=9, target_floor=1e-2, targets=targets), 1).terms
        expected = car_terms(X[:, :3], X[:, 3], ONE_HOT.clamp(min=1e-2)).cace.mean().item()
        assert terms["cace"].item() == pytest.approx(expected)
        assert terms["cace"].item() > 1.001 * car_terms(X[:, :3], X[:, 3], ONE_HOT).cace.mean().item()

    def test_before_the_start_is_on_the_given_labels(self, make_car, train):
        terms = train(make_car(correction_start=5), 4).terms
        assert terms["cace"].item() == pytest.approx(car_terms(X[:, :3], X[:, 3], ONE_HOT).cace.mean().item())

    def test_reverse_is_left_out_when_it_weighs_nothing(self, make_car, train):
        assert list(train(make_car(), 1).terms) == ["cace", "penalty"]

    def test_no_gradient_flows_through_the_target(self, make_car, make_batch, make_clock):
        method = make_car(correction_start=1, momentum=0.0)
        x = X.clone().requires_grad_()
        step = method.step(make_batch(x, GIVEN), make_clock(1))
        (grad,) = torch.autograd.grad(sum(step.terms.values()), x)
        free = X.clone().requires_grad_()
        cace, penalty, _ = car_terms(free[:, :3], free[:, 3], P)
        (expected,) = torch.autograd.grad((cace + method.penalty_weight * penalty).mean(), free)
        assert torch.allclose(grad, expected, atol=1e-6)

    def test_says_what_it_saw(self, make_car, train):
        seen = train(make_car(), 1).seen
        assert torch.equal(seen, X[:, :3])
        assert not seen.requires_grad

    def test_tau_is_kept_as_evidence(self, make_car, train, verdict_of):
        method = make_car()
        assert verdict_of(method, X, GIVEN).evidence["tau"].isnan().all()
        train(method, 1, index=(1, 3))
        tau = verdict_of(method, X, GIVEN).evidence["tau"]
        assert torch.allclose(tau[[1, 3]], torch.tensor([0.75, 0.95]))
        assert tau[[0, 2]].isnan().all()


class TestRestarts:
    def test_targets_change_in_the_last_epoch_of_a_period_only(self, make_car, train):
        method = make_car(epochs=40, restart_period=10, correction_start=5, momentum=0.5)
        changed = []
        for epoch in range(1, 41):
            before = current(method).whole()
            train(method, epoch)
            if not torch.equal(before, current(method).whole()):
                changed.append(epoch)
        assert changed == [10, 20, 30, 40]

    def test_not_before_the_start(self, make_car):
        method = make_car(epochs=40, restart_period=10, correction_start=11)
        assert [epoch for epoch in range(1, 41) if method.target.is_due(epoch)] == [20, 30, 40]

    @pytest.mark.parametrize(("epochs", "period", "first", "last"), [(500, 10, 60, 500), (200, 1, 24, 68)])
    def test_a_row_is_updated_as_often_as_in_the_paper(self, make_car, epochs, period, first, last):
        method = make_car(epochs=epochs, restart_period=period)
        due = [epoch for epoch in range(1, epochs + 1) if method.target.is_due(epoch)]
        assert (len(due), due[0], due[-1]) == (45, first, last)

    @pytest.mark.parametrize("period", [1, 2, 7, 10])
    def test_that_is_where_the_rate_is_lowest(self, make_car, period):
        method = make_car(epochs=3 * period, restart_period=period, correction_start=1)
        config = OptimiserConfig(rate=0.02, schedule=CosineRestarts(period=period, min_rate=0.001))
        assert config.rate_period == period
        rates = {
            epoch: rate_at(config, Clock("train", epoch, 3 * period, 0, 5, 0.0)) for epoch in range(1, 3 * period + 1)
        }
        due = [epoch for epoch in rates if method.target.is_due(epoch)]
        assert len(due) == 3
        for last in due:
            within = {epoch: rates[epoch] for epoch in range(last - period + 1, last + 1)}
            assert min(within, key=within.get) == last


class TestStrategies:
    def test_none_keeps_the_given_labels_and_no_table(self, make_car, train):
        method = make_car(targets="none", correction_start=1)
        terms = train(method, 20).terms
        assert terms["cace"].item() == pytest.approx(car_terms(X[:, :3], X[:, 3], ONE_HOT).cace.mean().item())
        assert current(method) is None
        assert not [name for name in method.state_dict() if name.startswith("target")]

    def test_temporal_ensembling_by_hand(self, make_car, train):
        method = make_car(targets="temporal_ensembling", correction_start=3, momentum=0.75)
        other = X.flip(0)
        p, q = P, P.flip(0)
        first = train(method, 1).terms
        assert current(method) is None, "the loss still aims at the given labels"
        assert torch.allclose(method.target.table.whole(), 0.25 * p)
        assert first["cace"].item() == pytest.approx(car_terms(X[:, :3], X[:, 3], ONE_HOT).cace.mean().item())
        train(method, 2, x=other)
        z = 0.75 * 0.25 * p + 0.25 * q
        assert torch.allclose(method.target.table.whole(), z)
        third = train(method, 3).terms
        z = 0.75 * z + 0.25 * p
        target = z / z.sum(1, keepdim=True)
        assert torch.allclose(current(method).whole(), z)
        assert third["cace"].item() == pytest.approx(car_terms(X[:, :3], X[:, 3], target).cace.mean().item(), rel=1e-5)

    def test_an_ensemble_of_equal_predictions_is_that_prediction(self, make_car, train, verdict_of):
        method = make_car(targets="temporal_ensembling", correction_start=1, momentum=0.9)
        for epoch in range(1, 6):
            train(method, epoch)
        assert torch.allclose(verdict_of(method, X, GIVEN).corrected, P, atol=1e-6)


class TestMaxProbability:
    def test_there_is_no_indicator(self, make_car):
        assert make_car(confidence="max_probability").network.indicator is None
        assert make_car().network.indicator is not None

    def test_tau_is_the_largest_p_and_stays_in_the_graph(self, make_car, make_batch, make_clock, verdict_of):
        method = make_car(confidence="max_probability", penalty_weight=2.0)
        x = X.clone().requires_grad_()
        terms = method.step(make_batch(x, GIVEN), make_clock(1)).terms
        top = P.amax(1)
        assert terms["penalty"].item() == pytest.approx(-2 * top.log().mean().item(), rel=1e-5)
        (grad,) = torch.autograd.grad(terms["penalty"], x)
        expected = 2 * (P - F.one_hot(P.argmax(1), 3)) / 4
        assert torch.allclose(grad[:, :3], expected, atol=1e-6)
        assert torch.equal(verdict_of(method, X, GIVEN).evidence["tau"], top)
        assert torch.equal(method.tau(X), top)

    def test_the_threshold_is_on_the_largest_p(self, make_car, train):
        method = make_car(confidence="max_probability", threshold=0.8, momentum=0.5, correction_start=1)
        train(method, 1)
        changed = (current(method).whole() != ONE_HOT).any(1)
        assert changed.tolist() == (P.amax(1) >= 0.8).tolist() == [False, False, True, False]


def test_confidence_of_inputs_is_tau(make_car):
    assert torch.allclose(make_car().tau(X), torch.tensor([0.5, 0.75, 0.9, 0.95]))


class TestDefaults:
    @pytest.mark.parametrize(("epochs", "start"), [(500, 60), (200, 24), (40, 5), (1, 1)])
    def test_correction_starts_at_the_published_share(self, make_car, epochs, start):
        assert make_car(epochs=epochs).target.start == start

    @pytest.mark.parametrize(("classes", "weight"), [(2, 0.5), (6, 0.5), (10, 0.9), (101, 10.0)])
    def test_penalty_weight_by_rule(self, classes, weight):
        assert default_penalty_weight(classes) == pytest.approx(weight)
        assert default_penalty_weight(classes) / (classes - 1) >= 0.1 - 1e-9

    def test_the_rule_is_used(self, make_task):
        assert CAR(make_task(GIVEN, num_classes=11)).penalty_weight == pytest.approx(1.0)
        assert CAR(make_task(GIVEN), penalty_weight=50.0).penalty_weight == 50

    def test_hint_at_chance_names_the_penalty_weight_and_a_larger_one(self, make_task):
        hint = CAR(make_task(GIVEN, num_classes=11), penalty_weight=0.5).advice("chance")[0]
        assert "penalty_weight=0.5 damps gradients to Q0=0.05" in hint
        assert float(re.search(r"try penalty_weight=(\S+)", hint)[1]) == 2.5


def estimation(epochs: int, period: int = 1, start: int | None = None, momentum: float = 0.9) -> MomentumTargets:
    task = Task(3, 4, GIVEN, epochs, SimpleNamespace, restart_period=period)
    return MomentumTargets(task, task.epochs_of(60 / 500) if start is None else start, momentum, threshold=0.0)


class TestWarnings:
    @pytest.mark.parametrize("epochs", [200, 500])
    @pytest.mark.parametrize("period", [1, 10])
    def test_defaults_give_none(self, make_car, epochs, period):
        assert make_car(epochs=epochs, restart_period=period).advice("settings") == []

    def test_a_start_beyond_the_last_epoch(self, make_car):
        (text,) = make_car(epochs=50, correction_start=51).advice("settings")
        assert "can never correct a label: 0 target update(s) in 50 epochs" in text
        assert text.endswith("use correction_start=6")
        assert "\n" not in text

    def test_too_few_updates_for_the_momentum(self, make_car):
        (text,) = make_car(epochs=50, correction_start=45).advice("settings")
        assert "6 target update(s)" in text
        assert 0.9**6 > 0.5 >= 0.9**7
        assert make_car(epochs=50, correction_start=44).advice("settings") == []

    def test_other_strategies_have_none(self, make_car):
        assert make_car(epochs=5, correction_start=9, targets="none").advice("settings") == []
        assert make_car(epochs=5, correction_start=5, targets="temporal_ensembling").advice("settings") == []

    def test_an_ensemble_that_never_becomes_the_target(self, make_car):
        (text,) = make_car(epochs=5, correction_start=9, targets="temporal_ensembling").advice("settings")
        assert "never correct" in text
        start = int(re.search(r"use correction_start=(\d+)", text)[1])
        assert make_car(epochs=5, correction_start=start, targets="temporal_ensembling").advice("settings") == []

    def test_a_period_longer_than_the_run(self, make_car):
        (text,) = make_car(epochs=5, restart_period=10).advice("settings")
        assert "0 target update(s) in 5 epochs" in text
        assert "without restarts" in text

    @settings(deadline=None, max_examples=300)
    @given(
        epochs=st.integers(1, 600),
        period=st.sampled_from([1, 2, 3, 10, 40]),
        start=st.none() | st.integers(1, 700),
        momentum=st.floats(0, 0.999),
    )
    def test_the_advised_values_give_none(self, epochs, period, start, momentum):
        for text in estimation(epochs, period, start, momentum).advice():
            advice = text.partition("; use ")[2]
            better_start = int(re.search(r"correction_start=(\d+)", advice)[1])
            if found := re.search(r"momentum=([\d.]+)", advice):
                momentum = float(found[1])
            if "without restarts" in advice:
                period = 1
            assert estimation(epochs, period, better_start, momentum).advice() == []

    @settings(deadline=None, max_examples=200)
    @given(
        epochs=st.integers(1, 100),
        period=st.sampled_from([1, 3, 10]),
        start=st.integers(1, 120),
        momentum=st.floats(0, 0.999),
    )
    def test_are_given_exactly_when_labels_keep_more_than_half_of_their_weight(self, epochs, period, start, momentum):
        updates = [e for e in range(1, epochs + 1) if e >= start and e % period == 0]
        silent = bool(updates) and momentum ** len(updates) <= 0.5
        assert (estimation(epochs, period, start, momentum).advice() == []) == silent


class TestVerdict:
    SEEN = torch.tensor([0.9, 0.2, 0.6, 0.4])

    def test_a_row_never_blended_falls_back_to_the_running_mean(self, make_car, verdict_of):
        method = make_car(correction_start=10)
        assert torch.allclose(verdict_of(method, X, GIVEN, self.SEEN).quality, self.SEEN)

    def test_a_row_below_the_threshold_falls_back_too(self, make_car, train, verdict_of):
        method = make_car(correction_start=1, threshold=0.8, momentum=0.5)
        train(method, 1)
        quality = verdict_of(method, X, GIVEN, self.SEEN).quality
        assert torch.allclose(quality[:2], self.SEEN[:2])
        assert not torch.allclose(quality[2:], self.SEEN[2:])

    def test_two_updates_by_hand(self, make_car, train, verdict_of):
        method = make_car(correction_start=1, momentum=0.75)
        train(method, 1)
        train(method, 2, index=(0, 3))
        quality = verdict_of(method, X, GIVEN, self.SEEN).quality
        at_given = P[torch.arange(4), GIVEN]
        for row, count in enumerate([2, 1, 1, 2]):
            share = 0.75**count
            supported = share * self.SEEN[row] + (1 - share) * at_given[row]
            assert quality[row].item() == pytest.approx((supported + self.SEEN[row]).item() / 2, abs=1e-6)

    def test_none_is_the_running_mean(self, make_car, verdict_of):
        quality = verdict_of(make_car(targets="none"), X, GIVEN, self.SEEN).quality
        assert torch.equal(quality, self.SEEN)

    def test_corrected_labels_by_hand(self, make_car, train, verdict_of):
        method = make_car(correction_start=1, momentum=0.75)
        train(method, 1, x=X.flip(0))
        corrected = verdict_of(method, X, GIVEN, self.SEEN).corrected
        assert torch.allclose(corrected, 0.75 * P + 0.25 * P.flip(0), atol=1e-6)

    def test_never_blended_rows_are_corrected_to_the_prediction(self, make_car, verdict_of):
        corrected = verdict_of(make_car(correction_start=10), X, GIVEN, self.SEEN).corrected
        assert torch.allclose(corrected, P)

    @pytest.mark.parametrize("targets", ["car", "none", "temporal_ensembling"])
    def test_corrected_rows_sum_to_one_and_quality_is_a_share(self, make_car, train, verdict_of, targets):
        method = make_car(targets=targets, correction_start=2, threshold=0.6, momentum=0.7)
        for epoch in (1, 2, 3):
            train(method, epoch, index=(0, 1, 2))
        verdict = verdict_of(method, X, GIVEN, self.SEEN)
        corrected, quality = verdict.corrected, verdict.quality
        assert torch.allclose(corrected.sum(1), torch.ones(4))
        assert bool((corrected >= 0).all())
        assert bool(((quality >= 0) & (quality <= 1)).all())

    def test_rows_that_an_ensemble_never_saw_fall_back(self, make_car, train, verdict_of):
        method = make_car(targets="temporal_ensembling", correction_start=1)
        train(method, 1, index=(0, 1))
        verdict = verdict_of(method, X, GIVEN, self.SEEN)
        assert torch.allclose(verdict.quality[2:], self.SEEN[2:])
        assert torch.allclose(verdict.corrected[2:], P[2:])
        assert torch.allclose(verdict.corrected[:2], P[:2])


def test_state_survives_a_restart(make_car, train, verdict_of):
    before, after = make_car(correction_start=1, momentum=0.5), make_car(correction_start=1, momentum=0.5)
    train(before, 1, index=(0, 2))
    after.load_state_dict(before.state_dict())
    verdicts = [verdict_of(method, X, GIVEN, TestVerdict.SEEN) for method in (before, after)]
    assert torch.equal(current(after).whole(), current(before).whole())
    assert torch.equal(verdicts[1].quality, verdicts[0].quality)


def test_the_docstring_names_the_authors_code_and_where_it_differs():
    from surelabel.methods import car

    assert "no public code" not in car.__doc__
    for fact in ("MacLLL/NAL", "NeurIPS 2022", "ln 1e-4 = -9.21", "tau > delta", "every 10th epoch"):
        assert fact in car.__doc__


@pytest.mark.training
@pytest.mark.parametrize(("weight_decay", "widths", "batch_size"), [(0.02, [64], 16), (0.03, [64, 64], 32)])
def test_strong_weight_decay_loses_no_class(tmp_path, weight_decay, widths, batch_size):
    rng = np.random.default_rng(10)
    y = np.arange(200) % 5
    x = (1.1 * rng.normal(size=(5, 32))[y] + 1.5 * rng.normal(size=(200, 32))).astype(np.float32)
    labels = np.where(rng.random(200) < 0.4, rng.integers(0, 5, 200), y)
    model = {"model.name": "mlp", "model.widths": widths, "optimiser.weight_decay": weight_decay}
    how = {"train.batch_size": batch_size, "train.threads": 1, "train.second_opinion": False}
    run = surelabel.fit((x, labels), tmp_path / "run", epochs=150, settings=model | how)
    fitted = [row["given_accuracy"] for row in run.metrics()]
    assert set(surelabel.load(run).predict(x)) == set("01234")
    assert fitted[-1] > 0.9 * max(fitted)
