"""Lemma 2 and Theorems 1 and 2 of reverse cace, evaluated on small finite problems.

A problem has N points with weights, true labels, a transition matrix and a finite class F of
predictors; each predictor has its own p and its own tau in the open interval for every point. All
risks are finite sums; the minimisers are found by trying all of F. What the paper's text does not
say:

- Minimisers must exist. Over ALL predictors none does: -A tau (1 - p_y) falls to 0 with tau,
  whatever p is.
- Theorem 1 needs a noise rate above 0: without noise its strict bounds read 0 < 0.
- The proof of Theorem 2 writes one tau for f* and for f_eta. If they differ, a step of it fails
  (see `test_theorem2_step_needs_a_shared_tau`). The theorem still holds, by a shorter proof:
  R_eta(f_eta) >= 0, and R_eta(f*) = -A E[eta_y tau*(x)] <= -A E[eta_y] < -A (K - 1) E[1 - eta_y]
  = G, the last because eta_y is the sum of K - 1 rates that are each below 1 - eta_y.
  `test_theorem2` checks this tighter bound as well.
- With a shared tau more is true: f* itself minimises the noisy risk, so both differences are
  exactly 0.
"""

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from surelabel import car_terms

A = -4.0
SURE = 800.0
"""A logit gap at which exp(-gap) is exactly 0 in float64: p is one-hot and R(f*) = 0 is exact."""


@dataclass
class Problem:
    """A finite problem and class F; the joint is D(x, y)."""

    joint: Tensor  # (N, K)
    transition: Tensor  # (K, K)
    losses: Tensor  # (F, N, K): reverse cace of each predictor at each point for each label
    tau: Tensor  # (F, N)

    def clean_risk(self):
        return (self.joint * self.losses).sum((1, 2))

    def noisy_risk(self):
        return (self.joint @ self.transition * self.losses).sum((1, 2))


def reverse_losses(logits, confidence_logit):
    """(..., K) logits and (...) confidence logits to the reverse cace for every label, (..., K)."""
    num_classes = logits.shape[-1]
    rows, confidence = logits.reshape(-1, num_classes), confidence_logit.reshape(-1)
    target = torch.eye(num_classes, dtype=torch.float64).repeat(len(rows), 1)
    every = car_terms(rows.repeat_interleave(num_classes, 0), confidence.repeat_interleave(num_classes), target)
    return every.reverse.view(logits.shape)


def problem(joint, transition, logits, tau):
    return Problem(joint, transition, reverse_losses(logits, tau.logit()), tau)


def symmetric(num_classes, rate):
    off = torch.full((num_classes, num_classes), rate / (num_classes - 1), dtype=torch.float64)
    return off.fill_diagonal_(1 - rate)


def random_predictors(rng, num_predictors, num_points, num_classes):
    """Logits and tau; from nearly uniform to nearly one-hot, from nearly 0 to nearly 1."""
    scale = 10 ** rng.uniform(-1, 2, (num_predictors, 1, 1))
    logits = torch.from_numpy(scale * rng.normal(size=(num_predictors, num_points, num_classes)))
    tau = torch.from_numpy(rng.normal(scale=3, size=(num_predictors, num_points))).sigmoid()
    return logits, tau


def random_joint(rng, num_points, num_classes, sharp):
    """D(x, y); `sharp` has one true label for each point, otherwise labels are random given x."""
    weight = torch.from_numpy(rng.dirichlet(np.ones(num_points)))
    if sharp:
        labels = torch.from_numpy(rng.integers(0, num_classes, num_points))
        return weight[:, None] * torch.eye(num_classes, dtype=torch.float64)[labels]
    return weight[:, None] * torch.from_numpy(rng.dirichlet(np.ones(num_classes), num_points))


def dominant_transition(rng, num_classes):
    """Rows with the largest entry on the diagonal: eta_ij < 1 - eta_i, as Theorem 2 requires."""
    rows = torch.from_numpy(rng.dirichlet(np.full(num_classes, 0.7), num_classes))
    top = rows.argmax(1)
    index = torch.arange(num_classes)
    rows[index, top], rows[index, index] = rows[index, index].clone(), rows[index, top].clone()
    return (rows + 0.01 * torch.eye(num_classes, dtype=torch.float64)) / 1.01


SEEDS = st.integers(0, 2**32 - 1)
SIZES = {"num_points": st.integers(1, 4), "num_classes": st.integers(2, 5)}


