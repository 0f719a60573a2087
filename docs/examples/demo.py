"""The demo: a client and a server, two processes over stdio, and everything they say.

    make demo        or: python docs/examples/demo.py

The same few lines of Python run twice, once in each era of the protocol. Between the two processes
stands wire.py, which shows each message as it crosses.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import wire

from mcp_ref import Client, connect

HERE = Path(__file__).parent
COMMAND = [sys.executable, str(HERE / "wire.py"), sys.executable, str(HERE / "demo_server.py")]
SESSIONS = {
    "2025-11-25": "the legacy era: initialize opens a session, which remembers the client",
    "2026-07-28": "the modern era: no session, every request says in _meta who asks",
}


def use(client: Client) -> dict[str, object]:
    """What a script does with a server: the same in both eras."""
    tools = client.list_tools()
    total = client.call_tool("add", {"a": 2, "b": 3})
    reports: list[float] = []
    words = client.call_tool("count", {"upto": 3}, on_progress=lambda n, of, said: reports.append(n))
    return {
        "tools": ", ".join(tool["name"] for tool in tools),
        "add(2, 3)": total.text,
        "count(3)": words.text,
        "progress reports": len(reports),
    }


def session(revision: str) -> dict[str, object]:
    """One session, shown on the screen; what came of it."""
    passed = []

    def show(line: str) -> None:
        passed.append(line)
        print(line, flush=True)

    colours = {"FORCE_COLOR": "1"} if wire.wants_colour(sys.stdout) else {"NO_COLOR": "1"}
    with connect(COMMAND, revision=revision, name="demo client", env=colours, on_stderr=show) as client:
        found = use(client)
    return {**found, "messages on the wire": sum('"jsonrpc"' in line for line in passed)}


def main() -> None:
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `demo.py | head` ends quietly
    wire.coloured = wire.wants_colour(sys.stdout)
    print("A client --> and a server <--, two processes, joined by two pipes.")
    print(f"The server is {os.path.relpath(HERE / 'demo_server.py')}: two functions, add and count.")
    results = {}
    for revision, about in SESSIONS.items():
        print("\n" + wire.paint(f"== {revision}, {about}", "title") + "\n")
        results[revision] = session(revision)

    print("\n" + wire.paint("== The result: one script, both eras", "title") + "\n")
    print(" " * 24 + "".join(revision.ljust(38) for revision in results).rstrip())
    for row in results["2025-11-25"]:
        print(f"  {row:22}" + "".join(str(found[row]).ljust(38) for found in results.values()).rstrip())

    example = os.path.relpath(HERE / "quickstart_server.py")
    print("\n" + wire.paint("== The next step", "title") + "\n")
    print(f"  Change {os.path.relpath(HERE / 'demo_server.py')} and run this again.")
    print(f"  Write your own: docs/quickstart.rst begins with {example}.")
    print("  Read a page of the specification beside its module: server/tools is mcp_ref/server/tools.py.")
    print("  The pages are at https://modelcontextprotocol.io/specification/2026-07-28/server/tools")


if __name__ == "__main__":
    main()
