"""Server (page: server/index): what an author of a server writes against.

    server = Server("demo", version="1.0.0")

    @server.tool
    def add(a: int, b: int) -> int:
        return a + b

    server.run()

A server has no connection of its own: transports attach one after another, or many at once, and all
of them are served from the same tables. `answer` is where each request passes: in by one of the two
doors, through the hooks, to the handler of its method, and out again, with the fields of its revision.

Revisions   all; `Server(revisions=...)` restricts them.
Threads     registering may happen on any thread at any time. `answer` runs on workers, one request each
            (ping, initialize and server/discover: on the reader, see `is_immediate`). `notice` runs on
            the reader and hands on.
"""

from __future__ import annotations

import contextlib
import functools
import threading
import typing
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, MutableMapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from os import PathLike
from typing import TYPE_CHECKING, Any, Unpack

from mcp_ref.api.context import INPUT_REQUESTS, Context
from mcp_ref.api.options import AppOptions, RunOptions, ServerOptions
from mcp_ref.api.registering import Registry
from mcp_ref.basic import lifecycle, versioning
from mcp_ref.basic.index.error_responses import InternalError, MethodNotFound
from mcp_ref.basic.index.general_fields import Implementation
from mcp_ref.basic.index.messages import Json, add_modern_fields
from mcp_ref.basic.patterns.index.connection import Connection
from mcp_ref.basic.patterns.index.context import RequestContext, WayOut
from mcp_ref.basic.patterns.index.responder import IMMEDIATE, Deferred
from mcp_ref.basic.patterns.mrtr import basic_workflow as mrtr
from mcp_ref.basic.patterns.mrtr.basic_workflow import RETRY_FIELDS, InputRequired, is_question
from mcp_ref.basic.patterns.subscriptions import server as subscriptions
from mcp_ref.basic.patterns.subscriptions.server import Change
from mcp_ref.basic.utilities import ping
from mcp_ref.basic.versioning import MODERN_FIELDS, Method, Revision, revision
from mcp_ref.client import roots
from mcp_ref.client.elicitation import url_mode as url_elicitation
from mcp_ref.client.elicitation.url_mode import UrlElicitationRequired
from mcp_ref.runtime.checks import (
    check_callable,
    check_count,
    check_names,
    check_text,
    check_text_if_any,
)
from mcp_ref.runtime.hooks import run_with_hooks
from mcp_ref.runtime.json_text import Encoded, to_json
from mcp_ref.runtime.limits import Limit, Limiter
from mcp_ref.runtime.logs import logger
from mcp_ref.runtime.seals import Seal, secrets_of
from mcp_ref.runtime.threads import forks
from mcp_ref.runtime.threads.pace import Pace
from mcp_ref.runtime.threads.workers import QueueFull, Workers
from mcp_ref.schema import REVISIONS
from mcp_ref.server import discover, prompts, resources, tools
from mcp_ref.server.resources import ResourceSource
from mcp_ref.server.utilities import completion
from mcp_ref.server.utilities import logging as log_page
from mcp_ref.server.utilities.caching import with_hints
from mcp_ref.server.utilities.pagination import EncodedPage

if TYPE_CHECKING:
    from mcp_ref.basic.transports.streamable_http.endpoint import Application

__all__ = ["Server"]

_log = logger("mcp_ref.server")

# spec: basic/index/support-base-and-lifecycle
ROWS = (
    *lifecycle.METHODS,
    *ping.METHODS,
    *discover.METHODS,
    *tools.METHODS,
    *resources.METHODS,
    *prompts.METHODS,
    *completion.METHODS,
    *subscriptions.METHODS,
    *log_page.METHODS,
)

UNHOOKED = frozenset({"ping", "initialize"})
"""Methods that hooks do not see: they belong to the connection."""

USUAL = ServerOptions()

PRINCIPALS = 10_000
"""Callers whose limits are remembered; the least recent is forgotten first."""


