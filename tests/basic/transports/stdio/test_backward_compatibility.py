"""Which era does the server speak? (page: basic/transports/stdio, "Backward Compatibility")"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from choices import for_connect
from hypothesis import given, settings
from hypothesis import strategies as st
from peers import (
    ENV,
    LEGACY,
    MODERN,
    PATIENCE,
    REVISIONS,
    Notes,
    nothing_left,
    python,
    raw_server,
    recorded,
    source,
    tap,
)

from mcp_ref import (
    ClientOptions,
    ConnectionClosed,
    ErrorResponse,
    InvalidResponse,
    RequestTimeout,
    Server,
    connect,
)
from mcp_ref.api import connect as connecting
from mcp_ref.basic.transports.stdio import backward_compatibility as era
from mcp_ref.basic.versioning import Era
from mcp_ref.runtime.errors import LocalError, McpError


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    with nothing_left():
        yield


def methods(notes: Notes) -> list[str]:
    return [m["method"] for m in notes.all if isinstance(m, dict) and "method" in m]


# ------------------------------------------------------------------------ legacy servers


@pytest.mark.spec(
    "basic/transports/stdio/probe-legacy-fallback",
    "basic/transports/stdio/fallback-not-keyed-to-code",
    "basic/transports/stdio/dual-era-probe",
)
@pytest.mark.parametrize(
    "code", [-32601, -32602, -32600, -32700, -32603, -32000, -32002, -32042, -1, 0, 1, 404, 10**9]
)
def test_any_other_error_means_legacy(code: int) -> None:
    """Whatever the code is; and it costs one exchange, not a wait."""
    script = f"""
    error(receive("server/discover"), {code}, "what is that?", data={{"supported": ["2026-07-28"]}})
    request = receive("initialize")
    answer(request, {{"protocolVersion": "2025-06-18", "capabilities": ABLE, "serverInfo": INFO}})
    go_on({{"said": "yes"}})
    """
    notes = Notes()
    with connect(raw_server(script), options=ClientOptions(on_stderr=notes)) as client:
        assert str(client.revision) == "2025-06-18"
        assert client.server_info["name"] == "raw server"
        assert client.request("vendor/x")["said"] == "yes"
    assert methods(notes) == ["server/discover", "initialize", "notifications/initialized", "vendor/x"]
    assert notes.message("initialize")["params"]["protocolVersion"] == "2025-11-25"


def test_a_quick_legacy_server_does_not_wait_for_the_probe() -> None:
    """The time limit counts only for silence."""
    started = time.monotonic()
    command = raw_server("open_legacy('2024-11-05')\ngo_on()")
    with connect(
        command, timeout=1000, options=ClientOptions(on_stderr=Notes(), probe_timeout=1000)
    ) as client:
        assert str(client.revision) == "2024-11-05"
    assert time.monotonic() - started < 100


SILENT = """
request = receive("initialize")
answer(request, {"protocolVersion": DATE, "capabilities": ABLE, "serverInfo": INFO})
go_on({"said": "yes"})
"""


@pytest.mark.spec(
    "basic/transports/stdio/probe-legacy-fallback", "basic/transports/stdio/probe-reasonable-timeout"
)
@pytest.mark.parametrize("date", LEGACY)
def test_a_legacy_server_that_stays_silent(date: str, caplog: pytest.LogCaptureFixture) -> None:
    """It ignores what it does not know: after `probe_timeout` it is sent initialize, and the log says so."""
    notes = Notes()
    started = time.monotonic()
    with connect(
        raw_server(f"DATE = {date!r}\n{SILENT}"), options=ClientOptions(on_stderr=notes, probe_timeout=0.3)
    ) as client:
        assert time.monotonic() - started >= 0.3
        assert str(client.revision) == date
        assert client.request("vendor/x")["said"] == "yes"
    assert methods(notes)[:2] == ["server/discover", "initialize"]
    assert "notifications/cancelled" not in methods(notes)
    assert "no answer to server/discover within 0.3 s" in caplog.text


def test_a_legacy_server_that_stays_silent_is_reached_whatever_the_time_limits_are() -> None:
    """A `probe_timeout` beyond `timeout` counts as `timeout`; initialize has its own."""
    notes = Notes()
    command = raw_server(f"DATE = '2025-06-18'\n{SILENT}")
    with connect(command, timeout=3, options=ClientOptions(on_stderr=notes, probe_timeout=1000)) as client:
        assert str(client.revision) == "2025-06-18"
    assert methods(notes)[:2] == ["server/discover", "initialize"]


@pytest.mark.parametrize("wrong", [0, -1, float("nan"), True, "5", None])
def test_a_probe_timeout_that_is_none_is_refused(wrong: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="probe_timeout is a number of seconds"):
        connect(["no-such-program-at-all"], options=ClientOptions(probe_timeout=wrong))


@pytest.mark.spec("basic/transports/stdio/probe-legacy-fallback")
@pytest.mark.parametrize("code", [0, 1])
def test_a_legacy_server_that_ends_itself_when_probed(code: int) -> None:
    """It is started once more and sent initialize first."""
    script = f"""
    request = receive()
    if request["method"] != "initialize":
        sys.exit({code})
    answer(request, {{"protocolVersion": "2025-03-26", "capabilities": ABLE, "serverInfo": INFO}})
    go_on({{"said": "yes"}})
    """
    notes = Notes()
    with connect(raw_server(script), options=ClientOptions(on_stderr=notes)) as client:
        assert str(client.revision) == "2025-03-26"
        assert client.request("vendor/x")["said"] == "yes"
    assert methods(notes)[:2] == ["server/discover", "initialize"]


def test_a_server_that_always_ends_itself_is_an_error_with_its_last_words() -> None:
    with pytest.raises(ConnectionClosed, match=r"exited with code 3(.|\n)*no licence"):
        connect(
            raw_server("receive()\nos.write(2, b'no licence' + bytes([10]))\nsys.exit(3)"),
            options=ClientOptions(on_stderr=Notes()),
        )


def test_a_legacy_server_that_refuses_initialize_as_well() -> None:
    script = """
    error(receive("server/discover"), -32601)
    error(receive("initialize"), -32000, "out of order")
    go_on()
    """
    with pytest.raises(ErrorResponse, match="out of order"):
        connect(raw_server(script), options=ClientOptions(on_stderr=Notes()))


@pytest.mark.parametrize(
    ("result", "kind"),
    [
        ('{"protocolVersion": "1999-01-01", "capabilities": {}, "serverInfo": INFO}', LocalError),
        ('{"protocolVersion": 5, "capabilities": {}, "serverInfo": INFO}', LocalError),
        ('{"protocolVersion": "2025-11-25", "capabilities": []}', InvalidResponse),
        ("{}", LocalError),
    ],
)
def test_a_bad_answer_to_initialize_is_an_error(result: str, kind: type[McpError]) -> None:
    script = f"""
    error(receive("server/discover"), -32601)
    answer(receive("initialize"), {result})
    go_on()
    """
    with pytest.raises(kind):
        connect(raw_server(script), options=ClientOptions(on_stderr=Notes()))


# ------------------------------------------------------------------------ modern servers


@pytest.mark.spec("basic/transports/stdio/probe-success", "basic/transports/stdio/modern-only-probe")
def test_a_discover_result_means_modern() -> None:
    script = """
    answer(receive("server/discover"), discovered(
        instructions="be brief", _meta={"io.modelcontextprotocol/serverInfo": INFO}))
    go_on({"resultType": "complete", "said": "yes"})
    """
    notes = Notes()
    with connect(raw_server(script), options=ClientOptions(on_stderr=notes)) as client:
        assert client.revision.era is Era.MODERN
        assert client.instructions == "be brief"
        assert client.server_info["name"] == "raw server"
        assert client.request("vendor/x")["said"] == "yes"
    assert methods(notes) == ["server/discover", "vendor/x"]


@pytest.mark.spec(
    "basic/transports/stdio/probe-modern-error", "basic/versioning/client-retries-supported-version"
)
@pytest.mark.parametrize("code", [-32022, -32021, -32020])
def test_a_modern_error_is_followed_by_a_second_try_and_never_by_initialize(code: int) -> None:
    script = f"""
    error(receive("server/discover"), {code}, data={{"supported": ["2026-07-28"], "requested": "x"}})
    answer(receive(), discovered())
    go_on()
    """
    notes = Notes()
    with connect(raw_server(script), options=ClientOptions(on_stderr=notes)) as client:
        assert str(client.revision) == MODERN
        client.ping()
    assert methods(notes) == ["server/discover"] * 3


@pytest.mark.spec("basic/transports/stdio/probe-modern-error")
@pytest.mark.parametrize("code", [-32022, -32021, -32020])
def test_a_modern_server_that_refuses_twice_is_given_up(code: int) -> None:
    script = f"""
    for _ in range(2):
        error(receive(), {code}, "not today", data={{"supported": ["2026-07-28"], "requested": "x"}})
    go_on()
    """
    notes = Notes()
    with pytest.raises(McpError, match="not today"):
        connect(raw_server(script), options=ClientOptions(on_stderr=notes))
    assert methods(notes) == ["server/discover"] * 2


@pytest.mark.spec("basic/transports/stdio/probe-modern-error")
@pytest.mark.parametrize("versions", [["2027-01-01"], ["2027-01-01", "2028-01-01"], [], [7, None]])
@pytest.mark.parametrize("how", ["result", "error"])
def test_a_modern_server_without_a_version_in_common(versions: list[Any], how: str) -> None:
    """An error that names what either side speaks; no initialize."""
    said = (
        f"answer(request, discovered(supportedVersions={versions!r}))"
        if how == "result"
        else f"error(request, -32022, data={{'supported': {versions!r}, 'requested': 'x'}})"
    )
    notes = Notes()
    with pytest.raises(McpError) as caught:
        connect(
            raw_server(f"request = receive('server/discover')\n{said}\ngo_on()"),
            options=ClientOptions(on_stderr=notes),
        )
    assert MODERN in str(caught.value)
    assert all(str(version) in str(caught.value) for version in versions)
    assert methods(notes) == ["server/discover"]


def let_go(fifo: Path, after: float) -> threading.Thread:
    """A thread that lets a child go on which waits at `open(fifo)`, so many seconds from now."""

    def run() -> None:
        threading.Event().wait(after)
        fifo.write_text("go")

    thread = threading.Thread(target=run)
    thread.start()
    return thread


@pytest.mark.spec(
    "basic/transports/stdio/probe-success",
    "basic/transports/stdio/dual-era-probe",
    "basic/transports/stdio/probe-reasonable-timeout",
)
@pytest.mark.parametrize("served", [REVISIONS, [MODERN]])
def test_a_server_of_ours_that_starts_slowly_is_not_sent_initialize(served: Any, tmp_path: Path) -> None:
    """A real child, held back for a second: two up-to-date sides agree on 2026-07-28 and nothing else."""
    fifo, record = tmp_path / "fifo", tmp_path / "wire"
    os.mkfifo(fifo)
    command = python(f"open({str(fifo)!r}).read()\n" + source("", options=f"revisions={list(served)!r}"))
    thread = let_go(fifo, 1.0)
    with connect(
        tap(command, record), timeout=100, options=ClientOptions(env=ENV, probe_timeout=100)
    ) as client:
        assert str(client.revision) == MODERN
        client.ping()
    thread.join()
    assert [message["method"] for message in recorded(record)[0]] == ["server/discover"] * 2


@pytest.mark.spec("basic/transports/stdio/probe-reasonable-timeout")
def test_the_probe_waits_five_seconds_unless_told_otherwise() -> None:
    assert ClientOptions().probe_timeout == 5.0


BOTH = """
probe = receive("server/discover")
request = receive("initialize")

