"""Tiny folders in the layouts of the paper's data sets, and finished runs written by hand."""

import io
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from PIL import Image

from surelabel.config import RunConfig
from surelabel.data.benchmarks.cifar import CIFAR10_CLASSES, CIFAR100_CLASSES
from surelabel.runs.run_dir import SCHEMA_VERSION, RunDir


def picture(value: int, side: int, kind: str = "png") -> bytes:
    """Return a noisy image of brightness `value`."""
    rng = np.random.default_rng(value)
    pixels = rng.integers(0, 56, (side, side, 3)) + value % 200
    buffer = io.BytesIO()
    Image.fromarray(pixels.astype(np.uint8)).save(buffer, kind)
    return buffer.getvalue()


def write_cifar(root: Path, name: str, num_train: int, num_test: int) -> None:
    """Parquet files as on the Hugging Face hub, every class in turn."""
    classes, column = {"cifar10": (CIFAR10_CLASSES, "label"), "cifar100": (CIFAR100_CLASSES, "fine_label")}[name]
    (root / name).mkdir(parents=True)
    for part, count in {"train": num_train, "test": num_test}.items():
        labels = {column: [row % len(classes) for row in range(count)]}
        if column == "fine_label":
            labels["coarse_label"] = [row % 20 for row in range(count)]
        cells = [{"bytes": picture(row, 32), "path": None} for row in range(count)]
        pyarrow.parquet.write_table(pyarrow.table({"img": cells, **labels}), root / name / f"{part}.parquet")


def write_clothing1m(root: Path, rows_per_class: int = 1) -> None:
    """Key lists, label files and pictures."""
    folder = root / "clothing1m"
    keys = {part: [] for part in ("noisy_train", "clean_val", "clean_test")}
    labels: dict[str, list[str]] = {"noisy": [], "clean": []}
    for number, part in enumerate(keys):
        for row in range(14 * rows_per_class):
            key = f"images/{number}/{row}.jpg"
            (folder / key).parent.mkdir(parents=True, exist_ok=True)
            (folder / key).write_bytes(picture(row, 64, "jpeg"))
            keys[part].append(key)
            labels[part.split("_")[0]].append(f"{key} {row % 14}")
    for part, lines in keys.items():
        (folder / f"{part}_key_list.txt").write_text("\n".join(lines) + "\n")
    for kind, lines in labels.items():
        (folder / f"{kind}_label_kv.txt").write_text("\n".join(lines) + "\n")


def write_webvision(root: Path, num_classes: int = 5) -> None:
    """Lists, pictures of Google, validation pictures, and those of ImageNet."""
    folder = root / "webvision"
    wnids = [f"n{number:08d}" for number in range(num_classes)]
    for place in ("info", "google/q0001", "val_images_256"):
        (folder / place).mkdir(parents=True)
    (folder / "info/synsets.txt").write_text("".join(f"{wnid} thing {n}\n" for n, wnid in enumerate(wnids)))
    train, val = [], []
    for label, wnid in enumerate(wnids):
        train += [f"google/q0001/{label}-{number}.jpg {label}" for number in range(2)]
        val.append(f"val{label:06d}.jpg {label}")
        (root / "ilsvrc12/val" / wnid).mkdir(parents=True)
        places = [folder / line.split()[0] for line in train[-2:]]
        for place in (*places, folder / "val_images_256" / val[-1].split()[0], root / "ilsvrc12/val" / wnid / "a.JPEG"):
            place.write_bytes(picture(label, 64, "jpeg"))
    (folder / "info/train_filelist_google.txt").write_text("\n".join(train) + "\n")
    (folder / "info/val_filelist.txt").write_text("\n".join(val) + "\n")


@pytest.fixture(scope="session")
def cifar_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a few images of CIFAR-10 and CIFAR-100."""
    root = tmp_path_factory.mktemp("data")
    write_cifar(root, "cifar10", 60, 30)
    write_cifar(root, "cifar100", 200, 100)
    return root


@pytest.fixture(scope="session")
def whole_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a few images of all data sets of the paper."""
    root = tmp_path_factory.mktemp("all")
    write_cifar(root, "cifar10", 20, 10)
    write_cifar(root, "cifar100", 100, 10)
    write_clothing1m(root)
    write_webvision(root)
    return root


@pytest.fixture
def pretend() -> Callable[[Path, RunConfig, list[dict]], None]:
    """Write the files of a finished run that tables read: configuration, metrics and done."""

    def written(path: Path, config: RunConfig, epochs: list[dict], done: bool = True) -> None:
        path.mkdir(parents=True)
        run = RunDir(path)
        run.write_json("config.json", config.model_dump(mode="json"))
        data = {"schema": SCHEMA_VERSION, "class_names": ["a", "b"], "input_shape": [2], "fingerprint": ""}
        run.write_json("data.json", {**data, "num_train": 4, "num_validation": 0})
        (path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in epochs))
        if done:
            (path / "done").write_text("{}")

    return written
