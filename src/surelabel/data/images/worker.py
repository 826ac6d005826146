"""Decode a batch of images, and the program of the processes that do it.

It needs no PyTorch, so that a process starts in a fraction of a second and takes 30 MB.
"""

import os
import pickle
import signal
import sys
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from surelabel.data.images.decode import Unreadable, decode, decode_frame
from surelabel.data.images.encode import Encoded
from surelabel.data.images.windows import Request, cut_windows
from surelabel.errors import DataError

if TYPE_CHECKING:
    from surelabel.data.inputs import Shape


class Job(NamedTuple):
    """Images to decode together."""

    encoded: Encoded
    """B images."""
    shape: "Shape"
    """(C, H, W) that images are resized to cover."""
    request: Request
    """The windows; its positions are those that the images had in a larger set."""
    is_framed: bool
    """Whether whole images, too, are the middle of a frame that is not cut to `shape`."""

    def decode(self, row: int) -> np.ndarray:
        """Decode the windows (n, C, h, w) uint8 of an image; one that is unreadable is named."""
        try:
            if self.request.side is None and not self.is_framed:
                return decode(self.encoded, row, self.shape)[None]
            frame = decode_frame(self.encoded, row, self.shape)
            return cut_windows(frame, self.request, row, self.request.size(self.shape))
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
