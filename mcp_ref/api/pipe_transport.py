"""A client's line to one server: how it is opened, read, opened again, closed (page: basic/transports/stdio,
"Shutdown" and "Unexpected Termination").

A server of the modern era that crashes is started again by the next request: it held no state, so only the
requests under way are lost, and they have failed with the reason. A server of the legacy era is not started
again, since its session died with it; nor is a server that ended by itself, with exit code 0.

Revisions   2026-07-28 for the restart, all for the rest.
Threads     `mcp_ref reader` runs `_read`, one a connection, and ends with it: it releases the link. `alive`
            runs on any thread that sends a request; `_opening` makes others wait for the one that restarts
            the server. `close` may run beside it: `_changing` decides which of the two comes first.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, Protocol

from mcp_ref.basic.patterns.index.connection import Connection
from mcp_ref.basic.transports.stdio import backward_compatibility as era
from mcp_ref.runtime.errors import ConnectionClosed, RequestTimeout
from mcp_ref.runtime.logs import logger
from mcp_ref.runtime.threads import forks
from mcp_ref.runtime.threads.outbox import Outbox
from mcp_ref.runtime.threads.signals import Uninterrupted
from mcp_ref.runtime.threads.workers import Workers

if TYPE_CHECKING:
    from mcp_ref.api.requests import Asker

__all__ = ["ConnectionLimits", "Line", "ServerLink"]

_log = logger("mcp_ref.client")

CLOSED = "this client was closed"

STARTING = 30.0
"""Seconds that `close` waits for a thread that is starting the server again, and then ends it itself."""

RESTARTS = 3
"""How often a server is started again within a minute; after that, requests fail."""


class ConnectionLimits(NamedTuple):
    """The options of `connect` that bound each connection to the server. Times are in seconds."""

    timeout: float
    max_timeout: float | None
    max_message_bytes: int


class ServerLink(Protocol):
    """The streams of bytes to a server: a child process, a server in this process, or another transport."""

    @property
    def write(self) -> Callable[[bytes], None]:
        """Writes messages, a line each."""

    @property
    def peer_drained_input(self) -> bool:
        """Whether the server has read all that was sent to it, as far as that can be known."""

    @property
    def crashed(self) -> bool:
        """Whether the server ended in a way after which it may be started again."""

    def read(
        self, receive: Callable[[bytes], None], too_long: Callable[[int, bytes], None], limit: int
    ) -> None:
        """Read until the stream ends: `receive` gets each line, `too_long` the size and beginning of one that
        has more than `limit` bytes.
        """

    def silence(self) -> str:
        """What is known of a server that does not answer, for an error message."""

    def exit_reason(self) -> str:
        """Why there is no more to read, for an error message."""

    def close(self) -> None:
        """End the server or the link to it. Any thread, any number of times."""

    def release(self) -> None:
        """Release what reading needs. Called by the thread that reads when it ends, or if it never began."""


class Line:
    """A link (a child process, a server in this process) and the connection over it."""

    def __init__(
        self,
        client: Asker,
        dial: Callable[[], ServerLink],
        *,
        limits: ConnectionLimits,
        probe_timeout: float = era.PROBE_TIMEOUT_SECONDS,
        known_era: era.KnownEra = era.NOTHING_KNOWN,
    ) -> None:
        self._client = client
        self._dial = dial
        self._limits = limits
        self._probe_timeout, self._known_era = probe_timeout, known_era
        # Held by the one thread that starts the server again; `close` may run beside it.
        self._opening = threading.RLock()
        self._restarts: list[float] = []  # when, monotonic; guarded by _opening
        # Held for a moment, so that no new link is attached after `_closed` was set: none would close it.
        self._changing = threading.Lock()
        self._closed = False
        self._is_open = False
        """Whether a revision was agreed on."""
        forks.register(self)
        self._attach()

    def _attach(self) -> None:
        """Make a new link and the connection over it. Raises ConnectionClosed if this line was closed."""
        link = self._dial()
        reader: threading.Thread | None = None
        try:
            outbox = Outbox(link.write)
            connection = Connection(
                self._client.endpoint,
                outbox,
                workers=Workers(20, 100),
                timeout=self._limits.timeout,
                max_timeout=self._limits.max_timeout,
            )
            outbox.on_failure = connection.unwritable
            reader = threading.Thread(
                target=self._read, args=(link, connection), name="mcp_ref reader", daemon=True
            )
            with self._changing, Uninterrupted():
                if self._closed:
                    raise ConnectionClosed(CLOSED)
                reader.start()  # from here on the reader releases the link
                self.link, self.connection, self._reader = link, connection, reader
        except BaseException:
            link.close()
            if reader is None or reader.ident is None:
                link.release()
            raise

    opens_again = False
    """Whether `open` may be called again after it failed: a link that has ended cannot be used again."""

    draft_headers = False
    """Whether messages in sessions repeat their body in headers: only over HTTP."""

    repeats_arguments = False
    """Whether arguments of tools go into headers as well: only over HTTP."""

    session_id: str | None = None
    """The id that the server gave the session: only over HTTP."""

    @property
    def heard(self) -> bool:
        """Whether the server has read all that was sent to it, as far as that can be known."""
        return self.link.peer_drained_input

    def listen(self) -> None:
        """Begin to receive messages that belong to no request. Nothing to do: a pipe brings them anyway."""

    def open(self) -> None:
        """Agree with the server on a revision. Raises if that fails."""
        try:
            era.open_connection(self._client, self.connection, self._probe_timeout, self._known_era)
        except RequestTimeout as problem:
            raise RequestTimeout(f"{problem}; {self.link.silence()}") from None
        self._is_open = True

    def _read(self, link: ServerLink, connection: Connection) -> None:
        try:
            link.read(connection.receive, connection.too_long, self._limits.max_message_bytes)
        except Exception as problem:
            _log.debug("reading ended: %s", problem)
        try:
            connection.end(CLOSED if self._closed else self._end_of(link))
            with contextlib.suppress(ReferenceError):  # the application has dropped the client
                self._client.endpoint.lost(connection)
        finally:
            link.release()

    def _end_of(self, link: ServerLink) -> str:
        """Why a link ended and, if its session is lost with it, what to do."""
        is_lost = self._is_open and not self._holds_no_state
        return f"{link.exit_reason()}; connect again" if is_lost else link.exit_reason()

    def alive(self) -> Connection:
        """The connection to send requests on: a new one, to a new process, if a modern server crashed."""
        connection = self.connection
        if connection.failure is None or self._closed or not self._may_restart():
            return connection
        with self._opening:
            if self.connection is connection and not self._closed:
                self._restart()
        return self.connection

    def _may_restart(self) -> bool:
        return self._holds_no_state and self.link.crashed

    @property
    def _holds_no_state(self) -> bool:
        """Whether only the requests under way are lost if the server ends: in the modern era."""
        return self._client.negotiated.revision.modern

    def _restart(self) -> None:
        """Start a new process and connect to it, at most RESTARTS times a minute. With _opening held.

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
        self._client.tools.forget()
        self._client.open()

    def lose(self, reason: str) -> None:
        """The server does not answer any more: all requests that wait fail, and a child process is ended."""
        self.connection.end(reason)
        self.link.close()

    def close(self) -> None:
        """End the connection and, over stdio, the server. All requests that still wait fail at once.

        Any thread, any number of times: if Ctrl-C interrupts it, the next call does the rest.
        """
        with self._changing:
            self._closed = True
        self._hang_up()
        # A thread that is starting the server again sees `_closed`, and ends what it started: wait for that.
        if self._opening.acquire(timeout=STARTING):
            self._opening.release()

    def _hang_up(self) -> None:
        """End the link and the connection as they are now; twice does no harm."""
        link, connection, reader = self.link, self.connection, self._reader
        if self._closed:
            connection.fail(CLOSED)
        link.close()
        connection.end(CLOSED)
        if reader is not threading.current_thread():
            reader.join(5.0)

    def forked(self) -> None:
        """Never start the server again in a forked child: the server is the parent's."""
        self._opening = threading.RLock()
        self._changing = threading.Lock()
        self._closed = True
