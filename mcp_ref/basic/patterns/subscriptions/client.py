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
import weakref
from collections.abc import Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Protocol

from mcp_ref.basic.index.error_responses import ErrorResponse
from mcp_ref.basic.index.general_fields import SUBSCRIPTION_ID
from mcp_ref.basic.index.messages import Json
from mcp_ref.basic.lifecycle import KnowsServer
from mcp_ref.basic.patterns.subscriptions.server import (
    ACKNOWLEDGED,
    FILTER_MEMBERS,
    KIND_BY_METHOD,
    AnyChange,
    Change,
    TaskChange,
)
from mcp_ref.runtime.brief import brief
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
        self._changes: dict[AnyChange, None] = {}
        self._size = 0  # characters of their URIs
        self._overflowed = False  # and that was logged

    def __len__(self) -> int:
        return len(self._changes)

    def add(self, change: AnyChange) -> None:
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

    def take(self) -> AnyChange:
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

    def __init__(
        self, client: Listens, kinds: Iterable[str], uris: Iterable[str], task_ids: Iterable[str] = ()
    ) -> None:
        """`task_ids` are of mcp_ref/extensions/tasks."""
        self.client = client
        self.kinds, self.uris = frozenset(kinds), tuple(dict.fromkeys(uris))
        self.task_ids = tuple(dict.fromkeys(task_ids))
        if not self.kinds and not self.uris and not self.task_ids:
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
        self.opened: list[tuple[Connection, Call]] = []
        """The open request in the modern era, and its connection; empty without one."""
        self.task_states: dict[str, Json] = {}
        """What the server said last of each task, until it is taken."""
        self.connection: Connection = client.connection
        """The connection that it listens on."""
        forks.register(self)
        weakref.finalize(self, _dropped, self.opened, forks.count).atexit = False

    def __repr__(self) -> str:
        what = [*sorted(self.kinds), *self.uris, *self.task_ids]
        return f"<Changes of {brief(what)}{', over' if self._over else ''}>"

    def forked(self) -> None:
        """End in a forked child: the subscription is the parent's."""
        self._news = threading.Condition()
        self._problem, self._next_try = ConnectionClosed(INHERITED), 0.0

    @property
    def call(self) -> Call | None:
        """The open request, in the modern era."""
        return self.opened[0][1] if self.opened else None

    # -- for its user ------------------------------------------------------------------------

    @property
    def refused(self) -> set[str]:
        """Kinds and URIs whose changes the server does not report, though it was asked to.

        # spec: basic/patterns/subscriptions/client-checks-ack
        """
        with self._news:
            return {*self.kinds, *self.uris, *self.task_ids} - (self._agreed or set())

    @property
    def is_over(self) -> bool:
        """Whether it was closed, or the server has ended it."""
        return self._over

    def next(self, timeout: float | None = None) -> AnyChange | None:
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

    def __iter__(self) -> Iterator[AnyChange]:
        return self

    def __next__(self) -> AnyChange:
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

    def open(self, timeout: float | None = None) -> Changes:
        """Begin to listen; returns when the server has acknowledged it, which it may take `timeout` for."""
        self._opened = time.monotonic()
        self.connection = self.client.alive()
        if self.connection.failure is not None:
            raise self.connection.failure
        self.client.subscriptions.add(self)
        try:
            if self.client.negotiated.revision.subscribes_by_request:
                _request(self, timeout)
            else:
                _subscribe(self)
        except BaseException:
            self.client.subscriptions.discard(self)
            raise
        if self._over:  # closed by another thread, which may have been too early to stop anything
            self.client.subscriptions.discard(self)
            stop(self)
        elif self.refused.difference(self.task_ids):  # a task is looked at anyhow (mcp_ref/api/tasks)
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
            if (change.task_id or change.uri or change.kind) not in refused:
                self.push(change)

    def all_changes(self) -> list[AnyChange]:
        """A change of each kind and URI: for a new connection, since changes may have been missed."""
        return [
            *map(Change, sorted(self.kinds)),
            *(Change("resource", uri) for uri in self.uris),
            *(TaskChange(task_id) for task_id in self.task_ids),
        ]

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

    def push(self, change: AnyChange) -> None:
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

    def wants(self, change: AnyChange) -> bool:
        """Whether this change is listened to, or that of a resource that it is a part of."""
        if change.task_id is not None:
            return change.task_id in self.task_ids
        if change.uri is None:
            return change.kind in self.kinds
        return change.uri in self._watched or any(_is_part(change.uri, uri) for uri in self.uris)


