"""Subscriptions (page: basic/patterns/subscriptions): which client hears of which changes, in either era.

    client -> server   subscriptions/listen {notifications: {toolsListChanged?, resourceSubscriptions?, ...}}
    server -> client   notifications/subscriptions/acknowledged {notifications: what it agreed to}
    server -> client   notifications/tools/list_changed, notifications/resources/updated {uri}, ...
    server -> client   {resultType, _meta: {subscriptionId}}    when the server ends it; on stdio after
                                                                notifications/cancelled
    client -> server   notifications/cancelled                  when the client ends it; over HTTP it closes
                                                                the stream

The request stays open, and its id is in the `_meta` of all notifications that belong to it. No thread waits
while it is open.

Until 2025-11-25 the same changes are reported without such a request: those of lists, to every client to
which the server declared `listChanged`; those of resources, to the clients that sent resources/subscribe
(server/resources). One class, `Listeners`, serves both eras, as does one call on the client,
`client.listen(...)`.

This module has the shapes and the server's half; the client's is basic/patterns/subscriptions/client.

Revisions   2026-07-28 for subscriptions/listen; changes are reported in all.
Errors      too many subscriptions or URIs: TooManyRequests (429). A URI without a resource is left out of the
            acknowledgment.
Threads     `publish` may be called by any thread, and does not block: a thread `mcp_ref changes` sends the
            notifications. There is at most one, and it ends after one pass over all listeners. A client that
            does not read delays no other: its changes wait, each of them once.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, Protocol, Required, TypeAlias, TypedDict

from mcp_ref.basic.index.error_responses import MethodNotFound, TooManyRequests
from mcp_ref.basic.index.general_fields import SUBSCRIPTION_ID, Implementation, NotificationMeta, RequestMeta
from mcp_ref.basic.index.messages import Json, RequestId, add_modern_fields
from mcp_ref.basic.patterns.index.responder import DEFERRED, Deferred
from mcp_ref.basic.versioning import Method, Notification
from mcp_ref.runtime.errors import ConnectionClosed
from mcp_ref.runtime.logs import logger
from mcp_ref.runtime.stores.store import StoreError
from mcp_ref.runtime.threads import forks
from mcp_ref.runtime.threads.outbox import Full
from mcp_ref.runtime.threads.timers import later
from mcp_ref.schema import since

if TYPE_CHECKING:
    from mcp_ref.basic.patterns.index.connection import Connection
    from mcp_ref.basic.patterns.index.context import RequestContext

__all__ = ["AnyChange", "Change", "Listeners", "TaskChange", "on_listen"]

_log = logger("mcp_ref.subscriptions")

# ---------------------------------------------------------------------------- shapes


class SubscriptionFilter(TypedDict, total=False):
    """The changes that a client wants to hear of. A member that is left out means "not these".

    # spec: basic/patterns/subscriptions/omitted-means-unsubscribed
    """

    toolsListChanged: bool
    promptsListChanged: bool
    resourcesListChanged: bool
    resourceSubscriptions: list[str]


class SubscriptionsListenRequestParams(TypedDict, total=False):
    _meta: Required[RequestMeta]
    notifications: Required[SubscriptionFilter]


SubscriptionsListenResultMeta = TypedDict(
    "SubscriptionsListenResultMeta",
    {
        "io.modelcontextprotocol/serverInfo": Implementation,
        "io.modelcontextprotocol/subscriptionId": Required[RequestId],
    },
    total=False,
)


class SubscriptionsListenResult(TypedDict, total=False):
    _meta: Required[SubscriptionsListenResultMeta]
    resultType: Required[str]


class SubscriptionsAcknowledgedNotificationParams(TypedDict, total=False):
    _meta: NotificationMeta
    notifications: Required[SubscriptionFilter]


_MODERN = since("2026-07-28")
DEFINITIONS: dict[str, Any] = {
    "SubscriptionFilter": Annotated[SubscriptionFilter, _MODERN],
    "SubscriptionsListenResultMetaObject": Annotated[SubscriptionsListenResultMeta, _MODERN],
}

ACKNOWLEDGED = "notifications/subscriptions/acknowledged"


class Change(NamedTuple):
    """A change of a list ("tools", "prompts", "resources"), or of one "resource" (with its URI)."""

    kind: str
    uri: str | None = None

    @property
    def task_id(self) -> None:
        """None, since this is not the change of a task."""

    @property
    def method(self) -> str:
        """The notification that reports it."""
        return METHOD_BY_KIND[self.kind]


class TaskChange(NamedTuple):
    """A change of one task (mcp_ref/extensions/tasks)."""

    task_id: str

    @property
    def kind(self) -> str:
        """The kind of the change."""
        return "task"

    @property
    def uri(self) -> None:
        """None, since this is not the change of a resource."""

    @property
    def method(self) -> str:
        """The notification that reports it."""
        return METHOD_BY_KIND[self.kind]


AnyChange: TypeAlias = Change | TaskChange


METHOD_BY_KIND = {
    "tools": "notifications/tools/list_changed",
    "prompts": "notifications/prompts/list_changed",
    "resources": "notifications/resources/list_changed",
    "resource": "notifications/resources/updated",
    "task": "notifications/tasks",  # mcp_ref/extensions/tasks
}
KIND_BY_METHOD = {method: kind for kind, method in METHOD_BY_KIND.items()}
FILTER_MEMBERS = {
    "tools": "toolsListChanged",
    "prompts": "promptsListChanged",
    "resources": "resourcesListChanged",
}

# ----------------------------------------------------------------------- server half

MAX_STREAMS = 2_000
"""Open subscriptions/listen requests on one connection. Over HTTP all modern clients share a connection."""

MAX_URIS = 10_000
"""Resources and tasks, together, that a client may watch: in a legacy session, by all subscriptions on one
pipe, or by one subscription over HTTP."""

TOO_MANY_URIS = (
    f"a connection can watch {MAX_URIS} resources and tasks, and no more: unsubscribe from others first"
)

BURST_SECONDS = 0.02
"""How long changes are collected before a pass, so that equal ones become one notification."""

RETRY_SECONDS = 0.1
"""The pause before the next pass, if a client does not read."""

ACKNOWLEDGMENT_SECONDS = 0.5
"""How long `close` waits for acknowledgments that are being sent."""


class TaskSource(Protocol):
    """What this page needs of tasks (mcp_ref/extensions/tasks)."""

    def agreed_ids(self, wanted: Any, context: RequestContext) -> list[str]:
        """The tasks, of those wanted, whose changes may be reported to this client."""

    def described(self, task_id: str) -> Json | None:
        """The params of a notification about a task, in its present state; None if the task is gone."""


class Publisher(Protocol):
    """What this page needs of the server."""

    @property
    def listeners(self) -> Listeners:
        """The clients and subscriptions to which changes are reported."""

    def offers(self, capability: str) -> bool:
        """Whether the server has something behind a capability (a tool, for "tools"), had, or will have."""

    def has_resource(self, uri: str) -> bool:
        """Whether this URI can be read."""


def on_listen(server: Publisher, params: Json, context: RequestContext) -> Deferred:
    """Serve subscriptions/listen: acknowledge the subscription, and leave its request open.

    # spec: basic/patterns/subscriptions/ack-first, basic/patterns/subscriptions/nothing-before-ack
    # spec: basic/patterns/subscriptions/ack-lists-honoured-subset
    # spec: basic/patterns/subscriptions/ack-order-per-subscription
    # spec: basic/index/support-base-versioning-patterns
    """
    # Step 1: agree to the part of the filter that this server can serve.
    wanted = params["notifications"]
    agreed = _agree(server, wanted)
    if "taskIds" in wanted and server.offers("tasks"):
        agreed["taskIds"] = server.listeners.tasks.agreed_ids(wanted["taskIds"], context)
    # Step 2: add the stream, so that changes from now on are stored for it.
    kinds = {kind for kind, member in FILTER_MEMBERS.items() if member in agreed}
    stream = Stream(
        context, kinds, set(agreed.get("resourceSubscriptions", ())), frozenset(agreed.get("taskIds", ()))
    )
    server.listeners.add(stream)
    # Step 3: acknowledge it, before any change is reported.
    stream.say(ACKNOWLEDGED, {"notifications": agreed}, wait=None)
    # Step 4: report changes from now on. The response comes when the subscription ends.
    server.listeners.begin(stream)
    return DEFERRED


def _agree(server: Publisher, wanted: Json) -> Json:
    """The part of a filter that the server can serve: the lists that it offers, the resources that exist."""
    agreed: Json = {
        member: True for kind, member in FILTER_MEMBERS.items() if wanted.get(member) and server.offers(kind)
    }
    if "resourceSubscriptions" in wanted and server.offers("resources"):
        uris = list(dict.fromkeys(wanted["resourceSubscriptions"]))
        if len(uris) > MAX_URIS:
            raise TooManyRequests(TOO_MANY_URIS, 1.0)
        agreed["resourceSubscriptions"] = [uri for uri in uris if server.has_resource(uri)]
    return agreed


METHODS = (
    Method(
        "subscriptions/listen",
        on_listen,
        since="2026-07-28",
        params=SubscriptionsListenRequestParams,
        result=SubscriptionsListenResult,
    ),
)
NOTIFICATIONS = (
    Notification(
        ACKNOWLEDGED,
        "SubscriptionsAcknowledged",
        "server",
        since="2026-07-28",
        params=SubscriptionsAcknowledgedNotificationParams,
    ),
)


class Listener:
    """What changes are reported to: in the legacy era a session, as here; in the modern era a Stream."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        # Guarded by the lock of Listeners.
        self.uris: AbstractSet[str] = frozenset()  # replaced by a set at the first resources/subscribe
        self.pending: dict[AnyChange, None] = {}  # changes to report, each only once, in order

    @property
    def ready(self) -> bool:
        """Whether the session is open, so that notifications may be sent. Its changes wait until then."""
        return self.connection.session.is_ready

    def wants(self, change: AnyChange) -> bool:
        """Whether a change is reported to this client.

        # spec: schema/list-changed-unsubscribed
        """
        if change.uri is not None:
            return change.uri in self.uris
        return self.connection.session.declares_changes(change.kind)

    def say(self, method: str, params: Json | None, wait: float | None) -> None:
        """Send one notification."""
        self.connection.notify(method, params, wait=wait)


