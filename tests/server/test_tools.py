"""server/tools: listing, calling, refusing, limiting, reviewing and auditing, on both sides."""

import concurrent.futures
import contextlib
import dataclasses
import json
import logging
import queue
import threading
import time

import pytest
from choices import for_server
from http_peers import Peer, endpoint
from hypothesis import given, settings
from hypothesis import strategies as st
from peers import LEGACY, MODERN, PATIENCE, REVISIONS, Notes, RawClient, eventually, raw_server
from protected import ISSUER, bearer, protected
from web import opened, text, web

from mcp_ref import (
    ClientOptions,
    ConnectionClosed,
    Context,
    ErrorResponse,
    InvalidResponse,
    Limit,
    McpError,
    ProtocolError,
    RequestCancelled,
    RequestTimeout,
    Server,
    ServerOptions,
    ToolError,
    connect,
)
from mcp_ref.runtime import long_strings
from mcp_ref.server import content
from mcp_ref.server import tools as page

BEFORE = LEGACY[:3]
"""Revisions in which bad arguments are a protocol error."""
AFTER = (LEGACY[3], MODERN)
"""And those in which they are a result."""


def calculator(**options):
    server = Server("calculator", **for_server(options))

    @server.tool
    def add(a: int, b: int = 0) -> int:
        """Add two numbers."""
        return a + b

    return server


def failing(problem):
    """A server with a tool that raises this."""
    server = Server("failing")

    @server.tool
    def fail(ctx: Context) -> str:
        raise problem

    @server.tool
    def work() -> str:
        return "fine"

    return server


@pytest.fixture
def audit(caplog):
    caplog.set_level(logging.INFO, "mcp_ref.audit")
    return lambda: [r.getMessage() for r in caplog.records if r.name == "mcp_ref.audit"]


# -- calling -------------------------------------------------------------------------------------


@pytest.mark.spec("server/tools/capability-declared", "server/tools/list-answered")
@pytest.mark.parametrize("date", REVISIONS)
def test_tools_are_declared_listed_and_called(date):
    with connect(calculator(), revision=date) as client:
        assert "tools" in client.server_capabilities
        (tool,) = client.list_tools()
        assert (tool["name"], tool["description"]) == ("add", "Add two numbers.")
        result = client.call_tool("add", {"a": 1, "b": 2})
        assert (result.text, result.is_error) == ("3", False)
        assert client.call_tool("add", {"a": 5}).text == "5"


@pytest.mark.spec("server/tools/output-schema-root-object")
@pytest.mark.parametrize("kind", ["object", "array"])
@pytest.mark.parametrize("date", REVISIONS)
def test_only_an_output_schema_that_a_revision_cannot_have_is_left_out_of_a_definition(date, kind):
    schema = {"inputSchema": {"type": "object"}, "outputSchema": {"type": kind}}
    found = page.listed({"name": "it", **schema}, date)
    assert found["name"] == "it"
    assert found["inputSchema"] == schema["inputSchema"]
    first = "2025-06-18" if kind == "object" else MODERN
    assert found.get("outputSchema") == (schema["outputSchema"] if date >= first else None)


@pytest.mark.spec("server/tools/capability-declared", "schema/method-not-found-ungated")
@pytest.mark.parametrize("date", REVISIONS)
def test_a_server_without_tools_declares_none_and_has_no_such_methods(date):
    with RawClient(Server("none"), revision=date) as raw:
        assert raw.request("tools/list")["error"]["code"] == -32601
        assert raw.answer(raw.call("x"))["error"]["code"] == -32601
    with connect(Server("none"), revision=date) as client:
        assert "tools" not in client.server_capabilities
        with pytest.raises(McpError, match="tools"):
            client.list_tools()


@pytest.mark.spec("server/tools/protocol-errors")
@pytest.mark.parametrize("date", REVISIONS)
def test_an_unknown_tool_is_a_protocol_error(date):
    """server/tools, "Error Handling": -32602, and the message names those that there are."""
    with connect(calculator(), revision=date) as client:
        for name in ("ad", "ADD", "", "x" * 10_000, "ü"):
            with pytest.raises(ErrorResponse, match="add") as refused:
                client.call_tool(name)
            assert refused.value.code == -32602
            assert len(refused.value.message) < 1000


BAD = {
    "missing": {},
    "wrong type": {"a": "1"},
    "a float": {"a": 1.5},
    "true for a number": {"a": True},
    "null": {"a": None},
    "one too many": {"a": 1, "c": 2},
}


@pytest.mark.spec("server/tools/invalid-arguments-protocol-error", "server/tools/validate-inputs")
@pytest.mark.parametrize("arguments", BAD.values(), ids=BAD)
@pytest.mark.parametrize("date", BEFORE)
def test_bad_arguments_are_a_protocol_error_until_2025_06_18(date, arguments):
    with connect(calculator(), revision=date) as client:
        with pytest.raises(ErrorResponse, match="add: ") as refused:
            client.call_tool("add", arguments)
        assert refused.value.code == -32602
        assert client.call_tool("add", {"a": 1}).text == "1"


@pytest.mark.spec("server/tools/input-validation-tool-error", "server/tools/validate-inputs")
@pytest.mark.parametrize("arguments", BAD.values(), ids=BAD)
@pytest.mark.parametrize("date", AFTER)
def test_bad_arguments_are_a_result_that_a_model_can_read_from_2025_11_25_on(date, arguments):
    with connect(calculator(), revision=date) as client:
        result = client.call_tool("add", arguments)
        assert result.is_error
        assert result.text.startswith("Invalid arguments for add: ")
        wrong = next((key for key in ("c", "a") if key in arguments), "a")
        assert f"{wrong}: " in result.text


@pytest.mark.spec("server/tools/protocol-errors")
@pytest.mark.parametrize(
    "params",
    [
        {},
        {"name": 5},
        {"name": None},
        {"name": ["add"]},
        {"name": "add", "arguments": [1, 2]},
        {"name": "add", "arguments": "a=1"},
        {"name": "add", "arguments": None},
    ],
    ids=str,
)
@pytest.mark.parametrize("date", REVISIONS)
def test_a_malformed_request_is_a_protocol_error_in_every_revision(date, params):
    with RawClient(calculator(), revision=date) as raw:
        assert raw.request("tools/call", params)["error"]["code"] == -32602
        assert raw.is_alive()


