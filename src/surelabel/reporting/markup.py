"""HTML from Python: every text is escaped unless it is markup already, so that no name can become markup."""

import unicodedata
from html import escape

VOID = frozenset({"img", "meta", "source"})
"""Elements without an end."""
TURNING = frozenset(map(chr, (*range(0x202A, 0x202F), *range(0x2066, 0x206A))))
"""Marks after which text runs in the other direction; a name could hide behind them what it is."""


class Html(str):
    """Text that is markup already."""

    __slots__ = ()


def element(name: str, /, *children: object, **attributes: object) -> Html:
    """`element("p", "a < b", class_="note")`; None and False leave an attribute out, `_` stands for `-`."""
    start = "".join([name, *(_attribute(key, value) for key, value in attributes.items())])
    return Html(f"<{start}>" if name in VOID else f"<{start}>{joined(*children)}</{name}>")


def joined(*children: object) -> Html:
    """One after the other; None is nothing."""
    return Html("".join(child if isinstance(child, Html) else _text(child) for child in children if child is not None))


def _attribute(key: str, value: object) -> str:
    if value is None or value is False:
        return ""
    key = key.rstrip("_").replace("_", "-")
    return f" {key}" if value is True else f' {key}="{_text(value)}"'


def _text(value: object) -> str:
    """Escaped, and without characters that no HTML may hold or that would turn the text after them around."""
    return escape("".join("\ufffd" if _is_harmful(letter) else letter for letter in str(value)))


def _is_harmful(letter: str) -> bool:
    return letter not in "\n\t" and (unicodedata.category(letter) in ("Cc", "Cs") or letter in TURNING)
