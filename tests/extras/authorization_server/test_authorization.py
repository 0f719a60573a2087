"""extras/authorization_server/authorization: from a client's request to the answer of a person, as browsers
send them, and as attackers do.
"""

from urllib.parse import quote, urlsplit

import pytest
from oauth_peers import REDIRECT, RESOURCE, VERIFIER, Browser, authorization

from mcp_ref.extras.authorization_server import RegisteredClient, browsers

WEB = "https://app.example.com/callback"


@pytest.fixture(scope="module")
def auth():
    operators = (
        RegisteredClient("trusted", (WEB,), client_name="Trusted"),
        RegisteredClient("machine", grant_types=("client_credentials",), client_secret="s" * 20),
        RegisteredClient("two", (WEB, WEB + "/2")),
        RegisteredClient("machine with page", (WEB,), grant_types=("client_credentials",), client_secret="s"),
    )
    with authorization(clients=operators) as running:
        yield running


@pytest.fixture(scope="module")
def client(auth):
    return auth.register()


@pytest.fixture(scope="module")
def web_client(auth):
    return auth.register(redirect_uris=[WEB], client_name="Web client")


# -- the way as it should be -----------------------------------------------------------------------


@pytest.mark.spec("basic/authorization/index/iss-emitted", "basic/authorization/index/oauth21-as")
def test_a_user_logs_in_and_allows_and_the_client_gets_a_code_with_state_and_iss(auth, client):
    browser = Browser()
    page = browser.open(auth.url(client))
    assert (page.status, set(page.fields)) == (200, {"flow", "csrf", "name", "password"})
    page = browser.log_in(page, "ada")
    assert page.buttons == ["allow", "deny", "other"]
    done = browser.submit(page, answer="allow")
    assert done.status == 303
    assert done.location.startswith(f"{REDIRECT}?code=")
    assert (done.answer["state"], done.answer["iss"]) == ("state-1", auth.issuer)
    tokens = auth.token(client, done.answer)
    assert auth.server._tokens.find(tokens["access_token"]).claims["sub"] == "ada"


def test_the_consent_page_names_client_host_resource_scopes_and_user(auth, web_client):
    browser = Browser()
    page = browser.log_in(browser.open(auth.url(web_client, redirect_uri=WEB)), "ada")
    for words in ("Web client", "app.example.com", RESOURCE, "Read your notes", "ada", "30 days"):
        assert words in page.text
    assert "Write notes" not in page.text


def test_a_logged_in_user_is_not_asked_for_the_password_again_but_for_consent_always(auth, client):
    browser = Browser()
    browser.grant(auth.url(client))
    page = browser.open(auth.url(client, state="second"))
    assert page.buttons == ["allow", "deny", "other"]
    assert browser.allow(page)["state"] == "second"


@pytest.mark.spec("basic/authorization/index/iss-emitted")
def test_a_user_denies(auth, client):
    browser = Browser()
    answer = browser.deny(browser.log_in(browser.open(auth.url(client)), "ada"))
    assert (answer["error"], answer["state"], answer["iss"]) == ("access_denied", "state-1", auth.issuer)
    assert "code" not in answer


def test_another_user_may_log_in_instead(auth, client):
    browser = Browser()
    page = browser.log_in(browser.open(auth.url(client)), "ada")
    page = browser.submit(page, answer="other")
    assert "password" in page.fields
    answer = browser.allow(browser.log_in(page, "bob"))
    assert auth.server._tokens.find(auth.token(client, answer)["access_token"]).claims["sub"] == "bob"


def test_without_state_there_is_none_in_the_answer(auth, client):
    assert "state" not in Browser().grant(auth.url(client, "state"))


def test_a_redirect_uri_with_a_query_keeps_it(auth):
    client = auth.register(redirect_uris=[REDIRECT + "?tenant=a%26b"])
    browser = Browser()
    page = browser.log_in(browser.open(auth.url(client, redirect_uri=REDIRECT + "?tenant=a%26b")), "ada")
    done = browser.submit(page, answer="allow")
    assert done.location.startswith(f"{REDIRECT}?tenant=a%26b&code=")


@pytest.mark.parametrize(("query", "joint"), [("?", ""), ("?a=b&", ""), ("?a", "&"), ("", "?")])
def test_a_redirect_uri_with_an_odd_query(auth, query, joint):
    uri = WEB + query
    client = auth.register(redirect_uris=[uri])
    browser = Browser()
    page = browser.log_in(browser.open(auth.url(client, redirect_uri=uri)), "ada")
    assert browser.submit(page, answer="allow").location.startswith(f"{uri}{joint}code=")


def test_a_user_with_the_name_of_a_client_is_not_logged_in():
    """The client's own tokens have its id as their subject."""
    operator = RegisteredClient("ada", grant_types=("client_credentials",), client_secret="s" * 20)
    with authorization(clients=[operator]) as auth:
        browser = Browser()
        assert browser.log_in(browser.open(auth.url(auth.register())), "ada").status == 401


