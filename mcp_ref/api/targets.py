"""The target of `connect`: each form that it may have stands for a URL, a command or an object.

    "http://host/mcp"              a URL
    "localhost:8000/mcp"           a URL, http://localhost:8000/mcp: only for names of this machine
    ["program", "argument"]        a command, which is started without a shell
    "program 'an argument'"        a command, split into words as a shell would
    "server.py --port 1"           a command, with this Python before it
    Path("server.py")              a command, with this Python before it; another Path is a program
    {"command": ..., "args": ...}  a command: an entry of `mcpServers`, with env and cwd
    {"url": ..., "headers": ...}   a URL: an entry of `mcpServers`, too
    Server("name")                 itself
    a transport of one's own       itself (basic/transports/index)

An entry has its URL as `url`, as `serverUrl` (Windsurf) or as `httpUrl` (Gemini CLI). Keys that only other
hosts read are ignored. For any other key the log has a warning, with the key that was probably meant.

In the texts of an entry `${NAME}`, `${env:NAME}` and `${NAME:-default}` stand for variables of the
environment. An argument of the call takes precedence over the same setting in the entry.

A text may be a command that is run: check a text from others before you give it to `connect`.

Errors      TypeError and ValueError for anything else, with the line to write, if it is known
            (runtime/suggestions); LocalError for a .py file that does not exist. All of them are raised
            before anything is started.
Threads     any.
"""

from __future__ import annotations

import functools
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import SplitResult, urlsplit

from mcp_ref.api.options import ClientOptions
from mcp_ref.runtime.checks import check_object
from mcp_ref.runtime.errors import LocalError
from mcp_ref.runtime.logs import logger
from mcp_ref.runtime.suggestions import (
    call_for,
    call_for_command,
    call_for_url,
    is_address,
    is_for_shell,
    local_url,
    nearest,
)

__all__ = ["CONFIGURATIONS", "URL_KEYS", "Headers", "Place", "PlacedEntry", "is_url", "place_of"]

_log = logger("mcp_ref.targets")

Headers: TypeAlias = Mapping[str, str] | Callable[[], Mapping[str, str]]


class Place(NamedTuple):
    """A checked target, with the headers and options to use for it."""

    target: Any
    """A URL, a command as a list, a Server, or a transport."""
    headers: Headers | None
    options: ClientOptions


URL_KEYS = ("url", "serverUrl", "httpUrl")
"""The keys that hosts use for the URL of an entry. An entry for several hosts may have more than one."""
_KEYS = frozenset({*URL_KEYS, "command", "args", "env", "cwd", "headers"})
_KEYS_OF_OTHERS = frozenset(
    {
        *("type", "transport", "transportType", "source", "name", "title", "description", "icon", "gallery"),
        *("version", "disabled", "enabled", "isActive", "timeout", "initTimeout", "trust", "tools", "dev"),
        *("alwaysAllow", "autoApprove", "allowedTools", "disabledTools", "includeTools", "excludeTools"),
        *("startup_timeout_sec", "tool_timeout_sec", "enabled_tools", "disabled_tools", "settings"),
    }
)
"""The keys that only other hosts read: names for people, and what a user or a model may do there."""
CONFIGURATIONS = ("mcpServers", "servers", "context_servers")
"""The key under which a configuration has its servers: in most hosts; in VS Code; in Zed."""


class PlacedEntry(dict[str, Any]):
    """An entry of a configuration, with its place there for errors and warnings."""

    def __init__(self, entry: Mapping[str, Any], place: str) -> None:
        """`place` is a text such as "files in mcp.json"."""
        super().__init__(entry)
        self.place = place


def place_of(target: Any, headers: Headers | None, options: ClientOptions) -> Place:
    """The Place of a target. Raises TypeError, ValueError, LocalError; nothing is started here."""
    try:
        return _checked_place(target, headers, options)
    except (TypeError, ValueError) as problem:
        if not isinstance(target, PlacedEntry):
            raise
        kind = TypeError if isinstance(problem, TypeError) else ValueError
        raise kind(f"{problem} ({target.place})") from None


def _checked_place(target: Any, headers: Headers | None, options: ClientOptions) -> Place:
    if isinstance(target, Mapping):
        target, headers, options = _of_entry(target, headers, options)
    elif isinstance(target, os.PathLike):
        target = _of_path(target, options)
    elif isinstance(target, str):
        target = _of_text(target, options)
    _check(target)
    return Place(target, headers, options)


# -- text, and paths ---------------------------------------------------------------------------------


def is_url(text: str) -> bool:
    """Whether a text begins with a scheme of HTTP."""
    return text.lower().startswith(("http:", "https:"))


def _of_text(text: str, options: ClientOptions) -> str | list[str]:
    """The URL or the command that a text stands for."""
    if is_url(text):
        return text
    words = text.strip()
    if words.endswith((".py", ".json")) and _is_file(words, options):
        _check_no_json(words)
        return [sys.executable, words]
    url = local_url(words)
    if url is not None:
        return url
    if not words or is_address(words) or is_for_shell(words):
        raise _refused(f"not {_without_user(repr(text)):.80}", call_for(text))
    import shlex  # start-up time

    try:
        command = shlex.split(words)
    except ValueError as problem:
        raise ValueError(f"{text!r:.80} is no command: {problem}; write it as a list of its words") from None
    return _script(command, options) if command[0].endswith(".py") else command


