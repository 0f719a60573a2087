"""Lists of hosts and of origins, as people write them into settings, and what a browser says.

    Hosts      "example.com"            at any port
               "example.com:8000"       at that one (one that is left out counts as 80 and as 443)
               "example.com:*"          at any port
               "*.example.com"          whatever is below it, not itself; with or without a port
               "[::1]"                  an IPv6 address, in brackets
    Origins    "https://example.com"    at the port of its scheme
               "http://localhost:5173"  "http://localhost:*"  "https://*.example.com"
               "null"                   a page of nowhere: from a file, in a sandbox
               "vscode-webview://..."   any other scheme
    both       "*"                      everything that is a host, an origin

A name is compared in lower case, without a dot at its end, an IPv6 address in its shortest form.

Threads     a list never changes; any number of threads may ask it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import ClassVar, NamedTuple

__all__ = ["Hosts", "Origins", "Place"]


class Place(NamedTuple):
    """A host, or the origin of a page."""

    scheme: str
    """"" for a host."""
    name: str
    port: int
    """NONE where it was left out; in a pattern, ANY for all."""


NONE, ANY = 0, -1
DEFAULT_PORTS = {"http": 80, "https": 443}

_HOST = re.compile(r"(\[[0-9a-f:.]{2,45}\]|[a-z0-9_][a-z0-9._-]{0,253})(?::([0-9]{0,5}))?")
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]{0,30}")
_PORT = re.compile(r":[0-9]*$")


class Hosts:
    """A list of hosts: `"localhost:8000" in hosts`."""

    form: ClassVar = 'a host: "example.com", "example.com:8000", "example.com:*", "*.example.com", "*"'

    def __init__(self, setting: str, patterns: str | Iterable[str]) -> None:
        self.everything = False
        self._these: set[Place] = set()
        self._below: list[Place] = []  # each name is the end of those that are meant, with its dot
        for pattern in [patterns] if isinstance(patterns, str) else patterns:
            if pattern == "*":
                self.everything = True
            elif not isinstance(pattern, str) or not self._add(pattern):
                raise ValueError(f"{setting} has {pattern!r:.80}, which is not {self.form}")

    @staticmethod
    def read(text: str) -> Place | None:
        """What a `Host` header says, in its one spelling; None if that is not a host."""
        found = _HOST.fullmatch(text.lower()) if len(text) < 300 and text.isascii() else None
        if found is None:
            return None
        name, port = found[1], int(found[2] or NONE)
        name = _ipv6(name) if name[0] == "[" else name.removesuffix(".")
        return Place("", name, port) if name and port < 65536 else None

    @staticmethod
    def ports(place: Place) -> Iterable[int]:
        """Which ports a pattern means that says this."""
        if place.port == NONE:
            return (ANY,)
        return (place.port, NONE) if place.port in DEFAULT_PORTS.values() else (place.port,)

    def _add(self, pattern: str) -> bool:
        """Whether the pattern is one."""
        text = pattern.removesuffix(":*")
        start, star, rest = text.partition("*.")  # a star stands where the name begins, and nowhere else
        place = self.read(start + rest)
        if place is None or (star and start and not start.endswith("://")):
            return False
        any_port = text != pattern
        if (star or any_port) and (not place.name or (star and place.name[0] == "[")):
            return False
        if any_port and _PORT.search(text):
            return False
        for port in (ANY,) if any_port else self.ports(place):
            if star:
                self._below.append(Place(place.scheme, f".{place.name}", port))
            else:
                self._these.add(place._replace(port=port))
        return True

    def __contains__(self, text: str) -> bool:
        """Whether this header names a place of the list. What is none is not in any, also not in "*"."""
        place = self.read(text)
        if place is None:
            return False
        return (
            self.everything
            or place in self._these
            or place._replace(port=ANY) in self._these
            or any(
                place.scheme == scheme and place.name.endswith(end) and port in (ANY, place.port)
                for scheme, end, port in self._below
            )
        )

    def __bool__(self) -> bool:
        """Whether the list names anything."""
        return self.everything or bool(self._these or self._below)


class Origins(Hosts):
    """A list of origins: `"https://example.com" in origins`."""

    form: ClassVar = 'an origin: "https://example.com", "http://localhost:*", "https://*.example.com", "*"'

    @staticmethod
    def read(text: str) -> Place | None:
        """What an `Origin` header says, in its one spelling; None if that is not one origin."""
        if text == "null":
            return Place(text, "", NONE)
        if len(text) > 400 or not text.isascii():
            return None
        scheme, separator, host = text.partition("://")
        scheme = scheme.lower()
        if not separator or not _SCHEME.fullmatch(scheme):
            return None
        if not host and scheme not in DEFAULT_PORTS:
            return Place(scheme, "", NONE)  # "file://"
        place = Hosts.read(host)
        return place and Place(scheme, place.name, place.port or DEFAULT_PORTS.get(scheme, NONE))

    @staticmethod
    def ports(place: Place) -> Iterable[int]:
        """The one it says, or that of its scheme."""
        return (place.port,)


def _ipv6(name: str) -> str:
    """An address in brackets, as short as it can be written; nothing if it is none."""
    import ipaddress

    try:
        return f"[{ipaddress.IPv6Address(name[1:-1])}]"
    except ValueError:
        return ""
