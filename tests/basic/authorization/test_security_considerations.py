"""basic/authorization/security_considerations: redirect URIs and PKCE, as a server checks them."""

import pytest

from mcp_ref.basic.authorization.security_considerations import (
    check_code_challenge,
    check_endpoint,
    check_page,
    check_pkce_support,
    check_redirect_uri,
    code_verifier_fits,
    new_state,
    new_verifier,
    redirect_host,
    redirect_is_loopback,
    redirect_uri_is_registered,
    s256,
)

VERIFIER = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
CHALLENGE = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
"""RFC 7636, appendix B."""


@pytest.mark.parametrize(
    "uri",
    [
        "https://app.example.com/callback",
        "https://app.example.com",
        "https://app.example.com:8443/callback?a=b",
        "https://xn--bcher-kva.example/callback",
        "https://[2001:db8::1]/callback",
        "https://app.example.com/callback?codes=1&my_state=2&Code=3&a=code",
        "http://localhost/callback",
        "http://localhost:3000/callback",
        "http://127.0.0.1:3000/",
        "http://[::1]:3000/callback",
    ],
)
def test_a_redirect_uri_with_https_or_to_the_loopback_interface_may_be_registered(uri):
    assert check_redirect_uri(uri) == uri


@pytest.mark.spec("basic/authorization/security-considerations/redirect-localhost-or-https")
@pytest.mark.parametrize(
    ("uri", "said"),
    [
        ("http://app.example.com/callback", "others need https"),
        ("http://127.0.0.2/callback", "others need https"),
        ("http://localhost.example.com/callback", "others need https"),
        ("http://localhost.:3000/callback", "names a host"),  # the dot at its end
        ("https://app.example.com./callback", "names a host"),
        ("https://app.example.com/callback#part", "no fragment"),
        ("https://app.example.com/callback#", "no fragment"),
        ("https://user@app.example.com/callback", "no user"),
        ("http://localhost@evil.example/callback", "no user"),
        ("https://app%2eexample.com/callback", "names a host"),
        ("https://app.example.com:0x50/callback", "offset 8"),
        ("https://app.example.com:65536/callback", "names a host"),
        ("https:///callback", "names a host"),
        ("https:callback", "names a host"),
        ("HTTPS://app.example.com/callback", "begins with https://"),
        ("com.example.app://callback", "begins with https://"),
        ("javascript:alert(1)", "names a host"),
        ("javascript://app.example.com/%0aalert(1)", "begins with https://"),
        ("data:text/html,hello", "names a host"),
        ("https://app.example.com\\@evil.example/", "offset"),
        ("https://app.example.com/call back", "offset"),
        ("https://app.example.com/\r\nSet-Cookie: a=b", "offset"),
        ("https://bücher.example/", "offset"),
        ("https://app.example.com/callback?code=mine", "no code in its query"),
        ("https://app.example.com/callback?a=b&state", "no state in its query"),
        ("https://app.example.com/callback?iss=https://evil.example", "no iss in its query"),
        ("http://127.0.0.1:3000/callback?error=", "no error in its query"),
        ("https://app.example.com/callback?%63ode=mine", "no code in its query"),
        ("https://app.example.com/callback?a=b&error_description=Call+us", "no error_description in its"),
        ("/callback", "scheme"),
        ("", "up to"),
        ("https://app.example.com/" + "a" * 2000, "up to"),
        (7, "up to"),
    ],
)
def test_any_other_redirect_uri_is_refused(uri, said):
    with pytest.raises(ValueError, match=said):
        check_redirect_uri(uri)


REGISTERED = ("https://app.example.com/callback", "http://127.0.0.1:3000/callback", "http://localhost/cb?x=y")


@pytest.mark.spec("basic/authorization/security-considerations/redirects-exact")
@pytest.mark.parametrize(
    "uri",
    [
        *REGISTERED,
        "http://127.0.0.1:49152/callback",  # a native application learns its port when it starts
        "http://127.0.0.1/callback",
        "http://localhost:8080/cb?x=y",
    ],
)
def test_a_registered_redirect_uri_is_known_at_any_port_of_the_loopback_interface(uri):
    assert redirect_uri_is_registered(uri, REGISTERED)


@pytest.mark.spec("basic/authorization/security-considerations/redirects-exact")
@pytest.mark.parametrize(
    "uri",
    [
        "https://app.example.com/callback/",
        "https://app.example.com/callback?more=1",
        "https://app.example.com/Callback",
        "https://APP.example.com/callback",
        "https://app.example.com./callback",
        "https://app.example.com:443/callback",  # a port that is no loopback's
        "https://app.example.com:8443/callback",
        "https://app.example.com/%63allback",
        "https://app.example.com/x/../callback",
        "https://app.example.com/callback#part",
        "https://user@app.example.com/callback",
        "https://app.example.com@evil.example/callback",
        "https://evil.example/?https://app.example.com/callback",
        "http://app.example.com/callback",
        "http://localhost:3000/callback",  # another name of the same interface
        "http://127.0.0.1:3000/callback?more=1",
        "http://127.0.0.1:3000/other",
        "http://127.0.0.1:99999/callback",
        "http://127.0.0.1:3000@evil.example/callback",
        "http://127.0.0.1:/callback",
        "https://127.0.0.1:3001/callback",
        "",
    ],
)
def test_no_other_redirect_uri_is_taken_for_a_registered_one(uri):
    assert not redirect_uri_is_registered(uri, REGISTERED)


