"""The demo of authorization: a client, a protected server, an authorization server, and all that they say.

    make demo-auth        or: python docs/examples/auth/demo.py

Two users use the same client. Ada may read and write, Bob may read. A person who is a few lines of Python
logs in and allows what is asked. Between the parties stands `Shown`, which shows each HTTP message as it
arrives, with the clause of the specification that it follows (docs/clauses.tsv).
"""

from __future__ import annotations

import io
import json
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urljoin, urlsplit
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

import requests
from notes_client import use
from notes_server import PASSWORDS, authorization_server, notes_server, protection

from mcp_ref import OAuth
from mcp_ref.runtime.http_server.server import HttpServer

sys.path.append(str(Path(__file__).resolve().parents[1]))
from wire import paint

PAGE = "basic/authorization"
DISCOVERY = f"{PAGE}/authorization-server-discovery"
CLAUSES = {
    "POST /mcp": f"{PAGE}/index/token-every-request",
    "POST /mcp, without a token": f"{PAGE}/index/http-conforms",
    "401": f"{DISCOVERY}/www-authenticate-on-401",
    "403": f"{PAGE}/index/insufficient-scope-403",
    "200": f"{PAGE}/index/token-audience",
    "GET /.well-known/oauth-protected-resource": f"{PAGE}/index/prm-client",
    "200 /.well-known/oauth-protected-resource": f"{DISCOVERY}/prm-authorization-servers",
    "GET /.well-known/oauth-authorization-server": f"{DISCOVERY}/multiple-well-known",
    "200 /.well-known/oauth-authorization-server": f"{PAGE}/index/discovery-as",
    "POST /register": f"{PAGE}/client-registration/application-type",
    "201 /register": f"{PAGE}/index/client-id-obtained",
    "GET /authorize": f"{PAGE}/security-considerations/pkce",
    "200 /authorize": f"{PAGE}/security-considerations/redirects-exact",
    "POST /login": f"{PAGE}/index/oauth21-as",
    "303 /login": f"{PAGE}/index/oauth21-as",
    "GET /consent": f"{PAGE}/security-considerations/redirect-host-shown",
    "200 /consent": f"{PAGE}/security-considerations/redirect-host-shown",
    "POST /consent": f"{PAGE}/index/oauth21-as",
    "303 /consent": f"{PAGE}/index/iss-emitted",
    "POST /token": f"{PAGE}/index/resource-in-both-requests",
    "200 /token": f"{PAGE}/security-considerations/short-lived-tokens",
}
"""What each message follows: a request by its method and path, a response by its status."""

SECRETS = re.compile(r"token|secret|code|verifier|challenge|state|csrf|flow|password|assertion|cookie", re.I)
OF_BROWSERS = ("/authorize", "/login", "/consent")
WIDTH, MAX_PARTS = 110, 9


class Shown:
    """An application, each request and response of which is shown."""

    def __init__(self, name: str, app: WSGIApplication) -> None:
        self.name, self.app = name, app
        self.seen: list[str] = []

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        method, path = environ["REQUEST_METHOD"], environ["PATH_INFO"]
        sender = "browser" if path in OF_BROWSERS else "client"
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        environ["wsgi.input"] = io.BytesIO(body)
        parts = [
            *_authorization(environ),
            *_told(environ["QUERY_STRING"], body, environ.get("CONTENT_TYPE", "")),
        ]
        token = "" if path != "/mcp" or "HTTP_AUTHORIZATION" in environ else ", without a token"
        self.show("-->", sender, f"{method} {path}{token}", f"{method} {_kind(path)}{token}", parts)

        def start(status: str, headers: list[tuple[str, str]], *exc_info: Any) -> Any:
            answered.append((status, headers))
            return start_response(status, headers, *exc_info)

        answered: list[tuple[str, list[tuple[str, str]]]] = []
        result = self.app(environ, start)
        status, headers = answered[0]
        said = b"".join(result) if isinstance(result, list | tuple) else b""
        kind = status[:3] if path == "/mcp" else f"{status[:3]} {_kind(path)}"
        self.show(
            "<--",
            sender,
            status,
            kind,
            [*_headers(headers), *_told("", said, dict(headers).get("Content-Type", ""))],
        )
        return result

    def show(self, arrow: str, sender: str, what: str, kind: str, parts: list[str]) -> None:
        clause = CLAUSES.get(kind, "")
        self.seen.append(kind)
        line = f"{sender} {arrow} {self.name}  {what}"
        room = WIDTH - len(line)
        fits = len(clause) + 1 < room
        print(paint(line, "title"), end=paint(f"{clause:>{room}}\n", "faint") if fits else "\n")
        if not fits:
            print(paint(f"{clause:>{WIDTH}}", "faint"))
        for part in parts[:MAX_PARTS]:
            print(f"    {part}"[:WIDTH])
        if len(parts) > MAX_PARTS:
            print(f"    ... {len(parts) - MAX_PARTS} more")


