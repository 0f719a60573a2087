"""Bad input to what a server and a client do for each other besides tools, item by item.

Resources, prompts, completion, subscriptions, and what a server asks its client: each item of the list over
real pipes, in every revision that has the feature. A clear error, and all else goes on: the connection, the
process, other requests; no thread and no child is left.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import itertools
import json
import os
import signal
import subprocess
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from choices import for_connect
from peers import (
    ENV,
    MODERN,
    PATIENCE,
    REVISIONS,
    Json,
    Notes,
    RawClient,
    eventually,
    nothing_left,
    one_sentence,
    python,
    raw_server,
    source,
)

from mcp_ref import (
    Answer,
    Client,
    ClientOptions,
    ConnectionClosed,
    Context,
    ErrorResponse,
    InvalidResponse,
    McpError,
    RequestTimeout,
    Server,
    UrlElicitationNeeded,
    connect,
)
from mcp_ref.basic.patterns.mrtr.basic_workflow import InputRequired
from mcp_ref.client.elicitation.requests import ElicitationRequest
from mcp_ref.runtime.errors import LocalError
from mcp_ref.runtime.uri.templates import BadTemplate
from mcp_ref.server.utilities import pagination

ASKING = ("2025-06-18", "2025-11-25", MODERN)
ALL = pytest.mark.parametrize("revision", REVISIONS)
ASKED = pytest.mark.parametrize("revision", ASKING)
SUBSCRIBED = pytest.mark.parametrize("revision", REVISIONS[:-1])
IN_MODERN = pytest.mark.parametrize("revision", [MODERN])

ABLE: Json = {"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {"listChanged": True}}
DECLARED: Json = {"io.modelcontextprotocol/clientCapabilities": ABLE}
ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
FILES_CHANGED = "notifications/resources/list_changed"
SECRET = "a secret of these tests"

BODY = """
import enum, itertools, os, time
from dataclasses import dataclass
from typing import Literal

from mcp_ref import Elicit, ElicitUrl, ListRoots, ResourceNotFound, Sample
from mcp_ref.api.serving import Serving

class Owned(Serving):
    '''Who asks is what the request says: no transport of this issue knows better.'''
    def answer(self, context):
        context.principal = context.meta.get("vendor/principal")
        return super().answer(context)

server.serving.__class__ = Owned
directory = os.environ["DIRECTORY"]
server.add_directory(directory, uri="dir:///")

@server.resource("config://app")
def config() -> str:
    return "fine"

@server.resource("file:///{+path}")
def any_file(path: str) -> str:
    return "read " + path

@server.resource("item:///{name}")
def item(name: str) -> str:
    return "item " + name

@server.resource("odd:///{kind}")
def odd(kind: str):
    if kind == "error": raise ValueError("the disk is on fire")
    if kind == "exit": raise SystemExit(3)
    if kind == "interrupt": raise KeyboardInterrupt
    if kind == "deep": return deep(0)
    if kind == "silent": raise Silent
    if kind == "surrogate-error": raise ValueError("\\ud800")
    return VALUES[kind]

def deep(n):
    return deep(n + 1)

class Silent(Exception):
    def __str__(self):
        raise RuntimeError("not even this")

loop = []
loop.append(loop)
VALUES = {
    "none": None, "object": object(), "nan": [float("nan")], "surrogate": "\\ud800", "loop": loop,
    "both": {"text": "a", "blob": "YQ=="}, "base64": {"blob": "no base64!"}, "number": {"text": 5},
    "uri": {"uri": "no uri", "text": "a"}, "keys": {1: {(): 2}}, "function": deep,
    "infinity": float("inf"), "some": [{"text": "a"}, {"blob": 5}],
}

@server.prompt
def nonsense(kind: str):
    if kind in ("error", "exit", "interrupt", "deep", "silent", "surrogate-error"):
        return odd(kind)
    return PROMPTS[kind]

def message(role, content):
    return {"role": role, "content": content}

PROMPTS = {
    **VALUES, "five": 5, "true": True, "bytes": b"x", "role": message("system", "x"),
    "bare": {"role": "user"},
    "type": message("user", {"type": "vendor"}), "image": message("user", {"type": "image", "data": "x"}),
    "base64": message("user", {"type": "image", "mimeType": "image/png", "data": "!"}),
    "mime": message("user", {"type": "image", "mimeType": "png", "data": "YQ=="}),
    "list": ["a", 5], "messages": {"messages": "x" , "description": 5}, "set": {1, 2},
}

class Style(enum.Enum):
    SHORT = "short"
    LONG = "long"

@server.prompt(complete={
    "many": lambda value: [f"v{n}" for n in range(10_000)],
    "endless": lambda value: (f"v{n}" for n in itertools.count()),
    "wrong": lambda value: [object()],
    "number": lambda value: 5,
    "error": lambda value: 1 / 0,
    "surrogate": lambda value: ["\\ud800"],
    "known": [f"v{n}" for n in range(10_000)],
})
def suggested(many: str, endless: str, wrong: str, number: str, error: str, surrogate: str, known: str,
              style: Style = Style.SHORT) -> str:
    return many

@dataclass
class Booking:
    day: Literal["monday", "tuesday"]
    seats: int
    note: str = ""

@server.tool
def book(what: str, ctx: Context) -> str:
    answer = ctx.elicit("Book " + what + "?", Booking)
    return f"{answer.action} {answer.data}"

@server.tool
def other(what: str, ctx: Context) -> str:
    return ctx.elicit("Book " + what + "?", Booking).action

@server.tool
def visit(ctx: Context) -> str:
    return ctx.elicit_url("Look", "https://example.com/").action

@server.tool
def count(levels: int, ctx: Context) -> int:
    found = 0
    for level in range(levels):
        found += ctx.elicit(f"Level {level}, so far {found}?", Booking).data.seats
    return found

@server.tool
def several(ctx: Context) -> str:
    a, b, c = ctx.ask_all(Elicit("First?", Booking), Sample("Second?", max_tokens=9), ListRoots())
    return f"{a.action} {b.text} {len(c)}"

@server.tool
def manual(ctx: Context):
    if ctx.request_state is None:
        form = {"type": "object", "properties": {"n": {"type": "integer"}}}
        question = {"method": "elicitation/create", "params": {"message": "n?", "requestedSchema": form}}
        return {"resultType": "input_required", "inputRequests": {"mine": question}, "requestState": "own"}
    return f"{ctx.request_state} {ctx.input_responses}"

@server.tool
def add(a: int, b: int) -> int:
    return a + b

@server.tool
def touch(uris: list[str]) -> int:
    for uri in uris:
        server.resource_updated(uri)
    return len(uris)

@server.tool
def touch_together(uris: list[str]) -> int:
    '''As touch; the round that tells of it begins when all have changed, however long that takes.'''
    from mcp_ref.basic.patterns.subscriptions import server as subscriptions
    rounds, later = [], subscriptions.later
    subscriptions.later = lambda seconds, tell: rounds.append(tell)
    try:
        touch(uris)
    finally:
        subscriptions.later = later
    for tell in rounds:
        tell()
    return len(uris)

@server.tool
def churn(uris: list[str], rounds: int) -> str:
    for _ in range(rounds):
        touch(uris)
        time.sleep(0.025)  # longer than changes are gathered
    open(directory + "/../churned", "w").close()
    return "done"

@server.resource("book:///{what}")
def booked(what: str, ctx: Context) -> str:
    return book(what, ctx)

@server.prompt
def bookable(what: str, ctx: Context) -> str:
    return book(what, ctx)
