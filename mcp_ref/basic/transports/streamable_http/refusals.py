"""Requests that are refused before their message is read (page: basic/transports/streamable-http, "Sending
Messages" and "Security & Endpoint").

    server -> client   403, 405, 406, 413, 415, 429, 503, ...: an error that has no id

`Refused` is what the server raises; `Denied` is for an `authenticate` hook of the application's:

    def authenticate(request):
        if request.authorization is None:
            raise Denied("a token, please")

Revisions   all.
Threads     plain values.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from mcp_ref.basic.index.error_responses import TooManyRequests
from mcp_ref.basic.index.messages import Json, encode
from mcp_ref.runtime.errors import McpError

__all__ = ["Denied", "Refused"]

_VISIBLE = re.compile(r"[!-~](?:[ -~]*[!-~])?")


class Refused(McpError):
    """The answer to a request whose message is not looked at."""

    def __init__(self, status: int, message: str, headers: Sequence[tuple[str, str]] = ()) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.headers = tuple(headers)

    def body(self) -> bytes:
        """An error of no request: it has no id. Its type is application/json.

        # spec: basic/transports/streamable-http/origin-403-body
        # spec: basic/transports/streamable-http/rejected-input-body
        """
        error: Json = {"code": -32600, "message": self.message}
        if self.status == TooManyRequests.code:
            seconds = dict(self.headers).get("Retry-After", "1")
            error = {**error, "code": 429, "data": {"retryAfterMs": 1000 * int(seconds)}}
        return encode({"jsonrpc": "2.0", "error": error}).rstrip(b"\n")


class Denied(Refused):
    """Raised by an `authenticate` hook: this caller may not, or must first say who it is.

    `challenge` is the WWW-Authenticate header, which no 401 may lack.
    """

    def __init__(self, message: str, *, status: int = 401, challenge: str | None = None) -> None:
        if not 400 <= status <= 599:
            raise ValueError(f"whoever is denied gets a status from 400 to 599, not {status}")
        if challenge is None and status == 401:
            challenge = "Bearer"
        if challenge is not None and not _VISIBLE.fullmatch(challenge):
            raise ValueError(f"a challenge is visible ASCII and spaces, not {challenge!r:.80}")
        super().__init__(status, message, [("WWW-Authenticate", challenge)] if challenge else ())
