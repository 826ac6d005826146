"""Small-loss selection and the mixture of two components."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from surelabel.methods._selection import low_component_probability, smallest

NAN = float("nan")


class TestSmallest:
    @pytest.mark.parametrize(("count", "expected"), [(0, []), (1, [2]), (2, [0, 2]), (3, [0, 1, 2]), (9, [0, 1, 2])])
    def test_by_hand(self, count, expected):
        mask = smallest(torch.tensor([2.0, 3.0, 1.0]), count)
        assert mask.dtype == torch.bool
        assert mask.nonzero().squeeze(1).tolist() == expected

    def test_ties_go_by_position(self):
        assert smallest(torch.ones(5), 2).tolist() == [True, True, False, False, False]

    def test_nan_comes_last_even_after_infinity(self):
        values = torch.tensor([NAN, torch.inf, 1.0])
        assert smallest(values, 1).tolist() == [False, False, True]
        assert smallest(values, 2).tolist() == [False, True, True]

    def test_rows_that_are_not_allowed_are_never_taken(self):
        values, allowed = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([False, True, True])
        assert smallest(values, 1, allowed).tolist() == [False, True, False]
        assert smallest(values, 3, allowed).tolist() == [False, True, True]

    def test_an_allowed_nan_is_taken_before_rows_that_are_not_allowed(self):
        values, allowed = torch.tensor([0.0, NAN, 1.0]), torch.tensor([False, True, True])
        assert smallest(values, 2, allowed).tolist() == [False, True, True]

    @given(
        rows=st.lists(st.tuples(st.floats(allow_nan=True, width=32), st.booleans()), min_size=1, max_size=12),
        count=st.integers(0, 14),
    )
    def test_takes_the_count_and_leaves_none_smaller(self, rows, count):
        values, allowed = torch.tensor([v for v, _ in rows]), torch.tensor([a for _, a in rows])
        mask = smallest(values, count, allowed)
        assert int(mask.sum()) == min(count, int(allowed.sum()))
        assert not bool((mask & ~allowed).any())
        taken, left = values[mask], values[~mask & allowed]
        if len(taken) and len(left) and not left.isnan().all():
            assert not taken.isnan().any()
            assert taken.max() <= left[~left.isnan()].min()

    def test_values_in_a_graph(self):
        assert not smallest(torch.ones(3, requires_grad=True), 2).requires_grad


def two_groups(seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    draw = np.random.default_rng(seed)
    values = np.concatenate([draw.normal(0.5, 0.1, 300), draw.normal(3.0, 0.3, 200)])
    return torch.from_numpy(values), torch.arange(500) < 300


class TestLowComponent:
    def test_separates_two_groups(self):
        values, is_low = two_groups()
        probability = low_component_probability(values)
        assert bool((probability[is_low] > 0.99).all())
        assert bool((probability[~is_low] < 0.01).all())

    @pytest.mark.parametrize(("scale", "shift"), [(100, 0), (1e-3, 5), (2, -7)])
    def test_does_not_change_with_scale_and_shift(self, scale, shift):
        values, _ = two_groups()
        assert torch.allclose(
            low_component_probability(scale * values + shift), low_component_probability(values), atol=1e-6
        )

    def test_is_the_low_one_in_any_order(self):
        values, is_low = two_groups()
        assert bool((low_component_probability(values.flip(0))[is_low.flip(0)] > 0.99).all())

    def test_is_the_same_every_time_and_leaves_the_global_generators_alone(self):
        values, _ = two_groups()
        np.random.seed(1)
        first = low_component_probability(values)
        np.random.seed(2)
        state = np.random.get_state()[1].copy()
        assert torch.equal(first, low_component_probability(values))
        assert (np.random.get_state()[1] == state).all()

    @pytest.mark.parametrize("values", [[2.0] * 5, [0.7], [], [1.0, NAN, 2.0], [1.0, float("inf")]])
    def test_equal_values_are_all_low(self, values):
        assert low_component_probability(torch.tensor(values)).tolist() == [1.0] * len(values)

    def test_keeps_the_dtype(self):
        values, _ = two_groups()
        assert low_component_probability(values.float()).dtype == torch.float32

    def test_two_values_are_enough(self):
        assert low_component_probability(torch.tensor([0.0, 1.0])).tolist() == pytest.approx([1, 0], abs=1e-6)

    def test_raises_no_warning(self, recwarn):
        low_component_probability(torch.rand(50, generator=torch.Generator().manual_seed(0)))
        assert not recwarn.list
