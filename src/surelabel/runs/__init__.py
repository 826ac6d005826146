"""Run directories: the files of a run, the location of its data, and the decisions of people."""

from surelabel.runs.run_dir import RunDir

__all__ = ["RunDir"]
