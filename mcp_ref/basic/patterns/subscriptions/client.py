"""Listening (page: basic/patterns/subscriptions): the client's half, one call for both eras.

    with client.listen(tools=True, resources=["file:///a"]) as changes:
        for change in changes:            # blocks; ends when closed from any thread
            print(change.kind, change.uri)

    modern   a subscriptions/listen request, open until the `Changes` are closed
    legacy   resources/subscribe for each URI; changes of lists come without a request

Revisions   all.
Errors      a lost connection, if there is no new one to replace it. Changes that the server will not report
            are no error: `refused` names them.
Threads     the reader runs `Subscriptions.on_notification`, and adds each change to the `Changes` that want
            it; their user takes it on another thread. `close` may be called by any thread. Legacy: the lock
            `subscribing` is held during all requests to subscribe and to unsubscribe: else one subscription
            could unsubscribe from a URI just after another one has subscribed to it.
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
from mcp_ref.runtime.threads.flags import Flag
from mcp_ref.runtime.threads.outbox import INHERITED

if TYPE_CHECKING:
    from mcp_ref.basic.patterns.index.connection import Connection
    from mcp_ref.basic.patterns.index.requester import Call
    from mcp_ref.basic.versioning import Revision

__all__ = ["Changes", "Subscriptions"]

_log = logger("mcp_ref.subscriptions")

MAX_REQUESTS_AT_ONCE = 32
"""Requests to subscribe, or to unsubscribe, that are sent at once."""

MAX_PENDING = 10_000
"""Pending changes beyond which a further change of a sub-resource is dropped. Changes of URIs that were asked
for by name always have room: the request bounds them."""

MAX_PENDING_CHARACTERS = 4_000_000
"""The same, for the characters in the URIs of all pending changes."""

MAX_WAIT_SECONDS = 3600.0
"""The longest single wait on a condition; a longer wait is made of several."""

STEADY_SECONDS = 5.0
"""How long a subscription must last for its loss to count as the first in a row."""

LOOK_SECONDS = 0.5
"""Seconds between two looks, in the pause after a loss, whether the client was closed."""

MAX_LOSSES = 7
"""Losses of the subscription in a row before listening fails, after about half a minute of pauses."""


class Listens(KnowsServer, Protocol):
    """What this page needs of the client."""

    @property
    def subscriptions(self) -> Subscriptions:
        """The client's open subscriptions."""

    @property
    def connection(self) -> Connection:
        """The current connection, whether or not it still works."""

    @property
    def closing(self) -> Flag:
        """Set when the client is closed."""

    def alive(self) -> Connection:
        """The connection for the next request: a new one, to a new process, if a modern server crashed."""

    def with_meta(self, params: Json) -> Json | None:
        """Params with the `_meta` that the revision demands."""

    def submit(self, method: str, params: Json | None = None) -> Future[Any]:
        """Send a request without waiting for its result."""


