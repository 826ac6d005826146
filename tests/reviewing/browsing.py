"""Serve the review page, and open it in a real browser.

Most tests serve it from a thread; one that kills the server starts it as a process, as users do.
"""

import contextlib
import json
import re
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import uvicorn
from playwright.sync_api import expect

from surelabel.reviewing.access import HOST, Access
from surelabel.reviewing.server import make_app

expect.set_options(timeout=20_000)  # CI machines are busy

SERVE = Path(__file__).with_name("serve_run.py")
EXPECTED = re.compile("409|ERR_CONNECTION")
"""Console messages of a conflict and of a server that was killed."""


class Server:
    """A server on a run, and the journal that it writes."""

    def __init__(self, run) -> None:
        self.run, self.journal = run, run.path / "decisions.jsonl"

    def lines(self) -> list[dict]:
        return [json.loads(line) for line in self.journal.read_text().splitlines()] if self.journal.exists() else []


class ThreadServer(Server):
    """A server in a thread of the test process, which starts at once."""

    def __init__(self, run, open_review) -> None:
        super().__init__(run)
        self.listener = socket.create_server((HOST, 0))
        access = Access(self.listener.getsockname()[1])
        app = make_app(open_review(run), access)
        self.server = uvicorn.Server(uvicorn.Config(app, log_level="warning", ws="none", lifespan="off"))
        self.thread = threading.Thread(target=self.server.run, kwargs={"sockets": [self.listener]})
        self.thread.start()
        self.address = access.address

    def stop(self) -> None:
        self.server.should_exit = True
        self.thread.join(20)
        self.listener.close()


class ProcessServer(Server):
    """`surelabel review` as a process."""

    def __init__(self, run) -> None:
        super().__init__(run)
        self.start()

    def start(self) -> None:
        command = [sys.executable, str(SERVE), str(self.run.path), "0"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.address = self.process.stdout.readline().strip()
        assert self.address.startswith("http://127.0.0.1:")

    def kill(self) -> None:
        """End the process as a power cut would, without any cleaning up."""
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


@pytest.fixture
def server(copied, open_review):
    """Return a function that serves a copy of a run: `server("images")`."""
    started = []

    def start(name: str = "images") -> ThreadServer:
        started.append(ThreadServer(copied(name), open_review))
        return started[-1]

    yield start
    for one in started:
        one.stop()


@pytest.fixture
def process_server(copied):
    """Serve a copy of the images from a process."""
    service = ProcessServer(copied("images"))
    yield service
    service.kill()  # closes the pipe even of a process that has ended


@pytest.fixture(scope="module")
def read_only_server(trained, open_review):
    """Serve a run to tests that decide nothing."""
    service = ThreadServer(trained["images"], open_review)
    yield service
    service.stop()


@pytest.fixture
def opened(browser):
    """Return a function that opens a page in a new browser context; any trouble fails the test."""
    contexts, troubles = [], []

    def open_page(address: str, low: float | None = 0, **device):
        contexts.append(browser.new_context(**{"viewport": {"width": 1200, "height": 800}, **device}))
        page = contexts[-1].new_page()
        page.on("pageerror", lambda error: troubles.append(f"error: {error}"))
        page.on("console", lambda message: None if EXPECTED.search(message.text) else troubles.append(message.text))
        page.on("dialog", lambda dialog: troubles.append(f"dialog: {dialog.message}") or dialog.dismiss())
        page.on("request", lambda request: troubles.append(request.url) if "//127.0.0.1:" not in request.url else None)
        page.goto(address)
        expect(page.locator("body[data-ready]")).to_be_attached()
        if low is not None:
            widen(page, low)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert troubles == [], troubles


@pytest.fixture
def opened_quietly(browser):
    """Return a function that opens a page beside hostile ones, whose troubles are wanted."""
    with contextlib.ExitStack() as stack:

        def open_page(address: str):
            page = stack.enter_context(contextlib.closing(browser.new_context())).new_page()
            page.goto(address)
            expect(page.locator("body[data-ready]")).to_be_attached()
            widen(page, 0)
            return page

        yield open_page


def widen(page, low: float) -> None:
    """Set the lowest probability of the filter, by keyboard."""
    page.keyboard.press("f")
    page.fill("#filter-low", str(low))
    page.keyboard.press("Enter")
    page.keyboard.press("Escape")
    expect(page.locator("#filter-text")).to_contain_text(f"from {low:.0%}".replace("%", " %"))
    expect(page.locator("#count-left")).not_to_be_empty()


def press(page, key: str) -> str:
    """Decide on the row that is shown; return its id once the page shows the next row."""
    shown = page.locator("#id").text_content()
    page.keyboard.press(key)
    expect(page.locator("#id")).not_to_have_text(shown)
    return shown


def expect_counts(page, *wanted: int, **more: int) -> None:
    for name, value in {**dict(zip(("keep", "relabel", "skip"), wanted, strict=True)), **more}.items():
        expect(page.locator(f"#count-{name}")).to_have_text(str(value))
