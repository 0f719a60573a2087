"""A tool that asks before it deletes, and a person who says y, or anything else."""

from typing import Any

from mcp_ref import Context, Server, connect

server = Server("files")
files = ["a.txt", "b.txt"]


@server.tool
def delete(name: str, ctx: Context) -> str:
    """Delete a file."""
    if not ctx.confirm(f"Delete {name}?"):
        return f"{name} is kept"
    files.remove(name)
    return f"{name} is gone"


def ask(question: Any) -> bool:
    return input(f"{question.server} asks: {question.message} [y/N] ") == "y"


with connect(server, elicitation=ask) as client:
    for name in list(files):
        print(client.call_tool("delete", {"name": name}).text)
print("left:", *files)