def discover():
    answer(probe, discovered())

def welcome():
    answer(request, {"protocolVersion": "2025-11-25", "capabilities": ABLE, "serverInfo": INFO})

def refuse():
    error(request, -32601, "Method not found")

"""


@pytest.mark.parametrize("order", ["discover(); welcome()", "welcome(); discover()"])
def test_a_server_that_answers_both_is_a_legacy_one(order: str) -> None:
    """It was sent initialize and opened a session: what it says to the probe so late decides nothing."""
    notes = Notes()
    script = BOTH + order + "\nreceive('notifications/initialized')\ngo_on({'said': 'yes'})"
    with connect(raw_server(script), options=ClientOptions(on_stderr=notes, probe_timeout=0.2)) as client:
        assert str(client.revision) == "2025-11-25"
        assert client.request("vendor/x")["said"] == "yes"
        assert "_meta" not in notes.message("vendor/x").get("params", {})


@pytest.mark.parametrize("order", ["discover(); refuse()", "refuse(); discover()"])
def test_a_server_that_refuses_initialize_and_answers_the_probe_is_a_modern_one(order: str) -> None:
    """However late: a modern server that took long to start knows no initialize."""
    notes = Notes()
    script = BOTH + order + "\ngo_on({'resultType': 'complete', 'said': 'yes'})"
    with connect(raw_server(script), options=ClientOptions(on_stderr=notes, probe_timeout=0.2)) as client:
        assert str(client.revision) == MODERN
        assert client.request("vendor/x")["said"] == "yes"
    assert methods(notes) == ["server/discover", "initialize", "vendor/x"]


@pytest.mark.spec("basic/lifecycle/handle-init-timeout")
def test_a_late_answer_to_the_probe_is_not_enough_where_initialize_is_not_answered() -> None:
    """It may still open a session: nothing that is said then would be understood."""
    with pytest.raises(RequestTimeout, match="did not answer initialize within 2 s"):
        connect(
            raw_server(BOTH + "discover()\nreceive('never')"),
            timeout=2,
            options=ClientOptions(on_stderr=Notes(), probe_timeout=0.2),
        )


def test_a_late_modern_error_is_followed_by_a_second_try() -> None:
    script = (
        BOTH
        + """
