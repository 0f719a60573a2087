"""Roots (page: client/roots).

A client tells a server which directories the work is about:

    server -> client   roots/list                             -> {roots: [{uri, name?}]}
    client -> server   notifications/roots/list_changed       then ask again

Each is a file:// URI. They say where to look, and no more: a server that is to keep to them has to see to
it itself, with `within`.

Server half   `ListRoots` is the question, `listed` asks it if the answer is not known yet; `within`
Client half   `as_roots`: what an application may give; `answer`, `changed`

Revisions   2024-11-05  roots/list, asked by the server; notifications/roots/list_changed
            2025-06-18  + `_meta` on a root
            2026-07-28  asked by way of basic/patterns/mrtr, and no notification; deprecated
Errors      -32601  this client has no roots;   -32603  they cannot be told
Threads     `listed` runs on the request's worker; `on_list_changed` on the reader, and is quick. `answer`
            runs where api/callbacks has it run.
"""

from __future__ import annotations

import functools
import os
import re
import typing
import urllib.parse
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NotRequired, Required, TypedDict

from mcp_ref.basic.index.error_responses import (
    InternalError,
    InvalidParams,
    MethodNotFound,
)
from mcp_ref.basic.index.general_fields import RequestParams
from mcp_ref.basic.index.messages import Json
from mcp_ref.basic.patterns.mrtr.basic_workflow import InputRequestType, Question, ask
from mcp_ref.basic.versioning import LATEST, Method, Notification
from mcp_ref.runtime.errors import InvalidResponse
from mcp_ref.runtime.logs import logger
from mcp_ref.schema import Bounds, Mismatch, checker, pruner, since, until, was

if TYPE_CHECKING:
    from mcp_ref.basic.patterns.index.context import RequestContext
    from mcp_ref.basic.versioning import Revision

__all__ = ["ListRoots", "Root", "as_roots", "path_of", "within"]

_log = logger("mcp_ref.roots")

MAX_ROOTS = 1000

# ---------------------------------------------------------------------------- shapes


class BareParams(TypedDict, total=False):
    """Of a request inside an InputRequiredResult: no protocol version, no capabilities."""

    _meta: Json


class Root(TypedDict, total=False):
    uri: Required[Annotated[str, Bounds(format="uri")]]
    name: str
    _meta: Annotated[Json, since("2025-06-18")]


class ListRootsResult(TypedDict, total=False):
    _meta: Annotated[Json, until("2025-11-25")]
    roots: Required[list[Root]]


DEFINITIONS: dict[str, Any] = {"Root": Root}

# ------------------------------------------------------------------------- file:// URIs

# RFC 3986, "pchar" and "/". What stands for a slash or for NUL is no part of any name.
_PATH = re.compile(r"/(?:[A-Za-z0-9._~!$&'()*+,;=:@/-]|%(?!00|2[Ff])[0-9A-Fa-f]{2})*")
_FILE = "file://"


def path_of(uri: str) -> Path:
    """The path that a file:// URI names, on this machine. Raises ValueError.

    # spec: client/roots/uri-file-scheme
    """
    if not isinstance(uri, str) or not uri.startswith(_FILE):
        raise ValueError(f"{uri!r:.200} is no file:// URI")
    host, slash, rest = uri.removeprefix(_FILE).partition("/")
    if host not in ("", "localhost"):
        raise ValueError(f"{uri!r:.200} names a file of another machine, {host!r:.80}")
    if not _PATH.fullmatch(slash + rest):
        raise ValueError(f"{uri!r:.200} is no file:// URI: its path is absolute, without query or fragment")
    return Path(os.fsdecode(urllib.parse.unquote_to_bytes(slash + rest)))


# ----------------------------------------------------------------------- server half


def needs(params: Json, at: Revision) -> Json:
    """The capability that a client declares in order to be asked this.

    # spec: client/roots/check-capability
    """
    return {"roots": {}}


@dataclass(frozen=True)
class ListRoots:
    """Which directories is the work about?"""

    def question(self, context: RequestContext) -> Question:
        """# spec: client/roots/list-input-request"""
        return Question(
            "roots/list", {}, needs({}, context.revision), functools.partial(_read, context.revision.date)
        )


def _read(date: str, result: Json) -> list[Root]:
    """The client's roots, checked."""
    try:
        checker(ListRootsResult, date)(result)
        return _checked(result["roots"])
    except Mismatch as problem:
        raise InvalidResponse(f"roots/list: {problem}") from None


def _checked(roots: list[Any]) -> list[Root]:
    """Raises Mismatch unless each has a URI that can be a root."""
    if len(roots) > MAX_ROOTS:
        raise Mismatch(f"there are {len(roots)}, more than {MAX_ROOTS}", ("roots",))
    for index, root in enumerate(roots):
        try:
            path_of(root["uri"])
        except ValueError as problem:
            raise Mismatch(str(problem), ("roots", index, "uri")) from None
    return roots


