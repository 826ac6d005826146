"""SELF: the ensemble, the filter, and iterations that end when the score stops improving."""

import math
from itertools import pairwise

import pytest
import torch
import torch.nn.functional as F

from surelabel.methods.self_ensemble import SelfEnsemble, copy_weights, filtered

GIVEN = torch.arange(40) % 3
ALL = torch.ones(40, dtype=torch.bool)
RIGHT = F.pad(4.0 * F.one_hot(GIVEN, 3), (0, 1))
WRONG = F.pad(4.0 * F.one_hot((GIVEN + 1) % 3, 3), (0, 1))


@pytest.fixture
def make(make_task):
    def method(epochs=20, given=GIVEN, **options):
        options.setdefault("consistency_ramp", 1)
        return SelfEnsemble(make_task(given, epochs=epochs), **options)

    return method


class TestFunctions:
    def test_a_label_is_kept_where_the_ensemble_names_it(self):
        ensemble = torch.tensor([[0.3, 0.1, 0.0], [0.1, 0.3, 0.0], [0.0, 0.2, 0.1], [0.0, 0.0, 0.1]])
        given = torch.tensor([0, 0, 1, 2])
        assert filtered(ensemble, given, ALL[:4]).tolist() == [True, False, True, True]

    def test_an_ensemble_of_the_given_labels_keeps_all(self):
        assert bool(filtered(F.one_hot(GIVEN, 3).float(), GIVEN, ALL).all())

    def test_a_class_that_would_have_no_label_keeps_its_own(self):
        ensemble = torch.tensor([[1.0, 0, 0]] * 4)
        given = torch.tensor([0, 1, 1, 2])
        candidates = torch.tensor([True, True, False, True])
        assert filtered(ensemble, given, candidates).tolist() == [True, True, False, True]

    def test_rows_that_are_no_candidates_never_get_a_label(self):
        assert not filtered(F.one_hot(GIVEN, 3).float(), GIVEN, ~ALL).any()


class TestStep:
    def test_by_hand(self, make, make_batch, make_clock):
        method = make(consistency_weight=6.0)
        kept = torch.tensor([True, False] * 20)
        method.kept.copy_(kept)
        with torch.no_grad():
            method.teacher.network.classifier.weight.mul_(0.5)
        x = torch.randn(40, 4, generator=torch.Generator().manual_seed(0))
        step = method.step(make_batch(x, GIVEN, copies=2), make_clock(20))
        expected = F.cross_entropy(x[kept, :3], GIVEN[kept]).item()
        assert step.terms["cross_entropy"].item() == pytest.approx(expected, rel=1e-5)
        distance = (x[:, :3].softmax(1) - (x[:, :3] / 2).softmax(1)).square().mean().item()
        assert step.terms["consistency"].item() == pytest.approx(6 * distance, rel=1e-5)
        assert torch.equal(step.seen, x[:, :3])

    def test_no_kept_label_in_the_batch_is_a_zero_with_a_gradient(self, make, make_batch, make_clock):
        method = make()
        method.kept.fill_(False)
        loss = method.step(make_batch(RIGHT[:1], GIVEN[:1], copies=2), make_clock(1)).terms["cross_entropy"]
        loss.backward()
        assert loss.item() == 0
        assert method.network.classifier.weight.grad is not None

    def test_an_equal_teacher_is_at_no_distance(self, make, make_batch, make_clock):
        terms = make().step(make_batch(RIGHT, GIVEN, copies=2), make_clock(1)).terms
        assert terms["consistency"].item() == 0

    def test_ramp(self, make, make_batch, make_clock):
        method, batch = make(consistency_ramp=10), make_batch(RIGHT, GIVEN, copies=2)
        with torch.no_grad():
            method.teacher.network.classifier.weight.mul_(0.5)
        terms = [method.step(batch, make_clock(epoch)).terms["consistency"].item() for epoch in range(1, 21)]
        weights = [term / terms[-1] for term in terms]
        assert weights[0] == pytest.approx(math.exp(-5))
        assert weights[10:] == [1.0] * 10
        assert all(b > a for a, b in pairwise(weights[:11]))


class TestEnsemble:
    def test_constant_predictions(self, make, make_run, verdict_of):
        method = make(ensemble_momentum=0.8)
        p = RIGHT[:, :3].softmax(1)
        for count in (1, 2, 3):
            method.score_epoch(make_run(RIGHT, GIVEN))
            assert torch.allclose(method.ensemble.whole(), (1 - 0.8**count) * p, atol=1e-6)
        assert torch.allclose(verdict_of(method, RIGHT, GIVEN).corrected, p, atol=1e-5)

    def test_two_updates_by_hand(self, make, make_run):
        method = make(ensemble_momentum=0.8)
        method.score_epoch(make_run(RIGHT, GIVEN))
        method.score_epoch(make_run(WRONG, GIVEN))
        expected = 0.8 * 0.2 * RIGHT[:, :3].softmax(1) + 0.2 * WRONG[:, :3].softmax(1)
        assert torch.allclose(method.ensemble.whole(), expected, atol=1e-6)

    def test_it_is_judged_from_the_second_epoch_of_an_iteration_on(self, make, make_run):
        method = make()
        first, second = make_run(RIGHT, GIVEN, epoch=1), make_run(RIGHT, GIVEN, epoch=2)
        (walk,) = method.plan(first)
        assert first.num_collected == 0
        assert walk.views["batch"].copies == 2
        method.plan(second)
        assert second.num_collected == 1


