"""The headers that repeat the body (page: basic/transports/streamable-http, "Request Metadata")."""

from __future__ import annotations

import base64
import pickle
import re
import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from mcp_ref.basic.index.messages import Json
from mcp_ref.basic.transports.streamable_http.request_metadata import (
    DraftHeaderMismatch,
    HeaderMismatch,
    HeaderMismatchError,
    check,
    check_draft,
    decode_value,
    encode_value,
    mirror,
)
from mcp_ref.runtime.errors import LocalError
from mcp_ref.schema import checker, definitions

DATE = "2026-07-28"
SAFE = 2**53 - 1
REGION = {"region": ("region",)}


def request(method: str, **params: Any) -> Json:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": {}}}


def call(name: str = "add", **arguments: Any) -> Json:
    return request("tools/call", name=name, arguments=arguments)


def getter(headers: dict[str, str]) -> Callable[[str], str | None]:
    """What a transport passes: a header by its name in lower case."""
    lower = {name.lower(): value for name, value in headers.items()}
    return lower.get


def standard(message: Json, **more: str) -> dict[str, str]:
    """The headers of a message that are always there, and others."""
    headers = mirror(message["method"], message["params"], DATE)
    return {**headers, **{name.replace("_", "-"): value for name, value in more.items()}}


def refused(headers: dict[str, str], message: Json, annotated: Any = None) -> str:
    """Why a server refuses it."""
    with pytest.raises(HeaderMismatch) as problem:
        check(getter(headers), message, DATE, annotated)
    assert problem.value.to_wire()["code"] == -32020
    return problem.value.message


def refused_by_draft(headers: dict[str, str], message: Json, annotated: Any = None, **options: Any) -> str:
    with pytest.raises(DraftHeaderMismatch) as problem:
        check_draft(getter(headers), message, annotated, **options)
    assert problem.value.to_wire()["code"] == -32001
    return problem.value.message


# -- the error -------------------------------------------------------------------------------------


@pytest.mark.spec(
    "basic/transports/streamable-http/header-failure-json-error", "basic/index/error-code-header-mismatch"
)
def test_the_error_has_its_code_and_its_shape():
    error = HeaderMismatch("x").to_wire()
    assert error == {"code": -32020, "message": "Header mismatch: x"}
    fits = checker(HeaderMismatchError, DATE)
    fits({"jsonrpc": "2.0", "id": 1, "error": error})
    with pytest.raises(ValueError, match="code"):
        fits({"jsonrpc": "2.0", "id": 1, "error": {**error, "code": -32001}})


def test_the_shape_is_new_in_2026_07_28():
    assert "HeaderMismatchError" in definitions(DATE)
    assert "HeaderMismatchError" not in definitions("2025-11-25")


@pytest.mark.spec(
    "basic/transports/streamable-http/header-failure-json-error-32001",
    "basic/transports/streamable-http/param-mismatch-error-32001",
)
def test_the_draft_has_another_code_and_the_same_words():
    error = DraftHeaderMismatch(HeaderMismatch("x"))
    assert error.to_wire() == {"code": -32001, "message": "Header mismatch: x"}
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), again.to_wire()) == (DraftHeaderMismatch, error.to_wire())


# -- values ----------------------------------------------------------------------------------------


@pytest.mark.spec(
    "basic/transports/streamable-http/encode-values",
    "basic/transports/streamable-http/encode-base64-unsafe",
    "basic/transports/streamable-http/encode-sentinel-exact",
    "basic/transports/streamable-http/encode-sentinel-lookalike",
)
@pytest.mark.parametrize(
    ("value", "header"),
    [
        ("us-west1", "us-west1"),
        ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
        (" padded ", "=?base64?IHBhZGRlZCA=?="),
        ("line1\nline2", "=?base64?bGluZTEKbGluZTI=?="),
        ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
        ("", ""),
        ("a b", "a b"),
        (" a", "=?base64?IGE=?="),
        ("a ", "=?base64?YSA=?="),
        ("\ta", "=?base64?CWE=?="),
        ("a\tb", "=?base64?YQli?="),
        ("a\r\nEvil: 1", "=?base64?YQ0KRXZpbDogMQ==?="),
        ("\x7f", "=?base64?fw==?="),
        ("=?base64?", "=?base64?"),
        ("SGVsbG8=?=", "SGVsbG8=?="),
        ("=?BASE64?SGk=?=", "=?BASE64?SGk=?="),
        ("=?base64?=", "=?base64?PT9iYXNlNjQ/PQ==?="),
    ],
)
def test_a_text_goes_into_a_header_as_it_is_or_in_base64(value, header):
    assert encode_value(value) == header
    assert decode_value(header) == value


