"""Clients that behave badly, over HTTP: each is survived, and what it leaves behind is cleared away.

Wrong sessions and events, clients that vanish, that are slow, that never answer or too late. Many clients at
once are in test_http_faults_load.
"""

from __future__ import annotations

import contextlib
import functools
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from http_faults import ERAS, OLD, Standing, added, standing
from http_peers import Peer, RawHttp, Reply
from peers import LEGACY, MODERN, PATIENCE, Json, eventually, one_sentence

from mcp_ref import Denied
from mcp_ref.basic.transports.streamable_http import responding
from mcp_ref.basic.transports.streamable_http.responding import HttpStream

BOTH = pytest.mark.parametrize("revision", ERAS)
SESSIONS = pytest.mark.parametrize("revision", LEGACY[1:])
WAYS = pytest.mark.parametrize("way", ["FIN", "RST"])
FORM = {"elicitation": {}}
REPORTS = {"progressToken": "p"}


def leave(connection: RawHttp, way: str) -> None:
    """Be gone: with a goodbye or without."""
    (connection.reset if way == "RST" else connection.close)()


def refusal(reply: Reply) -> tuple[int, str]:
    with reply:
        return reply.status, one_sentence(reply.json()["error"]["message"])


# ---------------------------------------------------------------------- sessions and events


@SESSIONS
@pytest.mark.parametrize("wrong", ["x", "0", "é", "\x80\xff", "a b", "x" * 60_000, "../..", "%00", ","])
def test_a_session_that_is_none(revision: str, wrong: str) -> None:
    """Whatever is asked in it."""
    with standing() as at, at.peer(revision) as peer:
        other = Peer(at.port, revision, opens=False)
        other.session = wrong
        with other:
            requests: list[Callable[[], Reply]] = [
                lambda: other.ask("ping"),
                lambda: other.ask("initialize", {"protocolVersion": revision}),
                lambda: other.post({"jsonrpc": "2.0", "method": "notifications/initialized"}),
                lambda: other.post({"jsonrpc": "2.0", "id": 1, "result": {}}),
                other.get,
                lambda: other.get("x-1"),
                lambda: other.http("DELETE"),
            ]
            for request in requests:
                status, said = refusal(request())
                assert (status, "initialize" in said) == (404, True)
        assert peer.request("ping") == {}


@SESSIONS
def test_a_session_that_is_over(revision: str) -> None:
    with standing() as at, at.peer(revision) as peer:
        assert peer.delete() == 204
        for _ in range(2):
            assert peer.delete() == 404
            assert refusal(peer.ask("ping"))[0] == 404
            assert refusal(peer.get())[0] == 404


@SESSIONS
def test_a_session_of_somebody_else(revision: str) -> None:
    """It is as if there were none: nobody learns which there are."""

    def authenticate(request: Any) -> str:
        if "Authorization" not in request.headers:
            raise Denied("who are you?")
        return str(request.headers["Authorization"])

    with (
        standing(authenticate=authenticate) as at,
        at.peer(revision, headers={"Authorization": "a"}) as mine,
        at.peer(revision, headers={"Authorization": "b"}) as thief,
    ):
        own, thief.session = thief.session, mine.session
        assert refusal(thief.ask("ping"))[0] == 404
        assert refusal(thief.get())[0] == 404
        assert thief.delete() == 404
        thief.session = own
        assert mine.request("ping") == {}


def begun_stream(at: Standing, peer: Peer, says: int = 2) -> tuple[Reply, list[str]]:
    """A call that says something and goes on; and the ids of its events so far."""
    reply = peer.call("hold", {"says": says}, REPORTS)
    ids: list[str] = []
    while len(ids) < says:
        event = reply.event()
        assert event is not None
        assert event.id is not None
        if event.data:
            ids.append(event.id)
    assert at.seen.all_begun()
    return reply, ids


