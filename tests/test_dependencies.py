"""Every package that the code imports is declared, and extras are imported only when needed."""

import ast
import re
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
INSTEAD = {"pytorch_lightning": "lightning"}
"""Older names of packages, which are tried second."""
OWN = {"surelabel/callbacks/lightning.py", "surelabel/callbacks/skorch.py"}
"""Modules of one extra each; surelabel.callbacks imports them on first use."""
NAMES = {"scikit-learn": "sklearn", "pyyaml": "yaml", "pillow": "PIL"}
"""Packages whose modules have other names."""


def modules(requirements: list[str]) -> set[str]:
    """Return the modules of requirements such as `scikit-learn>=1.6`."""
    names = {re.match(r"[\w.-]+", requirement)[0].lower() for requirement in requirements}
    return {NAMES.get(name, name.replace("-", "_")) for name in names}


CORE = modules(PROJECT["dependencies"])
EXTRAS = set().union(
    *(modules(needed) for name, needed in PROJECT["optional-dependencies"].items() if name not in ("dev", "docs"))
)


def imported(node: ast.AST, is_nested: bool = False):
    """Yield the packages that code imports, and whether only when a function is called."""
    for child in ast.iter_child_nodes(node):
        names = []
        if isinstance(child, ast.Import):
            names = [alias.name for alias in child.names]
        elif isinstance(child, ast.ImportFrom) and child.level == 0:
            names = [child.module]
        for name in {name.partition(".")[0] for name in names} - sys.stdlib_module_names - {"surelabel", "__main__"}:
            yield INSTEAD.get(name, name), is_nested
        if not _is_type_checking(child):
            yield from imported(child, is_nested or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef))


def _imports_at_once(path: Path, wanted: set[str]) -> bool:
    tree = ast.parse(path.read_text())
    return any(isinstance(node, ast.ImportFrom) and node.module in wanted for node in tree.body)


def _is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


@pytest.fixture(scope="module")
def found() -> set[tuple[str, str, bool]]:
    """Return (module of ours, package, whether imported in a function)."""
    source = ROOT / "src"
    return {
        (path.relative_to(source).as_posix(), name, is_nested)
        for path in source.rglob("*.py")
        for name, is_nested in imported(ast.parse(path.read_text()))
    }


def test_every_import_is_declared(found):
    assert {(path, name) for path, name, _ in found if name not in CORE | EXTRAS} == set()


def test_extras_are_imported_in_functions_or_in_modules_of_their_own(found):
    at_once = {(path, name) for path, name, is_nested in found if name in EXTRAS - CORE and not is_nested}
    assert {path for path, _ in at_once} == OWN
    inside = {path.removesuffix(".py").replace("/", ".") for path in OWN}
    importers = [path for path in (ROOT / "src").rglob("*.py") if _imports_at_once(path, inside)]
    assert importers == []


def test_everything_declared_is_imported(found):
    assert CORE - {name for _, name, _ in found} == set()
