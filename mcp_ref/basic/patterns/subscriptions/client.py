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
            changes has each of them once, and so is bounded. Legacy: `subscribing` of the client makes
            those that begin to watch a resource and those that cease to do so one after another.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Generator, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from mcp_ref.basic.index.error_responses import ErrorResponse
from mcp_ref.basic.index.general_fields import SUBSCRIPTION_ID
from mcp_ref.basic.index.messages import Json
from mcp_ref.basic.patterns.subscriptions.server import ACKNOWLEDGED, KINDS, LISTS, Change
from mcp_ref.runtime.errors import (
    ConnectionClosed,
    McpError,
    RequestTimeout,
)
from mcp_ref.runtime.logs import logger
from mcp_ref.runtime.threads import forks
from mcp_ref.runtime.threads.deadlines import Deadline
from mcp_ref.runtime.threads.outbox import INHERITED

if TYPE_CHECKING:
    from mcp_ref.basic.patterns.index.connection import Connection
    from mcp_ref.basic.patterns.index.requester import Call

__all__ = ["Changes", "on_notification"]

_log = logger("mcp_ref.subscriptions")

MAX_AT_ONCE = 32
"""Requests to subscribe, or to unsubscribe, that are under way at once."""

MAX_PENDING = 10_000
"""Changes of what nobody asked for by name, but of a part of it, that wait for whoever listens."""
MAX_PENDING_CHARACTERS = 4_000_000
"""And characters of their URIs."""

LONGEST = 3600.0
"""Seconds after which every wait looks again."""

STEADY = 5.0
"""Seconds for which a subscription must have lasted to count as a good one."""

TRIES = 7
"""Losses of the connection in a row, before listening is given up: half a minute, in the end."""


class Changes:
    """What changed on the server, one after another. Iterate over it, from one thread at a time.

    The iteration ends when this is closed, or when the server ends the subscription and all that it told
    before has been taken. It raises when the connection is lost; a modern server that crashed is started
    again and listened to anew, and then all counts as changed, since nobody knows.
    """

    def __init__(self, client: Any, kinds: Iterable[str], uris: Iterable[str]) -> None:
        self.client = client
        self.kinds, self.uris = frozenset(kinds), tuple(dict.fromkeys(uris))
        if not self.kinds and not self.uris:
            raise ValueError("listen to something: tools, prompts or resources=True, or resources=[uri]")
        self._watched = frozenset(self.uris)
        self._news = threading.Condition()
        # All below guarded by _news.
        self._pending: dict[Change, None] = {}
        self._pending_size = 0  # characters of their URIs
        self._overflowed = False  # and that was said
        self._agreed: set[str] | None = None  # None: no answer yet
        self._problem: McpError | None = None
        self._over = False
        self._losses = 0  # in a row
        self._opened = 0.0
        self._next_try = 0.0  # when to listen anew
        self.call: Call | None = None
        """The open request, in the modern era."""
        self.connection: Connection = client.connection
        """Where it was sent."""
        forks.tell(self)

    def forked(self) -> None:
        """In a forked child: the subscription is the parent's."""
        self._news = threading.Condition()
        self._problem, self._next_try = ConnectionClosed(INHERITED), 0.0

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
                    self._news.wait(min(left, LONGEST))
                if self._pending:
                    change = next(iter(self._pending))
                    del self._pending[change]
                    self._pending_size -= len(change.uri or "")
                    self._overflowed = False
                    return change
                if self._over or not self._may_try(end):
                    return None
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
            self._pending.clear()
            self._pending_size = 0
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
        self._opened = time.monotonic()
        self.connection = self.client.alive()
        if self.connection.failure is not None:
            raise self.connection.failure
        self.client.listening.add(self)
        try:
            if self.client.revision.modern:
                _request(self)
            else:
                _subscribe(self)
        except BaseException:
            self.client.listening.discard(self)
            raise
        if self._over:  # closed by another thread, which may have been too early to stop anything
            self.client.listening.discard(self)
            stop(self)
        elif self.refused:
            _log.warning("the server does not tell of changes of %s", ", ".join(sorted(self.refused)))
        return self

    def _resume(self) -> None:
        """The connection was lost: listen on a new one, if there is one, else raise what happened.

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
            self.client.listening.discard(self)
            raise problem.with_traceback(None)  # without the frames of those who were told before
        with self._news:
            self._problem = self._agreed = None
        try:
            self.open()
        except ConnectionClosed as again:
            if self._losses >= TRIES:
                raise
            self.client.listening.add(self)
            with self._news:
                self._lost(again)
            return
        refused = self.refused
        for change in (*map(Change, sorted(self.kinds)), *(Change("resource", uri) for uri in self.uris)):
            if (change.uri or change.kind) not in refused:
                self.push(change)

    def _may_try(self, end: float | None) -> bool:
        """Wait until it is time to listen anew; False if the caller has no time for that. Holds _news.

        At once the first time, then later and later: a server needs a while to start again.
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
        """Something changed, once or more since somebody looked. Runs on the reader."""
        with self._news:
            if self._over or change in self._pending:
                return
            # What was asked for by name is as much as was asked for; of its parts there is no end.
            named = change.uri is None or change.uri in self._watched
            size = len(change.uri or "")
            if not named and (
                len(self._pending) >= MAX_PENDING or self._pending_size + size > MAX_PENDING_CHARACTERS
            ):
                if not self._overflowed:
                    _log.warning("changes are forgotten, since nobody takes them: %.200r", change)
                self._overflowed = True
                return
            self._pending[change] = None
            self._pending_size += size
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
                if problem is not None:
                    self._pending.clear()
                    self._pending_size = 0
            elif not self._over:
                self._lost(problem)
            self._news.notify_all()

    def _lost(self, problem: McpError) -> None:
        """The subscription broke. Holds _news."""
        if self._problem is None:
            self._problem, now = problem, time.monotonic()
            self._losses = 1 if now - self._opened > STEADY else self._losses + 1
            # A process that is gone is started anew, and not often (api/pipe_transport): that needs no pause.
            at_once = self._losses == 1 or self.connection.failure is not None
            self._next_try = now if at_once else now + 0.25 * 2**self._losses

    def wait_for_agreement(self, deadline: Deadline) -> bool:
        """False if it does not come in time. Raises what came instead; what comes after it is for `next`."""
        with self._news:
            while self._agreed is None and not self._over and self._problem is None:
                left = deadline.left()
                if left <= 0:
                    return False
                self._news.wait(min(left, LONGEST))
            if self._agreed is None and self._problem is not None:
                raise self._problem.with_traceback(None)
            return True

    def wants(self, change: Change) -> bool:
        """Whether somebody here listens to this, or to what it is a part of."""
        if change.uri is None:
            return change.kind in self.kinds
        return change.uri in self._watched or any(_is_part(change.uri, uri) for uri in self.uris)


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
            if changes.wants(change):
                changes.push(change)