@pytest.mark.spec(
    "basic/transports/streamable-http/encode-scalars",
    "basic/transports/streamable-http/encode-number-decimal",
)
@pytest.mark.parametrize(
    ("value", "header"),
    [
        (42, "42"),
        (-7, "-7"),
        (0, "0"),
        (True, "true"),
        (False, "false"),
        (SAFE, "9007199254740991"),
        (-SAFE, "-9007199254740991"),
        (42.0, "42"),
        (-0.0, "0"),
        (3.14, "3.14"),
        (1e-7, "0.0000001"),
    ],
)
def test_integers_are_decimal_and_booleans_are_words(value, header):
    assert encode_value(value) == header


@pytest.mark.spec(
    "basic/transports/streamable-http/x-mcp-header-integer-range", "server/tools/x-mcp-header-integer-range"
)
@pytest.mark.parametrize("value", [SAFE + 1, -SAFE - 1, 2**64, 10**4000, float(2**53), 1e300])
def test_an_integer_that_peers_read_differently_is_not_written(value):
    with pytest.raises(ValueError, match=r"beyond ±\(2\^53 - 1\)"):
        encode_value(value)


@pytest.mark.parametrize("value", [None, [], {}, b"x", float("nan"), float("inf")])
def test_what_has_no_form_in_a_header_is_refused(value):
    with pytest.raises(ValueError, match="has no form in a header"):
        encode_value(value)


@pytest.mark.spec(
    "basic/transports/streamable-http/decode-sentinel",
    "basic/transports/streamable-http/encode-sentinel-exact",
)
@pytest.mark.parametrize(
    ("header", "value"),
    [
        ("=?base64?SGVsbG8=?=", "Hello"),
        ("=?base64??=", ""),
        ("SGVsbG8=", "SGVsbG8="),
        ("=?base64?SGVsbG8=", "=?base64?SGVsbG8="),
        ("SGVsbG8=?=", "SGVsbG8=?="),
        ("=?Base64?SGVsbG8=?=", "=?Base64?SGVsbG8=?="),
        ("=?base64?=", "=?base64?="),
        ("a\tb", "a\tb"),
    ],
)
def test_only_the_exact_marks_mean_base64(header, value):
    assert decode_value(header) == value


@pytest.mark.spec(
    "basic/transports/streamable-http/param-invalid-characters",
    "basic/transports/streamable-http/header-invalid-characters",
)
@pytest.mark.parametrize(
    ("header", "why"),
    [
        ("=?base64?SGVsbG8?=", "not base64"),  # no padding
        ("=?base64?SGVsbG8==?=", "not base64"),  # too much of it
        ("=?base64?SGVs!!!bG8=?=", "not base64"),
        ("=?base64?SGVs bG8=?=", "not base64"),
        ("=?base64?SGVsbG8-_w==?=", "not base64"),  # the alphabet for URLs
        ("=?base64?SGVsbG9=?=", "as it is to be written"),  # bits that nobody reads
        ("=?base64?/w==?=", "not UTF-8"),
        ("=?base64?7aCA?=", "not UTF-8"),  # half a surrogate pair
        ("caf\xe9", "a character that no header may"),
        ("a\x00b", "a character that no header may"),
        ("a\nb", "a character that no header may"),
        ("a\n", "a character that no header may"),
        ("\x7f", "a character that no header may"),
    ],
)
def test_a_malformed_header_stands_for_nothing(header, why):
    with pytest.raises(ValueError, match=why):
        decode_value(header)


@given(st.text(st.characters(exclude_categories=["Cs"])) | st.from_regex(r"=\?base64\?.{0,9}\?=\n?"))
@example("=?base64?=")
@pytest.mark.spec(
    "basic/transports/streamable-http/encode-values",
    "basic/transports/streamable-http/encode-base64-unsafe",
    "basic/transports/streamable-http/encode-sentinel-lookalike",
    "basic/transports/streamable-http/decode-sentinel",
)
def test_any_text_survives_the_way_through_a_header(text):
    header = encode_value(text)
    assert re.fullmatch(r"[\x20-\x7e]*", header)
    assert header.strip() == header
    assert decode_value(header) == text