class Server(Registry):
    """Named functions and how to reach them."""

    def __init__(
        self,
        name: str,
        *,
        version: str = "0",
        title: str | None = None,
        instructions: str | None = None,
        revisions: Iterable[str] = REVISIONS,
        lifespan: Callable[[Server], AbstractContextManager[Any]] | None = None,
        page_size: int = 1000,
        limit: Limit | None = None,
        principal: Callable[[Context], str | None] | None = None,
        secret: str | bytes | Sequence[str | bytes] | None = None,
        options: ServerOptions = USUAL,
    ) -> None:
        """`limit` bounds the tool calls and completions of each connection, or of each principal: `principal`
        says for whom a request is, and the state of questions is each principal's own, too. `secret` signs
        that state: processes that share a secret go on with each other's questions. ServerOptions has the
        rest.
        """
        check_text(name=name, version=version)
        check_text_if_any(title=title, instructions=instructions)
        check_callable(lifespan=lifespan, principal=principal)
        check_count(1, page_size=page_size)
        if not isinstance(limit, Limit | None):
            raise TypeError(f"limit is a Limit, not {limit!r:.60}")
        if not isinstance(options, ServerOptions):
            raise TypeError(f"options is a ServerOptions, not {options!r:.60}")
        super().__init__(page_size, self._changed, ROWS, options)
        self.info = _info(name, version, title, options)
        self.instructions = instructions
        self.revisions = [r.date for r in versioning.TABLE if r.date in {revision(d).date for d in revisions}]
        self.hints = options.hints()
        self.seal = Seal(secrets_of(secret), options.state_seconds)
        self.limit = limit or Limit()
        self._principal = principal
        self.pace = Pace()
        self.listeners = subscriptions.Listeners()
        self.elicitations: MutableMapping[str, Connection] = {}
        self.input_requests = INPUT_REQUESTS
        """Of URL mode, those whose completion may still be told."""
        self._identity = self.info if options.identify else None
        self._lifespan = lifespan
        self._modern = self.modern_versions()
        self._supported = self.supported_versions()
        self._is_modern_only = self._modern == self._supported
        self._begin()
        forks.tell(self)

    def _begin(self) -> None:
        """What there is before anything is served."""
        self._starting = threading.Lock()
        self._running = 0  # guarded by _starting, as the next two
        self._entered: ExitStack | None = None
        self._lifespan_value: Any = None
        self._lock = threading.Lock()
        self._principals: OrderedDict[str, Limiter] = OrderedDict()  # guarded by _lock

    def forked(self) -> None:
        """In a forked child: what is served is the parent's, and so is the lifespan. Here it begins anew."""
        forks.without_end.append(self._entered)
        for limiter in self._principals.values():
            limiter.forked()
        self.elicitations.clear()
        self._begin()

    # -- changes that only the author knows of -------------------------------------------------

    def _changed(self, kind: str) -> None:
        """A list is another one."""
        self.listeners.tell(Change(kind))

    def resource_updated(self, uri: str) -> None:
        """The contents of a resource have changed: tell its subscribers."""
        check_text(uri=uri)
        self.listeners.tell(Change("resource", uri))

    def elicitation_complete(self, elicitation_id: str) -> bool:
        """A person has done what they were asked to do at a URL: tell the client. False if none waits."""
        return url_elicitation.complete(self, elicitation_id)

    # -- what transports use -----------------------------------------------------------------

    def run(self, transport: str = "stdio", **given: Unpack[RunOptions]) -> None:
        """Serve: "stdio" until the client is gone, "http" until SIGINT or SIGTERM.

        Over HTTP `host` and `port` say where; the other options are those of `wsgi_app`.
        """
        if transport == "stdio":
            from mcp_ref.basic.transports.stdio import server as stdio  # start-up time

            check_names('Server.run("stdio")', given, ())
            stdio.serve(self)
        elif transport == "http":
            from mcp_ref.api import http_server  # start-up time

            check_names('Server.run("http")', given, RunOptions.__annotations__)
            http_server.serve(self, **given)
        else:
            raise ValueError(f"there is no transport {transport!r}; there are 'stdio' and 'http'")

    def wsgi_app(self, path: str = "/mcp", **given: Unpack[AppOptions]) -> Application:
        """This server as a WSGI application (basic/transports/streamable_http/endpoint)."""
        from mcp_ref.basic.transports.streamable_http.endpoint import Application  # start-up time

        check_names("Server.wsgi_app", given, AppOptions.__annotations__)
        return Application(self, path, **given)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Around the service of a transport: the lifespan is entered by the first, left by the last."""
        with self._starting:  # held while the lifespan is entered: a second transport waits for it
            if self._running == 0:
                self._enter()
            self._running += 1
        process = forks.count
        try:
            yield
        finally:
            with self._starting:
                if forks.count == process:  # the child of a fork never counted the service of its parent
                    self._running -= 1
                if self._running == 0 and self._entered is not None:
                    leaving, self._entered, self._lifespan_value = self._entered, None, None
                    leaving.__exit__(None, None, None)

    def _enter(self) -> None:
        """Begin what lasts as long as the service: the lifespan, the watching of directories."""
        with ExitStack() as entered:
            if self._lifespan is not None:
                self._lifespan_value = entered.enter_context(self._lifespan(self))
            for directory in self.directories:
                entered.enter_context(directory.watch(self))
            self._entered = entered.pop_all()

    def add_directory(self, path: str | PathLike[str], **options: Any) -> ResourceSource:
        """Have the files of a directory as resources (extras/directories), as long as it is there."""
        directory = super().add_directory(path, **options)
        with self._starting:
            if self._entered is not None:  # it is served already
                self._entered.enter_context(directory.watch(self))
        return directory

    def new_workers(self) -> Workers:
        """Threads for the requests of one client, or of all clients of a transport."""
        options = self.options
        return Workers(options.workers, options.queue, queue_bytes=options.queue_bytes)

    def attach(
        self, outbox: WayOut, workers: Workers | None = None, *, notices: Limit | None = None
    ) -> Connection:
        """A new client; `outbox` takes what it is sent. `workers` may be shared with other clients."""
        connection = self.connection(outbox, workers, notices)
        self.listeners.attach(connection)
        return connection

    def connection(self, outbox: WayOut, workers: Workers | None, notices: Limit | None = None) -> Connection:
        """What `attach` does, for a client that hears of no changes."""
        return Connection(
            self,
            outbox,
            workers=workers or self.new_workers(),
            shared=workers is not None,
            timeout=self.options.timeout,
            limit=self.limit,
            notices=notices or self.options.notices,
        )

    def hang_up(self, connection: Connection, seconds: float) -> None:
        """No more requests will come: end what is open, and let what runs finish for a while."""
        self.listeners.close(connection, "the server is going")
        connection.drain(seconds)

    def detach(self, connection: Connection, reason: str) -> None:
        """A client is gone, or is left."""
        self.listeners.close(connection, reason)
        self.listeners.detach(connection)
        url_elicitation.forget(self, connection)
        connection.end(reason)

    # -- what a connection asks (basic/patterns/index.Endpoint) ----------------------

    context_type = Context

    def is_immediate(self, context: RequestContext) -> bool:
        """Whether the reader may answer this request, one of IMMEDIATE: hooks and own methods may be slow.

        `principal` is not called for these, since nothing in their answers depends on it.
        """
        method = context.method
        return method not in self.own_methods and (method in UNHOOKED or not self.hooks)

    def is_quick(self, context: RequestContext) -> bool:
        """Whether a request needs no worker where a thread waits for it anyway.

        Hooks and own methods may be slow, and may ask: the question goes out on that very thread.
        """
        if self.hooks or self._principal is not None or context.method in self.own_methods:
            return False
        return tools.is_quick(self, context)

    def answer(self, context: RequestContext) -> Json | Encoded | Deferred:
        """The result of one request, in eight steps. Raises ProtocolError."""
        # Step 1: the door of its era says who asks, in which revision, and with which capabilities.
        self._open_door(context)
        # Step 2: its method has a row, if this server offers it in that revision.
        row = self._row_of(context)
        # Step 3: its params have the shape that the revision gives them.
        row.check(context.params, context.revision.date)
        # Step 4: a retry brings the answers to what was asked before, by the same principal.
        if self._principal is not None:
            self._find_principal(context)
        context.handling.asks = row.asks
        if row.asks and context.revision.asks == "in results" and not RETRY_FIELDS.isdisjoint(context.params):
            mrtr.resume(context)
        token = log_page.current.set(context)
        try:
            # Step 5: the handler runs, with the hooks around it.
            handler = self._hooked(row) if self.hooks and row.name not in UNHOOKED else row.handler
            result = handler(self, context.params, context)
        except BaseException as problem:
            # Step 6: a handler that waits for an answer was unwound: its result is the question.
            result = _question_or_raise(context, problem)
        finally:
            log_page.current.reset(token)
        if type(result) is Deferred:
            return result
        result = self._check_result(result, row, context)
        # Step 7: a result of the modern era has more fields. Step 8: some results are JSON already.
        return self._encode(result, row, context)

    def _open_door(self, context: RequestContext) -> None:
        """Step 1. A server of the legacy era alone takes no modern request: its client would not go back."""
        if self._modern and not MODERN_FIELDS.isdisjoint(context.meta):
            versioning.context_from_meta(context, self._modern, self._supported)
        elif self._is_modern_only:
            # No session can be opened here, so each request without the fields of `_meta` lacks them: also
            # `ping`, and a method that does not exist. The page has one answer to that, -32602.
            if context.method == "initialize":
                versioning.refuse_initialize(context.params, self._supported)
            versioning.context_from_meta(context, self._modern, self._supported)
        else:
            lifecycle.context_from_session(context, has_modern=bool(self._modern))
        context.handling.server = self
        context.lifespan = self._lifespan_value
        context.handling.identity = self._identity

    def _row_of(self, context: RequestContext) -> Method:
        """Step 2. Raises MethodNotFound.

        # spec: schema/method-not-found-ungated, schema/removed-methods-2026
        """
        row = self.tables[context.revision.date].get(context.method)
        if row is None or (row.capability not in self.offered and not self.offers(row.capability or "")):
            raise MethodNotFound(f"there is no method {context.method[:100]!r} here, in {context.revision}")
        return row

    def _find_principal(self, context: RequestContext) -> None:
        """Step 4. The state of a retry is bound to the principal, which is why that is found out before."""
        assert self._principal is not None
        if context.method not in IMMEDIATE or not self.is_immediate(context):
            context.principal = self._principal(typing.cast(Context, context))

    def _hooked(self, row: Method) -> Callable[[Any, Json, Any], Any]:
        """Step 5. A handler with the hooks around it."""

        def handler(params: Json, context: RequestContext) -> Any:
            try:
                return _copy_page(row.handler(self, params, context))
            except BaseException as problem:  # what it asks is for the hooks to see, and to change
                return _question_or_raise(context, problem)

        return lambda server, params, context: run_with_hooks(self.hooks, handler, context, params)

    def _check_result(self, result: Any, row: Method, context: RequestContext) -> Json:
        """A result is an object; one that asks is of a method that may ask. Raises InternalError."""
        result = {} if result is None else result
        if not isinstance(result, dict):
            raise InternalError(f"{row.name}: the handler returned no object")
        if context.handling.exchange is None and "resultType" not in result:
            return result  # most results: nothing was asked, and nothing is
        pending = context.handling.exchange is not None and context.handling.exchange.pending
        if not is_question(result):
            # Still pending: the handler went on after it was unwound, with nothing to go on with.
            return mrtr.question(context) if pending else result
        if not row.asks:
            raise InternalError(f"{row.name}: only tools/call, prompts/get and resources/read may ask")
        return result if pending else mrtr.finish_handler_made(context, result)

    def _encode(self, result: Json, row: Method, context: RequestContext) -> Json | Encoded:
        """Steps 7 and 8. A page of a list remembers both: it is sent to many."""
        at, page = context.revision, result if type(result) is EncodedPage else None
        if page is not None and at in page.encoded:
            return page.encoded[at]
        if at.modern:
            result = add_modern_fields(result, context)
            if row.cacheable:
                result = with_hints(result, context.handling.hints or self.hints[row.name])
        if page is not None:
            page.encoded[at] = Encoded([to_json(result).encode("utf-8")])
            return page.encoded[at]
        return row.encode(result) if row.encode is not None else result

    def notice(self, connection: Connection, method: str, params: Json, size: int) -> None:
        """A notification; unknown ones are ignored."""
        if method == "notifications/initialized":
            if lifecycle.on_initialized(connection):
                lose = connection.lose or functools.partial(self.detach, connection)
                ping.watch(connection, self.options.ping_every, lose)
            self.listeners.opened(connection)
        elif method == "notifications/roots/list_changed":
            roots.on_list_changed(connection)
        if method in self.listeners_of:
            try:
                connection.responder.workers.submit(self.listeners_of[method], params, size=size)
            except QueueFull:
                _log.warning("dropped %s: too much is waiting", method)

    # -- facts about this server ---------------------------------------------------------------

    def supported_versions(self) -> list[str]:
        """Versions that this server speaks, in either era, newest first."""
        return versioning.newest_first(self.revisions)

    def modern_versions(self) -> list[str]:
        """Versions that a request may name, newest first."""
        return [date for date in self.supported_versions() if revision(date).modern]

    def capabilities(self, at: Revision, *, tells: bool = True) -> Json:
        """What a client of this revision may use; `tells` it of changes, if there is a way to it.

        # spec: architecture/index/advertise-server-features
        """
        listed = {"listChanged": True} if tells else {}
        offers: Json = {
            "logging": {},
            "tools": listed,
            "resources": {"subscribe": True, **listed} if tells else {},
            "prompts": listed,
            "completions": {},
        }
        found: Json = {name: parts for name, parts in offers.items() if self.offers(name)}
        if self.options.experimental:
            found["experimental"] = self.options.experimental
        if self.options.extensions:
            found["extensions"] = self.options.extensions
        return found

    def limiter(self, context: RequestContext) -> Limiter:
        """What counts the tool calls of this caller: its principal's, or its connection's."""
        if context.principal is None:
            return context.connection.responder.limiter
        with self._lock:
            found = self._principals.setdefault(context.principal, Limiter(self.limit))
            self._principals.move_to_end(context.principal)
            if len(self._principals) > PRINCIPALS:
                self._principals.popitem(last=False)
            return found


def _info(name: str, version: str, title: str | None, options: ServerOptions) -> Implementation:
    """Who this server is, as the newest revision has it."""
    info: Json = {
        "name": name,
        "version": version,
        "title": title,
        "description": options.description,
        "websiteUrl": options.website_url,
        "icons": options.icons,
    }
    return typing.cast(Implementation, {key: value for key, value in info.items() if value is not None})


def _question_or_raise(context: RequestContext, problem: BaseException) -> Json:
    """Step 6. The question of a handler that was unwound, even if it made something else of that.

    Any other problem is raised again.
    """
    is_pending = context.handling.exchange is not None and context.handling.exchange.pending
    if not is_pending and not isinstance(problem, InputRequired | UrlElicitationRequired):
        raise problem
    if isinstance(problem, UrlElicitationRequired):
        with contextlib.suppress(InputRequired):
            url_elicitation.require_visit(context, problem)
    return mrtr.question(context)


def _copy_page(result: Any) -> Any:
    """A result that a hook may change: a page that is sent to many is copied first."""
    if type(result) is not EncodedPage:
        return result
    return {k: v.copy() if isinstance(v, list | dict) else v for k, v in result.items()}
