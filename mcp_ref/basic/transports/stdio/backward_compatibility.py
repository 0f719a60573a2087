"""Which era does the server speak? (pages: basic/transports/stdio, "Backward Compatibility", and
basic/versioning, "Backward Compatibility with Initialization-Based Versions")

    client -> server   server/discover, in our newest modern version
    server -> client   a DiscoverResult     modern: go on in a version that both support
                       a modern error       modern: send it once more
                       any other error      legacy: send initialize
                       silence              after `probe_timeout` seconds, legacy: send initialize

The two requests are sent one after the other, never both at once: a server that is sent both may answer both
and be a legacy one from then on. So rules decide, and no race does:

    1. As long as initialize was not sent, the answer to the probe decides, whenever it comes.
    2. Once initialize was sent, its result decides: the server has opened a session. An answer to the probe
       that comes as late as this changes nothing, before that result or after it.
    3. If initialize is refused, the answer to the probe decides after all: a modern server that took long to
       start does not know initialize. Without that answer in time, the refusal is the error.

The probe waits `probe_timeout` seconds, but no longer than `timeout`; then initialize has `timeout` seconds
of its own, as any request has. So a silent legacy server is reached whatever the two are, and `connect` takes
no longer than both together. A client that speaks modern versions only waits `timeout` for the probe, and
sends nothing else.

The era of a server that answered is remembered (`KnownEras`), by its command or URL, so that the next client
in this process sends `initialize` at once to a known legacy server, and never to a known modern one that is
silent. Only answers count: the silence or the end of a server does not prove its era. An era that proves
wrong is forgotten, and the server is probed after all.

The probe is not cancelled when its time is over: its answer is still wanted (rule 3), and a legacy server
need not understand a cancellation before initialize.

Revisions   all that the client was given; without a modern one among them there is no probe, and initialize
            comes first.
Threads     KnownEras may be used by any thread; its lock guards a dict and is held for nothing else. The rest
            runs on the thread that called `connect`; the reader only leaves the answers in a queue.
"""

from __future__ import annotations

import queue
import threading
import time
from collections import OrderedDict
from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple, Protocol

from mcp_ref.basic.index.error_responses import ErrorResponse
from mcp_ref.basic.index.messages import Json
from mcp_ref.basic.lifecycle import KnowsServer
from mcp_ref.basic.patterns.index.connection import Connection
from mcp_ref.basic.patterns.index.requester import Call
from mcp_ref.basic.versioning import (
    MODERN_CODES,
    Era,
    Revision,
    UnsupportedProtocolVersion,
    newest,
    speak_legacy,
)
from mcp_ref.runtime.checks import check_count, check_seconds
from mcp_ref.runtime.digests import sha256
from mcp_ref.runtime.errors import ConnectionClosed, LocalError, McpError, RequestTimeout
from mcp_ref.runtime.logs import logger
from mcp_ref.runtime.threads import forks
from mcp_ref.runtime.threads.deadlines import Deadline
from mcp_ref.schema import REVISIONS

__all__ = [
    "KNOWN_ERAS",
    "PROBE_TIMEOUT_SECONDS",
    "KnownEra",
    "KnownEras",
    "Opens",
    "judge",
    "open_connection",
]

_log = logger("mcp_ref.client")

PROBE_TIMEOUT_SECONDS = 5.0
"""Seconds for which the probe waits unless `ClientOptions(probe_timeout=...)` says otherwise. A modern server
must have started by then, even on a busy machine; each connection to a silent legacy server costs as much."""

MAX_KNOWN_ERAS = 1000
"""Servers whose era is remembered; the least recent is forgotten first."""

KNOWN_ERA_SECONDS = 3600.0
"""Seconds for which an era is remembered: so a server that was replaced by a newer one is probed again."""


class Opens(KnowsServer, Protocol):
    """A client, as this page sees it."""

    def probe(self) -> Json:
        """The params of server/discover."""

    def checked(self, method: str, params: Json, result: Json) -> Json:
        """A result that keeps to its page. Raises InvalidResponse."""


