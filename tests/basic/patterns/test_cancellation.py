"""Cancellation and time-outs (page: basic/patterns/cancellation)."""

from __future__ import annotations

import contextlib
import json
import logging
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from choices import for_server
from peers import (
    ENV,
    LEGACY,
    MODERN,
    PATIENCE,
    REVISIONS,
    ROOT,
    Json,
    Notes,
    RawClient,
    nothing_left,
    python,
    raw_server,
    recorded,
    source,
    tap,
)
from task_scripts import SILENCE, Scripted

from mcp_ref import (
    ClientOptions,
    ConnectionClosed,
    Context,
    Limit,
    RequestCancelled,
    RequestTimeout,
    Server,
    connect,
)
from mcp_ref.runtime.threads import deadlines
from mcp_ref.runtime.threads.outbox import Full


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    with nothing_left():
        yield


class Tools:
    """A server whose tool `slow` lasts until it is cancelled, and tells the test about it."""

    def __init__(self, **options: Any) -> None:
        self.started = threading.Event()
        self.stopped = threading.Event()
        self.context: Context | None = None
        self.server = Server("tests", version="1", **for_server(options))
        self.server.add_tool(self.slow)
        self.server.add_tool(self.quick)
        self.server.add_tool(self.ask)

    def slow(self, ctx: Context) -> str:
        self.context = ctx
        self.started.set()
        try:
            ctx.sleep(60)
        finally:
            self.stopped.set()
        return "slept"

    def quick(self) -> str:
        return "done"

    def ask(self, ctx: Context, timeout: float = PATIENCE) -> str:
        self.started.set()
        return str(ctx.request("vendor/question", timeout=timeout))


# ------------------------------------------------------------------- whoever gives up


@pytest.mark.spec(
    "basic/patterns/cancellation/stdio-cancelled-notification",
    "basic/patterns/cancellation/request-id-required",
    "basic/patterns/cancellation/request-id-for-non-task",
    "basic/patterns/cancellation/request-id-required-again",
    "basic/patterns/cancellation/client-issued-only",
    "basic/patterns/cancellation/timeout-sends-cancelled",
    "basic/patterns/cancellation/timeout-cancels-by-transport",
    "basic/patterns/cancellation/client-sends-cancelled",
    "basic/transports/stdio/cancel-by-notification",
)
@pytest.mark.parametrize("revision", REVISIONS)
def test_giving_up_is_said_on_the_wire(revision: str, tmp_path: Path) -> None:
    """By a time-out, waited for or not, and by `cancel`: one notification each, with the request's id."""
    wire = tmp_path / "wire"
    body = "@server.tool\ndef slow(ctx: Context) -> str:\n    ctx.sleep(60)"
    with connect(
        tap(python(source(body)), wire), revision=revision, options=ClientOptions(env=ENV)
    ) as client:
        with pytest.raises(RequestTimeout):
            client.call_tool("slow", timeout=0.1)
        call = client.submit("tools/call", {"name": "slow", "arguments": {}}, timeout=0.1)
        assert isinstance(call.exception(PATIENCE), RequestTimeout)
        call = client.submit("tools/call", {"name": "slow", "arguments": {}})
        assert call.cancel()
        assert call.cancelled()
        assert call.cancel()  # again: still so, and nothing more on the wire
        client.list_tools()
    sent, received = recorded(wire)
    calls = [m["id"] for m in sent if m.get("method") == "tools/call"]
    cancelled = [m["params"] for m in sent if m["method"] == "notifications/cancelled"]
    assert sorted(p["requestId"] for p in cancelled) == sorted(calls)
    assert len(calls) == 3
    assert all(type(p["reason"]) is str and p["reason"] for p in cancelled)
    assert not set(calls) & {m.get("id") for m in received}


