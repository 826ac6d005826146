"""The run directory: whole files, one process at a time, and one-line errors."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from surelabel.config import RunConfig
from surelabel.errors import ConfigError, RunError
from surelabel.runs import checksums, tables
from surelabel.runs.run_dir import SCHEMA_VERSION, RunDir

DATA = {"schema": SCHEMA_VERSION, "class_names": ["a", "b"], "input_shape": [2], "fingerprint": ""}
DATA |= {"num_train": 1, "num_validation": 0}

HOLD = """
import sys
from pathlib import Path
from surelabel.runs import RunDir
with RunDir(sys.argv[1]).locked():
    print("held", flush=True)
    sys.stdin.readline()
"""


@pytest.fixture
def run(tmp_path) -> RunDir:
    return RunDir(tmp_path)


def names(run: RunDir) -> list[str]:
    return sorted(path.name for path in run.path.iterdir() if path.name != checksums.FILE_NAME)


def message(caught) -> str:
    text = str(caught.value)
    assert "\n" not in text
    return text


class TestWriting:
    def test_replaces_a_file_whole(self, run):
        run.write("a.txt", lambda path: path.write_text("old"))
        run.write("a.txt", lambda path: path.write_text("new"))
        assert (run.path / "a.txt").read_text() == "new"
        assert names(run) == ["a.txt"]

    def test_a_writer_that_fails_leaves_the_old_file_and_nothing_else(self, run):
        run.write("a.txt", lambda path: path.write_text("old"))

        def fail(path):
            path.write_text("half")
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            run.write("a.txt", fail)
        assert (run.path / "a.txt").read_text() == "old"
        assert names(run) == ["a.txt"]

    def test_the_old_file_is_there_while_the_new_one_is_written(self, run):
        run.write("a.txt", lambda path: path.write_text("old"))
        seen = []

        def look(path):
            path.write_text("new")
            seen.append((run.path / "a.txt").read_text())

        run.write("a.txt", look)
        assert seen == ["old"]

    def test_the_new_file_takes_the_old_ones_place_and_does_not_overwrite_it(self, run):
        run.write("a.txt", lambda path: path.write_text("old"))
        (run.path / "link.txt").hardlink_to(run.path / "a.txt")
        run.write("a.txt", lambda path: path.write_text("new"))
        assert (run.path / "link.txt").read_text() == "old"

    def test_a_first_write_that_fails_leaves_nothing(self, run):
        with pytest.raises(ZeroDivisionError):
            run.write("a.txt", lambda _: 1 / 0)
        assert names(run) == []

    def test_json_is_checked_before_it_is_written(self, run):
        run.write_json("data.json", DATA)
        for content in ({"x": float("nan")}, {"x": object()}):
            with pytest.raises((ValueError, TypeError)):
                run.write_json("data.json", content)
        assert run.data() == DATA


class TestLock:
    def test_another_process_is_refused_until_the_first_lets_go(self, run):
        holder = subprocess.Popen(
            [sys.executable, "-c", HOLD, str(run.path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        try:
            assert holder.stdout.readline() == "held\n"
            with pytest.raises(RunError, match="another process is training") as caught, run.locked():
                pytest.fail("the lock was given twice")
            assert str(run.path) in message(caught)
        finally:
            holder.communicate("\n", timeout=30)
        with run.locked():
            pass

    def test_a_process_that_dies_lets_go(self, run):
        holder = subprocess.Popen(
            [sys.executable, "-c", HOLD, str(run.path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert holder.stdout.readline() == "held\n"
        holder.kill()
        holder.communicate(timeout=30)
        with run.locked():
            pass

    def test_the_same_process_cannot_hold_it_twice(self, run):
        with run.locked(), pytest.raises(RunError), RunDir(run.path).locked():
            pytest.fail("the lock was given twice")

    def test_makes_the_folder(self, tmp_path):
        with RunDir(tmp_path / "a" / "b").locked():
            assert (tmp_path / "a" / "b").is_dir()


class TestOpening:
    def test_a_run(self, run):
        run.write_json("data.json", DATA)
        assert RunDir.open(run.path).path == run.path
        assert RunDir.open(str(run.path)).path == run.path

    @pytest.mark.parametrize("make", [False, True])
    def test_something_else(self, tmp_path, make):
        path = tmp_path / "other"
        if make:
            path.mkdir()
        with pytest.raises(RunError, match="not a run directory") as caught:
            RunDir.open(path)
        assert str(path) in message(caught)

    @pytest.mark.parametrize("content", [{"schema": 999}, {}])
    def test_another_schema(self, run, content):
        run.write_json("data.json", content)
        with pytest.raises(RunError, match="this version reads 2") as caught:
            RunDir.open(run.path)
        assert f"schema {content.get('schema')}" in message(caught)

    @pytest.mark.parametrize("text", ["{", "", "\x00\xff", "[1]", "3"])
    def test_a_damaged_description(self, run, text):
        (run.path / "data.json").write_text(text, encoding="latin-1")
        with pytest.raises(RunError, match=r"data\.json: not readable") as caught:
            RunDir.open(run.path)
        message(caught)


class TestMetrics:
    ROWS = tuple({"epoch": n, "terms": {"loss": n / 3}} for n in (1, 2, 3))

    def test_none_yet(self, run):
        assert run.metrics() == []

    def test_append(self, run):
        for row in self.ROWS:
            run.append_metrics(row)
        assert run.metrics() == list(self.ROWS)

    def test_rewrite_drops_what_the_state_has_not_reached(self, run):
        for row in self.ROWS:
            run.append_metrics(row)
        run.rewrite_metrics(self.ROWS[:2])
        assert run.metrics() == list(self.ROWS[:2])
        run.append_metrics(self.ROWS[2])
        assert run.metrics() == list(self.ROWS)

    def test_a_last_line_cut_short_by_a_crash_is_not_an_epoch(self, run):
        for row in self.ROWS:
            run.append_metrics(row)
        file = run.path / "metrics.jsonl"
        for cut in (1, 5, 20):
            file.write_text("".join(json.dumps(row) + "\n" for row in self.ROWS)[:-cut])
            assert run.metrics()[:2] == list(self.ROWS[:2])
            assert len(run.metrics()) == (3 if cut == 1 else 2)

    def test_damage_in_the_middle_is_an_error_that_names_the_line(self, run):
        (run.path / "metrics.jsonl").write_text('{"epoch": 1}\n{"epoch": \n{"epoch": 3}\n')
        with pytest.raises(RunError, match=r"metrics.jsonl: line 2 is not readable") as caught:
            run.metrics()
        message(caught)

    @pytest.mark.parametrize(
        ("line", "fault"),
        [
            (b"3", "should be a valid dictionary"),
            (b"{}", "epoch: field required"),
            (b'{"epoch": "x"}', "epoch: "),
            (b'{"epoch": 1, "tests": [1]}', "tests: "),
            (b'{"epoch": 1, "tests": {"test": {"top1": "high"}}}', "tests.test.top1: "),
            (b'{"epoch": 1, "terms": 3}', "terms: "),
            (b'{"epoch": 1, "loss": "\xff', ""),
        ],
    )
    def test_a_line_that_is_not_of_an_epoch(self, run, line, fault):
        (run.path / "metrics.jsonl").write_bytes(line + b'\n{"epoch": 2}\n')
        with pytest.raises(RunError, match=rf"metrics.jsonl: line 1 is not readable: .*{fault}") as caught:
            run.metrics()
        message(caught)

    def test_a_finished_run_has_no_line_cut_short(self, run):
        (run.path / "metrics.jsonl").write_text('{"epoch": 1}\n{"epo')
        assert len(run.metrics()) == 1
        run.write_json("done", {})
        with pytest.raises(RunError, match="line 2 is not readable"):
            run.metrics()


class TestTables:
    def test_columns_of_numbers_names_and_vectors(self, run):
        probability = np.array([[0.25, 0.75], [1.0, 0.0], [0.5, 0.5]], dtype=np.float32)
        run.write_table(
            "labels.parquet",
            {"id": np.array(["a", "b", "ü"]), "given": np.array([1, 0, 1]), "probability": probability},
        )
        table = pq.read_table(run.path / "labels.parquet")
        assert table["id"].to_pylist() == ["a", "b", "ü"]
        assert table["given"].to_pylist() == [1, 0, 1]
        assert table["probability"].to_pylist() == probability.tolist()

    def test_vectors_need_not_be_contiguous(self, run):
        values = np.arange(6.0).reshape(2, 3).T
        run.write_table("labels.parquet", {"v": values})
        assert pq.read_table(run.path / "labels.parquet")["v"].to_pylist() == values.tolist()

    def test_no_rows(self, run):
        run.write_table("labels.parquet", {"id": np.array([], dtype=str), "v": np.empty((0, 3), dtype=np.float32)})
        assert pq.read_table(run.path / "labels.parquet").num_rows == 0

    def test_columns_of_different_length_leave_nothing(self, run):
        with pytest.raises(Exception, match="length"):
            run.write_table("labels.parquet", {"a": np.arange(2), "b": np.arange(3)})
        assert names(run) == []

    @pytest.mark.parametrize("content", [None, b"", b"not a table", b"PAR1" + bytes(50) + b"PAR1"])
    def test_missing_or_damaged(self, run, content):
        if content is not None:
            (run.path / "labels.parquet").write_bytes(content)
        with pytest.raises(RunError, match=r"labels\.parquet: not readable") as caught:
            run.labels()
        message(caught)

    @pytest.mark.parametrize("name", ["data.json", "labels.parquet", "metrics.jsonl"])
    @pytest.mark.parametrize("make", ["mkdir", "mkfifo"])
    def test_a_folder_or_a_pipe_in_a_files_place(self, run, name, make):
        (Path.mkdir if make == "mkdir" else os.mkfifo)(run.path / name)
        read = {"d": run.data, "l": run.labels, "m": run.metrics}[name[0]]
        with pytest.raises(RunError, match=rf"{name}: not readable: expected a file") as caught:
            read()
        message(caught)

    def test_samples_are_of_a_finished_run(self, run):
        text, none, soft = {name: ["a"] for name in tables.TEXTS}, {name: [0] for name in tables.CLASSES}, [[1.0, 0.0]]
        numbers = {name: [0.5] for name in (*tables.FRACTIONS, *tables.NUMBERS)}
        columns = {**text, **none, **numbers, tables.ROW: [0], "target": soft, "probability": soft}
        run.write_table("samples.parquet", columns)
        run.write_json("data.json", DATA)
        assert not run.is_done
        with pytest.raises(RunError, match=f"has not ended; finish it with: surelabel resume {run.path}"):
            run.samples()
        run.write_json("done", {})
        assert run.is_done
        assert run.samples()["id"].to_pylist() == ["a"]


class TestConfig:
    def test_round_trip(self, run):
        config = RunConfig(data={"source": "digits"}, noise={"kind": "symmetric", "rate": 0.4}, method="gce")
        run.write_json("config.json", config.model_dump(mode="json"))
        assert run.config() == config

    def test_missing(self, run):
        with pytest.raises(RunError, match=r"config\.json: not readable") as caught:
            run.config()
        message(caught)

    def test_of_another_version_names_the_field(self, run):
        run.write_json("config.json", {"data": {"source": "digits"}, "sampler": {}})
        with pytest.raises(ConfigError, match="sampler: there is no such setting") as caught:
            run.config()
        message(caught)
