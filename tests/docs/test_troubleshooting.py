"""docs/tasks/troubleshooting.rst: each message on it is provoked here, and no other is."""

from __future__ import annotations

import contextlib
import functools
import os
import re
import socket
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import flask
import pytest
import requests
from http_peers import serving
from peers import ENV, ROOT, source
from requests.adapters import HTTPAdapter

from mcp_ref import ClientOptions, Context, Limit, ResourceServer, Retry, Server, connect

PAGE = Path(ROOT, "docs", "tasks", "troubleshooting.rst")
LEGACY = "2025-11-25"
OPTIONS = ClientOptions(env=ENV)


def server() -> Server:
    """A server with a tool for each fault."""
    made = Server("faults")

    @made.tool
    def add(a: int, b: int) -> int:
        return a + b

    @made.tool
    def ask(ctx: Context) -> bool:
        return ctx.confirm("?")

    @made.tool
    def wait(ctx: Context) -> None:
        ctx.sleep(30)

    @made.tool(output_schema={"type": "object", "properties": {"a": {"type": "integer"}}})
    def wrong() -> dict[str, str]:
        return {"a": "x"}

    @made.tool
    def of_flask() -> str:
        return str(flask.current_app.config["NAME"])

    return made


def call(tool: str, arguments: Any = None, *, limit: Limit | None = None, **options: Any) -> str:
    """The text of a result."""
    in_call = {key: options.pop(key) for key in ("timeout", "returns") if key in options}
    with connect(server(), **options) as client:
        return str(client.call_tool(tool, arguments, **in_call).text)


def child(text: str) -> list[str]:
    return [sys.executable, "-c", text]


PROTECTED = ResourceServer(
    "http://127.0.0.1/mcp", authorization_servers=["https://auth.example.com"], verify=lambda token: None
)


def asking(path: str = "/mcp", **options: Any) -> None:
    """Connect to a server of ours over HTTP, at this path."""
    app = server().wsgi_app(**options)
    with serving(app) as at, contextlib.closing(app):
        connect(f"http://127.0.0.1:{at.port}{path}")


def replying(
    status: str, kind: str = "", body: bytes = b"", *, to: str = "", auth: str | None = None
) -> Callable[..., Any]:
    """Connect to something else than a server of MCP, and call a tool if it can be connected to."""

    def connecting() -> str:
        inner = server().wsgi_app()

        def app(environ: dict[str, Any], start: Any) -> Iterable[bytes]:
            if to and environ.get("HTTP_MCP_METHOD") != to:
                return inner(environ, start)
            environ["wsgi.input"].read()
            start(status, [("Content-Type", kind)] if kind else [])
            return [body]

        with (
            serving(app) as at,
            contextlib.closing(inner),
            connect(f"http://127.0.0.1:{at.port}/mcp", auth=auth, retry=Retry(1, pause=0.01)) as client,
        ):
            return str(client.call_tool("add", {"a": 1, "b": 2}).text)

    return connecting


def post(**headers: str) -> str:
    """What the server answers a request with these headers."""
    app = server().wsgi_app()
    with serving(app) as at, contextlib.closing(app):
        answer = requests.post(f"http://127.0.0.1:{at.port}/mcp", json={}, headers=headers, timeout=10)
        assert answer.status_code == 403
        return str(answer.json()["error"]["message"])


def crashed() -> None:
    ends = "import os\n@server.tool\ndef end() -> None: os._exit(1)"
    with connect(child(source(ends)), revision=LEGACY, options=OPTIONS) as client:
        client.call_tool("end")


def limited() -> None:
    made = Server("limited", limit=Limit(rate=0.001, burst=1))
    made.add_tool(lambda: None, name="do")
    with connect(made) as client:
        client.call_tool("do")
        client.call_tool("do")


def closed() -> None:
    with connect(server()) as client:
        pass
    client.list_tools()


def retrying_session() -> None:
    session = requests.Session()
    session.mount("http://", HTTPAdapter(max_retries=3))
    connect("http://127.0.0.1:9/mcp", retry=Retry(1), options=ClientOptions(session=session))


def port_in_use() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        server().run("http", port=taken.getsockname()[1])


def add(function: Any, **options: Any) -> Callable[[], None]:
    return lambda: server().add_tool(function, **options)


def of_socket(a: socket.socket) -> None: ...


async def asynchronous() -> None: ...


def resources() -> None:
    with connect(server()) as client:
        client.list_resources()


