"""What each of two processes does in the distributed tests: run jobs from a JSON file, one after the other."""

import contextlib
import itertools
import json
import sys
from pathlib import Path


def main(jobs_file: str) -> None:
    """Each job: {"do": "fit" | "resume", "out": folder, "config": mapping, "stop_after": steps or null}."""
    from surelabel.api import Interrupted, fit, resume

    for job in json.loads(Path(jobs_file).read_text()):
        steps = itertools.count(1)
        stop_after = job.get("stop_after")

        def interrupt(steps=steps, stop_after=stop_after):
            return next(steps) == stop_after

        with contextlib.suppress(Interrupted):
            if job["do"] == "fit":
                fit(job["config"], job["out"], interrupt=interrupt)
            else:
                resume(job["out"], interrupt=interrupt)


if __name__ == "__main__":
    main(sys.argv[1])
