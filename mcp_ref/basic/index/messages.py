"""Messages (page: basic/index, "Messages"; basic/index/messages in 2024-11-05).

Both sides speak JSON-RPC 2.0. A *request* has an id and wants exactly one *response*: a result or
an error with the same id. A *notification* has no id and gets no response. This module turns bytes
into a message and back.

    decode     one line of bytes -> one JSON value (runtime/json_text), or a ParseError that says why not
    classify   JSON value -> "request", "notification" or "response", or an InvalidRequest
    begins     the first bytes of a line that is too long to read -> its kind and id
    encode     message -> one line of UTF-8

Revisions   2024-11-05  requests, notifications, responses; ids are strings or integers
            2025-03-26  + a JSON array of messages is a batch: may be sent, must be understood
            2025-06-18  - batches
            2025-11-25  an id that could not be read is left out of the error (before: null)
            2026-07-28  requests go from client to server only

Threads     plain functions: `decode` runs on a transport's reader, `encode` on any thread.
Not here    JSON itself (runtime/json_text), errors (basic/index/error_responses), `_meta`
            (basic/index/general_fields), who may send what when (basic/lifecycle, basic/versioning).
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Annotated, Any, Literal, Required, TypeAlias, TypedDict, TypeGuard

from mcp_ref.basic.index.error_responses import InvalidRequest, ParseError, ProtocolError
from mcp_ref.basic.index.general_fields import SERVER_INFO
from mcp_ref.runtime.json_text import MAX_JSON_PARTS, Encoded, NotJson, from_json, not_json_at, to_json
from mcp_ref.runtime.logs import logger
from mcp_ref.schema import required, since, until

if TYPE_CHECKING:
    from mcp_ref.basic.index.error_responses import Error
    from mcp_ref.basic.index.general_fields import RequestMeta, ResultMeta
    from mcp_ref.basic.patterns.index.context import RequestContext

__all__ = [
    "Json",
    "RequestId",
    "begins",
    "classify",
    "decode",
    "encode",
    "encode_error",
    "encode_result",
    "is_id",
]

_log = logger("mcp_ref.messages")

# ---------------------------------------------------------------------------- shapes

Json: TypeAlias = dict[str, Any]
RequestId: TypeAlias = str | int  # spec: basic/index/request-id-string-or-integer


class AnyParams(TypedDict, total=False):
    """The params in the schema's generic Request, which has no particular method."""

    _meta: Annotated[RequestMeta, until("2025-06-18")]


class AnyNotificationParams(TypedDict, total=False):
    _meta: Annotated[Json, until("2025-06-18")]


class AnyRequest(TypedDict, total=False):
    method: Required[str]  # spec: basic/index/request-method-name
    params: AnyParams


class AnyNotification(TypedDict, total=False):
    method: Required[str]
    params: AnyNotificationParams


class Result(TypedDict, total=False):
    _meta: ResultMeta
    resultType: Required[Annotated[str, since("2026-07-28")]]


class JSONRPCRequest(TypedDict, total=False):
    jsonrpc: Required[Literal["2.0"]]  # spec: schema/jsonrpc-version
    id: Required[RequestId]
    method: Required[str]
    params: AnyParams


class JSONRPCNotification(TypedDict, total=False):
    jsonrpc: Required[Literal["2.0"]]
    method: Required[str]
    params: AnyNotificationParams


class JSONRPCResultResponse(TypedDict, total=False):
    jsonrpc: Required[Literal["2.0"]]
    id: Required[RequestId]
    result: Required[Result]  # spec: basic/index/result-response-has-result


class JSONRPCErrorResponse(TypedDict, total=False):
    jsonrpc: Required[Literal["2.0"]]
    id: Annotated[RequestId, required(until="2025-06-18")]
    error: Required[Error]


_Batch = Annotated[list[JSONRPCRequest | JSONRPCNotification], since("2025-03-26"), until("2025-03-26")]
_Answers = Annotated[
    list[JSONRPCResultResponse | JSONRPCErrorResponse], since("2025-03-26"), until("2025-03-26")
]

