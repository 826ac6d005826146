"""The place of an export: one process at a time, and recovery from processes that were killed.

An export NAME is written to .NAME.TOKEN.tmp beside it. If NAME is an export already, it becomes
.NAME.TOKEN.tmp.old, the new one is renamed to NAME, and the old one is deleted. A kill may leave
these folders, and after the first of the two renames there is no NAME. The next command on the same
place puts the old export back if there is no other, and removes the rest.
"""

import contextlib
import logging
import os
import re
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from surelabel import files
from surelabel.exporting.manifest import is_export

_log = logging.getLogger("surelabel")


@contextlib.contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """Hold the place of an export, and first repair what killed processes left there.

    The folder around it is locked. Where that is not possible nothing is repaired, because another
    process may be at work.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with files.locked_folder(folder.parent) as is_held:
        if is_held:
            _repair(folder)
        yield


def _repair(folder: Path) -> None:
    left = re.compile(rf"\.{re.escape(folder.name)}\.[0-9a-f]{{16}}\.tmp(\.old)?")
    found = [path for path in folder.parent.iterdir() if left.fullmatch(path.name) and not path.is_symlink()]
    for path in sorted(path for path in found if path.is_dir()):
        if path.suffix == ".old" and is_export(path) and not os.path.lexists(folder):
            path.replace(folder)
            _log.warning("%s: put back, after an export that was killed", folder)
        else:
            shutil.rmtree(path)
            _log.info("removed %s, left by an export that was killed", path)


def put_in_place(fresh: Path, folder: Path) -> None:
    """Rename a complete export to its final name; an earlier export there is replaced."""
    with ThreadPoolExecutor() as pool:  # there may be many images
        list(pool.map(files.sync, (path for path in (*fresh.rglob("*"), fresh) if not path.is_symlink())))
    if not is_export(folder):
        fresh.replace(folder)
        files.sync(folder.parent)
        return
    old = fresh.with_name(f"{fresh.name}.old")
    folder.replace(old)
    try:
        fresh.replace(folder)
    except BaseException:
        old.replace(folder)
        raise
    files.sync(folder.parent)
    shutil.rmtree(old)
