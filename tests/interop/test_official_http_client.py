"""The official Python SDK's client against servers of ours over HTTP: what is HTTP's own.

Sessions and their end, JSON and event streams, servers without sessions, headers, streams that break and
are resumed, calls that are given up, both eras at one URL, HTTP+SSE beside it. What is the same over pipes
is in test_official_http_client_features. A session of the SDK runs in an event loop of its own for each test;
the servers are children that the tests of this module share, one for each way to run them.

Where the SDK (2.3) differs:

    a lost session          it reports that, and does not open a new one
    a POST that fails       its session goes down with it, whatever else runs in there
    MCP-Protocol-Version    it sends it in every revision, also where 2025-03-26 does not have it
    a broken stream         without `retry` it waits 1 s; it tries twice
    a lost subscription     it reports that, and does not listen again
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import string
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import anyio
import httpx2
import mcp_types as types
import pytest
import requests
from interop.http_children import Line, serving
from mcp import Client, ClientSession
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.client.subscriptions import ToolsListChanged
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ClientMessageMetadata
from peers import MODERN, PATIENCE, eventually, nothing_left

LEGACY = ("2025-03-26", "2025-06-18", "2025-11-25")
REVISIONS = (*LEGACY, MODERN)
ERAS = ("2025-11-25", MODERN)
EVENTS, JSON = "text/event-stream", "application/json"

pytestmark = pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning")

Serve = Callable[..., str]


@pytest.fixture(scope="module")
def serve() -> Iterator[Serve]:
    """The URL of a server that is run like this; the first one who asks starts it."""
    urls: dict[tuple[str, ...], str] = {}
    with nothing_left(), contextlib.ExitStack() as children:

        def url_of(*revisions: str, **options: Any) -> str:
            asked = ("our_http_features_server", json.dumps(options), *revisions)
            if asked not in urls:
                urls[asked] = children.enter_context(serving("our_http_server.py", *asked))
            return urls[asked]

        yield url_of


def run(session: Callable[[], Awaitable[None]]) -> None:
    """Run one asynchronous session, with a limit."""

    async def limited() -> None:
        with anyio.fail_after(PATIENCE):
            await session()

    asyncio.run(limited())


class Exchange(NamedTuple):
    """A request, and what its response began with."""

    method: str
    sent: httpx2.Headers
    body: Any
    status: int
    received: httpx2.Headers

    @property
    def kind(self) -> str:
        return str(self.received.get("content-type", ""))

    @property
    def session(self) -> str | None:
        return self.sent.get("mcp-session-id")


class Wire(httpx2.AsyncClient):
    """The SDK's HTTP client, which remembers what it did; `changes` are headers that it puts in."""

    def __init__(self, **changes: str) -> None:
        super().__init__(
            timeout=2 * PATIENCE, event_hooks={"request": [self._change], "response": [self._note]}
        )
        self.seen: list[Exchange] = []
        self.changes = changes

    async def _change(self, request: httpx2.Request) -> None:
        for name, value in self.changes.items():
            request.headers[name.replace("_", "-")] = value

    async def _note(self, response: httpx2.Response) -> None:
        request = response.request
        body = json.loads(request.content) if request.method == "POST" else None
        self.seen.append(
            Exchange(request.method, request.headers, body, response.status_code, response.headers)
        )

    def of(self, method: str) -> list[Exchange]:
        """Those of an MCP method, or of an HTTP method."""
        return [e for e in self.seen if method in (e.method, (e.body or {}).get("method"))]


def mode_of(revision: str) -> str:
    return "auto" if revision == MODERN else "legacy"


@contextlib.asynccontextmanager
async def official(
    url: str, revision: str = MODERN, wire: Wire | None = None, *, ends: bool = True, **options: Any
) -> AsyncIterator[Client]:
    """The SDK's client. `ends`: with DELETE."""
    async with wire or Wire() as http:
        transport = streamable_http_client(url, http_client=http, terminate_on_close=ends)
        async with Client(transport, mode=mode_of(revision), **options) as client:
            assert client.protocol_version == revision
            yield client


def text_of(result: types.CallToolResult) -> str:
    assert not result.is_error, result.content
    return "".join(block.text for block in result.content if isinstance(block, types.TextContent))


