"""Access Token Usage (page: basic/authorization/index), on both sides.

Each HTTP request carries its token, in one place:

    client -> server   Authorization: Bearer <access token>

A session does not replace the token: it says which messages belong together, not who sends them.

    step 1   credentials_of     the header -> scheme, token       none: 401        malformed: 400
    step 2   a Verifier         the token  -> AccessToken         401              cannot tell: 503
    step 3   Rules.check        for this server, valid now?       401
    step 4   Access.require     has it the scopes?                403

Server half   the steps above, which api/resource_server takes
Client half   `authorization_header`

Revisions   2025-03-26  a token in the header of each request, validated, 401 where it is invalid
            2025-06-18  + the audience: a token is for this server, or is refused
            2025-11-25  + scopes: 403 says which are missing
            2026-07-28  + a scope may imply others
Errors      Refused with the status of each step; InvalidToken and CannotVerify are what a Verifier raises.
Threads     plain functions, and objects that never change.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import urlsplit

from mcp_ref.basic.authorization.index.error_handling import InsufficientScope, Refusals, check_scopes
from mcp_ref.runtime.errors import LocalError

__all__ = [
    "Access",
    "AccessToken",
    "CannotVerify",
    "Credentials",
    "InvalidToken",
    "Rules",
    "Verifier",
    "authorization_header",
    "credentials_of",
    "is_same_uri",
]

MAX_TOKEN_CHARACTERS = 16_384
"""Characters of the longest token that is accepted, or sent."""

MAX_TIME = 1e15
"""The latest time, in seconds since 1970, that a token may name: far beyond every calendar."""

# RFC 6750, section 2.1: b64token
_BEARER_TOKEN = re.compile(r"[A-Za-z0-9\-._~+/]+=*")
_ACCESS_TOKEN_IN_QUERY = re.compile(r"(?:^|&)access_token=")


class InvalidToken(LocalError, ValueError):
    """A Verifier refuses a token. The message goes to the client: it must not contain the token."""


class CannotVerify(LocalError):
    """A Verifier cannot tell whether a token is good: what it has to ask does not answer."""

    def __init__(self, message: str, retry_after: float = 5.0) -> None:
        super().__init__(message)
        self.retry_after = retry_after


@dataclass(frozen=True, kw_only=True)
class AccessToken:
    """What a verified token says. It does not contain the token, which must not be passed on.

    # spec: basic/authorization/security-considerations/no-passthrough
    """

    subject: str | None = None
    """On whose behalf the client acts."""
    client_id: str | None = None
    """The client to which the token was issued."""
    scopes: frozenset[str] = frozenset()
    """The scopes that were granted, without those that they imply."""
    issuer: str | None = None
    """The authorization server that issued it; None if only one is possible."""
    audience: tuple[str, ...] = ()
    """The resources for which the token was issued."""
    expires_at: float | None = None
    """In seconds since 1970, as `time.time` returns; None if the token does not say."""
    not_before: float | None = None
    claims: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """All claims of the issuer, as they came."""
    confirmation: str | None = field(default=None, repr=False)
    """The thumbprint of the key that the token is bound to (`cnf.jkt`, DPoP); None for a bearer token."""

    def __post_init__(self) -> None:
        """Convert `scopes` and `audience`, which may be any collections of strings, but not one string.

        Raises TypeError; ValueError for a time beyond MAX_TIME, or NaN, with which no comparison is true.
        """
        for name, kind in (("scopes", frozenset), ("audience", tuple)):
            several: Any = getattr(self, name)
            if isinstance(several, str) or not all(isinstance(one, str) for one in several):
                raise TypeError(f"{name} are several texts, not {type(several).__name__}")
            object.__setattr__(self, name, kind(several))
        for name in ("expires_at", "not_before"):
            when = getattr(self, name)
            if isinstance(when, bool) or not isinstance(when, int | float | None):
                raise TypeError(f"{name} is in seconds since 1970, not {type(when).__name__}")
            if when is not None and not abs(when) <= MAX_TIME:
                raise ValueError(f"{name} is no time in seconds since 1970, nor None, for no such time")


Verifier: TypeAlias = Callable[[str], AccessToken | None]
"""Verifies a token: returns an AccessToken, or None for a bad one. Raises InvalidToken, CannotVerify."""

# ----------------------------------------------------------------------- server half


class Credentials(NamedTuple):
    """The scheme and the token of an Authorization header."""

    scheme: str
    """ "Bearer" or "DPoP"."""
    token: str

    def __repr__(self) -> str:
        return f"Credentials({self.scheme}, ...)"


SCHEME_NAMES = {"bearer": "Bearer", "dpop": "DPoP"}


def credentials_of(environ: Mapping[str, Any], refusals: Refusals) -> Credentials:
    """Step 1: the token of a request. Raises Refused.

    Only the header counts. A token in the query ends up in logs and histories: alone it is ignored, beside
    one in the header it makes the request malformed (RFC 6750, section 3.1). Credentials of other schemes are
    no token. Two headers arrive as one with a comma, which is in no token.
    # spec: basic/authorization/index/oauth-section-5
    """
    header: str = environ.get("HTTP_AUTHORIZATION", "")
    name, _, token = header.partition(" ")
    scheme = SCHEME_NAMES.get(name.lower())
    if scheme is None or scheme not in refusals.schemes:
        raise refusals.missing()
    token = token.strip(" ")
    if len(token) > MAX_TOKEN_CHARACTERS or _BEARER_TOKEN.fullmatch(token) is None:
        raise refusals.malformed("the Authorization header is one scheme, a space, and one token")
    if _ACCESS_TOKEN_IN_QUERY.search(environ.get("QUERY_STRING", "")):
        raise refusals.malformed("a token goes into the Authorization header, and nowhere else")
    return Credentials(scheme, token)


def is_same_uri(one: str, other: str) -> bool:
    """Whether two URIs name one resource: neither the case of scheme and host nor a lone slash counts.

    # spec: basic/authorization/index/uppercase-accepted
    """
    return one == other or _canonical(one) == _canonical(other)


def _canonical(uri: str) -> tuple[str, ...] | str:
    try:
        parts = urlsplit(uri)
    except ValueError:
        return uri
    path = "" if parts.path == "/" else parts.path
    return parts.scheme.lower(), parts.netloc.lower(), path, parts.query, parts.fragment


@dataclass(frozen=True)
class Rules:
    """What a protected server demands of every token, and which scopes imply others."""

    resource: str
    """The canonical URI of the server, which must be in the audience of a token."""
    issuers: tuple[str, ...]
    refusals: Refusals
    implies: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Scope -> all scopes that it implies, directly or through others (`closure`)."""
    clock_skew: float = 30.0
    """Seconds by which the clocks of two machines may differ."""
    hides_tools: bool = False
    """Whether a caller sees only the tools that its scopes allow."""

    def check(self, token: AccessToken, now: float, scheme: str | None = None) -> None:
        """Step 3. Raises Refused for a token that is for another server, of another issuer, or not valid now.

        # spec: basic/authorization/index/token-validated
        # spec: basic/authorization/index/token-audience
        # spec: basic/authorization/index/server-own-tokens
        # spec: basic/authorization/index/no-token-transit
        """
        why = None
        if not any(is_same_uri(audience, self.resource) for audience in token.audience):
            why = "the token was issued for another audience than this server"
        elif token.issuer is not None and token.issuer not in self.issuers:
            why = "the token was issued by none of the authorization servers of this server"
        elif token.expires_at is not None and not now < token.expires_at + self.clock_skew:
            why = "the token has expired"
        elif token.not_before is not None and not now >= token.not_before - self.clock_skew:
            why = "the token is not valid yet"
        if why is not None:
            raise self.refusals.invalid(why, scheme=scheme)

    def scopes_of(self, token: AccessToken) -> frozenset[str]:
        """The scopes of a token, and all scopes that they imply.

        # spec: basic/authorization/index/scope-hierarchies
        """
        return token.scopes.union(*(self.implies.get(scope, ()) for scope in token.scopes))


