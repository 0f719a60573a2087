"""Request and response, the requester's half (page: basic/patterns/index), for both roles."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from gates import Gate, make_server
from peers import (
    ENV,
    LEGACY,
    MODERN,
    PATIENCE,
    REVISIONS,
    Json,
    Notes,
    eventually,
    nothing_left,
    python,
    raw_server,
    recorded,
    source,
    tap,
)

from mcp_ref import (
    ClientOptions,
    ConnectionClosed,
    Context,
    ErrorResponse,
    InvalidResponse,
    McpError,
    RequestCancelled,
    RequestTimeout,
    connect,
)
from mcp_ref.basic.lifecycle import Session
from mcp_ref.basic.patterns.index import requester as module
from mcp_ref.basic.patterns.index.context import Arrival, Cancellation
from mcp_ref.basic.patterns.index.requester import Call, Requester
from mcp_ref.basic.patterns.progress import Report
from mcp_ref.runtime.errors import LocalError
from mcp_ref.runtime.threads import deadlines
from mcp_ref.runtime.threads.deadlines import Clock, Deadline
from mcp_ref.runtime.threads.outbox import INHERITED, Full, Outbox


class Hands:
    """The time that a test sets, for deadlines; threads wait in real time all the same."""

    def __init__(self):
        self.now = 1000.0

    def monotonic(self):
        return self.now


@pytest.fixture
def hands(monkeypatch):
    hands = Hands()
    monkeypatch.setattr(deadlines, "time", hands)
    return hands


def call_for(seconds=PATIENCE, clock=None, **more):
    return Call(1, "vendor/x", {}, Deadline(seconds, clock or Clock(), **more), Outbox(lambda line: None))


def in_thread(run):
    """Run it beside the test; give back the thread and what it returned."""
    found = []
    thread = threading.Thread(target=lambda: found.append(run()))
    thread.start()
    return thread, found


def test_an_answer_that_is_there_already_is_not_waited_for():
    call = call_for(0)
    call.finish({"a": 1})
    assert call.done
    assert call.wait(None)
    assert call.result() == {"a": 1}


def test_an_answer_wakes_whoever_waits():
    call = call_for()
    thread, found = in_thread(lambda: call.wait(None))
    call.finish({"a": 1})
    thread.join(PATIENCE)
    assert found == [True]


def test_an_error_is_raised_where_the_result_is_asked_for():
    call = call_for()
    call.finish(ErrorResponse(-32601, "there is no such method"))
    assert call.wait(None)
    with pytest.raises(ErrorResponse, match="no such method") as caught:
        call.result()
    assert caught.value.code == -32601


def test_without_an_answer_the_wait_ends_with_the_deadline():
    call = call_for(0.01)
    assert not call.wait(None)
    assert not call.done


def test_an_endless_wait_ends_with_the_answer():
    call = call_for(float("inf"))
    thread, found = in_thread(lambda: call.wait(None))
    call.finish({})
    thread.join(PATIENCE)
    assert found == [True]


def test_a_wake_without_news_goes_on_waiting():
    call = call_for()
    thread, found = in_thread(lambda: call.wait(None))
    for _ in range(100):
        call.wake()
    assert not found
    call.finish({})
    thread.join(PATIENCE)
    assert found == [True]


def test_an_answer_in_the_last_moment_counts():
    """The deadline passes and the answer is there: it is taken, not thrown away."""
    call = call_for(-1)
    call.finish({"late": True})
    assert call.wait(None)


# -- progress ---------------------------------------------------------------------------------


def report(call, progress):
    call.reports.append(Report(progress, None, None))
    call.wake()


def test_progress_runs_on_the_waiting_thread_in_order_and_before_the_end():
    call = call_for()
    call.reports = deque()
    seen = []

    def on_progress(progress, total, message):
        seen.append((progress, threading.current_thread()))

    thread, found = in_thread(lambda: call.wait(on_progress))
    for progress in range(50):
        report(call, progress)
    call.finish({})
    thread.join(PATIENCE)
    assert found == [True]
    assert [progress for progress, _ in seen] == list(range(50))
    assert {where for _, where in seen} == {thread}


def test_progress_and_answer_before_anybody_waits_are_both_delivered():
    call = call_for()
    call.reports = deque()
    report(call, 1)
    report(call, 2)
    call.finish({})
    seen = []
    assert call.wait(lambda *news: seen.append(news))
    assert seen == [(1, None, None), (2, None, None)]


def test_a_callback_that_raises_ends_the_wait():
    call = call_for()
    call.reports = deque()
    report(call, 1)

    def on_progress(*news):
        raise ValueError("enough")

    with pytest.raises(ValueError, match="enough"):
        call.wait(on_progress)


def test_progress_nobody_wants_is_left_alone():
    call = call_for()
    call.reports = deque()
    report(call, 1)
    call.finish({})
    assert call.wait(None)


def test_progress_keeps_a_wait_alive_beyond_its_deadline(hands):
    call = call_for(5, cap=1000)
    call.reports = deque()
    told = threading.Event()
    thread, found = in_thread(lambda: call.wait(lambda *news: told.set()))
    for progress in range(10):  # forty seconds of work, and never five of silence
        told.clear()
        hands.now += 4
        call.deadline.restart()
        report(call, progress)
        assert told.wait(PATIENCE)
    assert not found
    call.finish({})
    thread.join(PATIENCE)
    assert found == [True]


def test_a_held_clock_keeps_a_wait_alive(hands, monkeypatch):
    """A person is asked something for minutes, and the deadline is a hundredth of a second."""
    clock = Clock()
    call = call_for(0.01, clock)
    looks = threading.Semaphore(0)
    pause = Deadline.pause
    monkeypatch.setattr(Deadline, "pause", lambda self: looks.release() or pause(self))
    with clock.hold():
        hands.now += 300
        thread, found = in_thread(lambda: call.wait(None))
        for _ in range(3):
            assert looks.acquire(timeout=PATIENCE)
        assert not found
    hands.now += 1
    thread.join(PATIENCE)
    assert found == [False]


# -- callers that do not wait -----------------------------------------------------------------


def test_whoever_does_not_wait_is_told_on_the_thread_that_ends_it():
    call = call_for()
    told = []
    call.on_done = lambda over: told.append((over, threading.current_thread()))
    thread, _ = in_thread(lambda: call.finish(RequestCancelled("vendor/x: enough")))
    thread.join(PATIENCE)
    assert told == [(call, thread)]
    with pytest.raises(RequestCancelled, match="enough"):
        call.result()


def test_the_outcome_is_there_before_anybody_is_told():
    call = call_for()
    seen = []
    call.on_done = lambda over: seen.append((over.done, over.outcome))
    call.finish({"a": 1})
    assert seen == [(True, {"a": 1})]


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    with nothing_left():
        yield


@pytest.mark.spec("basic/index/request-id-unique-in-session", "basic/index/request-id-unique-in-flight")
@pytest.mark.parametrize("revision", REVISIONS)
def test_a_client_uses_no_id_twice(revision: str, tmp_path: Path) -> None:
    wire = tmp_path / "wire"
    method = "server/discover" if revision == MODERN else "ping"
    with connect(tap(python(source("")), wire), revision=revision, options=ClientOptions(env=ENV)) as client:
        calls = [client.submit(method) for _ in range(500)]
        client.submit("vendor/unknown").exception(PATIENCE)
        for call in calls:
            call.result(PATIENCE)
    ids = [message["id"] for message in recorded(wire)[0] if "id" in message]
    assert len(ids) == len(set(ids)) > 500


@pytest.mark.parametrize("revision", REVISIONS)
def test_answers_find_their_callers_whatever_their_order(revision: str) -> None:
    """A hundred calls of many threads, answered in reverse."""
    script = f"""
    open_any({revision!r})
    calls = [receive("tools/call") for _ in range(100)]
    for call in reversed(calls):
        answer(call, text(call["params"]["arguments"]["word"]))
    go_on()
    """
    with connect(raw_server(script), revision=revision, options=ClientOptions(on_stderr=Notes())) as client:
        found: dict[str, str] = {}

        def ask(word: str) -> None:
            found[word] = client.call_tool("echo", {"word": word}).text

        threads = [threading.Thread(target=ask, args=(str(n),)) for n in range(100)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
        assert found == {str(n): str(n) for n in range(100)}


@pytest.mark.parametrize(
    ("members", "kind", "words"),
    [
        ('error={"code": -5, "message": "no", "data": [1]}', ErrorResponse, "no"),
        ("error=7", InvalidResponse, "not an object"),
        ('error={"code": "x", "message": "no"}', InvalidResponse, "code"),
        ('error={"code": 1}', InvalidResponse, "message"),
        ("result=7", InvalidResponse, "not an object"),
        ("result=None", InvalidResponse, "not an object"),
        ('result={"resultType": "odd"}', InvalidResponse, "odd"),
    ],
)
@pytest.mark.parametrize("revision", ["2025-06-18", MODERN])
def test_what_an_answer_is_worth(revision: str, members: str, kind: type[McpError], words: str) -> None:
    """An error is an ErrorResponse, a broken answer an InvalidResponse; the connection goes on."""
    script = f"""
    open_any({revision!r})
    send(id=receive("vendor/x")["id"], {members})
    go_on()
    """
    with connect(raw_server(script), revision=revision, options=ClientOptions(on_stderr=Notes())) as client:
        with pytest.raises(kind, match=words):
            client.request("vendor/x")
        client.ping()


@pytest.mark.spec(
    "basic/patterns/cancellation/timeout-all-requests",
    "basic/patterns/cancellation/timeout-configurable",
    "basic/patterns/cancellation/ignore-late-response",
)
@pytest.mark.parametrize("revision", REVISIONS)
def test_no_answer_in_time_is_a_timeout_and_a_late_one_is_ignored(revision: str) -> None:
    script = f"""
    open_any({revision!r})
    request = receive("vendor/x")
    receive("notifications/cancelled")
    answer(request, {{"late": True}})
    go_on({{"resultType": "complete", "in": "time"}})
    """
    with connect(
        raw_server(script), revision=revision, timeout=PATIENCE, options=ClientOptions(on_stderr=Notes())
    ) as client:
        with pytest.raises(RequestTimeout, match=r"vendor/x: no answer within 0\.05 s"):
            client.request("vendor/x", timeout=0.05)
        assert client.request("vendor/y")["in"] == "time"


@pytest.mark.spec("basic/patterns/cancellation/race-handling")
@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
def test_a_cancellation_and_an_answer_may_cross(revision: str) -> None:
    """Five hundred times, in whichever order they meet: each call ends once, and all goes on."""
    with connect(python(source("")), revision=revision, options=ClientOptions(env=ENV)) as client:
        ends = {"answered": 0, "cancelled": 0}
        method = "server/discover" if revision == MODERN else "logging/setLevel"
        params = {} if revision == MODERN else {"level": "info"}
        for n in range(500):
            call = client.submit(method, params)
            if n % 2:
                eventually(call.done, 0.0005)
            cancelled = call.cancel()
            assert cancelled or isinstance(call.result(PATIENCE), dict)
            assert call.cancelled() == cancelled
            ends["cancelled" if cancelled else "answered"] += 1
        client.ping()
        assert ends["answered"] + ends["cancelled"] == 500


@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
def test_a_flood_of_our_own_is_bounded(revision: str) -> None:
    """10,000 requests may wait; one more is refused here; at the end all of them fail."""
    script = f"open_any({revision!r})\nwhile os.read(0, 1 << 20): pass"
    with connect(
        raw_server(script), revision=revision, timeout=60, options=ClientOptions(on_stderr=Notes())
    ) as client:
        calls = [client.submit("vendor/x") for _ in range(10_000)]
        with pytest.raises(McpError, match="10000 requests are waiting"):
            client.request("vendor/x")
    for call in calls:
        assert isinstance(call.exception(PATIENCE), ConnectionClosed)


def test_a_callback_that_raises_ends_the_call() -> None:
    """Nobody waits any more: the request is cancelled on the wire."""
    script = """
    open_modern()
    call = receive("vendor/x")
    token = call["params"]["_meta"]["progressToken"]
    send(method="notifications/progress", params={"progressToken": token, "progress": 1})
    note(receive("notifications/cancelled")["params"]["requestId"] == call["id"])
    go_on()
    """
    notes = Notes()

    def fail(*report: object) -> None:
        raise ZeroDivisionError

    with connect(raw_server(script), options=ClientOptions(on_stderr=notes)) as client:
        with pytest.raises(ZeroDivisionError):
            client.request("vendor/x", on_progress=fail)
        assert notes.until(lambda note: note is True)
        client.ping()


def test_a_peer_that_no_longer_reads_ends_the_call() -> None:
    """Its input is closed though it still runs."""
    script = """
    open_modern()
    os.close(0)
    note("deaf")
    time.sleep(60)
    """
    notes = Notes()
    with connect(raw_server(script), options=ClientOptions(on_stderr=notes, grace=0.05)) as client:
        notes.until(lambda note: note == "deaf")
        with pytest.raises(ConnectionClosed):
            client.request("vendor/x")


def test_after_the_end_everything_fails_at_once_with_the_reason() -> None:
    client = connect(make_server(), revision="2025-11-25")
    client.close()
    client.close()  # twice is once
    for ask in (client.ping, lambda: client.request("vendor/x"), lambda: client.notify("vendor/x")):
        with pytest.raises(ConnectionClosed, match="closed"):
            ask()


@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
@pytest.mark.parametrize("half", [True, False])
def test_ctrl_c_in_the_middle_of_a_message_cancels_the_call_and_harms_no_other(
    revision: str, half: bool
) -> None:
    """The message goes out whole, then the interrupt is raised, and the call is given up on the wire."""
    gate = Gate()
    with connect(make_server(gate), revision=revision) as client:
        client.list_tools()
        outbox = client.asker.connection.outbox
        outbox._begin = None  # so that all goes through the function below
        write, written = outbox._write, []

        def interrupted(data: bytes) -> None:
            outbox._write = write
            written.append(data)
            write(data[:20] if half else data)
            signal.raise_signal(signal.SIGINT)
            write(data[20:] if half else b"")

        outbox._write = interrupted
        with pytest.raises(KeyboardInterrupt):
            client.call_tool("wait", timeout=60)
        assert json.loads(written[0])["method"] == "tools/call"
        assert not client.asker.connection.waiting
        assert client.call_tool("add", {"a": 1, "b": 2}).text == "3"
        assert client.asker.connection.failure is None


def test_many_interrupts_leave_a_connection_that_works() -> None:
    """Real ones, at any moment, over real pipes."""
    script = """
    import os, signal, sys, threading
    from mcp_ref import ClientOptions, connect
    code = "from mcp_ref import Server\\ns = Server('s')\\ns.tool(name='t')(lambda: 1)\\ns.run()"
    options = ClientOptions(env={"PYTHONPATH": os.environ["PYTHONPATH"]})
    client = connect([sys.executable, "-c", code], options=options)
    client.call_tool("t")
    told = []

    def interrupt():
        for number in range(60):
            ready.wait()
            pause.wait(0.004)
            os.kill(os.getpid(), signal.SIGINT)
            while interrupts == number:  # a second one in the same message would not be held back
                pause.wait(0.001)
        told.append("all")

    pause, ready = threading.Event(), threading.Event()
    thread = threading.Thread(target=interrupt)
    interrupts = 0

    def work():
        while not told:
            client.call_tool("t", timeout=10)

    thread.start()
    over = False
    while not over:
        try:
            ready.set()
            work()
            thread.join()
            over = True
        except KeyboardInterrupt:
            ready.clear()
            interrupts += 1
    connection = client.asker.connection
    print(interrupts, len(connection.waiting), connection.failure, client.call_tool("t").text)
    client.close()
    """
    environment = {**os.environ, **ENV}
    done = subprocess.run(
        python(textwrap.dedent(script)), env=environment, capture_output=True, text=True, timeout=60
    )
    assert done.stdout == "60 0 None 1\n", done.stderr


@pytest.mark.parametrize("given", [float("nan"), float("inf"), 0, -1, 10**400])
def test_a_time_out_that_is_none_is_refused_before_anything_is_sent(given: float) -> None:
    with connect(make_server()) as client:
        for ask in (client.request, client.submit):
            with pytest.raises(ValueError, match=r"timeout is a number of seconds (above 0|below [0-9]+)"):
                ask("tools/list", timeout=given)
        assert not client.asker.connection.waiting


@pytest.mark.parametrize("given", ["5", True, [], b""])
def test_a_time_out_of_another_type_is_named(given: Any) -> None:
    refused = pytest.raises(TypeError, match="timeout is a number of seconds, not")
    with connect(make_server()) as client, refused:
        client.request("tools/list", timeout=given)


def test_a_forked_process_has_no_connection() -> None:
    """Its answers would be the parent's, and the other way round."""
    script = """
    import os, sys
    from mcp_ref import Server, connect
    server = Server("tests")
    server.tool(name="t")(lambda: 1)
    with connect(server) as client:
        child = os.fork()
        if not child:
            try:
                client.call_tool("t", timeout=5)
            except Exception as problem:
                print(problem, flush=True)
            os._exit(0)
        os.waitpid(child, 0)
        print(client.call_tool("t").text)
    """
    command = [sys.executable, "-W", "ignore", "-c", textwrap.dedent(script)]
    done = subprocess.run(command, env={**os.environ, **ENV}, capture_output=True, text=True, timeout=30)
    said = done.stdout.splitlines()
    assert said[1:] == ["1"], done.stderr
    assert "forked" in said[0]


