"""A server for the command line to look at."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SERVER = """
import sys
import threading
from mcp_ref import Context, ElicitUrl, Server, UrlElicitationRequired

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
    print("waiting", file=sys.stderr, flush=True)
    try:
        ctx.sleep(60)
    except BaseException as problem:
        print("ended:", problem, file=sys.stderr, flush=True)
        raise
    return "done"

@server.tool
def where(ctx: Context) -> list[str]:
    return [root["uri"] for root in ctx.list_roots()]

@server.tool
def asked(ctx: Context) -> str:
    ctx.progress(1, 2, "asking")
    return ctx.elicit("Sure?").action

asked_to_pay = []

@server.tool
def pay() -> str:
    if asked_to_pay:
        return "paid"
    asked_to_pay.append("once")
    threading.Timer(0.05, server.elicitation_complete, ["payment"]).start()
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
