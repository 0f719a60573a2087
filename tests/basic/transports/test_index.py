"""In memory (page: basic/transports/index, "Custom Transports")."""

from __future__ import annotations

import gc
import json
import queue
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from peers import (
    ENV,
    LEGACY,
    MODERN,
    PATIENCE,
    REVISIONS,
    RawClient,
    eventually,
    nothing_left,
    python,
    recorded,
    source,
    tap,
)

from mcp_ref import (
    ClientOptions,
    ConnectionClosed,
    Context,
    LocalError,
    RequestTimeout,
    Server,
    ServerOptions,
    connect,
    serve_stream,
)
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


# ------------------------------------------------------------------- transports of one's own


class End:
    """One end of a connection in this process, which can break."""

    def __init__(self) -> None:
        self.arrived: queue.Queue[Any] = queue.Queue()
        self.other: End = self
        self.is_closed = False

    def send(self, message: bytes) -> None:
        assert b"\n" not in message
        if self.is_closed or self.other.is_closed:
            raise BrokenPipeError("gone")
        self.other.arrived.put(message)

    def receive(self) -> bytes | None:
        message = self.arrived.get(timeout=PATIENCE)
        if isinstance(message, Exception):
            raise message
        found: bytes | None = message
        return found

    def close(self) -> None:
        self.is_closed = True
        for end in (self, self.other):
            end.arrived.put(None)


class Nearby:
    """Opens connections to a server, each served by a thread."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.ends: list[End] = []

    def open_stream(self) -> End:
        ours, theirs = End(), End()
        ours.other, theirs.other = theirs, ours
        threading.Thread(target=serve_stream, args=(self.server, theirs), daemon=True).start()
        self.ends.append(ours)
        return ours


@pytest.mark.spec("basic/transports/index/custom-transports")
@pytest.mark.parametrize("date", REVISIONS)
def test_a_transport_of_ones_own_carries_everything(date: str) -> None:
    transport = Nearby(make_server())
    with connect(transport, revision=date) as client:
        assert client.call_tool("add", {"a": 1, "b": 2}).text == "3"
        reports: list[Any] = []
        client.call_tool("count", on_progress=lambda *told: reports.append(told))
        assert [report[0] for report in reports][-1] == 2
        with pytest.raises(RequestTimeout):
            client.call_tool("slow", timeout=0.2)
    assert [end.is_closed for end in transport.ends] == [True]


@pytest.mark.parametrize("date", REVISIONS)
def test_a_question_crosses_a_transport_of_ones_own(date: str) -> None:
    server = Server("asks")

    @server.tool
    def ask(ctx: Context) -> str:
        return ctx.sample("Hello?", max_tokens=5).text

    with connect(Nearby(server), revision=date, sampling=lambda asked: "hello") as client:
        assert client.call_tool("ask").text == "hello"


@pytest.mark.parametrize("problem", [None, ConnectionResetError("cut off"), ZeroDivisionError("a bug")])
def test_a_connection_that_breaks_is_opened_again_for_a_modern_server(problem: Exception | None) -> None:
    transport = Nearby(make_server())
    with connect(transport, revision=MODERN) as client:
        connection = client.asker.connection
        transport.ends[0].arrived.put(problem)
        assert eventually(lambda: connection.failure is not None)
        said = "the server closed the connection" if problem is None else f"broke: .*{problem}"
        assert re.search(said, str(connection.failure))
        assert client.call_tool("add", {"a": 1, "b": 2}).text == "3"
    assert len(transport.ends) == 2


def test_a_connection_that_breaks_is_the_end_of_a_legacy_session() -> None:
    transport = Nearby(make_server())
    with connect(transport, revision=LEGACY[-1]) as client:
        transport.ends[0].arrived.put(OSError("cut off"))
        with pytest.raises(ConnectionClosed):
            eventually(lambda: client.call_tool("add", {"a": 1, "b": 2}) is None)
    assert len(transport.ends) == 1


def test_the_server_sees_a_client_that_is_gone_as_one_that_left() -> None:
    server, begun, ended = make_server(), threading.Event(), threading.Event()

    @server.tool
    def hang(ctx: Context) -> str:
        begun.set()
        try:
            ctx.sleep(60)
        finally:
            ended.set()
        return ""

    transport = Nearby(server)
    with connect(transport) as client:
        client.submit("tools/call", {"name": "hang", "arguments": {}})
        assert begun.wait(PATIENCE)
        transport.ends[0].other.arrived.put(ConnectionResetError("cut off"))
        assert ended.wait(PATIENCE)


def test_a_server_that_loses_patience_closes_the_stream() -> None:
    """A client that answers no ping."""
    server = Server("pings", options=ServerOptions(ping_every=0.05, timeout=0.1))
    ours, theirs = End(), End()
    ours.other, theirs.other = theirs, ours
    thread = threading.Thread(target=serve_stream, args=(server, theirs), daemon=True)
    thread.start()
    opening = {"protocolVersion": LEGACY[-1], "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    ours.send(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": opening}).encode())
    ours.receive()
    ours.send(b'{"jsonrpc": "2.0", "method": "notifications/initialized"}')
    thread.join(PATIENCE)
    assert theirs.is_closed


def test_a_client_that_is_given_up_has_its_stream_closed_at_once() -> None:
    """Not only when the thread that waits in `receive` returns: it waits for just that."""
    reasons: list[str] = []
    connection: Any = SimpleNamespace(fail=reasons.append)
    stream = End()
    memory._lose(connection, stream, "it did not answer a ping")
    assert (reasons, stream.is_closed) == (["it did not answer a ping"], True)


def test_a_message_that_is_too_long_is_refused_and_an_empty_one_is_nothing() -> None:
    server = Server("small", options=ServerOptions(max_message_bytes=2000))
    ours, theirs = End(), End()
    ours.other, theirs.other = theirs, ours
    thread = threading.Thread(target=serve_stream, args=(server, theirs), daemon=True)
    thread.start()
    ours.send(b"")
    ours.send(json.dumps({"jsonrpc": "2.0", "id": 7, "method": "ping", "params": {"x": "y" * 3000}}).encode())
    answer = json.loads(ours.receive() or b"")
    assert (answer["id"], answer["error"]["code"]) == (7, -32600)
    ours.close()
    thread.join(PATIENCE)


def test_where_there_is_no_server_the_reason_is_told() -> None:
    class Nowhere:
        def open_stream(self) -> Any:
            raise ConnectionRefusedError("the door is shut")

    with pytest.raises(LocalError, match="Nowhere: no connection: the door is shut"):
        connect(Nowhere())


class Silent(End):
    """Takes what it is sent, and never says a word."""

    def send(self, message: bytes) -> None: ...


@pytest.mark.parametrize("date", [None, LEGACY[-1], MODERN])
def test_a_server_behind_a_transport_of_ones_own_that_does_not_answer_is_a_time_out_that_names_it(
    date: str | None,
) -> None:
    class Mute:
        def open_stream(self) -> Silent:
            return Silent()

    with pytest.raises(RequestTimeout, match=r"answer .*; the connection to the server, by Mute, is open"):
        connect(Mute(), revision=date, timeout=0.2, options=ClientOptions(probe_timeout=0.1))


def test_an_unclosed_client_is_named_by_its_transport() -> None:
    client = connect(Nearby(make_server()))
    with pytest.warns(ResourceWarning, match="unclosed client of a server behind Nearby"):
        del client
        gc.collect()
