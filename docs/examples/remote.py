"""One server over HTTP, and a client of each era. The server is a child here, so as to be gone at the end."""

import subprocess
import sys

from mcp_ref import connect

command = [sys.executable, "remote_server.py", "0"]  # any port that is free
with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
    url = child.stdout.readline().strip()
    for revision in ("2026-07-28", "2025-11-25"):
        with connect(url, revision=revision, elicitation=lambda asked: {"title": "Emma"}) as client:
            print(client.revision)
            counted = client.call_tool(
                "count", {"shelves": 2}, on_progress=lambda *told: print("  shelf", told[0], "of", told[1])
            )
            print(" ", counted.text)
            print(" ", client.call_tool("borrow").text)
    child.terminate()
print("the server ended with", child.returncode)
