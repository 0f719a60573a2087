"""api/user_agents: how a person gets to the authorization server, and the answer back."""

import re
import socket
import threading
import webbrowser
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import parse_qs, urlsplit

import pytest
import requests
from peers import PATIENCE, nothing_left

from mcp_ref import AuthorizationError
from mcp_ref.api.user_agents import Browser, PasteUrl, user_agent_of

ASKED = "https://as.example/authorize?response_type=code&state=s1"


@pytest.fixture(autouse=True)
def clean():
    with nothing_left():
        yield


def get(url, **headers):
    return requests.get(url, headers={"Connection": "close", **headers}, timeout=10)


def answering(*queries, pages=None):
    """A browser that is sent to the redirect URI with these, one after another."""
    seen = [] if pages is None else pages

    def open_browser(url):
        assert url == ASKED
        threading.Thread(
            target=lambda: seen.extend(get(f"{agent.where}?{query}") for query in queries)
        ).start()

    agent = Browser(open=open_browser)
    return agent


def authorized(agent, timeout=PATIENCE):
    with agent as opened:
        agent.where = opened.redirect_uri
        return agent.authorize(ASKED, timeout)


@pytest.mark.spec("basic/authorization/security-considerations/redirect-localhost-or-https")
def test_the_answer_comes_to_a_page_on_this_machine():
    agent = answering("code=c1&state=s1&iss=i")
    answer = authorized(agent)
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/callback\?code=c1&state=s1&iss=i", answer)
    with pytest.raises(OSError, match="refused"):  # the page is gone
        socket.create_connection(("127.0.0.1", urlsplit(answer).port))


def test_states_forged_are_not_taken_for_the_answer():
    pages = []
    answer = authorized(
        answering("code=evil&state=s2", "code=evil", "error=x", "code=c1&state=s1", pages=pages)
    )
    assert parse_qs(urlsplit(answer).query)["code"] == ["c1"]
    assert [page.status_code for page in pages][:3] == [400, 400, 400]


def test_callbacks_twice_are_answered_politely_and_the_first_counts():
    with Browser(open=bool) as page, ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(page.authorize, ASKED, PATIENCE)
        while get(f"{page.redirect_uri}?code=c1&state=s1").status_code != 200:
            pass  # it is not expected yet
        assert "code=c1" in waiting.result(PATIENCE)
        again = get(f"{page.redirect_uri}?code=c2&state=s1")
        assert (again.status_code, "has arrived before" in again.text) == (200, True)


def test_the_page_can_be_read_without_scripts_and_tells_nothing():
    pages = []
    authorized(answering("state=s2&code=<script>", "code=secret&state=s1", pages=pages))
    with nothing_left():
        pass
    for page in pages:
        assert page.headers["content-type"] == "text/html; charset=utf-8"
        assert page.headers["content-security-policy"].startswith("default-src 'none'")
        assert page.headers["cache-control"] == "no-store"
        assert page.headers["referrer-policy"] == "no-referrer"
        assert "<p>" in page.text and "<script" not in page.text and "secret" not in page.text


def test_other_requests_of_whatever_asks_on_this_machine_get_nothing():
    with Browser(open=bool) as page:
        origin = page.redirect_uri.removesuffix("/callback")
        assert get(origin).status_code == 404
        assert (
            requests.post(page.redirect_uri, headers={"Connection": "close"}, timeout=10).status_code == 404
        )
        assert get(page.redirect_uri, Host="evil.example").status_code == 403
        assert get(f"{page.redirect_uri}?state=").status_code == 400  # nothing was asked yet


def test_without_an_answer_the_wait_ends():
    for agent, fault in (
        (Browser(open=bool), r"no answer came from the browser, within 0\.05 s: nothing was granted"),
        (Browser(open=lambda url: False), r"no browser could be opened .*PasteUrl\(\)"),
    ):
        with pytest.raises(AuthorizationError, match=fault), agent:
            agent.authorize(ASKED, 0.05)


def test_a_browser_that_cannot_be_opened_is_named():
    def fails(url):
        raise webbrowser.Error("could not locate\nrunnable browser")

    told = r"no browser could be opened .*: Error: could not locate\\nrunnable browser"
    with pytest.raises(AuthorizationError, match=told) as problem, Browser(open=fails) as page:
        page.authorize(ASKED, 1)
    assert isinstance(problem.value.__cause__, webbrowser.Error)


