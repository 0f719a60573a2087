"""What crosses the wire is told, over each transport, and to a function that fails as well."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any, cast

import pytest
from http_peers import endpoint
from peers import ENV, LEGACY, MODERN, nothing_left, python, source

from mcp_ref import ClientOptions, Context, ErrorResponse, Server, connect
from mcp_ref.api.wire import TappedLink

BOTH = pytest.mark.parametrize("revision", [LEGACY[-1], MODERN])
ECHO = source("""
    @server.tool
    def echo(said: str) -> str:
        return said
    """)


class Wire:
    """What was told, as JSON."""

    def __init__(self) -> None:
        self.messages: list[tuple[str, Any]] = []

    def __call__(self, direction: str, message: bytes) -> None:
        self.messages.append((direction, json.loads(message)))

    def about(self, method: str) -> list[tuple[str, Any]]:
        """A request and all that came with its id."""
        ids = [m["id"] for _, m in self.messages if m.get("method") == method]
        return [(d, m) for d, m in self.messages if m.get("id") in ids]


def echo() -> Server:
    server = Server("echo")

    @server.tool
    def echo(said: str, ctx: Context) -> str:
        ctx.progress(1, 2)
        return said

    return server


def check(wire: Wire) -> None:
    (out, request), (back, response) = wire.about("tools/call")
    assert (out, request["params"]["arguments"]) == (">", {"said": "ü"})
    assert (back, response["result"]["content"][0]["text"]) == ("<", "ü")


@BOTH
def test_what_crosses_a_pipe_is_told(revision: str) -> None:
    wire = Wire()
    options = ClientOptions(env=ENV, on_wire=wire)
    with nothing_left(), connect(python(ECHO), revision=revision, options=options) as client:
        client.call_tool("echo", {"said": "ü"})
    check(wire)


@BOTH
def test_what_crosses_memory_is_told(revision: str) -> None:
    wire = Wire()
    with nothing_left(), connect(echo(), revision=revision, options=ClientOptions(on_wire=wire)) as client:
        client.call_tool("echo", {"said": "ü"}, on_progress=lambda *told: None)
    check(wire)
    assert [d for d, m in wire.messages if m.get("method") == "notifications/progress"] == ["<"]


@pytest.mark.parametrize("progress", [False, True])
@BOTH
def test_what_crosses_http_is_told_as_json_and_as_events(revision: str, progress: bool) -> None:
    wire = Wire()
    with nothing_left(), endpoint(echo()) as site:
        url = f"http://127.0.0.1:{site.port}/mcp"
        with connect(url, revision=revision, options=ClientOptions(on_wire=wire)) as client:
            on_progress = (lambda *told: None) if progress else None
            client.call_tool("echo", {"said": "ü"}, on_progress=on_progress)
            with pytest.raises(ErrorResponse):
                client.request("no/such")
    check(wire)
    refused = wire.about("no/such")
    assert [direction for direction, _ in refused] == [">", "<"]
    assert refused[1][1]["error"]["code"] == -32601


def test_what_crosses_the_old_transport_is_told() -> None:
    wire = Wire()
    with nothing_left(), endpoint(echo(), sse_path="/sse") as site:
        url = f"http://127.0.0.1:{site.port}/sse"
        options = ClientOptions(on_wire=wire)
        with connect(url, revision=LEGACY[0], options=options) as client:
            client.call_tool("echo", {"said": "ü"})
    check(wire)


def test_a_function_that_fails_ends_nothing(caplog: pytest.LogCaptureFixture) -> None:
    def fail(direction: str, message: bytes) -> None:
        raise ValueError("too loud")

    with nothing_left(), connect(echo(), options=ClientOptions(on_wire=fail)) as client:
        assert client.call_tool("echo", {"said": "x"}).text == "x"
    assert "on_wire failed" in caplog.text
    assert "too loud" in caplog.text


def test_several_messages_of_one_write_are_told_one_by_one() -> None:
    class Link:
        written = b""

        def write(self, lines: bytes) -> None:
            self.written += lines

    link, told = Link(), []
    TappedLink(link, lambda *message: told.append(message)).write(b"1\n2\n")
    assert (link.written, told) == (b"1\n2\n", [(">", b"1"), (">", b"2")])


def test_what_cannot_be_called_hears_nothing() -> None:
    with pytest.raises(TypeError, match="on_wire is a function"):
        ClientOptions(on_wire="x")  # type: ignore[arg-type]


def test_of_all_else_a_tapped_link_says_what_its_link_says() -> None:
    link = SimpleNamespace(
        peer_drained_input=True,
        crashed=False,
        silence=lambda: "it is silent",
        exit_reason=lambda: "it has ended",
        close=lambda: done.append("close"),
        release=lambda: done.append("release"),
    )
    done: list[str] = []
    tapped = TappedLink(cast(Any, link), lambda direction, message: None)
    assert (tapped.peer_drained_input, tapped.crashed) == (True, False)
    assert (tapped.silence(), tapped.exit_reason()) == ("it is silent", "it has ended")
    tapped.close()
    tapped.release()
    assert done == ["close", "release"]
