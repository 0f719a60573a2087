"""Requests that an HTTP connection waits for (page: basic/transports/streamable-http).

A call, or a stream, holds a thread of the WSGI server as long as it lasts. Here they are counted, and refused
before the last thread is used up; here a thread waits until it is clear what its response will be:

    the answer comes first                JSON
    anything else does, or nothing for    a stream of events
    `silence` seconds
    the client goes                       nothing: nobody would read it

Revisions   2025-03-26 to 2026-07-28.
Errors      503 with Retry-After where there is no thread, or no stream, to be had.
Threads     the WSGI server's. `_lock` guards the two sets.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from mcp_ref.basic.index.error_responses import TooManyRequests
from mcp_ref.basic.index.messages import Json
from mcp_ref.basic.transports.streamable_http.refusals import Refused
from mcp_ref.basic.transports.streamable_http.responses import (
    EVENTS,
    LOOK,
    STATUS,
    EventResponse,
    HttpAnswer,
    departed,
    plain,
    whole,
)
from mcp_ref.basic.transports.streamable_http.streams import HttpStream
from mcp_ref.runtime.threads.deadlines import Clock, Deadline

__all__ = ["SILENCE", "Waiting"]

SOON = 0.05
"""Seconds that an answer gets to be the only event of its stream, before the stream is begun without it."""

SILENCE: dict[str, Callable[[float], float]] = {
    "auto": lambda keep_alive: keep_alive,
    "json": lambda keep_alive: float("inf"),
    "stream": lambda keep_alive: SOON,
}
"""By the setting `answers`: how long a request may be silent before it becomes a stream, which is then kept
alive by comments.
"""


class Waiting:
    """What is under way in one application."""

    def __init__(
        self,
        *,
        answers: str,
        keep_alive: float,
        retry_ms: int,
        max_streams: int,
        threads: int | None,
    ) -> None:
        self._answers = answers
        self._keep_alive = keep_alive
        self._silence = SILENCE[answers](keep_alive)
        self._retry_ms = retry_ms
        self._max_streams = max_streams
        self._threads = threads
        self.forked()

    def forked(self) -> None:
        """At the beginning, and again in a forked child: nothing is under way."""
        self._lock = threading.Lock()
        # Guarded by _lock.
        self._undecided: set[HttpStream] = set()
        self._open: set[EventResponse] = set()

    @property
    def is_single(self) -> bool:
        """Whether a request takes the only thread there is, so that nothing else can come in meanwhile."""
        return self._threads == 1

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self._undecided) + len(self._open)

    def admit(self, stream: HttpStream, *, is_long: bool) -> None:
        """One more. Raises Refused where it would take the last threads."""
        with self._lock:
            if is_long and len(self._open) >= self._max_streams:
                raise Refused(
                    503, f"{self._max_streams} streams are open, which is all", [("Retry-After", "5")]
                )
            if self._threads is not None and (is_long or self._threads > 1):
                # One stays for what ends the others: answers, cancellations. Streams leave one for calls.
                reserve = 2 if is_long and self._threads != 2 else 1
                if self.count + reserve >= self._threads:
                    raise Refused(
                        503, f"{self.count} of {self._threads} threads wait", [("Retry-After", "1")]
                    )
            self._undecided.add(stream)

    def leave(self, stream: HttpStream) -> None:
        """It is over, or never began."""
        with self._lock:
            self._undecided.discard(stream)

    def answered(
        self,
        stream: HttpStream,
        environ: Json,
        *,
        gone: Callable[[HttpStream], object],
        over: Callable[[HttpStream], object],
    ) -> HttpAnswer:
        """Wait until it is clear what response a stream will be. `gone`: the client left; `over`: the end."""
        end = time.monotonic() + self._silence
        departs: Callable[[], bool] | None = None
        while not stream.wait(min(LOOK, max(0.0, end - time.monotonic()))):
            if time.monotonic() >= end:
                break
            departs = departs or departed(environ)
            if departs():
                gone(stream)
                stream.discard()
                self._end(stream, over)
                return HttpAnswer(200, [("Content-Length", "0")], ())
        if stream.is_over:
            self._end(stream, over)
            return self.finished(stream)
        return self.streamed(stream, environ, gone=gone, over=over)

    def _end(self, stream: HttpStream, over: Callable[[HttpStream], object]) -> None:
        self.leave(stream)
        # What is kept of a stream is what was said on it. Besides, it and its context know each other.
        stream.context = stream.environ = None
        over(stream)

    def finished(self, stream: HttpStream, headers: Sequence[tuple[str, str]] = ()) -> HttpAnswer:
        """All there is to say was said: one piece."""
        problem = stream.problem
        if stream.is_abandoned and not stream.is_begun:
            return HttpAnswer(200, [*EVENTS, ("Content-Length", "0")], ())
        if not stream.answered and not stream.is_begun:
            # Not 404: that would say that the request was not begun, and may well be sent again.
            return plain(503, Refused(503, "the session, or the server, ended before the answer").body())
        status = STATUS.get(type(problem), 200) if stream.is_modern and problem is not None else 200
        eager = self._answers == "stream" or (self._answers == "auto" and stream.is_eager)
        if stream.is_plain and (not eager or status != 200):
            return plain(status, stream.whole(), *headers, *_retry_after(problem))
        body = whole(stream, self._retry_ms)
        return HttpAnswer(200, [*EVENTS, ("Content-Length", str(len(body))), *headers], (body,))

    def streamed(
        self,
        stream: HttpStream,
        environ: Json,
        *,
        gone: Callable[[HttpStream], object],
        over: Callable[[HttpStream], object],
        after: int | None = None,
    ) -> HttpAnswer:
        """A response that goes on for a while; with `after`, from there on."""

        def on_close(response: EventResponse) -> None:
            with self._lock:
                self._open.discard(response)
            if response.left:
                gone(stream)
            self._end(stream, over)

        response = EventResponse(
            stream,
            after=after,
            keep_alive=self._keep_alive,
            retry_ms=self._retry_ms,
            gone=departed(environ),
            on_close=on_close,
        )
        with self._lock:
            self._undecided.discard(stream)
            self._open.add(response)
        return HttpAnswer(200, EVENTS, response)

    def settle(self, seconds: float) -> bool:
        """Wait until nothing is under way; False if something still is."""
        deadline, pause = Deadline(seconds, Clock()), threading.Event()
        while self.count and deadline.left() > 0:
            pause.wait(0.01)
        return not self.count

    def fail(self, problem: Exception) -> None:
        """Nobody will say anything more."""
        with self._lock:
            streams = [*self._undecided, *(response.stream for response in self._open)]
        for stream in streams:
            stream.fail(problem)


def _retry_after(problem: Any) -> list[tuple[str, str]]:
    if not isinstance(problem, TooManyRequests):
        return []
    return [("Retry-After", str(max(1, round(problem.data["retryAfterMs"] / 1000))))]
