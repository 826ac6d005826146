"""Small runs to review, whose class names and ids contain HTML."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tests.reviewing.browsing import opened, opened_quietly, process_server, read_only_server, server  # noqa: F401

from surelabel import api
from surelabel.reviewing.access import KEY_HEADER, Access
from surelabel.reviewing.server import make_app, make_review
from surelabel.runs.run_dir import RunDir
from surelabel.training import build

NAMES = ("<img src=x onerror=alert(1)>", 'dog & "cat"', "zebra")
PORT = 8123
HOST = f"127.0.0.1:{PORT}"


def write_images(path: Path, num_samples: int = 60) -> Path:
    """Write 8 x 8 grey images: bright left half, bright right half, or bright all over."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, num_samples)
    x = rng.integers(0, 60, (num_samples, 8, 8, 1)).astype(np.uint8)
    for row, label in enumerate(y):
        x[row, :, {0: slice(0, 4), 1: slice(4, 8), 2: slice(0, 8)}[int(label)]] += 150
    ids = np.array([f"<b>{number}</b>/../{number}.png" for number in range(num_samples)])
    np.savez(path, x=x, y=np.array(NAMES)[y], ids=ids)
    return path


def write_photos(folder: Path, num_samples: int = 24) -> Path:
    """Write JPEG files of 400 x 300 pixels: bright left half or bright right half."""
    rng = np.random.default_rng(0)
    for number in range(num_samples):
        pixels = rng.integers(0, 60, (300, 400, 3)).astype(np.uint8)
        pixels[:, slice(0, 200) if number % 2 else slice(200, 400)] += 150
        path = folder / ("left" if number % 2 else "right") / f"{number}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(path)
    return folder


def settings(source: Path) -> dict:
    return {
        "data": {"source": str(source)},
        "noise": {"kind": "symmetric", "rate": 0.3},
        "model": {"name": "mlp", "options": {"widths": [16], "norm": "none"}},
        "train": {"epochs": 6, "batch_size": 16, "threads": 1, "device": "cpu"},
    }


@pytest.fixture(scope="session")
def trained(tmp_path_factory, make_blobs) -> dict[str, RunDir]:
    """Train a run on images, one on features, of which some are held out, and one on photos."""
    folder = tmp_path_factory.mktemp("trained")
    sources = {
        "images": write_images(folder / "images.npz"),
        "features": make_blobs(folder / "features.npz"),
        "photos": write_photos(folder / "photos_data"),
    }
    few = {"data.image_size": 16, "train.epochs": 2}
    changes = {"images": {}, "features": {"data.validation_fraction": 0.2}, "photos": few}
    return {name: api.fit(settings(source), folder / name, settings=changes[name]) for name, source in sources.items()}


@pytest.fixture
def copied(trained, tmp_path):
    """Return a function that copies a run for a test to decide on: `copied("images")`."""

    def copy(name: str) -> RunDir:
        shutil.copytree(trained[name].path, tmp_path / name)
        return RunDir(tmp_path / name)

    return copy


def plant_kinds(run: RunDir) -> list[str]:
    """Make the first two rows with different labels copies, three outliers and one ambiguous.

    Return the ids of the two copies.
    """
    samples = run.samples()
    columns = {name: samples[name].combine_chunks() for name in samples.column_names}
    given = samples["given"].to_numpy()
    pair = [0, int(np.flatnonzero(given != given[0])[0])]
    number = np.arange(len(given))
    columns |= {
        "duplicate_group": np.isin(number, pair).astype(np.int32),
        "is_outlier": number >= len(given) - 3,
        "isolation": np.where(number >= len(given) - 3, 9.0, 0.0),
        "rival": np.where(number == len(given) - 4, 0.9, 0.0),
        "p_wrong": np.where(np.isin(number, pair), 0.1, samples["p_wrong"].to_numpy()),
    }
    run.write_table("samples.parquet", columns)
    run.write_json("second_opinion.json", {**run.second_opinion(), "power": 0.9})
    ids = samples["id"].to_pylist()
    return [ids[row] for row in pair]


def corpus_of(run: RunDir):
    config = run.config()
    return build.corpus(config.data, config.noise, config.train.seed)[0]


@pytest.fixture(name="corpus_of")
def corpus_of_fixture():
    """Return the function that opens the data of a run."""
    return corpus_of


@pytest.fixture(scope="session")
def open_review(trained):
    """Return a function that opens a run, or a copy of one, for review."""
    reopened = {name: corpus_of(run) for name, run in trained.items()}
    return lambda run: make_review(run, reopened[run.path.name], by="tester")


def decision(row, action="keep", **more):
    """Return a decision on a row, as the page sends it."""
    return {"id": row["id"], "action": action, "seen": row["seen"], **more}


class Client:
    """A test client that sends what the page sends, unless told otherwise."""

    def __init__(self, run: RunDir, open_review) -> None:
        from starlette.testclient import TestClient

        self.access = Access(PORT)
        self.review = open_review(run)
        app = make_app(self.review, self.access)
        self.http = TestClient(app, base_url=f"http://{HOST}", headers={KEY_HEADER: self.access.key})

    def rows(self, **wanted):
        answer = self.http.get("/api/rows", params={"low": 0, **wanted})
        assert answer.status_code == 200, answer.text
        return answer.json()["rows"]

    def post(self, address: str, body, **headers):
        sent = {"origin": f"http://{HOST}", "content-type": "application/json", **headers}
        return self.http.post(address, content=json.dumps(body), headers=sent)

    def decide(self, *decisions):
        return self.post("/api/decisions", {"decisions": list(decisions)})

    def decide_each(self, *decisions, queue: str | None = None) -> None:
        """Decide on rows one by one: decisions sent at once are no looks."""
        for one in decisions:
            answer = self.post("/api/decisions", {"decisions": [one], "queue": queue})
            assert answer.status_code == 200, answer.text


@pytest.fixture
def client(copied, open_review):
    """Return a function that opens the page on a copy of a run: `client("images")`."""
    return lambda name="images": Client(copied(name), open_review)
