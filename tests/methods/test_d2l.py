"""D2L: local dimensionality, the turning point, and targets that move to the predictions."""

import math

import pytest
import torch
import torch.nn.functional as F

from surelabel.methods.d2l import D2L, is_turning, local_dimension, mean_dimension

GIVEN = torch.arange(200) % 3
X = torch.randn(200, 4, generator=torch.Generator().manual_seed(0))


@pytest.fixture
def make(make_task):
    return lambda epochs=120, given=GIVEN, **options: D2L(make_task(given, epochs=epochs), **options)


def distances_in_a_ball(size: int, count: int = 4000) -> torch.Tensor:
    """Return ascending distances (50, count) from the centre of a ball to uniform points in it.

    In d dimensions P(r < x) = x^d.
    """
    generator = torch.Generator().manual_seed(0)
    uniform = torch.rand(50, count, generator=generator, dtype=torch.float64)
    return (uniform ** (1 / size)).sort(1).values


class TestDimension:
    def test_by_hand(self):
        distances = (torch.arange(1, 21, dtype=torch.float64) / 20)[None] ** (1 / 3)
        assert local_dimension(distances).item() == pytest.approx(3.41, abs=0.005)

    @pytest.mark.parametrize("size", [2, 5, 10])
    def test_at_the_centre_of_a_ball(self, size):
        assert local_dimension(distances_in_a_ball(size)[:, :100]).mean().item() == pytest.approx(size, rel=0.05)

    def test_of_a_line_in_space(self):
        """It has one dimension; the estimate from k neighbours is k / (k - 2) times too large."""
        t = torch.rand(1000, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
        assert mean_dimension(t * torch.tensor([[1.0, -2.0, 3.0]])) == pytest.approx(20 / 18, rel=0.03)

    def test_scale_and_rotation_change_nothing(self):
        x = X.double()
        rotation = torch.linalg.qr(torch.randn(4, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1))).Q
        assert mean_dimension(7 * x @ rotation) == pytest.approx(mean_dimension(x), rel=1e-6)

    def test_duplicates_are_finite(self):
        assert math.isfinite(mean_dimension(X[:50].repeat(2, 1)))

    def test_fewer_samples_than_neighbours(self):
        assert mean_dimension(X[:5]) > 0
        assert math.isnan(mean_dimension(X[:2]))

    def test_equal_distances_are_infinite(self):
        assert local_dimension(torch.ones(1, 5, dtype=torch.float64)).item() in (math.inf, -math.inf)


class TestTurningPoint:
    def test_two_standard_deviations_above_the_window(self):
        window = [1.0, 2.0, 3.0, 2.0, 2.0]
        limit = 2 + 2 * math.sqrt(2 / 5)
        assert not is_turning(torch.tensor([*window, limit - 0.01]), 5)
        assert is_turning(torch.tensor([*window, limit + 0.01]), 5)

    def test_needs_a_whole_window(self):
        assert not is_turning(torch.tensor([1.0, 1.0, 9.0]), 5)

    def test_older_epochs_do_not_count(self):
        assert is_turning(torch.tensor([50.0, 1.0, 1.0, 1.1]), 2)


class TestPlan:
    def planned(self, method, make_run, dimensions):
        """Plan the first epochs with these measured dimensions."""
        values = iter(dimensions)
        method.measure = lambda *_: next(values)
        for epoch in range(1, len(dimensions) + 1):
            run = make_run(X, GIVEN, epoch=epoch)
            method.plan(run)
        return run

    def test_alpha_by_hand(self, make, make_run):
        method = make(epochs=20, start=0)
        run = self.planned(method, make_run, [4.0, 3.0, 2.0, 2.0, 2.0, 3.1, 3.0, 5.0])
        # The window is 5; epoch 7 of 20, counted from 0, and the smallest dimension is 2.
        assert bool(method.turned)
        assert method.alpha.item() == pytest.approx(math.exp(-7 / 20 * 5 / 2), rel=1e-6)
        assert run.notes == {"dimension": 5.0, "alpha": method.alpha.item()}

    def test_is_one_before_the_turning_point(self, make, make_run):
        method = make(epochs=20, start=0)
        self.planned(method, make_run, [9.0, 8.0, 7.0, 6.0, 5.0, 4.0, 3.0])
        assert method.alpha.item() == 1

    def test_no_search_before_the_start(self, make, make_run):
        method = make(epochs=20, start=6)
        self.planned(method, make_run, [2.0, 2.0, 2.0, 2.0, 2.0, 9.0, 9.0, 9.0])
        assert not method.turned

    def test_alpha_falls_with_epochs_at_a_constant_ratio(self, make, make_run):
        alphas = []
        for count in (7, 9, 12):
            method = make(epochs=20, start=0)
            self.planned(method, make_run, [2.0] * 5 + [3.0] * (count - 5))
            alphas.append(method.alpha.item())
        assert alphas == sorted(alphas, reverse=True)
        assert len(set(alphas)) == 3

    def test_measures_features_of_whole_chunks(self, make, make_run):
        method, run = make(), make_run(X, GIVEN)
        rows = torch.randperm(200, generator=run.rng)[:128]
        assert method.measure(run, 0) == pytest.approx(mean_dimension(X[rows]))

    def test_constant_features_repeat_the_last_dimension(self, make, make_run):
        method = make()
        method.dimension[3] = 2.5
        run = make_run(torch.zeros(200, 4), GIVEN)
        value = method.measure(run, 4)
        assert math.isfinite(value)
        assert value > 0

    def test_too_few_samples_to_measure(self, make, make_run):
        method = make(given=GIVEN[:2])
        assert method.measure(make_run(X[:2], GIVEN[:2]), 0) == 1

    def test_survives_a_restart(self, make, make_run):
        before, after = make(epochs=20, start=0), make(epochs=20, start=0)
        self.planned(before, make_run, [2.0] * 5 + [3.0, 4.0])
        after.load_state_dict(before.state_dict())
        assert after.alpha == before.alpha < 1
        assert bool(after.turned)


class TestStep:
    def test_by_hand(self, make, make_batch, make_clock):
        method = make()
        method.alpha.fill_(0.25)
        term = method.step(make_batch(X, GIVEN), make_clock(50)).terms["cross_entropy"]
        logits = X[:, :3]
        expected = 0.25 * F.cross_entropy(logits, GIVEN) + 0.75 * F.cross_entropy(logits, logits.argmax(1))
        assert term.item() == pytest.approx(expected.item(), rel=1e-5)

    def test_alpha_one_is_cross_entropy(self, make, make_batch, make_clock):
        step = make().step(make_batch(X, GIVEN), make_clock(1))
        assert step.terms["cross_entropy"].item() == pytest.approx(F.cross_entropy(X[:, :3], GIVEN).item(), rel=1e-6)
        assert torch.equal(step.seen, X[:, :3])


@pytest.mark.parametrize(("epochs", "start"), [(120, 40), (60, 20), (1, 0)])
def test_start_is_the_published_fraction(make, epochs, start):
    assert make(epochs=epochs).start == start
