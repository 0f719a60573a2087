"""Logging (page: server/utilities/logging).

A server sends its client structured log messages, from the level on that the client chose:

    server -> client   notifications/message {level, logger?, data}

`ctx.log("info", {...})` sends one. `bridge()` returns a handler for Python's own `logging`, so that the
messages that a library logs while a request runs reach the client of that request.

Revisions   2024-11-05  the client sets the level of the session: logging/setLevel
            2026-07-28  each request names its level in `_meta`; without one, no messages are sent; the
                        feature is deprecated in favour of stderr

Levels are those of syslog, debug to emergency. Until a legacy client sets one, "info" applies.

Threads     `log` runs on the thread that works on the request. The handler of `bridge` finds the request of
            its thread in the context variable `current`.
"""

from __future__ import annotations

import logging
import typing
from collections.abc import Callable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Annotated, Any, Literal, Required, TypeAlias, TypedDict

from mcp_ref.basic.index.general_fields import NotificationMeta, RequestMeta
from mcp_ref.basic.index.messages import Json
from mcp_ref.basic.patterns.index.requester import Asks
from mcp_ref.basic.versioning import Method, Notification, Revision
from mcp_ref.runtime.errors import ConnectionClosed
from mcp_ref.runtime.typing.values import dump_any
from mcp_ref.schema import since

if TYPE_CHECKING:
    from mcp_ref.basic.patterns.index.context import RequestContext

__all__ = ["LEVELS", "LoggingLevel", "bridge", "log"]

# ---------------------------------------------------------------------------- shapes

# `logLevel` in `_meta` has this shape, too.
# spec: server/utilities/logging/unknown-level-rejected
LoggingLevel: TypeAlias = Literal[
    "debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"
]


class SetLevelRequestParams(TypedDict, total=False):
    _meta: Annotated[RequestMeta, since("2025-11-25")]
    level: Required[LoggingLevel]


class LoggingMessageNotificationParams(TypedDict, total=False):
    _meta: Annotated[NotificationMeta, since("2025-11-25")]
    level: Required[LoggingLevel]  # spec: server/utilities/logging/message-fields
    logger: str
    data: Required[Any]


DEFINITIONS: dict[str, Any] = {"LoggingLevel": LoggingLevel}

LEVELS: dict[LoggingLevel, int] = {  # spec: server/utilities/logging/syslog-levels
    "debug": 0,
    "info": 1,
    "notice": 2,
    "warning": 3,
    "error": 4,
    "critical": 5,
    "alert": 6,
    "emergency": 7,
}
DEFAULT_LEVEL: LoggingLevel = "info"  # spec: server/utilities/logging/default-level-by-server
"""The level of a legacy session whose client has set none."""

current: ContextVar[RequestContext | None] = ContextVar("mcp_ref request", default=None)
"""The request that the current thread works on."""

# ----------------------------------------------------------------------- server half


def on_set_level(server: object, params: Json, context: RequestContext) -> Json:
    """Answer logging/setLevel: from now on, the session gets only messages at this level or above.

    # spec: server/utilities/logging/set-level-honoured, server/utilities/logging/set-level-empty-result
    """
    context.connection.session.log_level = params["level"]
    return {}


METHODS = (
    # An unknown level breaks the shape: -32602.
    # spec: server/utilities/logging/invalid-level-32602, server/utilities/logging/errors
    Method(
        "logging/setLevel",
        on_set_level,
        until="2025-11-25",
        params=SetLevelRequestParams,
        capability="logging",
    ),
)
NOTIFICATIONS = (
    Notification(
        "notifications/message", "LoggingMessage", "server", params=LoggingMessageNotificationParams
    ),
)


