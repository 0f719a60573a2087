"""The official Python SDK's client against a protected server of ours, and against our authorization server.

With a token that it was given, in both eras and over HTTP+SSE; and with its OAuthClientProvider, which finds
out by itself whom to ask, registers, sends a person's browser to log in, and asks for more scopes when it is
refused for want of them.

Where the SDK (2.3) differs:

    a 403      that it cannot answer is an error of its HTTP client, and says nothing of scopes
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client, ClientSession
from mcp.client.auth import OAuthClientProvider
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthToken,
)
from oauth_peers import Browser, authorization
from peers import MODERN, PATIENCE
from protected import ISSUER, Place, bearer

from mcp_ref import Context, Server

ERAS = pytest.mark.parametrize("mode", ["legacy", "auto"])

pytestmark = pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning")


def run(session: Callable[[], Awaitable[None]]) -> None:
    """Run one asynchronous session, with a limit."""

    async def limited() -> None:
        with anyio.fail_after(PATIENCE):
            await session()

    asyncio.run(limited())


def notes() -> Server:
    server = Server("notes", version="1")

    @server.tool
    def who(ctx: Context) -> str:
        return str(ctx.principal)

    @server.tool(scopes=["notes:write"])
    def write(ctx: Context) -> str:
        assert ctx.token is not None
        return " ".join(sorted(ctx.token.scopes))

    return server


# -- with a token that it was given --------------------------------------------------------------------


@pytest.fixture
def given() -> Iterator[str]:
    """The URL of a server that takes the tokens of ISSUER."""
    options = {"verify": ISSUER.verifier(), "scopes": ["notes:read"]}
    with Place().serving(notes(), ISSUER.url, {"sse_path": "/sse"}, **options) as url:
        yield url


@asynccontextmanager
async def client_of(url: str, mode: str, **options: Any) -> AsyncIterator[Client]:
    async with (
        httpx2.AsyncClient(timeout=PATIENCE, **options) as http,
        Client(streamable_http_client(url, http_client=http), mode=mode) as client,
    ):
        yield client


@ERAS
def test_a_client_with_a_token_is_served(given: str, mode: str) -> None:
    async def session() -> None:
        token = ISSUER.token("ann", "notes:read", "notes:write", aud=given)
        async with client_of(given, mode, headers=bearer(token)) as client:
            assert (client.protocol_version == MODERN) is (mode == "auto")
            assert {tool.name for tool in (await client.list_tools()).tools} == {"who", "write"}
            assert (await client.call_tool("who")).content[0].text == "ann"  # type: ignore[union-attr]
            assert not (await client.call_tool("write")).is_error

    run(session)


@ERAS
def test_a_client_without_a_good_token_is_not(given: str, mode: str) -> None:
    async def session() -> None:
        for headers in ({}, bearer("nonsense"), bearer(ISSUER.token("ann", "notes:read"))):
            with pytest.raises(BaseException) as refused:
                async with client_of(given, mode, headers=headers) as client:
                    await client.list_tools()
            assert refused.value is not None

    run(session)


def test_a_client_of_http_sse_with_a_token_is_served(given: str) -> None:
    async def session() -> None:
        headers = bearer(ISSUER.token("bob", "notes:read", aud=given))
        async with (
            sse_client(given.replace("/mcp", "/sse"), headers=headers) as streams,
            ClientSession(*streams) as client,
        ):
            await client.initialize()
            assert (await client.call_tool("who")).content[0].text == "bob"  # type: ignore[union-attr]

    run(session)


# -- with our authorization server -----------------------------------------------------------------------


class Storage:
    """What a client keeps."""

    def __init__(self) -> None:
        self.tokens: OAuthToken | None = None
        self.client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


class Person:
    """Who sits before the browser, and allows what is asked."""

    def __init__(self, url: str, name: str = "ada") -> None:
        self.name, self.browser = name, Browser()
        self.asked: list[str] = []
        self.answers: list[dict[str, str]] = []
        self.storage = Storage()
        self.provider = OAuthClientProvider(
            server_url=url,
            client_metadata=OAuthClientMetadata(
                client_name="official",
                redirect_uris=["http://127.0.0.1:1/callback"],  # type: ignore[list-item]
                grant_types=["authorization_code", "refresh_token"],
                token_endpoint_auth_method="none",
            ),
            storage=self.storage,
            redirect_handler=self.redirect,
            callback_handler=self.callback,
        )

    async def redirect(self, url: str) -> None:
        self.asked.append(url)
        self.answers.append(await asyncio.to_thread(self.browser.grant, url, self.name))

    async def callback(self) -> AuthorizationCodeResult:
        answer = self.answers[-1]
        return AuthorizationCodeResult(**{k: answer[k] for k in ("code", "state", "iss") if k in answer})


@ERAS
def test_a_client_finds_its_way_to_a_token_and_steps_up(mode: str) -> None:
    """From 401 by metadata, registration, login and consent to the first call; and once more after 403."""
    place = Place()
    with (
        authorization(resources=[place.url]) as auth,
        place.serving(notes(), auth.issuer, scopes=["notes:read"]) as url,
    ):
        ada = Person(url)

        async def session() -> None:
            async with client_of(url, mode, auth=ada.provider) as client:
                assert (await client.call_tool("who")).content[0].text == "ada"  # type: ignore[union-attr]
                assert len(ada.asked) == 1
                written = await client.call_tool("write")
                assert "notes:read notes:write" in written.content[0].text  # type: ignore[union-attr]
                assert len(ada.asked) == 2

        run(session)
        assert "resource=" in ada.asked[0]
        assert "notes%3Awrite" not in ada.asked[0]
        assert "notes%3Awrite" in ada.asked[1]


def test_the_session_of_one_person_is_worth_nothing_to_another() -> None:
    place = Place()
    with (
        authorization(resources=[place.url]) as auth,
        place.serving(notes(), auth.issuer, scopes=["notes:read"]) as url,
    ):
        ada, bob = Person(url, "ada"), Person(url, "bob")
        ids: list[str] = []

        async def note(response: httpx2.Response) -> None:
            if "mcp-session-id" in response.headers:
                ids.append(response.headers["mcp-session-id"])

        async def session() -> None:
            hooks = {"response": [note]}
            async with client_of(url, "legacy", auth=ada.provider, event_hooks=hooks) as client:
                assert (await client.call_tool("who")).content[0].text == "ada"  # type: ignore[union-attr]
                async with client_of(url, "legacy", auth=bob.provider) as other:
                    assert (await other.call_tool("who")).content[0].text == "bob"  # type: ignore[union-attr]
                assert bob.storage.tokens is not None
                async with httpx2.AsyncClient(headers=bearer(bob.storage.tokens.access_token)) as http:
                    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
                    headers = {"Mcp-Session-Id": ids[0], "Accept": "application/json, text/event-stream"}
                    stolen = await http.post(url, json=ping, headers=headers)
                    assert stolen.status_code == 404
                assert not (await client.call_tool("who")).is_error

        run(session)