class KnownEras:
    """The eras of servers, by what they answered."""

    def __init__(self, size: int = MAX_KNOWN_ERAS, seconds: float = KNOWN_ERA_SECONDS) -> None:
        check_count(1, size=size)
        self._size, self._seconds = size, check_seconds("seconds", seconds)
        self._lock = threading.Lock()
        self._known: OrderedDict[bytes, tuple[Era, float]] = OrderedDict()  # guarded by _lock
        forks.register(self)

    def forked(self) -> None:
        """Replace the lock in a forked child: another thread may have held it."""
        self._lock = threading.Lock()

    def find(self, server: Hashable) -> Era | None:
        """The era of a server, if it is remembered and not too old."""
        with self._lock:
            era, until = self._known.get(_digest(server), (None, 0.0))
        return era if time.monotonic() < until else None

    def store(self, server: Hashable, era: Era) -> None:
        """Remember the era of a server that answered."""
        with self._lock:
            self._known[_digest(server)] = (era, time.monotonic() + self._seconds)
            self._known.move_to_end(_digest(server))
            if len(self._known) > self._size:
                self._known.popitem(last=False)

    def forget(self, server: Hashable = None) -> None:
        """Forget the era of a server, or of all of them."""
        with self._lock:
            if server is None:
                self._known.clear()
            else:
                self._known.pop(_digest(server), None)

    def __len__(self) -> int:
        return len(self._known)


def _digest(server: Hashable) -> bytes:
    """The key of a server: a digest, since its command or URL may hold secrets."""
    return sha256(repr(server).encode("utf-8", "surrogatepass"))


KNOWN_ERAS = KnownEras()
"""Shared by all clients of this process that are not given their own."""


class KnownEra(NamedTuple):
    """The entry of one server in a KnownEras. Without `eras`, nothing is remembered."""

    eras: KnownEras | None = None
    server: Hashable = None

    def find(self) -> Era | None:
        """The era of this server, if it is remembered."""
        return None if self.eras is None else self.eras.find(self.server)

    def store(self, era: Era) -> None:
        """Remember the era of this server."""
        if self.eras is not None:
            self.eras.store(self.server, era)

    def forget(self) -> None:
        """Forget the era of this server, which proved wrong."""
        if self.eras is not None:
            self.eras.forget(self.server)


NOTHING_KNOWN = KnownEra()


def open_connection(
    client: Opens,
    connection: Connection,
    probe_timeout: float = PROBE_TIMEOUT_SECONDS,
    known: KnownEra = NOTHING_KNOWN,
) -> None:
    """Find out the era of the server, and agree on the newest revision that both support.

    Stores it in the client, for as long as the server lives. Raises if they have none in common.
    # spec: basic/transports/stdio/dual-era-probe, basic/transports/stdio/modern-only-probe
    # spec: basic/versioning/era-persisted
    """
    if newest(client.negotiated.revisions, Era.MODERN) is None:
        client.negotiated.initialize(connection)
    elif not greeted_again(client, connection, known):
        _Opening(client, connection, probe_timeout, known).run()


def greeted_again(client: Opens, connection: Connection, known: KnownEra) -> bool:
    """Send initialize to a server that is remembered as a legacy one; True if that opened the connection.

    If it refuses initialize, its era has changed: it is forgotten, and can be probed on the same connection.
    It is forgotten as well where this raises.
    """
    if newest(client.negotiated.revisions, Era.LEGACY) is None or known.find() is not Era.LEGACY:
        return False
    try:
        client.negotiated.initialize(connection)
    except ErrorResponse as problem:
        known.forget()
        _log.info("the server is no longer a legacy one, and is probed again: %.300r", problem)
        return False
    except BaseException:
        known.forget()
        raise
    return True


