"""Which `requests.Session` an application may give: one of which everything counts that it says.

Our exchanges use the connections beneath a session, and not its way of sending. So some of what a session can
do would never happen: it is refused, since a signature or a tenant that is left out unnoticed is worse.

    counts      headers, cookies, auth, proxies, verify, cert, trust_env; of an adapter, what makes its
                connections: init_poolmanager, proxy_manager_for, proxy_headers, request_url, cert_verify,
                get_connection_with_tls_context, build_connection_pool_key_attributes
    refused     an adapter that retries, or that sends in its own way; hooks; params; a session that sends in
                its own way

Errors      ValueError, which says what to write instead.
Threads     plain functions.
"""

from __future__ import annotations

import itertools
from typing import Any

import requests
import urllib3
from requests.adapters import HTTPAdapter

__all__ = ["check_session", "is_plain"]

OF_SESSIONS = frozenset(
    {
        *("request", "send", "prepare_request", "get", "post", "delete"),
        *("get_redirect_target", "resolve_redirects", "should_strip_auth"),
        *("rebuild_auth", "rebuild_proxies", "rebuild_method"),
    }
)
"""The methods of a Session that are never called here."""
OF_ADAPTERS = frozenset({"send", "add_headers", "build_response"})
"""The methods of an HTTPAdapter that are never called here."""


def check_session(session: requests.Session, adapter: Any) -> None:
    """Check that everything counts that a session says, and its adapter for the URL. Raises ValueError."""
    _check_methods("the session", session, requests.Session, OF_SESSIONS)
    _check_methods("the adapter of the session", adapter, HTTPAdapter, OF_ADAPTERS)
    if any(session.hooks.values()):
        raise ValueError("the session has hooks, which would not be called here; connect with on_wire=...")
    if session.params:
        raise ValueError("the session has params, which would not be sent here; write them into the URL")
    _check_retries(getattr(adapter, "max_retries", None))


def _check_methods(whose: str, given: Any, base: type[Any], names: frozenset[str]) -> None:
    """Check that these methods are those of requests. Raises ValueError."""
    order = type(given).__mro__
    # Not by comparing the functions: tools that trace replace those of requests itself.
    nearer = order[: order.index(base)] if base in order else order
    named = itertools.chain(getattr(given, "__dict__", ()), *map(vars, nearer))
    own = names.intersection(named)
    if own:
        raise ValueError(
            f"{whose}, a {type(given).__name__}, has its own {', '.join(sorted(own))}, and that would not be "
            "called here: give what it adds to a request as headers=..., auth=... or session.auth; "
            "to have lost requests sent again, connect with retry=Retry(5); to wait for a shorter time, with "
            "timeout=..."
        )


def _check_retries(retry: Any) -> None:
    """Check that an adapter sends nothing again: a call could be done twice. Raises ValueError."""

    def is_allowed(count: Any) -> bool:
        return count is None or count > 0

    # Anything but a urllib3.Retry belongs to an adapter that the application wrote.
    if not isinstance(retry, urllib3.Retry) or not is_allowed(retry.total):
        return
    if any(map(is_allowed, (retry.connect, retry.read, retry.status, retry.other))):
        raise ValueError(
            f"the adapter of the session retries (max_retries={retry!r}), and a call that is sent again "
            "could be done twice; mount HTTPAdapter() without max_retries, and connect with retry=Retry(5), "
            "which sends again what may be"
        )


def is_plain(adapter: Any) -> bool:
    """Whether an adapter makes its connections as requests does, so that another may take its place."""
    usual = HTTPAdapter()
    return (
        type(adapter) is HTTPAdapter
        and vars(adapter).keys() == vars(usual).keys()
        and _pool_options(adapter) == _pool_options(usual)
    )


def _pool_options(adapter: HTTPAdapter) -> tuple[Any, set[str]]:
    """The class of an adapter's pools, and the names of their options, such as `ssl_context`."""
    pools: Any = adapter.poolmanager
    return type(pools), set(pools.connection_pool_kw)
