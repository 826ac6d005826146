"""Access control: only this machine, with the token, and from the page itself.

Every request must name a loopback host with our port; another name that resolves to this machine
is a DNS rebinding attack. It must carry the token: first in the address, then in a cookie that
scripts cannot read. Requests that change something must also come from the page's own origin, with
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

from surelabel.reviewing.limits import CLOSE

HOST = "127.0.0.1"
HOST_NAMES = (HOST, "localhost")
KEY_HEADER = "x-surelabel-key"
READ_METHODS = ("GET", "HEAD")

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
    """The port and the secrets of one server."""

    port: int
    token: str = _secret()
    """Needed to read: in the address, then in the cookie."""
    key: str = _secret()
    """Needed to write: in a header."""

    @property
    def address(self) -> str:
        """The address of the page, with the token."""
        return f"http://{HOST}:{self.port}/?token={self.token}"

    @property
    def cookie(self) -> str:
        """Name of the cookie; it names the port, because browsers share cookies between ports."""
        return f"surelabel_review_{self.port}"

    def refusal(self, request: Request) -> str | None:
        """Return why a request is refused, or None if it is allowed."""
        host, origin = request.headers.get("host", ""), request.headers.get("origin")
        if host not in [f"{name}:{self.port}" for name in HOST_NAMES]:
            return "This page answers on this machine only."
        if origin not in (None, f"http://{host}"):
            return "This page takes no requests from other sites."
        if self.opens_with_token(request):
            return None
        if not _is_equal(request.cookies.get(self.cookie), self.token):
            return "This page needs its token: open the address that `surelabel review` printed last."
        if request.headers.get("sec-fetch-site", "none") not in ("none", "same-origin") and not _opens_page(request):
            return "This page takes no requests from other sites."
        if request.method not in READ_METHODS and (
            origin is None or not _is_equal(request.headers.get(KEY_HEADER), self.key)
        ):
            return "Changes are made from the page only."
        return None

    def opens_with_token(self, request: Request) -> bool:
        """Return whether the request opens the page with the token in the address."""
        return _opens_page(request) and _is_equal(request.query_params.get("token"), self.token)


def _opens_page(request: Request) -> bool:
    return request.method in READ_METHODS and request.scope["path"] == "/"


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
        request = Request(scope)
        refusal = self.access.refusal(request)
        answer = self.app if refusal is None else PlainTextResponse(refusal, 403, CLOSE)
        sets_cookie = refusal is None and self.access.opens_with_token(request)
        await answer(scope, receive, lambda message: send(self._add_headers(message, sets_cookie)))

    def _add_headers(self, message: Message, sets_cookie: bool) -> Message:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            headers.update(HEADERS)
            if sets_cookie:
                value = f"{self.access.cookie}={self.access.token}; HttpOnly; SameSite=Strict; Path=/"
                headers.append("set-cookie", value)
        return message
