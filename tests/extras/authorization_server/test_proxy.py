"""extras/authorization_server/proxy: users log in at a provider, after a Yes to each client."""

import contextlib
import threading
import time
from types import SimpleNamespace
from urllib.parse import parse_qsl, urlsplit

import pytest
from oauth_peers import REDIRECT, RESOURCE, SCOPES, Browser, authorization, running
from web import web

from mcp_ref.basic.authorization.token_requests import TokenClient
from mcp_ref.extras.authorization_server import Proxy, RegisteredClient, Upstream, proxy
from mcp_ref.runtime.jose import peek

API, SECRET = "https://api.example.com", "p" * 30
WEB = "https://app.example.com/callback"


def subject(answer):
    """The user, as the provider's token says; Bob has no business here."""
    name = peek(answer["access_token"])[1]["sub"]
    return None if name == "bob" else f"provider|{name}"


@contextlib.contextmanager
def proxied(provider=None, upstream=None, **options):
    """A proxy of an authorization server, which knows one client: the proxy."""
    ours = RegisteredClient("the proxy", ("http://127.0.0.1/callback",), SECRET)
    with authorization(
        resources=[API],
        scopes={"api": "Use the API"},
        clients=[ours],
        registration=False,
        metadata_documents=False,
        **(provider or {}),
    ) as there:
        given = {
            "authorize_url": there.at("/authorize"),
            "token_url": there.at("/token"),
            "client": TokenClient("the proxy", method="client_secret_basic", secret=SECRET),
            "scopes": ["api"],
            **(upstream or {}),
        }
        more = {
            "identify": subject,
            "resources": [RESOURCE],
            "scopes": SCOPES,
            "allow_private": True,
            **options,
        }
        with running(lambda issuer: Proxy(issuer, upstream=Upstream(**given), **more)) as here:
            yield SimpleNamespace(here=here, there=there, proxy=here.server)


@pytest.fixture(scope="module")
def both():
    with proxied() as made:
        yield made


def to_provider(both, client, browser, **more):
    """To the URL of the provider, after a Yes on the page of the proxy."""
    page = browser.open(both.here.url(client, **more))
    return browser.submit(page, answer="allow").location


def to_callback(both, browser, url, name="ada", answer="allow"):
    """From there to the URL of the callback, after a Yes on the page of the provider."""
    page = browser.open(url)
    if "password" in page.fields:
        page = browser.log_in(page, name)
    return browser.submit(page, answer=answer).location


def whole_way(both, client, browser=None, name="ada", **more):
    browser = browser or Browser()
    return browser.open(to_callback(both, browser, to_provider(both, client, browser, **more), name)).answer


def query_of(url):
    return dict(parse_qsl(urlsplit(url).query))


# -- the way as it should be -----------------------------------------------------------------------


def test_a_user_logs_in_at_the_provider_and_the_client_gets_tokens_of_the_proxy(both):
    client = both.here.register()
    answer = whole_way(both, client)
    assert (answer["state"], answer["iss"]) == ("state-1", both.here.issuer)
    tokens = both.here.token(client, answer)
    claims = peek(tokens["access_token"])[1]
    assert (claims["iss"], claims["sub"], claims["aud"]) == (both.here.issuer, "provider|ada", RESOURCE)
    assert both.proxy.verifier(RESOURCE)(tokens["access_token"]).subject == "provider|ada"


@pytest.mark.spec(
    "basic/authorization/index/third-party-flow",
    "basic/authorization/index/third-party-mapping",
    "basic/authorization/index/third-party-credentials",
    "basic/authorization/security-considerations/no-passthrough",
)
def test_the_tokens_of_the_provider_stay_here(both):
    client = both.here.register()
    answer = whole_way(both, client)
    response = both.here.redeem(client, answer)
    ours = response.json()["access_token"]
    theirs = both.proxy.upstream_token(ours)
    claims = peek(theirs)[1]
    assert (claims["iss"], claims["aud"], claims["sub"]) == (both.there.issuer, API, "ada")
    assert theirs not in response.text
    assert theirs not in repr(both.proxy._tokens.find(ours))
    assert both.proxy.verifier(RESOURCE)(theirs) is None  # and it opens nothing of ours
    assert both.proxy.upstream_token(theirs) is None
    assert both.proxy.upstream_token("x") is None


