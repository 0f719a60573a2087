"""Request and response, for both roles (page: basic/patterns/index)."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
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
    Limit,
    ProtocolError,
    RequestCancelled,
    RequestTimeout,
    Server,
    ServerOptions,
    connect,
)
from mcp_ref.basic.patterns.index.connection import DEFERRED, Connection
from mcp_ref.basic.versioning import TABLE
from mcp_ref.runtime.threads import forks
from mcp_ref.runtime.threads.outbox import INHERITED, Outbox
from mcp_ref.runtime.threads.workers import Workers


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    with nothing_left():
        yield


def asking_server() -> Server:
    server = make_server()

    @server.tool
    def ask(ctx: Context) -> str:
        return str(ctx.request("vendor/question"))

    return server


# ------------------------------------------------------------------------- the peer asks


@pytest.mark.spec("basic/index/response-same-id")
@pytest.mark.parametrize("revision", REVISIONS)
def test_a_result_has_the_id_of_its_request(revision: str) -> None:
    """The same value and the same type, whatever it is."""
    with RawClient(make_server(), revision=revision) as client:
        for request_id in (0, -1, 2**70, 1000, "1000", "", "é\n", "a" * 1000):
            client.call("add", {"a": 1, "b": 2}, id=request_id)
            answer = client.receive()
            assert answer["id"] == request_id
            assert type(answer["id"]) is type(request_id)
            assert answer["result"]["content"] == [{"type": "text", "text": "3"}]


@pytest.mark.spec("basic/index/error-response-same-id", "basic/index/error-response-id-unless-unreadable")
@pytest.mark.parametrize("revision", REVISIONS)
def test_an_error_has_the_id_of_its_request(revision: str) -> None:
    with RawClient(make_server(), revision=revision) as client:
        for request_id in ("x", 77):
            answer = client.request("vendor/unknown", id=request_id)
            assert answer["error"]["code"] == -32601
            assert type(answer["id"]) is type(request_id)
        client.send({"jsonrpc": "1.0", "id": "readable", "method": "ping"})
        assert client.answer("readable")["error"]["code"] == -32600


@pytest.mark.spec("basic/index/error-response-id-unless-unreadable")
@pytest.mark.parametrize("revision", REVISIONS)
def test_an_id_that_could_not_be_read_is_null_or_left_out(revision: str) -> None:
    """null until 2025-06-18, left out from 2025-11-25 on."""
    with RawClient(make_server(), revision=revision) as client:
        client.write(b"{broken\n")
        answer = client.receive()
        assert answer["error"]["code"] == -32700
        if revision in ("2025-11-25", MODERN):
            assert "id" not in answer
        else:
            assert answer["id"] is None


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


@pytest.mark.spec("basic/index/request-id-unique-in-session", "basic/index/request-id-unique-in-flight")
@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
def test_an_id_that_is_in_use_is_refused(revision: str) -> None:
    """And the first request is answered none the less. An id of the other type is another id."""
    gate = Gate()
    with RawClient(make_server(gate), revision=revision) as client:
        client.call("wait", id=5)
        assert gate.is_entered()
        client.call("add", {"a": 1, "b": 1}, id=5)
        refusal = client.answer(5)
        assert refusal["error"]["code"] == -32600
        assert "in use" in refusal["error"]["message"]
        client.call("add", {"a": 1, "b": 1}, id="5")
        assert client.answer("5")["result"]["content"][0]["text"] == "2"
        gate.open.set()
        assert client.answer(5)["result"]["content"][0]["text"] == "through"


@pytest.mark.spec("basic/index/request-id-unique-in-flight")
def test_a_finished_id_may_be_used_again() -> None:
    with RawClient(make_server(), revision=MODERN) as client:
        for _ in range(3):
            assert client.request("tools/list", id=1)["result"]["tools"]


def test_params_are_an_object() -> None:
    with RawClient(make_server(), revision="2025-06-18") as client:
        for params in ([], [1], "a", 5, None, True):
            client.send({"jsonrpc": "2.0", "id": 9, "method": "tools/list", "params": params})
            answer = client.answer(9)
            assert answer["error"]["code"] == -32602
            assert "object" in answer["error"]["message"]


@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
def test_what_a_handler_raises_becomes_an_error_without_its_innards(
    revision: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Its own ProtocolError goes as it is; anything else is -32603, and the log has the rest."""
    server = make_server()

    @server.on_request("vendor/own")
    def own(params: Json) -> Json:
        raise ProtocolError("no such account", code=1001, data={"account": 7})

    @server.on_request("vendor/bug")
    def bug(params: Json) -> Json:
        raise KeyError("secret")

    @server.on_request("vendor/exit")
    def leave(params: Json) -> Json:
        raise SystemExit(3)

    @server.on_request("vendor/set")
    def no_json(params: Json) -> Json:
        return {"a": {1, 2}}

    @server.on_request("vendor/data")
    def no_json_data(params: Json) -> Json:
        raise ProtocolError("odd", code=5, data={1, 2})

    @server.on_request("vendor/given-up")
    def given_up(params: Json) -> Json:
        raise RequestCancelled("a request of its own was cancelled")

    with RawClient(server, revision=revision) as client:
        error = client.request("vendor/own")["error"]
        assert error == {"code": 1001, "message": "no such account", "data": {"account": 7}}
        for method in ("vendor/bug", "vendor/exit", "vendor/set", "vendor/given-up"):
            error = client.request(method)["error"]
            assert error["code"] == -32603
            assert "secret" not in error["message"]
        assert "KeyError: 'secret'" in caplog.text
        error = client.request("vendor/data")["error"]
        assert error["code"] == 5
        assert "data" not in error


