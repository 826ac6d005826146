"""Serve the review page of a run, in a process to kill: python serve_run.py RUN PORT [SECONDS].

SECONDS is how long connections may be idle and bodies may take.
"""

import sys

from surelabel.reviewing import limits
from surelabel.reviewing.server import serve
from surelabel.runs.run_dir import RunDir
from surelabel.training import build


def announce(address: str) -> None:
    sys.stdout.write(f"{address}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    if len(sys.argv) > 3:
        limits.IDLE_SECONDS = limits.BODY_SECONDS = float(sys.argv[3])
    run = RunDir.open(sys.argv[1])
    config = run.config()
    corpus, _ = build.corpus(config.data, config.noise, config.train.seed)
    serve(run, corpus, int(sys.argv[2]), ready=announce, by="tester")
