"""Request and response, for both roles (page: basic/patterns/index)."""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from desks import Desk, open_desk
from gates import Gate, make_server
from peers import (
    ENV,
    LEGACY,
    META,
    MODERN,
    PATIENCE,
    REVISIONS,
    Json,
    Notes,
    RawClient,
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
    ProtocolError,
    RequestTimeout,
    Server,
    ServerOptions,
    connect,
)
from mcp_ref.basic.versioning import TABLE
from mcp_ref.runtime.threads import deadlines
from mcp_ref.runtime.threads.outbox import INHERITED, Outbox


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    with nothing_left():
        yield


@pytest.fixture
def desk() -> Iterator[Desk]:
    with open_desk() as desk:
        yield desk


def asking_server() -> Server:
    server = make_server()

    @server.tool
    def ask(ctx: Context) -> str:
        return str(ctx.request("vendor/question"))

    return server


# ------------------------------------------------------------------------- the peer asks


@pytest.mark.spec("basic/index/notification-no-response")
@pytest.mark.parametrize("revision", REVISIONS)
def test_a_notification_is_never_answered(revision: str) -> None:
    """Neither an unknown one, nor one with bad params, nor one whose listener fails."""
    server = make_server()
    heard = threading.Event()

    @server.on_notification("vendor/fails")
    def fails(params: Json) -> None:
        heard.set()
        raise ValueError("no")

    with RawClient(server, revision=revision) as client:
        client.notify("vendor/unknown", {"a": 1})
        client.notify("vendor/fails", {})
        client.notify("notifications/cancelled", {"requestId": None})
        client.notify("notifications/progress", {"progressToken": 1})
        client.send({"jsonrpc": "2.0", "method": "vendor/fails", "params": [1]})
        client.send({"jsonrpc": "2.0", "method": "tools/call", "params": {"name": "add", "arguments": {}}})
        assert heard.wait(PATIENCE)
        last = client.call("add", {"a": 1, "b": 1})
        assert client.receive()["id"] == last


@pytest.mark.spec("basic/index/notification-no-id")
@pytest.mark.parametrize("revision", REVISIONS)
def test_a_notification_has_no_id(revision: str, tmp_path: Path) -> None:
    """Recorded from both sides: progress, log messages, changed lists, cancellations, vendor's own."""
    body = """
    @server.tool
    def work(ctx: Context) -> str:
        ctx.progress(1)
        ctx.log("info", "at work")
        server.add_tool(lambda: "", name="more", replace=True)
        return "done"
    @server.tool
    def slow(ctx: Context) -> str:
        ctx.sleep(60)
    """
    wire = tmp_path / "wire"
    changed = threading.Event()
    command = tap(python(source(body)), wire)
    with connect(
        command, revision=revision, on_notification=lambda m, p: changed.set(), options=ClientOptions(env=ENV)
    ) as client:
        client.set_log_level("debug")
        client.call_tool("work", on_progress=lambda *report: None)
        client.submit("tools/call", {"name": "slow", "arguments": {}}).cancel()
        client.notify("vendor/own", {"a": 1})
        client.list_tools()
        assert revision == MODERN or changed.wait(PATIENCE)
    sent, received = recorded(wire)
    notices = [m for m in sent + received if "method" in m and m["method"].startswith(("notif", "vendor"))]
    assert {"notifications/cancelled", "notifications/progress", "notifications/message", "vendor/own"} <= {
        m["method"] for m in notices
    }
    assert not [m for m in notices if "id" in m]


@pytest.mark.spec("basic/index/batch-removed")
@pytest.mark.parametrize("revision", [r for r in REVISIONS if r != "2025-03-26"])
def test_an_array_is_no_message(revision: str) -> None:
    """Refused as a whole, with one error."""
    with RawClient(make_server(), revision=revision) as client:
        client.send([client.message("ping"), client.message("tools/list")])
        assert client.receive()["error"]["code"] == -32600
        last = client.call("add", {"a": 1, "b": 1})
        assert client.receive()["id"] == last


