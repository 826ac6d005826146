"""Keep the encoder of a run in its directory: encoder.json and, for text, encoder.safetensors."""

from typing import Any

from pydantic import ValidationError

from surelabel.config import one_line
from surelabel.data.encodable import Encoder
from surelabel.encoding.columns import ColumnEncoder
from surelabel.encoding.pictures import PictureEncoder
from surelabel.encoding.text_models import TextModelEncoder
from surelabel.encoding.tfidf import TfidfEncoder
from surelabel.errors import RunError
from surelabel.runs.run_dir import ENCODER_FILE, ENCODER_TENSORS, RunDir

KINDS: dict[str, Any] = {
    "tfidf": TfidfEncoder,
    "columns": ColumnEncoder,
    "text_model": TextModelEncoder,
    "pictures": PictureEncoder,
}
"""Encoders by the `kind` in encoder.json."""


def write(run_dir: RunDir, encoder: Encoder | None) -> None:
    """Write the encoder of a new run, its JSON last; without one, remove that of a failed start."""
    for name in (ENCODER_FILE, ENCODER_TENSORS):
        if run_dir.has(name):
            run_dir.remove(name)
    if encoder is None:
        return
    tensors = dict(encoder.tensors())
    if tensors:
        run_dir.write_tensors(ENCODER_TENSORS, {name: value.contiguous() for name, value in tensors.items()})
    run_dir.write_json(ENCODER_FILE, encoder.describe())


def read(run_dir: RunDir) -> Encoder | None:
    """Read the encoder of a run; None if its inputs are images or numbers."""
    content = run_dir.encoder()
    if content is None:
        return None
    file = run_dir.path / ENCODER_FILE
    kind = KINDS.get(str(content.get("kind")))
    if kind is None:
        raise RunError(f"{file}: there is no encoder {content.get('kind')!r}; available: {', '.join(KINDS)}")
    tensors = run_dir.tensors(ENCODER_TENSORS) if run_dir.has(ENCODER_TENSORS) else {}
    try:
        encoder: Encoder = kind.load(content, tensors)
    except ValidationError as error:
        raise RunError(f"{file}: not readable: {one_line(error)}") from None
    except ValueError as error:
        raise RunError(f"{run_dir.path / ENCODER_TENSORS}: does not fit {ENCODER_FILE}: {error}") from None
    width = run_dir.data()["input_shape"]
    if encoder.columns and [encoder.num_features] != width:
        raise RunError(f"{file}: makes {encoder.num_features} features; the run was trained on inputs {width}")
    return encoder