DEFINITIONS: dict[str, Any] = {
    "EmptyResult": Result,
    "JSONRPCBatchRequest": _Batch,
    "JSONRPCBatchResponse": _Answers,
    "JSONRPCError": Annotated[JSONRPCErrorResponse, until("2025-06-18")],
    "JSONRPCErrorResponse": Annotated[JSONRPCErrorResponse, since("2025-11-25")],
    "JSONRPCMessage": JSONRPCRequest
    | JSONRPCNotification
    | JSONRPCResultResponse
    | JSONRPCErrorResponse
    | _Batch
    | _Answers,
    "JSONRPCNotification": JSONRPCNotification,
    "JSONRPCRequest": JSONRPCRequest,
    "JSONRPCResponse": JSONRPCResultResponse | Annotated[JSONRPCErrorResponse, since("2025-11-25")],
    "JSONRPCResultResponse": Annotated[JSONRPCResultResponse, since("2025-11-25")],
    "Notification": AnyNotification,
    "Request": AnyRequest,
    "RequestId": RequestId,
    "Result": Result,
    "ResultType": Annotated[str, since("2026-07-28")],
}

# ---------------------------------------------------------------------------- reading


def decode(line: bytes, max_parts: int = MAX_JSON_PARTS) -> Any:
    """The JSON value in a line, read strictly. Raises ParseError, which says what is wrong with the line."""
    try:
        return from_json(line, max_parts)  # spec: basic/transports/index/utf8
    except NotJson as problem:
        raise ParseError(str(problem)) from None


ID_TYPES = frozenset({str, int})
"""The types of an id: never null, float or bool.  # spec: basic/index/request-id-not-null"""


def is_id(value: Any) -> TypeGuard[RequestId]:
    """Whether this value can be the id of a request."""
    return type(value) in ID_TYPES


def classify(message: Any) -> Literal["request", "notification", "response"]:
    """The kind of a message. Raises InvalidRequest for a JSON value that is not a valid message."""
    if type(message) is not dict:
        raise InvalidRequest(f"a message is a JSON object, not {_kind(message)}")
    if message.get("jsonrpc") != "2.0":  # spec: schema/jsonrpc-version, basic/index/json-rpc-2
        raise InvalidRequest('a message has "jsonrpc": "2.0"')
    if "method" in message:
        if type(message["method"]) is not str:
            raise InvalidRequest(f"a method is a string, not {_kind(message['method'])}")
        if "result" in message or "error" in message:
            raise InvalidRequest("a message has a method, or a result, or an error: one of them")
        if "id" not in message:
            return "notification"
        if type(message["id"]) not in ID_TYPES:
            raise InvalidRequest(f"an id is a string or an integer, not {_kind(message['id'])}")
        return "request"
    # spec: basic/index/response-result-or-error, basic/index/response-not-both
    if ("result" in message) == ("error" in message):
        raise InvalidRequest("a message has a method, or a result, or an error: one of them")
    return "response"


def lacks_method(message: Any) -> bool:
    """Whether an object has an id but no method: a response, valid or not, or a request that lacks it."""
    return type(message) is dict and "method" not in message and "id" in message


def is_broken_response(message: Any) -> bool:
    """Whether an invalid message was meant as a response. Then no error is sent: responses get no answer."""
    return lacks_method(message) and ("result" in message or "error" in message)


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "an array", str: "a string", bool: "a boolean", int: "an integer"}
    return "null" if value is None else names.get(type(value), "a fractional number")


_BEGINNING = re.compile(
    rb'\s*\{\s*"jsonrpc"\s*:\s*"2\.0"\s*,\s*"id"\s*:\s*(?P<id>-?[0-9]{1,18}|"[^"\\]{0,100}")\s*,'
    rb'\s*"(?P<next>method|result|error)"'
)


def begins(line: bytes) -> tuple[Literal["request", "response"], RequestId | None]:
    """Kind and id of a line that was too long to read, from its first bytes: most messages begin with them.

    If the first bytes do not tell, it is taken for a request whose id could not be read (None).
    """
    known = _BEGINNING.match(line)
    if known is None:
        return "request", None
    return "request" if known["next"] == b"method" else "response", json.loads(known["id"])


