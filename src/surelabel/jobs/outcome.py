"""What became of many trials."""

from dataclasses import dataclass, field


@dataclass
class Outcome:
    """Names of the trials: trained now, done before, and failed with their reasons."""

    done: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)

    @property
    def is_complete(self) -> bool:
        """Whether every trial has its finished run."""
        return not self.failed
