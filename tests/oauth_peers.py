"""An authorization server on a socket of this process, and a person with a browser in front of it.

    with authorization() as auth:                    a running AuthorizationServer; auth.issuer, auth.server
        client = auth.register()                     its registration, as the server answered
        browser = Browser()
        page = browser.open(auth.url(client))        the login page
        page = browser.log_in(page, "ada")           the consent page
        answer = browser.allow(page)                 what went to the redirect URI, as a dict
        tokens = auth.token(client, answer)          the response of the token endpoint

A Browser follows no redirect that leads away from the server: it says where it would have gone.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlencode, urljoin, urlsplit

import requests
from peers import PATIENCE, nothing_left

from mcp_ref.basic.authorization.security_considerations import s256
from mcp_ref.extras.authorization_server import AuthorizationServer
from mcp_ref.runtime.http_server.server import HttpServer

RESOURCE = "https://mcp.example.com/mcp"
SCOPES = {"notes:read": "Read your notes", "notes:write": "Write notes for you"}
REDIRECT = "http://127.0.0.1:1/callback"
"""Nothing listens there: only the browser would be sent to it."""
VERIFIER = "v" * 43
LAST = {"Connection": "close"}
"""Headers of a request after which no thread of the server waits for more."""


def log_in(name: str, password: str) -> str | None:
    """Ada and Bob, whose passwords are no secret."""
    return name if name in ("ada", "bob") and password == f"{name}'s" else None


class _Forms(HTMLParser):
    """The form of a page, its links, and its text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.action = ""
        self.fields: dict[str, str] = {}
        self.buttons: list[str] = []
        self.links: list[str] = []
        self.words: list[str] = []
        self.tags: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.tags.append(tag)
        if tag == "form":
            self.action = str(given["action"])
        elif tag == "input":
            self.fields[str(given["name"])] = given.get("value") or ""
        elif tag == "button" and "value" in given:
            self.buttons.append(str(given["value"]))
        elif tag == "a":
            self.links.append(str(given["href"]))

    def handle_data(self, data: str) -> None:
        self.words.append(data)


class Page:
    """A response, as a browser shows it."""

    def __init__(self, response: requests.Response) -> None:
        self.status = response.status_code
        self.headers = response.headers
        self.html = response.text
        self.url = response.url
        found = _Forms(response.text)
        self.action, self.fields, self.buttons = found.action, found.fields, found.buttons
        self.links, self.tags = found.links, found.tags
        self.text = " ".join(" ".join(found.words).split())
        self.location = response.headers.get("Location")

    @property
    def answer(self) -> dict[str, str]:
        """What is in the query of the URL that it leads to."""
        assert self.location is not None, f"{self.status}: {self.text}"
        return dict(parse_qsl(urlsplit(self.location).query, strict_parsing=True))


class Browser:
    """A browser, with its cookies."""

    def __init__(self) -> None:
        self.session = requests.Session()
        self.session.trust_env = False
        self.session.headers.update(LAST)

    def open(self, url: str) -> Page:
        return self._followed(self.session.get(url, allow_redirects=False, timeout=PATIENCE))

    def submit(
        self, page: Page, *leave_out: str, headers: dict[str, str] | None = None, **fields: str
    ) -> Page:
        """Send the form of a page, some of it changed or left out."""
        given = {name: value for name, value in {**page.fields, **fields}.items() if name not in leave_out}
        response = self.session.post(
            urljoin(page.url, page.action), given, headers=headers, allow_redirects=False, timeout=PATIENCE
        )
        return self._followed(response)

    def _followed(self, response: requests.Response) -> Page:
        for _ in range(5):
            there = urljoin(response.url, response.headers.get("Location", ""))
            if not response.is_redirect or urlsplit(there).netloc != urlsplit(response.url).netloc:
                break
            response = self.session.get(there, allow_redirects=False, timeout=PATIENCE)
        return Page(response)

    def log_in(self, page: Page, name: str, password: str | None = None) -> Page:
        return self.submit(page, name=name, password=f"{name}'s" if password is None else password)

    def allow(self, page: Page) -> dict[str, str]:
        return self.submit(page, answer="allow").answer

    def deny(self, page: Page) -> dict[str, str]:
        return self.submit(page, answer="deny").answer

    def grant(self, url: str, name: str = "ada") -> dict[str, str]:
        """All of it: to the Yes of a user."""
        page = self.open(url)
        return self.allow(self.log_in(page, name) if "password" in page.fields else page)


