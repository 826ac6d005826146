"""Labels that a person has confirmed: certainly right for every method that doubts labels."""

import sys

import numpy as np
import pytest

from surelabel import methods
from surelabel.api import fit
from surelabel.data.loader import Loader

pytestmark = pytest.mark.training

VARIANTS = {
    **{name: (name, {}) for name in methods.names()},
    "car without target estimation": ("car", {"targets": "none"}),
    "car without indicator": ("car", {"confidence": "max_probability"}),
    "cross_entropy with targets": ("cross_entropy", {"targets": "car"}),
    "truncated gce": ("gce", {"truncated": True}),
    "sop": ("sop", {"u_rate": 10.0}),  # its default needs more visits to doubt a label
    "ssr": ("ssr", {"neighbours": 12}),  # all 75 rows vote by default
    "auxiliary variables": ("distance_to_init", {"variant": "auxiliary"}),
    "dynamic beta_mixture": ("beta_mixture", {"variant": "dynamic"}),
}
PURE = "like any other"
"""What the docstring of a method says that does not doubt labels one by one."""
MARGIN = 0.02
SLOW = {"self_ensemble": 60, "sop": 80}
"""Epochs of variants that begin to doubt labels late; the others have 40."""


SEEDS = {"dmi": 1}
"""With these, rows that happen to be confirmed would be drawn to be held out; the others have 0."""
CONFIRMED = range(12)


@pytest.fixture
def trained_rows(monkeypatch):
    """The rows that were trained on in each epoch of each stage, in the order of training."""
    found: dict[str, set[int]] = {}
    passes = Loader.passes

    def record(loader, views, place, start=0, turn=0):
        epoch = found.setdefault(place.rpartition("/")[0], set())
        epoch.update(row for view in views.values() for row in loader.rows(view).tolist())
        return passes(loader, views, place, start, turn)

    monkeypatch.setattr(Loader, "passes", record)
    return found


@pytest.fixture
def train(make_blobs, tiny, tmp_path):
    """Train with the first 12 of 24 wrong labels confirmed, or not; return p at those 12 labels."""
    with np.load(make_blobs(tmp_path / "clean.npz")) as data:
        parts = dict(data)
    parts["y"][:24] = (parts["y"][:24] + 1) % 3
    np.savez(tmp_path / "wrong.npz", **parts)
    (tmp_path / "confirmed.csv").write_text("id\n" + "\n".join(map(str, CONFIRMED)) + "\n", encoding="utf-8")

    def run(variant, confirmed):
        name, options = VARIANTS[variant]
        epochs = 4 if is_pure(variant) else SLOW.get(variant, 40)
        settings = tiny(name, method__options=options, train__epochs=epochs, train__evaluate_every=epochs, noise=None)
        settings["model"]["options"]["widths"] = [64]
        settings["train"]["seed"] = SEEDS.get(variant, 0)
        settings["data"] = {"source": str(tmp_path / "wrong.npz")}
        if confirmed:
            settings["data"]["trusted"] = str(tmp_path / "confirmed.csv")
        samples = fit(settings, tmp_path / str(confirmed)).samples()
        return samples["given_probability"].to_numpy()[list(CONFIRMED)]

    return run


def is_pure(variant):
    name, options = VARIANTS[variant]
    return not options and PURE in " ".join(sys.modules[methods.find(name).__module__].__doc__.split())


@pytest.mark.parametrize("variant", VARIANTS)
def test_are_learned_where_the_method_would_doubt_them(variant, train, trained_rows):
    """They contradict the input: a method that removes or damps them does not learn them."""
    confirmed = train(variant, True)
    rows_if_confirmed = dict(trained_rows)
    without = {place: set(CONFIRMED) - rows for place, rows in rows_if_confirmed.items()}
    assert not any(without.values()), "every epoch of every stage trains on them"
    trained_rows.clear()
    doubted = train(variant, False)
    if not is_pure(variant):
        assert confirmed.mean() > doubted.mean() + MARGIN
    elif rows_if_confirmed == trained_rows:
        assert confirmed.tolist() == doubted.tolist()
