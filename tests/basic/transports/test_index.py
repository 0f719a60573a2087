"""In memory (page: basic/transports/index, "Custom Transports")."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from peers import (
    ENV,
    LEGACY,
    MODERN,
    PATIENCE,
    REVISIONS,
    RawClient,
    nothing_left,
    python,
    recorded,
    source,
    tap,
)

from mcp_ref import ClientOptions, ConnectionClosed, Context, RequestTimeout, Server, ServerOptions, connect
from mcp_ref.basic.transports import index as memory


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    with nothing_left():
        yield


BODY = """
@server.tool
def add(a: int, b: int) -> int:
    return a + b
@server.tool
def count(ctx: Context) -> str:
    ctx.log("info", "counting")
    for n in range(3):
        ctx.progress(n, 3)
    return "counted"
@server.tool
def slow(ctx: Context) -> str:
    ctx.sleep(60)
"""


def make_server() -> Server:
    names: dict[str, Any] = {}
    exec(source(BODY).replace("server.run()", ""), names)
    server: Server = names["server"]
    return server


def session(client: Any) -> None:
    """A bit of everything, in an order that does not vary."""
    client.set_log_level("debug")
    client.list_tools()
    assert client.call_tool("add", {"a": 1, "b": 2}).text == "3"
    assert (
        client.call_tool("add", {"a": "x", "b": 2}).is_error
        if client.revision.reaches("2025-11-25")
        else True
    )
    client.call_tool("count", on_progress=lambda *report: None)
    with pytest.raises(RequestTimeout):
        client.call_tool("slow", timeout=0.05)
    client.ping()


class Recorder(memory.Link):
    """The transport itself, with all that crosses it in two lists."""

    sent: list[bytes]
    received: list[bytes]

    def __init__(self, server: Server) -> None:
        super().__init__(server)
        write = self.write
        type(self).sent, type(self).received = [], []

        def record(data: bytes) -> None:
            self.sent.append(data)
            write(data)

        record.close = write.close  # type: ignore[attr-defined]
        self.write = record  # type: ignore[assignment]

    def read(self, receive: Any, too_long: Any, limit: int) -> None:
        def record(line: bytes) -> None:
            self.received.append(line + b"\n")
            receive(line)

        super().read(record, too_long, limit)


@pytest.mark.spec(
    "basic/transports/index/custom-transports",
    "basic/transports/index/custom-preserve-lifecycle",
    "basic/transports/index/custom-preserve-patterns",
    "basic/transports/index/custom-reuse-stdio-framing",
    "basic/transports/stdio/framing-reused",
)
@pytest.mark.parametrize("revision", REVISIONS)
def test_the_same_messages_cross_it_as_cross_stdio(
    revision: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Handshake, metadata, calls, progress, cancellation, errors: line by line."""
    wire = tmp_path / "wire"
    with connect(
        tap(python(source(BODY)), wire), revision=revision, options=ClientOptions(env=ENV)
    ) as client:
        session(client)
    monkeypatch.setattr(memory, "Link", Recorder)
    with connect(make_server(), revision=revision) as client:
        session(client)
    marked = tmp_path / "memory"
    lines = b"".join(Recorder.sent).splitlines(True)
    marked.write_bytes(
        b"".join([b">" + line for line in lines] + [b"<" + line for line in Recorder.received])
    )
    assert recorded(marked) == recorded(wire)


@pytest.mark.parametrize("revision", REVISIONS)
def test_many_clients_of_one_server(revision: str) -> None:
    """Each has a connection of its own; the lifespan is entered once."""
    entered: list[str] = []

    @contextmanager
    def lifespan(server: Server) -> Iterator[str]:
        entered.append("in")
        yield "shared"
        entered.append("out")

    server = Server("tests", lifespan=lifespan)

    @server.tool
    def shared(ctx: Context) -> str:
        return str(ctx.lifespan)

    with connect(server, revision=revision) as one, connect(server, revision=revision) as two:
        assert one.call_tool("shared").text == two.call_tool("shared").text == "shared"
        one.close()
        assert two.call_tool("shared").text == "shared"
        assert entered == ["in"]
    assert entered == ["in", "out"]


def test_a_message_beyond_the_servers_limit_is_refused() -> None:
    with RawClient(Server("tests", options=ServerOptions(max_message_bytes=1000)), revision=MODERN) as client:
        client.write(b'{"jsonrpc":"2.0","id":1,"method":"' + b"x" * 100_000 + b'"}\n')
        error = client.receive()["error"]
        assert error["code"] == -32600
        assert "bytes" in error["message"]
        assert client.is_alive()