refuse()
error(probe, -32022, "late", data={"supported": ["2026-07-28"], "requested": "x"})
open_modern()
go_on()
"""
    )
    with connect(raw_server(script), options=ClientOptions(on_stderr=Notes(), probe_timeout=0.2)) as client:
        assert str(client.revision) == MODERN
        client.ping()


def test_silence_after_a_modern_error_is_a_time_out_and_no_reason_to_initialize() -> None:
    script = """
    error(receive(), -32022, "no", data={"supported": ["2026-07-28"], "requested": "x"})
    receive("never")
    """
    notes = Notes()
    with pytest.raises(RequestTimeout, match="did not answer server/discover within 4 s"):
        connect(raw_server(script), timeout=4, options=ClientOptions(on_stderr=notes, probe_timeout=3))
    assert methods(notes) == ["server/discover"] * 2


@pytest.mark.parametrize("order", ["error(probe, -32601, 'no discover'); no()", "no(); error(probe, -32601)"])
def test_a_server_that_refuses_both_raises_what_initialize_was_told(order: str) -> None:
    script = BOTH + f"def no(): error(request, -32000, 'no initialize')\n{order}\ngo_on()"
    with pytest.raises(ErrorResponse, match="no initialize"):
        connect(raw_server(script), options=ClientOptions(on_stderr=Notes(), probe_timeout=0.2))


def test_a_server_that_dies_between_the_two_is_told_with_its_last_words() -> None:
    with pytest.raises(ConnectionClosed, match="exited with code 3"):
        connect(
            raw_server("receive('initialize')\nsys.exit(3)"),
            options=ClientOptions(on_stderr=Notes(), probe_timeout=0.2),
        )


def test_a_hook_of_ours_that_is_slow_does_not_change_the_era() -> None:
    server = Server("tests")
    seen: list[str] = []

    @server.around
    def slow(context: Any, params: Any, proceed: Any) -> Any:
        seen.append(context.method)
        if len(seen) == 1:
            threading.Event().wait(1.0)
        return proceed(params)

    with connect(server, timeout=100, options=ClientOptions(probe_timeout=100)) as client:
        assert str(client.revision) == MODERN
        client.ping()
    assert seen == ["server/discover"] * 2


# --------------------------------------------------------------------------- garbage


@pytest.mark.parametrize(
    "result",
    [
        "{}",
        "[]",
        "5",
        "None",
        '"yes"',
        "True",
        '{"supportedVersions": "2026-07-28"}',
        '{"supportedVersions": {}}',
    ],
)
def test_garbage_for_an_answer_to_the_probe_means_legacy(result: str) -> None:
    """And initialize tells the rest: here it works."""
    script = f"""
    answer(receive("server/discover"), {result})
    request = receive("initialize")
    answer(request, {{"protocolVersion": "2025-11-25", "capabilities": ABLE, "serverInfo": INFO}})
    go_on({{"said": "yes"}})
    """
    with connect(raw_server(script), options=ClientOptions(on_stderr=Notes())) as client:
        assert str(client.revision) == "2025-11-25"
        assert client.request("vendor/x")["said"] == "yes"


def test_garbage_for_both_answers_is_an_error() -> None:
    with pytest.raises(McpError):
        connect(
            raw_server("go_on = None\nwhile True: answer(receive(), {'a': 1})"),
            options=ClientOptions(on_stderr=Notes()),
        )


@pytest.mark.parametrize("more", ["capabilities=None", "capabilities=[]", "resultType='odd'"])
def test_a_discover_result_that_breaks_its_shape_is_an_error(more: str) -> None:
    script = f"answer(receive('server/discover'), discovered({more}))\ngo_on()"
    with pytest.raises(InvalidResponse):
        connect(raw_server(script), options=ClientOptions(on_stderr=Notes()))


def test_bytes_that_are_no_message_before_the_answer_are_stepped_over() -> None:
    """A server that greets people on its stdout: warned of, not fatal."""
    script = """
    write(b"Welcome to the server!" + bytes([10, 10]) + b"[1, 2]" + bytes([10, 0xff, 10]))
    open_modern()
    go_on()
    """
    with connect(raw_server(script), options=ClientOptions(on_stderr=Notes())) as client:
        client.ping()


# ------------------------------------------------------------------------- insisting


@pytest.mark.parametrize("date", LEGACY)
def test_who_insists_on_a_legacy_revision_does_not_probe(date: str) -> None:
    notes = Notes()
    with connect(
        raw_server("open_legacy()\ngo_on()"), revision=date, options=ClientOptions(on_stderr=notes)
    ) as client:
        assert str(client.revision) == date
    assert methods(notes)[0] == "initialize"
    assert notes.message("initialize")["params"]["protocolVersion"] == date


@pytest.mark.parametrize("asked", REVISIONS)
@pytest.mark.parametrize("spoken", REVISIONS)
def test_who_insists_gets_that_revision_or_an_error(asked: str, spoken: str) -> None:
    modern = """
    request = receive()
    if request["method"] == "initialize":
        error(request, -32601, "Method not found")
    else:
        answer(request, discovered())
    go_on()
    """
    command = raw_server(modern if spoken == MODERN else f"open_legacy({spoken!r})\ngo_on()")
    if asked == spoken:
        with connect(command, revision=asked, options=ClientOptions(on_stderr=Notes())) as client:
            assert str(client.revision) == asked
            client.ping()
    else:
        with pytest.raises(McpError):
            connect(command, revision=asked, options=ClientOptions(on_stderr=Notes()))


def test_who_speaks_legacy_revisions_only_does_not_probe() -> None:
    notes = Notes()
    command = raw_server("open_legacy()\ngo_on()")
    with connect(
        command, options=ClientOptions(on_stderr=notes, revisions=["2024-11-05", "2025-06-18"])
    ) as client:
        assert str(client.revision) == "2025-06-18"
    assert methods(notes)[0] == "initialize"


LEGACY_ANSWERS = [
    "open_legacy()\ngo_on()",
    "answer(receive(), {'tools': []})\ngo_on()",
    "answer(receive(), discovered(supportedVersions=['2025-11-25', '2024-11-05']))\ngo_on()",
    "receive('never')",
]


@pytest.mark.spec(
    "basic/transports/stdio/modern-only-probe", "basic/versioning/modern-client-actionable-error"
)
@pytest.mark.parametrize("script", LEGACY_ANSWERS)
@pytest.mark.parametrize("options", [{"revision": MODERN}, {"revisions": [MODERN]}])
def test_a_modern_client_says_what_to_do_about_a_legacy_server(script: str, options: Any) -> None:
    """The version that it speaks, and the argument of `connect` that helps. Nothing but the probe is sent."""
    notes = Notes()
    with pytest.raises(McpError) as caught:
        connect(raw_server(script), **for_connect(on_stderr=notes, timeout=2, **options))
    assert MODERN in str(caught.value)
    assert "revision='2025-11-25'" in str(caught.value)
    assert methods(notes) == ["server/discover"]


def test_a_modern_client_says_how_a_legacy_server_answered_the_probe() -> None:
    said = "the server is no modern one: its answer to server/discover names no version of the modern era; "
    with pytest.raises(LocalError, match=f"^{said}"):
        connect(raw_server(LEGACY_ANSWERS[1]), revision=MODERN, options=ClientOptions(on_stderr=Notes()))


@pytest.mark.spec("basic/transports/stdio/modern-only-probe")
def test_who_speaks_the_modern_revision_only_tells_a_legacy_server_from_a_slow_one() -> None:
    notes = Notes()
    command = raw_server("time.sleep(0.7)\nopen_modern()\ngo_on()")
    with connect(
        command, options=ClientOptions(on_stderr=notes, revisions=[MODERN], probe_timeout=0.1)
    ) as client:
        assert str(client.revision) == MODERN
    assert "initialize" not in methods(notes)


# --------------------------------------------------------------------------- silence


@pytest.mark.parametrize("asked", [None, "2025-11-25", MODERN])
def test_a_server_that_never_answers_is_a_time_out_and_leaves_no_child(asked: str | None) -> None:
    notes = Notes()
    started = time.monotonic()
    with pytest.raises(RequestTimeout):
        connect(
            raw_server("while receive(): pass"),
            revision=asked,
            timeout=0.8,
            options=ClientOptions(on_stderr=notes),
        )
    assert time.monotonic() - started < 3 * PATIENCE


# --------------------------------------------------------------------- what is remembered


# What comes first on stdin makes it a legacy server, until there is a file: then it is a modern one.
CHANGING = """
request = receive()
if os.path.exists(FILE):
    while request["method"] == "initialize":
        error(request, -32601, "Method not found")
        request = receive()
    answer(request, discovered())
    go_on()
