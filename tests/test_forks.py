"""Processes that fork: in tools, in clients, before an application is served.

Each test runs in processes of its own. A child of a fork has a copy of the parent's pipes and sockets, and
none of its threads: it must neither disturb what the parent has under way, nor be stopped by what it lacks.
"""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator

import pytest
from http_peers import Peer
from peers import ENV, LEGACY, MODERN, PATIENCE, RawClient, source
from test_http_faults_load import together

OLD = LEGACY[-1]
ERAS = pytest.mark.parametrize("revision", [OLD, MODERN])
QUIET = {"PYTHONWARNINGS": "ignore"}
"""Python 3.12 and later warn of every fork beside threads."""

TOOLS = """
import logging, multiprocessing, os, signal, sys, threading, time
from mcp_ref import Context, Server, connect

logging.disable(logging.WARNING)

def ended(pid):
    # The status of a child that ends in time.
    end = time.monotonic() + 10
    while time.monotonic() < end:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return "never"

@server.tool
def returns() -> str:
    pid = os.fork()
    return f"the child ended with {ended(pid)}" if pid else "said by the child"

@server.tool
def exits(code: int) -> str:
    pid = os.fork()
    if not pid:
        sys.exit(code)
    return f"the child ended with {ended(pid)}"

@server.tool
def raises() -> str:
    pid = os.fork()
    if not pid:
        raise ValueError("said by the child")
    return f"the child ended with {ended(pid)}"

@server.tool
def talks(ctx: Context) -> str:
    pid = os.fork()
    if not pid:
        try:
            for number in range(100):
                ctx.progress(number + 1, 100, "said by the child")
                ctx.info("said by the child")
        finally:
            os._exit(0)
    status = ended(pid)
    ctx.progress(1, 1, "said by the parent")
    return f"the child ended with {status}"

@server.tool
def asks(ctx: Context) -> str:
    pid = os.fork()
    if not pid:
        try:
            ctx.elicit("said by the child")
        except Exception:
            os._exit(5)
        os._exit(6)
    return f"the child ended with {ended(pid)}"

@server.tool
def terminates() -> str:
    # What `multiprocessing` does to end a worker.
    read, write = os.pipe()
    def rest():
        os.write(write, b"x")
        time.sleep(60)
    process = multiprocessing.get_context("fork").Process(target=rest)
    process.start()
    os.read(read, 1)
    process.terminate()
    process.join(10)
    return f"the child ended with {process.exitcode}"

@server.tool
def terminates_at_once() -> str:
    # The child has hardly begun. What `multiprocessing.Pool` does if there is less to do than workers.
    for turn in range(10):
        process = multiprocessing.get_context("fork").Process(target=time.sleep, args=(5,))
        process.start()
        process.terminate()
        process.join()
        if process.exitcode != -15:
            break
    return f"the child ended with {process.exitcode}"

@server.tool
def serves() -> str:
    # A child with a server, a client, threads and timers of its own.
    def run():
        inner = Server("inner")
        inner.add_tool(lambda: "answered", name="inner")
        with connect(inner, timeout=5) as client:
            answered = client.call_tool("inner").text == "answered"
            future = client.submit("tools/call", {"name": "inner"}, timeout=5)
            os._exit(7 if answered and future.result(5).text == "answered" else 8)
    process = multiprocessing.get_context("fork").Process(target=run)
    process.start()
    process.join(10)
    if process.exitcode is None:
        process.kill()
    return f"the child ended with {process.exitcode}"

@server.tool
def add(a: int, b: int) -> int:
    return a + b
"""

CASES = [
    ("returns", {}, 0),
    ("exits", {"code": 3}, 3),
    ("exits", {"code": 0}, 0),
    ("talks", {}, 0),
    ("terminates", {}, -15),
    ("terminates_at_once", {}, -15),
    ("serves", {}, 7),
]
FORKS = pytest.mark.parametrize(("tool", "arguments", "status"), CASES)


def text(result: dict) -> str:
    return str(result["content"][0]["text"])


