"""The browser flow in a real browser: from `connect` to the first tool call, login, consent, callback.

Between them stand the rules that only a browser applies: which cookies it sends along, which pages it shows
in a frame, which style it lets a page have, where it follows a redirect to.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from html import escape
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qsl, quote, urlsplit

import pytest
from http_peers import serving
from oauth_peers import authorization
from web import web
from webdriver import Chromium, chromium, needed

from mcp_ref import AuthorizationError, Browser, Context, OAuth, ResourceServer, Server, connect
from mcp_ref.extras.authorization_server.browsers import Browsers
from mcp_ref.runtime.http_server.server import HttpServer

pytestmark = needed

SCOPES = {"notes:read": "Read your notes"}


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    with chromium(tmp_path_factory.mktemp("chromium")) as window:
        yield window


@pytest.fixture
def place(browser: Chromium) -> Iterator[SimpleNamespace]:
    """A protected server and its authorization server, which the browser has never seen."""
    server = Server("notes", version="1.0")

    @server.tool
    def whose(ctx: Context) -> str:
        """Say who asks."""
        return f"{ctx.principal}'s"

    with listening() as (http, apps):
        url = f"http://127.0.0.1:{http.port}/mcp"
        with authorization(resources=[url], scopes=SCOPES) as auth:
            protected = ResourceServer(
                url,
                authorization_servers=[auth.issuer],
                verify=auth.server.verifier(url),
                scopes=["notes:read"],
            )
            app = server.wsgi_app(auth=protected)
            apps.append(app)
            yield SimpleNamespace(url=url, auth=auth)
            app.close()
            browser.open("about:blank")


@contextlib.contextmanager
def listening() -> Iterator[tuple[HttpServer, list[Any]]]:
    """A port for an application that needs to know it."""
    apps: list[Any] = []
    with serving(lambda environ, start: apps[0](environ, start)) as http:
        yield http, apps


def opened(place: SimpleNamespace, act: Callable[[str], object], **more: Any) -> str:
    """What the first tool call gives to a client whose person `act` is."""
    agent = Browser(open=act)
    with connect(place.url, auth=OAuth(client_name="Test client", user_agent=agent, **more)) as client:
        return str(client.call_tool("whose").text)


def log_in(browser: Chromium, url: str, name: str = "ada") -> None:
    browser.open(url)
    assert "Test client" in browser.text
    browser.type("input[name=name]", name)
    browser.type("input[name=password]", f"{name}'s")
    browser.click("button")
    browser.wait("return document.querySelector('button[value=allow]') !== null")


def answer(browser: Chromium, value: str) -> None:
    browser.click(f"button[value={value}]")
    browser.wait("return location.pathname === '/callback'")


def test_from_connect_to_the_first_tool_call(browser: Chromium, place: SimpleNamespace) -> None:
    seen: dict[str, str] = {}

    def act(url: str) -> None:
        log_in(browser, url)
        seen["consent"] = browser.text
        answer(browser, "allow")
        seen["callback"] = browser.text

    assert opened(place, act) == "ada's"
    for words in ("Test client", "127.0.0.1", place.url, "Read your notes", "ada"):
        assert words in seen["consent"]
    assert "The answer has arrived" in seen["callback"]


def test_the_person_who_is_logged_in_is_asked_again_and_denies(
    browser: Chromium, place: SimpleNamespace
) -> None:
    def allow(url: str) -> None:
        log_in(browser, url, "bob")
        answer(browser, "allow")

    def deny(url: str) -> None:
        browser.open(url)
        assert not browser.has("input[name=password]")
        answer(browser, "deny")

    assert opened(place, allow) == "bob's"
    with pytest.raises(AuthorizationError) as caught:
        opened(place, deny)
    assert caught.value.error == "access_denied"


def test_a_wrong_password_can_be_corrected(browser: Chromium, place: SimpleNamespace) -> None:
    def act(url: str) -> None:
        browser.open(url)
        browser.type("input[name=name]", "ada")
        browser.type("input[name=password]", "wrong")
        browser.click("button")
        browser.wait("return document.querySelector('.warning') !== null")
        browser.type("input[name=name]", "ada")
        browser.type("input[name=password]", "ada's")
        browser.click("button")
        browser.wait("return document.querySelector('button[value=allow]') !== null")
        answer(browser, "allow")

    assert opened(place, act) == "ada's"


def test_a_forged_state_is_not_the_answer_and_the_true_one_is_still_taken(
    browser: Chromium, place: SimpleNamespace
) -> None:
    seen: dict[str, str] = {}

    def act(url: str) -> None:
        redirect_uri = dict(parse_qsl(urlsplit(url).query))["redirect_uri"]
        browser.open(f"{redirect_uri}?code=forged&state=forged&iss={place.auth.issuer}")
        seen["forged"] = browser.text
        log_in(browser, url)
        answer(browser, "allow")

    assert opened(place, act) == "ada's"
    assert "not the answer" in seen["forged"]


def test_a_callback_that_comes_twice_changes_nothing(browser: Chromium, place: SimpleNamespace) -> None:
    def act(url: str) -> None:
        log_in(browser, url)
        answer(browser, "allow")
        browser.open(browser.url)

    assert opened(place, act) == "ada's"


def test_two_flows_at_once_in_one_browser(browser: Chromium, place: SimpleNamespace) -> None:
    """Two clients, whose pages were opened before either was answered."""
    urls: list[str] = []
    both = threading.Barrier(2)
    turn = threading.Lock()
    said: list[str] = []

    def act(url: str) -> None:
        urls.append(url)
        both.wait(60)
        with turn:  # the window is one
            browser.open(url)
            if browser.has("input[name=password]"):
                log_in(browser, url)
            answer(browser, "allow")

    threads = [threading.Thread(target=lambda: said.append(opened(place, act))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert said == ["ada's", "ada's"]
    assert len(set(urls)) == 2


# -- what only a browser knows ---------------------------------------------------------------------


def test_the_style_of_a_page_is_the_one_that_its_policy_allows(
    browser: Chromium, place: SimpleNamespace
) -> None:
    browser.open(place.auth.url(place.auth.register(), resource=place.url))
    assert browser.run("return getComputedStyle(document.querySelector('label')).display") == "block"
    added = "const s = document.createElement('style'); s.textContent = 'label { display: none }';"
    browser.run(f"{added} document.head.append(s)")
    assert browser.run("return getComputedStyle(document.querySelector('label')).display") == "block"


def test_no_script_of_a_page_runs(browser: Chromium, place: SimpleNamespace) -> None:
    browser.open(place.auth.url(place.auth.register(), resource=place.url))
    browser.run("document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"window.ran = true\">')")
    added = "const s = document.createElement('script'); s.textContent = 'window.ran = true';"
    browser.run(f"{added} document.body.append(s)")
    assert browser.run("return window.ran === undefined")


def test_the_cookie_is_read_by_no_script(browser: Chromium, place: SimpleNamespace) -> None:
    browser.open(place.auth.url(place.auth.register(), resource=place.url))
    name = Browsers(place.auth.server.settings).cookie_name
    [ours] = [cookie for cookie in browser.cookies() if cookie["name"] == name]
    assert (ours["httpOnly"], ours["sameSite"]) == (True, "Lax")
    assert "mcp_ref_" not in browser.run("return document.cookie")


def test_a_page_is_not_shown_in_a_frame(browser: Chromium, place: SimpleNamespace) -> None:
    url = place.auth.url(place.auth.register(), resource=place.url)
    browser.open("data:text/html," + quote(f'<iframe src="{escape(url)}"></iframe>'))
    with browser.in_frame("iframe"):
        browser.wait("return document.readyState === 'complete'")
        assert browser.run("return location.protocol") == "chrome-error:"
        assert not browser.has("form")


def test_a_form_of_another_site_is_sent_without_the_cookie(browser: Chromium, place: SimpleNamespace) -> None:
    """The site knows even the hidden fields; 127.0.0.1 and localhost are two sites."""
    browser.open(place.auth.url(place.auth.register(client_name="Test client"), resource=place.url))
    log_in(browser, browser.url)
    fields = browser.run("return [...document.querySelectorAll('input')].map(i => [i.name, i.value])")
    hidden = "".join(f'<input name="{name}" value="{value}">' for name, value in fields)
    form = f'<form method="post" action="{place.auth.at("/consent")}">{hidden}'
    form += '<button name="answer" value="allow">Win</button></form>'
    with web(lambda request, wire: answered(wire, form.encode())) as site:
        browser.open(site.url.replace("127.0.0.1", "localhost"))
        browser.click("button")
        browser.wait("return location.pathname === '/consent'")
        assert "another site" in browser.text


def answered(wire: Any, html: bytes) -> None:
    wire.answer(200, b"<!DOCTYPE html>" + html, "Content-Type: text/html", "Connection: close")
    wire.close()
