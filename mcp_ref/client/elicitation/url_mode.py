"""Elicitation by URL (page: client/elicitation, "URL Mode Elicitation Requests").

For secrets that neither client nor model should see: the user is asked to open a URL, and what they enter
there goes to that site only. "accept" is their consent to open it, and does not mean that they are done.

    server -> client   elicitation/create {mode: "url", message, url, elicitationId}   -> {action: "accept"}
    server -> client   notifications/elicitation/complete {elicitationId}        when it is done
    server -> client   error -32042 {elicitations: [...]}      instead of a result: let the user visit these
                                                               URLs, then send the same request again

Server half   `ElicitUrl`: the question of `ctx.elicit_url`; `UrlElicitationRequired`, `complete`
Client half   `Completions`: the elicitations of a client, and which are completed; `UrlElicitationNeeded`,
              `visit`

Revisions   2025-11-25  all of this
            2026-07-28  the question only, without an id, by way of basic/patterns/mrtr; - completion, error

Threads     questions are made on the thread of the request; `complete` runs on any thread of the server,
            `on_complete` on the client's reader, `wait` on the caller's thread.
"""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, NoReturn, Required, TypedDict

from mcp_ref.basic.index.error_responses import ErrorResponse, InternalError, ProtocolError
from mcp_ref.basic.index.messages import Json, RequestId
from mcp_ref.basic.patterns.index.context import Initiator
from mcp_ref.basic.patterns.mrtr.basic_workflow import (
    InputRefused,
    Question,
    ask,
    ask_again,
    check_declared,
    server_of,
)
from mcp_ref.basic.patterns.mrtr.replay import MAX_QUESTIONS
from mcp_ref.basic.utilities.tasks.data_types import related
from mcp_ref.basic.versioning import Notification
from mcp_ref.client.elicitation.requests import (
    Answer,
    Elicit,
    ElicitRequestURLParams,
    action_and_content,
    check_mode_exists,
    check_url,
    needs,
)
from mcp_ref.runtime.checks import check_text, check_text_if_any
from mcp_ref.runtime.errors import ConnectionClosed, LocalError
from mcp_ref.runtime.logs import logger
from mcp_ref.runtime.threads import forks
from mcp_ref.schema import checker, pruner, since, until

if TYPE_CHECKING:
    from mcp_ref.basic.patterns.index.connection import Connection
    from mcp_ref.basic.patterns.index.context import RequestContext, ServerRole
    from mcp_ref.basic.patterns.mrtr.basic_workflow import AnswersServers

__all__ = ["Completions", "ElicitUrl", "UrlElicitationNeeded", "UrlElicitationRequired", "complete", "visit"]

_log = logger("mcp_ref.elicitation")

MAX_REMEMBERED = 10_000
"""Elicitations that either side remembers; the oldest are forgotten first."""
MAX_EARLY_COMPLETIONS = 100
"""Completions that a client keeps for elicitations that it does not know, or not yet."""
COMPLETION_SECONDS = 1.0
"""How long `complete` waits for a client that does not read its notifications."""

_initiators_lock = threading.Lock()
"""Guards `elicitations` of every server: elicitation id -> what asked for the visit."""


def _replace_lock() -> None:
    """Replace the lock in a forked child: another thread may have held it."""
    global _initiators_lock
    _initiators_lock = threading.Lock()


forks.on_fork(_replace_lock)

# ---------------------------------------------------------------------------- shapes


class ElicitationCompleteParams(TypedDict, total=False):
    elicitationId: Required[str]


class UrlElicitations(TypedDict):
    elicitations: list[ElicitRequestURLParams]


class UrlRequiredError(TypedDict, total=False):
    code: Required[Literal[-32042]]
    message: Required[str]
    data: Required[UrlElicitations]


class URLElicitationRequiredError(TypedDict, total=False):
    jsonrpc: Required[Literal["2.0"]]
    id: RequestId
    error: Required[UrlRequiredError]


DEFINITIONS: dict[str, Any] = {
    "URLElicitationRequiredError": Annotated[
        URLElicitationRequiredError, since("2025-11-25"), until("2025-11-25")
    ],
}
NOTIFICATIONS = (
    Notification(
        "notifications/elicitation/complete",
        "ElicitationComplete",
        "server",
        since="2025-11-25",
        until="2025-11-25",
        params=ElicitationCompleteParams,
    ),
)

# ----------------------------------------------------------------------- server half