"""
OPTIONS = f"secret={SECRET!r}, options=ServerOptions(max_message_bytes=8_000_000)"


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("features") / "shared"
    found.mkdir()
    (found / "a.txt").write_text("a file")
    (found.parent / "secret.txt").write_text("SECRET")
    return found


@pytest.fixture(scope="module")
def servers(directory: Path) -> Iterator[dict[str, RawClient]]:
    """One server child a revision for the whole list: it survives all of it, and then ends properly."""
    text, env = source(BODY, options=OPTIONS), {"DIRECTORY": str(directory)}
    found = {date: RawClient(text, revision=date, capabilities=ABLE, env=env) for date in REVISIONS}
    yield found
    for raw in found.values():
        raw.end_input()
        assert raw.wait() == 0
        raw.close()


@pytest.fixture(autouse=True)
def clean(servers: dict[str, RawClient]) -> Iterator[None]:
    with nothing_left():
        yield


@pytest.fixture
def client(servers: dict[str, RawClient], revision: str) -> Iterator[RawClient]:
    """A raw client of a real server child; whatever the test did, the server still answers."""
    raw = servers[revision]
    assert raw.is_alive()
    raw.aside.clear()  # what a test that failed has left
    yield raw
    assert raw.is_alive()
    assert call(raw, "add", {"a": 20, "b": 22})["result"]["content"][0]["text"] == "42"
    assert [m for m in raw.aside if m.get("method") != FILES_CHANGED] == []


def request(client: RawClient, method: str, params: Json | None = None, **meta: Any) -> Json:
    """A request of a client that can all, and its response."""
    given = {**(DECLARED if client.revision == MODERN else {}), **meta}
    return client.request(method, {**(params or {}), **({"_meta": given} if given else {})})


def call(client: RawClient, tool: str, arguments: Json | None = None, **more: Any) -> Json:
    """A tools/call, and its response; `more` are further params, such as the answers to a question."""
    return request(client, "tools/call", {"name": tool, "arguments": arguments or {}, **more})


def read(client: RawClient, uri: str) -> Json:
    return request(client, "resources/read", {"uri": uri})


@contextlib.contextmanager
def listening(client: RawClient, **wanted: Any) -> Iterator[Json]:
    """An open subscriptions/listen, and what was agreed to."""
    meta = {"_meta": DECLARED}
    asked = client.ask("subscriptions/listen", {"notifications": wanted, **meta})
    first = client.until(lambda m: m.get("method", "") == ACKNOWLEDGED or m.get("id") == asked)
    assert "error" not in first, first
    assert first["params"]["_meta"] == {"io.modelcontextprotocol/subscriptionId": asked}
    try:
        yield first["params"]["notifications"]
    finally:
        client.notify("notifications/cancelled", {"requestId": asked})


def refused(answer: Json, code: int, *words: str) -> Json:
    """The response is an error with this code that says this, in few words."""
    assert "error" in answer, answer
    error: Json = answer["error"]
    assert error["code"] == code, error
    for word in words:
        assert word in error["message"]
    one_sentence(error["message"])
    return error


def not_found(client: RawClient, answer: Json, uri: str) -> None:
    error = refused(answer, -32602 if client.revision == MODERN else -32002)
    assert error["data"] == {"uri": uri}


def failed(answer: Json, *words: str) -> None:
    """The tool says that it failed, and why."""
    assert answer["result"].get("isError") is True, answer
    for word in words:
        assert word in answer["result"]["content"][0]["text"]


# ----------------------------------------------------------------- templates that do not parse

BAD_TEMPLATES = [
    "a:{", "a:{}", "a:{x", "a:{x{y}}", "a:{{x}}", "a:}{x}", "a:{x}}", "a:{x y}", "a:{x,}", "a:{,x}", "a:{+}",
    "a:{x:}", "a:{x:0}", "a:{x:10000}", "a:{x:-1}", "a:{x*:3}", "a:{x:3*}", "a:{x**}", "a:{=x}", "a:{!x}",
    "a:{|x}", "a:{x.}", "a:{.}", "a:{x-y}", "a:{%zz}", "a:{é}", "a:%{x}", "a:%z{x}", "a: {x}", "a:é\"{x}",
    "a:<{x}>", "a:\0{x}", "a:\ud800{x}", "a:" + "{x}" * 101,
]  # fmt: skip


@pytest.mark.parametrize("text", BAD_TEMPLATES)
def test_templates_that_do_not_parse(text: str) -> None:
    """Refused at registration, with the place, and the server is as it was."""
    server = Server("features")
    with pytest.raises(BadTemplate) as problem:
        server.resource(text)(lambda **variables: "x")
    assert len(str(problem.value)) < 300
    assert server.templates.values() == []
    assert not server.offers("resources")


@pytest.mark.parametrize(
    "text", ["{x}", "{+x}:a", "://{x}", "1a:{x}", "a b:{x}", "{scheme}://{x}", "", "no scheme"]
)
def test_templates_without_a_scheme(text: str) -> None:
    """Parse, perhaps, but nothing that they stand for would be a URI, or they could be any."""
    server = Server("features")
    try:
        server.resource(text, name="some")(lambda **variables: "x")
    except ValueError:
        assert server.templates.values() == []
    with RawClient(server, revision="2025-11-25") as raw:
        assert raw.is_alive()
        assert "error" in raw.request("resources/read", {"uri": "a:b"}) or server.templates.values()


def test_templates_that_do_not_fit_their_function() -> None:
    server = Server("features")
    with pytest.raises(ValueError, match="parameter x"):
        server.resource("a:{x}", name="some")(lambda: "x")
    for text in ("a:{x}/{y}", "a:{y}", "a:b"):
        with pytest.raises(ValueError, match="parameter"):
            server.resource(text, name="some")(lambda x: "x")
    assert not server.templates.values()
    assert not server.resources.values()


# ------------------------------------------------------------------------------ URIs of 1 MiB

LONG = "a" * (1 << 20)


@ALL
@pytest.mark.parametrize(
    "uri", ["file:///" + LONG, LONG + ":x", "config://app?" + LONG, "dir:///" + LONG, LONG, "%41" * 350_000]
)
def test_uris_of_1_mib(client: RawClient, revision: str, uri: str) -> None:
    """Refused for their length, before anything looks at them, and not sent back."""
    started = time.monotonic()
    refused(read(client, uri), -32602, str(len(uri)))
    ref, argument = {"type": "ref/resource", "uri": uri}, {"name": "x", "value": ""}
    refused(request(client, "completion/complete", {"ref": ref, "argument": argument}), -32602)
    if revision != MODERN:
        for method in ("resources/subscribe", "resources/unsubscribe"):
            refused(request(client, method, {"uri": uri}), -32602, str(len(uri)))
    assert time.monotonic() - started < PATIENCE


@IN_MODERN
def test_a_subscription_for_a_uri_of_1_mib(client: RawClient) -> None:
    """Not agreed to, as a URI of nothing."""
    with listening(client, resourceSubscriptions=["config://app", "config://" + LONG]) as agreed:
        assert agreed == {"resourceSubscriptions": ["config://app"]}


@ALL
def test_names_and_values_of_1_mib(client: RawClient) -> None:
    """What stands beside URIs."""
    refused(request(client, "prompts/get", {"name": LONG}), -32602, "Unknown prompt")
    refused(request(client, "prompts/get", {"name": "bookable", "arguments": {LONG: "x"}}), -32602)
    ref = {"type": "ref/prompt", "name": "suggested"}
    for argument in ({"name": LONG, "value": ""}, {"name": "many", "value": LONG}):
        refused(request(client, "completion/complete", {"ref": ref, "argument": argument}), -32602)
    ref = {"type": "ref/prompt", "name": LONG}
    argument = {"name": "many", "value": ""}
    refused(request(client, "completion/complete", {"ref": ref, "argument": argument}), -32602, "Unknown")
    for name in ("prompts/list", "resources/list", "resources/templates/list"):
        refused(request(client, name, {"cursor": LONG}), -32602, "cursor")


# ---------------------------------------------------------------- percent-encoding that is broken


@ALL
@pytest.mark.parametrize("bad", ["%", "%2", "%zz", "%4", "%-1", "%u0041", "%%", "%\x00", "a%"])
@pytest.mark.parametrize("opening", ["file:///", "item:///", "dir:///", "config://app/"])
def test_percent_encoding_that_is_broken(client: RawClient, opening: str, bad: str) -> None:
    refused(read(client, opening + bad), -32602, "percent-encoding")


@ALL
@pytest.mark.parametrize("bad", ["%FF", "%C3", "%ED%A0%80", "%C0%AF", "%F5%80%80%80"])
def test_percent_encoding_of_what_is_not_utf8(client: RawClient, bad: str) -> None:
    """Right as a URI, and of nothing."""
    for opening in ("item:///", "dir:///"):
        not_found(client, read(client, opening + bad), opening + bad)


@ALL
@pytest.mark.parametrize(
    "uri", ["", "x", "/a", "//a/b", "file:///a b", "file:///é", "a:\n", "http://[", "a:{x}"]
)
def test_what_is_no_uri(client: RawClient, uri: str) -> None:
    refused(read(client, uri), -32602, "uri")


# ---------------------------------------------------------------------------- .. and encoded ..

UP = [
    "..", "../a.txt", "../secret.txt", "x/../../secret.txt", "%2e%2e/secret.txt", "%2E%2E%2Fsecret.txt",
    ".%2e/secret.txt", "%252e%252e%252fsecret.txt", "..%5csecret.txt", "..%2fsecret.txt", "x/..%2f..%2f..",
    "/etc/passwd", "%2fetc%2fpasswd", "C:/secret.txt", "c%3a%5csecret.txt", "a.txt%00.png", "..%00/x",
    "%2525252e%2525252e%2525252fsecret.txt", "a/%2e%2e", "..%20/secret.txt", "%2e.%09/secret.txt",
]  # fmt: skip


@ALL
@pytest.mark.parametrize("path", UP)
@pytest.mark.parametrize("opening", ["file:///", "dir:///"])
def test_paths_that_lead_out(client: RawClient, opening: str, path: str) -> None:
    """Of a template, of a directory: there is no such resource."""
    not_found(client, read(client, opening + path), opening + path)
    if client.revision != MODERN:
        answer = request(client, "resources/subscribe", {"uri": opening + path})
        not_found(client, answer, opening + path)


@ALL
def test_paths_that_do_not_lead_out(client: RawClient) -> None:
    for path in ("...", "a..b", "..a", "a../b", "%2e%2e%2e"):
        assert "result" in read(client, "file:///" + path)
    assert read(client, "dir:///a.txt")["result"]["contents"][0]["text"] == "a file"


# ---------------------------------------------------------------------------------- symlinks


@ALL
def test_symlinks(client: RawClient, directory: Path, tmp_path: Path) -> None:
    """Those that lead out, to nothing or in a circle do not exist; those within are files."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret.txt").write_text("SECRET")
    links = {
        "out.txt": "../secret.txt",
        "absolute.txt": str(directory.parent / "secret.txt"),
        "outside": str(tmp_path / "outside"),
        "broken.txt": "nothing.txt",
        "circle": "circle",
        "here": ".",
        "up": "..",
        "device": "/dev/zero",
        "process": "/proc/self/environ",
        "within.txt": "a.txt",
    }
    made = [directory / name for name in links]
    for link in made:
        link.symlink_to(links[link.name])
    try:
        inside = ["outside/secret.txt", "up/secret.txt", "here/up/secret.txt", "circle/a.txt", "process/x"]
        for name in (*(set(links) - {"within.txt"}), *inside):
            not_found(client, read(client, f"dir:///{name}"), f"dir:///{name}")
        assert read(client, "dir:///within.txt")["result"]["contents"][0]["text"] == "a file"
    finally:
        for link in made:
            link.unlink()


# ------------------------------------------------------------------- files that vanish while read


@ALL
def test_files_that_vanish_while_read(client: RawClient, directory: Path) -> None:
    """Each of 300 reads finds the whole file, or no file; whatever else there is meanwhile is neither."""
    path, over = directory / "coming.txt", threading.Event()
    contents = "x" * 300_000

    def come_and_go() -> None:
        for turn in itertools.cycle(range(4)):
            if over.is_set():
                break
            fresh = directory.parent / "fresh.txt"
            fresh.write_text(contents)
            fresh.replace(path)
            if turn == 1:
                path.unlink()
                path.mkdir()
                path.rmdir()
            elif turn == 2:
                path.unlink()
                path.symlink_to("../secret.txt")
                path.unlink()
        path.unlink(missing_ok=True)

    mover = threading.Thread(target=come_and_go)
    mover.start()
    try:
        uri = "dir:///coming.txt"
        for _ in range(300):
            answer = read(client, uri)
            if "error" in answer:
                not_found(client, answer, uri)
            else:
                assert answer["result"]["contents"][0]["text"] == contents
    finally:
        over.set()
        mover.join(PATIENCE)


@ALL
def test_files_that_vanish_while_listed(client: RawClient, directory: Path) -> None:
    over = threading.Event()
    many = directory / "many"

    def come_and_go() -> None:
        while not over.is_set():
            many.mkdir(exist_ok=True)
            for n in range(50):
                (many / f"{n}.txt").write_text("x")
            for n in range(50):
                (many / f"{n}.txt").unlink()
            many.rmdir()

    mover = threading.Thread(target=come_and_go)
    mover.start()
    try:
        for _ in range(30):
            names = {r["name"] for r in request(client, "resources/list")["result"]["resources"]}
            assert "a.txt" in names
    finally:
        over.set()
        mover.join(PATIENCE)


@ALL
def test_files_that_cannot_be_read(client: RawClient, directory: Path) -> None:
    """Pipes, directories and what is too long: nobody waits for them, and no path of the machine is told."""
    os.mkfifo(directory / "pipe.txt")
    with (directory / "long.txt").open("wb") as file:
        file.truncate(17 << 20)
    try:
        not_found(client, read(client, "dir:///pipe.txt"), "dir:///pipe.txt")
        not_found(client, read(client, "dir:///"), "dir:///")
        error = refused(read(client, "dir:///long.txt"), -32603, "dir:///long.txt")
        assert str(directory) not in str(error)
    finally:
        (directory / "pipe.txt").unlink()
        (directory / "long.txt").unlink()


# ----------------------------------------------------------------------- resources that raise

RAISED = {
    "error": "the disk is on fire",
    "exit": "",
    "interrupt": "",
    "deep": "recursion",
    "silent": "Silent",
    "surrogate-error": "\\ud800",
    "unknown": "unknown",
}
NONSENSE = ["none", "object", "nan", "surrogate", "loop", "both", "base64", "number", "uri", "keys"]
NONSENSE += ["function", "infinity", "some"]


@ALL
@pytest.mark.parametrize(("kind", "words"), RAISED.items())
def test_resources_that_raise(client: RawClient, kind: str, words: str) -> None:
    """The message of what was raised, and no traceback."""
    error = refused(read(client, f"odd:///{kind}"), -32603, words)
    assert "Traceback" not in str(error)


@ALL
@pytest.mark.parametrize("kind", NONSENSE)
def test_resources_that_return_nonsense(client: RawClient, kind: str) -> None:
    refused(read(client, f"odd:///{kind}"), -32603)


# --------------------------------------------------------------- prompts that return nonsense


@ALL
@pytest.mark.parametrize(
    "kind",
    [*NONSENSE, "five", "true", "bytes", "role", "bare", "type", "image", "mime", "list", "messages", "set"],
)
def test_prompts_that_return_nonsense(client: RawClient, kind: str) -> None:
    answer = request(client, "prompts/get", {"name": "nonsense", "arguments": {"kind": kind}})
    refused(answer, -32603, "prompt")


@ALL
@pytest.mark.parametrize(("kind", "words"), RAISED.items())
def test_prompts_that_raise(client: RawClient, kind: str, words: str) -> None:
    answer = request(client, "prompts/get", {"name": "nonsense", "arguments": {"kind": kind}})
    error = refused(answer, -32603, words)
    assert "Traceback" not in str(error)


@ALL
@pytest.mark.parametrize(
    ("params", "word"),
    [
        ({}, "name"),
        ({"name": 5}, "name"),
        ({"name": "unknown"}, "unknown"),
        ({"name": "nonsense"}, "kind"),
        ({"name": "nonsense", "arguments": {"kind": "a", "other": "b"}}, "other"),
        ({"name": "nonsense", "arguments": {"kind": 5}}, "kind"),
        ({"name": "nonsense", "arguments": {"kind": None}}, "kind"),
        ({"name": "nonsense", "arguments": ["kind"]}, "arguments"),
        ({"name": "nonsense", "arguments": "kind"}, "arguments"),
    ],
)
def test_prompts_asked_for_nonsense(client: RawClient, params: Json, word: str) -> None:
    refused(request(client, "prompts/get", params), -32602, word)


# --------------------------------------------------------------- completions of 10,000 values


def completed(client: RawClient, argument: str, value: str = "v") -> Json:
    ref = {"type": "ref/prompt", "name": "suggested"}
    return request(
        client, "completion/complete", {"ref": ref, "argument": {"name": argument, "value": value}}
    )


