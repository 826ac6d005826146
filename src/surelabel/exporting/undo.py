"""Undo an export: remove the files it wrote."""

from collections.abc import Iterable
from pathlib import Path

from surelabel.errors import RunError
from surelabel.exporting.manifest import FILE_NAME, changed_files, foreign_files, read_manifest
from surelabel.exporting.place import claimed
from surelabel.files import refuse_link


def undo(out: str | Path) -> list[str]:
    """Remove exactly what an export wrote; return the names of other files, which stay.

    Nothing is removed if a file was changed since. Links are removed, never their targets.
    """
    folder = Path(out)
    refuse_link(folder)  # in a run from elsewhere it may point to another export
    if not folder.parent.is_dir():
        raise RunError(f"{folder}: not an export: there is no folder {folder.parent}")
    with claimed(folder):
        return _remove(folder)


def _remove(folder: Path) -> list[str]:
    manifest = read_manifest(folder)
    edited = changed_files(folder, manifest)
    if edited:
        some = ", ".join(edited[:5]) + (", ..." if len(edited) > 5 else "")
        raise RunError(f"{folder}: {len(edited)} file(s) were changed since the export, nothing was removed: {some}")
    for name in manifest["files"]:
        (folder / name).unlink(missing_ok=True)
    left = foreign_files(folder, manifest)
    (folder / FILE_NAME).unlink()
    _remove_empty(folder, manifest["files"])
    return left


def _remove_empty(folder: Path, names: Iterable[str]) -> None:
    """Remove the folders of these files and of the export, deepest first, if they are empty."""
    folders = {folder, folder / "images"} | {(folder / name).parent for name in names}
    folders |= {place for place in (folder / "images").glob("*") if not place.is_symlink()}
    for place in sorted(folders, key=lambda path: -len(path.parts)):
        if place.is_dir() and not any(place.iterdir()):
            place.rmdir()