@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
def test_a_full_queue_refuses_and_says_when_to_come_back(revision: str) -> None:
    gate = Gate()
    with RawClient(make_server(gate, workers=1, queue=1), revision=revision) as client:
        first = client.call("wait")
        assert gate.is_entered()
        second, third = client.call("wait"), client.call("wait")
        error = client.answer(third)["error"]
        assert error["code"] == 429
        assert error["data"]["retryAfterMs"] > 0
        gate.open.set()
        assert "result" in client.answer(first)
        assert "result" in client.answer(second)
        assert "result" in client.request(
            "tools/call", {"name": "add", "arguments": {"a": 1, "b": 1}}, id=third
        )


@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
def test_a_queue_is_full_with_so_many_bytes_too(revision: str) -> None:
    gate = Gate()
    server = make_server(gate, workers=1, queue_bytes=1_000_000)
    with RawClient(server, revision=revision) as client:
        first = client.call("wait")
        assert gate.is_entered()
        large = [client.call("add", {"a": 1, "b": 1, "ballast": "x" * 400_000}) for _ in range(3)]
        small = client.call("add", {"a": 1, "b": 1})
        error = client.answer(large[2])["error"]
        assert error["code"] == 429
        assert error["message"].startswith("2 requests are waiting, with 80")
        assert error["data"]["retryAfterMs"] > 0
        gate.open.set()
        for request_id in (first, *large[:2], small):
            client.answer(request_id)
        assert server.options.queue_bytes == 1_000_000


def test_a_tool_that_outlives_its_client_harms_nobody() -> None:
    gate = Gate()
    server = make_server(gate)
    client = RawClient(server, revision=MODERN)
    client.call("wait")
    assert gate.is_entered()
    client.close()  # which flags the request as cancelled: the tool returns to nobody
    with RawClient(server, revision=MODERN) as other:
        assert other.is_alive()


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
def test_time_in_which_the_client_answers_does_not_count(revision: str) -> None:
    """A person may take longer than the call's time-out."""
    released = threading.Event()
    server = make_server()

    @server.tool(name="patient")
    def patient(ctx: Context) -> str:
        return str(ctx.request("vendor/person", timeout=PATIENCE)["said"])

    with connect(server, revision=revision, timeout=PATIENCE) as client:

        @client.on_request("vendor/person")
        def person(params: Json) -> Json:
            released.wait(1.2)  # nobody sets it: a person who thinks
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


@pytest.mark.parametrize("revision", ["2025-03-26", MODERN])
def test_a_request_cancelled_while_it_waits_for_a_worker_never_runs(revision: str) -> None:
    gate, ran = Gate(), threading.Event()
    server = make_server(gate, workers=1)
    server.add_tool(ran.set, name="run")
    with RawClient(server, revision=revision) as client:
        first = client.call("wait")
        assert gate.is_entered()
        client.notify("notifications/cancelled", {"requestId": client.call("run")})
        client.write(b"garbage\n")
        assert "error" in client.receive()  # so what came before it was read as well
        gate.open.set()
        assert client.receive()["id"] == first
        last = client.call("add", {"a": 1, "b": 1})
        assert client.receive()["id"] == last
        assert not ran.is_set()


