"""Lists of hosts and of origins, as settings and browsers write them.

    Hosts      "example.com"            at any port
               "example.com:8000"       at that port (a port that is left out counts as 80 and as 443)
               "example.com:*"          at any port
               "*.example.com"          each subdomain, but not the name itself; with or without a port
               "[::1]"                  an IPv6 address, in brackets
    Origins    "https://example.com"    at the port of its scheme
               "http://localhost:5173"  "http://localhost:*"  "https://*.example.com"
               "null"                   a page without an origin: from a file, in a sandbox
               "vscode-webview://..."   any other scheme
    both       "*"                      every valid host or origin

Names are compared in lower case and without a dot at the end, IPv6 addresses in their shortest form.

Threads     a list never changes; any number of threads may use it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import ClassVar, NamedTuple

__all__ = ["Hosts", "Origin", "Origins"]


class Origin(NamedTuple):
    """Scheme, host and port (RFC 6454). A host has the scheme ""."""

    scheme: str
    host: str
    port: int
    """NO_PORT if it was left out; in a pattern, ANY_PORT if it holds at every port."""


NO_PORT, ANY_PORT = 0, -1
DEFAULT_PORTS = {"http": 80, "https": 443}

# RFC 3986, section 3.2.2: host [ ":" port ]
_HOST_AND_PORT = re.compile(r"(\[[0-9a-f:.]{2,45}\]|[a-z0-9_][a-z0-9._-]{0,253})(?::([0-9]{0,5}))?")
# RFC 3986, section 3.1
_ORIGIN_SCHEME = re.compile(r"[a-z][a-z0-9+.-]{0,30}")
# [scheme "://"] ["*."] the rest [":*"]: a star may stand nowhere else
_PATTERN = re.compile(r"([^*]*://)?(\*\.)?([^*]*?)(:\*)?")
_PORT = re.compile(r":[0-9]*$")


class Hosts:
    """A list of hosts: `"localhost:8000" in hosts`."""

    form: ClassVar = 'a host: "example.com", "example.com:8000", "example.com:*", "*.example.com", "*"'

    def __init__(self, setting: str, patterns: str | Iterable[str]) -> None:
        """`setting` names the list in errors. Raises ValueError."""
        self.has_all = False
        self._exact: set[Origin] = set()
        self._subdomains: list[Origin] = []  # each with a host that begins with a dot
        for pattern in [patterns] if isinstance(patterns, str) else patterns:
            if pattern == "*":
                self.has_all = True
            elif not isinstance(pattern, str) or not self._add(pattern):
                raise ValueError(f"{setting} has {pattern!r:.80}, which is not {self.form}")

    @staticmethod
    def parse(text: str) -> Origin | None:
        """A `Host` header, normalized; None if it is not a host."""
        found = _HOST_AND_PORT.fullmatch(text.lower()) if len(text) < 300 and text.isascii() else None
        if found is None:
            return None
        host, port = found[1], int(found[2] or NO_PORT)
        host = _shortest_ipv6(host) if host[0] == "[" else host.removesuffix(".")
        if not host or host.endswith(".") or port > 65535:  # a name may end with one dot, not with two
            return None
        return Origin("", host, port)

    @staticmethod
    def ports_of(pattern: Origin) -> Iterable[int]:
        """The ports at which a pattern holds."""
        if pattern.port == NO_PORT:
            return (ANY_PORT,)
        # A client leaves out the port of the scheme, and a Host header does not tell the scheme.
        return (pattern.port, NO_PORT) if pattern.port in DEFAULT_PORTS.values() else (pattern.port,)

    def _add(self, pattern: str) -> bool:
        """Add a pattern. Returns False if it is not one."""
        found = _PATTERN.fullmatch(pattern)
        if found is None:
            return False
        scheme, star, rest, any_port = found.groups("")
        origin = self.parse(scheme + rest)
        if origin is None or not _may_have(origin, star, any_port, rest):
            return False
        for port in (ANY_PORT,) if any_port else self.ports_of(origin):
            if star:
                self._subdomains.append(Origin(origin.scheme, f".{origin.host}", port))
            else:
                self._exact.add(origin._replace(port=port))
        return True

    def __contains__(self, text: str) -> bool:
        """Whether the header names a member of the list. What does not parse is in no list, not even "*"."""
        origin = self.parse(text)
        if origin is None:
            return False
        return (
            self.has_all
            or not self._exact.isdisjoint((origin, origin._replace(port=ANY_PORT)))
            or any(
                origin.scheme == scheme and origin.host.endswith(end) and port in (ANY_PORT, origin.port)
                for scheme, end, port in self._subdomains
            )
        )

    def __bool__(self) -> bool:
        return self.has_all or bool(self._exact or self._subdomains)


class Origins(Hosts):
    """A list of origins: `"https://example.com" in origins`."""

    form: ClassVar = 'an origin: "https://example.com", "http://localhost:*", "https://*.example.com", "*"'

    @staticmethod
    def parse(text: str) -> Origin | None:
        """An `Origin` header, normalized; None if it is not exactly one origin."""
        if text == "null":
            return Origin(text, "", NO_PORT)
        if len(text) > 400 or not text.isascii():
            return None
        scheme, separator, host = text.partition("://")
        scheme = scheme.lower()
        if not separator or not _ORIGIN_SCHEME.fullmatch(scheme):
            return None
        if not host and scheme not in DEFAULT_PORTS:
            return Origin(scheme, "", NO_PORT)  # "file://"
        found = Hosts.parse(host)
        return found and Origin(scheme, found.host, found.port or DEFAULT_PORTS.get(scheme, NO_PORT))

    @staticmethod
    def ports_of(pattern: Origin) -> Iterable[int]:
        """The port of the pattern, or of its scheme."""
        return (pattern.port,)


def _may_have(origin: Origin, star: str, any_port: str, text: str) -> bool:
    """Whether a pattern for this origin may have these wildcards."""
    if star and origin.host.startswith("["):
        return False  # an address has no subdomains
    if any_port and _PORT.search(text):
        return False  # "example.com:80:*"
    return bool(origin.host) or not (star or any_port)


def _shortest_ipv6(address: str) -> str:
    """An IPv6 address in brackets, in its shortest form; "" if it is not valid."""
    import ipaddress  # not at the top, for the time that importing the package takes

    try:
        return f"[{ipaddress.IPv6Address(address[1:-1])}]"
    except ValueError:
        return ""
