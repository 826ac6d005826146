"""CIFAR as class folders of PNGs: ROOT/train/CLASS/*.png and ROOT/test/CLASS/*.png."""

import numpy as np

from surelabel.data.benchmarks.cifar_sets import ALIASES, SIDE, Stored, Wanted
from surelabel.data.benchmarks.usual import coloured
from surelabel.data.sources import folder
from surelabel.errors import DataError


def found(wanted: Wanted) -> bool:
    """Whether there is a folder for the training images."""
    return (wanted.root / "train").is_dir()


def stored(wanted: Wanted) -> Stored:
    """The images by the sorted order of their paths, which are the ids."""
    cifar, config, place = wanted.cifar, wanted.config, wanted.root / wanted.part
    if not place.is_dir():
        raise cifar.layout.lacks(wanted.root, f"{wanted.part}/")
    rows = folder.read(config.model_copy(update={"source": str(place)}), coloured(config, SIDE)).train
    names = np.array([ALIASES.get(name, name) for name in rows.names.tolist()])
    unknown = sorted(set(names.tolist()) - set(cifar.columns[cifar.column]))
    if unknown:
        raise DataError(f"{place / unknown[0]}: not a class of {config.source} ({len(unknown)} such folders)")
    ids = [f"{wanted.part}/{row_id}" for row_id in rows.ids]
    return Stored(rows.x, np.array(ids), {cifar.column: names})
