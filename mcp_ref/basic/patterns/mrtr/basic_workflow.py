"""Multi round-trip requests (page: basic/patterns/mrtr): one blocking ask, in either era.

A server that needs something from the client before it can answer says so in its result; the client
sends the request again, with what was asked for:

    client -> server   tools/call                                             id 1
    server -> client   {resultType: "input_required", inputRequests?, requestState?}
    client -> server   tools/call, + inputResponses and the same requestState     id 2
    server -> client   {resultType: "complete", ...}, or asks again

An author writes the same in both eras, `answer = ctx.elicit("Sure?", Confirm)`:

    legacy   the question travels as a request of the server's own, and the thread waits
    modern   `ask` unwinds the handler (InputRequired); with the retry it runs again from its top, and
             each question that was answered gets its answer at once, in order, until it ends

What was answered so far travels in requestState, signed and bound to method, params and principal
(runtime/seals), so that any process that knows the secret can serve the retry. A question that is not the
same again, or stands elsewhere, is asked anew and never gets the answer of another. `ctx.once` keeps
what must not be done twice.

A handler may also return an input_required result of its own making; then `ctx.input_responses` and
`ctx.request_state` (signed on its way as well) are what the retry brings: in the modern era only.

Server half   `ask`, `once`, `resume`, `question`, `finish_handler_made`; what runs again is in
basic/patterns/mrtr/replay
Client half   `gather`, `retry`; the loop around them is `Client.request`, or whoever uses `Client.resume`

Revisions   2026-07-28, on tools/call, prompts/get and resources/read; `ask` in all.
Errors      state or responses that are not what they should be: -32602. What the client did not declare
            is not asked: -32021, and a LocalError in the legacy era.
Threads     `ask`: the request's worker, or one that its handler made. `gather`: whoever waits for a result.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, NoReturn, Required, TypeAlias, TypedDict

from mcp_ref.basic.index.error_responses import (
    InternalError,
    InvalidParams,
    ProtocolError,
)
from mcp_ref.basic.index.general_fields import RequestMeta, ResultMeta
from mcp_ref.basic.index.messages import Json
from mcp_ref.basic.patterns.mrtr.replay import (
    MAX_QUESTIONS,
    Exchange,
    InputRequired,
    Question,
    canonical,
)
from mcp_ref.basic.versioning import LATEST, Era, missing_capabilities, require_capability
from mcp_ref.runtime.checks import check_text
from mcp_ref.runtime.errors import ConnectionClosed, InvalidResponse, LocalError
from mcp_ref.runtime.seals import BadSeal
from mcp_ref.runtime.threads.deadlines import FOR_PEOPLE
from mcp_ref.runtime.typing.mismatch import message_of
from mcp_ref.schema import Mismatch, checker, since

if TYPE_CHECKING:
    from mcp_ref.basic.patterns.index.context import RequestContext, ServerRole
    from mcp_ref.basic.versioning import Revision

    # What servers ask and clients answer: mcp_ref/schema makes both of the rows on the pages in `client`.
    InputRequest = Json
    InputResponse = Json

__all__ = ["InputRefused", "InputRequests", "InputRequired", "InputResponses", "Question", "ask", "once"]

MAX_ROUNDS = 30
"""That a client answers by itself, and a server for its author in the legacy era."""

ASKING = ("tools/call", "prompts/get", "resources/read")
"""What may be answered with a question.

# spec: basic/patterns/mrtr/supported-requests, basic/patterns/mrtr/unsupported-requests
"""

# ---------------------------------------------------------------------------- shapes

InputRequests: TypeAlias = dict[str, "InputRequest"]
InputResponses: TypeAlias = dict[str, "InputResponse"]


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
    "InputRequests": Annotated[InputRequests, since("2026-07-28")],
    "InputRequiredResult": Annotated[InputRequiredResult, since("2026-07-28")],
    "InputResponseRequestParams": Annotated[InputResponseRequestParams, since("2026-07-28")],
    "InputResponses": Annotated[InputResponses, since("2026-07-28")],
}

# ------------------------------------------------------------------------------- what may be asked


class InputRequestType(NamedTuple):
    """A request that a server may ask of its client: a row of the page that defines it.

    # spec: basic/patterns/mrtr/input-request-types
    """

    method: str
    needs: Callable[[Json, Revision], Json]
    """The capability that a client declares in order to be asked this, by its params and revision."""
    question: Callable[[Json, RequestContext], Question]
    """The question that these params ask. Raises ValueError or TypeError for what cannot be asked so."""
    check_result: Callable[[Any, str], object]
    """Raises Mismatch for a result that this date's shape does not allow."""
    answer: Callable[[Any, Json, RequestContext | None], Json]
    """The client's half: its result, from the callback of the application. Raises ProtocolError."""


