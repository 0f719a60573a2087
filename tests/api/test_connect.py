"""`connect`: what it takes, what it refuses before anything is started, and what it leaves behind."""

import contextlib
import gc
import re
import sys
import threading
import weakref
from pathlib import Path

import pytest
from choices import for_connect, for_server
from peers import (
    ENV,
    LEGACY,
    MODERN,
    PATIENCE,
    REVISIONS,
    Notes,
    eventually,
    nothing_left,
    python,
    raw_server,
    source,
)
from web import opened, text, web

from mcp_ref import (
    Cache,
    ClientOptions,
    ConnectionClosed,
    ErrorResponse,
    McpError,
    RequestTimeout,
    Server,
    ServerOptions,
    connect,
)
from mcp_ref.api import connect as connecting
from mcp_ref.basic.transports.stdio.backward_compatibility import KnownEras
from mcp_ref.basic.versioning import Era
from mcp_ref.runtime.errors import LocalError

ECHO = source("""
    @server.tool
    def echo(said: str) -> str:
        return said
""")


def echo_server(**options):
    server = Server("echo", version="3", **for_server(options))
    server.add_tool(lambda said: said, name="echo")
    return server


# -- what it takes ---------------------------------------------------------------------------------


@pytest.mark.parametrize("date", REVISIONS)
def test_a_command_is_started_and_spoken_to(date):
    with nothing_left(), connect(python(ECHO), revision=date, options=ClientOptions(env=ENV)) as client:
        assert client.revision.date == date
        assert client.server_info["name"] == "raw tests"
        assert client.call_tool("echo", {"said": "ü"}).text == "ü"


@pytest.mark.parametrize("date", REVISIONS)
def test_a_server_of_this_process_is_spoken_to_in_memory(date):
    with nothing_left(), connect(echo_server(), revision=date) as client:
        assert client.revision.date == date
        assert client.server_info == {"name": "echo", "version": "3"}
        assert client.call_tool("echo", {"said": "x"}).text == "x"


@pytest.mark.parametrize("make", [list, tuple])
def test_a_command_may_hold_paths(make, tmp_path):
    program = tmp_path / "server.py"
    program.write_text(ECHO)
    with connect(make([sys.executable, program]), options=ClientOptions(env=ENV, cwd=tmp_path)) as client:
        assert client.call_tool("echo", {"said": "x"}).text == "x"


def test_what_people_have_is_connected_to(tmp_path, monkeypatch):
    """The rest is in test_targets."""
    (tmp_path / "server.py").write_text(ECHO)
    monkeypatch.chdir(tmp_path)
    command = f"{sys.executable} 'server.py'"
    entry = {"command": sys.executable, "args": ["server.py"], "env": ENV}
    for target in ("server.py", Path("server.py"), command, entry):
        with nothing_left(), connect(target, options=ClientOptions(env=ENV)) as client:
            assert client.call_tool("echo", {"said": "x"}).text == "x"
    with web(opened(says_hello)) as site:
        for where in (site.url.removeprefix("http://"), {"url": site.url, "headers": {"X-Entry": "1"}}):
            with connect(where) as client:
                assert client.call_tool("a").text == "hello"
        assert site.requests[-1].headers["x-entry"] == "1"


@pytest.mark.parametrize(
    ("server", "client", "agreed"),
    [
        (REVISIONS, REVISIONS, MODERN),
        (LEGACY, REVISIONS, LEGACY[-1]),
        (REVISIONS, LEGACY, LEGACY[-1]),
        (LEGACY[:2], REVISIONS, LEGACY[1]),
        ([MODERN], REVISIONS, MODERN),
        (REVISIONS, LEGACY[:1], LEGACY[0]),
        (REVISIONS, [MODERN], MODERN),
    ],
)
def test_without_a_revision_the_newest_that_both_know_is_used(server, client, agreed):
    with connect(echo_server(revisions=server), options=ClientOptions(revisions=client)) as connected:
        assert connected.revision.date == agreed
        assert connected.call_tool("echo", {"said": "x"}).text == "x"


