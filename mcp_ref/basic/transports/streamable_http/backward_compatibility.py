"""Which era does the server behind a URL speak? (page: basic/transports/streamable-http, "Backward
Compatibility")

    client -> server   server/discover, in our newest modern version
    server -> client   a DiscoverResult                     modern
                       a modern error, with any status      modern: send it once more
                       another error, or no JSON-RPC        legacy: initialize
    client -> server   initialize
    server -> client   its result                           Streamable HTTP, 2025-03-26 or later
                       400, 404 or 405, no modern error     perhaps HTTP+SSE of 2024-11-05 (http_sse)

What decides is the body of the answer: servers of both eras answer 400 to what they do not know. Unlike on a
pipe, each request is answered, so that silence decides nothing: it is a time-out.

Revisions   all that the client was given; without a modern one among them initialize comes first.
Errors      those of the last request that was tried. 401, 403, 407, 408, 429 and 5xx say nothing about the
            era: they are raised at once, unless the error in the body is a modern one, or about the method.
Threads     runs on the thread that called `connect`.
"""

from __future__ import annotations

from typing import Any

from mcp_ref.basic.index.error_responses import ErrorResponse, MethodNotFound
from mcp_ref.basic.patterns.index.connection import Connection
from mcp_ref.basic.transports.stdio.backward_compatibility import (
    NOTHING_KNOWN,
    KnownEra,
    Opens,
    is_legacy_error,
    judge,
)
from mcp_ref.basic.transports.streamable_http.http_errors import (
    HttpError,
    HttpFailure,
    RefusedByStatus,
    status_of,
)
from mcp_ref.basic.versioning import MODERN_CODES, Era, Revision, newest, speak_legacy
from mcp_ref.runtime.errors import LocalError, McpError
from mcp_ref.runtime.logs import logger

__all__ = ["PerhapsOld", "open_connection"]

_log = logger("mcp_ref.http")

SAYS_NOTHING = frozenset({401, 403, 407, 408, 429})
"""Statuses that say nothing about the era of the server, as those from 500 on do not."""


class PerhapsOld(Exception):
    """The server may be one of 2024-11-05. `problem` is its answer to initialize."""

    def __init__(self, problem: McpError) -> None:
        super().__init__(str(problem))
        self.problem = problem


def open_connection(client: Opens, connection: Connection, known: KnownEra = NOTHING_KNOWN) -> None:
    """Find out the era of the server, and agree on the newest revision that both support.

    Stores it in the client, for as long as the client lives. Raises PerhapsOld, or the error of a request.
    # spec: basic/transports/streamable-http/era-detection
    # spec: basic/versioning/era-persisted
    """
    if newest(client.negotiated.revisions, Era.MODERN) is None:
        _greet(client, connection)
    elif not _greeted_again(client, connection, known):
        era = _discovered(client, connection)
        if era is not Era.MODERN:
            _greet(client, connection)
        if era is not None:
            known.store(era)


def _greeted_again(client: Opens, connection: Connection, known: KnownEra) -> bool:
    """Send initialize to a server that is remembered as a legacy one; True if that opened the connection.

    A server that answers with an error may have become a modern one: its era is forgotten, and it is probed.
    A server that may be one of 2024-11-05 is not probed, but asked for its stream next, as at any other time.
    """
    if newest(client.negotiated.revisions, Era.LEGACY) is None or known.find() is not Era.LEGACY:
        return False
    try:
        _greet(client, connection)
    except PerhapsOld:
        raise
    except (ErrorResponse, HttpError) as problem:
        if isinstance(problem, HttpError) and _says_nothing(problem):
            raise
        known.forget()
        _log.info("the server is no longer a legacy one, and is probed again: %.300r", problem)
        return False
    except BaseException:
        known.forget()
        raise
    return True


def _discovered(client: Opens, connection: Connection) -> Era | None:
    """Probe the server. Returns MODERN once the connection is open in that era.

    Returns LEGACY if the answer proves that era, None if it proves nothing: initialize comes next in both
    cases.

    # spec: basic/transports/streamable-http/era-inspect-400
    """
    modern_only = newest(client.negotiated.revisions, Era.LEGACY) is None
    outcome, chosen = _probe_twice(client, connection)
    if isinstance(outcome, McpError):
        if chosen is not None:
            raise outcome
        if modern_only:
            raise _no_modern_server(outcome, speak_legacy(client.negotiated.revisions)) from outcome
        _log.info("the server is no modern one: %.300r", outcome)
        return Era.LEGACY if isinstance(outcome, HttpFailure) or is_legacy_error(outcome) else None
    if chosen is None and modern_only:
        raise LocalError(
            f"the server named no version of the modern era; {speak_legacy(client.negotiated.revisions)}"
        )
    if chosen is None:
        return None
    client.checked("server/discover", {}, outcome)
    client.negotiated.open_modern(connection, chosen, outcome)
    return Era.MODERN


def _probe_twice(client: Opens, connection: Connection) -> tuple[Any, Revision | None]:
    """Send server/discover, and once more if the server answers with a modern error.

    Even if the version that it offers is the one that it refused. Returns the last answer, and the version to
    go on with: None for a legacy server.
    # spec: basic/transports/streamable-http/era-modern-error
    """
    outcome = _probe(client, connection)
    chosen = judge(outcome, client.negotiated.revisions)
    if chosen is None or not isinstance(outcome, McpError):
        return outcome, chosen
    outcome = _probe(client, connection)
    return outcome, judge(outcome, client.negotiated.revisions)


def _no_modern_server(outcome: McpError, advice: str) -> LocalError:
    """The error for a refused probe, of a client that speaks modern versions alone."""
    if not isinstance(outcome, HttpError):
        return LocalError(
            f"the server is no modern one, it answered server/discover with {outcome}; {advice}"
        )
    return HttpFailure(
        outcome.status,
        f"{outcome}; {advice}",
        url=outcome.url,
        retry_after=outcome.retry_after,
        challenge=outcome.challenge,
    )


def _probe(client: Opens, connection: Connection) -> Any:
    """The result of server/discover, or an error that may tell the server's era; raises other errors."""
    try:
        return connection.request("server/discover", client.probe())
    except (ErrorResponse, HttpError) as problem:
        if isinstance(problem, HttpError) and _says_nothing(problem):
            raise
        return problem


def _says_nothing(problem: HttpError) -> bool:
    """Whether an answer says nothing about the era.

    That may be so although it has a JSON-RPC error in it: a server too busy for the probe might have room for
    initialize, and is no legacy server for that. But a modern error, or one about the method, is about the
    probe, with any status.
    """
    if isinstance(problem, RefusedByStatus) and problem.code in (*MODERN_CODES, MethodNotFound.code):
        return False
    return problem.status in SAYS_NOTHING or problem.status >= 500


def _greet(client: Opens, connection: Connection) -> None:
    """Open a session.  # spec: basic/transports/streamable-http/era-fallback-initialize"""
    try:
        result = connection.request("initialize", client.negotiated.hello())
    except (RefusedByStatus, HttpError) as problem:
        code = problem.code if isinstance(problem, RefusedByStatus) else None
        # A modern server knows no initialize, and says so with 404.
        modern = code in MODERN_CODES or code == MethodNotFound.code
        # spec: basic/transports/streamable-http/old-server-fallback-listed
        # spec: basic/transports/streamable-http/old-server-fallback-modern
        # spec: basic/transports/streamable-http/old-server-fallback-4xx
        if status_of(problem) in (400, 404, 405) and not modern:
            raise PerhapsOld(problem) from problem
        raise
    client.negotiated.open_legacy(connection, result)
