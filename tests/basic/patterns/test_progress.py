"""Progress (page: basic/patterns/progress)."""

from __future__ import annotations

import itertools
import math
import threading
from collections import deque
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from peers import (
    ENV,
    LEGACY,
    MODERN,
    PATIENCE,
    REVISIONS,
    Json,
    Notes,
    RawClient,
    nothing_left,
    python,
    raw_server,
    source,
)

from mcp_ref import ClientOptions, Context, Server, connect
from mcp_ref.basic.patterns import progress


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    with nothing_left():
        yield


def reporting(*reports: tuple[Any, ...]) -> tuple[Server, list[Context]]:
    """A server whose tool `work` reports this, and the contexts it had."""
    server, contexts = Server("tests"), []

    @server.tool
    def work(ctx: Context, fail: bool = False) -> str:
        contexts.append(ctx)
        for report in reports:
            ctx.progress(*report)
        if fail:
            raise ValueError("no")
        return "done"

    return server, contexts


def notices(client: RawClient) -> list[Json]:
    return [m["params"] for m in client.aside if m.get("method") == "notifications/progress"]


# ----------------------------------------------------------------------- whoever works


@pytest.mark.spec(
    "basic/patterns/progress/payload",
    "basic/patterns/progress/omit-total",
    "basic/patterns/progress/value-float",
    "basic/patterns/progress/message-human-readable",
)
@pytest.mark.parametrize("token", ["a token", "", 0, -7, 2**60])
@pytest.mark.parametrize("revision", REVISIONS)
def test_a_report_carries_the_token_and_what_it_was_given(revision: str, token: Any) -> None:
    """total and message only if given; message not before 2025-03-26."""
    server, _ = reporting((1,), (2.5, 10), (3, None, "half way"), (4, 10.0, "nearly"))
    with RawClient(server, revision=revision) as client:
        client.answer(client.call("work", meta={"progressToken": token}))
        said = [{"message": "half way"}, {"message": "nearly"}] if revision != "2024-11-05" else [{}, {}]
        expected = [
            {"progress": 1},
            {"progress": 2.5, "total": 10},
            {"progress": 3, **said[0]},
            {"progress": 4, "total": 10.0, **said[1]},
        ]
        assert notices(client) == [{"progressToken": token, **report} for report in expected]
        assert all(type(n["progressToken"]) is type(token) for n in notices(client))


@pytest.mark.spec("basic/patterns/progress/value-increases")
@pytest.mark.parametrize("total", [None, 3])
@pytest.mark.parametrize("revision", REVISIONS)
def test_progress_only_grows(revision: str, total: int | None) -> None:
    """What does not is not sent: neither the same value again nor a smaller one."""
    server, _ = reporting(*((n, total) for n in (1, 1, 0.5, 1.0, 2, -1, 2.0001, 2)))
    with RawClient(server, revision=revision) as client:
        client.answer(client.call("work", meta={"progressToken": 1}))
        assert [n["progress"] for n in notices(client)] == [1, 2, 2.0001]


@pytest.mark.spec(
    "basic/patterns/progress/active-token-only",
    "basic/patterns/progress/send-optional",
    "basic/patterns/progress/may-send-none",
)
@pytest.mark.parametrize("revision", REVISIONS)
def test_without_a_token_nothing_is_sent(revision: str) -> None:
    server, _ = reporting((1,), (2,))
    with RawClient(server, revision=revision) as client:
        client.answer(client.call("work"))
        client.answer(client.call("work", meta={"other.example/key": 1}))
        assert client.aside == []


@pytest.mark.spec("basic/patterns/progress/token-string-or-integer")
@pytest.mark.parametrize("token", [1.5, True, None, [], {}])
@pytest.mark.parametrize("revision", REVISIONS)
def test_a_token_of_another_type_is_refused(revision: str, token: Any) -> None:
    """None is as good as no token in the legacy era, where `_meta` has no shape of its own."""
    server, _ = reporting((1,))
    with RawClient(server, revision=revision) as client:
        answer = client.answer(client.call("work", meta={"progressToken": token}))
        if token is None and revision != MODERN:
            assert "result" in answer
        else:
            assert answer["error"]["code"] == -32602
            assert "progressToken" in answer["error"]["message"]
        assert client.is_alive()
        assert client.aside == []


