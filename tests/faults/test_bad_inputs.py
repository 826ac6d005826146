"""The fast part of the campaign of bad inputs; `make faults` judges hundreds of them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from bad_input import BadInput
from bad_inputs import generate
from judge_inputs import judge, judge_here

HERE = Path(__file__).parent
INPUTS = list(generate(seed=0, count=40))


@pytest.mark.parametrize("case", INPUTS, ids=[f"{number}" for number in range(len(INPUTS))])
def test_a_bad_input_is_refused_in_one_line_or_used(case, tmp_path):
    verdict = judge_here(case, tmp_path)
    assert verdict.is_right, f"{case.name}: {verdict.said}"


def test_a_seed_yields_the_same_distinct_inputs():
    digests = [case.digest() for case in generate(seed=3, count=300)]
    assert digests == [case.digest() for case in generate(seed=3, count=300)]
    assert len(set(digests)) == 300
    assert digests[:10] != [case.digest() for case in generate(seed=4, count=10)]


def test_a_seed_means_the_same_whatever_else_is_imported():
    code = "from bad_inputs import generate; print([case.digest().hex() for case in generate(0, 40)])"
    paths = os.pathsep.join([str(HERE), str(HERE.parents[1] / "src")])
    environment = {**os.environ, "PYTHONPATH": paths, "PYTHONHASHSEED": "1"}
    fresh = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert fresh.stdout.strip() == str([case.digest().hex() for case in INPUTS])


def test_the_judge_tells_an_error_from_a_traceback(tmp_path, monkeypatch):
    assert judge_here(BadInput("fine", {}, ("methods",)), tmp_path).is_right
    refused = judge_here(BadInput("refused", {}, ("plan", "nope.npz")), tmp_path)
    assert refused.is_right
    assert "nope.npz: no such file" in refused.said
    monkeypatch.setattr("surelabel.cli.options.validate", lambda content: content[0])
    broken = judge_here(BadInput("broken", {}, ("plan", "nope.npz")), tmp_path)
    assert not broken.is_right
    assert "KeyError" in broken.said


def test_the_judge_of_processes(tmp_path):
    verdict = judge(BadInput("refused", {}, ("audit", "nope")), tmp_path)
    assert verdict.is_right
    assert "nope: not a run directory" in verdict.said
