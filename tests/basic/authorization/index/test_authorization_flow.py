"""basic/authorization/index/authorization_flow: the request, its response, the resource, the tokens."""

import math
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest

from mcp_ref.basic.authorization.index.authorization_flow import (
    AuthorizationRequest,
    Tokens,
    canonical_uri,
    covers,
    read_tokens,
    refused_by,
)
from mcp_ref.basic.authorization.index.error_handling import AuthorizationError
from mcp_ref.basic.authorization.security_considerations import code_verifier_fits

# ------------------------------------------------------------------------------ the resource


@pytest.mark.spec(
    "basic/authorization/index/resource-canonical",
    "basic/authorization/index/canonical-uri-valid",
    "basic/authorization/index/no-trailing-slash",
    "basic/authorization/index/resource-most-specific",
    "basic/authorization/index/uppercase-accepted",
)
@pytest.mark.parametrize(
    ("url", "uri"),
    [
        ("https://mcp.example.com/mcp", "https://mcp.example.com/mcp"),
        ("https://mcp.example.com", "https://mcp.example.com"),
        ("https://mcp.example.com/", "https://mcp.example.com"),
        ("HTTPS://MCP.Example.com:443/Mcp", "https://mcp.example.com/Mcp"),
        ("https://mcp.example.com:8443", "https://mcp.example.com:8443"),
        ("http://[::1]:80/a/", "http://[::1]/a/"),
        ("https://mcp.example.com/mcp?a=B#c", "https://mcp.example.com/mcp?a=B"),
    ],
)
def test_a_server_has_one_uri(url, uri):
    assert canonical_uri(url) == uri


@pytest.mark.spec(
    "basic/authorization/index/resource-identifies-server", "basic/authorization/index/uppercase-accepted"
)
@pytest.mark.parametrize(
    ("resource", "does"),
    [
        ("https://mcp.example.com/a/mcp", True),
        ("HTTPS://MCP.example.com:443/a/mcp", True),
        ("https://mcp.example.com/a", False),
        ("https://mcp.example.com/a/", False),
        ("https://mcp.example.com", True),
        ("https://mcp.example.com/", True),
        ("https://mcp.example.com/a/mcp/", True),
        ("https://mcp.example.com/a/mcp//", False),
        ("https://mcp.example.com/a/mcp/x", False),
        ("https://mcp.example.com//", False),
        ("https://mcp.example.com/?x=1", False),
        ("https://mcp.example.com/a/m", False),
        ("https://mcp.example.com/b", False),
        ("https://mcp.example.com/a/../a/mcp", False),
        ("https://mcp.example.com/a/mcp#x", False),
        ("https://mcp.example.com/a/mcp?x=1", False),
        ("https://user@mcp.example.com/a/mcp", False),
        ("https://mcp.example.com.evil.example/a/mcp", False),
        ("https://mcp.example.com:8443/a/mcp", False),
        ("http://mcp.example.com/a/mcp", False),
        ("https://example.com", False),
        ("mcp.example.com/a/mcp", False),
        ("https://[::1/a", False),
        ("https://mcp.example.com:x/a", False),
        ("", False),
        (None, False),
        (["https://mcp.example.com"], False),
    ],
)
def test_a_resource_covers_a_server(resource, does):
    assert covers(resource, "https://mcp.example.com/a/mcp") is does


@pytest.mark.spec("basic/authorization/index/resource-identifies-server")
def test_a_tenant_below_the_path_of_another_gets_no_tokens_for_it():
    evil = "https://shared.example/team/guests/mcp"
    for other in ("/team", "/team/", "/team/guests", "/team/guests/mcp/deeper", "/team?guests"):
        assert not covers(f"https://shared.example{other}", evil)
    assert covers("https://shared.example/team/guests/mcp?a=1", f"{evil}?a=1")
    assert covers("https://shared.example/team/guests/mcp", f"{evil}/")
    assert covers(evil, f"{evil}?a=1")
    assert not covers(f"{evil}?a=1", f"{evil}?a=2")
    assert not covers(f"{evil}?a=1", evil)


# ------------------------------------------------------------------------------ request and response


def request(**fields):
    usual = {
        "issuer": "https://as.example/t",
        "endpoint": "https://as.example/authorize",
        "client_id": "c",
        "redirect_uri": "http://127.0.0.1:5/callback",
        "resource": "https://mcp.example",
        "scopes": ("a", "b"),
        "names_issuer": True,
    }
    return AuthorizationRequest(**{**usual, **fields})


