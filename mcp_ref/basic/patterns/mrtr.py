"""Multi round-trip requests (page: basic/patterns/mrtr): one blocking ask, in either era.

A server that needs something from the client before it can answer says so in its result; the client
sends the request again, with what was asked for:

    client -> server   tools/call                                             id 1
    server -> client   {resultType: "input_required", inputRequests?, requestState?}
    client -> server   tools/call, + inputResponses and the same requestState     id 2
    server -> client   {resultType: "complete", ...}, or asks again

Until 2025-11-25 the server sends the question as a request of its own, and waits. An author writes the
same in both eras, `answer = ctx.elicit("Sure?", Confirm)`:

    legacy   the question travels, the thread waits
    modern   `ask` unwinds the handler (InputRequired); with the retry it runs again from its top, and
             each question that was answered gets its answer at once, in order, until it ends

What was answered so far travels in requestState, signed and bound to method, params and principal
(runtime/seals), so that any process that knows the secret can serve the retry. A question that is not the
same again, or stands elsewhere, is asked anew and never gets the answer of another. `ctx.once` keeps
what must not be done twice.

A handler may also return an input_required result of its own making; then `ctx.input_responses` and
`ctx.request_state` (signed on its way as well) are what the retry brings.

Server half   `ask`, `once`, `resume`, `question`, `own`; how a handler gets to where it was is in
              basic/patterns/replay
Client half   `gather`, `retry`

Revisions   2026-07-28, on tools/call, prompts/get and resources/read; `ask` in all.
Errors      state or responses that are not what they should be: -32602. What the client did not declare
            is not asked: -32021, and a LocalError in the legacy era.
Threads     `ask` runs on the request's worker, or a thread that its handler made. `gather` runs on the
            thread that waits for the result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Required, TypeAlias, TypedDict, Union

from mcp_ref.basic.errors import InternalError, InvalidParams, InvalidResponse, LocalError, ProtocolError
from mcp_ref.basic.messages import Json
from mcp_ref.basic.meta import RequestMeta, ResultMeta
from mcp_ref.basic.patterns.replay import KINDS, Exchange, InputRequired, Question, canonical
from mcp_ref.basic.versioning import LATEST, Era, missing_capabilities, require_capability
from mcp_ref.runtime.seals import Broken
from mcp_ref.schema import Mismatch, checker, since

if TYPE_CHECKING:
    from mcp_ref.basic.context import Context

__all__ = ["InputRequests", "InputRequired", "InputResponses", "Question", "ask", "once"]

MAX_ROUNDS = 10
"""That a client answers by itself, and a server for its author in the legacy era."""

# ---------------------------------------------------------------------------- shapes

# By name: these pages build their questions with this module.
InputRequest: TypeAlias = Union["CreateMessageRequest", "ListRootsRequest", "ElicitRequest"]  # type: ignore[name-defined] # noqa: F821
InputResponse: TypeAlias = Union["CreateMessageResult", "ListRootsResult", "ElicitResult"]  # type: ignore[name-defined] # noqa: F821
InputRequests: TypeAlias = dict[str, InputRequest]
InputResponses: TypeAlias = dict[str, InputResponse]


class InputResponseRequestParams(TypedDict, total=False):
    _meta: Required[RequestMeta]
    inputResponses: InputResponses
    requestState: str


class InputRequiredResult(TypedDict, total=False):
    _meta: ResultMeta
    resultType: Required[str]
    inputRequests: InputRequests
    requestState: str


DEFINITIONS: dict[str, Any] = {
    "InputRequest": Annotated[InputRequest, since("2026-07-28")],
    "InputRequests": Annotated[InputRequests, since("2026-07-28")],
    "InputRequiredResult": Annotated[InputRequiredResult, since("2026-07-28")],
    "InputResponse": Annotated[InputResponse, since("2026-07-28")],
    "InputResponseRequestParams": Annotated[InputResponseRequestParams, since("2026-07-28")],
    "InputResponses": Annotated[InputResponses, since("2026-07-28")],
}

# ----------------------------------------------------------------------- server half: asking


def ask(context: Context, questions: Sequence[Question], timeout: float | None = None) -> list[Any]:
    """The answers to some questions, asked all at once.

    # spec: basic/patterns/mrtr/use-mrtr, basic/patterns/mrtr/server-may-respond
    """
    if context.server is None:
        raise LocalError("only a server asks its client")
    for question in questions:
        check_declared(context, question.method, question.needs)
    if not questions:
        return []
    return WAYS[context.revision.era](context, questions, timeout)


def check_declared(context: Context, method: str, needs: Json) -> None:
    """What the client did not declare is never asked.

    # spec: basic/patterns/mrtr/no-undeclared-input-request, basic/lifecycle/negotiated-capabilities-only
    """
    if context.revision.modern:
        require_capability(context, needs)
    elif missing_capabilities(needs, context.client_capabilities):
        lacking = ", ".join(missing_capabilities(needs, context.client_capabilities))
        raise LocalError(f"{method}: the client did not declare the capability {lacking}")


def _by_request(context: Context, questions: Sequence[Question], timeout: float | None) -> list[Any]:
    """Legacy: each question is a request of ours, and this thread waits."""
    results = context.requests([(q.method, q.params) for q in questions], timeout=timeout)
    return [question.read(result) for question, result in zip(questions, results, strict=True)]


def _by_round(context: Context, questions: Sequence[Question], timeout: float | None) -> list[Any]:
    """Modern: the answers that the client sent along, or the end of this round."""
    if not context.asks:  # spec: basic/patterns/mrtr/unsupported-requests
        raise LocalError(f"{context.method}: only tools/call, prompts/get and resources/read may ask")
    return exchange_of(context).ask(questions)


WAYS = {Era.LEGACY: _by_request, Era.MODERN: _by_round}
"""How a question gets to the client."""


def once(context: Context, name: str, run: Callable[[], Any]) -> Any:
    """What `run` returns, as JSON; it runs the first time only, also where the handler is replayed."""
    return exchange_of(context).once(name, run)


def exchange_of(context: Context) -> Exchange:
    """What was asked in this request."""
    if context.exchange is None:
        context.exchange = Exchange(context.method)
    return context.exchange


# ------------------------------------------------------------------ server half: the rounds


def resume(context: Context) -> None:
    """A retry came in: check its state, and have its answers ready. Raises InvalidParams.

    # spec: basic/patterns/mrtr/request-state-untrusted, basic/patterns/mrtr/request-state-reject-tampered
    # spec: basic/patterns/mrtr/malformed-is-error
    """
    text, responses = context.params.get("requestState"), context.params.get("inputResponses", {})
    if type(responses) is not dict:
        raise InvalidParams(f"{context.method}: inputResponses: must be an object")
    state = None
    if text is not None:
        try:
            state = context.server.seal.open(text, _binding(context))
        except Broken as problem:
            raise InvalidParams(f"{context.method}: requestState is refused: {problem}") from None
    exchange = context.exchange = Exchange(context.method, state)
    exchange.hear(responses, lambda key, method, response: check_response(key, method, response, context))


def question(context: Context) -> Json:
    """The InputRequiredResult that asks what is pending.

    # spec: basic/patterns/mrtr/at-least-one-field, basic/patterns/mrtr/input-requests-optional
    # spec: basic/patterns/mrtr/request-state-optional, basic/patterns/mrtr/no-retry-assumption
    """
    exchange = exchange_of(context)
    return {
        "resultType": "input_required",
        "inputRequests": exchange.pending,
        "requestState": _sealed(context, exchange.state()),
    }


def _binding(context: Context) -> bytes:
    """What a requestState belongs to.

    # spec: basic/patterns/mrtr/request-state-principal, basic/patterns/mrtr/request-state-request-digest
    """
    ours = ("_meta", "inputResponses", "requestState")
    params = {name: value for name, value in context.params.items() if name not in ours}
    return canonical([context.principal, context.method, params])


def _sealed(context: Context, state: Json) -> str:
    """# spec: basic/patterns/mrtr/request-state-integrity, basic/patterns/mrtr/request-state-expiry"""
    try:
        text: str = context.server.seal.close(state, _binding(context))
    except ValueError as problem:
        raise InternalError(f"{context.method}: what was answered so far cannot travel: {problem}") from None
    return text


