"""Losses that several methods use."""

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from surelabel.core.losses import cross_entropy, generalised_cross_entropy, mean_absolute_error, reverse_cross_entropy

LOGITS = torch.tensor([[0.0, math.log(3), 0.0], [math.log(2), 0.0, 0.0]], dtype=torch.float64)
LABEL = torch.tensor([1, 2])
AT_LABEL = torch.tensor([3 / 5, 1 / 4], dtype=torch.float64)


def gradient(loss, logits=LOGITS):
    logits = logits.clone().requires_grad_()
    return torch.autograd.grad(loss(logits).sum(), logits)[0]


class TestCrossEntropy:
    def test_by_hand(self):
        assert torch.allclose(cross_entropy(LOGITS, LABEL), -AT_LABEL.log())

    def test_of_soft_targets_by_hand(self):
        target = torch.tensor([[0.0, 0.5, 0.5], [1.0, 0.0, 0.0]], dtype=torch.float64)
        expected = [-(math.log(3 / 5) + math.log(1 / 5)) / 2, -math.log(2 / 4)]
        assert cross_entropy(LOGITS, target).tolist() == pytest.approx(expected)

    def test_of_one_hot_targets_is_that_of_labels(self):
        assert torch.allclose(cross_entropy(LOGITS, F.one_hot(LABEL, 3).double()), cross_entropy(LOGITS, LABEL))

    def test_gradient_is_p_minus_the_target(self):
        expected = LOGITS.softmax(1) - F.one_hot(LABEL, 3)
        assert torch.allclose(gradient(lambda z: cross_entropy(z, LABEL)), expected)

    def test_does_not_change_with_a_constant(self):
        assert torch.allclose(cross_entropy(LOGITS + 50, LABEL), cross_entropy(LOGITS, LABEL))

    def test_of_large_logits_is_finite(self):
        logits = torch.tensor([[100.0, -100.0]])
        assert cross_entropy(logits, torch.tensor([1])).item() == 200
        assert cross_entropy(logits, torch.tensor([[0.0, 1.0]])).item() == 200


class TestGeneralisedCrossEntropy:
    def test_by_hand(self):
        values = generalised_cross_entropy(LOGITS, LABEL, 0.5)
        assert values.tolist() == pytest.approx([(1 - math.sqrt(3 / 5)) / 0.5, (1 - math.sqrt(1 / 4)) / 0.5])

    def test_near_zero_is_cross_entropy(self):
        for dtype, q in ((torch.float64, 1e-6), (torch.float32, 1e-6), (torch.float32, 1e-12)):
            logits = LOGITS.to(dtype)
            difference = generalised_cross_entropy(logits, LABEL, q) - cross_entropy(logits, LABEL)
            assert difference.abs().max() < 1e-5

    def test_of_one_is_one_minus_p(self):
        assert torch.allclose(generalised_cross_entropy(LOGITS, LABEL, 1.0), 1 - AT_LABEL)

    @pytest.mark.parametrize("q", [0.1, 0.7, 1.0])
    def test_gradient_is_cross_entropys_times_p_to_the_q(self, q):
        expected = AT_LABEL[:, None] ** q * (LOGITS.softmax(1) - F.one_hot(LABEL, 3))
        assert torch.allclose(gradient(lambda z: generalised_cross_entropy(z, LABEL, q)), expected)

    def test_falls_as_p_grows(self):
        logits = torch.stack([torch.linspace(-5, 5, 50), torch.zeros(50)], 1)
        assert bool((generalised_cross_entropy(logits, torch.zeros(50, dtype=torch.long), 0.7).diff() < 0).all())

    @settings(deadline=None)
    @given(logits=st.lists(st.floats(-20, 20), min_size=2, max_size=6), q=st.floats(0.01, 1))
    def test_sum_over_all_labels_is_bounded_as_in_the_paper(self, logits, q):
        K = len(logits)
        rows = torch.tensor([logits] * K, dtype=torch.float64)
        total = generalised_cross_entropy(rows, torch.arange(K), q).sum().item()
        assert (K - K ** (1 - q)) / q - 1e-9 <= total <= (K - 1) / q + 1e-9

    def test_of_a_vanishing_p_is_bounded_with_a_finite_gradient(self):
        logits = torch.tensor([[100.0, -100.0]])
        label = torch.tensor([1])
        assert generalised_cross_entropy(logits, label, 0.7).item() == pytest.approx(1 / 0.7)
        assert bool(gradient(lambda z: generalised_cross_entropy(z, label, 0.7), logits).isfinite().all())


class TestBoundedLosses:
    def test_mean_absolute_error_is_the_distance_to_the_label(self):
        expected = (LOGITS.softmax(1) - F.one_hot(LABEL, 3)).abs().sum(1)
        assert torch.allclose(mean_absolute_error(LOGITS, LABEL), expected)

    def test_mean_absolute_error_over_all_labels_is_constant(self):
        rows = LOGITS[:1].expand(3, 3)
        assert mean_absolute_error(rows, torch.arange(3)).sum().item() == pytest.approx(2 * (3 - 1))

    def test_reverse_cross_entropy_by_its_definition(self):
        log_label = torch.where(F.one_hot(LABEL, 3) > 0, 0.0, -4.0)
        expected = -(LOGITS.softmax(1) * log_label).sum(1)
        assert torch.allclose(reverse_cross_entropy(LOGITS, LABEL, -4.0), expected)
