"""The pages by task (docs/tasks): what they show runs, and what they claim is so.

docs/tasks/troubleshooting.rst has a test of its own, test_troubleshooting.
"""

from __future__ import annotations

import ast
import contextlib
import importlib
import inspect
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import mcp
import mcp.server
import mcp.server.mcpserver
import mcp.server.mcpserver.exceptions
import pytest
import requests
from docs.vendors import Anthropic, OpenAI, Raw, Vendor
from http_peers import serving
from peers import ENV, PATIENCE, ROOT, eventually, nothing_left, port_kept

import mcp_ref
from mcp_ref import Client, ClientOptions, Context, Server, connect, connect_all

DOCS = Path(ROOT, "docs")
TASKS, EXAMPLES = DOCS / "tasks", DOCS / "examples"


def run(command: list[Any], cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env={"PATH": os.environ["PATH"], **ENV, **environment},
        capture_output=True,
        text=True,
        timeout=90,
    )


def test_the_first_page_offers_tasks_before_pages() -> None:
    text = (DOCS / "index.rst").read_text()
    wanted = text.index("I want to ...")
    assert wanted < text.index("The tree of the package") < text.index("toctree::")
    table = text[wanted : text.index("The tree of the package")]
    assert set(re.findall(r":doc:`(tasks/\w+)`", table)) == {f"tasks/{p.stem}" for p in TASKS.glob("*.rst")}


# ------------------------------------------------------------------------------ testing


def test_the_tests_of_a_server_pass(tmp_path: Path) -> None:
    """In a folder of a user's, without any setting of this repository."""
    for path in (EXAMPLES / "testing").glob("*.py"):
        shutil.copy(path, tmp_path)
    done = run([sys.executable, "-m", "pytest", "-W", "error", "-p", "no:cacheprovider", "-q"], tmp_path)
    assert "10 passed" in done.stdout, done.stdout + done.stderr
    assert done.returncode == 0