@given(st.text(st.characters(max_codepoint=255)))
def test_whatever_arrives_is_text_or_refused(header):
    try:
        text = decode_value(header)
    except ValueError:
        return
    wrapped = header.startswith("=?base64?") and header.endswith("?=")
    assert text == header or base64.b64decode(header[9:-2]) == text.encode()
    assert wrapped or text == header


# -- the client ------------------------------------------------------------------------------------


@pytest.mark.spec(
    "basic/transports/streamable-http/version-header-every-post",
    "basic/transports/streamable-http/version-header-matches-meta",
    "basic/transports/streamable-http/mcp-method-header",
    "basic/transports/streamable-http/mcp-name-header",
    "basic/transports/streamable-http/extract-standard-headers",
    "extensions/tasks/mcp-name-task-id",
)
@pytest.mark.parametrize(
    ("method", "params", "name"),
    [
        ("server/discover", None, None),
        ("tools/list", {}, None),
        ("tools/list", {"name": "x"}, None),
        ("tools/call", {"name": "add"}, "add"),
        ("prompts/get", {"name": "review"}, "review"),
        ("resources/read", {"uri": "file:///a%20b"}, "file:///a%20b"),
        ("resources/subscribe", {"uri": "file:///a"}, None),
        ("tasks/get", {"taskId": "t-1"}, "t-1"),
        ("tasks/update", {"taskId": "t-1"}, "t-1"),
        ("tasks/cancel", {"taskId": "t-1"}, "t-1"),
        ("tools/call", {}, None),
        ("tools/call", {"name": 5}, None),
    ],
)
def test_a_request_has_its_version_its_method_and_where_it_has_one_its_name(method, params, name):
    expected = {"MCP-Protocol-Version": DATE, "Mcp-Method": method}
    if name is not None:
        expected["Mcp-Name"] = name
    assert mirror(method, params, DATE) == expected


@pytest.mark.spec("basic/transports/streamable-http/mcp-name-encoded")
def test_a_name_that_a_header_cannot_hold_is_written_in_base64():
    assert mirror("tools/call", {"name": "größe"}, DATE)["Mcp-Name"] == "=?base64?Z3LDtsOfZQ==?="
    assert mirror("resources/read", {"uri": "a\nb"}, DATE)["Mcp-Name"] == "=?base64?YQpi?="


@pytest.mark.spec(
    "basic/transports/streamable-http/x-mcp-header-supported",
    "basic/transports/streamable-http/x-mcp-header-mirrored",
    "basic/transports/streamable-http/param-provided",
    "basic/transports/streamable-http/x-mcp-header-extraction",
)
def test_the_arguments_that_the_tool_marked_are_headers_too():
    annotated = {"region": ("region",), "limit": ("options", "limit"), "dry": ("dry",), "method": ("m",)}
    arguments = {"region": "eu", "limit": 1, "options": {"limit": 7}, "dry": False, "m": "", "other": "x"}
    headers = mirror("tools/call", {"name": "t", "arguments": arguments}, DATE, annotated)
    assert {name: value for name, value in headers.items() if name.startswith("Mcp-Param-")} == {
        "Mcp-Param-region": "eu",
        "Mcp-Param-limit": "7",
        "Mcp-Param-dry": "false",
        "Mcp-Param-method": "",
    }
    assert headers["Mcp-Method"] == "tools/call"


@pytest.mark.spec(
    "basic/transports/streamable-http/param-null-omitted",
    "basic/transports/streamable-http/param-absent-omitted",
    "basic/transports/streamable-http/x-mcp-header-extraction",
)
@pytest.mark.parametrize(
    "params",
    [
        {},
        {"arguments": None},
        {"arguments": []},
        {"arguments": {}},
        {"arguments": {"a": {}}},
        {"arguments": {"a": {"b": None}}},
        {"arguments": {"a": "b"}},
        {"arguments": {"b": 1}},
    ],
)
def test_an_argument_without_a_value_has_no_header(params):
    assert len(mirror("tools/call", {"name": "t", **params}, DATE, {"b": ("a", "b")})) == 3


def test_only_a_call_of_a_tool_has_such_headers():
    params = {"name": "t", "arguments": {"region": "eu"}}
    assert len(mirror("prompts/get", params, DATE, REGION)) == 3