def test_a_server_that_asks_for_ever_does_not_stop_the_clock_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """While we answer, our deadlines stand still, but not without end."""
    monkeypatch.setattr(deadlines, "FOR_PEOPLE", 0.2)
    script = """
    open_legacy()
    receive("tools/call")
    for number in range(10_000):
        send(id=number, method="vendor/ask", params={})
        if number > 1:  # two of them at any time
            receive("")
    """
    with connect(raw_server(script), revision="2025-11-25") as client:
        client.asker.connection.max_timeout = 0.3
        held = threading.Event()

        @client.on_request("vendor/ask")
        def answer(params: Json) -> Json:
            held.wait(0.05)
            return {}

        started = time.monotonic()
        with pytest.raises(RequestTimeout):
            client.call_tool("x", timeout=0.2)
        assert time.monotonic() - started < PATIENCE
        held.set()


# ------------------------------------------------------------------------- by itself


class Wire:
    """A requester whose messages go nowhere but here."""

    def __init__(self, **options: Any) -> None:
        self.sent: list[Json] = []
        self.requester = Requester(Outbox(self._write), **{"timeout": 5.0, "max_timeout": None, **options})
        self.requester.session = Session()

    def _write(self, data: bytes) -> None:
        self.sent += map(json.loads, data.splitlines())

    def answer(self, call: Call, result: Any = None) -> None:
        self.requester.deliver({"jsonrpc": "2.0", "id": call.id, "result": {} if result is None else result})

    def cancelled(self) -> list[Any]:
        """The ids of what was given up on the wire."""
        return [m["params"]["requestId"] for m in self.sent if m["method"] == "notifications/cancelled"]


