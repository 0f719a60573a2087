"""One HTTP exchange: a request goes out, its response comes in, and any thread may end it.

It uses the pool of urllib3 beneath a session of requests directly, at half the cost of the session. Nothing
is sent twice in here, and nothing to another server than that of the URL.

Errors      ConnectionClosed, which says how far the exchange came; TooLong for a body; Aborted and Expired of
            runtime/http_client/sockets. None of them repeats the value of a header.
Threads     an exchange is run by one thread at a time; `abort` is for any.
"""

from __future__ import annotations

import http.client
from typing import Any
from urllib.parse import urljoin, urlsplit

import urllib3
from urllib3.exceptions import ConnectTimeoutError, HTTPError, NewConnectionError, SSLError

from mcp_ref.runtime.errors import ConnectionClosed
from mcp_ref.runtime.http_client.settings import Headers, Settings
from mcp_ref.runtime.http_client.slots import Slots
from mcp_ref.runtime.http_client.sockets import Aborted, Expired, Lease, leasing
from mcp_ref.runtime.threads.deadlines import Clock, Deadline
from mcp_ref.runtime.untrusted_text import one_line

__all__ = ["HttpExchange", "TooLong", "without_query"]

MAX_DRAINED_BYTES = 65536
"""An unread body up to this size is read rather than its connection closed."""
MAX_DRAIN_SECONDS = 1.0
"""Time for the rest of a body that is read for the sake of its connection."""
REPEATABLE_REDIRECTS = {"GET": (301, 302, 303, 307, 308), "POST": (307, 308)}
"""Statuses after which the same method and body are sent to another target (RFC 9110, section 15.4)."""

_NO_RETRIES = urllib3.Retry(total=False, redirect=False)
_READ_ERRORS = (HTTPError, OSError, ValueError, http.client.HTTPException)


class TooLong(Exception):
    """A body is longer than the caller allows."""


