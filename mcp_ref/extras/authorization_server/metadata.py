"""The metadata of an authorization server (RFC 8414), and where it is published.

    issuer https://auth.example.com            /.well-known/oauth-authorization-server
    issuer https://auth.example.com/tenant1    /.well-known/oauth-authorization-server/tenant1

The document has `issuer` character for character as it was configured, since clients compare it that way. It
is not published at the paths of OpenID Connect: that would promise ID tokens, which this server does not
issue.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from mcp_ref.basic.authorization.client_registration import ASSERTION_METHOD, SECRET_METHODS
from mcp_ref.extras.authorization_server.settings import Settings
from mcp_ref.runtime.jose import ASYMMETRIC

__all__ = ["metadata", "metadata_path"]


def metadata_path(settings: Settings) -> str:
    """The path of the document (RFC 8414, section 3)."""
    # spec: basic/authorization/index/discovery-as, basic/authorization/index/metadata-at-root
    return f"/.well-known/oauth-authorization-server{settings.path}"


def metadata(settings: Settings, grant_types: Iterable[str]) -> dict[str, Any]:
    """The document (RFC 8414, section 2)."""
    methods = [*SECRET_METHODS, ASSERTION_METHOD]
    registration = {"registration_endpoint": settings.endpoint("register")} if settings.registration else {}
    return {
        "issuer": settings.issuer,
        # For an issuer without a path these are the default paths of 2025-03-26.
        # spec: basic/authorization/index/default-uri-schema
        "authorization_endpoint": settings.endpoint("authorize"),
        "token_endpoint": settings.endpoint("token"),
        "jwks_uri": settings.endpoint("jwks"),
        **registration,
        "revocation_endpoint": settings.endpoint("revoke"),
        "introspection_endpoint": settings.endpoint("introspect"),
        "scopes_supported": settings.scopes_supported(),
        "response_types_supported": ["code"],
        "response_modes_supported": ["query"],
        "grant_types_supported": list(grant_types),
        "token_endpoint_auth_methods_supported": ["none", *methods],
        "token_endpoint_auth_signing_alg_values_supported": list(ASYMMETRIC),
        "revocation_endpoint_auth_methods_supported": ["none", *methods],
        "introspection_endpoint_auth_methods_supported": methods,
        "code_challenge_methods_supported": ["S256"],
        # spec: basic/authorization/index/iss-advertised
        "authorization_response_iss_parameter_supported": True,
        "client_id_metadata_document_supported": settings.metadata_documents,
        "dpop_signing_alg_values_supported": list(ASYMMETRIC),
        "protected_resources": list(settings.resources),
    }
