"""What a release needs besides code: one version, true metadata, a changelog, a workflow."""

import importlib.util
import re
import tomllib
from email.message import Message
from pathlib import Path

import pytest
import yaml
from packaging.specifiers import SpecifierSet
from packaging.version import Version

import surelabel

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
CHANGELOG = (ROOT / "CHANGELOG.md").read_text()


def tool(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def workflow(name):
    content = yaml.safe_load((ROOT / ".github" / "workflows" / name).read_text())
    return {**content, "on": content.pop(True)}  # YAML 1.1 reads the key `on` as true


class TestVersion:
    def test_it_is_in_one_place(self):
        assert PROJECT["dynamic"] == ["version"]
        assert tool("release_check").version() == surelabel.__version__
        citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
        assert "version" not in citation

    def test_it_is_later_than_the_versions_of_the_changelog(self):
        sections = re.findall(r"^## (\S+)", CHANGELOG, re.M)
        released = [Version(name) for name in sections if name != "Unreleased"]
        assert released == sorted(released, reverse=True)
        current = Version(surelabel.__version__)
        assert all(current > name for name in released) if "Unreleased" in sections else current == released[0]

    def test_a_tag_must_agree(self):
        check = tool("release_check")
        assert "v1.2.0" in check.check_tag("v1.2.0", "1.2.0", "# Changelog\n\n## 1.2.0\n\n## 1.1.0\n")
        for tag, number, text, part in [
            ("v1.2.0", "1.2.0.dev0", "## 1.2.0\n", "1.2.0.dev0"),
            ("v1.2.0", "1.2.0", "## Unreleased\n", "rename the section"),
        ]:
            with pytest.raises(check.Failed, match=part):
                check.check_tag(tag, number, text)


def test_the_least_versions_are_the_lower_bounds():
    check = tool("release_check")
    packages = dict(one.split("==") for one in check.least_versions())
    assert [f"{name}>={bound}" for name, bound in packages.items()] == PROJECT["dependencies"]
    others = dict(one.split("==") for one in check.least_versions("2.13.0"))
    assert others == {**packages, "torch": "2.13.0"}


def test_changes_are_added_changed_or_fixed():
    for section in re.split(r"^## ", CHANGELOG, flags=re.M)[1:]:
        name, _, text = section.partition("\n")
        titles = re.findall(r"^### (.+)$", text, re.M)
        assert titles == [title for title in ("Added", "Changed", "Fixed") if title in titles], name
        assert "\n- " not in text.partition("\n### ")[0], f"{name}: an entry before the first title"
        for part in re.split(r"^### .+$", text, flags=re.M)[1:]:
            assert part.lstrip().startswith("- "), f"{name}: {part[:80]}"


class TestMetadata:
    def test_python_versions_are_those_that_ci_tests(self):
        named = [text.rpartition(" :: ")[2] for text in PROJECT["classifiers"] if ":: Python ::" in text]
        assert named == workflow("test.yml")["jobs"]["test"]["strategy"]["matrix"]["python"]
        allowed = SpecifierSet(PROJECT["requires-python"])
        assert all(allowed.contains(name) for name in named)
        assert not allowed.contains("3.10")

    def test_it_is_typed_and_not_stable_yet(self):
        assert "Typing :: Typed" in PROJECT["classifiers"]
        assert (Path(surelabel.__file__).parent / "py.typed").is_file()
        assert ("Development Status :: 3 - Alpha" in PROJECT["classifiers"]) == (
            Version(surelabel.__version__).major == 0
        )

    def test_the_licence_is_the_same_everywhere(self):
        assert PROJECT["license"] == yaml.safe_load((ROOT / "CITATION.cff").read_text())["license"] == "MIT"
        assert (ROOT / "LICENSE").read_text().startswith("MIT License")


class TestLicences:
    @pytest.mark.parametrize(
        ("fields", "licence"),
        [
            ({"License-Expression": "MIT"}, "MIT"),
            ({"License": "Apache 2.0"}, "Apache-2.0"),
            ({"License": "All\nof it", "Classifier": "License :: OSI Approved :: BSD License"}, "BSD-3-Clause"),
            ({"License": "All\nof it"}, None),
            ({}, None),
        ],
    )
    def test_read_from_metadata(self, fields, licence):
        metadata = Message()
        for name, value in fields.items():
            metadata[name] = value
        assert tool("licences").licence_of(metadata) == licence

    def test_only_permissive_ones_are_accepted(self):
        problem = tool("licences").problem_with
        for licence in ("MIT", "Apache-2.0 WITH LLVM-exception AND MIT", "(GPL-3.0-only OR BSD-2-Clause)"):
            assert problem("some", licence) is None
        for licence in ("GPL-3.0-only", "MIT AND LGPL-2.1-only", "Something", None):
            assert "some: " in problem("some", licence)
        assert problem("nvidia-cublas-cu12", "LicenseRef-NVIDIA-Proprietary") is None


class TestWorkflow:
    def test_publishes_tags_only_after_all_checks(self):
        release = workflow("release.yml")
        assert release["on"] == {"push": {"tags": ["v*"]}}
        assert sorted(release["jobs"]["publish"]["needs"]) == ["check", "test"]
        assert "workflow_call" in workflow("test.yml")["on"]
        (check,) = (step["run"] for step in release["jobs"]["check"]["steps"] if "run" in step)
        assert re.match(r"make release-check .*--tag .*--keep dist", check)
        assert "\nrelease-check:\n" in (ROOT / "Makefile").read_text()

    def test_it_has_no_secret_and_only_the_last_job_may_publish(self):
        release = workflow("release.yml")
        assert "secrets" not in (ROOT / ".github/workflows/release.yml").read_text()
        assert release["permissions"] == {"contents": "read"}
        allowed = {name: job.get("permissions") for name, job in release["jobs"].items()}
        assert allowed == {"test": None, "check": None, "publish": {"id-token": "write"}}
