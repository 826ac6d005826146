"""What a panel wants of a run, and how that is said."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from surelabel.paper.figures.panel_runs import PAPER_DATA, Found
from surelabel.plotting.drawing import shortened

ANNEALED = ("cosine_restarts", "cosine", "one_cycle")
"""Schedules that stand for the paper's cosine at other scales."""
STEPPED = ("multi_step", "constant")
SCHEDULES = {
    "cosine_restarts": "cosine with restarts",
    "cosine": "cosine",
    "one_cycle": "one cycle",
    "multi_step": "multi-step",
    "constant": "constant rate",
}
METHODS = {"car": "CAR", "cross_entropy": "cross entropy"}
"""Methods that figures call otherwise than configurations do."""
OPTIONS = {
    "penalty_weight": r"$\lambda$",
    "reverse_weight": r"$\beta$",
    "correction_start": r"$E_c$",
    "momentum": r"$\alpha$",
    "threshold": r"$\delta$",
}
"""The paper's letters for the options of CAR, in the order of its figures."""
WHOLE = {"targets": "car", "confidence": "indicator"}
"""CAR as it is, not one of its ablations."""
GIVEN_LABELS = {"targets": "none"}
"""Training on the labels as they are."""
SELECTED = {"reverse_weight": 0.0, "momentum": 0.9, "threshold": 0.0}
"""What the paper selects for CIFAR-10; lambda and E_c are others at other scales."""


@dataclass(frozen=True)
class Wanted:
    """A finished run that fits one panel."""

    data: str
    """Name of one of the paper's data sets; a run on another data set, a user's own, may stand in."""
    noise: tuple[str, float] | None = None
    """Kind and rate; None is any."""
    method: str | None = "car"
    """None is any."""
    options: Mapping[str, Any] = field(default_factory=dict)
    preferred: Mapping[str, Any] = field(default_factory=dict)
    """Options that it has where there is a choice, as in a study of these options."""
    schedules: tuple[str, ...] = ()
    """Kinds of learning-rate schedule; none is any."""
    measured: str | None = None
    """Something that its metrics must hold."""
    images: bool = False
    """Whether only images will do."""

    def fits(self, found: Found) -> bool:
        """Whether a run is what is wanted, whatever its data set."""
        config = found.config
        return (
            self.method in (None, config.method.name)
            and (not self.schedules or config.optimiser.schedule.kind in self.schedules)
            and self._has_noise(found)
            and all(found.options.get(name) == value for name, value in self.options.items())
            and (found.is_image or not self.images)
            and (self.measured is None or any(self.measured in row for row in found.metrics))
        )

    def num_preferred(self, found: Found) -> int:
        """How many of the preferred options a run has."""
        return sum(found.options.get(name) == value for name, value in self.preferred.items())

    def _has_noise(self, found: Found) -> bool:
        if self.noise is None:
            return True
        noise = found.config.noise
        return noise is not None and noise.kind == self.noise[0] and abs(noise.rate - self.noise[1]) < 1e-6

    @property
    def text(self) -> str:
        """In words, for the error that says what is missing."""
        method = "any method" if self.method is None else METHODS.get(self.method, self.method)
        words = [f"{method} on {PAPER_DATA[self.data]}"]
        words += [] if self.noise is None else [noise_text(*self.noise)]
        words += [f"{SCHEDULES[self.schedules[0]]} schedule"] if self.schedules else []
        words += [f"{name} {value:g}" for name, value in self.options.items() if name in OPTIONS]
        words += [f"with {self.measured}"] if self.measured else []
        return ", ".join(words)


def noise_text(kind: str, rate: float) -> str:
    """Such as 40 % symmetric noise."""
    return f"{100 * rate:g} % {kind} noise"


def data_text(found: Found) -> str:
    """The data set as the paper calls it; with the source's name where it is only part of it, or another one."""
    source = found.source.removesuffix(".npz")
    if found.data is None:
        return shortened(source, 36)
    rest = re.sub(rf"(?i)\b{found.data}\b", "", source).strip("-_. ")
    return f"{PAPER_DATA[found.data]} ({shortened(rest, 36)})" if rest else PAPER_DATA[found.data]


def setting_text(found: Found) -> str:
    """Data and noise of a run."""
    noise = found.config.noise
    return ", ".join([data_text(found)] + ([] if noise is None else [noise_text(noise.kind, noise.rate)]))


def method_text(found: Found) -> str:
    """The method of a run as figures call it."""
    name = found.config.method.name
    return METHODS.get(name, name)
