"""The noise adaptation layer: its loss, its initial confusion matrix, and early stopping."""

import math

import pytest
import torch
import torch.nn.functional as F

from surelabel.methods.noise_adaptation import NoiseAdaptation, NoiseLayer, confusion_matrix, posterior

T = torch.tensor([[0.7, 0.2, 0.1], [0.05, 0.9, 0.05], [0.3, 0.3, 0.4]])
P = torch.tensor([[0.2, 0.6, 0.2], [0.5, 0.25, 0.25]])
LABEL = torch.tensor([0, 2])
GIVEN = torch.arange(60) % 3


def layer(transition):
    result = NoiseLayer(len(transition))
    with torch.no_grad():
        result.logits.copy_(transition.log())
    return result


@pytest.fixture
def make(make_task):
    return lambda epochs=20, given=GIVEN, **options: NoiseAdaptation(make_task(given, epochs=epochs), **options)


class TestLayer:
    def test_by_hand(self):
        expected = [-math.log(0.2 * 0.7 + 0.6 * 0.05 + 0.2 * 0.3), -math.log(0.5 * 0.1 + 0.25 * 0.05 + 0.25 * 0.4)]
        assert (-layer(T)(P.log(), LABEL)).tolist() == pytest.approx(expected, rel=1e-5)

    def test_is_p_t(self):
        columns = [layer(T)(P.log(), torch.full_like(LABEL, k)).exp() for k in range(3)]
        assert torch.allclose(torch.stack(columns, 1), P @ T, atol=1e-6)

    def test_holds_no_more_numbers_than_logits(self):
        """A thousand classes: (B, K, K) numbers would take two seconds a step."""
        held = []
        with torch.autograd.graph.saved_tensors_hooks(lambda x: held.append(x.numel()) or x, lambda x: x):
            NoiseLayer(100)(torch.zeros(200, 100), torch.zeros(200, dtype=torch.long))
        assert max(held) <= 200 * 100

    def test_identity_is_cross_entropy(self):
        identity = layer(torch.eye(3) + 1e-8)
        assert torch.allclose(-identity(P.log(), LABEL), F.nll_loss(P.log(), LABEL, reduction="none"), atol=1e-5)

    def test_uniform_says_nothing(self):
        log_p = P.log().requires_grad_()
        loss = -NoiseLayer(3)(log_p.log_softmax(1), LABEL)
        (grad,) = torch.autograd.grad(loss.sum(), log_p)
        assert loss.tolist() == pytest.approx([math.log(3)] * 2)
        assert grad.abs().max() < 1e-6

    def test_is_trained_and_finite_for_sure_predictions(self):
        noise = layer(torch.eye(3) + 1e-8)
        logits = torch.tensor([[300.0, -300.0, 0.0]], requires_grad=True)
        loss = -noise(logits.log_softmax(1), torch.tensor([1]))
        loss.sum().backward()
        assert loss.isfinite().all()
        assert noise.logits.grad.isfinite().all()
        assert logits.grad.isfinite().all()
        assert noise.logits.grad.abs().sum() > 0


class TestConfusionMatrix:
    def test_by_hand(self):
        prediction, given = torch.tensor([0, 0, 0, 1, 1]), torch.tensor([0, 0, 1, 1, 0])
        expected = torch.tensor([[3 / 4, 1 / 4], [1 / 3, 2 / 3]])
        assert torch.allclose(confusion_matrix(prediction, given, 2), expected)

    def test_a_class_that_is_never_predicted_is_the_identity(self):
        rows = confusion_matrix(torch.zeros(6, dtype=torch.long), torch.arange(6) % 3, 3)
        assert rows[1:].tolist() == [[0, 1, 0], [0, 0, 1]]
        assert rows[0].tolist() == pytest.approx([3 / 7, 2 / 7, 2 / 7])


