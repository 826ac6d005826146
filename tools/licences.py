"""Check the licences of all packages that are installed beside this interpreter.

`make release-check` runs this in an environment with surelabel and its dependencies only. A licence
that is unknown or copyleft is an error unless EXCEPTIONS has the package, with a reason.
"""

import re
import sys
from collections import Counter
from email.message import Message
from importlib.metadata import distributions
from typing import Any

PERMISSIVE = {
    *("0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "BSL-1.0", "CC0-1.0", "HPND", "ISC"),
    *("MIT", "MIT-CMU", "PSF-2.0", "Python-2.0", "Unlicense", "Zlib"),
}
"""SPDX names of licences that ask for no more than a notice."""
OLD_NAMES = {
    "Apache 2.0": "Apache-2.0",
    "Apache Software License": "Apache-2.0",
    "BSD": "BSD-3-Clause",
    "BSD License": "BSD-3-Clause",
    "ISC License": "ISC",
    "ISC License (ISCL)": "ISC",
    "MIT License": "MIT",
    "Python Software Foundation License": "PSF-2.0",
}
"""Licences in metadata from before SPDX expressions."""
CUDA = "NVIDIA's libraries, which PyTorch's own wheels for Linux require; CPU builds do without"
EXCEPTIONS = {"nvidia-": CUDA, "cuda-": CUDA}
"""Beginnings of names of packages with other licences, and why they are accepted."""


def licence_of(metadata: "Message | Any") -> str | None:
    """Return a licence as an SPDX expression; None if the metadata do not say."""
    classifiers = [text.rpartition(" :: ")[2] for text in metadata.get_all("Classifier") or [] if "License ::" in text]
    if metadata.get("License-Expression"):
        return str(metadata["License-Expression"])
    found = [OLD_NAMES.get(name, name) for name in [*classifiers, metadata.get("License") or ""]]
    return next((name for name in found if name and "\n" not in name), None)


def is_permissive(expression: str) -> bool:
    """Return whether an SPDX expression asks for no more than a notice."""
    choices = re.sub(r"[()]| WITH \S+", "", expression).split(" OR ")
    return any(all(name.strip() in PERMISSIVE for name in choice.split(" AND ")) for choice in choices)


def problem_with(name: str, licence: str | None) -> str | None:
    """Return why a package cannot be accepted; None if it can."""
    if name.lower().startswith(tuple(EXCEPTIONS)) or (licence is not None and is_permissive(licence)):
        return None
    return f"{name}: {licence or 'its metadata name no licence'}"


def main() -> int:
    """Check all packages, print the licences and the problems, and return the exit code."""
    found = {one.metadata["Name"]: licence_of(one.metadata) for one in distributions()}
    problems = [problem for name, licence in sorted(found.items()) if (problem := problem_with(name, licence))]
    counts = Counter(str(licence) for licence in found.values()).most_common()
    print(f"{len(found)} packages: " + ", ".join(f"{count} {licence}" for licence, count in counts))
    print("\n".join(problems), end="\n" if problems else "")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
