"""What makes a table: its trials, which words of a cell are rows and columns, what is measured, and by which rules it is chosen."""

from collections.abc import Callable
from dataclasses import dataclass

from surelabel.jobs.trial import Trial
from surelabel.paper.tables.plan import Plan
from surelabel.paper.tables.scales import SCALES

LAST, BEST_VALIDATION, BEST_TEST, BEST_CLEAN_VALIDATION = (
    "last",
    "best_validation",
    "best_test",
    "best_clean_validation",
)
RULES = {
    LAST: "last epoch",
    BEST_VALIDATION: "best epoch by noisy validation",
    BEST_TEST: "best epoch by test (oracle)",
    BEST_CLEAN_VALIDATION: "best epoch by clean validation",
}
"""How the epoch is chosen whose number a table shows. Choosing by the test set itself is an oracle: nobody has it."""


@dataclass(frozen=True)
class Measure:
    """What is read from an epoch of a run; shown in percent."""

    key: str
    """Its name in the published csv."""
    title: str
    test: str | None = "test"
    """The test set; None reads `metric` of the epoch itself."""
    metric: str = "top1"


TEST_ACCURACY = Measure("top1", "test accuracy")
CORRECTION = Measure("correction", "correction accuracy", None, "correction_accuracy")


@dataclass(frozen=True)
class Preset:
    """A table, or the runs behind a figure."""

    name: str
    title: str
    trials: Callable[[Plan], list[Trial]]
    rows: tuple[str, ...]
    """Cell keys whose values name a row; the rest name a column."""
    columns: tuple[str, ...] = ()
    measures: tuple[Measure, ...] = (TEST_ACCURACY,)
    rules: tuple[str, ...] = (LAST, BEST_VALIDATION, BEST_TEST)
    """The first is the one that the paper's number has."""
    published: str | None = None
    """Name of the csv with the published numbers; None has none."""
    scales: tuple[str, ...] = tuple(SCALES)
    protocols: tuple[str, ...] = ("car",)
