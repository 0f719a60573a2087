"""A request under way: what its sender waits for.

Threads     made and waited for by the caller; the reader adds reports and the outcome. Whoever takes
            the call out of the connection's table ends it, and nobody else: that decides every race.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from mcp_ref.basic.index.messages import Json, RequestId
from mcp_ref.runtime.errors import McpError
from mcp_ref.runtime.threads.deadlines import Deadline

if TYPE_CHECKING:
    from mcp_ref.basic.patterns import progress
    from mcp_ref.runtime.threads.outbox import WayOut

__all__ = ["Call"]


class Call:
    """A request of ours that waits for its answer."""

    __slots__ = (
        "_wakes",
        "deadline",
        "done",
        "id",
        "method",
        "on_done",
        "on_report",
        "outbox",
        "outcome",
        "reports",
    )

    def __init__(self, call_id: RequestId, method: str, deadline: Deadline, outbox: WayOut) -> None:
        self.id = call_id
        self.outbox = outbox
        self.method = method
        self.deadline = deadline
        self.done = False
        self.outcome: Json | McpError = {}
        # Progress that the caller has not seen yet. Old reports may be lost, the newest never is.
        self.reports: deque[progress.Report] | None = None
        # For callers that do not wait: run by the reader, so they only hand on.
        self.on_done: Callable[[Call], object] | None = None
        self.on_report: Callable[[Call], object] | None = None
        self._wakes = threading.Lock()
        self._wakes.acquire()

    def wake(self) -> None:
        """Let the caller look at what is new."""
        try:
            self._wakes.release()
        except RuntimeError:
            pass  # it was told already and has not looked yet

    def finish(self, outcome: Json | McpError) -> None:
        """The answer, or the reason why there is none. Only whoever took the call out of `waiting`."""
        self.outcome = outcome
        self.done = True
        self.wake()
        if self.on_done is not None:
            self.on_done(self)

    def wait(self, on_progress: progress.OnProgress | None) -> bool:
        """Until the outcome is there; False if the deadline passes first. Runs on the caller."""
        while True:
            if not self._wakes.acquire(timeout=self.deadline.pause()) and self.deadline.left() <= 0:
                return False
            while self.reports and on_progress is not None:
                on_progress(*self.reports.popleft())
            if self.done:
                return True

    def result(self) -> Json:
        """The result of a finished call; raises what came instead."""
        if isinstance(self.outcome, McpError):
            raise self.outcome
        return self.outcome
