"""The HTML report: what one or more runs found, in a single file that needs nothing else."""

from surelabel.reporting.report import write_report
from surelabel.reporting.scores import read_scores

__all__ = ["read_scores", "write_report"]
