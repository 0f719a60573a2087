"""A client of ours against the official Python SDK's servers, over real pipes.

Two servers, because the SDK has two: MCPServer, which most people use, and the low-level one, which
can do what MCPServer does not (pages, log levels, changes of the list, methods of its own). Both speak
all five revisions; our client says which one it wants.
"""

from __future__ import annotations

import json
import queue
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import wait
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from choices import for_connect
from interop.http_children import LIMITS
from peers import LEGACY, MODERN, PATIENCE, REVISIONS, eventually, nothing_left

from mcp_ref import (
    Client,
    ClientOptions,
    ConnectionClosed,
    ErrorResponse,
    InvalidResponse,
    McpError,
    RequestTimeout,
    connect,
)
from mcp_ref.runtime.errors import LocalError

HERE = Path(__file__).parent
OFFICIAL = [sys.executable, str(HERE / "official_server.py")]
LOWLEVEL = [sys.executable, str(HERE / "official_lowlevel_server.py")]


class Sessions(NamedTuple):
    """One connection to each server, shared by the tests of a revision: the SDK is slow to start."""

    revision: str
    official: Client
    lowlevel: Client
    notifications: queue.SimpleQueue[tuple[str, Any]]
    logged: queue.SimpleQueue[tuple[str, Any, str | None]]


@pytest.fixture(scope="module", params=REVISIONS)
def sessions(request: pytest.FixtureRequest) -> Iterator[Sessions]:
    notifications: queue.SimpleQueue[tuple[str, Any]] = queue.SimpleQueue()
    logged: queue.SimpleQueue[tuple[str, Any, str | None]] = queue.SimpleQueue()

    def on_notification(method: str, params: Any) -> None:
        if method != "notifications/message":  # these come to on_log as well
            notifications.put((method, params))

    hear: dict[str, Callable[..., object]] = {
        "on_notification": on_notification,
        "on_log": lambda *message: logged.put(message),
        "on_stderr": lambda line: None,
    }
    revision = request.param
    with (
        nothing_left(),
        connect(OFFICIAL, **for_connect(revision=revision, **hear)) as official,
        connect(LOWLEVEL, **for_connect(revision=revision, **hear)) as lowlevel,
    ):
        yield Sessions(revision, official, lowlevel, notifications, logged)


@pytest.fixture
def official(sessions: Sessions) -> Client:
    return sessions.official


@pytest.fixture
def lowlevel(sessions: Sessions) -> Client:
    return sessions.lowlevel


# ------------------------------------------------------------------------------- opening


@pytest.mark.spec("basic/lifecycle/init-request", "basic/transports/stdio/modern-only-probe")
def test_the_revision_is_the_one_the_client_wants(sessions):
    """And the server says who it is, in either era."""
    for client, name, version in (
        (sessions.official, "official", "2.0"),
        (sessions.lowlevel, "low", "3.0"),
    ):
        assert client.revision.date == sessions.revision
        assert (client.server_info["name"], client.server_info["version"]) == (name, version)
        assert "tools" in client.server_capabilities
    assert sessions.official.instructions == "Ask."


@pytest.mark.parametrize(
    ("revisions", "agreed"),
    [(REVISIONS, MODERN), ((MODERN,), MODERN), (LEGACY, "2025-11-25"), (LEGACY[:2], "2025-03-26")],
    ids=["all", "modern", "legacy", "old"],
)
def test_the_newest_revision_that_both_know_is_agreed_on(revisions, agreed):
    """However long the SDK's server takes to start: it is sent the probe alone until it answers."""
    with (
        nothing_left(),
        connect(
            OFFICIAL, timeout=100, options=ClientOptions(revisions=revisions, probe_timeout=100)
        ) as client,
    ):
        assert client.revision.date == agreed
        assert client.call_tool("add", {"a": 1, "b": 2}).text == "3"


# ---------------------------------------------------------------------------------- tools


def test_every_field_of_a_tool_arrives(official):
    tool = next(tool for tool in official.list_tools() if tool["name"] == "adorned")
    assert (tool["title"], tool["description"]) == (
        "Adorned",
        "It has every member that a tool may have.",
    )
    number = tool["inputSchema"]["properties"]["n"]
    assert (number["type"], number["minimum"], number["description"]) == ("integer", 1, "how many")
    assert tool["outputSchema"]["additionalProperties"] == {"type": "integer"}
    assert tool["annotations"] == {"title": "Hint", "readOnlyHint": True, "openWorldHint": False}
    assert tool["icons"] == [{"src": "data:image/png;base64,AAAA", "mimeType": "image/png", "sizes": ["1x1"]}]
    assert tool["_meta"] == {"example.org/shelf": 7}


