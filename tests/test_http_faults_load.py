"""More than there is room for, over HTTP: floods, sessions that nobody uses or ends, streams and connections.

What there is no room for is refused, and says when to come back; all else is served, and once it is over the
server is as it was.
"""

from __future__ import annotations

import contextlib
import gc
import threading
import weakref
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from http_faults import ERAS, OLD, added, listen, standing
from http_peers import Peer, Reply
from peers import LEGACY, MODERN, PATIENCE, eventually

from mcp_ref.basic.transports.streamable_http import sessions as http_sessions
from mcp_ref.basic.transports.streamable_http.sessions import HttpSession

BOTH = pytest.mark.parametrize("revision", ERAS)
SESSIONS = pytest.mark.parametrize("revision", LEGACY[1:])
REPORTS = {"progressToken": "p"}


def together(count: int, run: Callable[[int], Any]) -> list[Any]:
    """What `run` returns on so many threads at once. Raises what it raises."""
    results: list[Any] = []
    problems: list[BaseException] = []
    barrier = threading.Barrier(count)

    def one(number: int) -> None:
        try:
            barrier.wait(PATIENCE)
            results.append(run(number))
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=one, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(3 * PATIENCE)
        assert not thread.is_alive()
    if problems:
        raise problems[0]
    return results


def outcome(reply: Reply) -> int:
    """200 for a result, else the code of the error; each refusal says when to come back."""
    with reply:
        answer = reply.answer()
        if "result" in answer:
            assert reply.status == 200
            return 200
        code: int = answer["error"]["code"]
        if reply.status != 200:
            assert int(reply.headers["retry-after"]) > 0
            return reply.status
        assert answer["error"]["data"]["retryAfterMs"] > 0
        return code


# ------------------------------------------------------------------------------------ floods


@BOTH
@pytest.mark.parametrize("answers", ["auto", "stream", "json"])
def test_more_calls_at_once_than_may_run_and_wait(revision: str, answers: str) -> None:
    """Two run, three wait, each of the others is told to come back; nothing is lost, nothing is left."""
    with standing(server={"workers": 2, "queue": 3}, answers=answers) as at, at.peer(revision) as peer:
        held = [peer.send("POST", peer.message("tools/call", {"name": "hold"})) for _ in range(2)]
        assert at.seen.all_begun(2)
        waiting = [peer.send("POST", peer.message("tools/call", {"name": "hold"})) for _ in range(3)]
        assert eventually(lambda: at.app.places.taken == 5)
        found = together(20, lambda number: outcome(peer.call("add", {"a": 1, "b": 1})))
        assert found == [503] * 20
        at.seen.go.set()
        for connection in held + waiting:
            assert Reply(connection).answer()["result"]["content"][0]["text"] == "held"
        assert added(peer) == "42"


@BOTH
def test_a_flood_of_1000_calls(revision: str) -> None:
    """Over 25 connections at once: each is answered exactly once, with its own result or with 503."""
    with standing(server={"workers": 2, "queue": 5}) as at, at.peer(revision) as peer:

        def calls(number: int) -> list[int]:
            found = []
            with at.raw() as connection:
                for count in range(40):
                    arguments = {"a": number * 1000, "b": count}
                    with peer.call("add", arguments, on=connection) as reply:
                        answer = reply.answer()
                    if "result" in answer:
                        assert answer["result"]["content"][0]["text"] == str(number * 1000 + count)
                    found.append(200 if "result" in answer else reply.status)
            return found

        counted = Counter(code for found in together(25, calls) for code in found)
        assert counted.total() == 1000
        assert set(counted) <= {200, 503}
        assert counted[200] > 0


@BOTH
def test_more_calls_than_the_threads_that_the_server_has(revision: str) -> None:
    """One thread stays for what ends the others; 503 for whatever would take it."""
    with standing(threads=4) as at, at.peer(revision) as peer:
        held = [peer.send("POST", peer.message("tools/call", {"name": "hold"})) for _ in range(3)]
        assert at.seen.all_begun(3)
        for _ in range(5):
            assert outcome(peer.call("add", {"a": 1, "b": 1})) == 503
        if revision != MODERN:  # what does not wait is served all along
            assert peer.tell({"method": "notifications/progress", "params": {}}) == 202
        at.seen.go.set()
        for connection in held:
            assert Reply(connection).answer()["result"]["content"][0]["text"] == "held"


