"""Label smoothing: equal to PyTorch's, and its limits."""

import math

import pytest
import torch
import torch.nn.functional as F

from surelabel.methods.label_smoothing import LabelSmoothing, smoothed_cross_entropy

GIVEN = torch.tensor([0, 1, 2])
X = torch.tensor([[2.0, 0.0, 1.0, 0.0], [0.0, 0.5, 0.0, 0.0], [1.0, 1.0, -1.0, 0.0]])
LOGITS = X[:, :3]


def test_by_hand():
    logits = torch.tensor([[0.0, math.log(3), 0.0]])
    target, log_p = [0.1, 0.1, 0.8], [math.log(1 / 5), math.log(3 / 5), math.log(1 / 5)]
    expected = -sum(t * v for t, v in zip(target, log_p, strict=True))
    assert smoothed_cross_entropy(logits, torch.tensor([2]), 0.3).item() == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.5, 1.0])
def test_equals_torchs(smoothing):
    expected = F.cross_entropy(LOGITS, GIVEN, reduction="none", label_smoothing=smoothing)
    assert torch.allclose(smoothed_cross_entropy(LOGITS, GIVEN, smoothing), expected)


def test_without_smoothing_it_is_cross_entropy():
    assert torch.equal(smoothed_cross_entropy(LOGITS, GIVEN, 0.0), F.cross_entropy(LOGITS, GIVEN, reduction="none"))


def test_all_smoothed_is_least_at_equal_probabilities():
    label = torch.tensor([0])
    assert smoothed_cross_entropy(torch.zeros(1, 4), label, 1.0).item() == pytest.approx(math.log(4))
    assert smoothed_cross_entropy(torch.tensor([[1.0, 0, 0, 0]]), label, 1.0).item() > math.log(4)


def test_step(make_task, make_batch, make_clock):
    weight = torch.tensor([1.0, 1.0, 0.0])
    done = LabelSmoothing(make_task(GIVEN)).step(make_batch(X, GIVEN, weight=weight), make_clock(1))
    expected = F.cross_entropy(LOGITS[:2], GIVEN[:2], label_smoothing=0.1).item()
    assert done.terms["cross_entropy"].item() == pytest.approx(expected, rel=1e-6)
    assert torch.equal(done.seen, LOGITS)
