"""Models for tests: the HTTP APIs of two vendors, as far as an agent needs them, and as strict as they are.

Anthropic([("add", {"a": 1, "b": 2})], "It is 3.")     two replies: a round of calls, then words

`results` are the texts that came back for each round, `tools` the names and schemas that were offered;
`problems` are what the real API would refuse, and each is answered with status 400.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

Calls = Sequence[tuple[str, Any]]
"""Names of tools, and arguments: JSON, or `Raw`."""
TOOL_NAME = r"[a-zA-Z0-9_-]{1,64}"


class Raw(str):
    """Text that a model wrote in place of arguments."""

    __slots__ = ()


class Refused(Exception):
    """The request is one that the vendor refuses."""


def need(condition: object, what: str) -> None:
    if not condition:
        raise Refused(what)


def written(arguments: Any) -> str:
    """Arguments as text, as a model writes them."""
    return arguments if isinstance(arguments, Raw) else json.dumps(arguments)


class Vendor:
    """A WSGI application, which answers with what it was given, one after another."""

    path: str

    def __init__(self, *replies: Calls | str) -> None:
        self.key = "key"
        self.tools: list[tuple[str, Any]] = []
        self.results: list[list[str]] = []
        self.problems: list[str] = []
        self._replies = list(replies)
        self._said: list[Any] = []
        """What the model said, each of which has to be in the next request as it was."""

    def __call__(self, environ: dict[str, Any], start: Any) -> Iterable[bytes]:
        raw = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        status, body = "200 OK", {}
        try:
            need(
                (environ["REQUEST_METHOD"], environ["PATH_INFO"]) == ("POST", self.path),
                "there is no such path",
            )
            if self.given_key(environ) != self.key:
                status, body = "401 Unauthorized", {"error": {"message": "invalid key"}}
            else:
                body = self.reply(json.loads(raw))
        except Refused as problem:
            self.problems.append(str(problem))
            status, body = "400 Bad Request", {"error": {"message": str(problem)}}
        start(status, [("Content-Type", "application/json")])
        return [json.dumps(body).encode()]

    def reply(self, request: dict[str, Any]) -> dict[str, Any]:
        need(isinstance(request.get("model"), str), "model: field required")
        self.look_at(request)
        for name, schema in self.tools:
            need(re.fullmatch(TOOL_NAME, name), f"tools: name {name!r}")
            need(schema.get("type") == "object", "tools: the schema is no object")
        need(self._replies, "more rounds than there are")
        return self.say(self._replies.pop(0))

    def given_key(self, environ: dict[str, Any]) -> str | None:
        raise NotImplementedError

    def look_at(self, request: dict[str, Any]) -> None:
        """Take what the request has; raises Refused."""
        raise NotImplementedError

    def say(self, reply: Calls | str) -> dict[str, Any]:
        """The response that has this reply."""
        raise NotImplementedError


class Anthropic(Vendor):
    """POST /v1/messages."""

    path = "/v1/messages"

    def given_key(self, environ: dict[str, Any]) -> str | None:
        need(environ.get("HTTP_ANTHROPIC_VERSION") == "2023-06-01", "anthropic-version: header is required")
        return environ.get("HTTP_X_API_KEY")

    def look_at(self, request: dict[str, Any]) -> None:
        need(request.keys() <= {"model", "max_tokens", "messages", "tools", "system"}, "extra inputs")
        need(type(request.get("max_tokens")) is int, "max_tokens: field required")
        for tool in request["tools"]:
            need(tool.keys() <= {"name", "description", "input_schema"}, "tools: extra inputs")
        self.tools = [(tool["name"], tool["input_schema"]) for tool in request["tools"]]
        first, *others = request["messages"]
        need(
            first["role"] == "user" and isinstance(first["content"], str), "messages: the first is the user's"
        )
        need(len(others) == 2 * len(self._said), "messages: roles must alternate")
        for said, (assistant, user) in zip(
            self._said, zip(others[::2], others[1::2], strict=True), strict=True
        ):
            need(
                assistant == {"role": "assistant", "content": said},
                "messages: what the model said is another",
            )
            need(user["role"] == "user", "messages: roles must alternate")
            wanted = [part["id"] for part in said if part["type"] == "tool_use"]
            need(
                [part.get("tool_use_id") for part in user["content"]] == wanted,
                "tool_use without tool_result",
            )
            for part in user["content"]:
                need(
                    part["type"] == "tool_result" and type(part["is_error"]) is bool, "tool_result: its type"
                )
        if others:
            self.results.append([part["content"] for part in others[-1]["content"]])

    def say(self, reply: Calls | str) -> dict[str, Any]:
        text = reply if isinstance(reply, str) else "Let me see."
        content: list[dict[str, Any]] = [{"type": "text", "text": text}]
        if not isinstance(reply, str):
            for number, (name, arguments) in enumerate(reply):
                used = {"type": "tool_use", "id": f"toolu_{len(self._said)}_{number}"}
                content.append({**used, "name": name, "input": arguments})
        self._said.append(content)
        reason = "end_turn" if isinstance(reply, str) else "tool_use"
        return {"type": "message", "role": "assistant", "content": content, "stop_reason": reason}


class OpenAI(Vendor):
    """POST /v1/chat/completions."""

    path = "/v1/chat/completions"

    def given_key(self, environ: dict[str, Any]) -> str | None:
        return str(environ.get("HTTP_AUTHORIZATION", "")).removeprefix("Bearer ")

    def look_at(self, request: dict[str, Any]) -> None:
        need(request.keys() <= {"model", "messages", "tools"}, "unknown parameter")
        for tool in request["tools"]:
            need(tool["type"] == "function" and tool.keys() == {"type", "function"}, "tools: type")
            need(tool["function"].keys() <= {"name", "description", "parameters"}, "tools: unknown parameter")
        self.tools = [(tool["function"]["name"], tool["function"]["parameters"]) for tool in request["tools"]]
        first, *others = request["messages"]
        need(first["role"] == "user", "messages: the first is the user's")
        answers: list[str] = []
        for said in self._said:
            need(others and others.pop(0) == said, "messages: what the model said is another")
            answers = []
            for call in said.get("tool_calls", ()):
                answer = others.pop(0) if others else {}
                need(answer.get("role") == "tool", "tool_calls must be followed by tool messages")
                need(answer.get("tool_call_id") == call["id"], "tool_call_id")
                need(isinstance(answer.get("content"), str), "content")
                answers.append(answer["content"])
        need(not others, "messages: more than there can be")
        if answers:
            self.results.append(answers)

    def say(self, reply: Calls | str) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": reply if isinstance(reply, str) else None}
        if not isinstance(reply, str):
            message["tool_calls"] = [
                {
                    "id": f"call_{len(self._said)}_{number}",
                    "type": "function",
                    "function": {"name": name, "arguments": written(arguments)},
                }
                for number, (name, arguments) in enumerate(reply)
            ]
        self._said.append(message)
        return {"object": "chat.completion", "choices": [{"index": 0, "message": message}]}
