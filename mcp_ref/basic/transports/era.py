"""Which era does the server speak? (pages: basic/transports/stdio, "Backward Compatibility", and
basic/versioning, "Backward Compatibility with Initialization-Based Versions")

    client -> server   server/discover, in our newest modern version
    server -> client   a DiscoverResult     modern: go on in a version both have
                       a modern error       modern: try again in a version it names
                       any other error      legacy: send initialize
                       silence              ask both ways, see below

Silence is not trusted for long, nor for ever. After PROBE seconds initialize is sent as well, and the
first good answer wins: a legacy server that ignores what it does not know costs half a second, and a
modern one that is slow to start is not taken for a legacy one.

Revisions   all that the client was given; with none of the modern era among them there is nothing to
            find out, and initialize comes first.
Threads     runs on the thread that called `connect`; the reader only leaves the answers in a queue.
"""

from __future__ import annotations

import queue
from collections.abc import Sequence
from typing import Any

from mcp_ref.basic.errors import (
    ConnectionClosed,
    ErrorResponse,
    LocalError,
    McpError,
    RequestTimeout,
)
from mcp_ref.basic.messages import Json
from mcp_ref.basic.patterns.request_response import Connection
from mcp_ref.basic.versioning import (
    MODERN_CODES,
    Era,
    Revision,
    UnsupportedProtocolVersion,
    newest,
)
from mcp_ref.runtime.calls import Call
from mcp_ref.runtime.deadlines import Deadline

__all__ = ["open_connection"]

PROBE = 0.5
"""Seconds of silence after which `initialize` is tried as well."""


def open_connection(client: Any, connection: Connection) -> None:
    """Find out what the server speaks and agree on the newest revision that both know.

    Fills in the client, which keeps it as long as the server lives. Raises if there is none.
    # spec: basic/transports/stdio/dual-era-probe, basic/transports/stdio/modern-only-probe
    # spec: basic/versioning/era-cached
    """
    if newest(client.revisions, Era.MODERN) is None:
        # spec: basic/lifecycle/no-requests-before-init-response
        client.open_legacy(connection.request("initialize", client.hello()))
    else:
        _Opening(client, connection).run()


class _Opening:
    """The probe, and perhaps an `initialize` beside it; whichever is answered well first decides."""

    def __init__(self, client: Any, connection: Connection) -> None:
        self._client = client
        self._connection = connection
        self._modern_only = newest(client.revisions, Era.LEGACY) is None
        self._answers: queue.SimpleQueue[Call] = queue.SimpleQueue()
        self._probe = self._send("server/discover", client.probe())
        self._hello: Call | None = None
        self._is_legacy = False  # the probe was refused
        self._refused: McpError | None = None  # initialize was
        self._retried = False
        self._done = False

    def _send(self, method: str, params: Json) -> Call:
        return self._connection.call(method, params, on_done=self._answers.put)

    def run(self) -> None:
        """Until one of the two is answered well. Raises when neither can be any more."""
        deadline = Deadline(self._connection.timeout, self._connection.clock)
        try:
            while not self._done:
                patient = self._hello is not None or self._modern_only
                wait = deadline.left() if patient else min(PROBE, deadline.left())
                try:
                    call = self._answers.get(timeout=max(0.0, wait))
                except queue.Empty:
                    if patient:  # spec: basic/lifecycle/handle-init-timeout
                        raise RequestTimeout(f"no answer from the server in {deadline.span:g} s") from None
                    self._greet()
                    continue
                if call is self._probe:
                    self._discovered(call.outcome)
                else:
                    self._greeted(call.outcome)
        finally:
            self._connection.forget(self._probe)
            if self._hello is not None:
                self._connection.forget(self._hello)

    def _discovered(self, outcome: Json | McpError) -> None:
        chosen = judge(outcome, self._client.revisions)
        if chosen is not None and isinstance(outcome, dict):
            self._client.checked("server/discover", {}, outcome)
            self._client.open_modern(chosen, outcome)
            self._done = True
        elif chosen is not None and not self._retried:
            # spec: basic/versioning/client-retries-supported-version
            self._retried = True
            self._probe = self._send("server/discover", self._client.probe())
        elif chosen is not None or self._modern_only:
            raise LocalError(f"the server does not speak {chosen or self._client.revisions[-1]}: {outcome}")
        elif self._refused is not None:
            raise self._refused
        else:
            self._is_legacy = True
            self._greet()

    def _greet(self) -> None:
        """# spec: basic/transports/stdio/probe-legacy-fallback"""
        if self._hello is None:
            self._hello = self._send("initialize", self._client.hello())

    def _greeted(self, outcome: Json | McpError) -> None:
        if isinstance(outcome, dict):
            self._client.open_legacy(outcome)
            self._done = True
        elif self._is_legacy:
            raise outcome
        else:
            self._refused = outcome  # a modern server: its answer to the probe is still to come


def judge(outcome: Json | McpError, supported: Sequence[str]) -> Revision | None:
    """What the answer to the probe says: a modern revision to go on with, or None for a legacy server.

    Raises what ends the search: the connection is gone, or a modern server has nothing in common.
    # spec: basic/transports/stdio/probe-modern-error, basic/transports/stdio/fallback-not-keyed-to-code
    # spec: basic/transports/stdio/probe-success, server/discover/choose-version
    """
    if isinstance(outcome, ConnectionClosed):
        raise outcome
    offered: Any = None
    if isinstance(outcome, dict):
        offered = outcome.get("supportedVersions")
    elif isinstance(outcome, ErrorResponse) and outcome.code in MODERN_CODES:
        data = outcome.data
        offered = data.get("supported") if isinstance(data, dict) else None
        if outcome.code != UnsupportedProtocolVersion.code:
            return newest(supported, Era.MODERN)
    if not isinstance(offered, list):
        return None
    dates = {date for date in offered if isinstance(date, str)} & set(supported)
    modern = newest(dates, Era.MODERN)
    if modern is None and newest(dates, Era.LEGACY) is None:
        said = ", ".join(map(str, offered[:10]))
        raise LocalError(f"no version in common: the server has {said}, this client {', '.join(supported)}")
    return modern
