"""Messages about tasks (page: basic/utilities/tasks, "Capabilities", "Protocol Messages", "Error Handling").

    tools/call with `task`   plan_of: may this call be a task?   -> {task}, and the handler runs on a worker
    tasks/get                on_get                              -> the task as it is
    tasks/result             on_result: waits for the end, and passes on the handler's questions meanwhile
    tasks/cancel             on_cancel
    tasks/list               on_list: the tasks of the same principal, in the order in which they began

Server half   the handlers, which a client that runs tasks uses too: a `TaskHost` is a server or a client.
              `capability` makes what either declares.
Client half   `augmented`, `created`, `immediate_response`, `check_may_augment`; and `ask_as_tasks`, for a
              server that asks its client to run tasks

Revisions   2025-11-25.
Errors      -32601 for a tool that is not called as its `taskSupport` says; -32602 for a task that is unknown
            or already over when it should be cancelled, and for a cursor that the list did not give out.
Threads     handlers run where requests run. `on_result` keeps its thread until the task is over; at most
            MAX_WAITING of them wait at once.
"""

from __future__ import annotations

import base64
import contextlib
import json
import math
import typing
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

from mcp_ref.basic.index.error_responses import (
    ErrorResponse,
    InvalidParams,
    MethodNotFound,
    ProtocolError,
)
from mcp_ref.basic.index.messages import Json
from mcp_ref.basic.lifecycle import KnowsServer
from mcp_ref.basic.patterns.mrtr.basic_workflow import check_needs
from mcp_ref.basic.utilities.tasks.behavior_requirements import Explained, Receiver, TaskRun, record
from mcp_ref.basic.utilities.tasks.data_types import (
    FIELDS,
    CancelTaskResult,
    CreateTaskResult,
    GetTaskPayloadResult,
    GetTaskResult,
    ListTasksResult,
    Task,
    TaskIdParams,
    TaskIsOver,
    TaskMetadata,
    TaskStatusNotificationParams,
    described,
    is_over,
    related,
)
from mcp_ref.basic.versioning import Method, Notification, revision
from mcp_ref.runtime.errors import InvalidResponse, LocalError, McpError
from mcp_ref.runtime.stores.store import Entry
from mcp_ref.runtime.threads.flags import Flag
from mcp_ref.schema import Mismatch, checker

if TYPE_CHECKING:
    from mcp_ref.basic.patterns.index.context import RequestContext
    from mcp_ref.basic.patterns.index.requester import Call

__all__ = [
    "MODEL_IMMEDIATE_RESPONSE",
    "TaskHost",
    "TaskNews",
    "TaskSupport",
    "augmented",
    "capability",
    "created",
    "immediate_response",
]

REVISION = revision("2025-11-25")

MODEL_IMMEDIATE_RESPONSE = "io.modelcontextprotocol/model-immediate-response"
"""The key, in the `_meta` of a CreateTaskResult, of a text that a model can be given at once."""

TaskSupport: TypeAlias = Literal["forbidden", "optional", "required"]
"""How a tool may be called: only as an ordinary request, either way, or only as a task."""

# ------------------------------------------------------------------------- capabilities


def capability(requests: Json, *, lists: bool) -> Json:
    """The `tasks` capability of a receiver that runs these `requests` as tasks: {"tools": {"call": {}}}.

    A receiver that cannot tell its requestors apart offers no list: it would show each the tasks of all.
    # spec: basic/utilities/tasks/capability-declared, basic/utilities/tasks/no-list-unidentified
    """
    declared: Json = {"cancel": {}, "requests": requests}
    return {"list": {}, **declared} if lists else declared


def may_augment(declared: Json, method: str) -> bool:
    """Whether a peer that declared these capabilities may be asked to run this method as a task.

    # spec: basic/utilities/tasks/capability-exhaustive
    """
    feature, _, act = method.partition("/")
    tasks = declared.get("tasks")
    requests = tasks.get("requests") if isinstance(tasks, dict) else None
    of_feature = requests.get(feature) if isinstance(requests, dict) else None
    return isinstance(of_feature, dict) and act in of_feature


# ----------------------------------------------------------------------- server half


class TaskHost(Protocol):
    """What this page needs of the server, or of the client, that runs tasks."""

    @property
    def tasks(self) -> Receiver:
        """The tasks that it runs."""


