"""How a client asks (page: basic/patterns/index, client's side): any request, and what belongs to asking.

    request   check, cache, send, wait; answer what the server asks first; check the result, keep it
    submit    the same with a future; results are not kept

Every other method of a client that asks something (api/client) goes through one of the two.

Revisions   all.
Threads     the caller's own: it waits for its answer, runs its on_progress, and waits for the
            application's callbacks where the server asks something. Callbacks of futures run on the thread
            for events (api/events).
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from mcp_ref.api.answering import Answering
from mcp_ref.api.callbacks import Callbacks
from mcp_ref.api.events import EventThread
from mcp_ref.api.results import PendingCall, Result
from mcp_ref.basic.index.error_responses import ErrorResponse
from mcp_ref.basic.index.general_fields import (
    LOG_LEVEL,
    MissingRequiredClientCapability,
    check_meta,
    request_meta,
)
from mcp_ref.basic.index.messages import Json, result_type
from mcp_ref.basic.lifecycle import Negotiated
from mcp_ref.basic.patterns.index.connection import Connection
from mcp_ref.basic.patterns.index.requester import Call
from mcp_ref.basic.patterns.mrtr.basic_workflow import Rounds, check_question, is_input_required, retry
from mcp_ref.basic.patterns.progress import OnProgress
from mcp_ref.basic.patterns.subscriptions.client import Subscriptions
from mcp_ref.basic.transports.streamable_http import schema_extension
from mcp_ref.basic.utilities import ping
from mcp_ref.basic.versioning import version_named
from mcp_ref.client.elicitation import url_mode as url_elicitation
from mcp_ref.runtime.checks import check_callable, check_count, check_object, check_text
from mcp_ref.runtime.errors import InvalidResponse
from mcp_ref.runtime.logs import logger
from mcp_ref.server import discover, prompts, resources, tools
from mcp_ref.server.utilities import completion
from mcp_ref.server.utilities.caching import CacheOfServer
from mcp_ref.server.utilities.logging import LogReceiver, OnLog

if TYPE_CHECKING:
    from mcp_ref.api.http_transport import HttpLine
    from mcp_ref.api.pipe_transport import Line
    from mcp_ref.basic.transports.streamable_http.schema_extension import Paths
    from mcp_ref.runtime.threads.deadlines import Deadline

__all__ = ["AnyLine", "Asker"]

_log = logger("mcp_ref.client")

BEFORE: dict[str, Callable[[Asker, Json], None]] = {"tools/call": tools.review}
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
ENDED: dict[str, Callable[[Asker, Json, Json | BaseException | str], None]] = {"tools/call": tools.ended}

AnyLine: TypeAlias = "Line | HttpLine"
"""To a process, or to a URL."""


class Asker:
    """Sends the requests of one client, with all that belongs to each.

    What it knows, and what hears for it, is its own: nothing of one server gets to another.
    # spec: architecture/index/client-boundary
    """

    def __init__(
        self,
        line: Callable[[Asker], AnyLine],
        *,
        negotiated: Negotiated,
        callbacks: Callbacks,
        cache: CacheOfServer,
        max_rounds: int,
        ping_every: float | None,
        on_log: OnLog | None,
        on_notification: Callable[[str, Json], object] | None,
        confirm: tools.Confirm | None,
        audit_arguments: bool,
    ) -> None:
        """`line` makes the connection."""
        self.negotiated, self.cache = negotiated, cache
        self.max_rounds, self.ping_every = max_rounds, ping_every
        self.confirm, self.audit_arguments = confirm, audit_arguments
        self.is_closed = False
        self.tools = tools.KnownTools()
        self.subscriptions = Subscriptions()
        self.log = LogReceiver(on_log)
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
        )
        # Weakly: the threads of the line would keep a client that the application has dropped.
        self.endpoint: Answering = weakref.proxy(self.answering)
        self.line = line(weakref.proxy(self))

    # -- the connection ------------------------------------------------------------------------------

    @property
    def connection(self) -> Connection:
        """The connection as it is now, whether or not it still works."""
        return self.line.connection

    def alive(self) -> Connection:
        """The connection to ask on (api/pipe_transport)."""
        return self.line.alive()

    def open(self) -> None:
        """Agree with the server on a revision."""
        self.line.open()
        if self.negotiated.revision.pings:
            ping.watch(self.connection, self.ping_every, self.line.lose)

    def probe(self) -> Json:
        """The params of server/discover."""
        return discover.params(self.negotiated.revisions, self.negotiated.declared, self.negotiated.info)

    def renewed(self) -> None:
        """The server ended the session, and there is a new one: make it what the old one was."""
        self.tools.forget()
        self.line.listen()
        self.log.renew(self, self.negotiated.revision)
        self.subscriptions.renew()

    @property
    def repeats_arguments(self) -> bool:
        """Whether arguments of tools go into HTTP headers, where the tools say so."""
        return self.line.repeats_arguments and self.negotiated.revision.mirrors_body

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
    ) -> Result:
        """Send any request and wait for its result (`Client.request`)."""
        check_callable(on_progress=on_progress)
        params = self._prepared(method, params)
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
        """The result of the last round; the page of the method is told of the end."""
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
        """Ask, and ask again after each round, until there is a result."""
        while True:
            since = self.cache.generation()
            outcome = self._outcome(method, rounds.params, timeout, on_progress)
            prepare = rounds.next(outcome)
            if prepare is None:
                break
            prepare()
        if isinstance(outcome, ErrorResponse):
            try:
                raise self.explained(outcome)
            finally:
                del outcome  # an error that refers to itself, by its frames, would keep the client alive
        result = self.checked(method, rounds.params, outcome, timeout)
        if self.negotiated.revision.caches:
            self.cache.store(method, rounds.params, result, since)
        return result

    def _outcome(
        self, method: str, params: Json, timeout: float | None, on_progress: OnProgress | None
    ) -> Json | ErrorResponse:
        """Ask once: the result, or the server's error."""
        try:
            return self.alive().request(
                method, self.with_meta(params), timeout=timeout, on_progress=on_progress
            )
        except ErrorResponse as problem:
            return problem

    def submit(
        self,
        method: str,
        params: Json | None = None,
        *,
        timeout: float | None = None,
        on_progress: OnProgress | None = None,
    ) -> PendingCall:
        """Send any request and go on (`Client.submit`)."""
        check_callable(on_progress=on_progress)
        params = self._prepared(method, params)
        connection = self.alive()
        future = PendingCall(self, connection, Rounds(self, method, params, most=None, timeout=timeout))

        def send(params: Json) -> Call:
            return connection.call(
                method,
                self.with_meta(params),
                timeout=timeout,
                wants_progress=on_progress is not None,
                on_done=future.finish,
                on_report=lambda call: self.events.run(_run_reports, (call, on_progress)),
            )

        future.begin(send)
        return future

    def forget_cached(self, method: str | None = None) -> None:
        """Have what was kept of this server fetched anew: of one method, or all."""
        self.cache.forget(method)

    # -- before it is sent ---------------------------------------------------------------------------

    def _prepared(self, method: str, params: Json | None) -> Json:
        check_text(method=method)
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

    def with_meta(self, params: Json) -> Json | None:
        """Params with what the revision wants in their `_meta`."""
        agreed = self.negotiated
        if not agreed.revision.modern:
            return params or None
        meta = request_meta(agreed.revision.date, agreed.capabilities, agreed.info)
        if self.log.level is not None:
            meta[LOG_LEVEL] = self.log.level
        return {**params, "_meta": {**meta, **params.get("_meta", {})}}

    # -- after it was answered -----------------------------------------------------------------------

    def can_correct(self, method: str, problem: ErrorResponse) -> bool:
        """Whether a request was refused before it was begun, and may be sent again in another way."""
        agreed = self.negotiated
        return version_named(problem, agreed.revision, agreed.revisions) is not None or (
            self.repeats_arguments and schema_extension.is_about_headers(method, problem)
        )

    def correct(self, params: Json, problem: ErrorResponse, timeout: float | None) -> None:
        """Find out what the version, or the headers, of this request should be."""
        named = version_named(problem, self.negotiated.revision, self.negotiated.revisions)
        if named is None:
            self.forget_cached("tools/list")
            self.tools.fetch(self, params.get("name"), timeout=timeout)
        else:
            _log.info("the server goes on in %s: %.300r", named, problem)
            self.negotiated.go_on_in(named)

    def explained(self, problem: ErrorResponse) -> ErrorResponse:
        """An error of the server's, as the exception that says most."""
        if problem.code == MissingRequiredClientCapability.code:
            declare = self.answering.callbacks.arguments_for(problem.data)
            if declare:
                problem.advise(f"connect(..., {', '.join(declare)}) declares it")
        return url_elicitation.as_elicitation_needed(self.answering, problem)

    def checked(self, method: str, params: Json, result: Json, timeout: float | None = None) -> Result:
        """A result that keeps to its page. Raises InvalidResponse."""
        try:
            result_type(result)
        except ValueError as problem:
            raise InvalidResponse(f"{method}: {problem}") from None
        if is_input_required(result):
            check_question(self.negotiated.revision, method, result)
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
            ENDED[method](self, params, "asked" if is_input_required(outcome) else outcome)


def _run_reports(what: tuple[Call, OnProgress]) -> None:
    call, on_progress = what
    while call.reports:
        on_progress(*call.reports.popleft())
