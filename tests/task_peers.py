"""Tasks by hand: servers whose tools wait for the test, and clients that say each message themselves.

    with Stage() as stage:                                  tools of a server, each of which may be a task
        @stage.tool()                                       `task="optional"` unless it says otherwise
        def render(ctx: Context): ...
        with stage.client() as raw:                         a session of 2025-11-25, in memory
            task = raw.start("render", ttl=60_000)
            assert raw.ended(task["taskId"])["status"] == "completed"
        with stage.client(MODERN) as raw:                   2026-07-28, of a client that knows tasks
            task = raw.start("render")

    FaultyStore(at)         a MemoryStore that fails where the test says so
    lines(caplog)           the audit

When the block ends the tools are let go, and no thread is left.
"""

from __future__ import annotations

import contextlib
import threading
from typing import Any

from choices import for_server
from peers import META, MODERN, PATIENCE, Json, RawClient, eventually, nothing_left

from mcp_ref import Context, ProtocolError, Server
from mcp_ref.basic.utilities.tasks.behavior_requirements import TaskOptions
from mcp_ref.extensions.tasks import EXTENSION
from mcp_ref.runtime.stores.memory import MemoryStore
from mcp_ref.runtime.stores.store import StoreError

DATE = "2025-11-25"
ERAS = (DATE, MODERN)
RELATED = "io.modelcontextprotocol/related-task"
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
FINAL = ("completed", "failed", "cancelled")