def test_ctrl_c_between_the_message_and_the_wait_cancels_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python looks for signals where a function begins: here where the wait does, with the message out."""

    def interrupted(self: Requester, call: Call, on_progress: Any) -> Json:
        raise KeyboardInterrupt

    monkeypatch.setattr(Requester, "_outcome", interrupted)
    wire = Wire()
    with pytest.raises(KeyboardInterrupt):
        wire.requester.request("vendor/x")
    assert wire.cancelled() == [wire.sent[0]["id"]]
    assert not wire.requester.waiting


def test_a_call_is_seen_before_it_is_sent() -> None:
    """By `prepare`: an answer may be quicker than whoever asks."""
    wire = Wire()
    seen: list[int] = []
    call = wire.requester.call("vendor/x", {"a": 1}, prepare=lambda call: seen.append(len(wire.sent)))
    assert seen == [0]
    assert wire.sent == [{"jsonrpc": "2.0", "id": call.id, "method": "vendor/x", "params": {"a": 1}}]
    wire.answer(call)


def test_who_does_not_wait_is_told_by_the_reader() -> None:
    wire = Wire()
    told: list[Any] = []
    call = wire.requester.call("vendor/x", on_done=lambda call: told.append(call.outcome))
    wire.answer(call, {"n": 1})
    assert told == [{"n": 1}]
    assert not wire.requester.cancel(call, "too late")
    assert wire.cancelled() == []


def test_a_call_that_is_cancelled_while_it_is_sent_is_cancelled_after_its_request() -> None:
    """The other way round, the peer would ignore the cancellation, and then do the work."""
    wire = Wire()
    sending, go_on = threading.Event(), threading.Event()
    send = wire.requester.outbox.send

    def slowly(line: bytes, wait: float | None = None) -> None:
        if b"vendor/x" in line:
            sending.set()
            assert go_on.wait(PATIENCE)
        send(line, wait)

    wire.requester.outbox.send = slowly  # type: ignore[method-assign]
    thread = threading.Thread(target=wire.requester.call, args=("vendor/x",))
    thread.start()
    assert sending.wait(PATIENCE)
    [call] = wire.requester.waiting.values()
    assert wire.requester.cancel(call, "no more")
    assert wire.sent == []
    go_on.set()
    thread.join(PATIENCE)
    assert [message["method"] for message in wire.sent] == ["vendor/x", "notifications/cancelled"]
    assert wire.cancelled() == [call.id]


def test_the_cancellation_of_a_call_that_could_not_be_sent_is_not_sent() -> None:
    wire = Wire()

    def cancelled(line: bytes, wait: float | None = None) -> None:
        [call] = wire.requester.waiting.values()
        assert wire.requester.cancel(call, "no more")
        raise ConnectionClosed("the wire broke")

    send, wire.requester.outbox.send = wire.requester.outbox.send, cancelled  # type: ignore[method-assign]
    call = wire.requester.call("vendor/x")
    assert isinstance(call.outcome, RequestCancelled)
    wire.requester.outbox.send = send  # type: ignore[method-assign]
    assert wire.cancelled() == []


def test_a_call_that_is_forgotten_is_not_cancelled() -> None:
    wire = Wire()
    call = wire.requester.call("vendor/x")
    wire.requester.forget(call)
    wire.answer(call)
    assert not call.done
    assert not wire.requester.waiting
    assert wire.cancelled() == []


@pytest.mark.spec("basic/index/notification-no-id")
def test_a_notification_has_params_only_if_there_are_any() -> None:
    wire = Wire()
    wire.requester.notify("vendor/a")
    wire.requester.notify("vendor/b", {})
    assert wire.sent == [
        {"jsonrpc": "2.0", "method": "vendor/a"},
        {"jsonrpc": "2.0", "method": "vendor/b", "params": {}},
    ]


@pytest.mark.spec("basic/patterns/cancellation/ignore-late-response")
@pytest.mark.parametrize("request_id", [None, True, 1.0, "1", 2, [1], {}])
def test_an_answer_with_an_id_of_nobody_is_ignored(request_id: Any) -> None:
    wire = Wire()
    call = wire.requester.call("vendor/x")
    assert call.id == 1
    wire.requester.deliver({"jsonrpc": "2.0", "id": request_id, "result": {"not": "yours"}})
    wire.requester.deliver({"jsonrpc": "2.0", "id": request_id, "error": {"code": 1, "message": "no"}})
    wire.requester.deliver_none(request_id, module.InvalidRequest("neither result nor error"))
    assert not call.done
    wire.answer(call, {"yours": 1})
    assert call.result() == {"yours": 1}


def test_an_answer_that_is_none_ends_its_call() -> None:
    wire = Wire()
    call = wire.requester.call("vendor/x")
    wire.requester.deliver_none(call.id, module.InvalidRequest("neither result nor error"))
    with pytest.raises(InvalidResponse, match="vendor/x: neither result nor error"):
        call.result()


def test_a_peer_that_takes_no_more_is_a_timeout_and_the_message_is_not_sent() -> None:
    wire = Wire()
    blocked, free = threading.Event(), threading.Event()
    wire.requester.outbox.limit = 10

    def stuck(data: bytes) -> None:
        blocked.set()
        free.wait(PATIENCE)

    wire.requester.outbox._write = stuck
    writing = threading.Thread(target=wire.requester.notify, args=("vendor/first",))
    writing.start()
    assert blocked.wait(PATIENCE)
    wire.requester.notify("vendor/second")  # waits in the outbox, and fills it
    with pytest.raises(RequestTimeout, match="vendor/x: the peer has read nothing"):
        wire.requester.request("vendor/x", timeout=0.05)
    assert not wire.requester.waiting
    free.set()
    writing.join(PATIENCE)


def test_a_failure_is_said_once_and_kept() -> None:
    wire = Wire()
    told: list[Any] = []
    wire.requester.call("vendor/x", on_done=lambda call: told.append(str(call.outcome)))
    assert str(wire.requester.fail("the first reason")) == "the first reason"
    assert str(wire.requester.fail("another")) == "the first reason"
    assert told == ["the first reason"]
    with pytest.raises(ConnectionClosed, match="the first reason"):
        wire.requester.request("vendor/y")


def test_a_pipe_that_breaks_is_told_as_the_reader_finds_out_why() -> None:
    """A broken pipe says less than the end of the peer's output, which the reader sees a moment later."""
    wire = Wire()
    over = wire.requester._over

    class Later:
        """The reader finds out while the caller waits for it."""

        release = staticmethod(over.release)

        def acquire(self, timeout: float) -> bool:
            wire.requester.fail("the server ended with status 3")
            return over.acquire(timeout=timeout)

    def write(data: bytes) -> None:
        raise BrokenPipeError("a broken pipe")

    later: Any = Later()
    wire.requester._over = later
    wire.requester.outbox._write = write
    with pytest.raises(ConnectionClosed, match="status 3"):
        wire.requester.request("vendor/x")
    assert not wire.requester.waiting
    with pytest.raises(ConnectionClosed, match="status 3"):
        wire.requester.request("vendor/y")


