"""One request, as the pages see it (page: basic/patterns/index, "Request and Response").

The two doors (basic/lifecycle, basic/versioning) turn an incoming request into the same object: who asks, in
which revision, with which capabilities; whether the answer is still wanted; a way to send what belongs to it.
Everything behind the doors is written once, against this. What a handler calls stands on top of it
(api/context).

Revisions   all.
Threads     made by the thread that brings the request, then owned by the one that runs it. `cancel` is called
            by the reader, over HTTP by the attendant, or by the thread that ends the connection, and is
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
        """Whether it sends log messages."""

    @property
    def has_principals(self) -> bool:
        """Whether a function of the author's tells its clients apart."""

    @property
    def seal(self) -> Seal:
        """What signs the state of a request that its client is to send again."""

    @property
    def input_requests(self) -> Mapping[str, InputRequestType]:
        """What a client may be asked, by method."""

    @property
    def elicitations(self) -> MutableMapping[str, Initiator]:
        """The elicitations by URL that are not completed yet, by id, and what each was asked for."""


class Initiator(NamedTuple):
    """What an elicitation by URL was asked for: its completion is told to that client, of that task."""

    connection: Connection
    task_id: str | None
    """None for a request that is no task."""


class WayOut(Protocol):
    """Where messages to a peer go. A pipe has one; over HTTP each response is one of its own.

    What it does by default is what a way does on which no message waits, and which no client comes back to.
    """

    closes: bool = False
    """Whether it ends with the answer to its request: then its end says that all is said."""

    @property
    def two_way(self) -> bool:
        """Whether the peer can be asked something on it, and answer, while a request of its own runs."""
        return True

    @property
    def is_busy(self) -> bool:
        """Whether a thread is writing just now."""
        return False

    @property
    def begins(self) -> Callable[[RequestContext], object] | None:
        """Called when a request whose messages will go this way is about to run."""
        return None

    def send(self, line: bytes, wait: float | None = None) -> None:
        """Have one message written; waits for room for so long. Raises ConnectionClosed, Full."""

    def answer(self, line: bytes, problem: McpError | None = None, wait: float | None = None) -> None:
        """The same, for the answer to a request; an error has its exception beside it."""

    def cancel(self, reason: str) -> None:
        """No answer will come: the request was cancelled."""
        return

    def release(self) -> bool:
        """End the connection of a client that can come back for the rest; False if it cannot."""
        return False

    def flush(self, seconds: float) -> bool:
        """Wait until everything is written; False if it is not in time."""
        return True

    def fail(self, problem: BaseException) -> None:
        """Nothing can be sent any more."""
        return


ALLOWED = "mcp_ref.allowed"
"""The key under which an environ has what a protected server allows its caller."""


@dataclass(slots=True, eq=False)
class Arrival:
    """How a request came, and where its answer goes."""

    outbox: WayOut
    """Where all that belongs to the request goes."""
    key: Hashable
    """What tells it from all others that the connection serves."""
    batch: Batch | None = None
    environ: Json | None = None
    """Over HTTP: what WSGI says of the request."""

    @property
    def access(self) -> Access | None:
        """What its token allows, where the server is protected (basic/authorization)."""
        return None if self.environ is None else self.environ.get(ALLOWED)


@dataclass(slots=True, eq=False)
class Reports:
    """What is said of a request while it runs."""

    log_level: LoggingLevel | None = None
    progress_token: RequestId | None = None
    progress_sent: float | None = None
    """The last progress; guarded by `speaking`."""
    speaking: threading.Lock = field(default_factory=threading.Lock)
    """Held while anything is said, by any thread: reports keep their order, and none follows the answer."""


@dataclass(slots=True, eq=False)
class Handling:
    """What the server notes of a request that it handles."""

    server: ServerRole | None = None
    identity: Implementation | None = None
    """What its results say of the server."""
    asks: bool = False
    """Whether the answer may be a question (basic/patterns/mrtr)."""
    exchange: Exchange | None = None
    """What was asked, and answered."""
    hints: Json | None = None
    """A resource's own, see server/utilities/caching."""
    run: TaskRun | None = None
    """Where the request may still become a task."""
    task: TaskRun | None = None
    """Its task, from the moment when the request is one (basic/utilities/tasks)."""


@dataclass(slots=True, eq=False)
class Cancellation:
    """Whether the answer is still wanted: written by the reader, read by anyone."""

    requested: bool = False
    reason: str | None = None
    wakes: threading.Event | None = None
    """What `sleep` waits for."""
    enders: list[Callable[[str], object]] = field(default_factory=list)
    """What ends with the request."""


class RequestContext:
    """One request that a peer asked of this side."""

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
        # Whatever keys it has, with whatever values.
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
        """Like `time.sleep`, but ends at once with RequestCancelled when the request is cancelled."""
        end, state = time.monotonic() + seconds, self.cancellation
        if state.wakes is None:
            state.wakes = threading.Event()
        while not state.requested and (left := end - time.monotonic()) > 0:
            state.wakes.wait(min(left, threading.TIMEOUT_MAX))
        self.check_cancelled()

    def cancel(self, reason: str | None) -> None:
        """The answer is no longer wanted: sets the flag, wakes `sleep`, ends what ends with the request.

        # spec: basic/transports/stdio/stop-cancelled-work
        """
        state = self.cancellation
        state.reason, state.requested = reason, True
        if state.wakes is not None:
            state.wakes.set()
        for end in list(state.enders):
            try:
                end(reason or "the request it belongs to was cancelled")
            except Exception:  # the reader goes on reading, whatever a tool does here
                _log.exception("%s: what should end with it failed", self.method)

    def ends_with(self, end: Callable[[str], object]) -> None:
        """Have `end(reason)` called when the request is cancelled, or now if it was.

        The reader calls it: it is to be quick. It may be called twice if both happen at once.
        """
        self.cancellation.enders.append(end)
        if self.cancelled:
            end(self.reason or "the request it belongs to was cancelled")

    @property
    def is_over(self) -> bool:
        """Whether nothing more belongs to the request."""
        task = self.handling.task
        return not self.connection.responder.serves(self) if task is None else task.is_over

    # -- what is said while it runs -----------------------------------------------------

    def related(self, said: Json) -> Json:
        """What is said of this request, with the task of the peer's that it belongs to (2025-11-25)."""
        return related_as(self.method, self.params, said) if self.revision.tasks == "asked for" else said

    def notify(self, method: str, params: Json | None = None) -> None:
        """Send a notification that belongs to this request; nothing once it is answered or cancelled.

        # spec: basic/patterns/index/request-scoped-notifications, basic/transports/stdio/silent-after-cancel
        """
        with self.reports.speaking:
            self.say(method, params)

    def say(self, method: str, params: Json | None) -> None:
        """Send one notification now. With `speaking` held."""
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
                pass  # the request goes on: its answer is all that this peer can be sent
            except ConnectionClosed as problem:
                raise given_up(self, problem) from problem


def given_up(context: RequestContext, problem: ConnectionClosed) -> RequestCancelled:
    """Raised in a handler that speaks to a client which has gone, and so waits for no answer either.

    Not ConnectionClosed, which would count as a fault of the handler, as does one of a connection that it
    made itself, and be logged with a traceback at each shutdown.
    """
    return RequestCancelled(f"{context.method}: {problem}")


@contextmanager
def ending(context: RequestContext, end: Callable[[str], object]) -> Iterator[None]:
    """Like `RequestContext.ends_with`, for as long as the block runs."""
    context.ends_with(end)
    try:
        yield
    finally:
        context.cancellation.enders.remove(end)