@pytest.mark.spec("basic/index/batch-removed")
@pytest.mark.parametrize("revision", REVISIONS)
def test_a_client_sends_no_array(revision: str, tmp_path: Path) -> None:
    """Not even of many requests at once."""
    wire = tmp_path / "wire"
    with connect(tap(python(source("")), wire), revision=revision, options=ClientOptions(env=ENV)) as client:
        method = "server/discover" if revision == MODERN else "ping"
        for call in [client.submit(method) for _ in range(20)]:
            call.result(PATIENCE)
    sent, received = recorded(wire)
    assert all(type(message) is dict for message in sent + received)


# ------------------------------------------------------------------------------ we ask


@pytest.mark.spec(
    "basic/index/requests-client-to-server-only", "basic/patterns/index/server-initiates-nothing"
)
def test_a_modern_server_sends_no_request() -> None:
    """2026-07-28: `ctx.request` is refused where it is called."""
    with RawClient(asking_server(), revision=MODERN) as client:
        asked = client.call("ask")
        answer = client.receive()
        assert answer["id"] == asked
        assert answer["result"]["isError"] is True
        assert "sends no requests" in answer["result"]["content"][0]["text"]
        assert client.is_alive()


@pytest.mark.spec(
    "basic/patterns/index/client-sends-no-responses",
    "basic/index/requests-client-to-server-only",
    "basic/transports/stdio/client-no-responses",
)
@pytest.mark.parametrize("method", ["ping", "roots/list", "vendor/x"])
def test_a_modern_client_answers_no_request(method: str) -> None:
    """2026-07-28: nothing goes back, and the connection goes on."""
    script = f"""
    open_modern()
    answer(receive("vendor/first"), {{"resultType": "complete"}})
    send(id=1, method={method!r})
    send(id="q", method={method!r}, params=[1])
    send(id=None, method={method!r})
    send(id=2)
    write(b"no json" + bytes([10]))
    write(b"[]" + bytes([10]))
    send(method="vendor/sent")
    go_on()
    """
    notes, sent = Notes(), threading.Event()
    with connect(
        raw_server(script), on_notification=lambda m, p: sent.set(), options=ClientOptions(on_stderr=notes)
    ) as client:
        client.request("vendor/first")
        assert sent.wait(PATIENCE)
        client.ping()
        client.request("vendor/last")
    received = [m for m in notes.all if isinstance(m, dict)]
    assert {m["method"] for m in received} == {"server/discover", "vendor/first", "vendor/last"}
    assert all("method" in m for m in received)


