"""Directories of real files as resources (page: server/resources, "file://").

    server.add_directory("handbook")                            file:///srv/handbook/first%20steps.md
    server.add_directory("handbook", uri="docs://handbook/")    docs://handbook/first%20steps.md

What is in the directory is listed, and what is read is a file in it: never one beside it, whatever the
URI says and wherever a link leads. A file has one URI, and any other way to write it leads nowhere.

    a link to a file or directory within     is listed, and read, under its own name
    a link that leads out, or is broken      does not exist
    pipes, devices, sockets                  do not exist
    names that begin with a dot              do not exist, unless `hidden=True`
    UTF-8 without NUL                        text, unless the name says image, archive ...
    anything else                            a blob

Files that come, go and change are found by looking: when a list is asked for, and every `poll` seconds
while the server runs. Clients hear of it.

Revisions   all.
Errors      no such file: ResourceNotFound. One that may not be read, or has more than `max_bytes`: -32603,
            which names its URI and never its path.
Threads     all of it on any thread. One thread scans at a time, and `_scanning` is held meanwhile; whoever
            comes then takes the list as it is. `mcp_ref watcher` lives as long as `watch`.
Not here    hard links and mounts: they are files and directories like any other.
"""

from __future__ import annotations

import mimetypes
import os
import re
import threading
import time
import typing
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias
from urllib.parse import quote_from_bytes, unquote_to_bytes

from mcp_ref.api.from_function.resource import check_annotations
from mcp_ref.basic.index.error_responses import InternalError
from mcp_ref.basic.index.messages import Json
from mcp_ref.extras.files import DEPTH, GONE, Found, Globs, Parts, Tree, is_missing
from mcp_ref.runtime.checks import check_count, check_seconds, check_text, check_text_if_any
from mcp_ref.runtime.logs import logger
from mcp_ref.runtime.threads import forks
from mcp_ref.runtime.uri.uris import check_uri
from mcp_ref.server.content import Annotations, embedded
from mcp_ref.server.resources import RegisteredResource, Resource, ResourceNotFound, short
from mcp_ref.server.utilities.caching import CacheScope, hints

if TYPE_CHECKING:
    from mcp_ref.basic.patterns.index.context import RequestContext

__all__ = ["Directory"]

_log = logger("mcp_ref.directories")

SHARE = 10
"""A scan that took a second is not repeated for ten, whatever `poll` says."""

LEAVING = 5.0
"""Seconds for which the end of `watch` waits for a disk that does not answer."""

# ------------------------------------------------------------------------ their types

MISTAKEN = {".rs": "text/x-rust", ".ts": "text/typescript"}
"""Suffixes that the tables of types know as something that hardly anybody has."""

PACKED = {"bzip2": "application/x-bzip2", "gzip": "application/gzip", "xz": "application/x-xz"}
BYTES = "application/octet-stream"

_TEXTUAL = re.compile(
    r"(?:text|message)/.+|.+\+(?:json|xml|yaml)|application/(?:x-)?(?:csh|ecmascript|graphql|httpd-php|"
    r"javascript|json|latex|mbox|n-quads|n-triples|ndjson|perl|pgp-keys|pgp-signature|php|python|ruby|sh|"
    r"sparql-query|sql|subrip|tcl|tex|texinfo|toml|trig|troff|typescript|xml|xml-dtd|yaml)",
    re.IGNORECASE,
)


def mime_type_of(name: str) -> str | None:
    """What a file is, going by its name."""
    suffix = Path(name).suffix.lower()
    if suffix in MISTAKEN:
        return MISTAKEN[suffix]
    guessed, packed = mimetypes.guess_type(f"./{name}")  # with ./ nothing in it is taken for a scheme
    return guessed if packed is None else PACKED.get(packed, BYTES)


def text_of(data: bytes, mime_type: str | None) -> str | None:
    """The text that a file is; None if it is none.  # spec: server/resources/contents-text-or-blob"""
    if b"\0" in data or not (mime_type is None or _TEXTUAL.fullmatch(mime_type)):
        return None
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return None


# ------------------------------------------------------------------------ as resources


Stamp: TypeAlias = tuple[int, int, int]


class Listed(NamedTuple):
    """A file that clients can see in the list."""

    stamp: Stamp
    """What is another one when the file was changed or replaced."""
    resource: RegisteredResource


