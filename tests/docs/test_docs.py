"""The docs say what is so: their tree is the package's, and every sample on them is run by a test."""

import ast
import doctest
import importlib
import inspect
import itertools
import re
import sys
import textwrap
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from http_peers import endpoint

from mcp_ref import Server, connect
from mcp_ref.runtime.threads.workers import Workers

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(p for p in DOCS.rglob("*.rst") if "_build" not in p.parts)
README = ROOT / "README.rst"
SHELL = {
    "make demo",
    "make demo-auth",
    "make test",
    "python3 -m venv .venv",
    ".venv/bin/python -m pip install .",
    "python -m mcp_ref.examples",
    "python -m mcp_ref.examples echo",
    "python docs/examples/wire.py python docs/examples/quickstart_server.py",
    "mcp-ref serve docs/examples/quickstart_server.py --http 8000",
    "mcp-ref call add a=1 b=2 http://127.0.0.1:8000/mcp",
    'mcp-ref call query "sql=select 1" -- python docs/examples/sqlite_server.py library.db',
}
"""Commands on the pages: those of the Makefile, and what tests/docs/test_examples.py, tests/examples do."""


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def directives(text: str, kind: str) -> Iterator[tuple[str, str]]:
    """The argument and the body of each directive of a kind."""
    for found in re.finditer(rf"^( *)\.\. {kind}::(.*)\n((?:\1[ \t]+.*\n|[ \t]*\n)*)", text + "\n", re.M):
        lines = [line.removeprefix(found[1]) for line in found[3].splitlines()]
        body = [line for line in lines if not re.match(r"\s+:\w[\w-]*:", line)]
        yield (
            found[2].strip(),
            "\n".join(line[4:] if line.startswith("    ") else line.strip() for line in body),
        )


# ------------------------------------------------------------------------- the tree


PACKAGE = ROOT / "mcp_ref"
SECTIONS = {PACKAGE / part for part in ("basic", "basic/authorization", "basic/patterns")}
SECTIONS |= {PACKAGE / part for part in ("basic/transports", "basic/utilities")}
SECTIONS |= {PACKAGE / part for part in ("server", "server/utilities", "client", "extensions")}


def dotted(path: Path) -> str:
    """The module's full name."""
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def pages_of_the_specification() -> dict[str, set[str]]:
    """The modules of each page: one, or those of a package."""
    found: dict[str, set[str]] = {}
    for section in SECTIONS:
        for path in section.rglob("*.py"):
            if path.parent in SECTIONS and path.name == "__init__.py":
                continue
            page = path.with_suffix("") if path.parent in SECTIONS else path.parent
            found.setdefault(str(page.relative_to(PACKAGE)), set()).add(dotted(path))
    return found


def test_the_docs_have_the_tree_of_the_specification() -> None:
    pages = {
        str(path.relative_to(DOCS).with_suffix(""))
        for part in ("basic", "server", "client", "extensions")
        for path in (DOCS / part).rglob("*.rst")
    }
    assert pages == set(pages_of_the_specification())


@pytest.mark.parametrize(("page", "modules"), sorted(pages_of_the_specification().items()))
def test_a_page_shows_its_modules(page: str, modules: set[str]) -> None:
    shown = [module for module, _ in directives((DOCS / f"{page}.rst").read_text(), "automodule")]
    assert len(shown) == len(set(shown))
    assert modules == set(shown) | ({f"mcp_ref.{page.replace('/', '.')}"} & modules)


@pytest.mark.parametrize("part", ["api", "extras"])
def test_every_module_that_is_no_page_is_shown(part: str) -> None:
    texts = [path.read_text() for path in [*(DOCS / part).rglob("*.rst"), *DOCS.glob("*.rst")]]
    shown = {module for text in texts for module, _ in directives(text, "automodule")}
    modules = {dotted(path) for path in (PACKAGE / part).rglob("*.py") if path.name != "__init__.py"}
    assert modules <= shown


def test_every_page_is_in_the_table_of_contents() -> None:
    listed = " ".join(body for _, body in directives((DOCS / "index.rst").read_text(), "toctree")).split()
    pages = {str(p.relative_to(DOCS).with_suffix("")) for p in PAGES} - {"index", "bench_table"}
    assert pages == {word for word in listed if not word.startswith(":")} & pages


def test_the_first_page_says_what_server_and_client_are() -> None:
    said = " ".join((DOCS / "index.rst").read_text().split())
    assert "`server/` and `client/` are **sections of the specification**" in said
    assert "not roles" in said


