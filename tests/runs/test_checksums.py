"""Checksums of a run: every command notices a flipped bit, and none takes a crash for one."""

import json
import random
import shutil

import pytest

import surelabel
from surelabel.errors import RunError
from surelabel.runs.checksums import FILE_NAME
from surelabel.runs.run_dir import RunDir


@pytest.fixture
def folder(runs, tmp_path, monkeypatch):
    shutil.copytree(runs, tmp_path / "runs")
    monkeypatch.chdir(tmp_path / "runs")
    return tmp_path / "runs"


def flip_bit(file, position=None):
    content = bytearray(file.read_bytes())
    place = random.Random(0).randrange(len(content)) if position is None else position
    content[place] ^= 1 << 2
    file.write_bytes(content)


READ_BY = {
    "config.json": ("report", "done"),
    "data.json": ("report", "done"),
    "labels.parquet": ("predict", "done", "data.npz"),
    "samples.parquet": ("audit", "done"),
    "second_opinion.json": ("report", "done"),
    "metrics.jsonl": ("report", "done"),
    "model.safetensors": ("predict", "done", "data.npz"),
    "state.safetensors": ("resume", "stopped"),
    "noise.json": ("resume", "stopped"),
}


@pytest.mark.parametrize("name", READ_BY)
def test_a_flipped_bit_is_an_error_that_names_the_file(folder, call, name):
    command = READ_BY[name]
    flip_bit(folder / command[1] / name)
    result = call(*command)
    assert result.exit_code == 2
    assert result.stderr.strip().splitlines()[-1].startswith(f"error: {command[1]}/{name}: differs from its checksum")


def test_every_file_that_training_writes_is_listed(folder):
    for run in ("done", "stopped"):
        listed = json.loads((folder / run / FILE_NAME).read_text())
        written = {path.name for path in (folder / run).iterdir()} - {"lock", FILE_NAME}
        assert set(listed) >= (written if run == "done" else written - {"metrics.jsonl"})


def test_a_missing_second_opinion_is_noticed(folder):
    (folder / "done" / "second_opinion.json").unlink()
    with pytest.raises(RunError, match=r"second_opinion\.json: not readable"):
        RunDir.open("done").second_opinion()


def test_settings_edited_on_purpose_are_read_once_the_checksums_are_deleted(folder, call, done):
    file = folder / "done" / "config.json"
    file.write_text(file.read_text().replace('"epochs": 3', '"epochs": 30'))
    assert f"delete done/{FILE_NAME} if you edited it on purpose" in call("report", "done").stderr
    (folder / "done" / FILE_NAME).unlink()
    done("report", "done")
    assert RunDir.open("done").config().train.epochs == 30


def test_a_list_without_a_checksum_of_its_own_is_damaged(folder):
    file = folder / "done" / FILE_NAME
    listed = json.loads(file.read_text())
    del listed[FILE_NAME]
    file.write_text(json.dumps(listed))
    with pytest.raises(RunError, match=rf"{FILE_NAME}: was damaged or edited; delete it"):
        RunDir.open("done").samples()


@pytest.mark.parametrize("content", ["", "{", "[]", '{"config.json": 3}', "\xff"])
def test_damaged_checksums_are_an_error_that_says_what_to_do(folder, content):
    (folder / "done" / FILE_NAME).write_text(content, encoding="latin-1")
    with pytest.raises(RunError, match=rf"{FILE_NAME}: not readable as checksums; delete it"):
        surelabel.load("done")


def test_damage_to_the_checksums_is_not_taken_for_damage_to_the_file(folder, call, done):
    file = folder / "stopped" / FILE_NAME
    checksum = json.loads(file.read_text())["state.safetensors"][0]
    file.write_text(file.read_text().replace(checksum, ("1" if checksum[0] == "0" else "0") + checksum[1:]))
    result = call("resume", "stopped")
    assert result.exit_code == 2
    assert f"error: stopped/{FILE_NAME}: was damaged or edited; delete it to read" in result.stderr
    file.unlink()
    done("resume", "stopped")
    assert RunDir("stopped").samples().equals(RunDir("done").samples())


def test_without_a_damaged_state_the_run_starts_again_and_ends_the_same(folder, call, done):
    flip_bit(folder / "stopped" / "state.safetensors")
    assert "delete it and train from the beginning: surelabel resume stopped" in call("resume", "stopped").stderr
    (folder / "stopped" / "state.safetensors").unlink()
    done("resume", "stopped")
    assert RunDir("stopped").samples().equals(RunDir("done").samples())


class Crash(BaseException):
    """The process dies."""


class TestCrash:
    @pytest.fixture
    def crash_before_rename(self, monkeypatch):
        """Let the renaming of one file fail as if the process had been killed."""
        from pathlib import Path

        replace = Path.replace

        def crash(self, target):
            if target.name == "a.json":
                raise Crash
            return replace(self, target)

        def arm(is_armed):
            monkeypatch.setattr(Path, "replace", crash if is_armed else replace)

        return arm

    def read(self, folder):
        return json.loads(RunDir(folder).checked("a.json").read_text())

    def test_between_checksum_and_file_leaves_the_old_file_readable(self, tmp_path, crash_before_rename):
        run = RunDir(tmp_path)
        for content in (1, 2):
            run.write_json("a.json", content)
        crash_before_rename(True)
        for content in (3, 4, 5):  # each in a process of its own
            with pytest.raises(Crash):
                RunDir(tmp_path).write_json("a.json", content)
            assert self.read(tmp_path) == 2
        crash_before_rename(False)
        RunDir(tmp_path).write_json("a.json", 6)
        assert self.read(tmp_path) == 6

    def test_only_the_last_two_are_accepted(self, tmp_path):
        run = RunDir(tmp_path)
        run.write_json("a.json", 0)
        first = (tmp_path / "a.json").read_bytes()
        for content in range(1, 5):
            run.write_json("a.json", content)
        assert len(json.loads((tmp_path / FILE_NAME).read_text())["a.json"]) == 2
        (tmp_path / "a.json").write_bytes(first)
        with pytest.raises(RunError, match="differs from its checksum"):
            self.read(tmp_path)

    def test_another_writer_between_two_writes(self, tmp_path, crash_before_rename):
        run = RunDir(tmp_path)
        run.write_json("a.json", 1)
        RunDir(tmp_path).write_json("a.json", 2)
        crash_before_rename(True)
        with pytest.raises(Crash):
            run.write_json("a.json", 3)
        assert self.read(tmp_path) == 2


def test_a_reader_is_not_misled_by_a_file_that_is_replaced_meanwhile(tmp_path, monkeypatch):
    from surelabel import files

    writer, reader = RunDir(tmp_path), RunDir(tmp_path)
    writer.write_json("a.json", 0)
    checksum, counter = files.checksum, iter(range(1, 4))

    def replace_first(path):
        monkeypatch.setattr(files, "checksum", checksum)
        if path.name == "a.json":
            for number in counter:
                writer.write_json("a.json", number)
        return checksum(path)

    monkeypatch.setattr(files, "checksum", replace_first)
    assert json.loads(reader.checked("a.json").read_text()) == 3


def test_a_file_is_read_only_once_for_its_checksum(folder, monkeypatch):
    from surelabel import files

    checksum, hashed = files.checksum, []
    monkeypatch.setattr(files, "checksum", lambda path: hashed.append(path.name) or checksum(path))
    run = RunDir.open("done")
    for _ in range(3):
        run.samples()
    assert hashed.count("samples.parquet") == 1
