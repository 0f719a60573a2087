"""Requests that are sent again: `connect(url, retry=Retry(5))`.

One rule: a request that was certainly not done is sent again; one that may have been done is sent again only
if doing it twice does no harm.

    what became of it                                      sent again
    no connection: it never left                           any request
    turned away: 429, or 503 with Retry-After              any request
    lost with its event stream, in 2026-07-28              any request: the stream's end has cancelled it
    lost: the connection ended, 502, 503, 504              methods in READS; a tool that declares
                                                           `readOnlyHint` or `idempotentHint`
                                                           (anything else: MayHaveRun)
    no answer in time; refused; answered                   nothing

`becomes_of` and `is_harmless` are this table. When no attempt is left, the error of the last one is raised.
If that says that nothing was done, but an earlier attempt was lost, the request may still have been done
then: so MayHaveRun is raised, with the last error as its cause.

A server's Retry-After is waited for; otherwise the pauses grow, with a random part. Each attempt has the
whole `timeout`.

Not here    `submit`, whose futures are never sent again, and notifications.
Revisions   all.
Errors      MayHaveRun; or the error of the last attempt.
Threads     the caller's: it waits between two attempts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from mcp_ref.basic.index.error_responses import ErrorResponse, HttpError, TooManyRequests
from mcp_ref.basic.index.messages import Json
from mcp_ref.runtime import chance
from mcp_ref.runtime.checks import check_count, check_seconds
from mcp_ref.runtime.errors import ConnectionClosed, McpError, NotReached, StreamBroken
from mcp_ref.runtime.logs import logger
from mcp_ref.runtime.threads.flags import Flag
from mcp_ref.server.tools import KnownTools

__all__ = ["MayHaveRun", "Retry", "begun_before"]

_log = logger("mcp_ref.client")


class MayHaveRun(ConnectionClosed):
    """A request was lost after it was sent, and the server may have done it."""


def begun_before(method: str, problem: NotReached) -> MayHaveRun:
    """The error for a request that the server had begun before it could no longer be reached."""
    error = MayHaveRun(f"{method}: {problem}. The server had begun it before")
    error.__cause__ = problem
    return error


@dataclass(frozen=True)
class Retry:
    """How often a request is sent again, and after which pauses. Raises TypeError, ValueError."""

    times: int = 3
    """Attempts after the first."""
    pause: float = 0.2
    """Seconds before the second attempt; each pause is twice the one before it."""
    longest: float = 30.0
    """Seconds of the longest pause. If a server wants a longer one, the request is not sent again."""

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
"""Methods that may be done twice: the second time changes nothing more."""

LOST_BEHIND_A_PROXY = frozenset({502, 503, 504})
"""HTTP statuses with which a proxy answers when its server may have received the request."""

End: TypeAlias = Literal["never left", "turned away", "lost with its stream", "lost"]
"""What became of a request without a result: a row of the table."""


def becomes_of(problem: McpError) -> End | None:
    """The row of the table for an error; None if the request is never sent again after it."""
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
    """Whether a request may be done twice.

    The annotations of a tool are believed, if it was listed: `retry=` is for servers that are trusted.
    """
    if method != "tools/call":
        return method in READS
    tool = tools.find(params.get("name"))
    hints = (tool or {}).get("annotations") or {}
    return hints.get("readOnlyHint") is True or hints.get("idempotentHint") is True


def wanted_pause(problem: McpError) -> float | None:
    """Seconds after which the server wants the request again; None if it did not say."""
    if isinstance(problem, HttpError) and problem.retry_after is not None:
        return problem.retry_after
    if isinstance(problem, ErrorResponse) and problem.code == TooManyRequests.code:
        data = problem.data if isinstance(problem.data, dict) else {}
        wait = data.get("retryAfterMs")
        if isinstance(wait, int | float) and wait >= 0:
            return wait / 1000
    return None


class Closes(Protocol):
    """What this module needs of a client: its tools, and whether it is closed."""

    @property
    def tools(self) -> KnownTools: ...

    @property
    def closing(self) -> Flag: ...


class Attempts:
    """The attempts at one request."""

    def __init__(self, client: Closes, retry: Retry, method: str, params: Json) -> None:
        self._client, self._retry, self._method, self._params = client, retry, method, params
        self._left, self._pause = retry.times, retry.pause
        self._lost: str | None = None
        """The error of an earlier attempt that was lost after it was sent."""

    def wait(self, problem: McpError) -> None:
        """Wait before the next attempt. Raises the problem, or MayHaveRun, if no other attempt is made."""
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
        """What to raise if this attempt is the last. MayHaveRun if an earlier one was lost and this one says
        that nothing was done: that is true of this attempt alone.
        """
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
        """Wait so many seconds. Raises the problem if the client is closed meanwhile."""
        if self._client.closing.wait(pause):
            raise problem


CHANCE_OF_A_PAUSE = 0.1
"""A random part of a pause, at most this, is added to it: so many clients do not come back at one moment."""