def test_the_server_is_told_who_connects():
    told = []
    server = echo_server()

    @server.around
    def who(ctx, params, proceed):
        told.append((ctx.client_info, ctx.client_capabilities))
        return proceed(params)

    options = {"name": "me", "version": "9", "title": "Me", "experimental": {"odd": {}}}
    with connect(
        server, **for_connect(revision=MODERN, extensions={"com.example/x": {"a": 1}}, **options)
    ) as client:
        client.list_tools()
    assert told[-1] == (
        {"name": "me", "version": "9", "title": "Me"},
        {
            "experimental": {"odd": {}},
            "extensions": {"com.example/x": {"a": 1}},
        },
    )
    with connect(
        server, **for_connect(revision=LEGACY[0], extensions={"com.example/x": {"a": 1}}, **options)
    ) as client:
        client.list_tools()
    assert told[-1] == ({"name": "me", "version": "9"}, {"experimental": {"odd": {}}})


# -- what it refuses -------------------------------------------------------------------------------


@pytest.mark.parametrize("option", [{"env": {}}, {"cwd": "/"}, {"on_stderr": print}])
def test_what_is_for_a_command_is_refused_with_a_url(option):
    with nothing_left(), pytest.raises(TypeError, match="for a command, not for a URL"):
        connect("http://127.0.0.1:1/mcp", **for_connect(**option))


@pytest.mark.parametrize("option", [{"env": {}}, {"cwd": "/"}])
def test_what_is_for_another_process_is_refused_with_a_server(option):
    with nothing_left(), pytest.raises(TypeError, match="for a command, not for a Server"):
        connect(Server("here"), **for_connect(**option))


@pytest.mark.parametrize("option", [{"headers": {}}, {"session": object()}])
def test_what_is_for_a_url_is_refused_without_one(option):
    with nothing_left(), pytest.raises(TypeError, match="for a URL"):
        connect(["python"], **for_connect(**option))


def test_a_program_that_there_is_not_is_named_with_the_whole_command():
    with nothing_left(), pytest.raises(LocalError) as problem:
        connect(["no-such-program-at-all", "--port", "1", "two words"])
    assert "cannot start no-such-program-at-all --port 1 'two words': [Errno 2]" in str(problem.value)


def test_a_script_that_is_no_program_is_refused_with_the_line_that_connects(tmp_path, monkeypatch):
    (tmp_path / "server.py").write_text(ECHO)
    monkeypatch.chdir(tmp_path)
    for command in (["server.py"], ["./server.py"]):
        with nothing_left(), pytest.raises(LocalError) as problem:
            connect(command)
        line = re.search(r"; write (connect\(.*\))$", str(problem.value))
        right = eval(line[1], {"connect": lambda target: target, "sys": sys})
        with nothing_left(), connect(right, options=ClientOptions(env=ENV)) as client:
            assert client.call_tool("echo", {"said": "x"}).text == "x"


def test_a_child_that_ends_at_once_is_named_with_the_whole_command():
    """An interpreter that does not find its script starts, and says nothing of which server it was to be."""
    with nothing_left(), pytest.raises(ConnectionClosed) as problem:
        connect(
            [sys.executable, "no-such-script.py", "two words"],
            options=ClientOptions(on_stderr=lambda line: None),
        )
    command = f"{sys.executable} no-such-script.py 'two words'"
    assert str(problem.value).startswith(f"the server {command} exited with code 2; it said last:")


def test_a_command_that_holds_a_program_is_named_on_one_line_and_shortened():
    with nothing_left(), pytest.raises(ConnectionClosed) as problem:
        connect([sys.executable, "-c", "import sys\nsys.exit(3)\n" + "# a long program\n" * 100])
    said = str(problem.value)
    assert "import sys\\nsys.exit(3)" in said
    assert said.endswith(" exited with code 3")
    assert len(said) < 1100


TALKS = """
import sys, time
print('a banner', flush=True)
print('warming up', file=sys.stderr, flush=True)
{then}
"""
BANNER = "; it wrote to stdout, which is for messages alone:\n  a banner"


@contextlib.contextmanager
def silent_until(*said, is_over=False):
    """Clients of the block send nothing before their child has said these lines, or its output is over.

    So no time-out of a request covers the start of the child, which takes as long as the machine pleases.
    """

    def wait(client):
        line = client.asker.line
        assert eventually(lambda: all(f"\n  {text}" in line.link.silence() for text in said))
        assert eventually(lambda: line.connection.failure is not None or not is_over)

    before = connecting.begun.set(wait)
    try:
        yield
    finally:
        connecting.begun.reset(before)


