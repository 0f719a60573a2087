"""extras/authorization_server/messages: requests and responses, read and written strictly."""

import io
import json

import pytest

from mcp_ref.extras.authorization_server import messages
from mcp_ref.extras.authorization_server.messages import (
    FORM_TYPE,
    OAuthError,
    PageError,
    Request,
    cookie,
    json_response,
    page_response,
    redirect,
)


def asked(body=b"", kind=FORM_TYPE, length=None, **environ):
    given = {
        "REQUEST_METHOD": "POST",
        "PATH_INFO": "/token",
        "CONTENT_TYPE": kind,
        "CONTENT_LENGTH": str(len(body)) if length is None else length,
        "wsgi.input": io.BytesIO(body),
        **environ,
    }
    return Request(given)


def test_a_request_says_where_it_goes_and_who_sent_it():
    request = asked(SCRIPT_NAME="/auth", REMOTE_ADDR="10.1.2.3", HTTP_DPOP_NONCE="n")
    assert (request.method, request.path, request.address) == ("POST", "/auth/token", "10.1.2.3")
    assert (request.header("DPoP-Nonce"), request.header("Origin")) == ("n", None)


def test_parameters_of_query_and_form():
    given = "a=1&b=x+y%26z&empty=&c=%C3%A9"
    expected = {"a": "1", "b": "x y&z", "c": "é"}
    assert asked(QUERY_STRING=given).query == expected
    assert asked(given.encode(), f"{FORM_TYPE}; charset=UTF-8").form() == expected
    assert asked(QUERY_STRING="").query == {}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a=1&a=2", "more than once"),
        ("a=1&b=2&a=1", "more than once"),
        ("a=%ff", "UTF-8"),
        ("a=%00", "control character"),
        ("a=x%0d%0aSet-Cookie:+b", "control character"),
        ("&".join(f"p{n}=1" for n in range(60)), "more than 50"),
    ],
)
def test_parameters_that_two_programs_could_read_differently_are_refused(text, said):
    for read in (lambda: asked(QUERY_STRING=text).query, lambda: asked(text.encode()).form()):
        with pytest.raises(OAuthError, match=said) as caught:
            read()
        assert (caught.value.error, caught.value.status) == ("invalid_request", 400)


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (asked(b"a=1", "text/plain"), 400),
        (asked(b"a=1", ""), 400),
        (asked("a=é".encode()), 400),
        (asked(b"a=" + b"1" * messages.MAX_BODY_BYTES), 413),
        (asked(b"a=1", length="99999999999"), 413),
        (asked(b"a=" + b"1" * messages.MAX_BODY_BYTES, length="", **{"wsgi.input_terminated": True}), 413),
    ],
)
def test_a_body_that_is_no_form_or_is_huge_is_refused(request_, status):
    with pytest.raises(OAuthError) as caught:
        request_.form()
    assert caught.value.status == status


def test_a_body_of_unknown_length_is_read_where_the_server_ends_it():
    assert asked(b"a=1", length="", **{"wsgi.input_terminated": True}).form() == {"a": "1"}
    assert asked(b"a=1", length="").form() == {}


def test_json_is_read_strictly():
    assert asked(b'{"a": 1}', "application/json").json() == {"a": 1}
    for body, kind in (b'{"a": 1}', "text/json"), (b'{"a": 1, "a": 2}', "application/json"):
        with pytest.raises(OAuthError):
            asked(body, kind).json()


def test_cookies():
    request = asked(HTTP_COOKIE='other={"odd": 1}; mine=abc; mine=def')
    assert (request.cookie("mine"), request.cookie("none"), asked().cookie("mine")) == ("abc", None, None)
    assert asked(HTTP_COOKIE="mine=" + "a" * 9000).cookie("mine") is None
    assert cookie("c", "v", 60.5, is_secure=False) == (
        "Set-Cookie",
        "c=v; Path=/; Max-Age=60; HttpOnly; SameSite=Lax",
    )
    assert cookie("c", "v", 60, is_secure=True)[1].endswith("; Secure")


def test_an_error_is_json_whose_description_has_only_the_characters_that_it_may_have():
    response = OAuthError(
        "invalid_scope", 'a "quoted" \\ é\r\n', 401, [("WWW-Authenticate", "Basic")]
    ).response()
    assert response.status_line == "401 Unauthorized"
    assert json.loads(response.body) == {"error": "invalid_scope", "error_description": "a 'quoted' ' '''"}
    assert dict(response.headers) == {
        "Content-Type": "application/json",
        "Cache-Control": "no-store",
        "WWW-Authenticate": "Basic",
    }


def test_json_may_be_kept_where_it_is_said():
    assert json_response({}, 200, ("Cache-Control", "max-age=60")).headers == (
        ("Content-Type", "application/json"),
        ("Cache-Control", "max-age=60"),
    )


def test_a_page_is_in_no_cache_and_in_no_frame():
    headers = dict(page_response("<p>", "sha256-x", 200, ("Set-Cookie", "a=b")).headers)
    assert headers["Cache-Control"] == "no-store"
    assert headers["X-Frame-Options"] == "DENY"
    assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
    assert "script" not in headers["Content-Security-Policy"]
    assert headers["Set-Cookie"] == "a=b"


def test_a_redirect_is_a_see_other():
    response = redirect("https://app.example.com/", ("Set-Cookie", "a=b"))
    assert response.status_line == "303 See Other"
    assert response.headers[0] == ("Location", "https://app.example.com/")
    assert ("Cache-Control", "no-store") in response.headers


def test_an_error_for_a_person_has_a_sentence():
    assert (PageError("No.").message, PageError("No.", 403).status) == ("No.", 403)
