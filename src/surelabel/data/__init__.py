"""Load data: read a source, replace labels, and split rows for training, validation and testing."""

import difflib
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from surelabel.config import DataConfig
from surelabel.data.benchmarks import BENCHMARKS, digits
from surelabel.data.cells import Cells
from surelabel.data.corpus import Corpus, Examples, finite_rows
from surelabel.data.encodable import UNENCODED, Encoder
from surelabel.data.groups import attach_groups
from surelabel.data.images.encode import Encoded
from surelabel.data.images.frames import centre_crop_inputs
from surelabel.data.images.load import fit_to_shape
from surelabel.data.images.stream import StreamedImages
from surelabel.data.inputs import ANY_SIZE, Inputs, Shape
from surelabel.data.merge import merge_classes, to_known
from surelabel.data.pictures import Pictures
from surelabel.data.relabel import relabel
from surelabel.data.sources import array_files, folder
from surelabel.data.sources.checks import fitting_in_memory, list_some, refuse_lost_classes
from surelabel.data.sources.interface import Parts, Rows, Source
from surelabel.data.sources.objects import OBJECT_SOURCES, is_object, read_object
from surelabel.data.sources.tables import parquet_folder, table_file
from surelabel.data.splits import make_corpus, number_labels
from surelabel.errors import DataError

__all__ = ["OBJECT_SOURCES", "SOURCES", "Corpus", "Examples", "load_corpus", "read_inputs", "read_labelled"]

_log = logging.getLogger("surelabel")

SOURCES: tuple[Source, ...] = (digits, *BENCHMARKS, array_files, table_file, parquet_folder, folder)


def load_corpus(config: DataConfig, data: Any = None, encoder: Encoder | None = None) -> Corpus:
    """Load the data set that `config` names, or the object for which it has a placeholder.

    Text and the columns of tables stay cells; with the `encoder` of a run they are read for it.
    """
    with fitting_in_memory(config.source):
        return _load_corpus(config, data, encoder)


def _load_corpus(config: DataConfig, data: Any, encoder: Encoder | None) -> Corpus:
    if encoder is not None and encoder.columns:
        config = config.model_copy(update=encoder.settings)
    parts = _read_parts(config, data)
    tests = parts.tests if config.test is None else {"test": _read_test(config, parts)}
    if config.unreadable == "skip":
        train = _leave_out_not_finite(parts.train, config.source)
        refuse_lost_classes(parts.train.names, train.names, config.source)
        parts = replace(parts, train=train)
        tests = {name: _leave_out_not_finite(rows, config.test or config.source) for name, rows in tests.items()}
    relabelled, tests = relabel(attach_groups(parts, config), tests, config)
    parts, tests = merge_classes(relabelled, tests, config.merge_classes, before=parts)
    corpus = make_corpus(parts, tests, config)
    corpus.validate(config.source)
    return corpus


def _leave_out_not_finite(rows: Rows, source: str) -> Rows:
    """Return the rows whose features are finite, and list the others."""
    finite = finite_rows(rows.x)
    if finite.all():
        return rows
    left_out = f"{(~finite).sum()} row(s) with NaN or infinite values are left out: {list_some(rows.ids[~finite])}"
    _log.warning("%s: %s", source, left_out)
    return rows.subset(np.flatnonzero(finite))


def _read_parts(config: DataConfig, data: Any) -> Parts:
    if data is not None or is_object(config.source):
        return read_object(data, config)
    return _find_source(config.source).read(config)


def read_inputs(config: DataConfig, shape: Shape, encoder: Encoder | None = None) -> tuple[Inputs, np.ndarray]:
    """Read inputs (N, *shape) and ids (N,) at `config.source`, which needs no labels.

    Images are resized to the shape. If networks saw the window `config.crop` of images of
    `config.image_size`, the centre is cropped, as in tests. The `encoder` makes features of cells.
    """
    source = _find_source(config.source)
    if encoder is not None:
        x, ids = source.read_inputs(config.model_copy(update=encoder.settings), _shape_read_by(encoder))
        return _attach(x, x.encoded if isinstance(x, StreamedImages) else None, encoder, config.source), ids
    whole = _stored_shape(config, shape)
    x, ids = source.read_inputs(config, whole)
    rows = _as_networks_see(Rows(x, ids, ids), config, shape)
    return rows.x, rows.ids