@ALL
@pytest.mark.parametrize("argument", ["many", "known"])
def test_completions_of_10000_values(client: RawClient, argument: str) -> None:
    """A hundred are sent, the others are counted."""
    found = completed(client, argument)["result"]["completion"]
    assert found["values"] == [f"v{n}" for n in range(100)]
    assert (found["total"], found["hasMore"]) == (10_000, True)


@ALL
def test_completions_without_an_end(client: RawClient) -> None:
    found = completed(client, "endless")["result"]["completion"]
    assert len(found["values"]) == 100
    assert found["hasMore"] is True
    assert "total" not in found


@ALL
@pytest.mark.parametrize("argument", ["wrong", "number", "error", "surrogate"])
def test_completions_that_are_nonsense(client: RawClient, argument: str) -> None:
    refused(completed(client, argument), -32603)


def test_more_completions_than_may_be_known() -> None:
    """A list that long is refused at registration."""
    server = Server("features")
    with pytest.raises(ValueError, match="10000"):
        server.prompt(name="p", complete={"x": map(str, itertools.count())})(lambda x: x)
    assert server.prompts.values() == []


@ALL
@pytest.mark.parametrize(
    ("params", "word"),
    [
        ({}, "ref"),
        ({"ref": 5, "argument": {"name": "x", "value": ""}}, "ref"),
        ({"ref": {"type": "ref/tool", "name": "add"}, "argument": {"name": "a", "value": ""}}, "ref"),
        ({"ref": {"type": "ref/prompt"}, "argument": {"name": "a", "value": ""}}, "ref"),
        ({"ref": {"type": "ref/prompt", "name": "x"}, "argument": {"name": "a", "value": ""}}, "x"),
        ({"ref": {"type": "ref/prompt", "name": "suggested"}}, "argument"),
        ({"ref": {"type": "ref/prompt", "name": "suggested"}, "argument": {"name": "many"}}, "value"),
        ({"ref": {"type": "ref/prompt", "name": "suggested"}, "argument": {"name": "x", "value": ""}}, "x"),
        ({"ref": {"type": "ref/resource", "uri": "x:{y}"}, "argument": {"name": "y", "value": ""}}, "x:{y}"),
        (
            {"ref": {"type": "ref/resource", "uri": "item:///{nam"}, "argument": {"name": "y", "value": ""}},
            "",
        ),
    ],
)
def test_completions_asked_for_nonsense(client: RawClient, params: Json, word: str) -> None:
    refused(request(client, "completion/complete", params), -32602, word)


@ASKED
@pytest.mark.parametrize(
    "context", [5, None, [], {"arguments": 5}, {"arguments": {"x": 5}}, {"arguments": {"x": LONG}}]
)
def test_completions_whose_context_is_nonsense(client: RawClient, context: Any) -> None:
    ref, argument = {"type": "ref/prompt", "name": "suggested"}, {"name": "many", "value": ""}
    params = {"ref": ref, "argument": argument, "context": context}
    refused(request(client, "completion/complete", params), -32602, "context")


# ------------------------------------------------- elicitation answers that break the schema

Reply = Callable[[str, Json], Json]
"""Method and params of a question -> the members of its response: {"result": ...} or {"error": ...}."""


def play(client: RawClient, reply: Reply, method: str, params: Json, **meta: Any) -> Json:
    """Ask, answer what the server asks back, in the way of the era, until there is a response."""
    if client.revision == MODERN:
        answer = request(client, method, params, **meta)
        while answer.get("result", {}).get("resultType") == "input_required":
            answer = request(client, method, {**params, **retry(answer["result"], reply)}, **meta)
        return answer
    asked = client.ask(method, params)
    while True:
        message: Json = client.until(lambda m: m.get("id") == asked or ("method" in m and "id" in m))
        if "method" not in message:
            return message
        client.send({"jsonrpc": "2.0", "id": message["id"], **reply(message["method"], message["params"])})


def retry(result: Json, reply: Reply) -> Json:
    """What a modern client sends besides the params of the first round."""
    asked = result.get("inputRequests", {})
    responses = {key: reply(r["method"], r["params"])["result"] for key, r in asked.items()}
    return {"inputResponses": responses, "requestState": result["requestState"]}


def accept(content: Any) -> Reply:
    return lambda method, params: {"result": {"action": "accept", "content": content}}


MONDAY = {"day": "monday", "seats": 2}
WHERE = pytest.mark.parametrize(
    ("method", "params"),
    [
        ("tools/call", {"name": "book", "arguments": {"what": "x"}}),
        ("prompts/get", {"name": "bookable", "arguments": {"what": "x"}}),
        ("resources/read", {"uri": "book:///x"}),
    ],
)


@ASKED
@WHERE
def test_elicitation_answers_that_fit(client: RawClient, method: str, params: Json) -> None:
    assert "accept Booking(day='monday', seats=2" in str(play(client, accept(MONDAY), method, params))


@ASKED
@WHERE
@pytest.mark.parametrize(
    ("content", "word"),
    [
        ({}, "required"),
        ({"day": "monday"}, "seats"),
        ({**MONDAY, "day": "sunday"}, "day"),
        ({**MONDAY, "day": 1}, "day"),
        ({**MONDAY, "seats": "2"}, "seats"),
        ({**MONDAY, "seats": True}, "seats"),
        ({**MONDAY, "note": 5}, "note"),
        ({**MONDAY, "day": {"is": "monday"}}, "day"),
        ({**MONDAY, "day": None}, "day"),
        ({**MONDAY, "day": ["monday"]}, "day"),
    ],
)
def test_elicitation_answers_that_break_the_schema(
    client: RawClient, method: str, params: Json, content: Any, word: str
) -> None:
    """The server notices, and whoever asked sees what was wrong with the answer."""
    answer = play(client, accept(content), method, params)
    if method == "tools/call":
        failed(answer, "does not fit the form", word)
        assert len(answer["result"]["content"][0]["text"]) < 2000
    else:
        refused(answer, -32603, "does not fit the form", word)


@ASKED
@pytest.mark.parametrize(
    "result",
    [
        {},
        {"action": 5},
        {"action": "perhaps"},
        {"action": None},
        {"action": ["accept"]},
        {"content": MONDAY},
        {"action": "accept", "content": []},
        {"action": "accept", "content": "monday"},
    ],
)
def test_elicitation_answers_that_are_none(client: RawClient, revision: str, result: Any) -> None:
    """Wrong in their shape: in the modern era the retry is refused, else the tool is told."""
    params = {"name": "book", "arguments": {"what": "x"}}
    answer = play(client, lambda *asked: {"result": result}, "tools/call", params)
    if revision == MODERN:
        refused(answer, -32602, "inputResponses")
    else:
        failed(answer, "elicitation/create")


@ASKED
@WHERE
def test_elicitation_answers_with_more_than_was_asked(client: RawClient, method: str, params: Json) -> None:
    """It is left out: the schema of a form does not close it."""
    more: Json = {"x" * 10_000: 1, "other": None, "__class__": {}, **{f"n{n}": n for n in range(10_000)}}
    answer = play(client, accept({**MONDAY, **more}), method, params)
    assert "accept Booking(day='monday', seats=2, note='')" in str(answer)


@ASKED
@pytest.mark.parametrize("action", ["decline", "cancel"])
def test_elicitation_answers_with_content_that_nobody_asked_for(client: RawClient, action: str) -> None:
    """A no is a no, whatever stands beside it."""
    result = {"action": action, "content": {"day": "monday", "seats": 1, "other": "x"}}
    answer = play(
        client, lambda *asked: {"result": result}, "tools/call", {"name": "book", "arguments": {"what": ""}}
    )
    assert answer["result"]["content"][0]["text"] == f"{action} None"


@pytest.mark.parametrize("revision", ["2025-06-18", "2025-11-25"])
@pytest.mark.parametrize(
    "members",
    [
        {"error": {"code": -1, "message": "no"}},
        {"error": {"code": "x"}},
        {"error": None},
        {"result": None},
        {"result": []},
        {"result": {}, "error": {}},
        {},
    ],
)
def test_errors_instead_of_an_answer(client: RawClient, members: Json) -> None:
    params = {"name": "book", "arguments": {"what": "x"}}
    failed(play(client, lambda *asked: members, "tools/call", params))


@ASKED
@pytest.mark.parametrize("kind", ["sampling/createMessage", "roots/list"])
@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"roots": 5},
        {"roots": [{"uri": "https://example.com"}]},
        {"roots": [{"uri": "file:///a"}] * 1001},
        {"role": "assistant", "model": "m", "content": {"type": "text"}},
        {"role": "system", "model": "m", "content": {"type": "text", "text": "x"}},
        {"role": "user", "model": 5, "content": {"type": "text", "text": "x"}},
        {
            "role": "assistant",
            "model": "m",
            "content": {"type": "image", "data": "!", "mimeType": "image/png"},
        },
        {"role": "assistant", "model": "m", "content": 5},
    ],
)
def test_answers_of_models_and_roots_that_are_wrong(
    client: RawClient, revision: str, kind: str, wrong: Json
) -> None:
    """One of several questions at once is answered wrong: the others do not make up for it."""
    right: Json = {
        "elicitation/create": {"action": "decline"},
        "sampling/createMessage": {
            "role": "assistant",
            "model": "m",
            "content": {"type": "text", "text": "x"},
        },
        "roots/list": {"roots": [{"uri": "file:///a"}]},
    }
    params = {"name": "several", "arguments": {}}
    answer = play(client, lambda method, p: {"result": right[method]}, "tools/call", params)
    assert answer["result"]["content"][0]["text"] == "decline x 1"
    answer = play(client, lambda method, p: {"result": {**right, kind: wrong}[method]}, "tools/call", params)
    if "error" in answer:
        assert revision == MODERN
        refused(answer, -32602, "inputResponses")
    else:
        failed(answer, kind)


# ---------------------------------------------------------------------- requestState, altered


def opened(client: RawClient, method: str = "tools/call", params: Json | None = None, **meta: Any) -> Json:
    """The first round of a question: its input_required result."""
    params = params or {"name": "book", "arguments": {"what": "x"}}
    result: Json = request(client, method, params, **meta)["result"]
    assert result["resultType"] == "input_required"
    return result


def booked(client: RawClient, more: Json, what: str = "x", tool: str = "book", **meta: Any) -> Json:
    """A retry of `book`."""
    return request(client, "tools/call", {"name": tool, "arguments": {"what": what}, **more}, **meta)


@IN_MODERN
def test_request_state_altered_by_one_bit_at_every_position(client: RawClient) -> None:
    """Each is refused, also where base64 would read the same bytes; the state itself stays good."""
    first = opened(client)
    answered = retry(first, accept(MONDAY))
    state = answered["requestState"]
    altered = [
        state[:at] + chr(ord(state[at]) ^ (1 << bit)) + state[at + 1 :]
        for at in range(len(state))
        for bit in range(7)
    ]
    params = {"name": "book", "arguments": {"what": "x"}, "_meta": DECLARED}
    for at in range(0, len(altered), 200):  # as many as may wait at once
        retries = [
            client.message("tools/call", {**params, **answered, "requestState": text})
            for text in altered[at : at + 200]
        ]
        client.send(*retries)
        for sent in retries:
            refused(client.answer(sent["id"]), -32602, "requestState is refused")
    assert "monday" in str(booked(client, answered))


@IN_MODERN
def test_request_state_truncated(client: RawClient) -> None:
    answered = retry(opened(client), accept(MONDAY))
    state = answered["requestState"]
    params = {"name": "book", "arguments": {"what": "x"}, "_meta": DECLARED}
    cuts = [state[:n] for n in range(len(state))] + [state[n:] for n in range(1, len(state), 7)]
    cuts += [state + more for more in ("A", "=", "==", "\n", " ", "A" * 1000, state)]
    for at in range(0, len(cuts), 200):
        retries = [
            client.message("tools/call", {**params, **answered, "requestState": text})
            for text in cuts[at : at + 200]
        ]
        client.send(*retries)
        for sent in retries:
            refused(client.answer(sent["id"]), -32602, "requestState is refused")


@IN_MODERN
@pytest.mark.parametrize("state", [5, None, True, [], {}, 1.5])
def test_request_state_of_another_type(client: RawClient, state: Any) -> None:
    refused(booked(client, {"requestState": state}), -32602, "requestState")


