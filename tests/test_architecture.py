"""Rules about the source that import-linter, which `make lint` runs, cannot check."""

import ast
import inspect
from pathlib import Path

import surelabel
from surelabel.data import SOURCES

ROOT = Path(surelabel.__file__).parent


def test_no_module_compares_with_the_name_of_a_method_or_data_set():
    """No code outside methods/ and data/ compares with the name of a method or data set."""
    names = {file.stem for file in (ROOT / "methods").glob("*.py")} - {"__init__"}
    names |= {file.stem for file in (ROOT / "data/benchmarks").glob("*.py")} - {"__init__"}
    names |= {source.__name__.rpartition(".")[2] for source in SOURCES if inspect.ismodule(source)}
    names |= {name for source in SOURCES for name in source.BUNDLED}
    for file in ROOT.rglob("*.py"):
        if file.relative_to(ROOT).parts[0] in ("methods", "data"):
            continue
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Compare):
                constants = {
                    c.value for c in ast.walk(node) if isinstance(c, ast.Constant) and isinstance(c.value, str)
                }
                assert not constants & names, (
                    f"{file.relative_to(ROOT)}:{node.lineno} compares with {constants & names}"
                )


def test_no_drawer_for_leftovers():
    assert not [file for file in ROOT.rglob("*.py") if file.stem in ("utils", "util", "helpers", "misc", "common")]
