"""The tasks of benchmarks/adaptive.py: data with wrong labels, and how a network trains on them.

Each task is one file or data set by name, the noise, the network and the protocol; only method and
seed vary. Test labels are right. Where people gave the labels, their errors are the same for all
seeds; otherwise the noise is drawn with the seed of the run.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from verdict_data import Folders, decode

SMALL = {"train": {"epochs": 100, "batch_size": 64}, "optimiser": {"rate": 0.05, "weight_decay": 5e-4}}
"""Of digits and small tables: SGD with a cosine, as in benchmarks/leaderboard.py."""
CYCLE = {"optimiser": {"rate": 0.1, "weight_decay": 5e-4, "schedule": {"kind": "one_cycle"}}}
TINY = {"train": {"epochs": 40, "batch_size": 128}, **CYCLE}
"""The protocol of `surelabel reproduce --scale tiny`."""
SHORT = {"train": {"epochs": 15, "batch_size": 128}, **CYCLE}
"""Too short for cross entropy to memorise much."""
MLP = {"name": "mlp", "options": {"widths": [256, 256]}}
NUM_FEATURES, NUM_IMAGES, NUM_TEST = 10_000, 6_000, 5_000
NUM_FILTERS, PATCH_SIDE = 200, 6
NEWS_COLUMNS = 400
TEST_FRACTION = 0.2

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Task:
    """One column of the table."""

    name: str
    settings: dict[str, Any]
    noise: dict[str, Any] | None
    source: str = "digits"
    """A data set by name, or the key of MAKERS that makes the file."""
    needs: str | None = None
    """The option that names the folder of outside data; None needs nothing."""
    is_costly: bool = False
    """Whether a run takes minutes: trained for few methods, and left out of the ranks."""

    def config(self, folder: Path, folders: Folders) -> dict[str, Any]:
        """Return the settings of a run, and make its data if they are missing."""
        source = self.source
        if source in MAKERS:
            path = folder / "data" / f"{source}.npz"
            if not path.is_file():
                path.parent.mkdir(parents=True, exist_ok=True)
                arrays = MAKERS[source](folders)
                partial = path.with_suffix(".partial.npz")
                np.savez(partial, **arrays)
                partial.rename(path)
            source = str(path.resolve())
        made = {"data": {"source": source}, **self.settings}
        return made if self.noise is None else {**made, "noise": self.noise}


def symmetric(rate: float) -> dict[str, Any]:
    """Return noise that is even over the other classes."""
    return {"kind": "symmetric", "rate": rate}


def read_images(folders: Folders, option: str, column: str, counts: tuple[int, int]) -> tuple[Arrays, np.ndarray]:
    """Return the first images of a CIFAR with their classes, and the labels that people gave."""
    import pyarrow.parquet as pq

    folder = folders[option]
    assert folder is not None
    train, test = (
        pq.read_table(folder / f"{part}.parquet").slice(0, count)
        for part, count in zip(("train", "test"), counts, strict=True)
    )
    features = json.loads(train.schema.metadata[b"huggingface"])["info"]["features"]
    arrays = {
        "x": decode(train),
        "y": train[column].to_numpy(),
        "x_test": decode(test),
        "y_test": test[column].to_numpy(),
        "class_names": np.array(features[column]["names"]),
    }
    given = train["human_label"] if "human_label" in train.column_names else train[column]
    return arrays, given.to_numpy()


def images(folders: Folders) -> Arrays:
    """Return images of CIFAR-10 with right labels."""
    return read_images(folders, "cifar10", "label", (NUM_IMAGES, NUM_TEST))[0]


def human_images(folders: Folders) -> Arrays:
    """Return the same images with the labels that people gave."""
    arrays, given = read_images(folders, "cifar10", "label", (NUM_IMAGES, NUM_TEST))
    return {**arrays, "y": given, "clean": arrays["y"]}


def to_patches(arrays: Arrays) -> Arrays:
    """Replace images by random-patch features of them."""
    import torch

    from surelabel.models.patches import draw_filters

    x, x_test = (torch.from_numpy(arrays[name].transpose(0, 3, 1, 2).copy()) for name in ("x", "x_test"))
    filters = draw_filters(x, NUM_FILTERS, PATCH_SIDE, seed=0)
    return {**arrays, "x": filters.features(x).numpy(), "x_test": filters.features(x_test).numpy()}


def features(folders: Folders) -> Arrays:
    """Return features of CIFAR-10 with right labels."""
    return to_patches(read_images(folders, "cifar10", "label", (NUM_FEATURES, NUM_TEST))[0])


def human_features(folders: Folders) -> Arrays:
    """Return the same features with the labels that people gave."""
    arrays, given = read_images(folders, "cifar10", "label", (NUM_FEATURES, NUM_TEST))
    return to_patches({**arrays, "y": given, "clean": arrays["y"]})


def features100(folders: Folders) -> Arrays:
    """Return features of all images of CIFAR-100 with right labels."""
    return to_patches(read_images(folders, "cifar100", "fine_label", (50_000, 10_000))[0])


def table(loader: str) -> Callable[[Folders], Arrays]:
    """Return what reads a data set of scikit-learn and holds a fifth of it out as a test set."""

    def make(_: Folders) -> Arrays:
        from sklearn import datasets, model_selection

        x, y = getattr(datasets, loader)(return_X_y=True)
        parts = model_selection.train_test_split(
            x.astype(np.float32), y, test_size=TEST_FRACTION, random_state=0, stratify=y
        )
        return dict(zip(("x", "x_test", "y", "y_test"), parts, strict=True))

    return make


def news(folders: Folders) -> Arrays:
    """Return TF-IDF features of news, reduced by a truncated SVD; people gave the labels."""
    import pandas as pd
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import TfidfVectorizer

    folder = folders["news"]
    assert folder is not None
    train, test = (pd.read_csv(folder / f"{part}.csv") for part in ("train", "test"))
    words = TfidfVectorizer(sublinear_tf=True, min_df=2).fit(train["text"])
    reduced = TruncatedSVD(NEWS_COLUMNS, random_state=0).fit(words.transform(train["text"]))
    x, x_test = (reduced.transform(words.transform(part["text"])).astype(np.float32) for part in (train, test))
    labels = {"y": train["label"], "clean": train["clean_label"], "y_test": test["clean_label"]}
    return {"x": x, "x_test": x_test, **{name: column.to_numpy(str) for name, column in labels.items()}}


MAKERS: dict[str, Callable[[Folders], Arrays]] = {
    "wine": table("load_wine"),
    "cancer": table("load_breast_cancer"),
    "features": features,
    "human_features": human_features,
    "features100": features100,
    "images": images,
    "human_images": human_images,
    "news": news,
}

_DIGITS, _TABLE = {"model": MLP, **SMALL}, {"model": MLP, **SMALL}
_TINY = {"model": {"name": "mlp", "options": {"widths": [256]}, "features": "none"}, **TINY}
_SHORT = {"model": {"name": "fast_cnn", "features": "none"}, **SHORT}

TASKS = (
    Task("digits20", _DIGITS, symmetric(0.2)),
    Task("digits40", _DIGITS, symmetric(0.4)),
    Task("digits60", _DIGITS, symmetric(0.6)),
    Task("pair30", _DIGITS, {"kind": "pair", "rate": 0.3}),
    Task("cancer20", _TABLE, symmetric(0.2), "cancer"),
    Task("wine20", _TABLE, symmetric(0.2), "wine"),
    Task("tiny40", _TINY, symmetric(0.4), "features", "cifar10"),
    Task("tinyasym40", _TINY, {"kind": "asymmetric", "rate": 0.4}, "features", "cifar10"),
    Task("tinyhuman", _TINY, None, "human_features", "cifar10"),
    Task("news", _TINY, None, "news", "news"),
    Task("cifar100", _TINY, symmetric(0.4), "features100", "cifar100", is_costly=True),
    Task("short40", _SHORT, symmetric(0.4), "images", "cifar10", is_costly=True),
    Task("shorthuman", _SHORT, None, "human_images", "cifar10", is_costly=True),
)