@pytest.mark.parametrize("date", REVISIONS)
def test_arguments_may_be_left_out(date):
    server = Server("none")
    server.add_tool(lambda: "x", name="plain")
    with RawClient(server, revision=date) as raw:
        answer = raw.request("tools/call", {"name": "plain"})
        assert answer["result"]["content"] == [{"type": "text", "text": "x"}]


# -- tools that fail -----------------------------------------------------------------------------


class Own(Exception):
    pass


class Unsayable(Exception):
    def __str__(self):
        raise RuntimeError("not even this")


RAISED = {
    "with a message": (ValueError("no such account: 7"), "no such account: 7"),
    "without one": (Own(), "Own"),
    "of several lines": (RuntimeError("a\nb"), "a\nb"),
    "exit": (SystemExit(3), "the tool ended itself: 3"),
    "exit without a word": (SystemExit(), "the tool ended itself: SystemExit"),
    "end of iteration": (StopIteration(), "StopIteration"),
    "memory": (MemoryError(), "MemoryError"),
    "a lone surrogate": (ValueError("\ud800"), None),
    "nothing that can be said": (Unsayable(), None),
}


@pytest.mark.spec("server/tools/execution-errors-in-result")
@pytest.mark.parametrize(("problem", "said"), RAISED.values(), ids=RAISED)
@pytest.mark.parametrize("date", REVISIONS)
def test_a_tool_that_raises_is_a_result_with_its_message_and_no_traceback(date, problem, said, caplog):
    caplog.set_level(logging.WARNING, "mcp_ref.tools")
    with connect(failing(problem), revision=date) as client:
        result = client.call_tool("fail")
        assert result.is_error
        assert "Traceback" not in result.text
        assert __file__ not in result.text
        if said is not None:
            assert result["content"] == [{"type": "text", "text": said}]
        assert client.call_tool("work").text == "fine"
    (record,) = [r for r in caplog.records if r.name == "mcp_ref.tools"]
    assert record.exc_info[1] is problem
    assert "fail" in record.getMessage()


@pytest.mark.parametrize("date", REVISIONS)
def test_a_protocol_error_that_a_tool_raises_is_that_error(date):
    problem = ProtocolError("pay first", code=1402, data={"price": [1, "EUR"]})
    with connect(failing(problem), revision=date) as client:
        with pytest.raises(ErrorResponse) as refused:
            client.call_tool("fail")
        assert refused.value.code == 1402
        assert refused.value.message == "pay first"
        assert refused.value.data == {"price": [1, "EUR"]}


@pytest.mark.parametrize("date", REVISIONS)
def test_a_tool_that_gives_up_by_itself_is_an_error_all_the_same(date):
    with connect(failing(RequestCancelled("enough")), revision=date) as client:
        with pytest.raises(ErrorResponse) as refused:
            client.call_tool("fail")
        assert refused.value.code == -32603


@pytest.mark.spec("server/tools/server-errors-are-protocol-errors")
@pytest.mark.parametrize("date", REVISIONS)
def test_a_fault_of_the_server_is_a_protocol_error_and_one_of_the_tool_a_result(date):
    server = failing(ValueError("the tool's own"))
    broken = []

    @server.around
    def disk(ctx, params, proceed):
        if broken:
            raise OSError("the disk with the password 1234 is full")
        return proceed(params)

    with connect(server, revision=date) as client:
        result = client.call_tool("fail")
        assert (result.is_error, result.text) == (True, "the tool's own")
        broken.append(1)
        for tool in ("fail", "work"):
            with pytest.raises(ErrorResponse) as refused:
                client.call_tool(tool)
            assert (refused.value.code, "1234" in str(refused.value)) == (-32603, False)


@pytest.mark.parametrize("date", REVISIONS)
def test_an_interrupt_in_a_tool_does_not_end_the_server(date):
    with connect(failing(KeyboardInterrupt()), revision=date) as client:
        assert client.call_tool("fail").is_error
        assert client.call_tool("work").text == "fine"


# -- limits --------------------------------------------------------------------------------------


def refused_after(client, calls):
    """Call until the limit refuses: the error, and how many calls went through."""
    for done in range(calls):
        try:
            client.call_tool("add", {"a": done})
        except ErrorResponse as problem:
            return problem, done
    raise AssertionError("nothing was refused")


@pytest.mark.spec("server/tools/rate-limit")
@pytest.mark.parametrize("date", REVISIONS)
def test_calls_beyond_the_burst_are_refused_and_told_when_to_come_back(date):
    with connect(calculator(limit=Limit(rate=20, burst=5)), revision=date) as client:
        problem, done = refused_after(client, 10_000)  # sooner or later five come in quick succession
        assert done >= 5
        assert problem.code == 429
        wait = problem.data["retryAfterMs"]
        assert 1 <= wait <= 50
        threading.Event().wait(wait / 1000 + 0.005)  # what we were told is long enough
        assert client.call_tool("add", {"a": 1}).text == "1"
        assert len(client.list_tools()) == 1  # only calls are limited


@pytest.mark.spec("server/tools/rate-limit")
@pytest.mark.parametrize("date", REVISIONS)
def test_calls_beyond_those_that_may_run_at_once_are_refused(date):
    server = Server("narrow", limit=Limit(at_once=2))
    entered, go = threading.Semaphore(0), threading.Event()

    @server.tool
    def wait() -> str:
        entered.release()
        go.wait(PATIENCE)
        return "done"

    with connect(server, revision=date) as client:
        running = [client.submit("tools/call", {"name": "wait"}) for _ in range(2)]
        for _ in running:
            assert entered.acquire(timeout=PATIENCE)
        with pytest.raises(ErrorResponse) as refused:
            client.call_tool("wait")
        assert refused.value.code == 429
        assert refused.value.data["retryAfterMs"] > 0
        go.set()
        assert [call.result(PATIENCE).text for call in running] == ["done", "done"]
        assert client.call_tool("wait").text == "done"


@pytest.mark.parametrize(
    "ends", [ValueError("x"), ProtocolError("x", code=7), SystemExit(1), KeyboardInterrupt()]
)
def test_a_call_that_fails_makes_room_for_the_next(ends):
    server = failing(ends)
    server.limiters.limit = Limit(at_once=1)
    with connect(server) as client:
        for _ in range(3):
            try:
                client.call_tool("fail")
            except ErrorResponse as problem:
                assert problem.code != 429


