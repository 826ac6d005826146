"""Bundled: the 1,797 handwritten digits that scikit-learn carries, so that nothing is downloaded."""

import numpy as np
import torch

from surelabel.config import DataConfig
from surelabel.core.stages import seed_of
from surelabel.data.images.load import fitted, square
from surelabel.data.inputs import Inputs, Shape
from surelabel.data.sources.interface import Parts, Rows
from surelabel.data.splits import split_stratified

KIND = "digits (bundled)"
BUNDLED: tuple[str, ...] = ("digits",)

_TEST_FRACTION = 0.2
_LARGEST_VALUE = 16


def accepts(source: str) -> bool:
    """Whether this is the bundled name."""
    return source in BUNDLED


def read(config: DataConfig, shape: Shape | None = None) -> Parts:
    """A stratified fifth, or `test_fraction`, is the test part; it depends on `split_seed`."""
    rows = _rows(config, shape)
    fraction = config.test_fraction or _TEST_FRACTION
    train, test = split_stratified(rows.names, fraction, seed_of("digits", config.split_seed))
    return Parts(rows.subset(train), {"test": rows.subset(test)})


def read_inputs(config: DataConfig, shape: Shape) -> tuple[Inputs, np.ndarray]:
    """The test part."""
    test = read(config, shape).tests["test"]
    return test.x, test.ids


def _rows(config: DataConfig, shape: Shape | None) -> Rows:
    from sklearn.datasets import load_digits

    bundle = load_digits()
    pixels = np.rint(bundle.images * (255 / _LARGEST_VALUE)).astype(np.uint8)
    x: Inputs = torch.from_numpy(pixels)[:, None]
    ids = np.array([f"digits/{row:04d}" for row in range(len(x))])
    x = fitted(x, shape or square(x, config.image_size), config.source)
    names = bundle.target.astype(str)
    return Rows(x, names, ids, clean=names)