LEGACY_CAPABILITIES: Json = {"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}}
MODERN_CAPABILITIES: Json = {**LEGACY_CAPABILITIES, "extensions": {EXTENSION: {}}}


class TaskClient(RawClient):
    """A client that knows tasks, in either form."""

    def __init__(self, target: Any, *, revision: str = DATE, capabilities: Json | None = None) -> None:
        usual = MODERN_CAPABILITIES if revision == MODERN else LEGACY_CAPABILITIES
        self.capabilities = usual if capabilities is None else capabilities
        super().__init__(target, revision=revision, capabilities=self.capabilities)

    @property
    def is_modern(self) -> bool:
        return self.revision == MODERN

    def message(self, method: str, params: Json | None = None, **members: Any) -> Json:
        found = super().message(method, params, **members)
        if self.is_modern:
            given = (params or {}).get("_meta", {})
            found["params"]["_meta"] = {**META, CAPABILITIES: self.capabilities, **given}
        return found

    def begin(self, tool: str, arguments: Json | None = None, meta: Json | None = None, **task: Any) -> Any:
        """Send a call that may become a task; its id. `task` are the members of `params.task`."""
        params: Json = {"name": tool, "arguments": arguments or {}}
        if meta is not None:
            params["_meta"] = meta
        if not self.is_modern:
            params["task"] = task
        return self.ask("tools/call", params)

    def start(self, tool: str, arguments: Json | None = None, meta: Json | None = None, **task: Any) -> Json:
        """Begin a task; the task as it was handed out."""
        answer = self.answer(self.begin(tool, arguments, meta, **task))
        assert "result" in answer, answer
        result: Json = answer["result"]
        if self.is_modern:
            assert result["resultType"] == "task", result
            return result
        found: Json = result["task"]
        return found

    def about(self, method: str, task_id: Any, **more: Any) -> Json:
        """A request about a task; the whole answer."""
        return self.request(method, {"taskId": task_id, **more})

    def get(self, task_id: Any) -> Json:
        """tasks/get: the task."""
        answer = self.about("tasks/get", task_id)
        assert "result" in answer, answer
        found: Json = answer["result"]
        return found

    def until_status(self, task_id: Any, *wanted: str) -> Json:
        """The task, as soon as it has one of these statuses."""
        found: list[Json] = []

        def is_there() -> bool:
            found[:] = [self.get(task_id)]
            return found[0]["status"] in wanted

        assert eventually(is_there), found
        return found[0]

    def ended(self, task_id: Any) -> Json:
        """The task, as soon as its status is final."""
        return self.until_status(task_id, *FINAL)

    def asked(self, task_id: Any) -> Json:
        """2026-07-28: the questions of a task, as soon as it has any."""
        found: Json = self.until_status(task_id, "input_required")["inputRequests"]
        return found

    def outcome(self, task_id: Any) -> Json:
        """What the request of a task came to in the end: {result} or {error}, as either era says it."""
        if not self.is_modern:
            answer = self.about("tasks/result", task_id)
            return {name: answer[name] for name in ("result", "error") if name in answer}
        task = self.ended(task_id)
        return {name: task[name] for name in ("result", "error") if name in task}

    def update(self, task_id: Any, responses: Any) -> Json:
        """tasks/update: the whole answer."""
        return self.about("tasks/update", task_id, inputResponses=responses)

    def reply(self, request: Json, result: Any) -> None:
        """Answer a request of the server's."""
        self.send({"jsonrpc": "2.0", "id": request["id"], "result": result})

    def refuse(self, request: Json, code: int, message: str, **more: Any) -> None:
        """Answer a request of the server's with an error."""
        error = {"code": code, "message": message, **more}
        self.send({"jsonrpc": "2.0", "id": request["id"], "error": error})

    def requested(self, method: str) -> Json:
        """The next request of this method that the server sends."""
        found: Json = self.until(lambda m: m.get("method") == method and "id" in m)
        return found

    def notified(self, method: str, **members: Any) -> Json:
        """The params of the next notification of this method, with these members."""
        found: Json = self.until(
            lambda m: m.get("method") == method and members.items() <= m["params"].items()
        )["params"]
        return found


class Stage:
    """A server whose tools wait for the test, and end with it."""

    def __init__(self, *, store: Any = None, server: Json | None = None, **options: Any) -> None:
        """`options` are those of TaskOptions."""
        given = {"grace": PATIENCE, **options}
        self.server = Server(
            "stage", tasks=TaskOptions(store=store or MemoryStore(), **given), **for_server(server or {})
        )
        self.open = threading.Event()
        """Set by the test, or at the end: what the tools wait for."""
        self.entered = threading.Semaphore(0)
        self.left = threading.Semaphore(0)
        self.said: list[Any] = []
        """What tools tell the test."""

    def tool(self, **options: Any) -> Any:
        """`@stage.tool()`: a tool that may run as a task."""
        return self.server.tool(**{"task": "optional", **options})

    def add_usual(self) -> None:
        """`hold` waits until the test lets it go, `stubborn` also when it is cancelled; `quick` does not."""

        @self.tool()
        def quick(text: str = "done") -> str:
            return text

        @self.tool(task="required")
        def hold(ctx: Context) -> str:
            self.entered.release()
            try:
                while not ctx.cancelled and not self.open.wait(0.005):
                    pass
                return "through"
            finally:
                self.left.release()

        @self.tool(task="required")
        def stubborn() -> str:
            self.entered.release()
            self.open.wait(3 * PATIENCE)  # thousands of others are sent meanwhile
            self.left.release()
            return "through, though nobody wants it"

    def is_entered(self) -> bool:
        return self.entered.acquire(timeout=PATIENCE)

    def is_left(self) -> bool:
        return self.left.acquire(timeout=PATIENCE)

    def client(self, revision: str = DATE, capabilities: Json | None = None) -> TaskClient:
        return TaskClient(self.server, revision=revision, capabilities=capabilities)

    @property
    def store(self) -> Any:
        return self.server.tasks.store

    def entry(self, task_id: str) -> Any:
        """What the store has of a task."""
        return self.store.get(task_id)

    def __enter__(self) -> Stage:
        self._clean = nothing_left()
        self._clean.__enter__()
        return self

    def __exit__(self, kind: Any, problem: Any, traceback: Any) -> None:
        self.open.set()
        for task_id, run in list(self.server.tasks._runs.items()):
            with contextlib.suppress(ProtocolError):  # it is over already
                self.server.tasks.cancel(task_id, run.context.principal, "the test is over")
        self.server.tasks.workers.close(PATIENCE)
        self.server.tasks.takers.close(PATIENCE)
        self._clean.__exit__(kind, problem, traceback)


class FaultyStore(MemoryStore):
    """A MemoryStore that fails in the methods whose names are in `broken`."""

    def __init__(self, *broken: str, **options: Any) -> None:
        super().__init__(**options)
        self.broken = set(broken)
        self.failed = threading.Semaphore(0)
        """Released by each failure."""

    def _check(self, name: str) -> None:
        if name in self.broken:
            self.failed.release()
            raise StoreError("the disk is full")

    def has_failed(self) -> bool:
        return self.failed.acquire(timeout=PATIENCE)

    def add(self, *given: Any, **more: Any) -> None:
        self._check("add")
        super().add(*given, **more)

    def get(self, *given: Any) -> Any:
        self._check("get")
        return super().get(*given)

    def change(self, *given: Any) -> Any:
        self._check("change")
        return super().change(*given)

    def page(self, *given: Any) -> Any:
        self._check("page")
        return super().page(*given)

    def wait(self, *given: Any) -> Any:
        self._check("wait")
        return super().wait(*given)

    def listen(self, *given: Any) -> Any:
        self._check("listen")
        return super().listen(*given)

    def on_abandoned(self, *given: Any) -> None:
        self._check("on_abandoned")
        super().on_abandoned(*given)


def lines(caplog: Any) -> list[str]:
    """What the audit says of tasks: the event alone."""
    said = [r.getMessage() for r in caplog.records if r.name == "mcp_ref.audit"]
    return [line.rpartition(": ")[2] for line in said if line.startswith("task ")]
