"""Tasks outlive their server: they are kept in a file, and its process is killed."""

import os
import sys
import tempfile
from pathlib import Path

from mcp_ref import ClientOptions, Context, McpError, Server, SqliteStore, TaskOptions, connect

if sys.argv[1:]:
    server = Server("mill", tasks=TaskOptions(store=SqliteStore(sys.argv[1]), poll_interval=0.05))

    @server.tool(task="required")
    def grind(kilos: int, ctx: Context) -> str:
        """Grind; more than 100 kilos take a day."""
        if kilos > 100:
            ctx.sleep(86_400)
        return f"{kilos} kilos of flour"

    @server.tool
    def die() -> None:
        """End the process, as kill -9 does."""
        os._exit(9)

    server.run()
    sys.exit()

with tempfile.TemporaryDirectory() as folder:
    command = [sys.executable, __file__, str(Path(folder) / "tasks.db")]
    quiet = ClientOptions(on_stderr=lambda line: None)

    with connect(command, options=quiet) as client:
        small = client.start_tool("grind", {"kilos": 5}, ttl=600)
        large = client.start_tool("grind", {"kilos": 500}, ttl=600)
        small.result(timeout=60)
        try:
            client.call_tool("die")
        except McpError:
            print("killed; the large task was", large.status)

    # Another process, with the same file: it would be the same after a week, as long as the ttl allows.
    with connect(command, options=quiet) as client:
        print("small:", client.task(small.id).result(timeout=60).text)
        task = client.task(large.id)
        print("large:", task.status, "-", task.message)
