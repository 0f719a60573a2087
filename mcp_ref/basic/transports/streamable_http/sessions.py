"""Sessions over HTTP (page: basic/transports/streamable-http until 2025-11-25, "Session Management").

    client -> server   POST initialize
    server -> client   its result, with the header Mcp-Session-Id
    client -> server   anything else, with that header
    client -> server   DELETE, when it is done

What a session is made of is a `Connection`, as on stdio: the handshake's state, what runs, what waits for
an answer. Here it has an id, an owner, a log of events and an end of its own: by DELETE, after a time without
use, or when the server goes. One that was opened and never used ends soon, and one owner has so many at most:
a single client cannot take all the sessions that there may be, and keep them.

Revisions   2025-03-26 to 2025-11-25.
Errors      no id: 400. An id that is unknown, over, or another principal's: 404. Too many sessions: 503; too
            many of one owner: 429.
            # spec: basic/transports/streamable-http/session-terminated-404
Threads     any. `_lock` guards the table; what a session ends is ended outside of it.
"""

from __future__ import annotations

import ipaddress
import secrets
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mcp_ref.basic.index.messages import Json
from mcp_ref.basic.transports.streamable_http.log import Log
from mcp_ref.basic.transports.streamable_http.refusals import Refused
from mcp_ref.basic.transports.streamable_http.streams import HttpStream
from mcp_ref.runtime.errors import ConnectionClosed
from mcp_ref.runtime.logs import logger
from mcp_ref.runtime.threads.timers import Timer, later

if TYPE_CHECKING:
    from mcp_ref.runtime.threads.workers import Workers

__all__ = ["HttpSession", "Sessions", "owner_of"]

_log = logger("mcp_ref.http")

UNUSED_SECONDS = 60.0
"""How long a session lasts that was opened and never used: a client goes on at once, or not at all."""


def owner_of(environ: Json, principal: str | None) -> str:
    """To whom a new session is counted: its principal, or else the address from which it is asked for.

    Of IPv6 that is the network, since one machine may have all addresses in it.
    """
    if principal is not None:
        return f"principal {principal}"
    address = str(environ.get("REMOTE_ADDR", ""))
    if ":" in address:
        try:
            number = ipaddress.IPv6Address(address.partition("%")[0])
        except ValueError:
            pass  # whatever the WSGI server says instead is an address as well
        else:  # a socket for both kinds names those of IPv4 as ::ffff:10.0.0.1
            address = str(number.ipv4_mapped or ipaddress.IPv6Network((number, 64), strict=False))
    return f"address {address}"


UNKNOWN_SESSION = (
    "this process knows no such session (any more); send initialize for a new one, and where several "
    "processes serve one URL, route each Mcp-Session-Id to the same process, or serve with "
    "wsgi_app(stateless=True)"
)


class HttpSession:
    """One client's session."""

    def __init__(
        self, server: Any, workers: Workers, principal: str | None, log_bytes: int, owner: str = ""
    ) -> None:
        # spec: basic/transports/streamable-http/session-id-secure
        # spec: basic/transports/streamable-http/session-id-visible-ascii
        # spec: docs/security_best_practices/session-id-non-deterministic
        self.id = secrets.token_urlsafe(32)
        self.principal = principal
        self.owner = sys.intern(owner)  # one text for all sessions of an owner
        """To whom it is counted."""
        self.log = Log(secrets.token_hex(4), log_bytes)
        self.unrelated = HttpStream(log=self.log)
        """The messages that belong to no request: who opens a stream with GET gets them.

        # spec: basic/transports/streamable-http/get-server-messages
        # spec: basic/transports/streamable-http/get-unrelated
        # spec: basic/transports/streamable-http/get-no-response
        """
        self.connection = server.attach(self.unrelated, workers)
        if server.ping_every is not None:
            self.connection.listener = self.unrelated.reader
        self.streams: dict[HttpStream, None] = {}  # a set that is empty takes three times as much
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
        self,
        limit: int,
        idle: float,
        hand_on: Callable[[Callable[[Any], object], Any], None],
        each: int | None = None,
    ) -> None:
        """`hand_on` runs a function on a thread that may take a while. `each` owner has so many sessions."""
        self.limit = limit
        self.each = each
        self.idle = idle
        self._hand_on = hand_on
        self._lock = threading.Lock()
        # Guarded by _lock.
        self._sessions: dict[str, HttpSession] = {}
        self._owned: Counter[str] = Counter()
        self._timer: Timer | None = None
        self._closed = False

    def forked(self) -> None:
        """In a forked child: all sessions are the parent's."""
        self._lock = threading.Lock()
        self._sessions, self._owned, self._timer = {}, Counter(), None

    def __len__(self) -> int:
        return len(self._sessions)

    def make_room(self, owner: str) -> None:
        """Before a new one: raises Refused if there are, or its owner has, as many as there may be."""
        if self._refusal(owner) is not None:
            self.sweep()
        refusal = self._refusal(owner)
        if refusal is not None:
            raise refusal

    def _refusal(self, owner: str) -> Refused | None:
        """Why there is no room for one more."""
        if len(self._sessions) >= self.limit:
            return Refused(
                503,
                f"There are {self.limit} sessions, which is the limit; retry in 10 s.",
                [("Retry-After", "10")],
            )
        if self.each is not None and self._owned[owner] >= self.each:
            return Refused(
                429,
                f"You have {self.each} sessions, which is the limit; end one with DELETE, or retry in 60 s.",
                [("Retry-After", "60")],
            )
        return None

    def add(self, session: HttpSession) -> None:
        """It was opened. Raises Refused if this is the end of all, or there is no room any more."""
        with self._lock:
            if self._closed:
                raise Refused(503, "The server is shutting down; retry in 5 s.", [("Retry-After", "5")])
            refusal = self._refusal(session.owner)  # others may have been opened meanwhile
            if refusal is not None:
                raise refusal
            self._sessions[session.id] = session
            self._owned[session.owner] += 1
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
        idle = [
            session
            for session in list(self._sessions.values())
            if session.idle_for(now) > (self.idle if session.in_use else min(UNUSED_SECONDS, self.idle))
        ]
        self._end(idle, "the session was not used for long")

    def _end(self, sessions: list[HttpSession], reason: str) -> None:
        for session in sessions:
            with self._lock:
                known = self._sessions.pop(session.id, None)
                if known is not None:
                    self._owned[known.owner] -= 1
                    if not self._owned[known.owner]:
                        del self._owned[known.owner]
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
        return later(
            max(0.05, min(self.idle / 2, UNUSED_SECONDS / 2)), lambda: self._hand_on(self._sweep_now, None)
        )

    def _sweep_now(self, nothing: None) -> None:
        self.sweep()
        with self._lock:
            self._timer = self._set_timer() if self._sessions else None