# ------------------------------------------------------------------------- a tool that forks, on stdio


@pytest.fixture
def on_stdio(revision: str) -> Iterator[RawClient]:
    with RawClient(source(TOOLS), revision=revision, env=QUIET) as client:
        yield client


@ERAS
@FORKS
def test_on_stdio_each_request_gets_one_answer_its_own(
    on_stdio: RawClient, tool: str, arguments: dict, status: int
) -> None:
    """The child says nothing on the wire, reads nothing from it, and ends."""
    client = on_stdio
    answer = client.answer(client.call(tool, arguments, {"progressToken": "p"}), 30)
    assert text(answer["result"]) == f"the child ended with {status}"
    for number in range(20):
        assert text(
            client.request("tools/call", {"name": "add", "arguments": {"a": number, "b": 1}})["result"]
        ) == str(number + 1)
    client.end_input()
    assert client.wait() == 0
    assert "said by the child" not in str([*client.aside, *client.stderr])
    assert [m for m in client.aside if "id" in m] == []


@ERAS
def test_what_a_child_raises_is_told_to_nobody_on_the_wire(on_stdio: RawClient) -> None:
    answer = on_stdio.request("tools/call", {"name": "raises"})
    assert text(answer["result"]) == "the child ended with 1"
    assert on_stdio.is_alive()
    assert on_stdio.aside == []


def test_a_child_asks_the_parents_client_nothing() -> None:
    with RawClient(source(TOOLS), revision=OLD, capabilities={"elicitation": {}}, env=QUIET) as client:
        answer = client.request("tools/call", {"name": "asks"})
        assert text(answer["result"]) == "the child ended with 5"
        assert client.aside == []


@ERAS
def test_tools_that_fork_at_once_get_one_answer_each(on_stdio: RawClient) -> None:
    """Whatever other threads hold meanwhile: locks, the pipe, a place in the queue."""
    client = on_stdio
    forking = [client.call("returns") for _ in range(30)]
    adding = [client.call("add", {"a": number, "b": 1}) for number in range(30)]
    for request_id in forking:
        assert text(client.answer(request_id, 30)["result"]) == "the child ended with 0"
    for number, request_id in enumerate(adding):
        assert text(client.answer(request_id, 30)["result"]) == str(number + 1)
    assert client.is_alive()
    assert client.aside == []


def test_the_end_of_output_is_seen_though_a_child_lives_on() -> None:
    """It has no copy of our pipes."""
    body = """
    import os, time
    @server.tool
    def leaves_one() -> int:
        pid = os.fork()
        if not pid:
            os.close(2)  # and says nothing to people
            time.sleep(60)
            os._exit(0)
        return pid
    """
    with RawClient(source(body), revision=MODERN, env=QUIET) as client:
        left = int(text(client.request("tools/call", {"name": "leaves_one"})["result"]))
        try:
            client.end_input()
            with pytest.raises(EOFError):
                client.receive()
        finally:
            os.kill(left, 9)


# ------------------------------------------------------------------------- the same, over HTTP

OVER_HTTP = """
server.run("http", port=0, on_ready=lambda url: print(url, flush=True))
"""


class Http:
    """`server.run("http")` in a child."""

    def __init__(self, body: str) -> None:
        opening = "from mcp_ref import Context, Server\nserver = Server('forks')\n"
        self.process = subprocess.Popen(
            [sys.executable, "-c", opening + textwrap.dedent(body) + OVER_HTTP],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, **ENV, **QUIET},
            text=True,
        )
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().strip()
        self.port = int(self.url.split(":")[2].split("/")[0])

    def end(self) -> str:
        """SIGTERM; what it said."""
        self.process.terminate()
        try:
            said, faults = self.process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.communicate()
            raise
        assert self.process.returncode == 0, faults
        return said + faults


@pytest.fixture
def over_http() -> Iterator[Http]:
    server = Http(TOOLS)
    try:
        yield server
    finally:
        if server.process.poll() is None:
            server.process.kill()
        server.process.communicate()


