"""Forward correction: the loss, the estimate of T, and the posterior of a label."""

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from surelabel.methods.forward import Forward, estimate_transition, forward_loss, posterior

T = torch.tensor([[0.7, 0.2, 0.1], [0.0, 0.9, 0.1], [0.3, 0.3, 0.4]], dtype=torch.float64)
LOGITS = torch.tensor([[0.0, math.log(3), 0.0], [math.log(2), 0.0, 0.0]], dtype=torch.float64)
P = torch.tensor([[0.2, 0.6, 0.2], [0.5, 0.25, 0.25]], dtype=torch.float64)
LABEL = torch.tensor([0, 2])


class TestLoss:
    def test_by_hand(self):
        expected = [-math.log(0.2 * 0.7 + 0.6 * 0.0 + 0.2 * 0.3), -math.log(0.5 * 0.1 + 0.25 * 0.1 + 0.25 * 0.4)]
        assert forward_loss(LOGITS, LABEL, T).tolist() == pytest.approx(expected, rel=1e-5)

    def test_identity_is_cross_entropy(self):
        logits = torch.randn(50, 4, generator=torch.Generator().manual_seed(0))
        label = torch.arange(50) % 4
        expected = F.cross_entropy(logits, label, reduction="none")
        assert torch.allclose(forward_loss(logits, label, torch.eye(4)), expected, atol=1e-4)

    def test_gradient_of_identity_is_cross_entropys(self):
        logits = LOGITS.clone().requires_grad_()
        (grad,) = torch.autograd.grad(forward_loss(logits, LABEL, torch.eye(3, dtype=torch.float64)).sum(), logits)
        assert torch.allclose(grad, P - F.one_hot(LABEL, 3), atol=1e-5)

    def test_uniform_transition_says_nothing(self):
        logits = LOGITS.clone().requires_grad_()
        loss = forward_loss(logits, LABEL, torch.full((3, 3), 1 / 3, dtype=torch.float64))
        (grad,) = torch.autograd.grad(loss.sum(), logits)
        assert loss.tolist() == pytest.approx([math.log(3)] * 2)
        assert grad.abs().max() < 1e-12

    def test_a_label_that_no_class_turns_into_is_finite(self):
        never = torch.tensor([[1.0, 0.0], [1.0, 0.0]])
        logits = torch.tensor([[100.0, -100.0]], requires_grad=True)
        loss = forward_loss(logits, torch.tensor([1]), never)
        loss.backward()
        assert loss.item() == pytest.approx(-math.log(1e-7), rel=1e-4)
        assert bool(logits.grad.isfinite().all())

    def test_rows_are_true_classes(self):
        sure_of_1 = torch.tensor([[-50.0, 50.0, -50.0]], dtype=torch.float64)
        for label in (1, 2):
            loss = forward_loss(sure_of_1, torch.tensor([label]), T)
            assert loss.item() == pytest.approx(-math.log(T[1, label]))


def predictions_with_anchors(num_rows: int, skip: int) -> torch.Tensor:
    """Predictions with `skip` one-hot outliers per class, followed by T's row as the anchor."""
    return torch.cat(
        [torch.eye(3, dtype=torch.float64).repeat(skip, 1), T, torch.full((num_rows - 3 * skip - 3, 3), 1 / 3)]
    )


@st.composite
def probabilities(draw):
    """(N, K) rows without ties."""
    num_rows, num_classes = draw(st.integers(2, 40)), draw(st.integers(2, 5))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    return (2 * torch.randn(num_rows, num_classes, dtype=torch.float64, generator=generator)).softmax(1)


class TestEstimate:
    @pytest.mark.parametrize("skip", [1, 3])
    def test_finds_t_below_the_outliers(self, skip):
        assert torch.allclose(estimate_transition(predictions_with_anchors(30 * skip, skip), 0.1), T)

    def test_the_share_of_outliers_is_of_a_class(self):
        # 0.3 / 3 of 30 rows are three.
        assert torch.allclose(estimate_transition(predictions_with_anchors(30, 3)), T)
        assert not torch.allclose(estimate_transition(predictions_with_anchors(30, 4)), T)

    def test_without_outliers_takes_the_likeliest(self):
        assert torch.allclose(estimate_transition(predictions_with_anchors(30, 0), 0.0), T)

    def test_does_not_change_its_input(self):
        p = predictions_with_anchors(30, 3)
        before = p.clone()
        estimate_transition(p)
        assert torch.equal(p, before)

    def test_a_single_row(self):
        assert torch.allclose(estimate_transition(torch.tensor([[0.25, 0.75]])), torch.tensor([[0.25, 0.75]] * 2))

    @settings(deadline=None, max_examples=50)
    @given(p=probabilities(), data=st.data())
    def test_permuting_classes_permutes_the_estimate(self, p, data):
        order = torch.tensor(data.draw(st.permutations(range(p.shape[1]))))
        expected = estimate_transition(p)[order][:, order]
        assert torch.allclose(estimate_transition(p[:, order]), expected)

    @settings(deadline=None, max_examples=50)
    @given(p=probabilities(), scale=st.floats(0.5, 2))
    def test_rows_sum_to_one(self, p, scale):
        estimate = estimate_transition(scale * p)
        assert torch.allclose(estimate.sum(1), torch.ones(len(estimate), dtype=torch.float64))
        assert bool((estimate >= 0).all())


