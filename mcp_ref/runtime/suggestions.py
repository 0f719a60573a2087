"""What was meant by a target that `connect` does not take, written as it takes it.

    "python server.py"        connect(['python', 'server.py'])
    "server.py"               connect([sys.executable, 'server.py'])
    "cd /srv && ./run"        connect(['sh', '-c', 'cd /srv && ./run'])
    "localhost:8000/mcp"      connect('http://localhost:8000/mcp')
    ["server.py"]             connect([sys.executable, 'server.py']), if it could not be started
    {"command": "run"}        connect(['run']): an entry of `mcpServers` in the settings of other clients

Only an error that refuses such a target needs this.

Threads     plain functions.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlsplit

__all__ = ["call_for", "call_for_command", "call_for_url"]

MAX_ADVICE_CHARACTERS = 500
"""A longer target is not repeated."""

# [//] host [:port] [/path]
_ADDRESS = r"(?a:(//)?(\[[0-9a-fA-F:.]+\]|[\w-]+(?:\.[\w-]+)*)(:\d{1,5})?(/\S*)?)"

_SHELL = r"[|&;<>()$`*?\n]|^\s*\w+="
"""What only a shell understands: pipes, variables, patterns, NAME=value before a command."""

_INTERPRETERS = {".py": "sys.executable", ".js": "'node'", ".mjs": "'node'"}
"""How files are started that may be no programs themselves, as Python code."""

_SCHEMES = {"ws": "http", "wss": "https", "http": "http", "https": "https"}
"""Schemes that people write for ours, and ours where something stands before them."""

_HALF_A_SCHEME = r"(?i)(https?)(?::/?(?!/)|//)"
"""What may stand at the beginning instead of `http://`: with a slash too few, or without the colon."""


def call_for(target: Any) -> str | None:
    """The call of `connect` for a target that it refuses; None where there is none that is known to work."""
    if isinstance(target, Mapping):
        return _call_for_entry(target)
    is_path = isinstance(target, os.PathLike)
    argument = _command([os.fspath(target)]) if is_path else _argument_for(target)
    if argument is None or len(argument) > MAX_ADVICE_CHARACTERS:
        return None
    return f"connect({argument})"


def call_for_command(command: Sequence[str]) -> str | None:
    """The call of `connect` for a list that could not be started; None if nothing is known to be better."""
    first, *rest = command
    if len(first.split()) < 2:
        meant = _command(command)
    elif rest:
        meant = _command([*first.split(), *rest])
    else:
        return call_for(first)
    if meant is None or meant == repr(list(command)) or len(meant) > MAX_ADVICE_CHARACTERS:
        return None
    return f"connect({meant})"


def call_for_url(url: str) -> str | None:
    """The call of `connect` for a URL with a part that it must not have."""
    parts = urlsplit(_with_whole_scheme(url.strip().replace(" ", "%20")))
    if not parts.hostname or not parts.geturl().isprintable() or len(url) > MAX_ADVICE_CHARACTERS:
        return None
    host = parts.netloc.rpartition("@")[2]
    right = parts._replace(netloc=host, fragment="").geturl()
    more = ", headers={'Authorization': ...}" if host != parts.netloc else ""
    return f"connect({right!r}{more})"


def _call_for_entry(entry: Mapping[Any, Any]) -> str | None:
    """The call for an entry of `mcpServers`. Of variables and headers it tells the names alone."""
    command, words, url = entry.get("command"), entry.get("args") or [], entry.get("url")
    if isinstance(url, str) and "@" not in url:
        argument, name, more = repr(url), "headers", entry.get("headers")
    elif isinstance(command, str) and isinstance(words, list) and all(isinstance(w, str) for w in words):
        argument, name, more = _command([command, *words]) or "", "env", entry.get("env")
    else:
        return None
    if isinstance(more, Mapping) and more:
        argument += f", {name}={{{', '.join(f'{key!r}: ...' for key in more)}}}"
    return f"connect({argument})" if len(argument) <= MAX_ADVICE_CHARACTERS else None


def _argument_for(target: str | bytes) -> str | None:
    """The argument that was meant by a text, as Python code."""
    try:
        text = (target if isinstance(target, str) else target.decode("utf-8")).strip()
    except UnicodeDecodeError:
        return None
    scheme, separator, rest = _with_whole_scheme(text).partition("://")
    if separator and scheme.isalnum():
        return _of_scheme(scheme.lower(), rest)
    url = _url(text)
    if url is not None:
        return repr(url)
    if re.search(_SHELL, text):
        return repr(["sh", "-c", text])
    import shlex  # not before it is needed, like the patterns: the package is to be imported quickly

    try:
        return _command(shlex.split(text))
    except ValueError:  # a quotation mark that is not closed
        return None


def _with_whole_scheme(text: str) -> str:
    """With `http://` where there was a part of it."""
    return re.sub(_HALF_A_SCHEME, r"\1://", text) if re.match(_HALF_A_SCHEME, text) else text


def _of_scheme(scheme: str, rest: str) -> str | None:
    """The argument for scheme://rest."""
    if scheme == "file":
        return _command([unquote(rest)])
    if scheme not in _SCHEMES or "@" in rest:
        return None
    return repr(f"{_SCHEMES[scheme]}://{quote(rest, safe='/?&=:[]%')}")


def _url(text: str) -> str | None:
    """The URL for an address without a scheme; None if it is none."""
    found = re.fullmatch(_ADDRESS, text)
    if found is None:
        return None
    slashes, host, port, path = found.groups()
    is_local = host.startswith("[") or host == "localhost" or re.fullmatch(r"[\d.]+", host) is not None
    if not (slashes or port or is_local or ("." in host and path and not Path(text).exists())):
        return None  # more likely the name of a program
    scheme = "http" if is_local or port not in (None, ":443") else "https"
    return f"{scheme}://{text.removeprefix('//')}"


def _command(words: Sequence[str]) -> str | None:
    """A command as a list, as Python code."""
    if not words:
        return None
    words = [str(Path.home() / word[2:]) if word.startswith("~/") else word for word in words]
    code = [repr(word) for word in words]
    interpreter = _INTERPRETERS.get(Path(words[0]).suffix)
    if interpreter is not None:
        code.insert(0, interpreter)
    elif words[0] in ("python", "python3") and not _is_program(words[0]):
        code[0] = "sys.executable"
    return f"[{', '.join(code)}]"


def _is_program(name: str) -> bool:
    """Whether a command of this name would be found."""
    return any(os.access(Path(folder) / name, os.X_OK) for folder in os.get_exec_path())
