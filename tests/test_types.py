"""What a type checker makes of the API: `mypy --strict` is run on code of a user, and says what it should.

Each snippet has what mypy is to say of its lines, in comments: `# is: T` for the type that `reveal_type`
shows, `# error: ...` for the beginning of a complaint. Any other complaint fails.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

SNIPPETS = {
    "transports": """
from mcp_ref import HttpOptions, Server

server = Server("notes")


def serve(name: str) -> None:
    server.run()
    server.run("stdio")
    server.run("http", port=8000, stateless=True, options=HttpOptions(max_sessions=5))
    server.run("http", prot=8000)  # error: Unexpected keyword argument "prot"
    server.run("http", port="8000")  # error: No overload variant of "run" of "Server"
    server.run("stdio", port=8000)  # error: No overload variant of "run" of "Server"
    server.run(port=8000)  # error: No overload variant of "run" of "Server"
    server.run("htpp")  # error: No overload variant of "run" of "Server"
    server.wsgi_app("/mcp", stateless=True)
    server.wsgi_app(statless=True)  # error: Unexpected keyword argument "statless" for "wsgi_app" of "Server"
    server.wsgi_app(health_path=5)  # error: Argument "health_path" to "wsgi_app" of "Server"
""",
    "lists": """
from mcp_ref import Client, Host


def look(client: Client, host: Host) -> None:
    for tool in client.list_tools():
        reveal_type(tool["name"])  # is: str
        reveal_type(tool["inputSchema"]["properties"])  # is: Any
        tool["nmae"]  # error: TypedDict "Tool" has no key "nmae"
    for resource in client.list_resources():
        reveal_type(resource["uri"])  # is: str
        resource["url"]  # error: TypedDict "Resource" has no key "url"
    for template in client.list_resource_templates():
        reveal_type(template["uriTemplate"])  # is: str
        template["uri"]  # error: TypedDict "ResourceTemplate" has no key "uri"
    for prompt in client.list_prompts():
        reveal_type(prompt["name"])  # is: str
        prompt["nmae"]  # error: TypedDict "Prompt" has no key "nmae"
    reveal_type(host.list_tools()[0]["name"])  # is: str
    reveal_type(host.list_resources()[0]["uri"])  # is: str
    reveal_type(host.list_prompts()[0]["name"])  # is: str
    with client.listen(tools=True) as changes:
        for change in changes:
            reveal_type(change.uri)  # is: str | None
""",
    "handlers": """
from mcp_ref import Context, Server

server = Server("notes")


@server.tool
def add(a: int, b: int, ctx: Context) -> int:
    ctx.progress(1, total=2)
    return a + b


@server.resource("note://{number}")
def note(number: int) -> str:
    return f"note {number}"


@server.prompt(title="Sum up")
def sum_up(text: str) -> str:
    return text


reveal_type(add)  # is: def (a: int, b: int, ctx: mcp_ref.api.context.Context) -> int
reveal_type(note)  # is: def (number: int) -> str
reveal_type(sum_up)  # is: def (text: str) -> str
server.tool(nmae="x")  # error: Unexpected keyword argument "nmae"
""",
    "questions": """
import enum
from dataclasses import dataclass
from typing import TypedDict

from mcp_ref import Answer, Context


class Color(enum.Enum):
    RED = "red"


@dataclass
class Note:
    text: str


class Trip(TypedDict):
    where: str


def ask(ctx: Context) -> None:
    reveal_type(ctx.elicit("How many?", int))  # is: mcp_ref.client.elicitation.requests.Answer[int]
    reveal_type(ctx.elicit("Your name?", str).data)  # is: str | Any
    reveal_type(ctx.elicit("Which?", Color).data)  # is: questions.Color | Any
    reveal_type(ctx.elicit("What?", Note).data)  # is: questions.Note | Any
    reveal_type(ctx.elicit("Where?", Trip).data)  # is: TypedDict(questions.Trip, {'where': str}) | Any
    reveal_type(ctx.elicit("How many, if any?", int | None).data)  # is: Any
    answer: Answer[Note] = ctx.elicit("What?", Note)
    answer.data.txt  # error: Item "Note" of "Note | Any" has no attribute "txt"
    if answer.data is None:
        print("not accepted")
""",
    "calls": """
from dataclasses import dataclass

from mcp_ref import Client, Host, ToolError, connect


@dataclass
class Note:
    text: str


def call(client: Client) -> None:
    reveal_type(client.call_tool("note"))  # is: mcp_ref.api.results.Result
    reveal_type(client.call_tool("note", {"a": 1}, check=True, timeout=3))  # is: mcp_ref.api.results.Result
    reveal_type(client.call_tool("note", returns=Note))  # is: calls.Note
    reveal_type(client.call_tool("note", returns=list[Note], rounds=0))  # is: list[calls.Note]
    perhaps: Note | None = client.call_tool("note", returns=Note | None)
    print(perhaps)
    reveal_type(client.submit_tool("note").result())  # is: mcp_ref.api.results.Result
    reveal_type(client.submit_tool("note", returns=Note))  # is: concurrent.futures._base.Future[calls.Note]
    reveal_type(client.submit("ping").result())  # is: mcp_ref.api.results.Result
    reveal_type(client.call_tool("note").raise_for_error().load(Note))  # is: calls.Note
    client.call_tool("note", chek=True)  # error: Unexpected keyword argument "chek"
    client.submit_tool("note", rounds=1)  # error: Unexpected keyword argument "rounds"
    try:
        client.call_tool("note", check=True)
    except ToolError as problem:
        print(problem.message, problem.content)


def call_one_of_several(host: Host) -> None:
    reveal_type(host.call_tool("notes.note", check=True))  # is: mcp_ref.api.results.Result
    reveal_type(host.call_tool("notes.note", returns=Note))  # is: calls.Note
    host.call_tool("notes.note", chek=True)  # error: Unexpected keyword argument "chek"


connect("http://localhost:8000/mcp", check=True)
connect("http://localhost:8000/mcp", chek=True)  # error: Unexpected keyword argument "chek" for "connect"
""",
}


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[int, list[str]]]:
    """What mypy says of all snippets: name -> line -> messages."""
    folder = tmp_path_factory.mktemp("snippets")
    for name, source in SNIPPETS.items():
        (folder / f"{name}.py").write_text(source)
    options = ["--strict", "--config-file=", f"--cache-dir={folder / 'cache'}", "--no-error-summary"]
    files = [str(folder / f"{name}.py") for name in SNIPPETS]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *options, *files],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.stderr == ""
    found: dict[str, dict[int, list[str]]] = {name: {} for name in SNIPPETS}
    for path, line, message in re.findall(r"^(.*?\.py):(\d+): (.*)$", done.stdout, re.M):
        if Path(path).stem in found:  # the package itself is checked with its own settings
            found[Path(path).stem].setdefault(int(line), []).append(message)
    return found


@pytest.mark.parametrize("name", SNIPPETS)
def test_a_type_checker_knows_what_the_api_gives_and_takes(
    said: dict[str, dict[int, list[str]]], name: str
) -> None:
    expected: dict[int, str] = {}
    for number, line in enumerate(SNIPPETS[name].splitlines(), 1):
        if shown := re.search(r"  # is: (.*)", line):
            expected[number] = f'note: Revealed type is "{shown[1]}"'
        elif wrong := re.search(r"  # (error: .*)", line):
            expected[number] = wrong[1]
    heard = {line: messages[0] for line, messages in said[name].items()}
    assert {line: heard.get(line, "")[: len(text)] for line, text in expected.items()} == expected
    assert set(heard) == set(expected), heard
