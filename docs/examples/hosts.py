"""Three servers at once, one of which does not start."""

import sys

from mcp_ref import connect_all

servers = {
    "calculator": "readme/server.py",
    "scales": {"command": sys.executable, "args": ["-m", "mcp_ref", "serve", "quickstart_server.py"]},
    "weather": {"command": "no-such-program"},
}
with connect_all(servers) as host:
    print(*[tool["name"] for tool in host.list_tools()])
    print(host.call_tool("calculator.add", {"a": 1, "b": 2}).text)
    print(host["scales"].server_info["name"])
    for name, problem in host.problems.items():
        print(f"{name} is not there: {problem}")
