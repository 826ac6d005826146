"""The baseline, and CAR's target strategies on it."""

import pytest
import torch
import torch.nn.functional as F

from surelabel.methods.cross_entropy import CrossEntropy

GIVEN = torch.tensor([0, 1, 2])
ONE_HOT = F.one_hot(GIVEN, 3).float()
X = torch.tensor([[2.0, 0.0, 1.0, 0.0], [0.0, 0.5, 0.0, 0.0], [1.0, 1.0, -1.0, 0.0]])
P = X[:, :3].softmax(1)
SEEN = torch.tensor([0.9, 0.5, 0.1])


def soft(target):
    return -(target * P.log()).sum(1).mean().item()


@pytest.fixture
def make(make_task):
    return lambda epochs=20, **options: CrossEntropy(make_task(GIVEN, epochs=epochs), **options)


@pytest.fixture
def loss(make_batch, make_clock):
    def step(method, epoch, x=X):
        (name, term), *rest = method.step(make_batch(x, GIVEN), make_clock(epoch)).terms.items()
        assert (name, rest) == ("cross_entropy", [])
        return term

    return step


def test_is_minus_log_p_at_the_given_label(make, loss):
    assert loss(make(), 20).item() == pytest.approx(soft(ONE_HOT), rel=1e-6)


def test_gradient_is_p_minus_e_over_b(make, loss):
    x = X.clone().requires_grad_()
    (grad,) = torch.autograd.grad(loss(make(), 1, x), x)
    assert torch.allclose(grad[:, :3], (P - ONE_HOT) / 3, atol=1e-7)


def test_plain_has_no_table_and_no_warning(make):
    method = make(epochs=1)
    assert method.target_tables() == []
    assert method.advice("settings") == []
    assert not [name for name in method.state_dict() if name.startswith("target")]


def test_plain_verdict_is_the_running_mean_and_the_prediction(make, verdict_of):
    verdict = verdict_of(make(), X, GIVEN, seen=SEEN)
    assert torch.equal(verdict.quality, SEEN)
    assert torch.allclose(verdict.corrected, P)


def test_car_targets_are_those_of_car_with_every_row_confident(make, loss):
    method = make(targets="car", correction_start=2, momentum=0.75)
    assert loss(method, 1).item() == pytest.approx(soft(ONE_HOT), rel=1e-6)
    target = 0.75 * ONE_HOT + 0.25 * P
    assert loss(method, 2).item() == pytest.approx(soft(target), rel=1e-6)
    assert torch.allclose(method.target.table.whole(), target)


def test_car_targets_follow_restarts(make_task, loss):
    method = CrossEntropy(make_task(GIVEN, restart_period=5), targets="car", correction_start=1)
    for epoch in (1, 2, 3, 4):
        loss(method, epoch)
    assert torch.equal(method.target.table.whole(), ONE_HOT)
    loss(method, 5)
    assert torch.allclose(method.target.table.whole(), 0.9 * ONE_HOT + 0.1 * P)


def test_temporal_ensembling(make, loss):
    method = make(targets="temporal_ensembling", correction_start=2, momentum=0.75)
    assert loss(method, 1).item() == pytest.approx(soft(ONE_HOT), rel=1e-6)
    assert loss(method, 2).item() == pytest.approx(soft(P), rel=1e-5)


def test_no_gradient_flows_through_the_target(make, loss):
    x = X.clone().requires_grad_()
    (grad,) = torch.autograd.grad(loss(make(targets="car", correction_start=1, momentum=0.0), 1, x), x)
    assert torch.allclose(grad, torch.zeros_like(x), atol=1e-7)


def test_start_is_the_published_share(make):
    assert make(epochs=500, targets="car").target.start == 60


def test_warns_when_targets_cannot_change(make):
    (text,) = make(epochs=20, targets="car", correction_start=21).advice("settings")
    assert "can never correct a label" in text
