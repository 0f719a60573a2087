"""How a task is run (page: basic/utilities/tasks, "Behavior Requirements", "Security Considerations").

    start       the request gets a task, which is in the store before the requestor learns its id
    run         the handler runs on a worker of the receiver, with the context of the request
    ask         the handler asks the requestor: the task is "input_required", and the handler waits
    finish      the outcome is stored, and kept until the task expires

A `Receiver` has all tasks of one server, or of one client. A `TaskRun` is one request that runs as a task, or
may become one: in 2026-07-28 a quick call is answered as usual, and a slow one is handed out as a task.
Both eras are served by this code; where they differ, the `Plan` of a run decides.

If processes share a store, any of them may answer requests about a task: its questions, their answers and its
outcome are in the store, and the process that runs the task looks for answers there.

Revisions   2025-11-25, and 2026-07-28 (mcp_ref/extensions/tasks).
Errors      TooManyRequests where a limit is reached; InternalError where the store fails; TaskNotFound for a
            task that does not exist, has expired, or belongs to another principal: the error does not tell
            which.
Threads     a thread `mcp_ref worker N` of the receiver runs the handler, one for each task. The thread of the
            request runs `TaskRun.answer`. `TaskRun._turn` decides whether a call ends before it is handed out
            or after, and is held while the store adds the task. `Receiver._lock` guards what is made when it
            is first needed, and the counts; the table of runs is a dict that each change alters in one step.
            `Receiver.hear` runs on the thread that changed a task, or on one of the store.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import json
import os
import threading
import time
import typing
import weakref
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from mcp_ref.basic.index.error_responses import (
    InternalError,
    InvalidParams,
    ProtocolError,
    TooManyRequests,
    error_response,
)
from mcp_ref.basic.index.messages import Json, encode
from mcp_ref.basic.patterns.mrtr.basic_workflow import (
    handler_made_questions,
    is_input_required,
    resume_in_task,
)
from mcp_ref.basic.patterns.mrtr.replay import Question
from mcp_ref.basic.utilities.tasks.data_types import (
    TaskIsOver,
    Words,
    abandoned,
    described,
    ended,
    error_text,
    is_over,
    related,
    step,
    with_state,
    writable,
)
from mcp_ref.runtime import audit
from mcp_ref.runtime.checks import check_count, check_seconds
from mcp_ref.runtime.errors import InvalidResponse, McpError, RequestCancelled, RequestTimeout
from mcp_ref.runtime.logs import logger
from mcp_ref.runtime.stores.store import Entry, StoreError, StoreFull
from mcp_ref.runtime.threads import forks
from mcp_ref.runtime.threads.timers import later
from mcp_ref.runtime.threads.workers import QueueFull, Workers

if TYPE_CHECKING:
    from mcp_ref.basic.lifecycle import Session
    from mcp_ref.basic.patterns.index.context import RequestContext
    from mcp_ref.runtime.stores.store import Store

__all__ = ["Plan", "Receiver", "TaskNotFound", "TaskOptions", "TaskRun"]

_log = logger("mcp_ref.tasks")

ID_BYTES = 16
"""Random bytes in the id of a task, so that it cannot be guessed.

# spec: basic/utilities/tasks/unguessable-ids, extensions/tasks/unguessable-ids
"""

MIN_TTL_SECONDS = 1.0
"""The shortest time for which a task is kept: its requestor needs time to fetch the outcome.