class _Opening:
    """The probe and, if need be, `initialize` after it: the rules of the module's docstring."""

    def __init__(self, client: Opens, connection: Connection, probe_timeout: float, known: KnownEra) -> None:
        self._client = client
        self._connection = connection
        self._known = known
        self._modern_only = newest(client.negotiated.revisions, Era.LEGACY) is None
        self._is_modern = known.find() is Era.MODERN
        """Whether the server is known to be a modern one: then initialize is out of the question."""
        patient = self._modern_only or self._is_modern
        seconds = connection.timeout if patient else min(probe_timeout, connection.timeout)
        # spec: basic/transports/stdio/probe-reasonable-timeout
        self._deadline = Deadline(seconds, connection.clock)
        self._answers: queue.SimpleQueue[Call] = queue.SimpleQueue()
        # spec: basic/transports/stdio/probe-preferred-version
        self._probe = self._send("server/discover", client.probe())
        self._initialize: Call | None = None
        self._refusal: McpError | None = None
        """The error that initialize was answered with, if it was."""
        self._late_answer: Call | None = None
        """The probe, if it was answered after initialize was sent."""
        self._probe_is_over = False
        """Whether the answer to the probe was that of a legacy server, so that it decides nothing more."""
        self._is_surely_legacy = False
        """Whether that answer proves the era: an error does, a list of versions without ours does not."""
        self._has_retried = False
        self._is_done = False

    def _send(self, method: str, params: Json) -> Call:
        return self._connection.call(method, params, on_done=self._answers.put)

    def run(self) -> None:
        """Wait for answers until one of the rules applies. Raises when no rule can apply any more."""
        try:
            while not self._is_done:
                try:
                    call = self._answers.get(timeout=max(0.0, self._deadline.left()))
                except queue.Empty:
                    self._on_silence()
                    continue
                if call is self._initialize:
                    self._on_initialize_answer(call.outcome)
                elif self._initialize is None or self._refusal is not None:
                    self._on_probe_answer(call.outcome)
                elif isinstance(call.outcome, ConnectionClosed):
                    raise call.outcome
                else:
                    self._late_answer = call
        finally:
            self._connection.forget(self._probe)
            if self._initialize is not None:
                self._connection.forget(self._initialize)

    def _on_silence(self) -> None:
        """Go on after the time for the last request is over: send initialize, or raise."""
        span = f"{self._deadline.span:g} s"
        if self._is_modern:
            self._known.forget()
            raise RequestTimeout(f"the server did not answer server/discover within {span}")
        if self._refusal is not None:
            raise self._refusal
        if self._initialize is not None:
            raise RequestTimeout(f"the server did not answer initialize within {span}")
        if self._modern_only:
            raise RequestTimeout(
                f"the server did not answer server/discover within {span}; "
                f"{speak_legacy(self._client.negotiated.revisions)}"
            )
        _log.warning(
            "no answer to server/discover within %s, so the server is taken for a legacy one and sent "
            "initialize: if it only starts slowly, connect with options=ClientOptions(probe_timeout=...), a "
            "longer one; if it is a legacy one, revision=%r saves this wait",
            span,
            str(newest(REVISIONS, Era.LEGACY)),
        )
        self._send_initialize()

    def _on_probe_answer(self, outcome: Json | McpError) -> None:
        """Act on the answer to the probe, where it decides: rules 1 and 3."""
        chosen = judge(outcome, self._client.negotiated.revisions)
        if chosen is not None and isinstance(outcome, dict):
            self._client.checked("server/discover", {}, outcome)
            self._client.negotiated.open_modern(self._connection, chosen, outcome)
            self._known.store(Era.MODERN)
            self._is_done = True
        elif chosen is not None and not self._has_retried:
            self._is_modern = self._has_retried = True
            self._deadline = Deadline(self._connection.timeout, self._connection.clock)
            self._probe = self._send("server/discover", self._client.probe())
        elif chosen is not None:
            raise LocalError(f"the server speaks {chosen}, but refused server/discover twice: {outcome}")
        elif self._modern_only:
            advice = speak_legacy(self._client.negotiated.revisions)
            raise LocalError(f"the server is no modern one: {_describe(outcome)}; {advice}")
        elif self._refusal is not None:
            raise self._refusal
        else:
            self._is_modern = False
            self._probe_is_over = True
            self._is_surely_legacy = is_legacy_error(outcome)
            self._send_initialize()

    def _send_initialize(self) -> None:
        """Fall back to the legacy era.  # spec: basic/transports/stdio/probe-legacy-fallback"""
        self._deadline = Deadline(self._connection.timeout, self._connection.clock)
        self._initialize = self._send("initialize", self._client.negotiated.hello())

    def _on_initialize_answer(self, outcome: Json | McpError) -> None:
        """Act on the answer to initialize: rules 2 and 3."""
        if isinstance(outcome, dict):
            self._client.negotiated.open_legacy(self._connection, outcome)
            self._known.forget()
            if self._is_surely_legacy:
                self._known.store(Era.LEGACY)
            self._is_done = True
        elif self._probe_is_over or isinstance(outcome, ConnectionClosed):
            raise outcome
        else:
            self._refusal = outcome
            if self._late_answer is not None:
                self._on_probe_answer(self._late_answer.outcome)


