"""What is measured over HTTP."""

from __future__ import annotations

import select
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from itertools import cycle, islice

from http_wire import PIECE, HttpClient, HttpServer, Peer, Socket, body_of, check_sum, is_whole, result_of
from measure import Group, Numbers, Size, client
from wire import LEGACY, MODERN, PATIENCE, Package, counted

median = statistics.median


def sequential(server: HttpServer, size: Size, revision: str, answers: str, name: str) -> Numbers:
    """`add` on one connection, the next call when the last is answered."""
    peer = Peer(server, revision)
    check_sum(peer, answers)
    numbers, got = _one_by_one(server, size, peer, _add, name)
    _check(got)
    return numbers


def _one_by_one(
    server: HttpServer, size: Size, peer: Peer, request_of: Callable[[Peer, int], bytes], name: str
) -> tuple[Numbers, list[bytes]]:
    """Requests on one connection, and their answers. Calls before the first of them are not counted.

    What those cost is measured by `first_calls` and `cold_start`.
    """
    requests = [request_of(peer, n) for n in counted(size.http_calls)]
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
    return {f"{name} p50 µs": median(seconds) * 1e6, f"{name} CPU µs": cpu / len(requests) * 1e6}, got


def _add(peer: Peer, number: int) -> bytes:
    """A call whose length differs from that of the last: no two requests in a row have the same head."""
    return peer.call(number, "add", a=number, b=10 ** (number % 7))


def _check(answers: list[bytes]) -> None:
    for answer in answers:
        if not answer.startswith(b"HTTP/1.1 200") or b'"structuredContent"' not in answer:
            raise SystemExit(f"a wrong answer: {answer[:500]!r}")


def report_once(server: HttpServer, size: Size) -> Numbers:
    """A tool that takes a `Context` and reports its progress once, in an event stream.

    The cheapest call in which the handler says something before it returns: two events, and what decides
    that the answer is a stream of them.
    """
    peer = Peer(server, LEGACY)
    numbers, got = _one_by_one(server, size, peer, _count_to_one, "http report")
    for answer in got:
        if answer.count(b'"notifications/progress"') != 1:
            raise SystemExit(f"not one notification: {answer[:1000]!r}")
    _check(got)
    return numbers


def _count_to_one(peer: Peer, number: int) -> bytes:
    return _count(peer, number, 1)


def _count(peer: Peer, number: int, steps: int) -> bytes:
    """A call that reports so many times how far it is."""
    wanted = {"name": "count", "arguments": {"steps": steps}, "_meta": {"progressToken": number}}
    return peer.request(number, "tools/call", wanted)


TOOLS = (range(100, 200), range(200, 300))
"""Tools for each of two revisions: their names are equally long, and so are requests that name them."""
HOT_CALLS = 1000


def first_calls(server: HttpServer, revision: str, tools: range, name: str) -> Numbers:
    """The first call of each of many tools, in turns with calls of one that had a thousand before.

    The tools differ in nothing but their names. A server may be slower at the first call of a tool: because
    it looks at how earlier calls went, or because it prepares something when it is first needed. Two numbers
    show that. The median of the first calls stands beside that of the other server. And it is divided by the
    median of the calls after the thousandth of the one tool: the two kinds take turns, so that a machine
    that changes its speed slows both. A server that serves the first call like the thousandth has a ratio of
    one, give or take 3 %; a change of threads for the first call alone makes it about 1.25.

    The first of `tools` is the one with a past. The server itself is warm: `cold_start` measures what its
    own first call costs. An older commit whose programs have no such tools gives no numbers.
    """
    peer = Peer(server, revision)
    listed = peer.connection.ask(peer.request("list", "tools/list", {}))
    if f"look_up_{tools[-1]}" not in {tool["name"] for tool in result_of(listed)["tools"]}:
        return {}
    hot, *fresh = tools
    for n in counted(HOT_CALLS):
        peer.connection.ask(_look_up(peer, n, hot))
    ask, clock = peer.connection.ask, time.perf_counter
    first, later, got = [], [], []
    for tool in fresh:
        for which, seconds in ((tool, first), (hot, later)):
            request = _look_up(peer, next(counted(1)), which)
            sent = clock()
            answer = ask(request)
            seconds.append(clock() - sent)
            got.append(answer)
    _check(got)
    return {
        f"{name} first p50 µs": median(first) * 1e6,
        f"{name} first by later": median(first) / median(later),
    }


