"""basic/lifecycle: the handshake of the legacy era, and what is allowed before each of its steps."""

import itertools
import json
import threading
from types import SimpleNamespace

import pytest
from choices import for_server
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from peers import (
    LEGACY,
    META,
    MODERN,
    PATIENCE,
    REVISIONS,
    Notes,
    RawClient,
    nothing_left,
    one_sentence,
    raw_server,
    source,
)

from mcp_ref import ClientOptions, Context, InvalidResponse, Server, ServerOptions, connect
from mcp_ref.basic import lifecycle
from mcp_ref.basic.index.error_responses import InvalidRequest
from mcp_ref.basic.lifecycle import TRANSITIONS, Negotiated, Session, State, negotiate
from mcp_ref.basic.patterns.index.connection import Connection
from mcp_ref.basic.versioning import UnsupportedProtocolVersion, revision
from mcp_ref.runtime.errors import ConnectionClosed, LocalError
from mcp_ref.runtime.threads.outbox import Outbox
from mcp_ref.runtime.threads.workers import Workers
from mcp_ref.schema import REVISIONS as ALL
from mcp_ref.schema import checker, definitions


@pytest.fixture(autouse=True)
def no_thread_stays():
    with nothing_left():
        yield


INFO = {"name": "raw", "version": "1"}


def opening(date="2025-11-25", **more):
    return {"protocolVersion": date, "capabilities": {}, "clientInfo": INFO, **more}


def telling(**options):
    """A server with a tool, and a method that tells what the session has agreed on."""
    server = Server("telling", **for_server(options))
    server.add_tool(lambda: "served", name="serve")

    @server.on_request("vendor/session")
    def session(params, ctx: Context):
        return {
            "revision": str(ctx.revision),
            "info": ctx.client_info,
            "capabilities": ctx.client_capabilities,
        }

    return server


# -- the table --------------------------------------------------------------------------------

EVENTS = ("initialize", "notifications/initialized")


@pytest.mark.parametrize(("state", "event"), list(itertools.product(State, EVENTS)))
def test_a_session_follows_the_table_and_nothing_else(state, event):
    expected = {
        (State.NEW, "initialize"): State.ANSWERED,
        (State.ANSWERED, "notifications/initialized"): State.OPEN,
    }
    session = Session()
    session.state = state
    if (state, event) in expected:
        session.step(event)
        assert session.state is expected[state, event]
    else:
        with pytest.raises(InvalidRequest, match=f"{event} is not allowed now: the session is {state.value}"):
            session.step(event)
        assert session.state is state


def test_the_table_is_the_one_of_the_docstring():
    for (state, event), following in TRANSITIONS.items():
        row = f"{state.name:<12}{event:<28}{following.name}"
        assert row in lifecycle.__doc__


@pytest.mark.parametrize(
    ("state", "is_negotiated"), [(State.NEW, False), (State.ANSWERED, True), (State.OPEN, True)]
)
def test_a_session_has_a_revision_from_the_answer_on(state, is_negotiated):
    """From then on there is a revision that later messages belong to."""
    session = Session()
    session.state = state
    assert session.is_negotiated == is_negotiated


@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize(
    ("declared", "tells"),
    [
        ({}, False),
        ({"tools": {}}, False),
        ({"tools": {"listChanged": False}}, False),
        ({"tools": {"listChanged": True}}, True),
    ],
)
def test_changes_are_told_only_where_that_was_declared_and_the_client_is_ready(state, declared, tells):
    session = Session()
    session.state, session.server_capabilities = state, declared
    assert session.declares_changes("tools") == tells
    assert session.is_ready == (state is State.OPEN)
    assert not session.declares_changes("prompts")


# -- agreeing on a version --------------------------------------------------------------------


@pytest.mark.spec(
    "basic/lifecycle/echo-supported-version",
    "basic/lifecycle/init-response",
    "basic/lifecycle/respect-version",
    "basic/lifecycle/respect-version-should",
    "basic/versioning/dual-era-selects-legacy",
)
@pytest.mark.parametrize("date", LEGACY)
def test_a_version_that_the_server_has_is_echoed_and_kept(date):
    with RawClient(telling()) as raw:
        assert raw.initialize(date)["protocolVersion"] == date
        for _ in range(2):
            assert raw.request("vendor/session")["result"]["revision"] == date


