"""Multi round-trip requests (page: basic/patterns/mrtr): how a handler asks the client, in either era.

A server that needs something from the client before it can answer says so in its result. The client then
sends the request again, with what the server asked for:

    client -> server   tools/call                                             id 1
    server -> client   {resultType: "input_required", inputRequests?, requestState?}
    client -> server   tools/call, + inputResponses and the same requestState     id 2
    server -> client   {resultType: "complete", ...}, or asks again

An author writes the same code for both eras, `answer = ctx.elicit("Sure?", Confirm)`:

    legacy   the server sends the question as a request of its own, and the thread of the handler waits
    modern   `ask` unwinds the handler (InputRequired). When the retry arrives the handler runs again from its
             top; each question that has an answer by then gets it at once, in order, until the handler
             returns or asks a question without an answer

The answers so far travel in requestState, signed and bound to method, params and principal (runtime/seals),
so that any process that knows the secret can serve the retry. Answers are matched by position and question:
if the handler asks something else than before, that question and all after it are asked again. Since the
handler runs more than once, `ctx.once` runs a function only the first time, and stores its value.

A handler may also return an input_required result that it made itself, in the modern era only. Then the
retry brings `ctx.input_responses` and `ctx.request_state`; requestState is signed on the wire here too.

Server half   `ask`, `once`, `resume`, `input_required_result`, `finish_handler_made`; how a handler runs
              again is in basic/patterns/mrtr/replay
Client half   `Rounds`, for a thread that waits and for a future; or the application, by `Client.resume`

Revisions   2026-07-28: in handlers of tools/call, prompts/get and resources/read. `ask` works in every
            revision.
Errors      a requestState that was tampered with, or an answer of the wrong shape: -32602. A capability that
            the client did not declare: -32021, and a LocalError in the legacy era.
Threads     `ask`: the request's worker, or a thread that its handler made. `gather`: the thread that waits
            for the result; for a future, a worker.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Container, Mapping, Sequence
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    NamedTuple,
    NoReturn,
    Protocol,
    Required,
    TypeAlias,
    TypedDict,
)

from mcp_ref.basic.index.error_responses import ErrorResponse, InternalError, InvalidParams, ProtocolError
from mcp_ref.basic.index.general_fields import RequestMeta, ResultMeta
from mcp_ref.basic.index.messages import INPUT_REQUIRED, Json
from mcp_ref.basic.lifecycle import KnowsServer
from mcp_ref.basic.patterns.index.context import given_up
from mcp_ref.basic.patterns.mrtr.replay import MAX_QUESTIONS, Exchange, InputRequired, Question, canonical
from mcp_ref.basic.versioning import LATEST, missing_capabilities, require_capability
from mcp_ref.runtime.checks import check_text
from mcp_ref.runtime.errors import ConnectionClosed, InvalidResponse, LocalError, McpError
from mcp_ref.runtime.seals import BadSeal
from mcp_ref.runtime.threads.deadlines import FOR_PEOPLE
from mcp_ref.runtime.typing.mismatch import message_of, must
from mcp_ref.schema import Mismatch, checker, since

if TYPE_CHECKING:
    import threading

    from mcp_ref.basic.patterns.index.context import RequestContext, ServerRole
    from mcp_ref.basic.utilities.tasks.behavior_requirements import TaskRun
    from mcp_ref.basic.versioning import Revision
    from mcp_ref.client.elicitation.url_mode import Completions

    # Requests of servers and results of clients: mcp_ref/schema makes both from the rows of `client`.
    InputRequest = Json
    InputResponse = Json

__all__ = ["InputRefused", "InputRequests", "InputRequired", "InputResponses", "Question", "ask", "once"]

MAX_ROUNDS = 30
"""The default for rounds of one request: how often a client answers before it raises InputRefused."""

METHODS_THAT_ASK = ("tools/call", "prompts/get", "resources/read")
"""Methods whose result may be input_required.

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

# ------------------------------------------------------------------------- requests for input


