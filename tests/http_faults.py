"""Around the tests of bad input and faults over HTTP: an endpoint that is to stand all of it.

with standing() as at:                      an MCP server with the tools below, over a real socket
    with at.peer("2025-11-25") as peer:     a client by hand, whose session ends with the block
        ...                                 whatever is wrong
                                            then: both eras still answer, nothing runs, and no session, no
                                            connection, no thread and no open file is left

Every wait has the limit PATIENCE, and is for an event.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

from choices import for_server
from http_peers import Peer, RawHttp, Reply, endpoint
from peers import LEGACY, MODERN, PATIENCE, Json, eventually

from mcp_ref import Context, Server

OLD = "2025-11-25"
ERAS = (OLD, MODERN)
ALL = (*LEGACY[1:], MODERN)
"""Every revision that has this transport."""


class Seen:
    """What the tools of `faulty` have seen, and where they wait."""

    def __init__(self) -> None:
        self.begun = threading.Semaphore(0)  # one for each call of `hold` that has begun
        self.go = threading.Event()
        self.cancelled = threading.Semaphore(0)  # one for each that was cancelled
        self.finished = threading.Semaphore(0)  # one for each that was not

    def all_begun(self, count: int = 1) -> bool:
        """Whether so many calls of `hold` begin in time."""
        return all(self.begun.acquire(timeout=PATIENCE) for _ in range(count))


def faulty(**options: Any) -> tuple[Server, Seen]:
    """A server, and what its tools have seen."""
    server, seen = Server("faulty", version="1", **for_server(options)), Seen()

    @server.tool
    def add(a: int, b: int) -> int:
        return a + b

    @server.tool
    def echo(value: object) -> str:
        return repr(value)

    @server.tool
    def weather(region: Annotated[str, {"x-mcp-header": "Region"}]) -> str:
        return f"rain in {region}"

    @server.tool
    def hold(ctx: Context, says: int = 0) -> str:
        """Waits until the test lets it go on; `says` so many things before, and as many after."""
        for number in range(says):
            ctx.progress(number + 1)
        seen.begun.release()
        while not seen.go.wait(0.01) and not ctx.cancelled:
            pass
        if ctx.cancelled:
            seen.cancelled.release()
            return "nobody hears this"
        for number in range(says):
            ctx.progress(says + number + 1)
        seen.finished.release()
        return "held"

    @server.tool
    def steps(ctx: Context, to: int) -> str:
        for number in range(to):
            ctx.progress(number + 1, to)
        return "done"

    @server.tool
    def ask(ctx: Context, timeout: float) -> str:
        return ctx.elicit("Sure?", timeout=timeout).action

    return server, seen


def open_files() -> int:
    """How many this process has open, sockets among them."""
    return len(list(Path("/proc/self/fd").iterdir()))


class Standing:
    """An endpoint under attack."""

    def __init__(self, at: Any, server: Server, seen: Seen) -> None:
        self.port, self.app, self.http = at
        self.server, self.seen = server, seen

    @contextlib.contextmanager
    def peer(self, revision: str | None, **options: Any) -> Iterator[Peer]:
        """A client; its session, if it has one, is over afterwards."""
        with Peer(self.port, revision, **options) as peer:
            yield peer
            if peer.session is not None:
                assert peer.delete() in (204, 404)

    def raw(self) -> RawHttp:
        """A connection."""
        return RawHttp(self.port)

    def answers(self) -> None:
        """Both eras are served."""
        for revision in ERAS:
            with self.peer(revision, headers={"Authorization": "Bearer right"}) as peer:
                assert added(peer) == "42"

    def is_quiet(self) -> bool:
        """Whether nothing is under way: no call, no stream, no connection."""
        busy = self.app.places.taken + self.http.connections
        served = [session.connection for session in self.app.sessions.all()]
        if hasattr(self.app.modern, "connection"):
            served.append(self.app.modern.connection)
        return not busy and not any(
            connection.responder.serving or connection.waiting for connection in served
        )

    def what_is_under_way(self) -> Json:
        """For the message of a test that fails."""
        sessions = self.app.sessions.all()
        return {
            "waiting": self.app.places.taken,
            "connections": self.http.connections,
            "serving": [list(session.connection.responder.serving) for session in sessions],
            "asked": [list(session.connection.waiting) for session in sessions],
            "modern": [context.method for context in self.app.modern.connection.responder.serving.values()],
        }


def added(peer: Peer, **more: Any) -> str:
    """20 and 22, by the tool `add`."""
    with peer.call("add", {"a": 20, "b": 22}, **more) as reply:
        text: str = reply.answer()["result"]["content"][0]["text"]
        return text


def listen(peer: Peer) -> Reply:
    """A stream that lasts."""
    if peer.revision == MODERN:
        return peer.ask("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
    return peer.get()


@contextlib.contextmanager
def standing(
    *, server: Json | None = None, http: Json | None = None, sessions: int = 0, **options: Any
) -> Iterator[Standing]:
    """An endpoint that is as it was once the block is over; so many sessions may be left in it."""
    files = open_files()
    errors = Errors()
    made, seen = faulty(**(server or {}))
    with errors, endpoint(made, http=http, **options) as at:
        found = Standing(at, made, seen)
        try:
            yield found
            found.answers()
            assert eventually(found.is_quiet), found.what_is_under_way()
            assert len(found.app.sessions) <= sessions
        finally:
            seen.go.set()
    assert eventually(lambda: open_files() <= files), f"{open_files()} open files, {files} before"
    assert errors.lines == []


class Errors(logging.Handler):
    """What the package logs as an error: none of this is one."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))

    def __enter__(self) -> Errors:
        logging.getLogger("mcp_ref").addHandler(self)
        return self

    def __exit__(self, *exception: object) -> None:
        logging.getLogger("mcp_ref").removeHandler(self)
