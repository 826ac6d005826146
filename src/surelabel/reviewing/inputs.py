"""The values of a row that is not an image, beside what is usual in the class that it was given and in the suggested one."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from surelabel.data.corpus import Examples

MEASURED_ROWS = 20_000
"""Training rows from which class means are taken; more are sampled evenly."""
MOST_SHOWN = 200
"""Values that the page lists; those that speak most clearly come first."""


class Values:
    """Feature vectors as a table: name, value, and the mean of two classes."""

    def __init__(self, train: Examples, num_classes: int, names: Sequence[str] | None = None) -> None:
        size = int(train.x.shape[1])
        self.names = list(names) if names is not None and len(names) == size else [f"x{n}" for n in range(size)]
        rows = torch.linspace(0, len(train) - 1, min(MEASURED_ROWS, len(train))).long()
        x, label = train.x[rows].double(), train.label[rows]
        self.mean = _class_means(x, label, num_classes)
        # Within classes, because a feature that tells classes apart varies between them.
        self.spread = (x - self.mean[label]).square().mean(0).sqrt().clamp(min=1e-12)

    def of(self, rows: Examples, position: int, given: int, suggested: int) -> list[Mapping[str, Any]]:
        """The values of a row, first those that are most at odds with one of the two classes.

        `pull` counts by how many standard deviations a value is nearer to the suggested class than to the given one.
        """
        value = rows.x[torch.tensor([position])][0].double()
        pull = ((value - self.mean[given]).abs() - (value - self.mean[suggested]).abs()) / self.spread
        order = torch.argsort(-pull.abs(), stable=True)[:MOST_SHOWN].tolist()
        columns = {"value": value, "given_mean": self.mean[given], "suggested_mean": self.mean[suggested], "pull": pull}
        return [{"name": self.names[at]} | {name: float(c[at]) for name, c in columns.items()} for at in order]


def _class_means(x: Tensor, label: Tensor, num_classes: int) -> Tensor:
    """(K, D); a class without rows has the mean of all."""
    total = torch.zeros(num_classes, x.shape[1], dtype=x.dtype).index_add_(0, label, x)
    count = label.bincount(minlength=num_classes)[:, None]
    return torch.where(count > 0, total / count.clamp(min=1), x.mean(0))
