"""Decode a batch of images, and the program of the processes that do it.

It needs no PyTorch, so that a process starts in a fraction of a second and takes 30 MB.
"""

import os
import pickle
import signal
import sys
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from surelabel.data.images.decode import Unreadable, decode, decode_windows
from surelabel.data.images.encode import Encoded
from surelabel.errors import DataError

if TYPE_CHECKING:
    from surelabel.data.inputs import Shape

_CENTRE = 0.5
"""Corner of the middle window, as a fraction of the free space."""


class Job(NamedTuple):
    """Images to decode together."""

    encoded: Encoded
    """B images."""
    shape: "Shape"
    """(C, H, W) that images are resized to cover."""
    side: int | None
    """Side of the window; None is the whole image."""
    places: np.ndarray | None
    """(n, B, 2) corners of n windows, in fractions of the free space; None is one in the middle."""

    def decode(self, row: int) -> np.ndarray:
        """Decode the windows (n, C, h, w) uint8 of an image; one that is unreadable is named."""
        try:
            if self.side is None:
                return decode(self.encoded, row, self.shape)[None]
            places = np.full((1, 2), _CENTRE) if self.places is None else self.places[:, row]
            return decode_windows(self.encoded, row, self.shape, self.side, places)
        except Unreadable as error:
            raise DataError(f"{self.encoded.name(row)}: {error}") from None


def serve() -> None:
    """Answer the jobs on standard input with pixels (n, B, C, h, w), until it is closed.

    Errors return as text, because a traceback would not help the user. Only the parent decides
    when to stop: signals that are sent to the whole group are ignored.
    """
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    jobs, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever a library prints is no answer
    while True:
        try:
            job: Job = pickle.load(jobs)
        except EOFError:
            return
        answer: np.ndarray | str
        try:
            answer = np.stack([job.decode(row) for row in range(len(job.encoded))], axis=1)
        except DataError as error:
            answer = str(error)
        try:
            pickle.dump(answer, answers, protocol=pickle.HIGHEST_PROTOCOL)
            answers.flush()
        except BrokenPipeError:  # the parent has been killed
            os._exit(1)