@pytest.mark.spec("basic/lifecycle/counter-offer-version", "basic/lifecycle/counter-offer-latest")
@pytest.mark.spec("basic/lifecycle/handle-version-mismatch")
@pytest.mark.parametrize("offered", [MODERN, "1999-01-01", "2025-07-01", "", "draft", "9999-99-99"])
def test_another_version_is_countered_with_the_newest_of_the_handshake(offered):
    with RawClient(telling()) as raw:
        assert raw.initialize(offered)["protocolVersion"] == LEGACY[-1]
        assert raw.request("vendor/session")["result"]["revision"] == LEGACY[-1]


@pytest.mark.spec("basic/lifecycle/counter-offer-version", "basic/lifecycle/counter-offer-latest")
@pytest.mark.parametrize("offered", REVISIONS)
@pytest.mark.parametrize("revisions", [("2024-11-05",), ("2025-03-26", "2025-06-18"), ("2025-06-18", MODERN)])
def test_a_server_of_some_revisions_agrees_on_these_only(offered, revisions):
    with RawClient(telling(revisions=revisions)) as raw:
        legacy = [date for date in revisions if date != MODERN]
        assert raw.initialize(offered)["protocolVersion"] == (offered if offered in legacy else legacy[-1])
        assert raw.is_alive()


@given(st.text(max_size=12) | st.sampled_from(ALL), st.sets(st.sampled_from(ALL)))
def test_what_is_agreed_on_is_always_something_the_server_has(offered, supported):
    legacy = [date for date in LEGACY if date in supported]
    if not legacy:
        with pytest.raises(UnsupportedProtocolVersion):
            negotiate(offered, supported)
        return
    agreed = negotiate(offered, supported).date
    assert agreed == (offered if offered in legacy else legacy[-1])


@pytest.mark.spec(
    "basic/versioning/initialize-error-names-versions", "basic/versioning/modern-only-initialize-stdio"
)
@pytest.mark.parametrize("params", [{}, {"protocolVersion": 5}, {"capabilities": {}}, {"_meta": {}}])
def test_a_modern_server_names_its_versions_whatever_else_is_wrong_with_initialize(params):
    with RawClient(source("", options=f"revisions=[{MODERN!r}]")) as raw:
        error = raw.request("initialize", params)["error"]
        assert error["code"] == -32022
        assert error["data"]["supported"] == [MODERN]
        assert MODERN in error["message"]
        assert raw.request("initialize", {"_meta": META})["error"]["message"].endswith(MODERN)


@pytest.mark.spec("basic/versioning/initialize-scoped-to-process", "basic/versioning/dual-era-selects-legacy")
def test_initialize_makes_a_process_a_legacy_one_at_the_version_agreed_on():
    """What comes without `_meta` is served in that version from then on; another process knows of nothing."""
    text = source("server.on_request('vendor/revision')(lambda params, ctx: {'is': ctx.revision.date})")
    with RawClient(text) as one, RawClient(text) as other:
        one.initialize("2025-06-18")
        for _ in range(3):
            assert one.request("vendor/revision")["result"] == {"is": "2025-06-18"}
            assert other.request("vendor/revision")["error"]["code"] == -32602
        assert one.request("initialize", opening("2025-11-25"))["error"]["code"] == -32600
        assert one.request("vendor/revision")["result"] == {"is": "2025-06-18"}


@pytest.mark.spec(
    "basic/versioning/initialize-error-names-versions", "basic/versioning/modern-only-initialize-stdio"
)
@pytest.mark.parametrize("offered", [*LEGACY, MODERN, "1999-01-01"])
def test_a_modern_server_refuses_initialize_and_names_its_versions(offered):
    with RawClient(telling(revisions=[MODERN])) as raw:
        error = raw.request("initialize", opening(offered))["error"]
        assert error["code"] == -32022
        assert error["data"] == {"supported": [MODERN], "requested": offered}
        assert MODERN in error["message"]
        assert "error" in raw.request("vendor/session")
        raw.revision = MODERN
        assert raw.request("vendor/session")["result"]["revision"] == MODERN