class Running(NamedTuple):
    """An authorization server that serves."""

    issuer: str
    server: Any

    def at(self, path: str) -> str:
        return f"{self.issuer.rstrip('/')}{path}"

    def metadata(self) -> dict[str, Any]:
        parts = urlsplit(self.issuer)
        place = f"{parts.scheme}://{parts.netloc}/.well-known/oauth-authorization-server{parts.path}"
        found: dict[str, Any] = requests.get(place.rstrip("/"), timeout=PATIENCE).json()
        return found

    def register(self, **metadata: Any) -> dict[str, Any]:
        """Register a public client, unless `metadata` says more."""
        given = {
            "client_name": "Test client",
            "redirect_uris": [REDIRECT],
            "token_endpoint_auth_method": "none",
            "grant_types": ["authorization_code", "refresh_token"],
            **metadata,
        }
        response = self.post_json("/register", given)
        assert response.status_code == 201, response.text
        found: dict[str, Any] = response.json()
        return found

    def post_json(self, path: str, value: Any) -> requests.Response:
        return requests.post(self.at(path), json=value, headers=LAST, timeout=PATIENCE)

    def post(
        self, path: str, form: Any, headers: dict[str, str] | None = None, **more: Any
    ) -> requests.Response:
        given = {**LAST, **(headers or {})}
        return requests.post(
            self.at(path), form, headers=given, allow_redirects=False, timeout=PATIENCE, **more
        )

    def url(self, client: dict[str, Any] | str, *leave_out: str, **more: str) -> str:
        """The URL of an authorization request."""
        given = {
            "response_type": "code",
            "client_id": client if isinstance(client, str) else client["client_id"],
            "redirect_uri": REDIRECT,
            "state": "state-1",
            "scope": "notes:read",
            "resource": RESOURCE,
            "code_challenge": s256(VERIFIER),
            "code_challenge_method": "S256",
            **more,
        }
        query = {name: value for name, value in given.items() if name not in leave_out}
        return f"{self.at('/authorize')}?{urlencode(query)}"

    def redeem(
        self, client: dict[str, Any] | str, answer: dict[str, str], *leave_out: str, **more: Any
    ) -> requests.Response:
        """Ask the token endpoint for what a code is good for."""
        headers, auth = more.pop("headers", None), more.pop("auth", None)
        given = {
            "grant_type": "authorization_code",
            "code": answer["code"],
            "client_id": client if isinstance(client, str) else client["client_id"],
            "redirect_uri": REDIRECT,
            "resource": RESOURCE,
            "code_verifier": VERIFIER,
            **more,
        }
        form = {name: value for name, value in given.items() if name not in leave_out}
        return self.post("/token", form, headers=headers, auth=auth)

    def token(self, client: dict[str, Any] | str, answer: dict[str, str], **more: Any) -> dict[str, Any]:
        response = self.redeem(client, answer, **more)
        assert response.status_code == 200, response.text
        found: dict[str, Any] = response.json()
        return found

    def refresh(self, client: dict[str, Any] | str, token: str, **more: Any) -> requests.Response:
        headers = more.pop("headers", None)
        given = {
            "grant_type": "refresh_token",
            "refresh_token": token,
            "client_id": client if isinstance(client, str) else client["client_id"],
            **more,
        }
        return self.post("/token", given, headers=headers)

    def tokens(self, client: dict[str, Any] | str | None = None, **more: str) -> dict[str, Any]:
        """The whole way, by a new browser: what the token endpoint answers."""
        client = self.register() if client is None else client
        return self.token(client, Browser().grant(self.url(client, **more)))


@contextlib.contextmanager
def running(make: Callable[[str], Any], path: str = "") -> Iterator[Running]:
    """Serve what `make(issuer)` returns, on a free port."""
    with nothing_left():
        apps: list[Any] = []
        http = HttpServer(lambda environ, start: apps[0](environ, start), port=0)
        issuer = f"http://127.0.0.1:{http.port}{path}"
        thread = threading.Thread(target=http.serve, name="authorization server")
        try:
            server = make(issuer)
            apps.append(server.wsgi_app())
            thread.start()
            yield Running(issuer, server)
        finally:
            http.close(0.1)
            if thread.ident is not None:
                thread.join(PATIENCE)


@contextlib.contextmanager
def authorization(path: str = "", **options: Any) -> Iterator[Running]:
    """An AuthorizationServer for tests; `options` are its own."""
    given = {"users": log_in, "resources": [RESOURCE], "scopes": SCOPES, **options}
    with running(lambda issuer: AuthorizationServer(issuer, **given), path) as auth:
        yield auth