class ApplicationPart(Protocol):
    """The callbacks that an application gave its client, to answer servers with (api/callbacks)."""

    elicitation: Callable[[Any], Any] | None
    elicitation_modes: tuple[str, ...]
    elicitations: Completions
    sampling: Callable[[Any], Any] | None
    sampling_review: Callable[[Any, Any], Any] | None
    roots: Any

    def run(
        self,
        function: Callable[..., Any],
        *arguments: Any,
        context: RequestContext | None = None,
        over: threading.Event | None = None,
    ) -> Any:
        """Run a callback within its time limit, and return its result. Raises InternalError."""


class AnswersServers(KnowsServer, Protocol):
    """What the pages that answer a server's requests need of the client."""

    @property
    def callbacks(self) -> ApplicationPart:
        """The application's callbacks."""

    @property
    def input_requests(self) -> Mapping[str, InputRequestType]:
        """The requests that the client can answer: method -> row."""

    def fulfil(self, method: str, params: Json, context: RequestContext | None) -> Json:
        """The result of a server's request. Without a `context`, it was part of an input_required result."""


class InputRequestType(NamedTuple):
    """A kind of request that a server may send to its client: a row of the page that defines it.

    # spec: basic/patterns/mrtr/input-request-types
    """

    method: str
    needs: Callable[[Json, Revision], Json]
    """Params and revision -> the capability that the client must have declared."""
    question: Callable[[Json, RequestContext], Question]
    """Params -> the question that they ask. Raises ValueError or TypeError for params that are not valid."""
    check_result: Callable[[Any, str], object]
    """Checks a result by the shape of a revision (its date). Raises Mismatch."""
    answer: Callable[[AnswersServers, Json, RequestContext | None], Json]
    """The client's half: params -> result, from the application's callback. Raises ProtocolError."""


# ----------------------------------------------------------------------- server half: asking


Send: TypeAlias = Callable[["RequestContext", Sequence[tuple[str, Json]], float | None], list[Json]]
"""Sends requests (method, params) to the client at once, and returns their results. The float: seconds."""


def ask(
    context: RequestContext,
    questions: Sequence[Question],
    timeout: float | None = None,
    send: Send | None = None,
) -> list[Any]:
    """Ask several questions at once, and return their answers.

    In the modern era this raises InputRequired unless all answers are there. In the legacy era, `send` sends
    the questions if they are not to be ordinary requests (basic/utilities/tasks).

    # spec: basic/patterns/mrtr/use-mrtr, basic/patterns/mrtr/server-may-respond
    """
    server_of(context)
    if context.connection.is_inherited:
        raise LocalError("a forked process has no part in the connection: ask in the process that serves it")
    if context.is_over:
        context.check_cancelled()
        raise LocalError(f"{context.method} was answered already: ask the client before the handler returns")
    if not questions:
        return []
    if context.handling.task is not None:
        return _ask_in_task(context, context.handling.task, questions, timeout)
    return ASK[context.revision.asks](context, questions, timeout, send)


def _ask_in_task(
    context: RequestContext, task: TaskRun, questions: Sequence[Question], timeout: float | None
) -> list[Any]:
    """In either era: put the questions into the task, and wait for the answers (basic/utilities/tasks)."""
    exchange = context.handling.exchange
    answers = None if exchange is None else exchange.replayed(questions)
    if answers is not None:
        return answers
    for question in questions:
        check_declared(context, question.method, question.needs)
    return task.ask(questions, timeout)


def server_of(context: RequestContext) -> ServerRole:
    """The server that answers a request. Raises LocalError if a client answers it."""
    if context.handling.server is None:
        raise LocalError("only the handlers of a server can ask; this request is answered by a client")
    return context.handling.server


def check_declared(context: RequestContext, method: str, needs: Json) -> None:
    """Raise if the client did not declare the capabilities that a request to it needs.

    In the modern era MissingRequiredClientCapability, in the legacy era LocalError.

    # spec: basic/patterns/mrtr/no-undeclared-input-request
    """
    if context.revision.asks == "in results":
        require_capability(context, needs)
    declared = context.client_capabilities
    for name, parts in missing_capabilities(needs, declared).items():
        lacking = ".".join([name, *parts]) if name in declared else name
        raise LocalError(f"{method}: the client did not declare the capability {lacking}")


