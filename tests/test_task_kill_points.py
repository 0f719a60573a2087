"""A server is killed at each step of a task's life: before the store keeps the step, and right after."""

import contextlib
import sys

import pytest
from peers import ENV, PATIENCE

from mcp_ref import McpError, Server, connect
from mcp_ref.api.options import ClientOptions
from mcp_ref.basic.utilities.tasks.behavior_requirements import TaskOptions
from mcp_ref.runtime.stores.sqlite import SqliteStore

SERVER = """
import os, signal, sys
from mcp_ref import Context, Server
from mcp_ref.basic.utilities.tasks.behavior_requirements import TaskOptions
from mcp_ref.runtime.stores.sqlite import SqliteStore

path, point, when = sys.argv[1], int(sys.argv[2]), sys.argv[3]

class Mortal(SqliteStore):
    steps = 0

    def at(self, moment):
        if (self.steps, moment) == (point, when):
            os.kill(os.getpid(), signal.SIGKILL)

    def add(self, entry, **limits):
        self.steps += 1
        self.at("before")
        super().add(entry, **limits)
        self.at("after")

    def change(self, entry_id, make):
        self.steps += 1
        self.at("before")
        made = super().change(entry_id, make)
        self.at("after")
        return made

server = Server("mortal", tasks=TaskOptions(store=Mortal(path), poll_interval=0.02))

@server.tool(task="required")
def film(ctx: Context) -> str:
    ctx.status("at it")
    return "shown" if ctx.confirm("Show it?") else "not shown"

server.run()
"""

STEPS = ("begun", "status", "asked", "answered", "ended")
"""Each is one add or change of the store."""


def live(path: str, point: int, when: str) -> str | None:
    """Have a task run to its end, or to that of its server; its id, if the client was told of it.

    The client starts a server of 2026-07-28 again that has died, and asks that one: it may be told there that
    the task failed.
    """
    told = None
    options = ClientOptions(env=ENV)
    command = [sys.executable, "-c", SERVER, path, str(point), when]
    with (
        connect(command, revision="2026-07-28", elicitation=lambda question: True, options=options) as client,
        contextlib.suppress(McpError),
    ):
        task = client.start_tool("film")
        told = task.id
        task.result(PATIENCE)
    return told


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("point", range(1, len(STEPS) + 1), ids=STEPS)
def test_a_task_that_a_client_knows_is_over_or_failed_with_a_reason_whenever_its_server_dies(
    tmp_path, point, when
):
    path = str(tmp_path / "tasks.sqlite")
    told = live(path, point, when)
    reader = Server("reader", tasks=TaskOptions(store=SqliteStore(path)))
    reader.add_tool(lambda: None, name="film", task="required")
    with connect(reader, revision="2025-11-25") as client:
        kept = {task.id: task for task in client.list_tasks()}
    if told is not None:
        assert told in kept
    # A task whose server died before its id was out is there nonetheless, if it was begun.
    assert len(kept) == (0 if (point, when) == (1, "before") else 1)
    for task in kept.values():
        is_kept = (point, when) == (len(STEPS), "after")
        assert task.status == ("completed" if is_kept else "failed")
        assert is_kept or "The task was interrupted" in str(task.message)


def test_without_a_death_the_task_takes_as_many_steps_as_there_are_points(tmp_path):
    path = str(tmp_path / "tasks.sqlite")
    command = [sys.executable, "-c", SERVER, path, "0", "never"]
    with connect(
        command,
        revision="2026-07-28",
        elicitation=lambda question: True,
        options=ClientOptions(env=ENV),
    ) as client:
        task = client.start_tool("film")
        assert task.result(PATIENCE).text == "shown"
    store = SqliteStore(path)
    try:
        entry = store.get(task.id)
        assert entry is not None and entry.version == len(STEPS)
    finally:
        store.close()
