"""Outliers, duplicates with conflicting labels and ambiguous rows, without training."""

import numpy as np
import pytest

from surelabel.data.duplicates import number_duplicates
from surelabel.data.neighbours import find_neighbours
from surelabel.errors import ConfigError
from surelabel.training.second_opinion import look_around
from surelabel.verdicts import Audit
from surelabel.verdicts.evidence import rival_of
from surelabel.verdicts.inspection import inspect_inputs
from surelabel.verdicts.kinds import KINDS, MOST_AMBIGUOUS
from surelabel.verdicts.outliers import FAR, VERY_FAR, find_outliers, measure_isolation

NAMES = ("cat", "dog")


def isolation_of(x):
    return measure_isolation(find_neighbours(np.asarray(x, dtype=np.float32)))


def table(num_rows=40, power=0.9, **columns):
    """Return an audit of rows that look right and of which half are cats."""
    usual = {
        "id": np.array([f"r{number}" for number in range(num_rows)]),
        "given": np.array(NAMES)[np.arange(num_rows) % 2],
        "suggested": np.array(NAMES)[np.arange(num_rows) % 2],
        "prediction": np.array(NAMES)[np.arange(num_rows) % 2],
        "suggested_probability": np.ones(num_rows),
        "quality": np.ones(num_rows),
        "p_wrong": np.zeros(num_rows),
        "verdict": np.full(num_rows, "training"),
        "split": np.full(num_rows, "train"),
    }
    return Audit({**usual, **columns}, NAMES, power=power)


class TestIsolation:
    @pytest.mark.parametrize("size", [2, 6, 64, 384])
    @pytest.mark.parametrize("share", [0.01, 0.05])
    def test_planted_outliers_are_far_and_hardly_any_other_row_is(self, size, share):
        rng = np.random.default_rng(size)
        centres = 6 * rng.normal(size=(3, size))
        x = centres[np.arange(600) % 3] + rng.normal(size=(600, size))
        planted = x.mean(0) + 4 * x.std(0) * rng.normal(size=(int(600 * share), size))
        found = isolation_of(np.concatenate([x, planted])) >= FAR
        assert found[600:].mean() >= 0.8
        assert found[:600].mean() <= 0.015

    @pytest.mark.parametrize(
        "draw",
        [
            lambda rng: rng.random((800, 5)),
            lambda rng: np.exp(rng.normal(size=(800, 8))),
            lambda rng: rng.integers(0, 3, (800, 6)),
            lambda rng: rng.random((800, 40)) < 0.1,
            lambda rng: rng.normal(size=(800, 10)) * np.repeat([[0.1], [1], [8], [20]], 200, 0),
            lambda rng: np.repeat(rng.normal(size=(40, 10)), 20, 0),
        ],
        ids=["uniform", "skewed", "categorical", "sparse", "classes of different scale", "copies"],
    )
    def test_data_without_outliers_have_hardly_any(self, draw):
        assert (isolation_of(draw(np.random.default_rng(0))) >= FAR).mean() <= 0.015

    def test_beside_many_copies_other_rows_are_not_isolated(self):
        rng = np.random.default_rng(0)
        x = rng.normal(size=(300, 6))
        with_copies = np.concatenate([x, np.repeat(x[:1], 60, 0)])
        assert (isolation_of(with_copies) >= FAR).mean() <= 0.015

    def test_a_confident_class_is_no_outlier_unless_it_is_very_far(self):
        isolation = np.array([0, FAR, FAR, VERY_FAR])
        by_input = np.array([[0.5, 0.5], [0.9, 0.1], [0.6, 0.4], [0.99, 0.01]])
        assert find_outliers(isolation, by_input).tolist() == [False, False, True, True]


def test_columns_of_too_many_rows_are_without_outliers(monkeypatch):
    monkeypatch.setattr("surelabel.data.neighbours.MOST_ROWS", 50)
    x = np.random.default_rng(0).normal(size=(60, 3)).astype(np.float32)
    x = np.concatenate([x, x[:1]])
    found = inspect_inputs(np.full((61, 2), 0.5), number_duplicates(x, None), find_neighbours(x))
    assert found.keys() == {"rival", "duplicate_group"}
    assert found["duplicate_group"][[0, 60]].tolist() == [1, 1]


def test_several_sets_of_features_count_as_one():
    x = np.random.default_rng(0).normal(size=(60, 8)).astype(np.float32)
    whole, several = look_around({"all": x}, None, 0), look_around({"one": x[:, :3], "two": x[:, 3:]}, None, 0)
    np.testing.assert_array_equal(several.copies, whole.copies)
    np.testing.assert_array_equal(several.neighbours.index, whole.neighbours.index)


