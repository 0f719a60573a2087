"""What the tests of stores share: entries, and other processes.

entry(store, id, ...)     an entry that this store's process works on
finished(entry)           the same, once it is over
in_python(script)         another process that runs a script, and can be talked to by lines
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from peers import ENV

from mcp_ref.runtime.stores.store import Entry, Store

MANY = 1_000_000


def entry(store: Store, entry_id: str = "one", owner: str | None = "owner", **fields: Any) -> Entry:
    """An entry that this store's process works on."""
    facts = {"created": time.time(), "expires": None, "runner": store.runner, "state": {"n": 0}, **fields}
    return Entry(entry_id, owner, **facts)


def finished(before: Entry) -> Entry:
    """The same entry, once it is over."""
    return replace(before, runner=None, outcome=b"the end")


def counted(before: Entry) -> Entry:
    """The same entry, with one more in its state."""
    return replace(before, state={**before.state, "n": before.state["n"] + 1})


def buried(before: Entry) -> Entry:
    """What the tests make of an abandoned entry. It counts, to show that it is made once."""
    return replace(before, runner=None, state={**before.state, "buried": before.state.get("buried", 0) + 1})


OPENING = """
import os, signal, subprocess, sys, threading, time
from dataclasses import replace
from store_peers import MANY, buried, counted, entry, finished
from mcp_ref.runtime.stores.sqlite import SqliteStore
from mcp_ref.runtime.stores.store import Entry, StoreError, StoreFull

def say(*words):
    os.write(1, (" ".join(map(str, words)) + "\\n").encode())

def wait_for_a_line():
    return sys.stdin.readline().strip()

path = sys.argv[1]
"""


class Other:
    """Another process, and lines to and from it."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.pid = process.pid

    def hear(self) -> str:
        """The next line that it says; nothing if it has ended."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def tell(self, line: str = "") -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def kill(self) -> None:
        """As `kill -9` does."""
        self.process.kill()
        self.process.wait(20)

    def end(self) -> None:
        """Wait for its end, which must be a good one."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        assert self.process.wait(20) == 0


@contextlib.contextmanager
def in_python(script: str, *arguments: object) -> Iterator[Other]:
    """Another process that runs a script after OPENING; it is killed if it is there after the block."""
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", OPENING + textwrap.dedent(script), *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([ENV["PYTHONPATH"], str(Path(__file__).parent)])},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield Other(process)
    finally:
        process.kill()
        process.wait(20)
        for pipe in (process.stdin, process.stdout):
            with contextlib.suppress(OSError):
                pipe.close()  # type: ignore[union-attr]