def _is_part(uri: str, whole: str) -> bool:
    """Whether a resource is within another: then it may be told of though only the other was named.

    # spec: schema/updated-sub-resource
    """
    return uri.startswith(whole) and (whole.endswith("/") or uri[len(whole)] in "/?#")


def _meant(client: Any, params: Json) -> list[Changes]:
    """Whoever waits for an answer to the request that this notification names."""
    meta = params.get("_meta")
    name = meta.get(SUBSCRIPTION_ID) if isinstance(meta, dict) else None
    call = client.connection.waiting.get(name) if type(name) is int else None
    return [] if call is None else [c for c in list(client.listening) if c.call is call]


def _honoured(notifications: Any) -> set[str]:
    """The kinds and URIs of an acknowledged filter, however it is made."""
    if not isinstance(notifications, dict):
        return set()
    kinds = {kind for kind, member in LISTS.items() if notifications.get(member) is True}
    uris = notifications.get("resourceSubscriptions")
    return kinds | {uri for uri in uris if isinstance(uri, str)} if isinstance(uris, list) else kinds


# ---------------------------------------------------------------------- modern: one open request


def _request(changes: Changes) -> None:
    """Send it, and wait for the acknowledgment.  # spec: architecture/index/updates-need-listen-stream"""
    client = changes.client
    wanted: Json = {LISTS[kind]: True for kind in sorted(changes.kinds)}
    if changes.uris:
        wanted["resourceSubscriptions"] = list(changes.uris)
    connection = changes.connection

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
        raise RequestTimeout(f"subscriptions/listen: no acknowledgment within {call.deadline.reached()}")


def stop(changes: Changes) -> None:
    """Tell the server that nobody listens any more.

    # spec: basic/patterns/subscriptions/client-cancels
    """
    if not changes.client.revision.modern:
        _unsubscribe(changes)
    elif changes.call is not None:
        changes.connection.cancel(changes.call, "nobody listens any more")


# ---------------------------------------------------------------------- legacy: by way of the session


def _subscribe(changes: Changes) -> None:
    """resources/subscribe for each URI."""
    client = changes.client
    declared: Json = client.server_capabilities or {}
    agreed = {kind for kind in changes.kinds if declared.get(kind, {}).get("listChanged")}
    if client.undeclared("resources/subscribe") is None:
        with client.subscribing:
            agreed |= set(_subscribed(client, changes.uris))
    changes.agree(agreed)
    if changes.connection.failure is not None:  # it may have been too early to be told so
        raise changes.connection.failure


def renew(client: Any) -> None:
    """The session is another one: subscribe again. All counts as changed, since nobody knows."""
    for changes in list(client.listening):
        _subscribe(changes)
        for change in (*map(Change, sorted(changes.kinds)), *(Change("resource", u) for u in changes.uris)):
            changes.push(change)


def _subscribed(client: Any, uris: Sequence[str]) -> Iterator[str]:
    """Those of which the server tells from now on."""
    with contextlib.closing(_ask_for_each(client, "resources/subscribe", uris)) as outcomes:
        for uri, problem in outcomes:
            if problem is None:
                yield uri
            elif isinstance(problem, ErrorResponse):
                _log.info("%.200r: %s", uri, problem)
            else:
                raise problem


def _ask_for_each(
    client: Any, method: str, uris: Sequence[str]
) -> Generator[tuple[str, McpError | None], None, None]:
    """A request for each URI, and what went wrong with it, if anything.

    One is sent first; as long as the server is content, then two at once, four, and up to MAX_AT_ONCE. One
    after the other, each would wait for the way there and back.
    """
    start, at_once = 0, 1
    while start < len(uris):
        some = uris[start : start + at_once]
        start, at_once = start + len(some), min(2 * at_once, MAX_AT_ONCE)
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
    """Unless somebody else of this client listens to the same."""
    client = changes.client
    with client.subscribing:
        kept = changes.refused.union(*(other.uris for other in list(client.listening)))
        if changes.connection.failure is not None:
            return
        uris = [uri for uri in changes.uris if uri not in kept]
        try:
            with contextlib.closing(_ask_for_each(client, "resources/unsubscribe", uris)) as outcomes:
                for uri, problem in outcomes:
                    if problem is not None:  # then it goes on; what comes of it is ignored
                        _log.info("%.200r: %s", uri, problem)
                        if not isinstance(problem, ErrorResponse):
                            return  # no answer comes: one such wait is enough
        except McpError as problem:
            _log.info("nothing more can be unsubscribed: %s", problem)
