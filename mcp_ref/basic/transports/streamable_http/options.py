"""Options of the MCP endpoint that few deployments need (page: basic/transports/streamable-http).

    server.wsgi_app(options=HttpOptions(max_sessions=50))

They bound what clients may use, and decide what the page leaves open.

Revisions   all.
Threads     an object that never changes: any.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from mcp_ref.runtime.checks import check_bool, check_count, check_seconds
from mcp_ref.runtime.limits import Limit

__all__ = ["HttpOptions"]

ANSWERS = ("auto", "json", "stream")


@dataclass(frozen=True, kw_only=True)
class HttpOptions:
    """The bounds and the choices of an application.

    Raises TypeError or ValueError for an invalid option, and names it.
    """

    answers: Literal["auto", "json", "stream"] = "auto"
    """ "json": only the answer is sent; "stream": always events; "auto": events if a message comes before the
    answer, or the client prefers them."""
    browser_origins: str | Sequence[str] = ()
    """Web pages that may read the answers (CORS)."""
    require_headers: bool = False
    """Whether requests within a session need the `Mcp-*` headers, too."""
    rate: Limit | None = None
    """The limit on the requests of each principal: 429 beyond it."""

    max_body_bytes: int | None = None
    """Bytes of the longest body: 413 beyond it. None: 4 MiB, or the server's `max_message_bytes` if less."""
    max_bytes_in_flight: int | None = None
    """Bytes of all large bodies under way together: 503 beyond it. None: eight times the longest body."""

    max_sessions: int = 1000
    """Sessions of all clients: 503 beyond them."""
    max_sessions_each: int | None = None
    """Sessions of one principal, or of one address without any: 429 beyond them. None: half of all."""
    session_idle: float = 1800.0
    """Seconds without a request, a running call or a stream, after which a session ends."""

    max_streams: int = 1000
    """GET streams and subscriptions: 503 beyond them."""
    retry_ms: int = 1000
    """Milliseconds after which a client comes back whose stream was closed before its answer (2025-11-25)."""
    log_bytes: int = 256 << 10
    """Bytes of events that a session keeps for clients that were cut off."""

    def __post_init__(self) -> None:
        if self.answers not in ANSWERS:
            raise ValueError(f"answers is 'auto', 'json' or 'stream', not {self.answers!r}")
        check_bool(require_headers=self.require_headers)
        if not isinstance(self.rate, Limit | None):
            raise TypeError(f"rate is a Limit, not {self.rate!r:.60}")
        check_count(1, max_sessions=self.max_sessions, max_streams=self.max_streams, log_bytes=self.log_bytes)
        check_count(0, retry_ms=self.retry_ms)
        for name in ("max_body_bytes", "max_bytes_in_flight", "max_sessions_each"):
            if getattr(self, name) is not None:
                check_count(1, **{name: getattr(self, name)})
        check_seconds("session_idle", self.session_idle)

    def most_sessions_each(self) -> int:
        """The most sessions of one owner.

        By default half of all: one client cannot take all, and the clients behind one proxy, who share an
        address, can still be many.
        """
        return self.max_sessions_each or max(1, self.max_sessions // 2)

    def body_bounds(self, max_message_bytes: int) -> tuple[int, int]:
        """The most bytes of one body, and of all large ones under way. Raises ValueError if all have less."""
        one = self.max_body_bytes or min(MAX_BODY_BYTES, max_message_bytes)
        together = self.max_bytes_in_flight or BODIES_UNDER_WAY * one
        if together < one:
            raise ValueError(
                f"max_bytes_in_flight is {together}, which is less than one body may have: "
                f"{one} (max_body_bytes)"
            )
        return one, together


MAX_BODY_BYTES = 4 << 20
"""Bytes of the longest body, unless `max_body_bytes` is given: a stranger may send it."""

BODIES_UNDER_WAY = 8
"""Bodies of the greatest length that may be under way together, unless `max_bytes_in_flight` is given."""
