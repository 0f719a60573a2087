"""Listening (page: basic/patterns/subscriptions): the client's half, one call for both eras.

    with client.listen(tools=True, resources=["file:///a"]) as changes:
        for change in changes:            # blocks; ends when closed from any thread
            print(change.kind, change.uri)

    modern   a subscriptions/listen request, open until the user closes it
    legacy   resources/subscribe for each URI; changes of lists come without a request

Revisions   all.
Errors      what the server will not report is in `refused`, and no error; a lost connection is one if no
            new one takes its place.
Threads     the reader runs `Subscriptions.on_notification` and leaves changes with each `Changes`, whose
            user takes them on another thread. `close` may be called by any thread. Legacy: the lock
            `subscribing` keeps subscribing and unsubscribing from overlapping.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Protocol

from mcp_ref.basic.index.error_responses import ErrorResponse
from mcp_ref.basic.index.general_fields import SUBSCRIPTION_ID
from mcp_ref.basic.index.messages import Json
from mcp_ref.basic.lifecycle import KnowsServer
from mcp_ref.basic.patterns.subscriptions.server import ACKNOWLEDGED, FILTER_MEMBERS, KIND_BY_METHOD, Change
from mcp_ref.runtime.errors import ConnectionClosed, McpError, RequestTimeout
from mcp_ref.runtime.logs import logger
from mcp_ref.runtime.threads import forks
from mcp_ref.runtime.threads.deadlines import Deadline
from mcp_ref.runtime.threads.outbox import INHERITED

if TYPE_CHECKING:
    from mcp_ref.basic.patterns.index.connection import Connection
    from mcp_ref.basic.patterns.index.requester import Call
    from mcp_ref.basic.versioning import Revision

__all__ = ["Changes", "Subscriptions"]

_log = logger("mcp_ref.subscriptions")

MAX_REQUESTS_AT_ONCE = 32
"""Requests to subscribe, or to unsubscribe, that are under way at once."""

MAX_PENDING = 10_000
"""Changes of sub-resources that wait to be taken. URIs asked for by name are bounded by the request."""

MAX_PENDING_CHARACTERS = 4_000_000
"""Length of the URIs of these changes."""

MAX_WAIT_SECONDS = 3600.0
"""The longest single wait on a condition; a longer one is made of several."""

STEADY_SECONDS = 5.0
"""How long a subscription must last for its loss to count as the first in a row."""

MAX_LOSSES = 7
"""Losses of the connection in a row before listening fails, after about half a minute of pauses."""


class Listens(KnowsServer, Protocol):
    """A client, as this page sees it."""

    @property
    def subscriptions(self) -> Subscriptions:
        """Its open subscriptions."""

    @property
    def connection(self) -> Connection:
        """The connection as it is now, whether or not it still works."""

    @property
    def is_closed(self) -> bool:
        """Whether it was closed."""

    def alive(self) -> Connection:
        """The connection to ask on: a new one, where a modern server crashed."""

    def with_meta(self, params: Json) -> Json | None:
        """Params with what the revision wants in their `_meta`."""

    def submit(self, method: str, params: Json | None = None) -> Future[Any]:
        """Send a request, and go on."""


class Pending:
    """Changes that wait to be taken, each of them once. For one thread at a time."""

    def __init__(self, watched: Iterable[str]) -> None:
        self._watched = frozenset(watched)
        self._changes: dict[Change, None] = {}
        self._size = 0  # characters of their URIs
        self._overflowed = False  # and that was logged

    def __len__(self) -> int:
        return len(self._changes)

    def add(self, change: Change) -> None:
        """Add a change, unless it is pending already.

        URIs asked for by name are bounded by the request. Sub-resources are not, so they are capped.
        """
        if change in self._changes:
            return
        named = change.uri is None or change.uri in self._watched
        size = len(change.uri or "")
        if not named and (len(self) >= MAX_PENDING or self._size + size > MAX_PENDING_CHARACTERS):
            if not self._overflowed:
                _log.warning("changes are dropped, since too many wait to be taken: %.200r", change)
            self._overflowed = True
            return
        self._changes[change] = None
        self._size += size

    def take(self) -> Change:
        """The oldest change."""
        change = next(iter(self._changes))
        del self._changes[change]
        self._size -= len(change.uri or "")
        self._overflowed = False
        return change

    def clear(self) -> None:
        """Drop all of them."""
        self._changes.clear()
        self._size = 0


class Changes:
    """The changes on the server, one after another. Iterate over it, from one thread at a time.

    The iteration ends when this is closed, or when the server has ended the subscription and all changes
    before that have been taken. When the connection is lost it listens again on a new one, and everything
    counts as changed, since changes may have been missed; it raises only where there is no new one.
    """

    def __init__(self, client: Listens, kinds: Iterable[str], uris: Iterable[str]) -> None:
        self.client = client
        self.kinds, self.uris = frozenset(kinds), tuple(dict.fromkeys(uris))
        if not self.kinds and not self.uris:
            raise ValueError("name what to listen to: tools, prompts or resources=True, or resources=[uri]")
        self._watched = frozenset(self.uris)
        self._news = threading.Condition()
        # All below guarded by _news.
        self._pending = Pending(self.uris)
        self._agreed: set[str] | None = None  # None: no answer yet
        self._problem: McpError | None = None
        self._over = False
        self._losses = 0  # in a row
        self._opened = 0.0
        self._next_try = 0.0  # when to listen anew
        self.call: Call | None = None
        """The open request, in the modern era."""
        self.connection: Connection = client.connection
        """The connection that it listens on."""
        forks.register(self)

    def forked(self) -> None:
        """End in a forked child: the subscription is the parent's."""
        self._news = threading.Condition()
        self._problem, self._next_try = ConnectionClosed(INHERITED), 0.0

    # -- for its user ------------------------------------------------------------------------

    @property
    def refused(self) -> set[str]:
        """Kinds and URIs whose changes the server does not report, though it was asked to.

        # spec: basic/patterns/subscriptions/client-checks-ack
        """
        with self._news:
            return {*self.kinds, *self.uris} - (self._agreed or set())

    def next(self, timeout: float | None = None) -> Change | None:
        """The next change; None after the time-out, or once the subscription has ended."""
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            with self._news:
                if not self._wait_for_news(end):
                    return None
                if self._pending:
                    return self._pending.take()
                if self._over or not self._may_try(end):
                    return None
            self._resume()

    def _wait_for_news(self, end: float | None) -> bool:
        """Wait for a change, the end or a loss; False if none comes in time. With _news held."""
        while not (self._pending or self._over or self._problem):
            left = MAX_WAIT_SECONDS if end is None else end - time.monotonic()
            if left <= 0:
                return False
            self._news.wait(min(left, MAX_WAIT_SECONDS))
        return True

    def __iter__(self) -> Iterator[Change]:
        return self

    def __next__(self) -> Change:
        change = self.next()
        if change is None:
            raise StopIteration
        return change

    def close(self) -> None:
        """End listening, and the wait of a thread in `next`. Any thread, any number of times."""
        with self._news:
            self._pending.clear()
            if self._over:
                return
            self._over = True
            self._news.notify_all()
        self.client.subscriptions.discard(self)
        stop(self)

    def __enter__(self) -> Changes:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    # -- for the client ------------------------------------------------------------------------

    def open(self) -> Changes:
        """Begin to listen; returns when the server has acknowledged it."""
        self._opened = time.monotonic()
        self.connection = self.client.alive()
        if self.connection.failure is not None:
            raise self.connection.failure
        self.client.subscriptions.add(self)
        try:
            if self.client.negotiated.revision.subscribes_by_request:
                _request(self)
            else:
                _subscribe(self)
        except BaseException:
            self.client.subscriptions.discard(self)
            raise
        if self._over:  # closed by another thread, which may have been too early to stop anything
            self.client.subscriptions.discard(self)
            stop(self)
        elif self.refused:
            _log.warning("the server does not report changes of %s", ", ".join(sorted(self.refused)))
        return self

    def _resume(self) -> None:
        """Listen on a new connection after the loss of one; raise the error where there is no new one.

        # spec: basic/patterns/subscriptions/stdio-relisten
        # spec: basic/patterns/subscriptions/reconnect-on-abrupt-close
        # spec: basic/transports/stdio/relisten-after-restart
        # spec: basic/patterns/index/listen-state-scoped-to-request
        """
        with self._news:
            problem = self._problem
        if problem is None:
            return
        if not isinstance(problem, ConnectionClosed) or self.client.alive().failure is not None:
            self.client.subscriptions.discard(self)
            raise problem.with_traceback(None)  # without the frames of earlier raises
        with self._news:
            self._problem = self._agreed = None
        try:
            self.open()
        except ConnectionClosed as again:
            if self._losses >= MAX_LOSSES:
                raise
            self.client.subscriptions.add(self)
            with self._news:
                self._lost(again)
            return
        refused = self.refused
        for change in self.all_changes():
            if (change.uri or change.kind) not in refused:
                self.push(change)

    def all_changes(self) -> list[Change]:
        """A change of each kind and URI: for a new connection, since changes may have been missed."""
        return [*map(Change, sorted(self.kinds)), *(Change("resource", uri) for uri in self.uris)]

    def _may_try(self, end: float | None) -> bool:
        """Wait until it is time to listen anew; False if that is after `end`. With _news held.

        At once the first time, then after longer and longer pauses: a server needs a while to start again.
        """
        if not self._problem:
            return True
        while (pause := self._next_try - time.monotonic()) > 0 and not self._over:
            left = pause if end is None else min(pause, end - time.monotonic())
            if left <= 0:
                return False
            self._news.wait(left)
        return not self._over

    def push(self, change: Change) -> None:
        """Add a change, unless it is pending already. Runs on the reader."""
        with self._news:
            if not self._over:
                self._pending.add(change)
                self._news.notify_all()

    def agree(self, agreed: Iterable[str]) -> None:
        """Store the kinds and URIs whose changes the server will report."""
        with self._news:
            self._agreed = set(agreed)
            self._news.notify_all()

    def end(self, problem: McpError | None) -> None:
        """The server ended it; or (problem) it was lost: then the next wait of its user listens again."""
        with self._news:
            if problem is None or self.client.is_closed:
                self._over = True
                self.client.subscriptions.discard(self)
                if problem is not None:
                    self._pending.clear()
            elif not self._over:
                self._lost(problem)
            self._news.notify_all()

    def _lost(self, problem: McpError) -> None:
        """Store the loss of the subscription, and when to listen anew. With _news held."""
        if self._problem is None:
            self._problem, now = problem, time.monotonic()
            self._losses = 1 if now - self._opened > STEADY_SECONDS else self._losses + 1
            # A process that exited is started again, and not often (api/pipe_transport): no pause is needed.
            at_once = self._losses == 1 or self.connection.failure is not None
            self._next_try = now if at_once else now + 0.25 * 2**self._losses

    def wait_for_agreement(self, deadline: Deadline) -> bool:
        """Wait for the acknowledgment; False if it is late. Raises an error that came instead of it."""
        with self._news:
            while self._agreed is None and not self._over and self._problem is None:
                left = deadline.left()
                if left <= 0:
                    return False
                self._news.wait(min(left, MAX_WAIT_SECONDS))
            if self._agreed is None and self._problem is not None:
                raise self._problem.with_traceback(None)
            return True

    def wants(self, change: Change) -> bool:
        """Whether this change is listened to, or that of a resource that it is a part of."""
        if change.uri is None:
            return change.kind in self.kinds
        return change.uri in self._watched or any(_is_part(change.uri, uri) for uri in self.uris)