class TaskTool(Protocol):
    """The part of a tool that this page needs."""

    @property
    def task_support(self) -> TaskSupport: ...

    @property
    def immediate_response(self) -> str | None: ...


class TaskTools(Protocol):
    """The tools of a server, by name."""

    def get(self, key: str, /) -> TaskTool | None: ...


class AskedForPlan:
    """The plan of a request that is a task because its requestor asked for it (2025-11-25)."""

    words = FIELDS
    at_once = relates = True

    def __init__(self, ttl: int | None, immediate_response: str | None = None) -> None:
        self.ttl = ttl
        self._immediate_response = immediate_response

    def created(self, task: Json) -> Json:
        """The CreateTaskResult.

        # spec: basic/utilities/tasks/create-result-nested, basic/utilities/tasks/model-immediate-response
        """
        if self._immediate_response is None:
            return {"task": task}
        return {"task": task, "_meta": {MODEL_IMMEDIATE_RESPONSE: self._immediate_response}}

    def notify(self, run: TaskRun, entry: Entry) -> None:
        """Notify the connection that began the task.

        # spec: basic/utilities/tasks/status-notification, basic/utilities/tasks/notify-no-related-task
        """
        status = described(entry, FIELDS)
        run.context.connection.notify("notifications/tasks/status", status, wait=0.0)


def plan_of(tools: TaskTools, context: RequestContext) -> AskedForPlan | None:
    """The plan for this call of a tool as a task; None for an ordinary call. Raises MethodNotFound.

    # spec: basic/utilities/tasks/tool-forbidden-32601, basic/utilities/tasks/tool-required-32601
    # spec: basic/utilities/tasks/task-field-opts-in, basic/utilities/tasks/process-normally-undeclared
    # spec: basic/utilities/tasks/require-augmentation
    """
    params, session = context.params, context.session
    tool = tools.get(params["name"])
    if tool is None or session is None or not may_augment(session.server_capabilities, "tools/call"):
        return None
    wanted = params.get("task")
    if wanted is None:
        if tool.task_support == "required":  # spec: basic/utilities/tasks/require-augmentation
            raise MethodNotFound(f"{params['name']} runs as a task only: send `task` with the call")
        return None
    if tool.task_support == "forbidden":
        raise MethodNotFound(f"{params['name']} does not run as a task: call it without `task`")
    return AskedForPlan(ttl_of(context), tool.immediate_response)


def ttl_of(context: RequestContext) -> int | None:
    """The ttl that the requestor asks for, in milliseconds; None if it does not say. Raises InvalidParams.

    # spec: basic/utilities/tasks/ttl-requested
    """
    try:  # not checked before: a client has no table of methods that would do it
        checker(TaskMetadata, REVISION.date)(context.params["task"])
    except Mismatch as problem:
        raise InvalidParams(f"{context.method}: task: {problem}") from None
    ttl: int | None = context.params["task"].get("ttl")
    if ttl is not None and ttl < 0:
        raise InvalidParams(f"{context.method}: task.ttl: must not be negative, as {ttl} is")
    return ttl


def on_get(host: TaskHost, params: Json, context: RequestContext) -> Json:
    """The task as it is now. Nothing is sent before the result, so no stream is opened for it.

    # spec: basic/utilities/tasks/get-no-sse-upgrade, basic/utilities/tasks/related-task-not-in-results
    # spec: basic/utilities/tasks/task-id-parameter-wins, basic/utilities/tasks/related-task-ignored
    # spec: basic/utilities/tasks/related-task-exempt, basic/utilities/tasks/get-transport-rules
    """
    return described(host.tasks.find(params["taskId"], context.principal))


def on_cancel(host: TaskHost, params: Json, context: RequestContext) -> Json:
    """Cancel the task.  # spec: basic/utilities/tasks/cancel-capability"""
    if "cancel" not in host.tasks.declared(context):
        raise MethodNotFound("tasks/cancel was not declared when this session began")
    try:
        entry = host.tasks.cancel(params["taskId"], context.principal, "The task was cancelled by request.")
    except TaskIsOver:  # name the status that tasks/get shows: a tool's failure is "failed"
        status = described(host.tasks.find(params["taskId"], context.principal))["status"]
        raise TaskIsOver("cancel", status) from None
    return described(entry)