@SESSIONS
def test_an_event_id_of_another_session(revision: str) -> None:
    """Refused, and of the other's stream nothing is heard, nor is it disturbed."""
    with standing() as at, at.peer(revision) as mine, at.peer(revision) as other:
        reply, ids = begun_stream(at, mine)
        for event_id in ids:
            assert refusal(other.get(event_id))[0] == 400
        at.seen.go.set()
        assert reply.answer()["result"]["content"][0]["text"] == "held"


@SESSIONS
@pytest.mark.parametrize(
    "forged",
    [
        *("0", "-", "{id}x", "{id}-1", "{id}, {id}", "{upper}", "{other}-1", "é", "\x80\xff"),
        *(
            "{name}-0{number}",
            "{name}-00",
            "{name}-99",
            "{name}--1",
            "{name}-",
            "{name}-1e0",
            "{name}-+1",
            "{name}-٣",
            "{name}-0x1",
        ),
        *("{name}-1\t1", "{name}-" + "9" * 60_000, "x" * 60_000),
    ],
    ids=lambda value: ascii(value)[1:15],
)
def test_a_last_event_id_that_is_forged_huge_or_not_ascii(revision: str, forged: str) -> None:
    """400, and the stream that was meant goes on where it is."""
    with standing() as at, at.peer(revision) as peer:
        reply, ids = begun_stream(at, peer)
        name, _, number = ids[-1].rpartition("-")
        other = f"{name.rpartition('-')[0]}-77"
        wanted = forged.format(id=ids[-1], name=name, number=number, other=other, upper=f"X{ids[-1]}".upper())
        status, said = refusal(peer.get(wanted.encode().decode("latin-1")))
        assert (status, "Last-Event-ID" in said) == (400, True)
        assert len(said) < 300
        at.seen.go.set()
        assert reply.answer()["result"]["content"][0]["text"] == "held"


@SESSIONS
@pytest.mark.parametrize("empty", ["", " "])
def test_an_empty_last_event_id_is_none(revision: str, empty: str) -> None:
    """By the SSE standard it says that no event was seen: the stream of the session opens."""
    with standing() as at, at.peer(revision) as peer:
        reply, _ = begun_stream(at, peer)
        with peer.get(empty) as stream:
            assert (stream.status, stream.is_stream) == (200, True)
            at.server.add_tool(lambda: "new", name="new")
            told = stream.message()
            assert told is not None
            assert told["method"] == "notifications/tools/list_changed"
        at.seen.go.set()
        assert reply.answer()["result"]["content"][0]["text"] == "held"


@SESSIONS
def test_an_event_that_is_too_old_to_be_kept(revision: str) -> None:
    """The log is bounded: what went out of it cannot be had, and is refused instead of skipped."""
    with standing(log_bytes=20_000) as at, at.peer(revision) as peer:
        with peer.call("steps", {"to": 200}, REPORTS) as reply:
            ids = [event.id for event in reply.events() if event.data]
        assert len(ids) == 201
        assert refusal(peer.get(ids[0]))[0] == 400
        with peer.get(ids[-3]) as rest:
            assert [event.id for event in rest.events()] == ids[-2:]


def test_two_who_resume_one_stream_at_once() -> None:
    """The last one has it; the others' responses end, and nothing is said twice on one of them."""
    with standing() as at, at.peer(OLD) as peer:
        first, ids = begun_stream(at, peer)
        replies = [peer.get(ids[0]) for _ in range(10)]
        at.seen.go.set()
        heard = [reply.messages() for reply in (first, *replies)]
        answered = [messages for messages in heard if messages and "result" in messages[-1]]
        assert len(answered) == 1
        for messages in heard:
            steps = [m["params"]["progress"] for m in messages if "method" in m]
            assert steps == sorted(set(steps))


# --------------------------------------------------------------------- clients that vanish


@WAYS
@pytest.mark.parametrize("says", [0, 3], ids=["a silent tool", "a tool that talks"])
@pytest.mark.parametrize("answers", ["auto", "stream", "json"])
def test_a_modern_client_that_vanishes_has_cancelled(way: str, says: int, answers: str) -> None:
    """Noticed soon, also while the tool is silent; its thread is free then."""
    with standing(answers=answers) as at, at.peer(MODERN) as peer:
        message = peer.message("tools/call", {"name": "hold", "arguments": {"says": says}, "_meta": REPORTS})
        connection = peer.send("POST", message)
        assert at.seen.all_begun()
        if says and answers != "json":
            assert Reply(connection, keep=True).message() is not None
        leave(connection, way)
        assert at.seen.cancelled.acquire(timeout=PATIENCE)
        assert eventually(at.is_quiet)
        assert not at.seen.finished.acquire(blocking=False)


