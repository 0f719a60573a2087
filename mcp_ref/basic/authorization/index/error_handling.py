"""Error Handling, Scope Challenge Handling (page: basic/authorization/index), on both sides.

    401   a token is needed, or this one is invalid      WWW-Authenticate: Bearer resource_metadata="..."
    403   the token lacks scopes for this operation      WWW-Authenticate: Bearer error="insufficient_scope"
    400   the authorization request is malformed

A *challenge* in the header says which token would be accepted. One header may hold challenges of several
schemes.

    Challenge(scheme, params)   one challenge
    parse_challenges            server's header -> challenges; parts that cannot be read are left out
    format_challenge            challenge -> the value of a header
    Refusals                    server: the status and the challenges for each thing that can be wrong
    StepUps                     client: how often it asks for more scopes before a 403 is final
    AuthorizationError          client: it cannot get a token, and why

Revisions   2025-03-26  the statuses
            2025-06-18  + resource_metadata in the challenge of a 401
            2025-11-25  + scope, and 403 with insufficient_scope, after which a client steps up
            2026-07-28  + the step up keeps the scopes that were asked for before (scope_selection)
Errors      ValueError for a challenge that cannot be written as a header. Whatever a server sends as a
            challenge, reading it raises nothing.
Threads     plain functions and data; `StepUps` is used with its owner's lock held.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from mcp_ref.basic.authorization.index.scope_selection import union
from mcp_ref.basic.transports.streamable_http.security import Forbidden, Refused
from mcp_ref.runtime.errors import McpError

__all__ = [
    "AuthorizationError",
    "Challenge",
    "InsufficientScope",
    "Refusals",
    "StepUps",
    "check_scopes",
    "choose",
    "format_challenge",
    "parse_challenges",
]

INSUFFICIENT_SCOPE = "insufficient_scope"
SCHEMES = ("bearer", "dpop")
"""The schemes whose challenges a client can answer."""

MAX_HEADER_CHARACTERS = 16_384
"""Characters of a header that are read; the rest is ignored."""
MAX_CHALLENGES = 20
MAX_PARAMETERS = 50
"""Parameters of one challenge that are read; more are ignored."""

# RFC 9110, sections 5.6.2, 5.6.4 and 11.2
_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_SCHEME_NAME = re.compile(_TOKEN)
_AUTH_PARAMETER = re.compile(
    rf'(?P<name>{_TOKEN})[ \t]*=[ \t]*(?:"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<plain>{_TOKEN}))', re.DOTALL
)
_TOKEN68 = re.compile(r"(?P<token>[A-Za-z0-9._~+/-]+=*)[ \t]*(?=,|\Z)")
_SPACES = re.compile(r"[ \t]+")
_BETWEEN = re.compile(r"[ \t\r\n,]*")
_JUNK = re.compile(r'[^,"]*')
_SENDABLE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
# RFC 6750, section 3: what a scope is made of, and what an error_description must not have
_SCOPE = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]{1,256}")
_UNSAYABLE = re.compile(r"[^\x20-\x21\x23-\x5b\x5d-\x7e]")


@dataclass(frozen=True)
class Challenge:
    """What a server demands in one scheme: `Bearer scope="files:read", error="..."`."""

    scheme: str
    params: Mapping[str, str] = field(default_factory=dict)
    """Name, in lower case -> value."""
    token: str | None = None
    """A token68, which some schemes have instead of parameters."""

    @property
    def error(self) -> str | None:
        """The OAuth error code, such as `invalid_token`."""
        return self.params.get("error")

    @property
    def scopes(self) -> tuple[str, ...] | None:
        """The scopes that the operation needs; None if the challenge does not say."""
        scope = self.params.get("scope")
        return None if scope is None else tuple(dict.fromkeys(scope.split()))

    @property
    def resource_metadata(self) -> str | None:
        """The URL of the protected resource metadata."""
        return self.params.get("resource_metadata")


# ------------------------------------------------------------------------- server half


def format_challenge(challenge: Challenge) -> str:
    """The value of a WWW-Authenticate header. Raises ValueError if it would not arrive as it is.

    Characters beyond ASCII arrive as latin-1, or not at all.
    """
    if _SCHEME_NAME.fullmatch(challenge.scheme) is None:
        raise ValueError(f"{challenge.scheme!r:.60} cannot be the name of a scheme")
    if challenge.token is not None:
        if challenge.params or _TOKEN68.fullmatch(challenge.token) is None:
            raise ValueError("a challenge has a token of the characters of base64, or parameters")
        return f"{challenge.scheme} {challenge.token}"
    parts = ", ".join(f"{name}={_quoted(name, value)}" for name, value in challenge.params.items())
    return f"{challenge.scheme} {parts}".rstrip()


def _quoted(name: str, value: str) -> str:
    if _SCHEME_NAME.fullmatch(name) is None or name != name.lower():
        raise ValueError(f"{name!r:.60} cannot be the name of a parameter, which is in lower case")
    if _SENDABLE.fullmatch(value) is None:
        raise ValueError(f"the parameter {name} holds a character that no header may")
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def check_scopes(scopes: Iterable[str]) -> tuple[str, ...]:
    """The scopes, each once, in the order given. Raises TypeError, ValueError for what cannot be a scope.

    `offline_access` is refused: clients ask authorization servers for it, and resources have no use for it.
    # spec: basic/authorization/index/no-offline-access-challenge
    """
    if isinstance(scopes, str):
        raise TypeError(f"scopes are a list of strings, not {scopes!r:.60}")
    several = tuple(dict.fromkeys(scopes))
    for scope in several:
        if not isinstance(scope, str) or _SCOPE.fullmatch(scope) is None:
            raise ValueError(
                f"{scope!r:.60} is no scope: those are visible ASCII without quotes and backslash"
            )
        if scope == "offline_access":
            raise ValueError("offline_access is between a client and its authorization server: leave it out")
    return several


class InsufficientScope(Forbidden):
    """A token lacks scopes for what a handler does. The status is 403, if no response has begun."""


@dataclass(frozen=True)
class Refusals:
    """The refusals of a protected server.

    Each has one challenge for every scheme that the server accepts, always made in the same way: the error if
    there is a token, the scopes that are needed, and the URL of the metadata. The challenge of the scheme in
    use comes first.
    # spec: basic/authorization/index/scope-consistency
    # spec: basic/authorization/index/challenge-strategy-consistent
    """

    metadata_url: str
    schemes: Mapping[str, Mapping[str, str]]
    """Scheme -> the parameters that its challenges have besides."""
    scopes: tuple[str, ...] = ()
    """The scopes that every request needs."""

    def missing(self) -> Refused:
        """401: there is no token. The challenge has no error: no token is wrong (RFC 6750, section 3.1).

        # spec: basic/authorization/index/unauthenticated-401
        """
        return self._refused(401, "this server wants an access token, in the Authorization header")

    def invalid(
        self, why: str, *, scheme: str | None = None, error: str = "invalid_token", nonce: str | None = None
    ) -> Refused:
        """401: this token is invalid. With `scheme`, only the challenge of that scheme has the error.

        # spec: basic/authorization/index/token-invalid-401
        # spec: basic/authorization/index/token-error-response
        """
        more = [] if nonce is None else [("DPoP-Nonce", nonce)]
        return self._refused(401, why, error, scheme=scheme, more=more)

    def malformed(self, why: str) -> Refused:
        """400: the credentials cannot be read, or are sent in two places."""
        return self._refused(400, why, "invalid_request")

    def insufficient(self, needed: Iterable[str]) -> Refused:
        """403: the token lacks scopes. The challenge names all that the operation needs, also those it has.

        # spec: basic/authorization/index/status-codes
        # spec: basic/authorization/index/insufficient-scope-403
        # spec: basic/authorization/index/insufficient-scope-lists
        # spec: basic/authorization/index/single-challenge
        """
        scopes = dict.fromkeys([*self.scopes, *needed])
        why = f"this needs a token with the scopes {' '.join(scopes)}"
        return self._refused(403, why, INSUFFICIENT_SCOPE, scopes)

    def _refused(
        self,
        status: int,
        why: str,
        error: str | None = None,
        scopes: Iterable[str] = (),
        *,
        scheme: str | None = None,
        more: Iterable[tuple[str, str]] = (),
    ) -> Refused:
        """# spec: basic/authorization/index/challenge-scope"""
        scope = " ".join(scopes or self.scopes)
        ends = {"scope": scope} if scope else {}
        ends["resource_metadata"] = self.metadata_url
        wrong = {} if error is None else {"error": error, "error_description": _UNSAYABLE.sub("?", why)}
        used = scheme if scheme in self.schemes else None
        challenges = [
            Challenge(name, {**own, **(wrong if used in (None, name) else {}), **ends})
            for name, own in sorted(self.schemes.items(), key=lambda entry: entry[0] != used)
        ]
        headers = [("WWW-Authenticate", format_challenge(challenge)) for challenge in challenges]
        return Refused(status, why, [*headers, *more])


