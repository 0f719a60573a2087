"""Ping (page: basic/utilities/ping).

Either side may ask at any time whether the other is still there, and gets an empty result.

    A -> B   ping
    B -> A   {}            at once; with `ping_every`, A asks again so many seconds later
    A -> B   ping
                           no answer within A's `timeout`: the connection has failed, and A ends it

`ping` raises RequestTimeout, and its caller decides what that means. A `Heartbeat` ends the connection.

Revisions   2024-11-05 to 2025-11-25.  2026-07-28 has no ping: `server/discover` tells as much, and its
            connections hold no state that could be lost.
Threads     answered by the reader itself, so that no busy tool delays it. A Heartbeat has one timer
            (runtime/threads/timers). A thread of its own, `mcp_ref ping`, sends each ping, and another ends
            a connection that failed; no thread waits for the answers.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mcp_ref.basic.index.messages import Json
from mcp_ref.basic.versioning import Method
from mcp_ref.runtime.errors import LocalError, McpError, RequestTimeout
from mcp_ref.runtime.logs import logger
from mcp_ref.runtime.threads.timers import Timer, later

if TYPE_CHECKING:
    from mcp_ref.basic.patterns.index.connection import Connection
    from mcp_ref.basic.patterns.index.context import RequestContext
    from mcp_ref.basic.patterns.index.requester import Call

__all__ = ["Heartbeat", "on_ping", "ping", "watch"]

_log = logger("mcp_ref.ping")

# ---------------------------------------------------------------------------- responder


def on_ping(endpoint: Any, params: Json, context: RequestContext) -> Json:
    """Answer a ping with an empty result.  # spec: basic/utilities/ping/respond-empty"""
    return {}


METHODS = (Method("ping", on_ping, until="2025-11-25", sender="either"),)

# ---------------------------------------------------------------------------- requester


def ping(connection: Connection, timeout: float | None = None) -> None:
    """Ping the peer and wait for its answer. Raises RequestTimeout or ConnectionClosed without one.

    # spec: basic/utilities/ping/either-side, basic/utilities/ping/log-failures
    # spec: basic/utilities/ping/no-parameters
    """
    try:
        connection.request("ping", timeout=timeout)
    except LocalError as problem:
        _log.warning("ping failed: %s", problem)
        raise


def watch(connection: Connection, every: float | None, lose: Callable[[str], object]) -> None:
    """Ping a peer of the legacy era every so many seconds from now on; `lose` ends a connection that failed.

    # spec: basic/utilities/ping/periodic, basic/utilities/ping/frequency-configurable
    """
    if every is None or connection.heartbeat is not None:
        return
    connection.heartbeat = Heartbeat(connection, every, lose)
    connection.heartbeat.start()
    if connection.failure is not None:  # it may have ended before `heartbeat` was set, and stopped nothing
        connection.heartbeat.stop()


class Heartbeat:
    """Pings one peer again and again, until the connection ends or an answer does not come in time.

    One ping is under way at most; the next is sent `every` seconds after the answer.
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
        """Begin: the first ping is due after one pause."""
        self._schedule(self._every, self._submit_ping)

    def stop(self) -> None:
        """No more pings. May be called twice."""
        with self._lock:
            self._is_over = True
            if self._timer is not None:
                self._timer.cancel()

    def _schedule(self, seconds: float, run: Callable[[], None]) -> None:
        """Set the timer anew: run this after so many seconds, instead of what it was set to."""
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
            if not self._is_over:
                self._timer = later(seconds, run)

    def _submit_ping(self) -> None:
        """Have a thread send a ping: that may block, which the thread of the timers must not."""
        self._start_thread(self._send, None)

    def _send(self, nothing: None) -> None:
        """Send one ping; none while no stream leads to the peer, whose silence would prove nothing."""
        connection = self._connection
        listener = connection.listener()
        if listener is None:
            self._schedule(self._every, self._submit_ping)
            return

        def prepare(call: Call) -> None:
            self._schedule(connection.timeout, lambda: self._expire(call, listener))

        try:
            # spec: basic/utilities/ping/no-parameters
            connection.call("ping", on_done=self._on_answer, prepare=prepare)
        except LocalError as problem:  # it was not even sent
            _log.warning("ping failed: %s", problem)
            self._schedule(self._every, self._submit_ping)

    def _on_answer(self, call: Call) -> None:
        """Take any answer, an error too, for a sign of life. Runs on the reader, or where the call failed."""
        problem = call.outcome
        if self._connection.failure is not None:
            return  # it ended meanwhile
        if isinstance(problem, RequestTimeout):  # it could not even be written
            self._end(problem)
            return
        if isinstance(problem, LocalError):
            _log.warning("ping failed: %s", problem)
        elif isinstance(problem, McpError):
            _log.info("a ping was answered with an error: %s", problem)
        self._schedule(self._every, self._submit_ping)

    def _expire(self, call: Call, listener: object) -> None:
        """Give the connection up: no answer came in time. Runs on the thread of the timers."""
        connection = self._connection
        if not connection.forget(call):
            return  # it came just now
        # The stream that the ping was sent on was lost or replaced: the ping may have been lost with it.
        if connection.listener() is not listener:
            self._schedule(self._every, self._submit_ping)
            return
        self._end(RequestTimeout(f"the peer did not answer a ping within {connection.timeout:g} s"))

    def _end(self, problem: RequestTimeout) -> None:
        """End the connection, which has failed.

        # spec: basic/utilities/ping/timeout-is-failure, basic/utilities/ping/log-failures
        # spec: basic/utilities/ping/stale-connection
        """
        _log.warning("ping failed: %s; the connection is given up", problem)
        self._start_thread(self._lose, str(problem))

    def _start_thread(self, run: Callable[[Any], object], argument: Any) -> None:
        """Run something that may block."""
        thread = threading.Thread(target=run, args=(argument,), name="mcp_ref ping", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # the system is out of threads: it may have one after the next pause
            self._schedule(self._every, self._submit_ping)
