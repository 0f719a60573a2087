"""Ping (page: basic/utilities/ping).

Either side asks whether the other one is still there, at any time, and gets an empty result.

    A -> B   ping
    B -> A   {}            at once; with `ping_every`, A asks again so many seconds later
    A -> B   ping
                           nothing, within A's `timeout`: the connection has failed, and A ends it

Who asks by hand (`ping`) gets RequestTimeout, and decides for itself what that means. A `Heartbeat` decides.

Revisions   2024-11-05 to 2025-11-25.  2026-07-28 has no ping: `server/discover` tells as much, and its
            connections hold nothing that could be lost.
Threads     answered by the reader itself, so that no busy tool delays it. A Heartbeat has one timer
            (runtime/threads/timers); its pings are sent by a worker, nothing waits for the answers, and
            the end of
            the connection is for a thread of its own, `mcp_ref ping`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mcp_ref.basic.index.messages import Json
from mcp_ref.basic.versioning import Method
from mcp_ref.runtime.errors import (
    LocalError,
    McpError,
    RequestTimeout,
)
from mcp_ref.runtime.logs import logger
from mcp_ref.runtime.threads.timers import Timer, later
from mcp_ref.runtime.threads.workers import QueueFull

if TYPE_CHECKING:
    from mcp_ref.basic.patterns.index.connection import Connection
    from mcp_ref.basic.patterns.index.context import RequestContext
    from mcp_ref.basic.patterns.index.requester import Call

__all__ = ["Heartbeat", "on_ping", "ping", "watch"]

_log = logger("mcp_ref.ping")

# ---------------------------------------------------------------------- whoever is asked


def on_ping(endpoint: Any, params: Json, context: RequestContext) -> Json:
    """# spec: basic/utilities/ping/respond-empty"""
    return {}


METHODS = (Method("ping", on_ping, until="2025-11-25", sender="either"),)

# ----------------------------------------------------------------------- whoever asks


def ping(connection: Connection, timeout: float | None = None) -> None:
    """Return if the peer answers; raise RequestTimeout or ConnectionClosed if not.

    # spec: basic/utilities/ping/either-side, basic/utilities/ping/log-failures
    # spec: basic/utilities/ping/no-parameters
    """
    try:
        connection.request("ping", timeout=timeout)
    except LocalError as problem:
        _log.warning("ping failed: %s", problem)
        raise


def watch(connection: Connection, every: float | None, lose: Callable[[str], object]) -> None:
    """From now on, ping a peer of the legacy era `every` so many seconds; `lose` is how its connection ends.

    # spec: basic/utilities/ping/periodic, basic/utilities/ping/frequency-configurable
    """
    if every is None or connection.heartbeat is not None:
        return
    connection.heartbeat = Heartbeat(connection, every, lose)
    connection.heartbeat.start()
    if connection.failure is not None:  # perhaps it ended before there was anything to stop
        connection.heartbeat.stop()


class Heartbeat:
    """Pings one peer again and again, until the connection ends or an answer does not come in time.

    One ping is under way at most, and the next goes `every` so many seconds after the answer.
    # spec: basic/utilities/ping/no-excess, basic/utilities/ping/timeout-suits-network
    """

    def __init__(self, connection: Connection, every: float, lose: Callable[[str], object]) -> None:
        self._connection = connection
        self._every = every
        self._lose = lose
        self._lock = threading.Lock()
        self._timer: Timer | None = None  # guarded by _lock, as is the next
        self._is_over = False

    def start(self) -> None:
        """The first ping is due after one pause."""
        self._set(self._every, self._beat)

    def stop(self) -> None:
        """No more pings. May be called twice."""
        with self._lock:
            self._is_over = True
            if self._timer is not None:
                self._timer.cancel()

    def _set(self, seconds: float, run: Callable[[], None]) -> None:
        """What is to happen next, instead of what was to."""
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
            if not self._is_over:
                self._timer = later(seconds, run)

    def _beat(self) -> None:
        """Have a ping sent: that may take a while, and so is not for the thread of the timers."""
        try:
            self._connection.workers.submit(self._send, None)  # after the end, nothing is run
        except QueueFull:
            self._set(self._every, self._beat)

    def _send(self, nothing: None) -> None:
        """One ping. Where nothing would bring it to the peer, its silence says nothing: not this time."""
        connection = self._connection
        listener = connection.listener()
        if listener is None:
            self._set(self._every, self._beat)
            return

        def prepare(call: Call) -> None:
            self._set(connection.timeout, lambda: self._expire(call, listener))

        try:
            # spec: basic/utilities/ping/no-parameters
            connection.call("ping", on_done=self._answered, prepare=prepare)
        except LocalError as problem:  # it was not even sent
            _log.warning("ping failed: %s", problem)
            self._set(self._every, self._beat)

    def _answered(self, call: Call) -> None:
        """Any answer is a sign of life, an error as well. Runs on the reader, or where the call failed."""
        problem = call.outcome
        if self._connection.failure is not None:
            return  # it ended meanwhile
        if isinstance(problem, RequestTimeout):  # it could not even be written
            self._give_up(problem)
            return
        if isinstance(problem, LocalError):
            _log.warning("ping failed: %s", problem)
        elif isinstance(problem, McpError):
            _log.info("a ping was answered with an error: %s", problem)
        self._set(self._every, self._beat)

    def _expire(self, call: Call, listener: object) -> None:
        """There is no answer in time. Runs on the thread of the timers."""
        connection = self._connection
        if not connection.forget(call):
            return  # it came just now
        # What would have brought it to the peer is another by now, or gone.
        if connection.listener() is not listener:
            self._set(self._every, self._beat)
            return
        self._give_up(RequestTimeout(f"the peer did not answer a ping within {connection.timeout:g} s"))

    def _give_up(self, problem: RequestTimeout) -> None:
        """The connection has failed.

        # spec: basic/utilities/ping/timeout-is-failure, basic/utilities/ping/log-failures
        # spec: basic/utilities/ping/stale-connection
        """
        _log.warning("ping failed: %s; the connection is given up", problem)
        thread = threading.Thread(target=self._lose, args=(str(problem),), name="mcp_ref ping", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # the system has no more threads to give: perhaps it has later
            self._set(self._every, self._beat)
