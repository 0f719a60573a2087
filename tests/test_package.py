"""The package as a whole: what it exports, and the rules that hold for every module of it."""

import ast
import importlib
import inspect
import re
import subprocess
import sys
from concurrent.futures import Future
from pathlib import Path

import pytest

import mcp_ref
from mcp_ref import Client, Context, Result, Server, connect
from mcp_ref.api.results import PendingCall
from mcp_ref.basic.authorization.token_requests import BadAssertion
from mcp_ref.basic.transports.streamable_http.security import Refused
from mcp_ref.basic.utilities.tasks.protocol_messages import NoTask
from mcp_ref.extensions.dpop import InvalidProof, UseNonce
from mcp_ref.runtime.errors import WriteRefused
from mcp_ref.runtime.http_client.fetching import FetchError
from mcp_ref.runtime.http_server.reply import ClientLeft
from mcp_ref.runtime.jose import JoseError, JoseMissing, UnknownKey
from mcp_ref.runtime.stores.store import StoreFull
from mcp_ref.runtime.threads.outbox import Full
from mcp_ref.runtime.threads.places import NoPlace

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "mcp_ref"
FILES = sorted(PACKAGE.rglob("*.py"))
MODULES = [path for path in FILES if path.read_text(encoding="utf-8").strip()]


def dotted(path):
    name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
    return name.removesuffix(".__init__")


def tree(path):
    return ast.parse(path.read_text(encoding="utf-8"))


every = pytest.mark.parametrize("path", MODULES, ids=dotted)


# -- what is exported ------------------------------------------------------------------------------


def test_the_package_exports_what_it_says_and_nothing_by_accident():
    assert list(mcp_ref.__all__) == sorted(set(mcp_ref.__all__))
    public = {n for n, v in vars(mcp_ref).items() if not n.startswith("_") and not inspect.ismodule(v)}
    assert public | set(mcp_ref._LATE) == set(mcp_ref.__all__)
    for name in mcp_ref.__all__:
        found = getattr(mcp_ref, name)
        assert getattr(importlib.import_module(found.__module__), name) is found
        assert name in importlib.import_module(found.__module__).__all__
        assert found.__doc__, name


def test_what_is_loaded_late_is_listed_all_the_same():
    code = "import mcp_ref; print(set(mcp_ref.__all__) - set(dir(mcp_ref)), '__version__' in dir(mcp_ref))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout == "set() True\n"


def test_what_only_http_needs_is_not_loaded_with_the_package():
    assert loaded_with_the_package() & {"mcp_ref.basic.transports.streamable_http.security"} == set()
    with pytest.raises(AttributeError, match="no attribute 'Application'"):
        mcp_ref.Application  # noqa: B018


def test_stores_of_tasks_and_their_database_are_not_loaded_with_the_package():
    stores = {"mcp_ref.runtime.stores.memory", "mcp_ref.runtime.stores.sqlite", "sqlite3"}
    assert loaded_with_the_package() & stores == set()


def loaded_with_the_package():
    code = "import sys, mcp_ref; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert "mcp_ref" in done.stdout.split()
    return set(done.stdout.split())


def all_below(kind):
    """Every subclass, and theirs."""
    return {kind, *(found for child in kind.__subclasses__() for found in all_below(child))}


def test_every_error_that_a_client_raises_is_exported_and_has_one_base():
    for path in MODULES:
        if path.name != "__main__.py":
            importlib.import_module(dotted(path))
    sent_by_servers = all_below(mcp_ref.ProtocolError) | all_below(Refused)
    inner = {
        BadAssertion,
        Full,
        ClientLeft,
        InvalidProof,
        FetchError,
        JoseError,
        JoseMissing,
        NoPlace,
        NoTask,
        StoreFull,
        UnknownKey,
        UseNonce,
        WriteRefused,
    }  # a caller can make no more of it than of its base
    raised = {kind for kind in all_below(mcp_ref.McpError) if kind.__module__.startswith("mcp_ref.")}
    raised -= sent_by_servers | inner
    assert {kind.__name__ for kind in raised} - set(mcp_ref.__all__) == set()
    assert {"HttpError", "LocalError", "ErrorResponse"} <= {kind.__name__ for kind in raised}


def test_the_package_is_imported_without_its_http_libraries():
    """They take longer than all the rest; a client or server over stdio has no use for them."""
    said = (
        "import sys, mcp_ref; mcp_ref.HttpError; print({'requests', 'werkzeug', 'urllib3'} & {*sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", said], capture_output=True, text=True, timeout=60, cwd=ROOT)
    assert (done.stdout, done.stderr) == ("set()\n", "")


def test_the_version_is_one():
    assert re.fullmatch(r"\d+\.\d+\.\d+", mcp_ref.__version__)


