"""basic/index, "Messages": bytes become a message or a clear error, and a message becomes one line."""

import json
import math
import threading
import tracemalloc

import pytest
from http_peers import Peer, endpoint
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from peers import ENV, LEGACY, MODERN, PATIENCE, REVISIONS, RawClient, python, recorded, source, tap
from web import result_of, talking, text

from mcp_ref import Context, ErrorResponse, Server, connect
from mcp_ref.basic.index import messages
from mcp_ref.basic.index.error_responses import InvalidRequest, ParseError
from mcp_ref.basic.index.messages import (
    MAX_DEPTH,
    MAX_PARTS,
    SMALL_BYTES,
    Encoded,
    classify,
    decode,
    encode,
    encode_result,
    is_id,
    to_json,
)
from mcp_ref.schema import definitions

CALM = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
"""A busy machine is no fault."""

# -- bad JSON, by name ------------------------------------------------------------------------


def nested(kind, depth):
    """So many levels: of arrays, of objects, or of both in turns."""
    pairs = {"arrays": [("[", "]")], "objects": [('{"a":', "}")], "mixed": [("[", "]"), ('{"a":', "}")]}[kind]
    opening = "".join(pairs[level % len(pairs)][0] for level in range(depth))
    closing = "".join(pairs[level % len(pairs)][1] for level in reversed(range(depth)))
    return f"{opening}1{closing}".encode()


BAD_JSON = {
    "not UTF-8: a stray byte": b'{"a":"\xff"}',
    "not UTF-8: Latin-1": '{"a":"ä"}'.encode("latin-1"),
    "not UTF-8: an overlong form": b'{"a":"\xc0\xaf"}',
    "not UTF-8: a surrogate": b'{"a":"\xed\xa0\x80"}',
    "not UTF-8: beyond Unicode": b'{"a":"\xf4\x90\x80\x80"}',
    "not UTF-8: a character cut off": '{"a":"ä"}'.encode()[:7],
    "UTF-16": '{"a":1}'.encode("utf-16"),
    "UTF-32": '{"a":1}'.encode("utf-32"),
    "a byte order mark": b'\xef\xbb\xbf{"a":1}',
    "empty": b"",
    "blanks only": b" \t ",
    "cut off in an object": b'{"jsonrpc":"2.0","id":1,',
    "cut off in a string": b'{"jsonrpc":"2.',
    "cut off in a word": b'{"a":tru',
    "cut off in a number": b'{"a":1.',
    "cut off in an escape": b'{"a":"\\u12',
    "two values": b"{} {}",
    "something after the end": b'{"a":1}x',
    "a comma too many": b'{"a":1,}',
    "a comma too few": b"[1 2]",
    "single quotes": b"{'a':1}",
    "no quotes": b"{a:1}",
    "a comment": b'{"a":1/*one*/}',
    "a key that is a number": b'{1:"a"}',
    "10,000 arrays": nested("arrays", 10_000),
    "10,000 objects": nested("objects", 10_000),
    "10,000 arrays and objects": nested("mixed", 10_000),
    "10,000 arrays that nobody closes": b"[" * 10_000,
    "10,000 objects that nobody closes": b'{"a":' * 10_000,
    "arrays one level too deep": nested("arrays", MAX_DEPTH + 1),
    "objects one level too deep": nested("objects", MAX_DEPTH + 1),
    "arrays and objects one level too deep": nested("mixed", MAX_DEPTH + 1),
    "too deep, in a wide message": b'{"wide":[' + b"[]," * 500 + b'0],"deep":' + nested("mixed", 250) + b"}",
    "a number beyond float": b'{"a":1e400}',
    "a negative number beyond float": b'{"a":-1e400}',
    "a long number beyond float": b'{"a":' + b"9" * 400 + b".5}",
    "an integer of more digits than Python reads": b'{"a":' + b"1" * 5000 + b"}",
    "a negative integer of more digits than Python reads": b'{"a":-' + b"1" * 5000 + b"}",
    "NaN": b'{"a":NaN}',
    "Infinity": b'{"a":Infinity}',
    "-Infinity": b'{"a":-Infinity}',
    "hexadecimal": b'{"a":0x10}',
    "a leading zero": b'{"a":01}',
    "a leading plus": b'{"a":+1}',
    "a point without digits": b'{"a":1.}',
    "digits of another script": '{"a":٣}'.encode(),
    "duplicate keys": b'{"a":1,"a":1}',
    "duplicate keys, nested": b'{"x":[{"y":{"a":1,"b":2,"a":3}}]}',
    "duplicate keys, one of them escaped": b'{"a":1,"\\u0061":2}',
    "duplicate keys, escaped differently": b'{"\\u00e9":1,"\\u00E9":2}',
    "duplicate keys, both empty": b'{"":1,"":2}',
    "a duplicate id": b'{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}',
    "a lone high surrogate": b'{"a":"\\ud83d"}',
    "a lone low surrogate": b'{"a":"\\ude00"}',
    "a surrogate pair the wrong way round": b'{"a":"\\ude00\\ud83d"}',
    "a high surrogate and a letter": b'{"a":"\\uD83Dx"}',
    "a high surrogate twice": b'{"a":"\\ud83d\\ud83d\\ude00"}',
    "a lone surrogate in a key": b'{"\\udfff":1}',
    "a lone surrogate deep down": b'[[[{"a":["\\udbff"]}]]]',
    "NUL alone": b"\x00",
    "NUL in a string": b'{"a":"\x00"}',
    "NUL after the value": b'{"a":1}\x00',
    "a tab in a string": b'{"a":"\t"}',
    "a newline in a string": b'{"a":"\n"}',
    "an escape that is none": b'{"a":"\\x41"}',
    "a word": b"hello",
    "a word of Python": b'{"a":None}',
    "HTTP": b"GET / HTTP/1.1",
    "a header of another framing": b"Content-Length: 17",
}


