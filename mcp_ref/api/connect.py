"""`connect`: from a command or a server to a client that is ready (page: basic/versioning).

Threads     `connect` runs on the caller's thread; when it returns, the client's own threads are running.
"""

from __future__ import annotations

import gc
import os
import shlex
import sys
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack
from urllib.parse import urlsplit

from mcp_ref.api.callbacks import Callbacks
from mcp_ref.api.client import Client
from mcp_ref.api.options import ClientOptions
from mcp_ref.api.pipe_transport import ConnectionLimits, Line, ServerLink
from mcp_ref.api.requests import AnyLine, Asker, AskRules
from mcp_ref.api.retrying import Retry
from mcp_ref.api.targets import Headers, place_of
from mcp_ref.api.wire import TappedLink, unharmed
from mcp_ref.basic import versioning
from mcp_ref.basic.index.messages import Json
from mcp_ref.basic.lifecycle import Negotiated
from mcp_ref.basic.transports import index as memory
from mcp_ref.basic.transports.stdio import backward_compatibility as era
from mcp_ref.basic.transports.stdio import client as stdio
from mcp_ref.client.roots import as_roots
from mcp_ref.runtime.checks import (
    check_bool,
    check_callable,
    check_names,
    check_seconds,
    check_text_if_any,
    keywords_of,
)
from mcp_ref.runtime.errors import ConnectionClosed, LocalError
from mcp_ref.server.tools import Confirm
from mcp_ref.server.utilities.caching import Cache, CacheOfServer
from mcp_ref.server.utilities.logging import OnLog

if TYPE_CHECKING:
    from mcp_ref.api.authorization import Auth
    from mcp_ref.runtime.http_client.authorizing import Authorizer

__all__ = ["begun", "check_keywords", "connect"]


begun: ContextVar[Callable[[Client], object]] = ContextVar("begun", default=lambda client: None)
"""Called with each new client before it sends anything, so that another thread can close the client while it
connects: `connect_all` sets this on the threads that connect (api/hosts)."""


class NoMore(TypedDict):
    """Tells a type checker that there are no other keywords. At run time `check_keywords` raises for each,
    with the line to write instead.
    """


def connect(
    target: Any,
    *,
    revision: str | versioning.Revision | None = None,
    timeout: float = 30.0,
    elicitation: Callable[[Any], Any] | None = None,
    sampling: Callable[[Any], Any] | None = None,
    roots: Any = None,
    on_log: OnLog | None = None,
    on_notification: Callable[[str, Json], object] | None = None,
    confirm: Confirm | None = None,
    cache: bool | Cache = False,
    check: bool = False,
    headers: Headers | None = None,
    auth: Auth | None = None,
    retry: Retry | None = None,
    options: ClientOptions | None = None,
    **unknown: Unpack[NoMore],
) -> Client:
    """Connect to a server and agree on a revision with it.

        with connect("server.py") as client:                          # this Python runs it
            print(client.list_tools())
            print(client.call_tool("add", {"a": 1, "b": 2}).text)

        connect("http://localhost:8000/mcp")                          # a server that runs already
        connect("https://example.org/mcp", auth=token, retry=Retry(5))
        connect(["npx", "-y", "some-server", "/srv"])                 # any command
        connect(Server("demo"))                                       # in this process: for tests
        connect(..., check=True)                                      # a tool that fails raises ToolError
        connect(..., elicitation=ask)                                 # ask(question) answers what tools ask

    Without `with`, call `client.close()`. For several servers there is `connect_all`.

    `target` is a URL, a command as a list or as text (started without a shell), a .py file, a Server of this
    process, a transport of one's own, or an entry of `mcpServers` (api/targets).
    `timeout` is how many seconds a request waits without an answer or a progress notification. `elicitation`,
    `sampling` and `roots` are the callbacks that answer a server's questions (api/callbacks).
    `on_log(level, data, logger)` is called with log messages, `on_notification(method, params)` with every
    notification. `confirm(tool, hints, arguments)` is called before each tool call and says whether it may be
    made. `cache=True` keeps results while they are fresh (server/utilities/caching); a Cache can be shared by
    several clients. With `check=True` the call of a tool that fails raises ToolError, as in `subprocess`. For
    a URL, `headers` are sent with each request, and a function that returns them is called for each; `auth`
    is a token, a function that returns one, or an OAuth, which gets and renews tokens by itself
    (api/authorization). `retry=Retry(5)` sends lost requests again where that does no harm (api/retrying).
    Everything else is in `options` (api/options).
    """
    check_keywords("connect", unknown)
    if not isinstance(options, ClientOptions | None):
        raise TypeError(f"options is a ClientOptions, not {options!r:.60}")
    target, headers, options = place_of(target, headers, options or ClientOptions())
    _check_fitting(target, headers, auth, options)
    check_callable(on_log=on_log, on_notification=on_notification, confirm=confirm)
    check_seconds("timeout", timeout)
    check_bool(check=check)
    if not isinstance(retry, Retry | None):
        raise TypeError(f"retry is a Retry, such as Retry(5), not {retry!r:.60}")
    if hasattr(sys, "ps1"):
        # At a prompt or in a notebook: each run of a cell that failed has left a client as garbage, with its
        # child process.
        gc.collect()
    revisions = _chosen(revision, options)
    callbacks = _callbacks(elicitation, sampling, roots, options)
    kept = CacheOfServer(_cache_of(cache), _cache_key(target, options), _principal(options))
    known_era = _known_era(target, options)
    line = _line_to(target, headers, auth, timeout, known_era, options)
    info = {"name": options.name, "version": options.version}
    if options.title is not None:
        info["title"] = options.title

    declared = callbacks.capabilities(tasks=options.tasks) | options.declared()

    def make(among: Sequence[str]) -> Client:
        asker = Asker(
            line,
            negotiated=Negotiated(info, declared, among, allows_tasks=options.tasks),
            callbacks=callbacks,
            cache=kept,
            rules=AskRules(options.max_rounds, options.ping_every, retry),
            on_log=on_log,
            on_notification=on_notification,
            confirm=confirm,
            audit_arguments=options.audit_arguments,
        )
        return Client(asker, _label(target), check=check)

    return _opened(make, revisions, known_era)


