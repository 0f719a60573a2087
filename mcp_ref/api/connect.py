"""`connect`: from a command or a server to a client that is ready (page: basic/versioning).

Threads     runs on the caller's thread; the client's own threads run when it returns.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from mcp_ref.api.callbacks import Callbacks
from mcp_ref.api.client import Client
from mcp_ref.api.pipe_transport import ConnectionLimits, Line
from mcp_ref.api.requests import AnyLine, Asker
from mcp_ref.basic import versioning
from mcp_ref.basic.index.messages import Json
from mcp_ref.basic.lifecycle import Negotiated
from mcp_ref.basic.patterns.mrtr.basic_workflow import MAX_ROUNDS
from mcp_ref.basic.transports import index as memory
from mcp_ref.basic.transports.stdio import backward_compatibility as era
from mcp_ref.basic.transports.stdio import client as stdio
from mcp_ref.client.elicitation.requests import MODES
from mcp_ref.client.roots import as_roots
from mcp_ref.runtime.checks import (
    check_callable,
    check_count,
    check_object,
    check_seconds,
    check_text,
    check_text_if_any,
)
from mcp_ref.runtime.errors import ConnectionClosed
from mcp_ref.runtime.limits import Limit
from mcp_ref.runtime.suggestions import call_for, call_for_url
from mcp_ref.runtime.threads.deadlines import FOR_PEOPLE
from mcp_ref.schema import REVISIONS
from mcp_ref.server.utilities.caching import Cache, CacheOfServer

__all__ = ["connect"]


def connect(
    target: Any,
    *,
    revision: str | versioning.Revision | None = None,
    timeout: float = 30.0,
    max_timeout: float | None = None,
    probe_timeout: float = era.PROBE_TIMEOUT_SECONDS,
    name: str = "mcp_ref",
    version: str = "0",
    title: str | None = None,
    revisions: Sequence[str] = REVISIONS,
    experimental: Mapping[str, Json] | None = None,
    extensions: Mapping[str, Json] | None = None,
    on_log: Callable[[str, Any, str | None], object] | None = None,
    on_notification: Callable[[str, Json], object] | None = None,
    confirm: Callable[[Any, Any, Json], object] | None = None,
    elicitation: Callable[[Any], Any] | None = None,
    elicitation_modes: Sequence[str] = MODES,
    sampling: Callable[[Any], Any] | None = None,
    sampling_tools: bool = False,
    sampling_context: bool = False,
    sampling_review: Callable[[Any, Any], Any] | None = None,
    roots: Any = None,
    ask_limit: Limit | None = None,
    ask_timeout: float = FOR_PEOPLE,
    max_rounds: int = MAX_ROUNDS,
    ping_every: float | None = None,
    cache: bool | Cache = False,
    eras: bool | era.KnownEras = True,
    principal: Hashable = None,
    audit_arguments: bool = False,
    max_message_bytes: int = 64 << 20,
    env: Mapping[str, str] | None = None,
    cwd: str | os.PathLike[str] | None = None,
    on_stderr: Callable[[str], object] | None = None,
    grace: float = 2.0,
    headers: Mapping[str, str] | Callable[[], Mapping[str, str]] | None = None,
    session: Any = None,
) -> Client:
    """Connect to a server and agree on a revision with it.

    `target` is a URL, a command as a list, which is started without a shell, or a Server of this process.
    To a URL, `headers` go with each request; a function that returns them is called each time. A `session`
    of requests says what else there is to say of HTTP: proxies, certificates, cookies. A command, or a
    Server, has `probe_timeout` seconds, but at most `timeout`, to answer the question what it speaks; then
    it is sent `initialize`, which has `timeout` seconds of its own
    (basic/transports/stdio/backward_compatibility). `env` adds to the few variables that a child sees by
    default. `confirm(tool, hints, arguments)` sees every tool call before it goes and says whether it may.
    `elicitation`, `sampling` and `roots` are what the application does for servers (api/callbacks), within
    `ask_timeout` seconds and as often as `ask_limit` allows; `max_rounds` bounds how often one request is
    sent again for it. `cache=True` keeps results while they are fresh (server/utilities/caching); a Cache
    may be shared, and then `principal` says whose the private results are. `eras` is where the era of a
    server is remembered: in this process, unless it is False or a KnownEras
    (basic/transports/stdio/backward_compatibility). `ping_every` so many seconds a server of the legacy era
    is asked whether it is still there, and its connection ended if it does not answer within `timeout`.
    `grace` is how long a closed server may take to exit, twice, before it is killed.
    """
    _check_target(target)
    over_http = isinstance(target, str)
    _check_fitting(over_http, {"headers": headers, "session": session}, (env, cwd, on_stderr))
    if isinstance(revision, versioning.Revision):  # `client.revision` of another client
        revision = revision.date
    _check_options(
        name=name,
        version=version,
        title=title,
        experimental=experimental,
        extensions=extensions,
        env=env,
        callbacks={
            "on_log": on_log,
            "on_notification": on_notification,
            "confirm": confirm,
            "on_stderr": on_stderr,
        },
        max_message_bytes=max_message_bytes,
        max_rounds=max_rounds,
        seconds={"timeout": timeout, "grace": grace, "max_timeout": max_timeout},
    )
    check_seconds("probe_timeout", probe_timeout)
    if ping_every is not None:
        check_seconds("ping_every", ping_every)
    check_text_if_any(revision=revision)
    if not revisions:
        raise ValueError("revisions names at least one revision")
    revisions = list(revisions) if revision is None else [revision]
    for date in revisions:
        versioning.revision(date)  # an unknown one is an error before anything is started
    versioning.check_extensions(extensions or {})
    more: Json = {"title": title} if title is not None else {}
    if roots is not None and not callable(roots):
        roots = as_roots(roots)  # a wrong one is an error before anything is started
    callbacks = Callbacks(
        elicitation=elicitation,
        elicitation_modes=elicitation_modes,
        sampling=sampling,
        sampling_tools=sampling_tools,
        sampling_context=sampling_context,
        sampling_review=sampling_review,
        roots=roots,
        limit=ask_limit,
        seconds=ask_timeout,
    )
    kept = _cache_of(cache)
    hash(principal)  # TypeError: what cannot be told from others is no principal
    declared = {"experimental": experimental, "extensions": extensions}
    capabilities = callbacks.capabilities() | {kind: dict(what) for kind, what in declared.items() if what}

    limits = ConnectionLimits(timeout, max_timeout, max_message_bytes)
    known_era = _known_era(eras, target, env, cwd)

    def dial() -> Any:
        if isinstance(target, list | tuple):
            # spec: basic/transports/index/support-stdio
            return stdio.Child(target, env=env, cwd=cwd, on_stderr=on_stderr, grace=grace)
        return memory.Link(target)

    def line(asker: Asker) -> AnyLine:
        if not over_http:
            return Line(asker, dial, limits=limits, probe_timeout=probe_timeout, known_era=known_era)
        from mcp_ref.api.http_transport import HttpLine  # not before it is needed: it takes its time

        return HttpLine(asker, target, headers=headers, session=session, limits=limits, known_era=known_era)

    def make(among: Sequence[str]) -> Client:
        asker = Asker(
            line,
            negotiated=Negotiated({"name": name, "version": version, **more}, capabilities, among),
            callbacks=callbacks,
            cache=CacheOfServer(
                kept, _cache_key(target, env, cwd), object() if principal is None else principal
            ),
            max_rounds=max_rounds,
            ping_every=ping_every,
            on_log=on_log,
            on_notification=on_notification,
            confirm=confirm,
            audit_arguments=audit_arguments,
        )
        return Client(asker, _label(target))

    return _opened(make, revisions, known_era)


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


def _cache_key(target: Any, env: Mapping[str, str] | None, cwd: str | os.PathLike[str] | None) -> Hashable:
    """What tells this server from others in a cache that several clients share."""
    if not isinstance(target, list | tuple):  # a URL, or a Server
        server: Hashable = target
        return server
    return (*map(os.fspath, target), str(Path(cwd or ".").resolve()), *sorted((env or {}).items()))


def _known_era(
    eras: bool | era.KnownEras,
    target: Any,
    env: Mapping[str, str] | None,
    cwd: str | os.PathLike[str] | None,
) -> era.KnownEra:
    """What is remembered of a server, by its command or its URL. Raises TypeError.

    A URL, and not its origin alone: several servers may share that, behind one gateway. Its query does not
    count. A Server of this process is asked each time, which costs nothing.
    """
    if not isinstance(eras, bool | era.KnownEras):
        raise TypeError(f"eras is True, False or a KnownEras, not {eras!r:.60}")
    if eras is False or not isinstance(target, str | list | tuple):
        return era.NOTHING_KNOWN
    found = era.KNOWN_ERAS if eras is True else eras
    if isinstance(target, str):
        parts = urlsplit(target)
        port = parts.port or {"http": 80, "https": 443}[parts.scheme]
        return era.KnownEra(found, (parts.scheme, parts.hostname, port, parts.path or "/"))
    return era.KnownEra(found, _cache_key(target, env, cwd))


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


def _check_fitting(over_http: bool, of_http: Json, of_commands: tuple[Any, ...]) -> None:
    """Options that the target has no use for are refused. Raises TypeError."""
    if over_http and any(given is not None for given in of_commands):
        raise TypeError("env, cwd and on_stderr are for a command, not for a URL")
    for name, given in of_http.items():
        if given is not None and not over_http:
            raise TypeError(f"{name} is for a URL, not for a command or a Server")
    session = of_http["session"]
    if session is not None and not hasattr(session, "get_adapter"):
        raise TypeError(f"session is a requests.Session, not {session!r:.60}")


def _check_options(
    *,
    name: Any,
    version: Any,
    title: Any,
    experimental: Any,
    extensions: Any,
    env: Any,
    callbacks: dict[str, Any],
    max_message_bytes: Any,
    max_rounds: Any,
    seconds: dict[str, Any],
) -> None:
    """Raises TypeError, ValueError for an option that makes no sense."""
    check_text(name=name, version=version)
    check_text_if_any(title=title)
    check_object(experimental=experimental, extensions=extensions, env=env)
    check_text(**{f"env[{key}]": value for key, value in (env or {}).items()})
    check_callable(**callbacks)
    check_count(1, max_message_bytes=max_message_bytes, max_rounds=max_rounds)
    for limit, value in seconds.items():
        if value is not None:
            check_seconds(limit, value)
