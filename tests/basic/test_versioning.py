"""basic/versioning: the facts of five revisions, the modern door, and what it does to results."""

import itertools
import re
import threading
from pathlib import Path

import pytest
from choices import for_server
from http_peers import Peer, endpoint
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from peers import LEGACY, META, MODERN, PATIENCE, REVISIONS, Notes, RawClient, nothing_left, raw_server

import mcp_ref
from mcp_ref import (
    ClientOptions,
    Context,
    ErrorResponse,
    InvalidResponse,
    ProtocolError,
    Server,
    ServerOptions,
    connect,
)
from mcp_ref.basic import versioning
from mcp_ref.basic.index.error_responses import InvalidParams
from mcp_ref.basic.index.general_fields import (
    CLIENT_CAPABILITIES,
    CLIENT_INFO,
    LOG_LEVEL,
    PROTOCOL_VERSION,
    SERVER_INFO,
    MissingRequiredClientCapability,
    request_meta,
)
from mcp_ref.basic.versioning import (
    LATEST,
    MODERN_CODES,
    TABLE,
    Era,
    Method,
    Notification,
    UnsupportedProtocolVersion,
    check_extensions,
    newest,
    refuse_initialize,
    require_capability,
    revision,
)
from mcp_ref.runtime.errors import LocalError
from mcp_ref.schema import definitions


@pytest.fixture(autouse=True)
def no_thread_stays():
    with nothing_left():
        yield


# -- the facts --------------------------------------------------------------------------------


def test_there_are_five_revisions_the_last_of_them_modern():
    assert tuple(r.date for r in TABLE) == REVISIONS
    assert [r.era for r in TABLE] == [Era.LEGACY] * 4 + [Era.MODERN]
    assert [r.modern for r in TABLE] == [False] * 4 + [True]
    assert LATEST.date == MODERN
    assert [str(r) for r in TABLE] == list(REVISIONS)


@pytest.mark.parametrize(
    ("fact", "by_revision"),
    [
        ("batches", [False, True, False, False, False]),
        ("unreadable_id", ["null", "null", "null", "omitted", "omitted"]),
        ("bad_arguments", ["error", "error", "error", "result", "result"]),
        ("structured", ["none", "none", "object", "object", "any"]),
        ("polls", [False, False, False, True, False]),
        ("resource_not_found", [-32002, -32002, -32002, -32002, -32602]),
    ],
)
def test_the_facts_of_each_revision(fact, by_revision):
    assert [getattr(r, fact) for r in TABLE] == by_revision


@pytest.mark.parametrize("date", REVISIONS)
def test_a_revision_is_found_by_its_date(date):
    assert revision(date).date == date


@pytest.mark.parametrize("date", ["", "2026-07-27", "2025-06", "draft", "DRAFT-2026-v1", "2024-10-07"])
def test_what_is_no_revision_is_refused_with_those_that_are(date):
    with pytest.raises(ValueError, match=r"is not a revision of MCP; there are 2024-11-05, .*2026-07-28"):
        revision(date)


@pytest.mark.parametrize(("index", "other"), list(itertools.product(range(5), repeat=2)))
def test_a_revision_reaches_itself_and_those_before(index, other):
    assert TABLE[index].reaches(REVISIONS[other]) == (index >= other)


@given(st.sets(st.sampled_from([*REVISIONS, "1999-01-01", "draft", "2030-01-01"])), st.sampled_from(Era))
def test_the_newest_is_the_last_known_one_of_its_era(dates, era):
    known = [r for r in TABLE if r.date in dates and r.era is era]
    assert newest(dates, era) == (known[-1] if known else None)
    assert newest(list(dates), era) == newest(dates, era)


@pytest.mark.parametrize(
    ("since", "until", "holds"),
    [
        (REVISIONS[0], REVISIONS[-1], [True] * 5),
        ("2025-03-26", "2025-06-18", [False, True, True, False, False]),
        (MODERN, MODERN, [False] * 4 + [True]),
        ("2025-06-18", REVISIONS[-1], [False, False, True, True, True]),
    ],
)
def test_a_row_is_in_force_between_its_first_and_its_last_revision(since, until, holds):
    row = Method("vendor/x", lambda *args: {}, since=since, until=until)
    assert [row.holds(date) for date in REVISIONS] == holds
    assert [("vendor/x" in versioning.methods((row,), date)) for date in REVISIONS] == holds


