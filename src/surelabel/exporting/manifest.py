"""export.json lists what an export wrote, so that exactly that can be removed again."""

import hashlib
import json
import os
from pathlib import Path, PurePosixPath
from typing import Any

from surelabel.errors import RunError
from surelabel.files import refuse_special_file

FILE_NAME = "export.json"
SCHEMA_VERSION = 1
_KIND = "surelabel export"


def write_manifest(folder: Path, facts: dict[str, Any]) -> None:
    """Write `facts` and the state of every file in the folder."""
    files = {path.relative_to(folder).as_posix(): _state(path) for path in _list_files(folder)}
    content = {"kind": _KIND, "schema": SCHEMA_VERSION, **facts, "files": files}
    text = json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    (folder / FILE_NAME).write_text(text, encoding="utf-8")


def is_export(folder: Path) -> bool:
    """Return whether a folder contains a manifest."""
    return (folder / FILE_NAME).is_file()


def read_manifest(folder: Path) -> dict[str, Any]:
    """Read the manifest and check that all its files are inside the folder."""
    file = folder / FILE_NAME
    refuse_special_file(file, RunError)
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise RunError(f"{folder}: not an export (it has no {FILE_NAME})") from None
    except (OSError, ValueError) as error:
        raise RunError(f"{file}: not readable: {' '.join(str(error).split())}") from None
    if not isinstance(content, dict) or content.get("kind") != _KIND or not isinstance(content.get("files"), dict):
        raise RunError(f"{file}: not the manifest of an export")
    if content.get("schema") != SCHEMA_VERSION:
        raise RunError(
            f"{file}: written with export schema {content.get('schema')}; this version reads {SCHEMA_VERSION}"
        )
    for name in content["files"]:
        if not _is_inside(folder, name):
            raise RunError(f"{file}: names {name!r}, which does not lie in this folder; nothing was done")
    return content


def changed_files(folder: Path, manifest: dict[str, Any]) -> list[str]:
    """Return the files that differ from what was written; missing files do not count."""
    listed = {name: folder / name for name in manifest["files"]}
    return [name for name, path in listed.items() if os.path.lexists(path) and _state(path) != manifest["files"][name]]


def foreign_files(folder: Path, manifest: dict[str, Any]) -> list[str]:
    """Return the files that the export did not write."""
    found = [path.relative_to(folder).as_posix() for path in _list_files(folder)]
    return [name for name in found if name not in manifest["files"] and name != FILE_NAME]


def _is_inside(folder: Path, name: str) -> bool:
    """Return whether a name stays inside the folder, also through links among its folders."""
    pure = PurePosixPath(name)
    is_relative = bool(pure.parts) and not pure.is_absolute() and ".." not in pure.parts and name == str(pure)
    return is_relative and (folder / name).parent.resolve().is_relative_to(folder.resolve())


def _list_files(folder: Path) -> list[Path]:
    """List all files and links, without following links."""
    found = []
    for place, folders, names in os.walk(folder):
        linked = [name for name in folders if (Path(place) / name).is_symlink()]
        found += [Path(place) / name for name in (*names, *linked)]
    return sorted(found)


def _state(path: Path) -> dict[str, str]:
    if path.is_symlink():
        return {"link": str(path.readlink())}
    if not path.is_file():
        return {"kind": "other"}
    with path.open("rb") as file:
        return {"sha256": hashlib.file_digest(file, "sha256").hexdigest()}
