"""What must hold wherever the application is deployed: each deployment's test file inherits these.

Nothing here waits for luck: a tool ends when the test tells it to, and the test tells it to when it has seen
what the tool said before. What a proxy or a server held back would never be seen.
"""

from __future__ import annotations

import contextlib
import gzip
import itertools
import json
import time
from typing import Any

import pytest
from deploy.places import Place
from deploy.wire import Answer, Session, get, modern
from peers import LEGACY, META, MODERN, eventually, nothing_left

from mcp_ref import connect

__all__ = ["Checks", "Ends", "ask", "call", "text"]

NOTICED = 6.0
"""Seconds in which a tool must have learned that its client left: one, and what a busy machine adds."""

EXIT = 10.0
"""Seconds in which the process is gone: 3 for what runs, and what its parts need to end."""

_numbers = itertools.count()


def fresh(name: str) -> str:
    """A name that no other test has."""
    return f"{name}{next(_numbers)}"


def call(place: Place, tool: str, arguments: dict[str, Any] | None = None, **meta: Any) -> Answer:
    """A tools/call of the modern era."""
    return modern(place, "tools/call", {"name": tool, "arguments": arguments or {}}, **meta)


def text(result: dict[str, Any]) -> str:
    """The text of a tool's result."""
    said: str = result["content"][0]["text"]
    return said