@settings(deadline=None, max_examples=60)
@given(st.lists(st.floats(-20, 20), min_size=2, max_size=8), st.floats(0.001, 0.999), st.floats(-8, -0.1))
def test_lemma2(logits, tau, log_zero):
    """The sum over labels is A tau (1 - K) exactly, and lies strictly between 0 and A (1 - K)."""
    num_classes = len(logits)
    rows = torch.tensor([logits], dtype=torch.float64).expand(num_classes, -1)
    confidence = torch.full((num_classes,), tau, dtype=torch.float64).logit()
    target = torch.eye(num_classes, dtype=torch.float64)
    total = car_terms(rows, confidence, target, log_zero=log_zero).reverse.sum().item()
    assert total == pytest.approx(log_zero * tau * (1 - num_classes), rel=1e-9)
    assert 0 < total < log_zero * (1 - num_classes)


@settings(deadline=None, max_examples=80)
@given(seed=SEEDS, **SIZES, share=st.floats(0.01, 0.99), sharp=st.booleans())
def test_theorem1(seed, num_points, num_classes, share, sharp):
    rng = np.random.default_rng(seed)
    rate = share * (num_classes - 1) / num_classes
    predictors = random_predictors(rng, 40, num_points, num_classes)
    joint = random_joint(rng, num_points, num_classes, sharp)
    case = problem(joint, symmetric(num_classes, rate), *predictors)
    clean, noisy = case.clean_risk(), case.noisy_risk()
    best, best_noisy = clean.argmin(), noisy.argmin()

    rounding = 1e-12
    bound = -A * rate * (num_classes - 1) / (num_classes * (1 - rate) - 1)
    assert -rounding <= clean[best_noisy] - clean[best] < bound
    assert A * rate < noisy[best_noisy] - noisy[best] <= rounding


@settings(deadline=None, max_examples=30)
@given(seed=SEEDS, **SIZES, share=st.floats(0.01, 0.99))
def test_theorem1_rests_on_an_identity(seed, num_points, num_classes, share):
    """The proof's two-sided bound, exactly: R_eta(f) = psi R(f) - A eta E[tau(x)]."""
    rng = np.random.default_rng(seed)
    rate = share * (num_classes - 1) / num_classes
    joint = random_joint(rng, num_points, num_classes, sharp=False)
    case = problem(joint, symmetric(num_classes, rate), *random_predictors(rng, 10, num_points, num_classes))
    psi = 1 - rate * num_classes / (num_classes - 1)
    expected = psi * case.clean_risk() - A * rate * (case.tau @ joint.sum(1))
    torch.testing.assert_close(case.noisy_risk(), expected, atol=1e-12, rtol=1e-10)


@settings(deadline=None, max_examples=30)
@given(seed=SEEDS, **SIZES, share=st.floats(0.01, 0.99))
def test_symmetric_noise_is_tolerated_when_tau_is_shared(seed, num_points, num_classes, share):
    """With the same tau(x) in all of F the last term is constant: one f minimises both risks."""
    rng = np.random.default_rng(seed)
    logits, tau = random_predictors(rng, 30, num_points, num_classes)
    joint = random_joint(rng, num_points, num_classes, sharp=False)
    rate = share * (num_classes - 1) / num_classes
    case = problem(joint, symmetric(num_classes, rate), logits, tau[:1].expand_as(tau).contiguous())
    noisy = case.noisy_risk()
    assert noisy[case.clean_risk().argmin()] <= noisy.min() + 1e-12


def test_theorem1_needs_noise():
    """At rate 0 both strict bounds of the theorem are 0, and so are both differences."""
    rng = np.random.default_rng(0)
    case = problem(random_joint(rng, 3, 3, True), symmetric(3, 0.0), *random_predictors(rng, 20, 3, 3))
    torch.testing.assert_close(case.clean_risk(), case.noisy_risk())


def test_no_minimiser_without_a_restricted_class():
    """For any p the clean risk falls to 0 with tau: reverse cace alone teaches nothing."""
    tau = torch.tensor([1e-1, 1e-4, 1e-8], dtype=torch.float64)
    wrong = torch.tensor([0.0, 10.0], dtype=torch.float64).expand(3, 2)
    losses = reverse_losses(wrong, tau.logit())[:, 0]
    assert (losses.diff() < 0).all()
    assert 0 < losses[-1] < 1e-7


def sure_logits(joint):
    """Predictors with p = 1 at the true label of every point."""
    return SURE * (joint > 0).to(torch.float64)


