"""Client (page: architecture/index, "Clients"): the blocking way to use a server.

    with connect(["python", "server.py"]) as client:
        client.list_tools()
        client.call_tool("add", {"a": 1, "b": 2}).structured

Everything blocks the thread that asked, and no other: a client may be used by many threads at once.

Revisions   all; `connect(revision=...)` insists on one. See
basic/transports/stdio/backward_compatibility for how the client
            finds out what a server speaks.
Threads     mcp_ref reader     reads, delivers answers, answers `ping` (api/pipe_transport)
            mcp_ref worker N   runs the handlers for requests of a legacy server
            a worker of `_events`, alone: runs on_log, on_notification and the callbacks of futures, in order
            the caller's own   waits for its answer and runs its on_progress
"""

from __future__ import annotations

import contextlib
import functools
import threading
import time
import warnings
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

from mcp_ref.api.context import INPUT_REQUESTS, Context
from mcp_ref.api.features import Features
from mcp_ref.api.requests import AnyLine
from mcp_ref.basic import lifecycle
from mcp_ref.basic.index.error_responses import InternalError, InvalidRequest, MethodNotFound
from mcp_ref.basic.index.general_fields import CLIENT_CAPABILITIES, SERVER_INFO
from mcp_ref.basic.index.messages import Json, encode
from mcp_ref.basic.patterns.index.connection import Connection
from mcp_ref.basic.patterns.index.context import RequestContext
from mcp_ref.basic.patterns.subscriptions import client as listening
from mcp_ref.basic.patterns.subscriptions.client import Changes
from mcp_ref.basic.utilities import ping
from mcp_ref.basic.versioning import Revision
from mcp_ref.client.elicitation.url_mode import Completions
from mcp_ref.runtime.hooks import Handler, Hook, handler_of, run_with_hooks
from mcp_ref.runtime.json_text import Encoded
from mcp_ref.runtime.logs import logger
from mcp_ref.runtime.threads import forks
from mcp_ref.runtime.threads.workers import Workers
from mcp_ref.runtime.typing.mismatch import message_of
from mcp_ref.schema import pruner
from mcp_ref.server import discover
from mcp_ref.server.utilities import logging as log_page

__all__ = ["Client"]

_log = logger("mcp_ref.client")

F = TypeVar("F", bound=Callable[..., Any])

MAX_CLOSE_SECONDS = 60.0
"""How long a `close` waits for that of another thread."""


