"""A server in another one: its tools have a prefix, and what they ask comes through."""

from mcp_ref import Context, Server, connect

notes = Server("notes")


@notes.tool
def delete(title: str, ctx: Context) -> str:
    """Delete a note."""
    return f"{title} is gone" if ctx.confirm(f"Delete {title}?") else f"{title} is kept"


office = Server("office")
office.mount("notes", notes)

with connect(office, elicitation=lambda question: print(question.message) or True) as client:
    print([tool["name"] for tool in client.list_tools()])
    print(client.call_tool("notes.delete", {"title": "milk"}).text)