class Subscriptions:
    """The open subscriptions of one client."""

    def __init__(self) -> None:
        self._open: set[Changes] = set()
        self.subscribing = threading.Lock()
        """Legacy: held while the client subscribes or unsubscribes."""

    def __iter__(self) -> Iterator[Changes]:
        return iter(list(self._open))  # others may come and go meanwhile

    def __len__(self) -> int:
        return len(self._open)

    def add(self, changes: Changes) -> None:
        """Add one that is open."""
        self._open.add(changes)

    def discard(self, changes: Changes) -> None:
        """Take one out that is closed; twice does no harm."""
        self._open.discard(changes)

    def end(self, problem: McpError | None) -> None:
        """End those of a connection that was lost. Those of the modern era have a request, which says so."""
        for changes in self:
            if changes.call is None:
                changes.end(problem)

    def on_notification(self, connection: Connection, at: Revision, method: str, params: Json) -> None:
        """Give an acknowledgment or a change to the subscriptions that it is for. Runs on the reader.

        In the modern era the subscriptionId of the notification names the one subscription.
        # spec: basic/patterns/subscriptions/stdio-correlate, basic/patterns/subscriptions/multiple-concurrent
        """
        if method == ACKNOWLEDGED:
            for changes in self._named_in(params, connection):
                changes.agree(_acknowledged(params.get("notifications")))
            return
        change = _change_of(method, params)
        if change is None:
            return
        for changes in self._named_in(params, connection) if at.subscribes_by_request else self:
            if changes.wants(change):
                changes.push(change)

    def _named_in(self, params: Json, connection: Connection) -> list[Changes]:
        """The subscription whose request this notification names, if it is open."""
        meta = params.get("_meta")
        name = meta.get(SUBSCRIPTION_ID) if isinstance(meta, dict) else None
        call = connection.waiting.get(name) if type(name) is int else None
        return [] if call is None else [changes for changes in self if changes.call is call]

    def renew(self) -> None:
        """Subscribe again, in a new session."""
        for changes in self:
            # Step 1: the new session has no subscriptions yet.
            _subscribe(changes)
            # Step 2: changes may have been missed between the two sessions, so all counts as changed.
            for change in changes.all_changes():
                changes.push(change)


