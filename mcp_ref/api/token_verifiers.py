"""Two verifiers, by which a protected server reads access tokens (pages: basic/authorization).

    JwtVerifier("https://auth.example.com", jwks_uri="https://auth.example.com/jwks")
    Introspection("https://auth.example.com/introspect", "notes", "its secret")

The first verifies the signature of a JSON web token (RFC 9068) with the keys of its issuer; the second asks
the authorization server about a token (RFC 7662). A function of one's own is a verifier as well. Whether the
token is for this server, and still valid, is checked afterwards, for any verifier (api/resource_server).

Nothing here stores or logs a token: the answers of an introspection are cached under a keyed hash of it.

Revisions   2025-03-26 to 2026-07-28
Errors      InvalidToken: the token is invalid, and why. CannotVerify: the keys or the answer cannot be
            fetched just now.
Threads     any. One thread fetches keys (runtime/threads/refreshed); `_lock` guards the answers.
"""

from __future__ import annotations

import functools
import hashlib
import hmac
import math
import os
import threading
import time
from base64 import b64encode
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import quote_plus, urlencode, urlsplit

from mcp_ref.basic.authorization.index.access_tokens import AccessToken, CannotVerify, InvalidToken
from mcp_ref.runtime import jose
from mcp_ref.runtime.checks import check_callable, check_seconds, check_text, check_text_if_any
from mcp_ref.runtime.http_client.addresses import Reach, is_loopback
from mcp_ref.runtime.jose import JoseError, KeySet, UnknownKey
from mcp_ref.runtime.threads import forks
from mcp_ref.runtime.threads.refreshed import NotFetched, Refreshed

if TYPE_CHECKING:
    from mcp_ref.runtime.http_client.fetching import Fetcher

__all__ = ["Introspection", "JwtVerifier"]

Fetch = Callable[[str], Any]
"""The JSON document at a URL. Raises any exception it likes."""

Post = Callable[[str, bytes, Mapping[str, str]], tuple[int, Any]]
"""POSTs a form with headers to a URL; returns the status and the JSON of the answer."""

KEYS_SECONDS = 10.0
"""Seconds that fetching the keys of an issuer may take."""

DEFAULT_TYP = "at+jwt"
"""The `typ` in the header of an access token (RFC 9068, section 2.1)."""

TYPES_OF_OLD = frozenset({None, "jwt", "at+jwt"})
"""The values of `typ` that are accepted with `typ=None`; None is for a header without it."""


