"""Roots (page: client/roots).

A client tells a server which directories the work is about:

    server -> client   roots/list                             -> {roots: [{uri, name?}]}
    client -> server   notifications/roots/list_changed       then the server asks again

Each is a file:// URI. Roots are guidance: a server that must not leave them has to check each path itself,
with `within`.

Server half   `ListRoots` is the question, `list_roots` asks it unless the answer is known; `within`
Client half   `as_roots`: paths, URIs and dicts -> roots; `answer`, `notify_changed`

Revisions   2024-11-05  roots/list, asked by the server; notifications/roots/list_changed
            2025-06-18  + `_meta` on a root
            2026-07-28  asked by way of basic/patterns/mrtr, and no notification; deprecated
Errors      -32601  the client has no roots;   -32603  its application gave invalid ones
Threads     `list_roots` runs on the thread of the request; `on_list_changed` on the reader, which it does
            not block. `answer` runs on a worker in the legacy era, on the caller's thread in the modern; an
            application's function for roots runs on a thread of api/callbacks.
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

from mcp_ref.basic.index.error_responses import InternalError, InvalidParams, MethodNotFound
from mcp_ref.basic.index.general_fields import RequestParams
from mcp_ref.basic.index.messages import Json
from mcp_ref.basic.patterns.mrtr.basic_workflow import InputRequestType, Question, ask
from mcp_ref.basic.versioning import LATEST, Method, Notification
from mcp_ref.runtime.errors import InvalidResponse
from mcp_ref.runtime.logs import logger
from mcp_ref.schema import Mismatch, checker, pruner, since, until, was

if TYPE_CHECKING:
    from mcp_ref.basic.lifecycle import Negotiated
    from mcp_ref.basic.patterns.index.connection import Connection
    from mcp_ref.basic.patterns.index.context import RequestContext
    from mcp_ref.basic.patterns.mrtr.basic_workflow import AnswersServers
    from mcp_ref.basic.versioning import Revision

__all__ = ["ListRoots", "Root", "as_roots", "path_of", "within"]

_log = logger("mcp_ref.roots")

MAX_ROOTS = 1000
"""Roots of one client."""

# ---------------------------------------------------------------------------- shapes


class BareParams(TypedDict, total=False):
    """Params of a request inside an InputRequiredResult, whose `_meta` has no protocol version."""

    _meta: Json


class Root(TypedDict, total=False):
    uri: Required[Annotated[str, {"format": "uri"}]]
    name: str
    _meta: Annotated[Json, since("2025-06-18")]


class ListRootsResult(TypedDict, total=False):
    _meta: Annotated[Json, until("2025-11-25")]
    roots: Required[list[Root]]


DEFINITIONS: dict[str, Any] = {"Root": Root}

# spec: client/roots/capability-at-initialize, client/roots/capability-per-request
CAPABILITY: Json = {"listChanged": True}
"""What a client with roots declares; `listChanged` is left out where the revision does not have it."""

# ------------------------------------------------------------------------- file:// URIs

# RFC 3986, "pchar" and "/". An encoded slash or NUL is refused: no file name can have one.
_FILE_PATH = re.compile(r"/(?:[A-Za-z0-9._~!$&'()*+,;=:@/-]|%(?!00|2[Ff])[0-9A-Fa-f]{2})*")
_FILE_PREFIX = "file://"


def path_of(uri: str) -> Path:
    """The path that a file:// URI names, on this machine. Raises ValueError.

    # spec: client/roots/uri-file-scheme
    """
    if not isinstance(uri, str) or not uri.startswith(_FILE_PREFIX):
        raise ValueError(f"{uri!r:.200} is not a file:// URI")
    host, slash, rest = uri.removeprefix(_FILE_PREFIX).partition("/")
    if host not in ("", "localhost"):
        raise ValueError(f"{uri!r:.200} names a file of another machine, {host!r:.80}")
    if not _FILE_PATH.fullmatch(slash + rest):
        raise ValueError(f"{uri!r:.200} is not a file:// URI with an absolute path, no query and no fragment")
    return Path(os.fsdecode(urllib.parse.unquote_to_bytes(slash + rest)))


# ----------------------------------------------------------------------- server half


def needs(params: Json, at: Revision) -> Json:
    """The capability that a client must have declared for such a request.

    # spec: client/roots/check-capability
    """
    return {"roots": {}}


@dataclass(frozen=True)
class ListRoots:
    """The question for the client's roots."""

    def question(self, context: RequestContext) -> Question:
        """The roots/list request, and how its result is read.  # spec: client/roots/list-input-request"""
        read = functools.partial(_read, context.revision.date)
        return Question("roots/list", {}, needs({}, context.revision), read)


def _read(date: str, result: Json) -> list[Root]:
    """The roots of a client's result. Raises InvalidResponse."""
    try:
        checker(ListRootsResult, date)(result)
        _check_roots(result["roots"])
    except Mismatch as problem:
        raise InvalidResponse(f"roots/list: {problem}") from None
    roots: list[Root] = result["roots"]
    return roots


def _check_roots(roots: list[Any]) -> None:
    """Check that there are not too many roots, and that each has a file:// URI. Raises Mismatch."""
    if len(roots) > MAX_ROOTS:
        raise Mismatch(f"there are {len(roots)}, more than {MAX_ROOTS}", ("roots",))
    for index, root in enumerate(roots):
        try:
            path_of(root["uri"])
        except ValueError as problem:
            raise Mismatch(str(problem), ("roots", index, "uri")) from None