def test_a_tool_that_is_broken_fails_the_tests_of_its_server(tmp_path: Path) -> None:
    for path in (EXAMPLES / "testing").glob("*.py"):
        (tmp_path / path.name).write_text(path.read_text().replace("0.45359237", "0.5"))
    done = run([sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q"], tmp_path)
    assert "4 failed, 6 passed" in done.stdout


# -------------------------------------------------------------------------------- hosts


def servers_in(path: Path) -> dict[str, Any]:
    """What a file of a host names, whatever the host calls it; with a Python and a server that are here."""
    text = path.read_text().replace("/srv/venv/bin/python", sys.executable)
    text = text.replace("/srv/quickstart_server.py", str(EXAMPLES / "quickstart_server.py"))
    found: dict[str, Any] = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
    (servers,) = found.values()
    assert isinstance(servers, dict)
    return servers


@pytest.mark.parametrize("path", sorted((EXAMPLES / "config").iterdir()), ids=lambda path: path.name)
def test_the_file_of_a_host_names_servers_that_start(path: Path) -> None:
    library = Server("library")
    library.add_tool(lambda: "lent", name="lend")
    app = library.wsgi_app()
    with serving(app) as at, closing(app):
        servers = servers_in(path)
        servers["library"]["url"] = servers["library"]["url"].replace("8000", str(at.port))
        of_weights = {"options": ClientOptions(env=ENV)}
        with connect_all(servers, each=lambda name: of_weights if name == "weights" else {}) as host:
            assert not host.problems
            names = [tool["name"] for tool in host.list_tools()]
        assert names == ["weights.add", "weights.convert", "library.lend"]


@pytest.mark.parametrize("name", ["mcp.json", "vscode.json"])
def test_connect_all_reads_the_file_as_it_is(name: str) -> None:
    with connect_all(EXAMPLES / "config" / name) as host:
        assert set(host.problems) == {"weights", "library"}  # there is no /srv here, and none listens


def test_the_pages_on_hosts_and_the_inspector_name_files_that_there_are() -> None:
    for page in TASKS.glob("*.rst"):
        for path in re.findall(r"docs/[\w/.]+\.\w+", page.read_text()):
            assert Path(ROOT, path).exists(), path


# ------------------------------------------------------------------------------- agents

AGENTS = {"anthropic_loop": Anthropic, "openai_loop": OpenAI}


def ask(agent: str, vendor: Vendor, question: str = "What is 1 + 2?") -> subprocess.CompletedProcess[str]:
    """Have the example answer a question, with a model of ours."""
    with serving(vendor) as at:
        url = f"http://127.0.0.1:{at.port}"
        names = {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "key"}
        names |= {"OPENAI_BASE_URL": f"{url}/v1", "OPENAI_API_KEY": "key", "MODEL": "model"}
        script = EXAMPLES / "agents" / f"{agent}.py"
        command = [sys.executable, "-W", "error", script, EXAMPLES / "quickstart_server.py", question]
        return run(command, EXAMPLES, **names, PYTHONPATH=ROOT)


@pytest.fixture(autouse=True)
def _children_find_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", ROOT)


@pytest.mark.parametrize("agent", AGENTS)
def test_an_agent_calls_what_the_model_wants_and_gives_it_the_results(agent: str) -> None:
    vendor = AGENTS[agent](
        [("add", {"a": 1, "b": 2}), ("convert", {"kilos": -1})], [("nonsense", {})], "It is 3."
    )
    done = ask(agent, vendor)
    assert (done.stdout, done.stderr) == ("It is 3.\n", "")
    assert vendor.problems == []
    assert [name for name, _ in vendor.tools] == ["add", "convert"]
    (sum_of, wrong), (unknown,) = vendor.results
    assert sum_of == "3"
    assert "kilos" in wrong
    assert "Unknown tool: nonsense" in unknown


@pytest.mark.parametrize("agent", AGENTS)
@pytest.mark.parametrize("arguments", [[1], "x", 5])
def test_an_agent_tells_a_model_that_its_arguments_are_no_object(agent: str, arguments: Any) -> None:
    vendor = AGENTS[agent]([("add", arguments)], "Sorry.")
    done = ask(agent, vendor)
    assert (done.stdout, done.stderr) == ("Sorry.\n", "")
    ((told,),) = vendor.results
    assert f"arguments is a dict whose keys are strings, not {arguments!r}" in told


def test_an_agent_takes_an_empty_text_for_no_arguments_and_tells_of_broken_json() -> None:
    vendor = OpenAI([("add", Raw("")), ("add", Raw("{"))], "Sorry.")
    done = ask("openai_loop", vendor)
    assert (done.stdout, done.stderr) == ("Sorry.\n", "")
    ((empty, broken),) = vendor.results
    assert "Invalid arguments for add" in empty
    assert "Expecting property name" in broken


@pytest.mark.parametrize("agent", AGENTS)
def test_an_agent_gives_up_a_model_without_an_end(agent: str) -> None:
    vendor = AGENTS[agent](*[[("add", {"a": 1, "b": 2})]] * 30)
    assert "no answer after 20 rounds" in ask(agent, vendor).stderr
    assert len(vendor.results) == 19


@pytest.mark.parametrize("agent", AGENTS)
def test_an_agent_says_what_the_vendor_refused(agent: str) -> None:
    vendor = AGENTS[agent]("fine")
    vendor.key = "another"
    assert "401" in ask(agent, vendor).stderr


@pytest.mark.parametrize("agent", AGENTS)
def test_the_loop_has_twelve_lines(agent: str) -> None:
    text = (EXAMPLES / "agents" / f"{agent}.py").read_text()
    (loop,) = [node for node in ast.parse(text).body if getattr(node, "name", "") == "answer"]
    assert loop.end_lineno is not None
    assert loop.end_lineno - loop.lineno <= 12
    imported = set(re.findall(r"^(?:from|import) (\w+)", text, re.M))
    assert imported - sys.stdlib_module_names == {"mcp_ref", "requests"}
    assert set(re.findall(r"^(?:from|import) (mcp_ref\S*)", text, re.M)) == {"mcp_ref"}


# ---------------------------------------------------------------------------- notebooks


def cells() -> Iterator[ast.Module]:
    for text in re.split(r"^# %%.*$", (EXAMPLES / "notebook.py").read_text(), flags=re.M):
        yield ast.parse(text)


def test_the_cells_of_the_notebook_run_and_show_something() -> None:
    names: dict[str, Any] = {}
    shown = []
    with nothing_left():
        for cell in cells():
            last = cell.body[-1]
            is_shown = isinstance(last, ast.Expr) and not isinstance(last.value, ast.Constant)
            body = cell.body[:-1] if is_shown else cell.body
            exec(compile(ast.Module(body, []), "cell", "exec"), names)
            if isinstance(last, ast.Expr) and is_shown:
                shown.append(eval(compile(ast.Expression(last.value), "cell", "eval"), names))
    assert shown[:2] == [["temperatures"], 14.5]
    assert [list(found) for found in shown[2]] == [["Rome"], ["Kyiv"]]


def test_a_cell_that_runs_again_leaves_no_server_behind() -> None:
    command = [sys.executable, str(EXAMPLES / "quickstart_server.py")]
    with nothing_left(), pytest.warns(ResourceWarning, match="unclosed client"):
        for _ in range(3):
            client = connect(command, options=ClientOptions(env=ENV))
        assert client.call_tool("add", {"a": 1, "b": 2}).text == "3"
        client.close()


# --------------------------------------------------------------------- Flask and Django


def test_tools_run_within_the_context_of_a_flask_application(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(EXAMPLES / "web")
    module: Any = importlib.import_module("flask_context")
    sys.modules.pop("flask_context")
    for revision in "2025-11-25", "2026-07-28":
        with connect(module.server, revision=revision) as client:
            assert client.call_tool("price", {"article": "tea"}).text == "3 EUR"
            assert client.call_tool("caller").text == "this process"
    with (
        serving(module.app) as at,
        closing(module.mcp),
        connect(f"http://127.0.0.1:{at.port}/mcp") as client,
    ):
        assert client.call_tool("price", {"article": "bread"}).text == "5 EUR"
        assert client.call_tool("caller").text == "127.0.0.1"


SERVE_DJANGO = """
import django, sys
from werkzeug.serving import run_simple
from wsgi import application
from django.core.management import call_command
call_command("migrate", verbosity=0)
run_simple("127.0.0.1", int(sys.argv[1]), application, threaded=True)
"""


def test_a_django_project_with_a_server(tmp_path: Path) -> None:
    for path in (EXAMPLES / "web" / "django_site").glob("*.py"):
        shutil.copy(path, tmp_path)
    with contextlib.ExitStack() as running:
        port = running.enter_context(port_kept())
        command = [sys.executable, "-c", SERVE_DJANGO, str(port)]
        child = running.enter_context(
            subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
        )
        try:
            assert eventually(lambda: child.poll() is not None or listens(port))
            with connect(f"http://127.0.0.1:{port}/mcp", check=True) as client:
                client.call_tool("add_user", {"name": "ada"})
                assert client.call_tool("users", returns=list[str]) == ["ada"]
            home = requests.get(f"http://127.0.0.1:{port}/", timeout=PATIENCE)
            assert (home.status_code, home.text) == (200, '["ada"]')
        finally:
            child.terminate()
            said = child.communicate(timeout=PATIENCE)[1]
        assert "Traceback" not in said


def listens(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


# -------------------------------------------------------------------------- coming from

THERE = {"MCPServer": mcp.server.MCPServer, "Context": mcp.server.mcpserver.Context}
HERE = {"Server": Server, "Client": Client, "Context": Context}
ATTRIBUTES = {"Context": {"lifespan", "meta"}}
"""Names that only an instance has."""


def rows() -> list[tuple[str, str]]:
    text = (TASKS / "coming_from.rst").read_text()
    found = re.findall(r"^   - - (.*)\n     - (.*)$", text, re.M)
    assert len(found) > 30
    return [(there, here) for there, here in found[1:]]


def test_the_names_of_the_official_sdk_are_its_names() -> None:
    looked_at = 0
    for there, _ in rows():
        for kind, name in re.findall(r"`(MCPServer|Context|Client|ServerSession)\.(\w+)`", there):
            owner = THERE.get(kind) or getattr(mcp, kind)
            assert hasattr(owner, name), f"{kind}.{name}"
            looked_at += 1
        for name in re.findall(r"`(\w+Parameters|\w+Group|MCPError)\b", there):
            assert hasattr(mcp, name)
        for name in re.findall(r"`mcp\.(\w+)\(|`@mcp\.(\w+)\(", there):
            assert hasattr(mcp.server.MCPServer, "".join(name))
        for name in re.findall(r"`(\w+_callback)=`", there):
            known = {*inspect.signature(mcp.Client.__init__).parameters}
            known |= {*inspect.signature(mcp.Client.call_tool).parameters}
            assert name in known, name
    assert hasattr(mcp.server.mcpserver.exceptions, "ToolError")
    assert looked_at > 15


def test_the_names_of_this_package_are_its_names() -> None:
    parameters = {*inspect.signature(connect).parameters, *inspect.signature(Client.call_tool).parameters}
    parameters |= {*inspect.signature(Server.__init__).parameters}
    for _, here in rows():
        for kind, name in re.findall(r"`(Server|Context|Client)\.(\w+)`", here):
            known = hasattr(HERE[kind], name) or name in ATTRIBUTES.get(kind, ())
            assert known, f"{kind}.{name}"
        for name in re.findall(r"@?server\.(\w+)", here):
            assert hasattr(Server, name), name
        for name in re.findall(r"`(\w+)=(?:True)?`", here):
            if name not in ("sse_path",):
                assert name in parameters, name
        for name in re.findall(r"`(connect_all|McpError|ErrorResponse|ClientOptions)`", here):
            assert hasattr(mcp_ref, name)
    assert "sse_path" in mcp_ref.api.options.AppOptions.__annotations__
    ctx = {"lifespan", "meta"}
    assert ctx <= {*Context.__mro__[1].__slots__}  # type: ignore[attr-defined]