@pytest.mark.spec("basic/transports/streamable-http/x-mcp-header-integer-range")
@pytest.mark.parametrize("value", [2**53, -(2**60), [1], {}, "\ud800"])
def test_what_cannot_be_a_header_is_not_sent_and_named(value):
    arguments = {"name": "t", "arguments": {"options": {"limit": value}}}
    with pytest.raises(
        LocalError, match=r"arguments\.options\.limit: cannot go into the header Mcp-Param-limit"
    ):
        mirror("tools/call", arguments, DATE, {"limit": ("options", "limit")})


def test_a_name_or_a_method_that_cannot_be_a_header_is_named():
    with pytest.raises(LocalError, match="name: cannot go into the header Mcp-Name"):
        mirror("tools/call", {"name": "\udfff"}, DATE)
    for method in ("a\r\nEvil: 1", "größe"):
        with pytest.raises(LocalError, match="cannot go into the header Mcp-Method"):
            mirror(method, {}, DATE)


# -- the server: what every request has ------------------------------------------------------------


@pytest.mark.spec(
    "basic/transports/streamable-http/version-header-absent-reject",
    "basic/transports/streamable-http/missing-standard-header",
    "basic/index/error-code-header-mismatch",
)
@pytest.mark.parametrize("header", ["MCP-Protocol-Version", "Mcp-Method", "Mcp-Name"])
def test_a_header_that_every_such_request_has_may_not_be_missing(header):
    message = call()
    headers = standard(message)
    check(getter(headers), message, DATE)
    del headers[header]
    assert refused(headers, message).startswith(
        f"Header mismatch: {header} header is missing, body value is '"
    )


@pytest.mark.spec(
    "basic/transports/streamable-http/version-header-mismatch",
    "basic/transports/streamable-http/reject-header-body-mismatch",
    "basic/transports/streamable-http/header-values-case-sensitive",
)
@pytest.mark.parametrize(
    ("header", "value", "body"),
    [
        ("MCP-Protocol-Version", "2025-11-25", DATE),
        ("MCP-Protocol-Version", f"{DATE},{DATE}", DATE),
        ("MCP-Protocol-Version", "", DATE),
        ("Mcp-Method", "tools/list", "tools/call"),
        ("Mcp-Method", "TOOLS/CALL", "tools/call"),
        ("Mcp-Method", "=?base64?dG9vbHMvY2FsbA==?=", "tools/call"),
        ("Mcp-Name", "sub", "add"),
        ("Mcp-Name", "ADD", "add"),
        ("Mcp-Name", "", "add"),
    ],
)
def test_a_header_that_says_something_else_is_refused(header, value, body):
    message = call()
    said = refused({**standard(message), header: value}, message)
    shortened = value if len(value) <= 40 else value[:37] + "..."
    assert said == f"Header mismatch: {header} header value '{shortened}' does not match body value '{body}'"


@pytest.mark.spec("basic/transports/streamable-http/version-header-mismatch")
def test_the_version_of_the_header_is_that_of_the_body_whichever_it_is():
    headers = {"MCP-Protocol-Version": DATE, "Mcp-Method": "tools/list"}
    with pytest.raises(HeaderMismatch, match=r"'2026-07-28' does not match body value 'v999\.0\.0'"):
        check(getter(headers), request("tools/list"), "v999.0.0")
    check(getter({**headers, "MCP-Protocol-Version": "v999.0.0"}), request("tools/list"), "v999.0.0")


def test_what_is_wrong_first_is_told_first():
    message = call()
    assert "MCP-Protocol-Version" in refused({}, message)
    assert "Mcp-Method" in refused({"MCP-Protocol-Version": DATE}, message)
    assert "Mcp-Name" in refused({"MCP-Protocol-Version": DATE, "Mcp-Method": "tools/call"}, message, REGION)


@pytest.mark.spec("basic/transports/streamable-http/header-names-case-insensitive")
@pytest.mark.parametrize("write", [str, str.lower, str.upper, str.title])
def test_the_names_of_headers_have_no_case(write):
    """As a WSGI server passes them on."""
    message = call(region="eu")
    headers = {**standard(message), "Mcp-Param-Region": "eu"}
    environ = {f"HTTP_{write(name).upper().replace('-', '_')}": value for name, value in headers.items()}

    def get(name: str) -> str | None:
        return environ.get(f"HTTP_{name.upper().replace('-', '_')}")

    check(get, message, DATE, REGION)
    check(getter({write(name): value for name, value in headers.items()}), message, DATE, REGION)
    check_draft(get, message, REGION, required=True)


