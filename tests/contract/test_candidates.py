"""Every method with options declares values of at most three of them for `surelabel tune`."""

import pytest
import torch

from surelabel import methods
from surelabel.config import ModelConfig, validate
from surelabel.core.method import Task, options_of
from surelabel.training.build import NetworkFactory
from surelabel.tuning import count_runs, list_candidates

WITH_OPTIONS = [name for name in methods.names() if options_of(methods.find(name))]
MOST_OPTIONS, MOST_RUNS = 3, 10


@pytest.mark.parametrize("name", WITH_OPTIONS)
def test_candidates_are_options_with_the_default_first(name):
    method = methods.find(name)
    declared, options = method.candidates, options_of(method)
    assert 1 <= len(declared.values) <= MOST_OPTIONS
    for option, values in declared.values.items():
        assert option in options
        assert len(values) == len(set(values)) >= 2
        assert values[0] == options[option].default
        for value in values:
            assert methods.validate_options(name, {option: value}) == {option: value}
    assert declared.source.endswith(".")
    assert len(declared.source) <= 100


@pytest.mark.parametrize("name", WITH_OPTIONS)
def test_a_search_is_cheap_and_every_candidate_can_be_built(name):
    found = list_candidates(validate({"data": {"source": "digits"}, "method": name}))
    assert len(found) == len({str(candidate) for candidate in found})
    assert count_runs(len(found)) <= MOST_RUNS
    factory = NetworkFactory(ModelConfig(name="mlp", options={"widths": [2]}), (2,), 10, seed=0)
    for candidate in found:
        options = methods.validate_options(name, dict(candidate.options))
        methods.find(name)(Task(10, 97, torch.arange(97) % 10, 200, factory), **options)


def test_methods_without_options_declare_none():
    without = set(methods.names()) - set(WITH_OPTIONS)
    assert without
    assert all(not methods.find(name).candidates.values for name in without)
