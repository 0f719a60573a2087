"""One HTTP exchange: a request goes out, its response comes in, and any thread may end it.

It uses the urllib3 pool beneath a `requests.Session` directly, at half the cost of the session. A request
that the server may have acted on is sent again only if the caller allows it. Nothing is sent to another
server than that of the URL.

Errors      ConnectionClosed, which says how far the exchange came; TooLong for a body; Aborted and Expired of
            runtime/http_client/sockets. None of them repeats the value of a header.
Threads     an exchange is run by one thread at a time; any thread may call `abort`.
"""

from __future__ import annotations

import contextlib
import http.client
import io
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

import urllib3
from urllib3.exceptions import ConnectTimeoutError, HTTPError, NewConnectionError, ProxyError, SSLError

from mcp_ref.runtime.errors import ConnectionClosed, NotReached
from mcp_ref.runtime.http_client.authorizing import MAX_AUTHORIZATIONS, REFUSALS, Authorizer, Refusal
from mcp_ref.runtime.http_client.settings import Headers, check_headers, merge_headers
from mcp_ref.runtime.http_client.sockets import Aborted, Expired, Lease, leasing
from mcp_ref.runtime.threads.deadlines import Clock, Deadline
from mcp_ref.runtime.untrusted_text import one_line

if TYPE_CHECKING:
    from mcp_ref.runtime.http_client.client import HttpClient

__all__ = ["HttpExchange", "TooLong", "innermost_reason", "without_query"]

MAX_DRAINED_BYTES = 65536
"""An unread rest of a body up to this size is read, so that its connection can be used again."""
MAX_DRAIN_SECONDS = 1.0
"""Seconds for reading such a rest."""
REPEATABLE_REDIRECTS = {"GET": (301, 302, 303, 307, 308), "POST": (307, 308)}
"""Statuses after which the same method and body are sent to another target (RFC 9110, section 15.4)."""

_BODY_HEADERS = ("content-length", "transfer-encoding", "content-encoding")
_NO_RETRIES = urllib3.Retry(total=False, redirect=False)
_READ_ERRORS = (HTTPError, OSError, ValueError, http.client.HTTPException)


class TooLong(Exception):
    """A body is longer than the caller allows."""


