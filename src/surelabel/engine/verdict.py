"""The end of a run: a verdict on every label, the weights, and a summary."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import reduce
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from surelabel.core.run import Rows, Verdict
from surelabel.core.stages import View
from surelabel.core.state import SampleStore
from surelabel.data.corpus import Examples
from surelabel.data.loader import Loader, batch_bounds
from surelabel.engine import distributed
from surelabel.engine.evaluate import current_stores
from surelabel.engine.loop import Engine
from surelabel.runs.samples import MEAN_PROBABILITY, TopK

CHUNK = 4096
"""Rows that are judged together, so that no tensor holds all rows and all classes."""

HISTORY = {"mean_given_probability": np.nan, "mean_margin": np.nan, "first_learned": 0, "forgotten": 0}
"""Columns from the record, with their value for rows that were not trained on."""


def collect_columns(engine: Engine, after_chunk: Callable[[], None] = lambda: None) -> dict[str, Any]:
    """Return the columns of samples.parquet, first of the training and then of the held-out rows.

    It makes one pass over each. All ranks must call it, and all receive the columns; "target",
    "probability" and, if the record kept it, "mean_probability" are TopK tables. All ranks call
    `after_chunk` at the same places, so that it can make them stop together.
    """
    engine.method.eval()
    train, held_out = engine.setup.corpus.train, engine.setup.corpus.validation
    columns = describe_rows(train, "train", "training") | join_chunks(
        _calling(after_chunk, _judge_trained(engine)), len(train)
    )
    columns = _confirm(columns, train.trusted)
    if held_out is None:
        return columns
    judged = join_chunks(_calling(after_chunk, _judge_held_out(engine, held_out)), len(held_out))
    others = describe_rows(held_out, "validation", "prediction") | judged
    others = _confirm(others, held_out.trusted)
    unknown = np.full(len(held_out), np.nan, dtype=np.float32)  # evidence that only training provides
    return {name: _concatenate([values, others.get(name, unknown)]) for name, values in columns.items()}


def _calling(after_chunk: Callable[[], None], chunks: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for chunk in chunks:
        yield chunk
        after_chunk()


def describe_rows(examples: Examples, split: str, verdict: str) -> dict[str, Any]:
    """Return the first columns of rows, which say what they are."""
    size = len(examples)
    return {
        "id": examples.ids.astype(str),
        "row": examples.original_positions,
        "split": np.full(size, split),
        "verdict": np.full(size, verdict),
        "given": examples.label.numpy(),
        **({} if examples.original is None else {"original": examples.original.numpy()}),
    }


@torch.no_grad()
def _judge_trained(engine: Engine) -> Iterator[dict[str, Any]]:
    method, record = engine.method, engine.record
    for begin, end in batch_bounds(len(method.given), CHUNK):
        index = torch.arange(begin, end)
        prediction = engine.collect(lambda batch: method.predict(batch.x), View(index, augment=False))
        index = index.to(engine.device)
        rows = Rows(index, method.given[index], prediction.float(), record)
        history = {name: getattr(record, name)[index] for name in HISTORY}
        mean = None if record.mean_probability is None else record.mean_probability.read(index)
        yield chunk_columns(rows.given, rows.prediction, method.verdict(rows), _targets(engine, rows), history, mean)


@torch.no_grad()
def _judge_held_out(engine: Engine, examples: Examples) -> Iterator[dict[str, Any]]:
    """Judge rows that were not trained on by their predictions alone."""
    method = engine.method
    loader = Loader(examples, engine.config.train.batch_size, device=engine.device)

    def look(x: Tensor) -> Tensor:
        """Return (B, K + 1): the prediction and tau."""
        prediction, tau = method.predict(x).float(), method.tau(x)
        tau = prediction.new_full((len(x),), torch.nan) if tau is None else tau.float()
        return torch.cat([prediction, tau[:, None]], 1)

    for begin, end in batch_bounds(len(examples), CHUNK):
        index = torch.arange(begin, end)
        seen = loader.collect(lambda batch: look(batch.x), View(index, augment=False))
        prediction, tau = seen[:, :-1].contiguous(), seen[:, -1]
        given = examples.label[index].to(engine.device)
        verdict = Verdict(_pick(prediction, given), prediction, {"tau": tau})
        blank = {name: getattr(engine.record, name).new_full((len(index),), value) for name, value in HISTORY.items()}
        mean = None if engine.record.mean_probability is None else torch.full_like(prediction, torch.nan)
        yield chunk_columns(given, prediction, verdict, prediction, blank, mean)


def chunk_columns(
    given: Tensor,
    prediction: Tensor,
    verdict: Verdict,
    target: Tensor,
    history: Mapping[str, Tensor],
    mean: Tensor | None,
) -> dict[str, Any]:
    """Return the columns of a chunk, by name and in the order of the file."""
    corrected, at_given = verdict.corrected.float(), _pick(prediction, given)
    columns = {
        "prediction": prediction.argmax(1),
        "quality": verdict.quality.clamp(0, 1).float(),
        "suggested": corrected.argmax(1),
        "suggested_probability": corrected.amax(1),
        "given_probability": at_given,
        **history,
        "tau": verdict.evidence.get("tau", torch.full_like(at_given, torch.nan)).float(),
    }
    tables = {"target": target, "probability": prediction}
    if mean is not None:
        columns["margin_of_mean"] = margin_of_mean(mean, given)
        tables[MEAN_PROBABILITY] = mean
    return (
        {name: _array(values) for name, values in columns.items()}
        | {name: TopK.from_dense(_array(values), _array(given)) for name, values in tables.items()}
        | {name: _array(values) for name, values in verdict.evidence.items() if name != "tau"}
    )


def margin_of_mean(mean: Tensor, label: Tensor) -> Tensor:
    """Return (C,) log p at the label minus log of the largest other p, of (C, K) mean p."""
    log_p = mean.clamp(min=torch.finfo(mean.dtype).tiny).log()
    return _pick(log_p, label) - log_p.scatter(1, label[:, None], -torch.inf).amax(1)


def _pick(values: Tensor, label: Tensor) -> Tensor:
    """Return the (C,) entries of (C, K) `values` at the labels."""
    return values.gather(1, label[:, None]).squeeze(1)


def _targets(engine: Engine, rows: Rows) -> Tensor:
    """Return what the loss aims at, (C, K): the method's targets, else the given labels."""
    given = F.one_hot(rows.given, engine.setup.corpus.num_classes).float()
    stores = current_stores(engine.method)
    if not stores:
        return given
    target = reduce(torch.add, (store.read(rows.index) for store in stores)).float()
    mass = target.sum(1, keepdim=True)
    return torch.where(mass > 0, target / mass.clamp(min=1e-12), given)


