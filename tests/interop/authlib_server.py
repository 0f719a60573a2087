"""A foreign authorization server, made with Authlib, and a protected server of ours that takes its tokens.

    python authlib_server.py '{"registration": true}'

Options: `registration` (whether clients may register), `methods` (of client authentication), `oidc` (metadata
only at OpenID's place, of an issuer with a path), `seconds` (that a token lives), `key` (a public JWK, of the
client `notes-key`), `iss` (whether it names itself in its authorization responses), `clock` (the file of the
clock that it goes by, see clocks.py).

It tells the URL of the MCP server in the first line of its output, and serves until SIGTERM. Consent is given
at once, as if a person had clicked. Access tokens are JWTs (RFC 9068), for the resource that was asked for.
GET /seen at the authorization server: what it was asked, for the tests.
"""

import json
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any
from wsgiref.types import WSGIApplication

os.environ["AUTHLIB_INSECURE_TRANSPORT"] = "1"  # on this machine

from authlib.integrations.flask_oauth2 import AuthorizationServer
from authlib.oauth2 import OAuth2Error
from authlib.oauth2.rfc6749 import ClientMixin, grants
from authlib.oauth2.rfc6749.util import scope_to_list
from authlib.oauth2.rfc6750 import BearerTokenGenerator
from authlib.oauth2.rfc7523 import JWTBearerClientAssertion
from authlib.oauth2.rfc7591 import ClientRegistrationEndpoint
from authlib.oauth2.rfc7636 import CodeChallenge
from authlib.oauth2.rfc9207 import IssuerParameter
from clocks import Clock
from flask import Flask, Response, jsonify, request
from joserfc import jwk, jwt
from werkzeug.serving import WSGIRequestHandler, make_server

from mcp_ref import Context, JwtVerifier, ResourceServer, Server

SCOPES = ["notes:read", "notes:write"]


class Client(ClientMixin):
    """A client, as Authlib wants to ask it."""

    def __init__(self, info: dict[str, Any], metadata: dict[str, Any]) -> None:
        self.client_id = info["client_id"]
        self.secret = info.get("client_secret")
        self.metadata = metadata

    def get_client_id(self) -> str:
        return self.client_id

    def get_default_redirect_uri(self) -> str | None:
        return None

    def get_allowed_scope(self, scope: str | None) -> str:
        return " ".join(s for s in scope_to_list(scope) or [] if s in SCOPES)

    def check_redirect_uri(self, redirect_uri: str) -> bool:
        return redirect_uri in self.metadata.get("redirect_uris", [])

    def check_client_secret(self, client_secret: str) -> bool:
        return self.secret == client_secret

    def check_endpoint_auth_method(self, method: str, endpoint: str) -> bool:
        registered = self.metadata.get("token_endpoint_auth_method", "client_secret_basic")
        return method == ("client_assertion_jwt" if registered == "private_key_jwt" else registered)

    def check_response_type(self, response_type: str) -> bool:
        return response_type in self.metadata.get("response_types", ["code"])

    def check_grant_type(self, grant_type: str) -> bool:
        return grant_type in self.metadata.get("grant_types", ["authorization_code"])


class Code:
    """An authorization code, and later the refresh token that came of it."""

    def __init__(self, of: Any, code: str) -> None:
        payload = of.payload.data
        self.code = code
        self.client_id = of.client.client_id
        self.redirect_uri = of.payload.redirect_uri
        self.scope = of.scope
        self.resource = payload.get("resource")
        self.code_challenge = payload.get("code_challenge")
        self.code_challenge_method = payload.get("code_challenge_method")

    def get_redirect_uri(self) -> str:
        return str(self.redirect_uri)

    def get_scope(self) -> str:
        return str(self.scope)


class Credential:
    """What a refresh token stands for."""

    def __init__(self, client: Client, token: dict[str, Any]) -> None:
        self.client = client
        self.scope = token.get("scope", "")
        self.is_used = False

    def check_client(self, client: Client) -> bool:
        return client.client_id == self.client.client_id

    def get_scope(self) -> str:
        return str(self.scope)


# ---------------------------------------------------------------------------- what Authlib asks for

WAYS = ("none", "client_secret_basic", "client_secret_post", "client_assertion_jwt")


class ByCode(grants.AuthorizationCodeGrant):
    TOKEN_ENDPOINT_AUTH_METHODS = WAYS

    def save_authorization_code(self, code: str, request: Any) -> None:
        self.server.foreign.codes[code] = Code(request, code)

    def query_authorization_code(self, code: str, client: Client) -> Code | None:
        found = self.server.foreign.codes.get(code)
        return found if found is not None and found.client_id == client.client_id else None

    def delete_authorization_code(self, authorization_code: Code) -> None:
        del self.server.foreign.codes[authorization_code.code]

    def authenticate_user(self, authorization_code: Code) -> str:
        return "ann"