def test_the_page_of_a_refusal_says_so():
    for query, said in (
        ("error=access_denied&state=s1", "The authorization was refused."),
        ("error=&state=s1", "The authorization was refused."),
        ("code=c1&state=s1", "The answer has arrived."),
    ):
        with Browser(open=bool) as page, ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(page.authorize, ASKED, PATIENCE)
            while (shown := get(f"{page.redirect_uri}?{query}")).status_code != 200:
                pass  # it is not expected yet
            assert f"<p>{said} You can close this page" in shown.text
            assert waiting.result(PATIENCE).endswith(query)


def test_stop_ends_the_wait():
    with Browser(open=bool) as page, ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(page.authorize, ASKED, PATIENCE)
        page.stop()
        with pytest.raises(AuthorizationError, match="the client was closed"):
            waiting.result(PATIENCE)


def test_two_flows_at_once_have_a_page_each():
    agent = Browser(open=bool)
    with ThreadPoolExecutor(2) as pool:
        both = threading.Barrier(2)

        def place(number):
            with agent:
                both.wait(PATIENCE)
                return agent.redirect_uri

        assert len(set(pool.map(place, range(2)))) == 2
    with agent as outer, agent as inner:
        assert agent.redirect_uri == inner.redirect_uri != outer.redirect_uri


def test_a_page_may_have_a_port_and_a_name():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(AuthorizationError, match=f"no page for the answer at localhost:{port}: "):
            Browser(port, "localhost").__enter__()
    with Browser(port, "localhost", open=bool) as page:
        assert page.redirect_uri == f"http://localhost:{port}/callback"
        assert get(f"http://127.0.0.1:{port}/callback").status_code == 400
    assert repr(Browser(port)) == f"Browser(port={port}, host='127.0.0.1')"
    with pytest.raises(ValueError, match=r"on 127\.0\.0\.1 or localhost, not on '0\.0\.0\.0'"):
        Browser(host="0.0.0.0")


@pytest.mark.spec(
    "docs/security_best_practices/open-url-no-shell",
    "docs/security_best_practices/open-url-shell-commands",
    "docs/security_best_practices/open-url-platform",
)
def test_the_browser_of_the_system_is_opened_without_a_shell(monkeypatch):
    started = []
    monkeypatch.setattr(webbrowser, "_tryorder", ["one"])
    monkeypatch.setattr(webbrowser, "_browsers", {"one": [None, webbrowser.GenericBrowser("one")]})

    def start(command, **options):
        started.append((command, options.get("shell", False)))
        raise OSError

    monkeypatch.setattr(webbrowser.subprocess, "Popen", start)
    with pytest.raises(AuthorizationError, match="no browser"), Browser() as page:
        page.authorize(f"{ASKED}&x=$(touch%20/tmp/x);y", 1)
    assert started == [(["one", f"{ASKED}&x=$(touch%20/tmp/x);y"], False)]


# ------------------------------------------------------------------------------ without a browser


def test_a_person_may_carry_the_urls_there_and_back():
    said = []
    agent = PasteUrl(ask=lambda prompt: said.append(prompt) or f"{agent.redirect_uri}?code=c&state=s1")
    with agent as opened:
        assert opened.authorize(ASKED, 1) == "http://127.0.0.1:33418/callback?code=c&state=s1"
    assert ASKED in said[0]
    assert repr(agent) == "PasteUrl(redirect_uri='http://127.0.0.1:33418/callback')"
    assert PasteUrl(redirect_uri="https://app.example/done").redirect_uri == "https://app.example/done"


@pytest.mark.parametrize("problem", [EOFError(), OSError()])
def test_without_a_terminal_nothing_can_be_pasted(problem):
    def ask(prompt):
        raise problem

    with pytest.raises(AuthorizationError, match="no terminal"), PasteUrl(ask) as agent:
        agent.authorize(ASKED, 1)


def test_a_function_may_be_the_user_agent():
    agent = user_agent_of(lambda url: url.replace("as.example", "here"))
    with agent as opened:
        assert opened.redirect_uri == "http://127.0.0.1:33418/callback"
        assert opened.authorize(ASKED, 1).startswith("https://here/")
    with (
        pytest.raises(TypeError, match="returns the URL of the response, not NoneType"),
        user_agent_of(print) as opened,
    ):
        opened.authorize("", 1)


@pytest.mark.parametrize("given", [None, 5, "browser", object()])
def test_what_is_no_user_agent_is_refused(given):
    with pytest.raises(TypeError, match="user_agent is a Browser, a PasteUrl or a function"):
        user_agent_of(given)


def test_user_agents_are_what_they_are():
    for agent in (Browser(), PasteUrl()):
        assert user_agent_of(agent) is agent
