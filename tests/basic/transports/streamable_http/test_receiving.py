"""basic/transports/streamable_http/receiving: what a response is and becomes, and how a client reads one."""

import ast
import inspect
import json
import threading
import time
from types import SimpleNamespace

import pytest
from http_wire import PRIMED
from peers import MODERN, PATIENCE, eventually, nothing_left
from web import JSON, LIMITS, STREAM, opened, result_of, talking, text, web

from mcp_ref import connect
from mcp_ref.basic.index.error_responses import MethodNotFound, TooManyRequests
from mcp_ref.basic.transports.streamable_http import listening, receiving
from mcp_ref.basic.transports.streamable_http import receiving as module
from mcp_ref.basic.transports.streamable_http.receiving import (
    JSON_OBJECT,
    TRANSITIONS,
    Kind,
    ResponseMachine,
    State,
)
from mcp_ref.runtime.errors import ConnectionClosed, InvalidResponse, RequestCancelled, RequestTimeout


@pytest.fixture(autouse=True)
def clean():
    with nothing_left():
        yield


# ------------------------------------------------------------------------------------ the machine

MODERN_KIND = Kind(is_modern=True)
OPENING = b"id: s-1-0\nretry: 55\ndata: \n\n"
WHY = ConnectionClosed("enough")


def machine(kind=PRIMED, names=("s-1",), state=State.UNDECIDED):
    """That of a request, whose client can come back if there are names."""
    return ResponseMachine(kind, state, iter(names) if names else None)


HAPPEN = {
    "say": lambda response: response.say(b"2"),
    "answer": lambda response: response.answer(b"2"),
    "silence": lambda response: response.silence(),
    "refused": lambda response: response.refused(),
    "client_left": lambda response: response.client_left(),
    "release": lambda response: response.release(),
    "resume": lambda response: response.resume("reader", 0),
    "fail": lambda response: response.fail(WHY),
}
CELLS = [(state, event) for state in State for event in HAPPEN]


def named(cell):
    return cell.name if isinstance(cell, State) else str(cell)


def in_state(state):
    """One on which something was said by then, if that is not against the state."""
    response = machine()
    if state in (State.EVENTS, State.DETACHED, State.RESUMED, State.OVER):
        response.say(b"1")
    if state is State.DETACHED:
        response.client_left()
    elif state is State.RESUMED:
        response.resume("reader", 1)
    elif state in (State.JSON, State.OVER):
        response.answer(b"end")
    assert response.state is state
    return response


def test_the_table_that_is_told_is_the_one_that_holds():
    """In the text of the module, to which the documentation leads."""
    lines = inspect.getdoc(receiving).splitlines()
    head = next(number for number, line in enumerate(lines) if line.strip().startswith("state \\ event"))
    events = lines[head].split()[3:]
    told = {}
    for line in lines[head + 1 : head + 1 + len(State)]:
        name, *following = line.split()
        told[State[name]] = {e: State[to] for e, to in zip(events, following, strict=True) if to != "-"}
    assert told == TRANSITIONS
    assert set(events) == set(HAPPEN)


@pytest.mark.parametrize(("state", "event"), CELLS, ids=named)
def test_each_event_leads_where_the_table_says_and_an_empty_cell_raises(state, event):
    response = in_state(state)
    if event in TRANSITIONS[state]:
        HAPPEN[event](response)
        assert response.state is TRANSITIONS[state][event]
    else:
        with pytest.raises(ConnectionClosed, match=f"is {state.value}, there is no more to {event}"):
            HAPPEN[event](response)
        assert response.state is state


def test_the_machine_knows_no_thread_no_socket_and_no_clock():
    [tree] = ast.parse(inspect.getsource(ResponseMachine)).body
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    assert used.isdisjoint({"threading", "socket", "time", "HttpExchange", "Call", "QueueFull"})
    assert "lock" not in inspect.getsource(ResponseMachine).lower()


@pytest.mark.spec(
    "basic/transports/streamable-http/sse-prime-event",
    "basic/transports/streamable-http/sse-retry-before-close",
    "basic/transports/streamable-http/event-id",
)
def test_what_is_said_first_has_the_opening_before_it_and_an_id():
    response = machine()
    assert response.say(b"1\n") == OPENING + b"id: s-1-1\ndata: 1\n\n"
    assert response.say(b"2") == b"id: s-1-2\ndata: 2\n\n"