# ----------------------------------------------------------------------- server half: asking


def ask(context: RequestContext, questions: Sequence[Question], timeout: float | None = None) -> list[Any]:
    """The answers to some questions, asked all at once.

    # spec: basic/patterns/mrtr/use-mrtr, basic/patterns/mrtr/server-may-respond
    """
    server_of(context)
    if context.is_over:
        context.check_cancelled()
        raise LocalError(f"{context.method} was answered: nothing can be asked for it any more")
    if not questions:
        return []
    return WAYS[context.revision.era](context, questions, timeout)


def server_of(context: RequestContext) -> ServerRole:
    """The server that answers a request. Raises LocalError where it is a client that does."""
    if context.server is None:
        raise LocalError("only a server asks its client")
    return context.server


def check_declared(context: RequestContext, method: str, needs: Json) -> None:
    """What the client did not declare is never asked.

    # spec: basic/patterns/mrtr/no-undeclared-input-request, basic/lifecycle/negotiated-capabilities-only
    """
    if context.revision.modern:
        require_capability(context, needs)
    declared = context.client_capabilities
    for name, parts in missing_capabilities(needs, declared).items():
        lacking = ".".join([name, *parts]) if name in declared else name
        raise LocalError(f"{method}: the client did not declare the capability {lacking}")


def check_may_request(
    context: RequestContext, method: str, params: Json | None, timeout: float | None
) -> float | None:
    """Raises LocalError if a server may not send this request now; else how long to wait for its answer."""
    if context.revision.modern:
        raise LocalError(f"in {context.revision} a server sends no requests, so not {method} either")
    # spec: basic/lifecycle/no-requests-before-initialized
    if method != "ping" and context.session is not None and not context.session.is_ready:
        raise LocalError(f"{method}: the client did not send notifications/initialized yet; ask it later")
    kind = context.server.input_requests.get(method) if context.server is not None else None
    if kind is not None:
        check_declared(context, method, kind.needs(params or {}, context.revision))
    if not context.outbox.two_way:
        raise LocalError(
            f"{method}: a client cannot be asked here while its request runs: responses are JSON "
            "only (answers='json'), or the HTTP server has one thread"
        )
    context.check_cancelled()
    if timeout is None and method.startswith(("sampling/", "elicitation/")):
        return FOR_PEOPLE  # somebody is to read this, and to think
    return timeout


def request_all(
    context: RequestContext, several: Sequence[tuple[str, Json]], timeout: float | None
) -> list[Json]:
    """The results of several requests that are sent at once; all have the time that the slowest may take."""
    if not several:
        return []
    limits = [check_may_request(context, method, params, timeout) for method, params in several]
    longest = max((seconds for seconds in limits if seconds is not None), default=None)
    try:
        return context.connection.request_all(several, timeout=longest, on_behalf_of=context)
    except ConnectionClosed as problem:
        raise context.given_up(problem) from problem


def _by_request(context: RequestContext, questions: Sequence[Question], timeout: float | None) -> list[Any]:
    """Legacy: each question is a request of ours, and this thread waits. What lacks is message_of there."""
    results = request_all(context, [(q.method, q.params) for q in questions], timeout)
    return [question.read(result) for question, result in zip(questions, results, strict=True)]


def _by_round(context: RequestContext, questions: Sequence[Question], timeout: float | None) -> list[Any]:
    """Modern: the answers that the client sent along, or the end of this round."""
    if not context.asks:  # spec: basic/patterns/mrtr/unsupported-requests
        raise LocalError(f"{context.method}: only {', '.join(ASKING)} may ask the client")
    needs: Json = {}
    for question in questions:
        for name, parts in question.needs.items():
            needs[name] = {**needs.get(name, {}), **parts}
    require_capability(context, needs)  # all that lacks is message_of at once
    return exchange_of(context).ask(questions)


def ask_again(context: RequestContext, questions: Sequence[Question]) -> NoReturn:
    """Ask once more what was answered last: the answers were not enough. Raises InputRequired.

    # spec: basic/patterns/mrtr/repeat-input-required
    """
    exchange_of(context).ask_again(questions)


