"""Authorization Flow Steps, Authorization Response Validation, Resource Parameter Implementation (page:
basic/authorization/index), on the client.

Once it knows the authorization server (authorization_server_discovery) and has an id there
(client_registration), a client sends the person to that server, and gets a code back through the browser:

    client -> browser   open      authorization_endpoint?response_type=code&client_id=...&redirect_uri=...
                                  &state=...&code_challenge=...&code_challenge_method=S256
                                  &resource=...&scope=...
    server -> browser   redirect  redirect_uri?code=...&state=...&iss=...
    client -> server    POST      token_endpoint  grant_type=authorization_code, code, code_verifier, resource
    server -> client              {access_token, token_type, expires_in, refresh_token, scope}

`AuthorizationRequest` is what the client remembers from the first line to the third. Before the code is used,
the response is compared with it: `state` shows that it answers this request, `iss` that it comes from the
server that was asked.

The resource is the one that the server's metadata names. It must be the URI of the server itself, or its
bare origin (`covers`); a path in between is refused. Where tenants of one host have a path each, a server
below the path of another tenant could otherwise have tokens issued for that tenant, and use them there.

Revisions   2025-03-26  code, PKCE, state
            2025-06-18  + resource, in both requests
            2026-07-28  + iss, compared character by character
Errors      AuthorizationError, with the server's error code. It contains no secret of the client.
Threads     plain functions and values.
"""

from __future__ import annotations

import hmac
import math
import re
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from mcp_ref.basic.authorization.index.access_tokens import authorization_header
from mcp_ref.basic.authorization.index.error_handling import AuthorizationError
from mcp_ref.basic.authorization.index.scope_selection import scopes_of
from mcp_ref.basic.authorization.security_considerations import new_state, new_verifier, s256
from mcp_ref.runtime.untrusted_text import one_line

__all__ = [
    "AuthorizationRequest",
    "Tokens",
    "canonical_uri",
    "covers",
    "read_tokens",
    "refused_by",
]

MAX_CALLBACK_CHARACTERS = 16_384
MAX_REFRESH_TOKEN_CHARACTERS = 65_536
MAX_SAID_CHARACTERS = 300
"""Characters of a server's error description that our error repeats."""
MAX_LIFE_SECONDS = 10 * 365 * 86400.0
"""The longest life of a token; a longer one is shortened to this."""
MAX_MOMENT = 1e12
"""Seconds since 1970. A stored time from here on is ignored."""

_PORTS = {"http": 80, "https": 443}
# No user, no fragment.
_RESOURCE = re.compile(r"(?i:https?)://[!$-?A-~]+")
_CODE = re.compile(r"[\x20-\x7e]+")
# RFC 6749, appendix A.17
_REFRESH_TOKEN = re.compile(r"[\x20-\x7e]+")
_ERROR_CODE = re.compile(r"[\x20\x21\x23-\x5b\x5d-\x7e]{1,100}")

# --------------------------------------------------------------------------- the resource


def canonical_uri(url: str) -> str:
    """The canonical URI of an MCP server, by which a client names it, from its URL.

    # spec: basic/authorization/index/resource-canonical, basic/authorization/index/canonical-uri-valid
    # spec: basic/authorization/index/no-trailing-slash, basic/authorization/index/resource-most-specific
    """
    parts = urlsplit(url)
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname or ""
    scheme = parts.scheme.lower()
    port = "" if parts.port in (None, _PORTS.get(scheme)) else f":{parts.port}"
    path = "" if parts.path == "/" else parts.path
    return f"{scheme}://{host}{port}{path}" + (f"?{parts.query}" if parts.query else "")


def covers(resource: object, url: str) -> bool:
    """Whether a resource stands for the server at a URL: as the same URI, or as the bare origin.

    A slash at the end makes no difference, and a resource may leave out the query of the URL. A path between
    the two may belong to another tenant of the host, where tokens for it would be accepted.
    # spec: basic/authorization/index/resource-identifies-server
    # spec: basic/authorization/index/uppercase-accepted
    """
    if not isinstance(resource, str) or _RESOURCE.fullmatch(resource) is None or ".." in resource:
        return False
    try:
        named, asked = urlsplit(canonical_uri(resource)), urlsplit(canonical_uri(url))
    except ValueError:
        return False
    if (named.scheme, named.netloc) != (asked.scheme, asked.netloc):
        return False
    if not named.path and not named.query:
        return True
    return _path(named.path) == _path(asked.path) and named.query in ("", asked.query)


