"""Limits of the server: connections, their idle time, the size of headers and bodies, threads.

Whatever is sent, by however many connections, the server must not grow. uvicorn reads no more
ahead than 64 KiB of each connection, but has no limit for connections that send nothing or send
slowly, and FastAPI reads a body of any size into memory. With these limits, the worst that all
connections together can hold is a few tens of megabytes.
"""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import anyio.to_thread
from fastapi.responses import PlainTextResponse
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
ASGIApp = Callable[[Scope, Receive, Send], Awaitable[None]]

MOST_CONNECTIONS = 64
"""A browser opens six."""
IDLE_SECONDS = 10.0
"""Time without a new request after which a connection is closed; it may take twice as long."""
MAX_HEADER_BYTES = 32 * 1024
"""The request line and all headers together."""
PIECE_BYTES = 8 * 1024
"""Bytes after which that is checked."""
MAX_BODY_BYTES = 1024 * 1024
"""1,000 decisions, the most in a request, on rows with ids of 900 bytes."""
MAX_COMMAS = 20_000
"""JSON values take up to a hundred times their size as Python objects, so they are counted too."""
BODY_SECONDS = 10.0
"""Time in which a body must have arrived."""
MOST_BODIES = 8
"""Bodies that are read at the same time."""
MOST_THREADS = 4
"""Requests that are answered at the same time: each takes memory for all rows."""
CLOSE = {"connection": "close"}
"""Ends a connection after a refusal; otherwise the rest of a body would be read."""


class Connection(H11Protocol):
    """A connection that is closed when it has no use, or when there are too many."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start to watch a new connection; close another one if there are too many."""
        super().connection_made(transport)
        self._opened = self.loop.time()
        self._watched: RequestResponseCycle | None = None
        self._timer = self.loop.call_later(IDLE_SECONDS, self._watch)
        if len(self.connections) > MOST_CONNECTIONS:
            others = [one for one in self.connections if one is not self and isinstance(one, Connection)]
            idle = [one for one in others if not one.is_working]
            (min(idle, key=lambda one: one._opened) if idle else self).abort()

    def data_received(self, data: bytes) -> None:
        """Take data in small pieces: h11 limits only what is left over after each."""
        for start in range(0, len(data), PIECE_BYTES):
            if not self.transport.is_closing():
                super().data_received(data[start : start + PIECE_BYTES])

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget a connection that was closed."""
        self._timer.cancel()
        super().connection_lost(exc)

    @property
    def is_working(self) -> bool:
        """Whether a request is being answered."""
        return self.cycle is not None and not self.cycle.response_complete

    def abort(self) -> None:
        """Close the connection without waiting for the other side."""
        self.connections.discard(self)
        self.transport.abort()

    def _watch(self) -> None:
        """Close the connection if it began no request in a whole period, or reads no answer."""
        is_stuck = self.is_working and self.transport.get_write_buffer_size() > 0
        if self._watched is self.cycle and (is_stuck or not self.is_working):
            self.abort()
            return
        self._watched = self.cycle
        self._timer = self.loop.call_later(IDLE_SECONDS, self._watch)


class Refused(Exception):
    """A body that is not accepted: the status and the reason."""


class BodyLimit:
    """Passes on requests whose body has arrived whole, is not too large and was not too slow."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self._reading, self._answering = asyncio.Semaphore(MOST_BODIES), asyncio.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        anyio.to_thread.current_default_thread_limiter().total_tokens = MOST_THREADS
        if scope["method"] != "POST":  # no other request is asked for its body
            await self.app(scope, receive, send)
            return
        async with self._reading:
            try:
                body = await _read_body(scope, receive)
            except Refused as refusal:
                status, reason = refusal.args
                await PlainTextResponse(reason, status, CLOSE)(scope, receive, send)
                return
            async with self._answering:
                await self.app(scope, _replay(body, receive), send)


async def _read_body(scope: Scope, receive: Receive) -> bytes:
    too_large = Refused(413, f"A request may hold {MAX_BODY_BYTES:,} bytes; decide on fewer rows at once.")
    declared = dict(scope["headers"]).get(b"content-length", b"0")
    if int(declared) > MAX_BODY_BYTES:
        raise too_large
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise Refused(400, "The request was cut short.")
                body += message.get("body", b"")
                if len(body) > MAX_BODY_BYTES:
                    raise too_large
                if not message.get("more_body", False):
                    break
    except TimeoutError:
        raise Refused(408, "The request did not arrive in time.") from None
    if body.count(b",") > MAX_COMMAS:
        raise Refused(413, f"A request may hold {MAX_COMMAS:,} values; decide on fewer rows at once.")
    return bytes(body)


def _replay(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that gives the whole body, and then what the connection gives."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return messages.pop() if messages else await receive()

    return replay