def test_bad_arguments_and_unknown_tools_take_no_room_for_good():
    with connect(calculator(limit=Limit(at_once=1))) as client:
        for _ in range(3):
            assert client.call_tool("add", {}).is_error
            with pytest.raises(ErrorResponse, match="Unknown tool"):
                client.call_tool("nothing")
        assert client.call_tool("add", {"a": 1}).text == "1"


@pytest.mark.spec("server/tools/rate-limit")
def test_each_connection_has_a_limit_of_its_own():
    server = calculator(limit=Limit(rate=0.001, burst=3))
    with connect(server) as one, connect(server) as other:
        assert refused_after(one, 10)[1] == 3
        assert refused_after(other, 10)[1] == 3


def test_one_principal_has_one_limit_over_all_its_connections():
    server = calculator(limit=Limit(rate=0.001, burst=3))

    @server.around
    def log_in(ctx, params, proceed):
        ctx.principal = ctx.client_info["name"]
        return proceed(params)

    def connected(name):
        return connect(server, options=ClientOptions(name=name))

    with connected("ann") as one, connected("ann") as two, connected("bob") as three:
        one.call_tool("add", {"a": 1})
        two.call_tool("add", {"a": 1})
        assert refused_after(two, 10)[1] == 1
        assert refused_after(one, 10)[1] == 0
        assert refused_after(three, 10)[1] == 3


def test_the_default_limit_is_above_what_one_busy_client_needs():
    with connect(calculator()) as client:
        calls = [client.submit("tools/call", {"name": "add", "arguments": {"a": n}}) for n in range(200)]
        concurrent.futures.wait(calls, timeout=PATIENCE)
        assert [int(call.result().text) for call in calls] == list(range(200))


# -- the audit -----------------------------------------------------------------------------------


@pytest.mark.spec("server/tools/log-usage")
@pytest.mark.parametrize("date", REVISIONS)
def test_both_sides_write_a_line_per_call_without_arguments(date, audit):
    with connect(calculator(), revision=date) as client:
        client.call_tool("add", {"a": 4711})
        client.list_tools()
    lines = audit()
    assert sorted(line.partition(" ")[0] for line in lines) == ["made", "served"]
    assert all("add" in line and "done" in line for line in lines)
    assert not any("4711" in line for line in lines)


@pytest.mark.parametrize("side", ["server", "client"])
def test_a_line_has_the_arguments_if_they_are_asked_for(side, audit):
    with connect(
        calculator(audit_arguments=side == "server"), options=ClientOptions(audit_arguments=side == "client")
    ) as client:
        client.call_tool("add", {"a": 4711})
    word = {"server": "served", "client": "made"}[side]
    assert [line.partition(" ")[0] for line in audit() if "4711" in line] == [word]


def test_a_line_tells_how_the_call_went(audit):
    server = failing(ValueError("no"))
    server.add_tool(lambda n: n, name="typed", input_schema={"type": "object", "required": ["n"]})
    with connect(server, revision=MODERN) as client:
        client.call_tool("fail")
        client.call_tool("typed")
        with pytest.raises(ErrorResponse):
            client.call_tool("nothing")
    served = [line for line in audit() if line.startswith("served")]
    assert len(served) == 3
    assert "failed" in served[0]
    assert "done" not in served[1]
    assert "done" not in served[2]
    made = [line for line in audit() if line.startswith("made")]
    assert len(made) == 3
    assert "error" in made[0]


def test_a_call_that_asks_has_a_line_of_its_own(audit):
    """In 2026-07-28, where a question is a result; the retry has the next line."""
    server = Server("asks")

    @server.tool
    def book(ctx: Context) -> str:
        return "yes" if ctx.confirm("Really?") else "no"

    with connect(server, revision=MODERN, elicitation=lambda question: {}) as client:
        assert client.call_tool("book").text == "yes"
    assert [line.rpartition(": ")[2] for line in audit() if line.startswith("served")] == ["asked", "done"]


@pytest.mark.spec("server/tools/call-timeouts")
def test_calls_that_end_without_an_answer_leave_a_line_too(audit):
    server = Server("slow")
    go = threading.Event()
    server.add_tool(lambda: go.wait(PATIENCE), name="wait")
    with connect(server) as client:
        with pytest.raises(RequestTimeout):
            client.call_tool("wait", timeout=0.05)
        go.set()
    assert [line.partition(" ")[0] for line in audit() if line.startswith("made")] == ["made"]


def test_a_call_that_the_limit_refused_leaves_a_line(audit):
    with connect(calculator(limit=Limit(rate=0.001, burst=1))) as client:
        refused_after(client, 3)
    served = [line for line in audit() if line.startswith("served")]
    assert len(served) == 2
    assert "refused" in served[1]


# -- the review ----------------------------------------------------------------------------------


def reviewed(answer, **annotations):
    """A server, and what `confirm` saw of it."""
    server = Server("reviewed")
    served = []

    @server.tool(annotations=annotations or None)
    def wipe(what: str) -> str:
        served.append(what)
        return "wiped"

    seen = []

    def confirm(tool, hints, arguments):
        seen.append((tool, hints, arguments))
        return answer

    return server, served, seen, confirm


@pytest.mark.spec("server/tools/confirm-sensitive", "server/tools/show-inputs")
@pytest.mark.parametrize("date", REVISIONS)
def test_confirm_sees_tool_hints_and_arguments_and_may_agree(date):
    server, served, seen, confirm = reviewed(True)
    with connect(server, revision=date, confirm=confirm) as client:
        assert client.call_tool("wipe", {"what": "disk"}).text == "wiped"
        assert client.submit("tools/call", {"name": "wipe", "arguments": {"what": "x"}}).result(PATIENCE)
        client.request("tools/call", {"name": "wipe", "arguments": {"what": "y"}})
    assert served == ["disk", "x", "y"]
    tool, hints, arguments = seen[0]
    assert tool["name"] == "wipe"
    assert tool["inputSchema"]["properties"]["what"] == {"type": "string"}
    assert arguments == {"what": "disk"}
    assert hints["destructiveHint"] is True
    assert len(seen) == 3