def _of_path(path: os.PathLike[Any], options: ClientOptions) -> list[str]:
    """The command for a file. A program is not looked for on the PATH."""
    text = os.fspath(path)
    if not isinstance(text, str):
        raise _refused(f"not {path!r:.80}", None)
    _check_no_json(text)
    if text.endswith(".py"):
        return _script([text], options)
    return [text if os.sep in text else f"./{text}"]


def _check_no_json(path: str) -> None:
    """Raise TypeError for a JSON file: it is a configuration, which `connect_all` takes."""
    if path.endswith(".json"):
        raise _refused("not a file of JSON", f"connect_all({path!r})")


def _script(command: list[str], options: ClientOptions) -> list[str]:
    """The command for a file of Python code and its arguments. Raises LocalError if it is not there."""
    script = command[0]
    if not _is_file(script, options):
        advice = call_for_command(command) if script.startswith("~") else None
        where = "" if Path(script).is_absolute() else f" in {Path(options.cwd or os.curdir).resolve()}"
        raise LocalError(f"there is no file {script!r:.200}{where}" + (f"; write {advice}" if advice else ""))
    return [sys.executable, *command]


def _is_file(path: str, options: ClientOptions) -> bool:
    return Path(options.cwd or os.curdir, path).is_file()


# -- entries of other hosts' settings ------------------------------------------------------------------


def _of_entry(entry: Mapping[Any, Any], headers: Headers | None, options: ClientOptions) -> Place:
    """The target, the headers and the options of an entry."""
    _check_is_one(entry)
    _check_entry(entry)
    _warn(getattr(entry, "place", "an entry of mcpServers"), tuple(map(str, entry)))
    cwd = entry.get("cwd") if options.cwd is None else options.cwd
    env = {**_texts("env", entry), **(options.env or {})}
    if (env, cwd) != ({}, None):
        options = replace(options, env=env, cwd=_expanded("cwd", cwd))
    url = _key_of_url(entry)
    target: Any = _expanded(url, entry.get(url))
    if target is None:
        target = [_expanded("command", word) for word in (entry["command"], *(entry.get("args") or ()))]
    return Place(target, _with_headers(_texts("headers", entry), headers), options)


def _check_entry(entry: Mapping[Any, Any]) -> None:
    """Check that an entry has either a command, perhaps with arguments, or a URL. Raises TypeError."""
    args = entry.get("args") or []
    command, url = entry.get("command"), entry.get(_key_of_url(entry))
    if (command is None) == (url is None):
        has = ", ".join(map(str, entry)) or "nothing"
        advice = _advice_on(entry) if url is None else ""
        raise TypeError(
            f"an entry of mcpServers has either command or url, and this one has {has:.200}{advice}"
        )
    if url is not None and args:
        raise TypeError("args is for a command, not for a URL")
    if not isinstance(args, list | tuple):
        raise TypeError(f"args is a list of strings, not {args!r:.60}")


def _advice_on(entry: Mapping[Any, Any]) -> str:
    """The end of an error: which of the needed keys was probably meant by a misspelt one; "" if none was."""
    meant = next(filter(None, (nearest(str(key), ("command", "url")) for key in entry)), None)
    return f": did you mean {meant}?" if meant is not None else ""


def _check_is_one(entry: Mapping[Any, Any]) -> None:
    """Raise TypeError for a whole configuration instead of an entry, even if it has only one server."""
    many = next((key for key in CONFIGURATIONS if key in entry), None)
    servers, place = (entry, "config") if many is None else (entry[many], f"config[{many!r}]")
    if many is None and not (entry and all(map(_is_entry, entry.values()))):
        return
    names = list(servers) if isinstance(servers, Mapping) else []
    if len(names) == 1:
        has, right = "it by its name", f"connect({place}[{names[0]!r:.80}])"
    else:
        has, right = "several", f"connect_all(config), or connect({place}['name'])"
    raise TypeError(f"connect takes one server, and this dict has {has}; write {right}")


def _is_entry(value: Any) -> bool:
    return isinstance(value, Mapping) and not _KEYS.isdisjoint(value)


def _key_of_url(entry: Mapping[Any, Any]) -> str:
    return next((key for key in URL_KEYS if entry.get(key) is not None), "url")


@functools.lru_cache(maxsize=256)  # so that an entry that is used again is not warned of again
def _warn(place: str, keys: tuple[str, ...]) -> None:
    """Warn, once, of keys that no host is known to read."""
    for key in keys:
        if key in _KEYS or key in _KEYS_OF_OTHERS or not key[:1].isalnum():  # "//", "_comment"
            continue
        meant = nearest(key, _KEYS)
        advice = f": did you mean {meant!r}?" if meant is not None else ""
        _log.warning("%s has %.60r, which means nothing here%s", place, key, advice)


