"""Features of text from a pretrained model on this machine: a registered one, or a transformer.

Transformers are hf:NAME or sentence:NAME, where NAME is a folder, or a model of the Hugging Face
hub that was downloaded before (`hf download NAME`): nothing is fetched here, no code of a model is
run, and only safetensors weights are read. hf: takes the mean of the last layer over the tokens of
a text, sentence: what the model itself is made to give. The run keeps the name of the model, not
its weights, and the features of one sentence, by which it notices that others have taken their
place. Of a registered model it keeps the checksum as well.
"""

import contextlib
import importlib.util
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import torch
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor

from surelabel.core.torchvision_import import import_torchvision
from surelabel.encoding.registry import find_backbone
from surelabel.encoding.words import open_words
from surelabel.errors import ConfigError, RunError, missing_package

HF, SENTENCE = "hf:", "sentence:"
PREFIXES = (HF, SENTENCE)
MOST_TOKENS = 512
"""Longer texts are cut."""
BATCH = 32
PROBE = "The quick brown fox jumps over the lazy dog."
NUM_PROBED = 16
"""Features of the sentence that are kept."""
TOLERANCE = 0.02

Model = Callable[[list[str]], np.ndarray]
"""Returns the features (N, D) of N texts."""


class Description(BaseModel):
    """What encoder.json has of this encoder."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    kind: Literal["text_model"] = "text_model"
    column: str
    name: str = Field(pattern=r"^((hf|sentence):.+|\w+)$")
    """hf:NAME, sentence:NAME, or that of a registered model."""
    checksum: str | None = None
    """Of a registered model: SHA-256 of its weights."""
    num_features: int = Field(ge=1, le=2**16)
    probe: list[float] = Field(min_length=1, max_length=NUM_PROBED)


@dataclass(frozen=True)
class TextModelEncoder:
    """Turns texts into the features of a model."""

    known: Description

    @classmethod
    def make(cls, name: str, column: str) -> "TextModelEncoder":
        """Open a model, which is not trained."""
        (features,) = _open(name)([PROBE])
        probe = [float(value) for value in features[:NUM_PROBED]]
        checksum = None if name.startswith(PREFIXES) else _checksum(name)
        return cls(Description(column=column, name=name, checksum=checksum, num_features=len(features), probe=probe))

    @property
    def num_features(self) -> int:
        """The number of features, D."""
        return self.known.num_features

    @property
    def feature_names(self) -> None:
        """Return None: the features have no names."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The column of text."""
        return (self.known.column,)

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of data with which a table is read for it."""
        return {"text_column": self.known.column} if self.known.column else {}

    @property
    def has_term_weights(self) -> bool:
        """Return False: the features are no weights of terms."""
        return False

    @property
    def has_static_vectors(self) -> bool:
        """Whether a text takes less than a millisecond: no transformer reads it."""
        return not self.known.name.startswith(PREFIXES)

    @property
    def cache_key(self) -> str:
        """What identifies its features in the cache, besides the texts."""
        return self.known.model_dump_json()

    def encode(self, cells: pa.Table) -> np.ndarray:
        """Return the features (N, D) float32 of the first column."""
        model = _open(self.known.name)
        _check_model(self.known, model)
        texts = [text or "" for text in cells.column(0).to_pylist()]
        features = np.zeros((len(texts), self.num_features), dtype=np.float32)
        order = sorted(range(len(texts)), key=lambda row: len(texts[row]))  # texts of a batch are padded
        for start in range(0, len(texts), BATCH):
            rows = order[start : start + BATCH]
            features[rows] = model([texts[row] for row in rows])
        return features

    def describe(self) -> dict[str, Any]:
        """Return what encoder.json has of it."""
        return self.known.model_dump(mode="json")

    def tensors(self) -> dict[str, Tensor]:
        """Return no tensors."""
        return {}

    @classmethod
    def load(cls, content: dict[str, Any], tensors: dict[str, Tensor]) -> "TextModelEncoder":
        """Make the encoder of a run; the model is opened when the first text is encoded."""
        if tensors:
            raise ValueError("tensors that do not belong to it")
        return cls(Description.model_validate(content))


def _check_model(known: Description, model: Model) -> None:
    """Raise if the model is not the one that the run was trained with."""
    (features,) = model([PROBE])
    same = (
        known.checksum in (None, _checksum(known.name))
        and len(features) == known.num_features
        and np.allclose(features[: len(known.probe)], known.probe, rtol=TOLERANCE, atol=TOLERANCE)
    )
    if not same:
        raise RunError(f"{known.name}: not the model that this run was trained with: its features differ")


def _checksum(name: str) -> str | None:
    backbone = find_backbone(name)
    return None if backbone is None else backbone.checksum


@lru_cache(maxsize=2)
def _open(name: str) -> Model:
    """Open a registered model, or that of a name that begins with one of PREFIXES."""
    if not name.startswith(PREFIXES):
        backbone = find_backbone(name)
        if backbone is None:
            raise RunError(f"{name}: this version of surelabel knows no such model; train again")
        return open_words(backbone)
    package = "transformers" if name.startswith(HF) else "sentence_transformers"
    if importlib.util.find_spec(package) is None:
        raise missing_package(f"model.features: {name}", package, "text")
    if importlib.util.find_spec("torchvision") is not None:
        import_torchvision()  # both packages import it
    place = name.removeprefix(HF).removeprefix(SENTENCE)
    with _quiet(package):
        try:
            return _open_transformer(place) if name.startswith(HF) else _open_sentence_model(place)
        except (OSError, ValueError, KeyError, RuntimeError) as error:
            reason = str(error).strip().partition("\n")[0]
            raise ConfigError(
                f"model.features: {name} is neither a folder with a model in safetensors files nor one that was "
                f"downloaded before (hf download NAME): {reason}"
            ) from None


def _open_transformer(place: str) -> Model:
    from transformers import AutoModel, AutoTokenizer

    local: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
    tokenizer = AutoTokenizer.from_pretrained(place, **local)
    network = AutoModel.from_pretrained(place, use_safetensors=True, **local).eval()
    limit = min(
        MOST_TOKENS, tokenizer.model_max_length, getattr(network.config, "max_position_embeddings", MOST_TOKENS)
    )

    @torch.no_grad()
    def encode(texts: list[str]) -> np.ndarray:
        tokens = tokenizer(texts, padding=True, truncation=True, max_length=limit, return_tensors="pt")
        hidden, mask = network(**tokens).last_hidden_state.float(), tokens["attention_mask"][..., None]
        mean: np.ndarray = ((hidden * mask).sum(1) / mask.sum(1).clamp(min=1)).numpy()
        return mean

    return encode


def _open_sentence_model(place: str) -> Model:
    from sentence_transformers import SentenceTransformer

    network = SentenceTransformer(
        place,
        device="cpu",
        local_files_only=True,
        trust_remote_code=False,
        model_kwargs={"use_safetensors": True},
    )

    def encode(texts: list[str]) -> np.ndarray:
        return np.asarray(network.encode(texts, show_progress_bar=False), dtype=np.float32)

    return encode


@contextlib.contextmanager
def _quiet(package: str) -> Iterator[None]:
    """Keep a package from printing its notes on a model."""
    log = logging.getLogger(package)
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(level)