class Subscriptions:
    """The open subscriptions of one client."""

    def __init__(self) -> None:
        # Weakly: one that its user has dropped is to be closed, and not to keep its client.
        self._open: dict[int, weakref.ref[Changes]] = {}
        self.subscribing = threading.Lock()
        """Legacy: held while the client subscribes or unsubscribes."""

    def __iter__(self) -> Iterator[Changes]:
        found = (each() for each in list(self._open.values()))  # others may come and go meanwhile
        return iter([changes for changes in found if changes is not None])

    def __len__(self) -> int:
        return len(self._open)

    def add(self, changes: Changes) -> None:
        """Add one that is open."""
        name = id(changes)
        self._open[name] = weakref.ref(changes, lambda ref: self._forget(name, ref))

    def discard(self, changes: Changes) -> None:
        """Take one out that is closed; twice does no harm."""
        self._open.pop(id(changes), None)

    def _forget(self, name: int, ref: weakref.ref[Changes]) -> None:
        """One was dropped. Another one may have its name by now."""
        if self._open.get(name) is ref:
            del self._open[name]

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
                if change.task_id is not None:
                    changes.task_states[change.task_id] = params
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


def _change_of(method: str, params: Json) -> AnyChange | None:
    """The change that a notification reports, if it is one that does."""
    kind = KIND_BY_METHOD.get(method)
    if kind is None:
        return None
    if kind == "task":
        task_id = params.get("taskId")
        return TaskChange(task_id) if isinstance(task_id, str) else None
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
    found = {kind for kind, member in FILTER_MEMBERS.items() if notifications.get(member) is True}
    for member in ("resourceSubscriptions", "taskIds"):
        names = notifications.get(member)
        found |= {name for name in names if isinstance(name, str)} if isinstance(names, list) else set()
    return found


# ---------------------------------------------------------------------- modern: one open request


def _request(changes: Changes, timeout: float | None) -> None:
    """Send subscriptions/listen, and wait for the acknowledgment.

    # spec: architecture/index/updates-need-listen-stream
    """
    client = changes.client
    wanted: Json = {FILTER_MEMBERS[kind]: True for kind in sorted(changes.kinds)}
    if changes.uris:
        wanted["resourceSubscriptions"] = list(changes.uris)
    if changes.task_ids:
        wanted["taskIds"] = list(changes.task_ids)
    connection, dropped = changes.connection, weakref.ref(changes)

    def prepare(call: Call) -> None:  # before it is sent: the acknowledgment may arrive before `call` returns
        changes.opened[:] = [(connection, call)]

    def on_done(call: Call) -> None:
        if (kept := dropped()) is not None:
            kept.end(call.outcome if isinstance(call.outcome, McpError) else None)

    params = client.with_meta({"notifications": wanted})
    call = connection.call("subscriptions/listen", params, timeout=timeout, on_done=on_done, prepare=prepare)
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
    else:
        _cancel(changes.opened)


def _cancel(opened: list[tuple[Connection, Call]]) -> None:
    for connection, call in opened:
        connection.cancel(call, "the subscription was closed")


def _dropped(opened: list[tuple[Connection, Call]], process: int) -> None:
    """A subscription was dropped without `close`: the server is told, on a thread of its own.

    This thread may be any, and hold any lock. In the legacy era the server goes on reporting changes of
    resources, which are ignored.
    """
    if forks.count == process and any(not call.done for _, call in opened):
        with contextlib.suppress(RuntimeError):  # the system has no more threads to give
            threading.Thread(target=_cancel, args=(opened,), name="mcp_ref closing", daemon=True).start()


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
