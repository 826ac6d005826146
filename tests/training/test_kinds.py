"""Planted duplicates, outliers and mixtures, from the data to the audit."""

import csv
import json

import numpy as np
import pytest
import torch

import surelabel
from surelabel.data.corpus import Examples
from surelabel.data.duplicates import number_duplicates
from surelabel.data.neighbours import find_neighbours
from surelabel.training.second_opinion import features_of

SETTINGS = {"train.epochs": 10, "train.threads": 1, "train.device": "cpu"}
CENTRES = 8 * np.eye(3, 6)
PLANTED = {"equal": 10, "near": 10, "outlier": 10, "mixture": 20}


def blobs(num_rows=500):
    rng = np.random.default_rng(0)
    label = np.arange(num_rows) % 3
    return CENTRES[label] + rng.normal(size=(num_rows, 6)), label, rng


def planted():
    """Return rows, labels and what was planted: copies have other labels than their originals."""
    x, label, rng = blobs()
    share = rng.uniform(0.47, 0.53, (20, 1))
    parts = {
        "": (x, label),
        "equal": (x[:10], (label[:10] + 1) % 3),
        "near": (x[10:20] + 0.003 * rng.normal(size=(10, 6)), (label[10:20] + 1) % 3),
        "outlier": (rng.uniform(-14, 14, (10, 6)), rng.integers(0, 3, 10)),
        "mixture": (
            share * CENTRES[0] + (1 - share) * CENTRES[1] + 0.2 * rng.normal(size=(20, 6)),
            rng.integers(0, 2, 20),
        ),
    }
    x, label = (np.concatenate([part[at] for part in parts.values()]) for at in (0, 1))
    return x.astype(np.float32), label, np.repeat(list(parts), [len(part[1]) for part in parts.values()])


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    x, label, _ = planted()
    return surelabel.fit({"x": x, "y": label}, tmp_path_factory.mktemp("planted") / "run", settings=SETTINGS)


@pytest.fixture(scope="module")
def audit(run):
    return surelabel.audit(run)


@pytest.fixture(scope="module")
def where(audit):
    """Return for each judged row what was planted there."""
    return planted()[2][audit.row]


def test_copies_with_other_labels_are_found_with_their_originals(audit, where):
    found = audit.kinds.rows("duplicate")
    assert found[np.isin(where, ["equal", "near"])].all()
    assert set(audit.row[found & (where == "")]) == set(range(20))
    assert not found[np.isin(where, ["outlier", "mixture"])].any()
    partner = dict(zip(audit.columns["row"], audit.columns["duplicate_of"], strict=True))
    assert all(partner[500 + row] == str(row) and partner[row] == str(500 + row) for row in range(20))


def test_outliers_are_found(audit, where):
    found = audit.kinds.rows("outlier")
    assert found[where == "outlier"].mean() >= 0.8
    assert found[where == ""].mean() <= 0.01


def test_mixtures_are_ambiguous(audit, where):
    found = audit.kinds.rows("ambiguous")
    assert found[where == "mixture"].mean() >= 0.6
    assert found[where == ""].mean() <= 0.01


def test_the_csv_has_the_kinds(run, tmp_path, done):
    done("audit", run.path, "--out", tmp_path / "audit.csv")
    rows = list(csv.DictReader((tmp_path / "audit.csv").read_text(encoding="utf-8").splitlines()))
    assert {row["kind"] for row in rows} <= {"ok", "wrong", "duplicate", "outlier", "ambiguous"}
    (copy,) = (row for row in rows if row["id"] == "500")
    assert copy["duplicate_of"] == "0"
    assert copy["is_duplicate"] == "True"
    assert float(copy["isolation"]) < 4


def test_json_counts_the_kinds(run, tmp_path, done):
    found = json.loads(done("audit", run.path, "--out", tmp_path / "audit.csv", "--json"))
    assert found["kinds"]["duplicate"] == 40
    assert found["kinds"]["outlier"] >= 8
    assert found["ambiguous_unknown_because"] is None
    assert {"kind", "is_outlier", "duplicate_of"} <= set(found["top"][0])


def test_clean_blobs_have_hardly_any(tmp_path):
    x, label, _ = blobs()
    run = surelabel.fit({"x": x.astype(np.float32), "y": label}, tmp_path / "run", settings=SETTINGS)
    counts = surelabel.audit(run).kinds.counts()
    assert counts["duplicate"] == 0
    assert max(counts.values()) <= 5


def test_copies_of_images_are_found_by_their_features():
    rng = np.random.default_rng(0)
    small = rng.integers(0, 256, (120, 3, 5, 5)).astype(np.float32)
    images = torch.nn.functional.interpolate(torch.from_numpy(small), (32, 32), mode="bicubic").clamp(0, 255)
    noisy = (images[:8] + torch.from_numpy(rng.normal(0, 2, (8, 3, 32, 32))).float()).clamp(0, 255)
    x = torch.cat([images, images[8:16], noisy]).round().to(torch.uint8)
    rows = Examples(x, torch.zeros(len(x), dtype=torch.int64), np.arange(len(x)).astype(str))
    (features,) = features_of([rows], seed=0)
    found = number_duplicates(features, find_neighbours(features))
    assert (found[8:16] == found[120:128]).all()
    assert (found[:8] == found[128:]).all()
    assert found[:16].all()
    assert not found[16:120].any()