def test_blanks_around_a_header_are_no_part_of_it():
    message = call(region="eu")
    headers = {name: f" \t{value}\t " for name, value in standard(message, Mcp_Param_Region="eu").items()}
    check(getter(headers), message, DATE, REGION)
    check_draft(getter(headers), message, REGION, required=True)
    padded = {**headers, "Mcp-Name": "  =?base64?YWRk?= "}
    check(getter(padded), message, DATE, REGION)
    assert "'add' does not match body value ' add '" in refused(headers, call(" add ", region="eu"))


@pytest.mark.spec("basic/transports/streamable-http/header-invalid-characters")
@pytest.mark.parametrize("bad", ["caf\xe9", "a\x01b", "a\x7f"])
def test_a_header_with_what_none_may_hold_is_refused_even_if_the_body_says_the_same(bad):
    message = request(bad)
    headers = {"MCP-Protocol-Version": DATE, "Mcp-Method": bad}
    assert "a character that no header may" in refused(headers, message)
    named = call(bad)
    assert "a character that no header may" in refused({**standard(named), "Mcp-Name": bad}, named)
    check(getter(standard(named)), named, DATE)
    assert "no header may" in refused_by_draft({"Mcp-Method": bad}, message)
    assert "no header may" in refused_by_draft({"Mcp-Method": "tools/call", "Mcp-Name": bad}, named)


def test_a_tab_is_allowed_where_it_is_meant():
    named = call("a\tb")
    check(getter({**standard(named), "Mcp-Name": "a\tb"}), named, DATE)
    odd = request("a\tb")
    check(getter({"MCP-Protocol-Version": DATE, "Mcp-Method": "a\tb"}), odd, DATE)


@pytest.mark.spec(
    "basic/transports/streamable-http/decode-before-compare",
    "basic/transports/streamable-http/server-validation-decodes",
)
def test_a_name_in_base64_is_decoded_before_it_is_compared():
    message = call("größe")
    check(getter(standard(message)), message, DATE)
    plain = call("Hello")
    check(getter({**standard(plain), "Mcp-Name": "=?base64?SGVsbG8=?="}), plain, DATE)
    looks = call("=?base64?SGVsbG8=?=")
    check(getter(standard(looks)), looks, DATE)
    assert "'Hello' does not match" in refused({**standard(looks), "Mcp-Name": "=?base64?SGVsbG8=?="}, looks)
    assert "is not base64 inside" in refused({**standard(plain), "Mcp-Name": "=?base64?SGVsbG8?="}, plain)


@pytest.mark.parametrize(
    ("method", "member"),
    [
        ("tools/call", "name"),
        ("prompts/get", "name"),
        ("resources/read", "uri"),
        ("tasks/get", "taskId"),
        ("tasks/update", "taskId"),
        ("tasks/cancel", "taskId"),
    ],
)
@pytest.mark.spec(
    "basic/transports/streamable-http/missing-standard-header",
    "basic/transports/streamable-http/reject-header-body-mismatch",
)
def test_each_method_that_names_something_names_it_in_a_header(method, member):
    message = request(method, **{member: "it"})
    check(getter(standard(message)), message, DATE)
    headers = {"MCP-Protocol-Version": DATE, "Mcp-Method": method}
    assert "Mcp-Name header is missing" in refused(headers, message)
    assert "Mcp-Name header value 'that'" in refused({**headers, "Mcp-Name": "that"}, message)


def test_a_name_that_the_body_lacks_may_be_in_no_header_either():
    """Without both, it is for whoever reads the params to say that they are wrong."""
    headers = {"MCP-Protocol-Version": DATE, "Mcp-Method": "tools/call"}
    for params in ({}, {"name": 5}, {"name": None}):
        message = request("tools/call", **params)
        check(getter(headers), message, DATE)
        assert "Mcp-Name header value 'add'" in refused({**headers, "Mcp-Name": "add"}, message)
    for params in ([], None, "x"):
        check(getter(headers), {**message, "params": params}, DATE, REGION)
        check_draft(getter(headers), {**message, "params": params}, REGION, required=True)


def test_a_name_elsewhere_is_nothing_to_us():
    message = request("tools/list", name="x")
    check(getter({**standard(message), "Mcp-Name": "y"}), message, DATE)


