"""Noise as a few words on the command line: KIND:RATE[:WORD...]."""

from typing import Any

from surelabel.errors import ConfigError
from surelabel.noise.class_maps import READY_GROUPS, READY_MAPS

_MODES: dict[str, dict[str, Any]] = {"bernoulli": {"mode": "bernoulli"}}
_WORDS: dict[str, dict[str, dict[str, Any]]] = {
    "symmetric": {"include": {"include_true_class": True}, **_MODES},
    "asymmetric": {**{name: {"class_map": name} for name in READY_MAPS}, **_MODES},
    "superclass": {**{name: {"groups": name} for name in READY_GROUPS}, **_MODES},
    "block": _MODES,
    "pair": _MODES,
    "instance": {},
}
"""What may follow the rate, and what it sets."""


def parsed(text: str) -> dict[str, Any]:
    """Settings of `symmetric:0.4:include`, `file:PATH` and the like, or one line that says what is possible."""
    kind, _, rest = text.partition(":")
    if kind == "file" and rest:
        return {"kind": kind, "path": rest}
    if kind not in _WORDS:
        raise ConfigError(f"--noise {text}: {_hint(kind)}")
    rate, *words = rest.split(":")
    settings = {"kind": kind, "rate": _rate(rate, text)}
    for word in words:
        if word not in _WORDS[kind] or words.count(word) > 1 or settings.keys() & _WORDS[kind][word].keys():
            raise ConfigError(f"--noise {text}: expected {form(kind)}, each word once")
        settings |= _WORDS[kind][word]
    return settings


def form(kind: str) -> str:
    """How a kind is written."""
    ready = [word for word, sets in _WORDS[kind].items() if sets.keys() & {"class_map", "groups"}]
    rest = [word for word in _WORDS[kind] if word not in ready]
    return f"{kind}:RATE" + "".join(f"[:{word}]" for word in ["|".join(ready)] * bool(ready) + rest)


def forms() -> str:
    """All that can be written."""
    return f"{', '.join(map(form, _WORDS))} or file:PATH"


def _hint(kind: str) -> str:
    if kind == "matrix":
        return 'matrix noise needs a matrix: --set noise.kind=matrix --set "noise.matrix=[[0.9, 0.1], [0.2, 0.8]]"'
    return f"expected {forms()}"


def _rate(rate: str, text: str) -> float:
    try:
        return float(rate)
    except ValueError:
        raise ConfigError(f"--noise {text}: {rate!r} is not a rate; expected a number in 0..1") from None
