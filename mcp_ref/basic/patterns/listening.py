"""Listening (page: basic/patterns/subscriptions): the client's half, one call for both eras.

    with client.listen(tools=True, resources=["file:///a"]) as changes:
        for change in changes:            # blocks; ends when closed from any thread
            print(change.kind, change.uri)

    modern   a subscriptions/listen request, open for as long as somebody listens
    legacy   resources/subscribe for each URI; lists are told of anyway

Revisions   all.
Errors      what the server does not tell of is in `refused`, and no error; a connection that is lost is.
Threads     the reader runs `on_notification` and leaves changes with each `Changes`, whose user takes
            them on a thread of their own. `close` may be called by any thread. The dict of pending
            changes has each of them once, and so is bounded.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from mcp_ref.basic.errors import ConnectionClosed, ErrorResponse, McpError, RequestTimeout
from mcp_ref.basic.messages import Json
from mcp_ref.basic.meta import SUBSCRIPTION_ID
from mcp_ref.basic.patterns.subscriptions import ACKNOWLEDGED, KINDS, LISTS, Change
from mcp_ref.runtime.deadlines import Deadline

if TYPE_CHECKING:
    from mcp_ref.basic.patterns.request_response import Connection
    from mcp_ref.runtime.calls import Call

__all__ = ["Changes", "on_notification"]

_log = logging.getLogger("mcp_ref.subscriptions")

MAX_PENDING = 10_000
"""Changes that wait for whoever listens; a server that names more is not to be believed."""

LONGEST = 3600.0
"""Seconds after which every wait looks again."""


class Changes:
    """What changed on the server, one after another. Iterate over it, from one thread at a time.

    The iteration ends when this is closed, or when the server ends the subscription. It raises when the
    connection is lost; a modern server that crashed is started again and listened to anew, and then all
    counts as changed, since nobody knows.
    """

    def __init__(self, client: Any, kinds: Iterable[str], uris: Iterable[str]) -> None:
        self.client = client
        self.kinds, self.uris = frozenset(kinds), tuple(dict.fromkeys(uris))
        if not self.kinds and not self.uris:
            raise ValueError("listen to something: tools, prompts or resources=True, or resources=[uri]")
        self._news = threading.Condition()
        # All below guarded by _news.
        self._pending: dict[Change, None] = {}
        self._agreed: set[str] | None = None  # None: no answer yet
        self._problem: McpError | None = None
        self._over = False
        self.call: Call | None = None
        """The open request, in the modern era."""

    # -- what its user does ------------------------------------------------------------------

    @property
    def refused(self) -> set[str]:
        """Kinds and URIs that the server does not tell of, though it was asked to.

        # spec: basic/patterns/subscriptions/client-checks-ack
        """
        with self._news:
            return {*self.kinds, *self.uris} - (self._agreed or set())

    def next(self, timeout: float | None = None) -> Change | None:
        """The next change; None if there is none in time, or none will come."""
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            with self._news:
                while not (self._pending or self._over or self._problem):
                    left = LONGEST if end is None else end - time.monotonic()
                    if left <= 0:
                        return None
                    self._news.wait(left)
                if self._over:
                    return None
                if self._pending:
                    change = next(iter(self._pending))
                    del self._pending[change]
                    return change
            self._resume()

    def __iter__(self) -> Iterator[Change]:
        return self

    def __next__(self) -> Change:
        change = self.next()
        if change is None:
            raise StopIteration
        return change

    def close(self) -> None:
        """Listen no longer; whoever waits for a change is let go. Any thread, any number of times."""
        with self._news:
            if self._over:
                return
            self._over = True
            self._news.notify_all()
        self.client.listening.discard(self)
        stop(self)

    def __enter__(self) -> Changes:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    # -- how it goes ---------------------------------------------------------------------------

    def open(self) -> Changes:
        """Begin to listen; returns when the server has agreed."""
        self.client.listening.add(self)
        try:
            if self.client.revision.modern:
                _request(self)
            else:
                _subscribe(self)
        except BaseException:
            self.client.listening.discard(self)
            raise
        if self.refused:
            _log.warning("the server does not tell of changes of %s", ", ".join(sorted(self.refused)))
        return self

    def _resume(self) -> None:
        """The connection was lost: listen on a new one, if there is one, else raise what happened.

        # spec: basic/patterns/subscriptions/stdio-relisten
        # spec: basic/patterns/subscriptions/reconnect-on-abrupt-close
        """
        with self._news:
            problem = self._problem
        if problem is None:
            return
        if not isinstance(problem, ConnectionClosed) or self.client.alive().failure is not None:
            self.client.listening.discard(self)
            raise problem
        with self._news:
            self._problem = self._agreed = None
        self.open()
        for change in (*(Change(kind) for kind in self.kinds), *(Change("resource", u) for u in self.uris)):
            self.push(change)

    def push(self, change: Change) -> None:
        """Something changed. Runs on the reader."""
        with self._news:
            if len(self._pending) < MAX_PENDING:
                self._pending[change] = None
                self._news.notify_all()

    def agree(self, agreed: Iterable[str]) -> None:
        """What the server will tell of."""
        with self._news:
            self._agreed = set(agreed)
            self._news.notify_all()

    def end(self, problem: McpError | None) -> None:
        """Nothing more will come: for this reason, or because the server ended it properly."""
        with self._news:
            if problem is None or self.client.is_closed:
                self._over = True
                self.client.listening.discard(self)
            elif not self._over:
                self._problem = problem
            self._news.notify_all()

    def wait_for_agreement(self, deadline: Deadline) -> bool:
        """False if it does not come in time. Raises what came instead."""
        with self._news:
            while self._agreed is None and not self._over and self._problem is None:
                left = deadline.left()
                if left <= 0:
                    return False
                self._news.wait(min(left, LONGEST))
            if self._problem is not None:
                raise self._problem
            return True

    def wants(self, change: Change) -> bool:
        """Whether somebody here listens to this."""
        return change.kind in self.kinds if change.uri is None else change.uri in self.uris


def on_notification(client: Any, method: str, params: Json) -> None:
    """A notification of the server's that may be about a change. Runs on the reader.

    In the modern era its subscriptionId says who is meant.
    # spec: basic/patterns/subscriptions/stdio-correlate, basic/patterns/subscriptions/multiple-concurrent
    """
    if method == ACKNOWLEDGED:
        for changes in _meant(client, params):
            changes.agree(_honoured(params.get("notifications")))
    elif method in KINDS:
        uri = params.get("uri")
        change = Change(KINDS[method], uri if isinstance(uri, str) and KINDS[method] == "resource" else None)
        if change.kind == "resource" and change.uri is None:
            return
        for changes in _meant(client, params) if client.revision.modern else list(client.listening):
            if client.revision.modern or changes.wants(change):
                changes.push(change)


def _meant(client: Any, params: Json) -> list[Changes]:
    """Those whose request has the id that this notification names."""
    meta = params.get("_meta")
    name = meta.get(SUBSCRIPTION_ID) if isinstance(meta, dict) else None
    if type(name) is not int:
        return []
    return [c for c in list(client.listening) if c.call is not None and c.call.id == name]


def _honoured(notifications: Any) -> set[str]:
    """The kinds and URIs of an acknowledged filter, however it is made."""
    if not isinstance(notifications, dict):
        return set()
    kinds = {kind for kind, member in LISTS.items() if notifications.get(member) is True}
    uris = notifications.get("resourceSubscriptions")
    return kinds | {uri for uri in uris if isinstance(uri, str)} if isinstance(uris, list) else kinds


# ---------------------------------------------------------------------- modern: one open request


def _request(changes: Changes) -> None:
    """Send it, and wait for the acknowledgment."""
    client = changes.client
    wanted: Json = {LISTS[kind]: True for kind in sorted(changes.kinds)}
    if changes.uris:
        wanted["resourceSubscriptions"] = list(changes.uris)
    connection: Connection = client.alive()

    def prepare(call: Call) -> None:  # before it is sent: the answer may be quicker than we are
        changes.call = call

    def on_done(call: Call) -> None:
        changes.end(call.outcome if isinstance(call.outcome, McpError) else None)

    params = client.with_meta({"notifications": wanted})
    call = connection.call("subscriptions/listen", params, on_done=on_done, prepare=prepare)
    try:
        in_time = changes.wait_for_agreement(call.deadline)
    except BaseException:
        connection.cancel(call, "nobody listens any more")
        raise
    if not in_time:
        connection.cancel(call, "no acknowledgment in time")
        raise RequestTimeout(f"subscriptions/listen: no acknowledgment within {call.deadline.span:g} s")


def stop(changes: Changes) -> None:
    """Tell the server that nobody listens any more.

    # spec: basic/patterns/subscriptions/client-cancels
    """
    if changes.call is not None:
        changes.client.connection.cancel(changes.call, "nobody listens any more")
    else:
        _unsubscribe(changes)


# ---------------------------------------------------------------------- legacy: by way of the session


def _subscribe(changes: Changes) -> None:
    """resources/subscribe for each URI that nobody listens to yet."""
    client = changes.client
    declared: Json = client.server_capabilities or {}
    able: Json = {kind: declared.get(kind) for kind in LISTS}
    agreed = {k for k in changes.kinds if isinstance(able[k], dict) and able[k].get("listChanged") is True}
    resources = able["resources"]
    if isinstance(resources, dict) and resources.get("subscribe") is True:
        agreed |= {uri for uri in changes.uris if _subscribed(client, uri)}
    changes.agree(agreed)


def _subscribed(client: Any, uri: str) -> bool:
    """Whether the server tells of it from now on."""
    try:
        client.request("resources/subscribe", {"uri": uri})
    except ErrorResponse as problem:
        _log.info("%.200s: %s", uri, problem)
        return False
    return True


def _unsubscribe(changes: Changes) -> None:
    """Unless somebody else of this client listens to the same."""
    client = changes.client
    refused = changes.refused
    others = {uri for other in list(client.listening) for uri in other.uris}
    for uri in changes.uris:
        if uri in refused or uri in others or client.connection.failure is not None:
            continue
        try:
            client.request("resources/unsubscribe", {"uri": uri})
        except McpError as problem:  # then it goes on; what comes of it is ignored
            _log.info("%.200s: %s", uri, problem)
