"""Errors (page: basic/index, "Error Responses" and "Error Codes").

An error that travels has a code, a message and perhaps data. An error that does not travel is a
local fact: a time-out, a lost connection. The two are never mixed up: local ones have no code.

    McpError
    +- ProtocolError             what we tell a peer; one subclass a code, in its page's module
    |  +- ParseError             -32700  not JSON
    |  +- InvalidRequest         -32600  JSON, but no message
    |  +- MethodNotFound         -32601
    |  +- InvalidParams          -32602
    |  +- InternalError          -32603
    |  +- TooManyRequests           429  (ours: outside the range that JSON-RPC reserves)
    +- ErrorResponse             what a peer told us; never sent on as ours
    +- HttpError                 an HTTP status that is no success, or a body that is no MCP: status, url
    |  +- RefusedByStatus        with a JSON-RPC error in the body: an ErrorResponse, too
    |  +- HttpFailure            without one: a LocalError, too
    +- ToolError                 a result with isError, to those that want it raised (server/tools)
    +- AuthorizationError        no access token is to be had (basic/authorization)
    +- LocalError                nothing was told to or by anyone
       +- RequestTimeout         no answer in time
       +- RequestCancelled       this end no longer wants the answer
       +- ConnectionClosed       the peer is gone, and why
       |  +- NotReached          it never was there: nothing was sent
       |  +- StreamBroken        the stream of a request broke (2026-07-28)
       |  +- MayHaveRun          api/retrying
       +- InvalidResponse        the peer's answer broke a rule
       +- HttpFailure            as above
       +- InputRefused, CallRefused   basic/patterns/mrtr, server/tools

Codes       -32768..-32000 belong to JSON-RPC, and of these -32099..-32020 to the specification,
            which alone may define them. -32000..-32019 carry no meaning, with one exception:
            -32002 (resource not found, until 2025-11-25).
Threads     plain values.
"""

from __future__ import annotations

from typing import Annotated, Any, Required, TypedDict

from mcp_ref.runtime.errors import InvalidResponse, LocalError, McpError
from mcp_ref.runtime.untrusted_text import one_line
from mcp_ref.schema import since

__all__ = [
    "ErrorResponse",
    "HttpError",
    "HttpFailure",
    "InternalError",
    "InvalidParams",
    "InvalidRequest",
    "MethodNotFound",
    "ParseError",
    "ProtocolError",
    "RefusedByStatus",
    "TooManyRequests",
]

# ---------------------------------------------------------------------------- shapes


class Error(TypedDict, total=False):
    code: Required[int]  # spec: basic/index/error-code-integer
    message: Required[str]  # spec: basic/index/error-code-and-message
    data: Any  # spec: basic/index/error-data-optional


# ---------------------------------------------------------------------------- the tree