def _look_up(peer: Peer, number: int, tool: int) -> bytes:
    return peer.call(number, f"look_up_{tool}", query="x" * (1 + number % 7), limit=number)


COLD_STARTS = 5
EARLY_CALLS = 20


def cold_start(package: Package, size: Size) -> Numbers:
    """The first call that a server gets at all, and those up to the twentieth.

    Nothing came before but the handshake. What a server imports, compiles or remembers at its first call is
    in the first number: the shortest of some fresh servers, since that cost is in each of them, and what a
    busy machine adds to a single call is not. The second number is the median of the calls 2 to 20: it shows
    whether a server needs a few calls more until it is at its best.

    One call is a coarse measure, and a millisecond is little beside what a start takes. So the target of the
    first number is to be no more than twice as slow as the other server: a module that is imported by the
    first call would miss it by far.
    """
    first, early = [], []
    for _ in range(COLD_STARTS):
        with closing(HttpServer(package, "json")) as server:
            peer = Peer(server, LEGACY)
            requests = [_add(peer, n) for n in counted(EARLY_CALLS)]
            seconds, got = [], []
            for request in requests:
                sent = time.perf_counter()
                answer = peer.connection.ask(request)
                seconds.append(time.perf_counter() - sent)
                got.append(answer)
            _check(got)
            first.append(seconds[0])
            early += seconds[1:]
    return {"http cold first ms": min(first) * 1e3, "http cold early p50 µs": median(early) * 1e6}


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
    got, _ = _volley(peers, queues)
    wall, cpu = time.perf_counter() - start, server.cpu() - before
    _check(got)
    return {f"{name} calls/s": len(got) / wall, f"{name} CPU µs": cpu / len(got) * 1e6}


def _volley(peers: list[Peer], queues: Sequence[Iterator[bytes]]) -> tuple[list[bytes], list[float]]:
    """Every request of every queue, the next of a connection when its last is answered.

    The answers, and the seconds from each request to the end of its answer.
    """
    ready, clock = select.epoll(), time.perf_counter
    got, seconds, sent_at = [], [], {}
    open_sockets = {peer.connection.socket.fileno(): peer.connection.socket for peer in peers}
    queue_of = dict(zip(open_sockets, queues, strict=True))
    held = dict.fromkeys(open_sockets, b"")
    for number, connection in open_sockets.items():
        ready.register(number, select.EPOLLIN)
        sent_at[number] = clock()
        connection.sendall(next(queue_of[number]))
    busy = len(peers)
    while busy:
        events = ready.poll(PATIENCE)
        if not events:
            raise SystemExit(f"the server is silent, with {busy} calls unanswered")
        for number, _ in events:
            data = held[number] + open_sockets[number].recv(PIECE)
            if not is_whole(data):
                if data == held[number]:
                    raise SystemExit("the server closed a connection in the middle")
                held[number] = data
                continue
            held[number] = b""
            now = clock()
            seconds.append(now - sent_at[number])
            got.append(data)
            request = next(queue_of[number], None)
            if request is None:
                busy -= 1
            else:
                sent_at[number] = now
                open_sockets[number].sendall(request)
    ready.close()
    return got, seconds


CLIENTS, WAIT_MS, TURNS = 32, 5, 5
MOST_BUSY = 0.5
"""Of the time, on one core: what a load generator may use, or it would measure itself."""


