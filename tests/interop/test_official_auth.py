"""A client of ours against the official SDK's authorization server and resource server.

Where the SDK (2.3) differs from the pages:

    token requests      are refused where the form does not name the client, also when the header does
    authorization       its responses have no `iss`, and its metadata does not say that they have
    its issuer          ends with a slash where it was given as a URL, as in most of its examples
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from wsgiref.types import StartResponse, WSGIEnvironment

import pytest
import requests
from interop.clocks import Clock
from interop.consent import Consent
from interop.http_children import serving
from peers import MODERN, PATIENCE, nothing_left
from werkzeug.serving import make_server
from werkzeug.wrappers import Request

from mcp_ref import AuthorizationError, EnterpriseManaged, FileTokens, HttpFailure, OAuth, connect
from mcp_ref.runtime.jose import new_key, sign

IDP_KEY = new_key()

Serve = Callable[..., str]


@pytest.fixture(scope="module")
def serve() -> Iterator[Serve]:
    urls: dict[str, str] = {}
    with nothing_left(), ExitStack() as children:

        def url_of(**options: Any) -> str:
            asked = json.dumps({**options, "key": IDP_KEY.public_jwk()})
            if asked not in urls:
                urls[asked] = children.enter_context(serving("official_auth_server.py", asked, ends=-15))
            return urls[asked]

        yield url_of


def added(url: str, auth: OAuth, **options: Any) -> str:
    with connect(url, auth=auth, **options) as client:
        return str(client.call_tool("add", {"a": 1, "b": 2}).text)


@pytest.mark.parametrize("revision", ["2025-03-26", "2025-06-18", "2025-11-25", MODERN])
def test_from_connect_to_the_first_call_in_every_revision(serve: Serve, revision: str) -> None:
    url, consent = serve(), Consent()
    assert added(url, OAuth(user_agent=consent), revision=revision) == "3"
    (asked,) = consent.asked
    assert (asked["resource"], asked["code_challenge_method"]) == (url, "S256")
    assert "notes:read" in asked["scope"].split()


def test_an_issuer_with_a_slash_at_its_end(serve: Serve) -> None:
    assert added(serve(slash=True), OAuth(user_agent=Consent())) == "3"


def test_a_token_that_ends_is_refreshed_without_the_person(serve: Serve, clock: Clock) -> None:
    consent = Consent()
    with connect(serve(seconds=600, clock=str(clock)), auth=OAuth(user_agent=consent)) as client:
        for _ in range(3):
            assert client.call_tool("add", {"a": 1, "b": 2}).text == "3"
            clock.later(700)
    assert len(consent.asked) == 1


def test_tokens_of_a_file_are_used_and_renewed_by_the_next_connection(
    serve: Serve, clock: Clock, tmp_path: Path
) -> None:
    consent, url = Consent(), serve(seconds=600, clock=str(clock))
    for _ in range(3):
        assert added(url, OAuth(user_agent=consent, store=FileTokens(tmp_path / "tokens"))) == "3"
        clock.later(700)
    assert len(consent.asked) == 1


@pytest.mark.parametrize("auth", [None, "wrong"])
def test_without_a_token_and_with_a_wrong_one_there_is_no_way(serve: Serve, auth: str | None) -> None:
    with pytest.raises(HttpFailure, match="401"):
        connect(serve(), auth=auth, revision=MODERN)


def test_a_client_that_is_not_known_is_told(serve: Serve) -> None:
    """The SDK answers the browser, which is sent nowhere."""

    def stays(url: str) -> str:
        answer = requests.get(url, allow_redirects=False, timeout=PATIENCE)
        assert answer.status_code == 400
        return url

    with pytest.raises(AuthorizationError):
        connect(serve(), auth=OAuth(client_id="never registered", user_agent=stays), revision=MODERN)


def test_threads_that_call_at_once_ask_the_person_once(serve: Serve, clock: Clock) -> None:
    consent, texts = Consent(), []
    with connect(serve(seconds=600, clock=str(clock)), auth=OAuth(user_agent=consent)) as client:
        clock.later(700)
        threads = [
            threading.Thread(target=lambda: texts.append(client.call_tool("add", {"a": 1, "b": 2}).text))
            for _ in range(20)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
    assert texts == ["3"] * 20
    assert len(consent.asked) == 1


# -- the identity provider of a company ------------------------------------------------------------


@contextmanager
def identity_provider(exchanges: list[dict[str, str]]) -> Iterator[str]:
    """Its token endpoint: grants all that it is asked for, to the client that the SDK's server knows."""

    def app(environ: WSGIEnvironment, start_response: StartResponse) -> list[bytes]:
        form = Request(environ).form.to_dict()
        exchanges.append(form)
        now = int(time.time())
        claims = {
            "iss": "https://idp.test",
            "sub": "ann",
            "aud": form["audience"],
            "resource": form["resource"],
            "client_id": "notes",
            "scope": form.get("scope", "notes:read"),
            "jti": str(len(exchanges)),
            "iat": now,
            "exp": now + 300,
        }
        grant = sign(claims, IDP_KEY, algorithm="ES256", header={"typ": "oauth-id-jag+jwt"})
        kind = "urn:ietf:params:oauth:token-type:id-jag"
        said = {"access_token": grant, "issued_token_type": kind, "token_type": "N_A", "expires_in": 300}
        start_response("200 OK", [("Content-Type", "application/json")])
        return [json.dumps(said).encode()]

    server = make_server("127.0.0.1", 0, app)
    server.RequestHandlerClass.log = lambda *_: None  # type: ignore[method-assign]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/token"
    finally:
        server.shutdown()
        thread.join(PATIENCE)
        server.server_close()


def test_an_id_jag_is_taken_by_the_official_server(serve: Serve) -> None:
    url, exchanges = serve(assertions=True), []
    with identity_provider(exchanges) as token_endpoint:
        grant = EnterpriseManaged(
            id_token="the.id.token", idp_token_endpoint=token_endpoint, idp_client_id="notes-at-idp"
        )
        auth = OAuth(client_id="notes", client_secret="the-secret-of-notes", grant=grant)
        assert added(url, auth) == "3"
    assert exchanges[0]["subject_token"] == "the.id.token"
    assert (exchanges[0]["audience"], exchanges[0]["resource"]) == (url.removesuffix("/mcp"), url)
