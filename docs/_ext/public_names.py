"""The directive `public-names`: document every name in the `__all__` of a module.

Docstrings are plain text with indented examples, so two characters that reStructuredText would take
for markup are escaped, and indented examples become code.
"""

import inspect
import re
from importlib import import_module
from typing import Any

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.util.docutils import SphinxDirective

import surelabel


class PublicNames(SphinxDirective):
    """Write an autodoc directive for each public name, classes with their public members."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Parse the directives as reStructuredText, which autodoc and docstrings are in."""
        module = import_module(self.arguments[0])
        lines: list[str] = []
        for name in sorted(set(module.__all__) - {"__version__"}, key=str.lower):
            value = getattr(module, name)
            # A name that two public modules share has one place in the index.
            shared = module is not surelabel and name in surelabel.__all__
            lines += [f".. {kind_of(value)}:: {module.__name__}.{name}"]
            lines += ["   :members:"] * inspect.isclass(value) + ["   :no-index:"] * shared + [""]
        node = nodes.container()
        self.state.nested_parse(StringList(lines, source=self.arguments[0]), 0, node)
        return list(node.children)


def kind_of(value: Any) -> str:
    """Return the autodoc directive for a value."""
    if inspect.isclass(value):
        return "autoexception" if issubclass(value, BaseException) else "autoclass"
    return "autofunction" if inspect.isfunction(value) else "autodata"


def escape_plain_text(_app: Any, _what: str, _name: str, _obj: Any, _options: Any, lines: list[str]) -> None:
    """Turn a docstring in plain text into reStructuredText, in place."""
    result: list[str] = []
    is_code = False
    for before, line in zip(["", *lines], lines, strict=False):
        indented = line.startswith("    ")
        if line.strip() and not indented:
            is_code = False
        elif indented and not before.strip() and not is_code and not line.lstrip().startswith((">>>", "-")):
            is_code = True
            result += ["::", ""]
        result.append(line if is_code else escape(line))
    lines[:] = result


def escape(line: str) -> str:
    """Escape `word_` and `|` outside of backticks."""
    parts = line.split("`")
    parts[::2] = [re.sub(r"(?<=\w)_(?!\w)", r"\\_", part).replace("|", r"\|") for part in parts[::2]]
    return "`".join(parts)


def skip_foreign(_app: Any, _what: str, name: str, obj: Any, skip: bool, _options: Any) -> bool:
    """Leave out what scikit-learn and pydantic put into our classes."""
    foreign = str(getattr(obj, "__module__", "")).startswith(("sklearn", "pydantic"))
    return skip or foreign or name.startswith(("set_", "model_config"))


def setup(app: Any) -> dict[str, Any]:
    """Register the directive with Sphinx."""
    app.add_directive("public-names", PublicNames)
    app.connect("autodoc-process-docstring", escape_plain_text, priority=400)
    app.connect("autodoc-skip-member", skip_foreign)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