def test_a_row_without_a_shape_takes_any_params_and_one_with_a_shape_names_each_fault():
    Method("vendor/x", lambda *args: {}).check({"anything": 1}, MODERN)
    [set_level] = [row for row in versioning_rows() if row.name == "logging/setLevel"]
    set_level.check({"level": "info", "_meta": {}}, "2025-06-18")
    with pytest.raises(InvalidParams, match=r"logging/setLevel: level: is required"):
        set_level.check({}, "2025-06-18")


def test_the_params_of_initialize_are_for_its_handler_to_check_which_finds_out_the_revision():
    [row] = [row for row in versioning_rows() if row.name == "initialize"]
    row.check({}, "2025-06-18")


@pytest.mark.parametrize(
    ("method", "definition"),
    [
        ("tools/call", "CallTool"),  # after its result
        ("resources/templates/list", "ListResourceTemplates"),
        ("ping", "Ping"),  # the result is empty
        ("logging/setLevel", "SetLevel"),
    ],
)
def test_a_row_has_the_name_of_the_official_definition(method, definition):
    [row] = [row for row in versioning_rows() if row.name == method]
    assert row.definition == definition


@pytest.mark.parametrize(
    ("sender", "by_client", "by_server"),
    [("client", True, False), ("server", False, True), ("either", True, True)],
)
def test_a_row_says_which_side_sends(sender, by_client, by_server):
    for row in (Method("vendor/x", dict, sender=sender), Notification("vendor/y", "Y", sender)):
        assert row.is_sent_by("client") == by_client
        assert row.is_sent_by("server") == by_server


def versioning_rows():
    from mcp_ref.api.server import ROWS

    return ROWS


@pytest.mark.spec("schema/removed-methods-2026")
@pytest.mark.parametrize("method", ["initialize", "ping", "logging/setLevel"])
def test_methods_of_the_legacy_era_are_unknown_in_the_modern_one(method):
    with RawClient(Server("modern")) as raw:
        raw.revision = MODERN
        error = raw.request(method, {"level": "info"})["error"]
        assert error["code"] == -32601
        assert method in error["message"]


@pytest.mark.parametrize("date", LEGACY)
def test_methods_of_the_modern_era_are_unknown_in_the_legacy_one(date):
    with RawClient(Server("legacy"), revision=date) as raw:
        assert raw.request("server/discover")["error"]["code"] == -32601


# -- the modern door --------------------------------------------------------------------------


def telling(**options):
    """A server that says what it knows of each request."""
    server = Server("telling", version="3", **for_server(options))

    @server.on_request("vendor/who")
    def who(params, ctx: Context):
        return {
            "revision": str(ctx.revision),
            "info": ctx.client_info,
            "capabilities": ctx.client_capabilities,
            "level": ctx.reports.log_level,
            "token": ctx.reports.progress_token,
        }

    @server.on_request("vendor/needs")
    def needs(params, ctx: Context):
        ctx.require_capability(**params["needs"])
        return {}

    return server


def who(raw, meta):
    answer = raw.request("vendor/who", {"_meta": meta})
    return answer.get("result") or answer["error"]


@pytest.fixture
def raw():
    with RawClient(telling()) as raw:
        yield raw


@pytest.mark.spec("basic/versioning/dual-era-selects-stateless")
def test_a_request_says_itself_who_asks_and_how(raw):
    meta = {
        PROTOCOL_VERSION: MODERN,
        CLIENT_CAPABILITIES: {"roots": {}},
        CLIENT_INFO: {"name": "a", "version": "1"},
        LOG_LEVEL: "error",
        "progressToken": "t",
    }
    told = who(raw, meta)
    assert told["revision"] == MODERN
    assert told["info"] == {"name": "a", "version": "1"}
    assert told["capabilities"] == {"roots": {}}
    assert told["level"] == "error"
    assert told["token"] == "t"


@pytest.mark.spec("basic/index/no-state-from-prior-requests")
def test_nothing_that_one_request_says_counts_for_the_next(raw):
    full = {
        **META,
        CLIENT_CAPABILITIES: {"roots": {}},
        CLIENT_INFO: {"name": "a", "version": "1"},
        LOG_LEVEL: "error",
        "progressToken": "t",
    }
    least = {PROTOCOL_VERSION: MODERN, CLIENT_CAPABILITIES: {}}
    nothing = {"revision": MODERN, "info": {}, "capabilities": {}, "level": None, "token": None}
    for _ in range(2):
        assert who(raw, full)["capabilities"] == {"roots": {}}
        assert {**who(raw, least), **nothing} == who(raw, least)
        for missing in least:  # what the last one brought does not complete this one
            rest = {key: value for key, value in full.items() if key != missing}
            assert who(raw, rest)["code"] == -32602