@pytest.mark.spec("server/tools/confirm-sensitive")
@pytest.mark.parametrize("date", REVISIONS)
def test_a_call_that_is_not_confirmed_is_not_sent(date, audit):
    server, served, seen, confirm = reviewed(False)
    with connect(server, revision=date, confirm=confirm) as client:
        for call in (
            lambda: client.call_tool("wipe", {"what": "disk"}),
            lambda: client.submit("tools/call", {"name": "wipe", "arguments": {"what": "disk"}}),
            lambda: client.request("tools/call", {"name": "wipe", "arguments": {"what": "disk"}}),
        ):
            with pytest.raises(page.CallRefused, match="not sent"):
                call()
    assert served == []
    assert len(seen) == 3
    assert len(audit()) == 3
    assert all("wipe" in line and "not sent" in line for line in audit())


def test_nothing_of_a_refused_call_crosses_the_wire():
    notes = Notes()
    script = """
        open_modern()
        while True:
            request = receive()
            answer(request, {"resultType": "complete", "tools": [], "ttlMs": 0, "cacheScope": "private"})
    """
    with connect(
        raw_server(script), confirm=lambda *seen: False, options=ClientOptions(on_stderr=notes)
    ) as client:
        with pytest.raises(page.CallRefused):
            client.call_tool("secret", {"a": 1})
        client.request("vendor/after")
        notes.message("vendor/after")
    assert "tools/call" not in [note["method"] for note in notes.all]


def test_a_confirm_that_raises_is_heard_and_nothing_is_sent():
    server, served, _, _ = reviewed(True)
    with connect(server, confirm=lambda *seen: 1 / 0) as client, pytest.raises(ZeroDivisionError):
        client.call_tool("wipe", {"what": "x"})
    assert served == []


def test_a_tool_that_is_not_listed_is_reviewed_by_its_name():
    server, _, seen, confirm = reviewed(False)
    with connect(server, confirm=confirm) as client, pytest.raises(page.CallRefused):
        client.call_tool("unlisted", {"a": 1})
    assert seen[0][0] == {"name": "unlisted"}
    assert seen[0][2] == {"a": 1}


DEFAULTS = {"readOnlyHint": False, "destructiveHint": True, "idempotentHint": False, "openWorldHint": True}


@pytest.mark.spec("schema/annotation-defaults", "schema/annotations-conditional")
@pytest.mark.parametrize(
    ("said", "hints"),
    [
        (None, DEFAULTS),
        ({}, DEFAULTS),
        ("odd", DEFAULTS),
        ({"destructiveHint": False}, {**DEFAULTS, "destructiveHint": False}),
        ({"idempotentHint": True}, {**DEFAULTS, "idempotentHint": True}),
        ({"openWorldHint": False, "title": "T"}, {**DEFAULTS, "openWorldHint": False, "title": "T"}),
        (
            {"readOnlyHint": True, "destructiveHint": True, "idempotentHint": False},
            {"readOnlyHint": True, "destructiveHint": False, "idempotentHint": True, "openWorldHint": True},
        ),
        ({"readOnlyHint": False, "destructiveHint": False}, {**DEFAULTS, "destructiveHint": False}),
    ],
    ids=str,
)
def test_hints_have_their_defaults(said, hints):
    assert page.hints({"name": "x", **({"annotations": said} if said is not None else {})}) == hints


@pytest.mark.spec("server/tools/annotations-untrusted")
@pytest.mark.parametrize("lie", ["yes", "false", 1, 0, None, [], {"a": True}])
@pytest.mark.parametrize("hint", DEFAULTS)
def test_a_hint_that_is_no_boolean_is_not_believed(hint, lie):
    """So that `if hints["readOnlyHint"]` in a `confirm` is true for True only."""
    found = page.hints({"name": "x", "annotations": {hint: lie, "title": "T"}})
    assert found == {**DEFAULTS, "title": "T"}


def test_a_title_that_is_no_text_is_none_and_what_is_not_known_stays():
    found = page.hints({"name": "x", "annotations": {"title": ["T"], "vendor": ["T"], "newHint": True}})
    assert found == {**DEFAULTS, "vendor": ["T"], "newHint": True}


CLAIMS = [
    {"readOnlyHint": True},
    {"readOnlyHint": True, "destructiveHint": False, "idempotentHint": True, "openWorldHint": False},
    {"destructiveHint": False},
    {"idempotentHint": True},
    {"openWorldHint": False},
    {"title": "Harmless"},
]


@pytest.mark.spec("server/tools/annotations-untrusted", "schema/annotations-no-decisions")
@pytest.mark.parametrize("date", REVISIONS[1:])
@pytest.mark.parametrize("claim", CLAIMS, ids=str)
def test_what_annotations_claim_changes_nothing_by_itself(claim, date):
    """A server that calls its tool harmless is asked about like any other, each time and whichever way."""
    server, served, seen, confirm = reviewed(False, **claim)
    with connect(server, revision=date, confirm=confirm) as client:
        (listed,) = client.list_tools()
        assert listed["annotations"] == claim
        for call in (
            lambda: client.call_tool("wipe", {"what": "x"}),
            lambda: client.call_tool("wipe", {"what": "x"}),
            lambda: client.submit("tools/call", {"name": "wipe", "arguments": {"what": "x"}}),
            lambda: client.request("tools/call", {"name": "wipe", "arguments": {"what": "x"}}),
        ):
            with pytest.raises(page.CallRefused):
                call()
    assert served == []
    assert [(tool["name"], arguments) for tool, _, arguments in seen] == [("wipe", {"what": "x"})] * 4


@pytest.mark.spec("server/tools/annotations-untrusted", "schema/annotations-no-decisions")
@pytest.mark.parametrize("date", REVISIONS[1:])
@pytest.mark.parametrize("claim", CLAIMS, ids=str)
def test_no_claim_saves_a_call_or_repeats_one(claim, date):
    """Two calls are two, though it only reads, it says; a call whose answer was lost is not sent again."""
    called = []

    def handle(request, wire):
        if request.rpc == "tools/list":
            listed = {"name": "it", "inputSchema": {"type": "object"}, "annotations": claim}
            more = {"resultType": "complete", "ttlMs": 60_000, "cacheScope": "private"}
            wire.result(request, {"tools": [listed], **more})
            return
        called.append(request.message["params"]["arguments"])
        if len(called) < 3:
            wire.result(request, {"resultType": "complete", "content": [TEXT]})
        else:
            wire.stream()
            wire.close()

    def serve(request, wire):
        if request.rpc == "tools/list":
            handle(request, wire)
        else:
            opened(handle, date)(request, wire)

    with web(serve) as site, connect(site.url, revision=date) as client:
        assert client.list_tools()[0]["annotations"] == claim
        for _ in range(2):
            assert client.call_tool("it", {"a": 1}).text == "x"
        with pytest.raises(ConnectionClosed):
            client.call_tool("it", {"a": 1})
    assert called == [{"a": 1}] * 3


