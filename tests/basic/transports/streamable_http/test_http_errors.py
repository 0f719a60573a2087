"""What an HTTP answer means: each status and each kind of body is an error that says what it is."""

import datetime
import json
import pickle
import time
from types import SimpleNamespace

import pytest
from web import web

from mcp_ref.basic.index.error_responses import ErrorResponse, HttpFailure
from mcp_ref.basic.transports.streamable_http import http_errors
from mcp_ref.basic.transports.streamable_http.http_errors import (
    HttpError,
    RefusedByStatus,
    check_status,
    cleaned,
    refusal,
    status_of,
    wrong_type,
)
from mcp_ref.runtime.errors import LocalError
from mcp_ref.runtime.http_client.client import HttpClient
from mcp_ref.runtime.threads.deadlines import Clock, Deadline


def judged(judge, status, body=b"", *lines, query=""):
    """What is made of an answer."""
    with web(lambda request, wire: wire.answer(status, body, *lines)) as site:
        exchanges = HttpClient(site.url + query)
        try:
            with exchanges.new(Deadline(5, Clock())) as exchange:
                exchange.send("POST", {}, b"{}")
                return judge(exchange)
        finally:
            exchanges.close()


def refused(status, body=b"", *lines, **more):
    return judged(lambda exchange: refusal(exchange, 7), status, body, *lines, **more)


def error(code=-32602, message="no", **more):
    return json.dumps({"jsonrpc": "2.0", "error": {"code": code, "message": message}, **more}).encode()


@pytest.mark.parametrize("status", [200, 202, 299])
def test_a_success_is_no_refusal(status):
    assert judged(lambda exchange: check_status(exchange, 7), status) is None


@pytest.mark.parametrize("status", [300, 404, 503])
def test_what_is_no_success_is_raised_as_what_it_means(status):
    with pytest.raises(HttpFailure) as caught:
        judged(lambda exchange: check_status(exchange, 7), status)
    assert status_of(caught.value) == status


def test_an_error_without_a_response_has_no_status():
    assert status_of(LocalError("not sent")) is None


@pytest.mark.parametrize("id_of", [{"id": 7}, {"id": None}, {}])
@pytest.mark.parametrize("kind", ["application/json", "text/plain", "text/html"])
def test_a_json_rpc_error_counts_more_than_its_status_and_its_type(id_of, kind):
    problem = refused(400, error(**id_of), f"Content-Type: {kind}")
    assert isinstance(problem, RefusedByStatus) and isinstance(problem, ErrorResponse)
    assert (problem.code, problem.message, problem.status) == (-32602, "no", 400)


@pytest.mark.parametrize(
    ("status", "body", "kind", "said"),
    [
        (401, error(-32600, "bad token"), ErrorResponse, "bad token (-32600); HTTP status 401 from {url}"),
        (500, error(), ErrorResponse, "no (-32602); HTTP status 500 from {url}"),
        (403, b"", LocalError, "the server at {url} answered with HTTP status 403: it does not allow this"),
        (502, b"busy", LocalError, "the server at {url} answered with HTTP status 502: busy"),
    ],
)
def test_an_http_error_says_its_status_and_its_url_without_the_query(status, body, kind, said):
    problem = refused(status, body, query="?key=secret")
    assert isinstance(problem, HttpError) and isinstance(problem, kind)
    assert problem.url.startswith("http://127.0.0.1:") and "secret" not in problem.url
    assert str(problem) == said.format(url=problem.url)
    assert problem.status == status
    again = pickle.loads(pickle.dumps(problem))
    assert (str(again), again.url, again.status) == (str(problem), problem.url, status)


def test_of_a_redirect_the_query_is_not_told():
    assert "elsewhere.invalid/x, which" in str(
        refused(302, b"", "Location: https://elsewhere.invalid/x?key=s")
    )
    assert "redirects to nowhere" in str(refused(302, b"", "Location: http://[nonsense/"))


@pytest.mark.parametrize(
    "body",
    [
        error(id=8),
        b'{"error": "unauthorized"}',
        b'{"error": {"code": "x", "message": "y"}}',
        b'{"jsonrpc": "2.0", "id": 7, "result": {}}',
        b"[]",
        b"",
        b"\xff",
        b"[" * 60_000,
    ],
)
def test_whatever_else_is_in_a_body_is_text(body):
    problem = refused(400, body)
    assert isinstance(problem, HttpError) and isinstance(problem, LocalError)
    assert "HTTP status 400" in str(problem)