def readable_id(message: Any) -> RequestId | None:
    """The id under which a malformed request is answered; None if it has no valid id.

    # spec: basic/index/error-response-id-unless-unreadable
    """
    found = message.get("id") if type(message) is dict else None
    return found if is_id(found) else None


# ---------------------------------------------------------------------------- writing


def new_ids() -> Iterator[int]:
    """The ids for the requests of one connection. An id is never used twice, even after it was answered.

    # spec: basic/index/request-id-unique-in-session, basic/index/request-id-unique-in-flight
    """
    return itertools.count(1)


def encode(message: Any) -> bytes:
    """One message (or one batch) as a line of UTF-8, newline included.

    JSON escapes newlines inside strings, so the line holds no other.
    # spec: basic/transports/stdio/no-embedded-newlines, basic/transports/stdio/one-message-per-line
    # spec: basic/transports/index/utf8

    Raises ValueError or TypeError for a value without a JSON form, RecursionError for one that holds itself.
    """
    try:
        return (to_json(message) + "\n").encode("utf-8")
    except UnicodeEncodeError:
        raise
    except (TypeError, ValueError) as problem:
        found = not_json_at(message)
        raise type(problem)(found) if found else problem from None


def encode_result(request_id: RequestId, result: Json | Encoded) -> bytes:
    """The response that carries a result."""
    # spec: basic/index/response-same-id, basic/index/result-any-object
    if type(result) is Encoded:
        name = str(request_id) if type(request_id) is int else to_json(request_id)
        start = f'{{"jsonrpc":"2.0","id":{name},"result":'.encode()
        return b"".join((start, *result.pieces, b"}\n"))
    return encode({"jsonrpc": "2.0", "id": request_id, "result": result})


NO_JSON_FORM = "an error that has no JSON form"
"""The message that is sent instead of an error whose own message or data cannot be encoded."""


def encode_error(request_id: RequestId, problem: ProtocolError) -> bytes:
    """The response that carries an error.  # spec: basic/index/error-response-same-id"""
    message: Json = {"jsonrpc": "2.0", "id": request_id, "error": problem.to_wire()}
    try:
        return encode(message)
    except (TypeError, ValueError, RecursionError):
        _log.exception("an error has no JSON form")
        return encode({**message, "error": {"code": problem.code, "message": NO_JSON_FORM}})


def encode_unaddressed_error(problem: ProtocolError, *, has_null: bool) -> bytes:
    """The error response to a request whose id could not be read. Its own id is null, or left out.

    # spec: basic/index/error-response-id-unless-unreadable
    """
    message: Json = {"jsonrpc": "2.0", "error": problem.to_wire()}
    return encode({**message, "id": None} if has_null else message)


def encode_notification(method: str, params: Json | None) -> bytes:
    """A notification, as a line.  # spec: basic/index/notification-no-id"""
    message: Json = {"jsonrpc": "2.0", "method": method}
    return encode(message if params is None else {**message, "params": params})


# --------------------------------------------------------------------- results of 2026-07-28


def add_modern_fields(result: Json, context: RequestContext) -> Json:
    """Add the fields of a modern result that handlers need not set: resultType, and the server's identity."""
    # spec: basic/index/result-type-present, basic/index/result-type-complete
    full = {"resultType": "complete", **result}
    identity = context.handling.identity
    if identity is not None:  # spec: basic/index/meta-server-info
        full["_meta"] = {SERVER_INFO: identity, **result.get("_meta", {})}
    return full


INPUT_REQUIRED = "input_required"  # spec: basic/index/result-type-input-required
RESULT_TYPES = frozenset({"complete", INPUT_REQUIRED})


def result_type(result: Json, also: Iterable[str] = ()) -> str:
    """The resultType of a result. Raises ValueError for an unknown one.

    `also` are the values that extensions add, if this client declares them.
    # spec: basic/index/result-type-supported-set, basic/index/result-type-absent-complete
    # spec: basic/index/result-type-extension-values
    """
    kind = result.get("resultType", "complete")
    if not isinstance(kind, str) or (kind not in RESULT_TYPES and kind not in also):
        raise ValueError(f"unknown resultType {kind!r:.60}")  # spec: basic/index/result-type-unknown-invalid
    return kind