@pytest.mark.parametrize("revision", [None, "2025-11-25", MODERN])
def test_a_child_that_does_not_answer_in_time_is_named_with_what_it_said(revision):
    script = TALKS.format(then="time.sleep(60)")
    said = r"did not answer .* within|no answer within"
    heard = silent_until("warming up", "a banner")
    with nothing_left(), heard, pytest.raises(RequestTimeout, match=said) as problem:
        options = ClientOptions(on_stderr=lambda line: None, grace=0.1)
        connect([sys.executable, "-c", script, "two words"], revision=revision, timeout=0.1, options=options)
    told = str(problem.value)
    assert "'two words' is running; it said last:\n  warming up" in told
    assert told.endswith(BANNER)


def test_a_child_that_ends_is_named_with_what_it_wrote_to_stdout():
    with nothing_left(), pytest.raises(ConnectionClosed) as problem:
        options = ClientOptions(on_stderr=lambda line: None)
        connect([sys.executable, "-c", TALKS.format(then="sys.exit(2)")], options=options)
    assert str(problem.value).endswith(f" exited with code 2; it said last:\n  warming up{BANNER}")


@pytest.mark.parametrize("line", ['{"event": "cannot open database"}', "[]", '{"a":1}', "42", '["jsonrpc'])
@pytest.mark.parametrize(
    ("then", "timeout", "kind"),
    [("sys.exit(1)", PATIENCE, ConnectionClosed), ("time.sleep(60)", 0.1, RequestTimeout)],
    ids=["it ends", "it stays"],
)
def test_what_a_child_writes_to_stdout_and_is_no_message_is_shown_and_logged_though_it_is_json(
    line, then, timeout, kind, caplog
):
    caplog.set_level("INFO", "mcp_ref.stdio")
    script = f"import sys, time\nprint({line!r}, flush=True)\n{then}"
    with nothing_left(), silent_until(line, is_over=kind is ConnectionClosed), pytest.raises(kind) as problem:
        options = ClientOptions(on_stderr=lambda line: None, grace=0.1)
        connect([sys.executable, "-c", script], revision=MODERN, timeout=timeout, options=options)
    assert str(problem.value).endswith(f"; it wrote to stdout, which is for messages alone:\n  {line}")
    assert f"what is no message: {line.encode()!r}" in caplog.text


def test_a_folder_that_there_is_not_is_an_error(tmp_path):
    where = str(tmp_path / "nowhere")
    with nothing_left(), pytest.raises(LocalError, match=f"^cwd: there is no folder '{re.escape(where)}'$"):
        connect(python(ECHO), options=ClientOptions(cwd=tmp_path / "nowhere"))
    with nothing_left(), pytest.raises(LocalError, match="cwd: there is no folder"):
        connect({"command": "run", "cwd": where})


@pytest.mark.parametrize("name", ["env", "cwd", "session", "draft_headers"])
def test_an_option_that_few_need_is_refused_as_a_keyword_with_the_line_to_write(name):
    said = rf"^connect got an unexpected .* '{name}'; write options=ClientOptions\({name}=\.\.\.\)$"
    with nothing_left(), pytest.raises(TypeError, match=said):
        connect(["no-such-program-at-all"], **{name: None})
    with pytest.raises(
        TypeError, match=r"^connect got an unexpected .* 'tiemout'; there are revision, timeout, "
    ):
        connect(["no-such-program-at-all"], tiemout=5)


@pytest.mark.parametrize("date", ["2024-01-01", "latest", ""])
def test_an_unknown_revision_is_refused_before_anything_is_started(date):
    with nothing_left(), pytest.raises(ValueError, match="2026-07-28"):
        connect(["no-such-program-at-all"], revision=date)


@pytest.mark.parametrize("odd", [5, False, b"2025-11-25", ["2025-11-25"]])
def test_a_revision_that_is_no_text_is_refused_by_name(odd):
    said = f"^revision is a string, not {re.escape(repr(odd))}$"
    with nothing_left(), pytest.raises(TypeError, match=said):
        connect(["no-such-program-at-all"], revision=odd)


def test_one_unknown_revision_among_others_is_refused_as_well():
    with nothing_left(), pytest.raises(ValueError, match="2024-01-01"):
        connect(["no-such-program-at-all"], options=ClientOptions(revisions=["2024-01-01", MODERN]))