@pytest.mark.spec("basic/patterns/cancellation/no-response-after-cancel")
@pytest.mark.parametrize("revision", REVISIONS)
def test_a_cancelled_request_is_not_answered(revision: str) -> None:
    """The next message is the answer to the next request. A wrong type of id cancels nothing."""
    gate = Gate()
    with RawClient(make_server(gate), revision=revision) as client:
        running = client.call("wait", id=7)
        assert gate.is_entered()
        for wrong in ("7", 8, 7.0, True, None, [7], {}):
            client.notify("notifications/cancelled", {"requestId": wrong})
        assert client.is_alive()
        client.notify("notifications/cancelled", {"requestId": running})
        last = client.call("add", {"a": 1, "b": 1})
        assert client.receive()["id"] == last


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


def test_nobody_left_to_take_an_answer_is_no_error() -> None:
    def write(line: bytes) -> None:
        raise BrokenPipeError("gone")

    server = make_server()
    connection = server.attach(Outbox(write))
    connection.receive(b'{"jsonrpc":"2.0","id":1,"method":"ping"}')
    connection.receive(b"no json")
    server.detach(connection, "over")


@pytest.mark.spec("basic/patterns/progress/rate-limit")
@pytest.mark.parametrize("revision", REVISIONS)
def test_notifications_are_limited_in_rate(revision: str) -> None:
    """What exceeds the limit is not sent; the answer is."""
    server = make_server(notices=Limit(rate=0.001, burst=3))

    @server.tool(name="count")
    def count(ctx: Context) -> str:
        for n in range(100):
            ctx.progress(n)
        return "counted"

    with RawClient(server, revision=revision) as client:
        call = client.call("count", meta={"progressToken": "t"})
        client.answer(call)
        assert [m["params"]["progress"] for m in client.aside] == [0, 1, 2]


# ------------------------------------------------------------- what an adversary found


@pytest.mark.spec("basic/patterns/cancellation/no-response-after-cancel")
@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
def test_an_id_that_was_cancelled_may_come_again_though_its_tool_still_runs(revision: str) -> None:
    """The end of the first takes nothing from the second."""
    server, doors = Server("tests"), [threading.Event(), threading.Event()]
    entered: queue.SimpleQueue[Context] = queue.SimpleQueue()

    @server.tool
    def stay(door: int, ctx: Context) -> str:
        entered.put(ctx)
        assert doors[door].wait(PATIENCE)
        return f"door {door}"

    with RawClient(server, revision=revision) as client:
        client.call("stay", {"door": 0}, id="z")
        workers = entered.get(timeout=PATIENCE).connection.workers
        client.notify("notifications/cancelled", {"requestId": "z"})
        client.call("stay", {"door": 1}, id="z")
        assert entered.get(timeout=PATIENCE).request_id == "z"
        before = workers._done
        doors[0].set()
        assert eventually(lambda: workers._done > before)  # the first is over, with all that follows
        doors[1].set()
        assert client.answer("z")["result"]["content"][0]["text"] == "door 1"


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


