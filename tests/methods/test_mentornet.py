"""MentorNet: curricula, the running threshold, example dropout, and the learned mentor."""

import math

import pytest
import torch
import torch.nn.functional as F

from surelabel.methods.mentornet import CURRICULA, MentorNet, grid_points, random_part

K = 2
GIVEN = torch.zeros(10, dtype=torch.long)
# (z, 0, h): a larger z is a smaller loss at label 0.
X = torch.stack([torch.arange(10.0) - 5, torch.zeros(10), torch.zeros(10)], 1)
LOSS = F.cross_entropy(X[:, :2], GIVEN, reduction="none")
ALL_KEPT = {"early_dropout": 0.0, "dropout": 0.0}


@pytest.fixture
def make(make_task):
    def method(given=GIVEN, epochs=100, **options):
        return MentorNet(make_task(given, K, epochs), **options)

    return method


def v(curriculum, loss=1.0, difference=0.0, percent=50):
    return CURRICULA[curriculum](*(torch.tensor([float(value)]) for value in (loss, difference, percent))).item()


class TestCurricula:
    @pytest.mark.parametrize(
        ("percent", "difference", "expected"),
        [
            (0, 4, 1),
            (18, 4, 1),
            (19, 4, 0),
            (19, 0.01, 0),
            (19, 0, 1),
            (19, -3, 1),
            (89, 0.25, 0),
            (90, 0.25, 0.75),
            (90, 0, 1),
            (90, -1, 1),
            (99, 1.5, 0),
        ],
    )
    def test_predefined(self, percent, difference, expected):
        assert v("predefined", difference=difference, percent=percent) == pytest.approx(expected)

    def test_the_others_by_hand(self):
        assert [v("self_paced", difference=d) for d in (-1, 0, 1)] == [1, 1, 0]
        assert [v("hard", difference=d) for d in (-1, 0, 1)] == [0, 1, 1]
        assert [v("linear", difference=d) for d in (-1, 0, 0.5, 2)] == [1, 1, 0.5, 0]
        assert v("none", loss=9, difference=9) == 1
        assert v("focal", loss=math.log(2)) == pytest.approx(0.25)

    @pytest.mark.parametrize("curriculum", CURRICULA)
    def test_weights_lie_in_0_1(self, curriculum):
        weight = CURRICULA[curriculum](*grid_points(2000, torch.Generator().manual_seed(0)))
        assert weight.shape == (2000,)
        assert 0 <= weight.min() <= weight.max() <= 1


class TestThreshold:
    def test_starts_at_the_first_percentile_and_moves_towards_the_next(self, make, make_batch):
        method = make(percentile=0.5, threshold_momentum=0.75)
        method.update_threshold(torch.tensor([1.0, 2.0, 3.0]), make_batch(X[:3], GIVEN[:3]))
        assert method.threshold.item() == 2
        method.update_threshold(torch.tensor([5.0, 6.0, 7.0]), make_batch(X[:3], GIVEN[:3]))
        assert method.threshold.item() == pytest.approx(0.75 * 2 + 0.25 * 6)

    def test_equal_batches_leave_it(self, make, make_batch):
        method = make()
        for _ in range(3):
            method.update_threshold(LOSS, make_batch(X, GIVEN))
        assert method.threshold.item() == pytest.approx(LOSS.quantile(0.75).item())

    def test_padding_does_not_count(self, make, make_batch):
        method, weight = make(percentile=1.0), torch.tensor([1.0, 1.0, 0.0])
        method.update_threshold(torch.tensor([1.0, 2.0, 30.0]), make_batch(X[:3], GIVEN[:3], weight=weight))
        assert method.threshold.item() == 2

    def test_survives_a_restart(self, make, make_batch):
        before, after = make(), make()
        before.update_threshold(LOSS, make_batch(X, GIVEN))
        after.load_state_dict(before.state_dict())
        assert after.threshold == before.threshold


