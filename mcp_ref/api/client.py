"""Client (page: architecture/index, "Clients"): the blocking way to use a server.

    with connect(["python", "server.py"]) as client:
        client.list_tools()
        client.call_tool("add", {"a": 1, "b": 2}).structured

Everything blocks the thread that asked, and no other: a client may be used by many threads at once. Each
method for a feature sends what its page's client half makes. What several of them take:

    timeout       the silence to put up with, in seconds: progress restarts it
    on_progress   called with (progress, total, message), on the thread that waits
    rounds        how often the client answers by itself what the server asks before it can go on
                  (basic/patterns/mrtr); 0 gives the first question to the caller
    check         whether a tool that failed is a ToolError; if not, it is a result with `is_error`
    returns       what a tool returns: `call_tool("note", returns=Note)` gives a Note, or raises

A client is a few objects, each of its page: `asker` has them (api/requests).

Revisions   all; `connect(revision=...)` insists on one. See
            basic/transports/stdio/backward_compatibility for how the client finds out what a server speaks.
Threads     mcp_ref reader     reads, delivers answers, answers `ping` (api/pipe_transport)
            mcp_ref worker N   runs the handlers for requests of a legacy server (api/answering)
            another, alone     runs on_log, on_notification and the callbacks of futures (api/events)
            the caller's own   waits for its answer and runs its on_progress
"""

from __future__ import annotations

import contextlib
import threading
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from typing import Any, TypedDict, TypeVar, Unpack, overload

from mcp_ref.api import task_calls
from mcp_ref.api.events import EventThread
from mcp_ref.api.requests import AnyLine, Asker
from mcp_ref.api.results import PendingCall, Result, as_returned
from mcp_ref.api.tasks import Task
from mcp_ref.basic.index.messages import Json
from mcp_ref.basic.patterns.progress import OnProgress
from mcp_ref.basic.patterns.subscriptions.client import Changes
from mcp_ref.basic.utilities import ping
from mcp_ref.basic.versioning import Revision
from mcp_ref.client import roots as roots_page
from mcp_ref.client.elicitation import url_mode
from mcp_ref.client.elicitation.url_mode import UrlElicitationNeeded
from mcp_ref.runtime.brief import brief
from mcp_ref.runtime.checks import check_bool, check_object, check_seconds, check_sendable
from mcp_ref.runtime.hooks import Hook
from mcp_ref.runtime.threads import forks
from mcp_ref.runtime.threads.deadlines import FOR_PEOPLE
from mcp_ref.server import prompts as prompts_page
from mcp_ref.server import resources as resources_page
from mcp_ref.server import tools as tools_page
from mcp_ref.server.prompts import Prompt
from mcp_ref.server.resources import Resource, ResourceTemplate
from mcp_ref.server.tools import Tool
from mcp_ref.server.utilities import completion, pagination
from mcp_ref.server.utilities.logging import LoggingLevel

__all__ = ["CallOptions", "Client", "SubmitOptions"]

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")


class SubmitOptions(TypedDict, total=False):
    """What `submit_tool` takes, whatever it returns."""

    timeout: float | None
    on_progress: OnProgress | None
    meta: Json | None
    check: bool | None


class CallOptions(SubmitOptions, total=False):
    """What `call_tool` takes, whatever it returns."""

    rounds: int | None


MAX_CLOSE_SECONDS = 60.0
"""How long a `close` waits for that of another thread."""


