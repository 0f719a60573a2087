"""Around the tests of servers that behave badly: a client of ours that is to stand all of it.

with standing(monkeypatch):            afterwards: no thread, no child, no open file, no error logged
    with bad(handle, "2025-11-25") as (site, client):       a server whose tools/call is `handle`
        ...
        goes_on(client)                                     and all else is still answered
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from http_faults import Errors
from peers import MODERN, PATIENCE, eventually, nothing_left
from web import Request, Wire, open_files, talking, text

from mcp_ref import Client
from mcp_ref.basic.transports.streamable_http import receiving

OLD = "2025-11-25"
ERAS = (OLD, MODERN)
Handler = Callable[[Request, Wire], object]


@contextlib.contextmanager
def standing(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing is left, and nothing was logged as an error of ours. What is resumed is resumed soon."""
    monkeypatch.setattr(receiving, "RETRY_SECONDS", 0.01)
    monkeypatch.setattr(receiving, "MIN_RETRY_SECONDS", 0.01)
    monkeypatch.setattr(
        logging.getLogger("urllib3.connection"), "disabled", True
    )  # it shows what it cannot parse
    before = open_files()
    with Errors() as errors, nothing_left():
        yield
    assert eventually(lambda: open_files() <= before)
    assert errors.lines == []


def hello(request: Request, wire: Wire) -> None:
    """As it should be."""
    if "method" in request.message:
        wire.result(request, text("hello"))
    else:  # an answer to what we said wrong
        wire.answer(202)


def only(rpc: str, handle: Handler) -> Handler:
    """One method is answered by this, all others are as they should be."""
    return lambda request, wire: (handle if request.rpc == rpc else hello)(request, wire)


def bad(handle: Handler, revision: str, **options: Any) -> Any:
    """A server whose tools/call is this, and a client of it."""
    options.setdefault("timeout", PATIENCE)
    return talking(only("tools/call", handle), revision, session="s", **options)


def goes_on(client: Client) -> None:
    """Whatever it was: others are answered. This one is sent again where a kept connection was lost."""
    client.ping()


def resident() -> int:
    """Bytes of memory that this process has in use."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096
