"""Ping (page: basic/utilities/ping), which 2026-07-28 no longer has."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest
from peers import (
    ENV,
    LEGACY,
    MODERN,
    PATIENCE,
    Notes,
    RawClient,
    nothing_left,
    python,
    raw_server,
    source,
)

from mcp_ref import ConnectionClosed, Context, RequestTimeout, Server, connect
from mcp_ref.basic.utilities.ping import PingRequest
from mcp_ref.schema import Mismatch, checker, definitions


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    with nothing_left():
        yield


def test_the_shape_exists_until_2025_11_25() -> None:
    for revision in LEGACY:
        assert "PingRequest" in definitions(revision)
    assert "PingRequest" not in definitions(MODERN)
    checker(PingRequest, "2024-11-05")({"method": "ping"})
    with pytest.raises(Mismatch, match="method"):
        checker(PingRequest, "2025-11-25")({"jsonrpc": "2.0", "id": 1, "method": "pong"})


@pytest.mark.spec("basic/utilities/ping/respond-empty", "basic/utilities/ping/either-side")
@pytest.mark.parametrize("revision", LEGACY)
def test_a_server_answers_with_an_empty_result(revision: str) -> None:
    """With and without params, before initialize, between the two steps of the handshake, and after."""
    with RawClient(Server("tests")) as client:
        assert client.request("ping") == {"jsonrpc": "2.0", "id": 1, "result": {}}
        info = {"name": "raw", "version": "1"}
        hello = {"protocolVersion": revision, "capabilities": {}, "clientInfo": info}
        assert "result" in client.request("initialize", hello)
        assert client.request("ping")["result"] == {}
        client.notify("notifications/initialized")
        assert client.request("ping", {"_meta": {"progressToken": 1}})["result"] == {}
        client.send({"jsonrpc": "2.0", "id": "bare", "method": "ping"})
        assert client.receive() == {"jsonrpc": "2.0", "id": "bare", "result": {}}


@pytest.mark.spec("basic/utilities/ping/respond-empty", "basic/utilities/ping/either-side")
@pytest.mark.parametrize("revision", LEGACY)
def test_a_client_answers_with_an_empty_result(revision: str) -> None:
    script = f"""
    open_legacy({revision!r})
    send(id="ping", method="ping")
    note(receive(""))
    note("answered")
    go_on()
    """
    notes = Notes()
    with connect(raw_server(script), on_stderr=notes, revision=revision):
        notes.until(lambda note: note == "answered")
    assert {"jsonrpc": "2.0", "id": "ping", "result": {}} in notes.all


@pytest.mark.spec("basic/utilities/ping/respond-empty")
@pytest.mark.parametrize("revision", LEGACY)
def test_no_busy_tool_delays_a_ping(revision: str) -> None:
    """Every worker sleeps and the queue is full: the reader answers."""
    server = Server("tests", workers=2, queue=1)
    busy = threading.Semaphore(0)

    @server.tool
    def wait(ctx: Context) -> str:
        busy.release()
        ctx.sleep(60)
        return ""

    with RawClient(server, revision=revision) as client:
        for _ in range(2):
            client.call("wait")
            assert busy.acquire(timeout=PATIENCE)
        client.call("wait")
        refused = client.call("wait")
        assert client.receive()["id"] == refused  # 429: nothing more fits
        started = time.monotonic()
        for _ in range(20):
            assert client.request("ping")["result"] == {}
        assert time.monotonic() - started < 2.0


@pytest.mark.spec("basic/utilities/ping/either-side")
@pytest.mark.parametrize("revision", LEGACY)
def test_a_server_of_ours_pings_a_client_of_ours(revision: str) -> None:
    body = """
    @server.tool
    def ask(ctx: Context) -> dict:
        return ctx.request("ping")
    """
    with connect(python(source(body)), env=ENV, revision=revision) as client:
        client.ping()
        assert client.call_tool("ask").text == "{}"


@pytest.mark.spec("basic/utilities/ping/timeout-is-failure", "basic/utilities/ping/log-failures")
@pytest.mark.parametrize("revision", LEGACY)
def test_no_answer_is_a_failure_that_is_logged(revision: str, caplog: pytest.LogCaptureFixture) -> None:
    script = f"open_legacy({revision!r})\nwhile os.read(0, 65536): pass"
    with connect(raw_server(script), on_stderr=Notes(), revision=revision) as client:
        with pytest.raises(RequestTimeout):
            client.ping(timeout=0.05)
        assert "ping failed" in caplog.text
    with pytest.raises(ConnectionClosed):
        client.ping()


def test_2026_07_28_has_no_ping_and_a_client_asks_discover() -> None:
    """It tells as much."""
    with RawClient(Server("tests"), revision=MODERN) as client:
        assert client.request("ping")["error"]["code"] == -32601
    notes = Notes()
    with connect(raw_server("open_modern()\ngo_on()"), on_stderr=notes) as ours:
        ours.ping()
    assert [m["method"] for m in notes.all] == ["server/discover", "server/discover"]
