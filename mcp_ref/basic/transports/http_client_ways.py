"""The ways by which a client's messages go over HTTP (page: basic/transports/streamable-http, "Sending
Messages"): what stands where a pipe has its outbox.

    Posts   for whatever is no request: a POST that is over when the server has taken it
    Way     for one request: its POST, and the GETs that resume its stream; whoever gives the request up
            ends the one that is under way, and what the server asked on it

Revisions   2025-03-26.
Errors      Aborted, on a way that nobody wants to go on.
Threads     any. `_lock` of a Way makes sure that no exchange begins on it once it is given up.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from mcp_ref.basic.errors import ProtocolError
from mcp_ref.runtime.exchanges import HttpExchange
from mcp_ref.runtime.http_sockets import Aborted

if TYPE_CHECKING:
    from mcp_ref.basic.context import Context
    from mcp_ref.basic.transports.http_client import UrlConnection

__all__ = ["Posts", "Way"]


class Posts:
    """The way of whatever is no request of ours: a POST each, which wants no more than to be taken.

    # spec: basic/transports/streamable-http/new-post-per-message, basic/transports/streamable-http/use-post
    """

    closes = False
    waits = False
    two_way = True
    is_busy = True  # whoever says something here waits for the server to take it

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def begins(self, context: Context) -> None:
        """Every message has a POST of its own: there is nothing to prepare."""

    def send(self, line: bytes, wait: float | None = None) -> None:
        """POST one message. Raises ConnectionClosed, HttpError."""
        self._connection.post(line, self._connection.headers(None, None), wait)

    def answer(self, line: bytes, problem: ProtocolError | None = None, wait: float | None = None) -> None:
        """POST a response."""
        self._connection.reply(line, wait)

    def abandon(self, reason: str) -> None:
        """Nothing was begun that would have to be ended."""

    def let_go(self) -> bool:
        """A client has nobody who could come back."""
        return False

    def settle(self, seconds: float) -> bool:
        """Whatever was sent, was sent by whoever called `send`."""
        return True

    def fail(self, problem: BaseException) -> None:
        """The connection says so itself."""


class Way(Posts):
    """The way of one request: a POST of its own, and perhaps GETs that resume its stream."""

    closes = True

    def __init__(self, connection: UrlConnection, modern: bool = False) -> None:
        super().__init__(connection)
        self.is_modern = modern
        self.session_id: str | None = None
        """The session that the request was sent in: its stream goes on in no other."""
        self._lock = threading.Lock()
        self._exchange: HttpExchange | None = None  # guarded by _lock
        self._is_over = False  # guarded by _lock
        self._asked: list[Context] = []  # guarded by _lock

    def go(self, exchange: HttpExchange) -> HttpExchange:
        """From now on it is this exchange. Raises Aborted if nobody wants the answer any more."""
        with self._lock:
            self._exchange = exchange
            if self._is_over:
                raise Aborted
        return exchange

    def begins(self, context: Context) -> None:
        """The server asks something on the stream of this request."""
        with self._lock:
            self._asked = [asked for asked in self._asked if not asked.is_over]
            self._asked.append(context)

    def let_go_of_answer(self) -> None:
        """Nobody wants the answer any more, or none will come. Any thread.

        What the server asked meanwhile is given up with it: it could not take it back on this stream.
        """
        with self._lock:
            self._is_over = True
            exchange, asked = self._exchange, self._asked
            self._asked = []
        if exchange is not None:
            exchange.abort()
        for context in asked:
            self._connection.give_up(context, "the request that it was asked for is over")
