"""Requests and responses of an authorization server, over WSGI.

    Request(environ)       .query, .form(), .json(): each parameter at most once, all of it bounded
    json_response(...)     page_response(...)     redirect(...)     -> Response

OAuth forbids a parameter that occurs twice, and treats an empty one as absent (OAuth 2.1, section 3.1): two
programs that read one request must not understand it in two ways.

Errors      OAuthError is answered as JSON, with its code and status (RFC 6749, section 5.2). PageError is
            answered as a page, to a person: it is raised where no redirect URI can be trusted with the error.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any, NamedTuple
from urllib.parse import parse_qsl
from wsgiref.types import WSGIEnvironment

from mcp_ref.runtime.json_text import NotJson, from_json, to_json

__all__ = [
    "FORM_TYPE",
    "NO_STORE",
    "OAuthError",
    "PageError",
    "Request",
    "Response",
    "cookie",
    "json_response",
    "page_response",
    "redirect",
]

MAX_BODY_BYTES = 64 << 10
"""The largest form, and the largest registration."""
MAX_PARAMETERS = 50
MAX_COOKIE_CHARACTERS = 8 << 10

FORM_TYPE = "application/x-www-form-urlencoded"
NO_STORE = ("Cache-Control", "no-store")

Headers = Sequence[tuple[str, str]]

# RFC 6749, section 5.2: the characters of error_description
_NOT_DESCRIPTIVE = re.compile(r"[^\x20\x21\x23-\x5b\x5d-\x7e]")
_CONTROL_CHARACTER = re.compile(r"[\x00-\x1f\x7f]")


class OAuthError(Exception):
    """A request that is refused, with OAuth's error code for the reason."""

    def __init__(
        self, error: str, description: str, status: int = HTTPStatus.BAD_REQUEST, headers: Headers = ()
    ) -> None:
        super().__init__(f"{error}: {description}")
        self.error = error
        self.description = _NOT_DESCRIPTIVE.sub("'", description)
        self.status = status
        self.headers = headers

    def response(self) -> Response:
        said = {"error": self.error, "error_description": self.description}
        return json_response(said, self.status, *self.headers)


class PageError(Exception):
    """A browser's request that is refused, with a sentence for the person in front of it."""

    def __init__(self, message: str, status: int = HTTPStatus.BAD_REQUEST) -> None:
        super().__init__(message)
        self.message = message
        self.status = status


class Response(NamedTuple):
    """A whole response."""

    status: int
    body: bytes
    headers: tuple[tuple[str, str], ...]

    @property
    def status_line(self) -> str:
        return f"{int(self.status)} {HTTPStatus(self.status).phrase}"


def json_response(value: Any, status: int = 200, *headers: tuple[str, str]) -> Response:
    kind = ("Content-Type", "application/json")
    caching = () if any(name == "Cache-Control" for name, _ in headers) else (NO_STORE,)
    return Response(status, to_json(value).encode("utf-8"), (kind, *caching, *headers))


# No form-action: browsers apply it to redirects after the form as well, and the redirect URI of a client may
# lead on to anywhere. What it would guard against, a stranger's markup on these pages, escaping keeps out.
_PAGE_POLICY = "default-src 'none'; style-src '{style}'; frame-ancestors 'none'; base-uri 'none'"


def page_response(html: str, style_hash: str, status: int = 200, *headers: tuple[str, str]) -> Response:
    """A page for a person: without scripts, kept by no cache, shown in no frame."""
    protection = (
        ("Content-Type", "text/html; charset=utf-8"),
        NO_STORE,
        ("Content-Security-Policy", _PAGE_POLICY.format(style=style_hash)),
        ("X-Frame-Options", "DENY"),
        ("X-Content-Type-Options", "nosniff"),
        # Not no-referrer: with that, a browser would not tell us either where a form came from.
        ("Referrer-Policy", "same-origin"),
    )
    return Response(status, html.encode("utf-8"), (*protection, *headers))


