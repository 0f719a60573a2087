"""basic/transports/streamable_http/security: what is asked about a request before its message is read."""

import io
import json
import logging
import pickle
import threading
import time
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st
from werkzeug.exceptions import Unauthorized

import mcp_ref
from mcp_ref.basic.patterns.index.context import ALLOWED
from mcp_ref.basic.transports.streamable_http import security
from mcp_ref.basic.transports.streamable_http.security import (
    SMALL_BODY_BYTES,
    BodyBudget,
    Denied,
    Forbidden,
    Gate,
    Guard,
    Rates,
    Refused,
    accepts,
    authenticated,
    check_post,
    log_request,
    prefers_events,
    read_body,
)
from mcp_ref.runtime import limits
from mcp_ref.runtime.http_server.request import BadRequest
from mcp_ref.runtime.limits import Limit


@pytest.mark.spec("basic/transports/streamable-http/origin-403-body")
@pytest.mark.parametrize("status", [403, 503])
def test_a_refusal_is_an_error_without_an_id(status):
    body = json.loads(Refused(status, "not so").body())
    assert body == {"jsonrpc": "2.0", "error": {"code": -32600, "message": "not so"}}


@pytest.mark.parametrize(("headers", "ms"), [([("Retry-After", "7")], 7000), ([], 1000)])
def test_who_asks_too_often_is_told_when_to_come_back(headers, ms):
    error = json.loads(Refused(429, "too often", headers).body())["error"]
    assert error == {"code": 429, "message": "too often", "data": {"retryAfterMs": ms}}


def test_a_refusal_has_its_status_and_headers():
    problem = Refused(405, "not so", [("Allow", "GET")])
    assert (problem.status, str(problem), problem.headers) == (405, "not so", (("Allow", "GET"),))


def test_whoever_is_denied_is_told_how_to_say_who_they_are():
    assert Denied("who?").headers == (("WWW-Authenticate", "Bearer"),)
    assert Denied("who?", challenge='Basic realm="x"').headers == (("WWW-Authenticate", 'Basic realm="x"'),)
    assert Denied("not you", status=403).headers == ()


@pytest.mark.parametrize(
    "options", [{"status": 200}, {"status": 302}, {"challenge": "a\r\nb"}, {"challenge": ""}]
)
def test_what_makes_no_refusal_is_an_error_of_the_hook(options):
    with pytest.raises(ValueError, match="not "):
        Denied("who?", **options)


def test_a_refusal_can_cross_processes():
    again = pickle.loads(pickle.dumps(Denied("who?", challenge="Basic")))
    assert (again.status, again.message, again.headers) == (401, "who?", (("WWW-Authenticate", "Basic"),))


def test_the_one_for_applications_is_at_the_top():
    assert mcp_ref.Denied is Denied


PAGE = "basic/transports/streamable-http"
BOTH = ("application/json", "text/event-stream")
HUGE = "a" * 65536


def cors(gate, said):
    """The headers with which a browser lets its page have the answer."""
    try:
        return gate.check(said)
    except Refused:
        return []


def request(host="localhost:8000", *, body=None, **more):
    """What a WSGI server says of a request; `origin=` is HTTP_ORIGIN, `CONTENT_TYPE=` itself."""
    said = {
        "REQUEST_METHOD": "POST",
        "SCRIPT_NAME": "",
        "PATH_INFO": "/mcp",
        "QUERY_STRING": "",
        "SERVER_NAME": "localhost",
        "SERVER_PORT": "8000",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "REMOTE_ADDR": "127.0.0.1",
        "wsgi.url_scheme": "http",
        "wsgi.input": body if body is not None else io.BytesIO(),
    }
    if host is not None:
        said["HTTP_HOST"] = host
    for name, value in more.items():
        if value is not None:
            said[name if name.isupper() or "." in name else f"HTTP_{name.upper()}"] = value
    return said


def refused(call, *arguments):
    """The refusal of a call, or None."""
    try:
        call(*arguments)
    except Refused as problem:
        return problem
    return None


def status(call, *arguments):
    problem = refused(call, *arguments)
    return problem and problem.status


# ------------------------------------------------------------------------------ refusals


@pytest.mark.spec(f"{PAGE}/origin-403-body", f"{PAGE}/rejected-input-body")
def test_the_body_of_a_refusal_is_an_error_without_id():
    problem = refused(Gate().check, request(origin="http://evil.example"))
    message = json.loads(problem.body())
    assert set(message) == {"jsonrpc", "error"}
    assert message["jsonrpc"] == "2.0"
    assert message["error"] == {"code": -32600, "message": problem.message}
    assert "evil.example" in problem.message


def test_a_refusal_has_status_message_and_headers():
    problem = Refused(405, "not so", [("Allow", "GET")])
    assert (problem.status, problem.message, problem.headers) == (405, "not so", (("Allow", "GET"),))
    assert str(problem) == "not so"
    assert Refused(400, "no").headers == ()
    assert b"\n" not in Refused(400, "a\nb \xe9").body()


# ----------------------------------------------------------------------------------- Host


@pytest.mark.parametrize("scheme", ["", "http://", "https://"])
@pytest.mark.parametrize("name", ["localhost", "LOCALHOST", "localhost.", "127.0.0.1", "[::1]", "[0::1]"])
@pytest.mark.parametrize("port", ["", ":1", ":8000", ":65535"])
def test_by_default_a_server_is_this_machine_at_any_port(scheme, name, port):
    place = scheme + name + port
    Gate().check(request(origin=place) if scheme else request(place))


