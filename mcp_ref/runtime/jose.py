"""JSON web tokens and keys (RFC 7515 to 7519, 7638, 8037), by the library joserfc.

    new_key, load_key      -> Key             a private or a public key, never a shared secret
    sign(claims, key)      -> text            a token
    verify(token, keys)    -> Jwt             its header and claims, if one of the keys signed it
    verify_embedded(token) -> Jwt, Key        the same by the public key that is in its header (for DPoP)
    peek(token)            -> header, claims  of a token that is not verified
    KeySet                                    public keys of an issuer, found by their ids

The library does the cryptography. This module decides what may reach it: which algorithms, which keys, how
much text. Only signatures of asymmetric keys are made and verified: no `none`, and no HMAC, so that a public
key can never be taken for a secret. A key is never fetched because a token says where it is.

What a token claims (when it ends, for whom it is) is judged by the pages that take tokens; `check_times` and
`audience_of` read those claims.

Errors      JoseError: a token or a key that is not accepted, and why; it repeats nothing of either.
            UnknownKey: the key set has none that the token could be signed with.
            JoseMissing: joserfc is not installed; raised by functions that need it, not by the import of
            this module.
Threads     keys and key sets do not change; any number of threads may use them.
"""

from __future__ import annotations

import base64
import binascii
import functools
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from mcp_ref.runtime.errors import LocalError
from mcp_ref.runtime.json_text import NotJson, from_json, to_json

if TYPE_CHECKING:
    from joserfc.jwk import Key as LibraryKey
    from joserfc.jws import JWSRegistry

__all__ = [
    "ASYMMETRIC",
    "JoseError",
    "JoseMissing",
    "Jwt",
    "Key",
    "KeySet",
    "UnknownKey",
    "audience_of",
    "check_times",
    "load_key",
    "new_key",
    "peek",
    "require",
    "sign",
    "verify",
    "verify_embedded",
]

MAX_TOKEN_CHARACTERS = 16 << 10
"""Characters of the longest token that is read. Headers of HTTP carry less than that."""
MAX_KEYS = 100
"""Keys of one set; a larger set is refused."""
MAX_KEY_CHARACTERS = 32 << 10
"""Characters of the longest key that is read, as PEM or JSON, which are ASCII."""
MIN_RSA_BITS, MAX_RSA_BITS = 2048, 8192
"""Bits of an RSA modulus. A smaller one can be broken; verifying with a larger one is work that a stranger
could order."""
MAX_RSA_EXPONENT_BITS = 64
"""Bits of an RSA public exponent; verifying with a longer one takes longer, too."""

_TYPES_OF_KEYS: dict[str, tuple[str, tuple[str, ...]]] = {
    "ES256": ("EC", ("P-256",)),
    "ES384": ("EC", ("P-384",)),
    "ES512": ("EC", ("P-521",)),
    "RS256": ("RSA", ()),
    "RS384": ("RSA", ()),
    "RS512": ("RSA", ()),
    "PS256": ("RSA", ()),
    "PS384": ("RSA", ()),
    "PS512": ("RSA", ()),
    "Ed25519": ("OKP", ("Ed25519",)),
    "EdDSA": ("OKP", ("Ed25519", "Ed448")),
}
"""Each algorithm, with the type and the curves of its keys."""

ASYMMETRIC = tuple(_TYPES_OF_KEYS)
"""The algorithms that are known here: all others are refused."""

_PUBLIC_MEMBERS = {"EC": ("crv", "x", "y"), "RSA": ("n", "e"), "OKP": ("crv", "x")}
_PRIVATE_MEMBERS = {"EC": ("d",), "RSA": ("d", "p", "q", "dp", "dq", "qi"), "OKP": ("d",)}
_COMPACT = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*")
_NAMES_ITS_KEY = ("jwk", "jku", "x5u")
"""Header parameters by which a token would choose the key that it is verified with."""


class JoseError(LocalError):
    """A token or a key that is not accepted."""


class UnknownKey(JoseError):
    """No key of the set could have signed the token: perhaps the set is older than the key."""


class JoseMissing(LocalError, ImportError):
    """The library is not installed."""


