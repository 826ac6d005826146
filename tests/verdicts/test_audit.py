"""`surelabel.audit(run)`: its table, figures and sentences."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.verdicts.conftest import NAMES, write_verdict

import surelabel
from surelabel.errors import ConfigError, RunError
from surelabel.runs.run_dir import OPINION_FILE
from surelabel.verdicts import Audit, curve
from surelabel.verdicts.evidence import HELD_OUT, TRAINED


def write_samples(run, table):
    run.write("samples.parquet", lambda path: pq.write_table(table, path))


def read_columns(run):
    """Return the columns of samples.parquet as arrays that may be changed."""
    columns = run.samples().drop_columns(["p_wrong", "p_wrong_low", "p_wrong_high"]).to_pydict()
    return {name: np.array(values) for name, values in columns.items()}


def test_the_table_is_ranked_by_p_wrong_and_says_all(run_of):
    table = surelabel.audit(run_of())
    assert len(table) == 600
    assert (np.diff(table.columns["p_wrong"]) <= 0).all()
    row = next(table.head(1))
    assert " ".join(row).startswith("rank row id given suggested target quality p_wrong suggested_probability")
    assert {"tau", "first_learned", "forgotten", "mean_margin", "prediction"} <= set(row)
    assert row["rank"] == 1
    assert row["given"] in NAMES
    frame = table.to_frame()
    assert list(frame["p_wrong"]) == table.columns["p_wrong"].tolist()
    assert table.table.num_rows == 600


class TestStoredCalibration:
    """P(wrong) is fitted once, when training ends, and read afterwards."""

    def test_nothing_is_fitted_again(self, run_of, monkeypatch):
        run = run_of(num_rows=900, held_out=300)
        columns = {name: run.samples()[name].to_numpy() for name in ("quality", "verdict", "first_learned")}
        expected = curve.calibrate(columns)
        monkeypatch.setattr(curve, "fit_curve", lambda *_: pytest.fail("fitted again"))
        table = surelabel.audit(run)
        np.testing.assert_array_equal(table.p_wrong, expected.p_wrong)
        rows, order = slice(0, 250), table.columns["row"]
        assert table.calibration.interval(rows, 0.95) == expected.reorder(order).interval(rows, 0.95)

    def test_the_column_is_what_counts(self, run_of):
        run = run_of()
        samples = run.samples()
        values = pa.array(np.where(np.arange(600) == 7, 0.999, 0.25))
        place = samples.column_names.index("p_wrong")
        write_samples(run, samples.set_column(place, "p_wrong", values))
        table = surelabel.audit(run)
        assert table.columns["id"][0] == "row/00007"
        assert table.noise_rate.num_wrong == pytest.approx(0.25 * 599 + 0.999)

    def test_bounds_are_stored_beside_it(self, run_of):
        samples = run_of().samples()
        low, p_wrong, high = (samples[name].to_numpy() for name in ("p_wrong_low", "p_wrong", "p_wrong_high"))
        assert (low >= 0).all()
        assert (low <= p_wrong).all()
        assert (p_wrong <= high).all()
        assert (high <= 1).all()

    @pytest.mark.parametrize("content", [b"", b"[]", b'{"separated": [true]}', b'{"separated": {"training": 1}}'])
    def test_a_damaged_file_is_named(self, run_of, content):
        run = run_of()
        run.write_stream(OPINION_FILE, lambda out: out.write(content))
        with pytest.raises(RunError, match=r"second_opinion\.json: (not readable|separated: expected true or false)"):
            surelabel.audit(run)

    def test_whether_labels_came_apart_is_stored_by_kind_of_verdict(self, run_of):
        run = run_of(num_rows=900, held_out=300)
        samples = read_columns(run)
        trained = samples["verdict"] == TRAINED
        samples["quality"][trained] = np.random.default_rng(0).uniform(0.2, 0.8, 600)
        samples["first_learned"][trained] = 3
        write_verdict(run, samples)
        assert run.second_opinion() == {"separated": {TRAINED: False, HELD_OUT: True}}
        table = surelabel.audit(run)
        assert not table.is_calibrated
        (text,) = [text for text in table.warnings if "a rank, not a probability" in text]
        assert text.startswith("The labels do not fall")


@pytest.mark.parametrize("rate", [0.1, 0.4])
def test_rates_come_with_intervals_that_hold_the_truth(run_of, rate):
    table = surelabel.audit(run_of(rate=rate, knows_truth=False))
    assert "clean" not in table.columns
    assert table.noise_rate.rate == pytest.approx(rate, abs=0.03)
    low, high = table.noise_rate.interval
    assert low <= rate <= high
    assert high - low < 0.2
    for name in NAMES:
        found = table.class_rates[name]
        assert found.interval[0] <= found.rate <= found.interval[1]
    assert sum(found.num_wrong for found in table.class_rates.values()) == pytest.approx(table.noise_rate.num_wrong)


def test_the_transition_matrix_and_the_confused_pairs(run_of):
    table = surelabel.audit(run_of(rate=0.4))
    real = 0.6 * np.eye(4) + 0.4 * np.roll(np.eye(4), 1, axis=1)
    assert np.abs(table.transition_matrix - real).max() < 0.08
    assert {(pair.true, pair.given) for pair in table.confused_pairs(4)} == {
        (NAMES[at], NAMES[(at + 1) % 4]) for at in range(4)
    }


def test_a_label_is_counted_once_however_little_is_known_of_other_classes(run_of):
    run = run_of(rate=0.4)
    table = run.samples()
    given = table["given"].to_numpy()
    soft = np.eye(4, dtype=np.float32)[given]
    soft[np.arange(600), (given + 1) % 4] = 1e-41  # so small that its own reciprocal is no float32
    rows = {"suggested": pa.array(given), "target": pa.array(soft.tolist()), "probability": pa.array(soft.tolist())}
    for name, values in rows.items():
        place = table.column_names.index(name)
        table = table.set_column(place, name, values.cast(table.schema.field(name).type))
    write_samples(run, table)
    assert surelabel.audit(run).joint_counts.sum(0) == pytest.approx(np.bincount(given))


def test_a_budget_says_what_to_expect(run_of):
    table = surelabel.audit(run_of(rate=0.3))
    is_wrong = table.columns["given"] != table.columns["clean"]
    for budget in (50, 150, 400):
        plan = table.expected(budget)
        assert plan.low <= is_wrong[:budget].sum() <= plan.high
        assert plan.num_wrong == pytest.approx(is_wrong[:budget].sum(), rel=0.1)
        assert plan.precision == pytest.approx(plan.num_wrong / budget)
        assert plan.recall == pytest.approx(is_wrong[:budget].sum() / is_wrong.sum(), abs=0.05)
    assert table.expected(10**6).budget == len(table)
    with pytest.raises(ConfigError, match="budget=-1"):
        table.expected(-1)


def test_flagged_rows_by_budget_or_probability(run_of):
    table = surelabel.audit(run_of())
    assert table.flagged(budget=7).columns["rank"].tolist() == [1, 2, 3, 4, 5, 6, 7]
    assert len(table.flagged()) == table.num_suspicious == (table.p_wrong >= 0.5).sum()
    assert len(table.flagged(min_probability=0.9)) == (table.p_wrong >= 0.9).sum()
    with pytest.raises(ConfigError, match="give one of them"):
        table.flagged(budget=3, min_probability=0.5)


def test_corrected_labels_stand_in_the_order_of_the_data(run_of):
    run = run_of(rate=0.3)
    table = surelabel.audit(run)
    labels = run.labels()
    given, clean = (np.array(NAMES)[labels[name].to_numpy()] for name in ("given", "clean"))
    corrected = table.corrected(min_probability=0.5)
    assert (corrected == clean).mean() > 0.97 > (given == clean).mean()
    differs = table.columns["suggested"] != table.columns["given"]
    assert (corrected != given).sum() == (table.ranked(table.is_suspicious) & differs).sum()
    none = table.corrected(class_cap=0.0)
    assert (none == given).all()
    few = table.corrected(class_cap=0.1)
    for name in NAMES:
        rows = given == name
        assert (few != given)[rows].sum() == int(0.1 * rows.sum())


def test_other_thresholds_need_no_training(run_of):
    run = run_of()
    strict, loose = (surelabel.audit(run, min_probability=limit) for limit in (0.99, 0.1))
    assert strict.num_suspicious <= loose.num_suspicious
    assert strict.p_wrong.tolist() == loose.p_wrong.tolist()
    with pytest.raises(ConfigError, match="min_probability=2"):
        surelabel.audit(run, min_probability=2)
    with pytest.raises(ConfigError, match="confidence=1"):
        surelabel.audit(run, confidence=1)


def test_a_class_that_would_be_lost_is_named(tmp_path, run_of):
    run = run_of(rate=0.1)
    samples = read_columns(run)
    rare = (samples["given"] == 3) & (np.arange(600) % 10 != 0)
    for name, value in (("quality", 0.02), ("first_learned", 30), ("suggested", 0)):
        samples[name][rare] = value
    write_verdict(run, samples)
    audit = surelabel.audit(run)
    assert list(audit.losing) == ["owl"]
    assert any("labels 'owl'" in text and "cap the changes" in text for text in audit.warnings)


def unfitted(given, suggested, quality, names) -> Audit:
    """Return an audit of rows without a run: P(wrong) is 1 - quality."""
    columns = {"id": np.arange(len(given)).astype(str), "given": given, "suggested": suggested, "prediction": given}
    return Audit({**columns, "quality": quality, "verdict": np.full(len(given), "training")}, names)


@pytest.mark.parametrize(("count", "end"), [(5, ""), (9, " and 4 more")])
def test_of_many_classes_that_would_be_lost_the_first_are_named_and_all_are_in_the_summary(count, end):
    names = tuple(f"c{number}" for number in range(count + 1))
    given = np.repeat(names, [900, *[10] * count])
    audit = unfitted(given, np.full(len(given), "c0"), np.where(given == "c0", 0.99, 0.01), names)
    (text,) = [text for text in audit.warnings if f"most labels of {count} classes" in text]
    named = ", ".join(f"'c{number}' 10 of 10" for number in range(1, 6))
    assert f"{named}{end}. Look at" in text
    losing = audit.summary()["losing_classes"]
    assert losing == {name: {"labels": 10, "changed": 10} for name in names[1:]}


def test_more_than_half_probably_wrong_is_not_more_than_half_that_look_wrong():
    given, quality = np.repeat(["a", "b"], 50), np.where(np.arange(100) < 45, 0.05, 0.8)
    audit = unfitted(given, given, quality, ("a", "b"))
    assert audit.num_suspicious == 45
    assert any(text.startswith("More than half of the labels are probably wrong") for text in audit.warnings)


def test_held_out_rows_have_a_curve_of_their_own_and_trusted_ones_are_right(run_of):
    run = run_of(num_rows=900, held_out=300)
    table = surelabel.audit(run)
    assert table.calibration.separated == {TRAINED: True, HELD_OUT: True}
    assert table.measures()["calibration_error"] < 0.03
    samples = read_columns(run)
    samples["verdict"][:50] = "trusted"
    write_verdict(run, samples)
    table = surelabel.audit(run)
    assert (table.columns["p_wrong"][table.columns["verdict"] == "trusted"] == 0).all()
    assert set(table.columns["verdict"][-50:]) == {"trusted"}


def test_measures_where_the_truth_is_known(run_of):
    found = surelabel.audit(run_of(rate=0.3)).measures()
    assert found["wrong_labels"] == pytest.approx(0.3)
    assert found["estimated_wrong_labels"] == pytest.approx(0.3, abs=0.03)
    assert found["quality_auroc"] > 0.99
    assert found["average_precision"] > 0.98
    assert found["calibration_error"] < 0.03
    assert found["suggested_accuracy"] == 1
    assert found["transition_error"] < 0.05
    assert surelabel.audit(run_of(knows_truth=False)).measures() == {}


def test_the_summary_is_plain_and_the_sentences_give_the_numbers(run_of):
    table = surelabel.audit(run_of(rate=0.3))
    content = json.loads(json.dumps(table.summary(), allow_nan=False))
    assert content["rows"] == 600
    assert content["noise_rate"] == pytest.approx(0.3, abs=0.03)
    assert len(content["transition_matrix"]) == 4
    text = " ".join(table.sentences())
    assert f"About {table.noise_rate.num_wrong:.0f} of 600 labels contradict the other rows" in text
    assert f"Look at the first {table.num_suspicious}: about 180 are wrong (between " in text
    assert "calibration error" in text
    assert table.warnings == []


def test_where_groups_do_not_come_apart_the_audit_says_so(run_of):
    table = surelabel.audit(run_of(rate=0.0))
    assert not table.is_calibrated
    assert any("do not fall into right and wrong ones" in text for text in table.warnings)
    few = surelabel.audit(run_of(num_rows=30))
    assert any("Only 30 labels: too few to calibrate" in text for text in few.warnings)


@pytest.mark.training
@pytest.mark.parametrize("rate", [0.2, 0.4])
def test_a_trained_run_knows_how_many_of_its_labels_are_wrong(tmp_path, rate):
    settings = {
        "noise": {"kind": "symmetric", "rate": rate},
        "method": {"name": "car", "options": {"penalty_weight": 0.2}},
        "optimiser": {"rate": 0.05, "schedule": {"kind": "cosine"}},
        "train": {"epochs": 100, "batch_size": 64, "threads": 1, "device": "cpu", "seed": 3},
    }
    found = surelabel.audit(surelabel.fit("digits", tmp_path / "run", settings=settings)).measures()
    assert found["estimated_wrong_labels"] == pytest.approx(rate, abs=0.05)
    assert found["calibration_error"] < 0.05
