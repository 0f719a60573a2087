"""HTTP requests to servers that strangers name: documents and forms, within bounds.

    fetcher = Fetcher()
    fetcher.get("https://auth.example/.well-known/oauth-authorization-server").json()
    fetcher.post("https://auth.example/token", {"grant_type": "refresh_token", ...})

A document of one stranger names the URLs of the next. So each URL is checked before anything is sent:

    scheme      https; http to this machine itself, if loopback addresses are allowed, or with `allow_http`
    address     the addresses of a name are looked up once, and checked (addresses). The connection goes to
                one of those: what the name stands for a moment later does not matter. TLS checks the name.
    redirects   a GET follows a few; each target is checked likewise, and gets no credentials if it is
                another origin. A POST follows none.
    size, time  a body has a limit of size, and the whole fetch a limit of time, however slowly bytes drip in
    number      one at a time

Where the environment names a proxy, the proxy looks names up, and decides which of them may be reached. Then
only an address that stands in the URL itself is checked here.

Errors      FetchError: no answer, or one that is beyond bounds. It has the URL without its query. No status
            is an error here.
Threads     any; a Fetcher has one request under way, others wait for it within their time.
"""

from __future__ import annotations

import http.client
import ipaddress
import re
import socket
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import SplitResult, urlencode, urljoin, urlsplit

import requests
import urllib3
from requests.adapters import HTTPAdapter
from urllib3.exceptions import ConnectTimeoutError, HTTPError, NewConnectionError

from mcp_ref.runtime.errors import LocalError
from mcp_ref.runtime.http_client.addresses import Reach, is_loopback, reach
from mcp_ref.runtime.http_client.exchange import innermost_reason, without_query
from mcp_ref.runtime.http_client.routes import Route
from mcp_ref.runtime.http_client.sockets import Aborted, Expired, Lease, leased_class, leasing
from mcp_ref.runtime.json_text import NotJson, from_json
from mcp_ref.runtime.threads.deadlines import Clock, Deadline, duration
from mcp_ref.runtime.untrusted_text import one_line

__all__ = ["FetchError", "Fetched", "Fetcher", "addresses_of"]

MAX_DOCUMENT_BYTES = 256 << 10
MAX_FETCH_SECONDS = 20.0
"""Seconds for one fetch in all: the wait for the one before it, redirects, and the body."""
MAX_REDIRECTS = 3
MAX_ADDRESSES = 4
"""How many addresses of one name are tried."""
MAX_URL_CHARACTERS = 8000

_URL_CHARACTERS = re.compile(r"[!-~]+")
# (name | "[" IPv6 address "]") [":" port]: what all libraries read alike, unlike `a\b` or `%61`
_SERVER = re.compile(r"(?a:([\w.-]+|\[[\w.:%-]+\])(:\d*)?)")
_FOLLOWED = (301, 302, 303, 307, 308)
_NO_RETRIES = urllib3.Retry(total=False, redirect=False)
_FAILURES = (HTTPError, OSError, ValueError, http.client.HTTPException)
_CREDENTIALS = ("authorization", "dpop", "cookie")
_HEADERS = {"User-Agent": "mcp_ref", "Accept": "application/json", "Accept-Encoding": "identity"}


class FetchError(LocalError):
    """Nothing was fetched; the message says why."""

    def __init__(self, method: str, url: str, fault: str, *, is_for_address: bool = False) -> None:
        self.url = one_line(without_query(url))[:300]
        self.is_for_address = is_for_address
        """Whether no request was sent, since the URL leads to an address that is not allowed."""
        super().__init__(f"{method} {self.url}: {fault}")


@dataclass(frozen=True)
class Fetched:
    """A response that was read to its end."""

    method: str
    url: str
    """The URL that it came from, after redirects."""
    status: int
    headers: Mapping[str, str]
    """By names in lower case."""
    body: bytes

    def __repr__(self) -> str:
        return f"Fetched({self.status}, {one_line(without_query(self.url))!r}, {len(self.body)} bytes)"

    @property
    def media_type(self) -> str:
        """Its Content-Type, without parameters."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    def json(self) -> dict[str, Any]:
        """Return the body as a JSON object. Raises FetchError."""
        try:
            value = from_json(self.body)
        except NotJson as problem:
            raise self.error(f"the answer is no JSON: {problem!s:.200}") from None
        if type(value) is not dict:
            raise self.error("the answer is no JSON object")
        return value

    def error(self, fault: str) -> FetchError:
        """Return an error with the method and the URL of this response."""
        return FetchError(self.method, self.url, fault)


def addresses_of(host: str, port: int) -> list[str]:
    """The IP addresses of a name, as the system finds them. Raises OSError."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(place[0]) for *_, place in found))