@pytest.mark.spec("basic/transports/index/utf8")
@pytest.mark.parametrize("line", BAD_JSON.values(), ids=BAD_JSON)
def test_bad_json_is_a_parse_error(line):
    with pytest.raises(ParseError) as caught:
        decode(line)
    error = caught.value.to_wire()
    assert error["code"] == -32700
    assert 0 < len(error["message"]) < 250
    encode({"jsonrpc": "2.0", "error": error})  # what is said about it can be sent


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b'{"a":"\xff"}', "not UTF-8: byte 6 is 0xff"),
        (b'{"a" 1}', "at character 5"),
        (b'{"abc":1,"abc":1}', "the member 'abc' stands twice in one object"),
        (b'{"a":1,"abc":1,"b":1,"abc":2}', "the member 'abc' stands twice in one object"),
        (b'{"a":-1e400}', "the number -1e400 is beyond what a double can hold"),
        (b"[NaN]", "NaN is not a JSON number"),
        (nested("mixed", 10_000), "nested deeper than 200 levels"),
        (nested("arrays", 201), "nested deeper than 200 levels"),
        (b'"\\ud800"', "half a surrogate pair"),
        (b"1" * 5000, "an integer of too many digits"),
    ],
)
def test_a_parse_error_says_what_is_wrong(line, words):
    with pytest.raises(ParseError, match=words.replace("(", r"\(")):
        decode(line)


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


GOOD_JSON = {
    "a pair of surrogates": (b'"\\ud83d\\ude00"', "\U0001f600"),
    "a pair in capitals": (b'"\\uD83D\\uDE00"', "\U0001f600"),
    "no escape, but the text of one": (b'"\\\\ud83d"', "\\ud83d"),
    "an escaped backslash before a pair": (b'"\\\\\\ud83d\\ude00"', "\\\U0001f600"),
    "an astral character as it is": ('"\U0001f600"'.encode(), "\U0001f600"),
    "an escaped NUL": (b'"\\u0000"', "\x00"),
    "the same key in two objects": (b'[{"a":1},{"a":{"a":2}}]', [{"a": 1}, {"a": {"a": 2}}]),
    "keys that look alike": ('{"é":1,"e\u0301":2}'.encode(), {"é": 1, "e\u0301": 2}),
    "a large integer": (b"123456789012345678901234567890", 123456789012345678901234567890),
    "the largest double": (b"1.7976931348623157e308", 1.7976931348623157e308),
    "a number too small to see": (b"1e-400", 0.0),
    "zero below zero": (b"-0.0", -0.0),
    "blanks around": (b' \t{"a" : 1}\r', {"a": 1}),
    "brackets in strings": (json.dumps({"a": "[{" * 300}).encode(), {"a": "[{" * 300}),
    "brackets side by side": (b"[" + b"[]," * 300 + b"{}]", [[]] * 300 + [{}]),
}


@pytest.mark.parametrize(("line", "value"), GOOD_JSON.values(), ids=GOOD_JSON)
def test_good_json_is_taken_as_it_is(line, value):
    assert decode(line) == value


