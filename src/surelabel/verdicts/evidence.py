"""Collect the evidence of a finished run about each of its labels.

Everything that P(wrong) and suggestions depend on enters the package here, as columns with one
value per row in the order of the data. A new source of evidence is a new column.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from surelabel.errors import RunError
from surelabel.runs.run_dir import RunDir
from surelabel.runs.samples import MEAN_PROBABILITY, OPTIONAL_COLUMNS, SOFT_COLUMNS, TRUE_CLASS, TopK
from surelabel.runs.tables import ORIGINAL

CLASS_COLUMNS = ("given", ORIGINAL, "suggested", "target", "prediction", "clean")
"""Columns that hold class numbers."""
TRAINED, HELD_OUT, TRUSTED = "training", "prediction", "trusted"
"""Kinds of verdict: from training, from predictions only, and confirmed by a person."""
CHUNK_VALUES = 2**24
"""Largest number of values, rows x classes, held in memory at once."""


@dataclass(frozen=True)
class Evidence:
    """Columns by name, with classes as numbers, and the soft labels of every row."""

    columns: dict[str, np.ndarray]
    class_names: tuple[str, ...]
    target: TopK
    """What the loss aimed at when training ended."""
    probability: TopK
    """What the network predicted."""
    true_class: TopK | None = None
    """What the row is by all evidence; None if the run had no second opinion."""
    mean_probability: TopK | None = None
    """The mean of what the network predicted in training; None if the run did not keep it."""

    def alternatives(self) -> Iterator[tuple[slice, np.ndarray]]:
        """Yield slices of rows with (n, K): P(class) if the given label is wrong.

        It combines suggestion, targets and predictions, without the given class.
        """
        size = max(1, CHUNK_VALUES // len(self.class_names))
        for start in range(0, len(self.target), size):
            rows = slice(start, min(start + size, len(self.target)))
            yield rows, self._alternatives_of(rows)

    def _alternatives_of(self, rows: slice) -> np.ndarray:
        # In place: with many classes this is by far the largest array in memory.
        given = self.columns["given"][rows]
        others = self._supported(rows) if self.true_class is None else self.true_class.dense(rows).copy()
        every = np.arange(len(others))
        others[every, given] = 0
        tiny = np.finfo(others.dtype).tiny
        others[others.sum(1) < tiny] = 1  # nothing is known
        others[every, given] = 0
        others /= np.maximum(others.sum(1, keepdims=True), tiny)
        return others

    def _supported(self, rows: slice) -> np.ndarray:
        """Return (n, K): how far training supports each class."""
        soft = self.target.dense(rows) + self.probability.dense(rows)
        names = ("given", "suggested", "suggested_probability")
        given, suggested, probability = (self.columns[name][rows] for name in names)
        every, differs = np.arange(len(soft)), suggested != given
        support: np.ndarray = np.nan_to_num(soft, copy=False).clip(0, out=soft)
        support[every[differs], suggested[differs]] += probability[differs]
        return support

    def with_p_wrong(self, p_wrong: np.ndarray) -> dict[str, np.ndarray]:
        """Return the columns with another P(wrong) and the suggestions that follow from it."""
        columns = {**self.columns, "p_wrong": p_wrong}
        if self.true_class is None:
            return columns
        given, kept = self.columns["given"], self.true_class
        is_given = kept.classes == given[:, None]
        others = np.where(is_given, 0, kept.values)
        # Classes that are not stored have a part of P(wrong), too.
        before = np.maximum(1 - np.where(is_given, kept.values, 0).sum(1), others.sum(1))
        others *= (p_wrong / np.maximum(before, np.finfo(np.float32).tiny))[:, None]
        updated = TopK(kept.classes, np.where(is_given, 1 - p_wrong[:, None], others), kept.num_classes)
        return columns | _suggestions(updated, given, p_wrong)


def as_given(columns: Mapping[str, np.ndarray]) -> np.ndarray:
    """Return the (N,) labels that people gave, without the suggestions of an earlier run."""
    labels: np.ndarray = np.where(is_own(columns), columns.get(ORIGINAL, columns["given"]), columns["given"])
    return labels


def is_own(columns: Mapping[str, np.ndarray]) -> np.ndarray:
    """Return (N,) whether each label is a suggestion of an earlier run that no person confirmed."""
    if ORIGINAL not in columns:
        return np.zeros(len(columns["verdict"]), dtype=bool)
    own: np.ndarray = (columns[ORIGINAL] != columns["given"]) & (columns["verdict"] != TRUSTED)
    return own


def rival_of(probability: np.ndarray) -> np.ndarray:
    """Return (N,) the second largest of (N, K) probabilities as a fraction of the largest.

    Unlike entropy, it does not add up many small probabilities: it means the same for 2 and for
    1,000 classes.
    """
    second, first = np.partition(probability, -2, axis=1)[:, -2:].T
    rival: np.ndarray = second / np.maximum(first, np.finfo(probability.dtype).tiny)
    return rival


def read(run: RunDir) -> Evidence:
    """Read the evidence of a finished run."""
    samples, labels = run.samples(), run.labels()
    if not samples["id"].cast("large_string").equals(labels["id"].cast("large_string")):
        raise RunError(f"{run.path / 'samples.parquet'}: its ids differ from those in labels.parquet")
    names = tuple(run.data()["class_names"])
    stored = [*SOFT_COLUMNS, *(name for name in OPTIONAL_COLUMNS if name in samples.column_names)]
    soft = {name: TopK.from_table(samples, name, len(names)) for name in stored}
    lists = {f"{name}{end}" for name in soft for end in ("", "_classes")}
    columns = {name: samples[name].to_numpy() for name in samples.column_names if name not in lists}
    if labels["clean"].null_count == 0:
        columns["clean"] = labels["clean"].to_numpy()
    return combine(columns, soft, names)


def combine(columns: dict[str, np.ndarray], soft: Mapping[str, TopK], class_names: tuple[str, ...]) -> Evidence:
    """Return the evidence in columns with a value per row, and in soft labels by name."""
    columns = {**columns, "target": soft["target"].argmax()}
    if TRUE_CLASS in soft:
        columns |= _suggestions(soft[TRUE_CLASS], columns["given"], columns["p_wrong"])
    if MEAN_PROBABILITY in soft:
        columns["network_rival"] = rival_of(soft[MEAN_PROBABILITY].values)
    tables = (soft["target"], soft["probability"], soft.get(TRUE_CLASS), soft.get(MEAN_PROBABILITY))
    return Evidence(columns, class_names, *tables)


def _suggestions(true_class: TopK, given: np.ndarray, p_wrong: np.ndarray) -> dict[str, np.ndarray]:
    """Return the likeliest class of each row; where the label looks wrong, the likeliest other."""
    values = np.where((true_class.classes == given[:, None]) & (p_wrong >= 0.5)[:, None], -1.0, true_class.values)
    best, rows = values.argmax(1), np.arange(len(given))
    return {"suggested": true_class.classes[rows, best], "suggested_probability": true_class.values[rows, best]}