def test_a_modern_client_that_has_sent_ahead_and_vanishes() -> None:
    """The next request, which waits unread, does not hide that nobody is there."""
    with standing() as at, at.peer(MODERN) as peer:
        connection = peer.send("POST", peer.message("tools/call", {"name": "hold"}))
        assert at.seen.all_begun()
        peer.send("POST", peer.message("tools/call", {"name": "hold"}), on=connection)
        connection.socket.shutdown(socket.SHUT_WR)
        begun = time.monotonic()
        assert at.seen.cancelled.acquire(timeout=PATIENCE)
        assert time.monotonic() - begun < PATIENCE / 2
        connection.close()
        assert eventually(at.is_quiet)


def test_modern_clients_that_vanish_while_their_calls_wait_for_their_turn() -> None:
    """None of those calls is ever run."""
    with standing(server={"workers": 1}) as at, at.peer(MODERN) as peer:
        held = peer.send("POST", peer.message("tools/call", {"name": "hold"}))
        assert at.seen.all_begun()
        waiting = [peer.send("POST", peer.message("tools/call", {"name": "hold"})) for _ in range(10)]
        assert eventually(lambda: at.app.places.taken == 11)
        for connection in waiting:
            connection.close()
        assert eventually(lambda: at.app.places.taken == 1)
        at.seen.go.set()
        assert Reply(held).answer()["result"]["content"][0]["text"] == "held"
        assert added(peer) == "42"
        assert not at.seen.begun.acquire(blocking=False)


