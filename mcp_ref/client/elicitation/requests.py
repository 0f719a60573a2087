"""Elicitation requests (page: client/elicitation).

A server asks the user of its client: with a form, or with a URL that the user opens in a browser, so that
what they enter there passes through neither client nor model.

    server -> client   elicitation/create {message, requestedSchema}          "form"
    server -> client   elicitation/create {mode: "url", message, url}         "url"
    client -> server   {action: "accept" | "decline" | "cancel", content?}

Server half   `Elicit`: the question of `ctx.elicit`; `Answer`: its result
Client half   `ElicitationRequest`: the argument of the application's callback; `answer` calls it

Revisions   2025-06-18  elicitation/create, asked by the server; a form of primitive fields
            2025-11-25  + URL mode, its completion notification and -32042; + defaults everywhere;
                        + selections with titles, + selections of several values
            2026-07-28  asked by way of basic/patterns/mrtr; - completion and -32042

Errors      -32603  the callback's content does not fit the form; the server checks again, and raises
                    InvalidResponse where the question was asked
            -32602  a mode that the client did not declare;   -32601  the client has no elicitation
            In 2026-07-28 no error is sent: the application's own call raises InputRefused
Threads     questions are made and answers read on the thread of the server's request; the callback runs
            on a thread of its own (api/callbacks).
Not here    the fields of a form (requested_schema, forms), the visit to a URL (url_mode), a callback for
            terminals (cli/terminal).
"""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Generic, Literal, Required, TypeAlias, TypedDict, TypeVar
from urllib.parse import SplitResult, urlsplit

from mcp_ref.basic.index.error_responses import InternalError, InvalidParams, MethodNotFound
from mcp_ref.basic.index.general_fields import RequestMeta
from mcp_ref.basic.index.messages import Json
from mcp_ref.basic.patterns.mrtr.basic_workflow import Question
from mcp_ref.basic.versioning import TABLE, Method
from mcp_ref.client.elicitation import forms
from mcp_ref.client.elicitation.requested_schema import RequestedSchema, RequestedSchemaNow
from mcp_ref.runtime.brief import brief
from mcp_ref.runtime.checks import check_text
from mcp_ref.runtime.errors import InvalidResponse, LocalError
from mcp_ref.runtime.logs import logger
from mcp_ref.runtime.typing.mismatch import must
from mcp_ref.runtime.typing.values import dump_any
from mcp_ref.schema import Mismatch, checker, pruner, since, until, was

if TYPE_CHECKING:
    from mcp_ref.basic.patterns.index.context import RequestContext
    from mcp_ref.basic.patterns.mrtr.basic_workflow import AnswersServers
    from mcp_ref.basic.utilities.tasks.data_types import TaskMetadata
    from mcp_ref.basic.versioning import Revision

__all__ = ["ACTIONS", "Answer", "Elicit", "ElicitationRequest"]

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
    url: Required[Annotated[str, {"format": "uri"}]]
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
MODES = ("form", "url")

# ----------------------------------------------------------------------- server half


def needs(params: Json, at: Revision) -> Json:
    """The capability that a client must have declared for such a request.

    # spec: client/elicitation/no-unsupported-mode
    """
    return {"elicitation": {str(params.get("mode", "form")): {}}}


T = TypeVar("T")


@dataclass(frozen=True)
class Answer(Generic[T]):
    """The user's answer: "accept", "decline" (they said no) or "cancel" (they left without an answer).

    It is true if and only if the user accepted: `if ctx.elicit("Really delete?"): ...`. `T` is the class of
    the form, or the type of its one field: `ctx.elicit("How many?", int)` returns an `Answer[int]`.
    # spec: client/elicitation/three-actions, client/elicitation/handle-actions
    # spec: client/elicitation/no-success-assumption
    """

    action: str
    content: Json | None = None
    """The values of the form, as the client sent them."""
    data: T | Any = None  # as for re.Match.group: `T | None` would need a check even after `accepted`
    """The values as an instance of the form's class, or the value of its one field. None unless accepted."""

    @property
    def accepted(self) -> bool:
        """Whether the user accepted."""
        return self.action == "accept"

    def __bool__(self) -> bool:
        return self.accepted


@dataclass(frozen=True)
class Elicit:
    """A question with a form: `Elicit("Which day?", Booking)`. Without a schema, the user only confirms.

    `schema` is a dataclass, a TypedDict, the type of one field (`int`, an Enum), or a schema as a dict.
    """

    message: str
    schema: Any = None

    def question(self, context: RequestContext) -> Question:
        """The elicitation/create request, and how its result is read.

        # spec: client/elicitation/create-request, client/elicitation/create-input-request
        """
        check_mode_exists(context, "form")
        check_text(message=self.message)
        form = forms.form_of(self.schema)
        # spec: client/elicitation/form-parameters, client/elicitation/common-parameters
        # spec: client/elicitation/message-and-schema, client/elicitation/mode-omitted
        schema = form.schema(context.revision)
        params: Json = {"mode": "form", "message": self.message, "requestedSchema": schema}

        def read(result: Json) -> Answer[Any]:
            action, received = action_and_content(result, context.revision)
            if action != "accept":
                return Answer(action)
            # Members that the form does not have are allowed: its schema does not forbid additional ones.
            known = schema["properties"]
            content = {name: value for name, value in (received or {}).items() if name in known}
            try:
                return Answer(action, content, form.load(content))
            except Mismatch as problem:  # spec: client/elicitation/server-validates-data
                # spec: client/elicitation/validate-both-sides
                raise InvalidResponse(f"the client's answer does not fit the form: {problem}") from None

        shaped = pruner(ElicitRequestFormParams, context.revision.date)(params)
        return Question("elicitation/create", shaped, needs(shaped, context.revision), read)


