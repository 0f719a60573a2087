"""Tasks as of 2025-11-25 (page: basic/utilities/tasks): the one shape that other pages refer to.

Revisions   2025-11-25 only; an extension in 2026-07-28.
"""

from __future__ import annotations

from typing import Annotated, Any, TypedDict

from mcp_ref.schema import since, until

__all__ = ["TaskMetadata"]


class TaskMetadata(TypedDict, total=False):
    """On a request: run this as a task, and keep its result for so many milliseconds."""

    ttl: int


DEFINITIONS: dict[str, Any] = {
    "TaskMetadata": Annotated[TaskMetadata, since("2025-11-25"), until("2025-11-25")]
}
