"""Run directories with made-up content, so that the truth is known and nothing is trained."""

from pathlib import Path

import numpy as np
import pytest

from surelabel.runs.run_dir import OPINION_FILE, SCHEMA_VERSION, RunDir
from surelabel.training.second_opinion import judge_by_training

NAMES = ("cat", "dog", "fox", "owl")


def evidence(num_rows: int, rate: float, seed: int = 0) -> dict[str, np.ndarray]:
    """Return quality and first epoch: right labels early and high, wrong ones late and low."""
    rng = np.random.default_rng(seed)
    is_wrong = np.arange(num_rows) < round(rate * num_rows)
    score = np.where(is_wrong, rng.normal(-3, 1.2, num_rows), rng.normal(3, 1.2, num_rows))
    epoch = np.where(is_wrong, rng.integers(12, 40, num_rows), rng.integers(1, 6, num_rows))
    epoch[is_wrong & (rng.random(num_rows) < 0.5)] = 0
    return {"is_wrong": is_wrong, "quality": 1 / (1 + np.exp(-score)), "first_learned": epoch}


def write_verdict(run: RunDir, samples: dict[str, np.ndarray]) -> None:
    """Write samples.parquet with the P(wrong) of its evidence, by training alone."""
    found = judge_by_training(samples)
    run.write_json(OPINION_FILE, found.description)
    run.write_samples({**samples, **found.columns})


def write_run(
    path: Path,
    num_rows: int = 600,
    rate: float = 0.3,
    *,
    seed: int = 0,
    knows_truth: bool = True,
    held_out: int = 0,
) -> RunDir:
    """Write a finished run whose wrong labels are the next class; the last rows are held out."""
    made = evidence(num_rows, rate, seed)
    rng = np.random.default_rng(seed + 1)
    order = rng.permutation(num_rows)
    is_wrong, quality, epoch = (made[name][order] for name in ("is_wrong", "quality", "first_learned"))
    clean = rng.integers(0, len(NAMES), num_rows)
    given = np.where(is_wrong, (clean + 1) % len(NAMES), clean)
    soft = np.full((num_rows, len(NAMES)), 0.02, dtype=np.float32)
    soft[np.arange(num_rows), clean] = 1 - 0.02 * (len(NAMES) - 1)
    split = np.where(np.arange(num_rows) < num_rows - held_out, "train", "validation")
    run = RunDir(path)
    path.mkdir(parents=True)
    ids = np.array([f"row/{number:05d}" for number in range(num_rows)])
    run.write_table("labels.parquet", {"id": ids, "given": given, "clean": clean, "split": split})
    if not knows_truth:
        unknown = np.full(num_rows, np.nan)
        run.write_table("labels.parquet", {"id": ids, "given": given, "clean": unknown, "split": split})
    samples = {
        "id": ids,
        "row": np.arange(num_rows),
        "split": split,
        "verdict": np.where(split == "train", "training", "prediction"),
        "given": given,
        "prediction": clean,
        "quality": quality.astype(np.float32),
        "suggested": clean,
        "suggested_probability": np.full(num_rows, 0.9, dtype=np.float32),
        "given_probability": quality.astype(np.float32),
        "mean_given_probability": quality.astype(np.float32),
        "mean_margin": (quality - 0.5).astype(np.float32),
        "first_learned": epoch.astype(np.int32),
        "forgotten": np.zeros(num_rows, dtype=np.int32),
        "tau": quality.astype(np.float32),
        "target": soft,
        "probability": soft,
    }
    write_verdict(run, samples)
    data = {"schema": SCHEMA_VERSION, "class_names": list(NAMES), "input_shape": [2], "fingerprint": ""}
    run.write_json("data.json", {**data, "num_train": num_rows - held_out, "num_validation": held_out})
    (path / "done").touch()
    return run


@pytest.fixture(scope="session")
def made_run():
    """The function that writes a made-up run to a path."""
    return write_run


@pytest.fixture
def run_of(tmp_path):
    """Return a function that writes a made-up run: `run_of(rate=0.3)`."""
    made = []

    def write(**kinds) -> RunDir:
        made.append(tmp_path / f"run{len(made)}")
        return write_run(made[-1], **kinds)

    return write
