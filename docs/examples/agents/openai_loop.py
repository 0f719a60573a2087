"""An agent with OpenAI's Chat Completions API: `python openai_loop.py server.py "What is 1 + 2?"`."""

import json
import os
import sys
from typing import Any

import requests

from mcp_ref import Client, McpError, connect

URL = os.environ.get("OPENAI_BASE_URL", "https://api.openai.com/v1") + "/chat/completions"
HEADERS = {"Authorization": f"Bearer {os.environ['OPENAI_API_KEY']}"}
MODEL, ROUNDS = os.environ["MODEL"], 20


def offered(tool: Any) -> dict[str, Any]:
    named = {"name": tool["name"], "description": tool.get("description", "")}
    return {"type": "function", "function": {**named, "parameters": tool["inputSchema"]}}


def result_of(client: Client, call: Any) -> dict[str, Any]:
    try:
        arguments = json.loads(call["function"]["arguments"] or "{}")
        text = client.call_tool(call["function"]["name"], arguments).text
    except (McpError, ValueError, TypeError) as problem:
        # A tool that the model made up, broken JSON, or JSON that is no object: let it know.
        text = str(problem)
    return {"role": "tool", "tool_call_id": call["id"], "content": text}


def answer(client: Client, question: str) -> str:
    tools = [offered(tool) for tool in client.list_tools()]
    messages: list[Any] = [{"role": "user", "content": question}]
    for _ in range(ROUNDS):
        body = {"model": MODEL, "messages": messages, "tools": tools}
        reply = requests.post(URL, json=body, headers=HEADERS, timeout=120)
        reply.raise_for_status()
        message = reply.json()["choices"][0]["message"]
        results = [result_of(client, call) for call in message.get("tool_calls") or ()]
        if not results:
            return str(message["content"])
        messages += [message, *results]
    raise RuntimeError(f"no answer after {ROUNDS} rounds")


if __name__ == "__main__":
    with connect(sys.argv[1]) as client:
        print(answer(client, sys.argv[2]))
