"""Enterprise-managed authorization: the company decides (page: extensions/enterprise-managed-authorization).

A person who has signed in to the client at the company's identity provider (IdP) is not asked again for each
MCP server. At the IdP the client exchanges the ID token of the sign-in for an ID-JAG, a grant for one MCP
server, and at that server's authorization server the ID-JAG for an access token. The company's policy decides
what is granted.

    client -> IdP                    POST token: grant_type=...:token-exchange, subject_token=<ID token>,
                                     requested_token_type=...:id-jag, audience=<issuer>, resource, scope
                                     -> the ID-JAG
    client -> authorization server   POST token: grant_type=...:jwt-bearer, assertion=<ID-JAG>, resource;
                                     client authentication                  -> access token
    client -> server                 request, with the token

    ID-JAG   header  typ oauth-id-jag+jwt
             claims  iss (the IdP), sub (the person), aud (the authorization server), resource (the MCP
                     server), client_id, jti, iat, exp, perhaps scope

How the person signs in is the application's business.

Client half   `EnterpriseManaged`
Server half   `check_id_jag`, for an authorization server

Revisions   io.modelcontextprotocol/enterprise-managed-authorization, an extension of 2025-11-25 and
            2026-07-28.
Errors      AuthorizationError: there is no ID token, or the IdP's answer has no ID-JAG.
            BadAssertion: an ID-JAG is not accepted.
Threads     a grant has no state; its function is called by the thread that needs a token.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from mcp_ref.basic.authorization.index.error_handling import AuthorizationError
from mcp_ref.basic.authorization.token_requests import (
    BadAssertion,
    TokenClient,
    TokenRequests,
    check_assertion,
)
from mcp_ref.extensions.workload_identity import JWT_BEARER, text_of
from mcp_ref.runtime.jose import ASYMMETRIC, Key, KeySet

__all__ = ["ID_JAG", "ID_TOKEN", "SAML2", "TOKEN_EXCHANGE", "EnterpriseManaged", "IdJag", "check_id_jag"]

TOKEN_EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
ID_JAG = "urn:ietf:params:oauth:token-type:id-jag"
ID_TOKEN = "urn:ietf:params:oauth:token-type:id_token"
SAML2 = "urn:ietf:params:oauth:token-type:saml2"
ID_JAG_TYPE = "oauth-id-jag+jwt"
"""`typ` in the header of an ID-JAG."""

Answer = TypeVar("Answer")

# ---------------------------------------------------------------------------- client half


@dataclass(frozen=True)
class EnterpriseManaged:
    """The grant: `OAuth(client_id=..., client_secret=..., grant=EnterpriseManaged(...))`."""

    id_token: str | Callable[[], str] = field(repr=False)
    """The ID token of the sign-in at the IdP, or a function that returns the current one."""
    idp_token_endpoint: str
    idp_client_id: str
    """The client's id at the IdP. At the authorization server it has another."""
    idp_client_secret: str | None = field(default=None, repr=False)
    idp_auth_method: str | None = None
    """How the client authenticates at the IdP. None: with its secret in the form, if it has one."""
    subject_token_type: str = ID_TOKEN
    """The type of `id_token`: ID_TOKEN, or SAML2 for a SAML assertion."""

    registers = True
    """Whether the client may register itself: yes, if the IdP learns the id that it gets."""

    def fetch(self, flow: TokenRequests[Answer]) -> Answer:
        """Exchange the ID token for an ID-JAG, and that for tokens. Raises McpError."""
        # spec: extensions/enterprise-managed-authorization/access-token-request
        form = {"grant_type": JWT_BEARER, "assertion": self._id_jag(flow), "resource": flow.resource}
        return flow.request(form, client=flow.client)

    def _id_jag(self, flow: TokenRequests[Answer]) -> str:
        # spec: extensions/enterprise-managed-authorization/exchange-request
        form = {
            "grant_type": TOKEN_EXCHANGE,
            "requested_token_type": ID_JAG,
            "audience": flow.issuer,
            "resource": flow.resource,
            "subject_token": text_of(self.id_token, "enterprise-managed authorization: the ID token"),
            "subject_token_type": self.subject_token_type,
        }
        if flow.scopes:
            form["scope"] = " ".join(flow.scopes)
        # spec: extensions/enterprise-managed-authorization/exchange-authenticated
        usual = "none" if self.idp_client_secret is None else "client_secret_post"
        method = self.idp_auth_method or usual
        client = TokenClient(self.idp_client_id, method=method, secret=self.idp_client_secret)
        return _granted(flow.post(self.idp_token_endpoint, form, client=client), self.idp_token_endpoint)


