"""What is heard of a run while it trains elsewhere; plain values, because they travel between processes."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Began:
    """Training starts, or goes on after `done` epochs."""

    name: str
    num_epochs: int
    done: int
    pid: int


@dataclass(frozen=True)
class Advanced:
    """An epoch has ended; `result` is what to show of it."""

    name: str
    epoch: int
    result: str


@dataclass(frozen=True)
class Noted:
    """Something the user should know."""

    name: str
    text: str


@dataclass(frozen=True)
class Ended:
    """A run is over; without a reason it is done."""

    name: str
    reason: str | None = None
    details: str = ""
    """A traceback, where the error is nobody's fault that a user could mend."""
    is_killed: bool = False
    """Whether the process was taken from the run, which may go on in another."""


Event = Began | Advanced | Noted | Ended
