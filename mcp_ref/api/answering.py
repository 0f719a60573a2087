"""How a client handles what its server sends: requests (legacy era), questions in results, notifications.

    server -> client   a request         answer -> the application's own handler, or `fulfil`
    server -> client   input_required    fulfil, for each question (basic/patterns/mrtr)
    server -> client   a notification    notice -> the pages that it concerns, then the application

Revisions   all; in the modern era a server sends no requests.
Threads     `answer` runs on a worker (ping: on the reader). `notice` runs on the reader, and leaves calls of
            the application's functions to the thread for events (api/events).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Set
from typing import Any, TypeVar

from mcp_ref.api.callbacks import Callbacks
from mcp_ref.api.context import INPUT_REQUESTS, Context
from mcp_ref.api.events import EventThread
from mcp_ref.basic.index.error_responses import InternalError, InvalidRequest, MethodNotFound
from mcp_ref.basic.index.messages import Json, encode
from mcp_ref.basic.lifecycle import Negotiated
from mcp_ref.basic.patterns.index.connection import Connection
from mcp_ref.basic.patterns.index.context import RequestContext
from mcp_ref.basic.patterns.mrtr.basic_workflow import InputRequestType
from mcp_ref.basic.patterns.subscriptions.client import Subscriptions
from mcp_ref.basic.utilities.tasks import protocol_messages as tasks_of_2025
from mcp_ref.basic.utilities.tasks.behavior_requirements import Receiver, TaskRun
from mcp_ref.basic.utilities.tasks.protocol_messages import TaskNews
from mcp_ref.basic.versioning import Method
from mcp_ref.runtime.errors import ConnectionClosed
from mcp_ref.runtime.hooks import Handler, Hook, handler_of, run_with_hooks
from mcp_ref.runtime.json_text import Encoded
from mcp_ref.runtime.logs import logger
from mcp_ref.runtime.typing.mismatch import message_of
from mcp_ref.server.tools import KnownTools
from mcp_ref.server.utilities.caching import CacheOfServer
from mcp_ref.server.utilities.logging import LogReceiver

__all__ = ["Answering"]

_log = logger("mcp_ref.client")

TASKS_CLOSE_SECONDS = 1.0
"""How long `close` waits for the handlers of the tasks that this client runs."""

TASK_METHODS = {row.name: row for row in tasks_of_2025.METHODS}

F = TypeVar("F", bound=Callable[..., Any])


class Answering:
    """The endpoint of a client's connection: answers the server's requests, handles its notifications."""

    context_type = Context

    def __init__(
        self,
        *,
        negotiated: Negotiated,
        callbacks: Callbacks,
        tools: KnownTools,
        cache: CacheOfServer,
        subscriptions: Subscriptions,
        log: LogReceiver,
        events: EventThread,
        on_notification: Callable[[str, Json], object] | None,
        task_news: Set[TaskNews],
    ) -> None:
        """`on_notification` is called with the method and params of every notification."""
        self.negotiated, self.callbacks = negotiated, callbacks
        self.input_requests: Mapping[str, InputRequestType] = INPUT_REQUESTS
        self._tools, self._cache = tools, cache
        self._subscriptions, self._messages, self._events = subscriptions, log, events
        self._hears_all = on_notification
        self._task_news = task_news
        self.tasks = Receiver(declared=lambda context: negotiated.capabilities.get("tasks", {}))
        self._hooks: tuple[Hook[Any], ...] = ()
        self._handlers: dict[str, Handler[Any]] = {"ping": lambda p, c: {}}
        self._listeners: dict[str, Callable[[Json], Any]] = {}

    # -- what the application adds -------------------------------------------------------------------

    def handle(self, method: str, function: F) -> F:
        """Have a function answer the server's requests of a method. Returns the function.

        Raises ValueError for ping.
        """
        if method == "ping":  # the reader answers it, which must not wait for a function
            raise ValueError("ping is answered by the client itself: it only shows that a client is there")
        self._handlers[method] = handler_of(function)
        return function

    def listen(self, method: str, function: F) -> F:
        """Have a function called with the server's notifications of a method. Returns the function."""
        self._listeners[method] = function
        return function

    def around(self, hook: Hook[Any]) -> Hook[Any]:
        """Have a hook wrap every request that the server sends, except `ping`. Returns the hook."""
        self._hooks = (*self._hooks, hook)
        return hook

    # -- requests ------------------------------------------------------------------------------------

    def is_immediate(self, context: RequestContext) -> bool:
        """Whether the reader may answer this request: only `ping`.

        `initialize` and `server/discover`, which the reader of a server answers, would be methods of the
        application's own here, and their handlers may be slow.
        """
        return context.method == "ping"

    def answer(self, context: RequestContext) -> Json | Encoded:
        """The result of a request that the server sent.

        While a handler runs, our own deadlines on this connection stand still; not for ping, nor for a
        request that runs as a task.
        """
        session = context.connection.session
        if not session.is_negotiated and context.method != "ping":
            raise InvalidRequest(f"{context.method[:80]}: not before initialization")
        context.revision = session.revision
        token = context.meta.get("progressToken")
        context.reports.progress_token = token if type(token) in (str, int) else None
        handler = self._handler_of(context.method)
        if context.method == "ping":
            return context.related({})
        if "task" in context.params and tasks_of_2025.may_augment(
            self.negotiated.capabilities, context.method
        ):
            return context.related(self._as_task(handler, context))
        with context.connection.clock.hold():
            return context.related(self._result(handler, context))

    def _result(self, handler: Handler[Any], context: RequestContext) -> Json:
        """The result that the handler returns, called with the hooks around it. None becomes {}."""
        try:
            result = run_with_hooks(self._hooks, handler, context, context.params)
        except ConnectionClosed:
            # This client was closed while a person was being asked. Send nothing: the server would take an
            # error for the person's answer, and it would end a task that can ask again over another
            # connection.
            context.connection.responder.cancel(context, "this client was closed")
            raise
        if result is not None and not isinstance(result, dict):
            raise InternalError(f"{context.method}: the handler returned no object")
        return result or {}

    def _as_task(self, handler: Handler[Any], context: RequestContext) -> Json:
        """Start a request that the server wants run as a task; the result that hands out the task."""
        plan = tasks_of_2025.AskedForPlan(tasks_of_2025.ttl_of(context))
        run = TaskRun(self.tasks, context, plan, lambda: self._result(handler, context), encode)
        return run.answer()

    def _handler_of(self, method: str) -> Handler[Any]:
        """The application's own handler, else that of the method's page. Raises MethodNotFound."""
        if method in self._handlers:
            return self._handlers[method]
        if method in self.input_requests:
            return functools.partial(self.fulfil, method)
        row = TASK_METHODS.get(method)
        if row is not None and "tasks" in self.negotiated.capabilities:
            return functools.partial(self._about_task, row)
        raise MethodNotFound(f"this client has no method {method[:100]!r}")

    def _about_task(self, row: Method, params: Json, context: RequestContext) -> Json:
        """The result of a request about a task that this client runs, such as tasks/get."""
        row.check(params, self.negotiated.revision.date)
        result: Json = row.handler(self, params, context)
        return result

    def fulfil(self, method: str, params: Json, context: RequestContext | None) -> Json:
        """Answer a question of the server: the request `context`, or (None) one in an input_required result.

        Raises ProtocolError; InternalError for an answer that is not JSON.
        """
        try:
            result = self.input_requests[method].answer(self, params, context)
            encode(result)  # the application may have given something that is not JSON
        except (ValueError, TypeError, RecursionError) as problem:
            _log.error("%s: the answer cannot be sent", method, exc_info=problem)
            raise InternalError(
                f"{method}: this client's answer cannot be sent: {message_of(problem)}"
            ) from None
        return result

    # -- notifications -------------------------------------------------------------------------------

    def notice(self, connection: Connection, method: str, params: Json, size: int) -> None:
        """Handle a notification of `size` bytes. Runs on the reader; callbacks on the thread for events."""
        if method == "notifications/tools/list_changed":
            self._tools.forget()
        self._cache.on_notification(method, params)
        if method == "notifications/tasks/status":
            tasks_of_2025.on_status(self._task_news, params)
        if method == "notifications/elicitation/complete":
            self.callbacks.elicitations.on_complete(params)
        self._subscriptions.on_notification(connection, self.negotiated.revision, method, params)
        if method == "notifications/message":
            self._events.run(self._messages.on_message, params, size=size)
        listener = self._listeners.get(method)
        if listener is not None:
            self._events.run(listener, params, size=size)
        hears_all = self._hears_all
        if hears_all is not None:
            self._events.run(lambda p: hears_all(method, p), params, size=size)

    def close(self) -> None:
        """The client is closed: end the waits for callbacks and for news of tasks, and the tasks that this
        client runs."""
        self.callbacks.close()
        for news in list(self._task_news):
            news.told.set()
        self.tasks.close(TASKS_CLOSE_SECONDS)

    def lost(self, connection: Connection) -> None:
        """End what waited for notifications: the connection has ended. Runs on its reader."""
        if connection.failure is not None:
            self.callbacks.elicitations.end(connection.failure)
        self._subscriptions.end(connection.failure)
