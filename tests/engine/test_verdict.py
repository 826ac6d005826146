"""The end of a run: one pass over the rows, in chunks."""

import numpy as np
import pytest
import torch

from surelabel import methods
from surelabel.api import fit
from surelabel.data.loader import Loader
from surelabel.engine import verdict
from surelabel.engine.loop import Engine
from surelabel.training import build

WITH_TABLES = ("aum", "car", "elr", "elr_plus", "incv", "nlnl", "self_ensemble")
"""Methods whose verdict reads per-sample tables."""


def columns_of(run):
    return {name: column.to_pylist() for name, column in zip(run.samples().column_names, run.samples(), strict=True)}


@pytest.mark.parametrize("name", [*WITH_TABLES, "dividemix"])
def test_the_size_of_chunks_does_not_matter(name, tiny, tmp_path, monkeypatch):
    config = tiny(name, data__validation_fraction=0.2, train__epochs=2)
    whole = columns_of(fit(config, tmp_path / "whole"))
    monkeypatch.setattr(verdict, "CHUNK", 7)
    chunked = columns_of(fit(config, tmp_path / "chunked"))
    assert chunked.keys() == whole.keys()
    for column, values in whole.items():
        if isinstance(values[0], str):
            assert chunked[column] == values
        else:
            np.testing.assert_allclose(
                np.array(chunked[column], float), np.array(values, float), atol=1e-6, err_msg=column
            )


@pytest.mark.parametrize("name", methods.names())
def test_every_row_is_looked_at_once(name, tiny, tmp_path, monkeypatch):
    seen, ended = [], []
    collect, train = Loader.collect, Engine.run

    def counting(self, function, view, seed=0):
        if ended:
            assert not view.augment
            seen.extend(self.examples.ids[self.rows(view)])
        return collect(self, function, view, seed)

    def ending(self, resume=False):
        train(self, resume)
        ended.append(True)

    monkeypatch.setattr(Loader, "collect", counting)
    monkeypatch.setattr(Engine, "run", ending)
    run = fit(tiny(name, data__validation_fraction=0.2, train__epochs=1), tmp_path / "run")
    assert seen == run.samples()["id"].to_pylist()


@pytest.mark.parametrize(("name", "expected"), [("car", 1), ("forward", 2)], ids=["once", "again to reset weights"])
def test_networks_are_made_once(name, expected, tiny, tmp_path, monkeypatch):
    made, make = [], build.method
    monkeypatch.setattr(build, "method", lambda *given: made.append(make(*given)) or made[-1])
    fit(tiny(name, train__epochs=2), tmp_path / "run")
    assert len(made) == expected


def test_weights_drawn_without_the_factory_depend_on_the_seed_only(tiny, tmp_path, monkeypatch):
    make = build.method

    def with_noise(*given):
        method = make(*given)
        method.register_buffer("drawn", torch.rand(3))
        return method

    monkeypatch.setattr(build, "method", with_noise)
    drawn = []
    for number in range(2):
        torch.rand(number + 1)  # another state of the global generator
        weights = fit(tiny("cross_entropy", train__epochs=1), tmp_path / str(number)).weights_file
        drawn.append(weights.read_bytes())
    assert drawn[0] == drawn[1]
