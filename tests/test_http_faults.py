"""Bad input over HTTP, item by item, against the whole server over a real socket: a clear answer, and on.

Headers and bodies, in both eras. What is wrong within a body that arrived whole is in test_http_faults_json,
clients that behave badly are in test_http_faults_clients, and many of them in test_http_faults_load.
"""

from __future__ import annotations

import gzip
import json
import socket
from pathlib import Path
from typing import Any

import pytest
from http_faults import ERAS, OLD, Standing, added, standing
from http_peers import Peer, RawHttp, Reply, chunks
from peers import MODERN, PATIENCE, Json

from mcp_ref import Denied

BOTH = pytest.mark.parametrize("revision", ERAS)
KIB64 = 65536


def authenticate(request: Any) -> str:
    if request.headers.get("Authorization") != "Bearer right":
        raise Denied("who are you?")
    return "somebody"


# ---------------------------------------------------------------------------------- headers

HEADERS = (
    "Host",
    "Origin",
    "Content-Type",
    "Accept",
    "Content-Length",
    "Mcp-Session-Id",
    "MCP-Protocol-Version",
    "Mcp-Method",
    "Mcp-Name",
    "Mcp-Param-Region",
    "Last-Event-ID",
    "Authorization",
)
FAULTS = (
    "missing",
    "doubled",
    "in lower case",
    "in upper case",
    "with another case",
    "not ASCII",
    "of 64 KiB",
)

FINE = 200
CUT = 431  # what the embedded server says of a head beyond its limit
MISMATCH = (400, -32020)
DRAFT = (400, -32001)
NO_VERSION = (400, -32600)

BY_BOTH: dict[tuple[str, str], Any] = {
    ("Host", "missing"): 400,
    ("Host", "doubled"): 400,
    ("Host", "with another case"): FINE,
    ("Host", "not ASCII"): 400,
    ("Host", "of 64 KiB"): 400,
    ("Origin", "missing"): FINE,
    ("Origin", "doubled"): 403,
    ("Origin", "with another case"): FINE,
    ("Origin", "not ASCII"): 403,
    ("Origin", "of 64 KiB"): 403,
    ("Content-Type", "missing"): 415,
    ("Content-Type", "doubled"): 415,
    ("Content-Type", "with another case"): FINE,
    ("Content-Type", "not ASCII"): 415,
    ("Content-Type", "of 64 KiB"): 415,
    ("Accept", "missing"): FINE,
    ("Accept", "doubled"): FINE,
    ("Accept", "with another case"): FINE,
    ("Accept", "not ASCII"): 406,
    ("Accept", "of 64 KiB"): 406,
    ("Content-Length", "missing"): (400, -32700),  # then there is no body, and what comes is no request
    ("Content-Length", "doubled"): FINE,  # with the same number
    ("Content-Length", "not ASCII"): 400,
    ("Content-Length", "of 64 KiB"): 400,
    ("Authorization", "missing"): 401,
    ("Authorization", "doubled"): 401,
    ("Authorization", "with another case"): 401,
    ("Authorization", "not ASCII"): 401,
    ("Authorization", "of 64 KiB"): 401,
    # For a GET alone; a POST with it is a POST.
    **{("Last-Event-ID", fault): FINE for fault in FAULTS},
}
"""The status of the answer, and the code of the error where the two do not go together always."""

