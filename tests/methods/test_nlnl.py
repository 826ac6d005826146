"""NLNL: negative learning, which samples are selected, and the memory of ten visits."""

import math
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from surelabel.methods.nlnl import (
    MEMORY,
    NLNL,
    class_weights,
    default_negatives,
    draw_complementary,
    log_not,
    negative_loss,
)

GIVEN = torch.tensor([0, 1, 2, 0, 1, 2])
X = torch.randn(6, 4, generator=torch.Generator().manual_seed(0))
P = X[:, :3].softmax(1)
AT_GIVEN = P.gather(1, GIVEN[:, None]).squeeze(1)


@pytest.fixture
def make(make_task):
    return lambda given=GIVEN, epochs=30, **options: NLNL(make_task(given, epochs=epochs), **options)


@pytest.fixture
def clock(make_clock):
    return lambda stage, epoch=1: replace(make_clock(epoch), stage=stage)


class TestNegativeLoss:
    def test_by_hand(self):
        logits = torch.tensor([[math.log(2), 0.0, 0.0]])  # p is 1/2, 1/4, 1/4
        loss = negative_loss(logits, torch.tensor([[1, 0]]))
        assert loss.item() == pytest.approx(-math.log(3 / 4) - math.log(1 / 2), rel=1e-6)

    def test_two_classes_is_cross_entropy(self):
        logits, label = X[:, :2], GIVEN.clamp(max=1)
        expected = F.cross_entropy(logits, label, reduction="none")
        assert torch.allclose(negative_loss(logits, 1 - label[:, None]), expected, atol=1e-6)

    def test_copies_of_a_draw_multiply_the_loss(self):
        one = negative_loss(X[:, :3], GIVEN[:, None])
        assert torch.allclose(negative_loss(X[:, :3], GIVEN[:, None].expand(-1, 4)), 4 * one)

    def test_gradient_by_hand(self):
        logits = X[:, :3].double().requires_grad_()
        negative_loss(logits, GIVEN[:, None]).sum().backward()
        p = logits.detach().softmax(1)
        p_c = p.gather(1, GIVEN[:, None])
        expected = (-p_c * p / (1 - p_c)).scatter(1, GIVEN[:, None], p_c)
        assert torch.allclose(logits.grad, expected)

    def test_a_sure_and_wrong_prediction_keeps_its_gradient(self):
        logits = torch.tensor([[200.0, 0.0, 0.0]], requires_grad=True)
        loss = negative_loss(logits, torch.tensor([[0]]))
        loss.backward()
        assert loss.item() == pytest.approx(200 - math.log(2), rel=1e-6)
        assert logits.grad.tolist()[0] == pytest.approx([1, -0.5, -0.5])

    def test_logarithm_is_exact(self):
        logits = torch.tensor([[3.0, 3.0, -40.0], [0.0, 50.0, 1.0]], dtype=torch.float64)
        p = logits.softmax(1)
        others = torch.stack([p[:, [1, 2]].sum(1), p[:, [0, 2]].sum(1), p[:, [0, 1]].sum(1)], 1)
        assert torch.allclose(log_not(logits), others.log(), rtol=1e-12)


class TestDraws:
    def test_are_never_the_label_and_uniform_over_the_rest(self):
        label = torch.arange(4).repeat_interleave(3000)
        drawn = draw_complementary(label, torch.ones(12000), 4, 1, torch.Generator().manual_seed(0)).squeeze(1)
        for k in range(4):
            shares = torch.bincount(drawn[label == k], minlength=4) / 3000
            assert shares[k] == 0
            assert shares[torch.arange(4) != k].tolist() == pytest.approx([1 / 3] * 3, abs=0.03)

    def test_do_not_depend_on_padding(self):
        label = torch.tensor([0, 1, 2, 3])
        weight = torch.tensor([1.0, 1.0, 1.0, 0.0])
        padded = draw_complementary(label, weight, 4, 5, torch.Generator().manual_seed(0))
        real = draw_complementary(label[:3], weight[:3], 4, 5, torch.Generator().manual_seed(0))
        assert torch.equal(padded[:3], real)

    @pytest.mark.parametrize(("num_classes", "count"), [(2, 1), (10, 1), (20, 4), (100, 110), (1000, 110)])
    def test_number(self, num_classes, count):
        assert default_negatives(num_classes) == count


def test_rare_classes_weigh_more_and_missing_ones_are_finite():
    assert class_weights(torch.tensor([0, 0, 0, 0, 1, 1]), 3).tolist() == [1, 2, 4]


class TestStages:
    @pytest.mark.parametrize(
        ("epochs", "lengths"), [(2160, [720] * 3), (30, [10] * 3), (4, [2, 1, 1]), (2, [1, 1]), (1, [1])]
    )
    def test_divide_the_run(self, make, epochs, lengths):
        assert [stage.epochs for stage in make(epochs=epochs).stages()] == lengths

    def test_rate_is_the_published_constant_or_the_runs(self, make):
        assert {(stage.rate, stage.weight_decay) for stage in make().stages()} == {(0.02, 1e-4)}
        assert {stage.rate for stage in make(rate=None).stages()} == {None}


