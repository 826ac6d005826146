"""Importing the package and asking for help stay cheap: heavy packages are loaded on first use."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = ("torch", "sklearn", "pyarrow", "matplotlib", "lightning_fabric", "jinja2")


def loaded_by(code):
    """Return the heavy packages in sys.modules after `code`."""
    end = f"\nimport json, sys\nsys.stderr.write(json.dumps([name for name in {HEAVY} if name in sys.modules]))"
    result = subprocess.run([sys.executable, "-c", code + end], capture_output=True, text=True, check=True)
    return json.loads(result.stderr.splitlines()[-1])


def test_import():
    assert loaded_by("import surelabel; surelabel.__version__; dir(surelabel)") == []


def test_what_the_documentation_imports_is_there():
    root = Path(__file__).parents[1]
    pages = [root / "README.md", *(root / "docs").rglob("*.md"), *(root / "examples").glob("*.py")]
    found = {
        (page.name, line.strip()) for page in pages for line in page.read_text().splitlines() if "surelabel" in line
    }
    lines = {
        (name, line)
        for name, line in found
        if re.match(r"(from surelabel[\w.]* import [\w, ]+|import surelabel[\w.]*)$", line)
    }
    assert len(lines) > 5
    for name, line in lines:
        exec(line, {})  # an ImportError names the line
        assert name


def test_a_name_loads_what_it_needs():
    assert "torch" in loaded_by("import surelabel; surelabel.SampleStore")


COMMAND = """
import sys
from surelabel.cli import main
sys.argv = ["surelabel", *{arguments!r}]
try:
    main()
except SystemExit as end:
    assert end.code == {code}
"""


@pytest.mark.parametrize(
    "arguments", [["--help"], ["--version"], [], ["fit", "--help"], ["demo", "--help"], ["audit", "--help"]]
)
def test_help(arguments):
    assert loaded_by(COMMAND.format(arguments=arguments, code=0)) == []


@pytest.mark.parametrize("arguments", [["fit", "digits", "--method", "carr"], ["methods", "carr"]])
def test_an_unknown_method_is_refused_before_anything_is_loaded(arguments):
    assert loaded_by(COMMAND.format(arguments=arguments, code=2)) == []


def test_audit_needs_no_torch(stored):
    assert "torch" not in loaded_by(
        "import surelabel.verdicts, surelabel.runs.run_dir, surelabel.plotting.memorisation"
    )
    assert loaded_by("import surelabel.verdicts") == []
    run = stored("digits")
    assert "torch" not in loaded_by(COMMAND.format(arguments=["audit", str(run)], code=0))
    assert (run / "audit.csv").is_file()
    assert "torch" not in loaded_by(COMMAND.format(arguments=["gate", str(run), "--max-wrong", "0.5"], code=0))