@pytest.mark.parametrize("extensions", [{"noprefix": {}}, {"com.example/x": True}, {"/x": {}}])
def test_an_extension_that_is_none_is_refused_before_anything_is_started(extensions):
    with nothing_left(), pytest.raises(ValueError, match=r"extension|settings"):
        connect(["no-such-program-at-all"], options=ClientOptions(extensions=extensions))


@pytest.mark.parametrize(
    ("server", "wanted"), [(LEGACY, MODERN), ([MODERN], LEGACY[1]), (LEGACY[:1], LEGACY[2])]
)
def test_a_revision_that_the_server_does_not_speak_is_an_error(server, wanted):
    with nothing_left(), pytest.raises(McpError):
        connect(echo_server(revisions=server), revision=wanted, timeout=5)


@pytest.mark.parametrize(("server", "client"), [(LEGACY[:2], LEGACY[2:4]), ([MODERN], LEGACY)])
def test_nothing_in_common_is_an_error(server, client):
    with nothing_left(), pytest.raises(McpError):
        connect(echo_server(revisions=server), timeout=5, options=ClientOptions(revisions=client))


def test_a_child_that_says_nothing_is_given_up_in_time_and_ended():
    with nothing_left(), pytest.raises(RequestTimeout):
        connect(raw_server("receive('never')"), timeout=0.2, options=ClientOptions(on_stderr=Notes()))


def test_a_child_that_ends_at_once_is_told_with_its_last_words():
    with nothing_left(), pytest.raises(ConnectionClosed, match=r"(?s)code 3.*no license"):
        connect(
            raw_server("os.write(2, b'no license')\nsys.exit(3)"), options=ClientOptions(on_stderr=Notes())
        )


def test_an_initialize_that_is_refused_is_the_reason():
    script = """
        while True:
            error(receive(), -32603, "closed on Sundays")
    """
    with nothing_left(), pytest.raises(ErrorResponse, match="closed on Sundays"):
        connect(raw_server(script), options=ClientOptions(on_stderr=Notes()))


@pytest.mark.spec("basic/transports/stdio/probe-legacy-fallback")
@pytest.mark.parametrize("revisions", [REVISIONS, [LEGACY[0], MODERN]], ids=["all", "one of each era"])
def test_a_legacy_server_that_dies_of_the_probe_is_started_again(revisions):
    """Some end themselves when anything comes before initialize: the second child is not probed."""
    script = """
        first = receive()
        if first["method"] != "initialize":
            sys.exit(1)
        answer(first, {"protocolVersion": "2024-11-05", "capabilities": ABLE, "serverInfo": INFO})
        go_on(text("after all"))
    """
    notes = Notes()
    options = ClientOptions(on_stderr=notes, revisions=revisions)
    with nothing_left(), connect(raw_server(script), options=options) as client:
        assert client.revision.date == "2024-11-05"
        assert client.call_tool("x").text == "after all"
        notes.message("tools/call")
        assert [note["method"] for note in notes.all[:2]] == ["server/discover", "initialize"]


def test_a_server_that_dies_of_the_probe_is_not_started_again_for_a_modern_client():
    notes = Notes()
    for options in ({"revision": MODERN}, {"revisions": [MODERN]}):
        with nothing_left(), pytest.raises(ConnectionClosed):
            connect(raw_server("receive()\nsys.exit(1)"), **for_connect(on_stderr=notes, **options))
    assert eventually(lambda: len(notes.all) == 2)


# -- what it leaves behind -------------------------------------------------------------------------


OPEN = Path("/proc/self/fd")


def descriptors():
    """How many files this process has open; where there is no such list, 0 before and after."""
    return len(list(OPEN.iterdir())) if OPEN.is_dir() else 0


@pytest.mark.parametrize("where", ["memory", "child"])
def test_twenty_connections_leave_no_thread_no_child_and_no_descriptor(where):
    cycles = 20
    target = echo_server() if where == "memory" else raw_server("open_modern()\ngo_on(text('x'))")
    with connect(target, options=ClientOptions(on_stderr=Notes())) as client:
        client.call_tool("echo", {"said": "x"})  # what is opened once and kept is open now
    threads = threading.active_count()
    before = descriptors()
    with nothing_left():
        for _ in range(cycles):
            with connect(target, options=ClientOptions(on_stderr=Notes())) as client:
                client.submit("tools/call", {"name": "echo", "arguments": {"said": "x"}})
                client.call_tool("echo", {"said": "x"})
    assert eventually(lambda: descriptors() <= before), f"{before} descriptors before, {descriptors()} now"
    assert threading.active_count() <= threads + 1  # the thread of the timers, see runtime/threads/timers


