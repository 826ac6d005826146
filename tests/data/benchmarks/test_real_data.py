"""The real CIFAR data, if available."""

import os
from pathlib import Path

import numpy as np
import pytest

SHARED = Path(os.environ.get("SURELABEL_SHARED_DATA") or Path(__file__).parents[4] / "shared/data")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not SHARED.is_dir(), reason=f"no data in {SHARED}; $SURELABEL_SHARED_DATA names their folder"),
]


def test_cifar10_with_human_labels(load):
    corpus = load("cifar10", SHARED / "cifar10", label_column="human_label")
    assert corpus.train.x.shape == (50_000, 3, 32, 32)
    assert corpus.tests["test"].x.shape == (10_000, 3, 32, 32)
    assert (corpus.train.label != corpus.train.clean).float().mean().item() == pytest.approx(0.1723, abs=1e-4)
    assert np.bincount(corpus.train.clean).tolist() == [5_000] * 10
    means = corpus.train.x.double().mean((0, 2, 3)).tolist()
    assert means == pytest.approx(corpus.image_defaults.mean, abs=0.05)


def test_cifar100_and_its_superclasses(load):
    corpus = load("cifar100", SHARED / "cifar100")
    assert np.bincount(corpus.train.label).tolist() == [500] * 100
    assert np.bincount(corpus.tests["test"].label).tolist() == [100] * 100
    coarse = load("cifar100", SHARED / "cifar100", label_column="coarse_label")
    assert np.bincount(coarse.train.label).tolist() == [2_500] * 20
    pairs = set(zip(corpus.train.label.tolist(), coarse.train.label.tolist(), strict=True))
    assert len(pairs) == 100  # each class belongs to one superclass
