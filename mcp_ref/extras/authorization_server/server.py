"""AuthorizationServer: its options, its endpoints, and the table of their paths.

    GET   /.well-known/oauth-authorization-server   metadata
    GET   /jwks                                     the public keys of access tokens
    GET   /authorize    POST /login                 authorization
    GET   /consent      POST /consent
    POST  /token  /revoke  /introspect              grants
    POST  /register                                 clients

All but the first are below the path of the issuer. Metadata, keys, tokens and registration are open to
scripts of any origin (CORS), since none of them reads a cookie. The pages are not.

Errors      TypeError and ValueError for settings; the errors that answer requests are in `messages`.
Threads     any number of requests at once.
"""

from __future__ import annotations

import functools
import signal
from collections.abc import Callable, Iterable, Mapping, Sequence
from http import HTTPStatus
from typing import Any
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from mcp_ref.basic.authorization.index.access_tokens import AccessToken, Verifier
from mcp_ref.basic.authorization.security_considerations import LOOPBACK_HOSTS
from mcp_ref.extras.authorization_server.authorization import Authorization, ScopesOf
from mcp_ref.extras.authorization_server.clients import Clients, RegisteredClient
from mcp_ref.extras.authorization_server.documents import FetchedDocuments
from mcp_ref.extras.authorization_server.grants import IdentityProviders, TokenEndpoint
from mcp_ref.extras.authorization_server.logins import Login, Logins
from mcp_ref.extras.authorization_server.messages import (
    OAuthError,
    PageError,
    Request,
    Response,
    json_response,
)
from mcp_ref.extras.authorization_server.metadata import metadata, metadata_path
from mcp_ref.extras.authorization_server.pages import error_page
from mcp_ref.extras.authorization_server.settings import Settings
from mcp_ref.extras.authorization_server.tokens import TokenTable
from mcp_ref.runtime.checks import check_callable
from mcp_ref.runtime.http_server.hosts import Hosts
from mcp_ref.runtime.http_server.server import HttpServer
from mcp_ref.runtime.jose import Key, load_key
from mcp_ref.runtime.logs import logger
from mcp_ref.runtime.threads.signals import Handled

__all__ = ["AuthorizationServer", "Endpoints", "Issuer"]

_log = logger("mcp_ref.authorization_server")

Handler = Callable[[Request], Response]

_CORS_HEADERS = (
    ("Access-Control-Allow-Origin", "*"),
    ("Access-Control-Allow-Methods", "GET, POST"),
    ("Access-Control-Allow-Headers", "Authorization, Content-Type, DPoP, MCP-Protocol-Version"),
    ("Access-Control-Expose-Headers", "DPoP-Nonce, WWW-Authenticate"),
    ("Access-Control-Max-Age", "3600"),
)
_MAY_BE_KEPT = ("Cache-Control", "public, max-age=60")