@dataclass(frozen=True)
class ElicitUrl:
    """A question with a URL for the user to open, for secrets that no client or model should see."""

    message: str
    url: str
    elicitation_id: str | None = None

    def question(self, context: RequestContext) -> Question:
        """The elicitation/create request, and how its result is read.

        # spec: client/elicitation/url-parameters, client/elicitation/url-parameters-with-id
        """
        check_mode_exists(context, "url")
        params = self.params()
        remember(context, params["elicitationId"])

        def read(result: Json) -> Answer[None]:  # spec: client/elicitation/url-accept-is-consent
            action, _ = action_and_content(result, context.revision)
            return Answer(action)

        shaped = pruner(ElicitRequestURLParams, context.revision.date)(params)
        return Question("elicitation/create", shaped, needs(shaped, context.revision), read)

    def params(self) -> Json:
        """The params of the request, with the members of all revisions."""
        check_text(message=self.message, url=self.url)
        check_text_if_any(elicitation_id=self.elicitation_id)
        check_url(self.url)
        name = self.elicitation_id or os.urandom(16).hex()
        return {"mode": "url", "message": self.message, "url": self.url, "elicitationId": name}


class UrlElicitationRequired(ProtocolError):
    """Error -32042 of 2025-11-25: a handler raises it if the user has to visit a URL before it can go on.

    In 2026-07-28 the handler's question goes by way of basic/patterns/mrtr; older revisions have neither.
    # spec: client/elicitation/url-required-error, client/elicitation/url-required-only-then
    """

    code = -32042

    def __init__(
        self, *elicitations: ElicitUrl, message: str = "This request needs a visit to a URL first"
    ) -> None:
        if not elicitations:
            raise ValueError("name at least one ElicitUrl")
        for each in elicitations:
            if not isinstance(each, ElicitUrl):
                raise TypeError(f"write UrlElicitationRequired(ElicitUrl(message, url)), not {each!r:.60}")
        # spec: client/elicitation/url-required-list, client/elicitation/url-required-mode
        super().__init__(message, data={"elicitations": [each.params() for each in elicitations]})
        self.elicitations = elicitations


def require_visit(context: RequestContext, problem: UrlElicitationRequired) -> NoReturn:
    """Ask for the visit as the client's revision does, by a question or by error -32042.

    Always raises: InputRequired or a ProtocolError.
    # spec: client/elicitation/server-errors, client/elicitation/handle-decline
    """
    try:
        check_mode_exists(context, "url")
        check_declared(context, "elicitation/create", needs({"mode": "url"}, context.revision))
        if not context.revision.url_errors:  # spec: basic/index/no-emit-32042
            answers = ask(context, [each.question(context) for each in problem.elicitations])
            if not all(each.accepted for each in answers):
                raise InternalError("the user did not agree to open the URL")
            # Consent is not completion: the handler ran again, and still found the visit missing.
            # spec: client/elicitation/retry-final-or-input-required
            ask_again(context, [each.question(context) for each in problem.elicitations])
        for each in problem.data["elicitations"]:
            remember(context, each["elicitationId"])
    except (LocalError, ValueError) as reason:
        raise InternalError(str(reason)) from None
    raise problem


def question_of(params: Json, context: RequestContext) -> Question:
    """The question in the params of elicitation/create, in either mode."""
    if params.get("mode") == "url":
        return ElicitUrl(params["message"], params["url"], params.get("elicitationId")).question(context)
    return Elicit(params["message"], params["requestedSchema"]).question(context)


def remember(context: RequestContext, elicitation_id: str) -> None:
    """Remember which client was asked, for its completion.

    # spec: client/elicitation/complete-to-initiator-only
    """
    if not context.revision.url_errors:
        return
    initiators, task = server_of(context).elicitations, context.handling.task
    initiator = Initiator(context.connection, None if task is None else task.id)
    with _initiators_lock:
        # spec: schema/elicitation-id-unique
        if initiators.get(elicitation_id, initiator).connection is not context.connection:
            raise ValueError(f"the elicitation id {elicitation_id!r:.60} is in use by another client")
        initiators.pop(elicitation_id, None)  # an id that is used again becomes the newest
        initiators[elicitation_id] = initiator
        if len(initiators) > MAX_REMEMBERED:
            del initiators[next(iter(initiators))]


def forget(server: ServerRole, connection: Connection) -> None:
    """Forget the elicitations of a connection that has ended."""
    with _initiators_lock:
        initiators = server.elicitations.items()
        for name in [name for name, asked in initiators if asked.connection is connection]:
            del server.elicitations[name]


def complete(server: ServerRole, elicitation_id: str) -> bool:
    """Notify the client that was asked: its user is done at the URL.

    False if the id is unknown, or the client is gone.
    # spec: client/elicitation/complete-notification, client/elicitation/complete-includes-id
    """
    check_text(elicitation_id=elicitation_id)
    with _initiators_lock:
        initiator = server.elicitations.pop(elicitation_id, None)
    if initiator is None:
        return False
    params: Json = {"elicitationId": elicitation_id}
    if initiator.task_id is not None:  # every message of a task names it (basic/utilities/tasks)
        params = related(params, initiator.task_id)
    try:
        initiator.connection.notify("notifications/elicitation/complete", params, wait=COMPLETION_SECONDS)
    except ConnectionClosed:
        return False
    return True


