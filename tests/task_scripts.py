"""A server in this process that says of tasks what a test has it say, right or wrong.

    server = Scripted("2026-07-28", {
        "tools/call": [created()],               one answer after another; the last one is for all that follow
        "tasks/get": lambda params: ...,         or what a function makes of the params
        "tasks/update": Refusal(-32602),         an error
        "subscriptions/listen": SILENCE,         no answer at all
    })
    with connect(server, revision="2026-07-28") as client: ...
    server.params("tasks/get")                   what it was asked, in order

`scripted(...)` is such a server with its client, and `film()` an ordinary one with a tool of each kind.
`state(...)` is a task as tasks/get has it, `created(...)` one as the call has it; members of either may be
replaced, or left out by OUT. `server.say(method, params)` sends a notification.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from peers import MODERN, PATIENCE, Json

from mcp_ref import ClientOptions, Context, Server, connect
from mcp_ref.basic.utilities.tasks.behavior_requirements import TaskOptions
from mcp_ref.extensions.tasks import EXTENSION

DATE = "2025-11-25"
ID = "786512e2-9e0d-44bd-8f29-789f320fe840"
SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"
DONE: Json = {"content": [{"type": "text", "text": "done"}]}


OUTCOMES: Json = {
    "completed": {"result": DONE},
    "failed": {"error": {"code": -32603, "message": "broken"}},
}
"""What the status of a task brings, in 2026-07-28."""


class Mark:
    """What stands for something that is no JSON."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name


OUT, SILENCE = Mark("OUT"), Mark("SILENCE")


class Refusal(Exception):
    """An answer that is an error."""

    def __init__(self, code: int, message: str = "no", **more: Any) -> None:
        super().__init__(message)
        self.error = {"code": code, "message": message, **more}


def state(date: str, status: str = "working", /, **members: Any) -> Json:
    """A task as tasks/get has it. It is to be looked at every millisecond."""
    found: Json = {
        "taskId": ID,
        "status": status,
        "createdAt": "2025-11-25T10:30:00Z",
        "lastUpdatedAt": "2025-11-25T10:30:01Z",
    }
    if date == MODERN:
        found |= {"ttlMs": 60_000, "pollIntervalMs": 1, **OUTCOMES.get(status, {})}
    else:
        found |= {"ttl": 60_000, "pollInterval": 1}
    return {name: value for name, value in {**found, **members}.items() if value is not OUT}


def created(date: str, status: str = "working", /, **members: Any) -> Json:
    """The answer to a call that became a task."""
    task = state(date, status, **{"result": OUT, "error": OUT, **members})
    return {"resultType": "task", **task} if date == MODERN else {"task": task}


KNOWS: Json = {"extensions": {EXTENSION: {}}}
"""What a client declares that knows tasks, in 2026-07-28."""


def declared(message: Json) -> Json:
    """What a request of 2026-07-28 says that its client can do."""
    found: Json = message["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"]
    return found


def required(params: Json) -> Json:
    """2026-07-28: the answer to a call of a tool that runs as a task alone."""
    if EXTENSION not in declared({"params": params}).get("extensions", {}):
        raise Refusal(-32021, "as a task alone", data={"requiredCapabilities": KNOWS})
    return created(MODERN)


def poll(date: str, milliseconds: Any) -> Json:
    """The interval that a task suggests, by the name that it has in an era."""
    return {"pollIntervalMs" if date == MODERN else "pollInterval": milliseconds}


def asking(*keys: str, method: str = "elicitation/create", **params: Any) -> Json:
    """2026-07-28: a task that asks these questions."""
    schema = {"type": "object", "properties": {"ok": {"type": "boolean"}}}
    params = params or {"mode": "form", "message": "Sure?", "requestedSchema": schema}
    return state(
        MODERN, "input_required", inputRequests={key: {"method": method, "params": params} for key in keys}
    )


