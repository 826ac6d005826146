"""Real images with mistakes of real annotators; needs the CIFAR-10 files and several minutes."""

import os
import statistics
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import surelabel

SHARED = Path(os.environ.get("SURELABEL_SHARED_DATA", Path(__file__).parents[3] / "shared" / "data")) / "cifar10"
NUM_TRAIN, NUM_TEST = 12_000, 2_000


@pytest.fixture
def small_cifar10(tmp_path):
    """Write the first rows of both files."""
    if not (SHARED / "train.parquet").is_file():
        pytest.skip(f"no CIFAR-10 in {SHARED}; $SURELABEL_SHARED_DATA names another folder")
    folder = tmp_path / "cifar10"
    folder.mkdir()
    for name, count in (("train", NUM_TRAIN), ("test", NUM_TEST)):
        pq.write_table(pq.read_table(SHARED / f"{name}.parquet").slice(0, count), folder / f"{name}.parquet")
    return folder


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_car_ranks_the_mistakes_of_annotators(small_cifar10, tmp_path, capsys):
    settings = {
        "data.label_column": "human_label",
        "data.clean_column": "label",
        "model": "fast_cnn",
        "optimiser": {"rate": 0.1, "schedule": {"kind": "one_cycle"}},
        "train.epochs": 8,
        "train.batch_size": 128,
    }
    run = surelabel.fit(small_cifar10, tmp_path / "run", settings=settings)
    rows, measures = run.metrics(), surelabel.audit(run).measures()
    accuracy = [row["tests"]["test"]["top1"] for row in rows]
    pace = statistics.median(row["samples_per_second"] for row in rows)
    with capsys.disabled():
        print(  # noqa: T201 - the measured numbers are what a reader runs this test for
            f"\nCIFAR-10, {NUM_TRAIN} human labels, {measures['wrong_labels']:.4f} wrong: "
            f"test accuracy {accuracy[0]:.3f} to {accuracy[-1]:.3f}, "
            f"AUROC {measures['quality_auroc']:.3f}, {pace:.0f} samples/s"
        )
    assert 0.15 < measures["wrong_labels"] < 0.20
    assert accuracy[-1] > accuracy[0] + 0.1
    assert measures["quality_auroc"] > 0.8