@pytest.mark.spec("basic/versioning/version-judged-per-request")
@pytest.mark.parametrize("first", [MODERN, "2099-01-01"])
def test_each_request_is_judged_by_its_own_version_whatever_came_before(raw, first):
    """On one connection; an accepted version covers no later one, and a refused version taints none."""
    for date in (first, MODERN, "2099-01-01", "2099-01-02", MODERN, MODERN, "2099-01-01"):
        told = who(raw, {**META, PROTOCOL_VERSION: date})
        if date == MODERN:
            assert told["revision"] == MODERN
        else:
            assert (told["code"], told["data"]["requested"]) == (-32022, date)


@pytest.mark.spec("basic/versioning/version-judged-per-request")
def test_over_http_each_request_of_a_connection_is_judged_by_its_own_version():
    with endpoint(telling()) as at, Peer(at.port) as peer:
        connection = peer.connect()
        for date in (MODERN, "2099-01-01", MODERN, "2099-01-02"):
            message = peer.message("vendor/who", {"_meta": {PROTOCOL_VERSION: date}})
            with peer.post(message, on=connection, MCP_Protocol_Version=date) as reply:
                answer = reply.answer()
            if date == MODERN:
                assert answer["result"]["revision"] == MODERN
            else:
                assert (answer["error"]["code"], answer["error"]["data"]["requested"]) == (-32022, date)


@pytest.mark.spec("basic/versioning/discover-first-optional")
def test_the_first_request_may_be_any(raw):
    assert who(raw, META)["revision"] == MODERN


@pytest.mark.spec("basic/index/meta-missing-field-32602", "basic/index/meta-required-request-fields")
@pytest.mark.parametrize("missing", [PROTOCOL_VERSION, CLIENT_CAPABILITIES])
def test_a_missing_field_is_named(raw, missing):
    error = who(raw, {key: value for key, value in META.items() if key != missing})
    assert error["code"] == -32602
    assert f"{missing}: is required" in error["message"]
    assert who(raw, META)["revision"] == MODERN


@pytest.mark.spec("basic/index/meta-missing-field-32602")
@pytest.mark.parametrize(
    "params", [{}, {"_meta": {}}, {"_meta": None}, {"_meta": {CLIENT_INFO: {"name": "a", "version": "1"}}}]
)
@pytest.mark.parametrize("revisions", [REVISIONS, (MODERN,)])
def test_without_any_of_them_the_error_names_each_way_in(params, revisions):
    with RawClient(telling(revisions=revisions)) as raw:
        error = raw.request("vendor/who", params)["error"]
        assert error["code"] == -32602
        assert ("initialize" in error["message"]) == (revisions is REVISIONS), "if there is that way"
        assert PROTOCOL_VERSION in error["message"]
        assert "clientCapabilities" in error["message"]


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        (PROTOCOL_VERSION, 20260728),
        (PROTOCOL_VERSION, None),
        (PROTOCOL_VERSION, [MODERN]),
        (CLIENT_CAPABILITIES, None),
        (CLIENT_CAPABILITIES, []),
        (CLIENT_CAPABILITIES, True),
        (CLIENT_CAPABILITIES, {"sampling": True}),
        (CLIENT_INFO, "me"),
        (CLIENT_INFO, {}),
        (CLIENT_INFO, {"name": "without a version"}),
        (LOG_LEVEL, "loud"),
        (LOG_LEVEL, 3),
        ("progressToken", 1.5),
        ("progressToken", None),
    ],
)
def test_a_field_of_the_wrong_kind_is_named(raw, field, wrong):
    error = who(raw, {**META, field: wrong})
    assert error["code"] == -32602
    assert f"params._meta: {field}" in error["message"]
    assert who(raw, META)["revision"] == MODERN


@pytest.mark.spec(
    "basic/versioning/unsupported-version-error",
    "basic/versioning/unsupported-version-data",
    "basic/index/error-code-unsupported-version",
)
@pytest.mark.parametrize("requested", ["1999-01-01", "2030-01-01", "", "draft", *LEGACY, "x" * 1000])
def test_a_version_that_the_server_lacks_is_refused_with_those_it_has(raw, requested):
    error = who(raw, {**META, PROTOCOL_VERSION: requested})
    assert error["code"] == -32022
    assert error["data"] == {"supported": [*reversed(REVISIONS)], "requested": requested}
    assert MODERN in error["message"]
    assert ("begins with initialize" in error["message"]) == (requested in LEGACY)
    assert len(error["message"]) < 200
    assert raw.request("server/discover", {"_meta": META})["result"]["supportedVersions"] == [
        *reversed(REVISIONS)
    ], "the versions of the error are among those that discover names"