def _change_of(method: str, params: Json) -> Change | None:
    """The change that a notification reports, if it is one that does."""
    kind = KIND_BY_METHOD.get(method)
    if kind is None:
        return None
    if kind != "resource":
        return Change(kind)
    uri = params.get("uri")
    return Change(kind, uri) if isinstance(uri, str) else None


def _is_part(uri: str, whole: str) -> bool:
    """Whether a resource is within another: a server may report it though only the other was named.

    # spec: schema/updated-sub-resource
    """
    return uri.startswith(whole) and (whole.endswith("/") or uri[len(whole)] in "/?#")


def _acknowledged(notifications: Any) -> set[str]:
    """The kinds and URIs in an acknowledged filter; malformed members are ignored."""
    if not isinstance(notifications, dict):
        return set()
    kinds = {kind for kind, member in FILTER_MEMBERS.items() if notifications.get(member) is True}
    uris = notifications.get("resourceSubscriptions")
    return kinds | {uri for uri in uris if isinstance(uri, str)} if isinstance(uris, list) else kinds


# ---------------------------------------------------------------------- modern: one open request


def _request(changes: Changes) -> None:
    """Send subscriptions/listen, and wait for the acknowledgment.

    # spec: architecture/index/updates-need-listen-stream
    """
    client = changes.client
    wanted: Json = {FILTER_MEMBERS[kind]: True for kind in sorted(changes.kinds)}
    if changes.uris:
        wanted["resourceSubscriptions"] = list(changes.uris)
    connection = changes.connection

    def prepare(call: Call) -> None:  # before it is sent: the acknowledgment may arrive before `call` returns
        changes.call = call

    def on_done(call: Call) -> None:
        changes.end(call.outcome if isinstance(call.outcome, McpError) else None)

    params = client.with_meta({"notifications": wanted})
    call = connection.call("subscriptions/listen", params, on_done=on_done, prepare=prepare)
    try:
        in_time = changes.wait_for_agreement(call.deadline)
    except BaseException:
        connection.cancel(call, "the subscription was closed")
        raise
    if not in_time:
        connection.cancel(call, "no acknowledgment in time")
        raise RequestTimeout(f"subscriptions/listen: no acknowledgment within {call.deadline.reached()}")


