"""basic/index, "Messages": bytes become a message or a clear error, and a message becomes one line."""

import json
import math
import threading

import pytest
from http_peers import Peer, endpoint
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from json_lines import BAD_JSON, json_values, types_of
from peers import ENV, LEGACY, MODERN, PATIENCE, REVISIONS, RawClient, python, recorded, source, tap
from web import result_of, talking, text

from mcp_ref import ClientOptions, Context, ErrorResponse, Server, connect
from mcp_ref.basic.index import messages
from mcp_ref.basic.index.error_responses import InvalidRequest, ParseError
from mcp_ref.basic.index.messages import classify, decode, encode, encode_result, is_id
from mcp_ref.runtime.json_text import Encoded, to_json
from mcp_ref.schema import definitions

CALM = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
"""A busy machine is no fault."""

# -- bad JSON, by name ------------------------------------------------------------------------


@pytest.mark.spec("basic/transports/index/utf8")
@pytest.mark.parametrize("line", BAD_JSON.values(), ids=BAD_JSON)
def test_bad_json_is_a_parse_error(line):
    with pytest.raises(ParseError) as caught:
        decode(line)
    error = caught.value.to_wire()
    assert error["code"] == -32700
    assert 0 < len(error["message"]) < 250
    encode({"jsonrpc": "2.0", "error": error})  # what is said about it can be sent


@pytest.mark.parametrize("revision", LEGACY)
def test_bad_json_is_answered_and_the_connection_goes_on(revision):
    """Each of the list gets one error without an id that was read, and a ping after it gets its answer."""
    with RawClient(Server("strict"), revision=revision) as raw:
        for name, line in BAD_JSON.items():
            if line.strip() and b"\n" not in line:
                raw.write(line + b"\n")
                answer = raw.receive()
                assert answer["error"]["code"] == -32700, name
                assert answer.get("id") is None, name
                assert ("id" in answer) == (revision < "2025-11-25"), name
        assert raw.is_alive()


@settings(CALM, max_examples=200)
@given(json_values())
@example("\u2028\u2029\u0085\r\n\x0b\x0c\x1c\x00\x7f\ufeff")
@example({"\n": "\r"})
@pytest.mark.spec(
    "basic/transports/stdio/no-embedded-newlines",
    "basic/transports/stdio/one-message-per-line",
    "basic/transports/index/utf8",
)
def test_what_is_encoded_is_one_line_of_utf8_that_means_the_same(value):
    line = encode(value)
    assert line.count(b"\n") == 1
    assert line.endswith(b"\n")
    assert b"\r" not in line
    again = decode(line)
    assert again == value
    assert types_of(again) == types_of(value)  # 1, 1.0 and True are equal, and not the same
    assert json.loads(line) == value  # to another reader too


# -- what kind of message ---------------------------------------------------------------------

BASE = {"jsonrpc": "2.0"}


@pytest.mark.spec("basic/index/request-method-name")
@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ({**BASE, "id": 1, "method": "ping"}, "request"),
        ({**BASE, "id": "one", "method": "ping", "params": {}}, "request"),
        ({**BASE, "id": 0, "method": ""}, "request"),
        ({**BASE, "id": -7, "method": "x"}, "request"),
        ({**BASE, "id": "", "method": "x"}, "request"),
        ({**BASE, "id": 1, "method": "x", "params": [1]}, "request"),  # whose params are refused later
        ({**BASE, "id": 1, "method": "x", "more": True}, "request"),
        ({**BASE, "method": "notifications/initialized"}, "notification"),
        ({**BASE, "method": "x", "params": None}, "notification"),
        ({**BASE, "id": 1, "result": {}}, "response"),
        ({**BASE, "id": 1, "result": None}, "response"),
        ({**BASE, "id": 1, "error": {"code": 1, "message": ""}}, "response"),
        ({**BASE, "id": None, "error": {"code": -32700, "message": "?"}}, "response"),
        ({**BASE, "error": {"code": -32700, "message": "?"}}, "response"),
    ],
)
def test_each_message_is_of_one_kind(message, kind):
    assert classify(message) == kind


