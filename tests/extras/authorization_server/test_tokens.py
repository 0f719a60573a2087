"""extras/authorization_server/tokens: codes and tokens, used once, and revoked together."""

import base64
import json
import threading
import time

import pytest

from mcp_ref.basic.authorization.security_considerations import s256
from mcp_ref.extras.authorization_server import tokens as module
from mcp_ref.extras.authorization_server.messages import OAuthError
from mcp_ref.extras.authorization_server.settings import Settings
from mcp_ref.extras.authorization_server.tokens import Granted, TokenTable
from mcp_ref.runtime.jose import KeySet, new_key, verify

RESOURCE, CALLBACK, VERIFIER = "https://mcp.example.com", "https://app.example.com/cb", "v" * 43
GRANT = Granted("client", "ada", ("read", "write"), RESOURCE, has_refresh=True)


def table(**more):
    return TokenTable(Settings("https://auth.example.com", (RESOURCE,), {"read": "Read"}, **more))


def code_of(tokens, grant=GRANT):
    return tokens.issue_code(grant, CALLBACK, s256(VERIFIER))


def refused(run, *args):
    with pytest.raises(OAuthError) as caught:
        run(*args)
    assert caught.value.error == "invalid_grant"
    return caught.value.description


@pytest.mark.spec("basic/authorization/security-considerations/short-lived-tokens")
def test_an_access_token_is_a_signed_token_of_rfc_9068():
    tokens = table(token_seconds=60.0)
    token = tokens.issue(tokens.begin(GRANT))
    found = verify(token, KeySet.of(tokens.jwks()), algorithms=["ES256"], typ="at+jwt")
    claims = found.claims
    assert (claims["iss"], claims["sub"], claims["aud"]) == ("https://auth.example.com", "ada", RESOURCE)
    assert (claims["client_id"], claims["scope"]) == ("client", "read write")
    assert claims["exp"] - claims["iat"] == 60
    assert abs(claims["iat"] - time.time()) < 5
    assert (
        claims["jti"]
        != verify(tokens.issue(tokens.begin(GRANT)), KeySet.of(tokens.jwks()), algorithms=["ES256"]).claims[
            "jti"
        ]
    )


def test_a_token_may_have_fewer_scopes_and_be_bound_to_a_key():
    tokens = table()
    claims = tokens.find(tokens.issue(tokens.begin(GRANT), ("read",), "thumb")).claims
    assert (claims["scope"], claims["cnf"]) == ("read", {"jkt": "thumb"})


def test_the_key_may_be_given_and_its_private_part_is_not_published():
    key = new_key("ES256")
    tokens = TokenTable(Settings("https://auth.example.com", (RESOURCE,), {}), key)
    assert tokens.jwks()["keys"] == [{**key.public_jwk(), "use": "sig"}]
    assert "d" not in tokens.jwks()["keys"][0]


def test_a_token_is_found_as_it_was_issued_and_no_other_text_is():
    tokens = table()
    token = tokens.issue(tokens.begin(GRANT))
    header, payload, signature = token.split(".")
    forged = base64.urlsafe_b64encode(json.dumps({"sub": "bob"}).encode()).decode().rstrip("=")
    assert tokens.find(token).claims["sub"] == "ada"
    for other in ("", "x", token + "=", f"{header}.{forged}.{signature}", f"{header}.{payload}.", "\ud800"):
        assert tokens.find(other) is None
    assert table().find(token) is None  # of another server


def test_a_token_ends(monkeypatch):
    tokens = table(token_seconds=30.0)
    token = tokens.issue(tokens.begin(GRANT))
    now = time.time()
    monkeypatch.setattr(module.time, "time", lambda: now + 31)
    assert tokens.find(token) is None


def test_a_code_gives_what_was_granted_once_and_a_replay_revokes_it():
    tokens = table()
    code = code_of(tokens)
    family = tokens.redeem(code, "client", CALLBACK, VERIFIER)
    token, refresh = tokens.issue(family), tokens.first_refresh_token(family)
    assert family.grant == GRANT
    assert tokens.find(token) is not None
    assert "used before" in refused(tokens.redeem, code, "client", CALLBACK, VERIFIER)
    assert tokens.find(token) is None
    refused(tokens.rotate, refresh, "client")


def test_a_code_may_come_without_the_redirect_uri():
    tokens = table()
    assert tokens.redeem(code_of(tokens), "client", None, VERIFIER).grant == GRANT


