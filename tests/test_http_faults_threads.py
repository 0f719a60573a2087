"""One request, one thread: handlers that block, clients that leave, and threads that speak when they like.

A request over HTTP runs on the thread of its connection, and whatever its handler says is written there. One
more thread, the attendant, looks after the requests that are silent.
"""

from __future__ import annotations

import contextlib
import resource
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest
from http_faults import ERAS, OLD, Errors, Standing, added, faulty, listen, standing
from http_peers import Peer, RawHttp, Reply, endpoint, serving
from peers import MODERN, PATIENCE, Json, eventually

from mcp_ref import Context, Limit
from mcp_ref.runtime.threads import places

BOTH = pytest.mark.parametrize("revision", ERAS)
REPORTS = {"progressToken": "p"}
NOTICED = 6.0
"""Seconds in which a departed client is noticed: one, and what a busy machine adds."""
MINUTE = 60.0


class Blocking:
    """A tool that looks at nothing while it waits: neither whether it is cancelled, nor for its client."""

    def __init__(self, server: Any) -> None:
        self.begun, self.go, self.ended = threading.Semaphore(0), threading.Event(), threading.Semaphore(0)
        self.contexts: list[Context] = []
        server.add_tool(self.block, name="block")

    def block(self, ctx: Context, says: int = 0) -> str:
        for number in range(says):
            ctx.progress(number + 1)
        self.contexts.append(ctx)
        self.begun.release()
        self.go.wait(MINUTE)
        self.ended.release()
        return "done"

    def all_begun(self, count: int = 1) -> bool:
        return all(self.begun.acquire(timeout=PATIENCE) for _ in range(count))


@contextlib.contextmanager
def blocking(at: Standing) -> Iterator[Blocking]:
    """The tool `block`; what waits in it goes on when the block of the test ends."""
    tool = Blocking(at.server)
    try:
        yield tool
    finally:
        tool.go.set()


def call(peer: Peer, tool: str, arguments: Json | None = None, on: RawHttp | None = None) -> RawHttp:
    """Send a tools/call that wants progress; its answer is still to come."""
    params = {"name": tool, "arguments": arguments or {}, "_meta": REPORTS}
    return peer.send("POST", peer.message("tools/call", params), on=on)


def said(reply: Reply) -> str:
    """The text of the answer."""
    text: str = reply.answer()["result"]["content"][0]["text"]
    return text


def threads_named(*beginnings: str) -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith(beginnings)]


# ------------------------------------------------------------------------- handlers that block


@pytest.mark.spec("basic/transports/streamable-http/cancel-on-disconnect")
@pytest.mark.parametrize("says", [0, 2], ids=["silent", "has spoken"])
@pytest.mark.parametrize("leave", ["close", "reset"])
@BOTH
def test_a_client_that_leaves_a_handler_that_blocks(revision: str, leave: str, says: int) -> None:
    """It is noticed though the thread of the request is blocked: the attendant asks the socket."""
    with standing() as at, at.peer(revision) as peer, blocking(at) as tool:
        connection = call(peer, "block", {"says": says})
        assert tool.all_begun()
        if says:
            assert connection.until(b'"progress":2')
        getattr(connection, leave)()
        begun = time.monotonic()
        [context] = tool.contexts
        if revision == MODERN:
            assert eventually(lambda: context.cancelled, NOTICED)
        else:
            assert eventually(lambda: not at.app.attendant.watched, NOTICED)
            assert not context.cancelled
        assert time.monotonic() - begun < NOTICED
        assert added(peer) == "42"
        tool.go.set()
        assert tool.ended.acquire(timeout=PATIENCE)


def test_the_attendant_looks_often_enough_to_notice_within_a_second() -> None:
    with standing(keep_alive=3600.0) as at:
        assert 2 * at.app.attendant._pause < 1.0


@BOTH
def test_500_silent_requests_at_once(revision: str) -> None:
    """One attendant looks after all of them, and needs next to nothing for it."""
    count, others = 500, set(threading.enumerate())
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] > 3 * count, "this test needs many open files"
    with (
        standing(
            server={"workers": count, "limit": Limit(at_once=count)}, http={"max_connections": 2 * count}
        ) as at,
        at.peer(revision) as peer,
        blocking(at) as tool,
    ):
        connections = [call(peer, "block") for _ in range(count)]
        assert all(tool.begun.acquire(timeout=3 * PATIENCE) for _ in range(count))
        assert len(set(threads_named("mcp_ref attendant")) - others) == 1
        assert set(threads_named("mcp_ref worker")) - others == set()
        begun, used = time.monotonic(), time.process_time()
        threading.Event().wait(3.0)
        seconds, used = time.monotonic() - begun, time.process_time() - used
        assert used < 0.2 * seconds, f"{used:.2f} s of CPU time in {seconds:.2f} s"
        # What tells a client where it is needs no place.
        assert "error" not in peer.request("ping" if revision == OLD else "server/discover")
        tool.go.set()
        for connection in connections:
            assert said(Reply(connection)) == "done"