@pytest.mark.spec("schema/jsonrpc-version", "basic/index/json-rpc-2")
@pytest.mark.parametrize("version", ["1.0", "2", "2.00", 2.0, 2, None, True, ["2.0"], {}, ""])
def test_another_version_of_jsonrpc_is_refused(version):
    with pytest.raises(InvalidRequest, match=r'"jsonrpc": "2\.0"'):
        classify({"jsonrpc": version, "id": 1, "method": "ping"})


@pytest.mark.spec("schema/jsonrpc-version")
def test_no_version_of_jsonrpc_is_refused():
    with pytest.raises(InvalidRequest, match="jsonrpc"):
        classify({"id": 1, "method": "ping"})


@pytest.mark.parametrize(
    ("value", "word"),
    [
        (None, "null"),
        (True, "a boolean"),
        (1, "an integer"),
        (1.5, "a fractional number"),
        ("ping", "a string"),
        ([], "an array"),
        ([{**BASE, "id": 1, "method": "ping"}], "an array"),
    ],
)
def test_json_that_is_no_object_is_no_message(value, word):
    with pytest.raises(InvalidRequest, match=f"a message is a JSON object, not {word}") as caught:
        classify(value)
    assert caught.value.code == -32600


WRONG_IDS = {
    "null": None,
    "a fraction": 1.5,
    "a whole number written as a fraction": 1.0,
    "true": True,
    "false": False,
    "an array": [1],
    "an object": {"id": 1},
}


@pytest.mark.spec("basic/index/request-id-string-or-integer", "basic/index/request-id-not-null")
@pytest.mark.parametrize("wrong", WRONG_IDS.values(), ids=WRONG_IDS)
def test_an_id_is_a_string_or_an_integer(wrong):
    assert not is_id(wrong)
    with pytest.raises(InvalidRequest, match="an id is a string or an integer, not "):
        classify({**BASE, "id": wrong, "method": "ping"})


@pytest.mark.spec("basic/index/request-id-string-or-integer", "basic/index/request-id-not-null")
@pytest.mark.parametrize("revision", LEGACY)
def test_a_request_with_a_wrong_id_is_answered_without_one(revision):
    with RawClient(Server("strict"), revision=revision) as raw:
        for name, wrong in WRONG_IDS.items():
            raw.send({**BASE, "id": wrong, "method": "ping"})
            answer = raw.receive()
            assert answer["error"]["code"] == -32600, name
            assert answer.get("id") is None, name
        assert raw.is_alive()


@pytest.mark.spec("basic/index/request-id-string-or-integer")
@pytest.mark.parametrize("proper", ["", "a", "1", "ä\n\U0001f600", 0, 1, -1, 2**53 + 1, 10**300])
def test_every_string_and_every_integer_is_an_id_and_comes_back_as_it_was(proper):
    with RawClient(Server("strict"), revision="2025-11-25") as raw:
        raw.send({**BASE, "id": proper, "method": "ping"})
        assert raw.receive() == {**BASE, "id": proper, "result": {}}


@pytest.mark.spec("basic/index/request-method-name")
@pytest.mark.parametrize("method", [None, 1, 1.5, True, [], {}])
def test_a_method_is_a_string(method):
    for message in ({**BASE, "id": 1, "method": method}, {**BASE, "method": method}):
        with pytest.raises(InvalidRequest, match="a method is a string, not "):
            classify(message)


@pytest.mark.spec("basic/index/response-result-or-error", "basic/index/response-not-both")
@pytest.mark.parametrize(
    "message",
    [
        {"id": 1},
        {},
        {"id": 1, "params": {}},
        {"id": 1, "result": {}, "error": {"code": 1, "message": "both"}},
        {"id": 1, "method": "x", "result": {}},
        {"id": 1, "method": "x", "error": {"code": 1, "message": "both"}},
    ],
)
def test_a_message_is_one_thing_only(message):
    with pytest.raises(InvalidRequest, match="a method, or a result, or an error: one of them"):
        classify({**BASE, **message})


