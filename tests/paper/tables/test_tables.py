"""Tables from finished runs; what was not run is empty."""

import csv
import io
from pathlib import Path

import pytest

import surelabel
from surelabel.api import make_config
from surelabel.paper.result_formats import write_table
from surelabel.paper.results import choose_value, make_table
from surelabel.paper.tables import Trial, plan_trials
from surelabel.paper.tables.preset import TEST_ACCURACY, Measure
from surelabel.runs.run_dir import RunDir


def epoch(number, top1, **more):
    return {"epoch": number, "tests": {"test": {"top1": top1, "top5": top1 + 0.1}}, **more}


EPOCHS = [
    epoch(1, 0.5, validation={"top1": 0.6}, correction_accuracy=0.7),
    epoch(2, 0.8, validation={"top1": 0.5}, correction_accuracy=0.8),
    epoch(3, 0.7, correction_accuracy=0.9),
    {"epoch": 4},
]


@pytest.mark.parametrize(
    ("rule", "value"), [("last", 70), ("best_validation", 50), ("best_test", 80), ("best_clean_validation", None)]
)
def test_rules_choose_an_epoch(rule, value):
    assert choose_value(EPOCHS, TEST_ACCURACY, rule) == (None if value is None else pytest.approx(value))


def test_clothing1m_is_read_where_clean_validation_is_best():
    rows = [{"epoch": n, "tests": {"test": {"top1": t}, "clean_validation": {"top1": v}}} for n, t, v in
            [(1, 0.7, 0.5), (2, 0.6, 0.9), (3, 0.8, 0.4)]]  # fmt: skip
    assert choose_value(rows, TEST_ACCURACY, "best_clean_validation") == pytest.approx(60)


def test_other_test_sets_and_measures():
    assert choose_value(EPOCHS, Measure("x", "x", metric="top5"), "last") == pytest.approx(80)
    assert choose_value(EPOCHS, Measure("x", "x", "ilsvrc12"), "last") is None
    assert choose_value(EPOCHS, Measure("x", "x", None, "correction_accuracy"), "last") == pytest.approx(90)
    assert choose_value([], TEST_ACCURACY, "last") is None


def test_an_earlier_stage_is_never_the_best():
    rows = [epoch(1, 0.9, stage="estimate"), epoch(2, 0.5, stage="train"), epoch(3, 0.4, stage="train")]
    assert choose_value(rows, TEST_ACCURACY, "best_test") == pytest.approx(50)


@pytest.fixture
def some_runs(tmp_path, pretend):
    """Four cells: two of three seeds done; one done and one interrupted; two without runs."""
    trials = plan_trials("table1", only={"method": ["car", "cross_entropy"], "noise": ["symmetric:0.4"]})
    mine = {method: [t for t in trials if t.cell["data"] == "cifar10" and t.cell["method"] == method] for method in
            ("car", "cross_entropy")}  # fmt: skip
    for trial, top1 in zip(mine["car"][:2], (0.9, 0.94), strict=True):
        pretend(tmp_path / "runs" / trial.name, trial.config, [epoch(1, 0.95), epoch(2, top1)])
    first, second, _ = mine["cross_entropy"]
    pretend(tmp_path / "runs" / first.name, first.config, [epoch(1, 0.8)])
    pretend(tmp_path / "runs" / second.name, second.config, [epoch(1, 0.1)], done=False)
    return trials, tmp_path


def test_cells_have_mean_deviation_and_difference(some_runs):
    trials, folder = some_runs
    made = make_table("table1", trials, folder)
    entries = {(entry.cell["data"], entry.cell["method"]): entry for entry in made.entries}
    car = entries["cifar10", "car"]
    last, best = car.summaries["last"], car.summaries["best_test"]
    assert (last.mean, last.std, last.num_seeds) == (pytest.approx(92), pytest.approx(2.828, abs=1e-3), 2)
    assert (best.mean, best.std) == (pytest.approx(95), pytest.approx(0))
    assert car.summaries["best_validation"] is None
    assert (car.num_done, car.num_planned) == (2, 3)
    assert car.difference("last") == pytest.approx(92 - 93.49)
    ce = entries["cifar10", "cross_entropy"]
    assert (ce.summaries["last"].mean, ce.summaries["last"].std, ce.num_done) == (pytest.approx(80), None, 1)
    assert [number.mean for number in ce.published] == [78.26, 81.88]  # our protocol's first
    empty = entries["cifar100", "car"]
    assert empty.num_done == 0
    assert set(empty.summaries.values()) == {None}
    assert empty.difference("last") is None


def test_original_protocol_compares_with_the_original_number(some_runs):
    trials, folder = some_runs
    made = make_table("table1", trials, folder, protocol="original")
    ce = next(e for e in made.entries if e.cell["data"] == "cifar10" and e.cell["method"] == "cross_entropy")
    assert [number.mean for number in ce.published] == [81.88, 78.26]