# -- the answer -------------------------------------------------------------------------------


@pytest.mark.spec("basic/lifecycle/init-response", "basic/lifecycle/capability-names")
@pytest.mark.parametrize("date", LEGACY)
def test_the_answer_has_the_shape_of_its_revision(date):
    """Version, capabilities, identity, instructions; and nothing that the revision does not know."""
    server = telling(
        title="Telling",
        description="tells",
        website_url="https://example.com",
        icons=[{"src": "https://example.com/i.png"}],
        instructions="Ask it.",
        experimental={"vendor": {"on": True}},
        extensions={"com.example/x": {}},
    )
    with RawClient(server) as raw:
        result = raw.initialize(date)
    checker(lifecycle.InitializeResult, date)(result)
    known = definitions(date)
    assert set(result["serverInfo"]) <= set(known["Implementation"]["properties"])
    assert ("title" in result["serverInfo"]) == (date >= "2025-06-18")
    assert ("icons" in result["serverInfo"]) == (date >= "2025-11-25")
    assert set(result["capabilities"]) == {"tools", "logging", "experimental"}
    assert set(result["capabilities"]) <= set(known["ServerCapabilities"]["properties"])
    assert result["capabilities"]["tools"] == {"listChanged": True}
    assert result["instructions"] == "Ask it."


def test_without_instructions_there_is_no_such_member():
    with RawClient(telling()) as raw:
        assert set(raw.initialize("2025-11-25")) == {"protocolVersion", "capabilities", "serverInfo"}


@pytest.mark.parametrize("date", LEGACY)
def test_the_session_remembers_who_asked_and_what_it_can(date):
    capabilities = {"roots": {"listChanged": True}, "sampling": {}}
    with RawClient(telling()) as raw:
        raw.initialize(date, capabilities)
        told = raw.request("vendor/session")["result"]
        assert told["info"] == INFO
        assert told["capabilities"] == capabilities


@pytest.mark.spec("schema/capabilities-open-set")
@pytest.mark.parametrize("date", LEGACY)
def test_capabilities_that_nobody_knows_are_welcome(date):
    odd = {"vendor": {"x": 1}, "roots": {"more": True}, "com.example/feature": {}}
    with RawClient(telling()) as raw:
        raw.initialize(date, odd)
        assert raw.request("vendor/session")["result"]["capabilities"] == odd


@pytest.mark.spec(
    "basic/lifecycle/negotiated-capabilities-only", "architecture/index/respect-declared-capabilities"
)
@pytest.mark.spec("basic/lifecycle/handle-capability-failure")
@pytest.mark.parametrize("date", LEGACY)
def test_what_the_server_did_not_declare_is_not_there(date):
    with RawClient(Server("bare", options=ServerOptions(logging=False))) as raw:
        assert raw.initialize(date)["capabilities"] == {}
        for method, params in [("tools/list", {}), ("logging/setLevel", {"level": "info"})]:
            assert raw.request(method, params)["error"]["code"] == -32601


@pytest.mark.spec(
    "basic/lifecycle/negotiated-capabilities-only",
    "basic/lifecycle/handle-capability-failure",
    "architecture/index/respect-declared-capabilities",
)
@pytest.mark.parametrize("date", LEGACY)
def test_a_client_asks_for_nothing_that_was_not_declared(date):
    with connect(Server("bare", options=ServerOptions(logging=False)), revision=date) as client:
        for ask in (
            client.list_tools,
            lambda: client.set_log_level("info"),
            lambda: client.request("prompts/list"),
        ):
            with pytest.raises(LocalError, match="the server did not declare the capability"):
                ask()


