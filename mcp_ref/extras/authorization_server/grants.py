"""The token endpoint, and the two endpoints beside it.

    POST /token        a grant -> an access token, perhaps with a refresh token
    POST /revoke       RFC 7009: the client ends a token of its own, and all that was issued with it
    POST /introspect   RFC 7662: what a token is good for, for servers that cannot verify it themselves

    authorization_code     the code, once, with the verifier of its challenge (PKCE)
    refresh_token          rotated with each use; reuse ends the family (tokens)
    client_credentials     for clients of the operator that have credentials; no user is involved
    jwt-bearer             an ID-JAG of an identity provider that this server knows; each can be used once
                           (extensions/enterprise_managed_authorization)

A token request in steps:

    1  the client is authenticated
    2  it has registered for this grant type
    3  if the client proves that it has a key (DPoP), the tokens are bound to that key
    4  resource and scopes are within what was granted
    5  the grant itself is good, and is used up
    6  the tokens are issued

Errors      OAuthError, in the form of RFC 6749, section 5.2. No cache keeps a response of these endpoints.
Threads     any.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from mcp_ref.basic.authorization.client_registration import AUTHORIZATION_CODE
from mcp_ref.basic.authorization.token_requests import MAX_ASSERTION_SECONDS
from mcp_ref.extensions.dpop import InvalidProof, Replays, check_proof
from mcp_ref.extensions.enterprise_managed_authorization import IdJag, check_id_jag
from mcp_ref.extensions.workload_identity import JWT_BEARER
from mcp_ref.extras.authorization_server.clients import (
    CLIENT_CREDENTIALS,
    REFRESH_TOKEN,
    Clients,
    Documents,
    RegisteredClient,
)
from mcp_ref.extras.authorization_server.expiring import Expiring
from mcp_ref.extras.authorization_server.messages import OAuthError, Request, Response, json_response
from mcp_ref.extras.authorization_server.settings import Settings
from mcp_ref.extras.authorization_server.tokens import Family, Granted, TokenTable
from mcp_ref.runtime.errors import LocalError
from mcp_ref.runtime.jose import KeySet, peek

__all__ = ["IdentityProviders", "TokenEndpoint"]

Form = Mapping[str, str]


MAX_ID_JAGS = 20_000
ID_JAG_SECONDS = MAX_ASSERTION_SECONDS + 60.0
"""Seconds for which the id of an ID-JAG is remembered: longer than the ID-JAG is valid."""


class IdentityProviders:
    """The issuers whose ID-JAGs are accepted."""

    def __init__(self, given: Mapping[str, Mapping[str, Any] | str], documents: Documents) -> None:
        """`given` has each issuer with its key set, or with the URL of its key set.

        Users of a provider count as users of this server: a provider is trusted with every name.
        """
        self._given = {
            issuer: keys if isinstance(keys, str) else KeySet.of(keys) for issuer, keys in given.items()
        }
        self._documents = documents
        self._used: Expiring[bool] = Expiring(MAX_ID_JAGS, ID_JAG_SECONDS)

    def __bool__(self) -> bool:
        return bool(self._given)

    def check(self, assertion: str, client: RegisteredClient, settings: Settings) -> IdJag:
        """Check an ID-JAG for this client, and use it up. Raises OAuthError."""
        try:
            issuer = str(peek(assertion)[1].get("iss"))
            found = check_id_jag(
                assertion,
                self._keys_of(issuer),
                idp=issuer,
                issuer=settings.issuer,
                client_id=client.client_id,
                resources=settings.resources,
            )
        except (LocalError, ValueError) as problem:
            raise OAuthError("invalid_grant", f"assertion: {problem}") from None
        if not self._used.put_new((issuer, found.jti), True):
            raise OAuthError("invalid_grant", "assertion: the ID-JAG was used before")
        return found

    def _keys_of(self, issuer: str) -> KeySet:
        keys = self._given.get(issuer)
        if keys is None:
            raise ValueError("its issuer (iss) is not known here")
        return KeySet.of(self._documents.get(keys)) if isinstance(keys, str) else keys


class TokenEndpoint:
    """The token, revocation and introspection endpoints."""

    def __init__(
        self,
        settings: Settings,
        clients: Clients,
        tokens: TokenTable,
        providers: IdentityProviders | None = None,
    ) -> None:
        self._settings = settings
        self._clients = clients
        self._tokens = tokens
        self._proofs = Replays()
        self._grants: dict[str, Callable[[RegisteredClient, Form, str | None], dict[str, Any]]] = {
            AUTHORIZATION_CODE: self._by_code,
            REFRESH_TOKEN: self._by_refresh_token,
            CLIENT_CREDENTIALS: self._by_credentials,
        }
        if providers:
            self._providers = providers
            self._grants[JWT_BEARER] = self._by_id_jag

    @property
    def grant_types(self) -> list[str]:
        return list(self._grants)

    @property
    def dynamic_grant_types(self) -> list[str]:
        """The grant types that a client may register for by itself."""
        return [grant for grant in self._grants if grant != CLIENT_CREDENTIALS]

    def token(self, request: Request) -> Response:
        """POST /token."""
        form = request.form()
        client = self._clients.authenticate(request, form)  # Step 1
        grant_type = form.get("grant_type", "")
        grant = self._grants.get(grant_type)
        if grant is None:
            raise OAuthError("unsupported_grant_type", f"grant_type is one of {', '.join(self._grants)}")
        if grant_type not in client.grant_types:  # Step 2
            raise OAuthError("unauthorized_client", f"the client did not register for {grant_type}")
        return json_response(grant(client, form, self._thumbprint(request)))

    def _thumbprint(self, request: Request) -> str | None:
        """Step 3: the thumbprint of the key that the client has proved to have; None without a proof."""
        proof = request.header("DPoP")
        if proof is None:
            return None
        try:
            url = self._settings.endpoint("token")
            return check_proof(proof, method="POST", url=url, seen=self._proofs)
        except InvalidProof as problem:
            raise OAuthError(problem.error, str(problem)) from None

    def _by_code(self, client: RegisteredClient, form: Form, jkt: str | None) -> dict[str, Any]:
        if "code" not in form:
            raise OAuthError("invalid_request", "there is no code")
        wanted = self._resource_of(form)
        family = self._tokens.redeem(
            form["code"], client.client_id, form.get("redirect_uri"), form.get("code_verifier"), jkt
        )
        if wanted not in (None, family.grant.resource):
            family.is_revoked = True
            raise OAuthError("invalid_target", "resource is not that of the authorization request")
        family.refresh_jkt = jkt if client.is_public else None
        refresh = self._tokens.first_refresh_token(family) if family.grant.has_refresh else None
        return self._issued(family, family.grant.scopes, refresh, jkt)

    def _by_refresh_token(self, client: RegisteredClient, form: Form, jkt: str | None) -> dict[str, Any]:
        token = form.get("refresh_token", "")
        family = self._tokens.refreshable(token, client.client_id)
        granted = family.grant
        # Step 4, before the token is used up: a client that asks for too much keeps what it has.
        if family.refresh_jkt not in (None, jkt):
            raise OAuthError("invalid_grant", "the refresh token belongs to another key")
        if self._resource_of(form) not in (None, granted.resource):
            raise OAuthError("invalid_target", "resource is not that of the refresh token")
        scopes = self._settings.scopes_of(form["scope"]) if "scope" in form else granted.scopes
        if not set(scopes) <= set(granted.scopes):
            raise OAuthError("invalid_scope", "a refresh token gives no scope that was not granted")
        family, refresh = self._tokens.rotate(token, client.client_id)
        return self._issued(family, scopes, refresh, jkt)

    def _by_credentials(self, client: RegisteredClient, form: Form, jkt: str | None) -> dict[str, Any]:
        if client.is_public or not client.is_trusted:
            raise OAuthError(
                "unauthorized_client", "the grant is for clients with credentials of the operator"
            )
        scopes = tuple(s for s in self._settings.scopes_of(form.get("scope")) if s in self._settings.scopes)
        resource = self._settings.resource_of(form.get("resource"))
        family = self._tokens.begin(Granted(client.client_id, client.client_id, scopes, resource))
        return self._issued(family, scopes, None, jkt)

    def _by_id_jag(self, client: RegisteredClient, form: Form, jkt: str | None) -> dict[str, Any]:
        if client.is_public:
            raise OAuthError("unauthorized_client", "the grant is for clients with credentials")
        if "assertion" not in form:
            raise OAuthError("invalid_request", "there is no assertion")
        found = self._providers.check(form["assertion"], client, self._settings)
        if self._resource_of(form) not in (None, found.resource):
            raise OAuthError("invalid_target", "resource is not that of the assertion")
        if self._clients.is_name_of_operator(found.subject):
            raise OAuthError("invalid_grant", "assertion: its subject has the name of a client")
        wanted = self._settings.scopes_of(form.get("scope"))
        scopes = tuple(s for s in wanted if found.scopes is None or s in found.scopes)
        family = self._tokens.begin(Granted(client.client_id, found.subject, scopes, found.resource))
        return self._issued(family, scopes, None, jkt)

    def _resource_of(self, form: Form) -> str | None:
        """The resource that a token request names; None if it does not, and so means that of the grant."""
        return self._settings.resource_of(form["resource"]) if "resource" in form else None

    def _issued(
        self, family: Family, scopes: tuple[str, ...], refresh: str | None, jkt: str | None
    ) -> dict[str, Any]:
        """Step 6."""
        return {
            "access_token": self._tokens.issue(family, scopes, jkt),
            "token_type": "Bearer" if jkt is None else "DPoP",
            "expires_in": int(self._settings.token_seconds),
            "scope": " ".join(scopes),
            **({} if refresh is None else {"refresh_token": refresh}),
        }

    # -- revocation, introspection -----------------------------------------------------------------

    def revoke(self, request: Request) -> Response:
        """POST /revoke. The answer is the same for a token that does not exist."""
        form = request.form()
        client = self._clients.authenticate(request, form)
        if "token" not in form:
            raise OAuthError("invalid_request", "there is no token")
        self._tokens.revoke(form["token"], client.client_id)
        return json_response({})

    def introspect(self, request: Request) -> Response:
        """POST /introspect, for clients with credentials.

        Clients of the operator may ask about all tokens, others about their own.
        """
        form = request.form()
        client = self._clients.authenticate(request, form)
        if client.is_public:
            raise OAuthError("invalid_client", "introspection is for clients with credentials", 401)
        found = self._tokens.find(form.get("token", ""))
        if found is None or not (client.is_trusted or found.family.grant.client_id == client.client_id):
            return json_response({"active": False})
        token_type = "DPoP" if "cnf" in found.claims else "Bearer"
        return json_response({"active": True, "token_type": token_type, **found.claims})