async def until(condition: Callable[[], Any]) -> None:
    """Until it is so: for what the SDK's tasks bring about by themselves."""
    assert await anyio.to_thread.run_sync(eventually, condition, abandon_on_cancel=True)


def told() -> tuple[list[float], Callable[..., Awaitable[None]]]:
    """Where progress goes, and who takes it there."""
    reports: list[float] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        reports.append(progress)

    return reports, on_progress


async def say_yes(context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
    return types.ElicitResult(action="accept", content={})


# ------------------------------------------------------------------------------- sessions


@pytest.mark.parametrize("revision", LEGACY)
@pytest.mark.spec(
    "basic/transports/streamable-http/session-id-assigned",
    "basic/transports/streamable-http/session-id-visible-ascii",
    "basic/transports/streamable-http/session-terminated-404",
    "basic/transports/streamable-http/notification-202",
)
def test_a_session_is_opened_used_and_ended(serve, revision):
    """Its id comes with initialize, is in all that follows, and means nothing after DELETE."""
    wire, url = Wire(), serve(revision)

    async def session():
        async with official(url, revision, wire) as client:
            assert text_of(await client.call_tool("add", {"a": 1, "b": 2})) == "3"
            await until(lambda: wire.of("GET"))
        (opening,), (begun,), (get,), (end,) = map(
            wire.of, ("initialize", "notifications/initialized", "GET", "DELETE")
        )
        name = opening.received["mcp-session-id"]
        assert opening.session is None
        assert set(name) <= set(string.printable[:94])
        assert {e.session for e in wire.seen if e is not opening} == {name}
        assert {e.sent.get("mcp-protocol-version") for e in wire.seen if e is not opening} == {revision}
        assert (begun.status, get.status, get.kind, end.status) == (202, 200, EVENTS, 204)
        async with httpx2.AsyncClient() as late:
            again = await late.get(url, headers={"mcp-session-id": name, "accept": EVENTS})
            assert again.status_code == 404

    run(session)


@pytest.mark.spec(
    "basic/transports/streamable-http/ignore-session-id",
    "basic/transports/streamable-http/mcp-method-header",
    "basic/transports/streamable-http/mcp-name-header",
)
def test_a_modern_client_has_no_session(serve):
    """Each request says what it is in headers as well, of which our server does without none."""
    wire = Wire()

    async def session():
        async with official(serve(), MODERN, wire) as client:
            await client.call_tool("add", {"a": 1, "b": 2})
            await client.read_resource("text://one")
            await client.get_prompt("greet", {"name": "Ann"})
        assert {e.method for e in wire.seen} == {"POST"}
        assert {e.status for e in wire.seen} == {200}
        assert all(e.session is None and "mcp-session-id" not in e.received for e in wire.seen)
        assert {e.sent["mcp-protocol-version"] for e in wire.seen} == {MODERN}
        assert [e.sent["mcp-method"] for e in wire.seen] == [e.body["method"] for e in wire.seen]
        named = {e.sent["mcp-method"]: e.sent.get("mcp-name") for e in wire.seen}
        assert (named["tools/call"], named["resources/read"], named["prompts/get"]) == (
            "add",
            "text://one",
            "greet",
        )

    run(session)


def test_both_eras_are_served_at_one_url_at_once(serve):
    """Which a client belongs to is in how it opens; each hears of a change in its own way."""
    url = serve()

    async def session():
        heard = anyio.Event()

        async def on_message(message: Any) -> None:
            if isinstance(message, types.ToolListChangedNotification):
                heard.set()

        async with (
            official(url, MODERN) as modern,
            official(url, "2025-11-25", message_handler=on_message) as legacy,
            modern.listen(tools_list_changed=True) as changes,
        ):
            for client in (modern, legacy):
                assert text_of(await client.call_tool("change")) == "changed"
                assert await anext(changes) == ToolsListChanged()
                await heard.wait()
                heard = anyio.Event()

    run(session)


@pytest.mark.parametrize("revision", LEGACY)
def test_a_session_that_is_over_is_reported(serve, revision):
    """By the SDK's client to its caller."""
    wire, url = Wire(), serve(revision)

    async def session():
        async with official(url, revision, wire) as client:
            name = wire.of("initialize")[0].received["mcp-session-id"]
            async with httpx2.AsyncClient() as another:
                ended = await another.delete(url, headers={"mcp-session-id": name})
                assert ended.status_code == 204
            with pytest.raises(MCPError) as caught:
                await client.call_tool("add", {"a": 1, "b": 2})
            assert caught.value.code == types.INVALID_REQUEST
            assert wire.seen[-1].status == 404

    run(session)


@pytest.mark.parametrize("revision", REVISIONS)
def test_the_plain_session_class_opens_one(serve, revision):
    """ClientSession, without the Client around it."""

    async def session():
        url = serve(revision) if revision != MODERN else serve()
        async with streamable_http_client(url) as streams, ClientSession(*streams) as client:
            if revision == MODERN:
                assert MODERN in (await client.discover()).supported_versions
            else:
                assert (await client.initialize()).protocol_version == revision
            assert text_of(await client.call_tool("add", {"a": 1, "b": 2})) == "3"

    run(session)


@pytest.mark.parametrize("revision", ERAS)
def test_a_client_that_declares_nothing_is_not_asked(serve, revision):
    """A tool that failed in the legacy era; in 2026-07-28 -32021, with the status 400."""
    wire = Wire()

    async def session():
        async with official(serve(), revision, wire) as client:
            if revision == MODERN:
                with pytest.raises(MCPError) as caught:
                    await client.call_tool("confirm")
                assert caught.value.code == types.MISSING_REQUIRED_CLIENT_CAPABILITY
                assert wire.of("tools/call")[-1].status == 400
            else:
                result = await client.call_tool("confirm")
                assert result.is_error
                assert "elicitation" in result.content[0].text

    run(session)


@pytest.mark.parametrize("revision", ERAS)
def test_a_foreign_origin_is_refused(serve, revision):
    """403, whatever the SDK makes of it."""
    wire = Wire(origin="https://evil.example")

    async def session():
        async with official(serve(), revision, wire):
            raise AssertionError("this cannot be opened")

    with pytest.raises((MCPError, BaseExceptionGroup)):
        run(session)
    assert {e.status for e in wire.seen} == {403}


# --------------------------------------------------------------------- what an answer is


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize(
    ("answers", "short", "long"),
    [("auto", JSON, EVENTS), ("stream", EVENTS, EVENTS), ("json", JSON, JSON)],
)
def test_answers_are_json_or_events(serve, revision, answers, short, long):
    """As they come, or as the server was told; in JSON alone there is no room for progress."""
    wire, url = Wire(), serve(revision, answers=answers)
    reports, on_progress = told()

    async def session():
        async with official(url, revision, wire) as client:
            assert text_of(await client.call_tool("add", {"a": 1, "b": 2})) == "3"
            assert wire.of("tools/call")[0].kind == short
            await client.call_tool("release", {"name": "open"})
            held = {"name": "open", "says": 3}
            assert text_of(await client.call_tool("hold", held, progress_callback=on_progress)) == "held open"
            assert [e.kind for e in wire.of("tools/call") if e.body["params"]["name"] == "hold"] == [long]
            if answers != "json":
                await until(lambda: len(reports) == 6)
            assert sorted(reports) == ([] if answers == "json" else [1, 2, 3, 4, 5, 6])

    run(session)


@pytest.mark.parametrize("revision", ["2025-06-18", "2025-11-25", MODERN])
def test_json_alone_has_no_room_for_questions_of_the_legacy_era(serve, revision):
    """The tool is told at once; in 2026-07-28 the question is the answer, and nothing is different."""

    async def session():
        url = serve(revision, answers="json")
        async with official(url, revision, elicitation_callback=say_yes) as client:
            result = await client.call_tool("confirm")
            if revision == MODERN:
                assert text_of(result) == "accept"
            else:
                assert result.is_error
                assert "answers='json'" in result.content[0].text

    run(session)


@pytest.mark.parametrize("answers", ["auto", "json", "stream"])
def test_a_subscription_is_a_stream_in_every_mode(serve, answers):
    wire, url = Wire(), serve(answers=answers)

    async def session():
        async with official(url, MODERN, wire) as client:
            async with client.listen(tools_list_changed=True) as changes:
                await client.call_tool("change")
                assert await anext(changes) == ToolsListChanged()
            assert wire.of("subscriptions/listen")[0].kind == EVENTS

    run(session)


# ------------------------------------------------------------------- servers without sessions


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize("answers", ["auto", "json", "stream"])
def test_without_sessions_each_request_is_one_of_its_own(serve, revision, answers):
    """Tools, resources, prompts, and progress where there is room. No id, no GET, no DELETE."""
    wire, url = Wire(), serve(revision, answers=answers, stateless=True)
    reports, on_progress = told()

    async def session():
        async with official(url, revision, wire) as client:
            assert text_of(await client.call_tool("add", {"a": 1, "b": 2})) == "3"
            assert (await client.read_resource("text://one")).contents[0].text == "one"
            said = await client.get_prompt("greet", {"name": "Ann"})
            assert said.messages[0].content.text == "Hello Ann"
            await client.call_tool("release", {"name": "open"})
            await client.call_tool("hold", {"name": "open", "says": 1}, progress_callback=on_progress)
            if answers != "json":
                await until(lambda: len(reports) == 2)
        assert all("mcp-session-id" not in e.received and e.session is None for e in wire.seen)
        assert {e.method for e in wire.seen} == {"POST"}
        kinds = {e.kind for e in wire.of("tools/call")[:1]}
        assert kinds == {EVENTS if answers == "stream" else JSON}

    run(session)


@pytest.mark.parametrize("revision", ["2025-06-18", "2025-11-25", MODERN])
def test_without_sessions_nobody_is_asked_in_the_legacy_era(serve, revision):
    """The answer would find nobody who waits for it. In 2026-07-28 it brings along what it belongs to."""

    async def session():
        url = serve(revision, stateless=True)
        async with official(url, revision, elicitation_callback=say_yes) as client:
            with anyio.fail_after(PATIENCE / 2):  # the tool would wait for an answer for longer
                result = await client.call_tool("confirm")
            if revision == MODERN:
                assert text_of(result) == "accept"
            else:
                assert result.is_error

    run(session)


# ------------------------------------------------------------------------------- headers


@pytest.mark.parametrize("region", ["eu-west", "Zürich", " padded ", "=?base64?ZXU=?=", "a\nb", ""])
@pytest.mark.spec(
    "basic/transports/streamable-http/decode-sentinel", "basic/transports/streamable-http/param-validate"
)
def test_arguments_that_are_headers_too(serve, region):
    """The SDK writes them once it has seen the tool, and our server finds them right."""
    wire = Wire()

    async def session():
        async with official(serve(), MODERN, wire) as client:
            await client.list_tools()
            arguments = {"region": region, "number": -7, "sure": True}
            result = await client.call_tool("mirrored", arguments)
            assert json.loads(text_of(result)) == [region, -7, True]
            sent = wire.of("tools/call")[0].sent
            assert (sent["mcp-param-number"], sent["mcp-param-sure"]) == ("-7", "true")
            plain = region == "eu-west"
            assert sent["mcp-param-region"].startswith("=?base64?") != (plain or not region)

    run(session)


@pytest.mark.parametrize(
    "wrong",
    [{"mcp_param_region": "us"}, {"mcp_name": "subtract"}, {"mcp_method": "tools/list"}],
    ids=lambda wrong: next(iter(wrong)),
)
def test_headers_that_say_something_else_are_refused(serve, wrong):
    """-32020, with the status 400."""
    wire = Wire()

    async def session():
        async with official(serve(), MODERN, wire) as client:
            await client.list_tools()
            wire.changes = wrong
            with pytest.raises(MCPError) as caught:
                await client.call_tool("mirrored", {"region": "eu"})
            assert caught.value.code == types.HEADER_MISMATCH
            assert wire.seen[-1].status == 400
            wire.changes = {}
            assert text_of(await client.call_tool("add", {"a": 1, "b": 2})) == "3"

    run(session)


@pytest.mark.parametrize("revision", REVISIONS)
def test_a_tool_sees_the_headers_of_its_request(serve, revision):
    async def session():
        async with official(serve(revision), revision, Wire(x_trace="t1")) as client:
            sent = json.loads(text_of(await client.call_tool("headers")))
            assert (sent["x-trace"], sent["mcp-protocol-version"]) == ("t1", revision)

    run(session)


# ------------------------------------------------------------------ calls that are given up


async def _give_up(client: Client, wire: Wire, name: str, says: int) -> str:
    """Call `hold`, and leave it once it runs; what became of it."""
    with anyio.CancelScope() as call:

        async def on_progress(progress: float, total: float | None, message: str | None) -> None:
            call.cancel()

        async with anyio.create_task_group() as group:

            async def leave() -> None:
                if not says:
                    assert text_of(await client.call_tool("has_begun", {"name": name})) == "true"
                    call.cancel()

            group.start_soon(leave)
            await client.call_tool("hold", {"name": name, "says": says}, progress_callback=on_progress)
    return text_of(await client.call_tool("how_it_ended", {"name": name}))


@pytest.mark.parametrize("says", [0, 1], ids=["silent", "after progress"])
@pytest.mark.parametrize("revision", LEGACY)
def test_a_legacy_call_is_given_up_by_a_notification(serve, revision, says):
    wire = Wire()

    async def session():
        async with official(serve(revision), revision, wire) as client:
            reason = await _give_up(client, wire, f"{revision} {says}", says)
            assert reason == "caller cancelled"
            (cancelled,) = wire.of("notifications/cancelled")
            assert cancelled.status == 202

    run(session)


@pytest.mark.parametrize("says", [0, 1], ids=["silent", "after progress"])
@pytest.mark.parametrize("answers", ["auto", "json", "stream"])
@pytest.mark.spec(
    "basic/transports/streamable-http/cancel-on-disconnect",
    "basic/transports/streamable-http/cancel-stops-work",
)
def test_a_modern_call_is_given_up_by_closing_its_stream(serve, answers, says):
    """Noticed soon, also while the tool is silent; nothing else is sent."""
    if answers == "json" and says:
        return  # there is no progress by which to see that it runs
    wire, url = Wire(), serve(answers=answers)

    async def session():
        async with official(url, MODERN, wire) as client:
            begun = anyio.current_time()
            reason = await _give_up(client, wire, f"{answers} {says}", says)
            assert reason == "the client closed the stream"
            assert anyio.current_time() - begun < PATIENCE / 2
            assert wire.of("notifications/cancelled") == []

    run(session)


# ------------------------------------------------------------------- streams that break


async def from_elsewhere(url: str, revision: str, tool: str, **arguments: Any) -> str:
    """Call a tool on a line of one's own: the SDK's client goes down with a POST that finds its line cut."""
    async with official(url, revision) as another:
        return text_of(await another.call_tool(tool, arguments))


async def _call_while_cut(url: str, revision: str, wire: Wire) -> tuple[str, list[float]]:
    """Call `hold`, cut the line once it runs, and let it go on while nobody is there."""
    reports, on_progress = told()
    answers: list[str] = []
    with Line(url) as line:
        async with official(line.url, revision, wire) as client, anyio.create_task_group() as group:

            async def hold() -> None:
                arguments = {"name": line.url, "says": 2}
                result = await client.call_tool("hold", arguments, progress_callback=on_progress)
                answers.append(text_of(result))

            group.start_soon(hold)
            await until(lambda: len(reports) == 2)
            line.cut()
            await from_elsewhere(url, revision, "release", name=line.url)
    return answers[0], reports


@pytest.mark.parametrize("revision", LEGACY)
@pytest.mark.spec(
    "basic/transports/streamable-http/sse-resumable",
    "basic/transports/streamable-http/sse-disconnect-not-cancel",
)
def test_a_call_whose_stream_breaks_goes_on_and_is_resumed(serve, revision):
    """The SDK comes back with Last-Event-ID and misses nothing. Until 2025-11-25 it does so after 1 s."""
    wire = Wire()

    async def session():
        answer, reports = await _call_while_cut(serve(revision, retry_ms=20), revision, wire)
        assert answer.startswith("held ")
        assert sorted(reports) == [1, 2, 3, 4]
        resumed = [e for e in wire.of("GET") if "last-event-id" in e.sent]
        assert len([e for e in resumed if e.status == 200]) >= 1

    run(session)


def test_a_modern_call_whose_stream_breaks_is_over(serve):
    """Nothing is resumed in 2026-07-28: the SDK tells its caller, our server cancels the call."""

    async def session():
        with Line(serve(MODERN)) as line:
            async with official(line.url) as client:
                reports, on_progress = told()

                async def cut() -> None:
                    await until(lambda: reports)
                    line.cut()

                async with anyio.create_task_group() as group:
                    group.start_soon(cut)
                    arguments = {"name": line.url, "says": 1}
                    with pytest.raises(MCPError) as caught:
                        await client.call_tool("hold", arguments, progress_callback=on_progress)
                assert caught.value.code == types.CONNECTION_CLOSED
            ended = await from_elsewhere(serve(MODERN), MODERN, "how_it_ended", name=line.url)
            assert ended == "the client closed the stream"

    run(session)


@pytest.mark.spec(
    "basic/transports/streamable-http/sse-prime-event",
    "basic/transports/streamable-http/sse-retry-before-close",
)
def test_a_tool_has_its_client_leave_and_come_back(serve):
    """`ctx.close_stream()` in 2025-11-25, twice in one call: nothing is lost, and `retry` is waited for."""
    wire = Wire()
    reports, on_progress = told()

    async def session():
        url = serve("2025-11-25", retry_ms=20)
        async with official(url, "2025-11-25", wire) as client:
            assert text_of(await client.call_tool("poll", progress_callback=on_progress)) == "left 2"
            await until(lambda: len(reports) == 4)
            assert sorted(reports) == [0, 0.5, 1, 1.5]
            assert [e.status for e in wire.of("GET") if "last-event-id" in e.sent][:1] == [200]

    run(session)


@pytest.mark.parametrize("revision", ["2025-03-26", "2025-06-18", MODERN])
def test_where_there_is_no_polling_a_client_stays(serve, revision):
    async def session():
        async with official(serve(revision), revision) as client:
            assert text_of(await client.call_tool("poll")) == "left 0"

    run(session)


def test_what_happens_while_the_get_stream_is_broken_is_heard_later(serve):
    """The SDK opens it again, after the second that it waits; our server has kept what was to be said."""
    wire = Wire()

    async def session():
        heard: list[Any] = []

        async def on_message(message: Any) -> None:
            if isinstance(message, types.ToolListChangedNotification):
                heard.append(message)

        revision = "2025-11-25"
        url = serve(revision, retry_ms=20)
        with Line(url) as line:
            async with official(line.url, revision, wire, message_handler=on_message):
                await until(lambda: wire.of("GET"))
                await from_elsewhere(url, revision, "change")
                await until(lambda: len(heard) == 1)
                line.cut()
                await from_elsewhere(url, revision, "change")
                await until(lambda: len(heard) == 2)
                first, again = wire.of("GET")
                assert "last-event-id" not in first.sent
                assert (again.status, "last-event-id" in again.sent) == (200, True)

    run(session)


def test_another_client_takes_up_a_call_of_the_same_session(serve):
    """By session id and event id, as after a crash."""
    revision = "2025-11-25"
    url = serve(revision)
    request = types.CallToolRequest(
        params=types.CallToolRequestParams(name="hold", arguments={"name": "taken up", "says": 1})
    )

    async def session():
        wire, tokens = Wire(), []

        async def on_token(token: str) -> None:
            tokens.append(token)

        async with official(url, revision, wire, ends=False) as client:
            metadata = ClientMessageMetadata(on_resumption_token_update=on_token)
            _, on_progress = told()  # something to be said, and so a stream with events
            send = partial(
                client.session.send_request,
                request,
                types.CallToolResult,
                metadata=metadata,
                progress_callback=on_progress,
            )
            async with anyio.create_task_group() as group:
                group.start_soon(send)
                await until(lambda: tokens)
                group.cancel_scope.cancel()
        assert wire.of("notifications/cancelled") == []
        changes = {
            "mcp_session_id": wire.of("initialize")[0].received["mcp-session-id"],
            "mcp_protocol_version": revision,
        }
        async with (
            Wire(**changes) as http,
            streamable_http_client(url, http_client=http) as streams,
            ClientSession(*streams) as client,
        ):
            metadata = ClientMessageMetadata(resumption_token=tokens[-1])
            answers = []

            async def resume() -> None:
                answers.append(await client.send_request(request, types.CallToolResult, metadata=metadata))

            async with anyio.create_task_group() as group:
                group.start_soon(resume)
                await until(lambda: http.of("GET"))
                await from_elsewhere(url, revision, "release", name="taken up")
            assert text_of(answers[0]) == "held taken up"

    run(session)


# ------------------------------------------------------------------------- many, and the end


@pytest.mark.parametrize("revision", REVISIONS)
def test_many_clients_call_at_once(serve, revision):
    """Ten clients, ten calls each, all in flight together; each gets its own answers."""
    url = serve(revision)

    async def session():
        async def one(number: int) -> None:
            async with official(url, revision) as client, anyio.create_task_group() as group:

                async def add(n: int) -> None:
                    assert text_of(await client.call_tool("add", {"a": number, "b": n})) == str(number + n)

                for n in range(10):
                    group.start_soon(add, n)

        async with anyio.create_task_group() as clients:
            for number in range(10):
                clients.start_soon(one, 100 * number)

    run(session)


def _is_refused(url: str) -> bool:
    try:
        return requests.get(url, timeout=PATIENCE).status_code == 503
    except requests.ConnectionError:
        return True


@pytest.mark.parametrize("revision", ERAS)
def test_a_server_that_is_told_to_go_finishes_what_runs(revision, tmp_path):
    """SIGTERM: the call in flight is answered, a subscription is ended as its page says."""
    refuses = tmp_path / "refuses"

    async def session():
        child = contextlib.ExitStack()
        url = child.enter_context(serving("our_http_server.py", "our_http_features_server", "{}"))
        with child:
            async with official(url, revision) as client:
                reports, on_progress = told()
                ended: list[Any] = []

                async def hold() -> None:
                    held = {"name": "the end", "says": 1}
                    ended.append(text_of(await client.call_tool("hold", held, progress_callback=on_progress)))

                async def listen() -> None:
                    async with client.listen(tools_list_changed=True) as changes:
                        listening.set()
                        ended.append([change async for change in changes])

                listening = anyio.Event()
                async with anyio.create_task_group() as group:
                    group.start_soon(hold)
                    if revision == MODERN:
                        group.start_soon(listen)
                        await listening.wait()
                    await until(lambda: reports)
                    await client.call_tool("release", {"name": "the end", "once": str(refuses)})
                    stopped = asyncio.get_running_loop().run_in_executor(None, child.close)
                    await until(lambda: _is_refused(url))
                    refuses.touch()
                assert ended == [[], "held the end"][revision != MODERN :]
                await stopped

    run(session)


# ------------------------------------------------------------------------------- HTTP+SSE


@pytest.mark.parametrize("revision", ["2024-11-05", *LEGACY])
def test_the_old_transport_is_served_beside_the_new_one(serve, revision):
    """On the same server. The SDK offers its newest revision there, and takes what it gets."""
    url = serve(revision, sse_path="/sse")
    heard: list[Any] = []

    async def on_message(message: Any) -> None:
        heard.append(message)

    async def session():
        reports, on_progress = told()
        old = sse_client(url.replace("/mcp", "/sse"))
        async with Client(
            old, mode="legacy", message_handler=on_message, elicitation_callback=say_yes
        ) as client:
            assert client.protocol_version == revision
            await client.call_tool("release", {"name": "open"})
            held = {"name": "open", "says": 1}
            assert text_of(await client.call_tool("hold", held, progress_callback=on_progress)) == "held open"
            await client.call_tool("change")
            await until(lambda: len(reports) == 2)
            await until(lambda: any(isinstance(m, types.ToolListChangedNotification) for m in heard))
            if revision > "2025-03-26":
                assert text_of(await client.call_tool("confirm")) == "accept"
            if revision != "2024-11-05":
                async with official(url, revision) as new:
                    assert text_of(await new.call_tool("add", {"a": 1, "b": 2})) == "3"

    run(session)