@BOTH
def test_a_client_that_reads_nothing_while_a_tool_sends_10000_events(revision: str) -> None:
    """Its handler is held up; others are served; then its stream ends, and the thread is free."""
    reported: list[int] = []
    cancelled: list[bool] = []
    with standing(http={"stall": 3.0}) as at, at.peer(revision) as peer:

        @at.server.tool
        def speak(ctx: Context) -> str:
            for number in range(10_000):
                ctx.progress(number + 1, 10_000, "x" * 2000)
                reported.append(number)
            cancelled.append(ctx.cancelled)
            return "done"

        with RawHttp(at.port, receive_buffer=4096) as deaf:
            call(peer, "speak", on=deaf)
            assert deaf.receive()
            for _ in range(5):
                assert added(peer) == "42"
            assert len(reported) < 10_000, "nothing held it up"
            assert eventually(lambda: at.app.places.taken == 0)
            assert eventually(at_rest(at))
            # A session goes on without its client; in the modern era that is the end of the request.
            assert cancelled == [revision == MODERN]


def at_rest(at: Standing) -> Callable[[], bool]:
    return lambda: not at.app.modern.connection.responder.serving and not at.app.attendant.watched


def test_the_end_of_an_application_in_the_midst_of_all_that() -> None:
    """Bounded, and no thread is left but those in handlers that do not return."""
    server, seen = faulty(workers=20)
    tool = Blocking(server)

    @server.tool
    def speak(ctx: Context) -> str:
        for number in range(10_000):
            ctx.progress(number + 1, 10_000, "x" * 2000)
        return "done"

    with Errors() as errors, contextlib.ExitStack() as stack:
        at = stack.enter_context(endpoint(server, sse_path="/sse"))
        stack.callback(tool.go.set)
        stack.callback(seen.go.set)
        peers = [stack.enter_context(Peer(at.port, revision)) for revision in ERAS]
        silent, streams = [], []
        for peer in peers:
            silent += [call(peer, "block"), call(peer, "block", {"says": 1}), call(peer, "hold")]
            streams.append(stack.enter_context(listen(peer)))
            deaf = stack.enter_context(RawHttp(at.port, receive_buffer=4096))
            call(peer, "speak", on=deaf)
            assert deaf.receive()
        assert tool.all_begun(4)
        assert seen.all_begun(2)
        begun = time.monotonic()
        at.app.close(0.2)
        assert time.monotonic() - begun < PATIENCE
        for stream in streams:
            assert isinstance(stream.events(), list), "a stream that lasts has its end"
        for connection in silent:
            with Reply(connection) as reply:
                assert reply.status in (200, 503)
                assert b'"result"' not in reply.body()
        at.http.close(0.1)
        assert eventually(lambda: len(threads_named("mcp_ref http ")) == 4), threads_named("mcp_ref")
        assert threads_named("mcp_ref attendant", "mcp_ref worker", "mcp_ref sessions") == []
        tool.go.set()
        assert eventually(lambda: threads_named("mcp_ref http ") == [])
    assert errors.lines == []


# ------------------------------------------------------------------------- threads of a tool


@BOTH
def test_two_threads_of_one_tool_that_report_at_once(revision: str) -> None:
    """Each event is whole, each thread's are in order, and the answer is the last."""
    problems: list[BaseException] = []
    with standing() as at, at.peer(revision) as peer:

        @at.server.tool
        def both(ctx: Context) -> str:
            together = threading.Barrier(2)

            def speak(name: str) -> None:
                try:
                    together.wait(PATIENCE)
                    for number in range(200):
                        ctx.notify("vendor/said", {"by": name, "number": number})
                        ctx.progress(number + 1)
                except BaseException as problem:
                    problems.append(problem)

            threads = [threading.Thread(target=speak, args=(name,)) for name in "ab"]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(PATIENCE)
            return "done"

        with Reply(call(peer, "both")) as reply:
            *messages, answer = reply.messages()
    assert problems == []
    assert answer["result"]["content"][0]["text"] == "done"
    told = [message["params"] for message in messages if message["method"] == "vendor/said"]
    for name in "ab":
        assert [each["number"] for each in told if each["by"] == name] == list(range(200))
    reports = [m["params"]["progress"] for m in messages if m["method"] == "notifications/progress"]
    assert reports == sorted(set(reports)), "progress only ever grows"
    assert reports[-1] == 200