def check_mode_exists(context: RequestContext, mode: str) -> None:
    """Check that the client's revision has a mode of elicitation. Raises LocalError."""
    if mode not in context.revision.elicitation_modes:
        first = next(each for each in TABLE if mode in each.elicitation_modes)
        raise LocalError(f"elicitation by {mode} came with {first}; this client speaks {context.revision}")


def check_url(url: str) -> None:
    """Check that a URL is absolute, of https or http, in characters that a URL may have. Raises ValueError.

    `warnings_about` says what else makes a URL suspicious.

    # spec: client/elicitation/url-valid, client/elicitation/url-https
    """
    try:
        parts = urlsplit(url)
        host = parts.hostname
    except ValueError as problem:
        raise ValueError(f"{url!r:.200} is not a URL: {problem}") from None
    if parts.scheme not in ("https", "http") or not host or not url.isascii() or not url.isprintable():
        raise ValueError(f"{url!r:.200} is not a whole URL of https or http")
    if any(character in url for character in ' "<>\\^`{|}'):
        raise ValueError(f"{url!r:.200} has a character that is not allowed in a URL; percent-encode it")
    if parts.scheme == "http" and host not in ("localhost", "127.0.0.1", "::1"):
        _log.warning("a URL for users should be https: %.200r", url)


def _split_url(url: str) -> SplitResult:
    """The parts of a URL; all are empty if it cannot be split."""
    try:
        return urlsplit(url)
    except ValueError:
        return urlsplit("")


def host_of(url: str) -> str:
    """The host of a URL, to be shown to the user; empty if there is none.

    # spec: client/elicitation/url-highlight-domain
    """
    return _split_url(url).hostname or ""


def warnings_about(url: str) -> list[str]:
    """What makes a URL suspicious, for people.

    # spec: client/elicitation/url-suspicious-warning, client/elicitation/url-handled-carefully
    """
    parts = _split_url(url)
    host = parts.hostname or ""
    is_number = re.fullmatch(r"[0-9]+|0x[0-9a-f]*", host.rstrip(".").rpartition(".")[2])
    is_malformed = re.search(r"[^!-~]|[\\<>\"^`{|}]", url) or "%" in host
    findings = {
        "it is not https, so that others on the way can read and change the page": parts.scheme != "https",
        "it names no host": not host,
        "what stands before the @ is not the host": parts.netloc.rpartition("@")[0],
        "the name of the host has letters beyond ASCII, some of which look like others": not host.isascii(),
        "the name of the host is written in Punycode (xn--), and shows as something else": (
            any(label.startswith("xn--") for label in host.split("."))
        ),
        "the host is an IP address, not a name": ":" in host or is_number,
        "it has characters that no URL may have, and browsers disagree on what they mean": is_malformed,
    }
    return [warning for warning, holds in findings.items() if holds]


def check_result(result: Any, date: str) -> None:
    """Check the shape of an ElicitResult. Raises Mismatch.

    The values of `content` are left to the form: the official schema of ElicitResult allows no fractions,
    though the page does.
    """
    checker(ElicitResult, date, ("_meta", "content"))(result)
    if result["action"] != "accept" or result.get("content") is None:
        return  # some clients write a null
    if not isinstance(result.get("content", {}), dict):
        raise must("be an object", result["content"]).under("content")


def action_and_content(result: Json, at: Revision) -> tuple[str, Json | None]:
    """The action and the content of an ElicitResult. Raises InvalidResponse."""
    try:
        check_result(result, at.date)
    except Mismatch as problem:
        raise InvalidResponse(f"elicitation/create: {problem}") from None
    return result["action"], result.get("content")


# ----------------------------------------------------------------------- client half


def capability(modes: Sequence[str]) -> Json:
    """What a client with elicitation in these modes declares. Raises ValueError for no or unknown modes.

    # spec: client/elicitation/capability-at-initialize, client/elicitation/capability-per-request
    # spec: client/elicitation/at-least-one-mode
    """
    if not modes or not set(modes) <= set(MODES):
        raise ValueError(f"elicitation_modes are some of {', '.join(MODES)}, not {modes!r}")
    return {mode: {} for mode in modes}


