"""PENCIL: the label step in closed form against autograd, the three stages."""

import math

import pytest
import torch
import torch.nn.functional as F

from surelabel.methods.pencil import PENCIL, divergence, entropy, label_gradient

GIVEN = torch.tensor([0, 1, 2, 0])
ONE_HOT = F.one_hot(GIVEN, 3).float()
P = torch.tensor([[0.5, 0.25, 0.25], [0.2, 0.2, 0.6], [0.1, 0.1, 0.8], [0.7, 0.2, 0.1]])
X = F.pad(P.log(), (0, 1))
D = P.flip(0).roll(1, 1)
START = (10 * ONE_HOT).softmax(1)


@pytest.fixture
def make(make_task):
    return lambda epochs=32, **options: PENCIL(make_task(GIVEN, epochs=epochs), **options)


class TestFunctions:
    def test_divergence_by_hand(self):
        logits, d = torch.tensor([[0.0, math.log(3)]]), torch.tensor([[0.5, 0.5]])
        expected = 0.25 * math.log(0.25 / 0.5) + 0.75 * math.log(0.75 / 0.5)
        assert divergence(logits, d.log()).item() == pytest.approx(expected, rel=1e-6)

    def test_divergence_is_zero_only_where_they_agree(self):
        assert divergence(P.log(), P.log()).abs().max() < 1e-6
        assert bool((divergence(P.log(), D.log()) > 0.01).all())

    def test_entropy_of_a_uniform_prediction(self):
        assert entropy(torch.zeros(2, 5)).tolist() == pytest.approx([math.log(5)] * 2)

    def test_label_gradient_is_autograds(self):
        y = D.log().double().requires_grad_()
        logits, weight = P.log().double(), 0.4
        log_d = y.log_softmax(1)
        loss = divergence(logits, log_d).sum() / 3 + weight * F.nll_loss(log_d, GIVEN, reduction="sum")
        (expected,) = torch.autograd.grad(loss, y)
        assert torch.allclose(
            label_gradient(y.detach().softmax(1), logits.softmax(1), GIVEN, weight), expected, atol=1e-9
        )

    def test_agreement_is_a_fixed_point(self):
        assert label_gradient(P, P, GIVEN, 0.0).abs().max() < 1e-7


class TestLabelStep:
    def test_by_hand(self, make, make_batch, make_clock):
        method = make(given_weight=0.4, entropy_weight=0.1, label_rate=600.0)
        method.label.replace(D)
        step = method.label_step(make_batch(X, GIVEN), make_clock(1))
        values = {name: value.item() for name, value in step.terms.items()}
        expected = {
            "divergence": (P * (P / D).log()).sum(1).mean().item() / 3,
            "given": 0.4 * F.nll_loss(D.log(), GIVEN).item(),
            "entropy": -0.1 * (P * P.log()).sum(1).mean().item() / 3,
        }
        assert values == pytest.approx(expected, rel=1e-5)
        moved = D.log() - 600 / 128 * ((D - P) / 3 + 0.4 * (D - ONE_HOT))
        assert torch.allclose(method.label.whole(), moved.softmax(1), atol=1e-6)
        assert torch.equal(step.seen, X[:, :3])

    def test_the_step_of_a_label_does_not_depend_on_its_batch(self, make, make_batch, make_clock):
        together, alone = make(), make()
        together.label_step(make_batch(X, GIVEN), make_clock(1))
        alone.label_step(make_batch(X[:1], GIVEN[:1]), make_clock(1))
        assert torch.allclose(together.label.whole()[0], alone.label.whole()[0])

    def test_rate_zero_leaves_labels(self, make, make_batch, make_clock):
        method = make(label_rate=0.0)
        method.label_step(make_batch(X, GIVEN), make_clock(1))
        assert torch.allclose(method.label.whole(), START, atol=1e-7)

    def test_without_the_given_term_labels_go_to_the_prediction(self, make, make_batch, make_clock, verdict_of):
        method = make(given_weight=0.0, label_rate=600.0)
        for epoch in range(1, 400):
            method.label_step(make_batch(X, GIVEN), make_clock(epoch))
        assert torch.allclose(verdict_of(method, X, GIVEN).corrected, P, atol=1e-2)

    def test_padding_is_not_written(self, make, make_batch, make_clock):
        method = make()
        weight = torch.tensor([1.0, 0, 0, 0])
        method.label_step(make_batch(X, GIVEN, torch.tensor([0, -1, -1, -1]), weight), make_clock(1))
        assert torch.equal(method.label.whole()[1:], START[1:])

    def test_a_class_that_has_underflowed_is_finite_and_can_come_back(self, make, make_batch, make_clock, verdict_of):
        method = make(given_weight=0.0, label_rate=4000.0)
        method.label.replace(ONE_HOT)
        for epoch in range(1, 100):
            terms = method.label_step(make_batch(X, GIVEN), make_clock(epoch)).terms
            assert all(bool(value.isfinite()) for value in terms.values())
        assert verdict_of(method, X, GIVEN).corrected[1].argmax().item() == 2


