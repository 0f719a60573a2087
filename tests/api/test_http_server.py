"""api/http_server: `server.run("http")`, in real processes that get real signals."""

import contextlib
import json
import os
import queue
import re
import signal
import socket
import subprocess
import sys
import textwrap
import threading

import pytest
from choices import for_http, for_server
from http_peers import Peer
from peers import ENV, MODERN, PATIENCE, eventually, nothing_left

from mcp_ref import Server
from mcp_ref.api import http_server

SERVER = """
import contextlib, logging, os, sys, time
from mcp_ref import Context, Server

def note(*words):
    print(*words, flush=True)

@contextlib.contextmanager
def life(server):
    note("entered")
    yield
    note("left")

server = Server("child", version="1", lifespan=life)

@server.tool
def pid() -> int:
    return os.getpid()

@server.tool
def nap(ctx: Context, seconds: float) -> str:
    note("begun")
    try:
        ctx.sleep(seconds)
        return "slept"
    finally:
        note("cancelled" if ctx.cancelled else "slept")

@server.tool
def stubborn(ctx: Context) -> str:
    note("begun")
    time.sleep(60)
    return "at last"

def ready(url):
    note("ready", url)

"""

PATIENT = """
from mcp_ref.basic.transports.streamable_http import endpoint
endpoint.LAST_SECONDS = 20.0  # for a tool that was told to stop, on a busy machine
"""


class Child:
    """A process that serves; it says on stdout what happens in it."""

    def __init__(self, run='server.run("http", port=0, on_ready=ready)\nnote("returned")', **env):
        text = SERVER + textwrap.dedent(run)
        self.process = subprocess.Popen(
            [sys.executable, "-c", text],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **ENV, **env},
        )
        self._notes = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self):
        for line in self.process.stdout:
            self._notes.put(line.strip())

    def note(self):
        return self._notes.get(timeout=PATIENCE)

    def ready(self):
        """Where it serves."""
        assert self.note() == "entered"
        word, url = self.note().split()
        assert word == "ready"
        found = re.fullmatch(r"http://127\.0\.0\.1:(\d+)/mcp", url)
        return int(found[1])

    def end(self):
        """Its exit status, what it said last, and its stderr."""
        code = self.process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        said = []
        with contextlib.suppress(queue.Empty):
            while True:
                said.append(self._notes.get_nowait())
        return code, said, self.process.stderr.read()

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.process.kill()
        self.process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        for stream in (self.process.stdout, self.process.stderr):
            stream.close()


def text(answer):
    return json.loads(answer.body)["result"]["content"][0]["text"]


# ------------------------------------------------------------------------------- real processes


@pytest.mark.spec("basic/lifecycle/shutdown-http")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=str)
def test_a_signal_ends_it_cleanly(number):
    """A connection that is idle, a GET stream, a subscription, a call: each ends as it should."""
    with Child() as child:
        port = child.ready()
        with Peer(port, "2025-11-25") as legacy, Peer(port) as modern:
            idle = legacy.connect()
            assert legacy.post(legacy.message("ping"), on=idle).json()["result"] == {}
            stream = legacy.get()
            assert stream.block() is not None
            listening = modern.ask("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
            assert listening.message()["method"] == "notifications/subscriptions/acknowledged"
            napping = modern.send(
                "POST", modern.message("tools/call", {"name": "nap", "arguments": {"seconds": 0.3}})
            )
            assert child.note() == "begun"
            os.kill(child.process.pid, number)
            assert text(napping.response()) == "slept"
            assert [m["result"]["resultType"] for m in listening.messages()] == ["complete"]
            assert stream.messages() == []
            assert idle.ended()
        assert child.end() == (0, ["slept", "left", "returned"], "")


def test_calls_get_the_seconds_of_grace_and_are_cancelled_then():
    with Child(PATIENT + 'server.run("http", port=0, grace=0.2, on_ready=ready)\nnote("returned")') as child:
        with Peer(child.ready()) as peer:
            napping = peer.send(
                "POST", peer.message("tools/call", {"name": "nap", "arguments": {"seconds": 60}})
            )
            assert child.note() == "begun"
            child.process.send_signal(signal.SIGTERM)
            assert napping.response().status == 503
        assert child.end() == (0, ["cancelled", "left", "returned"], "")


@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT], ids=str)
def test_a_second_signal_does_not_wait_for_calls(second):
    with Child(
        PATIENT + 'server.run("http", port=0, grace=60, health_path="/up", on_ready=ready)\nnote("returned")'
    ) as child:
        port = child.ready()
        with Peer(port) as peer, Peer(port, None) as watcher:
            napping = peer.send(
                "POST", peer.message("tools/call", {"name": "nap", "arguments": {"seconds": 60}})
            )
            connection = watcher.connect()
            assert watcher.http("GET", path="/up", on=connection).json() == {"status": "ok"}
            assert child.note() == "begun"
            child.process.send_signal(signal.SIGTERM)
            assert eventually(lambda: is_closing(watcher, connection))
            child.process.send_signal(second)
            assert napping.response().status == 503
        assert child.end() == (0, ["cancelled", "left", "returned"], "")


