"""The rules of docs/policy.md for deprecations."""

import ast
import warnings
from pathlib import Path

import numpy as np
import pytest
from packaging.version import Version

import surelabel
from surelabel.errors import warn_deprecated

SOURCE = Path(surelabel.__file__).parent


def find_deprecations():
    """Return where `warn_deprecated` is called, with the version that removes the name."""
    for file in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "warn_deprecated":
                values = {word.arg: word.value.value for word in node.keywords}
                yield f"{file.relative_to(SOURCE)}:{node.lineno}", values["removal"]


def test_no_name_outlives_its_removal():
    found = dict(find_deprecations())
    assert found
    assert [place for place, removal in found.items() if Version(surelabel.__version__) >= Version(removal)] == []


def test_the_warning_points_at_the_line_of_the_user():
    def old_name():
        warn_deprecated("old_name", "use new_name", removal="9.0")

    with pytest.warns(DeprecationWarning, match="old_name is deprecated .* surelabel 9.0; use new_name") as found:
        old_name()
    assert found[0].filename == __file__


def test_confidence_is_tau(blobs, tmp_path):
    quick = {"model": "mlp", "epochs": 1, "threads": 1, "device": "cpu"}
    model = surelabel.load(surelabel.fit(blobs, tmp_path / "run", **quick, settings={"train.second_opinion": False}))
    x = np.load(blobs)["x_test"]
    with pytest.warns(DeprecationWarning, match="use tau"):
        old = model.confidence(x)
    with warnings.catch_warnings(action="error"):
        assert np.array_equal(old, model.tau(x))
