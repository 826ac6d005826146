"""SELC: cross entropy before the start, targets of momentum after it, and CAR without tau."""

import pytest
import torch
import torch.nn.functional as F

from surelabel.core.losses import cross_entropy
from surelabel.methods.car import CAR, car_loss
from surelabel.methods.sat import SAT
from surelabel.methods.selc import SELC

GIVEN = torch.tensor([0, 1, 2, 0])
ONE_HOT = F.one_hot(GIVEN, 3).float()
P = torch.tensor([[0.5, 0.25, 0.25], [0.2, 0.2, 0.6], [0.1, 0.1, 0.8], [0.7, 0.2, 0.1]])
X = F.pad(P.log(), (0, 1))


@pytest.fixture
def make(make_task):
    return lambda epochs=20, **options: SELC(make_task(GIVEN, epochs=epochs), **options)


def authors_loss(logits, labels, soft_labels, epoch, es, momentum):
    """The loss as the authors' code has it, from the notes on it; it changes `soft_labels`."""
    prediction = F.softmax(logits, dim=1)
    if epoch <= es:
        return F.cross_entropy(logits, labels)
    soft_labels.mul_(momentum).add_((1 - momentum) * prediction.detach())
    return -torch.sum(torch.log(prediction) * soft_labels, dim=1).mean()


class TestStep:
    def test_losses_and_targets_of_a_run_are_the_authors(self, make_task, make_batch, make_clock):
        torch.manual_seed(0)
        given = torch.randint(10, (64,))
        method = SELC(make_task(given, 10), correction_start=2, momentum=0.9).double()
        soft_labels = F.one_hot(given, 10).double()
        for epoch in range(1, 9):
            x = (4 * torch.randn(64, 11)).double().requires_grad_()
            batch = make_batch(x, given, weight=torch.ones(64).double())
            loss = method.step(batch, make_clock(epoch)).terms["cross_entropy"]
            expected = authors_loss(x[:, :10], given, soft_labels, epoch, es=2, momentum=0.9)
            assert loss.item() == pytest.approx(expected.item(), rel=1e-12)
            torch.testing.assert_close(*(torch.autograd.grad(one, x)[0] for one in (loss, expected)))
            torch.testing.assert_close(method.target.whole(), soft_labels, rtol=1e-12, atol=1e-15)

    def test_before_the_start_it_is_cross_entropy_bit_for_bit(self, make, make_batch, make_clock):
        method = make(correction_start=3)
        for epoch in (1, 2, 3):
            step = method.step(make_batch(X, GIVEN), make_clock(epoch))
            assert torch.equal(step.terms["cross_entropy"], make_batch(X, GIVEN).mean(cross_entropy(X[:, :3], GIVEN)))
        assert torch.equal(method.target.whole(), ONE_HOT)
        assert torch.equal(step.seen, X[:, :3])

    def test_the_first_update_by_hand(self, make, make_batch, make_clock):
        """Row 1: t = .9 (0, 1, 0) + .1 (.2, .2, .6) = (.02, .92, .06)."""
        method = make(correction_start=3, momentum=0.9)
        loss = method.step(make_batch(X, GIVEN), make_clock(4)).terms["cross_entropy"]
        target = 0.9 * ONE_HOT + 0.1 * P
        assert torch.allclose(method.target.whole()[1], torch.tensor([0.02, 0.92, 0.06]), atol=1e-6)
        assert loss.item() == pytest.approx(-(target * P.log()).sum(1).mean().item(), rel=1e-5)

    def test_momentum_one_is_cross_entropy(self, make, make_batch, make_clock):
        method = make(correction_start=0, momentum=1.0)
        loss = method.step(make_batch(X, GIVEN), make_clock(9)).terms["cross_entropy"]
        assert loss.item() == pytest.approx(F.cross_entropy(X[:, :3], GIVEN).item(), rel=1e-6)

    def test_it_is_car_with_a_tau_of_one(self, make, make_task, make_batch, make_clock):
        """CAR's epoch E_c is the first with updates; that of SELC is the last without."""
        selc = make(correction_start=3, momentum=0.9)
        car = CAR(make_task(GIVEN), correction_start=4, momentum=0.9, penalty_weight=1.0)
        certain = X.clone()
        certain[:, 3] = 1e4  # h, so that tau = sigmoid(h) = 1
        for epoch in range(2, 8):
            loss = selc.step(make_batch(X, GIVEN), make_clock(epoch)).terms["cross_entropy"]
            terms = car.step(make_batch(certain, GIVEN), make_clock(epoch)).terms
            assert loss.item() == pytest.approx(sum(terms.values()).item(), rel=1e-5)
        assert torch.allclose(selc.target.whole(), car.target.table.whole())
        target = selc.target.whole()
        one = car_loss(X[:, :3], torch.full((4,), 1e4), target, penalty_weight=1.0)
        assert torch.allclose(one, cross_entropy(X[:, :3], target), atol=1e-6)

    def test_it_is_sat_where_all_weights_are_equal(self, make_task, make_batch, make_clock):
        x = X[:1].expand(4, -1)
        given = torch.zeros(4, dtype=torch.long)
        one, other = (kind(make_task(given), correction_start=0) for kind in (SELC, SAT))
        for epoch in (1, 2, 3):
            losses = [m.step(make_batch(x, given), make_clock(epoch)).terms["cross_entropy"] for m in (one, other)]
            assert losses[0].item() == pytest.approx(losses[1].item(), rel=1e-6)

    def test_padding_does_not_count(self, make, make_batch, make_clock):
        padded, alone = make(correction_start=0), make(correction_start=0)
        batch = make_batch(X, GIVEN, torch.tensor([0, 1, -1, -1]), torch.tensor([1.0, 1, 0, 0]))
        loss = padded.step(batch, make_clock(1)).terms["cross_entropy"].item()
        expected = alone.step(make_batch(X[:2], GIVEN[:2]), make_clock(1)).terms["cross_entropy"].item()
        assert loss == pytest.approx(expected)
        assert torch.equal(padded.target.whole(), alone.target.whole())

    def test_far_logits_stay_finite(self, make, make_batch, make_clock):
        """The authors' log of a softmax is infinite here, where p has underflowed."""
        x = torch.tensor([[0.0, -300, 300, 0]] * 4, requires_grad=True)
        loss = make(correction_start=0).step(make_batch(x, GIVEN), make_clock(1)).terms["cross_entropy"]
        loss.backward()
        assert torch.isfinite(loss)
        assert torch.isfinite(x.grad).all()


@pytest.mark.parametrize(("epochs", "start"), [(200, 30), (100, 15), (1, 1)])
def test_start_is_the_published_share(make, epochs, start):
    assert make(epochs=epochs).correction_start == start


@pytest.mark.parametrize(
    ("options", "advised"),
    [({"correction_start": 20}, "use correction_start=3"), ({"momentum": 0.99}, "momentum=0.96")],
)
def test_settings_that_never_correct_are_told(make, options, advised):
    (text,) = make(epochs=20, **options).advice("settings")
    assert "can never correct a label" in text
    assert advised in text


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
