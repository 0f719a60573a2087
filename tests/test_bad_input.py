"""Bad input, item by item, over real pipes: a clear error, and the connection alive after it.

The server's side: a raw client that says wrong things to a real server child, in the legacy and in the
modern era. The client's side: our client with a raw server that says wrong things to it.
"""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from peers import (
    ENV,
    META,
    MODERN,
    PATIENCE,
    REVISIONS,
    Json,
    Notes,
    RawClient,
    eventually,
    nothing_left,
    one_sentence,
    python,
    raw_server,
    source,
)

from mcp_ref import (
    ClientOptions,
    ConnectionClosed,
    ErrorResponse,
    InvalidResponse,
    McpError,
    RequestTimeout,
    connect,
)

ERAS = ("2025-11-25", MODERN)
BOTH = pytest.mark.parametrize("revision", ERAS)
ALL_LEGACY_TOO = pytest.mark.parametrize("revision", ["2024-11-05", "2025-03-26", *ERAS])

BODY = """
import os, threading, time
@server.tool
def add(a: int, b: int) -> int:
    return a + b
@server.tool
def echo(value: object) -> str:
    return repr(value)
@server.tool
def slow(ctx: Context) -> str:
    ctx.sleep(60)
@server.tool
def peak() -> int:
    import resource
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
"""


@pytest.fixture(scope="module")
def servers() -> Iterator[dict[str, RawClient]]:
    """One server child a revision for the whole list: it survives all of it, and then ends properly."""
    options = "options=ServerOptions(max_message_bytes=1_000_000)"
    found = {date: RawClient(source(BODY, options=options), revision=date) for date in REVISIONS}
    yield found
    for raw in found.values():
        raw.end_input()
        assert raw.wait() == 0
        raw.close()
        assert "Traceback" not in "\n".join(raw.stderr)


@pytest.fixture(autouse=True)
def clean(servers: dict[str, RawClient]) -> Iterator[None]:
    with nothing_left():
        yield


@pytest.fixture
def client(servers: dict[str, RawClient], revision: str) -> Iterator[RawClient]:
    """A raw client of a real server child; whatever the test did, the server still answers."""
    raw = servers[revision]
    assert raw.is_alive()
    raw.aside.clear()  # what a test that failed has left
    yield raw
    assert raw.is_alive()
    result = raw.answer(raw.call("add", {"a": 20, "b": 22}))["result"]
    assert result["content"][0]["text"] == "42"
    assert raw.aside == []


def line(message: Any) -> bytes:
    return json.dumps(message).encode() + b"\n"


def with_text(client: RawClient, text: str, **members: Any) -> bytes:
    """A tools/call of `echo` whose argument is this JSON text, as a line."""
    message = client.message("tools/call", {"name": "echo", "arguments": {"value": "HERE"}}, **members)
    return json.dumps(message).replace('"HERE"', text).encode("utf-8", "surrogatepass") + b"\n"


def refused(client: RawClient, code: int, *words: str) -> Json:
    """The next message is an error with this code that says this."""
    answer: Json = client.receive()
    assert "error" in answer, answer
    assert answer["error"]["code"] == code
    one_sentence(answer["error"]["message"])
    for word in words:
        assert word in answer["error"]["message"]
    return answer


# ------------------------------------------------------------------ bytes that are not UTF-8


@BOTH
@pytest.mark.parametrize(
    "bad", [b"\xff", b"\xc3", b"\xc0\xaf", b"\xed\xa0\x80", b"\xf5\x80\x80\x80", b"\xe9"]
)
def test_bytes_that_are_not_utf8(client: RawClient, bad: bytes) -> None:
    client.write(line(client.message("tools/list")).replace(b"tools/list", b"tools/" + bad))
    refused(client, -32700, "UTF-8")


@BOTH
@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-32"])
def test_another_encoding(client: RawClient, encoding: str) -> None:
    """With a newline of ours at its end, since it has none of its own."""
    client.write(json.dumps(client.message("tools/list")).encode(encoding) + b"\n")
    refused(client, -32700)


@BOTH
def test_a_byte_order_mark(client: RawClient) -> None:
    client.write(b"\xef\xbb\xbf" + line(client.message("tools/list")))
    refused(client, -32700)


# ----------------------------------------------------------- half a message, then end of input


@BOTH
def test_half_a_message_then_end_of_input(revision: str) -> None:
    """It is no message: nothing is answered, and the server ends properly."""
    with RawClient(source(BODY), revision=revision) as client:
        assert client.is_alive()
        client.write(line(client.message("tools/list"))[:-10])
        client.end_input()
        assert client.wait() == 0
        with pytest.raises(EOFError):
            client.receive()


@BOTH
def test_a_message_without_its_newline_then_end_of_input(revision: str) -> None:
    """Complete JSON, but the line never ended: it may have been cut off."""
    with RawClient(source(BODY), revision=revision) as client:
        client.write(line(client.message("tools/list"))[:-1])
        client.end_input()
        assert client.wait() == 0
        with pytest.raises(EOFError):
            client.receive()


# ------------------------------------------------------------------------------ empty lines


@BOTH
def test_empty_lines(client: RawClient) -> None:
    """Nothing, and not answered."""
    client.write(b"\n\n\r\n   \n\t\n")


# ------------------------------------------------------------------- JSON that is not an object


