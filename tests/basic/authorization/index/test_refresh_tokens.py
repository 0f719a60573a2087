"""basic/authorization/index/refresh_tokens: when a token is renewed, and what is asked for."""

import pytest

from mcp_ref.basic.authorization.index.authorization_flow import Tokens
from mcp_ref.basic.authorization.index.refresh_tokens import (
    EARLY_SECONDS,
    GRANT_TYPES,
    is_due,
    refresh_form,
    renewed,
    with_offline_access,
)


def tokens(**fields):
    return Tokens(**{"access_token": "a", "token_type": "Bearer", "issuer": "i", "resource": "r", **fields})


@pytest.mark.parametrize(
    ("life", "age", "due"),
    [
        (None, 1e9, False),
        (3600, 0, False),
        (3600, 3600 - EARLY_SECONDS - 1, False),
        (3600, 3600 - EARLY_SECONDS, True),
        (3600, 3600 - EARLY_SECONDS + 1, True),
        (3600, 3601, True),
        (60, 53, False),
        (60, 55, True),
        (1, 0.5, False),
        (1, 2, True),
    ],
)
def test_a_token_is_due_shortly_before_its_end(life, age, due):
    kept = tokens(obtained_at=1000.0, expires_at=None if life is None else 1000.0 + life)
    assert is_due(kept, 1000.0 + age) is due


@pytest.mark.spec("basic/authorization/index/refresh-offline-access")
@pytest.mark.parametrize(
    ("scopes", "supported", "asked"),
    [
        (("a",), ["offline_access", "a"], ("a", "offline_access")),
        (("offline_access",), ["offline_access"], ("offline_access",)),
        (("a",), ["a"], ("a",)),
        (("a",), None, ("a",)),
        (("a",), "offline_access", ("a", "offline_access")),
        (("a",), 5, ("a",)),
        (None, ["offline_access"], None),
    ],
)
def test_offline_access_is_for_servers_that_list_it(scopes, supported, asked):
    assert with_offline_access(scopes, {"scopes_supported": supported}) == asked


@pytest.mark.spec("basic/authorization/index/refresh-grant-type")
def test_a_client_registers_for_refresh_tokens():
    assert "refresh_token" in GRANT_TYPES


def test_a_refresh_names_the_resource_and_no_scopes():
    assert refresh_form(tokens(refresh_token="t", scopes=("a",))) == {
        "grant_type": "refresh_token",
        "refresh_token": "t",
        "resource": "r",
    }


@pytest.mark.spec("basic/authorization/index/refresh-not-assumed")
def test_what_a_refresh_does_not_say_is_as_before():
    before = tokens(refresh_token="old", scopes=("a",), requested=("a", "b"))
    now = renewed(before, tokens(access_token="b"))
    assert (now.access_token, now.refresh_token, now.scopes, now.requested) == (
        "b",
        "old",
        ("a",),
        ("a", "b"),
    )
    now = renewed(before, tokens(refresh_token="new", scopes=()))
    assert (now.refresh_token, now.scopes) == ("new", ())
    assert renewed(tokens(), tokens()).refresh_token is None
