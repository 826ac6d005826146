"""How training is shown: bars on a terminal, plain lines elsewhere, or nothing."""

import time
from typing import Any


class Silent:
    """Shows nothing."""

    title = ""

    def begin(self, num_epochs: int, done: int) -> None:
        """Nothing."""

    def step(self, epoch: int, batch: int, num_batches: int, loss: float) -> None:
        """Nothing."""

    def epoch(self, row: dict[str, Any]) -> None:
        """Nothing."""

    def warn(self, text: str) -> None:
        """Nothing."""


def accuracy_text(row: dict[str, Any]) -> str:
    """The accuracy to show for an epoch: the first test set's, else how far the given labels are predicted."""
    for measured in (row.get("tests") or {}).values():
        return f"test accuracy {measured['top1']:.3f}"
    return f"given labels predicted {row['given_accuracy']:.3f}" if "given_accuracy" in row else "accuracy -"


class Plain(Silent):
    """A line every now and then, for logs and pipes."""

    def __init__(self, write: Any, every: float = 5.0, title: str = "") -> None:
        self.write, self.every, self.title = write, every, title
        self.num_epochs, self.began, self.first, self.shown = 0, 0.0, 0, 0.0
        self.said: set[str] = set()

    def begin(self, num_epochs: int, done: int) -> None:
        """Remember where the clock starts."""
        self.num_epochs, self.first, self.began, self.shown = num_epochs, done, time.monotonic(), time.monotonic()

    def epoch(self, row: dict[str, Any]) -> None:
        """One line, if the last is long enough ago or this is the end."""
        now, done = time.monotonic(), row["epoch"]
        if now - self.shown < self.every and done < self.num_epochs:
            return
        self.shown = now
        left = (now - self.began) / max(done - self.first, 1) * max(self.num_epochs - done, 0)
        title = f"{self.title}  " if self.title else ""
        self.write(
            f"{title}epoch {done}/{self.num_epochs}  loss {row['loss']:.4f}  {accuracy_text(row)}  "
            f"{row['samples_per_second']:,.0f} samples/s  {left:.0f} s left"
        )

    def warn(self, text: str) -> None:
        """One line, once, however many runs are shown."""
        if text not in self.said:
            self.said.add(text)
            self.write(f"note: {text}")


class Bars(Silent):
    """A rich progress bar over epochs and batches."""

    def __init__(self, console: Any, title: str = "training") -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        self.bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("loss {task.fields[loss]:.3f}  {task.fields[accuracy]}  {task.fields[speed]}/s"),
            TimeRemainingColumn(),
            console=console,
        )
        self.title = title
        self.task: Any = None
        self.said: set[str] = set()

    def __enter__(self) -> "Bars":
        self.bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.bar.stop()

    def begin(self, num_epochs: int, done: int) -> None:
        """A bar of that many epochs."""
        self.task = self.bar.add_task(
            self.title, total=num_epochs, completed=done, loss=float("nan"), accuracy="accuracy -", speed="-"
        )

    def step(self, epoch: int, batch: int, num_batches: int, loss: float) -> None:
        """A fraction of an epoch."""
        if self.task is not None and batch % max(1, num_batches // 20) == 0:
            self.bar.update(self.task, completed=epoch - 1 + batch / num_batches, loss=loss)

    def epoch(self, row: dict[str, Any]) -> None:
        """A whole epoch with its figures."""
        if self.task is not None:
            self.bar.update(
                self.task,
                completed=row["epoch"],
                loss=row["loss"],
                accuracy=accuracy_text(row),
                speed=f"{row['samples_per_second']:,.0f}",
            )

    def warn(self, text: str) -> None:
        """A line above the bar, once, however many runs are shown."""
        if text not in self.said:
            self.said.add(text)
            self.bar.console.print(f"note: {text}", highlight=False, markup=False)
