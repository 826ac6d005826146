"""What a run says of each label: the columns of samples.parquet in the order of the data, with P(wrong) added."""

from dataclasses import dataclass

import numpy as np

from surelabel.runs.run_dir import RunDir
from surelabel.verdicts.calibration import Calibration
from surelabel.verdicts.curve import calibrated

CLASS_COLUMNS = ("given", "suggested", "target", "prediction", "clean")
"""Columns that hold class numbers."""
TRAINED, HELD_OUT = "training", "prediction"
"""Verdicts that are calibrated, each by itself; what a person has confirmed is not."""


@dataclass(frozen=True)
class Evidence:
    """Columns by name, classes as numbers; (N, K) soft labels that say which other class a row may be of."""

    columns: dict[str, np.ndarray]
    class_names: tuple[str, ...]
    alternatives: np.ndarray

    @property
    def suggestion_share(self) -> np.ndarray:
        """(N,) how likely the suggestion is right if the given label is wrong; 0 where it is the given label."""
        return self.alternatives[np.arange(len(self.alternatives)), self.columns["suggested"]].astype(np.float64)


def read(run: RunDir) -> Evidence:
    """The evidence of a finished run."""
    samples, labels = run.samples(), run.labels()
    soft = {
        name: samples[name].combine_chunks().flatten().to_numpy().reshape(len(samples), -1)
        for name in ("target", "probability")
    }
    columns = {name: samples[name].to_numpy() for name in samples.column_names if name not in soft}
    columns["target"] = soft["target"].argmax(1)
    if labels["clean"].null_count == 0:
        columns["clean"] = labels["clean"].to_numpy()
    names = tuple(map(str, run.data()["class_names"]))
    return Evidence(columns, names, _alternatives(columns, soft["target"] + soft["probability"]))


def _alternatives(columns: dict[str, np.ndarray], soft: np.ndarray) -> np.ndarray:
    """(N, K) which class a row is of if its label is wrong: the suggestion, or what targets and predictions say of the others."""
    # In place and in the table's own precision: with many classes this is by far the largest thing in memory.
    rows = np.arange(len(soft))
    others = np.nan_to_num(soft, copy=False).clip(0, out=soft)
    differs = columns["suggested"] != columns["given"]
    others[rows[differs], columns["suggested"][differs]] += columns["suggested_probability"][differs]
    others[rows, columns["given"]] = 0
    tiny = np.finfo(others.dtype).tiny
    others[others.sum(1) < tiny] = 1  # nothing is known
    others[rows, columns["given"]] = 0
    others /= np.maximum(others.sum(1, keepdims=True), tiny)
    return others


def calibration_of(columns: dict[str, np.ndarray], seed: int = 0) -> Calibration:
    """P(wrong) of all rows: held-out rows have no history and another kind of quality, so they get a curve of their own."""
    quality, verdict = columns["quality"], columns["verdict"]
    trained, held_out = np.flatnonzero(verdict == TRAINED), np.flatnonzero(verdict == HELD_OUT)
    parts = [(trained, columns["first_learned"][trained]), (held_out, None)]
    parts = [(rows, history) for rows, history in parts if len(rows)]
    curves = [calibrated(quality[rows], history, seed) for rows, history in parts]
    return Calibration(quality, [rows for rows, _ in parts], curves)
