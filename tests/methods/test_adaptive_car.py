"""Adaptive CAR: its posterior by hand, with and without a second opinion, and a run on digits."""

import math
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

import surelabel
from surelabel.core import Opinion
from surelabel.methods.adaptive_car import AdaptiveCAR, first_transition, fit_transition, log_odds

GIVEN = torch.tensor([0, 1, 2, 0])
P = torch.tensor([[0.5, 0.25, 0.25], [0.2, 0.2, 0.6], [0.1, 0.1, 0.8], [0.7, 0.2, 0.1]])
X = F.pad(P.log(), (0, 1))
OPINION = Opinion(
    probability=torch.tensor([[0.8, 0.1, 0.1], [0.1, 0.1, 0.8], [0.2, 0.2, 0.6], [0.3, 0.3, 0.4]]),
    transition=torch.tensor([[0.8, 0.1, 0.1], [0.2, 0.7, 0.1], [0.05, 0.15, 0.8]]),
)


@pytest.fixture
def make(make_task):
    def make(opinion=OPINION, trusted=None, **options):
        return AdaptiveCAR(replace(make_task(GIVEN), opinion=lambda: opinion, trusted=trusted), **options)

    return make


def posterior(evidence, transition):
    """Bayes' rule, as the docstring of the method states it."""
    joint = evidence * transition[:, GIVEN].T
    return joint / joint.sum(1, keepdim=True)


class TestTargets:
    def test_are_the_second_opinion_and_the_label_before_training(self, make, make_run):
        method = make()
        run = make_run(X, GIVEN)
        method.prepare(run)
        expected = posterior(OPINION.probability, OPINION.transition)
        torch.testing.assert_close(method.target.whole(), expected)
        # The label of row 1 is doubted: class 2 explains the input better, and label 1 well enough.
        assert expected[1].argmax() == 2
        assert run.notes["wrong_labels"] == pytest.approx(1 - expected[range(4), GIVEN].mean().item())

    def test_a_visit_adds_the_mean_prediction(self, make, make_run, make_batch, make_clock):
        method = make(evidence=2.0)
        method.prepare(make_run(X, GIVEN))
        loss = method.step(make_batch(X, GIVEN), make_clock(1)).terms["cross_entropy"]
        mean = (P + 1 / 3) / 2  # the uniform start counts as one visit
        expected = posterior(OPINION.probability * mean**2, OPINION.transition)
        torch.testing.assert_close(method.target.whole(), expected)
        assert loss.item() == pytest.approx(-(expected * P.log()).sum(1).mean().item(), rel=1e-5)
        method.step(make_batch(X, GIVEN), make_clock(2))
        mean = (2 * P + 1 / 3) / 3
        torch.testing.assert_close(method.target.whole(), posterior(OPINION.probability * mean**2, OPINION.transition))

    def test_the_weight_of_training_is_the_log_odds_of_the_second_opinion(self, make, make_run):
        method, run = make(), make_run(X, GIVEN)
        method.prepare(run)
        right = (0.8 + 0.8 + 0.6 + 0.4) / 4
        assert run.notes["evidence_weight"] == pytest.approx(math.log(right / (1 - right)), rel=1e-6)

    def test_of_confirmed_labels_stay(self, make, make_run, make_batch, make_clock):
        trusted = torch.tensor([False, True, False, False])
        method = make(trusted=trusted)
        method.target.freeze(trusted, F.one_hot(GIVEN, 3).float())  # as the engine does
        method.prepare(make_run(X, GIVEN))
        method.step(make_batch(X, GIVEN), make_clock(1))
        assert method.target.whole()[1].tolist() == [0, 1, 0]

    def test_rest_on_training_without_a_second_opinion(self, make, make_run, make_batch, make_clock):
        for method in (make(opinion=None), make(second_opinion=False)):
            method.prepare(make_run(X, GIVEN))
            assert torch.equal(method.target.whole(), F.one_hot(GIVEN, 3).float())
            method.step(make_batch(X, GIVEN), make_clock(1))
            mean = (P + 1 / 3) / 2
            expected = posterior(mean**2, first_transition(3))
            torch.testing.assert_close(method.target.whole(), expected)
            method.prepare(make_run(X, GIVEN, epoch=2))
            torch.testing.assert_close(method.transition, fit_transition([(expected, GIVEN)]))

    def test_are_asked_for_once(self, make, make_run):
        method = make()
        method.prepare(make_run(X, GIVEN))
        later = make(opinion=None)
        later.load_state_dict(method.state_dict())
        later.prepare(make_run(X, GIVEN, epoch=2))
        torch.testing.assert_close(later.target.whole(), method.target.whole())
        torch.testing.assert_close(later.transition, OPINION.transition)


def test_the_verdict_is_the_running_mean_and_tau_is_evidence(make, make_run, verdict_of):
    method = make()
    method.prepare(make_run(X, GIVEN))
    verdict = verdict_of(method, X, GIVEN, seen=torch.tensor([0.9, 0.1, 0.8, 0.7]))
    target = posterior(OPINION.probability, OPINION.transition)
    torch.testing.assert_close(verdict.corrected, target)
    torch.testing.assert_close(verdict.evidence["tau"], target[range(4), GIVEN])
    assert verdict.quality.tolist() == pytest.approx([0.9, 0.1, 0.8, 0.7])


def test_the_fitted_transition_by_hand():
    """Two rows of class 0 of which one has label 1, and five rows at 20 % noise for each class."""
    target = torch.tensor([[1.0, 0.0], [1.0, 0.0]])
    found = fit_transition([(target, torch.tensor([0, 1]))])
    expected = torch.tensor([[(1 + 4) / 7, (1 + 1) / 7], [0.2, 0.8]])
    torch.testing.assert_close(found, expected)


def test_predictions_at_chance_add_nothing():
    assert log_odds(torch.full((5,), 0.1)) == 0.0
    assert math.isfinite(log_odds(torch.ones(3)))


@pytest.mark.training
def test_finds_wrong_labels_that_cross_entropy_memorises(tmp_path):
    """On digits with 40 % wrong labels, through the public call."""
    settings = {
        "data": {"source": "digits"},
        "noise": {"kind": "symmetric", "rate": 0.4},
        "model": {"name": "mlp", "options": {"widths": [256]}},
        "train": {"epochs": 40, "batch_size": 64, "second_opinion": False, "evaluate_every": 40},
    }
    right = {}
    for name in ("cross_entropy", "adaptive_car"):
        run = surelabel.fit({**settings, "method": name}, tmp_path / name)
        right[name] = surelabel.audit(run).measures()["suggested_accuracy"]
    assert right["cross_entropy"] < 0.75
    assert right["adaptive_car"] > 0.93
