"""Class names and superclasses of the real CIFAR files."""

import json
import os
from pathlib import Path

import numpy as np
import pytest

from surelabel.config import NoiseConfig
from surelabel.noise import inject

SHARED = Path(os.environ.get("SURELABEL_SHARED_DATA") or Path(__file__).parents[2].parent / "shared" / "data")


def read(name, *columns):
    """Return the class names of the first column, and the label columns."""
    import pyarrow.parquet as pq

    file = SHARED / name / "train.parquet"
    if not file.is_file():
        pytest.skip(f"{file} is not there; SURELABEL_SHARED_DATA names its folder")
    table = pq.read_table(file, columns=list(columns))
    features = json.loads(table.schema.metadata[b"huggingface"])["info"]["features"]
    return features[columns[0]]["names"], *(table[column].to_numpy() for column in columns)


@pytest.mark.slow
def test_superclasses_of_cifar100():
    names, fine, coarse = read("cifar100", "fine_label", "coarse_label")
    noisy, manifest = inject(fine, names, NoiseConfig(kind="superclass", rate=0.4), 0)
    coarse_of = np.zeros(100, dtype=int)
    coarse_of[fine] = coarse
    assert np.array_equal(coarse_of[noisy], coarse)
    assert manifest.realised_rate == 0.4
    assert len(manifest.class_map) == 100


@pytest.mark.slow
def test_map_of_cifar10():
    names, clean = read("cifar10", "label")
    _, manifest = inject(clean, names, NoiseConfig(kind="asymmetric", rate=0.4), 0)
    assert manifest.realised_rate == 0.2
    assert manifest.realised_matrix[3][5] == manifest.realised_matrix[5][3] == 0.4
