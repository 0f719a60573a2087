"""The extensions of authorization as a whole: our client, authorization server and protected server.

Each part has its own tests. Here they meet over HTTP, from `connect` to the result of a tool.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from wsgiref.types import StartResponse, WSGIEnvironment

import pytest
import requests
from oauth_peers import Browser, Running, authorization
from peers import MODERN, PATIENCE
from protected import Place
from werkzeug.wrappers import Request

from mcp_ref import (
    AuthorizationError,
    ClientCredentials,
    Context,
    EnterpriseManaged,
    FileTokens,
    MemoryTokens,
    OAuth,
    Server,
    connect,
)
from mcp_ref.extensions.dpop import Nonces
from mcp_ref.extras.authorization_server import RegisteredClient
from mcp_ref.runtime.http_server.server import HttpServer
from mcp_ref.runtime.jose import new_key, peek, sign

KEY, IDP_KEY = new_key(), new_key()
IDP = "https://idp.test"
CLIENTS = [
    RegisteredClient("machine", client_secret="the secret of: machine", grant_types=("client_credentials",)),
    RegisteredClient("signing", jwks={"keys": [KEY.public_jwk()]}, grant_types=("client_credentials",)),
    RegisteredClient(
        "editor",
        client_secret="the secret of editor",
        grant_types=("urn:ietf:params:oauth:grant-type:jwt-bearer",),
    ),
]


def notes() -> Server:
    server = Server("notes", version="1")

    @server.tool
    def who(ctx: Context) -> str:
        return str(ctx.principal)

    @server.tool(scopes=["notes:write"])
    def write(ctx: Context) -> str:
        assert ctx.token is not None
        return " ".join(sorted(ctx.token.scopes))

    return server


class Site:
    """Both servers."""

    def __init__(self, issuing: Running, url: str) -> None:
        self.issuing, self.url = issuing, url


@contextmanager
def site(issuing: dict[str, Any] | None = None, **protecting: Any) -> Iterator[Site]:
    place = Place()
    options = {"resources": [place.url], "clients": CLIENTS, **(issuing or {})}
    with authorization(**options) as auth:
        given = {"scopes": ["notes:read"], **protecting}
        with place.serving(notes(), auth.issuer, **given) as url:
            yield Site(auth, url)


def person(url: str) -> str:
    """Ada, who logs in and allows it."""
    browser = Browser()
    page = browser.open(url)
    answer = browser.submit(browser.log_in(page, "ada"), answer="allow").location
    assert answer is not None
    return answer


def asks_nobody(url: str) -> str:
    raise AssertionError("a person was asked")


def called(url: str, auth: OAuth, tool: str = "who", **options: Any) -> str:
    with connect(url, auth=auth, **options) as client:
        return str(client.call_tool(tool).text)


# -- client credentials ----------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["client_secret_basic", "client_secret_post"])
def test_a_machine_with_a_secret(method: str) -> None:
    """Its characters are encoded twice in a header: as in a form, then as Basic."""
    auth = OAuth(
        client_id="machine",
        client_secret="the secret of: machine",
        auth_method=method,
        grant=ClientCredentials(),
        user_agent=asks_nobody,
    )
    with site() as both:
        assert called(both.url, auth) == "machine"


def test_a_machine_with_a_key_that_asks_for_more_scopes_when_it_needs_them() -> None:
    auth = OAuth(
        client_id="signing", private_key=KEY.private_jwk(), grant=ClientCredentials(), user_agent=asks_nobody
    )
    with site() as both, connect(both.url, auth=auth) as client:
        assert client.call_tool("who").text == "signing"
        assert "notes:write" in client.call_tool("write").text.split()


@pytest.fixture
def pass_time(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Moves the clock of client and server by so many seconds."""
    moved, clock = [0.0], time.time
    monkeypatch.setattr(time, "time", lambda: clock() + sum(moved))
    return moved.append


def test_a_machine_gets_another_token_when_its_token_ends(pass_time: Callable[[float], None]) -> None:
    auth = OAuth(
        client_id="signing", private_key=KEY.private_jwk(), grant=ClientCredentials(), user_agent=asks_nobody
    )
    with site({"token_seconds": 600}, clock_skew=0) as both, connect(both.url, auth=auth) as client:
        for _ in range(3):
            assert client.call_tool("who").text == "signing"
            pass_time(601)


def test_a_machine_with_a_wrong_key_is_told() -> None:
    auth = OAuth(
        client_id="signing",
        private_key={**new_key().private_jwk(), "kid": KEY.kid},
        grant=ClientCredentials(),
        user_agent=asks_nobody,
    )
    with site() as both, pytest.raises(AuthorizationError) as problem:
        called(both.url, auth)
    assert problem.value.error == "invalid_client"


# -- enterprise-managed authorization --------------------------------------------------------------