# spec: basic/utilities/tasks/ttl-override
"""

WATCH_SECONDS = 1.0
"""Pause between two checks for running tasks that have expired."""

WAIT_SECONDS = 0.5
"""How long a thread waits for a change of a task before it checks whether it should go on waiting."""

IDLE_SECONDS = 1.0
"""Time without a task after which a thread ends."""

EXIT_SECONDS = 1.0
"""How long a program that exits waits for the handlers of its tasks, which it has cancelled."""

MAX_TAKERS = 4
"""Threads of a receiver that store answers for tasks: each answer is one change of the store."""

MAX_QUESTIONS = 100
"""Questions that one task may ask in its lifetime."""

MAX_PAUSE_SECONDS = 5.0
"""The longest pause before a change is tried again while the store fails. The pauses double, from 0.1 s."""


@dataclass(frozen=True, kw_only=True, eq=False)
class TaskOptions:
    """Where the tasks of a server are kept, and the limits within which they run.

    Raises TypeError or ValueError for an invalid option, and names it.
    """

    store: Store | None = None
    """By default a MemoryStore. A SqliteStore outlives the process, and several processes may share it.

    One principal may have at most half of the tasks that a store takes; tasks that are over count as well.
    """
    ttl: float = 3600.0
    """Seconds for which a task is kept, if its requestor does not say."""
    max_ttl: float = 86_400.0
    """The longest time, in seconds, for which a task is kept."""
    poll_interval: float = 1.0
    """Seconds that a requestor is asked to wait between two requests tasks/get."""
    grace: float = 1.0
    """2026-07-28: seconds in which a call that may be a task can still finish as an ordinary call."""
    most_live: int = 1000
    """Tasks of one principal that may be under way at once; where there are no principals, of all clients."""
    workers: int = 100
    """Tasks that run at once; others wait for a thread, with the status "working"."""

    def __post_init__(self) -> None:
        if self.store is not None and not hasattr(self.store, "on_abandoned"):
            raise TypeError(f"store is a MemoryStore or a SqliteStore, not {self.store!r:.60}")
        for name in ("ttl", "max_ttl", "poll_interval"):
            check_seconds(name, getattr(self, name))
        if self.grace != 0:  # 0: no call is waited for, each is handed out at once
            check_seconds("grace", self.grace)
        check_count(1, most_live=self.most_live, workers=self.workers)
        if self.ttl > self.max_ttl:
            raise ValueError(
                f"ttl is at most max_ttl, not {self.ttl:g} s with a max_ttl of {self.max_ttl:g} s"
            )


USUAL_OPTIONS = TaskOptions()


class TaskNotFound(InvalidParams):
    """There is no such task, or this requestor may not see it.

    # spec: basic/utilities/tasks/unknown-task-32602, basic/utilities/tasks/reject-foreign-tasks
    """

    def __init__(self, task_id: str) -> None:
        super().__init__(f"Task not found: {task_id[:64]!r}; it may have expired")


class Plan(Protocol):
    """How one era runs a request as a task."""

    words: Words
    """How the era describes a task."""
    ttl: int | None
    """The ttl that the requestor asked for, in milliseconds; None if it did not say."""
    at_once: bool
    """Whether the request is a task from the start, and not only once it takes long."""
    relates: bool
    """Whether the handler may send notifications, which name the task in their `_meta`."""

    def created(self, task: Json) -> Json:
        """The result that hands out a task."""

    def notify(self, run: TaskRun, entry: Entry) -> None:
        """Tell the requestor that the task has changed."""


# --------------------------------------------------------------------------- all tasks


class Receiver:
    """The tasks of one server, or of one client."""

    def __init__(
        self,
        options: TaskOptions = USUAL_OPTIONS,
        declared: Callable[[RequestContext], Json] = lambda context: _declared_in(context.session),
    ) -> None:
        """`declared(context)` is the `tasks` capability that was declared to the requestor."""
        self.options, self.declared = options, declared
        self.is_offered = False
        """Whether anything may run as a task: set with the first tool that may."""
        self.on_change: Callable[[Entry], object] | None = None
        """Called after each change of a task, with its entry (mcp_ref/extensions/tasks)."""
        self.needed: Callable[[], AbstractContextManager[object]] = contextlib.nullcontext
        """Entered for each task while its handler runs, so that what handlers need, such as the lifespan of a
        server, does not end before them.
        """
        self._lock = threading.Lock()
        self._runs: dict[str, TaskRun] = {}
        # All below guarded by _lock; `store` and `workers` look first without it.
        self._store: Store | None = None
        self._workers: Workers | None = None
        self._takers: Workers | None = None
        self._waiting = 0  # requests tasks/result
        self._is_watching = False
        forks.register(self)

    def forked(self) -> None:
        """Begin without runs in a forked child: they belong to the parent."""
        self._lock, self._runs, self._is_watching, self._waiting = threading.Lock(), {}, False, 0

    @property
    def store(self) -> Store:
        """Where the tasks are kept. Opened when it is first needed."""
        if self._store is not None:
            return self._store
        with self._lock:
            if self._store is None:
                store = self.options.store or _new_memory_store()
                # spec: basic/utilities/tasks/clean-up
                store.on_abandoned(abandoned)
                store.listen(self.hear)
                self._store = store
            return self._store

    @property
    def workers(self) -> Workers:
        """The threads that run handlers. `most_live` tasks may wait for one."""
        if self._workers is not None:
            return self._workers
        with self._lock:
            if self._workers is None:
                self._workers = Workers(self.options.workers, self.options.most_live, IDLE_SECONDS)
            return self._workers

    @property
    def takers(self) -> Workers:
        """The threads that store answers for tasks: all that run handlers may be waiting for answers."""
        with self._lock:
            if self._takers is None:
                self._takers = Workers(MAX_TAKERS, idle=IDLE_SECONDS)
            return self._takers

    @contextlib.contextmanager
    def waiting(self, most: int) -> typing.Iterator[None]:
        """Count a request tasks/result while it waits. Raises TooManyRequests if `most` wait already.

        # spec: basic/utilities/tasks/rate-limit
        """
        with self._lock:
            if self._waiting >= most:
                raise TooManyRequests("too many requests wait for results of tasks: poll with tasks/get", 1.0)
            self._waiting += 1
        try:
            yield
        finally:
            with self._lock:
                self._waiting -= 1

    def close(self, wait: float) -> None:
        """End the tasks that run here. May be called twice; new tasks may begin after it.

        1 they fail  2 their handlers have `wait` seconds to end  3 what the others need is released
        """
        self.fail()
        with self._lock:
            runs, pools = list(self._runs), (self._workers, self._takers)
            self._workers = self._takers = None
        for pool in pools:
            if pool is not None:
                pool.close(wait)
        for task_id in runs:
            self.leave(task_id)

    def fail(self) -> None:
        """Make all tasks that run here fail, as if this process had died, and cancel their handlers."""
        with self._lock:
            runs = dict(self._runs)
        with contextlib.suppress(InternalError):  # the store finds out later that this process has ended
            for task_id in runs:
                with contextlib.suppress(TaskNotFound, TaskIsOver):
                    self.changed(task_id, abandoned)
        for run in runs.values():
            run.context.cancel("this side was closed")

    # -- what a requestor may do ---------------------------------------------------------------------

    def find(self, task_id: str, owner: str | None) -> Entry:
        """Return a task of this owner. Raises TaskNotFound, InternalError.

        # spec: basic/utilities/tasks/bind-authorization
        """
        with Explained():
            entry = self.store.get(task_id)
        if entry is None or entry.owner != owner:
            raise TaskNotFound(task_id)
        return entry

    def cancel(self, task_id: str, owner: str | None, message: str) -> Entry:
        """Cancel a task. Raises TaskNotFound, TaskIsOver, InternalError.

        # spec: basic/utilities/tasks/cancel-before-response, basic/utilities/tasks/cancelled-stays
        # spec: basic/utilities/tasks/cancel-terminal-32602, basic/utilities/tasks/cancel-stops
        """
        self.find(task_id, owner)
        entry = self.changed(task_id, lambda entry: _cancelled(entry, message))
        record("cancelled", entry)
        return entry

    def answer(self, task_id: str, key: str, answer: Json) -> None:
        """Store the answer to a question of a task. Raises TaskNotFound, InternalError."""
        self.changed(task_id, functools.partial(_answered, key, answer))

    def keep_answer(self, entry: Entry, key: str, answer: Json) -> None:
        """As `answer`, but try until the store works again: the requestor will not answer a second time."""
        self.insist(entry.id, functools.partial(_answered, key, answer), entry.expires)

    def changed(self, task_id: str, make: Callable[[Entry], Entry]) -> Entry:
        """Change a task and return it. Raises TaskNotFound, InternalError, and what `make` raises."""
        with Explained():
            entry = self.store.change(task_id, make)
        if entry is None:
            raise TaskNotFound(task_id)
        return entry

    def insist(self, task_id: str, make: Callable[[Entry], Entry], expires: float | None) -> Entry | None:
        """As `changed`, but try until the store works again; None if the task is gone, or expires meanwhile.

        Raises what `make` raises.
        """
        pause, waits = 0.1, threading.Event()
        while True:
            try:
                return self.store.change(task_id, make)
            except StoreError as problem:
                if expires is not None and time.time() >= expires:
                    _log.error("a change of a task could not be kept: %s", problem)
                    return None
                _log.warning("a change of a task cannot be kept now, which is tried again: %s", problem)
            waits.wait(pause)
            pause = min(2 * pause, MAX_PAUSE_SECONDS)

    def waited(self, entry: Entry, seconds: float = WAIT_SECONDS) -> Entry:
        """Wait for the next change of a task, at most so long, and return the task.

        Raises TaskNotFound, InternalError.
        """
        with Explained():
            after = self.store.wait(entry.id, entry.version, seconds)
        if after is None:
            raise TaskNotFound(entry.id)
        return after

    # -- the runs of this process ----------------------------------------------------------------------

    def hear(self, entry: Entry) -> None:
        """A task was added or changed, perhaps by another process: tell its run, and `on_change`."""
        run = self._runs.get(entry.id)
        if run is not None:
            run.changed(entry)
        if self.on_change is not None:
            self.on_change(entry)

    def enter(self, run: TaskRun, entry: Entry) -> None:
        """Add the new task of a run to the store. Raises TooManyRequests, InternalError.

        # spec: basic/utilities/tasks/limit-concurrent
        """
        self._runs[entry.id] = run
        try:
            run.needs.enter_context(self.needed())
            with Explained():
                self.store.add(entry, most_live=self.options.most_live)
        except BaseException:
            self.leave(entry.id)
            raise
        if not self._is_watching:
            self._watch()
        _in_use.add(self)

    def leave(self, task_id: str) -> None:
        """Forget the run of a task: its handler has ended, or is waited for no longer."""
        run = self._runs.pop(task_id, None)
        if run is not None:
            run.needs.close()

    def _watch(self) -> None:
        """Start the timer that cancels tasks which expire while they run, unless it is set."""
        with self._lock:
            if self._is_watching or not self._runs:
                return
            self._is_watching = True
        with contextlib.suppress(RuntimeError):  # the system is out of threads: the next task tries again
            later(WATCH_SECONDS, self._cancel_expired)
            return
        self._is_watching = False

    def _cancel_expired(self) -> None:
        """Cancel expired tasks, on the thread of the timers.  # spec: basic/utilities/tasks/ttl-delete"""
        with self._lock:
            self._is_watching = False
            runs, now = list(self._runs.values()), time.time()
        for run in runs:
            if run.expires is not None and run.expires <= now:
                run.context.cancel("its task has expired")
        self._watch()