def test_each_caller_is_told_of_the_end_by_an_exception_of_its_own() -> None:
    """A shared one would show each the frames of the others, and keep the arguments of all their calls."""
    wire = Wire()
    waiting = [wire.requester.call("vendor/x") for _ in range(2)]
    wire.requester.fail("the server exited")
    problems = []
    for ask in [call.result for call in waiting] + [lambda: wire.requester.request("vendor/y")] * 2:
        with pytest.raises(ConnectionClosed, match=r"^the server exited$") as caught:
            ask()
        problems.append(caught.value)
    assert len(set(map(id, problems))) == len(problems)
    assert wire.requester.failure is not wire.requester.failure


def test_where_nothing_more_can_be_sent_what_waits_fails_unless_the_peer_turns_out_to_be_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "CLOSE_REASON_SECONDS", 0.01)
    wire = Wire()
    call = wire.requester.call("vendor/x")
    wire.requester.unwritable("the server closed its input")
    assert call.wait(None)
    with pytest.raises(ConnectionClosed, match="closed its input"):
        call.result()
    wire.requester.fail("the server exited with code 3")
    with pytest.raises(ConnectionClosed, match="closed its input"):  # the first reason counts
        wire.requester.request("vendor/y")

    monkeypatch.setattr(module, "CLOSE_REASON_SECONDS", PATIENCE)
    wire = Wire()
    call = wire.requester.call("vendor/x")
    wire.requester.unwritable("the server closed its input")
    assert not call.done
    wire.requester.fail("the server exited with code 3")
    with pytest.raises(ConnectionClosed, match="exited with code 3"):
        call.result()


