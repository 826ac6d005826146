"""CIFAR-10 and CIFAR-100 with their own labels, and CIFAR-10N and CIFAR-100N with labels that people gave.

The images may lie in any of three layouts: the Hugging Face hub's parquet files, the original Python batches (a folder or
the archive), or class folders of PNGs. `data.label_column` selects another column where the layout has one: the superclasses
of CIFAR-100, or noisy labels in a parquet file, beside which the true ones then stand as clean.
"""

from dataclasses import replace

import numpy as np

from surelabel.config import DataConfig, Part
from surelabel.data.benchmarks import cifar_batches, cifar_folder, cifar_hub, cifar_n
from surelabel.data.benchmarks.cifar_sets import SETS, SIDE, Cifar, Stored, Wanted
from surelabel.data.benchmarks.layout import options_of
from surelabel.data.benchmarks.usual import coloured
from surelabel.data.images.load import Encoded, fitted, load_images
from surelabel.data.inputs import Inputs, Shape
from surelabel.data.sources.checks import refuse_lost_classes
from surelabel.data.sources.interface import Parts, Rows
from surelabel.errors import ConfigError

KIND = "cifar10, cifar100, cifar10n, cifar100n"
BUNDLED: tuple[str, ...] = tuple(SETS)

_LAYOUTS = (cifar_hub, cifar_batches, cifar_folder)


class Options(Part):
    """Of cifar10 and cifar100."""

    verify: bool = True
    """Whether the original batches must have their published md5 sums."""


class HumanOptions(Options):
    """Of cifar10n and cifar100n."""

    annotation: str | None = None
    """aggre, worse, random1, random2 or random3 (None) of CIFAR-10N; noisy (None) of CIFAR-100N."""
    labels_file: str | None = None
    """Path of the label file; None is CIFAR-10_human.pt or CIFAR-100_human.pt in the root."""


def accepts(source: str) -> bool:
    """By the name."""
    return source in BUNDLED


def read(config: DataConfig, shape: Shape | None = None) -> Parts:
    """The training images and `test`, in the classes of the label column that was asked for."""
    cifar = SETS[config.source]
    options, root = _options(cifar, config), cifar.layout.root(config)
    train = _stored(Wanted(root, "train", cifar, config, options.verify))
    given = _given_column(train, cifar, config)
    if isinstance(options, HumanOptions):
        given, names = cifar_n.annotation(root, cifar, train.columns[cifar.column], **options.model_dump())
        train = replace(train, columns={**train.columns, given: names})
    rows = _rows(train, given, cifar, config, shape)
    test = _stored(Wanted(root, "test", cifar, config, options.verify))
    true = _true_column(given, cifar)
    tests = {"test": _rows(test, true, cifar, config, tuple(rows.x.shape[1:]))}
    return Parts(rows, tests, cifar.columns[true], cifar.image_defaults)


def read_inputs(config: DataConfig, shape: Shape) -> tuple[Inputs, np.ndarray]:
    """The test part."""
    cifar = SETS[config.source]
    verify = _options(cifar, config).verify
    test = _stored(Wanted(cifar.layout.root(config), "test", cifar, config, verify))
    rows = _rows(test, cifar.column, cifar, config, shape)
    return rows.x, rows.ids


def _options(cifar: Cifar, config: DataConfig) -> Options:
    return options_of(config, Options if cifar.human is None else HumanOptions)


def _stored(wanted: Wanted) -> Stored:
    """Train or test in the first layout that the root has."""
    for layout in _LAYOUTS:
        if layout.found(wanted):
            return layout.stored(wanted)
    raise wanted.cifar.layout.lacks(wanted.root, "the images")


def _given_column(train: Stored, cifar: Cifar, config: DataConfig) -> str:
    asked = config.label_column or cifar.column
    if cifar.human is not None and config.label_column is not None:
        raise ConfigError(f"data.label_column: {config.source} has its own; data.options.annotation selects one")
    if asked not in train.columns:
        raise ConfigError(f"data.label_column: there is no column {asked!r}; there are {', '.join(train.columns)}")
    return asked


def _true_column(given: str, cifar: Cifar) -> str:
    """Superclasses are true themselves; every column that the set does not have of itself is some noisy version."""
    return given if given in cifar.columns else cifar.column


def _rows(stored: Stored, given: str, cifar: Cifar, config: DataConfig, shape: Shape | None) -> Rows:
    x, kept = _loaded(stored, config, shape)
    names, clean = stored.columns[given], stored.columns[_true_column(given, cifar)]
    refuse_lost_classes(names, names[kept], config.source)
    return Rows(x, names[kept], stored.ids[kept], clean=clean[kept])


def _loaded(stored: Stored, config: DataConfig, shape: Shape | None) -> tuple[Inputs, np.ndarray]:
    shape = shape or coloured(config, SIDE)
    if isinstance(stored.pictures, Encoded):
        return load_images(stored.pictures, config, shape, config.source)
    return fitted(stored.pictures, shape, config.source), np.arange(len(stored.ids))
