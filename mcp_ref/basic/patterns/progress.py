"""Progress (page: basic/patterns/progress; basic/utilities/progress until 2025-11-25).

A requester that wants to know how far its request is puts a `progressToken` into its `_meta`. The other
side may then send, as often as it likes and until it answers,

    notifications/progress {progressToken, progress, total?, message?}

with a `progress` that grows each time.

Revisions   2024-11-05  either direction
            2025-03-26  + message
            2026-07-28  from server to client only

Threads     `report` runs on the thread of the handler. `on_progress` runs on the reader, and appends the
            report to the call; the thread that waits for the answer then runs the callback. (No thread waits
            for a future: there the client's thread for events runs it.)
"""

from __future__ import annotations

import contextlib
import math
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, Required, TypeAlias, TypedDict

from mcp_ref.basic.index.general_fields import NotificationMeta
from mcp_ref.basic.index.messages import Json, RequestId
from mcp_ref.basic.versioning import Notification
from mcp_ref.runtime.logs import logger
from mcp_ref.schema import since

if TYPE_CHECKING:
    from mcp_ref.basic.patterns.index.connection import Connection
    from mcp_ref.basic.patterns.index.context import RequestContext
    from mcp_ref.basic.patterns.index.requester import Call

__all__ = ["OnProgress", "Report", "on_progress", "report", "with_token"]

_log = logger("mcp_ref.progress")

MAX_WAITING_REPORTS = 1000
"""Reports of one call that wait for a slow callback. The oldest are dropped: the newest says enough."""

MAX_WAITING_CHARACTERS = 1_000_000
"""Characters in the messages of these reports, each message taken to be as long as the newest."""

# ---------------------------------------------------------------------------- shapes

ProgressToken: TypeAlias = RequestId  # spec: basic/patterns/progress/token-string-or-integer


class ProgressNotificationParams(TypedDict, total=False):
    _meta: Annotated[NotificationMeta, since("2025-11-25")]
    progressToken: Required[ProgressToken]
    progress: Required[float]  # spec: basic/patterns/progress/value-float
    total: float
    message: Annotated[str, since("2025-03-26")]


DEFINITIONS: dict[str, Any] = {"ProgressToken": ProgressToken}

_PROGRESS: Json = {"definition": "Progress", "params": ProgressNotificationParams}
NOTIFICATIONS = (
    Notification("notifications/progress", sender="server", **_PROGRESS),
    Notification("notifications/progress", sender="client", until="2025-11-25", **_PROGRESS),
)


class Report(NamedTuple):
    """The arguments of a callback: `on_progress(progress, total, message)`."""

    progress: float
    total: float | None
    message: str | None


OnProgress: TypeAlias = Callable[[float, float | None, str | None], Any]

# ---------------------------------------------------------------------------- responder


def report(context: RequestContext, progress: float, total: float | None, message: str | None) -> None:
    """Send notifications/progress, if the peer gave a token and the progress has grown since the last report.

    Raises ValueError for values that are not finite numbers.

    # spec: basic/patterns/progress/send-optional, basic/patterns/progress/active-token-only
    # spec: basic/patterns/progress/may-send-none
    """
    reports = context.reports
    token = reports.progress_token
    if token is None:
        return
    _check_numbers(progress, total)
    # spec: basic/patterns/progress/payload, basic/patterns/progress/omit-total
    params: Json = {"progressToken": token, "progress": progress}
    if total is not None:
        params["total"] = total
    if message is not None and context.revision.progress_messages:
        params["message"] = message
    with reports.speaking:
        last = reports.progress_sent
        if last is None or progress > last:  # spec: basic/patterns/progress/value-increases
            reports.progress_sent = progress
            # `say` sends nothing for a request that is over.
            # spec: basic/patterns/progress/stop-after-completion, basic/patterns/progress/in-progress-only
            context.say("notifications/progress", params)  # spec: basic/patterns/progress/rate-limit


def _check_numbers(progress: float, total: float | None) -> None:
    if not (_is_number(progress) and (total is None or _is_number(total))):
        raise ValueError(f"progress and total must be finite numbers, not {progress!r} of {total!r}")


def progress_text(progress: float, total: float | None, message: str | None) -> str:
    """A report in words. Raises ValueError for values that are not finite numbers."""
    _check_numbers(progress, total)
    said = f"{progress:g}" if total is None else f"{progress:g} of {total:g}"
    return said if message is None else f"{message} ({said})"


MAX_SMALL_INTEGER = 1 << 53
"""Integers up to this are exact as floats. `_is_number` accepts smaller ones at once, and converts others."""


def _is_number(value: Any) -> bool:
    """Whether a value is a finite JSON number."""
    if type(value) is int and -MAX_SMALL_INTEGER < value < MAX_SMALL_INTEGER:  # the usual case
        return True
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer too large for a float
        return False


# ---------------------------------------------------------------------------- requester


def with_token(params: Json | None, call: Call) -> Json:
    """Params with a progress token, which is the id of the call. From now on the call takes reports.

    # spec: basic/patterns/progress/token-unique, basic/patterns/progress/token-in-request-meta
    """
    call.reports = deque(maxlen=MAX_WAITING_REPORTS)
    params = params or {}
    return {**params, "_meta": {**params.get("_meta", {}), "progressToken": call.id}}


def on_progress(connection: Connection, params: Json) -> None:
    """Append a report that arrived to the call that its token names, and restart the call's time-out."""
    token, progress = params.get("progressToken"), params.get("progress")
    # spec: basic/patterns/progress/track-tokens
    reporter = connection.session.reporters.get(token) if type(token) is str else None
    if reporter is not None and _is_number(progress):
        reporter(_report_of(params))
        return
    call = connection.waiting.get(token) if type(token) is int else None
    # A modern server sends no requests, so no report of a client finds a call here.
    # spec: basic/patterns/progress/server-to-client-only
    if call is None or call.reports is None:
        _log.info("ignored progress for %r: no running request wants it", token)
        return
    if not _is_number(progress):
        _log.info("ignored progress that is no number: %.80r", progress)
        return
    call.deadline.restart()  # first: the thread that takes the report looks at the deadline next
    _append(call.reports, _report_of(params))
    call.wake()
    if call.on_report is not None:
        call.on_report(call)


def _report_of(params: Json) -> Report:
    """The report in these params. Optional members of a wrong type count as None."""
    total, message = params.get("total"), params.get("message")
    return Report(
        params["progress"],
        total if _is_number(total) else None,
        message if isinstance(message, str) else None,
    )


def _append(reports: deque[Report], report: Report) -> None:
    """Append a report for the caller; the oldest are dropped while all messages together may be too long."""
    with contextlib.suppress(IndexError):  # the caller may take the last one at the same time
        while len(reports) * len(report.message or "") > MAX_WAITING_CHARACTERS:
            reports.popleft()
    reports.append(report)