@pytest.mark.spec(
    "basic/patterns/progress/in-progress-only",
    "basic/patterns/progress/stop-after-completion",
)
@pytest.mark.parametrize("fail", [False, True])
@pytest.mark.parametrize("revision", REVISIONS)
def test_after_the_answer_nothing_is_sent(revision: str, fail: bool) -> None:
    """A thread of the tool kept the context."""
    server, contexts = reporting((1,))
    with RawClient(server, revision=revision) as client:
        client.answer(client.call("work", {"fail": fail}, meta={"progressToken": "t"}))
        assert len(notices(client)) == 1
        assert contexts[0].is_over
        contexts[0].progress(2)
        assert client.is_alive()
        assert len(notices(client)) == 1


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, True, "1", None, 1j])
def test_progress_is_a_finite_number(value: Any) -> None:
    server, _ = reporting((value,))
    with RawClient(server, revision=MODERN) as client:
        answer = client.answer(client.call("work", meta={"progressToken": 1}))
        assert answer["result"]["isError"] is True
        assert "finite numbers" in answer["result"]["content"][0]["text"]
        assert notices(client) == []
    server, _ = reporting((1, value) if value is not None else ("x",))
    with RawClient(server, revision=MODERN) as client:
        answer = client.answer(client.call("work", meta={"progressToken": 1}))
        assert answer["result"]["isError"] is True


# ------------------------------------------------------------------------ whoever asked


@pytest.mark.spec(
    "basic/patterns/progress/token-unique",
    "basic/patterns/progress/token-in-request-meta",
    "basic/patterns/progress/token-string-or-integer",
    "basic/patterns/progress/track-tokens",
)
@pytest.mark.parametrize("revision", REVISIONS)
def test_each_call_asks_with_a_token_of_its_own(revision: str) -> None:
    """Twenty in flight, each gets its own reports; who does not ask sends no token."""
    script = f"""
    open_any({revision!r})
    calls = [receive("vendor/x") for _ in range(20)]
    for step in (1, 2):
        for call in calls:
            token = call["params"]["_meta"]["progressToken"]
            report = {{"progressToken": token, "progress": step * call["params"]["n"]}}
            send(method="notifications/progress", params=report)
    for call in reversed(calls):
        answer(call, {{"resultType": "complete"}})
    go_on()
    """
    notes = Notes()
    with connect(raw_server(script), revision=revision, options=ClientOptions(on_stderr=notes)) as client:
        heard: dict[int, list[float]] = {n: [] for n in range(1, 21)}

        def ask(n: int) -> None:
            client.request("vendor/x", {"n": n}, on_progress=lambda p, *more: heard[n].append(p))

        threads = [threading.Thread(target=ask, args=(n,)) for n in heard]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
        assert heard == {n: [n, 2 * n] for n in range(1, 21)}
        client.request("vendor/last", {"n": 1})
    asked = [m["params"]["_meta"]["progressToken"] for m in notes.all if m.get("method") == "vendor/x"]
    assert len(set(asked)) == 20
    assert all(type(token) in (str, int) for token in asked)
    assert "progressToken" not in notes.message("vendor/last")["params"].get("_meta", {})


