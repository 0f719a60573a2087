"""basic/index, "Error Responses" and "Error Codes": what travels, what does not, and who said it."""

import ast
import copy
import pickle
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from peers import LEGACY, MODERN, REVISIONS, RawClient, one_sentence

import mcp_ref
from mcp_ref import ErrorResponse, InvalidResponse, McpError, ProtocolError, Server, connect
from mcp_ref.basic.index import error_responses as errors
from mcp_ref.basic.index.error_responses import (
    HttpError,
    HttpFailure,
    InternalError,
    InvalidParams,
    InvalidRequest,
    MethodNotFound,
    ParseError,
    RefusedByStatus,
    TooManyRequests,
    error_response,
)
from mcp_ref.basic.index.general_fields import MissingRequiredClientCapability
from mcp_ref.basic.versioning import UnsupportedProtocolVersion
from mcp_ref.runtime.errors import ConnectionClosed, LocalError, RequestCancelled, RequestTimeout
from mcp_ref.schema import checker, definitions

CALM = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

# -- the tree ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "parents"),
    [
        (ProtocolError, [McpError]),
        (ParseError, [ProtocolError]),
        (InvalidRequest, [ProtocolError]),
        (MethodNotFound, [ProtocolError]),
        (InvalidParams, [ProtocolError]),
        (InternalError, [ProtocolError]),
        (TooManyRequests, [ProtocolError]),
        (UnsupportedProtocolVersion, [ProtocolError]),
        (MissingRequiredClientCapability, [ProtocolError]),
        (ErrorResponse, [McpError]),
        (LocalError, [McpError]),
        (RequestTimeout, [LocalError, TimeoutError]),
        (RequestCancelled, [LocalError]),
        (ConnectionClosed, [LocalError, ConnectionError]),
        (InvalidResponse, [LocalError]),
        (HttpError, [McpError]),
        (HttpFailure, [HttpError, LocalError]),
        (RefusedByStatus, [HttpError, ErrorResponse]),
    ],
)
def test_the_tree_is_the_one_in_the_docstring(error, parents):
    assert list(error.__bases__) == parents


def test_every_error_of_the_package_is_in_the_tree():
    for name in errors.__all__:
        assert issubclass(getattr(errors, name), McpError)
    for name in mcp_ref.__all__:
        public = getattr(mcp_ref, name)
        if isinstance(public, type) and issubclass(public, Exception):
            assert issubclass(public, McpError)


@pytest.mark.spec("basic/index/local-errors-distinguishable")
def test_local_errors_have_no_code():
    """What no peer said cannot be mistaken for what a peer said."""
    for local in (RequestTimeout, RequestCancelled, ConnectionClosed, InvalidResponse, LocalError):
        assert not issubclass(local, ProtocolError | ErrorResponse)
        assert not hasattr(local("why"), "code")


@pytest.mark.spec("basic/index/local-errors-distinguishable")
def test_what_a_peer_said_is_not_what_we_say():
    """An ErrorResponse that a handler lets through is not sent on as if it were its own."""
    assert not issubclass(ErrorResponse, ProtocolError)
    server = Server("relay")

    @server.on_request("vendor/relay")
    def relay(params):
        raise ErrorResponse(1234, "what another server told us", {"secret": 1})

    with RawClient(server, revision="2025-11-25") as raw:
        error = raw.request("vendor/relay")["error"]
        assert error["code"] == -32603
        assert "secret" not in str(error)


URL = "http://127.0.0.1/mcp"


def test_an_error_of_http_says_its_status_and_its_url():
    failure = HttpFailure(503, f"503 from {URL}", url=URL, retry_after=2.0, challenge="Bearer")
    assert (failure.status, failure.url, failure.retry_after, failure.challenge) == (503, URL, 2.0, "Bearer")
    refused = RefusedByStatus(ErrorResponse(-32600, "bad token", {"a": 1}), 401, url=URL)
    assert str(refused) == f"bad token (-32600); HTTP status 401 from {URL}"
    assert (refused.status, refused.url, refused.retry_after) == (401, URL, None)
    assert (refused.code, refused.message, refused.data) == (-32600, "bad token", {"a": 1})


