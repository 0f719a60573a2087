"""Tools that do something while they run, or whose parameters go in headers as well."""

from typing import Annotated, Any

from fixtures_server import server

from mcp_ref import Bounds, Context


@server.tool(output_schema=False)
def test_tool_with_progress(ctx: Context) -> str:
    """Reports progress three times."""
    for done in 0, 50, 100:
        ctx.progress(done, 100, f"Completed step {done} of 100")
    return "Completed all steps."


@server.tool(output_schema=False)
def test_tool_with_logging(ctx: Context) -> str:
    """Logs three messages, 50 ms apart."""
    for message in "Tool execution started", "Tool processing data", "Tool execution completed":
        ctx.log("info", message)
        ctx.sleep(0.05)
    return "Logged three messages."


@server.tool(output_schema=False)
def test_logging_tool(ctx: Context) -> str:
    """Logs a message, which gets only to who asked for log messages."""
    ctx.log("info", "This is for those who want it")
    return "Logged one message."


@server.tool(output_schema=False)
def test_print_stdout() -> str:
    """Prints, which must not get between the messages of the protocol."""
    print("This was printed by a tool", flush=True)
    return "Printed one line."


@server.tool(output_schema=False)
def test_slow(
    ctx: Context, delay_ms: Annotated[int, "how long it takes", Bounds(ge=0, le=600_000)] = 1000
) -> str:
    """Takes its time; ends at once when it is cancelled."""
    ctx.sleep(delay_ms / 1000)
    return f"Took {delay_ms} ms."


@server.tool(output_schema=False)
def test_reconnection(ctx: Context) -> str:
    """Closes the stream of its call; the client comes back for the result (2025-11-25)."""
    ctx.close_stream()
    ctx.sleep(0.1)
    return "You reconnected, and here is the result."


@server.tool(output_schema=False)
def test_missing_capability(ctx: Context) -> str:
    """Needs a client that has sampling."""
    ctx.require_capability(sampling={})
    return "This client has sampling."


@server.tool
def test_x_mcp_header(
    region: Annotated[str, "any text", {"x-mcp-header": "Region"}] = "",
    priority: Annotated[int, "any number", {"x-mcp-header": "Priority"}] = 0,
    verbose: Annotated[bool, "yes or no", {"x-mcp-header": "Verbose"}] = False,
) -> dict[str, Any]:
    """Has parameters that a client sends as headers too; returns them."""
    return {"region": region, "priority": priority, "verbose": verbose}


# ------------------------------------------------------------------------------ changes


@server.tool(output_schema=False)
def test_trigger_tool_change() -> str:
    """Replaces this tool by itself: who listens hears that the list of tools changed."""
    server.add_tool(test_trigger_tool_change, output_schema=False, replace=True)
    return "The list of tools changed."


@server.tool(output_schema=False)
def test_trigger_prompt_change() -> str:
    """Replaces a prompt by itself: who listens hears that the list of prompts changed."""
    from fixtures_resources import test_simple_prompt

    server.add_prompt(test_simple_prompt, replace=True)
    return "The list of prompts changed."


@server.tool(output_schema=False)
def test_trigger_resource_update() -> str:
    """Says that test://watched-resource is another one: who subscribed to it hears that."""
    server.resource_updated("test://watched-resource")
    return "test://watched-resource changed."
