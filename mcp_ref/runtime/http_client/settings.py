"""What goes with every HTTP exchange of a client: its connections, headers and cookies.

A `requests.Session` says what they are like: proxies, certificates, headers, `auth`, cookies. It is made
here if the application has none. The environment (proxies, certificates, ~/.netrc) is asked once, when the
settings are made, unless the session is not to trust it. An adapter of the application's own stays in use.

A header of the application counts more than one of the session, that more than its `auth`, and that more than
~/.netrc. Those of the protocol are nobody's but the protocol's.

Errors      TypeError, ValueError for settings that make no sense; none of them tells a header's value.
Threads     plain data after it is made, but for the cookies, which have a lock of their own.
"""

from __future__ import annotations

import queue
import re
import socket
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias
from urllib.parse import urlsplit

import requests
import urllib3
from requests.adapters import HTTPAdapter
from requests.cookies import extract_cookies_to_jar, get_cookie_header
from requests.utils import get_netrc_auth, select_proxy

from mcp_ref.runtime.http_client.sockets import watched

__all__ = ["Headers", "Settings"]

Headers: TypeAlias = Mapping[str, str]

OWN = frozenset(
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
"""Headers that are not for the application to set."""

_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")

KEEP_ALIVE = [
    (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    *(
        (socket.IPPROTO_TCP, getattr(socket, option), value)
        for option, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 15), ("TCP_KEEPCNT", 4))
        if hasattr(socket, option)
    ),
]
"""So that a stream on which nothing is said does not outlive a server that vanished."""

COOKIES = 50
"""Cookies beyond which a server sets no others, nor any of these again: each goes with each request."""

_cookies_for: Any = get_cookie_header
_cookies_from: Any = extract_cookies_to_jar


class _Adapter(HTTPAdapter):
    """Connections that notice when their server vanishes."""

    def init_poolmanager(self, *args: Any, **options: Any) -> None:
        super().init_poolmanager(*args, socket_options=KEEP_ALIVE, **options)


