"""Request and response (page: basic/patterns/index), for both roles.

A `Connection` is one peer, seen from the other: it sends our requests and delivers the responses to
them, and it receives the peer's requests and sends our responses. Client and server are both an
`Endpoint` behind such a connection; they differ only in what they answer.

    stream -> receive -> route -> a request:       Responder.start   (basic/patterns/index/responder)
                                  a response:      Requester.deliver (basic/patterns/index/requester)
                                  a notification:  its page, or Endpoint.notice

Revisions   2024-11-05  either side sends requests to the other
            2025-03-26  + batches; the answers to a batch travel as a batch
            2025-06-18  - batches
            2026-07-28  only clients send requests (see Context.request and Responder.is_mute)

Threads     reader      on a pipe, one per connection: runs `receive` and nothing slow
            Over HTTP the thread that has read a message runs `route` or `receive_batch`.
            The thread that sends a message writes it; only for a slow peer a thread of its own does so
            (runtime/threads/outbox).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mcp_ref.basic.index.batching import Batch, check_batch, wants_answer
from mcp_ref.basic.index.error_responses import InvalidRequest, ParseError
from mcp_ref.basic.index.messages import (
    Json,
    begins,
    classify,
    decode,
    is_broken_response,
    is_id,
    lacks_method,
    readable_id,
)
from mcp_ref.basic.lifecycle import Session
from mcp_ref.basic.patterns import cancellation, progress
from mcp_ref.basic.patterns.index.context import WayOut
from mcp_ref.basic.patterns.index.requester import Requester
from mcp_ref.basic.patterns.index.responder import Endpoint, Responder
from mcp_ref.runtime.errors import InvalidResponse
from mcp_ref.runtime.json_text import weight
from mcp_ref.runtime.limits import Limit
from mcp_ref.runtime.logs import logger
from mcp_ref.runtime.threads.deadlines import Deadline
from mcp_ref.runtime.threads.workers import Workers

if TYPE_CHECKING:
    from mcp_ref.basic.utilities.ping import Heartbeat

__all__ = ["Connection"]

_log = logger("mcp_ref.connection")


TO_THE_LAST = 10.0
"""Seconds that `drain` waits for the last answers to be written to the peer."""


class Connection(Requester):
    """One peer: our requests to it (the base class), and its requests to us (`responder`)."""

    def __init__(
        self,
        endpoint: Endpoint,
        outbox: WayOut,
        *,
        workers: Workers | None,
        shared: bool = False,
        timeout: float = 30.0,
        max_timeout: float | None = None,
        limit: Limit | None = None,
        notices: Limit | None = None,
    ) -> None:
        """`shared`: the workers serve other connections too, and are not closed with this one. Without
        workers a request runs on the thread that brings it.

        `limit` bounds the peer's calls of tools and its requests for completion; `notices` bounds the
        notifications, such as progress, that we send while its requests run.
        """
        super().__init__(outbox, timeout=timeout, max_timeout=max_timeout)
        self.endpoint = endpoint
        self.session = Session()
        self.responder = Responder(
            endpoint, self.session, workers, shared=shared, limit=limit, notices=notices
        )
        self.heartbeat: Heartbeat | None = None
        """Pings the peer periodically, if `ping_every` is set (basic/utilities/ping)."""
        self.listener: Callable[[], object | None] = _itself
        """Returns what would carry a request of ours to the peer now: over HTTP, the reader of an event
        stream; None if there is nothing. Then no ping is sent: its time-out would prove nothing."""
        self.lose: Callable[[str], object] | None = None
        """Ends the connection when a ping has failed; None if Server.detach is enough for its transport."""

    # -- what the peer sends -------------------------------------------------------------

    def receive(self, line: bytes) -> None:
        """Handle one line from the peer. Runs on the reader; never raises, whatever the line holds."""
        try:
            message = decode(line)
            if type(message) is list:  # spec: basic/transports/stdio/batch-per-line
                self.receive_batch(message, self.outbox, weight(line))
            else:
                self.route(message, self.outbox, size=weight(line))
        except ParseError as problem:
            self.responder.refuse(None, problem, self.outbox)
        except ReferenceError:
            _log.debug("ignored what a client that was dropped received")
        except Exception:  # a fault of ours must not end the reader, and with it all other requests
            _log.exception("a message could not be handled: %.200r", line)

    def too_long(self, size: int, beginning: bytes) -> None:
        """Handle a line that was too long to read; `beginning` may tell what it was.

        A response fails the call that waits for it. A request, or a line that does not tell, is answered with
        an error.
        """
        said = f"a message of {size} bytes is longer than this side reads"
        kind, message_id = begins(beginning)
        call = self.waiting.pop(message_id, None) if kind == "response" and is_id(message_id) else None
        if call is not None:
            call.finish(InvalidResponse(f"{call.method}: {said}"))
        elif kind == "request":
            self.responder.refuse(message_id, InvalidRequest(said), self.outbox)

    def route(self, message: Any, outbox: WayOut, batch: Batch | None = None, size: int = 0) -> None:
        """Route one message: a request, a response or a notification. Runs on the thread that has read it.

        What a request is answered with goes out by `outbox`. `size` is the weight of the message in bytes,
        while it waits for a worker; zero where messages that wait are weighed elsewhere.
        """
        try:
            kind = classify(message)
        except InvalidRequest as problem:
            self._route_none(message, problem, outbox, batch)
            return
        if kind == "request":
            self.responder.start(self, message, outbox, batch, size)
        elif kind == "response":
            self.deliver(message)
        else:
            self._notice(message, size)

    def _route_none(self, message: Any, problem: InvalidRequest, outbox: WayOut, batch: Batch | None) -> None:
        """Handle a JSON value that is not a valid message.

        With a result or an error it was meant as a response, which is never answered. With only an id it is
        also taken for a response, if a call waits under that id. If none does, it is taken for a request that
        lacks its method, and is answered under its id, as JSON-RPC demands.
        """
        if is_broken_response(message):
            self.deliver_none(message["id"], problem)
        elif lacks_method(message) and is_id(message["id"]) and message["id"] in self.waiting:
            self.deliver_none(message["id"], problem)
            if batch is not None:
                batch.cancel(problem.message)
        else:
            self.responder.refuse(readable_id(message), problem, outbox, batch)

    def _notice(self, message: Json, size: int) -> None:
        """Handle a notification. Even a malformed one is never answered."""
        # spec: basic/index/notification-no-response
        method, params = message["method"], message.get("params", {})
        if type(params) is not dict:
            _log.info("ignored %.80r: its params are not an object", method)
        elif method == "notifications/cancelled":
            cancellation.on_cancelled(self, params)
        elif method == "notifications/progress":
            progress.on_progress(self, params)
        else:
            self.endpoint.notice(self, method, params, size)

    @property
    def knows_batches(self) -> bool:
        """Whether the agreed revision has batches."""
        return self.session.is_negotiated and self.session.revision.batches

    def receive_batch(self, messages: list[Any], outbox: WayOut, size: int = 0) -> None:
        """Route the messages of a batch, of `size` bytes; its answers go out by `outbox`, as one batch."""
        try:
            check_batch(messages, is_known=self.knows_batches)
        except InvalidRequest as problem:
            self.responder.refuse(None, problem, outbox)
            return
        batch = Batch(outbox, sum(1 for m in messages if wants_answer(m)))
        for message in messages:
            if type(message) is dict and message.get("method") == "initialize":
                # spec: basic/lifecycle/init-not-in-batch
                refusal = InvalidRequest("initialize in a batch")
                self.responder.refuse(readable_id(message), refusal, outbox, batch)
            else:
                self.route(message, outbox, batch, size // len(messages))

    # -- the end -----------------------------------------------------------------------------

    def forked(self) -> None:
        """Send and answer nothing more in a forked child: the connection is the parent's."""
        super().forked()
        self.responder.forked()

    def drain(self, seconds: float) -> None:
        """Wait until running requests have finished, for so many seconds, and their answers are written."""
        deadline = Deadline(seconds, self.clock)
        pause = threading.Event()
        while (self.responder.serving or self.responder.answering) and deadline.left() > 0:
            pause.wait(0.005)
        self.outbox.flush(TO_THE_LAST)

    def end(self, reason: str, *, wait: float = 0.5) -> None:
        """End the connection, in four steps. May be called twice."""
        if self.is_inherited:
            return
        # Step 1: all calls that wait for an answer fail with the reason.
        failure = self.fail(reason)
        # Step 2: no more pings are sent.
        if self.heartbeat is not None:
            self.heartbeat.stop()
        # Step 3: running requests are cancelled, and the workers get `wait` seconds to finish them.
        self.responder.end(reason, wait)
        # Step 4: what another thread has yet to write goes out, and then nothing more is sent.
        self.outbox.flush(wait)
        self.outbox.fail(failure)


def _itself() -> object:
    """The default `listener`: a pipe always carries what is written. Always returns the same object."""
    return Connection
