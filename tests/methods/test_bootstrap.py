"""Bootstrap: both targets by hand, and their limit of cross entropy."""

import math

import pytest
import torch
import torch.nn.functional as F

from surelabel.core.losses import cross_entropy
from surelabel.methods.bootstrap import Bootstrap, hard_bootstrap, soft_bootstrap

GIVEN = torch.tensor([0, 1, 2])
X = torch.tensor([[2.0, 0.0, 1.0, 0.0], [0.0, 0.5, 0.0, 0.0], [1.0, 1.5, -1.0, 0.0]])
LOGITS = X[:, :3].double()
P = LOGITS.softmax(1)


def test_soft_by_hand():
    logits = torch.tensor([[0.0, math.log(3), 0.0]])
    target, log_p = [0.5 * 0.2, 0.5 * 0.6, 0.5 + 0.5 * 0.2], [math.log(0.2), math.log(0.6), math.log(0.2)]
    expected = -sum(t * v for t, v in zip(target, log_p, strict=True))
    assert soft_bootstrap(logits, torch.tensor([2]), 0.5).item() == pytest.approx(expected, rel=1e-5)


def test_hard_by_hand():
    logits = torch.tensor([[0.0, math.log(3), 0.0]])
    expected = -0.75 * math.log(0.2) - 0.25 * math.log(0.6)
    assert hard_bootstrap(logits, torch.tensor([2]), 0.75).item() == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("loss", [soft_bootstrap, hard_bootstrap])
def test_with_the_given_label_alone_is_cross_entropy(loss):
    assert torch.allclose(loss(LOGITS, GIVEN, 1.0), cross_entropy(LOGITS, GIVEN))


def test_hard_is_cross_entropy_where_the_prediction_is_the_label():
    predicted = LOGITS.argmax(1)
    assert torch.allclose(hard_bootstrap(LOGITS, predicted, 0.8), cross_entropy(LOGITS, predicted))


def test_the_gradient_of_soft_flows_through_the_target():
    """With a fixed target the part of the prediction would have no gradient."""
    logits = LOGITS.clone().requires_grad_()
    (grad,) = torch.autograd.grad(soft_bootstrap(logits, GIVEN, 0.8).sum(), logits)
    fixed = 0.8 * F.one_hot(GIVEN, 3) + 0.2 * P
    (of_fixed,) = torch.autograd.grad(cross_entropy(logits, fixed).sum(), logits)
    assert torch.allclose(of_fixed, 0.8 * (P - F.one_hot(GIVEN, 3)))
    entropy = -(P * P.log()).sum(1, keepdim=True)
    assert torch.allclose(grad, of_fixed - 0.2 * P * (P.log() + entropy))


@pytest.mark.parametrize("loss", [soft_bootstrap, hard_bootstrap])
def test_extreme_logits_are_finite(loss):
    logits = torch.tensor([[300.0, -300.0, 0.0]], requires_grad=True)
    value = loss(logits, torch.tensor([1]), 0.8)
    value.backward()
    assert value.item() == pytest.approx(0.8 * 600)
    assert bool(logits.grad.isfinite().all())


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, hard_bootstrap(LOGITS, GIVEN, 0.8)),
        ({"target": "soft"}, soft_bootstrap(LOGITS, GIVEN, 0.95)),
        ({"target": "soft", "label_weight": 0.5}, soft_bootstrap(LOGITS, GIVEN, 0.5)),
    ],
)
def test_step(make_task, make_batch, make_clock, options, expected):
    weight = torch.tensor([1.0, 0.0, 1.0])
    done = Bootstrap(make_task(GIVEN), **options).step(make_batch(X, GIVEN, weight=weight), make_clock(1))
    assert done.terms["bootstrap"].item() == pytest.approx(expected[[0, 2]].mean().item(), rel=1e-5)
    assert torch.equal(done.seen, X[:, :3])
