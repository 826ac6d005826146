"""Every command finds the data of a run from another folder than the one it began in."""

import shlex

import numpy as np
import pytest
from PIL import Image

from surelabel import api
from surelabel.engine.loop import Interrupted
from surelabel.runs.run_dir import RunDir

pytestmark = pytest.mark.training
QUICK = ["--threads", "1", "--model", "mlp", "--epochs", "1"]


@pytest.fixture
def began(tmp_path, monkeypatch):
    """Work in a folder with 24 images in `my: data`; `away` is another folder."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    for row in range(24):
        path = tmp_path / "my: data" / "ab"[row % 2] / f"{row}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 255, (8, 8), dtype=np.uint8)).save(path)
    (tmp_path / "away").mkdir()
    return tmp_path


def test_an_export_finds_the_images_and_never_writes_among_them(began, monkeypatch, call, done):
    done("fit", "my: data", "--out", "run", *QUICK)
    monkeypatch.chdir(began / "my: data")
    refused = call("export", "../run", "--out", "leaked")
    assert refused.exit_code == 2
    assert "lies in the data" in refused.stderr
    assert not (began / "my: data" / "leaked").exists()
    monkeypatch.chdir(began / "away")
    done("export", "../run", "--out", "clean", "--images", "copy")
    assert len(list((began / "away" / "clean" / "images").rglob("*.png"))) == 24


def test_the_command_to_retrain_works_from_where_it_is_printed(began, monkeypatch, done):
    done("noise", "my: data", "--noise", "symmetric:0.3", "--out", "wrong.csv")
    done("fit", "my: data", "--noise", "file:wrong.csv", "--out", "run", *QUICK)
    monkeypatch.chdir(began / "away")
    line = done("export", "../run", "--out", "clean").splitlines()[-1]
    _, *words = shlex.split(line.removeprefix("Retrain: "))
    done(*words, "--out", "again")
    assert RunDir.open(began / "away" / "again").config().noise is None


def test_one_missing_image_is_counted(began, call, done):
    done("fit", "my: data", "--out", "run", *QUICK)
    (began / "my: data" / "a" / "0.png").rename(began / "0.png")
    refused = call("export", "run", "--out", "clean", "--images", "copy")
    assert refused.exit_code == 2
    assert "there is no file for 1 of 24 rows" in refused.stderr


def test_report_finds_the_file_of_labels(began, monkeypatch, call, done):
    done("noise", "my: data", "--noise", "symmetric:0.3", "--out", "wrong.npy")
    done("fit", "my: data", "--noise", "file:wrong.npy", "--out", "run", *QUICK)
    monkeypatch.chdir(began / "away")
    result = call("report", "../run")
    assert result.exit_code == 0
    assert "shows no samples" not in result.stderr


def test_a_run_goes_on_from_elsewhere(began, monkeypatch, done):
    settings = {"train.epochs": 3, "train.threads": 1, "model": "mlp"}
    with pytest.raises(Interrupted):
        api.fit("my: data", "a run", settings=settings, interrupt=lambda: True)
    monkeypatch.chdir(began / "away")
    done("resume", "../a run")
    assert RunDir.open(began / "a run").is_done


def test_commands_that_are_advised_can_be_pasted(began, done):
    text = done("fit", "my: data", "--out", "a run", *QUICK)
    advised = [line.strip() for line in text.splitlines() if line.strip().startswith("surelabel ")]
    assert [shlex.split(line)[:3] for line in advised] == [
        ["surelabel", verb, "a run"] for verb in ("report", "review", "export")
    ]


def test_an_export_through_a_link_leaves_the_link(began, done):
    done("fit", "my: data", "--out", "run", *QUICK)
    (began / "real").mkdir()
    (began / "link").symlink_to("real")
    for _ in range(2):
        done("export", "run", "--out", "link")
        assert (began / "link").is_symlink()
        assert (began / "real" / "cleaned.csv").is_file()
    assert sorted(path.name for path in began.iterdir()) == ["away", "link", "my: data", "real", "run"]


def test_data_in_memory_are_not_promised_to_be_there_again(began, call, done):
    rng = np.random.default_rng(0)
    data = (rng.normal(size=(30, 4)).astype(np.float32), np.arange(30) % 2)
    api.fit(data, "run", settings={"train.epochs": 1, "train.threads": 1, "model": "mlp"})
    assert "Retrain" not in done("export", "run")
    refused = call("review", "run", "--no-open")
    assert refused.exit_code == 2
    assert "only Python can pass again" in refused.stderr
