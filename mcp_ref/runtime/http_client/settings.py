"""The settings of all HTTP exchanges of a client: its connections, headers and cookies.

They come from a `requests.Session`: proxies, certificates, headers, `auth`, cookies. One is made here if the
application gives none. The environment (proxies, certificates, ~/.netrc) is read once, when the settings are
made, unless the session does not trust it. A transport adapter that the application mounted stays in use. A
session that can do more than is used here is refused (session_rules).

A header of the application wins over the same one of the session. The session's `auth` is used only if
neither sets Authorization, and ~/.netrc only if there is no `auth` either. It is called for each request,
with its method, URL, headers and body, which it may sign; only headers are taken from it. The headers of the
protocol cannot be set.

Errors      TypeError, ValueError for settings that make no sense; none of them repeats a header's value.
            LocalError for what the environment says (routes, and a login in ~/.netrc that cannot be sent),
            and for an `auth` that would do more than add headers, or adds one that cannot be sent.
Threads     plain data once it is made, except the cookies, which have a lock of their own.
"""

from __future__ import annotations

import queue
import re
import socket
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias
from urllib.parse import urljoin, urlsplit

import requests
import urllib3
from requests.adapters import HTTPAdapter
from requests.auth import HTTPBasicAuth
from requests.cookies import extract_cookies_to_jar, get_cookie_header
from requests.exceptions import InvalidHeader
from requests.structures import CaseInsensitiveDict
from requests.utils import get_netrc_auth

from mcp_ref.runtime.errors import LocalError
from mcp_ref.runtime.http_client.routes import Route
from mcp_ref.runtime.http_client.session_rules import check_session, is_plain
from mcp_ref.runtime.http_client.sockets import leased_class

__all__ = ["Headers", "Settings"]

Headers: TypeAlias = Mapping[str, str]

RESERVED_HEADERS = frozenset(
    {
        "accept",
        "accept-encoding",
        "connection",
        "content-length",
        "content-type",
        "host",
        "last-event-id",
        "mcp-method",
        "mcp-name",
        "mcp-protocol-version",
        "mcp-session-id",
        "transfer-encoding",
    }
)
"""Headers of the transport, which the application cannot set."""

# RFC 9110, section 5.6.2: token; and section 5.5: field-value
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
NOT_SENDABLE = "has a character that no header may"

