"""Write what a `Recorder` saw as a finished run, so that everything that reads runs works on it."""

import copy
import logging
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from surelabel import api
from surelabel.config import RunConfig
from surelabel.core.run import Verdict
from surelabel.data.corpus import Corpus, Examples
from surelabel.data.loader import batch_bounds
from surelabel.encoding import stored
from surelabel.encoding.encode import encode_all
from surelabel.engine.record import SampleRecord
from surelabel.engine.trajectory import Trajectory
from surelabel.engine.verdict import CHUNK, HISTORY, chunk_columns, describe_rows, join_chunks
from surelabel.errors import DataError
from surelabel.runs.run_dir import RECORDED, RunDir
from surelabel.training import pretrained
from surelabel.training.second_opinion import Judged, feature_sets, groups_of, judge_rows, least_rows, look_around
from surelabel.training.session import write_verdict
from surelabel.training.startup import check_or_write
from surelabel.verdicts.probe import second_opinion

if TYPE_CHECKING:
    from surelabel.callbacks.recorder import Recorder

_log = logging.getLogger("surelabel")

SOURCE = "<recorded>"
"""The source in the configuration of a run whose data are not named."""
NO_FEATURES = (
    "No features were recorded, so there is no second opinion: P(wrong) follows from training alone, and outliers and "
    "duplicates were not looked for. recorder.audit(features=...) adds them."
)
NO_PREDICTIONS = (
    "The final network was not asked: suggestions are the mean of its predictions in training. "
    "recorder.audit(predictions=...) adds its final ones."
)
FEW_EPOCHS = "Only {} recorded: when labels were learned says little. Record a longer training."
LEAST_EPOCHS = 3


def write(recorder: "Recorder", run_dir: RunDir, data: Any, features: Any, predictions: Any) -> RunDir:
    """Write the files of a finished run, `done` last; the folder must be new or empty."""
    with run_dir.begun():
        _write(recorder, run_dir, data, features, predictions)
    return run_dir


def _write(recorder: "Recorder", run_dir: RunDir, data: Any, features: Any, predictions: Any) -> None:
    record = recorder.record
    assert record is not None
    rows = torch.nonzero(record.given >= 0).squeeze(1)
    config, corpus = _describe_data(recorder, rows, data, has_features=features is not None)
    sets = _feature_sets(recorder, features, corpus if data is not None else None)
    final = None if predictions is None else _check_predictions(recorder, predictions)
    columns = describe_rows(corpus.train, "train", "training")
    columns |= join_chunks(_judge(record, rows, final, recorder.num_classes), len(rows))
    if final is None:
        columns["prediction"] = record.prediction[rows].cpu().numpy()
    sets = {name: values[rows.cpu()] for name, values in sets.items()}
    found = _second_opinion(sets, columns, len(corpus.class_names), groups_of([corpus.train]))
    missing = list(_list_missing(recorder, len(rows), found, final))
    stored.write(run_dir, pretrained.encoder_of_run(config, corpus))
    check_or_write(run_dir, config, corpus, None, torch.device("cpu"))
    shape: dict[str, Any] = {} if data is not None else {"input_shape": [], "stored_shape": []}
    run_dir.write_json("data.json", {**run_dir.data(), **shape, RECORDED: {"missing": missing}})
    run_dir.rewrite_metrics(recorder.metrics)
    write_verdict(run_dir, columns, found, _course(record, rows))
    run_dir.write_json("done", {"epochs": len(recorder.metrics), "last": recorder.metrics[-1]})


def _describe_data(recorder: "Recorder", rows: Tensor, data: Any, has_features: bool) -> tuple[RunConfig, Corpus]:
    """Return a configuration and the rows that were seen; without `data` they have no inputs."""
    assert recorder.record is not None
    given, names = recorder.record.given.cpu(), recorder.class_names or ()
    settings = {
        "method": RECORDED,
        "train.epochs": max(1, len(recorder.metrics)),
        "model.features": pretrained.NONE if data is None or has_features else pretrained.AUTO,
        "model.train_on": pretrained.INPUTS,
    }
    if data is None:
        ids = np.arange(recorder.num_rows).astype(str) if recorder.ids is None else recorder.ids
        seen = rows.cpu()
        examples = Examples(torch.zeros(len(seen), 0), given[seen], ids[seen.numpy()], positions=seen.numpy())
        return api.make_config({"data": {"source": SOURCE}}, settings), Corpus(examples, names)
    config = api.make_config(data, settings)
    corpus, _ = api.read_corpus(config, api.object_in(data))
    _compare(recorder, corpus, given)
    return pretrained.attach(config, corpus, _log.info)