@BOTH
def test_more_streams_than_there_may_be(revision: str) -> None:
    """503 with a time to come back; calls are served all along, and a stream that ends makes room."""
    with standing(max_streams=5) as at, contextlib.ExitStack() as stack:
        peers = [stack.enter_context(at.peer(revision)) for _ in range(8)]
        streams = [listen(peer) for peer in peers[:5]]
        for stream in streams:
            assert stream.block() is not None
        for peer in peers[5:]:
            with listen(peer) as refused:
                assert refused.status == 503
                assert int(refused.headers["retry-after"]) > 0
            assert added(peer) == "42"
        streams[0].close()
        assert eventually(lambda: at.app.places.taken == 4)
        with listen(peers[5]) as another:
            assert another.block() is not None
        for stream in streams:
            stream.close()


@BOTH
def test_more_connections_than_there_may_be(revision: str) -> None:
    """503 at once; those that are there are served, and one that ends makes room."""
    with standing(http={"max_connections": 10}) as at, at.peer(revision) as peer:
        assert eventually(lambda: at.http.connections <= 2)
        peer.close()
        assert eventually(lambda: at.http.connections == 0)
        with contextlib.ExitStack() as stack:
            taken = [stack.enter_context(at.raw()) for _ in range(10)]
            for connection in taken:
                assert added(peer, on=connection) == "42"
            for _ in range(30):
                with at.raw() as refused:
                    answer = refused.response()
                    assert (answer.status, answer.headers["connection"]) == (503, "close")
                    assert int(answer.headers["retry-after"]) > 0
            assert added(peer, on=taken[-1]) == "42"
            taken[0].close()
            assert eventually(lambda: at.http.connections == 9)
            assert added(peer) == "42"
        assert eventually(lambda: at.http.connections == 0)


@pytest.mark.parametrize("revision", ["2025-06-18", OLD])
def test_a_flood_of_questions_that_nobody_answers(revision: str) -> None:
    """All that may run wait for an answer; their time ends, others run, and none of the calls is lost."""
    server = {"workers": 8, "queue": 100}
    with standing(server=server) as at, at.peer(revision, capabilities={"elicitation": {}}) as peer:
        found = together(30, lambda number: peer.call("ask", {"timeout": 0.2}).answer())
        assert all(answer["result"]["isError"] for answer in found)


@BOTH
def test_a_flood_of_notifications(revision: str) -> None:
    with standing() as at, at.peer(revision) as peer, at.raw() as connection:
        note = {"jsonrpc": "2.0", "method": "vendor/x", "params": {}}
        for _ in range(1000):
            with peer.post(note, on=connection, Mcp_Method=None) as reply:
                assert reply.status == 202


@BOTH
def test_a_flood_of_requests_that_are_sent_ahead(revision: str) -> None:
    """500 on one connection, none of them waited for: 500 answers, in order."""
    with standing() as at, at.peer(revision) as peer, at.raw() as connection:
        messages = [
            peer.message("tools/call", {"name": "add", "arguments": {"a": number, "b": 0}})
            for number in range(500)
        ]
        sender = threading.Thread(target=lambda: [peer.send("POST", m, on=connection) for m in messages])
        sender.start()
        for message in messages:
            assert Reply(connection, keep=True).answer()["id"] == message["id"]
        sender.join(PATIENCE)


# ------------------------------------------------------------------ sessions that nobody uses


@SESSIONS
def test_500_sessions_without_a_request(revision: str) -> None:
    """Their time is over soon: nothing of them is left, not in memory either."""
    with standing(session_idle=0.3) as at:
        threads = threading.active_count()
        left: weakref.WeakSet[HttpSession] = weakref.WeakSet()
        with at.raw() as connection:
            opener = Peer(at.port, revision, opens=False)
            params = {
                "protocolVersion": revision,
                "capabilities": {},
                "clientInfo": {"name": "x", "version": "1"},
            }
            for _ in range(500):
                opener.session = None
                with opener.post(opener.message("initialize", params), on=connection) as reply:
                    assert reply.answer()["result"]
                left.update(at.app.sessions.all())
        assert eventually(lambda: len(at.app.sessions) == 0)
        assert eventually(lambda: gc.collect() >= 0 and len(left) == 0)
        assert eventually(lambda: threading.active_count() <= threads + 1)  # the attendant stays
        at.app.sessions.idle = PATIENCE  # for those who look whether it still answers


