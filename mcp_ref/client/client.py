"""Client (page: architecture/index, "Clients"): the blocking way to use a server.

    with connect(["python", "server.py"]) as client:
        client.list_tools()
        client.call_tool("add", {"a": 1, "b": 2}).structured

Everything blocks the thread that asked, and no other: a client may be used by many threads at once.

Revisions   all; `connect(revision=...)` insists on one. See basic/transports/era for how the client
            finds out what a server speaks.
Threads     mcp_ref reader     reads, delivers answers, answers `ping` (client/line)
            mcp_ref worker N   runs the handlers for requests of a legacy server
            a worker of `_events`, alone: runs on_log, on_notification and the callbacks of futures, in order
            the caller's own   waits for its answer and runs its on_progress
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from mcp_ref.basic import lifecycle, versioning
from mcp_ref.basic.context import Context
from mcp_ref.basic.errors import (
    InternalError,
    InvalidRequest,
    InvalidResponse,
    LocalError,
    MethodNotFound,
)
from mcp_ref.basic.messages import Encoded, Json
from mcp_ref.basic.meta import LOG_LEVEL, SERVER_INFO, Implementation, check_meta
from mcp_ref.basic.patterns.progress import OnProgress
from mcp_ref.basic.patterns.request_response import Connection
from mcp_ref.basic.utilities import ping
from mcp_ref.basic.versioning import LATEST, TABLE, Era, Revision, newest, result_type
from mcp_ref.client.calls import PendingCall, Result
from mcp_ref.client.line import Line
from mcp_ref.runtime.calls import Call
from mcp_ref.runtime.checks import check_callable, check_object, check_text
from mcp_ref.runtime.hooks import Handler, Hook, handler_of, through
from mcp_ref.runtime.workers import QueueFull, Workers
from mcp_ref.schema import pruner
from mcp_ref.server import discover, tools
from mcp_ref.server.utilities import logging as log_page
from mcp_ref.server.utilities import pagination

__all__ = ["Client"]

_log = logging.getLogger("mcp_ref.client")

F = TypeVar("F", bound=Callable[..., Any])

NEEDS = {
    "tools": "tools",
    "resources": "resources",
    "prompts": "prompts",
    "completion": "completions",
    "logging": "logging",
}
"""The first part of a method -> the server capability behind it."""

BEFORE: dict[str, Callable[[Any, Json], None]] = {"tools/call": tools.review}
AFTER: dict[str, Callable[[Any, Json, Json, float | None], None]] = {
    "tools/call": tools.check_result,
    "tools/list": tools.check_list,
}
ENDED: dict[str, Callable[[Any, Json, Json | BaseException], None]] = {"tools/call": tools.ended}


class Client:
    """One connection to one server, opened by `connect`.  # spec: architecture/index/one-server-per-client

    All that it knows, and all that hears for it, is its own: nothing of one server gets to another.
    # spec: architecture/index/client-boundary
    """

    def __init__(
        self,
        dial: Callable[[], Any],
        *,
        timeout: float,
        max_timeout: float | None,
        info: Implementation,
        revisions: Sequence[str],
        capabilities: Json,
        on_log: Callable[[str, Any, str | None], object] | None,
        on_notification: Callable[[str, Json], object] | None,
        confirm: Callable[[Any, Any, Json], object] | None,
        audit_arguments: bool,
        max_message_bytes: int,
    ) -> None:
        self.info = info
        self.capabilities = capabilities
        self.revisions = list(revisions)
        self.on_log = on_log
        self.on_notification_of_any = on_notification
        self.confirm = confirm
        self.audit_arguments = audit_arguments
        # What the server says of itself; filled in before `connect` returns.
        self.revision: Revision = TABLE[0]
        self.server_info: Json = {}
        self.server_capabilities: Json | None = None
        self.instructions: str | None = None
        # Whoever listens hears as much in the modern era as it would by default in the legacy one.
        self.log_level: str | None = log_page.UNSET if on_log is not None else None
        self.known_tools: dict[str, Any] = {}
        self.tools_fresh_until = 0.0
        self._hooks: tuple[Hook, ...] = ()
        self._handlers: dict[str, Handler] = {"ping": lambda p, c: {}}
        self._listeners: dict[str, Callable[[Json], Any]] = {}
        self._events = Workers(limit=1, queue=10_000)
        self._closing = threading.Lock()
        self._closed = False
        self._line = Line(
            self,
            dial,
            timeout=timeout,
            max_timeout=max_timeout,
            max_message_bytes=max_message_bytes,
        )

    @property
    def connection(self) -> Connection:
        """The connection as it is now, whether or not it still works."""
        return self._line.connection

    # -- asking ------------------------------------------------------------------------------

    def request(
        self,
        method: str,
        params: Json | None = None,
        *,
        timeout: float | None = None,
        on_progress: OnProgress | None = None,
    ) -> Result:
        """Send any request and wait for its result.

        `timeout` is the silence to put up with, in seconds: progress restarts it.
        Raises ErrorResponse, RequestTimeout, ConnectionClosed, InvalidResponse.
        # spec: basic/patterns/cancellation/timeout-configurable
        """
        check_callable(on_progress=on_progress)
        params = self._prepared(method, params)
        try:
            raw = self._line.alive().request(
                method, self._with_meta(params), timeout=timeout, on_progress=on_progress
            )
            result = self.checked(method, params, raw, timeout)
        except BaseException as problem:
            self.ended(method, params, problem)
            raise
        self.ended(method, params, result)
        return result

    def submit(
        self,
        method: str,
        params: Json | None = None,
        *,
        timeout: float | None = None,
        on_progress: OnProgress | None = None,
    ) -> PendingCall:
        """Send any request and go on: the result comes as a `concurrent.futures.Future`."""
        check_callable(on_progress=on_progress)
        params = self._prepared(method, params)
        connection = self._line.alive()
        future = PendingCall(self, connection, params)
        future.call = connection.call(
            method,
            self._with_meta(params),
            timeout=timeout,
            wants_progress=on_progress is not None,
            on_done=future.settle,
            on_report=lambda call: self.event(_run_reports, (call, on_progress)),
        )
        future.watch()
        return future

    def notify(self, method: str, params: Json | None = None) -> None:
        """Send any notification."""
        check_text(method=method)
        check_object(params=params)
        self.connection.notify(method, params)

    def ping(self, timeout: float | None = None) -> None:
        """Return if the server is there. In 2026-07-28, which has no ping, server/discover tells."""
        if self.revision.modern:
            self.request("server/discover", timeout=timeout)
        else:
            ping.ping(self.connection, timeout)

    def pages(self, method: str, params: Json | None = None) -> Iterator[Result]:
        """The pages of a list, one after another: `client.pages("tools/list")`."""
        return pagination.pages(self, method, params)

    def list_tools(self) -> list[Any]:
        """All tools of the server, from all pages (server/tools)."""
        return tools.list_tools(self)

    def call_tool(
        self,
        name: str,
        arguments: Json | None = None,
        *,
        timeout: float | None = None,
        on_progress: OnProgress | None = None,
        meta: Json | None = None,
    ) -> Result:
        """Call a tool and wait (server/tools). A tool that failed is a result with `is_error`."""
        check_text(name=name)
        check_object(arguments=arguments, meta=meta)
        result: Result = tools.call_tool(
            self, name, arguments, timeout=timeout, on_progress=on_progress, meta=meta
        )
        return result

    def set_log_level(self, level: log_page.LoggingLevel) -> None:
        """From now on, have log messages of this level and above sent to `on_log`."""
        log_page.set_level(self, level)

    def _prepared(self, method: str, params: Json | None) -> Json:
        check_text(method=method)
        check_object(params=params)
        params = dict(params) if params is not None else {}
        self._needs(method)
        if "_meta" in params:
            check_object(_meta=params["_meta"])
            check_meta(params["_meta"])
        before = BEFORE.get(method)
        if before is not None:
            before(self, params)
        return params

    def _needs(self, method: str) -> None:
        """Raises LocalError for what the server did not declare.

        # spec: basic/lifecycle/negotiated-capabilities-only, architecture/index/respect-declared-capabilities
        # spec: basic/lifecycle/negotiated-capabilities-only-should, basic/lifecycle/handle-capability-failure
        """
        capability = NEEDS.get(method.partition("/")[0])
        if capability == "completions" and not self.revision.reaches("2025-03-26"):
            return  # there was completion before there was a capability for it
        declared = self.server_capabilities
        if capability is not None and declared is not None and capability not in declared:
            raise LocalError(f"{method}: the server did not declare the capability {capability!r}")

    def _with_meta(self, params: Json) -> Json | None:
        """Params with what the revision wants in their `_meta`."""
        if not self.revision.modern:
            return params or None
        meta = versioning.request_meta(self.revision.date, self.capabilities, self.info)
        if self.log_level is not None:
            meta[LOG_LEVEL] = self.log_level
        return {**params, "_meta": {**meta, **params.get("_meta", {})}}

    def checked(self, method: str, params: Json, result: Json, timeout: float | None = None) -> Result:
        try:
            result_type(result)
        except ValueError as problem:
            raise InvalidResponse(f"{method}: {problem}") from None
        after = AFTER.get(method)
        if after is not None:
            after(self, params, result, timeout)
        return Result(result)

    def ended(self, method: str, params: Json, outcome: Json | BaseException) -> None:
        """A request of ours is over, well or not."""
        if method in ENDED:
            ENDED[method](self, params, outcome)

    # -- being asked, in the legacy era ------------------------------------------------------------

    def on_request(self, method: str) -> Callable[[F], F]:
        """Decorator: `fn(params)` or `fn(params, ctx)` answers a request of the server's."""

        def decorate(function: F) -> F:
            self._handlers[method] = handler_of(function)
            return function

        return decorate

    def on_notification(self, method: str) -> Callable[[F], F]:
        """Decorator: `fn(params)` hears a notification of the server's."""

        def decorate(function: F) -> F:
            self._listeners[method] = function
            return function

        return decorate

    def around(self, hook: Hook) -> Hook:
        """Decorator: `fn(ctx, params, proceed)` wraps every request that the server sends."""
        self._hooks = (*self._hooks, hook)
        return hook

    def answer(self, context: Context) -> Json | Encoded:
        """A request of the server's. While it is answered, our own deadlines stand still."""
        session = self.connection.session
        if not session.is_open and context.method != "ping":
            raise InvalidRequest(f"{context.method[:80]}: not before initialization")
        context.revision = session.revision
        token = context.meta.get("progressToken")
        context.progress_token = token if type(token) in (str, int) else None
        handler = self._handlers.get(context.method)
        if handler is None:
            raise MethodNotFound(f"this client has no method {context.method[:100]!r}")
        if context.method == "ping":
            return {}
        with self.connection.clock.hold():
            result = through(self._hooks, handler, context, context.params)
        if result is not None and not isinstance(result, dict):
            raise InternalError(f"{context.method}: the handler returned no object")
        return result or {}

    def notice(self, connection: Connection, method: str, params: Json) -> None:
        """A notification of the server's. Runs on the reader; callbacks run on the thread for events."""
        if method == "notifications/tools/list_changed":
            self.forget_tools()
        if method == "notifications/message":
            self.event(lambda p: log_page.on_message(self, p), params)
        listener = self._listeners.get(method)
        if listener is not None:
            self.event(listener, params)
        if self.on_notification_of_any is not None:
            self.event(lambda p: self.on_notification_of_any(method, p), params)  # type: ignore[misc]

    def forget_tools(self) -> None:
        """What is known of the tools may be wrong by now."""
        self.known_tools = {}

    def tools_are_stale(self) -> bool:
        """Whether the tools may have changed without our being told (server/utilities/caching)."""
        return self.revision.modern and time.monotonic() >= self.tools_fresh_until

    def event(self, run: Callable[[Any], object], argument: Any, *, always: bool = False) -> None:
        """Have something run on the thread for events; what must run `always` may not be dropped."""
        try:
            if not self._events.submit(run, argument, always=always) and always:
                run(argument)  # the thread is gone
        except QueueFull:
            _log.warning("dropped an event: the callbacks are too slow")

    # -- opening ------------------------------------------------------------------------------------

    @property
    def was_heard(self) -> bool:
        """Whether the server read all that was sent to it, as far as it can be told."""
        return bool(self._line.link.heard)

    def open(self) -> None:
        """Agree with the server on a revision; `connect` does this."""
        self._line.open()

    def probe(self) -> Json:
        """The params of server/discover.  # spec: server/discover/no-body-parameters"""
        latest = newest(self.revisions, Era.MODERN) or LATEST
        return {"_meta": versioning.request_meta(latest.date, self.capabilities, self.info)}

    def hello(self) -> Json:
        """The params of initialize, in the newest revision of the legacy era that we speak.

        # spec: basic/lifecycle/offer-latest-version
        """
        offer = newest(self.revisions, Era.LEGACY)
        if offer is None:
            raise LocalError(f"the server is a legacy one; this client speaks {', '.join(self.revisions)}")
        return lifecycle.initialize_params(offer, self.capabilities, self.info)

    def open_modern(self, chosen: Revision, result: Json) -> None:
        """The server is a modern one: there is nothing to open, only something to know.

        # spec: schema/removed-notifications-2026
        """
        discover.chosen(result, self.revisions)
        self.revision = chosen
        self.connection.answers = False
        self.server_capabilities = result["capabilities"]
        self.server_info = result.get("_meta", {}).get(SERVER_INFO, {})
        self.instructions = result.get("instructions")

    def open_legacy(self, result: Json) -> None:
        """The server answered initialize."""
        lifecycle.accept(self.connection, result, self.revisions)
        self.revision = self.connection.session.revision
        self.capabilities = pruner(lifecycle.ClientCapabilities, self.revision.date)(self.capabilities)
        self.server_capabilities = result["capabilities"]
        self.server_info = result["serverInfo"]
        self.instructions = result.get("instructions")

    # -- the end ---------------------------------------------------------------------------------------

    def close(self) -> None:
        """End the connection and, over stdio, the server. Everything that still waits fails at once."""
        with self._closing:
            if self._closed:
                return
            self._closed = True
        self._line.close()
        self._events.close(1.0, drop=False)  # what was heard until now is still told

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def _run_reports(what: tuple[Call, OnProgress]) -> None:
    call, on_progress = what
    while call.reports:
        on_progress(*call.reports.popleft())