WAYS = {Era.LEGACY: _by_request, Era.MODERN: _by_round}
"""How a question gets to the client."""


def once(context: RequestContext, name: str, run: Callable[[], Any]) -> Any:
    """What `run` returns, as JSON; it runs the first time only, also where the handler is replayed."""
    check_text(name=name)
    return exchange_of(context).once(name, run)


def exchange_of(context: RequestContext) -> Exchange:
    """What was asked in this request."""
    if context.exchange is None:
        context.exchange = Exchange(context.method)
    return context.exchange


# ------------------------------------------------------------------ server half: the rounds


def resume(context: RequestContext) -> None:
    """A retry came in: check its state, and have its answers ready. Raises InvalidParams.

    # spec: basic/patterns/mrtr/request-state-untrusted, basic/patterns/mrtr/request-state-reject-tampered
    # spec: basic/patterns/mrtr/malformed-is-error, basic/patterns/mrtr/retry-self-contained
    """
    text, responses = context.params.get("requestState"), context.params.get("inputResponses", {})
    if type(responses) is not dict:
        raise InvalidParams(f"{context.method}: inputResponses: must be an object")
    state = None
    if text is not None:
        try:
            state = server_of(context).seal.verify(text, _binding(context))
        except BadSeal as problem:
            raise InvalidParams(f"{context.method}: requestState is refused: {problem}") from None
    exchange = context.exchange = Exchange(context.method, state)
    exchange.responses = responses
    exchange.hear(responses, lambda key, method, response: check_response(key, method, response, context))


def question(context: RequestContext) -> Json:
    """The InputRequiredResult that asks what is pending.

    # spec: basic/index/result-type-input-required
    # spec: basic/patterns/mrtr/at-least-one-field, basic/patterns/mrtr/input-requests-optional
    # spec: basic/patterns/mrtr/request-state-optional, basic/patterns/mrtr/no-retry-assumption
    """
    exchange = exchange_of(context)
    return {
        "resultType": "input_required",
        "inputRequests": exchange.pending,
        "requestState": _sealed(context, exchange.state()),
    }


def _binding(context: RequestContext) -> bytes:
    """What a requestState belongs to.

    # spec: basic/patterns/mrtr/request-state-principal, basic/patterns/mrtr/request-state-request-digest
    """
    ours = ("_meta", "inputResponses", "requestState")
    params = {name: value for name, value in context.params.items() if name not in ours}
    return canonical([context.principal, context.method, params])


def _sealed(context: RequestContext, state: Json) -> str:
    """# spec: basic/patterns/mrtr/request-state-integrity, basic/patterns/mrtr/request-state-expiry"""
    try:
        text: str = server_of(context).seal.sign(state, _binding(context))
    except ValueError as problem:
        raise InternalError(f"{context.method}: what was answered so far cannot travel: {problem}") from None
    return text


def check_response(key: str, method: str, response: Any, context: RequestContext) -> None:
    """The shape of one answer; its contents are the asker's to check. Raises InvalidParams.

    # spec: basic/patterns/mrtr/validate-input-responses
    """
    try:
        server_of(context).input_requests[method].check_result(response, context.revision.date)
    except Mismatch as problem:
        raise InvalidParams(f"inputResponses.{key:.80}: {problem}") from None


def is_question(result: Any) -> bool:
    """Whether this is an input_required result."""
    return isinstance(result, dict) and result.get("resultType") == "input_required"


# ------------------------------------------------ server half: results of a handler's own making


def finish_handler_made(context: RequestContext, result: Json) -> Json:
    """An input_required result that a handler made itself, checked and with its state signed.

    Raises InternalError for one that breaks a rule of the pages of its questions. There is no such result
    before 2026-07-28: `ctx.elicit` and the others ask in every revision.
    """
    if not context.revision.modern:
        raise InternalError(
            f"{context.method}: a result cannot ask in {context.revision}; "
            "ask with ctx.elicit, ctx.sample or ctx.ask"
        )
    questions = _questions_of(context, result)
    exchange = exchange_of(context)
    exchange.own = result.get("requestState")
    asked = {key: {"method": each.method, "params": each.params} for key, each in questions.items()}
    found = {**result, "inputRequests": asked} if "inputRequests" in result else dict(result)
    state = exchange.state()
    return {**found, "requestState": _sealed(context, state)} if state else found


