"""A server for the command line to look at."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest
from peers import PATIENCE

ROOT = Path(__file__).resolve().parents[2]
SERVER = """
import sys
import threading
from mcp_ref import Context, ElicitUrl, Server, UrlElicitationRequired

ended = threading.Event()  # no tool waits
ended.set()
server = Server("demo", version="1.0.0", title="A demo", instructions="Ask it.")

@server.tool
def add(a: int, b: int) -> int:
    "Add two numbers."
    return a + b

@server.tool
def say(text: str, ctx: Context) -> str:
    ctx.log("info", "asked")
    return text

@server.tool
def fail() -> str:
    raise ValueError("it broke")

@server.tool
def wait(ctx: Context) -> str:
    ctx.progress(1, 2, "half")
    ended.clear()
    print("waiting", file=sys.stderr, flush=True)
    try:
        ctx.sleep(60)
    except BaseException as problem:
        print("ended:", problem, file=sys.stderr, flush=True)
        raise
    finally:
        ended.set()
    return "done"

@server.tool
def where(ctx: Context) -> list[str]:
    return [root["uri"] for root in ctx.list_roots()]

@server.tool
def asked(ctx: Context) -> str:
    ctx.progress(1, 2, "asking")
    return ctx.elicit("Sure?").action

asked_to_pay = []

def complete():
    for _ in range(1000):  # until the server has noted who was asked
        if server.elicitation_complete("payment"):
            return
        threading.Event().wait(0.02)

@server.tool
def pay() -> str:
    if asked_to_pay:
        return "paid"
    asked_to_pay.append("once")
    threading.Thread(target=complete, daemon=True).start()
    raise UrlElicitationRequired(ElicitUrl("Pay first", "https://example.com/pay", "payment"))

@server.resource("demo://motto", mime_type="text/plain", size=4)
def motto(ctx: Context) -> str:
    "What we think."
    ctx.log("info", "read")
    return "So\\x1b!"

@server.resource("demo://picture")
def picture() -> bytes:
    return bytes([0, 255, 10])

def tables(value: str, arguments: dict[str, str]) -> list[str]:
    return [arguments.get("room", "?")]

@server.resource("demo://{room}/{table}", complete={"table": tables})
def table(room: str, table: str) -> str:
    return f"{table} in {room}"

@server.resource("demo://ask")
def ask(ctx: Context) -> str:
    return ctx.elicit("Sure?").action

@server.prompt(complete={"text": [f"value {n}" for n in range(120)]})
def repeat(text: str, ctx: Context) -> str:
    "Say it again."
    ctx.progress(1, 2, "half")
    return f"Say: {text}"

other = 5
if __name__ == "__main__":
    server.run()
    ended.wait(1.3)  # less than the client's grace
"""

CHANGING = """
import threading
import time
from mcp_ref import Server

server = Server("changing")
server.add_tool(lambda: "one", name="one")
server.add_resource(lambda: "", "demo://a", name="a")

def change():
    while True:
        server.resource_updated("demo://a")
        server.add_tool(lambda: "new", name="new", replace=True)
        time.sleep(0.02)

threading.Thread(target=change, daemon=True).start()
server.run()
"""


WORK = """
import sys
from pathlib import Path
from mcp_ref import Context, Server, SqliteStore, TaskOptions

here = Path(__file__).parent
options = TaskOptions(poll_interval=0.05, store=SqliteStore(here / "tasks") if sys.argv[1:] else None)
server = Server("work", tasks=options)

@server.tool(task="required")
def build(ctx: Context) -> str:
    "Goes on until there is a file."
    ctx.progress(1, 3, "building\x1b[2J")
    try:
        while not (here / "go").exists():
            ctx.sleep(0.02)
    finally:
        if ctx.cancelled:
            (here / "ended").touch()
    return "built"

@server.tool(task="required")
def sure(ctx: Context) -> str:
    return "yes" if ctx.confirm("Really?") else "no"

@server.tool(task="optional")
def quick() -> str:
    return "done"

@server.tool
def plain() -> str:
    return "done"

@server.tool(task="required")
def fail(ctx: Context) -> str:
    ctx.status("trying")
    raise ValueError("it broke")

if __name__ == "__main__":
    server.run()
"""


@pytest.fixture
def work(tmp_path: Path) -> list[str]:
    """The command of a server whose tools run as tasks; a word more has it keep them in a file."""
    path = tmp_path / "work.py"
    path.write_text(WORK)
    return ["--", sys.executable, str(path)]


TAKES_TERMINAL = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""
"""Makes stdin, a pseudo-terminal, the controlling terminal of what it then becomes."""


class Person:
    """Runs `mcp-ref` at a terminal: sees what is written there, and types.

    Its stdout is a pipe, or, `all_of_it`, the terminal as well.
    """

    def __init__(self, *words: str, all_of_it: bool = False) -> None:
        self.screen, line = os.openpty()
        command = [sys.executable, "-c", TAKES_TERMINAL, sys.executable, "-m", "mcp_ref", *words]
        self.child = subprocess.Popen(
            command,
            cwd=ROOT,
            stdin=line,
            stderr=line,
            stdout=line if all_of_it else subprocess.PIPE,
            start_new_session=True,
        )
        os.close(line)
        self.seen = ""

    def sees(self, text: str) -> str:
        """Wait for a text; returns all that came since the last time, up to its end."""
        until = time.monotonic() + PATIENCE
        while text not in self.seen:
            ready = select.select([self.screen], [], [], max(0.0, until - time.monotonic()))[0]
            assert ready, f"no {text!r} in {self.seen!r}"
            self.seen += os.read(self.screen, 65_536).decode().replace("\r\n", "\n")
        before, _, self.seen = self.seen.partition(text)
        return before + text

    def types(self, text: str) -> None:
        os.write(self.screen, text.encode())

    def ends(self) -> tuple[int, str, str]:
        """The exit code, what was printed, and what else was to be seen."""
        out, _ = self.child.communicate(timeout=PATIENCE)
        while True:  # the terminal has no writer any more: what is left, and then an error
            try:
                self.seen += os.read(self.screen, 65_536).decode().replace("\r\n", "\n")
            except OSError:
                return self.child.returncode, (out or b"").decode(), self.seen

    def __enter__(self) -> Person:
        return self

    def __exit__(self, *exception: object) -> None:
        self.child.kill()
        self.child.communicate()
        os.close(self.screen)


@pytest.fixture
def server(tmp_path: Path) -> list[str]:
    """The command of a server, as it stands behind `--`."""
    path = tmp_path / "shop.py"
    path.write_text(SERVER)
    return ["--", sys.executable, str(path)]


@pytest.fixture(autouse=True)
def from_the_tree(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))


@pytest.fixture
def changing(tmp_path: Path) -> list[str]:
    """The command of a server on which something changes all the time."""
    path = tmp_path / "changing.py"
    path.write_text(CHANGING)
    return ["--", sys.executable, str(path)]
