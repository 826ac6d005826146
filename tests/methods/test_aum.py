"""AUM: margins, their mean over epochs, threshold samples, and what is removed."""

import math
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from surelabel.methods.aum import AUM, margins, threshold_of, threshold_roles, visit_momentum

GIVEN = torch.tensor([0, 1, 2] * 4)
N, K = len(GIVEN), 3
X = torch.randn(N, K + 1, generator=torch.Generator().manual_seed(0))


@pytest.fixture
def make(make_task):
    return lambda given=GIVEN, epochs=20, seed=0, **options: AUM(make_task(given, epochs=epochs, seed=seed), **options)


@pytest.fixture
def judged(make, make_run):
    """A method whose first run, or whose two runs, had these AUMs."""

    def of(areas, roles, **options):
        method = make(**options)
        method.role.copy_(torch.tensor(roles))
        for store, area, stage in zip(method.area, areas, ("first", "second"), strict=False):
            store.replace(torch.tensor(area))
            run = make_run(X, GIVEN)
            run.clock = replace(run.clock, stage=stage)
            method.judge(run)
        return method

    return of


class TestMargin:
    def test_by_hand(self):
        logits = torch.tensor([[1.0, 2.0, 3.0], [6.0, 5.0, 4.0]])
        assert margins(logits, torch.tensor([1, 0])).tolist() == [-1, 1]

    def test_shift_and_scale(self):
        base = margins(X, GIVEN)
        assert torch.allclose(margins(X + 5, GIVEN), base, atol=1e-5)
        assert torch.allclose(margins(3 * X, GIVEN), 3 * base)

    def test_does_not_change_the_logits(self):
        before = X.clone()
        margins(X, GIVEN)
        assert torch.equal(X, before)

    def test_a_batch_of_one(self):
        assert margins(X[:1], GIVEN[:1]).shape == (1,)

    def test_mean_starts_with_the_second_visit(self):
        mean = torch.tensor(100.0)
        for visit, value in enumerate([100.0, 1.0, 3.0, 8.0], start=1):
            momentum = visit_momentum(torch.tensor(visit))
            mean = momentum * mean + (1 - momentum) * value
        assert mean.item() == pytest.approx((1 + 3 + 8) / 3)


class TestThresholdSamples:
    def test_are_disjoint_and_a_share_of_a_class(self, make_task):
        role = threshold_roles(make_task(GIVEN))
        assert [int((role == r).sum()) for r in (-1, 0, 1)] == [6, 3, 3]

    def test_depend_on_the_seed(self, make_task):
        given = torch.zeros(100, dtype=torch.long)
        first, again, other = (threshold_roles(make_task(given, seed=seed)) for seed in (1, 1, 2))
        assert torch.equal(first, again)
        assert not torch.equal(first, other)

    @pytest.mark.parametrize(("count", "flagged"), [(100, 98), (200, 197), (10, 9)])
    def test_more_than_one_percent_have_a_larger_one(self, count, flagged):
        """The threshold agrees with the authors' rule, applied to every threshold sample."""
        area = torch.arange(count, dtype=torch.float32)
        limit = threshold_of(area, torch.ones(count, dtype=torch.bool), 0.99)
        by_rule = torch.tensor([(area > value).float().mean() > 0.01 + 1e-6 for value in area])
        assert torch.equal(area < limit, by_rule)
        assert int(by_rule.sum()) == flagged

    def test_without_any_nothing_is_flagged(self):
        assert threshold_of(torch.ones(3), torch.zeros(3, dtype=torch.bool), 0.99) == -torch.inf

    def test_learn_a_class_that_does_not_exist(self, make, make_batch, make_clock):
        method = make()
        label = torch.where(method.role == 0, K, GIVEN)
        step = method.first_step(make_batch(X, GIVEN), make_clock(1))
        assert step.terms["cross_entropy"].item() == pytest.approx(F.cross_entropy(X, label).item(), rel=1e-5)
        assert torch.allclose(method.area[0].whole(), margins(X, label))
        assert method.area[1].whole().isnan().all()
        assert torch.equal(step.seen, X[:, :K])

    def test_have_their_given_label_in_the_other_run(self, make, make_batch, make_clock):
        method = make()
        method.second_step(make_batch(X, GIVEN), make_clock(1))
        own = method.role != 1
        assert torch.allclose(method.area[1].whole()[own], margins(X, GIVEN)[own])

    def test_means_over_epochs(self, make, make_batch, make_clock):
        method = make()
        label = torch.where(method.role == 0, K, GIVEN)
        for epoch, factor in enumerate((7.0, 1.0, 2.0), start=1):
            method.first_step(make_batch(factor * X, GIVEN), make_clock(epoch))
        assert torch.allclose(method.area[0].whole(), 1.5 * margins(X, label), atol=1e-5)

    def test_means_are_over_the_visits_of_a_row_and_not_over_epochs(self, make, make_batch, make_clock):
        """Rows 0 and 1 are seen in epochs 4, 9 and 30, and row 2 in epoch 30 alone."""
        method = make()
        label = torch.where(method.role == 0, K, GIVEN)
        for epoch, factor, rows in ((4, 7.0, [0, 1]), (9, 1.0, [0, 1]), (30, 2.0, [0, 1, 2])):
            index = torch.tensor(rows)
            method.first_step(make_batch(factor * X[index], GIVEN[index], index), make_clock(epoch))
        area = method.area[0].whole()
        assert torch.allclose(area[:2], 1.5 * margins(X, label)[:2], atol=1e-5)
        assert torch.allclose(area[2], 2 * margins(X, label)[2], atol=1e-5)
        assert area[3:].isnan().all()