_PROBES = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 15, "TCP_KEEPCNT": 4}
SOCKET_OPTIONS = [
    (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    *((socket.IPPROTO_TCP, getattr(socket, o), n) for o, n in _PROBES.items() if hasattr(socket, o)),
]
"""No delay of small writes; and keep-alive probes: if its server vanishes, a silent stream ends after
30 + 4 * 15 seconds."""

MAX_COOKIES = 50
"""With so many cookies a server can neither set nor change one: each of them goes with each request."""

# By their types, both take the responses of requests; in practice they take those of urllib3 as well.
_cookie_header: Any = get_cookie_header
_extract_cookies: Any = extract_cookies_to_jar


class _Adapter(HTTPAdapter):
    def init_poolmanager(self, *args: Any, **options: Any) -> None:
        super().init_poolmanager(*args, socket_options=SOCKET_OPTIONS, **options)


class Settings:
    """The settings of one client, for one URL."""

    def __init__(
        self,
        url: str,
        session: requests.Session | None,
        headers: Headers | Callable[[], Headers] | None,
        limit: int,
    ) -> None:
        """`limit` is the number of connections that are kept alive."""
        self.url = url
        self.server = urlsplit(url).netloc.rpartition("@")[2]
        self._has_own_session = session is None
        self.session = requests.Session() if session is None else session
        self._application_headers = headers
        self._fixed = self._fixed_headers()
        self._prepared = _prepared(url)
        adapter: Any = self.session.get_adapter(url)
        if not self._has_own_session:
            check_session(self.session, adapter)
        self._has_own_pool = is_plain(adapter)
        if self._has_own_pool:  # an adapter that the application wrote is used as it is
            adapter = _Adapter(pool_connections=1, pool_maxsize=limit)
        self._adapter = adapter
        self._route = Route(self.session, url)
        self._route.check_proxy()
        self.pool = self._route.pool(adapter, self._prepared)
        self.pool.ConnectionCls = leased_class(self.pool.ConnectionCls)
        if self._route.has_proxy:
            self.server += f" through the proxy {self._route.proxy}"
        self.target = adapter.request_url(self._prepared, self._route.proxies)
        # The queue of the connections that are kept alive.
        self._idle: Any = self.pool.pool if self._has_own_pool else None
        self._is_closed = False

    def target_of(self, reference: str) -> str | None:
        """The request target of a URL, which may be relative; None if it is on another server."""
        try:
            url = urljoin(self.url, reference)
            asked = _prepared(url)
            if "@" in urlsplit(url).netloc or _origin(url) != _origin(self.url):
                return None
            # What is sent counts as well: a proxy passes it on to the server that it names.
            if _origin(str(asked.url)) != _origin(str(self._prepared.url)):
                return None
            target: str = self._adapter.request_url(asked, self._route.proxies)
        except ValueError:  # not a URL
            return None
        return target

    def _fixed_headers(self) -> dict[str, str]:
        headers = {"Accept-Encoding": "identity", "User-Agent": "mcp_ref"}
        usual = requests.utils.default_headers()
        set_there = {n: v for n, v in self.session.headers.items() if v != usual.get(n)}
        headers = merge_headers(headers, _settable(set_there))
        if self._application_headers is not None and not callable(self._application_headers):
            headers = merge_headers(headers, check_headers(self._application_headers))
        return headers | self._netrc_header(headers)

    def _netrc_header(self, headers: Headers) -> dict[str, str]:
        """The Authorization header of ~/.netrc, if nothing else sets one."""
        if not self.session.trust_env or self.session.auth or _has_authorization(headers):
            return {}
        login = get_netrc_auth(self.url)
        try:
            return {} if login is None else urllib3.make_headers(basic_auth=":".join(login))
        except UnicodeEncodeError:  # it holds the password
            raise LocalError(f"the login for {self.server} in ~/.netrc {NOT_SENDABLE}") from None

    def headers(self, more: Headers) -> dict[str, str]:
        """Return the headers of a request: those of session and application, and `more` of the protocol.

        Those of the session's `auth` come last (`signed`).
        """
        headers = self._fixed
        if callable(self._application_headers):
            headers = merge_headers(headers, check_headers(self._application_headers()))
        if len(self.session.cookies):
            cookies = _cookie_header(self.session.cookies, self._prepared)
            if cookies is not None:
                headers = merge_headers(headers, {"Cookie": cookies})
        return {**headers, **more}

    def signed(self, method: str, url: str, headers: Headers, body: bytes | None) -> Headers:
        """Return the headers with those of the session's `auth`, which sees all of the request.

        Raises LocalError if it would change something else, and what the `auth` raises.
        """
        auth = self.session.auth
        if not auth or _has_authorization(headers):  # requests takes an empty one for none, too
            return headers
        request = _by_auth(auth, _unsigned(method, url, headers, body))
        # Only what it changed: a cookie of the server's, for one, is not the fault of the auth.
        changed = {name: value for name, value in request.headers.items() if headers.get(name) != value}
        try:
            return merge_headers(dict(headers), _settable(changed))
        except ValueError as problem:
            raise _refused_auth(auth, f"sets what cannot be sent: {problem}") from None

    def add_cookies(self, response: Any) -> None:
        """Add the cookies of a response: a load balancer uses them to send a client to the same server."""
        if len(self.session.cookies) < MAX_COOKIES:
            _extract_cookies(self.session.cookies, self._prepared, response)

    def forked(self) -> None:
        """Close a forked child's copies of the idle connections."""
        for connection in list(self._idle.queue) if self._idle is not None else ():
            if getattr(connection, "sock", None) is not None:
                connection.sock.close()  # and not shut down: that would end the parent's connection as well

    def connection_returned(self) -> None:
        """After `close`, close what an exchange gives back: urllib3 may put it into the closed pool."""
        while self._is_closed:
            try:
                connection = self._idle.get(block=False)
            except queue.Empty:
                return
            if connection is not None:  # urllib3 puts None for a free place
                connection.close()

    def close(self) -> None:
        """Close the connections, and the session if it was made here."""
        if self._has_own_pool:
            self._is_closed = True  # first: a connection that is returned later sees it
            self.pool.close()
        if self._has_own_session:
            self.session.close()


def _prepared(url: str) -> requests.PreparedRequest:
    """A request for a URL. Raises ValueError if its host cannot be one."""
    server = urlsplit(url).netloc.rpartition("@")[2]
    refused = ValueError(f"the URL names {server[:200]!r}, which cannot be the name of a server")
    if "\\" in urlsplit(url).netloc:  # in `http://a\@b/`, one library finds the host a, and another one b
        raise refused
    try:
        prepared = requests.Request("POST", url).prepare()
        (urlsplit(str(prepared.url)).hostname or "").encode("idna")  # as it is encoded to be looked up
    except ValueError:  # of requests, or UnicodeError
        raise refused from None
    return prepared


def _unsigned(method: str, url: str, headers: Headers, body: bytes | None) -> requests.PreparedRequest:
    """The request that an `auth` is shown."""
    request = requests.PreparedRequest()
    request.prepare_method(method)
    request.prepare_url(url, None)
    # Not by `prepare_headers`, whose errors repeat values.
    request.headers = CaseInsensitiveDict(headers)
    request.prepare_body(body, None)
    return request


def _by_auth(auth: Any, plain: requests.PreparedRequest) -> requests.PreparedRequest:
    """The request as the session's `auth` returns it. Raises LocalError if it is no `auth` for here."""
    sign = HTTPBasicAuth(*auth) if isinstance(auth, tuple) and len(auth) == 2 else auth
    if not callable(sign):
        raise _refused_auth(auth, "is neither a function nor a name with a password")
    try:
        request = sign(plain.copy())
    except (UnicodeEncodeError, InvalidHeader):  # it holds the password, or a value
        raise _refused_auth(auth, "cannot write the headers of this request") from None
    if not isinstance(request, requests.PreparedRequest):
        raise _refused_auth(auth, "does not return the request")
    if any(request.hooks.values()):
        raise _refused_auth(auth, "waits for the response, which it is not told here")
    if (request.method, request.url, request.body) != (plain.method, plain.url, plain.body):
        raise _refused_auth(auth, "changes more than the headers of a request, which has no effect here")
    return request


def _refused_auth(auth: Any, fault: str) -> LocalError:
    return LocalError(
        f"the auth of the session, a {type(auth).__name__}, {fault}; write auth=... or headers=..."
    )


def check_headers(headers: Any) -> dict[str, str]:
    """Check headers of the application, and copy them. Raises TypeError, ValueError, without their values."""
    if not isinstance(headers, Mapping):
        raise TypeError(f"headers is a mapping, or a function that returns one, not {type(headers).__name__}")
    for name, value in headers.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise TypeError(f"the header {name!r:.60} is a string, not {type(value).__name__}")
        _check_header(name, value)
        if _is_reserved(name):
            raise ValueError(f"the header {name} is the transport's own")
    return dict(headers)


def _check_header(name: str, value: str) -> None:
    """Check that a header can be sent. Raises ValueError, without its value."""
    if _HEADER_NAME.fullmatch(name) is None:
        raise ValueError(f"{name!r:.60} cannot be the name of a header")
    if _VALUE.fullmatch(value) is None:
        raise ValueError(f"the value of the header {name} holds a character that no header may")


def _is_reserved(name: str) -> bool:
    return name.lower() in RESERVED_HEADERS or name.lower().startswith("mcp-param-")


def _settable(headers: Mapping[Any, Any]) -> dict[str, str]:
    """Headers as requests takes them, as text, without those of the transport. Raises ValueError.

    None for a value stands for no header.
    """
    known = {_text(name): _text(value) for name, value in headers.items() if value is not None}
    found = {name: value for name, value in known.items() if not _is_reserved(name)}
    for name, value in found.items():
        _check_header(name, value)
    return found


def merge_headers(headers: dict[str, str], more: Headers) -> dict[str, str]:
    """Return both together. A header of `more` replaces one of the same name, in any case of letters."""
    names = {name.lower() for name in more}
    return {**{name: value for name, value in headers.items() if name.lower() not in names}, **more}


def _origin(url: str) -> tuple[str, str | None, int | None]:
    """Scheme, host and port of a URL. Raises ValueError."""
    parts = urlsplit(url)
    usual = {"http": 80, "https": 443}.get(parts.scheme)
    return parts.scheme, parts.hostname, usual if parts.port is None else parts.port


def _text(value: Any) -> str:
    """The name or the value of a header, which requests also takes as bytes."""
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)


def _has_authorization(headers: Headers) -> bool:
    return any(name.lower() == "authorization" for name in headers)