@pytest.mark.spec("basic/utilities/tasks/related-task-everywhere")
@pytest.mark.parametrize("revision", LEGACY)
def test_the_cancellation_of_a_request_belongs_to_the_task_that_the_request_does(revision: str) -> None:
    """In 2025-11-25; nothing that is said of tasks/get does."""
    of_task = {"io.modelcontextprotocol/related-task": {"taskId": "t"}}
    requests: list[tuple[str, Json, bool]] = [
        ("vendor/slow", {"_meta": of_task}, True),
        ("vendor/slow", {}, False),
        ("tasks/result", {"taskId": "t"}, True),
        ("tasks/get", {"taskId": "t"}, False),
    ]
    server = Scripted(revision, {method: SILENCE for method, _, _ in requests})
    with connect(server, revision=revision) as client:
        connection = client.asker.connection
        for number, (method, params, is_related) in enumerate(requests, 1):
            assert connection.cancel(connection.call(method, params), "not wanted")
            assert server.is_asked("notifications/cancelled", number)
            said = server.asked[-1]["params"].get("_meta")
            assert said == (of_task if is_related and revision == LEGACY[-1] else None)


@pytest.mark.spec("basic/patterns/cancellation/in-progress-only")
@pytest.mark.parametrize("revision", REVISIONS)
def test_what_is_answered_is_not_cancelled(revision: str, tmp_path: Path) -> None:
    wire = tmp_path / "wire"
    with connect(tap(python(source("")), wire), revision=revision, options=ClientOptions(env=ENV)) as client:
        method = "server/discover" if revision == MODERN else "ping"
        call = client.submit(method)
        call.result(PATIENCE)
        assert call.cancel() is False
        assert not call.cancelled()
        client.ping()
    assert "notifications/cancelled" not in {m.get("method") for m in recorded(wire)[0]}


@pytest.mark.spec("basic/patterns/cancellation/init-not-cancelled")
@pytest.mark.parametrize("revision", LEGACY)
def test_initialize_is_not_cancelled_by_its_time_out(revision: str) -> None:
    notes = Notes()
    started = time.monotonic()
    with pytest.raises(RequestTimeout):
        connect(
            raw_server("go = receive\nwhile True: go()"),
            revision=revision,
            timeout=0.1,
            options=ClientOptions(on_stderr=notes),
        )
    assert time.monotonic() - started < PATIENCE
    assert {m["method"] for m in notes.all} <= {"initialize"}


@pytest.mark.parametrize("revision", LEGACY)
def test_a_server_that_gives_up_says_so_and_the_client_stops(revision: str) -> None:
    """The other direction: a time-out of `ctx.request` cancels the client's handler; no answer goes out."""
    tools = Tools()
    heard, seen = threading.Event(), []
    held = contextlib.ExitStack()

    @tools.server.tool
    def ask_briefly(ctx: Context) -> str:
        held.enter_context(ctx.connection.clock.hold())  # the time begins when the client is at work
        return tools.ask(ctx, 0.05)

    with connect(tools.server, revision=revision) as client:

        @client.on_request("vendor/question")
        def question(params: Json, ctx: Context) -> Json:
            held.close()
            try:
                ctx.sleep(60)
            finally:
                seen.append(ctx.reason)
                heard.set()
            return {}

        result = client.call_tool("ask_briefly")
        assert result.is_error
        assert "no answer within" in result.text
        assert heard.wait(PATIENCE)
        assert seen == ["no answer in time"]
        assert client.call_tool("quick").text == "done"


@pytest.mark.parametrize("revision", LEGACY)
def test_a_cancelled_call_gives_up_what_it_asked_for(revision: str) -> None:
    """The tool waits for the client; the client cancels the tool; the server cancels its question."""
    tools = Tools()
    with RawClient(tools.server, revision=revision) as client:
        call = client.call("ask")
        question = client.receive()
        assert question["method"] == "vendor/question"
        client.notify("notifications/cancelled", {"requestId": call, "reason": "changed my mind"})
        notice = client.receive()
        assert notice["method"] == "notifications/cancelled"
        assert notice["params"]["requestId"] == question["id"]
        client.send({"jsonrpc": "2.0", "id": question["id"], "result": {}})  # crossed: ignored
        last = client.call("quick")
        assert client.receive()["id"] == last


# ------------------------------------------------------------------------- the receiver


