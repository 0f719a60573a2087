"""What is measured. Each function takes a process and a size, and gives numbers by the metric's name."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from wire import LEGACY, MODERN, PATIENCE, Client, Package, Process, Server, TaskServer, counted

Numbers = dict[str, float]
median = statistics.median


@dataclass(frozen=True)
class Size:
    """How much of everything in one round."""

    rounds: int = 7
    calls: int = 1500
    pipelined: int = 3000
    echoes: int = 50
    volleys: int = 3
    lists: int = 30
    imports: int = 5
    client_calls: int = 1500
    http_calls: int = 1000
    http_parallel: int = 3000


QUICK = Size(
    rounds=3,
    calls=600,
    pipelined=1500,
    echoes=25,
    volleys=2,
    lists=15,
    imports=3,
    client_calls=600,
    http_calls=400,
    http_parallel=1000,
)


def sequential(server: Server, size: Size, name: str = "sequential") -> Numbers:
    """`add`, the next call when the last is answered."""
    ids = list(counted(size.calls + size.calls // 5))
    lines = [server.call(n, "add", a=n, b=1) for n in ids]
    for request in lines[size.calls :]:
        server.write(request)
        server.read_line()
    seconds, clock, write, read = [], time.perf_counter, server.write, server.read_line
    before, start = server.cpu(), clock()
    for request in lines[: size.calls]:
        sent = clock()
        write(request)
        read()
        seconds.append(clock() - sent)
    wall, cpu = clock() - start, server.cpu() - before
    if server.ask(server.call("sum", "add", a=2, b=3))["structuredContent"] != {"result": 5}:
        raise SystemExit("a wrong sum")
    return {
        f"{name} p50 µs": median(seconds) * 1e6,
        f"{name} calls/s": size.calls / wall,
        f"{name} CPU µs": cpu / size.calls * 1e6,
    }


IN_FLIGHT = 64


def pipelined(server: Server, size: Size) -> Numbers:
    """`add`, a new call for each that is answered."""
    lines = [server.call(n, "add", a=n, b=1) for n in counted(size.pipelined)]
    before, start = server.cpu(), time.perf_counter()
    server.write(b"".join(lines[:IN_FLIGHT]))
    sent, answered = IN_FLIGHT, 0
    while answered < len(lines):
        come = server.read().count(b"\n")
        answered += come
        more = lines[sent : sent + come]
        if more:
            server.write(b"".join(more))
            sent += len(more)
    wall, cpu = time.perf_counter() - start, server.cpu() - before
    return {"pipelined calls/s": len(lines) / wall, "pipelined CPU µs": cpu / len(lines) * 1e6}


MEBI = 1 << 20


def echo(server: Server, size: Size) -> Numbers:
    """A mebibyte of text there, and back as content and as structured content."""
    text = "abcdefghijklmno " * (MEBI // 16)
    if server.ask(server.call("echo", "echo", text=text))["structuredContent"] != {"result": text}:
        raise SystemExit("a wrong echo")
    lines = [server.call(n, "echo", text=text) for n in counted(size.echoes)]
    seconds, before = [], server.cpu()
    for request in lines:
        start = time.perf_counter()
        server.write(request)
        if len(server.read_line()) < 2 * MEBI:
            raise SystemExit("a short echo")
        seconds.append(time.perf_counter() - start)
    cpu = server.cpu() - before
    return {"echo MB/s": MEBI / 1e6 / median(seconds), "echo CPU ms": cpu / size.echoes * 1e3}


NAPS, NAP = 50, 100


def naps(server: Server, size: Size) -> Numbers:
    """Many calls that sleep, and pings meanwhile, one after another with a short pause between."""
    volley(server)  # threads that a server starts and keeps are there after the first time
    walls, pings = [], []
    for _ in range(size.volleys):
        wall, seconds = volley(server)
        walls.append(wall)
        pings += seconds
    return {
        "naps wall ms": median(walls) * 1e3,
        "naps ping p50 µs": median(pings) * 1e6,
        "naps ping worst ms": max(pings) * 1e3,
    }


def volley(server: Server) -> tuple[float, list[float]]:
    """The time until the last of the sleeping calls is answered, and that of each ping meanwhile."""
    calls = b"".join(server.call(n, "nap", milliseconds=NAP) for n in counted(NAPS))
    asleep, pings, clock = NAPS, [], time.perf_counter
    start = woken = clock()
    server.write(calls)
    while asleep:
        ping = server.request("ping", "ping", {})
        sent = clock()
        server.write(ping)
        answered = False
        while not answered:
            for answer in server.lines():
                if b'"ping"' in answer:
                    answered = True
                    pings.append(clock() - sent)
                else:
                    asleep, woken = asleep - 1, clock()
        pause = clock() + 0.001
        while (left := pause - clock()) > 0:
            if asleep and server.wait(left):
                asleep, woken = asleep - len(server.lines()), clock()
    return woken - start, pings


MANY = 1000


def list_tools(server: Server, size: Size) -> Numbers:
    """All tools of a server that has a thousand."""
    found = server.ask(server.request("list", "tools/list", {}))
    if len(found["tools"]) < MANY:
        raise SystemExit("not all tools on one page")
    seconds = []
    for n in counted(size.lists):
        request = server.request(n, "tools/list", {})
        start = time.perf_counter()
        server.write(request)
        server.read_line()
        seconds.append(time.perf_counter() - start)
    return {"list p50 ms": median(seconds) * 1e3, "list mean ms": statistics.fmean(seconds) * 1e3}


def importing(package: Package, size: Size) -> Numbers:
    """What `import package` adds to a new process, which also looks at the clock."""
    seconds = [float(_python(package, IMPORT.format(package.name))) for _ in range(size.imports)]
    return {"import ms": median(seconds) * 1e3}


IMPORT = "import time; start = time.perf_counter(); import {}; print(time.perf_counter() - start)"


def _python(package: Package, code: str) -> bytes:
    # -P: not from the folder in which this runs.
    command, settings = [sys.executable, "-P", "-c", code], package.environment
    return subprocess.run(command, env=settings, check=True, timeout=PATIENCE, capture_output=True).stdout


def client(process: Client, size: Size, name: str = "client") -> Numbers:
    """`call_tool("add")` of a client library against the raw server."""
    process.calls(size.client_calls // 5)
    report = process.calls(size.client_calls)
    return {
        f"{name} p50 µs": median(report["seconds"]) * 1e6,
        f"{name} CPU µs": report["cpu"] / size.client_calls * 1e6,
    }


def beginning(server: Server) -> Numbers:
    """What a server's start was like. Called right after it."""
    server.ask(server.request("settled", "ping", {}))
    return {"start ms": server.first_answer * 1e3, "memory MiB": server.memory()}