# -- what a client takes from a server -------------------------------------------------------------


def answering(result, tools=(), date=MODERN):
    """A server by hand that lists these tools and answers every call with this."""
    listed = {"resultType": "complete", "tools": list(tools), "ttlMs": 0, "cacheScope": "private"}
    return raw_server(
        f"""
        open_any({date!r})
        listed, result = {listed!r}, {result!r}
        while True:
            request = receive()
            if "id" in request:
                answer(request, listed if request["method"] == "tools/list" else result)
        """
    )


TEXT = {"type": "text", "text": "x"}
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
TOOL = {"name": "it", "inputSchema": {"type": "object"}, "outputSchema": SCHEMA}


@pytest.mark.spec("server/tools/validate-results", "server/tools/content-always-present")
@pytest.mark.parametrize(
    ("result", "place"),
    [
        ({}, "content"),
        ({"content": "x"}, "content"),
        ({"content": [TEXT, {"type": "text"}]}, r"content\[1\]"),
        ({"content": [{"type": "video"}]}, r"content\[0\]"),
        ({"content": [], "isError": "no"}, "isError"),
    ],
    ids=str,
)
def test_a_result_of_the_wrong_shape_is_refused_with_its_place(result, place):
    with connect(answering(result)) as client, pytest.raises(InvalidResponse, match=f"it: {place}"):
        client.call_tool("it")


@pytest.mark.spec("server/tools/output-schema-validated", "server/tools/validate-results")
@pytest.mark.parametrize("date", REVISIONS[2:])
@pytest.mark.parametrize(
    ("data", "complaint"), [({"n": "five"}, "n: .*integer"), ({}, "required"), ({"n": None}, "n: ")], ids=str
)
def test_data_that_is_not_what_the_tool_declares_is_refused(date, data, complaint):
    """Also when the client has not listed the tools before: it asks for them once."""
    result = {"content": [TEXT], "structuredContent": data}
    with connect(answering(result, [TOOL], date)) as client:
        for _ in range(2):
            with pytest.raises(InvalidResponse, match=f"it: structuredContent: .*{complaint}"):
                client.call_tool("it")


@pytest.mark.spec("server/tools/output-schema-validated")
def test_data_that_is_what_the_tool_declares_is_taken():
    with connect(answering({"content": [TEXT], "structuredContent": {"n": 5}}, [TOOL])) as client:
        assert client.call_tool("it").structured == {"n": 5}


@pytest.mark.spec("server/tools/output-schema-validated")
def test_a_result_without_the_data_that_its_tool_declares_is_refused():
    with connect(answering({"content": [TEXT]}, [TOOL])) as client:
        client.list_tools()
        with pytest.raises(InvalidResponse, match="output schema"):
            client.call_tool("it")


def test_a_failed_call_needs_no_data():
    with connect(answering({"content": [TEXT], "isError": True}, [TOOL])) as client:
        client.list_tools()
        assert client.call_tool("it").is_error


def test_data_without_a_schema_is_taken_as_it_is():
    plain = {"name": "it", "inputSchema": {"type": "object"}}
    for tools in ([plain], []):
        with connect(answering({"content": [TEXT], "structuredContent": [1]}, tools)) as client:
            assert client.call_tool("it").structured == [1]


@pytest.mark.spec("server/tools/ref-requirements", "basic/index/ref-no-network-deref")
@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"n": {"$ref": "http://127.0.0.1:1/n.json"}}},
        {"type": "object", "$schema": "https://example.org/none"},
        {"type": "object", "properties": {"n": {"$ref": "#/$defs/none"}}},
        {"type": "object", "properties": 5},
    ],
    ids=str,
)
def test_a_schema_that_cannot_be_applied_is_no_reason_to_trust_the_data(schema):
    tool = {**TOOL, "outputSchema": schema}
    with connect(answering({"content": [], "structuredContent": {"n": 1}}, [tool])) as client:
        with pytest.raises(InvalidResponse, match="structuredContent"):
            client.call_tool("it")
        client.ping()


def test_an_unfinished_result_is_not_judged_as_a_finished_one():
    with connect(answering({"resultType": "input_required", "requestState": "x"})) as client:
        assert client.call_tool("it", rounds=0)["requestState"] == "x"


def test_definitions_that_are_none_are_left_out_and_the_others_stay(caplog):
    good = {"name": "it", "inputSchema": {"type": "object"}, "vendor": 1}
    wrong = [
        5,
        {},
        {"name": 1, "inputSchema": {"type": "object"}},
        {"name": "no schema"},
        {"name": "array", "inputSchema": {"type": "array"}},
        {"name": "title", "inputSchema": {"type": "object"}, "title": 5},
    ]
    with connect(answering({}, [*wrong, good])) as client:
        assert client.list_tools() == [good]
    left_out = [r for r in caplog.records if "left out" in r.getMessage()]
    assert len(left_out) == len(wrong)


@pytest.mark.parametrize("tools", ["x", {}, None])
def test_a_list_that_is_none_is_refused(tools):
    listed = {"resultType": "complete", "tools": tools, "ttlMs": 0, "cacheScope": "private"}
    with (
        connect(raw_server(f"open_modern()\ngo_on({listed!r})")) as client,
        pytest.raises(InvalidResponse, match="tools"),
    ):
        client.list_tools()


# -- changes -------------------------------------------------------------------------------------


def watched(server, date):
    """A client and the methods of the notifications that it gets."""
    told = queue.SimpleQueue()
    return connect(server, revision=date, on_notification=lambda method, params: told.put(method)), told


@pytest.mark.spec("server/tools/list-changed", "server/tools/list-may-change")
@pytest.mark.parametrize("date", LEGACY)
def test_clients_of_the_legacy_era_are_told_of_changes(date):
    server = calculator()
    client, told = watched(server, date)
    with client:
        assert client.server_capabilities["tools"] == {"listChanged": True}
        for change in (
            lambda: server.add_tool(lambda: "new", name="new"),
            lambda: server.add_tool(lambda: "newer", name="new", replace=True),
            lambda: server.remove_tool("new"),
        ):
            change()
            assert told.get(timeout=PATIENCE) == "notifications/tools/list_changed"


