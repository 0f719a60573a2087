"""Messages (page: basic/index, "Messages"; basic/index/messages in 2024-11-05).

Both sides speak JSON-RPC 2.0. A *request* has an id and wants exactly one *response*: a result or
an error with the same id. A *notification* has no id and wants nothing. This module turns bytes
into a message and back.

    decode     one line of bytes -> one JSON value, or a ParseError that says why not; the parts of a
               large one are counted before any is made
    classify   JSON value -> "request", "notification" or "response", or an InvalidRequest
    begins     the beginning of a line that is not read -> what it was, as far as it says
    encode     message -> one line of UTF-8

Revisions   2024-11-05  requests, notifications, responses; ids are strings or integers
            2025-03-26  + a JSON array of messages is a batch: may be sent, must be understood
            2025-06-18  - batches
            2025-11-25  an id that could not be read is left out of the error (before: null)
            2026-07-28  requests go from client to server only

Threads     plain functions: `decode` runs on a transport's reader, `encode` on any thread.
Not here    errors (basic/index/error_responses), `_meta` (basic/index/general_fields), who may say what
when (basic/lifecycle,
            basic/versioning).
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, Literal, Required, TypeAlias, TypedDict, TypeGuard

from mcp_ref.basic.index.error_responses import InvalidRequest, ParseError, ProtocolError
from mcp_ref.runtime.logs import logger
from mcp_ref.schema import required, since, until

if TYPE_CHECKING:
    from mcp_ref.basic.index.error_responses import Error
    from mcp_ref.basic.index.general_fields import RequestMeta, ResultMeta

__all__ = [
    "Encoded",
    "Json",
    "RequestId",
    "begins",
    "classify",
    "decode",
    "encode",
    "encode_error",
    "encode_result",
    "is_id",
    "to_json",
    "weight",
]

_log = logger("mcp_ref.messages")

MAX_DEPTH = 200
"""How deep a message may nest. Deeper ones would exhaust the stack of whoever walks through them."""

SMALL_BYTES = 64 << 10
"""Bytes of a message that is read without counting its parts first: there cannot be many."""

LIGHT_BYTES = 256
"""Bytes of a message whose parts are not counted to weigh it: ten thousand of these are no burden."""
PART_BYTES = 64
"""Bytes of a part in memory: an empty list, and the place that refers to it."""

MAX_PARTS = 1_000_000
"""Commas and opening brackets of a message; each may stand for a value of up to 200 bytes in memory."""

# ---------------------------------------------------------------------------- shapes

Json: TypeAlias = dict[str, Any]
RequestId: TypeAlias = str | int  # spec: basic/index/request-id-string-or-integer


class AnyParams(TypedDict, total=False):
    """The params of a request whose method is not named."""

    _meta: Annotated[RequestMeta, until("2025-06-18")]


class AnyNotificationParams(TypedDict, total=False):
    _meta: Annotated[Json, until("2025-06-18")]


class Request(TypedDict, total=False):
    method: Required[str]  # spec: basic/index/request-method-name
    params: AnyParams


class Notification(TypedDict, total=False):
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
    "Notification": Notification,
    "Request": Request,
    "RequestId": RequestId,
    "Result": Result,
    "ResultType": Annotated[str, since("2026-07-28")],
}

# ---------------------------------------------------------------------------- reading


def decode(line: bytes, max_parts: int = MAX_PARTS) -> Any:
    """One JSON value from one line. Raises ParseError, which says what is wrong with it.

    Stricter than Python's `json`: whatever two peers could read differently is refused.
    """
    if len(line) > SMALL_BYTES and has_more_parts(line, max_parts):
        raise ParseError(f"a message has more than {max_parts:,} parts (commas and opening brackets)")
    try:
        value = _DECODER.decode(line.decode("utf-8"))  # spec: basic/transports/index/utf8
    except UnicodeDecodeError as problem:
        raise ParseError(f"not UTF-8: byte {problem.start} is {line[problem.start]:#04x}") from None
    except json.JSONDecodeError as problem:
        raise ParseError(f"not JSON: {problem.msg} at character {problem.pos}") from None
    except RecursionError:
        raise ParseError(f"nested deeper than {MAX_DEPTH} levels") from None
    except ValueError as problem:
        said = "an integer of too many digits" if "int_max_str_digits" in str(problem) else problem
        raise ParseError(f"not JSON: {said}") from None
    if _may_be_deep(line) and _is_deeper(value, MAX_DEPTH):
        raise ParseError(f"nested deeper than {MAX_DEPTH} levels")
    if b"\\" in line and _LONE_SURROGATE.search(line) and not _encodable(value):
        raise ParseError("a string holds half a surrogate pair, which UTF-8 cannot carry")
    return value


_MARKS_OF_PARTS = (b",", b"[", b"{")
_COUNTED_AT_ONCE_BYTES = 16 << 10


def has_more_parts(line: bytes, most: int) -> bool:
    """Whether a text has more than so many parts: commas and opening brackets outside of strings.

    It has at most one value more than it has parts. All are counted first, which is quick; where these are
    too many, those inside of strings are left out, piece by piece, until it is clear.
    """
    if len(line) <= most or not _has_more_marks(line, most):
        return False
    line = line.replace(b"\\\\", b"").replace(b'\\"', b"")  # now each quote begins or ends a string
    count, is_inside = 0, False
    for start in range(0, len(line), _COUNTED_AT_ONCE_BYTES):
        pieces = line[start : start + _COUNTED_AT_ONCE_BYTES].split(b'"')
        outside = b"".join(pieces[is_inside::2])
        is_inside ^= len(pieces) % 2 == 0
        count += sum(map(outside.count, _MARKS_OF_PARTS))
        if count > most:
            return True
    return False


def _has_more_marks(line: bytes, most: int) -> bool:
    """Whether a text has more than so many marks of parts, inside of strings or not."""
    count = 0
    for found in _marks_in_pieces(line):
        count += found
        if count > most:
            return True
    return False


def _marks_in_pieces(line: bytes) -> Iterator[int]:
    """How many marks of parts there are, a piece of the text at a time.

    They are counted by what `replace` leaves: it leaps from mark to mark, where `count` looks at each byte.
    In a mebibyte of words that is 0.1 ms instead of 1.7.
    """
    for start in range(0, len(line), _COUNTED_AT_ONCE_BYTES):
        piece = line[start : start + _COUNTED_AT_ONCE_BYTES]
        yield sum(len(piece) - len(piece.replace(mark, b"")) for mark in _MARKS_OF_PARTS)


def weight(line: bytes) -> int:
    """About how many bytes a message takes in memory: what waits is weighed by that, and not by its length.

    `[[],[],...]` takes twenty times as many bytes as it has. Commas within strings count as well, which makes
    such a message a little heavier than it is.
    """
    if len(line) <= LIGHT_BYTES:
        return len(line)
    is_short = len(line) <= _COUNTED_AT_ONCE_BYTES
    marks = map(line.count, _MARKS_OF_PARTS) if is_short else _marks_in_pieces(line)
    return len(line) + PART_BYTES * sum(marks)


def _no_duplicates(pairs: list[tuple[str, Any]]) -> Json:
    members = dict(pairs)
    if len(members) != len(pairs):
        counted = Counter(name for name, _ in pairs)
        twice = next(name for name, count in counted.items() if count > 1)
        raise ValueError(f"the member {twice[:80]!r} stands twice in one object")
    return members


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"the number {text[:40]} is beyond what a double can hold")
    return number


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON number")


_DECODER = json.JSONDecoder(
    object_pairs_hook=_no_duplicates, parse_float=_finite, parse_constant=_no_constant
)
_LONE_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


def _may_be_deep(line: bytes) -> bool:
    """Whether a line opens enough objects and arrays; stops counting when it does."""
    opened = 0
    for bracket in (b"[", b"{"):
        at = line.find(bracket)
        while at >= 0 and opened <= MAX_DEPTH:
            opened += 1
            at = line.find(bracket, at + 1)
    return opened > MAX_DEPTH


def _is_deeper(value: Any, limit: int) -> bool:
    level = [value]
    for _ in range(limit):
        level = [
            child
            for node in level
            for child in (node.values() if type(node) is dict else node)
            if type(child) is dict or type(child) is list
        ]
        if not level:
            return False
    return True


def _encodable(value: Any) -> bool:
    try:
        _ENCODER.encode(value).encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def is_id(value: Any) -> TypeGuard[RequestId]:
    """Whether a request may be named so: never null, float or bool."""
    return type(value) is int or type(value) is str  # spec: basic/index/request-id-not-null


def classify(message: Any) -> Literal["request", "notification", "response"]:
    """What kind of message this is. Raises InvalidRequest for what is none."""
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
        if not is_id(message["id"]):
            raise InvalidRequest(f"an id is a string or an integer, not {_kind(message['id'])}")
        return "request"
    # spec: basic/index/response-result-or-error, basic/index/response-not-both
    if ("result" in message) == ("error" in message):
        raise InvalidRequest("a message has a method, or a result, or an error: one of them")
    return "response"


def lacks_method(message: Any) -> bool:
    """Whether an object has an id and no method: a response, or what was to be one, or half a request."""
    return type(message) is dict and "method" not in message and "id" in message


def is_broken_response(message: Any) -> bool:
    """Whether what is no message was to be a response: nothing that is wrong with it is answered."""
    return lacks_method(message) and ("result" in message or "error" in message)


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "an array", str: "a string", bool: "a boolean", int: "an integer"}
    return "null" if value is None else names.get(type(value), "a fractional number")


_BEGINNING = re.compile(
    rb'\s*\{\s*"jsonrpc"\s*:\s*"2\.0"\s*,\s*"id"\s*:\s*(?P<id>-?[0-9]{1,18}|"[^"\\]{0,100}")\s*,'
    rb'\s*"(?P<next>method|result|error)"'
)


def begins(line: bytes) -> tuple[Literal["request", "response"], RequestId | None]:
    """What a line is that is not read, by its beginning: most messages begin with their id.

    One that does not say is taken for a request whose id could not be read.
    """
    known = _BEGINNING.match(line)
    if known is None:
        return "request", None
    return "request" if known["next"] == b"method" else "response", json.loads(known["id"])


# ---------------------------------------------------------------------------- writing


class Encoded:
    """A result that is JSON already: its pieces are written one after another, as they are."""

    __slots__ = ("pieces",)

    def __init__(self, *pieces: bytes) -> None:
        self.pieces = pieces


_ENCODER = json.JSONEncoder(ensure_ascii=False, check_circular=False, allow_nan=False, separators=(",", ":"))
to_json = _ENCODER.encode


def encode(message: Any) -> bytes:
    """One message (or one batch) as a line of UTF-8, newline included.

    JSON escapes newlines inside strings, so the line holds no other.
    # spec: basic/transports/stdio/no-embedded-newlines, basic/transports/stdio/one-message-per-line
    # spec: basic/transports/index/utf8

    Raises ValueError or TypeError for what JSON cannot carry, RecursionError for what has no end.
    """
    return (to_json(message) + "\n").encode("utf-8")


def encode_result(request_id: RequestId, result: Json | Encoded) -> bytes:
    """The response that carries a result."""
    # spec: basic/index/response-same-id, basic/index/result-any-object
    if type(result) is Encoded:
        name = str(request_id) if type(request_id) is int else to_json(request_id)
        start = f'{{"jsonrpc":"2.0","id":{name},"result":'.encode()
        return b"".join((start, *result.pieces, b"}\n"))
    return encode({"jsonrpc": "2.0", "id": request_id, "result": result})


def encode_error(request_id: RequestId, problem: ProtocolError) -> bytes:
    """The response that carries an error.  # spec: basic/index/error-response-same-id"""
    message: Json = {"jsonrpc": "2.0", "id": request_id, "error": problem.to_wire()}
    try:
        return encode(message)
    except (TypeError, ValueError, RecursionError):
        _log.exception("an error has no JSON form")
        return encode(
            {**message, "error": {"code": problem.code, "message": "an error that has no JSON form"}}
        )