BY_ERA: dict[str, dict[tuple[str, str], Any]] = {
    OLD: {
        ("Mcp-Session-Id", "missing"): 400,
        ("Mcp-Session-Id", "doubled"): 404,
        ("Mcp-Session-Id", "with another case"): 404,
        ("Mcp-Session-Id", "not ASCII"): 404,
        ("Mcp-Session-Id", "of 64 KiB"): 404,
        ("MCP-Protocol-Version", "missing"): FINE,
        ("MCP-Protocol-Version", "doubled"): NO_VERSION,
        ("MCP-Protocol-Version", "with another case"): FINE,
        ("MCP-Protocol-Version", "not ASCII"): NO_VERSION,
        ("MCP-Protocol-Version", "of 64 KiB"): NO_VERSION,
        **{(name, "missing"): FINE for name in ("Mcp-Method", "Mcp-Name", "Mcp-Param-Region")},
        **{
            (name, fault): DRAFT
            for name in ("Mcp-Method", "Mcp-Name", "Mcp-Param-Region")
            for fault in ("doubled", "with another case", "not ASCII", "of 64 KiB")
        },
    },
    MODERN: {
        **{("Mcp-Session-Id", fault): FINE for fault in FAULTS},  # there are no sessions
        **{
            (name, fault): MISMATCH
            for name in ("MCP-Protocol-Version", "Mcp-Method", "Mcp-Name", "Mcp-Param-Region")
            for fault in ("missing", "doubled", "with another case", "not ASCII", "of 64 KiB")
        },
        ("MCP-Protocol-Version", "with another case"): FINE,  # a date has none
    },
}


def expected(revision: str, header: str, fault: str) -> Any:
    if fault in ("in lower case", "in upper case"):
        return FINE
    return {**BY_BOTH, **BY_ERA[revision]}.get((header, fault), FINE)


def a_call(peer: Peer) -> tuple[list[tuple[str, str]], bytes]:
    """The header lines of a call with all headers that there are, and its body."""
    message = peer.message("tools/call", {"name": "weather", "arguments": {"region": "north"}})
    found = {**peer.headers(message), "Origin": f"http://127.0.0.1:{peer.port}"}
    found |= {"Mcp-Method": "tools/call", "Mcp-Name": "weather", "Mcp-Param-Region": "north"}
    found |= {"Mcp-Session-Id": peer.session or "Some-Session", "Last-Event-ID": "Some-1"}
    found |= {"Authorization": "Bearer right"}
    body = json.dumps(message).encode()
    found["Content-Length"] = str(len(body))
    assert set(HEADERS) == set(found)
    return list(found.items()), body


def spoiled(lines: list[tuple[str, str]], header: str, fault: str) -> list[tuple[str, str]]:
    """The same lines, with one of them wrong."""
    at = next(index for index, line in enumerate(lines) if line[0] == header)
    value = lines[at][1]
    put = {
        "missing": [],
        "doubled": [(header, value)] * 2,
        "in lower case": [(header.lower(), value)],
        "in upper case": [(header.upper(), value)],
        "with another case": [(header, value.swapcase())],
        "not ASCII": [(header, "nörd")],
        "of 64 KiB": [(header, (value * KIB64)[:KIB64])],
    }[fault]
    return [*lines[:at], *put, *lines[at + 1 :]]


def posted(at: Standing, lines: list[tuple[str, str]], body: bytes, encoding: str = "latin-1") -> Reply:
    head = "\r\n".join(["POST /mcp HTTP/1.1", *(f"{name}: {value}" for name, value in lines), "\r\n"])
    return Reply(at.raw().send(head.encode(encoding) + body))


def is_as_expected(reply: Reply, wanted: Any) -> None:
    """A status, and a body that says why: JSON with the code, or a line of the embedded server's."""
    status, code = wanted if isinstance(wanted, tuple) else (wanted, None)
    body = reply.body()
    assert reply.status == status, body
    if status == FINE:
        assert b"rain in north" in body
    elif code is not None:
        assert json.loads(body)["error"]["code"] == code
    elif reply.headers["content-type"] == "application/json":
        assert json.loads(body)["error"]["message"]
    else:
        assert 0 < len(body) < 200
    assert len(body) < 1000  # whatever was long is told in short