@pytest.mark.spec(
    "basic/transports/index/binding-directions",
    "schema/removed-notifications-2026",
    "basic/index/requests-client-to-server-only",
    "basic/patterns/cancellation/server-cancels-nothing-else",
    "basic/patterns/cancellation/client-issued-only",
    "basic/transports/stdio/metadata-inline",
    "basic/transports/stdio/stdin-only-mcp",
)
def test_what_travels_in_which_direction(tmp_path: Path) -> None:
    """2026-07-28, a whole session: requests one way, answers the other, none of the old notifications."""
    body = """
    @server.tool
    def work(ctx: Context) -> str:
        ctx.progress(1)
        ctx.log("info", "at work")
        server.add_tool(lambda: "", name="more", replace=True)
        return "done"
    @server.tool
    def slow(ctx: Context) -> str:
        ctx.sleep(60)
    @server.tool
    def ask(ctx: Context) -> str:
        ctx.request("roots/list", timeout=0.01)
    """
    wire = tmp_path / "wire"
    with connect(tap(python(source(body)), wire), options=ClientOptions(env=ENV)) as client:
        client.set_log_level("debug")
        client.list_tools()
        client.call_tool("work", on_progress=lambda *report: None)
        assert client.call_tool("ask").is_error
        with pytest.raises(RequestTimeout):
            client.call_tool("slow", timeout=0.05)
        client.submit("tools/call", {"name": "slow", "arguments": {}}).cancel()
        with pytest.raises(ErrorResponse):
            client.request("vendor/unknown")
        client.submit("tools/call", {"name": "slow", "arguments": {}})
    sent, received = recorded(wire)
    assert all("method" in m for m in sent)
    assert all(("method" in m) != ("id" in m) for m in received)
    requests = [m for m in sent if "id" in m]
    for message in requests:
        assert message["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] == MODERN
        assert "io.modelcontextprotocol/clientCapabilities" in message["params"]["_meta"]
    levels = [m["params"]["_meta"].get("io.modelcontextprotocol/logLevel") for m in requests]
    assert levels == [None] * levels.index("debug") + ["debug"] * (len(levels) - levels.index("debug"))
    cancelled = [m["params"]["requestId"] for m in sent if m["method"] == "notifications/cancelled"]
    assert cancelled
    assert set(cancelled) <= {m["id"] for m in requests}
    names = {m.get("method") for m in sent + received}
    assert "initialize" not in names
    assert not names & {
        "notifications/initialized",
        "notifications/roots/list_changed",
        "notifications/elicitation/complete",
        "notifications/tasks/status",
    }
    assert "notifications/cancelled" not in {m.get("method") for m in received}


# -------------------------------------------------------------------------- either way


@pytest.mark.parametrize("revision", LEGACY)
def test_a_server_asks_and_the_client_answers(revision: str) -> None:
    """The legacy era, over real pipes, with both sides ours."""
    body = """
    @server.tool
    def ask(ctx: Context, n: int) -> dict:
        return ctx.request("vendor/double", {"n": n})
    """
    with connect(python(source(body)), revision=revision, options=ClientOptions(env=ENV)) as client:

        @client.on_request("vendor/double")
        def double(params: Json) -> Json:
            if params["n"] < 0:
                raise ProtocolError("negative", code=7)
            return {"twice": 2 * params["n"]}

        assert "42" in client.call_tool("ask", {"n": 21}).text
        refused = client.call_tool("ask", {"n": -1})
        assert refused.is_error
        assert "negative" in refused.text


@pytest.mark.parametrize("revision", LEGACY)
def test_both_ask_at_once_and_ids_do_not_mix(revision: str) -> None:
    """Both count from 1; a tool that waits for the client does not hold up others."""
    server = make_server()

    @server.tool(name="relay")
    def relay(ctx: Context, n: int) -> int:
        answer: int = ctx.request("vendor/next", {"n": n})["n"]
        return answer

    with connect(server, revision=revision) as client:

        @client.on_request("vendor/next")
        def following(params: Json) -> Json:
            if params["n"] > 0:
                deeper = client.call_tool("relay", {"n": params["n"] - 1})
                return {"n": 1 + int(deeper.text)}
            return {"n": 0}

        assert client.call_tool("relay", {"n": 5}).text == "5"


@pytest.mark.parametrize("revision", LEGACY)
def test_a_client_without_such_a_method_says_so(revision: str) -> None:
    with connect(asking_server(), revision=revision) as client:
        result = client.call_tool("ask")
        assert result.is_error
        assert "no method 'vendor/question'" in result.text


@pytest.mark.parametrize("revision", LEGACY)
def test_time_in_which_the_client_answers_does_not_count(
    revision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A person may take longer than the call's time-out. Deadlines have the time of the test."""
    now, released = [1000.0], threading.Event()
    monkeypatch.setattr(deadlines, "time", SimpleNamespace(monotonic=lambda: now[0]))
    server = make_server()

    @server.tool(name="patient")
    def patient(ctx: Context) -> str:
        return str(ctx.request("vendor/person", timeout=PATIENCE)["said"])

    with connect(server, revision=revision, timeout=PATIENCE) as client:

        @client.on_request("vendor/person")
        def person(params: Json) -> Json:
            now[0] += 5  # a person who thinks
            released.wait(1.2)  # nobody sets it: meanwhile the caller looks at its deadline
            return {"said": "yes"}

        assert client.call_tool("patient", timeout=1.0).text == "yes"


@pytest.mark.spec("basic/patterns/cancellation/race-handling")
@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
def test_the_server_bears_cancellations_that_cross_its_answers(revision: str) -> None:
    """Each request is answered once or not at all, never twice."""
    with RawClient(python(source("")), revision=revision) as client:
        messages: list[Json] = []
        for n in range(500):
            request = client.message(
                "tools/list" if n % 2 else "logging/setLevel", {"level": "info"}, id=1000 + n
            )
            cancel = {
                "jsonrpc": "2.0",
                "method": "notifications/cancelled",
                "params": {"requestId": 1000 + n},
            }
            messages += [request, cancel] if n % 3 else [request]
        client.send(*messages)
        assert client.is_alive()
    seen = [m["id"] for m in client.aside]
    assert len(seen) == len(set(seen))


def test_a_batch_is_answered_as_a_batch() -> None:
    """2025-03-26; basic/index/batching has the rest."""
    with RawClient(make_server(), revision="2025-03-26") as client:
        ping, call, broken = (
            client.message("ping"),
            client.message("tools/list"),
            {"jsonrpc": "2.0", "id": "b"},
        )
        client.send(
            [ping, {"jsonrpc": "2.0", "method": "vendor/x"}, call, broken, client.message("initialize")]
        )
        answers = client.receive()
        assert len(answers) == 4
        refused = {a["id"]: a["error"]["code"] for a in answers if "error" in a}
        assert refused.pop("b") == -32600  # it lacks a method
        assert list(refused.values()) == [-32600]  # initialize is no part of a batch
        assert {a["id"] for a in answers if "result" in a} == {ping["id"], call["id"]}
        client.send([])
        assert client.receive()["error"]["code"] == -32600


def test_running_requests_may_end_before_the_connection_does() -> None:
    """What stdio does at end of input: `drain`, then `end`."""
    lines: list[bytes] = []
    gate = Gate()
    server = make_server(gate)
    connection = server.attach(Outbox(lines.append))
    call = {"name": "wait", "arguments": {}, "_meta": META}
    connection.receive(
        json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}).encode()
    )
    assert gate.is_entered()
    connection.drain(0.01)  # not for longer than this
    assert lines == []
    gate.open.set()
    connection.drain(PATIENCE)
    assert eventually(lambda: len(lines) == 1)
    server.detach(connection, "over")


