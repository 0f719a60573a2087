"""The socket under one HTTP exchange: read with a deadline, and ended from any thread.

urllib3 has one time limit for reading, between two bytes: a server that sends a byte now and then is waited
for without end. And nothing in it ends a read in which another thread waits. So an exchange leases its
socket, at the places that urllib3 and http.client offer for it:

    pool.ConnectionCls           `leased_class` of what it was: tells the lease which socket it has
    connection.response_class    `_Response`: reads through `_ResponseReader`
    _ResponseReader              reads, and waits for as long as the deadline of the lease allows

http.client keeps the socket to itself, and urllib3 makes the connection deep inside `urlopen`: no argument
leads there. So a thread-local variable holds the lease while its thread sends. It is ugly that classes of
both libraries are subclassed; an HTTP/1.1 client of our own would be longer, and would lack their proxies and
TLS settings.

The head of a request and its body go out in one write.

Errors      Aborted, Expired: not of a kind that urllib3 converts, so they pass through it.
Threads     a lease belongs to one thread at a time; any thread may call `abort`. `_lock` of a Lease is held
            while its socket is shut down: otherwise the socket could meanwhile belong to the next exchange.
"""

from __future__ import annotations

import functools
import http.client
import io
import ipaddress
import math
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, cast

from mcp_ref.runtime.threads.deadlines import Clock, Deadline

__all__ = ["Aborted", "Expired", "Lease", "leased_class", "leasing"]

MAX_CONNECT_SECONDS = 10.0
"""Seconds to connect, for all addresses of the server together."""
MIN_TIMEOUT_SECONDS = 0.01
"""The shortest time-out of a socket, in seconds: to a socket, 0 means "do not wait at all"."""
MAX_HEADS = 10
"""The most heads of one response: its own, and informational ones before it (RFC 9110, section 15.2)."""


ENDLESS = Deadline(math.inf, Clock())
"""The deadline of an exchange that has none."""


class Aborted(Exception):
    """The exchange was ended by `abort`."""


class Expired(Exception):
    """The deadline of the exchange has passed, or its read timeout."""


class Lease:
    """An exchange's hold on a socket of the pool, with its time limits."""

    def __init__(self, deadline: Deadline | None, read_timeout: float | None = None) -> None:
        self.deadline = deadline or ENDLESS
        self.read_timeout = math.inf if read_timeout is None else read_timeout
        """Seconds that may pass without a byte."""
        self.is_new_connection: bool | None = None
        """Whether the connection was made for this exchange; None before there is a connection."""
        self.has_received = False
        """Whether a byte of the response arrived."""
        self.response: _Response | None = None
        self.peer: str | None = None
        """The IP address of the server, if it was reached without a proxy."""
        self._lock = threading.Lock()
        self.is_aborted = False
        self._socket: Any = None  # guarded by _lock

    @property
    def has_deadline(self) -> bool:
        """Whether the exchange ends at some time even if the server keeps sending."""
        return self.deadline is not ENDLESS

    @property
    def is_late(self) -> bool:
        return self.deadline.left() <= 0

    @property
    def connect_seconds(self) -> float:
        return max(MIN_TIMEOUT_SECONDS, min(MAX_CONNECT_SECONDS, self.deadline.left()))

    def forked(self) -> None:
        """Forget the socket in a forked child: it is the parent's, and must not be shut down."""
        self._lock = threading.Lock()
        self.is_aborted = True
        self._socket = None

    def take(self, connected: Any) -> None:
        """Lease this socket. Raises Aborted if the exchange has ended already."""
        self.is_new_connection = self.is_new_connection or False
        with self._lock:
            self._socket = connected
        if self.is_aborted:
            raise Aborted

    def release(self) -> None:
        """Give the socket back: from now on it may be another exchange's."""
        with self._lock:
            self._socket = None

    def abort(self) -> None:
        """End the exchange: a thread that waits in it gets Aborted. Any thread, any number of times."""
        with self._lock:
            self.is_aborted = True
            if self._socket is not None:
                with suppress(OSError):  # it was closed already
                    # Not the method of a TLS socket, which would go on in plain text.
                    socket.socket.shutdown(self._socket, socket.SHUT_RDWR)

    def patience(self) -> float:
        """How many seconds a read may wait before it looks again. Raises Aborted, Expired.

        Called before each read: else an exchange whose server never ceases to send would never be late.
        """
        if self.is_aborted:
            raise Aborted
        if self.is_late:
            raise Expired
        return max(MIN_TIMEOUT_SECONDS, min(self.deadline.pause(), self.read_timeout))


_current = threading.local()  # `lease`: that of the request which this thread sends


@contextmanager
def leasing(lease: Lease) -> Iterator[None]:
    """Within the block, requests that this thread sends by urllib3 belong to the lease."""
    _current.lease = lease
    try:
        yield
    finally:
        _current.lease = None


def _current_lease() -> Lease:
    lease: Lease | None = getattr(_current, "lease", None)
    return lease or Lease(None)  # without an exchange, nothing ends a read


