"""Access Token Usage (page: basic/authorization/index), on both sides.

Each HTTP request brings its token, in one place:

    client -> server   Authorization: Bearer <access token>

A session stands for none: it says which messages belong together, not who sends them.

    step 1   credentials_of     the header -> scheme, token       none: 401        malformed: 400
    step 2   a Verifier         the token  -> AccessToken         401              it cannot be asked: 503
    step 3   Rules.check        is it for this server, and now?   401
    step 4   Access.require     has it the scopes?                403

Server half   the steps above; who takes them is api/resource_server
Client half   `authorization_header`

Revisions   2025-03-26  a token in the header of each request, validated, 401 where it is invalid
            2025-06-18  + the audience: a token is for this server, or is refused
            2025-11-25  + scopes, which 403 asks for
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
"""Characters of the longest token."""

MAX_TIME = 1e15
"""Seconds since 1970, beyond all calendars."""

# RFC 6750, section 2.1: b64token
_BEARER_TOKEN = re.compile(r"[A-Za-z0-9\-._~+/]+=*")
_ACCESS_TOKEN_IN_QUERY = re.compile(r"(?:^|&)access_token=")


class InvalidToken(LocalError, ValueError):
    """A Verifier does not take a token. The message says why, to the client: it must not have the token."""


class CannotVerify(LocalError):
    """A Verifier cannot tell, since what it would have to ask does not answer."""

    def __init__(self, message: str, retry_after: float = 5.0) -> None:
        super().__init__(message)
        self.retry_after = retry_after


@dataclass(frozen=True, kw_only=True)
class AccessToken:
    """What a token says, once it is verified. It has not the token itself: that is for this server alone.

    # spec: basic/authorization/security-considerations/no-passthrough
    """

    subject: str | None = None
    """On whose behalf its client asks."""
    client_id: str | None = None
    """The client that it was issued to."""
    scopes: frozenset[str] = frozenset()
    """As they were granted."""
    issuer: str | None = None
    """The authorization server; None where there is no doubt which."""
    audience: tuple[str, ...] = ()
    """The resources that it is for."""
    expires_at: float | None = None
    """In seconds since 1970, as `time.time` has it; None where no end is said."""
    not_before: float | None = None
    claims: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """All that its issuer says, as it came."""
    confirmation: str | None = field(default=None, repr=False)
    """The thumbprint of the key that its sender must have (`cnf.jkt`), if it is bound to one (DPoP)."""

    def __post_init__(self) -> None:
        """Any collection of texts will do. Raises TypeError for one text where several are meant.

        Raises ValueError for a time that never comes: no comparison with NaN is true.
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
"""What makes an AccessToken of a token. None, or InvalidToken: it is no good. Raises CannotVerify."""

# ----------------------------------------------------------------------- server half


class Credentials(NamedTuple):
    """What an Authorization header brings."""

    scheme: str
    """ "Bearer" or "DPoP"."""
    token: str

    def __repr__(self) -> str:
        return f"Credentials({self.scheme}, ...)"


SCHEME_NAMES = {"bearer": "Bearer", "dpop": "DPoP"}


def credentials_of(environ: Mapping[str, Any], refusals: Refusals) -> Credentials:
    """Step 1: the token of a request. Raises Refused.

    Only the header counts. A token in the query stands in logs and histories: it does not count alone, and
    beside one in the header it makes the request malformed (RFC 6750, section 3.1). What another scheme
    brings is no token. Two headers arrive as one with a comma, which no token has.
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
    """Whether two texts name one resource: scheme and host in any case, a lone slash or none.

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
    """What one protected server wants of every token, and what each scope brings with it."""

    resource: str
    """Its canonical URI: what a token must have as its audience."""
    issuers: tuple[str, ...]
    refusals: Refusals
    implies: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Scope -> all that it implies, at whatever remove."""
    clock_skew: float = 30.0
    """Seconds by which the clocks of two machines may differ."""
    hides_tools: bool = False
    """Whether a caller sees those tools only that its scopes allow."""

    def check(self, token: AccessToken, now: float, scheme: str | None = None) -> None:
        """Step 3. Raises Refused for a token that is not of this server's, or not of this time.

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
        """The scopes of a token, and all that they imply.

        # spec: basic/authorization/index/scope-hierarchies
        """
        return token.scopes.union(*(self.implies.get(scope, ()) for scope in token.scopes))


def closure(implies: Mapping[str, Iterable[str]]) -> dict[str, frozenset[str]]:
    """Scope -> all that it implies, at whatever remove. Raises TypeError, ValueError for what is no scope."""
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
    """What one request may do: its token, and the scopes that it has."""

    __slots__ = ("_needs", "_rules", "_scopes", "token")

    def __init__(self, token: AccessToken, rules: Rules, needs: Callable[[Any], Iterable[str]]) -> None:
        """`needs(message)` are the scopes that a message asks for, besides those of every request."""
        self.token, self._rules, self._needs = token, rules, needs
        self._scopes = rules.scopes_of(token)

    def __repr__(self) -> str:
        return f"<access of {self.token!r}>"

    @property
    def hides_tools(self) -> bool:
        """Whether tools that it does not allow are not listed, either."""
        return self._rules.hides_tools

    def allows(self, scopes: Iterable[str]) -> bool:
        """Whether the token has these scopes, by themselves or by broader ones."""
        return self._scopes.issuperset(scopes)

    def check(self, message: Any) -> None:
        """Step 4, before anything of a message is done: no handler has run, no stream has begun.

        Raises Refused. Of a batch, all that its messages need is needed at once.
        """
        self.require(self._needs(message))

    def require(self, scopes: Iterable[str]) -> None:
        """Raise Refused unless the token has these, and what every request needs."""
        wanted = [*self._rules.refusals.scopes, *scopes]
        if not self._scopes.issuperset(wanted):
            raise self._rules.refusals.insufficient(wanted)

    def require_now(self, scopes: Iterable[str]) -> None:
        """The same within a handler. Raises InsufficientScope; also TypeError, ValueError for no scopes."""
        wanted = check_scopes(scopes)
        if not self.allows(wanted):
            raise InsufficientScope(self._rules.refusals.insufficient(wanted))


# ----------------------------------------------------------------------- client half


def authorization_header(token: str, scheme: str = "Bearer") -> dict[str, str]:
    """How a request carries its token. Raises ValueError for one that no header can have.

    # spec: basic/authorization/index/bearer-header, basic/authorization/index/no-token-in-query
    # spec: basic/authorization/index/token-every-request
    """
    if len(token) > MAX_TOKEN_CHARACTERS or _BEARER_TOKEN.fullmatch(token) is None:
        raise ValueError("the access token has characters that no header may, or is empty, or too long")
    return {"Authorization": f"{scheme} {token}"}