def read_labelled(
    config: DataConfig, shape: Shape, class_names: tuple[str, ...], encoder: Encoder | None = None, data: Any = None
) -> Examples:
    """Read rows with labels of known classes as inputs (N, *shape); else like `read_inputs`."""
    if encoder is not None:
        config = config.model_copy(update=encoder.settings)
    whole = _stored_shape(config, shape) if encoder is None else _shape_read_by(encoder)
    if data is not None or is_object(config.source):
        rows = read_object(data, config, whole).train
    else:
        rows = _find_source(config.source).read(config, whole).train
    if encoder is None:
        rows = _as_networks_see(rows, config, shape)
    else:
        rows = replace(rows, x=_attach(rows.x, rows.encoded, encoder, config.source))
    known, rules = (rows.names, rows.clean), config.merge_classes
    names, clean = (None if part is None else to_known(part, class_names, rules) for part in known)
    assert names is not None
    return number_labels(replace(rows, names=names, clean=clean), class_names, config.source)


def _shape_read_by(encoder: Encoder) -> Shape:
    """Return the shape of inputs that an encoder reads."""
    return UNENCODED if encoder.columns else ANY_SIZE


def _attach(x: Inputs, encoded: Encoded | None, encoder: Encoder, where: str) -> Inputs:
    """Return inputs with the encoder that makes features of them; features are returned as are."""
    if encoder.columns:
        return x.with_encoder(encoder) if isinstance(x, Cells) else x
    if isinstance(x, Cells):
        raise DataError(f"{where}: holds text, or columns of a table; expected images")
    return Pictures(x if encoded is None else encoded, encoder)


def _stored_shape(config: DataConfig, shape: Shape) -> Shape:
    """Return the shape of whole images if networks see a window of them."""
    is_window = config.image_size is not None and shape[1:] == (config.crop, config.crop)
    return (shape[0], config.image_size, config.image_size) if config.image_size is not None and is_window else shape


def _as_networks_see(rows: Rows, config: DataConfig, shape: Shape) -> Rows:
    """Return the rows that can be read, with the window of images that networks see in tests."""
    if config.unreadable == "skip":
        rows = _leave_out_not_finite(rows, config.source)
    whole = _stored_shape(config, shape)
    crop = config.crop if whole != shape else None
    return replace(rows, x=centre_crop_inputs(fit_to_shape(rows.x, whole, config.source), crop))


def _read_test(config: DataConfig, trained: Parts) -> Rows:
    """Read the rows at `config.test`, or only its test set if it has one."""
    assert config.test is not None
    crop = config.crop or trained.image_defaults.crop
    same = trained.train.x.settings if isinstance(trained.train.x, Cells) else {}
    test_config = config.model_copy(update={"source": config.test, "test": None, "crop": crop, **same})
    parts = _find_source(config.test).read(test_config, tuple(trained.train.x.shape[1:]))
    return next(iter(parts.tests.values()), parts.train)


def _find_source(name: str) -> Source:
    for source in SOURCES:
        if source.accepts(name):
            return source
    fault = "not a kind of data that can be read" if Path(name).exists() else "no such file, folder or bundled data set"
    possible = "; ".join(source.KIND for source in SOURCES)
    raise DataError(f"{name}: {fault}{_suggest(name)}; expected {possible}")


def _suggest(name: str) -> str:
    """Ask whether a similar name was meant."""
    bundled = [known for source in SOURCES for known in source.BUNDLED]
    folder = Path(name).parent
    beside = [str(path) for path in folder.iterdir() if path != Path(name)] if folder.is_dir() else []
    close = difflib.get_close_matches(name, bundled, 1, 0.6) or difflib.get_close_matches(name, beside, 1, 0.8)
    return f"; did you mean {close[0]}?" if close else ""
