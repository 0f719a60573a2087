"""Follow a task until it is over, or until the person at the terminal does not want to wait any longer.

    Ctrl-C   asks: detach and leave the task running, cancel it, or wait on. A second Ctrl-C detaches.
             Where no person can be asked, `call --task` cancels the task, and `tasks --wait` detaches.

After a detach the task goes on as long as its server does: a server that was started for this command ends
with the command.

Errors      the error that the task ended with; KeyboardInterrupt, whose text says what became of the task.
Threads     `mcp-ref task` waits for the task, and answers its questions. Main waits for that thread, and for
            Ctrl-C, which is put into a queue, so that it interrupts nothing that is under way.
"""

from __future__ import annotations

import contextlib
import shlex
import signal
import threading
from argparse import Namespace
from collections.abc import Callable, Iterator
from concurrent import futures
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Literal, TypeAlias

from mcp_ref.api.results import Result
from mcp_ref.basic.index.error_responses import ErrorResponse
from mcp_ref.cli.servers import is_command, way_to
from mcp_ref.cli.show import TaskLine, in_a_line
from mcp_ref.runtime.errors import RequestCancelled

if TYPE_CHECKING:
    from mcp_ref.api.tasks import Task

__all__ = ["Choice", "Choose", "follow", "way_back"]

Choice: TypeAlias = Literal["detach", "cancel", "wait"]
Choose: TypeAlias = Callable[[Callable[[], bool]], Choice]
"""Asks the person what to do with a task. Its argument says whether the question is over: the task has
ended, or Ctrl-C came again."""

CANCEL_SECONDS = 10.0
"""Seconds that a cancelled task has to end; after them the command ends all the same."""


def follow(task: Task, line: TaskLine, choose: Choose, options: Namespace, *, is_new: bool = False) -> Result:
    """Follow a task and return its result. `choose` is called after Ctrl-C; the id of a new task is shown."""
    outcome: futures.Future[Result] = futures.Future()
    happened: SimpleQueue[str] = SimpleQueue()
    outcome.add_done_callback(lambda outcome: happened.put("over"))
    with _noted_interrupts(happened):
        threading.Thread(target=_wait, args=(task, line, is_new, outcome), name="mcp-ref task").start()
        choice: Choice = "wait"
        while choice == "wait" and _next(happened) != "over":
            choice = line.hidden_during(choose)(lambda: not happened.empty())
    if outcome.done() or choice == "wait":
        return outcome.result()
    if choice == "detach":
        raise KeyboardInterrupt(way_back(task.id, options))
    return _cancelled(task, outcome)


SIGNAL_SECONDS = 0.5
"""Seconds for which Ctrl-C may go unnoticed: the system may give the signal to a thread that does not wake
this one."""


def _next(happened: SimpleQueue[str]) -> str:
    """The next thing that happens: "over" or "interrupted".

    It waits in short steps, since Python runs the handler of a signal on the main thread, once that is awake.
    """
    while True:
        with contextlib.suppress(Empty):
            return happened.get(timeout=SIGNAL_SECONDS)


@contextlib.contextmanager
def _noted_interrupts(happened: SimpleQueue[str]) -> Iterator[None]:
    """Have Ctrl-C put "interrupted" into the queue, if it would otherwise interrupt this thread."""
    interrupts = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if not interrupts or threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.signal(signal.SIGINT, lambda number, frame: happened.put("interrupted"))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _wait(task: Task, line: TaskLine, is_new: bool, outcome: futures.Future[Result]) -> None:
    """On the thread `mcp-ref task`: show how far the task is, and put its result or error into `outcome`."""
    try:
        if is_new and task.id:
            line.say(f"task {task.id}")
        for state in task.updates():
            line.on_status(state.status, state.message)
        outcome.set_result(task.result())
    except BaseException as problem:
        outcome.set_exception(problem)


def _cancelled(task: Task, outcome: futures.Future[Result]) -> Result:
    """Cancel a task, and raise KeyboardInterrupt.

    If the task ends otherwise before that, the cancelling came too late: its result is returned, or its error
    is raised.
    """
    with contextlib.suppress(ErrorResponse):  # the task is over
        task.cancel()
    futures.wait([outcome], CANCEL_SECONDS)
    if not outcome.done() or isinstance(outcome.exception(), RequestCancelled):
        raise KeyboardInterrupt("the task was cancelled")
    return outcome.result()


def way_back(task_id: str, options: Namespace) -> str:
    """The text for a person who detaches: what becomes of the task, and the command that comes back to it."""
    words = ["mcp-ref", "tasks", f"--id={task_id}", "--wait", *way_to(options)]
    command = in_a_line(shlex.join(words))
    if is_command(options):
        return (
            "the server ends with this command; its tasks survive only in a SqliteStore, as failed if they "
            f"were running. If it has one:\n{command}"
        )
    more = ", with the same --header" if options.header else ""
    return f"the task goes on. Come back to it{more}:\n{command}"
