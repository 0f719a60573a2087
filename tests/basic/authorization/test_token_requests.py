"""basic/authorization/token_requests: how a client shows who it is, and which assertions are accepted."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kinds import json_values

from mcp_ref.basic.authorization.token_requests import (
    ASSERTION_SECONDS,
    CLIENT_ASSERTION_TYPE,
    METHODS_OF_CLIENTS,
    BadAssertion,
    TokenClient,
    check_assertion,
    choose_method,
)
from mcp_ref.runtime.jose import KeySet, load_key, new_key, peek, sign

ISSUER = "https://issuer.test"
NOW = 1_800_000_000.0
KEY = new_key()
PUBLIC = load_key(KEY.public_jwk())
SECRET = "the s3cret:of & a+client"
FORM = {"grant_type": "client_credentials"}


# -- which method ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("supported", "has_secret", "has_key", "chosen"),
    [
        (["client_secret_post", "client_secret_basic"], True, False, "client_secret_basic"),
        (["client_secret_post"], True, False, "client_secret_post"),
        (None, True, False, "client_secret_basic"),
        (["private_key_jwt", "client_secret_basic"], False, True, "private_key_jwt"),
        (["private_key_jwt", "client_secret_basic"], True, True, "private_key_jwt"),
        (["client_secret_basic"], True, True, "client_secret_basic"),
        (["none"], False, False, "none"),
        (["client_secret_basic"], False, False, "none"),
        (None, False, False, "none"),
    ],
)
def test_the_method_is_one_that_both_have(supported, has_secret, has_key, chosen):
    assert choose_method(supported, has_secret=has_secret, has_key=has_key) == chosen


@pytest.mark.parametrize(
    ("supported", "has_secret", "has_key"),
    [(["none"], True, False), ([], True, False), (None, False, True), (["tls_client_auth"], True, True)],
)
def test_a_client_with_credentials_never_goes_without(supported, has_secret, has_key):
    with pytest.raises(ValueError, match="the authorization server takes no "):
        choose_method(supported, has_secret=has_secret, has_key=has_key)


def test_a_method_that_was_said_is_taken():
    said = choose_method(["client_secret_basic"], has_secret=True, has_key=False, wanted="client_secret_post")
    assert said == "client_secret_post"
    assert choose_method(None, has_secret=True, has_key=False, wanted="none") == "none"
    for wanted in ("private_key_jwt", "tls_client_auth", "x"):
        with pytest.raises(ValueError, match="it has not what that takes"):
            choose_method(None, has_secret=True, has_key=False, wanted=wanted)


# -- authentication --------------------------------------------------------------------------------


def test_a_public_client_says_its_id():
    client = TokenClient("me")
    assert client.authenticated(FORM, ISSUER) == ({}, {**FORM, "client_id": "me"})


def test_a_secret_goes_into_the_header():
    """RFC 6749, section 2.3.1: encoded as in a form, then joined."""
    client = TokenClient("me:ä", method="client_secret_basic", secret=SECRET)
    headers, form = client.authenticated(FORM, ISSUER)
    assert form == {**FORM, "client_id": "me:ä"}
    scheme, value = headers.pop("Authorization").split()
    assert (scheme, headers) == ("Basic", {})
    assert base64.b64decode(value) == b"me%3A%C3%A4:the+s3cret%3Aof+%26+a%2Bclient"


def test_a_secret_goes_into_the_form():
    client = TokenClient("me", method="client_secret_post", secret=SECRET)
    assert client.authenticated(FORM, ISSUER) == (
        {},
        {**FORM, "client_id": "me", "client_secret": SECRET},
    )


@pytest.mark.spec("basic/authorization/client-registration/cimd-private-key-jwt")
@pytest.mark.parametrize("algorithm", ["ES256", "RS256", "EdDSA"])
def test_a_key_signs_an_assertion_for_this_server(algorithm):
    key = new_key(algorithm)
    client = TokenClient(
        "https://me.test/about", method="private_key_jwt", key=key, signing_algorithm=algorithm
    )
    headers, form = client.authenticated(FORM, ISSUER)
    assert headers == {}
    assert set(form) == {"grant_type", "client_assertion_type", "client_assertion"}
    assert form["client_assertion_type"] == CLIENT_ASSERTION_TYPE
    public = KeySet.of({"keys": [key.public_jwk()]})
    found = check_assertion(form["client_assertion"], public, issuer=client.client_id, audience=[ISSUER])
    assert found.subject == client.client_id
    assert set(found.claims) == {"iss", "sub", "aud", "exp", "iat", "jti"}
    assert found.claims["exp"] == found.claims["iat"] + ASSERTION_SECONDS == found.ends
    assert found.header["alg"] == algorithm


def test_every_assertion_is_a_new_one():
    client = TokenClient("me", method="private_key_jwt", key=KEY)
    assert len({peek(client.assertion(ISSUER))[1]["jti"] for _ in range(50)}) == 50
    assert peek(client.assertion(ISSUER, now=NOW))[1]["iat"] == NOW


def test_a_form_is_not_changed():
    form = dict(FORM)
    for method in METHODS_OF_CLIENTS:
        TokenClient("me", method=method, secret=SECRET, key=KEY).authenticated(form, ISSUER)
    assert form == FORM


def test_no_secret_is_in_a_repr():
    for method in METHODS_OF_CLIENTS:
        client = TokenClient("me", method=method, secret=SECRET, key=KEY)
        assert SECRET not in repr(client)
        assert KEY.private_jwk()["d"] not in repr(client)


def test_a_secret_in_the_wrong_place_is_not_shown():
    for wrong in (
        lambda: TokenClient("me", SECRET),
        lambda: TokenClient("me", SECRET, "none"),
        lambda: TokenClient("me", method=SECRET),
        lambda: TokenClient("me", method=SECRET, secret="client_secret_basic"),
    ):
        with pytest.raises((TypeError, ValueError)) as problem:
            wrong()
        assert SECRET not in repr(problem.value)


def test_a_method_has_what_it_takes():
    for wrong in (
        lambda: TokenClient("me", method="tls_client_auth"),
        lambda: TokenClient("me", method="client_secret_basic"),
        lambda: TokenClient("me", method="client_secret_post"),
        lambda: TokenClient("me", method="private_key_jwt"),
        lambda: TokenClient("me", method="private_key_jwt", key=PUBLIC),
        lambda: TokenClient("me").assertion(ISSUER),
    ):
        with pytest.raises(ValueError):
            wrong()


# -- assertions, checked ---------------------------------------------------------------------------

CLAIMS = {"iss": "me", "sub": "ann", "aud": ISSUER, "exp": int(NOW) + 60, "iat": int(NOW), "jti": "1"}


def assertion(key=KEY, header=None, **claims):
    """An assertion with any claims; None takes one away."""
    whole = {name: value for name, value in {**CLAIMS, **claims}.items() if value is not None}
    return sign(whole, key, algorithm="ES256", header=header)


def check(token, **other):
    given = {"issuer": "me", "audience": [ISSUER], "now": NOW}
    return check_assertion(token, PUBLIC, **given | other)


def refused(token, **other):
    """Why an assertion is refused; nothing of it is repeated."""
    with pytest.raises(BadAssertion) as problem:
        check(token, **other)
    assert "ann" not in str(problem.value)
    return str(problem.value)


def test_an_assertion_that_fits_is_accepted():
    found = check(assertion())
    assert (found.subject, found.ends, found.jti, found.claims) == ("ann", NOW + 60, "1", CLAIMS)
    assert check(assertion(jti=None)).jti is None
    assert check(assertion(aud=["https://other.test", ISSUER])).subject == "ann"


def test_wrong_audience_is_refused():
    for aud in ("https://other.test", ISSUER + "/", [], None, ISSUER.upper()):
        assert "another server" in refused(assertion(aud=aud))
    assert "audience" in refused(assertion(aud=5))


def test_another_issuer_is_refused():
    for iss in ("you", None, "", ["me"], 5):
        assert "another issuer" in refused(assertion(iss=iss))


def test_tokens_expired_and_not_yet_valid_are_refused():
    assert "expired" in refused(assertion(exp=NOW - 30))
    assert "when it expires" in refused(assertion(exp=None))
    assert "not valid yet" in refused(assertion(nbf=NOW + 31))
    assert "more than 3600 seconds" in refused(assertion(exp=NOW + 3700))
    check(assertion(exp=NOW - 29, nbf=NOW + 29))  # clock skew


def test_wrong_key_is_refused():
    assert "signature" in refused(assertion(new_key()))


def test_alg_none_and_another_algorithm_are_refused():
    assert "algorithm" in refused(assertion(), algorithms=["RS256"])
    none = base64.urlsafe_b64encode(b'{"alg":"none"}').rstrip(b"=").decode()
    assert "algorithm" in refused(f"{none}.{assertion().split('.')[1]}.")


def test_a_type_is_looked_at_where_asked():
    check(assertion(header={"typ": "oauth-id-jag+jwt"}), typ="oauth-id-jag+jwt")
    assert "oauth-id-jag+jwt" in refused(assertion(), typ="oauth-id-jag+jwt")


def test_a_subject_and_an_id_are_texts():
    for sub in (None, "", 5, ["ann"]):
        assert "who it is about" in refused(assertion(sub=sub))
    for jti in ("", 5, [], "x" * 257):
        assert "jti" in refused(assertion(jti=jti))


@given(text=st.text())
def test_any_text_is_no_assertion(text):
    refused(text + "?")


@given(claims=st.dictionaries(st.sampled_from(sorted(CLAIMS)), json_values))
def test_any_claims_are_refused_or_accepted(claims):
    try:
        check(assertion(**claims))
    except BadAssertion:
        pass
