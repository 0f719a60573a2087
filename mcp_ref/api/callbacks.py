"""The callbacks that answer a server's questions, and how they are run (page: client/index).

    connect(target, elicitation=ask, sampling=my_llm, roots=["/home/user/project"])

A callback may take as long as a person needs, or hang. So it runs on a thread of its own, and the thread that
waits for it has a time limit.

Revisions   all; the declared capabilities say what a server may ask for.
Threads     `run` is called by the worker of a server's request (legacy), or by the thread that waits for the
            result of the client's request (modern; for a future, by a worker). The callback itself runs on a
            thread named `mcp_ref asking`; as many run at once as the limit allows. One that hangs counts
            until it ends.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from mcp_ref.basic.index.error_responses import InternalError, ProtocolError, TooManyRequests
from mcp_ref.basic.index.messages import Json
from mcp_ref.basic.patterns.index.context import ending
from mcp_ref.basic.utilities.tasks.protocol_messages import capability
from mcp_ref.basic.versioning import missing_capabilities
from mcp_ref.client.elicitation import requests
from mcp_ref.client.elicitation.requests import MODES
from mcp_ref.client.elicitation.url_mode import Completions
from mcp_ref.client.roots import CAPABILITY
from mcp_ref.client.sampling import creating_messages
from mcp_ref.runtime.checks import check_callable
from mcp_ref.runtime.errors import ConnectionClosed
from mcp_ref.runtime.limits import Limit, Limiter
from mcp_ref.runtime.logs import logger
from mcp_ref.runtime.threads.deadlines import FOR_PEOPLE
from mcp_ref.runtime.typing.mismatch import message_of

if TYPE_CHECKING:
    from mcp_ref.basic.patterns.index.context import RequestContext

__all__ = ["CallbackTimeout", "Callbacks"]

_log = logger("mcp_ref.client")

PEOPLE = Limit(rate=10.0, burst=100, at_once=10)
"""The default limit on questions: each goes to a person, or to a model that costs money."""


MAX_SHOWN_CHARACTERS = 300
"""Characters of a capability that the server requires, in the advice of an error."""


TASK_REQUESTS = {"sampling": "createMessage", "elicitation": "create"}
"""The requests that a client can run as tasks for its server: feature -> second half of the method's name."""

ARGUMENTS = {"elicitation": "elicitation=...", "sampling": "sampling=...", "roots": "roots=[...]"}
"""Capability -> the argument of `connect` that declares it."""


class CallbackTimeout(InternalError):
    """A callback of the application did not return in time."""


