"""Limits: how many calls a second, how many at once, for each connection."""

from mcp_ref import ErrorResponse, Limit, Server, connect

server = Server("busy", limit=Limit(rate=0.1, burst=2, at_once=1))


@server.tool
def work() -> str:
    """Do a little."""
    return "done"


with connect(server) as client:
    for _ in range(3):
        try:
            print(client.call_tool("work").text)
        except ErrorResponse as problem:
            wait = problem.data["retryAfterMs"]
            print(f"refused with {problem.code}; come back in about {round(wait, -4) // 1000} s")