def log(context: RequestContext, level: LoggingLevel, data: Any, logger: str | None = None) -> None:
    """Send a message that belongs to a request, if the client wants messages of its level.

    Raises ValueError for an unknown level.
    """
    if level not in LEVELS:
        raise ValueError(f"{level!r} is not a log level; the levels are {', '.join(LEVELS)}")
    lowest = _lowest_level(context)
    # spec: server/utilities/logging/opt-in-per-request, server/utilities/logging/at-or-above-level
    # spec: server/utilities/logging/set-level-honoured
    if lowest is None or LEVELS[level] < LEVELS[lowest] or context.is_over:
        return
    params: Json = {"level": level, "data": dump_any(data)}
    if logger is not None:
        params["logger"] = logger
    # spec: server/utilities/logging/request-scoped-only, server/utilities/logging/rate-limit-messages
    context.notify("notifications/message", params)


def _lowest_level(context: RequestContext) -> LoggingLevel | None:
    """The lowest level that is sent to the client of a request; None if no messages are sent.

    # spec: server/utilities/logging/capability-declared
    """
    if context.handling.server is not None and not context.handling.server.logging:
        return None  # a server that did not declare `logging` must not send messages
    return context.session.log_level or DEFAULT_LEVEL if context.session else context.reports.log_level


def level_of(number: int) -> LoggingLevel:
    """The level of the specification for a level number of Python's `logging`."""
    if number >= logging.CRITICAL:
        return "critical"
    if number >= logging.ERROR:
        return "error"
    if number >= logging.WARNING:
        return "warning"
    return "info" if number >= logging.INFO else "debug"


class _Bridge(logging.Handler):
    """A handler that sends each record as a log message of the current request."""

    def emit(self, record: logging.LogRecord) -> None:
        context = current.get()
        # Our own loggers log about the connection itself: sent over it, each message would cause the next.
        if context is None or record.name.partition(".")[0] == "mcp_ref":
            return
        try:
            log(context, level_of(record.levelno), self.format(record), record.name)
        except ConnectionClosed:
            pass
        except Exception:
            self.handleError(record)


def bridge(level: int = logging.NOTSET) -> logging.Handler:
    """A handler that sends the messages logged during a request to the client of that request.

    `logging.getLogger("my_library").addHandler(bridge())`. It sends the text of a message, and no traceback.
    """
    handler = _Bridge(level)
    handler.setFormatter(_NoTraceback())
    return handler


class _NoTraceback(logging.Formatter):
    """A formatter that leaves a traceback out: it shows the server's code, and names its files."""

    def format(self, record: logging.LogRecord) -> str:
        # Not super().format(): it would append a traceback that another handler has cached in the record.
        message, problem = record.getMessage(), record.exc_info[1] if record.exc_info else None
        return message if problem is None else f"{message}\n{type(problem).__name__}: {problem}"


# ----------------------------------------------------------------------- client half


OnLog: TypeAlias = Callable[[str, Any, str | None], object]
"""Called with the level, the data and the logger of a message."""


class LogReceiver:
    """Receives a server's log messages for an application: from which level on, and where they go."""

    def __init__(self, on_log: OnLog | None) -> None:
        self._on_log = on_log
        # A client with `on_log` gets as much in the modern era as it would by default in the legacy one.
        self.level: LoggingLevel | None = DEFAULT_LEVEL if on_log is not None else None
        self._first_level = self.level

    def set_level(self, client: Asks, at: Revision, level: LoggingLevel) -> None:
        """Request messages of this level and above: at once, or (modern) with each request from now on.

        # spec: server/utilities/logging/set-level
        """
        if not isinstance(level, str) or level not in LEVELS:
            raise ValueError(f"{level!r} is not a log level; the levels are {', '.join(LEVELS)}")
        if at.sets_log_level:
            client.request("logging/setLevel", {"level": level})
        self.level = level

    def renew(self, client: Asks, at: Revision) -> None:
        """Set the level again, in a new session, if it was set in the one before."""
        if self.level is not None and self.level != self._first_level:
            self.set_level(client, at, self.level)

    def on_message(self, params: Json) -> None:
        """Pass a message to the application; an invalid one is ignored.

        # spec: server/utilities/logging/validate-fields
        """
        level, logger = params.get("level"), params.get("logger")
        is_valid = isinstance(level, str) and level in LEVELS and "data" in params
        if is_valid and self._on_log is not None:
            self._on_log(typing.cast(str, level), params["data"], logger if isinstance(logger, str) else None)
