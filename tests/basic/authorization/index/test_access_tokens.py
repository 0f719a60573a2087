"""basic/authorization/index/access_tokens: how a request carries its token, and what it is held against."""

from __future__ import annotations

import dataclasses
import math
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_ref.basic.authorization.index.access_tokens import (
    Access,
    AccessToken,
    CannotVerify,
    Credentials,
    Rules,
    authorization_header,
    closure,
    credentials_of,
    is_same_uri,
)
from mcp_ref.basic.authorization.index.error_handling import InsufficientScope, Refusals, parse_challenges
from mcp_ref.basic.transports.streamable_http.security import Refused

RESOURCE = "https://notes.example.com/mcp"
REFUSALS = Refusals("https://notes.example.com/.well-known/x", {"Bearer": {}}, ("read",))
RULES = Rules(
    RESOURCE, ("https://auth.example.com",), REFUSALS, closure({"admin": ["write"], "write": ["read"]})
)
NOW = 1_800_000_000.0


def found(header: str | None, query: str = "", refusals: Refusals = REFUSALS) -> Credentials:
    environ = {"QUERY_STRING": query}
    return credentials_of(environ if header is None else {**environ, "HTTP_AUTHORIZATION": header}, refusals)


def refused(header: str | None, query: str = "") -> tuple[int, str | None]:
    """The status, and the error of the challenge."""
    with pytest.raises(Refused) as problem:
        found(header, query)
    challenges = parse_challenges(dict(problem.value.headers)["WWW-Authenticate"])
    return problem.value.status, challenges[0].error


def token(**more: object) -> AccessToken:
    usual = {"subject": "ann", "audience": (RESOURCE,), "scopes": frozenset(["read"]), "expires_at": NOW + 60}
    return AccessToken(**{**usual, **more})  # type: ignore[arg-type]


# -- step 1: the header ------------------------------------------------------------------------------


@pytest.mark.spec(
    "basic/authorization/index/oauth-section-5",
    "basic/authorization/index/bearer-header",
    "basic/authorization/index/no-token-in-query",
)
@pytest.mark.parametrize(
    "header", ["Bearer abc", "bearer abc", "BEARER abc", "Bearer  abc", "Bearer a-._~+/=="]
)
def test_a_token_is_in_the_authorization_header(header: str) -> None:
    assert found(header) == ("Bearer", header.split()[1])


@pytest.mark.parametrize("header", [None, "", "Basic YTpi", "Digest a=b, c=d", "Negotiate abc", "Bearerabc"])
@pytest.mark.parametrize("query", ["", "access_token=abc", "a=b&access_token=abc"])
def test_without_a_bearer_token_there_is_no_error_code_whatever_the_query_says(
    header: str | None, query: str
) -> None:
    assert refused(header, query) == (401, None)


MALFORMED = {
    "no token": "Bearer",
    "an empty token": "Bearer ",
    "two tokens": "Bearer abc def",
    "two headers": "Bearer abc, Bearer def",
    "a quoted token": 'Bearer "abc"',
    "parameters": "Bearer token=abc,x=y",
    "a token beyond ASCII": "Bearer \xe4bc",
    "a huge token": "Bearer " + "a" * 20_000,
}


@pytest.mark.spec("basic/authorization/index/status-codes")
@pytest.mark.parametrize("header", MALFORMED.values(), ids=MALFORMED)
def test_a_malformed_authorization_header_is_a_bad_request(header: str) -> None:
    assert refused(header) == (400, "invalid_request")


def test_a_token_in_the_header_and_one_in_the_query_are_a_bad_request() -> None:
    assert refused("Bearer abc", "x=1&access_token=def") == (400, "invalid_request")
    assert found("Bearer abc", "my_access_token=def").token == "abc"


def test_a_scheme_that_the_server_does_not_take_brings_no_token() -> None:
    assert refused("DPoP abc") == (401, None)
    both = Refusals("https://x.example", {"Bearer": {}, "DPoP": {"algs": "ES256"}})
    assert found("dpop abc", refusals=both) == ("DPoP", "abc")


@given(st.text(st.characters(max_codepoint=255)))
def test_any_header_is_a_token_or_a_refusal(header: str) -> None:
    try:
        assert found(header).scheme == "Bearer"
    except Refused as problem:
        assert problem.status in (400, 401)
        assert header not in str(problem) or len(header) < 60