@BOTH
@pytest.mark.parametrize("says", [0, 1], ids=["JSON", "events"])
def test_threads_that_still_speak_after_their_tool_has_returned(revision: str, says: int) -> None:
    """Nothing of it is sent, on this connection or another, and nothing is raised."""
    go, problems, threads = threading.Event(), [], []
    with standing() as at, at.peer(revision) as peer:

        @at.server.tool
        def leaves_threads(ctx: Context) -> str:
            def speak(number: int) -> None:
                try:
                    assert go.wait(PATIENCE)
                    for _ in range(20):
                        ctx.progress(100 + number)
                        ctx.notify("vendor/late", {})
                        ctx.close_stream()
                except BaseException as problem:
                    problems.append(problem)

            for number in range(says):
                ctx.progress(number + 1)
            threads.extend(threading.Thread(target=speak, args=(number,)) for number in range(4))
            for thread in threads:
                thread.start()
            return "done"

        with at.raw() as connection:
            with Reply(call(peer, "leaves_threads", on=connection), keep=True) as reply:
                assert len(reply.messages()) == says + 1
            go.set()
            for thread in threads:
                thread.join(PATIENCE)
                assert not thread.is_alive()
            assert added(peer, on=connection) == "42"
        assert problems == []
        if peer.session is not None:
            with peer.get() as stream:
                at.server.add_tool(lambda: "x", name="another")
                first = stream.message()
                assert first is not None and first["method"] == "notifications/tools/list_changed"


def test_a_stream_that_is_resumed_while_its_handler_still_writes() -> None:
    """Each event once and in order, however often the client is cut off, wherever that is."""
    count = 400
    with standing() as at, at.peer(OLD) as peer:

        @at.server.tool
        def speak(ctx: Context) -> str:
            for number in range(count):
                ctx.progress(number + 1)
                if number % 10 == 0:
                    threading.Event().wait(0.002)
            return "done"

        reply, heard, last, connections = Reply(call(peer, "speak")), [], None, 0
        while "result" not in (heard[-1] if heard else {}):
            with reply:
                for _ in range(15):
                    event = reply.event()
                    if event is None:
                        break
                    last = event.id
                    if event.data:
                        heard.append(event.message)
            connections += 1
            reply = peer.get(last)
        reply.close()
    assert connections > 5
    assert [message["params"]["progress"] for message in heard[:-1]] == list(range(1, count + 1))


# ------------------------------------------------------------------------- write() refused


