"""The client of the official SDK: for each number on stdin, makes so many calls, says how long each took."""

import json
import sys
import time

import anyio
from mcp import Client, StdioServerParameters

_, revision, *target = sys.argv
"""Of the server: its URL, or a command."""
MODE = revision if revision == "2026-07-28" else "legacy"
"""This SDK names a modern revision, or the era of `initialize`, in which it offers its newest."""


async def main() -> None:
    """Standard input is read on the loop's own thread: nothing else has to run meanwhile."""
    url = target[0].startswith("http:")
    server = target[0] if url else StdioServerParameters(command=target[0], args=target[1:])
    async with Client(server, mode=MODE) as client:
        await client.list_tools()
        for line in sys.stdin:
            seconds, before = [], time.process_time()
            for number in range(int(line)):
                start = time.perf_counter()
                result = await client.call_tool("add", {"a": number, "b": 1})
                seconds.append(time.perf_counter() - start)
                if result.structured_content != {"result": number + 1}:
                    raise SystemExit(f"a wrong answer: {result}")
            cpu = time.process_time() - before
            print(
                json.dumps({"seconds": seconds, "cpu": cpu, "revision": client.protocol_version}), flush=True
            )


anyio.run(main)
