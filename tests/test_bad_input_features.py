"""Bad input to what a server and a client do for each other besides tools, item by item.

Resources, prompts, completion, subscriptions, and what a server asks its client: each item of the list over
real pipes, in every revision that has the feature. A clear error, and all else goes on: the connection, the
process, other requests; no thread and no child is left.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from peers import MODERN, PATIENCE, REVISIONS, Json, RawClient, nothing_left, source

from mcp_ref import Server
from mcp_ref.runtime.templates import BadTemplate

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
import enum, itertools, os
from dataclasses import dataclass
from typing import Literal

from mcp_ref import Elicit, ElicitUrl, ListRoots, ResourceNotFound, Sample

class Owned(Server):
    '''Who asks is what the request says: no transport of this issue knows better.'''
    def answer(self, context):
        context.principal = context.meta.get("vendor/principal")
        return super().answer(context)

server.__class__ = Owned
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
def add(a: int, b: int) -> int:
    return a + b

@server.tool
def touch(uris: list[str]) -> int:
    for uri in uris:
        server.resource_updated(uri)
    return len(uris)

@server.resource("book:///{what}")
def booked(what: str, ctx: Context) -> str:
    return book(what, ctx)

@server.prompt
def bookable(what: str, ctx: Context) -> str:
    return book(what, ctx)
"""
OPTIONS = f"secret={SECRET!r}, max_message_bytes=8_000_000"


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
    assert len(error["message"]) < 1000
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
    assert time.monotonic() - started < 5


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