def test_a_stream_that_cannot_be_resumed_has_no_ids():
    response = machine(MODERN_KIND, names=())
    assert [response.say(b"1"), response.silence(), response.say(b"2")] == [
        *(b"data: 1\n\n", b":\n\n", b"data: 2\n\n")
    ]
    assert (response.name, response.events) == ("", None)


def test_an_event_has_the_name_and_the_stream_the_preface_that_its_kind_says():
    response = machine(Kind(preface=b"data: /x\n\n", event="message"), ())
    assert response.say(b"1") == b"data: /x\n\nevent: message\ndata: 1\n\n"


@pytest.mark.spec("basic/transports/streamable-http/sse-keep-alive")
def test_silence_begins_the_stream_and_then_keeps_it_alive():
    response = machine()
    assert [response.silence(), response.silence()] == [OPENING, b":\n\n"]
    assert response.say(b"1") == b"id: s-1-1\ndata: 1\n\n"


@pytest.mark.spec("basic/transports/streamable-http/sse-terminates-after-response")
@pytest.mark.parametrize("says", [0, 1])
@pytest.mark.parametrize("likes_events", [False, True])
def test_the_answer_alone_is_an_object_and_otherwise_the_last_event(says, likes_events):
    response = machine(Kind(likes_events=likes_events), ())
    for _ in range(says):
        response.say(b"1")
    response.answer(b"{}")
    is_object = not (says or likes_events)
    assert response.rest == (b"{}" if is_object else b"data: {}\n\n")
    assert response.whole()[:2] == (200, response.rest)
    with pytest.raises(ConnectionClosed):
        response.say(b"2")


@pytest.mark.parametrize("problem", [None, MethodNotFound("x")])
def test_a_client_that_likes_events_gets_an_error_with_a_status_as_an_object(problem):
    response = machine(Kind(is_modern=True, likes_events=True), ())
    response.answer(b"{}", problem)
    status, _, headers = response.whole()
    assert (status, JSON_OBJECT in headers) == ((200, False) if problem is None else (404, True))


def test_who_asks_too_often_is_told_when_to_come_back():
    response = machine(MODERN_KIND, ())
    response.answer(b"{}", TooManyRequests("x", 2.6))
    assert response.whole() == (429, b"{}", [JSON_OBJECT, ("Retry-After", "3")])


@pytest.mark.parametrize(
    ("happen", "status"),
    [
        (lambda response: response.fail(WHY), 503),
        (lambda response: response.fail(RequestCancelled("enough")), 200),
        (lambda response: response.client_left(), 200),
    ],
    ids=["failed", "cancelled", "left"],
)
def test_a_response_without_an_answer_is_503_if_its_client_may_wait_for_one(happen, status):
    response = machine()
    happen(response)
    found, body, _ = response.whole()
    assert (found, bool(body)) == (status, status == 503)


def test_the_first_failure_is_the_one_that_is_told():
    response = machine()
    assert response.fail(WHY) is State.UNDECIDED
    assert response.fail(ConnectionClosed("another")) is State.OVER
    with pytest.raises(ConnectionClosed, match="enough"):
        response.say(b"1")


@pytest.mark.spec(
    "basic/transports/streamable-http/sse-disconnect-not-cancel",
    "basic/transports/streamable-http/sse-broken-stream-not-resumed",
)
def test_a_client_that_left_cancels_in_the_modern_era_alone():
    assert machine(MODERN_KIND, ()).client_left()
    assert not machine().client_left()


@pytest.mark.spec("basic/transports/streamable-http/sse-resumable")
def test_what_is_said_to_no_client_is_stored_for_one_that_knows_an_id():
    response = machine()
    response.say(b"1")
    response.client_left()
    assert response.say(b"2") == b""
    assert response.unread_bytes == 1
    response.resume("reader", 1)
    assert response.take("reader") == [b"id: s-1-2\ndata: 2\n\n"]
    assert response.take("reader") == []


@pytest.mark.parametrize("names", [(), ("s-1",)])
def test_what_is_said_to_no_client_is_dropped_if_none_can_come_back_for_it(names):
    response = machine(names=names)
    if not names:
        response.say(b"1")
    response.client_left()
    assert response.say(b"2") == b""
    assert (response.events, response.name, response.unread_bytes) == (None, "", 0)
    assert not response.has(0)
    assert not response.can_forget(0)
    assert response.forget(1, 0) == 0


