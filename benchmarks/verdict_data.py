"""Make the data sets of benchmarks/verdicts.py: files as a user would have them, and the truth.

Each data set gets a folder of its own with the data (an .npz, .csv or .parquet file, or a folder
of photos), which hold the given labels only, and truth.json with the right label of every row.
All draws depend on the seed and on the name of the set only.
"""

import io
import json
import shutil
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import verdict_noise

NUM_PHOTOS = 1000
PHOTO_RATE = 0.187
"""Wrong labels among the photos."""
NUM_HUMAN, NUM_HUMAN_PHOTOS = 10_000, 1200
"""Images with the label that a person gave."""
NUM_NEWS_SEEN = 3500
"""News texts on which choices were made; the others are measured."""
NEWS_COLUMNS = 400
"""Columns that the TF-IDF features of news texts are reduced to."""
NUM_FILTERS = 128
"""Random patches; each makes 8 columns."""
PATCH_SIDE = 6

CLASS, INPUTS, REAL = "class", "inputs", "real"
"""Kinds of noise."""
FOLLOWED = ("digits", "emb1000", "csv12", "cancer", "wine", "embeasy")
"""Inputs that mistakes are made to follow."""
TEXTS = ("youtube", "sms", "trec", "yoruba")
"""Texts that rules and word lists labelled."""

Folders = dict[str, Path | None]
"""The folders of data from outside, by the name of their option: cifar10, news."""


@dataclass(frozen=True)
class Made:
    """What a generator wrote: the file or folder to train on, and the right labels by id."""

    source: str
    clean: dict[str, str]


Make = Callable[[np.random.Generator, Path, Folders], Made]


@dataclass(frozen=True)
class DataSet:
    """One row of the benchmark."""

    name: str
    title: str
    make: Make
    needs: str | None = None
    """The option that names the folder of outside data; None needs nothing."""
    settings: dict[str, Any] = field(default_factory=dict)
    """Settings other than the defaults."""
    noise: str = CLASS
    """What mistakes depend on: the class alone, the inputs, or people and rules as they are."""
    draws_like: str | None = None
    """The set whose random numbers this one shares, so that both have the same rows."""

    def write(self, folder: Path, seed: int, folders: Folders) -> Path:
        """Write the data of a seed, unless they are there; return what to train on."""
        place = folder / str(seed) / self.name
        truth = place / "truth.json"
        if not truth.is_file():
            shutil.rmtree(place, ignore_errors=True)
            place.mkdir(parents=True)
            made = self.make(make_rng(seed, self.draws_like or self.name), place, folders)
            truth.write_text(json.dumps({"source": made.source, "clean": made.clean}))
        return place / json.loads(truth.read_text())["source"]


def make_rng(seed: int, name: str) -> np.random.Generator:
    """Return the random numbers of a data set."""
    return np.random.default_rng([seed, zlib.crc32(name.encode())])


def read_truth(source: Path) -> dict[str, str]:
    """Return the right label of every row by its id."""
    clean: dict[str, str] = json.loads((source.parent / "truth.json").read_text())["clean"]
    return clean


