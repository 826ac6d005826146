"""Record the predictions of any training loop, and audit its labels afterwards."""

import copy
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from surelabel.callbacks import recorded_run
from surelabel.core.collective import gathered
from surelabel.engine.record import SampleRecord
from surelabel.errors import ConfigError, DataError, RunError
from surelabel.runs.run_dir import RunDir
from surelabel.verdicts import CONFIDENCE, SUSPICIOUS_FROM, Audit, audit


class Recorder:
    """Records what a network says of its training rows, in any loop, and audits their labels.

    Call `see` with the logits of every training batch; the position of each row in the data must
    be known. Call `end_epoch` after each epoch; without these calls an epoch ends after as many
    rows as the data have. `audit` gives the verdict, `save` writes a run directory for the commands
    audit, report, review, export and gate.

    >>> import torch
    >>> from surelabel.callbacks import Recorder
    >>> rng = torch.Generator().manual_seed(0)
    >>> label = torch.arange(200) % 2
    >>> x = torch.randn(200, 2, generator=rng) + 6 * label[:, None]
    >>> label[:10] = 1 - label[:10]  # ten wrong labels
    >>> network = torch.nn.Linear(2, 2)
    >>> optimiser = torch.optim.SGD(network.parameters(), lr=0.1)
    >>> recorder = Recorder(len(x), class_names=["cat", "dog"])
    >>> for epoch in range(10):
    ...     for rows in torch.randperm(200, generator=rng).split(50):
    ...         logits = network(x[rows])
    ...         recorder.see(rows, logits, label[rows])
    ...         loss = torch.nn.functional.cross_entropy(logits, label[rows])
    ...         optimiser.zero_grad()
    ...         _ = loss.backward(), optimiser.step()
    ...     recorder.end_epoch()
    >>> found = recorder.audit(features=x)
    >>> sorted(int(row["id"]) for row in found.head(10))
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
    """

    def __init__(
        self, num_rows: int, *, class_names: Sequence[str] | None = None, ids: Sequence[Any] | None = None
    ) -> None:
        """Take the number of training rows; classes and rows are called by number without names."""
        if num_rows < 2:
            raise ConfigError(f"Recorder({num_rows}): expected the number of training rows, at least 2")
        if ids is not None and (len(ids) != num_rows or len(set(map(str, ids))) != num_rows):
            raise ConfigError(
                f"ids: got {len(set(map(str, ids)))} different ones; expected one for each of {num_rows} rows"
            )
        self.num_rows = num_rows
        self.class_names = None if class_names is None else tuple(map(str, class_names))
        self.ids = None if ids is None else np.array([str(one) for one in ids])
        self.record: SampleRecord | None = None
        """The history of every row; None before the first batch."""
        self.metrics: list[dict[str, Any]] = []
        """One mapping per epoch: the fraction of given labels that were predicted."""
        self._num_seen, self._has_ends = 0, False

    def __repr__(self) -> str:
        seen = 0 if self.record is None else int((self.record.given >= 0).sum())
        return f"Recorder({self.num_rows:,} rows): {len(self.metrics)} epochs, {seen:,} rows seen"

    @torch.no_grad()
    def see(self, index: Any, logits: Any, label: Any) -> None:
        """Record a batch: (B,) positions of rows in the data, (B, K) logits, (B,) given labels.

        A single logit per row, (B,) or (B, 1), is that of the second of two classes. Labels must be
        the given ones, not mixed, smoothed or corrected. With several processes, all must call it.

        >>> from surelabel.callbacks import Recorder
        >>> recorder = Recorder(4)
        >>> recorder.see([0, 1], [[2.0, 0.0], [0.5, 1.0]], [0, 1])
        >>> recorder
        Recorder(4 rows): 0 epochs, 2 rows seen
        """
        index, logits, label = self._checked(index, logits, label)
        if self.record is None:
            self.record = self._make_record(logits)
        rows, labels = gathered(index), gathered(label)
        known = self.record.given[rows]
        differs = (known >= 0) & (known != labels)
        if differs.any():
            first = int(differs.nonzero()[0])
            raise DataError(
                f"row {int(rows[first])}: its label was {int(known[first])} and is now {int(labels[first])}; "
                "pass the given labels and the positions of rows in the data"
            )
        self.record.given[rows] = labels
        self.record.see(index, logits, label)
        self._num_seen += len(rows)
        if not self._has_ends and self._num_seen >= self.num_rows:
            self._close()

    def end_epoch(self) -> None:
        """End an epoch: what was learned and forgotten is decided by its last visits.

        >>> from surelabel.callbacks import Recorder
        >>> recorder = Recorder(2)
        >>> recorder.see([1], [[0.0, 1.0]], [1])
        >>> recorder.end_epoch()
        >>> recorder.metrics
        [{'epoch': 1, 'given_accuracy': 1.0}]
        """
        self._has_ends = True
        self._close()

    def audit(
        self,
        *,
        features: Any = None,
        predictions: Any = None,
        min_probability: float = SUSPICIOUS_FROM,
        confidence: float = CONFIDENCE,
    ) -> Audit:
        """Return the audit of all rows that were seen, as `surelabel.audit` does for a run.

        (N, D) `features`, or several sets by name, give a second opinion that has not seen the
        labels: inputs, or the features of a network that was not trained on these labels.
        (N, K) `predictions` are the final class probabilities, without augmentation. What is
        missing is said in `caveats` and among the `warnings` of the audit.

        >>> import numpy as np
        >>> from surelabel.callbacks import Recorder
        >>> recorder = Recorder(60)
        >>> for epoch in range(3):
        ...     recorder.see(range(60), np.eye(3)[np.arange(60) % 3], np.arange(60) % 3)
        >>> found = recorder.audit()
        >>> len(found), found.caveats[0].split(",")[0]
        (60, 'No features were recorded')
        """
        with tempfile.TemporaryDirectory() as folder:
            run = self.save(Path(folder) / "run", features=features, predictions=predictions)
            return audit(run, min_probability=min_probability, confidence=confidence)

    def save(self, run: str | Path, *, data: Any = None, features: Any = None, predictions: Any = None) -> RunDir:
        """Write a finished run to a new folder, without a model; `features` as in `audit`.

        `data` names what the rows come from, as in `surelabel.fit`, row by row: the report and the
        review page then show the inputs, and without `features` the second opinion uses them.

        >>> import tempfile
        >>> from surelabel.callbacks import Recorder
        >>> recorder = Recorder(2)
        >>> recorder.see([0, 1], [[2.0, 0.0], [0.5, 1.0]], [0, 1])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     recorder.save(f"{folder}/run").is_done
        True
        """
        if self.record is None:
            raise RunError("nothing was recorded; call see(index, logits, label) with every training batch")
        whole = self
        if self.record.has_news:  # in the middle of an epoch, which goes on afterwards
            whole = copy.deepcopy(self)
            whole._close()
        return recorded_run.write(whole, RunDir(run), data, features, predictions)

    def state_dict(self) -> dict[str, Any]:
        """Return what a checkpoint of the training loop should contain.

        >>> from surelabel.callbacks import Recorder
        >>> recorder, again = Recorder(2), Recorder(2)
        >>> recorder.see([0, 1], [[2.0, 0.0], [0.5, 1.0]], [0, 1])
        >>> again.load_state_dict(recorder.state_dict())
        >>> again
        Recorder(2 rows): 1 epochs, 2 rows seen
        """
        found = {"metrics": self.metrics, "num_seen": self._num_seen, "has_ends": self._has_ends}
        if self.record is not None:
            found |= {"record": self.record.state_dict(), "given": self.record.given, "num_classes": self.num_classes}
        return copy.deepcopy(found)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from the result of `state_dict`; see there for an example."""
        state = copy.deepcopy(dict(state))
        self.metrics, self._num_seen, self._has_ends = state["metrics"], state["num_seen"], state["has_ends"]
        if "record" in state:
            self.record = self._make_record(state["given"].new_zeros((1, state["num_classes"])))
            self.record.load_state_dict(state["record"])
            self.record.given.copy_(state["given"])

    @property
    def num_classes(self) -> int:
        """K."""
        if self.class_names is None:
            raise RunError("nothing was recorded yet, so the number of classes is not known")
        return len(self.class_names)

    def _make_record(self, logits: Tensor) -> SampleRecord:
        if self.class_names is None:
            self.class_names = tuple(map(str, range(logits.shape[1])))
        if len(self.class_names) != logits.shape[1]:
            raise ConfigError(f"class_names: {len(self.class_names)} names, but logits of {logits.shape[1]} classes")
        given = torch.full((self.num_rows,), -1, dtype=torch.long)
        record = SampleRecord(given, logits.shape[1]).to(logits.device)
        record.open_epoch(len(self.metrics) + 1)
        return record

    def _checked(self, index: Any, logits: Any, label: Any) -> tuple[Tensor, Tensor, Tensor]:
        """Return tensors on the device of the record; raise if they are not what `see` expects."""
        logits = torch.as_tensor(logits).detach()
        logits = logits.float() if logits.dtype != torch.float64 else logits
        if logits.dim() == 1 or logits.shape[1:] == (1,):
            logits = torch.stack([torch.zeros_like(logits.reshape(-1)), logits.reshape(-1)], 1)
        device = logits.device if self.record is None else self.record.given.device
        index, label = (torch.as_tensor(values).to(device).long() for values in (index, label))
        if logits.dim() != 2 or not index.shape == label.shape == logits.shape[:1]:
            shapes = ", ".join(str(tuple(values.shape)) for values in (index, logits, label))
            raise DataError(f"see: expected shapes (B,), (B, K) and (B,) of index, logits and label, got {shapes}")
        for name, values, size in (("index", index, self.num_rows), ("label", label, logits.shape[1])):
            if len(values) and not 0 <= int(values.min()) <= int(values.max()) < size:
                raise DataError(f"{name}: got {int(values.min())} to {int(values.max())}; expected 0 to {size - 1}")
        if not bool(torch.isfinite(logits).all()):
            raise DataError("logits: some are NaN or infinite; has training diverged?")
        return index, logits.to(device), label

    def _close(self) -> None:
        """Add the epoch to the history, if any row was seen in it."""
        if self.record is None or not self.record.has_news:
            return
        epoch = len(self.metrics) + 1
        self.record.close_epoch(epoch)
        is_known = self.record.prediction >= 0
        agrees = (self.record.prediction == self.record.given)[is_known]
        self.metrics.append({"epoch": epoch, "given_accuracy": float(agrees.double().mean())})
        self.record.open_epoch(epoch + 1)
        self._num_seen = 0
