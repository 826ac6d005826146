"""Build a release and check it in fresh environments outside the repository: `make release-check`.

Needs Python and pip with an index, nothing else; nothing in the repository is changed.
`--tag v0.2.0` also checks that the version and the changelog are those of the tag, and `--keep DIR`
keeps the files that were built. The hosted workflow uses both. `--torch 2.13.0` takes this version
of PyTorch instead of the least one, which brings gigabytes of CUDA packages.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
import zipfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CHECKERS = ("build", "twine", "cffconvert")
"""They have an environment of their own: cffconvert needs an old jsonschema."""
MAX_MEGABYTES = {"whl": 1.5, "gz": 5.0}
PACKAGE_DATA = ("py.typed", "reporting/page/report.html", "reviewing/page/index.html", "paper/published/table1.csv")
"""Files besides modules that the wheel must have."""


class Failed(Exception):
    """A check that did not pass; the message says why."""


def version() -> str:
    """Return the version, from the only place that has it."""
    text = (ROOT / "src/surelabel/__init__.py").read_text(encoding="utf-8")
    (found,) = re.findall(r'^__version__ = "(.+)"$', text, re.M)
    return str(found)


def extras() -> list[str]:
    """Return the names of the extras."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return list(project["optional-dependencies"])


def least_versions(torch: str | None = None) -> list[str]:
    """Return what surelabel needs at its lower bounds; torch at another version, if given."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    bounds = dict(requirement.split(">=") for requirement in project["dependencies"])
    return [f"{name}=={bound}" for name, bound in (bounds | ({"torch": torch} if torch else {})).items()]


def check_tag(tag: str, number: str, changelog: str) -> str:
    """Check that a tag, the version and the first section of the changelog agree."""
    if tag != f"v{number}":
        raise Failed(f"the tag is {tag} and __version__ is {number}")
    first = re.findall(r"^## (\S+)", changelog, re.M)[0]
    if first != number:
        raise Failed(f"CHANGELOG.md begins with {first}; rename the section Unreleased to {number}")
    return f"{tag} is the version and the first section of CHANGELOG.md"


def check_files(files: Sequence[Path], number: str) -> str:
    """Check names, sizes and contents of the sdist and the wheel."""
    (wheel,) = (file for file in files if file.suffix == ".whl")
    for file in files:
        size, most = file.stat().st_size / 1e6, MAX_MEGABYTES[file.suffix[1:]]
        if number not in file.name or size > most:
            raise Failed(f"{file.name}: {size:.2f} MB; expected version {number} and at most {most} MB")
    names = zipfile.ZipFile(wheel).namelist()
    missing = [name for name in PACKAGE_DATA if f"surelabel/{name}" not in names]
    foreign = [name for name in names if not name.startswith(("surelabel/", f"surelabel-{number}.dist-info/"))]
    if missing or foreign:
        raise Failed(f"{wheel.name}: lacks {missing}, has {foreign}")
    return ", ".join(f"{file.name} {file.stat().st_size / 1e6:.2f} MB" for file in files)


class Release:
    """The checks, in a folder outside the repository."""

    def __init__(self, folder: Path, torch: str | None = None) -> None:
        self.folder, self.dist, self.torch = folder, folder / "dist", torch
        # Neither the repository nor packages of the user may be seen from the fresh environments.
        self.env = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        self.env |= {"PYTHONNOUSERSITE": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}

    def run(self, *command: str | Path) -> str:
        """Run a command in the folder and return its output."""
        words = [str(word) for word in command]
        result = subprocess.run(words, cwd=self.folder, env=self.env, capture_output=True, text=True, check=False)
        if result.returncode:
            raise Failed(f"{' '.join(words)}\n{result.stdout}{result.stderr}")
        return result.stdout

    def python(self, name: str) -> Path:
        """Return the interpreter of an environment, which is made on first use."""
        place = self.folder / name
        if not place.exists():
            self.run(sys.executable, "-m", "venv", place)
        return place / "bin" / "python"

    def install(self, name: str, *words: str | Path) -> None:
        """Install packages into an environment, in the tested versions."""
        self.run(self.python(name), "-m", "pip", "install", "-q", *words)

    def build(self) -> str:
        """Build the sdist, and the wheel from it, so that the sdist is complete."""
        self.install("checkers", *CHECKERS)
        self.run(self.python("checkers"), "-m", "build", "--outdir", self.dist, ROOT)
        return check_files(self.files, version())

    @property
    def files(self) -> list[Path]:
        """The files that were built."""
        return sorted(self.dist.iterdir())

    @property
    def wheel(self) -> Path:
        """The wheel."""
        return next(file for file in self.files if file.suffix == ".whl")

    def metadata(self) -> str:
        """Check the metadata of both files, and CITATION.cff."""
        checker = self.python("checkers")
        self.run(checker, "-m", "twine", "check", "--strict", *self.files)
        self.run(checker.parent / "cffconvert", "--validate", "-i", ROOT / "CITATION.cff")
        return "twine check --strict and cffconvert --validate pass"

    def install_wheel(self) -> str:
        """Install the wheel into a fresh environment, and see that it is the one that is used."""
        self.install("fresh", "-c", ROOT / "constraints.txt", self.wheel)
        place = self.run(self.python("fresh"), "-c", "import surelabel; print(surelabel.__file__)")
        shown = self.run(self.folder / "fresh/bin/surelabel", "--version").strip()
        if not place.startswith(str(self.folder / "fresh")) or shown != f"surelabel {version()}":
            raise Failed(f"{place.strip()} is used, and says {shown}")
        return shown

    def least(self) -> str:
        """Run the demo and the examples with the least versions that pyproject.toml allows."""
        packages = least_versions(self.torch)
        self.install("least", self.wheel, *packages)
        return f"{self.demo('least')}; {self.run_tool('public_names.py', 'least')}; {', '.join(packages)}"

    def demo(self, name: str = "fresh") -> str:
        """Run the quick demo from the wheel."""
        result = json.loads(self.run(self.python(name).parent / "surelabel", "demo", "--quick", "--json"))
        accuracies = {name: result[name]["test_accuracy"] for name in ("cross_entropy", "car")}
        if not accuracies["car"] > accuracies["cross_entropy"] + 0.1:
            raise Failed(f"CAR should be better than cross entropy by far: {accuracies}")
        return ", ".join(f"{name} {value:.3f}" for name, value in accuracies.items())

    def examples(self) -> str:
        """Run the examples of all public names from the wheel."""
        return self.run_tool("public_names.py")

    def licences(self) -> str:
        """Check the licences of what the wheel needs."""
        return self.run_tool("licences.py")

    def run_tool(self, name: str, environment: str = "fresh") -> str:
        """Run a script of this folder in an environment."""
        return self.run(self.python(environment), shutil.copy(ROOT / "tools" / name, self.folder)).strip()

    def extras(self) -> str:
        """Resolve every extra on its own, without installing it."""
        python, constraints = self.python("fresh"), ROOT / "constraints.txt"
        for extra in extras():
            self.run(python, "-m", "pip", "install", "-q", "--dry-run", "-c", constraints, f"{self.wheel}[{extra}]")
        return f"each resolves: {', '.join(extras())}"


def main() -> int:
    """Run all checks, print a line for each, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tag", help="The tag of the release, such as v0.2.0.")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="Copy the sdist and the wheel to this folder.")
    parser.add_argument("--torch", metavar="VERSION", help="Check the least versions of all packages but PyTorch.")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="surelabel-release-") as folder:
        release = Release(Path(folder), options.torch)
        checks = [release.build, release.metadata, release.install_wheel, release.licences]
        checks += [release.demo, release.examples, release.extras, release.least]
        try:
            if options.tag is not None:
                print("tag:", check_tag(options.tag, version(), (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")))
            for check in checks:
                start = time.monotonic()
                print(f"{check.__name__}: {check()} ({time.monotonic() - start:.0f} s)", flush=True)
        except Failed as error:
            print(f"FAILED: {error}")
            return 1
        if options.keep is not None:
            shutil.copytree(release.dist, options.keep, dirs_exist_ok=True)
    print(f"surelabel {version()} could be released")
    return 0


if __name__ == "__main__":
    sys.exit(main())
