"""Errors (page: basic/index, "Error Responses" and "Error Codes").

An error that one peer sends to the other has a code, a message and perhaps data. An error that was
not sent is local: a time-out, a lost connection. The two cannot be confused: local errors have no code.

    McpError
    +- ProtocolError             an error that we send; one subclass per code, in the module of its page
    |  +- ParseError             -32700  not JSON
    |  +- InvalidRequest         -32600  JSON, but not a message
    |  +- MethodNotFound         -32601
    |  +- InvalidParams          -32602
    |  +- InternalError          -32603
    |  +- TooManyRequests           429  (ours: outside the range that JSON-RPC reserves)
    +- ErrorResponse             an error that the peer sent; never sent on as ours
    +- HttpError                 an HTTP status other than success, or a body that is not MCP: status, url
    |  +- RefusedByStatus        with a JSON-RPC error in the body: an ErrorResponse, too
    |  +- HttpFailure            without one: a LocalError, too
    +- ToolError                 a result with isError, if the caller wants it raised (server/tools)
    +- AuthorizationError        no access token could be obtained (basic/authorization)
    +- LocalError                neither sent nor received: it happened on this side
       +- RequestTimeout         no answer in time
       +- RequestCancelled       the request was cancelled before it was answered
       +- ConnectionClosed       the peer is gone, and why
       |  +- NotReached          the server could not be reached: nothing was sent
       |  +- StreamBroken        the stream of a request broke (2026-07-28)
       |  +- MayHaveRun          lost after it was sent: the server may have done it (api/retrying)
       +- InvalidResponse        the peer's answer breaks the rules of its page
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
        """The `error` member of a response. Its message should be one sentence; that is up to its author.

        # spec: schema/error-message-concise
        """
        error: Error = {"code": self.code, "message": self.message}
        if self.data is not None:
            error["data"] = self.data
        return error


STANDARD = frozenset({-32700, -32600, -32601, -32602, -32603})
"""The codes that JSON-RPC itself defines."""


HEADER_MISMATCH = -32020  # spec: basic/index/error-code-header-mismatch
MISSING_REQUIRED_CLIENT_CAPABILITY = -32021  # spec: basic/index/error-code-missing-capability
UNSUPPORTED_PROTOCOL_VERSION = -32022  # spec: basic/index/error-code-unsupported-version


def _own_code(code: int) -> int:
    """Check a code that the author of a handler chose, and return it. Raises TypeError, ValueError."""
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
    """A limit was reached; `data.retryAfterMs` says when to try again.

    `retry_after` is in seconds.
    """

    code = 429  # spec: basic/index/legacy-code-range-avoid

    def __init__(self, message: str, retry_after: float) -> None:
        wait = max(1, round(retry_after * 1000))
        super().__init__(f"{message}; try again in {wait} ms", data={"retryAfterMs": wait})


class ErrorResponse(McpError):
    """The peer answered a request with an error. A LocalError is never an ErrorResponse.

    # spec: basic/index/local-errors-distinguishable
    """

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(f"{one_line(message)} ({code})")  # one line: other code may print it, or log it
        self.code = code
        self.message = message
        self.data = data

    def advise(self, advice: str) -> None:
        """Add to the text of the exception what its reader can do; `message` stays as the peer sent it."""
        self.args = (f"{self.args[0]}; {advice}",)


class HttpError(McpError):
    """A server behind a URL, or a proxy before it, answered with an HTTP status other than success.

    Or with success, but with a body that is not MCP, such as the page of a website. The message always has
    the status and the URL.
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
        """The URL, without its query and without credentials."""
        self.retry_after = retry_after
        """Seconds after which to try again, if the server said so (429, 503)."""
        self.challenge = challenge
        """The header `WWW-Authenticate` of a 401 or 403."""


class HttpFailure(HttpError, LocalError):
    """An HttpError without a JSON-RPC error in the body: from a proxy, perhaps, and not from MCP."""


class RefusedByStatus(HttpError, ErrorResponse):
    """A JSON-RPC error that came with an HTTP status other than success."""

    def __init__(self, problem: ErrorResponse, status: int, *, url: str = "", **more: Any) -> None:
        """`more` are the other arguments of HttpError."""
        HttpError.__init__(self, status, f"{problem}; HTTP status {status} from {url}", url=url, **more)
        self.code, self.message, self.data = problem.code, problem.message, problem.data


# --------------------------------------------------------------------- what arrives


def error_response(error: Any) -> McpError:
    """The exception for the `error` member of a response: InvalidResponse if it is malformed."""
    if not isinstance(error, dict):
        return InvalidResponse(f"the peer's error is not an object: {error!r:.100}")
    code, message = error.get("code"), error.get("message")
    if type(code) is not int or not isinstance(message, str):
        return InvalidResponse(f"the peer's error lacks a code or a message: {error!r:.200}")
    # The same exception for every code: a receiver must not give meaning to codes of the legacy range.
    # spec: basic/index/legacy-code-range-no-meaning
    return ErrorResponse(code, message, error.get("data"))


def _coded(code: int) -> Any:
    """The shape of an error with this code, since 2026-07-28."""
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
