"""The official Python SDK's client against a server of ours, over real pipes.

The SDK's client offers its newest legacy revision or names a modern one, and takes any revision that a
server answers with; so the revision of a test is fixed by restricting our server to it. With a server
that speaks all of them, the SDK's client finds out by itself.

This is the one folder of tests with asyncio in it: the SDK has no other way to be used.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import IO, Any, Literal

import anyio
import mcp_types as types
import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal
from interop.http_children import LIMITS
from interop.sdk_processes import reaped
from mcp import Client, ClientSession, StdioServerParameters
from mcp.client.extension import ClientExtension, NotificationBinding
from mcp.client.stdio import stdio_client
from mcp.shared.exceptions import MCPError
from peers import ENV, LEGACY, MODERN, PATIENCE, REVISIONS, nothing_left

NEWEST = ("2025-11-25", MODERN)
"""The newest of each era, for what differs by era at most."""

SERVER = str(Path(__file__).with_name("our_server.py"))

# The SDK warns whoever uses what 2026-07-28 removed; to use it is the point here.
pytestmark = pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning")


@pytest.fixture(autouse=True)
def tidy() -> Iterator[None]:
    with nothing_left():
        yield


@pytest.fixture(scope="module")
def portal() -> Iterator[BlockingPortal]:
    with nothing_left(), start_blocking_portal() as portal:
        yield portal


@pytest.fixture(scope="module", params=REVISIONS)
def client(request: pytest.FixtureRequest, portal: BlockingPortal) -> Iterator[Client]:
    """A client and a server of one revision, shared by the tests that leave nothing behind in either."""
    with portal.wrap_async_context_manager(official(request.param)) as client:
        assert client.protocol_version == request.param
        yield client


@pytest.fixture(params=REVISIONS)
def revision(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def run(session: Callable[[], Coroutine[Any, Any, None]], portal: BlockingPortal | None = None) -> None:
    """Run one asynchronous session, with a limit; where its client lives, if that is shared."""

    async def limited() -> None:
        with anyio.fail_after(3 * PATIENCE):
            await session()

    if portal is not None:
        portal.call(limited)
    else:
        asyncio.run(limited())


def command(revisions: tuple[str, ...]) -> StdioServerParameters:
    return StdioServerParameters(command=sys.executable, args=[SERVER, *revisions], env=ENV)


@asynccontextmanager
async def official(
    *revisions: str, mode: str | None = None, log: IO[str] | None = None, **options: Any
) -> AsyncIterator[Client]:
    """The SDK's client, connected to a server of ours that speaks these revisions (none: all)."""
    if mode is None:
        mode = "legacy" if revisions and MODERN not in revisions else "auto"
    with tempfile.TemporaryFile("w+") if log is None else log as stderr:
        client = Client(stdio_client(command(revisions), errlog=stderr), mode=mode, **options)
        async with reaped(client) as opened:
            yield opened


async def all_tools(client: Client) -> tuple[dict[str, types.Tool], int]:
    """All tools by name, and the number of pages they came in."""
    tools: dict[str, types.Tool] = {}
    page = await client.list_tools()
    pages = 1
    tools |= {tool.name: tool for tool in page.tools}
    while page.next_cursor is not None:
        page = await client.list_tools(cursor=page.next_cursor)
        pages += 1
        tools |= {tool.name: tool for tool in page.tools}
    return tools, pages


def text_of(result: types.CallToolResult) -> str:
    (block,) = result.content
    assert isinstance(block, types.TextContent)
    return block.text


def first_cause(problem: BaseException) -> BaseException:
    """What a nest of exception groups is about."""
    while isinstance(problem, BaseExceptionGroup):
        (problem,) = problem.exceptions
    return problem


# ------------------------------------------------------------------------------- opening


@pytest.mark.spec("basic/lifecycle/echo-supported-version", "basic/lifecycle/counter-offer-latest")
def test_the_revision_is_the_one_the_server_speaks(revision):
    """The SDK takes what our server answers with, and learns who it is."""

    async def session():
        async with official(revision) as client:
            assert client.protocol_version == revision
            assert client.server_info.name == "ours"
            assert client.server_info.version == "1.2.3"
            assert client.instructions == "Add numbers."
            titled = revision in ("2025-06-18", "2025-11-25", MODERN)
            assert client.server_info.title == ("Ours" if titled else None)
            capabilities = client.server_capabilities
            assert capabilities.logging is not None
            assert capabilities.tools.list_changed is True
            assert capabilities.prompts is None
            assert capabilities.resources is None

    run(session)