# ------------------------------------------------------------------------- client half


class AuthorizationError(McpError):
    """The client cannot get an access token. Says which step failed, at which URL, and what can be done."""

    def __init__(self, message: str, *, error: str | None = None, issuer: str | None = None) -> None:
        super().__init__(message)
        self.error = error
        """The OAuth error code, if a server gave one, such as `access_denied` or `invalid_grant`."""
        self.issuer = issuer
        """The authorization server, if it was known."""


def parse_challenges(header: str | None) -> list[Challenge]:
    """All challenges of a WWW-Authenticate header; several headers may be joined by commas.

    Text that is not a challenge is skipped, up to the next comma; of a repeated parameter, the first counts.
    """
    text = (header or "")[:MAX_HEADER_CHARACTERS]
    found: list[tuple[str, dict[str, str], str | None]] = []
    at = 0
    while (at := _end(_BETWEEN, text, at)) < len(text) and len(found) <= MAX_CHALLENGES:
        if parameter := _AUTH_PARAMETER.match(text, at):
            at = parameter.end()
            if found:
                _keep(parameter, found[-1][1])
        elif scheme := _SCHEME_NAME.match(text, at):
            at = scheme.end()
            token, at = _token68(text, at)
            found.append((scheme[0], {}, token))
        else:
            at = _after_junk(text, at)
    return [Challenge(*parts) for parts in found[:MAX_CHALLENGES]]


