"""Ping (page: basic/utilities/ping).

Either side may ask at any time whether the other is still there. The answer is an empty result.

    A -> B   ping
    B -> A   {}            at once; with `ping_every`, A asks again that many seconds later
    A -> B   ping
                           no answer within A's `timeout`: the connection has failed, and A ends it

Without an answer, `ping` raises RequestTimeout and leaves the consequences to its caller; a `Heartbeat` ends
the connection.

Revisions   2024-11-05 to 2025-11-25.  2026-07-28 has no ping: `server/discover` shows just as well that the
            server is there, and its connections hold no state that could be lost.
Threads     the reader itself answers a ping, so that no busy tool delays the answer. A Heartbeat has one
            timer (runtime/threads/timers). A new thread, `mcp_ref ping`, sends each ping, another one ends
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
    """Ping the peer and wait for its answer. Raises RequestTimeout or ConnectionClosed if none comes.

    # spec: basic/utilities/ping/either-side, basic/utilities/ping/log-failures
    # spec: basic/utilities/ping/no-parameters
    """
    try:
        connection.request("ping", timeout=timeout)
    except LocalError as problem:
        _log.warning("ping failed: %s", problem)
        raise


def watch(connection: Connection, every: float | None, lose: Callable[[str], object]) -> None:
    """Start to ping a peer of the legacy era, unless that is done already or `every` is None.

    `every` is the pause between two pings, in seconds; `lose(reason)` ends a connection that failed.

    # spec: basic/utilities/ping/periodic, basic/utilities/ping/frequency-configurable
    """
    if every is None or connection.heartbeat is not None:
        return
    connection.heartbeat = Heartbeat(connection, every, lose)
    connection.heartbeat.start()
    if connection.failure is not None:  # it ended before `heartbeat` was set, so its end stopped no heartbeat
        connection.heartbeat.stop()


class Heartbeat:
    """Pings one peer repeatedly, until the connection ends or an answer does not come in time.

    At most one ping is under way; the next one is sent `every` seconds after the answer.
    # spec: basic/utilities/ping/no-excess, basic/utilities/ping/timeout-suits-network
    """

    def __init__(self, connection: Connection, every: float, lose: Callable[[str], object]) -> None:
        self._connection = connection
        self._every = every
        self._lose = lose
        self._lock = threading.Lock()
        self._timer: Timer | None = None  # guarded by _lock, as is _is_over
        self._is_over = False

    def start(self) -> None:
        """Begin: the first ping is sent `every` seconds from now."""
        self._schedule(self._every, self._submit_ping)

    def stop(self) -> None:
        """No more pings. May be called twice."""
        with self._lock:
            self._is_over = True
            if self._timer is not None:
                self._timer.cancel()

    def _schedule(self, seconds: float, run: Callable[[], None]) -> None:
        """Call `run` after so many seconds, in place of what the timer was set to before."""
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
            if not self._is_over:
                self._timer = later(seconds, run)

    def _submit_ping(self) -> None:
        """Send a ping on a new thread: to send may block, and the thread of the timers must not."""
        self._start_thread(self._send, None)

    def _send(self, nothing: None) -> None:
        """Send one ping. Without a stream to the peer, wait: its silence would prove nothing."""
        connection = self._connection
        listener = connection.listener()
        if listener is None:
            self._schedule(self._every, self._submit_ping)
            return

        # Before the ping is sent: an answer that comes at once must find this timer, and replace it.
        def prepare(call: Call) -> None:
            self._schedule(connection.timeout, lambda: self._expire(call, listener))

        try:
            # spec: basic/utilities/ping/no-parameters
            connection.call("ping", on_done=self._on_answer, prepare=prepare)
        except LocalError as problem:  # the ping was not even sent
            _log.warning("ping failed: %s", problem)
            self._schedule(self._every, self._submit_ping)

    def _on_answer(self, call: Call) -> None:
        """Schedule the next ping: any answer is a sign of life, even an error.

        Runs on the reader, or on the thread on which the call failed.
        """
        problem = call.outcome
        if self._connection.failure is not None:
            return  # the connection ended meanwhile
        if isinstance(problem, RequestTimeout):  # the ping could not even be written
            self._end(problem)
            return
        if isinstance(problem, LocalError):
            _log.warning("ping failed: %s", problem)
        elif isinstance(problem, McpError):
            _log.info("a ping was answered with an error: %s", problem)
        self._schedule(self._every, self._submit_ping)

    def _expire(self, call: Call, listener: object) -> None:
        """End the connection, since no answer came in time. Runs on the thread of the timers."""
        connection = self._connection
        if not connection.forget(call):
            return  # the answer came just now
        # If the stream that the ping was sent on was lost or replaced, the ping may have been lost with it.
        if connection.listener() is not listener:
            self._schedule(self._every, self._submit_ping)
            return
        self._end(RequestTimeout(f"the peer did not answer a ping within {connection.timeout:g} s"))

    def _end(self, problem: RequestTimeout) -> None:
        """End the connection, which has failed.

        # spec: basic/utilities/ping/stale-connection, basic/utilities/ping/log-failures
        """
        _log.warning("ping failed: %s; the connection is given up", problem)
        self._start_thread(self._lose, str(problem))

    def _start_thread(self, run: Callable[[Any], object], argument: Any) -> None:
        """Call `run(argument)`, which may block, on a new thread."""
        thread = threading.Thread(target=run, args=(argument,), name="mcp_ref ping", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # the system is out of threads: try again after the next pause
            self._schedule(self._every, self._submit_ping)
