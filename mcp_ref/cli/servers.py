"""Which server a command line means.

    mcp-ref tools http://127.0.0.1:8000/mcp      a URL, also as localhost:8000/mcp
    mcp-ref tools server.py                      a file, which is run by this Python
    mcp-ref tools -- python server.py --fast     a command: everything after the first `--`
    mcp-ref tools --config mcp.json files        a server of a configuration, by its name (api/hosts)
    mcp-ref tools --config mcp.json              all of them, or the only one

The last word of a command line that is not an option names the server, if it looks like one of these.

Errors      ValueError: misuse, such as `--env` for a server at a URL; TypeError: a configuration that makes
            no sense; LocalError: there is no such file.
"""

from __future__ import annotations

import logging
import re
import shlex
from argparse import Namespace
from collections.abc import Sequence
from typing import Any

from mcp_ref.api.hosts import Host, connect_all, servers_of
from mcp_ref.api.options import ClientOptions
from mcp_ref.api.targets import place_of
from mcp_ref.cli import show
from mcp_ref.runtime.logs import logger
from mcp_ref.runtime.suggestions import is_address, local_url, url_of

__all__ = [
    "all_of",
    "choose_by_tool",
    "is_command",
    "is_several",
    "names_server",
    "pairs",
    "take_server",
    "target",
    "way_to",
]

_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_OPEN_ENDED = ("arguments", "uris")
"""Positional arguments that take any number of words: the last of these words may be the server."""


def is_url(word: str) -> bool:
    """Whether a word is a URL, or the address of a server on this machine."""
    return word.lower().startswith(("http:", "https:")) or local_url(word) is not None


def names_server(word: str, options: Namespace) -> bool:
    """Whether a word that does not follow `--` names a server."""
    if options.config is not None:
        return word in _servers(options)
    return is_url(word) or (word.endswith(".py") and "=" not in word)


def take_server(options: Namespace, rest: Sequence[str], behind: Sequence[str] | None) -> None:
    """Set `options.server` to the words that name the server: a URL, a command, or a name with `--config`.

    `rest` are the words that no argument of the command has taken, `behind` those after `--`, if there is
    one. Raises ValueError, TypeError, LocalError.
    """
    for word in rest:
        if word.startswith("-"):
            raise ValueError(f"unrecognized argument {word:.80}; a server's command stands behind --")
    words = _left_for_server(options, list(rest), behind is None)
    if behind is not None and words:
        raise ValueError(f"either {words[0]!r:.80} or what stands behind -- names the server")
    options.server = (words if options.config is not None else _meant_by(words)) or list(behind or ())


def _meant_by(words: list[str]) -> list[str]:
    """The URL or the command that words without a `--` mean. Raises ValueError, LocalError."""
    if words and is_address(words[0]) and not is_url(words[0]):
        url = url_of(words[0])
        advice = f"; write {url}" if url is not None else ""
        raise ValueError(f"the URL of a server begins with http:// or https://{advice}")
    if not words or not words[0].endswith(".py"):
        return words
    if len(words) > 1:
        raise ValueError(f"a server's command stands behind --; write -- python {shlex.join(words):.200}")
    command: list[str] = place_of(words[0], None, ClientOptions()).target
    return command


def _left_for_server(options: Namespace, words: list[str], may_name: bool) -> list[str]:
    """The words that are left to name the server, after the arguments of the command have taken theirs.

    `may_name` is false if a command after `--` names the server.
    """
    for name in _OPEN_ENDED:
        found = getattr(options, name, None)
        if found is not None:
            found += words
            return [found.pop()] if may_name and found and names_server(found[-1], options) else []
    value = getattr(options, "value", "")  # of `complete`: optional, so it may have taken the server
    if value and may_name and not words and names_server(value, options):
        words, options.value = [value], ""
    return words


def _servers(options: Namespace) -> dict[str, Any]:
    """The servers of the configuration. Raises ValueError, TypeError."""
    try:
        return servers_of(options.config)
    except OSError as problem:
        raise ValueError(f"--config: {problem}") from None


def _chosen(options: Namespace) -> str:
    """The name of the one server of a configuration that is meant. Raises ValueError."""
    names, given = list(_servers(options)), options.server
    if len(given) > 1:
        raise ValueError(f"--config takes the name of one server: remove {given[1]!r:.80}")
    if (not given and len(names) == 1) or (given and given[0] in names):
        return str((given or names)[0])
    wrong = f"there is no server {given[0]!r:.80} in" if given else "name one of the servers in"
    raise ValueError(f"{wrong} {options.config}: {', '.join(names) or 'it has no servers'}")