@pytest.mark.parametrize(
    "host",
    [
        "example.com",
        "localhost.example.com",
        "localhost.evil",
        "evil-localhost",
        "127.0.0.1.nip.io",
        "127.0.0.2",
        "127.1",
        "0.0.0.0:8000",
        "[::]",
        "[::ffff:127.0.0.1]",
        "192.168.0.1:8000",
    ],
)
def test_by_default_another_host_is_refused(host):
    problem = refused(Gate().check, request(host))
    assert problem.status == 403
    assert "allowed_hosts" in problem.message


@pytest.mark.parametrize(
    "host",
    [
        "",
        "localhost, localhost",
        "localhost:8000,localhost:8000",
        "localhost,evil.example",
        "localhost evil.example",
        "localhost@evil.example",
        "localhost:80:80",
        "localhost:99999",
        "http://localhost",
        "localh\xf6st",
        "localhost\r\nX: y",
        "localhost:" + "8" * 65536,
        HUGE,
        "," * 65536,
        "\xff" * 65536,
    ],
    ids=ascii,
)
def test_what_is_not_one_host_is_refused_also_where_all_hosts_are_allowed(host):
    for gate in (Gate(), Gate(allowed_hosts="*", allowed_origins="*")):
        problem = refused(gate.check, request(host))
        assert problem.status == 400
        assert len(problem.message) < 200


def test_only_http_1_0_knows_requests_without_a_host():
    assert status(Gate().check, request(None)) == 400
    assert status(Gate("*").check, request(None)) == 400
    assert status(Gate().check, request(None, SERVER_PROTOCOL="HTTP/1.0")) is None
    evil = request(None, SERVER_PROTOCOL="HTTP/1.0", origin="http://evil.example")
    assert status(Gate().check, evil) == 403
    assert status(Gate().check, request("evil.example", SERVER_PROTOCOL="HTTP/1.0")) == 403


def test_listed_hosts_take_the_place_of_this_machine():
    gate = Gate(["mcp.example.com", "*.example.org:8000", "[2001:db8::1]:*"])
    for host in ("mcp.example.com", "MCP.example.com:443", "a.example.org:8000", "[2001:db8:0::1]:1"):
        assert status(gate.check, request(host)) is None
    for host in ("localhost", "127.0.0.1:8000", "example.com", "a.example.org"):
        assert status(gate.check, request(host)) == 403
    assert status(Gate(["localhost", "mcp.example.com"]).check, request()) is None


def test_all_hosts_may_be_allowed():
    assert status(Gate(allowed_hosts="*").check, request("anything.example:1")) is None
    assert status(Gate(allowed_hosts=["*"]).check, request("anything.example:1")) is None


def test_a_list_without_any_host_is_a_mistake():
    with pytest.raises(ValueError, match="allowed_hosts names no host"):
        Gate(allowed_hosts=[])


@pytest.mark.parametrize("setting", ["allowed_hosts", "allowed_origins", "browser_origins"])
def test_a_bad_pattern_is_named_with_its_setting(setting):
    with pytest.raises(ValueError, match=rf"{setting} has 'no such/thing', which is not an? "):
        Gate(**{setting: ["*", "no such/thing"]})


# --------------------------------------------------------------------------------- Origin


def test_whoever_is_no_browser_has_no_origin():
    assert status(Gate().check, request()) is None
    assert status(Gate(allowed_origins=[]).check, request()) is None


@pytest.mark.spec(f"{PAGE}/origin-validated", f"{PAGE}/origin-invalid-403")
@pytest.mark.parametrize(
    "origin",
    [
        "http://evil.example",
        "https://evil.example:8000",
        "http://localhost.evil.example",
        "http://127.0.0.1.nip.io",
        "http://localhost@evil.example",
        "http://evil.example#localhost",
        "null",
        "",
        "localhost",
        "ftp://localhost",
        "file://",
        "chrome-extension://localhost",
        "http://localhost/",
        "http://localhost, http://localhost",
        "http://localhost,http://evil.example",
        "http://localhost http://evil.example",
        "http://localh\xf6st",
        "http://localhost\r\nX: y",
        f"http://{HUGE}",
        "\xff" * 65536,
        "http://localhost" * 4096,
    ],
    ids=ascii,
)
@pytest.mark.parametrize("host", ["localhost:8000", None])
def test_a_strangers_origin_is_403(origin, host):
    gate = Gate()
    for _ in range(2):
        problem = refused(gate.check, request(host, origin=origin, SERVER_PROTOCOL="HTTP/1.0"))
        assert problem.status == 403
        assert "allowed_origins" in problem.message
        assert len(problem.message) < 200


@pytest.mark.spec(f"{PAGE}/origin-validated")
def test_a_name_resolved_anew_does_not_reach_a_local_server():
    # The browser connects to 127.0.0.1, and says what it was told: the attacker's own name.
    assert status(Gate().check, request("evil.example:8000", origin="http://evil.example:8000")) == 403
    assert status(Gate().check, request("evil.example:8000")) == 403
    assert status(Gate("*").check, request("evil.example:8000", origin="http://evil.example:8000")) == 403


def test_listed_origins_take_the_place_of_this_machine():
    gate = Gate(allowed_origins=["https://app.example.com", "http://localhost:5173", "vscode-webview://x"])
    for origin in ("https://app.example.com", "http://localhost:5173", "vscode-webview://x"):
        assert status(gate.check, request(origin=origin)) is None
    for origin in ("http://localhost", "http://app.example.com", "null", "https://app.example.com:8443"):
        assert status(gate.check, request(origin=origin)) == 403


def test_a_page_of_nowhere_must_be_listed():
    assert status(Gate(allowed_origins=["null"]).check, request(origin="null")) is None
    assert status(Gate(browser_origins=["null"]).check, request(origin="null")) is None
    assert status(Gate(browser_origins=["https://example.com"]).check, request(origin="null")) == 403