@pytest.mark.parametrize("when", ["before it begins", "as it begins"])
def test_a_modern_client_that_vanishes_as_its_call_begins_has_cancelled_it(
    when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The attendant sees that the client has left when there is no request to cancel yet; and only once."""
    begins, left = HttpStream.begins, threading.Event()

    def leave_first(stream: HttpStream, context: Any) -> None:
        watched = stream.reader() or stream
        steps = [watched.client_left, functools.partial(begins, stream, context)]
        for step in steps if when == "before it begins" else reversed(steps):
            step()
        left.set()

    with standing() as at, at.peer(MODERN) as peer:
        for method, params in (
            ("tools/call", {"name": "hold"}),
            ("subscriptions/listen", {"notifications": {"toolsListChanged": True}}),
        ):
            left.clear()
            with monkeypatch.context() as patched:
                patched.setattr(HttpStream, "begins", leave_first)
                held = peer.send("POST", peer.message(method, params))
                assert left.wait(PATIENCE)
            assert eventually(lambda: (at.app.places.taken, at.app.places.streams) == (0, 0))
            assert not at.seen.begun.acquire(blocking=False)
            assert at.app.modern.connection.responder.serving == {}
            held.close()
        assert at.server.listeners._streams == {}
        assert added(peer) == "42"


@WAYS
@SESSIONS
@pytest.mark.parametrize("answers", ["auto", "stream", "json"])
def test_a_legacy_client_that_vanishes_has_not_cancelled_and_comes_back(
    way: str, revision: str, answers: str
) -> None:
    """The tool goes on; what it says meanwhile and its answer are had by whoever resumes the stream."""
    with standing(answers=answers) as at, at.peer(revision) as peer:
        if answers == "json":
            message = peer.message("tools/call", {"name": "hold", "arguments": {}})
            leave(peer.send("POST", message), way)
            assert at.seen.all_begun()
        else:
            reply, ids = begun_stream(at, peer)
            leave(reply.connection, way)
        assert eventually(lambda: not at.app.attendant.watched)
        at.seen.go.set()
        assert at.seen.finished.acquire(timeout=PATIENCE)
        assert not at.seen.cancelled.acquire(blocking=False)
        if answers != "json":
            with peer.get(ids[0]) as rest:
                messages = rest.messages()
            assert [m["params"]["progress"] for m in messages[:-1]] == [2, 3, 4]
            assert messages[-1]["result"]["content"][0]["text"] == "held"


@WAYS
@pytest.mark.parametrize("revision", [OLD, MODERN])
def test_a_client_that_vanishes_from_a_stream_that_says_nothing(way: str, revision: str) -> None:
    """GET in a session, subscriptions/listen in the modern era."""
    with standing() as at, at.peer(revision) as peer:
        if revision == OLD:
            reply = peer.get()
        else:
            reply = peer.ask("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
        assert reply.block() is not None
        leave(reply.connection, way)
        begun = time.monotonic()
        assert eventually(lambda: at.app.places.taken == 0)
        assert time.monotonic() - begun < PATIENCE / 2
        assert eventually(at.is_quiet)


@WAYS
@BOTH
def test_a_client_that_vanishes_within_each_part_of_a_request(way: str, revision: str) -> None:
    with standing() as at, at.peer(revision) as peer, at.raw() as whole:
        message = peer.message("tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}})
        sent: list[bytes] = []
        recorder: Any = type("Recorder", (), {"send": lambda self, data: sent.append(data)})()
        peer.send("POST", message, on=recorder)
        for size in range(0, len(sent[0]), 7):
            with at.raw() as client:
                leave(client.send(sent[0][:size]), way)
        for _ in range(20):  # and before the answer, which is on its way
            leave(at.raw().send(sent[0]), way)
        assert added(peer, on=whole) == "42"
        assert eventually(lambda: at.http.connections == 1)


@BOTH
def test_a_client_that_reads_nothing_of_its_stream(revision: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tool waits for it, but not for ever; then its thread is free, and others were served all along."""
    monkeypatch.setattr(responding, "ROOM", 100_000)
    monkeypatch.setattr(responding, "STALL", 0.3)
    with standing(http={"stall": 0.3}) as at, at.peer(revision) as peer:
        message = peer.message(
            "tools/call", {"name": "steps", "arguments": {"to": 100_000}, "_meta": REPORTS}
        )
        with RawHttp(at.port, receive_buffer=4096) as deaf:
            peer.send("POST", message, on=deaf)
            assert deaf.socket.recv(1, socket.MSG_PEEK)
            at.answers()
            assert eventually(lambda: at.app.places.taken == 0)
            assert eventually(lambda: not at.app.modern.connection.responder.serving)


# ------------------------------------------------------------------------ clients that are slow


@contextlib.contextmanager
def dripping(clients: list[RawHttp], data: bytes) -> Iterator[None]:
    """All of them send a byte now and then, as long as they can."""
    stop = threading.Event()

    def drip() -> None:
        at, alive = 0, list(clients)
        while alive and not stop.wait(0.01):
            for client in list(alive):
                try:
                    client.send(data[at % len(data) : at % len(data) + 1])
                except OSError:
                    alive.remove(client)
            at += 1

    thread = threading.Thread(target=drip)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(PATIENCE)


SLOW = {
    "a head without end": (b"POST /mcp HTTP/1.1\r\n", b"X-Slow: x\r\n"),
    "a header without end": (b"POST /mcp HTTP/1.1\r\nX-Slow: ", b"x"),
    "a body": (b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 60000\r\n", b"x"),
    "a large body": (b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 500000\r\n", b"x"),
    "a body in chunks": (
        b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n",
        b"1\r\nx\r\n",
    ),
}


@pytest.mark.parametrize("kind", SLOW)
def test_slow_loris(kind: str) -> None:
    """50 clients that send a byte now and then are given up in time; others are served meanwhile."""
    opening, drop = SLOW[kind]
    if b"Host" in opening:
        opening += b"Content-Type: application/json\r\n\r\n"
    with standing(http={"patience": 0.3}) as at, contextlib.ExitStack() as stack:
        clients = [stack.enter_context(at.raw()).send(opening) for _ in range(50)]
        with dripping(clients, drop):
            at.answers()
            for client in clients:
                assert client.response().status == 408
        assert eventually(at.is_quiet)


def test_connections_on_which_nothing_is_asked() -> None:
    """An idle connection is ended, without a word: after a request or before one."""
    with standing(http={"idle": 0.2}) as at, at.peer(MODERN) as peer, contextlib.ExitStack() as stack:

        def asked() -> RawHttp:
            for _ in range(20):  # until one is used before its time is over
                client = stack.enter_context(at.raw())
                with contextlib.suppress(EOFError, ConnectionError):
                    assert added(peer, on=client) == "42"
                    return client
            raise AssertionError("no connection is served")

        for client in [*(asked() for _ in range(25)), *(stack.enter_context(at.raw()) for _ in range(25))]:
            assert client.ended()
        at.http.limits = at.http.limits._replace(idle=PATIENCE)  # for those who look whether it still answers


# ------------------------------------------------- questions that are answered late, or never


def asking(peer: Peer, timeout: float) -> tuple[Reply, Json]:
    """A call that asks its client something, and the question."""
    reply = peer.call("ask", {"timeout": timeout})
    question = reply.message()
    assert question is not None
    assert question["method"] == "elicitation/create"
    return reply, question


@pytest.mark.parametrize("revision", ["2025-06-18", OLD])
def test_a_question_that_is_never_answered(revision: str) -> None:
    """It times out, the client is told, and the thread is free: as many are asked as there are workers."""
    with standing(server={"workers": 4}) as at, at.peer(revision, capabilities=FORM) as peer:
        asked = [asking(peer, 0.3) for _ in range(4)]
        for reply, question in asked:
            *notices, answer = reply.messages()
            assert answer["result"]["isError"] is True
            assert "no answer within 0.3 s" in answer["result"]["content"][0]["text"]
            assert [notice["params"]["requestId"] for notice in notices] == [question["id"]]
        assert added(peer) == "42"


@pytest.mark.parametrize("revision", ["2025-06-18", OLD])
def test_a_question_that_is_answered_late(revision: str) -> None:
    """Taken, and of no use any more; nor is a second answer."""
    with standing() as at, at.peer(revision, capabilities=FORM) as peer:
        reply, question = asking(peer, 0.1)
        assert reply.answer()["result"]["isError"] is True
        for _ in range(3):
            assert peer.tell({"id": question["id"], "result": {"action": "accept", "content": {}}}) == 202
        reply, question = asking(peer, PATIENCE)
        for action in ("decline", "accept"):
            assert peer.tell({"id": question["id"], "result": {"action": action}}) == 202
        assert reply.answer()["result"]["content"][0]["text"] == "decline"


@pytest.mark.parametrize("revision", ["2025-06-18", OLD])
def test_a_question_that_somebody_else_answers(revision: str) -> None:
    """By its id, in a session of their own: that answers nothing."""
    with standing() as at, at.peer(revision, capabilities=FORM) as peer, at.peer(revision) as other:
        reply, question = asking(peer, PATIENCE)
        assert other.tell({"id": question["id"], "result": {"action": "accept"}}) == 202
        for wrong in (str(question["id"]), 10**9, -1):
            assert peer.tell({"id": wrong, "result": {"action": "accept"}}) == 202
        assert peer.tell({"id": question["id"], "result": {"action": "cancel"}}) == 202
        assert reply.answer()["result"]["content"][0]["text"] == "cancel"


@WAYS
def test_a_client_that_is_asked_and_vanishes(way: str) -> None:
    """It may come back for the question, which waits in the stream, and answer it."""
    with standing() as at, at.peer(OLD, capabilities=FORM) as peer:
        with peer.call("ask", {"timeout": PATIENCE}) as reply:
            primed = reply.event()
            assert primed is not None
            leave(reply.connection, way)
        with peer.get(primed.id) as rest:
            question = rest.message()
            assert question is not None
            assert peer.tell({"id": question["id"], "result": {"action": "decline"}}) == 202
            assert rest.answer()["result"]["content"][0]["text"] == "decline"