def test_a_connection_that_fails_leaves_nothing_either():
    before = descriptors()
    with nothing_left():
        for _ in range(5):
            with pytest.raises(McpError):
                connect(raw_server("sys.exit(2)"), options=ClientOptions(on_stderr=Notes()))
            with pytest.raises(McpError):
                connect(echo_server(revisions=LEGACY), revision=MODERN)
            with pytest.raises(LocalError):
                connect(["no-such-program-at-all"])
    assert eventually(lambda: descriptors() <= before)


# -- caches and callbacks: what an auditor found ---------------------------------------------------


def counting(reads):
    server = Server("counting", options=ServerOptions(ttl_ms=60_000, cache_scope="public"))

    @server.resource("config://app")
    def config() -> str:
        reads.append(1)
        return f"read {len(reads)} times"

    return server


def test_a_shared_cache_is_used_although_it_is_empty_at_first():
    reads, cache = [], Cache()
    server = counting(reads)
    for _ in range(2):
        with connect(server, cache=cache) as client:
            assert client.read_resource("config://app").text == "read 1 times"
    assert len(cache) >= 1


@pytest.mark.spec("server/utilities/caching/scope-private-not-shared")
def test_private_results_are_a_principals_own_in_a_shared_cache():
    reads, cache = [], Cache()
    server = counting(reads)
    server.serving.hints["resources/read"] = {"ttlMs": 60_000, "cacheScope": "private"}
    said = []
    for principal in ("alice", "bob", "alice", None, None):
        with connect(server, cache=cache, options=ClientOptions(principal=principal)) as client:
            said.append(client.read_resource("config://app").text)
    assert said == [f"read {n} times" for n in (1, 2, 1, 3, 4)]


def test_servers_that_differ_in_folder_or_environment_share_nothing(tmp_path):
    script = """
        import os

        @server.resource("where://i/am")
        def where() -> str:
            return os.getcwd() + os.environ.get("TOKEN", "")
    """
    command, cache = (
        python(source(script, options="options=ServerOptions(ttl_ms=60000, cache_scope='public')")),
        Cache(),
    )
    said = set()
    for folder, token in (("a", "1"), ("b", "1"), ("b", "2")):
        (tmp_path / folder).mkdir(exist_ok=True)
        with connect(
            command, cache=cache, options=ClientOptions(cwd=tmp_path / folder, env={**ENV, "TOKEN": token})
        ) as client:
            said.add(client.read_resource("where://i/am").text)
    assert len(said) == 3


