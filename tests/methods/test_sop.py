"""SOP: the noise by hand, the authors' formulas for all terms, and the steps of u and v."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from surelabel.api import Interrupted, fit, resume
from surelabel.core import Batch
from surelabel.methods.sop import (
    INITIAL_SCALE,
    SOP,
    add_noise,
    divergence,
    explain_noise,
    imbalance,
    largest_growth,
    noise_gradients,
    unexplained,
)

GIVEN = torch.tensor([0, 1, 2, 0])
P = torch.tensor([[0.5, 0.25, 0.25], [0.2, 0.2, 0.6], [0.1, 0.1, 0.8], [0.7, 0.2, 0.1]])
X = F.pad(P.log(), (0, 1))


@pytest.fixture
def make(make_task):
    return lambda given=GIVEN, num_classes=3, **options: SOP(make_task(given, num_classes), **options)


def authors_loss(index, outputs, label, u, v, ratio_consistency, ratio_balance):
    """The loss as the authors' code has it, from the notes on it: one scalar for everything."""
    eps = 1e-4
    output, *output2 = outputs.split(len(index))
    u_square = torch.clamp(u[index] ** 2 * label, 0, 1)
    v_square = torch.clamp(v[index] ** 2 * (1 - label), 0, 1)
    prediction = torch.clamp(F.softmax(output, dim=1) + u_square - v_square.detach(), min=eps)
    prediction = torch.clamp(F.normalize(prediction, p=1, eps=eps), min=eps, max=1.0)
    hard = F.one_hot(output.detach().argmax(1), label.shape[1])
    loss = torch.mean(-torch.sum(label * torch.log(prediction), dim=-1))
    loss = loss + F.mse_loss(hard + u_square - v_square, label, reduction="sum") / len(label)
    average = torch.clamp(prediction.mean(0), min=eps, max=1.0)
    loss = loss + ratio_balance * -(torch.log(average) / label.shape[1]).sum()
    if output2:
        target = F.softmax(output, dim=1).detach()
        loss = loss + ratio_consistency * F.kl_div(F.log_softmax(output2[0], 1), target, reduction="none").sum(1).mean()
    return loss


class TestTheAuthorsCode:
    """A batch of 128 rows of 10 classes, at several scales of the logits, of u and of v."""

    @pytest.mark.parametrize("scale", [1.0, 8.0])
    @pytest.mark.parametrize("noise", [1e-8, 0.3, 1.5])
    @pytest.mark.parametrize(("consistency", "balance"), [(0.0, 0.0), (0.0, 0.1), (0.9, 0.1)])
    def test_losses_gradients_and_steps_are_equal(self, make, make_clock, scale, noise, consistency, balance):
        torch.manual_seed(0)
        size, classes = 128, 10
        given = torch.randint(classes, (size,))
        x = [(scale * torch.randn(size, classes + 1)) for _ in range(2 if consistency else 1)]
        method = make(given, classes, consistency_weight=consistency, balance_weight=balance, u_rate=1.0, v_rate=10.0)
        method.double()
        x = [one.double().requires_grad_() for one in x]
        u, v = noise * torch.randn(size, 1).double(), noise * torch.randn(size, classes).double()
        method.u.replace(u[:, 0])
        method.v.replace(v)
        batch = Batch(torch.arange(size), tuple(x), given, torch.ones(size).double())
        loss = sum(method.step(batch, make_clock(1)).terms.values())

        u, v = nn.Parameter(u), nn.Parameter(v)
        optimiser = torch.optim.SGD([{"params": u, "lr": 1.0}, {"params": v, "lr": 10.0}], lr=1.0)
        seen = torch.cat(x)[:, :classes]
        label = F.one_hot(given, classes).double()
        expected = authors_loss(torch.arange(size), seen, label, u, v, consistency, balance)
        assert loss.item() == pytest.approx(expected.item(), rel=1e-12)
        gradients = torch.autograd.grad(expected, x, retain_graph=True)
        torch.testing.assert_close(torch.autograd.grad(loss, x), gradients, rtol=1e-10, atol=1e-14)
        expected.backward()
        optimiser.step()
        torch.testing.assert_close(method.u.whole(), u.detach()[:, 0], rtol=1e-12, atol=0)
        torch.testing.assert_close(method.v.whole(), v.detach(), rtol=1e-12, atol=0)