@pytest.mark.spec("basic/versioning/unsupported-version-error")
def test_an_unknown_version_counts_for_more_than_whatever_else_is_wrong(raw):
    """A client of tomorrow may well send other fields: what it needs to know is the version."""
    assert who(raw, {PROTOCOL_VERSION: "2030-01-01"})["code"] == -32022
    error = raw.request("no/such/method", {"_meta": {PROTOCOL_VERSION: "2030-01-01"}})["error"]
    assert error["code"] == -32022


def test_a_server_of_the_legacy_era_alone_answers_as_one():
    """A modern error would be proof of a modern server, and then no client would initialize."""
    with RawClient(telling(revisions=LEGACY)) as raw:
        error = who(raw, META)
        assert error["code"] not in MODERN_CODES
        assert "initialize" in error["message"]
        raw.initialize("2025-11-25")
        assert who(raw, META)["revision"] == "2025-11-25"


@pytest.mark.spec("basic/versioning/unsupported-version-data", "basic/index/missing-capability-error")
def test_the_errors_have_the_shape_of_their_definitions():
    shapes = definitions(MODERN)
    for error, name in [
        (UnsupportedProtocolVersion("1999-01-01", [MODERN]), "UnsupportedProtocolVersionError"),
        (MissingRequiredClientCapability({"roots": {}}), "MissingRequiredClientCapabilityError"),
    ]:
        shape = shapes[name]["properties"]["error"]["properties"]
        assert shape["code"]["const"] == error.code
        assert set(shape["data"]["properties"]) == set(error.data)
        assert error.code in MODERN_CODES


@pytest.mark.spec("basic/versioning/initialize-error-names-versions")
@pytest.mark.parametrize(
    ("params", "requested"),
    [
        ({"protocolVersion": "2025-11-25"}, "2025-11-25"),
        ({"protocolVersion": 5}, "5"),
        ({}, "None"),
        (["protocolVersion"], "None"),
    ],
    ids=str,
)
def test_initialize_is_refused_with_the_version_that_it_offered(params, requested):
    with pytest.raises(UnsupportedProtocolVersion, match=MODERN) as refused:
        refuse_initialize(params, [MODERN])
    assert refused.value.data == {"supported": [MODERN], "requested": requested}


# -- one request and the next -----------------------------------------------------------------


@pytest.mark.spec(
    "basic/index/no-state-from-prior-requests",
    "basic/index/connection-is-not-session",
    "basic/transports/index/metadata-in-body",
)
def test_nothing_of_one_request_is_left_for_the_next(raw):
    rich = {
        **META,
        CLIENT_CAPABILITIES: {"sampling": {}, "roots": {}, "elicitation": {"form": {}}},
        CLIENT_INFO: {"name": "rich", "version": "9"},
        LOG_LEVEL: "debug",
        "progressToken": 5,
    }
    plain = {PROTOCOL_VERSION: MODERN, CLIENT_CAPABILITIES: {}}
    before = who(raw, plain)
    assert who(raw, rich)["level"] == "debug"
    assert who(raw, plain) == before
    assert (before["info"], before["capabilities"], before["level"], before["token"]) == ({}, {}, None, None)
    assert who(raw, {**plain, PROTOCOL_VERSION: "1999-01-01"})["code"] == -32022
    assert who(raw, plain) == before


@pytest.mark.spec("basic/index/interleaved-conversations", "basic/index/no-state-from-prior-requests")
def test_requests_of_different_clients_run_side_by_side_on_one_pipe():
    """Each still knows its own client while all the others run."""
    server = Server("shared", options=ServerOptions(workers=10))
    together = threading.Barrier(8)

    @server.on_request("vendor/who")
    def who(params, ctx: Context):
        before = (ctx.client_info, ctx.client_capabilities, ctx.reports.log_level)
        together.wait(PATIENCE)
        assert before == (ctx.client_info, ctx.client_capabilities, ctx.reports.log_level)
        return {
            "name": ctx.client_info["name"],
            "level": ctx.reports.log_level,
            "can": ctx.client_capabilities,
        }

    levels = ["debug", "info", "warning", "error"]
    with RawClient(server) as raw:
        for n in range(8):
            meta = {
                PROTOCOL_VERSION: MODERN,
                CLIENT_CAPABILITIES: {"experimental": {f"x{n}": {}}},
                CLIENT_INFO: {"name": f"client {n}", "version": "1"},
                LOG_LEVEL: levels[n % 4],
            }
            raw.send({"jsonrpc": "2.0", "id": n, "method": "vendor/who", "params": {"_meta": meta}})
        for n in range(8):
            told = raw.answer(n)["result"]
            assert told["name"] == f"client {n}"
            assert told["level"] == levels[n % 4]
            assert told["can"] == {"experimental": {f"x{n}": {}}}


