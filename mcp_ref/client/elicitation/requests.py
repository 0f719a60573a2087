"""Elicitation (page: client/elicitation).

A server asks the person behind the client: with a form, or by way of a URL that they open themselves, so
that what they do there passes neither client nor model.

    server -> client   elicitation/create {message, requestedSchema}          "form"
    server -> client   elicitation/create {mode: "url", message, url}         "url"
    client -> server   {action: "accept" | "decline" | "cancel", content?}

Server half   `Elicit`: what `ctx.elicit` asks; `Answer`: what it gets
Client half   `Asked`: what the application's callback gets; `answer`

Revisions   2025-06-18  elicitation/create, asked by the server; a form of primitive fields
            2025-11-25  + URL mode, its completion notification and -32042; + defaults everywhere;
                        + selections with titles, and of several
            2026-07-28  asked by way of basic/patterns/mrtr; - completion and -32042

Errors      content that does not fit the form: noticed by the client (-32603) and by the server
            (InvalidResponse, raised where the question was asked). A mode that was not declared: -32602.
Threads     questions are made and answers read on the request's worker; the callback runs on a thread
            of its own (api/callbacks).
Not here    what a form may hold (requested_schema, forms), what is done at a URL (url_mode), a callback for
            terminals (cli/terminal).
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, Required, TypeAlias, TypedDict
from urllib.parse import urlsplit

from mcp_ref.basic.index.error_responses import (
    InternalError,
    InvalidParams,
    MethodNotFound,
)
from mcp_ref.basic.index.general_fields import RequestMeta
from mcp_ref.basic.index.messages import Json
from mcp_ref.basic.patterns.mrtr.basic_workflow import Question
from mcp_ref.basic.versioning import Method
from mcp_ref.client.elicitation import forms
from mcp_ref.client.elicitation.requested_schema import RequestedSchema, RequestedSchemaNow
from mcp_ref.runtime.checks import check_text
from mcp_ref.runtime.errors import (
    InvalidResponse,
    LocalError,
)
from mcp_ref.runtime.logs import logger
from mcp_ref.runtime.typing.mismatch import must
from mcp_ref.runtime.typing.values import dump_any
from mcp_ref.schema import Bounds, Mismatch, checker, pruner, since, until, was

if TYPE_CHECKING:
    from mcp_ref.basic.patterns.index.context import RequestContext
    from mcp_ref.basic.utilities.tasks import TaskMetadata
    from mcp_ref.basic.versioning import Revision

__all__ = ["ACTIONS", "Answer", "Asked", "Elicit"]

_log = logger("mcp_ref.elicitation")

# ---------------------------------------------------------------------------- shapes


class ElicitRequestFormParams(TypedDict, total=False):
    _meta: Annotated[RequestMeta, since("2025-11-25"), until("2025-11-25")]
    task: Annotated[TaskMetadata, since("2025-11-25"), until("2025-11-25")]
    mode: Annotated[Literal["form"], since("2025-11-25")]
    message: Required[str]
    requestedSchema: Required[Annotated[RequestedSchemaNow, was(RequestedSchema, until="2025-06-18")]]


class ElicitRequestURLParams(TypedDict, total=False):
    _meta: Annotated[RequestMeta, since("2025-11-25"), until("2025-11-25")]
    task: Annotated[TaskMetadata, since("2025-11-25"), until("2025-11-25")]
    mode: Required[Literal["url"]]
    message: Required[str]
    url: Required[Annotated[str, Bounds(format="uri")]]
    elicitationId: Required[Annotated[str, until("2025-11-25")]]


ElicitRequestParams: TypeAlias = (
    ElicitRequestFormParams | Annotated[ElicitRequestURLParams, since("2025-11-25")]
)


class ElicitResult(TypedDict, total=False):
    _meta: Annotated[Json, until("2025-11-25")]
    action: Required[Literal["accept", "decline", "cancel"]]
    content: dict[str, str | int | bool | Annotated[list[str], since("2025-11-25")]]


DEFINITIONS: dict[str, Any] = {
    "ElicitRequestFormParams": Annotated[ElicitRequestFormParams, since("2025-11-25")],
    "ElicitRequestParams": Annotated[ElicitRequestParams, since("2025-11-25")],
    "ElicitRequestURLParams": Annotated[ElicitRequestURLParams, since("2025-11-25")],
}

ACTIONS = ("accept", "decline", "cancel")
FORMS_SINCE = "2025-06-18"
URLS_SINCE = "2025-11-25"

# ----------------------------------------------------------------------- server half


def needs(params: Json, at: Revision) -> Json:
    """The capability that a client declares in order to be asked this.

    # spec: client/elicitation/no-unsupported-mode
    """
    return {"elicitation": {str(params.get("mode", "form")): {}}}


@dataclass(frozen=True)
class Answer:
    """What became of a question: "accept", "decline" (they said no) or "cancel" (they said nothing).

    It is true if and only if it was accepted: `if ctx.elicit("Really delete?"): ...`.
    # spec: client/elicitation/three-actions, client/elicitation/handle-actions
    # spec: client/elicitation/no-success-assumption
    """

    action: str
    content: Json | None = None
    """What was filled in, as it came."""
    data: Any = None
    """The same as an instance of the form's class, if it has one."""

    @property
    def accepted(self) -> bool:
        """Whether the person said yes."""
        return self.action == "accept"

    def __bool__(self) -> bool:
        return self.accepted