class IdentityProvider:
    """Of a company. It grants what it is asked for, unless the policy says no."""

    def __init__(self) -> None:
        self.exchanges: list[dict[str, str]] = []
        self.headers: list[dict[str, str]] = []
        self.changes: dict[str, Any] = {}
        self.refuses = False
        self._http = HttpServer(self._answer, port=0)
        self.token_endpoint = f"http://127.0.0.1:{self._http.port}/token"

    def _answer(self, environ: WSGIEnvironment, start_response: StartResponse) -> list[bytes]:
        request = Request(environ)
        form = request.form.to_dict()
        self.exchanges.append(form)
        self.headers.append(dict(request.headers))
        if self.refuses:
            start_response("400 Bad Request", [("Content-Type", "application/json")])
            return [b'{"error": "access_denied", "error_description": "the policy says no"}']
        now = int(time.time())
        claims = {
            "iss": IDP,
            "sub": "ada",
            "aud": form["audience"],
            "resource": form["resource"],
            "client_id": "editor",
            "scope": "notes:read",
            "jti": str(len(self.exchanges)),
            "iat": now,
            "exp": now + 300,
            **self.changes,
        }
        grant = sign(claims, IDP_KEY, algorithm="ES256", header={"typ": "oauth-id-jag+jwt"})
        kind = "urn:ietf:params:oauth:token-type:id-jag"
        said = {"access_token": grant, "issued_token_type": kind, "token_type": "N_A", "expires_in": 300}
        start_response("200 OK", [("Content-Type", "application/json")])
        return [json.dumps(said).encode()]

    def __enter__(self) -> IdentityProvider:
        self._thread = threading.Thread(target=self._http.serve, name="identity provider")
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._http.close(0.1)
        self._thread.join(PATIENCE)

    def auth(self, **options: Any) -> OAuth:
        grant = EnterpriseManaged(
            id_token="the.id.token",
            idp_token_endpoint=self.token_endpoint,
            idp_client_id="editor-at-idp",
            idp_client_secret="the secret at the IdP",
        )
        given = {"client_id": "editor", "client_secret": "the secret of editor", "user_agent": asks_nobody}
        return OAuth(grant=grant, **given | options)


@pytest.fixture
def company() -> Iterator[tuple[Site, IdentityProvider]]:
    trusted = {"identity_providers": {IDP: {"keys": [IDP_KEY.public_jwk()]}}}
    with ExitStack() as stack:
        provider = stack.enter_context(IdentityProvider())
        yield stack.enter_context(site(trusted)), provider


def test_a_person_who_signed_in_at_the_company_is_not_asked(company: tuple[Site, IdentityProvider]) -> None:
    both, provider = company
    assert called(both.url, provider.auth()) == "ada"
    (form,) = provider.exchanges
    assert (form["audience"], form["resource"]) == (both.issuing.issuer, both.url)
    assert form["client_secret"] == "the secret at the IdP"


def test_what_is_between_the_client_and_the_idp_stays_there() -> None:
    """No secret of the other server, and no proof: the ID-JAG is bound to no key."""
    trusted = {"identity_providers": {IDP: {"keys": [IDP_KEY.public_jwk()]}}}
    with IdentityProvider() as provider, site(trusted, dpop="required") as both:
        assert called(both.url, provider.auth(dpop=True)) == "ada"
    assert "the secret of editor" not in str(provider.exchanges) + str(provider.headers)
    assert all("Dpop" not in headers for headers in provider.headers)


def test_the_policy_of_the_company_may_say_no(company: tuple[Site, IdentityProvider]) -> None:
    both, provider = company
    provider.refuses = True
    with pytest.raises(AuthorizationError, match="the policy says no") as problem:
        called(both.url, provider.auth())
    assert problem.value.error == "access_denied"


@pytest.mark.parametrize(
    "changes",
    [{"aud": "https://other.test"}, {"client_id": "machine"}, {"exp": 1}, {"resource": "https://x.test"}],
)
def test_an_id_jag_that_does_not_fit_is_refused(
    company: tuple[Site, IdentityProvider], changes: dict[str, Any]
) -> None:
    both, provider = company
    provider.changes = changes
    with pytest.raises(AuthorizationError) as problem:
        called(both.url, provider.auth())
    assert problem.value.error == "invalid_grant"


# -- DPoP ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("revision", ["2025-06-18", "2025-11-25", MODERN])
@pytest.mark.parametrize("nonces", [None, Nonces()], ids=["no nonce", "nonces"])
def test_a_token_that_is_bound_to_the_key_of_the_client(revision: str, nonces: Nonces | None) -> None:
    with site(dpop="required", dpop_nonces=nonces) as both:
        auth = OAuth(dpop=True, user_agent=person)
        with connect(both.url, auth=auth, revision=revision) as client:
            assert client.call_tool("who").text == "ada"
            assert client.call_tool("who").text == "ada"


def test_a_bound_token_is_refreshed_with_its_key_also_by_the_next_process(tmp_path: Any) -> None:
    """The key is kept with the tokens: they are worth nothing without it."""
    asked: list[str] = []
    used: set[str] = set()

    class Later(FileTokens):
        """Read when the access token is no longer good."""

        def get(self, key: str) -> dict[str, Any] | None:
            found = super().get(key)
            if found is None or "access_token" not in found:
                return found
            used.add(found["access_token"])
            return {**found, "access_token": f"{found['access_token']}0"}

    def once(url: str) -> str:
        asked.append(url)
        return person(url)

    with site(dpop="required") as both:
        for store in (FileTokens, Later, Later):
            auth = OAuth(dpop=True, user_agent=once, store=store(tmp_path / "tokens"))
            assert called(both.url, auth) == "ada"
    assert len(asked) == 1
    assert len(used) >= 2  # so it was refreshed


def test_a_stolen_token_is_worth_nothing() -> None:
    """Neither as a bearer token, nor with another key."""
    kept: list[dict[str, Any]] = []

    class Watched(MemoryTokens):
        def set(self, key: str, value: dict[str, Any]) -> None:
            kept.append(value)
            super().set(key, value)

    with site(dpop="required") as both:
        assert called(both.url, OAuth(dpop=True, user_agent=person, store=Watched())) == "ada"
        token = next(value["access_token"] for value in kept if "access_token" in value)
        assert peek(token)[1]["cnf"]["jkt"]
        body = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        for header in (f"Bearer {token}", f"DPoP {token}"):
            answer = requests.post(
                both.url,
                json=body,
                headers={"Authorization": header, "Connection": "close"},
                timeout=PATIENCE,
            )
            assert answer.status_code == 401, header