@BOTH
@pytest.mark.parametrize("text", ["5", "-0.5", '"text"', "null", "true", "false", '""', "0"])
def test_json_that_is_not_an_object(client: RawClient, text: str) -> None:
    client.write(text.encode() + b"\n")
    refused(client, -32600, "object")


@BOTH
@pytest.mark.parametrize("text", ["[]", "[1]", "[[]]", '[{"jsonrpc":"2.0","id":1,"method":"ping"}]'])
def test_an_array(client: RawClient, text: str) -> None:
    client.write(text.encode() + b"\n")
    refused(client, -32600, "batch")


@BOTH
@pytest.mark.parametrize(
    "text",
    [
        b"{",
        b"}",
        b"{}{}",
        b"{'a': 1}",
        b'{"a": 1,}',
        b"// x",
        b"\x00",
        b"{\x00}",
        b"hello",
        b'{"a": "\x01"}',
        b"NaN ",
    ],
)
def test_what_is_not_json(client: RawClient, text: bytes) -> None:
    client.write(text + b"\n")
    refused(client, -32700)


# ------------------------------------------------------------------- 10,000 levels of nesting


@BOTH
@pytest.mark.parametrize("levels", [201, 10_000, 200_000])
@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")])
def test_levels_of_nesting(client: RawClient, levels: int, opening: str, closing: str) -> None:
    """Closed properly or not; inside a message or as one."""
    if levels * len(opening) > 900_000:
        levels = 900_000 // len(opening) // 2
    deep = opening * levels + "1" + closing * levels
    client.write(with_text(client, deep))
    refused(client, -32700, "nested deeper")
    client.write(opening.encode() * levels + b"\n")
    refused(client, -32700)


# ---------------------------------------------------------------------- numbers beyond float


@BOTH
@pytest.mark.parametrize("text", ["1e400", "-1e400", "1" + "0" * 400 + ".0", "NaN", "Infinity", "-Infinity"])
def test_numbers_beyond_float(client: RawClient, text: str) -> None:
    client.write(with_text(client, text))
    refused(client, -32700, "number")


@BOTH
def test_an_integer_of_many_digits(client: RawClient) -> None:
    """JSON has no limit for them: a few hundred digits are fine, a million are refused or answered."""
    client.write(with_text(client, "7" * 300, id="some"))
    assert client.receive()["result"]["content"][0]["text"] == "7" * 300
    started = time.monotonic()
    client.write(with_text(client, "7" * 900_000, id="many"))
    answer = client.receive()
    assert "error" in answer or answer["result"]
    assert time.monotonic() - started < PATIENCE


@BOTH
def test_tiny_numbers_are_zero(client: RawClient) -> None:
    client.write(with_text(client, "1e-400", id="tiny"))
    assert client.receive()["result"]["content"][0]["text"] == "0.0"


# ---------------------------------------------------------------------------- duplicate keys


@BOTH
@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b'"id"', b'"id": 1, "id"'),
        (b'"method"', b'"method": "x", "method"'),
        (b'"params"', b'"params": {}, "params"'),
        (b'"name"', b'"name": "x", "n\\u0061me"'),
    ],
)
def test_duplicate_keys(client: RawClient, before: bytes, after: bytes) -> None:
    client.write(
        line(client.message("tools/call", {"name": "add", "arguments": {}})).replace(before, after, 1)
    )
    refused(client, -32700, "twice")


# --------------------------------------------------------------------------- lone surrogates


@BOTH
@pytest.mark.parametrize(
    "text", [r'"\ud800"', r'"\udc00x"', r'"\udc00\ud800"', r'{"\udfff": 1}', r'["a\uDABC"]']
)
def test_lone_surrogates(client: RawClient, text: str) -> None:
    """JSON can write them, UTF-8 cannot carry them."""
    client.write(with_text(client, text))
    refused(client, -32700, "surrogate")


@BOTH
def test_surrogates_in_pairs_are_characters(client: RawClient) -> None:
    client.write(with_text(client, r'"\ud83d\ude00 \\ud800 \u0000"', id="pair"))
    assert client.receive()["result"]["content"][0]["text"] == repr("😀 \\ud800 \0")


# ------------------------------------------------------------------------- messages of 64 MiB