def test_an_answer_that_is_just_being_sent_goes_out_before_the_connection_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is no longer among the requests that run, and not yet in the outbox."""
    lines: list[bytes] = []
    between, go_on = threading.Event(), threading.Event()
    server = make_server(Gate())
    connection = server.attach(Outbox(lines.append))
    send = connection.outbox.answer

    def slowly(*answer: Any) -> None:
        between.set()
        assert go_on.wait(PATIENCE)
        send(*answer)

    monkeypatch.setattr(connection.outbox, "answer", slowly)
    call = {"name": "add", "arguments": {"a": 1, "b": 2}, "_meta": META}
    connection.receive(
        json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}).encode()
    )
    assert between.wait(PATIENCE)
    assert not connection.responder.serving
    connection.drain(0.01)  # not for longer than this
    end = threading.Thread(target=connection.drain, args=(PATIENCE,))
    end.start()
    end.join(0.05)
    assert end.is_alive()
    go_on.set()
    end.join(PATIENCE)
    assert json.loads(lines[0])["id"] == 1
    server.detach(connection, "over")


# ------------------------------------------------------------- what an adversary found


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-11-25", MODERN])
@pytest.mark.parametrize("where", ["request", "answer"])
def test_a_message_beyond_the_limit_fails_its_call_at_once(revision: str, where: str) -> None:
    server = Server(
        "tests", options=ServerOptions(max_message_bytes=20_000 if where == "request" else 64 << 20)
    )

    @server.tool
    def repeat(text: str, times: int) -> str:
        return text * times

    limit = 20_000 if where == "answer" else 64 << 20
    arguments = {"text": "x", "times": 40_000} if where == "answer" else {"text": "x" * 40_000, "times": 0}
    problem = InvalidResponse if where == "answer" else ErrorResponse
    with connect(
        server, revision=revision, timeout=60, options=ClientOptions(max_message_bytes=limit)
    ) as client:
        started = time.monotonic()
        with pytest.raises(problem, match=r"a message of \d{5} bytes is longer"):
            client.call_tool("repeat", arguments)
        assert time.monotonic() - started < PATIENCE
        assert client.call_tool("repeat", {"text": "a", "times": 2}).text == "aa"


@pytest.mark.parametrize(
    ("beginning", "answered"),
    [
        (b'{"jsonrpc":"2.0","id":7,"method":"x","params":{"a":"', 7),
        (b' {"jsonrpc" : "2.0", "id" : "a b", "method":"x","params":{"a":"', "a b"),
        (b'{"id":7,"jsonrpc":"2.0","method":"x","params":{"a":"', None),
        (b'{"jsonrpc":"2.0","id":"\\u0041","method":"x","params":{"a":"', None),
        (b'{"jsonrpc":"2.0","id":1.5,"method":"x","params":{"a":"', None),
        (b'{"jsonrpc":"2.0","method":"x","params":{"a":"', None),
        (b"x", None),
    ],
)
def test_what_is_too_long_is_answered_as_well_as_its_beginning_tells(beginning: bytes, answered: Any) -> None:
    with RawClient(make_server(max_message_bytes=1000), revision="2025-11-25") as client:
        client.write(beginning + b"x" * 2000 + b'"}}\n')
        refused = client.receive()
        assert refused["error"]["code"] == -32600
        assert "longer than this side reads" in refused["error"]["message"]
        assert refused.get("id") == answered


def test_an_answer_that_is_too_long_and_to_nobody_is_ignored() -> None:
    with connect(make_server(), revision="2025-11-25") as client:
        client.asker.connection.too_long(10**9, b'{"jsonrpc":"2.0","id":4711,"result":{')
        client.ping()


def test_the_last_answers_get_out_to_a_reader_that_takes_its_time() -> None:
    """Each request that was read is answered, though the input has ended and the pipe is full."""
    body = """
    from mcp_ref.basic.transports.stdio import server as stdio
    stdio.GRACE_SECONDS = 20.0

    @server.tool
    def fill(n: int) -> str:
        return "x" * n
    """
    child = subprocess.Popen(
        python(source(body)), env={**os.environ, **ENV}, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert child.stdin is not None
    assert child.stdout is not None
    with child.stdout:
        with child.stdin:
            for n in range(400):
                params = {"name": "fill", "arguments": {"n": 10_000}, "_meta": META}
                message = {"jsonrpc": "2.0", "id": n, "method": "tools/call", "params": params}
                child.stdin.write(json.dumps(message).encode() + b"\n")
        threading.Event().wait(0.5)  # meanwhile the pipe is full
        answers = [json.loads(line) for line in child.stdout]
    assert child.wait(PATIENCE) == 0
    assert sorted(answer["id"] for answer in answers) == list(range(400))
    assert all("result" in answer for answer in answers)


# ------------------------------------------------------------------------------ by itself


def test_a_fault_in_one_message_is_logged_and_the_next_is_heard(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The reader goes on, whatever its endpoint does."""

    def fail(*arguments: Any) -> None:
        raise ZeroDivisionError("a fault of ours")

    with monkeypatch.context() as patch:
        patch.setattr(desk, "notice", fail)
        desk.connection.receive(b'{"jsonrpc":"2.0","method":"vendor/first"}')
    assert "a message could not be handled" in caplog.text
    assert "vendor/first" in caplog.text
    desk.connection.receive(b'{"jsonrpc":"2.0","method":"vendor/second"}')
    assert desk.noticed == ["vendor/second"]
    assert desk.way.said == []


