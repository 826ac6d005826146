"""Data that a scale needs before its runs start."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import surelabel
from surelabel.data import load_corpus
from surelabel.errors import DataError
from surelabel.models.patches import draw_filters
from surelabel.paper.prepare_data import prepare, prepare_one
from surelabel.paper.tables import SCALES, PreparedData, plan_trials

FEW = {
    "small": PreparedData("subset", "cifar10", 40, 20),
    "tiny": PreparedData("patches", "cifar10", 40, 20, num_filters=3),
}


@pytest.fixture
def few_rows(monkeypatch):
    """Scales of a few rows."""
    for name, prepared in FEW.items():
        monkeypatch.setitem(SCALES, name, replace(SCALES[name], prepared={"cifar10": prepared}, data=("cifar10",)))


@pytest.mark.parametrize("scale", FEW)
@pytest.mark.parametrize("noise", ["symmetric:0.4", "asymmetric:0.4"])
def test_a_run_of_a_scale_trains_on_what_was_prepared(scale, noise, few_rows, cifar_root, tmp_path):
    only = {"method": ["car"], "noise": [noise], "seed": ["0"]}
    (trial,) = plan_trials("table1", scale=scale, only=only, folder=tmp_path)
    told = []
    assert prepare(scale, cifar_root, tmp_path, [trial], told.append) == {}
    assert told == [f"preparing {trial.config.data.source}"]
    small = {"train.epochs": 1, "train.batch_size": 10, "train.device": "cpu", "train.threads": 1}
    run = surelabel.fit(trial.config, tmp_path / "run", settings=small)
    assert run.is_done
    data = run.data()
    assert (data["num_train"], data["tests"]) == (40, {"test": 20})
    assert data["class_names"][:2] == ["airplane", "automobile"]
    labels = run.labels().to_pydict()
    assert labels["clean"] == [row % 10 for row in range(40)]
    assert labels["given"] != labels["clean"]
    source = load_corpus(
        trial.config.data.model_copy(update={"source": "cifar10", "root": str(cifar_root / "cifar10")})
    )
    assert labels["id"] == list(source.train.ids[:40])


def test_it_is_done_once_and_leaves_nothing_half(few_rows, cifar_root, tmp_path):
    trials = plan_trials("table1", scale="tiny", only={"method": ["car"], "seed": ["0"]}, folder=tmp_path)
    prepare("tiny", cifar_root, tmp_path, trials)
    (path,) = (tmp_path / "data").glob("[!.]*")
    before, told = path.stat().st_mtime_ns, []
    assert prepare("tiny", None, tmp_path, trials, told.append) == {}
    assert (path.stat().st_mtime_ns, told) == (before, [])
    assert prepare("small", None, tmp_path, []) == {}
    assert prepare("paper", None, tmp_path, plan_trials("table1")) == {}


def test_trials_without_their_data_are_named_and_others_get_theirs(monkeypatch, cifar_root, tmp_path):
    """The reason names the tree that is expected."""
    sets = {data: PreparedData("subset", data, 40, 20) for data in ("cifar10", "cifar100")}
    monkeypatch.setitem(SCALES, "small", replace(SCALES["small"], prepared=sets))
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "cifar10").symlink_to(cifar_root / "cifar10")
    trials = plan_trials("correction", scale="small", folder=tmp_path, only={"noise": ["symmetric:0.4"]})
    failures = prepare("small", tmp_path / "root", tmp_path, trials)
    assert sets["cifar10"].path(tmp_path).is_file()
    (missing,) = [trial for trial in trials if trial.cell["data"] == "cifar100"]
    assert list(failures) == [missing.name]
    assert "cifar100: no such folder" in failures[missing.name]


def test_too_few_rows_are_refused(cifar_root, tmp_path):
    with pytest.raises(DataError, match="60 training rows; this scale needs the first 10000"):
        prepare_one(PreparedData("subset", "cifar10", 10_000, 5_000), cifar_root, tmp_path)


def test_patches_see_the_image_and_not_its_brightness():
    images = torch.from_numpy(np.random.default_rng(0).integers(0, 100, (30, 3, 32, 32), dtype=np.uint8))
    filters = draw_filters(images, 5, 6, seed=0)
    features = filters.features(images)
    assert features.shape == (30, 8 * 5)
    assert bool((features >= 0).all())
    assert torch.allclose(filters.features(images + 50), features, atol=1e-4)
    again = draw_filters(images, 5, 6, seed=0)
    assert torch.equal(again.weight, filters.weight)
    assert not torch.equal(draw_filters(images, 5, 6, seed=1).weight, filters.weight)


def test_whitened_patches_have_unit_variance():
    """Responses of unit-length filters to their patches, up to the floor of small eigenvalues."""
    images = torch.from_numpy(np.random.default_rng(0).integers(0, 256, (50, 3, 32, 32), dtype=np.uint8))
    filters = draw_filters(images, 20, 6, seed=0)
    patches = torch.nn.functional.unfold(images.float(), 6).transpose(1, 2).flatten(0, 1)
    even = (patches - patches.mean(1, keepdim=True)) / patches.std(1, keepdim=True)
    z = even @ filters.weight - filters.bias
    assert torch.allclose(z.std(0), torch.ones(20), atol=0.1)


def test_a_prepared_path_lies_in_the_folder():
    assert FEW["tiny"].path(Path("r")) == Path("r/data/cifar10-patches-40-20-3x6-seed-0.npz")


def test_rows_that_are_sorted_by_class_are_refused(cifar_root, tmp_path):
    with pytest.raises(DataError, match=r"cifar10: its first 7 rows .*7 of 10 classes"):
        prepare_one(PreparedData("subset", "cifar10", 7, 5), cifar_root, tmp_path)
