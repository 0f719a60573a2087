"""The line to one server: how it is opened, read, opened again and closed (page: basic/transports/stdio,
"Shutdown" and "Unexpected Termination").

A server of the modern era that crashes is started again by the next request: it held no state, so
nothing is lost but what was under way, and that has failed with the reason. Not so in the legacy era,
where the session died with the server; and not for a server that ended by itself, with exit code 0.

Revisions   2026-07-28 for the restart, all for the rest.
Threads     `mcp_ref reader` runs `_read`, one a connection, and ends with it. `alive` runs on whichever
            thread wants to ask something; `_opening` makes others wait for the one that restarts.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Any

from mcp_ref.basic.patterns.request_response import Connection
from mcp_ref.basic.transports import era
from mcp_ref.runtime.outbox import Outbox
from mcp_ref.runtime.workers import Workers

__all__ = ["Line"]

_log = logging.getLogger("mcp_ref.client")

CLOSED = "this client was closed"

RESTARTS = 3
"""How often a server is started again within a minute; then its end is taken for the end."""


class Line:
    """A link (a child process, a server in this process) and the connection over it."""

    def __init__(
        self,
        client: Any,
        dial: Callable[[], Any],
        *,
        timeout: float,
        max_timeout: float | None,
        max_message_bytes: int,
        probe_timeout: float = era.PROBE_TIMEOUT_SECONDS,
        known_era: era.KnownEra = era.NOTHING_KNOWN,
    ) -> None:
        self._client = client
        self._dial = dial
        self._timeout = timeout
        self._max_timeout = max_timeout
        self._limit = max_message_bytes
        self._probe_timeout, self._known_era = probe_timeout, known_era
        self._opening = threading.Lock()
        self._restarts: list[float] = []  # guarded by _opening
        self._closed = False
        self._attach()

    def _attach(self) -> None:
        self.link = self._dial()
        self.connection = Connection(
            self._client,
            Outbox(self.link.write),
            workers=Workers(20, 100),
            timeout=self._timeout,
            max_timeout=self._max_timeout,
        )
        self._reader = threading.Thread(
            target=self._read, args=(self.link, self.connection), name="mcp_ref reader", daemon=True
        )
        self._reader.start()

    repeats_arguments = False
    """Whether arguments of tools go into headers as well: that is for HTTP."""

    session_id: str | None = None
    """The session that the server named: that is for HTTP, too."""

    @property
    def heard(self) -> bool:
        """Whether the server read all that was sent to it, as far as it can be told."""
        return bool(self.link.heard)

    def listen(self) -> None:
        """Hear what belongs to no request: a pipe brings that anyway."""

    def open(self) -> None:
        """Agree with the server on a revision. Raises if that cannot be."""
        era.open_connection(self._client, self.connection, self._probe_timeout, self._known_era)

    def _read(self, link: Any, connection: Connection) -> None:
        try:
            link.read(connection.receive, connection.too_long, self._limit)
        except Exception as problem:
            _log.debug("reading ended: %s", problem)
        connection.end(CLOSED if self._closed else link.obituary())
        self._client.lost(connection)

    def alive(self) -> Connection:
        """The connection to ask on: a new one, to a new process, where a modern server crashed."""
        connection = self.connection
        if connection.failure is None or self._closed or not self._may_restart():
            return connection
        with self._opening:
            if self.connection is connection and not self._closed:
                self._restart()
        return self.connection

    def _may_restart(self) -> bool:
        return bool(self._client.revision.modern and self.link.crashed)

    def _restart(self) -> None:
        """A new process and a new connection to it. Holds _opening.

        # spec: basic/transports/stdio/restart-crashed-server
        """
        now = time.monotonic()
        self._restarts = [before for before in self._restarts if now - before < 60]
        if len(self._restarts) >= RESTARTS:
            return
        self._restarts.append(now)
        _log.warning("starting the server again: %s", self.connection.failure)
        self._hang_up()
        self._attach()
        self._client.forget_tools()
        self.open()

    def lose(self, reason: str) -> None:
        """The server does not answer any more: all that waits fails, and a process of ours is ended."""
        self.connection.end(reason)
        self.link.close()

    def close(self) -> None:
        """End the connection and, over stdio, the server. Everything that still waits fails at once."""
        self._closed = True
        self._hang_up()

    def _hang_up(self) -> None:
        self.link.close()
        self.connection.end(CLOSED)
        self._reader.join(5.0)
        self.link.release()
