"""Groups of rows: where they come from, what is refused, and which copies join them."""

import logging

import numpy as np
import pandas as pd
import pytest

import surelabel
from surelabel.api import make_config, object_in
from surelabel.config import DataConfig
from surelabel.data import load_corpus
from surelabel.data.groups import MOST_JOINED, join_copies
from surelabel.data.splits import split_stratified
from surelabel.errors import DataError
from surelabel.training import build, folds

LABEL = np.array(list("ab") * 12)
PATIENT = np.array([f"p{row // 4}" for row in range(24)])


def read(data, **settings):
    config = make_config(data, {f"data.{name}": value for name, value in settings.items()})
    return load_corpus(config.data, object_in(data))


def frame(**columns):
    return pd.DataFrame(
        {"x": np.arange(24.0), "z": np.arange(24.0)[::-1], "label": LABEL, "patient": PATIENT} | columns
    )


def pairs(group):
    """Return which rows (N, N) are left out together."""
    group = np.asarray(group)
    return (group[:, None] == group) & (group[:, None] >= 0)


@pytest.fixture(params=["csv", "parquet", "frame", "npz", "arrays", "named array", "labels"])
def source(request, tmp_path, monkeypatch):
    """The same rows from every kind of source, with the settings that name their groups."""
    monkeypatch.chdir(tmp_path)
    arrays = {"x": frame()[["x", "z"]].to_numpy(), "y": LABEL}
    if request.param == "frame":
        return frame(), {"group": "patient"}
    if request.param == "arrays":
        return arrays | {"group": PATIENT.tolist()}, {}
    if request.param == "named array":
        return arrays | {"patient": PATIENT}, {"group": "patient"}
    if request.param == "npz":
        np.savez("data.npz", **arrays, patient=PATIENT)
        return "data.npz", {"group": "patient"}
    if request.param == "labels":
        np.savez("data.npz", **arrays)
        pd.DataFrame({"id": range(24), "label": LABEL, "patient": PATIENT}).to_csv("labels.csv", index=False)
        return "data.npz", {"group": "patient", "labels": "labels.csv"}
    write = frame().to_csv if request.param == "csv" else frame().to_parquet
    write(f"data.{request.param}", index=False)
    return f"data.{request.param}", {"group": "patient"}


def test_every_source_tells_the_group_of_its_rows_which_is_no_feature(source):
    data, settings = source
    corpus = read(data, **settings)
    np.testing.assert_array_equal(pairs(corpus.train.group), PATIENT[:, None] == PATIENT)
    assert corpus.train.x.shape[1] == 2


def test_without_the_setting_there_are_no_groups():
    assert read(frame()).train.group is None


