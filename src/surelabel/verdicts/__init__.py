"""Verdicts on labels: P(wrong) for every label of a finished run, and what follows from it.

`evidence` collects the evidence about each row, `calibration` its P(wrong) with bounds. `audit`
and `ranking` rank the rows; `classes`, `budget`, `corrections`, `kinds` and `measures` are their
computations. `summary` and `advice` write the sentences for people, and `gate` decides for
machines. When training ends, `probe`, `noise_model` and `judgement` make the second opinion;
without one, P(wrong) comes from `curve`, with the groups that `mixture` fits. `inspection` and
`outliers` look at the inputs.
"""

from surelabel.verdicts.audit import CONFIDENCE, SUSPICIOUS_FROM, TOO_WIDE, Audit, audit
from surelabel.verdicts.budget import Expected
from surelabel.verdicts.classes import Pair, Rate
from surelabel.verdicts.ranking import COLUMNS
from surelabel.verdicts.table import Table

__all__ = [
    "COLUMNS",
    "CONFIDENCE",
    "SUSPICIOUS_FROM",
    "TOO_WIDE",
    "Audit",
    "Expected",
    "Pair",
    "Rate",
    "Table",
    "audit",
]
