"""The line to one server: opened, read, opened again after a crash, closed."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from choices import for_connect
from peers import PATIENCE, eventually

from mcp_ref import ClientOptions, ConnectionClosed, InvalidResponse, Server, connect
from mcp_ref.api import pipe_transport as line

ROOT = Path(__file__).resolve().parents[2]
MORTAL = """
import os, sys
from mcp_ref import Server

server = Server("mortal")

@server.tool
def pid() -> int:
    return os.getpid()

@server.tool
def die(code: int) -> str:
    os._exit(code)

@server.tool
def hang_up() -> str:
    os.kill(os.getpid(), 9)

server.run()
"""


def mortal(**options: Any) -> Any:
    return connect([sys.executable, "-c", MORTAL], **for_connect(env={"PYTHONPATH": str(ROOT)}, **options))


def pid_of(client: Any) -> int:
    return int(client.call_tool("pid").structured["result"])


@pytest.mark.spec("basic/transports/stdio/restart-crashed-server")
@pytest.mark.parametrize(("tool", "arguments"), [("die", {"code": 3}), ("hang_up", {})])
def test_a_crashed_modern_server_is_started_again_by_the_next_request(tool: str, arguments: Any) -> None:
    """basic/transports/stdio, "Unexpected Termination": what was under way is lost, the next works."""
    with mortal(revision="2026-07-28") as client:
        first = pid_of(client)
        with pytest.raises(ConnectionClosed, match=r"exited with code 3|ended by signal 9"):
            client.call_tool(tool, arguments)
        second = pid_of(client)
        assert second != first
        assert client.submit("tools/call", {"name": "pid"}).result(10).structured == {"result": second}
        assert [t["name"] for t in client.list_tools()] == ["pid", "die", "hang_up"]


def test_a_server_that_crashes_all_the_time_is_given_up() -> None:
    with mortal(revision="2026-07-28") as client:
        for _ in range(line.RESTARTS):
            with pytest.raises(ConnectionClosed):
                client.call_tool("die", {"code": 1})
            pid_of(client)
        with pytest.raises(ConnectionClosed):
            client.call_tool("die", {"code": 1})
        with pytest.raises(ConnectionClosed, match="exited with code 1"):
            pid_of(client)


def test_a_server_that_ended_by_itself_is_not_started_again() -> None:
    """basic/transports/stdio, "Shutdown": a server may end the connection by exiting."""
    with mortal(revision="2026-07-28") as client:
        with pytest.raises(ConnectionClosed, match="exited with code 0"):
            client.call_tool("die", {"code": 0})
        with pytest.raises(ConnectionClosed, match="exited with code 0"):
            pid_of(client)


def test_a_legacy_session_ends_with_its_server() -> None:
    """A session cannot be continued in another process."""
    with mortal(revision="2025-11-25") as client:
        with pytest.raises(ConnectionClosed):
            client.call_tool("die", {"code": 3})
        with pytest.raises(ConnectionClosed, match="exited with code 3"):
            client.ping()


def test_many_threads_find_one_new_server() -> None:
    with mortal(revision="2026-07-28") as client:
        with pytest.raises(ConnectionClosed):
            client.call_tool("die", {"code": 3})
        found: list[int] = []
        threads = [threading.Thread(target=lambda: found.append(pid_of(client))) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
        assert len(found) == 8
        assert len(set(found)) == 1


def test_a_closed_line_stays_closed() -> None:
    client = mortal(revision="2026-07-28")
    with pytest.raises(ConnectionClosed):
        client.call_tool("die", {"code": 3})
    client.close()
    with pytest.raises(ConnectionClosed):
        pid_of(client)
    assert not [t for t in threading.enumerate() if t.name == "mcp_ref reader"]


def test_an_answer_beyond_the_limit_fails_its_call_and_the_connection_goes_on() -> None:
    server = Server("big")

    @server.tool
    def big(size: int) -> str:
        return "x" * size

    with connect(server, revision="2025-11-25", options=ClientOptions(max_message_bytes=5000)) as client:
        with pytest.raises(InvalidResponse, match=r"a message of \d+ bytes is longer than this side reads"):
            client.call_tool("big", {"size": 10_000})
        assert client.call_tool("big", {"size": 10}).text == "x" * 10


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_where_the_session_died_with_the_server_the_error_says_to_connect_again(revision: str) -> None:
    with mortal(revision=revision) as client:
        with pytest.raises(ConnectionClosed) as first:
            client.call_tool("die", {"code": 3})
        assert str(first.value).endswith("; connect again") is (revision == "2025-11-25")
        if revision == "2025-11-25":
            with pytest.raises(ConnectionClosed, match="exited with code 3; connect again"):
                pid_of(client)


class Broken:
    peer_drained_input = crashed = False

    def write(self, data: bytes) -> None: ...

    def read(self, receive: Any, too_long: Any, limit: int) -> None:
        raise OSError("the cable is out")

    def exit_reason(self) -> str:
        return "the link is broken"

    def __init__(self) -> None:
        self.ends: list[str] = []

    def close(self) -> None:
        self.ends.append("closed")

    def release(self) -> None:
        self.ends.append("released")


LIMITS = line.ConnectionLimits(5.0, None, 1000)


class Nobody:
    @property
    def endpoint(self) -> Any:
        return self

    def answer(self, context: Any) -> Any:
        raise InvalidResponse("nobody")

    def notice(self, connection: Any, method: str, params: Any, size: int) -> None: ...

    def lost(self, connection: Any) -> None: ...


def test_a_link_that_breaks_while_it_is_read_fails_what_waits() -> None:
    """An error of the operating system's is the end, told to whoever waits."""
    broken = line.Line(Nobody(), Broken, limits=LIMITS)
    with pytest.raises(ConnectionClosed, match="the link is broken"):
        broken.connection.request("ping")
    broken.close()


