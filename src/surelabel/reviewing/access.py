"""Access control: only this machine, under one address, and with the key.

The files of the page are the same for everyone. Every other request must carry the key in a header.
The key is in the fragment of the address, which browsers send to nobody, and the page keeps it in
the storage of its tab. It is never in a cookie: browsers send cookies to all ports of a host. Every
request must name our host and port; another name that leads here is a DNS rebinding attack, and
`localhost` may also lead to another service on ::1.
"""

import hmac
import secrets
from dataclasses import dataclass, field

from fastapi import Request
from fastapi.responses import PlainTextResponse

from surelabel.reviewing.limits import CLOSE, ASGIApp, Message, Receive, Scope, Send

HOST = "127.0.0.1"
KEY_HEADER = "x-surelabel-key"

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "cache-control": "no-store",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


@dataclass(frozen=True)
class Access:
    """The port and the key of one server."""

    port: int
    key: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)

    @property
    def origin(self) -> str:
        """The only origin of the page."""
        return f"http://{HOST}:{self.port}"

    @property
    def address(self) -> str:
        """The address of the page, with the key."""
        return f"{self.origin}/#key={self.key}"

    def refusal(self, request: Request) -> str | None:
        """Return why a request is refused, or None if it is allowed."""
        path, opens_page = request.scope["path"], _opens_page(request)
        if request.headers.get("host") != f"{HOST}:{self.port}":
            return f"This page answers at {self.origin}/ only."
        if request.headers.get("origin") not in (None, self.origin):
            return "This page takes no requests from other sites."
        if request.headers.get("sec-fetch-site", "none") not in ("none", "same-origin") and not opens_page:
            return "This page takes no requests from other sites."
        if opens_page or path.startswith("/page/") or _is_equal(request.headers.get(KEY_HEADER), self.key):
            return None
        return "This page needs its key: open the address that `surelabel review` printed last."


def _opens_page(request: Request) -> bool:
    return request.method in ("GET", "HEAD") and request.scope["path"] == "/"


def _is_equal(given: str | None, secret: str) -> bool:
    """Compare in constant time, so that timing does not reveal the secret."""
    return given is not None and hmac.compare_digest(given.encode("utf-8", "surrogatepass"), secret.encode())


class Guard:
    """Passes on the requests that Access allows, and adds protective headers to every response."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self.app, self.access = app, access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return
        refusal = self.access.refusal(Request(scope))
        answer = self.app if refusal is None else PlainTextResponse(refusal, 403, CLOSE)
        await answer(scope, receive, lambda message: send(_add_headers(message)))


def _add_headers(message: Message) -> Message:
    if message["type"] == "http.response.start":
        added = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
        message["headers"] = [*message.get("headers", []), *added]
    return message