class TestParts:
    def test_noise_by_hand(self):
        u, v = torch.tensor([0.5, 3.0]), torch.tensor([[9.0, 0.1, 0.2], [2.0, 9.0, 0.3]])
        added, removed = explain_noise(u, v, torch.tensor([0, 1]))
        assert torch.allclose(added, torch.tensor([[0.25, 0, 0], [0, 1, 0]]))
        assert torch.allclose(removed, torch.tensor([[0, 0.01, 0.04], [1, 0, 0.09]]))

    def test_explained_by_hand(self):
        """p = (.2, .3, .5), U_0 = .4, V_2 = .3: (.6, .3, .2) / 1.1; clamped where V exceeds p."""
        added, removed = torch.tensor([[0.4, 0, 0]]), torch.tensor([[0, 0, 0.3]])
        noisy = add_noise(torch.tensor([[0.2, 0.3, 0.5]]), added, removed)
        assert torch.allclose(noisy, torch.tensor([[0.6, 0.3, 0.2]]) / 1.1)
        noisy = add_noise(torch.tensor([[0.2, 0.3, 0.5]]), added, 3 * removed)
        assert torch.allclose(noisy, torch.tensor([[0.6, 0.3, 1e-4]]) / 0.9001)

    def test_without_noise_the_prediction_stays(self):
        assert torch.allclose(add_noise(P, torch.zeros(4, 3), torch.zeros(4, 3)), P, atol=1e-6)

    def test_no_gradient_through_what_is_removed(self):
        removed = torch.full((4, 3), 0.1, requires_grad=True)
        assert not add_noise(P, torch.zeros(4, 3), removed).requires_grad

    def test_unexplained_by_hand(self):
        """Row 1 predicts class 2 instead of 1: 1 + 1 without noise; the others are right."""
        zero = torch.zeros(4, 3)
        assert unexplained(P.log(), zero, zero, GIVEN).tolist() == [0, 2, 0, 0]
        added, removed = zero.clone(), zero.clone()
        added[1, 1], removed[1, 2] = 0.75, 0.5
        assert unexplained(P.log(), added, removed, GIVEN)[1].item() == pytest.approx(0.25**2 + 0.5**2)

    def test_balance_and_divergence(self):
        assert imbalance(torch.full((4,), 0.25)).item() == pytest.approx(math.log(4))
        assert imbalance(torch.tensor([0.5, 0.5, 0, 0])).item() == pytest.approx(
            -(2 * math.log(0.5) + 2 * math.log(1e-4)) / 4
        )
        assert torch.allclose(divergence(P.log(), P.log()), torch.zeros(4), atol=1e-7)
        second = P.flip(0).log().requires_grad_()
        kl = divergence(P.log(), second)
        assert torch.allclose(kl, (P * (P / P.flip(0)).log()).sum(1), atol=1e-6)
        assert torch.allclose(torch.autograd.grad(kl.sum(), second)[0], P.flip(0) - P, atol=1e-6)


