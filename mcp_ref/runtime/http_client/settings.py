"""The settings of all HTTP exchanges of a client: its connections, headers and cookies.

They come from a `requests.Session`: proxies, certificates, headers, `auth`, cookies. One is made here if the
application gives none. The environment (proxies, certificates, ~/.netrc) is read once, when the settings are
made, unless the session does not trust it. A transport adapter that the application mounted stays in use.

A header of the application wins over the same one of the session. The session's `auth` is used only if
neither sets Authorization, and ~/.netrc only if there is no `auth` either. The headers of the protocol cannot
be set.

Errors      TypeError, ValueError for settings that make no sense; none of them repeats a header's value.
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
from requests.cookies import extract_cookies_to_jar, get_cookie_header
from requests.utils import get_netrc_auth, select_proxy

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
        self.server = urlsplit(url).netloc
        self._has_own_session = session is None
        self._session = requests.Session() if session is None else session
        self._application_headers = headers
        self._fixed = self._fixed_headers()
        self._prepared = requests.Request("POST", url).prepare()
        self.pool, self.target = self._pool(limit)
        # The queue of the connections that are kept alive.
        self._idle: Any = self.pool.pool if self._has_own_pool else None
        self._is_closed = False

    def _pool(self, limit: int) -> tuple[Any, str]:
        session = self._session
        # True is the default of a session: only another value wins over REQUESTS_CA_BUNDLE.
        verify: Any = None if session.verify is True else session.verify
        settings = session.merge_environment_settings(self.url, {}, True, verify, None)
        proxies, verify, cert = settings["proxies"], settings["verify"], settings["cert"]
        if (select_proxy(self.url, proxies) or "").startswith("https:"):
            raise ValueError("a proxy is reached by http: or socks:, not by https:")
        adapter: Any = session.get_adapter(self.url)
        _check_retries(getattr(adapter, "max_retries", None))
        self._has_own_pool = type(adapter) is HTTPAdapter
        if self._has_own_pool:  # an adapter that the application wrote is used as it is
            adapter = _Adapter(pool_connections=1, pool_maxsize=limit)
        pool = adapter.get_connection_with_tls_context(self._prepared, verify, proxies, cert)
        adapter.cert_verify(pool, self.url, verify, cert)
        pool.ConnectionCls = leased_class(pool.ConnectionCls)
        return pool, adapter.request_url(self._prepared, proxies)

    def target_of(self, reference: str) -> str | None:
        """The request target of a URL, which may be relative; None if it is on another server."""
        try:
            url = urljoin(self.url, reference)
            if _origin(url) != _origin(self.url):
                return None
        except ValueError:  # not a URL
            return None
        if not self.target.startswith("/"):  # a proxy gets whole URLs
            return url
        parts = urlsplit(url)
        return (parts.path or "/") + (f"?{parts.query}" if parts.query else "")

    def _fixed_headers(self) -> dict[str, str]:
        headers = {"Accept-Encoding": "identity", "User-Agent": "mcp_ref"}
        usual = requests.utils.default_headers()
        for name, value in self._session.headers.items():
            if name.lower() not in RESERVED_HEADERS and usual.get(name) != value:
                text = value if isinstance(value, str) else value.decode("latin-1")
                headers = merge_headers(headers, {name: text})
        if self._application_headers is not None and not callable(self._application_headers):
            headers = merge_headers(headers, check_headers(self._application_headers))
        return headers | self._netrc_header(headers)

    def _netrc_header(self, headers: Headers) -> dict[str, str]:
        """The Authorization header of ~/.netrc, if nothing else sets one."""
        if not self._session.trust_env or self._session.auth is not None or _has_authorization(headers):
            return {}
        login = get_netrc_auth(self.url)
        return {} if login is None else urllib3.make_headers(basic_auth=":".join(login))

    def headers(self, more: Headers) -> dict[str, str]:
        """Return all headers of a request: those of session and application, and `more` of the protocol."""
        headers = self._fixed
        if callable(self._application_headers):
            headers = merge_headers(headers, check_headers(self._application_headers()))
        if self._session.auth is not None and not _has_authorization(headers):
            headers = merge_headers(headers, self._auth_headers())
        if len(self._session.cookies):
            cookies = _cookie_header(self._session.cookies, self._prepared)
            if cookies is not None:
                headers = merge_headers(headers, {"Cookie": cookies})
        return {**headers, **more}

    def _auth_headers(self) -> dict[str, str]:
        request = requests.Request("POST", self.url, auth=self._session.auth).prepare()
        return {n: str(v) for n, v in request.headers.items() if n.lower() not in RESERVED_HEADERS}

    def add_cookies(self, response: Any) -> None:
        """Add the cookies of a response: a load balancer uses them to send a client to the same server."""
        if len(self._session.cookies) < MAX_COOKIES:
            _extract_cookies(self._session.cookies, self._prepared, response)

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
            self._session.close()


def _check_retries(retry: Any) -> None:
    """Check that an adapter sends nothing again: a call could be done twice. Raises ValueError."""

    def is_allowed(count: Any) -> bool:
        return count is None or count > 0

    # Anything but a urllib3.Retry belongs to an adapter that the application wrote.
    if not isinstance(retry, urllib3.Retry) or not is_allowed(retry.total):
        return
    if any(map(is_allowed, (retry.connect, retry.read, retry.status, retry.other))):
        raise ValueError(
            f"the adapter of the session retries (max_retries={retry!r}), and a call that is sent again "
            "could be done twice; mount HTTPAdapter() without max_retries, and connect with retry=Retry(5), "
            "which sends again what may be"
        )


def check_headers(headers: Any) -> dict[str, str]:
    """Check headers of the application, and copy them. Raises TypeError, ValueError, without their values."""
    if not isinstance(headers, Mapping):
        raise TypeError(f"headers is a mapping, or a function that returns one, not {type(headers).__name__}")
    for name, value in headers.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise TypeError(f"the header {name!r:.60} is a string, not {type(value).__name__}")
        if _HEADER_NAME.fullmatch(name) is None:
            raise ValueError(f"{name!r:.60} cannot be the name of a header")
        if _VALUE.fullmatch(value) is None:
            raise ValueError(f"the value of the header {name} holds a character that no header may")
        if name.lower() in RESERVED_HEADERS or name.lower().startswith("mcp-param-"):
            raise ValueError(f"the header {name} is the transport's own")
    return dict(headers)


def merge_headers(headers: dict[str, str], more: Headers) -> dict[str, str]:
    """Return both together. A header of `more` replaces one of the same name, in any case of letters."""
    names = {name.lower() for name in more}
    return {**{name: value for name, value in headers.items() if name.lower() not in names}, **more}


def _origin(url: str) -> tuple[str, str | None, int | None]:
    """Scheme, host and port of a URL."""
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or {"http": 80, "https": 443}.get(parts.scheme)


def _has_authorization(headers: Headers) -> bool:
    return any(name.lower() == "authorization" for name in headers)
