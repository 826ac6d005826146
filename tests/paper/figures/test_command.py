"""`surelabel figures`, also from a run that was really trained."""

import json

import pytest

from surelabel import api
from surelabel.cli import app


@pytest.fixture
def command(capsys):
    """`command("1", "--from", folder)`: exit code, stdout and stderr."""

    def run(*words: object) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            app(["figures", *map(str, words)], prog_name="surelabel")
        out, err = capsys.readouterr()
        return int(ended.value.code or 0), out, err

    return run


def test_by_number_and_by_name(make, tmp_path, command):
    make("car")
    code, out, _ = command("5", "--from", tmp_path)
    assert code == 0
    assert "figure-05-confidence-40.png" in out
    assert (tmp_path / "figures" / "figure-05-confidence-40.svg").is_file()
    code, out, _ = command("correction-40", "--from", tmp_path, "--out", tmp_path / "here", "--json")
    assert len(json.loads(out)["figures"]["6"]) == 3
    assert len(list((tmp_path / "here").iterdir())) == 3


def test_several_run_directories(make, tmp_path, command):
    first, second = make("car"), make("stepped", method="cross_entropy", schedule="multi_step")
    assert command("1", "--from", first.path, second.path, "--out", tmp_path / "out")[0] == 0
    words = (tmp_path / "out" / "figure-01-memorisation.md").read_text()
    assert "- stepped: 2 epochs" in words
    assert "Not run: (b) cross entropy, cosine." in words


def test_folders_are_repeated_or_stand_alone(make, tmp_path, command, monkeypatch):
    first, second = make("car"), make("stepped", method="cross_entropy", schedule="multi_step")
    assert command("1", "--from", first.path, "--from", second.path, "--out", tmp_path / "out")[0] == 0
    words = (tmp_path / "out" / "figure-01-memorisation.md").read_text()
    assert "- car: 2 epochs" in words
    assert "- stepped: 2 epochs" in words
    monkeypatch.chdir(tmp_path)
    code, _, err = command("5", first.path)
    assert code == 0, err
    assert (first.path / "figures" / "figure-05-confidence-40.png").is_file()
    assert (
        command("5")[2]
        == "error: reproduction: no such folder; give the folder of a reproduction, or run directories\n"
    )


def test_all_draws_what_can_be_drawn(make, tmp_path, command):
    make("car")
    code, out, err = command("all", "--from", tmp_path)
    assert code == 0
    assert [line.partition(":")[0] for line in out.splitlines()] == [f"Figure {number}" for number in (1, 2, 5, 6)]
    assert "note: figure 3 (gradients) needs finished runs that are not there" in err


def test_errors_are_one_line(make, tmp_path, command):
    code, _, err = command("1", "--from", tmp_path)
    assert code == 2
    assert err.count("\n") == 1
    assert "surelabel reproduce memorisation" in err
    assert "no such folder" in command("1", "--from", tmp_path / "nowhere")[2]
    assert "there is no figure 'x'" in command("x", "--from", tmp_path)[2]
    assert "no figure can be drawn" in command("all", "--from", tmp_path)[2]


def test_from_a_trained_run(tmp_path, command):
    settings = {"data": {"source": "digits"}, "noise": {"kind": "symmetric", "rate": 0.4}}
    model = {"model": {"name": "mlp", "options": {"widths": [16], "norm": "none"}}}
    train = {"train": {"epochs": 3, "threads": 1, "device": "cpu", "gradient_share": True}}
    changes = {"method.correction_start": 1, "method.momentum": 0.1}
    api.fit({**settings, **model, **train}, tmp_path / "run", settings=changes)
    for number in (3, 12):
        assert command(number, "--from", tmp_path / "run", "--out", tmp_path / "out")[0] == 0
    assert "of the gradient, clean labels the rest" in (tmp_path / "out" / "figure-03-gradients.md").read_text()
    assert "18 sure corrections" in (tmp_path / "out" / "figure-12-corrected-webvision.md").read_text()