class TestStages:
    def test_share_the_epochs(self, make):
        assert [(s.name, s.epochs, s.reset) for s in make(epochs=21).stages()] == [
            ("first", 10, None),
            ("train", 11, None),
        ]
        assert [(s.name, s.epochs) for s in make(epochs=1).stages()] == [("first", 1)]

    def test_a_tenth_is_held_out_of_both(self, make, make_run):
        method = make()
        first, second = method.stages()
        assert (first.keep, second.keep) == ("best", "last")
        held_out = first.validate_on.indices
        assert len(held_out) == 6
        x = F.pad(F.one_hot(GIVEN, 3).float(), (0, 1))
        for stage in (first, second):
            (walk,) = stage.plan(make_run(x, GIVEN))
            assert walk.step == stage.step
            assert sorted([*held_out.tolist(), *walk.views["batch"].indices.tolist()]) == list(range(60))

    def test_too_few_samples_to_hold_out(self, make, make_run):
        method = make(given=GIVEN[:3])
        first, second = method.stages()
        assert (first.keep, first.validate_on) == ("last", None)
        second.plan(make_run(torch.zeros(3, 4), GIVEN[:3]))
        assert not second.stop(None)

    def test_the_first_is_cross_entropy(self, make, make_batch, make_clock):
        x = torch.randn(60, 4, generator=torch.Generator().manual_seed(0))
        terms = make().first_step(make_batch(x, GIVEN), make_clock(1)).terms
        assert terms["cross_entropy"].item() == pytest.approx(F.cross_entropy(x[:, :3], GIVEN).item(), rel=1e-5)

    def test_the_layer_starts_as_the_confusion_matrix(self, make, make_run, make_batch, make_clock):
        method = make()
        predicted = (torch.arange(60) // 3) % 3
        x = F.pad(5.0 * F.one_hot(predicted, 3), (0, 1))
        run = make_run(x, GIVEN)
        method.stages()[0].then(run)
        expected = confusion_matrix(predicted, GIVEN, 3)
        assert torch.allclose(method.transition, expected, atol=1e-6)
        assert run.notes["confusion"] == expected.tolist()
        step = method.step(make_batch(x, GIVEN), make_clock(1))
        value = F.nll_loss((x[:, :3].softmax(1) @ expected).log(), GIVEN).item()
        assert step.terms["noise_adaptation"].item() == pytest.approx(value, rel=1e-5)
        assert torch.equal(step.seen, x[:, :3])

    def test_the_count_is_reset_with_the_layer(self, make, make_run):
        method = make(patience=1)
        run = make_run(torch.zeros(60, 4), GIVEN)
        first, second = method.stages()
        first.plan(run)
        first.plan(run)
        assert first.stop(run)
        first.then(run)
        assert not second.stop(run)

    def test_ends_when_the_held_out_loss_has_not_fallen(self, make, make_run):
        method, ends = make(patience=2), []
        with torch.no_grad():
            method.noise.logits.copy_(10 * torch.eye(3))
        for strength in (1.0, 2.0, 1.5, 1.0, 3.0):
            method.plan(make_run(F.pad(strength * F.one_hot(GIVEN, 3), (0, 1)), GIVEN))
            ends.append(method.is_stale(None))
        assert ends == [False, False, False, True, False]


def test_both_are_trained_and_the_layer_does_not_predict(make):
    method = make()
    assert list(method.networks()) == ["network", "noise"]
    x = torch.randn(5, 4, generator=torch.Generator().manual_seed(0))
    assert torch.allclose(method.predict(x), x[:, :3].softmax(1))


class TestVerdict:
    def test_posterior_by_hand(self):
        joint = [0.2 * 0.7, 0.6 * 0.05, 0.2 * 0.3]
        assert posterior(P, LABEL, T)[0].tolist() == pytest.approx([value / sum(joint) for value in joint], abs=1e-6)

    def test_corrected_is_the_posterior(self, make, verdict_of):
        method = make()
        method.noise.load_state_dict(layer(T).state_dict())
        x = torch.randn(60, 4, generator=torch.Generator().manual_seed(0))
        corrected = verdict_of(method, x, GIVEN).corrected
        assert torch.allclose(corrected, posterior(x[:, :3].softmax(1), GIVEN, T), atol=1e-5)
        assert torch.allclose(corrected.sum(1), torch.ones(60))

    def test_quality_is_the_mean_of_the_posterior_and_the_running_mean(self, make, verdict_of):
        method = make()
        x = torch.randn(60, 4, generator=torch.Generator().manual_seed(0))
        verdict = verdict_of(method, x, GIVEN, seen=torch.full((60,), 0.5))
        at_given = verdict.corrected[torch.arange(60), GIVEN]
        assert torch.allclose(verdict.quality, (at_given + 0.5) / 2)


def test_state_survives_a_restart(make, make_run):
    before, after = make(), make()
    x = F.pad(F.one_hot(GIVEN, 3).float(), (0, 1))
    before.start_layer(make_run(x, GIVEN))
    before.plan(make_run(x, GIVEN))
    before.plan(make_run(x, GIVEN))
    after.load_state_dict(before.state_dict())
    assert torch.equal(after.transition, before.transition)
    assert (after.stale.item(), after.best_loss) == (1, before.best_loss)
