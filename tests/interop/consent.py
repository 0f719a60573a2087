"""A person who says yes: what follows an authorization request by `requests`, as a browser would."""

from __future__ import annotations

import threading
from urllib.parse import parse_qs, urlsplit

import requests
from peers import PATIENCE


class Consent:
    """A user agent. It remembers the authorization requests that it was given."""

    redirect_uri = "http://127.0.0.1:33418/callback"

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.asked: list[dict[str, str]] = []

    def __call__(self, url: str) -> str:
        with self._lock:
            self.asked.append({name: values[0] for name, values in parse_qs(urlsplit(url).query).items()})
        for _ in range(5):
            answer = requests.get(url, allow_redirects=False, timeout=PATIENCE)
            assert answer.status_code in (302, 303), answer.text
            url = answer.headers["Location"]
            if url.startswith(self.redirect_uri):
                return url
        raise AssertionError(f"the redirects do not end: {url}")