def listed(context: RequestContext) -> list[Root]:
    """The roots of the client that made this request.

    In the legacy era they are asked for once, if the client declared that it tells of changes.
    # spec: client/roots/cache-roots, client/roots/informational
    """
    session: Any = context.session
    if session is None or not context.client_capabilities.get("roots", {}).get("listChanged"):
        return _asked_now(context)
    if isinstance(session.roots, list):
        return list(session.roots)
    mark = session.roots = _Asked()
    roots = _asked_now(context)
    if session.roots is mark:  # else they changed meanwhile
        session.roots = roots
    return list(roots)


def _asked_now(context: RequestContext) -> list[Root]:
    roots: list[Root] = ask(context, [ListRoots().question(context)])[0]
    return roots


class _Asked:
    """Stands in a session for the roots that were asked for."""


def on_list_changed(connection: Any) -> None:
    """What was known is void.

    # spec: client/roots/handle-list-changes, schema/roots-relist
    """
    connection.session.roots = None


def within(path: str | os.PathLike[str], roots: Iterable[Root]) -> bool:
    """Whether a path (or a file:// URI) is one of the roots or in one; a relative one begins where we are.

    Links and `..` are resolved, in the roots too. What does not exist is where it would be. It is of now:
    whoever may write there can put a link in its place before it is opened.
    # spec: client/roots/validate-paths
    """
    directories = [Path(os.path.realpath(path_of(root["uri"]))) for root in roots]
    try:
        is_uri = isinstance(path, str) and path.startswith(_FILE)
        resolved = Path(os.path.realpath(path_of(str(path)) if is_uri else path))
    except ValueError:  # no path at all: a NUL in it, a URI of another machine
        return False
    return any(resolved.is_relative_to(directory) for directory in directories)


# ----------------------------------------------------------------------- client half


def as_roots(given: Iterable[Any]) -> list[Root]:
    """Roots, from paths, file:// URIs and dicts with a `uri`. Raises ValueError, TypeError.

    # spec: client/roots/validate-uris, client/roots/validate-accessibility, client/roots/result-shape
    """
    if isinstance(given, str | bytes | os.PathLike | dict):
        raise TypeError(f"roots is a list, not {given!r:.100}")
    roots: dict[str, Root] = {}
    for index, item in enumerate(given):
        if index >= MAX_ROOTS:
            raise ValueError(f"roots are {MAX_ROOTS} at most")
        try:
            root = _root(item)
        except ValueError as problem:
            raise ValueError(f"roots[{index}]: {problem}") from None
        if root["uri"] in roots:
            raise ValueError(f"roots[{index}]: {root['uri']} is there twice")
        roots[root["uri"]] = root
    return list(roots.values())


def _root(item: Any) -> Root:
    if isinstance(item, dict):
        checker(Root, LATEST.date)(item)
        return typing.cast(Root, {**item, "uri": _safe(item["uri"])})
    if isinstance(item, str) and re.match("[A-Za-z][A-Za-z0-9+.-]*://", item):
        return {"uri": _safe(item)}
    path = Path(item).absolute()  # links keep the names they have
    path = path.resolve() if ".." in path.parts else path
    if not path.exists():
        raise ValueError(f"{path} does not exist")
    return {"uri": path.as_uri()}


def _safe(uri: str) -> str:
    """A URI that does not lead out of what it seems to name."""
    if ".." in path_of(uri).parts:
        raise ValueError(f"{uri!r:.200} has `..` in it")
    return uri


def answer(client: Any, params: Json, context: RequestContext | None) -> Json:
    """The roots as they are now.

    # spec: client/roots/list-request, client/roots/errors, client/roots/failure-needs-no-replay
    """
    callbacks = client.callbacks
    if callbacks.roots is None:  # spec: client/roots/unsupported-32601
        reason = {"reason": "the client does not have the roots capability"}
        raise MethodNotFound("roots/list: this client has no roots", data=reason)
    date = client.revision.date
    try:
        checker(BareParams, date)(params)
    except Mismatch as problem:
        raise InvalidParams(f"roots/list: {problem}") from None
    given = callbacks.roots
    if callable(given):
        given = callbacks.run(given, context=context)
    try:
        roots = as_roots(given)
    except (ValueError, TypeError) as problem:
        _log.error("the roots of this client cannot be told: %s", problem)
        raise InternalError(f"roots/list: {problem}") from None
    return pruner(ListRootsResult, date)({"roots": roots})


def changed(client: Any) -> None:
    """Tell the server that there are other roots now. In 2026-07-28, where it asks each time, do nothing.

    # spec: client/roots/list-changed, schema/roots-notify-any-change
    """
    if not client.revision.modern and client.capabilities.get("roots", {}).get("listChanged"):
        client.notify("notifications/roots/list_changed")


INPUT_REQUEST = InputRequestType(
    "roots/list",
    needs,
    lambda params, context: ListRoots().question(context),
    lambda result, date: checker(ListRootsResult, date)(result),
    answer,
)
"""What a server may ask of its client."""

METHODS = (
    Method(
        "roots/list",
        answer,
        # In an InputRequiredResult, its `_meta` repeats nothing of what each request of a client says.
        params=NotRequired[Annotated[BareParams, was(RequestParams, until="2025-11-25")]],
        result=ListRootsResult,
        sender="server",
    ),
)
NOTIFICATIONS = (
    Notification("notifications/roots/list_changed", "RootsListChanged", "client", until="2025-11-25"),
)
