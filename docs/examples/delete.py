"""One question of yes or no: what the person refuses is not done."""

from mcp_ref import Context, Server, connect

server = Server("files")
files = {"a.txt"}


@server.tool
def delete(name: str, ctx: Context) -> str:
    """Delete a file."""
    if not ctx.confirm(f"Really delete {name}?"):  # they said no, or nothing
        return f"kept {name}"
    files.discard(name)
    return f"deleted {name}"


for revision in "2025-11-25", "2026-07-28":
    for said in (False, None, True):
        with connect(server, revision=revision, elicitation=lambda question, said=said: said) as client:
            print(revision, said, client.call_tool("delete", {"name": "a.txt"}).text)