class Stream(Listener):
    """A subscriptions/listen request: only the changes that its filter names are reported to it."""

    def __init__(
        self,
        context: RequestContext,
        kinds: set[str],
        uris: set[str],
        task_ids: AbstractSet[str] = frozenset(),
    ) -> None:
        super().__init__(context.connection)
        self.context, self.acknowledged = context, False
        self.kinds, self.uris, self.task_ids = kinds, uris, task_ids

    @property
    def ready(self) -> bool:
        """Whether the subscription was acknowledged. Its changes wait until then."""
        return self.acknowledged

    def wants(self, change: AnyChange) -> bool:
        """Whether the filter names a change.

        # spec: basic/patterns/subscriptions/only-requested-types
        """
        if change.task_id is not None:
            return change.task_id in self.task_ids
        return change.kind in self.kinds if change.uri is None else change.uri in self.uris

    def say(self, method: str, params: Json | None, wait: float | None) -> None:
        """Send one notification of this subscription, unless it has ended.

        # spec: basic/patterns/subscriptions/id-is-request-id
        """
        with self.context.reports.speaking:
            if not self.context.is_over:
                tagged = {**(params or {}), "_meta": {SUBSCRIPTION_ID: self.context.request_id}}
                self.connection.notify(method, tagged, wait=wait, outbox=self.context.arrival.outbox)

    def end(self, reason: str) -> None:
        """End the subscription from the server's side: notifications/cancelled first, then the response.

        Over HTTP each request has a stream of its own. There the notification is left out: the stream ends
        after the response.

        # spec: basic/patterns/subscriptions/graceful-response
        # spec: basic/patterns/subscriptions/graceful-result-meta
        """
        name = self.context.request_id
        if not self.context.arrival.outbox.closes:
            with contextlib.suppress(Full):  # a client that reads nothing: the request ends all the same
                self.say("notifications/cancelled", {"requestId": name, "reason": reason}, wait=1.0)
        result = add_modern_fields({"_meta": {SUBSCRIPTION_ID: name}}, self.context)
        self.connection.responder.complete(self.context, result, wait=1.0)


