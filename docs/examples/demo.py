"""The demo: a client and a server, two processes over stdio, and everything they say.

    make demo        or: python docs/examples/demo.py

The same few lines of Python run twice, once in each era of the protocol; then a tool that asks something
before it goes on, again in both; then one that goes on after the answer, as a task. Between the two processes
stands wire.py, which shows each message as it crosses.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import wire

from mcp_ref import Client, ClientOptions, connect
from mcp_ref.client.elicitation.requests import ElicitationRequest

HERE = Path(__file__).parent
COMMAND = [sys.executable, str(HERE / "wire.py"), sys.executable, str(HERE / "demo_server.py")]
LEGACY, MODERN = "2025-11-25", "2026-07-28"
SESSIONS = {
    LEGACY: "the legacy era: initialize opens a session, which remembers the client",
    MODERN: "the modern era: no session, every request says in _meta who asks",
}
QUESTIONS = {
    LEGACY: """a question in the legacy era: the server sends a request of its own

  Until elicitation/create is answered, the thread that runs book() waits inside of ctx.elicit(...).
""",
    MODERN: """a question in the modern era: the server answers with it

  ctx.elicit(...) ends book(). The client calls again, with its reply in inputResponses, and with
  the requestState, in which the server has signed how far it was. So book() runs again from its
  top, and this time ctx.elicit(...) returns at once.
""",
}
TASKS = {
    LEGACY: """a task in the legacy era: the client asks for one

  The call is answered at once. tasks/result waits for what comes of it, and meanwhile the task asks
  its question, as any request does. What it reports is progress.
""",
    MODERN: """a task in the modern era: the server decides

  The call is answered at once. The client listens to the task, and takes question and result from
  what is said of it; tasks/update answers. What it reports is its statusMessage.
""",
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


def book(client: Client) -> dict[str, object]:
    """A tool that asks: its caller sees nothing of that."""
    return {'book("Friday")': client.call_tool("book", {"day": "Friday"}).text}


def render(client: Client) -> dict[str, object]:
    """A tool that takes long: it is started, and followed until it is over."""
    reports: list[tuple[object, ...]] = []  # they are seen on the wire
    task = client.start_tool("render", {"film": "rain"}, ttl=60, on_progress=lambda *r: reports.append(r))
    statuses = dict.fromkeys(state.status for state in task.updates())
    parts = [block["type"] for block in task.result()["content"]]
    return {"statuses of the task": ", ".join(statuses), 'render("rain")': ", ".join(parts)}


def ask(question: ElicitationRequest) -> object:
    """Stands where a person would be asked: see mcp_ref.cli.terminal."""
    return {"guests": 4} if question.fields else True


def session(revision: str, run: Callable[[Client], dict[str, object]]) -> dict[str, object]:
    """One session, shown on the screen; what came of it."""
    passed = []

    def show(line: str) -> None:
        passed.append(line)
        print(line, flush=True)

    env = {"FORCE_COLOR": "1"} if wire.wants_colour(sys.stdout) else {"NO_COLOR": "1"}
    options = ClientOptions(name="demo client", on_stderr=show, env=env, grace=10)
    with connect(COMMAND, revision=revision, elicitation=ask, options=options) as client:
        found = run(client)
    found["messages on the wire"] = sum('"jsonrpc"' in line for line in passed)
    if begun := sum("book() begins" in line for line in passed):
        found["runs of book()"] = begun
    return found


def main() -> None:
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `demo.py | head` ends quietly
    wire.coloured = wire.wants_colour(sys.stdout)
    print("A client --> and a server <--, two processes, joined by two pipes.")
    server = os.path.relpath(HERE / "demo_server.py")
    print(f"The server is {server}: the functions add, count, book and render.")
    results = []
    for run, sessions in (use, SESSIONS), (book, QUESTIONS), (render, TASKS):
        results.append({})
        for revision, about in sessions.items():
            title, _, more = about.partition("\n")
            print("\n" + wire.paint(f"== {revision}, {title}", "title") + f"\n{more}")
            results[-1][revision] = session(revision, run)

    print("\n" + wire.paint("== The result: one script, both eras", "title") + "\n")
    print(" " * 24 + "".join(revision.ljust(38) for revision in SESSIONS).rstrip())
    for found in results:
        for row in found[LEGACY]:
            print(f"  {row:22}" + "".join(str(of[row]).ljust(38) for of in found.values()).rstrip())
        print()

    example = os.path.relpath(HERE / "quickstart_server.py")
    print(wire.paint("== The next step", "title") + "\n")
    print(f"  Change {os.path.relpath(HERE / 'demo_server.py')} and run this again.")
    print(f"  Write your own: docs/quickstart.rst begins with {example}.")
    print("  Read a page of the specification beside its module: server/tools is mcp_ref/server/tools.py.")
    print("  The pages are at https://modelcontextprotocol.io/specification/2026-07-28/server/tools")


if __name__ == "__main__":
    main()