def test_the_rival_is_the_second_class_whatever_the_number_of_classes():
    many = np.full((1, 100), 0.15 / 99)
    many[0, 5] = 0.85
    assert rival_of(many)[0] < 0.01
    assert rival_of(np.array([[0.5, 0.25, 0.25], [1, 0, 0]])).tolist() == [0.5, 0]


class TestKinds:
    def test_a_row_may_be_of_several_and_the_first_leads(self):
        p_wrong, outlier, rival = np.zeros(40), np.zeros(40, dtype=bool), np.zeros(40)
        p_wrong[:2], outlier[1:4], rival[3:5] = 0.9, True, 0.5
        audit = table(p_wrong=p_wrong, is_outlier=outlier, rival=rival)
        assert audit.columns["kind"][:6].tolist() == ["wrong", "wrong", "outlier", "outlier", "ambiguous", "ok"]
        assert audit.kinds.counts() == {"wrong": 2, "duplicate": None, "outlier": 3, "ambiguous": 2}
        assert audit.flagged(kind="outlier").columns["id"].tolist() == ["r1", "r2", "r3"]
        assert audit.flagged(kind="ambiguous").columns["id"].tolist() == ["r3", "r4"]
        assert len(audit.flagged(kind="duplicate")) == 0
        assert audit.summary()["kinds"] == audit.kinds.counts()

    def test_an_unknown_kind_names_the_known_ones(self):
        with pytest.raises(ConfigError, match=", ".join(KINDS)):
            table().flagged(kind="strange")
        with pytest.raises(ConfigError, match="kind"):
            table().flagged(kind="wrong", budget=3)

    def test_only_duplicates_with_another_label_are_an_issue(self):
        group = np.zeros(40, dtype=np.int32)
        group[[0, 1, 3]], group[[4, 6]] = 1, 2
        audit = table(duplicate_group=group)
        assert audit.flagged(kind="duplicate").columns["id"].tolist() == ["r0", "r1", "r3"]
        assert audit.columns["duplicate_of"][[0, 1, 3, 4, 5]].tolist() == ["r1", "r0", "r0", "", ""]
        assert any("3 rows have copies" in text for text in audit.sentences())

    def test_labels_that_a_person_confirmed_are_of_no_kind(self):
        verdict = np.full(40, "training", dtype=object)
        verdict[0] = "trusted"
        group = np.zeros(40, dtype=np.int32)
        group[:2] = 1
        audit = table(
            verdict=verdict, is_outlier=np.arange(40) < 1, rival=(np.arange(40) < 1) * 0.9, duplicate_group=group
        )
        assert audit.columns["kind"][:2].tolist() == ["ok", "duplicate"]
        assert audit.columns["duplicate_of"][1] == "r0"

    def test_if_many_rows_look_ambiguous_the_model_cannot_tell(self):
        some = np.where(np.arange(40) < 40 * MOST_AMBIGUOUS, 0.9, 0)
        assert table(rival=some).kinds.counts()["ambiguous"] == 4
        audit = table(rival=np.where(np.arange(40) < 30, 0.9, 0))
        assert audit.kinds.counts()["ambiguous"] is None
        assert "is_ambiguous" not in audit.columns
        assert any("ambiguous is not known" in text and "75 %" in text for text in audit.sentences())

    def test_a_second_opinion_at_chance_cannot_tell(self):
        audit = table(rival=np.zeros(40), network_rival=np.zeros(40), power=0.55)
        assert audit.kinds.counts()["ambiguous"] is None
        assert "hardly predict" in audit.summary()["ambiguous_unknown_because"]

    def test_the_network_is_asked_if_the_second_opinion_is_unsure(self):
        prediction = np.array(NAMES)[np.arange(40) % 2]
        prediction[:4] = prediction[1:5]
        unsure, network = np.full(40, 0.9), np.where(np.arange(40) < 3, 0.5, 0)
        p_wrong = np.where(np.arange(40) < 1, 0.9, 0)
        told = {"rival": unsure, "network_rival": network, "p_wrong": p_wrong}
        assert table(prediction=prediction, **told).flagged(kind="ambiguous").columns["id"].tolist() == ["r1", "r2"]
        memorised = table(**told)
        assert memorised.kinds.counts()["ambiguous"] is None
        assert "100 %" in memorised.kinds.doubt

    def test_a_network_at_chance_cannot_tell(self):
        audit = table(prediction=np.full(40, "cat"), network_rival=np.zeros(40), power=None)
        assert audit.kinds.counts()["ambiguous"] is None
        assert "not learned" in audit.kinds.doubt

    def test_a_table_without_evidence_says_nothing(self):
        audit = table(power=None)
        assert audit.kinds.counts() == {"wrong": 0, "duplicate": None, "outlier": None, "ambiguous": None}
        assert audit.kinds.doubt is None
        assert set(audit.columns["kind"]) == {"ok"}
