"""Errors about losses and weights that are not finite, which say how to continue."""

import shlex
from typing import TYPE_CHECKING

import torch

from surelabel.core.batch import Batch
from surelabel.core.collective import gathered
from surelabel.core.method import Step, options_of
from surelabel.engine import distributed
from surelabel.errors import NotFiniteError

if TYPE_CHECKING:
    from surelabel.engine.loop import Engine

SHOWN_IDS = 64
"""Number of samples of a batch that an error names."""


def bad_loss(engine: "Engine", step: Step, batch: Batch) -> NotFiniteError:
    """Return the error for a step whose loss is not finite; all ranks must call."""
    guilty = [name for name, term in step.terms.items() if not bool(torch.isfinite(term))]
    index = gathered(batch.index)
    rows = index[index >= 0].tolist()
    ids = ", ".join(map(str, engine.setup.corpus.train.ids[rows[:SHOWN_IDS]])) + ", ..." * (len(rows) > SHOWN_IDS)
    return NotFiniteError(
        f"loss term {', '.join(guilty) or 'sum'} is not finite in epoch {engine.position.run_epoch}, batch "
        f"{engine.position.batch_number + 1}, samples {ids}; {_how_to_continue(engine)}"
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