class Callbacks:
    """The callbacks of one client, and those of them that are running."""

    def __init__(
        self,
        *,
        elicitation: Callable[[Any], Any] | None = None,
        elicitation_modes: Sequence[str] = MODES,
        sampling: Callable[[Any], Any] | None = None,
        sampling_tools: bool = False,
        sampling_context: bool = False,
        sampling_review: Callable[[Any, Any], Any] | None = None,
        roots: Any = None,
        limit: Limit | None = None,
        seconds: float = FOR_PEOPLE,
    ) -> None:
        """`roots` is a list as client/roots takes it, or a function that returns one. A callback may take
        `seconds`; `limit` bounds how often callbacks are run, and how many at once.
        """
        check_callable(elicitation=elicitation, sampling=sampling, sampling_review=sampling_review)
        if sampling is None and (sampling_tools or sampling_context or sampling_review is not None):
            raise ValueError("sampling_tools, sampling_context and sampling_review go with sampling")
        self.elicitation, self.elicitation_modes = elicitation, tuple(elicitation_modes)
        self.elicitations = Completions()
        self.sampling, self.sampling_review = sampling, sampling_review
        self.sampling_tools, self.sampling_context = sampling_tools, sampling_context
        self.roots = roots
        self.limiter = Limiter(limit or PEOPLE)
        self.seconds = seconds
        self._lock = threading.Lock()
        # Both guarded by _lock.
        self._under_way: set[_Asking] = set()
        self._closed = False

    def capabilities(self, *, tasks: bool = False) -> Json:
        """The capabilities that this client declares, in the fullest form of any revision.

        `tasks`: it also declares that it can run the server's requests as tasks.
        """
        found: Json = {}
        if self.elicitation is not None:
            found["elicitation"] = requests.capability(self.elicitation_modes)
        if self.sampling is not None:
            found["sampling"] = creating_messages.capability(
                tools=self.sampling_tools, context=self.sampling_context
            )
        if self.roots is not None:
            found["roots"] = CAPABILITY
        as_tasks: Json = {feature: {act: {}} for feature, act in TASK_REQUESTS.items() if feature in found}
        if tasks and as_tasks:
            found["tasks"] = capability(as_tasks, lists=True)
        return found

    def arguments_for(self, data: Any) -> list[str]:
        """The arguments of `connect` that declare the capabilities in the `data` of an error -32021."""
        missing = missing_capabilities(_required(data), self.capabilities())
        arguments = [ARGUMENTS[name] for name in missing if name in ARGUMENTS and getattr(self, name) is None]
        options = [option for name, parts in missing.items() for option in self._options_for(name, parts)]
        return [*arguments, f"options=ClientOptions({', '.join(options)})"] if options else arguments

    def _options_for(self, capability: str, parts: Json) -> list[str]:
        """The ClientOptions that declare a capability, or parts of it that a callback alone does not."""
        if capability == "elicitation" and self.elicitation is not None:
            modes = [mode for mode in MODES if mode in parts or mode in self.elicitation_modes]
            return [f"elicitation_modes={modes}"]
        if capability == "sampling":
            return [f"sampling_{part}=True" for part in ("tools", "context") if part in parts]
        is_free = capability in ("extensions", "experimental")
        return [f"{capability}={parts!r:.{MAX_SHOWN_CHARACTERS}}"] if is_free else []

    def run(
        self,
        function: Callable[..., Any],
        *arguments: Any,
        context: RequestContext | None = None,
        over: threading.Event | None = None,
    ) -> Any:
        """Call the function on a thread of its own, and return what it returns.

        `over` is set when nothing waits for the function any more; `context` is the server's request.

        Raises CallbackTimeout; TooManyRequests beyond the limit; a ProtocolError that the function raises or
        returns, and InternalError for anything else that it raises; ConnectionClosed and RequestCancelled if
        the client is closed, or the server's request cancelled, meanwhile.
        """
        wait = self.limiter.enter()
        if wait:
            raise TooManyRequests("this client is asked too much", wait)
        asking = _Asking(function, arguments, self.limiter.leave)
        try:
            asking.start()
            if context is None:
                self._wait(asking)
            else:
                with ending(context, lambda reason: asking.done.set()):
                    self._wait(asking)
                context.check_cancelled()
            return asking.outcome(self.seconds)
        finally:
            if over is not None:
                over.set()

    def _wait(self, asking: _Asking) -> None:
        """Wait until the callback returns, its answer is not wanted any more, or its time is up.

        Raises ConnectionClosed if the client was closed.
        """
        with self._lock:
            self._under_way.add(asking)
            if self._closed:
                asking.done.set()
        asking.done.wait(self.seconds)
        with self._lock:
            self._under_way.discard(asking)
            if self._closed:
                raise ConnectionClosed("this client was closed")

    def close(self) -> None:
        """The client is closed: wake all threads that wait for a callback. They raise ConnectionClosed."""
        with self._lock:
            self._closed = True
            for asking in self._under_way:
                asking.done.set()


def _required(data: Any) -> Json:
    """The capabilities in the `data` of an error -32021; empty if the data has another form."""
    found = data.get("requiredCapabilities") if isinstance(data, dict) else None
    is_valid = isinstance(found, dict) and all(isinstance(parts, dict) for parts in found.values())
    return found if found is not None and is_valid else {}


class _Asking:
    """One run of a callback. `done` is set when it returns, or when its answer is not wanted any more."""

    def __init__(
        self, function: Callable[..., Any], arguments: tuple[Any, ...], ended: Callable[[], None]
    ) -> None:
        self._function, self._arguments, self._ended = function, arguments, ended
        self._value: Any = None
        self._problem: BaseException | None = None
        self._finished = False
        self.done = threading.Event()

    def start(self) -> None:
        thread = threading.Thread(target=self._run, name="mcp_ref asking", daemon=True)
        try:
            thread.start()
        except RuntimeError as problem:  # the system has no more threads to give
            self._ended()
            raise InternalError(str(problem)) from None

    def _run(self) -> None:
        try:
            self._value = self._function(*self._arguments)
        except BaseException as problem:
            self._problem = problem
        finally:
            self._finished = True
            self._ended()
            self.done.set()

    def outcome(self, seconds: float) -> Any:
        if not self._finished:
            raise CallbackTimeout(f"there was no answer within {seconds:g} s")
        if isinstance(self._problem, ProtocolError):
            raise self._problem
        if self._problem is not None:
            _log.error("a callback failed", exc_info=self._problem)
            raise InternalError(
                f"the client failed to answer: {message_of(self._problem)}"
            ) from self._problem
        if isinstance(self._value, ProtocolError):  # returned, but meant to be raised
            raise self._value
        return self._value