@pytest.mark.spec(
    "basic/authorization/index/resource-in-both-requests",
    "basic/authorization/index/resource-indicators",
    "basic/authorization/index/resource-always-sent",
)
def test_the_request_has_all_that_its_response_is_held_against():
    asked = request()
    query = {name: value for name, [value] in parse_qs(urlsplit(asked.url).query).items()}
    assert asked.url.startswith("https://as.example/authorize?")
    assert query.pop("state") == asked.state
    assert code_verifier_fits(asked.verifier, query.pop("code_challenge"))
    assert query == {
        "response_type": "code",
        "client_id": "c",
        "redirect_uri": "http://127.0.0.1:5/callback",
        "code_challenge_method": "S256",
        "resource": "https://mcp.example",
        "scope": "a b",
    }
    assert asked.token_form("code") == {
        "grant_type": "authorization_code",
        "code": "code",
        "redirect_uri": asked.redirect_uri,
        "code_verifier": asked.verifier,
        "resource": "https://mcp.example",
    }


def test_no_two_requests_have_the_same_secrets_and_none_is_shown():
    one, two = request(), request()
    assert one.state != two.state and one.verifier != two.verifier
    assert one.state not in repr(one) and one.verifier not in repr(one)


def test_a_request_keeps_the_query_of_its_endpoint_and_says_nothing_of_scopes_where_there_are_none():
    assert request(endpoint="https://as.example/a?b=c").url.startswith(
        "https://as.example/a?b=c&response_type="
    )
    for none in (None, ()):
        assert "scope=" not in request(scopes=none).url
    assert "prompt=consent" in request(scopes=("offline_access",)).url


def answered(asked, **more):
    said = {"code": "x", "state": asked.state, "iss": asked.issuer, **more}
    return f"{asked.redirect_uri}?{urlencode({n: v for n, v in said.items() if v is not None})}"


def test_the_code_of_a_response_is_what_it_says():
    asked = request()
    assert asked.code_of(answered(asked)) == "x"
    assert asked.code_of(f"  {answered(asked)}\n") == "x"
    assert asked.code_of("?" + answered(asked).partition("?")[2]) == "x"


@pytest.mark.spec("basic/authorization/security-considerations/state-verified")
@pytest.mark.parametrize("state", ["", "other", None, "\u00e9"])
def test_a_response_with_another_state_is_of_no_use(state):
    asked = request()
    with pytest.raises(AuthorizationError, match="another state"):
        asked.code_of(answered(asked, state=state, error="evil"))


@pytest.mark.spec(
    "basic/authorization/index/record-issuer",
    "basic/authorization/index/iss-validated",
    "basic/authorization/index/iss-present-compared",
    "basic/authorization/index/iss-absent-rejected",
    "basic/authorization/index/iss-no-normalisation",
    "basic/authorization/index/iss-mismatch-no-error-display",
)
@pytest.mark.parametrize(
    ("advertised", "iss", "good"),
    [
        (True, "https://as.example/t", True),
        (True, None, False),
        (True, "https://evil.example", False),
        (False, "https://as.example/t", True),
        (False, None, True),
        (False, "https://evil.example", False),
        (True, "https://as.example/t/", False),
        (True, "https://AS.example/t", False),
        (True, "https://as.example:443/t", False),
        (True, "https://as.example/%74", False),
        (True, "", False),
    ],
)
def test_the_issuer_of_a_response_is_compared_as_it_is(advertised, iss, good):
    asked = request(names_issuer=advertised)
    if good:
        assert asked.code_of(answered(asked, iss=iss)) == "x"
        return
    with pytest.raises(AuthorizationError, match=r"iss\)|another authorization server") as told:
        asked.code_of(answered(asked, iss=iss, error="access_denied", error_description="evil words"))
    assert "evil" not in str(told.value) and told.value.error is None
    assert told.value.issuer == asked.issuer


@pytest.mark.parametrize(
    ("callback", "fault"),
    [
        ("http://127.0.0.1:6/callback?code=x", "did not come to the redirect URI"),
        ("http://127.0.0.1:5/other?code=x", "did not come to the redirect URI"),
        ("https://127.0.0.1:5/callback?code=x", "did not come to the redirect URI"),
        ("http://[::1", "no URL"),
        ("?state=a&state=b", "a parameter twice"),
        ("?" + "&".join(f"a{n}=1" for n in range(200)), "no URL"),
        ("?" + "x" * 20_000, "too long"),
        ("", "another state"),
    ],
)
def test_what_is_no_response_is_told(callback, fault):
    with pytest.raises(AuthorizationError, match=fault):
        request().code_of(callback)


def test_callbacks_twice():
    """A code that stands twice is no code; two responses are two to the server, which takes the first."""
    asked = request()
    with pytest.raises(AuthorizationError, match="a parameter twice"):
        asked.code_of(answered(asked) + "&code=y")