def stop(changes: Changes) -> None:
    """Cancel the request, or unsubscribe.

    # spec: basic/patterns/subscriptions/client-cancels
    """
    if not changes.client.negotiated.revision.subscribes_by_request:
        _unsubscribe(changes)
    elif changes.call is not None:
        changes.connection.cancel(changes.call, "the subscription was closed")


# ---------------------------------------------------------------------- legacy: the session's subscriptions


def _subscribe(changes: Changes) -> None:
    """Send resources/subscribe for each URI, and note which lists the server declared."""
    client = changes.client
    declared: Json = client.negotiated.server_capabilities or {}
    agreed = {kind for kind in changes.kinds if declared.get(kind, {}).get("listChanged")}
    if client.negotiated.undeclared("resources/subscribe") is None:
        with client.subscriptions.subscribing:
            agreed |= set(_subscribed(client, changes.uris))
    changes.agree(agreed)
    if changes.connection.failure is not None:  # it may have failed before this was open
        raise changes.connection.failure


def _subscribed(client: Listens, uris: Sequence[str]) -> Iterator[str]:
    """Subscribe to these URIs; yields those that the server accepts."""
    with contextlib.closing(_ask_for_each(client, "resources/subscribe", uris)) as outcomes:
        for uri, problem in outcomes:
            if problem is None:
                yield uri
            elif isinstance(problem, ErrorResponse):
                _log.info("%.200r: %s", uri, problem)
            else:
                raise problem


