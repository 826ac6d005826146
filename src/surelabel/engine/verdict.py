"""What a finished run leaves: a verdict on every label, the weights, and a summary."""

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from surelabel.core.stages import View
from surelabel.core.state import SampleStore
from surelabel.data.loader import Loader
from surelabel.engine import distributed
from surelabel.engine.evaluate import predictions
from surelabel.engine.loop import Engine
from surelabel.runs.samples import SOFT_COLUMNS, TopK


def collect_columns(engine: Engine) -> dict[str, Any]:
    """Return the verdict on training rows, then held-out rows; every rank takes part."""
    engine.method.eval()
    columns = _verdict(engine)
    if engine.setup.corpus.validation is not None:
        held_out = _held_out_verdict(engine)
        columns = {
            name: np.concatenate([values, held_out.get(name, _unknown(values, held_out))])
            for name, values in columns.items()
        }
    soft = {name: TopK.from_dense(columns[name], columns["given"]) for name in SOFT_COLUMNS}
    return {**columns, **soft}


def weights_of(engine: Engine) -> dict[str, Tensor]:
    """What predicting needs: the method's state without its per-sample tables."""
    stores = [name for name, module in engine.method.named_modules() if isinstance(module, SampleStore)]
    with distributed.bare(engine.method):
        state = engine.method.state_dict()
    return {
        name: value.contiguous().cpu()
        for name, value in state.items()
        if not any(name.startswith(f"{store}.") for store in stores)
    }


def _verdict(engine: Engine) -> dict[str, Any]:
    method, record, train = engine.method, engine.record, engine.setup.corpus.train
    probability = engine.collect(lambda batch: method.predict(batch.x), View(augment=False)).float()
    corrected = method.corrected(engine).float()
    evidence = method.evidence(engine)
    size = len(train)
    columns = {
        "id": train.ids.astype(str),
        "split": np.full(size, "train"),
        "verdict": np.full(size, "training"),
        "given": train.label.numpy(),
        "prediction": _array(probability.argmax(1)),
        "quality": _array(method.label_quality(engine).clamp(0, 1).float()),
        "suggested": _array(corrected.argmax(1)),
        "suggested_probability": _array(corrected.amax(1)),
        "given_probability": _array(probability.gather(1, method.given[:, None]).squeeze(1)),
        "mean_given_probability": _array(record.mean_given_probability),
        "mean_margin": _array(record.mean_margin),
        "first_learned": _array(record.first_learned),
        "forgotten": _array(record.forgotten),
        "tau": _array(evidence["tau"].float()) if "tau" in evidence else np.full(size, np.nan, dtype=np.float32),
        "target": _array(_target_rows(engine)),
        "probability": _array(probability),
    }
    columns.update({name: _array(values) for name, values in evidence.items() if name != "tau"})
    return _confirmed(columns, train.trusted)


def _held_out_verdict(engine: Engine) -> dict[str, Any]:
    """Rows that were not trained on are judged by predictions alone, and marked as such."""
    rows, method = engine.setup.corpus.validation, engine.method
    assert rows is not None
    loader = Loader(rows, engine.config.train.batch_size, device=engine.device)
    probability = predictions(method, loader)
    at_given = probability.gather(1, rows.label.to(engine.device)[:, None]).squeeze(1)
    tau = loader.collect(lambda batch: _confidence(engine, batch.x), View(augment=False))
    size = len(rows)
    blank = np.zeros(size, dtype=np.int32)
    columns = {
        "id": rows.ids.astype(str),
        "split": np.full(size, "validation"),
        "verdict": np.full(size, "prediction"),
        "given": rows.label.numpy(),
        "prediction": _array(probability.argmax(1)),
        "quality": _array(at_given),
        "suggested": _array(probability.argmax(1)),
        "suggested_probability": _array(probability.amax(1)),
        "given_probability": _array(at_given),
        "mean_given_probability": np.full(size, np.nan, dtype=np.float32),
        "mean_margin": np.full(size, np.nan, dtype=np.float32),
        "first_learned": blank,
        "forgotten": blank,
        "tau": _array(tau),
        "target": _array(probability),
        "probability": _array(probability),
    }
    return _confirmed(columns, rows.trusted)


def _confirmed(columns: dict[str, Any], trusted: Tensor | None) -> dict[str, Any]:
    """The verdict with labels that a person has confirmed as they are, and marked."""
    if trusted is not None:
        rows = trusted.numpy()
        certain = {"verdict": "trusted", "quality": 1, "suggested": columns["given"], "suggested_probability": 1}
        for name, value in certain.items():
            columns[name] = np.where(rows, value, columns[name]).astype(columns[name].dtype)
    return columns


@torch.no_grad()
def _confidence(engine: Engine, x: Tensor) -> Tensor:
    tau = engine.method.confidence(x)
    return torch.full((len(x),), torch.nan, device=x.device) if tau is None else tau.float()


def _target_rows(engine: Engine) -> Tensor:
    """(N, K) what the loss aims at: the method's targets, and the given label where it has none (for a row)."""
    given = F.one_hot(engine.method.given, engine.setup.corpus.num_classes).float()
    targets = engine.method.targets()
    if targets is None:
        return given
    rows = targets.whole().float()
    mass = rows.sum(1, keepdim=True)
    return torch.where(mass > 0, rows / mass.clamp(min=1e-12), given)


def _array(values: Tensor) -> np.ndarray:
    return values.detach().cpu().numpy()


def _unknown(values: np.ndarray, held_out: dict[str, Any]) -> np.ndarray:
    """Evidence of training that held-out rows do not have."""
    return np.full((len(held_out["id"]), *values.shape[1:]), np.nan, dtype=np.float32)


def summarise(engine: Engine) -> dict[str, Any]:
    """The last epoch's figures, and the best test accuracy, which only an oracle could have stopped at."""
    last = engine.history[-1]
    summary: dict[str, Any] = {"epochs": last["epoch"], "last": last}
    for name in last.get("tests", {}):
        scores = [row["tests"][name]["top1"] for row in engine.history if name in row.get("tests", {})]
        summary.setdefault("best_test_top1_oracle", {})[name] = max(scores)
    return summary
