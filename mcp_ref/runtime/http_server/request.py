"""What the head of a request says to the embedded HTTP server.

`parse` makes a WSGI environ of it, and finds out where the request ends. A byte that is not where
HTTP/1.1 wants it (RFC 9112) is refused: two readers that understand the same bytes differently are
what request smuggling is made of. So there is one Host, one length, one kind of line end, and no
header whose name an environ would confuse with another one's.

Errors      `BadRequest` with the status of the answer; the connection ends after it.
Threads     plain functions. Names of headers that were seen are kept, up to a limit, for all.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import unquote_to_bytes

__all__ = [
    "CHUNKED",
    "MAX_HEADERS",
    "MAX_LINE",
    "BadRequest",
    "Head",
    "bad",
    "check_field_line",
    "is_token",
    "parse",
    "shown",
    "too_long",
]

MAX_LINE = 8192
"""Bytes of the longest request line, which is the address above all."""

MAX_HEADERS = 100
"""Header lines of a request."""

CHUNKED = -1
"""The length of a body that says its length as it comes."""


class BadRequest(OSError):
    """A request that cannot be served, with the status that says so."""

    def __init__(self, status: str, why: str) -> None:
        super().__init__(why)
        self.status = status


def bad(why: str) -> BadRequest:
    """What breaks the rules of HTTP."""
    return BadRequest("400 Bad Request", why)


def too_long() -> BadRequest:
    """A request line that does not end."""
    return BadRequest("414 URI Too Long", f"a request line of more than {MAX_LINE} bytes")


def shown(text: str) -> str:
    """What a stranger wrote, in a form and a length that may stand in an answer."""
    return ascii(text if len(text) <= 40 else text[:40] + "...")


def is_token(text: str) -> bool:
    """Whether it may be a method or the name of a header."""
    return _TOKEN.fullmatch(text) is not None


class Head(NamedTuple):
    """What the head of a request says."""

    environ: dict[str, Any]  # to be copied: equal heads share it
    length: int  # of the body, in bytes, or CHUNKED
    old: bool  # HTTP/1.0: no chunks, no second request
    closes: bool  # the client wants no second request
    expects: bool  # the client waits for 100 Continue


_PLAIN = bytes([9, *range(32, 127), *range(128, 256)])
_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_HOST = re.compile(r"[A-Za-z0-9\-._~%!$&'()*+,;=:\[\]]*")
_METHODS = frozenset(("DELETE", "GET", "HEAD", "OPTIONS", "POST"))
_ONCE = frozenset(("HTTP_HOST", "HTTP_TRANSFER_ENCODING"))

_KEYS: dict[str, str] = {}
"""Names of headers that were seen, and their names in the environ; "" for those that are dropped."""


def check_field_line(line: bytes) -> None:
    """A line that is to be a header, or a trailer. Raises BadRequest."""
    name, colon, _ = line.decode("latin-1").partition(":")
    if not colon or not is_token(name):
        raise bad(f"not a header line: {shown(line.decode('latin-1'))}")
    if line.translate(None, _PLAIN):
        raise bad("a control character in a header line")


def parse(head: bytes, base: Mapping[str, Any]) -> Head:
    """The head of a request, without the empty line at its end. `base` is in every environ."""
    lines = head.decode("latin-1").split("\r\n")
    if len(head.translate(None, _PLAIN)) != 2 * len(lines) - 2:
        raise bad("a control character, or a line end that is not CR LF, in the head of the request")
    if len(lines) > MAX_HEADERS + 1:
        raise BadRequest("431 Request Header Fields Too Large", f"more than {MAX_HEADERS} header lines")
    environ = dict(base)
    authority = _request_line(lines[0], environ)
    del lines[0]
    for line in lines:
        name, colon, value = line.partition(":")
        key = _KEYS.get(name)
        if key is None:
            key = _key(name)
        if not colon:
            raise bad(f"a header line without a colon: {shown(line)}")
        if not key:
            continue
        value = value.strip(" \t")
        environ[key] = _joined(key, environ[key], value) if key in environ else value
    old = environ["SERVER_PROTOCOL"] == "HTTP/1.0"
    _check_host(environ, authority, old)
    closes = "close" in environ.get("HTTP_CONNECTION", "").lower().replace(" ", "").split(",")
    return Head(environ, _length(environ, old), old, old or closes, _expects(environ, old))


def _request_line(line: str, environ: dict[str, Any]) -> str | None:
    """Fill in what it says. Returns the authority of an address that has one."""
    if len(line) > MAX_LINE:
        raise too_long()
    parts = line.split(" ")
    if len(parts) != 3 or "\t" in line or not line.isascii():
        raise bad(f"not a request line: {shown(line)}")
    method, target, version = parts
    if version not in ("HTTP/1.1", "HTTP/1.0"):
        if re.fullmatch(r"HTTP/[0-9]\.[0-9]", version):
            raise BadRequest("505 HTTP Version Not Supported", f"{version} is not spoken here, HTTP/1.1 is")
        raise bad(f"not a request line: {shown(line)}")
    if method not in _METHODS and not _TOKEN.fullmatch(method):
        raise bad(f"not a method: {shown(method)}")
    where, _, query = target.partition("?")
    path, authority = (where, None) if where.startswith("/") else _full_address(method, where)
    environ["REQUEST_METHOD"] = method
    environ["PATH_INFO"] = unquote_to_bytes(path).decode("latin-1") if "%" in path else path
    environ["QUERY_STRING"] = query
    environ["REQUEST_URI"] = environ["RAW_URI"] = target
    environ["SERVER_PROTOCOL"] = version
    return authority


def _full_address(method: str, where: str) -> tuple[str, str | None]:
    """The path and the authority of `http://host/path`, as proxies are told it; `*` for OPTIONS."""
    if where == "*" and method == "OPTIONS":
        return where, None
    scheme, _, rest = where.partition("://")
    authority, slash, path = rest.partition("/")
    if scheme.lower() not in ("http", "https") or not authority:
        raise bad(f"not an address on this server: {shown(where)}")
    return slash + path or "/", authority


def _key(name: str) -> str:
    if not _TOKEN.fullmatch(name):
        raise bad(f"not the name of a header: {shown(name)}")
    if "_" in name:
        key = ""  # in an environ it would look like the name with hyphens, which somebody may trust
    else:
        key = name.upper().replace("-", "_")
        if key not in ("CONTENT_TYPE", "CONTENT_LENGTH"):
            key = f"HTTP_{key}"
    if len(_KEYS) < 300 and len(name) <= 40:
        _KEYS[name] = key
    return key


def _joined(key: str, before: str, value: str) -> str:
    """The value of a header that stands there once more."""
    if key in _ONCE:
        raise bad(f"more than one {_wire_name(key)} header")
    if key != "CONTENT_LENGTH":
        return f"{before}, {value}"
    if before != value:
        raise bad("two Content-Length headers that differ")
    return value


def _wire_name(key: str) -> str:
    return key.removeprefix("HTTP_").replace("_", "-").title()


def _check_host(environ: dict[str, Any], authority: str | None, old: bool) -> None:
    host = environ.get("HTTP_HOST")
    if host is None and not old:
        raise bad("no Host header")
    if authority is not None:
        host = environ["HTTP_HOST"] = authority
    if host and not _HOST.fullmatch(host):
        raise bad(f"not a host: {shown(host)}")


def _length(environ: dict[str, Any], old: bool) -> int:
    said, coding = environ.get("CONTENT_LENGTH"), environ.get("HTTP_TRANSFER_ENCODING")
    if coding is not None:
        if said is not None or old:
            other = "Content-Length" if said is not None else "HTTP/1.0"
            raise bad(f"Transfer-Encoding together with {other}")
        if coding.lower() != "chunked":
            raise BadRequest(
                "501 Not Implemented", f"Transfer-Encoding {shown(coding)}: only chunked is known"
            )
        return CHUNKED
    if said is None:
        return 0
    if not (said.isascii() and said.isdigit() and len(said) < 19):
        raise bad(f"not a Content-Length: {shown(said)}")
    return int(said)


def _expects(environ: dict[str, Any], old: bool) -> bool:
    expected = environ.get("HTTP_EXPECT")
    if expected is None or old:
        return False
    if expected.lower() != "100-continue":
        raise BadRequest("417 Expectation Failed", f"cannot meet the expectation {shown(expected)}")
    return True