def test_three_formats_and_empty_cells(some_runs, tmp_path):
    trials, folder = some_runs
    paths = write_table(make_table("table1", trials, folder), tmp_path / "tables")
    assert [path.name for path in paths] == ["table1.md", "table1.csv", "table1.tex"]
    markdown, text, latex = (path.read_text(encoding="utf-8") for path in paths)
    rows = {(row["data"], row["method"]): row for row in csv.DictReader(io.StringIO(text))}
    car, empty = rows["cifar10", "car"], rows["cifar100", "car"]
    assert (car["last_mean"], car["last_std"], car["difference"]) == ("92.00", "2.83", "-1.49")
    assert (car["protocol"], car["published_protocol"], car["num_done"], car["num_planned"]) == ("car", "car", "2", "3")
    assert (empty["last_mean"], empty["last_std"], empty["best_test_mean"], empty["difference"]) == ("", "", "", "")
    assert empty["published_mean"] == "75.38"
    assert "81.88" in rows["cifar10", "cross_entropy"]["also_published"]
    assert "92.00 ± 2.83 (2) / 93.49 ± 0.07, -1.49 |" in markdown
    assert "| / 75.38 ± 0.08 |" in markdown
    assert "(oracle)" in markdown
    assert "CAR as in the paper's text." in markdown
    assert "full protocol" not in markdown
    (scaled, *_) = write_table(make_table("table1", trials, folder, scale="small"), tmp_path / "scaled")
    assert "full protocol" in scaled.read_text(encoding="utf-8")
    assert r"92.00 $\pm$ 2.83 (2) [93.49 $\pm$ 0.07, -1.49]" in latex
    assert r"cross\_entropy" in latex


def test_equal_runs_show_twice(tmp_path, pretend):
    only = {"data": ["cifar10"], "noise": ["symmetric:0.4"], "variant": ["car", "without_reverse_term"], "seed": ["0"]}
    trials = plan_trials("ablation", only=only)
    assert len(trials) == 2
    pretend(tmp_path / "runs" / trials[0].name, trials[0].config, [epoch(1, 0.9)])
    made = make_table("ablation", trials, tmp_path)
    assert [entry.summaries["last"].mean for entry in made.entries] == [pytest.approx(90)] * 2


def test_a_table_of_nothing_is_empty(tmp_path):
    for name in ("table1", "table2", "table3", "ablation", "strategies", "correction", "sensitivity"):
        trials = plan_trials(name)
        made = make_table(name, trials, tmp_path)
        assert all(summary is None for entry in made.entries for summary in entry.summaries.values())
        assert len(write_table(made, tmp_path / "tables")) == 3


def test_a_real_run_is_read(tmp_path: Path):
    (planned_trial,) = plan_trials("correction", only={"data": ["cifar10"], "noise": ["symmetric:0.4"], "seed": ["0"]})
    options = planned_trial.config.method.options
    small = {
        "method.options": {**options, "correction_start": 1},
        "data.source": "digits",
        "train.epochs": 1,
        "train.device": "cpu",
        "train.threads": 1,
        "model.name": "mlp",
        "optimiser.schedule": {"kind": "cosine"},
    }
    config = make_config(planned_trial.config, small)
    trial = Trial(planned_trial.cell, config)
    run = surelabel.fit(config, tmp_path / "runs" / trial.name)
    (entry,) = make_table("correction", [trial], tmp_path).entries
    assert entry.summaries["last"].mean == pytest.approx(100 * run.metrics()[-1]["correction_accuracy"])


def test_published_cells_without_a_known_protocol_keep_their_number(tmp_path):
    trials = plan_trials("table1", protocol="original")
    cell = {"method": "bootstrap", "data": "cifar10", "noise": "symmetric:0.4"}
    assert cell not in [dict(trial.cell) for trial in trials]
    whole = make_table("table1", trials, tmp_path, protocol="original", with_unplanned=True)
    (entry,) = [entry for entry in whole.entries if dict(entry.cell) == cell]
    assert entry.num_planned == 0
    assert entry.published
    assert entry.difference("last") is None
    assert len(whole.entries) == len({tuple(sorted(entry.cell.items())) for entry in whole.entries})
    markdown, text = (path.read_text(encoding="utf-8") for path in write_table(whole, tmp_path / "tables")[:2])
    rows = list(csv.DictReader(io.StringIO(text)))
    assert {row["data"] for row in rows} == {"cifar10", "cifar100"}
    assert {row["method"] for row in rows} >= {"bootstrap", "car"}
    (row,) = [row for row in rows if {key: row[key] for key in cell} == cell]
    assert row["published_mean"] == "82.23"
    assert "| cifar10 | symmetric:0.4 | bootstrap | test accuracy | 0 of 0 |" in markdown


def test_a_run_that_is_refused_fills_no_cell(some_runs):
    """A run of another configuration, with unreadable metrics or of another schema is left out."""
    trials, folder = some_runs
    mine = [trial for trial in trials if trial.cell["data"] == "cifar10" and trial.cell["method"] == "car"]
    other = make_config(mine[0].config, {"train.epochs": 7})
    RunDir(folder / "runs" / mine[0].name).write_json("config.json", other.model_dump(mode="json"))
    (entry,) = make_table("table1", mine, folder).entries
    assert (entry.num_done, entry.summaries["last"].mean) == (1, pytest.approx(94))
    place = folder / "runs" / mine[1].name
    (place / "metrics.jsonl").write_text('{"epoch": 1\n{"epoch": 2}\n')
    (entry,) = make_table("table1", mine, folder).entries
    assert (entry.num_done, entry.summaries["last"]) == (0, None)
    RunDir(place).write_json("data.json", {"schema": -1})
    assert make_table("table1", mine, folder).entries[0].num_done == 0