def _with_headers(of_entry: dict[str, str], given: Headers | None) -> Headers | None:
    """The headers of an entry and of the call; that of the call if both have one. Raises TypeError."""
    if not of_entry or given is None:
        return of_entry or given
    if not isinstance(given, Mapping):
        raise TypeError("headers are a function here, and the entry has some, too: have one of both say all")
    names = {str(name).lower() for name in given}
    return {**{name: v for name, v in of_entry.items() if name.lower() not in names}, **given}


def _texts(key: str, entry: Mapping[Any, Any]) -> dict[str, str]:
    """The variables or the headers of an entry. Raises TypeError, ValueError."""
    given = entry.get(key)
    check_object(**{key: given})
    return {name: _expanded(f"{key}[{name}]", value) for name, value in (given or {}).items()}


_VARIABLE = r"\$\{(?:env:)?(?P<name>\w+)(?::-(?P<default>[^}]*))?\}|(?P<other>\$\{[^}]*\})"


def _expanded(place: str, text: Any) -> Any:
    """A text of an entry, with the values of its variables. Raises ValueError, which repeats no value."""

    def value(found: re.Match[str]) -> str:
        if found["other"] is not None:
            raise ValueError(f"{place} has {found['other']:.60}, which only another program could replace")
        known = os.environ.get(found["name"], found["default"])
        if known is None:
            raise ValueError(f"{place} has {found[0]:.60}, and there is no such variable in the environment")
        return known

    return re.sub(_VARIABLE, value, text) if isinstance(text, str) and "${" in text else text


# -- what is refused -----------------------------------------------------------------------------------


def _check(target: Any) -> None:
    """Raise TypeError or ValueError for a target that is not a URL, a command, a Server or a transport."""
    if isinstance(target, str):
        _check_url(target)
    elif isinstance(target, bytes):
        raise _refused(f"not {_without_user(repr(target)):.80}", call_for(target))
    elif isinstance(target, list | tuple):
        _check_command(target)
    elif isinstance(target, type):
        meant = "connect(Server('name'))" if hasattr(target, "attach") else None
        raise _refused(f"not the class {target.__name__}", meant)
    elif not hasattr(target, "attach") and not hasattr(target, "open_stream"):
        raise _refused(f"not {target!r:.80}", None)


def _refused(what: str, meant: str | None) -> TypeError:
    """The error for a target. `meant` is the call that would work, if it is known."""
    advice = f"; write {meant}" if meant is not None else ""
    return TypeError(f"connect takes a URL, a command, a .py file or a Server, {what}{advice}")


def _check_command(command: Sequence[Any]) -> None:
    """Raise TypeError or ValueError for a list that is not a command."""
    if not command:
        raise ValueError("the command is empty; write connect(['program', 'argument', ...])")
    for part in command:
        if not isinstance(part, str | os.PathLike):
            advice = f"; write {str(part)!r}" if isinstance(part, int | float) else ""
            raise TypeError(f"the command is made of strings, not of {part!r:.60}{advice}")
    first = command[0]
    if len(command) == 1 and isinstance(first, str) and is_url(first):
        _check_url(first)
        raise _refused(f"not a URL in a list, {first!r:.80}", f"connect({first!r})")


def _check_url(url: str) -> None:
    """Raise ValueError for a URL that cannot be a server's. The error never repeats a password."""
    parts = _split(url)
    right = call_for_url(url)
    advice = f"; write {right}" if right is not None else ""
    if parts.username is not None or parts.password is not None:
        raise ValueError(f"credentials do not belong into a URL, but into an Authorization header{advice}")
    # `http:me:secret@a` has a user, though not for `urlsplit`; `https://a/@b/mcp` has none.
    shown = (url if parts.netloc else _without_user_in_word(url))[:200]
    if parts.fragment or url.endswith("#"):
        raise ValueError(f"the URL of a server has no fragment: {shown!r}{advice}")
    if not parts.hostname or not is_url(url) or not url.replace(" ", "\n").isprintable():
        raise ValueError(f"{shown!r} is no URL of a server, which has a host and no spaces{advice}")


def _split(url: str) -> SplitResult:
    """The parts of a URL. Raises ValueError, which repeats no password."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as problem:
        why = "" if "@" in url else f": {problem}"  # it may quote what was taken for the port: a password
        raise ValueError(f"{_without_user_in_word(url)[:200]!r} is no URL{why}") from None
    return parts


def _without_user(text: str) -> str:
    """A text without possible passwords: without the part of a URL before `@`, even if it has no scheme."""
    scheme, slashes, rest = text.partition("://")
    if slashes and "@" in rest:  # a password may have spaces in it
        text = f"{scheme}://{rest.rpartition('@')[2]}"
    return " ".join(map(_without_user_in_word, text.split(" ")))[:200]


def _without_user_in_word(word: str) -> str:
    if "//" not in word and ":" not in word.partition("@")[0]:
        return word  # the name of a package, such as @scope/server, or a mail address
    return "//".join(part.rpartition("@")[2] for part in word.split("//"))