def test_they_end_with_ours(both):
    client = both.here.register()
    tokens = both.here.token(client, whole_way(both, client))
    both.here.post("/revoke", {"token": tokens["access_token"], "client_id": client["client_id"]})
    assert both.proxy.upstream_token(tokens["access_token"]) is None


def test_a_refreshed_token_has_the_same_token_of_the_provider(both):
    client = both.here.register()
    tokens = both.here.token(client, whole_way(both, client))
    again = both.here.refresh(client, tokens["refresh_token"]).json()
    theirs = both.proxy.upstream_token(tokens["access_token"])
    assert both.proxy.upstream_token(again["access_token"]) == theirs


def test_pkce_on_both_legs_with_two_challenges(both):
    client, browser = both.here.register(), Browser()
    query = query_of(to_provider(both, client, browser))
    assert query["code_challenge_method"] == "S256"
    assert query["code_challenge"] != query_of(both.here.url(client))["code_challenge"]
    assert (query["client_id"], query["scope"]) == ("the proxy", "api")
    assert query["redirect_uri"] == both.here.at("/callback")
    assert query["state"] != "state-1"


def test_what_else_the_provider_wants(both):
    with proxied(upstream={"more": {"audience": "x", "client_id": "no"}, "scopes": ()}) as made:
        query = query_of(to_provider(made, made.here.register(), Browser()))
        assert (query["audience"], query["client_id"], "scope" in query) == ("x", "the proxy", False)


@pytest.mark.spec(
    "basic/authorization/index/third-party-status",
    "basic/authorization/index/third-party-renewal",
    "basic/authorization/index/third-party-lifecycle",
)
def test_a_token_is_good_with_one_of_the_provider_behind_it_which_is_renewed():
    with proxied(provider={"token_seconds": 20.0}) as both:  # less than EARLY_SECONDS
        client = both.here.register()
        ours = both.here.token(client, whole_way(both, client))["access_token"]
        first = both.proxy.upstream_token(ours)
        verify = both.proxy.verifier(RESOURCE)
        assert verify(ours).subject == "provider|ada"
        assert verify("x") is None
        assert both.proxy.upstream_token(ours) != first
        both.there.server._tokens._families.__init__(1, 1.0)  # the provider forgets
        assert both.proxy.upstream_token(ours) is None
        assert verify(ours) is None


def test_a_provider_that_is_busy_with_a_refresh_is_not_waited_for_without_end(both, monkeypatch):
    client = both.here.register()
    ours = both.here.token(client, whole_way(both, client))["access_token"]
    monkeypatch.setattr(proxy, "UPSTREAM_SECONDS", 0.01)
    with both.proxy._tokens.find(ours).family.grant.upstream.lock:
        assert both.proxy.upstream_token(ours) is None


# -- no confused deputy ----------------------------------------------------------------------------


@pytest.mark.spec(
    "basic/authorization/security-considerations/proxy-consent",
    "docs/security_best_practices/proxy-per-client-consent",
    "docs/security_best_practices/consent-page",
    "docs/security_best_practices/state-after-consent",
)
def test_each_client_needs_a_yes_before_anything_goes_to_the_provider(both):
    browser = Browser()
    assert "code" in whole_way(both, both.here.register(client_name="Good"), browser)
    # The provider knows this user and this client, us; another client of ours gets nothing of that.
    evil = both.here.register(client_name="Evil", redirect_uris=[WEB])
    before = {cookie.name for cookie in browser.session.cookies}
    page = browser.open(both.here.url(evil, redirect_uri=WEB))
    assert (page.status, page.location, page.buttons) == (200, None, ["allow", "deny"])
    for words in ("Evil", "app.example.com", RESOURCE, "Read your notes", urlsplit(both.there.issuer).netloc):
        assert words in page.text
    assert {cookie.name for cookie in browser.session.cookies} == before  # no consent is noted yet
    assert page.headers["X-Frame-Options"] == "DENY"


@pytest.mark.spec("docs/security_best_practices/consent-cookies")
def test_a_no_goes_to_the_client_and_not_to_the_provider(both):
    browser = Browser()
    page = browser.open(both.here.url(both.here.register()))
    done = browser.submit(page, answer="deny")
    assert done.answer == {"error": "access_denied", "state": "state-1", "iss": both.here.issuer}
    assert len(browser.session.cookies) == 1


