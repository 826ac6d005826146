"""The computations behind an audit, checked by hand."""

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, roc_auc_score

from surelabel.errors import ConfigError
from surelabel.verdicts.classes import confused_pairs, joint_counts, transition_matrix
from surelabel.verdicts.corrections import capped, check_share, losing_classes
from surelabel.verdicts.measures import auroc, average_precision, calibration_error


def test_counts_by_true_and_given_class():
    given, p_wrong = np.array([0, 0, 1]), np.array([0.0, 0.5, 1.0])
    alternatives = np.array([[0, 1, 0], [0, 0.5, 0.5], [1, 0, 0]])
    counts = joint_counts(given, p_wrong, alternatives)
    assert counts.tolist() == [[1.5, 1, 0], [0.25, 0, 0], [0.25, 0, 0]]
    matrix = transition_matrix(counts)
    assert matrix.sum(1) == pytest.approx([1, 1, 1])
    assert matrix[0].tolist() == pytest.approx([0.6, 0.4, 0])
    assert matrix[1].tolist() == pytest.approx([1, 0, 0])
    assert transition_matrix(np.zeros((2, 2))).tolist() == [[1, 0], [0, 1]]


@pytest.mark.parametrize("most", [1, 3, 1000])
def test_measures_of_a_ranking_equal_those_of_scikit_learn(most):
    rng = np.random.default_rng(most)
    rank, is_wrong = rng.integers(0, most, 200), rng.random(200) < 0.3
    assert auroc(rank, is_wrong) == pytest.approx(roc_auc_score(is_wrong, -rank), abs=1e-12)
    assert average_precision(rank, is_wrong) == pytest.approx(average_precision_score(is_wrong, -rank), abs=1e-12)


def test_pairs_are_the_largest_counts_off_the_diagonal():
    pairs = confused_pairs(np.array([[9.0, 4.0], [1.0, 6.0]]), ("a", "b"), most=5)
    assert [(pair.given, pair.true, pair.num_labels) for pair in pairs] == [("b", "a", 4.0), ("a", "b", 1.0)]
    assert pairs[0].share_of_given == pytest.approx(0.4)


def test_a_cap_takes_the_likeliest_of_each_class():
    given, wanted = np.array(list("aaaab")), np.array([1, 1, 1, 0, 1], dtype=bool)
    p_wrong = np.array([0.6, 0.9, 0.8, 0.1, 0.7])
    among = np.ones(len(given), dtype=bool)
    assert capped(wanted, given, p_wrong, 0.5, among).tolist() == [False, True, True, False, False]
    assert capped(wanted, given, p_wrong, None, among).tolist() == wanted.tolist()
    assert losing_classes(given, wanted, ("a", "b", "c")) == {"a": (3, 4), "b": (1, 1)}


@pytest.mark.parametrize("value", [-0.1, 1.5])
def test_a_share_is_between_0_and_1(value):
    with pytest.raises(ConfigError, match=f"class_cap={value}: expected a number from 0 to 1"):
        check_share("class_cap", value)


def test_calibration_error_is_the_mean_gap_over_bins_of_equal_counts():
    p_wrong = np.array([0.1, 0.3, 0.8, 1.0])
    is_wrong = np.array([False, False, True, True])
    assert calibration_error(p_wrong, is_wrong, num_bins=2) == pytest.approx((0.2 + 0.1) / 2)
    assert calibration_error(p_wrong, is_wrong, num_bins=1) == pytest.approx(0.05)
