"""Write text and tables as Markdown that shows them as they are."""

import re
from collections.abc import Iterable, Sequence

_SPECIAL = re.compile(r"([\\`*_\[\]<>#|~&])")


def escape(text: str) -> str:
    """Return text that Markdown shows as it is, on one line."""
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return the lines of a table; cells are escaped."""
    lines = [f"| {' | '.join(map(escape, row))} |" for row in (header, *rows)]
    return [lines[0], f"|{'---|' * len(header)}", *lines[1:]]