# ------------------------------------------------------------------------- the response


class _ResponseReader(io.RawIOBase):
    """The bytes of one response, as they arrive."""

    def __init__(self, connected: Any, lease: Lease) -> None:
        self._raw = connected.makefile("rb", buffering=0)  # keeps the socket open until it is closed
        self._socket = connected
        self._lease = lease
        self.may_wait = True
        self.has_ended = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        """Return the number of bytes read, 0 at the end; None if it would have to wait and may not."""
        while True:
            seconds = self._lease.patience() if self.may_wait else 0.0
            # Not by `poll`: over TLS, a socket may be readable with half a record, and a read still waits.
            self._socket.settimeout(seconds)
            try:
                return self._received(self._socket.recv_into(buffer))
            except (BlockingIOError, ssl.SSLWantReadError):
                return None
            except TimeoutError:
                if self._lease.read_timeout <= seconds:
                    raise Expired from None
            except OSError:  # a shut socket is reset if the server goes on sending
                if self._lease.is_aborted:
                    raise Aborted from None
                raise

    def _received(self, size: int | None) -> int | None:
        if size:
            self._lease.has_received = True
        elif self._lease.is_aborted:  # `abort` shuts the socket, which looks like the end
            raise Aborted
        else:
            self.has_ended = True
        return size

    def close(self) -> None:
        if not self.closed:
            self._lease.release()
            self._raw.close()
        super().close()


class _Response(http.client.HTTPResponse):
    """A response that is read within the limits of its exchange."""

    def __init__(self, connected: Any, *args: Any, **options: Any) -> None:
        lease = _current_lease()
        self._incoming = _ResponseReader(connected, lease)
        self._reader = io.BufferedReader(self._incoming, 65536)
        lease.response = self
        super().__init__(cast("socket.socket", self), *args, **options)  # it only calls `makefile`

    def begin(self) -> None:
        """Read the head. Raises HTTPException if it is cut off or malformed, which http.client accepts."""
        for _ in range(MAX_HEADS):
            super().begin()
            if self._incoming.has_ended or self.msg.defects:
                raise http.client.HTTPException("the head of the answer is cut or malformed")
            if not 100 <= self.status < 200 or self.status == 101:
                return
            self.headers = cast(Any, None)  # an informational response: have the next head read
        raise http.client.HTTPException("no end of informational answers")

    def makefile(self, mode: str) -> io.BufferedIOBase:
        """The one method of a socket that http.client calls."""
        return self._reader

    def is_end_buffered(self) -> bool:
        """Whether the end of a body in chunks has arrived, so that reading on would not wait."""
        if self.isclosed():
            return True
        if not self.chunked or self.chunk_left:
            return False
        self._incoming.may_wait = False
        try:
            if self.chunk_left == 0 and self._reader.peek(2)[:2] == b"\r\n":  # the end of the last chunk
                self._reader.read(2)
                self.chunk_left = None
            return self.chunk_left is None and self._reader.peek(5)[:5] == b"0\r\n\r\n"
        except (Aborted, OSError, ValueError):
            return False
        finally:
            self._incoming.may_wait = True


# ------------------------------------------------------------------------- the request


def _count_addresses(host: str, port: int) -> int:
    try:
        return max(1, len(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)))
    except OSError:
        return 1  # connecting will fail, and say why


def _address_of(connected: Any) -> str | None:
    """The IP address at the other end; None for a socket of another kind, which an adapter may have."""
    try:
        return str(ipaddress.ip_address(connected.getpeername()[0]))
    except (OSError, ValueError, TypeError, IndexError, AttributeError):
        return None


@functools.cache
def leased_class(base: type[Any]) -> type[Any]:
    """Subclass a connection class of urllib3: its sockets are leased by the exchanges that use them."""

    class Leased(base):  # type: ignore[misc]  # urllib3 decides which class it is: http or https
        response_class = _Response
        _parts: list[bytes] | None = None
        _peer: str | None = None

        def connect(self) -> None:
            lease = _current_lease()
            # urllib3 applies the time-out to each address of a name.
            self.timeout = lease.connect_seconds / _count_addresses(self.host, self.port)
            super().connect()
            lease.is_new_connection = True
            self._peer = None if self.proxy else _address_of(self.sock)
            lease.take(self.sock)

        def request(self, *args: Any, **options: Any) -> None:
            lease = _current_lease()
            if self.sock is not None:
                lease.take(self.sock)
            parts: list[bytes] = []
            self._parts = parts
            try:
                super().request(*args, **options)
            finally:
                self._parts = None
            if self.sock is None:
                self.connect()
            lease.peer = self._peer
            self.sock.settimeout(max(MIN_TIMEOUT_SECONDS, lease.deadline.pause()))
            super().send(b"".join(parts))

        def send(self, data: Any) -> None:
            """Collect the parts of a request until it is whole. A CONNECT for a proxy goes out at once."""
            if self._parts is None:
                super().send(data)
            else:
                self._parts.append(data)

    return Leased
