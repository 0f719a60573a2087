"""Tasks between this package and the official Python SDK, as far as that has any.

The SDK (`mcp` 2.3.0) runs no tasks and drives none. It has the types of 2025-11-25 (mcp_types), but its
tables of methods leave tasks/* out ("deliberately absent", mcp_types/methods.py), its servers declare none,
and `Client.call_tool` has no `task`. Of 2026-07-28 it has what an extension needs: a client may claim results
of the type "task" (mcp.client.extension.ResultClaim), and a server may add tasks/get and answer a call by
itself (mcp.server.extension.Extension). The extension is made of these here.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import anyio
import mcp_types as types
import pytest
from interop.sdk_processes import reaped
from mcp import Client, StdioServerParameters
from mcp.client.extension import ClaimContext, ClientExtension, ResultClaim
from mcp.client.stdio import stdio_client
from mcp.shared.exceptions import MCPError
from peers import ENV, LEGACY, MODERN, PATIENCE, nothing_left
from pydantic import ConfigDict

from mcp_ref import ClientOptions, ErrorResponse, connect
from mcp_ref.runtime.errors import LocalError

HERE = Path(__file__).parent
OFFICIAL = [sys.executable, str(HERE / "official_tasks_server.py")]
OURS = StdioServerParameters(command=sys.executable, args=[str(HERE / "our_tasks_server.py")], env=ENV)


# -- our client, the SDK's server ------------------------------------------------------------------


@pytest.mark.spec("extensions/tasks/client-handles-both", "extensions/tasks/client-fulfils-inputs")
def test_our_client_follows_answers_and_fetches_a_task_of_a_server_of_the_sdk():
    with (
        nothing_left(),
        connect(
            OFFICIAL,
            timeout=100,
            revision=MODERN,
            elicitation=lambda request: {},
            options=ClientOptions(extensions={"io.modelcontextprotocol/tasks": {}}),
        ) as client,
    ):
        assert client.call_tool("plain").text == "plain"
        task = client.start_tool("render")
        states = [(each.status, each.message) for each in task.updates(PATIENCE)]
        assert states == [
            ("working", None),
            ("working", "look 1"),
            ("working", "look 2"),
            ("input_required", None),
            ("completed", None),
        ]
        assert task.result(PATIENCE).text == "accept for 3f1c"
        assert client.task(task.id).result().text == "accept for 3f1c"
        assert client.call_tool("render").text == "accept for 3f1c"
        with pytest.raises(ErrorResponse) as caught:
            task.asker.request("tasks/cancel", {"taskId": task.id})  # which that extension left out
        assert caught.value.code == -32601


def test_a_server_of_the_sdk_has_no_tasks_of_2025_11_25():
    with nothing_left(), connect(OFFICIAL, timeout=100, revision=LEGACY[3]) as client:
        assert "tasks" not in (client.server_capabilities or {})
        with pytest.raises(LocalError, match=r"did not declare tasks\.requests"):
            client.start_tool("plain")
        assert client.call_tool("plain").text == "plain"


# -- the SDK's client, our server ------------------------------------------------------------------


def run(session: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run one asynchronous session, with a limit."""

    async def limited() -> None:
        with anyio.fail_after(3 * PATIENCE):
            await session()

    with nothing_left():
        asyncio.run(limited())


@asynccontextmanager
async def ours(**options: Any) -> AsyncIterator[Client]:
    """The SDK's client of our server."""
    with tempfile.TemporaryFile("w+") as stderr:
        async with reaped(Client(stdio_client(OURS, errlog=stderr), **options)) as opened:
            yield opened


class Created(types.Result):
    result_type: Literal["task"] = "task"
    task_id: str


class TaskParams(types.RequestParams):
    task_id: str
    input_responses: dict[str, Any] | None = None


class Get(types.Request[TaskParams, Literal["tasks/get"]]):
    method: Literal["tasks/get"] = "tasks/get"
    params: TaskParams


class Update(types.Request[TaskParams, Literal["tasks/update"]]):
    method: Literal["tasks/update"] = "tasks/update"
    params: TaskParams


class Detailed(types.Result):
    model_config = ConfigDict(extra="allow")


class Tasks(ClientExtension):
    """Looks until the task is over, and accepts whatever it asks."""

    identifier = "io.modelcontextprotocol/tasks"

    def __init__(self) -> None:
        self.seen: list[str] = []

    def claims(self) -> list[ResultClaim[Any]]:
        return [ResultClaim(result_type="task", model=Created, resolve=self.resolve)]

    async def resolve(self, created: Created, ctx: ClaimContext) -> types.CallToolResult:
        answered: set[str] = set()
        while True:
            found = await ctx.session.send_request(Get(params=TaskParams(task_id=created.task_id)), Detailed)
            task = found.model_extra or {}
            self.seen.append(task["status"])
            if task["status"] == "completed":
                return types.CallToolResult.model_validate(task["result"])
            new = {key for key in task.get("inputRequests", {}) if key not in answered}
            if new:
                answered |= new
                responses = {key: {"action": "accept", "content": {}} for key in new}
                params = TaskParams(task_id=created.task_id, input_responses=responses)
                await ctx.session.send_request(Update(params=params), Detailed)
            await anyio.sleep(task["pollIntervalMs"] / 1000)


def test_a_client_of_the_sdk_follows_a_task_of_our_server():
    extension = Tasks()

    async def session():
        async with ours(extensions=[extension], elicitation_callback=never_asked) as client:
            result = await client.call_tool("render", {"frames": 3})
            assert result.structured_content == {"frames": 3, "accept": 1}

    run(session)
    assert extension.seen[-1] == "completed"
    assert "input_required" in extension.seen


@pytest.mark.spec("extensions/tasks/no-task-without-capability", "extensions/tasks/capability-required-32021")
def test_a_client_of_the_sdk_without_the_extension_gets_no_task_from_our_server():
    async def session():
        async with ours() as client:
            result = await client.call_tool("quick", {})
            assert result.structured_content == {"result": "quick"}
            with pytest.raises(MCPError) as caught:
                await client.call_tool("render", {"frames": 1})
            assert caught.value.code == -32021

    run(session)


async def never_asked(context: Any, params: Any) -> Any:
    """Declares that forms can be asked; the extension answers them."""
    raise AssertionError("the SDK was asked itself")
