"""Subscriptions (page: basic/patterns/subscriptions): who hears of which changes, in either era.

    client -> server   subscriptions/listen {notifications: {toolsListChanged?, resourceSubscriptions?, ...}}
    server -> client   notifications/subscriptions/acknowledged {notifications: what it agreed to}
    server -> client   notifications/tools/list_changed, notifications/resources/updated {uri}, ...
    server -> client   {}            the response, when the server ends it; or the client cancels it

The request stays open, and its id stands in the `_meta` of all that belongs to it. No thread waits for it.

Until 2025-11-25 the same changes flow without asking: of lists, to every client that was told of
`listChanged`; of resources, to those that sent resources/subscribe (server/resources). Behind the two
ways stands one list of listeners, and on the client one call, `client.listen(...)`.

Here are the shapes and the server's half; the client's is basic/patterns/subscriptions/client.

Revisions   2026-07-28 for subscriptions/listen; the changes in all.
Errors      too many listeners or URIs: 429. URIs of no resource are left out of the acknowledgment.
Threads     `tell` may be called by any thread, and does not wait: clients hear of a change from
            `mcp_ref changes`, one thread at a time, which lives for one round. A client that does not
            read holds up no other: what it is to hear waits, each change once.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, Required, TypedDict

from mcp_ref.basic.index.error_responses import (
    MethodNotFound,
    TooManyRequests,
)
from mcp_ref.basic.index.general_fields import SUBSCRIPTION_ID, Implementation, NotificationMeta, RequestMeta
from mcp_ref.basic.index.messages import Json, RequestId
from mcp_ref.basic.patterns.index.connection import DEFERRED
from mcp_ref.basic.versioning import Method, Notification, dress
from mcp_ref.runtime.errors import ConnectionClosed
from mcp_ref.runtime.logs import logger
from mcp_ref.runtime.threads import forks
from mcp_ref.runtime.threads.outbox import Full
from mcp_ref.runtime.threads.timers import later
from mcp_ref.schema import since

if TYPE_CHECKING:
    from mcp_ref.basic.patterns.index.connection import Connection
    from mcp_ref.basic.patterns.index.context import RequestContext

__all__ = ["Change", "Listeners", "on_listen"]

_log = logger("mcp_ref.subscriptions")

# ---------------------------------------------------------------------------- shapes


class SubscriptionFilter(TypedDict, total=False):
    """What is not in it is not told.  # spec: basic/patterns/subscriptions/omitted-means-unsubscribed"""

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


_LAST = since("2026-07-28")
DEFINITIONS: dict[str, Any] = {
    "SubscriptionFilter": Annotated[SubscriptionFilter, _LAST],
    "SubscriptionsListenResultMetaObject": Annotated[SubscriptionsListenResultMeta, _LAST],
}

ACKNOWLEDGED = "notifications/subscriptions/acknowledged"


class Change(NamedTuple):
    """Something that is no longer as it was: a list ("tools", "prompts", "resources") or a "resource"."""

    kind: str
    uri: str | None = None

    @property
    def method(self) -> str:
        """The notification that tells it."""
        return NOTICES[self.kind]


NOTICES = {
    "tools": "notifications/tools/list_changed",
    "prompts": "notifications/prompts/list_changed",
    "resources": "notifications/resources/list_changed",
    "resource": "notifications/resources/updated",
}
KINDS = {method: kind for kind, method in NOTICES.items()}
LISTS = {"tools": "toolsListChanged", "prompts": "promptsListChanged", "resources": "resourcesListChanged"}

# ----------------------------------------------------------------------- server half

MAX_STREAMS, MAX_URIS = 2_000, 10_000
"""What one connection has at most: subscriptions/listen requests, and resources that it watches."""
TOO_MANY_URIS = f"a connection watches at most {MAX_URIS} resources"

BURST = 0.02
"""Seconds in which several changes of the same become one notification."""
AGAIN = 0.1
"""Seconds until a client that does not read is tried again."""
LAST = 0.5
"""Seconds that an acknowledgment gets whose connection is about to end."""