@dataclass(frozen=True)
class Elicit:
    """A form: `Elicit("Which day?", Booking)`, a dataclass, a TypedDict, a schema, or nothing to fill in."""

    message: str
    schema: Any = None

    def question(self, context: RequestContext) -> Question:
        """# spec: client/elicitation/create-request, client/elicitation/create-input-request"""
        check_exists(context, "form")
        check_text(message=self.message)
        form = forms.form_of(self.schema)
        # spec: client/elicitation/form-parameters, client/elicitation/common-parameters
        # spec: client/elicitation/message-and-schema, client/elicitation/mode-omitted
        schema = form.schema(context.revision)
        params: Json = {"mode": "form", "message": self.message, "requestedSchema": schema}

        def read(result: Json) -> Answer:
            action, content = checked(result, context.revision)
            if action != "accept":
                return Answer(action)
            # What was not asked for is no fault: the schema does not close the object.
            given = (content or {}).items()
            content = {name: value for name, value in given if name in schema["properties"]}
            try:
                return Answer(action, content, form.load(content))
            except Mismatch as problem:  # spec: client/elicitation/server-validates-data
                # spec: client/elicitation/validate-both-sides
                raise InvalidResponse(f"the client's answer does not fit the form: {problem}") from None

        shaped = pruner(ElicitRequestFormParams, context.revision.date)(params)
        return Question("elicitation/create", shaped, needs(shaped, context.revision), read)


def check_exists(context: RequestContext, mode: str) -> None:
    first = URLS_SINCE if mode == "url" else FORMS_SINCE
    if not context.revision.reaches(first):
        raise LocalError(f"elicitation by {mode} came with {first}; this client speaks {context.revision}")


def check_url(url: str) -> None:
    """A whole web address. Raises ValueError.

    # spec: client/elicitation/url-valid, client/elicitation/url-https
    """
    try:
        parts = urlsplit(url)
        host = parts.hostname
    except ValueError as problem:
        raise ValueError(f"{url!r:.200} is not a URL: {problem}") from None
    if parts.scheme not in ("https", "http") or not host or not url.isascii() or not url.isprintable():
        raise ValueError(f"{url!r:.200} is not a whole https URL")
    if any(character in url for character in ' "<>\\^`{|}'):
        raise ValueError(f"{url!r:.200} holds a character that a URL cannot")
    if parts.scheme == "http" and host not in ("localhost", "127.0.0.1", "::1"):
        _log.warning("a URL for people should be https: %.200r", url)


def check_result(result: Any, date: str) -> None:
    """The shape of an answer. Raises Mismatch.

    What fits the form is the form's to say: the schema of ElicitResult has no fractions, its page has.
    """
    checker(ElicitResult, date, ("_meta", "content"))(result)
    if result["action"] != "accept" or result.get("content") is None:
        return  # some clients write a null
    if not isinstance(result.get("content", {}), dict):
        raise must("be an object", result["content"]).under("content")


def checked(result: Json, at: Revision) -> tuple[str, Json | None]:
    """Action and content of an ElicitResult. Raises InvalidResponse."""
    try:
        check_result(result, at.date)
    except Mismatch as problem:
        raise InvalidResponse(f"elicitation/create: {problem}") from None
    return result["action"], result.get("content")