def check_keywords(function: str, given: Iterable[str], *more: str) -> None:
    """Check the names of keywords against those of `connect`; the function also takes those in `more`.

    Raises TypeError.
    """
    in_options = {field.name: f"options=ClientOptions({field.name}=...)" for field in fields(ClientOptions)}
    check_names(function, given, keywords_of(connect, *more), in_options)


def _chosen(revision: str | versioning.Revision | None, options: ClientOptions) -> list[str]:
    """The dates of the revisions that may be agreed on. An unknown one is an error before anything starts."""
    if isinstance(revision, versioning.Revision):  # `client.revision` of another client
        revision = revision.date
    check_text_if_any(revision=revision)
    return list(options.revisions) if revision is None else [versioning.revision(revision).date]


def _callbacks(
    elicitation: Callable[[Any], Any] | None,
    sampling: Callable[[Any], Any] | None,
    roots: Any,
    options: ClientOptions,
) -> Callbacks:
    """The Callbacks of the client, from the keywords of `connect` and its options."""
    if roots is not None and not callable(roots):
        roots = as_roots(roots)  # an invalid root is an error before anything starts
    return Callbacks(
        elicitation=elicitation,
        elicitation_modes=options.elicitation_modes,
        sampling=sampling,
        sampling_tools=options.sampling_tools,
        sampling_context=options.sampling_context,
        sampling_review=options.sampling_review,
        roots=roots,
        limit=options.ask_limit,
        seconds=options.ask_timeout,
    )


def _principal(options: ClientOptions) -> Hashable:
    """The principal for private results in a shared cache; by default an object that no other client has, so
    that no other client gets them.
    """
    return object() if options.principal is None else options.principal


def _line_to(
    target: Any,
    headers: Headers | None,
    auth: Auth | None,
    timeout: float,
    known_era: era.KnownEra,
    options: ClientOptions,
) -> Callable[[Asker], AnyLine]:
    """A function that makes the line of a client: to a URL, a command, a Server or a transport."""
    limits = ConnectionLimits(timeout, options.max_timeout, options.max_message_bytes)
    authorizer = None if auth is None else _authorizer(target, headers, auth, options.session)

    on_wire = None if options.on_wire is None else unharmed(options.on_wire)

    def dial() -> ServerLink:
        link = start()
        return link if on_wire is None else TappedLink(link, on_wire)

    def start() -> ServerLink:
        if isinstance(target, list | tuple):
            # spec: basic/transports/index/support-stdio
            return stdio.Child(
                target, env=options.env, cwd=options.cwd, on_stderr=options.on_stderr, grace=options.grace
            )
        return memory.StreamLink(target) if hasattr(target, "open_stream") else memory.Link(target)

    def line(asker: Asker) -> AnyLine:
        if not isinstance(target, str):
            return Line(asker, dial, limits=limits, probe_timeout=options.probe_timeout, known_era=known_era)
        from mcp_ref.api.http_transport import HttpLine  # only when needed: the import is slow

        return HttpLine(
            asker,
            target,
            headers=headers,
            session=options.session,
            auth=authorizer,
            limits=limits,
            known_era=known_era,
            draft_headers=options.draft_headers,
            on_wire=on_wire,
        )

    return line


def _authorizer(url: str, headers: Headers | None, auth: Auth, session: Any) -> Authorizer:
    """The authorizer that `auth` stands for, for requests to this URL. Raises TypeError, ValueError."""
    if isinstance(headers, Mapping) and any(str(name).lower() == "authorization" for name in headers):
        raise TypeError("either auth or an Authorization header among headers says who asks, not both")
    from mcp_ref.api.authorization import authorizer_of  # only when needed: it imports HTTP

    return authorizer_of(auth, url, session)


