"""Server (page: server/index): what an author of a server writes against.

    server = Server("demo", version="1.0.0")

    @server.tool
    def add(a: int, b: int) -> int:
        return a + b

    server.run()

A server has no connection of its own: transports attach one after another, or many at once, and all
of them are served from the same tables. `answer` is where each request passes: in by one of the two
doors, through the hooks, to the handler of its method, and out again, dressed for its revision.

Revisions   all; `Server(revisions=...)` restricts them.
Threads     registering may happen on any thread at any time. `answer` runs on workers, one request each
            (ping and initialize: on the reader). `notice` runs on the reader and hands on. Clients hear
            of a changed list from `mcp_ref changes`, which lives as long as that takes.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, TypeVar, overload

from mcp_ref.basic import lifecycle, versioning
from mcp_ref.basic.context import Context
from mcp_ref.basic.errors import ConnectionClosed, InternalError, MethodNotFound
from mcp_ref.basic.messages import Encoded, Json, to_json
from mcp_ref.basic.meta import Icon, Implementation, check_extensions
from mcp_ref.basic.patterns.request_response import IMMEDIATE, Connection
from mcp_ref.basic.utilities import ping
from mcp_ref.basic.versioning import Method, Revision, dress, is_modern, revision
from mcp_ref.runtime.checks import (
    check_callable,
    check_count,
    check_object,
    check_seconds,
    check_text,
    check_text_if_any,
)
from mcp_ref.runtime.hooks import Handler, Hook, handler_of, through
from mcp_ref.runtime.limits import Limit, Limiter
from mcp_ref.runtime.timers import later
from mcp_ref.runtime.workers import QueueFull, Workers
from mcp_ref.schema import REVISIONS
from mcp_ref.server import discover, tools
from mcp_ref.server.content import check_icons
from mcp_ref.server.toolbox import Kept, Toolbox, tool_from
from mcp_ref.server.tools import ToolAnnotations
from mcp_ref.server.utilities import caching
from mcp_ref.server.utilities import logging as log_page

__all__ = ["Server"]

_log = logging.getLogger("mcp_ref.server")

F = TypeVar("F", bound=Callable[..., Any])

# spec: basic/index/support-base-and-lifecycle
ROWS = (*lifecycle.METHODS, *ping.METHODS, *discover.METHODS, *tools.METHODS, *log_page.METHODS)

BURST = 0.02
"""Seconds in which several changes of a list become one notification."""

PRINCIPALS = 10_000
"""Callers whose limits are remembered; the least recent is forgotten first."""


class Server:
    """Named functions and how to reach them."""

    def __init__(
        self,
        name: str,
        *,
        version: str = "0",
        title: str | None = None,
        description: str | None = None,
        website_url: str | None = None,
        icons: list[Icon] | None = None,
        instructions: str | None = None,
        revisions: Iterable[str] = REVISIONS,
        lifespan: Callable[[Server], AbstractContextManager[Any]] | None = None,
        experimental: dict[str, Json] | None = None,
        extensions: dict[str, Json] | None = None,
        logging: bool = True,
        page_size: int = 1000,
        ttl_ms: int = 0,
        cache_scope: caching.CacheScope = "private",
        limit: Limit | None = None,
        notices: Limit | None = None,
        workers: int = 100,
        queue: int = 1000,
        timeout: float = 30.0,
        max_message_bytes: int = 64 << 20,
        identify: bool = True,
        audit_arguments: bool = False,
    ) -> None:
        """`limit` bounds tool calls, `notices` progress and log messages, both per connection or
        principal; `workers` requests of one connection run at once and `queue` wait; `timeout` is for
        requests to the client. `identify=False` leaves serverInfo out of results.
        """
        check_text(name=name, version=version)
        check_text_if_any(
            title=title,
            description=description,
            website_url=website_url,
            instructions=instructions,
        )
        check_object(experimental=experimental, extensions=extensions)
        check_callable(lifespan=lifespan)
        check_count(1, page_size=page_size, workers=workers, max_message_bytes=max_message_bytes)
        check_count(0, queue=queue)
        check_seconds("timeout", timeout)
        if not all(isinstance(bound, Limit | None) for bound in (limit, notices)):
            raise TypeError("limit and notices are each a Limit")
        more = {"title": title, "description": description, "websiteUrl": website_url, "icons": icons}
        check_icons(icons or [])
        info: Json = {"name": name, "version": version}
        self.info: Implementation = info | {k: v for k, v in more.items() if v is not None}  # type: ignore[assignment]
        self.instructions = instructions
        self.revisions = [r.date for r in versioning.TABLE if r.date in {revision(d).date for d in revisions}]
        check_extensions(extensions or {})
        self.experimental, self.extensions, self.logging = experimental, extensions, logging
        self.toolbox = Toolbox(page_size, lambda: self._changed("tools"))
        self.hints = caching.hints(ttl_ms, cache_scope)
        self.limit, self._notices = limit or Limit(), notices
        self.workers, self.queue, self.timeout = workers, queue, timeout
        self.max_message_bytes = max_message_bytes
        self.audit_arguments = audit_arguments
        self._identity = self.info if identify else None
        self._lifespan = lifespan
        self._modern = self.modern_versions()
        self._hooks: tuple[Hook, ...] = ()
        self._listeners: dict[str, Callable[..., Any]] = {}
        self._tables = {date: dict(versioning.methods(ROWS, date)) for date in REVISIONS}
        self._starting = threading.Lock()
        self._running = 0  # guarded by _starting, as the next two
        self._entered: AbstractContextManager[Any] | None = None
        self._lifespan_value: Any = None
        self._lock = threading.Lock()
        # All below guarded by _lock.
        self._connections: list[Connection] = []
        self._pending: set[str] = set()
        self._principals: OrderedDict[str, Limiter] = OrderedDict()

    # -- what an author says -------------------------------------------------------------

    @overload
    def tool(self, function: F, /) -> F: ...
    @overload
    def tool(
        self,
        function: None = None,
        /,
        *,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        icons: list[Icon] | None = None,
        annotations: ToolAnnotations | None = None,
        meta: Json | None = None,
        input_schema: Json | None = None,
        output_schema: Json | bool | None = None,
        replace: bool = False,
    ) -> Callable[[F], F]: ...
    def tool(self, function: Any = None, /, **options: Any) -> Any:
        """Decorator: the function becomes a tool (server/toolbox) and stays a function."""
        if function is not None:
            self.add_tool(function)
            return function

        def decorate(function: F) -> F:
            self.add_tool(function, **options)
            return function

        return decorate

    def add_tool(self, function: Callable[..., Any], *, replace: bool = False, **options: Any) -> None:
        """Add a tool, now or while clients are connected; they are told that the list changed."""
        self.toolbox.add(tool_from(function, **options), replace=replace)

    def remove_tool(self, name: str) -> None:
        """Remove a tool. Raises KeyError if there is none of that name."""
        self.toolbox.remove(name)

    def on_request(
        self, method: str, *, since: str = REVISIONS[0], until: str = REVISIONS[-1]
    ) -> Callable[[F], F]:
        """Decorator: `fn(params)` or `fn(params, ctx)` answers a method of your own, with a dict."""

        def decorate(function: F) -> F:
            call = handler_of(function)
            row = Method(method, lambda server, params, context: call(params, context), since, until)
            for date, table in self._tables.items():
                if row.holds(date):
                    table[method] = row
            return function

        return decorate

    def on_notification(self, method: str) -> Callable[[F], F]:
        """Decorator: `fn(params)` hears a notification of the client's."""

        def decorate(function: F) -> F:
            self._listeners[method] = function
            return function

        return decorate

    def around(self, hook: Hook) -> Hook:
        """Decorator: `fn(ctx, params, proceed)` wraps every request; the first added is outermost.

        It returns `proceed(params)`, or answers itself, or raises a ProtocolError. `ping` and
        `initialize` do not pass: they belong to the connection.
        """
        self._hooks = (*self._hooks, hook)
        return hook

    # -- what transports use -----------------------------------------------------------------

    def run(self, transport: str = "stdio") -> None:
        """Serve until the client is gone."""
        if transport != "stdio":
            raise ValueError(f"there is no transport {transport!r}; there is 'stdio'")
        from mcp_ref.basic.transports import stdio

        stdio.serve(self)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Around the service of a transport: the lifespan is entered by the first, left by the last."""
        with self._starting:  # held while the lifespan is entered: a second transport waits for it
            if self._running == 0 and self._lifespan is not None:
                entered = self._lifespan(self)
                self._lifespan_value = entered.__enter__()
                self._entered = entered
            self._running += 1
        try:
            yield
        finally:
            with self._starting:
                self._running -= 1
                if self._running == 0 and self._entered is not None:
                    leaving, self._entered, self._lifespan_value = self._entered, None, None
                    leaving.__exit__(None, None, None)

    def attach(self, write: Callable[[bytes], None]) -> Connection:
        """A new client; `write` takes what it is sent."""
        connection = Connection(
            self,
            write,
            workers=Workers(self.workers, self.queue),
            timeout=self.timeout,
            limit=self.limit,
            notices=self._notices,
        )
        with self._lock:
            self._connections.append(connection)
        return connection

    def detach(self, connection: Connection, reason: str) -> None:
        """A client is gone."""
        with self._lock:
            self._connections.remove(connection)
        connection.end(reason)

    # -- what a connection asks (basic/patterns/request_response.Endpoint) ----------------------

    def answer(self, context: Context) -> Json | Encoded:
        """The result of one request. Raises ProtocolError."""
        params = context.params
        # A server of the legacy era only must not sound like a modern one, or no client falls back.
        # spec: basic/versioning/dual-era-server, basic/versioning/dual-era-concurrent
        if self._modern and is_modern(params):
            versioning.enter(context, self._modern)
        else:
            lifecycle.enter(context)
        context.server = self
        context.lifespan = self._lifespan_value
        context.identity = self._identity
        row = self._tables[context.revision.date].get(context.method)
        if row is None or (row.capability and not self._offers(row.capability)):
            # spec: schema/method-not-found-ungated, schema/removed-methods-2026
            raise MethodNotFound(f"there is no method {context.method[:100]!r} here, in {context.revision}")
        row.check(params, context.revision.date)
        token = log_page.current.set(context)
        try:
            if self._hooks and row.name not in IMMEDIATE:
                result = through(self._hooks, self._handler(row), context, params)
            else:
                result = row.handler(self, params, context)
        finally:
            log_page.current.reset(token)
        return self._finished(result, row, context)

    def _handler(self, row: Method) -> Handler:
        """The handler of a method, as hooks see it: what it returns is theirs to change."""
        return lambda params, context: _own(row.handler(self, params, context))

    def _finished(self, result: Any, row: Method, context: Context) -> Json | Encoded:
        """The result in the dress of its revision."""
        if not isinstance(result, dict):
            if result is not None:
                raise InternalError(f"{row.name}: the handler returned no object")
            result = {}
        hints = self.hints if row.cacheable else None  # spec: server/utilities/caching/page-same-scope
        if type(result) is Kept:
            key = context.revision
            if key not in result.encoded:
                dressed = dress(result, context, hints) if key.modern else result
                result.encoded[key] = Encoded(to_json(dressed).encode("utf-8"))
            return result.encoded[key]
        if context.revision.modern:
            result = dress(result, context, hints)
        return row.encode(result) if row.encode is not None else result

    def notice(self, connection: Connection, method: str, params: Json) -> None:
        """A notification; what is not known is ignored."""
        if method == "notifications/initialized":
            lifecycle.on_initialized(connection)
        elif method in self._listeners:
            try:
                connection.workers.submit(self._listeners[method], params)
            except QueueFull:
                _log.warning("dropped %s: too much is waiting", method)

    # -- facts about this server ---------------------------------------------------------------

    def modern_versions(self) -> list[str]:
        """Versions that a request may name, newest first."""
        return [date for date in reversed(self.revisions) if revision(date).modern]

    def capabilities(self, at: Revision) -> Json:
        """What a client of this revision may use.

        # spec: architecture/index/advertise-server-features
        # spec: server/tools/capability-declared, server/utilities/logging/capability-declared
        """
        found: Json = {}
        if self.logging:
            found["logging"] = {}
        if self._offers("tools"):
            # In the modern era, changes flow on subscriptions only.
            found["tools"] = {} if at.modern else {"listChanged": True}
        if self.experimental:
            found["experimental"] = self.experimental
        if self.extensions:
            found["extensions"] = self.extensions
        return found

    def _offers(self, capability: str) -> bool:
        return self.logging if capability == "logging" else self.toolbox.used

    def limiter(self, context: Context) -> Limiter:
        """What counts the tool calls of this caller: its principal's, or its connection's."""
        if context.principal is None:
            return context.connection.limiter
        with self._lock:
            found = self._principals.setdefault(context.principal, Limiter(self.limit))
            self._principals.move_to_end(context.principal)
            if len(self._principals) > PRINCIPALS:
                self._principals.popitem(last=False)
            return found

    # -- changes --------------------------------------------------------------------------------

    def _changed(self, kind: str) -> None:
        """A list changed: tell everybody soon, and once for many changes."""
        with self._lock:
            if kind in self._pending or not self._connections:
                return
            self._pending.add(kind)
        later(BURST, lambda: self._announce_on_a_thread(kind))

    def _announce_on_a_thread(self, kind: str) -> None:
        """Neither the timers may wait for a client that does not read, nor clients for a free worker."""
        thread = threading.Thread(target=self._announce, args=(kind,), name="mcp_ref changes", daemon=True)
        try:
            thread.start()
        except RuntimeError:
            _log.exception("clients are not told that the %s changed", kind)

    def _announce(self, kind: str) -> None:
        with self._lock:
            self._pending.discard(kind)
            connections = list(self._connections)
        for connection in connections:
            # spec: server/tools/list-changed, basic/lifecycle/negotiated-capabilities-only
            if connection.session.declares_changes(kind):
                try:
                    connection.notify(f"notifications/{kind}/list_changed")
                except ConnectionClosed:
                    pass


def _own(result: Any) -> Any:
    """A result that a hook may change: what is kept for everybody is copied first."""
    if type(result) is not Kept:
        return result
    return {k: v.copy() if isinstance(v, list | dict) else v for k, v in result.items()}
