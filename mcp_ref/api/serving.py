"""How a server answers the requests of its clients, and hears their notifications (page: server/index).

Each request passes through `answer`: by the door of its era (which fills its context from a session, or from
its `_meta`), through the hooks, to the handler of its method; and its result gets the fields of its revision.

Revisions   all.
Threads     `answer` runs on workers, one request each (ping, initialize and server/discover: on the reader,
            see `is_immediate`); over HTTP on the thread of the request. `notice` runs on the thread that
            brings the notification.
"""

from __future__ import annotations

import contextlib
import functools
import typing
from collections.abc import Callable, MutableMapping
from typing import TYPE_CHECKING, Any, Protocol

from mcp_ref.api.context import INPUT_REQUESTS, Context
from mcp_ref.basic import lifecycle, versioning
from mcp_ref.basic.index.error_responses import InternalError, MethodNotFound
from mcp_ref.basic.index.messages import Json, add_modern_fields
from mcp_ref.basic.patterns.index.connection import Connection
from mcp_ref.basic.patterns.index.context import Initiator, RequestContext
from mcp_ref.basic.patterns.index.responder import IMMEDIATE, Deferred
from mcp_ref.basic.patterns.mrtr import basic_workflow as mrtr
from mcp_ref.basic.patterns.mrtr.basic_workflow import RETRY_FIELDS, InputRequired, is_input_required
from mcp_ref.basic.patterns.subscriptions.server import Publisher
from mcp_ref.basic.utilities import ping
from mcp_ref.basic.utilities.tasks import protocol_messages as tasks_of_2025
from mcp_ref.basic.utilities.tasks.behavior_requirements import Plan, Receiver, TaskRun
from mcp_ref.basic.utilities.tasks.data_types import RELATED_TASK
from mcp_ref.basic.versioning import MODERN_FIELDS, Method, Versions
from mcp_ref.client import roots
from mcp_ref.client.elicitation import url_mode as url_elicitation
from mcp_ref.client.elicitation.url_mode import UrlElicitationRequired
from mcp_ref.extensions import tasks as task_extension
from mcp_ref.runtime.hooks import run_with_hooks
from mcp_ref.runtime.json_text import Encoded, to_json
from mcp_ref.runtime.logs import logger
from mcp_ref.runtime.threads import forks
from mcp_ref.runtime.threads.workers import QueueFull
from mcp_ref.server.prompts import PromptHost
from mcp_ref.server.resources import ResourceHost
from mcp_ref.server.tools import ToolHost
from mcp_ref.server.utilities import logging as log_page
from mcp_ref.server.utilities.caching import with_hints
from mcp_ref.server.utilities.completion import CompletionHost
from mcp_ref.server.utilities.pagination import EncodedPage

if TYPE_CHECKING:
    from mcp_ref.api.options import ServerOptions
    from mcp_ref.api.registering import Handlers
    from mcp_ref.runtime.seals import Seal
    from mcp_ref.runtime.threads.shared import Shared

__all__ = ["Serving"]

_log = logger("mcp_ref.server")

PLANS: dict[str, Callable[[Any, RequestContext], Plan | None]] = {
    "unknown": lambda tools, context: None,
    "asked for": tasks_of_2025.plan_of,
    "decided": task_extension.plan_of,
}
"""How a call runs as a task, or None if it does not; by `Revision.tasks`.

# spec: extensions/tasks/not-under-2025-11-25
"""

UNHOOKED = frozenset({"ping", "initialize"})
"""Methods that hooks do not see: they belong to the connection."""


class Host(ToolHost, PromptHost, ResourceHost, CompletionHost, Publisher, lifecycle.ServerFacts, Protocol):
    """The server, with everything that the handlers of its pages use."""

    options: ServerOptions
    handlers: Handlers
    versions: Versions
    lifespan: Shared[Any]
    tasks: Receiver

    def detach(self, connection: Connection, reason: str) -> None:
        """A client has left, or is given up: end its subscriptions and its connection, and forget it."""


