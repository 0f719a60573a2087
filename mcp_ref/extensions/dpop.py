"""DPoP: access tokens that are worth nothing without a key (page: extensions/dpop, RFC 9449).

A bearer token can be used by anyone who has it. A token that is bound to a key can be used only with a proof
of possession in each request: a JSON web token that the client signs with that key, for this one request.

    client -> authorization server   POST /token     DPoP: <proof>
                                     -> token_type DPoP; the token names the key by its thumbprint (cnf.jkt)
    client -> MCP server             POST /mcp       Authorization: DPoP <token>
                                                     DPoP: <proof, with the hash of the token (ath)>

    proof    header  typ dpop+jwt, alg, jwk (the public key)
             claims  jti (an id, used once), htm (the method), htu (the URL without query and fragment),
                     iat (when), ath (the token's hash), nonce (if the server asked for one)

A server may demand that each proof has a nonce of the server, so that no proof can be made ahead of time. It
refuses the first proof (`use_dpop_nonce`, with 400 or 401) and sends its nonce in the header DPoP-Nonce; the
client makes a new proof with it.

Client half: `Proofs`.   Server half: `check_proof`, `Replays`, `Nonces`.

Revisions   io.modelcontextprotocol/auth/dpop, an extension of 2025-11-25 and 2026-07-28; its draft is not
            among the published pages, and refers to the RFC for everything but its name.
Errors      server: InvalidProof (`invalid_dpop_proof`); UseNonce (`use_dpop_nonce`), which has the nonce.
            client: none; if a server refuses a proof, the client sees a `Refusal`
            (runtime/http_client/authorizing).
Threads     any number of threads may use one Proofs, one Replays and one Nonces.
Not here    whether the token is valid (basic/authorization/index/access_tokens). That is checked first: only
            the proofs of clients with a valid token take room in `Replays`.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import re
import secrets
import struct
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import SplitResult, urlsplit

from mcp_ref.runtime import jose
from mcp_ref.runtime.errors import LocalError
from mcp_ref.runtime.jose import ASYMMETRIC, JoseError, Key, new_key
from mcp_ref.runtime.seals import secrets_of
from mcp_ref.runtime.uri.uris import UNRESERVED

__all__ = [
    "InvalidProof",
    "Nonces",
    "Proofs",
    "Replays",
    "UseNonce",
    "check_proof",
]

PROOF_TYPE = "dpop+jwt"
PROOF_SECONDS = 60.0
"""How old a proof may be, not counting the difference between the clocks."""
MAX_JTI_CHARACTERS = 256
MAX_NONCE_CHARACTERS = 1024
MAX_ORIGINS = 64
"""Servers whose last nonce a client remembers; two of one origin count as two."""
MAX_PROOFS = 100_000
"""Ids of proofs that a server remembers, of all clients together: about a dozen megabytes."""
PROOFS_OF_ONE_KEY = 4
"""One key may take a quarter of these ids, so that a client that floods shuts out only itself."""
NONCE_SECONDS = 120.0
"""How long a server hands out the same nonce. It accepts the nonce for as long again."""

_NONCE = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+")
_DEFAULT_PORTS = {"http": 80, "https": 443}


class InvalidProof(LocalError):
    """A proof is not accepted. The message says why, and repeats nothing of the proof."""

    error = "invalid_dpop_proof"


class UseNonce(InvalidProof):
    """A proof has no nonce of the server, or one that is too old."""

    error = "use_dpop_nonce"

    def __init__(self, nonce: str) -> None:
        super().__init__("the proof has no nonce of this server's, or an old one")
        self.nonce = nonce
        """The nonce to use, which goes into the header DPoP-Nonce."""


# ---------------------------------------------------------------------------- both halves: URLs and hashes


def _target(url: str) -> str:
    """The `htu` of a URL: without query, fragment and user. Raises ValueError unless it is http or https."""
    parts = urlsplit(url)
    if parts.scheme not in _DEFAULT_PORTS or not parts.hostname:
        raise ValueError("no URL of http or https")
    return f"{_origin(parts)}{parts.path or '/'}"


def _origin(parts: SplitResult) -> str:
    host = f"[{parts.hostname}]" if ":" in str(parts.hostname) else parts.hostname
    port = parts.port
    named = "" if port in (None, _DEFAULT_PORTS[parts.scheme]) else f":{port}"
    return f"{parts.scheme}://{host}{named}"


def _same_target(htu: Any, url: str) -> bool:
    """Whether `htu` names this URL. RFC 9449, section 4.3: normalized as in RFC 3986, 6.2.2 and 6.2.3."""
    try:
        return isinstance(htu, str) and _normal(_target(htu)) == _normal(_target(url))
    except ValueError:
        return False


def _normal(target: str) -> str:
    parts = urlsplit(target)
    path = re.sub("%([0-9A-Fa-f]{2})", lambda found: _decoded_if_unreserved(found[1]), parts.path)
    kept: list[str] = []
    for segment in path.split("/")[1:]:
        if segment == "..":
            del kept[-1:]
        elif segment != ".":
            kept.append(segment)
    end = "/" if path.endswith(("/.", "/..")) and kept else ""
    return f"{parts.scheme}://{parts.netloc}/{'/'.join(kept)}{end}"


def _decoded_if_unreserved(digits: str) -> str:
    character = chr(int(digits, 16))
    return character if character in UNRESERVED else f"%{digits.upper()}"


def _hash_of(access_token: str) -> str:
    digest = hashlib.sha256(access_token.encode("utf-8")).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode("ascii")


# ---------------------------------------------------------------------------- client half


class Proofs:
    """What a client makes proofs with: its key, and the nonces that servers gave it last."""

    def __init__(
        self, key: Key | None = None, algorithm: str = "ES256", now: Callable[[], float] = time.time
    ) -> None:
        self._key = key or new_key(algorithm)
        self._algorithm = algorithm
        self._now = now
        self._lock = threading.Lock()
        self._nonces: OrderedDict[tuple[str, bool], str] = OrderedDict()  # guarded by _lock

    @property
    def key(self) -> Key:
        """The private key. Tokens that outlive the process are worth nothing without it."""
        return self._key

    @property
    def thumbprint(self) -> str:
        """The thumbprint of the key, which a token that is bound to it has as cnf.jkt."""
        return self._key.thumbprint()

    # spec: extensions/dpop/proof-form, extensions/dpop/proof-per-request, extensions/dpop/proof-binds-token
    def proof(
        self, method: str, url: str, *, access_token: str | None = None, nonce: str | None = None
    ) -> str:
        """Make a proof for one request: the value of its header DPoP.

        With `access_token` it is a proof for a resource server. Without `nonce` it has the nonce that the
        server gave last, if it gave any.
        """
        claims: dict[str, Any] = {
            "jti": secrets.token_urlsafe(16),
            "htm": method.upper(),
            "htu": _target(url),
            "iat": int(self._now()),
        }
        if access_token is not None:
            claims["ath"] = _hash_of(access_token)
        nonce = nonce or self.nonce(url, of_resource=access_token is not None)
        if nonce is not None:
            claims["nonce"] = nonce
        public = {name: value for name, value in self._key.public_jwk().items() if name != "kid"}
        header = {"typ": PROOF_TYPE, "jwk": public}
        return jose.sign(claims, self._key, algorithm=self._algorithm, header=header)

    # spec: extensions/dpop/nonce-of-its-server, extensions/dpop/nonce-retry
    def keep_nonce(self, url: str, nonce: str | None, *, of_resource: bool) -> bool:
        """Remember the nonce that a server sent. True if it is a new one, so that a second try may succeed.

        An authorization server and a resource server may share an origin; their nonces are kept apart.
        """
        if nonce is None or len(nonce) > MAX_NONCE_CHARACTERS or not _NONCE.fullmatch(nonce):
            return False
        place = (_origin(urlsplit(url)), of_resource)
        with self._lock:
            is_new = self._nonces.pop(place, None) != nonce
            self._nonces[place] = nonce
            if len(self._nonces) > MAX_ORIGINS:
                self._nonces.popitem(last=False)
        return is_new

    def nonce(self, url: str, *, of_resource: bool) -> str | None:
        """The nonce that the server of a URL gave last; None if it gave none."""
        with self._lock:
            return self._nonces.get((_origin(urlsplit(url)), of_resource))


# ---------------------------------------------------------------------------- server half


class Replays:
    """The ids of the proofs that were accepted, kept for as long as the proofs would be accepted again.

    It belongs to one process: of several behind one URL, each accepts a proof once. When it is full, no proof
    is accepted until the oldest id is forgotten: otherwise a proof might be accepted twice.
    """

    def __init__(self, most: int = MAX_PROOFS) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._ends: OrderedDict[bytes, tuple[float, str]] = OrderedDict()  # guarded by _lock
        self._by_key: Counter[str] = Counter()  # guarded by _lock

    def __len__(self) -> int:
        return len(self._ends)

    # spec: extensions/dpop/jti-once
    def add(self, thumbprint: str, jti: str, *, now: float, seconds: float) -> None:
        """Remember an id for some seconds. Raises InvalidProof if it is known, or if there is no room."""
        digest = hashlib.sha256(f"{thumbprint} {jti}".encode("utf-8", "surrogatepass")).digest()[:16]
        with self._lock:
            self._forget(now)
            if digest in self._ends:
                raise InvalidProof("the proof was used before (jti)")
            if self._by_key[thumbprint] >= max(1, self._most // PROOFS_OF_ONE_KEY):
                raise InvalidProof("too many proofs of this key within a short time")
            if len(self._ends) >= self._most:
                raise InvalidProof("too many proofs within a short time")
            self._ends[digest] = (now + seconds, thumbprint)
            self._by_key[thumbprint] += 1

    def _forget(self, now: float) -> None:
        """Forget the ids whose time is over, oldest first. If the clock is set back, ids stay longer."""
        while self._ends:
            digest, (end, thumbprint) = next(iter(self._ends.items()))
            if end > now:
                return
            del self._ends[digest]
            self._by_key[thumbprint] -= 1
            if not self._by_key[thumbprint]:
                del self._by_key[thumbprint]


class Nonces:
    """A server's nonces, computed from a secret and the time, so that none has to be remembered."""

    def __init__(
        self,
        secret: str | bytes | None = None,
        seconds: float = NONCE_SECONDS,
        now: Callable[[], float] = time.time,
    ) -> None:
        """`secret`: the same for all processes behind one URL; without it, this process makes up its own."""
        self._secret = (*secrets_of(secret), os.urandom(32))[0]
        self._seconds = seconds
        self._now = now

    def new(self) -> str:
        """The current nonce."""
        return self._at(self._period())

    # spec: extensions/dpop/nonce-required
    def check(self, nonce: Any) -> None:
        """Check a nonce. Raises UseNonce unless it is the current one or the one before."""
        period = self._period()
        given = nonce.encode("utf-8", "replace") if isinstance(nonce, str) else b""
        fits = [hmac.compare_digest(self._at(period - back).encode(), given) for back in (0, 1)]
        if not any(fits):
            raise UseNonce(self._at(period))

    def _period(self) -> int:
        return int(self._now() // self._seconds)

    def _at(self, period: int) -> str:
        mac = hmac.digest(self._secret, b"mcp_ref dpop nonce\0" + struct.pack(">q", period), "sha256")
        return base64.urlsafe_b64encode(mac[:24]).decode("ascii")


# spec: extensions/dpop/server-checks-proof
def check_proof(
    proof: str | None,
    *,
    method: str,
    url: str,
    seen: Replays,
    access_token: str | None = None,
    bound_to: str | None = None,
    nonces: Nonces | None = None,
    algorithms: Sequence[str] = ASYMMETRIC,
    skew: float = 30.0,
    now: float | None = None,
) -> str:
    """Check the proof of a request, and return the thumbprint of its key. Raises InvalidProof, UseNonce.

    `url` is the one that the client asked for. A resource server passes the `access_token` of the request and
    the thumbprint that it is bound to (`bound_to`); an authorization server has neither, and binds the token
    that it issues to the thumbprint that is returned.
    """
    if proof is None:
        raise InvalidProof("the request has no proof (the header DPoP)")
    try:
        token, key = jose.verify_embedded(proof, algorithms=algorithms, typ=PROOF_TYPE)
    except JoseError as problem:
        raise InvalidProof(f"the proof is not accepted: {problem}") from None
    now = time.time() if now is None else now
    _check_request(token.claims, method, url, access_token)
    _check_age(token.claims.get("iat"), now, skew)
    if nonces is not None:
        nonces.check(token.claims.get("nonce"))
    thumbprint = key.thumbprint()
    if bound_to is not None and not hmac.compare_digest(thumbprint.encode(), bound_to.encode()):
        raise InvalidProof("the proof is of another key than the one that the token is bound to")
    jti = token.claims.get("jti")
    if not isinstance(jti, str) or not 0 < len(jti) <= MAX_JTI_CHARACTERS:
        raise InvalidProof(f"the proof has no id of 1 to {MAX_JTI_CHARACTERS} characters (jti)")
    # Last, so that a proof which is refused for another reason is not used up. Its id is kept for as long
    # as it is good: it may be dated `skew` seconds ahead, and PROOF_SECONDS + skew after that it is too old.
    seen.add(thumbprint, jti, now=now, seconds=PROOF_SECONDS + 2 * skew)
    return thumbprint


def _check_request(claims: dict[str, Any], method: str, url: str, access_token: str | None) -> None:
    if claims.get("htm") != method:
        raise InvalidProof("the proof is for another method (htm)")
    if not _same_target(claims.get("htu"), url):
        raise InvalidProof("the proof is for another URL (htu)")
    if access_token is not None and claims.get("ath") != _hash_of(access_token):
        raise InvalidProof("the proof is not for this access token (ath)")


def _check_age(iat: Any, now: float, skew: float) -> None:
    if isinstance(iat, bool) or not isinstance(iat, int | float):
        raise InvalidProof("the proof does not say when it was made (iat)")
    if not now - PROOF_SECONDS - skew <= iat <= now + skew:
        raise InvalidProof("the proof is too old, or of the future (iat)")
