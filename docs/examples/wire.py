"""Watch the wire: put this before the command of any MCP server that speaks stdio.

    python wire.py python server.py

It starts the server, copies each line in both directions, and shows it on stderr as it passes:
which way it goes, when, what it is, which page of the specification tells about it, and the JSON,
shortened. It knows nothing of mcp_ref and changes nothing: any client, any server.

Threads     the main thread copies what the server says, a second one what the client says.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from typing import IO, Any, cast

WIDTH = 100
INDENT = " " * 13
LONGEST_TEXT = 56
LONGEST_LIST = 3
DEEPEST = 3
"""Whatever is nested deeper stands on one line, cut off where the line ends."""

PAGES = {
    "initialize": "basic/lifecycle",
    "notifications/initialized": "basic/lifecycle",
    "ping": "basic/utilities/ping",
    "server/discover": "server/discover",
    "notifications/cancelled": "basic/patterns/cancellation",
    "notifications/progress": "basic/patterns/progress",
    "notifications/message": "server/utilities/logging",
    "input_required": "basic/patterns/mrtr",
    "tools": "server/tools",
    "resources": "server/resources",
    "prompts": "server/prompts",
    "completion": "server/utilities/completion",
    "logging": "server/utilities/logging",
    "subscriptions": "basic/patterns/subscriptions",
    "elicitation": "client/elicitation",
    "sampling": "client/sampling",
    "roots": "client/roots",
    "tasks": "extensions/tasks",
}
"""Where the newest revision that has a method describes it: by its name, or by how its name begins."""

OLD_PAGES = {
    "basic/patterns/cancellation": "basic/utilities/cancellation",
    "basic/patterns/progress": "basic/utilities/progress",
    "extensions/tasks": "basic/utilities/tasks",
}
"""Pages that had another name in the legacy era, that is, until 2025-11-25."""

COLOURS = {"-->": "36", "<--": "33", "title": "1", "faint": "2", "bad": "31"}


def paint(text: str, colour: str) -> str:
    """Coloured, where the output shows colours."""
    return f"\x1b[{COLOURS[colour]}m{text}\x1b[0m" if coloured else text


def wants_colour(stream: Any) -> bool:
    """Only on a terminal, or if told so; NO_COLOR has the last word."""
    return "NO_COLOR" not in os.environ and (stream.isatty() or "FORCE_COLOR" in os.environ)


coloured = wants_colour(sys.stderr)


# ------------------------------------------------------------------------ one message


class Wire:
    """What has passed so far: enough to say what each new message is."""

    def __init__(self) -> None:
        self._start = time.monotonic()
        self._asked: dict[tuple[str, str], str] = {}  # who asked, the id -> the method
        self._legacy = False

    def shown(self, arrow: str, line: bytes) -> str:
        """One line from the wire, as people read it."""
        try:
            message = json.loads(line)
        except ValueError:
            return self.event(arrow, "not JSON", "basic/index") + INDENT + repr(line[:LONGEST_TEXT]) + "\n"
        what, method = self._name(arrow, message)
        return self.event(arrow, what, self._page(method)) + INDENT + pretty(message, len(INDENT)) + "\n"

    def event(self, arrow: str, what: str, page: str) -> str:
        """Direction, time, what happened, and the page that tells about it."""
        seconds = f"{time.monotonic() - self._start:5.2f} s"
        page = f"page: {page}".rjust(WIDTH - len(f"{arrow} {seconds}  {what} "))
        colour = "bad" if what.startswith(("error", "not")) else "title"
        return f"{paint(f'{arrow} {seconds}', arrow)}  {paint(what, colour)} {paint(page, 'faint')}\n"

    def _name(self, arrow: str, message: Any) -> tuple[str, str]:
        """What kind of message it is, and the method that it belongs to."""
        if not isinstance(message, dict):
            return "batch", ""
        key = json.dumps(message.get("id"))
        if "method" in message:
            method = str(message["method"])
            self._asked[arrow, key] = method
            self._legacy = self._legacy or method == "initialize"
            if "inputResponses" in _object(message.get("params")) and method != "tasks/update":
                return f"{method} again, with what was asked for", "input_required"
            return method, method
        asked_by = "<--" if arrow == "-->" else "-->"
        method = self._asked.pop((asked_by, key), "")
        result = _object(message.get("result"))
        if result.get("resultType") == "input_required":
            return f"question instead of a result of {method}", "input_required"
        if result.get("resultType") == "task" or "task" in result:
            return f"task instead of a result of {method}", "tasks"
        return f"{'error' if 'error' in message else 'result'} of {method or 'something'}", method

    def _page(self, method: str) -> str:
        feature = method.removeprefix("notifications/").partition("/")[0]
        page = PAGES.get(method) or PAGES.get(feature, "basic/index")
        return OLD_PAGES.get(page, page) if self._legacy else page


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


# -------------------------------------------------------------------------- its JSON


def pretty(value: Any, indent: int, key: str = "", depth: int = 0) -> str:
    """`key` and JSON, on one line if it fits there, else a member a line; long things are cut."""
    flat, room = key + _flat(value), WIDTH - indent - 1
    if len(flat) <= room or not isinstance(value, dict | list):
        return flat
    if depth > DEEPEST:
        return flat[: room - 4] + " ..."
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    start = "\n" + " " * (indent + 2)
    lines = start.join(_members(value, indent + 2, depth + 1))
    return f"{key}{opening}{start}{lines}\n{' ' * indent}{closing}"


def _members(value: Any, indent: int, depth: int) -> list[str]:
    """The members of an object or an array, as lines; small ones share a line."""
    if isinstance(value, dict):
        pairs = [(json.dumps(name, ensure_ascii=False) + ": ", member) for name, member in value.items()]
    else:
        pairs = [("", item) for item in value[:LONGEST_LIST]]
    lines: list[str] = []
    shared = False  # whether the last line may take another small member
    for key, member in pairs:
        small = not isinstance(member, dict | list)
        text = pretty(member, indent, key, depth) + ","
        if small and shared and len(f"{lines[-1]} {text}") < WIDTH - indent:
            lines[-1] += f" {text}"
        else:
            lines.append(text)
        shared = small
    lines[-1] = lines[-1].removesuffix(",")
    return lines if len(value) == len(pairs) else [*lines, f"... {len(value) - len(pairs)} more"]


def _flat(value: Any) -> str:
    if isinstance(value, str) and len(value) > LONGEST_TEXT:
        return json.dumps(value[: LONGEST_TEXT - 4] + " ...", ensure_ascii=False)
    if isinstance(value, dict):
        members = [f"{json.dumps(k, ensure_ascii=False)}: {_flat(v)}" for k, v in value.items()]
        return "{" + ", ".join(members) + "}"
    if isinstance(value, list):
        more = [f"... {len(value) - LONGEST_LIST} more"] if len(value) > LONGEST_LIST else []
        return "[" + ", ".join([*map(_flat, value[:LONGEST_LIST]), *more]) + "]"
    return json.dumps(value, ensure_ascii=False)


# ------------------------------------------------------------------------- the relay


def copy(arrow: str, source: Any, sink: Any, wire: Wire) -> None:
    """Line by line: show it, then pass it on."""
    for line in source:
        if line.strip():
            say(wire.shown(arrow, line))
        try:
            sink.write(line)
            sink.flush()
        except BrokenPipeError:
            break


def say(text: str) -> None:
    """In one piece, so that the two threads do not mix their lines."""
    os.write(2, text.encode("utf-8", "replace"))


def relay(command: list[str]) -> int:
    """Run the server between two copiers; its exit code is ours."""
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    incoming = cast(IO[bytes], server.stdin)
    wire = Wire()

    def from_client() -> None:
        copy("-->", sys.stdin.buffer, incoming, wire)
        say(wire.event("-->", "end of input", "basic/transports/stdio"))
        incoming.close()

    threading.Thread(target=from_client, daemon=True).start()
    copy("<--", server.stdout, sys.stdout.buffer, wire)
    code = server.wait()
    say(wire.event("<--", f"the server exits with code {code}", "basic/transports/stdio"))
    return code


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("usage: wire.py COMMAND [ARGUMENT ...]")
    # At once, without waiting for the thread that may still read stdin.
    os._exit(relay(sys.argv[1:]))
