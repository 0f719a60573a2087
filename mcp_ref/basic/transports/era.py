"""Which era does the server speak? (pages: basic/transports/stdio, "Backward Compatibility", and
basic/versioning, "Backward Compatibility with Initialization-Based Versions")

    client -> server   server/discover, in our newest modern version
    server -> client   a DiscoverResult     modern: go on in a version both have
                       a modern error       modern: try again in a version it names
                       any other error      legacy: send initialize
                       silence              after `probe_timeout` seconds, legacy: send initialize

One request after the other, never both at once: a server that is sent both may answer both and be a legacy
one from then on. So one rule decides, and no race does:

    1. As long as initialize was not sent, the answer to the probe decides, whenever it comes.
    2. Once initialize was sent, its result decides: the server has opened a session. An answer to the probe
       that comes as late as this changes nothing, before that result or after it.
    3. If initialize is refused, the answer to the probe decides after all: a modern server that took long to
       start knows no initialize. If there is none in time either, the refusal is the error.

The probe waits `probe_timeout` seconds, but no longer than `timeout`; then initialize has `timeout` seconds
of its own, as any request has. So a silent legacy server is reached whatever the two are, and `connect` takes
no longer than both together. A client that speaks modern versions only waits `timeout` for the probe, and
sends nothing else.

The probe is not cancelled when its time is over: its answer is still wanted (rule 3), and a legacy server
need not understand a cancellation before initialize.

Revisions   all that the client was given; with none of the modern era among them there is nothing to
            find out, and initialize comes first.
Threads     runs on the thread that called `connect`; the reader only leaves the answers in a queue.
"""

from __future__ import annotations

import logging
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
from mcp_ref.schema import REVISIONS

__all__ = ["PROBE_TIMEOUT_SECONDS", "judge", "open_connection", "speak_legacy"]

_log = logging.getLogger("mcp_ref.client")

PROBE_TIMEOUT_SECONDS = 5.0
"""How long the probe waits unless `connect(probe_timeout=...)` says otherwise. A modern server must have
started by then, on a busy machine as well; a legacy server that is silent costs as much."""


def open_connection(client: Any, connection: Connection, probe_timeout: float) -> None:
    """Find out what the server speaks and agree on the newest revision that both know.

    Fills in the client, which keeps it as long as the server lives. Raises if there is none.
    # spec: basic/transports/stdio/dual-era-probe, basic/transports/stdio/modern-only-probe
    # spec: basic/versioning/era-cached
    """
    if newest(client.revisions, Era.MODERN) is None:
        # spec: basic/lifecycle/no-requests-before-init-response
        client.open_legacy(connection.request("initialize", client.hello()))
    else:
        _Opening(client, connection, probe_timeout).run()