def test_a_form_without_its_csrf_token_and_one_that_is_sent_twice(both):
    browser = Browser()
    page = browser.open(both.here.url(both.here.register()))
    assert browser.submit(page, "csrf", answer="allow").status == 403
    assert browser.submit(page, answer="allow").status == 303
    assert browser.submit(page, answer="allow").status == 403


@pytest.mark.spec("docs/security_best_practices/state-random")
def test_a_state_that_was_forged(both):
    browser = Browser()
    url = to_callback(both, browser, to_provider(both, both.here.register(), browser))
    state = query_of(url)["state"]
    for forged in ("x", "", state[:-1], "state-1"):
        page = browser.open(url.replace(state, forged))
        assert (page.status, page.location) == (403, None)
    assert browser.open(url).answer["state"] == "state-1"


@pytest.mark.spec("docs/security_best_practices/state-random")
def test_a_callback_that_comes_twice(both):
    browser = Browser()
    url = to_callback(both, browser, to_provider(both, both.here.register(), browser))
    assert "code" in browser.open(url).answer
    page = browser.open(url)
    assert (page.status, page.location) == (403, None)


def test_a_callback_that_comes_many_times_at_once(both):
    browser = Browser()
    url = to_callback(both, browser, to_provider(both, both.here.register(), browser))
    together, statuses = threading.Barrier(8), []

    def run():
        other = Browser()
        other.session.cookies.update(browser.session.cookies)
        together.wait()
        statuses.append(other.open(url).status)

    threads = [threading.Thread(target=run) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(statuses) == [303] + [403] * 7


def test_a_callback_in_another_browser(both):
    """An attacker says Yes to his own client, and has a victim finish the way; or the other way round."""
    attacker, victim = Browser(), Browser()
    whole_way(both, both.here.register(), victim)
    url = to_provider(both, both.here.register(), attacker)
    page = victim.open(to_callback(both, victim, url))
    assert (page.status, page.location) == (403, None)


def test_a_callback_with_the_cookie_of_another_consent(both):
    client, browser = both.here.register(), Browser()
    first = to_provider(both, client, browser, state="first")
    second = to_provider(both, client, browser, state="second")
    jar = {cookie.name: cookie.value for cookie in browser.session.cookies}
    names = [both.proxy._cookie_name(query_of(url)["state"]) for url in (first, second)]
    url = to_callback(both, browser, second)
    browser.session.cookies.set(names[1], jar[names[0]], domain="127.0.0.1", path="/")
    for cookie in list(browser.session.cookies):
        if cookie.name == names[1] and cookie.value == jar[names[1]]:
            browser.session.cookies.clear(cookie.domain, cookie.path, cookie.name)
    page = browser.open(url)
    assert (page.status, page.location) == (403, None)


def test_two_flows_at_once_in_one_browser(both):
    client, browser = both.here.register(), Browser()
    first = to_provider(both, client, browser, state="first")
    second = to_provider(both, client, browser, state="second")
    assert browser.open(to_callback(both, browser, second)).answer["state"] == "second"
    assert browser.open(to_callback(both, browser, first)).answer["state"] == "first"


@pytest.mark.spec(
    "docs/security_best_practices/redirect-exact", "basic/authorization/index/third-party-redirects"
)
def test_redirect_uri_games_end_on_a_page(both):
    client = both.here.register(redirect_uris=[WEB])
    for uri in (
        WEB + "/",
        WEB.upper(),
        "https://app.example.com@evil.example/callback",
        "https://evil.example",
    ):
        page = Browser().open(both.here.url(client, redirect_uri=uri))
        assert (page.status, page.location) == (400, None)


def test_a_callback_that_cannot_be_read(both):
    assert Browser().open(both.here.at("/callback?state=a&state=b")).status == 400


# -- what the provider says ------------------------------------------------------------------------


def test_a_user_who_says_no_at_the_provider_and_one_who_has_no_business_here(both):
    client = both.here.register()
    browser = Browser()
    url = to_callback(both, browser, to_provider(both, client, browser), answer="deny")
    answer = browser.open(url).answer
    assert (answer["error"], answer["state"]) == ("access_denied", "state-1")
    assert whole_way(both, client, name="bob")["error"] == "access_denied"


@pytest.mark.parametrize(
    "query", ["error=temporarily_unavailable", "nothing=x", "code=x&error=x", "code=made-up"]
)
@pytest.mark.spec("basic/authorization/index/third-party-errors")
def test_an_answer_without_a_good_code_is_an_error_of_the_server(both, query):
    browser = Browser()
    state = query_of(to_provider(both, both.here.register(), browser))["state"]
    page = browser.open(both.here.at(f"/callback?{query}&state={state}"))
    assert page.answer == {"error": "server_error", "state": "state-1", "iss": both.here.issuer}


def test_a_user_with_the_name_of_a_client():
    operator = RegisteredClient("machine", grant_types=("client_credentials",), client_secret=SECRET)
    with proxied(clients=[operator], identify=lambda answer: "machine") as both:
        assert whole_way(both, both.here.register())["error"] == "access_denied"


def test_an_answer_of_another_provider():
    with proxied(upstream={"issuer": "https://provider.example.com"}) as both:
        browser = Browser()
        page = browser.open(to_callback(both, browser, to_provider(both, both.here.register(), browser)))
        assert (page.status, page.location) == (400, None)  # our test provider names itself


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (200, b"{}"),
        (200, b'{"access_token": 7}'),
        (400, b'{"error": "invalid_grant", "access_token": "x"}'),
        (200, b"[]"),
        (500, b"<html>"),
        (302, b""),
    ],
)
def test_an_answer_without_a_token_is_an_error_of_the_server(status, body):
    handle = lambda request, wire: wire.answer(status, body, "Content-Type: application/json")  # noqa: E731
    with web(handle) as site, proxied(upstream={"token_url": site.url}) as both:
        assert whole_way(both, both.here.register())["error"] == "server_error"