@ERAS
@FORKS
def test_over_http_each_request_gets_one_answer_its_own(
    over_http: Http, revision: str, tool: str, arguments: dict, status: int
) -> None:
    """Also on a connection that is kept, and where the connection's own thread runs the tool."""
    with Peer(over_http.port, revision) as peer, peer.connect() as kept:
        for number in range(5):
            with peer.call(tool, arguments, on=kept, meta={"progressToken": "p"}) as reply:
                messages = reply.messages() if reply.is_stream else [reply.json()]
            assert text(messages[-1]["result"]) == f"the child ended with {status}"
            assert "said by the child" not in str(messages)
            with peer.call("add", {"a": number, "b": 1}, on=kept) as reply:
                assert text(reply.answer()["result"]) == str(number + 1)
    assert "said by the child" not in over_http.end()


@ERAS
def test_over_http_tools_that_fork_at_once_get_one_answer_each(over_http: Http, revision: str) -> None:
    """Five clients at once, each on a connection that is kept: four fork, and the fifth only adds."""

    def call(number: int) -> tuple[int, list[str]]:
        answers = []
        with Peer(over_http.port, revision) as peer, peer.connect() as kept:
            for turn in range(6):
                tool, arguments = ("returns", {}) if number else ("add", {"a": turn, "b": 1})
                with peer.call(tool, arguments, on=kept) as reply:
                    answers.append(text(reply.answer()["result"]))
        return number, answers

    answered = dict(together(5, call))
    assert answered.pop(0) == ["1", "2", "3", "4", "5", "6"]
    assert answered == {number: ["the child ended with 0"] * 6 for number in range(1, 5)}
    over_http.end()


def test_a_connection_ends_though_a_child_lives_on() -> None:
    """The child has no copy of the sockets: neither of those that are open, nor of the one that listens."""
    server = Http(
        """
        import os, time
        @server.tool
        def leaves_one() -> int:
            pid = os.fork()
            if not pid:
                for end in (0, 1, 2):
                    os.close(end)
                time.sleep(60)
                os._exit(0)
            return pid
        """
    )
    with Peer(server.port, MODERN) as peer, peer.connect() as idle:
        left = int(text(peer.request("tools/call", {"name": "leaves_one"})))
        try:
            server.end()
            assert idle.rest() == b""
            with pytest.raises(OSError, match="refused"):
                peer.connect()
        finally:
            os.kill(left, 9)


# ------------------------------------------------------------------------- a client that forks

CLIENT = """
import gc, os, sys, traceback
from mcp_ref import ClientOptions, McpError, Server, connect

def make():
    server = Server("tests")
    server.add_tool(lambda: "still there", name="t")
    return server

def check(client):
    answered = client.submit("tools/call", {"name": "t"})  # under way during the fork
    changes = client.listen(tools=True)

    def leave():
        with client:
            try:
                client.call_tool("t", timeout=5)
            except McpError as problem:
                assert "forked" in str(problem), problem
            else:
                raise AssertionError("it was answered")
            for act in (lambda: client.submit("ping").result(5), lambda: answered.result(5)):
                try:
                    act()
                except McpError:
                    pass
            for act in (lambda: next(changes), lambda: changes.next(timeout=5)):
                try:
                    act()
                except McpError as problem:
                    assert "forked" in str(problem), problem
                else:
                    raise AssertionError("it waited for the parent's changes")
            changes.close()
        client.close()

    def forget():
        nonlocal client, answered, changes
        leave()
        del client, answered, changes
        gc.collect()

    for act in (leave, forget, lambda: sys.exit(0)):
        pid = os.fork()
        if not pid:
            status = 1
            try:
                act()
                status = 0
            except SystemExit:
                status = 0
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stderr.flush()
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        assert client.call_tool("t", timeout=10).text == "still there"
    assert answered.result(10).text == "still there"
    changes.close()
"""