def ask(place: Place) -> str:
    """A modern call that asks, and the same with the answer; what came of it."""
    able = {"io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}}}
    with call(place, "book", **able) as answer:
        asked = answer.result()
    assert asked["resultType"] == "input_required"
    (key,) = asked["inputRequests"]
    told = {key: {"action": "accept", "content": {"seats": 2}}}
    params = {"name": "book", "arguments": {}, "inputResponses": told, "requestState": asked["requestState"]}
    with modern(place, "tools/call", params, 2, **able) as answer:
        return text(answer.result())


def packed_post(place: Place, data: bytes, coding: str, framing: str, transfer: str = "chunked") -> Answer:
    """A modern server/discover, whose body has (or says it has) this coding."""
    headers = {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": MODERN,
        "Mcp-Method": "server/discover",
        "Content-Encoding": coding,
    }
    if framing == "chunks":
        headers["Transfer-Encoding"] = transfer
        half = len(data) // 2
        pieces = (data[:half], data[half:])
        data = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"
    return Answer(place, "POST", "/mcp", headers, data)


class Checks:
    """Inherit, and say with `start` what is started, once for the class: the fixture `place`."""

    start: Any = None
    can_end_early = True
    """Whether the server has a way to end a response whose handler still runs."""

    # -- answers -------------------------------------------------------------------------

    def test_a_modern_call_is_answered_with_json(self, place):
        with call(place, "add", {"a": 2, "b": 3}) as answer:
            assert answer.status == 200
            assert text(answer.json()["result"]) == "5"

    def test_a_large_message_goes_both_ways(self, place):
        """More than a proxy keeps in memory."""
        words = "words " * 100_000
        with call(place, "echo", {"words": words}) as answer:
            assert text(answer.result()) == words
            assert answer.whole

    @pytest.mark.parametrize("revision", LEGACY[1:])
    def test_a_legacy_session_opens_calls_and_ends(self, place, revision):
        session = Session(place, revision)
        assert (session.opened["protocolVersion"], session.opening) == (revision, 202)
        with session.call("add", {"a": 2, "b": 3}) as answer:
            assert text(answer.result()) == "5"
        assert session.close() in (200, 202, 204)
        with session.call("add", {"a": 2, "b": 3}) as answer:
            assert answer.status == 404

    @pytest.mark.parametrize("framing", ["length", "chunks"])
    @pytest.mark.parametrize("packed", [True, False], ids=["gzip", "plain"])
    def test_a_body_that_says_it_is_packed_is_refused_however_it_is_framed(self, place, framing, packed):
        message = {"jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": {"_meta": META}}
        body = json.dumps(message).encode()
        for data in (body, gzip.compress(body)) if packed else ():
            with packed_post(place, data, "gzip", framing) as answer:
                assert answer.status == 415
        with packed_post(place, body, "identity", framing) as answer:
            assert "result" in answer.json()

    @pytest.mark.parametrize("coding", ["gzip, chunked", "deflate, chunked"])
    def test_a_body_in_chunks_that_says_they_are_packed_is_refused(self, place, coding):
        """gunicorn, and the server that comes with Flask, take off the chunks and leave the rest to us."""
        message = {"jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": {"_meta": META}}
        with packed_post(place, json.dumps(message).encode(), "identity", "chunks", coding) as answer:
            assert answer.status == 501

    def test_the_health_path_answers(self, place):
        with get(place, "/health") as answer:
            assert answer.status == 200

    # -- streams ---------------------------------------------------------------------------

    @pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
    def test_progress_arrives_before_the_end(self, place, revision):
        name = fresh("talking")
        if revision == MODERN:
            answer = call(place, "talking", {"name": name}, progressToken="t")
        else:
            answer = Session(place, revision).call("talking", {"name": name}, progressToken="t")
        with answer:
            first = answer.message()
            while first is not None and first["method"] != "notifications/progress":
                first = answer.message()
            assert first is not None and first["params"]["progress"] == 1
            assert not place.has(f"{name}.finished")
            place.go(name)
            assert text(answer.rest()[-1]["result"]) == f"{name} is done"
            assert answer.whole

    def test_a_call_that_is_silent_for_long_is_kept_alive(self, place):
        """Its client sees headers and comments before the answer, and so does every proxy between."""
        name = fresh("silent")
        with call(place, "silent", {"name": name}) as answer:
            assert answer.headers["content-type"].startswith("text/event-stream")
            assert answer.piece().startswith(b":")
            assert answer.piece().startswith(b":")
            place.go(name)
            assert text(answer.result()) == f"{name} is done"

    def test_the_get_stream_opens_at_once_and_tells_of_changes(self, place):
        session, name = Session(place), fresh("grown")
        with session.listen() as stream:
            assert (stream.status, stream.headers["content-type"][:17]) == (200, "text/event-stream")
            with session.call("grow", {"name": name}) as answer:
                assert text(answer.result()) == name
            told = stream.message()
            assert told is not None and told["method"] == "notifications/tools/list_changed"

    @pytest.mark.parametrize("revision", LEGACY[1:])
    def test_a_stream_that_is_resumed_while_its_first_connection_is_open_gets_its_answer(
        self, place, revision
    ):
        """The newest connection has the stream; the first one ends, and has no part of what came after."""
        session, name = Session(place, revision), fresh("talking")
        with session.call("talking", {"name": name}, progressToken="t") as first:
            assert first.message()["params"]["progress"] == 1
            with session.listen(Last_Event_ID=first.last_id) as resumed:
                assert resumed.status == 200
                if self.can_end_early:
                    assert first.rest() == []
                place.go(name)
                (answer,) = resumed.rest()
                assert text(answer["result"]) == f"{name} is done"
            if not self.can_end_early:
                assert first.rest() == []

    def test_a_modern_subscription_tells_of_changes(self, place):
        with modern(place, "subscriptions/listen", {"notifications": {"toolsListChanged": True}}) as stream:
            agreed = stream.message()
            assert agreed is not None and agreed["method"] == "notifications/subscriptions/acknowledged"
            with call(place, "grow", {"name": fresh("grown")}) as answer:
                answer.result()
            told = stream.message()
            assert told is not None and told["method"] == "notifications/tools/list_changed"

    # -- the client of this package ------------------------------------------------------------

    @pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
    def test_our_client_calls_hears_of_progress_and_answers(self, place, revision):
        url, heard = f"http://127.0.0.1:{place.port}/mcp", []
        with (
            nothing_left(),
            connect(url, revision=revision, elicitation=lambda asked: {"seats": 2}) as client,
        ):
            assert client.call_tool("add", {"a": 2, "b": 3}).text == "5"
            copied = client.call_tool("copy", {"files": 2}, on_progress=lambda *told: heard.append(told[0]))
            assert (copied.text, heard) == ("2 files copied", [1, 2])
            assert client.call_tool("book").text == "a table for 2"

    # -- questions ---------------------------------------------------------------------------

    def test_a_legacy_question_is_answered_by_another_post(self, place):
        session = Session(place, elicitation={})
        with session.call("book") as answer:
            question = answer.message()
            assert question is not None and question["method"] == "elicitation/create"
            told = {"action": "accept", "content": {"seats": 2}}
            assert session.send({"id": question["id"], "result": told}) == 202
            assert text(answer.rest()[-1]["result"]) == "a table for 2"

    def test_a_modern_question_is_answered_by_the_call_again(self, place):
        assert ask(place) == "a table for 2"

    # -- clients that leave --------------------------------------------------------------------

    @pytest.mark.parametrize("tool", ["silent", "talking"])
    def test_a_modern_client_that_leaves_cancels_its_call_within_a_second(self, place, tool):
        name = fresh(tool)
        with call(place, tool, {"name": name}, progressToken="t") as answer:
            place.wait(f"{name}.began")
            if tool == "talking":
                assert answer.message() is not None
        place.wait(f"{name}.cancelled", timeout=NOTICED)

    def test_a_legacy_client_that_leaves_cancels_nothing(self, place):
        name, other = fresh("talking"), fresh("silent")
        session = Session(place)
        with session.call("talking", {"name": name}, progressToken="t") as answer:
            assert answer.message() is not None
        with call(place, "silent", {"name": other}):  # by whose end it is known that the server has looked
            place.wait(f"{other}.began")
        place.wait(f"{other}.cancelled")
        assert not place.has(f"{name}.cancelled")
        place.go(name)
        place.wait(f"{name}.finished")

    # -- threads ---------------------------------------------------------------------------------

    def test_the_stream_that_would_take_the_last_threads_is_refused_and_calls_go_on(self, place):
        listening = {"notifications": {"toolsListChanged": True}}
        with contextlib.ExitStack() as streams:

            def listen() -> Answer:
                return streams.enter_context(modern(place, "subscriptions/listen", listening))

            opened = list(itertools.takewhile(lambda a: a.status == 200, (listen() for _ in range(99))))
            refused = listen()
            assert 1 <= len(opened) < place.threads
            assert refused.status == 503 and int(refused.headers["retry-after"]) >= 1
            with Session(place).listen() as answer:
                assert answer.status == 503
            with call(place, "add", {"a": 2, "b": 3}) as answer:
                assert text(answer.result()) == "5"
        assert eventually(lambda: self.may_listen(place, listening)), "no thread came back"

    @staticmethod
    def may_listen(place: Place, listening: dict[str, Any]) -> bool:
        with modern(place, "subscriptions/listen", listening) as answer:
            return answer.status == 200


class Ends:
    """SIGTERM, with streams and calls under way. Inherit, and say with `start` what `own_place` is."""

    start: Any = None

    def test_sigterm_ends_streams_as_the_spec_says_lets_calls_finish_and_leaves_nothing(self, own_place):
        listening = {"notifications": {"toolsListChanged": True}}
        session = Session(own_place)
        with (
            session.listen() as stream,
            modern(own_place, "subscriptions/listen", listening, "sub") as subscription,
            call(own_place, "talking", {"name": "one"}, progressToken="t") as finishing,
            session.call("silent", {"name": "two"}) as legacy,
        ):
            assert stream.status == 200 and subscription.message() is not None
            own_place.wait("one.began", "two.began")
            began = time.monotonic()
            own_place.terminate()
            ended = subscription.rest()
            assert ended[-1]["id"] == "sub" and "result" in ended[-1]
            assert stream.rest() == []
            own_place.go("one")
            own_place.go("two")
            assert text(finishing.rest()[-1]["result"]) == "one is done"
            assert text(legacy.result()) == "two is done"
            assert [a.whole for a in (stream, subscription, finishing, legacy)] == [True] * 4
        assert own_place.exit(EXIT) == 0
        assert time.monotonic() - began < EXIT, own_place.text()

    def test_sigterm_cancels_what_does_not_end_in_time_and_is_the_end_of_what_never_does(self, own_place):
        with (
            call(own_place, "silent", {"name": "one"}),
            Session(own_place).call("silent", {"name": "two"}),
            call(own_place, "stubborn", {"name": "three"}),
        ):
            own_place.wait("one.began", "two.began", "three.began")
            own_place.terminate()
            assert own_place.exit(self.patience) == 0
        assert own_place.has("one.cancelled") and own_place.has("two.cancelled")

    patience = EXIT
    """Seconds until the process is gone although a tool goes on."""
