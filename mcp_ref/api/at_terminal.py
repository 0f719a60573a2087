"""What `server.run()` tells a person: where it serves, that it waits for a client, and each request.

    server.run()              stdin is a terminal: what it waits for, and how to try it
    server.run("http")        stderr is a terminal: the URL
    server.run("http", log=True)      a line for each request, wherever stderr is

All of it goes to stderr. Without a terminal nothing is printed, except with `log=True`.

Threads     the line of a request is printed by the thread that served it.
"""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from mcp_ref.runtime.untrusted_text import one_line

__all__ = ["RequestLog", "say_serving", "say_waiting"]

MAX_PATH_CHARACTERS = 200
"""The longest path, or name of a method, in the line of a request."""


def say_waiting(name: str) -> None:
    """If stdin is a terminal, a person has probably started the server by hand: say what it waits for."""
    if _is_terminal(sys.stdin):
        _say(f"{name} waits for a client, which starts it by itself and talks to it in JSON.")
        _say(f"To try it, end it (Ctrl-D), and then: {_how_to_try()}")


def say_serving(url: str) -> None:
    """Say where a server is, if stderr is a terminal."""
    if _is_terminal(sys.stderr):
        _say(f"serving at {url}; Ctrl-C ends it")


def _is_terminal(stream: Any) -> bool:
    try:
        return bool(stream.isatty())
    except (AttributeError, ValueError):  # there is no such stream, or it is closed
        return False


def _say(text: str) -> None:
    if sys.stderr is not None:
        print(one_line(text), file=sys.stderr, flush=True)


def _how_to_try() -> str:
    """The `mcp-ref shell` command that starts this same program as its server."""
    script = sys.argv[0]
    if script.endswith(".py") and len(sys.argv) == 1 and Path(script).is_file():
        return f"mcp-ref shell {shlex.quote(script)}"
    return f"mcp-ref shell -- {shlex.join(sys.orig_argv)}"


class RequestLog:
    """WSGI middleware that prints a line for each request, when the application has returned its body.

        19:45:01 127.0.0.1 POST /mcp tools/call 200 12 ms

    That is after the handler of a call has run, but at the beginning of a stream that goes on, such as the
    response to a GET. The method of the message is read from the header `Mcp-Method`, which clients send in
    2026-07-28; else it is "-".
    """

    def __init__(self, app: Callable[..., Iterable[bytes]]) -> None:
        self._app = app

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        begun, status = time.monotonic(), ["-"]

        def start(line: str, headers: Any, *more: Any) -> Any:
            status[0] = line.partition(" ")[0]
            return start_response(line, headers, *more)

        try:
            return self._app(environ, start)
        finally:
            words = [
                time.strftime("%H:%M:%S"),
                str(environ.get("REMOTE_ADDR", "-")),
                str(environ.get("REQUEST_METHOD", "-")),
                str(environ.get("PATH_INFO", "-"))[:MAX_PATH_CHARACTERS],
                str(environ.get("HTTP_MCP_METHOD", "-"))[:MAX_PATH_CHARACTERS],
                status[0],
                f"{(time.monotonic() - begun) * 1000:.0f} ms",
            ]
            _say(" ".join(words))
