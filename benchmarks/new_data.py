"""Measure how a finished run judges new data: of the same kind, and shifted in several ways.

    python benchmarks/new_data.py --seeds 0 1 2

For each seed it trains on 900 of scikit-learn's digits, 20 % of whose labels are wrong, and holds
out a fifth. The other 897 rows are judged with 10 % wrong labels: as they are, and with all or half
of the images changed. A line has the true and the estimated fraction of wrong labels, whether the
interval holds the true one, the precision at as many labels as are wrong, the fraction of rows
found to be unlike by each comparison, and whether the audit says that it can tell.
"""

import argparse
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

WRONG_BEFORE, WRONG_NOW = 0.2, 0.1


def turn(x: np.ndarray) -> np.ndarray:
    """Turn images by a right angle."""
    return np.rot90(x, axes=(2, 3)).copy()


def turn_half(x: np.ndarray) -> np.ndarray:
    """Turn every second image."""
    return np.where(np.arange(len(x))[:, None, None, None] % 2 == 0, turn(x), x)


def add_noise(x: np.ndarray) -> np.ndarray:
    """Add noise with a deviation of a quarter of the range."""
    noise = np.random.default_rng(7).normal(0, 64, x.shape)
    return np.clip(x + noise, 0, 255).astype(np.uint8)


SHIFTS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "none": lambda x: x,
    "all turned": turn,
    "half turned": turn_half,
    "inverted": lambda x: 255 - x,
    "noise": add_noise,
    "20 % darker": lambda x: (0.8 * x).astype(np.uint8),
}


def main() -> None:
    """Print a line for each seed and shift."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    print("| seed | shift | wrong | estimated | interval | holds it | precision | probability | distance | can tell |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for seed in options.seeds:
        with tempfile.TemporaryDirectory() as folder:
            measure(seed, options.epochs, options.threads, Path(folder))


def measure(seed: int, epochs: int, threads: int, folder: Path) -> None:
    """Train once and judge every shift."""
    from sklearn.datasets import load_digits

    import surelabel

    rng = np.random.default_rng(seed)
    x, y = load_digits(return_X_y=True)
    order = rng.permutation(len(y))
    images, clean = (x[order] * 255 / 16).round().astype(np.uint8).reshape(-1, 1, 8, 8), y[order]
    given = np.concatenate([flip(clean[:900], WRONG_BEFORE, rng), flip(clean[900:], WRONG_NOW, rng)])
    common = {"epochs": epochs, "threads": threads, "seed": seed}
    np.savez(folder / "train.npz", x=images[:900], y=given[:900])  # a file, which the audit can read again
    run = surelabel.fit(folder / "train.npz", folder / "run", **common, settings={"data.validation_fraction": 0.2})
    is_wrong = given[900:] != clean[900:]
    for name, shift in SHIFTS.items():
        audit = surelabel.audit(run, data=(shift(images[900:]), given[900:]))
        first = [int(row["id"]) for row in audit.head(int(is_wrong.sum()))]
        rate, (low, high), share = audit.noise_rate.rate, audit.noise_rate.interval, is_wrong.mean()
        drift = {one.name: f"{one.share:.2f}" for one in audit.drifts}
        cells = [seed, name, f"{share:.3f}", f"{rate:.3f}", f"{low:.2f} to {high:.2f}", low <= share <= high]
        cells += [f"{is_wrong[first].mean():.2f}", drift["probability"], drift["distance"], audit.can_tell]
        print(f"| {' | '.join(map(str, cells))} |", flush=True)


def flip(label: np.ndarray, rate: float, rng: np.random.Generator) -> np.ndarray:
    """Replace labels by others at random."""
    return np.where(rng.random(len(label)) < rate, (label + rng.integers(1, 10, len(label))) % 10, label)


if __name__ == "__main__":
    main()
