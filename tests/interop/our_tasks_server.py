"""A server of this package with tools that run as tasks, for the official SDK's client."""

from mcp_ref import Context, Server, TaskOptions

server = Server("ours", tasks=TaskOptions(grace=0, poll_interval=0.02))


@server.tool(task="required")
def render(frames: int, ctx: Context) -> dict[str, int]:
    answer = ctx.elicit("Good?", {"type": "object", "properties": {}})
    return {"frames": frames, answer.action: 1}


@server.tool(task="optional")
def quick() -> str:
    return "quick"


if __name__ == "__main__":
    server.run()
