"""Count right labels before and after `surelabel export`, with `--accept all` and by default.

    python benchmarks/export.py --seeds 1 2 --cifar10 FOLDER --out DIR

Trains on many kinds of small data with default settings (200 epochs; photos60: 60) and prints one
row for each data set and seed. FOLDER holds CIFAR-10's train.parquet from the Hugging Face hub;
without it there are no photos. Finished runs in DIR are not trained again. Seed 0 takes about 25
minutes on two cores.
"""

import argparse
import io
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine

import surelabel
from surelabel.runs.run_dir import RunDir
from surelabel.verdicts.corrections import ALL, Rules, accept

NUM_PHOTOS = 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--cifar10", type=Path, metavar="FOLDER")
    parser.add_argument("--out", type=Path, default=Path("runs/export"), metavar="DIR")
    parser.add_argument("--only", nargs="+", metavar="NAME")
    options = parser.parse_args()
    print("| data | seed | wrong | audit | before | all | safe | changed | why nothing |")
    print(f"|{'---|' * 9}")
    for seed in options.seeds:
        folder = options.out / f"data{seed}"
        if not folder.is_dir():
            folder.mkdir(parents=True)
            for name, arrays in data_sets(np.random.default_rng(1000 + seed), options.cifar10):
                np.savez(folder / f"{name}.npz", **arrays)
        trials = [(path.stem, path, 200) for path in sorted(folder.glob("*.npz"))]
        trials += [("photos60", path, 60) for name, path, _ in trials if name == "photos"]
        for name, path, epochs in trials:
            if not options.only or name in options.only:
                run = train(path, options.out / f"runs{seed}" / name, seed, epochs)
                print(make_row(name, seed, run), flush=True)


def data_sets(rng: np.random.Generator, cifar10: Path | None) -> Iterator[tuple[str, dict[str, np.ndarray]]]:
    """Yield each data set with wrong labels; one generator draws them all in this order."""
    for name, rows, size, classes, spread in (
        ("emb1000", 1000, 384, 10, 0.14),
        ("embeasy", 1000, 384, 10, 0.22),
        ("emb4000", 4000, 384, 10, 0.12),
        ("many200", 1000, 384, 200, 0.5),
        ("two600", 600, 100, 2, 0.1),
    ):
        yield name, add_noise(rng, *draw_gaussian(rng, rows, size, classes, spread))
    centres = rng.normal(size=(5, 64)) * 0.5
    y = np.repeat(np.arange(5), [400, 300, 150, 44, 3])
    yield "imbal", add_noise(rng, centres[y] + rng.normal(size=(len(y), 64)), y, 0.1)
    yield "csv12", add_noise(rng, *draw_gaussian(rng, 1000, 12, 5, 1.2))
    for name, load in (("cancer", load_breast_cancer), ("wine", load_wine), ("iris", load_iris)):
        yield name, add_noise(rng, *load(return_X_y=True))
    digits = load_digits()
    x, y = digits.images[:, None] / 16, digits.target
    for name, rate in (("digits", 0.2), ("digits40", 0.4), ("digits60", 0.6), ("digitsclean", 0.0)):
        yield name, add_noise(rng, x, y, rate)
    random = rng.integers(0, 10, len(x))
    yield "digitsrandom", {"x": x.astype(np.float32), "y": random, "clean": y}
    if cifar10 is not None:
        yield "photos", read_photos(rng, cifar10 / "train.parquet")


def draw_gaussian(
    rng: np.random.Generator, rows: int, size: int, classes: int, spread: float
) -> tuple[np.ndarray, np.ndarray]:
    """Draw x = c_y + N(0, I) with c ~ N(0, spread^2 I)."""
    centres = rng.normal(size=(classes, size)) * spread
    y = np.arange(rows) % classes
    return centres[y] + rng.normal(size=(rows, size)), y


def add_noise(rng: np.random.Generator, x: np.ndarray, clean: np.ndarray, rate: float = 0.2) -> dict[str, np.ndarray]:
    """Make an exact fraction of the labels wrong, evenly over the other classes."""
    kind = np.float32 if x.dtype != np.uint8 else np.uint8
    return {"x": x.astype(kind), "y": flip(rng, clean, rate), "clean": clean}


def flip(rng: np.random.Generator, clean: np.ndarray, rate: float) -> np.ndarray:
    given, classes = clean.copy(), len(np.unique(clean))
    rows = rng.choice(len(clean), round(rate * len(clean)), replace=False)
    given[rows] = (given[rows] + rng.integers(1, classes, len(rows))) % classes
    return given


def read_photos(rng: np.random.Generator, file: Path) -> dict[str, np.ndarray]:
    import pyarrow.parquet as pq
    from PIL import Image

    table = pq.read_table(file)
    table = table.take(rng.choice(len(table), NUM_PHOTOS, replace=False))
    images = [np.asarray(Image.open(io.BytesIO(image["bytes"])).convert("RGB")) for image in table["img"].to_pylist()]
    return add_noise(rng, np.stack(images).transpose(0, 3, 1, 2), table["label"].to_numpy(), 0.187)


def train(data: Path, out: Path, seed: int, epochs: int) -> RunDir:
    run = RunDir(out)
    if not run.is_done:
        settings = {"train.seed": seed, "train.epochs": epochs}
        run = surelabel.resume(out) if run.has_begun else surelabel.fit(data, out, settings=settings)
    return run


def make_row(name: str, seed: int, run: RunDir) -> str:
    audit = surelabel.audit(run)
    given, suggested, clean = (audit.columns[name] for name in ("given", "suggested", "clean"))
    safe, every = accept(audit, Rules()), accept(audit, Rules(ALL))
    before, after, after_all = (
        np.where(rows, suggested, given) == clean for rows in (np.zeros(len(audit), dtype=bool), safe.rows, every.rows)
    )
    low, high = audit.noise_rate.interval or (0.0, 1.0)
    estimate = f"{100 * (audit.noise_rate.rate or 0):.0f} ({100 * low:.0f}-{100 * high:.0f})"
    accuracies = " | ".join(f"{100 * right.mean():.1f}" for right in (before, after_all, after))
    wrong = f"{100 * (given != clean).mean():.1f}"
    return f"| {name} | {seed} | {wrong} | {estimate} | {accuracies} | {safe.rows.sum()} | {safe.doubt or ''} |"


if __name__ == "__main__":
    main()