class Jwt(NamedTuple):
    """A token whose signature was verified."""

    header: dict[str, Any]
    claims: dict[str, Any]


# ---------------------------------------------------------------------------- the library


class _Library(NamedTuple):
    kinds: tuple[Any, ...]
    """The library's classes of keys."""
    registry: JWSRegistry
    refusals: tuple[type[Exception], ...]
    """The exceptions that the library raises for a text that is not a token, or members that make no key."""


@functools.cache
def _library() -> _Library:
    """The library, imported at the first call. Raises JoseMissing."""
    try:
        # Late: it takes as long to load as this whole package, and few connections need it.
        from cryptography.exceptions import UnsupportedAlgorithm
        from joserfc import errors, jwk, jws
    except ImportError as problem:
        raise JoseMissing(
            "JSON web tokens need the library joserfc, which is not installed: pip install 'mcp_ref[auth]'"
        ) from problem

    class Registry(jws.JWSRegistry):
        """Our own limits in place of the library's, which are too small for an RSA key in a header."""

        max_header_length = max_payload_length = max_signature_length = MAX_TOKEN_CHARACTERS

        def get_alg(self, name: str) -> Any:
            return self.algorithms[name]  # it was checked before; the library would warn of some

    refusals = (errors.JoseError, UnsupportedAlgorithm, ValueError, TypeError, KeyError, ArithmeticError)
    registry = Registry(algorithms=ASYMMETRIC, strict_check_header=False)
    return _Library((jwk.ECKey, jwk.RSAKey, jwk.OKPKey), registry, refusals)


def require() -> None:
    """Raises JoseMissing now, if a later call would."""
    _library()


# ---------------------------------------------------------------------------- keys


class Key:
    """An asymmetric key, public or private."""

    __slots__ = ("_key", "_limits", "_public", "is_private", "kid", "kty")

    def __init__(self, key: LibraryKey, jwk: Mapping[str, Any]) -> None:
        members = key.as_dict(private=False)
        self._key = key
        self.kty: str = key.key_type
        self._public = {"kty": self.kty, **{name: members[name] for name in _PUBLIC_MEMBERS[self.kty]}}
        self.is_private: bool = key.is_private
        given = jwk.get("kid")
        self.kid: str = given if isinstance(given, str) else key.thumbprint()
        # What its owner says it is for: `alg`, `use`, `key_ops`.
        self._limits = {name: jwk[name] for name in ("alg", "use", "key_ops") if name in jwk}
        if not any(self.is_for(algorithm) for algorithm in ASYMMETRIC):
            raise JoseError("the key is not for signatures, or of a curve that is not known here")

    def __repr__(self) -> str:
        return f"<{'private' if self.is_private else 'public'} {self.kty} key>"

    def is_for(self, algorithm: str) -> bool:
        """Whether its type, its curve and what its owner says of it allow its use with an algorithm."""
        kty, curves = _TYPES_OF_KEYS[algorithm]
        has_type = self.kty == kty and (not curves or self._public["crv"] in curves)
        operations = self._limits.get("key_ops", ["verify"])
        return (
            has_type
            and self._limits.get("alg", algorithm) == algorithm
            and self._limits.get("use", "sig") == "sig"
            and isinstance(operations, list)
            and any(operation in ("sign", "verify") for operation in operations)
        )

    def public_jwk(self) -> dict[str, Any]:
        """The public key as JSON, with its id."""
        return {**self._public, "kid": self.kid}

    def private_jwk(self) -> dict[str, Any]:
        """The private key as JSON, with its id: keep it in a safe place. Raises JoseError if it is public."""
        if not self.is_private:
            raise JoseError("the key is a public one")
        given = self._key.as_dict(private=True)
        members = {name: given[name] for name in _members_of(self.kty) if name in given}
        return {"kty": self.kty, **members, "kid": self.kid}

    def thumbprint(self) -> str:
        """The SHA-256 of its public members (RFC 7638)."""
        return self._key.thumbprint()


