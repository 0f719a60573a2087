"""The server of a Django project: tools that use its models."""

from collections.abc import Callable
from typing import Any

from django.contrib.auth.models import User
from django.db import close_old_connections

from mcp_ref import Context, Server

server = Server("site")


@server.around
def with_fresh_connections(ctx: Context, params: Any, proceed: Callable[[Any], Any]) -> Any:
    """What Django does around a view: a connection to the database that is too old is not used again."""
    close_old_connections()
    try:
        return proceed(params)
    finally:
        close_old_connections()


@server.tool(annotations={"readOnlyHint": True})
def users() -> list[str]:
    """The names of all users."""
    return list(User.objects.order_by("username").values_list("username", flat=True))


@server.tool
def add_user(name: str) -> None:
    """Add a user, who cannot log in yet."""
    User.objects.create_user(name)