class HttpExchange:
    """One request and its response. Use it in a `with`, which gives its connection back."""

    def __init__(
        self,
        settings: Settings,
        slots: Slots,
        deadline: Deadline | None,
        *,
        last: bool = False,
        urgent: bool = False,
        read_timeout: float | None = None,
    ) -> None:
        self._settings = settings
        self._slots = slots
        self._is_last, self._is_urgent = last, urgent
        self._lease = Lease(deadline, read_timeout)
        self._response: Any = None
        self._target = ""  # of the last request: the client's own, or where a redirect led
        self.status = 0

    @property
    def failed_on_stale_connection(self) -> bool:
        """Whether a kept-alive connection ended before a byte of the response.

        The server may have closed it for its age, and not have read the request.
        """
        return not self._lease.is_new_connection and not self._lease.has_received

    @property
    def is_aborted(self) -> bool:
        return self._lease.is_aborted

    def abort(self) -> None:
        """End the exchange: a thread that waits in it gets Aborted. Any thread, any number of times."""
        self._lease.abort()
        self._slots.wake()

    @property
    def has_deadline(self) -> bool:
        """Whether the exchange ends at some time even if the server keeps sending."""
        return self._lease.deadline is not None

    def set_read_timeout(self, seconds: float) -> None:
        """From now on so many seconds may pass without a byte; then the exchange is Expired."""
        self._lease.read_timeout = seconds

    def pause(self, seconds: float) -> None:
        """Wait before the exchange begins, within its deadline. Raises Aborted, Expired."""
        self._slots.pause(self._lease, seconds)

    def send(
        self, method: str, headers: Headers, body: bytes | None = None, target: str | None = None
    ) -> None:
        """Send the request, and wait for the head of the response.

        `target` is the request target, if not that of the client's URL. A redirect within the server is
        followed, once, if it repeats the request. Raises ConnectionClosed, Aborted, Expired.
        """
        settings = self._settings
        self._slots.enter(self._lease, is_urgent=self._is_urgent, is_last=self._is_last)
        headers = settings.headers(headers)
        self._send(method, target or settings.target, headers, body)
        moved = self._redirect_target() if self.status in REPEATABLE_REDIRECTS.get(method, ()) else None
        if moved is not None:
            if self.status == 308 and target is None:  # Permanent Redirect
                settings.target = moved
            self._release()
            self._send(method, moved, headers, body)

    def _send(self, method: str, target: str, headers: Headers, body: bytes | None) -> None:
        self._target = target
        if self._lease.is_late:
            raise Expired
        try:
            with leasing(self._lease):
                self._response = self._settings.pool.urlopen(
                    *(method, target, body, headers, _NO_RETRIES, False, False),
                    timeout=urllib3.Timeout(connect=self._lease.connect_seconds, read=None),
                    preload_content=False,
                )
        except (HTTPError, OSError, http.client.HTTPException) as problem:
            raise self._error_for(problem) from None
        self.status = self._response.status
        if "set-cookie" in self._response.headers:
            self._settings.add_cookies(self._response)

    def _error_for(self, problem: Exception) -> Exception:
        """The error for a failure beneath, with how far the exchange came; without the values of headers."""
        if self.is_aborted:
            return Aborted()
        if self._lease.is_late:
            return Expired()
        server, reason = self._settings.server, _innermost_reason(problem)
        if isinstance(problem, NewConnectionError | ConnectTimeoutError):
            return ConnectionClosed(f"no connection to {server}: {reason}")
        if isinstance(problem, SSLError):
            return ConnectionClosed(f"no connection to {server}, by TLS: {reason}")
        if self._response is not None:
            return ConnectionClosed(f"{server} closed the connection within its answer: {reason}")
        if self._lease.has_received:
            return ConnectionClosed(f"what {server} answered is no HTTP: {reason}")
        return ConnectionClosed(f"{server} closed the connection before it answered: {reason}")

    @property
    def shown_url(self) -> str:
        """The URL of the last request, as error messages show it."""
        url = self._target or self._settings.url
        if url.startswith("/"):  # and not a whole URL, which a proxy gets
            here = urlsplit(self._settings.url)
            url = f"{here.scheme}://{here.netloc}{url}"
        return one_line(without_query(url))

    def header(self, name: str) -> str | None:
        value: str | None = self._response.headers.get(name)
        return value

    @property
    def media_type(self) -> str:
        """The Content-Type of the response, without parameters."""
        return (self.header("content-type") or "").partition(";")[0].strip().lower()

    def read(self, limit: int) -> bytes:
        """The whole body. Raises TooLong, ConnectionClosed, Aborted, Expired."""
        length = self._response.length_remaining
        if length is not None and length > limit:
            raise TooLong
        parts, size = [], 0
        while piece := self.read1(limit + 1 - size):
            parts.append(piece)
            size += len(piece)
            if size > limit:
                raise TooLong
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def read1(self, most: int) -> bytes:
        """Some bytes of the body as soon as there are any; b"" at its end."""
        try:
            data: bytes = self._response.read1(most)
        except _READ_ERRORS as problem:
            raise self._error_for(problem) from None
        return data

    def is_end_buffered(self) -> bool:
        """Whether the end of the response has arrived, and nothing is left to read before it."""
        return self._lease.response is None or self._lease.response.is_end_buffered()

    def _redirect_target(self) -> str | None:
        """The target to which a redirect leads; None if that is another server, or no URL."""
        here = self._settings.url
        try:
            there = urljoin(here, self.header("location") or "")
            is_inside = there != here and _origin(there) == _origin(here)
        except ValueError:
            return None
        return self._settings.target_of(there) if is_inside else None

    def drain(self) -> None:
        """Read on for a moment: if the end comes, the connection can be used again. Closes the exchange."""
        if self._response is not None:
            self._read_rest(self._response)
        self.close()

    def __enter__(self) -> HttpExchange:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the connection and the slot back."""
        self._release()
        self._slots.leave(self._lease)

    def _release(self) -> None:
        """Give the connection back, if the end of the response is near; otherwise close it."""
        response, self._response = self._response, None
        if response is None:
            return
        if not response.isclosed():
            length = response.length_remaining
            if (length is not None and length <= MAX_DRAINED_BYTES) or self.is_end_buffered():
                self._read_rest(response)
        if not response.isclosed():
            response.close()
        response.release_conn()
        self._lease.release()
        self._settings.connection_returned()

    def _read_rest(self, response: Any) -> None:
        """Read to the end of a response, for a moment at most."""
        deadline, self._lease.deadline = self._lease.deadline, Deadline(MAX_DRAIN_SECONDS, Clock())
        try:
            while response.read1(MAX_DRAINED_BYTES):
                pass
        except (Aborted, Expired, *_READ_ERRORS):
            pass
        finally:
            self._lease.deadline = deadline


def without_query(url: str) -> str:
    """A URL without the parts that may hold a secret: user, query and fragment; "" if it is no URL."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return ""
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or {"http": 80, "https": 443}.get(parts.scheme)


def _innermost_reason(problem: BaseException) -> str:
    """The reason beneath what urllib3 wraps around it, short and on one line: it may quote the server."""
    for _ in range(5):
        inner = problem.__cause__ or next((a for a in problem.args if isinstance(a, BaseException)), None)
        if inner is None:
            break
        problem = inner
    return one_line(str(problem).strip()[:200]) or type(problem).__name__