def tool(support: str | None = "optional", **members: Any) -> Json:
    """The answer to tools/list: one tool, `render`."""
    found: Json = {"name": "render", "inputSchema": {"type": "object"}, **members}
    if support is not None:
        found["execution"] = {"taskSupport": support}
    return {"tools": [found], "ttlMs": 60_000, "cacheScope": "private"}


class Scripted:
    """The server: what `connect` takes."""

    options = SimpleNamespace(max_message_bytes=64 << 20)

    def __init__(
        self,
        date: str,
        answers: Json | None = None,
        *,
        acknowledged: Any = None,
        tasks: Any = None,
        support: str | None = "optional",
    ) -> None:
        """`acknowledged` are the taskIds that it reports; `tasks` is its capability of 2025-11-25."""
        self.date, self.asked, self.heard = date, [], threading.Condition()
        self.times: list[float] = []
        usual: Json = {
            "tools/list": tool(support),
            "tools/call": created(date),
            "tasks/get": state(date, "completed"),
            "tasks/result": DONE,
            "tasks/cancel": {} if date == MODERN else state(date, "cancelled"),
            "tasks/update": {},
            "subscriptions/listen": self._listen,
        }
        self.answers = {**usual, **(answers or {})}
        self._acknowledged = [] if acknowledged is None else acknowledged
        declared = {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}} if tasks is None else tasks
        self._capabilities: Json = {"tools": {}}
        if date == MODERN:
            self._capabilities["extensions"] = {EXTENSION: {}}
        elif declared:
            self._capabilities["tasks"] = declared
        self._counts: dict[str, int] = {}
        self._subscription: Any = None
        self.lifespan = SimpleNamespace(used=contextlib.nullcontext)

    # -- for the test ----------------------------------------------------------------------------------

    def params(self, method: str) -> list[Json]:
        """What was asked by this method, without `_meta`."""
        return [
            {name: value for name, value in message["params"].items() if name != "_meta"}
            for message in list(self.asked)
            if message.get("method") == method
        ]

    def methods(self, *leave_out: str) -> list[str]:
        """The methods of the requests after the opening, in order."""
        opening = {"initialize", "server/discover", *leave_out}
        return [
            m["method"] for m in list(self.asked) if "id" in m and m.get("method", "") not in {"", *opening}
        ]

    def is_asked(self, method: str, times: int = 1) -> bool:
        """Whether it is asked this, so often, in time."""
        with self.heard:
            return self.heard.wait_for(lambda: len(self.params(method)) >= times, PATIENCE)

    def answered(self) -> list[Json]:
        """The client's answers to requests of this server."""
        return [message for message in list(self.asked) if "method" not in message]

    def say(self, method: str, params: Any) -> None:
        """Send a notification; of the subscription, where there is one."""
        if self._subscription is not None and isinstance(params, dict):
            params = {**params, "_meta": {SUBSCRIPTION: self._subscription}}
        self._send({"method": method, "params": params})

    def ask(self, request_id: str, method: str, params: Json) -> None:
        """Send a request."""
        self._send({"id": request_id, "method": method, "params": params})

    def reply(self, message: Json, result: Any) -> None:
        """Answer a request that was met with SILENCE."""
        self._send({"id": message["id"], "result": result})

    def end_subscription(self) -> None:
        self._send({"id": self._subscription, "result": {"resultType": "complete"}})

    def hang_up(self) -> None:
        """End the connection."""
        self._connection.lose("the test wants it")

    # -- for `connect` ---------------------------------------------------------------------------------

    def attach(self, outbox: Any) -> Any:
        self._outbox = outbox
        self._connection = SimpleNamespace(receive=self._receive, too_long=None, lose=None)
        self._connection.fail = lambda reason: None
        return self._connection

    def detach(self, connection: Any, reason: str) -> None: ...

    def _send(self, message: Json) -> None:
        self._outbox.send(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n", 5.0)

    def _receive(self, line: bytes) -> None:
        message = json.loads(line)
        with self.heard:
            self.asked.append(message)
            self.times.append(time.monotonic())
            self.heard.notify_all()
        if "id" not in message or "method" not in message:
            return
        try:
            result = self._answer(message)
        except Refusal as refusal:
            self._send({"id": message["id"], "error": refusal.error})
            return
        if result is not SILENCE:
            self._send({"id": message["id"], "result": self._dressed(result)})

    def _dressed(self, result: Any) -> Any:
        return (
            {"resultType": "complete", **result}
            if self.date == MODERN and isinstance(result, dict)
            else result
        )

    def _answer(self, message: Json) -> Any:
        method, params = message["method"], message.get("params", {})
        if method == "server/discover":
            if self.date != MODERN:
                raise Refusal(-32601)
            discovered = {"supportedVersions": [MODERN], "capabilities": self._capabilities}
            return {**discovered, "ttlMs": 0, "cacheScope": "private"}
        if method == "initialize":
            info = {"name": "scripted", "version": "1"}
            return {"protocolVersion": self.date, "capabilities": self._capabilities, "serverInfo": info}
        if method == "subscriptions/listen":
            self._subscription = message["id"]
        answer = self.answers.get(method, Refusal(-32601))
        count = self._counts[method] = self._counts.get(method, 0) + 1
        if isinstance(answer, list):
            answer = answer[min(count, len(answer)) - 1]
        if callable(answer) and not isinstance(answer, Refusal):
            answer = answer(params)
        if isinstance(answer, Refusal):
            raise answer
        return answer

    def _listen(self, params: Json) -> Any:
        """Acknowledge a subscription, which stays open."""
        said = {"notifications": {"taskIds": self._acknowledged}, "_meta": {SUBSCRIPTION: self._subscription}}
        self._send({"method": "notifications/subscriptions/acknowledged", "params": said})
        return SILENCE


@contextlib.contextmanager
def patched(place: Any, **values: Any) -> Iterator[None]:
    """Other values of the constants of a module, for the time of the block."""
    before = {name: getattr(place, name) for name in values}
    try:
        for name, value in values.items():
            setattr(place, name, value)
        yield
    finally:
        for name, value in before.items():
            setattr(place, name, value)


class FakeTime:
    """In place of `time` in api/tasks: it passes when news are waited for, which never come."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.pauses: list[float] = []
        """How long it was waited for news, each time."""

    def monotonic(self) -> float:
        return self.now

    def wait(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds

    def close(self) -> None: ...


def knowing_tasks(options: ClientOptions | None = None) -> ClientOptions:
    """These options, and the extension for tasks in each request: calls may be answered with tasks."""
    options = options or ClientOptions()
    return replace(options, extensions={"io.modelcontextprotocol/tasks": {}}) if options.tasks else options


@contextlib.contextmanager
def scripted(
    date: str,
    answers: Any = None,
    *,
    acknowledged: Any = None,
    tasks: Any = None,
    support: str = "optional",
    **options: Any,
) -> Iterator[Any]:
    """A server that says what the test has it say, and its client, whose every request knows tasks."""
    options["options"] = knowing_tasks(options.get("options"))
    server = Scripted(date, answers, acknowledged=acknowledged, tasks=tasks, support=support)
    with connect(server, revision=date, **options) as client:
        yield server, client


def film(**options: Any) -> Server:
    """A server with one tool of each kind."""
    server = Server("film", tasks=TaskOptions(grace=0, poll_interval=0.01, **options))

    @server.tool(task="required")
    def render(frames: int, ctx: Context) -> dict[str, int]:
        for n in range(frames):
            ctx.progress(n + 1, frames)
        return {"frames": frames}

    @server.tool(task="optional")
    def ask(ctx: Context, times: int = 1) -> str:
        answers = [ctx.elicit(f"Question {n}", {"type": "object", "properties": {}}) for n in range(times)]
        return " ".join(answer.action for answer in answers)

    @server.tool(task="optional")
    def fail() -> str:
        raise ValueError("no film in the camera")

    @server.tool
    def plain() -> str:
        return "plain"

    return server
