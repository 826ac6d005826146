"""One row of metrics per epoch: loss terms, rate, accuracy, memorisation, speed."""

from collections.abc import Mapping
from functools import reduce
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from surelabel.core.batch import Batch
from surelabel.core.collective import rank, total
from surelabel.core.stages import View
from surelabel.core.state import row_chunks
from surelabel.core.tables import ClassTable
from surelabel.data.loader import Loader
from surelabel.engine.evaluate import (
    GradientShare,
    SinglePredictions,
    accuracies,
    current_stores,
    exact_dtype,
    memorisation,
    share,
)

if TYPE_CHECKING:
    from surelabel.engine.loop import Engine

LOOK_EVERY = 5
"""Epochs between passes over the training set that fill the record where steps return no logits."""

CLEARLY_ABOVE = 0.05
"""Of the way from chance to perfect: after a tenth of the run a network that learns is further."""

HELD_OUT = " held out"
"""Key of the held-out rows among the test sets; no test set has this name."""


class Measured(NamedTuple):
    """What passes over data at the end of an epoch have found."""

    logits: Tensor | None
    """(N, K) of the training rows, where steps return none."""
    accuracy: dict[str, Any]
    """What `Metrics.evaluate` returned; empty if it was not its turn."""


class Metrics:
    """Sums up the terms of an epoch's steps, and measures everything else at its end."""

    def __init__(self, engine: "Engine") -> None:
        self.engine = engine
        corpus, config, device = engine.setup.corpus, engine.config.train, engine.device
        train = corpus.train
        self.given = train.label.to(device)
        self.clean = None if train.clean is None else train.clean.to(device)
        parts = {**corpus.tests} if corpus.validation is None else {**corpus.tests, HELD_OUT: corpus.validation}
        self.loaders = {name: Loader(rows, config.batch_size, device=device) for name, rows in parts.items()}
        self.single = SinglePredictions(engine.method.networks())
        self.sums: dict[str, Tensor] = {}
        self.counts: dict[str, int] = {}
        self.exact = exact_dtype(device)
        self.gradient_share = None
        if config.gradient_share and self.clean is not None:
            self.gradient_share = GradientShare(list(engine.method.networks().values()), self.given != self.clean)

    def open_epoch(self) -> None:
        """Start the sums of a new epoch."""
        self.sums, self.counts = {}, {}

    def add(self, terms: Mapping[str, Tensor]) -> None:
        """Add a step's terms to the epoch's sums, on the device."""
        for name, term in terms.items():
            term = term.detach().to(self.exact)
            self.sums[name] = self.sums[name] + term if name in self.sums else term
            self.counts[name] = self.counts[name] + 1 if name in self.counts else 1

    def after_backward(self, batch: Batch, is_mixed: bool) -> None:
        """Measure the gradients, if configured."""
        if self.gradient_share is not None:
            self.gradient_share.after_backward(batch, is_mixed)

    def measure(self, is_last: bool) -> Measured:
        """Make the passes over data that the end of an epoch needs; nothing else changes.

        A signal raises Interrupted here.
        """
        engine, epoch = self.engine, self.engine.position.run_epoch
        looks = not engine.record.has_news and (is_last or epoch % LOOK_EVERY == 0)
        evaluates = is_last or epoch % engine.config.train.evaluate_every == 0
        with engine.setup.at_once():
            return Measured(self._look() if looks else None, self.evaluate() if evaluates else {})

    def close_epoch(self, rate: float, measured: Measured) -> dict[str, Any]:
        """Update the record, and return the metrics of the epoch that has just ended."""
        engine, epoch = self.engine, self.engine.position.run_epoch
        if measured.logits is not None:
            engine.record.see_all(measured.logits)
        has_news, before = engine.record.has_news, engine.record.prediction
        engine.record.close_epoch(epoch)
        row = self._row(rate) | measured.accuracy
        row.update(self._on_training_rows(has_news))
        if has_news and (known := before >= 0).any():
            row["changed_predictions"] = share(engine.record.prediction[known] != before[known])
        if engine.notes:
            row["estimates"], engine.notes = engine.notes, {}
        return row

    def _look(self) -> Tensor:
        """Return (N, K) log-probabilities of the training rows, if steps return no logits."""
        method, view = self.engine.method, View(augment=False)
        return self.engine.collect(lambda batch: method.predict(batch.x).clamp(min=1e-30).log(), view)

    def _row(self, rate: float) -> dict[str, Any]:
        position = self.engine.position
        terms = {name: (added / self.counts[name]).item() for name, added in self.sums.items()}
        return {
            "epoch": position.run_epoch,
            "stage": position.stage,
            "stage_epoch": position.epoch,
            "loss": sum(terms.values()),
            "terms": terms,
            "learning_rate": rate,
            "num_samples": position.num_samples,
            "samples_per_second": position.num_samples / max(position.seconds, 1e-9),
            "seconds": position.seconds,
        }

    def evaluate(self) -> dict[str, Any]:
        """Return the accuracy on the test sets, and on the held-out rows if there are any.

        Where a method predicts with several networks, `networks` has the accuracy of each one.
        """
        measured, networks = {}, dict[str, dict[str, Any]]()
        for name, loader in self.loaders.items():
            together, single = self.single.collect(self.engine.method, loader)
            measured[name] = accuracies(together, loader.examples.label)
            for network, probability in single.items():
                networks.setdefault(network, {})[name] = accuracies(probability, loader.examples.label)
        row: dict[str, Any] = {"tests": measured}
        if HELD_OUT in measured:
            row["validation"] = measured.pop(HELD_OUT)
        for tests in networks.values():
            tests.pop(HELD_OUT, None)
        return {**row, "networks": networks} if any(networks.values()) else row

    def _on_training_rows(self, has_news: bool) -> dict[str, Any]:
        """Return how given, clean and false labels are predicted, if there are new predictions."""
        record, result = self.engine.record, dict[str, Any]()
        seen = record.visits > 0
        if has_news:
            prediction, given = record.prediction[seen], self.given[seen]
            result["given_accuracy"] = share(prediction == given)
            if self.clean is not None:
                result.update(memorisation(prediction, given, self.clean[seen]))
        if self.clean is not None and (stores := current_stores(self.engine.method)):
            result["correction_accuracy"] = share(self._named_by_targets(stores) == self.clean)
        if self.gradient_share is not None and (shares := self.gradient_share.close_epoch()) is not None:
            result["gradient_share"] = shares
        return result

    def _named_by_targets(self, stores: list[ClassTable]) -> Tensor:
        """Return the (N,) classes that the targets name; a row without a target has its label."""
        found = []
        for index in row_chunks(len(self.given), self.engine.setup.corpus.num_classes, self.given.device):
            target = reduce(torch.add, (store.read(index) for store in stores))
            found.append(torch.where(target.sum(1) > 0, target.argmax(1), self.given[index]))
        return torch.cat(found)

    def warnings(self) -> list[str]:
        """Return a warning, once, if training is still at chance level after a tenth of the run."""
        engine, epochs = self.engine, self.engine.config.train.epochs
        row = engine.history[-1]
        if row["epoch"] != max(2, round(0.1 * epochs)) or "given_accuracy" not in row:
            return []
        chance = torch.bincount(self.given).max().item() / len(self.given)
        if row["given_accuracy"] > chance + CLEARLY_ABOVE * (1 - chance):
            return []
        return [
            f"training is still at chance after {row['epoch']} of {epochs} epochs "
            f"({100 * row['given_accuracy']:.1f} % of the given "
            f"labels predicted, the largest class has {100 * chance:.1f} %): "
            + "; ".join(engine.method.advice("chance"))
        ]

    def state(self) -> dict[str, Any]:
        """Return what a resumed epoch needs to continue its sums; all ranks must call."""
        gradients = None if self.gradient_share is None else total(self.gradient_share.sums)
        return {"sums": self.sums, "counts": self.counts, "gradient_share": gradients}

    def load_state(self, state: dict[str, Any]) -> None:
        """Continue from a saved state."""
        self.sums, self.counts = state["sums"], state["counts"]
        if self.gradient_share is not None and state["gradient_share"] is not None and rank() == 0:
            self.gradient_share.sums = state["gradient_share"]