def test_typed_arguments_and_results_go_there_and_back(official):
    """Structured content is checked against the schema that pydantic made."""
    official.list_tools()
    walks = [{"day": "2026-07-28", "length": 2.5}, {"day": "2026-07-30", "length": 1}]
    result = official.call_tool("summarise", {"walks": walks})
    assert not result.is_error
    assert result.structured == {"walks": 2, "total": 3.5, "last": "2026-07-30"}
    assert json.loads(result.text) == result.structured
    assert official.call_tool("add", {"a": 2, "b": 3}).structured == {"result": 5}


def test_what_a_tool_refuses_is_an_error_result(official):
    """MCPServer answers unknown tools and bad arguments so, in every revision."""
    for name, arguments in (("subtract", {}), ("add", {"a": "x"}), ("broken", {"kind": "tool"})):
        assert official.call_tool(name, arguments).is_error
    assert official.call_tool("broken", {"kind": "tool"}).text.endswith("the well is dry")
    assert "secret" not in official.call_tool("broken", {"kind": "plain"}).text


def test_a_protocol_error_is_an_exception_with_code_and_data(sessions):
    with pytest.raises(ErrorResponse) as caught:
        sessions.official.call_tool("broken", {"kind": "protocol"})
    assert (caught.value.code, caught.value.message) == (1001, "no such account")
    assert caught.value.data == {"account": 7}
    with pytest.raises(ErrorResponse) as caught:
        sessions.lowlevel.call_tool("subtract")
    assert caught.value.code == -32602
    with pytest.raises(ErrorResponse) as caught:
        sessions.official.request("vendor/nothing")
    assert caught.value.code == -32601


def test_every_type_of_content_arrives(official):
    result = official.call_tool("contents")
    kinds = [block["type"] for block in result["content"]]
    assert kinds == ["text", "image", "audio", "resource_link", "resource", "resource"]
    text, image, audio, link, resource, blob = result["content"]
    assert text["annotations"] == {"audience": ["user"], "priority": 0.5}
    assert text["_meta"] == {"example.org/k": "v"}
    assert (image["data"], audio["data"]) == ("iVBORw==", "UklGRg==")
    assert (link["uri"], link["size"]) == ("file:///a.txt", 3)
    assert resource["resource"] == {"uri": "file:///b.txt", "text": "its text"}
    assert blob["resource"] == {"uri": "file:///c.bin", "blob": "AAE="}
    assert result.text == "hello"
    assert official.call_tool("whole")["_meta"]["example.org/trace"] == "t1"


@pytest.mark.spec("server/utilities/pagination/opaque-cursors", "server/utilities/pagination/both-flows")
def test_all_pages_are_fetched(sessions):
    pages = [[tool["name"] for tool in page["tools"]] for page in sessions.lowlevel.pages("tools/list")]
    assert {len(page) for page in pages[:-1]} == {3}
    names = [tool["name"] for tool in sessions.lowlevel.list_tools()]
    assert names == [name for page in pages for name in page]
    assert ("listing" in names) == (sessions.revision == MODERN)
    with pytest.raises(ErrorResponse) as caught:
        sessions.lowlevel.request("tools/list", {"cursor": "nonsense"})
    assert caught.value.code == -32602


@pytest.mark.spec("server/tools/validate-results", "server/tools/output-schema-validated")
def test_a_result_that_is_not_as_declared_is_refused(sessions):
    sessions.lowlevel.list_tools()
    assert sessions.lowlevel.call_tool("truth").structured == {"n": 1}
    for name in ("lie", "silence"):
        with pytest.raises(InvalidResponse, match=name):
            sessions.lowlevel.call_tool(name)
    if sessions.revision == MODERN:  # structured content of any kind
        assert sessions.lowlevel.call_tool("listing").structured == [1, 2]


# ----------------------------------------------------------------------------- while it runs


def test_progress_reaches_the_caller(official):
    reports: list[tuple[float, float | None, str | None]] = []
    result = official.call_tool("count", {"upto": 3}, on_progress=lambda *report: reports.append(report))
    assert result.text == "counted"
    assert reports == [(1, 3, "step 1"), (2, 3, "step 2"), (3, 3, "step 3")]


def drain(messages: queue.SimpleQueue[Any]) -> None:
    while not messages.empty():
        messages.get()


@pytest.mark.spec("server/utilities/logging/set-level")
def test_log_messages_come_from_the_level_that_the_client_set(sessions):
    client = sessions.lowlevel
    drain(sessions.logged)
    client.set_log_level("warning")
    client.call_tool("speak")
    found = [sessions.logged.get(timeout=PATIENCE) for _ in range(2)]
    assert found == [("warning", "at warning", "speaker"), ("error", "at error", "speaker")]
    client.set_log_level("error")
    client.call_tool("speak")
    assert sessions.logged.get(timeout=PATIENCE) == ("error", "at error", "speaker")
    assert sessions.logged.empty()