def test_a_stream_that_waits_for_its_first_client_stores_what_is_said_if_it_has_names():
    for names in ((), ("s-1",)):
        response = machine(Kind(), names, State.DETACHED)
        assert response.say(b"1") == b""
        assert response.unread_bytes == len(names)


@pytest.mark.spec("basic/transports/streamable-http/replay-messages")
def test_the_last_that_resumes_has_the_stream_and_no_other():
    response = in_state(State.RESUMED)
    assert response.resume("second", 0) is State.RESUMED
    assert response.take("reader") is None
    assert response.take("second") == [b"id: s-1-1\ndata: 1\n\n"]
    response.answer(b"2")
    assert response.take("second") == [b"id: s-1-2\ndata: 2\n\n"]
    assert response.take("second") is None


def test_what_was_sent_on_a_stream_that_cannot_be_resumed_is_not_kept():
    response = machine(MODERN_KIND, ())
    response.resume("reader", None)
    response.say(b"1")
    assert response.take("reader") == [b"data: 1\n\n"]
    assert len(response.events) == 0


@pytest.mark.parametrize("says", [0, 1])
def test_a_request_that_was_to_last_and_is_refused_at_once_has_its_error_alone(says):
    response = machine(MODERN_KIND, ())
    response.resume("reader", None)
    assert response.refusal() is None
    for _ in range(says):
        response.say(b"1")
    response.answer(b"{}", MethodNotFound("x"))
    assert response.refusal() == (None if says else (404, b"{}", [JSON_OBJECT]))


def test_after_a_refused_write_all_is_as_it_was():
    response = machine(names=("s-1", "s-2"))
    response.say(b"1")
    response.refused()
    assert (response.state, response.name, response.events) == (State.UNDECIDED, "", None)
    response.answer(b"{}")
    assert response.whole() == (200, b"{}", [JSON_OBJECT])


def test_something_is_left_of_a_stream_until_it_is_over_and_its_last_event_was_forgotten():
    response = machine()
    response.say(b"1")
    assert not response.is_spent
    response.fail(WHY)
    assert not response.is_spent
    assert response.can_forget(0)
    assert response.forget(1, 0) > 1
    assert response.is_spent


# ----------------------------------------------------------------------------------- the client's half


RESUMABLE = ["2025-03-26", "2025-06-18", "2025-11-25"]
NOTE = {"jsonrpc": "2.0", "method": "notifications/note", "params": {"n": 1}}


@pytest.fixture(autouse=True)
def _soon(monkeypatch):
    """A second is long for a test."""
    monkeypatch.setattr(module, "RETRY_SECONDS", 0.05)
    monkeypatch.setattr(module, "MIN_RETRY_SECONDS", 0.01)


def raw(*pieces, pause=0.0, chunked=False):
    """A stream made of these pieces; ANSWER in one of them is the response."""

    def handle(request, wire):
        answer = json.dumps(result_of(request, text("h\u00e9llo")), ensure_ascii=False).encode()
        wire.head(200, STREAM, *(["Transfer-Encoding: chunked"] if chunked else []))
        for piece in pieces:
            (wire.chunk if chunked else wire.send)(piece.replace(b"ANSWER", answer))
            wire.site.over.wait(pause)
        if chunked:
            wire.end()
        else:
            wire.close()

    return handle


def heard(handle, revision=MODERN, **more):
    """The text of the answer, and the notifications that came before it."""
    notes = []
    more.setdefault("timeout", PATIENCE)
    with talking(handle, revision, on_notification=lambda *n: notes.append(n), **more) as (_site, client):
        answer = client.call_tool("a").text
        client.asker.events.settle(PATIENCE)
    return answer, notes


# ------------------------------------------------------------------------------- how they are written

NOTED = json.dumps(NOTE).encode()


