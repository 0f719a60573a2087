"""The official SDK's authorization server and resource server, at one origin. Arguments: options as JSON.

Options: `seconds` (that an access token lives), `assertions` (whether it takes ID-JAGs; then `key` is the
public JWK of the identity provider), `slash` (whether its issuer ends with one, as it does where it was given
as a URL), `clock` (the file of the clock that it goes by, see clocks.py).

It tells the URL of its MCP server in the first line of its output, and serves until SIGTERM. Consent is given
at once. The provider is as small as the SDK's interface lets it be.
"""

import json
import secrets
import socket
import sys
import time
from pathlib import Path
from typing import Any

import uvicorn
from clocks import Clock
from joserfc import jwk, jwt
from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    IdentityAssertionParams,
    RefreshToken,
    TokenError,
    construct_redirect_uri,
)
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions
from mcp.server.mcpserver import MCPServer
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from pydantic import AnyHttpUrl

SCOPE = "notes:read"


class Provider:
    """Keeps clients, codes and tokens in memory."""

    def __init__(self, options: dict[str, Any], url: str) -> None:
        self.options = options
        self.url = url
        self.clients: dict[str, OAuthClientInformationFull] = {}
        self.codes: dict[str, AuthorizationCode] = {}
        self.refreshes: dict[str, RefreshToken] = {}
        self.tokens: dict[str, AccessToken] = {}

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        return self.clients.get(client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        assert client_info.client_id is not None
        self.clients[client_info.client_id] = client_info

    async def authorize(self, client: OAuthClientInformationFull, params: AuthorizationParams) -> str:
        assert client.client_id is not None
        code = AuthorizationCode(
            code=secrets.token_urlsafe(32),
            scopes=params.scopes or [],
            expires_at=time.time() + 60,
            client_id=client.client_id,
            code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
            resource=params.resource,
        )
        self.codes[code.code] = code
        return construct_redirect_uri(str(params.redirect_uri), code=code.code, state=params.state)

    async def load_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: str
    ) -> AuthorizationCode | None:
        return self.codes.get(authorization_code)

    async def exchange_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: AuthorizationCode
    ) -> OAuthToken:
        if self.codes.pop(authorization_code.code, None) is None:
            raise TokenError("invalid_grant", "the code was used")
        return self.issue(client, authorization_code.scopes, authorization_code.resource)

    async def load_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: str
    ) -> RefreshToken | None:
        return self.refreshes.get(refresh_token)

    async def exchange_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: RefreshToken, scopes: list[str]
    ) -> OAuthToken:
        if self.refreshes.pop(refresh_token.token, None) is None:
            raise TokenError("invalid_grant", "the refresh token was used")
        return self.issue(client, scopes, refresh_token.resource)

    async def load_access_token(self, token: str) -> AccessToken | None:
        return self.tokens.get(token)

    async def revoke_token(self, token: Any) -> None:
        self.tokens.pop(token.token, None)

    async def exchange_identity_assertion(
        self, client: OAuthClientInformationFull, params: IdentityAssertionParams
    ) -> OAuthToken:
        found = jwt.decode(params.assertion, jwk.import_key(self.options["key"]), ["ES256"])
        wanted = {"aud": self.issuer, "client_id": client.client_id, "resource": self.url}
        if found.header["typ"] != "oauth-id-jag+jwt" or not wanted.items() <= found.claims.items():
            raise TokenError("invalid_grant", "the ID-JAG does not fit")
        return self.issue(client, found.claims["scope"].split(), found.claims["resource"], with_refresh=False)

    @property
    def issuer(self) -> str:
        return self.url.removesuffix("/mcp")

    def issue(
        self,
        client: OAuthClientInformationFull,
        scopes: list[str],
        resource: str | None,
        with_refresh: bool = True,
    ) -> OAuthToken:
        assert client.client_id is not None
        seconds = int(self.options.get("seconds", 3600))
        access, refresh = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
        ends = int(time.time()) + seconds
        self.tokens[access] = AccessToken(
            token=access, client_id=client.client_id, scopes=scopes, expires_at=ends, resource=resource
        )
        if with_refresh:
            self.refreshes[refresh] = RefreshToken(
                token=refresh, client_id=client.client_id, scopes=scopes, resource=resource
            )
        return OAuthToken(
            access_token=access,
            expires_in=seconds,
            scope=" ".join(scopes),
            refresh_token=refresh if with_refresh else None,
        )


def server_at(url: str, options: dict[str, Any]) -> MCPServer:
    provider = Provider(options, url)
    if options.get("assertions"):
        info = OAuthClientInformationFull(
            client_id="notes",
            client_secret="the-secret-of-notes",
            redirect_uris=None,
            token_endpoint_auth_method="client_secret_basic",
            grant_types=["urn:ietf:params:oauth:grant-type:jwt-bearer"],
        )
        provider.clients["notes"] = info
    slash = "/" if options.get("slash") else ""
    settings = AuthSettings(
        issuer_url=provider.issuer + slash,  # type: ignore[arg-type]  # as text, or it gets a slash anyhow
        resource_server_url=AnyHttpUrl(url),
        required_scopes=[SCOPE],
        validate_token_resource=True,
        client_registration_options=ClientRegistrationOptions(
            enabled=True, valid_scopes=[SCOPE, "notes:write"], default_scopes=[SCOPE]
        ),
        identity_assertion_enabled=bool(options.get("assertions")),
    )
    server = MCPServer("notes", auth_server_provider=provider, auth=settings)

    @server.tool()
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    return server


class Announced(uvicorn.Server):
    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        assert sockets is not None
        print(f"http://127.0.0.1:{sockets[0].getsockname()[1]}/mcp", flush=True)


def main(options: str) -> None:
    if "clock" in json.loads(options):
        time.time = Clock(Path(json.loads(options)["clock"]))
    with socket.socket(proto=socket.IPPROTO_TCP) as listener:
        listener.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
        app = server_at(url, json.loads(options)).streamable_http_app()
        config = uvicorn.Config(app, log_level="error", timeout_graceful_shutdown=1)
        Announced(config).run([listener])


if __name__ == "__main__":
    main(*sys.argv[1:])
