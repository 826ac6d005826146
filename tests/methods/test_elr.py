"""ELR: the pull by hand, the update of targets, limits."""

import math

import pytest
import torch
import torch.nn.functional as F

from surelabel.methods.elr import ELR, clamped_probability, early_learning_regulariser

GIVEN = torch.tensor([0, 1, 2, 0])
P = torch.tensor([[0.5, 0.25, 0.25], [0.2, 0.2, 0.6], [0.1, 0.1, 0.8], [0.7, 0.2, 0.1]])
X = F.pad(P.log(), (0, 1))


@pytest.fixture
def make(make_task):
    return lambda epochs=20, **options: ELR(make_task(GIVEN, epochs=epochs), **options)


class TestRegulariser:
    def test_by_hand(self):
        target = torch.tensor([[0.5, 0.25, 0.0]])
        probability = torch.tensor([[0.6, 0.2, 0.2]])
        expected = math.log(1 - (0.5 * 0.6 + 0.25 * 0.2))
        assert early_learning_regulariser(probability, target).tolist() == pytest.approx([expected])

    def test_without_a_target_it_is_zero(self):
        assert early_learning_regulariser(P, torch.zeros_like(P)).tolist() == [0] * 4

    def test_agreement_lowers_it(self):
        target = torch.tensor([[0.7, 0.0, 0.0]] * 2)
        values = early_learning_regulariser(torch.tensor([[0.3, 0.4, 0.3], [0.9, 0.05, 0.05]]), target)
        assert values[1] < values[0] < 0

    def test_gradient_is_the_closed_form(self):
        logits = X[:, :3].clone().double().requires_grad_()
        target = P.flip(0).double() * 0.9
        (grad,) = torch.autograd.grad(early_learning_regulariser(clamped_probability(logits), target).sum(), logits)
        p = P.double()
        agreement = (p * target).sum(1, keepdim=True)
        assert torch.allclose(grad, p * (agreement - target) / (1 - agreement), atol=1e-6)

    def test_a_sure_and_confirmed_prediction_is_finite_and_at_rest(self):
        logits = torch.tensor([[200.0, -200.0, -200.0]], requires_grad=True)
        value = early_learning_regulariser(clamped_probability(logits), torch.tensor([[1.0, 0.0, 0.0]]))
        (grad,) = torch.autograd.grad(value.sum(), logits)
        assert value.item() == pytest.approx(math.log(1e-4), rel=1e-2)
        assert not grad.any()


class TestStep:
    def test_first_visit_by_hand(self, make, make_batch, make_clock):
        method = make(regularisation=3.0, momentum=0.7)
        step = method.step(make_batch(X, GIVEN), make_clock(1))
        target = 0.3 * P
        assert torch.allclose(method.target.whole(), target, atol=1e-6)
        assert step.terms["cross_entropy"].item() == pytest.approx(F.nll_loss(P.log(), GIVEN).item(), rel=1e-5)
        expected = 3 * (1 - (target * P).sum(1)).log().mean().item()
        assert step.terms["early_learning"].item() == pytest.approx(expected, rel=1e-5)
        assert torch.equal(step.seen, X[:, :3])

    def test_mass_of_the_target_grows(self, make, make_batch, make_clock):
        method = make(momentum=0.7)
        for epoch in (1, 2, 3):
            method.step(make_batch(X, GIVEN), make_clock(epoch))
            assert torch.allclose(method.target.whole().sum(1), torch.full((4,), 1 - 0.7**epoch), atol=1e-6)

    def test_weight_zero_is_cross_entropy(self, make, make_batch, make_clock):
        terms = make(regularisation=0.0).step(make_batch(X, GIVEN), make_clock(1)).terms
        assert sum(terms.values()).item() == pytest.approx(F.nll_loss(P.log(), GIVEN).item(), rel=1e-5)

    def test_no_gradient_through_the_target(self, make, make_batch, make_clock):
        method = make(momentum=0.0)
        x = X.clone().requires_grad_()
        terms = method.step(make_batch(x, GIVEN), make_clock(1)).terms
        (grad,) = torch.autograd.grad(terms["early_learning"], x)
        agreement = P.square().sum(1, keepdim=True)
        expected = 3 * P * (agreement - P) / (1 - agreement) / 4
        assert torch.allclose(grad[:, :3], expected, atol=1e-5)
        assert not method.target.rows.requires_grad

    def test_padding_is_neither_counted_nor_written(self, make, make_batch, make_clock):
        method, alone = make(), make()
        weight = torch.tensor([1.0, 0, 0, 0])
        padded = method.step(make_batch(X, GIVEN, torch.tensor([0, -1, -1, -1]), weight), make_clock(1)).terms
        one = alone.step(make_batch(X[:1], GIVEN[:1]), make_clock(1)).terms
        assert {k: v.item() for k, v in padded.items()} == pytest.approx({k: v.item() for k, v in one.items()})
        assert torch.equal(method.target.whole(), alone.target.whole())


class TestVerdict:
    def test_corrected_is_the_target_divided_by_its_sum(self, make, make_batch, make_clock, verdict_of):
        method = make()
        method.step(make_batch(X[:2], GIVEN[:2]), make_clock(1))
        corrected = verdict_of(method, X.flip(0), GIVEN).corrected
        assert torch.allclose(corrected[:2], P[:2], atol=1e-5)
        assert torch.allclose(corrected[2:], P.flip(0)[2:], atol=1e-6), "rows never visited have the prediction"

    def test_quality_is_the_running_mean(self, make, verdict_of):
        seen = torch.tensor([0.1, 0.9, 0.4, 0.3])
        assert torch.equal(verdict_of(make(), X, GIVEN, seen=seen).quality, seen)


def test_state_survives_a_restart(make, make_batch, make_clock):
    before, after = make(), make()
    before.step(make_batch(X, GIVEN), make_clock(1))
    after.load_state_dict(before.state_dict())
    assert torch.equal(after.target.whole(), before.target.whole())
