"""One request, as the pages see it (page: basic/patterns/index, "Request and Response").

The two doors (basic/lifecycle, basic/versioning) turn an incoming request into the same object: who asks, in
which revision, with which capabilities; whether the answer is still wanted; a way to send the messages that
belong to it. The pages are written against this class, once for both eras. What handlers of the author's call
is built on top of it (api/context).

Revisions   all.
Threads     made by the thread that brings the request, then owned by the one that runs it. `cancel` is called
            by the reader, over HTTP by the attendant, or by the thread that ends the connection, and must be
            quick; everything else is for the thread of the request. A handler may hand its context to threads
            of its own: `notify` is safe there.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from mcp_ref.basic.index.messages import Json, RequestId
from mcp_ref.basic.utilities.tasks.data_types import RELATED_TASK, related_as
from mcp_ref.basic.versioning import TABLE, Revision
from mcp_ref.runtime.brief import brief
from mcp_ref.runtime.errors import ConnectionClosed, McpError, RequestCancelled, WriteRefused
from mcp_ref.runtime.logs import logger

if TYPE_CHECKING:
    from mcp_ref.basic.authorization.index.access_tokens import Access
    from mcp_ref.basic.index.batching import Batch
    from mcp_ref.basic.index.general_fields import Implementation
    from mcp_ref.basic.lifecycle import Session
    from mcp_ref.basic.patterns.index.connection import Connection
    from mcp_ref.basic.patterns.mrtr.basic_workflow import InputRequestType
    from mcp_ref.basic.patterns.mrtr.replay import Exchange
    from mcp_ref.basic.utilities.tasks.behavior_requirements import TaskRun
    from mcp_ref.runtime.seals import Seal
    from mcp_ref.server.utilities.logging import LoggingLevel

__all__ = ["Initiator", "RequestContext", "ServerRole", "WayOut", "ending", "given_up"]

_log = logger("mcp_ref.context")


class ServerRole(Protocol):
    """What a page needs of the server that answers a request."""

    @property
    def logging(self) -> bool:
        """Whether the server sends log messages."""

    @property
    def has_principals(self) -> bool:
        """Whether the author gave `Server(principal=)`, a function that tells clients apart."""

    @property
    def seal(self) -> Seal:
        """Signs the requestState of a result that asks, and verifies it in the retry."""

    @property
    def input_requests(self) -> Mapping[str, InputRequestType]:
        """The requests for input that a client may be sent: method -> row."""

    @property
    def elicitations(self) -> MutableMapping[str, Initiator]:
        """URL elicitations that are not completed yet: elicitation id -> what asked for the visit."""


class Initiator(NamedTuple):
    """What asked for a visit to a URL: the completion is notified to this client, as part of this task."""

    connection: Connection
    task_id: str | None
    """None if a request asked that is not a task."""


class WayOut(Protocol):
    """An outbox: where messages to a peer go. A pipe has one; over HTTP each response is one of its own.

    The defaults are right for an outbox in which no message waits, and that a client cannot resume.
    """

    closes: bool = False
    """Whether it ends with the answer to its request. Its end then tells the peer that no more will come."""

    @property
    def two_way(self) -> bool:
        """Whether the peer can be asked something through it, and answer, while its own request runs."""
        return True

    @property
    def is_busy(self) -> bool:
        """Whether a thread is writing just now."""
        return False

    @property
    def begins(self) -> Callable[[RequestContext], object] | None:
        """Called with a request that is about to run and whose messages go here. None: nothing to prepare."""
        return None

    def is_wanted(self) -> bool:
        """Whether the request is to run: not if its client has left, and that cancels it."""
        return True

    def send(self, line: bytes, wait: float | None = None) -> None:
        """Send one message; waits for room in the outbox at most `wait` seconds.

        Raises ConnectionClosed, Full.
        """

    def answer(self, line: bytes, problem: McpError | None = None, wait: float | None = None) -> None:
        """Send the answer to a request, in the same way; `problem` is the exception of an error."""

    def cancel(self, reason: str) -> None:
        """Take note that the request was cancelled: no answer will come."""
        return

    def release(self) -> bool:
        """Let the client disconnect, and come back for the rest. False if it cannot come back."""
        return False

    def flush(self, seconds: float) -> bool:
        """Wait until everything is written; False if it is not in time."""
        return True

    def fail(self, problem: BaseException) -> None:
        """Send nothing any more, for this reason."""
        return


ALLOWED = "mcp_ref.allowed"
"""The key, in a WSGI environ, of the access that the token of the request gives (basic/authorization)."""


@dataclass(slots=True, eq=False)
class Arrival:
    """How a request came, and where its answer goes."""

    outbox: WayOut
    """Where the answer, and the messages that belong to the request, go."""
    key: Hashable
    """Identifies the request among all that the connection serves: its id. Over HTTP in the modern era it is
    the outbox instead: there one Connection serves all clients, and their ids may be equal."""
    batch: Batch | None = None
    environ: Json | None = None
    """Over HTTP: the WSGI environ of the request."""

    @property
    def access(self) -> Access | None:
        """What the token of the request allows; None if the server is not protected (basic/authorization)."""
        return None if self.environ is None else self.environ.get(ALLOWED)


@dataclass(slots=True, eq=False)
class Reports:
    """The notifications about a request while it runs: progress and log messages."""

    log_level: LoggingLevel | None = None
    progress_token: RequestId | None = None
    progress_sent: float | None = None
    """The last progress that was sent; guarded by `speaking`."""
    speaking: threading.Lock = field(default_factory=threading.Lock)
    """Held while a thread sends a notification: they keep their order, and none follows the answer."""


@dataclass(slots=True, eq=False)
class Handling:
    """What the server stores about a request that it handles."""

    server: ServerRole | None = None
    """The server; None for a request that a client answers."""
    identity: Implementation | None = None
    """The serverInfo in the `_meta` of a result (2026-07-28); None if the server does not name itself."""
    asks: bool = False
    """Whether the result may be input_required (basic/patterns/mrtr)."""
    exchange: Exchange | None = None
    """The questions that were asked, and their answers."""
    hints: Json | None = None
    """The caching hints of the resource that was read, if it has its own (server/utilities/caching)."""
    run: TaskRun | None = None
    """Set if the request runs as a task, or may become one (basic/utilities/tasks)."""
    task: TaskRun | None = None
    """The same, from the moment when the request is a task."""


@dataclass(slots=True, eq=False)
class Cancellation:
    """Whether the answer is still wanted: written by the thread that cancels, read by any."""

    requested: bool = False
    reason: str | None = None
    wakes: threading.Event | None = None
    """Wakes `sleep`, which makes it."""
    enders: list[Callable[[str], object]] = field(default_factory=list)
    """Functions to call, with the reason, when the request is cancelled (`ends_with`)."""


class RequestContext:
    """One request that a peer sent, for the code that answers it."""

    __slots__ = (
        "arrival",
        "cancellation",
        "client_capabilities",
        "client_info",
        "connection",
        "handling",
        "lifespan",
        "meta",
        "method",
        "params",
        "principal",
        "reports",
        "request_id",
        "revision",
        "session",
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
        self.arrival = Arrival(outbox or connection.outbox, request_id)
        meta = params.get("_meta")
        # Not checked yet: any keys, with any values.
        self.meta: Json = meta if type(meta) is dict else {}
        # What the door fills in.
        self.revision: Revision = TABLE[0]
        self.session: Session | None = None
        self.client_info: Any = {}
        self.client_capabilities: Any = {}
        # What the server fills in.
        self.principal: str | None = None
        self.lifespan: Any = None
        self.handling = Handling()
        self.reports = Reports()
        self.cancellation = Cancellation()

    def __repr__(self) -> str:
        words = [f"{type(self).__name__} of {self.method[:100]!r}"]
        name = self.params.get("name", self.params.get("uri"))
        who = self.client_info.get("name") if isinstance(self.client_info, dict) else None
        words += [f"{brief(name)}"] if name is not None else []
        words += [f"by {brief(who)}"] if who is not None else []
        return f"<{' '.join(words)} in {self.revision}{', cancelled' if self.cancelled else ''}>"

    # -- cancellation (basic/patterns/cancellation) ---------------------------------

    @property
    def cancelled(self) -> bool:
        """Whether the answer is no longer wanted. A long tool looks at this now and then."""
        return self.cancellation.requested

    @property
    def reason(self) -> str | None:
        """Why the answer is no longer wanted, if the client said so."""
        return self.cancellation.reason

    def check_cancelled(self) -> None:
        """Raise RequestCancelled if the answer is no longer wanted."""
        if self.cancelled:
            raise RequestCancelled(self.reason or "the client cancelled the request")

    def sleep(self, seconds: float) -> None:
        """Like `time.sleep`, but raises RequestCancelled as soon as the request is cancelled."""
        end, state = time.monotonic() + seconds, self.cancellation
        if state.wakes is None:
            state.wakes = threading.Event()
        while not state.requested and (left := end - time.monotonic()) > 0:
            state.wakes.wait(min(left, threading.TIMEOUT_MAX))
        self.check_cancelled()

    def cancel(self, reason: str | None) -> None:
        """Take note that the answer is no longer wanted: set the flag, wake `sleep`, call the `enders`.

        # spec: basic/transports/stdio/stop-cancelled-work
        """
        state = self.cancellation
        state.reason, state.requested = reason, True
        if state.wakes is not None:
            state.wakes.set()
        for end in list(state.enders):
            try:
                end(reason or "the request it belongs to was cancelled")
            except Exception:  # an error in a tool's function must not end the reader
                _log.exception("%s: what should end with it failed", self.method)

    def ends_with(self, end: Callable[[str], object]) -> None:
        """Have `end(reason)` called when the request is cancelled, or now if it was cancelled before.

        Usually the reader calls it, so it must be quick. It may be called twice if the request is cancelled
        just while it is added here.
        """
        self.cancellation.enders.append(end)
        if self.cancelled:
            end(self.reason or "the request it belongs to was cancelled")

    @property
    def is_over(self) -> bool:
        """Whether the request, or its task, is over, so that nothing more may be sent about it."""
        task = self.handling.task
        return not self.connection.responder.serves(self) if task is None else task.is_over

    # -- what is sent while it runs -----------------------------------------------------

    def related(self, said: Json) -> Json:
        """A result, or the params of a notification, with the task that this request belongs to (2025-11-25).

        The task is named by the `_meta` of the request, or by tasks/result; without one nothing is added.
        """
        return related_as(self.method, self.params, said) if self.revision.tasks == "asked for" else said

    def notify(self, method: str, params: Json | None = None) -> None:
        """Send a notification that belongs to this request; nothing once it is answered or cancelled.

        # spec: basic/patterns/index/request-scoped-notifications, basic/transports/stdio/silent-after-cancel
        """
        with self.reports.speaking:
            self.say(method, params)

    def say(self, method: str, params: Json | None) -> None:
        """Send one notification, as `notify` does. With `speaking` held."""
        # spec: basic/transports/stdio/server-message-kinds
        if self.handling.task is not None:
            self.handling.task.notify(method, params or {})
            return
        if RELATED_TASK in self.meta:
            params = self.related(params or {})
        if self.connection.responder.serves(self) and self.connection.responder.may_notify():
            try:
                self.connection.notify(method, params, outbox=self.arrival.outbox)
            except WriteRefused:
                pass  # the request goes on: this peer can be sent its answer, and nothing before
            except ConnectionClosed as problem:
                raise given_up(self, problem) from problem


def given_up(context: RequestContext, problem: ConnectionClosed) -> RequestCancelled:
    """The exception for a handler that sends something to a client that has gone, and so wants no answer.

    Not ConnectionClosed: that would count as a fault of the handler, as it does when it comes from a
    connection that the handler made itself, and it would be logged with a traceback at each shutdown.
    """
    return RequestCancelled(f"{context.method}: {problem}")


@contextmanager
def ending(context: RequestContext, end: Callable[[str], object]) -> Iterator[None]:
    """Like `RequestContext.ends_with`, but only while the block runs."""
    context.ends_with(end)
    try:
        yield
    finally:
        context.cancellation.enders.remove(end)
