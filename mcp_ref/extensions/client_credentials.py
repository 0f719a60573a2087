"""Client credentials: a client that acts on its own behalf (page: extensions/oauth-client-credentials).

No person is asked: the client is a machine, and authenticates at the token endpoint with credentials that its
operator got for it.

    client -> server                 request                                -> 401
    client -> server                 GET protected resource metadata
    client -> authorization server   GET its metadata
    client -> authorization server   POST token: grant_type=client_credentials, resource, scope;
                                     client authentication                  -> access token
    client -> server                 request, with the token                -> 200

The client authenticates with an assertion that it signs (`private_key_jwt`), or with its secret
(basic/authorization/token_requests, which also has the server's check of an assertion). It never registers
itself, and gets no refresh token: it asks for the next access token in the same way.

Revisions   io.modelcontextprotocol/oauth-client-credentials, an extension of 2025-11-25 and 2026-07-28.
Errors      AuthorizationError: the client has no credentials, or the server does not accept its signing
            algorithm.
Threads     a grant has no state.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from mcp_ref.basic.authorization.index.error_handling import AuthorizationError
from mcp_ref.basic.authorization.token_requests import TokenRequests

__all__ = ["ClientCredentials"]

Answer = TypeVar("Answer")

# ---------------------------------------------------------------------------- client half


@dataclass(frozen=True)
class ClientCredentials:
    """The grant: `OAuth(client_id=..., client_secret=..., grant=ClientCredentials())`."""

    registers = False  # spec: extensions/oauth-client-credentials/no-registration
    """Whether the client may register itself: no, only one that was registered beforehand has credentials."""

    # spec: extensions/oauth-client-credentials/token-request
    def fetch(self, flow: TokenRequests[Answer]) -> Answer:
        """Get tokens, with one authenticated request. Raises McpError."""
        client = flow.client
        # spec: extensions/oauth-client-credentials/authentication
        if client.method == "none":
            raise AuthorizationError(
                f"client credentials: the client {client.client_id!r:.200} has none for {flow.issuer}: "
                "OAuth(client_secret=...) or OAuth(private_key=...)",
                issuer=flow.issuer,
            )
        if client.method == "private_key_jwt":
            supported = flow.metadata.get("token_endpoint_auth_signing_alg_values_supported")
            _check_algorithm(client.signing_algorithm, supported, flow.issuer)
        form = {"grant_type": "client_credentials", "resource": flow.resource}
        if flow.scopes:
            form["scope"] = " ".join(flow.scopes)
        return flow.request(form, client=client)


def _check_algorithm(algorithm: str, supported: Sequence[str] | None, issuer: str) -> None:
    if isinstance(supported, list) and algorithm not in supported:
        raise AuthorizationError(
            f"client credentials: {issuer} takes no assertions that are signed with {algorithm}: "
            f"OAuth(signing_algorithm=...) is one of {', '.join(map(str, supported))[:200]}",
            issuer=issuer,
        )
