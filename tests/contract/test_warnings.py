"""Warnings before training: an option that decides when a method begins may leave it no time."""

import re

import pytest
import torch

from surelabel import methods
from surelabel.api import fit
from surelabel.config import ModelConfig
from surelabel.console import Silent
from surelabel.core.method import Task, option_help
from surelabel.training.build import NetworkFactory

pytestmark = pytest.mark.training

STARTS = [
    (name, option)
    for name in methods.names()
    for option, text in option_help(methods.find(name)).items()
    if re.search(r"\bepochs?\b.*\b(before|from which)\b", text)
]
"""Options that say before which or from which epoch something happens."""
NEEDED = {"cross_entropy": {"targets": "car"}}


class Warnings(Silent):
    """Keeps what the user is told."""

    def __init__(self):
        self.texts = []

    def warn(self, text):
        self.texts.append(text)


@pytest.fixture
def warnings(tiny, tmp_path):
    """The warnings of a run that name an option."""

    def train(name, option, value=None, **changes):
        options = {**NEEDED.get(name, {}), **({} if value is None else {option: value})}
        shown = Warnings()
        fit(tiny(name, method__options=options, **changes), tmp_path / "run", progress=shown)
        return [text for text in shown.texts if f"{option}=" in text]

    return train


def test_there_are_options_to_test():
    assert {"car", "cross_entropy", "sat", "joint_optimization", "pencil", "dividemix", "beta_mixture"} <= {
        name for name, _ in STARTS
    }
    assert {"co_teaching", "co_teaching_plus", "jocor", "d2l", "dac"} <= {name for name, _ in STARTS}


@pytest.mark.parametrize(("name", "option"), STARTS)
def test_a_start_beyond_the_run_is_told(name, option, warnings):
    (text,) = warnings(name, option, value=9, train__epochs=3)
    assert "; use " in text


@pytest.mark.parametrize(("name", "option"), STARTS)
def test_too_few_visits_are_told(name, option, warnings):
    """Twelve epochs of two rows visit a third of the 75 rows."""
    assert warnings(name, option, data__epoch={"batches": 1}, train__batch_size=2, train__epochs=12)


@pytest.fixture
def make():
    """Make a method for 2,000 rows in ten classes."""
    factory = NetworkFactory(ModelConfig(name="mlp", options={"widths": [2]}), (2,), 10, seed=0)
    return lambda name, epochs, **more: methods.find(name)(
        Task(10, 2000, torch.arange(2000) % 10, epochs, factory, **more)
    )


@pytest.mark.parametrize("name", methods.names())
def test_usual_settings_raise_no_warning(name, make):
    for epochs in (40, 100):
        assert make(name, epochs).advice("settings") == []


@pytest.mark.parametrize("name", methods.names())
def test_a_run_too_short_for_all_stages_is_told(name, make):
    """Without its later stages a method is cross entropy under another name."""
    short, usual = make(name, 1), make(name, 40)
    if len(short.stages()) < len(usual.stages()):
        assert any("more epochs" in text for text in short.advice("settings"))


@pytest.mark.parametrize("name", ["aum", "dmi", "forward", "incv", "nlnl", "noise_adaptation", "self_ensemble"])
def test_stages_with_less_than_one_visit_of_a_row_are_told(name, make):
    assert any("more epochs" in text for text in make(name, 40, visits_per_epoch=0.01).advice("settings"))
