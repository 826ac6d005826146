"""Labels that a person has confirmed: certainly right for every method that doubts labels."""

import sys

import numpy as np
import pytest

from surelabel import methods
from surelabel.api import fit

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


@pytest.fixture
def train(make_blobs, tiny, tmp_path):
    """Train with the first 12 of 24 wrong labels confirmed, or not; return p at those 12 labels."""
    with np.load(make_blobs(tmp_path / "clean.npz")) as data:
        parts = dict(data)
    parts["y"][:24] = (parts["y"][:24] + 1) % 3
    np.savez(tmp_path / "wrong.npz", **parts)
    (tmp_path / "confirmed.csv").write_text("id\n" + "\n".join(map(str, range(12))) + "\n", encoding="utf-8")

    def run(variant, confirmed):
        name, options = VARIANTS[variant]
        epochs = 4 if is_pure(variant) else SLOW.get(variant, 40)
        settings = tiny(name, method__options=options, train__epochs=epochs, train__evaluate_every=epochs, noise=None)
        settings["model"]["options"]["widths"] = [64]
        settings["data"] = {"source": str(tmp_path / "wrong.npz")}
        if confirmed:
            settings["data"]["trusted"] = str(tmp_path / "confirmed.csv")
        samples = fit(settings, tmp_path / str(confirmed)).samples()
        return samples["given_probability"].to_numpy()[:12]

    return run


def is_pure(variant):
    name, options = VARIANTS[variant]
    return not options and PURE in " ".join(sys.modules[methods.find(name).__module__].__doc__.split())


@pytest.mark.parametrize("variant", VARIANTS)
def test_are_learned_where_the_method_would_doubt_them(variant, train):
    """They contradict the input: a method that removes or damps them does not learn them."""
    confirmed, doubted = train(variant, True), train(variant, False)
    if is_pure(variant):
        assert confirmed.tolist() == doubted.tolist()
    else:
        assert confirmed.mean() > doubted.mean() + MARGIN