@IN_MODERN
@pytest.mark.parametrize(
    "state", ["", "x", "é", "\0", "=" * 100, "A" * 5_000_000, "A" * 43, "A" * 100, "-_" * 50]
)
def test_request_state_invented(client: RawClient, state: str) -> None:
    refused(booked(client, {"requestState": state}), -32602, "requestState is refused")


@IN_MODERN
def test_request_state_replayed_elsewhere(client: RawClient) -> None:
    """On another tool, with other arguments, on another method: it is of one request only."""
    answered = retry(opened(client), accept(MONDAY))
    refused(booked(client, answered, tool="other"), -32602, "requestState is refused")
    refused(booked(client, answered, what="y"), -32602, "requestState is refused")
    for method, params in (
        ("resources/read", {"uri": "book:///x"}),
        ("prompts/get", {"name": "bookable", "arguments": {"what": "x"}}),
        ("prompts/get", {"name": "book", "arguments": {"what": "x"}}),
        ("tools/call", {"name": "book", "arguments": {"what": "x"}, "more": 1}),
        ("tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}}),
    ):
        refused(request(client, method, {**params, **answered}), -32602, "requestState is refused")
    for method in ("tools/list", "server/discover", "resources/list"):  # that never ask, and never look
        assert "result" in request(client, method, answered)
    assert "monday" in str(booked(client, answered))


@IN_MODERN
def test_request_state_of_another_principal(client: RawClient) -> None:
    who: Json = {"vendor/principal": "ann"}
    answered = retry(opened(client, **who), accept(MONDAY))
    for other in ({}, {"vendor/principal": "bob"}, {"vendor/principal": "ann "}, {"vendor/principal": ""}):
        refused(booked(client, answered, **other), -32602, "requestState is refused")
    assert "monday" in str(booked(client, answered, **who))


@IN_MODERN
def test_request_state_of_another_process(directory: Path, client: RawClient) -> None:
    """One that shares the secret goes on with it; one that does not refuses it."""
    answered = retry(opened(client), accept(MONDAY))
    env = {"DIRECTORY": str(directory)}
    with RawClient(source(BODY, options=OPTIONS), revision=MODERN, env=env) as same:
        assert "monday" in str(booked(same, answered))
        assert same.is_alive()
    other = source(BODY, options="secret='another secret of tests'")
    with RawClient(other, revision=MODERN, env=env) as foreign:
        refused(booked(foreign, answered), -32602, "requestState is refused")
        assert foreign.is_alive()


@IN_MODERN
def test_request_state_that_expired(directory: Path, revision: str) -> None:
    text, env = (
        source(BODY, options="options=ServerOptions(state_seconds=0.05)"),
        {"DIRECTORY": str(directory)},
    )
    with RawClient(text, revision=revision, env=env) as client:
        answered = retry(opened(client), accept(MONDAY))
        end = time.monotonic() + PATIENCE
        while "result" in (answer := booked(client, answered)) and time.monotonic() < end:
            pass
        refused(answer, -32602, "requestState is refused", "expired")
        assert client.is_alive()


# --------------------------------------------------------------------- ten levels of nested asks


@ASKED
@pytest.mark.parametrize("levels", [10, 100])
def test_ten_levels_of_nested_asks(client: RawClient, levels: int) -> None:
    """Each question is made of the answers before: none is lost, none comes twice."""
    heard: list[str] = []

    def reply(method: str, params: Json) -> Json:
        heard.append(params["message"])
        return {"result": {"action": "accept", "content": {"day": "monday", "seats": len(heard)}}}

    answer = play(client, reply, "tools/call", {"name": "count", "arguments": {"levels": levels}})
    total = levels * (levels + 1) // 2
    assert answer["result"]["content"][0]["text"] == str(total)
    assert heard == [f"Level {n}, so far {n * (n + 1) // 2}?" for n in range(levels)]


@ASKED
def test_more_levels_than_may_be(client: RawClient, revision: str) -> None:
    answer = play(client, accept(MONDAY), "tools/call", {"name": "count", "arguments": {"levels": 101}})
    if revision == MODERN:
        refused(answer, -32603, "100 questions")
    else:
        assert answer["result"]["content"][0]["text"] == "202"


# ------------------------------------------------ a client that retries with other responses


@IN_MODERN
def test_a_retry_with_extra_responses(client: RawClient) -> None:
    """What nobody asked for is ignored, whatever it is."""
    answered = retry(opened(client), accept(MONDAY))
    extra: Json = {
        "x": 5,
        "": None,
        "elicitation-2": {"action": "accept"},
        "elicitation-1 ": [],
        "é" * 1000: "x",
    }
    answered["inputResponses"].update(extra)
    assert "monday" in str(booked(client, answered))


@IN_MODERN
def test_a_retry_with_missing_responses(client: RawClient) -> None:
    """Asked again, with the same questions; so as often as they are missing."""
    first = opened(client)
    several: list[Json] = [{}, {"inputResponses": {}}, {"inputResponses": {"unknown": {"action": "accept"}}}]
    for more in several:
        again = booked(client, {"requestState": first["requestState"], **more})["result"]
        assert again["inputRequests"] == first["inputRequests"]
    without_state = booked(client, {"inputResponses": retry(first, accept(MONDAY))["inputResponses"]})
    assert without_state["result"]["inputRequests"] == first["inputRequests"]
    assert "monday" in str(booked(client, retry(again, accept(MONDAY))))


@IN_MODERN
def test_a_retry_with_some_of_several_responses(client: RawClient) -> None:
    """Those that came are kept, the others asked again."""
    first = opened(client, "tools/call", {"name": "several", "arguments": {}})
    assert len(first["inputRequests"]) == 3
    key = next(k for k in first["inputRequests"] if k.startswith("elicitation"))
    some = {"requestState": first["requestState"], "inputResponses": {key: {"action": "decline"}}}
    again = call(client, "several", **some)["result"]
    assert again["inputRequests"] == {k: r for k, r in first["inputRequests"].items() if k != key}


@IN_MODERN
@pytest.mark.parametrize("responses", [5, None, [], "x", True])
def test_a_retry_whose_responses_are_none(client: RawClient, responses: Any) -> None:
    state = opened(client)["requestState"]
    refused(booked(client, {"requestState": state, "inputResponses": responses}), -32602, "inputResponses")
    refused(booked(client, {"inputResponses": responses}), -32602, "inputResponses")


@IN_MODERN
@pytest.mark.parametrize("response", [5, None, [], "x", {}, {"roots": []}])
def test_a_retry_whose_response_is_none(client: RawClient, response: Any) -> None:
    first = opened(client)
    responses = dict.fromkeys(first["inputRequests"], response)
    answer = booked(client, {"requestState": first["requestState"], "inputResponses": responses})
    refused(answer, -32602, "inputResponses.elicitation-1")


@IN_MODERN
@pytest.mark.parametrize(
    "response", [5, None, [], "x", {}, {"action": "perhaps"}, {"action": "accept", "content": 5}]
)
def test_answers_that_are_none_to_a_handler_of_its_own(client: RawClient, response: Any) -> None:
    """What a handler makes itself of a question and its answers is checked just so."""
    params = {"name": "manual", "arguments": {}}
    answer = play(client, accept({"n": 5}), "tools/call", params)
    assert answer["result"]["content"][0]["text"].startswith("own {'mine': {'action': 'accept'")
    refused(play(client, lambda *asked: {"result": response}, "tools/call", params), -32602)
    first = opened(client, "tools/call", params)
    for state in ("own", first["requestState"][:-1], first["requestState"][1:]):
        refused(call(client, "manual", requestState=state), -32602, "requestState is refused")
    extra = {"mine": {"action": "cancel"}, "other": response}
    answer = call(client, "manual", requestState=first["requestState"], inputResponses=extra)
    refused(answer, -32602, "inputResponses.other")


@IN_MODERN
def test_a_client_that_declared_nothing_is_not_asked(client: RawClient) -> None:
    lacking: list[Json] = [{}, {"elicitation": {"url": {}}}, {"sampling": {}}]
    for capabilities in lacking:
        given = {"io.modelcontextprotocol/clientCapabilities": capabilities}
        answer = request(client, "tools/call", {"name": "book", "arguments": {"what": "x"}}, **given)
        error = refused(answer, -32021)
        assert "elicitation" in error["data"]["requiredCapabilities"]


# ------------------------------------------------------ subscriptions for what does not exist


@SUBSCRIBED
@pytest.mark.parametrize("uri", ["config://other", "dir:///nothing.txt", "unknown:x", "dir:///../secret.txt"])
def test_subscriptions_for_uris_that_do_not_exist(client: RawClient, uri: str) -> None:
    not_found(client, request(client, "resources/subscribe", {"uri": uri}), uri)
    assert request(client, "resources/unsubscribe", {"uri": uri})["result"] == {}
    call(client, "touch", {"uris": [uri, "config://app"]})


@IN_MODERN
def test_a_subscription_for_uris_that_do_not_exist(client: RawClient) -> None:
    """Left out of the acknowledgment, and never told of."""
    wanted = [
        "config://other",
        "no uri",
        "",
        "dir:///a.txt",
        "dir:///../secret.txt",
        "dir:///a.txt",
        "unknown:x",
    ]
    with listening(client, resourceSubscriptions=wanted) as agreed:
        assert agreed == {"resourceSubscriptions": ["dir:///a.txt"]}
        call(client, "touch", {"uris": [*wanted, "config://app"]})
        assert told(client)["params"]["uri"] == "dir:///a.txt"
    with listening(client, resourceSubscriptions=["unknown:x"]) as agreed:
        assert agreed == {"resourceSubscriptions": []}


def told(client: RawClient) -> Json:
    """The next notification of a resource."""
    found: Json = client.until(lambda m: m.get("method") == "notifications/resources/updated")
    return found


@IN_MODERN
@pytest.mark.parametrize(
    "wanted",
    [
        5,
        None,
        [],
        "tools",
        {"toolsListChanged": "yes"},
        {"toolsListChanged": 1},
        {"resourceSubscriptions": "config://app"},
        {"resourceSubscriptions": [5]},
        {"resourceSubscriptions": {}},
    ],
)
def test_a_subscription_whose_filter_is_none(client: RawClient, wanted: Any) -> None:
    refused(request(client, "subscriptions/listen", {"notifications": wanted}), -32602, "notifications")
    refused(request(client, "subscriptions/listen"), -32602, "notifications")


@IN_MODERN
def test_a_subscription_to_nothing(client: RawClient) -> None:
    with listening(client, vendor=True) as agreed:
        assert agreed == {}
        call(client, "touch", {"uris": ["config://app"]})


# ------------------------------------------------------------------------ 1,000 subscriptions


@SUBSCRIBED
def test_1000_subscriptions(client: RawClient) -> None:
    """Each is told of once, though it changed thrice; and when they are gone, of none."""
    uris = [f"item:///{n}" for n in range(1000)]
    for method, message in (("resources/subscribe", "result"), ("resources/subscribe", "result")):
        asked = [client.message(method, {"uri": uri}) for uri in uris]
        client.send(*asked)
        assert all(message in client.answer(a["id"]) for a in asked)
    call(client, "touch_together", {"uris": uris * 3})
    assert sorted(told(client)["params"]["uri"] for _ in uris) == sorted(uris)
    asked = [client.message("resources/unsubscribe", {"uri": uri}) for uri in uris]
    client.send(*asked)
    assert all("result" in client.answer(a["id"]) for a in asked)
    call(client, "touch", {"uris": uris})


@IN_MODERN
def test_1000_listeners(client: RawClient) -> None:
    """1,000 open requests, no thread each; every one is told, with its own id; and all can be ended."""
    params = {"notifications": {"resourceSubscriptions": ["config://app"]}, "_meta": DECLARED}
    asked = [client.message("subscriptions/listen", params) for _ in range(1000)]
    names = {a["id"] for a in asked}
    client.send(*asked)
    for _ in asked:
        assert subscription(client.until(lambda m: m.get("method") == ACKNOWLEDGED)) in names
    call(client, "touch", {"uris": ["config://app"]})
    assert {subscription(told(client)) for _ in asked} == names
    refused(client.request("subscriptions/listen", params, id=asked[0]["id"]), -32600, "in use")
    for name in names:
        client.notify("notifications/cancelled", {"requestId": name})
    assert client.is_alive()
    call(client, "touch", {"uris": ["config://app"]})


def subscription(message: Json) -> Any:
    return message["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"]


@IN_MODERN
def test_more_subscriptions_than_may_be(directory: Path, revision: str) -> None:
    """2,001 streams, 10,001 URIs of one."""
    text, env = source(BODY, options="options=ServerOptions(queue=3000)"), {"DIRECTORY": str(directory)}
    with RawClient(text, revision=revision, env=env) as client:
        params: Json = {"notifications": {"resourceSubscriptions": [f"item:///{n}" for n in range(10_001)]}}
        refused(client.request("subscriptions/listen", params), 429, "10000")
        params = {"notifications": {"resourcesListChanged": True}}
        asked = [client.message("subscriptions/listen", params) for _ in range(2001)]
        client.send(*asked)
        outcomes = [client._next(PATIENCE) for _ in asked]
        (last,) = [m for m in outcomes if m.get("method") != ACKNOWLEDGED]
        refused(last, 429, "2000")
        assert client.is_alive()


# ------------------------------------------------------------------ a listener that stops reading


class Deaf(RawClient):
    """A client that can stop reading."""

    def __init__(self, *target: Any, **options: Any) -> None:
        self.hears = threading.Event()
        self.hears.set()
        super().__init__(*target, **options)

    def _read_child(self) -> None:
        assert self.child is not None and self.child.stdout is not None
        with open(self.child.stdout.fileno(), "rb", closefd=False) as lines:
            for line in lines:
                self.hears.wait()
                self._arrived.put(json.loads(line))


@ALL
def test_a_listener_that_stops_reading(tmp_path: Path, revision: str) -> None:
    """It holds up nobody: the server goes on, keeps each change once, and tells it when it reads again."""
    shared, count, rounds = tmp_path / "shared", 600, 20
    shared.mkdir()
    uris = {f"item:///{'x' * 4000}{n}" for n in range(count)}
    client = Deaf(source(BODY), revision=revision, env={"DIRECTORY": str(shared)})
    with client:
        if revision == MODERN:
            wanted = {"resourceSubscriptions": sorted(uris)}
            client.ask("subscriptions/listen", {"notifications": wanted})
            client.until(lambda m: m.get("method") == ACKNOWLEDGED)
        else:
            asked = [client.message("resources/subscribe", {"uri": uri}) for uri in uris]
            client.send(*asked)
            assert all("result" in client.answer(a["id"]) for a in asked)
        client.hears.clear()
        client.call("churn", {"uris": sorted(uris), "rounds": rounds})
        assert eventually(lambda: (tmp_path / "churned").exists())
        client.hears.set()
        heard: list[Any] = []
        while set(heard) < uris:
            heard.append(told(client)["params"]["uri"])
        assert client.is_alive()
        heard += [m for m in client.aside if "id" not in m]
        assert len(heard) < rounds * count / 2


# ------------------------------------------------------------- callbacks that raise or hang


def asks(revision: str, *questions: Any, method: str = "elicitation/create") -> list[str]:
    """A server whose tools ask these questions in turn, and give as text what they were answered.

    A question is its params, or the text that makes them in the server.
    """
    made = ", ".join(each if isinstance(each, str) else repr(each) for each in questions or [FORM])
    return raw_server(f"""
    import itertools
    open_any({revision!r})
    questions = itertools.cycle([{made}])
    while True:
        call = receive("tools/call", "ping", "server/discover")
        if call["method"] != "tools/call":
            answer(call, {{}} if call["method"] == "ping" else discovered())
        elif "requestState" in call["params"]:
            answer(call, text(json.dumps(call["params"]["inputResponses"]["q"])))
        elif {revision == MODERN}:
            question = {{"method": {method!r}, "params": next(questions)}}
            required = {{"inputRequests": {{"q": question}}, "requestState": "s"}}
            answer(call, {{"resultType": "input_required", **required}})
        else:
            send(id="q", method={method!r}, params=next(questions))
            while "method" in (said := receive()):
                if "id" in said:
                    answer(said, {{}})
            answer(call, text(json.dumps(said["result"] if "result" in said else said["error"])))
    """)


FORM = {
    "message": "Which day?",
    "requestedSchema": {
        "type": "object",
        "properties": {
            "day": {"type": "string", "enum": ["monday", "tuesday"]},
            "note": {"type": "string"},
            "seats": {"type": "integer"},
        },
        "required": ["day"],
    },
}


def opened_for(command: list[str], revision: str, **options: Any) -> Client:
    """A client of ours; what its server says to people is nobody's business."""
    return connect(command, **for_connect(revision=revision, on_stderr=Notes(), **options))


def answered(client: Client) -> Json:
    """What the server of `asks` was answered: a result, or an error. A modern client raises that instead."""
    found: Json = json.loads(client.call_tool("any").text)
    return found


def refusal(client: Client) -> str:
    """Why a question was not answered."""
    if client.revision == MODERN:
        with pytest.raises(LocalError) as problem:
            answered(client)
        return str(problem.value)
    error = answered(client)
    assert error["code"] == -32603, error
    return str(error["message"])


class Silent(Exception):
    def __str__(self) -> str:
        raise RuntimeError("not even this")


LOOP: list[Any] = []
LOOP.append(LOOP)


BROKEN: list[tuple[Any, str]] = [
    ({}, "day"),
    ({"day": "sunday"}, "day"),
    ({"day": "monday", "other": 1}, "other"),
    ({"day": "monday", "note": 5}, "note"),
    ({"day": "monday", "note": "\ud800"}, "surrogates"),
    ({"day": "monday", "note": object()}, "note"),
    ({"day": float("nan")}, "day"),
    (True, "day"),
    (5, "object"),
    ("monday", "object"),
    (["monday"], "object"),
    (b"monday", "object"),
    (object(), "object"),
    (LOOP, "recursion"),
    ({"day": "monday", "seats": 10**5000}, "digits"),
    (Answer("perhaps"), "perhaps"),
    (Answer("accept", {"day": 5}), "day"),
    ({1: 2}, "key"),
    (Answer, "JSON"),
]


@ASKED
def test_callbacks_whose_answers_break_the_schema(revision: str) -> None:
    """Our client notices before the server does; nothing is sent for an answer that would be none."""
    answers = iter(BROKEN)
    with opened_for(asks(revision), revision, elicitation=lambda asked: next(answers)[0]) as client:
        for _, words in BROKEN:
            assert words in refusal(client)
        client.ping()


RAISING: list[tuple[BaseException, str]] = [
    (ValueError("no way"), "no way"),
    (Silent(), "Silent"),
    (ValueError("\ud800"), "ud800"),
    (SystemExit(3), "3"),
    (KeyboardInterrupt(), "KeyboardInterrupt"),
    (RequestTimeout("another request"), "another request"),
    (InputRequired(), "InputRequired"),
    (RecursionError("deep"), "deep"),
]


@ASKED
@pytest.mark.parametrize("kind", ["elicitation", "sampling", "roots"])
def test_callbacks_that_raise(revision: str, kind: str) -> None:
    problems = iter(RAISING)

    def fail(*asked: Any) -> Any:
        raise next(problems)[0]

    method, params = WAYS[kind]
    with opened_for(asks(revision, params, method=method), revision, **{kind: fail}) as client:
        for _, words in RAISING:
            assert words in refusal(client)
        client.ping()


WAYS: dict[str, tuple[str, Json]] = {
    "elicitation": ("elicitation/create", FORM),
    "sampling": (
        "sampling/createMessage",
        {"messages": [{"role": "user", "content": {"type": "text", "text": "x"}}], "maxTokens": 5},
    ),
    "roots": ("roots/list", {}),
}


@ASKED
@pytest.mark.parametrize("kind", ["elicitation", "sampling", "roots"])
def test_callbacks_that_hang(revision: str, kind: str) -> None:
    """The time-out ends the wait, the server gets an error, and the callback can see that it is over."""
    over = threading.Event()

    def hang(*asked: Any) -> Any:
        over.wait(PATIENCE)

    method, params = WAYS[kind]
    command = asks(revision, params, method=method)
    with opened_for(command, revision, ask_timeout=0.05, **{kind: hang}) as client:
        assert "within 0.05 s" in refusal(client)
        client.ping()
        over.set()


@ASKED
def test_more_callbacks_that_hang_than_may_run(revision: str) -> None:
    """Ten, and each further question is refused at once; when they end, questions are answered again."""
    over = threading.Event()

    def hang(asked: Any) -> Any:
        return over.wait(PATIENCE) and {"day": "monday"}

    command = asks(revision)
    with opened_for(command, revision, ask_timeout=0.01, elicitation=hang) as client:
        for _ in range(10):
            assert "within 0.01 s" in refusal(client)
        if revision == MODERN:
            assert "too much" in refusal(client)
        else:
            assert answered(client)["code"] == 429
        over.set()
        assert eventually(lambda: "monday" in str(tried(client)))


def tried(client: Client) -> Any:
    try:
        return answered(client)
    except McpError as problem:
        return problem


def form(**members: Any) -> Json:
    return {"message": "Which day?", "requestedSchema": {"type": "object", "properties": {}, **members}}


NO_FORMS: list[tuple[Json, str]] = [
    ({}, "message"),
    ({**FORM, "message": 5}, "message"),
    ({**FORM, "requestedSchema": 5}, "requestedSchema"),
    ({**FORM, "requestedSchema": {}}, "type"),
    (form(type="array"), "type"),
    (form(properties=5), "properties"),
    (form(required=["ghost"]), "ghost"),
    (form(properties={"a": 5}), "a"),
    (form(properties={"a": {"type": "object"}}), "a"),
    (form(properties={"a": {"type": []}}), "a"),
    (form(properties={"a": {"$ref": "#"}}), "a"),
    (form(properties={"a": {"type": "string", "enum": []}}), "a"),
]


@ASKED
def test_questions_that_are_none(revision: str) -> None:
    """A hostile server's: nobody is asked."""
    asked: list[Any] = []
    command = asks(revision, *(params for params, _ in NO_FORMS))
    with opened_for(command, revision, elicitation=asked.append) as client:
        for _, words in NO_FORMS:
            outcome = tried(client)
            assert words in str(outcome)
            assert isinstance(outcome, LocalError) or outcome["code"] == -32602
        client.ping()
    assert not asked


NO_URLS: list[Any] = [
    "javascript:alert(1)",
    "file:///etc/passwd",
    "https://b\u0430nk.example/",
    "https://a\0b/",
    "https://[::1",
    "https:///x",
    "https://a b/",
    "//example.com",
    "",
    5,
    None,
]


@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
def test_urls_that_are_none(revision: str) -> None:
    """Nobody is asked to open them."""
    asked: list[Any] = []
    common = {"mode": "url", "message": "Look", "elicitationId": "1"}
    command = asks(revision, *({**common, "url": url} for url in NO_URLS))
    with opened_for(command, revision, elicitation=asked.append) as client:
        for url in NO_URLS:
            assert ("URL" if isinstance(url, str) else "url") in str(tried(client))
        client.ping()
    assert not asked


@ASKED
@pytest.mark.parametrize(
    "properties",
    [
        '{f"field {n}": {"type": "string"} for n in range(5_000)}',
        '{"a": {"type": "string", "enum": [str(n) for n in range(50_000)]}}',
        '{"a" * 500_000: {"type": "boolean", "title": "b" * 500_000}}',
        '{"\\u202e\\0\\x1b[2J\\U0001F600": {"type": "string", "title": "\\x1b]0;x\\7"}}',
        '{"__class__": {"type": "string"}, "": {"type": "integer", "minimum": 9, "maximum": 1}}',
        '{"a": {"type": "string", "minLength": 10**30, "pattern": "(a+)+$", "default": "x" * 1_000_000}}',
    ],
)
def test_unicode_and_huge_forms(revision: str, properties: str) -> None:
    """A person may say no to them."""
    asked: list[ElicitationRequest] = []

    def decline(question: ElicitationRequest) -> Any:
        asked.append(question)
        assert all(field.name in question.schema["properties"] for field in question.fields)
        return False

    schema = f'{{"type": "object", "properties": {properties}}}'
    params = f'{{"message": "?" * 100_000, "requestedSchema": {schema}}}'
    with opened_for(asks(revision, params), revision, elicitation=decline) as client:
        assert answered(client) == {"action": "decline"}
    assert len(asked) == 1


# ------------------------------------------------------- hostile servers, method by method


def says(revision: str, *results: Any) -> list[str]:
    """A server whose results are these in turn, whatever it is asked.

    A result may be the text that makes it of the request, `call`.
    """
    made = "".join(f"lambda call: {r if isinstance(r, str) else repr(r)}, " for r in results)
    return raw_server(f"""
    import itertools
    changes = {{"listChanged": True}}
    ABLE.update(resources={{**changes, "subscribe": True}}, prompts=changes, tools=changes, completions={{}})
    open_any({revision!r})
    results = itertools.cycle([{made}])
    while True:
        call = receive()
        if "id" in call and call["method"] in ("ping", "server/discover"):
            answer(call, discovered() if call["method"] == "server/discover" else {{}})
        elif "id" in call:
            answer(call, next(results)(call))
    """)


LISTS: dict[str, Callable[[Client], list[Any]]] = {
    "resources": Client.list_resources,
    "resourceTemplates": Client.list_resource_templates,
    "prompts": Client.list_prompts,
}
EVERY_LIST = pytest.mark.parametrize("member", LISTS)


@ALL
@EVERY_LIST
def test_lists_that_are_none(revision: str, member: str) -> None:
    """Each is the end of its own call only."""
    wrong: list[Any] = [{}, 5, [], None, {member: []} | {"nextCursor": 5}]
    wrong += [{member: None}, {member: 5}, {member: {}}, {member: "x"}]
    with opened_for(says(revision, *wrong), revision) as client:
        for _ in wrong:
            with pytest.raises(InvalidResponse):
                LISTS[member](client)
        client.ping()


@ALL
@EVERY_LIST
def test_lists_of_things_that_are_none(revision: str, member: str) -> None:
    """What is no definition is left out; what is one is still good."""
    good = {"uri": "a:b", "uriTemplate": "a:{b}", "name": "x"}
    wrong: list[Any] = [5, None, [], {}, "x", {"name": 5}, {**good, "name": None}, {**good, "description": 5}]
    with opened_for(says(revision, {member: [*wrong, good, *wrong]}), revision) as client:
        assert LISTS[member](client) == [good]


@pytest.mark.parametrize("cursor", ["'again'", "str(call['id'])"], ids=["the same", "new ones"])
@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
def test_cursors_without_an_end(revision: str, cursor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same again says no more than new ones do: both are followed for as many pages as may be."""
    monkeypatch.setattr(pagination, "MAX_PAGES", 200)
    endless = f'{{"prompts": [], "nextCursor": {cursor}}}'
    with opened_for(says(revision, endless), revision) as client:
        with pytest.raises(InvalidResponse, match="more than 200 pages"):
            LISTS["prompts"](client)
        client.ping()


NO_CONTENTS: list[Any] = [
    None,
    5,
    {},
    [5],
    [{}],
    [{"uri": "a:b"}],
    [{"uri": "a:b", "text": 5}],
    [{"uri": 5, "text": "x"}],
    [{"uri": "a:b", "text": "x", "mimeType": 5}],
    *([{"uri": "a:b", "blob": blob}] for blob in ("!", "YQ", "Y Q==", "YQ==YQ==", "YQ-_", "é", 5, None)),
    [{"uri": "a:b", "text": "x"}, {"uri": "a:b", "blob": "="}],
    [{"uri": "a:b", "text": "x", "blob": 5}],
]


@ALL
def test_contents_that_are_none(revision: str) -> None:
    """Of a wrong shape, or with data that are no base64."""
    with opened_for(says(revision, *({"contents": c} for c in NO_CONTENTS)), revision) as client:
        for _ in NO_CONTENTS:
            with pytest.raises(InvalidResponse, match="contents"):
                client.read_resource("a:b")
        client.ping()


def said(content: Any, role: Any = "user") -> list[Json]:
    return [{"role": role, "content": content}]


TEXT = {"type": "text", "text": "x"}
PICTURE = {"type": "image", "mimeType": "image/png"}
NO_MESSAGES: list[Any] = [
    None,
    5,
    [5],
    [{}],
    said(TEXT, "system"),
    said(TEXT, ["user"]),
    said("x"),
    said([]),
    said({"type": "vendor"}),
    said({"type": []}),
    said({"type": "text"}),
    said({**PICTURE, "data": "!"}),
    said({**PICTURE, "data": 5}),
    said({"type": "resource", "resource": {"uri": "a:b"}}),
    said({"type": "resource", "resource": {"uri": "a:b", "blob": "!"}}),
    said({"type": "resource", "resource": {"uri": "a:b", "text": "x", "blob": 5}}),
]


@ALL
def test_messages_of_prompts_that_are_none(revision: str) -> None:
    with opened_for(says(revision, *({"messages": m} for m in NO_MESSAGES)), revision) as client:
        for _ in NO_MESSAGES:
            with pytest.raises(InvalidResponse, match="prompts/get"):
                client.get_prompt("x")
        client.ping()


@ALL
def test_completions_that_are_none(revision: str) -> None:
    wrong: list[Any] = [None, 5, [], {"values": 5}, {"values": None}, {"values": {"a": 1}}]
    with opened_for(says(revision, *({"completion": c} for c in wrong)), revision) as client:
        for _ in wrong:
            with pytest.raises(InvalidResponse, match="completion"):
                client.complete(prompt="x", argument="y")
        client.ping()


@ALL
def test_completions_that_are_partly_nonsense(revision: str) -> None:
    """A hundred at most, of strings alone, and no counts that are none."""
    result = '{"completion": {"values": [5, None, "a"] * 100_000, "total": "many", "hasMore": 1}}'
    with opened_for(says(revision, result), revision) as client:
        found = client.complete(prompt="x", argument="y")["completion"]
        assert found == {"values": ["a"] * 100, "hasMore": True}


# -------------------------------------------------------- hostile servers, asking for input


def wants(required: str, *, for_ever: bool = False) -> list[str]:
    """A modern server that answers tools/call with this input_required result, once or for ever."""
    return raw_server(f"""
    open_modern()
    FORM = {FORM!r}
    note = lambda what: os.write(2, what["method"].encode() + b"\\n")
    while True:
        call = receive()
        if call.get("method") == "server/discover":
            answer(call, discovered())
        elif {for_ever} or "requestState" not in call["params"] and "inputResponses" not in call["params"]:
            answer(call, {{"resultType": "input_required", **{required}}})
        else:
            answer(call, text(str(len(call["params"].get("inputResponses", ())))))
    """)


@pytest.mark.parametrize(
    "required",
    [
        {},
        {"inputRequests": None},
        {"inputRequests": [], "requestState": "s"},
        {"inputRequests": "x"},
        {"requestState": 5},
        {"requestState": None},
        {"requestState": {}},
        {"inputRequests": {"a": 5}},
        {"inputRequests": {"a": None}},
        {"inputRequests": {"a": {}}},
        {"inputRequests": {"a": {"method": 5}}},
        {"inputRequests": {"a": {"method": []}}},
        {"inputRequests": {"a": {"method": {}}}},
        {"inputRequests": {"a": {"method": "tools/call", "params": {"name": "x"}}}},
        {"inputRequests": {"a": {"method": "vendor/x"}}},
        {"inputRequests": {"a": {"method": "ping"}}},
        {"inputRequests": {"a" * 100_000: {"method": "roots/list", "params": []}}},
        {"inputRequests": {"a": {"method": "elicitation/create"}}},
    ],
)
def test_input_required_with_nonsense(required: Json) -> None:
    """Nobody is asked, nothing is sent again; and what waits for a future is told as well."""
    asked: list[Any] = []
    with opened_for(wants(repr(required)), MODERN, elicitation=asked.append, roots=[]) as client:
        with pytest.raises(LocalError, match="tools/call"):
            client.call_tool("x")
        with pytest.raises(LocalError, match="tools/call"):
            client.submit("tools/call", {"name": "x"}).result(PATIENCE)
        client.ping()
    assert not asked


@pytest.mark.parametrize(
    "method", ["tools/list", "resources/list", "prompts/list", "completion/complete", "vendor/x"]
)
def test_input_required_where_it_must_not_be(method: str) -> None:
    script = says(MODERN, '{"resultType": "input_required", "requestState": "s"}')
    with opened_for(script, MODERN) as client:
        with pytest.raises(InvalidResponse, match="must not"):
            client.request(method, {"name": "x"})
        client.ping()


@pytest.mark.parametrize("revision", REVISIONS[:-1])
def test_input_required_in_the_legacy_era(revision: str) -> None:
    """There is no such thing: nobody is asked."""
    asked: list[Any] = []
    question = {"method": "elicitation/create", "params": FORM}
    result = {"resultType": "input_required", "inputRequests": {"a": question}}
    with opened_for(says(revision, result), revision, elicitation=asked.append) as client:
        with pytest.raises(InvalidResponse):
            client.call_tool("x")
        client.ping()
    assert not asked


@pytest.mark.parametrize(
    "required",
    [
        '{"inputRequests": {"a": {"method": "elicitation/create", "params": FORM}}, "requestState": "s"}',
        '{"requestState": "s" * (1 << 20)}',
        '{"inputRequests": {}}',
    ],
)
def test_input_required_for_ever(required: str) -> None:
    """Ten rounds, and no more: then the caller is told."""
    asked: list[Any] = []

    def accept(question: ElicitationRequest) -> Json:
        asked.append(question)
        return {"day": "monday"}

    with opened_for(wants(required, for_ever=True), MODERN, elicitation=accept, max_rounds=10) as client:
        with pytest.raises(LocalError, match="11 times"):
            client.call_tool("x")
        assert len(asked) == (10 if "FORM" in required else 0)
        with pytest.raises(LocalError, match="11 times"):
            client.submit("tools/call", {"name": "x"}).result(PATIENCE)
        client.ping()


def test_a_request_state_of_10_mib_is_sent_back() -> None:
    """It is the server's own affair."""
    with opened_for(wants('{"requestState": "s" * (10 << 20)}'), MODERN) as client:
        assert client.call_tool("x").text == "0"


@pytest.mark.parametrize("kind", ["elicitation/create", "sampling/createMessage", "roots/list"])
def test_10000_questions_at_once(kind: str) -> None:
    """Nobody is asked that much: not even once."""
    asked: list[Any] = []
    params = dict(WAYS.values())[kind]
    entries = f'{{str(n): {{"method": {kind!r}, "params": {params!r}}} for n in range(10_000)}}'
    required = f'{{"inputRequests": {entries}}}'
    options: Json = {"elicitation": asked.append, "sampling": asked.append, "roots": []}
    with opened_for(wants(required), MODERN, **options) as client:
        with pytest.raises(LocalError, match="tools/call"):
            client.call_tool("x")
        client.ping()
    assert not asked


# ------------------------------------------------------------------ hostile servers, listening

LISTENED = """
ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"
ABLE.update(resources={"listChanged": True, "subscribe": True}, tools={"listChanged": True})

def acknowledge(call, filter, name=None):
    meta = {SUBSCRIPTION: call["id"] if name is None else name}
    send(method=ACKNOWLEDGED, params={"_meta": meta, "notifications": filter})

def updated(call, *uris):
    lines = []
    for uri in uris:
        params = {"uri": uri, "_meta": {SUBSCRIPTION: call["id"]}}
        method = "notifications/resources/updated"
        lines.append(json.dumps({"jsonrpc": "2.0", "method": method, "params": params}))
    write("".join(line + chr(10) for line in lines).encode())

def go_on():
    while True:
        message = receive()
        if "method" in message and "id" in message:
            answer(message, discovered() if message["method"] == "server/discover" else {})
"""


def listened(revision: str, script: str) -> list[str]:
    """A server that does this when somebody listens."""
    opening = textwrap.dedent(LISTENED) + f"\nopen_any({revision!r})\n"
    if revision == MODERN:
        opening += "call = receive('subscriptions/listen')\n"
    else:
        opening += (
            "while (call := receive('resources/subscribe'))['params']['uri'] != 'a:2': answer(call, {})\n"
        )
        opening += "answer(call, {})\n"
    return raw_server(opening + textwrap.dedent(script) + "\ngo_on()")


RIGHT = 'acknowledge(call, {"toolsListChanged": True, "resourceSubscriptions": ["a:1", "a:2"]})\n'


@pytest.mark.parametrize(
    "script",
    [
        "pass",
        "send(method=ACKNOWLEDGED)",
        'send(method=ACKNOWLEDGED, params={"notifications": {"toolsListChanged": True}})',
        "acknowledge(call, {}, 10**9)",
        'acknowledge(call, {}, str(call["id"]))',
        'acknowledge(call, {}, [call["id"]])',
        "acknowledge(call, {}, True)",
        "acknowledge(call, {}, 1.0)",
    ],
)
def test_a_subscription_that_is_never_acknowledged(script: str) -> None:
    """Or only another one is: the time-out tells, and the server is told."""
    notes = Notes()
    with connect(listened(MODERN, script), revision=MODERN, options=ClientOptions(on_stderr=notes)) as client:
        client.asker.connection.timeout = 0.1
        with pytest.raises(RequestTimeout, match="acknowledgment"):
            client.listen(tools=True, resources=["a:1", "a:2"])
        asked = notes.message("subscriptions/listen")["id"]
        assert notes.message("notifications/cancelled")["params"]["requestId"] == asked
        client.ping(timeout=PATIENCE)


@pytest.mark.parametrize(
    ("script", "refused"),
    [
        ("acknowledge(call, 5)", {"tools", "a:1", "a:2"}),
        ("acknowledge(call, None)", {"tools", "a:1", "a:2"}),
        ("acknowledge(call, [])", {"tools", "a:1", "a:2"}),
        ('acknowledge(call, {"toolsListChanged": "yes", "vendor": 1})', {"tools", "a:1", "a:2"}),
        ('acknowledge(call, {"resourceSubscriptions": 5})', {"tools", "a:1", "a:2"}),
        ('acknowledge(call, {"resourceSubscriptions": [5, "a:1", None, ["a:2"], "x:y"]})', {"tools", "a:2"}),
        (
            'acknowledge(call, {"resourceSubscriptions": [str(n) for n in range(50_000)]})',
            {"tools", "a:1", "a:2"},
        ),
        (RIGHT + "acknowledge(call, {})", {"tools", "a:1", "a:2"}),
        (RIGHT + RIGHT, set()),
    ],
)
def test_acknowledgments_that_are_strange_or_come_twice(script: str, refused: set[str]) -> None:
    """What was not agreed to is known; and what is told all the same is heard."""
    with opened_for(listened(MODERN, script + "\nupdated(call, 'a:1')"), MODERN) as client:
        with client.listen(tools=True, resources=["a:1", "a:2"]) as changes:
            assert changes.next(PATIENCE) == ("resource", "a:1")
            assert changes.refused == refused
        client.ping()


@pytest.mark.parametrize("answer", ["5", "None", "[]"])
def test_a_subscription_whose_response_is_none(answer: str) -> None:
    with opened_for(listened(MODERN, f"answer(call, {answer})"), MODERN) as client:
        with pytest.raises(InvalidResponse):
            client.listen(tools=True)
        client.ping()


@pytest.mark.parametrize(
    "answer", ["{}", '{"resultType": "complete"}', '{"resultType": "input_required"}', '{"_meta": 5}']
)
def test_a_subscription_that_ends_at_once(answer: str) -> None:
    """With or without having been acknowledged, and as often as the server likes to say so."""
    for opening in ("", RIGHT):
        with opened_for(
            listened(MODERN, f"{opening}answer(call, {answer})\nanswer(call, {answer})"), MODERN
        ) as client:
            with client.listen(tools=True) as changes:
                assert list(changes) == []
            client.ping()


@ALL
def test_notifications_that_are_nonsense_are_not_heard(revision: str) -> None:
    script = """
    for uri in (5, None, [], {}, "", "x" * 1_000_000, "other:uri", "a:10"):
        updated(call, uri)
    for params in (None, [], 5, {}, {"uri": "a:1", "_meta": 5}, {"uri": 5}):
        send(method="notifications/resources/updated", params=params)
        send(method="notifications/resources/list_changed", params=params)
    updated(call, "a:2")
    """
    opening = RIGHT if revision == MODERN else ""
    with opened_for(listened(revision, opening + textwrap.dedent(script)), revision) as client:
        with client.listen(tools=True, resources=["a:1", "a:2"]) as changes:
            heard = changes.next(PATIENCE)
            while heard is not None and heard.uri not in ("a:1", "a:2"):
                heard = changes.next(PATIENCE)
            assert heard == ("resource", "a:1" if revision != MODERN else "a:2")
        client.ping()


@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
def test_notifications_of_100000_different_uris(revision: str) -> None:
    """What nobody takes is bounded, what was asked for by name is among it, and the rest goes on."""
    script = """
    updated(call, *(f"a:1/{n}" for n in range(100_000)))
    updated(call, "a:2")
    """
    opening = RIGHT if revision == MODERN else ""
    with opened_for(listened(revision, opening + textwrap.dedent(script)), revision) as client:
        with client.listen(resources=["a:1", "a:2"]) as changes:
            client.ping()
            heard = []
            while (change := changes.next(0)) is not None:
                heard.append(change.uri)
            assert len(heard) < 20_000
            assert len(set(heard)) == len(heard)
        client.ping()


# ------------------------------------------------------------------------------------ floods


@ALL
@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("resources/read", {"uri": "config://app"}),
        ("resources/list", {}),
        (
            "completion/complete",
            {"ref": {"type": "ref/prompt", "name": "x"}, "argument": {"name": "", "value": ""}},
        ),
    ],
)
def test_a_flood_of_requests(client: RawClient, method: str, params: Json) -> None:
    """5,000 in one write: each is answered exactly once, with its result, its error, or 429."""
    asked = [client.message(method, params) for _ in range(5_000)]
    writer = threading.Thread(target=client.send, args=asked)
    writer.start()
    answers = [client.until(lambda m: "method" not in m) for _ in asked]
    writer.join(PATIENCE)
    assert {a["id"] for a in answers} == {a["id"] for a in asked}
    assert {a["error"]["code"] for a in answers if "error" in a} <= {429, -32602}
    assert method == "completion/complete" or any("result" in a for a in answers)