def test_a_body_that_goes_on_for_long_is_not_read():
    assert isinstance(refused(500, b"x" * 100_000), HttpError)


@pytest.mark.parametrize(("value", "seconds"), [("7", 7.0), ("0", 0.0)])
@pytest.mark.parametrize("status", [429, 503])
def test_when_to_come_back_is_told(status, value, seconds):
    problem = refused(status, b"busy", f"Retry-After: {value}")
    assert problem.retry_after == seconds
    assert f"try again in {value} s" in str(problem) and "busy" in str(problem)


NOW = datetime.datetime(2026, 10, 21, 7, 27, 59, 500_000, tzinfo=datetime.UTC)


@pytest.mark.parametrize(
    ("date", "seconds"),
    [
        ("Wed, 21 Oct 2026 07:38:00 GMT", 601.0),
        ("Wednesday, 21-Oct-26 07:38:00 GMT", 601.0),
        ("Wed Oct 21 07:38:00 2026", 601.0),
        ("Wed, 21 Oct 2026 07:28:00 GMT", 1.0),
        ("Wed, 21 Oct 2026 07:27:59 GMT", 0.0),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0.0),
    ],
)
@pytest.mark.parametrize("status", [429, 503])
def test_a_date_to_come_back_is_so_many_seconds_from_now_and_never_in_the_past(
    status, date, seconds, monkeypatch
):
    monkeypatch.setattr(http_errors, "time", SimpleNamespace(time=NOW.timestamp))
    assert refused(status, b"", f"Retry-After: {date}").retry_after == seconds


NO_TIMES = [
    *("soon", "-1", "1e3", "1.5", "9" * 50, ""),
    *("Wed, 32 Oct 2026 07:28:00 GMT", "Wed, 21 Oct 99999999 07:28:00 GMT", "Oct Oct Oct", "Wed, " * 50),
    "Wed, 21 Oct 2026 07:28:00 " + "+" + "9" * 30,
]


@pytest.mark.parametrize("value", NO_TIMES)
def test_a_time_that_is_neither_seconds_nor_a_date_is_not_told(value):
    assert refused(429, b"", f"Retry-After: {value}").retry_after is None


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("86399", "try again in 86399 s"),
        ("100000", "try again in 28 hours"),
        ("129600", "try again in 36 hours"),
        ("259200", "try again in 3 days"),
        ("Fri, 31 Dec 9999 23:59:59 GMT", "try again in 2,912,150 days"),
    ],
)
def test_a_long_time_is_told_in_hours_or_days(value, said, monkeypatch):
    monkeypatch.setattr(http_errors, "time", SimpleNamespace(time=NOW.timestamp))
    assert said in str(refused(503, b"", f"Retry-After: {value}"))


def test_only_statuses_that_pass_have_such_a_time():
    assert refused(400, b"", "Retry-After: 7").retry_after is None


def test_who_wants_to_know_who_asks_says_how():
    problem = refused(401, b"", 'WWW-Authenticate: Bearer realm="x"')
    assert (problem.status, problem.challenge) == (401, 'Bearer realm="x"')
    assert "auth=" in str(problem)
    assert "Bearer" not in str(problem)


@pytest.mark.parametrize("location", ["https://elsewhere.invalid/", None])
def test_a_redirect_is_told(location):
    problem = refused(302, b"", *([f"Location: {location}"] if location else []))
    assert f"redirects to {location or 'nowhere'}" in str(problem)


@pytest.mark.parametrize("status", [400, 404])
def test_a_status_of_400_or_more_is_no_redirect_whatever_its_location(status):
    assert "redirect" not in str(refused(status, b"", "Location: https://elsewhere.invalid/"))


@pytest.mark.parametrize(
    ("judge", "status", "line"),
    [
        (lambda exchange: refusal(exchange, 7), 302, "Location: http://elsewhere.invalid/\x9b2j"),
        (lambda exchange: wrong_type(exchange, "ping"), 200, "Content-Type: x/\x9b2j"),
    ],
    ids=["redirect", "type"],
)
def test_of_a_header_that_would_steer_a_terminal_an_error_tells_the_letters(judge, status, line):
    """A terminal may take the characters from 0x80 to 0x9f for the beginning of a command."""
    said = str(judged(judge, status, b"{}", line))
    assert said.isprintable()
    assert "/\\x9b2" in said


