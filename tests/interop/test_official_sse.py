"""HTTP+SSE of 2024-11-05 between this package and the official Python SDK, in both directions.

Which revision is agreed on is the handshake's affair: the SDK uses this transport with any of the legacy
era, and so do we. All that the features do on it is in test_official_http_client_features and
test_official_http_server_features; here is what belongs to the transport.
"""

from __future__ import annotations

import asyncio
import json
import queue
import signal
import threading
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import anyio
import mcp_types as types
import pytest
from choices import for_server
from http_peers import endpoint
from interop.http_children import serving
from mcp import ClientSession
from mcp.client.sse import sse_client
from mcp.shared.exceptions import MCPError
from peers import LEGACY, PATIENCE, eventually, nothing_left

from mcp_ref import Context, RequestTimeout, Server, connect

pytestmark = pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning")


def run(session: Callable[[], Awaitable[None]]) -> None:
    """Run one asynchronous session, with a limit."""

    async def limited() -> None:
        with anyio.fail_after(2 * PATIENCE):
            await session()

    asyncio.run(limited())


# ------------------------------------------------------------------- the SDK's client, our server


class Ours:
    """A server of this process, and what happens in it."""

    def __init__(self, *revisions: str) -> None:
        self.begun, self.ended = threading.Event(), threading.Event()
        more: Any = {"revisions": revisions} if revisions else {}
        self.server = Server("ours", version="1", **for_server(more))
        self.server.add_tool(self.add)
        self.server.add_tool(self.count)
        self.server.add_tool(self.where)
        self.server.add_tool(self.slow)

    def add(self, a: int, b: int) -> int:
        return a + b

    def count(self, ctx: Context, to: int) -> str:
        for number in range(to):
            ctx.progress(number + 1, to)
        return "counted"

    def where(self, ctx: Context) -> list[str]:
        return [str(root["uri"]) for root in ctx.list_roots()]

    def slow(self, ctx: Context) -> str:
        self.begun.set()
        try:
            ctx.sleep(PATIENCE)
        finally:
            self.ended.set()
        return "slept"


@pytest.mark.parametrize("revision", LEGACY)
@pytest.mark.spec(
    "basic/transports/streamable-http/sse-two-endpoints",
    "basic/transports/streamable-http/sse-endpoint-event",
    "basic/transports/streamable-http/sse-message-events",
)
def test_their_client_talks_to_our_server_in_every_revision_of_the_era(revision):
    ours, reports = Ours(revision), []

    async def report(progress: float, total: float | None, message: str | None) -> None:
        reports.append(progress)

    async def session():
        async with sse_client(url) as streams, ClientSession(*streams) as client:
            assert (await client.initialize()).protocol_version == revision
            result = await client.call_tool("add", {"a": 2, "b": 3})
            assert result.content == [types.TextContent(type="text", text="5")]
            await client.call_tool("count", {"to": 20}, progress_callback=report)
            await client.send_ping()
            with pytest.raises(MCPError):
                await client.list_prompts()
            assert len((await client.list_tools()).tools) == 4

    with endpoint(ours.server, sse_path="/sse") as at:
        url = f"http://127.0.0.1:{at.port}/sse"
        run(session)
        assert eventually(lambda: at.app.places.taken == 0)
    assert reports == list(range(1, 21))


def test_our_server_asks_their_client_while_it_calls():
    ours = Ours()

    async def roots(context: Any) -> types.ListRootsResult:
        return types.ListRootsResult(roots=[types.Root(uri="file:///a")])

    async def session():
        async with (
            sse_client(url) as streams,
            ClientSession(*streams, list_roots_callback=roots) as client,
        ):
            await client.initialize()
            result = await client.call_tool("where", {})
            assert json.loads(result.content[0].text) == ["file:///a"]

    with endpoint(ours.server, sse_path="/sse") as at:
        url = f"http://127.0.0.1:{at.port}/sse"
        run(session)


def test_their_client_that_leaves_cancels_what_runs_for_it():
    ours = Ours()

    async def session():
        async with sse_client(url) as streams, ClientSession(*streams) as client:
            await client.initialize()
            async with anyio.create_task_group() as calls:
                calls.start_soon(client.call_tool, "slow", {})
                await anyio.to_thread.run_sync(ours.begun.wait, PATIENCE)
                calls.cancel_scope.cancel()

    with endpoint(ours.server, sse_path="/sse") as at:
        url = f"http://127.0.0.1:{at.port}/sse"
        run(session)
        assert ours.ended.wait(PATIENCE)


def test_many_calls_of_their_client_at_once_get_each_its_own_answer():
    ours = Ours()

    async def session():
        async with sse_client(url) as streams, ClientSession(*streams) as client:
            await client.initialize()

            async def call(number: int) -> None:
                result = await client.call_tool("add", {"a": number, "b": 1})
                assert result.content[0].text == str(number + 1)

            async with anyio.create_task_group() as calls:
                for number in range(30):
                    calls.start_soon(call, number)

    with endpoint(ours.server, sse_path="/sse") as at:
        url = f"http://127.0.0.1:{at.port}/sse"
        run(session)


# ------------------------------------------------------------------- our client, the SDK's server

OFFICIAL = ("official_http_server.py", "official_server", "{}")


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with nothing_left(), serving(*OFFICIAL, ends=-signal.SIGTERM) as url:
        yield url.replace("/mcp", "/sse")


@pytest.mark.parametrize("revision", [None, *LEGACY])
@pytest.mark.spec(
    "basic/transports/streamable-http/sse-post-to-endpoint",
    "basic/transports/streamable-http/old-server-fallback-modern",
    "basic/transports/streamable-http/old-server-fallback-listed",
    "basic/transports/streamable-http/old-server-fallback-4xx",
)
def test_our_client_finds_their_server_by_its_url_alone(url, revision):
    with nothing_left(), connect(url, revision=revision) as client:
        assert client.revision.date == (revision or "2025-11-25")
        assert client.server_info["name"] == "official"
        assert client.call_tool("add", {"a": 2, "b": 3}).text == "5"
        assert client.call_tool("add", {"a": "x", "b": 3}).is_error
        assert {tool["name"] for tool in client.list_tools()} >= {"add", "summarise"}
        client.ping()


def test_threads_of_our_client_share_one_session_with_their_server(url):
    results: queue.SimpleQueue[int] = queue.SimpleQueue()
    with nothing_left(), connect(url) as client:

        def call(number: int) -> None:
            results.put(int(client.call_tool("add", {"a": number, "b": 0}).text))

        threads = [threading.Thread(target=call, args=(number,)) for number in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
    assert sorted(results.get() for _ in range(16)) == list(range(16))


def test_a_call_that_our_client_gives_up_leaves_the_session_as_it_was(url):
    with nothing_left(), connect(url) as client:
        with pytest.raises(RequestTimeout):
            client.call_tool("wait", {}, timeout=0.2)
        assert client.call_tool("add", {"a": 1, "b": 1}).text == "2"


def test_one_client_of_ours_leaves_and_another_stays(url):
    with nothing_left(), connect(url) as staying:
        for _ in range(3):
            with connect(url) as leaving:
                assert leaving.call_tool("add", {"a": 1, "b": 1}).text == "2"
        assert staying.call_tool("add", {"a": 2, "b": 2}).text == "4"