class Directory:
    """The files of one directory, as resources of one server."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        uri: str | None = None,
        glob: str = "**/*",
        name: str | None = None,
        hidden: bool = False,
        poll: float = 1.0,
        max_files: int = 10_000,
        max_bytes: int = 16 << 20,
        ttl_ms: int | None = None,
        cache_scope: CacheScope | None = None,
        annotations: Annotations | None = None,
    ) -> None:
        """`uri` is what all URIs begin with, `name` what all names begin with; `glob` says which files
        there are, `max_files` how many are listed, `max_bytes` how long one may be to be read.

        Raises OSError if there is no such directory, ValueError or TypeError for what else is wrong.
        """
        check_text(glob=glob)
        check_text_if_any(uri=uri, name=name)
        check_count(1, max_files=max_files, max_bytes=max_bytes)
        self.poll = check_seconds("poll", poll)
        if not os.fspath(path):  # else it would be whatever directory the process is in
            raise ValueError("path is empty")
        self.path = Path(os.path.realpath(path, strict=True))
        """Where the directory really is, from now on."""
        if not self.path.is_dir():
            raise NotADirectoryError(f"{self.path} is no directory")
        self.prefix = _as_prefix(self.path.as_uri()) if uri is None else _check_prefix(uri)
        self._annotations = check_annotations(annotations or {})
        self._name = "" if name is None else f"{name}/"
        self._max_files, self._max_bytes = max_files, max_bytes
        given = ttl_ms is not None or cache_scope is not None
        self._hints = hints(ttl_ms or 0, cache_scope or "private") if given else None
        self._tree = Tree(self.path, Globs(glob), hidden)
        # Files that somebody asked for, and may have subscribed to, before the first look was over.
        self._asked_for: dict[str, Stamp] = {}
        self._scanning = threading.Lock()
        forks.tell(self)
        # All below guarded by _scanning; whoever reads them without it sees the last scan.
        self._listed: dict[str, Listed] | None = None
        self._due = 0.0
        self._told: str | None = None

    def forked(self) -> None:
        """In a forked child: another thread may have held the lock."""
        self._scanning = threading.Lock()

    # -- one file --------------------------------------------------------------------------

    def find(self, uri: str) -> RegisteredResource | None:
        """The file of that very URI, listed or not.  # spec: server/resources/validate-uris"""
        parts = self._parts(uri)
        if parts is None:
            return None
        try:
            status = self._tree.status(parts)
            if self._listed is None and len(self._asked_for) < self._max_files:
                self._asked_for.setdefault(uri, _stamp(status))
            return self._resource(uri, parts, status)
        except OSError as problem:
            if is_missing(problem):
                return None
            raise _unreadable(uri, problem) from problem

    def _parts(self, uri: str) -> Parts | None:
        """The names in a URI of this directory, if it is written as it is here."""
        if not uri.isascii() or not uri.startswith(self.prefix):
            return None
        names = uri[len(self.prefix) :].split("/", DEPTH)
        parts = tuple(os.fsdecode(unquote_to_bytes(name)) for name in names)
        return parts if self._tree.may_be(parts) and self._uri(parts) == uri else None

    def _uri(self, parts: Parts) -> str:
        return self.prefix + "/".join(quote_from_bytes(os.fsencode(part), safe="") for part in parts)

    def _resource(self, uri: str, parts: Parts, status: os.stat_result) -> RegisteredResource:
        name = self._name + os.fsencode("/".join(parts)).decode("utf-8", "replace")
        mime_type = mime_type_of(parts[-1])
        definition: Json = {"uri": uri, "name": name}
        if mime_type is not None:
            definition["mimeType"] = mime_type
        definition["size"] = status.st_size  # spec: schema/size-raw-bytes
        annotations = {**self._annotations, **_modified(status)}
        if annotations:
            definition["annotations"] = annotations
        read = partial(self._read, uri, parts, mime_type)
        return RegisteredResource(typing.cast(Resource, definition), read, self._hints)

    def _read(self, uri: str, parts: Parts, mime_type: str | None, context: RequestContext) -> list[Any]:
        """The contents of a file.  # spec: server/resources/binary-encoded"""
        try:
            data = self._tree.read(parts, self._max_bytes)
        except OSError as problem:
            if problem.errno in GONE:
                raise ResourceNotFound(uri) from None
            raise _unreadable(uri, problem) from problem
        text = text_of(data, mime_type)
        if text is not None:
            return [embedded(uri, text, mime_type or "text/plain")["resource"]]
        return [embedded(uri, data, mime_type or BYTES)["resource"]]

    # -- all of them -----------------------------------------------------------------------

    def refresh(self, server: Any) -> None:
        """Look again, if the last look is older than `poll`, and have the server list what there is."""
        self._refresh(server, threading.Event())

    def _refresh(self, server: Any, over: threading.Event) -> None:
        if time.monotonic() < self._due:
            return
        # The first list is worth waiting for. Later ones are a little older for whoever comes meanwhile.
        if not self._scanning.acquire(blocking=self._listed is None):
            return
        try:
            if time.monotonic() >= self._due:
                self._scan(server, over)
        finally:
            self._scanning.release()

    def _scan(self, server: Any, over: threading.Event) -> None:
        """Holds _scanning."""
        began = time.monotonic()
        try:
            found, complete = self._tree.files(self._max_files, over)
        except OSError as problem:  # of the machine, not of a file: there is no telling what is there
            self._tell(f"cannot be looked through, and is listed as it was: {problem.strerror}")
            found, complete = None, True
        if over.is_set():
            return
        if found is not None:
            listed = f"has too much to list; what is listed is {len(found)} files of it"
            self._tell(None if complete else listed)
            self._announce(server, self._listed or {}, found)
        now = time.monotonic()  # only now: whoever finds that a look is not due relies on the last one
        self._due = now + max(self.poll, SHARE * (now - began))

    def _announce(self, server: Any, before: dict[str, Listed], found: list[Found]) -> None:
        """Put what was found into the server's list; say what is new, gone or changed. Holds _scanning.

        # spec: server/resources/list-changed, server/resources/list-may-change
        """
        first = self._listed is None
        now = {self._uri(file.parts): file for file in found}
        listed = {uri: self._listing(uri, file, before.get(uri)) for uri, file in now.items()}
        gone = [uri for uri in before if uri not in listed]
        changed = [uri for uri, entry in listed.items() if before.get(uri) is not entry]
        # What an author put under the same URI is another resource, and stays.
        ours = {uri for uri in (*gone, *changed) if _is_ours(server.resources.get(uri), before.get(uri))}
        server.resources.change(
            [listed[uri].resource for uri in changed if uri in ours], [uri for uri in gone if uri in ours]
        )
        self._listed = listed
        if first:
            self._tell_who_asked(server, listed)
            return
        for uri in (*gone, *changed):
            if uri in ours:
                server.resource_updated(uri)

    def _tell_who_asked(self, server: Any, listed: dict[str, Listed]) -> None:
        """After the first look: what was changed between its beginning and somebody's question."""
        for uri, stamp in list(self._asked_for.items()):
            if uri not in listed or listed[uri].stamp != stamp:
                server.resource_updated(uri)
        self._asked_for = {}

    def _listing(self, uri: str, file: Found, before: Listed | None) -> Listed:
        """The entry of a file: the same as before unless the file was changed."""
        stamp = _stamp(file.status)
        if before is not None and before.stamp == stamp:
            return before
        return Listed(stamp, self._resource(uri, file.parts, file.status))

    def _tell(self, trouble: str | None) -> None:
        """To the log, once and not with every scan. Holds _scanning."""
        if trouble is not None and trouble != self._told:
            _log.warning("%s %s", self.path, trouble)
        self._told = trouble

    @contextmanager
    def watch(self, server: Any) -> Iterator[None]:
        """Around the service of a server: refresh every `poll` seconds."""
        over = threading.Event()
        watcher = threading.Thread(
            target=self._watch, args=(server, over), name="mcp_ref watcher", daemon=True
        )
        watcher.start()
        try:
            yield
        finally:
            over.set()
            watcher.join(LEAVING)

    def _watch(self, server: Any, over: threading.Event) -> None:
        while not over.is_set():
            try:
                self._refresh(server, over)
            except Exception:  # the next look may be a better one
                _log.exception("%s could not be looked through", self.path)
            over.wait(self.poll)


