"""The confidence that minimises the loss for a fixed prediction, and the loss profile it implies.

Not in the paper; derived in docs/theory.md. One-hot target, beta = 0, lambda the penalty weight:

    tau* = min(1, lambda / ((1 + lambda) (1 - p_y)))
    below p_y = 1 / (1 + lambda):   loss = (1 + lambda) log(1 + lambda) - lambda log lambda
                                           + lambda log(1 - p_y)
    from there on:                  loss = -log p_y
    gradient multiplier at tau*:    Q* = min(1, lambda p_y / (1 - p_y)),
                                    at p_y = 1/K: Q0 = min(1, lambda / (K - 1))
"""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from surelabel import car_loss, car_terms

P = st.floats(0.001, 0.999)
WEIGHT = st.floats(0.05, 20)


def best_tau(p_y, weight):
    return (weight / ((1 + weight) * (1 - p_y))).clamp(max=1)


def profile(p_y, weight):
    saturated = (1 + weight) * (1 + weight).log() - weight * weight.log() + weight * torch.log1p(-p_y)
    return torch.where(p_y < 1 / (1 + weight), saturated, -p_y.log())


def loss_of(p_y, tau, weight):
    """CAL for two classes; (n,) p_y and tau. Tau = 1 is its limit, a large confidence logit."""
    confidence = tau.logit().clamp(max=40)
    logits = torch.stack([p_y.logit(), torch.zeros_like(p_y)], 1)
    target = torch.tensor([[1.0, 0.0]], dtype=torch.float64).expand_as(logits)
    return car_loss(logits, confidence, target, penalty_weight=float(weight))


def scalars(*values):
    return (torch.tensor([value], dtype=torch.float64) for value in values)


@settings(deadline=None, max_examples=60)
@given(P, WEIGHT)
def test_no_tau_of_a_grid_is_better(p, penalty_weight):
    p_y, weight = scalars(p, penalty_weight)
    grid = torch.linspace(0.0005, 0.9995, 1000, dtype=torch.float64)
    values = loss_of(p_y.expand(1000), grid, weight)
    tau = best_tau(p_y, weight)
    assert loss_of(p_y, tau, weight) <= values.min() + 1e-9
    assert (grid[values.argmin()] - tau).abs() <= 0.0011


@settings(deadline=None, max_examples=60)
@given(P, WEIGHT)
def test_gradient_of_the_confidence_logit_vanishes_there(p, penalty_weight):
    p_y, weight = scalars(p, penalty_weight)
    confidence = best_tau(p_y, weight).logit().clamp(max=40).requires_grad_()
    logits = torch.stack([p_y.logit(), torch.zeros_like(p_y)], 1)
    target = torch.tensor([[1.0, 0.0]], dtype=torch.float64)
    loss = car_loss(logits, confidence, target, penalty_weight=penalty_weight)
    (found,) = torch.autograd.grad(loss.sum(), confidence)
    assert found.abs().item() < 1e-9


@settings(deadline=None, max_examples=60)
@given(P, WEIGHT)
def test_loss_profile(p, penalty_weight):
    p_y, weight = scalars(p, penalty_weight)
    torch.testing.assert_close(loss_of(p_y, best_tau(p_y, weight), weight), profile(p_y, weight), atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize("penalty_weight", [0.1, 0.5, 2.0, 10.0])
def test_profile_is_bounded_and_smooth(penalty_weight):
    """Labels with p_y near 0 have a bounded loss and slope; both parts meet at 1 / (1 + lambda)."""
    (weight,) = scalars(penalty_weight)
    p_y = torch.linspace(1e-6, 1 - 1e-6, 2001, dtype=torch.float64, requires_grad=True)
    values = profile(p_y, weight)
    (slope,) = torch.autograd.grad(values.sum(), p_y)
    ceiling = (1 + weight) * (1 + weight).log() - weight * weight.log()
    assert values.max() <= ceiling
    assert (values.detach().diff() < 0).all()
    knee = 1 / (1 + weight)
    near = torch.cat([knee - 1e-9, knee + 1e-9]).requires_grad_()
    left, right = profile(near, weight)
    assert (left - right).abs() < 1e-6
    (slopes,) = torch.autograd.grad(left + right, near)
    torch.testing.assert_close(slopes, -(1 + weight).expand(2), rtol=1e-6, atol=0)
    torch.testing.assert_close(slope[0], -weight[0], rtol=1e-4, atol=0)  # cross entropy: -1 / p_y


def gradient_at_best(logits, penalty_weight):
    """Gradient of cace at the first class, with tau at its optimum for the logits (1, K)."""
    (weight,) = scalars(penalty_weight)
    p_y = logits.softmax(1)[:, 0]
    confidence = best_tau(p_y, weight).logit().clamp(max=40)
    logits = logits.clone().requires_grad_()
    target = torch.eye(logits.shape[1], dtype=torch.float64)[:1]
    (found,) = torch.autograd.grad(car_terms(logits, confidence, target).cace.sum(), logits)
    return found[0, 0].item(), p_y.item()


@settings(deadline=None, max_examples=60)
@given(P, WEIGHT)
def test_gradient_at_the_best_tau(p, penalty_weight):
    """The multiplier is min(1, lambda p / (1 - p)), so the gradient is -min(1 - p, lambda p)."""
    (p_y,) = scalars(p)
    found, p = gradient_at_best(torch.stack([p_y.logit(), torch.zeros_like(p_y)], 1), penalty_weight)
    assert found / (p - 1) == pytest.approx(min(1, penalty_weight * p / (1 - p)), rel=1e-7)
    assert found == pytest.approx(-min(1 - p, penalty_weight * p), rel=1e-7)


@pytest.mark.parametrize(
    ("num_classes", "penalty_weight", "expected"),
    [
        (10, 0.5, 0.0556),
        (10, 2.0, 0.2222),
        (10, 9.0, 1.0),
        (100, 0.5, 0.00505),
        (100, 10.0, 0.101),
        (2, 0.5, 0.5),
        (2, 3.0, 1),
    ],
)
def test_multiplier_at_the_start(num_classes, penalty_weight, expected):
    """Q0 = min(1, lambda / (K - 1)) for the uniform prediction that training starts from."""
    found, p = gradient_at_best(torch.zeros(1, num_classes, dtype=torch.float64), penalty_weight)
    assert found / (p - 1) == pytest.approx(min(1, penalty_weight / (num_classes - 1)), rel=1e-9)
    assert found / (p - 1) == pytest.approx(expected, rel=2e-3)