# -- params that are wrong --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({}, "protocolVersion"),
        ({"protocolVersion": None}, "protocolVersion: must be a string"),
        ({"protocolVersion": 2025}, "protocolVersion: must be a string"),
        ({"protocolVersion": "2025-11-25"}, "capabilities: is required"),
        ({"protocolVersion": "2025-11-25", "capabilities": {}}, "clientInfo: is required"),
        (opening(capabilities=[]), "capabilities: must be an object"),
        (opening(capabilities={"roots": 5}), "capabilities.roots"),
        (opening(clientInfo="me"), "clientInfo: must be an object"),
        (opening(clientInfo={"name": "n"}), "clientInfo.version: is required"),
        (opening(clientInfo={"name": 1, "version": "1"}), "clientInfo.name"),
    ],
)
def test_an_initialize_that_is_badly_made_is_refused_and_may_be_mended(params, words):
    with RawClient(telling()) as raw:
        error = raw.request("initialize", params)["error"]
        assert error["code"] == -32602
        assert error["message"].startswith("initialize: ")
        assert words in error["message"]
        assert raw.initialize("2025-11-25")["protocolVersion"] == "2025-11-25"


@settings(deadline=None, max_examples=50, suppress_health_check=list(HealthCheck))
@given(
    st.fixed_dictionaries(
        {},
        optional={
            "protocolVersion": st.sampled_from([*ALL, "x", None, 5, []]),
            "capabilities": st.sampled_from(
                [{}, None, [], {"roots": {}}, {"roots": []}, {"experimental": {}}, 1]
            ),
            "clientInfo": st.sampled_from([INFO, {}, None, {"name": "n"}, {**INFO, "more": 1}, []]),
            "_meta": st.sampled_from([{}, None, {"progressToken": 1}, {"progressToken": []}, 5]),
            "more": st.integers(),
        },
    )
)
def test_whatever_the_params_of_initialize_it_is_answered(params):
    out = []
    server = telling()
    connection = server.attach(Outbox(out.append))
    message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
    connection.receive(json.dumps(message).encode())
    server.detach(connection, "the test is over")
    [line] = out
    answer = json.loads(line)
    assert answer["id"] == 1
    if "result" in answer:
        checker(lifecycle.InitializeResult, answer["result"]["protocolVersion"])(answer["result"])
    else:
        assert answer["error"]["code"] == -32602


# -- before each step -------------------------------------------------------------------------


@pytest.mark.spec("basic/utilities/ping/either-side", "basic/utilities/ping/respond-empty")
@pytest.mark.parametrize("revisions", [REVISIONS, LEGACY, ("2025-06-18",)])
def test_ping_is_answered_at_any_time(revisions):
    with RawClient(telling(revisions=revisions)) as raw:
        assert raw.request("ping")["result"] == {}
        assert "result" in raw.request("initialize", opening())
        assert raw.request("ping")["result"] == {}
        raw.notify("notifications/initialized")
        assert raw.request("ping")["result"] == {}


@pytest.mark.spec("basic/lifecycle/init-first")
@pytest.mark.parametrize(
    "method",
    [
        "tools/list",
        "tools/call",
        "logging/setLevel",
        "vendor/session",
        "no/such/method",
        "server/discover",
        "",
    ],
)
def test_before_initialize_anything_else_is_refused_with_what_to_send(method):
    with RawClient(telling()) as raw:
        error = raw.request(method, {"level": "info", "name": "serve"})["error"]
        assert error["code"] == -32602
        assert "not initialized" in error["message"]
        assert "send initialize first" in one_sentence(error["message"])
        assert "io.modelcontextprotocol/protocolVersion" in error["message"]  # or how to do without
        assert raw.initialize("2025-06-18")


@pytest.mark.parametrize("method", ["tools/list", "server/discover"])
def test_a_server_without_the_modern_era_names_no_way_into_it(method):
    with RawClient(Server("legacy", revisions=LEGACY)) as raw:
        error = raw.request(method)["error"]
    assert error == {"code": -32602, "message": f"{method}: not initialized; send initialize first"}


