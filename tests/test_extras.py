"""A feature whose package is not installed ends in one line that names the extra to install."""

import importlib
import re
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

import surelabel
from surelabel.errors import SurelabelError

ROOT = Path(__file__).parents[1]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
NOT_IMPORTED = {
    "dev": "for work on surelabel itself",
    "docs": "builds the site",
    "hf": "surelabel takes objects of datasets and writes files for it, and never imports it",
}


@pytest.fixture
def text_table(tmp_path):
    rows = [f"{word} of row {number},{label}" for number in range(8) for word, label in (("news", "a"), ("sport", "b"))]
    (tmp_path / "texts.csv").write_text("\n".join(["text,label", *rows]))
    return tmp_path / "texts.csv"


def import_again(module):
    """Import a module as if for the first time."""
    if module in sys.modules:
        importlib.reload(sys.modules[module])
    importlib.import_module(module)


def hide(package, monkeypatch):
    """Let imports of a package fail as if it were not installed."""
    for name in [name for name in sys.modules if name.startswith(f"{package}.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    found = metadata.files

    def files(name):
        if name == package:
            raise metadata.PackageNotFoundError(name)
        return found(name)

    monkeypatch.setattr(metadata, "files", files)


@pytest.fixture
def features(blobs, text_table, runs, call, tmp_path):
    """Return, for each extra, a package to hide and a call that needs it."""
    out = ("--out", tmp_path / "new")

    def command(*words):
        result = call(*words)
        assert result.exit_code == 2, result.stdout
        (error,) = (line for line in result.stderr.splitlines() if not line.startswith("note: "))
        raise SurelabelError(error)

    return {
        "photos": ("timm", lambda: command("fit", "digits", "--model", "timm:resnet18", *out)),
        "export": ("onnx", lambda: command("export", runs / "done", *out, "--onnx", tmp_path / "m.onnx")),
        "interop": ("pandas", lambda: surelabel.audit(runs / "done").to_frame()),
        "ray": ("ray", lambda: command("tune", blobs, "--method", "gce", "--ray", "auto", *out)),
        "words": ("wordllama", lambda: command("fit", text_table, "--features", "wordllama", *out)),
        "text": ("transformers", lambda: command("fit", text_table, "--features", "hf:some/model", *out)),
        "tensorboard": ("tensorboard", lambda: command("fit", blobs, "--log", "tensorboard", *out)),
        "wandb": ("wandb", lambda: command("fit", blobs, "--log", "wandb", *out)),
        "trainer": ("transformers", lambda: surelabel.callbacks.record_trainer(None, None)),
        "lightning": ("lightning", lambda: import_again("surelabel.callbacks.lightning")),
        "skorch": ("skorch", lambda: import_again("surelabel.callbacks.skorch")),
    }


@pytest.mark.parametrize("extra", sorted(set(EXTRAS) - set(NOT_IMPORTED)))
def test_the_error_names_the_extra(extra, features, monkeypatch):
    package, use = features[extra]
    assert any(requirement.startswith(package) for requirement in EXTRAS[extra])
    hide(package, monkeypatch)
    hide(f"pytorch_{package}", monkeypatch)  # the older name of lightning
    with pytest.raises((SurelabelError, ImportError)) as error:
        use()
    assert "\n" not in str(error.value)
    assert f"pip install 'surelabel[{extra}]'" in str(error.value)
    assert package in str(error.value)


def test_dev_has_all_extras_but_those_that_need_an_account():
    (own,) = (requirement for requirement in EXTRAS["dev"] if requirement.startswith("surelabel["))
    assert set(re.findall(r"\w+", own.partition("[")[2])) == set(EXTRAS) - {"dev", "wandb"}


def test_datasets_is_never_imported():
    imports = re.compile(r"^\s*(import datasets|from datasets import)", re.M)
    for file in (ROOT / "src").rglob("*.py"):
        code = re.sub(r'""".*?"""', "", file.read_text(), flags=re.S)
        assert not imports.search(code), file