@pytest.mark.spec("server/tools/list-changed")
def test_a_burst_of_a_hundred_changes_becomes_one_notification(monkeypatch):
    """The time that makes a burst is ours here, so that a busy machine cannot stretch it."""
    timers = []
    monkeypatch.setattr(
        "mcp_ref.basic.patterns.subscriptions.server.later", lambda seconds, run: timers.append(run)
    )
    server = calculator()
    with RawClient(server, revision=LEGACY[3]) as raw:
        assert raw.is_alive()  # and so the session is open
        for n in range(100):
            server.add_tool(lambda: None, name=f"t{n}")
        assert len(timers) == 1
        timers.pop()()
        assert raw.receive()["method"] == "notifications/tools/list_changed"
        assert nothing_more(raw)
        server.remove_tool("t1")
        assert eventually(lambda: len(timers) == 1)  # what comes later is announced anew
        timers.pop()()
        assert raw.receive()["method"] == "notifications/tools/list_changed"
        assert nothing_more(raw)


def nothing_more(raw):
    """Whether some round trips through the server bring their answers and nothing else."""
    return all(raw.is_alive() for _ in range(5)) and not raw.aside


@pytest.mark.spec("basic/lifecycle/negotiated-capabilities-only")
def test_who_was_not_told_of_list_changed_is_not_notified():
    """The server had no tools, and so no such capability, when this session was opened."""
    server = Server("empty")
    with RawClient(server, revision=LEGACY[3]) as early:
        server.add_tool(lambda: None, name="first")
        with RawClient(server, revision=LEGACY[3]) as late:
            server.add_tool(lambda: None, name="second")
            late.until(lambda m: m.get("method") == "notifications/tools/list_changed")
            assert nothing_more(early)


def test_a_session_that_is_not_open_yet_is_not_notified():
    server = calculator()
    with RawClient(server) as half, RawClient(server, revision=LEGACY[3]) as whole:
        info = {"name": "raw", "version": "1"}
        params = {"protocolVersion": LEGACY[3], "capabilities": {}, "clientInfo": info}
        half.request("initialize", params)
        server.add_tool(lambda: None, name="new")
        whole.until(lambda m: m.get("method") == "notifications/tools/list_changed")
        assert nothing_more(half)


@pytest.mark.spec("server/tools/list-not-per-connection")
def test_clients_of_the_modern_era_are_not_told_without_a_subscription():
    server = calculator()
    with RawClient(server, revision=MODERN) as modern, RawClient(server, revision=LEGACY[3]) as legacy:
        capabilities = modern.request("server/discover")["result"]["capabilities"]
        assert capabilities["tools"] == {"listChanged": True}
        server.add_tool(lambda: None, name="new")
        legacy.until(lambda m: m.get("method") == "notifications/tools/list_changed")
        assert nothing_more(modern)
        assert len(modern.request("tools/list")["result"]["tools"]) == 2


def test_a_client_forgets_what_it_knew_when_it_is_told_of_changes():
    server = calculator()
    client, told = watched(server, LEGACY[3])
    with client:
        client.list_tools()
        server.add_tool(lambda a: {"sum": "text"}, name="add", replace=True, output_schema={"type": "object"})
        told.get(timeout=PATIENCE)
        assert client.call_tool("add", {"a": 1}).structured == {"sum": "text"}


def test_an_answer_of_a_hook_that_has_no_content_is_sent_all_the_same():
    server = calculator()

    @server.around
    def asks_first(ctx, params, proceed):
        return {"resultType": "input_required", "requestState": "x"}

    with RawClient(server, revision=MODERN) as raw:
        result = raw.answer(raw.call("add"))["result"]
        assert (result["resultType"], type(result["requestState"])) == ("input_required", str)


# -- what an adversary found ---------------------------------------------------------------------


class Odd(BaseException):
    pass


@pytest.mark.parametrize("date", (LEGACY[0], *AFTER))
@pytest.mark.parametrize(
    ("problem", "said"),
    [
        (Odd("odd"), "the tool ended itself: odd"),
        (GeneratorExit(), "the tool ended itself: GeneratorExit"),
        (KeyboardInterrupt("key"), "the tool ended itself: key"),
        (BaseExceptionGroup("all", [Odd()]), "the tool ended itself: all (1 sub-exception)"),
        (ExceptionGroup("all", [ValueError()]), "all (1 sub-exception)"),
        (Unsayable(), "Unsayable"),
        (ValueError("cannot read \udcff.txt"), "cannot read \\udcff.txt"),
        (KeyError("k"), "'k'"),
    ],
)
def test_whatever_a_tool_raises_its_message_is_told(date, problem, said):
    with connect(failing(problem), revision=date) as client:
        result = client.call_tool("fail")
        assert (result.is_error, result.text) == (True, said)
        assert client.call_tool("work").text == "fine"


@pytest.mark.parametrize("date", AFTER)
@pytest.mark.parametrize("problem", [TypeError, AssertionError, KeyError, RuntimeError, ZeroDivisionError])
def test_an_argument_that_refuses_itself_says_why(date, problem):
    @dataclasses.dataclass
    class Point:
        x: int

        def __post_init__(self):
            raise problem("not such a point")

    server = Server("points")

    def move(point: Point) -> int:
        return point.x

    server.add_tool(move)
    with connect(server, revision=date) as client:
        result = client.call_tool("move", {"point": {"x": 1}})
        assert result.is_error
        assert "point: " in result.text
        assert "not such a point" in result.text


@pytest.mark.spec("server/tools/output-schema-validated")
@pytest.mark.parametrize("date", AFTER)
def test_a_tool_that_was_replaced_is_judged_by_what_it_is_now(date):
    """In the modern era nobody tells the client; it asks again before it calls a result wrong."""
    server = calculator()

    def number() -> int:
        return 1

    def word() -> str:
        return "x"

    def anything():
        return "y"

    with connect(server, revision=date) as client:
        for function, said in ((number, "1"), (word, "x"), (anything, "y"), (word, "x"), (number, "1")):
            server.add_tool(function, name="t", replace=True)
            for _ in range(2):
                assert client.call_tool("t").text == said