def is_several(options: Namespace) -> bool:
    """Whether all servers of a configuration are meant."""
    return options.config is not None and not options.server and len(_servers(options)) != 1


def choose_by_tool(options: Namespace) -> None:
    """If all servers of a configuration are meant, choose the one that the tool `server.tool` names."""
    if is_several(options):
        for name in _servers(options):
            if options.tool.startswith(f"{name}."):
                options.server, options.tool = [name], options.tool.removeprefix(f"{name}.")
                return


def _given(options: Namespace) -> Any:
    """The target for `connect`: a URL, a command, or an entry of the configuration. Raises ValueError."""
    if options.config is not None:
        return _servers(options)[_chosen(options)]
    first, *rest = options.server
    if is_url(first) and rest:
        raise ValueError(f"nothing may follow the URL of a server: remove {rest[0]!r:.80}")
    return first if is_url(first) else list(options.server)


def is_command(options: Namespace) -> bool:
    """Whether the server is started for this command, and not one at a URL."""
    return not isinstance(place_of(_given(options), None, ClientOptions()).target, str)


def target(options: Namespace) -> dict[str, Any]:
    """The arguments of `connect` that say where the server is: at a URL, or started by a command."""
    if not is_command(options):
        if options.env:
            raise ValueError("--env is for a server that is started here, not for one at a URL")
        place = place_of(_given(options), _headers(options.header), ClientOptions(name="mcp-ref"))
    else:
        if options.header:
            raise ValueError("--header is for a server at a URL")
        more = ClientOptions(
            name="mcp-ref",
            env=pairs("--env takes", options.env, last_wins=True),
            on_stderr=_on_stderr(options),
        )
        place = place_of(_given(options), None, more)
    return {"target": place.target, "headers": place.headers, "options": place.options}


def _on_stderr(options: Namespace) -> Any:
    return (lambda line: None) if options.quiet else show.stderr_line


def all_of(options: Namespace) -> Host:
    """A Host that is connected to all servers of a configuration."""
    for option, values in (("--env", options.env), ("--header", options.header)):
        if values:
            raise ValueError(f"{option} is for one server: name it, behind the options")
    # The host logs a server that is not there. `tools` tells of it as well: once is enough on stderr.
    logger("mcp_ref.host").addHandler(logging.NullHandler())
    return connect_all(
        {"mcpServers": _servers(options)},
        timeout=options.timeout,
        revision=options.revision,
        options=ClientOptions(name="mcp-ref"),
        each=lambda name: _quiet(_servers(options)[name]) if options.quiet else {},
    )


def _quiet(entry: Any) -> dict[str, Any]:
    """The options of `--quiet` for one server: drop what it writes to stderr, if it is started here."""
    started = not isinstance(place_of(entry, None, ClientOptions()).target, str)
    return {"options": ClientOptions(name="mcp-ref", on_stderr=lambda line: None)} if started else {}


def way_to(options: Namespace) -> list[str]:
    """The words that name the same server in another command line."""
    if options.config is not None:
        return ["--config", options.config, _chosen(options)]
    return ["--", *options.server]


def _headers(given: Sequence[str]) -> dict[str, str]:
    """Headers, each given as `NAME: VALUE`. Raises ValueError, whose text shows no part of a value."""
    found: dict[str, str] = {}
    for text in given:
        name, colon, value = text.partition(":")
        name = name.strip()
        if not colon or _HEADER_NAME.fullmatch(name) is None:
            raise ValueError("--header takes NAME: VALUE")
        if name.lower() in map(str.lower, found):
            raise ValueError(f"--header has {name} twice")
        found[name] = value.strip()
    return found


def pairs(what: str, given: Sequence[str], *, last_wins: bool = False) -> dict[str, str]:
    """Values by name, each given as NAME=VALUE. Raises ValueError for another text, or a name given twice.

    `last_wins` allows that, as shells do with variables. `what` begins the message about another text.
    """
    found = {}
    for pair in given:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise ValueError(f"{what} NAME=VALUE, not {pair!r}")
        if name in found and not last_wins:
            raise ValueError(f"{name} is given twice")
        found[name] = value
    return found