@ASKED
def test_a_flood_of_questions_that_nobody_answers(directory: Path, revision: str) -> None:
    """300 calls that ask: in the modern era each ends at once; in the legacy era they can be cancelled."""
    text, env = source(BODY), {"DIRECTORY": str(directory)}
    with RawClient(text, revision=revision, capabilities=ABLE, env=env) as client:
        params = {"name": "book", "arguments": {"what": "x"}, "_meta": DECLARED}
        if revision != MODERN:
            del params["_meta"]
        asked = [client.message("tools/call", params) for _ in range(300)]
        client.send(*asked)
        if revision == MODERN:
            assert all(client.answer(a["id"])["result"]["resultType"] == "input_required" for a in asked)
        else:
            client.until(lambda m: m.get("method") == "elicitation/create")
            for each in asked:
                client.notify("notifications/cancelled", {"requestId": each["id"]})
            assert client.is_alive()
            assert not [
                m for m in client.aside if m.get("id") in {a["id"] for a in asked} and "method" not in m
            ]


@pytest.mark.parametrize("revision", ["2025-06-18", "2025-11-25"])
def test_a_flood_of_questions_by_a_hostile_server(revision: str) -> None:
    """2,000 at once: a person is asked ten at a time, a hundred in one go; the others are refused at once."""
    script = f"""
    import threading
    open_any({revision!r})
    call = receive("tools/call")
    question = {{"jsonrpc": "2.0", "method": "elicitation/create", "params": {FORM!r}}}
    lines = [json.dumps({{**question, "id": n}}) for n in range(2_000)]
    threading.Thread(target=write, args=((chr(10).join(lines) + chr(10)).encode(),)).start()
    note = lambda what: None
    codes = {{}}
    for _ in lines:
        said = receive("")
        code = said["error"]["code"] if "error" in said else 0
        codes[code] = codes.get(code, 0) + 1
    answer(call, text(json.dumps(codes)))
    go_on()
    """
    lock, running, most, count = threading.Lock(), 0, 0, 0

    def accept(asked: ElicitationRequest) -> Json:
        nonlocal running, most, count
        with lock:
            running, count = running + 1, count + 1
            most = max(most, running)
        threading.Event().wait(0.001)
        with lock:
            running -= 1
        return {"day": "monday"}

    with opened_for(raw_server(script), revision, elicitation=accept) as client:
        codes = json.loads(client.call_tool("x").text)
        client.ping()
    assert set(codes) == {"0", "429"}
    assert codes["0"] == count < 300
    assert most <= 10


