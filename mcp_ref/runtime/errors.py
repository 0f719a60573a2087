"""The base of all exceptions of this package, and the errors that begin on this side of a connection.

They are defined here, below every module that raises them. The errors that peers send each other are in
basic/index/error_responses, which shows the tree of all exceptions.
"""

from __future__ import annotations

from typing import Any

__all__ = [
    "ConnectionClosed",
    "InvalidResponse",
    "LocalError",
    "McpError",
    "NotReached",
    "RequestCancelled",
    "RequestTimeout",
    "StreamBroken",
]


class McpError(Exception):
    """The base of all errors that this package expects. Any other exception out of it is a bug."""

    def __reduce__(self) -> tuple[Any, ...]:
        """For pickle: a copy is made without `__init__`, whose parameters are not those of Exception."""
        return _made_again, (type(self), self.args), self.__dict__


def _made_again(kind: type[McpError], args: tuple[Any, ...]) -> McpError:
    return kind.__new__(kind, *args)


class LocalError(McpError):
    """An error that begins on this side: it was not sent by the peer."""


class RequestTimeout(LocalError, TimeoutError):
    """No answer in time; the request was cancelled on the wire."""


class RequestCancelled(LocalError):
    """The request was cancelled before it was answered."""


class ConnectionClosed(LocalError, ConnectionError):
    """The connection is gone, and with it every answer that had not arrived."""


class NotReached(ConnectionClosed):
    """No connection to the server could be made, so nothing was sent to it."""


class StreamBroken(ConnectionClosed):
    """The event stream of a request of 2026-07-28 ended before its answer, which cancels the request."""


class InvalidResponse(LocalError):
    """The peer's answer breaks the rules of its page."""


class WriteRefused(LocalError):
    """Nothing can be sent to the peer before the answer to its request: the WSGI server does not do it."""
