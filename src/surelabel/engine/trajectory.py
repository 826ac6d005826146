"""The course of each training row's probabilities, at up to 20 checkpoints of training.

Checkpoints are the ends of every epoch at first. Once all are taken, every second one is dropped
and the distance between them doubles, so that the number of epochs need not be known.
"""

import torch
from torch import Tensor, nn

MOST_CHECKPOINTS = 20
MOST_ROWS = 200_000
"""Of more rows only p(given) is kept."""
NUM_TRACKED = 3
"""Classes whose p is kept beside p(given): those with the largest running mean."""
UNKNOWN = -1
"""In place of a class or a probability."""


class Trajectory(nn.Module):
    """Probabilities of N rows at T checkpoints, in 16 bits; -1 where nothing is known."""

    epochs: Tensor
    """(T,) the epoch of each checkpoint; 0 for one that is free."""
    stride: Tensor
    given: Tensor
    """(N, T) p of the given class."""
    classes: Tensor | None
    """(N, T, 3) the classes that had the largest running mean then."""
    probability: Tensor | None
    """(N, T, 3) their p."""

    def __init__(self, num_samples: int, num_classes: int) -> None:
        super().__init__()
        size, tracked = MOST_CHECKPOINTS, min(NUM_TRACKED, num_classes)
        self.register_buffer("epochs", torch.zeros(size, dtype=torch.int32))
        self.register_buffer("stride", torch.ones(1, dtype=torch.int32))
        self.register_buffer("given", torch.full((num_samples, size), UNKNOWN, dtype=torch.float16))
        kind = torch.int16 if num_classes <= torch.iinfo(torch.int16).max else torch.int32
        has_classes = num_samples <= MOST_ROWS
        shape = (num_samples, size, tracked)
        self.register_buffer("classes", torch.full(shape, UNKNOWN, dtype=kind) if has_classes else None)
        self.register_buffer("probability", torch.full(shape, UNKNOWN, dtype=torch.float16) if has_classes else None)

    @property
    def num_tracked(self) -> int:
        """Number of classes beside the given one."""
        return 0 if self.classes is None else self.classes.shape[2]

    def takes(self, epoch: int) -> bool:
        """Return whether the end of an epoch, counted from 1, is a checkpoint; make room for it."""
        if epoch % int(self.stride) == 0 and bool(self.epochs[-1] > 0):
            self._thin_out()
        return epoch % int(self.stride) == 0

    def _thin_out(self) -> None:
        half = MOST_CHECKPOINTS // 2
        blanks = ((self.epochs, 0), *((one, UNKNOWN) for one in (self.given, self.classes, self.probability)))
        for values, blank in blanks:
            if values is not None:
                values = values if values.dim() == 1 else values.transpose(0, 1)  # a view: checkpoints first
                values[:half] = values[1::2].clone()
                values[half:] = blank
        self.stride *= 2

    def add(self, epoch: int, given: Tensor, tracked: Tensor | None) -> None:
        """Add a checkpoint: (N,) p(given), and (N, 6) the tracked classes and their p."""
        place = int((self.epochs > 0).sum())
        self.epochs[place] = epoch
        self.given[:, place] = given.nan_to_num(UNKNOWN).to(torch.float16)
        if tracked is not None and self.classes is not None and self.probability is not None:
            classes, probability = tracked[:, : self.num_tracked], tracked[:, self.num_tracked :]
            self.classes[:, place] = classes.to(self.classes.dtype)
            self.probability[:, place] = probability.to(torch.float16)

    def tensors(self) -> dict[str, Tensor]:
        """Return the checkpoints that were taken, to be written to a file."""
        taken = int((self.epochs > 0).sum())
        found = {"epochs": self.epochs[:taken], "given": self.given[:, :taken]}
        if self.classes is not None and self.probability is not None:
            found |= {"classes": self.classes[:, :taken], "probability": self.probability[:, :taken]}
        return {name: values.cpu().contiguous() for name, values in found.items()}
