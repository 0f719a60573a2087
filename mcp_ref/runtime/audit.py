"""The audit: one log line for each call of a tool, on either side, in the logger `mcp_ref.audit`.

Text from a peer is escaped, so that it cannot begin a line of its own. Arguments are left out unless the user
asks for them.

Threads     plain functions; a line is written by the thread that ends the call.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from mcp_ref.runtime.logs import logger
from mcp_ref.runtime.untrusted_text import one_line

__all__ = ["log", "record"]

log = logger("mcp_ref.audit")
"""Before `record` is called, ask whether it is enabled for INFO: if not, no line need be made."""


def record(what: str, params: Mapping[str, Any], outcome: str, who: str, with_arguments: bool) -> None:
    """Log one call that has ended, and how.

    `what` is "made", and `who` the server, or "served", and `who` the principal.
    """
    arguments = f" {_shortened(params.get('arguments', {}), 2000)}" if with_arguments else ""
    name, who, outcome = _shortened(params.get("name"), 128), _shortened(who, 128), _shortened(outcome, 300)
    log.info("%s tools/call %s for %s: %s%s", what, name, who, outcome, arguments)


def _shortened(value: Any, max_characters: int) -> str:
    text = value if isinstance(value, str) else repr(value)
    return one_line(text[:max_characters])


def record_task(event: str, method: str, task_id: str, who: str | None) -> None:
    """Log one event in the life of a task. Its id may be a key to it, so only the beginning is shown."""
    if log.isEnabledFor(logging.INFO):
        log.info("task %s of %s for %s: %s", task_id[:8], method, _shortened(who or "-", 128), event)
