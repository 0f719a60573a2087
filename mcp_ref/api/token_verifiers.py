"""How a protected server finds out what an access token says: two verifiers (pages: basic/authorization).

    JwtVerifier("https://auth.example.com", jwks_uri="https://auth.example.com/jwks")
    Introspection("https://auth.example.com/introspect", "notes", "its secret")

The first verifies the signature of a JSON web token (RFC 9068) with the keys of its issuer; the second asks
the authorization server what a token is (RFC 7662). A function of one's own is a verifier as well. What the
token says is compared with what the server wants afterwards, whatever verified it (api/resource_server).

Nothing here keeps or logs a token: the answers of an introspection are kept under a keyed hash of it.

Revisions   2025-03-26 to 2026-07-28
Errors      InvalidToken: this one is no good, and why. CannotVerify: keys or answers cannot be had just now.
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
"""POSTs a form with headers to a URL: the status and the JSON of the answer."""

KEYS_SECONDS = 10.0
"""Seconds for the keys of an issuer to come."""

DEFAULT_TYP = "at+jwt"
"""What the header of an access token says that it is (RFC 9068, section 2.1)."""

TYPES_OF_OLD = frozenset({None, "jwt", "at+jwt"})
"""What it may say otherwise, where a server takes any."""


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
        """The keys are those at `jwks_uri`, or `jwks` itself, or what it returns.

        They are fetched anew after `fresh_seconds`, and for a token of an unknown key: once in
        `pause_seconds`, however many such tokens come. Where they cannot be had, the old ones are good for a
        day. `typ=None` is for issuers whose access tokens do not say that they are some, and so can be told
        from their other tokens by the audience alone. `allow_http` fetches keys over http from other machines
        than this one, too.
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
                KeySet.of(jwks)  # raises JoseError now, for what is no key set
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
        """The token, by a key that there is, or by one that is new. Raises JoseError, NotFetched."""
        keys = self._keys.get()
        try:
            return jose.verify(token, keys, algorithms=self._algorithms, typ=self._typ)
        except UnknownKey:
            newer = self._keys.newer(keys)
            if newer is keys:
                raise
            return jose.verify(token, newer, algorithms=self._algorithms, typ=self._typ)

    def _read(self, claims: dict[str, Any]) -> AccessToken:
        """The claims that RFC 9068 wants. Raises JoseError, InvalidToken."""
        if claims.get("iss") != self.issuer:
            raise InvalidToken("the token is of another issuer")
        subject = claims.get("sub")
        if not isinstance(subject, str) or not subject:
            raise InvalidToken("the token does not say whose it is (sub)")
        expires_at = jose.check_times(claims, now=0.0, skew=math.inf)  # that they are there, and are times
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
    """The scopes that a token has: `scope` is a text with blanks; some issuers have a list, or name it `scp`.

    Raises InvalidToken.
    """
    found = claims.get("scope", claims.get("scp", ""))
    # RFC 6749, section 3.3: other white space than the space separates nothing
    several = [scope for scope in found.split(" ") if scope] if isinstance(found, str) else found
    if not isinstance(several, list) or not all(isinstance(scope, str) for scope in several):
        raise InvalidToken("the scopes of the token are no text")
    return frozenset(several)


def confirmation_in(claims: Mapping[str, Any]) -> str | None:
    """The key that the sender of a token must have. Raises InvalidToken where it must show something else.

    A token that is bound to a certificate would be good for everybody here.
    """
    if claims.get("cnf") is None:
        return None
    bound = claims["cnf"]
    thumbprint = bound.get("jkt") if isinstance(bound, dict) else None
    if not isinstance(thumbprint, str) or len(bound) != 1:
        raise InvalidToken("the token is bound to its sender in a way that this server does not know")
    return thumbprint


def _fetcher(allow_http: bool, seconds: float) -> Fetcher:
    """What asks a server that the author of this one has named: anywhere, within bounds of size and time."""
    # Late, for start-up time: a server whose keys are given to it asks no one.
    from mcp_ref.runtime.http_client.fetching import Fetcher

    return Fetcher(allowed=tuple(Reach), allow_http=allow_http, seconds=seconds)


def check_server_url(name: str, url: str, *, allow_http: bool) -> None:
    """Whether a server at this URL may be asked.

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
"""Answers that are kept; the least recent is forgotten first."""
MAX_AT_ONCE = 20
"""Questions that are under way at once; one more waits."""
MAX_WAIT_SECONDS = 5.0
ANSWER_SECONDS = 10.0
"""Seconds for one answer."""


TOKEN_TYPES = ("bearer", "dpop", "n_a")
"""Of access tokens, as servers say them; N_A is that of RFC 8693 for none in particular."""


class Introspection:
    """Asks an authorization server what a token is."""

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
        """This server is a client of the other, with an id and a secret of its own.

        An answer is kept for `cache_seconds`: for so long a token that was revoked may still be taken. Zero
        asks for each request. `issuer` is whose tokens these are, where the answers do not say. `allow_http`
        asks over http on other machines than this one, too: tokens and secret can be read on the way.
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
        """Begin with no answer: at the start, and again in a forked child."""
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
        if self._is_basic:  # RFC 6749, section 2.3.1: as in a form, and then as Basic wants it
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
        """An answer about a token that is active. Raises InvalidToken.

        A server may know tokens that are active and for something else, such as refresh tokens.
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