class Endpoints:
    """A WSGI application: finds the handler of a request, and turns each error into a response."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._handlers: dict[str, dict[str, Handler]] = {}
        self._open: set[str] = set()
        self._hosts = Hosts("hosts", LOOPBACK_HOSTS) if settings.is_local else Hosts("hosts", "*")

    def add(self, method: str, path: str, handler: Handler, *, is_open: bool = False) -> None:
        """Have a handler answer a method and path. `is_open`: scripts of every origin may read the answer."""
        self._handlers.setdefault(path, {})[method] = handler
        if is_open:
            self._open.add(path)

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        request = Request(environ)
        response = self._answer(request)
        more = _CORS_HEADERS if request.path in self._open else ()
        start_response(response.status_line, [*response.headers, *more])
        return [response.body]

    def _answer(self, request: Request) -> Response:
        try:
            # DNS rebinding: a page of an attacker, whose host name now leads here, sends that name as Host.
            if self._settings.is_local and (request.header("Host") or "") not in self._hosts:
                raise PageError("This server is for browsers of this machine.", HTTPStatus.FORBIDDEN)
            return self._handler(request)(request)
        except OAuthError as problem:
            return problem.response()
        except PageError as problem:
            return error_page(problem.message, problem.status)
        except Exception:
            _log.exception("a request to %s failed", request.path)
            return error_page("The server has failed.", HTTPStatus.INTERNAL_SERVER_ERROR)

    def _handler(self, request: Request) -> Handler:
        methods = self._handlers.get(request.path)
        if methods is None:
            raise PageError("There is nothing here.", HTTPStatus.NOT_FOUND)
        if request.method == "OPTIONS" and request.path in self._open:
            return lambda _: Response(HTTPStatus.NO_CONTENT, b"", ())
        found = methods.get("GET" if request.method == "HEAD" else request.method)
        if found is None:
            allowed = ", ".join(methods)
            return lambda _: error_page(
                f"The method here is {allowed}.", HTTPStatus.METHOD_NOT_ALLOWED, ("Allow", allowed)
            )
        return found


class Issuer:
    """The part that issues tokens, common to an authorization server and a proxy."""

    def __init__(
        self,
        settings: Settings,
        clients: Iterable[RegisteredClient],
        identity_providers: Mapping[str, Mapping[str, Any] | str] | None,
        key: Key | Mapping[str, Any] | str | None,
    ) -> None:
        self.settings = settings
        documents = FetchedDocuments(allow_private=settings.allow_private)
        self._tokens = TokenTable(settings, None if key is None else load_key(key))
        self._clients = Clients(settings, clients, documents)
        providers = IdentityProviders(identity_providers or {}, documents)
        self._app = endpoints(settings, self._clients, self._tokens, providers)

    @property
    def issuer(self) -> str:
        return self.settings.issuer

    def jwks(self) -> dict[str, Any]:
        """The public keys that access tokens are verified with."""
        return self._tokens.jwks()

    def verifier(self, resource: str) -> Verifier:
        """Return a verifier for an MCP server of this process: `ResourceServer(verify=...)`.

        It looks them up, so a token that was revoked is refused at once. Raises ValueError for a resource
        that no tokens are issued for.
        """
        if resource not in self.settings.resources:
            raise ValueError(f"no tokens are issued for {resource!r}; resources={self.settings.resources!r}")
        return functools.partial(_verified, self._tokens, resource)

    def wsgi_app(self) -> WSGIApplication:
        return self._app

    def run(
        self, host: str = "127.0.0.1", port: int = 9000, on_ready: Callable[[str], object] | None = None
    ) -> None:
        """Serve until SIGINT or SIGTERM. `on_ready(issuer)` is called once connections are accepted."""
        check_callable(on_ready=on_ready)
        http = HttpServer(self._app, host, port)
        with Handled(lambda *_: http.stop(), (signal.SIGTERM, signal.SIGINT)):
            try:
                if on_ready is not None:
                    on_ready(self.issuer)
                http.serve()
            finally:
                http.close(1.0)


def _verified(tokens: TokenTable, resource: str, token: str) -> AccessToken | None:
    """What a token of ours is good for; None if it is not good for this resource."""
    found = tokens.find(token)
    if found is None or found.claims["aud"] != resource:
        return None
    claims = found.claims
    return AccessToken(
        subject=claims["sub"],
        client_id=claims["client_id"],
        scopes=frozenset(scope for scope in claims["scope"].split(" ") if scope),
        issuer=claims["iss"],
        audience=(resource,),
        expires_at=float(claims["exp"]),
        claims=claims,
        confirmation=claims.get("cnf", {}).get("jkt"),
    )


class AuthorizationServer(Issuer):
    """An authorization server, for learning, tests and a single machine."""

    def __init__(
        self,
        issuer: str,
        *,
        users: Mapping[str, str] | Login,
        resources: Sequence[str],
        scopes: Mapping[str, str],
        clients: Iterable[RegisteredClient] = (),
        scopes_of: ScopesOf | None = None,
        token_seconds: float = 600.0,
        refresh_seconds: float = 30 * 86400.0,
        registration: bool = True,
        metadata_documents: bool = True,
        allow_private: bool = False,
        identity_providers: Mapping[str, Mapping[str, Any] | str] | None = None,
        key: Key | Mapping[str, Any] | str | None = None,
    ) -> None:
        """`users`: name and password of each, or a function of both that returns the user. `resources`: the
        URLs of the MCP servers. `scopes`: each with what a person is told about it; `scopes_of` returns those
        that a user may grant. `identity_providers`: the issuers whose ID-JAGs are accepted
        (enterprise-managed authorization), each with its keys, or with the URL of its keys. `key` signs
        access tokens; without it, a new key is made, which lasts as long as this object.
        """
        check_callable(scopes_of=scopes_of)
        settings = Settings(
            issuer,
            tuple(resources),
            dict(scopes),
            token_seconds,
            refresh_seconds,
            registration,
            metadata_documents,
            allow_private,
        )
        super().__init__(settings, clients, identity_providers, key)
        people = Authorization(settings, self._clients, self._tokens, Logins(users), scopes_of)
        path = settings.path
        self._app.add("GET", f"{path}/authorize", people.authorize)
        self._app.add("POST", f"{path}/login", people.login)
        self._app.add("GET", f"{path}/consent", people.show_consent)
        self._app.add("POST", f"{path}/consent", people.consent)


def endpoints(
    settings: Settings, clients: Clients, tokens: TokenTable, providers: IdentityProviders | None = None
) -> Endpoints:
    """The endpoints that every issuer has: those for programs, without pages."""
    app, path = Endpoints(settings), settings.path
    grants = TokenEndpoint(settings, clients, tokens, providers)
    document = metadata(settings, grants.grant_types)
    app.add(
        "GET", metadata_path(settings), lambda _: json_response(document, 200, _MAY_BE_KEPT), is_open=True
    )
    app.add("GET", f"{path}/jwks", lambda _: json_response(tokens.jwks(), 200, _MAY_BE_KEPT), is_open=True)
    app.add("POST", f"{path}/token", grants.token, is_open=True)
    app.add("POST", f"{path}/revoke", grants.revoke, is_open=True)
    app.add("POST", f"{path}/introspect", grants.introspect, is_open=True)
    if settings.registration:
        register = functools.partial(_register, clients, grants.dynamic_grant_types)
        app.add("POST", f"{path}/register", register, is_open=True)
    return app


def _register(clients: Clients, grant_types: Iterable[str], request: Request) -> Response:
    """POST /register."""
    return json_response(clients.register(request.json(), request.address, grant_types), HTTPStatus.CREATED)