class JwtVerifier:
    """Verifies access tokens that are JSON web tokens of one issuer."""

    def __init__(
        self,
        issuer: str,
        *,
        jwks_uri: str | None = None,
        jwks: Mapping[str, Any] | Callable[[], Mapping[str, Any]] | None = None,
        algorithms: Sequence[str] = jose.ASYMMETRIC,
        typ: str | None = DEFAULT_TYP,
        fetch: Fetch | None = None,
        allow_http: bool = False,
        fresh_seconds: float = 300.0,
        pause_seconds: float = 30.0,
    ) -> None:
        """The keys are those at `jwks_uri`, or `jwks` itself, or what the function `jwks` returns.

        They are fetched anew after `fresh_seconds`, and for a token with an unknown key: once in
        `pause_seconds`, however many such tokens come. If that fails, the old ones are used for a day.
        `typ=None` is for issuers whose access tokens do not have the type `at+jwt`: then only the audience
        tells them from other tokens of the issuer. With `allow_http`, keys are fetched over http from other
        machines, too.
        """
        jose.require()
        check_text(issuer=issuer)
        check_text_if_any(jwks_uri=jwks_uri, typ=typ)
        check_callable(fetch=fetch)
        check_seconds("fresh_seconds", fresh_seconds)
        check_seconds("pause_seconds", pause_seconds)
        unknown = set(algorithms) - set(jose.ASYMMETRIC)
        if isinstance(algorithms, str) or unknown or not algorithms:
            raise ValueError(f"algorithms are some of {', '.join(jose.ASYMMETRIC)}, not {algorithms!r:.100}")
        if (jwks_uri is None) == (jwks is None):
            raise ValueError("the keys are at jwks_uri, or in jwks: pass one of them")
        self.issuer = issuer
        self._algorithms, self._typ = tuple(algorithms), typ
        load: Callable[[], Any]
        if jwks_uri is not None:
            load = functools.partial(fetch or _fetch_from(jwks_uri, allow_http), jwks_uri)
        else:
            load = jwks if callable(jwks) else lambda: jwks
            if not callable(jwks):
                KeySet.of(jwks)  # so that an invalid key set raises JoseError here
        self._keys = Refreshed(
            f"the keys of {issuer}",
            lambda: KeySet.of(load()),
            fresh=fresh_seconds,
            pause=pause_seconds,
        )

    def __repr__(self) -> str:
        return f"JwtVerifier({self.issuer!r})"

    def __call__(self, token: str) -> AccessToken:
        """What the token says. Raises InvalidToken, CannotVerify."""
        try:
            header, claims = self._verified(token)
            if self._typ is None and not _is_old_type(header):
                raise InvalidToken("the token is of another type than an access token")
            return self._read(claims)
        except NotFetched as problem:
            raise CannotVerify(str(problem), problem.retry_after) from None
        except JoseError as problem:  # it repeats nothing of the token
            raise InvalidToken(str(problem)) from None

    def _verified(self, token: str) -> jose.Jwt:
        """The token, verified with a known key, or one fetched anew. Raises JoseError, NotFetched."""
        keys = self._keys.get()
        try:
            return jose.verify(token, keys, algorithms=self._algorithms, typ=self._typ)
        except UnknownKey:
            newer = self._keys.newer(keys)
            if newer is keys:
                raise
            return jose.verify(token, newer, algorithms=self._algorithms, typ=self._typ)

    def _read(self, claims: dict[str, Any]) -> AccessToken:
        """The AccessToken that the claims make, by RFC 9068. Raises JoseError, InvalidToken."""
        if claims.get("iss") != self.issuer:
            raise InvalidToken("the token is of another issuer")
        subject = claims.get("sub")
        if not isinstance(subject, str) or not subject:
            raise InvalidToken("the token does not say whose it is (sub)")
        # With an infinite skew this checks only that `exp` exists and both are times; `Rules` compares them.
        expires_at = jose.check_times(claims, now=0.0, skew=math.inf)
        return AccessToken(
            subject=subject,
            client_id=_text(claims, "client_id") or _text(claims, "azp"),
            scopes=scopes_in(claims),
            issuer=self.issuer,
            audience=jose.audience_of(claims),
            expires_at=expires_at,
            not_before=claims.get("nbf"),
            claims=claims,
            confirmation=confirmation_in(claims),
        )


def _is_old_type(header: Mapping[str, Any]) -> bool:
    typ = header.get("typ")
    return (typ.lower().removeprefix("application/") if isinstance(typ, str) else typ) in TYPES_OF_OLD


def _text(claims: Mapping[str, Any], name: str) -> str | None:
    value = claims.get(name)
    return value if isinstance(value, str) and value else None


def scopes_in(claims: Mapping[str, Any]) -> frozenset[str]:
    """The scopes of a token: `scope`, separated by spaces. Some issuers send a list, or name it `scp`.

    Raises InvalidToken.
    """
    found = claims.get("scope", claims.get("scp", ""))
    # RFC 6749, section 3.3: only the space separates scopes, no other white space.
    several = [scope for scope in found.split(" ") if scope] if isinstance(found, str) else found
    if not isinstance(several, list) or not all(isinstance(scope, str) for scope in several):
        raise InvalidToken("the scopes of the token are no text")
    return frozenset(several)