@pytest.mark.parametrize(
    ("mode", "agreed"), [("auto", MODERN), ("legacy", "2025-11-25"), (MODERN, MODERN)], ids=str
)
def test_each_way_to_open_works_with_a_server_of_both_eras(mode, agreed):
    """The SDK probes, shakes hands, or just begins."""

    async def session():
        async with official(mode=mode) as client:
            assert client.protocol_version == agreed
            result = await client.call_tool("add", {"a": 1, "b": 2})
            assert result.structured_content == {"result": 3}

    run(session)


@pytest.mark.parametrize("revision", LEGACY)
def test_the_probe_falls_back_to_a_legacy_server(revision):
    """basic/versioning, "Compatibility Matrix": dual-era client, legacy server: works."""

    async def session():
        async with official(revision, mode="auto") as client:
            assert client.protocol_version == revision
            assert text_of(await client.call_tool("add", {"a": 1, "b": 2})) == "3"

    run(session)


@pytest.mark.spec("basic/versioning/initialize-error-names-versions")
def test_a_legacy_client_is_told_which_versions_a_modern_server_speaks():
    async def session():
        async with official(MODERN, mode="legacy"):
            raise AssertionError("this cannot be opened")

    with pytest.raises(BaseExceptionGroup) as caught:
        run(session)
    problem = first_cause(caught.value)
    assert isinstance(problem, MCPError)
    assert MODERN in problem.message


def test_the_plain_session_class_initializes(revision):
    """ClientSession, without the Client around it: `initialize` or `discover` by hand."""

    async def session():
        with tempfile.TemporaryFile("w+") as stderr:
            async with (
                reaped(stdio_client(command((revision,)), errlog=stderr)) as (read, write),
                ClientSession(read, write) as client,
            ):
                if revision == MODERN:
                    discovered = await client.discover()
                    assert discovered.supported_versions == [MODERN]
                    assert discovered.ttl_ms == 0
                    assert discovered.cache_scope == "private"
                else:
                    initialized = await client.initialize()
                    assert initialized.protocol_version == revision
                result = await client.call_tool("add", {"a": 2, "b": 2})
                assert text_of(result) == "4"

    run(session)


# ---------------------------------------------------------------------------------- tools


