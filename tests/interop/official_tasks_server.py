"""A server made with the official SDK that runs calls as tasks, for a client of this package.

The SDK has no tasks of its own: this is its interface for extensions, used for them.
"""

import sys
from typing import Any, Literal

import mcp_types as types
from mcp.server.extension import Extension, MethodBinding
from mcp.server.mcpserver import MCPServer
from pydantic import ConfigDict

NAME = "io.modelcontextprotocol/tasks"
ID = "3f1c"
looks = 0
answers: dict[str, Any] = {}


class TaskParams(types.RequestParams):
    task_id: str


class UpdateParams(TaskParams):
    input_responses: dict[str, Any]


class Outcome(types.Result):
    """Whatever members it is given."""

    model_config = ConfigDict(extra="allow")
    result_type: Literal["complete", "task"] = "complete"


def task(status: str, result_type: Literal["complete", "task"] = "complete", **more: Any) -> Outcome:
    at = "2026-07-28T10:00:00Z"
    times = {"createdAt": at, "lastUpdatedAt": at, "ttlMs": 60_000, "pollIntervalMs": 10}
    return Outcome(result_type=result_type, **{"taskId": ID, "status": status, **times, **more})


async def get(ctx: Any, params: TaskParams) -> Outcome:
    global looks
    looks += 1
    if looks < 3:
        return task("working", statusMessage=f"look {looks}")
    if not answers:
        asked = {"mode": "form", "message": "Good?", "requestedSchema": {"type": "object", "properties": {}}}
        return task("input_required", inputRequests={"q": {"method": "elicitation/create", "params": asked}})
    said = f"{answers['q']['action']} for {params.task_id}"
    content = [{"type": "text", "text": said}]
    return task("completed", result={"content": content, "structuredContent": {"result": said}})


async def update(ctx: Any, params: UpdateParams) -> Outcome:
    answers.update(params.input_responses)
    return Outcome()


class Tasks(Extension):
    identifier = NAME

    def methods(self) -> list[MethodBinding]:
        return [
            MethodBinding("tasks/get", TaskParams, get),
            MethodBinding("tasks/update", UpdateParams, update),
        ]

    async def intercept_tool_call(self, params: Any, ctx: Any, call_next: Any) -> Any:
        if params.name == "render":
            return task("working", "task")
        return await call_next(ctx)


server = MCPServer("official", extensions=[Tasks()])


@server.tool()
def render() -> str:
    return "never called"


@server.tool()
def plain() -> str:
    return "plain"


if __name__ == "__main__":
    server.run(sys.argv[1] if sys.argv[1:] else "stdio")  # type: ignore[arg-type]
