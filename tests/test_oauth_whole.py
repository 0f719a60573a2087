"""Our client, our protected server and our authorization server, over HTTP: a person logs in and consents."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from oauth_peers import Browser, authorization, running
from peers import MODERN

from mcp_ref import Context, FileTokens, HttpError, JwtVerifier, OAuth, ResourceServer, Server, connect

ERAS = ["2025-03-26", "2025-11-25", MODERN]
Later = Callable[[float], None]


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> Later:
    """Has the clock of this process, which is that of both servers and of the client, go ahead at once."""
    ahead, clock = [0.0], time.time
    monkeypatch.setattr(time, "time", lambda: clock() + sum(ahead))
    return ahead.append


class Whole:
    """What runs, and who sits in front of the browser."""

    def __init__(self, url: str, auth: Any) -> None:
        self.url, self.auth = url, auth
        self.consents = 0
        self.name = "ada"
        self.browser = Browser()

    def person(self, url: str) -> str:
        """Logs in, consents, and tells where the browser was sent."""
        self.consents += 1
        page = self.browser.open(url)
        if "password" in page.fields:
            page = self.browser.log_in(page, self.name)
        if page.location is None:
            page = self.browser.submit(page, answer="allow")
        return str(page.location)

    def oauth(self, **options: Any) -> OAuth:
        return OAuth(user_agent=self.person, **options)


@contextlib.contextmanager
def whole(**options: Any) -> Iterator[Whole]:
    """The protected server has a tool that needs more than the others."""
    holder: list[Any] = []

    def delegating(issuer: str) -> Any:
        return SimpleNamespace(wsgi_app=lambda: lambda environ, start: holder[0](environ, start))

    with running(delegating) as place, authorization(resources=[f"{place.issuer}/mcp"], **options) as auth:
        server = Server("notes")

        @server.tool
        def who(ctx: Context) -> str:
            """Who asks."""
            return str(ctx.principal)

        @server.tool(scopes=["notes:write"])
        def write(text: str) -> str:
            """Write a note."""
            return text

        verifier = JwtVerifier(issuer=auth.issuer, jwks=auth.server.jwks())
        protected = ResourceServer(
            f"{place.issuer}/mcp",
            authorization_servers=[auth.issuer],
            verify=verifier,
            scopes=["notes:read"],
        )
        app = server.wsgi_app(auth=protected)
        holder.append(app)
        try:
            yield Whole(f"{place.issuer}/mcp", auth)
        finally:
            app.close(0.5)


@pytest.mark.spec(
    "basic/authorization/index/oauth21-implementations",
    "basic/authorization/index/security-followed",
    "basic/authorization/index/discovery-requirements-followed",
)
@pytest.mark.parametrize("revision", ERAS)
def test_from_connect_to_a_tool_and_to_one_that_needs_more(revision: str) -> None:
    with whole() as site, connect(site.url, auth=site.oauth(), revision=revision) as client:
        assert "ada" in client.call_tool("who").text
        assert site.consents == 1
        assert client.call_tool("write", {"text": "x"}).text == "x"
        assert client.call_tool("write", {"text": "y"}).text == "y"
        assert site.consents == 2


def test_tokens_that_end_are_renewed_and_refresh_tokens_rotate(tmp_path: Any, later: Later) -> None:
    with whole(token_seconds=600) as site:
        file = tmp_path / "tokens"
        seen: dict[str, set[str]] = {"access_token": set(), "refresh_token": set()}
        for _ in range(2):
            auth = site.oauth(store=FileTokens(file))
            with connect(site.url, auth=auth, revision=MODERN) as client:
                for _ in range(2):
                    assert "ada" in client.call_tool("who").text
                    for name, tokens in seen.items():
                        tokens.update(re.findall(f'"{name}": *"([^"]+)"', file.read_text()))
                    later(1000)
        assert site.consents == 1
        assert {name: len(tokens) for name, tokens in seen.items()} == dict.fromkeys(seen, 4)


def test_another_person_gets_tokens_of_their_own() -> None:
    with whole() as site:
        for name in "ada", "bob":
            site.name, site.browser = name, Browser()
            with connect(site.url, auth=site.oauth(), revision=MODERN) as client:
                assert name in client.call_tool("who").text


def test_scopes_that_a_person_may_not_grant_are_asked_for_a_few_times_only() -> None:
    with whole(scopes_of=lambda user: ["notes:read"]) as site:
        with connect(site.url, auth=site.oauth(), revision=MODERN) as client:
            assert "ada" in client.call_tool("who").text
            for _ in range(3):
                with pytest.raises(HttpError, match="403"):
                    client.call_tool("write", {"text": "x"})
        assert site.consents == 3
