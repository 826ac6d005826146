"""Taylor cross entropy: the series by hand, and its two limits."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from surelabel.core.losses import cross_entropy
from surelabel.methods.tce import TCE, taylor_cross_entropy

GIVEN = torch.tensor([0, 1, 2])
X = torch.tensor([[2.0, 0.0, 1.0, 0.0], [0.0, 0.5, 0.0, 0.0], [1.0, 1.0, -1.0, 0.0]])
LOGITS = X[:, :3].double()
P = LOGITS.softmax(1)
AT_GIVEN = P[torch.arange(3), GIVEN]


def test_by_hand():
    doubt = 1 - AT_GIVEN
    expected = doubt + doubt**2 / 2 + doubt**3 / 3
    assert torch.allclose(taylor_cross_entropy(LOGITS, GIVEN, 3), expected)


def test_of_order_one_is_half_the_mean_absolute_error():
    assert torch.allclose(taylor_cross_entropy(LOGITS, GIVEN, 1), 1 - AT_GIVEN)


def test_of_high_order_is_cross_entropy():
    assert torch.allclose(taylor_cross_entropy(LOGITS, GIVEN, 1000), cross_entropy(LOGITS, GIVEN))


@pytest.mark.parametrize("order", [1, 2, 6])
def test_gradient(order):
    logits = LOGITS.clone().requires_grad_()
    (grad,) = torch.autograd.grad(taylor_cross_entropy(logits, GIVEN, order).sum(), logits)
    expected = (1 - (1 - AT_GIVEN) ** order)[:, None] * (P - F.one_hot(GIVEN, 3))
    assert torch.allclose(grad, expected)


@settings(deadline=None, max_examples=50)
@given(logits=st.lists(st.floats(-15, 15), min_size=2, max_size=5), order=st.integers(1, 8))
def test_grows_with_the_order_and_stays_below_cross_entropy(logits, order):
    rows, label = torch.tensor([logits], dtype=torch.float64), torch.tensor([0])
    value = taylor_cross_entropy(rows, label, order).item()
    assert value <= taylor_cross_entropy(rows, label, order + 1).item() + 1e-12
    assert value <= cross_entropy(rows, label).item() + 1e-9


def test_a_vanishing_p_is_bounded_with_a_finite_gradient():
    logits = torch.tensor([[200.0, 0.0]], requires_grad=True)
    loss = taylor_cross_entropy(logits, torch.tensor([1]), 2)
    loss.backward()
    assert loss.item() == pytest.approx(1.5)
    assert bool(logits.grad.isfinite().all())


def test_step(make_task, make_batch, make_clock):
    weight = torch.tensor([0.0, 1.0, 1.0])
    done = TCE(make_task(GIVEN), order=4).step(make_batch(X, GIVEN, weight=weight), make_clock(1))
    expected = taylor_cross_entropy(LOGITS, GIVEN, 4)[1:].mean().item()
    assert done.terms["tce"].item() == pytest.approx(expected, rel=1e-5)
    assert torch.equal(done.seen, X[:, :3])