@settings(deadline=None, max_examples=50, suppress_health_check=list(HealthCheck))
@given(
    st.lists(
        st.fixed_dictionaries(
            {PROTOCOL_VERSION: st.sampled_from([MODERN, MODERN, "2025-11-25", "2031-01-01"])},
            optional={
                CLIENT_CAPABILITIES: st.sampled_from([{}, {"roots": {}}, {"sampling": {"tools": {}}}, 5]),
                CLIENT_INFO: st.sampled_from(
                    [{"name": "a", "version": "1"}, {"name": "b", "version": "2"}, {}]
                ),
                LOG_LEVEL: st.sampled_from(["debug", "emergency", "loud"]),
            },
        ),
        min_size=2,
        max_size=6,
    )
)
def test_the_answer_to_a_request_depends_on_that_request_alone(metas):
    """Whatever was asked before on the connection."""
    with RawClient(telling()) as raw:
        together = [who(raw, meta) for meta in metas]
    for meta, answer in zip(metas, together, strict=True):
        with RawClient(telling()) as raw:
            assert who(raw, meta) == answer


@pytest.mark.spec("architecture/index/capabilities-per-request", "basic/index/no-state-from-prior-requests")
def test_a_capability_declared_with_one_request_does_not_count_for_the_next(raw):
    able = {**META, CLIENT_CAPABILITIES: {"sampling": {}}}
    for meta, is_served in [(META, False), (able, True), (META, False), (able, True)]:
        answer = raw.request("vendor/needs", {"needs": {"sampling": {}}, "_meta": meta})
        assert ("result" in answer) == is_served


@pytest.mark.spec("basic/index/explicit-state-identifier", "basic/index/no-connection-affinity")
def test_what_lasts_between_requests_is_named_by_the_client_and_not_by_its_connection():
    """The second page of a list belongs to whoever sends the cursor, on whichever connection."""
    server = Server("paged", page_size=1)
    for name in ("one", "two"):
        server.add_tool(lambda: "served", name=name)
    with RawClient(server, revision=MODERN) as raw:
        first = raw.request("tools/list")["result"]
        assert raw.request("tools/list")["result"] == first  # nobody remembers how far this client was
    with RawClient(server, revision=MODERN) as other:
        second = other.request("tools/list", {"cursor": first["nextCursor"]})["result"]
    assert [tool["name"] for page in (first, second) for tool in page["tools"]] == ["one", "two"]


# -- both eras at once ------------------------------------------------------------------------


@pytest.mark.spec(
    "basic/versioning/dual-era-server",
    "basic/versioning/dual-era-concurrent",
    "basic/versioning/dual-era-selects-stateless",
    "basic/versioning/dual-era-selects-legacy",
    "basic/index/connection-is-not-session",
)
@pytest.mark.parametrize("date", LEGACY)
def test_both_eras_on_one_pipe_at_once(date):
    with RawClient(telling()) as raw:
        assert who(raw, META)["revision"] == MODERN  # before there is a session
        raw.initialize(date, {"roots": {}})
        raw.request("logging/setLevel", {"level": "alert"})
        for _ in range(3):
            legacy = raw.request("vendor/who")
            modern = raw.request("vendor/who", {"_meta": META})
            assert legacy["result"]["revision"] == date
            assert legacy["result"]["capabilities"] == {"roots": {}}
            assert legacy["result"]["level"] == "alert"
            assert "resultType" not in legacy["result"]
            assert modern["result"]["revision"] == MODERN
            assert modern["result"]["capabilities"] == {}
            assert modern["result"]["level"] is None
            assert modern["result"]["info"]["name"] == "raw"
            assert modern["result"]["resultType"] == "complete"


def test_a_modern_request_between_initialize_and_initialized_is_served():
    with RawClient(telling()) as raw:
        info = {"name": "x", "version": "1"}
        raw.request("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": info})
        assert who(raw, META)["revision"] == MODERN
        assert "notifications/initialized" in who(raw, {})["message"]
        raw.notify("notifications/initialized")
        assert who(raw, {})["revision"] == "2025-06-18"