def _compare(recorder: "Recorder", corpus: Corpus, given: Tensor) -> None:
    """Raise unless the data are the rows that were recorded, in the same order."""
    if len(corpus.train) != recorder.num_rows:
        raise DataError(f"data: {len(corpus.train):,} training rows, but {recorder.num_rows:,} were recorded")
    if (given < 0).any():
        raise DataError(f"data: {int((given < 0).sum()):,} of its rows were never seen; save without data")
    if recorder.ids is not None and (recorder.ids != corpus.train.ids.astype(str)).any():
        first = int(np.flatnonzero(recorder.ids != corpus.train.ids.astype(str))[0])
        raise DataError(f"data: row {first} is {corpus.train.ids[first]!r} there and {recorder.ids[first]!r} here")
    names = recorder.class_names or ()
    theirs = np.array(corpus.class_names)[corpus.train.label.numpy()]
    differs = np.flatnonzero(np.array(names)[given.numpy()] != theirs)
    if len(differs) or set(names) != set(corpus.class_names):
        first = int(differs[0]) if len(differs) else 0
        raise DataError(
            f"data: {len(differs):,} labels differ from the recorded ones, the first in row {first}; classes here: "
            f"{', '.join(names[:5])}; there: {', '.join(corpus.class_names[:5])}"
        )
    if names != corpus.class_names:
        raise DataError(f"class_names: the data have them in the order {', '.join(corpus.class_names[:5])}")


def _feature_sets(recorder: "Recorder", features: Any, corpus: Corpus | None) -> dict[str, np.ndarray]:
    """Return (N, D) features by name: those that were given, else those of the inputs."""
    if features is None:
        return {} if corpus is None else feature_sets([encode_all(corpus).train], 0)
    named = features if isinstance(features, Mapping) else {"features": features}
    return {str(name): _check_table(f"features {name}", values, recorder.num_rows) for name, values in named.items()}


def _check_table(name: str, values: Any, num_rows: int) -> np.ndarray:
    """Return (N, ...) values as a float array (N, D)."""
    found = values.detach().cpu().numpy() if isinstance(values, Tensor) else np.asarray(values)
    if len(found) != num_rows or found.ndim < 2:
        raise DataError(f"{name}: expected a table of {num_rows:,} rows, got shape {found.shape}")
    found = found.reshape(num_rows, -1).astype(np.float32)
    if not np.isfinite(found).all():
        raise DataError(f"{name}: some values are NaN or infinite")
    return found


def _check_predictions(recorder: "Recorder", predictions: Any) -> np.ndarray:
    found = _check_table("predictions", predictions, recorder.num_rows)
    if found.shape[1] != recorder.num_classes or found.min() < 0 or not np.allclose(found.sum(1), 1, atol=1e-3):
        raise DataError(
            f"predictions: expected probabilities of {recorder.num_classes} classes, which add up to 1 in each row"
        )
    return found


@torch.no_grad()
def _judge(record: SampleRecord, rows: Tensor, final: np.ndarray | None, num_classes: int) -> Iterator[dict[str, Any]]:
    """Judge the rows by the mean of p at the given label, as methods do by default."""
    for begin, end in batch_bounds(len(rows), CHUNK):
        index = rows[begin:end]
        given = record.given[index]
        mean = None if record.mean_probability is None else record.mean_probability.read(index)
        if final is not None:
            prediction = torch.from_numpy(final[index.cpu().numpy()]).to(given.device)
        else:
            prediction = _last_prediction(record, index, num_classes) if mean is None else mean
        verdict = Verdict(record.mean_given_probability[index], prediction)
        history = {name: getattr(record, name)[index] for name in HISTORY}
        yield chunk_columns(given, prediction, verdict, F.one_hot(given, num_classes).float(), history, mean)


def _last_prediction(record: SampleRecord, index: Tensor, num_classes: int) -> Tensor:
    """Return (B, K) what is known where no table of all classes was kept."""
    at_given = record.mean_given_probability[index, None]
    found = F.one_hot(record.prediction[index], num_classes) * (1 - at_given)
    return found + F.one_hot(record.given[index], num_classes) * at_given


def _second_opinion(
    sets: Mapping[str, np.ndarray], columns: dict[str, Any], num_classes: int, group: np.ndarray | None
) -> Judged | None:
    if not sets or len(columns["given"]) < least_rows(num_classes):
        return None
    around = look_around(sets, group, 0)
    opinion = second_opinion(sets, columns["given"], num_classes, group=around.group)
    return None if opinion is None else judge_rows(opinion, around, columns, 0)


def _list_missing(recorder: "Recorder", num_seen: int, found: Judged | None, final: np.ndarray | None) -> Iterator[str]:
    """Yield what evidence is missing."""
    if found is None:
        yield NO_FEATURES
    if final is None:
        yield NO_PREDICTIONS
    if num_seen < recorder.num_rows:
        yield f"{recorder.num_rows - num_seen:,} of {recorder.num_rows:,} rows were never seen and are not judged."
    if len(recorder.metrics) < LEAST_EPOCHS:
        count = len(recorder.metrics)
        yield FEW_EPOCHS.format("one epoch was" if count == 1 else f"{count} epochs were")


def _course(record: SampleRecord, rows: Tensor) -> Trajectory | None:
    """Return the trajectory of the rows that were seen."""
    course = copy.deepcopy(record.trajectory)
    if course is not None:
        for name in ("given", "classes", "probability"):
            values = getattr(course, name)
            setattr(course, name, None if values is None else values[rows])
    return course
