"""The page on adding a method: its code trains by name from a temporary package."""

import json
import re
import sys
from pathlib import Path
from typing import ClassVar

import pytest

import surelabel
from surelabel import methods
from surelabel.console import Silent
from surelabel.core.method import option_help
from surelabel.errors import ConfigError

PAGE = Path(__file__).parents[1] / "docs" / "add-a-method.md"


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package that contains the page's method."""
    code = re.search(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)[1]
    folder = tmp_path / "my_methods"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "doubt.py").write_text(code, encoding="utf-8")
    (folder / "empty.py").write_text('"""No method here."""\n', encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    yield folder
    for name in [name for name in sys.modules if name.startswith("my_methods")]:
        del sys.modules[name]


@pytest.mark.usefixtures("package")
def test_it_trains_by_name(tiny, tmp_path):
    config = tiny("my_methods.doubt", train__epochs=24, method__options={"momentum": 0.5}, noise__rate=0.2)
    run = surelabel.fit(config, tmp_path / "run")
    assert run.metrics()[-1]["tests"]["test"]["top1"] > 0.6
    assert surelabel.audit(run).measures()["quality_auroc"] > 0.7
    assert run.config().method.name == "my_methods.doubt"
    assert surelabel.load(run.path, trust=True).predict_proba([[0.0] * 6]).shape == (1, 3)


@pytest.mark.usefixtures("package")
def test_its_verdict_and_its_advice_reach_the_user(tiny, tmp_path):
    class Listens(Silent):
        heard: ClassVar[list[str]] = []

        def warn(self, text):
            self.heard.append(text)

    config = tiny("my_methods.doubt", train__epochs=2, data__validation_fraction=0.2)
    samples = surelabel.fit(config, tmp_path / "run", progress=Listens()).samples().to_pylist()
    trained = [row for row in samples if row["split"] == "train"]
    assert all(row["belief"] == row["quality"] for row in trained)
    assert all(row["belief"] is None for row in samples if row["split"] != "train")
    assert any("momentum=0.9 hardly forgets in 2 epochs" in text for text in Listens.heard)


@pytest.mark.usefixtures("package")
def test_a_run_does_not_decide_what_code_is_imported(tiny, tmp_path):
    run = surelabel.fit(tiny("my_methods.doubt", train__epochs=1), tmp_path / "run")
    for name in [name for name in sys.modules if name.startswith("my_methods")]:
        del sys.modules[name]
    for use in (surelabel.load, surelabel.resume):
        with pytest.raises(surelabel.SurelabelError, match=r"my_methods\.doubt is not part of surelabel.*--trust"):
            use(run.path)
    assert "my_methods.doubt" not in sys.modules


@pytest.mark.usefixtures("package")
class TestConfigurationFile:
    """A configuration file does not decide what code is imported; the user's own words do."""

    @pytest.fixture
    def file(self, tiny, tmp_path):
        content = tiny("my_methods.doubt", train__epochs=1)
        (tmp_path / "foreign.json").write_text(json.dumps(content))
        return tmp_path / "foreign.json"

    @pytest.mark.parametrize("command", [("fit", "--out", "run"), ("plan",), ("fit", "--dry-run")])
    @pytest.mark.parametrize("more", [(), ("--set", "method.momentum=0.5")])
    def test_it_is_refused(self, file, tmp_path, monkeypatch, call, command, more):
        monkeypatch.chdir(tmp_path)
        result = call(*command, "--config", file, *more)
        assert result.exit_code == 2
        assert f"{file}: its method my_methods.doubt is not part of surelabel; import it with --trust" in result.stderr
        assert "my_methods.doubt" not in sys.modules
        assert not (tmp_path / "run").exists()

    @pytest.mark.parametrize(
        "words", [("--trust",), ("--method", "my_methods.doubt"), ("--set", "method.name=my_methods.doubt")]
    )
    def test_it_is_imported_if_the_user_says_so(self, file, tmp_path, done, words):
        done("fit", "--config", file, "--out", tmp_path / "run", *words)
        assert "my_methods.doubt" in sys.modules

    def test_export_says_what_the_command_that_it_advises_needs(self, file, tmp_path, done):
        done("fit", "--config", file, "--out", tmp_path / "run", "--trust")
        said = done("export", tmp_path / "run").splitlines()
        assert "--trust if you trust" in said[said.index(next(line for line in said if line[:8] == "Retrain:")) + 1]


@pytest.mark.usefixtures("package")
def test_its_options_are_checked_and_explained():
    assert option_help(methods.find("my_methods.doubt"))["momentum"].startswith("m, the share")
    with pytest.raises(ConfigError, match=r"method\.momentum: .*less than 1.*got 2"):
        methods.validate_options("my_methods.doubt", {"momentum": 2})
    with pytest.raises(ConfigError, match="did you mean momentum"):
        methods.validate_options("my_methods.doubt", {"momentun": 0.5})


@pytest.mark.usefixtures("package")
def test_errors_name_what_cannot_be_found():
    with pytest.raises(ConfigError, match=r"my_methods\.nothing.*no module"):
        methods.find("my_methods.nothing")
    with pytest.raises(ConfigError, match=r"my_methods\.empty must define exactly one Method"):
        methods.find("my_methods.empty")
