"""The route to the server of a URL: through which proxy, and with which certificates.

A `requests.Session` says both, and the environment: http_proxy, https_proxy, all_proxy, no_proxy;
REQUESTS_CA_BUNDLE and CURL_CA_BUNDLE. The libraries below raise errors of six kinds for a proxy or a file
that cannot be: here, and nowhere else, they become ours.

Errors      LocalError for what the environment says, and for a file that is not there; ValueError for
            `session.proxies`. No error repeats the password of a proxy.
Threads     plain data once it is made.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import requests
from requests.exceptions import InvalidSchema, RequestException
from requests.utils import get_environ_proxies, prepend_scheme_if_needed, select_proxy
from urllib3.exceptions import HTTPError
from urllib3.util import parse_url

from mcp_ref.runtime.errors import LocalError
from mcp_ref.runtime.untrusted_text import one_line

__all__ = ["Route"]

PROXY_FORM = "it is no http: or socks: URL, such as http://proxy.example:3128"
NO_SOCKS = "for a socks: proxy, PySocks is missing: pip install 'requests[socks]'"

_with_scheme: Any = prepend_scheme_if_needed  # requests gives it no types


class Route:
    """How the server of one URL is reached."""

    def __init__(self, session: requests.Session, url: str, *, with_cert: bool = True) -> None:
        """`with_cert`: whether a server that asks who the client is may see `session.cert`."""
        self._session, self._url = session, url
        # True is the default of a session: only another value wins over REQUESTS_CA_BUNDLE.
        verify: Any = None if session.verify is True else session.verify
        settings = session.merge_environment_settings(url, {}, True, verify, None)
        self.proxies: Any = settings["proxies"]
        self._verify, self._cert = settings["verify"], settings["cert"] if with_cert else None
        self._proxy: str = select_proxy(url, self.proxies) or ""

    @property
    def has_proxy(self) -> bool:
        """Whether a proxy is named, even if it is one that cannot be."""
        return bool(self._proxy)

    @property
    def proxy(self) -> str:
        """Host and port of the proxy; "" if there is none, "..." if they cannot be told from a password."""
        server, *rest = re.split(r"[/?#\\]", self._proxy.split("://", 1)[-1], maxsplit=1)
        return "..." if "@" in "".join(rest) else one_line(server.rpartition("@")[2])

    def check_proxy(self) -> None:
        """Raise an error for a proxy that is itself reached by TLS."""
        if self._proxy.lower().startswith("https:"):
            raise self._refused_proxy("a proxy is reached by http: or socks:, not by https:")

    def pool(self, adapter: Any, request: requests.PreparedRequest) -> Any:
        """The connections of an adapter for a request, certificates set. Raises LocalError, ValueError."""
        if self._proxy and not _host_of(self._proxy):
            raise self._refused_proxy(PROXY_FORM)
        try:
            pool = adapter.get_connection_with_tls_context(request, self._verify, self.proxies, self._cert)
        except (RequestException, HTTPError, ValueError) as problem:
            if not self._proxy:
                raise
            fault = NO_SOCKS if isinstance(problem, InvalidSchema) else PROXY_FORM
            raise self._refused_proxy(fault) from None
        return self.certified(adapter, pool)

    def certified(self, adapter: Any, pool: Any) -> Any:
        """The same connections, with the certificates. Raises LocalError."""
        try:
            adapter.cert_verify(pool, self._url, self._verify, self._cert)
        except OSError as problem:
            raise LocalError(f"{self._name_of_bad_file()}: {problem}") from None
        return pool

    def _name_of_bad_file(self) -> str:
        """The setting or the variable with the file that is not there."""
        verify = self._verify
        if isinstance(verify, bool | None) or Path(verify).exists():
            return "session.cert"
        if self._session.verify == verify:
            return "session.verify"
        return "REQUESTS_CA_BUNDLE" if os.environ.get("REQUESTS_CA_BUNDLE") == verify else "CURL_CA_BUNDLE"

    def _refused_proxy(self, fault: str) -> Exception:
        """The error for a proxy: whose it is depends on who named it."""
        known = get_environ_proxies(self._url) if self._session.trust_env else {}
        variable = next((f"{name}_proxy" for name, value in known.items() if value == self._proxy), None)
        kind = ValueError if variable is None else LocalError
        where = variable or "session.proxies"
        return kind(f"{where} names a proxy that cannot be used, {self.proxy[:200]!r}: {fault}")


def _host_of(proxy: str) -> str:
    """The host of a proxy, as requests reads it; "" if it has none."""
    try:
        return parse_url(_with_scheme(proxy, "http")).host or ""
    except (TypeError, ValueError):  # TypeError: it has a user, and no host
        return ""
