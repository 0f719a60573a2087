"""HTTP exchanges with one server: a request goes out, its answer comes in, and any thread may end it.

    exchange = exchanges.new(deadline)
    with exchange:
        exchange.send("POST", headers, body)        until the head of the answer is there
        exchange.status, exchange.header("...")
        exchange.read(limit)                        the whole body, or
        exchange.read1(n)                           what there is of it

What the connections are like, and what goes with each request, is in runtime/http_client/settings; the
exchanges
themselves use the pool of urllib3 beneath a session of requests, which costs half. Nothing is sent twice in
here, and nothing to another server than the one of the URL.

Bounded: `limit` exchanges at once, open streams among them; more wait as long as their deadlines allow. For
what is urgent, such as the answers that calls under way may depend on, there are some more.

Errors      ConnectionClosed, which says how far it came; TooLong for a body; Aborted and Expired of
            runtime/http_client/sockets. None of them tells a header's value.
Threads     an exchange is run by one thread at a time; `abort` is for any. `_changed` guards who is under
            way and is never held while anything is waited for but itself.
"""

from __future__ import annotations

import http.client
import threading
from collections.abc import Callable
from typing import Any
from urllib.parse import urljoin, urlsplit

import requests
import urllib3
from urllib3.exceptions import ConnectTimeoutError, HTTPError, NewConnectionError, SSLError

from mcp_ref.runtime.errors import ConnectionClosed
from mcp_ref.runtime.http_client.settings import Headers, Settings
from mcp_ref.runtime.http_client.sockets import Aborted, Expired, Hold, Holding
from mcp_ref.runtime.threads import forks
from mcp_ref.runtime.threads.deadlines import Clock, Deadline
from mcp_ref.runtime.untrusted_text import one_line

__all__ = ["Exchanges", "HttpExchange", "TooLong"]

SMALL = 65536
"""Bytes of an unread body that are rather read than a connection closed."""

MOVED = {"GET": (301, 302, 303, 307, 308), "POST": (307, 308)}
"""Redirects that have the same sent once more."""

SPARE = 16
"""Exchanges beyond the limit for those that are urgent."""

SOON = 1.0
"""Seconds in which a stream is expected to end, once all is said."""

_NO_RETRIES = urllib3.Retry(total=False, redirect=False)


class TooLong(Exception):
    """A body is longer than was allowed."""


