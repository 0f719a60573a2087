"""How a client asks (page: basic/patterns/index, client's side): any request, and what belongs to asking.

    request   check, cache, send, wait; answer what the server asks first; check the result, keep it
    submit    the same with a future; results are not kept

Every other method of a client that asks something (api/features) goes through one of the two.

Revisions   all.
Threads     the caller's own: it waits for its answer, runs its on_progress, and waits for the
            application's callbacks where the server asks something. `mcp_ref worker` of `_events`, one
            alone, runs the callbacks of futures and of notifications, in order.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from mcp_ref.api.callbacks import Callbacks
from mcp_ref.api.results import PendingCall, Result
from mcp_ref.basic.index.error_responses import ErrorResponse
from mcp_ref.basic.index.general_fields import (
    LOG_LEVEL,
    Implementation,
    MissingRequiredClientCapability,
    check_meta,
    request_meta,
)
from mcp_ref.basic.index.messages import Json, result_type
from mcp_ref.basic.lifecycle import ClientCapabilities
from mcp_ref.basic.patterns.index.connection import Connection
from mcp_ref.basic.patterns.index.requester import Call
from mcp_ref.basic.patterns.mrtr.basic_workflow import (
    InputRefused,
    check_question,
    gather,
    is_question,
    retry,
)
from mcp_ref.basic.patterns.progress import OnProgress
from mcp_ref.basic.transports.streamable_http import schema_extension
from mcp_ref.basic.versioning import (
    TABLE,
    Revision,
    version_named,
)
from mcp_ref.client.elicitation import url_mode as url_elicitation
from mcp_ref.runtime.checks import check_callable, check_count, check_object, check_text
from mcp_ref.runtime.errors import InvalidResponse, LocalError, McpError
from mcp_ref.runtime.logs import logger
from mcp_ref.runtime.threads.workers import QueueFull, Workers
from mcp_ref.schema import pruner
from mcp_ref.server import prompts, resources, tools
from mcp_ref.server.utilities import completion
from mcp_ref.server.utilities import logging as log_page
from mcp_ref.server.utilities.caching import Cache

if TYPE_CHECKING:
    from mcp_ref.api.http_transport import HttpLine
    from mcp_ref.api.pipe_transport import Line
    from mcp_ref.basic.transports.streamable_http.schema_extension import Paths
    from mcp_ref.runtime.threads.deadlines import Deadline

__all__ = ["AnyLine", "Asking"]

_log = logger("mcp_ref.client")

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
    "resources/list": resources.check_resources,
    "resources/templates/list": resources.check_templates,
    "resources/read": resources.check_read,
    "prompts/list": prompts.check_list,
    "prompts/get": prompts.check_result,
    "completion/complete": completion.check_result,
}
ENDED: dict[str, Callable[[Any, Json, Json | BaseException | str], None]] = {"tools/call": tools.ended}


AnyLine: TypeAlias = "Line | HttpLine"
"""To a process, or to a URL."""


MAX_EVENTS = 10_000
"""Calls of callbacks that wait for a slow one."""
MAX_EVENT_BYTES = 32 << 20
"""And bytes of the messages that they are for."""


class Asking:
    """What a client needs in order to ask."""

    _line: AnyLine

    def __init__(
        self,
        *,
        info: Implementation,
        revisions: Sequence[str],
        capabilities: Json,
        callbacks: Callbacks,
        cache: Cache | None,
        cache_key: Hashable,
        principal: Hashable,
        max_rounds: int,
        ping_every: float | None,
        on_log: Callable[[str, Any, str | None], object] | None,
        on_notification: Callable[[str, Json], object] | None,
        confirm: Callable[[Any, Any, Json], object] | None,
        audit_arguments: bool,
    ) -> None:
        self.info = info
        self.declared = capabilities
        self.capabilities = capabilities
        self.callbacks = callbacks
        self.cache, self.cache_key, self.principal = cache, cache_key, principal
        self.max_rounds = max_rounds
        self.ping_every = ping_every
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
        # A client with `on_log` gets as much in the modern era as it would by default in the legacy one.
        self.log_level: log_page.LoggingLevel | None = log_page.DEFAULT_LEVEL if on_log is not None else None
        self.first_log_level = self.log_level
        self.known_tools: dict[str, Any] = {}
        self.mirrored: schema_extension.Mirrored = {}
        self.tools_fresh_until = 0.0
        self.subscribing = threading.Lock()
        """Legacy: held while this client subscribes or unsubscribes (basic/patterns/subscriptions/client)."""
        self._events = Workers(limit=1, queue=MAX_EVENTS, queue_bytes=MAX_EVENT_BYTES)
        self._dropping = threading.Lock()
        self._dropped = self._dropped_bytes = 0  # since the last that was not; guarded by _dropping
        self._closed = False

    @property
    def connection(self) -> Connection:
        """The connection as it is now, whether or not it still works."""
        return self._line.connection

    def alive(self) -> Connection:
        """The connection to ask on (api/pipe_transport)."""
        return self._line.alive()

    @property
    def repeats_arguments(self) -> bool:
        """Whether arguments of tools go into HTTP headers, where the tools say so."""
        return self._line.repeats_arguments and self.revision.modern

    def annotated(self, params: Json, deadline: Deadline | None) -> Paths | None:
        """Which arguments of this call go into headers
        (basic/transports/streamable_http/request_metadata).
        """
        return schema_extension.mirrored(self, params.get("name"), deadline)

    def fetch_tool(self, name: Any, **limits: Any) -> Any:
        """The definition of a tool as the server has it now."""
        return tools.fetched(self, name, **limits)

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    @property
    def server_name(self) -> str:
        """The server's name for people, by its own account."""
        name = self.server_info.get("title") or self.server_info.get("name")
        return name if isinstance(name, str) and name else "a server without a name"

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

        `timeout` is the silence to put up with, in seconds: progress restarts it. `rounds` bounds how often
        what the server asks is answered: see api/features. Raises ErrorResponse, RequestTimeout,
        ConnectionClosed, InvalidResponse, InputRefused.
        # spec: basic/patterns/cancellation/timeout-configurable
        """
        check_callable(on_progress=on_progress)
        params = self._prepared(method, params)
        kept = self._kept(method, params)
        return self._asked(method, params, rounds, timeout, on_progress) if kept is None else kept

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

        `responses` has the keys of `result.input_requests`, with what the page of each wants.
        """
        check_object(responses=responses)
        if result.request is None or not result.is_input_required:
            raise ValueError("only an input_required result that `rounds` left to you can be resumed")
        method, params = result.request
        return self._asked(method, retry(params, result, responses), rounds, timeout, on_progress)

    def _asked(self, method: str, params: Json, *options: Any) -> Result:
        """What `_rounds` returns; the page of the method is told of the end."""
        try:
            result = self._rounds(method, params, *options)
        except BaseException as problem:
            self.ended(method, params, problem)
            raise
        self.ended(method, params, result)
        return result

    def _rounds(
        self,
        method: str,
        params: Json,
        rounds: int | None,
        timeout: float | None,
        on_progress: OnProgress | None,
    ) -> Result:
        """Ask, and answer what the server asks back, until there is a result."""
        most = self.max_rounds if rounds is None else rounds
        check_count(0, rounds=most)
        for left in range(most, -1, -1):
            since = self.cache.generation(self.cache_key) if self.cache is not None else 0
            try:
                raw = self._sent(method, params, timeout, on_progress)
            except ErrorResponse as problem:
                raise self.explained(problem) from None
            result = self.checked(method, params, raw, timeout)
            if not result.is_input_required:
                self._keep(method, params, result, since)
                return result
            if left:
                params = retry(params, result, gather(self, method, result))
        if rounds is None:
            raise InputRefused(f"{method}: the server asked {most + 1} times, and no end")
        return result

    def _sent(self, method: str, params: Json, timeout: float | None, on_progress: OnProgress | None) -> Json:
        """Ask once; once more, if the server says what to say otherwise: its version, or its headers."""
        try:
            meant = self.with_meta(params)
            return self.alive().request(method, meant, timeout=timeout, on_progress=on_progress)
        except ErrorResponse as problem:
            if not self.can_correct(method, problem):
                raise
            self.correct(params, problem, timeout)
        meant = self.with_meta(params)
        return self.alive().request(method, meant, timeout=timeout, on_progress=on_progress)

    def can_correct(self, method: str, problem: Json | McpError) -> bool:
        """Whether a request was refused before it was begun, and may be sent again in another way."""
        named = version_named(problem, self.revision, self.revisions)
        return named is not None or schema_extension.is_about_headers(self, method, problem)

    def correct(self, params: Json, problem: Json | McpError, timeout: float | None = None) -> None:
        """Find out what the version, or the headers, of this request should be."""
        named = version_named(problem, self.revision, self.revisions)
        if named is None:
            schema_extension.refresh(self, params, timeout)
            return
        _log.info("the server goes on in %s: %.300r", named, problem)
        self.revision = named
        self.capabilities = pruner(ClientCapabilities, named.date)(self.declared)

    def explained(self, problem: ErrorResponse) -> ErrorResponse:
        """An error of the server's, as the exception that says most."""
        if problem.code == MissingRequiredClientCapability.code:
            declare = self.callbacks.arguments_for(problem.data)
            if declare:
                problem.advise(f"connect(..., {', '.join(declare)}) declares it")
        return url_elicitation.as_elicitation_needed(self, problem)

    def _kept(self, method: str, params: Json) -> Result | None:
        """What the cache has (server/utilities/caching)."""
        if self.cache is None or not self.revision.modern:
            return None
        found = self.cache.find(self.cache_key, self.principal, method, params)
        return None if found is None else Result(found)

    def _keep(self, method: str, params: Json, result: Json, since: int) -> None:
        if self.cache is not None and self.revision.modern:
            self.cache.store(self.cache_key, self.principal, method, params, result, since=since)

    def forget_cached(self, method: str | None = None) -> None:
        """Have what was kept of this server fetched anew: of one method, or all."""
        if self.cache is not None:
            self.cache.forget(self.cache_key, method)

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
        connection = self.alive()
        future = PendingCall(self, connection, params)

        def send(params: Json) -> Call:
            return connection.call(
                method,
                self.with_meta(params),
                timeout=timeout,
                wants_progress=on_progress is not None,
                on_done=future.settle,
                on_report=lambda call: self.event(_run_reports, (call, on_progress)),
            )

        future.begin(send)
        return future

    def notify(self, method: str, params: Json | None = None) -> None:
        """Send any notification."""
        check_text(method=method)
        check_object(params=params)
        self.connection.notify(method, params)

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
        lacking = self.undeclared(method)
        if lacking is not None:
            raise LocalError(f"{method}: the server did not declare the capability {lacking!r}")

    def undeclared(self, method: str) -> str | None:
        """The capability that the server would have declared if it could be asked this; None if it can."""
        capability = NEEDS.get(method.partition("/")[0])
        if capability == "completions" and not self.revision.reaches("2025-03-26"):
            return None  # there was completion before there was a capability for it
        declared = self.server_capabilities
        if capability is None or declared is None:
            return None
        if capability not in declared:
            return capability
        part = resources.PARTS.get(method)
        return f"{capability}.{part}" if part is not None and not declared[capability].get(part) else None

    def with_meta(self, params: Json) -> Json | None:
        """Params with what the revision wants in their `_meta`."""
        if not self.revision.modern:
            return params or None
        meta = request_meta(self.revision.date, self.capabilities, self.info)
        if self.log_level is not None:
            meta[LOG_LEVEL] = self.log_level
        return {**params, "_meta": {**meta, **params.get("_meta", {})}}

    def checked(self, method: str, params: Json, result: Json, timeout: float | None = None) -> Result:
        """A result that keeps to its page. Raises InvalidResponse."""
        try:
            result_type(result)
        except ValueError as problem:
            raise InvalidResponse(f"{method}: {problem}") from None
        if is_question(result):
            check_question(self.revision, method, result)
            question = Result(result)
            question.request = (method, params)
            return question
        after = AFTER.get(method)
        if after is not None:
            after(self, params, result, timeout)
        return Result(result)

    def ended(self, method: str, params: Json, outcome: Json | BaseException) -> None:
        """A request of ours is over, well or not, or a question of the server's is left to the caller."""
        if method in ENDED:
            ENDED[method](self, params, "asked" if is_question(outcome) else outcome)

    def event(
        self, run: Callable[[Any], object], argument: Any, *, always: bool = False, size: int = 0
    ) -> None:
        """Have something run on the thread for events; what must run `always` may not be dropped.

        `size` is the weight of its message in bytes.
        """
        try:
            if not self._events.submit(run, argument, always=always, size=size) and always:
                run(argument)  # the thread is gone
        except QueueFull:
            self._drop(size)
        else:
            if self._dropped and self._events.waiting <= 1:
                self._tell_dropped()

    def _drop(self, size: int) -> None:
        """One line when it begins and one when it is over: a server that floods us must not flood the log."""
        with self._dropping:
            self._dropped += 1
            self._dropped_bytes += size
            if self._dropped > 1:
                return
        _log.warning(
            "the callbacks for notifications are too slow: %d wait, %d bytes in memory; more are dropped",
            self._events.waiting,
            self._events.waiting_bytes,
        )

    def _tell_dropped(self) -> None:
        with self._dropping:
            dropped, self._dropped = self._dropped, 0
            size, self._dropped_bytes = self._dropped_bytes, 0
        if dropped:
            _log.warning(
                "dropped %d notifications of %d bytes in memory: the callbacks were too slow", dropped, size
            )


def _run_reports(what: tuple[Call, OnProgress]) -> None:
    call, on_progress = what
    while call.reports:
        on_progress(*call.reports.popleft())
