"""An agent with Anthropic's Messages API: `python anthropic_loop.py server.py "What is 1 + 2?"`."""

import os
import sys
from typing import Any

import requests

from mcp_ref import Client, McpError, connect

URL = os.environ.get("ANTHROPIC_BASE_URL", "https://api.anthropic.com") + "/v1/messages"
HEADERS = {"x-api-key": os.environ["ANTHROPIC_API_KEY"], "anthropic-version": "2023-06-01"}
MODEL, ROUNDS = os.environ["MODEL"], 20


def offered(tool: Any) -> dict[str, Any]:
    named = {"name": tool["name"], "description": tool.get("description", "")}
    return {**named, "input_schema": tool["inputSchema"]}


def result_of(client: Client, call: Any) -> dict[str, Any]:
    try:
        result = client.call_tool(call["name"], call["input"])
        text, failed = result.text, result.is_error
    except (McpError, TypeError) as problem:  # such as a tool that the model made up: let it know
        text, failed = str(problem), True
    return {"type": "tool_result", "tool_use_id": call["id"], "content": text, "is_error": failed}


def answer(client: Client, question: str) -> str:
    tools = [offered(tool) for tool in client.list_tools()]
    messages: list[Any] = [{"role": "user", "content": question}]
    for _ in range(ROUNDS):
        body: Any = {"model": MODEL, "max_tokens": 2000, "messages": messages, "tools": tools}
        reply = requests.post(URL, json=body, headers=HEADERS, timeout=120)
        reply.raise_for_status()
        content = reply.json()["content"]
        results = [result_of(client, part) for part in content if part["type"] == "tool_use"]
        if not results:
            return "".join(part["text"] for part in content if part["type"] == "text")
        messages += [{"role": "assistant", "content": content}, {"role": "user", "content": results}]
    raise RuntimeError(f"no answer after {ROUNDS} rounds")


if __name__ == "__main__":
    with connect(sys.argv[1]) as client:
        print(answer(client, sys.argv[2]))
