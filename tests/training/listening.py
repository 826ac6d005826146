"""A progress display that keeps what it is told."""

from surelabel.console import Silent


class Listener(Silent):
    """Keeps the messages, and stops a run after some steps."""

    def __init__(self, stop_after=None):
        self.said, self.steps, self.stop_after = [], 0, stop_after

    def step(self, *_):
        self.steps += 1

    def warn(self, text):
        self.said.append(text)

    def interrupt(self):
        return self.steps == self.stop_after
