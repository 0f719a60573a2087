"""Context: one request, as its handler sees it, in either era.

The two doors (basic/lifecycle, basic/versioning) turn an incoming request into the same object:
who asks, in which revision, with which capabilities; how to report progress and to log; whether the
answer is still wanted. Everything behind the doors is written once, against this.

Revisions   all.
Threads     made by the reader, then owned by the one worker that runs the request. `cancel` is called
            by the reader, or by whoever ends the connection, and is quick; everything else is the
            worker's. A tool may hand its context to threads of its own: `progress`, `log` and `notify`
            are safe there.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from mcp_ref.basic.index.messages import Json, RequestId
from mcp_ref.basic.versioning import TABLE, Revision, require_capability
from mcp_ref.runtime.errors import (
    ConnectionClosed,
    LocalError,
    RequestCancelled,
)
from mcp_ref.runtime.logs import logger
from mcp_ref.runtime.threads.deadlines import FOR_PEOPLE

if TYPE_CHECKING:
    from mcp_ref.basic.index.batching import Batch
    from mcp_ref.basic.lifecycle import Session
    from mcp_ref.basic.patterns.index.connection import Connection
    from mcp_ref.basic.patterns.mrtr.replay import Exchange
    from mcp_ref.basic.patterns.progress import OnProgress
    from mcp_ref.client.elicitation.requests import Answer
    from mcp_ref.client.roots import Root
    from mcp_ref.client.sampling.replies import Reply
    from mcp_ref.runtime.threads.outbox import WayOut
    from mcp_ref.server.utilities.logging import LoggingLevel

__all__ = ["Context"]

_log = logger("mcp_ref.context")


class Context:
    """What a handler knows of the request it answers."""

    __slots__ = (
        "_cancelled",
        "_enders",
        "_wakes",
        "asks",
        "batch",
        "client_capabilities",
        "client_info",
        "connection",
        "environ",
        "exchange",
        "hints",
        "identity",
        "key",
        "lifespan",
        "log_level",
        "meta",
        "method",
        "outbox",
        "params",
        "principal",
        "progress_sent",
        "progress_token",
        "reason",
        "request_id",
        "revision",
        "server",
        "session",
        "speaking",
    )

    def __init__(
        self,
        connection: Connection,
        request_id: RequestId,
        method: str,
        params: Json,
        outbox: WayOut | None = None,
    ) -> None:
        self.connection = connection
        self.request_id = request_id
        self.method = method
        self.params = params
        self.outbox = outbox or connection.outbox
        """Where all that belongs to this request goes."""
        self.key: Hashable = request_id
        """What tells it from all others that the connection serves."""
        self.environ: Json | None = None  # over HTTP: what WSGI says of the request
        meta = params.get("_meta")
        # Whatever keys it has, with whatever values.
        # spec: basic/index/meta-reserved-key-no-assumptions
        self.meta: Json = meta if type(meta) is dict else {}
        self.batch: Batch | None = None
        # What the door fills in.
        self.revision: Revision = TABLE[0]
        self.session: Session | None = None
        self.client_info: Any = {}
        self.client_capabilities: Any = {}
        self.log_level: LoggingLevel | None = None
        self.progress_token: RequestId | None = None
        # What the server fills in.
        self.server: Any = None
        self.lifespan: Any = None
        self.principal: str | None = None
        self.identity: Any = None
        self.asks = False  # whether the answer may be a question (basic/patterns/mrtr)
        self.hints: Json | None = None  # a resource's own, see server/utilities/caching
        self.exchange: Exchange | None = None  # what was asked, and answered, in this request
        self.progress_sent: float | None = None  # guarded by speaking
        # Held while something is said of this request, by whichever thread: so reports keep their
        # order, and none comes after the answer.
        self.speaking = threading.Lock()
        # Written by the reader, read by anyone.
        self._cancelled = False
        self.reason: str | None = None
        self._wakes: threading.Event | None = None
        self._enders: list[Callable[[str], object]] = []

    # -- cancellation (basic/patterns/cancellation) ---------------------------------

    @property
    def cancelled(self) -> bool:
        """Whether the answer is no longer wanted. A long tool looks at this now and then."""
        return self._cancelled

    def check_cancelled(self) -> None:
        """Raise RequestCancelled if the answer is no longer wanted."""
        if self._cancelled:
            raise RequestCancelled(self.reason or "the client cancelled the request")

    def sleep(self, seconds: float) -> None:
        """Like `time.sleep`, but ends at once with RequestCancelled when the request is cancelled."""
        if self._wakes is None:
            self._wakes = threading.Event()
        end = time.monotonic() + seconds
        while not self._cancelled and (left := end - time.monotonic()) > 0:
            self._wakes.wait(min(left, threading.TIMEOUT_MAX))
        self.check_cancelled()

    def cancel(self, reason: str | None) -> None:
        """The answer is no longer wanted: sets the flag, wakes `sleep`, ends what ends with the request.

        # spec: basic/patterns/cancellation/free-resources, basic/transports/stdio/stop-cancelled-work
        """
        self.reason = reason
        self._cancelled = True
        if self._wakes is not None:
            self._wakes.set()
        for end in list(self._enders):
            try:
                end(reason or "the request it belongs to was cancelled")
            except Exception:  # the reader goes on reading, whatever a tool does here
                _log.exception("%s: what should end with it failed", self.method)

    def ends_with(self, end: Callable[[str], object]) -> None:
        """Have `end(reason)` called when the request is cancelled, or now if it was.

        The reader calls it: it is to be quick. It may be called twice if both happen at once.
        """
        self._enders.append(end)
        if self._cancelled:
            end(self.reason or "the request it belongs to was cancelled")

    @contextmanager
    def ending(self, end: Callable[[str], object]) -> Iterator[None]:
        """Like `ends_with`, for as long as the block runs."""
        self.ends_with(end)
        try:
            yield
        finally:
            self._enders.remove(end)

    @property
    def is_over(self) -> bool:
        """Whether the request was answered or cancelled, so that nothing more belongs to it."""
        return self.connection.serving.get(self.key) is not self

    # -- what belongs to this request -------------------------------------------------

    def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Tell the client how far the work is (basic/patterns/progress)."""
        from mcp_ref.basic.patterns import progress as page

        page.report(self, progress, total, message)

    def log(self, level: LoggingLevel, data: Any, logger: str | None = None) -> None:
        """Send a log message to the client, if it wants that level (server/utilities/logging)."""
        from mcp_ref.server.utilities import logging as page

        page.log(self, level, data, logger)

    def notify(self, method: str, params: Json | None = None) -> None:
        """Send a notification that belongs to this request; nothing once it is answered or cancelled.

        # spec: basic/patterns/index/request-scoped-notifications, basic/transports/stdio/silent-after-cancel
        """
        with self.speaking:
            self.say(method, params)

    def say(self, method: str, params: Json | None) -> None:
        """Send one notification now. Holds `speaking`.

        # spec: basic/patterns/progress/in-progress-only, basic/patterns/progress/rate-limit
        """
        # spec: basic/transports/stdio/server-message-kinds
        if not self.is_over and self.connection.may_notify():
            try:
                self.connection.notify(method, params, outbox=self.outbox)
            except ConnectionClosed as problem:
                raise self._given_up(problem) from problem

    def close_stream(self) -> bool:
        """Let the client of a long request go, and come back later for what it missed; it is told when.

        Over HTTP, in a session of 2025-11-25 (basic/transports/streamable_http); False where there is no such
        thing: then nothing happens.
        """
        return self.outbox.let_go()

    @property
    def http(self) -> Any:
        """The HTTP request that brought this one, as werkzeug has it; None where there is none."""
        if self.environ is None:
            return None
        from werkzeug.wrappers import Request

        return Request(self.environ, populate_request=False)

    def request(
        self,
        method: str,
        params: Json | None = None,
        *,
        timeout: float | None = None,
        on_progress: OnProgress | None = None,
    ) -> Json:
        """Send the client a request and wait for its result. There is no such thing in 2026-07-28.

        # spec: basic/patterns/index/server-initiates-nothing, basic/index/requests-client-to-server-only
        """
        timeout = self._may_request(method, params, timeout)
        try:
            return self.connection.request(
                method, params, timeout=timeout, on_progress=on_progress, on_behalf_of=self
            )
        except ConnectionClosed as problem:
            raise self._given_up(problem) from problem

    def requests(self, several: Sequence[tuple[str, Json]], *, timeout: float | None = None) -> list[Json]:
        """Like `request`, for several that are sent at once; all have the time that the slowest may take."""
        if not several:
            return []
        limits = [self._may_request(method, params, timeout) for method, params in several]
        longest = max((seconds for seconds in limits if seconds is not None), default=None)
        try:
            return self.connection.request_all(several, timeout=longest, on_behalf_of=self)
        except ConnectionClosed as problem:
            raise self._given_up(problem) from problem

    def _given_up(self, problem: ConnectionClosed) -> RequestCancelled:
        """What a handler meets that speaks to a client which is gone: nobody waits for its answer either.

        Not ConnectionClosed, which would count as a fault of the handler, as does one of a connection that it
        made itself, and be logged with a traceback at each shutdown.
        """
        return RequestCancelled(f"{self.method}: {problem}")

    def _may_request(self, method: str, params: Json | None, timeout: float | None) -> float | None:
        """Raises LocalError if this may not be asked; else how long to wait for it."""
        from mcp_ref.basic.patterns.mrtr import basic_workflow as mrtr

        if self.revision.modern:
            raise LocalError(f"in {self.revision} a server sends no requests, so not {method} either")
        # spec: basic/lifecycle/no-requests-before-initialized
        if method != "ping" and self.session is not None and not self.session.is_ready:
            raise LocalError(f"{method}: the client did not send notifications/initialized yet; ask it later")
        mrtr.check_declared(self, method, mrtr.needs_of(method, params, self.revision))
        if not self.outbox.two_way:
            raise LocalError(
                f"{method}: a client cannot be asked here while its request runs: responses are JSON "
                "only (answers='json'), or the HTTP server has one thread"
            )
        self.check_cancelled()
        if timeout is None and method.startswith(("sampling/", "elicitation/")):
            return FOR_PEOPLE  # somebody is to read this, and to think
        return timeout

    # -- asking the client, in either era (basic/patterns/mrtr) -----------------------------

    def elicit(self, message: str, schema: Any = None, *, timeout: float | None = None) -> Answer:
        """Ask the person behind the client to fill in a form (client/elicitation).

        `schema` is a dataclass or a TypedDict with simple fields, or a schema by hand; without one the
        question is whether or not. The answer is true if it was accepted; `answer.action` says what became
        of it, `answer.data` what was filled in.
        `timeout` is for the legacy era, where a thread waits; in the modern one nothing does.
        """
        from mcp_ref.client.elicitation.requests import Elicit

        answer: Answer = self.ask_all(Elicit(message, schema), timeout=timeout)[0]
        return answer

    def confirm(self, message: str, *, timeout: float | None = None) -> bool:
        """Ask the person behind the client one question of yes or no: `if ctx.confirm("Really delete?"):`.

        False if they decline, or dismiss the question. It is an elicitation without fields.
        """
        return self.elicit(message, timeout=timeout).accepted

    def elicit_url(
        self, message: str, url: str, *, elicitation_id: str | None = None, timeout: float | None = None
    ) -> Answer:
        """Ask the person behind the client to open a URL: "accept" means that they will.

        `Server.elicitation_complete(elicitation_id)` tells a client of 2025-11-25 that they have.
        """
        from mcp_ref.client.elicitation.url_mode import ElicitUrl

        answer: Answer = self.ask_all(ElicitUrl(message, url, elicitation_id), timeout=timeout)[0]
        return answer

    def sample(
        self, messages: Any, *, max_tokens: int, timeout: float | None = None, **options: Any
    ) -> Reply:
        """Ask the client's model for a message (client/sampling: `Sample` has the options)."""
        from mcp_ref.client.sampling.creating_messages import Sample

        reply: Reply = self.ask_all(Sample(messages, max_tokens=max_tokens, **options), timeout=timeout)[0]
        return reply

    def list_roots(self) -> list[Root]:
        """The directories that the client lets the server work in (client/roots)."""
        from mcp_ref.client import roots

        return roots.listed(self)

    def is_within_roots(self, path: str | os.PathLike[str]) -> bool:
        """Whether a path is in one of these directories, links and `..` resolved."""
        from mcp_ref.client import roots

        return roots.within(path, self.list_roots())

    def ask_all(self, *asked: Any, timeout: float | None = None) -> list[Any]:
        """Several questions in one round: `ctx.ask_all(Elicit("Sure?"), Sample("A name", max_tokens=9))`."""
        from mcp_ref.basic.patterns.mrtr import basic_workflow as mrtr

        for each in asked:
            if not hasattr(each, "question"):
                raise TypeError(f"ask_all takes Elicit, ElicitUrl, Sample and ListRoots, not {each!r:.60}")
        return mrtr.ask(self, [each.question(self) for each in asked], timeout)

    def ask(self, asked: Any) -> Any:
        """One question: an `Elicit`, an `ElicitUrl`, a `Sample` or a `ListRoots`."""
        return self.ask_all(asked)[0]

    def once(self, name: str, run: Callable[[], Any]) -> Any:
        """What `run` returns, as JSON. It runs once, though the handler runs again with each answer."""
        from mcp_ref.basic.patterns.mrtr import basic_workflow as mrtr

        return mrtr.once(self, name, run)

    @property
    def input_responses(self) -> Json:
        """The answers to an input_required result of the handler's own making, by its keys.

        Raises InvalidParams for what is none.
        """
        from mcp_ref.basic.patterns.mrtr import basic_workflow as mrtr

        return mrtr.responses(self)

    @property
    def request_state(self) -> str | None:
        """The requestState of that result, as the handler made it."""
        return None if self.exchange is None else self.exchange.own

    def require_capability(self, **required: Json) -> None:
        """Go on only with a client that declared this: `ctx.require_capability(sampling={})`."""
        require_capability(self, required)
