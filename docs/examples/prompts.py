"""Prompts: text, pictures and files, from functions with typed arguments."""

from typing import Literal

from mcp_ref import ClientOptions, Context, ErrorResponse, Server, connect
from mcp_ref.api.from_function.prompt import assistant, user
from mcp_ref.server.content import embedded

server = Server("review")

STYLES = {"short": "In one sentence.", "long": "Take your time."}


@server.prompt(title="Review a file")
def review(path: str, style: Literal["short", "long"] = "short", line: int = 1):
    """Ask for a review of some code.

    Args:
        path: the file to look at
        line: where to begin
    """
    code = "def half(n):\n    return n / 2\n"
    return [
        f"Review this file from line {line} on. {STYLES[style]}",
        embedded(f"file:///{path}", code),
        assistant("Which Python version is it for?"),
        user("Any since 3.11."),
    ]


@server.prompt
def greet(ctx: Context) -> str:
    """Say hello to the caller."""
    return f"Say hello to the user of {ctx.client_info['name']}."


with connect(server, options=ClientOptions(name="docs")) as client:
    for prompt in client.list_prompts():
        print(prompt["name"], "-", prompt["description"])
        for argument in prompt.get("arguments", []):
            print("   ", argument)

    for message in client.get_prompt("review", {"path": "half.py", "line": "2"})["messages"]:
        content = message["content"]
        print(message["role"], "|", content.get("text") or content["resource"]["mimeType"])
    print(client.get_prompt("greet").text)

    for wrong in {}, {"path": "half.py", "style": "loud", "line": "two"}:
        try:
            client.get_prompt("review", wrong)
        except ErrorResponse as problem:
            print(problem)
