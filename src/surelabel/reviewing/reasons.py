"""Why a label was flagged: its course in training, its nearest neighbours, and the evidence."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from surelabel.reviewing.suspects import Suspects
from surelabel.runs.run_dir import NEIGHBOURS_FILE, TRAJECTORY_FILE, RunDir
from surelabel.verdicts.judgement import OPINION_ODDS, TRAINING_ODDS, TRAINING_WEIGHT

NUM_SHOWN = 6
"""Neighbours of a row."""


@dataclass(frozen=True)
class Course:
    """p of some classes at the checkpoints of training."""

    epochs: np.ndarray
    """(T,)."""
    given: np.ndarray
    """(N, T) p of the given class, of training rows."""
    classes: np.ndarray | None = None
    """(N, T, C) the classes with the largest running mean at the time."""
    probability: np.ndarray | None = None
    """(N, T, C) their p."""

    def describe(self, position: int, class_names: tuple[str, ...]) -> dict[str, Any] | None:
        """Return the course of a row: of p(given), and of the classes that led at the end."""
        if not len(self.epochs) or position >= len(self.given):
            return None
        lines = []
        if self.classes is not None and self.probability is not None:
            classes, probability = self.classes[position], self.probability[position]
            for number in (int(one) for one in classes[-1] if 0 <= one < len(class_names)):
                at_class = np.where(classes == number, probability, -1).max(1)  # -1 while it did not lead
                lines.append({"name": class_names[number], "p": _plain(at_class)})
        return {"epochs": self.epochs.tolist(), "given": _plain(self.given[position]), "classes": lines}


class Reasons:
    """What a run knows about the reasons for its verdicts."""

    def __init__(self, run: RunDir, suspects: Suspects, columns: Mapping[str, np.ndarray]) -> None:
        """`columns` are the evidence of the run, in the order of the data."""
        self.suspects = suspects
        tables = {name: run.find_tensors(name) for name in (TRAJECTORY_FILE, NEIGHBOURS_FILE)}
        course = {name: values.numpy() for name, values in tables[TRAJECTORY_FILE].items()}
        self.course = _read_course(course, suspects)
        self.neighbours = _read_neighbours(tables[NEIGHBOURS_FILE], suspects)
        self.odds = {name: columns[name] for name in (OPINION_ODDS, TRAINING_ODDS) if name in columns}
        self.experts = run.second_opinion().get("experts", [])
        self.position_of = np.argsort(suspects.row_at)

    def describe(self, row: int) -> dict[str, Any]:
        """Return the reasons for the verdict on a row of the audit."""
        split, position = self.suspects.place(row)
        is_trained = self.course is not None and split == "train"
        return {
            "course": self.course.describe(position, self.suspects.class_names) if self.course and is_trained else None,
            "neighbours": self._neighbours(row),
            "evidence": self._evidence(row),
        }

    def _neighbours(self, row: int) -> list[dict[str, Any]]:
        if self.neighbours is None:
            return []
        nearest = self.neighbours[self.position_of[row]][:NUM_SHOWN]
        return [self._neighbour(int(self.suspects.row_at[at])) for at in nearest]

    def _neighbour(self, row: int) -> dict[str, Any]:
        suspects = self.suspects
        split, position = suspects.place(row)
        return {
            "id": suspects.ids[row],
            "split": split,
            "position": position,
            "given": suspects.class_names[suspects.given[row]],
            "p_wrong": float(suspects.p_wrong[row]),
            "snippet": suspects.snippet(row),
        }

    def _evidence(self, row: int) -> list[dict[str, Any]]:
        """Return what speaks for a wrong label, in the log odds that are added up."""
        if OPINION_ODDS not in self.odds:
            return []
        at = self.position_of[row]
        used = sum(expert.get("weight", 0) > 0 for expert in self.experts)
        models = f"{used} model{'s'[: used != 1]} that did not see this label" if used else "models without this label"
        found: list[dict[str, Any]] = [
            {"name": "second opinion", "odds": float(self.odds[OPINION_ODDS][at]), "weight": 1.0, "text": models},
            {
                "name": "training",
                "odds": float(self.odds[TRAINING_ODDS][at]),
                "weight": TRAINING_WEIGHT,
                "text": "how the network learned this label",
            },
        ]
        return [one for one in found if np.isfinite(one["odds"])]


def _read_course(tables: Mapping[str, np.ndarray], suspects: Suspects) -> Course | None:
    """Return the course of training rows; None if the run has none, or one of other rows."""
    given, epochs = tables.get("given"), tables.get("epochs")
    if given is None or epochs is None or given.shape != (len(suspects.splits["train"]), *epochs.shape):
        return None
    classes, probability = tables.get("classes"), tables.get("probability")
    if classes is None or probability is None:
        return Course(epochs, given)
    is_whole = classes.ndim == 3 and classes.shape == probability.shape and classes.shape[:2] == given.shape
    return Course(epochs, given, classes, probability) if is_whole else None


def _read_neighbours(tables: Mapping[str, Any], suspects: Suspects) -> np.ndarray | None:
    """Return the (N, k) positions of the nearest rows; None if the run has none, or others."""
    if "index" not in tables:
        return None
    index = np.asarray(tables["index"].numpy())
    if (
        index.ndim != 2
        or index.dtype.kind != "i"
        or len(index) != len(suspects)
        or ((index < 0) | (index >= len(suspects))).any()
    ):
        return None
    return index


def _plain(values: Any) -> list[float | None]:
    """Return numbers for JSON; None for those that are not known."""
    return [round(float(value), 4) if 0 <= value <= 1 else None for value in values]
