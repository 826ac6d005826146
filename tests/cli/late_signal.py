"""`surelabel` in a process whose first rank sends itself a signal when it calls a function.

    python late_signal.py '{"place": "surelabel.files:sync", "number": 15}' fit data.npz ...

The signal comes in the `call`-th call, by default the first, `times` times, to the process `rank`.
A process that goes on after it writes the file `went_on`.
"""

import importlib
import json
import os
import sys
from functools import reduce
from pathlib import Path
from typing import Any


def send_signal_in(place: str, number: int, call: int = 1, times: int = 1, rank: int = 0) -> None:
    """Replace a function by one that sends the signal first, in its `call`-th call."""
    module, _, path = place.partition(":")
    *owners, name = path.split(".")
    owner = reduce(getattr, owners, importlib.import_module(module))
    work, left = getattr(owner, name), [call]

    def interrupted(*arguments: Any, **options: Any) -> Any:
        left[0] -= 1
        if left[0] == 0 and os.environ.get("LOCAL_RANK", "0") == str(rank):
            for _ in range(times):
                os.kill(os.getpid(), number)
            Path("went_on").touch()
        return work(*arguments, **options)

    setattr(owner, name, interrupted)


if __name__ == "__main__":
    from surelabel.cli import app

    send_signal_in(**json.loads(sys.argv[1]))
    app(sys.argv[2:], prog_name="surelabel")  # further ranks are started with the same sys.argv
