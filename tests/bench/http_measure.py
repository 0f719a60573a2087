"""What is measured over HTTP."""

from __future__ import annotations

import select
import statistics
import time
from collections.abc import Iterator, Sequence
from itertools import cycle, islice

from http_wire import PIECE, HttpClient, HttpServer, Peer, Socket, body_of, check_sum, is_whole
from measure import Group, Numbers, Size, client
from wire import LEGACY, MODERN, PATIENCE, counted

median = statistics.median


def sequential(server: HttpServer, size: Size, revision: str, answers: str, name: str) -> Numbers:
    """`add` on one connection, the next call when the last is answered."""
    peer = Peer(server, revision)
    check_sum(peer, answers)
    requests = [_add(peer, n) for n in counted(size.http_calls)]
    ask, clock, seconds, got = peer.connection.ask, time.perf_counter, [], []
    for request in requests[: size.http_calls // 5]:
        ask(request)
    before = server.cpu()
    for request in requests:
        sent = clock()
        answer = ask(request)
        seconds.append(clock() - sent)
        got.append(answer)
    cpu = server.cpu() - before
    _check(got)
    return {f"{name} p50 µs": median(seconds) * 1e6, f"{name} CPU µs": cpu / len(requests) * 1e6}


def _add(peer: Peer, number: int) -> bytes:
    """A call whose length differs from that of the last: no two requests in a row have the same head."""
    return peer.call(number, "add", a=number, b=10 ** (number % 7))


def _check(answers: list[bytes]) -> None:
    for answer in answers:
        if not answer.startswith(b"HTTP/1.1 200") or b'"structuredContent"' not in answer:
            raise SystemExit(f"a wrong answer: {answer[:500]!r}")


CONNECTIONS = 8


def parallel(server: HttpServer, size: Size, answers: str, name: str) -> Numbers:
    """`add` on several connections at once, each with a session of its own and always with one call out."""
    peers = [Peer(server, LEGACY) for _ in range(CONNECTIONS)]
    for peer in peers:
        check_sum(peer, answers)
    numbers = list(counted(size.http_parallel))
    requests = [_add(peer, n) for n, peer in zip(numbers, cycle(peers), strict=False)]
    queues = [iter(requests[first::CONNECTIONS]) for first in range(CONNECTIONS)]
    _volley(peers, [islice(queue, size.http_parallel // 5 // CONNECTIONS) for queue in queues])
    before, start = server.cpu(), time.perf_counter()
    got = _volley(peers, queues)
    wall, cpu = time.perf_counter() - start, server.cpu() - before
    _check(got)
    return {f"{name} calls/s": len(got) / wall, f"{name} CPU µs": cpu / len(got) * 1e6}


def _volley(peers: list[Peer], queues: Sequence[Iterator[bytes]]) -> list[bytes]:
    """Every request of every queue, the next of a connection when its last is answered."""
    ready, got = select.epoll(), []
    open_sockets = {peer.connection.socket.fileno(): peer.connection.socket for peer in peers}
    queue_of = dict(zip(open_sockets, queues, strict=True))
    held = dict.fromkeys(open_sockets, b"")
    for number, connection in open_sockets.items():
        ready.register(number, select.EPOLLIN)
        connection.sendall(next(queue_of[number]))
    busy = len(peers)
    while busy:
        for number, _ in ready.poll(PATIENCE):
            data = held[number] + open_sockets[number].recv(PIECE)
            if not is_whole(data):
                if data == held[number]:
                    raise SystemExit("the server closed a connection in the middle")
                held[number] = data
                continue
            held[number] = b""
            got.append(data)
            request = next(queue_of[number], None)
            if request is None:
                busy -= 1
            else:
                open_sockets[number].sendall(request)
    ready.close()
    return got


STEPS = 1000


def progress(server: HttpServer, size: Size) -> Numbers:
    """A call that reports a thousand times how far it is."""
    peer = Peer(server, LEGACY)
    seconds = []
    for n in counted(1 + size.volleys):
        wanted = {"name": "count", "arguments": {"steps": STEPS}, "_meta": {"progressToken": n}}
        request = peer.request(n, "tools/call", wanted)
        start = time.perf_counter()
        answer = peer.connection.ask_for_much(request)
        seconds.append(time.perf_counter() - start)
        said = body_of(answer).count(b'"notifications/progress"')
        if said != STEPS:
            raise SystemExit(f"{said} of {STEPS} notifications: {answer[-500:]!r}")
    return {"http progress/s": STEPS / median(seconds[1:])}


MANY, FEW = 200, 20


def memory(server: HttpServer, size: Size) -> Numbers:
    """What sessions and open streams add to a server, once it has had a few of each."""
    one = server.connect()
    warm = [_listening(server, peer) for peer in _sessions(server, one, FEW)]
    before = server.memory()
    peers = _sessions(server, one, MANY)
    between = server.memory()
    streams = [_listening(server, peer) for peer in peers]
    peers[0].connection.ask(peers[0].request("settled", "ping", {}))
    after = server.memory()
    for stream in warm + streams:
        stream.close()
    return {
        "http session KiB": max(between - before, 0.001) * 1024 / MANY,
        "http stream KiB": max(after - between, 0.001) * 1024 / MANY,
    }


def _sessions(server: HttpServer, connection: Socket, number: int) -> list[Peer]:
    return [Peer(server, LEGACY, connection) for _ in range(number)]


def _listening(server: HttpServer, peer: Peer) -> Socket:
    stream = server.connect()
    stream.open_stream(peer.listen())
    return stream


def _json(server: HttpServer, size: Size) -> Numbers:
    legacy = sequential(server, size, LEGACY, "json", "http json")
    modern = sequential(server, size, MODERN, "json", "http modern")
    return legacy | modern | parallel(server, size, "json", "http json x8")


def _stream(server: HttpServer, size: Size) -> Numbers:
    alone = sequential(server, size, LEGACY, "stream", "http stream")
    return alone | parallel(server, size, "stream", "http stream x8") | progress(server, size)


GROUPS = (
    Group("http-json", _json, lambda package: HttpServer(package, "json")),
    Group("http-stream", _stream, lambda package: HttpServer(package, "stream")),
    Group("http-memory", memory, lambda package: HttpServer(package, "auto")),
    Group(
        "http-client-json",
        lambda process, size: client(process, size, "http client json"),
        lambda package: HttpClient(package, LEGACY, "json"),
    ),
    Group(
        "http-client-stream",
        lambda process, size: client(process, size, "http client stream"),
        lambda package: HttpClient(package, LEGACY, "stream"),
    ),
    Group(
        "http-client-modern",
        lambda process, size: client(process, size, "http client modern"),
        lambda package: HttpClient(package, MODERN, "json"),
    ),
)