def test_the_only_redirect_uri_need_not_be_named(auth, client):
    answer = Browser().grant(auth.url(client, "redirect_uri"))
    assert auth.redeem(client, answer, "redirect_uri").status_code == 200


def test_a_native_application_listens_at_any_port(auth, client):
    uri = "http://127.0.0.1:49152/callback"
    browser = Browser()
    done = browser.submit(
        browser.log_in(browser.open(auth.url(client, redirect_uri=uri)), "ada"), answer="allow"
    )
    assert done.location.startswith(f"{uri}?code=")
    assert auth.token(client, done.answer, redirect_uri=uri)


def test_all_scopes_are_asked_for_where_the_request_names_none(auth, client):
    answer = Browser().grant(auth.url(client, "scope"))
    assert auth.token(client, answer)["scope"] == "notes:read notes:write"


def test_a_wrong_password_is_told_and_may_be_tried_again(auth, client):
    browser = Browser()
    page = browser.log_in(browser.open(auth.url(client)), "ada", "wrong")
    assert (page.status, "not a name and a password" in page.text) == (401, True)
    assert "code" in browser.allow(browser.log_in(page, "ada"))


def test_a_user_who_may_grant_less_grants_less():
    may = {"ada": ["notes:read", "notes:write"], "bob": ["notes:read"]}
    with authorization(scopes_of=may.__getitem__) as auth:
        client = auth.register()
        both = "notes:read notes:write offline_access"
        browser = Browser()
        page = browser.log_in(browser.open(auth.url(client, scope=both)), "bob")
        assert "Write notes" not in page.text
        assert auth.token(client, browser.allow(page))["scope"] == "notes:read offline_access"
        answer = Browser().grant(auth.url(client, scope="notes:write"), "bob")
        assert answer["error"] == "access_denied"
        assert auth.tokens(client, scope=both)["scope"] == both


# -- requests that are wrong -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("leave_out", "more", "error"),
    [
        ((), {"response_type": "token"}, "unsupported_response_type"),
        (("response_type",), {}, "unsupported_response_type"),
        ((), {"response_mode": "fragment"}, "invalid_request"),
        (("code_challenge",), {}, "invalid_request"),
        (("code_challenge_method",), {}, "invalid_request"),
        ((), {"code_challenge_method": "plain"}, "invalid_request"),
        ((), {"code_challenge": VERIFIER[:-1]}, "invalid_request"),
        ((), {"scope": "admin"}, "invalid_scope"),
        ((), {"resource": "https://other.example"}, "invalid_target"),
        ((), {"resource": RESOURCE + "#part"}, "invalid_target"),
        ((), {"request": "eyJ"}, "request_not_supported"),
        ((), {"request_uri": "https://evil.example"}, "request_uri_not_supported"),
        ((), {"prompt": "none"}, "interaction_required"),
    ],
)
@pytest.mark.spec(
    "basic/authorization/security-considerations/trusted-auto-redirect",
    "basic/authorization/security-considerations/untrusted-redirects",
    "basic/authorization/security-considerations/inform-user",
    "basic/authorization/index/iss-emitted",
)
def test_an_error_goes_by_itself_only_where_it_can_be_trusted_to(
    auth, web_client, client, leave_out, more, error
):
    for trusted, uri in (("trusted", WEB), (client, REDIRECT)):
        page = Browser().open(auth.url(trusted, *leave_out, **{"redirect_uri": uri, **more}))
        assert page.status == 303
        assert page.location.startswith(uri)
        assert (page.answer["error"], page.answer["state"]) == (error, "state-1")
        assert page.answer["iss"] == auth.issuer
    # Anyone may register a page of theirs: the user is told, and decides whether to go there.
    page = Browser().open(auth.url(web_client, *leave_out, **{"redirect_uri": WEB, **more}))
    assert (page.status, page.location) == (400, None)
    assert "app.example.com" in page.text
    [link] = page.links
    assert link.startswith(f"{WEB}?error={error}&")


def test_a_client_for_something_else_gets_no_code(auth):
    page = Browser().open(auth.url("machine with page", redirect_uri=WEB))
    assert page.answer["error"] == "unauthorized_client"


@pytest.mark.parametrize(
    ("client_id", "leave_out"),
    [("unknown", ()), ("x" * 3000, ()), ("", ()), ("two", ("redirect_uri",)), ("machine", ("redirect_uri",))],
)
def test_an_error_without_a_client_or_a_redirect_uri_is_a_page(auth, client_id, leave_out):
    page = Browser().open(auth.url(client_id, *leave_out))
    assert (page.status, page.location, page.links) == (400, None, [])


