"""With default settings, an export never makes labels worse on runs with known true labels."""

import csv
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import surelabel
from surelabel.runs.decisions import Journal, Wish
from surelabel.runs.run_dir import OPINION_FILE, RunDir
from surelabel.training.second_opinion import judge_by_training


def exported(run):
    with (run / "export" / "cleaned.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def shares_right(run):
    """Return the fraction of right labels before and after the export of a stored run."""
    labels = RunDir(run).labels()
    names = np.array(RunDir(run).data()["class_names"])
    clean, given = names[labels["clean"].to_numpy()], names[labels["given"].to_numpy()]
    after = np.array([row["label"] for row in exported(run)])
    return (given == clean).mean(), (after == clean).mean()


def replace_columns(run, table, **columns):
    file = run / f"{table}.parquet"
    content = pq.read_table(file)
    for name, values in columns.items():
        place = content.column_names.index(name)
        content = content.set_column(place, name, pa.array(values, content.schema.field(name).type))
    RunDir(run).write(file.name, lambda path: pq.write_table(content, path))


class TestWeakNetwork:
    def test_nothing_is_changed_and_the_reason_is_named(self, stored, done):
        run = stored("photos")
        text = done("export", run)
        before, after = shares_right(run)
        assert after == before == pytest.approx(0.774)
        assert {row["decided_by"] for row in exported(run)} == {"nobody"}
        assert "between 8 and 49 %" in text
        assert "240 review first" in text
        assert "surelabel review photos" in text

    def test_accepting_everything_is_an_option_and_does_harm_here(self, stored, done):
        run = stored("photos")
        found = json.loads(done("export", run, "--accept", "all", "--json"))
        before, after = shares_right(run)
        assert found["changed_by_model"] > 100
        assert after < before

    def test_python_is_as_careful(self, stored):
        audit = surelabel.audit(stored("photos"))
        given = audit.to_frame().sort_values("row").given
        assert (audit.corrected() == given).all()
        assert (audit.corrected(accept="all") != given).any()


class TestStrongNetwork:
    def test_digits_are_corrected(self, stored, done):
        run = stored("digits")
        found = json.loads(done("export", run, "--json"))
        before, safe = shares_right(run)
        done("export", run, "--accept", "all")
        _, everything = shares_right(run)
        assert (before, safe) == (pytest.approx(0.798, abs=0.001), pytest.approx(0.975, abs=0.002))
        assert safe == pytest.approx(everything, abs=0.001)  # of 320 suggestions one is not safe
        assert found["changed_by_model"] == 319
        assert found["doubt"] is None

    def test_counts_add_up_to_the_rows(self, stored, done):
        run = stored("digits")
        rows = exported(run) if done("export", run) else []
        suspects = [row for row in rows if row["decided_by"] == "nobody" and float(row["p_wrong"]) >= 0.5]
        for wish in (
            Wish(suspects[0]["id"], suspects[0]["given"], "keep"),
            Wish("0", rows[0]["given"], "relabel", "9"),
        ):
            Journal(run / "decisions.jsonl").append([wish])
        found = json.loads(done("export", run, "--json"))
        parts = ("changed_by_model", "changed_by_person", "confirmed_by_person", "review_first", "kept")
        assert sum(found[name] for name in parts) == found["rows"] == len(rows)
        assert (found["changed_by_person"], found["confirmed_by_person"]) == (1, 1)
        again = exported(run)  # decisions update P(wrong) of other rows, too
        assert found["review_first"] == sum(
            row["decided_by"] == "nobody" and float(row["p_wrong"]) >= 0.5 for row in again
        )
        text = done("export", run)
        assert "After 2 decisions: about" in text
        assert all(f"{found[name]:,} {name.replace('_', ' ')}" in text for name in parts)

    def test_expected_right_labels_are_near_the_truth(self, stored, done):
        run = stored("digits")
        found = json.loads(done("export", run, "--json"))
        before, after = (share * found["rows"] for share in shares_right(run))
        assert found["expected_right_before"] == pytest.approx(before, rel=0.05)
        assert found["expected_right_after"] == pytest.approx(after, rel=0.05)
        least, most = found["expected_right_between"]
        assert least <= after <= most
        assert least < found["expected_right_after"] < most
        assert f"{found['expected_right_before']:,.0f} before" in done("export", run)

    def test_a_decision_counts_as_right(self, stored, done):
        run = stored("digits")
        first = json.loads(done("export", run, "--accept", "all", "--class-cap", "0", "--json"))
        row = exported(run)[0]
        other = "1" if row["given"] != "1" else "2"
        Journal(run / "decisions.jsonl").append([Wish(row["id"], row["given"], "relabel", other)])
        second = json.loads(done("export", run, "--accept", "all", "--class-cap", "0", "--json"))
        doubts = [float(one["p_wrong"]) for one in exported(run) if one["id"] != row["id"]]
        assert second["expected_right_before"] == pytest.approx(len(doubts) - sum(doubts), abs=0.01)
        assert second["expected_right_after"] == pytest.approx(len(doubts) - sum(doubts) + 1, abs=0.01)
        assert second["expected_right_before"] < first["expected_right_before"]


class TestClasses:
    def test_a_class_that_the_network_does_not_know_keeps_its_labels(self, stored, done):
        run = stored("imbalanced")
        done("export", run, "--accept", "all")
        assert sum(row["label"] == "4" for row in exported(run)) == 0
        text = done("export", run)
        kept = [row for row in exported(run) if row["given"] == "4"]
        assert len(kept) == 23
        assert all(row["label"] == "4" for row in kept)
        before, after = shares_right(run)
        assert after > before + 0.03
        assert "review first" in text

    @pytest.mark.parametrize(("cap", "most"), [("0.1", 0.1), (None, 0.5)])
    def test_no_class_loses_more_than_the_cap(self, stored, done, cap, most):
        run = stored("digits")
        done("export", run, *(() if cap is None else ("--class-cap", cap)))
        rows = exported(run)
        for name in {row["given"] for row in rows}:
            group = [row for row in rows if row["given"] == name]
            assert sum(row["label"] != name for row in group) <= most * len(group)

    @pytest.mark.parametrize("accept", ["safe", "all"])
    def test_the_cap_counts_only_rows_that_may_change(self, stored, done, accept):
        run = stored("digits")
        done("export", run, "--accept", "all")
        untouched = [row["changed"] == "False" and row["given"] == "2" for row in exported(run)]
        for table in ("labels", "samples"):
            replace_columns(run, table, split=np.where(untouched, "validation", "train"))
        done("export", run, "--accept", accept, "--class-cap", "0.5")
        rows = [row for row in exported(run) if row["given"] == "2" and row["split"] == "train"]
        assert len(rows) > 20
        assert sum(row["label"] != "2" for row in rows) <= len(rows) / 2


class TestHeldOut:
    @pytest.fixture
    def run(self, stored):
        """Digits, of which every third row was held out."""
        run = stored("digits")
        split = np.where(np.arange(1797) % 3 == 0, "validation", "train")
        for table in ("labels", "samples"):
            replace_columns(run, table, split=split)
        return run

    def changed(self, run, split):
        return sum(row["changed"] == "True" for row in exported(run) if row["split"] == split)

    def test_held_out_labels_are_left_alone_unless_asked_for(self, run, done, call):
        done("export", run)
        assert (self.changed(run, "validation"), self.changed(run, "train") > 200) == (0, True)
        done("export", run, "--rewrite", "validation")
        assert self.changed(run, "validation") > 80
        failed = call("export", run, "--rewrite", "test")
        assert failed.exit_code == 2
        assert "no split 'test'; there are train, validation" in failed.stderr

    def test_all_leaves_them_alone_too(self, run, done):
        done("export", run, "--accept", "all")
        assert self.changed(run, "validation") == 0

    def test_a_persons_decision_holds_everywhere(self, run, done):
        done("export", run)
        row = next(row for row in exported(run) if row["split"] == "validation")
        other = "1" if row["given"] != "1" else "2"
        Journal(run / "decisions.jsonl").append([Wish(row["id"], row["given"], "relabel", other)])
        done("export", run)
        assert self.changed(run, "validation") == 1


def test_labels_that_nothing_told_apart_are_left_alone(stored, done):
    run = stored("digits")
    rng = np.random.default_rng(0)
    columns = {"quality": rng.uniform(0.2, 0.8, 1797), "first_learned": rng.integers(1, 200, 1797)}
    found = judge_by_training({**columns, "verdict": np.full(1797, "training")})
    RunDir(run).write_json(OPINION_FILE, found.description)
    replace_columns(run, "samples", **columns, **found.columns)
    text = done("export", run)
    assert " 0 changed by model" in text
    assert "No suggestion was accepted: " in text
    assert Path("digits/export/cleaned.csv").is_file()


@pytest.mark.parametrize("word", ["some", "SAFE", ""])
def test_other_words_are_refused(stored, call, word):
    failed = call("export", stored("digits"), "--accept", word)
    assert failed.exit_code == 2
    assert "expected safe or all" in failed.stderr
