from mcp_ref import connect

for revision in "2025-11-25", "2026-07-28":
    with connect("http://127.0.0.1:8000/mcp", revision=revision) as client:
        print(client.call_tool("add", {"a": 1, "b": 2}).text, client.revision)
