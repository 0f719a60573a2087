"""The official Python SDK's client against servers of ours over HTTP: all that it does over pipes.

The tests of test_official_client and test_official_client_features run here once more, on another
transport: Streamable HTTP with answers as they come (JSON, or events where there is more to say), and
with events only. 2024-11-05 has no Streamable HTTP, and goes over HTTP+SSE.

What is HTTP's own is in test_official_http_client.

Where the SDK (2.3) differs:

    the size of events      its client takes events of 1 MiB, unless it is told otherwise
"""

from __future__ import annotations

import json
import queue
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from anyio.from_thread import BlockingPortal
from interop import test_official_client as tools
from interop import test_official_client_features as features
from interop.http_children import serving
from interop.test_official_client_features import Person, Session
from mcp import Client
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from peers import MODERN, REVISIONS

pytestmark = features.pytestmark

OF_PIPES = {
    # Three that open a pipe of their own, and one that says how a call is given up on it: their like is in
    # test_official_http_client.
    "test_the_plain_session_class_initializes",
    "test_what_a_tool_prints_does_not_reach_the_wire",
    "test_a_client_that_declares_nothing_is_not_asked",
    "test_a_call_that_the_client_gives_up_is_stopped",
}
for module in (tools, features):
    globals().update(
        {name: it for name, it in vars(module).items() if name.startswith("test_") and name not in OF_PIPES}
    )
tidy, portal, revision = tools.tidy, tools.portal, tools.revision
files, session = features.files, features.session


OLD = "2024-11-05"


def settings(answers: str, *revisions: str) -> str:
    """What our server is run with."""
    if OLD in revisions:
        pytest.importorskip("mcp_ref.basic.transports.http_sse.server")
    return json.dumps({"answers": answers, **({"sse_path": "/sse"} if OLD in revisions else {})})


def transport(url: str, revision: str | None = None) -> Any:
    """The SDK's, for a server of ours."""
    if revision == OLD:
        return sse_client(url.replace("/mcp", "/sse"))
    return streamable_http_client(url, max_sse_event_size=None)


@asynccontextmanager
async def official(
    *revisions: str, mode: str | None = None, answers: str = "auto", **options: Any
) -> AsyncIterator[Client]:
    """The SDK's client, connected to a server of ours that speaks these revisions (none: all)."""
    if mode is None:
        mode = "legacy" if revisions and MODERN not in revisions else "auto"
    with serving("our_http_server.py", "our_server", settings(answers, *revisions), *revisions) as url:
        async with Client(transport(url, *revisions[:1]), mode=mode, **options) as client:
            yield client


@pytest.fixture(scope="module", params=["auto", "stream"])
def answers(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(autouse=True)
def over_http(answers: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests that open a session of their own open it here."""
    monkeypatch.setattr(tools, "official", partial(official, answers=answers))


@pytest.fixture(scope="module", params=REVISIONS)
def client(request: pytest.FixtureRequest, answers: str, portal: BlockingPortal) -> Iterator[Client]:
    with portal.wrap_async_context_manager(official(request.param, answers=answers)) as client:
        assert client.protocol_version == request.param
        yield client


@pytest.fixture(scope="module", params=REVISIONS)
def opened(
    request: pytest.FixtureRequest, answers: str, portal: BlockingPortal, files: Path
) -> Iterator[Session]:
    revision, person = request.param, Person()
    messages: queue.SimpleQueue[Any] = queue.SimpleQueue()

    async def on_message(message: Any) -> None:
        messages.put(message)

    command = ("our_http_server.py", "our_features_server", settings(answers, revision), revision)
    with serving(*command, env={"MCP_REF_FILES": str(files)}) as url:
        client = Client(
            transport(url, revision),
            mode="auto" if revision == MODERN else "legacy",
            message_handler=on_message,
            elicitation_callback=person.elicitation,
            sampling_callback=person.sampling,
            sampling_capabilities=types.SamplingCapability(tools=types.SamplingToolsCapability()),
            list_roots_callback=person.list_roots,
        )
        with portal.wrap_async_context_manager(client):
            yield Session(revision, client, person, messages, portal)
