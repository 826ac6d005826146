"""Small data and runs that many tests share."""

import csv
import json
import os
import shutil
import signal
from pathlib import Path

import numpy as np
import pytest

if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # nohup has it ignored, also in processes that tests start


@pytest.fixture(autouse=True, scope="session")
def cache_of_its_own(tmp_path_factory):
    """Keep decoded images of the tests, and of processes they start, out of the user's cache."""
    os.environ["SURELABEL_CACHE"] = str(tmp_path_factory.mktemp("cache"))


os.environ["SURELABEL_FEATURES"] = "none"
"""`model.features: auto` means none, also in processes that tests start."""


@pytest.fixture
def pretrained_features(monkeypatch):
    """Let `model.features: auto` take an installed network, as for users."""
    monkeypatch.delenv("SURELABEL_FEATURES")


@pytest.fixture
def started_with(monkeypatch):
    """`started_with({"RANK": "1"})`: have these variables of a launcher and no others."""
    from surelabel import launcher

    def start(variables):
        for name in launcher.VARIABLES:
            monkeypatch.delenv(name, raising=False)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        launcher._found.cache_clear()

    yield start
    monkeypatch.undo()
    launcher._found.cache_clear()


@pytest.fixture(scope="session")
def call():
    """`call("fit", path)`: the command line, with what it printed and its exit code."""
    from typer.testing import CliRunner

    from surelabel.cli import app

    return lambda *words: CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)


@pytest.fixture(scope="session")
def done(call):
    """The same for a command that must succeed: what it printed."""

    def run(*words):
        result = call(*words)
        assert result.exit_code == 0, result.stderr
        return result.stdout

    return run


TINY = {
    "model": {
        "name": "mlp",
        "options": {"widths": [16], "norm": "none"},
        "features": "none",
        "train_on": "inputs",
    },
    "train": {"epochs": 4, "batch_size": 16, "threads": 1, "device": "cpu", "second_opinion": False},
    "optimiser": {"rate": 0.05},
}
"""Settings under which every method trains in a fraction of a second."""