def _path(path: str) -> str:
    """The path without one slash at its end."""
    return path.removesuffix("/")


# --------------------------------------------------------------------------- the authorization request


@dataclass(frozen=True)
class AuthorizationRequest:
    """One authorization request: what its response is compared with, and what the token request repeats.

    # spec: basic/authorization/index/record-issuer
    """

    issuer: str
    """The `issuer` of the server's metadata, which was validated."""
    endpoint: str
    client_id: str
    redirect_uri: str
    resource: str
    scopes: tuple[str, ...] | None
    names_issuer: bool
    """Whether the server's metadata says that its responses have `iss`."""
    state: str = field(default_factory=new_state, repr=False)
    verifier: str = field(default_factory=new_verifier, repr=False)

    @property
    def url(self) -> str:
        """The URL to which the person is sent.

        # spec: basic/authorization/index/resource-in-both-requests
        # spec: basic/authorization/index/resource-indicators
        # spec: basic/authorization/index/resource-always-sent
        """
        query = {
            "response_type": "code",
            "client_id": self.client_id,
            "redirect_uri": self.redirect_uri,
            "state": self.state,
            "code_challenge": s256(self.verifier),
            "code_challenge_method": "S256",
            "resource": self.resource,
        }
        if self.scopes:
            query["scope"] = " ".join(self.scopes)
        if self.scopes and "offline_access" in self.scopes:
            query["prompt"] = "consent"  # else it is ignored (OpenID Connect Core, section 11)
        between = "&" if urlsplit(self.endpoint).query else "?"
        return f"{self.endpoint}{between}{urlencode(query)}"

    def code_of(self, callback: str) -> str:
        """The code in the authorization response, from the URL to which the browser was sent back.

        Raises AuthorizationError, which repeats nothing of the response before `state` and `iss` are checked:
        it may come from another server.
        """
        said = self._said(callback)
        given = said.get("state", "").encode()
        if not hmac.compare_digest(given, self.state.encode()):
            raise self._error("the response has another state than the request: it answers some other one")
        self._check_issuer(said.get("iss"))
        if "error" in said:
            raise refused_by("authorization endpoint", self.endpoint, said, self.issuer)
        code = said.get("code", "")
        if _CODE.fullmatch(code) is None:
            raise self._error("the response has neither a code nor an error")
        return code

    def _said(self, callback: str) -> dict[str, str]:
        """The parameters of the response. It must be at the redirect URI, and have each parameter once."""
        if len(callback) > MAX_CALLBACK_CHARACTERS:
            raise self._error("the response is too long")
        try:
            parts = urlsplit(callback.strip())
            pairs = parse_qsl(parts.query, keep_blank_values=True, max_num_fields=100)
        except ValueError:
            raise self._error("the response is no URL") from None
        home = urlsplit(self.redirect_uri)
        if parts.netloc and (parts.scheme, parts.netloc, parts.path) != (home.scheme, home.netloc, home.path):
            raise self._error("the response did not come to the redirect URI of this client")
        said = dict(pairs)
        if len({name for name, _ in pairs}) != len(pairs):
            raise self._error("the response has a parameter twice")
        return said

    def _check_issuer(self, iss: str | None) -> None:
        """Check that the response comes from the server that was asked (RFC 9207, section 2.4).

        # spec: basic/authorization/index/iss-validated, basic/authorization/index/iss-present-compared
        # spec: basic/authorization/index/iss-absent-rejected, basic/authorization/index/iss-no-normalisation
        # spec: basic/authorization/index/iss-mismatch-no-error-display
        """
        if iss is None and self.names_issuer:
            raise self._error(
                "the response does not say who it is from (iss), though that server always does"
            )
        if iss is not None and iss != self.issuer:
            raise self._error("the response is from another authorization server than the one that was asked")

    def _error(self, fault: str) -> AuthorizationError:
        return AuthorizationError(
            f"authorization at {one_line(self.issuer)}: {fault}; nothing was done with it", issuer=self.issuer
        )

    def token_form(self, code: str) -> dict[str, str]:
        """The form of the token request.  # spec: basic/authorization/index/resource-in-both-requests"""
        return {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self.redirect_uri,
            "code_verifier": self.verifier,
            "resource": self.resource,
        }


