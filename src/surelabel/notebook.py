"""HTML for notebooks; every text is escaped, because names of classes and files come from data."""

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any


def paragraphs(texts: Iterable[str]) -> str:
    """Return sentences as HTML, one paragraph each."""
    return "".join(f"<p>{escape(text)}</p>" for text in texts)


def table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return a table as HTML, with three digits after the point."""
    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    body = "".join(f"<tr>{''.join(f'<td>{escape(_text(value))}</td>' for value in row)}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _text(value: Any) -> str:
    if value is None or value != value:  # NaN means unknown
        return "-"
    return f"{value:.3f}" if isinstance(value, float) else str(value)
