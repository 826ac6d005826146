"""Tiny data sets in their published layouts."""

import io
import json
import pickle
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from PIL import Image

from surelabel.config import DataConfig
from surelabel.data import load_corpus
from surelabel.data.benchmarks.cifar import CIFAR10_CLASSES, CIFAR100_CLASSES, CIFAR100_SUPERCLASSES
from surelabel.data.corpus import Corpus


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep decoded images apart from the user's cache."""
    monkeypatch.setenv("SURELABEL_CACHE", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture
def load() -> Callable[..., Corpus]:
    """Load a named data set from a folder; keyword arguments are fields of the configuration."""

    def load_set(name: str, root: Path, options: dict | None = None, **fields: object) -> Corpus:
        return load_corpus(DataConfig(source=name, root=str(root), options=options or {}, **fields))

    return load_set


class CifarWriter:
    """Writes a few images of CIFAR in any layout; image i of a part is grey with value i."""

    def __init__(self, classes: tuple[str, ...], num_train: int = 10, num_test: int = 4) -> None:
        self.is_ten, self.classes = len(classes) == 10, classes
        spread = len(classes) // 10
        self.labels = {
            "train": [spread * (7 * row % 10) for row in range(num_train)],
            "test": [spread * row for row in range(num_test)],
        }
        self.coarse = {part: [label % 20 for label in labels] for part, labels in self.labels.items()}

    def batches(self, folder: Path) -> Path:
        """Write the original Python batches."""
        folder.mkdir(parents=True)
        for name, (part, rows) in self._batch_rows().items():
            (folder / name).write_bytes(pickle.dumps(self._batch(part, rows), 2))
        return folder

    def archive(self, path: Path) -> Path:
        """Write the archive of the batches."""
        folder = self.batches(path.parent / "unpacked")
        with tarfile.open(path, "w:gz") as archive:
            archive.add(folder, "cifar-10-batches-py" if self.is_ten else "cifar-100-python")
        shutil.rmtree(folder)
        return path

    def parquet(self, folder: Path, num_shards: int = 0, names: bool = True, **columns: list[int]) -> Path:
        """Write the files of the Hugging Face hub; without shards there is one file per part.

        `columns` are added to train, and `names` tells whether the schema states class names.
        """
        folder.mkdir(parents=True, exist_ok=True)
        for part, labels in self.labels.items():
            own = {"label": labels} if self.is_ten else {"fine_label": labels, "coarse_label": self.coarse[part]}
            table = self._table(own | (columns if part == "train" else {}), names)
            size = -(-len(labels) // (num_shards or 1))
            for shard in range(num_shards or 1):
                suffix = f"-{shard:05d}-of-{num_shards:05d}" if num_shards else ""
                pyarrow.parquet.write_table(table.slice(shard * size, size), folder / f"{part}{suffix}.parquet")
        return folder

    def pictures(self, root: Path) -> Path:
        """Write class folders of PNGs."""
        for part, labels in self.labels.items():
            for row, label in enumerate(labels):
                path = root / part / self.classes[label] / f"{row:04d}.png"
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(self._png(row))
        return root

    def _batch_rows(self) -> dict[str, tuple[str, range]]:
        num_train, num_test = map(len, self.labels.values())
        if not self.is_ten:
            return {"train": ("train", range(num_train)), "test": ("test", range(num_test))}
        size = num_train // 5
        train = {f"data_batch_{n + 1}": ("train", range(size * n, size * (n + 1))) for n in range(5)}
        return {**train, "test_batch": ("test", range(num_test))}

    def _batch(self, part: str, rows: range) -> dict[bytes, object]:
        data = np.repeat(np.array(rows, dtype=np.uint8)[:, None], 3072, axis=1)
        labels = [self.labels[part][row] for row in rows]
        keys = {b"labels": labels} if self.is_ten else {b"fine_labels": labels, b"coarse_labels": self.coarse[part]}
        return {b"batch_label": b"some", b"data": data, b"filenames": [b"x.png"] * len(rows), **keys}

    def _table(self, columns: dict[str, list[int]], names: bool) -> pyarrow.Table:
        num_rows = len(next(iter(columns.values())))
        cells = [{"bytes": self._png(row), "path": None} for row in range(num_rows)]
        table = pyarrow.table({"img": cells, **columns})
        features = {name: {"_type": "ClassLabel", "names": list(self._names(name))} for name in columns}
        metadata = json.dumps({"info": {"features": {"img": {"_type": "Image"}, **features}}})
        return table.replace_schema_metadata({"huggingface": metadata}) if names else table

    def _names(self, column: str) -> tuple[str, ...]:
        return CIFAR100_SUPERCLASSES if column == "coarse_label" else self.classes

    def _png(self, value: int) -> bytes:
        buffer = io.BytesIO()
        Image.new("RGB", (32, 32), (value,) * 3).save(buffer, "png")
        return buffer.getvalue()


@pytest.fixture
def cifar10() -> CifarWriter:
    """Write ten training images of CIFAR-10, one of each class, and four test images."""
    return CifarWriter(CIFAR10_CLASSES)


@pytest.fixture
def cifar100() -> CifarWriter:
    """Write ten training and four test images of CIFAR-100."""
    return CifarWriter(CIFAR100_CLASSES)