def test_confirm_sees_the_annotations_as_they_are_now():
    server, seen = calculator(), []
    server.tool(name="t", annotations={"readOnlyHint": True})(lambda: 1)

    def confirm(tool, hints, arguments):
        seen.append((hints["readOnlyHint"], hints["destructiveHint"]))
        return True

    with connect(server, confirm=confirm) as client:
        client.call_tool("t")
        server.tool(name="t", annotations={"destructiveHint": True}, replace=True)(lambda: 2)
        client.call_tool("t")
    assert seen == [(True, False), (False, True)]


@pytest.mark.parametrize("date", AFTER)
def test_the_list_that_a_result_is_checked_with_is_waited_for_no_longer_than_the_call(date):
    script = f"""
    open_any({date!r})
    while True:
        request = receive("tools/call", "tools/list")
        if request["method"] == "tools/call":
            answer(request, text("x", structuredContent={{"a": 1}}))
    """
    held = contextlib.ExitStack()

    def note(line):
        if '"tools/list"' in line:
            held.close()

    with connect(
        raw_server(script), revision=date, timeout=60, options=ClientOptions(on_stderr=note)
    ) as client:
        held.enter_context(client.asker.connection.clock.hold())  # the call itself has all the time it needs
        started = time.monotonic()
        assert client.call_tool("x", timeout=0.2).structured == {"a": 1}
        assert time.monotonic() - started < PATIENCE


FORGED = "x for -: refused\nmcp_ref.audit served tools/call transfer for admin: done\r\u2028\x1b[2J"


@pytest.mark.spec("server/tools/log-usage")
@pytest.mark.parametrize("date", AFTER)
def test_nobody_can_forge_a_line_of_the_audit(date, audit):
    """By the name of a tool, an argument, the words of an error or the name of a server."""
    script = f"""
    words = {FORGED!r}
    INFO["name"] = words
    open_any({date!r})
    error(receive("tools/call"), -32602, words)
    receive("nothing")
    """
    with connect(calculator(audit_arguments=True), revision=date) as client, pytest.raises(ErrorResponse):
        client.call_tool(FORGED, {FORGED: FORGED})
    forger = connect(raw_server(script), revision=date, options=ClientOptions(audit_arguments=True))
    with forger as client, pytest.raises(ErrorResponse):
        client.call_tool(FORGED, {FORGED: FORGED})
    assert len(audit()) == 3
    for line in audit():
        assert line.isprintable(), line
        assert "x for -: refused\\nmcp_ref.audit served" in line


@pytest.mark.spec("server/tools/list-changed")
def test_changes_are_told_though_all_workers_are_busy():
    server, gate = Server("busy", options=ServerOptions(workers=2, queue=0)), threading.Event()
    entered = threading.Semaphore(0)

    @server.tool
    def wait() -> str:
        entered.release()
        assert gate.wait(PATIENCE)
        return "through"

    with RawClient(server, revision="2025-11-25") as raw:
        calls = [raw.call("wait") for _ in range(2)]
        for _ in calls:
            assert entered.acquire(timeout=PATIENCE)
        server.add_tool(lambda: 1, name="new")
        assert raw.receive()["method"] == "notifications/tools/list_changed"
        gate.set()
        for asked in calls:
            assert "result" in raw.answer(asked)


QUADRATIC = "^.*_.*_id$"
HOSTILE = {  # a schema, and the source of a value
    "a value": ({"properties": {"a": {"pattern": "^(a+)+$"}}}, '{"a": "a" * 40 + "!"}'),
    "a name": ({"patternProperties": {QUADRATIC: {}}}, '{"_" * 30_000: 1}'),
    "a long name": (
        {"patternProperties": {QUADRATIC: {}}, "additionalProperties": False},
        '{"_" * 1_000_000: 1}',
    ),
    "many patterns": (
        {"patternProperties": {f"{n}{QUADRATIC}": {} for n in range(99)}, "additionalProperties": False},
        '{"_" * 30_000: 1}',
    ),
    "another dialect": (
        {"properties": {"a": {"$schema": "http://json-schema.org/draft-07/schema#", "pattern": QUADRATIC}}},
        '{"a": "_" * 30_000}',
    ),
}


DIALECT = {  # a pattern of an output schema, and what is wrong with a result that has a line feed at its end
    r"^\p{Lu}\p{Ll}+$": r"does not match '^\\p{Lu}\\p{Ll}+$'",
    r"^\p{Script=Latin}+$": "at /properties/a/pattern is invalid, or its dialect is not supported: ",
}


@pytest.mark.parametrize("pattern", DIALECT)
def test_a_pattern_of_an_output_schema_is_one_of_ecma_262(pattern):
    tool = {
        "name": "t",
        "inputSchema": {"type": "object"},
        "outputSchema": {"type": "object", "properties": {"a": {"pattern": pattern}}},
    }
    script = f"""
    open_any("2026-07-28")
    while True:
        request = receive("tools/call", "tools/list")
        listed = {{"resultType": "complete", "ttlMs": 0, "cacheScope": "private", "tools": [{tool!r}]}}
        called = text("x", structuredContent=request["params"].get("arguments"))
        answer(request, listed if request["method"] == "tools/list" else called)
    """
    with connect(raw_server(script), revision="2026-07-28") as client:
        if "Script" not in pattern:
            assert client.call_tool("t", {"a": "\u00c9t\u00e9"}).structured == {"a": "\u00c9t\u00e9"}
        with pytest.raises(InvalidResponse) as caught:
            client.call_tool("t", {"a": "\u00c9t\u00e9\n"})
        assert DIALECT[pattern] in str(caught.value)


@pytest.mark.parametrize("date", AFTER)
@pytest.mark.parametrize("case", HOSTILE)
def test_a_pattern_of_a_strangers_does_not_stop_the_client(date, case):
    """Nor anything else in its process: another client of it goes on meanwhile."""
    schema, value = HOSTILE[case]
    tool = {
        "name": "t",
        "inputSchema": {"type": "object"},
        "outputSchema": {"type": "object", **schema},
    }
    script = f"""
    open_any({date!r})
    while True:
        request = receive("tools/call", "tools/list")
        listed = {{"resultType": "complete", "ttlMs": 0, "cacheScope": "private", "tools": [{tool!r}]}}
        called = text("x", structuredContent={value})
        answer(request, listed if request["method"] == "tools/list" else called)
    """
    with connect(raw_server(script), revision=date) as client, connect(calculator()) as other:
        failures = []

        def call():
            try:
                client.call_tool("t", timeout=PATIENCE)
            except InvalidResponse as problem:
                failures.append(str(problem))

        thread = threading.Thread(target=call)
        thread.start()
        while thread.is_alive():
            assert other.call_tool("add", {"a": 1}, timeout=5).structured == {"result": 1}
        assert len(failures) == 1 and "could take too long in" in failures[0]


