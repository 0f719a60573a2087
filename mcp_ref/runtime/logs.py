"""The loggers of this package: a record is one line, whatever text from a peer is in it.

A server's error message may hold line breaks, and after each of them something that looks like a record of
ours; or escape sequences, which control the terminal on which the log is read. So the message is escaped, and
the lines of a traceback are indented, since exceptions have messages too.

A filter of each logger does this, not a formatter: formatters belong to the application.

Threads     any.
"""

from __future__ import annotations

import logging
import traceback

from mcp_ref.runtime.untrusted_text import one_line, plain

__all__ = ["logger"]

TRACEBACK_INDENT = "  "


def logger(name: str) -> logging.Logger:
    """The logger of this name, with the filter that escapes its records."""
    found = logging.getLogger(name)
    if _escape not in found.filters:
        found.addFilter(_escape)
    return found


def _escape(record: logging.LogRecord) -> bool:
    """Escape a record that will be logged. A filter, which lets everything pass."""
    try:
        message = record.getMessage()
    except Exception:  # logging itself reports what is wrong with it
        return True
    if not message.isprintable():
        record.msg, record.args = one_line(message), None
    if record.exc_info and record.exc_info[0] is not None and not record.exc_text:
        lines = "".join(traceback.format_exception(*record.exc_info)).splitlines()
        record.exc_text = "\n".join(TRACEBACK_INDENT + plain(line) for line in lines)
    return True