def test_where_all_origins_are_allowed_two_at_once_are_not():
    for gate in (Gate(allowed_origins="*"), Gate(browser_origins="*")):
        assert status(gate.check, request(origin="https://any.example:1")) is None
        assert status(gate.check, request(origin="null")) is None
        assert status(gate.check, request(origin="https://any.example, https://any.example")) == 403


def test_no_proxy_can_vouch_for_a_host_or_an_origin():
    said = {"x_forwarded_host": "localhost", "x_forwarded_for": "127.0.0.1", "forwarded": "host=localhost"}
    assert status(Gate().check, request("evil.example", **said)) == 403
    assert status(Gate().check, request("localhost", x_forwarded_host="evil.example")) is None


def test_what_is_kept_of_headers_has_a_bound():
    gate = Gate(allowed_hosts="*", browser_origins="*")
    for port in range(1, 2000):
        said = request(f"localhost:{port}", origin=f"http://localhost:{port}")
        gate.check(said)
        assert cors(gate, said)
    for kept in (gate._let_in_host, gate._let_in_origin):
        assert kept.cache_info().currsize <= security.KEPT


def test_hostile_values_leave_no_memory_behind():
    gate, need = Gate(), ["application/json"]
    tracemalloc.start()
    try:
        for number in range(300):
            value = f"{number}{HUGE}"
            said = request(value, origin=value, CONTENT_TYPE=value, accept=value)
            assert status(gate.check, said) == 400
            assert cors(gate, said) == []
            assert status(check_post, said, need) == 415
            assert not accepts(value, "application/json")
        assert tracemalloc.get_traced_memory()[0] < 8_000_000  # of the 80 million that came
    finally:
        tracemalloc.stop()


