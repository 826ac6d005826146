"""The vocabulary that methods and the engine share."""

from surelabel.core.batch import Batch, Outputs
from surelabel.core.collective import gathered, own_rows, rank, total, world_size
from surelabel.core.method import Candidates, Method, Opinion, Problem, Step, TargetTable, Task
from surelabel.core.run import Record, Rows, Run, Verdict
from surelabel.core.stages import Clock, Pass, Stage, View
from surelabel.core.state import EMA, SampleStore

__all__ = [
    "EMA",
    "Batch",
    "Candidates",
    "Clock",
    "Method",
    "Opinion",
    "Outputs",
    "Pass",
    "Problem",
    "Record",
    "Rows",
    "Run",
    "SampleStore",
    "Stage",
    "Step",
    "TargetTable",
    "Task",
    "Verdict",
    "View",
    "gathered",
    "own_rows",
    "rank",
    "total",
    "world_size",
]