def waiting(server: HttpServer, size: Size, name: str) -> Numbers:
    """A tool that sleeps 5 ms, called on 32 connections at once, in turns with `add` on the same ones.

    A server with room for all of them answers 6,400 calls a second at most: each connection sends its next
    call when the last is answered. So the load is bounded by itself, and the one thread that makes it has
    to do no more than a fraction of what it could.

    A call has to take its 5 ms, and whatever a quick one takes beside 31 others. The ratio says whether it
    takes more: the median beyond 5 ms, by the median of `add`. More than one means that a server pays extra
    for a tool that is not quick, such as a change of threads; less is usual, since calls that sleep are
    not in each other's way. No call is left out: the first 32 are counted. Calls a second are the median of
    the turns, of which a busy machine may hold up one or two.

    Of `add`, calls a second are a row, and its median is none: with 32 calls waiting for one interpreter the
    mean is fixed by how many it answers, 4.8 ms, and the median, 1.3 to 2.9 ms from turn to turn of one
    server, says only in which order its threads were let in: the less evenly, the better it looks.
    """
    peers = [Peer(server, LEGACY) for _ in range(CLIENTS)]
    each = size.http_parallel // CLIENTS // 3
    quick, slow, quick_walls, walls, cpu, busy = [], [], [], [], 0.0, 0.0
    for _ in range(TURNS):
        queues = _queues(peers, each, _add)
        start = time.perf_counter()
        got, seconds = _volley(peers, queues)
        quick_walls.append(time.perf_counter() - start)
        _check(got)
        quick += seconds
        queues = _queues(peers, each, _wait)
        cpu, busy, start = cpu - server.cpu(), busy - time.thread_time(), time.perf_counter()
        got, seconds = _volley(peers, queues)
        walls.append(time.perf_counter() - start)
        cpu, busy = cpu + server.cpu(), busy + time.thread_time()
        _check(got)
        slow += seconds
    if busy > MOST_BUSY * sum(walls):
        raise SystemExit(f"the load generator was busy for {busy:.2f} of {sum(walls):.2f} s")
    return {
        f"{name} calls/s": CLIENTS * each / median(walls),
        f"{name} p50 ms": median(slow) * 1e3,
        f"{name} CPU µs": cpu / len(slow) * 1e6,
        f"{name} quick calls/s": CLIENTS * each / median(quick_walls),
        f"{name} extra by quick": max(median(slow) - WAIT_MS / 1e3, 0.0) / median(quick),
    }


def _queues(peers: list[Peer], each: int, request_of: Callable[[Peer, int], bytes]) -> list[Iterator[bytes]]:
    """So many requests for each peer, made beforehand."""
    return [iter([request_of(peer, n) for n in counted(each)]) for peer in peers]


def _wait(peer: Peer, number: int) -> bytes:
    return peer.call(number, "nap", milliseconds=WAIT_MS)


STEPS = 1000


def progress(server: HttpServer, size: Size) -> Numbers:
    """A call that reports a thousand times how far it is."""
    peer = Peer(server, LEGACY)
    seconds = []
    for n in counted(1 + size.volleys):
        request = _count(peer, n, STEPS)
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
    together = parallel(server, size, "stream", "http stream x8")
    return alone | together | progress(server, size) | report_once(server, size)


def _first_json(server: HttpServer, size: Size) -> Numbers:
    legacy = first_calls(server, LEGACY, TOOLS[0], "http json")
    return legacy | first_calls(server, MODERN, TOOLS[1], "http modern")


def _first_stream(server: HttpServer, size: Size) -> Numbers:
    return first_calls(server, LEGACY, TOOLS[0], "http stream")


GROUPS = (
    Group("http-json", _json, lambda package: HttpServer(package, "json")),
    Group("http-stream", _stream, lambda package: HttpServer(package, "stream")),
    Group("http-first-json", _first_json, lambda package: HttpServer(package, "json", TOOLS[1].stop)),
    Group("http-first-stream", _first_stream, lambda package: HttpServer(package, "stream", TOOLS[0].stop)),
    Group("http-cold", cold_start),
    Group(
        "http-wait-json",
        lambda server, size: waiting(server, size, "http wait json"),
        lambda package: HttpServer(package, "json"),
    ),
    Group(
        "http-wait-stream",
        lambda server, size: waiting(server, size, "http wait stream"),
        lambda package: HttpServer(package, "stream"),
    ),
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
