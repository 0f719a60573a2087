"""A server for the command line to look at."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SERVER = """
import sys
from mcp_ref import Context, Server

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

other = 5
if __name__ == "__main__":
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
