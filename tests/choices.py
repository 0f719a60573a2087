"""Keywords as `Server`, `wsgi_app` and `connect` take them, for tests whose parameters are any of them."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from mcp_ref import ClientOptions, HttpOptions, ServerOptions

Keywords = dict[str, Any]


def for_server(given: Keywords) -> Keywords:
    """The rare ones are in a ServerOptions."""
    return _sorted(given, ServerOptions)


def for_http(given: Keywords) -> Keywords:
    """The rare ones are in an HttpOptions."""
    return _sorted(given, HttpOptions)


def for_connect(**given: Any) -> Keywords:
    """The rare ones are in a ClientOptions."""
    return _sorted(given, ClientOptions)


def _sorted(given: Keywords, kind: type[Any]) -> Keywords:
    rare = {field.name for field in fields(kind)} & given.keys()
    if not rare:
        return given
    everyday = {name: value for name, value in given.items() if name not in rare}
    return {**everyday, "options": kind(**{name: given[name] for name in rare})}
