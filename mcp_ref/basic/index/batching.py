"""Batches (page: basic/index, "Batching", of 2025-03-26).

A batch is a JSON array of requests and notifications. The answers come back as an array too, once all are
there, in any order. A batch of notifications has no answer at all.

Revisions   2025-03-26 only: a side may send batches, and must understand them. We understand them; the only
            batches that we send are the answers to one.
Threads     `answer` and `cancel` are called by the thread that ends a request of the batch: its worker, or
            the thread that refuses or cancels it.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from mcp_ref.basic.index.error_responses import InvalidRequest
from mcp_ref.basic.index.messages import classify, is_broken_response

if TYPE_CHECKING:
    from mcp_ref.basic.patterns.index.context import WayOut
    from mcp_ref.runtime.errors import McpError

__all__ = ["Batch", "wants_answer"]


MAX_BATCH = 1000
"""Messages in a batch, at most: all their answers stay in memory until the last one is there."""


class Batch:
    """Collects the answers to a JSON-RPC batch, and sends them together once all are there.

    # spec: basic/index/batch-receive
    """

    def __init__(self, outbox: WayOut, size: int) -> None:
        self._outbox = outbox
        self._lock = threading.Lock()
        self._open = size  # requests without an outcome yet; guarded by _lock
        self._lines: list[bytes] = []  # guarded by _lock

    def answer(self, line: bytes, problem: McpError | None = None, wait: float | None = None) -> None:
        """Add the answer to one request."""
        self._end_one(line)

    def cancel(self, reason: str) -> None:
        """Take note that one request was cancelled, and has no answer."""
        self._end_one(None)

    def _end_one(self, line: bytes | None) -> None:
        with self._lock:
            if line is not None:
                self._lines.append(line.rstrip(b"\n"))
            self._open -= 1
            finished = self._open == 0
        if finished and self._lines:
            self._outbox.answer(b"[" + b",".join(self._lines) + b"]\n")
        elif finished:
            self._outbox.cancel("all requests of the batch were cancelled")


def check_batch(messages: list[Any], *, is_known: bool) -> None:
    """Check the size of a batch, and that the revision has batches (`is_known`). Raises InvalidRequest.

    # spec: basic/index/batch-removed
    """
    if not is_known:
        raise InvalidRequest("a batch; only 2025-03-26 has batches")
    if not 0 < len(messages) <= MAX_BATCH:
        raise InvalidRequest(f"a batch holds 1 to {MAX_BATCH} messages")


def wants_answer(message: Any) -> bool:
    """Whether a member of a batch gets an answer. Requests do, and so does a value that is not a message.

    Notifications and responses do not, nor does a malformed response.
    """
    if type(message) is dict and message.get("method") == "initialize":
        return True  # refused, even if it is malformed
    try:
        return classify(message) == "request"
    except InvalidRequest:
        return not is_broken_response(message)