def test_every_module_of_runtime_is_shown() -> None:
    shown = {argument for argument, _ in directives((DOCS / "runtime.rst").read_text(), "automodule")}
    assert shown == {dotted(path) for path in (PACKAGE / "runtime").rglob("*.py")}


def test_the_reference_names_all_that_the_package_exports() -> None:
    import mcp_ref

    text = (DOCS / "reference.rst").read_text()
    named = dict(re.findall(r":(?:class|func):`(\w+) <(mcp_ref[\w.]+)>`", text))
    assert set(named) == set(mcp_ref.__all__)
    for public, path in named.items():
        module, _, attribute = path.rpartition(".")
        assert getattr(importlib.import_module(module), attribute) is getattr(mcp_ref, public)


def figure(documented: object) -> str:
    """The first sample of a docstring, which stands before everything that explains."""
    first, sample = (inspect.getdoc(documented) or "").split("\n\n", 1)
    assert "\n" not in first
    lines = itertools.takewhile(lambda line: not line or line.startswith("    "), sample.splitlines())
    return textwrap.dedent("\n".join(lines))


def test_the_docstring_of_connect_begins_with_its_everyday_use() -> None:
    body = ast.parse(figure(connect)).body
    block, *calls = body
    assert isinstance(block, ast.With)
    found = [block.items[0].context_expr, *(call.value for call in calls if isinstance(call, ast.Expr))]
    assert len(found) == len(body)
    parameters = inspect.signature(connect)
    for call in found:
        assert isinstance(call, ast.Call)
        assert ast.unparse(call.func) == "connect"
        parameters.bind(*call.args, **{str(keyword.arg): keyword.value for keyword in call.keywords})


def test_the_docstring_of_a_server_begins_with_its_everyday_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sample = figure(Server)
    code = sample[: sample.index("server.run()")]
    assert 'server.run("http")' in sample
    assert "server.wsgi_app()" in sample
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a").write_text("milk")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"Server": Server, "Path": Path}
    exec(code, names)
    with connect(names["server"]) as client:
        assert client.call_tool("add", {"a": 1, "b": 2}).text == "3"
        assert client.list_tools()[0]["description"] == "Add two numbers."
        assert client.read_resource("notes://a").text == "milk"


# ---------------------------------------------------------------------- the samples


@pytest.mark.parametrize("page", [*PAGES, README], ids=name)
def test_every_sample_is_a_file_that_a_test_runs(page: Path) -> None:
    text = page.read_text()
    for included, _ in directives(text, "literalinclude"):
        path = (page.parent / included).resolve()
        assert path.is_file(), included
        assert (DOCS / "examples") in path.parents or (ROOT / "mcp_ref") in path.parents
    for language, body in directives(text, "code-block"):
        if language == "shell":
            lines = [line.partition("#")[0].strip() for line in body.splitlines()]
            assert {line for line in lines if line} <= SHELL
        else:
            assert (page, language) == (README, "python")
    assert "```" not in text


def test_literal_blocks_are_drawings_and_not_code() -> None:
    """What stands behind `::` is an exchange of messages or a tree, nothing that could be run."""
    for page in PAGES:
        for block in re.findall(r"^::\n\n((?: +.*\n|\n)+)", page.read_text(), re.M):
            assert not re.search(r"^\s*(import|from|def|with|@|python|pip)\b", block, re.M), block


@pytest.mark.parametrize("page", [p for p in PAGES if ">>> " in p.read_text()], ids=name)
def test_doctests_on_pages(page: Path) -> None:
    failed, tried = doctest.testfile(str(page), module_relative=False)
    assert (failed, tried > 0) == (0, True)


@pytest.mark.parametrize(
    "module",
    [p for p in (ROOT / "mcp_ref").rglob("*.py") if re.search(r"^\s*>>> ", p.read_text(), re.M)],
    ids=name,
)
def test_doctests_in_modules(module: Path) -> None:
    dotted = name(module.with_suffix("")).replace("/", ".")
    failed, tried = doctest.testmod(importlib.import_module(dotted))
    assert (failed, tried > 0) == (0, True)


def test_every_example_is_on_a_page() -> None:
    included = {
        (page.parent / path).resolve()
        for page in PAGES
        for path, _ in directives(page.read_text(), "literalinclude")
    }
    for out in (DOCS / "examples").glob("*.out"):
        assert out in included, out.name


# ----------------------------------------------------------------------------- README


def test_readme_shows_the_two_commands() -> None:
    makefile = (ROOT / "Makefile").read_text()
    commands = [
        body for language, body in directives(README.read_text(), "code-block") if language == "shell"
    ]
    for target in ("demo", "test"):
        assert re.search(rf"^make {target}\b", commands[0], re.M)
        assert re.search(rf"^{target}:", makefile, re.M)


