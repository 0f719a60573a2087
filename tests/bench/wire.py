"""The raw peer: a client of neither SDK, with nothing between it and the pipes of the process it measures.

It writes lines that were made beforehand and reads until a newline; what it does with JSON happens
while no clock runs. The process at the other end is measured from outside: its CPU time by its clock
in the kernel, its memory by what /proc says.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
LEGACY, MODERN = "2025-11-25", "2026-07-28"
META = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientInfo": {"name": "raw", "version": "1.0.0"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
PATIENCE = 60.0
"""Seconds after which a silent process is an error of the benchmark."""


def _is_foreign(name: str) -> bool:
    return name.startswith("PYTHON") or name.lower().endswith("_proxy")


@dataclass(frozen=True)
class Package:
    """What is measured: a package, imported from the tree in which it stands."""

    name: str
    tree: Path = ROOT
    """Holds `mcp_ref`: this tree, or that of an older commit. The official SDK is installed."""

    @property
    def peers(self) -> Path:
        """The programs that use the package, from its own tree: they know how its functions are called."""
        return self.tree / "tests" / "bench" / "peers"

    @property
    def environment(self) -> dict[str, str]:
        """Python as it is by default, with its bytecode kept and no proxy; the package out of its tree."""
        kept = {name: value for name, value in os.environ.items() if not _is_foreign(name)}
        return kept | {"PYTHONPATH": str(self.tree)}


OURS, OFFICIAL = Package("mcp_ref"), Package("mcp")


def line(message: dict[str, Any]) -> bytes:
    """A message as a line."""
    return json.dumps({"jsonrpc": "2.0", **message}, separators=(",", ":")).encode() + b"\n"


class Process:
    """A child and its pipes."""

    def __init__(self, package: Package, script: str, *arguments: str) -> None:
        self.script = script
        self.started = time.perf_counter()
        self._child = subprocess.Popen(
            [sys.executable, str(package.peers / self.script), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=package.environment,
            bufsize=0,
        )
        assert self._child.stdin is not None and self._child.stdout is not None
        self.input, self.output = self._child.stdin.fileno(), self._child.stdout.fileno()
        self._readable = select.poll()
        self._readable.register(self.output, select.POLLIN)
        self._held = b""

    def write(self, data: bytes) -> None:
        """All of it."""
        view = memoryview(data)
        while view:
            view = view[os.write(self.input, view) :]

    def read(self) -> bytes:
        """Whatever there is, as soon as there is something."""
        data = os.read(self.output, 1 << 20)
        if not data:
            raise SystemExit(f"{self.script} ended in the middle")
        return data

    def wait(self, seconds: float = PATIENCE) -> bool:
        """Whether there is something to read within that time."""
        return bool(self._readable.poll(seconds * 1000))

    def read_line(self) -> bytes:
        """One line, where no more than one can come."""
        if not self.wait():
            raise SystemExit(f"{self.script} says nothing")
        data = self.read()
        if data.endswith(b"\n"):
            return data
        parts = [data]
        while not parts[-1].endswith(b"\n"):
            parts.append(self.read())
        return b"".join(parts)

    def lines(self) -> list[bytes]:
        """The lines that are complete, of what there is."""
        *complete, self._held = (self._held + self.read()).split(b"\n")
        return complete

    def cpu(self) -> float:
        """Seconds of CPU that the process has used, all threads together (Linux)."""
        # The kernel's name for the clock of another process: linux/posix-timers.h.
        return time.clock_gettime(~self._child.pid << 3 | 2)

    def memory(self) -> float:
        """Resident memory in MiB (Linux)."""
        status = Path(f"/proc/{self._child.pid}/status").read_text(encoding="ascii")
        return int(status.partition("VmRSS:")[2].split()[0]) / 1024

    @property
    def has_ended(self) -> bool:
        """Whether the child is there no more."""
        return self._child.poll() is not None

    def terminate(self) -> None:
        """Ask it to end, where closing its input does not say so."""
        self._child.terminate()

    def close(self) -> None:
        """End it as a client does: by closing its input."""
        for pipe in (self._child.stdin, self._child.stdout):
            assert pipe is not None
            pipe.close()
        try:
            self._child.wait(5)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()


class Server(Process):
    """A server under load, in one revision."""

    def __init__(self, package: Package, revision: str, *arguments: str, script: str = "") -> None:
        """By default the usual server; `arguments` are its own: how many tools it has besides."""
        usual = () if script else ("0",)
        super().__init__(package, script or f"server_{package.name}.py", *(arguments or usual))
        self.revision = revision
        self.greeting = self._greet()
        self.first_answer = time.perf_counter() - self.started
        if "result" not in self.greeting:
            raise SystemExit(f"{package.name} refused {revision}: {self.greeting}")
        if revision == LEGACY:
            self.write(line({"method": "notifications/initialized"}))

    def _greet(self) -> Any:
        if self.revision == MODERN:
            self.write(self.request("hello", "server/discover", {}))
        else:
            hello = {"protocolVersion": self.revision, "capabilities": {}}
            hello["clientInfo"] = {"name": "raw", "version": "1.0.0"}
            self.write(self.request("hello", "initialize", hello))
        return json.loads(self.read_line())

    def request(self, request_id: int | str, method: str, params: dict[str, Any]) -> bytes:
        """The line of a request."""
        if self.revision == MODERN:
            params = {**params, "_meta": META}
        return line({"id": request_id, "method": method, "params": params})

    def call(self, request_id: int | str, tool: str, **arguments: Any) -> bytes:
        """The line of a call."""
        return self.request(request_id, "tools/call", {"name": tool, "arguments": arguments})

    def ask(self, request: bytes) -> Any:
        """The answer to one request."""
        self.write(request)
        answer = json.loads(self.read_line())
        if "result" not in answer or answer["result"].get("isError"):
            raise SystemExit(f"a wrong answer: {str(answer)[:500]}")
        return answer["result"]


class TaskServer(Server):
    """A server of ours that runs calls as tasks, in 2025-11-25."""

    script_name = "tasks_mcp_ref.py"

    def __init__(self, package: Package, store: str) -> None:
        self.store = store
        self._folder = tempfile.TemporaryDirectory(prefix="mcp_ref-bench-")
        file = [str(Path(self._folder.name, "tasks.sqlite"))] if store == "sqlite" else []
        super().__init__(package, LEGACY, *file, script=self.script_name)

    @classmethod
    def of(cls, package: Package, store: str) -> TaskServer | None:
        """None for a package that has no such program."""
        has_tasks = package.name == OURS.name and (package.peers / cls.script_name).is_file()
        return cls(package, store) if has_tasks else None

    def close(self) -> None:
        """End it, and its file."""
        super().close()
        self._folder.cleanup()


class Client(Process):
    """A client library, against the raw server."""

    def __init__(self, package: Package, revision: str, *target: str) -> None:
        raw = (sys.executable, str(HERE / "peers" / "raw_server.py"))
        super().__init__(package, f"client_{package.name}.py", revision, *(target or raw))
        self.revision = revision

    def calls(self, number: int) -> Any:
        """Have it make so many calls; how long each took."""
        self.write(b"%d\n" % number)
        report = json.loads(self.read_line())
        if report["revision"] != self.revision:
            raise SystemExit(f"{self.script} speaks {report['revision']}, not {self.revision}")
        return report


def counted(number: int) -> Iterator[int]:
    """Ids that no other request of this benchmark has."""
    global _last
    _last += number
    yield from range(_last - number, _last)


_last = 0