@BOTH
def test_a_message_of_64_mib(revision: str) -> None:
    """Just below the limit it is answered; beyond it is refused, whatever its length."""
    limit = 64 << 20
    with RawClient(source(BODY), revision=revision) as client:
        opening = line(
            client.message("tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}}, id="fits")
        )[:-1]
        for size, fits in ((limit, True), (limit + 1, False), (limit + (1 << 20), False)):
            client.write(opening + b" " * (size - len(opening)) + b"\n")
            answer = client.receive()
            assert ("result" in answer) == fits
            if not fits:
                assert answer["error"]["code"] == -32600
                assert str(size) in answer["error"]["message"]
            assert client.is_alive()


@BOTH
def test_a_settable_limit_refuses_larger_messages(client: RawClient) -> None:
    """1,000,000 bytes here. What comes after the long line is not lost, also in the same write."""
    long = line(client.message("tools/call", {"name": "echo", "arguments": {"value": "x" * 1_000_000}}))
    after = client.message("tools/list", id="after")
    client.write(long + line(after))
    refused(client, -32600, str(len(long) - 1))
    assert client.receive()["id"] == "after"


# --------------------------------------------------------------------------- unknown methods


@ALL_LEGACY_TOO
@pytest.mark.parametrize(
    "method",
    [
        "x",
        "",
        "tools",
        "tools/",
        "tools/list ",
        "Tools/List",
        "tools/lists",
        "rpc.discover",
        "__init__",
        "é" * 5000,
        "\0",
    ],
)
def test_unknown_methods(client: RawClient, method: str) -> None:
    client.ask(method)
    answer = refused(client, -32601, "no method")
    assert len(answer["error"]["message"]) < 300


@BOTH
def test_methods_of_the_other_era(client: RawClient, revision: str) -> None:
    """Each is unknown in its own way, none is fatal."""
    if revision == MODERN:
        for method in ("ping", "logging/setLevel", "resources/subscribe", "tasks/list"):
            client.ask(method)
            refused(client, -32601)
    else:
        client.ask("subscriptions/listen")
        refused(client, -32601)


# --------------------------------------------------------------------- missing or wrong params


@BOTH
@pytest.mark.parametrize("params", [[], [1, 2], "text", 5, None, True])
def test_params_that_are_no_object(client: RawClient, params: Any) -> None:
    client.send({"jsonrpc": "2.0", "id": "p", "method": "tools/list", "params": params})
    assert refused(client, -32602, "object")["id"] == "p"


@BOTH
@pytest.mark.parametrize(
    ("params", "word"),
    [
        ({}, "name"),
        ({"arguments": {}}, "name"),
        ({"name": 5}, "name"),
        ({"name": None}, "name"),
        ({"name": ["add"]}, "name"),
        ({"name": "add", "arguments": []}, "arguments"),
        ({"name": "add", "arguments": "a"}, "arguments"),
        ({"name": "unknown", "arguments": {}}, "unknown"),
        ({"name": "", "arguments": {}}, "tool"),
    ],
)
def test_missing_or_wrong_params_of_a_call(client: RawClient, params: Json, word: str) -> None:
    client.ask("tools/call", params)
    refused(client, -32602, word)


@ALL_LEGACY_TOO
@pytest.mark.parametrize(
    "arguments", [{}, {"a": 1}, {"a": "1", "b": 2}, {"a": 1, "b": 2, "c": 3}, {"a": None, "b": 1}]
)
def test_wrong_arguments_of_a_tool(client: RawClient, revision: str, arguments: Json) -> None:
    """A protocol error before 2025-11-25, from then on a result that the model can read."""
    client.call("add", arguments)
    if revision in ERAS:
        answer = client.receive()
        assert answer["result"]["isError"] is True
        assert answer["result"]["content"][0]["text"]
    else:
        refused(client, -32602, "add")


@BOTH
@pytest.mark.parametrize("cursor", ["", "x", "0", 5, None, [], "é", "x" * 10_000])
def test_a_wrong_cursor(client: RawClient, cursor: Any) -> None:
    client.ask("tools/list", {"cursor": cursor})
    refused(client, -32602, "cursor")


@pytest.mark.parametrize("revision", [MODERN])
@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"io.modelcontextprotocol/protocolVersion": 5}, "protocolVersion"),
        ({"io.modelcontextprotocol/protocolVersion": None}, "protocolVersion"),
        ({"io.modelcontextprotocol/clientCapabilities": []}, "clientCapabilities"),
        ({"io.modelcontextprotocol/clientCapabilities": None}, "clientCapabilities"),
        ({"io.modelcontextprotocol/clientInfo": "me"}, "clientInfo"),
        ({"io.modelcontextprotocol/logLevel": "loud"}, "logLevel"),
        ({"progressToken": 1.5}, "progressToken"),
    ],
)
def test_wrong_meta_of_a_modern_request(client: RawClient, change: Json, word: str) -> None:
    client.ask("tools/list", {"_meta": change})
    refused(client, -32602, word)