def test_in_a_forked_child_a_call_that_waits_fails_and_one_that_does_not_is_left_to_the_parent() -> None:
    """`forked` is what the child calls. Whoever gave `on_done` is not there to be told."""
    wire = Wire()
    told: list[Any] = []
    waits = wire.requester.call("vendor/x")
    wire.requester.call("vendor/y", on_done=told.append)
    wire.sent.clear()
    wire.requester.forked()
    for ask in (waits.result, lambda: wire.requester.request("vendor/z", timeout=PATIENCE)):
        with pytest.raises(ConnectionClosed) as caught:
            ask()
        assert str(caught.value) == INHERITED
    assert waits.done
    assert told == []
    assert not wire.requester.waiting
    assert wire.sent == []


def test_a_forked_child_sends_no_notification_and_waits_for_no_lock_of_its_parent() -> None:
    """One that a thread of the parent held during the fork is held for ever."""
    wire = Wire()
    requester, outbox = wire.requester, wire.requester.outbox
    assert isinstance(outbox, Outbox)
    with outbox._lock, requester.clock._lock:
        requester.forked()
        outbox.forked()
        for ask in (lambda: requester.notify("vendor/x"), lambda: requester.request("vendor/y")):
            with pytest.raises(ConnectionClosed, match=INHERITED):
                ask()
        with requester.clock.hold():
            assert requester.clock.is_held
    assert str(requester.fail("the end, which is not this child's to bring about")) == INHERITED
    assert wire.sent == []