def _kind(path: str) -> str:
    return re.sub(r"(/\.well-known/[^/]+).*", r"\1", path)


def _short(name: str, value: object) -> str:
    """A value, without what is a secret of its owner."""
    text = value if isinstance(value, str) else json.dumps(value)
    if SECRETS.search(name) and not name.endswith(("_method", "_supported", "_type", "_endpoint")):
        return f"{text[:6]}..." if len(text) > 20 else "..."
    return text


def _authorization(environ: WSGIEnvironment) -> list[str]:
    given = environ.get("HTTP_AUTHORIZATION")
    return [] if given is None else [f"Authorization: {given[:16]}..."]


def _headers(headers: list[tuple[str, str]]) -> Iterator[str]:
    for name, value in headers:
        if name == "WWW-Authenticate":
            yield f"{name}: {value}"
        elif name == "Location":
            there = urlsplit(value)
            yield f"{name}: {there.scheme}://{there.netloc}{there.path}"
            yield from _told(there.query, b"", "")


def _told(query: str, body: bytes, kind: str) -> Iterator[str]:
    """The members of a message, a few to a line."""
    members: dict[str, object] = dict(parse_qsl(query))
    if "form" in kind:
        members |= dict(parse_qsl(body.decode()))
    elif "json" in kind and body:
        message = json.loads(body)
        members |= {"JSON-RPC": message.get("method") or "a response"} if "jsonrpc" in message else message
    for name, value in members.items():
        yield f"{name} = {_short(name, value)}"


# ------------------------------------------------------------------------------- the person


class Form(HTMLParser):
    """The form of a page."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.action = ""
        self.fields: dict[str, str] = {}
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag == "form":
            self.action = given["action"]
        elif tag == "input":
            self.fields[given["name"]] = given.get("value", "")


def person(name: str) -> Callable[[str], str]:
    """A user agent: it opens a URL, fills in each form, and says where it was sent at last."""
    browser = requests.Session()
    browser.trust_env = False

    def authorize(url: str) -> str:
        page = browser.get(url)
        while True:
            form = Form(page.text)
            known = {"name": name, "password": PASSWORDS[name]}
            fields = {field: known.get(field, value) for field, value in form.fields.items()}
            there = urljoin(page.url, form.action)
            page = browser.post(there, {**fields, "answer": "allow"}, allow_redirects=False)
            location = urljoin(page.url, page.headers["Location"])
            if urlsplit(location).netloc != urlsplit(page.url).netloc:
                return location  # to the client: here the browser would leave
            page = browser.get(location)

    return authorize


# -------------------------------------------------------------------------------- all of it


@contextmanager
def served(app: Callable[[str], Shown]) -> Iterator[str]:
    """An application on a port of this machine: its origin."""
    apps: list[Shown] = []
    http = HttpServer(lambda environ, start: apps[0](environ, start), port=0)
    origin = f"http://127.0.0.1:{http.port}"
    apps.append(app(origin))
    thread = threading.Thread(target=http.serve)
    thread.start()
    try:
        yield origin
    finally:
        http.close(1.0)
        thread.join()


def main() -> None:
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `demo.py | head` ends quietly
    made: dict[str, Any] = {}

    def protected(origin: str) -> Shown:
        made["url"] = f"{origin}/mcp"
        made["server"] = Shown("server", lambda environ, start: made["app"](environ, start))
        return made["server"]

    def authorizing(issuer: str) -> Shown:
        auth = authorization_server(issuer, made["url"])
        made["app"] = notes_server().wsgi_app(auth=protection(auth, made["url"]))
        return Shown("authorization server", auth.wsgi_app())

    print("A client, a protected server, and an authorization server, all on this machine.\n")
    with served(protected), served(authorizing):
        for name, may in (("ada", "reads and writes"), ("bob", "may only read")):
            print("\n" + paint(f"== {name}, who {may}", "title") + "\n")
            use(made["url"], OAuth(client_name="Notes client", user_agent=person(name)))
        made["app"].close()
    print("\nRun docs/examples/auth/notes_server.py and notes_client.py to log in yourself, in a browser.")


if __name__ == "__main__":
    main()