def new_key(algorithm: str = "ES256") -> Key:
    """A new private key for an algorithm. Raises ValueError for an unknown algorithm."""
    _check_algorithms([algorithm])
    kty, curves = _TYPES_OF_KEYS[algorithm]
    kind = next(kind for kind in _library().kinds if kind.key_type == kty)
    return Key(kind.generate_key(curves[0] if curves else MIN_RSA_BITS), {})


def load_key(key: str | bytes | Mapping[str, Any] | Key) -> Key:
    """The key in a PEM text, or in a JWK, which is a dict or its JSON text. Raises JoseError."""
    if isinstance(key, Key):
        return key
    if isinstance(key, Mapping):
        return _from_jwk(key)
    text = key.encode("utf-8", "replace") if isinstance(key, str) else key
    if len(text) > MAX_KEY_CHARACTERS:
        raise JoseError(f"the key has more than {MAX_KEY_CHARACTERS} characters")
    if not text.lstrip().startswith(b"{"):
        return _from_pem(text)
    try:
        return _from_jwk(from_json(text))
    except NotJson:
        raise JoseError("the key is neither PEM nor JSON") from None


def _from_pem(text: bytes) -> Key:
    library = _library()
    # Late, like the library, which is installed with it.
    from cryptography.hazmat.primitives import serialization

    try:
        if b"PRIVATE" in text:
            raw: Any = serialization.load_pem_private_key(text, None)
        else:
            raw = serialization.load_pem_public_key(text)
    except library.refusals:
        raise JoseError("the key is no PEM that can be read without a password, nor a JWK") from None
    kind = next((kind for kind in library.kinds if kind.binding.check_cryptography_key(raw)), None)
    if kind is None:
        raise JoseError("the key is of a type that is not known here")
    if kind.key_type == "RSA":
        _check_rsa(raw.key_size)
    try:
        return Key(kind.import_key(raw), {})
    except library.refusals:
        raise JoseError("the key is not for signatures, or of a curve that is not known here") from None


def _from_jwk(jwk: Mapping[str, Any]) -> Key:
    """The key in a JWK. Only the members that make the key, and say what it is for, are read.

    Other members, such as certificates and URLs, are not.
    """
    library = _library()
    kty = str(jwk.get("kty"))
    kind = next((kind for kind in library.kinds if kind.key_type == kty), None)
    if kind is None:
        raise JoseError("the key is of a type that is not known here")
    members = {name: jwk[name] for name in _members_of(kind.key_type) if name in jwk}
    _check_members(kty, members)
    try:
        return Key(kind.import_key({"kty": kty, **members}), jwk)
    except library.refusals:
        raise JoseError("the members of the key make no key") from None


def _check_members(kty: str, members: Mapping[str, Any]) -> None:
    # A number of MAX_RSA_BITS has fewer characters than that in base64url.
    if not all(isinstance(value, str) and len(value) <= MAX_RSA_BITS for value in members.values()):
        raise JoseError("a member of the key is no string, or too long")
    if kty == "RSA":
        _check_rsa(_bits(members.get("n", "")), _bits(members.get("e", "")))


def _members_of(kty: str) -> tuple[str, ...]:
    return _PUBLIC_MEMBERS[kty] + _PRIVATE_MEMBERS[kty]


def _check_rsa(bits: int, exponent_bits: int = 2) -> None:
    if not MIN_RSA_BITS <= bits <= MAX_RSA_BITS or not 2 <= exponent_bits <= MAX_RSA_EXPONENT_BITS:
        raise JoseError(f"an RSA key has {MIN_RSA_BITS} to {MAX_RSA_BITS} bits, and a small exponent")


def _bits(member: str) -> int:
    """The length of a number that is written in base64url."""
    return int.from_bytes(_decoded(member, "the key"), "big").bit_length()


