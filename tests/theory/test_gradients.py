"""Lemma 1 and the multiplier Q, against autograd in float64.

The lemma is about a one-hot target and treats tau as a separate variable, not as a function of the
logits: it covers the indicator branch, not tau = max p. What the paper calls the true class is the
class of the target.
"""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from surelabel import car_loss, car_terms

TAU = st.floats(0.01, 0.99)
PENALTY_WEIGHT = st.floats(0.05, 10)
LOG_ZERO = st.floats(-8, -0.5)


@st.composite
def problems(draw):
    """Logits (1, K) with a gradient, and a class."""
    logits = draw(st.lists(st.floats(-8, 8), min_size=2, max_size=6))
    label = draw(st.integers(0, len(logits) - 1))
    return torch.tensor([logits], dtype=torch.float64, requires_grad=True), label


def confidence_logit(tau):
    return torch.tensor([tau], dtype=torch.float64).logit()


def one_hot(label, num_classes):
    return torch.eye(num_classes, dtype=torch.float64)[[label]]


def multiplier(p, tau):
    """Q of section 3.5."""
    return p / (p - 1 + 1 / tau)


def gradient(logits, tau, label, **weights):
    loss = car_loss(logits, confidence_logit(tau), one_hot(label, logits.shape[1]), **weights)
    return torch.autograd.grad(loss.sum(), logits)[0][0]


def lemma1(logits, tau, label, reverse_weight, log_zero):
    """Eq. 10 and 11 (beta = 0 and 1): both cases, j = y and j != y."""
    p = logits.detach().softmax(1)[0]
    p_y = p[label]
    expected = p * multiplier(p_y, tau) - reverse_weight * log_zero * tau * p * p_y
    expected[label] = (p_y - 1) * multiplier(p_y, tau) - reverse_weight * log_zero * tau * p_y * (p_y - 1)
    return expected


def has_claimed_signs(gradient, label):
    others = torch.arange(len(gradient)) != label
    return bool(gradient[label] <= 0) and bool((gradient[others] >= 0).all())


@settings(deadline=None, max_examples=60)
@given(problems(), TAU, PENALTY_WEIGHT)
def test_lemma1_for_cal(problem, tau, penalty_weight):
    logits, label = problem
    actual = gradient(logits, tau, label, penalty_weight=penalty_weight)
    torch.testing.assert_close(actual, lemma1(logits, tau, label, 0.0, -4.0), atol=1e-12, rtol=1e-9)
    assert has_claimed_signs(actual, label)


@settings(deadline=None, max_examples=60)
@given(problems(), TAU, PENALTY_WEIGHT, LOG_ZERO)
def test_lemma1_for_car(problem, tau, penalty_weight, log_zero):
    logits, label = problem
    actual = gradient(logits, tau, label, penalty_weight=penalty_weight, reverse_weight=1.0, log_zero=log_zero)
    torch.testing.assert_close(actual, lemma1(logits, tau, label, 1.0, log_zero), atol=1e-12, rtol=1e-9)
    assert has_claimed_signs(actual, label)


@settings(deadline=None, max_examples=30)
@given(problems())
def test_tau_one_is_the_gradient_of_cross_entropy(problem):
    logits, label = problem
    target = one_hot(label, logits.shape[1])
    certain = torch.tensor([100.0], dtype=torch.float64)
    (actual,) = torch.autograd.grad(car_terms(logits, certain, target).cace.sum(), logits)
    torch.testing.assert_close(actual, logits.detach().softmax(1) - target, atol=1e-12, rtol=1e-9)


def gradient_multiplier(p_y, tau):
    """Q from gradients at the class: cace over cross entropy, for (n,) p_y and tau."""
    logits = torch.stack([p_y.logit(), torch.zeros_like(p_y)], 1).requires_grad_()
    target = one_hot(0, 2).expand(len(p_y), 2)
    (found,) = torch.autograd.grad(car_terms(logits, tau.logit(), target).cace.sum(), logits)
    return found[:, 0] / (p_y - 1)


def test_multiplier_is_monotone_in_tau_and_in_p():
    grid = torch.linspace(0.02, 0.98, 25, dtype=torch.float64)
    p_y, tau = (axis.flatten() for axis in torch.meshgrid(grid, grid, indexing="ij"))
    found = gradient_multiplier(p_y, tau)
    torch.testing.assert_close(found, multiplier(p_y, tau))
    found = found.view(25, 25)
    assert (found.diff(dim=0) > 0).all()
    assert (found.diff(dim=1) > 0).all()
    assert ((found > 0) & (found < 1)).all()


def test_limits_of_the_multiplier():
    p_y = torch.linspace(0.05, 0.95, 10, dtype=torch.float64)
    tiny = torch.full_like(p_y, 1e-9)
    torch.testing.assert_close(gradient_multiplier(p_y, tiny), torch.zeros_like(p_y), atol=2e-8, rtol=0)
    torch.testing.assert_close(gradient_multiplier(p_y, 1 - tiny), torch.ones_like(p_y), atol=2e-8, rtol=0)


def test_reverse_term_pushes_most_at_one_half():
    """Section 3.5: the extra term of Eq. 11 is a parabola in p_y with its vertex at 1/2."""
    p_y = torch.linspace(0.01, 0.99, 99, dtype=torch.float64)
    logits = torch.stack([p_y.logit(), torch.zeros_like(p_y)], 1).requires_grad_()
    target = one_hot(0, 2).expand(99, 2)
    reverse = car_terms(logits, torch.zeros(99, dtype=torch.float64), target).reverse
    (found,) = torch.autograd.grad(reverse.sum(), logits)
    assert p_y[found[:, 0].argmin()].item() == 0.5
