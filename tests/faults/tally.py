"""Count what a part of the campaign has tried, and keep what went wrong."""

import sys
from dataclasses import dataclass, field
from pathlib import Path
from random import Random


@dataclass
class Tally:
    """The row of a part in the table."""

    part: str
    planned: int = 0
    right: int = 0
    wrong: list[str] = field(default_factory=list)
    """What went wrong, with enough to repeat it."""
    not_run: list[str] = field(default_factory=list)
    """What could not be tried here, and why."""

    @property
    def tried(self) -> int:
        """How many cases have been judged."""
        return self.right + len(self.wrong)

    def judge(self, case: str, fault: str | None) -> None:
        """Count a case: right without a fault, else wrong."""
        if fault is None:
            self.right += 1
        else:
            self.wrong.append(f"{case}: {fault}")
            _show(f"\nwrong: {self.part}: {self.wrong[-1]}\n")
        _show(f"\r{self.part}: {self.tried}/{self.planned or '?'} tried, {len(self.wrong)} wrong ")

    def leave_out(self, case: str, reason: str) -> None:
        """Count a case that cannot be tried here."""
        self.not_run.append(f"{case}: {reason}")


@dataclass(frozen=True)
class Options:
    """What a part needs to know."""

    seed: int
    count: int | None
    """Cases to try; None is the part's usual number."""
    folder: Path
    """A new folder for the part's files."""

    def random(self, *names: object) -> Random:
        """Return a generator that depends on the seed and on names only."""
        return Random(repr((self.seed, *names)))


def _show(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()
