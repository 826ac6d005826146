"""The server of the review page: on this machine only, for whoever has the token."""

import contextlib
import getpass
import socket
from collections.abc import Callable
from typing import Any

import numpy as np
import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from starlette.types import ASGIApp

from surelabel.data.corpus import Corpus
from surelabel.errors import ConfigError, RunError, SurelabelError
from surelabel.reviewing.assets import Assets
from surelabel.reviewing.guard import HOST, Access, Guard
from surelabel.reviewing.inputs import Values
from surelabel.reviewing.review import CSV_NAME, Review, write_csv
from surelabel.reviewing.suspects import Suspects
from surelabel.runs.decisions import FILE_NAME, Journal
from surelabel.runs.run_dir import RunDir
from surelabel.verdicts import Audit

STOP_SECONDS = 2
"""How long answers under way may take after Ctrl-C."""


def serve(
    run_dir: RunDir,
    corpus: Corpus,
    audit: Audit,
    port: int = 0,
    *,
    ready: Callable[[str], None],
    by: str | None = None,
) -> Journal:
    """Serve the page until Ctrl-C, then write RUN/decisions.csv; `ready` gets the address, port 0 takes a free one.

    `by` is the name that decisions carry; None is that of the system's user.
    """
    with contextlib.closing(_bound(port)) as listener:
        access = Access(listener.getsockname()[1])
        review = make_review(run_dir, corpus, audit, access.key, by or _user())
        review.journal.book()  # a damaged journal is an error now, not at the first decision
        config = uvicorn.Config(
            make_app(review, access),
            log_level="warning",
            access_log=False,  # it would write the token
            ws="none",
            proxy_headers=False,
            lifespan="off",
            server_header=False,
            timeout_graceful_shutdown=STOP_SECONDS,
        )
        ready(access.address)
        with contextlib.suppress(KeyboardInterrupt):
            uvicorn.Server(config).run(sockets=[listener])
    if review.journal.decisions() or (run_dir.path / CSV_NAME).exists():  # which may hold what was taken back since
        write_csv(run_dir, review.journal)
    return review.journal


def make_review(run_dir: RunDir, corpus: Corpus, audit: Audit, key: str, by: str = "person") -> Review:
    """A run, opened with the data that it was trained on."""
    if corpus.fingerprint() != run_dir.data()["fingerprint"]:
        raise RunError(
            f"{run_dir.path}: the data have changed since this run was trained; review a run on today's data"
        )
    suspects = Suspects(audit, corpus, _probability(run_dir, corpus))
    values = None if corpus.train.is_image else Values(corpus.train, corpus.num_classes, corpus.feature_names)
    return Review(run_dir, suspects, Journal(run_dir.path / FILE_NAME, by), values, key)


def make_app(review: Review, access: Access) -> ASGIApp:
    """The addresses, behind the guard."""
    app, assets = FastAPI(docs_url=None, redoc_url=None, openapi_url=None), Assets()
    reading: dict[str, Callable[..., Any]] = {
        "/": assets.index,
        "/page/{name}": assets.file,
        "/image/{split}/{position}": review.image,
        "/api/run": review.run,
        "/api/rows": review.rows,
        "/api/progress": review.progress,
        "/api/values/{split}/{position}": review.row_values,
    }
    for address, answer in reading.items():
        app.add_api_route(address, answer, methods=["GET"], response_model=None)
    writing: dict[str, Callable[..., Any]] = {"/api/decisions": review.decide, "/api/export": review.export}
    for address, answer in writing.items():
        app.add_api_route(address, answer, methods=["POST"], response_model=None)
    app.add_exception_handler(SurelabelError, _refused)
    app.add_exception_handler(OSError, _failed)
    return Guard(app, access)


def _refused(_: Request, error: Exception) -> JSONResponse:
    return JSONResponse({"error": str(error)}, 400)


def _failed(_: Request, error: Exception) -> JSONResponse:
    """The disk is full, or the folder is not ours: nothing was saved, and the person must know."""
    return JSONResponse({"error": str(error)}, 500)


def _probability(run_dir: RunDir, corpus: Corpus) -> np.ndarray | None:
    """(N, K) as the network left it, of training rows and then held-out ones; None where they were not kept."""
    samples = run_dir.samples()
    parts = [rows for rows in (corpus.train, corpus.validation) if rows is not None]
    if samples["id"].to_pylist() != [str(id) for rows in parts for id in rows.ids]:
        raise RunError(f"{run_dir.path}: samples.parquet is not in the order of the data")
    if "probability" not in samples.column_names:
        return None
    return samples["probability"].combine_chunks().flatten().to_numpy().reshape(len(samples), -1)


def _bound(port: int) -> socket.socket:
    """A socket that only this machine can reach."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((HOST, port))
        listener.listen()  # whoever opens the address at once waits for the server instead of being refused
    except (OSError, OverflowError) as error:
        listener.close()
        raise ConfigError(f"--port {port}: {getattr(error, 'strerror', None) or error}; 0 takes a free one") from None
    return listener


def _user() -> str:
    """The name of who sits here, as far as the system knows it."""
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):
        return "person"