class TestPosterior:
    def test_by_hand(self):
        joint = [0.2 * 0.7, 0.0, 0.2 * 0.3]
        expected = [value / sum(joint) for value in joint]
        assert posterior(P, LABEL, T)[0].tolist() == pytest.approx(expected, abs=1e-6)

    def test_uniform_transition_gives_the_prediction(self):
        assert torch.allclose(posterior(P, LABEL, torch.full((3, 3), 1 / 3, dtype=torch.float64)), P)

    def test_identity_believes_the_label(self):
        assert torch.allclose(
            posterior(P, LABEL, torch.eye(3, dtype=torch.float64)), F.one_hot(LABEL, 3).double(), atol=1e-6
        )

    def test_a_label_that_the_prediction_excludes_is_defined(self):
        rows = posterior(torch.tensor([[1.0, 0.0]]), torch.tensor([1]), torch.eye(2))
        assert rows.tolist() == [[1, 0]]


class TestMethod:
    GIVEN = torch.arange(60) % 3

    @pytest.fixture
    def make(self, make_task):
        return lambda epochs=20, given=self.GIVEN, **others: Forward(make_task(given, epochs=epochs, **others))

    def test_stages_share_the_epochs_and_the_second_has_new_weights(self, make):
        first, second = make(epochs=21).stages()
        assert (first.name, second.name) == ("estimate", "train")
        assert (first.epochs, second.epochs) == (10, 11)
        assert (first.reset, second.reset) == (None, "new")
        assert (first.keep, second.keep) == ("best", "last")

    def test_a_tenth_is_held_out_of_the_estimate_and_validated_on(self, make):
        method = make()
        first, _ = method.stages()
        held_out = first.validate_on.indices
        assert len(held_out) == 6
        assert not first.validate_on.augment
        (walk,) = first.plan
        trained = walk.views["batch"].indices
        assert sorted([*held_out.tolist(), *trained.tolist()]) == list(range(60))

    def test_the_held_out_rows_depend_on_the_seed(self, make):
        assert torch.equal(make(seed=3).held_out, make(seed=3).held_out)
        assert not torch.equal(make(seed=3).held_out, make(seed=4).held_out)

    def test_too_few_samples_to_hold_out(self, make):
        first, _ = make(given=torch.tensor([0, 1, 2])).stages()
        assert (first.keep, first.validate_on) == ("last", None)

    def test_estimate_is_noted_and_used(self, make, make_run, make_batch, make_clock):
        method = make()
        p = predictions_with_anchors(60, 6).clamp(min=1e-9)
        x = F.pad(p.log(), (0, 1)).float()
        run = make_run(x, self.GIVEN)
        method.stages()[0].then(run)
        assert torch.allclose(method.transition, T.float(), atol=1e-5)
        assert run.notes["transition"] == method.transition.tolist()
        terms = method.step(make_batch(x, self.GIVEN), make_clock(1)).terms
        expected = forward_loss(x[:, :3], self.GIVEN, T.float()).mean().item()
        assert terms["forward"].item() == pytest.approx(expected, rel=1e-4)

    def test_the_first_stage_is_cross_entropy(self, make, make_batch, make_clock):
        method = make()
        method.transition.copy_(T)
        x = torch.randn(60, 4, generator=torch.Generator().manual_seed(0))
        terms = method.stages()[0].step(make_batch(x, self.GIVEN), make_clock(1)).terms
        assert terms["cross_entropy"].item() == pytest.approx(F.cross_entropy(x[:, :3], self.GIVEN).item(), rel=1e-6)

    def test_verdict_is_the_posterior(self, make, verdict_of):
        method = make()
        method.transition.copy_(T)
        x = torch.randn(60, 4, generator=torch.Generator().manual_seed(0))
        verdict = verdict_of(method, x, self.GIVEN)
        expected = posterior(x[:, :3].softmax(1), self.GIVEN, T.float())
        assert torch.allclose(verdict.corrected, expected)
        assert torch.allclose(verdict.quality, expected[torch.arange(60), self.GIVEN])

    def test_transition_survives_a_restart(self, make):
        before, after = make(), make()
        before.transition.copy_(T)
        after.load_state_dict(before.state_dict())
        assert torch.equal(after.transition, T.float())
