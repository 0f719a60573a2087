"""Kinds of IP addresses, by where they lead: the Internet, a private network, this machine itself.

A URL that a stranger names may lead to a place that only this machine can reach: a service on its loopback
interface, a router, the metadata service of a cloud. What counts is the address behind a name, and, behind an
IPv6 address, the IPv4 address that it stands for.

    PUBLIC       anyone can reach it
    LOOPBACK     127.0.0.0/8, ::1
    LINK_LOCAL   169.254.0.0/16, fe80::/10
    PRIVATE      10.0.0.0/8, 192.168.0.0/16, fc00::/7 and all others that are routed nowhere
    UNUSABLE     no server has it: unspecified, multicast, reserved

Threads     plain functions.
"""

from __future__ import annotations

import enum
import ipaddress
from collections.abc import Iterator

__all__ = ["Reach", "is_loopback", "reach"]

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class Reach(enum.Enum):
    """The kind of an address."""

    PUBLIC = "a public address"
    LOOPBACK = "a loopback address"
    LINK_LOCAL = "a link-local address"
    PRIVATE = "a private address"
    UNUSABLE = "the address of no server"


_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")  # RFC 6052
_COMPATIBLE = ipaddress.IPv6Network("::/96")  # RFC 4291, section 2.5.5.1
_NAT64_LOCAL = ipaddress.IPv6Network("64:ff9b:1::/48")  # RFC 8215
_ISATAP = 0x5EFE  # RFC 5214, in the middle of the interface identifier

_WORST_FIRST = (Reach.UNUSABLE, Reach.LINK_LOCAL, Reach.LOOPBACK, Reach.PRIVATE, Reach.PUBLIC)


def reach(text: str) -> Reach:
    """Return the kind of an IP address; the worst one, if it holds another address. Raises ValueError."""
    # Only an IPv6 address has a zone: `127.0.0.1%2eexample` is a name, in an odd way of writing it.
    plain = text.partition("%")[0] if ":" in text else text
    found = {_reach(address) for address in _with_inner(ipaddress.ip_address(plain))}
    return next(kind for kind in _WORST_FIRST if kind in found)


def _with_inner(address: Address) -> Iterator[Address]:
    """Yield the addresses that may be reached: this one, the IPv4 address that it stands for, or both where
    that is up to a gateway.
    """
    if isinstance(address, ipaddress.IPv4Address):
        yield address
        return
    if address.ipv4_mapped is not None:
        yield address.ipv4_mapped
        return
    if address in _COMPATIBLE and int(address) > 1:
        yield ipaddress.IPv4Address(int(address))
        return
    if address in _NAT64:
        yield ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        return
    yield address
    if address.sixtofour is not None:
        yield address.sixtofour
    if address.teredo is not None:
        yield from address.teredo
    if (int(address) >> 32) & 0xFFFF == _ISATAP:
        yield ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)


def _reach(address: Address) -> Reach:
    if address.is_unspecified or address.is_multicast or (address.version == 4 and address.is_reserved):
        return Reach.UNUSABLE
    if address.is_loopback:
        return Reach.LOOPBACK
    if address.is_link_local:
        return Reach.LINK_LOCAL
    return Reach.PUBLIC if _is_routed(address) else Reach.PRIVATE


def _is_routed(address: Address) -> bool:
    """Whether an address is routed on the Internet. An address within it is judged by itself."""
    if isinstance(address, ipaddress.IPv4Address):
        return address.is_global
    if address in _NAT64_LOCAL or address.is_site_local:
        return False
    return address.is_global or address.sixtofour is not None or address.teredo is not None


def is_loopback(host: str) -> bool:
    """Whether a host of a URL is this machine itself: a loopback address, or localhost. Looks up no name."""
    name = host.strip("[]").lower()
    try:
        return reach(name) is Reach.LOOPBACK
    except ValueError:
        return name.rstrip(".") == "localhost"
