"""Mixup: the loss by hand, its limits, and pairs without padding."""

import pytest
import torch
import torch.nn.functional as F

from surelabel.methods._mixing import draw_mixing_weight, mix
from surelabel.methods.mixup import Mixup

GIVEN = torch.tensor([0, 1, 2, 1])
X = torch.randn(4, 4, generator=torch.Generator().manual_seed(0))


@pytest.fixture
def make(make_task):
    return lambda given=GIVEN, **options: Mixup(make_task(given), **options)


@pytest.fixture
def loss(make, make_batch, make_clock):
    def of(x=X, given=GIVEN, epoch=1, weight=None, **options):
        return make(given, **options).step(make_batch(x, given, weight=weight), make_clock(epoch)).terms["mixup"]

    return of


def pairs(clock, share):
    """Return the partner of each row, read off mixed one-hot rows: share e_i + (1 - share) e_j."""
    eye = torch.eye(4)
    ((_, target),) = mix([(eye, eye, torch.ones(4))], share, clock)
    partner = ((target - share * eye) / (1 - share)).round().argmax(1)
    return partner.tolist()


def test_by_hand(loss, make_clock):
    clock = make_clock(1)
    share = draw_mixing_weight(2.0, clock)
    expected = 0.0
    for i, j in enumerate(pairs(clock, share)):
        log_p = (share * X[i, :3] + (1 - share) * X[j, :3]).log_softmax(0)
        expected -= (share * log_p[GIVEN[i]] + (1 - share) * log_p[GIVEN[j]]).item() / 4
    assert loss(alpha=2.0).item() == pytest.approx(expected, rel=1e-5)


def test_zero_is_cross_entropy(loss):
    assert loss(alpha=0.0).item() == pytest.approx(F.cross_entropy(X[:, :3], GIVEN).item(), rel=1e-6)


def test_near_zero_mixes_almost_nothing(loss):
    assert loss(alpha=1e-4).item() == pytest.approx(F.cross_entropy(X[:, :3], GIVEN).item(), rel=1e-3)


def test_exchanging_partners_and_shares_changes_nothing():
    generator = torch.Generator().manual_seed(1)
    order = torch.randperm(4, generator=generator)
    target = F.one_hot(GIVEN, 3).float()

    def soft(share, order):
        x = share * X[:, :3] + (1 - share) * X[order, :3]
        return F.cross_entropy(x, share * target + (1 - share) * target[order]).item()

    assert soft(0.3, order) == pytest.approx(soft(0.7, order.argsort()), rel=1e-6)


def test_draws_differ_from_step_to_step_and_not_from_run_to_run(loss):
    assert loss(epoch=1).item() == loss(epoch=1).item()
    assert loss(epoch=1).item() != loss(epoch=2).item()


def test_padding_is_never_a_partner(loss):
    weight = torch.tensor([1.0, 1.0, 1.0, 0.0])
    other = X.clone()
    other[3] = 1e3
    assert loss(weight=weight).item() == loss(other, weight=weight).item()


def test_a_batch_of_one_is_mixed_with_itself(make, make_batch, make_clock):
    step = make(GIVEN[:1]).step(make_batch(X[:1], GIVEN[:1]), make_clock(1))
    assert step.terms["mixup"].item() == pytest.approx(F.cross_entropy(X[:1, :3], GIVEN[:1]).item(), rel=1e-5)


def test_mixed_rows_are_not_recorded(make, make_batch, make_clock):
    assert make().step(make_batch(X, GIVEN), make_clock(1)).seen is None
