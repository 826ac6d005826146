"""Small trained runs whose class names and ids contain HTML, and a large made-up run."""

import json
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
import torch

from surelabel import api
from surelabel.data.corpus import Corpus, Examples
from surelabel.reporting import write_report
from surelabel.runs.run_dir import OPINION_FILE, SCHEMA_VERSION, RunDir
from surelabel.training import build
from surelabel.verdicts import audit

NAMES = ("<img src=http://evil.example/x onerror=alert(1)>", 'dog & "$cat$"', "z\u00e8bre \u6f22\u202e\x07")


def write_images(path: Path, num_samples: int = 60, side: int = 8) -> Path:
    """Write grey images in three classes: bright left half, bright right half, bright all over."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, num_samples)
    x = rng.integers(0, 60, (num_samples, side, side, 1)).astype(np.uint8)
    half = side // 2
    for row, label in enumerate(y):
        x[row, :, {0: slice(0, half), 1: slice(half, side), 2: slice(0, side)}[int(label)]] += 150
    ids = np.array([f"</td><script>alert({number})</script>" for number in range(num_samples)])
    np.savez(path, x=x, y=np.array(NAMES)[y], ids=ids)
    return path


def settings(source: Path, **noise: object) -> dict:
    return {
        "data": {"source": str(source)},
        "model": {"name": "mlp", "options": {"widths": [16], "norm": "none"}},
        "train": {"epochs": 6, "batch_size": 16, "threads": 1, "device": "cpu"},
        **({"noise": noise} if noise else {}),
    }


@pytest.fixture(scope="session")
def trained(tmp_path_factory, make_blobs) -> dict[str, RunDir]:
    """Train two runs that differ in what the report can show.

    `images` has known noise and no test set; `features` has a test set and held-out rows, but
    neither tau nor clean labels.
    """
    folder = tmp_path_factory.mktemp("trained")
    images, blobs = write_images(folder / "images.npz"), make_blobs(folder / "blobs.npz")
    changes = {"data.validation_fraction": 0.2, "method": "cross_entropy"}
    return {
        "images": api.fit(settings(images, kind="symmetric", rate=0.3), folder / "images"),
        "features": api.fit(settings(blobs), folder / "features", settings=changes),
    }


def corpus_of(run: RunDir) -> Corpus:
    config = run.config()
    return build.corpus(config.data, config.noise, config.train.seed)[0]


class Page(HTMLParser):
    """A parsed page: elements with their attributes, and the text outside style and script."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.file = file
        self.source, self.elements, self.words, self.inside = file.read_text(encoding="utf-8"), [], [], []
        self.feed(self.source)

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        self.inside.append(tag)

    def handle_endtag(self, tag):
        while self.inside and self.inside.pop() != tag:
            pass

    def handle_data(self, text):
        if not {"style", "script"} & set(self.inside):
            self.words.append(text)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).replace("\u00a0", " ").split())

    def all(self, tag: str) -> list[dict]:
        return [attributes for name, attributes in self.elements if name == tag]


@pytest.fixture(scope="session")
def report(trained, tmp_path_factory):
    """Return a function that reports on runs by name; `lost` are those whose data are gone."""

    def write(*names: str, lost: tuple[str, ...] = (), **options: object) -> Page:
        runs = [trained[name] for name in names]
        corpora = [None if name in lost else corpus_of(trained[name]) for name in names]
        out = tmp_path_factory.mktemp("report") / "report.html"
        assert write_report(runs, corpora, [audit(run) for run in runs], out, **options) == out
        return Page(out)

    write.audited = lambda name: audit(trained[name])
    return write


@pytest.fixture(scope="session")
def images(report):
    """Report on the images once, for all tests that only read the page."""
    return report("images")


def made_run(path: Path, template: RunDir, num_samples: int, num_classes: int) -> RunDir:
    """Write a finished run with random verdicts, of which a tenth are low."""
    rng, names = np.random.default_rng(0), [f"class {number}" for number in range(num_classes)]
    run = RunDir(path)
    path.mkdir()
    for name in ("config.json", "env.json", "metrics.jsonl"):
        (path / name).write_bytes((template.path / name).read_bytes())
    ids = np.array([f"images/train/{number:06d}.jpg" for number in range(num_samples)])
    given, suggested = rng.integers(0, num_classes, (2, num_samples))
    quality = np.where(rng.random(num_samples) < 0.1, 0.1, 0.9) + 0.1 * rng.random(num_samples)
    suggested = np.where(quality < 0.5, suggested, given)
    one_hot = np.eye(num_classes, dtype=np.float32)[suggested]
    share = quality.astype(np.float32)
    zero = np.zeros(num_samples, dtype=np.int32)
    run.write_table("labels.parquet", {"id": ids, "given": given, "clean": suggested, "split": ["train"] * num_samples})
    columns = {"id": ids, "split": ["train"] * num_samples, "verdict": ["training"] * num_samples, "given": given}
    columns |= {"row": np.arange(num_samples), "prediction": suggested, "quality": share}
    columns |= {"suggested": suggested, "suggested_probability": share}
    columns |= {"given_probability": share, "mean_given_probability": share, "mean_margin": share, "tau": share}
    columns |= {"first_learned": zero, "forgotten": zero, "target": one_hot, "probability": one_hot}
    columns |= {"p_wrong": 1 - share, "p_wrong_low": 0 * share, "p_wrong_high": 1 + 0 * share}
    run.write_table("samples.parquet", columns)
    run.write_json(OPINION_FILE, {})
    data = {"schema": SCHEMA_VERSION, "class_names": names, "input_shape": [3, 224, 224], "num_train": num_samples}
    run.write_json("data.json", data | {"num_validation": 0, "tests": {}, "fingerprint": ""})
    run.write_json("done", {"epochs": 6, "last": json.loads((path / "metrics.jsonl").read_text().splitlines()[-1])})
    return run


def noise_corpus(run: RunDir, side: int) -> Corpus:
    """Make images of pure noise, which compresses worst; all are the same one, to save memory."""
    labels = run.labels()
    image = torch.randint(0, 256, (1, 3, side, side), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    given = torch.from_numpy(labels["given"].to_numpy().copy())
    rows = Examples(image.expand(len(given), -1, -1, -1), given, np.array(labels["id"].to_pylist()))
    return Corpus(rows, tuple(run.data()["class_names"]))


@pytest.fixture
def large(trained, tmp_path):
    """Return a function that reports on a made-up run with images of the given side."""

    def write(num_samples: int, num_classes: int, side: int) -> tuple[Path, Page]:
        run = made_run(tmp_path / "large", trained["images"], num_samples, num_classes)
        out = write_report([run], [noise_corpus(run, side)], [audit(run)], tmp_path / "report.html")
        return out, Page(out)

    return write