@pytest.mark.parametrize("revision", REVISIONS)
def test_reports_reach_the_callback_over_real_pipes(revision: str) -> None:
    """In order, on the thread that called, all before the result; and for `submit` as well."""
    body = """
    @server.tool
    def count(ctx: Context) -> str:
        for n in range(50):
            ctx.progress(n, 50, message=f"step {n}")
        return "counted"
    """
    said = None if revision == "2024-11-05" else "step 49"
    with connect(python(source(body)), revision=revision, options=ClientOptions(env=ENV)) as client:
        heard: list[tuple[Any, ...]] = []
        on_thread = set()

        def listen(*report: Any) -> None:
            heard.append(report)
            on_thread.add(threading.current_thread())

        assert client.call_tool("count", on_progress=listen).text == "counted"
        assert [report[0] for report in heard] == list(range(50))
        assert heard[-1] == (49, 50, said)
        assert on_thread == {threading.current_thread()}

        heard.clear()
        call = client.submit("tools/call", {"name": "count", "arguments": {}}, on_progress=listen)
        all_there = threading.Event()
        call.add_done_callback(lambda future: all_there.set())  # after what the same thread ran before
        assert call.result(PATIENCE).text == "counted"
        assert all_there.wait(PATIENCE)
        assert [report[0] for report in heard] == list(range(50))


@pytest.mark.parametrize("revision", ["2025-06-18", MODERN])
def test_bad_reports_are_ignored_one_by_one(revision: str) -> None:
    """Unknown tokens, the token of a call that wants none, no numbers; odd extras are left out."""
    script = f"""
    open_any({revision!r})
    plain = receive("vendor/plain")
    call = receive("vendor/x")
    token = call["params"]["_meta"]["progressToken"]
    def report(**params):
        send(method="notifications/progress", params=params)
    for bad in (None, "x", str(token), float(token), True, 10**6, [token], {{}}, plain["id"]):
        report(progressToken=bad, progress=1)
    report(progress=1)
    for bad in (None, "1", True, [], {{}}):
        report(progressToken=token, progress=bad)
    report(progressToken=token)
    send(method="notifications/progress", params=[token, 1])
    send(method="notifications/progress")
    report(progressToken=token, progress=1, total="many", message=5)
    report(progressToken=token, progress=2, total=3, message="two", more=1)
    answer(call, {{"resultType": "complete"}})
    report(progressToken=token, progress=3)
    answer(plain, {{"resultType": "complete"}})
    go_on()
    """
    heard: list[tuple[Any, ...]] = []
    with connect(raw_server(script), revision=revision, options=ClientOptions(on_stderr=Notes())) as client:
        plain = client.submit("vendor/plain")
        client.request("vendor/x", on_progress=lambda *report: heard.append(report))
        plain.result(PATIENCE)
        client.ping()
    assert heard == [(1, None, None), (2, 3, "two")]


def test_reports_that_wait_are_weighed() -> None:
    """Each with a message of 100 KB: ten of them, and the newest."""
    reports = deque[progress.Report](maxlen=progress.MAX_WAITING_REPORTS)
    call = SimpleNamespace(reports=reports, deadline=SimpleNamespace(restart=int), wake=int, on_report=None)
    connection: Any = SimpleNamespace(waiting={1: call})
    for number in range(100):
        message = f"{number} " + "x" * 100_000
        progress.on_progress(connection, {"progressToken": 1, "progress": number, "message": message})
    assert sum(len(report.message or "") for report in reports) < 2 * progress.MAX_WAITING_CHARACTERS
    assert reports[-1].progress == 99
    for number in range(100, 1200):
        progress.on_progress(connection, {"progressToken": 1, "progress": number, "message": "short"})
    assert len(reports) == progress.MAX_WAITING_REPORTS


def test_a_slow_callback_gets_the_newest_reports() -> None:
    """What it does not keep up with is dropped, oldest first: memory stays bounded."""
    script = f"""
    open_modern()
    call = receive("vendor/x")
    token = call["params"]["_meta"]["progressToken"]
    for n in range({2 * progress.MAX_WAITING_REPORTS}):
        send(method="notifications/progress", params={{"progressToken": token, "progress": n}})
    send(method="vendor/sent")
    receive("vendor/go-on")
    answer(call, {{"resultType": "complete"}})
    go_on()
    """
    heard: list[float] = []
    sent = threading.Event()
    with connect(
        raw_server(script), on_notification=lambda m, p: sent.set(), options=ClientOptions(on_stderr=Notes())
    ) as client:

        def slow(value: float, *more: Any) -> None:
            heard.append(value)
            if len(heard) == 1:
                assert sent.wait(PATIENCE)
                client.notify("vendor/go-on")

        # The listener for all notifications must not be kept busy by the reports themselves.
        client.request("vendor/x", on_progress=slow)
    assert heard[-1] == 2 * progress.MAX_WAITING_REPORTS - 1
    assert heard == sorted(heard)
    assert len(heard) <= progress.MAX_WAITING_REPORTS + 1