class HttpExchange:
    """One request and its answer. Use it in a `with`, which gives back its connection."""

    def __init__(
        self,
        owner: Exchanges,
        deadline: Deadline | None,
        *,
        last: bool = False,
        urgent: bool = False,
        silence: float | None = None,
    ) -> None:
        self._owner = owner
        self.is_last, self.is_urgent = last, urgent
        self._hold = Hold(deadline, silence)
        self._response: Any = None
        # The target that was asked last: the client's own, or another of the server, where that moved.
        self._asked = ""
        self.status = 0

    @property
    def was_lost_unheard(self) -> bool:
        """Whether a connection that was used before ended before a byte of the answer: it may have been
        closed for its age, and the request not even have been read."""
        return not self._hold.is_fresh and not self._hold.was_heard

    @property
    def is_aborted(self) -> bool:
        """Whether `abort` was called."""
        return self._hold.is_aborted

    def abort(self) -> None:
        """End it; whoever waits for its answer gets Aborted. Any thread, any number of times."""
        self._hold.abort()
        self._owner.wake()

    @property
    def has_no_end(self) -> bool:
        """Whether there is no deadline."""
        return self._hold.deadline is None

    def expect(self, silence: float) -> None:
        """From now on so many seconds without a byte are too many: then it is Expired."""
        self._hold.silence = silence

    def pause(self, seconds: float) -> None:
        """Wait before it begins, within the deadline. Raises Aborted, Expired."""
        self._owner.wait_for(self, lambda: self._hold.pause(seconds))

    def send(
        self, method: str, headers: Headers, body: bytes | None = None, target: str | None = None
    ) -> None:
        """Send the request and wait for the head of its answer.

        `target` is what to ask the server for, if not for its URL. A redirect within the server is followed,
        once, if it is one that has the same sent again. Raises ConnectionClosed, Aborted, Expired.
        """
        settings = self._owner.settings
        self._owner.enter(self)
        headers = settings.headers(headers)
        self._send(method, target or settings.target, headers, body)
        if self.status in MOVED.get(method, ()):
            moved = self.location()
            if moved is not None:
                if self.status == 308 and target is None:
                    settings.target = moved
                self._let_go()
                self._send(method, moved, headers, body)

    def _send(self, method: str, target: str, headers: Headers, body: bytes | None) -> None:
        settings, deadline = self._owner.settings, self._hold.deadline
        self._asked = target
        if deadline is not None and deadline.left() <= 0:
            raise Expired
        connecting = urllib3.Timeout(connect=self._hold.connecting, read=None)
        try:
            with Holding(self._hold):
                self._response = settings.pool.urlopen(
                    *(method, target, body, headers, _NO_RETRIES, False, False),
                    timeout=connecting,
                    preload_content=False,
                )
        except (HTTPError, OSError, http.client.HTTPException) as problem:
            raise self._said(problem) from None
        self.status = self._response.status
        if "set-cookie" in self._response.headers:
            settings.remember(self._response)

    def _said(self, problem: Exception) -> Exception:
        """What went wrong, in words, and no more of it than may be told."""
        if self.is_aborted:
            return Aborted()
        deadline = self._hold.deadline
        if deadline is not None and deadline.left() <= 0:
            return Expired()
        server = self._owner.settings.server
        if isinstance(problem, NewConnectionError | ConnectTimeoutError):
            reason = _reason(problem)
            return ConnectionClosed(f"no connection to {server}: {reason}")
        if isinstance(problem, SSLError):
            return ConnectionClosed(f"no connection to {server}, by TLS: {_reason(problem)}")
        if self._response is not None:
            return ConnectionClosed(f"{server} closed the connection within its answer: {_reason(problem)}")
        if self._hold.was_heard:
            return ConnectionClosed(f"what {server} answered is no HTTP: {_reason(problem)}")
        return ConnectionClosed(f"{server} closed the connection before it answered: {_reason(problem)}")

    @property
    def shown_url(self) -> str:
        """The URL that was asked, as errors tell it."""
        url = self._asked or self._owner.url
        if url.startswith("/"):  # not by a proxy
            here = urlsplit(self._owner.url)
            url = f"{here.scheme}://{here.netloc}{url}"
        return one_line(without_query(url))

    def header(self, name: str) -> str | None:
        """A header of the answer."""
        value: str | None = self._response.headers.get(name)
        return value

    @property
    def media_type(self) -> str:
        """Of the body, without its parameters."""
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
        """Some bytes of the body as soon as there are any; none at its end."""
        try:
            data: bytes = self._response.read1(most)
        except (HTTPError, OSError, ValueError, http.client.HTTPException) as problem:
            raise self._said(problem) from None
        return data

    def ends_now(self) -> bool:
        """Whether the rest of the answer is here, and nothing more than its end."""
        return self._hold.answer is None or self._hold.answer.ends_now()

    def location(self) -> str | None:
        """Where a redirect leads, as a target, if it is within the same server."""
        here = self._owner.url
        try:
            there = urljoin(here, self.header("location") or "")
            inside = there != here and _origin(there) == _origin(here)
        except ValueError:  # it is no URL
            return None
        return self._owner.target_of(there) if inside else None

    def drain(self) -> None:
        """Read on for a while, so that the connection can be used again if the answer ends soon; close."""
        self._hold.deadline = Deadline(SOON, Clock())
        try:
            while self.read1(SMALL):
                pass
        except (ConnectionClosed, Aborted, Expired):
            pass
        self.close()

    def __enter__(self) -> HttpExchange:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Give back the connection. It is closed if there is more to read."""
        self._let_go()
        self._owner.leave(self)

    def _let_go(self) -> None:
        """Of the connection: read to the end, if that is here or sure to come; else it is closed."""
        response, self._response = self._response, None
        if response is None:
            return
        length, deadline = response.length_remaining, self._hold.deadline
        try:
            if not response.isclosed() and (self.ends_now() or (length is not None and length <= SMALL)):
                self._hold.deadline = Deadline(SOON, Clock())
                while response.read1(SMALL):
                    pass
        except (Aborted, Expired, HTTPError, OSError, http.client.HTTPException):
            pass
        finally:
            self._hold.deadline = deadline
        if not response.isclosed():
            response.close()
        response.release_conn()
        self._hold.leave()
        self._owner.settings.given_back()


class Exchanges:
    """All exchanges of one client with its server."""

    def __init__(
        self,
        url: str,
        *,
        session: requests.Session | None = None,
        headers: Headers | Callable[[], Headers] | None = None,
        limit: int = 64,
    ) -> None:
        """`headers` go with each request; a function that gives them is called each time."""
        self.url = url
        self.limit = limit
        self.settings = Settings(url, session, headers, limit + SPARE)
        self._changed = threading.Condition()
        self._under_way: set[HttpExchange] = set()  # guarded by _changed
        self._pausing: set[HttpExchange] = set()  # guarded by _changed
        self._stopped = False
        forks.tell(self)

    def forked(self) -> None:
        """In a forked child: all exchanges are the parent's, and none begins here."""
        self._changed = threading.Condition()
        self._stopped = True
        for exchange in (*self._under_way, *self._pausing):
            exchange._hold.forked()
        self._under_way.clear()
        self._pausing.clear()
        self.settings.forked()

    def target_of(self, url: str) -> str:
        """How another URL of this server is asked for."""
        return self.settings.target_of(url)

    def new(self, deadline: Deadline | None, **options: Any) -> HttpExchange:
        """An exchange that has not begun.

        After `stop` only the `last` may. One that is `urgent` needs less room: it may be what others wait
        for. `silence` is how many seconds without a byte are too many.
        """
        return HttpExchange(self, deadline, **options)

    def enter(self, exchange: HttpExchange) -> None:
        """Wait until there is room for one more. Raises Aborted, Expired."""
        deadline = exchange._hold.deadline
        room = self.limit + SPARE if exchange.is_urgent or exchange.is_last else self.limit
        with self._changed:
            while len(self._under_way) >= room and not self._stopped and not exchange.is_aborted:
                pause = 1.0 if deadline is None else deadline.pause()
                if not self._changed.wait(min(1.0, pause)) and deadline is not None and deadline.left() <= 0:
                    raise Expired
            if (self._stopped and not exchange.is_last) or exchange.is_aborted:
                raise Aborted
            self._under_way.add(exchange)

    def wait_for(self, exchange: HttpExchange, pause: Callable[[], None]) -> None:
        """Have an exchange wait for something else than room. Raises Aborted, and what `pause` does."""
        with self._changed:
            if self._stopped:
                raise Aborted
            self._pausing.add(exchange)
        try:
            pause()
        finally:
            with self._changed:
                self._pausing.discard(exchange)

    def wake(self) -> None:
        """Have those who wait in `enter` look again."""
        with self._changed:
            self._changed.notify_all()

    def leave(self, exchange: HttpExchange) -> None:
        """There is room for another."""
        with self._changed:
            self._under_way.discard(exchange)
            self._changed.notify_all()

    def stop(self) -> None:
        """End all that are under way, and begin none but a last one."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
            all_of_them = [*self._under_way, *self._pausing]
        for exchange in all_of_them:
            exchange.abort()

    def close(self) -> None:
        """End all, and let go of the connections."""
        self.stop()
        self.settings.close()


def without_query(url: str) -> str:
    """A URL without what may be secret in it; "" for what is no URL."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return ""
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or {"http": 80, "https": 443}.get(parts.scheme)


def _reason(problem: BaseException) -> str:
    """The innermost reason, in a few words on one line: it may quote what the server sent."""
    for _ in range(5):
        inner = problem.__cause__ or next((a for a in problem.args if isinstance(a, BaseException)), None)
        if inner is None:
            break
        problem = inner
    return one_line(str(problem).strip()[:200]) or type(problem).__name__
