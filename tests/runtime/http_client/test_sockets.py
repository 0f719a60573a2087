"""The socket under an exchange: deadlines are exact, and any thread may end the wait, whatever it is for."""

import io
import socket
import threading
import time
from types import SimpleNamespace

import pytest
import urllib3
from peers import PATIENCE
from web import STREAM, certificate, open_files, web

from mcp_ref.runtime.http_client import sockets as module
from mcp_ref.runtime.http_client.sockets import Aborted, Expired, Lease, leased_class, leasing
from mcp_ref.runtime.threads import deadlines
from mcp_ref.runtime.threads.deadlines import Clock, Deadline


@pytest.fixture(scope="module")
def tls_and_file(tmp_path_factory):
    return certificate(tmp_path_factory.mktemp("tls"))


@pytest.fixture(params=["plain", "tls"])
def site(request, tls_and_file):
    """A function that starts a server, and one that makes a pool for it."""
    tls, file = tls_and_file if request.param == "tls" else (None, None)

    def pool(at):
        made = (
            urllib3.HTTPSConnectionPool("127.0.0.1", at.port, ca_certs=file)
            if tls
            else urllib3.HTTPConnectionPool("127.0.0.1", at.port)
        )
        made.ConnectionCls = leased_class(made.ConnectionCls)
        return made

    return lambda handle: web(handle, tls), pool


def ask(pool, lease):
    with leasing(lease):
        return pool.urlopen("POST", "/mcp", b"{}", {}, urllib3.Retry(total=False), preload_content=False)


def within(seconds):
    return Lease(Deadline(seconds, Clock()))


class Connected(Lease):
    """A lease whose time begins when it has its connection: a handshake takes as long as it takes."""

    def __init__(self, seconds):
        super().__init__(Deadline(PATIENCE, Clock()))
        self._seconds = seconds

    def take(self, connected):
        self.deadline = Deadline(self._seconds, Clock())
        super().take(connected)


def aborting(site, lease, requests=1):
    """A thread that aborts when the server has the request: before that, it is sent to a shut socket."""

    def abort():
        site.asked(lambda request: len(site.requests) == requests)
        site.over.wait(0.1)
        lease.abort()

    thread = threading.Thread(target=abort)
    thread.start()
    return thread


def test_what_arrives_is_read_as_ever(site):
    serve, pool = site
    with serve(lambda request, wire: wire.answer(200, b"hello" * 20_000)) as at, pool(at) as connections:
        lease = within(PATIENCE)
        assert ask(connections, lease).read() == b"hello" * 20_000
        assert lease.is_new_connection and lease.has_received
        again = within(PATIENCE)
        assert ask(connections, again).read() == b"hello" * 20_000
        assert not again.is_new_connection
        assert len(at.wires) == 1


def test_head_and_body_of_a_request_are_one_write(site):
    serve, pool = site
    seen = []

    def handle(request, wire):
        seen.append(request.body)
        wire.answer(200)

    with serve(handle) as at, pool(at) as connections:
        ask(connections, within(PATIENCE)).read()
    assert seen == [b"{}"]


def _silent(request, wire):
    wire.gone()


def _head_only(request, wire):
    wire.send(b"HTTP/1.1 200 OK\r\nContent-")
    wire.gone()


def _drips(request, wire):
    for byte in b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 1000:
        wire.send(bytes([byte]))
        if wire.site.over.wait(0.01):
            return


def _body_drips(request, wire):
    wire.head(200, "Content-Length: 1000")
    for _ in range(1000):
        wire.send(b"x")
        if wire.site.over.wait(0.01):
            return


def _floods(request, wire):
    wire.head(200, "Content-Length: 1000000000000")
    while not wire.site.over.is_set() and wire.socket.fileno() >= 0:
        wire.send(b"x" * 100_000)


@pytest.mark.parametrize("handle", [_silent, _head_only, _drips, _body_drips])
def test_a_deadline_holds_also_for_slow_drips(site, handle):
    serve, pool = site
    with serve(handle) as at, pool(at) as connections:
        start = time.monotonic()
        with pytest.raises(Expired):
            ask(connections, Connected(0.3)).read()
        assert 0.25 < time.monotonic() - start < PATIENCE / 2


@pytest.mark.parametrize("handle", [_silent, _head_only, _drips, _body_drips])
def test_any_thread_ends_the_wait(site, handle):
    serve, pool = site
    with serve(handle) as at, pool(at) as connections:
        lease = Lease(None)
        aborts = aborting(at, lease)
        start = time.monotonic()
        with pytest.raises(Aborted):
            ask(connections, lease).read()
        assert time.monotonic() - start < PATIENCE / 2
        aborts.join()


def test_a_socket_that_is_reset_because_it_was_shut_counts_as_given_up():
    """A server that goes on sending after `abort` has the system answer with a reset."""
    lease = Lease(None)

    class Reset:
        def makefile(self, mode, buffering):
            return io.BytesIO()

        def settimeout(self, seconds):
            lease.is_aborted = True

        def recv_into(self, buffer):
            raise ConnectionResetError

    with pytest.raises(Aborted):
        module._ResponseReader(Reset(), lease).readinto(bytearray(1))