class HttpExchange(Lease):
    """One request and its response. Use it in a `with`, which gives its connection and its slot back."""

    def __init__(
        self,
        client: HttpClient,
        deadline: Deadline | None,
        *,
        last: bool = False,
        urgent: bool = False,
        read_timeout: float | None = None,
    ) -> None:
        super().__init__(deadline, read_timeout)
        self._client = client
        self._is_last, self._is_urgent = last, urgent
        self._response: Any = None
        self.sent: tuple[str, Headers] = ("", {})
        """Target and headers of the last request. The target is the client's own, or where a redirect led."""
        self.status = 0

    def abort(self) -> None:
        """End the exchange: a thread that waits in it gets Aborted. Any thread, any number of times."""
        super().abort()
        self._client.wake()

    def pause(self, seconds: float) -> None:
        """Wait before the exchange begins, within its deadline. Raises Aborted, Expired."""
        self._client.pause(self, seconds)

    def send(
        self,
        method: str,
        headers: Headers,
        body: bytes | None = None,
        target: str | None = None,
        *,
        repeats: bool = False,
    ) -> None:
        """Send the request, and wait for the head of the response.

        If the client has an authorizer, a request that is refused is sent again with new credentials for as
        long as the authorizer says so, MAX_AUTHORIZATIONS times at most.

        `target` is the request target, if not that of the client's URL. One redirect within the server is
        followed, if its status repeats method and body. `repeats` says that the request may be done twice: it
        is sent again if a kept-alive connection ended before any answer. Raises ConnectionClosed, Aborted,
        Expired, and what the authorizer raises; the exchange is closed then.
        """
        settings = self._client.settings
        self._client.enter(self, is_urgent=self._is_urgent, is_last=self._is_last)
        try:
            headers = settings.headers(headers)
            self._client.tell(">", body)
            go = self._send if self._client.auth is None else self._send_authorized
            go(method, target or settings.target, headers, body, repeats=repeats)
            moved = self._redirect_target() if self.status in REPEATABLE_REDIRECTS.get(method, ()) else None
            if moved is not None:
                if self.status == 308 and target is None:  # Permanent Redirect
                    settings.target = moved
                self._give_back()
                go(method, moved, headers, body)
        except BaseException:
            self.close()
            raise

    def _send(
        self, method: str, target: str, headers: Headers, body: bytes | None, *, repeats: bool = False
    ) -> None:
        self.sent = target, headers
        if self.is_late:
            raise Expired
        settings = self._client.settings
        signed = headers
        if settings.session.auth is not None:
            signed = settings.signed(method, self._url, headers, body)
            self.sent = target, signed
        try:
            with leasing(self):
                self._response = settings.pool.urlopen(
                    *(method, target, body, signed, _NO_RETRIES, False, False),
                    timeout=urllib3.Timeout(connect=self.connect_seconds, read=None),
                    preload_content=False,
                )
        except (HTTPError, OSError, http.client.HTTPException) as problem:
            error = self._error_for(problem)
            # A server may have closed a kept-alive connection for its age, without reading the request.
            is_stale = not self.is_new_connection and not self.has_received
            if not (repeats and is_stale and isinstance(error, ConnectionClosed)):
                raise error from None
            self._send(method, target, headers, body)  # which has it signed anew
        self.status = self._response.status
        if "set-cookie" in self._response.headers:
            settings.add_cookies(self._response)

    def _send_authorized(
        self, method: str, target: str, headers: Headers, body: bytes | None, *, repeats: bool = False
    ) -> None:
        """Send with the headers of the authorizer; again, with new ones, while it says so."""
        auth = cast("Authorizer", self._client.auth)
        for refusals in range(MAX_AUTHORIZATIONS + 1):
            self.sent = target, headers
            right = check_headers(auth.headers(method, self._url))
            self._send(method, target, merge_headers(dict(headers), right), body, repeats=repeats)
            if self.status not in REFUSALS:
                auth.accepted(self.header("dpop-nonce"))
                return
            if refusals == MAX_AUTHORIZATIONS or not self._is_to_be_repeated(auth, right):
                return

    def _is_to_be_repeated(self, auth: Authorizer, sent: Headers) -> bool:
        """Tell the authorizer of a refusal. Returns whether to send the request once more."""
        challenge, nonce = self.header("www-authenticate"), self.header("dpop-nonce")
        refusal = Refusal(self.status, challenge, nonce, sent, self.peer)
        self._keep_response()
        if not auth.refused(refusal, self.deadline):
            return False
        self._response, self.has_received = None, False
        return True

    def _keep_response(self) -> None:
        """Read the response now, and give the connection back: a person may need minutes for what follows.

        Of a long body only the beginning is kept.
        """
        head, body = self._response, b""
        with contextlib.suppress(ConnectionClosed):
            while len(body) < MAX_DRAINED_BYTES and (piece := self.read1(MAX_DRAINED_BYTES - len(body))):
                body += piece
        self._give_back()
        headers = {n: v for n, v in head.headers.itermerged() if n.lower() not in _BODY_HEADERS}
        self._response = urllib3.HTTPResponse(
            io.BytesIO(body), headers=headers, status=head.status, preload_content=False
        )

    def _error_for(self, problem: Exception) -> Exception:
        """The error for a failure in urllib3: it says how far the exchange came, and shows no header."""
        if self.is_aborted:
            return Aborted()
        if self.is_late:
            return Expired()
        server, reason = self._client.settings.server, innermost_reason(problem)
        if _is_of_connecting(problem, is_connected=self.is_new_connection is not None):
            # Else the request was sent before, on a kept-alive connection that ended: the server may have
            # read it there.
            kind = NotReached if self.is_new_connection is None else ConnectionClosed
            by_tls = ", by TLS" if isinstance(problem, SSLError) else ""
            return kind(f"no connection to {server}{by_tls}: {reason}")
        if self._response is not None:
            return ConnectionClosed(f"{server} closed the connection within its answer: {reason}")
        if self.has_received:
            return ConnectionClosed(f"what {server} answered is no HTTP: {reason}")
        return ConnectionClosed(f"{server} closed the connection before it answered: {reason}")

    @property
    def _url(self) -> str:
        """The URL of the last request."""
        url = self.sent[0] or self._client.settings.url
        if url.startswith("/"):  # else it is a whole URL, as a proxy gets it
            here = urlsplit(self._client.settings.url)
            url = f"{here.scheme}://{here.netloc}{url}"
        return url

    @property
    def shown_url(self) -> str:
        """The URL of the last request, as error messages show it."""
        return one_line(without_query(self._url))

    def header(self, name: str) -> str | None:
        value: str | None = self._response.headers.get(name)
        return value

    @property
    def media_type(self) -> str:
        """The Content-Type of the response, without parameters."""
        return (self.header("content-type") or "").partition(";")[0].strip().lower()

    def read(self, limit: int) -> bytes:
        """Return the whole body, up to `limit` bytes. Raises TooLong, ConnectionClosed, Aborted, Expired."""
        length = self._response.length_remaining
        if length is not None and length > limit:
            raise TooLong
        parts, size = [], 0
        while piece := self.read1(limit + 1 - size):
            parts.append(piece)
            size += len(piece)
            if size > limit:
                raise TooLong
        body = parts[0] if len(parts) == 1 else b"".join(parts)
        self._client.tell("<", body)
        return body

    def read1(self, most: int) -> bytes:
        """Return some bytes of the body as soon as there are any; b"" at its end."""
        try:
            data: bytes = self._response.read1(most)
        except _READ_ERRORS as problem:
            raise self._error_for(problem) from None
        return data

    def is_end_buffered(self) -> bool:
        """Whether the end of the response has arrived, and nothing is left to read before it."""
        return self.response is None or self.response.is_end_buffered()

    def _redirect_target(self) -> str | None:
        """The target of a redirect; None if it is on another server, no URL, or the client's own."""
        settings = self._client.settings
        moved = settings.target_of(self.header("location") or "")
        return None if moved == settings.target_of("") else moved

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
        self._give_back()
        self._client.leave(self)

    def _give_back(self) -> None:
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
        self.release()
        self.is_new_connection = None  # for the next request: it was not sent yet
        self._client.settings.connection_returned()

    def _read_rest(self, response: Any) -> None:
        """Read to the end of a response, for MAX_DRAIN_SECONDS at most."""
        deadline, self.deadline = self.deadline, Deadline(MAX_DRAIN_SECONDS, Clock())
        try:
            while response.read1(MAX_DRAINED_BYTES):
                pass
        except (Aborted, Expired, *_READ_ERRORS):
            pass
        finally:
            self.deadline = deadline


def _is_of_connecting(problem: Exception, *, is_connected: bool) -> bool:
    """Whether no connection could be made, to the server or to the proxy before it."""
    cause = problem.original_error if isinstance(problem, ProxyError) else problem
    if isinstance(cause, NewConnectionError | ConnectTimeoutError):
        return True
    # These two may also mean a connection that was made, and ended.
    return not is_connected and isinstance(problem, SSLError | ProxyError)


def without_query(url: str) -> str:
    """A URL without the parts that may hold a secret: user, query and fragment; "" if it is no URL."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return ""
    # Without slashes before it, as in `http:me:secret@a/`, the host is read as a part of the path.
    path = parts.path.rpartition("@")[2] if parts.scheme and not parts.netloc else parts.path
    host = parts.netloc.rpartition("@")[2]
    return parts._replace(netloc=host, path=path, query="", fragment="").geturl()


def innermost_reason(problem: BaseException) -> str:
    """The reason inside the exceptions of urllib3, short and on one line, since it may quote the server."""
    for _ in range(5):
        inner = problem.__cause__ or next((a for a in problem.args if isinstance(a, BaseException)), None)
        if inner is None:
            break
        problem = inner
    return one_line(str(problem).strip()[:200]) or type(problem).__name__
