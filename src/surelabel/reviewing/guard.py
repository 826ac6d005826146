"""Who may talk to the page: this machine, with the token, from the page itself.

Every request must name a loopback host with our port (another name that resolves here is a rebinding attack) and carry the token: once in the
address, from then on in a cookie that scripts cannot read. Requests that change something must also come from the page's own origin, with
a key that only a page of this origin can have read.
"""

import hmac
import secrets
from dataclasses import dataclass, field
from typing import Any

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

HOST = "127.0.0.1"
NAMES = (HOST, "localhost")
KEY_HEADER = "x-surelabel-key"
READING = ("GET", "HEAD")

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
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


def _secret() -> Any:
    return field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)


@dataclass(frozen=True)
class Access:
    """The secrets of one server."""

    port: int
    token: str = _secret()
    """For reading: in the address, then in the cookie."""
    key: str = _secret()
    """For writing: in a header."""

    @property
    def address(self) -> str:
        """What is printed and opened."""
        return f"http://{HOST}:{self.port}/?token={self.token}"

    @property
    def cookie(self) -> str:
        """Its name; browsers send cookies to all ports of a host, and there may be two servers."""
        return f"surelabel_review_{self.port}"

    def fault(self, request: Request) -> str | None:
        """Why a request is refused, or None."""
        host, origin = request.headers.get("host", ""), request.headers.get("origin")
        if host not in [f"{name}:{self.port}" for name in NAMES]:
            return "This page answers on this machine only."
        if origin not in (None, f"http://{host}"):
            return "This page takes no requests from other sites."
        if self.has_address(request):
            return None
        if not _same(request.cookies.get(self.cookie), self.token):
            return "This page needs its token: open the address that `surelabel review` printed last."
        if request.headers.get("sec-fetch-site", "none") not in ("none", "same-origin") and not _opens_page(request):
            return "This page takes no requests from other sites."
        if request.method not in READING and (origin is None or not _same(request.headers.get(KEY_HEADER), self.key)):
            return "Changes are made from the page only."
        return None

    def has_address(self, request: Request) -> bool:
        """Whether the page itself is asked for with the token in the address."""
        return _opens_page(request) and _same(request.query_params.get("token"), self.token)


def _opens_page(request: Request) -> bool:
    return request.method in READING and request.scope["path"] == "/"


def _same(given: str | None, secret: str) -> bool:
    """Without telling by the time it takes how much is right."""
    return given is not None and hmac.compare_digest(given.encode("utf-8", "surrogatepass"), secret.encode())


class Guard:
    """Lets through what Access allows, and puts the protecting headers on every answer."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self.app, self.access = app, access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            return
        request = Request(scope)
        fault = self.access.fault(request)
        answer = self.app if fault is None else PlainTextResponse(fault, 403)
        cookie = fault is None and self.access.has_address(request)
        await answer(scope, receive, lambda message: send(self._marked(message, cookie)))

    def _marked(self, message: Message, cookie: bool) -> Message:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            headers.update(HEADERS)
            if cookie:
                value = f"{self.access.cookie}={self.access.token}; HttpOnly; SameSite=Strict; Path=/"
                headers.append("set-cookie", value)
        return message
