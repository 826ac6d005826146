"""Stop at losses and weights that are not finite, with errors that say how to continue."""

import math
import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from surelabel.core.batch import Batch
from surelabel.core.collective import gathered
from surelabel.core.method import Step, options_of
from surelabel.engine import distributed
from surelabel.errors import NotFiniteError

if TYPE_CHECKING:
    from surelabel.engine.loop import Engine

SHOWN_IDS = 64
"""Number of samples of a batch that an error names."""
CHECK_EVERY = 16
"""Steps between looks at the loss on a GPU, which works ahead of Python: a look waits for it."""


class _Seen(NamedTuple):
    """What an error says about a step."""

    loss: Tensor
    terms: Mapping[str, Tensor]
    rows: Tensor
    batch_number: int


class LossWatch:
    """Finds losses that are not finite: at once on a CPU, within a few steps on other devices.

    A late look is soon enough, because nothing is saved before a look.
    """

    def __init__(self, engine: "Engine") -> None:
        self.engine = engine
        self.every = 1 if engine.device.type == "cpu" else CHECK_EVERY
        self.latest = math.nan
        """The loss at the last look."""
        self._unseen: list[_Seen] = []

    def add(self, loss: Tensor, step: Step, batch: Batch) -> None:
        """Remember the loss of a step; look at it if it is time."""
        terms = {name: term.detach() for name, term in step.terms.items()}
        self._unseen.append(_Seen(loss.detach(), terms, batch.index, self.engine.position.batch_number + 1))
        if len(self._unseen) >= self.every:
            self.check()

    def check(self) -> None:
        """Raise if a loss since the last look is not finite; all ranks must call."""
        seen, self._unseen = self._unseen, []
        if not seen:
            return
        losses = torch.stack([one.loss for one in seen]).tolist()
        for one, loss in zip(seen, losses, strict=True):
            if not math.isfinite(loss):
                raise _bad_loss(self.engine, one)
        self.latest = losses[-1]


def _bad_loss(engine: "Engine", step: _Seen) -> NotFiniteError:
    guilty = [name for name, term in step.terms.items() if not bool(torch.isfinite(term))]
    index = gathered(step.rows)
    rows = index[index >= 0].tolist()
    ids = ", ".join(map(str, engine.setup.corpus.train.ids[rows[:SHOWN_IDS]])) + ", ..." * (len(rows) > SHOWN_IDS)
    return NotFiniteError(
        f"loss term {', '.join(guilty) or 'sum'} is not finite in epoch {engine.position.run_epoch}, batch "
        f"{step.batch_number}, samples {ids}; {_how_to_continue(engine)}"
    )


def check_weights(engine: "Engine") -> None:
    """Raise if a gradient that was not finite has spoilt weights, which must not be saved."""
    for name, module in distributed.trained_modules(engine.method).items():
        if not all(bool(torch.isfinite(p).all()) for p in module.parameters()):
            raise NotFiniteError(
                f"the weights of {name} are not finite after epoch {engine.position.run_epoch}, batch "
                f"{engine.position.batch_number}; {_how_to_continue(engine)}"
            )


def _acting_settings(engine: "Engine") -> list[str]:
    """Return the settings that make the steps of the current stage smaller."""
    if engine.stage.rate is None:
        return ["optimiser.rate=...", "optimiser.clip=5"]
    has_rate = "rate" in options_of(type(engine.method))
    return [*["method.rate=..."] * has_rate, "optimiser.clip=5"]


def _how_to_continue(engine: "Engine") -> str:
    run_dir, advice = engine.setup.run_dir, " or ".join(f"--set {name}" for name in _acting_settings(engine))
    if not run_dir.state_file.exists():
        return f"no state was saved yet; start again with smaller steps: {advice}"
    return f"the last saved state is kept; resume with: surelabel resume {shlex.quote(str(run_dir.path))} {advice}"
