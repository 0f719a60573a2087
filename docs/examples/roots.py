"""Roots: a client says which directories the work is about; a server of good manners keeps to them."""

import tempfile
from pathlib import Path

from mcp_ref import Context, Server, connect

server = Server("reader")


@server.tool
def read(path: str, ctx: Context) -> str:
    """Read a file of the project's."""
    if not ctx.is_within_roots(path):
        raise PermissionError(f"{Path(path).name} is not in the project")
    return Path(path).read_text()


@server.tool
def projects(ctx: Context) -> list[str]:
    """The names of all projects."""
    return [root["uri"].rpartition("/")[2] for root in ctx.list_roots()]


with tempfile.TemporaryDirectory() as home:
    project = Path(home, "project")
    project.mkdir()
    (project / "notes.txt").write_text("buy milk")
    (project / "link.txt").symlink_to("/etc/hostname")

    with connect(server, roots=[project]) as client:
        print(client.call_tool("projects").structured)
        for name in ("notes.txt", "../project/notes.txt", "../other.txt", "link.txt"):
            print(name, "->", client.call_tool("read", {"path": f"{project}/{name}"}).text)
