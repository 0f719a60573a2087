"""Logging (page: server/utilities/logging).

A server sends its client structured log messages, as loud as the client wants them:

    notifications/message {level, logger?, data}

`ctx.log("info", {...})` sends one. `bridge()` returns a handler for Python's own `logging`, so that
what a library logs while a request runs reaches the client of that request.

Revisions   2024-11-05  the client sets the level of the session: logging/setLevel
            2026-07-28  each request names its level in `_meta`; without it nothing is sent; the
                        feature is deprecated in favour of stderr

Levels are those of syslog, debug to emergency. Before a legacy client sets one, "info" applies.

Threads     `log` runs on whichever thread works on the request. `bridge` finds the request of the
            current thread by the variable `current`.
"""

from __future__ import annotations

import logging
from contextvars import ContextVar
from typing import TYPE_CHECKING, Annotated, Any, Literal, Required, TypeAlias, TypedDict

from mcp_ref.basic.index.general_fields import NotificationMeta, RequestMeta
from mcp_ref.basic.index.messages import Json
from mcp_ref.basic.versioning import Method, Notification
from mcp_ref.runtime.errors import ConnectionClosed
from mcp_ref.runtime.typing.values import dump_any
from mcp_ref.schema import since

if TYPE_CHECKING:
    from mcp_ref.basic.patterns.index.context import RequestContext

__all__ = ["LEVELS", "LoggingLevel", "bridge", "log"]

# ---------------------------------------------------------------------------- shapes

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
UNSET: LoggingLevel = "info"  # spec: server/utilities/logging/default-level-by-server

current: ContextVar[RequestContext | None] = ContextVar("mcp_ref request", default=None)
"""The request that this thread works on."""

# ----------------------------------------------------------------------- server half


def on_set_level(server: Any, params: Json, context: RequestContext) -> Json:
    """From now on, only messages at this level or above.

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
    """Send one message that belongs to a request, if its client wants to hear it."""
    if level not in LEVELS:
        raise ValueError(f"{level!r} is no log level; there are {', '.join(LEVELS)}")
    wanted = _wanted(context)
    # spec: server/utilities/logging/opt-in-per-request, server/utilities/logging/at-or-above-level
    # spec: server/utilities/logging/set-level-honoured
    if wanted is None or LEVELS[level] < LEVELS[wanted] or context.is_over:
        return
    params: Json = {"level": level, "data": dump_any(data)}
    if logger is not None:
        params["logger"] = logger
    # spec: server/utilities/logging/request-scoped-only, server/utilities/logging/rate-limit-messages
    context.notify("notifications/message", params)


def _wanted(context: RequestContext) -> LoggingLevel | None:
    """The level from which the client of a request wants to hear; None if it wants nothing.

    # spec: server/utilities/logging/capability-declared
    """
    if context.server is not None and not context.server.logging:
        return None  # nothing was declared, so nothing is sent
    return context.session.log_level or UNSET if context.session else context.log_level


def level_of(number: int) -> LoggingLevel:
    """The level for one of Python's."""
    if number >= logging.CRITICAL:
        return "critical"
    if number >= logging.ERROR:
        return "error"
    if number >= logging.WARNING:
        return "warning"
    return "info" if number >= logging.INFO else "debug"


class _Bridge(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        context = current.get()
        # Our own loggers speak of the connection itself: what they say must not travel on it.
        if context is None or record.name.partition(".")[0] == "mcp_ref":
            return
        try:
            log(context, level_of(record.levelno), self.format(record), record.name)
        except ConnectionClosed:
            pass
        except Exception:
            self.handleError(record)


def bridge(level: int = logging.NOTSET) -> logging.Handler:
    """A handler that sends what is logged during a request to that request's client.

    `logging.getLogger("my_library").addHandler(bridge())`. It sends text, not tracebacks.
    """
    handler = _Bridge(level)
    handler.setFormatter(_NoTraceback())
    return handler


class _NoTraceback(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        # Not the base's way, which takes a traceback that another handler left in the record.
        said, problem = record.getMessage(), record.exc_info[1] if record.exc_info else None
        return said if problem is None else f"{said}\n{type(problem).__name__}: {problem}"


# ----------------------------------------------------------------------- client half


def set_level(client: Any, level: LoggingLevel) -> None:
    """Ask for messages of this level and above, in the way of the client's era.

    # spec: server/utilities/logging/set-level
    """
    if not isinstance(level, str) or level not in LEVELS:
        raise ValueError(f"{level!r} is no log level; there are {', '.join(LEVELS)}")
    if not client.revision.modern:
        client.request("logging/setLevel", {"level": level})
    client.log_level = level


OnLog: TypeAlias = Any
"""A callback `on_log(level, data, logger)`."""


def on_message(client: Any, params: Json) -> None:
    """A message arrived. What is not one is ignored.  # spec: server/utilities/logging/validate-fields"""
    level, logger = params.get("level"), params.get("logger")
    known = isinstance(level, str) and level in LEVELS
    if known and "data" in params and client.on_log is not None:
        client.on_log(level, params["data"], logger if isinstance(logger, str) else None)
