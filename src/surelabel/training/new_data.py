"""Judge the labels of new data with the network of a finished run, without training.

The network has not seen these labels, so what it predicts is a second opinion on them: P(wrong)
comes from a noise model that is fitted to the new labels and the predictions, as at the end of a
run. With too few rows for that, it comes from the run's held-out rows.

New rows may be unlike those of the run. Two comparisons tell: the probability of the predicted
class, with that of held-out rows, and the distance to training rows, with the distances among
these. The labels of rows that are unlike may be right or wrong, so their bounds of P(wrong) are 0
and 1 (`verdicts/drift.py`).
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from surelabel.core.run import Verdict
from surelabel.data import read_labelled
from surelabel.data.corpus import Examples, refuse_not_finite
from surelabel.data.encodable import Encodable
from surelabel.data.images.frames import centre_crop_inputs
from surelabel.data.inputs import Inputs
from surelabel.data.neighbours import measure_distances
from surelabel.data.pictures import Pictures
from surelabel.data.sources import objects
from surelabel.encoding.features import features_of
from surelabel.engine.verdict import HISTORY, chunk_columns, describe_rows
from surelabel.errors import DataError
from surelabel.runs.run_dir import RunDir
from surelabel.runs.samples import TRUE_CLASS, TopK
from surelabel.training.predictor import TrainedModel
from surelabel.training.second_opinion import feature_sets, least_rows
from surelabel.verdicts import Audit
from surelabel.verdicts.audit import assemble
from surelabel.verdicts.calibration import MIN_ROWS, Calibration, read_calibration, uncalibrated
from surelabel.verdicts.curve import curve_through
from surelabel.verdicts.drift import Drift, measure_drift
from surelabel.verdicts.evidence import HELD_OUT, combine, rival_of
from surelabel.verdicts.inspection import join_features
from surelabel.verdicts.judgement import judge
from surelabel.verdicts.outliers import find_outliers, isolation_beside
from surelabel.verdicts.probe import second_opinion

SPLIT = "new"
REFERENCE_ROWS = 5000
"""Training rows that new ones are compared with, drawn at random from more."""
SEEN = "Judged by prediction: the network of {run} was not trained on these labels."
FEW = "{count} rows are too few to calibrate by themselves: "
BY_HELD_OUT = "P(wrong) is that of the run's held-out rows at the same probability of the given label."
NOT_CALIBRATED = "P(wrong) is 1 - quality, a rank and no probability."


@dataclass(frozen=True)
class _Nearness:
    """How far new rows are from training rows, and these from each other."""

    distance: np.ndarray
    reference: np.ndarray
    num_copies: int


def judge_new(
    run: RunDir,
    model: TrainedModel,
    new: Examples,
    known: Examples | None,
    min_probability: float,
    confidence: float,
) -> Audit:
    """Return the audit of new labelled rows; `known` are the run's training rows, if at hand."""
    if not len(new):
        raise DataError("data: no rows")
    seen = model.encode(new.x)
    probability, tau = model.predict_proba(seen), model.tau(seen)
    given, num_classes = new.label.numpy(), len(model.class_names)
    nearness = None if known is None else _measure(model, known, new)
    drifts = list(_find_drift(run, probability, nearness, confidence))
    columns = describe_rows(new, SPLIT, HELD_OUT) | _predicted(new, probability, tau)
    soft = {name: columns.pop(name) for name in ("target", "probability")}
    by_input, power, in_doubt, texts = probability, None, None, [SEEN.format(run=run.path)]
    if len(new) >= least_rows(num_classes):
        logits = np.log(np.maximum(probability, np.finfo(np.float32).tiny))
        opinion = second_opinion({}, given, num_classes, extra={"network": logits})
        assert opinion is not None
        judged = judge(opinion.logits, given, predicted=probability)
        is_unlike = np.any([np.zeros(len(new), dtype=bool), *(drift.is_unlike for drift in drifts)], axis=0)
        low, high = np.where(is_unlike, 0.0, judged.low), np.where(is_unlike, 1.0, judged.high)
        calibration = Calibration(judged.p_wrong, low, high)
        soft[TRUE_CLASS] = judged.true_class
        by_input, power, in_doubt = judged.by_input, judged.power, judged.may_follow_inputs
        columns["rival"] = rival_of(by_input).astype(np.float32)
    else:
        calibration = _of_held_out(run, columns["quality"])
        meaning = BY_HELD_OUT if calibration.is_separated else NOT_CALIBRATED
        texts.append(FEW.format(count=len(new)) + meaning)
    if nearness is not None:
        columns["isolation"] = isolation_beside(nearness.distance, nearness.reference).astype(np.float32)
        columns["is_outlier"] = find_outliers(columns["isolation"], by_input)
    if new.clean is not None:
        columns["clean"] = new.clean.numpy()
    columns["p_wrong"] = calibration.p_wrong
    caveats = [*_warn(drifts), *_warn_of_copies(nearness), *_warn_of_gaps(run, nearness)]
    return assemble(
        combine(columns, soft, model.class_names),
        calibration,
        power=power,
        may_follow_inputs=in_doubt,
        caveats=caveats,
        basis=[*texts, *_reassure(drifts)],
        drifts=drifts,
        min_probability=min_probability,
        confidence=confidence,
    )