def test_where_a_redirect_uri_leads():
    assert redirect_is_loopback("http://[::1]:3000/callback")
    assert not redirect_is_loopback("https://localhost.example/")
    assert redirect_host("https://app.example.com:8443/callback") == "app.example.com:8443"


def test_the_challenge_of_a_verifier_is_that_of_the_rfc():
    assert s256(VERIFIER) == CHALLENGE
    assert check_code_challenge(CHALLENGE, "S256") == CHALLENGE
    assert code_verifier_fits(VERIFIER, CHALLENGE)


@pytest.mark.parametrize(
    ("challenge", "method", "said"),
    [
        (None, None, "PKCE is required"),
        (None, "S256", "PKCE is required"),
        (CHALLENGE, None, "must be given"),  # plain, by default
        (CHALLENGE, "plain", "S256"),
        (CHALLENGE, "s256", "S256"),
        (CHALLENGE[:-1], "S256", "43 characters"),
        (CHALLENGE + "=", "S256", "43 characters"),
    ],
)
def test_pkce_is_s256_and_nothing_else(challenge, method, said):
    with pytest.raises(ValueError, match=said):
        check_code_challenge(challenge, method)


@pytest.mark.parametrize(
    "verifier", [None, "", VERIFIER[:-1], VERIFIER + "a", CHALLENGE, "é" * 43, "a" * 129, VERIFIER + "\n"]
)
def test_a_wrong_verifier_does_not_fit(verifier):
    assert not code_verifier_fits(verifier, CHALLENGE)


# ---------------------------------------------------------------------------- what a client looks at


@pytest.mark.spec("basic/authorization/security-considerations/pkce")
def test_secrets_of_a_request_are_new_each_time_and_fit():
    verifiers = {new_verifier() for _ in range(50)}
    assert len(verifiers) == 50
    for verifier in verifiers:
        assert code_verifier_fits(verifier, s256(verifier))


@pytest.mark.spec("basic/authorization/security-considerations/state-verified")
def test_a_state_cannot_be_guessed():
    states = {new_state() for _ in range(50)}
    assert len(states) == 50
    assert all(len(state) >= 43 for state in states)


@pytest.mark.spec(
    "basic/authorization/security-considerations/pkce-support-verified",
    "basic/authorization/security-considerations/pkce-from-metadata",
    "basic/authorization/security-considerations/pkce-refuse-oauth",
    "basic/authorization/security-considerations/pkce-verify-oidc",
    "basic/authorization/security-considerations/pkce-refuse-oidc",
    "basic/authorization/security-considerations/pkce-s256",
)
def test_a_server_has_to_say_that_it_has_pkce():
    check_pkce_support({"code_challenge_methods_supported": ["plain", "S256"]})
    for methods in (
        {},
        {"code_challenge_methods_supported": ["plain"]},
        {"code_challenge_methods_supported": "S256"},
    ):
        with pytest.raises(ValueError, match="does not list S256"):
            check_pkce_support(methods)


@pytest.mark.spec(
    "basic/authorization/security-considerations/oauth-communication-security",
    "docs/security_best_practices/oauth-https",
    "docs/security_best_practices/sanitise-urls",
)
@pytest.mark.parametrize(
    ("url", "fault"),
    [
        ("https://as.example/token", None),
        ("https://as.example:8443/token?a=b", None),
        ("http://localhost:5/token", None),
        ("http://[::1]/token", None),
        ("http://as.example/token", "is http, and not https"),
        ("ftp://as.example/token", "no URL of a server"),
        ("javascript:alert(1)", "no URL of a server"),
        ("https://user@as.example/", "no URL of a server"),
        ("https://as.example/#x", "no URL of a server"),
        ("/token", "no URL"),
        ("https://as.example/a b", "no URL"),
        ("https://[::1", "no URL"),
        ("https://as.example:x/", "no URL"),
        (None, "no text"),
        (5, "no text"),
    ],
)
def test_an_endpoint_is_https_or_on_this_machine(url, fault):
    if fault is None:
        assert check_endpoint("token_endpoint", url) == url
    else:
        with pytest.raises(ValueError, match=f"token_endpoint (is )?{fault}"):
            check_endpoint("token_endpoint", url)
    if fault == "is http, and not https":
        assert check_endpoint("token_endpoint", url, allow_http=True) == url


@pytest.mark.spec(
    "docs/security_best_practices/auth-url-validated",
    "docs/security_best_practices/auth-url-http-https",
    "docs/security_best_practices/auth-url-dangerous-schemes",
    "docs/security_best_practices/auth-url-allowlist",
)
@pytest.mark.parametrize(
    "url",
    ["javascript:alert(1)", "data:text/html,x", "file:///etc/passwd", "vbscript:x", "http://as.example/"],
)
def test_a_browser_is_sent_to_https_alone_or_to_this_machine(url):
    assert check_page("http://127.0.0.1:5/authorize?a=b")
    with pytest.raises(ValueError, match="the authorization URL"):
        check_page(url)


@pytest.mark.parametrize("tail", ["'", '"', "`", "|", "<", "^", "{", "\\", "\u00e9", "\n"])
def test_a_browser_is_sent_to_what_is_in_urls_alone(tail):
    assert check_page("https://as.example/a?b=c&d=$(e)") == "https://as.example/a?b=c&d=$(e)"
    with pytest.raises(ValueError, match="authorization URL"):
        check_page(f"https://as.example/a?b={tail}")
