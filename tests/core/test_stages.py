"""Seeds and the clock."""

from dataclasses import replace

import pytest
import torch

from surelabel.core import Clock
from surelabel.core.stages import seed_of

PINNED = 8982354262398973622
HERE = Clock("train", epoch=3, epochs=10, step=2, steps=4, run_fraction=0.25, seed=7)


def test_seed_of_is_the_same_on_every_machine():
    assert seed_of(0, "network", 1) == PINNED
    assert seed_of("0", "network", "1") == PINNED


def test_seed_of_has_63_bits_and_depends_on_every_part():
    seeds = {seed_of(seed, place, cycle) for seed in range(5) for place in "abc" for cycle in range(5)}
    assert len(seeds) == 75
    assert 2**60 < max(seeds) < 2**63
    assert min(seeds) >= 0


def test_progress_counts_epochs_that_are_done():
    assert HERE.progress == 2 + 2 / 4
    assert replace(HERE, epoch=1, step=0).progress == 0
    assert replace(HERE, epoch=1, step=0, steps=0).progress == 0


def drawn(clock: Clock, *purpose: str) -> list[float]:
    return torch.rand(3, generator=clock.generator(*purpose)).tolist()


def test_equal_places_draw_equally():
    assert drawn(HERE, "mixing") == drawn(replace(HERE), "mixing")


@pytest.mark.parametrize("change", [{"seed": 8}, {"stage": "warm_up"}, {"epoch": 4}, {"step": 3}])
def test_other_places_draw_otherwise(change):
    assert drawn(HERE) != drawn(replace(HERE, **change))


def test_other_purposes_draw_otherwise():
    assert drawn(HERE, "mixing") != drawn(HERE, "partners")


def test_drawing_leaves_the_global_generator_alone():
    before = torch.get_rng_state()
    drawn(HERE)
    assert torch.equal(before, torch.get_rng_state())
