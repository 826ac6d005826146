"""Joint Optimization: the three terms, labels from recent predictions, two stages."""

import math

import pytest
import torch
import torch.nn.functional as F

from surelabel.methods.joint_optimization import JointOptimization, entropy, prior_divergence

GIVEN = torch.tensor([0, 1, 2, 0])
ONE_HOT = F.one_hot(GIVEN, 3).float()
P = torch.tensor([[0.5, 0.25, 0.25], [0.2, 0.2, 0.6], [0.1, 0.1, 0.8], [0.7, 0.2, 0.1]])
X = F.pad(P.log(), (0, 1))
UNIFORM = torch.full((3,), 1 / 3)


@pytest.fixture
def make(make_task):
    return lambda epochs=32, given=GIVEN, **options: JointOptimization(make_task(given, epochs=epochs), **options)


class TestTerms:
    def test_prior_divergence_by_hand(self):
        mean = P.mean(0)
        expected = sum(q * math.log(q / s) for q, s in zip([0.5, 0.25, 0.25], mean.tolist(), strict=True))
        prior = torch.tensor([0.5, 0.25, 0.25])
        assert prior_divergence(P.log(), torch.ones(4), prior).item() == pytest.approx(expected, abs=1e-6)

    def test_it_is_zero_at_the_prior_and_positive_elsewhere(self):
        assert prior_divergence(P.log(), torch.ones(4), P.mean(0)).item() == pytest.approx(0, abs=1e-6)
        assert prior_divergence(P.log(), torch.ones(4), UNIFORM).item() > 0.001

    def test_a_class_without_samples_or_predictions_is_finite(self):
        prior = torch.tensor([0.5, 0.5, 0.0])
        assert prior_divergence(P.log(), torch.ones(4), prior).isfinite()
        logits = torch.tensor([[500.0, 0, -500.0]], requires_grad=True)
        value = prior_divergence(logits, torch.ones(1), UNIFORM)
        (grad,) = torch.autograd.grad(value, logits)
        assert value.isfinite()
        assert bool(grad.isfinite().all())

    def test_padding_is_not_in_the_mean(self):
        weight = torch.tensor([1.0, 1, 0, 0])
        expected = prior_divergence(P[:2].log(), torch.ones(2), UNIFORM)
        assert torch.allclose(prior_divergence(P.log(), weight, UNIFORM), expected)

    def test_entropy(self):
        assert entropy(torch.zeros(1, 4)).item() == pytest.approx(math.log(4))
        assert entropy(torch.tensor([[300.0, 0, 0]])).item() == 0


class TestLabelStep:
    def test_by_hand(self, make, make_batch, make_clock):
        step = make().label_step(make_batch(X, GIVEN), make_clock(1))
        assert step.terms["cross_entropy"].item() == pytest.approx(F.nll_loss(P.log(), GIVEN).item(), rel=1e-5)
        divergence = (UNIFORM * (UNIFORM / P.mean(0)).log()).sum().item()
        assert step.terms["prior"].item() == pytest.approx(1.2 * divergence, rel=1e-4)
        assert step.terms["entropy"].item() == pytest.approx(-0.8 * (P * P.log()).sum(1).mean().item(), rel=1e-5)
        assert torch.equal(step.seen, X[:, :3])

    def test_without_the_two_terms_it_is_cross_entropy(self, make, make_batch, make_clock):
        method = make(prior_weight=0.0, entropy_weight=0.0)
        terms = method.label_step(make_batch(X, GIVEN), make_clock(1)).terms
        assert sum(terms.values()).item() == pytest.approx(F.nll_loss(P.log(), GIVEN).item(), rel=1e-5)


