"""Our client and our protected server with a foreign authorization server, which is made with Authlib.

From `connect` to the result of a tool.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
import requests
from interop.clocks import Clock
from interop.consent import Consent
from interop.http_children import serving
from peers import MODERN, PATIENCE, nothing_left

from mcp_ref import AuthorizationError, ClientCredentials, MemoryTokens, OAuth, connect
from mcp_ref.runtime.jose import new_key

KEY = new_key()

Serve = Callable[..., str]


@pytest.fixture(scope="module")
def serve() -> Iterator[Serve]:
    """The URL of the MCP server behind an authorization server with these options."""
    urls: dict[str, str] = {}
    with nothing_left(), ExitStack() as children:

        def url_of(**options: Any) -> str:
            asked = json.dumps({**options, "key": KEY.public_jwk()})
            if asked not in urls:
                urls[asked] = children.enter_context(serving("authlib_server.py", asked))
            return urls[asked]

        yield url_of


def metadata_of(url: str) -> dict[str, Any]:
    """Of the protected resource."""
    place = url.replace("/mcp", "/.well-known/oauth-protected-resource/mcp")
    return dict(requests.get(place, timeout=PATIENCE).json())


def seen(url: str) -> list[dict[str, str]]:
    """What the authorization server was asked."""
    origin = metadata_of(url)["authorization_servers"][0].removesuffix("/tenant")
    return list(requests.get(f"{origin}/seen", timeout=PATIENCE).json())


def grants(url: str) -> list[str]:
    """The grant types of the token requests for this MCP server."""
    return [one["grant_type"] for one in seen(url) if one.get("resource") == url and "grant_type" in one]


def added(url: str, auth: OAuth) -> str:
    with connect(url, auth=auth) as client:
        return str(client.call_tool("add", {"a": 1, "b": 2}).text)


def test_a_stranger_registers_and_a_person_consents(serve: Serve) -> None:
    url, consent = serve(), Consent()
    assert added(url, OAuth(user_agent=consent)) == "3"
    (asked,) = consent.asked
    assert (asked["resource"], asked["code_challenge_method"]) == (url, "S256")
    assert set(asked["scope"].split()) >= {"notes:read"}
    assert {"path": "/register"} in seen(url)


@pytest.mark.parametrize("revision", ["2025-06-18", "2025-11-25", MODERN])
def test_a_tool_that_needs_more_scopes_is_asked_for_them(serve: Serve, revision: str) -> None:
    url, consent = serve(), Consent()
    with connect(url, auth=OAuth(user_agent=consent), revision=revision) as client:
        assert "ann" in client.call_tool("who").text
        assert client.call_tool("write", {"text": "x"}).text == "x"
    assert ["notes:write" in asked["scope"].split() for asked in consent.asked] == [False, True]
    assert len({asked["client_id"] for asked in consent.asked}) == 1  # it registered once


@pytest.mark.parametrize("method", ["client_secret_basic", "client_secret_post", "none"])
def test_a_client_registers_with_each_method(serve: Serve, method: str) -> None:
    assert added(serve(methods=[method]), OAuth(user_agent=Consent())) == "3"


@pytest.mark.parametrize("name", ["notes-basic", "notes-post"])
def test_a_client_of_the_operator_has_a_secret(serve: Serve, name: str) -> None:
    method = {"notes-basic": "client_secret_basic", "notes-post": "client_secret_post"}[name]
    url, consent = serve(registration=False), Consent()
    auth = OAuth(
        client_id=name, client_secret=f"the-secret-of-{name}", auth_method=method, user_agent=consent
    )
    assert added(url, auth) == "3"
    assert consent.asked[0]["client_id"] == name


def test_a_client_of_the_operator_has_a_key(serve: Serve) -> None:
    url, consent = serve(methods=["private_key_jwt"], registration=False), Consent()
    auth = OAuth(client_id="notes-key", private_key=KEY.private_jwk(), user_agent=consent)
    assert added(url, auth) == "3"


def test_a_public_client_of_the_operator_has_its_id_alone(serve: Serve) -> None:
    assert added(serve(registration=False), OAuth(client_id="notes-public", user_agent=Consent())) == "3"


def test_metadata_of_openid_and_an_issuer_with_a_path(serve: Serve) -> None:
    url = serve(oidc=True)
    assert metadata_of(url)["authorization_servers"][0].endswith("/tenant")
    assert added(url, OAuth(user_agent=Consent())) == "3"


def test_a_server_that_does_not_name_itself_in_its_responses(serve: Serve) -> None:
    assert added(serve(iss=False), OAuth(user_agent=Consent())) == "3"


def test_a_token_that_ends_is_refreshed_without_the_person(serve: Serve, clock: Clock) -> None:
    """With rotation: each refresh token is good once."""
    url, consent = serve(seconds=600, clock=str(clock)), Consent()
    with connect(url, auth=OAuth(user_agent=consent)) as client:
        for _ in range(3):
            clock.later(700)
            assert client.call_tool("add", {"a": 1, "b": 2}).text == "3"
    assert len(consent.asked) == 1
    assert grants(url) == ["authorization_code", *["refresh_token"] * 3]


def test_what_is_kept_is_used_by_the_next_connection(serve: Serve) -> None:
    url, consent, store = serve(), Consent(), MemoryTokens()
    for _ in range(2):
        assert added(url, OAuth(user_agent=consent, store=store)) == "3"
    assert len(consent.asked) == 1


@pytest.mark.parametrize(
    "given",
    [
        {"client_id": "notes-basic", "client_secret": "the-secret-of-notes-basic"},
        {
            "client_id": "notes-post",
            "client_secret": "the-secret-of-notes-post",
            "auth_method": "client_secret_post",
        },
        {"client_id": "notes-key", "private_key": KEY.private_jwk(), "auth_method": "private_key_jwt"},
    ],
    ids=lambda given: given["client_id"],
)
def test_a_machine_has_credentials(serve: Serve, given: dict[str, Any]) -> None:
    def asks_nobody(url: str) -> str:
        raise AssertionError("a person was asked")

    url = serve(registration=False)
    auth = OAuth(grant=ClientCredentials(), scopes=["notes:read"], user_agent=asks_nobody, **given)
    assert added(url, auth) == "3"
    assert "client_credentials" in grants(url)


def test_a_wrong_secret_is_told(serve: Serve) -> None:
    auth = OAuth(client_id="notes-basic", client_secret="a wrong one", grant=ClientCredentials())
    with pytest.raises(AuthorizationError) as problem:
        added(serve(registration=False), auth)
    assert problem.value.error == "invalid_client"
    assert "a wrong one" not in str(problem.value)


def test_a_bearer_token_will_not_do_where_a_bound_one_was_asked_for(serve: Serve) -> None:
    """The server knows nothing of DPoP, and ignores the proof."""
    with pytest.raises(AuthorizationError, match="of the type Bearer, and not DPoP"):
        added(serve(), OAuth(dpop=True, user_agent=Consent()))
