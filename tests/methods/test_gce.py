"""Generalized cross entropy; the loss itself is tested in tests/test_losses.py."""

import pytest
import torch
import torch.nn.functional as F

from surelabel.methods.gce import GCE

GIVEN = torch.tensor([0, 1, 2])
X = torch.tensor([[2.0, 0.0, 1.0, 0.0], [0.0, 0.5, 0.0, 0.0], [1.0, 1.0, -1.0, 0.0]])
P = X[:, :3].softmax(1)
AT_GIVEN = P[torch.arange(3), GIVEN]


@pytest.fixture
def loss(make_task, make_batch, make_clock):
    def step(q, x=X, **batch):
        options = {} if q is None else {"q": q}
        return GCE(make_task(GIVEN), **options).step(make_batch(x, GIVEN, **batch), make_clock(1)).terms["gce"]

    return step


def test_by_hand_with_the_default_of_the_paper(loss):
    assert loss(None).item() == pytest.approx(((1 - AT_GIVEN**0.7) / 0.7).mean().item(), rel=1e-5)


def test_near_zero_is_cross_entropy(loss):
    assert loss(1e-6).item() == pytest.approx(-AT_GIVEN.log().mean().item(), abs=1e-5)


def test_one_is_half_the_mean_absolute_error(loss):
    error = (P - F.one_hot(GIVEN, 3)).abs().sum(1).mean().item()
    assert loss(1.0).item() == pytest.approx(error / 2, rel=1e-5)


def test_gradient_is_cross_entropys_times_p_to_the_q(loss):
    x = X.clone().requires_grad_()
    (grad,) = torch.autograd.grad(loss(0.7, x), x)
    expected = AT_GIVEN[:, None] ** 0.7 * (P - F.one_hot(GIVEN, 3)) / 3
    assert torch.allclose(grad[:, :3], expected, atol=1e-6)


def test_padding_does_not_count(loss):
    weight = torch.tensor([1.0, 1.0, 0.0])
    assert loss(1.0, weight=weight).item() == pytest.approx((1 - AT_GIVEN[:2]).mean().item(), rel=1e-5)


def test_says_what_it_saw(make_task, make_batch, make_clock):
    assert torch.equal(GCE(make_task(GIVEN)).step(make_batch(X, GIVEN), make_clock(1)).seen, X[:, :3])