def is_legacy_error(outcome: Any) -> bool:
    """Whether an answer to the probe proves a legacy server, whatever versions the client supports."""
    return isinstance(outcome, ErrorResponse) and outcome.code not in MODERN_CODES


def _describe(outcome: Json | McpError) -> str:
    """How a legacy server answered the probe, for an error message."""
    if isinstance(outcome, dict):
        return "its answer to server/discover names no version of the modern era"
    return f"it answered server/discover with {str(outcome)!r:.200}"


def _nothing_in_common(offered: list[Any], supported: Sequence[str]) -> str:
    """The error for a server that named its versions, of which this client supports none."""
    known = newest([date for date in offered if isinstance(date, str)], Era.LEGACY)
    advice = f"; connect with revision={str(known)!r}" if known is not None else ""
    return (
        f"no version in common: the server has {', '.join(map(str, offered[:10])) or 'none'}, "
        f"this client {', '.join(supported)}{advice}"
    )


def judge(outcome: Json | McpError, supported: Sequence[str]) -> Revision | None:
    """Judge the answer to the probe: a modern revision to go on with, or None for a legacy server.

    Raises ConnectionClosed, or LocalError where a modern server has no version in common with this client.
    # spec: basic/transports/stdio/probe-modern-error, basic/transports/stdio/fallback-not-keyed-to-code
    # spec: basic/transports/stdio/probe-success, server/discover/choose-version
    """
    # Step 1: without a connection there is nothing to judge.
    if isinstance(outcome, ConnectionClosed):
        raise outcome
    # Step 2: a modern error that is not about versions: the server knows the version that it was asked in.
    code = outcome.code if isinstance(outcome, ErrorResponse) else None
    if code in MODERN_CODES and code != UnsupportedProtocolVersion.code:
        return newest(supported, Era.MODERN)
    # Step 3: no list of versions: a legacy server.
    offered = _offered_versions(outcome)
    if offered is None:
        return None
    # Step 4: the newest modern version of the list that this client supports; None if all are legacy ones.
    dates = {date for date in offered if isinstance(date, str)} & set(supported)
    modern = newest(dates, Era.MODERN)
    if modern is None and newest(dates, Era.LEGACY) is None:
        raise LocalError(_nothing_in_common(offered, supported))
    return modern


def _offered_versions(outcome: Json | McpError) -> list[Any] | None:
    """The versions in a DiscoverResult, or in an error that the requested one is not supported."""
    offered: Any = None
    if isinstance(outcome, dict):
        offered = outcome.get("supportedVersions")
    elif isinstance(outcome, ErrorResponse) and outcome.code == UnsupportedProtocolVersion.code:
        offered = outcome.data.get("supported") if isinstance(outcome.data, dict) else None
    return offered if isinstance(offered, list) else None
