"""The attendant: one thread of a WSGI application that looks after the responses which are under way.

The threads of requests are busy running the application. So this thread finds out, a few times a second and
for all responses together, which clients have left, and has each response check whether it was silent for too
long. Each of its steps is short: it waits for no client, and for no lock that is held during a write.

    watch(response)         a response is under way; every request calls this, so it does very little
    leave(response)         the response is over
    flush_soon(response)    the response holds something back, which must be written in a moment

500 silent responses cost it about 1 ms a round, with one poll.

Threads     `mcp_ref attendant`, a daemon. It is started by the first response that is watched, and ends with
            `close`. It sleeps only after a whole round without a response: if it slept sooner, many quick
            responses would each have to wake it, at the cost of a thread switch, some 20 us.
"""

from __future__ import annotations

import threading
import time
from typing import Protocol

from mcp_ref.runtime.http_server.reply import HttpReply, has_left
from mcp_ref.runtime.logs import logger

__all__ = ["Attendant", "Attended"]

_log = logger("mcp_ref.http")

LOOK_SECONDS = 0.25
"""The longest time between two rounds, in seconds: a client that left is noticed within a second."""

FLUSH_SECONDS = 0.001
"""Seconds for which a response holds something back before it is written."""

SLEEP_SECONDS = 60.0
"""The longest sleep, in seconds, while there is nothing to look after."""


class Attended(Protocol):
    """A response that is under way."""

    @property
    def reply(self) -> HttpReply | None:
        """The reply, which knows whether its client is still there; None once the response is over."""

    def client_left(self) -> None:
        """Called once when its client has gone. Must not wait."""

    def attend(self, now: float) -> None:
        """Check whether anything is due, such as a sign of life. Must not wait."""

    def fail(self, problem: BaseException) -> None:
        """End the response with an error. Called by users of `Attendant.watched`, not by the attendant."""


class HoldsBack(Protocol):
    """A response that holds something back for a moment."""

    def flush_held(self) -> bool:
        """Write what was held back. Returns False to be called again a moment later. Must not wait."""


class Attendant:
    """The responses that are watched, and the thread that watches them."""

    def __init__(self, pause: float = LOOK_SECONDS) -> None:
        """`pause` is the time between two rounds, in seconds."""
        self._pause = pause
        self.forked()

    def forked(self) -> None:
        """Begin with nothing to watch: at the start, and again in a forked child."""
        self.watched: dict[Attended, None] = {}
        """The responses that are under way. No lock: each operation on the table is atomic."""
        self._holding: dict[HoldsBack, None] = {}  # as `watched`
        self._is_used = False  # whether anything was watched since the last round
        self._is_asleep = False
        self._wakes = threading.Lock()  # released to wake the thread
        self._is_closed = False
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None  # guarded by _lock

    def watch(self, response: Attended) -> None:
        """Look after a response from now on."""
        self.watched[response] = None
        self._is_used = True
        if self._thread is None:
            self._start()
        elif self._is_asleep:
            self._wake()

    def leave(self, response: Attended) -> None:
        """Stop looking after a response."""
        self.watched.pop(response, None)

    def flush_soon(self, response: HoldsBack) -> None:
        """Have a response write what it holds back, FLUSH_SECONDS from now."""
        self._holding[response] = None
        self._wake()

    def _start(self) -> None:
        with self._lock:
            if self._thread is None and not self._is_closed:
                self._wakes.acquire(blocking=False)
                thread = threading.Thread(target=self._run, name="mcp_ref attendant", daemon=True)
                try:
                    thread.start()
                except RuntimeError as problem:  # the next response tries again
                    _log.error("no thread looks after silent requests: %s", problem)
                else:
                    self._thread = thread

    def _wake(self) -> None:
        try:
            self._wakes.release()
        except RuntimeError:
            pass  # another thread woke it

    def _run(self) -> None:
        while not self._is_closed:
            self._is_used = False
            self._wakes.acquire(timeout=self._pause)
            try:
                self._flush_held()
                self._look()
            except Exception:  # a fault with one response must not be the end of all rounds
                _log.exception("the attendant failed")
            # In this order: `watch` sets `_is_used`, then reads `_is_asleep`. So a response that comes now is
            # either seen by the test below or wakes this thread.
            self._is_asleep = True
            if not (self._is_used or self.watched or self._is_closed):
                self._wakes.acquire(timeout=SLEEP_SECONDS)
            self._is_asleep = False

    def _flush_held(self) -> None:
        """Have responses write what they hold back, for one pause at most, lest the next round be late."""
        end = time.monotonic() + self._pause
        while self._holding and time.monotonic() < end:
            time.sleep(FLUSH_SECONDS)  # what is said in the meantime joins the same write
            for each in list(self._holding):
                if each.flush_held():
                    self._holding.pop(each, None)

    def _look(self) -> None:
        """Run one round: tell the responses whose clients have left, and attend to all others."""
        replies = {each: each.reply for each in list(self.watched)}
        asked = [(each, reply) for each, reply in replies.items() if reply is not None]
        left = has_left([reply for _, reply in asked])
        now = time.monotonic()
        for (each, _), is_gone in zip(asked, left, strict=True):
            if is_gone:
                self.leave(each)
                each.client_left()
            elif each in self.watched:
                each.attend(now)

    def close(self, seconds: float) -> None:
        """End the thread."""
        with self._lock:
            self._is_closed = True
            thread = self._thread
        self._wake()
        if thread is not None and thread is not threading.current_thread():
            thread.join(seconds)