def _returns_none(start: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *head: start(*head) and None


def _raises(start: Callable[..., Any]) -> Callable[..., Any]:
    def write(piece: bytes) -> None:
        raise RuntimeError("this middleware has no write")

    return lambda *head: start(*head) and write


def _swallows(start: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *head: start(*head) and (lambda piece: None)


FIRST = {"progress": "steps", "a question": "asks", "silence": "silent", "close_stream": "releases"}
"""The tool that would be the first to write something."""


@pytest.mark.parametrize("refuse", [_returns_none, _raises, _swallows])
@pytest.mark.parametrize("first", FIRST)
def test_a_middleware_that_refuses_write(refuse: Any, first: str) -> None:
    """It is said once in the log; then answers are JSON, progress goes unsaid, and a question is an error."""
    server, _ = faulty()
    problems: list[str] = []

    @server.tool
    def asks(ctx: Context) -> str:
        try:
            return ctx.elicit("Sure?").action
        except Exception as problem:
            problems.append(type(problem).__name__)
            return f"no: {problem}"

    @server.tool
    def silent() -> str:
        threading.Event().wait(0.5)
        assert eventually(lambda: errors.lines)  # the attendant has tried to say something
        return "done"

    @server.tool
    def releases(ctx: Context) -> str:
        try:
            return str(ctx.close_stream())
        except Exception as problem:
            problems.append(type(problem).__name__)
            raise

    def application(environ: Json, start: Callable[..., Any]) -> Iterable[bytes]:
        found: Iterable[bytes] = app(environ, refuse(start))
        return found

    app = server.wsgi_app(keep_alive=0.1 if first == "silence" else 15.0)
    with Errors() as errors, serving(application) as at:
        try:
            with Peer(at.port, OLD, capabilities={"elicitation": {}}) as peer, Peer(at.port) as modern:
                for _ in range(3):
                    tool = FIRST[first]
                    with Reply(call(peer, tool, {"to": 3} if tool == "steps" else None)) as reply:
                        assert "result" in reply.json()
                assert len(errors.lines) == 1
                assert "nothing can be sent before an answer" in errors.lines[0]
                for each in (peer, modern):
                    with Reply(call(each, "steps", {"to": 5})) as reply:
                        assert reply.json()["result"]["content"][0]["text"] == "done"
                with Reply(call(peer, "asks")) as reply:
                    assert reply.json()["result"]["content"][0]["text"].startswith("no: ")
                assert set(problems) <= {"LocalError", "WriteRefused"}
                assert problems[-1] == "LocalError"
                with peer.get() as stream:  # what lasts is returned, and needs no write
                    assert stream.block() is not None
                assert added(peer) == added(modern) == "42"
        finally:
            app.close(0.0)
    assert len(errors.lines) == 1


# ------------------------------------------------------------------------- how many at once


@BOTH
def test_a_ping_is_answered_while_all_places_are_taken(revision: str) -> None:
    with standing(server={"workers": 1, "queue": 0}) as at, at.peer(revision) as peer, blocking(at) as tool:
        held = call(peer, "block")
        assert tool.all_begun()
        with peer.call("add", {"a": 1, "b": 1}) as refused:
            assert refused.status == 503
            assert int(refused.headers["retry-after"]) > 0
        for _ in range(3):
            with peer.ask("ping" if revision == OLD else "server/discover") as reply:
                assert "result" in reply.answer()
        tool.go.set()
        assert said(Reply(held)) == "done"


@BOTH
@pytest.mark.parametrize("answers", ["auto", "json", "stream"])
def test_one_more_request_than_may_run_waits_and_is_then_served(revision: str, answers: str) -> None:
    with (
        standing(server={"workers": 2, "queue": 1}, answers=answers) as at,
        at.peer(revision) as peer,
        blocking(at) as tool,
    ):
        held = [call(peer, "block") for _ in range(2)]
        assert tool.all_begun(2)
        third = call(peer, "add", {"a": 20, "b": 22})
        assert eventually(lambda: at.app.places.taken == 3)
        tool.go.set()
        assert said(Reply(third)) == "42"
        for connection in held:
            assert said(Reply(connection)) == "done"


@BOTH
def test_requests_wait_in_the_order_in_which_they_came(revision: str) -> None:
    order: list[int] = []
    with standing(server={"workers": 1, "queue": 10}) as at, at.peer(revision) as peer, blocking(at) as tool:

        @at.server.tool
        def note(number: int) -> str:
            order.append(number)
            return "noted"

        held = call(peer, "block")
        assert tool.all_begun()
        waiting = []
        for number in range(5):
            waiting.append(call(peer, "note", {"number": number}))
            assert eventually(lambda: at.app.places.taken == len(waiting) + 1)
        tool.go.set()
        for connection in (held, *waiting):
            Reply(connection).answer()
    assert order == list(range(5))


@BOTH
def test_a_request_that_waited_for_too_long_is_told_when_to_come_back(
    revision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(places, "TURN_SECONDS", 0.1)
    with standing(server={"workers": 1, "queue": 5}) as at, at.peer(revision) as peer, blocking(at) as tool:
        held = call(peer, "block")
        assert tool.all_begun()
        with peer.call("add", {"a": 1, "b": 1}) as reply:
            assert (reply.status, reply.headers["retry-after"]) == (503, "1")
            assert "1 calls run, which is the limit" in reply.json()["error"]["message"]
        assert at.app.places.taken == 1
        tool.go.set()
        assert said(Reply(held)) == "done"


@BOTH
def test_with_so_many_threads_one_less_have_calls(revision: str) -> None:
    """The last one is for what ends the others: an answer, a cancellation."""
    with standing(threads=3) as at, at.peer(revision) as peer, blocking(at) as tool:
        held = [call(peer, "block") for _ in range(2)]
        assert tool.all_begun(2)
        with peer.call("add", {"a": 1, "b": 1}) as refused:
            assert (refused.status, refused.headers["retry-after"]) == (503, "1")
            assert "2 of 3 threads are taken" in refused.json()["error"]["message"]
        assert peer.tell({"method": "notifications/vendor"}) == 202
        tool.go.set()
        for connection in held:
            assert said(Reply(connection)) == "done"
        assert eventually(lambda: at.app.places.taken == 0)
        assert added(peer) == "42"


def test_with_one_thread_there_are_calls_and_no_questions() -> None:
    with standing(threads=1) as at, at.peer(OLD, capabilities={"elicitation": {}}) as peer:
        assert added(peer) == "42"
        with peer.call("ask", {"timeout": 5.0}) as reply:
            result = reply.answer()["result"]
    assert result["isError"]
    assert "has one thread" in result["content"][0]["text"]