class ByRefresh(grants.RefreshTokenGrant):
    TOKEN_ENDPOINT_AUTH_METHODS = WAYS
    INCLUDE_NEW_REFRESH_TOKEN = True

    def authenticate_refresh_token(self, refresh_token: str) -> Credential | None:
        found = self.server.foreign.credentials.get(refresh_token)
        return found if found is not None and not found.is_used else None

    def authenticate_user(self, refresh_token: Credential) -> str:
        return "ann"

    def revoke_old_credential(self, refresh_token: Credential) -> None:
        refresh_token.is_used = True


class ByCredentials(grants.ClientCredentialsGrant):
    TOKEN_ENDPOINT_AUTH_METHODS = WAYS[1:]


class Assertions(JWTBearerClientAssertion):
    def __init__(self, foreign: "Foreign") -> None:
        super().__init__()
        self.foreign = foreign

    def get_audiences(self) -> list[str]:
        return [self.foreign.issuer]

    def validate_jti(self, claims: dict[str, Any], jti: str) -> bool:
        is_new = jti not in self.foreign.jtis
        self.foreign.jtis.add(jti)
        return is_new

    def resolve_client_public_key(self, client: Client) -> Any:
        return self.foreign.options["key"]


class Registration(ClientRegistrationEndpoint):
    def authenticate_token(self, request: Any) -> bool:
        return True

    def get_server_metadata(self) -> dict[str, Any]:
        return dict(self.server.foreign.metadata())

    def save_client(self, info: dict[str, Any], metadata: dict[str, Any], request: Any) -> Client:
        client = self.server.foreign.clients[info["client_id"]] = Client(info, metadata)
        return client


class Iss(IssuerParameter):
    def __init__(self, foreign: "Foreign") -> None:
        self.foreign = foreign

    def get_issuer(self) -> str | None:
        return self.foreign.issuer if self.foreign.options.get("iss", True) else None