class _Opening:
    """The probe and, if need be, `initialize` after it: the rules of the module's docstring."""

    def __init__(self, client: Any, connection: Connection, probe_timeout: float) -> None:
        self._client = client
        self._connection = connection
        self._modern_only = newest(client.revisions, Era.LEGACY) is None
        seconds = connection.timeout if self._modern_only else min(probe_timeout, connection.timeout)
        # spec: basic/transports/stdio/probe-reasonable-timeout
        self._deadline = Deadline(seconds, connection.clock)
        self._answers: queue.SimpleQueue[Call] = queue.SimpleQueue()
        self._probe = self._send("server/discover", client.probe())
        self._hello: Call | None = None
        self._refusal: McpError | None = None
        """What initialize was answered with, once that was an error."""
        self._late: Call | None = None
        """The probe, once it was answered after initialize was sent."""
        self._probe_is_over = False
        """Whether the probe was answered by a legacy server, so that no more will come of it."""
        self._is_modern = False
        """Whether a modern error said so: then initialize is out of the question."""
        self._is_done = False

    def _send(self, method: str, params: Json) -> Call:
        return self._connection.call(method, params, on_done=self._answers.put)

    def run(self) -> None:
        """Until one of the rules applies. Raises when none can any more."""
        try:
            while not self._is_done:
                try:
                    call = self._answers.get(timeout=max(0.0, self._deadline.left()))
                except queue.Empty:
                    self._on_silence()
                    continue
                if call is self._hello:
                    self._on_greeted(call.outcome)
                elif self._hello is None or self._refusal is not None:
                    self._on_probed(call.outcome)
                elif isinstance(call.outcome, ConnectionClosed):
                    raise call.outcome
                else:
                    self._late = call
        finally:
            self._connection.forget(self._probe)
            if self._hello is not None:
                self._connection.forget(self._hello)

    def _on_silence(self) -> None:
        """The time for what was asked last is over."""
        span = f"{self._deadline.span:g} s"
        if self._is_modern:
            raise RequestTimeout(f"the server did not answer server/discover within {span}")
        if self._refusal is not None:
            raise self._refusal
        if self._hello is not None:  # spec: basic/lifecycle/handle-init-timeout
            raise RequestTimeout(f"the server did not answer initialize within {span}")
        if self._modern_only:
            raise RequestTimeout(
                f"the server did not answer server/discover within {span}; {speak_legacy(self._client)}"
            )
        _log.warning(
            "no answer to server/discover within %s, so the server is taken for a legacy one and sent "
            "initialize: if it only starts slowly, connect with a longer probe_timeout",
            span,
        )
        self._greet()

    def _on_probed(self, outcome: Json | McpError) -> None:
        """The answer to the probe, where it decides: rules 1 and 3."""
        chosen = judge(outcome, self._client.revisions)
        if chosen is not None and isinstance(outcome, dict):
            self._client.checked("server/discover", {}, outcome)
            self._client.open_modern(chosen, outcome)
            self._is_done = True
        elif chosen is not None and not self._is_modern:
            # spec: basic/versioning/client-retries-supported-version
            self._is_modern = True
            self._deadline = Deadline(self._connection.timeout, self._connection.clock)
            self._probe = self._send("server/discover", self._client.probe())
        elif chosen is not None:
            raise LocalError(f"the server speaks {chosen}, but refused server/discover twice: {outcome}")
        elif self._modern_only:
            # spec: basic/versioning/modern-client-actionable-error
            raise LocalError(f"the server is no modern one: {_said(outcome)}; {speak_legacy(self._client)}")
        elif self._refusal is not None:
            raise self._refusal
        else:
            self._probe_is_over = True
            self._greet()

    def _greet(self) -> None:
        """# spec: basic/transports/stdio/probe-legacy-fallback"""
        self._deadline = Deadline(self._connection.timeout, self._connection.clock)
        self._hello = self._send("initialize", self._client.hello())

    def _on_greeted(self, outcome: Json | McpError) -> None:
        """The answer to initialize: rules 2 and 3."""
        if isinstance(outcome, dict):
            self._client.open_legacy(outcome)
            self._is_done = True
        elif self._probe_is_over or isinstance(outcome, ConnectionClosed):
            raise outcome
        else:
            self._refusal = outcome
            if self._late is not None:
                self._on_probed(self._late.outcome)


def speak_legacy(client: Any) -> str:
    """What to do about a legacy server, for people whose client speaks modern versions alone."""
    spoken, newest_legacy = ", ".join(client.revisions), newest(REVISIONS, Era.LEGACY)
    return (
        f"this client speaks {spoken} alone: connect with revision={str(newest_legacy)!r}, or without "
        "`revision`, to reach a legacy server"
    )


def _said(outcome: Json | McpError) -> str:
    """What a server answered to the probe that is no modern one."""
    if isinstance(outcome, dict):
        return "its answer to server/discover names no version of the modern era"
    return f"it answered server/discover with {str(outcome)!r:.200}"


def _nothing_in_common(offered: list[Any], supported: Sequence[str]) -> str:
    """Why there is no way to go on with a server that named its versions, and what to do."""
    known = newest([date for date in offered if isinstance(date, str)], Era.LEGACY)
    advice = f"; connect with revision={str(known)!r}" if known is not None else ""
    return (
        f"no version in common: the server has {', '.join(map(str, offered[:10])) or 'none'}, "
        f"this client {', '.join(supported)}{advice}"
    )


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
        raise LocalError(_nothing_in_common(offered, supported))
    return modern
