"""INCV: the noise rate, halves, selection and removal, and the main stage."""

from itertools import pairwise

import pytest
import torch
import torch.nn.functional as F

from surelabel.methods.incv import INCV, lengths, noise_rate, noise_rate_of_selected

K = 3
GIVEN = torch.arange(24) % K
N = len(GIVEN)


def inputs(strength: torch.Tensor, given: torch.Tensor = GIVEN) -> torch.Tensor:
    """Inputs with which both networks prefer the label by `strength`."""
    logits = strength[:, None] * F.one_hot(given, K)
    h = torch.zeros(len(given), 1)
    return torch.cat([logits, h, logits, h], 1)


BELIEVED = torch.arange(N) % 4 != 0
STRENGTH = torch.where(BELIEVED, 4.0, -4.0) + torch.linspace(0, 0.1, N)
X = inputs(STRENGTH)


@pytest.fixture
def make(make_task):
    def method(given=GIVEN, epochs=120, **options):
        return INCV(make_task(given, K, epochs, num_networks=2), **options)

    return method


def iterate(method, run, iteration):
    """Judge both halves of an iteration."""
    for side in (0, 1):
        method.judge(iteration, side, run)


class TestRate:
    @pytest.mark.parametrize("num_classes", [10, 100])
    @pytest.mark.parametrize("rate", [0.0, 0.2, 0.5, 0.8])
    def test_inverts_the_agreement(self, rate, num_classes):
        agreement = (1 - rate) ** 2 + rate**2 / (num_classes - 1)
        assert noise_rate(agreement, num_classes) == pytest.approx(rate, abs=1e-6)

    @pytest.mark.parametrize("agreement", [0.1, 0.05, 0.0])
    def test_chance_and_below(self, agreement):
        # Exactly at chance the root is taken of a rounding error.
        assert noise_rate(agreement, 10) == pytest.approx(0.9, abs=1e-6)

    def test_of_the_selected_by_hand(self):
        assert noise_rate_of_selected(0.5, 2) == pytest.approx(1 / 3)
        assert noise_rate_of_selected(0.0, 2) == 0

    @pytest.mark.parametrize(("asymmetric", "expected"), [(False, 0.0200), (True, 0.1552)])
    def test_asymmetric_noise_has_one_wrong_class(self, asymmetric, expected, make_task):
        method = INCV(make_task(torch.arange(10), num_classes=10), asymmetric=asymmetric)
        method.rate.fill_(0.3)
        method.selected.fill_(True)
        assert method.forget_rate() == pytest.approx(expected, abs=5e-5)


class TestLengths:
    @pytest.mark.parametrize(
        ("epochs", "expected"),
        [
            (600, (4, 50, 200)),
            (200, (4, 16, 72)),
            (120, (4, 10, 40)),
            (60, (4, 5, 20)),
            (24, (1, 5, 14)),
            (4, (1, 1, 2)),
            (3, (1, 1, 1)),
            (2, (0, 1, 2)),
            (1, (0, 1, 1)),
        ],
    )
    def test_published_shares(self, epochs, expected):
        assert lengths(epochs) == expected

    def test_are_the_whole_run(self, make):
        for epochs in range(1, 130):
            stages = make(epochs=epochs).stages()
            assert sum(stage.epochs for stage in stages) == epochs
            assert min(stage.epochs for stage in stages) >= 1

    def test_names(self, make):
        names = [stage.name for stage in make(iterations=2).stages()]
        assert names == ["iteration 1a", "iteration 1b", "iteration 2a", "iteration 2b", "train"]


