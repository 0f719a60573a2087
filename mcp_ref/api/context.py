"""Context: one request, as its handler sees it, in either era.

The attributes of the request, who sent it and whether its answer is still wanted, are in the base class
(basic/patterns/index/context); the methods that a handler calls are here.

Revisions   all.
Threads     for the thread of the handler. It may give its context to threads that it makes: `progress`,
            `log` and `notify` are safe there.
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
"""The requests that a server may make of its client: method -> row of its page."""

T = TypeVar("T")


class Context(RequestContext):
    """One request, for the handler that answers it."""

    __slots__ = ()

    # -- what belongs to this request -------------------------------------------------

    def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Tell the client how far the work is (basic/patterns/progress).

        A task of 2026-07-28 sends no progress notifications: there it becomes the task's status message.
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
        """End the response of a long request early: the client comes back later for the rest, and is told
        when. The request goes on.

        Only over HTTP, in a session of 2025-11-25 (basic/transports/streamable_http); elsewhere this does
        nothing and returns False.
        """
        return self.arrival.outbox.release()

    @property
    def http(self) -> Any:
        """The HTTP request that brought this one, as a `werkzeug.wrappers.Request`; None over stdio."""
        if self.arrival.environ is None:
            return None
        from werkzeug.wrappers import Request

        return Request(self.arrival.environ, populate_request=False)

    # -- what its caller may do (basic/authorization) -----------------------------------------

    @property
    def token(self) -> AccessToken | None:
        """The verified access token of this request; None if the server is not protected."""
        access = self.arrival.access
        return None if access is None else access.token

    def require_scopes(self, *scopes: str) -> None:
        """Go on only if the token of this request has these scopes: `ctx.require_scopes("notes:write")`.

        Otherwise the response is 403 and names all of them, unless part of a response was sent already. Name
        all scopes that are needed in one call: for each 403 a client asks a person. On a pipe this never
        refuses: the process that started the server may do everything. Over HTTP without `auth` it always
        raises InternalError, as no request there has scopes.
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
        """Send the client a request and wait for its result. LocalError in 2026-07-28, which has no such
        requests.

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
        """Send several requests at once; return the results. All share the longest of their time-outs."""
        return mrtr.request_all(self, several, timeout)

    # -- tasks (basic/utilities/tasks, extensions/tasks) -------------------------------------

    def status(self, message: str) -> None:
        """Set the status message of the task that this request runs as, or may become; else do nothing."""
        check_text(message=message)
        if self.handling.run is not None:
            self.handling.run.set_message(message)

    def become_task(self) -> bool:
        """From here on, run as a task. False if that is not possible: then the call goes on as before.

        For a tool with `task="optional"` that knows when it begins to take long (2026-07-28). Questions that
        it asks before this are those of an ordinary call. In 2025-11-25 the client decides, with the call.

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
        type of one field; or a JSON schema as a dict. Without one the person only confirms or declines. The
        answer is true if the person accepted; `answer.action` is what they did, and `answer.data` what they
        filled in: an instance of that class, or the value. `timeout` is for the legacy era, where a thread
        waits for the answer; in the modern era none does.
        """
        answer: Answer[Any] = self.ask_all(Elicit(message, schema), timeout=timeout)[0]
        return answer

    def confirm(self, message: str, *, timeout: float | None = None) -> bool:
        """Ask the person behind the client a yes-or-no question: `if ctx.confirm("Really delete?"):`.

        False if they decline, or dismiss the question. It is an elicitation whose form has no fields.
        """
        return self.elicit(message, timeout=timeout).accepted

    def elicit_url(
        self, message: str, url: str, *, elicitation_id: str | None = None, timeout: float | None = None
    ) -> Answer[None]:
        """Ask the person behind the client to open a URL: "accept" means that they agree to open it.

        `Server.elicitation_complete(elicitation_id)` tells a client of 2025-11-25 that they are done there.
        """
        answer: Answer[None] = self.ask_all(ElicitUrl(message, url, elicitation_id), timeout=timeout)[0]
        return answer

    def sample(
        self, messages: Any, *, max_tokens: int, timeout: float | None = None, **options: Any
    ) -> Reply:
        """Ask the client's model for a message. The options are those of `Sample` (client/sampling)."""
        reply: Reply = self.ask_all(Sample(messages, max_tokens=max_tokens, **options), timeout=timeout)[0]
        return reply

    def list_roots(self) -> list[Root]:
        """The directories that the client's work is about (client/roots)."""
        return roots.list_roots(self)

    def is_within_roots(self, path: str | os.PathLike[str]) -> bool:
        """Whether a path is in one of the client's roots, after links and `..` are resolved."""
        return roots.within(path, self.list_roots())

    def ask_all(self, *asked: Any, timeout: float | None = None, as_task: bool = False) -> list[Any]:
        """Several questions in one round: `ctx.ask_all(Elicit("Sure?"), Sample("A name", max_tokens=9))`.

        `as_task` has the client run them as tasks, where it can (2025-11-25): each request is answered with a
        task at once, and a second request fetches the result when the task is done.
        """
        for each in asked:
            if not hasattr(each, "question"):
                raise TypeError(f"ask_all takes Elicit, ElicitUrl, Sample and ListRoots, not {each!r:.60}")
        send = ask_as_tasks if as_task else None
        return mrtr.ask(self, [each.question(self) for each in asked], timeout, send=send)

    def ask(self, asked: Any) -> Any:
        """Ask one question, an `Elicit`, `ElicitUrl`, `Sample` or `ListRoots`, and return its answer."""
        return self.ask_all(asked)[0]

    def once(self, name: str, run: Callable[[], Any]) -> Any:
        """What `run` returned, as JSON. It is called once, even if the handler runs again for each answer."""
        return mrtr.once(self, name, run)

    @property
    def input_responses(self) -> Json:
        """The answers to an input_required result that the handler itself returned, by its keys.

        Raises InvalidParams for an answer that does not have the form of any input response.
        """
        return mrtr.responses(self)

    @property
    def request_state(self) -> str | None:
        """The requestState that the handler gave that result; None if there was none."""
        return None if self.handling.exchange is None else self.handling.exchange.handler_state

    def require_capability(self, **required: Json) -> None:
        """Raise unless the client declared these capabilities: `ctx.require_capability(sampling={})`."""
        require_capability(self, required)
