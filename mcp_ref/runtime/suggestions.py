"""How a text that names a server is read, and which `connect` call was probably meant by a refused target.

    "localhost:8000/mcp"      taken for a URL (`local_url`): this machine, where TLS is rare
    "example.org/mcp"         connect('https://example.org/mcp'): whether it has TLS is not for us to guess
    "cd /srv && ./run"        connect(['sh', '-c', 'cd /srv && ./run']), since no shell is started unasked
    "file:///srv/server.py"   connect([sys.executable, '/srv/server.py'])
    ["server.py"]             connect([sys.executable, 'server.py']), if it could not be started
    ["run -v"]                connect(['run', '-v']), likewise

    "arg" among "args", "env" ...   "args" (`nearest`), for an unknown key or option

A guess about which program to start, or about who may read what is sent, is never acted on: it is shown in an
error message, where it does no harm. The targets that `connect` takes are listed in api/targets.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlsplit

__all__ = [
    "call_for",
    "call_for_command",
    "call_for_url",
    "is_address",
    "is_for_shell",
    "local_url",
    "nearest",
    "url_of",
]

MAX_ADVICE_CHARACTERS = 500
"""Characters of a target; no advice repeats a longer one."""
MAX_NAME_CHARACTERS = 40
"""Characters of a name that are compared with the known ones, since comparing takes time."""

# The patterns are text, compiled when they are needed, so that importing the package is quick.
# ["//"] host [":" port] ["/" path]
_URL_WITHOUT_SCHEME = r"(?a:(//)?(\[[0-9a-fA-F:.]+\]|[\w-]+(?:\.[\w-]+)*)(:\d{1,5})?(/\S*)?)"

_LOCAL_HOST = r"\[.*|localhost|[\d.]+"
"""An IP address, or this machine: in such a place TLS is rare."""
_THIS_MACHINE = r"localhost|127(\.\d{1,3}){3}|\[::1\]"
_SHELL = r"[|&;<>()$`*?\n]|^\s*\w+="
"""What only a shell understands: pipes, variables, patterns, NAME=value before a command."""
_QUOTED_TEXT = r"""'[^']*'|"(?:[^"\\$`]|\\.)*"|\\."""
"""Quoted text, which a shell takes as it is."""
_ADDRESS = r"(?a:[a-zA-Z][\w+.-]*://|//)"
"""The beginning of a URL, of any scheme."""
_WITH_PASSWORD = r"\S+:\S*@\S+"
"""One word, with what may be a password in it."""
_INTERPRETERS = {".py": "sys.executable", ".js": "'node'", ".mjs": "'node'"}
"""What starts a file that may not be a program itself, as Python code, by the suffix of the file."""
_SCHEMES = {"ws": "http", "wss": "https", "http": "http", "https": "https"}
"""Schemes that people write, and the scheme to use for each."""
_HALF_A_SCHEME = r"(?i)(https?)(?::/?(?!/)|//)"
"""The beginning of a URL with a slash too few, or without the colon."""


def local_url(text: str) -> str | None:
    """The URL for an address of this machine without a scheme; None for any other text."""
    found = re.fullmatch(_URL_WITHOUT_SCHEME, text)
    if found is None or found[1] or not re.fullmatch(_THIS_MACHINE, found[2]):
        return None
    return f"http://{text}"


def url_of(text: str) -> str | None:
    """The URL for an address without a scheme; None if it is not one."""
    found = re.fullmatch(_URL_WITHOUT_SCHEME, text)
    if found is None:
        return None
    slashes, host, port, path = found.groups()
    is_local = re.fullmatch(_LOCAL_HOST, host) is not None
    if not (slashes or port or is_local or ("." in host and path and not Path(text).exists())):
        return None  # more likely the name of a program
    scheme = "http" if is_local or port not in (None, ":443") else "https"
    return f"{scheme}://{text.removeprefix('//')}"


def is_address(text: str) -> bool:
    """Whether a text has the form of an address, of any scheme or none, and is not a command.

    That includes the URLs that `connect` takes: a caller has looked for those before.
    """
    whole = _with_whole_scheme(text)
    found = re.match(_ADDRESS, whole) or re.fullmatch(_WITH_PASSWORD, whole) or url_of(whole)
    return found is not None


