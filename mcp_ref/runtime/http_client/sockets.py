"""The socket under one HTTP exchange: waited for with a deadline, and ended from any thread.

urllib3 knows one time limit for reading, that between two bytes: a server that sends one now and then is
waited for without end. And nothing of it ends a read that another thread is in. So an exchange gets hold
of its socket, at the places that urllib3 and http.client offer:

    pool.ConnectionCls           `watched` of what it was: tells the exchange which socket it has got
    connection.response_class    `_Answer`: reads from `_Incoming`
    _Incoming                    waits by `poll`, as long as the exchange's deadline allows, then reads

The head of a request and its body go out in one write.

Errors      Aborted, Expired: of no kind that urllib3 takes for its own, so that they pass through it.
Threads     an exchange belongs to one thread at a time; `abort` is for any. `_lock` of a Hold is held while
            its socket is shut down: by then it must not be the next exchange's.
"""

from __future__ import annotations

import functools
import http.client
import io
import select
import socket
import ssl
import threading
from typing import Any, cast

from mcp_ref.runtime.threads.deadlines import LONGEST, Deadline

__all__ = ["Aborted", "Expired", "Hold", "Holding", "watched"]


CONNECTING = 10.0
"""Seconds for a connection to come about, over all addresses of the server."""


class Aborted(Exception):
    """`abort` was called."""


class Expired(Exception):
    """The deadline has passed."""


class Hold:
    """What one exchange has of its socket."""

    def __init__(self, deadline: Deadline | None, silence: float | None = None) -> None:
        self.deadline = deadline
        self.silence = silence
        self.is_fresh = False
        """Whether the connection was made for this exchange."""
        self.was_heard = False
        """Whether a byte of the answer arrived."""
        self.answer: _Answer | None = None
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._socket: Any = None  # guarded by _lock

    @property
    def connecting(self) -> float:
        """Seconds that a connection may take to come about."""
        return CONNECTING if self.deadline is None else max(0.01, min(CONNECTING, self.deadline.left()))

    @property
    def is_aborted(self) -> bool:
        """Whether `abort` was called."""
        return self._over.is_set()

    def forked(self) -> None:
        """In a forked child: the socket is the parent's, and must not be shut down."""
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._over.set()
        self._socket = None

    def take(self, connected: Any) -> None:
        """This socket is the exchange's. Raises Aborted if that is over already."""
        with self._lock:
            self._socket = connected
        if self.is_aborted:
            raise Aborted

    def leave(self) -> None:
        """The answer is read, or will not be: from now on the socket may be another's."""
        with self._lock:
            self._socket = None

    def abort(self) -> None:
        """End the exchange; whoever waits in it gets Aborted. Any thread, any number of times."""
        with self._lock:
            self._over.set()
            if self._socket is not None:
                try:
                    # Not the method of a TLS socket: that would go on in plain text first.
                    socket.socket.shutdown(self._socket, socket.SHUT_RDWR)
                except OSError:
                    pass  # it was closed already

    def pause(self, seconds: float) -> None:
        """Wait; not beyond the deadline. Raises Aborted, Expired."""
        left = seconds if self.deadline is None else min(seconds, self.deadline.left())
        if self._over.wait(max(0.0, left)):
            raise Aborted
        if left < seconds:
            raise Expired

    def wait(self, poll: Any) -> None:
        """Until there is something to read, or the end of it. Raises Aborted, Expired."""
        self.check()
        while not self.is_aborted:
            span = LONGEST if self.deadline is None else self.deadline.pause()
            if self.silence is not None and self.silence <= span:
                if not poll.poll(self.silence * 1000):
                    raise Expired
                break
            if poll.poll(span * 1000 + 1):
                break
            self.check()
        if self.is_aborted:
            raise Aborted

    def check(self) -> None:
        """Also where there is something to read: a peer that never ceases to send would else never be late.

        Raises Aborted, Expired.
        """
        if self.is_aborted:
            raise Aborted
        if self.deadline is not None and self.deadline.left() <= 0:
            raise Expired


class _Here(threading.local):
    hold: Hold | None = None


_here = _Here()


class Holding:
    """`with Holding(hold):` what this thread sends by urllib3 is that exchange's."""

    def __init__(self, hold: Hold) -> None:
        self._hold = hold

    def __enter__(self) -> None:
        _here.hold = self._hold

    def __exit__(self, *exception: object) -> None:
        _here.hold = None


def _held() -> Hold:
    """The exchange of this thread; one without end, if the connection is used by somebody else."""
    return _here.hold or Hold(None)


# ------------------------------------------------------------------------- what is read


