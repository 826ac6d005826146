"""Run directories: what training writes, where its data lie, and what people decided about it."""

from surelabel.runs.run_dir import RunDir

__all__ = ["RunDir"]
