"""Directories of real files as resources (page: server/resources, "file://").

    server.add_directory("handbook")                            file:///srv/handbook/first%20steps.md
    server.add_directory("handbook", uri="docs://handbook/")    docs://handbook/first%20steps.md

Only files in the directory are listed and read, never one outside, whatever the URI says and wherever a link
leads. A file has one URI; any other spelling of that URI is not found.

    a link to a file or directory within     is listed, and read, under its own name
    a link that leads out, or is broken      does not exist
    pipes, devices, sockets                  do not exist
    names that begin with a dot              do not exist, unless `hidden=True`
    UTF-8 without NUL                        text, unless the name says image, archive ...
    anything else                            a blob

Files that come, go and change are found by scans: when a list is requested, and every `poll` seconds while
the server runs. Clients are notified of them.

Revisions   all.
Errors      ResourceNotFound for a file that does not exist; -32603 for one that may not be read, or has more
            than `max_bytes`, with its URI and never its path.
Threads     any. One thread scans at a time, and holds `_scanning`; meanwhile others use the last list.
            `mcp_ref watcher` lives as long as `watch`.
Not here    hard links and mounts are not recognized: they are files and directories like any other.
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

from mcp_ref.basic.index.error_responses import InternalError
from mcp_ref.basic.index.messages import Json
from mcp_ref.extras.files import GONE_ERRNOS, MAX_DEPTH, File, Glob, Parts, Tree, is_gone_or_denied
from mcp_ref.runtime.checks import check_count, check_seconds, check_text, check_text_if_any
from mcp_ref.runtime.logs import logger
from mcp_ref.runtime.threads import forks
from mcp_ref.runtime.uri.uris import check_uri
from mcp_ref.server.content import Annotations, embedded
from mcp_ref.server.resources import (
    RegisteredResource,
    Resource,
    ResourceHost,
    ResourceNotFound,
    check_annotations,
    short,
)
from mcp_ref.server.utilities.caching import CacheScope, hints

if TYPE_CHECKING:
    from mcp_ref.basic.patterns.index.context import RequestContext

__all__ = ["Directory"]

_log = logger("mcp_ref.directories")

MIN_REST_PER_SCAN = 10
"""After a scan that took a second, the next one is due in ten at the earliest, whatever `poll` says."""
WATCHER_END_SECONDS = 5.0
"""Seconds that the end of `watch` waits for the watcher, whose disk may not answer."""

# ------------------------------------------------------------------------ types of files

TYPES_BY_SUFFIX = {".rs": "text/x-rust", ".ts": "text/typescript"}
"""Suffixes to which system tables give rarer types, such as those of RLS services and Qt Linguist."""

TYPES_BY_ENCODING = {"bzip2": "application/x-bzip2", "gzip": "application/gzip", "xz": "application/x-xz"}
BINARY_TYPE = "application/octet-stream"

_TEXTUAL = re.compile(
    r"(?:text|message)/.+|.+\+(?:json|xml|yaml)|application/(?:x-)?(?:csh|ecmascript|graphql|httpd-php|"
    r"javascript|json|latex|mbox|n-quads|n-triples|ndjson|perl|pgp-keys|pgp-signature|php|python|ruby|sh|"
    r"sparql-query|sql|subrip|tcl|tex|texinfo|toml|trig|troff|typescript|xml|xml-dtd|yaml)",
    re.IGNORECASE,
)


def mime_type_of(name: str) -> str | None:
    """The type of a file by its name; None if the name does not say it."""
    suffix = Path(name).suffix.lower()
    if suffix in TYPES_BY_SUFFIX:
        return TYPES_BY_SUFFIX[suffix]
    mime_type, encoding = mimetypes.guess_type(f"./{name}")  # ./ so that no part is taken for a scheme
    return mime_type if encoding is None else TYPES_BY_ENCODING.get(encoding, BINARY_TYPE)


def text_of(data: bytes, mime_type: str | None) -> str | None:
    """The content of a file as text; None if it is binary."""
    if b"\0" in data or not (mime_type is None or _TEXTUAL.fullmatch(mime_type)):
        return None
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return None


# ------------------------------------------------------------------------ as resources


Stamp: TypeAlias = tuple[int, int, int]
"""Modification time, size and inode of a file: another stamp means that the file was changed or replaced."""


class ListEntry(NamedTuple):
    """A file in the list that clients see."""

    stamp: Stamp
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
        """All URIs begin with `uri`, and all names with `name`. Only files that match `glob` exist. At most
        `max_files` of them are listed; a file of more than `max_bytes` cannot be read.

        Raises OSError if there is no such directory, ValueError or TypeError for other wrong arguments.
        """
        check_text(glob=glob)
        check_text_if_any(uri=uri, name=name)
        check_count(1, max_files=max_files, max_bytes=max_bytes)
        self.poll = check_seconds("poll", poll)
        if not os.fspath(path):  # else it would be the working directory of the process
            raise ValueError("path must not be empty; '.' is the working directory")
        self.path = Path(os.path.realpath(path, strict=True))
        """The path, with the links in it resolved as they are now."""
        if not self.path.is_dir():
            raise NotADirectoryError(f"{self.path} is not a directory")
        self.prefix = _check_prefix(uri) if uri is not None else self.path.as_uri().removesuffix("/") + "/"
        self._annotations = check_annotations(annotations or {})
        self._name = "" if name is None else f"{name}/"
        self._max_files, self._max_bytes = max_files, max_bytes
        given = ttl_ms is not None or cache_scope is not None
        self._hints = hints(ttl_ms or 0, cache_scope or "private") if given else None
        self._tree = Tree(self.path, Glob(glob), hidden)
        # Stamps of files that clients requested, and may have subscribed to, before the first scan was over.
        self._early_stamps: dict[str, Stamp] = {}
        self._scanning = threading.Lock()
        forks.register(self)
        # All below is written with _scanning held. A reader without it sees the state of the last scan.
        self._listed: dict[str, ListEntry] | None = None
        self._next_scan = 0.0
        self._last_trouble: str | None = None

    def forked(self) -> None:
        """Replace the lock in a forked child: another thread may have held it."""
        self._scanning = threading.Lock()

    # -- one file --------------------------------------------------------------------------

    def find(self, uri: str) -> RegisteredResource | None:
        """The file with exactly this URI, listed or not; None if it is gone or denied."""
        parts = self._parts(uri)
        if parts is None:
            return None
        try:
            status = self._tree.status(parts)
            if self._listed is None and len(self._early_stamps) < self._max_files:
                self._early_stamps.setdefault(uri, _stamp(status))
            return self._resource(uri, parts, status)
        except OSError as problem:
            if is_gone_or_denied(problem):
                return None
            raise _unreadable(uri, problem) from problem

    def _parts(self, uri: str) -> Parts | None:
        """The names in a URI of this directory; None unless the URI is spelled exactly as in the list."""
        if not uri.isascii() or not uri.startswith(self.prefix):
            return None
        names = uri[len(self.prefix) :].split("/", MAX_DEPTH)
        parts = tuple(os.fsdecode(unquote_to_bytes(name)) for name in names)
        return parts if self._tree.may_have(parts) and self._uri(parts) == uri else None

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
        """The contents of a file."""
        try:
            data = self._tree.read(parts, self._max_bytes)
        except OSError as problem:
            if problem.errno in GONE_ERRNOS:
                raise ResourceNotFound(uri) from None
            raise _unreadable(uri, problem) from problem
        text = text_of(data, mime_type)
        if text is not None:
            return [embedded(uri, text, mime_type or "text/plain")["resource"]]
        return [embedded(uri, data, mime_type or BINARY_TYPE)["resource"]]

    # -- all files -------------------------------------------------------------------------

    def refresh(self, server: ResourceHost, stop: threading.Event | None = None) -> None:
        """Scan, if the last scan is older than `poll` seconds, and have the server list the files."""
        if time.monotonic() < self._next_scan:
            return
        # All threads wait for the first list. During later scans they go on with the last one.
        if not self._scanning.acquire(blocking=self._listed is None):
            return
        try:
            if time.monotonic() >= self._next_scan:
                self._scan(server, stop or threading.Event())
        finally:
            self._scanning.release()

    def _scan(self, server: ResourceHost, stop: threading.Event) -> None:
        """Scan now, and set when the next scan is due. With _scanning held."""
        start = time.monotonic()
        try:
            files, complete = self._tree.files(self._max_files, stop)
        except OSError as problem:  # of the machine, not of one file: it is unknown which files there are
            self._log_once(f"cannot be scanned, and is listed as it was: {problem.strerror}")
            files, complete = None, True
        if stop.is_set():
            return
        if files is not None:
            self._log_once(None if complete else f"has too many files: only {len(files)} are listed")
            self._announce(server, self._listed or {}, files)
        end = time.monotonic()  # set last: threads that find no scan due rely on a finished one
        self._next_scan = end + max(self.poll, MIN_REST_PER_SCAN * (end - start))

    def _announce(self, server: ResourceHost, before: dict[str, ListEntry], files: list[File]) -> None:
        """Put the files into the server's list; notify of what changed. With _scanning held."""
        first = self._listed is None
        listed = dict(self._entry(file, before) for file in files)
        gone, changed = _difference(server, before, listed)
        server.resources.change([listed[uri].resource for uri in changed], gone)
        self._listed = listed
        updated = [*gone, *changed]
        if first:  # only those that changed since a client requested them
            early, self._early_stamps = list(self._early_stamps.items()), {}
            updated = [uri for uri, stamp in early if uri not in listed or listed[uri].stamp != stamp]
        for uri in updated:
            server.resource_updated(uri)

    def _entry(self, file: File, before: dict[str, ListEntry]) -> tuple[str, ListEntry]:
        """A file's URI and entry, which is the one from before unless the file was changed."""
        uri, stamp = self._uri(file.parts), _stamp(file.status)
        if uri in before and before[uri].stamp == stamp:
            return uri, before[uri]
        return uri, ListEntry(stamp, self._resource(uri, file.parts, file.status))

    def _log_once(self, trouble: str | None) -> None:
        """Log what is wrong with the directory, unless the last scan logged it. With _scanning held."""
        if trouble is not None and trouble != self._last_trouble:
            _log.warning("%s %s", self.path, trouble)
        self._last_trouble = trouble

    @contextmanager
    def watch(self, server: ResourceHost) -> Iterator[None]:
        """Scan every `poll` seconds while a server runs in this context."""
        stop = threading.Event()
        watch = partial(self._watch, server, stop)
        watcher = threading.Thread(target=watch, name="mcp_ref watcher", daemon=True)
        watcher.start()
        try:
            yield
        finally:
            stop.set()
            watcher.join(WATCHER_END_SECONDS)

    def _watch(self, server: ResourceHost, stop: threading.Event) -> None:
        while not stop.is_set():
            try:
                self.refresh(server, stop)
            except Exception:  # the next scan may succeed
                _log.exception("%s could not be scanned", self.path)
            stop.wait(self.poll)