def run(*parts: str) -> str:
    """What a Python program says that ends well."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", "\n".join(map(textwrap.dedent, parts))],
        env={**os.environ, **ENV},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr, done.stderr
    return done.stdout


SERVED = (
    "from mcp_ref import Server\\nserver = Server('s')\\nserver.add_tool(lambda: 'still there', name='t')\\n"
)


@ERAS
def test_a_forked_child_that_leaves_a_client_ends_no_server(revision: str) -> None:
    """Of what the child has of the pipes it gives back its copies."""
    run(
        CLIENT,
        f"""
        command = [sys.executable, "-c", "{SERVED}server.run()"]
        options = ClientOptions(env={{"PYTHONPATH": {ENV["PYTHONPATH"]!r}}})
        with connect(command, revision={revision!r}, options=options) as client:
            check(client)
        """,
    )


@ERAS
def test_a_forked_child_that_leaves_a_client_of_this_process_ends_nothing(revision: str) -> None:
    run(
        CLIENT,
        f"""
        with connect(make(), revision={revision!r}) as client:
            check(client)
        """,
    )


@ERAS
def test_a_forked_child_that_leaves_a_client_ends_no_session(revision: str) -> None:
    """No DELETE, and no connection of the parent's is shut, neither a kept one nor the stream of the GET."""
    with_tool = Http("server.add_tool(lambda: 'still there', name='t')")
    try:
        run(
            CLIENT,
            f"""
            with connect({with_tool.url!r}, revision={revision!r}) as client:
                session = client.session_id
                check(client)
                assert client.session_id == session
            """,
        )
    finally:
        with_tool.end()


# ------------------------------------------------------------------------- what the child does itself


def test_timers_workers_and_clients_work_in_a_forked_child() -> None:
    """Whatever the parent's threads held during the fork: 50 children, under load."""
    run(
        """
        import faulthandler, os, sys, threading
        from mcp_ref import Server, ServerOptions, connect
        from mcp_ref.runtime.threads import timers
        from mcp_ref.runtime.threads.workers import Workers
        faulthandler.dump_traceback_later(50, exit=True)

        server = Server("tests", options=ServerOptions(ttl_ms=0))
        server.add_tool(lambda: "done", name="t")
        over = threading.Event()
        workers = Workers(4)

        def load():
            with connect(server) as client:
                while not over.is_set():
                    client.submit("tools/call", {"name": "t"}, timeout=5).result(5)
                    server.resource_updated("a:b")
                    workers.submit(lambda nothing: timers.later(0.001, lambda: None), None)

        threads = [threading.Thread(target=load) for _ in range(3)]
        for thread in threads:
            thread.start()
        for _ in range(50):
            pid = os.fork()
            if not pid:
                timed, worked = threading.Event(), threading.Event()
                timers.later(0.001, timed.set)
                workers.submit(lambda nothing: worked.set(), None)
                with connect(server, timeout=10) as client:
                    right = client.submit("tools/call", {"name": "t"}, timeout=5).result(5).text == "done"
                os._exit(0 if timed.wait(10) and worked.wait(10) and right else 1)
            assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        over.set()
        for thread in threads:
            thread.join()
        """
    )


def test_a_lifespan_is_entered_anew_in_a_forked_child_and_the_parents_is_left_alone() -> None:
    said = run(
        """
        import contextlib, gc, os, sys
        from mcp_ref import Context, Server, connect

        @contextlib.contextmanager
        def lifespan(server):
            mine = os.getpid()
            try:
                yield mine
            finally:
                print("left by", "its own" if os.getpid() == mine else "another", flush=True)

        server = Server("tests", lifespan=lifespan)

        @server.tool
        def whose(ctx: Context) -> bool:
            return ctx.lifespan == os.getpid()

        with connect(server) as client:
            assert client.call_tool("whose").structured == {"result": True}
            pid = os.fork()
            if not pid:
                with connect(server) as inner:
                    assert inner.call_tool("whose").structured == {"result": True}
                client.close()
                del client, server
                gc.collect()
                os._exit(0)
            assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
            print("the child is gone", flush=True)
        """
    )
    assert said.splitlines() == ["left by its own", "the child is gone", "left by its own"]