class Client(Features):
    """One connection to one server, opened by `connect`.  # spec: architecture/index/one-server-per-client

    All that it knows, and all that hears for it, is its own: nothing of one server gets to another.
    # spec: architecture/index/client-boundary
    """

    def __init__(
        self,
        line: Callable[[Client], AnyLine],
        *,
        server_label: str = "a server",
        **options: Any,
    ) -> None:
        """`line` makes the connection; `options` are those of api/requests; warnings have `server_label`."""
        super().__init__(**options)
        self.elicitations = Completions()
        self.input_requests = INPUT_REQUESTS
        self.listening: set[Changes] = set()
        self._hooks: tuple[Hook[Any], ...] = ()
        self._handlers: dict[str, Handler[Any]] = {"ping": lambda p, c: {}}
        self._listeners: dict[str, Callable[[Json], Any]] = {}
        self._closing = threading.RLock()
        self._is_ended = False  # guarded by _closing
        # Weakly: the threads of the line would keep a client that the application has dropped.
        self._line = line(weakref.proxy(self))
        self._finalizer = weakref.finalize(
            self, _dropped, weakref.ref(self), self._line, self._events, server_label, forks.count
        )

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

    def around(self, hook: Hook[Any]) -> Hook[Any]:
        """Decorator: `fn(ctx, params, proceed)` wraps every request that the server sends."""
        self._hooks = (*self._hooks, hook)
        return hook

    def is_immediate(self, context: RequestContext) -> bool:
        """Only `ping` is: other methods by these names are the application's own."""
        return context.method == "ping"

    def is_quick(self, context: RequestContext) -> bool:
        """What an application does for a server is not for the thread that reads."""
        return False

    context_type = Context

    def answer(self, context: RequestContext) -> Json | Encoded:
        """A request of the server's. While it is answered, our own deadlines stand still."""
        session = self.connection.session
        if not session.is_open and context.method != "ping":
            raise InvalidRequest(f"{context.method[:80]}: not before initialization")
        context.revision = session.revision
        token = context.meta.get("progressToken")
        context.progress_token = token if type(token) in (str, int) else None
        handler = self._handler_of(context.method)
        if context.method == "ping":
            return {}
        with self.connection.clock.hold():
            result = run_with_hooks(self._hooks, handler, context, context.params)
        if result is not None and not isinstance(result, dict):
            raise InternalError(f"{context.method}: the handler returned no object")
        return result or {}

    def _handler_of(self, method: str) -> Handler[Any]:
        """The application's own handler, or the page of what a server may ask. Raises MethodNotFound."""
        if method in self._handlers:
            return self._handlers[method]
        if method in self.input_requests:
            return functools.partial(self.fulfil, method)
        raise MethodNotFound(f"this client has no method {method[:100]!r}")

    def fulfil(self, method: str, params: Json, context: Context | None) -> Json:
        """Do what a server asks for: in its request, or in an input_required result (context None)."""
        try:
            result = self.input_requests[method].answer(self, params, context)
            encode(result)  # what the application gave may be no JSON
        except (ValueError, TypeError, RecursionError) as problem:
            _log.error("%s: the answer cannot be sent", method, exc_info=problem)
            raise InternalError(
                f"{method}: this client's answer cannot be sent: {message_of(problem)}"
            ) from None
        return result

    def notice(self, connection: Connection, method: str, params: Json, size: int) -> None:
        """A notification of the server's. Runs on the reader; callbacks run on the thread for events."""
        if method == "notifications/tools/list_changed":
            self.forget_tools()
        if self.cache is not None:
            self.cache.on_notification(self.cache_key, method, params)
        if method == "notifications/elicitation/complete":
            self.elicitations.on_complete(params)
        listening.on_notification(self, method, params)
        if method == "notifications/message":
            self.event(lambda p: log_page.on_message(self, p), params, size=size)
        listener = self._listeners.get(method)
        if listener is not None:
            self.event(listener, params, size=size)
        hears_all = self.on_notification_of_any
        if hears_all is not None:
            self.event(lambda p: hears_all(method, p), params, size=size)

    def forget_tools(self) -> None:
        """What is known of the tools may be wrong by now."""
        self.known_tools = {}

    def lost(self, connection: Connection) -> None:
        """The connection ended. Runs on its reader."""
        if connection.failure is not None:
            self.elicitations.end(connection.failure)
        for changes in list(self.listening):
            if changes.call is None:
                changes.end(connection.failure)

    def tools_are_stale(self) -> bool:
        """Whether the tools may have changed without our being told (server/utilities/caching)."""
        return self.revision.modern and time.monotonic() >= self.tools_fresh_until

    # -- opening ------------------------------------------------------------------------------------

    @property
    def was_heard(self) -> bool:
        """Whether the server read all that was sent to it, as far as it can be told."""
        return self._line.heard

    @property
    def session_id(self) -> str | None:
        """The name of the session, where the server gave it one: over HTTP, in the legacy era."""
        return self._line.session_id

    def open(self) -> None:
        """Agree with the server on a revision; `connect` does this."""
        self._line.open()

    def probe(self) -> Json:
        """The params of server/discover."""
        params = discover.params(self.revisions, self.declared, self.info)
        self.capabilities = params["_meta"][CLIENT_CAPABILITIES]
        return params

    def hello(self) -> Json:
        """The params of initialize."""
        return lifecycle.initialize_params(self.revisions, self.declared, self.info)

    def open_modern(self, chosen: Revision, result: Json) -> None:
        """The server is a modern one: there is nothing to open, only something to know.

        # spec: schema/removed-notifications-2026
        """
        discover.chosen(result, self.revisions)
        self.revision = chosen
        self.capabilities = pruner(lifecycle.ClientCapabilities, chosen.date)(self.declared)
        self.connection.answers = False
        self.server_capabilities = result["capabilities"]
        self.server_info = result.get("_meta", {}).get(SERVER_INFO, {})
        self.instructions = result.get("instructions")

    def open_legacy(self, result: Json) -> None:
        """The server answered initialize."""
        lifecycle.accept(self.connection, result, self.revisions)
        self.revision = self.connection.session.revision
        self.capabilities = pruner(lifecycle.ClientCapabilities, self.revision.date)(self.declared)
        self.server_capabilities = result["capabilities"]
        self.server_info = result["serverInfo"]
        self.instructions = result.get("instructions")
        ping.watch(self.connection, self.ping_every, self._line.lose)

    def renewed(self) -> None:
        """The server ended the session, and there is a new one: it is to be as the old one was."""
        self.forget_tools()
        self._line.listen()
        if self.log_level is not None and self.log_level != self.first_log_level:
            log_page.set_level(self, self.log_level)
        listening.renew(self)

    # -- the end ---------------------------------------------------------------------------------------

    def close(self) -> None:
        """End the connection and, over stdio, the server. Everything that still waits fails at once.

        Beside another thread's `close` this waits until that one is done. A thread of ours does not, such as
        one that runs a callback: the other thread may be waiting for it.
        """
        if self.connection.is_inherited:  # a forked child: all this is the parent's to end
            return
        self._closed = True
        is_ours = threading.current_thread().name.startswith("mcp_ref")
        if not self._closing.acquire(timeout=0.0 if is_ours else MAX_CLOSE_SECONDS):
            return
        try:
            if not self._is_ended:
                self.callbacks.close()
                self._line.close()
                self._events.close(1.0, drop=False)  # what was heard until now is still told
                self._is_ended = True  # not before: after Ctrl-C in here the next call does the rest
                self._finalizer.detach()
        finally:
            self._closing.release()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def _dropped(
    client: weakref.ref[Client], line: AnyLine, events: Workers, server_label: str, process: int
) -> None:
    """A client was dropped without `close`; or the program ends, and the client is still open.

    Dropped, it is closed on a thread of its own, for this one may be any, and hold any lock. A client with a
    request under way, or a subscription, is not dropped: its connection has it.
    """
    if forks.count != process:  # a forked child: the client is its parent's
        return
    try:
        warnings.warn(f"unclosed client of {server_label}", ResourceWarning, stacklevel=2)
    finally:
        if client() is None:
            with contextlib.suppress(RuntimeError):  # the system has no more threads to give
                threading.Thread(
                    target=_end, args=(line, events), name="mcp_ref closing", daemon=True
                ).start()
        else:
            _end(line, events)


def _end(line: AnyLine, events: Workers) -> None:
    line.close()
    events.close(0.0)