@SESSIONS
def test_as_many_sessions_as_there_may_be(revision: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """503 for one more, with a time to come back. One that was never used makes room after a while."""
    with standing(max_sessions=50, max_sessions_each=50, sessions=50) as at, contextlib.ExitStack() as stack:
        used = [stack.enter_context(at.peer(revision)) for _ in range(49)]
        unused = Peer(at.port, revision, opens=False)
        info = {"name": "x", "version": "1"}
        hello = {"protocolVersion": revision, "capabilities": {}, "clientInfo": info}

        def opened() -> int:
            unused.session = None
            with unused.ask("initialize", hello) as reply:
                assert reply.status == 200 or int(reply.headers["retry-after"]) > 0
                return reply.status

        assert opened() == 200
        for _ in range(5):
            assert opened() == 503
        monkeypatch.setattr(http_sessions, "UNUSED_SECONDS", 0.0)
        for _ in range(5):
            assert opened() == 200
        assert len(at.app.sessions) == 50
        for peer in used:
            assert peer.request("ping") == {}
        assert used[0].delete() == 204
        assert opened() == 200
        unused.close()
        at.app.sessions.limit = 60  # for those who look whether it still answers


@SESSIONS
@pytest.mark.parametrize("named", [True, False], ids=["principal", "address"])
def test_1000_sessions_of_one_client_leave_room_for_others(revision: str, named: bool) -> None:
    """Each is opened, and used once: so it would last for half an hour."""

    def who(request: Any) -> str | None:
        return request.headers.get("X-User") if named else None

    with standing(max_sessions=20, authenticate=who, sessions=12) as at:
        greedy = Peer(at.port, revision, opens=False, headers={"X-User": "greedy"})
        info = {"name": "x", "version": "1"}
        hello = {"protocolVersion": revision, "capabilities": {}, "clientInfo": info}
        statuses = []
        with at.raw() as connection:
            for _ in range(1000):
                greedy.session = None
                with greedy.post(greedy.message("initialize", hello), on=connection) as reply:
                    statuses.append(reply.status)
                    greedy.session = reply.headers.get("mcp-session-id")
                    answer = reply.answer()
                if reply.status == 200:
                    assert greedy.tell({"method": "notifications/initialized"}, on=connection) == 202
                else:
                    assert int(reply.headers["retry-after"]) > 0
                    assert "10 sessions" in answer["error"]["message"]
        assert statuses == [200] * 10 + [429] * 990
        if named:
            with at.peer(revision, headers={"X-User": "modest"}) as modest:
                assert added(modest) == "42"
        at.app.sessions.each = None  # for those who look whether it still answers


@SESSIONS
def test_a_session_does_not_expire_while_a_stream_is_open_or_a_call_runs(revision: str) -> None:
    with (
        standing() as at,
        at.peer(revision) as listening,
        at.peer(revision) as calling,
        at.peer(revision) as idle,
    ):
        stream = listening.get()
        assert stream.block() is not None
        held = calling.send("POST", calling.message("tools/call", {"name": "hold"}))
        assert at.seen.all_begun()
        at.app.sessions.idle = 0.1
        assert eventually(lambda: at.app.sessions.sweep() or len(at.app.sessions) == 2)
        assert idle.session not in {session.id for session in at.app.sessions.all()}
        at.server.tool(lambda: "new", name="another")
        assert stream.message() is not None
        at.seen.go.set()
        assert held.response().status == 200
        stream.close()
        assert eventually(lambda: at.app.sessions.sweep() or len(at.app.sessions) == 0)
        at.app.sessions.idle = PATIENCE  # for those who look whether it still answers
        for peer in (listening, calling, idle):
            with peer.ask("ping") as reply:
                assert reply.status == 404


@SESSIONS
def test_a_session_that_expires_with_what_a_client_left_behind(revision: str) -> None:
    """Its client vanished from a call, and never came back: all of it goes."""
    with standing() as at, at.peer(revision) as peer:
        reply = peer.call("hold", {"says": 2}, REPORTS)
        assert at.seen.all_begun()
        reply.close()
        at.seen.go.set()
        assert at.seen.finished.acquire(timeout=PATIENCE)
        at.app.sessions.idle = 0.0
        assert eventually(lambda: at.app.sessions.sweep() or len(at.app.sessions) == 0)
        at.app.sessions.idle = PATIENCE  # for those who look whether it still answers


# ------------------------------------------------------------------------ DELETE meanwhile


@SESSIONS
@pytest.mark.parametrize("says", [0, 2], ids=["nothing said", "events said"])
def test_delete_while_calls_run(revision: str, says: int) -> None:
    """They are cancelled, their responses and all streams of the session end properly, at once."""
    with standing() as at, at.peer(revision) as peer, at.peer(revision) as other:
        stream = peer.get()
        assert stream.block() is not None
        calls = []
        for each in (peer, peer, peer, other):
            params = {"name": "hold", "arguments": {"says": says}, "_meta": REPORTS}
            calls.append(each.send("POST", each.message("tools/call", params)))
        assert at.seen.all_begun(4)
        assert peer.delete() == 204
        for _ in range(3):
            assert at.seen.cancelled.acquire(timeout=PATIENCE)
        for connection in calls[:3]:
            with Reply(connection) as reply:
                if reply.is_stream:  # it ends, without an answer
                    assert all("method" in message for message in reply.messages())
                else:  # not 404: they were begun
                    assert reply.status == 503
        assert stream.messages() == []
        assert not at.seen.cancelled.acquire(blocking=False)
        at.seen.go.set()
        assert Reply(calls[3]).answer()["result"]["content"][0]["text"] == "held"


def test_delete_and_calls_that_race() -> None:
    """Whichever comes first: a result, 404, or 503 in the middle; nothing hangs, and nothing is left."""
    with standing() as at:
        for _ in range(20):
            with at.peer(OLD) as peer:

                def one(number: int, peer: Peer = peer) -> int:
                    if number == 3:
                        return peer.delete()
                    with peer.call("add", {"a": 1, "b": 1}) as reply:
                        reply.body()
                        return reply.status

                assert set(together(6, one)) <= {200, 204, 404, 503}


# ------------------------------------------------------------------------ one id, two things


@BOTH
def test_two_clients_with_the_same_ids_at_once(revision: str) -> None:
    """Each gets its own answers; what one cancels goes on for the other."""
    with standing() as at, at.peer(revision) as one, at.peer(revision) as two:
        held = []
        for peer in (one, two):
            message = peer.message("tools/call", {"name": "hold", "arguments": {}}, id=7)
            held.append(peer.send("POST", message))
        assert at.seen.all_begun(2)
        threads, answers = [], []
        for peer in (one, two):
            for number in range(20):

                def add(peer: Peer = peer, number: int = number) -> None:
                    params = {"name": "add", "arguments": {"a": number, "b": 0}}
                    with peer.ask("tools/call", params, id=f"same {number}") as reply:
                        answers.append((number, reply.answer()))

                threads.append(threading.Thread(target=add))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
        assert len(answers) == 40
        for number, answer in answers:
            assert (answer["id"], answer["result"]["content"][0]["text"]) == (f"same {number}", str(number))
        if revision == MODERN:
            held[0].close()
        else:
            assert one.tell({"method": "notifications/cancelled", "params": {"requestId": 7}}) == 202
        assert at.seen.cancelled.acquire(timeout=PATIENCE)
        at.seen.go.set()
        assert Reply(held[1]).answer()["result"]["content"][0]["text"] == "held"
        assert at.seen.finished.acquire(timeout=PATIENCE)


# ----------------------------------------------------------------------- batches, in 2025-03-26


@pytest.mark.parametrize("revision", ["2025-03-26"])
@pytest.mark.parametrize("answers", ["auto", "stream", "json"])
def test_batches_that_are_wrong_in_parts(revision: str, answers: str) -> None:
    """What can be answered is, each part for itself; an id that comes twice is refused the second time."""
    with standing(answers=answers) as at, at.peer(revision) as peer:
        right = [peer.message("tools/call", {"name": "add", "arguments": {"a": n, "b": 0}}) for n in range(3)]
        wrong = [5, None, [], {}, {"jsonrpc": "2.0"}, {"jsonrpc": "2.0", "id": 1.5, "method": "ping"}]
        notes = [{"jsonrpc": "2.0", "method": "vendor/x"}, {"jsonrpc": "2.0", "id": 10**6, "result": {}}]
        with peer.post([*right, *wrong, *notes]) as reply:
            answered = [m for found in reply.messages() for m in (found if type(found) is list else [found])]
        assert sum("result" in answer for answer in answered) == 3
        refused = [answer["error"]["code"] for answer in answered if "error" in answer]
        assert refused
        assert set(refused) == {-32600}


@pytest.mark.parametrize("revision", ["2025-03-26"])
@pytest.mark.parametrize("count", [0, 1001, 50_000])
def test_a_batch_of_nothing_or_too_much(revision: str, count: int) -> None:
    pings = [{"jsonrpc": "2.0", "id": number, "method": "ping"} for number in range(count)]
    with standing() as at, at.peer(revision) as peer, peer.post(pings) as reply:
        assert reply.status == 400
        assert "1 to 1000" in reply.json()["error"]["message"]


@pytest.mark.parametrize("revision", ["2025-03-26"])
def test_a_batch_whose_client_vanishes(revision: str) -> None:
    """Nothing in it is cancelled, all of it runs, one request after another."""
    with standing() as at, at.peer(revision) as peer:
        peer.send("POST", [peer.message("tools/call", {"name": "hold"}) for _ in range(5)]).close()
        assert at.seen.all_begun()
        assert eventually(lambda: not at.app.attendant.watched)
        at.seen.go.set()
        for _ in range(5):
            assert at.seen.finished.acquire(timeout=PATIENCE)
