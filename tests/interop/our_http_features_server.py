"""A server of this package with what HTTP has and pipes have not. Arguments: its revisions."""

import sys
import threading
from pathlib import Path
from typing import Annotated, Any

from mcp_ref import Context, Server
from mcp_ref.schema import REVISIONS

server = Server("ours", version="1.2.3", revisions=sys.argv[1:] or REVISIONS)
gates: dict[str, threading.Event] = {}
begins: dict[str, threading.Event] = {}
ends: dict[str, str] = {}
ended = threading.Condition()


def gate(name: str) -> threading.Event:
    return gates.setdefault(name, threading.Event())


def begun(name: str) -> threading.Event:
    return begins.setdefault(name, threading.Event())


def end(name: str, how: str) -> None:
    with ended:
        ends[name] = how
        ended.notify_all()


@server.tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool
def hold(name: str, ctx: Context, says: int = 0) -> str:
    """Goes on as soon as somebody opens it: silently, or after it has told of its progress."""
    for n in range(says):
        ctx.progress(n + 1)
    begun(name).set()
    try:
        while not gate(name).wait(0.01):
            ctx.check_cancelled()
    except BaseException:
        end(name, str(ctx.reason))
        raise
    end(name, "opened")
    for n in range(says):
        ctx.progress(says + n + 1)
    return f"held {name}"


@server.tool
def has_begun(name: str) -> bool:
    """Whether a call of `hold` runs; it is waited for."""
    return begun(name).wait(20)


@server.tool
def release(name: str, once: str = "") -> None:
    """Opens it, now or once there is a file."""
    if once:
        threading.Thread(target=release_once, args=(name, Path(once)), daemon=True).start()
    else:
        gate(name).set()


def release_once(name: str, file: Path) -> None:
    while not file.exists() and not gate(name).wait(0.01):
        pass
    gate(name).set()


@server.tool
def how_it_ended(name: str) -> str:
    """What became of a call of `hold`; it is waited for."""
    with ended:
        ended.wait_for(lambda: name in ends, 20)
        return ends.get(name, "not yet")


@server.tool
def poll(ctx: Context, times: int = 2) -> str:
    """Has its client leave, and come back."""
    left = []
    for n in range(times):
        ctx.progress(n)
        left.append(ctx.close_stream())
        ctx.sleep(0.05)  # while which the client has gone
        ctx.progress(n + 0.5)
    return f"left {left.count(True)}"


@server.tool
def headers(ctx: Context) -> dict[str, str]:
    """What came with the request that this is."""
    return {name.lower(): value for name, value in ctx.http.headers.items()}


@server.tool
def mirrored(
    ctx: Context,
    region: Annotated[str, {"x-mcp-header": "Region"}],
    number: Annotated[int, {"x-mcp-header": "Number"}] = 0,
    sure: Annotated[bool, {"x-mcp-header": "Sure"}] = False,
) -> list[Any]:
    """Has arguments that are in headers too."""
    return [region, number, sure]


@server.tool
def confirm(ctx: Context) -> str:
    """Asks for yes or no."""
    return ctx.elicit("Sure?", timeout=20).action


@server.tool
def log(ctx: Context) -> None:
    """Says something."""
    ctx.log("error", "loud", "speaker")


@server.tool
def change() -> str:
    """Adds a tool, or takes it away."""
    try:
        server.remove_tool("new")
    except KeyError:
        server.add_tool(lambda: "new", name="new", description="New.")
    return "changed"


@server.tool
def touch(uri: str) -> None:
    """Says that a resource changed."""
    server.resource_updated(uri)


@server.resource("text://one")
def one() -> str:
    return "one"


@server.prompt
def greet(name: str) -> str:
    """Greets somebody."""
    return f"Hello {name}"


if __name__ == "__main__":
    server.run()