@pytest.mark.spec("basic/patterns/progress/server-to-client-only")
def test_a_modern_server_takes_no_progress_and_a_modern_client_sends_none() -> None:
    """2026-07-28: a report that a client sends belongs to nothing and is ignored."""
    server, _ = reporting((1,))
    with RawClient(server, revision=MODERN) as client:
        client.notify("notifications/progress", {"progressToken": 1, "progress": 1})
        assert client.is_alive()
        assert client.aside == []
    script = "open_modern()\ncall = receive('vendor/x')\nanswer(call, {})\ngo_on()"
    notes = Notes()
    with connect(raw_server(script), options=ClientOptions(on_stderr=notes)) as ours:
        ours.request("vendor/x", on_progress=print)
    assert "notifications/progress" not in {m.get("method") for m in notes.all}


@pytest.mark.parametrize("revision", LEGACY)
def test_a_client_reports_to_a_server_that_asked(revision: str) -> None:
    """The other direction: the handler of the client's has the token of the server's request."""
    script = f"""
    open_legacy({revision!r})
    call = receive("vendor/start")
    send(id="q", method="vendor/question", params={{"_meta": {{"progressToken": "mine"}}}})
    report = receive("notifications/progress")
    receive("")
    answer(call, {{"heard": report["params"]}})
    go_on()
    """
    with connect(raw_server(script), revision=revision, options=ClientOptions(on_stderr=Notes())) as client:

        @client.on_request("vendor/question")
        def question(params: Json, ctx: Context) -> Json:
            ctx.progress(1, 2)
            return {}

        heard = client.request("vendor/start")["heard"]
        assert heard == {"progressToken": "mine", "progress": 1, "total": 2}


