"""How a person is sent to the authorization server, and how its answer comes back (page:
basic/authorization/index, "Authorization Flow Steps").

    Browser()       opens the browser of this machine; the answer comes to a page on its loopback interface
    PasteUrl()      shows the URL, for a browser elsewhere; the person pastes the URL where that ends
    a function      takes the URL of the authorization request, and returns the URL of the response

    with user_agent:
        user_agent.redirect_uri             known from now on: clients are registered with it
        user_agent.authorize(url, timeout)  -> the URL of the authorization response, with its query

Revisions   2025-03-26 and later.
Errors      AuthorizationError: no answer in time, no browser, no terminal. Any other error that a function
            raises becomes one, too (api/oauth_client).
Threads     any; an object that several threads open has a page for each. A page is served until the block
            ends, by a thread `mcp_ref callback` and a few threads `mcp_ref http N`.
"""

from __future__ import annotations

import threading
import webbrowser
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import parse_qsl, urlsplit

from mcp_ref.basic.authorization.index.error_handling import AuthorizationError
from mcp_ref.runtime.http_server.receiving import Limits
from mcp_ref.runtime.http_server.server import HttpServer
from mcp_ref.runtime.threads.deadlines import duration
from mcp_ref.runtime.untrusted_text import one_line

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIEnvironment

__all__ = ["Browser", "PasteUrl", "UserAgent", "user_agent_of"]

CALLBACK_PATH = "/callback"
MAX_PAGE_CONNECTIONS = 20
"""Connections to the page at once: a browser opens some in advance."""
PASTED_URI = f"http://127.0.0.1:33418{CALLBACK_PATH}"
"""The redirect URI for pasting. Nothing listens there: only the query of the pasted URL is used."""


class UserAgent(Protocol):
    """Sends a person to a URL, and learns to which URL the authorization server redirected the browser."""

    @property
    def redirect_uri(self) -> str:
        """The URL to which the authorization server redirects the browser."""

    def __enter__(self) -> Any:
        """Be ready for an answer. If the object returned has a method `stop`, that ends the wait for one."""

    def __exit__(self, *exception: object) -> None:
        """Wait for no more answers."""

    def authorize(self, url: str, timeout: float) -> str:
        """The URL of the authorization response. Raises AuthorizationError if none comes in time."""


def user_agent_of(given: Any) -> UserAgent:
    """The option `user_agent` as a UserAgent; a function is wrapped in one. Raises TypeError."""
    if callable(given) and not hasattr(given, "authorize"):
        return _Called(given)
    if not callable(getattr(given, "authorize", None)) or not hasattr(given, "__enter__"):
        raise TypeError(f"user_agent is a Browser, a PasteUrl or a function, not {given!r:.60}")
    agent: UserAgent = given
    return agent


class Browser:
    """The browser of this machine, and a page on its loopback interface for the answer."""

    def __init__(
        self,
        port: int = 0,
        host: str = "127.0.0.1",
        open: Callable[[str], object] = webbrowser.open,
    ) -> None:
        """Port 0 is any free port. `host` is the host of the redirect URI: 127.0.0.1 or localhost."""
        if host not in ("127.0.0.1", "localhost"):
            raise ValueError(f"the page of a Browser is on 127.0.0.1 or localhost, not on {host!r:.60}")
        self._port, self._host, self._open = port, host, open
        self._pages = threading.local()  # `stack`: the pages that this thread has opened

    def __repr__(self) -> str:
        return f"Browser(port={self._port}, host={self._host!r})"

    def __enter__(self) -> _Page:
        """Listen for the answer. Raises AuthorizationError if the port is taken."""
        if not hasattr(self._pages, "stack"):
            self._pages.stack = []
        self._pages.stack.append(_Page(self._host, self._port, self._open))
        return self._page

    def __exit__(self, *exception: object) -> None:
        self._pages.stack.pop().close()

    @property
    def _page(self) -> _Page:
        page: _Page = self._pages.stack[-1]
        return page

    @property
    def redirect_uri(self) -> str:
        """The URL of the page that this thread opened last."""
        return self._page.redirect_uri

    def authorize(self, url: str, timeout: float) -> str:
        """Open the browser, and wait for the answer. Raises AuthorizationError."""
        return self._page.authorize(url, timeout)