def write_blobs(path: Path, num_samples: int = 75, num_classes: int = 3, seed: int = 0) -> Path:
    """Write Gaussian blobs in six dimensions as an .npz with a test part."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(num_classes, 6)) * 3
    parts = {}
    for suffix, size in (("", num_samples), ("_test", 30)):
        y = rng.integers(0, num_classes, size)
        parts |= {f"x{suffix}": (centres[y] + rng.normal(size=(size, 6))).astype(np.float32), f"y{suffix}": y}
    np.savez(path, **parts)
    return path


@pytest.fixture(scope="session")
def make_blobs():
    """The function that writes the blobs."""
    return write_blobs


@pytest.fixture
def blobs(tmp_path: Path) -> Path:
    """An .npz of 75 easy rows in 3 classes."""
    return write_blobs(tmp_path / "blobs.npz")


def settings_for(method: str, source: Path, **changes: object) -> dict:
    """A whole tiny configuration, with `changes` by dotted name."""
    content = json.loads(json.dumps({**TINY, "data": {"source": str(source)}, "method": {"name": method}}))
    content["noise"] = {"kind": "symmetric", "rate": 0.3}
    for name, value in changes.items():
        *path, last = name.split("__")
        place = content
        for key in path:
            place = place.setdefault(key, {})
        place[last] = value
    return content


@pytest.fixture
def tiny(blobs: Path):
    """`tiny("car", train__epochs=2)`: a configuration on the blobs."""
    return lambda method, **changes: settings_for(method, blobs, **changes)


@pytest.fixture(scope="session")
def runs(tmp_path_factory, make_blobs):
    """Write data.npz, the finished run `done` and the interrupted run `stopped`."""
    from surelabel import api
    from surelabel.engine.loop import Interrupted

    folder = tmp_path_factory.mktemp("runs")
    settings = {
        "data": {"source": str(make_blobs(folder / "data.npz"))},
        "noise": {"kind": "symmetric", "rate": 0.3},
        "model": {"name": "mlp", "options": {"widths": [8], "norm": "none"}},
        "train": {"epochs": 3, "batch_size": 16, "threads": 1, "device": "cpu"},
    }
    api.fit(settings, folder / "done")
    steps = iter(range(1000))
    with pytest.raises(Interrupted):
        api.fit(settings, folder / "stopped", interrupt=lambda: next(steps) > 7)
    return folder


TIMING = ("seconds", "samples_per_second")


def outcome(run_dir) -> dict:
    """Return all that a run recorded except how long it took, to compare runs."""
    from safetensors.numpy import load_file

    rows = [{k: v for k, v in row.items() if k not in TIMING} for row in run_dir.metrics()]
    return {
        "metrics": rows,
        "samples": run_dir.samples().to_pylist(),
        "weights": {name: value.tobytes() for name, value in load_file(run_dir.weights_file).items()},
    }


@pytest.fixture(name="outcome")
def outcome_fixture():
    """What a run says, for comparing runs bit for bit."""
    return outcome


TOPICS = {
    "sport": ["match", "team", "goal", "coach", "season", "player", "league", "referee", "stadium", "score"],
    "money": ["bank", "shares", "profit", "market", "dollar", "investor", "tax", "budget", "price", "loan"],
    "space": ["rocket", "orbit", "planet", "telescope", "moon", "launch", "satellite", "comet", "mars", "crew"],
}
FILLERS = ["the", "a", "of", "and", "in", "with", "after", "before", "today", "again", "very", "quite"]


def make_texts(count, seed=0):
    """Return texts, their labels, a tenth of which are wrong, and the right labels."""
    rng = np.random.default_rng(seed)
    clean = rng.choice(list(TOPICS), count)
    texts = [" ".join(rng.permutation([*rng.choice(TOPICS[topic], 4), *rng.choice(FILLERS, 4)])) for topic in clean]
    wrong = rng.choice(count, count // 10, replace=False)
    given = clean.copy()
    given[wrong] = np.roll(list(TOPICS), 1)[[list(TOPICS).index(topic) for topic in clean[wrong]]]
    return texts, given.tolist(), clean.tolist()


def write_csv(path, columns):
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
    return path


FAST_TEXT = {"train.epochs": 15, "train.batch_size": 16, "train.threads": 1, "train.device": "cpu"}


@pytest.fixture(scope="session")
def text_run(tmp_path_factory):
    """Write reviews.csv, new.csv without labels, and the finished run `run` on reviews.csv."""
    folder = tmp_path_factory.mktemp("text")
    texts, given, clean = make_texts(120)
    ids = [f"r{row}" for row in range(len(texts))]
    write_csv(folder / "reviews.csv", {"id": ids, "review": texts, "stars": range(120), "label": given, "truth": clean})
    texts, _, clean = make_texts(20, seed=1)
    write_csv(folder / "new.csv", {"review": texts, "truth": clean})
    from surelabel import api

    api.fit(str(folder / "reviews.csv"), folder / "run", settings={**FAST_TEXT, "data.clean_column": "truth"})
    return folder


@pytest.fixture(scope="module")
def browser():
    """Debian's chromium; without it tests are skipped, but in CI they fail."""
    from playwright.sync_api import sync_playwright

    names = (os.environ.get("SURELABEL_CHROMIUM"), shutil.which("chromium"), shutil.which("chromium-browser"))
    chromium = next((name for name in names if name), None)
    if chromium is None and not os.environ.get("CI"):
        pytest.skip("chromium is not installed; .ci/run shows how")
    assert chromium, "chromium is not installed; CI must not pass without these tests"
    with sync_playwright() as started:
        made = started.chromium.launch(executable_path=chromium, headless=True, args=["--no-sandbox"])
        yield made
        made.close()


@pytest.fixture
def stored(tmp_path, monkeypatch):
    """Copy a run of tests/stored_runs, as in `stored("photos")`, and work in its folder."""
    monkeypatch.chdir(tmp_path)

    def copy(name: str) -> Path:
        shutil.copytree(Path(__file__).parent / "stored_runs" / name, tmp_path / name)
        return Path(name)

    return copy