@pytest.mark.spec("basic/patterns/progress/value-increases")
@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
def test_reports_of_many_threads_only_grow(revision: str) -> None:
    """A tool may report from threads of its own: what is not more than was said is left out."""
    server, numbers = Server("tests"), itertools.count(1)

    @server.tool
    def work(ctx: Context) -> str:
        def report() -> None:
            for _ in range(100):
                ctx.progress(next(numbers))

        threads = [threading.Thread(target=report) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return "done"

    with RawClient(server, revision=revision) as client:
        asked = client.call("work", meta={"progressToken": "t"})
        client.answer(asked)
        told = [message["params"]["progress"] for message in client.aside]
    assert told == sorted(set(told))
    assert told[-1] == 600


@pytest.mark.spec("basic/patterns/progress/stop-after-completion")
@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
def test_a_thread_that_outlives_its_tool_reports_nothing_after_the_answer(revision: str) -> None:
    server, threads = Server("tests"), []

    @server.tool
    def leave(ctx: Context) -> str:
        begun = threading.Event()

        def report() -> None:
            for number in range(1, 1_000_000):
                if ctx.is_over and number > 100:
                    break
                ctx.progress(number)
                begun.set()

        threads.append(threading.Thread(target=report))
        threads[-1].start()
        assert begun.wait(PATIENCE)
        return "left"

    with RawClient(server, revision=revision) as client:
        for number in range(10):
            asked = client.call("leave", meta={"progressToken": f"t{number}"})
            client.answer(asked)
            client.aside.clear()
            threads[-1].join(PATIENCE)
            assert client.is_alive()
            assert client.aside == []


def halting(ctx: Context) -> tuple[threading.Event, threading.Event]:
    """Make the next report halt just before it is sent: it says so, and waits until it may go on."""
    connection = ctx.connection
    may_notify, halted, go_on = connection.responder.may_notify, threading.Event(), threading.Event()

    def halt() -> bool:
        connection.responder.may_notify = may_notify  # type: ignore[method-assign]
        halted.set()
        assert go_on.wait(PATIENCE)
        return may_notify()

    connection.responder.may_notify = halt  # type: ignore[method-assign]
    return halted, go_on


@pytest.mark.spec("basic/patterns/progress/value-increases")
def test_a_report_that_is_on_its_way_is_not_overtaken() -> None:
    server = Server("tests")

    @server.tool
    def work(ctx: Context) -> str:
        halted, go_on = halting(ctx)
        first = threading.Thread(target=ctx.progress, args=(1,))
        second = threading.Thread(target=ctx.progress, args=(2,))
        first.start()
        assert halted.wait(PATIENCE)
        second.start()
        second.join(0.05)  # long enough to overtake, were that possible
        go_on.set()
        first.join()
        second.join()
        return "done"

    with RawClient(server, revision=MODERN) as client:
        client.answer(client.call("work", meta={"progressToken": "t"}))
        assert [message["params"]["progress"] for message in client.aside] == [1, 2]


@pytest.mark.spec("basic/patterns/progress/stop-after-completion")
def test_the_answer_waits_for_a_report_that_is_on_its_way() -> None:
    server, threads = Server("tests"), []

    @server.tool
    def work(ctx: Context) -> str:
        halted, go_on = halting(ctx)
        threads.append(threading.Thread(target=ctx.progress, args=(1,)))
        threads[0].start()
        assert halted.wait(PATIENCE)
        threads.append(threading.Timer(0.05, go_on.set))  # when the tool has ended
        threads[1].start()
        return "done"

    with RawClient(server, revision=MODERN) as client:
        asked = client.call("work", meta={"progressToken": "t"})
        assert client.receive()["params"]["progress"] == 1
        assert client.receive()["id"] == asked
        for thread in threads:
            thread.join(PATIENCE)


@pytest.mark.parametrize("revision", LEGACY)
def test_a_server_hears_how_far_its_client_is(revision: str) -> None:
    """Either direction, in the legacy era: the client reports on what the server asked it."""
    server = Server("asks")
    heard: list[tuple[float, float | None, str | None]] = []

    @server.tool
    def ask(ctx: Context) -> str:
        ctx.request("vendor/work", {}, on_progress=lambda *report: heard.append(report))
        return "done"

    with connect(server, revision=revision) as client:

        @client.on_request("vendor/work")
        def work(params: Any, ctx: Context) -> Any:
            ctx.progress(1, 2)
            ctx.progress(2, 2)
            return {}

        assert client.call_tool("ask").text == "done"
    assert [report[:2] for report in heard] == [(1, 2), (2, 2)]


# -- the progress of a task --------------------------------------------------------------------------


@pytest.mark.spec("basic/patterns/progress/track-tokens")
def test_who_registered_a_token_hears_of_it_as_long_as_it_is_registered() -> None:
    seen: list[Any] = []
    connection: Any = SimpleNamespace(session=SimpleNamespace(reporters={"task-1": seen.append}), waiting={})
    whole = {"progress": 2, "total": 4, "message": "half"}
    for params in ({"progress": 1}, {"progress": "no number"}, whole):
        progress.on_progress(connection, {"progressToken": "task-1", **params})
    progress.on_progress(connection, {"progressToken": "task-2", "progress": 3})
    progress.on_progress(connection, {"progressToken": ["task-1"], "progress": 3})
    assert seen == [(1, None, None), (2, 4, "half")]


def test_a_report_in_words() -> None:
    assert progress.progress_text(1, None, None) == "1"
    assert progress.progress_text(1.5, 3, None) == "1.5 of 3"
    assert progress.progress_text(1, 3, "frames") == "frames (1 of 3)"


@pytest.mark.parametrize("wrong", [("a", 1), (1, "b"), (float("nan"), None)])
def test_a_report_in_words_is_made_of_numbers(wrong: tuple[Any, Any]) -> None:
    with pytest.raises(ValueError, match="must be finite numbers"):
        progress.progress_text(*wrong, None)
