"""How a client sends any request, and gets its result (page: basic/patterns/index, client's side).

    request   check the params, look in the cache, send, wait; answer what the server asks before it goes on;
              check the result, cache it
    submit    the same with a future, and without the cache

Every other method of a client that sends a request (api/client) goes through one of the two.

Revisions   all.
Threads     the caller's own: it waits for its answer, runs its on_progress, and waits for the
            application's callbacks where the server asks something. Callbacks of futures run on the thread
            for events (api/events).
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

from mcp_ref.api.answering import Answering
from mcp_ref.api.callbacks import ARGUMENTS, Callbacks
from mcp_ref.api.events import EventThread
from mcp_ref.api.results import PendingCall, Result, unchanged
from mcp_ref.api.retrying import Attempts, Retry, begun_before
from mcp_ref.api.tasks import Task
from mcp_ref.basic.index.error_responses import ErrorResponse
from mcp_ref.basic.index.general_fields import (
    CLIENT_CAPABILITIES,
    LOG_LEVEL,
    MissingRequiredClientCapability,
    check_meta,
    request_meta,
)
from mcp_ref.basic.index.messages import Json, result_type
from mcp_ref.basic.lifecycle import ClientCapabilities, Negotiated
from mcp_ref.basic.patterns.index.connection import Connection
from mcp_ref.basic.patterns.index.requester import Call
from mcp_ref.basic.patterns.mrtr.basic_workflow import Rounds, check_question, is_input_required, retry
from mcp_ref.basic.patterns.progress import OnProgress, Report
from mcp_ref.basic.patterns.subscriptions.client import Subscriptions
from mcp_ref.basic.transports.streamable_http import schema_extension
from mcp_ref.basic.utilities import ping
from mcp_ref.basic.utilities.tasks import protocol_messages as tasks_of_2025
from mcp_ref.basic.utilities.tasks.protocol_messages import TaskNews
from mcp_ref.basic.versioning import version_named
from mcp_ref.client.elicitation import url_mode as url_elicitation
from mcp_ref.extensions import tasks as task_extension
from mcp_ref.runtime.checks import check_callable, check_count, check_object, check_sendable
from mcp_ref.runtime.errors import InvalidResponse, LocalError, McpError, NotReached
from mcp_ref.runtime.logs import logger
from mcp_ref.runtime.threads.flags import Flag
from mcp_ref.schema import pruner
from mcp_ref.server import discover, prompts, resources, tools
from mcp_ref.server.utilities import completion
from mcp_ref.server.utilities.caching import CacheOfServer
from mcp_ref.server.utilities.logging import LogReceiver, OnLog

if TYPE_CHECKING:
    from mcp_ref.api.http_transport import HttpLine
    from mcp_ref.api.pipe_transport import Line
    from mcp_ref.basic.patterns.index.context import RequestContext
    from mcp_ref.basic.transports.streamable_http.schema_extension import Paths
    from mcp_ref.runtime.threads.deadlines import Deadline

__all__ = ["AnyLine", "Asker", "asked_for"]

_log = logger("mcp_ref.client")

BEFORE: dict[str, Callable[[Asker, Json], None]] = {"tools/call": tools.review}
"""By method: what its page does before a request is sent."""
AFTER: dict[str, Callable[[Asker, Json, Json, float | None], None]] = {
    "server/discover": discover.check_result,
    "tools/call": tools.check_result,
    "tools/list": tools.check_list,
    "resources/list": resources.check_resources,
    "resources/templates/list": resources.check_templates,
    "resources/read": resources.check_read,
    "prompts/list": prompts.check_list,
    "prompts/get": prompts.check_result,
    "completion/complete": completion.check_result,
}
"""By method: how its page checks a result."""
Outcome: TypeAlias = Json | BaseException | str
ENDED: dict[str, Callable[[Asker, Json, Outcome, str | None], None]] = {"tools/call": tools.ended}
"""By method: how its page records the end of a request."""

MAX_REPORTERS = 1000
"""How many tasks of one connection may report their progress at a time."""

SETTLE_SECONDS = 10.0
"""Seconds that the end of a task waits for a slow `on_progress`."""

asked_for: ContextVar[RequestContext | None] = ContextVar("asked_for", default=None)
"""The request to our own server for which this thread asks another server (api/mounting). The requests that
the thread sends meanwhile end with that one."""

QUESTIONS = tuple(ARGUMENTS)
"""The capabilities of a client that say what a server may ask it: elicitation, sampling, roots. In a relayed
request they are those of the client that it is relayed for (`_declared`)."""

AnyLine: TypeAlias = "Line | HttpLine"
"""The transport of a client: to a process or a server in this process (Line), or to a URL (HttpLine)."""


T = TypeVar("T")


class AskRules(NamedTuple):
    """The options of `connect` that are for all requests."""

    max_rounds: int
    ping_every: float | None
    retry: Retry | None


class Asker:
    """Sends the requests of one client, each with its checks, its rounds and its cached result.

    Each client has an Asker of its own. What that knows (tools, subscriptions) and what hears for it
    (callbacks, threads) belongs to this client alone: nothing of one server gets to another.
    # spec: architecture/index/client-boundary
    """

    def __init__(
        self,
        line: Callable[[Asker], AnyLine],
        *,
        negotiated: Negotiated,
        callbacks: Callbacks,
        cache: CacheOfServer,
        rules: AskRules,
        on_log: OnLog | None,
        on_notification: Callable[[str, Json], object] | None,
        confirm: tools.Confirm | None,
        audit_arguments: bool,
    ) -> None:
        """`line` makes the connection."""
        self.negotiated, self.cache = negotiated, cache
        self.rules = rules
        self.confirm, self.audit_arguments = confirm, audit_arguments
        self.closing = Flag()
        """Set when the client is closed."""
        self.tools = tools.KnownTools()
        self.subscriptions = Subscriptions()
        self.log = LogReceiver(on_log)
        self.task_news: set[TaskNews] = set()
        """Who waits for notifications of tasks (basic/utilities/tasks)."""
        self.events = EventThread()
        self.answering = Answering(
            negotiated=negotiated,
            callbacks=callbacks,
            tools=self.tools,
            cache=cache,
            subscriptions=self.subscriptions,
            log=self.log,
            events=self.events,
            on_notification=on_notification,
            task_news=self.task_news,
        )
        # Weak references: the threads of the line would keep alive a client that the application has dropped.
        self.endpoint: Answering = weakref.proxy(self.answering)
        self.line = line(weakref.proxy(self))

    # -- the connection ------------------------------------------------------------------------------

    @property
    def connection(self) -> Connection:
        """The connection as it is now, whether or not it still works."""
        return self.line.connection

    def alive(self) -> Connection:
        """The connection to send requests on, to a server that was started again if need be."""
        return self.line.alive()

    @property
    def max_rounds(self) -> int:
        """How often one request is sent again with answers to what the server asked."""
        return self.rules.max_rounds

    def open(self) -> None:
        """Agree with the server on a revision."""
        if self.line.opens_again:
            self._sent(self.line.open, "initialize", {})
        else:
            self.line.open()
        if self.negotiated.revision.pings:
            ping.watch(self.connection, self.rules.ping_every, self.line.lose)

    @property
    def knows_tasks(self) -> bool:
        """Whether this client may declare the extension for tasks to a server of 2026-07-28."""
        return self.negotiated.allows_tasks or task_extension.is_known_to(self.negotiated.capabilities)

    def is_task(self, result: Json) -> bool:
        """Whether a call of 2026-07-28 was answered with a task."""
        return self.negotiated.revision.tasks == "decided" and task_extension.is_created(result)

    def probe(self) -> Json:
        """The params of server/discover."""
        return discover.params(self.negotiated.revisions, self.negotiated.declared, self.negotiated.info)

    def renewed(self) -> None:
        """The server ended the session, and there is a new one: forget the tools, listen, subscribe again."""
        self.tools.forget()
        self.line.listen()
        self.log.renew(self, self.negotiated.revision)
        self.subscriptions.renew()

    @property
    def repeats_arguments(self) -> bool:
        """Whether arguments of calls are repeated in HTTP headers, where the schema of a tool marks them."""
        return self.line.repeats_arguments and (
            self.negotiated.revision.mirrors_body or self.line.draft_headers
        )

    def annotated(self, params: Json | None, deadline: Deadline | None) -> Paths:
        """Which arguments of this call go into headers
        (basic/transports/streamable_http/request_metadata).
        """
        return self.tools.paths(self, (params or {}).get("name"), deadline)

    # -- asking --------------------------------------------------------------------------------------

    def request(
        self,
        method: str,
        params: Json | None = None,
        *,
        timeout: float | None = None,
        on_progress: OnProgress | None = None,
        rounds: int | None = None,
        progress_token: str | None = None,
        as_task: bool = False,
    ) -> Result:
        """Send any request and wait for its result (`Client.request`).

        With a `progress_token` of `report_to`, its progress goes to the callback given there. `as_task` tells
        a server of 2026-07-28 that it may answer with a task.
        """
        check_callable(on_progress=on_progress)
        params = self._prepared(method, params)
        if as_task:
            self._declare_tasks(params)
        if progress_token is not None:
            params["_meta"] = {**params.get("_meta", {}), "progressToken": progress_token}
        kept = self.cache.find(method, params) if self.negotiated.revision.caches else None
        return self._asked(method, params, rounds, timeout, on_progress) if kept is None else Result(kept)

    def resume(
        self,
        result: Result,
        responses: Json,
        *,
        timeout: float | None = None,
        on_progress: OnProgress | None = None,
        rounds: int | None = None,
    ) -> Result:
        """Answer what an input_required result asks, and send its request again (`Client.resume`)."""
        check_object(responses=responses)
        if result.request is None or not result.is_input_required:
            raise ValueError("only an input_required result that `rounds` left to you can be resumed")
        method, params = result.request
        return self._asked(method, retry(params, result, responses), rounds, timeout, on_progress)

    def _asked(
        self,
        method: str,
        params: Json,
        most: int | None,
        timeout: float | None,
        on_progress: OnProgress | None,
    ) -> Result:
        """The result of the last round. The end of the request, either way, is recorded by `ended`."""
        if most is not None:
            check_count(0, rounds=most)
        rounds = Rounds(self, method, params, most=most, timeout=timeout)
        try:
            result = self._last(method, rounds, timeout, on_progress)
        except BaseException as problem:
            self.ended(method, rounds.params, problem)
            raise
        self.ended(method, rounds.params, result)
        return result

    def _last(
        self, method: str, rounds: Rounds, timeout: float | None, on_progress: OnProgress | None
    ) -> Result:
        """Send the request, and again after each round, until there is a result. Raises a server's error."""
        while True:
            since = self.cache.generation()
            try:
                outcome = self._outcome(method, rounds.params, timeout, on_progress)
            except NotReached as problem:
                if rounds.has_begun:
                    raise begun_before(method, problem) from problem
                raise
            prepare = rounds.next(outcome)
            if prepare is None:
                break
            prepare()
        if isinstance(outcome, ErrorResponse):
            try:
                raise self.explained(outcome)
            finally:
                del outcome  # else the error would refer to itself by its frames, and keep the client alive
        result = self.checked(method, rounds.params, outcome, timeout)
        if self.negotiated.revision.caches:
            self.cache.store(method, rounds.params, result, since)
        return result

    def _outcome(
        self, method: str, params: Json, timeout: float | None, on_progress: OnProgress | None
    ) -> Json | ErrorResponse:
        """The result of one round, or the server's error; sent again as often as `retry` allows."""

        def ask() -> Json:
            return self.alive().request(
                method,
                self.with_meta(params, method),
                timeout=timeout,
                on_progress=on_progress,
                on_behalf_of=asked_for.get(),
            )

        try:
            return self._sent(ask, method, params)
        except ErrorResponse as problem:
            return problem

    def _sent(self, send: Callable[[], T], method: str, params: Json) -> T:
        """Send a request, again if it was lost and may be repeated (api/retrying). Raises the last error."""
        if self.rules.retry is None:
            return send()
        attempts = Attempts(self, self.rules.retry, method, params)
        while True:
            try:
                return send()
            except McpError as problem:
                attempts.wait(problem)

    def submit(
        self,
        method: str,
        params: Json | None = None,
        *,
        timeout: float | None = None,
        on_progress: OnProgress | None = None,
        make: Callable[[Result], Any] = unchanged,
        follows: bool = False,
    ) -> PendingCall[Any]:
        """Send any request and go on (`Client.submit`; see PendingCall for `make` and `follows`)."""
        check_callable(on_progress=on_progress)
        params = self._prepared(method, params)
        connection = self.alive()
        rounds = Rounds(self, method, params, most=None, timeout=timeout)
        future = PendingCall(self, connection, rounds, make, follows=follows)

        def send(params: Json) -> None:
            connection.call(
                method,
                self.with_meta(params, method),
                timeout=timeout,
                wants_progress=on_progress is not None,
                prepare=future.watch,
                on_done=future.finish,
                on_report=lambda call: self.events.run(_run_reports, (call, on_progress)),
            )

        future.begin(send)
        return future

    def report_to(self, on_progress: OnProgress) -> tuple[str, Callable[[], object]]:
        """A progress token for a task, and the function that ends its reports.

        `on_progress` runs on the thread for events. The function waits until it was called with all reports
        that have arrived, at most SETTLE_SECONDS; after that it is not called any more.
        """
        token, reporters = f"task-{os.urandom(8).hex()}", self.connection.session.reporters
        if len(reporters) >= MAX_REPORTERS:
            raise LocalError(f"{MAX_REPORTERS} tasks report their progress already")

        is_over = threading.Event()

        def tell(report: Report) -> None:
            if not is_over.is_set():
                on_progress(*report)

        def hear(report: Report) -> None:
            self.events.run(tell, report)

        def stop() -> None:
            if reporters.pop(token, None) is not None:
                self.events.settle(SETTLE_SECONDS)
                is_over.set()

        reporters[token] = hear
        return token, stop

    def forget_cached(self, method: str | None = None) -> None:
        """Forget the cached results of this server, of one method or of all: they are fetched again."""
        self.cache.forget(method)

    # -- before it is sent ---------------------------------------------------------------------------

    def _prepared(self, method: str, params: Json | None) -> Json:
        check_sendable(method=method)
        check_object(params=params)
        params = dict(params) if params is not None else {}
        self.negotiated.check_declared(method)
        if "_meta" in params:
            check_object(_meta=params["_meta"])
            check_meta(params["_meta"])
        before = BEFORE.get(method)
        if before is not None:
            before(self, params)
        return params

    def _declare_tasks(self, params: Json) -> None:
        """Declare in the `_meta` of this request that it may be answered with a task."""
        capabilities = task_extension.with_tasks(self.negotiated.capabilities)
        params["_meta"] = {**params.get("_meta", {}), CLIENT_CAPABILITIES: capabilities}

    def with_meta(self, params: Json, method: str = "") -> Json | None:
        """The params to send: in the modern era, with what the revision requires in their `_meta`.

        An extension is off unless it is declared. Tasks are declared only in requests that are about one.
        """
        agreed = self.negotiated
        if not agreed.revision.modern:
            return params or None
        capabilities = _declared(agreed)
        if method.startswith("tasks/") or "taskIds" in params.get("notifications", ()):
            capabilities = task_extension.with_tasks(agreed.capabilities)
        meta = request_meta(agreed.revision.date, capabilities, agreed.info)
        if self.log.level is not None:
            meta[LOG_LEVEL] = self.log.level
        return {**params, "_meta": {**meta, **params.get("_meta", {})}}

    # -- after it was answered -----------------------------------------------------------------------

    def can_correct(self, method: str, problem: ErrorResponse) -> bool:
        """Whether a request was refused before it began for a reason that `correct` can remove.

        That is an unsupported revision, wrong headers, or a tool that runs only as a task.
        """
        agreed = self.negotiated
        is_draft = not agreed.revision.mirrors_body
        return (
            version_named(problem, agreed.revision, agreed.revisions) is not None
            or (
                self.repeats_arguments
                and schema_extension.is_about_headers(method, problem, is_draft=is_draft)
            )
            or self._needs_task(method, problem)
        )

    def _needs_task(self, method: str, problem: ErrorResponse) -> bool:
        """Whether a call was refused because the tool runs only as a task, and this client knows tasks."""
        decides = method == "tools/call" and self.negotiated.revision.tasks == "decided"
        return decides and self.knows_tasks and task_extension.is_required_by(problem)

    def correct(self, params: Json, problem: ErrorResponse, timeout: float | None) -> None:
        """Remove the reason of a refusal: declare tasks, fetch the tools anew, or change the revision."""
        if self._needs_task("tools/call", problem):
            self._declare_tasks(params)
            return
        named = version_named(problem, self.negotiated.revision, self.negotiated.revisions)
        if named is None:
            self.forget_cached("tools/list")
            self.tools.fetch(self, params.get("name"), timeout=timeout)
        else:
            _log.info("the server goes on in %s: %.300r", named, problem)
            self.negotiated.go_on_in(named)

    def explained(self, problem: ErrorResponse) -> ErrorResponse:
        """The exception for a server's error: with advice on how to declare a missing capability, or as
        UrlElicitationNeeded if the user has to visit a URL.
        """
        if problem.code == MissingRequiredClientCapability.code:
            declare = self.answering.callbacks.arguments_for(problem.data)
            if declare:
                problem.advise(f"connect(..., {', '.join(declare)}) declares it")
        return url_elicitation.as_elicitation_needed(self.answering, problem)

    def checked(self, method: str, params: Json, result: Json, timeout: float | None = None) -> Result:
        """The Result, after it was checked against the page of its method. Raises InvalidResponse."""
        try:
            declared = params.get("_meta", {}).get(CLIENT_CAPABILITIES, self.negotiated.capabilities)
            kind = result_type(result, ("task",) if task_extension.is_known_to(declared) else ())
        except ValueError as problem:
            raise InvalidResponse(f"{method}: {problem}") from None
        if is_input_required(result):
            check_question(self.negotiated.revision, method, result)
            question = Result(result)
            question.request = (method, params)
            return question
        if kind == "task":
            return Result(task_extension.created(method, result))
        after = AFTER.get(method)
        if after is not None:
            after(self, params, result, timeout)
        return Result(result)

    def task_in(self, method: str, params: Json, result: Json, *, follows: bool) -> Task | None:
        """The task that a call was answered with; None if it was not. `follows`: in 2025-11-25, too."""
        if method == "tools/call" and self.is_task(result):
            return Task(self, result, params)
        if follows and "task" in params and "task" in result:
            call = {name: value for name, value in params.items() if name != "task"}
            return Task(self, tasks_of_2025.created(method, result), call)
        return None

    def ended(
        self, method: str, params: Json, outcome: Json | BaseException, task_id: str | None = None
    ) -> None:
        """Record that a request of ours is over, well or not, or has left a question to the caller.

        `task_id`: it is the task of a call that is over, not the call itself.
        # spec: basic/utilities/tasks/requestor-logs, basic/utilities/tasks/requestor-tracks
        """
        if method not in ENDED:
            return
        said: Outcome = outcome
        if is_input_required(outcome):
            said = "asked"
        elif task_id is None and (began := _task_begun(params, outcome)) is not None:
            said, task_id = "began", began
        ENDED[method](self, params, said, task_id)


