"""Labels of a file put beside the rows of the data: by id where both have ids, else by position; refused where they do not fit."""

from collections.abc import Sequence

import numpy as np

from surelabel.errors import DataError
from surelabel.noise.files import LabelFile
from surelabel.noise.instance import inputs_sha256
from surelabel.noise.manifest import Manifest, verify
from surelabel.noise.truth import Truth


def matched(file: LabelFile, truth: Truth, seed: int | None) -> tuple[np.ndarray, str | None]:
    """(N,) int64: the file's label of each row, in this data's class numbers, after its manifest was checked.

    And the hash of the inputs, where the manifest has one.
    """
    order = _order(file, truth)
    digest = None
    if file.manifest is not None:
        if file.manifest.inputs_sha256 is not None and truth.inputs is not None:
            digest = inputs_sha256(len(order), truth.inputs)
        _check(file, file.manifest, order, truth, seed, digest)
    return _translated(file.labels, file.class_names, truth.class_names, file.where)[order], digest


def _order(file: LabelFile, truth: Truth) -> np.ndarray:
    """(N,): where each row of the data stands in the file."""
    num_rows = len(truth.clean)
    if file.ids is None or truth.ids is None:
        if len(file.labels) != num_rows:
            raise DataError(f"{file.where}: {len(file.labels)} labels for {num_rows} rows; expected one for each")
        return np.arange(num_rows)
    place = {str(one): position for position, one in enumerate(file.ids)}
    missing = [str(one) for one in truth.ids if str(one) not in place]
    if missing:
        fault = f"no label for {len(missing)} of {num_rows} rows, the first is the id {missing[0]!r}"
        raise DataError(f"{file.where}: {fault}; expected one for each")
    return np.array([place[str(one)] for one in truth.ids], dtype=np.int64)


def _check(
    file: LabelFile, manifest: Manifest, order: np.ndarray, truth: Truth, seed: int | None, digest: str | None
) -> None:
    """Compare with the manifest in the file's own order and class numbers, in which it was hashed."""
    if len(order) != len(file.labels):
        raise DataError(
            f"{file.where}: its noise was drawn for {len(file.labels)} rows, the data have {len(order)}; "
            "with a manifest the rows must be the same"
        )
    rows = np.argsort(order)
    same_classes = set(truth.class_names) == set(file.class_names)
    names = file.class_names if same_classes else truth.class_names
    verify(
        file.labels,
        manifest,
        clean=_translated(truth.clean, truth.class_names, names, file.where)[rows],
        seed=seed,
        ids=None if truth.ids is None else truth.ids[rows],
        class_names=names,
        # In another order than the file's, the inputs have another hash.
        inputs_sha256=digest if np.array_equal(rows, np.arange(len(rows))) else None,
        where=file.where,
    )


def _translated(numbers: np.ndarray, old: Sequence[str], new: Sequence[str], where: str) -> np.ndarray:
    """Class numbers of `old` as those of `new`."""
    place = {name: position for position, name in enumerate(new)}
    for number in np.unique(numbers):
        if old[number] not in place:
            raise DataError(f"{where}: has the class {old[number]!r}, which the data do not have")
    return np.array([place.get(name, -1) for name in old], dtype=np.int64)[numbers]