def test_a_closed_client_says_so_also_if_its_reader_is_first_to_see_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    client = connect(Server("any"))
    opened: Any = client.asker.line
    close = opened.link.close

    def close_and_wait() -> None:
        close()
        opened._reader.join(5)

    monkeypatch.setattr(opened.link, "close", close_and_wait)
    client.close()
    with pytest.raises(ConnectionClosed, match="this client was closed"):
        client.ping()


def test_no_process_is_left_after_a_restart_and_the_end() -> None:
    with mortal(revision="2026-07-28") as client:
        first = pid_of(client)
        with pytest.raises(ConnectionClosed):
            client.call_tool("die", {"code": 3})
        second = pid_of(client)
    for pid in (first, second):
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_a_link_that_is_made_while_the_line_is_closed_is_not_used_and_given_back() -> None:
    links: list[Broken] = []

    def dial() -> Broken:
        links.append(Broken())
        return links[-1]

    closed = line.Line(Nobody(), dial, limits=LIMITS)
    closed.close()
    with pytest.raises(ConnectionClosed, match="this client was closed"):
        closed._attach()
    assert len(links) == 2
    assert links[1].ends == ["closed", "released"]
    assert closed.link is links[0]


def test_a_server_that_does_not_answer_any_more_is_lost_with_the_reason() -> None:
    with connect(Server("any"), revision="2025-11-25") as client:
        client.asker.line.lose("it did not answer a ping")
        with pytest.raises(ConnectionClosed, match="it did not answer a ping"):
            client.ping()


def test_the_process_of_a_server_that_is_lost_is_ended() -> None:
    with mortal(revision="2025-11-25") as client:
        process = Path(f"/proc/{pid_of(client)}")
        assert process.exists()
        client.asker.line.lose("it did not answer a ping")
        assert eventually(lambda: not process.exists())


def test_in_a_forked_child_a_crashed_server_is_not_started_again() -> None:
    """That is for the parent to do. And no lock is waited for that another thread of the parent's had."""
    with mortal(revision="2026-07-28") as client:
        pid_of(client)
        with pytest.raises(ConnectionClosed):
            client.call_tool("die", {"code": 3})
        opened: Any = client.asker.line
        lost, opening, changing = opened.connection, opened._opening, opened._changing
        with changing:
            opened.forked()
            assert opened._opening is not opening
            assert not opened._changing.locked()
            assert opened.alive() is lost
            with pytest.raises(ConnectionClosed, match="exited with code 3"):
                pid_of(client)
            opened.close()


def test_the_reader_may_close_its_line() -> None:
    """It does not wait for itself."""
    go = threading.Event()
    said: list[str] = []

    class Patient(Broken):
        def read(self, receive: Any, too_long: Any, limit: int) -> None:
            go.wait(PATIENCE)
            try:
                opened.close()
                said.append("closed")
            except RuntimeError as problem:
                said.append(str(problem))

    opened = line.Line(Nobody(), Patient, limits=LIMITS)
    go.set()
    opened._reader.join(PATIENCE)
    assert said == ["closed"]
