"""What tools, resources and prompts have in common: title, description, icons, `_meta`, scopes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from mcp_ref.basic.index.general_fields import Icon, check_icons, check_meta
from mcp_ref.basic.index.messages import Json
from mcp_ref.runtime.typing.docstrings import description_of

__all__ = ["common_members", "name_of", "scopes_of"]


def name_of(function: Callable[..., Any], name: str | None) -> Any:
    """The name that was given, or the function's own. Its callers check whether it is a valid name."""
    return name if name is not None else str(getattr(function, "__name__", ""))


def common_members(
    function: Callable[..., Any],
    title: str | None,
    description: str | None,
    icons: list[Icon] | None,
    meta: Json | None,
) -> Json:
    """The members that were given. By default the description is from the docstring. Raises ValueError."""
    members = {
        "title": title,
        "description": description if description is not None else description_of(function),
        "icons": None if icons is None else check_icons(icons),
        "_meta": None if meta is None else check_meta(meta),
    }
    return {name: member for name, member in members.items() if member is not None}


def scopes_of(scopes: Iterable[str]) -> tuple[str, ...]:
    """The scopes that a token needs for one item (api/resource_server). Raises TypeError, ValueError."""
    if not scopes:
        return ()
    # Imported here for start-up time: a server on a pipe has no use for it.
    from mcp_ref.basic.authorization.index.error_handling import check_scopes

    return check_scopes(scopes)
