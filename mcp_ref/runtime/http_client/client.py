"""An HTTP client of one server: exchanges with a deadline, a bounded number at once.

    http = HttpClient(url)
    with http.new(deadline) as exchange:
        exchange.send("POST", headers, body)        until the head of the response is here
        exchange.status, exchange.header("...")
        exchange.read(limit)                        the whole body, or
        exchange.read1(n)                           what has arrived of it

Threads     any; an exchange is run by one thread at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import requests

from mcp_ref.runtime.http_client.exchange import HttpExchange
from mcp_ref.runtime.http_client.settings import Headers, Settings
from mcp_ref.runtime.http_client.slots import MAX_EXTRA_EXCHANGES, Slots
from mcp_ref.runtime.threads import forks
from mcp_ref.runtime.threads.deadlines import Deadline

__all__ = ["HttpClient"]


class HttpClient:
    """All exchanges of one client with its server."""

    def __init__(
        self,
        url: str,
        *,
        session: requests.Session | None = None,
        headers: Headers | Callable[[], Headers] | None = None,
        limit: int = 64,
    ) -> None:
        """`headers` go with each request; a function that returns them is called each time."""
        self.url = url
        self.limit = limit
        self.slots = Slots(limit)
        self.settings = Settings(url, session, headers, limit + MAX_EXTRA_EXCHANGES)
        forks.register(self)

    def forked(self) -> None:
        """Begin no more exchanges in a forked child: all are the parent's."""
        self.slots.forked()
        self.settings.forked()

    def new(self, deadline: Deadline | None, **options: Any) -> HttpExchange:
        """An exchange that has not begun.

        An `urgent` one may exceed the limit, because others may be waiting for it. After `stop` only a `last`
        one may begin. `read_timeout` is how many seconds may pass without a byte.
        """
        return HttpExchange(self.settings, self.slots, deadline, **options)

    def target_of(self, url: str) -> str:
        return self.settings.target_of(url)

    def stop(self) -> None:
        """End all exchanges; from now on only a last one may begin."""
        self.slots.stop()

    def close(self) -> None:
        self.stop()
        self.settings.close()
