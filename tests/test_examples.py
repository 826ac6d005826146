"""The examples run, and their output is what they promise."""

import re
import runpy
import sys
from pathlib import Path

import pytest
import torch

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.fixture
def run_example(monkeypatch, capsys):
    """Run an example as a script, in this process because importing torch takes seconds."""

    def run(name, *arguments):
        monkeypatch.setattr(sys, "argv", [name, *arguments])
        runpy.run_path(str(EXAMPLES / name), run_name="__main__")
        return capsys.readouterr().out

    threads = torch.get_num_threads()
    with torch.random.fork_rng():
        yield run
    torch.set_num_threads(threads)


@pytest.mark.training
def test_own_loop(run_example):
    output = run_example("own_loop.py")
    accuracy = float(re.search(r"test accuracy ([\d.]+)", output)[1])
    given, corrected = map(float, re.search(r"right: ([\d.]+) as given, ([\d.]+) after", output).groups())
    assert accuracy > 0.92  # it was 0.961; cross entropy on these labels ends below 0.75
    assert given < 0.61
    assert corrected > 0.92


def test_own_loop_marks_five_lines():
    marked = [line for line in (EXAMPLES / "own_loop.py").read_text().splitlines() if re.search(r"# CAR \d", line)]
    assert [re.search(r"# CAR (\d)", line)[1] for line in marked] == list("12345")


def test_a_dirty_folder_has_as_many_wrong_labels_as_it_says(run_example, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    output = run_example("dirty_folder.py", "dirty", "--count", "200", "--wrong", "0.1")
    assert "200 images, 20 of them in the wrong sub-folder" in output
    rows = (tmp_path / "dirty-truth.csv").read_text().splitlines()[1:]
    truth = dict(row.split(",") for row in rows)
    assert {str(file.relative_to(tmp_path / "dirty")) for file in (tmp_path / "dirty").rglob("*.png")} == set(truth)
    assert sum(name.split("/")[0] != label for name, label in truth.items()) == 20