@pytest.mark.parametrize("cache", [1, "x", {}])
def test_what_is_no_cache_is_refused_by_name(cache):
    with pytest.raises(TypeError, match="cache"):
        connect(Server("x"), cache=cache)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"ask_limit": 3}, "ask_limit"),
        ({"sampling_tools": True}, "sampling"),
        ({"sampling_review": lambda request, proceed: proceed(request)}, "sampling"),
        ({"elicitation": print, "elicitation_modes": ()}, "elicitation_modes"),
        ({"elicitation": print, "elicitation_modes": ("voice",)}, "elicitation_modes"),
        ({"sampling": "gpt"}, "sampling"),
        ({"max_rounds": 0}, "max_rounds"),
        ({"roots": ["/no/such/folder/anywhere"]}, "folder"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_callbacks_that_make_no_sense_are_refused_before_anything_is_started(options, problem):
    with nothing_left(), pytest.raises((TypeError, ValueError), match=problem):
        connect(Server("x"), **for_connect(**options))


def test_a_principal_that_cannot_be_told_from_others_is_refused():
    with nothing_left(), pytest.raises(TypeError, match="unhashable"):
        connect(Server("x"), options=ClientOptions(principal=["alice"]))


def test_a_session_of_something_else_is_an_error_before_anything_is_sent():
    with nothing_left(), pytest.raises(TypeError, match=r"session is a requests\.Session, not 'x'"):
        connect("http://127.0.0.1:1/mcp", options=ClientOptions(session="x"))


# -- URLs, and what is remembered of servers -------------------------------------------------------


def says_hello(request, wire):
    wire.result(request, text("hello")) if "id" in request.message else wire.answer(202)


def methods(site):
    return [r.rpc for r in site.requests if r.method == "POST"]


@pytest.mark.parametrize("date", REVISIONS[1:])
def test_a_server_at_a_url_is_spoken_to_over_http(date):
    with web(opened(says_hello, date)) as site, connect(site.url, revision=date) as client:
        assert client.revision.date == date
        assert client.call_tool("a").text == "hello"


def test_the_revision_of_another_client_may_be_asked_for():
    with connect(echo_server(), revision=LEGACY[0]) as one:
        wanted = one.revision
    with connect(echo_server(), revision=wanted) as other:
        assert other.revision == wanted


def test_a_legacy_server_at_a_url_is_remembered_without_its_query():
    """It is not asked again whether it is a modern one. What a query holds may be a person's own."""
    eras = KnownEras()
    with web(opened(says_hello, LEGACY[-1])) as site:
        with connect(site.url + "?key=1", options=ClientOptions(eras=eras)):
            assert "server/discover" in methods(site)
        site.requests.clear()
        with connect(site.url + "?key=2", options=ClientOptions(eras=eras)):
            assert methods(site)[0] == "initialize"
        site.requests.clear()
        with connect(site.url, options=ClientOptions(eras=False)):
            assert methods(site)[0] == "server/discover"


@pytest.mark.parametrize(
    "other",
    ["http://b.test/mcp", "http://a.test:81/mcp", "https://a.test/mcp", "https://a.test:80/mcp"],
)
def test_what_one_origin_said_of_its_era_counts_for_no_other(other):
    eras = KnownEras()

    def remembered(url):
        return connecting._known_era(url, ClientOptions(eras=eras))

    remembered("http://a.test/mcp").store(Era.LEGACY)
    assert remembered("http://A.test:80/mcp").find() is Era.LEGACY
    assert remembered(other).find() is None


@pytest.mark.parametrize(
    ("url", "same"),
    [("http://a.test/mcp", "http://a.test:80/mcp"), ("https://a.test/mcp", "https://a.test:443/mcp")],
)
def test_a_url_without_a_port_has_that_of_its_scheme(url, same):
    options = ClientOptions(eras=KnownEras())
    connecting._known_era(url, options).store(Era.LEGACY)
    assert connecting._known_era(same, options).find() is Era.LEGACY


@pytest.mark.parametrize("eras", [None, {}, 1, "yes"])
def test_what_cannot_remember_eras_is_refused_by_name(eras):
    with pytest.raises(TypeError, match="eras is True, False or a KnownEras, not "):
        connect(echo_server(), options=ClientOptions(eras=eras))


def test_no_revision_at_all_is_refused():
    with pytest.raises(ValueError, match="revisions names at least one revision"):
        connect(echo_server(), options=ClientOptions(revisions=[]))


@pytest.mark.parametrize(("seconds", "kind"), [(0, ValueError), (-1, ValueError), ("often", TypeError)])
def test_a_pause_between_pings_that_is_none_is_refused_by_name(seconds, kind):
    with pytest.raises(kind, match="ping_every"):
        connect(echo_server(), options=ClientOptions(ping_every=seconds))


def test_an_unclosed_client_is_named_by_its_url_without_what_may_be_secret_in_it():
    with web(opened(says_hello)) as site:
        client = connect(site.url + "?key=secret")
        with pytest.warns(ResourceWarning, match="unclosed client of http://[^?]*$"):
            del client
            gc.collect()


def test_garbage_of_earlier_cells_is_collected_where_a_person_types(monkeypatch):
    """A cell that failed leaves frames that refer to each other, and to a client with its child."""
    gone = []

    class Frame:
        def __init__(self):
            self.itself = self
            weakref.finalize(self, gone.append, "gone")

    gc.disable()
    try:
        Frame()
        with connect(Server("any")):
            assert gone == []
        monkeypatch.setattr(sys, "ps1", ">>> ", raising=False)
        with connect(Server("any")):
            assert gone == ["gone"]
    finally:
        gc.enable()