@BOTH
@pytest.mark.parametrize("header", HEADERS)
def test_a_header_that_is_missing_doubled_in_another_case_not_ascii_or_64_kib(
    header: str, revision: str
) -> None:
    """Issue: "every header missing, doubled, wrong case, non-ASCII, 64 KiB long"."""
    with standing(authenticate=authenticate, http={"max_header_bytes": 1 << 20}) as at:
        for fault in FAULTS:
            with at.peer(revision, headers={"Authorization": "Bearer right"}) as peer:
                lines, body = a_call(peer)
                for encoding in ("latin-1", "utf-8") if fault == "not ASCII" else ("latin-1",):
                    with posted(at, spoiled(lines, header, fault), body, encoding) as reply:
                        is_as_expected(reply, expected(revision, header, fault))


@BOTH
def test_a_header_of_64_kib_is_beyond_the_limit_that_there_is(revision: str) -> None:
    """The embedded server's default: nothing else looks at it."""
    with (
        standing(authenticate=authenticate) as at,
        at.peer(revision, headers={"Authorization": "Bearer right"}) as peer,
    ):
        lines, body = a_call(peer)
        for header in HEADERS:
            with posted(at, spoiled(lines, header, "of 64 KiB"), body) as reply:
                assert reply.status == CUT


@BOTH
def test_many_headers_and_names_that_an_environ_would_confuse(revision: str) -> None:
    with (
        standing(authenticate=authenticate) as at,
        at.peer(revision, headers={"Authorization": "Bearer right"}) as peer,
    ):
        lines, body = a_call(peer)
        with posted(at, [*lines, *[("X-More", "x")] * 100], body) as reply:
            assert reply.status == 431
        forged = [(name.replace("-", "_"), "forged") for name in HEADERS if "-" in name]
        with posted(at, [*lines, *forged], body) as reply:
            is_as_expected(reply, FINE)


@BOTH
@pytest.mark.parametrize("sign", ["\0", "\n", "\r", "\x7f", "\x1b"])
def test_a_control_character_in_a_header(revision: str, sign: str) -> None:
    with (
        standing(authenticate=authenticate) as at,
        at.peer(revision, headers={"Authorization": "Bearer right"}) as peer,
    ):
        lines, body = a_call(peer)
        for header in HEADERS:
            said = [(name, value + f"{sign}x" * (name == header)) for name, value in lines]
            with posted(at, said, body) as reply:
                assert reply.status == 400


# ----------------------------------------------------------------------------------- bodies


def head(peer: Peer, message: Json, *lines: str) -> bytes:
    """The head of a POST, with all but the length of its body."""
    found = [f"{name}: {value}" for name, value in peer.headers(message).items() if value is not None]
    return "\r\n".join(["POST /mcp HTTP/1.1", *found, *lines, "\r\n"]).encode()


def adds(peer: Peer) -> tuple[Json, bytes]:
    message = peer.message("tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}})
    return message, json.dumps(message).encode()


@BOTH
@pytest.mark.parametrize("much", [0, 1_000_000], ids=["small", "large"])
@pytest.mark.parametrize("end", ["silence", "FIN", "RST"])
def test_a_body_that_was_truncated(revision: str, much: int, end: str) -> None:
    """Its message is never run, and its connection ends."""
    silence = 2.0 if much else 0.1  # what is large comes in pieces, and nobody is silent between two of them
    patience = silence if end == "silence" else PATIENCE
    with standing(http={"patience": patience}) as at, at.peer(revision) as peer:
        message, body = adds(peer)
        body += b" " * much
        with at.raw() as client:
            client.send(head(peer, message, f"Content-Length: {len(body) + 1}") + body)
            if end == "RST":
                client.reset()
                return
            if end == "FIN":
                client.socket.shutdown(socket.SHUT_WR)
            said = client.rest()
            if said or end == "silence":
                assert said.startswith(b"HTTP/1.1 408" if end == "silence" else b"HTTP/1.1 400")


@BOTH
def test_a_body_in_chunks(revision: str) -> None:
    with standing() as at, at.peer(revision) as peer:
        message, body = adds(peer)
        for pieces in ([body], [body[:1], body[1:]], [bytes([byte]) for byte in body]):
            with at.raw() as client:
                client.send(head(peer, message, "Transfer-Encoding: chunked") + chunks(*pieces))
                with Reply(client, keep=True) as reply:
                    assert reply.answer()["result"]["content"][0]["text"] == "3"
                assert added(peer, on=client) == "42"


@BOTH
@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"xyz\r\n",
        b"-1\r\n",
        b"0x5\r\n12345\r\n0\r\n\r\n",
        b"5\n12345\n0\n\n",
        b"5\r\n123456\r\n0\r\n\r\n",
        b"FFFFFFFFFFFFFFFFF\r\n",
        b"5" * 5000,
        b"5\r\n123",
        b"5;" + b"x" * 5000 + b"\r\n",
    ],
    ids=lambda text: ascii(text)[:12],
)
def test_a_body_in_chunks_that_are_none(revision: str, text: bytes) -> None:
    with standing(http={"patience": 0.1}) as at, at.peer(revision) as peer, at.raw() as client:
        message, _ = adds(peer)
        client.send(head(peer, message, "Transfer-Encoding: chunked") + text)
        with Reply(client, keep=True) as reply:
            assert reply.status in (400, 408)
            assert reply.json()["error"]["message"]
        assert client.ended()