class _Incoming(io.RawIOBase):
    """The bytes of one answer, as they arrive."""

    def __init__(self, connected: Any, hold: Hold) -> None:
        self._raw = connected.makefile("rb", buffering=0)  # as long as this is open, the socket is
        self._hold = hold
        self._poll = select.poll()
        self._poll.register(connected, select.POLLIN)
        self._tls = connected if isinstance(connected, ssl.SSLSocket) else None
        if self._tls is not None:
            self._tls.settimeout(0.0)  # readable may mean half a record: never wait in there
        self.patient = True
        self.has_ended = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        """Some bytes, 0 at the end; None, when not `patient`, if there are none yet."""
        if self._tls is not None:
            return self._decrypted(self._tls, buffer)
        if self.patient:
            self._hold.wait(self._poll)
        elif not self._poll.poll(0):
            return None
        return self._taken(self._raw.readinto(buffer))

    def _decrypted(self, tls: ssl.SSLSocket, buffer: Any) -> int | None:
        while True:
            if self.patient:
                self._hold.check()
            try:
                return self._taken(tls.recv_into(buffer))
            except ssl.SSLWantReadError:
                if not self.patient:
                    return None
                self._hold.wait(self._poll)

    def _taken(self, count: int | None) -> int | None:
        if count:
            self._hold.was_heard = True
        elif self._hold.is_aborted:
            raise Aborted
        else:
            self.has_ended = True
        return count

    def close(self) -> None:
        """All is read, or nobody reads on."""
        if not self.closed:
            self._hold.leave()
            self._raw.close()
        super().close()


AHEAD = 10
"""Heads that may come: the answer's, and those of informational ones before it (RFC 9110, section 15.2)."""


class _Answer(http.client.HTTPResponse):
    """An answer that is waited for as its exchange wants."""

    def __init__(self, connected: Any, *args: Any, **options: Any) -> None:
        hold = _held()
        self._incoming = _Incoming(connected, hold)
        self._reader = io.BufferedReader(self._incoming, 65536)
        hold.answer = self
        super().__init__(cast("socket.socket", self), *args, **options)  # all it wants is `makefile`

    def begin(self) -> None:
        """Read the head. http.client makes do with one that is cut, and with lines that are no headers."""
        for _ in range(AHEAD):
            super().begin()
            if self._incoming.has_ended or self.msg.defects:
                raise http.client.HTTPException("the head of the answer is cut or malformed")
            if not 100 <= self.status < 200 or self.status == 101:
                return
            self.headers = cast(Any, None)  # one ahead of the answer: read the next
        raise http.client.HTTPException("no end of informational answers")

    def makefile(self, mode: str) -> io.BufferedIOBase:
        """For http.client, which wants no more of a socket than this."""
        return self._reader

    def ends_now(self) -> bool:
        """Whether the end of a chunked body has arrived: then reading on waits for nothing."""
        if self.isclosed():
            return True
        if not self.chunked or self.chunk_left:
            return False
        self._incoming.patient = False
        try:
            if self.chunk_left == 0 and self._reader.peek(2)[:2] == b"\r\n":  # of the chunk before
                self._reader.read(2)
                self.chunk_left = None
            return self.chunk_left is None and self._reader.peek(5)[:5] == b"0\r\n\r\n"
        except (OSError, ValueError):
            return False
        finally:
            self._incoming.patient = True


# ------------------------------------------------------------------------- what is sent


def _addresses(host: str, port: int) -> int:
    """How many a name has."""
    try:
        return max(1, len(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)))
    except OSError:
        return 1  # there is none: who connects will say so


@functools.cache
def watched(base: type[Any]) -> type[Any]:
    """A class of connections of urllib3 whose sockets belong to the exchanges that use them."""

    class Watched(base):  # type: ignore[misc]  # which class it is, urllib3 decides: http or https
        response_class = _Answer
        _kept: list[bytes] | None = None

        def connect(self) -> None:
            hold = _held()
            # urllib3 gives each address of a name so much time.
            self.timeout = hold.connecting / _addresses(self.host, self.port)
            super().connect()
            hold.is_fresh = True
            hold.take(self.sock)

        def request(self, *args: Any, **options: Any) -> None:
            hold = _held()
            if self.sock is not None:
                hold.take(self.sock)
            kept: list[bytes] = []
            self._kept = kept
            try:
                super().request(*args, **options)
            finally:
                self._kept = None
            if self.sock is None:
                self.connect()
            left = None if hold.deadline is None else max(0.01, hold.deadline.left())
            self.sock.settimeout(left)
            super().send(b"".join(kept))

        def send(self, data: Any) -> None:
            """Keeps the parts of a request until it is whole (also those of CONNECT, which has none)."""
            if self._kept is None:
                super().send(data)
            else:
                self._kept.append(data)

    return Watched