def on_listen(server: Any, params: Json, context: RequestContext) -> Any:
    """Acknowledge, and leave the request open.

    # spec: basic/patterns/subscriptions/ack-first, basic/patterns/subscriptions/nothing-before-ack
    # spec: basic/patterns/subscriptions/ack-lists-honoured-subset
    # spec: basic/patterns/subscriptions/ack-order-per-subscription
    # spec: basic/index/support-base-versioning-patterns
    """
    wanted = params["notifications"]
    agreed: Json = {name: True for kind, name in LISTS.items() if wanted.get(name) and server.offers(kind)}
    if "resourceSubscriptions" in wanted and server.offers("resources"):
        uris = list(dict.fromkeys(wanted["resourceSubscriptions"]))
        if len(uris) > MAX_URIS:
            raise TooManyRequests(TOO_MANY_URIS, 1.0)
        agreed["resourceSubscriptions"] = [uri for uri in uris if server.has_resource(uri)]
    kinds = {kind for kind, member in LISTS.items() if member in agreed}
    stream = Stream(context, kinds, set(agreed.get("resourceSubscriptions", ())))
    server.listeners.add(stream)
    stream.say(ACKNOWLEDGED, {"notifications": agreed}, wait=None)
    server.listeners.begin(stream)
    return DEFERRED


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
    """A client of the legacy era: it hears of the lists that were declared, and of what it subscribed to."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        # Guarded by the lock of Listeners.
        self.uris: AbstractSet[str] = frozenset()  # until there is one
        self.pending: dict[Change, None] = {}

    @property
    def ready(self) -> bool:
        """Whether it may be told something by now; what it is to hear waits until then."""
        return self.connection.session.is_ready

    def wants(self, change: Change) -> bool:
        """# spec: server/resources/updated-notification, basic/lifecycle/negotiated-capabilities-only
        # spec: schema/list-changed-unsubscribed
        """
        if change.uri is not None:
            return change.uri in self.uris
        return self.connection.session.declares_changes(change.kind)

    def say(self, method: str, params: Json | None, wait: float | None) -> None:
        """Send one notification."""
        self.connection.notify(method, params, wait=wait)


class Stream(Listener):
    """A subscriptions/listen request: it hears of what its filter names, and of nothing else."""

    def __init__(self, context: RequestContext, kinds: set[str], uris: set[str]) -> None:
        super().__init__(context.connection)
        self.context, self.acknowledged = context, False
        self.kinds, self.uris = kinds, uris

    @property
    def ready(self) -> bool:
        """Whether it was acknowledged."""
        return self.acknowledged

    def wants(self, change: Change) -> bool:
        """# spec: basic/patterns/subscriptions/only-requested-types, server/resources/updated-on-listen
        # spec: server/tools/list-changed-subscribed, server/prompts/list-changed-subscribed
        """
        return change.kind in self.kinds if change.uri is None else change.uri in self.uris

    def say(self, method: str, params: Json | None, wait: float | None) -> None:
        """Send one notification of this subscription; nothing after its end.

        # spec: basic/patterns/subscriptions/id-is-request-id, basic/index/meta-subscription-id
        """
        with self.context.speaking:
            if not self.context.is_over:
                tagged = {**(params or {}), "_meta": {SUBSCRIPTION_ID: self.context.request_id}}
                self.connection.notify(method, tagged, wait=wait, outbox=self.context.outbox)

    def end(self, reason: str) -> None:
        """The server ends it: notifications/cancelled first and the response last. Where each request has a
        stream of its own, the end of that says it, after the response.

        # spec: basic/patterns/subscriptions/graceful-response
        # spec: basic/patterns/subscriptions/graceful-result-meta
        # spec: basic/patterns/cancellation/server-cancels-listen
        """
        name = self.context.request_id
        if not self.context.outbox.closes:
            self.say("notifications/cancelled", {"requestId": name, "reason": reason}, wait=1.0)
        result = dress({"_meta": {SUBSCRIPTION_ID: name}}, self.context, None)
        self.connection.complete(self.context, result, wait=1.0)


class Listeners:
    """Everybody who hears of the changes of one server."""

    def __init__(self) -> None:
        forks.tell(self)
        self.forked()

    def forked(self) -> None:
        """At the beginning, and again in a forked child: nobody hears of changes yet."""
        self._lock = threading.Lock()
        # All below guarded by _lock.
        self._sessions: dict[Connection, Listener] = {}
        self._streams: dict[Connection, list[Stream]] = {}
        self._closing: dict[Connection, str] = {}
        self._telling = False

    def attach(self, connection: Connection) -> None:
        """A client is there. It hears something once its session is open."""
        with self._lock:
            self._sessions[connection] = Listener(connection)

    def detach(self, connection: Connection) -> None:
        """It is gone, and its subscriptions with it.

        # spec: basic/patterns/subscriptions/ends-with-transport
        """
        with self._lock:
            self._sessions.pop(connection, None)
            self._streams.pop(connection, None)
            self._closing.pop(connection, None)

    def subscribe(self, connection: Connection, uri: str) -> None:
        """Legacy: resources/subscribe.  # spec: architecture/index/subscription-capability-needed"""
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
        """Legacy: resources/unsubscribe."""
        with self._lock:
            listener = self._sessions.get(connection)
            if listener is not None and isinstance(listener.uris, set):
                listener.uris.discard(uri)

    def add(self, stream: Stream) -> None:
        """Modern: a subscription that is to be acknowledged. It ends with its request."""
        with self._lock:
            streams = self._streams.get(stream.connection, [])
            if len(streams) >= MAX_STREAMS:
                raise TooManyRequests(f"a connection has at most {MAX_STREAMS} subscriptions", 1.0)
            beside = [each for each in streams if each.context.outbox is stream.context.outbox]
            if sum(len(each.uris) for each in (*beside, stream)) > MAX_URIS:
                raise TooManyRequests(TOO_MANY_URIS, 1.0)
            self._streams[stream.connection] = [*streams, stream]
        stream.context.ends_with(lambda reason: self._remove(stream))

    def begin(self, stream: Stream) -> None:
        """It was acknowledged: what changed meanwhile is told now."""
        stream.acknowledged = True
        closing = self._closing.get(stream.connection)
        if closing is not None:
            self.close(stream.connection, closing)
        elif stream.pending:
            self._tell_soon()

    def opened(self, connection: Connection) -> None:
        """Legacy: the client is ready for what changed meanwhile."""
        with self._lock:
            listener = self._sessions.get(connection)
        if listener is not None and listener.pending:
            self._tell_soon()

    def _remove(self, stream: Stream) -> bool:
        with self._lock:
            streams = self._streams.get(stream.connection, [])
            if stream not in streams:
                return False
            streams.remove(stream)
            if not streams:
                del self._streams[stream.connection]
            return True

    def close(self, connection: Connection, reason: str) -> None:
        """End the subscriptions of a client, gracefully; also those that are being acknowledged just now."""
        end, pause = time.monotonic() + LAST, threading.Event()
        while True:
            with self._lock:
                self._closing[connection] = reason
                streams = list(self._streams.get(connection, ()))
            for stream in streams:
                if stream.acknowledged and self._remove(stream):
                    with contextlib.suppress(ConnectionClosed):  # this one's client went first
                        stream.end(reason)
            if all(stream.acknowledged for stream in streams) or time.monotonic() > end:
                return
            pause.wait(0.005)  # a worker is at it

    def tell(self, change: Change) -> None:
        """Something changed: whoever wants to hear of it will, soon, and once for many changes."""
        with self._lock:
            wanting = [listener for listener in self._all() if listener.wants(change)]
            for listener in wanting:
                listener.pending[change] = None
        if wanting:
            self._tell_soon()

    def _all(self) -> Iterator[Listener]:
        """Holds _lock."""
        yield from self._sessions.values()
        for streams in self._streams.values():
            yield from streams

    def _tell_soon(self, seconds: float = BURST) -> None:
        with self._lock:
            if self._telling:
                return
            self._telling = True
        self._on_a_thread(lambda: later(seconds, self._tell_on_a_thread))

    def _tell_on_a_thread(self) -> None:
        """Neither the timers may wait for a client that does not read, nor clients for a free worker."""
        thread = threading.Thread(target=self._tell_all, name="mcp_ref changes", daemon=True)
        self._on_a_thread(thread.start)

    def _on_a_thread(self, start: Callable[[], object]) -> None:
        try:
            start()
        except RuntimeError:  # the system has no more threads to give: the next change tries again
            _log.exception("clients are not told what changed")
            self._telling = False

    def _tell_all(self) -> None:
        """One round; what changed meanwhile, or could not be told, is for the next."""
        with self._lock:
            waiting = self._waiting()
        told = [self._tell_one(listener) for listener in waiting]
        with self._lock:
            self._telling = False
            more = bool(self._waiting())
        if more:
            self._tell_soon(BURST if all(told) else AGAIN)

    def _waiting(self) -> list[Listener]:
        """Those that something is to be told. Holds _lock."""
        return [listener for listener in self._all() if listener.pending and listener.ready]

    def _tell_one(self, listener: Listener) -> bool:
        """False if the client does not read just now."""
        with self._lock:
            changes = list(listener.pending)
            listener.pending.clear()
        for number, change in enumerate(changes):
            params = None if change.uri is None else {"uri": change.uri}
            try:
                listener.say(change.method, params, wait=0.0)
            except Full:
                with self._lock:
                    listener.pending = dict.fromkeys([*changes[number:], *listener.pending])
                return False
            except ConnectionClosed:
                self._leave(listener)
        return True

    def _leave(self, listener: Listener) -> None:
        """Its client is gone: of a subscription that may be no more than its own stream."""
        if isinstance(listener, Stream):
            self._remove(listener)
        else:
            self.detach(listener.connection)