class KeySet:
    """Keys of one issuer."""

    def __init__(self, keys: Iterable[Key] = ()) -> None:
        self._keys = tuple(keys)

    def __len__(self) -> int:
        return len(self._keys)

    def __repr__(self) -> str:
        return f"<{len(self._keys)} keys>"

    @classmethod
    def of(cls, jwks: Any) -> KeySet:
        """The keys of a JWK set that are for signatures; the others are left out. Raises JoseError."""
        keys = jwks.get("keys") if isinstance(jwks, Mapping) else None
        if not isinstance(keys, list):
            raise JoseError("a key set is an object with a list named keys")
        if len(keys) > MAX_KEYS:
            raise JoseError(f"the key set has more than {MAX_KEYS} keys")
        found = []
        for jwk in keys:
            try:
                found.append(load_key(jwk if isinstance(jwk, Mapping) else {}))
            except JoseError:
                continue  # RFC 7517, section 5: a key of another type or use is no reason to refuse the rest
        return cls(found)

    def public(self) -> dict[str, Any]:
        """The public keys of the set as JSON, for everyone to read."""
        return {"keys": [{**key.public_jwk(), "use": "sig"} for key in self._keys]}

    def find(self, kid: str | None, algorithm: str) -> Key | None:
        """The key with this id for an algorithm; without an id, the only key for the algorithm.

        None if no key fits, or if several fit and there is no id.
        """
        fitting = [k for k in self._keys if kid in (None, k.kid) and k.is_for(algorithm)]
        return fitting[0] if len(fitting) == 1 or (fitting and kid is not None) else None


# ---------------------------------------------------------------------------- tokens


def sign(
    claims: Mapping[str, Any], key: Key, *, algorithm: str, header: Mapping[str, Any] | None = None
) -> str:
    """A signed token. `header` has more parameters for its header; with a `jwk` there, the id is left out.

    Raises JoseError for a key that cannot sign with the algorithm, ValueError for an unknown algorithm.
    """
    _check_algorithms([algorithm])
    if not key.is_private or not key.is_for(algorithm):
        raise JoseError(f"{key!r} cannot sign with {algorithm}")
    given = dict(header or {})
    names = {} if "jwk" in given else {"kid": key.kid}
    # Late, like all of the library.
    from joserfc import jws

    whole = {"typ": "JWT", **names, **given, "alg": algorithm}
    payload = to_json(dict(claims)).encode("utf-8")
    library = _library()
    try:
        return jws.serialize_compact(whole, payload, key._key, registry=library.registry)
    except library.refusals:
        raise JoseError("the header of the token cannot be signed") from None


def verify(token: str, keys: KeySet | Key, *, algorithms: Sequence[str], typ: str | None = None) -> Jwt:
    """The header and the claims of a token that one of the keys has signed. Raises JoseError, UnknownKey.

    `typ`: the type of token that the header must state, with or without `application/`.
    """
    header = _header(token, algorithms, typ)
    if any(name in header for name in _NAMES_ITS_KEY):
        raise JoseError("the token names the key that it is to be verified with (jwk, jku or x5u)")
    if isinstance(keys, Key):
        return _verified(token, header, keys)
    kid = header.get("kid")
    if kid is not None and not isinstance(kid, str):
        raise JoseError("the id of the key (kid) is no string")
    key = keys.find(kid, header["alg"])
    if key is None:
        raise UnknownKey("no known key has the id and the algorithm of the token's")
    return _verified(token, header, key)


def verify_embedded(token: str, *, algorithms: Sequence[str], typ: str) -> tuple[Jwt, Key]:
    """The same by the public key in the token's own header; also returns that key. Raises JoseError.

    This shows that the sender has the private key, but not who the sender is. A private key in the header is
    refused: it was given away.
    """
    header = _header(token, algorithms, typ)
    jwk = header.get("jwk")
    if not isinstance(jwk, dict):
        raise JoseError("there is no public key (jwk) in the header")
    if "k" in jwk or any(name in jwk for names in _PRIVATE_MEMBERS.values() for name in names):
        raise JoseError("the key in the header is no public one")
    key = load_key(jwk)
    return _verified(token, header, key), key


