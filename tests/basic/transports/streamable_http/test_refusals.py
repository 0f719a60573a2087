"""What goes back to a request that is refused before it is read."""

import json
import pickle

import pytest

import mcp_ref
from mcp_ref.basic.transports.streamable_http.refusals import Denied, Refused


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