class Work:
    """A request of the peer's that others are made for."""

    def __init__(self, cancelled: bool = False) -> None:
        self.ends: list[Any] = []
        self.cancellation = Cancellation()
        self.cancelled = cancelled
        self.connection: Any = None  # another's: what is sent for it takes the usual way out
        self.arrival: Any = None

    def ends_with(self, end: Any) -> None:
        self.ends.append(end)
        self.cancellation.enders.append(end)

    def check_cancelled(self) -> None:
        if self.cancelled:
            raise RequestCancelled("nobody wants it any more")


def in_a_thread(run: Any) -> tuple[threading.Thread, list[Any]]:
    """Run it on a thread; what it returns or raises is in the list afterwards."""
    outcome: list[Any] = []

    def work() -> None:
        try:
            outcome.append(run())
        except McpError as problem:
            outcome.append(problem)

    thread = threading.Thread(target=work)
    thread.start()
    return thread, outcome


def test_several_are_sent_at_once_and_their_results_come_in_order() -> None:
    wire = Wire()
    asked: Any = [("vendor/x", {"n": n}) for n in range(3)]
    thread, outcome = in_a_thread(lambda: wire.requester.request_all(asked, on_behalf_of=Work()))
    assert eventually(lambda: len(wire.sent) == 3)
    for call in reversed(list(wire.requester.waiting.values())):
        wire.answer(call, {"id": call.id})
    thread.join(PATIENCE)
    assert outcome == [[{"id": 1}, {"id": 2}, {"id": 3}]]
    assert wire.cancelled() == []