def test_an_error_page_is_told_by_what_it_says():
    page = b"""<!DOCTYPE html><html><head><title>502 Bad Gateway</title><style>b {color: red}</style>
    <script>alert("x")</script><!-- hidden --></head>
    <body><h1>502&nbsp;Bad Gateway</h1>\x1b[31mnginx</body>"""
    said = str(refused(502, page, "Content-Type: text/html"))
    assert "502 Bad Gateway 502 Bad Gateway" in said and "nginx" in said
    assert not any(part in said for part in ("<", "alert", "hidden", "color", "\x1b", "\n"))


@pytest.mark.parametrize(
    "piece",
    [
        b"<!--",
        b"<script ",
        b"<script>",
        b"<style",
        b"<",
        b"<a",
        b"&",
        b"&#",
        b"&#9",
        b"<!-- --",
        b"</script",
        b" ",
    ],
)
def test_an_error_page_is_read_in_time_that_grows_with_its_length(piece):
    """Processor time of this thread, so that a busy machine changes nothing."""
    page = (b"Bad Gateway" + piece * 65536)[:65536]
    begun = time.thread_time()
    problem = refused(502, page, "Content-Type: text/html")
    assert time.thread_time() - begun < 2
    assert problem.status == 502 and "Bad Gateway" in str(problem) and len(str(problem)) < 500


@pytest.mark.parametrize(
    ("page", "said"),
    [
        (b"a<!-- b > c -->d", "a d"),
        (b"a<!-- b", "a"),
        (b"a<!--> b", "a b"),
        (b"a<script>b<c</SCRIPT >d", "a d"),
        (b"a<STYLE type=x>b</style>d", "a d"),
        (b"a<script>b", "a"),
        (b"a<scripted>b", "a b"),
        (b"a<b", "a"),
        (b"a&amp;b &lt;b&gt;", "a&b <b>"),
        (b"&#" + b"9" * 5000 + b";", "\ufffd"),
    ],
)
def test_of_a_page_only_its_text_is_told(page, said):
    assert cleaned("text/html", page) == said


def test_only_the_beginning_of_a_text_is_told():
    assert len(str(refused(500, b"word " * 10_000, "Content-Type: text/plain"))) < 500
    assert cleaned("text/plain", b"x" * 301).endswith("x...")
    assert cleaned("", b"short") == "short"
    assert cleaned("text/plain", "\u00fc \xff".encode("latin-1")) == "\ufffd \ufffd"


@pytest.mark.parametrize(
    ("status", "body", "lines", "said"),
    [
        (200, b"", [], "tools/call: the server at http://.* answered with HTTP status 200 and no body"),
        (202, b"", [], "tools/call: the server at http://.* answered with HTTP status 202 and no body"),
        (204, b"", [], "tools/call: the server at http://.* answered with HTTP status 204 and no body"),
        (200, b"<h1>Hello</h1>", ["Content-Type: text/html"], "HTTP status 200 and text/html, .*: Hello"),
        (200, b"hello", [], "HTTP status 200 and something of no type, .*: hello"),
        (200, b"x" * 100_000, ["Content-Type: image/png"], "image/png, which is neither .*event-stream$"),
    ],
)
def test_a_success_of_the_wrong_kind_is_an_error_that_says_which(status, body, lines, said):
    problem = judged(lambda exchange: wrong_type(exchange, "tools/call"), status, body, *lines)
    assert problem.status == status
    with pytest.raises(HttpError, match=said):
        raise problem


def test_a_json_rpc_error_says_when_to_come_back_and_what_it_wants_too():
    problem = refused(429, error(code=429), "Content-Type: application/json", "Retry-After: 7")
    assert (problem.code, problem.status, problem.retry_after, problem.challenge) == (429, 429, 7.0, None)
    problem = refused(401, error(), "Content-Type: application/json", "WWW-Authenticate: Bearer")
    assert (problem.status, problem.retry_after, problem.challenge) == (401, None, "Bearer")


def test_the_errors_can_be_sent_to_other_processes():
    for problem in (
        HttpFailure(429, "busy", url="http://x/", retry_after=7.0),
        RefusedByStatus(ErrorResponse(-1, "no", {"x": 1}), 429, url="http://x/", retry_after=1.0),
    ):
        again = pickle.loads(pickle.dumps(problem))
        assert (type(again), str(again), again.__dict__) == (type(problem), str(problem), problem.__dict__)
