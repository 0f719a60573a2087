"""Changing a tool while clients are connected: they are told of each change (page: server/tools, "List
Changed Notification").

    handle = server.add_tool(search)        or, for a tool that exists: ToolHandle(server, "search")
    handle.disable()                        not listed, and not called
    handle.enable()                         there again, at the end of the list
    handle.update(description="Search all notes.")
    handle.update(search_faster)            another function, under the same name
    handle.remove()

Errors      KeyError for a tool that was removed; ValueError, TypeError as `add_tool` has them.
Threads     any. A call that is running goes on with the tool as it was.
"""

from __future__ import annotations

import threading
import typing
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from mcp_ref.api.from_function.tool import tool_from
from mcp_ref.basic.index.messages import encode
from mcp_ref.runtime.checks import check_names, keywords_of
from mcp_ref.runtime.threads import forks
from mcp_ref.schema import REVISIONS, checker
from mcp_ref.server.tools import RegisteredTool, Tool
from mcp_ref.server.utilities.pagination import PagedList

if TYPE_CHECKING:
    from mcp_ref.api.registering import Handlers
    from mcp_ref.basic.utilities.tasks.behavior_requirements import Receiver

__all__ = ["ToolHandle", "register"]

MEMBERS = {
    "title": "title",
    "description": "description",
    "icons": "icons",
    "annotations": "annotations",
    "meta": "_meta",
}
"""What `update` can change without another function: option -> member of the definition."""


class HasTools(Protocol):
    """What a handle needs of the server."""

    handlers: Handlers
    tasks: Receiver
    tools: PagedList[RegisteredTool]


def register(server: HasTools, tool: RegisteredTool, *, replace: bool = False) -> None:
    """Add a tool to the server's list, where clients see it; with `replace`, in place of its namesake."""
    server.handlers.note_scopes(f"the tool {tool.definition['name']}", tool.scopes)
    server.tools.add(tool, replace=replace)
    if tool.task_support != "forbidden":
        server.tasks.is_offered = True


class ToolHandle:
    """One tool of a server."""

    def __init__(self, server: HasTools, name: str) -> None:
        """Raises KeyError if there is no such tool."""
        self.name = name
        self._server, self._tools = server, server.tools
        self._changing = threading.Lock()
        self._disabled: RegisteredTool | None = None  # guarded by _changing
        forks.register(self)
        self._tool()

    def forked(self) -> None:
        """Replace the lock in a forked child: another thread may have held it."""
        self._changing = threading.Lock()

    def __repr__(self) -> str:
        return f"<ToolHandle {self.name}{'' if self.is_enabled else ', disabled'}>"

    def _tool(self) -> RegisteredTool:
        tool = self._disabled or self._tools.get(self.name)
        if tool is None:
            raise KeyError(f"there is no {self.name!r} among the tools")
        return tool

    @property
    def is_enabled(self) -> bool:
        """Whether clients see it."""
        return self._disabled is None

    def disable(self) -> None:
        """Hide it from clients, who cannot call it either; twice does no harm."""
        with self._changing:
            if self._disabled is None:
                tool = self._tool()
                self._tools.remove(self.name)
                self._disabled = tool

    def enable(self) -> None:
        """Offer it again; twice does no harm. Raises ValueError if another tool has taken its name."""
        with self._changing:
            if self._disabled is not None:
                register(self._server, self._disabled)
                self._disabled = None

    def update(self, function: Callable[..., Any] | None = None, /, **options: Any) -> None:
        """Replace the function under this name, or change title, description, icons, annotations or meta.

        With a function, `options` are those of `add_tool` except the name. What they leave out is taken from
        the function, not from the old tool.
        """
        known = [name for name in keywords_of(tool_from) if name != "name"]
        check_names("ToolHandle.update", options, known)
        with self._changing:
            tool = self._tool()
            if function is not None:
                made = tool_from(function, name=self.name, **options)
            else:
                made = replace(tool, definition=_changed(tool.definition, options))
            if self._disabled is None:
                register(self._server, made, replace=True)
            else:
                self._disabled = made

    def remove(self) -> None:
        """Remove it for good."""
        with self._changing:
            if self._disabled is None:
                self._tools.remove(self.name)
            self._disabled = None


def _changed(definition: Tool, options: dict[str, Any]) -> Tool:
    """A definition with some members changed; None removes one. Raises TypeError, ValueError."""
    if unknown := [name for name in options if name not in MEMBERS]:
        known = ", ".join(MEMBERS)
        raise TypeError(f"update changes {known}; pass a function for {unknown[0]}")
    made: dict[str, Any] = {**definition, **{MEMBERS[name]: value for name, value in options.items()}}
    made = {name: value for name, value in made.items() if value is not None}
    checker(Tool, REVISIONS[-1])(made)
    encode(made)  # so that a value with no JSON form fails here, not at the first client
    return typing.cast(Tool, made)
