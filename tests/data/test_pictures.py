"""Pictures as they are stored stay beside their rows, whatever is done with these."""

import io
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

import surelabel
from surelabel.config import DataConfig
from surelabel.data import load_corpus
from surelabel.training import pretrained


@dataclass
class Means:
    """Gives the mean of each colour."""

    cache_key: Any = None
    num_features: int = 3

    def encode(self, content):
        rows = content.pixels(np.arange(len(content)), 8)
        return rows.float().mean((2, 3)).numpy()


def colour(number):
    return (10 * number, 200 - 10 * number, 5 * number)


def encoded(number, end="png"):
    """Return the bytes of a picture whose colour is its number, and whose size differs."""
    file = io.BytesIO()
    Image.new("RGB", (20 + number, 30), colour(number)).save(file, end)
    return file.getvalue()


def write_folder(folder):
    """Write files, of which number 3 is no picture."""
    for number in range(16):
        (folder / "ab"[number % 2]).mkdir(parents=True, exist_ok=True)
        content = b"no picture" if number == 3 else encoded(number)
        (folder / "ab"[number % 2] / f"{number}.png").write_bytes(content)
    return folder


def write_parquet(folder):
    folder.mkdir()
    content = [b"no picture" if number == 3 else encoded(number) for number in range(16)]
    columns = {"image": content, "label": list("ab") * 8, "id": [str(number) for number in range(16)]}
    pq.write_table(pa.table(columns), folder / "x.parquet")
    return folder / "x.parquet"


@pytest.mark.parametrize("decode", ["once", "stream"])
@pytest.mark.parametrize("write", [write_folder, write_parquet])
def test_features_belong_to_their_rows(tmp_path, write, decode):
    """Also where an unreadable one was left out, and rows were split and drawn."""
    config = DataConfig(
        source=str(write(tmp_path / "source")),
        unreadable="skip",
        validation_fraction=0.2,
        test_fraction=0.2,
        decode=decode,
        workers=0,
    )
    corpus = load_corpus(config)
    found = pretrained.compute(corpus, Means(), list(corpus.parts), lambda _: None)
    parts = [*found.parts.values(), found.train.subset(np.array([4, 0, 2]))]
    assert sum(len(rows) for rows in found.parts.values()) == 15
    for rows in parts:
        numbers = [int(row.rpartition("/")[2].removesuffix(".png")) for row in rows.ids]
        np.testing.assert_allclose(rows.features.numpy(), [colour(number) for number in numbers], atol=1)


def test_grey_images_are_trained_on_and_predicted(tmp_path):
    """A whole run on grey images, by the real network."""
    rng = np.random.default_rng(0)
    y = np.arange(40) % 2
    x = rng.integers(0, 100, (40, 1, 24, 24)) + 120 * y[:, None, None, None]
    settings = {"model.features": "efficientnet_lite0", "model.feature_size": 32, "train.epochs": 30}
    run = surelabel.fit((x.astype(np.uint8), y), tmp_path / "run", settings={**settings, "train.threads": 1})
    assert (surelabel.load(run).predict_proba(x.astype(np.uint8)).argmax(1) == y).mean() > 0.9