@pytest.mark.spec("basic/lifecycle/no-requests-before-initialized")
@pytest.mark.parametrize("date", LEGACY)
def test_a_server_asks_nothing_but_ping_before_its_client_is_ready(date):
    """A request that a client may send early, with a handler of the author's own that asks back."""
    server = Server("early")

    @server.on_request("ping", until="2025-11-25")
    def ping(params, ctx: Context):
        ctx.request("ping")
        return {"roots": ctx.request("roots/list")["roots"]}

    with RawClient(server) as raw:
        raw.request("initialize", opening(date, capabilities={"roots": {}}))
        early = raw.ask("ping")
        asked = raw.receive()
        assert asked["method"] == "ping"
        raw.send({"jsonrpc": "2.0", "id": asked["id"], "result": {}})
        refused = raw.receive()
        assert (refused["id"], refused["error"]["code"]) == (early, -32603)
        raw.notify("notifications/initialized")
        ready = raw.ask("ping")
        for result in ({}, {"roots": [{"uri": "file:///a"}]}):
            raw.send({"jsonrpc": "2.0", "id": raw.receive()["id"], "result": result})
        assert raw.answer(ready)["result"]["roots"] == [{"uri": "file:///a"}]
        assert raw.aside == []


@pytest.mark.spec("basic/lifecycle/init-first")
@pytest.mark.parametrize("date", LEGACY)
@pytest.mark.parametrize("method", ["tools/list", "tools/call", "vendor/session", "no/such/method"])
def test_before_initialized_anything_else_is_refused_with_what_to_send(date, method):
    with RawClient(telling()) as raw:
        raw.request("initialize", opening(date))
        error = raw.request(method, {"name": "serve"})["error"]
        assert error["code"] == -32600
        assert "send notifications/initialized first" in error["message"]
        raw.notify("notifications/initialized")
        assert raw.request("vendor/session")["result"]["revision"] == date


def test_a_method_of_any_length_gives_an_error_of_modest_length():
    with RawClient(telling()) as raw:
        assert len(raw.request("x" * 100_000)["error"]["message"]) < 400


