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
PATIENCE = 20.0
ON_A_WORKER = "Responder._run"
"""Where it goes on, if it does so on another thread."""


class Recorder:
    """A profile hook, for all threads."""

    def __init__(self, transport: str) -> None:
        self._first, self._argument = FIRST[transport]
        self._walking: dict[int, types.FrameType] = {}
        """By thread: the function with which its part of the walk began, and ends."""
        self._workers_sleep = threading.Event()
        self._workers_sleep.set()
        self.walks: list[dict[int, list[tuple[str, str]]]] = []

    def __call__(self, frame: types.FrameType, event: str, argument: object) -> None:
        code, thread = frame.f_code, threading.get_ident()
        if event == "return":
            self._on_return(frame, argument)
        if event != "call" or not code.co_filename.startswith(PACKAGE):
            return
        if code.co_qualname == self._first and b"tools/call" in frame.f_locals[self._argument]:
            # A worker that is about to sleep is found in another way than one that sleeps.
            self._workers_sleep.wait(PATIENCE)
            self.walks.append({})
            self._walking[thread] = frame
        elif code.co_qualname == ON_A_WORKER and self.walks and thread not in self._walking:
            self._workers_sleep.clear()
            self._walking[thread] = frame
        if thread in self._walking and not code.co_name.startswith("<"):  # a comprehension is no function
            functions = self.walks[-1].setdefault(thread, [])
            functions.append((frame.f_globals["__name__"], code.co_qualname))

    def _on_return(self, frame: types.FrameType, value: object) -> None:
        thread = threading.get_ident()
        if self._walking.get(thread) is frame:
            del self._walking[thread]
        if frame.f_code.co_qualname == "Workers._take" and value is None:
            self._workers_sleep.set()


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