@pytest.mark.spec(
    "basic/patterns/cancellation/stop-processing",
    "basic/patterns/cancellation/log-reason",
    "basic/patterns/cancellation/free-resources",
    "basic/transports/stdio/stop-cancelled-work",
)
@pytest.mark.parametrize("revision", REVISIONS)
def test_the_work_stops_and_frees_what_it_held(revision: str, caplog: pytest.LogCaptureFixture) -> None:
    tools = Tools(limit=Limit(at_once=1))
    caplog.set_level(logging.INFO, "mcp_ref.cancellation")
    with RawClient(tools.server, revision=revision) as client:
        call = client.call("slow", id="slow one")
        assert tools.started.wait(PATIENCE)
        client.notify("notifications/cancelled", {"requestId": call, "reason": "no longer needed"})
        assert tools.stopped.wait(PATIENCE)
        assert tools.context is not None
        assert tools.context.cancelled
        assert tools.context.reason == "no longer needed"
        while "error" in client.request("tools/call", {"name": "quick", "arguments": {}}):
            pass  # 429, until the cancelled call is out of its tool
        assert "no longer needed" in caplog.text


@pytest.mark.spec(
    "basic/transports/stdio/silent-after-cancel",
    "basic/patterns/progress/stop-after-completion",
    "basic/patterns/cancellation/no-response-after-cancel",
)
@pytest.mark.parametrize("revision", REVISIONS)
def test_nothing_more_is_said_about_a_cancelled_request(revision: str) -> None:
    """No progress, no log message, no answer, though the tool goes on for a while."""
    server = Server("tests")
    started, over = threading.Event(), threading.Event()

    @server.tool
    def stubborn(ctx: Context) -> str:
        ctx.log("info", "before")
        ctx.progress(1)
        started.set()
        while not ctx.cancelled:
            time.sleep(0.001)
        ctx.log("info", "after")
        ctx.progress(2)
        ctx.notify("vendor/after", {})
        over.set()
        return "all the same"

    meta = {"progressToken": "t", "io.modelcontextprotocol/logLevel": "debug"}
    with RawClient(server, revision=revision) as client:
        call = client.call("stubborn", meta=meta)
        assert started.wait(PATIENCE)
        assert {client.receive()["method"], client.receive()["method"]} <= {
            "notifications/message",
            "notifications/progress",
        }
        client.notify("notifications/cancelled", {"requestId": call})
        assert over.wait(PATIENCE)
        assert client.is_alive()
        assert client.aside == []


@pytest.mark.spec(
    "basic/patterns/cancellation/ignore-invalid",
    "basic/patterns/cancellation/ignore-completed",
    "basic/patterns/cancellation/ignore-malformed",
    "basic/patterns/cancellation/client-issued-only",
    "basic/patterns/cancellation/may-ignore",
)
@pytest.mark.parametrize("revision", REVISIONS)
def test_a_cancellation_that_makes_no_sense_is_ignored(revision: str) -> None:
    """Unknown, finished, without an id, with an id of no type, with params of none. None is answered."""
    tools = Tools()
    with RawClient(tools.server, revision=revision) as client:
        running = client.call("slow", id=1000)
        assert tools.started.wait(PATIENCE)
        done = client.call("quick", id=1001)
        assert client.answer(done)["result"]
        for params in (
            {"requestId": 4711},
            {"requestId": done},
            {"requestId": "1000"},
            {"requestId": 1000.0},
            {"requestId": True},
            {"requestId": None},
            {"requestId": [1000]},
            {"requestId": {"id": 1000}},
            {},
            {"reason": "none"},
            [1000],
            "1000",
        ):
            client.notify("notifications/cancelled", params)  # type: ignore[arg-type]
        client.send({"jsonrpc": "2.0", "method": "notifications/cancelled"})
        assert client.is_alive()
        assert client.aside == []
        assert not tools.stopped.is_set()
        client.notify("notifications/cancelled", {"requestId": running, "reason": 5})
        assert tools.stopped.wait(PATIENCE)
        assert tools.context is not None
        assert tools.context.reason is None  # a reason is a string


@pytest.mark.spec("basic/patterns/cancellation/init-not-cancelled")
@pytest.mark.parametrize("revision", LEGACY)
def test_initialize_is_answered_though_it_was_cancelled(revision: str) -> None:
    with RawClient(Tools().server) as client:
        info = {"name": "raw", "version": "1"}
        params = {"protocolVersion": revision, "capabilities": {}, "clientInfo": info}
        client.send(
            {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params},
            {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}},
            {"jsonrpc": "2.0", "method": "notifications/initialized"},
            {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
        )
        assert client.answer(1)["result"]["protocolVersion"] == revision
        assert client.answer(2)["result"]["tools"]