def test_a_modern_request_does_not_open_a_session():
    with RawClient(telling()) as raw:
        assert who(raw, META)["revision"] == MODERN
        assert who(raw, {})["code"] == -32602


# -- capabilities of the client ---------------------------------------------------------------


@pytest.mark.spec(
    "basic/index/missing-capability-error",
    "basic/index/error-code-missing-capability",
    "basic/index/no-undeclared-capability",
    "schema/meta-empty-capabilities",
)
@pytest.mark.parametrize(
    ("needed", "declared", "missing"),
    [
        ({"sampling": {}}, {}, {"sampling": {}}),
        ({"sampling": {}}, {"sampling": {}}, None),
        ({"sampling": {}}, {"sampling": {"tools": {}}}, None),
        ({"sampling": {"tools": {}}}, {"sampling": {}}, {"sampling": {"tools": {}}}),
        (
            {"sampling": {"tools": {}, "context": {}}},
            {"sampling": {"context": {}}},
            {"sampling": {"tools": {}}},
        ),
        ({"elicitation": {"url": {}}}, {}, {"elicitation": {"url": {}}}),
        ({"elicitation": {"url": {}}}, {"elicitation": {"form": {}}}, {"elicitation": {"url": {}}}),
        ({"roots": {}, "sampling": {}}, {"roots": {}}, {"sampling": {}}),
        ({"roots": {}, "sampling": {}}, {}, {"roots": {}, "sampling": {}}),
        ({}, {}, None),
    ],
)
def test_a_capability_that_is_needed_and_not_declared_is_named(raw, needed, declared, missing):
    meta = {**META, CLIENT_CAPABILITIES: declared}
    answer = raw.request("vendor/needs", {"needs": needed, "_meta": meta})
    if missing is None:
        assert answer["result"]["resultType"] == "complete"
    else:
        assert answer["error"]["code"] == -32021
        assert answer["error"]["data"] == {"requiredCapabilities": missing}
        for name in missing:
            assert name in answer["error"]["message"]


@pytest.mark.spec("basic/versioning/extension-fallback-or-reject", "extensions/overview/server-checks-client")
def test_an_extension_that_the_client_lacks_is_named(raw):
    needed = {"extensions": {"com.example/x": {}}}
    for declared in ({}, {"extensions": {}}, {"extensions": {"com.example/y": {}}}):
        meta = {**META, CLIENT_CAPABILITIES: declared}
        error = raw.request("vendor/needs", {"needs": needed, "_meta": meta})["error"]
        assert error["data"] == {"requiredCapabilities": needed}
    meta = {**META, CLIENT_CAPABILITIES: needed}
    assert "result" in raw.request("vendor/needs", {"needs": needed, "_meta": meta})


@pytest.mark.spec("basic/index/no-undeclared-capability", "architecture/index/respect-declared-capabilities")
@pytest.mark.parametrize("date", LEGACY)
def test_in_the_legacy_era_the_session_declares(date):
    with RawClient(telling()) as raw:
        raw.initialize(date, {"roots": {}})
        assert "result" in raw.request("vendor/needs", {"needs": {"roots": {}}})
        error = raw.request("vendor/needs", {"needs": {"sampling": {}}})["error"]
        assert error["data"] == {"requiredCapabilities": {"sampling": {}}}


@pytest.mark.parametrize("declared", [{"a": None}, {"a": 1}, {"a": []}, None, []])
def test_capabilities_of_a_strange_kind_declare_nothing_more(declared):
    context = type("Strange", (), {"client_capabilities": declared})()
    with pytest.raises(MissingRequiredClientCapability):
        require_capability(context, {"a": {"b": {}}})


# -- extensions -------------------------------------------------------------------------------


@pytest.mark.spec(
    "index/extensions-opt-in",
    "extensions/overview/disabled-by-default",
    "extensions/overview/server-advertises",
    "extensions/overview/client-advertises",
)
def test_extensions_are_off_unless_somebody_turns_them_on():
    mine = {"com.example/x": {"level": 2}}
    for server_side, client_side in itertools.product((None, mine), (None, mine)):
        server = telling(extensions=server_side)
        with connect(server, options=ClientOptions(extensions=client_side, tasks=False)) as client:
            assert client.server_capabilities.get("extensions") == server_side
            for _ in range(2):  # with each request
                assert client.request("vendor/who")["capabilities"].get("extensions") == client_side


# -- results ----------------------------------------------------------------------------------