def test_advice_is_for_people_and_leaves_what_the_peer_said():
    error = ErrorResponse(-32021, "lacks sampling")
    error.advise("connect(..., sampling=...) declares it")
    assert str(error) == "lacks sampling (-32021); connect(..., sampling=...) declares it"
    assert error.message == "lacks sampling"


# -- codes ------------------------------------------------------------------------------------


@pytest.mark.spec(
    "basic/index/standard-json-rpc-codes",
    "basic/index/reserved-code-range-meaning",
    "basic/index/error-code-integer",
)
@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ParseError("x"), -32700),
        (InvalidRequest("x"), -32600),
        (MethodNotFound("x"), -32601),
        (InvalidParams("x"), -32602),
        (InternalError("x"), -32603),
        (ProtocolError("x"), -32603),
        (UnsupportedProtocolVersion("1999-01-01", [MODERN]), -32022),
        (MissingRequiredClientCapability({"sampling": {}}), -32021),
        (TooManyRequests("x", 1), 429),
    ],
)
def test_each_error_has_its_code(error, code):
    assert error.to_wire()["code"] == code
    assert type(error.to_wire()["code"]) is int


@pytest.mark.spec("basic/index/legacy-code-range-no-new", "basic/index/legacy-code-range-avoid")
def test_no_error_of_ours_has_a_code_without_meaning():
    """None in -32019..-32000, and of -32099..-32020 only what the specification defines."""
    for code in {error.code for error in all_protocol_errors()}:
        assert not -32019 <= code <= -32000
        assert not -32099 <= code <= -32020 or code in (-32020, -32021, -32022, -32042)


def all_protocol_errors(base=ProtocolError):
    found = {base}
    for below in base.__subclasses__():
        found |= all_protocol_errors(below)
    return found


@pytest.mark.spec(
    "basic/index/reserved-code-range-only-defined",
    "basic/index/reserved-code-range-meaning",
    "basic/index/legacy-code-range-no-new",
    "basic/index/legacy-code-range-avoid",
)
@pytest.mark.parametrize("code", [-32000, -32001, -32002, -32019, -32020, -32021, -32042, -32098, -32099])
def test_a_handler_cannot_choose_a_reserved_code(code):
    with pytest.raises(ValueError, match=f"code {code} is reserved"):
        ProtocolError("mine", code=code)


@pytest.mark.spec("basic/index/custom-codes-outside-reserved")
@pytest.mark.parametrize("code", [1, 0, -1, 1001, 429, -31999, -32769, -40000, 2**40])
def test_a_handler_may_choose_a_code_of_its_own(code):
    server = Server("own codes")

    @server.on_request("vendor/x")
    def fail(params):
        raise ProtocolError("no such account", code=code, data={"account": 7})

    with RawClient(server, revision="2025-06-18") as raw:
        assert raw.request("vendor/x")["error"] == {
            "code": code,
            "message": "no such account",
            "data": {"account": 7},
        }


@pytest.mark.spec("basic/index/error-code-integer")
@pytest.mark.parametrize("code", [1.5, 1.0, "1", True, False, [1]])
def test_a_code_is_an_integer(code):
    with pytest.raises(TypeError, match="an error code is an integer"):
        ProtocolError("mine", code=code)


# -- on the wire ------------------------------------------------------------------------------


