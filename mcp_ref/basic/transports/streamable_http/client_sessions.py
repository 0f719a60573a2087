"""The session of a client over HTTP (page: basic/transports of 2025-11-25, "Session Management").

    client -> server   initialize
    server -> client   its result, Mcp-Session-Id: ...        from now on each request says so
    client -> server   a request                -> 404        the session is over:
    client -> server   initialize                             without the id
    client -> server   the request again                      it was not begun

Several threads may find out at once that the session is over: the first opens another, the rest wait for it.
What the old one knew besides, levels and subscriptions, a worker tells the new one afterwards.

Revisions   2025-03-26 to 2025-11-25; + MCP-Protocol-Version since 2025-06-18.
Errors      InvalidResponse for an id that none may be; the 404 itself when there were too many.
Threads     any. `_renewal` is held by whoever opens a session, and waited for as long as a request may take;
            nothing else is waited for while it is held but the handshake.
"""

from __future__ import annotations

import contextlib
import re
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from mcp_ref.basic.lifecycle import Session
from mcp_ref.basic.versioning import Revision
from mcp_ref.runtime.errors import (
    InvalidResponse,
    McpError,
)
from mcp_ref.runtime.http_client.sockets import Expired
from mcp_ref.runtime.logs import logger
from mcp_ref.runtime.threads.deadlines import Deadline

if TYPE_CHECKING:
    from mcp_ref.basic.transports.streamable_http.sending import UrlConnection

__all__ = ["UrlSession"]

_log = logger("mcp_ref.http")

RENEWALS = 3
"""How often a session is opened anew within a minute; then its end is taken for the end."""

_SESSION_ID = re.compile(r"[\x21-\x7e]{1,4096}")


class UrlSession:
    """What tells the server whose requests these are."""

    def __init__(self, connection: UrlConnection) -> None:
        self._connection = connection
        self.id: str | None = None
        self.was_renewed_for_stream = False
        """Whether this session was opened since the one before had no stream for a GET, only 404."""
        self._agreed_before: Revision | None = None
        self._renewal = threading.RLock()
        self._renewing: int | None = None  # the thread that opens a new session
        self._renewals: list[float] = []  # guarded by _renewal

    def headers(self) -> dict[str, str]:
        """Which session this is, and of which revision.

        # spec: basic/transports/streamable-http/session-id-echoed
        # spec: basic/transports/streamable-http/version-header-later-requests
        # spec: basic/transports/streamable-http/version-header-negotiated
        # spec: basic/lifecycle/http-version-header

        The id is told to nobody else: it goes to this server alone, and into no log.
        # spec: basic/transports/streamable-http/session-id-handled-securely
        """
        headers, agreed = {}, self.agreed
        if self.id is not None:
            headers["Mcp-Session-Id"] = self.id
        if agreed is not None and agreed.reaches("2025-06-18"):
            headers["MCP-Protocol-Version"] = agreed.date
        return headers

    @property
    def agreed(self) -> Revision | None:
        """The revision of the session; while a new one is opened, that of the last."""
        session = self._connection.session
        return session.revision if session.is_open else self._agreed_before

    def begin(self, session_id: str | None) -> None:
        """`initialize` was answered, and the answer named the session, or did not."""
        if session_id is not None and _SESSION_ID.fullmatch(session_id) is None:
            raise InvalidResponse("initialize: the session id is not made of visible ASCII characters")
        self.id = session_id

    def wait(self, deadline: Deadline) -> None:
        """Until whoever opens a new session has done so. Raises Expired."""
        if self._renewing not in (None, threading.get_ident()):
            with self._alone(deadline):
                pass

    @contextlib.contextmanager
    def _alone(self, deadline: Deadline) -> Iterator[None]:
        """While no other thread opens a session."""
        if not self._renewal.acquire(timeout=max(0.0, deadline.left())):
            raise Expired
        try:
            yield
        finally:
            self._renewal.release()

    def renew(self, served: str | None, lost: McpError, deadline: Deadline) -> None:
        """Open a new session instead of `served`, which the server has ended; once for all who notice.

        # spec: basic/transports/streamable-http/session-restart-on-404
        """
        connection = self._connection
        with self._alone(deadline):
            if self.id != served:
                return  # another thread did
            now = time.monotonic()
            self._renewals = [before for before in self._renewals if now - before < 60]
            if self._renewing is not None or len(self._renewals) >= RENEWALS:
                raise lost
            self._renewals.append(now)
            # A server may repeat the id in what it says.
            # spec: basic/transports/streamable-http/session-id-handled-securely
            said = repr(lost).replace(served, "...") if served else repr(lost)
            _log.warning("opening a new session: %.300s", said)
            self._renewing = threading.get_ident()
            before, self._agreed_before = connection.session, self.agreed
            connection.session = Session()
            try:
                seconds = max(0.01, min(connection.timeout, deadline.left()))
                hello = connection.client.hello()
                connection.client.open_legacy(connection.request("initialize", hello, timeout=seconds))
            except BaseException:
                connection.session, self.id = before, served
                raise
            finally:
                self._renewing = None
        # Not here: whoever noticed may hold locks that this needs.
        connection.readers.submit(self._restore, None, always=True)

    def _restore(self, nothing: None) -> None:
        """Make the new session what the old one was. Runs on a worker."""
        try:
            self._connection.client.renewed()
        except McpError as problem:
            _log.warning("the new session is not as the old one was: %.300r", problem)