def dressed(identify=True, result=None, date=MODERN):
    server = Server("dressed", version="7", title="Dressed", options=ServerOptions(identify=identify))
    server.on_request("vendor/x")(lambda params: result)
    with RawClient(server, revision=date) as raw:
        return raw.request("vendor/x")["result"]


IDENTITY = {SERVER_INFO: {"name": "dressed", "version": "7", "title": "Dressed"}}


@pytest.mark.spec(
    "basic/index/result-type-present", "basic/index/result-type-complete", "basic/index/meta-server-info"
)
def test_a_modern_result_says_that_it_is_complete_and_whose_it_is():
    assert dressed(result={"a": 1}) == {"a": 1, "resultType": "complete", "_meta": IDENTITY}
    assert dressed(result=None) == {"resultType": "complete", "_meta": IDENTITY}


@pytest.mark.spec("basic/index/meta-server-info")
def test_a_server_may_keep_its_identity_to_itself():
    assert dressed(identify=False, result={"a": 1}) == {"a": 1, "resultType": "complete"}


def test_a_handlers_own_meta_stays():
    own = {"com.example/x": 1}
    assert dressed(result={"_meta": own})["_meta"] == {**IDENTITY, **own}
    assert dressed(identify=False, result={"_meta": own})["_meta"] == own


@pytest.mark.spec("basic/index/result-type-extension-values")
@pytest.mark.parametrize("kind", ["complete", "vendor_partial"])
def test_a_handlers_own_result_type_stays(kind):
    assert dressed(result={"resultType": kind})["resultType"] == kind


@pytest.mark.spec("basic/lifecycle/respect-version")
@pytest.mark.parametrize("date", LEGACY)
def test_a_legacy_result_is_as_its_handler_made_it(date):
    assert dressed(result={"a": 1}, date=date) == {"a": 1}
    assert dressed(result=None, date=date) == {}


def test_dressing_leaves_what_the_handler_made_untouched():
    """It may be a constant that every request returns."""
    constant = {"a": 1, "_meta": {"com.example/x": 1}}
    assert dressed(result=constant) == dressed(result=constant)
    assert constant == {"a": 1, "_meta": {"com.example/x": 1}}


# -- the client half --------------------------------------------------------------------------


@pytest.mark.spec(
    "basic/index/meta-required-request-fields",
    "basic/versioning/version-on-each-request",
    "basic/index/meta-client-info",
)
def test_every_request_of_a_modern_client_carries_its_context():
    server = Server("watched")
    server.on_request("vendor/x")(lambda params: {})
    server.add_tool(lambda: "done", name="t")
    seen = []

    @server.around
    def watch(ctx, params, proceed):
        seen.append((ctx.method, ctx.meta))
        return proceed(params)

    with connect(server, options=ClientOptions(name="me", version="4", title="Me")) as client:
        client.request("vendor/x")
        client.request("vendor/x", {"_meta": {"com.example/a": 1}})
        client.submit("vendor/x").result(PATIENCE)
        client.list_tools()
        client.call_tool("t")
        client.ping()
    assert len(seen) >= 7
    expected = request_meta(MODERN, {}, {"name": "me", "version": "4", "title": "Me"})
    for method, meta in seen:
        assert expected.items() <= meta.items(), method


@pytest.mark.parametrize("date", LEGACY)
def test_a_request_of_a_legacy_client_carries_none_of_it(date):
    server = Server("watched")
    server.on_request("vendor/x")(lambda params: {"params": params})
    with connect(server, revision=date) as client:
        assert client.request("vendor/x")["params"] == {}
        assert client.request("vendor/x", {"a": 1})["params"] == {"a": 1}


@pytest.mark.spec("basic/index/result-type-unknown-invalid", "basic/index/result-type-absent-complete")
def test_a_result_of_an_unknown_kind_is_an_invalid_response():
    server = Server("odd")
    server.on_request("vendor/x")(lambda params: params)
    with connect(server, revision=MODERN) as client:
        with pytest.raises(InvalidResponse, match=r"vendor/x: unknown resultType 'vendor_odd'"):
            client.request("vendor/x", {"resultType": "vendor_odd"})
        with pytest.raises(InvalidResponse, match="unknown resultType"):
            client.request("vendor/x", {"resultType": [1]})
        assert client.request("vendor/x")["resultType"] == "complete"
    with connect(server, revision="2025-11-25") as client:
        assert client.request("vendor/x") == {}  # absent: complete


REFUSING = """
request = receive("server/discover")
error(request, -32022, "not that one", data={"supported": ["2031-01-01"], "requested": "2026-07-28"})
go_on()
"""


