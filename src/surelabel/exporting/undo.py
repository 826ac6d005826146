"""Taking an export back."""

from collections.abc import Iterable
from pathlib import Path

from surelabel.errors import RunError
from surelabel.exporting.manifest import FILE_NAME, changed, read_manifest, strange
from surelabel.files import refuse_link


def undo(out: str | Path) -> list[str]:
    """Remove exactly what an export wrote, or nothing where a file was changed since; gives the names of files that are left.

    Links are removed, never what they lead to.
    """
    folder = Path(out)
    refuse_link(folder)  # in a run from a stranger it may lead to another export
    manifest = read_manifest(folder)
    edited = changed(folder, manifest)
    if edited:
        some = ", ".join(edited[:5]) + (", ..." if len(edited) > 5 else "")
        raise RunError(f"{folder}: {len(edited)} file(s) were changed since the export, nothing was removed: {some}")
    for name in manifest["files"]:
        (folder / name).unlink(missing_ok=True)
    left = strange(folder, manifest)
    (folder / FILE_NAME).unlink()
    _remove_empty(folder, manifest["files"])
    return left


def _remove_empty(folder: Path, names: Iterable[str]) -> None:
    """The folders of these files and the export's own, deepest first, where nothing else is in them."""
    folders = {folder, folder / "images"} | {(folder / name).parent for name in names}
    folders |= {place for place in (folder / "images").glob("*") if not place.is_symlink()}
    for place in sorted(folders, key=lambda path: -len(path.parts)):
        if place.is_dir() and not any(place.iterdir()):
            place.rmdir()
