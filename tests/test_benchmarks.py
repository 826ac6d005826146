"""The benchmark scripts start, and the one of verdicts runs from data to tables."""

import json
import re
import runpy
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
SCRIPTS = sorted(file.name for file in BENCHMARKS.glob("*.py") if "__main__" in file.read_text())


@pytest.fixture
def run_script(monkeypatch, capsys):
    """Run a script in this process, because importing torch takes seconds."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))  # scripts import their neighbours
    threads, known = torch.get_num_threads(), set(sys.modules)

    def run(name, *arguments):
        monkeypatch.setattr(sys, "argv", [name, *map(str, arguments)])
        runpy.run_path(str(BENCHMARKS / name), run_name="__main__")
        return capsys.readouterr().out

    with torch.random.fork_rng():
        yield run
    torch.set_num_threads(threads)
    for name in set(sys.modules) - known:
        if (BENCHMARKS / f"{name}.py").is_file():
            del sys.modules[name]


@pytest.fixture
def data_module(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return runpy.run_path(str(BENCHMARKS / "verdict_data.py"), run_name="verdict_data")


@pytest.mark.parametrize("name", SCRIPTS)
def test_every_script_explains_itself(run_script, name, capsys):
    with pytest.raises(SystemExit) as exit:
        run_script(name, "--help")
    assert exit.value.code == 0
    assert "usage:" in capsys.readouterr().out


def test_the_cost_of_checksums_is_measured(run_script, tmp_path):
    lines = run_script("checksum_cost.py", "--mib", 1, "--pairs", 1, "--folder", tmp_path).splitlines()
    assert [line.split(" | ")[0] for line in lines[-3:]] == ["| save without", "| save with", "| verify"]


def test_the_benchmark_of_verdicts_measures_and_goes_on_where_it_stopped(run_script, tmp_path):
    words = "--only", "iris", "hog", "--epochs", 3, "--out", tmp_path
    output = run_script("verdicts.py", *words)
    assert "(no hog: it needs --cifar10 FOLDER)" in output
    header, *_ = lines = [line for line in output.splitlines() if line.startswith("|")]
    values = next(line for line in lines if line.startswith("| iris | 0 |"))
    cells = dict(zip(*([cell.strip() for cell in line.split("|")] for line in (header, values)), strict=True))
    assert float(cells["AUROC"]) > 0.9
    assert float(cells["cleanlab"]) > 0.9
    assert cells["true rate"] == "20.0"
    assert cells["right before"] == "80.0"
    assert re.search(r"^\| iris \|( (pass|MISS|no|-) \|){9}$", output, re.MULTILINE)
    assert "- export never worse, on any row and seed: " in output
    kept = (tmp_path / "verdicts.jsonl").read_text()
    assert json.loads(kept)["variant"] == "train.epochs=3"
    assert values in run_script("verdicts.py", *words)
    assert (tmp_path / "verdicts.jsonl").read_text() == kept
    assert "| iris | 0 |" in run_script("verdicts.py", *words, "--rejudge")
    assert "| iris | 0 |" in run_script("verdicts.py", *words, "--second-opinion-only")
    assert (tmp_path / "verdicts.jsonl").read_text() == kept


def test_finished_runs_are_measured_by_method(run_script, tmp_path):
    from tests.conftest import TINY

    import surelabel

    surelabel.fit({"data": {"source": "digits"}, "noise": {"kind": "pair", "rate": 0.3}, **TINY}, tmp_path / "run")
    output = run_script("verdicts.py", "--runs", tmp_path / "run")
    assert re.search(r"\| `car` \| pair 0\.3 \| 1 \| 0\.\d+ \|", output)


@pytest.mark.parametrize("name", ["emb1000", "imbal", "csv12"])
def test_data_are_the_same_for_a_seed_and_as_wrong_as_they_say(data_module, tmp_path, name):
    [data_set] = [one for one in data_module["DATA_SETS"] if one.name == name]
    first, again, other = (
        data_set.write(tmp_path / folder, seed, {}) for folder, seed in (("a", 1), ("b", 1), ("a", 2))
    )
    assert first.read_bytes() == again.read_bytes()
    assert first.read_bytes() != other.read_bytes()
    truth = data_module["read_truth"](first)
    if first.suffix == ".csv":
        given = [line.rsplit(",", 1)[1] for line in first.read_text().splitlines()[1:]]
    else:
        given = np.load(first)["y"].astype(str).tolist()
    wrong = np.mean([truth[str(row)] != label for row, label in enumerate(given)])
    assert wrong == pytest.approx(data_module["GAUSSIANS"][name].rate, abs=1e-3)
