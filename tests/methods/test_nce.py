"""Normalised losses and the active-passive pairs."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from surelabel.methods.nce import (
    NCE,
    default_weights,
    normalised_cross_entropy,
    normalised_focal_loss,
    normalised_generalised_cross_entropy,
)

GIVEN = torch.tensor([0, 1, 2])
X = torch.tensor([[2.0, 0.0, 1.0, 0.0], [0.0, 0.5, 0.0, 0.0], [1.0, 1.5, -1.0, 0.0]])
LOGITS = X[:, :3].double()
P = LOGITS.softmax(1)
AT_GIVEN = P[torch.arange(3), GIVEN]
LOSSES = {
    "nce": normalised_cross_entropy,
    "nfl": lambda z, y: normalised_focal_loss(z, y, 0.5),
    "ngce": lambda z, y: normalised_generalised_cross_entropy(z, y, 0.1),
}


def test_cross_entropy_by_hand():
    expected = AT_GIVEN.log() / P.log().sum(1)
    assert torch.allclose(normalised_cross_entropy(LOGITS, GIVEN), expected)


def test_focal_by_hand():
    focal = -((1 - P) ** 2) * P.log()
    expected = focal[torch.arange(3), GIVEN] / focal.sum(1)
    assert torch.allclose(normalised_focal_loss(LOGITS, GIVEN, 2.0), expected)


def test_focal_without_focus_is_cross_entropy():
    assert torch.allclose(normalised_focal_loss(LOGITS, GIVEN, 0.0), normalised_cross_entropy(LOGITS, GIVEN))


def test_generalised_by_hand():
    expected = (1 - AT_GIVEN**0.7) / (3 - (P**0.7).sum(1))
    assert torch.allclose(normalised_generalised_cross_entropy(LOGITS, GIVEN, 0.7), expected)


def test_generalised_near_zero_is_cross_entropy():
    value = normalised_generalised_cross_entropy(LOGITS, GIVEN, 1e-9)
    assert torch.allclose(value, normalised_cross_entropy(LOGITS, GIVEN))


@pytest.mark.parametrize("name", LOSSES)
def test_of_equal_probabilities_is_one_over_the_classes(name):
    assert LOSSES[name](torch.zeros(1, 5), torch.tensor([3])).item() == pytest.approx(1 / 5)


@pytest.mark.parametrize("name", LOSSES)
@settings(deadline=None, max_examples=30)
@given(logits=st.lists(st.floats(-20, 20), min_size=2, max_size=6))
def test_over_all_labels_sums_to_one(name, logits):
    rows = torch.tensor([logits] * len(logits), dtype=torch.float64)
    values = LOSSES[name](rows, torch.arange(len(logits)))
    assert values.sum().item() == pytest.approx(1)
    assert bool((values >= 0).all())


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("label", [0, 1])
def test_extreme_logits_are_finite(name, label):
    logits = torch.tensor([[300.0, -300.0, 0.0]], requires_grad=True)
    value = LOSSES[name](logits, torch.tensor([label]))
    value.backward()
    assert 0 <= value.item() <= 1
    assert bool(logits.grad.isfinite().all())


@pytest.mark.parametrize(
    ("passive", "classes", "weights"),
    [
        ("mae", 10, (1, 1)),
        ("rce", 10, (1, 1)),
        ("mae", 100, (10, 1)),
        ("rce", 100, (10, 0.1)),
        ("rce", 2, (1, 1)),
        ("none", 100, (10, 1)),
    ],
)
def test_default_weights_are_the_published_ones(passive, classes, weights):
    assert default_weights(passive, classes) == pytest.approx(weights)


class TestStep:
    @pytest.fixture
    def step(self, make_task, make_batch, make_clock):
        def of(weight=None, x=X, **options):
            return NCE(make_task(GIVEN), **options).step(make_batch(x, GIVEN, weight=weight), make_clock(1))

        return of

    def test_default_is_nce_and_rce(self, step):
        terms = step().terms
        assert terms["nce"].item() == pytest.approx(LOSSES["nce"](LOGITS, GIVEN).mean().item(), rel=1e-5)
        assert terms["rce"].item() == pytest.approx(-math.log(1e-4) * (1 - AT_GIVEN).mean().item(), rel=1e-5)

    @pytest.mark.parametrize("active", LOSSES)
    def test_active_alone(self, step, active):
        terms = step(active=active, passive="none", active_weight=3.0).terms
        assert list(terms) == [active]
        assert terms[active].item() == pytest.approx(3 * LOSSES[active](LOGITS, GIVEN).mean().item(), rel=1e-5)

    def test_mae_is_one_minus_p(self, step):
        terms = step(passive="mae", passive_weight=2.0).terms
        assert terms["mae"].item() == pytest.approx(2 * (1 - AT_GIVEN).mean().item(), rel=1e-5)

    def test_padding_does_not_count(self, step):
        terms = step(weight=torch.tensor([0.0, 0.0, 1.0]), passive="mae").terms
        assert terms["mae"].item() == pytest.approx(1 - AT_GIVEN[2].item(), rel=1e-5)

    def test_the_gradient_flows_through_the_denominator(self, step):
        x = X.clone().requires_grad_()
        (grad,) = torch.autograd.grad(step(x=x, passive="none").terms["nce"], x)
        size = -P.log().sum(1, keepdim=True)
        value = LOSSES["nce"](LOGITS, GIVEN)[:, None]
        # d(-log p_y) = p - e_y and d(sum of -log p) = K p - 1
        expected = ((P - torch.eye(3)) - value * (3 * P - 1)) / size / 3
        assert torch.allclose(grad[:, :3].double(), expected, atol=1e-6)

    def test_returns_the_logits_it_saw(self, step):
        assert torch.equal(step().seen, X[:, :3])
