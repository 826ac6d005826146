"""Serve the review page, on this machine only and to holders of the key."""

import contextlib
import getpass
import os
import signal
import socket
import sys
import threading
import webbrowser
from collections.abc import Callable, Iterator
from importlib.resources import files
from pathlib import PurePath
from typing import Any

import uvicorn
from fastapi import FastAPI, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response

from surelabel.data.corpus import Corpus
from surelabel.data.originals import find_originals
from surelabel.errors import ConfigError, RunError, SurelabelError
from surelabel.reviewing.access import HOST, Access, Guard
from surelabel.reviewing.inputs import FeatureTable
from surelabel.reviewing.limits import MAX_HEADER_BYTES, MOST_CONNECTIONS, ASGIApp, BodyLimit, Connection
from surelabel.reviewing.live import LiveAudit
from surelabel.reviewing.review import CSV_NAME, Review, write_csv
from surelabel.reviewing.suspects import Suspects
from surelabel.runs.decisions import FILE_NAME, Journal
from surelabel.runs.locate import config_from_here
from surelabel.runs.run_dir import RunDir
from surelabel.training import pretrained
from surelabel.verdicts.audit import Auditor

MEDIA_TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
MOST_TEXT = 300
"""Characters of a message about a request that is not valid."""
MOST_NAME = 100
"""Characters of an annotator's name."""
STOP_SECONDS = 2
"""Time that requests in progress have to finish after Ctrl-C."""


def serve(
    run_dir: RunDir,
    corpus: Corpus,
    port: int = 0,
    *,
    ready: Callable[[str], None],
    by: str | None = None,
    annotator: str | None = None,
    random: int | None = None,
) -> Journal:
    """Serve the page until Ctrl-C, SIGTERM or SIGHUP, then write RUN/decisions.csv.

    `ready` is called with the address of the page; port 0 picks a free port. `by` is the name
    recorded with each decision, by default that of the system's user. `annotator` is the name of
    someone who decides independently of others. `random` draws so many labels at random, and the
    page begins with them.
    """
    if annotator is not None:
        check_name(annotator)
    with contextlib.closing(_bind(port)) as listener:
        access = Access(listener.getsockname()[1])
        who = annotator or by or find_user()
        review = make_review(run_dir, corpus, who, is_independent=annotator is not None)
        if random is not None:
            review.journal.draw(random)
            review.starts_random = True
        config = uvicorn.Config(
            make_app(review, access),
            http=Connection,
            h11_max_incomplete_event_size=MAX_HEADER_BYTES,
            backlog=MOST_CONNECTIONS,
            log_level="error",
            access_log=False,
            ws="none",
            proxy_headers=False,
            lifespan="off",
            server_header=False,
            timeout_graceful_shutdown=STOP_SECONDS,
        )
        server = uvicorn.Server(config)
        with _stopping_on_signals(server):
            ready(access.address)
            with contextlib.suppress(KeyboardInterrupt):
                server.run(sockets=[listener])
            if not run_dir.is_prepared:
                raise RunError(f"{run_dir.path}: was moved or deleted during the review")
            # An existing file may contain decisions that were undone since.
            if review.journal.decisions() or (run_dir.path / CSV_NAME).exists():
                write_csv(run_dir, review.journal)
    return review.journal