def test_an_error_that_asks_for_a_visit_to_nonsense() -> None:
    """Places that are none are left out, and nobody is asked to go there."""
    place = {"mode": "url", "message": "Look", "url": "https://example.com/", "elicitationId": "1"}
    wrong = [
        5,
        None,
        {},
        {**place, "url": "javascript:1"},
        {**place, "mode": "form"},
        {**place, "elicitationId": 5},
    ]
    data: list[Any] = [None, 5, {}, {"elicitations": 5}, {"elicitations": wrong}]
    script = f"""
    open_legacy("2025-11-25")
    for data in {data!r}:
        error(receive("tools/call"), -32042, data=data)
    go_on()
    """
    asked: list[Any] = []
    with opened_for(raw_server(script), "2025-11-25", elicitation=asked.append) as client:
        for _ in data:
            with pytest.raises(UrlElicitationNeeded) as problem:
                client.call_tool("x")
            assert problem.value.elicitations == []
            assert client.visit(problem.value, timeout=PATIENCE) is False
        client.ping()
    assert not asked


def test_an_error_that_asks_for_10000_visits() -> None:
    """No person is sent to so many places."""
    place = '{"mode": "url", "message": "", "url": "https://a.b/", "elicitationId": str(n)}'
    script = f"""
    open_legacy("2025-11-25")
    error(receive("tools/call"), -32042, data={{"elicitations": [{place} for n in range(10_000)]}})
    go_on()
    """
    with opened_for(raw_server(script), "2025-11-25", elicitation=lambda asked: False) as client:
        with pytest.raises(UrlElicitationNeeded) as problem:
            client.call_tool("x")
        assert len(problem.value.elicitations) <= 100
        client.ping()


