"""basic/patterns/index/responder: requests are received, run and answered, and end once."""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from desks import Desk, open_desk
from gates import Gate, make_server
from peers import MODERN, PATIENCE, REVISIONS, Json, RawClient, eventually, nothing_left

from mcp_ref import Context, Limit, ProtocolError, RequestCancelled, Server
from mcp_ref.basic.patterns.index.connection import Connection
from mcp_ref.basic.patterns.index.responder import DEFERRED
from mcp_ref.basic.versioning import TABLE
from mcp_ref.runtime.threads import forks
from mcp_ref.runtime.threads.outbox import Outbox
from mcp_ref.runtime.threads.workers import Workers


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    with nothing_left():
        yield


@pytest.fixture
def desk() -> Iterator[Desk]:
    with open_desk() as desk:
        yield desk


class Ended(BaseException):
    """Stands for the end of the process."""


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
        workers = entered.get(timeout=PATIENCE).connection.responder.workers
        client.notify("notifications/cancelled", {"requestId": "z"})
        client.call("stay", {"door": 1}, id="z")
        assert entered.get(timeout=PATIENCE).request_id == "z"
        before = workers._done
        doors[0].set()
        assert eventually(lambda: workers._done > before)  # the first is over, with all that follows
        doors[1].set()
        assert client.answer("z")["result"]["content"][0]["text"] == "door 1"


def test_without_workers_a_request_runs_on_the_thread_that_brings_it() -> None:
    """As over HTTP: `start` returns when it is answered. Functions for workers run here as well."""
    threads: list[str] = []

    def answer(context: Context) -> Json:
        threads.append(threading.current_thread().name)
        return {}

    desk = Desk(answer)
    connection = Connection(desk, desk.way, workers=None)
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    connection.responder.start(connection, message, desk.way)
    assert threads == [threading.current_thread().name]
    assert desk.way.said == [{"jsonrpc": "2.0", "id": 1, "result": {}}]
    assert connection.responder.submit(threads.append, "a function", size=5, always=True)
    assert threads[1:] == ["a function"]
    connection.end("the test is over")
    desk.workers.close(PATIENCE)


def test_without_workers_a_function_that_raises_is_logged_and_nothing_else(
    caplog: pytest.LogCaptureFixture,
) -> None:
    desk = Desk()
    connection = Connection(desk, desk.way, workers=None)
    assert connection.responder.submit(lambda nothing: 1 / 0, None)
    assert "a function of the application failed" in caplog.text
    connection.end("the test is over")
    desk.workers.close(PATIENCE)


def test_a_request_after_the_workers_were_closed_is_refused_with_a_time_to_come_back(desk: Desk) -> None:
    assert desk.workers.close(PATIENCE)
    desk.ask(1)
    (answer,) = desk.way.said
    assert answer["error"]["code"] == 429
    assert answer["error"]["data"] == {"retryAfterMs": 5000}
    assert desk.connection.responder.serving == {}


def test_what_was_left_for_later_is_answered_once(desk: Desk) -> None:
    context = desk.serve_later()
    desk.connection.responder.complete(context, {"n": 1}, wait=PATIENCE)
    desk.connection.responder.complete(context, {"n": 2}, wait=PATIENCE)
    assert desk.way.said == [{"jsonrpc": "2.0", "id": 1, "result": {"n": 1}}]
    assert desk.connection.responder.serving == {}


def test_a_request_is_given_up_once_and_its_way_out_is_told_why(desk: Desk) -> None:
    first, second = desk.serve_later(1), desk.serve_later(2)
    assert desk.connection.responder.cancel(first, "the client left")
    assert not desk.connection.responder.cancel(first, "twice")
    assert desk.connection.responder.cancel(second, None)
    assert desk.way.cancelled == ["the client left", "the request was cancelled"]
    assert (first.cancelled, first.reason) == (True, "the client left")
    desk.connection.responder.complete(first, {}, wait=PATIENCE)
    assert desk.way.said == []


def test_a_batch_does_not_wait_for_a_request_that_was_given_up(desk: Desk) -> None:
    desk.connection.session.assume(next(r for r in TABLE if r.date == "2025-03-26"), {})
    desk.answer = lambda context: DEFERRED if context.request_id == 1 else {}
    messages = [{"jsonrpc": "2.0", "id": number, "method": "ping"} for number in (1, 2)]
    desk.connection.receive(json.dumps(messages).encode())
    assert desk.way.said == []
    assert desk.connection.responder.cancel_by_id(1, "no longer")
    assert desk.way.said == [[{"jsonrpc": "2.0", "id": 2, "result": {}}]]
    assert desk.way.cancelled == []


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