class Way(Outbox):
    """A way out that ends here."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.abandoned: list[str] = []
        super().__init__(self.lines.append)

    def abandon(self, reason: str) -> None:
        self.abandoned.append(reason)

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

    def is_quick(self, context: Context) -> bool:
        return True

    def notice(self, connection: Connection, method: str, params: Json, size: int) -> None:
        self.noticed.append(method)

    def ask(self, request_id: Any, method: str = "vendor/x", way: Way | None = None) -> None:
        self.connection.start({"jsonrpc": "2.0", "id": request_id, "method": method}, way or self.way)

    def serve_later(self, request_id: Any = 1) -> Context:
        """A request that was deferred: it is served until the test completes it."""
        self.answer = lambda context: DEFERRED
        self.ask(request_id, "ping")
        context = self.connection.serving[request_id]
        assert self.way.lines == []
        return context


@pytest.fixture
def desk() -> Iterator[Desk]:
    desk = Desk()
    yield desk
    desk.connection.end("the test is over")
    desk.workers.close(PATIENCE)


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


def test_a_thread_that_would_only_wait_answers_a_quick_request_itself(desk: Desk) -> None:
    """And it counts as a worker meanwhile: no longer afterwards."""
    threads: list[str] = []

    def answer(context: Context) -> Json:
        threads.append(threading.current_thread().name)
        assert desk.workers._guests == 1
        return {}

    desk.answer, desk.way.waits = answer, True
    desk.ask(1)
    assert threads == [threading.current_thread().name]
    assert desk.workers._guests == 0
    assert desk.way.said == [{"jsonrpc": "2.0", "id": 1, "result": {}}]


def test_a_request_after_the_workers_were_closed_is_refused_with_a_time_to_come_back(desk: Desk) -> None:
    assert desk.workers.close(PATIENCE)
    desk.ask(1)
    (answer,) = desk.way.said
    assert answer["error"]["code"] == 429
    assert answer["error"]["data"] == {"retryAfterMs": 5000}
    assert desk.connection.serving == {}


def test_what_was_left_for_later_is_answered_once(desk: Desk) -> None:
    context = desk.serve_later()
    desk.connection.complete(context, {"n": 1}, wait=PATIENCE)
    desk.connection.complete(context, {"n": 2}, wait=PATIENCE)
    assert desk.way.said == [{"jsonrpc": "2.0", "id": 1, "result": {"n": 1}}]
    assert desk.connection.serving == {}


def test_a_request_is_given_up_once_and_its_way_out_is_told_why(desk: Desk) -> None:
    first, second = desk.serve_later(1), desk.serve_later(2)
    assert desk.connection.give_up(first, "the client left")
    assert not desk.connection.give_up(first, "twice")
    assert desk.connection.give_up(second, None)
    assert desk.way.abandoned == ["the client left", "the request was cancelled"]
    assert (first.cancelled, first.reason) == (True, "the client left")
    desk.connection.complete(first, {}, wait=PATIENCE)
    assert desk.way.said == []


def test_a_batch_does_not_wait_for_a_request_that_was_given_up(desk: Desk) -> None:
    desk.connection.session.assume(next(r for r in TABLE if r.date == "2025-03-26"), {})
    desk.answer = lambda context: DEFERRED if context.request_id == 1 else {}
    messages = [{"jsonrpc": "2.0", "id": number, "method": "ping"} for number in (1, 2)]
    desk.connection.receive(json.dumps(messages).encode())
    assert desk.way.said == []
    assert desk.connection.cancel_serving(1, "no longer")
    assert desk.way.said == [[{"jsonrpc": "2.0", "id": 2, "result": {}}]]
    assert desk.way.abandoned == []


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


def test_the_end_of_one_connection_leaves_shared_workers_to_the_others() -> None:
    workers, done = Workers(limit=2), threading.Event()
    Desk(workers=workers, shared=True).connection.end("over")
    assert workers.submit(lambda nothing: done.set(), None)
    assert done.wait(PATIENCE)
    assert workers.close(PATIENCE)


def test_a_request_that_outlives_its_connection_is_logged(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "mcp_ref.connection")
    entered, left = threading.Event(), threading.Event()

    def answer(context: Context) -> Json:
        entered.set()
        assert left.wait(PATIENCE)
        return {}

    desk.answer = answer
    desk.ask(1)
    assert entered.wait(PATIENCE)
    desk.connection.end("over", wait=0.01)
    assert "a request still runs after the connection ended" in caplog.text
    left.set()
    assert desk.workers.close(PATIENCE)
    assert desk.way.said == []


# ----------------------------------------------------------------- in a forked child
#
# `forked` is what the child calls. Called here it makes this process's connection an inherited one.


def test_a_forked_child_says_nothing_of_the_requests_that_its_parent_serves(desk: Desk) -> None:
    """No answer, no notification; and nothing waits for a lock that a thread of the parent held."""
    context = desk.serve_later()
    with context.reports.speaking, desk.connection._ending, desk.connection._notices._lock:  # held for ever
        desk.connection.forked()
        assert context.is_over
        context.notify("vendor/x")
        desk.connection.complete(context, {}, wait=PATIENCE)
        assert not desk.connection.cancel_serving(1, "no longer")
        assert desk.connection.may_notify()
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


class Ended(BaseException):
    """Stands for the end of the process."""


@pytest.mark.parametrize("outcome", [{}, DEFERRED, ValueError("no"), SystemExit(3), ProtocolError("no")])
def test_a_handler_that_returns_or_raises_in_a_forked_child_ends_the_child(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, outcome: Any
) -> None:
    """With what it raised, before anything is answered or logged."""
    ends: list[Any] = []

    def end_child(problem: BaseException | None = None) -> None:
        if not isinstance(problem, Ended):  # nothing runs after the end of a process
            ends.append(problem)
        raise Ended

    def answer(context: Context) -> Any:
        desk.connection.forked()
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    monkeypatch.setattr(forks, "end_child", end_child)
    desk.answer = answer
    with pytest.raises(Ended):
        desk.ask(1, "ping")
    assert ends == [outcome if isinstance(outcome, BaseException) else None]
    assert desk.way.said == []
