"""What lists of several lengths hold, and how long a list is worth a look."""

import numpy as np
import pytest

import surelabel
from surelabel.verdicts.budget import expected, lengths, worth_a_look
from surelabel.verdicts.calibration import Calibration


class Bounds(Calibration):
    """A calibration whose intervals are the sums of the bounds, without chance."""

    def interval(self, rows, confidence):
        return float(self.low[rows].sum()), float(self.high[rows].sum())


def bounds(p_wrong, low, high) -> Bounds:
    return Bounds(*(np.array(values, dtype=np.float64) for values in (p_wrong, low, high)))


class TestExpected:
    def test_precision_and_recall_have_ranges(self):
        made = bounds([0.9, 0.7, 0.2, 0.2], [0.8, 0.4, 0.1, 0.1], [1, 0.8, 0.5, 0.5])
        plan = expected(made, 2, 0.95)
        assert (plan.num_wrong, plan.low, plan.high) == pytest.approx((1.6, 1.2, 1.8))
        assert (plan.precision, plan.precision_low, plan.precision_high) == pytest.approx((0.8, 0.6, 0.9))
        # Least: 1.2 of the list and 1.0 of the rest are wrong. Most: 1.8 and 0.2.
        assert (plan.recall, plan.recall_low, plan.recall_high) == pytest.approx((0.8, 1.2 / 2.2, 0.9))

    def test_rows_that_were_decided_on_do_not_count(self):
        made = bounds([0.5, 0.5, 1], [0.5, 0.5, 1], [0.5, 0.5, 1])
        assert expected(made, 1, 0.95, num_open=2).recall_low == pytest.approx(0.5)
        assert expected(made, 3, 0.95, num_open=2).budget == 2

    def test_a_list_of_everything_holds_everything(self):
        made = bounds([0.9, 0.1], [0, 0], [1, 1])
        plan = expected(made, 2, 0.95)
        assert (plan.recall_low, plan.recall, plan.recall_high) == (1, 1, 1)
        assert (plan.precision_low, plan.precision_high) == (0, 1)

    def test_an_empty_list_and_labels_that_are_all_right(self):
        assert expected(bounds([0.5], [0.2], [0.8]), 0, 0.95).precision == 0
        assert expected(bounds([0, 0], [0, 0], [0, 0]), 1, 0.95).recall == 1

    def test_estimates_are_inside_their_ranges(self, run_of):
        table = surelabel.audit(run_of(rate=0.2))
        plans = table.budgets()
        assert len(plans) > 2
        for plan in plans:
            assert plan.precision_low <= plan.precision <= plan.precision_high <= 1
            assert plan.recall_low <= plan.recall <= plan.recall_high <= 1


def falling(*parts):
    """Return P(wrong) of rows: (count, value) pairs."""
    return np.concatenate([np.full(count, value) for count, value in parts])


class TestLengths:
    def test_they_go_on_to_nearly_all_wrong_labels(self):
        p_wrong = falling((40, 0.99), (400, 0.2), (9560, 0.0005))
        found = lengths(p_wrong, 40)
        assert 40 in found
        assert found[-1] == 500 > 2 * 40
        assert len(found) <= 6
        assert p_wrong[:500].sum() >= 0.95 * p_wrong.sum()

    def test_they_end_where_more_labels_are_hardly_more_often_wrong_than_the_mean(self):
        assert lengths(falling((20, 0.9), (1980, 0.3)), 20)[-1] == 50
        assert lengths(falling((20, 0.9), (1980, 0.3)), 20, 300)[-1] == 500, "a special length is not the last"

    def test_many_lengths_are_thinned_out(self):
        found = lengths(falling((30_000, 0.99), (70_000, 0.001)), 30_000, 31_000)
        assert len(found) == 6
        assert (found[0], found[-1]) == (10, 50_000)

    def test_few_rows(self):
        assert lengths(np.array([0.9, 0.1])) == [2]
        assert lengths(np.array([])) == []
        assert lengths(np.zeros(15)) == [10]
        assert lengths(np.full(30, 0.9), 30) == [10, 20, 30]


class TestWorthALook:
    def measure(self, p_wrong, high):
        p_wrong = np.asarray(p_wrong)
        return worth_a_look(bounds(p_wrong, 0 * p_wrong, high), len(p_wrong), int((p_wrong >= 0.5).sum()), 0.5)

    def test_where_labels_come_apart_it_is_the_suspects(self):
        p_wrong = falling((203, 0.99), (797, 0.01))
        assert self.measure(p_wrong, p_wrong) == 203

    def test_labels_whose_p_wrong_may_be_high_make_it_longer(self):
        p_wrong = falling((8, 0.9), (229, 0.05), (1263, 0.001))
        assert self.measure(p_wrong, falling((237, 0.6), (1263, 0.2))) == 230
        assert self.measure(p_wrong, falling((8, 1), (229, 0.1), (1263, 0.002))) == 8

    def test_where_nothing_is_known_it_does_not_hold_everything(self):
        assert self.measure(np.full(1000, 0.3), np.ones(1000)) == 500
        assert self.measure(np.full(1000, 0.6), np.ones(1000)) == 1000, "these are suspects"

    def test_rows_that_were_decided_on_do_not_count(self):
        made = bounds([0.6, 0.4, 0.1, 1], [0, 0, 0, 1], [1, 1, 0.2, 1])
        assert worth_a_look(made, 3, 1, 0.5) == 1
        assert worth_a_look(made, 4, 1, 0.5) == 2

    def test_audits_say_it(self, run_of):
        table = surelabel.audit(run_of(rate=0.2))
        plan = table.worth_a_look
        assert plan.budget >= table.num_suspicious
        assert plan in table.budgets()
        assert f"Look at the first {plan.budget:,}: about {plan.num_wrong:,.0f} are wrong" in " ".join(
            table.sentences()
        )
        assert table.summary()["worth_a_look"] == plan.to_dict()
