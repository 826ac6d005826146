"""No command replaces an input, or a file that surelabel did not write; its own outputs it does."""

import re
import shutil

import pytest
import typer
from outputs import ONTO_INPUTS, OUTPUTS, make_scene, try_input, try_output
from processes import Ended

from surelabel.cli import app
from surelabel.files import OUTPUTS_FILE
from surelabel.reporting.figures import list_files

pytestmark = pytest.mark.training

PLACES = re.compile("FILE|DIR|FOLDER|ROOT|RUN|PATH|DATA")
"""Metavars of options that name files or folders."""
INPUTS = {
    *("--root", "--test", "--labels", "--trusted", "--features", "--warm-start", "--config", "--from"),
    "--image-root",
    *("--scores", "--against", "--data"),
}


def list_places():
    """Yield every option that names a file or a folder, as (command, option)."""
    group = typer.main.get_command(app)
    context = typer.Context(group)
    for name in group.list_commands(context):
        for parameter in group.get_command(context, name).params:
            if parameter.param_type_name == "option" and PLACES.search(parameter.metavar or ""):
                yield name, parameter.opts[0]


def test_every_output_option_has_a_case():
    assert {place for place in list_places() if place[1] not in INPUTS} == set(OUTPUTS)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return make_scene(tmp_path_factory.mktemp("outputs") / "scene")


@pytest.fixture
def start(call, monkeypatch):
    def run(words, folder):
        monkeypatch.chdir(folder)
        result = call(*words)
        return Ended(tuple(words), result.exit_code, result.stdout, result.stderr)

    return run


FIRST = [(key, output.files[0]) for key, output in OUTPUTS.items()]


@pytest.mark.parametrize(("key", "file"), [(key, file) for key, output in OUTPUTS.items() for file in output.files])
def test_files_of_the_user_stay(whole, tmp_path, start, key, file):
    assert try_output(key, file, "a file", "from inside", whole, tmp_path, start) is None


@pytest.mark.parametrize("state", ["a link", "a hard link", "a changed output"])
@pytest.mark.parametrize(("key", "file"), FIRST)
def test_links_and_changed_outputs_stay(whole, tmp_path, start, key, file, state):
    assert try_output(key, file, state, "from inside", whole, tmp_path, start) is None


# Writing ONNX takes ten seconds; `make faults` writes it twice.
@pytest.mark.parametrize(("key", "file"), [one for one in FIRST if OUTPUTS[one[0]].codes and one[0][1] != "--onnx"])
def test_earlier_outputs_are_replaced(whole, tmp_path, start, key, file):
    assert try_output(key, file, "our file", "relative", whole, tmp_path, start) is None


@pytest.mark.parametrize("spelling", ["dotted", "absolute", "linked folder", "other case"])
@pytest.mark.parametrize("key", [("audit", "--out"), ("tune", "--out")])
def test_every_spelling_leads_to_the_file(whole, tmp_path, start, key, spelling):
    assert try_output(key, OUTPUTS[key].files[0], "a file", spelling, whole, tmp_path, start) is None


@pytest.mark.parametrize("is_ours", [False, True])
@pytest.mark.parametrize("number", range(len(ONTO_INPUTS)), ids=lambda number: ONTO_INPUTS[number][0])
def test_inputs_stay(whole, tmp_path, start, number, is_ours):
    scene = tmp_path / "scene"
    shutil.copytree(whole, scene)
    assert try_input(number, is_ours, scene, tmp_path, start) is None


def test_an_export_is_replaced_unless_it_was_changed(whole, tmp_path, start):
    for _ in range(2):
        assert start(["export", str(whole / "run"), "--out", "x"], tmp_path).code == 0
    (tmp_path / "x" / "cleaned.csv").write_text("mine")
    assert "cleaned.csv" in start(["export", str(whole / "run"), "--out", "x"], tmp_path).stderr
    assert (tmp_path / "x" / "cleaned.csv").read_text() == "mine"


@pytest.mark.parametrize("runs", [["run"], ["run", "first"]])
def test_every_figure_of_a_report_is_known_before_it_is_drawn(whole, tmp_path, start, runs):
    paths = [str(whole / run) for run in runs]
    ended = start(["report", *paths, "--out", "r.html", "--figures", "figures"], tmp_path)
    assert ended.code == 0, ended.stderr
    drawn = {path for path in (tmp_path / "figures").iterdir() if path.name != OUTPUTS_FILE}
    assert drawn
    assert drawn <= set(list_files(tmp_path / "figures", len(runs)))


def test_an_empty_file_is_replaced(whole, tmp_path, start):
    """Like $GITHUB_STEP_SUMMARY and the files of mktemp."""
    (tmp_path / "x.csv").touch()
    assert start(["audit", str(whole / "run"), "--out", "x.csv"], tmp_path).code == 0
    assert (tmp_path / "x.csv").stat().st_size


def test_review_refuses_before_it_starts_if_decisions_were_edited(whole, tmp_path, start):
    shutil.copytree(whole, tmp_path / "scene")
    (tmp_path / "scene" / "run" / "decisions.csv").write_text("id,label\n0,a\n")
    ended = start(["review", "run", "--no-open"], tmp_path / "scene")
    assert ended.code == 2
    assert "run/decisions.csv: surelabel did not write this file" in ended.stderr