def test_if_one_of_several_fails_the_others_are_given_up() -> None:
    wire = Wire()
    asked: Any = [("vendor/x", {"n": n}) for n in range(3)]
    thread, outcome = in_a_thread(lambda: wire.requester.request_all(asked, on_behalf_of=Work()))
    assert eventually(lambda: len(wire.sent) == 3)
    wire.requester.deliver({"jsonrpc": "2.0", "id": 1, "error": {"code": 7, "message": "no"}})
    thread.join(PATIENCE)
    assert isinstance(outcome[0], ErrorResponse)
    assert wire.cancelled() == [2, 3]
    assert not wire.requester.waiting


def test_if_one_of_several_cannot_be_sent_those_before_it_are_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MAX_IN_FLIGHT", 2)
    wire = Wire()
    asked: Any = [("vendor/x", {"n": n}) for n in range(3)]
    with pytest.raises(LocalError, match="2 requests are waiting"):
        wire.requester.request_all(asked, on_behalf_of=Work())
    assert wire.cancelled() == [1, 2]
    assert not wire.requester.waiting


def test_several_end_with_the_request_they_are_made_for() -> None:
    wire, work = Wire(), Work()
    asked: Any = [("vendor/x", {"n": n}) for n in range(2)]
    thread, outcome = in_a_thread(lambda: wire.requester.request_all(asked, on_behalf_of=work))
    assert eventually(lambda: len(wire.sent) == 2)
    work.ends[0]("the peer gave up")
    thread.join(PATIENCE)
    assert isinstance(outcome[0], RequestCancelled)
    assert wire.cancelled() == [1, 2]


def test_for_a_request_that_is_cancelled_nothing_more_is_sent() -> None:
    """Neither at all, nor the second of two when it is cancelled while the first is sent."""
    wire, work = Wire(), Work(cancelled=True)
    asked: Any = [("vendor/x", {"n": n}) for n in range(2)]
    with pytest.raises(RequestCancelled, match="nobody wants"):
        wire.requester.request_all(asked, on_behalf_of=work)
    assert wire.sent == []
    work = Work()
    send = wire.requester.outbox.send

    def cancel_meanwhile(line: bytes, wait: float | None = None) -> None:
        send(line, wait)
        work.cancelled = True

    wire.requester.outbox.send = cancel_meanwhile  # type: ignore[method-assign]
    with pytest.raises(RequestCancelled, match="nobody wants"):
        wire.requester.request_all(asked, on_behalf_of=work)
    assert [message["method"] for message in wire.sent] == ["vendor/x", "notifications/cancelled"]
    assert not wire.requester.waiting


