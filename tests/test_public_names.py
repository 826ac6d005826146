"""Every public name has a docstring and an example, and the examples show what really happens."""

import builtins
import importlib.util
import re
from functools import partial
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FILE = ROOT / "tools" / "public_names.py"


@pytest.fixture(scope="module")
def tool():
    spec = importlib.util.spec_from_file_location("public_names", FILE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_each_has_a_docstring_and_an_example(tool):
    assert [name for module, name in tool.public_names() if tool.missing_package(module, name)] == []
    docstrings = {f"{module}.{name}": tool.docstring_of(module, name) for module, name in tool.public_names()}
    problems = {name: tool.problem_with(docstring) for name, docstring in docstrings.items()}
    assert len(problems) > 35
    assert {name: problem for name, problem in problems.items() if problem} == {}


def test_examples_run(tool, tmp_path):
    reports = {}
    for module, name in tool.public_names():
        folder = tmp_path / f"{module}.{name}"
        folder.mkdir()
        reports[name] = tool.run_example(module, name, folder)
    assert "".join(reports.values()) == ""


def test_the_example_of_skorch_is_silent_whatever_print_is(tool, tmp_path, monkeypatch):
    importlib.import_module("skorch")  # verbose=0 would not do if Ray replaces print afterwards
    monkeypatch.setattr(builtins, "print", partial(print))
    assert tool.run_example("surelabel.callbacks", "SkorchRecorder", tmp_path) == ""


@pytest.mark.parametrize(
    ("docstring", "problem"),
    [
        ("", "docstring"),
        (">>> 1\n1", "docstring"),
        ("Return one.", "no example"),
        ("Return one.\n\n>>> one = 1", "no example"),
        ("Return one.\n\n>>> 1  # doctest: +SKIP\n1", "skipped"),
    ],
)
def test_what_is_missing_is_noticed(tool, docstring, problem):
    assert problem in tool.problem_with(docstring)
    assert tool.problem_with("Return one.\n\n>>> 1\n1") is None


def test_a_wrong_example_is_noticed(tool, tmp_path, monkeypatch):
    monkeypatch.setattr(tool, "docstring_of", lambda module, name: "Return one.\n\n>>> 1\n2")
    assert "Expected" in tool.run_example("surelabel", "one", tmp_path)


def test_documentation_imports_only_modules_that_the_policy_names(tool):
    policy = (ROOT / "docs" / "policy.md").read_text()
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").glob("*.py")]
    imported = {
        name for page in pages for name in re.findall(r"^ *from (surelabel[\w.]*) import", page.read_text(), re.M)
    }
    assert "surelabel.core" in imported
    named = set(re.findall(r"`(surelabel[\w.]*)`", policy))
    assert set(tool.MODULES) <= named
    inside = {name for name in imported if name.rpartition(".")[0] in named - {"surelabel"}}
    assert imported - named - inside == set()
