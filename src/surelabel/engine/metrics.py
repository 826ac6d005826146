"""One row per epoch: loss terms, rate, accuracy, memorisation, speed."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from surelabel.core.batch import Batch
from surelabel.core.collective import rank, total
from surelabel.core.stages import View
from surelabel.data.loader import Loader
from surelabel.engine.evaluate import (
    GradientShare,
    accuracies,
    exact_dtype,
    in_eval_mode,
    memorisation,
    predictions,
    share,
)

if TYPE_CHECKING:
    from surelabel.engine.loop import Engine

LOOK_EVERY = 5
"""Epochs between evaluation passes over the training set, for steps that do not say what they saw."""


CLEARLY_ABOVE = 0.05
"""Share of the way from chance to perfect that a network which learns has gone after a tenth of the run."""

HELD_OUT = " held out"
"""A name that no test set has."""


class Metrics:
    """Adds up what steps return and measures the rest at the end of an epoch."""

    def __init__(self, engine: "Engine") -> None:
        self.engine = engine
        corpus, config, device = engine.setup.corpus, engine.config.train, engine.device
        train = corpus.train
        self.given = train.label.to(device)
        self.clean = None if train.clean is None else train.clean.to(device)
        parts = {**corpus.tests} if corpus.validation is None else {**corpus.tests, HELD_OUT: corpus.validation}
        self.loaders = {name: Loader(rows, config.batch_size, device=device) for name, rows in parts.items()}
        self.counts: dict[str, int] = {}
        self.exact = exact_dtype(device)
        self.gradient_share = None
        if config.gradient_share and self.clean is not None:
            self.gradient_share = GradientShare(list(engine.method.networks().values()), self.given != self.clean)

    def add(self, terms: Mapping[str, Tensor]) -> None:
        """Add a step's terms to the epoch's sums; they stay on the device."""
        sums = self.engine.sums
        for name, term in terms.items():
            term = term.detach().to(self.exact)
            sums[name] = sums[name] + term if name in sums else term
            self.counts[name] = self.counts[name] + 1 if name in self.counts else 1

    def after_backward(self, batch: Batch, is_mixed: bool) -> None:
        """Look at the gradients, if that was asked for."""
        if self.gradient_share is not None:
            self.gradient_share.after_backward(batch, is_mixed)

    def close_epoch(self, rate: float, is_last: bool) -> dict[str, Any]:
        """The metrics of the epoch that has just ended, with each sample's history brought up to date."""
        engine, epoch = self.engine, self.engine.position.run_epoch
        if not engine.record.has_news and (is_last or epoch % LOOK_EVERY == 0):
            self._look()
        has_news = engine.record.has_news
        engine.record.close_epoch(epoch)
        row = self._row(rate)
        if is_last or epoch % engine.config.train.evaluate_every == 0:
            row.update(self.evaluated())
        row.update(self._on_training_rows(has_news))
        if engine.notes:
            row["estimates"], engine.notes = engine.notes, {}
        self.counts = {}
        return row

    def _look(self) -> None:
        """Where the steps of an epoch did not say what they saw: look at all training rows."""
        engine = self.engine
        view = View(augment=False)
        log_p = engine.collect(lambda batch: engine.method.predict(batch.x).clamp(min=1e-30).log(), view)
        rows = engine.loader.rows(view).to(engine.device)
        in_eval_mode(engine.method, lambda: engine.record.latest.replace(engine.record.values(log_p, self.given[rows])))

    def _row(self, rate: float) -> dict[str, Any]:
        position = self.engine.position
        terms = {name: (added / self.counts[name]).item() for name, added in self.engine.sums.items()}
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

    def evaluated(self) -> dict[str, Any]:
        """Accuracy on the test sets, and on the held-out rows where there are any."""
        measured = {
            name: accuracies(predictions(self.engine.method, loader), loader.examples.label)
            for name, loader in self.loaders.items()
        }
        validation = measured.pop(HELD_OUT, None)
        return {"tests": measured} if validation is None else {"tests": measured, "validation": validation}

    def _on_training_rows(self, has_news: bool) -> dict[str, Any]:
        """What became of given, clean and false labels; only in epochs that looked at them."""
        record, result = self.engine.record, dict[str, Any]()
        seen = record.visits > 0
        if has_news:
            prediction, given = record.prediction[seen], self.given[seen]
            result["given_accuracy"] = share(prediction == given)
            if self.clean is not None:
                result.update(memorisation(prediction, given, self.clean[seen]))
        if self.clean is not None and (targets := self.engine.method.targets()) is not None:
            named = targets.apply_rows(lambda rows: rows.argmax(1))
            result["correction_accuracy"] = share(named == self.clean)
        if self.gradient_share is not None:
            result["gradient_share"] = self.gradient_share.close_epoch()
        return result

    def warnings(self) -> list[str]:
        """Says once, after a tenth of the run, that training has not left chance level."""
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
            f"labels predicted, the largest class has {100 * chance:.1f} %): {engine.method.hint_at_chance()}"
        ]

    def state(self) -> dict[str, Any]:
        """What a resumed epoch needs to go on adding up; every rank calls, for sums are of all ranks."""
        sums = None if self.gradient_share is None else total(self.gradient_share.sums)
        return {"counts": self.counts, "gradient_share": sums}

    def load_state(self, state: dict[str, Any]) -> None:
        """Go on from there."""
        self.counts = state["counts"]
        if self.gradient_share is not None and state["gradient_share"] is not None and rank() == 0:
            self.gradient_share.sums = state["gradient_share"]
