"""Features of a pretrained network: which one, computed for all rows, and trained on or not.

`model.features: auto` takes a network that pip has installed, for images and for text. Its features
join the second opinion. Networks are trained on them, or on the inputs, as `model.train_on` says.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from surelabel.config import ModelConfig, RunConfig
from surelabel.data.cells import Cells
from surelabel.data.corpus import Corpus, Examples
from surelabel.data.encodable import Encodable, Encoder
from surelabel.data.inputs import Inputs
from surelabel.data.pictures import Pictures
from surelabel.data.sources.interface import ImageDefaults
from surelabel.encoding import stored
from surelabel.encoding.features import Say, features_of
from surelabel.encoding.pictures import PictureEncoder
from surelabel.encoding.registry import BACKBONES, find_backbone, is_switched_off, usual_backbone
from surelabel.encoding.text_models import PREFIXES, TextModelEncoder
from surelabel.engine import distributed
from surelabel.errors import ConfigError, did_you_mean
from surelabel.models import PRETRAINED, TINY_SIDE, intended_size, note_on_size
from surelabel.models.network import scale_to
from surelabel.runs.run_dir import RunDir
from surelabel.training import build

AUTO, NONE = "auto", "none"
INPUTS, FEATURES = "inputs", "features"
"""What networks may be trained on."""
Kind = Literal["images", "text"]
IMAGES: Kind = "images"
TEXT: Kind = "text"
GAINS = {
    IMAGES: "they raised the AUROC of P(wrong) on 1,200 small photos from .85 to .96",
    TEXT: "they raised the AUROC of P(wrong) on news from .85 to .87",
}
"""What they brought where it was measured: docs/results/pretrained.md."""
JUDGED = ("train", "validation")
"""The parts whose labels a run judges."""
KINDS = {IMAGES: "images", TEXT: "text", None: "numbers or tiny images"}


def attach(config: RunConfig, corpus: Corpus, say: Say, known: Encoder | None = None) -> tuple[RunConfig, Corpus]:
    """Return the configuration with the features that `auto` means, and the rows with them.

    `known` is the encoder of a run that has begun to train on them.
    """
    if corpus.pretrained is not None:  # candidates of a comparison
        return config, corpus
    resolved = resolve(config, corpus)
    for text in notes(config, resolved, corpus):
        say(text)
    if resolved.model.features == NONE:
        return resolved, corpus
    encoder = known or open_encoder(resolved.model, corpus)
    if isinstance(encoder, PictureEncoder):
        encoder.device = distributed.device_name(config.train)
    judged = [name for name in corpus.parts if name in JUDGED or resolved.model.train_on != INPUTS]
    return resolved, compute(corpus, encoder, judged, say)


def notes(config: RunConfig, resolved: RunConfig, corpus: Corpus) -> Iterator[str]:
    """Yield what a user should know of the features: which were chosen, or are missing."""
    kind, model = kind_of(corpus), resolved.model
    if config.model.features == AUTO and model.features != NONE:
        yield f"the features of {model.features} help to judge the labels; --features none leaves them out"
    if config.model.features == AUTO and model.features == NONE and kind is not None and not is_switched_off():
        first = next(known for known in BACKBONES if known.inputs == kind)
        yield f"without pretrained features: {first.install_command} brings them; {GAINS[kind]}"
    if model.feature_size is not None:
        for name, intended in _intended_sizes(model):
            yield from note_on_size(name, model.feature_size, intended)


def _intended_sizes(model: ModelConfig) -> Iterator[tuple[str, int | None]]:
    """Yield the pretrained networks that see images, and the pixels per side they were made for."""
    if model.features != NONE and _takes(model.features) == IMAGES:
        backbone, (name, _, file) = find_backbone(model.features), model.features.partition("=")
        yield name, intended_size(name, file or PRETRAINED) if backbone is None else backbone.size
    if model.weights is not None and model.train_on != FEATURES:
        yield model.name, intended_size(model.name, model.weights)


def resolve(config: RunConfig, corpus: Corpus) -> RunConfig:
    """Return the configuration with `features` named, or none, and what networks are trained on.

    `train_on` stays auto if that is to be compared.
    """
    model, kind = config.model, kind_of(corpus)
    if model.features == AUTO:
        usual = None if kind is None else usual_backbone(kind)
        is_open = (
            usual is not None and model.name == AUTO and not (model.options or model.weights or config.train.augment)
        )
        train_on = model.train_on if model.train_on != AUTO or is_open else INPUTS
        named = {"features": NONE if usual is None else usual.name, "train_on": train_on}
    else:
        named = {"train_on": _train_on_named(config, kind)}
    chosen = model.model_copy(update=named)
    if chosen.train_on == FEATURES:
        _check_network_on_features(config, chosen.features)
    return config.model_copy(update={"model": chosen})


def _train_on_named(config: RunConfig, kind: Kind | None) -> str:
    """Return what networks are trained on if the user named the features, or none."""
    model = config.model
    if model.features == NONE:
        return INPUTS if model.train_on == AUTO else model.train_on
    wanted = _takes(model.features)
    if wanted != kind:
        raise ConfigError(
            f"model.features: {model.features} takes {wanted}, but the inputs of {config.data.source} are {KINDS[kind]}"
        )
    return INPUTS if model.train_on == INPUTS else FEATURES


def _check_network_on_features(config: RunConfig, features: str) -> None:
    if features == NONE:
        raise ConfigError("model.train_on: features, but there are none: model.features names a pretrained network")
    if config.model.name not in (AUTO, "mlp"):
        raise ConfigError(
            f"model.name: {config.model.name} cannot be trained on the features of {features}; use auto or mlp, or "
            "model.train_on=inputs"
        )
    if config.train.augment:
        raise ConfigError("train.augment: features are computed once, without augmentation; use null or false")


def _takes(name: str) -> Kind:
    backbone = find_backbone(name)
    if backbone is not None:
        return backbone.inputs
    if name.startswith(PREFIXES):
        return TEXT
    if ":" not in name and "=" not in name:
        names = [known.name for known in BACKBONES]
        raise ConfigError(
            f"model.features: there is no {name!r}; {did_you_mean(name, names)}available: auto, none, "
            f"{', '.join(names)}, timm:NAME, NAME=FILE, hf:NAME, sentence:NAME"
        )
    return IMAGES


def kind_of(corpus: Corpus) -> Kind | None:
    """Return whether inputs are images or text; None if they are numbers, or images too small."""
    train = corpus.train
    if isinstance(train.x, Cells) and train.x.is_text:
        return TEXT
    is_seen = train.is_image and train.x.shape[1] in (1, 3) and max(train.x.shape[2:]) > TINY_SIDE
    return IMAGES if is_seen else None


def open_encoder(model: ModelConfig, corpus: Corpus) -> Encoder:
    """Open the network that `features` names."""
    if _takes(model.features) == IMAGES:
        return PictureEncoder.make(model.features, model.feature_size)
    column = corpus.train.x.columns[0] if isinstance(corpus.train.x, Cells) else ""
    return TextModelEncoder.make(model.features, column)


def compute(corpus: Corpus, encoder: Encoder, names: list[str], say: Say) -> Corpus:
    """Return the rows, those of the named parts with the features that the encoder makes."""
    found = features_of([as_encodable(corpus.parts[name], encoder) for name in names], say)
    return with_features(corpus, encoder, dict(zip(names, found, strict=True)))


def with_features(corpus: Corpus, encoder: Encoder, features: dict[str, Inputs]) -> Corpus:
    """Return the rows with these features, by the name of their part."""
    made = {name: _checked(rows, features[name]) if name in features else rows for name, rows in corpus.parts.items()}
    train, validation = made.pop("train"), made.pop("validation", None)
    return replace(corpus, train=train, validation=validation, tests=made, pretrained=encoder)


def as_encodable(rows: Examples, encoder: Encoder) -> Encodable:
    """Return what the encoder reads of the rows."""
    return rows.x.with_encoder(encoder) if isinstance(rows.x, Cells) else Pictures(rows.stored, encoder)


def _checked(rows: Examples, features: Inputs) -> Examples:
    if isinstance(features, torch.Tensor) and not torch.isfinite(features).all():
        bad = rows.ids[int((~torch.isfinite(features).all(1)).nonzero()[0])]
        raise ConfigError(f"model.features: the network gives NaN or infinite features for the row {bad}")
    return replace(rows, features=features)


def as_trained(config: RunConfig, corpus: Corpus) -> Corpus:
    """Return the rows with what networks are trained on as inputs."""
    if config.model.train_on != FEATURES:
        return corpus

    def of(rows: Examples) -> Examples:
        assert rows.features is not None
        return replace(rows, x=rows.features, features=None, encoded=None, crop=None)

    return replace(
        corpus,
        train=of(corpus.train),
        validation=None if corpus.validation is None else of(corpus.validation),
        tests={name: of(rows) for name, rows in corpus.tests.items()},
        image_defaults=ImageDefaults(),
        feature_names=None,
        has_term_weights=False,
    )


def encoder_of_run(config: RunConfig, corpus: Corpus) -> Encoder | None:
    """Return what new inputs must go through before the network: None if they are used as are."""
    if config.model.train_on == FEATURES:
        return corpus.pretrained
    return corpus.train.x.encoder if isinstance(corpus.train.x, Cells) else None


def settled(config: RunConfig) -> RunConfig:
    """Return the configuration with what is trained on where nothing was compared.

    Features of images are far better than pixels on most photos. Of texts, TF-IDF is the safer one.
    """
    model = config.model
    if model.train_on != AUTO:
        return config
    has_images = model.features not in (AUTO, NONE) and _takes(model.features) == IMAGES
    train_on = FEATURES if has_images else INPUTS
    return config.model_copy(update={"model": model.model_copy(update={"train_on": train_on})})


def as_stored(rows: Examples, position: int) -> Tensor:
    """Return the image (C, H, W) of a row."""
    return rows.x[torch.tensor([position])][0]


def images_seen(run_dir: RunDir) -> Callable[[Examples, int], Tensor]:
    """Return what gives the image (C, H, W) uint8 of a row as the network of a run saw it."""
    encoder = stored.read(run_dir)
    size = encoder.known.size if isinstance(encoder, PictureEncoder) else build.size_seen(run_dir.config())
    if size is None:
        return as_stored

    def look(rows: Examples, position: int) -> Tensor:
        if isinstance(encoder, PictureEncoder):
            image = Pictures(rows.stored).pixels(np.array([position]), size)
        else:
            image = as_stored(rows, position)[None]
        return scale_to(image.float(), size)[0].round().clamp(0, 255).to(torch.uint8)

    return look
