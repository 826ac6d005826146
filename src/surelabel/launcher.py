"""Which of several processes this one is: nobody, torchrun or surelabel itself has started it.

Only this module reads the variables by which a launcher tells its processes who they are. They may
be left over from another program: a process that no launcher has started is the only one, and a
variable that says otherwise is an error before anything is written. The variables of SLURM, MPI
and others are ignored: start torchrun there, or use --devices.
"""

import functools
import os
import socket
from collections.abc import Mapping

from surelabel.errors import ConfigError

RANKS = {"RANK": "WORLD_SIZE", "LOCAL_RANK": "LOCAL_WORLD_SIZE"}
"""Numbers of a process, and how many processes there are."""
ADDRESS, PORT = "MASTER_ADDR", "MASTER_PORT"
OTHERS = ("GROUP_RANK", "NODE_RANK")
"""Further variables that libraries read; they are 0 in a process that no launcher has started."""
TORCHRUN, AGENT_STORE = "TORCHELASTIC_RUN_ID", "TORCHELASTIC_USE_AGENT_STORE"
PARENT = "SURELABEL_PARENT"
"""The number of the process that has started this one to train with it."""
VARIABLES = (*RANKS, *RANKS.values(), ADDRESS, PORT, *OTHERS, TORCHRUN, AGENT_STORE, PARENT)
ANSWER_SECONDS = 10.0
"""How long a launcher may take to answer."""


def started_as() -> tuple[int, int, int]:
    """Return rank, number of processes, and of those on this machine; raise if they do not fit."""
    found = _found()
    if isinstance(found, ConfigError):
        raise found
    return found


def has_nonzero_rank() -> bool:
    """Return whether this process has a non-zero rank: rank 0 prints and writes for all."""
    found = _found()
    return not isinstance(found, ConfigError) and found[0] > 0


def without_launcher(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a process that is not one of several."""
    return {name: value for name, value in environment.items() if name not in VARIABLES}


@functools.cache
def _found() -> tuple[int, int, int] | ConfigError:
    """Read the variables once: processes that train together change them later."""
    try:
        if TORCHRUN in os.environ or os.environ.get(PARENT) == str(os.getppid()):
            return _read_all()
        _check_alone()
    except ConfigError as error:
        return error
    return 0, 1, 1


def _check_alone() -> None:
    """Raise if a variable says that this is one of several processes."""
    expected = dict.fromkeys((*RANKS, *OTHERS), "0") | dict.fromkeys(RANKS.values(), "1")
    for name, value in expected.items():
        if os.environ.get(name, value).strip() != value:
            raise _misfit(name, "is set, and no launcher has started this process")


def _read_all() -> tuple[int, int, int]:
    """Return what a launcher has set, if all of it fits together."""
    (rank, count), (local_rank, local_count) = (
        (_number(name), _number(total, least=1)) for name, total in RANKS.items()
    )
    for name, total in RANKS.items():
        if _number(name) >= _number(total):
            raise _misfit(name, f"does not fit {total}={os.environ[total]}")
    if count % local_count or rank % local_count != local_rank:
        raise _misfit("LOCAL_RANK", f"does not fit RANK={rank}, WORLD_SIZE={count} and LOCAL_WORLD_SIZE={local_count}")
    if count > 1:
        _find_launcher()
    return rank, count, local_count


def _find_launcher() -> None:
    """Raise if no launcher answers where processes of torchrun meet: it has ended."""
    if not os.environ.get(ADDRESS):
        raise _misfit(ADDRESS, "is missing")
    if _number(PORT, least=1) > 65535:
        raise _misfit(PORT, "is not a port")
    if TORCHRUN in os.environ and AGENT_STORE not in os.environ:  # torchrun sets both
        raise _misfit(TORCHRUN, "is set, and torchrun has not started this process")
    if os.environ.get(AGENT_STORE) != "True":  # the first process answers, once it trains
        return
    try:
        socket.create_connection((os.environ[ADDRESS], _number(PORT)), ANSWER_SECONDS).close()
    except OSError:
        raise _misfit(PORT, f"is set, and no launcher answers at {os.environ[ADDRESS]}") from None


def _number(name: str, least: int = 0) -> int:
    text = os.environ.get(name, "")
    if not (text.isascii() and text.isdigit() and int(text) >= least):
        raise _misfit(name, f"does not fit: expected a number from {least}" if text else "is missing")
    return int(text)


def _misfit(name: str, problem: str) -> ConfigError:
    shown = f"{name}={os.environ[name]}" if name in os.environ else name
    known = [other for other in VARIABLES if other in os.environ]
    return ConfigError(
        f"{shown} {problem}; to train in one process: unset {' '.join(known)}; in several: use --devices or torchrun"
    )
