"""Documents that clients publish: metadata documents and keys, fetched.

The URL comes from a stranger, so it is fetched by runtime/http_client/fetching: https, no private address
(checked after the name was resolved), bounded in size and time. These documents have further rules:

    redirects    a document that was redirected to is refused: a client id is the URL of its document
    type         JSON, with status 200
    cached       for as long as the response says (Cache-Control: max-age, no-store), for DEFAULT_SECONDS
                 if it says nothing, MAX_SECONDS at most. A failure is not remembered
    how often    FETCHES_PER_HOST in FETCH_WINDOW_SECONDS, MAX_AT_ONCE at a time: so that no stranger makes
                 this server flood another one
    errors       one sentence, whatever keeps an answer from coming: anyone may name any host here, and must
                 not learn what that name stands for in this network. The log has the reason

Errors      ValueError with a sentence.
Threads     any.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from mcp_ref.extras.authorization_server.expiring import Attempts, Expiring
from mcp_ref.runtime.http_client.addresses import Reach
from mcp_ref.runtime.http_client.fetching import Fetched, Fetcher, FetchError
from mcp_ref.runtime.logs import logger

__all__ = ["FetchedDocuments", "cache_seconds"]

_log = logger("mcp_ref.authorization_server")

MAX_BYTES = 32 << 10
MAX_FETCH_SECONDS = 5.0
MAX_AT_ONCE = 4
FETCHES_PER_HOST, FETCH_WINDOW_SECONDS = 60, 60.0
DEFAULT_SECONDS, MAX_SECONDS = 300.0, 86400.0
MAX_DOCUMENTS = 500

NOT_FETCHED = (
    "nothing comes from there: it has to be on the public internet, and to answer without a redirect, within "
    f"{MAX_FETCH_SECONDS:.0f} seconds, with at most {MAX_BYTES >> 10} KiB"
)

_MAX_AGE = re.compile(r'max-age\s*=\s*"?([0-9]{1,9})"?')


def cache_seconds(headers: Mapping[str, str]) -> float:
    """How many seconds a response may be kept (RFC 9111), up to MAX_SECONDS."""
    # spec: basic/authorization/client-registration/cimd-as-cache
    said = headers.get("cache-control", "").lower()
    if re.search(r"\bno-(store|cache)\b", said):
        return 0.0
    found = _MAX_AGE.search(said)
    return min(float(found[1]), MAX_SECONDS) if found is not None else DEFAULT_SECONDS


class FetchedDocuments:
    """The documents of clients, fetched now or cached."""

    def __init__(self, *, allow_private: bool = False) -> None:
        """`allow_private` allows private addresses and this machine as well, and http to this machine."""
        # spec: basic/authorization/security-considerations/cimd-ssrf
        self._allowed = (Reach.LOOPBACK, Reach.PRIVATE) if allow_private else ()
        self._places = threading.BoundedSemaphore(MAX_AT_ONCE)
        self._fetches = Attempts(FETCHES_PER_HOST, FETCH_WINDOW_SECONDS)
        self._kept: Expiring[dict[str, Any]] = Expiring(MAX_DOCUMENTS, DEFAULT_SECONDS)

    def get(self, url: str) -> dict[str, Any]:
        """Return the JSON object at a URL. Raises ValueError."""
        kept = self._kept.get(url)
        if kept is not None:
            return kept
        if self._fetches.begin(urlsplit(url).hostname):
            raise ValueError("it was fetched too often: try again in a minute")
        if not self._places.acquire(timeout=MAX_FETCH_SECONDS):
            raise ValueError("too many documents are fetched at once: try again")
        try:
            response = self._fetched(url)
            found = _checked(response, url)
        except FetchError as problem:
            raise ValueError(str(problem)) from None
        finally:
            self._places.release()
        seconds = cache_seconds(response.headers)
        if seconds:
            self._kept.put(url, found, seconds)
        return found

    def _fetched(self, url: str) -> Fetched:
        """Fetch a URL. Raises ValueError with the same sentence for all failures."""
        # Redirects are not followed: they would lead to hosts whose fetches are not counted.
        fetcher = Fetcher(allowed=self._allowed, seconds=MAX_FETCH_SECONDS, limit=MAX_BYTES, follows=False)
        try:
            return fetcher.get(url)
        except FetchError as problem:
            _log.info("a document of a client was not fetched: %s", problem)
            raise ValueError(NOT_FETCHED) from None


def _checked(response: Fetched, url: str) -> dict[str, Any]:
    """Return the JSON object of a response. Raises FetchError."""
    if "location" in response.headers and 300 <= response.status < 400:
        raise response.error("it redirects, which the URL of a document may not do")
    if response.status != 200:
        raise response.error(f"the status is {response.status}")
    if response.media_type != "application/json" and not response.media_type.endswith("+json"):
        raise response.error("it is of a type that is not JSON")
    return response.json()
