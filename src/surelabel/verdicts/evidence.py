"""Collect the evidence of a finished run about each of its labels.

Everything that P(wrong) and suggestions depend on enters the package here, as columns with one
value per row in the order of the data. A new source of evidence is a new column.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from surelabel.runs.run_dir import RunDir
from surelabel.runs.samples import SOFT_COLUMNS, TopK

CLASS_COLUMNS = ("given", "suggested", "target", "prediction", "clean")
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
        soft = self.target.dense(rows) + self.probability.dense(rows)
        names = ("given", "suggested", "suggested_probability")
        given, suggested, probability = (self.columns[name][rows] for name in names)
        every = np.arange(len(soft))
        others: np.ndarray = np.nan_to_num(soft, copy=False).clip(0, out=soft)
        differs = suggested != given
        others[every[differs], suggested[differs]] += probability[differs]
        others[every, given] = 0
        tiny = np.finfo(others.dtype).tiny
        others[others.sum(1) < tiny] = 1  # nothing is known
        others[every, given] = 0
        others /= np.maximum(others.sum(1, keepdims=True), tiny)
        return others


def read(run: RunDir) -> Evidence:
    """Read the evidence of a finished run."""
    samples, labels = run.samples(), run.labels()
    names = tuple(map(str, run.data()["class_names"]))
    target, probability = (TopK.from_table(samples, name, len(names)) for name in SOFT_COLUMNS)
    soft = {f"{name}{end}" for name in SOFT_COLUMNS for end in ("", "_classes")}
    columns = {name: samples[name].to_numpy() for name in samples.column_names if name not in soft}
    columns["target"] = target.argmax()
    if labels["clean"].null_count == 0:
        columns["clean"] = labels["clean"].to_numpy()
    return Evidence(columns, names, target, probability)