@settings(CALM)
@given(
    json_values()
    | st.dictionaries(
        st.sampled_from(["jsonrpc", "id", "method", "params", "result", "error"]),
        json_values() | st.just("2.0"),
    )
)
def test_anything_has_a_kind_or_is_an_invalid_request(value):
    try:
        kind = classify(value)
    except InvalidRequest as problem:
        encode(problem.to_wire())
        return
    has_method = "method" in value
    assert (kind == "response") != has_method
    if has_method:
        assert (kind == "request") == ("id" in value)


@pytest.mark.parametrize(
    ("message", "found"),
    [
        ({"id": 1, "result": 1}, True),
        ({"id": 1, "error": 1}, True),
        ({"id": 1, "result": {}, "error": {}}, True),
        ({"id": 1}, False),
        ({"result": 1}, False),
        ({"id": 1, "method": 1, "result": 1}, False),
        (["id", "result"], False),
    ],
    ids=str,
)
def test_what_was_meant_as_a_response_has_an_id_and_a_result_or_an_error(message, found):
    assert messages.is_broken_response(message) is found


# -- writing ----------------------------------------------------------------------------------


def test_an_encoded_message_is_compact_and_keeps_characters():
    assert (
        encode({"a": [1, 2.5, None], "ä": "\U0001f600"}) == '{"a":[1,2.5,null],"ä":"\U0001f600"}\n'.encode()
    )


@pytest.mark.parametrize(
    "value", [math.nan, math.inf, -math.inf, "\ud800", {"\udfff": 1}, {1, 2}, b"x", object()]
)
def test_what_json_cannot_carry_is_not_written(value):
    with pytest.raises((ValueError, TypeError)):
        encode({"value": value})


def test_an_argument_that_is_not_json_is_named_with_its_place():
    """The caller of a tool learns which of its arguments it was; nothing was sent, the connection goes on."""
    server = Server("notes")

    @server.tool
    def add(note: dict) -> str:
        return str(note)

    with connect(server) as client:
        with pytest.raises(TypeError) as caught:
            client.call_tool("add", {"note": {"tags": ["a", object()]}})
        with pytest.raises(ValueError, match=r"^params\.arguments\.note\.size: inf is not a JSON number$"):
            client.call_tool("add", {"note": {"size": math.inf}})
        assert client.call_tool("add", {"note": {}}).text == "{}"
    place = "params.arguments.note.tags[1]"
    assert str(caught.value) == f"{place}: an object of type object is not JSON serializable"


def test_what_has_no_end_is_not_written():
    endless = []
    endless.append(endless)
    with pytest.raises((RecursionError, ValueError)):
        encode(endless)


@pytest.mark.spec("basic/index/result-response-has-result", "schema/jsonrpc-version")
@pytest.mark.parametrize("request_id", [1, "one", 'with "quotes"\n', 0, ""])
def test_a_result_goes_out_with_the_id_of_its_request(request_id):
    expected = {**BASE, "id": request_id, "result": {"a": "ä"}}
    assert decode(encode_result(request_id, {"a": "ä"})) == expected
    whole = Encoded([to_json({"a": "ä"}).encode()])
    parts = Encoded([b'{"a":', '"ä"'.encode(), b"}"])
    for result in (whole, parts):
        line = encode_result(request_id, result)
        assert decode(line) == expected
        assert line.count(b"\n") == 1


@pytest.mark.spec("basic/index/result-any-object")
def test_a_result_is_any_object():
    server = Server("any")
    server.on_request("vendor/echo")(lambda params: params)
    value = {"deep": [{"a": None, "b": [1, 2.5, "ä"]}], "": 0}
    with RawClient(server, revision="2025-11-25") as raw:
        assert raw.request("vendor/echo", value)["result"] == value
        assert raw.request("vendor/echo", {})["result"] == {}


