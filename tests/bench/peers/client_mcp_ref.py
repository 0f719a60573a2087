"""The client of this package: for each number on stdin, makes so many calls and says how long each took."""

import json
import sys
import time

from mcp_ref import connect

_, revision, *target = sys.argv
"""Of the server: its URL, or a command."""

with connect(target[0] if target[0].startswith("http:") else target, revision=revision) as client:
    client.list_tools()
    for line in sys.stdin:
        seconds, before = [], time.process_time()
        for number in range(int(line)):
            start = time.perf_counter()
            result = client.call_tool("add", {"a": number, "b": 1})
            seconds.append(time.perf_counter() - start)
            if result.structured != {"result": number + 1}:
                raise SystemExit(f"a wrong answer: {result}")
        report = {"seconds": seconds, "cpu": time.process_time() - before, "revision": str(client.revision)}
        print(json.dumps(report), flush=True)
