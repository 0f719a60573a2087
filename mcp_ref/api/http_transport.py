"""The line to a server behind a URL: how it is opened and closed (page: basic/transports/streamable-http).

Unlike a pipe (api/pipe_transport) it does not end with its server: each request is an exchange of its own,
and one that fails says nothing of the next. A server of 2024-11-05 is different: its event stream is such a
pipe.

Revisions   all.
Threads     `open` runs on the thread that called `connect`, `close` on any.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mcp_ref.api.pipe_transport import CLOSED, ConnectionLimits
from mcp_ref.basic.patterns.index.connection import Connection
from mcp_ref.basic.transports.http_sse.client import OldConnection
from mcp_ref.basic.transports.stdio.backward_compatibility import NOTHING_KNOWN, KnownEra
from mcp_ref.basic.transports.streamable_http import backward_compatibility as http_era
from mcp_ref.basic.transports.streamable_http.http_errors import HttpError, RefusedByStatus
from mcp_ref.basic.transports.streamable_http.sending import UrlConnection
from mcp_ref.basic.versioning import Era
from mcp_ref.runtime.http_client.client import HttpClient

if TYPE_CHECKING:
    from mcp_ref.api.requests import Asker

__all__ = ["HttpLine"]


class HttpLine:
    """All that a client says to one URL."""

    heard = False
    """Whether a server that ended itself should be asked once more: not over HTTP."""

    @property
    def repeats_arguments(self) -> bool:
        """Whether arguments of tools go into headers as well."""
        return self._old is None

    def __init__(
        self,
        client: Asker,
        url: str,
        *,
        headers: Any,
        session: Any,
        limits: ConnectionLimits,
        known_era: KnownEra = NOTHING_KNOWN,
    ) -> None:
        self._client = client
        self._known_era = known_era
        self._limits = limits
        self._exchanges = HttpClient(url, headers=headers, session=session)
        self._http = UrlConnection(client, self._exchanges, **limits._asdict())
        self._old: Any = None

    @property
    def connection(self) -> Connection:
        """The connection, whether or not it is closed."""
        connection: Connection = self._http if self._old is None else self._old
        return connection

    def alive(self) -> Connection:
        """The connection to ask on: there is only one."""
        return self.connection

    @property
    def session_id(self) -> str | None:
        """The session that the server has given us, in the legacy era."""
        return self._http.belonging.id

    def listen(self) -> None:
        """Hear what belongs to no request."""
        self._http.listen()

    def open(self) -> None:
        """Agree with the server on a revision. Raises if that cannot be."""
        try:
            http_era.open_connection(self._client, self._http, self._known_era)
        except http_era.PerhapsOld as found:
            self._open_old(found)

    def _open_old(self, found: http_era.PerhapsOld) -> None:
        """Perhaps it is a server of 2024-11-05; if not, what it said to initialize is what counts."""
        old = OldConnection(self._client.endpoint, self._exchanges, **self._limits._asdict())
        try:
            old.open()
        except (HttpError, RefusedByStatus) as problem:
            self._known_era.forget()
            raise found.problem from problem
        self._old = old
        self._client.negotiated.initialize(old)
        self._known_era.store(Era.LEGACY)

    def lose(self, reason: str) -> None:
        """The server does not answer any more: its session counts as lost, and so does all that waits."""
        connection = self.connection
        connection.end(reason)
        if self._old is None:  # else the end of its stream does this
            self._client.endpoint.lost(connection)

    def close(self) -> None:
        """End the session and all that waits."""
        if self._old is not None:
            self._old.end(CLOSED)
        self._http.end(CLOSED)
