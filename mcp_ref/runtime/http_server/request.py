"""The head of an HTTP request, as the embedded server reads it: strictly by RFC 9112.

`parse_head` makes a WSGI environ of it, and finds out where the request ends. A head with a byte that the
grammar does not allow in its place is refused. A lenient parser would be shorter and would serve the same
clients; but two parsers that read the same bytes differently, a proxy's and ours, are what request smuggling
is made of. So there is one Host, one length, one kind of line end, and no header whose name an environ would
confuse with another's.

Errors      `BadRequest` with the status of the answer; the connection ends after it.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import unquote_to_bytes

__all__ = [
    "CHUNKED",
    "FIELD_BYTES",
    "HEADERS_TOO_LARGE",
    "MAX_HEADERS",
    "MAX_REQUEST_LINE_BYTES",
    "BadRequest",
    "RequestHead",
    "check_field_line",
    "excerpt",
    "is_token",
    "parse_head",
    "uri_too_long",
]

MAX_REQUEST_LINE_BYTES = 8192
"""The longest request line; most of it is the URL."""
HEADERS_TOO_LARGE = "431 Request Header Fields Too Large"
MAX_HEADERS = 100
"""The most header lines of a request, or trailers of a body."""
CHUNKED = -1
"""The length of a body in chunks, which is unknown before its end."""

MAX_KNOWN_NAMES = 300
MAX_KNOWN_NAME_CHARACTERS = 40
"""How many header names, and how long ones, are cached with their environ keys (`_known_key`): bounded, since
clients choose them.

