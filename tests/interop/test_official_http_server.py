"""A client of ours against the official Python SDK's servers over HTTP.

The tests of test_official_server run here once more: against servers that answer with event streams, and
against ones that keep their events for clients that were cut off; 2024-11-05 goes over HTTP+SSE. Then what
is HTTP's own: sessions and their end, servers that answer in JSON alone, or have no sessions; headers,
streams that break and are resumed, calls that are given up.

Where the SDK (2.3) differs from the spec:

    a cancelled call          is answered all the same, in the legacy era, with the error -32800
    its store of events       knows requests by their ids alone, and mixes up those of two sessions
    notifications             of the client's are taken and not heard in 2026-07-28: there are none there
    JSON alone                drops progress in either era, and refuses questions in the legacy one (-32600),
                              as does a server without sessions
"""

from __future__ import annotations

import json
import logging
import queue
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import wait
from contextlib import ExitStack
from typing import Any

import pytest
from choices import for_connect
from interop import test_official_server as over_pipes
from interop.http_children import LIMITS, Line, connect_and_hear, serving
from interop.test_official_server import Sessions
from peers import LEGACY, MODERN, PATIENCE, REVISIONS, eventually, nothing_left

from mcp_ref import (
    Change,
    Client,
    ClientOptions,
    ConnectionClosed,
    ErrorResponse,
    McpError,
    RequestTimeout,
    connect,
)
from mcp_ref.runtime.errors import LocalError
from mcp_ref.runtime.http_client.exchange import HttpExchange

TIMERS = "mcp_ref timers"
STREAMED = LEGACY[1:]
"""The revisions with Streamable HTTP and sessions."""

PLAIN, KEPT = "{}", json.dumps({"events": True, "retry_interval": 20})

OF_PIPES = {
    "test_stderr_is_passed_on_and_the_end_is_prompt",
    "test_a_server_that_dies_fails_the_waiting_calls_at_once",
    "test_vendor_requests_and_notifications_go_both_ways",  # not quite: see below
}
globals().update(
    {name: it for name, it in vars(over_pipes).items() if name.startswith("test_") and name not in OF_PIPES}
)
official, lowlevel = over_pipes.official, over_pipes.lowlevel

Serve = Callable[..., str]


def serving_official(name: str, options: str) -> Any:
    """The SDK leaves its end to uvicorn, which says so with the signal that ended it."""
    return serving("official_http_server.py", name, options, ends=-15)


@pytest.fixture(scope="module")
def serve() -> Iterator[Serve]:
    """The URL of a server that is run like this; the first one who asks starts it."""
    urls: dict[tuple[str, str], str] = {}
    with nothing_left(), ExitStack() as children:

        def url_of(name: str = "official_http_features_server", **options: Any) -> str:
            asked = (name, json.dumps(options))
            if asked not in urls:
                urls[asked] = children.enter_context(serving_official(*asked))
            return urls[asked]

        yield url_of


# --------------------------------------------------------------------------- as over pipes