@pytest.mark.parametrize(
    ("redirect_uri", "verifier", "jkt"),
    [
        (CALLBACK, "w" * 43, None),
        (CALLBACK, None, None),
        (CALLBACK + "/", VERIFIER, None),
    ],
)
def test_a_code_that_does_not_fit_is_used_up(redirect_uri, verifier, jkt):
    tokens = table()
    code = code_of(tokens)
    refused(tokens.redeem, code, "client", redirect_uri, verifier, jkt)
    refused(tokens.redeem, code, "client", CALLBACK, VERIFIER)


def test_a_code_that_is_bound_to_a_key_needs_it():
    tokens = table()
    bound = Granted("client", "ada", (), RESOURCE, jkt="thumb")
    assert "key" in refused(tokens.redeem, code_of(tokens, bound), "client", CALLBACK, VERIFIER, "other")
    assert tokens.redeem(code_of(tokens, bound), "client", CALLBACK, VERIFIER, "thumb")


def test_a_code_of_another_client_is_left_for_its_own():
    tokens = table()
    code = code_of(tokens)
    refused(tokens.redeem, code, "thief", CALLBACK, VERIFIER)
    assert tokens.redeem(code, "client", CALLBACK, VERIFIER)


def test_a_code_expires(monkeypatch):
    monkeypatch.setattr(module, "CODE_SECONDS", 0.0)
    tokens = table()
    refused(tokens.redeem, code_of(tokens), "client", CALLBACK, VERIFIER)


def test_a_code_that_is_redeemed_at_the_same_moment_by_many_is_good_for_one():
    tokens = table()
    code, outcomes = code_of(tokens), []
    together = threading.Barrier(10)

    def run():
        together.wait()
        try:
            outcomes.append(tokens.redeem(code, "client", CALLBACK, VERIFIER))
        except OAuthError:
            outcomes.append(None)

    threads = [threading.Thread(target=run) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert outcomes.count(None) == 9


@pytest.mark.spec("basic/authorization/security-considerations/rotate-refresh-tokens")
def test_a_refresh_token_is_used_once_and_its_reuse_revokes_the_family():
    tokens = table()
    family = tokens.begin(GRANT)
    first = tokens.first_refresh_token(family)
    assert tokens.refreshable(first, "client") is family
    same, second = tokens.rotate(first, "client")
    access = tokens.issue(family)
    assert same is family
    assert second != first
    assert "used before" in refused(tokens.rotate, first, "client")
    assert tokens.find(access) is None
    refused(tokens.rotate, second, "client")


def test_a_refresh_token_is_for_its_client_and_for_a_time(monkeypatch):
    tokens = table(refresh_seconds=100.0)
    first = tokens.first_refresh_token(tokens.begin(GRANT))
    refused(tokens.rotate, first, "thief")
    refused(tokens.rotate, "x.y", "client")
    refused(tokens.rotate, "", "client")
    _, second = tokens.rotate(first, "client")
    monkeypatch.setattr(tokens._families, "_now", lambda: time.monotonic() + 101)
    refused(tokens.rotate, second, "client")


def test_of_many_threads_with_one_refresh_token_one_gets_the_next():
    tokens, outcomes = table(), []
    first = tokens.first_refresh_token(tokens.begin(GRANT))
    together = threading.Barrier(10)

    def run():
        together.wait()
        try:
            outcomes.append(tokens.rotate(first, "client"))
        except OAuthError:
            outcomes.append(None)

    threads = [threading.Thread(target=run) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert outcomes.count(None) == 9


def test_what_a_client_revokes_ends_with_all_that_was_issued_with_it():
    tokens = table()
    for end in ("access", "refresh"):
        family = tokens.begin(GRANT)
        made = {"access": tokens.issue(family), "refresh": tokens.first_refresh_token(family)}
        tokens.revoke(made[end], "thief")
        tokens.revoke("x", "client")
        assert tokens.find(made["access"])
        tokens.revoke(made[end], "client")
        assert tokens.find(made["access"]) is None
        refused(tokens.rotate, made["refresh"], "client")


def test_secrets_are_kept_as_hashes():
    tokens = table()
    family = tokens.begin(GRANT)
    token = tokens.first_refresh_token(family)
    kept = repr([vars(tokens._families), vars(tokens._codes), family])
    assert token.partition(".")[2] not in kept
    assert code_of(tokens) not in repr(vars(tokens._codes))