_in_use: weakref.WeakSet[Receiver] = weakref.WeakSet()
"""The receivers that have run tasks, for `_close_all`."""


@atexit.register
def _close_all() -> None:
    """At the exit of the program, end all tasks, so that their handlers clean up what they have begun."""
    for receiver in list(_in_use):
        receiver.close(EXIT_SECONDS)


def _declared_in(session: Session | None) -> Json:
    """The `tasks` capability that a server declared when a session began; {} without one."""
    declared: Json = {} if session is None else session.server_capabilities.get("tasks", {})
    return declared


def record(event: str, entry: Entry) -> None:
    """Write an event in the life of a task to the audit log.

    # spec: basic/utilities/tasks/log-events, basic/utilities/tasks/log-context
    """
    audit.record_task(event, entry.state["method"], entry.id, entry.owner)


def _new_memory_store() -> Store:
    from mcp_ref.runtime.stores.memory import MemoryStore  # start-up time

    return MemoryStore()


def _answered(key: str, answer: Json, entry: Entry) -> Entry:
    """The task with the answer to one of its questions. An answer to any other question changes nothing.

    # spec: basic/utilities/tasks/leave-input-required
    """
    asked = dict(entry.state.get("asked", {}))
    if is_over(entry) or key not in asked:
        return entry
    del asked[key]
    answers = {**entry.state.get("answers", {}), key: answer}
    if asked:
        return with_state(entry, {"asked": asked, "answers": answers})
    return step(entry, "answer", asked=None, answers=answers)


