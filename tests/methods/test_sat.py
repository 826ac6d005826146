"""SAT: cross entropy before the start, targets and weights after it."""

import pytest
import torch
import torch.nn.functional as F

from surelabel.core.losses import cross_entropy
from surelabel.methods.sat import SAT

GIVEN = torch.tensor([0, 1, 2, 0])
ONE_HOT = F.one_hot(GIVEN, 3).float()
P = torch.tensor([[0.5, 0.25, 0.25], [0.2, 0.2, 0.6], [0.1, 0.1, 0.8], [0.7, 0.2, 0.1]])
X = F.pad(P.log(), (0, 1))


@pytest.fixture
def make(make_task):
    return lambda epochs=20, **options: SAT(make_task(GIVEN, epochs=epochs), **options)


class TestStep:
    def test_before_the_start_it_is_cross_entropy_bit_for_bit(self, make, make_batch, make_clock):
        method = make(correction_start=3)
        for epoch in (1, 2, 3):
            step = method.step(make_batch(X, GIVEN), make_clock(epoch))
            assert torch.equal(step.terms["cross_entropy"], make_batch(X, GIVEN).mean(cross_entropy(X[:, :3], GIVEN)))
        assert torch.equal(method.target.whole(), ONE_HOT)
        assert torch.equal(step.seen, X[:, :3])

    def test_the_first_update_by_hand(self, make, make_batch, make_clock):
        method = make(correction_start=3, momentum=0.9)
        loss = method.step(make_batch(X, GIVEN), make_clock(4)).terms["cross_entropy"]
        target = 0.9 * ONE_HOT + 0.1 * P
        assert torch.allclose(method.target.whole(), target, atol=1e-6)
        weight = target.amax(1)
        expected = (weight * -(target * P.log()).sum(1)).sum() / weight.sum()
        assert loss.item() == pytest.approx(expected.item(), rel=1e-5)

    @pytest.mark.parametrize("count", [1, 2, 5])
    def test_constant_predictions(self, make, make_batch, make_clock, count):
        method = make(correction_start=0, momentum=0.8)
        for epoch in range(1, count + 1):
            method.step(make_batch(X, GIVEN), make_clock(epoch))
        rows = method.target.whole()
        assert torch.allclose(rows, 0.8**count * ONE_HOT + (1 - 0.8**count) * P, atol=1e-6)
        assert torch.allclose(rows.sum(1), torch.ones(4))

    def test_momentum_one_is_cross_entropy(self, make, make_batch, make_clock):
        method = make(correction_start=0, momentum=1.0)
        loss = method.step(make_batch(X, GIVEN), make_clock(9)).terms["cross_entropy"]
        assert loss.item() == pytest.approx(F.cross_entropy(X[:, :3], GIVEN).item(), rel=1e-6)
        assert torch.equal(method.target.whole(), ONE_HOT)

    def test_gradient_is_that_of_a_fixed_weighted_target(self, make, make_batch, make_clock):
        method = make(correction_start=0, momentum=0.5)
        x = X.clone().requires_grad_()
        (grad,) = torch.autograd.grad(method.step(make_batch(x, GIVEN), make_clock(1)).terms["cross_entropy"], x)
        target = 0.5 * ONE_HOT + 0.5 * P
        weight = target.amax(1, keepdim=True)
        assert torch.allclose(grad[:, :3], weight / weight.sum() * (P - target), atol=1e-6)

    def test_padding_does_not_count(self, make, make_batch, make_clock):
        padded, alone = make(correction_start=0), make(correction_start=0)
        weight = torch.tensor([1.0, 1, 0, 0])
        batch = make_batch(X, GIVEN, torch.tensor([0, 1, -1, -1]), weight)
        loss = padded.step(batch, make_clock(1)).terms["cross_entropy"].item()
        expected = alone.step(make_batch(X[:2], GIVEN[:2]), make_clock(1)).terms["cross_entropy"].item()
        assert loss == pytest.approx(expected)
        assert torch.equal(padded.target.whole(), alone.target.whole())

    def test_a_batch_of_one(self, make, make_batch, make_clock):
        loss = make(correction_start=0).step(make_batch(X[:1], GIVEN[:1]), make_clock(1)).terms["cross_entropy"]
        target = 0.9 * ONE_HOT[0] + 0.1 * P[0]
        assert loss.item() == pytest.approx(-(target * P[0].log()).sum().item(), rel=1e-5)


@pytest.mark.parametrize(("epochs", "start"), [(200, 60), (100, 30), (1, 1)])
def test_start_is_the_published_share(make, epochs, start):
    assert make(epochs=epochs).correction_start == start


def test_verdict(make, make_batch, make_clock, verdict_of):
    method = make(correction_start=0, momentum=0.5)
    method.step(make_batch(X, GIVEN), make_clock(1))
    seen = torch.tensor([0.1, 0.9, 0.4, 0.3])
    verdict = verdict_of(method, X, GIVEN, seen=seen)
    assert torch.allclose(verdict.corrected, 0.5 * ONE_HOT + 0.5 * P, atol=1e-6)
    assert torch.equal(verdict.quality, seen)


def test_state_survives_a_restart(make, make_batch, make_clock):
    before, after = make(correction_start=0), make(correction_start=0)
    before.step(make_batch(X, GIVEN), make_clock(1))
    after.load_state_dict(before.state_dict())
    assert torch.equal(after.target.whole(), before.target.whole())