@pytest.mark.parametrize("part", ["[]", "{}", '{"a":1}', '""', "1"])
def test_a_text_of_too_many_parts_is_refused_before_anything_is_made_of_it(part):
    """An array of a million empty arrays takes 80 MB."""
    line = ("[" + ",".join([part] * (MAX_PARTS + 1)) + "]").encode()
    tracemalloc.start()
    try:
        with pytest.raises(ParseError, match="1,000,000 parts"):
            decode(line)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_commas_and_brackets_in_strings_are_no_parts():
    text = ',[{"\\' * 30_000 + "\\\\"
    for value in ([text], {text: [text, "x"]}, [text, "", '"', text]):
        line = json.dumps(value).encode()
        assert len(line) > SMALL_BYTES
        assert decode(line, 10) == value
        with pytest.raises(ParseError):
            decode(line, 0)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_parts_are_counted_the_same_wherever_a_text_is_cut(size, monkeypatch):
    monkeypatch.setattr(messages, "_COUNTED_AT_ONCE_BYTES", size)
    line = rb'[{"a":",[{","b\\":"\"[","c":[1,2]},"",[]]'
    parts = 9
    assert not messages.has_more_parts(line, parts)
    assert messages.has_more_parts(line, parts - 1)


def test_a_small_text_has_its_parts_uncounted():
    assert decode(b"[1,2,3]", 0) == [1, 2, 3]


@pytest.mark.parametrize("kind", ["arrays", "objects", "mixed"])
def test_the_deepest_nesting_that_is_allowed_is_allowed(kind):
    value = decode(nested(kind, MAX_DEPTH))
    assert decode(encode(value)) == value


def test_the_limit_of_depth_holds_on_a_thread_whose_stack_is_in_use():
    """Deep input is refused, not the end of the reader, wherever it is read."""
    caught = []

    def deep(levels):
        if levels:
            deep(levels - 1)
        else:
            with pytest.raises(ParseError) as problem:
                decode(nested("mixed", 10_000))
            caught.append(problem.value)
            assert decode(nested("mixed", 50)) is not None

    thread = threading.Thread(target=deep, args=(300,))
    thread.start()
    thread.join()
    assert len(caught) == 1


# -- whatever comes ---------------------------------------------------------------------------


def check_decode(line):
    try:
        value = decode(line)
    except ParseError as problem:
        encode(problem.to_wire())
        return
    assert decode(encode(value)) == value


@settings(CALM, max_examples=300)
@given(st.binary(max_size=200))
@example(b"\x00")
@example(b"-")
@example(b'"\\')
def test_any_bytes_are_a_value_or_a_parse_error(line):
    check_decode(line)


PIECES = [
    *[b"{", b"}", b"[", b"]", b",", b":", b'"', b'"a"', b'"a":', b"1", b"-", b"1e999", b"0.5", b"null"],
    *[b"true", b"NaN", b'"\\ud83d"', b'"\\ude00"', b"\\", b"\\u", b"\xff", b"\xc3", b" ", b"9" * 4301],
]


@settings(CALM, max_examples=300)
@given(st.lists(st.sampled_from(PIECES) | st.binary(max_size=3), max_size=30).map(b"".join))
def test_anything_like_json_is_a_value_or_a_parse_error(line):
    check_decode(line)


def json_values():
    text = st.text(st.characters(exclude_categories=["Cs"]))
    scalars = (
        st.none() | st.booleans() | st.integers() | text | st.floats(allow_nan=False, allow_infinity=False)
    )
    return st.recursive(
        scalars, lambda inner: st.lists(inner, max_size=5) | st.dictionaries(text, inner, max_size=5)
    )


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


def types_of(value):
    if isinstance(value, dict):
        return {key: types_of(member) for key, member in value.items()}
    return [types_of(member) for member in value] if isinstance(value, list) else type(value)


@settings(CALM)
@given(json_values(), st.sampled_from(["ascii", "spaced", "raw"]))
def test_every_way_to_write_a_value_is_read_alike(value, style):
    text = {
        "ascii": lambda: json.dumps(value),
        "spaced": lambda: json.dumps(value, indent=2).replace("\n", "\t"),
        "raw": lambda: json.dumps(value, ensure_ascii=False, separators=(",", ":")),
    }[style]()
    assert decode(text.encode()) == value


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
    whole = Encoded(to_json({"a": "ä"}).encode())
    parts = Encoded(b'{"a":', '"ä"'.encode(), b"}")
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
    with connect(tap(python(source(CHATTY)), wire), env=ENV, revision=revision) as client:
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


# ---------------------------------------------------------------------------- what a message weighs


@pytest.mark.parametrize(
    "part", ["[]", "{}", "1.5", '"ab"', '{"k":1}', "[1]", '{"a":{"b":[]}}', "[[[[[]]]]]"]
)
def test_a_message_weighs_about_what_it_takes_in_memory(part):
    """At least half of it, and by far more than its bytes."""
    line = f"[{','.join([part] * 20_000)}]".encode()
    tracemalloc.start()
    try:
        value = decode(line)
        taken = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert len(value) == 20_000
    assert taken / 2 < messages.weight(line) < taken * 3


def test_a_short_message_weighs_its_bytes():
    assert messages.weight(b"[" * 256) == 256
    assert messages.weight(b"[" * 257) == 257 * 65
