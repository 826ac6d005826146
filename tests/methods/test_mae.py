"""Mean absolute error; the loss itself is tested in tests/core/test_losses.py."""

import pytest
import torch
import torch.nn.functional as F

from surelabel.methods.mae import MAE

GIVEN = torch.tensor([0, 1, 2])
X = torch.tensor([[2.0, 0.0, 1.0, 0.0], [0.0, 0.5, 0.0, 0.0], [1.0, 1.0, -1.0, 0.0]])
P = X[:, :3].softmax(1)


@pytest.fixture
def step(make_task, make_batch, make_clock):
    return lambda x=X, given=GIVEN, **batch: MAE(make_task(given)).step(make_batch(x, given, **batch), make_clock(1))


def test_by_hand(step):
    assert step().terms["mae"].item() == pytest.approx((P - F.one_hot(GIVEN, 3)).abs().sum(1).mean().item())


def test_gradient_is_cross_entropys_times_twice_p(step):
    x = X.clone().requires_grad_()
    (grad,) = torch.autograd.grad(step(x).terms["mae"], x)
    at_given = P.gather(1, GIVEN[:, None])
    assert torch.allclose(grad[:, :3], 2 * at_given * (P - F.one_hot(GIVEN, 3)) / 3, atol=1e-6)


def test_symmetric_noise_only_scales_it(step):
    """The mean over all labels does not depend on the prediction."""
    totals = [sum(step(x, torch.full((3,), label)).terms["mae"].item() for label in range(3)) for x in (X, -3 * X)]
    assert totals == pytest.approx([4, 4])


def test_padding_does_not_count(step):
    weight = torch.tensor([1.0, 0.0, 0.0])
    assert step(weight=weight).terms["mae"].item() == pytest.approx(2 * (1 - P[0, 0].item()))


def test_a_batch_of_one_and_the_logits_it_saw(step):
    done = step(X[:1], GIVEN[:1])
    assert done.terms["mae"].item() == pytest.approx(2 * (1 - P[0, 0].item()))
    assert torch.equal(done.seen, X[:1, :3])