# -- the shapes -------------------------------------------------------------------------------


@pytest.mark.spec("schema/jsonrpc-version")
@pytest.mark.parametrize("revision", REVISIONS)
def test_every_message_has_its_shape_in_every_revision(revision):
    shapes = definitions(revision)
    assert shapes["JSONRPCRequest"]["required"] == ["jsonrpc", "id", "method"]
    assert shapes["JSONRPCNotification"]["required"] == ["jsonrpc", "method"]
    assert ("JSONRPCBatchRequest" in shapes) == (revision == "2025-03-26")
    assert set(shapes["RequestId"]["type"]) == {"string", "integer"}


@pytest.mark.parametrize(
    ("line", "found"),
    [
        (b'{"jsonrpc":"2.0","id":7,"method":"x","params":{', ("request", 7)),
        (b' { "jsonrpc" : "2.0" , "id" : "a-1" , "method" :', ("request", "a-1")),
        (b'{"jsonrpc":"2.0","id":-3,"result":{"content":[', ("response", -3)),
        (b'{"jsonrpc":"2.0","id":"b","error":{', ("response", "b")),
        (b'{"jsonrpc":"2.0","method":"notifications/x","params":{', ("request", None)),
        (b'{"id":7,"jsonrpc":"2.0","method":"x"', ("request", None)),
        (b"[[[[", ("request", None)),
        (b"", ("request", None)),
    ],
)
def test_a_message_that_is_not_read_is_known_by_its_beginning(line, found):
    assert messages.begins(line) == found


def test_an_error_is_a_response_with_the_id_of_its_request():
    line = messages.encode_error("a", InvalidRequest("no", data={"more": [1]}))
    assert json.loads(line) == {
        "jsonrpc": "2.0",
        "id": "a",
        "error": {"code": -32600, "message": "no", "data": {"more": [1]}},
    }
    assert line.endswith(b"\n")


@pytest.mark.parametrize("data", [{1, 2}, float("nan"), "\ud800"])
def test_an_error_whose_data_is_no_json_is_an_error_all_the_same(data):
    answered = json.loads(messages.encode_error(5, InvalidRequest("no", data=data)))
    assert answered["id"] == 5
    assert answered["error"] == {"code": -32600, "message": "an error that has no JSON form"}


# -- on the wire ------------------------------------------------------------------------------

CHATTY = """
    from mcp_ref import ErrorResponse

    @server.tool
    def chat(ctx: Context) -> str:
        ctx.progress(1, 2)
        ctx.log("error", "said")
        if ctx.session is not None:
            ctx.request("ping")
            try:
                ctx.request("vendor/unknown")
            except ErrorResponse:
                pass
        return "done"

    @server.tool
    def wait(ctx: Context) -> None:
        ctx.sleep(60)
"""


def kinds(messages):
    """What kinds of messages these are. Each must be JSON-RPC 2.0."""
    assert [message for message in messages if message.get("jsonrpc") != "2.0"] == []
    return {"error" if "error" in message else classify(message) for message in messages}


def chatted(client):
    """Have all kinds of messages sent in both directions."""
    client.set_log_level("error")
    assert client.call_tool("chat", on_progress=lambda *_: None).text == "done"
    client.notify("notifications/vendor")
    with pytest.raises(ErrorResponse):
        client.request("vendor/unknown")


@pytest.mark.spec("basic/index/json-rpc-2", "schema/jsonrpc-version")
@pytest.mark.parametrize("revision", REVISIONS)
def test_every_message_on_a_pipe_is_json_rpc_2(revision, tmp_path):
    wire = tmp_path / "wire"
    with connect(
        tap(python(source(CHATTY)), wire), revision=revision, options=ClientOptions(env=ENV)
    ) as client:
        chatted(client)
        pending = client.submit("tools/call", {"name": "wait", "arguments": {}})
        pending.cancel()
    sent, received = recorded(wire)
    legacy = {"response", "error"} if revision != MODERN else set()
    assert kinds(sent) == {"request", "notification", *legacy}
    assert kinds(received) == {"notification", "response", "error"} | ({"request"} if legacy else set())