def texts_of_errors():
    """Each text in the package that an error is made with, and where; `{...}` is what it is filled with."""
    kinds = {kind.__name__ for kind in all_protocol_errors()} | {"Refused", "Mismatch", "BadSeal", "BadUri"}
    package = Path(mcp_ref.__file__).parent
    for path in sorted(package.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            name = ast.unparse(node.func).rpartition(".")[2] if isinstance(node, ast.Call) else ""
            if name in kinds or name == "__init__":
                for given in node.args:
                    if isinstance(given, ast.JoinedStr | ast.Constant) and isinstance(text_of(given), str):
                        yield f"{path.relative_to(package)}:{node.lineno}", text_of(given)


def text_of(node):
    if isinstance(node, ast.Constant):
        return node.value
    return "".join(part.value if isinstance(part, ast.Constant) else "{...}" for part in node.values)


@pytest.mark.spec("schema/error-message-concise")
def test_each_message_that_the_package_has_is_one_short_sentence():
    """What comes of them on the wire, the lists of bad input look at: `one_sentence` in tests/peers."""
    found = dict(texts_of_errors())
    assert len(found) > 100
    for place, text in found.items():
        assert one_sentence(text or "nothing"), place
        assert len(text) < 300, place
        assert text.count(";") <= 1, place


MISTAKES = {
    "vendor/unknown": {},
    "tools/call": {"name": "unknown", "arguments": {}},
    "resources/read": {"uri": "demo://unknown"},
    "prompts/get": {"name": 1},
    "tools/list": {"cursor": "made up"},
}


@pytest.mark.spec("schema/error-message-concise")
@pytest.mark.parametrize("method", MISTAKES)
@pytest.mark.parametrize("revision", REVISIONS)
def test_what_answers_a_mistake_is_one_short_sentence_on_the_wire_too(revision, method):
    """Nothing is added to the text on its way."""
    server = Server("tests")
    server.tool(name="known")(lambda: "x")
    server.prompt(name="known")(lambda: "x")
    server.resource("demo://known")(lambda: "x")
    with RawClient(server, revision=revision) as raw:
        error = raw.request(method, MISTAKES[method])["error"]
        assert len(one_sentence(error["message"])) < 300


@pytest.mark.spec("basic/index/error-code-and-message")
def test_an_error_has_a_code_and_a_message():
    assert InvalidParams("a: must be an integer").to_wire() == {
        "code": -32602,
        "message": "a: must be an integer",
    }
    assert str(InvalidParams("a: must be an integer")) == "a: must be an integer"


@pytest.mark.spec("basic/index/error-data-optional")
@pytest.mark.parametrize("data", [0, False, "", [], {}, "more", {"errors": [{"code": 1}]}])
def test_an_error_may_have_data_of_any_kind(data):
    assert InvalidParams("no", data=data).to_wire()["data"] == data


def test_no_data_is_no_member():
    assert "data" not in ProtocolError("no", data=None).to_wire()


def test_whoever_asks_too_often_is_told_when_to_come_back():
    error = TooManyRequests("too many calls", 1.5).to_wire()
    assert error == {
        "code": 429,
        "message": "too many calls; try again in 1500 ms",
        "data": {"retryAfterMs": 1500},
    }
    assert TooManyRequests("x", 0.0).data == {"retryAfterMs": 1}


@pytest.mark.spec("basic/index/error-code-and-message", "basic/index/standard-json-rpc-codes")
@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize(
    ("problem", "code", "words"),
    [
        (ProtocolError("it broke"), -32603, "it broke"),
        (InvalidParams("n: too small"), -32602, "n: too small"),
        (MethodNotFound("not today"), -32601, "not today"),
        (ProtocolError("mine", code=7), 7, "mine"),
        (KeyError("secret of the handler"), -32603, "vendor/x failed"),
        (SystemExit(2), -32603, "vendor/x failed"),
        (RequestTimeout("elicitation/create: no answer"), -32603, "vendor/x failed"),
    ],
)
def test_what_a_handler_raises_becomes_an_error_response(revision, problem, code, words):
    """A ProtocolError goes out as it is; anything else says that it failed, and keeps the rest to itself."""
    server = Server("failing")

    @server.on_request("vendor/x")
    def fail(params):
        raise problem

    with RawClient(server, revision=revision) as raw:
        answer = raw.request("vendor/x")
        assert answer["error"] == {"code": code, "message": words}
        shape = "JSONRPCErrorResponse" if revision >= "2025-11-25" else "JSONRPCError"
        assert set(definitions(revision)[shape]["required"]) <= answer.keys()
        assert raw.is_alive()


@pytest.mark.parametrize("data", [float("nan"), b"bytes", {1, 2}, "\ud800"])
def test_data_that_json_cannot_carry_still_becomes_an_error(data):
    server = Server("failing")

    @server.on_request("vendor/x")
    def fail(params):
        raise ProtocolError("with data", data=data, code=5)

    with RawClient(server, revision="2025-11-25") as raw:
        error = raw.request("vendor/x")["error"]
        assert error["code"] == 5
        assert "no JSON form" in error["message"]
        assert raw.is_alive()


# -- what arrives -----------------------------------------------------------------------------


def test_an_error_of_the_peer_becomes_an_exception_with_all_it_said():
    problem = error_response({"code": -32602, "message": "no", "data": [1], "more": 2})
    assert isinstance(problem, ErrorResponse)
    assert (problem.code, problem.message, problem.data) == (-32602, "no", [1])
    assert str(problem) == "no (-32602)"


@pytest.mark.spec("basic/index/legacy-code-range-no-meaning", "basic/index/reserved-code-range-meaning")
@pytest.mark.parametrize("code", [-32000, -32001, -32019, -32050, -32099, 0, 12345])
def test_codes_without_meaning_are_all_the_same_to_us(code):
    """No class, no behaviour: just what the peer said."""
    problem = error_response({"code": code, "message": "whatever"})
    assert type(problem) is ErrorResponse
    assert (problem.code, problem.data) == (code, None)


@pytest.mark.spec("basic/index/error-code-and-message", "basic/index/error-code-integer")
@pytest.mark.parametrize(
    "error",
    [
        None,
        "failed",
        -32603,
        True,
        [],
        ["code", "message"],
        {},
        {"code": 1},
        {"message": "no code"},
        {"code": "1", "message": "a string"},
        {"code": 1.0, "message": "a fraction"},
        {"code": True, "message": "a boolean"},
        {"code": None, "message": "null"},
        {"code": 1, "message": None},
        {"code": 1, "message": 5},
        {"code": 1, "message": {"text": "x" * 10_000}},
    ],
)
def test_an_error_that_is_badly_made_is_an_invalid_response(error):
    problem = error_response(error)
    assert isinstance(problem, InvalidResponse)
    assert not hasattr(problem, "code")
    assert len(str(problem)) < 300


@CALM
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["code", "message", "data"]), inner),
        max_leaves=8,
    )
)
def test_whatever_stands_in_the_place_of_an_error_becomes_an_exception(error):
    problem = error_response(error)
    assert isinstance(problem, ErrorResponse | InvalidResponse)
    str(problem)


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda e: pickle.loads(pickle.dumps(e))])
@pytest.mark.parametrize(
    "problem",
    [
        RequestTimeout("late"),
        ConnectionClosed("gone"),
        InvalidResponse("odd"),
        ErrorResponse(7, "no", {"a": [1]}),
        ProtocolError("mine", code=7, data=[1]),
        InvalidParams("no"),
        TooManyRequests("too many calls", 1.5),
        UnsupportedProtocolVersion("1999-01-01", [MODERN]),
        MissingRequiredClientCapability({"sampling": {}}),
    ],
    ids=lambda problem: type(problem).__name__,
)
def test_an_error_may_travel_between_processes(problem, again):
    """A pool of processes pickles what its workers raise, and breaks if that cannot be read."""
    other = again(problem)
    assert type(other) is type(problem)
    assert str(other) == str(problem)
    assert vars(other) == vars(problem)


