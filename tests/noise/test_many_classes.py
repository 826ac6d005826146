"""Noise with very many classes: memory grows with rows and classes, never with K x K."""

import json
import tracemalloc

import numpy as np
import pytest

from surelabel.config import NoiseConfig
from surelabel.errors import ConfigError
from surelabel.noise import inject, read_manifest, restate, save, verify
from surelabel.noise.draw import (
    class_map_row,
    draw_by_class_map,
    draw_independent,
    symmetric_row,
)

NUM_CLASSES = 30_000
NAMES = [str(number) for number in range(NUM_CLASSES)]
CLEAN = np.arange(2 * NUM_CLASSES) % NUM_CLASSES
MEMORY = 200 * 2**20
"""A dense matrix of these classes would take 7 GB."""


@pytest.mark.parametrize(
    "options",
    [
        {"kind": "symmetric"},
        {"kind": "symmetric", "include_true_class": True},
        {"kind": "pair"},
        {"kind": "block", "block_size": 10},
        {"kind": "superclass", "groups": [NAMES[:15_000], NAMES[15_000:]]},
        {"kind": "asymmetric", "class_map": {"7": "8", "8": "7"}},
    ],
    ids=lambda options: options["kind"],
)
def test_thirty_thousand_classes_fit_in_little_memory(options):
    config = NoiseConfig(rate=0.5, **options)
    tracemalloc.start()
    noisy, manifest = inject(CLEAN, NAMES, config, 0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < MEMORY
    assert manifest.num_changed == (noisy != CLEAN).sum() > 0
    verify(noisy, manifest, clean=CLEAN)


def test_independent_draws_need_little_memory_too():
    clean = np.arange(300) * 100  # classes without rows cost nothing
    tracemalloc.start()
    _, manifest = inject(clean, NAMES, NoiseConfig(kind="symmetric", rate=0.5, mode="bernoulli"), 0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < MEMORY
    assert 100 < manifest.num_changed < 200


def test_the_manifest_counts_pairs_instead_of_a_matrix(tmp_path):
    noisy, manifest = inject(CLEAN, NAMES, NoiseConfig(kind="pair", rate=0.5), 0)
    assert manifest.realised_matrix is None
    assert manifest.realised_counts[:3] == ((0, 0, 1), (0, 1, 1), (1, 1, 1))
    assert sum(count for _, _, count in manifest.realised_counts) == len(CLEAN)
    _, beside = save(tmp_path / "labels.npy", noisy, manifest)
    assert read_manifest(beside) == manifest
    assert beside.stat().st_size < 5 * 2**20
    restored = restate(manifest, CLEAN, CLEAN, "all set by hand")
    assert len(restored.realised_counts) == NUM_CLASSES


def test_few_classes_keep_the_matrix_and_the_old_fields():
    _, manifest = inject(np.array([0, 0, 1, 1]), ["a", "b"], NoiseConfig(kind="pair", rate=0.5), 0)
    assert manifest.realised_matrix == ((0.5, 0.5), (0.5, 0.5))
    assert manifest.realised_counts is None
    assert "realised_counts" not in json.loads(json.dumps(manifest.to_dict()))


def test_groups_that_repeat_a_class_are_refused_among_many():
    config = NoiseConfig(kind="superclass", rate=0.5, groups=[NAMES[:20_000], NAMES[19_999:]])
    with pytest.raises(ConfigError, match="'19999'"):
        inject(CLEAN, NAMES, config, 0)


def dense_draw(clean, matrix, rng):
    """Draw as the first version did, from a dense matrix."""
    cumulated = np.cumsum(matrix, axis=1)
    cumulated /= cumulated[:, -1:]
    given, uniform = clean.copy(), rng.random(len(clean))
    for old in range(len(matrix)):
        members = np.flatnonzero(clean == old)
        given[members] = np.searchsorted(cumulated[old], uniform[members], side="right")
    return given


@pytest.mark.parametrize(
    "row",
    [
        symmetric_row(37, 0.6, include_true_class=False),
        symmetric_row(37, 0.6, include_true_class=True),
        class_map_row(37, {old: (old + 1) % 37 for old in range(37)}, 0.6),
    ],
)
def test_independent_draws_are_those_of_the_dense_matrix(row):
    clean = np.random.default_rng(0).integers(0, 37, 5000)
    matrix = np.array([row(old) for old in range(37)])
    expected = dense_draw(clean, matrix, np.random.default_rng(1))
    assert (draw_independent(clean, row, np.random.default_rng(1)) == expected).all()


def test_draws_by_class_map_are_those_of_a_loop_over_classes():
    clean, class_map = np.random.default_rng(0).integers(0, 37, 5000), {3: 4, 30: 2, 4: 3}
    rng, expected = np.random.default_rng(1), clean.copy()
    for old in sorted(class_map):
        members = np.flatnonzero(clean == old)
        expected[rng.choice(members, round(0.3 * len(members)), replace=False)] = class_map[old]
    assert (draw_by_class_map(clean, class_map, 0.3, np.random.default_rng(1)) == expected).all()