@pytest.mark.parametrize("how", ["deadline", "abort"])
def test_the_second_exchange_of_a_connection_is_ended_as_well(site, how):
    serve, pool = site

    def handle(request, wire):
        if request.body == b"{}" and len(wire.site.requests) == 1:
            wire.answer(200, b"x")
        else:
            wire.site.over.wait(PATIENCE)
            wire.close()

    with serve(handle) as at, pool(at) as connections:
        assert ask(connections, within(PATIENCE)).read() == b"x"
        lease = within(0.3) if how == "deadline" else Lease(None)
        aborts = aborting(at, lease, 2) if how == "abort" else None
        with pytest.raises(Expired if how == "deadline" else Aborted):
            ask(connections, lease)
        assert not lease.is_new_connection
        assert len(at.wires) == 1
        if aborts is not None:
            aborts.join()


@pytest.mark.parametrize("how", ["deadline", "abort"])
def test_a_flood_is_late_and_can_be_ended_too(site, how):
    serve, pool = site
    with serve(_floods) as at, pool(at) as connections:
        lease = Connected(0.3) if how == "deadline" else within(PATIENCE)
        aborts = aborting(at, lease) if how == "abort" else None
        start = time.monotonic()
        with pytest.raises(Expired if how == "deadline" else Aborted):
            response = ask(connections, lease)
            while response.read1(65536):
                pass
        assert time.monotonic() - start < PATIENCE / 2
        if aborts is not None:
            aborts.join()


def test_a_deadline_that_moves_is_followed(site, monkeypatch):
    """By a clock that the server sets: the client waits 0.2 s by its own, and looks again."""
    serve, pool = site
    hands = SimpleNamespace(now=1000.0)
    hands.monotonic = lambda: hands.now
    monkeypatch.setattr(deadlines, "time", hands)

    def handle(request, wire):
        for _ in range(6):
            if wire.site.over.wait(0.1):
                return
            hands.now += 0.15
            deadline.restart()
        wire.answer(200, b"late")

    deadline = Deadline(0.2, Clock(), cap=30)
    with serve(handle) as at, pool(at) as connections:
        assert ask(connections, Lease(deadline)).read() == b"late"


def test_what_is_aborted_before_it_begins_does_not_begin(site):
    serve, pool = site
    with serve(_silent) as at, pool(at) as connections:
        lease = Lease(None)
        lease.abort()
        with pytest.raises(Aborted):
            ask(connections, lease)


def test_an_abort_that_comes_too_late_ends_nobody_else(site):
    serve, pool = site
    with serve(lambda request, wire: wire.answer(200, b"x")) as at, pool(at) as connections:
        first = within(PATIENCE)
        assert ask(connections, first).read() == b"x"
        first.abort()
        second = within(PATIENCE)
        assert ask(connections, second).read() == b"x"
        assert not second.is_new_connection, "the connection was still good"


def test_the_end_of_a_stream_is_seen_only_when_it_is_there(site):
    serve, pool = site
    go_on = threading.Event()

    def handle(request, wire):
        wire.head(200, STREAM, "Transfer-Encoding: chunked")
        wire.chunk(b"data: 1\n\n")
        go_on.wait(PATIENCE)
        wire.end()

    with serve(handle) as at, pool(at) as connections:
        lease = within(PATIENCE)
        response = ask(connections, lease)
        assert response.read1(100) == b"data: 1\n\n"
        assert not lease.response.is_end_buffered()
        go_on.set()
        while not lease.response.is_end_buffered():
            time.sleep(0.001)
        assert response.read1(100) == b""
        assert lease.response.is_end_buffered()


def test_a_body_of_known_length_or_none_is_never_at_its_end_before_it_is_read(site):
    serve, pool = site
    with serve(lambda request, wire: wire.answer(200, b"0\r\n\r\n")) as at, pool(at) as connections:
        lease = within(PATIENCE)
        response = ask(connections, lease)
        assert not lease.response.is_end_buffered()
        assert response.read() == b"0\r\n\r\n"


def test_in_the_middle_of_a_chunk_nothing_ends(site):
    serve, pool = site

    def handle(request, wire):
        wire.head(200, "Transfer-Encoding: chunked")
        wire.chunk(b"abc\r\n0\r\n\r\n")
        wire.end()

    with serve(handle) as at, pool(at) as connections:
        lease = within(PATIENCE)
        response = ask(connections, lease)
        assert response.read1(3) == b"abc"
        assert not lease.response.is_end_buffered()
        assert response.read() == b"\r\n0\r\n\r\n"


def test_a_large_request_that_nobody_reads_is_bounded_by_the_deadline_too():
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        urllib3.HTTPConnectionPool("127.0.0.1", listener.getsockname()[1]) as connections,
    ):
        connections.ConnectionCls = leased_class(connections.ConnectionCls)
        start = time.monotonic()
        with pytest.raises(urllib3.exceptions.ProtocolError), leasing(within(0.3)):
            connections.urlopen(
                "POST", "/mcp", b"x" * (1 << 25), {}, urllib3.Retry(total=False), preload_content=False
            )
        assert 0.25 < time.monotonic() - start < PATIENCE / 2


