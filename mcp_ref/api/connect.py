"""`connect`: from a command or a server to a client that is ready (page: basic/versioning).

Threads     runs on the caller's thread; the client's own threads run when it returns.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from mcp_ref.api.callbacks import Callbacks
from mcp_ref.api.client import Client
from mcp_ref.api.options import ClientOptions
from mcp_ref.api.pipe_transport import ConnectionLimits, Line
from mcp_ref.api.requests import AnyLine, Asker
from mcp_ref.basic import versioning
from mcp_ref.basic.index.messages import Json
from mcp_ref.basic.lifecycle import Negotiated
from mcp_ref.basic.transports import index as memory
from mcp_ref.basic.transports.stdio import backward_compatibility as era
from mcp_ref.basic.transports.stdio import client as stdio
from mcp_ref.client.roots import as_roots
from mcp_ref.runtime.checks import check_callable, check_seconds, check_text_if_any
from mcp_ref.runtime.errors import ConnectionClosed
from mcp_ref.runtime.suggestions import call_for, call_for_url
from mcp_ref.server.tools import Confirm
from mcp_ref.server.utilities.caching import Cache, CacheOfServer
from mcp_ref.server.utilities.logging import OnLog

__all__ = ["connect"]

Headers: TypeAlias = Mapping[str, str] | Callable[[], Mapping[str, str]]


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
    headers: Headers | None = None,
    options: ClientOptions | None = None,
) -> Client:
    """Connect to a server and agree on a revision with it.

    `target` is a URL, a command as a list, which is started without a shell, or a Server of this process.
    `timeout` is the silence to put up with, in seconds. `elicitation`, `sampling` and `roots` are what the
    application does for servers (api/callbacks). `on_log(level, data, logger)` and
    `on_notification(method, params)` hear the server. `confirm(tool, hints, arguments)` sees every tool call
    before it goes and says whether it may. `cache=True` keeps results while they are fresh
    (server/utilities/caching); a Cache may be shared. To a URL, `headers` go with each request; a function
    that returns them is called each time. All else is in `options` (api/options).
    """
    if not isinstance(options, ClientOptions | None):
        raise TypeError(f"options is a ClientOptions, not {options!r:.60}")
    options = options or ClientOptions()
    _check_target(target)
    _check_fitting(target, headers, options)
    check_callable(on_log=on_log, on_notification=on_notification, confirm=confirm)
    check_seconds("timeout", timeout)
    revisions = _chosen(revision, options)
    callbacks = _callbacks(elicitation, sampling, roots, options)
    kept = CacheOfServer(_cache_of(cache), _cache_key(target, options), _principal(options))
    known_era = _known_era(target, options)
    line = _line_to(target, headers, timeout, known_era, options)
    info = {"name": options.name, "version": options.version}
    if options.title is not None:
        info["title"] = options.title

    def make(among: Sequence[str]) -> Client:
        asker = Asker(
            line,
            negotiated=Negotiated(info, callbacks.capabilities() | options.declared(), among),
            callbacks=callbacks,
            cache=kept,
            max_rounds=options.max_rounds,
            ping_every=options.ping_every,
            on_log=on_log,
            on_notification=on_notification,
            confirm=confirm,
            audit_arguments=options.audit_arguments,
        )
        return Client(asker, _label(target))

    return _opened(make, revisions, known_era)


def _chosen(revision: str | versioning.Revision | None, options: ClientOptions) -> list[str]:
    """The revisions to agree on one of: an unknown one is an error before anything is started."""
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
    """What the application does for servers."""
    if roots is not None and not callable(roots):
        roots = as_roots(roots)  # a wrong one is an error before anything is started
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
    """Without one, nobody else gets the private results of a shared cache."""
    return object() if options.principal is None else options.principal


def _line_to(
    target: Any, headers: Headers | None, timeout: float, known_era: era.KnownEra, options: ClientOptions
) -> Callable[[Asker], AnyLine]:
    """How a client gets its line to a URL, a command or a Server."""
    limits = ConnectionLimits(timeout, options.max_timeout, options.max_message_bytes)

    def dial() -> Any:
        if isinstance(target, list | tuple):
            # spec: basic/transports/index/support-stdio
            return stdio.Child(
                target, env=options.env, cwd=options.cwd, on_stderr=options.on_stderr, grace=options.grace
            )
        return memory.Link(target)

    def line(asker: Asker) -> AnyLine:
        if not isinstance(target, str):
            return Line(asker, dial, limits=limits, probe_timeout=options.probe_timeout, known_era=known_era)
        from mcp_ref.api.http_transport import HttpLine  # not before it is needed: it takes its time

        return HttpLine(
            asker, target, headers=headers, session=options.session, limits=limits, known_era=known_era
        )

    return line


def _opened(make: Callable[[Sequence[str]], Client], among: Sequence[str], known: era.KnownEra) -> Client:
    """A client that has agreed with its server on one of these revisions."""
    was_known = known.find() is versioning.Era.LEGACY
    client = make(among)
    try:
        client.asker.open()
    except BaseException as problem:
        client.close()
        # Some legacy servers end themselves when they are asked anything before initialize: one
        # more try, with that. Not if it never read what we asked: then it died of something else.
        legacy = [date for date in among if not versioning.revision(date).modern]
        probed = 0 < len(legacy) < len(among)
        if isinstance(problem, ConnectionClosed) and probed and client.asker.line.heard:
            # A server that died of initialize is not what it was remembered as: this time it is probed.
            return _opened(make, among if was_known else legacy, era.NOTHING_KNOWN)
        raise
    return client


def _label(target: Any) -> str:
    """A server in words, without what may be secret in its URL."""
    if isinstance(target, str):
        parts = urlsplit(target)
        return f"{parts.scheme}://{parts.netloc}{parts.path}"[:MAX_LABEL_CHARACTERS]
    if isinstance(target, list | tuple):
        return shlex.join(map(os.fspath, target))[:MAX_LABEL_CHARACTERS]
    return f"a server of this process, {type(target).__name__}"


MAX_LABEL_CHARACTERS = 200
"""Of a command or a URL, in the warning about a client that was not closed."""


def _cache_key(target: Any, options: ClientOptions) -> Hashable:
    """What tells this server from others in a cache that several clients share."""
    if not isinstance(target, list | tuple):  # a URL, or a Server
        server: Hashable = target
        return server
    place, env = str(Path(options.cwd or ".").resolve()), sorted((options.env or {}).items())
    return (*map(os.fspath, target), place, *env)


def _known_era(target: Any, options: ClientOptions) -> era.KnownEra:
    """What is remembered of a server, by its command or its URL.

    A URL, and not its origin alone: several servers may share that, behind one gateway. Its query does not
    count. A Server of this process is asked each time, which costs nothing.
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
    """The cache that an option names. Raises TypeError."""
    if isinstance(cache, bool):
        return Cache() if cache else None
    if not isinstance(cache, Cache):
        raise TypeError(f"cache is True, False or a Cache, not {cache!r:.60}")
    return cache