class TestScore:
    def test_is_the_accuracy_on_the_given_labels_of_a_held_out_tenth(self, make, make_run):
        method = make()
        assert int(method.held_out.sum()) == 4
        assert not (method.kept & method.held_out).any()
        x = WRONG.clone()
        right = method.held_out.nonzero()[:3, 0]
        x[right] = RIGHT[right]
        method.score_epoch(make_run(x, GIVEN))
        assert method.best_score.item() == 0.75

    def test_the_best_teacher_and_its_filter_are_kept(self, make, make_run):
        method = make()
        method.score_epoch(make_run(RIGHT, GIVEN))
        best = [p.clone() for p in method.teacher.network.parameters()]
        with torch.no_grad():
            for p in method.teacher.network.parameters():
                p.add_(1)
        method.score_epoch(make_run(WRONG, GIVEN))
        assert method.stale.item() == 1
        assert all(torch.equal(a, b) for a, b in zip(best, method.best.parameters(), strict=True))
        assert torch.equal(method.best_kept, ~method.held_out)

    def test_a_set_too_small_to_hold_out_of(self, make, make_run):
        method = make(given=GIVEN[:5])
        assert not method.held_out.any()
        method.score_epoch(make_run(RIGHT[:5], GIVEN[:5]))
        assert method.best_score.item() == 1

    def test_patience(self, make, make_run):
        method = make(patience=2)
        method.score_epoch(make_run(RIGHT, GIVEN))
        stops = []
        for _ in range(3):
            stops.append(method.is_stale(None))
            method.score_epoch(make_run(RIGHT, GIVEN))
        assert stops == [False, False, True]


class TestIterations:
    def test_fill_the_run(self, make):
        assert [stage.epochs for stage in make(epochs=20).stages()] == [5, 5, 5, 5]
        assert [stage.epochs for stage in make(epochs=22, iterations=3).stages()] == [7, 7, 7, 1]
        assert [stage.epochs for stage in make(epochs=1).stages()] == [1]

    def test_one_that_ends_early_leaves_its_epochs_to_others(self, make, make_run):
        method = make(epochs=20)
        method.end_iteration(make_run(RIGHT, GIVEN, epoch=3))
        stages = method.stages()
        assert [stage.epochs for stage in stages] == [3, 5, 5, 5, 2]
        assert [stage.name for stage in stages] == [f"iteration {n}" for n in range(5)]

    def test_the_next_starts_from_the_best(self, make, make_run):
        method = make(epochs=20)
        x = RIGHT.clone()
        doubted = (~method.held_out).nonzero()[:7, 0]
        x[doubted] = WRONG[doubted]
        method.score_epoch(make_run(x, GIVEN))
        best = [p.clone() for p in method.best.parameters()]
        with torch.no_grad():
            for p in [*method.network.parameters(), *method.teacher.network.parameters()]:
                p.add_(1)
        run = make_run(WRONG, GIVEN, epoch=2)
        method.end_iteration(run)
        for network in (method.network, method.teacher.network):
            assert all(torch.equal(a, b) for a, b in zip(best, network.parameters(), strict=True))
        expected = ~method.held_out
        expected[doubted] = False
        assert torch.equal(method.kept, expected)
        assert run.notes["kept_share"] == pytest.approx(29 / 40)
        assert (method.best_score.item(), method.stale.item()) == (-1, 0)

    def test_a_filtered_label_can_come_back(self, make, make_run):
        method = make(epochs=20, ensemble_momentum=0.0)
        method.kept.fill_(False)
        method.end_iteration(make_run(RIGHT, GIVEN, epoch=2))
        assert torch.equal(method.kept, ~method.held_out)

    def test_the_last_stays_as_it_is(self, make, make_run):
        method = make(epochs=1)
        before = [p.clone() for p in method.network.parameters()]
        with torch.no_grad():
            for p in method.network.parameters():
                p.add_(1)
        method.end_iteration(make_run(RIGHT, GIVEN, epoch=1))
        assert all(torch.equal(a + 1, b) for a, b in zip(before, method.network.parameters(), strict=True))
        assert [stage.epochs for stage in method.stages()] == [1]

    def test_survive_a_restart(self, make, make_run):
        before, after = make(epochs=20), make(epochs=20)
        before.end_iteration(make_run(RIGHT, GIVEN, epoch=3))
        after.load_state_dict(before.state_dict())
        assert [stage.epochs for stage in after.stages()] == [3, 5, 5, 5, 2]
        assert torch.equal(after.ensemble.whole(), before.ensemble.whole())


def test_weights_and_statistics_are_copied():
    source, destination = torch.nn.BatchNorm1d(2), torch.nn.BatchNorm1d(2)
    source(torch.randn(8, 2))
    copy_weights(source, destination)
    assert all(torch.equal(a, destination.state_dict()[name]) for name, a in source.state_dict().items())


def test_the_teacher_predicts(make):
    method = make()
    with torch.no_grad():
        method.network.classifier.weight.zero_()
    assert torch.allclose(method.predict(RIGHT), RIGHT[:, :3].softmax(1))
