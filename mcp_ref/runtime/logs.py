"""The loggers of this package: a record is one line, whatever a peer's text in it holds.

A server's error message may have line breaks in it, and after each what looks like a record of ours; or
escape sequences, which steer the terminal on which the log is read. So what cannot be printed is escaped in
the message, and the lines of a traceback are indented, since exceptions have messages too.

Threads     any.
"""

from __future__ import annotations

import logging
import traceback

from mcp_ref.runtime.untrusted_text import one_line, plain

__all__ = ["logger"]

INDENT = "  "


def logger(name: str) -> logging.Logger:
    """The logger of that name."""
    found = logging.getLogger(name)
    if _one_line not in found.filters:
        found.addFilter(_one_line)
    return found


def _one_line(record: logging.LogRecord) -> bool:
    """Runs for what is logged at all; lets everything pass."""
    try:
        message = record.getMessage()
    except Exception:  # logging itself says what is wrong with it
        return True
    if not message.isprintable():
        record.msg, record.args = one_line(message), None
    if record.exc_info and record.exc_info[0] is not None and not record.exc_text:
        lines = "".join(traceback.format_exception(*record.exc_info)).splitlines()
        record.exc_text = "\n".join(INDENT + plain(line) for line in lines)
    return True
