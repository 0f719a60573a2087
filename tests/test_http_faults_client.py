"""Servers that behave badly, over HTTP, and our client: an error for the call that it hit, and no more.

Answers that are cut at every byte, answers that are none, and bytes that nobody has thought of. Too much of
everything is in test_http_faults_client_load; how streams may be written, statuses, redirects and time-outs
are in basic/transports/test_http_client and test_http_client_streams.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from http_client_faults import ERAS, bad, goes_on, standing
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from peers import PATIENCE
from web import JSON, STREAM, Request, Wire, result_of, text, web

from mcp_ref import ConnectionClosed, InvalidResponse, McpError, connect
from mcp_ref.basic.transports.streamable_http.http_errors import HttpError
from mcp_ref.runtime.errors import LocalError

BOTH = pytest.mark.parametrize("revision", ERAS)


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with standing(monkeypatch):
        yield


# ------------------------------------------------------------------- answers cut at every byte

ANSWERS = {
    "JSON": lambda body: b"%b\r\nContent-Length: %d\r\n\r\n%b" % (b"X: y", len(body), body),
    "JSON in chunks": lambda body: (
        b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
    ),
    "events": lambda body: (
        b"Transfer-Encoding: chunked\r\n\r\n%x\r\ndata: %b\n\n\r\n0\r\n\r\n" % (len(body) + 8, body)
    ),
    "events without length": lambda body: b"Connection: close\r\n\r\ndata: %b\n\n" % body,
}


@pytest.mark.parametrize("way", ["FIN", "RST"])
@pytest.mark.parametrize("kind", ANSWERS)
@BOTH
def test_an_answer_that_is_cut_at_every_byte(revision: str, kind: str, way: str) -> None:
    """Either all of the answer was there, or it is an error; never half of it, never silence."""
    cut = [0]

    def handle(request: Request, wire: Wire) -> None:
        body = json.dumps(result_of(request, text("ok")), separators=(",", ":")).encode()
        media = STREAM if kind.startswith("events") else JSON
        whole = b"HTTP/1.1 200 OK\r\n%b\r\n%b" % (media.encode(), ANSWERS[kind](body))
        here = cut[0]
        cut[0] = here + 1 if here < len(whole) else -1
        wire.send(whole[:here])
        (wire.reset if way == "RST" else wire.close)()

    outcomes = []
    with bad(handle, revision) as (_site, client):
        while cut[0] >= 0:
            try:
                outcomes.append(client.call_tool("a").text)
            except (ConnectionClosed, InvalidResponse, HttpError):
                outcomes.append("none")
        goes_on(client)
    assert set(outcomes) <= {"ok", "none"}
    assert outcomes[0] == "none"
    assert way == "RST" or outcomes[-1] == "ok"
    assert len(outcomes) > 150


# ------------------------------------------------------------------- answers that are no answers

NO_HTTP = {
    "nothing but line ends": b"\r\n" * 10_000,
    "another protocol": b"SSH-2.0-OpenSSH_9.2\r\n",
    "HTTP/0.9": b"<html>hello</html>",
    "HTTP/2": b"\0\0\x12\4\0\0\0\0\0",
    "a status that is no number": b"HTTP/1.1 OK 200\r\n\r\n",
    "a status of four digits": b"HTTP/1.1 2000 OK\r\nContent-Length: 0\r\n\r\n",
    "a negative status": b"HTTP/1.1 -20 OK\r\nContent-Length: 0\r\n\r\n",
    "a head of one long line": b"HTTP/1.1 200 OK\r\nX: " + b"x" * 1_000_000 + b"\r\n\r\n",
    "10,000 header lines": b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 10_000 + b"\r\n",
    "switching protocols": b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
    "no content": b"HTTP/1.1 204 No Content\r\n\r\n",
    "not modified": b"HTTP/1.1 304 Not Modified\r\n\r\n",
    "partial content": b"HTTP/1.1 206 Partial\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\n{}",
    "a negative length": b"HTTP/1.1 200 OK\r\n" + JSON.encode() + b"\r\nContent-Length: -1\r\n\r\n{}",
    "two lengths": b"HTTP/1.1 200 OK\r\n"
    + JSON.encode()
    + b"\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n{}",
    "a length that is no number": b"HTTP/1.1 200 OK\r\n"
    + JSON.encode()
    + b"\r\nContent-Length: two\r\n\r\n{}",
    "a chunk without size": b"HTTP/1.1 200 OK\r\n"
    + JSON.encode()
    + b"\r\nTransfer-Encoding: chunked\r\n\r\n\r\n",
    "a chunk of a size beyond all": b"HTTP/1.1 200 OK\r\n"
    + JSON.encode()
    + b"\r\nTransfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFFFFFF\r\n{}",
    "a negative chunk": b"HTTP/1.1 200 OK\r\n"
    + JSON.encode()
    + b"\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\n{}",
    "a chunk with a long size": b"HTTP/1.1 200 OK\r\n"
    + JSON.encode()
    + b"\r\nTransfer-Encoding: chunked\r\n\r\n"
    + b"0" * 200_000,
    "another transfer coding": b"HTTP/1.1 200 OK\r\n"
    + JSON.encode()
    + b"\r\nTransfer-Encoding: gzip\r\n\r\n{}",
    "JSON that says it is packed": b"HTTP/1.1 200 OK\r\n"
    + JSON.encode()
    + b"\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}",
    "JSON in UTF-16": b"HTTP/1.1 200 OK\r\n" + JSON.encode() + b"\r\nContent-Length: 6\r\n\r\n\xff\xfe{\0}\0",
    "a type that is not ASCII": b"HTTP/1.1 200 OK\r\nContent-Type: \xff\xfe\r\nContent-Length: 2\r\n\r\n{}",
    "headers folded": b"HTTP/1.1 200 OK\r\nContent-Type:\r\n application/json\r\nContent-Length: 2\r\n\r\n{}",
    "a header without a colon": b"HTTP/1.1 200 OK\r\nhello\r\n" + JSON.encode() + b"\r\n\r\n{}",
}


@BOTH
@pytest.mark.parametrize("kind", NO_HTTP)
def test_an_answer_that_is_none(revision: str, kind: str) -> None:
    """An error of this call, which is short and for people, whatever came."""

    def handle(request: Request, wire: Wire) -> None:
        wire.send(NO_HTTP[kind])
        wire.close()

    with bad(handle, revision) as (_site, client):
        with pytest.raises((ConnectionClosed, InvalidResponse, LocalError)) as problem:
            client.call_tool("a")
        assert 0 < len(str(problem.value)) < 600
        goes_on(client)


@BOTH
@pytest.mark.parametrize("kind", NO_HTTP)
def test_a_server_that_answers_nothing_else(revision: str, kind: str) -> None:
    """Already when it is connected to."""

    def handle(request: Request, wire: Wire) -> None:
        wire.send(NO_HTTP[kind])
        wire.close()

    with web(handle) as site, pytest.raises((ConnectionClosed, InvalidResponse, LocalError)):
        connect(site.url, timeout=PATIENCE)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.one_of(
        st.binary(max_size=200),
        st.builds(
            lambda status, headers, body: b"HTTP/1.1 %d x\r\n%b\r\n%b" % (status, b"".join(headers), body),
            st.integers(100, 599),
            st.lists(
                st.sampled_from(
                    [
                        JSON.encode() + b"\r\n",
                        STREAM.encode() + b"\r\n",
                        b"Content-Length: 10\r\n",
                        b"Transfer-Encoding: chunked\r\n",
                        b"Location: /x\r\n",
                        b"Location: http://[::1/\r\n",
                        b"Mcp-Session-Id: \xff\r\n",
                        b"Retry-After: x\r\n",
                        b"Content-Encoding: deflate\r\n",
                        b"Set-Cookie: a\r\n",
                    ]
                ),
                max_size=4,
                unique=True,
            ),
            st.one_of(
                st.binary(max_size=50),
                st.just(b'data: {"jsonrpc":"2.0","id":1,"error":{}}\n\n'),
                st.just(b'{"jsonrpc":"2.0","id":1,"result":{"supportedVersions":[5]}}'),
                st.just(b'5\r\n{"a":\r\n0\r\n\r\n'),
            ),
        ),
    )
)
def test_whatever_bytes_come_connect_fails_with_an_error_of_ours(data: bytes) -> None:
    def handle(request: Request, wire: Wire) -> None:
        wire.send(data)
        wire.close()

    with web(handle) as site, pytest.raises(McpError):
        connect(site.url, timeout=1.0)