@BOTH
def test_trailers_are_read_and_never_merged_with_the_headers(revision: str) -> None:
    """Not even where they would mend, or spoil, the request."""
    with standing() as at, at.peer(revision) as peer:
        message, body = adds(peer)
        merged = b"Host: evil.example\r\nAccept: text/html\r\nContent-Length: 1\r\nMcp-Session-Id: x\r\n\r\n"
        for trailers, status in (
            (merged, 200),
            (b"no trailer\r\n\r\n", 400),
            (b"A: b\r\n" * 101 + b"\r\n", 431),
        ):
            with at.raw() as client:
                client.send(head(peer, message, "Transfer-Encoding: chunked") + chunks(body)[:-2] + trailers)
                with Reply(client, keep=True) as reply:
                    assert reply.status == status
                    assert reply.answer()
                if status == 200:
                    assert added(peer, on=client) == "42"
                else:
                    assert client.ended()


@BOTH
@pytest.mark.parametrize("lines", [("Transfer-Encoding: gzip",), ("Transfer-Encoding: chunked, chunked",)])
def test_a_body_in_another_transfer_coding(revision: str, lines: tuple[str, ...]) -> None:
    with standing() as at, at.peer(revision) as peer, at.raw() as client:
        message, body = adds(peer)
        client.send(head(peer, message, *lines) + chunks(body))
        assert client.response().status == 501
        assert client.ended()


@BOTH
def test_a_body_with_two_lengths(revision: str) -> None:
    """Two readers could end it at two places: nobody reads it."""
    with standing() as at, at.peer(revision) as peer:
        message, body = adds(peer)
        for other in ("Transfer-Encoding: chunked", "Content-Length: 1"):
            with at.raw() as client:
                client.send(head(peer, message, f"Content-Length: {len(body)}", other) + chunks(body))
                assert client.response().status == 400
                assert client.ended()


@BOTH
@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "identity, gzip", "x"])
def test_a_body_that_says_it_is_packed(revision: str, coding: str) -> None:
    """Whether it is or not: nothing is unpacked, so nothing can burst."""
    with standing() as at, at.peer(revision) as peer:
        _, body = adds(peer)
        for data in (body, gzip.compress(body)):
            with peer.post(data, Content_Encoding=coding, Mcp_Method="tools/call", Mcp_Name="add") as reply:
                assert reply.status == 415
                assert "as it is" in reply.json()["error"]["message"]


@BOTH
@pytest.mark.parametrize("body", [b"", b" ", b"\r\n", b"\n" * 1000])
def test_a_body_of_nothing(revision: str, body: bytes) -> None:
    with standing() as at, at.peer(revision) as peer, peer.post(body) as reply:
        assert (reply.status, reply.json()["error"]["code"]) == (400, -32700)


