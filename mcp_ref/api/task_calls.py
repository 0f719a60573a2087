"""Calls of tools that run as tasks (pages: basic/utilities/tasks, extensions/tasks).

    start          `Client.start_tool`: the task, as soon as the server has it
    call_in_time   `Client.call_tool`: the result, also where the server runs the call as a task
    submit_call    `Client.submit_tool`: the future of that result
    task_of        `Client.task`: a task that was begun before
    tasks_of       `Client.list_tasks`

    2025-11-25   the client asks for a task. A tool that runs only as one says so in the list of tools, and
                 refuses other calls
    2026-07-28   the server decides. A call says that it may be answered with a task

Errors      LocalError where the revision, or one of the sides, knows no tasks; and the errors of a call.
Threads     the caller's.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mcp_ref.api.results import PendingCall, Result
from mcp_ref.api.retrying import begun_before
from mcp_ref.api.tasks import WAYS, Task, check_offers
from mcp_ref.basic.index.error_responses import ErrorResponse, InvalidRequest, MethodNotFound
from mcp_ref.basic.index.messages import Json
from mcp_ref.basic.patterns.progress import OnProgress
from mcp_ref.basic.utilities.tasks import protocol_messages as tasks_of_2025
from mcp_ref.extensions import tasks as task_extension
from mcp_ref.runtime.checks import check_seconds
from mcp_ref.runtime.errors import LocalError, McpError, NotReached
from mcp_ref.runtime.logs import logger
from mcp_ref.server.utilities import pagination

if TYPE_CHECKING:
    from mcp_ref.api.requests import Asker

__all__ = ["awaited", "call_in_time", "start", "submit_call", "task_of", "tasks_of"]

_log = logger("mcp_ref.tasks")

# ----------------------------------------------------------------------------- calls that must be tasks


def start(
    asker: Asker,
    params: Json,
    *,
    ttl: float | None,
    timeout: float | None,
    on_progress: OnProgress | None,
) -> Task:
    """Call a tool as a task, and return that as soon as the server has it.

    If the call was answered at once, the Task that is returned is over and has the result.
    """
    if ttl is not None:
        check_seconds("ttl", ttl)
    check_tasks(asker)
    if asker.negotiated.revision.tasks == "asked for":
        return _start_asked_for(asker, params, ttl, timeout, on_progress)
    heard = None if on_progress is None else _logged(on_progress)
    result = asker.request("tools/call", params, timeout=timeout, on_progress=heard, as_task=True)
    if task_extension.is_created(result):
        return Task(asker, result, params)
    return _never_a_task(asker, params, result)


def _logged(on_progress: OnProgress) -> OnProgress:
    """`on_progress`, with its failures logged: they do not end the call. The same holds in 2025-11-25, where
    the thread for events runs it.
    """

    def heard(progress: float, total: float | None, message: str | None) -> None:
        try:
            on_progress(progress, total, message)
        except Exception:
            _log.exception("on_progress failed")

    return heard


def check_tasks(asker: Asker) -> None:
    """Check that both sides know tasks. Raises LocalError."""
    agreed = asker.negotiated
    if agreed.revision.tasks not in WAYS:
        raise tasks_of_2025.NoTask(f"there are no tasks in {agreed.revision}", "use call_tool, or submit")
    if agreed.revision.tasks == "decided" and not asker.knows_tasks:
        raise LocalError("this client does not know tasks: connect with options=ClientOptions(tasks=True)")


def _never_a_task(asker: Asker, params: Json, result: Result) -> Task:
    return Task(asker, {"status": "completed"}, params, finished=result)


def _start_asked_for(
    asker: Asker, params: Json, ttl: float | None, timeout: float | None, on_progress: OnProgress | None
) -> Task:
    """2025-11-25: ask for a task; its progress is reported until it is over."""
    tasks_of_2025.check_may_augment(asker, asker.tools.known(asker, params["name"]))
    sent = tasks_of_2025.augmented(params, ttl)
    with contextlib.ExitStack() as reports:
        # A token of its own, and not the id of the request, which ends before the task does.
        # spec: basic/patterns/progress/task-token-lives-on
        token = None
        if on_progress is not None:
            token, stop = asker.report_to(on_progress)
            reports.callback(stop)
        result = asker.request("tools/call", sent, timeout=timeout, progress_token=token)
        if "task" not in result:  # a server that knows no tasks ignores the member `task` of the params
            return _never_a_task(asker, params, asker.checked("tools/call", params, result, timeout))
        task = Task(asker, tasks_of_2025.created("tools/call", result), params)
        task.immediate_response = tasks_of_2025.immediate_response(result)
        task.on_end = reports.pop_all().close
    return task


# ------------------------------------------------------------------------ calls that may become tasks


def call_in_time(
    asker: Asker, params: Json, *, timeout: float | None, on_progress: OnProgress | None, rounds: int | None
) -> Result:
    """The result of a call. If the server runs it as a task, wait for the end of that.

    # spec: basic/utilities/tasks/tool-required, extensions/tasks/client-handles-both
    """
    if not _must_start(asker, params["name"]):
        try:
            result = asker.request(
                "tools/call", params, timeout=timeout, on_progress=on_progress, rounds=rounds
            )
        except ErrorResponse as problem:
            if not _is_required_now(asker, params["name"], problem, timeout):
                raise
        else:
            return awaited(asker, params, result, timeout)
    task = start(asker, params, ttl=None, timeout=timeout, on_progress=on_progress)
    return _end_of(task, timeout)


def submit_call(
    asker: Asker,
    params: Json,
    make: Callable[[Result], Any],
    *,
    timeout: float | None,
    on_progress: OnProgress | None,
) -> PendingCall[Any]:
    """The future of a call. If the server runs it as a task, `result()` waits for the end of that.

    In 2025-11-25 the call itself must ask for a task if the tool runs only as one. To know that, the list of
    tools is fetched once, from a server that declares tasks for calls.
    """
    agreed = asker.negotiated
    if agreed.revision.tasks == "asked for" and tasks_of_2025.may_augment(
        agreed.server_capabilities or {}, "tools/call"
    ):
        tool = asker.tools.known(asker, params["name"])
        if tasks_of_2025.must_augment(asker, tool):
            params = tasks_of_2025.augmented(params, None)
    return asker.submit(
        "tools/call", params, timeout=timeout, on_progress=on_progress, make=make, follows=True
    )


def _must_start(asker: Asker, name: str) -> bool:
    """Whether a tool is known to run only as a task.

    An unknown tool is looked up only if a person confirms calls: a call that is refused and sent again would
    ask them twice. Otherwise the call is sent, and the server left to refuse it (`_is_required_now`).
    """
    if asker.negotiated.revision.tasks != "asked for":
        return False
    tool = asker.tools.find(name) if asker.confirm is None else asker.tools.known(asker, name)
    return tool is not None and tasks_of_2025.must_augment(asker, tool)


def _is_required_now(asker: Asker, name: str, problem: ErrorResponse, timeout: float | None) -> bool:
    """Whether a call was refused because the tool runs only as a task, which was not known here."""
    if asker.negotiated.revision.tasks != "asked for":
        return False
    if problem.code not in (MethodNotFound.code, InvalidRequest.code):
        return False
    if not tasks_of_2025.may_augment(asker.negotiated.server_capabilities or {}, "tools/call"):
        return False
    return tasks_of_2025.must_augment(asker, asker.tools.fetch(asker, name, timeout=timeout))


def awaited(asker: Asker, params: Json, result: Result, timeout: float | None) -> Result:
    """The result itself; or, if it is a task of 2026-07-28, the result of that task."""
    return _end_of(Task(asker, result, params), timeout) if asker.is_task(result) else result


def _end_of(task: Task, timeout: float | None) -> Result:
    """Wait for the result of a task that the caller does not see; if the wait fails, cancel the task."""
    try:
        return task.result(max(timeout or 0.0, task.asker.connection.max_timeout))
    except BaseException as problem:
        if not task.is_over:
            with contextlib.suppress(McpError):
                task.asker.submit("tasks/cancel", {"taskId": task.id})
        if isinstance(problem, NotReached):
            raise begun_before("tools/call", problem) from problem
        raise


# ------------------------------------------------------------------------------- tasks by their ids


def task_of(asker: Asker, task_id: str) -> Task:
    """A task that was begun before, perhaps by another process. Raises ErrorResponse for an unknown one."""
    check_tasks(asker)
    return Task(asker, {"taskId": task_id, "status": "working"}, None).refresh()


def tasks_of(asker: Asker) -> list[Task]:
    """The tasks that the server has for this client. Raises LocalError in 2026-07-28, which has no such list.

    # spec: basic/utilities/tasks/list-cursor-opaque
    """
    check_tasks(asker)
    if asker.negotiated.revision.tasks != "asked for":
        raise LocalError(
            "there is no list of tasks in 2026-07-28: keep their ids, and ask by client.task(id)"
        )
    check_offers(asker, "list")
    listed = pagination.everything(asker, "tasks/list", "tasks")
    return [Task(asker, tasks_of_2025.checked(state), None) for state in listed]