@pytest.mark.spec("basic/transports/streamable-http/sse-ignore-comments")
@pytest.mark.parametrize("chunked", [True, False])
@pytest.mark.parametrize(
    "stream",
    [
        pytest.param(b"data: NOTE\n\ndata: ANSWER\n\n", id="LF"),
        pytest.param(b"data: NOTE\r\rdata: ANSWER\r\r", id="CR"),
        pytest.param(b"data: NOTE\r\n\r\ndata: ANSWER\r\n\r\n", id="CRLF"),
        pytest.param(b"data: NOTE\n\r\ndata: ANSWER\r\n\n", id="mixed line ends"),
        pytest.param(b"\xef\xbb\xbfdata: NOTE\n\ndata: ANSWER\n\n", id="BOM"),
        pytest.param(b": hello\n\n:\r\n\ndata: NOTE\n:x\n\n:\n\ndata: ANSWER\n\n", id="comments"),
        pytest.param(b"data:NOTE\n\ndata:ANSWER\n\n", id="no space"),
        pytest.param(
            b'data: {"jsonrpc": "2.0",\ndata: "method":\ndata:  "notifications/note", "params": {"n": 1}}\n\n'
            b"data: ANSWER\n\n",
            id="multi-line data",
        ),
        pytest.param(b"event: message\ndata: NOTE\n\nevent: message\ndata: ANSWER\n\n", id="named message"),
        pytest.param(
            b"event: other\ndata: NOTE\n\nevent: ping\ndata: x\n\ndata: NOTE\n\ndata: ANSWER\n\n",
            id="unknown event types",
        ),
        pytest.param(
            b"id: 1\ndata:\n\nid: 2\n\nretry: 5\n\nfoo: bar\n\ndata: NOTE\n\ndata: ANSWER\n\n", id="no data"
        ),
        pytest.param(b"data: {not json\n\ndata: 7\n\ndata: NOTE\n\ndata: ANSWER\n\n", id="no messages"),
    ],
)
def test_a_stream_is_understood_however_it_is_written(stream, chunked):
    answer, notes = heard(raw(stream.replace(b"NOTE", NOTED), chunked=chunked))
    assert (answer, notes) == ("h\u00e9llo", [("notifications/note", {"n": 1})])


def test_characters_that_are_cut_are_put_together():
    def handle(request, wire):
        wire.stream()
        answer = json.dumps(result_of(request, text("\u20ac\u00e9")), ensure_ascii=False).encode()
        for byte in b"data: " + answer + b"\n\n":
            wire.chunk(bytes([byte]))
        wire.end()

    assert heard(handle)[0] == "\u20ac\u00e9"


def test_an_event_without_its_blank_line_is_no_event():
    with pytest.raises(ConnectionClosed, match="ended without the answer"):
        heard(raw(b"data: ANSWER\n"))


def test_events_are_delivered_the_moment_they_arrive():
    """Also where nothing says how long a body is, and the server keeps it open."""
    go_on = threading.Event()

    def handle(request, wire):
        wire.head(200, STREAM)
        wire.send(b"data: " + NOTED + b"\n\n")
        assert go_on.wait(PATIENCE)
        wire.send(b"data: " + json.dumps(result_of(request, text("x"))).encode() + b"\n\n")
        wire.gone()

    with talking(handle, on_notification=lambda *note: go_on.set()) as (_site, client):
        assert client.call_tool("a").text == "x"


def test_the_answer_is_given_out_before_the_stream_has_ended():
    def handle(request, wire):
        wire.stream()
        wire.event(result_of(request, text("x")))
        wire.gone()

    with talking(handle) as (_site, client):
        start = time.monotonic()
        assert client.call_tool("a").text == "x"
        assert time.monotonic() - start < PATIENCE / 2


def test_a_huge_event_is_read_in_time():
    answer, _ = heard(lambda request, wire: _huge(request, wire, 4 << 20))
    assert len(answer) == 4 << 20


def _huge(request, wire, size):
    wire.stream()
    wire.event(result_of(request, text("x" * size)))
    wire.end()


@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
def test_an_event_beyond_the_limit_is_an_error_of_this_request_alone(revision):
    def handle(request, wire):
        _huge(request, wire, 20_000 if request.message["params"]["name"] == "huge" else 10)

    with talking(handle, revision, max_message_bytes=10_000) as (site, client):
        with pytest.raises(InvalidResponse, match=f"longer than 10000 bytes, from {site.url}$"):
            client.call_tool("huge")
        assert client.call_tool("small").text == "x" * 10
        assert not [r for r in site.requests if "last-event-id" in r.headers]


