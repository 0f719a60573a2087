"""Elicitation by URL (page: client/elicitation, "URL Mode Elicitation Requests").

For what neither client nor model should see: the person is asked to open a URL, and what they do there
is between them and that site. "accept" is their consent, not its completion.

    server -> client   elicitation/create {mode: "url", message, url}   -> {action: "accept"}
    server -> client   notifications/elicitation/complete {elicitationId}        when it is done
    server -> client   error -32042 {elicitations: [...]}      instead of a result: go there first, then
                                                               ask again

Server half   `ElicitUrl`: what `ctx.elicit_url` asks; `UrlElicitationRequired`, `complete`
Client half   `Completions`: what a client knows of them; `UrlElicitationNeeded`, `visit`

Revisions   2025-11-25  all of this
            2026-07-28  the question only, by way of basic/patterns/mrtr; - completion and -32042

Threads     questions are made on the request's worker; `complete` runs on any thread of the server's,
            `on_complete` on the client's reader, `wait` on whichever thread likes to.
"""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, Required, TypedDict

from mcp_ref.basic.index.error_responses import (
    ErrorResponse,
    InternalError,
    ProtocolError,
)
from mcp_ref.basic.index.messages import Json, RequestId
from mcp_ref.basic.patterns.mrtr.basic_workflow import (
    InputRefused,
    Question,
    ask,
    ask_again,
    check_declared,
    server_of,
)
from mcp_ref.basic.patterns.mrtr.replay import MAX_QUESTIONS
from mcp_ref.basic.versioning import Notification
from mcp_ref.client.elicitation.requests import (
    URLS_SINCE,
    Answer,
    Elicit,
    ElicitRequestURLParams,
    check_exists,
    check_url,
    checked,
    needs,
)
from mcp_ref.runtime.checks import check_text, check_text_if_any
from mcp_ref.runtime.errors import (
    ConnectionClosed,
    LocalError,
)
from mcp_ref.runtime.logs import logger
from mcp_ref.runtime.threads import forks
from mcp_ref.schema import checker, pruner, since, until

if TYPE_CHECKING:
    from mcp_ref.basic.patterns.index.connection import Connection
    from mcp_ref.basic.patterns.index.context import RequestContext

__all__ = [
    "Completions",
    "ElicitUrl",
    "UrlElicitationNeeded",
    "UrlElicitationRequired",
    "complete",
    "visit",
]

_log = logger("mcp_ref.elicitation")

MAX_REMEMBERED = 10_000
"""Elicitations that either side remembers; the oldest are forgotten first."""
MAX_EARLY = 100
"""Completions that a client keeps of elicitations which it does not know of, or not yet."""

_remembering = threading.Lock()


def _forked() -> None:
    """In a forked child: another thread may have held the lock."""
    global _remembering
    _remembering = threading.Lock()


forks.on_fork(_forked)

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
    """A URL that the person is asked to open, for what no client or model should see."""

    message: str
    url: str
    elicitation_id: str | None = None

    def question(self, context: RequestContext) -> Question:
        """# spec: client/elicitation/url-parameters, client/elicitation/url-parameters-with-id"""
        check_exists(context, "url")
        params = self.params()
        remember(context, params["elicitationId"])

        def read(result: Json) -> Answer:  # spec: client/elicitation/url-accept-is-consent
            return Answer(checked(result, context.revision)[0])

        shaped = pruner(ElicitRequestURLParams, context.revision.date)(params)
        return Question("elicitation/create", shaped, needs(shaped, context.revision), read)

    def params(self) -> Json:
        """As the revision with the most has them."""
        check_text(message=self.message, url=self.url)
        check_text_if_any(elicitation_id=self.elicitation_id)
        check_url(self.url)
        name = self.elicitation_id or os.urandom(16).hex()
        return {"mode": "url", "message": self.message, "url": self.url, "elicitationId": name}


class UrlElicitationRequired(ProtocolError):
    """Raise it in a handler that cannot go on before a person has been somewhere: -32042 in 2025-11-25.

    In 2026-07-28 the same is asked by way of basic/patterns/mrtr; older revisions have no such thing.
    # spec: client/elicitation/url-required-error, client/elicitation/url-required-only-then
    """

    code = -32042

    def __init__(
        self, *elicitations: ElicitUrl, message: str = "This request needs a visit to a URL first"
    ) -> None:
        if not elicitations:
            raise ValueError("name at least one ElicitUrl")
        # spec: client/elicitation/url-required-list, client/elicitation/url-required-mode
        super().__init__(message, data={"elicitations": [each.params() for each in elicitations]})
        self.elicitations = elicitations


def required(context: RequestContext, problem: UrlElicitationRequired) -> None:
    """Have it done in the way of the revision: never returns. Raises InputRequired or a ProtocolError.

    # spec: client/elicitation/server-errors, client/elicitation/handle-decline
    """
    try:
        check_exists(context, "url")
        check_declared(context, "elicitation/create", needs({"mode": "url"}, context.revision))
        if context.revision.modern:  # spec: basic/index/no-emit-32042
            answers = ask(context, [each.question(context) for each in problem.elicitations])
            if not all(each.accepted for each in answers):
                raise InternalError("the person did not agree to open the URL")
            # Consent is not completion: the handler looked again, and it is not done yet.
            # spec: client/elicitation/retry-final-or-input-required
            ask_again(context, [each.question(context) for each in problem.elicitations])
        for each in problem.data["elicitations"]:
            remember(context, each["elicitationId"])
    except (LocalError, ValueError) as told:
        raise InternalError(str(told)) from None
    raise problem