while request["method"] != "initialize":
    error(request, -32601, "Method not found")
    request = receive()
answer(request, {"protocolVersion": "2025-11-25", "capabilities": ABLE, "serverInfo": INFO})
go_on()
"""


def changing(tmp_path: Path) -> tuple[list[str], Path]:
    """The command of such a server, and the file that makes it a modern one."""
    file = tmp_path / "modern"
    return raw_server(f"FILE = {str(file)!r}\n{CHANGING}"), file


def opening_of(command: list[str], **options: Any) -> tuple[str, list[str]]:
    """The revision that a new client agrees on, and what it sent until then."""
    notes = Notes()
    with connect(command, **for_connect(on_stderr=notes, **options)) as client:
        client.request("vendor/x")
        notes.message("vendor/x")
        return str(client.revision), methods(notes)[: methods(notes).index("vendor/x")]


PROBED = ["server/discover", "initialize", "notifications/initialized"]
GREETED = PROBED[1:]


@pytest.mark.spec("basic/versioning/era-persisted")
def test_a_legacy_server_is_probed_once_and_a_server_that_has_changed_again(tmp_path: Path) -> None:
    """A later client of the same command goes straight to initialize; once that is refused, it probes."""
    command, file = changing(tmp_path)
    assert opening_of(command) == ("2025-11-25", PROBED)
    assert opening_of(command) == ("2025-11-25", GREETED)
    assert opening_of(command) == ("2025-11-25", GREETED)
    file.touch()
    assert opening_of(command) == (MODERN, ["initialize", "server/discover"])
    assert opening_of(command) == (MODERN, ["server/discover"])
    file.unlink()
    assert opening_of(command) == ("2025-11-25", PROBED)


def test_what_is_remembered_can_be_forgotten_switched_off_and_kept_apart(tmp_path: Path) -> None:
    command, _ = changing(tmp_path)
    own = era.KnownEras()
    assert opening_of(command)[1] == PROBED
    assert opening_of(command, eras=False)[1] == PROBED
    assert opening_of(command, eras=own)[1] == PROBED
    assert opening_of(command, eras=own)[1] == GREETED
    assert (len(own), len(era.KNOWN_ERAS)) == (1, 1)
    own.forget()
    assert opening_of(command, eras=own)[1] == PROBED
    assert opening_of(command)[1] == GREETED
    assert opening_of(command, cwd=tmp_path)[1] == PROBED, "elsewhere it is another server"
    assert opening_of(command, env={"X": "1"})[1] == PROBED
    assert opening_of(command, revision="2025-11-25")[1] == GREETED


def test_a_modern_client_probes_also_where_a_legacy_server_is_known(tmp_path: Path) -> None:
    command, _ = changing(tmp_path)
    opening_of(command)
    with pytest.raises(LocalError, match="revision='2025-11-25'"):
        connect(command, revision=MODERN, options=ClientOptions(on_stderr=Notes()))


def test_a_known_modern_server_that_is_slow_is_not_sent_initialize() -> None:
    script = """
    receive("server/discover")
    receive("never")
    """
    notes, eras = Notes(), era.KnownEras()
    command = raw_server(script)
    server = connecting._known_era(command, ClientOptions(eras=eras))
    server.store(Era.MODERN)
    with pytest.raises(RequestTimeout, match="did not answer server/discover within 2 s"):
        connect(command, timeout=2, options=ClientOptions(on_stderr=notes, eras=eras, probe_timeout=0.1))
    assert methods(notes) == ["server/discover"]
    assert server.find() is None, "the next client finds out anew"


@pytest.mark.parametrize(
    "script",
    [
        "receive('initialize')\nsilent = True",
        "request = receive()\nif request['method'] != 'initialize': sys.exit(1)",
        "answer(receive(), discovered(supportedVersions=['2025-11-25']))\nrequest = receive('initialize')",
        "error(receive(), -32022, data={'supported': ['2025-11-25'], 'requested': 'x'})\nrequest = receive()",
    ],
    ids=["silence", "death", "a list", "a modern error"],
)
def test_only_an_error_in_answer_to_the_probe_is_remembered_as_legacy(script: str) -> None:
    """Silence may have been slowness, death an accident; a list without our version depends on the client."""
    eras, is_silent = era.KnownEras(), "silent" in script
    script = script.replace("receive('initialize')\nsilent = True", "request = receive('initialize')")
    more = """
