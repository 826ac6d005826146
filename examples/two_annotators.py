"""Decide on the suspects of a run as two people would, through the review server.

    python examples/dirty_folder.py dirty --count 400
    surelabel fit dirty --epochs 30 --out runs/dirty
    python examples/two_annotators.py runs/dirty dirty-truth.csv

Ann and Ben each decide on the first suspects by the true class, which FOLDER-truth.csv lists. Each
of them is careless now and then, in different rows, and keeps the given label.
"""

import argparse
import csv
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any


class Reviewer:
    """Sends what the review page sends."""

    def __init__(self, address: str) -> None:
        self.host, self.key = re.fullmatch(r"http://([\d.:]+)/#key=(\S+)", address).groups()

    def send(self, verb: str, path: str, body: Any = None) -> str:
        """Send a request, and return the text of the answer."""
        connection = HTTPConnection(self.host)
        headers = {"x-surelabel-key": self.key, "content-type": "application/json"}
        connection.request(verb, path, None if body is None else json.dumps(body), headers)
        answer = connection.getresponse()
        text = answer.read().decode()
        if answer.status != 200:
            raise SystemExit(f"{path}: {answer.status} {text}")
        return text

    def decide(self, truth: dict[str, str], count: int, is_careless: Any) -> None:
        """Decide on the first suspects by the truth, except where this person is careless."""
        rows = json.loads(self.send("GET", f"/api/rows?low=0&count={count}"))["rows"]
        for number, row in enumerate(rows):
            label = row["given"] if is_careless(number) else truth[row["id"]]
            action = {"action": "keep"} if label == row["given"] else {"action": "relabel", "label": label}
            decision = {"id": row["id"], "seen": row["seen"], **action}
            self.send("POST", "/api/decisions", {"decisions": [decision]})  # one by one: each was looked at


@contextmanager
def open_page(run: Path, annotator: str) -> Iterator[Reviewer]:
    """Start `surelabel review RUN --annotator NAME`, and end it."""
    command = [sys.executable, "-u", "-m", "surelabel", "review", str(run), "--annotator", annotator, "--no-open"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        try:
            yield Reviewer(server.stdout.readline().strip())
        finally:
            server.terminate()


def main() -> None:
    """Let Ann and Ben decide, and say what they did."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("truth", type=Path, help="csv with the columns id and label")
    parser.add_argument("--count", type=int, default=40, help="number of suspects")
    options = parser.parse_args()
    with options.truth.open(newline="") as file:
        truth = {row["id"]: row["label"] for row in csv.DictReader(file)}
    habits = {"ann": lambda number: number % 20 == 7, "ben": lambda number: number % 10 == 3}
    for name, is_careless in habits.items():
        with open_page(options.run, name) as reviewer:
            reviewer.decide(truth, options.count, is_careless)
        print(f"{name} decided on {options.count} labels")


if __name__ == "__main__":
    main()