@pytest.mark.spec("basic/patterns/cancellation/same-direction-only")
@pytest.mark.parametrize("revision", LEGACY)
def test_a_cancellation_concerns_requests_of_its_sender_only(revision: str) -> None:
    """Both sides have a request with the id 1 under way; each cancels its own."""
    tools = Tools()
    with RawClient(tools.server, revision=revision) as client:
        call = client.call("ask", id=1)
        question = client.receive()
        assert question["id"] == 1  # the server counts from 1 as well
        client.notify("notifications/cancelled", {"requestId": 2})
        client.send({"jsonrpc": "2.0", "id": 1, "result": {"said": "yes"}})
        assert "yes" in client.answer(call)["result"]["content"][0]["text"]

    script = f"""
    open_legacy({revision!r})
    call = receive("tools/call")
    send(id=call["id"], method="ping")
    receive("")
    send(method="notifications/cancelled", params={{"requestId": call["id"]}})
    send(id="still there?", method="ping")
    receive("")
    answer(call, text("answered"))
    go_on()
    """
    with connect(raw_server(script), revision=revision, options=ClientOptions(on_stderr=Notes())) as ours:
        assert ours.call_tool("x").text == "answered"


@pytest.mark.spec("basic/patterns/cancellation/server-cancels-nothing-else")
def test_a_modern_server_cannot_cancel_a_call_of_the_client() -> None:
    """2026-07-28: it may only end a listen stream so; the call goes on."""
    script = """
    open_modern()
    call = receive("vendor/x")
    send(method="notifications/cancelled", params={"requestId": call["id"], "reason": "no"})
    answer(call, {"resultType": "complete", "said": "yes"})
    go_on()
    """
    with connect(raw_server(script), options=ClientOptions(on_stderr=Notes())) as client:
        assert client.request("vendor/x")["said"] == "yes"


# ---------------------------------------------------------------------------- time-outs


class Hands:
    """The time that a test sets, for deadlines; threads wait in real time all the same."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        self.heard = threading.Semaphore(0)
        monkeypatch.setattr(deadlines, "time", self)

    def monotonic(self) -> float:
        return self.now

    def step(self, ctx: Context, number: int) -> None:
        """Work for 0.4 s, and report; until the caller has heard of it, or wants no more."""
        self.now += 0.4
        ctx.progress(number)
        while not self.heard.acquire(timeout=0.01):
            ctx.check_cancelled()

    def listen(self, *report: Any) -> None:
        self.heard.release()


@pytest.mark.spec("basic/patterns/cancellation/timeout-reset-on-progress")
@pytest.mark.parametrize("revision", ["2025-03-26", MODERN])
def test_progress_restarts_the_clock(revision: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A call that lasts longer than its time-out, and is never silent for as long as that."""
    server, hands = Server("tests"), Hands(monkeypatch)

    @server.tool
    def work(ctx: Context) -> str:
        for n in range(8):
            hands.step(ctx, n)
        return "done"

    with connect(server, revision=revision) as client:
        assert client.call_tool("work", timeout=1.0, on_progress=hands.listen).text == "done"