answer(request, {"protocolVersion": "2025-11-25", "capabilities": ABLE, "serverInfo": INFO})
go_on()
"""
    seconds = 0.3 if is_silent else PATIENCE  # of silence alone the client must not wait for an answer
    with connect(
        raw_server(script + more), options=ClientOptions(on_stderr=Notes(), eras=eras, probe_timeout=seconds)
    ) as client:
        assert str(client.revision) == "2025-11-25"
    assert len(eras) == 0


def test_a_server_that_dies_of_what_it_was_remembered_for_is_started_again_and_probed(tmp_path: Path) -> None:
    script = """
    request = receive()
    if request["method"] == "initialize":
        sys.exit(1)
    answer(request, discovered())
    go_on()
    """
    notes, eras, command = Notes(), era.KnownEras(), raw_server(script)
    connecting._known_era(command, ClientOptions(eras=eras)).store(Era.LEGACY)
    with connect(command, options=ClientOptions(on_stderr=notes, eras=eras)) as client:
        assert str(client.revision) == MODERN
    assert methods(notes) == ["initialize", "server/discover"]


def test_a_server_that_answered_the_probe_is_remembered_as_a_modern_one() -> None:
    eras, command = era.KnownEras(), raw_server("answer(receive(), discovered())\ngo_on()")
    with connect(command, options=ClientOptions(on_stderr=Notes(), eras=eras)) as client:
        assert str(client.revision) == MODERN
    assert connecting._known_era(command, ClientOptions(eras=eras)).find() is Era.MODERN


def test_a_server_that_refuses_what_it_was_remembered_for_is_forgotten_whatever_the_probe_says() -> None:
    notes, eras = Notes(), era.KnownEras()
    command = raw_server("while True: error(receive(), -32601, 'Method not found')")
    server = connecting._known_era(command, ClientOptions(eras=eras))
    server.store(Era.LEGACY)
    with pytest.raises(ErrorResponse, match="Method not found"):
        connect(command, options=ClientOptions(on_stderr=notes, eras=eras))
    assert methods(notes) == ["initialize", "server/discover", "initialize"]
    assert server.find() is None


def test_what_is_remembered_is_bounded_and_does_not_last_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    eras = era.KnownEras(size=3, seconds=60)
    for n in range(5):
        eras.store(("server", n), Era.LEGACY)
    assert [eras.find(("server", n)) for n in range(5)] == [None, None, *[Era.LEGACY] * 3]
    eras.store(("server", 2), Era.MODERN)
    eras.store(("server", 5), Era.LEGACY)
    assert (eras.find(("server", 2)), eras.find(("server", 3))) == (Era.MODERN, None)
    eras.forget(("server", 5))
    assert eras.find(("server", 5)) is None
    now[0] += 61
    assert eras.find(("server", 2)) is None
    eras.forget()
    assert len(eras) == 0


def test_what_is_remembered_holds_no_secrets_and_may_be_used_by_many_threads() -> None:
    eras = era.KnownEras(size=50)
    faults: list[Exception] = []

    def use(name: int) -> None:
        try:
            for n in range(300):
                eras.store(("a secret", name, n), Era.LEGACY)
                eras.find(("a secret", name, n // 2))
                eras.forget(("a secret", name, n - 1))
        except Exception as problem:
            faults.append(problem)

    threads = [threading.Thread(target=use, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert not faults
    assert len(eras) <= 50
    assert "secret" not in repr(vars(eras))


@pytest.mark.parametrize("wrong", [None, 1, "yes", {}])
def test_eras_that_are_none_are_refused(wrong: Any) -> None:
    with pytest.raises(TypeError, match="eras is True, False or a KnownEras"):
        connect(["no-such-program-at-all"], options=ClientOptions(eras=wrong))


# ----------------------------------------------------------------------------- judge

_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=10) | st.sampled_from([*REVISIONS]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=8,
)


@settings(deadline=None, max_examples=150)
@given(
    st.one_of(
        _JSON.map(lambda offered: {"supportedVersions": offered}),
        st.dictionaries(st.text(max_size=20), _JSON, max_size=3),
        st.builds(
            ErrorResponse,
            st.sampled_from([-32020, -32021, -32022, -32601, 0]),
            st.text(max_size=5),
            _JSON | _JSON.map(lambda offered: {"supported": offered}),
        ),
    )
)
def test_every_answer_is_judged(outcome: Any) -> None:
    """A modern revision, legacy, or an error that says why not: nothing else comes of any answer."""
    try:
        chosen = era.judge(outcome, REVISIONS)
    except LocalError as problem:
        assert "no version in common" in str(problem)
    else:
        assert chosen is None or chosen.modern