def _ask_for_each(
    client: Listens, method: str, uris: Sequence[str]
) -> Generator[tuple[str, McpError | None], None, None]:
    """Send a request for each URI; yields each with its error, or None.

    One request is sent first; as long as there is no error, then two at once, four, and so on up to
    MAX_REQUESTS_AT_ONCE. One after the other, each would cost a round trip.
    """
    start, at_once = 0, 1
    while start < len(uris):
        some = uris[start : start + at_once]
        start, at_once = start + len(some), min(2 * at_once, MAX_REQUESTS_AT_ONCE)
        calls: list[Any] = []
        try:
            calls.extend(client.submit(method, {"uri": uri}) for uri in some)
            for uri, call in zip(some, calls, strict=True):
                try:
                    call.result()
                except McpError as problem:
                    at_once = 1
                    yield uri, problem
                else:
                    yield uri, None
        finally:
            for call in calls:
                if not call.done():
                    call.cancel()


def _unsubscribe(changes: Changes) -> None:
    """Send resources/unsubscribe for each URI that no other `Changes` of this client listens to."""
    client = changes.client
    with client.subscriptions.subscribing:
        still_wanted = changes.refused.union(*(other.uris for other in client.subscriptions))
        if changes.connection.failure is not None:
            return
        uris = [uri for uri in changes.uris if uri not in still_wanted]
        try:
            with contextlib.closing(_ask_for_each(client, "resources/unsubscribe", uris)) as outcomes:
                for uri, problem in outcomes:
                    if problem is not None:  # the server goes on reporting changes, which are ignored
                        _log.info("%.200r: %s", uri, problem)
                        if not isinstance(problem, ErrorResponse):
                            return  # no answer: do not wait for another one
        except McpError as problem:
            _log.info("nothing more can be unsubscribed: %s", problem)
