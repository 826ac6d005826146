"""The review page: a person goes through suspicious labels in a browser and decides on each.

`runs/decisions.py` keeps the decisions; its names are repeated here for users of the library.
"""

from surelabel.runs.decisions import Conflict, Decision, Journal

__all__ = ["Conflict", "Decision", "Journal"]