def with_sure(joint, logits, tau, num_sure):
    """The first `num_sure` predictors are right and sure, with the tau they have: R = 0."""
    logits = logits.clone()
    logits[:num_sure] = sure_logits(joint)
    return logits, tau


@settings(deadline=None, max_examples=80)
@given(seed=SEEDS, **SIZES)
def test_theorem2(seed, num_points, num_classes):
    """The inequalities for every f* with R(f*) = 0 and its own tau, and the tighter bound."""
    rng = np.random.default_rng(seed)
    joint, transition = random_joint(rng, num_points, num_classes, True), dominant_transition(rng, num_classes)
    logits, tau = with_sure(joint, *random_predictors(rng, 40, num_points, num_classes), num_sure=4)
    case = problem(joint, transition, logits, tau)
    noisy = case.noisy_risk()
    best = case.clean_risk() == 0
    assert best[:4].all()

    noise_rate = joint.sum(0) * (1 - transition.diagonal())
    bound = A * (1 - num_classes) * (1 - noise_rate.sum())
    difference = noisy[best] - noisy.min()
    assert (difference >= 0).all()
    assert (difference < bound).all()
    tighter = -A * tau[best] @ (joint @ (1 - transition.diagonal()))
    assert (difference <= tighter + 1e-12).all()
    assert (tighter < bound).all()


@settings(deadline=None, max_examples=30)
@given(seed=SEEDS, **SIZES)
def test_class_noise_is_tolerated_when_tau_is_shared(seed, num_points, num_classes):
    """With the same tau(x) in all of F, an f* with R(f*) = 0 minimises the noisy risk too."""
    rng = np.random.default_rng(seed)
    joint, transition = random_joint(rng, num_points, num_classes, True), dominant_transition(rng, num_classes)
    logits, tau = with_sure(joint, *random_predictors(rng, 30, num_points, num_classes), num_sure=1)
    noisy = problem(joint, transition, logits, tau[:1].expand_as(tau).contiguous()).noisy_risk()
    assert noisy[0] <= noisy.min() + 1e-12


def test_theorem2_step_needs_a_shared_tau():
    """Two points, two classes with noise rates 0.01 and 0.4, and two right predictors of other tau.

    The proof's last bracket, E sum_(j != y) (1 - eta_y - eta_yj) (L(f_eta, j) - L(f*, j)) <= 0, is
    positive here; the theorem's inequality holds.
    """
    joint = torch.eye(2, dtype=torch.float64) / 2
    transition = torch.tensor([[0.99, 0.01], [0.4, 0.6]], dtype=torch.float64)
    tau = torch.tensor([[0.5, 0.5], [0.99, 0.1]], dtype=torch.float64)
    case = problem(joint, transition, sure_logits(joint).expand(2, 2, 2), tau)
    clean, noisy = case.clean_risk(), case.noisy_risk()
    assert clean.tolist() == [0, 0]
    assert noisy.argmin() == 1  # so predictor 0 is f* and predictor 1 is f_eta

    other = torch.tensor([1, 0])
    spread = transition.diagonal() - transition[torch.arange(2), other]
    bracket = (spread / 2 * (case.losses[1] - case.losses[0])[torch.arange(2), other]).sum()
    assert bracket > 0.5
    assert 0 <= noisy[0] - noisy[1] < A * (1 - 2) * (1 - 0.205)


def certain(logits):
    """A confidence logit at which tau is 1 in float64."""
    return torch.full((len(logits),), 100.0, dtype=torch.float64)


def rows(seed, num_classes=5):
    generator = torch.Generator().manual_seed(seed)
    logits = 3 * torch.randn(20, num_classes, generator=generator, dtype=torch.float64)
    return logits, torch.eye(num_classes, dtype=torch.float64)[torch.arange(20) % num_classes]


@pytest.mark.parametrize("log_zero", [-4.0, -2.0, -7.5])
def test_tau_one_gives_reverse_cross_entropy(log_zero):
    logits, target = rows(0)
    log_t = torch.where(target > 0, 0.0, log_zero)
    expected = -(logits.softmax(1) * log_t).sum(1)
    found = car_terms(logits, certain(logits), target, log_zero=log_zero)
    torch.testing.assert_close(found.reverse, expected)
    torch.testing.assert_close(found.cace, torch.nn.functional.cross_entropy(logits, target, reduction="none"))


def test_tau_one_and_a_of_minus_two_give_mean_absolute_error():
    logits, target = rows(1)
    found = car_terms(logits, certain(logits), target, log_zero=-2.0).reverse
    torch.testing.assert_close(found, (logits.softmax(1) - target).abs().sum(1))