class Pending:
    """Changes that wait to be taken, in order; each of them only once. For one thread at a time."""

    def __init__(self, watched: Iterable[str]) -> None:
        self._watched = frozenset(watched)
        self._changes: dict[AnyChange, None] = {}
        self._size = 0  # characters of their URIs
        self._overflowed = False  # a change was dropped, and that was logged

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
        """Remove the oldest change, and return it."""
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
    """A subscription, as an iterator over the changes on the server. For one thread at a time.

    The iteration ends when this is closed, or when the server has ended the subscription and all changes
    before that have been taken. When the connection is lost it listens again on a new one, and everything
    counts as changed, since changes may have been missed; it raises only if there is no new connection.
    """

    def __init__(
        self, client: Listens, kinds: Iterable[str], uris: Iterable[str], task_ids: Iterable[str] = ()
    ) -> None:
        """`task_ids` name tasks of mcp_ref/extensions/tasks. Raises ValueError if nothing is named."""
        self.client = client
        self.kinds, self.uris = frozenset(kinds), tuple(dict.fromkeys(uris))
        self.task_ids = tuple(dict.fromkeys(task_ids))
        if not self.kinds and not self.uris and not self.task_ids:
            raise ValueError("name what to listen to: tools, prompts or resources=True, or resources=[uri]")
        self._watched = frozenset(self.uris)
        self._news = threading.Condition()
        # All below guarded by _news.
        self._pending = Pending(self.uris)
        self._agreed: set[str] | None = None  # kinds and URIs; None: not acknowledged yet
        self._problem: McpError | None = None  # why the subscription was lost, until it is open again
        self._over = False
        self._losses = 0  # in a row
        self._opened = 0.0
        self._next_try = 0.0  # when to listen again
        self.opened: list[tuple[Connection, Call]] = []
        """Modern: the open request, and its connection; else empty. A list, which `_dropped` can hold without
        holding this object."""
        self.task_states: dict[str, Json] = {}
        """The last notification about each task, until `mcp_ref/api/tasks` takes it."""
        self.connection: Connection = client.connection
        """The connection that this subscription was opened on."""
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
        """Modern: the open request."""
        return self.opened[0][1] if self.opened else None

    # -- for its user ------------------------------------------------------------------------

    @property
    def refused(self) -> set[str]:
        """The kinds, URIs and task ids whose changes the server does not report, though it was asked to.

        # spec: basic/patterns/subscriptions/client-checks-ack
        """
        with self._news:
            return {*self.kinds, *self.uris, *self.task_ids} - (self._agreed or set())

    @property
    def is_over(self) -> bool:
        """Whether this was closed, or the server has ended the subscription."""
        return self._over

    def next(self, timeout: float | None = None) -> AnyChange | None:
        """The next change; None after `timeout` seconds, or once the subscription has ended.

        Raises the error of a lost connection that cannot be replaced.
        """
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
        """Wait for a change, the end or a loss; False if nothing comes before `end`. With _news held."""
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
        """End the subscription; a thread that waits in `next` returns. Any thread, any number of times."""
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
        """Begin to listen. Returns when the server has acknowledged it.

        Raises RequestTimeout after `timeout` seconds, ConnectionClosed, or the error of a server that
        refuses.
        """
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
        if self._over:  # another thread closed this meanwhile, perhaps before there was anything to stop
            self.client.subscriptions.discard(self)
            stop(self)
        elif self.refused.difference(self.task_ids):  # tasks are polled anyway (mcp_ref/api/tasks)
            _log.warning("the server does not report changes of %s", ", ".join(sorted(self.refused)))
        return self

    def _resume(self) -> None:
        """Listen again after a loss. Raises the error of the loss if there is no connection to listen on.

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
        """One change for each kind, URI and task: after a loss, since changes may have been missed."""
        return [
            *map(Change, sorted(self.kinds)),
            *(Change("resource", uri) for uri in self.uris),
            *(TaskChange(task_id) for task_id in self.task_ids),
        ]

    def _may_try(self, end: float | None) -> bool:
        """Wait until it is time to listen again; False if `end` comes first, or this or the client is closed.
        With _news held.

        No pause after the first loss, then longer and longer ones (`_lost`): a restart may take a while.
        """
        if not self._problem:
            return True
        while (pause := self._next_try - time.monotonic()) > 0 and not self._over:
            left = pause if end is None else min(pause, end - time.monotonic())
            if left <= 0:
                return False
            if self.client.closing.is_set():
                self._over = True
            else:
                self._news.wait(min(left, LOOK_SECONDS))
        return not self._over

    def push(self, change: AnyChange) -> None:
        """Add a change, unless it is pending already. Runs on the reader."""
        with self._news:
            if not self._over:
                self._pending.add(change)
                self._news.notify_all()

    def agree(self, agreed: Iterable[str]) -> None:
        """Store the kinds, URIs and task ids whose changes the server will report."""
        with self._news:
            self._agreed = set(agreed)
            self._news.notify_all()

    def end(self, problem: McpError | None) -> None:
        """Take note that the server ended the subscription, or that it was lost, by this problem.

        After a loss, the thread in `next` listens again.
        """
        with self._news:
            if problem is None or self.client.closing.is_set():
                self._over = True
                self.client.subscriptions.discard(self)
                if problem is not None:
                    self._pending.clear()
            elif not self._over:
                self._lost(problem)
            self._news.notify_all()

    def _lost(self, problem: McpError) -> None:
        """Store the loss of the subscription, and when to listen again. With _news held."""
        if self._problem is None:
            self._problem, now = problem, time.monotonic()
            self._losses = 1 if now - self._opened > STEADY_SECONDS else self._losses + 1
            # No pause if the connection itself is over: a process that exited is started again at once, and
            # api/pipe_transport limits how often.
            at_once = self._losses == 1 or self.connection.failure is not None
            self._next_try = now if at_once else now + 0.25 * 2**self._losses

    def wait_for_agreement(self, deadline: Deadline) -> bool:
        """Wait for the acknowledgment; False if it is late. Raises the error that came instead."""
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
        """Whether this subscription covers a change, by its kind, task or URI, or a URI that contains it."""
        if change.task_id is not None:
            return change.task_id in self.task_ids
        if change.uri is None:
            return change.kind in self.kinds
        return change.uri in self._watched or any(_is_part(change.uri, uri) for uri in self.uris)


class Subscriptions:
    """The open subscriptions of one client."""

    def __init__(self) -> None:
        # By id(). Weak references, so that `Changes` that the user has dropped are freed, and `_dropped`
        # runs.
        self._open: dict[int, weakref.ref[Changes]] = {}
        self.subscribing = threading.Lock()
        """Legacy: held while the client subscribes or unsubscribes."""

    def __iter__(self) -> Iterator[Changes]:
        found = (each() for each in list(self._open.values()))  # others may come and go meanwhile
        return iter([changes for changes in found if changes is not None])

    def __len__(self) -> int:
        return len(self._open)

    def add(self, changes: Changes) -> None:
        """Add a subscription that is being opened."""
        name = id(changes)
        self._open[name] = weakref.ref(changes, lambda ref: self._forget(name, ref))

    def discard(self, changes: Changes) -> None:
        """Remove a subscription; twice does no harm."""
        self._open.pop(id(changes), None)

    def _forget(self, name: int, ref: weakref.ref[Changes]) -> None:
        """Remove a subscription that was dropped. A new one may have the same id() already, and stays."""
        if self._open.get(name) is ref:
            del self._open[name]

    def end(self, problem: McpError | None) -> None:
        """End the legacy subscriptions: their connection was lost. In the modern era their requests fail."""
        for changes in self:
            if changes.call is None:
                changes.end(problem)

    def on_notification(self, connection: Connection, at: Revision, method: str, params: Json) -> None:
        """Give an acknowledgment or a change to the subscriptions that it is for. Runs on the reader.

        In the modern era that is one subscription: the subscriptionId in the notification names it.
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
        """The subscription whose request this notification names, as a list; empty if it is not open."""
        meta = params.get("_meta")
        name = meta.get(SUBSCRIPTION_ID) if isinstance(meta, dict) else None
        call = connection.waiting.get(name) if type(name) is int else None
        return [] if call is None else [changes for changes in self if changes.call is call]

    def renew(self) -> None:
        """Legacy: subscribe again, in a new session."""
        for changes in self:
            # Step 1: the new session has no subscriptions yet.
            _subscribe(changes)
            # Step 2: changes may have been missed between the two sessions, so everything counts as changed.
            for change in changes.all_changes():
                changes.push(change)