class TestStep:
    def test_at_the_start_it_is_cross_entropy(self, make, make_batch, make_clock):
        terms = make().step(make_batch(X, GIVEN), make_clock(1)).terms
        assert terms["cross_entropy"].item() == pytest.approx(F.cross_entropy(X[:, :3], GIVEN).item(), rel=1e-5)
        assert terms["unexplained"].item() == pytest.approx(2 / 4)
        assert set(terms) == {"cross_entropy", "unexplained"}

    def test_noise_starts_small_and_by_the_seed(self, make_task):
        first, same, other = (SOP(make_task(GIVEN.repeat(250), seed=seed)) for seed in (0, 0, 1))
        for name in ("u", "v"):
            rows = getattr(first, name).whole()
            assert rows.std().item() == pytest.approx(INITIAL_SCALE, rel=0.1)
            assert torch.equal(rows, getattr(same, name).whole())
            assert not torch.equal(rows, getattr(other, name).whole())

    def test_one_step_of_u_and_v_by_hand(self, make, make_batch, make_clock):
        """Row 1: p_y = .2, predicted class 2. With small noise dL/du = -2 u (1/p_y - 1 + 2)."""
        method = make(u_rate=1.0, v_rate=10.0)
        u, v = 1e-3 * torch.tensor([1.0, 2, 3, 4]), 1e-3 * torch.ones(4, 3)
        method.u.replace(u)
        method.v.replace(v)
        method.step(make_batch(X, GIVEN), make_clock(1))
        assert method.u.whole()[1].item() == pytest.approx(2e-3 * (1 + 2 / 128 * (1 / 0.2 - 1 + 2)), rel=1e-4)
        assert method.u.whole()[0].item() == pytest.approx(1e-3 * (1 + 2 / 128 * (1 / 0.5 - 1)), rel=1e-4)
        assert method.v.whole()[1, 2].item() == pytest.approx(1e-3 * (1 + 10 / 128 * 4), rel=1e-4)
        assert torch.allclose(method.v.whole()[0], v[0], rtol=1e-5), "its class is predicted: nothing to remove"

    def test_a_step_does_not_depend_on_the_rest_of_the_batch(self, make, make_batch, make_clock):
        alone, together = make(), make()
        alone.step(make_batch(X[1:2], GIVEN[1:2], torch.tensor([1])), make_clock(1))
        together.step(make_batch(X, GIVEN), make_clock(1))
        assert torch.equal(alone.u.whole()[1], together.u.whole()[1])
        assert torch.equal(alone.v.whole()[1], together.v.whole()[1])

    def test_a_label_that_is_never_predicted_ends_up_as_noise(self, make, make_batch, make_clock):
        method = make(u_rate=10.0, v_rate=100.0)
        for _ in range(60):
            step = method.step(make_batch(X, GIVEN), make_clock(1))
        added, removed = explain_noise(method.u.whole(), method.v.whole(), GIVEN)
        assert added[1, 1] > 0.9
        assert removed[1, 2] > 0.9
        assert step.terms["unexplained"] < 0.1
        x = X.clone().requires_grad_()
        (grad,) = torch.autograd.grad(method.step(make_batch(x, GIVEN), make_clock(1)).terms["cross_entropy"], x)
        assert grad[1, 1].abs() < 0.1 * (1 - P[1, 1]) / 4, "the gradient of cross entropy is (1 - p_y) / B"

    def test_padding_neither_counts_nor_moves(self, make, make_batch, make_clock):
        padded, alone = make(balance_weight=0.1), make(balance_weight=0.1)
        weight = torch.tensor([1.0, 1, 0, 0])
        batch = make_batch(X, GIVEN, torch.tensor([0, 1, -1, -1]), weight)
        terms = padded.step(batch, make_clock(1)).terms
        for name, expected in alone.step(make_batch(X[:2], GIVEN[:2]), make_clock(1)).terms.items():
            assert terms[name].item() == pytest.approx(expected.item())
        assert torch.allclose(padded.u.whole(), alone.u.whole(), rtol=1e-6)

    def test_a_confirmed_label_is_never_noise(self, make_task, make_batch, make_clock):
        trusted = torch.tensor([False, True, False, False])
        method = SOP(make_task(GIVEN, trusted=trusted), u_rate=10.0, v_rate=100.0)
        before = method.u.whole(), method.v.whole()
        x = X.clone()
        x[1] = torch.tensor([0.0, -20, 20, 0])  # p_y is far below the clamp
        x.requires_grad_()
        for _ in range(60):
            step = method.step(make_batch(x, GIVEN), make_clock(1))
        assert torch.equal(method.u.whole()[1], before[0][1])
        assert torch.equal(method.v.whole()[1], before[1][1])
        (grad,) = torch.autograd.grad(step.terms["cross_entropy"], x)
        assert torch.allclose(grad[1, :3], (x[1, :3].softmax(0) - F.one_hot(GIVEN, 3)[1]).detach() / 4, atol=1e-6)


