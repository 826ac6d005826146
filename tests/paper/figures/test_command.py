"""`surelabel figures`, also from a run that was really trained."""

import json

import pytest

from surelabel import api
from surelabel.cli import app
from surelabel.paper.figures import list_own_figures
from surelabel.paper.figures.panel_runs import find_runs


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
    assert len(list((tmp_path / "here").glob("[!.]*"))) == 3


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


def test_all_tells_the_paper_s_data_from_others(make, tmp_path, command):
    make("car")
    make("mine", data="my photos.npz", noise=("pair", 0.2), input_shape=(4,))
    make("plain", data="my photos.npz", noise=("pair", 0.2), input_shape=(4,), method="cross_entropy")
    code, out, _ = command("all", "--from", tmp_path)
    assert code == 0
    found = [line.partition(":")[0] for line in out.splitlines()]
    assert found[:4] == [f"Figure {number}" for number in (1, 2, 5, 6)]
    assert "memorisation-my-photos-pair-20" in found
    assert "correction-my-photos-pair-20-cross_entropy" in found
    assert not [name for name in found if "corrected" in name]  # its inputs are no images
    text = (tmp_path / "figures" / "memorisation-my-photos-pair-20.md").read_text()
    assert "- mine: 2 epochs" in text
    assert "- plain: 2 epochs" in text
    assert "- car: " not in text


def test_the_title_of_a_narrow_figure_fits(make, tmp_path):
    make("mine", data="digits", input_shape=(4,))
    for figure, runs in list_own_figures(find_runs([tmp_path], api.reopen_data)):
        picture = figure.draw_from(runs)[0].figure
        picture.draw_without_rendering()
        box = picture._suptitle.get_window_extent()
        assert 0 <= box.x0 <= box.x1 <= picture.bbox.width, figure.name


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
    assert "of the gradient, clean labels the rest" in (tmp_path / "out" / "gradients-digits.md").read_text()
    assert "18 sure corrections" in (tmp_path / "out" / "corrected-digits.md").read_text()
    _, out, err = command("all", tmp_path / "run", "--out", tmp_path / "all")
    names = [f"{kind}-digits-symmetric-40" for kind in ("memorisation", "gradients")]
    names += [f"{kind}-digits-symmetric-40-car" for kind in ("density", "confidence", "correction", "corrected")]
    assert [line.partition(":")[0] for line in out.splitlines()] == names
    assert {file.stem for file in (tmp_path / "all").glob("[!.]*")} == set(names)
    assert err == ""
    for name in names:
        text = (tmp_path / "all" / f"{name}.md").read_text()
        assert "digits" in text.splitlines()[0]
        assert "Figure" not in text.splitlines()[0]