@pytest.mark.spec(
    "server/utilities/pagination/both-flows", "server/utilities/pagination/invalid-cursor-32602"
)
def test_every_field_of_a_tool_arrives_that_the_revision_has(client, portal):
    """Five tools a page; fields that came later are left out."""
    revision = client.protocol_version

    async def session():
        tools, pages = await all_tools(client)
        assert pages == -(-len(tools) // 5)
        assert {"add", "adorned", "asks_back", "tells"} <= tools.keys()
        adorned = tools["adorned"]
        since = REVISIONS.index(revision)
        assert adorned.description == "It has every member that a tool may have."
        assert adorned.input_schema["properties"] == {"n": {"type": "integer", "minimum": 1}}
        assert adorned.input_schema["required"] == ["n"]
        if since >= REVISIONS.index("2025-03-26"):
            assert adorned.annotations.title == "Hint"
            assert adorned.annotations.read_only_hint is True
            assert adorned.annotations.open_world_hint is False
            assert adorned.annotations.destructive_hint is None
        else:
            assert adorned.annotations is None
        if since >= REVISIONS.index("2025-06-18"):
            assert adorned.title == "Adorned"
            assert adorned.output_schema["properties"] == {"n": {"type": "integer"}}
            assert adorned.meta == {"example.org/shelf": 7}
            assert tools["add"].output_schema["required"] == ["result"]
        else:
            assert (adorned.title, adorned.output_schema, adorned.meta) == (None, None, None)
            assert tools["add"].output_schema is None
        if since >= REVISIONS.index("2025-11-25"):
            (icon,) = adorned.icons
            assert icon.src == "data:image/png;base64,AAAA"
            assert (icon.mime_type, icon.sizes) == ("image/png", ["1x1"])
        else:
            assert adorned.icons is None
        with pytest.raises(MCPError) as caught:
            await client.list_tools(cursor="nonsense")
        assert caught.value.code == types.INVALID_PARAMS

    run(session, portal)


def test_typed_arguments_and_results_go_there_and_back(client, portal):
    """Dataclasses, dates and enums of ours are plain JSON for the SDK, checked against our schema."""
    revision = client.protocol_version

    async def session():
        await all_tools(client)  # so that the SDK checks the results against the schemas
        walks = [{"day": "2026-07-28", "length": 2.5}, {"day": "2026-07-30", "length": 1, "unit": "ft"}]
        result = await client.call_tool("summarise", {"walks": walks})
        assert not result.is_error
        if revision in ("2024-11-05", "2025-03-26"):
            assert result.structured_content is None
        else:
            assert result.structured_content == {"walks": 2, "total": 3.5, "last": "2026-07-30"}
        assert '"total":3.5' in text_of(result).replace(" ", "")
        twice = await client.call_tool("adorned", {"n": 4})
        assert '"n":8' in text_of(twice).replace(" ", "")
        default = await client.call_tool("bounded", {"n": 9})
        assert '"so":9' in text_of(default).replace(" ", "")

    run(session, portal)


@pytest.mark.spec("server/tools/protocol-errors")
def test_an_unknown_tool_is_a_protocol_error(client, portal):
    async def session():
        with pytest.raises(MCPError) as caught:
            await client.call_tool("subtract", {})
        assert caught.value.code == types.INVALID_PARAMS
        assert "subtract" in caught.value.message
        assert text_of(await client.call_tool("add", {"a": 1, "b": 1})) == "2"

    run(session, portal)


@pytest.mark.spec("server/tools/invalid-arguments-protocol-error", "server/tools/input-validation-tool-error")
def test_bad_arguments_are_told_as_the_revision_says(client, portal):
    """A protocol error until 2025-06-18, a result that a model can read from 2025-11-25 on."""
    revision = client.protocol_version

    async def session():
        for arguments in ({}, {"n": "many"}, {"n": 10}, {"n": 1, "word": None}):
            if revision in ("2025-11-25", MODERN):
                result = await client.call_tool("bounded", arguments)
                assert result.is_error, arguments
                assert "bounded" in text_of(result)
            else:
                with pytest.raises(MCPError) as caught:
                    await client.call_tool("bounded", arguments)
                assert caught.value.code == types.INVALID_PARAMS

    run(session, portal)


@pytest.mark.spec("server/tools/execution-errors-in-result")
def test_a_tool_that_raises_is_an_error_result_without_a_traceback(client, portal):
    async def session():
        result = await client.call_tool("broken", {"kind": "plain"})
        assert result.is_error
        assert text_of(result) == "the well is dry"
        with pytest.raises(MCPError) as caught:
            await client.call_tool("broken", {"kind": "protocol"})
        assert (caught.value.code, caught.value.message) == (1001, "no such account")
        assert caught.value.data == {"account": 7}

    run(session, portal)


def test_every_type_of_content_arrives(client, portal):
    """What the revision does not have arrives as text."""
    revision = client.protocol_version

    async def session():
        result = await client.call_tool("contents")
        text, image, audio, link, resource, blob = result.content
        assert isinstance(text, types.TextContent)
        assert text.annotations.audience == ["user"]
        assert text.annotations.priority == 0.5
        assert isinstance(image, types.ImageContent)
        assert (image.data, image.mime_type) == ("iVBORw==", "image/png")
        assert (audio.type, link.type) == {
            "2024-11-05": ("text", "text"),
            "2025-03-26": ("audio", "text"),
        }.get(revision, ("audio", "resource_link"))
        if isinstance(audio, types.AudioContent):
            assert (audio.data, audio.mime_type) == ("UklGRg==", "audio/wav")
        if isinstance(link, types.ResourceLink):
            assert (link.name, str(link.uri), link.size) == ("a.txt", "file:///a.txt", 3)
            assert text.meta == {"example.org/k": "v"}
        else:
            assert "file:///a.txt" in link.text
            assert text.meta is None
        assert resource.resource.text == "its text"
        assert blob.resource.blob == "AAE="

    run(session, portal)


def test_the_meta_of_a_result_arrives(client, portal):
    revision = client.protocol_version

    async def session():
        result = await client.call_tool("whole")
        assert result.meta["example.org/trace"] == "t1"
        named = "io.modelcontextprotocol/serverInfo" in result.meta
        assert named == (revision == MODERN)

    run(session, portal)


# ----------------------------------------------------------------------------- while it runs


def test_progress_reaches_the_caller(client, portal):
    """Before 2025-03-26, progress has no message."""
    revision = client.protocol_version

    async def session():
        reports: list[tuple[float, float | None, str | None]] = []

        async def on_progress(progress: float, total: float | None, message: str | None) -> None:
            reports.append((progress, total, message))

        result = await client.call_tool("count", {"upto": 3}, progress_callback=on_progress)
        assert text_of(result) == "counted"
        while len(reports) < 3:  # the SDK runs callbacks as tasks of their own
            await anyio.lowlevel.checkpoint()
        said = revision != "2024-11-05"
        assert sorted(reports) == [(n, 3, f"step {n}" if said else None) for n in (1, 2, 3)]

    run(session, portal)


@pytest.mark.spec("server/utilities/logging/at-or-above-level")
def test_log_messages_come_from_the_level_that_the_client_set(revision):
    """logging/setLevel in the legacy era, `_meta` of each request in the modern one."""

    async def session():
        messages: list[types.LoggingMessageNotificationParams] = []
        two = anyio.Event()

        async def on_log(params: types.LoggingMessageNotificationParams) -> None:
            messages.append(params)
            if len(messages) == 2:
                two.set()

        options = {"logging_callback": on_log, "log_level": "warning"}
        async with official(revision, **options) as client:
            if revision != MODERN:
                await client.set_logging_level("warning")
            await client.call_tool("speak")
            await two.wait()
            found = sorted((m.level, m.logger or "-", str(m.data)) for m in messages)
            assert found == [("error", "-", "loud"), ("warning", "speaker", "{'volume': 7}")]

    run(session)


@pytest.mark.spec("server/utilities/logging/opt-in-per-request")
def test_without_a_level_a_modern_client_gets_no_log_messages():
    async def session():
        messages: list[Any] = []

        async def on_message(message: Any) -> None:
            messages.append(message)

        async with official(MODERN, message_handler=on_message) as client:
            await client.call_tool("speak")
            await client.call_tool("add", {"a": 1, "b": 1})
            assert messages == []

    run(session)


@pytest.mark.spec("basic/patterns/cancellation/no-response-after-cancel")
def test_a_call_that_the_client_gives_up_is_stopped(revision):
    """The SDK's caller is cancelled; our tool is told, and the connection lives on."""

    async def session():
        running = anyio.Event()

        async def on_progress(progress: float, total: float | None, message: str | None) -> None:
            running.set()

        async with official(revision) as client:
            async with anyio.create_task_group() as group:

                async def wait() -> None:
                    await client.call_tool("wait", progress_callback=on_progress)

                group.start_soon(wait)
                await running.wait()
                group.cancel_scope.cancel()
            seen = text_of(await client.call_tool("cancellations_seen"))
            assert seen == '["caller cancelled"]'

    run(session)


@pytest.mark.parametrize("revision", NEWEST)
def test_a_call_that_takes_too_long_is_stopped(revision):
    async def session():
        running = anyio.Event()

        async def on_progress(progress: float, total: float | None, message: str | None) -> None:
            running.set()

        async with official(revision) as client:
            for seconds in LIMITS:
                with pytest.raises(MCPError) as caught:
                    await client.call_tool(
                        "wait", read_timeout_seconds=seconds, progress_callback=on_progress
                    )
                assert caught.value.code == types.REQUEST_TIMEOUT
                if running.is_set():
                    break
            assert running.is_set()
            seen = json.loads(text_of(await client.call_tool("cancellations_seen")))
            assert seen
            assert None not in seen

    run(session)


def test_ping_goes_both_ways_in_the_legacy_era(client, portal):
    """2026-07-28 has no ping, and its servers send no requests."""
    revision = client.protocol_version

    async def session():
        back = await client.call_tool("asks_back")
        if revision == MODERN:
            assert back.is_error
            with pytest.raises(MCPError) as caught:
                await client.send_ping()
            assert caught.value.code == types.METHOD_NOT_FOUND
        else:
            assert text_of(back) == "answered with {}"
            await client.send_ping()

    run(session, portal)


@pytest.mark.parametrize("revision", LEGACY)
@pytest.mark.spec("server/tools/list-changed")
def test_a_changed_list_is_told_to_a_legacy_client(revision):
    async def session():
        told = anyio.Event()

        async def on_message(message: Any) -> None:
            if isinstance(message, types.ToolListChangedNotification):
                told.set()

        async with official(revision, message_handler=on_message) as client:
            before, _ = await all_tools(client)
            await client.call_tool("grow")
            await told.wait()
            after, _ = await all_tools(client)
            assert after.keys() - before.keys() == {"grown"}
            assert before.keys() - after.keys() == {"noisy"}
            assert text_of(await client.call_tool("grown")) == "new"

    run(session)


def test_a_modern_client_is_told_no_change_it_did_not_subscribe_to():
    """basic/patterns/subscriptions: changes flow on subscriptions/listen only."""

    async def session():
        messages: list[Any] = []

        async def on_message(message: Any) -> None:
            messages.append(message)

        async with official(MODERN, message_handler=on_message) as client:
            await client.call_tool("grow")
            tools, _ = await all_tools(client)
            assert "grown" in tools
            assert messages == []

    run(session)


# ------------------------------------------------------------------------ methods of one's own


class DoubleParams(types.RequestParams):
    n: int


class Double(types.Request[DoubleParams, Literal["vendor/double"]]):
    method: Literal["vendor/double"] = "vendor/double"
    params: DoubleParams


class Doubled(types.Result):
    doubled: int
    revision: str


class HeardParams(types.NotificationParams):
    news: str


class Heard(types.Notification[HeardParams, Literal["vendor/heard"]]):
    method: Literal["vendor/heard"] = "vendor/heard"
    params: HeardParams


class ToldParams(types.NotificationParams):
    news: int


def test_a_vendor_request_and_notification_are_heard(client, portal):
    revision = client.protocol_version

    async def session():
        doubled = await client.session.send_request(Double(params=DoubleParams(n=21)), Doubled)
        assert (doubled.doubled, doubled.revision) == (42, revision)
        await client.session.send_notification(Heard(params=HeardParams(news="rain")))
        heard = await client.call_tool("notifications_heard")
        assert text_of(heard) == '[{"news":"rain"}]'

    run(session, portal)


def test_a_vendor_notification_of_the_server_is_heard(revision):
    async def session():
        told: list[int] = []
        heard = anyio.Event()

        async def on_told(params: ToldParams) -> None:
            told.append(params.news)
            heard.set()

        class Extension(ClientExtension):
            identifier = "com.example/news"

            def notifications(self) -> list[NotificationBinding[Any]]:
                method = "notifications/vendor/told"
                return [NotificationBinding(method=method, params_type=ToldParams, handler=on_told)]

        async with official(revision, extensions=[Extension()]) as client:
            await client.call_tool("tells")
            await heard.wait()
            assert told == [1]

    run(session)


def test_a_method_that_nobody_has_is_not_found(client, portal):
    """Neither one that no revision has, nor one whose capability the server did not declare."""

    class Nothing(types.Request[types.RequestParams, Literal["vendor/nothing"]]):
        method: Literal["vendor/nothing"] = "vendor/nothing"
        params: types.RequestParams

    async def session():
        with pytest.raises(MCPError) as caught:
            await client.session.send_request(Nothing(params=types.RequestParams()), types.EmptyResult)
        assert caught.value.code == types.METHOD_NOT_FOUND
        with pytest.raises(MCPError) as caught:
            await client.list_prompts()
        assert caught.value.code == types.METHOD_NOT_FOUND

    run(session, portal)


# ------------------------------------------------------------------------------ size and end


@pytest.mark.parametrize("revision", NEWEST)
def test_a_mebibyte_goes_there_and_back(revision):
    async def session():
        text = 'ä€𝄞 \\"\n' * (2**20 // 14)
        async with official(revision) as client:
            assert text_of(await client.call_tool("echo", {"text": text})) == text

    run(session)


def test_twenty_calls_run_at_once(client, portal):
    """Each of them waits for all the others."""

    async def session():
        results: list[str] = []
        async with anyio.create_task_group() as group:

            async def meet() -> None:
                results.append(text_of(await client.call_tool("meet")))

            for _ in range(20):
                group.start_soon(meet)
        assert results == ["met"] * 20

    run(session, portal)


def test_what_a_tool_prints_does_not_reach_the_wire(revision, tmp_path, monkeypatch):
    """And the server ends at the end of its input: quietly, before the SDK has to kill it."""
    monkeypatch.setattr("mcp.client.stdio.PROCESS_TERMINATION_TIMEOUT", 2 * PATIENCE)
    path = tmp_path / "stderr"

    async def session():
        async with official(revision, log=path.open("w")) as client:
            assert text_of(await client.call_tool("noisy")) == "quiet"
            started = anyio.current_time()
        assert anyio.current_time() - started < PATIENCE  # before the SDK sends a signal

    run(session)
    assert sorted(path.read_text().splitlines()) == ["and this is for people", "this is no message"]