class TestJudgement:
    ROLES = [0, 0, 1, 1] + [-1] * 8

    def test_flagged_in_every_run_in_which_it_was_itself(self, judged):
        first = [0.0, -5.0, -9.0, 9.0, -1.0, -1.0, 3.0, 3.0, 5.0, 5.0, 5.0, 5.0]
        second = [-3.0, 8.0, 1.0, 0.0, -1.0, 3.0, -1.0, 3.0, 5.0, 5.0, 5.0, 5.0]
        method = judged([first, second], self.ROLES)
        assert method.threshold.tolist() == [0, 1]
        # Row 0 by the second run alone, row 2 by the first alone, row 4 by both.
        assert method.removed.nonzero().squeeze(1).tolist() == [0, 2, 4]

    def test_a_run_judges_only_what_it_has_visited(self, judged, verdict_of):
        """Row 4 is judged by the first run alone and row 5 by none; row 1 sets no threshold."""
        first = [0.0, math.nan, 9.0, 9.0, -1.0, math.nan] + [3.0] * 6
        second = [9.0, 9.0, 1.0, 0.0, math.nan, math.nan] + [3.0] * 6
        method = judged([first, second], self.ROLES)
        assert method.threshold.tolist() == [0, 1]
        assert method.removed.nonzero().squeeze(1).tolist() == [4]
        assert verdict_of(method, X, GIVEN).quality[4:7].tolist() == pytest.approx([0.25, 0.5, (1 + 2.5 / 3.5) / 2])

    def test_after_one_run_counts_that_one(self, judged):
        method = judged([[0.0, -5.0, -9.0, 9.0, -1.0, -1.0] + [3.0] * 6], self.ROLES)
        assert method.removed.nonzero().squeeze(1).tolist() == [2, 4, 5]

    def test_nothing_is_removed_if_too_few_would_be_left(self, judged):
        low = [10.0, 10.0] + [-1.0] * 10
        high = [-1.0, -1.0, 10.0, 10.0] + [-1.0] * 8
        assert not judged([low, high], self.ROLES).removed.any()

    def test_the_rest_is_trained_on_real_classes(self, make, make_batch, make_clock):
        method = make()
        method.removed[[1, 5]] = True
        (walk,) = method.stages()[-1].plan
        assert walk.views["batch"].indices.tolist() == [0, 2, 3, 4, 6, 7, 8, 9, 10, 11]
        term = method.step(make_batch(X, GIVEN), make_clock(1)).terms["cross_entropy"]
        assert term.item() == pytest.approx(F.cross_entropy(X[:, :K], GIVEN).item(), rel=1e-5)
        assert torch.allclose(method.predict(X), X[:, :K].softmax(1))

    def test_quality_is_one_half_at_the_threshold(self, judged, verdict_of):
        first = [0.0, -5.0, -3.0, 0.0, 0.0, -1.0, 3.0] + [9.0] * 5
        second = [1.0, 1.0, 1.0, 0.0, 1.0, 0.0, 4.0] + [10.0] * 5
        quality = verdict_of(judged([first, second], self.ROLES), X, GIVEN).quality
        assert quality[:7].tolist() == pytest.approx([0.5, 0.5, 0.125, 0.5, 0.5, 0.25, 0.875])
        assert bool(((quality >= 0) & (quality <= 1)).all())

    def test_quality_before_anything_was_measured(self, make, verdict_of):
        assert verdict_of(make(), X, GIVEN).quality.tolist() == [0.5] * N


class TestStages:
    @pytest.mark.parametrize(
        ("epochs", "lengths"), [(600, [150, 150, 300]), (100, [25, 25, 50]), (3, [1, 1, 1]), (2, [1, 1]), (1, [1])]
    )
    def test_divide_the_run(self, make, epochs, lengths):
        assert [stage.epochs for stage in make(epochs=epochs).stages()] == lengths

    def test_measuring_runs_have_the_published_rate_and_all_samples(self, make):
        first, second, train = make().stages()
        assert (first.rate, second.rate, train.rate) == (0.1, 0.1, None)
        assert (first.weight_decay, second.weight_decay, train.weight_decay) == (1e-4, 1e-4, None)
        assert (first.reset, second.reset, train.reset) == (None, "new", "new")
        assert (first.plan, second.plan) == (None, None), "None is one pass over all rows"
        assert make(rate=None).stages()[0].rate is None

    def test_what_was_measured_survives_a_restart(self, make, judged, verdict_of):
        before = judged([[0.0] * N, [1.0] * N], TestJudgement.ROLES)
        after = make(seed=5)
        after.load_state_dict(before.state_dict())
        assert torch.equal(after.role, before.role)
        assert torch.equal(verdict_of(after, X, GIVEN).quality, verdict_of(before, X, GIVEN).quality)


def test_padding_is_not_measured(make, make_batch, make_clock):
    method = make()
    step = method.first_step(make_batch(X[:2], GIVEN[:2], torch.tensor([-1, -1]), torch.zeros(2)), make_clock(1))
    assert method.area[0].whole().isnan().all()
    assert math.isfinite(step.terms["cross_entropy"].item())