@pytest.mark.spec("basic/patterns/cancellation/timeout-hard-cap")
@pytest.mark.parametrize("waits", [True, False])
@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
def test_no_progress_moves_the_cap(revision: str, waits: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """`max_timeout` ends a call that reports again and again, the last time just now."""
    server, hands = Server("tests"), Hands(monkeypatch)

    @server.tool
    def work(ctx: Context) -> str:
        for n in range(6):
            hands.step(ctx, n)
        ctx.sleep(60)
        return "never"

    with connect(server, revision=revision, options=ClientOptions(max_timeout=2.2)) as client:
        said = r"^tools/call: no answer within 2\.2 s in all \(max_timeout\), in spite of progress$"
        limit = 1.0
        with pytest.raises(RequestTimeout, match=said):
            if waits:
                client.call_tool("work", timeout=limit, on_progress=hands.listen)
            else:
                call: Json = {"name": "work", "arguments": {}}
                client.submit("tools/call", call, timeout=limit, on_progress=hands.listen).result(PATIENCE)
        client.ping(timeout=PATIENCE)


@pytest.mark.spec("basic/patterns/cancellation/timeout-hard-cap")
def test_reports_that_come_faster_than_they_are_taken_do_not_keep_a_call_alive() -> None:
    """There is always one more for the callback: the time is looked at after each."""
    server, enough = Server("tests"), threading.Event()

    @server.tool
    def work(ctx: Context) -> str:
        n = 0
        while not (ctx.cancelled or enough.is_set()):
            n += 1
            ctx.progress(n)
        return "never"

    def slow(*report: object) -> None:
        time.sleep(0.01)

    def is_capped(seconds: float) -> bool:
        """False if no report came in time: then it is tried with more time."""
        with connect(server, revision=MODERN, options=ClientOptions(max_timeout=1.5 * seconds)) as client:
            giving_up = threading.Timer(PATIENCE + 2 * seconds, enough.set)
            giving_up.start()
            try:
                with pytest.raises(RequestTimeout) as caught:
                    client.call_tool("work", timeout=seconds, on_progress=slow)
            finally:
                giving_up.cancel()
                giving_up.join()
        assert not enough.is_set()
        return "in spite of progress" in str(caught.value)

    assert any(map(is_capped, (0.3, 3.0, 9.0)))


def test_a_future_that_got_no_answer_says_how_long_it_had() -> None:
    tools = Tools()
    with connect(tools.server, revision=MODERN) as client:
        pending = client.submit("tools/call", {"name": "slow", "arguments": {}}, timeout=0.05)
        with pytest.raises(RequestTimeout, match=r"^tools/call: no answer within 0\.05 s$"):
            pending.result(PATIENCE)


@pytest.mark.parametrize("revision", REVISIONS)
def test_a_cancelled_call_raises_that_it_was_cancelled(revision: str) -> None:
    """Also to a thread that waits for it at the time."""
    tools = Tools()
    with connect(tools.server, revision=revision) as client:
        call = client.submit("tools/call", {"name": "slow", "arguments": {}})
        assert tools.started.wait(PATIENCE)
        ended: list[BaseException | None] = []

        def wait() -> None:
            try:
                call.result(PATIENCE)
            except BaseException as problem:
                ended.append(problem)

        waiter = threading.Thread(target=wait)
        waiter.start()
        assert call.cancel()
        waiter.join(PATIENCE)
        assert [type(e).__name__ for e in ended] == ["CancelledError"]
        assert tools.stopped.wait(PATIENCE)
    assert issubclass(RequestCancelled, Exception)


# ------------------------------------------------------------------------------- Ctrl-C

_INTERRUPTED = """
import os, signal, sys, threading, time
from mcp_ref import connect

def is_waiting(code):
    return code.co_name == "wait" and "mcp_ref" in code.co_filename

def interrupt(main=threading.get_ident()):
    while not is_waiting(sys._current_frames()[main].f_code):  # for the answer: the request is out
        time.sleep(0.005)
    os.kill(os.getpid(), signal.SIGINT)

client = connect({command!r}, revision={revision!r}, timeout=60)
with client:
    threading.Thread(target=interrupt).start()
    try:
        {call}
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    print(client.request("vendor/after")["said"], flush=True)
"""


@pytest.mark.parametrize(
    "call",
    [
        "client.request('vendor/x')",
        "client.call_tool('vendor/x')",
        "client.request('vendor/x', on_progress=print)",
        "client.list_tools()",
    ],
)
@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
def test_ctrl_c_in_a_blocking_call_cancels_it_on_the_wire(revision: str, call: str) -> None:
    """A process with our client gets SIGINT; the server hears of it, and the connection lives on."""
    script = f"""
    open_any({revision!r})
    call = receive("vendor/x", "tools/call", "tools/list")
    note({{"called": call["id"]}})
    receive("notifications/cancelled")
    answer(receive("vendor/after"), {{"resultType": "complete", "said": "alive"}})
    go_on()
    """
    text = _INTERRUPTED.format(command=raw_server(script), revision=revision, call=call)
    child = subprocess.Popen(
        [sys.executable, "-c", text], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**ENV}, cwd=ROOT
    )
    assert child.stdout is not None
    assert child.stderr is not None
    with child, child.stdout, child.stderr:
        heard = [json.loads(line) for line in child.stderr]
        assert child.stdout.read().split() == [b"interrupted", b"alive"]
    called = [m["called"] for m in heard if "called" in m]
    cancelled = [m["params"] for m in heard if m.get("method") == "notifications/cancelled"]
    assert [p["requestId"] for p in cancelled] == called
    assert child.returncode == 0


