"""The line to a server behind a URL: how it is opened and closed (page: basic/transports/streamable-http).

Unlike a pipe (api/pipe_transport) it does not end with its server: each request is an exchange of its own,
and the next one may succeed if one fails. A server of 2024-11-05 is different: when its event stream ends,
the connection has ended, as with a pipe.

Revisions   all.
Threads     `open` runs on the thread that called `connect`, `close` on any.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mcp_ref.api.pipe_transport import CLOSED, ConnectionLimits
from mcp_ref.basic.patterns.index.connection import Connection
from mcp_ref.basic.transports.http_sse.client import HttpSse
from mcp_ref.basic.transports.stdio.backward_compatibility import NOTHING_KNOWN, KnownEra
from mcp_ref.basic.transports.streamable_http import backward_compatibility as http_era
from mcp_ref.basic.transports.streamable_http.http_errors import HttpError, RefusedByStatus
from mcp_ref.basic.transports.streamable_http.sending import Sender, StreamableHttp, UrlConnection
from mcp_ref.basic.versioning import Era
from mcp_ref.runtime.http_client.authorizing import Authorizer
from mcp_ref.runtime.http_client.client import HttpClient

if TYPE_CHECKING:
    from mcp_ref.api.requests import Asker
    from mcp_ref.api.wire import OnWire

__all__ = ["HttpLine"]


class HttpLine:
    """The line of a client to one URL: the connection that it asks on, and how that is opened and ended."""

    opens_again = True
    """Whether `open` may be called again after it failed."""

    heard = False
    """Whether `connect` tries a server that ended once more: not over HTTP."""

    def __init__(
        self,
        client: Asker,
        url: str,
        *,
        headers: Any,
        session: Any,
        auth: Authorizer | None = None,
        limits: ConnectionLimits,
        known_era: KnownEra = NOTHING_KNOWN,
        draft_headers: bool = False,
        on_wire: OnWire | None = None,
    ) -> None:
        self._client = client
        self._known_era = known_era
        self._limits = limits
        self._exchanges = HttpClient(url, headers=headers, session=session, auth=auth)
        self._exchanges.on_message = on_wire
        self.draft_headers = draft_headers
        """Whether messages in sessions also have the `Mcp-*` headers of an interim draft."""
        self._sender = StreamableHttp(
            client, self._exchanges, limits.max_message_bytes, draft_headers=draft_headers
        )
        self._http = self.connection = self._connection(self._sender)
        """`connection` is the one to ask on, even if it is closed. For a server of 2024-11-05, `_open_old`
        replaces it; `_http` stays."""

    def _connection(self, sender: Sender) -> UrlConnection:
        timeout, max_timeout, _ = self._limits
        return UrlConnection(self._client.endpoint, sender, timeout=timeout, max_timeout=max_timeout)

    @property
    def repeats_arguments(self) -> bool:
        """Whether arguments of tools are repeated in headers: not on the transport of 2024-11-05."""
        return self.connection is self._http

    def alive(self) -> Connection:
        """The connection to ask on: always the same one, as nothing is restarted here."""
        return self.connection

    @property
    def session_id(self) -> str | None:
        """The id of the session, if the server gave one (legacy era)."""
        return self._sender.session.id

    def listen(self) -> None:
        """Open the GET stream, for messages that belong to no request."""
        self._sender.listen()

    def open(self) -> None:
        """Agree with the server on a revision. Raises if that is not possible."""
        try:
            http_era.open_connection(self._client, self._http, self._known_era)
        except http_era.PerhapsOld as found:
            self._open_old(found)
        else:
            if not self._client.negotiated.revision.modern:
                self.listen()

    def _open_old(self, found: http_era.PerhapsOld) -> None:
        """Try the transport of 2024-11-05. If the server does not have that either, raise the error with
        which it answered initialize.
        """
        sender = HttpSse(self._client.endpoint, self._exchanges, self._limits.max_message_bytes)
        old = self._connection(sender)
        try:
            sender.open()
        except (HttpError, RefusedByStatus) as problem:
            self._known_era.forget()
            raise found.problem from problem
        self.connection = old
        self._client.negotiated.initialize(old)
        self._known_era.store(Era.LEGACY)

    def lose(self, reason: str) -> None:
        """The server does not answer any more: its session is lost, and everything that waits fails."""
        self.connection.end(reason)
        if self.connection is self._http:  # with 2024-11-05, the end of the event stream calls `lost`
            self._client.endpoint.lost(self.connection)

    def close(self) -> None:
        """End the session. Everything that still waits fails."""
        if self.connection is not self._http:
            self.connection.end(CLOSED)
        self._http.end(CLOSED)