def _cancelled(entry: Entry, message: str) -> Entry:
    """The task after its cancellation. Its outcome is an error with this message."""
    return ended(entry, "cancel", error_text(InternalError(message).to_wire()), message=message)


class Explained:
    """Around calls of the store: turns its errors into those that are sent to the peer.

    A class, since @contextmanager would take 3 µs of each request about a task.
    # spec: basic/utilities/tasks/internal-32603, basic/utilities/tasks/standard-errors
    # spec: basic/utilities/tasks/informative-errors
    """

    __slots__ = ()

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, problem: BaseException | None, trace: object) -> None:
        if isinstance(problem, StoreFull):
            raise TooManyRequests(str(problem), problem.seconds) from problem
        if isinstance(problem, StoreError):
            _log.error("the store of tasks fails: %s", problem)
            raise InternalError("the store of tasks fails now; the log of this side says why") from problem


# --------------------------------------------------------------------------- one task


class TaskRun:
    """One request that runs as a task, or may become one."""

    def __init__(
        self,
        receiver: Receiver,
        context: RequestContext,
        plan: Plan,
        call: Callable[[], Json],
        encode: Callable[[Json], bytes],
    ) -> None:
        """`call` runs the handler; `encode` makes JSON of the result that it returns."""
        self.context, self.plan = context, plan
        context.handling.run = self
        self.id: str | None = None
        """The id of its task; None until there is one."""
        self.expires: float | None = None
        self.needs = contextlib.ExitStack()
        """What must not end before its handler (`Receiver.needed`)."""
        self._receiver, self._call, self._encode = receiver, call, encode
        self._turn = threading.Lock()
        # Set when the call has ended, or was handed out. No thread waits for a task from the start.
        self._settled = None if plan.at_once else threading.Event()
        # Guarded by _turn: _came, _task and _message.
        # What the handler returned and raised, once it has ended.
        self._came: tuple[Json | None, BaseException | None] | None = None
        self._task: Json | None = None  # as the requestor gets it
        self._message: str | None = None  # set by the handler before there was a task
        self._told = Told()
        self._taken: set[str] = set()  # the keys of the questions whose answers the handler has

    # -- the thread of the request -------------------------------------------------------------------

    def answer(self) -> Json:
        """Run the request, and return its result if it ends soon; if not, the result that hands out the task.

        # spec: basic/utilities/tasks/create-result-returned, basic/utilities/tasks/create-result-soon
        """
        # Step 1: a request that is a task from the start is stored before it runs.
        if self.plan.at_once and not self.hand_out():
            raise RequestCancelled(self.context.reason or "the request was cancelled")
        # Step 2: a worker runs the handler.
        try:
            if not self._receiver.workers.submit(TaskRun.run, self):
                raise TooManyRequests("The server is shutting down; retry in 5 s.", 5.0)
        except (QueueFull, TooManyRequests) as problem:
            self._end(None, TooManyRequests(str(problem), 1.0))
            raise TooManyRequests("too many tasks are waiting", 1.0) from None
        # Step 3: wait a while for its end. A call that takes longer is handed out as a task.
        if self._settled is not None and not self._settled.wait(self._receiver.options.grace):
            self._hand_out_or_wait(self._settled)
        return self._given()

    def _given(self) -> Json:
        """The task that was handed out; else what the handler returned. Raises what it raised."""
        if self._task is not None:
            return self.plan.created(self._task)
        result, problem = self._came or (None, None)
        if problem is not None:
            raise problem
        return typing.cast(Json, result)

    def _hand_out_or_wait(self, settled: threading.Event) -> None:
        """Hand out a call that takes long. If it cannot become a task, wait for its end.

        Raises RequestCancelled if the request is cancelled meanwhile.
        """
        self.become_task()
        while not settled.wait(WAIT_SECONDS):
            self.context.check_cancelled()

    def become_task(self) -> bool:
        """As `hand_out`, but also False, with a warning, if a limit is reached or the store fails."""
        try:
            return self.hand_out()
        except ProtocolError as problem:
            _log.warning("a call that takes long cannot be a task: %s", problem)
            return False

    def hand_out(self) -> bool:
        """Make the request a task, unless it is one. False if its handler has ended, or it was cancelled.

        The store has the task when this returns True. Raises TooManyRequests, InternalError.
        # spec: basic/utilities/tasks/starts-working, basic/utilities/tasks/id-by-receiver
        # spec: basic/utilities/tasks/id-unique
        # spec: extensions/tasks/durable-before-return, extensions/tasks/consistency-awaited
        """
        with self._turn:
            if self.id is not None:
                return True
            if self._came is not None or self.context.cancelled:
                return False
            with Explained():
                entry = self._new_entry()
                self._receiver.enter(self, entry)
            self.id, self.expires = entry.id, entry.expires
            self.context.handling.task = self
            self._task = described(entry, self.plan.words)
        if self._settled is not None:
            self._settled.set()
        record("created", entry)
        return True

    def _new_entry(self) -> Entry:
        """A task that has just begun.

        # spec: basic/utilities/tasks/limit-ttl
        """
        options, now = self._receiver.options, time.time()
        most = options.max_ttl
        # Limited before it is divided: an integer of JSON may be too large to become a float.
        wanted = options.ttl if self.plan.ttl is None else min(self.plan.ttl, 1000 * most) / 1000
        seconds = min(max(wanted, MIN_TTL_SECONDS), most)
        state: Json = {
            "status": "working",
            "method": self.context.method,
            "updated": now,
            "ttl": round(seconds * 1000),
            "poll": round(options.poll_interval * 1000),
        }
        if self._message is not None:
            state["message"] = writable(self._message)
        return Entry(
            id=os.urandom(ID_BYTES).hex(),
            owner=self.context.principal,
            created=now,
            expires=now + seconds,  # spec: basic/utilities/tasks/ttl-delete
            runner=self._receiver.store.runner,
            state=state,
        )

    # -- the worker --------------------------------------------------------------------------------

    def run(self) -> None:
        """Run the handler to its end. It does not run if its task was cancelled before."""
        if self.context.cancelled:
            self._end(None, RequestCancelled(self.context.reason or "the task was cancelled"))
            return
        result, problem = self._run_to_end(self._call)
        while not self._end(result, problem):
            again = functools.partial(self._call_again, typing.cast(Json, result))
            result, problem = self._run_to_end(again)

    def _run_to_end(self, call: Callable[[], Json]) -> tuple[Json | None, BaseException | None]:
        """Make a call; return its result and None, or None and what it raised."""
        process = forks.count
        result, problem = None, None
        try:
            result = call()
        except BaseException as raised:
            problem = raised
        if forks.count != process:  # the handler came back in a forked child: the task is the parent's
            forks.end_child(problem)
        return result, problem

    def _end(self, result: Json | None, problem: BaseException | None) -> bool:
        """Hand over what the handler returned or raised: to the store if there is a task, and else to the
        thread of the request.

        False if the result is input_required and there is a task: then the handler has to run once more.
        """
        with self._turn:
            if self.id is not None and is_input_required(result):
                return False
            self._came = result, problem
            task_id = self.id
        if task_id is not None:
            try:
                self._keep(task_id, self._ending(result, problem))
            finally:
                self._receiver.leave(task_id)
        if self._settled is not None:
            self._settled.set()
        return True

    def _call_again(self, result: Json) -> Json:
        """Run the handler again, as a retry would: its result is input_required, which does not end a task.

        A question unwound the handler just before there was a task, or the handler made such a result itself.
        """
        asked = handler_made_questions(self.context, result)
        answers = self.ask(list(asked.values()), None) if asked else []
        if asked is not None and not answers:
            self.context.sleep(self._receiver.options.poll_interval)
        resume_in_task(self.context, dict(zip(asked or (), answers, strict=True)))
        return self._call()

    def _ending(self, result: Json | None, problem: BaseException | None) -> Callable[[Entry], Entry]:
        """The change with which the task ends.

        # spec: basic/utilities/tasks/result-exact
        """
        if problem is None and result is not None:
            try:
                outcome = self._encode(result)
            except Exception as reason:  # a hook, or the author's handler, made the result
                problem = reason
            else:
                failed = _failed(outcome)
                message = None if failed is None else _text_of(failed)
                return lambda entry: ended(
                    entry, "complete", outcome, is_error=failed is not None or None, message=message
                )
        if isinstance(problem, RequestCancelled):
            said = str(problem)
            return lambda entry: _cancelled(entry, said)
        if not isinstance(problem, ProtocolError):
            _log.error("a task of %s failed", self.context.method, exc_info=problem)
            problem = InternalError(f"{self.context.method} failed")
        text, message = error_text(problem.to_wire()), problem.message
        return lambda entry: ended(entry, "fail", text, message=message)

    def _keep(self, task_id: str, make: Callable[[Entry], Entry]) -> None:
        """Store the end of the task, however long the store fails."""
        with contextlib.suppress(TaskIsOver):  # it was cancelled meanwhile: the first end counts
            entry = self._receiver.insist(task_id, make, self.expires)
            if entry is not None:
                record(entry.state["status"], entry)

    # -- the handler (api/context) ---------------------------------------------------------------------

    @property
    def is_over(self) -> bool:
        """Whether the handler has ended, or was cancelled: nothing more is sent for it then."""
        return self._came is not None or self.context.cancelled

    def ask(self, questions: Sequence[Question], timeout: float | None) -> list[Any]:
        """Ask the requestor, and wait for all answers. Raises RequestCancelled, RequestTimeout.

        # spec: basic/utilities/tasks/move-to-input-required
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        for question in questions:
            encode(question.params)  # raises here, and not in tasks/get, if it has no JSON form
        keys: list[str] = []

        def add(entry: Entry) -> Entry:
            count = entry.state.get("count", 0)
            if count + len(questions) > MAX_QUESTIONS:
                raise InternalError(f"a task asks at most {MAX_QUESTIONS} questions")
            # The number makes a key unique over the life of the task.
            # spec: extensions/tasks/input-keys-unique, extensions/tasks/input-keys-not-reused
            # spec: extensions/tasks/input-keys-not-ambiguous
            keys[:] = [f"{q.method.partition('/')[0]}-{n}" for n, q in enumerate(questions, count + 1)]
            asked = {
                key: {"method": q.method, "params": q.params} for key, q in zip(keys, questions, strict=True)
            }
            both = {**entry.state.get("asked", {}), **asked}
            answers = entry.state.get("answers", {})
            left = {key: answer for key, answer in answers.items() if key not in self._taken}
            return step(entry, "ask", asked=both, answers=left or None, count=count + len(questions))

        try:
            entry = self._receiver.changed(typing.cast(str, self.id), add)
            answers = self._answers(entry, keys, deadline)
        except (TaskIsOver, TaskNotFound) as problem:
            self.context.check_cancelled()
            raise RequestCancelled(str(problem)) from None
        return [question.read(_read(answer)) for question, answer in zip(questions, answers, strict=True)]

    def _answers(self, entry: Entry, keys: Sequence[str], deadline: float | None) -> list[Json]:
        """Wait until all these questions are answered, and return the answers."""
        while True:
            found = entry.state.get("answers", {})
            if all(key in found for key in keys):
                self._taken.update(keys)
                return [found[key] for key in keys]
            self.context.check_cancelled()
            if is_over(entry):
                raise RequestCancelled(entry.state.get("message", "the task is over"))
            left = WAIT_SECONDS if deadline is None else min(WAIT_SECONDS, deadline - time.monotonic())
            if left <= 0:
                self._withdraw(entry.id, keys)
                raise RequestTimeout("the requestor of the task has not answered in time")
            try:
                entry = self._receiver.waited(entry, left)
            except InternalError:  # the store fails just now: the answer may still come
                self.context.sleep(left)

    def _withdraw(self, task_id: str, keys: Sequence[str]) -> None:
        """Take these questions back: the handler waits for them no longer."""

        def make(entry: Entry) -> Entry:
            asked = {key: each for key, each in entry.state.get("asked", {}).items() if key not in keys}
            if asked:
                return with_state(entry, {"asked": asked})
            return step(entry, "answer", asked=None)

        with contextlib.suppress(TaskIsOver):
            self._receiver.changed(task_id, make)

    def set_message(self, message: str) -> None:
        """Set the status message of the task. Before there is a task, keep it for the one there may be."""
        with self._turn:
            self._message, task_id = message, self.id
        if task_id is not None:
            with contextlib.suppress(TaskNotFound, InternalError):  # it expired, or the store fails just now
                self._receiver.changed(
                    task_id,
                    lambda entry: entry if is_over(entry) else with_state(entry, {"message": message}),
                )

    def notify(self, method: str, params: Json) -> None:
        """Send a notification of the handler to the connection that began the task, if that is still open.

        # spec: basic/patterns/progress/task-token-lives-on, basic/patterns/progress/task-same-token
        # spec: basic/patterns/progress/task-stop-when-terminal
        # spec: basic/utilities/tasks/related-task-everywhere
        """
        if not self.plan.relates or self.is_over:
            return
        said = related(params, typing.cast(str, self.id))
        with contextlib.suppress(McpError):  # that connection has ended: the task goes on without it
            self.context.connection.notify(method, said, wait=0.0)

    # -- changes ---------------------------------------------------------------------------------------

    def changed(self, entry: Entry) -> None:
        """The task has changed: cancel its handler if it is over, and tell its requestor."""
        if entry.runner is None and self._came is None:
            self.context.cancel(entry.state.get("message", "the task is over"))
        with self.context.reports.speaking:
            if self._told.takes(entry):
                self._tell(entry)

    def answered(self) -> None:
        """The answer that hands out the task was sent. Tell its requestor what has changed before."""
        with self.context.reports.speaking:
            unsaid = self._told.begin()
            if unsaid is not None:
                self._tell(unsaid)

    def _tell(self, entry: Entry) -> None:
        with contextlib.suppress(McpError):  # its connection has ended, or reads nothing: it polls
            self.plan.notify(self, entry)


class Told:
    """What the requestor of a task was told. Guarded by `reports.speaking` of the request."""

    def __init__(self) -> None:
        self._version: int | None = None
        """The last version that was told; None before the answer that hands out the task: until then the
        requestor does not know the task."""
        self._unsaid: Entry | None = None
        """The last change before that answer, in which the task is as it was begun (version 1)."""

    def takes(self, entry: Entry) -> bool:
        """Whether to tell this change now.

        Two threads may bring two changes in the wrong order: then the older one is not told.
        """
        if self._version is None:
            if entry.version > (1 if self._unsaid is None else self._unsaid.version):
                self._unsaid = entry
            return False
        if entry.version <= self._version:
            return False
        self._version = entry.version
        return True

    def begin(self) -> Entry | None:
        """The answer was sent. Returns the change to tell after it, if there was one."""
        self._version = 1 if self._unsaid is None else self._unsaid.version
        unsaid, self._unsaid = self._unsaid, None
        return unsaid


def _read(answer: Json) -> Json:
    """The result in an answer. Raises the error that came instead."""
    if "invalid" in answer:
        raise InvalidResponse(answer["invalid"])
    if "error" in answer:
        raise error_response(answer["error"])
    return typing.cast(Json, answer["result"])


def _failed(outcome: bytes) -> Json | None:
    """The encoded result of a tool, if it says that the tool failed; None otherwise.

    Read from the encoded form, since a result without a JSON form is encoded as a failure.
    """
    if b'"isError"' not in outcome:
        return None
    result: Json = json.loads(outcome)
    return result if result.get("isError") is True else None


MAX_MESSAGE_CHARACTERS = 500
"""Characters of a tool's account of its failure that go into the status message of its task."""


def _text_of(result: Json) -> str | None:
    """The text of a result, in which a tool says why it failed; None if it has no text."""
    blocks = result.get("content")
    texts = [b.get("text") for b in blocks if isinstance(b, dict)] if isinstance(blocks, list) else []
    said = "\n".join(text for text in texts if isinstance(text, str))[:MAX_MESSAGE_CHARACTERS]
    return said or None
