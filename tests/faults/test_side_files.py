"""Everything that training reads is checked when a run is resumed."""

import re
import shutil
from random import Random

import pytest
from side_files import CHANGES, make_scene, read, resume_after, write

from surelabel import api
from surelabel.errors import RunError
from surelabel.runs.run_dir import RunDir

pytestmark = pytest.mark.training


@pytest.fixture(scope="module")
def scene(tmp_path_factory):
    folder = tmp_path_factory.mktemp("side_files")
    make_scene(folder)
    return folder


@pytest.mark.parametrize("change", CHANGES)
def test_resuming_says_what_has_changed(change, scene, tmp_path):
    said = resume_after(change, scene, tmp_path / "copy", "noisy" if "noisy" in change else "run", Random(0))
    assert said is not None, "resumed as if nothing had changed"
    assert re.search(CHANGES[change][0], said), said
    assert "\n" not in said
    assert "start a new run" in said


def test_a_run_resumes_if_nothing_has_changed(scene, tmp_path, monkeypatch):
    shutil.copytree(scene, tmp_path / "copy")
    monkeypatch.chdir(tmp_path / "copy")
    for run in ("run", "noisy"):
        assert api.resume(run).is_done


class TestReopening:
    """The report, the review and the export need the rows that were judged, and no more."""

    @pytest.fixture
    def done(self, scene, tmp_path, monkeypatch):
        shutil.copytree(scene, tmp_path / "copy")
        monkeypatch.chdir(tmp_path / "copy")
        return api.resume("run")

    def test_confirmed_rows_test_rows_and_weights_do_not_matter(self, done, tmp_path):
        for change in ("more confirmed rows", "a test feature", "a weight", "a true label"):
            CHANGES[change][1](tmp_path / "copy", Random(0))
        assert len(api.reopen_data(done).train) == RunDir.open("run").data()["num_train"]

    @pytest.mark.parametrize("change", ["a feature", "a label", "an id", "a row less", "a corrected label"])
    def test_rows_and_labels_do(self, change, done, tmp_path):
        CHANGES[change][1](tmp_path / "copy", Random(0))
        with pytest.raises(RunError, match=r"train\.csv has changed since the run"):
            api.reopen_data(done)


def test_the_run_of_a_warm_start_matters_until_a_state_is_saved(scene, tmp_path, monkeypatch):
    shutil.copytree(scene, tmp_path / "copy")
    monkeypatch.chdir(tmp_path / "copy")
    api.resume("run")
    with pytest.raises(KeyboardInterrupt):
        api.fit(api.make_config(RunDir("run").config(), {"train.warm_start": "run"}), "next", interrupt=lambda: True)
    shutil.rmtree("run")
    shutil.copytree("noisy", "run")
    api.resume("run")
    shutil.copytree("next", "again")
    RunDir("again").state_file.unlink()
    with pytest.raises(RunError, match=r"train\.warm_start"):
        api.resume("again")
    assert api.resume("next").is_done


def test_the_changes_are_real(scene, tmp_path):
    for change in CHANGES:
        shutil.copytree(scene, tmp_path / change)
        before = {path.name: path.read_bytes() for path in (tmp_path / change).iterdir() if path.is_file()}
        CHANGES[change][1](tmp_path / change, Random(1))
        after = {path.name: path.read_bytes() for path in (tmp_path / change).iterdir() if path.is_file()}
        assert sum(before[name] != after[name] for name in before) == 1
    write(tmp_path / "a.csv", [["1", "2"]])
    assert read(tmp_path / "a.csv") == [["1", "2"]]
