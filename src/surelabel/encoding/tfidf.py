"""Features of text: TF-IDF weights of words and of character n-grams, reduced by a truncated SVD.

Words say what a text is about; character n-grams see through endings, compounds and typing errors,
and languages without spaces. Both kinds are counted sublinearly (1 + log n). If there are more
than NUM_COLUMNS of them, a truncated SVD reduces them, and each row is scaled to length 1.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, Self

import numpy as np
import pyarrow as pa
import torch
from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError
from torch import Tensor

from surelabel.errors import DataError

NUM_COLUMNS = 300
"""Features of a text at most; docs/decisions/0023 has the measurements."""
MOST_TERMS = 10_000
"""Terms of each kind; the most frequent ones are kept."""
FITTED_ROWS = 50_000
"""Training rows that terms and components are found in, evenly spaced."""
RARE_FROM = 200
"""With so many rows, terms that only one of them has are left out."""
MOST_CHARACTERS = 1_000_000
"""Longer texts are cut."""
SEED = 0


class Terms(BaseModel):
    """The terms of one kind, in the order of their columns."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    analyzer: Literal["word", "char_wb"]
    shortest: int = Field(ge=1, le=8)
    longest: int = Field(ge=1, le=8)
    terms: list[str] = Field(max_length=1_000_000)

    @model_validator(mode="after")
    def _refuse_impossible_terms(self) -> Self:
        if self.shortest > self.longest or len(set(self.terms)) != len(self.terms):
            raise PydanticCustomError("terms", "terms occur twice, or have no length")
        return self


KINDS = (
    Terms(analyzer="word", shortest=1, longest=1, terms=[]),
    Terms(analyzer="char_wb", shortest=2, longest=4, terms=[]),
)


class Description(BaseModel):
    """What encoder.json has of this encoder."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    kind: Literal["tfidf"]
    column: str
    parts: list[Terms] = Field(min_length=1, max_length=4)


@dataclass(frozen=True)
class TfidfEncoder:
    """Turns texts into features, with the terms and components of the training rows."""

    column: str
    """Blank if the text comes from no table."""
    parts: tuple[Terms, ...]
    idf: tuple[np.ndarray, ...]
    """(V,) float32 for each part."""
    components: np.ndarray | None
    """(D, V of all parts) float16; None if the terms themselves are the features."""

    @classmethod
    def fit(cls, texts: list[str], column: str, where: str) -> "TfidfEncoder":
        """Find the terms and components of texts."""
        rows = np.linspace(0, len(texts) - 1, min(len(texts), FITTED_ROWS)).astype(np.int64)
        texts = [texts[row][:MOST_CHARACTERS] for row in rows]
        fitted = [_fit_terms(kind, texts) for kind in KINDS]
        found = [part for part in fitted if part is not None]
        if not found:
            raise DataError(f"{where}: no words in the text; expected some in most rows")
        parts, idf = zip(*found, strict=True)
        encoder = cls(column, parts, idf, None)
        weights = encoder.weigh(texts)
        if weights.shape[1] > NUM_COLUMNS:
            encoder = cls(column, parts, idf, _components(weights))
        return encoder

    @property
    def num_features(self) -> int:
        """The number of features, D."""
        return sum(map(len, self.idf)) if self.components is None else len(self.components)

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """The terms, if they are the features."""
        return tuple(term for part in self.parts for term in part.terms) if self.components is None else None

    @property
    def has_term_weights(self) -> bool:
        """They are. Directions in which texts hardly vary are mostly noise, and stay small."""
        return True

    @property
    def columns(self) -> tuple[str, ...]:
        """The column of text."""
        return (self.column,)

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of data with which a table is read for it."""
        return {"text_column": self.column} if self.column else {}

    @property
    def cache_key(self) -> None:
        """Encoding is fast enough."""

    def encode(self, cells: pa.Table) -> np.ndarray:
        """Return the features (N, D) float32 of the first column."""
        return self.encode_texts([text or "" for text in cells.column(0).to_pylist()])

    def encode_texts(self, texts: list[str]) -> np.ndarray:
        """Return the features (N, D) float32 of texts."""
        return self.reduce(self.weigh([text[:MOST_CHARACTERS] for text in texts]))

    def weigh(self, texts: list[str]) -> Any:
        """Return the TF-IDF weights (N, V) as a sparse matrix."""
        from scipy.sparse import csr_matrix, hstack

        if not texts:
            return csr_matrix((0, sum(map(len, self.idf))), dtype=np.float32)
        return hstack([vectoriser.transform(texts) for vectoriser in self._vectorisers]).tocsr()

    def reduce(self, weights: Any) -> np.ndarray:
        """Return the features (N, D) of weights (N, V)."""
        if self.components is None:
            dense: np.ndarray = weights.toarray().astype(np.float32)
            return dense
        features: np.ndarray = np.asarray(weights @ self._projection, dtype=np.float32)
        features /= np.maximum(np.linalg.norm(features, axis=1, keepdims=True), 1e-6)
        return features

    @cached_property
    def _projection(self) -> np.ndarray:
        """(V, D) float32."""
        assert self.components is not None
        return np.ascontiguousarray(self.components.T.astype(np.float32))

    @cached_property
    def _vectorisers(self) -> list[Any]:
        made = []
        for part, idf in zip(self.parts, self.idf, strict=True):
            vectoriser = _vectoriser(part, vocabulary={term: at for at, term in enumerate(part.terms)})
            vectoriser.idf_ = idf.astype(np.float64)
            made.append(vectoriser)
        return made

    def describe(self) -> dict[str, Any]:
        """Return what encoder.json has of it."""
        known = Description(kind="tfidf", column=self.column, parts=list(self.parts))
        return known.model_dump(mode="json")

    def tensors(self) -> dict[str, Tensor]:
        """Return the weights of terms, and the components."""
        found = {f"idf.{number}": torch.from_numpy(idf) for number, idf in enumerate(self.idf)}
        return found if self.components is None else found | {"components": torch.from_numpy(self.components)}

    @classmethod
    def load(cls, content: dict[str, Any], tensors: dict[str, Tensor]) -> "TfidfEncoder":
        """Make the encoder of a run; raise ValueError if its files do not fit together."""
        known = Description.model_validate(content)
        sizes = [len(part.terms) for part in known.parts]
        idf = [_tensor(tensors, f"idf.{number}", torch.float32, (size,)) for number, size in enumerate(sizes)]
        components = None
        if "components" in tensors:
            components = _tensor(tensors, "components", torch.float16, (None, sum(sizes)))
        if len(tensors) != len(idf) + (components is not None) or not all(sizes):
            raise ValueError("tensors that do not belong to it, or no terms")
        return cls(known.column, tuple(known.parts), tuple(idf), components)


