"""A connection without a transport: what its endpoint answers, and when, is the test's to say."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from peers import PATIENCE, Json

from mcp_ref import Context
from mcp_ref.basic.patterns.index.connection import Connection
from mcp_ref.basic.patterns.index.responder import DEFERRED
from mcp_ref.runtime.threads.outbox import Outbox
from mcp_ref.runtime.threads.workers import Workers


class Way(Outbox):
    """A way out that ends here."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.cancelled: list[str] = []
        super().__init__(self.lines.append)

    def cancel(self, reason: str) -> None:
        self.cancelled.append(reason)

    @property
    def said(self) -> list[Any]:
        return [json.loads(line) for line in self.lines]


class Desk:
    """A connection, and its endpoint: what it answers, and whether at once, is the test's to say."""

    context_type = Context

    def __init__(self, answer: Any = lambda context: {}, **options: Any) -> None:
        self.answer = answer
        self.noticed: list[str] = []
        self.way = Way()
        self.workers = options.pop("workers", None) or Workers(limit=2)
        self.connection = Connection(self, self.way, workers=self.workers, **options)

    def is_immediate(self, context: Context) -> bool:
        return True

    def notice(self, connection: Connection, method: str, params: Json, size: int) -> None:
        self.noticed.append(method)

    def ask(self, request_id: Any, method: str = "vendor/x", way: Way | None = None) -> None:
        message = {"jsonrpc": "2.0", "id": request_id, "method": method}
        self.connection.responder.start(self.connection, message, way or self.way)

    def serve_later(self, request_id: Any = 1) -> Context:
        """A request that was deferred: it is served until the test completes it."""
        self.answer = lambda context: DEFERRED
        self.ask(request_id, "ping")
        context = self.connection.responder.serving[request_id]
        assert self.way.lines == []
        return context


@contextmanager
def open_desk() -> Iterator[Desk]:
    desk = Desk()
    yield desk
    desk.connection.end("the test is over")
    desk.workers.close(PATIENCE)
