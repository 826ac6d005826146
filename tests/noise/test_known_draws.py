"""Draws of the first version, which published results depend on: a seed must always yield them."""

import numpy as np
import pytest

from surelabel.config import NoiseConfig
from surelabel.noise import inject

CLEAN = np.arange(40) * 7 % 5
MATRIX = ((0.5, 0.5, 0, 0, 0), (0, 1, 0, 0, 0), (0, 0.25, 0.5, 0.25, 0), (0.2,) * 5, (0, 0, 0, 0.9, 0.1))


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"kind": "symmetric", "rate": 0.4}, "2213332413024400034340313424130243302434"),
        (
            {"kind": "symmetric", "rate": 0.4, "include_true_class": True},
            "2213322413024400144341313424130242302424",
        ),
        ({"kind": "pair", "rate": 0.3}, "1301312414024130202403423024130241302413"),
        (
            {"kind": "asymmetric", "rate": 0.5, "class_map": {"d": "a", "a": "d", "b": "c"}},
            "3242002423024203242302413324103241302410",
        ),
        ({"kind": "matrix", "matrix": MATRIX}, "0231011313023101231211311113100231202311"),
    ],
    ids=lambda value: value["kind"] if isinstance(value, dict) else "",
)
def test_labels(options, expected):
    noisy, _ = inject(CLEAN, list("abcde"), NoiseConfig(**options), 11)
    assert "".join(map(str, noisy)) == expected


@pytest.mark.parametrize(
    ("options", "num_changed", "sha256"),
    [
        ({"kind": "symmetric", "rate": 0.4}, 2000, "988781d691eb37a2"),
        ({"kind": "symmetric", "rate": 0.4, "include_true_class": True}, 1775, "fe2822cd3f8540eb"),
        ({"kind": "pair", "rate": 0.45}, 2251, "8cd40495e90e97cb"),
    ],
)
def test_hashes(options, num_changed, sha256):
    clean = np.random.default_rng(0).integers(0, 10, 5000)
    _, manifest = inject(clean, list("0123456789"), NoiseConfig(**options), 0)
    assert (manifest.num_changed, manifest.labels_sha256[:16]) == (num_changed, sha256)
