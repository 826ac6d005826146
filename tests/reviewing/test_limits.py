"""A real server process under hostile requests: it refuses them, and does not grow."""

import contextlib
import http.client
import json
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from surelabel.reviewing.limits import MAX_BODY_BYTES, MAX_COMMAS, MAX_HEADER_BYTES, MOST_CONNECTIONS
from surelabel.runs.decisions import Journal

SECONDS = 1.0
"""How long connections to these servers may be idle."""
MOST_GROWTH = 50
"""Megabytes."""
MEGABYTE = b"x" * 1_000_000


class Server:
    """A server process, and requests as the page sends them."""

    def __init__(self, run: Path) -> None:
        script = Path(__file__).with_name("serve_run.py")
        words = [sys.executable, str(script), str(run), "0", str(SECONDS)]
        self.run, self.process = run, subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        address = self.process.stdout.readline()
        self.port, self.key = re.fullmatch(r"http://127\.0\.0\.1:(\d+)/#key=(.*)\n", address).groups()

    @property
    def headers(self) -> dict[str, str]:
        return {"host": f"127.0.0.1:{self.port}", "x-surelabel-key": self.key}

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", int(self.port)), timeout=20)

    def get(self, address: str):
        connection = http.client.HTTPConnection("127.0.0.1", int(self.port), timeout=20)
        with contextlib.closing(connection):
            connection.request("GET", address, headers=self.headers)
            answer = connection.getresponse()
            assert answer.status == 200
            return json.loads(answer.read())

    def head(self, line: str, **more: str) -> bytes:
        """Return a request line with the headers of the page."""
        own = {"origin": f"http://127.0.0.1:{self.port}", "content-type": "application/json"}
        headers = {**self.headers, **own, **{name.replace("_", "-"): value for name, value in more.items()}}
        return "\r\n".join([f"{line} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]).encode()

    def send(self, head: bytes, parts=()) -> bytes:
        """Send a request until the server stops to read, and return its answer."""
        with self.connect() as connection:
            with contextlib.suppress(ConnectionError):
                connection.sendall(head + b"\r\n\r\n")
                for part in parts:
                    connection.sendall(part)
            return read_all(connection)

    def post(self, body: bytes, address: str = "/api/decisions") -> bytes:
        return self.send(self.head(f"POST {address}", content_length=str(len(body)), connection="close"), [body])

    def memory(self, name: str = "VmHWM") -> float:
        """Return the largest memory so far, or the current one, in megabytes."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(rf"{name}:\s+(\d+) kB", status)[1]) / 1000

    def __enter__(self) -> "Server":
        self.get("/api/run")
        return self

    def __exit__(self, *_) -> None:
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def stop(self, number: int) -> int:
        self.process.send_signal(number)
        return self.process.wait(timeout=60)


def read_all(connection: socket.socket) -> bytes:
    """Return everything until the server closes the connection."""
    parts = []
    with contextlib.suppress(ConnectionError):
        while part := connection.recv(65536):
            parts.append(part)
    return b"".join(parts)


def status_of(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


def is_open(connection: socket.socket) -> bool:
    connection.setblocking(False)
    try:
        return connection.recv(1) != b""
    except BlockingIOError:
        return True
    except ConnectionError:
        return False


@pytest.fixture(scope="module")
def started(trained, tmp_path_factory):
    run = tmp_path_factory.mktemp("served") / "features"
    shutil.copytree(trained["features"].path, run)
    with Server(run) as server:
        yield server


@pytest.fixture
def server(started):
    """A server in use, which answers in the end and has not grown."""
    for _ in range(3):
        rows = started.get("/api/rows?low=0")["rows"]
        started.get("/api/progress")
        wish = {"id": rows[0]["id"], "action": "skip", "seen": rows[0]["seen"]}
        assert status_of(started.post(json.dumps({"decisions": [wish]}).encode())) == 200
    while started.get("/api/progress")["is_pending"]:
        time.sleep(0.1)
    before = started.memory("VmRSS")
    yield started
    for _ in range(100):  # until the server has noticed that the connections of the test are gone
        with contextlib.suppress(ConnectionError):
            started.get("/api/progress")
            break
        time.sleep(0.1)
    else:
        pytest.fail("the server does not answer any more")
    assert started.memory() - before < MOST_GROWTH


def in_chunks(part: bytes, count: int):
    for _ in range(count):
        yield b"%x\r\n%s\r\n" % (len(part), part)


class TestBodies:
    def test_a_declared_size_is_refused_at_once(self, server):
        head = server.head("POST /api/decisions", content_length="200000000")
        assert status_of(server.send(head)) == 413
        assert status_of(server.send(head, [MEGABYTE] * 200)) == 413

    def test_an_undeclared_size_is_refused_when_it_is_too_large(self, server):
        head = server.head("POST /api/decisions", transfer_encoding="chunked")
        assert status_of(server.send(head, in_chunks(MEGABYTE, 200))) == 413

    def test_bodies_without_the_key_are_not_read(self, server):
        head = server.head("POST /api/decisions", transfer_encoding="chunked", x_surelabel_key="wrong")
        assert status_of(server.send(head, in_chunks(MEGABYTE, 200))) == 403

    def test_bodies_that_nobody_asked_for_are_dropped(self, server):
        head = server.head("GET /api/run", content_length="100000000", connection="close")
        assert status_of(server.send(head, [MEGABYTE] * 100)) == 200

    def test_the_largest_bodies_that_are_read_stay_small_in_memory(self, server):
        size = MAX_BODY_BYTES
        bodies = {
            b"[" * size: 400,
            b"[" + b"[]," * MAX_COMMAS + b"[]]": 422,
            b"[" + b"[]," * (size // 3 - 1) + b"[]]": 413,
            b"{%s}" % b",".join(b'"%d":0' % number for number in range(MAX_COMMAS)): 422,
            b'{"decisions": [%s]}' % b",".join([b"{}"] * MAX_COMMAS): 422,
            b'"%s"' % (b"x" * (size - 2)): 422,
        }
        for body, status in bodies.items():
            answer = server.post(body)
            assert (status_of(answer), len(answer) < 3000) == (status, True), body[:30]

    def test_many_at_once(self, server):
        head = server.head("POST /api/decisions", content_length=str(MAX_BODY_BYTES))
        with contextlib.ExitStack() as stack:
            many = [stack.enter_context(server.connect()) for _ in range(MOST_CONNECTIONS)]
            for connection in many:
                connection.settimeout(0.2)
                with contextlib.suppress(OSError):  # the server reads a few of them at a time
                    connection.sendall(head + b"\r\n\r\n" + b" " * (MAX_BODY_BYTES - 1))

    def test_a_slow_body_is_given_up(self, server):
        with server.connect() as connection:
            connection.sendall(server.head("POST /api/decisions", content_length="100") + b"\r\n\r\n{")
            assert status_of(read_all(connection)) == 408

    def test_a_body_cut_short_decides_nothing(self, server):
        before = (server.run / "decisions.jsonl").read_bytes()
        row = server.get("/api/rows?low=0")["rows"][0]
        body = json.dumps({"decisions": [{"id": row["id"], "action": "keep", "seen": row["seen"]}]}).encode()
        with server.connect() as connection:
            head = server.head("POST /api/decisions", transfer_encoding="chunked")
            connection.sendall(head + b"\r\n\r\n" + next(in_chunks(body, 1)))
        server.get("/api/progress")
        assert (server.run / "decisions.jsonl").read_bytes() == before


class TestConnections:
    def test_headers_have_a_limit(self, server):
        for head in (b"GET /" + MEGABYTE, server.head("GET /", cookie="x" * 2 * MAX_HEADER_BYTES)):
            assert status_of(server.send(head, [MEGABYTE] * 20)) == 400

    def test_idle_ones_are_few_and_do_not_last(self, server):
        with contextlib.ExitStack() as stack:
            many = [stack.enter_context(server.connect()) for _ in range(10 * MOST_CONNECTIONS)]
            server.get("/api/run")  # a new connection is served, an idle one is closed instead
            assert sum(map(is_open, many)) <= MOST_CONNECTIONS
            for _ in range(200):
                if not any(map(is_open, many)):
                    break
                time.sleep(0.1)
            assert not any(map(is_open, many))

    @pytest.mark.parametrize("first", [b"", b"GET /nothing HTTP/1.1\r\nhost: x\r\n\r\n"])
    def test_slow_headers_do_not_last(self, server, first):
        with server.connect() as connection:
            connection.sendall(first)
            for letter in b"GET / HTTP/1.1\r\nname: " + b"x" * 300:
                try:
                    connection.sendall(bytes([letter]))
                except ConnectionError:
                    break
                time.sleep(0.05)
            else:
                pytest.fail("the connection lasted")

    def test_answers_that_are_not_read_do_not_pile_up(self, server):
        ask = server.head("GET /api/rows?low=0") + b"\r\n\r\n"
        with contextlib.ExitStack() as stack:
            many = [stack.enter_context(server.connect()) for _ in range(MOST_CONNECTIONS - 4)]
            for connection in many:
                connection.settimeout(0.05)
                with contextlib.suppress(OSError):
                    connection.sendall(ask * 50)
            time.sleep(SECONDS)
            server.get("/api/run")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_signals_stop_the_server_and_the_csv_is_written(trained, tmp_path, number):
    run = tmp_path / "features"
    shutil.copytree(trained["features"].path, run)
    with Server(run) as server, server.connect():  # a connection that stays open does not delay the end
        row = server.get("/api/rows?low=0")["rows"][0]
        wish = {"id": row["id"], "action": "keep", "seen": 0}
        assert status_of(server.post(json.dumps({"decisions": [wish]}).encode())) == 200
        assert server.stop(number) == 0
    assert (run / "decisions.csv").read_text().splitlines()[1].startswith(f"{row['id']},")
    assert set(Journal(run / "decisions.jsonl").decisions()) == {row["id"]}