def _stamp(status: os.stat_result) -> Stamp:
    return status.st_mtime_ns, status.st_size, status.st_ino


def _difference(
    server: ResourceHost, before: dict[str, ListEntry], listed: dict[str, ListEntry]
) -> tuple[list[str], list[str]]:
    """The URIs of files that are gone, and of those that are new or changed.

    A resource that the author registered under the URI of a file stays, and is in neither list.
    """

    def is_ours(uri: str) -> bool:
        registered = server.resources.get(uri)
        return registered is None or (uri in before and registered is before[uri].resource)

    gone = [uri for uri in before if uri not in listed]
    changed = [uri for uri, entry in listed.items() if before.get(uri) is not entry]
    return list(filter(is_ours, gone)), list(filter(is_ours, changed))


def _unreadable(uri: str, problem: OSError) -> InternalError:
    """The error for the client, with the reason, but without the path of the file."""
    why = (problem.strerror or "unknown error").lower()
    _log.warning("%s cannot be read: %s", short(uri), why)
    return InternalError(f"{short(uri)} cannot be read: {why}")


def _modified(status: os.stat_result) -> Json:
    """The lastModified annotation of a file; {} if its time cannot be written as a date."""
    try:
        time_of_change = datetime.fromtimestamp(status.st_mtime_ns // 10**9, UTC)
    except (OverflowError, ValueError, OSError):
        return {}
    return {"lastModified": time_of_change.isoformat(timespec="seconds").replace("+00:00", "Z")}


def _check_prefix(uri: str) -> str:
    """Return `uri` if the URIs of files can begin with it. Raises ValueError."""
    check_uri(uri)
    path = re.split("[?#]", uri)[0]
    if path != uri or not uri.endswith("/") or {".", ".."} & set(uri.split("/")):
        raise ValueError(f"uri must be a prefix that ends with /: 'docs://handbook/', not {uri!r:.200}")
    return uri