class _Page:
    """The page to which the browser is redirected: an HTTP server for one answer."""

    def __init__(self, host: str, port: int, open_browser: Callable[[str], object]) -> None:
        limits = Limits(MAX_PAGE_CONNECTIONS, max_body_bytes=1)
        self._open = open_browser
        try:
            self._http = HttpServer(self._serve, "127.0.0.1", port, limits)
        except OSError as problem:
            raise AuthorizationError(f"no page for the answer at {host}:{port}: {problem.strerror}") from None
        self._hosts = (f"{host}:{self._http.port}", f"127.0.0.1:{self._http.port}")
        self.redirect_uri = f"http://{self._hosts[0]}{CALLBACK_PATH}"
        self._changed = threading.Condition()
        self._state: str | None = None  # guarded by _changed
        self._answer: str | None = None  # guarded by _changed
        self._is_stopped = False  # guarded by _changed
        self._thread = threading.Thread(target=self._http.serve, name="mcp_ref callback", daemon=True)
        self._thread.start()

    def authorize(self, url: str, timeout: float) -> str:
        """Open the browser, and wait for an answer with the `state` of the request. Returns its URL.

        No shell is used: `webbrowser` starts programs by lists of arguments.
        # spec: docs/security_best_practices/open-url-no-shell
        # spec: docs/security_best_practices/open-url-shell-commands
        # spec: docs/security_best_practices/open-url-platform
        """
        with self._changed:
            self._state = dict(parse_qsl(urlsplit(url).query)).get("state", "")
        try:
            is_open = self._open(url) is not False
        except Exception as problem:
            raise AuthorizationError(
                f"no browser could be opened to ask for authorization: {type(problem).__name__}: "
                f"{one_line(str(problem))[:300]}"
            ) from problem
        if not is_open:
            raise AuthorizationError(
                "no browser could be opened to ask for authorization; on a machine without one, write "
                "OAuth(user_agent=PasteUrl())"
            )
        with self._changed:
            self._changed.wait_for(lambda: self._answer is not None or self._is_stopped, timeout)
            if self._answer is not None:
                return self._answer
            stopped = "the client was closed" if self._is_stopped else f"within {duration(timeout)}"
        raise AuthorizationError(f"no answer came from the browser, {stopped}: nothing was granted")

    def stop(self) -> None:
        """Wait no longer. Any thread."""
        with self._changed:
            self._is_stopped = True
            self._changed.notify_all()

    def close(self) -> None:
        self._http.stop()
        self._thread.join(5.0)
        self._http.close(5.0)  # ends as soon as the browser has its page

    def _serve(self, environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        """Answer one request: of the browser, or of any other program on this machine."""
        status, said = self._heard(environ)
        body = _HTML.replace(b"{}", said.encode("ascii"))
        start(status, [*_PAGE_HEADERS, ("Content-Length", str(len(body)))])
        return [body]

    def _heard(self, environ: WSGIEnvironment) -> tuple[str, str]:
        if environ.get("HTTP_HOST") not in self._hosts:  # a foreign name for this address: DNS rebinding
            return "403 Forbidden", "This page is not here."
        if environ["PATH_INFO"] != CALLBACK_PATH or environ["REQUEST_METHOD"] != "GET":
            return "404 Not Found", "There is nothing here."
        query = environ.get("QUERY_STRING", "")
        said = dict(parse_qsl(query, keep_blank_values=True))
        state = said.get("state", "")
        with self._changed:
            if self._state is None or state != self._state:
                return "400 Bad Request", "This is not the answer that the program waits for."
            if self._answer is not None:
                return "200 OK", "The answer has arrived before. You can close this page."
            self._answer = f"{self.redirect_uri}?{query}"
            self._changed.notify_all()
        what = "The authorization was refused." if "error" in said else "The answer has arrived."
        return "200 OK", f"{what} You can close this page, and return to the program."


_HTML = b"""<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>Authorization</title></head>
<body><h1>Authorization</h1><p>{}</p></body>
</html>
"""
_PAGE_HEADERS = [
    ("Content-Type", "text/html; charset=utf-8"),
    ("Cache-Control", "no-store"),
    ("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'"),
    ("Referrer-Policy", "no-referrer"),
    ("X-Content-Type-Options", "nosniff"),
]


class PasteUrl:
    """A browser on another machine: the person copies the URLs there and back."""

    def __init__(
        self,
        ask: Callable[[str], str] = input,
        redirect_uri: str = PASTED_URI,
    ) -> None:
        """`ask(prompt)` returns what the person has pasted."""
        self._ask = ask
        self.redirect_uri = redirect_uri

    def __repr__(self) -> str:
        return f"PasteUrl(redirect_uri={self.redirect_uri!r})"

    def __enter__(self) -> PasteUrl:
        return self

    def __exit__(self, *exception: object) -> None:
        pass

    def authorize(self, url: str, timeout: float) -> str:
        """Show the URL, and ask for the one at the end. Raises AuthorizationError. There is no time-out."""
        prompt = (
            f"Open this URL in a browser:\n\n{url}\n\nAt the end the browser finds no page. Copy the URL of "
            "that page from its address bar, and paste it here: "
        )
        try:
            return self._ask(prompt)
        except (EOFError, OSError):
            raise AuthorizationError("nothing was pasted: there is no terminal to ask on") from None


class _Called:
    """A function of the application: URL of the authorization request -> URL of the response."""

    def __init__(self, function: Callable[[str], str]) -> None:
        self._function = function
        self.redirect_uri: str = getattr(function, "redirect_uri", PASTED_URI)

    def __enter__(self) -> _Called:
        return self

    def __exit__(self, *exception: object) -> None:
        pass

    def authorize(self, url: str, timeout: float) -> str:
        """The URL that the function returns. Raises TypeError if that is not a string."""
        answer = self._function(url)
        if not isinstance(answer, str):
            raise TypeError(f"a user agent returns the URL of the response, not {type(answer).__name__}")
        return answer