GAMES = {
    "another host": "https://evil.example/callback",
    "userinfo": "https://app.example.com@evil.example/callback",
    "userinfo before the host": "https://evil.example@app.example.com/callback",
    "a longer host": "https://app.example.com.evil.example/callback",
    "another case of the host": "https://APP.example.com/callback",
    "another case of the path": "https://app.example.com/Callback",
    "a dot at the end of the host": "https://app.example.com./callback",
    "an encoded letter": "https://app.example.com/%63allback",
    "an encoded slash": "https://app.example.com%2fcallback",
    "dots": "https://app.example.com/x/../callback",
    "a fragment": "https://app.example.com/callback#part",
    "an empty fragment": "https://app.example.com/callback#",
    "the port of the scheme": "https://app.example.com:443/callback",
    "another port": "https://app.example.com:8443/callback",
    "more path": "https://app.example.com/callback/more",
    "more query": "https://app.example.com/callback?x=y",
    "http": "http://app.example.com/callback",
    "a backslash": "https://app.example.com\\@evil.example/callback",
    "a space": " https://app.example.com/callback",
    "a script": "javascript:alert(1)",
    "no scheme": "//app.example.com/callback",
    "another loopback": "http://127.0.0.1/callback",
}


@pytest.mark.spec(
    "basic/authorization/security-considerations/redirects-exact",
    "basic/authorization/security-considerations/validate-redirects-server",
    "docs/security_best_practices/redirect-exact",
)
@pytest.mark.parametrize("game", GAMES)
def test_redirect_uri_games(auth, web_client, game):
    page = Browser().open(auth.url(web_client, redirect_uri=GAMES[game]))
    assert (page.status, page.location, page.links) == (400, None, [])
    assert "evil" not in page.html


@pytest.mark.parametrize(
    "uri",
    [
        "http://127.0.0.1:2/other",
        "http://127.0.0.1:2/callback?x=y",
        "http://localhost:1/callback",
        "http://127.0.0.1:99999/callback",
        "http://127.0.0.1:1@evil.example/callback",
        "http://[::1]:1/callback",
        "https://127.0.0.1:1/callback",
    ],
)
def test_redirect_uri_games_on_the_loopback_interface(auth, client, uri):
    page = Browser().open(auth.url(client, redirect_uri=uri))
    assert (page.status, page.location) == (400, None)


def test_a_parameter_that_occurs_twice_is_a_page(auth, client):
    for name, value in ("redirect_uri", WEB), ("client_id", "x"), ("scope", "notes:write"), ("state", "x"):
        page = Browser().open(f"{auth.url(client)}&{name}={quote(value, safe='')}")
        assert (page.status, page.location) == (400, None)


# -- header and HTML injection ---------------------------------------------------------------------


def test_html_injection_by_the_name_of_a_client_or_of_a_user():
    evil = '<script>alert(1)</script>"onload="x'
    with authorization(users=lambda name, _: name) as auth:
        client = auth.register(client_name=evil)
        browser = Browser()
        page = browser.open(auth.url(client, state=evil))
        assert "<script" not in page.html
        page = browser.log_in(page, evil)
        assert "<script" not in page.html
        assert "script" not in page.tags
        assert page.text.count("<script>alert(1)</script>") == 2  # as text: the client's name, and the user's
        assert browser.allow(page)["state"] == evil


def test_html_injection_by_an_error_page(auth):
    for name in ("client_id", "redirect_uri", "scope", "resource"):
        page = Browser().open(auth.url("trusted", **{name: "<script>alert(1)</script>"}))
        assert "<script" not in page.html


def test_header_injection_by_state_and_redirect_uri(auth, client):
    for evil in ("x\r\nSet-Cookie: a=b", "x\nLocation: https://evil.example", "x\0"):
        for name in ("state", "redirect_uri", "client_id", "scope"):
            page = Browser().open(auth.url(client, **{name: evil}))
            assert (page.status, page.location) == (400, None)
    browser = Browser()
    strange = "é ü %0d%0a &code=x#y?z"
    page = browser.log_in(browser.open(auth.url(client, state=strange)), "ada")
    done = browser.submit(page, answer="allow")
    assert done.answer["state"] == strange
    assert done.answer["code"] != "x"
    assert urlsplit(done.location).fragment == ""


# -- forms -----------------------------------------------------------------------------------------


@pytest.mark.spec("docs/security_best_practices/consent-page")
def test_pages_are_in_no_frame_and_no_cache(auth, client):
    browser = Browser()
    first = browser.open(auth.url(client))
    for page in (first, browser.log_in(first, "ada"), Browser().open(auth.url("unknown"))):
        assert page.headers["X-Frame-Options"] == "DENY"
        assert "frame-ancestors 'none'" in page.headers["Content-Security-Policy"]
        assert page.headers["Cache-Control"] == "no-store"
        assert page.headers["X-Content-Type-Options"] == "nosniff"
        assert "script" not in page.tags


