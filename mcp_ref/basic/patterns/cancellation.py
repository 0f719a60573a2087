"""Cancellation (page: basic/patterns/cancellation; basic/utilities/cancellation until 2025-11-25).

The sender of a request may say that it no longer wants the answer:

    notifications/cancelled {requestId, reason?}

The receiver stops the work if it can, and sends nothing more about that request. The notification races with
the answer: both sides accept either order. A cancellation of an unknown or finished request is ignored.

Revisions   2024-11-05  either side cancels its own requests, but never `initialize`
            2025-11-25  a task is cancelled with tasks/cancel instead
            2026-07-28  clients only, and on stdio only; a server sends it only to end a
                        subscriptions/listen stream (basic/patterns/subscriptions)

We cancel a request when its caller wants that, when its deadline passes, when its caller is interrupted, and
when the peer cancels the request on whose behalf it was made.

Threads     `on_cancelled` runs on the thread that reads messages. `send` runs on the thread that cancels; if
            the request for which ours was made is over, that is the thread that noticed it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, TypedDict

from mcp_ref.basic.index.general_fields import NotificationMeta
from mcp_ref.basic.index.messages import Json, RequestId, is_id
from mcp_ref.basic.utilities.tasks.data_types import related_as
from mcp_ref.basic.versioning import Notification
from mcp_ref.runtime.checks import check_seconds
from mcp_ref.runtime.errors import ConnectionClosed
from mcp_ref.runtime.logs import logger
from mcp_ref.runtime.threads.deadlines import Deadline
from mcp_ref.runtime.threads.outbox import Full
from mcp_ref.schema import required, since

if TYPE_CHECKING:
    from mcp_ref.basic.patterns.index.connection import Connection
    from mcp_ref.basic.patterns.index.requester import Call, Requester

__all__ = ["on_cancelled", "send"]

_log = logger("mcp_ref.cancellation")

# ---------------------------------------------------------------------------- shapes


class CancelledNotificationParams(TypedDict, total=False):
    _meta: Annotated[NotificationMeta, since("2025-11-25")]
    requestId: Annotated[RequestId, required(until="2025-06-18"), required(since="2026-07-28")]
    reason: str  # spec: basic/patterns/cancellation/reason-optional


# A server of 2026-07-28 sends it only to end a stream of subscriptions/listen.
# spec: basic/patterns/cancellation/server-cancels-listen
NOTIFICATIONS = (
    Notification("notifications/cancelled", "Cancelled", "either", params=CancelledNotificationParams),
)

# ----------------------------------------------------------------------------- sender


def deadline_of(connection: Requester, timeout: float | None) -> Deadline:
    """The deadline of a request: `timeout` seconds, or the connection's default. Progress restarts it, up to
    `max_timeout` in all.

    # spec: basic/patterns/cancellation/timeout-all-requests, basic/patterns/cancellation/timeout-hard-cap
    # spec: basic/patterns/cancellation/timeout-configurable
    # spec: basic/patterns/cancellation/timeout-reset-on-progress
    """
    seconds = connection.timeout if timeout is None else check_seconds("timeout", timeout)
    return Deadline(seconds, connection.clock, cap=connection.max_timeout)


def send(connection: Requester, call: Call, reason: str) -> None:
    """Send notifications/cancelled for a request of ours.

    The caller has popped it from `waiting`, so it was still running, and knows that it was sent.
    # spec: basic/patterns/cancellation/client-issued-only
    # spec: basic/patterns/cancellation/client-sends-cancelled

    A server of the modern era sends no requests, and so has none to cancel.
    # spec: basic/patterns/cancellation/server-cancels-nothing-else
    """
    if call.method == "initialize":  # spec: basic/patterns/cancellation/init-not-cancelled
        return
    try:
        # spec: basic/patterns/cancellation/stdio-cancelled-notification
        # spec: basic/patterns/cancellation/timeout-cancels-by-transport
        # spec: basic/patterns/cancellation/timeout-sends-cancelled
        # spec: basic/patterns/cancellation/request-id-required
        # spec: basic/patterns/cancellation/request-id-for-non-task
        # spec: basic/patterns/cancellation/request-id-required-again
        params: Json = {"requestId": call.id, "reason": reason}
        if connection.session.revision.tasks == "asked for":
            params = related_as(call.method, call.params or {}, params)
        try:
            connection.notify("notifications/cancelled", params, wait=0.2, outbox=call.outbox)
        except Full:
            raise  # the request may wait there, too, and its cancellation must not overtake it
        except ConnectionClosed:
            if call.outbox is connection.outbox:
                raise
            # The stream of the request that ours was made for has just ended; the session may have one more.
            connection.notify("notifications/cancelled", params, wait=0.2)
    except Full:
        _log.warning("%s: the peer reads nothing, and is not told of the cancellation", call.method)
    except ConnectionClosed:
        pass  # so the peer cannot be told


# --------------------------------------------------------------------------- receiver


def on_cancelled(connection: Connection, params: Json) -> None:
    """Cancel a request that the peer sent, if it still runs.

    Or end a subscription of ours: there the server cancels a request that the client sent.
    """
    request_id, reason = params.get("requestId"), params.get("reason")
    if not is_id(request_id):  # spec: basic/patterns/cancellation/ignore-malformed
        _log.info("ignored a cancellation without a proper requestId")
        return
    reason = reason if isinstance(reason, str) else None
    call = connection.waiting.get(request_id)
    if call is not None and call.method == "subscriptions/listen" and type(request_id) is int:
        connection.finish(call, {})  # the server ends the subscription; its response may still follow
    # Else only a request that the peer sent: a request of ours may have the same id.
    # spec: basic/patterns/cancellation/same-direction-only
    elif connection.responder.cancel_by_id(request_id, reason):
        # spec: basic/patterns/cancellation/log-reason, basic/patterns/cancellation/stop-processing
        # spec: basic/patterns/cancellation/free-resources, schema/cancelled-reason-shown
        _log.info("request %r was cancelled: %.200r", request_id, reason or "no reason given")
    else:
        # spec: basic/patterns/cancellation/ignore-invalid, basic/patterns/cancellation/ignore-completed
        # spec: basic/patterns/cancellation/may-ignore, schema/cancelled-late
        _log.debug("ignored a cancellation of %r: no such request runs", request_id)