@pytest.mark.spec("basic/index/json-rpc-2", "schema/jsonrpc-version")
@pytest.mark.parametrize("revision", REVISIONS)
def test_the_answer_to_what_is_no_message_is_json_rpc_2(revision):
    with RawClient(Server("strict"), revision=revision) as raw:
        for line in (
            b"nonsense\n",
            b'{"id":1,"method":"ping"}\n',
            b'{"jsonrpc":"1.0","id":2,"method":"ping"}\n',
        ):
            raw.write(line)
            assert kinds([raw.receive()]) == {"error"}


@pytest.mark.spec("basic/index/json-rpc-2", "schema/jsonrpc-version")
@pytest.mark.parametrize("revision", [*LEGACY[1:], MODERN])
def test_every_message_of_a_client_over_http_is_json_rpc_2(revision):
    answered = threading.Semaphore(0)

    def handle(request, wire):
        if request.rpc == "notifications/mine":
            wire.answer(202)
        elif "method" not in request.message:
            answered.release()
            wire.answer(202)
        elif revision == MODERN:
            wire.result(request, text("done"))
        else:
            wire.stream()
            for number, method in enumerate(("ping", "vendor/unknown")):
                wire.event({**BASE, "id": number, "method": method})
            for _ in range(2):
                assert answered.acquire(timeout=PATIENCE)
            wire.event(result_of(request, text("done")))
            wire.end()

    with talking(handle, revision) as (site, client):
        assert client.call_tool("a").text == "done"
        client.notify("notifications/mine")
    legacy = {"response", "error"} if revision != MODERN else set()
    assert kinds([r.message for r in site.requests if r.body]) == {"request", "notification", *legacy}


@pytest.mark.spec("basic/index/json-rpc-2", "schema/jsonrpc-version")
@pytest.mark.parametrize("revision", [*LEGACY[1:], MODERN])
def test_every_message_of_a_server_over_http_is_json_rpc_2(revision):
    server = Server("chatty")

    @server.tool
    def chat(ctx: Context) -> str:
        ctx.progress(1, 2)
        return "done"

    with endpoint(server) as at, Peer(at.port, revision) as peer:
        with peer.call("chat", meta={"progressToken": "t"}) as reply:
            assert kinds(reply.messages()) == {"notification", "response"}
        with peer.call("chat") as reply:
            assert kinds(reply.messages()) == {"response"}
        with peer.ask("vendor/unknown") as reply:
            assert kinds(reply.messages()) == {"error"}
        for body, headers in ((b"nonsense", {}), (b"[]", {}), (b"{}", {"Origin": "http://other.invalid"})):
            with peer.post(body, **headers) as reply:
                assert reply.status in (400, 403)
                assert kinds([reply.json()]) == {"error"}


# -- results of 2026-07-28 ------------------------------------------------------------------------


@pytest.mark.spec(
    "basic/index/result-type-supported-set",
    "basic/index/result-type-absent-complete",
    "basic/index/result-type-extension-values",
)
def test_the_kinds_of_results_that_a_client_knows():
    assert messages.result_type({}) == "complete"
    assert messages.result_type({"resultType": "complete"}) == "complete"
    assert messages.result_type({"resultType": "input_required"}) == "input_required"
    assert messages.result_type({"resultType": "task"}, also=["task"]) == "task"


@pytest.mark.spec("basic/index/result-type-unknown-invalid", "basic/index/result-type-supported-set")
@pytest.mark.parametrize("kind", ["task", "", "Complete", None, 1, True, [], {}, ["complete"], "x" * 1000])
def test_a_kind_that_is_not_known_is_refused(kind):
    with pytest.raises(ValueError, match="unknown resultType") as caught:
        messages.result_type({"resultType": kind}, also=["other"])
    assert len(str(caught.value)) < 100