def test_a_server_without_the_logging_capability_is_not_asked(sessions):
    """MCPServer declares none: a legacy client cannot set a level, a modern one just says it."""
    if sessions.revision == MODERN:
        drain(sessions.logged)
        sessions.official.set_log_level("warning")
        sessions.official.call_tool("speak")
        first, second = (sessions.logged.get(timeout=PATIENCE) for _ in range(2))
        assert first == ("warning", {"volume": 7}, "speaker")
        assert second == ("error", "loud", None)
    else:
        with pytest.raises(LocalError, match="capability"):
            sessions.official.set_log_level("warning")


@pytest.mark.spec("basic/patterns/cancellation/stdio-cancelled-notification")
def test_a_cancelled_call_is_stopped(official):
    """By its caller, and by its deadline."""
    running = threading.Event()
    call = official.submit("tools/call", {"name": "wait"}, on_progress=lambda *report: running.set())
    assert running.wait(PATIENCE)
    assert call.cancel()
    assert official.call_tool("was_cancelled").structured == {"result": True}
    running.clear()
    for seconds in LIMITS:
        with pytest.raises(RequestTimeout):
            official.call_tool("wait", timeout=seconds, on_progress=lambda *report: running.set())
        if running.is_set():
            break
    assert running.is_set()
    assert official.call_tool("was_cancelled").structured == {"result": True}


def test_ping_goes_both_ways_in_the_legacy_era(sessions):
    """2026-07-28 has none: our `ping` discovers instead, and the server may not ask."""
    sessions.official.ping()
    sessions.lowlevel.ping()
    if sessions.revision == MODERN:
        with pytest.raises(ErrorResponse):
            sessions.lowlevel.call_tool("ping_back")
    else:
        assert sessions.lowlevel.call_tool("ping_back").text == "done"


@pytest.mark.spec("server/tools/list-changed")
def test_a_changed_list_is_told_to_a_legacy_client(sessions):
    """In the modern era it would come on a subscription, and nowhere else."""
    client = sessions.lowlevel
    before = len(client.list_tools())
    drain(sessions.notifications)
    client.call_tool("grow")
    if sessions.revision != MODERN:
        assert sessions.notifications.get(timeout=PATIENCE)[0] == "notifications/tools/list_changed"
    assert len(client.list_tools()) == before + 1
    assert sessions.notifications.empty()


def test_vendor_requests_and_notifications_go_both_ways(sessions):
    client = sessions.lowlevel
    result = client.request("vendor/double", {"n": 21})
    assert (result["doubled"], result["revision"]) == (42, sessions.revision)
    client.notify("vendor/heard", {"news": "rain"})
    assert client.call_tool("news").text.startswith("rain")
    drain(sessions.notifications)
    client.call_tool("tells")
    assert sessions.notifications.get(timeout=PATIENCE) == ("notifications/vendor/told", {"news": 1})


# ------------------------------------------------------------------------------ size and end


def test_a_mebibyte_goes_there_and_back(official):
    text = 'ä€𝄞 \\"\n' * (2**20 // 14)
    assert official.call_tool("echo", {"text": text}).structured == {"result": text}


def test_twenty_calls_run_at_once(official):
    """From one thread, and from twenty."""
    calls = [official.submit("tools/call", {"name": "meet"}) for _ in range(20)]
    assert not wait(calls, timeout=PATIENCE).not_done
    assert [call.result().text for call in calls] == ["met"] * 20
    sums: list[int] = []
    threads = [
        threading.Thread(
            target=lambda n=n: sums.append(official.call_tool("add", {"a": n, "b": n}).structured)
        )
        for n in range(20)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert sorted(found["result"] for found in sums) == [2 * n for n in range(20)]


@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
@pytest.mark.spec("basic/transports/stdio/stderr-handling", "basic/transports/stdio/shutdown-close-stdin")
def test_stderr_is_passed_on_and_the_end_is_prompt(revision):
    """The SDK's server exits at end of input, long before it would get a signal; nothing is left."""
    lines: list[str] = []
    with nothing_left():
        client = connect(
            OFFICIAL, revision=revision, options=ClientOptions(on_stderr=lines.append, grace=3 * PATIENCE)
        )
        assert client.call_tool("noisy").text == "quiet"
        assert eventually(lambda: "for people" in lines)
        started = time.monotonic()
        client.close()
        assert time.monotonic() - started < PATIENCE
        with pytest.raises(ConnectionClosed):
            client.call_tool("noisy")


def test_a_server_that_dies_fails_the_waiting_calls_at_once():
    with nothing_left(), connect(OFFICIAL, options=ClientOptions(on_stderr=lambda line: None)) as client:
        waiting = client.submit("tools/call", {"name": "wait"})
        with pytest.raises(ConnectionClosed) as caught:
            client.call_tool("die")
        assert "exited with code 3" in str(caught.value)
        assert "out of memory" in str(caught.value)
        assert isinstance(waiting.exception(PATIENCE), McpError)
