"""Explain why an audit cannot tell how many labels are wrong, and what to do next.

A finished run shows two causes: its network memorised the labels, or training ended too early.
"""

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from surelabel.config import MethodConfig
from surelabel.errors import SurelabelError
from surelabel.runs.run_dir import RECORDED, RunDir
from surelabel.verdicts import evidence

if TYPE_CHECKING:
    from surelabel.verdicts.audit import Audit

MEMORISED = 0.98
"""A network that predicts more than this fraction of the given labels has memorised them."""
STILL_LEARNING = 0.05
"""If the fraction rose by more than this in the last quarter, training ended too early."""
FEW = 0.05
"""With at most this fraction of wrong labels, predicting nearly all labels is no mistake."""
FELL = 0.5
"""A fit to the given labels below this fraction of an earlier one: the network has unlearned."""
MOST_NAMED = 5
LEAST_LABELS = 10
"""A class with fewer labels may vanish in a normal run: all of them may be wrong."""

LINEAR = "--model mlp --set 'model.widths=[]' --set optimiser.weight_decay=0.05"
"""Options for a linear network on features."""


@dataclass(frozen=True)
class Training:
    """How the run behind an audit was trained."""

    method: str
    agreement: dict[int, float]
    """The fraction of given labels that the network predicted, by epoch of the last stage."""
    on_features: bool = False
    """Whether the inputs are feature vectors, and the network is not linear yet."""

    @property
    def epochs(self) -> int:
        """The last epoch with this figure."""
        return max(self.agreement, default=0)

    @property
    def late_gain(self) -> float:
        """The rise of the fraction over the last quarter of the run."""
        if len(self.agreement) < 2:
            return 0.0
        before = [epoch for epoch in self.agreement if epoch < self.epochs and epoch <= math.ceil(0.75 * self.epochs)]
        return self.agreement[self.epochs] - self.agreement[before[-1]] if before else 0.0


def training_of(run: RunDir) -> Training | None:
    """Read how a run was trained; None if that is unknown."""
    try:
        return _read_training(run)
    # A damaged file is no reason to withhold the verdict.
    except (SurelabelError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _read_training(run: RunDir) -> Training:
    config, rows = run.config(), run.metrics()
    stage = rows[-1].get("stage") if rows else None
    agreement = {
        int(row["epoch"]): float(row["given_accuracy"])
        for row in rows
        if "given_accuracy" in row and row.get("stage") == stage
    }
    is_vector = config.model.train_on == "features" or len(run.data().get("input_shape", ())) == 1
    on_features = is_vector and config.model.options.get("widths") != []
    return Training(config.method.name, agreement, on_features)


def causes(audit: "Audit") -> Iterator[str]:
    """Yield the cause that fits this audit with the next step; nothing if all is well."""
    training, repeated, share = audit.training, audit.repeated, audit.noise_rate.rate or 0
    yield from _unlearned(audit)
    if training is not None and not audit.can_tell and training.late_gain > STILL_LEARNING:
        yield _too_short(training)
        return
    if share > 0.5:
        yield (
            "More than half of the labels are probably wrong, or the network has not learned the classes: train longer."
        )
    if repeated <= MEMORISED:
        return
    if audit.power is not None:
        if share > FEW:
            yield _memorised_but_judged(training, repeated)
    elif not audit.is_calibrated:
        yield _memorised_or_clean(training, repeated)
    elif share > FEW:
        yield _memorised(training, repeated)


def _unlearned(audit: "Audit") -> Iterator[str]:
    """Yield that the network fits the labels far worse than before, or never predicts a class."""
    agreement = {} if audit.training is None else audit.training.agreement
    if agreement:
        best, last = max(agreement, key=agreement.__getitem__), max(agreement)
        if agreement[last] < FELL * agreement[best]:
            yield (
                f"The network has unlearned the classes: it predicted {_percent(agreement[best])} of the given labels "
                f"in epoch {best} and {_percent(agreement[last])} in epoch {last}, the last. Train again with a "
                f"smaller optimiser.weight_decay, or with --epochs {best}"
            )
    if lost := list(_lost_classes(audit)):
        named = ", ".join(map(repr, lost[:MOST_NAMED])) + (", ..." if len(lost) > MOST_NAMED else "")
        yield f"The network predicts {len(lost):,} of the classes for no training row: {named}. Do not use it for them."


def _lost_classes(audit: "Audit") -> Iterator[str]:
    """Yield the classes that many labels name and the network never predicts."""
    trained = audit.columns["verdict"] == evidence.TRAINED
    if "prediction" not in audit.columns or not trained.any():
        return
    predicted = set(audit.columns["prediction"][trained].tolist())
    sizes = Counter(audit.columns["given"][trained].tolist())
    yield from (name for name, size in sizes.items() if size >= LEAST_LABELS and name not in predicted)


def _memorised(training: Training | None, repeated: float) -> str:
    return (
        f"The network has memorised the labels: it ends with {_percent(repeated)} of the given ones, wrong ones "
        "too. The ranking rests on how training began, and suggestions are of little use. "
        f"{_memorise_less(training)}"
    )


def _memorised_but_judged(training: Training | None, repeated: float) -> str:
    return (
        f"The network has memorised the labels: it ends with {_percent(repeated)} of the given ones, wrong ones too. "
        "The verdict rests on the second opinion, which has not seen them; for a better network, train on corrected "
        f"labels. {_memorise_less(training)}"
    )


def _memorised_or_clean(training: Training | None, repeated: float) -> str:
    return (
        f"The network ends with {_percent(repeated)} of the given labels: either hardly any is wrong, or it has "
        f"memorised the wrong ones. To find out, check some labels at random. {_memorise_less(training)}"
    )


def _memorise_less(training: Training | None) -> str:
    """Return what keeps a network from memorising; measured in docs/decisions/0009."""
    if training is not None and not _resists(training.method):
        return f"Train with a method that resists wrong labels: --method {MethodConfig.model_fields['name'].default}"
    if training is not None and training.on_features:
        return f"A linear network memorises less: {LINEAR}"
    return "A network that starts from pretrained features memorises less: docs/networks.md"


def _resists(method: str) -> bool:
    """Return whether a method is meant for wrong labels; no foreign method is imported."""
    if method == RECORDED:  # the loss of the other training loop is not known
        return False
    from surelabel import methods  # it loads PyTorch, which is seldom needed here

    return method not in methods.names() or methods.find(method).resists_wrong_labels


def _too_short(training: Training) -> str:
    last = training.agreement[training.epochs]
    return (
        f"Training ended too early: the network agreed with {_percent(last)} of the given labels, and in the last "
        f"quarter of the run that still rose by {100 * training.late_gain:.0f} points. Train longer: "
        f"--epochs {4 * training.epochs}"
    )


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