def redirect(location: str, *headers: tuple[str, str]) -> Response:
    """A redirect (See Other) that the browser follows with GET, without sending the form again.

    OAuth 2.1, section 7.5.4.
    """
    fixed = ("Location", location), NO_STORE, ("Referrer-Policy", "no-referrer")
    return Response(HTTPStatus.SEE_OTHER, b"", (*fixed, *headers))


def cookie(name: str, value: str, seconds: float, *, is_secure: bool) -> tuple[str, str]:
    """A header that sets a cookie: no script can read it, and forms of other sites are sent without it."""
    secure = "; Secure" if is_secure else ""
    attributes = f"Path=/; Max-Age={int(seconds)}; HttpOnly; SameSite=Lax{secure}"
    return "Set-Cookie", f"{name}={value}; {attributes}"


class Request:
    """A request to an authorization server."""

    def __init__(self, environ: WSGIEnvironment) -> None:
        self._environ = environ
        self.method: str = environ["REQUEST_METHOD"]
        self.path: str = environ.get("SCRIPT_NAME", "") + environ.get("PATH_INFO", "")
        self.address: str = environ.get("REMOTE_ADDR", "")
        """The IP address of the sender, or of a reverse proxy in front of this server."""

    def header(self, name: str) -> str | None:
        value: str | None = self._environ.get(f"HTTP_{name.upper().replace('-', '_')}")
        return value

    @property
    def query(self) -> dict[str, str]:
        """The parameters in the URL. Raises OAuthError."""
        return _parameters(self._environ.get("QUERY_STRING", ""))

    @property
    def content_type(self) -> str:
        return str(self._environ.get("CONTENT_TYPE", "")).partition(";")[0].strip().lower()

    def cookie(self, name: str) -> str | None:
        text = self.header("Cookie") or ""
        if len(text) > MAX_COOKIE_CHARACTERS:
            return None
        pairs = (part.strip().partition("=") for part in text.split(";"))
        return next((value for found, _, value in pairs if found == name), None)

    def form(self) -> dict[str, str]:
        """The parameters in the body. Raises OAuthError."""
        if self.content_type != FORM_TYPE:
            raise OAuthError("invalid_request", f"the body is of the type {FORM_TYPE}")
        try:
            text = self._body().decode("ascii")
        except UnicodeDecodeError:
            raise OAuthError("invalid_request", "a form has only ASCII characters") from None
        return _parameters(text)

    def json(self) -> Any:
        """The JSON value in the body. Raises OAuthError."""
        if self.content_type != "application/json":
            raise OAuthError("invalid_request", "the body is of the type application/json")
        try:
            return from_json(self._body())
        except NotJson as problem:
            raise OAuthError("invalid_request", str(problem)) from None

    def _body(self) -> bytes:
        length = self._environ.get("CONTENT_LENGTH") or ""
        if not length and not self._environ.get("wsgi.input_terminated"):
            return b""  # such a server gives a length if there is a body
        size = int(length) if length.isdecimal() else MAX_BODY_BYTES + 1
        if length and size > MAX_BODY_BYTES:
            raise OAuthError("invalid_request", _TOO_LARGE, HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        body: bytes = self._environ["wsgi.input"].read(size)
        if len(body) > MAX_BODY_BYTES:
            raise OAuthError("invalid_request", _TOO_LARGE, HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        return body


_TOO_LARGE = f"a body has up to {MAX_BODY_BYTES} bytes"


def _parameters(text: str) -> dict[str, str]:
    """The parameters of a query or of a form, without those that are empty."""
    try:
        pairs = parse_qsl(text, errors="strict", max_num_fields=MAX_PARAMETERS)
    except UnicodeDecodeError:
        raise OAuthError("invalid_request", "a parameter is not UTF-8") from None
    except ValueError:
        raise OAuthError("invalid_request", f"there are more than {MAX_PARAMETERS} parameters") from None
    found: dict[str, str] = {}
    for name, value in pairs:
        if name in found:
            raise OAuthError("invalid_request", f"the parameter {name[:40]} occurs more than once")
        if _CONTROL_CHARACTER.search(value):
            raise OAuthError("invalid_request", f"the parameter {name[:40]} has a control character")
        found[name] = value
    return found
