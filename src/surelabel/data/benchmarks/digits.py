"""Bundled: the 1,797 handwritten digits that scikit-learn contains; nothing is downloaded."""

import numpy as np
import torch

from surelabel.config import DataConfig
from surelabel.core.stages import seed_of
from surelabel.data.images.load import fit_to_shape, square_shape
from surelabel.data.inputs import Inputs, Shape
from surelabel.data.sources.interface import Parts, Rows
from surelabel.data.splits import split_stratified

KIND = "digits (bundled)"
BUNDLED: tuple[str, ...] = ("digits",)

_TEST_FRACTION = 0.2
_LARGEST_VALUE = 16


def accepts(source: str) -> bool:
    """Return whether `source` is the bundled name."""
    return source in BUNDLED


def read(config: DataConfig, shape: Shape | None = None) -> Parts:
    """Split off a stratified fifth, or `test_fraction`, by `split_seed` as the test part."""
    rows = _read_rows(config, shape)
    fraction = config.test_fraction or _TEST_FRACTION
    train, test = split_stratified(rows.names, fraction, seed_of("digits", config.split_seed))
    return Parts(rows.subset(train), {"test": rows.subset(test)})


def read_inputs(config: DataConfig, shape: Shape) -> tuple[Inputs, np.ndarray]:
    """Read the images of the test part and their ids."""
    test = read(config, shape).tests["test"]
    return test.x, test.ids


def _read_rows(config: DataConfig, shape: Shape | None) -> Rows:
    from sklearn.datasets import load_digits

    bundle = load_digits()
    pixels = np.rint(bundle.images * (255 / _LARGEST_VALUE)).astype(np.uint8)
    x: Inputs = torch.from_numpy(pixels)[:, None]
    ids = np.array([f"digits/{row:04d}" for row in range(len(x))])
    x = fit_to_shape(x, shape or square_shape(x, config.image_size), config.source)
    names = bundle.target.astype(str)
    return Rows(x, names, ids, clean=names)