def _questions_of(context: RequestContext, result: Json) -> dict[str, Question]:
    """The questions of a handler's own result, each as the page of its method makes it."""
    if result.get("inputRequests") is None and result.get("requestState") is None:
        raise InternalError(f"{context.method}: input_required without inputRequests or requestState")
    kinds = server_of(context).input_requests
    try:
        checker(InputRequiredResult, LATEST.date)(result)
        asked = result.get("inputRequests", {})
        questions = {
            key: kinds[each["method"]].question(each.get("params", {}), context)
            for key, each in asked.items()
        }
        for question in questions.values():
            check_declared(context, question.method, question.needs)
    except (ValueError, TypeError, LocalError) as problem:
        raise InternalError(
            f"{context.method}: the handler's input_required result: {message_of(problem)}"
        ) from None
    return questions


def responses(context: RequestContext) -> Json:
    """What a retry brought for the questions of a handler's own. Raises InvalidParams.

    Which they were, only the handler knows: each is to be an answer to something that may be asked.
    """
    found = context.exchange.responses if context.exchange is not None else {}
    kinds = server_of(context).input_requests.values() if found else ()
    for key, response in found.items():
        if not any(_is_result(kind, response, context) for kind in kinds):
            raise InvalidParams(f"inputResponses.{key:.80}: answers nothing that may be asked")
    return found


def _is_result(kind: InputRequestType, response: Any, context: RequestContext) -> bool:
    try:
        kind.check_result(response, context.revision.date)
    except Mismatch:
        return False
    return True


# --------------------------------------------------------------------------- client half


class InputRefused(LocalError):
    """What the server asked for cannot be had: the request was not sent again."""


def check_question(at: Revision, method: str, result: Json) -> None:
    """Whether an input_required result is one, in answer to this. Raises InvalidResponse.

    # spec: basic/patterns/mrtr/unsupported-requests
    """
    if not at.modern or method not in ASKING:
        raise InvalidResponse(f"{method}: the server asks for input, which it must not do here")
    asked, state = result.get("inputRequests", {}), result.get("requestState", "")
    if not isinstance(asked, dict) or not ("inputRequests" in result or "requestState" in result):
        raise InvalidResponse(f"{method}: input_required without inputRequests or requestState")
    if not isinstance(state, str):
        raise InvalidResponse(f"{method}: input_required with a requestState that is no string")


def gather(client: Any, method: str, result: Json) -> Json:
    """The answers to all questions of a result, from this client's callbacks.

    Raises InputRefused: there is no message in which a modern client could refuse.
    # spec: basic/patterns/mrtr/client-constructs-inputs, basic/patterns/mrtr/input-response-keys-match
    # spec: schema/input-responses-all-keys, schema/input-results-bare
    """
    check_question(client.revision, method, result)
    responses: Json = {}
    asked = result.get("inputRequests", {})
    if len(asked) > MAX_QUESTIONS:
        raise InvalidResponse(f"{method}: {len(asked)} questions at once; {MAX_QUESTIONS} are the most")
    for key, request in asked.items():  # all of them, before anybody is asked anything
        _check_request(f"{method}: inputRequests.{key:.80}", request, client.input_requests)
    for key, request in asked.items():
        try:
            responses[key] = client.fulfil(request["method"], request.get("params", {}), None)
        except ProtocolError as problem:
            said = f"{method}: the server asked for {request['method']}: {problem}"
            raise InputRefused(said) from problem
    return responses


def _check_request(place: str, request: Any, known: Container[str]) -> None:
    """Raises InvalidResponse for what is nothing that may be asked."""
    method = request.get("method") if isinstance(request, dict) else None
    if not isinstance(method, str) or method not in known or not isinstance(request.get("params", {}), dict):
        raise InvalidResponse(f"{place} is nothing that may be asked")


def retry(params: Json, result: Json, responses: Json) -> Json:
    """The params of the next round: the same request, with what was asked for.

    # spec: basic/patterns/mrtr/client-echoes-state, basic/patterns/mrtr/client-no-invented-state
    # spec: basic/patterns/mrtr/request-state-opaque, basic/patterns/mrtr/inputs-not-for-other-requests
    # spec: basic/patterns/mrtr/retry-is-original-request
    """
    again = {name: value for name, value in params.items() if name not in ("inputResponses", "requestState")}
    if responses or "inputRequests" in result:
        again["inputResponses"] = responses
    if "requestState" in result:
        again["requestState"] = result["requestState"]
    return again