def _opened(make: Callable[[Sequence[str]], Client], among: Sequence[str], known: era.KnownEra) -> Client:
    """A client that has agreed with its server on one of these revisions. Raises what `connect` raises."""
    was_known = known.find() is versioning.Era.LEGACY
    client = make(among)
    try:
        begun.get()(client)
        client.asker.open()
    except BaseException as problem:
        was_closed = client.asker.closing.is_set()
        client.close()
        # Some legacy servers exit when they get a request before initialize: try once more, with
        # initialize first. Not if the server never read our request: then it ended for another reason.
        legacy = [date for date in among if not versioning.revision(date).modern]
        probed = 0 < len(legacy) < len(among)
        is_lost = isinstance(problem, ConnectionClosed) and not was_closed
        if is_lost and probed and client.asker.line.heard:
            # Remembered as legacy, it was sent initialize first, and ended: its era has changed. Probe it.
            return _opened(make, among if was_known else legacy, era.NOTHING_KNOWN)
        raise
    return client


def _label(target: Any) -> str:
    """The name of a server in warnings. A URL loses its query and fragment, which may hold secrets."""
    if isinstance(target, str):
        parts = urlsplit(target)
        return f"{parts.scheme}://{parts.netloc}{parts.path}"[:MAX_LABEL_CHARACTERS]
    if isinstance(target, list | tuple):
        return shlex.join(map(os.fspath, target))[:MAX_LABEL_CHARACTERS]
    where = "a server behind" if hasattr(target, "open_stream") else "a server of this process,"
    return f"{where} {type(target).__name__}"


MAX_LABEL_CHARACTERS = 200
"""The longest command or URL in the warning about a client that was not closed."""


def _cache_key(target: Any, options: ClientOptions) -> Hashable:
    """The key of a server in a cache that several clients share, and of a command among known eras."""
    if not isinstance(target, list | tuple):  # a URL, or a Server
        server: Hashable = target
        return server
    place, env = str(Path(options.cwd or ".").resolve()), sorted((options.env or {}).items())
    return (*map(os.fspath, target), place, *env)


def _known_era(target: Any, options: ClientOptions) -> era.KnownEra:
    """The entry for the era of a server, by its command or its URL.

    The key has the path of the URL, not the origin alone, because one gateway may have several servers
    behind it; the query is left out. For a Server of this process, or a transport, nothing is remembered.
    """
    if options.eras is False or not isinstance(target, str | list | tuple):
        return era.NOTHING_KNOWN
    found = era.KNOWN_ERAS if isinstance(options.eras, bool) else options.eras
    if isinstance(target, str):
        parts = urlsplit(target)
        port = parts.port or {"http": 80, "https": 443}[parts.scheme]
        return era.KnownEra(found, (parts.scheme, parts.hostname, port, parts.path or "/"))
    return era.KnownEra(found, _cache_key(target, options))


def _cache_of(cache: Any) -> Cache | None:
    """The Cache that `cache=` asks for: a new one for True, None for False. Raises TypeError."""
    if isinstance(cache, bool):
        return Cache() if cache else None
    if not isinstance(cache, Cache):
        raise TypeError(f"cache is True, False or a Cache, not {cache!r:.60}")
    return cache


def _check_fitting(target: Any, headers: Headers | None, auth: Auth | None, options: ClientOptions) -> None:
    """Refuse options that are for another kind of target, and a `cwd` that does not exist.

    Raises TypeError, LocalError.
    """
    for_urls = {"headers": headers, "auth": auth, "session": options.session}
    for_commands = {"env": options.env, "cwd": options.cwd, "on_stderr": options.on_stderr}
    if isinstance(target, str):
        _refuse_all(for_commands, "a command, not for a URL")
    elif isinstance(target, list | tuple):
        _refuse_all(for_urls, "a URL, not for a command or a Server")
    else:  # a Server writes to our own stderr, so `on_stderr` hears nothing, as from a quiet command
        _refuse_all(for_urls, "a URL, not for a command or a Server")
        _refuse_all({"env": options.env, "cwd": options.cwd}, "a command, not for a Server")
    if options.session is not None and not hasattr(options.session, "get_adapter"):
        raise TypeError(f"session is a requests.Session, not {options.session!r:.60}")
    if options.cwd is not None and not Path(options.cwd).is_dir():
        raise LocalError(f"cwd: there is no folder {os.fspath(options.cwd)!r:.200}")


def _refuse_all(unfit: dict[str, Any], fitting: str) -> None:
    """Raise TypeError if one of these was given."""
    for name, value in unfit.items():
        if value is not None:
            raise TypeError(f"{name} is for {fitting}")