class Client(contextlib.AbstractContextManager["Client"]):
    """One connection to one server, opened by `connect`.  # spec: architecture/index/one-server-per-client"""

    def __init__(self, asker: Asker, server_label: str = "a server", *, check: bool = False) -> None:
        """Warnings have `server_label`. `check` is that of all calls which do not say otherwise."""
        self.asker = asker
        self._checks = check
        self._closing = threading.RLock()
        self._is_ended = False  # guarded by _closing
        # Of the asker, not of this: a request under way, or a subscription, needs the connection still.
        self._finalizer = weakref.finalize(
            asker, _dropped, weakref.ref(asker), asker.line, asker.events, server_label, forks.count
        )

    def __repr__(self) -> str:
        info, state = self.server_info, ", closed" if self.asker.is_closed else ""
        return f"<Client of {brief(info.get('name'))} {brief(info.get('version'))} in {self.revision}{state}>"

    # -- what was negotiated -------------------------------------------------------------------------

    @property
    def revision(self) -> Revision:
        """What both sides agreed on."""
        return self.asker.negotiated.revision

    @property
    def server_info(self) -> Json:
        """What the server is, by its own account."""
        return self.asker.negotiated.server_info

    @property
    def server_capabilities(self) -> Json | None:
        """What the server can do."""
        return self.asker.negotiated.server_capabilities

    @property
    def instructions(self) -> str | None:
        """How the server is to be used, for a model."""
        return self.asker.negotiated.instructions

    @property
    def session_id(self) -> str | None:
        """The name of the session, where the server gave it one: over HTTP, in the legacy era."""
        return self.asker.line.session_id

    # -- any message ---------------------------------------------------------------------------------

    def request(
        self,
        method: str,
        params: Json | None = None,
        *,
        timeout: float | None = None,
        on_progress: OnProgress | None = None,
        rounds: int | None = None,
    ) -> Result:
        """Send any request and wait for its result.

        Raises ErrorResponse, RequestTimeout, ConnectionClosed, InvalidResponse, InputRefused.
        """
        return self.asker.request(method, params, timeout=timeout, on_progress=on_progress, rounds=rounds)

    def resume(
        self,
        result: Result,
        responses: Json,
        *,
        timeout: float | None = None,
        on_progress: OnProgress | None = None,
        rounds: int | None = None,
    ) -> Result:
        """Answer what an input_required result asks, and send its request again.

        `responses` has the keys of `result.input_requests`, with what the page of each wants. If the server
        goes on with a task, its end is waited for, as `call_tool` does.
        """
        found = self.asker.resume(result, responses, timeout=timeout, on_progress=on_progress, rounds=rounds)
        found = task_calls.awaited(self.asker, (result.request or ("", {}))[1], found, timeout)
        return found.raise_for_error() if self._checks else found

    def submit(
        self,
        method: str,
        params: Json | None = None,
        *,
        timeout: float | None = None,
        on_progress: OnProgress | None = None,
    ) -> PendingCall[Result]:
        """Send any request and go on: the result comes as a `concurrent.futures.Future`."""
        return self.asker.submit(method, params, timeout=timeout, on_progress=on_progress)

    def notify(self, method: str, params: Json | None = None) -> None:
        """Send any notification."""
        check_sendable(method=method)
        check_object(params=params)
        self.asker.connection.notify(method, params)

    def forget_cached(self, method: str | None = None) -> None:
        """Have what was kept of this server fetched anew: of one method, or all."""
        self.asker.forget_cached(method)

    # -- the features of the server ------------------------------------------------------------------

    def ping(self, timeout: float | None = None) -> None:
        """Return if the server is there. In 2026-07-28, which has no ping, server/discover tells."""
        if self.revision.pings:
            ping.ping(self.asker.connection, timeout)
        else:  # not by way of `request`: what the cache has says nothing of the server
            self.asker.alive().request("server/discover", self.asker.with_meta({}), timeout=timeout)

    def pages(self, method: str, params: Json | None = None) -> Iterator[Result]:
        """The pages of a list, one after another: `client.pages("tools/list")`."""
        return pagination.pages(self.asker, method, params)

    def list_tools(self) -> list[Tool]:
        """All tools of the server, from all pages (server/tools)."""
        return tools_page.list_tools(self.asker)

    @overload
    def call_tool(
        self,
        name: str,
        arguments: Json | None = None,
        *,
        returns: None = None,
        **options: Unpack[CallOptions],
    ) -> Result: ...
    @overload
    def call_tool(
        self, name: str, arguments: Json | None = None, *, returns: type[T], **options: Unpack[CallOptions]
    ) -> T: ...
    @overload
    def call_tool(
        self, name: str, arguments: Json | None = None, *, returns: Any, **options: Unpack[CallOptions]
    ) -> Any: ...
    def call_tool(
        self,
        name: str,
        arguments: Json | None = None,
        *,
        timeout: float | None = None,
        on_progress: OnProgress | None = None,
        rounds: int | None = None,
        meta: Json | None = None,
        check: bool | None = None,
        returns: Any = None,
    ) -> Any:
        """Call a tool and wait (server/tools). A tool that failed is a result with `is_error`.

        With `check=True`, here or in `connect`, it is a ToolError instead. `returns=Note` gives a Note, which
        is made as arguments of tools are. It raises ToolError if the tool failed, and InvalidResponse if it
        returned something else.

        If the server runs the call as a task, its end is waited for, as long as `max_timeout` allows. Then,
        or with Ctrl-C, the task is cancelled, as an ordinary call would be: `start_tool` is for longer ones.
        """
        params, make = _call_params(name, arguments, meta), self._made(returns, check)
        return make(
            task_calls.call_in_time(
                self.asker, params, timeout=timeout, on_progress=on_progress, rounds=rounds
            )
        )

    @overload
    def submit_tool(
        self,
        name: str,
        arguments: Json | None = None,
        *,
        returns: None = ...,
        **options: Unpack[SubmitOptions],
    ) -> Future[Result]: ...
    @overload
    def submit_tool(
        self, name: str, arguments: Json | None = None, *, returns: type[T], **options: Unpack[SubmitOptions]
    ) -> Future[T]: ...
    @overload
    def submit_tool(
        self, name: str, arguments: Json | None = None, *, returns: Any, **options: Unpack[SubmitOptions]
    ) -> Future[Any]: ...
    def submit_tool(
        self,
        name: str,
        arguments: Json | None = None,
        *,
        timeout: float | None = None,
        on_progress: OnProgress | None = None,
        meta: Json | None = None,
        check: bool | None = None,
        returns: Any = None,
    ) -> Future[Any]:
        """Call a tool and go on: what `call_tool` returns comes as a future, which cancels on the wire."""
        params, make = _call_params(name, arguments, meta), self._made(returns, check)
        return task_calls.submit_call(self.asker, params, make, timeout=timeout, on_progress=on_progress)

    def _made(self, returns: Any, check: bool | None) -> Callable[[Result], Any]:
        """What makes of a result what its caller wants. Raises TypeError."""
        if check is not None:
            check_bool(check=check)
        return as_returned(returns, self._checks if check is None else check)

    def start_tool(
        self,
        name: str,
        arguments: Json | None = None,
        *,
        ttl: float | None = None,
        timeout: float | None = None,
        on_progress: OnProgress | None = None,
        meta: Json | None = None,
    ) -> Task:
        """Call a tool as a task, and go on (api/tasks): `task.result()` waits for its end.

        The server keeps the task for `ttl` seconds, if it agrees. In 2026-07-28 it decides by itself whether
        the call is a task, and for how long it is kept. `timeout` is for the answer to the call.
        """
        params = _call_params(name, arguments, meta)
        return self._kept(
            task_calls.start(self.asker, params, ttl=ttl, timeout=timeout, on_progress=on_progress)
        )

    def task(self, task_id: str) -> Task:
        """A task that was begun before, on another connection or by another process (api/tasks)."""
        check_sendable(task_id=task_id)
        return self._kept(task_calls.task_of(self.asker, task_id))

    def list_tasks(self) -> list[Task]:
        """The tasks that the server has for this client, in 2025-11-25 (api/tasks)."""
        return [self._kept(task) for task in task_calls.tasks_of(self.asker)]

    def _kept(self, task: Task) -> Task:
        """A task for the caller, whose result is checked as that of a call."""
        task.checks = self._checks
        return task

    def list_resources(self) -> list[Resource]:
        """All resources of the server, from all pages (server/resources)."""
        return resources_page.list_resources(self.asker)

    def list_resource_templates(self) -> list[ResourceTemplate]:
        """All templates for URIs of resources, from all pages (server/resources)."""
        return resources_page.list_templates(self.asker)

    def read_resource(
        self,
        uri: str,
        *,
        timeout: float | None = None,
        on_progress: OnProgress | None = None,
        rounds: int | None = None,
        meta: Json | None = None,
    ) -> Result:
        """Read a resource (server/resources): see `result.text`, `result.blobs` and `result["contents"]`."""
        check_sendable(uri=uri)
        check_object(meta=meta)
        params = resources_page.read_params(uri, meta)
        return self.asker.request(
            "resources/read", params, timeout=timeout, on_progress=on_progress, rounds=rounds
        )

    def list_prompts(self) -> list[Prompt]:
        """All prompts of the server, from all pages (server/prompts)."""
        return prompts_page.list_prompts(self.asker)

    def get_prompt(
        self,
        name: str,
        arguments: dict[str, str] | None = None,
        *,
        timeout: float | None = None,
        on_progress: OnProgress | None = None,
        rounds: int | None = None,
        meta: Json | None = None,
    ) -> Result:
        """A prompt, filled in (server/prompts): see `result["messages"]`."""
        check_sendable(name=name)
        check_object(arguments=arguments, meta=meta)
        params = prompts_page.get_params(name, arguments, meta)
        return self.asker.request(
            "prompts/get", params, timeout=timeout, on_progress=on_progress, rounds=rounds
        )

    def complete(
        self,
        *,
        prompt: str | None = None,
        resource: str | None = None,
        argument: str,
        value: str = "",
        arguments: dict[str, str] | None = None,
        timeout: float | None = None,
    ) -> Result:
        """What an argument of a prompt, or a variable of a template, could be: `result["completion"]`.

        `arguments` are those that are chosen already (server/utilities/completion).
        """
        params = completion.complete_params(
            self.revision,
            prompt=prompt,
            resource=resource,
            argument=argument,
            value=value,
            arguments=arguments,
        )
        of = {"prompt": prompt} if resource is None else {"resource": resource}
        check_sendable(**of, argument=argument, value=value)
        return self.asker.request("completion/complete", params, timeout=timeout)

    def listen(
        self,
        *,
        tools: bool = False,
        prompts: bool = False,
        resources: bool | Iterable[str] = False,
        resource_list: bool = False,
    ) -> Changes:
        """Hear of changes (basic/patterns/subscriptions/client): of lists, and of the resources with
        these URIs.

        `resources=True` is the list of resources; with URIs, `resource_list=True` adds it.
        """
        if isinstance(resources, str):
            raise TypeError("resources is True, or a list of URIs, not one string")
        wanted = {"tools": tools, "prompts": prompts, "resources": resource_list or resources is True}
        uris = [] if isinstance(resources, bool) else list(resources)
        check_sendable(**{f"resources[{number}]": uri for number, uri in enumerate(uris)})
        return Changes(self.asker, [kind for kind, given in wanted.items() if given], uris).open()

    def visit(self, problem: UrlElicitationNeeded, timeout: float = FOR_PEOPLE) -> bool:
        """Have the person go where an error -32042 of 2025-11-25 wants them; then the request may be
        sent again. False if they would not, or the server did not say in time that they are done.
        """
        return url_mode.visit(self.asker.answering, problem, check_seconds("timeout", timeout))

    def set_roots(self, roots: Any) -> None:
        """Other directories than before; the server is told, where the revision has that (client/roots)."""
        callbacks = self.asker.answering.callbacks
        if callbacks.roots is None:
            raise ValueError("this client was connected without roots, and so declared none")
        callbacks.roots = roots if callable(roots) else roots_page.as_roots(roots)
        roots_page.notify_changed(self.asker.negotiated, self.asker.connection)

    def set_log_level(self, level: LoggingLevel) -> None:
        """From now on, have log messages of this level and above sent to `on_log`."""
        self.asker.log.set_level(self.asker, self.revision, level)

    # -- what the server asks, and says --------------------------------------------------------------

    def on_request(self, method: str) -> Callable[[F], F]:
        """Decorator: `fn(params)` or `fn(params, ctx)` answers a request of the server's."""
        return lambda function: self.asker.answering.handle(method, function)

    def on_notification(self, method: str) -> Callable[[F], F]:
        """Decorator: `fn(params)` hears a notification of the server's."""
        return lambda function: self.asker.answering.listen(method, function)

    def around(self, hook: Hook[Any]) -> Hook[Any]:
        """Decorator: `fn(ctx, params, proceed)` wraps every request that the server sends."""
        return self.asker.answering.around(hook)

    # -- the end ---------------------------------------------------------------------------------------

    def close(self) -> None:
        """End the connection and, over stdio, the server. Everything that still waits fails at once.

        Beside another thread's `close` this waits until that one is done. A thread of ours does not, such as
        one that runs a callback: the other thread may be waiting for it.
        """
        if self.asker.connection.is_inherited:  # a forked child: all this is the parent's to end
            return
        self.asker.is_closed = True
        is_ours = threading.current_thread().name.startswith("mcp_ref")
        if not self._closing.acquire(timeout=0.0 if is_ours else MAX_CLOSE_SECONDS):
            return
        try:
            if not self._is_ended:
                self.asker.answering.close()
                self.asker.line.close()
                self.asker.events.close(1.0, drop=False)  # what was heard until now is still told
                self._is_ended = True  # not before: after Ctrl-C in here the next call does the rest
                self._finalizer.detach()
        finally:
            self._closing.release()

    def __exit__(self, *exception: object) -> None:
        self.close()


def _call_params(name: str, arguments: Json | None, meta: Json | None) -> Json:
    """The params of tools/call. Raises TypeError, ValueError."""
    check_sendable(name=name)
    check_object(arguments=arguments, meta=meta)
    return tools_page.call_params(name, arguments, meta)


def _dropped(
    asker: weakref.ref[Asker], line: AnyLine, events: EventThread, server_label: str, process: int
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
        if asker() is None:
            with contextlib.suppress(RuntimeError):  # the system has no more threads to give
                threading.Thread(
                    target=_end, args=(line, events), name="mcp_ref closing", daemon=True
                ).start()
        else:
            _end(line, events)


def _end(line: AnyLine, events: EventThread) -> None:
    line.close()
    events.close(0.0)