@pytest.mark.spec("docs/security_best_practices/consent-page")
def test_csrf_token_missing_or_wrong(auth, client):
    browser = Browser()
    login = browser.open(auth.url(client))
    for page in (browser.submit(login, "csrf", name="ada"), browser.submit(login, name="ada", csrf="x")):
        assert (page.status, page.location) == (403, None)
    consent = browser.log_in(login, "ada")
    for page in (
        browser.submit(consent, "csrf", answer="allow"),
        browser.submit(consent, answer="allow", csrf="x"),
        browser.submit(consent, answer="allow", csrf=""),
        browser.submit(consent, "flow", answer="allow"),
    ):
        assert (page.status, page.location) == (403, None)
    assert "code" in browser.allow(consent)


def test_a_form_of_another_site(auth, client):
    browser = Browser()
    consent = browser.log_in(browser.open(auth.url(client)), "ada")
    for origin in ("https://evil.example", "null", f"{auth.issuer}.evil.example"):
        page = browser.submit(consent, answer="allow", headers={"Origin": origin})
        assert (page.status, page.location) == (403, None)
    assert browser.submit(consent, answer="allow", headers={"Origin": auth.issuer}).status == 303


def test_a_form_in_another_browser(auth, client):
    """An attacker's own flow, whose form is sent by the browser of a victim who is logged in."""
    victim, attacker = Browser(), Browser()
    victim.grant(auth.url(client))
    page = attacker.open(auth.url(client))
    assert victim.submit(page, answer="allow").status == 403
    consent = attacker.log_in(page, "bob")
    assert victim.submit(consent, answer="allow").status == 403
    assert victim.open(consent.url).status == 403


def test_a_cookie_that_was_planted_before_the_login_is_worth_nothing_after_it(auth, client):
    victim, attacker = Browser(), Browser()
    page = victim.open(auth.url(client))
    attacker.session.cookies.update(victim.session.cookies)
    victim.log_in(page, "ada")
    assert attacker.open(auth.url(client)).fields.keys() >= {"password"}


def test_two_flows_at_once_in_one_browser(auth, client):
    browser = Browser()
    first = browser.open(auth.url(client, state="first"))
    second = browser.open(auth.url(client, state="second", scope="notes:write"))
    second = browser.log_in(second, "ada")
    first = browser.log_in(first, "ada")
    assert browser.allow(second)["state"] == "second"
    answer = browser.allow(first)
    assert answer["state"] == "first"
    assert auth.token(client, answer)["scope"] == "notes:read"


def test_a_form_that_is_sent_twice(auth, client):
    browser = Browser()
    consent = browser.log_in(browser.open(auth.url(client)), "ada")
    assert "code" in browser.allow(consent)
    again = browser.submit(consent, answer="allow")
    assert (again.status, again.location) == (403, None)
    assert "too old" in again.text


def test_an_answer_that_is_neither_yes_nor_no_is_no(auth, client):
    browser = Browser()
    consent = browser.log_in(browser.open(auth.url(client)), "ada")
    assert browser.submit(consent, answer="ALLOW").answer["error"] == "access_denied"


def test_a_consent_without_a_login(auth, client):
    browser = Browser()
    login = browser.open(auth.url(client))
    login.action = login.action.replace("/login", "/consent")
    page = browser.submit(login, answer="allow")
    assert page.location is None
    assert "password" in page.fields


def test_a_flow_that_is_too_old(monkeypatch):
    monkeypatch.setattr(browsers, "FLOW_SECONDS", 0.0)
    with authorization() as auth:
        browser = Browser()
        page = browser.log_in(browser.open(auth.url(auth.register())), "ada")
        assert (page.status, "too old" in page.text) == (403, True)


def test_forms_that_cannot_be_read(auth, client):
    browser = Browser()
    page = browser.open(auth.url(client))
    for body, kind, status in (
        ("x" * 70_000, "application/x-www-form-urlencoded", 413),
        ("&".join(f"p{n}=x" for n in range(100)), "application/x-www-form-urlencoded", 400),
        ("{}", "application/json", 400),
    ):
        response = browser.session.post(page.action, body, headers={"Content-Type": kind}, timeout=20)
        assert response.status_code == status
        assert "Nothing was granted" in response.text
    assert browser.session.get(auth.at("/consent?flow=a&flow=b"), timeout=20).status_code == 400


def test_passwords_are_not_tried_for_ever():
    with authorization() as auth:
        browser = Browser()
        page = browser.open(auth.url(auth.register()))
        statuses = [browser.log_in(page, "ada", f"guess {n}").status for n in range(25)]
        assert (statuses[0], statuses[-1]) == (401, 429)
        assert browser.log_in(page, "ada").status == 429  # the right one has to wait as well
