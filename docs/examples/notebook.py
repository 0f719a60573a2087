"""A notebook, as a script with cells: what follows each `# %%` is one."""

# %% The server: another notebook, a program, a colleague's URL. Here it is in this cell.
from mcp_ref import Server, connect

server = Server("weather")


@server.tool
def temperatures(city: str) -> dict[str, list[float]]:
    """The temperatures of a week."""
    return {city: [12.5, 13.0, 11.0, 9.5, 10.0, 12.0, 14.5]}


# %% A connection that lasts as long as the notebook: without `with`.
client = connect(server, check=True, timeout=60)
[tool["name"] for tool in client.list_tools()]

# %% A call is a function call: no `await`, and no event loop that is running already.
week = client.call_tool("temperatures", {"city": "Oslo"}, returns=dict[str, list[float]])
max(week["Oslo"])

# %% Several at once, each of which may take long: go on, and wait for them in a later cell.
calls = [client.submit_tool("temperatures", {"city": city}) for city in ("Rome", "Kyiv")]

# %%
[call.result().structured for call in calls]

# %% At the end, or before the cell that connects is run again.
client.close()