def test_nothing_shows_a_token() -> None:
    assert "abc" not in repr(found("Bearer abc"))
    with pytest.raises(Refused) as problem:
        found("Bearer abc def-secret")
    assert "secret" not in f"{problem.value!r} {problem.value} {problem.value.headers}"


# -- step 3: what it says --------------------------------------------------------------------------------


def why(given: AccessToken, now: float = NOW) -> str:
    with pytest.raises(Refused) as problem:
        RULES.check(given, now, "Bearer")
    assert problem.value.status == 401
    challenge = parse_challenges(dict(problem.value.headers)["WWW-Authenticate"])[0]
    assert challenge.error == "invalid_token"
    assert challenge.resource_metadata == REFUSALS.metadata_url
    return challenge.params["error_description"]


@pytest.mark.spec(
    "basic/authorization/index/token-audience",
    "basic/authorization/index/server-own-tokens",
    "basic/authorization/index/no-token-transit",
    "basic/authorization/security-considerations/audience-validated",
)
@pytest.mark.parametrize(
    "audience",
    [
        (),
        ("https://other.example.com/mcp",),
        ("https://notes.example.com",),
        ("https://notes.example.com/mcp/x",),
        ("https://notes.example.com/MCP",),
        ("https://notes.example.com.evil.example/mcp",),
        ("notes",),
        ("https://[x/mcp",),
    ],
)
def test_a_token_for_another_audience_is_invalid(audience: tuple[str, ...]) -> None:
    assert "audience" in why(token(audience=audience))


@pytest.mark.spec("basic/authorization/index/uppercase-accepted")
def test_a_token_may_be_for_several_audiences_and_write_scheme_and_host_as_it_likes() -> None:
    RULES.check(token(audience=("https://other.example", "HTTPS://Notes.Example.COM/mcp")), NOW)
    assert is_same_uri("https://a.example", "https://A.example/")
    assert not is_same_uri("https://a.example/x", "https://a.example/x/")


def test_a_token_of_another_issuer_is_invalid() -> None:
    assert "authorization servers" in why(token(issuer="https://evil.example"))
    assert "authorization servers" in why(token(issuer="https://auth.example.com/"))
    RULES.check(token(issuer="https://auth.example.com"), NOW)


@pytest.mark.spec("basic/authorization/index/token-invalid-401", "basic/authorization/index/token-validated")
def test_an_expired_token_is_invalid_and_clocks_may_differ() -> None:
    assert "expired" in why(token(expires_at=NOW - 30.0))
    RULES.check(token(expires_at=NOW - 29.9), NOW)
    RULES.check(token(expires_at=None), NOW)


def test_a_token_that_is_not_valid_yet_is_invalid_and_clocks_may_differ() -> None:
    assert "not valid yet" in why(token(not_before=NOW + 31.0))
    RULES.check(token(not_before=NOW + 30.0), NOW)


def test_a_token_shows_neither_its_claims_nor_its_key() -> None:
    shown = repr(token(claims={"email": "ann@example.com"}, confirmation="thumb"))
    assert "ann@" not in shown
    assert "thumb" not in shown


@pytest.mark.spec("basic/authorization/security-considerations/no-passthrough")
def test_a_handler_gets_what_a_token_says_and_nothing_to_pass_on() -> None:
    fields = {field.name for field in dataclasses.fields(AccessToken)}
    assert fields.isdisjoint({"token", "access_token", "raw"})
    assert fields == {
        *("subject", "client_id", "scopes", "issuer", "audience"),
        *("expires_at", "not_before", "claims", "confirmation"),
    }


def test_a_verifier_of_ones_own_may_bring_any_collection_and_no_single_text() -> None:
    found = AccessToken(scopes=["a", "b"], audience=[RESOURCE])  # type: ignore[arg-type]
    assert (found.scopes, found.audience) == (frozenset(["a", "b"]), (RESOURCE,))
    wrong: list[dict[str, object]] = [{"scopes": "read write"}, {"audience": RESOURCE}, {"scopes": [7]}]
    for fields in [*wrong, {"expires_at": "soon"}, {"not_before": "now"}]:
        with pytest.raises(TypeError, match=r"several texts|seconds since 1970"):
            AccessToken(**fields)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["expires_at", "not_before"])