# ----------------------------------------------------------------------- client half


class Asked:
    """What a server asks, as the application's callback gets it.

    It returns `accept(...)`, `decline()` or `cancel()`; or what was filled in, as a dict or an instance;
    True to accept, False to decline, None to cancel.
    """

    def __init__(self, server: str, params: Json, over: threading.Event) -> None:
        self.server = server  # spec: client/elicitation/ui-identifies-server
        self.message: str = params["message"]
        # spec: client/elicitation/absent-mode-is-form
        self.mode: str = params.get("mode", "form")
        self.schema: Json = params.get("requestedSchema", {})
        self.url: str | None = params.get("url")
        self.elicitation_id: str | None = params.get("elicitationId")
        self._over = over

    @property
    def fields(self) -> Sequence[forms.FormField]:
        """What is to be filled in."""
        return forms.fields_of(self.schema) if self.mode == "form" else ()

    @property
    def host(self) -> str:
        """Where the URL leads."""
        return urlsplit(self.url or "").hostname or ""

    @property
    def is_over(self) -> bool:
        """Whether nobody wants the answer any more."""
        return self._over.is_set()

    def accept(self, content: Any = None) -> Answer:
        """Yes, and what was filled in; what is left out takes its default."""
        return Answer("accept", content)

    def decline(self) -> Answer:
        """No."""
        return Answer("decline")

    def cancel(self) -> Answer:
        """Neither yes nor no."""
        return Answer("cancel")


def answer(client: Any, params: Json, context: RequestContext | None) -> Json:
    """Ask the application, and make a result of what it says. Raises ProtocolError."""
    callbacks, at = client.callbacks, client.revision
    if callbacks.elicitation is None or not at.reaches(FORMS_SINCE):
        raise MethodNotFound("elicitation/create: this client has no elicitation")
    mode = params.get("mode", "form")
    if mode not in callbacks.elicitation_modes or (mode == "url" and not at.reaches(URLS_SINCE)):
        # spec: client/elicitation/undeclared-mode-32602
        raise InvalidParams(f"elicitation/create: this client did not declare the mode {mode!r:.40}")
    shape = ElicitRequestURLParams if mode == "url" else ElicitRequestFormParams
    try:
        checker(shape, at.date, ("_meta", "task"))(params)
        if mode == "url":
            check_url(params["url"])
        else:
            forms.fields_of(params["requestedSchema"])
    except ValueError as problem:
        raise InvalidParams(f"elicitation/create: {problem}") from None
    over = threading.Event()
    asked = Asked(client.server_name, params, over)
    if asked.elicitation_id is not None:
        client.elicitations.expect(asked.elicitation_id)
    said = callbacks.run(callbacks.elicitation, asked, context=context, over=over)
    return _result(asked, _understood(asked, said))


def _understood(asked: Asked, said: Any) -> Answer:
    """What a callback returned, as an Answer."""
    if isinstance(said, Answer):
        if said.action not in ACTIONS:
            raise InternalError(f"the client's callback answered {said.action!r:.40}, which is no action")
        return said
    if said is None or isinstance(said, bool):
        return {True: asked.accept(), False: asked.decline(), None: asked.cancel()}[said]
    if asked.mode == "url":
        raise InternalError("the client's callback returned content for a URL: True would accept it")
    return asked.accept(said)


def _result(asked: Asked, said: Answer) -> Json:
    """# spec: client/elicitation/content-on-accept, client/elicitation/three-actions"""
    if said.action != "accept" or asked.mode == "url":
        return {"action": said.action}
    try:
        content = dump_any(said.content) if said.content is not None else {}
        if not isinstance(content, dict):
            raise Mismatch("must be an object")
        content = {name: value for name, value in content.items() if value is not None}  # left empty
        # spec: client/elicitation/client-validates-responses
        content = forms.with_defaults(asked.schema, content)
        forms.check_content(asked.schema, content)
    except Mismatch as problem:
        _log.error("the callback's answer does not fit the form: %s", problem)
        raise InternalError(f"the client's answer does not fit the form: {problem}") from None
    return {"action": "accept", "content": content}


METHODS = (
    Method(
        "elicitation/create",
        answer,
        since="2025-06-18",
        params=ElicitRequestParams,
        result=ElicitResult,
        sender="server",
    ),
)