def closure(implies: Mapping[str, Iterable[str]]) -> dict[str, frozenset[str]]:
    """Scope -> itself, and all that it implies, directly or through others. Raises TypeError, ValueError."""
    direct = {check_scopes([scope])[0]: check_scopes(narrower) for scope, narrower in implies.items()}
    found = {}
    for scope in direct:
        reached, todo = {scope}, [scope]
        while todo:
            new = set(direct.get(todo.pop(), ())) - reached
            reached |= new
            todo += new
        found[scope] = frozenset(reached)
    return found


class Access:
    """What one request may do: its token, and the scopes that the token has."""

    __slots__ = ("_needs", "_rules", "_scopes", "token")

    def __init__(self, token: AccessToken, rules: Rules, needs: Callable[[Any], Iterable[str]]) -> None:
        """`needs(message)` returns the scopes that a message needs beyond those of every request."""
        self.token, self._rules, self._needs = token, rules, needs
        self._scopes = rules.scopes_of(token)

    def __repr__(self) -> str:
        return f"<access of {self.token!r}>"

    @property
    def hides_tools(self) -> bool:
        """Whether tools that it does not allow are left out of the list, too."""
        return self._rules.hides_tools

    def allows(self, scopes: Iterable[str]) -> bool:
        """Whether the token has these scopes, or broader ones that imply them."""
        return self._scopes.issuperset(scopes)

    def check(self, message: Any) -> None:
        """Step 4, for a message, before any handler runs or a stream begins. Raises Refused.

        A batch needs the scopes of all its messages together.
        """
        self.require(self._needs(message))

    def require(self, scopes: Iterable[str]) -> None:
        """Raise Refused unless the token has these scopes, and those that every request needs."""
        wanted = [*self._rules.refusals.scopes, *scopes]
        if not self._scopes.issuperset(wanted):
            raise self._rules.refusals.insufficient(wanted)

    def require_now(self, scopes: Iterable[str]) -> None:
        """Step 4 within a handler. Raises InsufficientScope; TypeError, ValueError for bad scopes."""
        wanted = check_scopes(scopes)
        if not self.allows(wanted):
            raise InsufficientScope(self._rules.refusals.insufficient(wanted))


# ----------------------------------------------------------------------- client half


def authorization_header(token: str, scheme: str = "Bearer") -> dict[str, str]:
    """The header that carries the token of a request. Raises ValueError for a token that fits into none.

    # spec: basic/authorization/index/bearer-header, basic/authorization/index/no-token-in-query
    # spec: basic/authorization/index/token-every-request
    """
    if len(token) > MAX_TOKEN_CHARACTERS or _BEARER_TOKEN.fullmatch(token) is None:
        raise ValueError("the access token has characters that no header may, or is empty, or too long")
    return {"Authorization": f"{scheme} {token}"}
