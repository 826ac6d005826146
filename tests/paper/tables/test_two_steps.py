"""Each method, backbone and data set of the paper's protocol takes two steps on tiny data."""

from pathlib import Path

import pytest

import surelabel
from surelabel.console import Silent
from surelabel.paper.tables import PRESETS, Trial, plan_trials


def distinct() -> dict[str, tuple[str, int]]:
    """Map method, backbone and data set to the preset and the index of a trial with them."""
    found: dict[str, tuple[str, int]] = {}
    for name in PRESETS:
        for place, trial in enumerate(plan_trials(name)):
            config = trial.config
            found.setdefault(f"{config.method.name}-{config.model.name}-{config.data.source}", (name, place))
    return found


CASES = distinct()
SMALLER = {"clothing1m": {"data.image_size": 64}, "webvision": {"data.image_size": 96, "data.options.num_classes": 5}}
"""Settings for large images: the least that the networks accept; the classes of the tiny data."""


class Steps(Silent):
    """Counts the steps of each pass; a pass starts with batch 1."""

    def __init__(self) -> None:
        self.num_steps: dict[tuple[int, int], int] = {}
        self.passes = 0

    def step(self, epoch: int, batch: int, *_: object) -> None:
        self.passes += batch == 1
        self.num_steps[epoch, self.passes] = self.num_steps.get((epoch, self.passes), 0) + 1


def test_there_are_as_many_as_the_tables_have():
    assert len(CASES) == 2 * 12 + 10 + 8


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("case", CASES)
def test_two_steps(case: str, whole_root: Path, tmp_path: Path):
    name, place = CASES[case]
    trial: Trial = plan_trials(name, data=whole_root)[place]
    small = {
        "train.epochs": 1,
        "train.batch_size": 4,
        "train.device": "cpu",
        "data.epoch": {"batches": 2},
        "data.workers": 0,
        "model.weights": None,
        **SMALLER.get(trial.config.data.source, {}),
    }
    steps = Steps()
    run = surelabel.fit(trial.config, tmp_path / "run", settings=small, progress=steps)
    assert run.is_done
    assert steps.num_steps
    assert set(steps.num_steps.values()) == {2}, "of each pass of each stage"
    assert set(run.metrics()[-1]["tests"]) == set(run.data()["tests"])