def _stamp(status: os.stat_result) -> Stamp:
    """What is another one when a file was changed."""
    return status.st_mtime_ns, status.st_size, status.st_ino


def _is_ours(there: Any, before: Listed | None) -> bool:
    """Whether what a server has under a URI is nothing, or what a directory put there."""
    return there is None or (before is not None and there is before.resource)


def _unreadable(uri: str, problem: OSError) -> InternalError:
    """What the client hears: why, and not where the file is.  # spec: server/resources/errors"""
    why = (problem.strerror or "nobody knows why").lower()
    _log.warning("%s cannot be read: %s", short(uri), why)
    return InternalError(f"{short(uri)} cannot be read: {why}")


def _modified(status: os.stat_result) -> Json:
    """When a file was changed, if that is a time that can be written."""
    try:
        when = datetime.fromtimestamp(status.st_mtime_ns // 10**9, UTC)
    except (OverflowError, ValueError, OSError):
        return {}
    return {"lastModified": when.isoformat(timespec="seconds").replace("+00:00", "Z")}


def _as_prefix(uri: str) -> str:
    return uri if uri.endswith("/") else f"{uri}/"


def _check_prefix(uri: str) -> str:
    """# spec: server/resources/custom-scheme-rfc3986"""
    check_uri(uri)
    path = re.split("[?#]", uri)[0]
    if path != uri or not uri.endswith("/") or {".", ".."} & set(uri.split("/")):
        raise ValueError(f"uri is what URIs begin with, such as 'docs://handbook/', not {uri!r:.200}")
    return uri
