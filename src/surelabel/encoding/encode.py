"""Fit an encoder to the training rows of a corpus, and encode all its rows."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from surelabel.config import DataConfig
from surelabel.data.cells import Cells
from surelabel.data.corpus import Corpus, Examples
from surelabel.data.encodable import Encoder
from surelabel.data.inputs import Inputs
from surelabel.encoding.columns import ColumnEncoder
from surelabel.encoding.features import features_of
from surelabel.encoding.tfidf import TfidfEncoder


def attach_encoder(corpus: Corpus, config: DataConfig, encoder: Encoder | None = None) -> Corpus:
    """Return the corpus with an encoder for its cells: that of a run, or one fitted here.

    A run that was trained on pretrained features has none that is fitted.

    Only the training rows are looked at. A corpus of images or numbers is returned as it is.
    """
    train = corpus.train.x
    if not isinstance(train, Cells):
        return corpus
    known = encoder if isinstance(encoder, ColumnEncoder | TfidfEncoder) else _fit(train, config)
    return replace(
        with_encoder(corpus, known), feature_names=known.feature_names, has_term_weights=known.has_term_weights
    )


def _fit(train: Cells, config: DataConfig) -> Encoder:
    if not train.is_text:
        return ColumnEncoder.fit(train.arrow, train.categories)
    return TfidfEncoder.fit(train.texts(np.arange(len(train))), train.columns[0], config.source)


def encode_all(corpus: Corpus) -> Corpus:
    """Return the corpus with the features of all rows, if its inputs are cells."""
    if not isinstance(corpus.train.x, Cells):
        return corpus
    found = iter(features_of([rows.x for rows in corpus.parts.values() if isinstance(rows.x, Cells)]))
    return _replace_inputs(corpus, lambda _cells: next(found))


def with_encoder(corpus: Corpus, encoder: Encoder) -> Corpus:
    """Return the corpus with this encoder for all its cells."""
    return _replace_inputs(corpus, lambda cells: cells.with_encoder(encoder))


def _replace_inputs(corpus: Corpus, change: Callable[[Cells], Inputs]) -> Corpus:
    def of(rows: Examples) -> Examples:
        return replace(rows, x=change(rows.x)) if isinstance(rows.x, Cells) else rows

    return replace(
        corpus,
        train=of(corpus.train),
        validation=None if corpus.validation is None else of(corpus.validation),
        tests={name: of(rows) for name, rows in corpus.tests.items()},
    )
