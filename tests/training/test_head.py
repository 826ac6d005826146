import functools
import json
import tempfile
from pathlib import Path

import numpy as np
import pytest

import surelabel
from surelabel.api import make_config
from surelabel.config import USUAL_DECAY
from surelabel.data import load_corpus
from surelabel.engine.signals import Stop
from surelabel.training import head, session

pytestmark = pytest.mark.training


def embeddings(num_rows=200, num_classes=4, size=200, spread=0.2, seed=0):
    """Draw wide Gaussian classes, which a linear network separates and any deeper one memorises."""
    rng = np.random.default_rng(seed)
    clean = np.arange(num_rows) % num_classes
    x = (rng.normal(size=(num_classes, size)) * spread)[clean] + rng.normal(size=(num_rows, size))
    return {"x": x.astype(np.float32), "y": flip(clean, num_classes, rng)}


def rings(num_rows=200, seed=0):
    """Draw two rings around the origin, which no linear network separates."""
    rng = np.random.default_rng(seed)
    clean = np.arange(num_rows) % 2
    angle = rng.uniform(0, 2 * np.pi, num_rows)
    radius = (1 + 2 * clean + 0.2 * rng.normal(size=num_rows))[:, None]
    x = radius * np.stack([np.cos(angle), np.sin(angle)], 1)
    return {"x": x.astype(np.float32), "y": flip(clean, 2, rng)}


def flip(clean, num_classes, rng):
    wrong = rng.choice(len(clean), len(clean) // 5, replace=False)
    given = clean.copy()
    given[wrong] = (given[wrong] + rng.integers(1, num_classes, len(wrong))) % num_classes
    return given


def settle(data, **settings):
    config = make_config(data, {"train.epochs": 40, "train.threads": 1, **settings})
    with tempfile.TemporaryDirectory() as folder:
        train = functools.partial(session._train_candidate, Stop())
        return head.settle(config, load_corpus(config.data, data), train, Path(folder))


def test_embeddings_get_a_linear_network_and_rings_hidden_layers():
    linear, found = settle(embeddings())
    assert linear.model.options["widths"] == []
    assert found["chosen"].startswith("linear")
    deep, found = settle(rings())
    assert deep.model.options["widths"] == [256, 256]
    losses = [candidate["held_out_loss"] for candidate in found["candidates"]]
    assert len(losses) == 4
    assert deep.optimiser.weight_decay == found["candidates"][int(np.argmin(losses))]["weight_decay"]


def test_the_choice_depends_on_the_seed_and_the_data_only():
    assert settle(rings()) == settle(rings())


@pytest.mark.parametrize(
    ("settings", "widths", "decay"),
    [
        ({"model": "mlp"}, None, USUAL_DECAY),
        ({"model": "mlp", "optimiser.weight_decay": 0.02}, None, 0.02),
        ({"model.options": {"widths": [8]}}, [8], None),
        ({"optimiser.weight_decay": 0.02}, [], 0.02),
    ],
)
def test_what_the_user_sets_is_kept(settings, widths, decay):
    config, _ = settle(embeddings(), **settings)
    assert config.model.options.get("widths") == widths
    assert decay is None or config.optimiser.decay == decay


@pytest.mark.parametrize(
    ("data", "settings"),
    [(embeddings(num_rows=head.LEAST_ROWS - 2), {}), (rings(), {"train.epochs": 5})],
    ids=["few rows", "a short run"],
)
def test_where_comparing_is_not_worth_it_the_defaults_stay(data, settings):
    config, found = settle(data, **settings)
    assert found == {}
    assert config.model.name == "auto"
    assert config.optimiser.decay == USUAL_DECAY


def test_images_keep_their_network():
    images = {"x": np.random.default_rng(0).random((80, 1, 8, 8)).astype(np.float32), "y": np.arange(80) % 2}
    config, found = settle(images)
    assert found == {}
    assert config.model.name == "auto"


def test_a_run_says_what_it_chose_and_keeps_it(tmp_path):
    settings = {"train.epochs": 40, "train.threads": 1, "train.second_opinion": False}
    run = surelabel.fit(embeddings(), tmp_path / "run", settings=settings)
    chosen = json.loads((run.path / "head.json").read_text())
    assert chosen["chosen"].startswith("linear")
    assert run.config().model.options["widths"] == []
    assert surelabel.load(run.path).predict_proba(embeddings()["x"][:3]).shape == (3, 4)
    again = surelabel.fit(
        embeddings(), tmp_path / "again", settings={**settings, "train.epochs": 2, "train.warm_start": str(run.path)}
    )
    assert again.config().model.options["widths"] == []
    assert again.config().optimiser.decay == run.config().optimiser.decay