def test_views(make):
    """One view by default; with a consistency term two, of which the second may be strong."""

    def view(**options):
        (stage,) = make(**options).stages()
        return stage.plan[0].views["batch"]

    assert (view().copies, view().augment) == (1, True)
    both = view(consistency_weight=0.9, strong=True)
    assert (both.copies, both.augment) == (2, "strong_copies")


def test_seen_are_the_logits_of_the_first_view(make, make_batch, make_clock):
    batch = Batch(torch.arange(4), (X, X.flip(0)), GIVEN, torch.ones(4))
    assert torch.equal(make(consistency_weight=0.9).step(batch, make_clock(1)).seen, X[:, :3])


def test_gradients_leave_their_inputs_alone():
    u, v = torch.ones(4), torch.ones(4, 3)
    noise_gradients(P.log(), u, v, GIVEN, P.mean(0), 0.1)
    assert not u.requires_grad
    assert not v.requires_grad


class TestAdvice:
    def test_a_step_too_small_for_the_run(self, make):
        assert make().advice("settings") == []
        (text,) = make(u_rate=1e-6).advice("settings")
        assert "u_rate=1e-06" in text
        assert "u_rate=1 " in text
        assert largest_growth(1.0) ** 2 < 1 / INITIAL_SCALE < largest_growth(1.0) ** 4

    def test_a_strong_view_without_a_second(self, make):
        (text,) = make(strong=True).advice("settings")
        assert "consistency_weight=0.9" in text
        assert make(strong=True, consistency_weight=0.9).advice("settings") == []


def test_verdict_has_the_noise_as_evidence(make, verdict_of):
    method = make()
    method.u.replace(torch.tensor([0.0, 0.5, 2, 0]))
    seen = torch.tensor([0.1, 0.9, 0.4, 0.3])
    verdict = verdict_of(method, X, GIVEN, seen=seen)
    assert torch.equal(verdict.quality, seen)
    assert torch.allclose(verdict.corrected, P, atol=1e-6)
    assert torch.allclose(verdict.evidence["noise"], torch.tensor([0, 0.25, 1, 0]))


def test_state_survives_a_restart(make, make_batch, make_clock):
    before, after = make(), make()
    before.step(make_batch(X, GIVEN), make_clock(1))
    after.load_state_dict(before.state_dict())
    assert torch.equal(after.u.whole(), before.u.whole())
    assert torch.equal(after.v.whole(), before.v.whole())


@pytest.mark.training
def test_both_terms_of_sop_plus_resume_bit_equal_on_images(tiny, tmp_path, outcome):
    """Two views of augmented images, of which the second is strong: they do not agree by nature."""
    rng = np.random.default_rng(0)
    label = np.arange(36) % 3
    x = np.clip(60 * label[:, None, None, None] + rng.integers(0, 120, (36, 3, 12, 12)), 0, 255).astype(np.uint8)
    np.savez(tmp_path / "images.npz", x=x, y=label, x_test=x[:6], y_test=label[:6])
    plus = {"consistency_weight": 0.9, "balance_weight": 0.1, "strong": True, "u_rate": 10.0}
    settings = tiny("sop", method__options=plus, train__augment=True, train__batch_size=12)
    settings["data"] = {"source": str(tmp_path / "images.npz")}
    whole = fit(settings, tmp_path / "whole")
    assert {name: value > 0 for name, value in whole.metrics()[-1]["terms"].items()} == {
        "cross_entropy": True,
        "unexplained": True,
        "balance": True,
        "consistency": True,
    }
    with pytest.raises(Interrupted):
        fit(settings, tmp_path / "pieces", interrupt=iter([False] * 4 + [True]).__next__)
    assert outcome(resume(tmp_path / "pieces")) == outcome(whole)
