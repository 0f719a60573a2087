"""The token requests of a client to one authorization server (page: basic/authorization/index).

A `Flow` implements `TokenRequests` of basic/authorization/token_requests, for the grants of extensions and
for the code that a person's consent gives. The page Client Registration decides as which client it asks; a
dynamic registration is stored under its issuer.

Revisions   2025-03-26 and later.
Errors      AuthorizationError, with the server's code where it gave one.
Threads     a flow is used by one thread, which holds `_turn` of its owner (api/oauth_client).
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from mcp_ref.api.discovering import Found
from mcp_ref.basic.authorization.client_registration import (
    DOCUMENT,
    PRE_REGISTERED,
    Registration,
    choose_registration,
    read_registration,
    registration_request,
)
from mcp_ref.basic.authorization.index.authorization_flow import Tokens, read_tokens, refused_by
from mcp_ref.basic.authorization.token_requests import TokenClient, choose_method
from mcp_ref.runtime.http_client.fetching import Fetched, FetchError
from mcp_ref.runtime.jose import load_key
from mcp_ref.runtime.json_text import to_json
from mcp_ref.runtime.untrusted_text import one_line

if TYPE_CHECKING:
    from mcp_ref.api.oauth_client import OAuthClient

__all__ = ["Flow"]

USE_NONCE = "use_dpop_nonce"


class Flow:
    """The requests for one set of tokens, at one authorization server: a TokenRequests of token_requests."""

    def __init__(
        self, owner: OAuthClient, found: Found, scopes: tuple[str, ...] | None, redirect_uri: str = ""
    ) -> None:
        self._owner, self._found = owner, found
        self._requested = scopes
        self.redirect_uri = redirect_uri
        self._client: TokenClient | None = None

    @property
    def issuer(self) -> str:
        """The issuer identifier of the authorization server."""
        return self._found.issuer

    @property
    def metadata(self) -> Mapping[str, Any]:
        """Its metadata."""
        return self._found.metadata

    @property
    def resource(self) -> str:
        """The MCP server, as tokens name it."""
        return self._found.resource.resource

    @property
    def scopes(self) -> tuple[str, ...]:
        """The scopes to ask for."""
        return self._requested or ()

    # -- who asks ----------------------------------------------------------------------------------------

    @property
    def client(self) -> TokenClient:
        """The client as this authorization server knows it; it is registered first if need be."""
        if self._client is None:
            self._client = self._token_client(self._registration())
        return self._client

    def known_client(self) -> TokenClient:
        """The client to which the present tokens were issued. It is not registered anew for them."""
        kept = Registration.from_json(self._owner.oauth.store.get(f"client {self.issuer}") or {})
        if self._owner.oauth.client_id is not None or kept is None or kept.issuer != self.issuer:
            return self.client
        return self._token_client(kept)

    def _registration(self) -> Registration:
        """The registration at this issuer: given beforehand, a document, a stored one, or a new one.

        # spec: basic/authorization/client-registration/no-credential-reuse
        # spec: basic/authorization/client-registration/reregister-on-change
        # spec: basic/authorization/client-registration/cimd-portable
        # spec: basic/authorization/authorization-server-discovery/no-credential-crossing
        """
        oauth = self._owner.oauth
        way = choose_registration(
            self.metadata,
            has_client_id=oauth.client_id is not None,
            document_url=oauth.client_metadata_url,
            allow_dynamic=getattr(oauth.grant, "registers", True),
        )
        if way == PRE_REGISTERED:
            return Registration(self.issuer, str(oauth.client_id), oauth.client_secret, oauth.auth_method)
        if way == DOCUMENT:
            method = "none" if oauth.private_key is None else "private_key_jwt"
            return Registration(
                self.issuer, str(oauth.client_metadata_url), auth_method=oauth.auth_method or method
            )
        kept = Registration.from_json(oauth.store.get(f"client {self.issuer}") or {})
        if kept is not None and kept.issuer == self.issuer and kept.is_good(self.redirect_uri, time.time()):
            return kept
        return self._register()

    def _register(self) -> Registration:
        """Register dynamically, and store the registration. Raises AuthorizationError."""
        oauth, url = self._owner.oauth, str(self.metadata["registration_endpoint"])
        method = oauth.auth_method or _method_to_register(self.metadata)
        uris = [self.redirect_uri] if self.redirect_uri else []
        body = to_json(registration_request(oauth.client_name, uris, method, self.scopes)).encode()
        fetched = self._owner.discovery.post(url, body, {"Content-Type": "application/json"})
        said = _object_in(fetched)
        registered = read_registration(
            fetched.status, {"token_endpoint_auth_method": method, **said}, self.issuer, uris
        )
        if registered.secret_expires_at is not None and time.time() >= registered.secret_expires_at:
            raise self._found.error("it registered this client with a secret that has expired already")
        oauth.store.set(f"client {self.issuer}", registered.to_json())
        return registered

    def _token_client(self, registered: Registration) -> TokenClient:
        oauth = self._owner.oauth
        try:
            method = choose_method(
                self.metadata.get("token_endpoint_auth_methods_supported"),
                has_secret=registered.client_secret is not None,
                has_key=oauth.private_key is not None,
                wanted=oauth.auth_method or registered.auth_method,
            )
            key = None if oauth.private_key is None else load_key(oauth.private_key)
            return TokenClient(
                registered.client_id,
                method=method,
                secret=registered.client_secret,
                key=key,
                signing_algorithm=oauth.signing_algorithm,
            )
        except ValueError as problem:
            raise self._found.error(str(problem)) from None

    # -- what is asked -----------------------------------------------------------------------------------

    def request(self, form: Mapping[str, str], *, client: TokenClient | None = None) -> Tokens:
        """The tokens for a grant. Raises AuthorizationError."""
        client = client or self.client
        url = str(self.metadata["token_endpoint"])
        fetched, has_nonce = self._posted(url, form, client)
        if has_nonce and _object_in(fetched).get("error") == USE_NONCE:
            fetched, _ = self._posted(url, form, client)
        said = self._answered(url, fetched)
        return read_tokens(said, issuer=self.issuer, resource=self.resource, requested=self._requested)

    def _posted(self, url: str, form: Mapping[str, str], client: TokenClient) -> tuple[Fetched, bool]:
        """The answer, and whether a new nonce for DPoP proofs came with it.

        The client is authenticated anew each time, since an assertion may be used only once.
        """
        headers, form = client.authenticated(form, self.issuer)
        proofs = self._owner.proofs
        if proofs is not None:
            headers = {**headers, "DPoP": proofs.proof("POST", url)}
        fetched = self._owner.discovery.post(url, form, headers)
        nonce = fetched.headers.get("dpop-nonce")
        return fetched, proofs is not None and proofs.keep_nonce(url, nonce, of_resource=False)

    def post(self, url: str, form: Mapping[str, str], *, client: TokenClient) -> dict[str, Any]:
        """The answer of another token endpoint, which the application has named. Raises AuthorizationError.

        There is no DPoP proof: tokens of that endpoint are not bound to a key.
        """
        headers, form = client.authenticated(form, url)
        return self._answered(url, self._owner.discovery.post_to_named(url, form, headers))

    def _answered(self, url: str, fetched: Fetched) -> dict[str, Any]:
        """The JSON of a successful answer of a token endpoint. Raises AuthorizationError for any other."""
        said = _object_in(fetched)
        if "error" in said:
            raise refused_by("token endpoint", url, said, self.issuer)
        if fetched.status != 200 or not said:
            where = one_line(url.partition("?")[0])
            raise self._found.error(
                f"the token endpoint {where} answered with status {fetched.status} and no tokens"
            )
        return said


def _object_in(fetched: Fetched) -> dict[str, Any]:
    """The JSON object of an answer; {} for anything else."""
    try:
        return fetched.json()
    except FetchError:
        return {}


def _method_to_register(metadata: Mapping[str, Any]) -> str:
    """The authentication method to register with: "none" (a public client) if the server supports it."""
    supported = metadata.get("token_endpoint_auth_methods_supported")
    offered = supported if isinstance(supported, list) else ["client_secret_basic"]
    return next((m for m in ("none", "client_secret_basic", "client_secret_post") if m in offered), "none")