Without the cache a request with a new head of ten headers takes 31 us of processor time instead of 25.
"""

# RFC 9110, section 5.5: a field value has visible characters, spaces, tabs, and bytes above 127.
FIELD_BYTES = bytes([9, *range(32, 127), *range(128, 256)])
# RFC 9110, section 5.6.2: token = 1*tchar
_HTTP_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
# RFC 9112, section 3: request-line = method SP request-target SP HTTP-version
_REQUEST_LINE = re.compile(rf"({_HTTP_TOKEN.pattern}) ([!-~]+) (HTTP/[0-9]\.[0-9])")
# RFC 3986, section 3.2.2: the characters of a host, a port, and an IPv6 address in brackets
_HOST_CHARACTERS = re.compile(r"[A-Za-z0-9\-._~%!$&'()*+,;=:\[\]]*")


class BadRequest(OSError):
    """A request that is refused, with a message for its client, and the status of the answer."""

    def __init__(self, message: str, status: str = "400 Bad Request") -> None:
        super().__init__(message)
        self.status = status


def uri_too_long() -> BadRequest:
    return BadRequest(f"a request line of more than {MAX_REQUEST_LINE_BYTES} bytes", "414 URI Too Long")


def excerpt(text: str) -> str:
    """Part of a request, cut short and in ASCII, so that an answer may quote it."""
    return ascii(text if len(text) <= 40 else text[:40] + "...")


def is_token(text: str) -> bool:
    """Whether the text may be a method or the name of a header."""
    return _HTTP_TOKEN.fullmatch(text) is not None


def _has_control_characters(head: bytes, line_ends: int = 0) -> bool:
    """Whether a head has any byte besides FIELD_BYTES and the CR LF of `line_ends` lines."""
    return len(head.translate(None, FIELD_BYTES)) != 2 * line_ends


class RequestHead(NamedTuple):
    """What the head of a request says."""

    environ: dict[str, Any]
    """Copied for each request with this head, since applications may change theirs."""
    body_bytes: int
    """The length of the body, or CHUNKED."""
    is_http_1_0: bool
    """Whether the client speaks HTTP/1.0: it knows no chunks, and gets one response on a connection."""
    wants_close: bool
    """Whether the client sends no further request."""
    wants_continue: bool
    """Whether the client waits for `100 Continue` before it sends the body."""


def check_field_line(line: bytes) -> None:
    """Check a header line or a trailer. Raises BadRequest."""
    name, colon, _ = line.decode("latin-1").partition(":")
    if not colon or not is_token(name):
        raise BadRequest(f"not a header line: {excerpt(line.decode('latin-1'))}")
    if _has_control_characters(line):
        raise BadRequest("a control character in a header line")


def parse_head(head: bytes, base: Mapping[str, Any]) -> RequestHead:
    """Parse a head, without the empty line at its end. `base` is copied into the environ."""
    lines = head.decode("latin-1").split("\r\n")
    if _has_control_characters(head, line_ends=len(lines) - 1):
        raise BadRequest("a control character, or a line end that is not CR LF, in the head of the request")
    if len(lines) > MAX_HEADERS + 1:
        raise BadRequest(f"more than {MAX_HEADERS} header lines", HEADERS_TOO_LARGE)
    environ = {**base}
    authority = _parse_request_line(lines[0], environ)
    for line in lines[1:]:
        name, colon, value = line.partition(":")
        key = (_known_key if len(name) <= MAX_KNOWN_NAME_CHARACTERS else _environ_key)(name)
        if not colon:
            raise BadRequest(f"a header line without a colon: {excerpt(line)}")
        if key:
            value = value.strip(" \t")
            environ[key] = _joined(key, environ[key], value) if key in environ else value
    is_http_1_0 = environ["SERVER_PROTOCOL"] == "HTTP/1.0"
    _check_host(environ, authority, is_http_1_0)
    options = environ.get("HTTP_CONNECTION", "").lower().replace(" ", "").split(",")
    length, wants_close = _body_bytes(environ, is_http_1_0), is_http_1_0 or "close" in options
    return RequestHead(environ, length, is_http_1_0, wants_close, _wants_continue(environ, is_http_1_0))


def _parse_request_line(line: str, environ: dict[str, Any]) -> str | None:
    """Put the method, the path and the query into the environ. Returns the authority of a full URL."""
    if len(line) > MAX_REQUEST_LINE_BYTES:
        raise uri_too_long()
    found = _REQUEST_LINE.fullmatch(line)
    if found is None:
        raise BadRequest(f"not a request line: {excerpt(line)}")
    method, target, version = found.groups()
    if version not in ("HTTP/1.1", "HTTP/1.0"):
        raise BadRequest(f"HTTP/1.1 and HTTP/1.0 are known, not {version}", "505 HTTP Version Not Supported")
    where, _, query = target.partition("?")
    path, authority = (where, None) if where[:1] == "/" else _path_and_authority(method, where)
    environ["REQUEST_METHOD"] = method
    environ["PATH_INFO"] = unquote_to_bytes(path).decode("latin-1") if "%" in path else path
    environ["QUERY_STRING"] = query
    environ["REQUEST_URI"] = environ["RAW_URI"] = target
    environ["SERVER_PROTOCOL"] = version
    return authority


def _path_and_authority(method: str, where: str) -> tuple[str, str | None]:
    """Split `http://host/path`, the form for proxies that a server must accept too; or take `OPTIONS *`."""
    if where == "*" and method == "OPTIONS":
        return where, None
    scheme, _, rest = where.partition("://")
    authority, slash, path = rest.partition("/")
    if scheme.lower() not in ("http", "https") or not authority:
        raise BadRequest(f"not an address on this server: {excerpt(where)}")
    return slash + path or "/", authority


def _environ_key(name: str) -> str:
    """The key of a header in an environ; "" for one that is dropped."""
    if not is_token(name):
        raise BadRequest(f"not the name of a header: {excerpt(name)}")
    key = name.upper().replace("-", "_")
    if "_" in name:
        key = ""  # `Mcp_Session_Id` would pass for `Mcp-Session-Id`, past a proxy that removes the latter
    elif key not in ("CONTENT_TYPE", "CONTENT_LENGTH"):
        key = f"HTTP_{key}"
    return key


_known_key = functools.lru_cache(maxsize=MAX_KNOWN_NAMES)(_environ_key)


def _joined(key: str, before: str, value: str) -> str:
    """The value of a header that occurs twice. Raises BadRequest if it may not."""
    if key in ("HTTP_HOST", "HTTP_TRANSFER_ENCODING"):
        name = key.removeprefix("HTTP_").replace("_", "-").title()
        raise BadRequest(f"more than one {name} header")
    if key != "CONTENT_LENGTH":
        return f"{before}, {value}"
    if before != value:
        raise BadRequest("two Content-Length headers that differ")
    return value


def _check_host(environ: dict[str, Any], authority: str | None, is_http_1_0: bool) -> None:
    if "HTTP_HOST" not in environ and not is_http_1_0:
        raise BadRequest("no Host header")
    if authority is not None:  # RFC 9112, section 3.2.2: it replaces the Host header
        environ["HTTP_HOST"] = authority
    host = environ.get("HTTP_HOST", "")
    if not _HOST_CHARACTERS.fullmatch(host):
        raise BadRequest(f"not a host: {excerpt(host)}")


def _body_bytes(environ: dict[str, Any], is_http_1_0: bool) -> int:
    length, coding = environ.get("CONTENT_LENGTH"), environ.get("HTTP_TRANSFER_ENCODING")
    if coding is None:
        return 0 if length is None else _content_length(length)
    # RFC 9112, section 6.3: both at once may be an attempt at smuggling.
    if length is not None:
        raise BadRequest("Transfer-Encoding together with Content-Length")
    if is_http_1_0:
        raise BadRequest("Transfer-Encoding together with HTTP/1.0")
    if coding.lower() != "chunked":
        raise BadRequest(f"Transfer-Encoding {excerpt(coding)}: only chunked is known", "501 Not Implemented")
    return CHUNKED


def _content_length(value: str) -> int:
    if not (value.isascii() and value.isdigit() and len(value) < 19):
        raise BadRequest(f"not a Content-Length: {excerpt(value)}")
    return int(value)


def _wants_continue(environ: dict[str, Any], is_http_1_0: bool) -> bool:
    expectation = environ.get("HTTP_EXPECT")
    if expectation is None or is_http_1_0:
        return False
    if expectation.lower() != "100-continue":
        raise BadRequest(f"cannot meet the expectation {excerpt(expectation)}", "417 Expectation Failed")
    return True
