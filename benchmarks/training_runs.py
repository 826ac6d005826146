"""Train many runs for a table, resumable and side by side, and read figures of finished ones."""

import multiprocessing
import shutil
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

Job = tuple[dict[str, Any], str]
"""The configuration of a run, and its folder."""


def slug(text: str) -> str:
    """Return a text as a folder name."""
    return "".join(c if c.isalnum() else "-" for c in text)


def train(config: dict[str, Any], folder: str) -> None:
    """Train or resume one run; leave it alone if it is done with this configuration."""
    from surelabel.api import fit, resume
    from surelabel.config import validate
    from surelabel.runs.run_dir import RunDir

    run = RunDir(folder)
    if (run.path / "data.json").exists() and run.config() == validate(config):
        resume(folder)
        return
    shutil.rmtree(folder, ignore_errors=True)
    fit(config, folder)


def train_all(jobs: list[Job], workers: int) -> None:
    """Train jobs in parallel and print progress; failures do not stop the rest, but are listed."""
    failures = []
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=context) as pool:
        futures = {pool.submit(train, config, folder): folder for config, folder in jobs}
        for number, future in enumerate(as_completed(futures), 1):
            if future.exception() is not None:
                failures.append(f"{futures[future]}: {future.exception()}")
            print(f"{number}/{len(jobs)} {Path(futures[future]).name}", flush=True)
    for failure in failures:
        print(f"FAILED {failure}")


def measure(folder: str) -> dict[str, float]:
    """Return the figures of one finished run."""
    import surelabel
    from surelabel.runs.run_dir import RunDir

    run = RunDir.open(folder)
    rows, audit = run.metrics(), surelabel.audit(run).measures()
    tests = [row["tests"]["test"]["top1"] for row in rows if row.get("tests")]
    return {
        "test": tests[-1],
        "best_oracle": max(tests),
        "auroc": audit["quality_auroc"],
        "correction": audit["suggested_accuracy"],
        "memorised": rows[-1]["false_labels"]["memorised"],
    }
