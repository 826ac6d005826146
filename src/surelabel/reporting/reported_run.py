"""What the report knows of one run: its files, its data where they can be read again, and its verdict."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from surelabel.config import RunConfig
from surelabel.data.corpus import Corpus, Examples
from surelabel.runs.run_dir import RunDir
from surelabel.verdicts import Audit

LEAST_SPREAD = 0.05
"""Between the lowest and the highest tau, without 2 % at each end, from which on it is worth a figure."""


@dataclass(frozen=True)
class ReportedRun:
    """One run."""

    run: RunDir
    corpus: Corpus | None
    audit: Audit
    number: int
    name: str

    @property
    def anchor(self) -> str:
        """What its address in the page begins with."""
        return f"run{self.number}"

    @property
    def columns(self) -> dict[str, np.ndarray]:
        """The ranked table, the most suspicious label first."""
        return self.audit.columns

    @property
    def class_names(self) -> tuple[str, ...]:
        """The names of the K classes."""
        return self.audit.class_names

    @cached_property
    def config(self) -> RunConfig:
        """Settings."""
        return self.run.config()

    @cached_property
    def metrics(self) -> list[dict[str, Any]]:
        """One mapping per epoch."""
        return self.run.metrics()

    @cached_property
    def flagged(self) -> np.ndarray:
        """(N,) bool: labels that look wrong."""
        return self.audit.is_suspicious

    @property
    def num_flagged(self) -> int:
        """How many."""
        return int(self.flagged.sum())

    @cached_property
    def is_wrong(self) -> np.ndarray | None:
        """(N,) bool where clean labels are known."""
        return self.columns["given"] != self.columns["clean"] if "clean" in self.columns else None

    def codes(self, column: str) -> np.ndarray:
        """(N,) class numbers of a column of class names."""
        number = {name: at for at, name in enumerate(self.class_names)}
        return np.array([number[str(name)] for name in self.columns[column]], dtype=np.int64)

    @cached_property
    def confidence(self) -> tuple[str, np.ndarray]:
        """What tells labels apart, and its values (N,): tau, or the label's quality where tau does not (any more)."""
        tau = self.columns["tau"].astype(np.float64)
        return ("label quality", self.columns["quality"]) if self.is_tau_flat else ("confidence tau", tau)

    @cached_property
    def is_tau_flat(self) -> bool:
        """Whether the method has no tau, or one that is the same for nearly all labels, as after a long run."""
        known = self.columns["tau"][np.isfinite(self.columns["tau"])]
        return not len(known) or float(np.ptp(np.quantile(known, (0.02, 0.98)))) < LEAST_SPREAD

    @cached_property
    def places(self) -> dict[tuple[str, str], int]:
        """Positions of rows in their part, by part and id."""
        return {(part, str(id)): at for part, rows in self.parts.items() for at, id in enumerate(rows.ids)}

    @cached_property
    def parts(self) -> dict[str, Examples]:
        """Training and held-out rows; none where the data could not be read again."""
        if self.corpus is None:
            return {}
        held_out = self.corpus.validation
        return {"train": self.corpus.train} | ({} if held_out is None else {"validation": held_out})