LEAVING = """
@contextlib.contextmanager
def slowly(server):
    note("entered")
    try:
        yield
    finally:
        note("leaving")
        while not os.path.exists(GO):
            time.sleep(0.01)
        note("left")

server = Server("child", lifespan=slowly)
fails = FAILS

def begin(url):
    ready(url)
    if fails:
        raise LookupError(url)

try:
    server.run("http", port=0, grace=0.1, on_ready=begin)
except LookupError:
    note("failed")
note("returned")
"""


@pytest.mark.parametrize("fails", [False, True])
def test_no_signal_cuts_the_lifespans_end_short(fails, tmp_path):
    """Whatever began the end: a signal, or a failure."""
    go = tmp_path / "go"
    with Child(LEAVING.replace("GO", repr(str(go))).replace("FAILS", str(fails))) as child:
        child.ready()
        if not fails:
            child.process.send_signal(signal.SIGTERM)
        assert child.note() == "leaving"
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGTERM):
            child.process.send_signal(number)
        go.touch()
        code, said, _ = child.end()
    assert (code, said) == (0, ["left", "failed", "returned"] if fails else ["left", "returned"])


def is_closing(watcher, connection):
    return watcher.http("GET", path="/up", on=connection).json() == {"status": "closing"}


def test_a_tool_that_never_returns_does_not_keep_the_process():
    with Child('server.run("http", port=0, grace=0.1, on_ready=ready)\nnote("returned")') as child:
        with Peer(child.ready()) as peer:
            stuck = peer.send("POST", peer.message("tools/call", {"name": "stubborn", "arguments": {}}))
            assert child.note() == "begun"
            child.process.send_signal(signal.SIGTERM)
            assert stuck.response().status == 503
        code, said, _ = child.end()
        assert (code, said) == (0, ["left", "returned"])


def test_a_port_in_use_is_said_clearly():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with Child(f'server.run("http", port={port})') as child:
            code, said, stderr = child.end()
    assert (code, said) == (1, [])
    last = stderr.strip().splitlines()[-1]
    assert last.startswith("OSError: ")
    assert f"cannot listen on 127.0.0.1, port {port}: the port is in use" in last


def test_a_lifespan_that_fails_says_so_before_anybody_connects():
    run = """
    @contextlib.contextmanager
    def broken(server):
        raise RuntimeError("no database")
        yield

    Server("broken", lifespan=broken).run("http", port=0, on_ready=ready)
    """
    with Child(run) as child:
        code, said, stderr = child.end()
    assert (code, said) == (1, [])
    assert "RuntimeError: no database" in stderr


def test_it_says_where_it_serves_in_the_log():
    run = 'logging.basicConfig(level="INFO", stream=sys.stdout)\nserver.run("http", port=0, on_ready=ready)'
    with Child(run) as child:
        assert child.note() == "entered"
        assert re.fullmatch(r"INFO:mcp_ref\.http:serving at http://127\.0\.0\.1:\d+/mcp", child.note())
        child.process.send_signal(signal.SIGTERM)
        assert child.end()[0] == 0


# ----------------------------------------------------------------------- in this process, as well


class Running:
    """`serve` on a thread of the test: there are no signals, so the test stops the HTTP server."""

    def __init__(self, server, monkeypatch, **options):
        made = []
        real = http_server.HttpServer

        def remember(*arguments, **more):
            made.append(real(*arguments, **more))
            return made[-1]

        monkeypatch.setattr(http_server, "HttpServer", remember)
        self.urls = queue.SimpleQueue()
        self.thread = threading.Thread(
            target=server.run,
            args=("http",),
            kwargs={"port": 0, "on_ready": self.urls.put, **for_http(options)},
        )
        self.thread.start()
        self.url = self.urls.get(timeout=PATIENCE)
        (self.http,) = made

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.http.stop()
        self.thread.join(PATIENCE)
        assert not self.thread.is_alive()


def demo(**options):
    server = Server("demo", version="1", **for_server(options))
    server.add_tool(lambda: "x", name="x")
    return server