def check_may_request(
    context: RequestContext, method: str, params: Json | None, timeout: float | None
) -> float | None:
    """Check that the server may send this request now, and return the seconds to wait for its answer.

    None: the connection's default. Raises LocalError, RequestCancelled.
    """
    if context.revision.asks == "in results":
        raise LocalError(f"{method}: in {context.revision} a server sends no requests")
    if method != "ping" and context.session is not None and not context.session.is_ready:
        raise LocalError(f"{method}: the client did not send notifications/initialized yet; ask it later")
    check_needs(context, method, params or {})
    if context.handling.task is None and not context.arrival.outbox.two_way:
        raise LocalError(
            f"{method}: a client cannot be asked here while its request runs: responses are JSON "
            "only (answers='json'), or the HTTP server has one thread"
        )
    context.check_cancelled()
    if timeout is None and method.startswith(("sampling/", "elicitation/")):
        return FOR_PEOPLE  # a person has to read this, and to think
    return timeout


def check_needs(context: RequestContext, method: str, params: Json) -> None:
    """Raise LocalError if the client did not declare the capability that the page of this method demands."""
    kind = context.handling.server.input_requests.get(method) if context.handling.server is not None else None
    if kind is not None:
        check_declared(context, method, kind.needs(params, context.revision))


def request_all(
    context: RequestContext,
    several: Sequence[tuple[str, Json]],
    timeout: float | None,
    send: Send | None = None,
) -> list[Json]:
    """Legacy: send several requests at once, and return their results. All get the longest time-out."""
    if not several:
        return []
    limits = [check_may_request(context, method, params, timeout) for method, params in several]
    longest = max((seconds for seconds in limits if seconds is not None), default=None)
    if context.handling.task is not None:
        asked = [Question(method, params, {}, lambda result: result) for method, params in several]
        return context.handling.task.ask(asked, longest)
    try:
        if send is not None:
            return send(context, several, longest)
        return context.connection.request_all(several, timeout=longest, on_behalf_of=context)
    except ConnectionClosed as problem:
        raise given_up(context, problem) from problem


def _ask_by_request(
    context: RequestContext, questions: Sequence[Question], timeout: float | None, send: Send | None
) -> list[Any]:
    """Legacy: send each question as a request, and wait on this thread."""
    results = request_all(context, [(q.method, q.params) for q in questions], timeout, send)
    return [question.read(result) for question, result in zip(questions, results, strict=True)]


def _ask_in_round(
    context: RequestContext, questions: Sequence[Question], timeout: float | None, send: Send | None
) -> list[Any]:
    """Modern: return the answers that the retry brought, or end this round with InputRequired."""
    if not context.handling.asks:  # spec: basic/patterns/mrtr/unsupported-requests
        raise LocalError(f"{context.method}: only {', '.join(METHODS_THAT_ASK)} may ask the client")
    needs: Json = {}
    for question in questions:
        for name, parts in question.needs.items():
            needs[name] = {**needs.get(name, {}), **parts}
    require_capability(context, needs)  # all questions together: one error names all missing capabilities
    return exchange_of(context).ask(questions)


def ask_again(context: RequestContext, questions: Sequence[Question]) -> NoReturn:
    """Ask the last questions once more, because their answers were not enough. Raises InputRequired.

    # spec: basic/patterns/mrtr/repeat-input-required
    """
    exchange_of(context).ask_again(questions)


ASK = {"in requests": _ask_by_request, "in results": _ask_in_round}
"""How questions get to the client, by `Revision.asks`."""


def once(context: RequestContext, name: str, run: Callable[[], Any]) -> Any:
    """The JSON value of `run()`, which is called only once, however often the handler is replayed."""
    check_text(name=name)
    return exchange_of(context).once(name, run)


def exchange_of(context: RequestContext) -> Exchange:
    """The questions and answers of this request; an empty Exchange at first."""
    if context.handling.exchange is None:
        context.handling.exchange = Exchange(context.method)
    return context.handling.exchange


# ------------------------------------------------------------------ server half: the rounds


RETRY_FIELDS = frozenset({"inputResponses", "requestState"})
"""The params that only a retry has."""


