"""Small run directories written by hand, for figures to choose from."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from surelabel.config import RunConfig
from surelabel.paper.figures.panel_runs import FoundRun, find_runs
from surelabel.runs.run_dir import SCHEMA_VERSION, RunDir

GIVEN = np.array([0, 1, 1, 2, 0, 2])
CLEAN = np.array([0, 0, 1, 2, 2, 2])
TAU = np.array([0.9, 0.2, 0.8, 1.0, 0.4, 0.9])
CORRECTED = np.array([0, 0, 1, 2, 0, 1])
SHARES = {
    "clean_labels": {"correct": 0.9, "wrong": 0.1},
    "false_labels": {"correct": 0.5, "memorised": 0.3, "other": 0.2},
}


def written(
    path: Path,
    *,
    data: str = "cifar10",
    method: str = "car",
    options: dict[str, Any] | None = None,
    noise: tuple[str, float] | None = ("symmetric", 0.4),
    schedule: str = "cosine_restarts",
    seed: int = 0,
    epochs: int = 2,
    accuracy: float = 0.5,
    gradient: bool = False,
    input_shape: tuple[int, ...] = (3, 4, 4),
    is_done: bool = True,
) -> RunDir:
    """Write a finished run of six samples in three classes."""
    content = {
        "data": {"source": data},
        "method": {"name": method, "options": options or {}},
        "optimiser": {"schedule": {"kind": schedule}},
        "train": {"epochs": epochs, "seed": seed, "gradient_share": gradient},
    }
    if noise is not None:
        content["noise"] = {"kind": noise[0], "rate": noise[1]}
    path.mkdir(parents=True)
    run, config = RunDir(path), RunConfig.model_validate(content)
    ids, splits = [f"row {number}" for number in range(len(GIVEN))], ["train"] * len(GIVEN)
    run.write_json("config.json", config.model_dump(mode="json"))
    run.write_table("labels.parquet", {"id": ids, "given": GIVEN, "clean": CLEAN, "split": splits})
    target = 0.7 * np.eye(3, dtype=np.float32)[CORRECTED] + 0.1
    columns = {"id": ids, "split": splits, "given": GIVEN, "tau": TAU.astype(np.float32), "target": target}
    columns |= {"verdict": ["training"] * len(GIVEN), "prediction": CORRECTED, "probability": target}
    columns |= {
        "quality": TAU,
        "p_wrong": 1 - TAU,
        "p_wrong_low": 1 - TAU,
        "p_wrong_high": 1 - TAU,
        "given_probability": TAU,
        "mean_given_probability": TAU,
    }
    columns |= {"row": np.arange(len(GIVEN)), "mean_margin": TAU, "first_learned": GIVEN, "forgotten": GIVEN}
    run.write_table("samples.parquet", {**columns, "suggested": CORRECTED, "suggested_probability": target.max(1)})
    for epoch in range(1, epochs + 1):
        row = {"epoch": epoch, "tests": {"test": {"top1": accuracy}}, **SHARES}
        run.append_metrics({**row, **({"gradient_share": {"clean": 0.75, "false": 0.25}} if gradient else {})})
    names = ["cat", "dog", "bird"]
    data_json = {"schema": SCHEMA_VERSION, "class_names": names, "input_shape": list(input_shape)}
    run.write_json("data.json", {**data_json, "num_train": len(GIVEN), "num_validation": 0, "fingerprint": ""})
    if is_done:
        run.write_json("done", {})
    return run


@pytest.fixture
def make(tmp_path: Path):
    """`make("name", method="car")` writes a run directory into the folder of a reproduction."""
    return lambda name, **settings: written(tmp_path / "runs" / name, **settings)


@pytest.fixture
def available(tmp_path: Path):
    """`available()`: the runs of the folder, whose data cannot be read again."""

    def found() -> list[FoundRun]:
        return find_runs([tmp_path], lambda _: pytest.fail("no figure but the last two needs the data"))

    return found