class Serving:
    """The endpoint of all connections of a server: answers their requests, hears their notifications."""

    context_type = Context
    input_requests = INPUT_REQUESTS

    def __init__(self, server: Host, principal: Callable[[Context], str | None] | None, seal: Seal) -> None:
        self.server, self.handlers = server, server.handlers
        self.logging, self.seal = server.options.logging, seal
        self.elicitations: MutableMapping[str, Initiator] = {}
        """Elicitations of URL mode that may still be reported as completed, by id."""
        self.hints = server.options.hints()
        self._principal = principal
        self.has_principals = principal is not None
        self._identity = server.info if server.options.identify else None
        forks.register(self)

    def forked(self) -> None:
        """Forget the elicitations in a forked child: they were sent to the parent's clients."""
        self.elicitations.clear()

    def is_immediate(self, context: RequestContext) -> bool:
        """Whether the reader itself may answer this request, which is one of IMMEDIATE.

        Not if a function of the author's runs for it, a hook or a handler: it may be slow. `principal` is not
        called for these requests, since nothing in their answers depends on it.
        """
        method = context.method
        return method not in self.handlers.own_methods and (method in UNHOOKED or not self.handlers.hooks)

    def answer(self, context: RequestContext, row: Method | None = None) -> Json | Encoded | Deferred:
        """The result of one request, in eight steps. Raises ProtocolError.

        A request that runs as a task comes here twice: first for its steps 1 to 5, then, on the thread of the
        task and with its `row`, for the steps 6 and 7. `_as_task` does step 8.
        """
        is_task = row is not None
        if row is None:
            row = self._admit(context)
            # Step 5: a call may run as a task. Then its own thread does the steps that follow.
            if row.may_be_task and self.server.tasks.is_offered:
                plan = PLANS[context.revision.tasks](self.server.tools, context)
                if plan is not None:
                    return self._as_task(plan, row, context)
        token = log_page.current.set(context)
        try:
            # Step 6: the handler runs, with the hooks around it.
            handler = self._hooked(row) if self.handlers.hooks else row.handler
            result = handler(self.server, context.params, context)
        except BaseException as problem:
            # Step 7: a handler that asked the client was unwound by an exception: the question is its result.
            result = _question_or_raise(context, problem)
        finally:
            log_page.current.reset(token)
        if type(result) is Deferred:
            return result
        result = self._check_result(result, row, context)
        # Step 8: add the fields of the modern era, and encode the result where that is done only once.
        return result if is_task else self._encode(result, row, context)

    def _admit(self, context: RequestContext) -> Method:
        """Steps 1 to 4: the row of a request. Raises ProtocolError for one that cannot be answered.

        # spec: schema/method-not-found-ungated, schema/removed-methods-2026
        """
        # Step 1: the door of its era says who asks, in which revision, and with which capabilities.
        self._open_door(context)
        # Step 2: its method has a row, if this server offers it in that revision.
        row = self.handlers.tables[context.revision.date].get(context.method)
        offered = self.handlers.offered
        if row is None or (row.capability not in offered and not self.server.offers(row.capability or "")):
            raise MethodNotFound(f"there is no method {context.method[:100]!r} here, in {context.revision}")
        # Step 3: its params have the shape that the revision gives them.
        row.check(context.params, context.revision.date)
        # Step 4: a retry brings the answers to what was asked before, by the same principal.
        if self._principal is not None:
            self._find_principal(context)
        context.handling.asks = row.asks
        if row.asks and context.revision.asks == "in results" and not RETRY_FIELDS.isdisjoint(context.params):
            mrtr.resume(context)
        return row

    def _as_task(self, plan: Plan, row: Method, context: RequestContext) -> Json | Encoded:
        """Step 5. The task that a call runs as, or the result of the call if it is quick; after step 8."""

        def call() -> Json:
            return typing.cast(Json, self.answer(context, row))

        def encode(result: Json) -> bytes:
            encoded = self._encode(result, row, context)
            return b"".join(encoded.pieces) if isinstance(encoded, Encoded) else to_json(encoded).encode()

        return self._encode(TaskRun(self.server.tasks, context, plan, call, encode).answer(), row, context)

    def _open_door(self, context: RequestContext) -> None:
        """Step 1. Fill the context from the session, or from the `_meta` of the request.

        A server that has only the legacy era treats a modern request as a legacy one: a modern error would
        keep the client from falling back to `initialize`.
        """
        versions = self.server.versions
        if versions.modern and not MODERN_FIELDS.isdisjoint(context.meta):
            versioning.context_from_meta(context, versions.modern, versions.supported)
        elif not versions.legacy:
            # No session can be opened here, so every request must have the fields in `_meta`, also `ping` and
            # an unknown method. The page has one answer to a request without them: -32602.
            if context.method == "initialize":
                versioning.refuse_initialize(context.params, versions.supported)
            versioning.context_from_meta(context, versions.modern, versions.supported)
        else:
            lifecycle.context_from_session(context, has_modern=bool(versions.modern))
        context.handling.server = self
        context.lifespan = self.server.lifespan.value
        context.handling.identity = self._identity

    def _find_principal(self, context: RequestContext) -> None:
        """Step 4. Call the author's function `principal`, before the state of a retry, bound to it, is read.

        Where it returns None, the principal of the HTTP request stays.
        """
        assert self._principal is not None
        if context.method not in IMMEDIATE or not self.is_immediate(context):
            named = self._principal(typing.cast(Context, context))
            context.principal = context.principal if named is None else named

    def _hooked(self, row: Method) -> Callable[[Any, Json, Any], Any]:
        """Step 6. The handler of a method with the hooks around it, unless they do not see the method."""
        if row.name in UNHOOKED:
            return row.handler

        def handler(params: Json, context: RequestContext) -> Any:
            try:
                return _copy_page(row.handler(self.server, params, context))
            except BaseException as problem:  # as a result, a question can be seen and changed by the hooks
                return _question_or_raise(context, problem)

        return lambda server, params, context: run_with_hooks(self.handlers.hooks, handler, context, params)

    def _check_result(self, result: Any, row: Method, context: RequestContext) -> Json:
        """The result, if it is an object, and asks only if its method may ask. Raises InternalError."""
        result = {} if result is None else result
        if not isinstance(result, dict):
            raise InternalError(f"{row.name}: the handler returned no object")
        if context.handling.exchange is None and "resultType" not in result:
            return result  # most results: the client was asked nothing, before or now
        pending = context.handling.exchange is not None and context.handling.exchange.pending
        if not is_input_required(result):
            task_extension.check_handler_made(result, context)
            # Still pending: the handler caught the exception that unwound it, and went on without an answer.
            return mrtr.input_required_result(context) if pending else result
        if not row.asks:
            raise InternalError(f"{row.name}: only tools/call, prompts/get and resources/read may ask")
        return result if pending else mrtr.finish_handler_made(context, result)

    def _encode(self, result: Json, row: Method, context: RequestContext) -> Json | Encoded:
        """Step 8. The result as it is sent. A page of a list keeps its encoded form: it is sent to many."""
        if RELATED_TASK in context.meta:
            result = context.related(result)
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
        """Serve a notification, and call the author's function for it. Unknown ones are ignored."""
        if method == "notifications/initialized":
            if lifecycle.on_initialized(connection):
                lose = connection.lose or functools.partial(self.server.detach, connection)
                ping.watch(connection, self.server.options.ping_every, lose)
            self.server.listeners.opened(connection)
        elif method == "notifications/roots/list_changed":
            roots.on_list_changed(connection)
        if method in self.handlers.by_notification:
            try:
                connection.responder.submit(self.handlers.by_notification[method], params, size=size)
            except QueueFull:
                _log.warning("dropped %s: too much is waiting", method)


def _question_or_raise(context: RequestContext, problem: BaseException) -> Json:
    """Step 7. The result that asks, if the handler was unwound by a question to the client.

    That is so even if the handler then raised another exception. Any other problem is raised again.
    """
    is_pending = context.handling.exchange is not None and context.handling.exchange.pending
    if not is_pending and not isinstance(problem, InputRequired | UrlElicitationRequired):
        raise problem
    if isinstance(problem, UrlElicitationRequired):
        if context.handling.task is not None and not context.revision.url_errors:
            raise InternalError(problem.message)  # a task does not run again from its top
        with contextlib.suppress(InputRequired):
            url_elicitation.require_visit(context, problem)
    return mrtr.input_required_result(context)


def _copy_page(result: Any) -> Any:
    """A result that a hook may change. A page of a list is sent to others as well, so it is copied."""
    if type(result) is not EncodedPage:
        return result
    return {k: v.copy() if isinstance(v, list | dict) else v for k, v in result.items()}