def read_new(model: TrainedModel, data: Any) -> Examples:
    """Read labelled rows like those of a run: any data that `surelabel.fit` takes."""
    is_named = isinstance(data, str | Path)
    source = str(data) if is_named else objects.describe_object(data)
    if source is None:
        raise DataError(f"data: {type(data).__name__} is no kind of data; possible are {objects.list_kinds()}")
    own = {"test": None, "labels": None, "trusted": None}
    config = model.config.data.model_copy(update={"source": source, **own})
    if model.encoder is None and config.category_columns is None:
        config = config.model_copy(update={"category_columns": ()})  # the run was trained on numbers only
    rows = read_labelled(config, model.input_shape, model.class_names, model.encoder, None if is_named else data)
    refuse_not_finite(rows.x, rows.ids, source)
    return rows


def _predicted(new: Examples, probability: np.ndarray, tau: np.ndarray | None) -> dict[str, Any]:
    """Return the columns of rows that were not trained on; what training tells is unknown."""
    given, prediction = new.label, torch.from_numpy(probability)
    evidence = {} if tau is None else {"tau": torch.from_numpy(tau)}
    quality = prediction.gather(1, given[:, None]).squeeze(1)
    kinds = {name: torch.int32 if value == 0 else torch.float32 for name, value in HISTORY.items()}
    blank = {name: torch.full((len(new),), value, dtype=kinds[name]) for name, value in HISTORY.items()}
    return chunk_columns(given, prediction, Verdict(quality, prediction, evidence), prediction, blank, None)


def _of_held_out(run: RunDir, quality: np.ndarray) -> Calibration:
    """Return the calibration by the run's held-out rows, if they tell right from wrong."""
    samples = run.samples()
    names = ("verdict", "quality", "p_wrong", "p_wrong_low", "p_wrong_high")
    columns = {name: samples[name].to_numpy() for name in names}
    known, rows = read_calibration(run, columns), np.flatnonzero(columns["verdict"] == HELD_OUT)
    if len(rows) < MIN_ROWS or not known.is_separated_for(HELD_OUT):
        return uncalibrated(quality, HELD_OUT)
    p_wrong, low, high = curve_through(columns["quality"][rows], known.reorder(rows)).at(quality)
    return Calibration(p_wrong, low, high)


def _measure(model: TrainedModel, known: Examples, new: Examples) -> _Nearness | None:
    """Compare new rows with some training rows by their features."""
    rows = np.random.default_rng(0).permutation(len(known))[:REFERENCE_ROWS]
    some = known.subset(np.sort(rows))
    some = replace(some, x=centre_crop_inputs(some.x, some.crop), crop=None)
    parts = [replace(part, x=_as_features(model, part), encoded=None) for part in (some, new)]
    features = join_features(feature_sets(parts, model.config.train.seed))
    found = measure_distances(features[: len(some)], features[len(some) :])
    if found is None:
        return None
    reference, distance = found
    return _Nearness(distance.mean(1), reference.mean(1), int((distance[:, 0] == 0).sum()))


def _as_features(model: TrainedModel, rows: Examples) -> Inputs:
    """Return the inputs of the method: features of what an encoder reads, else the inputs."""
    x = rows.x
    if model.encoder is not None:  # cells of training rows come with one for TF-IDF
        x = x.with_encoder(model.encoder) if isinstance(x, Encodable) else Pictures(rows.stored, model.encoder)
    return features_of([x])[0] if isinstance(x, Encodable) else x


def _find_drift(run: RunDir, probability: np.ndarray, nearness: _Nearness | None, confidence: float) -> Iterator[Drift]:
    """Yield the comparisons that this run allows."""
    samples = run.samples()
    is_held_out = np.array(samples["split"].to_pylist()) != "train"
    tail = (1 - confidence) / (2 if nearness is not None and is_held_out.any() else 1)
    if is_held_out.any():
        held_out = TopK.from_table(samples, "probability", probability.shape[1]).values[is_held_out]
        yield measure_drift("probability", probability.max(1), held_out.max(1), tail)
    if nearness is not None:
        found = measure_drift("distance", -nearness.distance, -nearness.reference, tail)
        yield replace(found, new=-found.new, reference=-found.reference)


def _describe(drift: Drift) -> str:
    if drift.name == "probability":
        return (
            f"the mean probability of the predicted class is {drift.new:.2f}, and {drift.reference:.2f} for the "
            "held-out rows of the run"
        )
    return (
        f"the mean distance to the nearest training rows is {drift.new:.3g}, and {drift.reference:.3g} between "
        "training rows"
    )


def _warn(drifts: list[Drift]) -> Iterator[str]:
    found = [drift for drift in drifts if drift.share > 0]
    if found:
        share = 100 * max(drift.share for drift in found)
        facts = "; ".join(map(_describe, found))
        yield (
            f"At least {share:.2g} % of these rows are unlike those of the run: {facts}. Whether their labels are "
            "wrong is not known, which the intervals contain. To judge them, train on data like these."
        )


def _reassure(drifts: list[Drift]) -> Iterator[str]:
    if drifts and all(drift.share == 0 for drift in drifts):
        yield f"No sign that these rows are unlike those of the run: {'; '.join(map(_describe, drifts))}."


def _warn_of_copies(nearness: _Nearness | None) -> Iterator[str]:
    if nearness is not None and nearness.num_copies:
        count = nearness.num_copies
        yield f"{count:,} row{'s are copies' if count > 1 else ' is a copy'} of training rows: the network knows them."


def _warn_of_gaps(run: RunDir, nearness: _Nearness | None) -> Iterator[str]:
    """Yield which comparisons were not possible."""
    if nearness is None:
        yield "The training rows are not at hand, so outliers were not looked for."
    if not run.data()["num_validation"]:
        yield (
            "The run held out no rows, so the mean probability has nothing to be compared with; "
            "--set data.validation_fraction=0.1 holds some out."
        )
