"""The audit: one line for each tool call, on either side, for the logger `mcp_ref.audit`.

What a stranger wrote cannot begin a line of its own. Arguments are left out unless they are asked for.

Threads     plain functions; a line is written by the thread that ends the call.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from mcp_ref.runtime.logs import logger

__all__ = ["is_kept", "record"]

_audit = logger("mcp_ref.audit")


def is_kept() -> bool:
    """Whether anybody keeps these lines: else there is no need to make them."""
    return _audit.isEnabledFor(logging.INFO)


def record(what: str, params: Mapping[str, Any], outcome: str, who: str, with_arguments: bool) -> None:
    """One call: `what` ("made" or "served"), for whom, and how it ended.  # spec: server/tools/log-usage"""
    arguments = f" {_quoted(params.get('arguments', {}), 2000)}" if with_arguments else ""
    name, who, outcome = _quoted(params.get("name"), 128), _quoted(who, 128), _quoted(outcome, 300)
    _audit.info("%s tools/call %s for %s: %s%s", what, name, who, outcome, arguments)


def _quoted(value: Any, most: int) -> str:
    """What a stranger wrote, in one line."""
    text = value if isinstance(value, str) else repr(value)
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text[:most])
