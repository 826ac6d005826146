"""The history of each training sample, from the predictions made in training."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from surelabel.core.collective import gathered, world_size
from surelabel.core.state import SampleStore
from surelabel.engine.trajectory import UNKNOWN, Trajectory

MOST_BYTES = 2**28
"""Above this size of the table, N x K x 4 bytes, mean class probabilities are not kept."""


class SampleRecord(nn.Module):
    """Implements core's Record: (N,) buffers, updated from what steps write.

    The means are over all visits. What was learned or forgotten is decided once an epoch, by its
    last visit. `mean_probability` is the running mean of all class probabilities, an (N, K) table;
    it is None where the table would be too large. `trajectory` is their course, from the last
    visits in some epochs; it is None in a run that began without.
    """

    visits: Tensor
    prediction: Tensor
    mean_given_probability: Tensor
    mean_margin: Tensor
    first_learned: Tensor
    forgotten: Tensor
    is_learned: Tensor
    mean_probability: SampleStore | None
    times_seen: SampleStore | None
    trajectory: Trajectory | None
    tracked: SampleStore | None
    """In an epoch that ends with a checkpoint: the classes to track, and their p."""

    def __init__(self, given: Tensor, num_classes: int) -> None:
        super().__init__()
        num_samples = len(given)
        self.register_buffer("given", given, persistent=False)
        self.latest = SampleStore(num_samples, 3, fill=torch.nan)
        for name in ("visits", "first_learned", "forgotten"):
            self.register_buffer(name, torch.zeros(num_samples, dtype=torch.int32))
        self.register_buffer("prediction", torch.full((num_samples,), -1, dtype=torch.long))
        # Before the first visit each of the K labels is equally likely.
        self.register_buffer("mean_given_probability", torch.full((num_samples,), 1 / num_classes))
        self.register_buffer("mean_margin", torch.zeros(num_samples))
        self.register_buffer("is_learned", torch.zeros(num_samples, dtype=torch.bool))
        is_small = num_samples * num_classes * 4 <= MOST_BYTES
        self.mean_probability = SampleStore(num_samples, num_classes, fill=1 / num_classes) if is_small else None
        self.times_seen = SampleStore(num_samples, dtype=torch.int32) if is_small else None
        self.trajectory = Trajectory(num_samples, num_classes)
        has_classes = is_small and self.trajectory.num_tracked > 0
        width = 2 * self.trajectory.num_tracked
        self.tracked = SampleStore(num_samples, width, fill=UNKNOWN) if has_classes else None
        self.is_tracking = False

    given: Tensor

    def distribute(self, replicate_below: int) -> None:
        """Shard the table of mean probabilities among processes if it has more bytes than this."""
        if self.mean_probability is not None:
            self.mean_probability.distribute(shard=self.mean_probability.num_bytes > replicate_below)

    def open_epoch(self, epoch: int) -> None:
        """Begin an epoch, or go on with it in a run that was resumed."""
        self.is_tracking = self.trajectory is not None and self.trajectory.takes(epoch)

    @torch.no_grad()
    def see(self, index: Tensor, logits: Tensor, label: Tensor) -> None:
        """Store what (B, K) logits say about the rows at `index`."""
        rows = gathered(index)
        if world_size() > 1:
            rows = rows[rows >= 0]  # only batches on several processes are padded, and this waits for the device
        self._count_visits(rows)  # a second visit in an epoch replaces the stored first
        self.latest.write(index, self.values(logits, label))
        if self.mean_probability is not None and self.times_seen is not None:
            times, probability = self.times_seen.read(index), logits.softmax(1)
            self.mean_probability.blend(index, probability, momentum=times / (times + 1))
            self.times_seen.write(index, times + 1)
            if self.is_tracking and self.tracked is not None:
                self.tracked.write(index, self._track(self.mean_probability.read(index), probability))

    @torch.no_grad()
    def see_all(self, logits: Tensor) -> None:
        """Store what (N, K) logits say about all rows; they must be equal on all ranks."""
        self.latest.replace(self.values(logits, self.given))
        if self.mean_probability is not None and self.times_seen is not None:
            times = self.times_seen.whole() + 1
            mean, probability = self.mean_probability.whole(), logits.softmax(1)
            mean.lerp_(probability.to(mean), (1 / times)[:, None])
            self.mean_probability.replace(mean)
            self.times_seen.replace(times)
            if self.is_tracking and self.tracked is not None:
                self.tracked.replace(self._track(mean, probability))

    def _track(self, mean: Tensor, probability: Tensor) -> Tensor:
        """Return (B, 6): the classes with the largest running mean, and their p."""
        assert self.trajectory is not None
        classes = mean.topk(self.trajectory.num_tracked, dim=1).indices
        return torch.cat([classes.to(mean), probability.gather(1, classes).to(mean)], 1)

    @staticmethod
    def values(logits: Tensor, label: Tensor) -> Tensor:
        """Return (B, 3): the predicted class, p at the label, and the margin of its logit."""
        label = label[:, None]
        at_label = logits.gather(1, label).squeeze(1)
        others = logits.scatter(1, label, -torch.inf).amax(1)
        probability = (at_label - logits.logsumexp(1)).exp()
        return torch.stack((logits.argmax(1).to(logits.dtype), probability, at_label - others), 1)

    def _count_visits(self, rows: Tensor) -> None:
        """Add the visits that are stored for the rows at (n,) `rows` to their means."""
        prediction, probability, margin = self.latest.rows[rows].unbind(1)
        seen = ~prediction.isnan()
        visits = self.visits[rows] + seen
        share = torch.where(seen, 1 / visits.clamp(min=1), 0.0)
        self.visits[rows] = visits
        for mean, value in ((self.mean_given_probability, probability), (self.mean_margin, margin)):
            mean[rows] = torch.lerp(mean[rows], value.nan_to_num(), share)

    @torch.no_grad()
    def close_epoch(self, epoch: int) -> None:
        """Add the epoch's table to the history and clear it."""
        self._count_visits(torch.arange(len(self.given), device=self.given.device))
        prediction = self.latest.rows[:-1, 0]
        seen = ~prediction.isnan()
        self.prediction = torch.where(seen, prediction.nan_to_num().long(), self.prediction)
        learned = torch.where(seen, self.prediction == self.given, self.is_learned)
        self.forgotten += self.is_learned & ~learned
        first = learned & (self.first_learned == 0)
        self.first_learned = torch.where(first, epoch, self.first_learned).to(torch.int32)
        self.is_learned = learned
        self._add_checkpoint(epoch)
        self.latest.rows.fill_(torch.nan)

    def _add_checkpoint(self, epoch: int) -> None:
        """Add to the trajectory what this epoch has to say, if its end is a checkpoint."""
        if self.is_tracking and self.trajectory is not None and self.has_news:
            tracked = None if self.tracked is None else self.tracked.rows[:-1]
            self.trajectory.add(epoch, self.latest.rows[:-1, 1], tracked)
        if self.tracked is not None:
            self.tracked.rows.fill_(UNKNOWN)

    def load_state_dict(self, state_dict: Mapping[str, Any], *args: Any, **kwargs: Any) -> Any:
        """Load a saved state; a run that began without some of the tables ends without them."""
        if "mean_probability.rows" not in state_dict:
            self.mean_probability = self.times_seen = None
        if "trajectory.epochs" not in state_dict:
            self.trajectory = self.tracked = None
        return super().load_state_dict(state_dict, *args, **kwargs)

    @property
    def num_bytes(self) -> int:
        """Size of everything that is kept about the samples in bytes."""
        return sum(values.nbytes for values in self.buffers())

    @property
    def has_news(self) -> bool:
        """Whether any prediction was stored since the last epoch was closed."""
        return not bool(self.latest.rows[:-1, 0].isnan().all())