def test_an_error_is_told_and_a_response_without_a_code_too():
    asked = request()
    with pytest.raises(AuthorizationError, match=r"refused with access_denied: No\\n, said Ada") as told:
        asked.code_of(answered(asked, code=None, error="access_denied", error_description="No\n, said Ada"))
    assert told.value.error == "access_denied"
    for code in (None, "", "a\nb"):
        with pytest.raises(AuthorizationError, match="neither a code nor an error"):
            asked.code_of(answered(asked, code=code))


# ------------------------------------------------------------------------------ tokens


def read(**said):
    usual = {"access_token": "a.b", "token_type": "bearer"}
    said = {n: v for n, v in {**usual, **said}.items() if v is not None}
    return read_tokens(said, issuer="i", resource="r", requested=("x",), now=1000.0)


def test_a_token_response_is_read():
    tokens = read(expires_in=60, refresh_token="r1", scope="x y")
    assert tokens == Tokens("a.b", "Bearer", "i", "r", 1060.0, "r1", ("x", "y"), ("x",), 1000.0)
    assert read(token_type="dpop").token_type == "DPoP"
    assert read().scopes == ("x",)  # as asked for
    assert read().refresh_token is None
    assert "a.b" not in repr(tokens) and "r1" not in repr(tokens)


@pytest.mark.parametrize(
    ("given", "end"),
    [
        (60, 1060.0),
        (0.5, 1000.5),
        ("60", 1060.0),
        (0, None),
        (-1, None),
        (None, None),
        (True, None),
        ("soon", None),
        ("\u0663", None),
        (math.nan, None),
        (math.inf, None),
        (10**30, 1000.0 + 10 * 365 * 86400),
    ],
)
def test_the_end_of_a_token_is_a_number_of_seconds(given, end):
    assert read(expires_in=given).expires_at == end


@pytest.mark.parametrize(
    ("said", "fault"),
    [
        ({"access_token": None}, "has no access token"),
        ({"access_token": ""}, "has no access token"),
        ({"access_token": 5}, "has no access token"),
        ({"access_token": "a\r\nX: y"}, "fits into no header"),
        ({"access_token": "a" * 100_000}, "fits into no header"),
        ({"token_type": None}, "a token of the type None"),
        ({"token_type": "mac"}, "a token of the type 'mac', and not Bearer or DPoP"),
        ({"refresh_token": ""}, "a refresh token that cannot be one"),
        ({"refresh_token": "a\n"}, "a refresh token that cannot be one"),
        ({"refresh_token": 5}, "a refresh token that cannot be one"),
    ],
)
def test_a_token_response_that_cannot_be_used_is_told_and_not_shown(said, fault):
    with pytest.raises(AuthorizationError, match=fault) as told:
        read(**said)
    assert "a.b" not in str(told.value) and told.value.issuer == "i"


def test_tokens_are_kept_as_json():
    tokens = read(expires_in=60, refresh_token="r1", scope="x y")
    assert Tokens.from_json(tokens.to_json()) == tokens
    assert Tokens.from_json(read().to_json()) == read()
    whole = tokens.to_json()
    for damaged in ({}, {"access_token": "a"}, {**whole, "issuer": 5}, {**whole, "token_type": "mac"}):
        assert Tokens.from_json(damaged) is None
    for cannot_be_sent in ("a b", "a\r\nX: y", "", "\u00e9", "a" * 100_000):
        assert Tokens.from_json({**whole, "access_token": cannot_be_sent}) is None
    for number in (math.nan, math.inf, 10**400):
        assert Tokens.from_json({**whole, "expires_at": number}).expires_at is None
    assert Tokens.from_json({**whole, "refresh_token": "a\n"}).refresh_token is None
    odd = {**tokens.to_json(), "expires_at": "x", "refresh_token": 5, "scopes": 5, "obtained_at": None}
    assert Tokens.from_json(odd) == Tokens("a.b", "Bearer", "i", "r", requested=("x",))


@pytest.mark.parametrize("code", [None, 5, "", "a\nb", "x" * 200])
def test_an_error_that_is_no_code_is_not_repeated(code):
    told = refused_by("token endpoint", "https://as.example/token?secret", {"error": code}, "i")
    assert str(told) == "the token endpoint https://as.example/token refused with no known error"
    assert told.error is None


def test_what_a_server_says_of_an_error_is_short_and_on_one_line():
    said = {"error": "invalid_grant", "error_description": "a\x1b[31m" + "b" * 1000}
    told = str(refused_by("token endpoint", "https://as.example/token", said, "i"))
    assert told.startswith(
        r"the token endpoint https://as.example/token refused with invalid_grant: a\x1b[31mb"
    )
    assert len(told) < 500