class Stream(Outbox):
    """An outbox of one request, which ends with it; `on_sent` is called for each message that it took."""

    closes = True

    def __init__(self, on_sent: Any) -> None:
        self.sent: list[Json] = []
        self.on_sent = on_sent
        super().__init__(self._write)

    def _write(self, data: bytes) -> None:
        self.sent += map(json.loads, data.splitlines())

    def send(self, line: bytes, wait: float | None = None) -> None:
        super().send(line, wait)
        self.on_sent()


def made_for(wire: Wire, work: Work, on_sent: Any) -> Stream:
    """Have what is sent for `work` go out by a stream of its own."""
    stream = Stream(on_sent)
    work.connection, work.arrival = wire.requester, Arrival(stream, 1)
    return stream


def test_the_peer_may_cancel_as_soon_as_it_reads_what_is_asked_for_it(monkeypatch) -> None:
    """The stream ends right after; what was asked is cancelled by it, before its end."""
    wire, work = Wire(), Work()
    stream = made_for(wire, work, lambda: None)
    transmit = wire.requester.transmit

    def read_at_once(call: Call, params: Json | None, line: bytes) -> None:
        transmit(call, params, line)
        [end] = work.ends
        end("the peer gave up")
        stream.fail(RequestCancelled("the peer gave up"))

    monkeypatch.setattr(wire.requester, "transmit", read_at_once)
    with pytest.raises(RequestCancelled, match="the peer gave up"):
        wire.requester.request("vendor/x", on_behalf_of=work)
    assert [message["method"] for message in stream.sent] == ["vendor/x", "notifications/cancelled"]
    assert wire.sent == []


def test_if_the_stream_of_a_question_has_ended_it_is_cancelled_by_the_sessions_own() -> None:
    """The stream may end before the thread that writes the question knows that it was sent."""
    wire, work = Wire(), Work()

    def end() -> None:
        [give_up] = work.ends
        give_up("the peer gave up")
        stream.fail(RequestCancelled("the peer gave up"))

    stream = made_for(wire, work, end)
    with pytest.raises(RequestCancelled, match="the peer gave up"):
        wire.requester.request("vendor/x", on_behalf_of=work)
    assert [message["method"] for message in stream.sent] == ["vendor/x"]
    assert wire.cancelled() == [stream.sent[0]["id"]]


def test_a_cancellation_does_not_overtake_its_request_by_another_stream(caplog) -> None:
    """Where the one of the request is full, the request itself may not have been read."""
    wire, work = Wire(), Work()
    stream = made_for(wire, work, lambda: None)
    send = stream.send

    def full(line: bytes, wait: float | None = None) -> None:
        if b"cancelled" in line:
            raise Full("the peer has read nothing")
        send(line, wait)

    stream.send = full  # type: ignore[method-assign]
    with pytest.raises(RequestTimeout):
        wire.requester.request("vendor/x", on_behalf_of=work, timeout=0.01)
    assert wire.sent == []
    assert "the peer reads nothing" in caplog.text


@pytest.mark.parametrize("revision", LEGACY)
def test_one_ends_with_the_request_it_is_made_for(revision: str) -> None:
    """Over a connection: a tool asks the client, and its own caller gives up."""
    server, asked = make_server(), threading.Event()

    @server.tool
    def ask(ctx: Context) -> str:
        return str(ctx.request("vendor/question", timeout=60))

    with connect(server, revision=revision) as client:

        @client.on_request("vendor/question")
        def question(params: Json, ctx: Context) -> Json:
            asked.set()
            while not ctx.cancelled:
                threading.Event().wait(0.005)
            return {}

        call = client.submit("tools/call", {"name": "ask"})
        assert asked.wait(PATIENCE)
        assert call.cancel()
        assert client.call_tool("add", {"a": 1, "b": 2}).text == "3"
        assert eventually(lambda: not client.asker.connection.responder.serving)


def test_an_error_is_one_callers_and_a_call_that_is_over_refers_to_nothing():
    """By its frames an error refers to what its callers have, and a call to whom it told."""
    told = []
    call = Call(1, "tools/call", {}, Deadline(1.0, Clock()), Outbox(lambda line: None))
    call.on_done = told.append
    call.finish(ErrorResponse(1, "no"))
    assert told == [call]
    assert call.on_done is None
    with pytest.raises(ErrorResponse, match="no"):
        call.result()
    with pytest.raises(LocalError, match="tools/call: the error that came was raised before"):
        call.result()