def resume(context: RequestContext) -> None:
    """Verify the requestState of a retry, and take its answers. Raises InvalidParams.

    # spec: basic/patterns/mrtr/request-state-untrusted, basic/patterns/mrtr/request-state-reject-tampered
    # spec: basic/patterns/mrtr/malformed-is-error, basic/patterns/mrtr/retry-self-contained
    """
    text, responses = context.params.get("requestState"), context.params.get("inputResponses", {})
    if type(responses) is not dict:
        raise InvalidParams(f"{context.method}: inputResponses: {must('be an object', responses)}")
    state = None
    if text is not None:
        try:
            state = server_of(context).seal.verify(text, _binding(context))
        except BadSeal as problem:
            raise InvalidParams(f"{context.method}: requestState is refused: {problem}") from None
    exchange = context.handling.exchange = Exchange(context.method, state)
    exchange.responses = responses
    exchange.take_responses(
        responses, lambda key, method, response: check_response(key, method, response, context)
    )


def handler_made_questions(context: RequestContext, result: Json) -> dict[str, Question] | None:
    """In a task: the questions of an input_required result, if the handler made it itself.

    None if the handler was unwound by `ask` instead: those questions are in `Exchange.pending`.
    """
    if exchange_of(context).pending:
        return None
    return {
        key: Question(each["method"], each["params"], {}, dict)
        for key, each in result.get("inputRequests", {}).items()
    }


def resume_in_task(context: RequestContext, responses: Json) -> None:
    """Begin the next round in a task. Its state is not sent to the client, so it needs no signature.

    `responses` are the answers to an input_required result that the handler made itself.
    """
    exchange = Exchange(context.method, exchange_of(context).state())
    exchange.responses = responses
    context.handling.exchange = exchange


def input_required_result(context: RequestContext) -> Json:
    """The InputRequiredResult after a handler was unwound: its pending questions, and the state.

    # spec: basic/patterns/mrtr/at-least-one-field, basic/patterns/mrtr/input-requests-optional
    # spec: basic/patterns/mrtr/request-state-optional, basic/patterns/mrtr/no-retry-assumption
    """
    exchange = exchange_of(context)
    return {
        "resultType": INPUT_REQUIRED,
        "inputRequests": exchange.pending,
        "requestState": _seal(context, exchange.state()),
    }


def _binding(context: RequestContext) -> bytes:
    """The principal, method and params that a requestState is bound to, as bytes.

    # spec: basic/patterns/mrtr/request-state-principal, basic/patterns/mrtr/request-state-request-digest
    """
    ours = ("_meta", "inputResponses", "requestState")
    params = {name: value for name, value in context.params.items() if name not in ours}
    return canonical([context.principal, context.method, params])


def _seal(context: RequestContext, state: Json) -> str:
    """The requestState that carries a state: signed, bound to the request, and with an expiry.

    # spec: basic/patterns/mrtr/request-state-integrity, basic/patterns/mrtr/request-state-expiry
    """
    try:
        text: str = server_of(context).seal.sign(state, _binding(context))
    except ValueError as problem:
        raise InternalError(
            f"{context.method}: the answers so far do not fit requestState: {problem}"
        ) from None
    return text


def check_response(key: str, method: str, response: Any, context: RequestContext) -> None:
    """Check the shape of one answer; `Question.read` checks its contents. Raises InvalidParams.

    # spec: basic/patterns/mrtr/validate-input-responses
    """
    try:
        server_of(context).input_requests[method].check_result(response, context.revision.date)
    except Mismatch as problem:
        raise InvalidParams(f"inputResponses.{key:.80}: {problem}") from None


def is_input_required(result: Any) -> bool:
    """Whether this is an input_required result."""
    return isinstance(result, dict) and result.get("resultType") == "input_required"


# -------------------------------------------------- server half: results that a handler made


