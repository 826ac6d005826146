"""Audit a run again while it is reviewed, in the background, so that no request waits for it."""

import threading
import time
from collections.abc import Callable

from surelabel.runs.decisions import Journal
from surelabel.verdicts import Audit
from surelabel.verdicts.audit import Auditor

PAUSE = 0.3
"""Seconds to wait for more decisions before an audit."""


class LiveAudit:
    """The newest audit of a run."""

    def __init__(self, auditor: Auditor, journal: Journal) -> None:
        self.auditor, self.journal = auditor, journal
        self.changed: Callable[[Audit], None] = lambda _: None
        """Called with each audit after the first."""
        self._mutex, self._auditing = threading.Lock(), threading.Lock()
        self._audit_now()
        self._is_running = self._is_stale = False

    @property
    def is_pending(self) -> bool:
        """Whether a newer audit is on its way."""
        return self._is_running or self._is_stale

    def look(self) -> None:
        """Audit if somebody else has written decisions since the last audit; returns at once."""
        if self._stamp() != self._audited:
            self.notify()

    def notify(self) -> None:
        """Say that decisions were made; returns at once."""
        with self._mutex:
            self._is_stale = True
            if self._is_running:
                return
            self._is_running = True
        threading.Thread(target=self._run, daemon=True).start()

    def refresh(self) -> None:
        """Audit now."""
        with self._auditing:
            self._audit_now()
            self.changed(self.audit)

    def _stamp(self) -> tuple[int, int] | None:
        """Return time and size of the journal, which grows with every decision."""
        try:
            found = self.journal.path.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size

    def _audit_now(self) -> None:
        self._audited = self._stamp()
        self.audit = self.auditor.audit(self.journal)
        # Here, not in a request: these count over all rows.
        self.estimate, self.warnings = self.audit.sentences()[0], self.audit.warnings
        self.can_tell, self.worth_a_look = self.audit.can_tell, self.audit.worth_a_look.budget
        p_wrong = self.audit.columns["p_wrong"]
        self.lengths = [{**plan.to_dict(), "p_wrong": float(p_wrong[plan.budget - 1])} for plan in self.audit.budgets()]
        """What to expect of lists of several lengths, with P(wrong) of the last label of each."""

    @property
    def least_p_wrong(self) -> float:
        """P(wrong) of the last label that is worth a look."""
        found = (one["p_wrong"] for one in self.lengths if one["budget"] == self.worth_a_look)
        return next(found, self.audit.min_probability)

    def _run(self) -> None:
        """Audit until nothing is new; rest as long as an audit takes, for the sake of requests."""
        try:
            while self._take():
                time.sleep(PAUSE)
                began = time.perf_counter()
                self.refresh()
                if self._is_stale:
                    time.sleep(time.perf_counter() - began)
        finally:
            self._is_running = False

    def _take(self) -> bool:
        with self._mutex:
            stale, self._is_stale = self._is_stale, False
            if not stale:
                self._is_running = False
            return stale
