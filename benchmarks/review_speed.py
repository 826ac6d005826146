"""Measure how long the review page waits for a decision, by the length of the journal.

    python benchmarks/review_speed.py

A run of made-up verdicts is reviewed. For each number of decisions in the journal, the script
times what the server does for a decision (on disk before the answer), for undoing it, for the
counts and P(wrong) that the page asks for after each, and for loading the page: medians in
milliseconds. P(wrong) is updated in the background after decisions; the last columns are the time
of one update, and that of a decision while updates are running.
"""

import argparse
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from review_loop import make_run

from surelabel.data.corpus import Corpus, Examples
from surelabel.reviewing.inputs import FeatureTable
from surelabel.reviewing.live import LiveAudit
from surelabel.reviewing.review import DecisionsRequest, PageFilter, ProgressFilter, Review
from surelabel.reviewing.suspects import Suspects
from surelabel.runs.decisions import FILE_NAME, Journal, Wish
from surelabel.runs.run_dir import RunDir
from surelabel.verdicts.audit import Auditor

COLUMNS = ("decide", "undo", "progress", "rows", "open", "update", "decide during updates")

seen: dict[str, int] = {}
"""The last journal entry about each row that was decided on here, as the page keeps it."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--decisions", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    parser.add_argument("--rows", type=int, default=120_000)
    parser.add_argument("--repeats", type=int, default=30)
    options = parser.parse_args()
    print(f"| decisions | {' | '.join(COLUMNS)} |")
    print("|---" * (len(COLUMNS) + 1) + "|")
    with tempfile.TemporaryDirectory() as folder:
        run = make_run("well calibrated", 0, Path(folder) / "run", options.rows)
        for count in options.decisions:
            fill(Journal(run.path / FILE_NAME), run, count)
            times = measure(open_review(run), options.repeats)
            print(f"| {count:,} | {' | '.join(f'{1000 * value:.2f}' for value in times)} |", flush=True)


def fill(journal: Journal, run: RunDir, count: int) -> None:
    """Decide on more rows until there are `count` decisions."""
    names, labels = run.data()["class_names"], run.labels()
    ids, given = labels["id"].to_pylist(), labels["given"].to_pylist()
    held = journal.decisions()
    wishes = [Wish(ids[row], names[given[row]], "keep") for row in range(count) if ids[row] not in held]
    for start in range(0, len(wishes), 1000):
        journal.append(wishes[start : start + 1000])


def open_review(run: RunDir) -> Review:
    """Open a run for review on features that mean nothing."""
    labels, names = run.labels(), tuple(run.data()["class_names"])
    given = torch.from_numpy(labels["given"].to_numpy().astype(np.int64))
    train = Examples(torch.zeros(len(given), 4), given, np.array(labels["id"].to_pylist()))
    live = LiveAudit(Auditor(run), Journal(run.path / FILE_NAME))
    return Review(run, Suspects(live.audit, Corpus(train, names)), live, FeatureTable(train, len(names)))


def measure(review: Review, repeats: int) -> list[float]:
    """Return the median time of each request in seconds, in the order of COLUMNS."""
    review.live.notify = lambda: None  # updates are measured on their own
    open_rows = sorted(review.suspects.ids, key=int)[-repeats:]  # `fill` takes the first ones
    kept = [timed(lambda id=id: decide(review, id, "keep")) for id in open_rows]
    undone = [timed(lambda id=id: decide(review, id, "undo")) for id in open_rows]
    requests: list[Callable[[], Any]] = [
        lambda: review.progress(ProgressFilter(numbers=",".join(map(str, range(200))))),
        lambda: review.rows(PageFilter()),
        review.run,
    ]
    others = [[timed(request) for _ in range(repeats)] for request in requests]
    updates, busy = [], []
    for id in open_rows[:5]:
        decide(review, id, "keep")
        update = threading.Thread(target=lambda: updates.append(timed(review.live.refresh)))
        update.start()
        while update.is_alive():
            busy.append(timed(lambda id=id: decide(review, id, "relabel", "1")))
            time.sleep(0.02)
    return [median(times) for times in (kept, undone, *others, updates, busy)]


def decide(review: Review, id: str, action: str, label: str | None = None) -> None:
    """Decide on a row that only this script decides on."""
    decision = {"id": id, "action": action, "label": label, "seen": seen.get(id, 0)}
    seen[id] = review.decide(DecisionsRequest(decisions=[decision]))["rows"][0]["seen"]


def timed(work: Callable[[], Any]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
