"""Options of commands that train many runs: how many at a time, and where."""

from typing import TYPE_CHECKING, Annotated

import typer

from surelabel.errors import ConfigError

if TYPE_CHECKING:
    from surelabel.jobs import Backend

Workers = Annotated[int | None, typer.Option(metavar="N", min=1, help="Number of runs at a time. Default: 1")]
Ray = Annotated[
    str | None,
    typer.Option(metavar="ADDRESS", help="Train on a Ray cluster: auto, local or HOST:PORT. Default: on this machine"),
]


def make_backend(workers: int | None, ray: str | None) -> "Backend":
    """Return where many runs train: in processes on this machine, or on a Ray cluster."""
    from surelabel.jobs import LocalBackend, RayBackend

    if ray is None:
        return LocalBackend(workers or 1)
    if workers is not None:
        raise ConfigError("--workers and --ray exclude each other: a Ray cluster has its own workers")
    return RayBackend(ray)