def confirmation_in(claims: Mapping[str, Any]) -> str | None:
    """The thumbprint of the key that the sender of a token must have; None if it is not bound to one.

    Raises InvalidToken for a token that is bound otherwise, such as to a certificate: since the binding is
    not checked here, such a token would be good for anyone who has it.
    """
    if claims.get("cnf") is None:
        return None
    bound = claims["cnf"]
    thumbprint = bound.get("jkt") if isinstance(bound, dict) else None
    if not isinstance(thumbprint, str) or len(bound) != 1:
        raise InvalidToken("the token is bound to its sender in a way that this server does not know")
    return thumbprint


def _fetcher(allow_http: bool, seconds: float) -> Fetcher:
    """A Fetcher for a URL that the author has named: any address is allowed; size and time are bounded."""
    # Imported here for start-up time: a server that was given its keys fetches nothing.
    from mcp_ref.runtime.http_client.fetching import Fetcher

    return Fetcher(allowed=tuple(Reach), allow_http=allow_http, seconds=seconds)


def check_server_url(name: str, url: str, *, allow_http: bool) -> None:
    """Check that a URL is https, or http to this machine or with `allow_http`.

    Raises ValueError, which names the option and not the URL: there may be a password in it.
    """
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        host = ""
    if not host or parts.scheme not in ("https", "http") or "@" in parts.netloc:
        raise ValueError(f"{name} is a URL that begins with https://, and has no user in it")
    if parts.scheme == "http" and not allow_http and not is_loopback(host):
        raise ValueError(
            f"{name} is http to another machine, where it can be read and changed on the way: write https, "
            "or allow_http=True in a network of your own"
        )


def _fetch_from(jwks_uri: str, allow_http: bool) -> Fetch:
    check_server_url("jwks_uri", jwks_uri, allow_http=allow_http)
    return functools.partial(_fetched, allow_http)


def _fetched(allow_http: bool, url: str) -> Any:
    """The JSON document at a URL. Raises FetchError."""
    answer = _fetcher(allow_http, KEYS_SECONDS).get(
        url, {"Accept": "application/jwk-set+json, application/json"}
    )
    if answer.status != 200:
        raise answer.error(f"the status is {answer.status}")
    return answer.json()


# ------------------------------------------------------------------------------ introspection

MAX_ANSWERS = 1000
"""Answers that are cached; the least recent is forgotten first."""
MAX_AT_ONCE = 20
"""Introspection requests under way at once; further ones wait."""
MAX_WAIT_SECONDS = 5.0
"""How long they wait; then CannotVerify is raised."""
ANSWER_SECONDS = 10.0
"""Seconds that one answer may take."""


TOKEN_TYPES = ("bearer", "dpop", "n_a")
"""The values of `token_type` for access tokens, in lower case; N_A is from RFC 8693: no particular type."""


