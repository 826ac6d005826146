"""The HTML report: what one or more runs found, in a single file that needs nothing else."""

from surelabel.reporting.other_scores import read_scores
from surelabel.reporting.report import write_report

__all__ = ["read_scores", "write_report"]
