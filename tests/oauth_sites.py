"""An MCP server and its authorization server on two sockets, whose manners a test may change.

    with oauth_site() as site:
        connect(site.url, auth=OAuth(user_agent=site.person))
        site.forms, site.registered, site.asked        what the authorization server was asked
        site.valid.clear()                             no token is accepted any more

`site.change(...)` sets how they behave: prm, metadata, challenge, lifetime, redirect (what is put into the
response), refuses (an error of the token endpoint).
"""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from peers import MODERN
from web import Request, Site, Wire, opened, text, web

PRM, AS_METADATA = "/.well-known/oauth-protected-resource", "/.well-known/oauth-authorization-server"


class OAuthSite:
    """Both servers, and a person who consents to everything."""

    def __init__(self, revision: str) -> None:
        self.valid: dict[str, set[str]] = {}
        """Access tokens that are accepted, with their scopes."""
        self.refresh_tokens: dict[str, str] = {}
        self.codes: dict[str, dict[str, str]] = {}
        self.asked: list[dict[str, str]] = []
        self.forms: list[dict[str, str]] = []
        self.form_headers: list[dict[str, str]] = []
        self.registered: list[dict[str, Any]] = []
        self.needed: dict[str, str] = {}
        """The scopes of tools."""
        self.lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._mcp = opened(self._answer, revision)
        self.knobs: dict[str, Any] = {"lifetime": 3600, "refreshes": True}
        self.server: Site
        self.authorization_server: Site

    def change(self, **knobs: Any) -> None:
        """Behave otherwise from now on."""
        self.knobs.update(knobs)

    @property
    def url(self) -> str:
        return self.server.url

    @property
    def origin(self) -> str:
        return self.url.removesuffix("/mcp")

    @property
    def issuer(self) -> str:
        return self.authorization_server.url.removesuffix("/mcp")

    def person(self, url: str) -> str:
        """The browser of a person who consents: the redirect, which is not followed."""
        import requests

        answer = requests.get(url, allow_redirects=False, timeout=10)
        return str(answer.headers["location"])

    # -- the MCP server ----------------------------------------------------------------------------------

    def mcp(self, request: Request, wire: Wire) -> object:
        if request.target.startswith("/.well-known/"):
            return self._well_known(request, wire)
        if request.target in ("/authorize", "/token", "/register") or request.target.startswith(
            "/authorize?"
        ):
            return self.auth(request, wire)
        token = request.headers.get("authorization", "").removeprefix("Bearer ")
        with self.lock:
            granted = self.valid.get(token)
        if granted is None:
            return wire.answer(401, b"", *self._challenges())
        tool = request.message.get("params", {}).get("name") if request.rpc == "tools/call" else None
        if tool in self.needed and not set(self.needed[tool].split()) <= granted:
            challenge = f'Bearer error="insufficient_scope", scope="{self.needed[tool]}"'
            return wire.answer(403, b"", f"WWW-Authenticate: {challenge}")
        return self._mcp(request, wire)

    def _challenges(self) -> list[str]:
        default = f'Bearer resource_metadata="{self.origin}{PRM}/mcp"'
        challenge = self.knobs.get("challenge", default)
        return [] if challenge is None else [f"WWW-Authenticate: {challenge}"]

    def _answer(self, request: Request, wire: Wire) -> None:
        wire.result(request, text("x"))

    def _well_known(self, request: Request, wire: Wire) -> object:
        if request.target != f"{PRM}/mcp":
            found = self.knobs.get("well_known", {}).get(request.target)
            return wire.answer(404) if found is None else wire.json(found)
        prm = self.knobs.get("prm", {})
        if prm is None:
            return wire.answer(404)
        return wire.json({"resource": self.url, "authorization_servers": [self.issuer], **prm})

    # -- the authorization server ------------------------------------------------------------------------

    def auth(self, request: Request, wire: Wire) -> object:
        path, _, query = request.target.partition("?")
        steps: dict[str, Callable[[Request, Wire, str], object]] = {
            "/authorize": self._authorize,
            "/token": self._token,
            "/register": self._register,
        }
        if path == self.knobs.get("metadata_at", AS_METADATA):
            return wire.json(self.metadata())
        if path not in steps:
            return wire.answer(404)
        return steps[path](request, wire, query)

    def metadata(self) -> dict[str, Any]:
        """That of the authorization server."""
        metadata = {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "registration_endpoint": f"{self.issuer}/register",
            "response_types_supported": ["code"],
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": ["none", "client_secret_basic"],
            "authorization_response_iss_parameter_supported": True,
        }
        metadata |= self.knobs.get("metadata", {})
        return {name: value for name, value in metadata.items() if value is not None}

    def _authorize(self, request: Request, wire: Wire, query: str) -> None:
        asked = dict(parse_qsl(query))
        self.asked.append(asked)
        code = f"code-{next(self._numbers)}"
        self.codes[code] = asked
        response = {
            "code": code,
            "state": asked["state"],
            "iss": self.issuer,
            **self.knobs.get("redirect", {}),
        }
        said = urlencode({name: value for name, value in response.items() if value is not None})
        wire.answer(302, b"", f"Location: {asked['redirect_uri']}?{said}")

    def _register(self, request: Request, wire: Wire, query: str) -> None:
        self.registered.append(request.message)
        status, said = self.knobs.get("registration", (201, {"client_id": f"client-{len(self.registered)}"}))
        wire.json({**request.message, **said} if status == 201 else said, status=status)

    def _token(self, request: Request, wire: Wire, query: str) -> object:
        form = dict(parse_qsl(request.body.decode()))
        with self.lock:
            self.forms.append(form)
            self.form_headers.append(request.headers)
        if (refusal := self.knobs.get("refuses", {}).get(form["grant_type"])) is not None:
            return wire.json(refusal, status=refusal.get("status", 400))
        scope = form.get("scope", "")
        if form["grant_type"] == "authorization_code":
            scope = self.codes.pop(form["code"]).get("scope", "")
        elif form["grant_type"] == "refresh_token":
            with self.lock:
                known = self.refresh_tokens.pop(form["refresh_token"], None)
            if known is None:
                return wire.json({"error": "invalid_grant"}, status=400)
            scope = known
        return wire.json(self.issue(scope))

    def issue(self, scope: str = "") -> dict[str, Any]:
        """A token response."""
        number = next(self._numbers)
        answer = {
            "access_token": f"access-{number}",
            "token_type": "Bearer",
            "expires_in": self.knobs["lifetime"],
        }
        answer |= {"scope": scope} if scope else {}
        with self.lock:
            self.valid[f"access-{number}"] = set(scope.split())
            if self.knobs["refreshes"]:
                self.refresh_tokens[f"refresh-{number}"] = scope
                answer["refresh_token"] = f"refresh-{number}"
        return {**answer, **self.knobs.get("tokens", {})}

    def grants(self) -> list[str]:
        """The grants that tokens were asked for with."""
        with self.lock:
            return [form["grant_type"] for form in self.forms]

    @property
    def tokens_sent(self) -> list[str | None]:
        """What the MCP server was sent, one request after another."""
        return [
            r.headers.get("authorization")
            for r in self.server.requests
            if r.target == urlsplit(self.url).path
        ]


@contextlib.contextmanager
def oauth_site(revision: str = MODERN, **knobs: Any) -> Iterator[OAuthSite]:
    """Both servers; they leave nothing behind."""
    site = OAuthSite(revision)
    site.change(**knobs)
    with web(site.auth) as site.authorization_server, web(site.mcp) as site.server:
        yield site
