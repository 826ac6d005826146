"""Write a folder to try surelabel on: images of digits, a fifth of them in the wrong sub-folder.

    python examples/dirty_folder.py dirty
    surelabel fit dirty --epochs 60 --out runs/dirty

There is one sub-folder per class. FOLDER-truth.csv, beside the folder, lists the true class of each
image; surelabel does not read it.
"""

import argparse
import csv
from pathlib import Path

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits

NAMES = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


def main() -> None:
    """Write the folder and the file of true classes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--wrong", type=float, default=0.2, help="fraction of images in a wrong sub-folder")
    parser.add_argument("--count", type=int, default=1797, help="number of images, at most 1797")
    options = parser.parse_args()
    digits, rng = load_digits(), np.random.default_rng(0)
    clean = digits.target[: options.count]
    given = clean.copy()
    moved = rng.choice(len(clean), round(options.wrong * len(clean)), replace=False)
    given[moved] = (clean[moved] + rng.integers(1, 10, len(moved))) % 10
    rows = []
    for number, pixels in enumerate(digits.images[: options.count]):
        name = f"{NAMES[given[number]]}/{number:04d}.png"
        file = options.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray((255 - pixels * 255 / 16).astype(np.uint8)).resize((16, 16), Image.Resampling.BICUBIC).save(
            file
        )
        rows.append((name, NAMES[clean[number]]))
    with options.folder.with_name(f"{options.folder.name}-truth.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("id", "label"), *rows])
    print(f"{options.folder}: {len(rows)} images, {len(moved)} of them in the wrong sub-folder")


if __name__ == "__main__":
    main()