@pytest.mark.parametrize("when", [math.nan, math.inf, -math.inf, 10**400])
def test_a_time_that_never_comes_is_no_time(name: str, when: float) -> None:
    with pytest.raises(ValueError, match=f"{name} is no time in seconds"):
        token(**{name: when})
    with pytest.raises(TypeError, match=name):
        token(**{name: True})
    made = token()
    object.__setattr__(made, name, math.nan)  # as a subclass might have it
    assert why(made)


# -- step 4: scopes --------------------------------------------------------------------------------------


@pytest.mark.spec("basic/authorization/index/scope-hierarchies")
def test_a_broader_scope_implies_narrower_ones_at_any_remove() -> None:
    for scope, all_of_them in {"admin": "admin write read", "write": "write read", "read": "read"}.items():
        assert RULES.scopes_of(token(scopes=frozenset([scope]))) == set(all_of_them.split())
    assert closure({"a": ["b"], "b": ["a"]}) == {"a": {"a", "b"}, "b": {"a", "b"}}
    assert RULES.scopes_of(token(scopes=frozenset())) == frozenset()


@pytest.mark.parametrize("implies", [{"a b": ["c"]}, {"a": ['c"']}, {"a": ["offline_access"]}, {"": []}])
def test_what_is_no_scope_implies_nothing(implies: dict[str, list[str]]) -> None:
    with pytest.raises(ValueError, match=r"scope|offline_access"):
        closure(implies)


def access(*scopes: str, needs: tuple[str, ...] = ()) -> Access:
    return Access(token(scopes=frozenset(scopes)), RULES, lambda message: needs)


def test_a_message_needs_the_scopes_of_every_request_and_its_own_all_at_once() -> None:
    access("admin", needs=("write",)).check({})
    for scopes in ((), ("read",), ("other",)):
        with pytest.raises(Refused) as problem:
            access(*scopes, needs=("write", "other")).check({})
        assert problem.value.status == 403
        challenge = parse_challenges(dict(problem.value.headers)["WWW-Authenticate"])[0]
        assert challenge.scopes == ("read", "write", "other")


def test_a_handler_may_need_more() -> None:
    allowed = access("write")
    allowed.require_now(("read", "write"))
    with pytest.raises(InsufficientScope) as problem:
        allowed.require_now(("write", "delete"))
    assert problem.value.refused.status == 403
    assert "read write delete" in problem.value.message
    with pytest.raises(ValueError, match="no scope"):
        allowed.require_now(('a"\r\nX-Evil: 1',))
    with pytest.raises(TypeError, match="a list"):
        allowed.require_now("write")
    assert allowed.allows(["read"])
    assert not allowed.hides_tools
    assert repr(allowed) == f"<access of {allowed.token!r}>"


def test_a_verifier_that_cannot_tell_says_when_to_ask_again() -> None:
    assert CannotVerify("the keys cannot be had", 7.0).retry_after == 7.0


# -- the client ---------------------------------------------------------------------------------------


def test_a_client_sends_its_token_in_the_header() -> None:
    assert authorization_header("abc") == {"Authorization": "Bearer abc"}
    assert authorization_header("abc", "DPoP") == {"Authorization": "DPoP abc"}
    assert found(authorization_header("a.b-c")["Authorization"]).token == "a.b-c"


@pytest.mark.parametrize("bad", ["", "a b", "a\r\nX: 1", "\xe4", "a" * 20_000])
def test_a_token_that_no_header_can_have_is_not_sent_and_not_shown(bad: str) -> None:
    with pytest.raises(ValueError, match="characters that no header may") as problem:
        authorization_header(bad)
    assert not bad or bad not in str(problem.value) or bad == " "


def test_a_skew_of_nothing_is_kept_to_the_moment() -> None:
    rules = Rules(RESOURCE, (), REFUSALS, clock_skew=0.0)
    rules.check(token(expires_at=NOW + 0.001), NOW)
    with pytest.raises(Refused):
        rules.check(token(expires_at=NOW), NOW)
    assert time.time() > 0