class Settings:
    """Of one client, for one URL."""

    def __init__(
        self,
        url: str,
        session: requests.Session | None,
        headers: Headers | Callable[[], Headers] | None,
        limit: int,
    ) -> None:
        """`limit` is how many connections are kept."""
        self.url = url
        self.server = urlsplit(url).netloc
        self._is_own = session is None
        self._session = requests.Session() if session is None else session
        self._given = headers
        self._fixed = self._fixed_headers()
        self._prepared = requests.Request("POST", url).prepare()
        self.pool, self.target = self._pool(limit)
        self._kept: Any = self.pool.pool if self._is_ours else None
        self._is_closed = False

    def _pool(self, limit: int) -> tuple[Any, str]:
        """The connections, and what to ask them for."""
        session = self._session
        # What the session says of certificates counts more than what the environment says.
        said: Any = None if session.verify is True else session.verify
        settings = session.merge_environment_settings(self.url, {}, True, said, None)
        proxies, verify, cert = settings["proxies"], settings["verify"], settings["cert"]
        if (select_proxy(self.url, proxies) or "").startswith("https:"):
            raise ValueError("a proxy is reached by http: or socks:, not by https:")
        adapter: Any = session.get_adapter(self.url)
        _check_retries(getattr(adapter, "max_retries", None))
        self._is_ours = type(adapter) is HTTPAdapter
        if self._is_ours:  # one of the application's own is used as it is
            adapter = _Adapter(pool_connections=1, pool_maxsize=limit)
        pool = adapter.get_connection_with_tls_context(self._prepared, verify, proxies, cert)
        adapter.cert_verify(pool, self.url, verify, cert)
        pool.ConnectionCls = watched(pool.ConnectionCls)
        return pool, adapter.request_url(self._prepared, proxies)

    def target_of(self, url: str) -> str:
        """How another URL of this server is asked for."""
        if not self.target.startswith("/"):  # by a proxy
            return url
        parts = urlsplit(url)
        return (parts.path or "/") + (f"?{parts.query}" if parts.query else "")

    def _fixed_headers(self) -> dict[str, str]:
        """What goes with every request: what the session has, and the application, if it is no function."""
        fixed = {"Accept-Encoding": "identity", "User-Agent": "mcp_ref"}
        usual = requests.utils.default_headers()
        for name, value in self._session.headers.items():
            if name.lower() not in OWN and usual.get(name) != value:
                fixed = merged(fixed, {name: value if isinstance(value, str) else value.decode("latin-1")})
        if self._given is not None and not callable(self._given):
            fixed = merged(fixed, checked(self._given))
        if self._session.trust_env and not _has_authorization(fixed) and self._session.auth is None:
            found = get_netrc_auth(self.url)
            if found is not None:
                fixed |= urllib3.make_headers(basic_auth=":".join(found))
        return fixed

    def headers(self, more: Headers) -> dict[str, str]:
        """All headers of a request: the fixed ones, those of the application, those of the protocol."""
        headers = self._fixed
        if callable(self._given):
            headers = merged(headers, checked(self._given()))
        if self._session.auth is not None and not _has_authorization(headers):
            headers = merged(headers, self._authorized())
        if len(self._session.cookies):
            cookies = _cookies_for(self._session.cookies, self._prepared)
            if cookies is not None:
                headers = merged(headers, {"Cookie": cookies})
        return {**headers, **more}

    def _authorized(self) -> dict[str, str]:
        """What the session's `auth` adds."""
        request = requests.Request("POST", self.url, auth=self._session.auth).prepare()
        return {name: str(value) for name, value in request.headers.items() if name.lower() not in OWN}

    def remember(self, response: Any) -> None:
        """Keep the cookies of an answer: they tell a load balancer where the next request should go."""
        if len(self._session.cookies) < COOKIES:
            _cookies_from(self._session.cookies, self._prepared, response)

    def forked(self) -> None:
        """In a forked child: its copies of the connections that nobody uses are closed."""
        for connection in list(getattr(self.pool.pool, "queue", ())) if self._is_ours else ():
            if getattr(connection, "sock", None) is not None:
                connection.sock.close()  # and not shut down: that would be the parent's as well

    def given_back(self) -> None:
        """A connection was put back among those that are kept. After `close` none is: it is closed.

        urllib3 may put one back a moment after it has closed all that it keeps.
        """
        while self._is_closed:
            try:
                connection = self._kept.get(block=False)
            except queue.Empty:
                return
            if connection is not None:  # as a place is that was never used
                connection.close()

    def close(self) -> None:
        """Let go of the connections, and of the session, if it is no other's."""
        if self._is_ours:
            self._is_closed = True  # before they are: what is put back later sees it
            self.pool.close()
        if self._is_own:
            self._session.close()


def _check_retries(retry: Any) -> None:
    """Raises ValueError for an adapter that would send requests again: a call could be done twice."""

    def may(count: Any) -> bool:
        return count is None or count > 0

    # One that is no urllib3.Retry belongs to an adapter of the application's own making.
    if not isinstance(retry, urllib3.Retry) or not may(retry.total):
        return
    if any(map(may, (retry.connect, retry.read, retry.status, retry.other))):
        raise ValueError(
            f"the adapter of the session retries (max_retries={retry!r}), and a call that is sent again "
            "could be done twice; mount HTTPAdapter() without max_retries, and repeat in your own code "
            "what may be done twice"
        )


def checked(headers: Any) -> dict[str, str]:
    """Headers of the application. Raises TypeError, ValueError, which name the header and not its value."""
    if not isinstance(headers, Mapping):
        raise TypeError(f"headers is a mapping, or a function that returns one, not {type(headers).__name__}")
    for name, value in headers.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise TypeError(f"the header {name!r:.60} is a string, not {type(value).__name__}")
        if _NAME.fullmatch(name) is None:
            raise ValueError(f"{name!r:.60} cannot be the name of a header")
        if _VALUE.fullmatch(value) is None:
            raise ValueError(f"the value of the header {name} holds a character that no header may")
        if name.lower() in OWN or name.lower().startswith("mcp-param-"):
            raise ValueError(f"the header {name} is the transport's own")
    return dict(headers)


def merged(headers: dict[str, str], more: Headers) -> dict[str, str]:
    """Both; of one name, however it is spelled, the later."""
    names = {name.lower() for name in more}
    return {**{name: value for name, value in headers.items() if name.lower() not in names}, **more}


def _has_authorization(headers: Headers) -> bool:
    return any(name.lower() == "authorization" for name in headers)