class Foreign:
    """The authorization server."""

    def __init__(self, options: dict[str, Any]) -> None:
        self.options = options
        self.issuer = ""
        self.key = jwk.RSAKey.generate_key(2048, auto_kid=True)
        self.clients: dict[str, Client] = {}
        self.codes: dict[str, Code] = {}
        self.credentials: dict[str, Credential] = {}
        self.jtis: set[str] = set()
        self.seen: list[dict[str, Any]] = []
        self.app = Flask("authlib_server")
        self.server = AuthorizationServer(self.app, self.clients.get, self.keep)
        self.server.register_token_generator("default", self.tokens())
        self.register()
        self.route()

    # -- clients of the operator --------------------------------------------------------------

    def known(self, redirect_uri: str = "http://127.0.0.1:33418/callback") -> None:
        for name, method in (
            ("notes-basic", "client_secret_basic"),
            ("notes-post", "client_secret_post"),
            ("notes-key", "private_key_jwt"),
            ("notes-public", "none"),
        ):
            metadata = {
                "token_endpoint_auth_method": method,
                "grant_types": ["authorization_code", "refresh_token", "client_credentials"],
                "redirect_uris": [redirect_uri],
            }
            info = {"client_id": name, "client_secret": f"the-secret-of-{name}"}
            self.clients[name] = Client(info, metadata)

    # -- tokens -------------------------------------------------------------------------------

    def tokens(self) -> BearerTokenGenerator:
        return BearerTokenGenerator(
            self.access_token, lambda **_: os.urandom(24).hex(), int(self.options.get("seconds", 3600))
        )

    def access_token(self, client: Client, grant_type: str, user: str | None, scope: str) -> str:
        now = int(time.time())
        claims = {
            "iss": self.issuer,
            "sub": user or client.client_id,
            "aud": request.form.get("resource", "nothing"),
            "client_id": client.client_id,
            "scope": scope,
            "iat": now,
            "exp": now + int(self.options.get("seconds", 3600)),
            "jti": os.urandom(8).hex(),
        }
        return jwt.encode({"alg": "RS256", "typ": "at+jwt", "kid": self.key.kid}, claims, self.key)

    def keep(self, token: dict[str, Any], of: Any) -> None:
        if "refresh_token" in token:
            self.credentials[token["refresh_token"]] = Credential(of.client, token)

    def register(self) -> None:
        self.server.foreign = self  # where the grants find it
        self.server.register_grant(ByCode, [CodeChallenge(required=True)])
        self.server.register_grant(ByRefresh)
        self.server.register_grant(ByCredentials)
        self.server.register_client_auth_method("client_assertion_jwt", Assertions(self))
        self.server.register_endpoint(Registration)
        self.server.register_extension(Iss(self))

    @property
    def base(self) -> str:
        """Where the endpoints are."""
        return self.issuer.removesuffix("/tenant")

    def metadata(self) -> dict[str, Any]:
        base = self.base
        registration = {"registration_endpoint": f"{base}/register"}
        return {
            "issuer": self.issuer,
            "authorization_endpoint": f"{base}/authorize",
            "token_endpoint": f"{base}/token",
            "jwks_uri": f"{base}/jwks",
            "scopes_supported": [*SCOPES, "offline_access"],
            "response_types_supported": ["code"],
            "grant_types_supported": ["authorization_code", "refresh_token", "client_credentials"],
            "token_endpoint_auth_methods_supported": self.options.get(
                "methods", ["none", "client_secret_basic", "client_secret_post"]
            ),
            "token_endpoint_auth_signing_alg_values_supported": ["ES256"],
            "code_challenge_methods_supported": ["plain", "S256"],
            "authorization_response_iss_parameter_supported": bool(self.options.get("iss", True)),
            **(registration if self.options.get("registration", True) else {}),
        }

    def route(self) -> None:
        place = "/tenant/.well-known/openid-configuration"
        if not self.options.get("oidc"):
            place = "/.well-known/oauth-authorization-server"

        @self.app.before_request
        def note() -> None:
            kept = ("grant_type", "resource", "scope", "response_type", "code_challenge_method")
            self.seen.append(
                {"path": request.path, **{k: request.values[k] for k in kept if k in request.values}}
            )

        @self.app.get(place)
        def metadata() -> Response:
            return jsonify(self.metadata())

        @self.app.get("/jwks")
        def jwks() -> Response:
            return jsonify(keys=[self.key.as_dict(private=False, use="sig", alg="RS256")])

        @self.app.get("/authorize")
        def authorize() -> Any:
            try:
                grant = self.server.get_consent_grant(end_user="ann")
            except OAuth2Error as error:
                return jsonify(dict(error.get_body())), 400
            return self.server.create_authorization_response(grant_user="ann", grant=grant)

        @self.app.post("/token")
        def token() -> Any:
            return self.server.create_token_response()

        @self.app.post("/register")
        def register() -> Any:
            return self.server.create_endpoint_response("client_registration")

        @self.app.get("/seen")
        def seen() -> Response:
            return jsonify([one for one in self.seen if one["path"] != "/seen"])


# ---------------------------------------------------------------------------- the MCP server


def notes() -> Server:
    server = Server("notes", version="1.0.0")

    @server.tool
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    @server.tool
    def who(ctx: Context) -> str:
        """Whose token it was."""
        return str(ctx.principal)

    @server.tool(scopes=["notes:write"])
    def write(text: str) -> str:
        """Write a note."""
        return text

    return server


def protected(foreign: Foreign, url: str) -> WSGIApplication:
    """Verifies the tokens by the keys that the foreign server publishes."""
    verify = JwtVerifier(foreign.issuer, jwks_uri=f"{foreign.base}/jwks")
    auth = ResourceServer(
        url, authorization_servers=[foreign.issuer], verify=verify, scopes=SCOPES[:1], clock_skew=0.0
    )
    return notes().wsgi_app(auth=auth)


class Silent(WSGIRequestHandler):
    def log(self, type: str, message: str, *arguments: Any) -> None:
        pass


def main(options: str) -> None:
    foreign = Foreign(json.loads(options))
    if "clock" in foreign.options:
        time.time = Clock(Path(foreign.options["clock"]))
    foreign.known()
    issuing = make_server("127.0.0.1", 0, foreign.app, threaded=True, request_handler=Silent)
    path = "/tenant" if foreign.options.get("oidc") else ""
    foreign.issuer = f"http://127.0.0.1:{issuing.server_port}{path}"
    serving = make_server("127.0.0.1", 0, lambda e, s: app(e, s), threaded=True, request_handler=Silent)
    url = f"http://127.0.0.1:{serving.server_port}/mcp"
    app = protected(foreign, url)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    threading.Thread(target=issuing.serve_forever, daemon=True).start()
    threading.Thread(target=serving.serve_forever, daemon=True).start()
    print(url, flush=True)
    signal.pause()


if __name__ == "__main__":
    main(*sys.argv[1:])