@pytest.mark.parametrize("end", ["close", "die"])
def test_a_connection_that_ends_while_a_visit_is_waited_for(end: str) -> None:
    """Whoever waits for it to be done is told at once."""
    place = {"mode": "url", "message": "Look", "url": "https://example.com/", "elicitationId": "1"}
    script = f"""
    open_legacy("2025-11-25")
    error(receive("tools/call"), -32042, data={{"elicitations": [{place!r}]}})
    receive("vendor/die")
    os._exit(3)
    """
    outcome: list[Any] = []
    asked = threading.Event()

    def accept(question: ElicitationRequest) -> bool:
        asked.set()
        return True

    def visit(problem: UrlElicitationNeeded) -> None:
        try:
            outcome.append(ours.visit(problem, timeout=60))
        except McpError as told:
            outcome.append(told)

    with opened_for(raw_server(script), "2025-11-25", elicitation=accept, grace=0.05) as ours:
        with pytest.raises(UrlElicitationNeeded) as needed:
            ours.call_tool("x")
        thread = threading.Thread(target=visit, args=(needed.value,))
        thread.start()
        assert asked.wait(PATIENCE)
        if end == "close":
            ours.close()
        else:
            ours.notify("vendor/die")
        thread.join(PATIENCE)
        assert isinstance(outcome[0], ConnectionClosed)


# ----------------------------------------------------------- cancelled, closed, interrupted


@pytest.mark.parametrize("revision", ["2025-06-18", "2025-11-25"])
def test_a_call_that_is_cancelled_during_its_question(client: RawClient, revision: str) -> None:
    """The question is withdrawn, the call not answered; a late answer is ignored."""
    asked = client.ask("tools/call", {"name": "book", "arguments": {"what": "x"}})
    question = client.until(lambda m: m.get("method") == "elicitation/create")
    client.notify("notifications/cancelled", {"requestId": asked})
    withdrawn = client.until(lambda m: m.get("method") == "notifications/cancelled")
    assert withdrawn["params"]["requestId"] == question["id"]
    client.send({"jsonrpc": "2.0", "id": question["id"], **accept(MONDAY)("", {})})
    assert client.is_alive()