@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
def test_close_ends_both_halves(revision: str) -> None:
    """Every call fails, the tool is told, and no thread of the server's is left."""
    server = Server("tests")
    started, told = threading.Event(), threading.Event()

    @server.tool
    def slow(ctx: Context) -> None:
        started.set()
        try:
            ctx.sleep(60)
        finally:
            told.set()

    client = connect(server, revision=revision)
    call = client.submit("tools/call", {"name": "slow", "arguments": {}})
    assert started.wait(PATIENCE)
    client.close()
    assert isinstance(call.exception(PATIENCE), ConnectionClosed)
    assert told.wait(PATIENCE)
    assert "mcp_ref memory server" not in {thread.name for thread in threading.enumerate()}


def test_a_server_that_cannot_start_is_told_at_once(caplog: pytest.LogCaptureFixture) -> None:
    """Its lifespan fails: the client does not wait for its time-out, and the log says what happened."""

    @contextmanager
    def lifespan(server: Server) -> Iterator[None]:
        raise OSError("no database")
        yield

    with pytest.raises(ConnectionClosed, match="could not serve: no database"):
        connect(Server("tests", lifespan=lifespan), timeout=60)
    assert "no database" in caplog.text


@pytest.mark.parametrize("revision", LEGACY)
def test_large_messages_both_ways_at_once(revision: str) -> None:
    """Neither side waits for the other to read first."""
    server = Server("tests")

    @server.tool
    def echo(text: str) -> str:
        return text

    words = "x" * 3_000_000
    with connect(server, revision=revision) as client:
        calls = [
            client.submit("tools/call", {"name": "echo", "arguments": {"text": words}}) for _ in range(4)
        ]
        assert all(call.result(PATIENCE).text == words for call in calls)


def test_closing_after_the_server_went_is_no_trouble() -> None:
    """Its half is closed already: there is nothing left to shut down."""
    link = memory.Link(Server("gone"))
    link.close()
    link.close()
    assert link.exit_reason() == "the server in this process closed the connection"
    link.release()


def test_a_client_that_answers_no_ping_is_given_up() -> None:
    """What it says afterwards does not count, and its half is at its end."""
    server, lost = Server("tests"), threading.Event()

    @server.tool
    def slow(ctx: Context) -> None:
        lose = ctx.connection.lose
        assert lose is not None
        lose("no ping was answered")
        try:
            ctx.sleep(60)
        finally:
            lost.set()

    client = connect(server, revision="2025-11-25")
    call = client.submit("tools/call", {"name": "slow", "arguments": {}})
    assert isinstance(call.exception(PATIENCE), ConnectionClosed)
    assert lost.wait(PATIENCE)
    with pytest.raises(ConnectionClosed, match="the server in this process closed the connection"):
        client.ping()
    client.close()


def test_a_client_that_went_is_given_up_without_a_fault() -> None:
    """A ping's time may run out just as the connection is closed."""
    server = Server("tests")
    kept: list[Any] = []

    @server.tool
    def keep(ctx: Context) -> None:
        kept.append(ctx.connection)

    with connect(server) as client:
        client.call_tool("keep")
    (connection,) = kept
    connection.lose("no ping was answered")
    with pytest.raises(ConnectionClosed, match="the client closed the connection"):
        connection.notify("vendor/x")


class Alone(memory.Link):
    """A link as a forked child has it: without the thread that serves."""

    def _serve(self) -> None:
        pass


def test_a_forked_child_closes_its_copies_of_the_sockets_and_the_parents_go_on() -> None:
    """`forked` is what the child calls. To shut the sockets down would end the parent's connection."""
    link = Alone(Server("tests"))
    link._thread.join(PATIENCE)
    with link._ours.dup() as ours, link._theirs.dup() as theirs:  # these stand for the parent's
        link._closing.acquire()  # held for ever, by a thread that the child does not have
        link.forked()
        assert link._ours.fileno() == link._theirs.fileno() == -1
        link.write.forked()
        with pytest.raises(ConnectionClosed):
            link.write(b"{}\n")
        link.close()
        link.release()
        ours.sendall(b"to the server")
        assert theirs.recv(100) == b"to the server"
        theirs.sendall(b"to the client")
        assert ours.recv(100) == b"to the client"