def test_what_comes_for_a_client_that_was_dropped_is_no_fault(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Its connection holds it by a weak reference: there is nothing to complain of."""

    def gone(*arguments: Any) -> None:
        raise ReferenceError("weakly-referenced object no longer exists")

    monkeypatch.setattr(desk, "notice", gone)
    desk.connection.receive(b'{"jsonrpc":"2.0","method":"vendor/x"}')
    assert not [record for record in caplog.records if record.levelname in ("WARNING", "ERROR")]
    assert desk.way.said == []


def test_an_id_alone_ends_the_call_that_waits_under_it_and_is_not_answered(desk: Desk) -> None:
    """Neither method, nor result, nor error: a response that is broken, as something waits for it."""
    call = desk.connection.call("vendor/asked")
    desk.connection.receive(json.dumps({"jsonrpc": "2.0", "id": call.id}).encode())
    with pytest.raises(InvalidResponse, match="vendor/asked: "):
        call.result()
    assert [message["method"] for message in desk.way.said] == ["vendor/asked"]


def test_an_id_alone_that_nothing_waits_under_is_a_request_that_lacks_its_method(desk: Desk) -> None:
    desk.connection.receive(b'{"jsonrpc":"2.0","id":"a"}')
    (answer,) = desk.way.said
    assert (answer["id"], answer["error"]["code"]) == ("a", -32600)


def test_a_broken_response_in_a_batch_takes_no_place_among_its_answers(desk: Desk) -> None:
    """The rest of the batch is answered all the same, without waiting for one more."""
    desk.connection.session.assume(next(r for r in TABLE if r.date == "2025-03-26"), {})
    call = desk.connection.call("vendor/asked")
    ping = {"jsonrpc": "2.0", "id": "p", "method": "ping"}
    desk.connection.receive(json.dumps([{"jsonrpc": "2.0", "id": call.id}, ping]).encode())
    assert isinstance(call.outcome, InvalidResponse)
    assert desk.way.said[1:] == [[{"jsonrpc": "2.0", "id": "p", "result": {}}]]


def test_the_end_fails_what_waits_cancels_what_runs_and_stops_the_pings(desk: Desk) -> None:
    class Heart:
        beats = True

        def stop(self) -> None:
            self.beats = False

    connection = desk.connection
    context, call = desk.serve_later(), connection.call("vendor/asked")
    heart: Any = Heart()
    connection.heartbeat = heart
    connection.end("the wire broke")
    connection.end("again")
    assert not heart.beats
    assert (context.cancelled, context.reason) == (True, "the wire broke")
    for late in (call.result, lambda: connection.request("vendor/x"), lambda: connection.notify("vendor/x")):
        with pytest.raises(ConnectionClosed, match="the wire broke"):
            late()
    assert not desk.workers.submit(print, None)


def test_at_the_end_what_another_thread_has_yet_to_write_goes_out(desk: Desk) -> None:
    """A thread is writing, and will take along what was sent meanwhile: it is not dropped."""
    begun, go_on, wrote = threading.Event(), threading.Event(), []

    def write(data: bytes) -> None:
        begun.set()
        assert go_on.wait(PATIENCE)
        wrote.append(data)

    desk.connection.outbox = outbox = Outbox(write)
    writer = threading.Thread(target=outbox.send, args=(b"first",))
    writer.start()
    assert begun.wait(PATIENCE)
    outbox.send(b"second")
    end = threading.Thread(target=desk.connection.end, args=("the end",), kwargs={"wait": PATIENCE})
    end.start()
    assert eventually(lambda: desk.connection.failure is not None)
    go_on.set()
    for thread in (writer, end):
        thread.join(PATIENCE)
    assert wrote == [b"first", b"second"]
    with pytest.raises(ConnectionClosed, match="the end"):
        outbox.send(b"third")


# ----------------------------------------------------------------- in a forked child
#
# `forked` is what the child calls. Called here it makes this process's connection an inherited one.


def test_a_forked_child_says_nothing_of_the_requests_that_its_parent_serves(desk: Desk) -> None:
    """No answer, no notification; and nothing waits for a lock that a thread of the parent held."""
    context = desk.serve_later()
    responder = desk.connection.responder
    with context.reports.speaking, responder._ending, responder._notices._lock:  # held for ever
        desk.connection.forked()
        assert context.is_over
        context.notify("vendor/x")
        desk.connection.responder.complete(context, {}, wait=PATIENCE)
        assert not desk.connection.responder.cancel_by_id(1, "no longer")
        assert desk.connection.responder.may_notify()
    assert desk.way.said == []


def test_a_forked_child_asks_nothing_and_ends_nothing(desk: Desk) -> None:
    """The end of a connection is its parent's to bring about."""
    connection = desk.connection
    call = connection.call("vendor/asked")
    desk.way.lines.clear()
    connection.forked()
    connection.end("the child is over")
    for ask in (call.result, lambda: connection.request("vendor/x")):
        with pytest.raises(ConnectionClosed) as caught:
            ask()
        assert str(caught.value) == INHERITED
    assert desk.way.said == []
    assert desk.workers.submit(lambda nothing: None, None)  # these the child has for itself
    assert desk.workers.close(PATIENCE)