def question_of(params: Json, context: RequestContext) -> Question:
    """The question that the params of elicitation/create ask, in either mode."""
    if params.get("mode") == "url":
        return ElicitUrl(params["message"], params["url"], params.get("elicitationId")).question(context)
    return Elicit(params["message"], params["requestedSchema"]).question(context)


def remember(context: RequestContext, elicitation_id: str) -> None:
    """Whom to tell when it is done.  # spec: client/elicitation/complete-to-initiator-only"""
    if not context.revision.modern:
        asked = server_of(context).elicitations
        with _remembering:
            # spec: schema/elicitation-id-unique
            if asked.get(elicitation_id, context.connection) is not context.connection:
                raise ValueError(f"the elicitation id {elicitation_id!r:.60} is another client's")
            asked.pop(elicitation_id, None)  # else it would stay the oldest
            asked[elicitation_id] = context.connection
            if len(asked) > MAX_REMEMBERED:
                del asked[next(iter(asked))]


def forget(server: Any, connection: Connection) -> None:
    """A client is gone: nobody is left to be told."""
    with _remembering:
        for name in [name for name, asked in server.elicitations.items() if asked is connection]:
            del server.elicitations[name]


def complete(server: Any, elicitation_id: str) -> bool:
    """The person is done at the URL: tell the client that asked. False if there is none to be told.

    # spec: client/elicitation/complete-notification, client/elicitation/complete-includes-id
    """
    check_text(elicitation_id=elicitation_id)
    with _remembering:
        connection = server.elicitations.pop(elicitation_id, None)
    if connection is None:
        return False
    try:
        connection.notify("notifications/elicitation/complete", {"elicitationId": elicitation_id}, wait=1.0)
    except ConnectionClosed:
        return False
    return True


# ----------------------------------------------------------------------- client half


class UrlElicitationNeeded(ErrorResponse):
    """A server's -32042: the person is to go somewhere first. `Client.visit` asks them to.

    # spec: client/elicitation/complete-manual-controls
    """

    def __init__(self, problem: ErrorResponse, elicitations: list[Json]) -> None:
        super().__init__(problem.code, problem.message, problem.data)
        self.elicitations = elicitations
        """Where to, each with a `message`, a `url` and an `elicitationId`; those that make sense."""


def explained(client: Any, problem: ErrorResponse) -> ErrorResponse:
    """An error of the server's, as the one that it is."""
    if problem.code != UrlElicitationRequired.code or client.revision.date != URLS_SINCE:
        return problem
    found = problem.data.get("elicitations") if isinstance(problem.data, dict) else None
    good = []
    for each in found[:MAX_QUESTIONS] if isinstance(found, list) else ():
        try:
            checker(ElicitRequestURLParams, URLS_SINCE)(each)
            check_url(each["url"])
        except ValueError as fault:
            _log.warning("left out an elicitation that is none: %s", fault)
            continue
        client.elicitations.expect(each["elicitationId"])
        good.append(each)
    return UrlElicitationNeeded(problem, good)


def visit(client: Any, problem: UrlElicitationNeeded, timeout: float) -> bool:
    """Ask the person to go there, and wait until the server says that they did. False if not in time.

    Raises InputRefused if nobody can be asked.
    """
    deadline = time.monotonic() + timeout
    for each in problem.elicitations:
        try:
            if client.fulfil("elicitation/create", each, None)["action"] != "accept":
                return False
        except ProtocolError as fault:
            raise InputRefused(f"nobody can be asked to open the URL: {fault}") from fault
    names = [each["elicitationId"] for each in problem.elicitations]
    done = [client.elicitations.wait(name, max(0.0, deadline - time.monotonic())) for name in names]
    return bool(done) and all(done)


class Completions:
    """Which elicitations by URL this client knows of, and which of them are done."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        # All guarded by _changed.
        self._known: dict[str, bool] = {}  # id -> done
        # A server's error -32042 is read by its caller a moment after the reader went on, to what may
        # be the completion. So an unknown one counts for nothing, unless it becomes known soon.
        self._early: dict[str, None] = {}
        self._ended: ConnectionClosed | None = None

    def expect(self, elicitation_id: str) -> None:
        """One that a server asked for.  # spec: schema/elicitation-id-opaque"""
        with self._changed:
            self._expect(elicitation_id)

    def _expect(self, elicitation_id: str) -> None:
        """Holds _changed."""
        if elicitation_id not in self._known:
            self._known[elicitation_id] = elicitation_id in self._early
            self._early.pop(elicitation_id, None)
            if len(self._known) > MAX_REMEMBERED:
                del self._known[next(iter(self._known))]

    def on_complete(self, params: Json) -> None:
        """A server says that one is done. Runs on the reader.

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
                if len(self._early) > MAX_EARLY:
                    del self._early[next(iter(self._early))]

    def wait(self, elicitation_id: str, timeout: float) -> bool:
        """Until it is done; False if that does not come in time. An error -32042 names those to wait for.

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
        """The server is gone, and will say nothing more."""
        with self._changed:
            self._ended = problem
            self._changed.notify_all()