def test_many_threads_may_ask_one_gate():
    gate, wrong = Gate(), []

    def ask(first):
        for port in range(first, first + 600):
            if status(gate.check, request(f"localhost:{port}", origin=f"http://localhost:{port}")):
                wrong.append(port)
            if status(gate.check, request(origin=f"http://evil.example:{port}")) != 403:
                wrong.append(-port)

    threads = [threading.Thread(target=ask, args=(first,)) for first in (1, 300, 600, 900)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert wrong == []


# ----------------------------------------------------------------------------------- CORS

APP = "https://app.example.com"


def test_no_page_gets_cors_headers_by_default():
    for origin in (None, "http://localhost:5173", "http://evil.example"):
        assert cors(Gate(), request(origin=origin)) == []


def test_a_browser_origin_may_ask_and_read():
    gate = Gate(browser_origins=[APP])
    said = request(origin=APP)
    before = cors(gate, said)
    assert status(gate.check, said) is None
    assert cors(gate, said) == before
    headers = dict(before)
    assert headers["Access-Control-Allow-Origin"] == APP
    assert headers["Vary"] == "Origin"
    readable = headers["Access-Control-Expose-Headers"].split(", ")
    assert {"Mcp-Session-Id", "MCP-Protocol-Version", "WWW-Authenticate", "Retry-After"} <= set(readable)
    assert "Access-Control-Allow-Credentials" not in headers


def test_an_allowed_origin_is_no_browser_origin():
    gate = Gate(allowed_origins=["https://other.example"], browser_origins=[APP])
    for origin in ("https://other.example", None):
        said = request(origin=origin)
        assert status(gate.check, said) is None
        assert cors(gate, said) == []
        assert cors(gate, said) == []


def test_a_browser_origin_is_allowed_beside_the_default_ones():
    gate = Gate(browser_origins=[APP])
    assert status(gate.check, request(origin="http://localhost:5173")) is None
    assert status(gate.check, request(origin="https://other.example")) == 403


def test_each_origin_gets_its_own_answer():
    gate = Gate(browser_origins=[APP, "https://*.example.org"])
    for origin in (APP, "https://a.example.org", "https://b.example.org"):
        assert dict(cors(gate, request(origin=origin)))["Access-Control-Allow-Origin"] == origin


def test_where_all_pages_may_ask_the_answer_is_a_star():
    headers = dict(cors(Gate(browser_origins="*"), request(origin=APP)))
    assert headers["Access-Control-Allow-Origin"] == "*"
    assert "Vary" not in headers


def test_the_headers_belong_to_whoever_asked_for_them():
    gate = Gate(browser_origins=[APP])
    said = request(origin=APP)
    gate.check(said)
    cors(gate, said).append(("X", "y"))
    assert ("X", "y") not in cors(gate, said)


@pytest.mark.parametrize("origin", [f"{APP}, {APP}", f"{APP}\r\nX: y", f"{APP}\xff", HUGE], ids=ascii)
def test_no_header_is_made_of_what_is_not_an_origin(origin):
    for setting in ([APP], "*"):
        assert cors(Gate(browser_origins=setting), request(origin=origin)) == []


def preflight(gate, asked, origin=APP):
    said = request(origin=origin, access_control_request_headers=asked, REQUEST_METHOD="OPTIONS")
    return dict(gate.preflight(said, cors(gate, said)))


def test_a_preflight_says_what_a_page_may_ask():
    headers = preflight(Gate(browser_origins=[APP]), "content-type,mcp-method")
    assert headers["Access-Control-Allow-Origin"] == APP
    assert headers["Access-Control-Allow-Methods"] == "GET, POST, DELETE"
    assert int(headers["Access-Control-Max-Age"]) > 0
    askable = headers["Access-Control-Allow-Headers"].split(", ")
    assert askable == [
        "Content-Type",
        "Accept",
        "Authorization",
        "Mcp-Session-Id",
        "Last-Event-ID",
        "MCP-Protocol-Version",
        "Mcp-Method",
        "Mcp-Name",
        "DPoP",
    ]
    assert preflight(Gate(browser_origins=[APP]), None) == headers


def test_a_preflight_grants_the_parameters_that_are_asked_for_and_no_other_headers():
    asked = "mcp-param-region, Mcp-Param-Tenant ,x-evil,mcp-param-,mcp-param-a b,mcp-param-\xe9,\tmcp-param-x"
    headers = preflight(Gate(browser_origins="*"), asked)
    askable = headers["Access-Control-Allow-Headers"].split(", ")
    assert askable[9:] == ["mcp-param-region", "Mcp-Param-Tenant", "mcp-param-x"]
    assert headers["Access-Control-Allow-Origin"] == "*"


def test_a_preflight_grants_no_more_parameters_than_a_bound():
    for asked in (",".join(f"mcp-param-{n}" for n in range(5000)), "mcp-param-" + HUGE, "," * 65536):
        assert len(preflight(Gate(browser_origins=[APP]), asked)["Access-Control-Allow-Headers"]) < 10_000


@pytest.mark.parametrize("origin", [None, "http://localhost:5173", "http://evil.example", "null"])
def test_a_preflight_of_anybody_else_is_405(origin):
    for gate in (Gate(), Gate(browser_origins=[APP])):
        said = request(origin=origin, REQUEST_METHOD="OPTIONS")
        problem = refused(gate.preflight, said, cors(gate, said))
        assert problem.status == 405
        assert problem.headers == (("Allow", "GET, POST, DELETE"),)


# --------------------------------------------------------------------------------- Accept


@pytest.mark.parametrize(
    "header",
    [
        None,
        "text/event-stream",
        "application/json, text/event-stream",
        "TEXT/Event-Stream",
        "text/event-stream;charset=utf-8",
        "text/event-stream ; q=0.001",
        "text/*",
        "*/*",
        "text/html, */*;q=0.1",
        "text/*;q=0, text/event-stream",
        "*/*;q=0, text/*;q=0.5",
        ",, ,text/event-stream,",
        "nonsense, ;;;, text/event-stream",
        'text/html;x="a,b;q=0", text/event-stream',
        'text/html;x="a\\", text/html, ", text/event-stream',
        "text/event-stream;q=0, text/event-stream",
        "application/json\t,\ttext/event-stream\t;\tq=1.000",
        "text/event-stream;q=1.",
        "text/event-stream;Q=0.5",
    ],
)
def test_an_accept_that_takes_event_streams(header):
    assert accepts(header, "text/event-stream")


@pytest.mark.parametrize(
    "header",
    [
        "",
        "application/json",
        "text/event-stream;q=0",
        "text/event-stream; q=0.000",
        "text/event-stream;q=0, */*",
        "text/*;q=0, */*",
        "*/*;q=0",
        "application/*",
        "text/event-streams",
        "text/event",
        "text",
        "*",
        "*/event-stream",
        "text /event-stream",
        "xtext/event-stream",
        "text/event-stream;q=2",
        "text/event-stream;q=-1",
        "text/event-stream;q=",
        "text/event-stream;q=one",
        "text/event-stream;q=0.1234",
        "text/event-stream;q=0.5;q=0.5",
        'text/html;x="text/event-stream"',
        'text/html;x="a, text/event-stream, b"',
        'text/html;x="a, text/event-stream',
        "text/event-stre\xe4m",
        "\u212aext/event-stream",
    ],
)
def test_an_accept_that_takes_no_event_streams(header):
    assert not accepts(header, "text/event-stream")


def test_a_better_known_range_decides_wherever_it_stands():
    assert not accepts("*/*, text/event-stream;q=0", "text/event-stream")
    assert accepts("text/event-stream, */*;q=0", "text/event-stream")
    assert not accepts("text/event-stream, */*;q=0", "application/json")
    assert accepts("application/*", "application/json")


@pytest.mark.parametrize(
    ("header", "prefers"),
    [
        ("text/event-stream, application/json", True),
        ("TEXT/Event-Stream;q=1 , application/json", True),
        ("*/*, text/html, text/event-stream, application/json", True),
        ("text/event-stream", True),
        ("application/json, text/event-stream", False),
        ("application/json;q=0.1, text/event-stream", False),
        ("text/html, application/json, text/event-stream", False),
        ("application/json", False),
        ("*/*", False),
        ("", False),
        (None, False),
    ],
)
def test_the_type_that_an_accept_names_first_is_liked(header, prefers):
    assert prefers_events(header) is prefers


@pytest.mark.parametrize(
    "part", ["a,", "*/*;q=0,", '"', '\\"', '"\\', ";", ";q=1", ",", " ", "\xff", "text/event-stream;q=0,"]
)
def test_an_endless_accept_is_decided_in_no_time(part):
    header = (part * 65536)[:65536]
    start = time.thread_time()
    assert not accepts(header, "text/event-stream")
    assert time.thread_time() - start < 1


@given(st.text(alphabet='text/event-stream*;q=01., "\\', max_size=60) | st.text())
def test_any_accept_is_decided(header):
    assert accepts(header, "text/event-stream") in (True, False)
    assert accepts(f"{header.count(',')}, text/event-stream", "text/event-stream")


# ----------------------------------------------------------------------------- check_post


def post(kind="application/json", **more):
    return request(CONTENT_TYPE=kind, **more)


@pytest.mark.parametrize(
    "kind",
    [
        "application/json",
        "Application/JSON",
        "application/json;charset=utf-8",
        'application/json ; Charset="UTF-8"',
        "application/json;",
    ],
)
def test_a_body_is_json_in_utf_8(kind):
    check_post(post(kind, accept="application/json, text/event-stream"), BOTH)


@pytest.mark.parametrize(
    "kind",
    [
        None,
        "",
        "text/plain",
        "text/json",
        "application/jsonp",
        "application/json-rpc",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=application/json",
        "application/json, application/json",
        "application/json,text/plain",
        "application/json; charset=latin-1",
        "application/json; charset=utf-16",
        "application/json; charset=utf-8; charset=utf-16",
        "application/json; charset",
        "application/json; profile=x",
        "text/plain; application/json",
        "application/js\xf6n",
        HUGE,
        "application/json" + ";" * 65536,
    ],
    ids=ascii,
)
def test_any_other_body_is_415(kind):
    problem = refused(check_post, post(kind, accept="*/*"), BOTH)
    assert problem.status == 415
    assert ("Accept", "application/json") in problem.headers
    assert len(problem.message) < 200


@pytest.mark.parametrize("coding", [None, "", "identity", "Identity "])
def test_a_body_comes_as_it_is(coding):
    check_post(post(content_encoding=coding), BOTH)


@pytest.mark.parametrize(
    "coding", ["gzip", "br", "identity, gzip", "identity,identity", "\xff", HUGE], ids=ascii
)
def test_a_body_that_is_packed_is_415(coding):
    problem = refused(check_post, post(content_encoding=coding), BOTH)
    assert problem.status == 415
    assert ("Accept-Encoding", "identity") in problem.headers
    assert len(problem.message) < 200


@pytest.mark.parametrize("coding", [None, "chunked", " Chunked\t"])
def test_a_body_comes_at_once_or_in_chunks(coding):
    check_post(post(transfer_encoding=coding), BOTH)


@pytest.mark.parametrize(
    "coding", ["gzip", "gzip, chunked", "chunked, chunked", "", "identity", "\xff", HUGE], ids=ascii
)
def test_a_body_that_is_framed_in_another_way_is_501(coding):
    problem = refused(check_post, post(transfer_encoding=coding), BOTH)
    assert problem.status == 501
    assert len(problem.message) < 200


@pytest.mark.parametrize(
    ("accept", "need", "found"),
    [
        (None, BOTH, None),
        ("*/*", BOTH, None),
        ("application/json, text/event-stream", BOTH, None),
        ("application/json,text/event-stream", BOTH, None),
        ("application/json", BOTH[:1], None),
        ("application/json", BOTH, 406),
        ("text/event-stream", BOTH, 406),
        ("application/json, text/event-stream;q=0", BOTH, 406),
        ("text/html", BOTH[:1], 406),
        ("", BOTH, 406),
        ("text/html", (), None),
        (HUGE, BOTH, 406),
        ("\xff\xfe", BOTH, 406),
    ],
    ids=ascii,
)
def test_an_answer_that_would_not_be_understood_is_406(accept, need, found):
    assert status(check_post, post(accept=accept), need) == found


def test_a_406_names_the_type_that_is_missing():
    assert "text/event-stream" in refused(check_post, post(accept="application/json"), BOTH).message


def test_a_web_form_cannot_reach_a_server():
    # What a page may send anywhere without a preflight has one of these types.
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
        assert status(check_post, post(kind), BOTH) == 415


# ------------------------------------------------------------------------------ read_body


class Dripping(io.RawIOBase):
    """A body that comes in pieces, and notes what it was asked for."""

    def __init__(self, data, piece=7, problem=None):
        self.rest, self.piece, self.problem, self.taken = data, piece, problem, 0

    def read(self, size=-1):
        assert size > 0
        if not self.rest and self.problem:
            raise self.problem
        piece, self.rest = self.rest[: min(size, self.piece)], self.rest[min(size, self.piece) :]
        self.taken += len(piece)
        return piece


def with_length(length, body, **more):
    return request(CONTENT_LENGTH=length, body=body, **more)


def without_length(body):
    return request(body=body, **{"wsgi.input_terminated": True})


@pytest.mark.parametrize("size", [0, 1, 99, 100])
def test_a_body_is_read_to_its_length_and_no_further(size):
    source = Dripping(b"x" * 500)
    assert read_body(with_length(str(size), source), 100) == b"x" * size
    assert source.taken == size


def test_a_body_beyond_the_limit_is_413_before_anything_is_read():
    for length in ("101", "0101", str(10**17), "9" * 5000, "9" * 65536):
        source = Dripping(b"x" * 500)
        problem = refused(read_body, with_length(length, source), 100)
        assert problem.status == 413
        assert "100 bytes" in problem.message
        assert source.taken == 0


@pytest.mark.parametrize(
    "length",
    ["-1", "+5", " 5", "5 ", "5.0", "0x5", "5, 5", "5,5", "five", "٥", "\xb2", "1_000", "5\n", HUGE],
    ids=ascii,
)
def test_a_length_that_is_no_number_is_400(length):
    source = Dripping(b"hello")
    problem = refused(read_body, with_length(length, source), 100)
    assert problem.status == 400
    assert len(problem.message) < 200
    assert source.taken == 0


def test_a_body_that_was_cut_off_is_400():
    problem = refused(read_body, with_length("10", io.BytesIO(b"hello")), 100)
    assert problem.status == 400
    assert "5 of 10 bytes" in problem.message


@pytest.mark.parametrize("length", [None, ""])
def test_a_body_without_length_is_411_unless_its_input_ends(length):
    source = Dripping(b"hello")
    assert status(read_body, with_length(length, source), 100) == 411
    assert source.taken == 0
    ended = {**without_length(source), "CONTENT_LENGTH": length or ""}
    assert read_body(ended, 100) == b"hello"


@pytest.mark.parametrize("size", [0, 1, 99, 100])
def test_a_body_of_unknown_length_is_read_to_its_end(size):
    assert read_body(without_length(Dripping(b"x" * size)), 100) == b"x" * size


@pytest.mark.parametrize("size", [101, 102, 5000])
def test_a_body_of_unknown_length_is_413_one_byte_beyond_the_limit(size):
    source = Dripping(b"x" * size)
    assert status(read_body, without_length(source), 100) == 413
    assert source.taken == 101


def test_a_body_that_comes_too_slowly_is_408():
    source = Dripping(b"hello", problem=TimeoutError("timed out"))
    problem = refused(read_body, with_length("10", source), 100)
    assert problem.status == 408
    assert "5 bytes" in problem.message


def test_what_our_own_server_says_of_a_body_is_the_answer():
    source = Dripping(b"hello", problem=BadRequest("not there within 10 s", "408 Request Timeout"))
    problem = refused(read_body, with_length("10", source), 100)
    assert (problem.status, problem.message) == (408, "not there within 10 s")


def test_a_connection_that_breaks_within_a_body_is_400():
    for environ in (
        with_length("10", Dripping(b"hello", problem=ConnectionResetError("reset"))),
        without_length(Dripping(b"hello", problem=OSError("Invalid chunk header"))),
        without_length(Dripping(b"hello", problem=Exception("InvalidChunkSize"))),  # as gunicorn has it
    ):
        assert status(read_body, environ, 100) == 400


def test_memory_is_taken_for_what_came_and_not_for_what_was_announced():
    tracemalloc.start()
    try:
        assert status(read_body, with_length(str(1 << 30), io.BytesIO(b"x")), 1 << 30) == 400
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


def test_a_long_body_is_whole():
    data = bytes(range(256)) * 12_000
    assert read_body(with_length(str(len(data)), io.BytesIO(data)), 1 << 24) == data
    assert read_body(without_length(Dripping(data, piece=65521)), 1 << 24) == data


# --------------------------------------------------------------- large bodies, all together

LARGE = 100 << 10


def large(size=LARGE, told=True):
    """A request whose body has so many bytes, which its length says, or which only its end shows."""
    body = b"x" * size
    return with_length(str(size), io.BytesIO(body)) if told else without_length(io.BytesIO(body))


def read(budget, environ, limit=1 << 20):
    """As the endpoint reads a body."""
    return read_body(environ, limit, budget.share(environ))


TOLD = pytest.mark.parametrize("told", [True, False], ids=["length", "chunks"])


@pytest.mark.parametrize("size", [1, 5, SMALL_BODY_BYTES])
def test_a_body_whose_length_is_small_needs_no_share(size):
    environ = with_length(str(size), io.BytesIO(b"1".rjust(size)), CONTENT_TYPE="application/json")
    assert BodyBudget(0, 1 << 20).receive(environ, (), pytest.fail) == 1
    assert "mcp_ref.body_share" not in environ


@pytest.mark.parametrize(
    "length", [str(SMALL_BODY_BYTES + 1), "99999", "100000", "9" * 65536, None, "", "-1", "1e3", "٥", "\xb2"]
)
def test_any_other_body_has_one_whatever_its_length_says(length):
    environ, said = request(CONTENT_LENGTH=length, CONTENT_TYPE="application/json"), []
    status(BodyBudget(0, 1 << 20).receive, environ, (), lambda: said.append("large"))
    assert said == ["large"]
    assert "mcp_ref.body_share" in environ


@TOLD
def test_a_large_body_counts_for_as_long_as_its_request_is_there(told):
    budget = BodyBudget(3 * LARGE)
    environ = large(told=told)
    assert read(budget, environ) == b"x" * LARGE
    assert budget.taken == LARGE
    environ.clear()
    assert budget.taken == 0


@TOLD
def test_large_bodies_that_have_no_room_beside_each_other_are_503(told):
    budget = BodyBudget(2 * LARGE)
    first = large(told=told)
    read(budget, first)
    problem = refused(read, budget, large(LARGE + 1, told))
    assert problem.status == 503
    assert problem.message == f"The large bodies under way have {LARGE} of {2 * LARGE} bytes; retry in 1 s."
    assert problem.headers == (("Retry-After", "1"),)
    assert budget.taken == LARGE
    first.clear()
    assert len(read(budget, large(LARGE + 1, told))) == LARGE + 1


def test_a_body_that_tells_its_length_is_refused_before_a_byte_is_read():
    budget, source = BodyBudget(LARGE), Dripping(b"x" * 2 * LARGE)
    problem = refused(read, budget, with_length(str(2 * LARGE), source))
    assert problem.status == 503
    assert source.taken == 0


def test_a_body_in_chunks_is_read_no_further_than_there_is_room():
    budget, source = BodyBudget(LARGE), Dripping(b"x" * 3 * LARGE, piece=1 << 20)
    problem = refused(read, budget, without_length(source))
    assert problem.status == 503
    assert 0 < source.taken <= LARGE


@pytest.mark.parametrize("piece", [7, 60_000, 1 << 20])
@pytest.mark.parametrize("size", [0, 5, 40_000, SMALL_BODY_BYTES - 1])
def test_a_small_body_in_chunks_is_read_though_all_room_is_taken(size, piece):
    budget, first = BodyBudget(LARGE), large()
    read(budget, first)
    assert len(read(budget, without_length(Dripping(b"x" * size, piece)))) == size
    assert budget.taken == LARGE


def test_a_body_in_chunks_has_in_the_end_what_it_is_long_and_no_more():
    """It reserves ahead of what comes."""
    budget, environ = BodyBudget(1 << 20), large(SMALL_BODY_BYTES + 1, told=False)
    read(budget, environ)
    assert budget.taken == SMALL_BODY_BYTES + 1


def test_a_body_that_was_cut_off_gives_its_share_back():
    budget = BodyBudget(LARGE)
    for _ in range(3):
        environ = with_length(str(LARGE), io.BytesIO(b"x"))
        try:
            read(budget, environ)
        except Refused as problem:
            assert problem.status == 400
            assert budget.taken == LARGE
        environ.clear()
        assert budget.taken == 0


def test_a_share_that_grows_counts_once():
    """What it had before is a part of what it has now."""
    budget = BodyBudget(3 * LARGE)
    environ = large()
    share = budget.share(environ)
    share.reserve(LARGE)
    share.reserve(3 * LARGE)
    assert budget.taken == 3 * LARGE
    share.reserve(LARGE)  # which it has already
    assert budget.taken == 3 * LARGE
    share.set_size(2 * LARGE)
    assert budget.taken == 2 * LARGE
    assert status(share.reserve, 3 * LARGE + 1) == 503


def test_bodies_that_are_read_at_once_never_have_more_than_the_budget():
    budget, begin = BodyBudget(5 * LARGE), threading.Barrier(12)
    requests, outcomes = [large(told=number % 2 == 0) for number in range(12)], []

    def work(environ):
        begin.wait(30)
        outcomes.append(status(read, budget, environ))

    threads = [threading.Thread(target=work, args=(environ,)) for environ in requests]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(outcomes) == 12
    assert set(outcomes) <= {None, 503}
    assert outcomes.count(None) * LARGE <= budget.taken <= budget.limit


# ---------------------------------------------------------------------------------- rates


class Hands:
    """The time that a test sets."""

    now = 50.0

    def monotonic(self):
        return self.now


@pytest.fixture
def hands(monkeypatch):
    hands = Hands()
    monkeypatch.setattr(limits, "time", hands)
    return hands


def test_without_a_limit_anybody_may_ask_as_often_as_they_like():
    rates = Rates(None)
    for _ in range(1000):
        rates.check("anybody")


def test_whoever_asks_too_often_is_told_when_to_come_back(hands):
    rates = Rates(Limit(rate=0.4, burst=2))
    rates.check("ann")
    rates.check("ann")
    problem = refused(rates.check, "ann")
    assert problem.status == 429
    assert problem.headers == (("Retry-After", "3"),)  # 2.5 seconds, and no fractions
    assert json.loads(problem.body())["error"]["code"] == 429
    hands.now += 3
    rates.check("ann")


def test_the_shortest_wait_is_a_second(hands):
    rates = Rates(Limit(rate=1000, burst=1))
    rates.check("ann")
    assert refused(rates.check, "ann").headers == (("Retry-After", "1"),)


def test_each_principal_is_counted_for_itself(hands):
    rates = Rates(Limit(rate=1, burst=1))
    rates.check("ann")
    rates.check("bob")
    assert status(rates.check, "ann") == 429
    assert status(rates.check, "bob") == 429


def test_requests_that_still_run_do_not_count(hands):
    rates = Rates(Limit(rate=1, burst=10, at_once=1))
    for _ in range(10):
        rates.check("ann")


def test_in_a_forked_child_no_large_body_is_under_way_yet():
    """Those of the parent are read there, and nobody here would give back what they have."""
    budget, theirs = BodyBudget(LARGE), large()
    budget.share(theirs).reserve(LARGE)
    with budget._lock:
        budget.forked()
        assert budget.taken == 0
        ours = large()
        budget.share(ours).reserve(LARGE)
        assert budget.taken == LARGE


# ------------------------------------------------------------------------- authentication


@pytest.mark.spec(f"{PAGE}/authenticate-connections")
def test_the_hook_says_who_asks():
    def hook(asked):
        if asked.authorization is None:
            raise Denied("say who you are", challenge='Bearer realm="books"')
        return {"t0p": "ann"}.get(asked.authorization.token)

    assert authenticated(hook, request(authorization="Bearer t0p")) == "ann"
    assert authenticated(hook, request(authorization="Bearer other")) is None
    problem = refused(authenticated, hook, request())
    assert (problem.status, problem.message) == (401, "say who you are")
    assert problem.headers == (("WWW-Authenticate", 'Bearer realm="books"'),)


def test_a_401_always_says_how_to_authenticate():
    assert Denied("who?").headers == (("WWW-Authenticate", "Bearer"),)
    assert Denied("not you", status=403).headers == ()
    assert Denied("more", status=403, challenge="Bearer scope=x").headers == (
        ("WWW-Authenticate", "Bearer scope=x"),
    )


@pytest.mark.parametrize(
    "challenge", ["", "Bearer\r\nX: y", "Bearer\n", " Bearer", "Bearer \xe9", "Bearer \u2028", "B\0"]
)
def test_a_challenge_cannot_bring_other_headers(challenge):
    with pytest.raises(ValueError, match="a challenge is visible ASCII"):
        Denied("who?", challenge=challenge)


@pytest.mark.parametrize("code", [200, 302, 399, 600])
def test_whoever_is_denied_gets_the_status_of_an_error(code):
    with pytest.raises(ValueError, match=f"not {code}"):
        Denied("who?", status=code)


@pytest.mark.parametrize("problem", [RuntimeError("s3cret"), Unauthorized("s3cret"), KeyError("s3cret")])
def test_a_hook_that_fails_lets_nobody_in_and_tells_only_the_log(problem, caplog):
    def hook(asked):
        raise problem

    found = refused(authenticated, hook, request())
    assert found.status == 500
    assert b"s3cret" not in found.body()
    assert found.__cause__ is None and found.__suppress_context__
    assert [record.exc_info[1] for record in caplog.records] == [problem]


@pytest.mark.parametrize("principal", ["", 0, 7, True, b"ann", ["ann"], {"sub": "ann"}])
def test_a_principal_is_a_name(principal, caplog):
    assert status(authenticated, lambda asked: principal, request()) == 500
    assert f"returned a {type(principal).__name__}" in caplog.text
    assert "ann" not in caplog.text


def test_a_hook_may_refuse_in_its_own_way():
    def hook(asked):
        raise Refused(503, "the directory is down", [("Retry-After", "5")])

    assert refused(authenticated, hook, request()).status == 503


def test_a_hook_cannot_take_the_body_away(caplog):
    environ = with_length("5", io.BytesIO(b"hello"))
    assert status(authenticated, lambda asked: asked.get_data(as_text=True), environ) == 500
    assert read_body(environ, 100) == b"hello"


def test_a_hook_sees_the_request_and_leaves_nothing_in_it():
    environ = request(x_key="k", PATH_INFO="/mcp")
    before = dict(environ)
    seen = []
    authenticated(lambda asked: seen.extend([asked.path, asked.headers["X-Key"], asked.remote_addr]), environ)
    assert seen == ["/mcp", "k", "127.0.0.1"]
    assert environ == before


# -------------------------------------------------------------------------------- the log


@pytest.fixture
def lines(caplog):
    """The lines of the request log, so far."""
    caplog.set_level(logging.INFO, "mcp_ref.http.requests")
    return lambda: [r.getMessage() for r in caplog.records if r.name == "mcp_ref.http.requests"]


def test_a_request_is_one_line(lines):
    log_request(request(mcp_method="tools/call", SCRIPT_NAME="/app"), 200, 0.01234, "ann")
    log_request({}, 400, 1.5, None)
    assert lines() == ["127.0.0.1 POST /app/mcp 200 12.3 ms tools/call ann", "- - - 400 1500.0 ms - -"]


def test_no_secret_is_in_the_log(lines):
    log_request(
        request(
            authorization="Bearer s3cret",
            cookie="s3cret",
            mcp_session_id="s3cret",
            mcp_name="s3cret",
            mcp_param_key="s3cret",
            last_event_id="s3cret",
            QUERY_STRING="token=s3cret&session_id=s3cret",
            REQUEST_URI="/mcp?token=s3cret",
            RAW_URI="/mcp?token=s3cret",
        ),
        200,
        0.1,
        None,
    )
    assert len(lines()) == 1
    assert "s3cret" not in lines()[0]


@pytest.mark.parametrize(
    "hostile",
    [
        "x\n127.0.0.1 GET",
        "x\r\ny",
        "x\x1b[31my",
        "x\x85y",
        "x\u2028y",
        "x 200 1.0 ms",
        "x\xe9\ud800",
        "x\0",
        "x\\n",
    ],
    ids=ascii,
)
def test_no_line_of_the_log_is_forged(lines, hostile):
    log_request(
        request(PATH_INFO=hostile, REQUEST_METHOD=hostile, mcp_method=hostile, REMOTE_ADDR=hostile),
        404,
        0.1,
        hostile,
    )
    (line,) = lines()
    assert line.isascii() and line.isprintable()
    assert len(line.split(" ")) == 8


def test_lines_of_the_log_are_short(lines):
    log_request(request(PATH_INFO="\xff" * 65536, mcp_method=HUGE, REQUEST_METHOD=HUGE), 404, 0.1, HUGE)
    assert len(lines()[0]) < 1200
    assert "..." in lines()[0]


# ---------------------------------------------------------------------------------- speed


def test_a_request_that_is_let_in_costs_microseconds():
    gate, rates = Gate(browser_origins=[APP]), Rates(Limit())
    environ = post(accept="application/json, text/event-stream", origin=APP, CONTENT_LENGTH="2")

    def once():
        environ["wsgi.input"] = io.BytesIO(b"{}")
        gate.check(environ)
        rates.check("ann")
        check_post(environ, BOTH)
        read_body(environ, 100)
        log_request(environ, 200, 0.1, None)

    best = 1.0
    for _ in range(20):
        start = time.thread_time()
        for _ in range(100):
            once()
        best = min(best, (time.thread_time() - start) / 100)
    assert best < 50e-6


# -- a guard in the place of the hook -----------------------------------------------------------------


class Door(Guard):
    """Lets a request in that has a word, and says what its caller may send."""

    documents = {"/open": lambda reply: (b"everybody's",)}  # noqa: RUF012

    def admit(self, environ):
        if environ.get("HTTP_AUTHORIZATION") != "word":
            raise Refused(401, "the word, please")
        environ[ALLOWED] = self
        return "ann"

    def check(self, message):
        if message.get("method") != "ping":
            raise Refused(403, "only ping")


def test_a_guard_says_who_asks_and_what_may_be_asked():
    gate = Gate(authenticate=Door(), health_path="/health")
    assert gate.identifies
    assert gate.open_paths == {"/health", "/open"}
    assert list(gate.documents) == ["/open"]
    assert refused(gate.identify, {}).status == 401

    def asking(body):
        return post(body=io.BytesIO(body), CONTENT_LENGTH=str(len(body)), HTTP_AUTHORIZATION="word")

    environ = asking(b'{"method":"ping"}')
    assert gate.identify(environ) == "ann"
    budget = BodyBudget(1 << 20)
    assert budget.receive(environ, (), lambda: None) == {"method": "ping"}
    for padding in (b"", b" " * (100 << 10)):
        environ = asking(b'{"method":"tools/list"}' + padding)
        gate.identify(environ)
        assert refused(budget.receive, environ, (), lambda: None).status == 403
    with pytest.raises(NotImplementedError):
        Guard().admit({})


def test_a_handler_that_forbids_has_a_status_and_headers():
    problem = Forbidden(Refused(403, "no", [("WWW-Authenticate", "Bearer")]))
    assert (problem.code, problem.message, problem.refused.status) == (-32600, "no", 403)
