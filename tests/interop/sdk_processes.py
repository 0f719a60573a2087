"""The servers that the official SDK's client starts, to the end.

The SDK stops a server that does not exit within two seconds of the end of its input, as on a busy machine,
and closes its event loop as soon as the process is dead. The loop may not have heard of that yet: then the
process's `Popen` counts as running, and warns when it is collected, in the midst of another test.
"""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TypeVar

import anyio
from anyio.lowlevel import checkpoint
from peers import PATIENCE

__all__ = ["reaped"]

T = TypeVar("T")

PAUSE = 0.005
"""Seconds between two looks."""


@asynccontextmanager
async def reaped(client: AbstractAsyncContextManager[T]) -> AsyncIterator[T]:
    """A client of the SDK's; when this ends, its loop knows that the server which it started has exited."""
    before = set(threading.enumerate())
    try:
        async with client as opened:
            yield opened
    finally:
        with anyio.CancelScope(shield=True):
            waiting = [t for t in set(threading.enumerate()) - before if t.name.startswith("asyncio-waitpid")]
            for _ in range(int(PATIENCE / PAUSE)):
                if not any(thread.is_alive() for thread in waiting):
                    break
                await anyio.sleep(PAUSE)
            await checkpoint()  # what those threads had the loop do
