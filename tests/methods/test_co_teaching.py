"""Co-teaching: how two networks select for each other, and the estimated noise rate."""

from itertools import pairwise

import pytest
import torch
import torch.nn.functional as F

from surelabel.methods.co_teaching import CoTeaching

K = 2
GIVEN = torch.zeros(10, dtype=torch.long)


def inputs(first, second):
    """Columns (z, 0, h) of each network, so that a larger z is a smaller loss at label 0."""
    first, second = torch.tensor(first), torch.tensor(second)
    zero = torch.zeros_like(first)
    return torch.stack([first, zero, zero, second, zero, zero], 1)


UP = [float(i) for i in range(10)]
DOWN = UP[::-1]
X = inputs(UP, DOWN)
# The first network finds the last rows easiest, the second the first ones.
LOSS_FIRST, LOSS_SECOND = (F.cross_entropy(X[:, c : c + 2], GIVEN, reduction="none") for c in (0, 3))


@pytest.fixture
def make(make_task):
    def method(given=GIVEN, epochs=200, **options):
        return CoTeaching(make_task(given, K, epochs, num_networks=2), **options)

    return method


class TestForgetShare:
    def test_grows_to_the_rate_and_stays(self, make, make_clock):
        method = make(forget_rate=0.5, ramp=10)
        shares = [method.forget_share(make_clock(epoch)) for epoch in range(21)]
        assert shares[0] == 0
        assert shares[1] == pytest.approx(0.05)
        assert all(b > a for a, b in pairwise(shares[:11]))
        assert shares[10:] == [0.5] * 11


class TestStep:
    def test_forgetting_nothing_is_the_mean_cross_entropy(self, make, make_batch, make_clock):
        terms = make(forget_rate=0.0).step(make_batch(X, GIVEN), make_clock(9)).terms
        assert terms["first"].item() == pytest.approx(LOSS_FIRST.mean().item(), rel=1e-6)
        assert terms["second"].item() == pytest.approx(LOSS_SECOND.mean().item(), rel=1e-6)

    def test_each_learns_from_what_the_other_finds_easy(self, make, make_batch, make_clock):
        terms = make(forget_rate=0.7, ramp=1).step(make_batch(X, GIVEN), make_clock(1)).terms
        assert terms["first"].item() == pytest.approx(LOSS_FIRST[:3].mean().item(), rel=1e-6)
        assert terms["second"].item() == pytest.approx(LOSS_SECOND[7:].mean().item(), rel=1e-6)

    def test_gradient_is_zero_outside_the_others_choice(self, make, make_batch, make_clock):
        x = X.clone().requires_grad_()
        terms = make(forget_rate=0.7, ramp=1).step(make_batch(x, GIVEN), make_clock(1)).terms
        (grad,) = torch.autograd.grad(terms["first"], x)
        assert (grad[:, :2].abs().sum(1) > 0).tolist() == [True] * 3 + [False] * 7
        assert not grad[:, 3:].any()

    def test_what_a_network_finds_easy_does_not_matter_to_itself(self, make, make_batch, make_clock):
        method = make(forget_rate=0.5, ramp=1)
        same = inputs([1.0] * 10, DOWN)
        easy_elsewhere = inputs([1.0] * 5 + [9.0] * 5, DOWN)
        first, second = (
            method.step(make_batch(x, GIVEN), make_clock(1)).terms["first"].item() for x in (same, easy_elsewhere)
        )
        assert first == second

    @pytest.mark.parametrize(
        ("rate", "rows", "kept"), [(0.2, 10, 8), (0.3, 10, 7), (0.9, 10, 1), (0.95, 10, 1), (0.5, 5, 2), (0.0, 10, 10)]
    )
    def test_number_kept_is_the_whole_part_and_at_least_one(self, make, make_batch, make_clock, rate, rows, kept):
        x = X[:rows].clone().requires_grad_()
        batch = make_batch(x, GIVEN[:rows])
        terms = make(forget_rate=rate, ramp=1).step(batch, make_clock(1)).terms
        (grad,) = torch.autograd.grad(terms["first"], x)
        assert int((grad.abs().sum(1) > 0).sum()) == kept

    def test_padding_is_neither_kept_nor_counted(self, make, make_batch, make_clock):
        weight = (torch.arange(10) >= 4).float()
        index = torch.where(weight > 0, torch.arange(10), -1)
        x = X.clone().requires_grad_()
        terms = make(forget_rate=0.5, ramp=1).step(make_batch(x, GIVEN, index, weight), make_clock(1)).terms
        (grad,) = torch.autograd.grad(terms["first"], x)
        assert grad.abs().sum(1).nonzero().squeeze(1).tolist() == [4, 5, 6]

    def test_equal_networks_have_equal_losses(self, make, make_batch, make_clock):
        terms = make(forget_rate=0.4, ramp=1).step(make_batch(inputs(UP, UP), GIVEN), make_clock(1)).terms
        assert terms["first"].item() == terms["second"].item()

    def test_ramp(self, make, make_batch, make_clock):
        method, kept = make(forget_rate=0.8, ramp=4), []
        for epoch in range(1, 7):
            x = X.clone().requires_grad_()
            terms = method.step(make_batch(x, GIVEN), make_clock(epoch)).terms
            kept.append(int((torch.autograd.grad(terms["first"], x)[0].abs().sum(1) > 0).sum()))
        assert kept == [8, 6, 4, 2, 2, 2]

    def test_says_what_it_saw(self, make, make_batch, make_clock):
        seen = make(forget_rate=0.4).step(make_batch(X, GIVEN), make_clock(1)).seen
        assert torch.allclose(seen, (X[:, :2] + X[:, 3:5]) / 2)


