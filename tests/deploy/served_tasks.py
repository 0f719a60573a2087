"""A server whose tasks are in one file, for several processes: `served_tasks:app`.

Each run of the tool leaves a line with its number in `runs`, so that a test sees what ran, and how often.
"""

import os
from pathlib import Path

from mcp_ref import Context, Server
from mcp_ref.basic.utilities.tasks.behavior_requirements import TaskOptions
from mcp_ref.runtime.stores.sqlite import SqliteStore

__all__ = ["app", "server"]

FOLDER = Path(os.environ["DEPLOY_FOLDER"])

server = Server("tasks", tasks=TaskOptions(store=SqliteStore(FOLDER / "tasks.sqlite"), most_live=10_000))


@server.tool(task="required")
def work(number: int, kind: str, ctx: Context) -> dict[str, int]:
    """Give the square of a number; "ask" asks before, "wait" waits until it is cancelled."""
    runs = os.open(FOLDER / "runs", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(runs, f"{number}\n".encode())  # one write of a line to the end: processes do not mix them
    os.close(runs)
    if kind == "wait":
        ctx.sleep(60.0)
    if kind == "ask" and not ctx.confirm(f"Go on with {number}?"):
        return {"square": -1}
    return {"square": number * number}


app = server.wsgi_app(path="/mcp", threads=int(os.environ.get("MCP_THREADS", "16")))