def _end(pattern: re.Pattern[str], text: str, at: int) -> int:
    """The end of a match that begins here; here, if there is no match."""
    found = pattern.match(text, at)
    return at if found is None else found.end()


def _keep(parameter: re.Match[str], params: dict[str, str]) -> None:
    quoted, plain = parameter["quoted"], parameter["plain"]
    if len(params) < MAX_PARAMETERS:
        value = plain if quoted is None else re.sub(r"\\(.)", r"\1", quoted, flags=re.DOTALL)
        params.setdefault(parameter["name"].lower(), value)


def _token68(text: str, at: int) -> tuple[str | None, int]:
    """The token68 after a scheme, or None, and the position at which to go on."""
    spaces = _SPACES.match(text, at)
    token = _TOKEN68.match(text, spaces.end()) if spaces is not None else None
    return (None, at) if token is None else (token["token"], token.end())


def _after_junk(text: str, at: int) -> int:
    """The place after junk: at the next comma, after a quoted text, or at the end if it is never closed."""
    at = _end(_JUNK, text, at)
    if text[at : at + 1] == '"':
        closing = text.find('"', at + 1)
        return len(text) if closing < 0 else closing + 1
    return at


def choose(challenges: Iterable[Challenge]) -> Challenge | None:
    """The first challenge in a scheme that a client can answer: it names the metadata. None without one."""
    return next((c for c in challenges if c.scheme.lower() in SCHEMES), None)


MAX_STEP_UPS = 2
"""How often a client asks for the same scopes after a 403."""
MAX_STEP_UPS_IN_ALL = 20
"""How often a client asks one server for more scopes, counting all sets of scopes together."""


class StepUps:
    """How often a client has asked for more scopes."""

    def __init__(self) -> None:
        self._counts: dict[frozenset[str], int] = {}

    def next(self, before: Iterable[str], challenge: Challenge) -> tuple[str, ...] | None:
        """The scopes to ask for after a 403: those asked for before, and those needed. None: it is final.

        # spec: basic/authorization/index/step-up, basic/authorization/index/step-up-for-users
        # spec: basic/authorization/index/step-up-own-behalf, basic/authorization/index/step-up-union
        # spec: basic/authorization/index/step-up-few-retries, basic/authorization/index/retry-limits
        # spec: basic/authorization/index/track-upgrades
        """
        needed = challenge.scopes or ()
        return union(before, needed) if self.count(needed) else None

    def count(self, scopes: Iterable[str]) -> bool:
        """Count one more attempt for these scopes. False if there were too many: the 403 is final."""
        wanted = frozenset(scopes)
        before = self._counts.get(wanted, 0)
        if before >= MAX_STEP_UPS or sum(self._counts.values()) >= MAX_STEP_UPS_IN_ALL:
            return False
        self._counts[wanted] = before + 1
        return True