@dataclass(frozen=True)
class Gaussian:
    """Classes x = c_y + N(0, I), each with one or more centres c ~ N(0, spread^2 I)."""

    sizes: tuple[int, ...]
    columns: int
    spread: float
    auroc: float
    """What 5-fold logistic regression with C = 1 reaches in the table of issue 14."""
    rate: float = 0.2
    modes: int = 1

    def draw(self, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return inputs (N, D), given labels and right labels."""
        centres = rng.normal(size=(len(self.sizes), self.modes, self.columns)) * self.spread
        clean = np.repeat(np.arange(len(self.sizes)), self.sizes)
        x = centres[clean, rng.integers(self.modes, size=len(clean))] + rng.normal(size=(len(clean), self.columns))
        return x, flip(rng, clean, self.rate), clean


GAUSSIANS = {
    "emb1000": Gaussian((100,) * 10, 384, 0.155, 0.890),
    "embeasy": Gaussian((100,) * 10, 384, 0.3, 0.990),
    "emb4000": Gaussian((400,) * 10, 384, 0.148, 0.882),
    "many200": Gaussian((5,) * 200, 384, 0.345, 0.961),
    "two600": Gaussian((300, 300), 100, 0.18, 0.830),
    "imbal": Gaussian((400, 300, 150, 44, 3), 64, 0.7, 0.994, rate=0.1),
    "csv12": Gaussian((200,) * 5, 12, 1.15, 0.927, modes=3),
}
"""`verdicts.py --check-data` shows that the spreads give these AUROCs. Three centres for each class
of csv12 because 10 nearest neighbours reach more there (.968) than logistic regression."""


def flip(rng: np.random.Generator, clean: np.ndarray, rate: float) -> np.ndarray:
    """Make an exact fraction of the labels wrong, evenly over the other classes."""
    given, classes = clean.copy(), len(np.unique(clean))
    rows = rng.choice(len(clean), round(rate * len(clean)), replace=False)
    given[rows] = (given[rows] + rng.integers(1, classes, len(rows))) % classes
    return given


def flip_to_next(rng: np.random.Generator, clean: np.ndarray, rate: float) -> np.ndarray:
    """Give an exact fraction of the labels the next class instead."""
    rows = rng.choice(len(clean), round(rate * len(clean)), replace=False)
    given = clean.copy()
    given[rows] = (given[rows] + 1) % len(np.unique(clean))
    return given


def write_arrays(place: Path, x: np.ndarray, given: np.ndarray, clean: np.ndarray) -> Made:
    """Write an .npz file; ids are row numbers."""
    np.savez(place / "data.npz", x=x, y=given)
    return Made("data.npz", {str(row): str(name) for row, name in enumerate(clean)})


def embeddings(name: str) -> Make:
    """Return what writes a Gaussian data set as an .npz in half precision."""

    def make(rng: np.random.Generator, place: Path, _: Folders) -> Made:
        x, given, clean = GAUSSIANS[name].draw(rng)
        return write_arrays(place, x.astype(np.float16), given, clean)

    return make


def make_csv(rng: np.random.Generator, place: Path, _: Folders) -> Made:
    """Write a table of numbers with a column of labels."""
    x, given, clean = GAUSSIANS["csv12"].draw(rng)
    lines = [",".join([*(f"x{column}" for column in range(x.shape[1])), "label"])]
    lines += [
        ",".join([*(f"{value:.6g}" for value in row), f"class {label}"]) for row, label in zip(x, given, strict=True)
    ]
    (place / "data.csv").write_text("\n".join(lines) + "\n")
    return Made("data.csv", {str(row): f"class {label}" for row, label in enumerate(clean)})


def small(loader: str) -> Make:
    """Return what writes a data set of scikit-learn, a fifth of its labels wrong."""

    def make(rng: np.random.Generator, place: Path, _: Folders) -> Made:
        from sklearn import datasets

        x, clean = getattr(datasets, loader)(return_X_y=True)
        return write_arrays(place, x.astype(np.float32), flip(rng, clean, 0.2), clean)

    return make


def digits(corrupt: Callable[[np.random.Generator, np.ndarray], np.ndarray]) -> Make:
    """Return what writes the 1,797 digits of 8 x 8 pixels with these labels."""

    def make(rng: np.random.Generator, place: Path, _: Folders) -> Made:
        from sklearn.datasets import load_digits

        found = load_digits()
        x = (found.images[:, None] / 16).astype(np.float32)
        return write_arrays(place, x, corrupt(rng, found.target), found.target)

    return make


def tripled(rng: np.random.Generator, place: Path, _: Folders) -> Made:
    """Write 500 digits three times each, with a little jitter and one label, and their groups."""
    from sklearn.datasets import load_digits

    found = load_digits()
    rows = rng.choice(len(found.target), 500, replace=False)
    x, clean = found.data[rows] / 16, found.target[rows]
    return write_copies(place, x, flip(rng, clean, 0.2), clean, rng, has_groups=True)


def copies(rng: np.random.Generator, place: Path, _: Folders) -> Made:
    """Write embeddings three times each, with a little jitter and one label, without groups."""
    return write_copies(place, *GAUSSIANS["embeasy"].draw(rng), rng)


def write_copies(
    place: Path, x: np.ndarray, given: np.ndarray, clean: np.ndarray, rng: np.random.Generator, has_groups: bool = False
) -> Made:
    """Write each row three times with one label; the jitter is a hundredth of the spread."""
    x, given, clean = (np.repeat(values, 3, axis=0) for values in (x, given, clean))
    x = (x + 0.01 * x.std() * rng.normal(size=x.shape)).astype(np.float32)
    groups = {"group": np.repeat(np.arange(len(x) // 3), 3)} if has_groups else {}
    np.savez(place / "data.npz", x=x, y=given, **groups)
    return Made("data.npz", {str(row): str(name) for row, name in enumerate(clean)})


def draw_photos(rng: np.random.Generator, folders: Folders) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return photos (N, 32, 32, 3) of CIFAR-10 with given and right class names."""
    table, names = read_cifar10(folders)
    table = table.take(rng.choice(len(table), NUM_PHOTOS, replace=False))
    clean = table["label"].to_numpy()
    return decode(table), names[flip(rng, clean, PHOTO_RATE)], names[clean]


def read_cifar10(folders: Folders) -> tuple[Any, np.ndarray]:
    """Return the table of training images and the class names."""
    import pyarrow.parquet as pq

    assert folders["cifar10"] is not None
    table = pq.read_table(folders["cifar10"] / "train.parquet")
    features = json.loads(table.schema.metadata[b"huggingface"])["info"]["features"]
    return table, np.array(features["label"]["names"])


def decode(table: Any) -> np.ndarray:
    """Return the images (N, H, W, 3) of a column of encoded ones."""
    from PIL import Image

    return np.stack(
        [np.asarray(Image.open(io.BytesIO(row["bytes"])).convert("RGB")) for row in table["img"].to_pylist()]
    )


def make_photo_folder(rng: np.random.Generator, place: Path, folders: Folders) -> Made:
    """Write photos with wrong labels of a class of their own."""
    return write_photos(place, *draw_photos(rng, folders))


def make_human_photos(rng: np.random.Generator, place: Path, folders: Folders) -> Made:
    """Write photos with the labels that people gave them."""
    table, given, clean = draw_human(rng, folders, NUM_HUMAN_PHOTOS)
    return write_photos(place, decode(table), given, clean)


def write_photos(place: Path, images: np.ndarray, given: np.ndarray, clean: np.ndarray) -> Made:
    """Write a PNG file for each photo into the sub-folder of its given class."""
    from PIL import Image

    truth = {}
    for row, (image, label) in enumerate(zip(images, given, strict=True)):
        file = place / "photos" / label / f"{row:04}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(file)
        truth[f"{label}/{file.name}"] = str(clean[row])
    return Made("photos", truth)


def make_hog(rng: np.random.Generator, place: Path, folders: Folders) -> Made:
    """Write the HOG features of the same photos with the same labels."""
    images, given, clean = draw_photos(rng, folders)
    return write_arrays(place, hog_features(images), given, clean)


def hog_features(images: np.ndarray) -> np.ndarray:
    """Return gradient histograms and mean colours of (N, H, W, 3) images: 624 for 32 x 32 pixels.

    9 orientations in cells of 4 x 4 pixels, and the colours of a 4 x 4 grid. Logistic regression
    reaches the AUROC on them that issue 14 has for its 1,000 x 624 (.743 and .744).
    """
    from skimage.feature import hog

    cells = np.stack([hog(image, 9, (4, 4), (1, 1), channel_axis=-1) for image in images])
    num, height, width, channels = images.shape
    blocks = images.reshape(num, 4, height // 4, 4, width // 4, channels)
    colours = blocks.mean((2, 4)).reshape(num, -1) / 255
    return np.concatenate([cells, colours], 1).astype(np.float32)


def patch_features(images: np.ndarray) -> np.ndarray:
    """Return random-patch features of (N, H, W, 3) images: 1,024 columns."""
    import torch

    from surelabel.models.patches import draw_filters

    x = torch.from_numpy(np.ascontiguousarray(images.transpose(0, 3, 1, 2)))
    filters = draw_filters(x[:5000], NUM_FILTERS, PATCH_SIDE, seed=0)
    return filters.features(x).numpy()


def draw_human(
    rng: np.random.Generator, folders: Folders, count: int = NUM_HUMAN
) -> tuple[Any, np.ndarray, np.ndarray]:
    """Return a table of CIFAR-10 images, the labels that people gave them, and the right ones."""
    table, names = read_cifar10(folders)
    table = table.take(np.sort(rng.choice(len(table), min(count, len(table)), replace=False)))
    return table, names[table["human_label"].to_numpy()], names[table["label"].to_numpy()]


def make_human(rng: np.random.Generator, place: Path, folders: Folders) -> Made:
    """Write a table of images with the labels that people gave them."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table, given, clean = draw_human(rng, folders)
    pq.write_table(pa.table({"img": table["img"], "label": given}), place / "data.parquet")
    return Made("data.parquet", {str(row): str(name) for row, name in enumerate(clean)})


def make_human_patches(rng: np.random.Generator, place: Path, folders: Folders) -> Made:
    """Write the random-patch features of the same images with the same labels."""
    table, given, clean = draw_human(rng, folders)
    return write_arrays(place, patch_features(decode(table)), given, clean)


def make_news(_: np.random.Generator, place: Path, folders: Folders) -> Made:
    """Write TF-IDF features of news with the labels that people gave them.

    Until text is a source: unigrams, sublinear, in at least two texts, reduced by truncated SVD.
    """
    import pandas as pd
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import TfidfVectorizer

    assert folders["news"] is not None
    frame = pd.read_csv(folders["news"] / "train.csv")
    words = TfidfVectorizer(sublinear_tf=True, min_df=2).fit_transform(frame["text"])
    x = TruncatedSVD(min(NEWS_COLUMNS, words.shape[1] - 1), random_state=0).fit_transform(words)
    given, clean = (frame[name].to_numpy(str) for name in ("label", "clean_label"))
    return write_arrays(place, x.astype(np.float32), given, clean)


def following(inputs: str, kind: Callable[..., np.ndarray], rate: float) -> Make:
    """Return what writes inputs with mistakes that follow them."""

    def make(rng: np.random.Generator, place: Path, _: Folders) -> Made:
        from sklearn import datasets

        if inputs in GAUSSIANS:
            x, _, clean = GAUSSIANS[inputs].draw(rng)
        else:
            x, clean = getattr(datasets, LOADERS[inputs])(return_X_y=True)
        return write_arrays(place, x.astype(np.float32), kind(rng, x, clean, rate), clean)

    return make


LOADERS = {"digits": "load_digits", "cancer": "load_breast_cancer", "wine": "load_wine"}


def texts(name: str) -> Make:
    """Return what writes texts with labels by rules, without the right labels."""

    def make(_: np.random.Generator, place: Path, folders: Folders) -> Made:
        assert folders["texts"] is not None
        return write_texts(place, folders["texts"] / f"{name}.csv")

    return make


def make_sentiment(rng: np.random.Generator, place: Path, folders: Folders) -> Made:
    """Write film reviews with the answer of one of the people who judged each."""
    import pandas as pd

    assert folders["texts"] is not None
    answers = pd.read_csv(folders["texts"] / "sentiment_answers.csv")
    one = answers.iloc[rng.permutation(len(answers))].groupby("id").label.first()
    file = place / "all.csv"
    pd.read_csv(folders["texts"] / "sentiment.csv").merge(one.reset_index(), on="id").to_csv(file, index=False)
    return write_texts(place, file)


def make_news_text(_: np.random.Generator, place: Path, folders: Folders) -> Made:
    """Write news as texts, with the labels that people gave them."""
    assert folders["news"] is not None
    return write_texts(place, folders["news"] / "train.csv", NUM_NEWS_SEEN)


def write_texts(place: Path, file: Path, first: int = 0) -> Made:
    """Write the texts and given labels of a file, from a row on."""
    import pandas as pd

    frame = pd.read_csv(file)[first:]
    frame[["id", "text", "label"]].to_csv(place / "data.csv", index=False)
    return Made("data.csv", dict(zip(frame["id"].astype(str), frame["clean_label"].astype(str), strict=True)))


def _random_labels(rng: np.random.Generator, clean: np.ndarray) -> np.ndarray:
    return rng.integers(0, len(np.unique(clean)), len(clean))


DATA_SETS = (
    DataSet("iris", "iris, 150 x 4", small("load_iris")),
    DataSet("wine", "wine, 178 x 13", small("load_wine")),
    DataSet("cancer", "breast cancer, 569 x 30", small("load_breast_cancer")),
    DataSet("two600", "two Gaussian classes, 600 x 100", embeddings("two600")),
    DataSet("imbal", "Gaussian classes of 400, 300, 150, 44 and 3 rows, 64 columns", embeddings("imbal")),
    DataSet("csv12", "a .csv of 5 classes with 3 Gaussian centres each, 1,000 x 12", make_csv),
    DataSet("emb1000", "Gaussian embeddings, 1,000 x 384", embeddings("emb1000")),
    DataSet("embeasy", "easier embeddings, 1,000 x 384", embeddings("embeasy")),
    DataSet("many200", "200 Gaussian classes of 5 rows, 384 columns", embeddings("many200")),
    DataSet("digits", "scikit-learn's digits, 1,797 of 8 x 8 pixels", digits(lambda rng, y: flip(rng, y, 0.2))),
    DataSet("digits40", "the same, 40 % wrong", digits(lambda rng, y: flip(rng, y, 0.4))),
    DataSet("digits60", "the same, 60 % wrong", digits(lambda rng, y: flip(rng, y, 0.6))),
    DataSet("digitspair", "the same, 30 % have the next class", digits(lambda rng, y: flip_to_next(rng, y, 0.3))),
    DataSet("digitsclean", "the same, none wrong", digits(lambda _, y: y)),
    DataSet("digitsrandom", "the same, random labels", digits(_random_labels)),
    DataSet("tripled", "500 digits three times each with the same label, with a column of groups", tripled),
    DataSet("copies", "the easier embeddings three times each with the same label, 3,000 x 384", copies),
    *(
        DataSet(
            f"{inputs}-{kind.__name__}{100 * rate:.0f}",
            f"{inputs}, about {100 * rate:.0f} % wrong: {(kind.__doc__ or '').splitlines()[0]}",
            following(inputs, kind, rate),
            noise=INPUTS,
        )
        for inputs in FOLLOWED
        for kind in verdict_noise.KINDS
        for rate in (0.2, 0.4)
    ),
    *(DataSet(name, f"texts of real_noise, {name}", texts(name), "texts", noise=REAL) for name in TEXTS),
    DataSet("sentiment", "film reviews with one person's label each, 4,999", make_sentiment, "texts", noise=REAL),
    DataSet("newstext", "news with human labels as texts, the last 3,500 of 7,000", make_news_text, "news", noise=REAL),
    DataSet("hog", "HOG features of the photos, 1,000 x 624", make_hog, "cifar10", draws_like="photos"),
    DataSet("emb4000", "Gaussian embeddings, 4,000 x 384", embeddings("emb4000")),
    DataSet("news", "news with human labels, TF-IDF, 7,000 x 400", make_news, "news", noise=REAL),
    DataSet("photos", "a folder of 1,000 CIFAR-10 photos", make_photo_folder, "cifar10"),
    DataSet(
        "humanphotos", "a folder of 1,200 CIFAR-10 photos with human labels", make_human_photos, "cifar10", noise=REAL
    ),
    DataSet(
        "humanpatches",
        "random patches of 10,000 CIFAR-10 images with human labels",
        make_human_patches,
        "cifar10",
        noise=REAL,
        draws_like="human",
    ),
    DataSet(
        "human",
        "10,000 CIFAR-10 images with human labels, 40 epochs",
        make_human,
        "cifar10",
        {"train.epochs": 40},
        noise=REAL,
    ),
)
"""Short ones first."""