def check_response(key: str, method: str, response: Any, context: Context) -> None:
    """The shape of one answer; its contents are the asker's to check."""
    try:
        checker(_result_shape(method), context.revision.date)(response)
    except Mismatch as problem:
        raise InvalidParams(f"inputResponses.{key}: {problem}") from None


def _result_shape(method: str) -> Any:
    from mcp_ref.client.elicitation import ElicitResult
    from mcp_ref.client.roots import ListRootsResult
    from mcp_ref.client.sampling import CreateMessageResult

    shapes = {
        "elicitation/create": ElicitResult,
        "sampling/createMessage": CreateMessageResult,
        "roots/list": ListRootsResult,
    }
    return shapes[method]


def is_question(result: Any) -> bool:
    """Whether this is an input_required result."""
    return isinstance(result, dict) and result.get("resultType") == "input_required"


# ------------------------------------------------ server half: results of a handler's own making


def own(context: Context, result: Json, run: Callable[[Json], Any]) -> Any:
    """An input_required result that a handler made itself, checked and with its state signed.

    In the legacy era its questions travel as requests, and `run` runs the handler again with the answers.
    """
    for _ in range(MAX_ROUNDS):
        _check_own(context, result)
        if context.revision.modern:
            state = result.get("requestState")
            return result if state is None else {**result, "requestState": _sealed(context, {"own": state})}
        result = run(_answered(context, result))
        if not is_question(result):
            return result
    raise InternalError(f"{context.method}: the handler asked {MAX_ROUNDS} times, and again")


