"""No command overwrites one of its inputs, by whatever path it is reached."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from surelabel import api
from surelabel.errors import ConfigError

SETTINGS = {"model": "mlp", "train.epochs": 1, "train.threads": 1, "train.device": "cpu"}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Make a table, arrays, an image folder, a table of images, and a run on each."""
    folder = tmp_path_factory.mktemp("made")
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(24, 3)), np.arange(24) % 2
    lines = [f"{a:.3f},{b:.3f},{c:.3f},{'no' if label else 'yes'}" for (a, b, c), label in zip(x, y, strict=True)]
    (folder / "data.csv").write_text("\n".join(["a,b,c,label", *lines]) + "\n")
    np.save(folder / "x.npy", x.astype(np.float32))
    np.save(folder / "y.npy", y)
    for row in range(24):
        path = folder / "photos" / "ab"[row % 2] / f"{row}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 255, (8, 8), dtype=np.uint8)).save(path)
    images = [f"photos/{'ab'[row % 2]}/{row}.png,{'ab'[row % 2]}" for row in range(24)]
    (folder / "images.csv").write_text("\n".join(["path,label", *images]) + "\n")
    (folder / "mine.csv").write_text("id,label\n0,yes\n")
    (folder / "scores.csv").write_text("id,score\n0,0.5\n")
    before = Path.cwd()
    os.chdir(folder)
    try:
        for source, name in (("data.csv", "run"), ("photos", "photo_run"), ("images.csv", "image_run")):
            api.fit(source, name, settings=SETTINGS)
    finally:
        os.chdir(before)
    return folder


@pytest.fixture
def scene(made, tmp_path, monkeypatch):
    """Link to the files of `made`, so that a command that overwrites one changes `made`."""
    (tmp_path / "link.csv").symlink_to(made / "data.csv")
    (tmp_path / "around").symlink_to(made)
    monkeypatch.chdir(made)
    return tmp_path


def contents(folder):
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def refused(call, made, *words):
    before = contents(made)
    result = call(*words)
    assert result.exit_code == 2, result.stdout
    assert len(result.stderr.splitlines()) == 1
    assert contents(made) == before
    return result.stderr


SPELLINGS = ["data.csv", "./photos/../data.csv", "{made}/data.csv", "{scene}/link.csv", "{scene}/around/data.csv"]


@pytest.mark.parametrize("out", SPELLINGS)
@pytest.mark.parametrize("command", ["noise data.csv --noise symmetric:0.3", "predict run data.csv", "audit run"])
def test_the_data_stay(made, scene, call, command, out):
    text = refused(call, made, *command.split(), "--out", out.format(made=made, scene=scene))
    assert "is the input" in text
    assert "data.csv" in text


@pytest.mark.parametrize(
    ("command", "guilty"),
    [
        ("noise x.npy --noise symmetric:0.3 --out y.npy", "--out y.npy: is the input y.npy"),
        ("noise x.npy --noise symmetric:0.3 --out x.npy", "--out x.npy: is the input x.npy"),
        ("noise x.npy --labels mine.csv --noise symmetric:0.3 --out mine.csv", "is the input mine.csv"),
        ("predict run data.csv --out run/labels.parquet", "is the input run/labels.parquet"),
        ("predict photo_run photos --out photos/a/0.png", "lies in the input folder photos"),
        ("predict image_run images.csv --out photos/a/0.png", "is the input"),
        ("predict image_run images.csv --out images.csv", "is the input images.csv"),
        ("audit run --out run/samples.parquet", "is the input run/samples.parquet"),
        ("audit photo_run --out photos/a/0.png", "lies in the input folder photos"),
        ("report run --out data.csv", "is the input data.csv"),
        ("report run --out run/metrics.jsonl", "is the input run/metrics.jsonl"),
        ("report run --scores scores.csv --out scores.csv", "is the input scores.csv"),
        ("report photo_run --figures photos", "--figures photos: is the input photos"),
        ("export photo_run --out photos/a", "lies in the data"),
        ("figures 1 photo_run --out photos/a", "lies in the input folder photos"),
    ],
)
def test_every_input_of_every_command_stays(made, scene, call, command, guilty):
    assert guilty in refused(call, made, *command.split())


def test_a_manifest_does_not_replace_another_json_file(made, scene, call, tmp_path):
    (tmp_path / "run.json").write_text(json.dumps({"data": {"source": "data.csv"}}))
    text = refused(call, made, "noise", "data.csv", "--noise", "symmetric:0.3", "--out", tmp_path / "run.npy")
    assert "run.json: surelabel did not write this file" in text
    assert not (tmp_path / "run.npy").exists()


def test_python_is_refused_too(made, scene):
    with pytest.raises(ConfigError, match=r"is the input data\.csv"):
        api.write_noise("data.csv", "data.csv", settings={"noise": {"kind": "symmetric", "rate": 0.3}})


def test_outputs_may_be_written_again(made, scene, done, tmp_path):
    for _ in range(2):
        done("noise", "data.csv", "--noise", "symmetric:0.3", "--out", tmp_path / "noisy.csv")
        done("predict", "run", "data.csv", "--out", tmp_path / "predicted.csv")
        done("audit", "run", "--out", tmp_path / "audit.csv")
        done("report", "run", "--out", tmp_path / "report.html", "--figures", tmp_path / "figures")


@pytest.mark.parametrize("name", ["labels.parquet", "config.json", "noise.json", "features.safetensors"])
def test_a_folder_with_a_file_of_the_user_is_no_place_for_a_run(tmp_path, call, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    Path("mine").mkdir()
    Path("mine", name).write_text("precious")
    result = call("fit", "digits", "--out", "mine", "--epochs", "1")
    assert result.exit_code == 2
    assert "not empty" in result.stderr
    assert Path("mine", name).read_text() == "precious"


def test_data_are_protected_where_the_run_began_too(made, scene, call, tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "data.csv").write_text("another\n")
    monkeypatch.setattr("surelabel.runs.run_dir.RunDir.environment", lambda _: {"folder": str(made)})
    monkeypatch.chdir(tmp_path / "here")
    assert "is the input" in refused(call, made, "audit", made / "run", "--out", made / "data.csv")


def test_the_name_of_a_data_set_is_not_a_folder(tmp_path, done, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done("fit", "digits", "--out", "digits", "--epochs", "1", "--threads", "1")
    for _ in range(2):
        done("export", "digits")
        done("audit", "digits", "--out", "digits/a.csv")


def test_a_device_is_not_replaced(made, scene, call, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    assert "not a regular file" in refused(call, made, "audit", "run", "--out", tmp_path / "pipe")
    assert not (tmp_path / "pipe").is_file()
