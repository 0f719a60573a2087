"""A server that notes which functions of the package each request runs through: for tests/docs/test_walk.

    python walked_server.py stdio|http FILE

When it ends it writes the walk of each `tools/call` to FILE, as JSON: for each thread, in the order in
which they took part, the functions that it called, one after another, each as [module, name].
"""

from __future__ import annotations

import json
import sys
import threading
import types
from pathlib import Path

import mcp_ref
from mcp_ref import Server

PACKAGE = str(Path(mcp_ref.__file__).parent)
FIRST = {"stdio": ("Connection.receive", "line"), "http": ("HttpConnection._serve_request", "text")}
"""By transport: where a request begins, and which argument says what it asks."""


class Recorder:
    """A profile hook, for all threads."""

    def __init__(self, transport: str) -> None:
        self._first, self._argument = FIRST[transport]
        self._is_on = False
        self.walks: list[dict[int, list[tuple[str, str]]]] = []

    def __call__(self, frame: types.FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(PACKAGE):
            return
        if code.co_qualname == self._first:
            self._is_on = b"tools/call" in frame.f_locals[self._argument]
            if self._is_on:
                self.walks.append({})
        if self._is_on and not code.co_name.startswith("<"):  # a comprehension is no function of its own
            functions = self.walks[-1].setdefault(threading.get_ident(), [])
            functions.append((frame.f_globals["__name__"], code.co_qualname))


def main(transport: str, file: str) -> None:
    server = Server("walked")

    @server.tool
    def add(a: int, b: int) -> int:
        return a + b

    recorder = Recorder(transport)
    threading.setprofile(recorder)
    sys.setprofile(recorder)
    if transport == "http":
        server.run("http", port=0, on_ready=lambda url: print(url, flush=True))
    else:
        server.run()
    sys.setprofile(None)
    Path(file).write_text(json.dumps([list(walk.values()) for walk in recorder.walks]))


if __name__ == "__main__":
    main(*sys.argv[1:])
