"""The history of each training sample, from the predictions made in training."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from surelabel.core.collective import gathered
from surelabel.core.state import SampleStore

MOST_BYTES = 2**28
"""Above this size of the table, N x K x 4 bytes, mean class probabilities are not kept."""


class SampleRecord(nn.Module):
    """Implements core's Record: (N,) buffers, updated from what steps write.

    The means are over all visits. What was learned or forgotten is decided once an epoch, by its
    last visit. `mean_probability` is the running mean of all class probabilities, an (N, K) table;
    it is None where the table would be too large.
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

    given: Tensor

    def distribute(self, replicate_below: int) -> None:
        """Shard the table of mean probabilities among processes if it has more bytes than this."""
        if self.mean_probability is not None:
            self.mean_probability.distribute(shard=self.mean_probability.num_bytes > replicate_below)

    @torch.no_grad()
    def see(self, index: Tensor, logits: Tensor, label: Tensor) -> None:
        """Store what (B, K) logits say about the rows at `index`."""
        rows = gathered(index)
        self._count_visits(rows[rows >= 0])  # a second visit in an epoch replaces the stored first
        self.latest.write(index, self.values(logits, label))
        if self.mean_probability is not None and self.times_seen is not None:
            times = self.times_seen.read(index)
            self.mean_probability.blend(index, logits.softmax(1), momentum=times / (times + 1))
            self.times_seen.write(index, times + 1)

    @torch.no_grad()
    def see_all(self, logits: Tensor) -> None:
        """Store what (N, K) logits say about all rows; they must be equal on all ranks."""
        self.latest.replace(self.values(logits, self.given))
        if self.mean_probability is not None and self.times_seen is not None:
            times = self.times_seen.whole() + 1
            mean = self.mean_probability.whole()
            self.mean_probability.replace(mean.lerp_(logits.softmax(1).to(mean), (1 / times)[:, None]))
            self.times_seen.replace(times)

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
        self.latest.rows.fill_(torch.nan)

    def load_state_dict(self, state_dict: Mapping[str, Any], *args: Any, **kwargs: Any) -> Any:
        """Load a saved state; a run that began without mean probabilities ends without them."""
        if "mean_probability.rows" not in state_dict:
            self.mean_probability = self.times_seen = None
        return super().load_state_dict(state_dict, *args, **kwargs)

    @property
    def has_news(self) -> bool:
        """Whether any prediction was stored since the last epoch was closed."""
        return not bool(self.latest.rows[:-1, 0].isnan().all())