@pytest.fixture(scope="module", params=[PLAIN, KEPT], ids=["plain", "kept"])
def options(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module", params=REVISIONS)
def sessions(request: pytest.FixtureRequest, options: str, serve: Serve) -> Iterator[Sessions]:
    notifications: queue.SimpleQueue[tuple[str, Any]] = queue.SimpleQueue()
    logged: queue.SimpleQueue[tuple[str, Any, str | None]] = queue.SimpleQueue()

    def on_notification(method: str, params: Any) -> None:
        if method != "notifications/message":  # these come to on_log as well
            notifications.put((method, params))

    revision = request.param
    hear: dict[str, Any] = {
        "revision": revision,
        "on_notification": on_notification,
        "on_log": lambda *message: logged.put(message),
    }
    one, other = (
        serve(name, **json.loads(options)) for name in ("official_server", "official_lowlevel_server")
    )
    with (
        connect_and_hear(url_for(one, revision), **hear) as official,
        connect_and_hear(url_for(other, revision), **hear) as lowlevel,
    ):
        yield Sessions(revision, official, lowlevel, notifications, logged)


def url_for(url: str, revision: str) -> str:
    """2024-11-05 has a transport of its own."""
    return url.replace("/mcp", "/sse") if revision == "2024-11-05" else url


@pytest.fixture(autouse=True)
def tidy(request: pytest.FixtureRequest) -> Iterator[None]:
    """No thread stays, where no session does; children do, for other tests, and `serve` sees to them."""
    before = set(threading.enumerate())
    yield
    if "sessions" not in request.fixturenames:
        assert eventually(lambda: not {t for t in set(threading.enumerate()) - before if t.name != TIMERS})


@pytest.fixture(autouse=True)
def over_http(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests that open a session of their own open it here."""
    monkeypatch.setattr(over_pipes, "OFFICIAL", serve("official_server"))


def test_vendor_requests_and_notifications_are_heard(sessions):
    """Notifications of the client's only until 2025-11-25, those of the server's in any."""
    client = sessions.lowlevel
    result = client.request("vendor/double", {"n": 21})
    assert (result["doubled"], result["revision"]) == (42, sessions.revision)
    client.notify("vendor/heard", {"news": "rain"})
    if sessions.revision != MODERN:
        assert client.call_tool("news").text.startswith("rain")
    over_pipes.drain(sessions.notifications)
    client.call_tool("tells")
    assert sessions.notifications.get(timeout=PATIENCE) == ("notifications/vendor/told", {"news": 1})


# ------------------------------------------------------------------------------- sessions


@pytest.mark.parametrize("revision", STREAMED)
@pytest.mark.spec(
    "basic/transports/streamable-http/session-id-echoed",
    "basic/transports/streamable-http/session-delete",
    "basic/transports/streamable-http/version-header-later-requests",
)
def test_a_session_is_opened_used_and_ended(serve, revision):
    """Its id is in all that follows initialize; DELETE is the last of it."""
    with Line(serve()) as line:
        with connect(line.url, revision=revision) as client:
            assert client.call_tool("add", {"a": 1, "b": 2}).text == "3"
            name = client.session_id
            assert eventually(lambda: line.sent("GET"))
        assert name is not None
        posts, (get,), (end,) = line.sent("POST"), line.sent("GET"), line.sent("DELETE")
        later = [*posts[1:], get, end]
        assert "mcp-session-id" not in posts[0].headers
        assert {sent.headers["mcp-session-id"] for sent in later} == {name}
        expected = {revision} if revision >= "2025-06-18" else {None, revision}
        assert {sent.headers.get("mcp-protocol-version") for sent in later} <= expected
        with pytest.raises(McpError):
            client.call_tool("add", {"a": 1, "b": 2})


@pytest.mark.spec(
    "basic/transports/streamable-http/version-header-every-post",
    "basic/transports/streamable-http/mcp-method-header",
    "basic/transports/streamable-http/mcp-name-header",
)
def test_a_modern_client_has_no_session(serve):
    """Each request says in headers what it is, and the SDK's server finds that true."""
    with Line(serve()) as line:
        with connect(line.url) as client:
            client.call_tool("add", {"a": 1, "b": 2})
            assert client.read_resource("text://one").text == "one"
            client.get_prompt("greet", {"name": "Ann"})
            assert client.session_id is None
        sent = line.sent()
        assert {one.method for one in sent} == {"POST"}
        assert {one.headers["mcp-protocol-version"] for one in sent} == {MODERN}
        assert all("mcp-session-id" not in one.headers for one in sent)
        named = {one.headers["mcp-method"]: one.headers.get("mcp-name") for one in sent}
        assert named == {
            "server/discover": None,
            "tools/list": None,  # to know which arguments are headers too
            "tools/call": "add",
            "resources/read": "text://one",
            "prompts/get": "greet",
        }


@pytest.mark.parametrize("revision", STREAMED)
@pytest.mark.spec("basic/transports/streamable-http/session-restart-on-404")
def test_a_session_that_is_over_is_followed_by_another(serve, revision):
    """Somebody else ended it: the call that finds out goes again, in a new one."""
    import requests

    with connect(serve(), revision=revision) as client:
        first = client.session_id
        headers = {"mcp-session-id": first, "mcp-protocol-version": revision}
        assert requests.delete(serve(), headers=headers, timeout=PATIENCE).status_code == 200
        assert client.call_tool("add", {"a": 1, "b": 2}).text == "3"
        assert client.session_id not in (None, first)


@pytest.mark.parametrize(
    ("revisions", "agreed"), [(REVISIONS, "2025-11-25"), (LEGACY[:2], "2025-03-26")], ids=["all", "old"]
)
@pytest.mark.spec("basic/transports/streamable-http/old-server-fallback-listed")
def test_a_server_of_the_old_transport_is_found(serve, revisions, agreed):
    """At its own URL: POST is refused there, and GET opens a stream."""
    with connect(serve().replace("/mcp", "/sse"), options=ClientOptions(revisions=revisions)) as client:
        assert client.revision.date == agreed
        assert client.call_tool("add", {"a": 1, "b": 2}).text == "3"


# ------------------------------------------------------- JSON alone, and servers without sessions


@pytest.mark.parametrize("revision", [*STREAMED, MODERN])
@pytest.mark.parametrize("mode", ["json_response", "stateless_http", "both"])
def test_each_way_to_run_a_server_is_understood(serve, mode, revision):
    """Tools, resources and prompts; questions in 2026-07-28, where the answer brings them."""
    modes = ("json_response", "stateless_http") if mode == "both" else (mode,)
    asked: list[Any] = []

    def elicitation(question: Any) -> Any:
        asked.append(question)
        return {}

    url = serve(**dict.fromkeys(modes, True))
    with connect(url, revision=revision, elicitation=elicitation) as client:
        assert (client.session_id is None) == ("stateless_http" in modes or revision == MODERN)
        assert client.call_tool("add", {"a": 1, "b": 2}).structured == {"result": 3}
        assert client.read_resource("text://one").text == "one"
        assert client.get_prompt("greet", {"name": "Ann"}).text == "Hello Ann"
        assert [tool["name"] for tool in client.list_tools()][:2] == ["add", "hold"]
        if revision == MODERN:
            assert client.call_tool("confirm").text == "accept"
            assert len(asked) == 1
        else:
            with pytest.raises(ErrorResponse):
                client.call_tool("confirm")
            assert asked == []


@pytest.mark.parametrize("revision", [*STREAMED, MODERN])
@pytest.mark.parametrize("json_response", [False, True])
def test_progress_comes_where_there_is_a_stream(serve, json_response, revision):
    reports: list[float] = []
    with connect(serve(json_response=json_response), revision=revision) as client:
        client.call_tool("release", {"name": "open"})
        result = client.call_tool(
            "hold", {"name": "open", "says": 2}, on_progress=lambda at, *more: reports.append(at)
        )
        assert result.text == "held open"
        assert reports == ([] if json_response else [1, 2, 3, 4])


@pytest.mark.parametrize("options", [{}, {"json_response": True}, {"stateless_http": True}], ids=str)
def test_a_subscription_is_a_stream_in_every_mode(serve, options):
    with connect(serve(**options)) as client, client.listen(tools=True) as changes:
        client.call_tool("change")
        assert changes.next(PATIENCE) == Change("tools", None)


@pytest.mark.parametrize("revision", STREAMED)
def test_a_server_without_a_stream_for_get_is_fine(serve, revision):
    """405, and nothing is heard."""
    with (
        Line(serve(stateless_http=True)) as line,
        connect(line.url, revision=revision) as client,
    ):
        assert client.call_tool("change").text == "changed"


# ------------------------------------------------------------------------------- headers


@pytest.mark.parametrize("region", ["eu-west", "Zürich", " padded ", "=?base64?ZXU=?=", "a\nb", ""])
@pytest.mark.spec(
    "basic/transports/streamable-http/x-mcp-header-mirrored",
    "basic/transports/streamable-http/encode-values",
    "basic/transports/streamable-http/encode-sentinel-lookalike",
)
def test_arguments_that_are_headers_too(serve, region):
    """The SDK's server compares them with the body."""
    with Line(serve()) as line, connect(line.url) as client:
        client.list_tools()
        arguments = {"region": region, "number": -7, "sure": True}
        assert client.call_tool("mirrored", arguments).structured == {"result": [region, -7, True]}
        sent = line.sent("POST")[-1].headers
        assert (sent["mcp-param-number"], sent["mcp-param-sure"]) == ("-7", "true")


@pytest.mark.spec(
    "basic/transports/streamable-http/x-mcp-header-exclude-tool",
    "basic/transports/streamable-http/x-mcp-header-warn",
)
def test_a_tool_with_an_annotation_that_is_none_is_left_out(serve, caplog):
    with caplog.at_level(logging.WARNING), connect(serve()) as client:
        names = [tool["name"] for tool in client.list_tools()]
        assert "mirrored" in names
        assert "misnamed" not in names
        assert "misnamed" in caplog.text


@pytest.mark.parametrize("revision", [*STREAMED, MODERN])
def test_headers_of_ones_own_go_with_each_request(serve, revision):
    """A function is asked each time."""
    numbers = iter(range(100))
    options: dict[str, Any] = {"revision": revision, "headers": lambda: {"X-Number": str(next(numbers))}}
    with connect(serve(), **for_connect(**options)) as client:
        first = int(client.call_tool("headers").structured["x-number"])
        assert int(client.call_tool("headers").structured["x-number"]) > first


# ------------------------------------------------------------------ calls that are given up


@pytest.mark.parametrize("says", [0, 1], ids=["silent", "after progress"])
@pytest.mark.parametrize("revision", [*STREAMED, MODERN])
@pytest.mark.spec("basic/transports/streamable-http/sse-explicit-cancel")
def test_a_call_that_is_given_up_is_stopped(serve, revision, says):
    """By a notification, in 2026-07-28 by closing its stream; by a caller, and by a deadline."""
    with connect(serve(), revision=revision) as client:
        reports: queue.SimpleQueue[float] = queue.SimpleQueue()
        held = {"name": f"{revision} {says}", "says": says}
        call = client.submit(
            "tools/call",
            {"name": "hold", "arguments": held},
            on_progress=lambda at, *more: reports.put(at),
        )
        if says:
            reports.get(timeout=PATIENCE)
        assert client.call_tool("has_begun", {"name": held["name"]}).structured == {"result": True}
        assert call.cancel()
        assert client.call_tool("how_it_ended", {"name": held["name"]}).text == "cancelled"
        for seconds in LIMITS:
            late = f"{held['name']} late by {seconds}"
            call = client.submit("tools/call", {"name": "hold", "arguments": {"name": late}}, timeout=seconds)
            has_begun = client.call_tool("has_begun", {"name": late}).structured
            with pytest.raises(RequestTimeout):
                call.result(2 * PATIENCE)
            if has_begun == {"result": True}:
                break
        assert has_begun == {"result": True}
        assert client.call_tool("how_it_ended", {"name": late}).text == "cancelled"


# ------------------------------------------------------------------- streams that break


def _held_while_cut(url: str, revision: str) -> tuple[str, list[float], Line]:
    """Call `hold`, cut the line once it runs, and let it go on while nobody is there."""
    reports: list[float] = []
    running = threading.Event()

    def on_progress(at: float, total: float | None, message: str | None) -> None:
        reports.append(at)
        if len(reports) == 2:
            running.set()

    with Line(url) as line, connect(line.url, revision=revision) as client:
        arguments = {"name": line.url, "says": 2}
        call = client.submit("tools/call", {"name": "hold", "arguments": arguments}, on_progress=on_progress)
        assert running.wait(PATIENCE)
        line.cut()
        with connect(url) as another:  # of an era whose events are in no store, to be mixed up there
            another.call_tool("release", {"name": line.url})
        return call.result(PATIENCE).text, reports, line


@pytest.mark.parametrize("revision", STREAMED)
@pytest.mark.spec(
    "basic/transports/streamable-http/resume-by-last-event-id",
    "basic/transports/streamable-http/sse-respect-retry",
)
def test_a_call_whose_stream_breaks_is_resumed(serve, revision):
    """Nothing of it is lost, and nothing comes twice."""
    text, reports, line = _held_while_cut(serve(events=True, retry_interval=20), revision)
    assert text.startswith("held ")
    assert reports == [1, 2, 3, 4]
    assert [sent for sent in line.sent("GET") if "last-event-id" in sent.headers]


@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
@pytest.mark.spec("basic/transports/streamable-http/sse-broken-stream-not-resumed")
def test_a_call_whose_stream_cannot_be_resumed_is_lost(serve, revision):
    """No event had an id, or it is 2026-07-28."""
    with pytest.raises(ConnectionClosed):
        _held_while_cut(serve(), revision)


@pytest.mark.spec("basic/transports/streamable-http/sse-client-polls")
def test_a_client_that_is_sent_away_comes_back(serve, monkeypatch):
    """To the stream of a call, and to the stream of GET.

    Here it comes back when all has been said that it is to hear: what the SDK says between sending again what
    was missed, and having the stream back, is on no stream at all.
    """
    back = threading.Event()
    monkeypatch.setattr(HttpExchange, "pause", lambda exchange, seconds: back.wait(PATIENCE))
    reports: list[float] = []
    heard: queue.SimpleQueue[str] = queue.SimpleQueue()
    options: dict[str, Any] = {
        "revision": "2025-11-25",
        "on_notification": lambda method, params: heard.put(method),
    }
    with (
        Line(serve(events=True, retry_interval=20)) as line,
        connect_and_hear(line.url, **options) as client,
    ):
        call = client.submit("tools/call", {"name": "poll"}, on_progress=lambda at, *more: reports.append(at))
        assert client.call_tool("how_it_ended", {"name": "poll"}).text == "polled"
        assert client.call_tool("add", {"a": 1, "b": 2}).text == "3"
        assert not call.done()
        back.set()
        assert call.result(PATIENCE).text == "polled"
        assert eventually(lambda: reports == [0, 0.5, 1, 1.5])
        assert len([sent for sent in line.sent("GET") if "last-event-id" in sent.headers]) == 1
        client.call_tool("change")  # the event has an id, by which the client comes back
        assert heard.get(timeout=PATIENCE) == "notifications/tools/list_changed"
        back.clear()
        client.call_tool("leave")
        client.call_tool("change")
        assert heard.empty()
        back.set()
        assert heard.get(timeout=PATIENCE) == "notifications/tools/list_changed"


@pytest.mark.parametrize("revision", STREAMED)
def test_what_happens_while_the_stream_of_get_is_broken_is_heard_later(serve, revision):
    heard: queue.SimpleQueue[str] = queue.SimpleQueue()
    url = serve(events=True, retry_interval=20)
    options: dict[str, Any] = {
        "revision": revision,
        "on_notification": lambda method, params: heard.put(method),
    }
    with Line(url) as line, connect(line.url, **for_connect(**options)) as client:
        assert eventually(lambda: line.sent("GET"))
        client.call_tool("change")
        heard.get(timeout=PATIENCE)
        line.cut()
        client.call_tool("change")
        assert heard.get(timeout=PATIENCE) == "notifications/tools/list_changed"


# ------------------------------------------------------------------------- many, and the end


@pytest.mark.parametrize("revision", [*STREAMED, MODERN])
@pytest.mark.parametrize("json_response", [False, True])
def test_many_threads_call_at_once(serve, json_response, revision):
    """Ten threads, ten calls each; connections are kept: there are far fewer than calls."""
    with (
        Line(serve(json_response=json_response)) as line,
        connect(line.url, revision=revision) as client,
    ):
        sums: list[tuple[int, str]] = []

        def call(number: int) -> None:
            for n in range(10):
                sums.append((number + n, client.call_tool("add", {"a": number, "b": n}).text))

        threads = [threading.Thread(target=call, args=(100 * number,)) for number in range(10)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
        assert len(sums) == 100
        assert all(str(expected) == text for expected, text in sums)
        assert line.opened <= 30


@pytest.mark.parametrize("revision", [*STREAMED, MODERN])
def test_a_server_that_dies_fails_what_waits_at_once(revision):
    child = serving("official_http_server.py", "official_http_features_server", PLAIN, ends=3)
    with child as url, connect(url, revision=revision, timeout=PATIENCE) as client:
        waiting = client.submit("tools/call", {"name": "hold", "arguments": {"name": "it", "says": 0}})
        client.call_tool("add", {"a": 1, "b": 2})
        begun = time.monotonic()
        with pytest.raises(LocalError):
            client.call_tool("die")
        assert isinstance(waiting.exception(PATIENCE), McpError)
        with pytest.raises(LocalError):
            client.call_tool("add", {"a": 1, "b": 2})
        assert time.monotonic() - begun < PATIENCE / 2


def test_many_clients_come_and_go(serve):
    """Of both eras, at one URL, all at once; nothing of them stays."""
    clients: list[Client] = []
    try:
        for number in range(20):
            clients.append(connect(serve(), revision=("2025-11-25", MODERN)[number % 2]))
        calls = [
            client.submit("tools/call", {"name": "add", "arguments": {"a": number, "b": 1}})
            for number, client in enumerate(clients)
        ]
        assert not wait(calls, timeout=PATIENCE).not_done
        assert [call.result().text for call in calls] == [str(number + 1) for number in range(20)]
    finally:
        for client in clients:
            client.close()


def test_a_foreign_origin_is_refused_by_the_sdk(serve):
    """403, which is neither era's error."""
    with pytest.raises(McpError, match="403"):
        connect(serve(), headers={"Origin": "https://evil.example"})


def test_an_unknown_tool_is_the_servers_to_refuse(serve):
    with connect(serve("official_lowlevel_server")) as client:
        with pytest.raises(ErrorResponse) as caught:
            client.call_tool("subtract")
        assert caught.value.code == -32602
