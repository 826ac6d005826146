"""Say --label-column instead of data.label_column in what the command line prints."""

import contextlib
import logging
import re
from collections.abc import Collection, Iterator

from surelabel.errors import SurelabelError
from surelabel.overrides import COMMON

FIELDS = {
    f"--{name.replace('_', '-')}": f"{field}.name" if field in ("method", "model") else field
    for name, field in COMMON.items()
    if field != "noise"  # an option for several settings
}
"""The settings that have an option of their own."""

_REPEATED = re.compile(r"(--[\w-]+) \((\1\b[^)]*)\)")
"""An option that an error names beside its setting: --labels (--labels)."""


def name_flags(text: str, typed: Collection[str] = ()) -> str:
    """Replace the names of settings by those of their options, unless the user typed the former."""
    names = {field: flag for flag, field in FIELDS.items() if field not in typed}
    if not names:
        return text
    known = re.compile(rf"(?<![\w./-])({'|'.join(map(re.escape, names))})(=(?=\w)|(?![\w.]))")
    found = known.sub(lambda match: names[match[1]] + (" " if match[2] else ""), text)
    return _REPEATED.sub(r"\2", found)


@contextlib.contextmanager
def naming_flags(typed: Collection[str] = ()) -> Iterator[None]:
    """Name options in the errors and notes of a command; `typed` are settings that stay."""

    def rename(record: logging.LogRecord) -> bool:
        record.msg, record.args = name_flags(record.getMessage(), typed), None
        return True

    log = logging.getLogger("surelabel")
    log.addFilter(rename)
    try:
        yield
    except SurelabelError as error:
        raise type(error)(name_flags(str(error), typed)) from error
    finally:
        log.removeFilter(rename)
