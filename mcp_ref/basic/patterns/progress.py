"""Progress (page: basic/patterns/progress; basic/utilities/progress until 2025-11-25).

Whoever wants to hear how far a request is puts a `progressToken` into its `_meta`; the other side
may then send, as often as it likes and until it answers,

    notifications/progress {progressToken, progress, total?, message?}

with a `progress` that grows each time.

Revisions   2024-11-05  either direction
            2025-03-26  + message
            2026-07-28  from server to client only

Threads     `report` runs on the thread that works; `on_progress` on the reader, which leaves the
            report with the call; the thread that waits for the answer then runs the callback (where
            none waits, for a future: the client's thread for events).
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

__all__ = ["OnProgress", "Report", "ask", "on_progress", "report"]

_log = logger("mcp_ref.progress")

KEPT = 1000
"""Reports that wait for a slow callback; older ones give way, since the newest says it all."""
MAX_WAITING_CHARACTERS = 1_000_000
"""Of their messages: so many reports as long as the newest may wait."""

# ---------------------------------------------------------------------------- shapes

ProgressToken: TypeAlias = RequestId


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
    """What a callback gets: `on_progress(progress, total, message)`."""

    progress: float
    total: float | None
    message: str | None


OnProgress: TypeAlias = Callable[[float, float | None, str | None], Any]

# ----------------------------------------------------------------------- whoever works


def report(context: RequestContext, progress: float, total: float | None, message: str | None) -> None:
    """Send a report, if the peer asked for any and this one is news.

    # spec: basic/patterns/progress/send-optional, basic/patterns/progress/active-token-only
    # spec: basic/patterns/progress/may-send-none
    """
    token = context.progress_token
    if token is None or context.is_over:  # spec: basic/patterns/progress/stop-after-completion
        return
    if not _is_number(progress) or (total is not None and not _is_number(total)):
        raise ValueError(f"progress and total are finite numbers, not {progress!r} of {total!r}")
    # spec: basic/patterns/progress/payload
    params: Json = {"progressToken": token, "progress": progress}
    if total is not None:  # spec: basic/patterns/progress/omit-total
        params["total"] = total
    if message is not None and context.revision.reaches("2025-03-26"):
        params["message"] = message
    with context.speaking:
        last = context.progress_sent
        if last is None or progress > last:  # spec: basic/patterns/progress/value-increases
            context.progress_sent = progress
            context.say("notifications/progress", params)


def _is_number(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer beyond what a float can hold
        return False


# ------------------------------------------------------------------------ whoever asked


def ask(params: Json | None, call: Call) -> Json:
    """The params of a request whose progress is wanted. Its id serves as the token.

    # spec: basic/patterns/progress/token-unique, basic/patterns/progress/token-in-request-meta
    """
    call.reports = deque(maxlen=KEPT)
    params = params or {}
    return {**params, "_meta": {**params.get("_meta", {}), "progressToken": call.id}}


def on_progress(connection: Connection, params: Json) -> None:
    """A report arrived: leave it with the call it belongs to, and restart that call's clock."""
    token, progress = params.get("progressToken"), params.get("progress")
    total, message = params.get("total"), params.get("message")
    # spec: basic/patterns/progress/track-tokens
    call = connection.waiting.get(token) if type(token) is int else None
    # A modern server asks nothing, and so waits for no report of a client.
    # spec: basic/patterns/progress/server-to-client-only
    if call is None or call.reports is None:
        _log.info("ignored progress for %r, which nobody waits for", token)
        return
    if progress is None or not _is_number(progress):
        _log.info("ignored progress that is no number: %.80r", progress)
        return
    total = total if _is_number(total) else None
    report = Report(progress, total, message if isinstance(message, str) else None)
    with contextlib.suppress(IndexError):  # whoever takes them may take the last one meanwhile
        while len(call.reports) * len(report.message or "") > MAX_WAITING_CHARACTERS:
            call.reports.popleft()
    call.reports.append(report)
    call.deadline.restart()
    call.wake()
    if call.on_report is not None:
        call.on_report(call)