def test_a_notification_says_its_method_rightly_or_not_at_all():
    message = {"jsonrpc": "2.0", "method": "notifications/progress", "params": {}}
    headers = {"MCP-Protocol-Version": DATE}
    check(getter(headers), message, DATE)
    check(getter({**headers, "Mcp-Method": "notifications/progress"}), message, DATE)
    assert "Mcp-Method" in refused({**headers, "Mcp-Method": "notifications/cancelled"}, message)
    assert "MCP-Protocol-Version" in refused({}, message)


def test_long_values_are_told_in_short():
    message = call("n" * 5000)
    said = refused({**standard(message), "Mcp-Name": "m" * 60_000}, message)
    assert len(said) < 200


# -- the server: arguments -------------------------------------------------------------------------


@pytest.mark.spec(
    "basic/transports/streamable-http/param-validate",
    "basic/transports/streamable-http/reject-header-body-mismatch",
    "basic/transports/streamable-http/encode-scalars",
)
@pytest.mark.parametrize(
    ("value", "header"),
    [
        ("eu", "eu"),
        ("eu", "=?base64?ZXU=?="),
        ("SGVsbG8=", "SGVsbG8="),
        ("=?base64?SGVsbG8=", "=?base64?SGVsbG8="),
        ("SGVsbG8=?=", "SGVsbG8=?="),
        ("=?base64?SGVsbG8=?=", "=?base64?PT9iYXNlNjQ/U0dWc2JHOD0/PQ==?="),
        ("", ""),
        ("", "=?base64??="),
        (True, "true"),
        (False, "false"),
        (42, "42"),
        (42, "=?base64?NDI=?="),
    ],
)
def test_an_argument_and_its_header_that_say_the_same_are_let_through(value, header):
    message = call(region=value)
    check(getter(standard(message, Mcp_Param_Region=header)), message, DATE, REGION)


@pytest.mark.spec(
    "basic/transports/streamable-http/param-validate",
    "basic/transports/streamable-http/reject-header-body-mismatch",
    "basic/transports/streamable-http/header-values-case-sensitive",
)
@pytest.mark.parametrize(
    ("value", "header"),
    [
        ("eu", "us"),
        ("eu", "EU"),
        ("eu", "eu,eu"),
        ("eu", "=?base64?RVU=?="),
        ("=?base64?ZXU=?=", "=?base64?ZXU=?="),
        ("42", "42.0"),
        ("true", "True"),
        (True, "True"),
        (True, "1"),
        (False, ""),
        (1, "true"),
        (0, "false"),
        (0, ""),
        ("x", ""),
    ],
)
def test_an_argument_and_its_header_that_differ_are_refused(value, header):
    message = call(region=value)
    said = refused(standard(message, Mcp_Param_Region=header), message, REGION)
    assert said.startswith("Header mismatch: Mcp-Param-region header value '")
    assert "does not match body value" in said


@pytest.mark.spec("basic/transports/streamable-http/param-invalid-characters")
@pytest.mark.parametrize("header", ["=?base64?SGVsbG8?=", "=?base64?SGVs!!!bG8=?=", "caf\xe9", "a\x01"])
def test_an_argument_whose_header_is_malformed_is_refused(header):
    for value in ("Hello", header):
        message = call(region=value)
        said = refused(standard(message, Mcp_Param_Region=header), message, REGION)
        assert "is not base64 inside" in said or "a character that no header may" in said


@pytest.mark.spec("basic/transports/streamable-http/param-missing-rejected")
def test_an_argument_that_the_body_has_and_no_header_is_refused():
    message = call(options={"limit": 7})
    said = refused(standard(message), message, {"limit": ("options", "limit")})
    expected = "Mcp-Param-limit header is missing, body value of arguments.options.limit is 7"
    assert said == f"Header mismatch: {expected}"


@pytest.mark.spec("basic/transports/streamable-http/param-not-expected")
@pytest.mark.parametrize(
    "message",
    [
        call(),
        call(region=None),
        request("tools/call", name="add"),
        request("tools/call", name="add", arguments=None),
        request("tools/call", name="add", arguments=[]),
    ],
)
def test_an_argument_that_the_body_has_not_needs_no_header_and_may_have_none(message):
    headers = standard(message)
    check(getter(headers), message, DATE, REGION)
    said = refused({**headers, "Mcp-Param-Region": "eu"}, message, REGION)
    assert said == "Header mismatch: Mcp-Param-region header value 'eu' has no body value"