class Introspection:
    """Asks an authorization server about a token (RFC 7662)."""

    def __init__(
        self,
        url: str,
        client_id: str,
        client_secret: str,
        *,
        issuer: str | None = None,
        auth_method: str = "client_secret_basic",
        cache_seconds: float = 30.0,
        post: Post | None = None,
        allow_http: bool = False,
        now: Callable[[], float] = time.time,
    ) -> None:
        """This server is a client of the authorization server, with an id and a secret of its own.

        An answer is cached for `cache_seconds`: for so long a revoked token may still be accepted. With zero
        the authorization server is asked for each request. `issuer` is the issuer of tokens if the answers do
        not name it. `allow_http` allows http to other machines: tokens and secret can be read on the way.
        """
        check_text(url=url, client_id=client_id, client_secret=client_secret)
        check_text_if_any(issuer=issuer)
        check_callable(post=post)
        if post is None:
            check_server_url("url", url, allow_http=allow_http)
        if cache_seconds != 0:
            check_seconds("cache_seconds", cache_seconds)
        if auth_method not in ("client_secret_basic", "client_secret_post"):
            raise ValueError("auth_method is client_secret_basic or client_secret_post")
        self.url, self.issuer = url, issuer
        self._client = client_id, client_secret
        self._is_basic = auth_method == "client_secret_basic"
        self._post = post or functools.partial(_posted, allow_http)
        self._seconds, self._now = cache_seconds, now
        self._key = os.urandom(32)
        self.forked()
        forks.register(self)

    def forked(self) -> None:
        """Begin with an empty cache: at the start, and again in a forked child."""
        self._lock = threading.Lock()
        self._answers: OrderedDict[bytes, tuple[float, AccessToken | None]] = (
            OrderedDict()
        )  # guarded by _lock
        self._places = threading.BoundedSemaphore(MAX_AT_ONCE)

    def __repr__(self) -> str:
        return f"Introspection({self.url!r})"

    def __call__(self, token: str) -> AccessToken | None:
        """What the token says; None if it is not active. Raises InvalidToken, CannotVerify."""
        name = hmac.digest(self._key, token.encode("utf-8", "replace"), hashlib.sha256)
        known = self._known(name)
        if known is not None:
            return known[1]
        answer = self._asked(token)
        found = None if answer.get("active") is not True else self._read(answer)
        self._keep(name, found)
        return found

    def _known(self, name: bytes) -> tuple[float, AccessToken | None] | None:
        with self._lock:
            kept = self._answers.get(name)
            if kept is not None and kept[0] <= self._now():
                del self._answers[name]
                kept = None
            elif kept is not None:
                self._answers.move_to_end(name)
        return kept

    def _keep(self, name: bytes, found: AccessToken | None) -> None:
        until = self._now() + self._seconds
        if found is not None and found.expires_at is not None:
            until = min(until, found.expires_at)
        with self._lock:
            self._answers[name] = until, found
            self._answers.move_to_end(name)
            if len(self._answers) > MAX_ANSWERS:
                self._answers.popitem(last=False)

    def _asked(self, token: str) -> dict[str, Any]:
        form = {"token": token, "token_type_hint": "access_token"}
        headers = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}
        client_id, secret = self._client
        if self._is_basic:  # RFC 6749, section 2.3.1: first form-encoded, then encoded for Basic
            pair = f"{quote_plus(client_id)}:{quote_plus(secret)}".encode()
            headers["Authorization"] = f"Basic {b64encode(pair).decode('ascii')}"
        else:
            form |= {"client_id": client_id, "client_secret": secret}
        if not self._places.acquire(timeout=MAX_WAIT_SECONDS):
            raise CannotVerify("too many tokens are being asked for")
        try:
            status, answer = self._post(self.url, urlencode(form).encode("ascii"), headers)
        except Exception as problem:
            raise CannotVerify(f"{self.url} does not answer: {type(problem).__name__}") from None
        finally:
            self._places.release()
        if status != 200 or not isinstance(answer, dict):
            raise CannotVerify(f"{self.url} answers with status {status}, or with no JSON object")
        return answer

    def _read(self, answer: dict[str, Any]) -> AccessToken:
        """The AccessToken of an answer about an active token. Raises InvalidToken.

        An active token need not be an access token: it may be a refresh token, for example.
        """
        if str(answer.get("token_type") or "Bearer").lower() not in TOKEN_TYPES:
            raise InvalidToken("the token is of another type than an access token")
        try:
            expires_at = jose.check_times(answer, now=0.0, skew=math.inf, required=False)
            audience = jose.audience_of(answer)
        except JoseError as problem:
            raise InvalidToken(str(problem)) from None
        return AccessToken(
            subject=_text(answer, "sub"),
            client_id=_text(answer, "client_id"),
            scopes=scopes_in(answer),
            issuer=_text(answer, "iss") or self.issuer,
            audience=audience,
            expires_at=expires_at,
            not_before=answer.get("nbf"),
            claims=answer,
            confirmation=confirmation_in(answer),
        )


def _posted(allow_http: bool, url: str, form: bytes, headers: Mapping[str, str]) -> tuple[int, Any]:
    """The status and the JSON of an answer. Raises FetchError."""
    answer = _fetcher(allow_http, ANSWER_SECONDS).post(url, form, headers)
    return answer.status, answer.json() if answer.status == 200 else None