def test_readme_shows_the_example_that_is_run() -> None:
    samples = [
        b.strip() for language, b in directives(README.read_text(), "code-block") if language == "python"
    ]
    files = [
        (DOCS / "examples" / "readme" / f"{part}.py").read_text().strip()
        for part in ("server", "client", "http_server", "http_client", "booking")
    ]
    assert samples == files
    for part in ("client", "http_client"):
        for printed in (DOCS / "examples" / "readme" / f"{part}.out").read_text().splitlines():
            assert f"``{printed}``" in README.read_text()


def test_readme_names_files_that_exist() -> None:
    for path in re.findall(r"``((?:docs|mcp_ref)/[\w/.]+\.\w+)``", README.read_text()):
        assert (ROOT / path).is_file(), path


# ----------------------------------------------------------------- the way of a call


def hops(which: str = "hops") -> list[str]:
    """The functions that docs/architecture.rst names, in order."""
    text = (DOCS / "architecture.rst").read_text()
    part = text[text.index(f".. {which}:") : text.index(f".. end of {which}\n")]
    return re.findall(r"^\d+\. `(mcp_ref[\w.]+)`", part, re.M)


def frames(frame: types.FrameType | None) -> list[str]:
    """The stack from its bottom to here, the functions of the package only."""
    names = []
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if module.startswith("mcp_ref"):
            names.append(f"{module}.{frame.f_code.co_qualname}")
        frame = frame.f_back
    return names[::-1]


@pytest.mark.parametrize("which", ["hops", "hops over HTTP"])
def test_the_hops_are_at_most_eight(which: str) -> None:
    assert 0 < len(hops(which)) <= 8


def test_the_hops_exist() -> None:
    for hop in hops():
        parts = hop.split(".")
        module = max(n for n in range(1, len(parts)) if ".".join(parts[:n]) in sys.modules)
        found = sys.modules[".".join(parts[:module])]
        for part in parts[module:]:
            found = getattr(found, part)
        assert callable(found)


@pytest.mark.parametrize("revision", ["2024-11-05", "2026-07-28"])
def test_the_hops_are_the_stack_of_a_call(revision: str, monkeypatch: pytest.MonkeyPatch) -> None:
    server, stacks = look_at_stacks(monkeypatch)
    with connect(server, revision=revision) as client:
        assert not client.call_tool("look").is_error
    assert stack_from(hops()[0], stacks) == hops()


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_the_hops_over_http_are_the_stack_of_a_call(revision: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same in both eras, and for the first call: no history decides on the thread."""
    expected = hops("hops over HTTP")
    server, stacks = look_at_stacks(monkeypatch)
    with endpoint(server) as at, connect(f"http://127.0.0.1:{at.port}/mcp", revision=revision) as client:
        for _ in range(3):
            assert not client.call_tool("look").is_error
            stack = stacks.pop("worker")
            assert stack[stack.index(expected[0]) :] == expected
    assert not stacks  # nothing was handed to a worker


def look_at_stacks(monkeypatch: pytest.MonkeyPatch) -> tuple[Server, dict[str, list[str]]]:
    """A tool looks at its own stack; the reader's is looked at where it hands the call to a worker."""
    server = Server("hops")
    stacks: dict[str, list[str]] = {}

    @server.tool
    def look() -> None:
        stacks["worker"] = frames(sys._getframe().f_back)

    submit = Workers.submit

    def seen(self: Workers, run: object, argument: object, **more: object) -> object:
        if getattr(argument, "method", None) == "tools/call":
            stacks["reader"] = frames(sys._getframe().f_back)
        return submit(self, run, argument, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(Workers, "submit", seen)
    return server, stacks


def stack_from(first: str, stacks: dict[str, list[str]]) -> list[str]:
    """From the wire to the tool; below it is the transport's thread."""
    return [*stacks["reader"][stacks["reader"].index(first) :], *stacks["worker"]]


def test_the_table_of_threads_names_every_thread_of_the_package() -> None:
    text = (DOCS / "architecture.rst").read_text()
    sources = "\n".join(p.read_text() for p in (ROOT / "mcp_ref").rglob("*.py"))
    started = re.findall(r'[("=, ]f?"(mcp_ref [a-z ]+?)(?: \{|")', sources)
    assert set(started) >= {"mcp_ref reader", "mcp_ref worker", "mcp_ref stderr"}
    for thread in started:
        if thread != "mcp_ref request":  # a variable of contextvars, not a thread
            assert f"`{thread}" in text, thread