class ElicitationRequest:
    """A server's question, as the application's callback receives it.

    The callback returns `accept(...)`, `decline()` or `cancel()`; or the values of the form, as a dict or an
    instance; or True to accept, False to decline, None to cancel.
    """

    def __init__(self, server: str, params: Json, over: threading.Event) -> None:
        # spec: client/elicitation/ui-identifies-server, client/elicitation/indicate-server
        # spec: client/elicitation/ui-identifies-server-should, client/elicitation/indicate-server-should
        self.server = server
        self.message: str = params["message"]  # spec: client/elicitation/clear-presentation
        # spec: client/elicitation/absent-mode-is-form
        self.mode: str = params.get("mode", "form")
        self.schema: Json = params.get("requestedSchema", {})
        # Whole, and as text: nothing in this package opens a URL, or fetches anything of it.
        # spec: client/elicitation/url-shown-in-full, client/elicitation/url-no-prefetch
        # spec: client/elicitation/url-no-open-without-consent, client/elicitation/url-opened-securely
        self.url: str | None = params.get("url")
        self.elicitation_id: str | None = params.get("elicitationId")
        self._over = over

    def __repr__(self) -> str:
        named = brief(list(self.schema.get("properties", {}))) if self.url is None else brief(self.url)
        about = "fields" if self.url is None else "URL"
        return f"<ElicitationRequest of {brief(self.server)}: {brief(self.message)}, {about} {named}>"

    @property
    def fields(self) -> Sequence[forms.FormField]:
        """The fields of the form, empty for a URL."""
        return forms.fields_of(self.schema) if self.mode == "form" else ()

    @property
    def host(self) -> str:
        """The host of the URL, to be shown to the user.  # spec: client/elicitation/url-domain-consent"""
        return host_of(self.url or "")

    @property
    def is_over(self) -> bool:
        """Whether the answer is no longer wanted: the request was cancelled, or its time is up."""
        return self._over.is_set()

    def accept(self, content: Any = None) -> Answer[Any]:
        """Yes, with the values of the form; a field that is left out takes its default."""
        return Answer("accept", content)

    def decline(self) -> Answer[Any]:
        """No.  # spec: client/elicitation/privacy-decline, client/elicitation/privacy-decline-should"""
        return Answer("decline")

    def cancel(self) -> Answer[Any]:
        """No answer: the user closed the dialogue."""
        return Answer("cancel")


def answer(client: AnswersServers, params: Json, context: RequestContext | None) -> Json:
    """Answer elicitation/create: check it, have the application's callback ask the user, make the result.

    Raises ProtocolError.
    """
    callbacks, at = client.callbacks, client.negotiated.revision
    if callbacks.elicitation is None or not at.elicitation_modes:
        raise MethodNotFound("elicitation/create: this client has no elicitation")
    mode = params.get("mode", "form")
    if mode not in callbacks.elicitation_modes or mode not in at.elicitation_modes:
        # spec: client/elicitation/undeclared-mode-32602
        raise InvalidParams(f"elicitation/create: this client did not declare the mode {mode!r:.40}")
    try:
        _check_params(params, mode, at)
    except ValueError as problem:
        raise InvalidParams(f"elicitation/create: {problem}") from None
    over = threading.Event()
    request = ElicitationRequest(client.negotiated.server_name, params, over)
    if request.elicitation_id is not None:
        callbacks.elicitations.expect(request.elicitation_id)
    # spec: client/elicitation/rate-limit
    returned = callbacks.run(callbacks.elicitation, request, context=context, over=over)
    return _result(request, _as_answer(request, returned))


def _check_params(params: Json, mode: str, at: Revision) -> None:
    """Check the shape of a request, and its URL or its form. Raises ValueError."""
    shape = ElicitRequestURLParams if mode == "url" else ElicitRequestFormParams
    checker(shape, at.date, ("_meta", "task"))(params)
    if mode == "url":
        check_url(params["url"])
    else:
        forms.fields_of(params["requestedSchema"])


def _as_answer(request: ElicitationRequest, returned: Any) -> Answer[Any]:
    """The value that a callback returned, as an Answer. Raises InternalError for a value without meaning."""
    if isinstance(returned, Answer):
        if returned.action not in ACTIONS:
            known = ", ".join(ACTIONS)
            raise InternalError(
                f"the client's callback answered {returned.action!r:.40}; the actions are {known}"
            )
        return returned
    if returned is None or isinstance(returned, bool):
        return {True: request.accept(), False: request.decline(), None: request.cancel()}[returned]
    if request.mode == "url":
        raise InternalError("the client's callback returned content for a URL: True would accept it")
    return request.accept(returned)


def _result(request: ElicitationRequest, answer: Answer[Any]) -> Json:
    """The ElicitResult of an answer: with content only for an accepted form, and only if it fits.

    # spec: client/elicitation/content-on-accept, client/elicitation/three-actions
    """
    if answer.action != "accept" or request.mode == "url":
        return {"action": answer.action}
    try:
        content = dump_any(answer.content) if answer.content is not None else {}
        if not isinstance(content, dict):
            raise Mismatch("must be an object")
        content = {name: value for name, value in content.items() if value is not None}  # fields left empty
        # spec: client/elicitation/client-validates-responses
        content = forms.with_defaults(request.schema, content)
        forms.check_content(request.schema, content)
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