class Fetcher:
    """Fetches from the server that a URL names, if its address is of an allowed kind."""

    def __init__(
        self,
        *,
        allowed: Collection[Reach] = (),
        allow_http: bool = False,
        session: requests.Session | None = None,
        seconds: float = MAX_FETCH_SECONDS,
        limit: int = MAX_DOCUMENT_BYTES,
        resolve: Callable[[str, int], Sequence[str]] = addresses_of,
        follows: bool = True,
    ) -> None:
        """`allowed` are kinds of addresses besides public ones. `session` gives proxies, and the certificates
        that are trusted.

        `seconds` limits one fetch, `limit` its body, in bytes. `follows`: whether a GET follows redirects.
        """
        self.allowed = frozenset({Reach.PUBLIC, *allowed}) - {Reach.UNUSABLE}
        self._allows_http = allow_http
        self._session = session
        self._seconds, self._limit = seconds, limit
        self._resolve, self._follows = resolve, follows
        self._lock = threading.Lock()  # one document at a time
        self._lease: Lease | None = None
        self._is_stopped = False

    def stop(self) -> None:
        """End the fetch that is under way, and begin no other. Any thread."""
        self._is_stopped = True
        lease = self._lease
        if lease is not None:
            lease.abort()

    def get(self, url: str, headers: Mapping[str, str] | None = None) -> Fetched:
        """Return the response to a GET. Raises FetchError."""
        return self._fetch("GET", url, headers or {}, None)

    def post(
        self, url: str, form: Mapping[str, str] | bytes, headers: Mapping[str, str] | None = None
    ) -> Fetched:
        """Return the response to a form, or to a body whose type is in `headers`. Raises FetchError."""
        if isinstance(form, bytes):
            return self._fetch("POST", url, headers or {}, form)
        given = {"Content-Type": "application/x-www-form-urlencoded", **(headers or {})}
        return self._fetch("POST", url, given, urlencode(form).encode())

    def check(self, url: str) -> None:
        """Check a URL, without a request. Raises ValueError, which says what is wrong with it."""
        if len(url) > MAX_URL_CHARACTERS or _URL_CHARACTERS.fullmatch(url) is None:
            raise ValueError("it is no URL, or too long for one")
        parts = urlsplit(url)
        if parts.scheme not in ("https", "http"):
            raise ValueError("it is no https URL")
        if not parts.hostname or parts.port == 0:
            raise ValueError("it names no server")
        if "@" in parts.netloc:
            raise ValueError("it has a user name in it")
        if _SERVER.fullmatch(parts.netloc) is None:
            raise ValueError("its server is written in an odd way")
        if parts.scheme == "http" and not self._may_be_http(parts.hostname):
            raise ValueError("it is http, which anybody on the way can read and change, and not https")

    def _may_be_http(self, host: str) -> bool:
        return self._allows_http or (is_loopback(host) and Reach.LOOPBACK in self.allowed)

    # -- one request after another -------------------------------------------------------------------------

    def _fetch(self, method: str, url: str, headers: Mapping[str, str], body: bytes | None) -> Fetched:
        deadline = Deadline(self._seconds, Clock())
        if not self._lock.acquire(timeout=self._seconds):
            raise FetchError(method, url, f"there was no room for it within {duration(self._seconds)}")
        try:
            for _ in range(MAX_REDIRECTS + 1):
                fetched = self._one(method, url, headers, body, deadline)
                moved = fetched.headers.get("location")
                if not (self._follows and method == "GET" and fetched.status in _FOLLOWED and moved):
                    return fetched
                headers = _headers_for(headers, url, urljoin(url, moved))
                url = urljoin(url, moved).partition("#")[0]
        except ValueError as problem:  # of urljoin
            raise FetchError(method, url, f"it redirects to what is no URL: {problem!s:.100}") from None
        finally:
            self._lock.release()
        raise FetchError(method, url, f"more than {MAX_REDIRECTS} redirects lead there")

    def _one(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None, deadline: Deadline
    ) -> Fetched:
        """Send one request, to the first of the addresses that accepts a connection."""
        try:
            self.check(url)
        except ValueError as problem:
            raise FetchError(method, url, f"this URL is not asked: {problem}") from None
        pools = self._pools(method, url)
        while True:
            pool, target = pools.pop(0)
            lease = self._lease = Lease(deadline)
            try:
                with leasing(lease), pool:
                    if self._is_stopped:
                        raise Aborted
                    return self._answer(method, url, pool, target, {**_HEADERS, **headers}, body, lease)
            except (NewConnectionError, ConnectTimeoutError) as problem:
                if not pools or lease.is_late:
                    raise FetchError(method, url, f"no connection: {innermost_reason(problem)}") from None
            except Expired:
                raise FetchError(method, url, f"no answer within {duration(deadline.span)}") from None
            except Aborted:
                raise FetchError(method, url, "the client was closed") from None
            except _FAILURES as problem:
                raise FetchError(method, url, innermost_reason(problem)) from None
            finally:
                self._lease = None

    def _answer(
        self,
        method: str,
        url: str,
        pool: Any,
        target: str,
        headers: Mapping[str, str],
        body: bytes | None,
        lease: Lease,
    ) -> Fetched:
        response = pool.urlopen(
            *(method, target, body, {"Host": urlsplit(url).netloc, **headers}, _NO_RETRIES, False, False),
            timeout=urllib3.Timeout(connect=lease.connect_seconds, read=None),
            preload_content=False,
            decode_content=False,
        )
        try:
            found = b""
            while piece := response.read1(self._limit + 1 - len(found)):
                found += piece
                if len(found) > self._limit:
                    raise FetchError(method, url, f"the answer is longer than {self._limit:,} bytes")
        finally:
            response.close()
            lease.release()
        known = {name.lower(): value for name, value in response.headers.itermerged()}
        return Fetched(method, url, response.status, known, found)

    # -- where to --------------------------------------------------------------------------------------

    def _pools(self, method: str, url: str) -> list[tuple[Any, str]]:
        """A pool of connections for each address, and the request target there. Raises FetchError."""
        adapter: Any = HTTPAdapter(pool_connections=1, pool_maxsize=1)
        try:
            # The client's own certificate would tell strangers who it is.
            route = Route(self._session or requests.Session(), url, with_cert=False)
            if route.has_proxy:
                self._checked(method, url, _literal(url))
                asked = requests.Request(method, url).prepare()
                pools, target = [route.pool(adapter, asked)], adapter.request_url(asked, route.proxies)
            else:
                to = urlsplit(url)
                pools = [route.certified(adapter, _pool(to, a)) for a in self._addresses(method, url)]
                target = _target(to)
        except FetchError:
            raise
        except (LocalError, ValueError) as problem:
            raise FetchError(method, url, str(problem)) from None
        for pool in pools:
            pool.ConnectionCls = leased_class(pool.ConnectionCls)
        return [(pool, target) for pool in pools]

    def _addresses(self, method: str, url: str) -> list[str]:
        """Look up the name in a URL. Returns its allowed addresses. Raises FetchError."""
        parts = urlsplit(url)
        try:
            found = self._resolve(parts.hostname or "", _port(parts))
        except (OSError, UnicodeError) as problem:
            raise FetchError(method, url, f"its name leads nowhere: {innermost_reason(problem)}") from None
        return self._checked(method, url, found)[:MAX_ADDRESSES]

    def _checked(self, method: str, url: str, found: Sequence[str]) -> list[str]:
        """Return the addresses of an allowed kind. Raises FetchError if all are of another."""
        kinds = {address: reach(address) for address in found}
        good = [address for address, kind in kinds.items() if kind in self.allowed]
        if kinds and not good:
            what = next(iter(kinds.values())).value
            fault = f"it leads to {what}, where this client goes for no stranger"
            raise FetchError(method, url, fault, is_for_address=True)
        return good


def _literal(url: str) -> list[str]:
    """The IP address that a URL has in place of a name, as a list; [] if it has a name."""
    host = urlsplit(url).hostname or ""
    try:
        ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return []
    return [host]


def _target(parts: SplitResult) -> str:
    return (parts.path or "/") + (f"?{parts.query}" if parts.query else "")


def _port(parts: SplitResult) -> int:
    return parts.port or {"http": 80, "https": 443}[parts.scheme]


def _pool(parts: SplitResult, address: str) -> Any:
    """A pool of connections to one address of a server. TLS checks the certificate for the server's name."""
    if parts.scheme == "http":
        return urllib3.HTTPConnectionPool(address, _port(parts), maxsize=1)
    return urllib3.HTTPSConnectionPool(address, _port(parts), maxsize=1, server_hostname=parts.hostname)


def _headers_for(headers: Mapping[str, str], url: str, moved: str) -> Mapping[str, str]:
    """The headers for the target of a redirect: no credentials go to another origin."""
    here, there = urlsplit(url), urlsplit(moved)
    if (here.scheme, here.netloc) == (there.scheme, there.netloc):
        return headers
    return {name: value for name, value in headers.items() if name.lower() not in _CREDENTIALS}
