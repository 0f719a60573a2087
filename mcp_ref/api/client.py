"""Client (page: architecture/index, "Clients"): the blocking way to use a server.

    with connect(["python", "server.py"]) as client:
        client.list_tools()
        client.call_tool("add", {"a": 1, "b": 2}).structured

A call blocks the thread that makes it and no other: a client may be used by many threads at once. Each
method for a feature sends the request that the client half of the feature's page makes. Parameters that
several methods have:

    timeout       seconds of silence after which the call fails; each progress notification restarts them
    on_progress   called with (progress, total, message), on the thread that waits; for a future, and a task
                  of 2025-11-25, on the thread for events (api/events)
    rounds        how many times the client answers, by itself, what the server asks before it can go on
                  (basic/patterns/mrtr); 0 gives the first question to the caller
    check         True: a tool that failed raises ToolError; False: it is a result with `is_error`
    returns       what a tool returns: `call_tool("note", returns=Note)` gives a Note, or raises

The parts of a client, such as its connection and its list of known tools, are attributes of `asker`
(api/requests).

Revisions   all; `connect(revision=...)` insists on one. See
            basic/transports/stdio/backward_compatibility for how the client finds out what a server speaks.
Threads     mcp_ref reader     on a pipe, and for HTTP+SSE: reads, delivers answers, answers `ping`
                               (api/pipe_transport). Over Streamable HTTP a caller reads its own answer
            mcp_ref worker N   runs the handlers for requests of a legacy server (api/answering), and
                               prepares the later rounds of futures (api/results)
            one more worker    runs, one after another, on_log, on_notification and, of futures, callbacks
                               and on_progress (api/events)
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
    """The keywords of `submit_tool` that do not depend on `returns`."""

    timeout: float | None
    on_progress: OnProgress | None
    meta: Json | None
    check: bool | None


class CallOptions(SubmitOptions, total=False):
    """The keywords of `call_tool` that do not depend on `returns`."""

    rounds: int | None


MAX_CLOSE_SECONDS = 60.0
"""How long `close` waits for another thread that is closing the same client."""


class Client(contextlib.AbstractContextManager["Client"]):
    """One connection to one server, opened by `connect`.  # spec: architecture/index/one-server-per-client"""

    def __init__(self, asker: Asker, server_label: str = "a server", *, check: bool = False) -> None:
        """`server_label` names the server in warnings. `check` is the default for all calls."""
        self.asker = asker
        self._checks = check
        self._closing = threading.RLock()
        self._is_ended = False  # guarded by _closing
        # On the asker, not on this Client: a request under way or a subscription refers to the asker, and
        # still needs the connection when the application has dropped the Client.
        self._finalizer = weakref.finalize(
            asker, _dropped, weakref.ref(asker), asker.line, asker.events, server_label, forks.count
        )

    def __repr__(self) -> str:
        info, state = self.server_info, ", closed" if self.asker.closing.is_set() else ""
        return f"<Client of {brief(info.get('name'))} {brief(info.get('version'))} in {self.revision}{state}>"

    # -- what was negotiated -------------------------------------------------------------------------

    @property
    def revision(self) -> Revision:
        """The revision that both sides agreed on."""
        return self.asker.negotiated.revision

    @property
    def server_info(self) -> Json:
        """The name and version of the server, as it says itself."""
        return self.asker.negotiated.server_info

    @property
    def server_capabilities(self) -> Json | None:
        """The capabilities that the server declared."""
        return self.asker.negotiated.server_capabilities

    @property
    def instructions(self) -> str | None:
        """The server's text for a model on how to use it."""
        return self.asker.negotiated.instructions

    @property
    def session_id(self) -> str | None:
        """The id of the session, if the server gave it one: over HTTP, in the legacy era."""
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
        """Answer the questions of an input_required result: send its request again, and return the result.

        `responses` has the keys of `result.input_requests`; each value is a result of the form that the page
        of that question's method defines. If the server goes on with a task, this waits for the end of the
        task, as `call_tool` does.
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
        """Send any request and return at once: the result comes as a `concurrent.futures.Future`."""
        return self.asker.submit(method, params, timeout=timeout, on_progress=on_progress)

    def notify(self, method: str, params: Json | None = None) -> None:
        """Send any notification."""
        check_sendable(method=method)
        check_object(params=params)
        self.asker.connection.notify(method, params)

    def forget_cached(self, method: str | None = None) -> None:
        """Drop the cached results of this server, of one method or of all: the next request fetches anew."""
        self.asker.forget_cached(method)

    # -- the features of the server ------------------------------------------------------------------

    def ping(self, timeout: float | None = None) -> None:
        """Return if the server answers. 2026-07-28 has no ping: there server/discover is sent instead."""
        if self.revision.pings:
            ping.ping(self.asker.connection, timeout)
        else:  # not through `request`: a cached result does not show that the server is still there
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
        """Call a tool and wait for its result (server/tools). A tool that failed is a result with `is_error`.

        With `check=True`, here or in `connect`, it raises ToolError instead. `returns=Note` gives a Note,
        made from JSON as the arguments of tools are. With `returns`, ToolError is raised if the tool failed,
        and InvalidResponse if it returned something else.

        If the server runs the call as a task, this waits for the end of the task, for `max_timeout` at most.
        After that, or on Ctrl-C, the task is cancelled, as an ordinary call would be: use `start_tool` for
        tasks that take longer.
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
        """Call a tool and return at once: the future of what `call_tool` returns.

        Its `cancel()` also cancels the request on the wire.
        """
        params, make = _call_params(name, arguments, meta), self._made(returns, check)
        return task_calls.submit_call(self.asker, params, make, timeout=timeout, on_progress=on_progress)

    def _made(self, returns: Any, check: bool | None) -> Callable[[Result], Any]:
        """The function that turns a Result into what the caller of a tool gets. Raises TypeError."""
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
        """Call a tool as a task, and return the task (api/tasks): `task.result()` waits for its end.

        The server keeps the task for `ttl` seconds, if it agrees. In 2026-07-28 the server alone decides
        whether the call is a task, and how long it is kept. `timeout` is for the answer to the call, not for
        the end of the task.
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
        """The same task; its result will be checked as the result of a call is (`check`)."""
        task.checks = self._checks
        return task

    def list_resources(self) -> list[Resource]:
        """All resources of the server, from all pages (server/resources)."""
        return resources_page.list_resources(self.asker)

    def list_resource_templates(self) -> list[ResourceTemplate]:
        """All resource templates of the server, from all pages (server/resources)."""
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
        """Possible values for an argument of a prompt or a variable of a template: `result["completion"]`.

        `arguments` has the values that are already chosen for the others (server/utilities/completion).
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
        """Subscribe to changes of lists, and of the resources with the given URIs
        (basic/patterns/subscriptions/client).

        `resources=True` means the list of resources. With URIs in `resources`, `resource_list=True` adds it.
        """
        if isinstance(resources, str):
            raise TypeError("resources is True, or a list of URIs, not one string")
        wanted = {"tools": tools, "prompts": prompts, "resources": resource_list or resources is True}
        uris = [] if isinstance(resources, bool) else list(resources)
        check_sendable(**{f"resources[{number}]": uri for number, uri in enumerate(uris)})
        return Changes(self.asker, [kind for kind, given in wanted.items() if given], uris).open()

    def visit(self, problem: UrlElicitationNeeded, timeout: float = FOR_PEOPLE) -> bool:
        """Ask the person to open the URLs of an error -32042 (2025-11-25). True: the request may now be sent
        again. False: they declined, or the server did not report in time that they are done.
        """
        return url_mode.visit(self.asker.answering, problem, check_seconds("timeout", timeout))

    def set_roots(self, roots: Any) -> None:
        """Replace the roots, and notify the server if the revision has that notification (client/roots)."""
        callbacks = self.asker.answering.callbacks
        if callbacks.roots is None:
            raise ValueError("this client was connected without roots, and so declared none")
        callbacks.roots = roots if callable(roots) else roots_page.as_roots(roots)
        roots_page.notify_changed(self.asker.negotiated, self.asker.connection)

    def set_log_level(self, level: LoggingLevel) -> None:
        """Have the server send log messages of this level and above, from now on, for `on_log`."""
        self.asker.log.set_level(self.asker, self.revision, level)

    # -- what the server asks, and says --------------------------------------------------------------

    def on_request(self, method: str) -> Callable[[F], F]:
        """Decorator: `fn(params)` or `fn(params, ctx)` answers the server's requests of this method."""
        return lambda function: self.asker.answering.handle(method, function)

    def on_notification(self, method: str) -> Callable[[F], F]:
        """Decorator: `fn(params)` is called with each of the server's notifications of this method."""
        return lambda function: self.asker.answering.listen(method, function)

    def around(self, hook: Hook[Any]) -> Hook[Any]:
        """Decorator: `fn(ctx, params, proceed)` wraps every request that the server sends, except `ping`."""
        return self.asker.answering.around(hook)

    # -- the end ---------------------------------------------------------------------------------------

    def close(self) -> None:
        """End the connection and, over stdio, the server. Everything that still waits fails at once.

        If another thread is closing the client, this waits until that is done. A thread of this package,
        such as one that runs a callback, does not wait: the other thread may be waiting for it.
        """
        if self.asker.connection.is_inherited:  # a forked child: the parent will end all this
            return
        self.asker.closing.set()
        is_ours = threading.current_thread().name.startswith("mcp_ref")
        if not self._closing.acquire(timeout=0.0 if is_ours else MAX_CLOSE_SECONDS):
            return
        try:
            if not self._is_ended:
                self.asker.answering.close()
                self.asker.line.close()
                self.asker.events.close(1.0, drop=False)  # callbacks for what has arrived still run
                self._is_ended = True  # last: after a Ctrl-C above, the next `close` does the rest
                self._finalizer.detach()
        finally:
            self._closing.release()

    def __exit__(self, *exception: object) -> None:
        self.close()


def _call_params(name: str, arguments: Json | None, meta: Json | None) -> Json:
    """The params of tools/call. Raises TypeError, ValueError for what cannot be sent."""
    check_sendable(name=name)
    check_object(arguments=arguments, meta=meta)
    return tools_page.call_params(name, arguments, meta)


def _dropped(
    asker: weakref.ref[Asker], line: AnyLine, events: EventThread, server_label: str, process: int
) -> None:
    """Warn, and close: the client was dropped without `close`, or is still open when the program ends.

    A client that was dropped is closed on a new thread: the garbage collector may call this on any thread,
    with any lock held. A client with a request under way or a subscription is not dropped: its connection
    refers to its asker.
    """
    if forks.count != process:  # a forked child: the client belongs to the parent
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
