"""extras/authorization_server/browsers: forms are taken from the browser that they were given to, once."""

import io

import pytest

from mcp_ref.extras.authorization_server import browsers
from mcp_ref.extras.authorization_server.browsers import AuthorizationRequest, Browsers
from mcp_ref.extras.authorization_server.clients import RegisteredClient
from mcp_ref.extras.authorization_server.messages import PageError, Request
from mcp_ref.extras.authorization_server.settings import Settings

WANTED = AuthorizationRequest(
    client=RegisteredClient("c", ("https://app.example.com/",)),
    redirect_uri="https://app.example.com/",
    state="s",
    scopes=("read",),
    resource="https://mcp.example.com",
    challenge="x" * 43,
)


def made(issuer="https://auth.example.com"):
    return Browsers(Settings(issuer, ("https://mcp.example.com",), {"read": "Read"}))


def request(cookie=None, origin=None):
    environ = {"REQUEST_METHOD": "POST", "PATH_INFO": "/", "wsgi.input": io.BytesIO()}
    if cookie is not None:
        environ["HTTP_COOKIE"] = cookie
    if origin is not None:
        environ["HTTP_ORIGIN"] = origin
    return Request(environ)


def sent_back(header):
    """What a browser makes of Set-Cookie."""
    return header[1].partition(";")[0]


@pytest.mark.spec("docs/security_best_practices/consent-cookies")
def test_the_cookie_is_for_this_server_only():
    _, (name, value) = made().begin(request(), WANTED)
    assert name == "Set-Cookie"
    assert value.startswith("__Host-mcp_ref_")
    assert value.endswith("; Path=/; Max-Age=3600; HttpOnly; SameSite=Lax; Secure")
    _, (_, value) = made("http://127.0.0.1:9000").begin(request(), WANTED)
    assert not value.startswith("__Host-")
    assert "Secure" not in value


def test_two_servers_on_one_machine_have_two_cookies():
    assert made("http://127.0.0.1:9000").cookie_name != made("http://127.0.0.1:9001").cookie_name


def test_a_form_needs_cookie_flow_and_csrf_token():
    here = made()
    flow, header = here.begin(request(), WANTED)
    cookie, fields = sent_back(header), dict(flow.fields())
    assert here.check_form(request(cookie), fields) is flow
    assert here.check_form(request(cookie, "https://auth.example.com"), fields) is flow
    _, other = here.begin(request(), WANTED)
    for wrong in (
        (request(), fields),  # no cookie
        (request(sent_back(other)), fields),  # that of another browser
        (request(cookie.split("=")[0] + "=made-up"), fields),
        (request(cookie), {**fields, "csrf": "x"}),
        (request(cookie), {**fields, "csrf": "é"}),
        (request(cookie), {"flow": flow.id}),
        (request(cookie), {**fields, "flow": "x"}),
        (request(cookie), {}),
        (request(cookie, "https://evil.example"), fields),
        (request(cookie, "null"), fields),
    ):
        with pytest.raises(PageError) as caught:
            here.check_form(*wrong)
        assert caught.value.status == 403


def test_two_flows_in_one_browser_have_a_token_each():
    here = made()
    first, header = here.begin(request(), WANTED)
    second, again = here.begin(request(sent_back(header)), WANTED)
    assert sent_back(header) == sent_back(again)
    assert first.session is second.session
    assert first.csrf != second.csrf
    with pytest.raises(PageError):
        here.check_form(request(sent_back(header)), {"flow": first.id, "csrf": second.csrf})


def test_a_login_changes_the_cookie_and_other_flows_of_the_browser_go_on():
    here = made()
    first, header = here.begin(request(), WANTED)
    second, _ = here.begin(request(sent_back(header)), WANTED)
    new = here.log_in(first.session, "ada")
    assert sent_back(new) != sent_back(header)
    with pytest.raises(PageError):  # whoever knew the old cookie has no part in it
        here.check_form(request(sent_back(header)), dict(first.fields()))
    assert here.check_form(request(sent_back(new)), dict(second.fields())).session.current_user() == "ada"
    here.log_out(first.session)
    assert second.session.current_user() is None


def test_a_login_ends_after_a_while(monkeypatch):
    monkeypatch.setattr(browsers, "SESSION_SECONDS", 0.0)
    here = made()
    flow, _ = here.begin(request(), WANTED)
    here.log_in(flow.session, "ada")
    assert flow.session.current_user() is None


def test_a_flow_is_answered_once():
    here = made()
    flow, header = here.begin(request(), WANTED)
    here.finish(flow)
    for again in (
        lambda: here.finish(flow),
        lambda: here.check_form(request(sent_back(header)), dict(flow.fields())),
    ):
        with pytest.raises(PageError, match="too old"):
            again()


def test_secrets_are_not_shown():
    flow, header = made().begin(request(), WANTED)
    for secret in (flow.csrf, flow.session.cookie, sent_back(header).partition("=")[2]):
        assert secret not in repr(flow)
