"""Damaged or edited files of a finished run without checksums: one line that names the file."""

import json
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from surelabel.errors import RunError
from surelabel.runs import tables
from surelabel.runs.run_dir import RunDir

NO = "<the field is missing>"


@pytest.fixture
def run(runs, tmp_path, monkeypatch):
    """Copy the finished run, without its checksums, and the data beside it."""
    shutil.copytree(runs / "done", tmp_path / "done")
    shutil.copy(runs / "data.npz", tmp_path)
    (tmp_path / "done" / "checksums.json").unlink()
    monkeypatch.chdir(tmp_path)
    return tmp_path / "done"


@pytest.fixture
def refused(call):
    """Run a command that must end with one line that names a file and what is wrong with it."""

    def run(file, fault, *command):
        result = call(*command)
        assert result.exit_code == 2, result.output
        (line,) = [line for line in result.stderr.splitlines() if line.startswith("error: ")]
        assert line.startswith(f"error: done/{file}: ")
        assert fault in line

    return run


def edit(file, **fields):
    content = {**json.loads(file.read_text()), **fields}
    file.write_text(json.dumps({name: value for name, value in content.items() if value != NO}))


def change(file, change):
    pq.write_table(change(pq.read_table(file)), file)


def put(name, values):
    """Return a change of a table that puts other values into a column."""
    return lambda table: table.set_column(table.column_names.index(name), name, pa.array(values))


def without(name):
    return lambda table: table.drop_columns(name)


def with_value(name, value):
    """Return a change of a table that puts one other value into a column."""

    def change(table):
        kind = table.schema.field(name).type
        return put(name, pa.array([*table[name].to_pylist()[:-1], value], kind))(table)

    return change


@pytest.mark.parametrize("content", ["", None])
def test_a_finished_run_without_metrics(run, refused, content):
    (run / "metrics.jsonl").unlink() if content is None else (run / "metrics.jsonl").write_text(content)
    refused("metrics.jsonl", "no epoch", "resume", "done")


COMMANDS = [("audit", "done"), ("predict", "done", "data.npz"), ("export", "done"), ("report", "done")]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
@pytest.mark.parametrize("name", ["class_names", "fingerprint", "input_shape", "num_train", "num_validation"])
def test_a_field_of_the_data_that_is_missing(run, refused, command, name):
    edit(run / "data.json", **{name: NO})
    refused("data.json", f"{name}: field required", *command)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("class_names", None),
        ("class_names", []),
        ("class_names", "abc"),
        ("class_names", [1, 2, 3]),
        ("input_shape", None),
        ("input_shape", []),
        ("input_shape", [-6]),
        ("input_shape", ["6"]),
        ("stored_shape", [6, 6]),
        ("num_train", "75"),
        ("num_train", 75.5),
        ("num_validation", -1),
        ("fingerprint", 3),
        ("recorded", []),
        ("recorded", {"missing": 3}),
    ],
)
def test_a_field_of_the_data_with_a_wrong_value(run, refused, name, value):
    edit(run / "data.json", **{name: value})
    refused("data.json", f"{name}", "predict", "done", "data.npz")


def test_a_later_schema_is_named_whatever_else_it_has(run, call):
    (run / "data.json").write_text('{"schema": 3, "classes": []}')
    assert "run schema 3; this version reads 2" in call("audit", "done").stderr


TEXT, HALF = ["a"] * 75, [0.5] * 75


@pytest.mark.parametrize("command", [*COMMANDS[::2], COMMANDS[3]], ids=lambda command: command[0])
@pytest.mark.parametrize("name", ["samples", "labels"])
@pytest.mark.parametrize("num_rows", [0, 37])
def test_rows_that_are_missing(run, refused, command, name, num_rows):
    change(run / f"{name}.parquet", lambda table: table.slice(0, num_rows))
    refused(f"{name}.parquet", f"has {num_rows} rows; expected 75", *command)


@pytest.mark.parametrize("name", ["id", "split", "verdict", "given", "suggested", "quality", "p_wrong", "p_wrong_low"])
def test_a_column_of_the_samples_that_is_missing(run, refused, name):
    change(run / "samples.parquet", without(name))
    refused("samples.parquet", f"the column {name} is missing", "audit", "done")


@pytest.mark.parametrize("name", ["id", "given", "clean", "split"])
def test_a_column_of_the_labels_that_is_missing(run, refused, name):
    change(run / "labels.parquet", without(name))
    refused("labels.parquet", f"the column {name} is missing", "audit", "done")


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
@pytest.mark.parametrize("value", [99, -1])
def test_a_class_that_does_not_exist(run, refused, command, value):
    name = "labels" if command[0] == "predict" else "samples"
    change(run / f"{name}.parquet", with_value("given", value))
    refused(f"{name}.parquet", f"given: expected classes from 0 to 2, got {value}", *command)


@pytest.mark.parametrize(
    ("name", "damage", "fault"),
    [
        ("samples", with_value("given", None), "given: 1 of 75 values are missing"),
        ("samples", with_value("id", None), "id: 1 of 75"),
        ("samples", with_value("p_wrong", None), "p_wrong: 1 of 75"),
        ("samples", with_value("p_wrong", float("nan")), "p_wrong: some values are NaN"),
        ("samples", with_value("p_wrong", 1.5), "p_wrong: expected numbers from 0 to 1, got 1.5"),
        ("samples", put("p_wrong", TEXT), "p_wrong: expected numbers, got string"),
        ("samples", put("given", HALF), "given: expected numbers of classes, got double"),
        ("samples", put("id", HALF), "id: expected text, got double"),
        ("samples", put("probability", HALF), "probability: expected lists of numbers, got double"),
        ("samples", put("probability", [[0.5, 0.5]] * 75), "probability: expected values of 3 classes, got 2"),
        ("samples", put("target", [[1.0]] + [[0.5] * 3] * 74), "target: expected lists of equal length"),
        ("samples", put("target", [None] + [[0.5] * 3] * 74), "target: 1 of 75"),
        ("samples", put("is_outlier", HALF), "is_outlier: expected true or false"),
        ("samples", without("isolation"), "isolation is missing"),
        ("samples", put("id", TEXT), "ids differ from those in labels.parquet"),
        ("labels", with_value("clean", 99), "clean: expected classes from 0 to 2, got 99"),
        ("labels", lambda table: table.append_column("id", table["id"]), "not readable"),
    ],
)
def test_values_that_cannot_be(run, refused, name, damage, fault):
    change(run / f"{name}.parquet", damage)
    refused(f"{name}.parquet", fault, "audit", "done")


def test_clean_labels_may_be_unknown(run, done):
    change(run / "labels.parquet", with_value("clean", None))
    done("audit", "done")


def test_classes_of_the_largest_values_are_checked(runs):
    """More classes than are stored whole: their numbers are in a second column."""
    given, kept = np.zeros(2, np.int64), np.array([[0, 1], [0, 40]], np.int32)
    made = pa.table({"target": [[0.5, 0.5]] * 2, "target_classes": kept.tolist(), "given": given})
    tables._check_soft(made, "target", 41)
    with pytest.raises(ValueError, match="target_classes: expected classes from 0 to 39, got 40"):
        tables._check_soft(made, "target", 40)


def test_python_callers_get_the_same_error(run):
    change(run / "samples.parquet", with_value("given", 99))
    with pytest.raises(RunError, match=r"done/samples\.parquet: given"):
        RunDir.open("done").samples()
