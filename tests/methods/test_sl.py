"""Symmetric cross entropy: both directions by hand."""

import math

import pytest
import torch
import torch.nn.functional as F

from surelabel.methods.sl import SL

GIVEN = torch.tensor([0, 1, 2])
X = torch.tensor([[2.0, 0.0, 1.0, 0.0], [0.0, 0.5, 0.0, 0.0], [1.0, 1.0, -1.0, 0.0]])
P = X[:, :3].softmax(1)
AT_GIVEN = P[torch.arange(3), GIVEN]


@pytest.fixture
def step(make_task, make_batch, make_clock):
    def of(x=X, given=GIVEN, weight=None, **options):
        return SL(make_task(given), **options).step(make_batch(x, given, weight=weight), make_clock(1))

    return of


def test_defaults_are_the_authors_for_ten_classes(step):
    terms = step().terms
    assert terms["forward"].item() == pytest.approx(-0.1 * AT_GIVEN.log().mean().item(), rel=1e-5)
    assert terms["reverse"].item() == pytest.approx(-math.log(1e-4) * (1 - AT_GIVEN).mean().item(), rel=1e-5)


def test_without_the_reverse_term_is_cross_entropy(step):
    terms = step(forward_weight=1.0, reverse_weight=0.0).terms
    assert sum(terms.values()).item() == pytest.approx(F.cross_entropy(X[:, :3], GIVEN).item(), rel=1e-6)


def test_gradient(step):
    x = X.clone().requires_grad_()
    terms = step(x, forward_weight=0.3, reverse_weight=2.0, log_zero=-4.0).terms
    (grad,) = torch.autograd.grad(sum(terms.values()), x)
    expected = (0.3 + 2 * 4 * AT_GIVEN)[:, None] * (P - F.one_hot(GIVEN, 3)) / 3
    assert torch.allclose(grad[:, :3], expected, atol=1e-6)


def test_the_reverse_term_is_symmetric(step):
    """Over all labels it sums to -A (K - 1)."""
    values = [step(given=torch.full((3,), label), log_zero=-4.0).terms["reverse"].item() for label in range(3)]
    assert sum(values) == pytest.approx(4 * (3 - 1), rel=1e-5)


def test_a_wrong_label_costs_a_bounded_reverse_term(step):
    x = torch.tensor([[100.0, -100.0, 0.0, 0.0]])
    assert step(x, torch.tensor([1]), log_zero=-4.0).terms["reverse"].item() == pytest.approx(4)


def test_padding_does_not_count(step):
    terms = step(weight=torch.tensor([0.0, 1.0, 0.0]), forward_weight=1.0).terms
    assert terms["forward"].item() == pytest.approx(-AT_GIVEN[1].log().item(), rel=1e-5)


def test_says_what_it_saw_and_what_to_try(step, make_task):
    assert torch.equal(step().seen, X[:, :3])
    assert "forward_weight=0.1" in SL(make_task(GIVEN)).advice("chance")[0]