def _check_own(context: Context, result: Json) -> None:
    """Raises InternalError for a result that breaks the rules of its page."""
    requests = result.get("inputRequests")
    if requests is None and result.get("requestState") is None:
        raise InternalError(f"{context.method}: input_required without inputRequests or requestState")
    try:
        checker(InputRequiredResult, LATEST.date)(result)
    except Mismatch as problem:
        raise InternalError(f"{context.method}: the handler's input_required result: {problem}") from None
    for request in (requests or {}).values():
        check_declared(context, request["method"], _needs(request))


def _needs(request: Json) -> Json:
    """The capability that a question asks for."""
    params = request.get("params") or {}
    if request["method"] == "sampling/createMessage":
        return {"sampling": {"tools": {}} if "tools" in params or "toolChoice" in params else {}}
    if request["method"] == "roots/list":
        return {"roots": {}}
    return {"elicitation": {"url": {}} if params.get("mode") == "url" else {"form": {}}}


def _answered(context: Context, result: Json) -> Json:
    """Legacy: have the questions answered; the params to run the handler again with."""
    requests = result.get("inputRequests") or {}
    results = context.requests([(r["method"], r.get("params", {})) for r in requests.values()])
    exchange_of(context).own = result.get("requestState")
    context.params = {**context.params, "inputResponses": dict(zip(requests, results, strict=True))}
    return context.params


# --------------------------------------------------------------------------- client half


class InputRefused(LocalError):
    """What the server asked for cannot be had: the request was not sent again."""


def gather(client: Any, method: str, result: Json) -> Json:
    """The answers to all questions of a result, from this client's callbacks.

    Raises InputRefused: there is no message in which a modern client could refuse.
    # spec: basic/patterns/mrtr/client-constructs-inputs, basic/patterns/mrtr/input-response-keys-match
    """
    asked = result.get("inputRequests", {})
    if not isinstance(asked, dict) or not ("inputRequests" in result or "requestState" in result):
        raise InvalidResponse(f"{method}: input_required without inputRequests or requestState")
    responses = {}
    for key, request in asked.items():
        kind = request.get("method") if isinstance(request, dict) else None
        params = request.get("params", {}) if isinstance(request, dict) else None
        if kind not in KINDS or not isinstance(params, dict):
            raise InvalidResponse(f"{method}: inputRequests.{key:.80} is nothing that may be asked")
        try:
            responses[key] = client.fulfil(kind, params, None)
        except ProtocolError as problem:
            raise InputRefused(f"{method}: the server asked for {kind}: {problem}") from problem
    return responses


def retry(params: Json, result: Json, responses: Json) -> Json:
    """The params of the next round: the same request, with what was asked for.

    # spec: basic/patterns/mrtr/client-echoes-state, basic/patterns/mrtr/client-no-invented-state
    # spec: basic/patterns/mrtr/request-state-opaque, basic/patterns/mrtr/inputs-not-for-other-requests
    """
    again = {name: value for name, value in params.items() if name not in ("inputResponses", "requestState")}
    if responses or "inputRequests" in result:
        again["inputResponses"] = responses
    if "requestState" in result:
        again["requestState"] = result["requestState"]
    return again