# spec: extensions/enterprise-managed-authorization/exchange-response
def _granted(answer: Mapping[str, Any], url: str) -> str:
    """The ID-JAG in the IdP's response, where it is named access_token for historical reasons."""
    grant, token_type = answer.get("access_token"), answer.get("token_type")
    if answer.get("issued_token_type") != ID_JAG:
        raise AuthorizationError(f"{url} issued a token of another type than an ID-JAG (issued_token_type)")
    if not isinstance(token_type, str) or token_type.upper() != "N_A":
        raise AuthorizationError(f"{url} issued an ID-JAG like an access token (token_type is not N_A)")
    if not isinstance(grant, str) or not grant:
        raise AuthorizationError(f"{url} issued an ID-JAG that is not there (access_token)")
    return grant


# ---------------------------------------------------------------------------- server half


class IdJag(NamedTuple):
    """An ID-JAG that was accepted."""

    subject: str
    """The person, as the IdP names them: unique only within one IdP."""
    resource: str
    scopes: frozenset[str] | None
    """The scopes that may be granted; None if the ID-JAG does not say."""
    jti: str
    ends: float
    """Seconds since 1970. Accepted until `skew` seconds later: remember `jti` for as long."""
    claims: Mapping[str, Any]


# spec: extensions/enterprise-managed-authorization/typ, extensions/enterprise-managed-authorization/aud
# spec: extensions/enterprise-managed-authorization/client-id
def check_id_jag(
    assertion: str,
    keys: KeySet | Key,
    *,
    idp: str,
    issuer: str,
    client_id: str,
    resources: Collection[str],
    algorithms: Sequence[str] = ASYMMETRIC,
    skew: float = 30.0,
    now: float | None = None,
) -> IdJag:
    """Check that the IdP made an ID-JAG for this authorization server and this client. Raises BadAssertion.

    `idp`: the issuer whose keys `keys` are. `client_id`: the client that has authenticated in this request.
    `resources`: the MCP servers for which this authorization server issues tokens. The caller must see to it
    that a grant is used once, by its `jti`.
    """
    found = check_assertion(
        assertion,
        keys,
        issuer=idp,
        audience=[issuer],
        algorithms=algorithms,
        typ=ID_JAG_TYPE,
        skew=skew,
        now=now,
    )
    claims = found.claims
    if claims.get("client_id") != client_id:
        raise BadAssertion("the ID-JAG was issued to another client (client_id)")
    resource, made = claims.get("resource"), claims.get("iat")
    if not isinstance(resource, str) or resource not in resources:
        raise BadAssertion("the ID-JAG is for an MCP server that is not known here (resource)")
    if found.jti is None or isinstance(made, bool) or not isinstance(made, int | float):
        raise BadAssertion("the ID-JAG has no id (jti), or does not say when it was made (iat)")
    return IdJag(found.subject, resource, _scopes(claims), found.jti, found.ends, claims)


def _scopes(claims: Mapping[str, Any]) -> frozenset[str] | None:
    given = claims.get("scope")
    if "scope" in claims and not isinstance(given, str):
        raise BadAssertion("the scope of the ID-JAG is no text")
    return None if given is None else frozenset(scope for scope in given.split(" ") if scope)