def _tensor(tensors: dict[str, Tensor], name: str, dtype: torch.dtype, shape: tuple[int | None, ...]) -> np.ndarray:
    found = tensors.get(name)
    if found is None:
        raise ValueError(f"there is no {name}")
    fits = found.dim() == len(shape) and all(
        want in (None, have) for want, have in zip(shape, found.shape, strict=True)
    )
    if found.dtype != dtype or not fits or not len(found):
        raise ValueError(f"{name} is {found.dtype} {tuple(found.shape)}; expected {dtype} {shape}")
    if not torch.isfinite(found).all():
        raise ValueError(f"{name} holds NaN or infinite values")
    return found.numpy()


def _vectoriser(kind: Terms, **options: Any) -> Any:
    from sklearn.feature_extraction.text import TfidfVectorizer

    lengths = (kind.shortest, kind.longest)
    return TfidfVectorizer(analyzer=kind.analyzer, ngram_range=lengths, sublinear_tf=True, dtype=np.float32, **options)


def _fit_terms(kind: Terms, texts: list[str]) -> tuple[Terms, np.ndarray] | None:
    """Return the terms of one kind and their weights; None if texts have none."""
    vectoriser = _vectoriser(kind, max_features=MOST_TERMS, min_df=2 if len(texts) >= RARE_FROM else 1)
    try:
        vectoriser.fit(texts)
    except ValueError:  # an empty vocabulary
        return None
    terms = [str(term) for term in vectoriser.get_feature_names_out()]
    return kind.model_copy(update={"terms": terms}), vectoriser.idf_.astype(np.float32)


def _components(weights: Any) -> np.ndarray:
    """Return (D, V) directions in which the weights vary most."""
    from sklearn.decomposition import TruncatedSVD

    size = max(1, min(NUM_COLUMNS, weights.shape[0] - 1, weights.shape[1] - 1))
    found: np.ndarray = TruncatedSVD(size, random_state=SEED).fit(weights).components_.astype(np.float16)
    return found
