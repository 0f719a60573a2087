"""basic/authorization/index/error_handling: challenges, read and written, and how often a client steps up."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_ref.basic.authorization.index import error_handling
from mcp_ref.basic.authorization.index.error_handling import (
    Challenge,
    Refusals,
    StepUps,
    check_scopes,
    choose,
    format_challenge,
    parse_challenges,
)

TOKEN = "abcdefghijklmnopqrstuvwxyz0123456789!#$%&'*+.^_`|~-"
names = st.text(TOKEN, min_size=1, max_size=12)
values = st.text(
    st.characters(min_codepoint=0x20, max_codepoint=0xFF).filter(lambda c: not 0x7F <= ord(c) < 0x80)
)
tokens = st.from_regex(r"[A-Za-z0-9._~+/-]{1,20}={0,2}", fullmatch=True)
challenges = st.one_of(
    st.builds(Challenge, names, st.dictionaries(names, values, max_size=5)),
    st.builds(lambda scheme, token: Challenge(scheme, {}, token), names, tokens),
)


@given(st.lists(challenges, max_size=5))
@pytest.mark.spec("basic/authorization/authorization-server-discovery/parse-www-authenticate")
def test_what_was_formatted_is_parsed_to_the_same(wanted):
    assert parse_challenges(", ".join(map(format_challenge, wanted))) == wanted


@given(st.text(max_size=200))
def test_no_header_whatever_is_an_error(junk):
    for challenge in parse_challenges(junk):
        assert challenge.scheme


BEARER = Challenge("Bearer", {"error": "invalid_token"})


@pytest.mark.parametrize(
    ("header", "wanted"),
    [
        (None, []),
        ("", []),
        (" , ,", []),
        ("Bearer", [Challenge("Bearer")]),
        ('Bearer error="invalid_token"', [BEARER]),
        ("Bearer error=invalid_token", [BEARER]),
        ('bearer ERROR = "invalid_token"', [Challenge("bearer", {"error": "invalid_token"})]),
        ('Bearer error="invalid_token", error="other"', [BEARER]),
        (r'X a="say \"hi\", \\ c"', [Challenge("X", {"a": r'say "hi", \ c'})]),
        ('X a="1, Bearer b=2"', [Challenge("X", {"a": "1, Bearer b=2"})]),
        ('Basic realm="a", Bearer', [Challenge("Basic", {"realm": "a"}), Challenge("Bearer")]),
        (
            'DPoP algs="ES256", Bearer error="invalid_token"',
            [Challenge("DPoP", {"algs": "ES256"}), BEARER],
        ),
        (
            "Negotiate a87421000492aa874209af8bc028==",
            [Challenge("Negotiate", {}, "a87421000492aa874209af8bc028==")],
        ),
        ('Negotiate YQ==, Bearer error="invalid_token"', [Challenge("Negotiate", {}, "YQ=="), BEARER]),
        ('Bearer\r\n error="invalid_token"', [BEARER]),
        # junk
        ('a="b", Bearer error="invalid_token"', [BEARER]),
        ('@@@ ??, Bearer error="invalid_token"', [BEARER]),
        ('"x, y" z, Bearer', [Challenge("z"), Challenge("Bearer")]),
        ('Bearer error="invalid_token", scope="never closed', [BEARER, Challenge("scope")]),
        ('Bearer error="invalid_token", (), {}', [BEARER]),
    ],
)
def test_a_header_has_challenges(header, wanted):
    assert parse_challenges(header) == wanted


def test_a_challenge_has_names_for_what_the_page_wants_of_it():
    [challenge] = parse_challenges(
        'Bearer scope="a  b a", resource_metadata="https://x/y", error="insufficient_scope"'
    )
    assert challenge.scopes == ("a", "b")
    assert challenge.resource_metadata == "https://x/y"
    assert challenge.error == error_handling.INSUFFICIENT_SCOPE
    assert Challenge("Bearer").scopes is None
    assert Challenge("Bearer", {"scope": ""}).scopes == ()


def test_the_challenge_that_counts_is_the_first_of_a_scheme_that_is_known():
    found = parse_challenges('Basic realm="x", DPoP algs="ES256", Bearer')
    assert choose(found) == found[1]
    assert choose(parse_challenges("BEARER")) == Challenge("BEARER")
    assert choose(parse_challenges("Basic")) is None


@pytest.mark.parametrize(
    "header", ["A " * 100_000, 'a="' * 50_000, "B," * 50_000, "\\" * 100_000, "A b=c," * 30_000, '"' * 99_999]
)
def test_a_huge_header_is_read_in_part_and_soon(header):
    begun = time.thread_time()
    found = parse_challenges(header)
    assert time.thread_time() - begun < 1
    assert len(found) <= error_handling.MAX_CHALLENGES
    assert all(len(c.params) <= error_handling.MAX_PARAMETERS for c in found)


def test_header_injection_in_challenges():
    """Nothing ends the header, or the value, before its time."""
    for value in ("a\r\nSet-Cookie: b", "\n", "\0", "\x7f", "\u20ac"):
        with pytest.raises(ValueError, match="no header may"):
            format_challenge(Challenge("Bearer", {"error_description": value}))
    for name in ("", "a b", "a=", "A", 'a"'):
        with pytest.raises(ValueError, match="name of a parameter"):
            format_challenge(Challenge("Bearer", {name: "x"}))
    for scheme in ("", "Bearer x", "a\n"):
        with pytest.raises(ValueError, match="name of a scheme"):
            format_challenge(Challenge(scheme))
    for challenge in (Challenge("X", {}, "a b"), Challenge("X", {"a": "b"}, "c")):
        with pytest.raises(ValueError, match="base64"):
            format_challenge(challenge)


@pytest.mark.spec(
    "basic/authorization/index/step-up-few-retries",
    "basic/authorization/index/retry-limits",
    "basic/authorization/index/track-upgrades",
)
def test_the_same_scopes_are_asked_for_no_more_than_a_few_times():
    steps = StepUps()
    assert [steps.count(["b", "a"]), steps.count(["a", "b"]), steps.count(["a", "b"])] == [True, True, False]
    assert steps.count(["c"])
    assert not any(steps.count(["a", "b"]) for _ in range(100))


@pytest.mark.spec(
    "basic/authorization/index/step-up",
    "basic/authorization/index/step-up-for-users",
    "basic/authorization/index/step-up-own-behalf",
    "basic/authorization/index/step-up-union",
    "basic/authorization/index/step-up-few-retries",
    "basic/authorization/index/retry-limits",
    "basic/authorization/index/track-upgrades",
)
def test_a_step_up_keeps_the_scopes_of_before_and_ends():
    steps, challenge = StepUps(), Challenge("Bearer", {"error": "insufficient_scope", "scope": "c a"})
    asked = [steps.next(("a", "b"), challenge) for _ in range(3)]
    assert asked == [("a", "b", "c"), ("a", "b", "c"), None]
    assert steps.next(("a",), Challenge("Bearer")) == ("a",)


def test_other_scopes_each_time_do_not_go_on_for_ever_either():
    steps = StepUps()
    asked = [steps.count([str(number)]) for number in range(100)]
    assert sum(asked) == error_handling.MAX_STEP_UPS_IN_ALL


# -- the server's refusals ---------------------------------------------------------------------------

METADATA = "https://notes.example.com/.well-known/oauth-protected-resource/mcp"
REFUSALS = Refusals(METADATA, {"Bearer": {}}, ("notes:read",))
BOTH = Refusals(METADATA, {"Bearer": {}, "DPoP": {"algs": "ES256"}})


def challenges_of(refused):
    """What the headers say, as a client reads them."""
    values = [value for name, value in refused.headers if name == "WWW-Authenticate"]
    assert not any("\r" in value or "\n" in value for value in values)
    return parse_challenges(", ".join(values))


@pytest.mark.spec(
    "basic/authorization/index/unauthenticated-401",
    "basic/authorization/index/challenge-scope",
    "basic/authorization/authorization-server-discovery/www-authenticate-on-401",
)
def test_a_request_without_a_token_is_told_where_to_get_one_and_no_error():
    refused = REFUSALS.missing()
    (challenge,) = challenges_of(refused)
    assert (refused.status, challenge.scheme, challenge.error) == (401, "Bearer", None)
    assert (challenge.resource_metadata, challenge.scopes) == (METADATA, ("notes:read",))
    assert "scope" not in challenges_of(Refusals(METADATA, {"Bearer": {}}).missing())[0].params


@pytest.mark.spec(
    "basic/authorization/index/status-codes",
    "basic/authorization/index/insufficient-scope-403",
    "basic/authorization/index/insufficient-scope-lists",
    "basic/authorization/index/single-challenge",
    "basic/authorization/index/scope-consistency",
    "basic/authorization/index/challenge-strategy-consistent",
)
def test_a_token_that_lacks_scopes_is_told_all_that_the_operation_needs():
    refused = REFUSALS.insufficient(["notes:write", "notes:read", "notes:delete"])
    (challenge,) = challenges_of(refused)
    assert (refused.status, challenge.error) == (403, "insufficient_scope")
    assert challenge.scopes == ("notes:read", "notes:write", "notes:delete")
    assert challenge.resource_metadata == METADATA
    assert "notes:write" in challenge.params["error_description"]


@pytest.mark.spec(
    "basic/authorization/index/token-invalid-401", "basic/authorization/index/token-error-response"
)
def test_an_invalid_token_is_told_why():
    (challenge,) = challenges_of(REFUSALS.invalid("the token has expired"))
    assert (challenge.error, challenge.params["error_description"]) == (
        "invalid_token",
        "the token has expired",
    )
    malformed = REFUSALS.malformed("two tokens")
    assert (malformed.status, challenges_of(malformed)[0].error) == (400, "invalid_request")


def test_each_scheme_has_a_challenge_and_that_in_use_the_error():
    assert [c.scheme for c in challenges_of(BOTH.missing())] == ["Bearer", "DPoP"]
    assert challenges_of(BOTH.missing())[1].params["algs"] == "ES256"
    refused = BOTH.invalid("no proof", scheme="DPoP", error="use_dpop_nonce", nonce="n")
    first, second = challenges_of(refused)
    assert (first.scheme, first.error, second.scheme, second.error) == (
        "DPoP",
        "use_dpop_nonce",
        "Bearer",
        None,
    )
    assert dict(refused.headers)["DPoP-Nonce"] == "n"
    assert [c.error for c in challenges_of(BOTH.insufficient(["a"]))] == ["insufficient_scope"] * 2


@pytest.mark.parametrize(
    "said", ['a "quoted" word', "back\\slash", "line\r\nX-Evil: 1", "\x00", "ä", "\udcff"]
)
def test_no_description_injects_a_header(said):
    """header injection in challenges"""
    (challenge,) = challenges_of(REFUSALS.invalid(said))
    assert challenge.error == "invalid_token"
    assert challenge.resource_metadata == METADATA
    assert set(challenge.params["error_description"]) <= {*map(chr, range(0x20, 0x7F))} - {'"', "\\"}


@pytest.mark.spec("basic/authorization/index/no-offline-access-challenge")
@pytest.mark.parametrize(
    "scope", ["", "a b", 'a"', "a\\b", "a\r\nX-Evil: 1", "ä", "x" * 300, "offline_access", 7]
)
def test_no_scope_injects_a_header(scope):
    """header injection in challenges"""
    with pytest.raises(ValueError, match=r"scope|offline_access"):
        check_scopes(["good", scope])


def test_scopes_are_a_list_and_each_counts_once():
    assert check_scopes(["b", "a", "b"]) == ("b", "a")
    with pytest.raises(TypeError, match="a list of strings"):
        check_scopes("notes:read")
    assert check_scopes([]) == ()