@IN_MODERN
def test_a_call_that_is_cancelled_between_its_rounds(client: RawClient) -> None:
    """There is nothing left to cancel, and nothing is forgotten: the state is with the client."""
    message = client.message("tools/call", {"name": "book", "arguments": {"what": "x"}, "_meta": DECLARED})
    client.send(message)
    result = client.answer(message["id"])["result"]
    client.notify("notifications/cancelled", {"requestId": message["id"]})
    assert "monday" in str(booked(client, retry(result, accept(MONDAY))))
    again = client.message("tools/call", {"name": "book", "arguments": {"what": "x"}, "_meta": DECLARED})
    cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": again["id"]}}
    client.send(again, cancel)  # in one write: answered, or not
    assert client.is_alive()
    client.aside = [m for m in client.aside if m.get("id") != again["id"]]


@pytest.mark.parametrize("revision", ["2025-06-18", "2025-11-25"])
def test_a_question_that_is_withdrawn_while_a_person_is_asked(revision: str) -> None:
    """The callback can see that nobody wants the answer any more, and none is sent."""
    script = f"""
    open_any({revision!r})
    call = receive("tools/call")
    send(id="q", method="elicitation/create", params={FORM!r})
    receive("vendor/asked")
    send(method="notifications/cancelled", params={{"requestId": "q"}})
    send(id="p", method="ping")
    answer(call, text(json.dumps(receive("")["id"])))
    go_on()
    """
    seen = threading.Event()

    def hang(asked: ElicitationRequest) -> None:
        ours.notify("vendor/asked")
        assert eventually(lambda: asked.is_over)
        seen.set()

    with opened_for(raw_server(script), revision, elicitation=hang) as ours:
        assert ours.call_tool("x").text == '"p"'
        assert seen.wait(PATIENCE)


class Person:
    """Somebody who is asked, and does not answer before `leave`."""

    def __init__(self) -> None:
        self.asked, self._leaves = threading.Event(), threading.Event()
        self.questions: list[ElicitationRequest] = []

    def __call__(self, question: ElicitationRequest) -> Json:
        self.questions.append(question)
        self.asked.set()
        self._leaves.wait(PATIENCE)
        return {"day": "monday"}

    def leave(self) -> None:
        self._leaves.set()


def waiting(client: Client, person: Person) -> tuple[threading.Thread, list[Any]]:
    """A thread that waits for an answer of `asks`, and where it leaves what came of it."""
    outcome: list[Any] = []
    thread = threading.Thread(target=lambda: outcome.append(tried(client)))
    thread.start()
    assert person.asked.wait(PATIENCE)
    return thread, outcome


@pytest.mark.parametrize("revision", ["2025-06-18", "2025-11-25"])
def test_a_server_that_dies_while_a_person_is_asked(revision: str) -> None:
    """Whoever waits is told at once, the person can see it."""
    person = Person()
    script = f"""
    open_any({revision!r})
    receive("tools/call")
    send(id="q", method="elicitation/create", params={FORM!r})
    receive("vendor/die")
    os._exit(3)
    """
    with opened_for(raw_server(script), revision, elicitation=person) as client:
        thread, outcome = waiting(client, person)
        client.notify("vendor/die")
        thread.join(PATIENCE)
        assert isinstance(outcome[0], ConnectionClosed)
        assert eventually(lambda: person.questions[0].is_over)
        person.leave()


def test_a_modern_server_that_dies_while_a_person_is_asked() -> None:
    """It held no state: the answer goes to the next one."""
    person = Person()
    with opened_for(asks(MODERN), MODERN, elicitation=person) as client:
        thread, outcome = waiting(client, person)
        dead = client.asker.connection
        os.kill(client.asker.line.link.process.pid, signal.SIGKILL)
        assert eventually(lambda: dead.failure is not None)
        person.leave()
        thread.join(PATIENCE)
        assert outcome == [{"action": "accept", "content": {"day": "monday"}}]


@ASKED
def test_a_client_that_is_closed_while_a_person_is_asked(revision: str) -> None:
    """`close` does not wait for the person, and whoever waits for the result is told at once."""
    person = Person()
    with opened_for(asks(revision), revision, elicitation=person, grace=0.05) as client:
        thread, outcome = waiting(client, person)
        started = time.monotonic()
        client.close()
        thread.join(PATIENCE)
        assert time.monotonic() - started < PATIENCE / 2
        assert isinstance(outcome[0], ConnectionClosed)
        assert eventually(lambda: person.questions[0].is_over)
        person.leave()


@ASKED
def test_ctrl_c_while_a_person_is_asked(revision: str) -> None:
    """KeyboardInterrupt where the result is waited for; the connection goes on."""
    program = f"""
    import json, os, sys, threading
    sys.path.insert(0, {str(Path(__file__).parent)!r})
    from peers import Notes
    from mcp_ref import ClientOptions, connect
    over = threading.Event()
    def hang(asked):
        print("asked", flush=True)
        over.wait(10)
        return None
    options = ClientOptions(on_stderr=Notes())
    with connect({asks(revision)!r}, revision={revision!r}, elicitation=hang, options=options) as client:
        try:
            client.call_tool("any")
        except KeyboardInterrupt:
            print("interrupted", flush=True)
        over.set()
        client.ping()
        print("alive", flush=True)
    """
    with subprocess.Popen(
        python(textwrap.dedent(program)), stdout=subprocess.PIPE, env={**os.environ, **ENV}, text=True
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "asked\n"
        child.send_signal(signal.SIGINT)
        assert child.stdout.read().splitlines() == ["interrupted", "alive"]
        assert child.wait(PATIENCE) == 0


# ------------------------------------------------------------------ threads, and strange authors


@dataclasses.dataclass
class Number:
    n: int


def strange() -> Server:
    """A server whose tools ask in ways that nobody should."""
    server = Server("features")

    @server.tool
    def by_threads(ctx: Context) -> str:
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            futures = [pool.submit(ctx.elicit, f"thread {n}", Number) for n in range(4)]
            return " ".join(f"{n}:{future.result().data.n}" for n, future in enumerate(futures))

    @server.tool
    def swallow(ctx: Context) -> str:
        found = []
        for n in range(3):
            try:
                found.append(ctx.elicit(f"thread {n}", Number).data.n)
            except BaseException:
                found.append(-1)
        return str(found)

    @server.tool
    def differently(ctx: Context) -> str:
        return str(ctx.elicit(f"thread {next(numbers)}", Number))

    @server.tool
    def once(kind: str, ctx: Context) -> str:
        kept = ctx.once("kept", lambda: UNSERIALISABLE[kind])
        return f"{type(kept).__name__} {ctx.elicit('thread 7', Number).data.n}"

    @server.tool
    def within(ctx: Context) -> str:
        inner = ctx.once("asked", lambda: ctx.elicit("thread 1", Number).data.n)
        return f"{inner} {ctx.elicit('thread 2', Number).data.n}"

    @server.tool
    def keep(ctx: Context) -> str:
        kept.append(ctx)
        return "kept"

    numbers = itertools.count()
    kept: list[Context] = []
    server.kept = kept  # type: ignore[attr-defined]
    return server


UNSERIALISABLE: dict[str, Any] = {
    "object": object(),
    "nan": float("nan"),
    "function": strange,
    "keys": {1: 2},
    "loop": LOOP,
    "digits": 10**5000,
    "surrogate": "\ud800",
    "long": "x" * 5_000_000,
}


def number(asked: ElicitationRequest) -> Json:
    """The number in the question is the answer."""
    return {"n": int(asked.message.split()[1])}


@ASKED
def test_threads_of_one_tool_that_ask(revision: str) -> None:
    """Each gets the answer to its own question, or the whole is given up: they are never mixed up."""
    with connect(strange(), revision=revision, elicitation=number) as client:
        right = 0
        for _ in range(20):
            try:
                result = client.call_tool("by_threads")
                assert result.text == "0:0 1:1 2:2 3:3"
                right += 1
            except McpError as problem:  # in the modern era, if they came in another order too often
                assert "questions differ" in str(problem)
        assert right or revision == MODERN
        assert client.call_tool("swallow").text == "[0, 1, 2]"
        client.ping()


@ASKED
def test_questions_that_differ_each_time(revision: str) -> None:
    """No answer fits: given up, before the client does."""
    with connect(strange(), revision=revision, elicitation=number) as client:
        if revision == MODERN:
            with pytest.raises(ErrorResponse, match="differ each time"):
                client.call_tool("differently")
        else:
            assert "accept" in client.call_tool("differently").text
        client.ping()


@ASKED
@pytest.mark.parametrize("kind", UNSERIALISABLE)
def test_once_with_what_cannot_be_kept(revision: str, kind: str) -> None:
    """The tool says so, or the request. What is only no text, or too long, hurts where it has to travel."""
    with connect(strange(), revision=revision, elicitation=number) as client:
        if revision == MODERN and kind in ("surrogate", "long"):
            with pytest.raises(ErrorResponse, match="do not fit requestState"):
                client.call_tool("once", {"kind": kind})
        else:
            result = client.call_tool("once", {"kind": kind})
            assert result.is_error or (kind in ("surrogate", "long") and result.text == "str 7")
        assert client.call_tool("within").text == "1 2"


@ASKED
def test_a_context_that_is_used_after_its_tool_returned(revision: str) -> None:
    """Nothing is said of a request that is over, and nothing asked for it."""
    asked: list[Any] = []
    server = strange()
    with connect(server, revision=revision, elicitation=asked.append) as client:
        client.call_tool("keep")
        (ctx,) = server.kept  # type: ignore[attr-defined]
        ctx.progress(1)
        ctx.log("error", "late")
        ctx.notify("vendor/late")
        for _ in range(2):
            with pytest.raises(LocalError):
                ctx.elicit("Late?")
        client.ping()
    assert not asked


@ASKED
def test_callbacks_that_ask_the_server_again(revision: str) -> None:
    """Ten levels: each callback calls the tool that asks again. The eleventh question is refused."""
    server = Server("features")

    @server.tool
    def dig(level: int, ctx: Context) -> str:
        return f"{level} {ctx.elicit(f'thread {level}', Number).data.n}"

    def again(asked: ElicitationRequest) -> Json:
        level = int(asked.message.split()[1])
        if level < limit:
            found.append(ours.call_tool("dig", {"level": level + 1}).text)
        return {"n": level}

    found: list[str] = []
    with connect(server, revision=revision, elicitation=again) as ours:
        limit = 9
        assert ours.call_tool("dig", {"level": 0}).text == "0 0"
        assert found == [f"{n} {n}" for n in range(9, 0, -1)]
        limit = 100
        found.clear()
        if revision == MODERN:
            with pytest.raises(LocalError, match="too much"):
                ours.call_tool("dig", {"level": 0})
        else:
            assert ours.call_tool("dig", {"level": 0}).text == "0 0"
            assert "too much" in found[0]
            assert len(found) == 10
        ours.ping()


@ALL
def test_lists_that_change_while_20_threads_read_them(revision: str) -> None:
    """Each list is whole, each read finds what it names or nothing, and clients are told."""
    server = Server("features", page_size=7)
    server.add_resource(lambda: "0", "item:0", name="0")
    server.add_prompt(lambda: "0", name="0")
    over, problems = threading.Event(), []

    def change() -> None:
        for n in itertools.cycle(range(1, 30)):
            if over.is_set():
                break
            server.add_resource(lambda: "x", f"item:{n}", name=str(n), replace=True)
            server.add_resource(lambda v: "x", f"item:{n}/{{v}}", name=str(n), replace=True)
            server.add_prompt(lambda: "x", name=str(n), replace=True)
            if n % 3 == 0:
                server.remove_resource(f"item:{n}")
                server.remove_prompt(str(n))
                server.remove_resource(f"item:{n}/{{v}}")

    def use(client: Client) -> None:
        try:
            for _ in range(2):
                names = [r["name"] for r in client.list_resources()]
                assert names[0] == "0"
                assert len(set(names)) == len(names)
                assert client.list_prompts()[0]["name"] == "0"
                client.list_resource_templates()
                assert client.read_resource("item:0").text == "0"
                assert client.get_prompt("0").text == "0"
                with contextlib.suppress(ErrorResponse):
                    assert client.read_resource("item:3").text == "x"
                with contextlib.suppress(ErrorResponse):
                    assert client.get_prompt("3").text == "x"
        except Exception as problem:
            problems.append(problem)

    with connect(server, revision=revision) as client:
        threads = [threading.Thread(target=use, args=(client,)) for _ in range(20)]
        changer = threading.Thread(target=change)
        changer.start()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
        over.set()
        changer.join(PATIENCE)
        assert problems == []
        client.ping()