@contextlib.contextmanager
def _stopping_on_signals(server: uvicorn.Server) -> Iterator[None]:
    """Let SIGTERM and SIGHUP stop the server; uvicorn would end the process instead."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(*_: Any) -> None:
        server.should_exit = True

    ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN  # by nohup
    numbers = (signal.SIGTERM,) if ignored else (signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, stop) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def make_review(run_dir: RunDir, corpus: Corpus, by: str = "person", *, is_independent: bool = False) -> Review:
    """Open a run for review, with the data that it was trained on.

    `is_independent` is for an annotator who decides independently of others: what these decided
    would show in P(wrong) and in suggestions.
    """
    if corpus.fingerprint() != run_dir.data()["fingerprint"]:
        raise RunError(
            f"{run_dir.path}: the data have changed since this run was trained; review a run on today's data"
        )
    journal = Journal(run_dir.path / FILE_NAME, by, is_independent=is_independent)
    live = LiveAudit(Auditor(run_dir), journal)
    found = live.auditor.found
    if found.columns["id"].tolist() != [str(id) for rows in corpus.labelled_parts for id in rows.ids]:
        raise RunError(f"{run_dir.path}: samples.parquet is not in the order of the data")
    suspects = Suspects(live.audit, corpus, found.probability)
    features = None if corpus.train.is_image else FeatureTable(corpus.train, corpus.num_classes, corpus.feature_names)
    originals = find_originals(config_from_here(run_dir).data, corpus)
    return Review(run_dir, suspects, live, features, originals, pretrained.images_seen(run_dir))


def make_app(review: Review, access: Access) -> ASGIApp:
    """Route the addresses to the methods of `review`, behind the guard."""
    app, assets = FastAPI(docs_url=None, redoc_url=None, openapi_url=None), Assets()
    reading: dict[str, Callable[..., Any]] = {
        "/": assets.index,
        "/page/{name}": assets.file,
        "/image/{split}/{position}": review.image,
        "/original/{split}/{position}": review.original,
        "/api/run": review.run,
        "/api/rows": review.rows,
        "/api/progress": review.progress,
        "/api/overview": review.overview,
        "/api/values/{split}/{position}": review.row_values,
        "/api/content/{split}/{position}": review.row_content,
        "/api/why/{split}/{position}": review.why,
    }
    for address, answer in reading.items():
        app.add_api_route(address, answer, methods=["GET"], response_model=None)
    writing: dict[str, Callable[..., Any]] = {
        "/api/decisions": review.decide,
        "/api/sample": review.draw,
        "/api/export": review.export,
    }
    for address, answer in writing.items():
        app.add_api_route(address, answer, methods=["POST"], response_model=None)
    app.add_exception_handler(SurelabelError, _answer_refusal)
    app.add_exception_handler(OSError, _answer_failure)
    app.add_exception_handler(RequestValidationError, _answer_invalid)
    return Guard(BodyLimit(app), access)


class Assets:
    """The files of the folder page/, read once."""

    def __init__(self) -> None:
        folder = files("surelabel.reviewing") / "page"
        paths = {PurePath(file.name): file for file in folder.iterdir()}
        self.content = {path.name: file.read_bytes() for path, file in paths.items() if path.suffix in MEDIA_TYPES}

    def index(self) -> Response:
        """Return the page itself."""
        return self.file("index.html")

    def file(self, name: str) -> Response:
        """Return one of the files that the page loads."""
        if name not in self.content:
            raise HTTPException(404)
        return Response(self.content[name], media_type=MEDIA_TYPES[PurePath(name).suffix])


def open_page(address: str) -> bool:
    """Open the address in a browser; without a desktop Python would start one in the terminal."""
    has_desktop = sys.platform == "darwin" or any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))
    return has_desktop and webbrowser.open(address)


def _answer_refusal(_: Request, error: Exception) -> JSONResponse:
    return JSONResponse({"error": str(error)}, 400)


def _answer_invalid(_: Request, error: Exception) -> JSONResponse:
    """Name what is wrong with a request, without repeating the request."""
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    return JSONResponse({"error": f"{'.'.join(map(str, first['loc']))}: {first['msg']}"[:MOST_TEXT]}, 422)


def _answer_failure(_: Request, error: Exception) -> JSONResponse:
    """Tell the page that nothing was saved, such as on a full disk."""
    return JSONResponse({"error": str(error)}, 500)


def check_name(annotator: str) -> None:
    """Raise unless this can be the name of an annotator."""
    if not annotator.strip() or len(annotator) > MOST_NAME or not annotator.isprintable():
        raise ConfigError(f"--annotator {annotator[:MOST_NAME]!r}: expected a name of 1 to {MOST_NAME} characters")


def _bind(port: int) -> socket.socket:
    """Return a listening socket that only this machine can reach."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((HOST, port))
        listener.listen()  # so that a browser opened before the server is ready waits
    except (OSError, OverflowError) as error:
        listener.close()
        raise ConfigError(f"--port {port}: {getattr(error, 'strerror', None) or error}; 0 chooses a free one") from None
    return listener


def find_user() -> str:
    """Return the name of the system's user, if it can be found out."""
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):
        return "person"