@pytest.mark.spec("basic/lifecycle/initialized-notification")
def test_what_follows_initialized_in_the_same_write_finds_the_session_open():
    with RawClient(telling()) as raw:
        raw.send(
            {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": opening()},
            {"jsonrpc": "2.0", "method": "notifications/initialized"},
            {"jsonrpc": "2.0", "id": 2, "method": "vendor/session"},
        )
        assert raw.receive()["id"] == 1
        assert raw.answer(2)["result"]["revision"] == "2025-11-25"


@pytest.mark.spec("basic/lifecycle/respect-version")
@pytest.mark.parametrize("again", LEGACY)
def test_a_second_initialize_is_refused_and_changes_nothing(again):
    with RawClient(telling()) as raw:
        for before in (False, True):  # before notifications/initialized, and after
            if before:
                raw.notify("notifications/initialized")
            else:
                raw.request("initialize", opening("2025-06-18"))
            error = raw.request("initialize", opening(again, clientInfo={"name": "other", "version": "2"}))[
                "error"
            ]
            assert error["code"] == -32600
            assert "initialized already" in error["message"]
        told = raw.request("vendor/session")["result"]
        assert told == {"revision": "2025-06-18", "info": INFO, "capabilities": {}}


def test_notifications_that_make_no_sense_are_ignored():
    """initialized before initialize does not open anything; a second one does no harm."""
    with RawClient(telling()) as raw:
        raw.notify("notifications/initialized")
        assert "not initialized" in raw.request("vendor/session")["error"]["message"]
        raw.initialize("2025-06-18")
        raw.notify("notifications/initialized")
        raw.notify("notifications/initialized", {"_meta": {}})
        assert raw.request("vendor/session")["result"]["revision"] == "2025-06-18"


@pytest.mark.spec("basic/patterns/cancellation/may-ignore")
def test_initialize_cannot_be_cancelled():
    """It is answered before a cancellation can arrive, and the session is open all the same."""
    with RawClient(telling()) as raw:
        raw.send(
            {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": opening()},
            {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}},
            {"jsonrpc": "2.0", "method": "notifications/initialized"},
        )
        assert "result" in raw.answer(1)
        assert "result" in raw.request("vendor/session")


@pytest.mark.spec("basic/versioning/dual-era-concurrent", "basic/versioning/dual-era-selects-legacy")
def test_sessions_of_different_revisions_and_modern_requests_are_served_at_once():
    """One server, five clients on five pipes, all inside it at the same moment."""
    server = telling(workers=10)
    together = threading.Barrier(5)

    @server.on_request("vendor/meet")
    def meet(params, ctx: Context):
        together.wait(PATIENCE)
        return {"revision": str(ctx.revision)}

    clients = [RawClient(server, revision=date) for date in REVISIONS]
    ids = [raw.ask("vendor/meet") for raw in clients]
    for raw, request_id, date in zip(clients, ids, REVISIONS, strict=True):
        assert raw.answer(request_id)["result"]["revision"] == date
        raw.close()


def test_a_session_ends_with_its_connection():
    server = telling()
    with RawClient(server, revision="2025-06-18") as raw:
        assert raw.is_alive()
    with RawClient(server) as raw:
        assert "not initialized" in raw.request("vendor/session", {})["error"]["message"]


# -- the client half --------------------------------------------------------------------------

RESULT = {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": {"name": "s", "version": "1"}}


def accept(connection, result, supported):
    """A client takes this answer to its initialize."""
    negotiated = Negotiated(INFO, {}, supported)
    negotiated.open_legacy(connection, result)
    return negotiated


@pytest.fixture
def ours():
    """A connection of a client's, and what it wrote."""
    out = []
    connection = Connection(object(), Outbox(out.append), workers=Workers())
    connection.out = out
    yield connection
    connection.end("the test is over")


@pytest.mark.spec("basic/lifecycle/initialized-notification")
@pytest.mark.parametrize("date", LEGACY)
def test_a_client_accepts_a_version_it_has_and_says_so(ours, date):
    result = {**RESULT, "protocolVersion": date, "instructions": "x", "more": 1}
    negotiated = accept(ours, result, ALL)
    assert negotiated.revision.date == date
    assert (negotiated.server_info, negotiated.instructions) == (RESULT["serverInfo"], "x")
    assert [json.loads(line) for line in ours.out] == [
        {"jsonrpc": "2.0", "method": "notifications/initialized"}
    ]
    assert ours.session.revision.date == date
    assert ours.session.state is State.OPEN


@pytest.mark.spec("basic/lifecycle/disconnect-on-unsupported", "schema/initialize-must-disconnect")
@pytest.mark.parametrize("answered", ["1999-01-01", MODERN, "", None, 5, ["2025-06-18"], {}, "2024-11-05"])
def test_a_client_refuses_a_version_it_lacks(ours, answered):
    with pytest.raises(LocalError, match=r"the server speaks .*; this client 2025-06-18, 2026-07-28"):
        accept(ours, {**RESULT, "protocolVersion": answered}, ["2025-06-18", MODERN])
    assert not ours.out
    assert ours.session.state is State.NEW


@pytest.mark.parametrize(
    "wrong",
    [
        {"capabilities": None},
        {"capabilities": []},
        {"capabilities": {"tools": True}},
        {"serverInfo": None},
        {"serverInfo": {}},
        {"serverInfo": {"name": "s"}},
        {"serverInfo": {"name": 5, "version": "1"}},
        {"instructions": 5},
    ],
)
def test_a_client_refuses_an_answer_that_is_badly_made(ours, wrong):
    with pytest.raises(InvalidResponse, match="initialize: "):
        accept(ours, {**RESULT, **wrong}, ALL)
    assert not ours.out
    assert ours.session.state is State.NEW


@pytest.mark.parametrize("missing", ["capabilities", "serverInfo"])
def test_a_client_refuses_an_answer_that_lacks_something(ours, missing):
    with pytest.raises(InvalidResponse, match=f"initialize: {missing}: is required"):
        accept(ours, {key: value for key, value in RESULT.items() if key != missing}, ALL)


def test_without_a_version_there_is_nothing_to_accept(ours):
    with pytest.raises(LocalError, match="the server speaks None"):
        accept(ours, {"capabilities": {}, "serverInfo": INFO}, ALL)


def test_a_client_accepts_once(ours):
    accept(ours, RESULT, ALL)
    with pytest.raises(InvalidRequest, match="the session is open"):
        accept(ours, RESULT, ALL)


@pytest.mark.spec("basic/lifecycle/init-request", "basic/lifecycle/capability-names")
@pytest.mark.parametrize("date", LEGACY)
def test_what_a_client_offers_has_the_shape_of_that_revision(date):
    capabilities = {
        "roots": {"listChanged": True},
        "sampling": {"tools": {}},
        "elicitation": {"form": {}},
        "experimental": {"x": {}},
        "extensions": {"com.example/x": {}},
    }
    info = {**INFO, "title": "T", "icons": [{"src": "https://example.com/i.png"}]}
    params = Negotiated(info, capabilities, [date]).hello()
    checker(lifecycle.InitializeRequestParams, date)(params)
    assert params["protocolVersion"] == date
    known = definitions(date)
    assert set(params["capabilities"]) == set(capabilities) & set(known["ClientCapabilities"]["properties"])
    assert set(params["clientInfo"]) == set(info) & set(known["Implementation"]["properties"])


@pytest.mark.spec(
    "basic/lifecycle/init-first",
    "basic/lifecycle/init-request",
    "basic/lifecycle/initialized-notification",
    "basic/lifecycle/offer-supported-version",
    "basic/lifecycle/offer-latest-version",
    "basic/index/support-base-and-lifecycle",
)
@pytest.mark.parametrize("revisions", [LEGACY, LEGACY[:2], ("2025-03-26",)])
def test_a_client_opens_with_its_newest_version(revisions):
    """Initialize first, then initialized, and only then what its user wants."""
    notes = Notes()
    with connect(
        raw_server("open_legacy()\ngo_on({})"),
        options=ClientOptions(on_stderr=notes, revisions=revisions, name="me"),
    ) as client:
        client.request("vendor/x")
    methods = [message["method"] for message in notes.all]
    assert methods == ["initialize", "notifications/initialized", "vendor/x"]
    offer = notes.all[0]["params"]
    assert offer["protocolVersion"] == revisions[-1]
    assert offer["clientInfo"]["name"] == "me"
    assert offer["capabilities"] == {}
    assert "params" not in notes.all[1]


@pytest.mark.spec("schema/initialize-older-versions", "basic/lifecycle/handle-version-mismatch")
@pytest.mark.parametrize("countered", LEGACY[:3])
def test_a_client_takes_an_older_version_it_also_has(countered):
    notes = Notes()
    script = f"open_legacy({countered!r})\ngo_on({{}})"
    with connect(raw_server(script), options=ClientOptions(on_stderr=notes, revisions=LEGACY)) as client:
        assert client.revision.date == countered
        client.request("vendor/x")
        assert notes.message("initialize")["params"]["protocolVersion"] == LEGACY[-1]


@pytest.mark.spec("schema/initialize-must-disconnect", "basic/lifecycle/disconnect-on-unsupported")
@pytest.mark.parametrize("revisions", [LEGACY, REVISIONS])
def test_a_client_leaves_a_server_whose_version_it_lacks(revisions):
    """It says nothing more and closes the pipe; the server sees the end of input and goes."""
    notes = Notes()
    script = """
    request = receive("server/discover", "initialize")
    while request["method"] != "initialize":
        error(request, -32601)
        request = receive("server/discover", "initialize")
    answer(request, {"protocolVersion": "1999-01-01", "capabilities": ABLE, "serverInfo": INFO})
    while (text := line()) is not None:
        note(["more", json.loads(text)])
    note("end of input")
    """
    options = ClientOptions(on_stderr=notes, revisions=revisions, grace=PATIENCE)
    with pytest.raises(LocalError, match="the server speaks '1999-01-01'; this client 2024-11-05"):
        connect(raw_server(script), options=options)
    assert notes.until(lambda note: note == "end of input")
    assert not [note for note in notes.all if isinstance(note, list)]


@pytest.mark.spec("basic/lifecycle/no-requests-before-init-response")
@pytest.mark.parametrize("date", LEGACY)
def test_a_client_asks_nothing_before_initialize_is_answered(date):
    """It answers a ping meanwhile; its first notification and its first request come after the answer."""
    script = f"""
    hello = receive()
    send(id="early", method="ping")
    receive("")
    note("answered now")
    answer(hello, {{"protocolVersion": {date!r}, "capabilities": ABLE, "serverInfo": INFO}})
    go_on({{}})
    """
    notes = Notes()
    with connect(
        raw_server(script), options=ClientOptions(on_stderr=notes, revisions=LEGACY[: LEGACY.index(date) + 1])
    ) as client:
        client.request("vendor/x")
    seen = [note.get("method", note.get("id")) if isinstance(note, dict) else note for note in notes.all]
    assert seen == ["initialize", "early", "answered now", "notifications/initialized", "vendor/x"]


@pytest.mark.spec("basic/lifecycle/handle-init-timeout")
def test_a_server_that_never_answers_initialize_is_left():
    notes = Notes()
    with pytest.raises((TimeoutError, ConnectionClosed)):
        connect(
            raw_server("go = [receive() for _ in range(9)]"),
            timeout=0.3,
            options=ClientOptions(on_stderr=notes, revisions=LEGACY),
        )
    assert {message["method"] for message in notes.all} <= {"initialize"}  # and it is not cancelled


@pytest.mark.spec("basic/lifecycle/respect-version")
@pytest.mark.parametrize("date", LEGACY)
def test_both_sides_keep_to_what_they_agreed_on(date):
    server = telling(title="Telling")
    with connect(server, revision=date, options=ClientOptions(title="Me")) as client:
        assert client.revision.date == date
        told = client.request("vendor/session")
        assert told["revision"] == date
        assert ("title" in told["info"]) == ("title" in client.server_info) == (date >= "2025-06-18")


def test_modern_context_does_not_stand_in_for_the_handshake_of_later_requests():
    with RawClient(telling()) as raw:
        assert raw.request("vendor/session", {"_meta": META})["result"]["revision"] == MODERN
        assert raw.request("initialize", opening("2025-06-18"))["result"]["protocolVersion"] == "2025-06-18"


# -- what a client and its server agreed on ---------------------------------------------------------


def agreed(revisions=REVISIONS):
    return Negotiated({"name": "tests", "version": "1"}, {"roots": {}}, revisions)


def test_a_session_that_is_assumed_is_open_without_a_handshake():
    session = Session()
    session.assume(revision("2025-03-26"), {"tools": {}, "tasks": {}})
    assert (session.state, session.revision, session.server_capabilities) == (
        State.OPEN,
        "2025-03-26",
        {"tools": {}},
    )


def test_a_server_has_a_name_for_people_if_it_gives_one():
    found = agreed()
    for info, name in [({"title": "The Demo", "name": "demo"}, "The Demo"), ({"name": "demo"}, "demo")]:
        found.server_info = info
        assert found.server_name == name
    for info in ({}, {"name": ""}, {"name": 5}):
        found.server_info = info
        assert found.server_name == "a server without a name"


def test_what_a_request_needs_and_the_server_did_not_declare_is_named():
    found = agreed()
    assert found.undeclared("tools/list") is None, "nothing is known of the server yet"
    found.server_capabilities = {"resources": {}}
    assert found.undeclared("tools/list") == "tools"
    assert found.undeclared("resources/list") is None
    assert found.undeclared("resources/subscribe") == "resources.subscribe"
    assert found.undeclared("vendor/own") is None
    assert found.undeclared("completion/complete") is None, "2024-11-05 has no capability for it"
    found.go_on_in(revision("2025-03-26"))
    with pytest.raises(LocalError, match="completion/complete: the server did not declare"):
        found.check_declared("completion/complete")


def test_a_client_of_modern_versions_alone_has_no_handshake():
    with pytest.raises(LocalError, match=f"the server is a legacy one; this client speaks {MODERN}"):
        agreed([MODERN]).hello()
    assert agreed().hello()["protocolVersion"] == LEGACY[-1]


def test_with_a_modern_server_nothing_is_opened_and_nothing_answered():
    found, peer = agreed(), SimpleNamespace(responder=SimpleNamespace(is_mute=False))
    found.open_modern(peer, revision(MODERN), {"capabilities": {"tools": {}}, "instructions": "be brief"})
    assert (found.revision, found.server_capabilities, found.server_info, found.instructions) == (
        MODERN,
        {"tools": {}},
        {},
        "be brief",
    )
    assert peer.responder.is_mute