PAUSE_SECONDS = 0.002


def tasks(server: TaskServer, size: Size) -> Numbers:
    """What a call costs as a task: to begin it, to look at it, to fetch its result; each by a plain call.

    Before each request there is a pause, so that the task before it has run: what is measured is how long
    one request takes on a server that has nothing else to do.
    """
    seconds: dict[str, list[float]] = {"call": [], "create": [], "get": [], "result": []}
    for n in counted(size.calls // 4):
        arguments = {"a": n, "b": 1}
        _timed(server, server.call(n, "add", **arguments), seconds["call"])
        begin = server.request(n, "tools/call", {"name": "later", "arguments": arguments, "task": {}})
        task = {"taskId": _timed(server, begin, seconds["create"])["task"]["taskId"]}
        _timed(server, server.request(n, "tasks/get", task), seconds["get"])
        result = _timed(server, server.request(n, "tasks/result", task), seconds["result"])
        if result["structuredContent"] != {"result": n + 1}:
            raise SystemExit("a wrong result of a task")
    medians = {act: median(found) for act, found in seconds.items()}
    return {
        f"tasks {server.store} {act} by call": medians[act] / medians["call"]
        for act in ("create", "get", "result")
    }


def _timed(server: Server, request: bytes, seconds: list[float]) -> Any:
    """The result of a request, after a pause. Notifications beside it are passed over."""
    time.sleep(PAUSE_SECONDS)
    start = time.perf_counter()
    server.write(request)
    while True:
        for line in server.lines():
            if b'"result"' in line:
                seconds.append(time.perf_counter() - start)
                return json.loads(line)["result"]


@dataclass(frozen=True)
class Group:
    """Metrics that are measured together, on one process."""

    name: str
    measure: Callable[[Any, Size], Numbers]
    start: Callable[[Package], Process | None] | None = None
    """None if the package has nothing of the kind."""


def _modern(server: Server, size: Size) -> Numbers:
    return sequential(server, size, "modern")


def _modern_client(process: Client, size: Size) -> Numbers:
    return client(process, size, "modern client")


def _start(server: Server, size: Size) -> Numbers:
    return beginning(server)


GROUPS = (
    Group("start", _start, lambda package: Server(package, LEGACY)),
    Group("sequential", sequential, lambda package: Server(package, LEGACY)),
    Group("modern", _modern, lambda package: Server(package, MODERN)),
    Group("pipelined", pipelined, lambda package: Server(package, LEGACY)),
    Group("echo", echo, lambda package: Server(package, LEGACY)),
    Group("naps", naps, lambda package: Server(package, LEGACY)),
    Group("list", list_tools, lambda package: Server(package, LEGACY, str(MANY))),
    Group("import", importing),
    Group("client", client, lambda package: Client(package, LEGACY)),
    Group("modern-client", _modern_client, lambda package: Client(package, MODERN)),
    Group("tasks-memory", tasks, lambda package: TaskServer.of(package, "memory")),
    Group("tasks-sqlite", tasks, lambda package: TaskServer.of(package, "sqlite")),
)


def once(group: Group, package: Package, size: Size) -> Numbers:
    """One group, one package, one round."""
    if group.start is None:
        return group.measure(package, size)
    process = group.start(package)
    if process is None:
        return {}
    try:
        return group.measure(process, size)
    finally:
        process.close()


def pin() -> None:
    """This process and all it starts on one core: less like life, and steadier."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
