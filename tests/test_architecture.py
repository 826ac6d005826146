"""Who may import whom, read from the source; and promises about its shape."""

import ast
from pathlib import Path

import pytest

import surelabel
from surelabel.data import SOURCES

ROOT = Path(surelabel.__file__).parent

ALLOWED = {
    "errors": set(),
    "files": {"errors"},
    "config": {"errors"},
    "overrides": {"config", "errors"},
    "core": {"config", "core", "errors"},
    "losses": {"core"},
    "noise": {"files", "config", "errors", "noise"},
    "models": {"core.batch", "errors", "models"},
    "data": {"files", "runs", "core", "config", "errors", "data"},
    "methods": {"core", "config", "errors", "methods"},
    "runs": {"files", "config", "errors", "runs", "overrides"},
    "engine": {"core", "config", "data", "errors", "losses", "runs", "engine"},
    "verdicts": {"config", "files", "runs", "errors", "verdicts"},
    "analysis": {"files", "runs", "methods._selection", "errors", "analysis"},
    "reporting": {"files", "runs", "config", "verdicts", "data", "analysis", "errors", "reporting"},
    "exporting": {"files", "runs", "training", "verdicts", "errors", "exporting"},
    "reviewing": {"files", "runs", "verdicts", "data", "analysis", "errors", "reviewing"},
    "presets": {"config", "errors", "presets"},
    "figures": {
        "analysis",
        "config",
        "core.method",
        "data.examples",
        "errors",
        "files",
        "methods",
        "runs",
        "overrides",
        "figures",
    },
    "reproducing": {
        "models",
        "files",
        "api",
        "config",
        "data",
        "errors",
        "presets",
        "progress",
        "runs",
        "overrides",
        "reproducing",
    },
}
"""Parts of the package, and what they may import; the rest (build, api, cli and what they show) wires everything."""


def imports_of(file: Path) -> set[str]:
    """Dotted names inside surelabel that a file imports, without the package's own name."""
    names = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "surelabel":
            base = node.module.removeprefix("surelabel").removeprefix(".")
            names |= {base or alias.name for alias in node.names}
        if isinstance(node, ast.Import):
            names |= {a.name.removeprefix("surelabel.") for a in node.names if a.name.startswith("surelabel.")}
    return names


def files_of(part: str) -> list[Path]:
    """The files of a part: a module or a folder."""
    return [ROOT / f"{part}.py"] if (ROOT / f"{part}.py").is_file() else sorted((ROOT / part).rglob("*.py"))


@pytest.mark.parametrize("part", ALLOWED)
def test_imports_stay_inside_the_layers(part):
    files = files_of(part)
    assert files
    for file in files:
        for name in imports_of(file):
            allowed = any(name == a or name.startswith(f"{a}.") for a in ALLOWED[part])
            assert allowed, (
                f"{file.relative_to(ROOT)} imports surelabel.{name}; {part} may import {sorted(ALLOWED[part])}"
            )


def test_nobody_asks_for_a_method_or_data_set_by_name():
    """No comparison with a method's or a data set's name outside its own folder."""
    names = {file.stem for file in (ROOT / "methods").glob("*.py")} - {"__init__"}
    names |= {name for source in SOURCES for name in (source.__name__.rpartition(".")[2], *source.BUNDLED)}
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