def test_headers_that_no_annotation_has_are_nothing_to_us():
    message = call(region="eu", other="x")
    headers = standard(message, Mcp_Param_Region="eu", Mcp_Param_Other="y", Mcp_Param_Odd="\xff")
    check(getter(headers), message, DATE, REGION)
    check(getter(headers), message, DATE, {})
    check(getter(headers), message, DATE)
    prompt = request("prompts/get", name="p", arguments={"region": "eu"})
    check(getter(standard(prompt)), prompt, DATE, REGION)


@pytest.mark.spec("basic/transports/streamable-http/integer-numeric-compare")
@pytest.mark.parametrize(
    ("value", "header"),
    [
        (42, "42.0"),
        (42, "42.000"),
        (42, "4.2e1"),
        (40, "4e1"),
        (40, "4E+1"),
        (-7, "-7.0"),
        (0, "-0"),
        (42.0, "42"),
        (42.0, "42.0"),
        (SAFE, "9007199254740991.0"),
        (-SAFE, "-9007199254740991.00"),
        (SAFE, "9.007199254740991e15"),
        (1.5, "1.50"),
        (0.1, "1e-1"),
    ],
)
def test_numbers_are_compared_as_numbers(value, header):
    message = call(region=value)
    check(getter(standard(message, Mcp_Param_Region=header)), message, DATE, REGION)
    check_draft(getter({"Mcp-Param-Region": header}), message, REGION)


@pytest.mark.spec("basic/transports/streamable-http/integer-numeric-compare")
@pytest.mark.parametrize(
    ("value", "header"),
    [
        (42, "42.1"),
        (42, "42.00000000000000000000001"),
        (SAFE, "9007199254740990"),
        (SAFE, "9007199254740991.3"),
        (SAFE, "9007199254740992"),
        (42, "042"),
        (42, "+42"),
        (42, "42."),
        (42, "0x2a"),
        (42, "4_2"),
        (42, "forty-two"),
        (42, "٤٢".encode().decode("latin-1")),
        (42, "NaN"),
        (42, "Infinity"),
        (42, "1e999999999"),
        (42, "42" + "0" * 60_000),
        (42, "42." + "0" * 60_000),
        (0, "0e999999999999999999"),
    ],
)
def test_numbers_are_compared_exactly_and_only_as_json_writes_them(value, header):
    message = call(region=value)
    before = time.thread_time()
    refused(standard(message, Mcp_Param_Region=header), message, REGION)
    assert time.thread_time() - before < 1


@pytest.mark.spec("basic/transports/streamable-http/x-mcp-header-integer-range")
@pytest.mark.parametrize("value", [2**53, -(2**53), 10**400, float(2**60)])
def test_an_integer_that_peers_read_differently_is_refused(value):
    message = call(region=value)
    said = refused(standard(message, Mcp_Param_Region=str(int(value))), message, REGION)
    assert "is beyond ±(2^53 - 1)" in said
    assert "Mcp-Param-region" in said
    refused(standard(message), message, REGION)


@pytest.mark.parametrize("value", [[], {}, ["eu"]])
def test_what_no_header_can_say_is_refused_with_one_and_without(value):
    message = call(region=value)
    assert "has no form in a header" in refused(standard(message, Mcp_Param_Region="eu"), message, REGION)
    assert "header is missing" in refused(standard(message), message, REGION)


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
VALUES = TEXT | st.booleans() | st.integers(-SAFE, SAFE) | st.none()
PATHS = {"a": ("a",), "b": ("in", "b"), "c": ("in", "c")}


def nested(a: Any, b: Any, c: Any, name: str = "t") -> Json:
    return call(name, a=a, **{"in": {"b": b, "c": c}})


def mirrored(message: Json) -> dict[str, str]:
    return mirror(message["method"], message["params"], DATE, PATHS)


@given(TEXT, VALUES, VALUES, VALUES)
@pytest.mark.spec(
    "basic/transports/streamable-http/x-mcp-header-mirrored",
    "basic/transports/streamable-http/param-validate",
    "basic/transports/streamable-http/encode-values",
)
def test_what_our_client_writes_our_server_lets_through(name, a, b, c):
    message = nested(a, b, c, name)
    check(getter(mirrored(message)), message, DATE, PATHS)
    check_draft(getter(mirrored(message)), message, PATHS, required=True)