def _check_target(target: Any) -> None:
    """Raises TypeError, ValueError for what cannot be connected to: before anything is started."""
    if isinstance(target, str) and target.lower().startswith(("http:", "https:")):
        _check_url(target)
        return
    if isinstance(target, str | bytes | os.PathLike):
        raise _refused(f"not {_without_user(f'{target!r:.200}'):.80}", call_for(target))
    if isinstance(target, list | tuple):
        _check_command(target)
    elif isinstance(target, Mapping):
        raise _refused("not a dict", call_for(target))
    elif isinstance(target, type):
        meant = "connect(Server('name'))" if hasattr(target, "attach") else None
        raise _refused(f"not the class {target.__name__}", meant)
    elif not hasattr(target, "attach"):
        raise _refused(f"not {target!r:.80}", None)


def _refused(what: str, meant: str | None) -> TypeError:
    """`meant` is the call that works, if it is known."""
    advice = f"; write {meant}" if meant is not None else ""
    return TypeError(f"connect takes a URL, a command as a list or a Server, {what}{advice}")


def _check_command(command: Sequence[Any]) -> None:
    """Raises TypeError, ValueError."""
    if not command:
        raise ValueError("the command is empty; write connect(['program', 'argument', ...])")
    for part in command:
        if not isinstance(part, str | os.PathLike):
            advice = f"; write {str(part)!r}" if isinstance(part, int | float) else ""
            raise TypeError(f"the command is made of strings, not of {part!r:.60}{advice}")
    first = command[0]
    if len(command) == 1 and isinstance(first, str) and first.lower().startswith(("http:", "https:")):
        _check_url(first)
        raise _refused(f"not a URL in a list, {first!r:.80}", f"connect({first!r})")


def _check_url(url: str) -> None:
    """Raises ValueError, which never repeats a password."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as problem:
        raise ValueError(f"{_without_user(url)!r} is no URL: {problem}") from None
    right = call_for_url(url)
    advice = f"; write {right}" if right is not None else ""
    if parts.username is not None or parts.password is not None:
        raise ValueError(f"credentials do not belong into a URL, but into an Authorization header{advice}")
    if parts.fragment or url.endswith("#"):
        raise ValueError(f"the URL of a server has no fragment: {url[:200]!r}{advice}")
    if not host or not url.isprintable() or " " in url:
        raise ValueError(f"{url[:200]!r} is no URL of a server, which has a host and no spaces{advice}")


def _without_user(text: str) -> str:
    """Without what may be a password: what stands before an `@` in a URL, also in one without a scheme."""
    return " ".join(map(_without_user_in_word, text[:200].split(" ")))


def _without_user_in_word(word: str) -> str:
    if "//" not in word and ":" not in word.partition("@")[0]:
        return word  # the name of a package, such as @scope/server, or an address of mail
    return "//".join(part.rpartition("@")[2] for part in word.split("//"))


def _check_fitting(target: Any, headers: Headers | None, options: ClientOptions) -> None:
    """Options that the target has no use for are refused. Raises TypeError."""
    for_commands, for_urls = (options.env, options.cwd, options.on_stderr), (headers, options.session)
    if isinstance(target, str):
        if for_commands != (None, None, None):
            raise TypeError("env, cwd and on_stderr are for a command, not for a URL")
        if options.session is not None and not hasattr(options.session, "get_adapter"):
            raise TypeError(f"session is a requests.Session, not {options.session!r:.60}")
    elif for_urls != (None, None):
        name = "headers" if headers is not None else "session"
        raise TypeError(f"{name} is for a URL, not for a command or a Server")