def test_a_blank_group_is_a_group_of_its_own():
    for patient in (np.where(PATIENT == "p2", "", PATIENT), [None if p == "p2" else p for p in PATIENT]):
        group = read(frame(patient=patient), group="patient").train.group.numpy()
        assert (group[8:12] == -1).all()
        assert (np.delete(group, range(8, 12)) >= 0).all()
    numbers = np.where(PATIENT == "p2", np.nan, np.arange(24) // 4)
    for data in (frame(patient=numbers), {"x": frame()[["x", "z"]].to_numpy(), "y": LABEL, "patient": numbers}):
        assert (read(data, group="patient").train.group.numpy()[8:12] == -1).all()


def test_new_rows_need_no_group_and_theirs_is_no_feature(tmp_path, done):
    named = frame(patient=np.arange(24) // 4)
    settings = {"train.epochs": 1, "train.threads": 1, "train.second_opinion": False}
    run = surelabel.fit(named, tmp_path / "run", model="mlp", group="patient", settings=settings)
    for name, new in (("with", named), ("without", named.drop(columns="patient"))):
        assert len(surelabel.audit(run, data=new)) == 24
        new.to_csv(tmp_path / f"{name}.csv", index=False)
        done("predict", run.path, tmp_path / f"{name}.csv")
        assert len(pd.read_csv(run.path / f"predictions-{name}.csv")) == 24
    arrays = {"x": named[["x", "z"]].to_numpy(), "y": LABEL}
    run = surelabel.fit(arrays | {"patient": PATIENT}, tmp_path / "arrays", group="patient", settings=settings)
    assert len(surelabel.audit(run, data=arrays)) == 24


class TestBadInput:
    def test_a_column_that_is_missing(self, tmp_path):
        with pytest.raises(DataError, match=r"'doctor'.*data\.group.*patient"):
            read(frame(), group="doctor")
        with pytest.raises(DataError, match="doctor; available: x, y"):
            read({"x": np.eye(24), "y": LABEL}, group="doctor")

    def test_a_source_without_columns(self, tmp_path):
        with pytest.raises(DataError, match=r"data\.group: digits has no columns; .*'doctor'.*data\.labels"):
            read("digits", group="doctor")
        file = tmp_path / "labels.csv"
        file.write_text("id,label,patient\n0,1,a\n")
        with pytest.raises(DataError, match=r"'doctor' in .*labels\.csv; available: id, label, patient"):
            read("digits", group="doctor", labels=str(file))

    def test_groups_of_another_number_of_rows(self):
        with pytest.raises(DataError, match=r"group has the shape \(23,\).* 24 rows"):
            read({"x": np.eye(24), "y": LABEL, "group": PATIENT[1:]})

    def test_one_group_of_everything_or_for_each_class(self):
        with pytest.raises(DataError, match=r"all 24 rows are in one group.*data\.group"):
            read(frame(patient="p"), group="patient")
        with pytest.raises(DataError, match=r"every class is in a single group.*data\.group"):
            read(frame(patient=LABEL), group="patient")

    def test_a_class_in_a_single_group_is_named(self, caplog):
        patient = np.where(LABEL == "b", "only", PATIENT)
        with caplog.at_level(logging.WARNING, "surelabel"):
            read(frame(patient=patient), group="patient")
        assert "in one group" in caplog.text
        assert ": b (data.group)" in caplog.text


class TestSplits:
    @pytest.mark.parametrize("seed", range(5))
    def test_no_group_is_divided_and_classes_keep_their_share(self, seed):
        rng = np.random.default_rng(seed)
        label, group = rng.integers(0, 3, 300), rng.integers(-30, 60, 300)
        group[group < 0] = -1
        kept, apart = split_stratified(label, 0.2, seed, group)
        assert sorted([*kept, *apart]) == list(range(300))
        assert not set(group[kept][group[kept] >= 0]) & set(group[apart])
        assert (np.abs(np.bincount(label[apart]) - 0.2 * np.bincount(label)) <= 3).all()
        assert (group[apart] < 0).any()

    def test_held_out_rows_and_folds(self):
        settings = {"group": "patient", "validation_fraction": 0.3, "test_fraction": 0.2}
        corpus = read(frame(), **settings)
        parts = (corpus.train, corpus.validation, corpus.tests["test"])
        patients = [{PATIENT[int(row)] for row in part.ids} for part in parts]
        assert sum(map(len, patients)) == 6
        assert set.union(*patients) == set(PATIENT)

    def test_a_class_keeps_a_row(self):
        label, group = np.repeat([0, 1], 10), np.repeat(np.arange(4), 5)
        kept, _ = split_stratified(label, 0.9, 0, group)
        assert set(label[kept]) == {0, 1}

    def test_folds_never_divide_a_group(self, blobs):
        corpus, _ = build.corpus(DataConfig(source=str(blobs)), None, 0)
        group = np.repeat(np.arange(25), 3)
        fold_of = folds.assign_folds(corpus, 4, 0, group)
        assert all(len(set(fold_of[group == number])) == 1 for number in range(25))
        counts = np.array([np.bincount(corpus.train.label[fold_of == fold], minlength=3) for fold in range(4)])
        assert np.ptp(counts, axis=0).max() <= 3


class TestCopies:
    def test_they_join_the_groups_of_their_rows(self):
        group, copies = np.array([0, 0, 1, 1, -1, -1, *[-1] * 6]), np.array([0, 1, 1, 0, 2, 2, *[0] * 6])
        joined = join_copies(group, copies)
        np.testing.assert_array_equal(pairs(joined)[0], [True] * 4 + [False] * 8)
        np.testing.assert_array_equal(pairs(joined)[4], [False] * 4 + [True] * 2 + [False] * 6)

    def test_without_copies_or_groups_there_are_none(self):
        assert join_copies(None, np.zeros(5, dtype=np.int32)) is None
        np.testing.assert_array_equal(join_copies(np.array([3, 3, -1]), np.zeros(3, dtype=np.int32)), [3, 3, -1])

    @pytest.mark.parametrize(("count", "is_joined"), [(MOST_JOINED, True), (MOST_JOINED + 1, False)])
    def test_a_chain_is_no_copy(self, count, is_joined):
        joined = join_copies(None, np.repeat([1, 0], [count, 90]))
        assert (joined is not None) == is_joined

    def test_a_chain_of_groups_leaves_each_as_it_was(self):
        group = np.repeat(np.arange(20), 5)
        np.testing.assert_array_equal(join_copies(group, np.tile([1, 0, 0, 0, 0], 20)), group)
        two_large = np.repeat([0, 1, -1], [30, 30, 40])
        np.testing.assert_array_equal(join_copies(two_large, np.eye(100, dtype=int)[[0, 31]].sum(0)), two_large)