def _declared(agreed: Negotiated) -> Json:
    """The capabilities to declare in a request. In one that is relayed for another client, the server may
    ask what that client can be asked: its questions go there (api/mounting).

    A relayed request does not declare tasks, unless the server insists (`correct`): the questions of a task
    are answered by the callbacks of this client.
    """
    relayed_for = asked_for.get()
    if relayed_for is None:
        return agreed.capabilities
    theirs = pruner(ClientCapabilities, agreed.revision.date)(relayed_for.client_capabilities)
    ours = task_extension.without_tasks(agreed.capabilities)
    kept = {name: parts for name, parts in ours.items() if name not in QUESTIONS}
    return kept | {name: parts for name, parts in theirs.items() if name in QUESTIONS}


def _task_begun(params: Json, outcome: Json | BaseException) -> str | None:
    """The id of the task that a call was answered with, in either era; None if it was not."""
    task: Any = outcome if task_extension.is_created(outcome) else None
    if "task" in params and isinstance(outcome, dict):
        task = outcome.get("task")
    task_id = task.get("taskId") if isinstance(task, dict) else None
    return task_id if isinstance(task_id, str) else None


def _run_reports(what: tuple[Call, OnProgress]) -> None:
    call, on_progress = what
    while call.reports:
        on_progress(*call.reports.popleft())
