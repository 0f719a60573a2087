"""URIs (RFC 3986): whether a text is one, and whether a part of one could lead out of a directory.

Errors      BadUri says what is wrong, and at which offset.
"""

from __future__ import annotations

import re
from urllib.parse import unquote

__all__ = ["MAX_URI", "RESERVED", "UNRESERVED", "BadUri", "check_uri", "leads_out", "legal_length"]

MAX_URI = 65_536
"""Characters of the longest URI that is read."""
MAX_ENCODINGS = 8
"""How often a value is looked at: as it is, and after each decoding. One that is still percent-encoded at the
last look hides something, and is refused."""

UNRESERVED = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"
RESERVED = ":/?#[]@!$&'()*+,;="

_LEGAL = re.compile(f"(?:[{re.escape(UNRESERVED + RESERVED)}]++|%[0-9A-Fa-f]{{2}})*+")
_URI_FORM = re.compile(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*):"
    r"(?://(?P<authority>[^/?#]*))?"
    r"(?P<path>[^?#]*)"
    r"(?:\?(?P<query>[^#]*))?"
    r"(?:#(?P<fragment>.*))?"
)
_AUTHORITY = re.compile(r"(?:[^@\[\]]*@)?(?:\[(?P<literal>[^\[\]@]*)\]|[^:@\[\]]*)(?::[0-9]*)?")
_BRACKET = re.compile(r"[\[\]]")
_BRACKET_OR_HASH = re.compile(r"[\[\]#]")
# An address of a later version than IPv6 (IPvFuture in RFC 3986).
_FUTURE = re.compile(r"[vV][0-9A-Fa-f]+\.[A-Za-z0-9\-._~!$&'()*+,;=:]+")


class BadUri(ValueError):
    """The text is not a URI."""


def legal_length(text: str) -> int:
    """The number of characters, from the beginning of the text, that may stand in a URI."""
    found = _LEGAL.match(text)
    return found.end() if found else 0


def check_uri(text: str) -> str:
    """Return the text if it is a URI with a scheme. Raises BadUri."""
    if len(text) > MAX_URI:
        raise BadUri(f"a URI of {len(text)} characters: {MAX_URI} are the most")
    legal = legal_length(text)
    if legal < len(text):
        raise BadUri(f"{text[:80]!r}: {_said(text[legal : legal + 3])} at offset {legal}")
    found = _URI_FORM.fullmatch(text)
    if found is None:
        raise BadUri(f"{text[:80]!r} does not begin with a scheme, such as file:")
    if found["authority"] is not None:
        _check_authority(found["authority"], found.start("authority"))
    for part, illegal in ("path", _BRACKET), ("query", _BRACKET), ("fragment", _BRACKET_OR_HASH):
        bad = illegal.search(found[part] or "")
        if bad is not None:
            at = found.start(part) + bad.start()
            raise BadUri(f"{text[:80]!r}: {bad[0]!r} in the {part} at offset {at}")
    return text


def _said(bad: str) -> str:
    if bad[0] == "%":
        return f"{bad!r} is no percent-encoding, which is % and two hexadecimal digits,"
    return f"{bad[0]!r} must be percent-encoded in a URI,"


def _check_authority(authority: str, offset: int) -> None:
    found = _AUTHORITY.fullmatch(authority)
    if found is None:
        raise BadUri(f"{authority[:80]!r} at offset {offset} is no host, nor user@host:port")
    literal = found["literal"]
    if literal is not None and not (_FUTURE.fullmatch(literal) or _is_address(literal)):
        raise BadUri(f"[{literal[:80]}] at offset {offset} is no address of IPv6")


def _is_address(text: str) -> bool:
    import ipaddress

    try:
        return "%" not in text and ipaddress.IPv6Address(text) is not None
    except ValueError:
        return False


_OUTSIDE = re.compile(r"[/\\]|[A-Za-z]:")


def leads_out(value: str) -> bool:
    r"""Whether this value, taken for a path below a directory, could name something outside of it.

    It could with a segment `..` (between / or \, wherever it stands), as an absolute path, with a drive
    letter, or with a NUL; and so could a value in which this is percent-encoded, however often.
    """
    for _ in range(MAX_ENCODINGS):
        if "\0" in value or _OUTSIDE.match(value):
            return True
        # Windows takes `.. ` for `..`
        if any(segment.strip() == ".." for segment in value.replace("\\", "/").split("/")):
            return True
        if "%" not in value or (decoded := unquote(value)) == value:
            return False
        value = decoded
    return True
