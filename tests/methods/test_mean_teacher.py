"""Mean teacher: the averaging rule, the ramp, the disagreement, and the prediction."""

import math

import pytest
import torch
import torch.nn.functional as F

from surelabel.core import Batch
from surelabel.methods.mean_teacher import MeanTeacher, disagreement, ramp_up, warmed_up

GIVEN = torch.tensor([0, 1, 2, 1])
X, OTHER = torch.randn(2, 4, 4, generator=torch.Generator().manual_seed(0))


@pytest.fixture
def make(make_task):
    return lambda epochs=180, **options: MeanTeacher(make_task(GIVEN, epochs=epochs), **options)


def two_copies(x=X, other=OTHER):
    return Batch(torch.arange(4), (x, other), GIVEN, torch.ones(4))


class TestAverage:
    def test_rule_by_hand(self):
        assert [warmed_up(t, 0.75) for t in (1, 2, 3, 4, 50)] == pytest.approx([1 / 2, 2 / 3, 3 / 4, 3 / 4, 3 / 4])

    def test_is_at_first_the_mean_of_all_weights(self, make):
        method = make(decay=0.999)
        weights = [method.network.classifier.weight.detach().clone()]
        for step in range(1, 6):
            with torch.no_grad():
                method.network.classifier.weight += step
            weights.append(method.network.classifier.weight.detach().clone())
            method.teacher.advance()
        assert torch.allclose(method.teacher.network.classifier.weight, torch.stack(weights).mean(0), atol=1e-5)

    def test_without_memory_the_teacher_is_the_student(self, make):
        method = make(decay=0.0)
        with torch.no_grad():
            method.network.classifier.weight += 3
        method.teacher.advance()
        assert torch.equal(method.teacher.network.classifier.weight, method.network.classifier.weight)

    def test_survives_a_restart(self, make):
        before, after = make(), make()
        before.teacher.advance()
        after.load_state_dict(before.state_dict())
        assert after.teacher.updates == 1


class TestRamp:
    def test_by_hand(self):
        assert ramp_up(0, 5) == pytest.approx(math.exp(-5))
        assert ramp_up(2.5, 5) == pytest.approx(math.exp(-5 / 4))
        assert ramp_up(5, 5) == ramp_up(100, 5) == 1

    @pytest.mark.parametrize(("epochs", "ramp"), [(180, 5), (360, 10), (1, 1)])
    def test_length_is_the_published_fraction(self, make, epochs, ramp):
        assert make(epochs).ramp == ramp


class TestStep:
    def test_by_hand(self, make, make_clock):
        method = make(consistency_weight=7.0, ramp=1)
        terms = method.step(two_copies(), make_clock(20)).terms
        apart = (X[:, :3].softmax(1) - OTHER[:, :3].softmax(1)).square().sum(1).mean().item() / 3
        assert terms["consistency"].item() == pytest.approx(7 * apart, rel=1e-5)
        assert terms["cross_entropy"].item() == pytest.approx(F.cross_entropy(X[:, :3], GIVEN).item(), rel=1e-5)

    def test_equal_copies_and_equal_weights_agree(self, make, make_clock):
        assert make().step(two_copies(X, X), make_clock(20)).terms["consistency"].item() == 0

    def test_equal_copies_disagree_once_weights_have_moved(self, make, make_clock):
        method = make()
        with torch.no_grad():
            method.network.classifier.weight *= 2
        assert method.step(two_copies(X, X), make_clock(20)).terms["consistency"].item() > 0

    def test_no_gradient_reaches_the_teacher(self, make, make_clock):
        method = make()
        sum(method.step(two_copies(), make_clock(20)).terms.values()).backward()
        assert all(p.grad is None and not p.requires_grad for p in method.teacher.network.parameters())
        assert list(method.networks()) == ["network"]

    def test_no_gradient_through_the_teachers_side(self):
        student, teacher = X.clone().requires_grad_(), OTHER.clone().requires_grad_()
        disagreement(student, teacher).sum().backward()
        assert teacher.grad is None
        assert student.grad.abs().sum() > 0

    def test_asks_for_two_copies(self, make, make_run):
        (walk,) = make().plan(make_run(X, GIVEN))
        assert walk.views["batch"].copies == 2

    def test_padding_does_not_count(self, make, make_clock):
        method, weight = make(), torch.tensor([1.0, 1.0, 0.0, 0.0])
        padded = Batch(torch.tensor([0, 1, -1, -1]), (X, OTHER), GIVEN, weight)
        real = Batch(torch.arange(2), (X[:2], OTHER[:2]), GIVEN[:2], torch.ones(2))
        first, second = (method.step(batch, make_clock(20)).terms for batch in (padded, real))
        assert [t.item() for t in first.values()] == pytest.approx([t.item() for t in second.values()])


def test_the_teacher_predicts(make):
    method = make()
    with torch.no_grad():
        method.network.classifier.weight.zero_()
    assert torch.allclose(method.predict(X), X[:, :3].softmax(1))


def test_returns_the_logits_the_student_saw(make, make_clock):
    assert torch.equal(make().step(two_copies(), make_clock(1)).seen, X[:, :3])
