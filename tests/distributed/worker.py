"""A process of the distributed tests: runs the jobs of a JSON file one after the other."""

import contextlib
import itertools
import json
import sys
from pathlib import Path


def main(jobs_file: str) -> None:
    """Run jobs of the form {"do": "fit" | "resume", "out", "config", "stop_after": steps}."""
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
