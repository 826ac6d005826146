"""JoCoR: the joint loss, its symmetry, and the selection it makes for both networks."""

import math

import pytest
import torch
import torch.nn.functional as F

from surelabel.methods.jocor import JoCoR, joint_loss, symmetric_divergence

K = 2
GIVEN = torch.zeros(6, dtype=torch.long)
GENERATOR = torch.Generator().manual_seed(0)
FIRST, SECOND = 2 * torch.randn(2, 6, 3, generator=GENERATOR)
LABEL = torch.tensor([0, 1, 2, 0, 1, 2])


def inputs(first, second):
    """Return columns (z, 0, h) for each network."""
    first, second = torch.tensor(first), torch.tensor(second)
    zero = torch.zeros_like(first)
    return torch.stack([first, zero, zero, second, zero, zero], 1)


@pytest.fixture
def make(make_task):
    def method(given=GIVEN, epochs=200, **options):
        return JoCoR(make_task(given, K, epochs, num_networks=2), **options)

    return method


class TestJointLoss:
    def test_by_hand(self):
        # p1 = (3/4, 1/4), p2 = (1/2, 1/2), label 0.
        first, second = torch.tensor([[math.log(3), 0.0]]), torch.zeros(1, 2)
        divergence = (3 / 4 - 1 / 2) * math.log(3 / 2) + (1 / 4 - 1 / 2) * math.log(1 / 2)
        expected = 0.1 * (-math.log(3 / 4) - math.log(1 / 2)) + 0.9 * divergence
        assert symmetric_divergence(first, second).item() == pytest.approx(divergence, rel=1e-5)
        assert joint_loss(first, second, torch.tensor([0]), 0.9).item() == pytest.approx(expected, rel=1e-5)

    def test_divergence_is_the_sum_of_both_directions(self):
        p1, p2 = FIRST.log_softmax(1), SECOND.log_softmax(1)
        both = [F.kl_div(q, p, reduction="none", log_target=True).sum(1) for p, q in ((p1, p2), (p2, p1))]
        assert torch.allclose(symmetric_divergence(FIRST, SECOND), both[0] + both[1], atol=1e-6)

    def test_is_symmetric_in_the_networks(self):
        assert torch.allclose(joint_loss(FIRST, SECOND, LABEL, 0.7), joint_loss(SECOND, FIRST, LABEL, 0.7))

    def test_equal_networks_have_cross_entropy_alone(self):
        expected = 2 * 0.3 * F.cross_entropy(FIRST, LABEL, reduction="none")
        assert torch.allclose(joint_loss(FIRST, FIRST, LABEL, 0.7), expected)

    def test_without_agreement_it_is_the_sum_of_cross_entropies(self):
        expected = F.cross_entropy(FIRST, LABEL, reduction="none") + F.cross_entropy(SECOND, LABEL, reduction="none")
        assert torch.allclose(joint_loss(FIRST, SECOND, LABEL, 0.0), expected)

    def test_confident_networks_have_a_finite_loss(self):
        first = torch.tensor([[200.0, 0.0]], requires_grad=True)
        loss = joint_loss(first, torch.tensor([[0.0, 200.0]]), torch.tensor([1]), 0.9)
        loss.sum().backward()
        assert bool(loss.isfinite().all())
        assert bool(first.grad.isfinite().all())


class TestStep:
    # The networks agree and are right, agree and are wrong, or disagree.
    X = inputs([4.0, 3.0, -4.0, -3.0, 4.0, 1.0], [4.0, 3.0, -4.0, -3.0, -4.0, 1.0])

    def test_both_learn_from_the_same_rows(self, make, make_batch, make_clock):
        x = self.X.clone().requires_grad_()
        terms = make(forget_rate=0.5, ramp=1, agreement=0.5).step(make_batch(x, GIVEN), make_clock(1)).terms
        (grad,) = torch.autograd.grad(terms["joint"], x)
        for start in (0, 3):
            assert grad[:, start : start + 2].abs().sum(1).nonzero().squeeze(1).tolist() == [0, 1, 5]

    def test_forgetting_nothing_is_the_mean(self, make, make_batch, make_clock):
        terms = make(forget_rate=0.0).step(make_batch(self.X, GIVEN), make_clock(1)).terms
        expected = joint_loss(self.X[:, :2], self.X[:, 3:5], GIVEN, 0.65).mean().item()
        assert terms["joint"].item() == pytest.approx(expected, rel=1e-6)

    def test_disagreement_counts_as_well_as_the_label(self, make, make_batch, make_clock):
        # Row 2 is further from its label than row 4, but there the networks agree.
        x = self.X.clone().requires_grad_()
        terms = make(forget_rate=1 / 6, ramp=1, agreement=0.9).step(make_batch(x, GIVEN), make_clock(1)).terms
        (grad,) = torch.autograd.grad(terms["joint"], x)
        assert grad.abs().sum(1).nonzero().squeeze(1).tolist() == [0, 1, 2, 3, 5]

    def test_a_batch_of_one_is_kept(self, make, make_batch, make_clock):
        terms = make(forget_rate=0.9, ramp=1).step(make_batch(self.X[2:3], GIVEN[:1]), make_clock(1)).terms
        assert terms["joint"].item() > 0

    def test_padding_is_neither_kept_nor_counted(self, make, make_batch, make_clock):
        weight = torch.tensor([0.0, 1, 1, 1, 1, 1])
        index = torch.where(weight > 0, torch.arange(6), -1)
        x = self.X.clone().requires_grad_()
        terms = make(forget_rate=0.6, ramp=1).step(make_batch(x, GIVEN, index, weight), make_clock(1)).terms
        (grad,) = torch.autograd.grad(terms["joint"], x)
        assert grad.abs().sum(1).nonzero().squeeze(1).tolist() == [1, 5]

    def test_nothing_is_forgotten_in_the_warm_up(self, make, make_batch, make_clock):
        method = make()
        assert method.rate.isnan()
        terms = method.step(make_batch(self.X, GIVEN), make_clock(method.warm_up)).terms
        assert terms["joint"].item() == pytest.approx(
            joint_loss(self.X[:, :2], self.X[:, 3:5], GIVEN, 0.65).mean().item()
        )

    def test_returns_the_logits_it_saw(self, make, make_batch, make_clock):
        seen = make().step(make_batch(self.X, GIVEN), make_clock(1)).seen
        assert torch.allclose(seen, (self.X[:, :2] + self.X[:, 3:5]) / 2)


def test_the_rate_is_estimated_after_the_warm_up(make, make_run):
    strength = torch.cat([torch.linspace(3, 4, 60), torch.linspace(-4, -3, 40)]).tolist()
    given = torch.zeros(100, dtype=torch.long)
    method, run = make(given), make_run(inputs(strength, strength), given, epoch=11)
    method.plan(run)
    assert method.rate.item() == pytest.approx(0.4, abs=0.01)
    assert run.notes == {"forget_rate": method.rate.item()}
