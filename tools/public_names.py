"""Check that every public name has a docstring and an example, and run the examples.

`python tools/public_names.py` does so with the surelabel that is installed; it needs nothing else.
`tests/test_public_names.py` and `make release-check` use it.
"""

import ast
import contextlib
import doctest
import importlib
import importlib.util
import inspect
import itertools
import pkgutil
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

MODULES = ("surelabel", "surelabel.core", "surelabel.losses", "surelabel.callbacks")
"""The whole public surface; docs/policy.md says what that promises."""


def public_names() -> Iterator[tuple[str, str]]:
    """Return each public name, by its module; names of `surelabel` are not repeated."""
    seen: set[str] = set()
    for module in MODULES:
        if importlib.util.find_spec(module) is not None:
            names = importlib.import_module(module).__all__
            yield from ((module, name) for name in names if name not in seen)
            seen |= set(names) if module == "surelabel" else set()


def missing_package(module: str, name: str) -> str | None:
    """Return a package that a name or its example needs and that is not installed; None if none."""
    try:
        docstring = docstring_of(module, name)
    except ImportError as error:
        if "surelabel[" not in str(error):
            raise
        return str(error)
    imported = re.findall(r"^(?:from|import) (\w+)", "".join(e.source for e in _examples(docstring)), re.M)
    return next((package for package in imported if importlib.util.find_spec(package) is None), None)


def docstring_of(module: str, name: str) -> str:
    """Return the docstring of a name; of a constant, the string below its assignment."""
    value = getattr(importlib.import_module(module), name)
    if inspect.isclass(value) or inspect.isroutine(value):
        return inspect.cleandoc(value.__doc__ or "")
    return next((text for home in _modules_in(module) if (text := _string_below(home, name))), "")


def _modules_in(package: str) -> list[ModuleType]:
    """Return a module and, if it is a package, its direct modules that are imported."""
    module = importlib.import_module(package)
    inner = [f"{package}.{found.name}" for found in pkgutil.iter_modules(getattr(module, "__path__", []))]
    return [module, *(sys.modules[name] for name in inner if name in sys.modules)]


def _string_below(module: ModuleType, name: str) -> str:
    body = ast.parse(inspect.getsource(module)).body
    for node, following in itertools.pairwise(body):
        is_it = isinstance(node, ast.Assign) and any(isinstance(to, ast.Name) and to.id == name for to in node.targets)
        if is_it and isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant):
            return inspect.cleandoc(str(following.value.value))
    return ""


def _examples(docstring: str) -> list[doctest.Example]:
    return doctest.DocTestParser().get_examples(docstring)


def problem_with(docstring: str) -> str | None:
    """Return what a docstring of a public name lacks; None if nothing."""
    examples = _examples(docstring)
    if not docstring or docstring.lstrip().startswith(">>>"):
        return "has no docstring"
    if not any(example.want or example.exc_msg for example in examples):
        return "has no example that shows a result"
    if any(doctest.SKIP in example.options for example in examples):
        return "has an example that is skipped"
    return None


def run_example(module: str, name: str, folder: Path) -> str:
    """Run the example of a name in `folder`; return a report of what differs, or nothing."""
    test = doctest.DocTestParser().get_doctest(docstring_of(module, name), {}, f"{module}.{name}", None, None)
    report: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    with contextlib.chdir(folder):
        runner.run(test, out=report.append)
    return "".join(report)


def main() -> int:
    """Check and run all, say how many there are, and return the exit code."""
    count, bad, left_out = 0, 0, 0
    for module, name in public_names():
        count += 1
        if missing_package(module, name):
            left_out += 1
            continue
        with tempfile.TemporaryDirectory() as folder:
            report = problem_with(docstring_of(module, name)) or run_example(module, name, Path(folder))
        if report:
            bad += 1
            print(f"{module}.{name}: {report}")
    print(f"{count} public names, {bad} with problems; {left_out} need an extra and were not run")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