def test_what_a_provider_may_leave_out():
    body = {"access_token": "theirs", "expires_in": True, "refresh_token": 7}
    with (
        web(lambda request, wire: wire.json(body)) as site,
        proxied(upstream={"token_url": site.url}, identify=lambda answer: "ada") as both,
    ):
        client = both.here.register()
        ours = both.here.token(client, whole_way(both, client))["access_token"]
        assert both.proxy.upstream_token(ours) == "theirs"


def test_a_token_of_the_provider_that_cannot_be_renewed_is_good_until_it_ends():
    """There is nothing to renew it with, so no request is made, and it is not given up early."""
    asked = []

    def handle(request, wire):
        asked.append(request.body)
        wire.json({"access_token": "theirs", "expires_in": proxy.EARLY_SECONDS / 2})

    with web(handle) as site, proxied(upstream={"token_url": site.url}, identify=lambda _: "ada") as both:
        client = both.here.register()
        ours = both.here.token(client, whole_way(both, client))["access_token"]
        assert both.proxy.upstream_token(ours) == "theirs"
        both.proxy._tokens.find(ours).family.grant.upstream.expires_at = time.monotonic()
        assert both.proxy.upstream_token(ours) is None
    assert len(asked) == 1


def test_a_provider_at_a_private_address_has_to_be_allowed():
    given = {"identify": subject, "resources": [RESOURCE], "scopes": SCOPES}
    client = TokenClient("the proxy")
    for url in (
        "http://127.0.0.1:1/x",
        "http://provider.example.com/x",
        "https://user@provider.example.com/",
    ):
        with pytest.raises(ValueError):
            Proxy("https://auth.example.com", upstream=Upstream(url, url, client), **given)
    assert SECRET not in repr(
        Upstream(
            "https://a.example",
            "https://a.example",
            TokenClient("x", method="client_secret_post", secret=SECRET),
        )
    )


def test_the_client_that_we_are_is_a_client_and_a_secret_in_its_place_is_not_shown():
    with pytest.raises(TypeError, match="client is a TokenClient, not str") as problem:
        Upstream("https://a.example", "https://a.example", SECRET)
    assert SECRET not in str(problem.value)


def test_cookies_over_https_are_for_this_host_only():
    upstream = Upstream("https://p.example/a?x=y", "https://p.example/t", TokenClient("the proxy"))
    made = Proxy(
        "https://auth.example.com", upstream=upstream, identify=subject, resources=[RESOURCE], scopes=SCOPES
    )
    wanted = SimpleNamespace(client=SimpleNamespace(client_id="c"), redirect_uri=REDIRECT)
    _, value = made._consent_cookie("state", wanted)
    assert value.startswith("__Host-mcp_ref_")
    assert value.endswith("; Path=/; Max-Age=600; HttpOnly; SameSite=Lax; Secure")
    assert made._provider.url("s", "v").startswith("https://p.example/a?x=y&response_type=code")
