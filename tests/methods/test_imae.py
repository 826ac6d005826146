"""IMAE: only the gradient has a meaning, not the value."""

import math

import pytest
import torch
import torch.nn.functional as F

from surelabel.methods.imae import IMAE, imae_weight

GIVEN = torch.tensor([0, 1, 2])
X = torch.tensor([[2.0, 0.0, 1.0, 0.0], [0.0, 0.5, 0.0, 0.0], [1.0, 1.0, -1.0, 0.0]])
P = X[:, :3].softmax(1)
AT_GIVEN = P[torch.arange(3), GIVEN]


@pytest.fixture
def gradient(make_task, make_batch, make_clock):
    def of(x=X, given=GIVEN, **options):
        x = x.clone().requires_grad_()
        method = IMAE(make_task(given), **options)
        return torch.autograd.grad(method.step(make_batch(x, given), make_clock(1)).terms["imae"], x)[0][:, :3]

    return of


def test_weight_by_hand():
    half = torch.tensor([math.log(2)])
    assert imae_weight(half, 8.0).item() == pytest.approx(math.exp(8 / 4) / (2 * 0.5), rel=1e-5)


@pytest.mark.parametrize("temperature", [0.0, 4.0, 8.0])
def test_norm_of_the_gradient_is_the_formula(gradient, temperature):
    expected = (temperature * AT_GIVEN * (1 - AT_GIVEN)).exp() / 3
    assert torch.allclose(gradient(temperature=temperature).abs().sum(1), expected, rtol=1e-4)


def test_the_default_is_the_papers(gradient):
    assert torch.equal(gradient(), gradient(temperature=8.0))


def test_direction_is_cross_entropys(gradient):
    expected = P - F.one_hot(GIVEN, 3)
    assert torch.allclose(F.cosine_similarity(gradient(), expected), torch.ones(3), atol=1e-5)


def test_undecided_samples_weigh_most(gradient):
    x = torch.tensor([[math.log(p / (1 - p)), 0.0, -50.0, 0.0] for p in (0.05, 0.5, 0.95)])
    norms = gradient(x, torch.zeros(3, dtype=torch.long)).abs().sum(1)
    assert norms.argmax() == 1
    assert norms[0].item() == pytest.approx(norms[2].item(), rel=1e-4)


def test_extreme_logits_are_finite(gradient):
    x = torch.tensor([[200.0, 0.0, 0.0, 0.0], [200.0, 0.0, 0.0, 0.0]])
    grad = gradient(x, torch.tensor([0, 1]))
    assert bool(grad.isfinite().all())
    assert grad[1].abs().sum().item() == pytest.approx(1 / 2)


def test_the_weight_has_no_gradient():
    loss = torch.tensor([0.3], requires_grad=True)
    assert not imae_weight(loss, 8.0).requires_grad


def test_returns_the_logits_it_saw(make_task, make_batch, make_clock):
    assert torch.equal(IMAE(make_task(GIVEN)).step(make_batch(X, GIVEN), make_clock(1)).seen, X[:, :3])
