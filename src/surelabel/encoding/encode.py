"""Fit an encoder to the training rows of a corpus, and encode all its rows."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from surelabel.config import DataConfig
from surelabel.data.cells import Cells, Encoder
from surelabel.data.corpus import Corpus, Examples
from surelabel.data.inputs import Inputs
from surelabel.encoding.columns import ColumnEncoder
from surelabel.encoding.tfidf import TfidfEncoder
from surelabel.encoding.transformer import TransformerEncoder
from surelabel.errors import ConfigError


def attach_encoder(corpus: Corpus, config: DataConfig, encoder: Encoder | None = None) -> Corpus:
    """Return the corpus with an encoder for its cells: that of a run, or one fitted here.

    Only the training rows are looked at. A corpus of images or numbers is returned as it is.
    """
    train = corpus.train.x
    if config.text_model is not None and not (isinstance(train, Cells) and train.is_text):
        raise ConfigError(
            f"model.name: {config.text_model} encodes text, but the inputs of {config.source} are not text"
        )
    if not isinstance(train, Cells):
        return corpus
    known = encoder or _fit(train, config)
    encoded = _replace_inputs(corpus, lambda x: x.with_encoder(known))
    return replace(encoded, feature_names=known.feature_names, has_term_weights=known.has_term_weights)


def _fit(train: Cells, config: DataConfig) -> Encoder:
    if not train.is_text:
        return ColumnEncoder.fit(train.arrow, train.categories)
    if config.text_model is not None:
        return TransformerEncoder.make(config.text_model, train.columns[0])
    return TfidfEncoder.fit(train.texts(np.arange(len(train))), train.columns[0], config.source)


def encode_all(corpus: Corpus) -> Corpus:
    """Return the corpus with the features of all rows in memory, if its inputs are cells."""
    return _replace_inputs(corpus, Cells.features)


def find_encoder(corpus: Corpus) -> Encoder | None:
    """Return the encoder of a corpus whose inputs are cells."""
    return corpus.train.x.encoder if isinstance(corpus.train.x, Cells) else None


def _replace_inputs(corpus: Corpus, change: Callable[[Cells], Inputs]) -> Corpus:
    def of(rows: Examples) -> Examples:
        return replace(rows, x=change(rows.x)) if isinstance(rows.x, Cells) else rows

    return replace(
        corpus,
        train=of(corpus.train),
        validation=None if corpus.validation is None else of(corpus.validation),
        tests={name: of(rows) for name, rows in corpus.tests.items()},
    )