def list_roots(context: RequestContext) -> list[Root]:
    """The roots of the client that made this request.

    In the legacy era they are requested once in a session, if the client declared `listChanged`.
    # spec: client/roots/cache-roots, client/roots/informational
    """
    session: Any = context.session
    if session is None or not context.client_capabilities.get("roots", {}).get("listChanged"):
        return _request_roots(context)
    if isinstance(session.roots, list):
        return list(session.roots)
    # One object for each request, not a constant: after a change, another request may be pending, and the
    # roots from before the change must not be stored in its place.
    pending = session.roots = object()
    roots = _request_roots(context)
    if session.roots is pending:
        session.roots = roots
    return list(roots)


def _request_roots(context: RequestContext) -> list[Root]:
    roots: list[Root] = ask(context, [ListRoots().question(context)])[0]
    return roots


def on_list_changed(connection: Connection) -> None:
    """Forget the roots of a session: the client has others now.

    # spec: client/roots/handle-list-changes, schema/roots-relist
    """
    connection.session.roots = None


def within(path: str | os.PathLike[str], roots: Iterable[Root]) -> bool:
    """Whether a path (or a file:// URI) is one of the roots or below one. It may be relative.

    Links and `..` are resolved, in the roots too; a path need not exist. The answer holds for now only: a
    user who may write there can replace a directory by a link before the path is opened.
    # spec: client/roots/validate-paths
    """
    directories = [Path(os.path.realpath(path_of(root["uri"]))) for root in roots]
    try:
        is_uri = isinstance(path, str) and path.startswith(_FILE_PREFIX)
        resolved = Path(os.path.realpath(path_of(str(path)) if is_uri else path))
    except ValueError:  # not a path of this machine: it has a NUL, or is a URI of another machine
        return False
    return any(resolved.is_relative_to(directory) for directory in directories)


# ----------------------------------------------------------------------- client half


def as_roots(given: Iterable[Any]) -> list[Root]:
    """Roots, from paths, file:// URIs and dicts with a `uri`. Raises ValueError, TypeError.

    # spec: client/roots/validate-uris, client/roots/validate-accessibility, client/roots/result-shape
    """
    if isinstance(given, str | bytes | os.PathLike | dict):
        raise TypeError(f"roots must be a list, not {given!r:.100}")
    roots: dict[str, Root] = {}
    for index, item in enumerate(given):
        if index >= MAX_ROOTS:
            raise ValueError(f"there can be at most {MAX_ROOTS} roots")
        try:
            root = _root(item)
        except ValueError as problem:
            raise ValueError(f"roots[{index}]: {problem}") from None
        if root["uri"] in roots:
            raise ValueError(f"roots[{index}]: {root['uri']} is in the list twice")
        roots[root["uri"]] = root
    return list(roots.values())


def _root(item: Any) -> Root:
    if isinstance(item, dict):
        checker(Root, LATEST.date)(item)
        return typing.cast(Root, {**item, "uri": _without_dots(item["uri"])})
    if isinstance(item, str) and re.match("[A-Za-z][A-Za-z0-9+.-]*://", item):
        return {"uri": _without_dots(item)}
    path = Path(item).absolute()  # not resolve(): the user knows a directory by the name of its link
    path = path.resolve() if ".." in path.parts else path
    if not path.exists():
        raise ValueError(f"{path} does not exist")
    return {"uri": path.as_uri()}


def _without_dots(uri: str) -> str:
    """The same URI; ValueError if it has `..`, which leads out of the directory that it seems to name."""
    if ".." in path_of(uri).parts:
        raise ValueError(f"{uri!r:.200} has `..` in it")
    return uri


def answer(client: AnswersServers, params: Json, context: RequestContext | None) -> Json:
    """Answer roots/list with the application's current roots.

    # spec: client/roots/list-request, client/roots/errors, client/roots/failure-needs-no-replay
    """
    callbacks = client.callbacks
    if callbacks.roots is None:  # spec: client/roots/unsupported-32601
        reason = {"reason": "the client does not have the roots capability"}
        raise MethodNotFound("roots/list: this client has no roots", data=reason)
    date = client.negotiated.revision.date
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
        _log.error("the roots of this client cannot be sent: %s", problem)
        raise InternalError(f"roots/list: {problem}") from None
    return pruner(ListRootsResult, date)({"roots": roots})


def notify_changed(negotiated: Negotiated, connection: Connection) -> None:
    """Notify the server that the roots have changed; not in 2026-07-28, where a server asks each time.

    # spec: client/roots/list-changed, schema/roots-notify-any-change
    """
    if negotiated.revision.reports_roots and negotiated.capabilities.get("roots", {}).get("listChanged"):
        connection.notify("notifications/roots/list_changed")


INPUT_REQUEST = InputRequestType(
    "roots/list",
    needs,
    lambda params, context: ListRoots().question(context),
    lambda result, date: checker(ListRootsResult, date)(result),
    answer,
)
"""The row for roots among the requests that a server may make of its client."""

METHODS = (
    Method(
        "roots/list",
        answer,
        # A request in an InputRequiredResult has no protocol version and no capabilities in its `_meta`.
        params=NotRequired[Annotated[BareParams, was(RequestParams, until="2025-11-25")]],
        result=ListRootsResult,
        sender="server",
    ),
)
NOTIFICATIONS = (
    Notification("notifications/roots/list_changed", "RootsListChanged", "client", until="2025-11-25"),
)
