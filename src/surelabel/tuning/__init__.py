"""Search the options of a method by held-out given labels, without clean ones."""

from surelabel.tuning.candidates import Candidate, list_candidates
from surelabel.tuning.report import list_rows, write_results
from surelabel.tuning.rungs import count_runs, plan_rungs
from surelabel.tuning.search import Result, Tuning, tune

__all__ = [
    "Candidate",
    "Result",
    "Tuning",
    "count_runs",
    "list_candidates",
    "list_rows",
    "plan_rungs",
    "tune",
    "write_results",
]
