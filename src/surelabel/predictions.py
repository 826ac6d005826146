"""What a trained model says of new data, as a table."""

from pathlib import Path

import numpy as np

from surelabel.api import TrainedModel
from surelabel.data import read_inputs
from surelabel.data.examples import refuse_not_finite
from surelabel.files import replace_csv

FIXED_COLUMNS = ("id", "predicted", "tau")
"""Columns before those of the classes; tau only where the method has one."""


def predictions(model: TrainedModel, source: str) -> dict[str, np.ndarray]:
    """Columns, in their order: id, predicted, tau and the probability of each class, under its name."""
    config = model.config.data.model_copy(update={"source": source, "test": None})
    x, ids = read_inputs(config, model.input_shape)
    refuse_not_finite(x, ids, source)
    probability, tau = model.predict_proba(x), model.confidence(x)
    columns = {"id": ids, "predicted": np.array(model.class_names)[probability.argmax(1)]}
    if tau is not None:
        columns["tau"] = tau
    return columns | {class_column(name): probability[:, number] for number, name in enumerate(model.class_names)}


def class_column(name: str) -> str:
    """The class's own name, unless another column has it."""
    return f"probability of {name}" if name in FIXED_COLUMNS else name


def write_csv(path: Path, columns: dict[str, np.ndarray]) -> None:
    """Write a line per row, numbers with six digits."""
    lines = zip(*columns.values(), strict=True)
    rows = ([f"{value:.6g}" if isinstance(value, np.floating) else value for value in line] for line in lines)
    replace_csv(path, columns, rows)