def join_chunks(chunks: Iterable[dict[str, Any]], num_rows: int) -> dict[str, Any]:
    """Put the columns of chunks below each other.

    Space for all rows is taken at once: small arrays that stay, between large ones that go, would
    leave gaps in memory that nothing fits into, gigabytes with a million rows.
    """
    columns: dict[str, Any] = {}
    start = 0
    for chunk in chunks:
        rows = slice(start, start + len(next(iter(chunk.values()))))
        for name, values in chunk.items():
            is_table = isinstance(values, TopK)
            if name not in columns:
                columns[name] = values.for_rows(num_rows) if is_table else np.empty(num_rows, values.dtype)
            if is_table:
                columns[name].set_rows(rows, values)
            else:
                columns[name][rows] = values
        start = rows.stop
    return columns


def _concatenate(parts: list[Any]) -> Any:
    return TopK.concatenate(parts) if isinstance(parts[0], TopK) else np.concatenate(parts)


def _confirm(columns: dict[str, Any], trusted: Tensor | None) -> dict[str, Any]:
    """Accept the labels that a person has confirmed, and mark them."""
    if trusted is not None:
        rows = trusted.numpy()
        certain = {"verdict": "trusted", "quality": 1, "suggested": columns["given"], "suggested_probability": 1}
        for name, value in certain.items():
            columns[name] = np.where(rows, value, columns[name]).astype(columns[name].dtype)
    return columns


def _array(values: Tensor) -> np.ndarray:
    return values.detach().cpu().numpy()


def weights_of(engine: Engine) -> dict[str, Tensor]:
    """Return what prediction needs: the method's state without its per-sample tables."""
    stores = [name for name, module in engine.method.named_modules() if isinstance(module, SampleStore)]
    with distributed.networks_unwrapped(engine.method):
        state = engine.method.state_dict()
    return {
        name: value.contiguous().cpu()
        for name, value in state.items()
        if not any(name.startswith(f"{store}.") for store in stores)
    }


def summarise(engine: Engine) -> dict[str, Any]:
    """Return the last metrics, and the best test accuracy, which only an oracle could stop at."""
    last = engine.history[-1]
    summary: dict[str, Any] = {"epochs": last["epoch"], "last": last}
    for name in last.get("tests", {}):
        scores = [row["tests"][name]["top1"] for row in engine.history if name in row.get("tests", {})]
        summary.setdefault("best_test_top1_oracle", {})[name] = max(scores)
    return summary
