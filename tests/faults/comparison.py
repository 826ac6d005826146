"""Compare two folders file by file, apart from times and from where they are."""

import json
import re
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from safetensors.numpy import load_file

IGNORED_FILES = {"env.json", "lock", "checksums.json", ".surelabel-outputs"}
"""Where and when it ran, and lists of checksums of files that contain a time."""
IGNORED_KEYS = {"seconds", "samples_per_second", "time", "run", "sha256"}
"""How long it took, when, where, and hashes of files that contain a time."""
TIME = re.compile(rb"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(\+00:00)?")


def differing_files(folder: Path, expected: Path) -> list[str]:
    """Return the names of files that differ from those of an undisturbed command."""
    found = {str(path.relative_to(base)) for base in (folder, expected) for path in base.rglob("*")}
    names = sorted(name for name in found if Path(name).name not in IGNORED_FILES)
    return [name for name in names if read_content(folder / name) != read_content(expected / name)]


def read_content(path: Path) -> Any:
    """Return what a file says, in a form that can be compared; None if there is no file."""
    if path.is_dir():
        return "a folder"
    if not path.is_file():
        return None
    try:
        return _parse(path)
    except Exception:  # a damaged file is compared by its bytes
        return path.read_bytes()


def _parse(path: Path) -> Any:
    if path.suffix == ".parquet":
        return _without_times(repr(pq.ParquetFile(path).read(use_threads=False).to_pylist()).encode())
    if path.suffix == ".jsonl":
        return [_without_keys(json.loads(line)) for line in path.read_text().splitlines()]
    if path.suffix == ".json" or path.name == "done":
        return _without_keys(json.loads(path.read_text()))
    if path.suffix == ".safetensors":
        return {key: (value.dtype, value.shape, value.tobytes()) for key, value in load_file(path).items()}
    return _without_times(path.read_bytes())


def _without_keys(content: Any) -> Any:
    if isinstance(content, dict):
        return {key: _without_keys(value) for key, value in content.items() if key not in IGNORED_KEYS}
    if isinstance(content, list):
        return [_without_keys(value) for value in content]
    return content if content == content else "NaN"


def _without_times(content: bytes) -> bytes:
    return TIME.sub(b"TIME", content)