class TestHalves:
    def test_are_disjoint_random_and_all_candidates(self, make):
        method = make()
        first, second = method.halves(1)
        assert sorted(torch.cat([first, second]).tolist()) == list(range(N))
        assert len(first) == len(second) == N // 2
        assert set(first.tolist()) != set(method.halves(2)[0].tolist())
        assert torch.equal(first, make().halves(1)[0])

    @pytest.mark.parametrize("num_candidates", [0, 1, 5])
    def test_of_a_few(self, make, num_candidates):
        method = make()
        method.candidate[num_candidates:] = False
        first, second = method.halves(1)
        assert (len(first), len(second)) == (-(-num_candidates // 2), num_candidates // 2)

    def test_train_on_the_selected_and_one_half_and_judge_the_other(self, make):
        method = make()
        method.selected[:4] = True
        method.candidate[:4] = False
        first, second = method.halves(1)
        for side, (trained, judged) in enumerate(((first, second), (second, first))):
            stage = method.stages()[side]
            (walk,) = stage.plan
            rows = next(iter(walk.views.values())).indices
            assert sorted(rows.tolist()) == sorted([0, 1, 2, 3, *trained.tolist()])
            assert stage.validate_on.indices.tolist() == judged.tolist()
            assert (stage.reset, stage.keep) == ("initial", "best")
            assert not set(rows.tolist()) & set(judged.tolist())

    @pytest.mark.parametrize(
        ("rate", "asymmetric", "best"), [(0.2, False, 4), (0.4, False, 2), (0.7, False, 1), (0.2, True, 1)]
    )
    def test_until_when_the_best_epoch_is_kept(self, make, rate, asymmetric, best):
        method = make(asymmetric=asymmetric)
        method.rate.fill_(rate)
        kept = [stage.keep for stage in method.stages()]
        assert kept == ["best"] * 2 * best + ["last"] * (2 * (4 - best) + 1)

    def test_step_is_cross_entropy_of_the_first(self, make, make_batch, make_clock):
        method = make()
        step = method.half_step(make_batch(X, GIVEN), make_clock(1))
        assert step.terms["cross_entropy"].item() == pytest.approx(F.cross_entropy(X[:, :K], GIVEN).item(), rel=1e-5)
        step.terms["cross_entropy"].backward()
        assert method.second.classifier.weight.grad is None

    def test_no_candidate_left(self, make, make_run):
        method = make()
        method.selected.fill_(True)
        method.candidate.fill_(False)
        method.rate.fill_(0.2)
        stage = method.stages()[2]
        assert (stage.keep, stage.validate_on) == ("last", None)
        run = make_run(X, GIVEN)
        assert len(next(iter(stage.plan[0].views.values())).indices) == N
        iterate(method, run, 2)
        assert method.selected.all()
        assert run.num_collected == 0

    def test_nothing_at_all_left_means_everything(self, make):
        method = make()
        method.candidate.fill_(False)
        (walk,) = method.stages()[0].plan
        assert next(iter(walk.views.values())).indices is None


class TestSelection:
    def test_predicted_labels_are_selected_and_the_rest_stays_or_goes(self, make, make_run):
        method, run = make(), make_run(X, GIVEN)
        iterate(method, run, 1)
        assert torch.equal(method.selected, BELIEVED)
        assert not (method.selected & method.candidate).any()
        assert run.notes["noise_rate"] == method.rate.item()
        assert run.notes["selected_share"] == pytest.approx(BELIEVED.float().mean().item())

    def test_the_rate_comes_from_the_first_half_alone(self, make, make_run):
        method, run = make(), make_run(X, GIVEN)
        judged = method.halves(1)[1]
        method.judge(1, 0, run)
        rate = noise_rate(BELIEVED[judged].float().mean().item(), K)
        assert method.rate.item() == pytest.approx(rate, abs=1e-6)
        method.judge(1, 1, run)
        assert method.rate.item() == pytest.approx(rate, abs=1e-6)

    def test_the_largest_losses_are_removed_by_count(self, make, make_run):
        method, run = make(), make_run(X, GIVEN)
        method.rate.fill_(0.25)
        judged = method.halves(1)[1]
        method.judge(1, 0, run)
        num_selected = int(BELIEVED[judged].sum())
        by_strength = judged[STRENGTH[judged].argsort()]
        expected = [row for row in by_strength[: int(num_selected / 3)].tolist() if not BELIEVED[row]]
        assert sorted(method.removed.nonzero().squeeze(1).tolist()) == sorted(expected)
        assert expected
        assert method.candidate.all(), "nothing takes effect before the second half"

    def test_no_noise_removes_nothing(self, make, make_run):
        method = make()
        method.rate.fill_(0.0)
        iterate(method, make_run(X, GIVEN), 1)
        assert torch.equal(method.candidate, ~BELIEVED)

    def test_selection_wins_over_removal(self, make, make_run):
        method = make()
        method.rate.fill_(0.9)
        iterate(method, make_run(X, GIVEN), 1)
        assert torch.equal(method.selected, BELIEVED)
        assert not method.candidate.any()

    def test_asymmetric_noise_removes_nothing(self, make, make_run):
        method = make(asymmetric=True)
        method.rate.fill_(0.9)
        iterate(method, make_run(X, GIVEN), 1)
        assert torch.equal(method.candidate, ~BELIEVED)

    def test_clean_labels_and_a_perfect_network_select_everything_at_once(self, make, make_run):
        method = make()
        iterate(method, make_run(inputs(torch.full((N,), 4.0)), GIVEN), 1)
        assert method.selected.all()
        assert method.rate.item() == pytest.approx(0, abs=1e-6)

    def test_selected_grow_and_candidates_shrink(self, make, make_run):
        method = make()
        sizes = [(0, N)]
        for iteration in range(1, 5):
            strength = torch.randn(N, generator=torch.Generator().manual_seed(iteration))
            iterate(method, make_run(inputs(strength), GIVEN), iteration)
            sizes.append((int(method.selected.sum()), int(method.candidate.sum())))
            assert not (method.selected & method.candidate).any()
        assert all(b[0] >= a[0] and b[1] <= a[1] for a, b in pairwise(sizes))

    def test_keeps_predictions_of_networks_not_trained_on_a_row(self, make, make_run):
        method = make()
        method.judge(1, 0, make_run(X, GIVEN))
        judged = method.halves(1)[1]
        rows = method.held_out.whole()
        assert torch.allclose(rows[judged], X[judged, :K].softmax(1))
        assert torch.allclose(rows.sum(1), torch.ones(N))
        others = torch.ones(N, dtype=torch.bool)
        others[judged] = False
        assert torch.allclose(rows[others], torch.full((N // 2, K), 1 / K))

    def test_survives_a_restart_between_the_halves(self, make, make_run):
        before, after, run = make(), make(), make_run(X, GIVEN)
        before.judge(1, 0, run)
        after.load_state_dict(before.state_dict())
        for method in (before, after):
            method.judge(1, 1, run)
        assert torch.equal(before.selected, after.selected)
        assert torch.equal(before.candidate, after.candidate)


class TestMainStage:
    @pytest.fixture
    def selected(self, make):
        """Twelve selected rows, eight candidates; K = 3 and eps = 1/2 make eps_S a third."""
        method = make(epochs=600)
        method.rate.fill_(0.5)
        method.selected[:12] = True
        method.candidate[:] = False
        method.candidate[12:20] = True
        method.halves_done.fill_(8)
        return method

    @pytest.mark.parametrize(("epoch", "num_candidates"), [(1, 0), (40, 0), (41, 6), (200, 6)])
    def test_candidates_join_later_and_are_at_most_half_as_many(self, selected, make_run, epoch, num_candidates):
        run = make_run(X, GIVEN, epoch=epoch)
        (walk,) = selected.plan(run)
        rows = next(iter(walk.views.values())).indices.tolist()
        assert rows[:12] == list(range(12))
        assert len(rows) == len(set(rows)) == 12 + num_candidates
        assert set(rows[12:]) <= set(range(12, 20))

    @pytest.mark.parametrize(("epoch", "kept"), [(1, 11), (5, 10), (10, 8), (100, 8)])
    def test_keeps_as_many_as_are_selected_and_right(self, selected, make_batch, make_clock, epoch, kept):
        x = inputs(torch.linspace(-1, 1, N))[:20].requires_grad_()
        terms = selected.step(make_batch(x, GIVEN[:20]), make_clock(epoch, 200)).terms
        (grad,) = torch.autograd.grad(terms["first"], x)
        # The largest strengths have the smallest losses, candidates or not.
        assert grad.abs().sum(1).nonzero().squeeze(1).tolist() == list(range(20 - kept, 20))

    def test_each_learns_from_what_the_other_finds_easy(self, selected, make_batch, make_clock):
        easy_last, easy_first = inputs(torch.linspace(-1, 1, N))[:12], inputs(torch.linspace(1, -1, N))[:12]
        x = torch.cat([easy_last[:, :4], easy_first[:, 4:]], 1).requires_grad_()
        terms = selected.step(make_batch(x, GIVEN[:12]), make_clock(100, 200)).terms
        (grad,) = torch.autograd.grad(terms["first"], x)
        assert grad.abs().sum(1).nonzero().squeeze(1).tolist() == list(range(8))

    def test_padding_does_not_count(self, selected, make_batch, make_clock):
        weight = (torch.arange(12) < 6).float()
        index = torch.where(weight > 0, torch.arange(12), -1)
        x = inputs(torch.linspace(-1, 1, N))[:12].requires_grad_()
        terms = selected.step(make_batch(x, GIVEN[:12], index, weight), make_clock(100, 200)).terms
        (grad,) = torch.autograd.grad(terms["first"], x)
        assert grad.abs().sum(1).nonzero().squeeze(1).tolist() == [2, 3, 4, 5]

    def test_a_batch_of_one_candidate_is_kept(self, selected, make_batch, make_clock):
        terms = selected.step(make_batch(X[15:16], GIVEN[15:16], torch.tensor([15])), make_clock(1)).terms
        assert terms["first"].item() > 0

    def test_nothing_selected_uses_all_rows_at_the_estimated_rate(self, make, make_run):
        method = make()
        method.rate.fill_(0.5)
        assert method.forget_rate() == 0.5
        run = make_run(X, GIVEN, epoch=40)
        assert len(next(iter(method.plan(run)[0].views.values())).indices) == N

    def test_a_run_without_iterations_forgets_nothing(self, make, make_batch, make_clock):
        method = make(epochs=2)
        assert [stage.name for stage in method.stages()] == ["train"]
        terms = method.step(make_batch(X, GIVEN), make_clock(2)).terms
        assert terms["first"].item() == pytest.approx(F.cross_entropy(X[:, :K], GIVEN).item(), rel=1e-5)

    def test_starts_from_the_initial_weights(self, make):
        assert make().stages()[-1].reset == "initial"


def test_predictions_are_the_first_networks_until_the_second_is_trained(make):
    method = make()
    x = torch.cat([X[:, :4], X[:, 4:].flip(0)], 1)
    first, second = x[:, :K].softmax(1), x[:, 4 : 4 + K].softmax(1)
    assert torch.allclose(method.predict(x), first)
    method.halves_done.fill_(8)
    assert torch.allclose(method.predict(x), (first + second) / 2)