PAGE_SIZE = 100
"""Tasks on one page of tasks/list."""


def on_list(host: TaskHost, params: Json, context: RequestContext) -> Json:
    """One page of the list of this principal's tasks.

    # spec: basic/utilities/tasks/list-paginated, basic/utilities/tasks/list-next-cursor
    # spec: basic/utilities/tasks/list-complete, basic/utilities/tasks/list-own-context
    """
    # Without principals, clients that share a connection are not told apart: each would see all tasks.
    has_list = context.principal is not None or not context.connection.responder.is_shared
    # spec: basic/utilities/tasks/list-capability
    if not has_list or "list" not in host.tasks.declared(context):
        raise MethodNotFound("tasks/list was not declared when this session began")
    after = None if params.get("cursor") is None else _place(params["cursor"])
    with Explained():
        entries = host.tasks.store.page(context.principal, after, PAGE_SIZE + 1)
    result: Json = {"tasks": [described(entry) for entry in entries[:PAGE_SIZE]]}
    if len(entries) > PAGE_SIZE:
        result["nextCursor"] = _cursor(entries[PAGE_SIZE - 1])
    return result


def _cursor(entry: Entry) -> str:
    """The cursor for the page that begins after this task."""
    return base64.urlsafe_b64encode(json.dumps([entry.created, entry.id]).encode()).decode().rstrip("=")


def _place(cursor: str) -> tuple[float, str]:
    """The creation time and the id of the task that a cursor points behind. Raises InvalidParams.

    # spec: basic/utilities/tasks/unknown-cursor-32602
    """
    try:
        created, task_id = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
        if type(created) is float and math.isfinite(created) and type(task_id) is str and task_id.isascii():
            return created, task_id
    except (ValueError, TypeError, RecursionError):
        pass
    raise InvalidParams(f"tasks/list: this cursor is not one that this list gave out: {cursor[:40]!r}")


class StoredError(ProtocolError):
    """The JSON-RPC error with which the request of a task ended, sent as it was."""

    def __init__(self, error: Json) -> None:
        super().__init__(error["message"], data=error.get("data"))
        self.code = error["code"]


def outcome_of(entry: Entry) -> Json:
    """The result of the request that became this task, which is over. Raises StoredError.

    # spec: basic/utilities/tasks/result-terminal, basic/utilities/tasks/result-same-error
    # spec: basic/utilities/tasks/result-same-success
    # spec: basic/utilities/tasks/related-task-in-result, basic/utilities/tasks/related-task-everywhere
    """
    outcome: Json = json.loads(entry.outcome or b"{}")
    if entry.state["status"] != "completed":
        raise StoredError(outcome)
    outcome.pop("resultType", None)  # if the task was begun in 2026-07-28
    return related(outcome, entry.id)


MAX_WAITING = 50
"""Requests tasks/result that may wait at once on one receiver, and never more than half of the workers that
serve a connection: tasks/get and tasks/cancel need workers, too.
"""


def on_result(host: TaskHost, params: Json, context: RequestContext) -> Json:
    """Wait until the task is over, and return the result of its request.

    # spec: basic/utilities/tasks/result-blocks
    """
    entry = host.tasks.find(params["taskId"], context.principal)
    if not is_over(entry):
        entry = _end_of(host, entry, context)
    record("retrieved", entry)
    return outcome_of(entry)