class Listeners:
    """All clients and subscriptions to which the changes of one server are reported."""

    def __init__(self, tasks: TaskSource) -> None:
        self.tasks = tasks
        forks.register(self)
        self.forked()

    def forked(self) -> None:
        """Begin without listeners: at the start, and again in a forked child."""
        self._lock = threading.Lock()
        # All below guarded by _lock.
        self._sessions: dict[Connection, Listener] = {}
        self._streams: dict[Connection, list[Stream]] = {}
        self._closing: dict[Connection, str] = {}  # connections that `close` was called for, and the reason
        self._telling = False  # whether a pass is scheduled or under way

    def attach(self, connection: Connection) -> None:
        """Add a client. Changes are reported to it once its session is open."""
        with self._lock:
            self._sessions[connection] = Listener(connection)

    def detach(self, connection: Connection) -> None:
        """Remove a client that has gone, and its subscriptions.

        # spec: basic/patterns/subscriptions/ends-with-transport
        """
        with self._lock:
            self._sessions.pop(connection, None)
            self._streams.pop(connection, None)
            self._closing.pop(connection, None)

    def subscribe(self, connection: Connection, uri: str) -> None:
        """Legacy: serve resources/subscribe. Raises MethodNotFound, TooManyRequests."""
        if not connection.session.server_capabilities.get("resources", {}).get("subscribe"):
            raise MethodNotFound("resources/subscribe was not declared when this session began")
        with self._lock:
            listener = self._sessions.get(connection)
            if listener is not None:
                if len(listener.uris) >= MAX_URIS and uri not in listener.uris:
                    raise TooManyRequests(TOO_MANY_URIS, 1.0)
                listener.uris = listener.uris if isinstance(listener.uris, set) else set()
                listener.uris.add(uri)

    def unsubscribe(self, connection: Connection, uri: str) -> None:
        """Legacy: serve resources/unsubscribe."""
        with self._lock:
            listener = self._sessions.get(connection)
            if listener is not None and isinstance(listener.uris, set):
                listener.uris.discard(uri)

    def add(self, stream: Stream) -> None:
        """Modern: add a subscription, before it is acknowledged. It is removed when its request is cancelled.

        Raises TooManyRequests.
        """
        with self._lock:
            streams = self._streams.get(stream.connection, [])
            if len(streams) >= MAX_STREAMS:
                raise TooManyRequests(f"a connection has at most {MAX_STREAMS} subscriptions", 1.0)
            beside = [
                each for each in streams if each.context.arrival.outbox is stream.context.arrival.outbox
            ]
            if sum(len(each.uris) + len(each.task_ids) for each in (*beside, stream)) > MAX_URIS:
                raise TooManyRequests(TOO_MANY_URIS, 1.0)
            self._streams[stream.connection] = [*streams, stream]
        stream.context.ends_with(lambda reason: self._remove(stream))

    def begin(self, stream: Stream) -> None:
        """Modern: report changes to a subscription from now on, which was just acknowledged."""
        stream.acknowledged = True
        closing = self._closing.get(stream.connection)
        if closing is not None:
            self.close(stream.connection, closing)
        elif stream.pending:
            self._tell_soon()

    def opened(self, connection: Connection) -> None:
        """Legacy: report changes to a client from now on, whose session has just opened."""
        with self._lock:
            listener = self._sessions.get(connection)
        if listener is not None and listener.pending:
            self._tell_soon()

    def _remove(self, stream: Stream) -> bool:
        """Remove a subscription; False if it was removed before."""
        with self._lock:
            streams = self._streams.get(stream.connection, [])
            if stream not in streams:
                return False
            streams.remove(stream)
            if not streams:
                del self._streams[stream.connection]
            return True

    def close(self, connection: Connection, reason: str) -> None:
        """End the subscriptions of a client gracefully, the server's way (`Stream.end`).

        Waits a while for subscriptions that are just being acknowledged: nothing may be sent before that.
        """
        end, pause = time.monotonic() + ACKNOWLEDGMENT_SECONDS, threading.Event()
        while True:
            with self._lock:
                self._closing[connection] = reason
                streams = list(self._streams.get(connection, ()))
            for stream in streams:
                if stream.acknowledged and self._remove(stream):
                    with contextlib.suppress(ConnectionClosed):  # the client has closed this stream
                        self._tell_one(stream)  # the changes up to now
                        stream.end(reason)
            if all(stream.acknowledged for stream in streams) or time.monotonic() > end:
                return
            pause.wait(0.005)  # a worker is sending the acknowledgment

    def publish(self, change: AnyChange) -> None:
        """Report a change soon to all listeners that want it. Equal changes become one notification."""
        if change.task_id is not None and not self._streams:
            return  # without the lock: tasks change often, and only streams listen to them
        with self._lock:
            among = self._all() if change.task_id is None else self._all_streams()
            wanting = [listener for listener in among if listener.wants(change)]
            for listener in wanting:
                listener.pending[change] = None
        if wanting:
            self._tell_soon()

    def _all(self) -> Iterator[Listener]:
        """All listeners of both eras. With _lock held."""
        yield from self._sessions.values()
        yield from self._all_streams()

    def _all_streams(self) -> Iterator[Stream]:
        """All subscriptions of the modern era. With _lock held."""
        for streams in self._streams.values():
            yield from streams

    def _tell_soon(self, seconds: float = BURST_SECONDS) -> None:
        """Schedule a pass, unless one is scheduled or under way."""
        with self._lock:
            if self._telling:
                return
            self._telling = True
        self._start_or_log(lambda: later(seconds, self._start_telling))

    def _start_telling(self) -> None:
        """Run a pass on a thread of its own: a slow client must block neither the timers nor a worker."""
        thread = threading.Thread(target=self._tell_all, name="mcp_ref changes", daemon=True)
        self._start_or_log(thread.start)

    def _start_or_log(self, start: Callable[[], object]) -> None:
        """Start a timer or a thread. If the system has no more threads, log that."""
        try:
            start()
        except RuntimeError:  # the next change tries again
            _log.exception("the changes could not be reported")
            self._telling = False

    def _tell_all(self) -> None:
        """Run one pass. Changes that come meanwhile, or that could not be sent, are left to the next pass."""
        with self._lock:
            waiting = self._waiting()
        read_by = [self._tell_one(listener) for listener in waiting]
        with self._lock:
            self._telling = False
            more = bool(self._waiting())
        if more:
            self._tell_soon(BURST_SECONDS if all(read_by) else RETRY_SECONDS)

    def _waiting(self) -> list[Listener]:
        """The listeners with changes to send. With _lock held."""
        return [listener for listener in self._all() if listener.pending and listener.ready]

    def _tell_one(self, listener: Listener) -> bool:
        """Send the pending changes of a listener. False if its client does not read now, or the store of
        tasks fails: then the changes that were not sent are pending again.
        """
        with self._lock:
            changes = list(listener.pending)
            listener.pending.clear()
        for number, change in enumerate(changes):
            try:
                self._say(listener, change)
            except (Full, StoreError):
                with self._lock:
                    listener.pending = dict.fromkeys([*changes[number:], *listener.pending])
                return False
            except ConnectionClosed:
                self._leave(listener)
                break
        return True

    def _say(self, listener: Listener, change: AnyChange) -> None:
        """Send one change. For a task that is its present state; nothing if the task is gone."""
        params = None if change.uri is None else {"uri": change.uri}
        if change.task_id is not None:
            params = self.tasks.described(change.task_id)
            if params is None:
                return
        listener.say(change.method, params, wait=0.0)

    def _leave(self, listener: Listener) -> None:
        """Remove a listener whose connection is closed. For a subscription, perhaps only its stream is."""
        if isinstance(listener, Stream):
            self._remove(listener)
        else:
            self.detach(listener.connection)
