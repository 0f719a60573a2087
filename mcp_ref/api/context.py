"""Context: one request, as its handler sees it, in either era.

What the request is, who sent it and whether its answer is still wanted comes from
basic/patterns/index/context; here is what a handler calls.

Revisions   all.
Threads     a handler's own; it may hand its context to threads that it makes: `progress`, `log` and
            `notify` are safe there.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, overload

from mcp_ref.basic.index.error_responses import InternalError
from mcp_ref.basic.index.messages import Json
from mcp_ref.basic.patterns.index.context import RequestContext, given_up
from mcp_ref.basic.patterns.mrtr import basic_workflow as mrtr
from mcp_ref.basic.patterns.mrtr.replay import Question
from mcp_ref.basic.patterns.progress import progress_text, report
from mcp_ref.basic.utilities.tasks.protocol_messages import ask_as_tasks
from mcp_ref.basic.versioning import require_capability
from mcp_ref.client import elicitation, roots
from mcp_ref.client.elicitation.requests import Elicit
from mcp_ref.client.elicitation.url_mode import ElicitUrl
from mcp_ref.client.sampling import creating_messages
from mcp_ref.client.sampling.creating_messages import Sample
from mcp_ref.runtime.checks import check_text
from mcp_ref.runtime.errors import ConnectionClosed
from mcp_ref.server.utilities import logging

if TYPE_CHECKING:
    from mcp_ref.basic.authorization.index.access_tokens import AccessToken
    from mcp_ref.basic.patterns.progress import OnProgress
    from mcp_ref.client.elicitation.requests import Answer
    from mcp_ref.client.roots import Root
    from mcp_ref.client.sampling.replies import Reply
    from mcp_ref.server.utilities.logging import LoggingLevel

__all__ = ["INPUT_REQUESTS", "Context"]

INPUT_REQUESTS = {
    row.method: row
    for row in (elicitation.INPUT_REQUEST, creating_messages.INPUT_REQUEST, roots.INPUT_REQUEST)
}
"""What a server may ask of its client."""

T = TypeVar("T")


class Context(RequestContext):
    """What a handler knows of the request it answers."""

    __slots__ = ()

    # -- what belongs to this request -------------------------------------------------

    def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Tell the client how far the work is (basic/patterns/progress).

        A task of 2026-07-28 has no such messages: there it becomes what the task says of its state.
        """
        task = self.handling.task
        if task is None or task.plan.relates:
            report(self, progress, total, message)
        else:
            task.set_message(progress_text(progress, total, message))

    def log(self, level: LoggingLevel, data: Any, logger: str | None = None) -> None:
        """Send a log message to the client, if it wants that level (server/utilities/logging)."""
        logging.log(self, level, data, logger)

    def close_stream(self) -> bool:
        """Let the client of a long request go, and come back later for what it missed; it is told when.

        Over HTTP, in a session of 2025-11-25 (basic/transports/streamable_http); False where there is no such
        thing: then nothing happens.
        """
        return self.arrival.outbox.release()

    @property
    def http(self) -> Any:
        """The HTTP request that brought this one, as werkzeug has it; None over stdio."""
        if self.arrival.environ is None:
            return None
        from werkzeug.wrappers import Request

        return Request(self.arrival.environ, populate_request=False)

    # -- what its caller may do (basic/authorization) -----------------------------------------

    @property
    def token(self) -> AccessToken | None:
        """What the access token of this request says; None where the server is not protected."""
        access = self.arrival.access
        return None if access is None else access.token

    def require_scopes(self, *scopes: str) -> None:
        """Go on only if the token of this request has these: `ctx.require_scopes("notes:write")`.

        Else it is answered with 403, which names them all, if nothing was said before. Say everything that is
        needed at once: a client asks a person for each 403. What started a server on a pipe may do
        everything; over HTTP, without `auth`, no request may.
        """
        access = self.arrival.access
        if access is not None:
            access.require_now(scopes)
        elif self.arrival.environ is not None:
            raise InternalError(f"{self.method}: this server is not protected, so no request has any scope")

    def request(
        self,
        method: str,
        params: Json | None = None,
        *,
        timeout: float | None = None,
        on_progress: OnProgress | None = None,
    ) -> Json:
        """Send the client a request and wait for its result. There is no such thing in 2026-07-28.

        # spec: basic/patterns/index/server-initiates-nothing, basic/index/requests-client-to-server-only
        """
        timeout = mrtr.check_may_request(self, method, params, timeout)
        if self.handling.task is not None:
            question = Question(method, params or {}, {}, lambda result: result)
            answers: list[Json] = self.handling.task.ask([question], timeout)
            return answers[0]
        try:
            return self.connection.request(
                method, params, timeout=timeout, on_progress=on_progress, on_behalf_of=self
            )
        except ConnectionClosed as problem:
            raise given_up(self, problem) from problem

    def requests(self, several: Sequence[tuple[str, Json]], *, timeout: float | None = None) -> list[Json]:
        """Like `request`, for several that are sent at once; all have the time that the slowest may take."""
        return mrtr.request_all(self, several, timeout)

    # -- tasks (basic/utilities/tasks, extensions/tasks) -------------------------------------

    def status(self, message: str) -> None:
        """Say what is being done just now: it stands beside the status of a task. Without one, nothing."""
        check_text(message=message)
        if self.handling.run is not None:
            self.handling.run.set_message(message)

    def become_task(self) -> bool:
        """From here on, run as a task; False if that cannot be, and all goes on as before.

        For a tool with `task="optional"`, in 2026-07-28, that knows when it begins to take long; what it asks
        before, it asks as an ordinary call does. In 2025-11-25 the client decides, with the call.

        # spec: extensions/tasks/mrtr-before-task
        """
        run = self.handling.run
        return run is not None and run.become_task()

    # -- asking the client, in either era (basic/patterns/mrtr) -----------------------------

    @overload
    def elicit(self, message: str, schema: type[T], *, timeout: float | None = None) -> Answer[T]: ...
    @overload
    def elicit(self, message: str, schema: Any = None, *, timeout: float | None = None) -> Answer[Any]: ...
    def elicit(self, message: str, schema: Any = None, *, timeout: float | None = None) -> Answer[Any]:
        """Ask the person behind the client to fill in a form (client/elicitation).

        `schema` is a dataclass or a TypedDict with simple fields; `int`, `str`, `bool`, an Enum or another
        type of one field; or a schema by hand. Without one the question is whether or not. The answer is true
        if it was accepted; `answer.action` says what became of it, `answer.data` what was filled in: an
        instance of that class, or the value. `timeout` is for the legacy era, where a thread waits; in the
        modern one nothing does.
        """
        answer: Answer[Any] = self.ask_all(Elicit(message, schema), timeout=timeout)[0]
        return answer

    def confirm(self, message: str, *, timeout: float | None = None) -> bool:
        """Ask the person behind the client one question of yes or no: `if ctx.confirm("Really delete?"):`.

        False if they decline, or dismiss the question. It is an elicitation without fields.
        """
        return self.elicit(message, timeout=timeout).accepted

    def elicit_url(
        self, message: str, url: str, *, elicitation_id: str | None = None, timeout: float | None = None
    ) -> Answer[None]:
        """Ask the person behind the client to open a URL: "accept" means that they will.

        `Server.elicitation_complete(elicitation_id)` tells a client of 2025-11-25 that they have.
        """
        answer: Answer[None] = self.ask_all(ElicitUrl(message, url, elicitation_id), timeout=timeout)[0]
        return answer

    def sample(
        self, messages: Any, *, max_tokens: int, timeout: float | None = None, **options: Any
    ) -> Reply:
        """Ask the client's model for a message (client/sampling: `Sample` has the options)."""
        reply: Reply = self.ask_all(Sample(messages, max_tokens=max_tokens, **options), timeout=timeout)[0]
        return reply

    def list_roots(self) -> list[Root]:
        """The directories that the client lets the server work in (client/roots)."""
        return roots.list_roots(self)

    def is_within_roots(self, path: str | os.PathLike[str]) -> bool:
        """Whether a path is in one of these directories, links and `..` resolved."""
        return roots.within(path, self.list_roots())

    def ask_all(self, *asked: Any, timeout: float | None = None, as_task: bool = False) -> list[Any]:
        """Several questions in one round: `ctx.ask_all(Elicit("Sure?"), Sample("A name", max_tokens=9))`.

        `as_task` has the client run them as tasks, where it can (2025-11-25): what takes long there is then
        fetched from it, and does not hang on one request.
        """
        for each in asked:
            if not hasattr(each, "question"):
                raise TypeError(f"ask_all takes Elicit, ElicitUrl, Sample and ListRoots, not {each!r:.60}")
        send = ask_as_tasks if as_task else None
        return mrtr.ask(self, [each.question(self) for each in asked], timeout, send=send)

    def ask(self, asked: Any) -> Any:
        """One question: an `Elicit`, an `ElicitUrl`, a `Sample` or a `ListRoots`."""
        return self.ask_all(asked)[0]

    def once(self, name: str, run: Callable[[], Any]) -> Any:
        """What `run` returns, as JSON. It runs once, though the handler runs again with each answer."""
        return mrtr.once(self, name, run)

    @property
    def input_responses(self) -> Json:
        """The answers to an input_required result of the handler's own making, by its keys.

        Raises InvalidParams for settings that the page does not allow.
        """
        return mrtr.responses(self)

    @property
    def request_state(self) -> str | None:
        """The requestState of that result, as the handler made it."""
        return None if self.handling.exchange is None else self.handling.exchange.handler_state

    def require_capability(self, **required: Json) -> None:
        """Go on only with a client that declared this: `ctx.require_capability(sampling={})`."""
        require_capability(self, required)