class TestOtherSteps:
    def test_backbone_is_cross_entropy_and_keeps_labels(self, make, make_batch, make_clock):
        method = make()
        terms = method.backbone_step(make_batch(X, GIVEN), make_clock(1)).terms
        assert terms["cross_entropy"].item() == pytest.approx(F.nll_loss(P.log(), GIVEN).item(), rel=1e-5)
        assert torch.allclose(method.label.whole(), START, atol=1e-7)

    def test_train_is_the_divergence_and_keeps_labels(self, make, make_batch, make_clock):
        method = make()
        method.label.replace(D)
        terms = method.step(make_batch(X, GIVEN), make_clock(1)).terms
        assert list(terms) == ["divergence"]
        assert terms["divergence"].item() == pytest.approx((P * (P / D).log()).sum(1).mean().item() / 3, rel=1e-5)
        assert torch.equal(method.label.whole(), D)


class TestStages:
    @pytest.mark.parametrize(
        ("epochs", "lengths"), [(320, [70, 130, 120]), (32, [7, 13, 12]), (4, [1, 1, 2]), (2, [1, 1]), (1, [1])]
    )
    def test_have_the_published_shares_of_the_run(self, make, epochs, lengths):
        assert [stage.epochs for stage in make(epochs=epochs).stages()] == lengths

    @pytest.mark.parametrize("backbone", [1, 5, 19, 25, 32, 99])
    def test_any_backbone_length_adds_up(self, make, backbone):
        lengths = [stage.epochs for stage in make(epochs=32, backbone=backbone).stages()]
        assert sum(lengths) == 32
        assert min(lengths) > 0
        assert lengths[0] == min(backbone, 32)

    def test_the_rate_is_constant_until_labels_are_frozen(self, make):
        first, second, third = make(rate=0.03).stages()
        assert (first.rate, second.rate, third.rate) == (0.03, 0.03, None)
        assert (first.weight_decay, second.weight_decay, third.weight_decay) == (1e-4, 1e-4, None)


def test_labels_start_as_given_and_survive_a_restart(make, make_batch, make_clock, verdict_of):
    before, after = make(), make()
    assert verdict_of(before, X, GIVEN).corrected.argmax(1).tolist() == GIVEN.tolist()
    assert verdict_of(before, X, GIVEN).corrected.amax(1).min() > 0.999
    before.label_step(make_batch(X, GIVEN), make_clock(1))
    after.load_state_dict(before.state_dict())
    assert torch.equal(after.label.whole(), before.label.whole())


class TestGivenWeight:
    def test_default_is_the_published_one_over_the_classes(self, make):
        assert make().given_weight == pytest.approx(0.4 / 3)
        assert make().advice("settings") == []

    def test_a_label_rests_at_the_closed_form(self, make, make_batch, make_clock, verdict_of):
        method = make(given_weight=0.2, label_rate=600.0)
        for epoch in range(1, 400):
            method.label_step(make_batch(X, GIVEN), make_clock(epoch))
        assert torch.allclose(
            verdict_of(method, X, GIVEN).corrected, (P + 0.2 * 3 * ONE_HOT) / (1 + 0.2 * 3), atol=1e-3
        )

    def test_warns_of_one_that_no_label_can_escape(self, make):
        (text,) = make(given_weight=0.4).advice("settings")
        assert "method.given_weight=0.4 can never correct a label; use given_weight=0.13" in text