def test_ctrl_c_while_connecting_leaves_no_child() -> None:
    """The server is silent; whoever waits for it gives up."""
    script = "note({'pid': os.getpid()})\nwhile os.read(0, 65536): pass\nnote('end')"
    text = f"from mcp_ref import connect\nconnect({raw_server(script)!r}, timeout=60)"
    child = subprocess.Popen([sys.executable, "-c", text], stderr=subprocess.PIPE, env={**ENV}, cwd=ROOT)
    assert child.stderr is not None
    with child, child.stderr:
        json.loads(child.stderr.readline())
        child.send_signal(signal.SIGINT)
        rest = child.stderr.read().decode()  # ends when nobody has it open any more: the server is gone too
    assert "KeyboardInterrupt" in rest
    assert child.returncode == -signal.SIGINT


def test_ctrl_c_in_the_middle_of_a_message_gives_the_call_up_and_keeps_the_connection() -> None:
    """The server never reads on: a thread of its own waits for it, and nobody else does."""
    script = """
    import fcntl, struct, termios
    open_modern()
    while struct.unpack("i", fcntl.ioctl(0, termios.FIONREAD, bytes(4)))[0] < 65536:
        time.sleep(0.01)
    note({"called": 1})
    time.sleep(60)
    """
    text = f"""
import signal
from mcp_ref import ClientOptions, ConnectionClosed, connect
with connect({raw_server(script)!r}, timeout=60, options=ClientOptions(grace=0.05)) as client:
    try:
        client.request("vendor/x", {{"much": "x" * 30_000_000}})
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        print("interrupted", flush=True)
    try:
        client.request("vendor/after", timeout=0.5)
    except TimeoutError:
        print("waited", flush=True)
"""
    child = subprocess.Popen(
        [sys.executable, "-c", text], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**ENV}, cwd=ROOT
    )
    assert child.stdout is not None
    assert child.stderr is not None
    with child, child.stdout, child.stderr:
        for line in child.stderr:
            if b"called" in line:
                break
        said = b""
        while not said:
            child.send_signal(signal.SIGINT)
            # Again only if Python missed it: a second one would interrupt what the first has begun.
            if select.select([child.stdout], [], [], PATIENCE)[0]:
                said = child.stdout.read()
        # The message goes on its way all the same: it was begun, and the connection is whole.
        assert said.split() == [b"interrupted", b"waited"]


def test_a_cancellation_that_nobody_takes_is_no_error() -> None:
    """The server has closed its input: the call is given up all the same."""
    script = """
    open_modern()
    receive("vendor/x")
    os.close(0)
    note("deaf")
    time.sleep(60)
    """
    notes = Notes()
    with connect(raw_server(script), options=ClientOptions(on_stderr=notes, grace=0.05)) as client:
        call = client.submit("vendor/x")
        notes.until(lambda note: note == "deaf")
        assert call.cancel()
        assert call.cancelled()


def test_the_end_of_a_connection_cancels_what_runs() -> None:
    tools = Tools()
    client = connect(tools.server, revision=MODERN)
    call = client.submit("tools/call", {"name": "slow", "arguments": {}})
    assert tools.started.wait(PATIENCE)
    client.close()
    assert isinstance(call.exception(PATIENCE), ConnectionClosed)
    assert tools.stopped.wait(PATIENCE)
    assert call.cancel() is False


def test_a_cancellation_for_which_there_is_no_room_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """The peer lives and goes on working for nothing; the caller has given up all the same."""
    tools = Tools()
    with connect(tools.server, revision=MODERN) as client:
        outbox = client.asker.line.connection.outbox
        send = outbox.send

        def full(line: bytes, wait: float | None = None) -> None:
            if b"notifications/cancelled" in line:
                raise Full("the peer has read nothing for 0.2 s")
            send(line, wait)

        call = client.submit("tools/call", {"name": "slow", "arguments": {}})
        assert tools.started.wait(PATIENCE)
        outbox.send = full
        assert call.cancel()
        outbox.send = send
    assert "tools/call: the peer reads nothing, and is not told of the cancellation" in caplog.text