def test_no_descriptor_is_left(site):
    serve, pool = site
    before = open_files()
    with serve(lambda request, wire: wire.answer(200, b"x")) as at, pool(at) as connections:
        for _ in range(3):
            ask(connections, within(PATIENCE)).read()
        ask(connections, within(PATIENCE)).close()
    assert open_files() <= before  # what other tests left to the collector may have been closed


def test_a_connection_that_belongs_to_no_exchange_works_as_ever(site):
    serve, pool = site
    with serve(lambda request, wire: wire.answer(200, b"x")) as at, pool(at) as connections:
        assert connections.urlopen("GET", "/").data == b"x"
        assert connections.urlopen("GET", "/").data == b"x"


def test_silence_ends_an_exchange(site):
    serve, pool = site

    def handle(request, wire):
        wire.head(200, "Content-Length: 100")
        wire.gone()

    with serve(handle) as at, pool(at) as connections:
        start = time.monotonic()
        with pytest.raises(Expired):
            ask(connections, Lease(None, read_timeout=0.3)).read()
        assert 0.25 < time.monotonic() - start < PATIENCE / 2


def test_silence_is_known_from_slowness():
    """Each byte begins the time anew. The socket is one of the test: a real server may be late."""
    waits = []

    class Slow:
        def makefile(self, mode, buffering):
            return io.BytesIO()

        def settimeout(self, seconds):
            waits.append(seconds)

        def recv_into(self, buffer):
            if len(waits) > 5:
                raise TimeoutError
            return 1

    reader = module._ResponseReader(Slow(), Lease(None, read_timeout=0.8))
    assert [reader.readinto(bytearray(1)) for _ in range(5)] == [1] * 5
    with pytest.raises(Expired):
        reader.readinto(bytearray(1))
    assert waits == [0.8] * 6


def test_all_addresses_of_a_name_share_the_time_for_connecting(monkeypatch):
    """Four that never answer: a full backlog takes no more connections."""
    tried = []

    def four(host, port, *args, **options):
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in ADDRESSES]

    def connect(self, address):
        tried.append((address, self.gettimeout()))
        raise TimeoutError

    monkeypatch.setattr(socket, "getaddrinfo", four)
    monkeypatch.setattr(socket.socket, "connect", connect)
    with urllib3.HTTPConnectionPool("silent.invalid", 80) as connections:
        connections.ConnectionCls = leased_class(connections.ConnectionCls)
        with pytest.raises(urllib3.exceptions.ConnectTimeoutError):
            ask(connections, within(2))
    assert [address for (address, _), _ in tried] == ADDRESSES
    assert all(0 < seconds <= 0.5 for _, seconds in tried)


ADDRESSES = ["127.0.0.1", "127.0.0.2", "127.0.0.3", "127.0.0.4"]


def test_a_name_that_is_none_is_said_to_be_none(monkeypatch):
    def none(*args, **options):
        raise socket.gaierror("no such name")

    monkeypatch.setattr(socket, "getaddrinfo", none)
    with urllib3.HTTPConnectionPool("nowhere.invalid", 80) as connections:
        connections.ConnectionCls = leased_class(connections.ConnectionCls)
        with pytest.raises(urllib3.exceptions.NameResolutionError):
            ask(connections, within(2))


@pytest.mark.parametrize(
    "head", [b"HTTP/1.1 200 OK\r\nX: y", b"HTTP/1.1 200 OK\r\nno header\r\nContent-Length: 1\r\n\r\nx"]
)
def test_a_head_that_is_cut_or_malformed_is_none(site, head):
    def handle(request, wire):
        wire.send(head)
        wire.close()

    serve, pool = site
    malformed = pytest.raises(urllib3.exceptions.ProtocolError, match="cut or malformed")
    with serve(handle) as at, pool(at) as connections, malformed:
        ask(connections, within(PATIENCE))


def test_the_end_of_what_was_read_whole_is_buffered(site):
    serve, pool = site
    with serve(lambda request, wire: wire.answer(200, b"x")) as at, pool(at) as connections:
        lease = within(PATIENCE)
        ask(connections, lease).read()
        assert lease.response.is_end_buffered()


def test_an_exchange_whose_socket_is_gone_can_be_ended_all_the_same():
    lease = within(PATIENCE)
    with socket.socket() as closed:
        lease.take(closed)
    lease.abort()
    assert lease.is_aborted
    with pytest.raises(Aborted):
        lease.patience()


def test_in_a_forked_child_a_lease_is_over_and_its_socket_is_not_shut():
    """A socket that the child shuts down is shut down for its parent as well."""
    ours, peer = socket.socketpair()
    with ours, peer:
        lease = Lease(None)
        lease.take(ours)
        with lease._lock:
            lease.forked()
            assert not lease._lock.locked()
        assert lease.is_aborted
        lease.abort()
        ours.sendall(b"still there")
        assert peer.recv(100) == b"still there"
        with pytest.raises(Aborted):
            lease.take(ours)