class ProtocolError(McpError):
    """An error that becomes a JSON-RPC error response. Raise one in a handler to send it.

    `raise ProtocolError("no such account", code=1001, data={...})` sends a code of your own; choose
    it outside -32768..-32000.  # spec: basic/index/custom-codes-outside-reserved
    """

    code: int = -32603

    def __init__(self, message: str, *, data: Any = None, code: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.data = data
        if code is not None:
            self.code = _own_code(code)

    def to_wire(self) -> Error:
        """The `error` member of a response. Its message is one sentence, if its author kept to that.

        # spec: schema/error-message-concise
        """
        error: Error = {"code": self.code, "message": self.message}
        if self.data is not None:
            error["data"] = self.data
        return error


STANDARD = frozenset({-32700, -32600, -32601, -32602, -32603})
"""JSON-RPC's own codes."""


HEADER_MISMATCH = -32020  # spec: basic/index/error-code-header-mismatch
MISSING_REQUIRED_CLIENT_CAPABILITY = -32021  # spec: basic/index/error-code-missing-capability
UNSUPPORTED_PROTOCOL_VERSION = -32022  # spec: basic/index/error-code-unsupported-version


def _own_code(code: int) -> int:
    """A code that the author of a handler chose."""
    if isinstance(code, bool) or not isinstance(code, int):
        raise TypeError(f"an error code is an integer, not {code!r}")
    # spec: basic/index/reserved-code-range-only-defined, basic/index/reserved-code-range-meaning
    # spec: basic/index/legacy-code-range-no-new
    if -32768 <= code <= -32000 and code not in STANDARD:
        raise ValueError(f"code {code} is reserved; choose one outside -32768..-32000")
    return code


class ParseError(ProtocolError):
    code = -32700  # spec: basic/index/standard-json-rpc-codes


class InvalidRequest(ProtocolError):
    code = -32600


class MethodNotFound(ProtocolError):
    code = -32601


class InvalidParams(ProtocolError):
    code = -32602


class InternalError(ProtocolError):
    code = -32603


class TooManyRequests(ProtocolError):
    """A limit was reached; `data.retryAfterMs` says when to come back."""

    code = 429  # spec: basic/index/legacy-code-range-avoid

    def __init__(self, message: str, retry_after: float) -> None:
        wait = max(1, round(retry_after * 1000))
        super().__init__(f"{message}; try again in {wait} ms", data={"retryAfterMs": wait})


class ErrorResponse(McpError):
    """The peer answered a request with an error. No LocalError is one of these.

    # spec: basic/index/local-errors-distinguishable
    """

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(f"{one_line(message)} ({code})")  # it may be printed, or logged by others
        self.code = code
        self.message = message
        self.data = data

    def advise(self, advice: str) -> None:
        """Add for people what they can do about it; `message` stays the peer's."""
        self.args = (f"{self.args[0]}; {advice}",)


class HttpError(McpError):
    """A server behind a URL, or a proxy before it, answered with an HTTP status that is no success.

    Also a success whose body is no answer of MCP, such as a website's page. The message always says the
    status and the URL.
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        url: str = "",
        retry_after: float | None = None,
        challenge: str | None = None,
    ) -> None:
        McpError.__init__(self, message)  # not the next class, which may be ErrorResponse
        self.status = status
        self.url = url
        """Without its query, and without credentials."""
        self.retry_after = retry_after
        """Seconds after which to come back, where the server said so (429, 503)."""
        self.challenge = challenge
        """`WWW-Authenticate`, of a 401 or 403."""


class HttpFailure(HttpError, LocalError):
    """The server, or a proxy before it, answered in HTTP and not in JSON-RPC."""


class RefusedByStatus(HttpError, ErrorResponse):
    """A JSON-RPC error that came with an HTTP status of its own."""

    def __init__(self, problem: ErrorResponse, status: int, *, url: str = "", **more: Any) -> None:
        """`more` are those of an HttpError."""
        HttpError.__init__(self, status, f"{problem}; HTTP status {status} from {url}", url=url, **more)
        self.code, self.message, self.data = problem.code, problem.message, problem.data


# --------------------------------------------------------------------- what arrives


def error_response(error: Any) -> McpError:
    """The exception for the `error` member of a response, however badly it is made."""
    if not isinstance(error, dict):
        return InvalidResponse(f"the peer's error is not an object: {error!r:.100}")
    code, message = error.get("code"), error.get("message")
    if type(code) is not int or not isinstance(message, str):
        return InvalidResponse(f"the peer's error lacks a code or a message: {error!r:.200}")
    # Whatever the code: none has an exception of its own.
    # spec: basic/index/legacy-code-range-no-meaning
    return ErrorResponse(code, message, error.get("data"))


def _coded(code: int) -> Any:
    """The shape of an error that has this code."""
    schema = {
        "type": "object",
        "properties": {"code": {"const": code}, "message": {"type": "string"}, "data": {}},
        "required": ["code", "message"],
    }
    return Annotated[Any, schema, since("2026-07-28")]


DEFINITIONS: dict[str, Any] = {
    "Error": Annotated[Error, since("2025-11-25")],
    "ParseError": _coded(-32700),
    "InvalidRequestError": _coded(-32600),
    "MethodNotFoundError": _coded(-32601),
    "InvalidParamsError": _coded(-32602),
    "InternalError": _coded(-32603),
}
