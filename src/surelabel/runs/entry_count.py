"""The number of the last entry of the journal, kept beside it: RUN/decisions.count.

    00000000000000000042 1f2e3d4c

It tells a journal that lost its last lines, or all of them, from one that never had them. A writer
changes it after its entry is on disk, so a crash between the two leaves a number that is too small,
which does no harm. It is written in place by one call and not synced: losing it only means that
such a loss is not noticed. The second word is the checksum of the first; what cannot be read counts
as 0, as does a missing file.
"""

import contextlib
import os
import re
import zlib
from pathlib import Path

from surelabel import files

_LINE = re.compile(rb"(\d{20}) ([0-9a-f]{8})\n")


def count_file(journal: Path) -> Path:
    """Return the file that has the count of a journal."""
    return journal.with_suffix(".count")


def read_count(journal: Path) -> int:
    """Return how many entries the journal had at least; 0 if that is not known."""
    if not os.path.lexists(count_file(journal)):
        return 0
    with files.opened(count_file(journal), os.O_RDONLY) as descriptor:
        found = _LINE.match(os.pread(descriptor, 30, 0))
    return int(found[1]) if found is not None and zlib.crc32(found[1]) == int(found[2], 16) else 0


def write_count(journal: Path, count: int) -> None:
    """Note how many entries the journal has; the caller holds its lock."""
    text = b"%020d" % count
    # The entries themselves are saved: a full disk is no reason to say that they are not.
    with contextlib.suppress(OSError), files.opened(count_file(journal), os.O_WRONLY | os.O_CREAT) as file:
        os.pwrite(file, text + b" %08x\n" % zlib.crc32(text), 0)
