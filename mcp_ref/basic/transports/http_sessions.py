"""Sessions over HTTP (page: basic/transports/streamable-http until 2025-11-25, "Session Management").

    client -> server   POST initialize
    server -> client   its result, with the header Mcp-Session-Id
    client -> server   anything else, with that header
    client -> server   DELETE, when it is done

What a session is made of is a `Connection`, as on stdio: the handshake's state, what runs, what waits for
an answer. Here it has an id, an owner, a log of events and an end of its own: by DELETE, after a time without
use, or when the server goes. A session that never came to use makes room for others first.

Revisions   2025-03-26 to 2025-11-25.
Errors      no id: 400. An id that is unknown, over, or another principal's: 404.
            # spec: basic/transports/streamable-http/session-terminated-404
Threads     any. `_lock` guards the table; what a session ends is ended outside of it.
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mcp_ref.basic.errors import ConnectionClosed
from mcp_ref.basic.transports.http_log import Log
from mcp_ref.basic.transports.http_refusals import Refused
from mcp_ref.basic.transports.http_streams import HttpStream
from mcp_ref.runtime.timers import Timer, later

if TYPE_CHECKING:
    from mcp_ref.runtime.workers import Workers

__all__ = ["HttpSession", "Sessions"]

_log = logging.getLogger("mcp_ref.http")

UNUSED = 60.0
"""Seconds after which a session that was opened and never used may be ended to make room."""


UNKNOWN_SESSION = (
    "this process knows no such session (any more); send initialize for a new one, and where several "
    "processes serve one URL, route each Mcp-Session-Id to the same process, or serve with "
    "wsgi_app(stateless=True)"
)


class HttpSession:
    """One client's session."""

    def __init__(self, server: Any, workers: Workers, principal: str | None, log_bytes: int) -> None:
        # spec: basic/transports/streamable-http/session-id-secure
        # spec: basic/transports/streamable-http/session-id-visible-ascii
        # spec: docs/security_best_practices/session-id-non-deterministic
        self.id = secrets.token_urlsafe(32)
        self.principal = principal
        self.log = Log(secrets.token_hex(4), log_bytes)
        self.unrelated = HttpStream(log=self.log)
        """The messages that belong to no request: who opens a stream with GET gets them.

        # spec: basic/transports/streamable-http/get-server-messages
        # spec: basic/transports/streamable-http/get-unrelated
        # spec: basic/transports/streamable-http/get-no-response
        """
        self.connection = server.attach(self.unrelated, workers)
        self.connection.listener = self.unrelated.reader
        self.streams: set[HttpStream] = set()
        """Of requests that a connection waits for."""
        self.used = time.monotonic()
        self.in_use = False
        """Whether anything came after initialize."""
        self._server = server

    @property
    def is_busy(self) -> bool:
        """Whether something runs or is open: then it is not idle."""
        return bool(self.streams or self.connection.serving or self.unrelated.is_read)

    def idle_for(self, now: float) -> float:
        """Seconds since it was used last."""
        return 0.0 if self.is_busy else now - self.used

    def end(self, reason: str) -> None:
        """Nothing of it goes on: what runs is cancelled, and all its streams end.

        # spec: basic/transports/streamable-http/sse-terminate-on-session-expiry
        """
        _log.debug("a session ends: %s", reason)
        self._server.detach(self.connection, reason)
        for stream in {*self.streams, *self.log.streams()}:
            stream.fail(ConnectionClosed(reason))
        self.log.clear()


class Sessions:
    """The sessions of one application, by their ids; kept in this process.

    Processes that share sessions would put another class in its place.
    """

    def __init__(
        self, limit: int, idle: float, hand_on: Callable[[Callable[[Any], object], Any], None]
    ) -> None:
        """`hand_on` runs a function on a thread that may take a while."""
        self.limit = limit
        self.idle = idle
        self._hand_on = hand_on
        self._lock = threading.Lock()
        self._sessions: dict[str, HttpSession] = {}  # guarded by _lock, as is the next
        self._timer: Timer | None = None
        self._closed = False

    def __len__(self) -> int:
        return len(self._sessions)

    def make_room(self) -> None:
        """Before a new one: raises Refused if there are as many as there may be."""
        if len(self._sessions) < self.limit:
            return
        self.sweep()
        if len(self._sessions) >= self.limit:
            self._end(self._unused()[:1], "made room for another session")
        if len(self._sessions) >= self.limit:
            raise Refused(503, f"there are {self.limit} sessions, which is all", [("Retry-After", "10")])

    def _unused(self) -> list[HttpSession]:
        """Those that were opened a while ago and never used, the oldest first."""
        before = time.monotonic() - UNUSED
        found = [
            s for s in list(self._sessions.values()) if not s.in_use and not s.is_busy and s.used < before
        ]
        return sorted(found, key=lambda session: session.used)

    def add(self, session: HttpSession) -> None:
        """It was opened. Raises Refused if this is the end of all."""
        with self._lock:
            if self._closed:
                raise Refused(503, "this server is going")
            self._sessions[session.id] = session
            if self._timer is None:
                self._timer = self._set_timer()

    def find(self, session_id: str | None, principal: str | None) -> HttpSession:
        """The session that a request names. Raises Refused.

        # spec: basic/transports/streamable-http/session-id-missing-400
        """
        if session_id is None:
            raise Refused(
                400, "this needs an Mcp-Session-Id header: send initialize first, and use what it gives"
            )
        session = self._sessions.get(session_id)
        # Another's session is none: so nobody learns which there are.
        # spec: docs/security_best_practices/session-id-user-bound
        # spec: docs/security_best_practices/no-session-authentication
        if session is None or session.principal != principal:
            raise Refused(404, UNKNOWN_SESSION)
        session.used = time.monotonic()
        session.in_use = True
        return session

    def remove(self, session: HttpSession, reason: str) -> None:
        """It ends."""
        self._end([session], reason)

    def sweep(self) -> None:
        """End what was not used for long."""
        now = time.monotonic()
        idle = [s for s in list(self._sessions.values()) if s.idle_for(now) > self.idle]
        self._end(idle, "the session was not used for long")

    def _end(self, sessions: list[HttpSession], reason: str) -> None:
        for session in sessions:
            with self._lock:
                known = self._sessions.pop(session.id, None)
                if not self._sessions and self._timer is not None:
                    self._timer.cancel()
                    self._timer = None
            if known is not None:
                known.end(reason)

    def all(self) -> list[HttpSession]:
        """Those that there are."""
        return list(self._sessions.values())

    def close(self, reason: str) -> None:
        """The end of all, also of those that come later."""
        with self._lock:
            self._closed = True
        self._end(self.all(), reason)

    def _set_timer(self) -> Timer:
        return later(max(0.05, min(self.idle / 2, 60.0)), lambda: self._hand_on(self._sweep_now, None))

    def _sweep_now(self, nothing: None) -> None:
        self.sweep()
        with self._lock:
            self._timer = self._set_timer() if self._sessions else None
