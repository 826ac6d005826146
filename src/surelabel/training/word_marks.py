"""Find the words of a text that speak for one of two classes.

A word speaks for a class as much as the network's log-odds of the two classes change when the word
is left out of the text. For a linear network on weights of terms, that is the sum of the weights of
the word and of its character n-grams, up to the length of the text.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from surelabel.encoding.text_models import TextModelEncoder
from surelabel.encoding.tfidf import TfidfEncoder
from surelabel.training.predictor import TrainedModel

MOST_CHARACTERS = 600
"""Characters of a text that are shown."""
MOST_MARKED = 5
"""Words that are marked for each class."""
LEAST_SHARE = 0.15
"""Words with less than this share of the strongest word's effect are not marked."""
LEAST_EFFECT = 0.05
"""Smallest change of the log-odds that is marked."""
TINY = 1e-12

_WORD = re.compile(r"\w[\w'-]*")
_WORD_OR_GAP = re.compile(rf"{_WORD.pattern}|[^\w]+")
_CUT = " ..."


class Piece(NamedTuple):
    """A part of a text: a word that speaks for a class, or what is between such words."""

    text: str
    side: str = ""
    """given, suggested or empty."""


def can_mark(model: TrainedModel) -> bool:
    """Return whether words can be marked: with a transformer it would take too long."""
    encoder = model.encoder
    return isinstance(encoder, TfidfEncoder) or (isinstance(encoder, TextModelEncoder) and encoder.has_static_vectors)


def mark_words(
    model: TrainedModel, texts: Sequence[str], given: Sequence[int], suggested: Sequence[int]
) -> list[list[Piece]]:
    """Return the texts in pieces; `given` and `suggested` are class numbers (N,)."""
    words = [_distinct_words(text) for text in texts]
    changed = [text for text, found in zip(texts, words, strict=True) for text in (text, *_without_each(text, found))]
    logs = np.log(np.maximum(model.predict_proba(changed), TINY)) if changed else np.zeros((0, 1))
    pieces, start = [], 0
    for text, found, one, other in zip(texts, words, given, suggested, strict=True):
        odds = logs[start : start + len(found) + 1]
        odds = odds[:, other] - odds[:, one]
        pieces.append(_cut_up(text, _choose(dict(zip(found, odds[0] - odds[1:], strict=True)))))
        start += len(found) + 1
    return pieces


def shown(text: str) -> str:
    """Return the beginning of a long text."""
    return text if len(text) <= MOST_CHARACTERS else text[:MOST_CHARACTERS] + _CUT


def _distinct_words(text: str) -> list[str]:
    return list(dict.fromkeys(word.lower() for word in _WORD.findall(text[:MOST_CHARACTERS])))


def _without_each(text: str, words: list[str]) -> list[str]:
    """Return the text without each of the words in turn."""
    return ["".join("" if part.lower() == word else part for part in _parts(text)) for word in words]


def _parts(text: str) -> list[str]:
    """Return the words and what is between them."""
    return _WORD_OR_GAP.findall(text)


def _choose(effects: dict[str, float]) -> dict[str, str]:
    """Return the strongest words with the class that they speak for."""
    least = max(LEAST_EFFECT, LEAST_SHARE * max(map(abs, effects.values()), default=0.0))
    order = sorted(effects, key=lambda word: -abs(effects[word]))
    chosen: dict[str, str] = {}
    for side, sign in (("suggested", 1), ("given", -1)):
        chosen |= dict.fromkeys([word for word in order if sign * effects[word] >= least][:MOST_MARKED], side)
    return chosen


def _cut_up(text: str, chosen: dict[str, str]) -> list[Piece]:
    text, pieces, end = shown(text), [], 0
    for found in _WORD.finditer(text):
        side = chosen.get(found[0].lower())
        if side is not None:
            pieces += [Piece(text[end : found.start()]), Piece(found[0], side)]
            end = found.end()
    return [piece for piece in (*pieces, Piece(text[end:])) if piece.text]