@pytest.mark.spec("basic/versioning/modern-error-means-modern")
@pytest.mark.spec("basic/versioning/client-retries-supported-version")
def test_a_server_without_a_version_of_ours_is_reported_and_not_asked_to_initialize():
    notes = Notes()
    with pytest.raises(LocalError, match=r"no version in common: the server has 2031-01-01"):
        connect(raw_server(REFUSING), options=ClientOptions(on_stderr=notes))
    assert [message["method"] for message in notes.all] == ["server/discover"]


RETRYING = """
request = receive("server/discover")
error(request, -32022, "ask again", data={"supported": ["2026-07-28", "2031-01-01"], "requested": "?"})
open_modern()
go_on()
"""


@pytest.mark.spec("basic/versioning/client-retries-supported-version")
def test_a_server_that_names_a_version_of_ours_is_asked_again_in_it():
    notes = Notes()
    with connect(raw_server(RETRYING), options=ClientOptions(on_stderr=notes)) as client:
        assert client.revision.date == MODERN
        client.request("vendor/x")
    asked = [message for message in notes.all if "method" in message]
    assert [message["method"] for message in asked] == ["server/discover", "server/discover", "vendor/x"]
    assert {message["params"]["_meta"][PROTOCOL_VERSION] for message in asked} == {MODERN}


@pytest.mark.spec("basic/versioning/unsupported-version-error")
def test_a_client_that_insists_on_a_version_the_server_lacks_is_told():
    with pytest.raises((LocalError, ErrorResponse), match=MODERN):
        connect(telling(revisions=LEGACY), revision=MODERN)


def test_a_handler_may_refuse_a_version_of_its_own_accord():
    server = Server("picky")

    @server.around
    def only_new(ctx, params, proceed):
        if not ctx.revision.reaches("2025-06-18"):
            raise ProtocolError(f"{ctx.method} needs 2025-06-18 or later", code=1)
        return proceed(params)

    server.on_request("vendor/x")(lambda params: {})
    for date in REVISIONS:
        with RawClient(server, revision=date) as raw:
            assert ("error" in raw.request("vendor/x")) == (date < "2025-06-18")


def test_a_revision_is_its_date_to_whoever_compares():
    with connect(Server("s"), revision="2025-06-18") as client:
        assert client.revision == "2025-06-18"
        assert client.revision != "2025-11-25"
        assert {client.revision: 1} == {"2025-06-18": 1}
        with connect(Server("t"), revision=client.revision) as other:
            assert other.revision == client.revision


# -- identifiers of extensions ----------------------------------------------------------------


@pytest.mark.spec("basic/versioning/extension-id-format", "basic/versioning/extension-settings-object")
@pytest.mark.parametrize(
    "extensions",
    [
        {},
        {"io.modelcontextprotocol/tasks": {}},
        {"com.example/one": {}, "com.example/two": {"deep": [1]}},
        {"example/x": {}},
    ],
)
def test_extensions_are_identifiers_with_settings(extensions):
    check_extensions(extensions)
    Server("extended", options=ServerOptions(extensions=extensions))


@pytest.mark.spec("basic/versioning/extension-id-format")
@pytest.mark.parametrize(
    "identifier", ["tasks", "", "com.example/", "/x", "com.example/x/y", "1com/x", "a b/x"]
)
def test_an_extension_needs_a_prefix_and_a_name(identifier):
    for declare in (check_extensions, lambda e: Server("x", options=ServerOptions(extensions=e))):
        with pytest.raises(ValueError, match="it needs prefix/name"):
            declare({identifier: {}})
    with pytest.raises(ValueError, match="it needs prefix/name"):
        connect(Server("x"), options=ClientOptions(extensions={identifier: {}}))


@pytest.mark.spec("basic/versioning/extension-settings-object")
@pytest.mark.parametrize("settings", [None, True, 1, "on", [], [{}]])
def test_the_settings_of_an_extension_are_an_object(settings):
    with pytest.raises(ValueError, match="an object"):
        check_extensions({"com.example/x": settings})


def test_pages_ask_a_revision_for_a_fact_by_its_name():
    """Not whether it is a modern one: that is for this page, for lifecycle, and for few others."""
    asked = re.compile(r"\b(?:revision|at|revision\([a-z]+\))\.modern\b|\.reaches\(")
    modules = Path(mcp_ref.__file__).parent.rglob("*.py")
    elsewhere = [path for path in modules if path.stem not in ("versioning", "lifecycle")]
    hits = [f"{path.name}: {found}" for path in elsewhere for found in asked.findall(path.read_text())]
    assert len(hits) <= 8, hits
