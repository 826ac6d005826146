"""The vocabulary every method and the engine share."""

from surelabel.core.batch import Batch, Outputs
from surelabel.core.collective import gathered, own_rows, rank, total, world_size
from surelabel.core.method import Method, Record, Run, Step, Task
from surelabel.core.stages import Clock, Pass, Stage, View
from surelabel.core.state import EMA, SampleStore

__all__ = [
    "EMA",
    "Batch",
    "Clock",
    "Method",
    "Outputs",
    "Pass",
    "Record",
    "Run",
    "SampleStore",
    "Stage",
    "Step",
    "Task",
    "View",
    "gathered",
    "own_rows",
    "rank",
    "total",
    "world_size",
]