SHELL = "connect takes a URL, a command, a .py file or a Server, not ...; write connect("
MESSAGES: dict[str, Callable[[], Any]] = {
    "there is no file ... in ...": lambda: connect("nothing.py"),
    "cannot start ...: [Errno 2] No such file or directory: ...": lambda: connect(["no-such-program"]),
    SHELL + "['sh', '-c', ...])": lambda: connect("cd /srv && ./run"),
    SHELL + "'https://...')": lambda: connect("example.org/mcp"),
    "connect takes one server, and this dict has several; write connect_all(config), or connect(...)": (
        lambda: connect({"mcpServers": {}})
    ),
    "the server ... exited with code ...; it said last:...": lambda: connect(child("import nonsense")),
    "the server did not answer initialize within ...; the server ... is running": (
        lambda: connect(child("print('hello')\nimport sys\nsys.stdin.read()"), timeout=1)
    ),
    "no connection to ...: [Errno 111] Connection refused": lambda: connect("http://127.0.0.1:9/mcp"),
    "this server wants an access token, in the Authorization header (-32600); HTTP status 401 from ...": (
        functools.partial(asking, auth=PROTECTED)
    ),
    "the server at ... answered with HTTP status 401: it wants to know who asks: "
    "write connect(url, auth=...)": replying("401 Unauthorized"),
    "the server at ... answered with HTTP status 401: it refused what the Authorization header said: "
    "an old token, perhaps, or that of another server": replying("401 Unauthorized", auth="old"),
    "there is nothing at this path (-32600); HTTP status 404 from ...": functools.partial(asking, "/nope"),
    "the server at ... answered with HTTP status 404: there is no MCP at this URL, "
    "or the session is over": replying("404 Not Found"),
    "initialize: the server at ... answered with HTTP status 200 and text/html, which is neither "
    "application/json nor text/event-stream: ...": replying("200 OK", "text/html", b"<p>Welcome</p>"),
    "the server is no modern one: it answered server/discover with ...": (
        lambda: connect(Server("old", revisions=[LEGACY]), revision="2026-07-28")
    ),
    "the adapter of the session retries (max_retries=...), and a call that is sent again could be done "
    "twice; mount HTTPAdapter() without max_retries, ...": retrying_session,
    "Unknown tool: ...; known: ... (-32602)": functools.partial(call, "ad"),
    "Invalid arguments for ...: ...: must be an integer, not 'x'": functools.partial(
        call, "add", {"a": 1, "b": "x"}
    ),
    "this request needs the client capability ... (-32021); connect(..., elicitation=...) declares it": (
        functools.partial(call, "ask")
    ),
    "elicitation/create: the client did not declare the capability elicitation": functools.partial(
        call, "ask", revision=LEGACY
    ),
    "...: the server did not declare the capability 'resources'": resources,
    "tools/call: no answer within ...": functools.partial(call, "wait", timeout=0.1),
    "too many tool calls; try again in ... (429)": limited,
    "the call of ... was not confirmed, and not sent": functools.partial(
        call, "add", {"a": 1, "b": 2}, confirm=lambda *told: False
    ),
    "tools/call: the server asked for elicitation/create: the client failed to answer: ...": (
        functools.partial(call, "ask", elicitation=lambda question: 1 / 0)
    ),
    "tools/call: ... The request was sent, and the server may have done it; so it is not sent again": (
        replying("502 Bad Gateway", to="tools/call")
    ),
    "what the tool returned is no ...: ...": functools.partial(
        call, "add", {"a": 1, "b": 2}, returns=list[str]
    ),
    "the server ... exited with code ...; connect again": crashed,
    "this client was closed": closed,
    "...: ...: ... has no JSON form; write one of the types listed in mcp_ref.schema": add(of_socket),
    "... is among the tools already; pass replace=True to replace it": add(lambda: None, name="add"),
    "... is asynchronous; a plain function may block as it likes": add(asynchronous),
    "Server.tool got an unexpected keyword argument ...; there are ...": (
        lambda: server().tool(naem="x")  # type: ignore[call-overload]
    ),
    "[Errno 98] cannot listen on ..., port ...: the port is in use": port_in_use,
    "the result of this tool is not as declared: ...": functools.partial(call, "wrong"),
    "the Host ... is not among the allowed_hosts of this server": lambda: post(Host="example.org"),
    "the Origin ... is not among the allowed_origins of this server": lambda: post(Origin="http://a.org"),
    "Working outside of application context....": functools.partial(call, "of_flask"),
}


def on_the_page() -> list[str]:
    """The terms of its lists; a term is a message, with `...` for what differs."""
    return re.findall(r"^`(.+)`\n    \S", PAGE.read_text(), re.M)


def test_the_page_has_each_message_that_is_provoked_and_no_other() -> None:
    assert on_the_page() == list(MESSAGES)


@pytest.mark.parametrize("message", MESSAGES)
def test_a_message_is_what_the_page_says(
    message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(os.environ, "PYTHONPATH", ROOT)
    try:
        said = MESSAGES[message]()
    except Exception as problem:
        said = str(problem)
    assert re.fullmatch(re.escape(message).replace(re.escape("..."), ".+"), said, re.S), said
