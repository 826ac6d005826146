"""The review page: a person goes through suspicious labels in a browser, and every decision goes to a journal."""

from surelabel.runs.decisions import Conflict, Decision, Journal

__all__ = ["Conflict", "Decision", "Journal"]
