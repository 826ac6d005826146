"""Compare the forms of the table of targets with the dense one, on features of CIFAR-100.

    python benchmarks/sample_store.py --cifar100 FOLDER

The folder holds train.parquet and test.parquet. Images become random-patch features, 40 % of the
labels are replaced at random, and a network with one hidden layer is trained with each method and
form. Printed are, for each: the size of the tables; how far targets are from those of the dense run
when training ends (total variation, mean over rows) and how many rows name the same class; the
AUROC of the verdict's quality, without a second opinion; the test accuracy of the last epoch; and
the median processor time of a step, as a ratio to the dense form. Runs of a method take turns.
"""

import argparse
import os
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from adaptive_tasks import read_images, to_patches
from sklearn.metrics import roc_auc_score

import surelabel
from surelabel.core.state import SampleStore
from surelabel.core.topk_store import TopKStore
from surelabel.engine.loop import Engine

METHODS = ("car", "elr", "sat", "selc", "adaptive_car")
FORMS: dict[str, dict[str, Any]] = {
    "dense": {"store": "dense"},
    "topk 8": {"store": "topk", "store_k": 8},
    "topk 16": {"store": "topk", "store_k": 16},
    "topk 32": {"store": "topk", "store_k": 32},
    "topk 100": {"store": "topk", "store_k": 100},
    "memmap": {"store": "memmap"},
}
OPTIONS = {"car": {"correction_start": 3}, "sat": {"correction_start": 3}, "selc": {"correction_start": 3}}
"""Targets change early: the runs are short."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cifar100", type=Path, required=True)
    parser.add_argument("--rows", type=int, default=6000)
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--methods", nargs="+", default=METHODS)
    parser.add_argument("--forms", nargs="+", default=list(FORMS))
    options = parser.parse_args()
    engines: list[Engine] = []
    run = Engine.run
    Engine.run = lambda self, *args, **more: engines.append(self) or run(self, *args, **more)  # type: ignore[method-assign,func-returns-value]
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores; {options.rows} rows, {options.epochs} epochs")
    print("| method | tables | KiB | target error | same class | AUROC | accuracy | step |")
    print("|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "features.npz"
        images, _ = read_images({"cifar100": options.cifar100}, "cifar100", "fine_label", (options.rows, 2000))
        np.savez(data, **to_patches(images))
        for method in options.methods:
            dense: dict[str, Any] = {}
            for form in options.forms:
                found = measure(method, form, data, Path(folder) / f"{method}-{form}", options.epochs, engines)
                dense = dense or found
                error = (found["target"] - dense["target"]).abs().sum(1).mean().item() / 2
                same = (found["target"].argmax(1) == dense["target"].argmax(1)).double().mean().item()
                cells = (f"{error:.4f}", f"{same:.4f}", f"{found['auroc']:.4f}", f"{found['accuracy']:.4f}")
                ratio = found["step"] / dense["step"]
                print(
                    f"| {method} | {form} | {found['bytes'] / 1024:,.0f} | {' | '.join(cells)} | {ratio:.2f} |",
                    flush=True,
                )


def measure(method: str, form: str, data: Path, folder: Path, epochs: int, engines: list[Engine]) -> dict[str, Any]:
    """Train with a form of the tables."""
    times: list[float] = []

    def note_time() -> bool:
        times.append(time.process_time())
        return False

    config = {
        "data": {"source": str(data)},
        "noise": {"kind": "symmetric", "rate": 0.4},
        "method": {"name": method, "options": OPTIONS.get(method, {})},
        "model": {"name": "mlp", "options": {"widths": [256]}},
        "optimiser": {"rate": 0.1, "weight_decay": 5e-4, "schedule": {"kind": "one_cycle"}},
        "train": {"epochs": epochs, "batch_size": 128, "threads": 1, "second_opinion": False, **FORMS[form]},
    }
    run = surelabel.fit(config, folder, interrupt=note_time)
    trained = engines[-1].method
    stores = [module for module in trained.modules() if isinstance(module, SampleStore | TopKStore)]
    tables = [store for store in stores if isinstance(store, TopKStore) or store.rows.dim() == 2]
    parts = {
        id(part) for store in tables if isinstance(store, TopKStore) for part in store.modules() if part is not store
    }
    target = torch.stack([table.store.whole() for table in trained.target_tables() if table.is_current]).sum(0)
    samples, labels = run.samples(), run.labels()
    is_wrong = labels["given"].to_numpy() != labels["clean"].to_numpy()
    steps = np.diff(times)
    return {
        "target": target / target.sum(1, keepdim=True).clamp(min=1e-12),
        "bytes": sum(store.num_bytes for store in tables if id(store) not in parts),
        "auroc": roc_auc_score(is_wrong, -samples["quality"].to_numpy()),
        "accuracy": run.metrics()[-1]["tests"]["test"]["top1"],
        "step": median(steps[len(steps) // 3 :]),
    }


if __name__ == "__main__":
    main()