def finish_handler_made(context: RequestContext, result: Json) -> Json:
    """Check an input_required result that a handler made itself, and sign its state.

    Raises InternalError if the result breaks a rule, also one of the pages of its questions; and before
    2026-07-28, which has no such result (`ctx.elicit` and its like ask in every revision).
    """
    if context.revision.asks == "in requests":
        raise InternalError(
            f"{context.method}: a result cannot ask in {context.revision}; "
            "ask with ctx.elicit, ctx.sample or ctx.ask"
        )
    questions = _questions_of(context, result)
    exchange = exchange_of(context)
    exchange.handler_state = result.get("requestState")
    finished = dict(result)
    if "inputRequests" in result:
        finished["inputRequests"] = {
            key: {"method": each.method, "params": each.params} for key, each in questions.items()
        }
    state = exchange.state()
    if state:
        finished["requestState"] = _seal(context, state)
    return finished


def _questions_of(context: RequestContext, result: Json) -> dict[str, Question]:
    """The questions of a result that a handler made, each built by the page of its method."""
    if result.get("inputRequests") is None and result.get("requestState") is None:
        raise InternalError(f"{context.method}: input_required without inputRequests or requestState")
    kinds = server_of(context).input_requests
    try:
        checker(InputRequiredResult, LATEST.date)(result)
        questions = {
            key: kinds[each["method"]].question(each.get("params", {}), context)
            for key, each in result.get("inputRequests", {}).items()
        }
        for question in questions.values():
            check_declared(context, question.method, question.needs)
    except (ValueError, TypeError, LocalError) as problem:
        raise InternalError(
            f"{context.method}: the handler's input_required result: {message_of(problem)}"
        ) from None
    return questions


def responses(context: RequestContext) -> Json:
    """The answers that a retry brought to a result that the handler made. Raises InvalidParams.

    Only the handler knows which question each answer belongs to, so each answer is only checked to be a valid
    result of some kind of request for input.
    """
    answers = context.handling.exchange.responses if context.handling.exchange is not None else {}
    kinds = server_of(context).input_requests.values() if answers else ()
    for key, response in answers.items():
        if not any(_is_result(kind, response, context) for kind in kinds):
            raise InvalidParams(f"inputResponses.{key:.80}: is no result of a request for input")
    return answers


def _is_result(kind: InputRequestType, response: Any, context: RequestContext) -> bool:
    """Whether this is a valid result of a request of this kind."""
    try:
        kind.check_result(response, context.revision.date)
    except Mismatch:
        return False
    return True


# --------------------------------------------------------------------------- client half


class InputRefused(LocalError):
    """The client cannot or will not give what the server asked for, and so did not send the request again."""


def check_question(at: Revision, method: str, result: Json) -> None:
    """Check that a server may answer this method with this input_required result. Raises InvalidResponse.

    # spec: basic/patterns/mrtr/unsupported-requests
    """
    if at.asks == "in requests" or method not in METHODS_THAT_ASK:
        raise InvalidResponse(f"{method}: the server asks for input, which it must not do here")
    requests, state = result.get("inputRequests", {}), result.get("requestState", "")
    if not isinstance(requests, dict) or not ("inputRequests" in result or "requestState" in result):
        raise InvalidResponse(f"{method}: input_required without inputRequests or requestState")
    if not isinstance(state, str):
        raise InvalidResponse(f"{method}: input_required with a requestState that is no string")


class Corrects(Protocol):
    """A client that can correct a request which a server refused for its version, headers or capabilities."""

    @property
    def max_rounds(self) -> int:
        """How often one request is sent again with answers, unless its caller says otherwise."""

    @property
    def answering(self) -> AnswersServers:
        """The part of the client that answers its server."""

    def can_correct(self, method: str, problem: ErrorResponse) -> bool:
        """Whether a request was refused before it began, and may succeed if it is sent in another way."""

    def correct(self, params: Json, problem: ErrorResponse, timeout: float | None) -> None:
        """Find out what the version, the headers or the capabilities should be, for the next try."""


