"""New data for a run that was trained on features of pictures."""

import csv

import numpy as np
import pytest
from PIL import Image

import surelabel

SETTINGS = {
    "model.features": "efficientnet_lite0",
    "model.feature_size": 32,
    "train.epochs": 2,
    "train.batch_size": 16,
    "train.threads": 1,
    "train.device": "cpu",
}


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """Write a folder of photos of different sizes whose class is their colour."""
    folder, rng = tmp_path_factory.mktemp("data") / "photos", np.random.default_rng(0)
    for row in range(36):
        place = folder / "abc"[row % 3] / f"{row:02}.png"
        place.parent.mkdir(parents=True, exist_ok=True)
        pixels = rng.integers(0, 120, (30 + row % 4, 40, 3), dtype=np.uint8)
        pixels[:, :, row % 3] += 100
        Image.fromarray(pixels).save(place)
    return folder


@pytest.fixture(scope="module")
def run(photos, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SURELABEL_CACHE", str(folder / "cache"))
        return surelabel.fit(str(photos), folder / "run", settings=SETTINGS)


def test_copies_of_training_rows_are_found_whatever_is_beside_them(run, photos, tmp_path):
    """All of one size, where those of the run differ."""
    for name in ("a/00.png", "b/04.png"):
        place = tmp_path / "new" / name
        place.parent.mkdir(parents=True)
        place.write_bytes((photos / name).read_bytes())
    audit = surelabel.audit(run, data=str(tmp_path / "new"))
    assert any("copies" in caveat or "copy" in caveat for caveat in audit.caveats), audit.caveats


def test_a_table_whose_rows_are_all_of_the_test_split_is_judged(run, photos, tmp_path):
    names = ("a/00.png", "b/01.png", "c/02.png")
    for name in names:
        (tmp_path / name[2:]).write_bytes((photos / name).read_bytes())
    with (tmp_path / "new.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("image", "label", "split"), *((name[2:], name[0], "test") for name in names)])
    assert len(surelabel.audit(run, data=str(tmp_path / "new.csv"))) == 3


@pytest.mark.parametrize("kind", ["text", "vectors", "as many numbers as features"])
def test_other_inputs_are_refused(run, tmp_path, call, kind):
    if kind == "text":
        source = tmp_path / "new.csv"
        source.write_text("text\nthe plot was good\nit was too long for me\n")
    else:
        source = tmp_path / "new.npy"
        np.save(source, np.zeros((5, 64 if kind == "vectors" else 1280), dtype=np.float32))
    result = call("predict", run.path, source, "--out", tmp_path / "p.csv")
    assert result.exit_code == 2
    assert "images" in result.stderr
    assert "Traceback" not in result.stderr
    assert not (tmp_path / "p.csv").exists()


def test_sizes_are_not_complained_about(run, photos, tmp_path, call):
    result = call("predict", run.path, photos, "--out", tmp_path / "p.csv")
    assert result.exit_code == 0, result.stderr
    assert "centre-cropped" not in result.stderr


def test_a_warm_start_from_a_run_on_pixels_stays_on_pixels(photos, tmp_path, pretrained_features):
    changed = {**SETTINGS, "model.features": "none"}
    before = surelabel.fit(str(photos), tmp_path / "before", settings=changed)
    after = surelabel.fit(
        str(photos), tmp_path / "after",
        settings={**SETTINGS, "model.features": "auto", "train.warm_start": str(before.path)},
    )  # fmt: skip
    assert after.config().model.train_on == "inputs"
    assert after.config().model.features == "efficientnet_lite0"
