"""Load data: read a source, replace labels, and split rows for training, validation and testing."""

import difflib
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from surelabel.config import DataConfig
from surelabel.data.benchmarks import BENCHMARKS, digits
from surelabel.data.corpus import Corpus, Examples, finite_rows
from surelabel.data.encoding.cells import UNENCODED, Cells, Encoder
from surelabel.data.encoding.encode import attach_encoder
from surelabel.data.images.frames import centre_crop_inputs
from surelabel.data.images.load import fit_to_shape
from surelabel.data.inputs import Inputs, Shape
from surelabel.data.relabel import relabel
from surelabel.data.sources import array_files, folder
from surelabel.data.sources.checks import list_some, refuse_lost_classes
from surelabel.data.sources.interface import Parts, Rows, Source
from surelabel.data.sources.objects import OBJECT_SOURCES, is_object, read_object
from surelabel.data.sources.tables import parquet_folder, table_file
from surelabel.data.splits import make_corpus
from surelabel.errors import DataError

__all__ = ["OBJECT_SOURCES", "SOURCES", "Corpus", "Examples", "load_corpus", "read_inputs"]

_log = logging.getLogger("surelabel")

SOURCES: tuple[Source, ...] = (digits, *BENCHMARKS, array_files, table_file, parquet_folder, folder)


def load_corpus(config: DataConfig, data: Any = None, encoder: Encoder | None = None) -> Corpus:
    """Load the data set that `config` names, or the object for which it has a placeholder.

    Text and categories become features by the `encoder` of a run, or by one that is fitted to the
    training rows.
    """
    config = config if encoder is None else config.model_copy(update=encoder.settings)
    parts = _read_parts(config, data)
    tests = parts.tests if config.test is None else {"test": _read_test(config, parts)}
    if config.unreadable == "skip":
        train = _leave_out_not_finite(parts.train, config.source)
        refuse_lost_classes(parts.train.names, train.names, config.source)
        parts = replace(parts, train=train)
        tests = {name: _leave_out_not_finite(rows, config.test or config.source) for name, rows in tests.items()}
    parts, tests = relabel(parts, tests, config)
    corpus = attach_encoder(make_corpus(parts, tests, config), config, encoder)
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
        cells, ids = source.read_inputs(config.model_copy(update=encoder.settings), UNENCODED)
        return cells.with_encoder(encoder) if isinstance(cells, Cells) else cells, ids
    is_window = config.image_size is not None and shape[1:] == (config.crop, config.crop)
    whole = (shape[0], config.image_size, config.image_size) if config.image_size is not None and is_window else shape
    x, ids = source.read_inputs(config, whole)
    if config.unreadable == "skip":
        kept = _leave_out_not_finite(Rows(x, ids, ids), config.source)
        x, ids = kept.x, kept.ids
    return centre_crop_inputs(fit_to_shape(x, whole, config.source), config.crop if is_window else None), ids


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