def _change_of(method: str, params: Json) -> AnyChange | None:
    """The change that a notification reports; None if it reports no change, or is malformed."""
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
    """Whether the URI `uri` is a sub-resource of `whole`: a server may report its changes to subscribers of
    `whole`.

    # spec: schema/updated-sub-resource
    """
    return uri.startswith(whole) and (whole.endswith("/") or uri[len(whole)] in "/?#")


def _acknowledged(notifications: Any) -> set[str]:
    """The kinds, URIs and task ids in an acknowledged filter; malformed members are ignored."""
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
    """End a subscription on the server: cancel its request, or (legacy) unsubscribe.

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
    """Cancel the request of a subscription that was dropped without `close`. Runs when it is freed.

    That may be on any thread, which may hold any lock, so a new thread sends the cancellation. In the legacy
    era there is no request: the server goes on reporting changes of resources, which are ignored.
    """
    if forks.count == process and any(not call.done for _, call in opened):
        with contextlib.suppress(RuntimeError):  # the system has no more threads to give
            threading.Thread(target=_cancel, args=(opened,), name="mcp_ref closing", daemon=True).start()


# ---------------------------------------------------------------------- legacy: the session's subscriptions


def _subscribe(changes: Changes) -> None:
    """Send resources/subscribe for each URI, and store which lists and URIs the server will report."""
    client = changes.client
    declared: Json = client.negotiated.server_capabilities or {}
    agreed = {kind for kind in changes.kinds if declared.get(kind, {}).get("listChanged")}
    if client.negotiated.undeclared("resources/subscribe") is None:
        with client.subscriptions.subscribing:
            agreed |= set(_subscribed(client, changes.uris))
    changes.agree(agreed)
    if changes.connection.failure is not None:  # it may have failed before this was among the open ones
        raise changes.connection.failure


def _subscribed(client: Listens, uris: Sequence[str]) -> Iterator[str]:
    """Subscribe to these URIs; yields the URIs that the server accepts."""
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
    """Send a request for each URI; yields each URI with its error, or None.

    First one request, then two at once, then four, up to MAX_REQUESTS_AT_ONCE, since one after the other
    would each cost a round trip. After an error it is one again.
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
                            return  # the server did not answer: do not wait for the others
        except McpError as problem:
            _log.info("nothing more can be unsubscribed: %s", problem)