@every
def test_every_module_says_what_it_exports_and_has_it(path):
    if path.name == "__main__.py" or (path.name == "__init__.py" and path.parent != PACKAGE):
        return  # a program; a folder
    module = importlib.import_module(dotted(path))
    names = module.__all__
    assert len(names) == len(set(names))
    for name in names:
        assert hasattr(module, name), name
        assert not name.startswith("_"), name


# -- the API that was promised ---------------------------------------------------------------------

PROMISED = {
    Server.__init__: "self name *version *instructions *lifespan *revisions",
    Server.tool: "self function",
    Server.add_tool: "self function",
    Server.remove_tool: "self name",
    Server.run: "self",
    Server.on_request: "self method *since *until",
    Server.on_notification: "self method",
    Server.around: "self hook",
    connect: "target *revision *timeout *on_log *on_notification *confirm *options",
    Client.list_tools: "self",
    Client.pages: "self method params",
    Client.call_tool: "self name arguments *timeout *on_progress",
    Client.submit: "self method params *timeout *on_progress",
    Client.request: "self method params *timeout *on_progress",
    Client.notify: "self method params",
    Client.ping: "self",
    Client.set_log_level: "self level",
    Client.on_request: "self method",
    Client.on_notification: "self method",
    Client.around: "self hook",
    Client.close: "self",
    Client.__enter__: "self",
    Client.__exit__: "self",
    Context.progress: "self progress total message",
    Context.log: "self level data logger",
    Context.elicit: "self message schema *timeout",
    Context.confirm: "self message *timeout",
}


@pytest.mark.parametrize(
    ("function", "words"), PROMISED.items(), ids=lambda v: getattr(v, "__qualname__", "")
)
def test_the_names_of_the_api_are_there_with_their_parameters(function, words):
    """A star stands before what is passed by name."""
    parameters = inspect.signature(function).parameters
    by_place = [n for n, p in parameters.items() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    by_name = {n for n, p in parameters.items() if p.kind is p.KEYWORD_ONLY}
    wanted = words.split()
    assert by_place[: len(wanted)] == [w for w in wanted if not w.startswith("*")]
    assert {w[1:] for w in wanted if w.startswith("*")} <= by_name


def test_what_a_client_knows_and_what_a_result_has_is_there():
    server = Server("api", version="1.0.0", instructions="Be kind.")

    @server.tool
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    with connect(server) as client:
        assert client.revision.date == "2026-07-28"
        assert client.server_info == {"name": "api", "version": "1.0.0"}
        assert client.server_capabilities
        assert client.instructions == "Be kind."
        result = client.call_tool("add", {"a": 1, "b": 2}, timeout=10, on_progress=print)
        assert (result.text, result.structured, result.is_error) == ("3", {"result": 3}, False)
        assert isinstance(result, Result)
        assert isinstance(result, dict)
        assert issubclass(PendingCall, Future)


# -- rules for every module ------------------------------------------------------------------------


@every
def test_nothing_in_the_package_is_asynchronous(path):
    for node in ast.walk(tree(path)):
        assert not isinstance(node, ast.AsyncFunctionDef | ast.Await | ast.AsyncFor | ast.AsyncWith), (
            node.lineno
        )
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        assert not {name.partition(".")[0] for name in names} & {"asyncio", "anyio", "trio", "curio"}


@every
def test_every_module_opens_with_what_it_is(path):
    assert ast.get_docstring(tree(path)), path


@every
def test_nobody_opens_a_socket_or_a_thread_in_a_page_of_the_specification(path):
    """Outside transports, runtime, the connection and the two roles' own modules."""
    opens = {"socket", "subprocess", "select"}
    within = path.relative_to(PACKAGE).as_posix()
    if within.startswith(("basic/transports/", "runtime/", "cli/")):
        return
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            assert not {alias.name for alias in node.names} & opens, within


# -- the three trees -------------------------------------------------------------------------------

WITH_TESTS = sorted(
    path.relative_to(PACKAGE).with_suffix("").as_posix()
    for path in FILES
    if path.parent != PACKAGE and path.name not in ("__init__.py", "__main__.py")
)


@pytest.mark.parametrize("module", WITH_TESTS)
def test_every_module_has_its_tests(module):
    folder, _, name = module.rpartition("/")
    assert (ROOT / "tests" / folder / f"test_{name}.py").is_file()


def test_no_tests_are_about_a_module_that_there_is_not():
    odd = []
    for folder in ("basic", "server", "client", "api", "runtime", "cli", "extras", "examples"):
        for path in (ROOT / "tests" / folder).rglob("test_*.py"):
            module = path.relative_to(ROOT / "tests").with_name(path.name.removeprefix("test_"))
            of_package = module.with_suffix("").name == module.parent.name
            if not (PACKAGE / (module.parent / "__init__.py" if of_package else module)).is_file():
                odd.append(path)
    assert odd == [ROOT / "tests/cli/test_over_http.py"]  # the command as a whole