def _end_of(host: TaskHost, entry: Entry, context: RequestContext) -> Entry:
    """Wait for the end of a task. Raises TooManyRequests, RequestCancelled, TaskNotFound."""
    workers = context.connection.responder.workers
    most = MAX_WAITING if workers is None else min(MAX_WAITING, max(1, workers.limit // 2))
    with host.tasks.waiting(most), contextlib.closing(Relay(host.tasks, entry, context)) as relay:
        while not is_over(entry):
            context.check_cancelled()
            relay.send(entry)
            entry = host.tasks.waited(entry)
    return entry


class Relay:
    """Passes the questions of a task on to its requestor, while a tasks/result waits for the end.

    A question that another tasks/result has sent is sent again, since the connection of that one may be gone.
    The first answer counts; the question is withdrawn wherever else it was sent.
    # spec: basic/utilities/tasks/related-task-on-requests, basic/utilities/tasks/related-task-shared
    """

    def __init__(self, receiver: Receiver, entry: Entry, context: RequestContext) -> None:
        self._receiver, self._entry, self._context = receiver, entry, context
        self._calls: dict[str, Call] = {}  # the questions sent, by key

    def send(self, entry: Entry) -> None:
        """Send the questions that are new, and withdraw those that were answered elsewhere."""
        asked = entry.state.get("asked", {})
        for key, call in self._calls.items():
            if key not in asked and not call.done:
                self._context.connection.cancel(call, "it was answered")
        for key, question in asked.items():
            if key not in self._calls and self._may_ask(question):
                self._calls[key] = self._ask(key, question)

    def _may_ask(self, question: Json) -> bool:
        """Whether this requestor can be asked here: it need not be the client that began the task."""
        try:
            check_needs(self._context, question["method"], question["params"])
        except LocalError:
            return False
        return self._context.arrival.outbox.two_way

    def _ask(self, key: str, question: Json) -> Call:
        return self._context.connection.call(
            question["method"],
            related(question["params"], self._entry.id),
            timeout=self._receiver.options.max_ttl,  # the handler's time-out, or the task's end, comes first
            on_done=lambda call: self._receiver.takers.submit(self._take, (key, call), always=True),
            outbox=self._context.arrival.outbox,
        )

    def _take(self, what: tuple[str, Call]) -> None:
        """Store an answer, if there is one. Runs on one of the receiver's `takers`."""
        key, call = what
        answer = _answer_of(call)
        # None: the connection is gone, or the question was withdrawn. Another connection may still ask it.
        if answer is not None:
            self._receiver.keep_answer(self._entry, key, answer)

    def close(self) -> None:
        """Withdraw the questions that have no answer yet: the tasks/result is over."""
        for call in self._calls.values():
            if not call.done:
                self._context.connection.cancel(call, "the task is over, or is waited for no longer")


def _answer_of(call: Call) -> Json | None:
    """What a task stores of a call that is done; None if the requestor gave no answer."""
    outcome = call.outcome
    if isinstance(outcome, dict):
        return {"result": outcome}
    if isinstance(outcome, InvalidResponse):
        return {"invalid": str(outcome)}
    if not isinstance(outcome, ErrorResponse):
        return None
    error: Json = {"code": outcome.code, "message": outcome.message}
    return {"error": error if outcome.data is None else {**error, "data": outcome.data}}


_TASKS: Json = {"since": "2025-11-25", "until": "2025-11-25", "sender": "either", "capability": "tasks"}
METHODS = (
    Method("tasks/get", on_get, params=TaskIdParams, result=GetTaskResult, **_TASKS),
    Method("tasks/result", on_result, params=TaskIdParams, result=GetTaskPayloadResult, **_TASKS),
    Method("tasks/cancel", on_cancel, params=TaskIdParams, result=CancelTaskResult, **_TASKS),
    # The shape by its name: `basic` must not import `server`, whose page on pagination defines it.
    Method("tasks/list", on_list, params="ListParams", result=ListTasksResult, **_TASKS),
)
NOTIFICATIONS = (
    Notification(
        "notifications/tasks/status",
        "TaskStatus",
        "either",
        since="2025-11-25",
        until="2025-11-25",
        params=TaskStatusNotificationParams,
    ),
)
HANDLERS: dict[str, Callable[[Any, Json, Any], Json]] = {row.name: row.handler for row in METHODS}
"""Method -> handler, for a client that runs tasks for its server."""

# ----------------------------------------------------------------------- client half


class NoTask(LocalError):
    """A call cannot run as a task: why, and what to call instead."""

    def __init__(self, why: str, instead: str) -> None:
        super().__init__(f"{why}: {instead}")
        self.why = why


def check_may_augment(client: KnowsServer, tool: Json) -> None:
    """Check that a call of this tool may ask for a task. Raises NoTask, or LocalError for an unlisted tool.

    # spec: basic/utilities/tasks/tool-needs-capability, basic/utilities/tasks/tool-forbidden
    # spec: basic/utilities/tasks/augment-if-declared, basic/utilities/tasks/no-capability-no-tasks
    # spec: basic/utilities/tasks/tool-optional
    """
    if not may_augment(client.negotiated.server_capabilities or {}, "tools/call"):
        raise NoTask(
            "the server runs no tools as tasks",
            "it did not declare tasks.requests.tools.call; use call_tool",
        )
    if tool.keys() == {"name"}:  # the tool is not in the list: only its name is known
        raise LocalError(f"the server lists no tool {tool['name']!r}; call_tool asks for it all the same")
    if support_of(tool) == "forbidden":
        raise NoTask(f"{tool['name']} does not run as a task", "call it with call_tool")


def must_augment(client: KnowsServer, tool: Json) -> bool:
    """Whether this tool can only be called as a task."""
    declared = client.negotiated.server_capabilities or {}
    return support_of(tool) == "required" and may_augment(declared, "tools/call")


def support_of(tool: Json) -> TaskSupport:
    """The `taskSupport` of a tool; "forbidden" if it does not say, or is not understood."""
    execution = tool.get("execution")
    said = execution.get("taskSupport") if isinstance(execution, dict) else None
    return typing.cast(TaskSupport, said) if said in ("optional", "required") else "forbidden"


def augmented(params: Json, ttl: float | None) -> Json:
    """The params of a request, with `task`: run it as a task, and keep that for `ttl` seconds."""
    return {**params, "task": {} if ttl is None else {"ttl": round(ttl * 1000)}}


def created(method: str, result: Json) -> Json:
    """The task in a CreateTaskResult. Raises InvalidResponse."""
    try:
        checker(CreateTaskResult, REVISION.date, ("_meta",))(result)
    except Mismatch as problem:
        raise InvalidResponse(f"{method}: the answer is no task: {problem}") from None
    return typing.cast(Json, result["task"])


def immediate_response(result: Json) -> str | None:
    """The text that a model can be given at once, if a CreateTaskResult has one.

    # spec: basic/utilities/tasks/model-immediate-response
    """
    meta = result.get("_meta")
    said = meta.get(MODEL_IMMEDIATE_RESPONSE) if isinstance(meta, dict) else None
    return said if isinstance(said, str) else None


def checked(task: Json) -> Json:
    """The result of tasks/get, if it is a Task. Raises InvalidResponse."""
    try:
        checker(Task, REVISION.date)(task)
    except Mismatch as problem:
        raise InvalidResponse(f"tasks/get: {problem}") from None
    return task


class TaskNews:
    """The last status notification about one task, for the thread that waits for it."""

    def __init__(self, task_id: str) -> None:
        self.id = task_id
        self.told = Flag()
        self.state: Json | None = None
        """The params of that notification; None once the thread has taken them."""


def on_status(watched: Iterable[TaskNews], params: Json) -> None:
    """Pass a notifications/tasks/status on to the threads that wait for this task. Runs on the reader."""
    for news in list(watched):
        if news.id == params.get("taskId"):
            news.state = params
            news.told.set()


# ------------------------------------------------------------ a server that asks for tasks


def ask_as_tasks(
    context: RequestContext, several: Sequence[tuple[str, Json]], timeout: float | None
) -> list[Json]:
    """The results of requests to a client. It runs as tasks those for which it declared that it can.

    # spec: basic/utilities/tasks/augment-if-declared
    """
    connection, declared = context.connection, context.client_capabilities
    # Step 1: ask for tasks. A request that the client does not run as a task is answered with its result.
    asked = [
        (method, augmented(params, timeout) if may_augment(declared, method) else params)
        for method, params in several
    ]
    results = connection.request_all(asked, timeout=timeout, on_behalf_of=context)
    ids = {
        number: created(asked[number][0], result)["taskId"]
        for number, result in enumerate(results)
        if "task" in asked[number][1] and "task" in result
    }
    # Step 2: wait for the results of the tasks.
    try:
        fetched = connection.request_all(
            [("tasks/result", {"taskId": task_id}) for task_id in ids.values()],
            timeout=timeout,
            on_behalf_of=context,
        )
    except BaseException:
        # Step 3: if that fails, cancel the tasks: their results are not waited for any longer.
        for task_id in ids.values():
            with contextlib.suppress(McpError):
                connection.call("tasks/cancel", {"taskId": task_id}, on_done=_ignore)
        raise
    for number, result in zip(ids, fetched, strict=True):
        results[number] = result
    return results


def _ignore(call: Call) -> None:
    """Ignore the answer to tasks/cancel: the task is cancelled, or was over."""