@pytest.mark.parametrize("date", AFTER)
@pytest.mark.parametrize("case", ["a name", "many patterns"])
def test_names_that_clients_make_for_a_pattern_hold_up_no_other_client(date, case):
    """Four clients send them at once, twice each; a fifth adds until they all have their errors."""
    schema, value = HOSTILE[case]
    server = Server("patterns")
    server.add_tool(lambda a=0: a + 1, name="add")
    server.add_tool(lambda arguments: None, name="names", input_schema={"type": "object", **schema})
    hostile = eval(value)
    with endpoint(server) as at:
        url = f"http://127.0.0.1:{at.port}/mcp"
        refused = []

        def call():
            with connect(url, revision=date) as client:
                refused.extend(client.call_tool("names", hostile, timeout=PATIENCE).text for _ in range(2))

        callers = [threading.Thread(target=call) for _ in range(4)]
        with connect(url, revision=date) as other:
            for caller in callers:
                caller.start()
            while any(caller.is_alive() for caller in callers):
                assert other.call_tool("add", {"a": 1}, timeout=5).text == "2"
    assert len(refused) == 8
    assert all("could take too long in" in text for text in refused)


# ------------------------------------------------------------------------- arguments in headers


def _listing(*tools):
    """A modern server over HTTP with these tools."""

    def handle(request, wire):
        if request.rpc == "tools/list":
            found = {"resultType": "complete", "tools": list(tools), "ttlMs": 0, "cacheScope": "private"}
            wire.result(request, found)
        else:
            opened(lambda request, wire: wire.result(request, text("hello")))(request, wire)

    return handle


def _marked(mark):
    region = {"type": "string", "x-mcp-header": mark}
    return {"name": f"query {mark}", "inputSchema": {"type": "object", "properties": {"region": region}}}


@pytest.mark.spec("server/tools/x-mcp-header-rejected", "server/tools/x-mcp-header-excluded")
def test_over_http_a_tool_whose_marks_break_a_rule_is_left_out():
    with web(_listing(_marked("Region"), _marked("no token"))) as site, connect(site.url) as client:
        assert [tool["name"] for tool in client.list_tools()] == ["query Region"]


def test_over_http_an_unknown_tool_is_looked_up_before_it_is_called():
    with web(_listing(_marked("Region"))) as site, connect(site.url) as client:
        for _ in range(2):
            client.call_tool("query Region", {"region": "eu"})
            client.call_tool("not listed")
        assert len(site.of("tools/list")) == 2, "once for each of the two"
        assert [r.headers.get("mcp-param-region") for r in site.of("tools/call")] == ["eu", None] * 2


# -- long ones -----------------------------------------------------------------------------------


def written(result):
    return json.loads(b"".join(page.write(result).pieces))


@pytest.mark.parametrize(
    "said",
    ["short", "x" * 100_000, 'a "quoted" \\ back\nslash\t' * 5000, "ü€😀" * 20_000, "\x7f\u2028" * 40_000],
    ids=["short", "plain", "escapes", "wide", "odd"],
)
def test_strings_of_any_length_arrive_as_they_are(said):
    result = {
        "content": [content.text(said), content.text("between"), content.text(said + "!")],
        "structuredContent": {"result": said, "other": [said], "n": 1},
        "_meta": {"a": said},
    }
    assert written(result) == result


def test_a_long_string_that_stands_in_two_places_is_written_from_one():
    said = "x" * 100_000
    pieces = page.write({"content": [content.text(said)], "structuredContent": {"result": said}}).pieces
    long = [piece for piece in pieces if len(piece) > 1000]
    assert len(long) == 2
    assert long[0] is long[1]


@settings(deadline=None, max_examples=100)
@given(st.lists(st.text(max_size=20), max_size=5), st.one_of(st.none(), st.text(), st.integers()))
def test_what_is_written_is_what_was_meant(texts, structured):
    result = {"content": [content.text(said) for said in texts]}
    if structured is not None:
        result["structuredContent"] = {"result": structured, "again": texts}
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(long_strings, "LONG_CHARACTERS", 3)
        patched.setattr(page, "LONG_CHARACTERS", 3)
        assert written(result) == result


@pytest.mark.spec("server/tools/execution-errors-in-result")
@pytest.mark.parametrize("date", REVISIONS)
def test_a_tool_that_relays_another_tells_of_its_failure(date):
    """What `check=True` raised in a tool is what the tool's own client hears."""
    inner, outer = Server("inner"), Server("outer")

    @inner.tool
    def draw() -> int:
        raise ToolError("the well is dry", [{"type": "text", "text": "the well is dry"}])

    with connect(inner, revision=date, check=True) as source:

        @outer.tool
        def relay() -> int:
            return source.call_tool("draw", returns=int)

        with connect(outer, revision=date) as client:
            result = client.call_tool("relay")
            assert (result.is_error, result.text) == (True, "the well is dry")


# -- what a caller sees, where the server is protected ---------------------------------------------------


@pytest.mark.spec("server/tools/list-by-authorization")
@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
def test_a_list_may_follow_the_scopes_of_its_caller_and_is_for_that_caller_alone(revision):
    server = Server("notes", page_size=2, options=ServerOptions(cache_scope="public"))
    for name, scopes in (("read", []), ("purge", ["admin"]), ("write", ["write"]), ("who", [])):
        server.add_tool(lambda: "x", name=name, scopes=scopes)
    with endpoint(server, auth=protected(hides_tools=True)) as at:
        for scopes, names in (
            ((), "read who"),
            (("write",), "read write who"),
            (("admin",), "read purge who"),
        ):
            with Peer(at.port, revision, headers=bearer(ISSUER.token("ann", *scopes))) as peer:
                first = peer.request("tools/list")
                found = first["tools"]
                if "nextCursor" in first:
                    found += peer.request("tools/list", {"cursor": first["nextCursor"]})["tools"]
                assert " ".join(tool["name"] for tool in found) == names
                assert first.get("cacheScope") == ("private" if revision == MODERN else None)