@given(VALUES, VALUES, VALUES, VALUES, st.integers(0, 2))
@pytest.mark.spec(
    "basic/transports/streamable-http/reject-header-body-mismatch",
    "basic/transports/streamable-http/param-validate",
)
def test_one_argument_that_was_changed_is_noticed(a, b, c, other, which):
    values = [a, b, c]
    assume(type(values[which]) is not type(other) or values[which] != other)
    headers = mirrored(nested(*values))
    assume(encoded(values[which]) != encoded(other))  # 1 and "1" are the same header
    values[which] = other
    refused(headers, nested(*values), PATHS)


def encoded(value: Any) -> str | None:
    return None if value is None else encode_value(value)


@given(VALUES, st.sampled_from(["MCP-Protocol-Version", "Mcp-Method", "Mcp-Name", "Mcp-Param-a"]), st.data())
@pytest.mark.spec(
    "basic/transports/streamable-http/reject-header-body-mismatch",
    "basic/transports/streamable-http/missing-standard-header",
    "basic/transports/streamable-http/param-missing-rejected",
)
def test_one_header_that_was_changed_is_noticed(value, name, data):
    message = nested(value, None, None)
    headers = mirrored(message)
    before = headers.pop(name, None)
    if before is not None:
        refused(headers, message, PATHS)
    after = data.draw(st.text(st.characters(max_codepoint=255)))
    try:
        assume(decode_value(after.strip(" \t")) != (before and decode_value(before)))
    except ValueError:
        pass
    else:
        assume(not re.fullmatch(r"\s*-?[0-9.eE+-]+\s*", after))  # another way to write the same number
    refused({**headers, name: after}, message, PATHS)


# -- the interim draft -----------------------------------------------------------------------------


def test_within_a_session_nothing_need_be_there():
    check_draft(getter({}), call(region="eu"), REGION)
    check_draft(getter({}), {"jsonrpc": "2.0", "method": "notifications/initialized"})
    check_draft(getter({"MCP-Protocol-Version": "2025-11-25"}), call(region="eu"), REGION)


@pytest.mark.spec(
    "basic/transports/streamable-http/header-failure-json-error-32001",
    "basic/transports/streamable-http/param-mismatch-error-32001",
)
def test_within_a_session_what_is_there_must_agree():
    message = call(region="eu")
    assert "Mcp-Method" in refused_by_draft({"Mcp-Method": "tools/list"}, message)
    assert "Mcp-Name" in refused_by_draft({"Mcp-Name": "sub"}, message)
    assert "Mcp-Param-region" in refused_by_draft({"Mcp-Param-Region": "us"}, message, REGION)
    assert "has no body value" in refused_by_draft({"Mcp-Param-Region": "us"}, call(), REGION)
    assert "not base64" in refused_by_draft({"Mcp-Param-Region": "=?base64?SGVsbG8?="}, message, REGION)
    initialized = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    check_draft(getter({"Mcp-Method": "notifications/initialized"}), initialized)
    assert "Mcp-Method" in refused_by_draft({"Mcp-Method": "initialize"}, initialized)


def test_within_a_session_all_may_be_demanded():
    message = call(region="eu")
    headers = {"Mcp-Method": "tools/call", "Mcp-Name": "add", "Mcp-Param-Region": "eu"}
    check_draft(getter(headers), message, REGION, required=True)
    for name in headers:
        less = {other: value for other, value in headers.items() if other != name}
        assert (
            f"{name} header is missing".lower()
            in refused_by_draft(less, message, REGION, required=True).lower()
        )
    initialized = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    assert "Mcp-Method" in refused_by_draft({}, initialized, required=True)
    task = {"Mcp-Method": "tasks/get"}
    check_draft(getter(task), request("tasks/get", taskId="t"), required=True)


def test_an_answer_to_a_request_of_ours_has_no_such_headers():
    answer = {"jsonrpc": "2.0", "id": 1, "result": {}}
    check_draft(getter({"Mcp-Method": "x"}), answer, required=True)


def test_the_draft_knows_of_no_text_that_looks_like_base64():
    for value in ("=?base64?literal?=", "=?base64?SGVsbG8=?="):
        message = call(value, region=value)
        headers = {"Mcp-Method": "tools/call", "Mcp-Name": value, "Mcp-Param-Region": value}
        check_draft(getter(headers), message, REGION, required=True)
    message = call("größe", region="größe")
    check_draft(getter(mirror("tools/call", message["params"], DATE, REGION)), message, REGION, required=True)