@pytest.mark.parametrize("piece", [b": alive\n\n", b"x"])
def test_a_deadline_holds_against_signs_of_life_and_slow_drips(piece):
    with talking(raw(*[piece] * 1000, pause=0.02)) as (_site, client):
        start = time.monotonic()
        with pytest.raises(RequestTimeout):
            client.call_tool("a", timeout=0.2)
        assert time.monotonic() - start < PATIENCE / 2


def test_progress_moves_the_deadline():
    def handle(request, wire):
        wire.stream()
        token = request.message["params"]["_meta"]["progressToken"]
        for n in range(11):
            params = {"progressToken": token, "progress": n}
            wire.event({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
            wire.site.over.wait(0.4)
        wire.event(result_of(request, text("x")))
        wire.end()

    with talking(handle) as (_site, client):
        assert client.call_tool("a", timeout=4, on_progress=lambda *report: None).text == "x"


# --------------------------------------------------------------------------- how they break, and go on


def breaks(how="end", retry=None, ids=True, rest=None):
    """A stream that ends before its response; a GET brings the rest, by `rest(request, wire, answer)`."""
    answers = []

    def handle(request, wire):
        if request.method == "GET":
            if "last-event-id" not in request.headers:
                wire.answer(405)
            elif rest is None:
                wire.stream()
                wire.event(NOTE, id="b")
                wire.event(answers[-1], id="c")
                wire.end()
            else:
                rest(request, wire, answers[-1])
            return
        answers.append(result_of(request, text("late")))
        wire.stream()
        fields = {"id": "a"} if ids else {}
        wire.event(**fields, **({"retry": retry} if retry is not None else {}))
        if how == "end":
            wire.end()
        elif how == "reset":
            wire.reset()
        else:
            wire.close()

    return handle


@pytest.mark.spec(
    "basic/transports/streamable-http/resume-by-last-event-id",
    "basic/transports/streamable-http/resume-always-via-get",
    "basic/transports/streamable-http/sse-client-polls",
    "basic/transports/streamable-http/sse-disconnect-anytime",
    "basic/transports/streamable-http/loss-mitigated-by-resuming",
)
@pytest.mark.parametrize("how", ["end", "close", "reset"])
@pytest.mark.parametrize("revision", RESUMABLE)
def test_a_stream_that_breaks_is_resumed_where_it_broke(revision, how):
    notes = []
    told = {"on_notification": lambda *note: notes.append(note)}
    with talking(breaks(how), revision, "s-1", get=True, **told) as (site, client):
        assert client.call_tool("a").text == "late"
        again = site.asked(lambda r: "last-event-id" in r.headers)
        assert (again.method, again.headers["last-event-id"]) == ("GET", "a")
        assert again.headers["accept"] == "text/event-stream"
        assert again.headers["mcp-session-id"] == "s-1"
        assert again.headers.get("mcp-protocol-version") == (revision if revision >= "2025-06-18" else None)
        assert len(site.of("tools/call")) == 1
        client.asker.events.settle(PATIENCE)
    assert notes == [("notifications/note", {"n": 1})]


@pytest.mark.spec("basic/transports/streamable-http/sse-respect-retry")
@pytest.mark.parametrize(
    ("retry", "default", "least"), [(300, 2 * PATIENCE, 0.3), (0, 2 * PATIENCE, 0.0), (None, 0.2, 0.2)]
)
def test_the_server_says_how_long_to_wait(monkeypatch, retry, default, least):
    monkeypatch.setattr(module, "RETRY_SECONDS", default)
    with talking(breaks(retry=retry), "2025-11-25", get=True) as (_site, client):
        start = time.monotonic()
        assert client.call_tool("a").text == "late"
        assert least <= time.monotonic() - start < PATIENCE


def test_a_server_that_wants_to_be_asked_often_is_asked_often():
    count = []

    def rest(request, wire, answer):
        count.append(request.headers["last-event-id"])
        wire.stream()
        if len(count) == 9:
            wire.event(answer)
        else:
            wire.event(id=f"e{len(count)}")
        wire.end()

    with talking(breaks(retry=1, rest=rest), "2025-11-25", get=True) as (_site, client):
        assert client.call_tool("a").text == "late"
    assert count == ["a", *(f"e{n}" for n in range(1, 9))]


def test_polling_goes_no_further_than_the_deadline():
    def rest(request, wire, answer):
        wire.stream()
        wire.event(id="b")
        wire.end()

    def has_arrived(seconds):
        with talking(breaks(retry=20, rest=rest), "2025-11-25", get=True) as (site, client):
            with pytest.raises(RequestTimeout):
                client.call_tool("a", timeout=seconds)
            if not any("last-event-id" in r.headers for r in site.requests):
                return False
            assert eventually(lambda: len(site.of("notifications/cancelled")) == 1)
            return True

    assert any(map(has_arrived, LIMITS))


@pytest.mark.spec("basic/transports/streamable-http/no-resumption")
def test_a_modern_stream_is_never_resumed():
    with talking(breaks(), MODERN, get=True) as (site, client):
        with pytest.raises(ConnectionClosed, match=r"tools/call: the stream .* ended without the answer"):
            client.call_tool("a")
        assert all(r.method == "POST" for r in site.requests)


def test_a_stream_that_is_empty_is_told_with_its_url_and_without_secrets():
    def handle(request, wire):
        wire.stream()
        wire.end()

    with web(handle) as site:
        with pytest.raises(ConnectionClosed) as broken:
            connect(f"{site.url}?token=secret", revision=MODERN)
        assert str(broken.value) == f"server/discover: the stream from {site.url} ended without the answer"


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-11-25"])
def test_a_stream_that_has_no_ids_or_no_right_to_them_cannot_be_resumed(revision):
    with talking(breaks(ids=revision == "2024-11-05"), revision, get=True) as (site, client):
        with pytest.raises(ConnectionClosed, match="ended without the answer"):
            client.call_tool("a")
        assert not [r for r in site.requests if "last-event-id" in r.headers]


def _answers(status, body=b"", *lines):
    return lambda request, wire, answer: wire.answer(status, body, *lines)


@pytest.mark.parametrize(
    "rest",
    [_answers(404), _answers(405), _answers(400, b"what?"), _answers(200, b"{}", JSON), _answers(204)],
)
def test_a_server_that_does_not_know_the_stream_any_more_ends_the_call(rest):
    with (
        talking(breaks(rest=rest), "2025-11-25", "s-1", get=True) as (_site, client),
        pytest.raises(ConnectionClosed, match=r"tools/call: the stream .* ended .* cannot be resumed"),
    ):
        client.call_tool("a")


@pytest.mark.parametrize("fault", ["503", "429", "close"])
def test_a_server_that_is_away_for_a_moment_is_asked_again(fault):
    tries = []

    def rest(request, wire, answer):
        tries.append(1)
        if len(tries) == 3:
            wire.stream()
            wire.event(answer)
            wire.end()
        elif fault == "close":
            wire.close()
        else:
            wire.answer(int(fault))

    with talking(breaks(rest=rest), "2025-11-25", get=True) as (_site, client):
        assert client.call_tool("a").text == "late"


def test_a_server_that_stays_away_is_given_up(monkeypatch):
    monkeypatch.setattr(module, "RETRY_SECONDS", 0.001)
    tries = []

    def rest(request, wire, answer):
        tries.append(1)
        wire.answer(503)

    with talking(breaks(rest=rest), "2025-11-25", get=True) as (_site, client):
        with pytest.raises(
            ConnectionClosed, match=r"ended without the answer, and cannot be resumed: .* 503"
        ):
            client.call_tool("a")
        assert client.session_id is None
    assert len(tries) == module.TRIES


@pytest.mark.parametrize("waits", [True, False])
def test_a_server_that_cannot_be_reached_any_more_is_told_once_the_next_try_would_come_too_late(
    monkeypatch, waits
):
    later = property(lambda stream: 10 * PATIENCE if stream.failures else 0.0)
    monkeypatch.setattr(module.Following, "pause", later)
    monkeypatch.setattr(listening, "MAX_ANSWER_SECONDS", PATIENCE)  # the call goes after the GET
    usual = breaks("reset")

    def handle(request, wire):
        wire.site.shut()
        for other in wire.site.wires:
            if other is not wire:
                other.close()
        usual(request, wire)

    with talking(handle, "2025-11-25", get=True, timeout=PATIENCE) as (_site, client):
        call = client.call_tool if waits else lambda name: client.submit_tool(name).result(2 * PATIENCE)
        with pytest.raises(
            ConnectionClosed, match=r"cannot be resumed: no connection to .*refused"
        ) as caught:
            call("a")
    assert type(caught.value) is ConnectionClosed


def test_a_stream_that_never_brings_anything_is_given_up(monkeypatch):
    monkeypatch.setattr(module, "MIN_RETRY_SECONDS", 0.001)

    def rest(request, wire, answer):
        wire.stream("X: y")
        wire.end()

    with (
        talking(breaks(retry=0, rest=rest), "2025-11-25", get=True) as (_site, client),
        pytest.raises(ConnectionClosed, match="ended without the answer"),
    ):
        client.call_tool("a")


def test_a_wait_for_the_next_try_is_ended_by_close_and_by_cancel():
    with talking(breaks(retry=30_000), "2025-11-25", get=True) as (site, client):
        first, second = (client.submit("tools/call", {"name": "a"}) for _ in range(2))
        assert eventually(lambda: len(site.of("tools/call")) == 2)
        time.sleep(0.05)
        assert first.cancel()
        start = time.monotonic()
        client.close()
        assert time.monotonic() - start < PATIENCE
        with pytest.raises(ConnectionClosed, match="was closed"):
            second.result(PATIENCE)


@pytest.mark.parametrize("begun", [True, False], ids=["during-its-stream", "before-its-answer"])
def test_a_call_whose_session_ended_meanwhile_is_lost(monkeypatch, begun):
    """The stream was one of a session that is over: nothing of it can be asked for in the next one."""
    renewed, heard = threading.Event(), threading.Event()

    def pause(exchange, seconds):
        heard.set()
        renewed.wait(PATIENCE)

    monkeypatch.setattr(module.HttpExchange, "pause", pause)
    stream = breaks()

    def handle(request, wire):
        if request.rpc == "tools/call" and request.message["params"]["name"] == "other":
            if len([r for r in wire.site.of("tools/call") if r.message["params"]["name"] == "other"]) == 1:
                wire.answer(404)
            else:
                wire.result(request, text("x"))
        else:
            if request.rpc == "tools/call" and not begun:
                assert renewed.wait(PATIENCE)
            stream(request, wire)

    sessions = iter(["s-1", "s-2"])

    def server(request, wire):
        if request.rpc == "initialize":
            opened(handle, "2025-11-25", next(sessions))(request, wire)
        else:
            opened(handle, "2025-11-25", get=True)(request, wire)

    with web(server) as site, connect(site.url, revision="2025-11-25") as client:
        lost = client.submit("tools/call", {"name": "a"})
        site.asked(lambda r: r.rpc == "tools/call")
        if begun:
            assert heard.wait(PATIENCE)
        assert client.call_tool("other").text == "x"
        renewed.set()
        with pytest.raises(ConnectionClosed, match="its session is over"):
            lost.result(PATIENCE)
        assert all("last-event-id" not in r.headers for r in site.requests if r.method == "GET")


def test_pauses_grow_but_not_without_end_and_are_never_shorter_than_the_server_says():
    stream = module.Following(SimpleNamespace(), None, None)
    stream.retry = 1.0
    pauses = []
    for stream.failures in range(10):
        pauses.append(stream.pause)
    assert pauses == [1.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0, 60.0]
    stream.retry = 300.0
    for stream.failures in (0, 1, 1000):
        assert stream.pause == 300.0
    stream.retry = stream.failures = 0
    pauses.clear()
    for stream.idle in (0, 1, 2, 3, 1000):
        pauses.append(stream.pause)
    assert pauses == [0.0, 0.02, 0.04, 0.08, 1.0]


@pytest.mark.parametrize("retry", [0.0, 0.001, 0.1])
@pytest.mark.parametrize("brought", ["nothing", "no message"])
def test_after_a_connection_that_brought_nothing_a_tenth_of_a_second_is_waited_at_least(
    monkeypatch, retry, brought
):
    """Whatever `retry` says: a client that hears nothing need not ask hundreds of times a second."""
    monkeypatch.undo()  # the pauses as they are
    stream = module.Following(SimpleNamespace(), None, None)
    stream.retry, stream.idle = retry, 1
    stream.failures = 1 if brought == "nothing" else 0
    assert stream.pause == 0.1