@pytest.mark.parametrize("revision", [MODERN])
def test_missing_meta_of_a_modern_request(client: RawClient) -> None:
    for name in ("io.modelcontextprotocol/protocolVersion", "io.modelcontextprotocol/clientCapabilities"):
        meta = {key: value for key, value in META.items() if key != name}
        client.send({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": meta}})
        refused(client, -32602, name.partition("/")[2])
    for meta in ({}, 5, None, [], "x"):
        client.send({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": meta}})
        refused(client, -32602)
    client.send({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
    refused(client, -32602, "initialize", "protocolVersion")
    client.ask("tools/list", {"_meta": {"io.modelcontextprotocol/protocolVersion": "1999-01-01"}})
    assert refused(client, -32022)["error"]["data"]["supported"] == [*reversed(REVISIONS)]


@pytest.mark.spec("basic/index/meta-missing-field-32602")
@pytest.mark.parametrize("method", ["ping", "tools/list", "logging/setLevel", "no/such/method"])
@pytest.mark.parametrize("params", [{}, {"_meta": {}}, {"_meta": {"progressToken": 1}}, None])
def test_a_modern_server_refuses_each_request_without_meta_in_the_same_way(method: str, params: Any) -> None:
    """Also `ping`, which it does not have, and what nobody has: -32602, and never "send initialize"."""
    with RawClient(source(BODY, options=f"revisions=[{MODERN!r}]")) as client:
        message = {"jsonrpc": "2.0", "id": 1, "method": method}
        client.send(message if params is None else {**message, "params": params})
        error = refused(client, -32602, "protocolVersion", "clientCapabilities")["error"]
        assert "initialize" not in error["message"]


@pytest.mark.spec("basic/index/request-method-name", "basic/index/error-response-same-id")
@BOTH
@pytest.mark.parametrize("more", [{}, {"params": {}}, {"Method": "ping"}])
def test_a_request_without_a_method_is_answered_under_its_id(client: RawClient, more: Json) -> None:
    client.send({"jsonrpc": "2.0", "id": "lacks", **more})
    assert refused(client, -32600, "method")["id"] == "lacks"


@pytest.mark.parametrize("revision", ["2025-11-25"])
def test_an_id_alone_is_the_broken_response_to_what_waits_under_it(revision: str) -> None:
    """The question fails, and nothing is sent back: an error could meet a question of the client's."""
    asking = """
    @server.tool
    def ask(ctx: Context) -> str:
        return ctx.elicit("Sure?").action
    """
    with RawClient(source(asking), revision=revision, capabilities={"elicitation": {}}) as asked:
        call = asked.call("ask")
        question = asked.until(lambda m: m.get("method") == "elicitation/create")
        asked.send({"jsonrpc": "2.0", "id": question["id"]})
        assert asked.answer(call)["result"]["isError"] is True
        assert asked.is_alive()
        assert not asked.aside


@BOTH
def test_a_response_that_is_none_is_never_answered(client: RawClient) -> None:
    """With a result and an error it was to be a response, whether or not anything waits for it."""
    client.send({"jsonrpc": "2.0", "id": 1, "result": {}, "error": {"code": 1, "message": "both"}})
    assert client.is_alive()
    assert not client.aside


@pytest.mark.parametrize("revision", ["2025-11-25"])
def test_a_second_initialize(client: RawClient, revision: str) -> None:
    info = {"name": "raw", "version": "1"}
    client.ask("initialize", {"protocolVersion": revision, "capabilities": {}, "clientInfo": info})
    refused(client, -32600, "already")
    client.notify("notifications/initialized")


def test_anything_before_initialize() -> None:
    """And a wrong initialize may be followed by a right one."""
    with RawClient(source(BODY)) as client:
        client.ask("tools/list")
        refused(client, -32602, "initialize")
        for params in (
            {},
            {"protocolVersion": 5},
            {"protocolVersion": "2025-11-25", "capabilities": [], "clientInfo": {}},
        ):
            client.ask("initialize", params)
            refused(client, -32602, "initialize")
        client.initialize("2025-11-25")
        assert client.is_alive()


# -------------------------------------------------------------------------- ids of wrong types


@BOTH
@pytest.mark.parametrize("wrong", [None, 1.5, 1.0, True, False, [], [1], {}, {"id": 1}])
def test_ids_of_wrong_types(client: RawClient, wrong: Any) -> None:
    """An id that cannot be read is left out of the error."""
    client.ask("tools/list", id=wrong)
    assert "id" not in refused(client, -32600, "id")


@BOTH
@pytest.mark.parametrize("text", ["1e0", "1E2", "-0.0", "10000000000000000000.0"])
def test_ids_written_as_fractions(client: RawClient, text: str) -> None:
    client.write(line(client.message("tools/list", id="HERE")).replace(b'"HERE"', text.encode()))
    refused(client, -32600, "id")


@BOTH
@pytest.mark.parametrize("version", [None, "1.0", "2", 2.0, 2, "", []])
def test_messages_of_another_version_of_json_rpc(client: RawClient, version: Any) -> None:
    client.send({**client.message("tools/list", id="v"), "jsonrpc": version})
    assert refused(client, -32600, "jsonrpc")["id"] == "v"
    client.send({"id": "w", "method": "tools/list"})
    assert refused(client, -32600, "jsonrpc")["id"] == "w"


@BOTH
@pytest.mark.parametrize("method", [None, 5, [], {}, True])
def test_methods_of_wrong_types(client: RawClient, method: Any) -> None:
    client.send({**client.message("x", id="m"), "method": method})
    assert refused(client, -32600, "method")["id"] == "m"


@BOTH
def test_a_message_that_is_everything_at_once(client: RawClient) -> None:
    client.send({**client.message("tools/list", id="e"), "result": {}})
    assert refused(client, -32600, "one of them")["id"] == "e"
    client.send({"jsonrpc": "2.0"})
    refused(client, -32600, "one of them")
    client.send({})
    refused(client, -32600)


# --------------------------------------------------------------------- ids reused while in flight


@BOTH
def test_ids_reused_while_in_flight(client: RawClient) -> None:
    """The second is refused, the first goes on; once it is over, its id is free again."""
    client.call("slow", id="busy")
    for _ in range(3):
        client.call("add", {"a": 1, "b": 1}, id="busy")
        assert refused(client, -32600, "in use")["id"] == "busy"
    client.notify("notifications/cancelled", {"requestId": "busy"})
    client.call("add", {"a": 1, "b": 1}, id="busy")
    assert "result" in client.receive()


# -------------------------------------------------------------------------- responses to nobody


@BOTH
def test_responses_to_nobody(client: RawClient) -> None:
    """Ignored, well made or not: there is nobody to tell."""
    for call_id in (1, 0, -1, "x", None, 1.5, True, [], {}):
        client.send({"jsonrpc": "2.0", "id": call_id, "result": {}})
        client.send({"jsonrpc": "2.0", "id": call_id, "error": {"code": 1, "message": "no"}})
        client.send({"jsonrpc": "2.0", "id": call_id, "result": {}, "error": {}})
    client.send({"jsonrpc": "2.0", "error": {"code": -32700, "message": "what?"}})
    client.send({"jsonrpc": "2.0", "result": {}})


@BOTH
def test_responses_to_nobody_reach_our_client(revision: str) -> None:
    script = f"""
    open_any({revision!r})
    call = receive("vendor/x")
    for found in (0, -1, 10**6, "x", str(call["id"]), float(call["id"]), True, None, [call["id"]], {{}}):
        send(id=found, result={{"wrong": True}})
        send(id=found, error={{"code": 1, "message": "wrong"}})
    send(result={{}})
    send(error={{"code": -32700, "message": "what?"}})
    answer(call, {{"resultType": "complete", "right": True}})
    answer(call, {{"resultType": "complete", "right": False}})
    go_on()
    """
    notes = Notes()
    with connect(raw_server(script), revision=revision, options=ClientOptions(on_stderr=notes)) as ours:
        assert ours.request("vendor/x", timeout=PATIENCE)["right"] is True
        ours.ping()
    assert all("method" in m for m in notes.all)


# ------------------------------------------------------------- notifications with errors in them


@BOTH
@pytest.mark.parametrize(
    "notification",
    [
        {"method": "notifications/unknown"},
        {"method": "tools/call", "params": {"name": "unknown"}},
        {"method": "tools/call"},
        {"method": "initialize", "params": {}},
        {"method": "notifications/initialized", "params": {"again": True}},
        {"method": "notifications/progress"},
        {"method": "notifications/cancelled", "params": 5},
        {"method": "notifications/cancelled", "params": [1]},
        {"method": "notifications/roots/list_changed", "params": "x"},
        {"method": "", "params": None},
        {"method": "x" * 100_000},
    ],
)
def test_notifications_with_errors_in_them(client: RawClient, notification: Json) -> None:
    """Never answered."""
    client.send({"jsonrpc": "2.0", **notification})


@BOTH
def test_what_is_no_notification_either(client: RawClient) -> None:
    """A method that is no string, a result beside it: that is an invalid request, and told so."""
    client.send({"jsonrpc": "2.0", "method": 5})
    assert "id" not in refused(client, -32600, "method")
    client.send({"jsonrpc": "2.0", "method": "x", "error": {}})
    refused(client, -32600)


@BOTH
def test_notifications_with_errors_reach_our_client(revision: str, caplog: pytest.LogCaptureFixture) -> None:
    script = f"""
    open_any({revision!r})
    call = receive("vendor/x")
    logs = [{{"level": 5, "data": 1}}, {{"level": "loud", "data": 1}}, {{"level": "info"}}]
    for params in (None, 5, [], "x", {{}}, *logs):
        send(method="notifications/message", params=params)
        send(method="notifications/tools/list_changed", params=params)
        send(method="notifications/unknown", params=params)
    send(method="notifications/message", params={{"level": "info", "data": "fine"}})
    answer(call, {{"resultType": "complete"}})
    go_on()
    """
    heard: list[Any] = []
    with connect(
        raw_server(script),
        revision=revision,
        on_log=lambda *log: heard.append(log),
        options=ClientOptions(on_stderr=Notes()),
    ) as ours:
        ours.request("vendor/x")
        ours.ping()
        assert eventually(lambda: any(log[1] == "fine" for log in heard))


# -------------------------------------------------------------------- progress for unknown tokens


@BOTH
def test_progress_for_unknown_tokens(client: RawClient) -> None:
    for token in (1, "x", None, 1.5, True, [], {}):
        client.notify("notifications/progress", {"progressToken": token, "progress": 1})
    client.notify("notifications/progress", {})


@BOTH
def test_progress_for_unknown_tokens_reaches_our_client(revision: str) -> None:
    script = f"""
    open_any({revision!r})
    call = receive("vendor/x")
    for token in (0, -1, call["id"] + 1, str(call["id"]), None, 1.5, True, [], {{}}, 10**30):
        send(method="notifications/progress", params={{"progressToken": token, "progress": 1}})
    token = call["params"]["_meta"]["progressToken"]
    send(method="notifications/progress", params={{"progressToken": token, "progress": 5}})
    answer(call, {{"resultType": "complete"}})
    send(method="notifications/progress", params={{"progressToken": token, "progress": 6}})
    go_on()
    """
    heard: list[float] = []
    with connect(raw_server(script), revision=revision, options=ClientOptions(on_stderr=Notes())) as ours:
        ours.request("vendor/x", on_progress=lambda progress, *more: heard.append(progress))
        ours.ping()
    assert heard == [5]


# --------------------------------- cancellation of the unknown, the finished and the initialize


@BOTH
def test_cancellation_of_the_unknown_and_the_finished(client: RawClient) -> None:
    done = client.call("add", {"a": 1, "b": 1})
    client.answer(done)
    for request_id in (done, str(done), 10**30, "x", None, 1.5, True, [], {}):
        client.notify("notifications/cancelled", {"requestId": request_id})
    client.notify("notifications/cancelled", {})


@pytest.mark.parametrize("revision", ["2025-11-25"])
def test_cancellation_of_the_initialize(revision: str) -> None:
    """In the same write as the request, and again when it is over."""
    with RawClient(source(BODY)) as client:
        info = {"name": "raw", "version": "1"}
        params = {"protocolVersion": revision, "capabilities": {}, "clientInfo": info}
        cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
        client.send({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}, cancel)
        assert client.answer(1)["result"]["protocolVersion"] == revision
        client.send(cancel)
        client.notify("notifications/initialized")
        client.call("add", {"a": 1, "b": 1}, id="x")
        assert "result" in client.answer("x")


@BOTH
def test_cancellation_of_the_unknown_reaches_our_client(revision: str) -> None:
    script = f"""
    open_any({revision!r})
    call = receive("vendor/x")
    for found in (call["id"], 1, 0, "x", None, True, [], {{}}):
        send(method="notifications/cancelled", params={{"requestId": found}})
    send(method="notifications/cancelled", params=[1])
    answer(call, {{"resultType": "complete", "right": True}})
    go_on()
    """
    with connect(raw_server(script), revision=revision, options=ClientOptions(on_stderr=Notes())) as ours:
        assert ours.request("vendor/x")["right"] is True
        ours.ping()


# ------------------------------------------------------------------- a flood of 10,000 requests


@BOTH
@pytest.mark.parametrize("tool", ["add", "slow"])
def test_a_flood_of_10000_requests(revision: str, tool: str) -> None:
    """Each is answered exactly once: with its result, or with 429 and when to come back.

    The calls of `slow` that are running never end, so they are cancelled, and not answered.
    """
    with RawClient(source(BODY), revision=revision) as client:
        arguments = {"a": 1, "b": 2} if tool == "add" else {}
        messages = [
            client.message("tools/call", {"name": tool, "arguments": arguments}) for _ in range(10_000)
        ]
        data = b"".join(line(message) for message in messages)
        writer = threading.Thread(target=client.write, args=(data,))
        writer.start()
        answers: list[Json] = []
        if tool == "slow":
            answers.append(client.receive())  # something is refused, before anything is cancelled
            writer.join(PATIENCE)
            cancels = [
                {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": m["id"]}}
                for m in messages
            ]
            client.send(*cancels)
            client.call("add", {"a": 1, "b": 1}, id="last")
            while answers[-1]["id"] != "last":
                answers.append(client.receive())
            answers.pop()
            assert 0 < len(answers) < 10_000
        else:
            while len(answers) < 10_000:
                answers.append(client.receive())
            writer.join(PATIENCE)
        assert client.is_alive()
        assert client.aside == []
        assert max(Counter(answer["id"] for answer in answers).values()) == 1
        for answer in answers:
            if "error" in answer:
                assert answer["error"]["code"] == 429
                assert answer["error"]["data"]["retryAfterMs"] > 0
            else:
                assert tool == "add"


@BOTH
def test_a_flood_of_notifications(client: RawClient) -> None:
    client.write(line({"jsonrpc": "2.0", "method": "vendor/x", "params": {}}) * 10_000)


@BOTH
def test_a_flood_of_garbage(client: RawClient) -> None:
    """10,000 lines of it: 10,000 errors."""
    writer = threading.Thread(target=client.write, args=(b"garbage\n" * 10_000,))
    writer.start()
    for _ in range(10_000):
        refused(client, -32700)
    writer.join(PATIENCE)


@BOTH
def test_a_flood_of_messages_reaches_our_client(revision: str) -> None:
    """Answers to nobody, reports, log messages: what our callbacks cannot keep up with is dropped."""
    script = f"""
    open_any({revision!r})
    call = receive("vendor/x")
    lines = []
    for n in range(10_000):
        lines.append(json.dumps({{"jsonrpc": "2.0", "id": 10**6 + n, "result": {{}}}}))
        log = {{"method": "notifications/message", "params": {{"level": "info", "data": n}}}}
        lines.append(json.dumps({{"jsonrpc": "2.0", **log}}))
    write((chr(10).join(lines) + chr(10)).encode())
    answer(call, {{"resultType": "complete", "right": True}})
    go_on()
    """
    with connect(
        raw_server(script),
        revision=revision,
        on_log=lambda *log: None,
        options=ClientOptions(on_stderr=Notes()),
    ) as ours:
        assert ours.request("vendor/x")["right"] is True
        ours.ping()


@pytest.mark.parametrize("revision", ["2025-11-25"])
def test_a_flood_of_requests_reaches_our_client(revision: str) -> None:
    """In the legacy era a server may ask: each is answered once, with a result or with 429."""
    script = f"""
    open_any({revision!r})
    call = receive("vendor/x")
    lines = [json.dumps({{"jsonrpc": "2.0", "id": n, "method": "vendor/ask"}}) for n in range(2_000)]
    import threading
    threading.Thread(target=write, args=((chr(10).join(lines) + chr(10)).encode(),)).start()
    seen = []
    def note(what):
        pass
    while len(seen) < 2_000:
        message = receive("")
        seen.append(message["id"])
        if "error" in message:
            assert message["error"]["code"] == 429
    answer(call, {{"once": len(set(seen)) == 2_000}})
    go_on()
    """
    with connect(raw_server(script), revision=revision, options=ClientOptions(on_stderr=Notes())) as ours:
        ours.on_request("vendor/ask")(lambda params: {})
        assert ours.request("vendor/x")["once"] is True
        ours.ping()


# -------------------------------------------------------------------- a peer that stops reading


@BOTH
def test_a_client_that_stops_reading_does_not_grow_the_server(revision: str) -> None:
    """It asks and asks, and takes no answer: the server waits. Once it reads again, all is there."""
    with subprocess.Popen(
        python(source(BODY)),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, **ENV},
        bufsize=0,
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        helper = object.__new__(RawClient)  # for its messages only
        helper.revision, helper._ids = revision, iter(range(1, 1 << 30))
        if revision != MODERN:
            info = {"name": "raw", "version": "1"}
            params = {"protocolVersion": revision, "capabilities": {}, "clientInfo": info}
            child.stdin.write(line(helper.message("initialize", params)))
            child.stdin.write(line({"jsonrpc": "2.0", "method": "notifications/initialized"}))
        words = "x" * 100_000
        requests = [
            helper.message("tools/call", {"name": "echo", "arguments": {"value": words}}) for _ in range(400)
        ]
        written = 0

        def ask() -> None:
            nonlocal written
            for request in requests:
                data = memoryview(line(request))
                while data:
                    data = data[child.stdin.write(data) :]  # type: ignore[union-attr]
                written += 1

        asking = threading.Thread(target=ask)
        asking.start()

        def is_stuck() -> bool:
            before = written
            threading.Event().wait(0.2)
            return written == before

        assert eventually(is_stuck)
        status = Path(f"/proc/{child.pid}/status").read_text().splitlines()
        peak = next(int(entry.split()[1]) for entry in status if entry.startswith("VmHWM")) // 1024
        assert peak < 150
        answered = 0
        with open(child.stdout.fileno(), "rb", closefd=False) as answers:
            while answered < 400 + (revision != MODERN):
                message = json.loads(answers.readline())
                assert "id" in message
                answered += 1
        asking.join(PATIENCE)
        child.stdin.close()
        assert child.wait(PATIENCE) == 0


@BOTH
def test_a_client_that_stops_reading_and_goes_away(revision: str) -> None:
    """The server is stuck in a write; the end of the pipes ends it."""
    with subprocess.Popen(
        python(source(BODY)),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, **ENV},
        bufsize=0,
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        helper = object.__new__(RawClient)
        helper.revision, helper._ids = revision, iter(range(1, 1 << 30))
        if revision != MODERN:
            info = {"name": "raw", "version": "1"}
            params = {"protocolVersion": revision, "capabilities": {}, "clientInfo": info}
            child.stdin.write(line(helper.message("initialize", params)))
            child.stdin.write(line({"jsonrpc": "2.0", "method": "notifications/initialized"}))
        call = helper.message("tools/call", {"name": "echo", "arguments": {"value": "x" * 3_000_000}})
        data = memoryview(line(call))
        while data:
            data = data[child.stdin.write(data) :]
        child.stdin.close()
        child.stdout.close()
        assert child.wait(PATIENCE) == 0


@BOTH
def test_a_server_that_stops_reading(revision: str) -> None:
    """Calls run into their time-outs, `close` does not hang, and nothing is left behind."""
    script = f"open_any({revision!r})\nnote('deaf')\ntime.sleep(60)"
    notes = Notes()
    with connect(
        raw_server(script), revision=revision, options=ClientOptions(on_stderr=notes, grace=0.1)
    ) as ours:
        notes.until(lambda note: note == "deaf")
        problems: list[BaseException] = []

        def ask(size: int) -> None:
            try:
                ours.request("vendor/x", {"much": "x" * size}, timeout=0.3)
            except McpError as problem:
                problems.append(problem)

        threads = [threading.Thread(target=ask, args=(size,)) for size in (10, 8_000_000, 10, 1000)]
        for thread in threads:
            thread.start()
        assert eventually(lambda: len(problems) >= 3)
        started = time.monotonic()
        ours.close()
        for thread in threads:
            thread.join(PATIENCE)
        assert time.monotonic() - started < PATIENCE
        assert len(problems) == 4
        assert all(isinstance(p, RequestTimeout | ConnectionClosed) for p in problems)


# -------------------------------------------------------------------- a peer that never answers


@BOTH
def test_a_server_that_never_answers(revision: str) -> None:
    """The time-out ends the call, the server is told, and other calls go on."""
    script = f"""
    open_any({revision!r})
    receive("vendor/x")
    go_on()
    """
    notes = Notes()
    with connect(raw_server(script), revision=revision, options=ClientOptions(on_stderr=notes)) as ours:
        with pytest.raises(RequestTimeout, match="vendor/x"):
            ours.request("vendor/x", timeout=0.1)
        ours.ping()
    asked = notes.message("vendor/x")["id"]
    assert notes.message("notifications/cancelled")["params"]["requestId"] == asked


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-11-25"])
def test_a_client_that_never_answers(revision: str) -> None:
    """The server's question times out; its tool goes on and says so; the connection lives."""
    body = """
    @server.tool
    def ask(ctx: Context) -> str:
        ctx.request("vendor/question", timeout=0.1)
    """
    with RawClient(source(body), revision=revision) as client:
        call = client.call("ask")
        result = client.answer(call)["result"]
        assert result["isError"] is True
        assert "no answer within 0.1 s" in result["content"][0]["text"]
        question, notice = client.receive(), client.receive()
        assert question["method"] == "vendor/question"
        assert notice["params"]["requestId"] == question["id"]
        client.send({"jsonrpc": "2.0", "id": question["id"], "result": {"late": True}})
        assert client.is_alive()


# ----------------------------------------------- what else a server may say wrong to our client


@BOTH
@pytest.mark.parametrize(
    "bad",
    [
        b"\xff\xfe\n",
        b"hello\n",
        b"\n\n \n",
        b"5\n",
        b"[]\n",
        b'[{"jsonrpc":"2.0","method":"x"}]\n',
        b"{}\n",
        b"[" * 10_000 + b"\n",
        b'{"a":' * 10_000 + b"\n",
        b'{"jsonrpc":"2.0","method":"x","params":{"a":1e400}}\n',
        b'{"jsonrpc":"2.0","method":"x","method":"y"}\n',
        b'{"jsonrpc":"2.0","method":"x","params":{"a":"\\ud800"}}\n',
        b'{"jsonrpc":"2.0","method":5}\n',
        b'{"jsonrpc":"1.0","id":1,"result":{}}\n',
        b'{"jsonrpc":"2.0","id":1,"method":"unknown/x","params":[]}\n',
        b'{"jsonrpc":"2.0","id":null,"method":"ping"}\n',
    ],
)
def test_what_a_server_should_not_write(revision: str, bad: bytes) -> None:
    script = f"""
    open_any({revision!r})
    call = receive("vendor/x")
    write({bad!r} * 3)
    answer(call, {{"resultType": "complete", "right": True}})
    go_on()
    """
    notes = Notes()
    with connect(raw_server(script), revision=revision, options=ClientOptions(on_stderr=notes)) as ours:
        assert ours.request("vendor/x")["right"] is True
        ours.ping()
    assert revision != MODERN or all("method" in m for m in notes.all)


@BOTH
def test_a_server_that_ends_in_the_middle_of_a_message(revision: str) -> None:
    """Half an answer is none."""
    script = f"""
    open_any({revision!r})
    call = receive("vendor/x")
    write(json.dumps({{"jsonrpc": "2.0", "id": call["id"], "result": {{}}}}).encode())
    sys.exit(4)
    """
    with (
        connect(raw_server(script), revision=revision, options=ClientOptions(on_stderr=Notes())) as ours,
        pytest.raises(ConnectionClosed, match="exited with code 4"),
    ):
        ours.request("vendor/x")


@BOTH
def test_an_answer_beyond_the_limit(revision: str) -> None:
    """Not kept in memory; its caller is told, at the latest by the time-out, and others go on.

    A notification or request that long is no less harmless, and a modern client answers none.
    """
    script = f"""
    open_any({revision!r})
    call = receive("vendor/x")
    send(method="vendor/long", params={{"much": "x" * 5_000_000}})
    send(id=1, method="vendor/long", params={{"much": "x" * 5_000_000}})
    write(b"x" * 1_000_000 + bytes([10]))
    answer(call, {{"resultType": "complete", "much": "x" * 5_000_000}})
    go_on()
    """
    notes = Notes()
    with connect(
        raw_server(script),
        revision=revision,
        options=ClientOptions(on_stderr=notes, max_message_bytes=100_000),
    ) as ours:
        with pytest.raises((InvalidResponse, RequestTimeout)):
            ours.request("vendor/x", timeout=2)
        ours.ping()
    assert revision != MODERN or all("method" in m for m in notes.all)


@BOTH
def test_answers_that_are_none(revision: str) -> None:
    """Each is the end of its own call only."""
    script = f"""
    open_any({revision!r})
    for members in (
        {{"result": 5}}, {{"result": None}}, {{"result": []}}, {{"error": 5}}, {{"error": {{}}}},
        {{"error": {{"code": "x", "message": "y"}}}}, {{"error": {{"code": 1, "message": 2}}}},
        {{"error": {{"code": 1.5, "message": "y"}}}}, {{"result": {{"resultType": 5}}}},
    ):
        send(id=receive("vendor/x")["id"], **members)
    go_on()
    """
    with connect(raw_server(script), revision=revision, options=ClientOptions(on_stderr=Notes())) as ours:
        for _ in range(9):
            with pytest.raises(InvalidResponse):
                ours.request("vendor/x", timeout=PATIENCE)
        ours.ping()


@BOTH
def test_what_we_cannot_send_is_refused_here(revision: str) -> None:
    """Our own bad input: an error for whoever said it, and nothing on the wire."""
    script = f"open_any({revision!r})\ngo_on()"
    notes = Notes()
    with connect(raw_server(script), revision=revision, options=ClientOptions(on_stderr=notes)) as ours:
        loop: list[Any] = []
        loop.append(loop)
        for value in ({1, 2}, object(), float("nan"), float("inf"), "\ud800", b"bytes", loop, {1: {(): 2}}):
            with pytest.raises((TypeError, ValueError, RecursionError)):
                ours.request("vendor/x", {"value": value})
            with pytest.raises((TypeError, ValueError, RecursionError)):
                ours.notify("vendor/x", {"value": value})
        with pytest.raises((ErrorResponse, McpError, ValueError)):
            ours.request("vendor/y", {"_meta": {"no key at all//": 1}})
        ours.ping()
    assert "vendor/x" not in {m.get("method") for m in notes.all}