class Rounds:
    """The rounds of one request on the client: decides, after each outcome, whether to send it again.

    For a thread that waits, and for a future: `next` decides without blocking; the function that it returns
    may take long.

    # spec: basic/patterns/mrtr/retry-new-id, basic/patterns/mrtr/client-immediate-retry
    """

    def __init__(
        self, client: Corrects, method: str, params: Json, *, most: int | None, timeout: float | None
    ) -> None:
        """After `most` rounds with answers, an input_required result is the outcome. None: after `max_rounds`
        it is an error, InputRefused.
        """
        self.params = params
        """The params to send in the next round."""
        self._client, self._method, self._timeout = client, method, timeout
        self._most = most
        self._left = client.max_rounds if most is None else most
        self._was_corrected = False  # in this round
        self.has_begun = False
        """Whether the server has asked something, and so has begun to handle the request."""

    def next(self, outcome: Json | McpError) -> Callable[[], None] | None:
        """A function that prepares `params` for the next round; None if the outcome is final.

        Raises InputRefused.
        """
        if isinstance(outcome, ErrorResponse):
            if self._was_corrected or not self._client.can_correct(self._method, outcome):
                return None
            self._was_corrected = True
            return functools.partial(self._client.correct, self.params, outcome, self._timeout)
        asks = self._client.answering.negotiated.revision.asks
        if not is_input_required(outcome) or isinstance(outcome, McpError) or asks == "in requests":
            return None
        if self._left > 0:
            self._left -= 1
            self._was_corrected, self.has_begun = False, True
            return functools.partial(self._answer, outcome)
        if self._most is None:
            times = self._client.max_rounds + 1
            raise InputRefused(f"{self._method}: the server asked {times} times, and no end")
        return None

    def _answer(self, result: Json) -> None:
        """Answer the questions of an input_required result."""
        self.params = retry(self.params, result, gather(self._client.answering, self._method, result))


def gather(client: AnswersServers, method: str, result: Json) -> Json:
    """The answers to all questions of an input_required result, from this client's callbacks.

    Raises InvalidResponse; and InputRefused, since a modern client has no message with which it could refuse.
    # spec: basic/patterns/mrtr/client-constructs-inputs, basic/patterns/mrtr/input-response-keys-match
    # spec: schema/input-responses-all-keys, schema/input-results-bare
    """
    check_question(client.negotiated.revision, method, result)
    responses: Json = {}
    requests = result.get("inputRequests", {})
    check_requests(client, method, requests)
    for key, request in requests.items():
        responses[key] = fulfilled(client, method, request)
    return responses


def check_requests(client: AnswersServers, place: str, requests: Json) -> None:
    """Check all requests in an input_required result, before any callback runs. Raises InvalidResponse."""
    if len(requests) > MAX_QUESTIONS:
        raise InvalidResponse(
            f"{place}: {len(requests)} questions at once; at most {MAX_QUESTIONS} are answered"
        )
    for key, request in requests.items():
        _check_request(f"{place}: inputRequests.{key:.80}", request, client.input_requests)


def fulfilled(client: AnswersServers, place: str, request: Json) -> Json:
    """The answer to one of these requests, from this client's callbacks. Raises InputRefused."""
    try:
        return client.fulfil(request["method"], request.get("params", {}), None)
    except ProtocolError as problem:
        raise InputRefused(f"{place}: the server asked for {request['method']}: {problem}") from problem


def _check_request(place: str, request: Any, known: Container[str]) -> None:
    """Raise InvalidResponse for a request that this client cannot answer."""
    method = request.get("method") if isinstance(request, dict) else None
    if not isinstance(method, str) or method not in known or not isinstance(request.get("params", {}), dict):
        raise InvalidResponse(f"{place} is no request that this client can answer")


def retry(params: Json, result: Json, responses: Json) -> Json:
    """The params of the next round: those of the request, with the answers and the server's state.

    # spec: basic/patterns/mrtr/client-echoes-state, basic/patterns/mrtr/client-no-invented-state
    # spec: basic/patterns/mrtr/request-state-opaque, basic/patterns/mrtr/inputs-not-for-other-requests
    # spec: basic/patterns/mrtr/retry-is-original-request
    # spec: basic/patterns/mrtr/retry-new-id, basic/patterns/mrtr/client-immediate-retry
    """
    again = {name: value for name, value in params.items() if name not in RETRY_FIELDS}
    if responses or "inputRequests" in result:
        again["inputResponses"] = responses
    if "requestState" in result:
        again["requestState"] = result["requestState"]
    return again
