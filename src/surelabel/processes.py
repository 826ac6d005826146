"""What a process knows of its fellows before anything heavy is loaded."""

import os


def is_further_process() -> bool:
    """Whether a launcher started this process beside a first one, which does the talking and the writing."""
    return int(os.environ.get("RANK", os.environ.get("LOCAL_RANK", "0"))) > 0
