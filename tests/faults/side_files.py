"""Files that change between `fit` and `resume`: resuming says in one line what has changed.

A run reads a table of features with true labels, ids and held-out rows, a test table, corrected and
confirmed labels, labels with noise, and weights to start from.
"""

import contextlib
import csv
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from tally import Options, Tally

from surelabel import api
from surelabel.errors import SurelabelError
from surelabel.models import make_backbone

ROWS = 120
CLASSES = ("a", "b", "c")
MODEL = {"name": "mlp", "options": {"widths": [8], "norm": "none"}, "weights": "weights.safetensors"}
SETTINGS = {
    "data": {
        **{"source": "train.csv", "test": "test.csv", "clean_column": "truth", "id_column": "name"},
        **{"labels": "labels.csv", "trusted": "trusted.csv", "validation_fraction": 0.2, "feature_columns": ["f", "g"]},
    },
    "model": MODEL,
    "train": {"epochs": 3, "batch_size": 16, "threads": 1, "device": "cpu", "second_opinion": False},
}


def write(path: Path, rows: list[list[object]]) -> None:
    """Write a table."""
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(rows)


def read(path: Path) -> list[list[str]]:
    """Read a table."""
    with path.open(newline="") as file:
        return list(csv.reader(file))


def make_scene(folder: Path) -> None:
    """Write the files and two runs that were interrupted, the second of them with noise."""
    random = np.random.default_rng(0)
    for name, count in (("train", ROWS), ("test", 30)):
        rows = [[f"{name}{n}", *random.normal(size=2).round(3), CLASSES[n % 3], CLASSES[n % 3]] for n in range(count)]
        write(folder / f"{name}.csv", [["name", "f", "g", "label", "truth"], *rows])
    write(folder / "labels.csv", [["id", "label"], *([f"train{n}", "b"] for n in range(10))])
    write(folder / "trusted.csv", [["id"], *([f"train{n}"] for n in range(20, 30))])
    write(folder / "noise.csv", [["id", "label"], *([f"train{n}", CLASSES[(n + n % 5 // 4) % 3]] for n in range(ROWS))])
    torch.manual_seed(0)
    backbone = make_backbone("mlp", (2,), MODEL["options"])
    save_file(backbone.state_dict(), folder / "weights.safetensors")
    with contextlib.chdir(folder):
        _interrupt(SETTINGS, "run")
        _interrupt({**SETTINGS, "noise": {"kind": "file", "path": "noise.csv"}}, "noisy")


def _interrupt(settings: dict, out: str) -> None:
    with contextlib.suppress(KeyboardInterrupt):
        api.fit(settings, out, interrupt=lambda: True)


def change_cell(file: str, column: int, value: Callable[[str], str]) -> Callable[[Path, Random], None]:
    """Change a cell of a table that no other file overrides."""

    def change(folder: Path, random: Random) -> None:
        table = read(folder / file)
        row = (
            random.randrange(31, len(table)) if file in ("train.csv", "noise.csv") else random.randrange(1, len(table))
        )
        table[row][column] = value(table[row][column])
        write(folder / file, table)

    return change


def change_lines(file: str, edit: Callable[[list[list[str]], Random], None]) -> Callable[[Path, Random], None]:
    """Change the lines of a table."""

    def change(folder: Path, random: Random) -> None:
        table = read(folder / file)
        edit(table, random)
        write(folder / file, table)

    return change


def change_weights(folder: Path, random: Random) -> None:
    """Change one weight."""
    state = load_file(folder / "weights.safetensors")
    name = random.choice(sorted(state))
    state[name].view(-1)[0] += 1
    save_file(state, folder / "weights.safetensors")


def _confirm_more(table: list[list[str]], random: Random) -> None:
    """Confirm rows with the label that they have anyway."""
    table += [[f"train{n}"] for n in random.sample(range(30, ROWS), random.randrange(1, 60))]


def _next_class(name: str) -> str:
    return CLASSES[(CLASSES.index(name) + 1) % 3]


CHANGES: dict[str, tuple[str, Callable[[Path, Random], None]]] = {
    "a feature": ("inputs of the (training|held-out) rows", change_cell("train.csv", 1, lambda x: f"{float(x) + 1}")),
    "a label": ("labels of the (training|held-out) rows", change_cell("train.csv", 3, _next_class)),
    "a true label": ("true labels of the (training|held-out) rows", change_cell("train.csv", 4, _next_class)),
    "an id": ("ids of the (training|held-out) rows", change_cell("train.csv", 0, lambda name: f"{name}x")),
    "a row less": ("ids of the (training|held-out) rows", change_lines("train.csv", lambda t, _: t.pop() and None)),
    "a class": ("class names", change_cell("train.csv", 4, lambda _: "d")),
    "a test feature": ("inputs of the test rows", change_cell("test.csv", 1, lambda x: f"{float(x) + 1}")),
    "a test label": ("labels of the test rows", change_cell("test.csv", 4, _next_class)),
    "a test row less": ("ids of the test rows", change_lines("test.csv", lambda t, _: t.pop() and None)),
    "a corrected label": ("labels of the (training|held-out) rows", change_cell("labels.csv", 1, _next_class)),
    "more confirmed rows": (r"confirmed rows \(data\.trusted\)", change_lines("trusted.csv", _confirm_more)),
    "a confirmed row less": (
        r"confirmed rows \(data\.trusted\)",
        change_lines("trusted.csv", lambda t, _: t.pop() and None),
    ),
    "a noisy label": ("noise differs|labels of the", change_cell("noise.csv", 1, _next_class)),
    "a weight": (r"model\.weights", change_weights),
}
"""What the line must say, and what to change."""


def resume_after(change: str, scene: Path, folder: Path, run: str, random: Random) -> str | None:
    """Change a copy of the scene, resume a run there, and return the error; None if it resumed."""
    shutil.copytree(scene, folder)
    CHANGES[change][1](folder, random)
    with contextlib.chdir(folder):
        try:
            api.resume(run)
        except SurelabelError as error:
            return str(error)
    return None


def run_side_files(options: Options) -> Tally:
    """Change something, and resume; every change must be noticed and named."""
    tally = Tally("side_files", planned=options.count or 60)
    scene = options.folder / "scene"
    scene.mkdir()
    make_scene(scene)
    for number in range(tally.planned):
        random = options.random("side_files", number)
        change = random.choice(sorted(CHANGES))
        run = "noisy" if change == "a noisy label" else random.choice(["run", "noisy"])
        # The file of noise labels all rows by their ids, so that other labels are not read.
        run = "run" if change in ("a label", "a corrected label", "an id") else run
        folder = options.folder / str(number)
        said = resume_after(change, scene, folder, run, random)
        fault = None
        if said is None:
            fault = "resumed as if nothing had changed"
        elif "\n" in said or not re.search(CHANGES[change][0], said):
            fault = f"not what has changed: {said}"
        tally.judge(f"{change} in {run} ({number} of seed {options.seed})", fault)
        shutil.rmtree(folder, ignore_errors=True)
    return tally
