"""Tools that run as tasks, and one that never does.

In 2026-07-28 the server makes tasks of the calls (extensions/tasks). In 2025-11-25 the client asks for it,
and must where a tool runs as a task alone (basic/utilities/tasks). Older revisions have none, and wait.
"""

from dataclasses import dataclass

from fixtures_server import server

from mcp_ref import Context, Elicit, ProtocolError


@dataclass
class Confirm:
    confirm: bool


@dataclass
class Name:
    name: str


class RateLimited(ProtocolError):
    """The service behind a tool does not answer now."""

    code = -32000


@server.tool(output_schema=False)
def greet(name: str) -> str:
    """Greets; never runs as a task."""
    return f"Hello, {name}!"


@server.tool(output_schema=False, task="optional")
def slow_compute(ctx: Context, seconds: float = 1.0, label: str = "") -> str:
    """Takes so many seconds, as a task where the client knows tasks; ends at once when it is cancelled."""
    if seconds > 0:
        ctx.become_task()
    ctx.status(f"computing {label}")
    ctx.sleep(seconds)
    return f"Computed {label} in {seconds:g} s."


@server.tool(output_schema=False, task="required")
def failing_job() -> str:
    """Runs as a task alone, and says that it failed."""
    raise ValueError("this job intentionally fails")


@server.tool(output_schema=False, task="required")
def protocol_error_job() -> str:
    """Runs as a task alone, and ends with a JSON-RPC error."""
    raise RateLimited("API rate limit exceeded")


@server.tool(output_schema=False, task="required")
def confirm_delete(filename: str, ctx: Context) -> str:
    """Runs as a task alone, and asks whether to delete."""
    answer = ctx.elicit(f"Delete {filename}?", Confirm)
    is_confirmed = answer.accepted and answer.data.confirm
    return f"Deleted {filename}." if is_confirmed else f"Kept {filename}."


@server.tool(output_schema=False, task="required")
def multi_input(ctx: Context) -> str:
    """Runs as a task alone, and asks two things at once."""
    name, confirmed = ctx.ask_all(Elicit("What is your name?", Name), Elicit("Go on?", Confirm))
    return f"{name.content}, {confirmed.content}"


@server.tool(output_schema=False, task="optional")
def test_tool_with_task(ctx: Context) -> str:
    """Asks for a name as an ordinary call does, and goes on as a task where the client knows tasks."""
    answer = ctx.elicit("What is your name?", Name)
    ctx.become_task()
    return f"Hello, {answer.data.name}!" if answer.accepted else "Hello!"
