"""One run as the report sees it: its directory, its audit, and its data if they are still there."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from surelabel.config import RunConfig
from surelabel.data.corpus import Corpus, Examples
from surelabel.data.originals import Originals, find_originals
from surelabel.runs.locate import config_from_here
from surelabel.runs.run_dir import RunDir
from surelabel.verdicts import Audit

MIN_TAU_SPREAD = 0.05
"""Figures show tau only if its 2 % and 98 % quantiles are at least this far apart."""


@dataclass(frozen=True)
class ReportedRun:
    """A finished run with everything the report derives from it."""

    run_dir: RunDir
    corpus: Corpus | None
    """None if the data could not be read again."""
    audit: Audit
    number: int
    """Position in the report, from 1."""
    name: str

    @property
    def anchor(self) -> str:
        """Prefix of the ids of its headings in the page."""
        return f"run{self.number}"

    @property
    def columns(self) -> dict[str, np.ndarray]:
        """Columns of the ranked table, the most suspicious label first."""
        return self.audit.columns

    @property
    def class_names(self) -> tuple[str, ...]:
        """Names of the K classes."""
        return self.audit.class_names

    @cached_property
    def config(self) -> RunConfig:
        """Settings of the run."""
        return self.run_dir.config()

    @cached_property
    def metrics(self) -> list[dict[str, Any]]:
        """One mapping per epoch."""
        return self.run_dir.metrics()

    @cached_property
    def is_suspicious(self) -> np.ndarray:
        """(N,) bool: labels that look wrong, in the order of the table."""
        return self.audit.ranked(self.audit.is_suspicious)

    @property
    def num_suspicious(self) -> int:
        """Number of labels that look wrong."""
        return int(self.is_suspicious.sum())

    @cached_property
    def is_wrong(self) -> np.ndarray | None:
        """(N,) bool, or None if clean labels are not known."""
        return self.columns["given"] != self.columns["clean"] if "clean" in self.columns else None

    def class_numbers(self, column: str) -> np.ndarray:
        """Return the class names of a column as class numbers (N,)."""
        number_of = {name: number for number, name in enumerate(self.class_names)}
        return np.array([number_of[str(name)] for name in self.columns[column]], dtype=np.int64)

    @cached_property
    def confidence(self) -> tuple[str, np.ndarray]:
        """Name and values (N,) of the quantity to plot: tau, or label quality if tau is flat."""
        tau = self.columns["tau"].astype(np.float64)
        return ("label quality", self.columns["quality"]) if self.is_tau_flat else ("confidence tau", tau)

    @cached_property
    def is_tau_flat(self) -> bool:
        """Whether tau is missing or nearly the same for all labels, as at the end of a long run."""
        known = self.columns["tau"][np.isfinite(self.columns["tau"])]
        return not len(known) or float(np.ptp(np.quantile(known, (0.02, 0.98)))) < MIN_TAU_SPREAD

    def find_originals(self) -> Originals | None:
        """Return the original images; None if the data could not be read again, or have none."""
        return None if self.corpus is None else find_originals(config_from_here(self.run_dir).data, self.corpus)

    @cached_property
    def positions(self) -> dict[tuple[str, str], int]:
        """Position of each row within its split, by split and id."""
        return {(split, str(id)): at for split, rows in self.splits.items() for at, id in enumerate(rows.ids)}

    @cached_property
    def splits(self) -> dict[str, Examples]:
        """Training and held-out rows; empty if the data could not be read again."""
        if self.corpus is None:
            return {}
        held_out = self.corpus.validation
        return {"train": self.corpus.train} | ({} if held_out is None else {"validation": held_out})

    def locate(self, rows: list[int]) -> dict[str, dict[int, int]]:
        """Return where the inputs of rows of the audit are: position in its split, by split."""
        ids, split_of = self.columns["id"], self.columns["split"]
        found: dict[str, dict[int, int]] = {}
        for row in rows:
            key = str(split_of[row]), str(ids[row])
            if key in self.positions:
                found.setdefault(key[0], {})[row] = self.positions[key]
        return found