class TestEstimatedRate:
    # 60 rows whose label 0 both networks believe, 40 whose label they do not.
    STRENGTH = torch.cat([torch.linspace(3, 4, 60), torch.linspace(-4, -3, 40)])
    GIVEN = torch.zeros(100, dtype=torch.long)

    @pytest.fixture
    def x(self):
        return inputs(self.STRENGTH.tolist(), self.STRENGTH.tolist())

    def test_nothing_is_forgotten_in_the_warm_up(self, make, make_batch, make_clock, make_run, x):
        method = make(self.GIVEN, ramp=10)
        method.plan(make_run(x, self.GIVEN, epoch=10))
        assert method.rate.isnan()
        terms = method.step(make_batch(x, self.GIVEN), make_clock(10)).terms
        assert terms["first"].item() == pytest.approx(F.cross_entropy(x[:, :2], self.GIVEN).item(), rel=1e-5)

    def test_after_it_is_estimated_once_and_noted(self, make, make_run, x):
        method = make(self.GIVEN, ramp=10)
        run = make_run(x, self.GIVEN, epoch=11)
        method.plan(run)
        assert method.rate.item() == pytest.approx(0.4, abs=0.01)
        assert run.notes == {"forget_rate": method.rate.item()}
        method.plan(run)
        assert run.num_collected == 1

    def test_the_ramp_starts_after_the_warm_up(self, make, make_batch, make_clock, make_run, x):
        method, kept = make(self.GIVEN, ramp=10), []
        method.plan(make_run(x, self.GIVEN, epoch=11))
        for epoch in (11, 15, 20, 30):
            leaf = x.clone().requires_grad_()
            terms = method.step(make_batch(leaf, self.GIVEN), make_clock(epoch, 200)).terms
            kept.append(int((torch.autograd.grad(terms["first"], leaf)[0].abs().sum(1) > 0).sum()))
        assert kept == pytest.approx([96, 80, 60, 60], abs=1)

    def test_survives_a_restart(self, make, make_run, x):
        before, after = make(self.GIVEN, ramp=10), make(self.GIVEN, ramp=10)
        before.plan(make_run(x, self.GIVEN, epoch=11))
        after.load_state_dict(before.state_dict())
        run = make_run(x, self.GIVEN, epoch=12)
        after.plan(run)
        assert after.rate == before.rate
        assert run.num_collected == 0

    def test_a_known_rate_is_not_estimated_and_has_no_warm_up(self, make, make_run, x):
        method = make(self.GIVEN, forget_rate=0.25)
        run = make_run(x, self.GIVEN, epoch=100)
        (walk,) = method.plan(run)
        assert run.num_collected == 0
        assert method.rate.item() == 0.25
        assert walk.step == method.step
        assert [view.indices for view in walk.views.values()] == [None]

    def test_losses_that_do_not_differ_mean_no_noise(self, make, make_run):
        method = make(self.GIVEN, ramp=1, epochs=2)
        method.plan(make_run(torch.zeros(100, 6), self.GIVEN, epoch=3))
        assert method.rate.item() == 0

    def test_quality_ranks_by_both_losses(self, make, make_run, verdict_of, x):
        seen = torch.full((100,), 0.5)
        method = make(self.GIVEN)
        method.stages()[-1].then(make_run(x, self.GIVEN))
        quality = verdict_of(method, x, self.GIVEN, seen=seen).quality
        assert quality[:60].min() > quality[60:].max()
        assert bool(((quality >= 0) & (quality <= 1)).all())


@pytest.mark.parametrize(("epochs", "ramp"), [(200, 10), (400, 20), (20, 1)])
def test_ramp_is_the_published_share(make, epochs, ramp):
    assert make(epochs=epochs, forget_rate=0.2).ramp == ramp


@pytest.mark.parametrize(("epochs", "warm_up"), [(200, 10), (40, 5), (4, 2), (1, 1)])
def test_warm_up_before_an_estimate_is_at_least_five_epochs(make, epochs, warm_up):
    assert make(epochs=epochs).warm_up == warm_up