def is_for_shell(text: str) -> bool:
    """Whether a command, as text, has a part that only a shell understands."""
    return re.search(_SHELL, re.sub(_QUOTED_TEXT, "quoted", text)) is not None


def call_for(target: Any) -> str | None:
    """The call for a target that `connect` refuses; None if no call is known that would work."""
    return _call(_of_command([os.fspath(target)]) if isinstance(target, os.PathLike) else _of_text(target))


def call_for_command(command: Sequence[str]) -> str | None:
    """The call for a command that could not be started; None if nothing better is known."""
    first, *rest = command
    is_several_words = len(first.split()) > 1
    if is_several_words and not rest:
        return call_for(first)
    argument = _of_command([*first.split(), *rest] if is_several_words else command)
    return None if argument == repr(list(command)) else _call(argument)


def call_for_url(url: str) -> str | None:
    """The call for a URL that `connect` refuses for a part of it, such as a password; None if unknown."""
    parts = urlsplit(_with_whole_scheme(url.strip()))
    if not parts.hostname or not parts.geturl().isprintable() or len(url) > MAX_ADVICE_CHARACTERS:
        return None
    if " " in parts.netloc:  # escaped, it would still be no name of a server
        return None
    host = parts.netloc.rpartition("@")[2]
    right = parts._replace(netloc=host, fragment="").geturl().replace(" ", "%20")
    login = ", headers={'Authorization': ...}" if host != parts.netloc else ""
    return f"connect({right!r}{login})"


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that was probably meant; None if no known name is like this one."""
    import difflib  # not at the top, for the time that importing the package takes

    by_lower = {one.lower(): one for one in known}
    found = difflib.get_close_matches(name[:MAX_NAME_CHARACTERS].lower(), by_lower, n=1)
    return by_lower[found[0]] if found else None


def _call(argument: str | None) -> str | None:
    """The call with this argument; None without one, or if it is too long to be shown."""
    if argument is None or len(argument) > MAX_ADVICE_CHARACTERS:
        return None
    return f"connect({argument})"


# Each of the following returns an argument as Python code, or None.


def _of_text(target: str | bytes) -> str | None:
    try:
        text = (target if isinstance(target, str) else target.decode("utf-8")).strip()
    except UnicodeDecodeError:
        return None
    scheme, separator, rest = _with_whole_scheme(text).partition("://")
    if separator and scheme.isalnum():
        return _of_scheme(scheme.lower(), rest)
    url = url_of(text)
    if url is not None or re.fullmatch(_WITH_PASSWORD, text):
        return None if url is None else repr(url)
    if is_for_shell(text):
        return repr(["sh", "-c", text])
    import shlex  # not at the top, for the time that importing the package takes

    try:
        return _of_command(shlex.split(text))
    except ValueError:  # a quotation mark that is not closed
        return None


def _of_scheme(scheme: str, rest: str) -> str | None:
    if scheme == "file":
        return _of_command([unquote(rest)])
    if scheme not in _SCHEMES or "@" in rest:
        return None
    host, slash, path = rest.partition("/")
    if " " in host:
        return None
    return repr(f"{_SCHEMES[scheme]}://{host}{slash}{quote(path, safe='/?&=:[]%')}")


def _of_command(words: Sequence[str]) -> str | None:
    if not words:
        return None
    words = [str(Path.home() / word[2:]) if word.startswith("~/") else word for word in words]
    code = [repr(word) for word in words]
    interpreter = _INTERPRETERS.get(Path(words[0]).suffix)
    if interpreter is not None:
        code.insert(0, interpreter)
    elif words[0] in ("python", "python3"):
        import shutil  # start-up time

        if not shutil.which(words[0]):
            code[0] = "sys.executable"
    return f"[{', '.join(code)}]"


def _with_whole_scheme(text: str) -> str:
    """The text, with `http://` or `https://` whole where it begins with a part of that."""
    return re.sub(_HALF_A_SCHEME, r"\1://", text, count=1) if re.match(_HALF_A_SCHEME, text) else text