def peek(token: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The header and the claims of a token that is not verified: anyone may have written them.

    Raises JoseError.
    """
    header, claims, _ = _split(token)
    return _object(header, "header"), _object(claims, "payload")


def _split(token: str) -> list[str]:
    if not isinstance(token, str) or len(token) > MAX_TOKEN_CHARACTERS:
        raise JoseError(f"the token is longer than {MAX_TOKEN_CHARACTERS} characters, or no text")
    if not _COMPACT.fullmatch(token):
        raise JoseError("the token does not have the three parts of a JSON web token")
    return token.split(".")


def _header(token: str, algorithms: Sequence[str], typ: str | None) -> dict[str, Any]:
    """The header of a token, if the token may be verified. Raises JoseError."""
    _check_algorithms(algorithms)
    header = _object(_split(token)[0], "header")
    if header.get("alg") not in list(algorithms):
        raise JoseError(f"the algorithm of the token is not one of {', '.join(algorithms)}")
    if "crit" in header:
        raise JoseError("the header has parameters that must be understood (crit), and are not")
    if typ is not None and _media_type(header.get("typ")) != _media_type(typ):
        raise JoseError(f"the token does not say that it is a {typ}")
    return header


def _media_type(typ: Any) -> str | None:
    """A type in one spelling. RFC 7515, section 4.1.9: `application/` may be left out."""
    return typ.lower().removeprefix("application/") if isinstance(typ, str) else None


def _verified(token: str, header: dict[str, Any], key: Key) -> Jwt:
    library = _library()
    if not key.is_for(header["alg"]):
        raise JoseError("the key is not for the algorithm of the token")
    # Late, like all of the library.
    from joserfc import jws

    try:
        found = jws.deserialize_compact(token, key._key, registry=library.registry)
    except library.refusals:
        raise JoseError("the signature of the token does not fit") from None
    return Jwt(header, _claims(found.payload))


def _object(part: str, name: str) -> dict[str, Any]:
    return _claims(_decoded(part, f"the {name} of the token"), name)


def _claims(text: bytes | None, name: str = "payload") -> dict[str, Any]:
    try:
        value = from_json(text or b"")
    except NotJson:
        raise JoseError(f"the {name} of the token is no JSON") from None
    if not isinstance(value, dict):
        raise JoseError(f"the {name} of the token is no object")
    return value


def _decoded(part: str, name: str) -> bytes:
    try:
        return base64.b64decode(part + "=" * (-len(part) % 4), b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise JoseError(f"{name} is no base64url") from None


def _check_algorithms(algorithms: Sequence[str]) -> None:
    unknown = [name for name in algorithms if name not in _TYPES_OF_KEYS]
    if unknown or not algorithms or isinstance(algorithms, str):
        raise ValueError(f"algorithms are a list of some of {', '.join(ASYMMETRIC)}, not {algorithms!r}")


# ---------------------------------------------------------------------------- claims that all pages read


def check_times(claims: Mapping[str, Any], *, now: float, skew: float, required: bool = True) -> float | None:
    """Check that a token is valid now (`exp`, `nbf`), and return when it ends (`exp`). Raises JoseError.

    `skew`: by how many seconds the clocks of two machines may differ. `required`: whether it must have `exp`;
    None is returned for a token without one.
    """
    ends, begins = _date(claims, "exp"), _date(claims, "nbf")
    if required and ends is None:
        raise JoseError("the token does not say when it expires (exp)")
    if ends is not None and now >= ends + skew:
        raise JoseError("the token has expired")
    if begins is not None and now < begins - skew:
        raise JoseError("the token is not valid yet (nbf)")
    return ends


def _date(claims: Mapping[str, Any], name: str) -> float | None:
    """A claim that is a NumericDate (RFC 7519), or None without it. Raises JoseError.

    A number beyond all calendars is refused, and so is NaN.
    """
    value = claims.get(name)
    if name not in claims:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= 1e15:
        raise JoseError(f"{name} is no time")
    return float(value)


def audience_of(claims: Mapping[str, Any]) -> tuple[str, ...]:
    """The audience of a token (`aud`), which is one string or several; () without one. Raises JoseError."""
    given = claims.get("aud", [])
    several = [given] if isinstance(given, str) else given
    if not isinstance(several, list) or not all(isinstance(one, str) for one in several):
        raise JoseError("the audience (aud) is neither a string nor a list of strings")
    return tuple(several)