# ----------------------------------------------------------------------- client half


class UrlElicitationNeeded(ErrorResponse):
    """A server's error -32042: the user has to visit a URL first. `Client.visit` asks them to.

    If it came with an HTTP status other than success, the text says so, and `__cause__` is the HttpError.
    # spec: client/elicitation/complete-manual-controls
    """

    def __init__(self, problem: ErrorResponse, elicitations: list[Json]) -> None:
        super().__init__(problem.code, problem.message, problem.data)
        self.args = problem.args  # not the text made of the three alone: it would lack the status and the URL
        self.__cause__ = problem
        self.elicitations = elicitations
        """The valid elicitations of the error, each with a `message`, a `url` and an `elicitationId`."""


def as_elicitation_needed(client: AnswersServers, problem: ErrorResponse) -> ErrorResponse:
    """An error -32042 of 2025-11-25 as UrlElicitationNeeded; any other error as it is."""
    if problem.code != UrlElicitationRequired.code or not client.negotiated.revision.url_errors:
        return problem
    found = problem.data.get("elicitations") if isinstance(problem.data, dict) else None
    valid = []
    for each in found[:MAX_QUESTIONS] if isinstance(found, list) else ():
        try:
            checker(ElicitRequestURLParams, client.negotiated.revision.date)(each)
            check_url(each["url"])
        except ValueError as fault:
            _log.warning("left out an invalid elicitation of an error -32042: %s", fault)
            continue
        client.callbacks.elicitations.expect(each["elicitationId"])
        valid.append(each)
    return UrlElicitationNeeded(problem, valid)


def visit(client: AnswersServers, problem: UrlElicitationNeeded, timeout: float) -> bool:
    """Ask the user to open the URLs, and wait until the server reports all as completed.

    False if the user declines, or the server does not report in time. Raises InputRefused if the client has
    no callback for URLs, or if it fails.
    """
    deadline = time.monotonic() + timeout
    for each in problem.elicitations:
        try:
            if client.fulfil("elicitation/create", each, None)["action"] != "accept":
                return False
        except ProtocolError as fault:
            raise InputRefused(f"the user cannot be asked to open the URL: {fault}") from fault
    names = [each["elicitationId"] for each in problem.elicitations]
    done = [client.callbacks.elicitations.wait(name, max(0.0, deadline - time.monotonic())) for name in names]
    return bool(done) and all(done)


class Completions:
    """The elicitations by URL that a client knows, and which of them are completed."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        # All guarded by _changed.
        self._known: dict[str, bool] = {}  # id -> whether it is completed
        # The completion may arrive before the caller has processed the -32042 that announces the id. So
        # completions of unknown ids are kept briefly; they count if the id becomes known.
        self._early: dict[str, None] = {}
        self._ended: ConnectionClosed | None = None

    def expect(self, elicitation_id: str) -> None:
        """Remember an id that a server has announced.  # spec: schema/elicitation-id-opaque"""
        with self._changed:
            self._expect(elicitation_id)

    def _expect(self, elicitation_id: str) -> None:
        """With _changed held."""
        if elicitation_id not in self._known:
            self._known[elicitation_id] = elicitation_id in self._early
            self._early.pop(elicitation_id, None)
            if len(self._known) > MAX_REMEMBERED:
                del self._known[next(iter(self._known))]

    def on_complete(self, params: Json) -> None:
        """Mark an elicitation as completed. Runs on the reader.

        # spec: client/elicitation/complete-unknown-ignored
        """
        name = params.get("elicitationId")
        if not isinstance(name, str):
            return
        with self._changed:
            if name in self._known:
                self._known[name] = True
                self._changed.notify_all()
            else:
                self._early[name] = None
                if len(self._early) > MAX_EARLY_COMPLETIONS:
                    del self._early[next(iter(self._early))]

    def wait(self, elicitation_id: str, timeout: float) -> bool:
        """Wait until an elicitation is completed; False after `timeout` seconds. Raises ConnectionClosed.

        # spec: client/elicitation/complete-auto-retry
        """
        with self._changed:
            self._expect(elicitation_id)
            self._changed.wait_for(lambda: self._known.get(elicitation_id) or self._ended, timeout)
            if self._known.get(elicitation_id):
                return True
            if self._ended is not None:
                raise self._ended
            return False

    def end(self, problem: ConnectionClosed) -> None:
        """End all waiting: the connection has closed, so that no completion can arrive."""
        with self._changed:
            self._ended = problem
            self._changed.notify_all()