@pytest.mark.spec("basic/transports/streamable-http/bind-localhost")
def test_by_default_it_listens_to_this_machine_alone(monkeypatch):
    with Running(demo(), monkeypatch) as running:
        assert running.http.host == "127.0.0.1"
        assert running.url == f"http://127.0.0.1:{running.http.port}/mcp"
        with Peer(running.http.port) as peer:
            assert "tools" in peer.request("tools/list")


@pytest.mark.skipif(not socket.has_ipv6, reason="there is no IPv6 here")
def test_the_url_of_an_address_with_colons_has_brackets(monkeypatch):
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("::1 cannot be had")
    with Running(demo(), monkeypatch, host="::1", path="tools") as running:
        assert running.url == f"http://[::1]:{running.http.port}/tools"


def test_the_settings_of_the_application_are_its_own(monkeypatch):
    with (
        Running(demo(), monkeypatch, answers="stream", max_connections=2, max_body_bytes=500) as running,
        Peer(running.http.port) as peer,
    ):
        with peer.ask("tools/list") as reply:
            assert reply.is_stream
            assert len(reply.messages()) == 1
        with peer.post(b" " * 501) as reply:
            assert reply.status == 413
        assert eventually(lambda: running.http.connections == 0)
        with peer.connect(), peer.connect(), peer.connect() as third:
            assert third.response().status == 503


def test_off_the_main_thread_the_signals_are_left_alone(monkeypatch):
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    with Running(demo(), monkeypatch):
        assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before


def test_on_the_main_thread_the_signals_are_given_back():
    """This is the main thread of the tests: the signal that ends the service is sent to this process."""
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    lives = []

    @contextlib.contextmanager
    def life(server):
        lives.append("entered")
        yield
        lives.append("left")

    demo(lifespan=life).run("http", port=0, on_ready=lambda url: os.kill(os.getpid(), signal.SIGTERM))
    assert lives == ["entered", "left"]
    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before


def test_what_fails_when_it_is_ready_ends_it_and_is_told():
    lives = []

    @contextlib.contextmanager
    def life(server):
        lives.append("entered")
        yield
        lives.append("left")

    def fail(url):
        raise LookupError(url)

    with nothing_left(), pytest.raises(LookupError, match="http://"):
        demo(lifespan=life).run("http", port=0, on_ready=fail)
    assert lives == ["entered", "left"]


@pytest.mark.parametrize(
    ("options", "wrong"),
    [
        ({"host": 7}, TypeError),
        ({"port": "80"}, TypeError),
        ({"port": -1}, ValueError),
        ({"max_connections": 0}, ValueError),
        ({"on_ready": "tell me"}, TypeError),
        ({"answers": "both"}, ValueError),
        ({"grace": -1}, ValueError),
        ({"nonsense": 1}, TypeError),
    ],
    ids=str,
)
def test_wrong_settings_are_named_before_anything_begins(options, wrong):
    with pytest.raises(wrong, match=next(iter(options))):
        demo().run("http", **{"port": 0, "on_ready": pytest.fail, **for_http(options)})


@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
def test_sigterm_under_load_loses_no_answer_that_was_begun(revision):
    """Clients that call without a pause are answered, or refused, or find nobody: nothing is cut off."""
    with Child() as child:
        port, outcomes = child.ready(), queue.SimpleQueue()
        peers = [Peer(port, revision) for _ in range(4)]
        threads = [threading.Thread(target=call_until_it_ends, args=(peer, outcomes)) for peer in peers]
        for thread in threads:
            thread.start()
        for _ in range(50):
            assert outcomes.get(timeout=PATIENCE) == child.process.pid
        child.process.send_signal(signal.SIGTERM)
        code, said, stderr = child.end()
        for thread, peer in zip(threads, peers, strict=True):
            thread.join(PATIENCE)
            peer.close()
    assert (code, said, stderr) == (0, ["left", "returned"], "")
    found = set()
    with contextlib.suppress(queue.Empty):
        while True:
            found.add(outcomes.get_nowait())
    assert found <= {child.process.pid, 404, 503, "nobody"}


def call_until_it_ends(peer, outcomes):
    """Calls without a pause, each on a new connection; what became of each."""
    outcome = None
    while outcome != "nobody":
        try:
            with peer.call("pid") as reply:
                told = reply.json()
                outcome = (
                    told["result"]["structuredContent"]["result"] if reply.status == 200 else reply.status
                )
        except ConnectionError:
            outcome = "nobody"
        except EOFError as problem:
            outcome = "nobody" if str(problem).endswith("b''") else str(problem)
        outcomes.put(outcome)
