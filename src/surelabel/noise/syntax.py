"""How a user writes noise on the command line: KIND:RATE[:WORD...]."""

from typing import Any

from surelabel.errors import ConfigError
from surelabel.noise.class_maps import BUILT_IN_GROUPS, BUILT_IN_MAPS

_MODES: dict[str, dict[str, Any]] = {"bernoulli": {"mode": "bernoulli"}}
_WORDS: dict[str, dict[str, dict[str, Any]]] = {
    "symmetric": {"include": {"include_true_class": True}, **_MODES},
    "asymmetric": {**{name: {"class_map": name} for name in BUILT_IN_MAPS}, **_MODES},
    "superclass": {**{name: {"groups": name} for name in BUILT_IN_GROUPS}, **_MODES},
    "block": _MODES,
    "pair": _MODES,
    "instance": {},
}
"""The words that may follow the rate of each kind on the command line, and the options they set."""


def parse_noise(text: str) -> dict[str, Any]:
    """Return the settings for `KIND:RATE[:WORD...]` or `file:PATH` from the command line."""
    kind, _, rest = text.partition(":")
    if kind == "file" and rest:
        return {"kind": kind, "path": rest}
    if kind not in _WORDS:
        raise ConfigError(f"--noise {text}: {_hint(kind)}")
    rate, *words = rest.split(":")
    settings = {"kind": kind, "rate": _parse_rate(rate, text)}
    for word in words:
        if word not in _WORDS[kind] or words.count(word) > 1 or settings.keys() & _WORDS[kind][word].keys():
            raise ConfigError(f"--noise {text}: expected {syntax(kind)}, each word once")
        settings |= _WORDS[kind][word]
    return settings


def syntax(kind: str) -> str:
    """Return how a kind of noise is written on the command line."""
    maps = [word for word, sets in _WORDS[kind].items() if sets.keys() & {"class_map", "groups"}]
    rest = [word for word in _WORDS[kind] if word not in maps]
    return f"{kind}:RATE" + "".join(f"[:{word}]" for word in (["|".join(maps)] if maps else []) + rest)


def _hint(kind: str) -> str:
    if kind == "matrix":
        return 'matrix noise needs a matrix: --set noise.kind=matrix --set "noise.matrix=[[0.9, 0.1], [0.2, 0.8]]"'
    return f"expected {', '.join(map(syntax, _WORDS))} or file:PATH"


def _parse_rate(rate: str, text: str) -> float:
    try:
        return float(rate)
    except ValueError:
        raise ConfigError(f"--noise {text}: {rate!r} is not a rate; expected a number in 0..1") from None