class TestLabels:
    def train(self, method, make_batch, make_clock, make_run, epochs, x=X):
        for epoch in epochs:
            method.plan(make_run(x, GIVEN, epoch=epoch))
            method.label_step(make_batch(x, GIVEN), make_clock(epoch))

    def test_stay_until_begin_is_over(self, make, make_batch, make_clock, make_run):
        method = make(begin=3, window=2)
        self.train(method, make_batch, make_clock, make_run, (1, 2, 3))
        assert torch.equal(method.target.whole(), ONE_HOT)
        method.plan(make_run(X, GIVEN, epoch=4))
        assert torch.allclose(method.target.whole(), P, atol=1e-6)

    def test_are_the_mean_over_the_window(self, make, make_batch, make_clock, make_run):
        method = make(begin=2, window=2)
        self.train(method, make_batch, make_clock, make_run, (1,))
        self.train(method, make_batch, make_clock, make_run, (2,), x=X.flip(0))
        method.plan(make_run(X, GIVEN, epoch=3))
        assert torch.allclose(method.target.whole(), (P + P.flip(0)) / 2, atol=1e-6)
        method.label_step(make_batch(X.flip(0), GIVEN), make_clock(3))
        method.plan(make_run(X, GIVEN, epoch=4))
        assert torch.allclose(method.target.whole(), P.flip(0), atol=1e-6), "the oldest has left the ring"

    def test_are_the_mean_over_visits_and_not_over_epochs(self, make, make_batch, make_clock, make_run):
        """Row 0 is seen in epochs 1, 4 and 7, row 1 in epoch 4, and the others never."""
        method = make(begin=7, window=2)
        for epoch, x, rows in ((1, X, [0]), (4, X.flip(0), [0, 1]), (7, X, [0])):
            index = torch.tensor(rows)
            method.label_step(make_batch(x[index], GIVEN[index], index), make_clock(epoch))
        method.plan(make_run(X, GIVEN, epoch=8))
        target = method.target.whole()
        assert torch.allclose(target[0], (P[0] + P[3]) / 2, atol=1e-6), "the last two visits"
        assert torch.allclose(target[1], P[2], atol=1e-6)
        assert torch.equal(target[2:], ONE_HOT[2:]), "without a visit a row keeps its label"

    def test_the_end_of_the_stage_counts_the_last_epoch(self, make, make_batch, make_clock, make_run, verdict_of):
        method = make(begin=1, window=1)
        self.train(method, make_batch, make_clock, make_run, (1,))
        method.stages()[0].then(make_run(X, GIVEN, epoch=1))
        assert torch.allclose(verdict_of(method, X, GIVEN).corrected, P, atol=1e-6)

    def test_the_second_stage_aims_at_them(self, make, make_batch, make_clock, make_run):
        method = make(begin=1, window=1)
        self.train(method, make_batch, make_clock, make_run, (1,), x=X.flip(0))
        method.update_labels(make_run(X, GIVEN, epoch=1))
        terms = method.step(make_batch(X, GIVEN), make_clock(1)).terms
        expected = -(P.flip(0) * P.log()).sum(1).mean().item()
        assert {name: value.item() for name, value in terms.items()} == pytest.approx(
            {"cross_entropy": expected}, rel=1e-5
        )

    def test_survive_a_restart(self, make, make_batch, make_clock, make_run):
        before, after = make(begin=4, window=2), make(begin=4, window=2)
        self.train(before, make_batch, make_clock, make_run, (1, 2, 3, 4))
        after.load_state_dict(before.state_dict())
        after.plan(make_run(X, GIVEN, epoch=5))
        assert torch.allclose(after.target.whole(), P, atol=1e-6)


class TestStages:
    @pytest.mark.parametrize(
        ("epochs", "lengths", "begin", "window"), [(320, [200, 120], 70, 10), (32, [20, 12], 7, 7), (2, [1, 1], 1, 1)]
    )
    def test_have_the_published_shares(self, make, epochs, lengths, begin, window):
        method = make(epochs=epochs)
        assert [stage.epochs for stage in method.stages()] == lengths
        assert [stage.reset for stage in method.stages()] == [None, "new"]
        assert (method.begin, len(method.recent)) == (begin, window)

    def test_one_epoch(self, make):
        assert [(stage.name, stage.epochs) for stage in make(epochs=1).stages()] == [("labels", 1)]

    def test_the_first_has_a_constant_rate_and_the_second_the_runs(self, make):
        first, second = make(rate=0.03).stages()
        assert (first.rate, first.weight_decay) == (0.03, 1e-4)
        assert (second.rate, second.weight_decay) == (None, None)


def test_prior_of_the_given_labels(make):
    assert make(prior="given").class_prior.tolist() == [0.5, 0.25, 0.25]
    assert make(given=torch.tensor([0, 0, 1, 0]), prior="given").class_prior.tolist() == [0.75, 0.25, 0]
    assert torch.allclose(make().class_prior, UNIFORM)
