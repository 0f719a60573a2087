"""Requests that are sent again: `connect(url, retry=Retry(5))`.

One rule: what surely was not done is sent again, and what may have been done is sent again if doing it twice
does no harm.

    what became of it                                      sent again
    no connection: it never left                           whatever it is
    turned away: 429, or 503 with Retry-After              whatever it is
    lost with its event stream, in 2026-07-28              whatever it is: the stream's end has cancelled it
    lost: the connection ended, 502, 503, 504              what is in READS; a tool that declares
                                                           `readOnlyHint` or `idempotentHint`
                                                           (anything else: MayHaveRun)
    no answer in time; refused; answered                   nothing

`becomes_of` and `is_harmless` are this table. The end of the last time is raised. But where an earlier one
was lost, an end that says that nothing was done is no news of that: MayHaveRun, with that end as its cause.

A server's Retry-After is waited for; otherwise the pauses grow, with a part that is left to chance.
`timeout` is for each time by itself.

Not here    `submit`, whose futures are never sent again, and notifications.
Revisions   all.
Errors      MayHaveRun; or the last error, when there were enough of them.
Threads     the caller's: it waits between two times.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from mcp_ref.basic.index.error_responses import ErrorResponse, HttpError, TooManyRequests
from mcp_ref.basic.index.messages import Json
from mcp_ref.runtime import chance
from mcp_ref.runtime.checks import check_count, check_seconds
from mcp_ref.runtime.errors import ConnectionClosed, McpError, NotReached, StreamBroken
from mcp_ref.runtime.logs import logger
from mcp_ref.server.tools import KnownTools

__all__ = ["MayHaveRun", "Retry", "begun_before"]

_log = logger("mcp_ref.client")


class MayHaveRun(ConnectionClosed):
    """A request was lost after it was sent, and the server may have done it."""


def begun_before(method: str, problem: NotReached) -> MayHaveRun:
    """The error for a request that the server had begun when it could not be reached any more."""
    error = MayHaveRun(f"{method}: {problem}. The server had begun it before")
    error.__cause__ = problem
    return error


@dataclass(frozen=True)
class Retry:
    """How often, and how patiently, a request is sent again. Raises TypeError, ValueError."""

    times: int = 3
    """Beyond the first."""
    pause: float = 0.2
    """Seconds before the second time; each pause is twice the one before it."""
    longest: float = 30.0
    """Seconds of the longest pause. A server that wants a longer one is not asked again."""

    def __post_init__(self) -> None:
        check_count(1, times=self.times)
        check_seconds("pause", self.pause)
        check_seconds("longest", self.longest)


READS = frozenset(
    {
        "completion/complete",
        "initialize",
        "ping",
        "prompts/get",
        "prompts/list",
        "resources/list",
        "resources/read",
        "resources/subscribe",
        "resources/templates/list",
        "resources/unsubscribe",
        "server/discover",
        "logging/setLevel",
        "tasks/get",
        "tasks/list",
        "tasks/result",
        "tools/list",
    }
)
"""Methods that change nothing when they are done twice."""

LOST_BEHIND_A_PROXY = frozenset({502, 503, 504})
"""HTTP statuses of a proxy whose server may have got the request."""

End: TypeAlias = Literal["never left", "turned away", "lost with its stream", "lost"]
"""What became of a request that has no answer, as the table has it."""


def becomes_of(problem: McpError) -> End | None:
    """The row of the table; None for an end after which nothing is sent again."""
    if isinstance(problem, NotReached):
        return "never left"
    if isinstance(problem, StreamBroken):
        return "lost with its stream"
    if isinstance(problem, HttpError) and problem.status in LOST_BEHIND_A_PROXY:
        return "turned away" if problem.retry_after is not None else "lost"
    if isinstance(problem, HttpError | ErrorResponse):
        return "turned away" if _is_too_many(problem) else None
    return "lost" if isinstance(problem, ConnectionClosed) else None


def _is_too_many(problem: HttpError | ErrorResponse) -> bool:
    return 429 in (getattr(problem, "status", None), getattr(problem, "code", None))


def is_harmless(method: str, params: Json, tools: KnownTools) -> bool:
    """Whether a request may be done twice. What a tool says of itself is believed, if it was listed."""
    if method != "tools/call":
        return method in READS
    tool = tools.find(params.get("name"))
    hints = (tool or {}).get("annotations") or {}
    return hints.get("readOnlyHint") is True or hints.get("idempotentHint") is True


def wanted_pause(problem: McpError) -> float | None:
    """Seconds after which the server wants to be asked again, if it said so."""
    if isinstance(problem, HttpError) and problem.retry_after is not None:
        return problem.retry_after
    if isinstance(problem, ErrorResponse) and problem.code == TooManyRequests.code:
        data = problem.data if isinstance(problem.data, dict) else {}
        wait = data.get("retryAfterMs")
        if isinstance(wait, int | float) and wait >= 0:
            return wait / 1000
    return None


class Closes(Protocol):
    """A client, as far as a wait of its caller ends with it."""

    @property
    def tools(self) -> KnownTools: ...

    @property
    def is_closed(self) -> bool: ...


class Attempts:
    """The times that one request is sent."""

    def __init__(self, client: Closes, retry: Retry, method: str, params: Json) -> None:
        self._client, self._retry, self._method, self._params = client, retry, method, params
        self._left, self._pause = retry.times, retry.pause
        self._lost: str | None = None
        """How an earlier time was lost after it was sent."""

    def wait(self, problem: McpError) -> None:
        """Wait until the request is to be sent again. Raises the problem if it is not, or MayHaveRun."""
        end = becomes_of(problem)
        if end is None:
            raise problem
        if end == "lost" and not is_harmless(self._method, self._params, self._client.tools):
            raise MayHaveRun(
                f"{self._method}: {problem}. The request was sent, and the server may have done it; so it is"
                " not sent again"
            ) from problem
        last = self._if_last(end, problem)
        pause = wanted_pause(problem)
        if self._left == 0 or (pause or 0.0) > self._retry.longest:
            raise last
        if pause is None:
            pause, self._pause = self._pause, min(2 * self._pause, self._retry.longest)
        self._left -= 1
        pause *= 1 + CHANCE_OF_A_PAUSE * chance.fraction()
        _log.info("%s is sent again in %.2f s: %.300r", self._method, pause, problem)
        self._sleep(pause, last)

    def _if_last(self, end: End, problem: McpError) -> McpError:
        """What to raise if this time is the last: that nothing was done is true of this time alone."""
        if end in ("lost", "lost with its stream"):
            self._lost = str(problem)
        elif self._lost is not None:
            error = MayHaveRun(
                f"{self._method}: {problem}. It was sent before, and the server may have done it then:"
                f" {self._lost}"
            )
            error.__cause__ = problem
            return error
        return problem

    def _sleep(self, pause: float, problem: McpError) -> None:
        """Wait so long. Raises the problem if the client is closed meanwhile."""
        end = time.monotonic() + pause
        while (left := end - time.monotonic()) > 0:
            if self._client.is_closed:
                raise problem
            time.sleep(min(left, MAX_NAP_SECONDS))


MAX_NAP_SECONDS = 0.1
"""For which the end of the client may go unnoticed in a pause."""

CHANCE_OF_A_PAUSE = 0.1
"""The part of a pause that is left to chance, so that many clients do not come back at the same moment."""