class TestStep:
    def test_self_paced_by_hand(self, make, make_batch, make_clock):
        method = make(curriculum="self_paced", percentile=0.5, **ALL_KEPT)
        terms = method.step(make_batch(X, GIVEN), make_clock(1, 100)).terms
        # The five smaller losses lie below the median; the sum is divided by all ten.
        assert terms["weighted"].item() == pytest.approx(LOSS[5:].sum().item() / 10, rel=1e-5)

    def test_no_curriculum_is_cross_entropy(self, make, make_batch, make_clock):
        terms = make(curriculum="none", **ALL_KEPT).step(make_batch(X, GIVEN), make_clock(1, 100)).terms
        assert terms["weighted"].item() == pytest.approx(LOSS.mean().item(), rel=1e-6)

    @pytest.mark.parametrize(
        ("epoch", "curriculum"), [(19, "none"), (20, "self_paced"), (90, "self_paced"), (91, "linear")]
    )
    def test_predefined_changes_with_the_epoch(self, make, make_batch, make_clock, epoch, curriculum):
        one, other = (
            make(curriculum=name, **ALL_KEPT)
            .step(make_batch(X, GIVEN), make_clock(epoch, 100))
            .terms["weighted"]
            .item()
            for name in ("predefined", curriculum)
        )
        assert one == other

    def test_weights_have_no_gradient(self, make, make_batch, make_clock):
        x = X.clone().requires_grad_()
        terms = make(curriculum="linear", percentile=0.5, **ALL_KEPT).step(make_batch(x, GIVEN), make_clock(1)).terms
        (grad,) = torch.autograd.grad(terms["weighted"], x)
        weight = (1 - (LOSS - LOSS.median().lerp(LOSS.quantile(0.5), 1.0))).clamp(0, 1)
        expected = weight * (X[:, 0].sigmoid() - 1) / 10
        assert torch.allclose(grad[:, 0], expected, atol=1e-6)

    def test_everything_dropped_is_a_zero_with_a_gradient(self, make, make_batch, make_clock):
        method = make(early_dropout=1.0)
        loss = method.step(make_batch(X, GIVEN), make_clock(1)).terms["weighted"]
        loss.backward()
        assert loss.item() == 0
        assert not method.network.classifier.weight.grad.any()

    def test_a_batch_of_one_and_equal_losses(self, make, make_batch, make_clock):
        for rows in (1, 10):
            method = make(curriculum="self_paced", **ALL_KEPT)
            loss = method.step(make_batch(torch.zeros(rows, 3), GIVEN[:rows]), make_clock(1)).terms["weighted"]
            assert loss.item() == pytest.approx(math.log(2), rel=1e-5)


class TestDropout:
    @pytest.mark.parametrize(("dropout", "kept"), [(0.0, 10), (0.05, 9), (0.2, 8), (0.5, 5), (1.0, 0)])
    def test_number_kept(self, make_batch, dropout, kept):
        mask = random_part(make_batch(X, GIVEN), dropout, torch.Generator().manual_seed(1))
        assert int(mask.sum()) == kept

    def test_padding_is_neither_kept_nor_counted(self, make_batch):
        weight = (torch.arange(10) < 4).float()
        mask = random_part(make_batch(X, GIVEN, weight=weight), 0.5, torch.Generator().manual_seed(1))
        assert int(mask.sum()) == 2
        assert not mask[4:].any()

    def test_early_and_late_rate(self, make, make_batch, make_clock):
        method, kept = make(curriculum="none", early_dropout=0.5, dropout=0.2), []
        for epoch in (1, 17, 18, 100):
            x = X.clone().requires_grad_()
            loss = method.step(make_batch(x, GIVEN), make_clock(epoch, 100)).terms["weighted"]
            kept.append(int((torch.autograd.grad(loss, x)[0].abs().sum(1) > 0).sum()))
        assert kept == [5, 5, 8, 8]


class TestLearnedMentor:
    @pytest.fixture(scope="class")
    @classmethod
    def taught(cls, make_task, make_run):
        method = MentorNet(make_task(GIVEN, K, 100), mentor="learned")
        method.plan(make_run(X, GIVEN))
        return method

    def test_knows_the_curriculum(self, taught):
        points = grid_points(5000, torch.Generator().manual_seed(7))
        expected = CURRICULA["predefined"](*points)
        learned = taught.mentor(*points)
        assert ((learned > 0.5) == (expected > 0.5)).float().mean() > 0.97
        assert 0 <= learned.min() <= learned.max() <= 1

    def test_is_frozen_and_no_network_of_the_run(self, taught, make_batch, make_clock):
        assert list(taught.networks()) == ["network"]
        before = {name: value.clone() for name, value in taught.mentor.state_dict().items()}
        taught.step(make_batch(X, GIVEN), make_clock(50, 100)).terms["weighted"].backward()
        assert all(parameter.grad is None for parameter in taught.mentor.parameters())
        assert all(torch.equal(value, before[name]) for name, value in taught.mentor.state_dict().items())

    def test_is_taught_once_also_over_a_restart(self, taught, make, make_run, monkeypatch):
        after = make(mentor="learned")
        after.load_state_dict(taught.state_dict())
        monkeypatch.setattr("surelabel.methods.mentornet.teach", lambda *_: pytest.fail("taught again"))
        after.plan(make_run(X, GIVEN, epoch=2))
        assert torch.equal(after.mentor.layers[0].weight, taught.mentor.layers[0].weight)

    def test_a_closed_form_has_no_network(self, make, make_run):
        method = make()
        method.plan(make_run(X, GIVEN))
        assert method.mentor is None
        assert not method.is_taught


def test_evidence_is_the_weight_at_the_end(make, verdict_of):
    method = make()
    method.threshold.fill_(1.0)
    assert torch.allclose(verdict_of(method, X, GIVEN).evidence["weight"], (2 - LOSS).clamp(0, 1), atol=1e-6)