# --------------------------------------------------------------------------- the token response


@dataclass(frozen=True)
class Tokens:
    """The tokens that an authorization server has issued for one resource."""

    access_token: str = field(repr=False)
    token_type: str
    """Bearer or DPoP."""
    issuer: str
    resource: str
    expires_at: float | None = None
    """Seconds since 1970; None if the server does not say."""
    refresh_token: str | None = field(default=None, repr=False)
    scopes: tuple[str, ...] | None = None
    """The scopes that were granted; None if nothing is known of them."""
    requested: tuple[str, ...] | None = None
    """The scopes that were asked for; None if the request named none."""
    obtained_at: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """The form in which a store keeps the tokens."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> Tokens | None:
        """The tokens from a store; None if it has something else there."""
        texts = ("access_token", "token_type", "issuer", "resource")
        if not all(isinstance(given.get(name), str) for name in texts):
            return None
        if _fault(given["access_token"], given["token_type"], None) is not None:
            return None
        refresh = given.get("refresh_token")
        return cls(
            **{name: given[name] for name in texts},
            expires_at=_moment(given.get("expires_at")),
            refresh_token=refresh if _is_refresh_token(refresh) else None,
            scopes=scopes_of(given.get("scopes")),
            requested=scopes_of(given.get("requested")),
            obtained_at=_moment(given.get("obtained_at")) or 0.0,
        )


def _moment(given: object) -> float | None:
    """A time from a store, in seconds since 1970; None if it cannot be one."""
    return float(given) if isinstance(given, int | float) and abs(given) < MAX_MOMENT else None


def read_tokens(
    said: Mapping[str, Any],
    *,
    issuer: str,
    resource: str,
    requested: tuple[str, ...] | None,
    now: float | None = None,
) -> Tokens:
    """The tokens in a token response. Raises AuthorizationError, which repeats none of them."""
    now = time.time() if now is None else now
    token, kind, refresh = said.get("access_token"), said.get("token_type"), said.get("refresh_token")
    fault = _fault(token, kind, refresh)
    if fault is not None:
        raise AuthorizationError(f"the token response of {one_line(issuer)} {fault}", issuer=issuer)
    granted = scopes_of(said.get("scope"))
    return Tokens(
        access_token=str(token),
        token_type="DPoP" if str(kind).lower() == "dpop" else "Bearer",
        issuer=issuer,
        resource=resource,
        expires_at=_end(said.get("expires_in"), now),
        refresh_token=refresh,
        scopes=requested if granted is None else granted,  # RFC 6749, section 5.1: left out, as asked for
        requested=requested,
        obtained_at=now,
    )


def _fault(token: object, kind: object, refresh: object) -> str | None:
    """What is wrong with a token response; None if it is good."""
    try:
        authorization_header(token if isinstance(token, str) else "")
    except ValueError:
        return "has no access token, or one that fits into no header"
    if not isinstance(kind, str) or kind.lower() not in ("bearer", "dpop"):
        return f"has a token of the type {kind!r:.40}, and not Bearer or DPoP"
    if refresh is not None and not _is_refresh_token(refresh):
        return "has a refresh token that cannot be one"
    return None


def _is_refresh_token(text: object) -> bool:
    if not isinstance(text, str) or len(text) > MAX_REFRESH_TOKEN_CHARACTERS:
        return False
    return _REFRESH_TOKEN.fullmatch(text) is not None


def _end(seconds: object, now: float) -> float | None:
    """When a token expires; None if the server does not say. Some write a string, or 0 for never."""
    if isinstance(seconds, str) and seconds.isascii() and seconds.isdigit() and len(seconds) < 20:
        seconds = int(seconds)
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds < math.inf:
        return None
    return now + min(float(seconds), MAX_LIFE_SECONDS)


def refused_by(where: str, url: str, said: Mapping[str, Any], issuer: str) -> AuthorizationError:
    """The error of a server's response, in its own words, cut short and on one line."""
    code, description = said.get("error"), said.get("error_description")
    code = code if isinstance(code, str) and _ERROR_CODE.fullmatch(code) else None
    told = f": {one_line(description[:MAX_SAID_CHARACTERS])}" if isinstance(description, str) else ""
    shown = one_line(url.partition("?")[0])
    return AuthorizationError(
        f"the {where} {shown} refused with {code or 'no known error'}{told}", error=code, issuer=issuer
    )
