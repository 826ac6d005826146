"""CIFAR-10N and CIFAR-100N (Wei et al., 2022): labels that people gave to the training images of CIFAR.

The label files follow the order of the original Python batches. Copies of CIFAR in another order, such as CIFAR-100 on the
Hugging Face hub, would get the labels of other images: so the true labels in the file must equal the data's, row by row.
"""

from pathlib import Path
from typing import Any

import numpy as np

from surelabel.data.benchmarks.checksum import check_md5
from surelabel.data.benchmarks.cifar_sets import Cifar, Human
from surelabel.data.benchmarks.dataset_directory import inside
from surelabel.data.benchmarks.pickles import read_torch
from surelabel.errors import ConfigError, DataError

_CLEAN = "clean_label"


def annotation(
    root: Path, cifar: Cifar, true_names: np.ndarray, *, verify: bool, annotation: str | None, labels_file: str | None
) -> tuple[str, np.ndarray]:
    """The key of the annotation asked for, and the name of the class that each image got in it."""
    assert cifar.human is not None
    key = _key(annotation, cifar.human)
    path = root / cifar.human.file if labels_file is None else Path(labels_file).expanduser()
    if not path.is_file():
        raise cifar.layout.lacks(root, cifar.human.file if labels_file is None else f"the label file {path}")
    if labels_file is None:
        inside(path, root)
    if verify:
        check_md5(path, cifar.human.md5)
    content = read_torch(path)
    classes = np.array(cifar.columns[cifar.column])
    _refuse_other_order(classes[_labels(content, _CLEAN, len(classes), path)], true_names, path)
    return key, classes[_labels(content, key, len(classes), path)]


def _key(asked: str | None, human: Human) -> str:
    name = asked or human.default
    if name not in human.keys:
        raise ConfigError(f"data.options.annotation: there is no {name!r}; there are {', '.join(human.keys)}")
    return human.keys[name]


def _labels(content: dict[str, Any], key: str, num_classes: int, path: Path) -> np.ndarray:
    if key not in content:
        raise DataError(f"{path}: there is no {key} in it; there are {', '.join(content)}")
    labels = np.asarray(content[key])
    if labels.ndim != 1 or labels.dtype.kind not in "iu":
        raise DataError(f"{path}: {key} is {labels.dtype} {labels.shape}; expected whole numbers (N,)")
    bad = np.flatnonzero((labels < 0) | (labels >= num_classes))
    if len(bad):
        raise DataError(f"{path}: {key} of row {bad[0]} is {labels[bad[0]]}; there are 0..{num_classes - 1}")
    return labels


def _refuse_other_order(stated: np.ndarray, true_names: np.ndarray, path: Path) -> None:
    if len(stated) != len(true_names):
        raise DataError(f"{path}: labels of {len(stated)} images, the data have {len(true_names)}")
    other = np.flatnonzero(stated != true_names)
    if len(other):
        first = f"row {other[0]} is {true_names[other[0]]} there and {stated[other[0]]} here"
        raise DataError(
            f"{path}: {_CLEAN} differs from the data's true labels in {len(other)} of {len(stated)} rows, the first: {first}; the "
            "order differs: label files follow the original Python batches (CIFAR-100 on the hub has another order)"
        )
