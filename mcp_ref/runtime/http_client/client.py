"""An HTTP client of one server: a bounded number of exchanges at once, each with a deadline.

    http = HttpClient(url)
    with http.new(deadline) as exchange:
        exchange.send("POST", headers, body)        returns when the head of the response is here
        exchange.status, exchange.header("...")
        exchange.read(limit)                        the whole body, or
        exchange.read1(n)                           what has arrived of it

An exchange waits for a slot as long as its deadline allows. Open streams occupy slots for hours, and a call
may be waiting for our answer to a question, which needs a slot itself. So urgent exchanges have a few extra
slots: without them, 64 streams that wait for such answers would occupy all slots for ever.

Errors      Aborted, Expired of runtime/http_client/sockets.
Threads     any; an exchange is run by one thread at a time. `_changed` guards the set of exchanges under way;
            a thread that holds it waits for nothing but a change. A semaphore would not do: a thread that
            waits for a slot must notice `stop`, `abort`, and that its deadline has moved.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import requests

from mcp_ref.runtime.http_client.authorizing import Authorizer
from mcp_ref.runtime.http_client.exchange import HttpExchange
from mcp_ref.runtime.http_client.settings import Headers, Settings
from mcp_ref.runtime.http_client.sockets import Aborted, Expired
from mcp_ref.runtime.threads import forks
from mcp_ref.runtime.threads.deadlines import Deadline

__all__ = ["MAX_EXTRA_EXCHANGES", "HttpClient"]

MAX_EXTRA_EXCHANGES = 16
"""Slots beyond the limit, for urgent exchanges."""
LOOK_SECONDS = 1.0
"""The longest time, in seconds, until a wait for a slot looks at its deadline again, which may move."""


class HttpClient:
    """All exchanges of one client with its server: which are under way, and which wait to begin."""

    def __init__(
        self,
        url: str,
        *,
        session: requests.Session | None = None,
        headers: Headers | Callable[[], Headers] | None = None,
        auth: Authorizer | None = None,
        limit: int = 64,
    ) -> None:
        """`headers` go with each request; a function that returns them is called each time.

        The headers of `auth` (runtime/http_client/authorizing) win over all others. `limit` is the number of
        slots.
        """
        self.limit = limit
        self.auth = auth
        self.on_message: Callable[[str, bytes], object] | None = None
        """Called with each message as it crosses: ">" and one that is sent, "<" and one that is received."""
        self.settings = Settings(url, session, headers, limit + MAX_EXTRA_EXCHANGES)
        self._changed = threading.Condition()
        self._under_way: set[HttpExchange] = set()  # guarded by _changed
        self._is_stopped = False
        forks.register(self)

    def forked(self) -> None:
        """Begin no more exchanges in a forked child: connections and slots are the parent's."""
        self._changed = threading.Condition()
        self._is_stopped = True
        for exchange in self._under_way:
            exchange.forked()
        self._under_way.clear()
        self.settings.forked()

    def tell(self, direction: str, message: bytes | None) -> None:
        """Call `on_message`, if there is one, unless the message is empty."""
        if self.on_message is not None and message:
            self.on_message(direction, message)

    def new(self, deadline: Deadline | None, **options: Any) -> HttpExchange:
        """Return an exchange that has not begun.

        An `urgent` one may exceed the limit, because others may be waiting for it. After `stop` only a `last`
        one may begin. `read_timeout` is how many seconds may pass without a byte of the response.
        """
        return HttpExchange(self, deadline, **options)

    def enter(self, exchange: HttpExchange, *, is_urgent: bool, is_last: bool) -> None:
        """Wait for a slot. Raises Aborted, Expired."""
        limit = self.limit + MAX_EXTRA_EXCHANGES if is_urgent or is_last else self.limit
        with self._changed:
            while len(self._under_way) >= limit and not self._is_stopped and not exchange.is_aborted:
                self._wait(exchange)
            if exchange.is_aborted or (self._is_stopped and not is_last):
                raise Aborted
            self._under_way.add(exchange)

    def _wait(self, exchange: HttpExchange) -> None:
        """Wait for a change. With _changed held."""
        if not self._changed.wait(min(LOOK_SECONDS, exchange.deadline.pause())) and exchange.is_late:
            raise Expired

    def leave(self, exchange: HttpExchange) -> None:
        """Give the slot back."""
        with self._changed:
            self._under_way.discard(exchange)
            self._changed.notify_all()

    def pause(self, exchange: HttpExchange, seconds: float) -> None:
        """Wait without a slot, within the deadline. Raises Aborted, Expired."""
        left = min(seconds, exchange.deadline.left())
        with self._changed:
            if self._changed.wait_for(lambda: self._is_stopped or exchange.is_aborted, max(0.0, left)):
                raise Aborted
        if left < seconds:
            raise Expired

    def wake(self) -> None:
        """Have the threads that wait in `enter` look again."""
        with self._changed:
            self._changed.notify_all()

    def stop(self) -> None:
        """End all exchanges; from now on only a last one may begin."""
        with self._changed:
            self._is_stopped = True
            self._changed.notify_all()
            under_way = list(self._under_way)
        for exchange in under_way:
            exchange.abort()
        if self.auth is not None:
            self.auth.stop()

    def close(self) -> None:
        self.stop()
        self.settings.close()