@pytest.mark.spec("basic/index/local-errors-distinguishable")
@pytest.mark.parametrize("revision", REVISIONS)
def test_a_client_tells_what_the_server_said_from_what_happened_here(revision):
    server = Server("failing")

    @server.on_request("vendor/x")
    def fail(params):
        raise ProtocolError("no", code=77, data={"a": 1})

    @server.on_request("vendor/slow")
    def slow(params, ctx):
        ctx.sleep(10)

    with connect(server, revision=revision) as client:
        with pytest.raises(ErrorResponse) as said:
            client.request("vendor/x")
        assert (said.value.code, said.value.message, said.value.data) == (77, "no", {"a": 1})
        with pytest.raises(RequestTimeout) as happened:
            client.request("vendor/slow", timeout=0.02)
        assert isinstance(happened.value, TimeoutError)


# -- the shapes -------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [ParseError, InvalidRequest, MethodNotFound, InvalidParams, InternalError])
def test_what_we_send_has_the_shape_of_its_definition(error):
    name = error.__name__ if error in (ParseError, InternalError) else f"{error.__name__}Error"
    schema = definitions(MODERN)[name]
    assert schema["properties"]["code"] == {"const": error.code}
    checker(errors.Error, MODERN)(error("no", data=[1]).to_wire())
    for revision in LEGACY:
        assert name not in definitions(revision)