def resident() -> int:
    """Bytes of memory that this process has in use."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def send_much(client: RawHttp, opening: bytes, size: int, *, chunked: bool) -> None:
    """A body of so many bytes, as long as somebody takes it."""
    piece = b" " * (1 << 20)
    client.send(opening)
    try:
        for _ in range(size >> 20):
            client.send(b"%x\r\n%b\r\n" % (len(piece), piece) if chunked else piece)
        client.send(b"0\r\n\r\n" if chunked else b"")
    except (BrokenPipeError, ConnectionResetError):
        pass  # nobody reads it any more: then there is an answer


@BOTH
@pytest.mark.parametrize("chunked", [False, True], ids=["sized", "chunked"])
def test_a_body_of_100_mib(revision: str, chunked: bool) -> None:
    """Refused with 413, which its client gets to see; what is refused is not kept in memory either."""
    size = 100 << 20
    with standing() as at, at.peer(revision) as peer, at.raw() as client:
        message, _ = adds(peer)
        before = resident()
        line = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {size}"
        send_much(client, head(peer, message, line), size, chunked=chunked)
        with Reply(client) as reply:
            assert reply.status == 413
            assert "bytes" in reply.json()["error"]["message"]
        if not chunked:
            assert resident() - before < 20 << 20


@BOTH
def test_a_body_of_100_mib_where_that_is_allowed(revision: str) -> None:
    with (
        standing(max_body_bytes=100 << 20, http={"max_body_bytes": 101 << 20}) as at,
        at.peer(revision) as peer,
        at.raw() as client,
    ):
        message, body = adds(peer)
        opening = head(peer, message, f"Content-Length: {100 << 20}") + body + b" " * (-len(body) % (1 << 20))
        send_much(client, opening, 99 << 20, chunked=False)
        with Reply(client) as reply:
            assert reply.answer()["result"]["content"][0]["text"] == "3"


@BOTH
def test_a_body_at_the_limit_and_one_beyond_it(revision: str) -> None:
    with standing(max_body_bytes=10_000) as at, at.peer(revision) as peer:
        for size, status in ((10_000, 200), (10_001, 413)):
            message, body = adds(peer)
            with at.raw() as client:
                client.send(head(peer, message, f"Content-Length: {size}") + body.ljust(size))
                assert client.response().status == status


@BOTH
def test_a_body_that_waits_for_leave_and_is_refused(revision: str) -> None:
    """`Expect: 100-continue`: a length beyond the limit is refused without a byte of it."""
    with standing() as at, at.peer(revision) as peer, at.raw() as client:
        message, body = adds(peer)
        client.send(head(peer, message, f"Content-Length: {1 << 40}", "Expect: 100-continue"))
        assert client.response().status == 413
        with at.raw() as patient:
            patient.send(head(peer, message, f"Content-Length: {len(body)}", "Expect: 100-continue"))
            assert patient.until(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
            with Reply(patient.send(body), keep=True) as reply:
                assert reply.answer()["result"]["content"][0]["text"] == "3"


@BOTH
def test_a_request_of_another_method_or_version_or_path(revision: str) -> None:
    with standing() as at, at.peer(revision) as peer:
        for method in ("PUT", "PATCH", "HEAD", "TRACE", "CONNECT", "post", "X" * 1000):
            with peer.http(method) as reply:
                assert reply.status in (400, 405)
        for path in (
            "/",
            "/mc",
            "/mcp/more",
            "//mcp/..",
            "/%6dcp%00",
            "/mcp\xff",
            "*",
            "http://[",
            "/" * 9000,
        ):
            with peer.post(adds(peer)[0], path=path) as reply:
                assert reply.status in (400, 404, 405, 414)
        for version in ("HTTP/0.9", "HTTP/2.0", "HTTP/1.1.1", "HTTP", ""):
            with at.raw() as client:
                client.send(f"POST /mcp {version}\r\nHost: localhost\r\n\r\n".encode())
                assert client.response().status in (400, 505)