class TestSteps:
    def test_negative_learning_on_all(self, make, make_batch, clock):
        method = make(negatives=2)
        now = clock("nl")
        drawn = draw_complementary(GIVEN, torch.ones(6), 3, 2, now.generator("complementary"))
        step = method.nl_step(make_batch(X, GIVEN), now)
        expected = -(1 - P.gather(1, drawn)).log().sum(1).mean().item()
        assert step.terms["negative"].item() == pytest.approx(expected, rel=1e-5)
        assert torch.equal(step.seen, X[:, :3])

    def test_class_weights_multiply(self, make, make_batch, clock):
        given = torch.tensor([0, 0, 0, 1, 1, 2])
        step = make(given).sel_pl_step(make_batch(X, given), clock("sel_pl"))
        each = torch.tensor([1, 1, 1, 1.5, 1.5, 3]) * F.cross_entropy(X[:, :3], given, reduction="none")
        assert step.terms["positive"].item() == pytest.approx(each.mean().item(), rel=1e-5)

    def test_only_believable_samples_learn(self, make, make_batch, clock):
        method = make()
        method.conf.copy_(torch.tensor([0.2, 1 / 3, 0.4, 0.5, 0.6, 0.1]))
        for step, stage, expected in (
            (method.sel_nl_step, "sel_nl", [False, True, True, True, True, False]),
            (method.sel_pl_step, "sel_pl", [False, False, False, True, True, False]),
        ):
            x = X.clone().requires_grad_()
            (term,) = step(make_batch(x, GIVEN), clock(stage)).terms.values()
            (grad,) = torch.autograd.grad(term, x)
            assert (grad.abs().sum(1) > 0).tolist() == expected

    def test_an_empty_selection_is_a_zero_with_a_gradient(self, make, make_batch, clock):
        method = make()
        method.conf.zero_()
        for step, stage in ((method.sel_nl_step, "sel_nl"), (method.sel_pl_step, "sel_pl")):
            x = X.clone().requires_grad_()
            (term,) = step(make_batch(x, GIVEN), clock(stage)).terms.values()
            (grad,) = torch.autograd.grad(term, x)
            assert term.item() == 0
            assert not grad.any()

    def test_a_batch_of_one(self, make, make_batch, clock):
        (term,) = make().nl_step(make_batch(X[:1], GIVEN[:1]), clock("nl")).terms.values()
        assert math.isfinite(term.item())


class TestMemory:
    def test_is_the_mean_of_what_was_seen(self, make, make_batch, clock, verdict_of):
        method = make()
        method.nl_step(make_batch(X, GIVEN), clock("nl", 1))
        assert torch.allclose(verdict_of(method, X, GIVEN).quality, AT_GIVEN)
        method.nl_step(make_batch(-X, GIVEN), clock("nl", 2))
        other = (-X[:, :3]).softmax(1).gather(1, GIVEN[:, None]).squeeze(1)
        assert torch.allclose(verdict_of(method, X, GIVEN).quality, (AT_GIVEN + other) / 2)

    def test_forgets_after_ten_visits_and_runs_on_over_stages(self, make, make_batch, clock, verdict_of):
        method = make(epochs=30)
        for epoch in range(1, 11):
            method.nl_step(make_batch(X, GIVEN), clock("nl", epoch))
        for epoch in range(1, MEMORY):
            method.sel_nl_step(make_batch(torch.zeros(6, 4), GIVEN), clock("sel_nl", epoch))
        assert torch.allclose(verdict_of(method, X, GIVEN).quality, (AT_GIVEN + 9 / 3) / 10)
        method.sel_nl_step(make_batch(torch.zeros(6, 4), GIVEN), clock("sel_nl", MEMORY))
        assert torch.allclose(verdict_of(method, X, GIVEN).quality, torch.full((6,), 1 / 3))

    def test_is_of_visits_and_not_of_epochs(self, make, make_batch, clock, verdict_of):
        """Eleven visits, ten epochs apart."""
        method = make(epochs=600)
        method.nl_step(make_batch(X, GIVEN), clock("nl", 1))
        for epoch in range(11, 111, 10):
            method.nl_step(make_batch(torch.zeros(6, 4), GIVEN), clock("nl", epoch))
            if epoch == 11:
                assert torch.allclose(verdict_of(method, X, GIVEN).quality, (AT_GIVEN + 1 / 3) / 2)
        assert torch.allclose(verdict_of(method, X, GIVEN).quality, torch.full((6,), 1 / 3))

    def test_is_looked_up_once_an_epoch(self, make, make_batch, clock, make_run):
        method, run = make(), make_run(X, GIVEN)
        method.nl_step(make_batch(X, GIVEN), clock("nl", 1))
        assert torch.equal(method.conf, torch.ones(6))
        method.sel_pl_plan(run)
        assert torch.allclose(method.conf, AT_GIVEN)
        assert run.notes["selected_share"] == pytest.approx((AT_GIVEN >= 0.5).float().mean().item())

    def test_samples_never_visited_are_at_chance(self, make, verdict_of):
        assert torch.allclose(verdict_of(make(), X, GIVEN).quality, torch.full((6,), 1 / 3))

    def test_padding_writes_nothing(self, make, make_batch, clock):
        method = make()
        method.nl_step(make_batch(X[:2], GIVEN[:2], torch.tensor([-1, -1]), torch.zeros(2)), clock("nl"))
        assert method.recent.whole().isnan().all()
