"""Multi round-trip requests (page: basic/patterns/mrtr), both halves, and what the legacy era has instead.

The server's half is asked by a client that speaks by hand, the client's half by a server that does. What a
handler finds when it runs again is in test_replay, the seal of requestState in tests/runtime/test_seals.
"""

import concurrent.futures
import dataclasses
import gc
import json
import threading
import weakref
from types import SimpleNamespace

import pytest
from choices import for_connect, for_server
from peers import LEGACY, META, MODERN, PATIENCE, Notes, RawClient, nothing_left, raw_server

from mcp_ref import (
    ClientOptions,
    Context,
    ErrorResponse,
    McpError,
    ProtocolError,
    RequestCancelled,
    Server,
    ServerOptions,
    connect,
)
from mcp_ref.basic.index.error_responses import InvalidParams
from mcp_ref.basic.patterns.index.context import Handling
from mcp_ref.basic.patterns.mrtr import basic_workflow as mrtr
from mcp_ref.basic.patterns.mrtr.basic_workflow import InputRefused, InputRequired
from mcp_ref.basic.utilities.tasks.behavior_requirements import TaskOptions
from mcp_ref.basic.versioning import revision
from mcp_ref.client.elicitation.requests import Elicit
from mcp_ref.client.elicitation.url_mode import ElicitUrl
from mcp_ref.client.roots import ListRoots
from mcp_ref.client.sampling.creating_messages import Sample
from mcp_ref.runtime.errors import InvalidResponse, LocalError
from mcp_ref.runtime.seals import Seal
from mcp_ref.schema import Mismatch, checker, definitions

CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
ALL = {"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}}
"""What a client declares that may be asked everything."""
REPLY = {"role": "assistant", "content": {"type": "text", "text": "Hi"}, "model": "m"}
YES = {"action": "accept", "content": {}}
FORM = {
    "method": "elicitation/create",
    "params": {
        "mode": "form",
        "message": "Sure?",
        "requestedSchema": {"type": "object", "properties": {}},
    },
}
WITH_FORMS = [*LEGACY[2:], MODERN]
SECRET = "a secret of thirty-two characters"


def asking(raw, params, method="tools/call", capabilities=ALL):
    """The response to a request of a modern client with these capabilities."""
    return raw.request(method, {**params, "_meta": {CAPABILITIES: capabilities}})


def call(raw, tool, arguments=None, **more):
    """The response to a tools/call; `more` are inputResponses and requestState."""
    return asking(raw, {"name": tool, "arguments": arguments or {}, **more})


def go_on(raw, tool, asked, responses, arguments=None):
    """The response to the retry."""
    return call(raw, tool, arguments, inputResponses=responses, requestState=asked["result"]["requestState"])


def text(response):
    return response["result"]["content"][0]["text"]


def refused(response):
    """What is said of a request that was refused for its state or its answers."""
    assert response["error"]["code"] == -32602, response
    return response["error"]["message"]


@pytest.fixture
def server():
    return Server("asking", secret=SECRET)


@pytest.fixture
def raw(server):
    """A modern client of that server."""
    with nothing_left(), RawClient(server, revision=MODERN) as raw:
        yield raw


# ------------------------------------------------------------------------------- shapes


def test_the_shapes_exist_in_2026_07_28_only():
    names = set(mrtr.DEFINITIONS)
    assert names <= set(definitions(MODERN))
    for date in LEGACY:
        assert not names & set(definitions(date))


@pytest.mark.parametrize(
    "result",
    [
        {"resultType": "input_required", "requestState": "opaque"},
        {"resultType": "input_required", "inputRequests": {"roots": {"method": "roots/list"}}},
        {"resultType": "input_required", "inputRequests": {}, "requestState": "", "_meta": {}},
    ],
)
def test_an_unfinished_result_may_carry_requests_a_state_or_both(result):
    checker(mrtr.InputRequiredResult, MODERN)(result)


@pytest.mark.parametrize(
    ("result", "words"),
    [
        ({"requestState": "x"}, "resultType"),
        ({"resultType": "input_required", "requestState": 5}, "requestState"),
        ({"resultType": "input_required", "inputRequests": []}, "inputRequests"),
        ({"resultType": "input_required", "inputRequests": {"a": {"method": "tools/call"}}}, "inputRequests"),
    ],
)
@pytest.mark.spec("basic/patterns/mrtr/input-request-types")
def test_another_unfinished_result_is_refused(result, words):
    """Only elicitation, sampling and roots may be asked for."""
    with pytest.raises(Mismatch, match=words):
        checker(mrtr.InputRequiredResult, MODERN)(result)


def test_a_retry_carries_answers_and_the_state():
    check = checker(mrtr.InputResponseRequestParams, MODERN)
    check({"_meta": META, "inputResponses": {"a": {"action": "decline"}}, "requestState": "opaque"})
    check({"_meta": META})
    with pytest.raises(Mismatch, match="inputResponses"):
        check({"_meta": META, "inputResponses": {"a": 5}})


# --------------------------------------------------------------------- the server asks


@pytest.mark.spec(
    "basic/patterns/mrtr/supported-requests",
    "basic/patterns/mrtr/at-least-one-field",
    "basic/patterns/mrtr/input-requests-optional",
    "basic/patterns/mrtr/request-state-optional",
    "basic/patterns/mrtr/input-request-no-envelope",
    "basic/patterns/mrtr/input-request-types",
)
def test_tools_resources_and_prompts_may_answer_with_a_question(server, raw):
    def sure(ctx):
        return "yes" if ctx.elicit("Sure?").accepted else "no"

    @server.tool
    def tool(ctx: Context) -> str:
        return sure(ctx)

    @server.resource("x://y")
    def resource(ctx: Context) -> str:
        return sure(ctx)

    @server.resource("t://{name}")
    def template(name: str, ctx: Context) -> str:
        return sure(ctx)

    @server.prompt
    def prompt(ctx: Context) -> str:
        return sure(ctx)

    asks = [
        ("tools/call", {"name": "tool", "arguments": {}}),
        ("resources/read", {"uri": "x://y"}),
        ("resources/read", {"uri": "t://z"}),
        ("prompts/get", {"name": "prompt"}),
    ]
    for method, params in asks:
        asked = asking(raw, params, method)["result"]
        checker(mrtr.InputRequiredResult, MODERN)(asked)
        assert set(asked) - {"_meta"} == {"resultType", "inputRequests", "requestState"}
        assert asked["resultType"] == "input_required"
        assert asked["inputRequests"] == {"elicitation-1": FORM}
        more = {"requestState": asked["requestState"]}
        for responses, said in (
            ({"elicitation-1": YES}, '"yes"'),
            ({"elicitation-1": {"action": "decline"}}, '"no"'),
        ):
            done = asking(raw, {**params, **more, "inputResponses": responses}, method)["result"]
            assert done["resultType"] == "complete"
            assert said in json.dumps(done)


def everything(ctx):
    """All four questions at once, and what came of them."""
    asked = (
        Elicit("Sure?"),
        ElicitUrl("Go there", "https://example.com/"),
        Sample("Hi", max_tokens=5),
        ListRoots(),
    )
    answer, url, reply, roots = ctx.ask_all(*asked)
    return f"{answer.action} {url.action} {reply.text} {len(roots)}"


@pytest.mark.spec(
    "basic/index/result-type-input-required",
    "basic/patterns/mrtr/input-request-keys-unique",
    "basic/patterns/mrtr/input-response-keys-match",
)
def test_several_questions_travel_in_one_round_in_the_modern_era(server, raw):
    @server.tool
    def tool(ctx: Context) -> str:
        return everything(ctx)

    asked = call(raw, "tool")
    assert asked["result"]["resultType"] == "input_required"
    requests = asked["result"]["inputRequests"]
    assert {key: request["method"] for key, request in requests.items()} == {
        "elicitation-1": "elicitation/create",
        "elicitation-2": "elicitation/create",
        "sampling-3": "sampling/createMessage",
        "roots-4": "roots/list",
    }
    answers = dict(zip(requests, [YES, {"action": "accept"}, REPLY, {"roots": []}], strict=True))
    assert text(go_on(raw, "tool", asked, answers)) == "accept accept Hi 0"


def test_several_questions_travel_before_any_answer_in_the_legacy_era(server):
    @server.tool
    def tool(ctx: Context) -> str:
        return everything(ctx)

    with RawClient(server, revision="2025-11-25", capabilities=ALL) as raw:
        called = raw.call("tool")
        asked = [raw.receive() for _ in range(4)]  # and only now the answers, in another order
        answers = {"roots/list": {"roots": []}, "sampling/createMessage": REPLY}
        for request in reversed(asked):
            raw.send({"jsonrpc": "2.0", "id": request["id"], "result": answers.get(request["method"], YES)})
        assert text(raw.answer(called)) == "accept accept Hi 0"


def test_one_of_several_that_fails_ends_the_others_in_the_legacy_era(server):
    @server.tool
    def tool(ctx: Context) -> str:
        return everything(ctx)

    with RawClient(server, revision="2025-11-25", capabilities=ALL) as raw:
        called = raw.call("tool")
        first, *others = [raw.receive() for _ in range(4)]
        raw.send({"jsonrpc": "2.0", "id": first["id"], "error": {"code": -1, "message": "no such mood"}})
        cancelled = [raw.receive() for _ in others]
        assert {c["params"]["requestId"] for c in cancelled} == {other["id"] for other in others}
        assert text(raw.answer(called)) == "no such mood (-1)"


def test_a_question_has_a_time_limit_in_the_legacy_era(server):
    @server.tool
    def tool(ctx: Context) -> str:
        return ctx.elicit("Sure?", timeout=0.02).action

    with RawClient(server, revision="2025-11-25", capabilities=ALL) as raw:
        called = raw.call("tool")
        assert raw.receive()["method"] == "elicitation/create"
        assert raw.receive()["method"] == "notifications/cancelled"
        assert "no answer within 0.02 s" in text(raw.answer(called))


@pytest.mark.parametrize("date", WITH_FORMS)
def test_no_question_is_no_round(server, date):
    @server.tool
    def tool(ctx: Context) -> list[str]:
        return ctx.ask_all()

    with connect(server, revision=date) as client:
        assert client.call_tool("tool").structured == {"result": []}


@pytest.mark.parametrize("date", WITH_FORMS)
@pytest.mark.parametrize("wrong", [["a list"], "Sure?", None])
def test_what_is_no_question_is_named(server, date, wrong):
    @server.tool
    def tool(ctx: Context) -> str:
        return str(ctx.ask(wrong))

    with connect(server, revision=date, elicitation=pytest.fail) as client:
        said = client.call_tool("tool")
        assert said.is_error
        assert said.text.startswith("ask_all takes Elicit, ElicitUrl, Sample and ListRoots, not ")


@pytest.mark.parametrize("date", WITH_FORMS)
def test_ten_levels_of_questions(server, date):
    @server.tool
    def tool(ctx: Context, level: int = 0) -> str:
        if level == 10:
            return "done"
        return ctx.elicit(f"level {level}?").action + " " + tool(ctx, level + 1)

    asked = []
    with connect(server, revision=date, elicitation=lambda q: asked.append(q.message) or True) as client:
        assert client.call_tool("tool").text == "accept " * 10 + "done"
    assert asked == [f"level {level}?" for level in range(10)]


@pytest.mark.parametrize("date", WITH_FORMS)
def test_once_runs_once(server, date):
    runs, charged = [], []

    @server.tool
    def tool(ctx: Context) -> str:
        runs.append(1)
        first = ctx.elicit("first?").action
        number = ctx.once("charge", lambda: charged.append(1) or len(charged))
        return f"{first} {number} {ctx.elicit('second?').action} {ctx.once('charge', pytest.fail)}"

    with connect(server, revision=date, elicitation=lambda question: True) as client:
        assert client.call_tool("tool").text == "accept 1 accept 1"
        assert client.call_tool("tool").text == "accept 2 accept 2"
    assert len(runs) == (6 if date == MODERN else 2)


@pytest.mark.parametrize("date", WITH_FORMS)
def test_once_has_a_name(server, date):
    @server.tool
    def tool(ctx: Context) -> str:
        return str(ctx.once(5, int))

    with connect(server, revision=date) as client:
        assert client.call_tool("tool").text == "name is a string, not 5"


@pytest.mark.parametrize("date", WITH_FORMS)
def test_a_thread_of_a_tool_may_ask(server, date):
    @server.tool
    def tool(ctx: Context) -> str:
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            return pool.submit(ctx.elicit, "Sure?").result(PATIENCE).action

    with connect(server, revision=date, elicitation=lambda question: True) as client:
        assert client.call_tool("tool").text == "accept"


@pytest.mark.parametrize("date", WITH_FORMS)
def test_a_hook_may_ask(server, date):
    ran = []

    @server.tool
    def tool(ctx: Context) -> str:
        ran.append(1)
        return f"and {ctx.elicit('The tool: sure?').action}"

    @server.around
    def sure(ctx, params, proceed):
        if ctx.method == "tools/call" and not ctx.elicit("The hook: sure?").accepted:
            raise ProtocolError("not without your consent", code=403)
        return proceed(params)

    asked = []
    with connect(server, revision=date, elicitation=lambda q: asked.append(q.message) or True) as client:
        assert client.call_tool("tool").text == "and accept"
    assert asked == ["The hook: sure?", "The tool: sure?"]
    ran.clear()
    with (
        connect(server, revision=date, elicitation=lambda question: False) as client,
        pytest.raises(ErrorResponse, match="not without your consent"),
    ):
        client.call_tool("tool")
    assert not ran


@pytest.mark.spec("basic/patterns/mrtr/no-retry-assumption")
def test_nothing_is_kept_for_a_retry_that_may_never_come(server, raw):
    class Held:
        pass

    held, connections = [], set()

    @server.tool
    def tool(ctx: Context) -> str:
        mine = Held()
        held.append(weakref.ref(mine))
        connections.add(ctx.connection)
        return f"{ctx.elicit('Sure?').action} {mine}"

    before = threading.active_count()
    for _ in range(50):
        call(raw, "tool")
    assert threading.active_count() < before + 25  # a few idle workers, and none for each question
    assert all(connection.responder.serving == {} for connection in connections)
    gc.collect()
    assert len(held) == 50
    assert [thing for thing in held[:-1] if thing() is not None] == []


def test_a_process_that_made_up_its_secret_says_that_others_need_the_same():
    def replica(**options):
        server = Server("replica", **for_server(options))

        @server.tool
        def tool(ctx: Context) -> str:
            return ctx.elicit("Sure?").action

        return RawClient(server, revision=MODERN)

    with replica() as one, replica() as two, replica(secret=SECRET) as three:
        asked = call(one, "tool")
        said = refused(go_on(two, "tool", asked, {"elicitation-1": YES}))
        assert "tools/call: requestState is refused: it was altered" in said
        assert "the processes behind one URL need one secret, Server(secret=...)" in said
        assert "Server(secret" not in refused(go_on(three, "tool", asked, {"elicitation-1": YES}))


@pytest.mark.spec("basic/patterns/mrtr/retry-self-contained")
def test_any_process_with_the_secret_serves_the_retry():
    """Four servers that know of each other nothing but the secret; each round goes to another one."""

    def replica():
        server = Server("replica", secret=SECRET)

        @server.tool
        def tool(ctx: Context) -> str:
            return " ".join(ctx.elicit(f"{n}?").action for n in range(3))

        return RawClient(server, revision=MODERN)

    with replica() as one, replica() as two, replica() as three, replica() as four:
        response = call(one, "tool")
        for raw in (two, three, four):
            key, *_ = response["result"]["inputRequests"]
            response = go_on(raw, "tool", response, {key: YES})
        assert text(response) == "accept accept accept"


# ------------------------------------------------------------ the server asks: what is refused


@pytest.fixture
def twice(server):
    """A tool with two arguments that asks twice."""

    @server.tool
    def book(date: str, seats: int = 1, ctx: Context = None) -> str:
        return f"{ctx.elicit('first?').action} {ctx.elicit('second?').action}"

    @server.tool
    def cancel(date: str, seats: int = 1, ctx: Context = None) -> str:
        return "cancelled"

    return server


FRIDAY = {"date": "Friday"}


@pytest.mark.spec(
    "basic/patterns/mrtr/request-state-integrity",
    "basic/patterns/mrtr/request-state-reject-tampered",
    "basic/patterns/mrtr/request-state-untrusted",
    "basic/patterns/mrtr/malformed-is-error",
)
def test_a_state_altered_by_one_bit_at_any_position_is_refused(twice, raw):
    state = call(raw, "book", FRIDAY)["result"]["requestState"]
    for position in range(len(state)):
        altered = state[:position] + chr(ord(state[position]) ^ 1) + state[position + 1 :]
        answer = {"requestState": altered, "inputResponses": {"elicitation-1": YES}}
        assert "requestState is refused" in refused(call(raw, "book", FRIDAY, **answer))


def test_a_state_that_was_truncated_is_refused(twice, raw):
    state = call(raw, "book", FRIDAY)["result"]["requestState"]
    for length in range(0, len(state), 7):
        assert "requestState is refused" in refused(call(raw, "book", FRIDAY, requestState=state[:length]))


@pytest.mark.spec("basic/patterns/mrtr/request-state-request-digest")
def test_a_state_on_another_request_is_refused(twice, raw):
    asked = call(raw, "book", FRIDAY)
    state = asked["result"]["requestState"]
    others = [
        ("cancel", FRIDAY),
        ("book", {"date": "Monday"}),
        ("book", {"date": "Friday", "seats": 1}),
        ("book", {}),
    ]
    for tool, arguments in others:
        said = refused(call(raw, tool, arguments, requestState=state))
        assert "belongs to another request, caller or server" in said
    assert "another request" in refused(
        asking(raw, {"name": "book", "arguments": FRIDAY, "more": 1, "requestState": state})
    )
    assert (
        "elicitation-2"
        in go_on(raw, "book", asked, {"elicitation-1": YES}, FRIDAY)["result"]["inputRequests"]
    )


def test_what_may_differ_between_the_rounds_is_meta(twice, raw):
    """Another progress token, say, or trace context."""
    asked = call(raw, "book", FRIDAY)["result"]
    params = {"name": "book", "arguments": FRIDAY, "requestState": asked["requestState"]}
    again = raw.request("tools/call", {**params, "_meta": {CAPABILITIES: ALL, "progressToken": 7}})
    assert again["result"]["resultType"] == "input_required"


def stand_in(principal="ann", seal=None, **params):
    """As much of a request's context as `resume` and `question` look at."""
    return SimpleNamespace(
        is_over=False,
        connection=SimpleNamespace(is_inherited=False),
        handling=Handling(server=SimpleNamespace(seal=seal or Seal([SECRET.encode()])), asks=True),
        revision=revision(MODERN),
        client_capabilities=ALL,
        principal=principal,
        method="tools/call",
        params={"name": "book", **params},
    )


def asked_by(context):
    """The question of a handler that asks one, in that context."""
    with pytest.raises(InputRequired):
        mrtr.ask(context, [Elicit("Sure?").question(context)])
    return mrtr.input_required_result(context)


@pytest.mark.spec("basic/patterns/mrtr/request-state-principal")
def test_a_state_in_the_hands_of_another_principal_is_refused():
    state = asked_by(stand_in("ann"))["requestState"]
    mrtr.resume(stand_in("ann", requestState=state))
    for principal in ("bob", None, "Ann", ""):
        with pytest.raises(InvalidParams, match="caller"):
            mrtr.resume(stand_in(principal, requestState=state))


@pytest.mark.spec("basic/patterns/mrtr/request-state-principal")
def test_a_state_replayed_by_another_principal_is_refused_by_a_server():
    server = Server("for each their own", principal=lambda ctx: ctx.client_info["name"])

    @server.tool
    def tool(ctx: Context) -> str:
        return f"{ctx.principal} {ctx.elicit('Sure?').action}"

    def call_as(name, **more):
        meta = {CAPABILITIES: ALL, "io.modelcontextprotocol/clientInfo": {"name": name, "version": "1"}}
        return raw.request("tools/call", {"name": "tool", **more, "_meta": meta})

    with RawClient(server, revision=MODERN) as raw:
        state = call_as("ann")["result"]["requestState"]
        again = {"requestState": state, "inputResponses": {"elicitation-1": YES}}
        assert "caller" in refused(call_as("bob", **again))
        assert text(call_as("ann", **again)) == "ann accept"


def test_principal_method_and_params_are_bound_apart():
    """No two requests share a binding, whatever stands in their names."""
    one, two = stand_in("ann", name='x","tools/call'), stand_in('ann","x', name="tools/call")
    assert mrtr._binding(one) != mrtr._binding(two)
    assert mrtr._binding(stand_in(a=1)) == mrtr._binding(
        stand_in(a=1, requestState="x", inputResponses={}, _meta={})
    )
    assert mrtr._binding(stand_in(a=1)) != mrtr._binding(stand_in(a=True))


@pytest.mark.spec("basic/patterns/mrtr/request-state-expiry")
def test_a_state_expires():
    now = [0.0]
    seal = Seal([SECRET.encode()], 900.0, lambda: now[0])
    state = asked_by(stand_in(seal=seal))["requestState"]
    now[0] = 899.0
    mrtr.resume(stand_in(seal=seal, requestState=state))
    now[0] = 901.0
    with pytest.raises(InvalidParams, match="it has expired"):
        mrtr.resume(stand_in(seal=seal, requestState=state))


def test_how_long_a_state_is_good_can_be_set():
    server = Server("hasty", options=ServerOptions(state_seconds=0.001))

    @server.tool
    def tool(ctx: Context) -> str:
        return ctx.elicit("Sure?").action

    with RawClient(server, revision=MODERN) as raw:
        asked = call(raw, "tool")
        threading.Event().wait(0.005)
        assert "expired" in refused(go_on(raw, "tool", asked, {"elicitation-1": YES}))


@pytest.mark.parametrize(
    ("first", "second", "good"),
    [
        (SECRET, SECRET.encode(), True),
        (SECRET, ["a newer secret of enough bytes", SECRET], True),
        (["a newer secret of enough bytes", SECRET], "a newer secret of enough bytes", True),
        (["a newer secret of enough bytes", SECRET], SECRET, False),
        (SECRET, "another secret of enough bytes", False),
        (None, None, False),
    ],
)
def test_servers_that_share_a_secret_read_each_others_state(first, second, good):
    servers = [Server("shared", secret=secret) for secret in (first, second)]
    for server in servers:

        @server.tool
        def tool(ctx: Context) -> str:
            return ctx.elicit("Sure?").action

    with RawClient(servers[0], revision=MODERN) as one, RawClient(servers[1], revision=MODERN) as two:
        asked = call(one, "tool")
        again = go_on(two, "tool", asked, {"elicitation-1": YES})
        if good:
            assert text(again) == "accept"
        else:
            refused(again)


@pytest.mark.spec("basic/patterns/mrtr/ask-again-when-missing", "basic/patterns/mrtr/repeat-input-required")
def test_a_missing_response_is_asked_for_again(server, raw):
    @server.tool
    def tool(ctx: Context) -> str:
        return " ".join(answer.action for answer in ctx.ask_all(Elicit("a?"), Elicit("b?")))

    asked = call(raw, "tool")
    for responses in ({}, {"elicitation-1": YES}, {}):
        asked = go_on(raw, "tool", asked, responses)
    assert list(asked["result"]["inputRequests"]) == ["elicitation-2"]
    without = call(raw, "tool", requestState=asked["result"]["requestState"])  # no inputResponses at all
    assert list(without["result"]["inputRequests"]) == ["elicitation-2"]
    assert text(go_on(raw, "tool", asked, {"elicitation-2": {"action": "decline"}})) == "accept decline"


@pytest.mark.spec("basic/patterns/mrtr/ignore-extra-inputs")
def test_unknown_and_extra_responses_are_ignored(twice, raw):
    early = call(raw, "book", FRIDAY, inputResponses={"elicitation-1": YES})  # asked nothing, yet
    assert list(early["result"]["inputRequests"]) == ["elicitation-1"]
    extra = {"elicitation-1": YES, "elicitation-2": {"action": "decline"}, "what": 5}
    asked = go_on(raw, "book", early, extra, FRIDAY)
    assert list(asked["result"]["inputRequests"]) == ["elicitation-2"]
    again = {"elicitation-1": {"action": "decline"}, "elicitation-2": YES}  # the first was answered before
    assert text(go_on(raw, "book", asked, again, FRIDAY)) == "accept accept"


MALFORMED = {
    "elicitation": [5, None, [], {}, {"action": "yes"}, {"action": "accept", "content": 5}, REPLY],
    "sampling": [{}, YES, {**REPLY, "content": "Hi"}, {**REPLY, "model": 5}, {**REPLY, "role": "boss"}],
    "roots": [{}, {"roots": 5}, {"roots": ["/tmp"]}, {"roots": [{}]}],
}


@pytest.mark.spec("basic/patterns/mrtr/validate-input-responses", "basic/patterns/mrtr/malformed-is-error")
@pytest.mark.parametrize("kind", MALFORMED)
def test_a_malformed_response_is_refused_with_its_place(server, raw, kind):
    question = {"elicitation": Elicit("?"), "sampling": Sample("?", max_tokens=5), "roots": ListRoots()}[kind]

    @server.tool
    def tool(ctx: Context) -> str:
        return str(ctx.ask(question))

    asked = call(raw, "tool")
    for response in MALFORMED[kind]:
        said = refused(go_on(raw, "tool", asked, {f"{kind}-1": response}))
        assert said.startswith(f"inputResponses.{kind}-1: ")


@pytest.mark.parametrize(
    "params",
    [
        {"inputResponses": []},
        {"inputResponses": None},
        {"inputResponses": "yes"},
        {"requestState": 5},
        {"requestState": None},
        {"requestState": ["x"]},
        {"requestState": ""},
        {"requestState": "é"},
        {"requestState": "A" * 100},
    ],
    ids=repr,
)
def test_malformed_params_of_a_retry_are_refused(twice, raw, params):
    assert refused(call(raw, "book", FRIDAY, **params))
    assert raw.is_alive()


def test_a_question_that_differs_each_time_ends_in_a_clear_error(server):
    ticks = iter(range(1000))

    @server.tool
    def tool(ctx: Context) -> str:
        return ctx.elicit(f"It is {next(ticks)}: sure?").action

    asked = []
    with (
        connect(server, revision=MODERN, elicitation=lambda q: asked.append(q.message) or True) as client,
        pytest.raises(ErrorResponse, match="the questions differ each time this runs") as problem,
    ):
        client.call_tool("tool")
    assert problem.value.code == -32603
    assert len(set(asked)) == len(asked) == 6


def test_questions_in_another_order_never_get_each_others_answer(server):
    order = iter(["ab", "ba", "ba", "ba", "ab", "ab", "ab"])

    @server.tool
    def tool(ctx: Context) -> str:
        answers = {name: ctx.elicit(name, Who).data.name for name in next(order)}
        return f"{answers['a']} {answers['b']}"

    with connect(server, revision=MODERN, elicitation=lambda q: {"name": q.message.upper()}) as client:
        assert client.call_tool("tool").text == "A B"


@dataclasses.dataclass
class Who:
    name: str


def test_a_state_that_grows_too_large_is_a_clear_error(server):
    @server.tool
    def tool(ctx: Context) -> str:
        ctx.once("much", lambda: "x" * (4 << 20))
        return ctx.elicit("Sure?").action

    with (
        connect(server, revision=MODERN, elicitation=lambda question: True) as client,
        pytest.raises(ErrorResponse, match="the answers so far do not fit requestState"),
    ):
        client.call_tool("tool")


# ----------------------------------------------------- the server asks: handlers that get in the way


def swallow(ask):
    try:
        return ask("Sure?").action
    except:  # noqa: E722
        return "swallowed"


def replace(ask):
    try:
        return ask("Sure?").action
    except BaseException:
        raise RuntimeError("replaced") from None


def go_on_asking(ask):
    try:
        ask("Sure?")
    except BaseException:
        pass
    return ask("Really?").action


def in_between(ask):
    try:
        return ask("Sure?").action
    finally:
        raise ProtocolError("on the way out", code=7)


@pytest.mark.parametrize("run", [swallow, replace, go_on_asking])
@pytest.mark.parametrize("kind", ["tool", "prompt", "resource"])
def test_a_handler_that_catches_everything_still_asks(server, kind, run):
    def handler(ctx: Context) -> str:
        return run(ctx.elicit)

    if kind == "tool":
        server.tool(handler)
    elif kind == "prompt":
        server.prompt(handler)
    else:
        server.resource("x://y")(handler)
    asked = []
    with connect(server, revision=MODERN, elicitation=lambda q: asked.append(q.message) or True) as client:
        if kind == "tool":
            result = client.call_tool("handler")
        elif kind == "prompt":
            result = client.get_prompt("handler")
        else:
            result = client.read_resource("x://y")
    assert result.text == "accept"
    assert asked == (["Sure?", "Really?"] if run is go_on_asking else ["Sure?"])


# ------------------------------------------------------------ the server asks: what it may not


def lacking(capabilities, question):
    """A response to a request of a client that did not declare what the question needs."""
    server = Server("asking")

    @server.tool
    def tool(ctx: Context) -> str:
        return str(ctx.ask(question))

    with RawClient(server, revision=MODERN) as raw:
        return asking(raw, {"name": "tool"}, capabilities=capabilities)


URL = ElicitUrl("Go", "https://example.com/")
TOOLS = [{"name": "x", "inputSchema": {"type": "object"}}]


@pytest.mark.spec("basic/patterns/mrtr/no-undeclared-input-request", "client/elicitation/no-unsupported-mode")
@pytest.mark.parametrize(
    ("capabilities", "question", "required"),
    [
        ({}, Elicit("?"), {"elicitation": {"form": {}}}),
        ({"sampling": {}, "roots": {}}, Elicit("?"), {"elicitation": {"form": {}}}),
        ({"elicitation": {"url": {}}}, Elicit("?"), {"elicitation": {"form": {}}}),
        ({"elicitation": {}}, URL, {"elicitation": {"url": {}}}),
        ({"elicitation": {"form": {}}}, URL, {"elicitation": {"url": {}}}),
        ({"elicitation": {}}, Sample("?", max_tokens=5), {"sampling": {}}),
        ({"sampling": {}}, Sample("?", max_tokens=5, tools=TOOLS), {"sampling": {"tools": {}}}),
        ({"elicitation": {}}, ListRoots(), {"roots": {}}),
    ],
)
def test_what_a_client_did_not_declare_is_never_asked_in_the_modern_era(capabilities, question, required):
    error = lacking(capabilities, question)["error"]
    assert error["code"] == -32021
    assert error["data"] == {"requiredCapabilities": required}


def test_of_several_questions_all_that_a_client_lacks_is_told_at_once(raw, server):
    @server.tool
    def tool(ctx: Context) -> str:
        return str(ctx.ask_all(URL, Elicit("?"), Sample("?", max_tokens=5), ListRoots()))

    error = asking(raw, {"name": "tool"}, capabilities={})["error"]
    required = {"elicitation": {"url": {}, "form": {}}, "sampling": {}, "roots": {}}
    assert (error["code"], error["data"]) == (-32021, {"requiredCapabilities": required})


@pytest.mark.spec("client/elicitation/empty-capability-means-form")
def test_an_empty_capability_means_forms(raw, server):
    @server.tool
    def tool(ctx: Context) -> str:
        return ctx.elicit("Sure?").action

    asked = asking(raw, {"name": "tool"}, capabilities={"elicitation": {}})
    assert asked["result"]["inputRequests"] == {"elicitation-1": FORM}


@pytest.mark.parametrize("date", LEGACY[2:])
@pytest.mark.parametrize(
    ("capabilities", "question", "said"),
    [
        ({}, Elicit("?"), "elicitation/create: the client did not declare the capability elicitation"),
        (
            {"elicitation": {"url": {}}},
            Elicit("?"),
            "the client did not declare the capability elicitation.form",
        ),
        (
            {},
            Sample("?", max_tokens=5),
            "sampling/createMessage: the client did not declare the capability sampl",
        ),
        ({}, ListRoots(), "roots/list: the client did not declare the capability roots"),
    ],
)
def test_what_a_client_did_not_declare_is_a_clear_error_in_the_legacy_era(date, capabilities, question, said):
    server = Server("asking")

    @server.tool
    def tool(ctx: Context) -> str:
        return str(ctx.ask(question))

    @server.prompt
    def prompt(ctx: Context) -> str:
        return str(ctx.ask(question))

    with RawClient(server, revision=date, capabilities=capabilities) as raw:
        response = raw.answer(raw.call("tool"))
        assert response["result"]["isError"]
        assert said in text(response)
        assert said in raw.request("prompts/get", {"name": "prompt"})["error"]["message"]
        assert not raw.aside


@pytest.mark.spec("client/elicitation/no-unsupported-mode")
def test_a_url_is_never_sent_to_a_legacy_client_without_that_mode(server):
    @server.tool
    def tool(ctx: Context) -> str:
        return str(ctx.ask(URL))

    with RawClient(server, revision="2025-11-25", capabilities={"elicitation": {}}) as raw:
        said = text(raw.answer(raw.call("tool")))
    assert said == "elicitation/create: the client did not declare the capability elicitation.url"


@pytest.mark.parametrize("date", ["2024-11-05", "2025-03-26"])
def test_revisions_without_elicitation_have_none(server, date):
    @server.tool
    def tool(ctx: Context) -> str:
        return ctx.elicit("Sure?").action

    with RawClient(server, revision=date, capabilities=ALL) as raw:
        said = text(raw.answer(raw.call("tool")))
    assert said == f"elicitation by form came with 2025-06-18; this client speaks {date}"


@pytest.mark.spec("basic/patterns/mrtr/unsupported-requests")
def test_no_other_method_asks(server, raw):
    problems = []

    @server.on_request("vendor/ask")
    def ask(params, ctx: Context):
        try:
            ctx.elicit("Sure?")
        except LocalError as problem:
            problems.append(str(problem))
            raise ProtocolError("cannot ask", code=1) from None

    @server.on_request("vendor/own")
    def own(params, ctx: Context):
        return {"resultType": "input_required", "inputRequests": {"a": FORM}}

    assert asking(raw, {}, "vendor/ask")["error"]["message"] == "cannot ask"
    assert problems == ["vendor/ask: only tools/call, prompts/get, resources/read may ask the client"]
    error = asking(raw, {}, "vendor/own")["error"]
    assert error["code"] == -32603
    assert "may ask" in error["message"]
    retried = {"inputResponses": {}, "requestState": "x"}  # of no meaning here, and so ignored
    assert "error" not in asking(raw, retried, "tools/list") or not server.offers("tools")


def test_a_client_asks_nobody():
    """Its handlers of a server's requests have a context too."""
    context = SimpleNamespace(handling=Handling())
    with pytest.raises(LocalError, match="only the handlers of a server can ask"):
        mrtr.ask(context, [])


def test_a_forked_process_is_told_that_it_cannot_ask():
    """And not that its request was answered already: its parent goes on with it."""
    context = SimpleNamespace(handling=Handling(Server("s")), connection=SimpleNamespace(is_inherited=True))
    with pytest.raises(LocalError, match="a forked process has no part in the connection"):
        mrtr.ask(context, [Elicit("Sure?")])


# --------------------------------------------------------- the server asks: results of its own making


OWN = {"resultType": "input_required", "inputRequests": {"sure": FORM}, "requestState": "step 1"}


def owning(make, **options):
    """A server with a tool that returns what `make(ctx)` does."""
    server = Server("own", **for_server(options))

    @server.tool
    def tool(ctx: Context):
        return make(ctx)

    return server


def by_hand(ctx):
    """A handler that keeps its own state."""
    if ctx.request_state is None:
        return OWN
    return f"{ctx.request_state}: {ctx.input_responses['sure']['action']}"


@pytest.mark.spec("basic/patterns/mrtr/request-state-integrity", "basic/patterns/mrtr/supported-requests")
def test_a_state_of_a_handlers_own_travels_signed():
    with RawClient(owning(by_hand), revision=MODERN) as raw:
        asked = call(raw, "tool")
        assert asked["result"]["inputRequests"] == OWN["inputRequests"]
        state = asked["result"]["requestState"]
        assert state != "step 1"
        assert text(go_on(raw, "tool", asked, {"sure": YES})) == "step 1: accept"
        altered = state[:-1] + ("A" if state[-1] != "A" else "B")
        for forged in ("step 1", altered):
            refused(call(raw, "tool", inputResponses={"sure": YES}, requestState=forged))


def test_a_client_answers_what_a_handler_asks_by_a_result_of_its_own():
    asked = []
    with connect(owning(by_hand), elicitation=lambda q: asked.append(q.message) or True) as client:
        assert client.call_tool("tool").text == "step 1: accept"
    assert asked == ["Sure?"]


@pytest.mark.parametrize("date", LEGACY)
def test_a_result_cannot_ask_in_the_legacy_era_and_the_error_says_what_can(date):
    with (
        connect(owning(by_hand), revision=date, elicitation=pytest.fail) as client,
        pytest.raises(ErrorResponse) as problem,
    ):
        client.call_tool("tool")
    said = f"tools/call: a result cannot ask in {date}; ask with ctx.elicit, ctx.sample or ctx.ask"
    assert (problem.value.code, problem.value.message) == (-32603, said)


def test_a_url_of_a_handlers_own_goes_as_it_is():
    params = {"mode": "url", "message": "Go", "url": "https://example.com/"}
    own = {
        "resultType": "input_required",
        "inputRequests": {"a": {"method": "elicitation/create", "params": params}},
    }
    server = owning(lambda ctx: ctx.input_responses["a"]["action"] if ctx.input_responses else own)
    with RawClient(server, revision=MODERN) as raw:
        asked = call(raw, "tool")["result"]
        assert asked["inputRequests"]["a"]["params"] == params
        assert "requestState" not in asked  # it has none of its own


def test_all_kinds_of_questions_may_be_of_a_handlers_own():
    sample = {"messages": [{"role": "user", "content": {"type": "text", "text": "?"}}], "maxTokens": 5}
    own = {
        "resultType": "input_required",
        "inputRequests": {
            "form": FORM,
            "sample": {"method": "sampling/createMessage", "params": {**sample, "systemPrompt": "be brief"}},
            "roots": {"method": "roots/list"},
        },
    }
    server = owning(lambda ctx: json.dumps(ctx.input_responses) if ctx.input_responses else own)
    options = {"elicitation": lambda q: True, "sampling": lambda request: request.system_prompt, "roots": []}
    with connect(server, **for_connect(**options)) as client:
        found = json.loads(client.call_tool("tool").text)
    assert found["form"] == {"action": "accept", "content": {}}
    assert found["sample"]["content"]["text"] == "be brief"
    assert found["roots"] == {"roots": []}


def test_both_ways_to_ask_go_together():
    """What was asked with ctx, and what `once` keeps, is not lost by a result of the handler's own."""
    charged = []

    def make(ctx):
        first = ctx.elicit("First?").action
        number = ctx.once("charge", lambda: charged.append(1) or len(charged))
        if not ctx.input_responses.get("sure"):
            return OWN
        return f"{first} {number} {ctx.input_responses['sure']['action']} {ctx.request_state}"

    asked = []
    with connect(owning(make), elicitation=lambda q: asked.append(q.message) or True) as client:
        assert client.call_tool("tool").text == "accept 1 accept step 1"
    assert asked == ["First?", "Sure?"]
    assert charged == [1]


def test_a_handler_may_ask_for_nothing_but_to_come_again():
    def make(ctx):
        count = int(ctx.request_state or 0)
        return "done" if count == 3 else {"resultType": "input_required", "requestState": str(count + 1)}

    with connect(owning(make)) as client:
        assert client.call_tool("tool").text == "done"


@pytest.mark.spec("basic/patterns/mrtr/at-least-one-field", "basic/patterns/mrtr/input-request-types")
@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({}, "input_required without inputRequests or requestState"),
        ({"inputRequests": []}, "inputRequests: must be an object"),
        ({"inputRequests": {"a": {"method": "tools/call", "params": {}}}}, "inputRequests.a"),
        ({"inputRequests": {"a": {"method": "elicitation/create"}}}, "inputRequests.a"),
        ({"requestState": 5}, "requestState: must be a string"),
        (
            {
                "inputRequests": {
                    "a": {**FORM, "params": {"message": "?", "requestedSchema": {"type": "array"}}}
                }
            },
            "requestedSchema",
        ),
        (
            {
                "inputRequests": {
                    "a": {"method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 1}}
                }
            },
            "messages",
        ),
    ],
)
def test_a_wrong_result_of_a_handlers_own_is_named_and_not_sent(wrong, said):
    server = owning(lambda ctx: {"resultType": "input_required", **wrong})
    with (
        connect(server, elicitation=pytest.fail, sampling=pytest.fail) as client,
        pytest.raises(ErrorResponse) as problem,
    ):
        client.call_tool("tool")
    assert problem.value.code == -32603
    assert said in problem.value.message


@pytest.mark.spec("basic/patterns/mrtr/no-undeclared-input-request")
def test_an_undeclared_question_of_a_handlers_own_is_not_sent():
    with connect(owning(by_hand)) as client, pytest.raises(ErrorResponse) as problem:
        client.call_tool("tool")
    assert problem.value.code == -32021
    assert "elicitation" in problem.value.message


@pytest.mark.spec("basic/patterns/mrtr/validate-input-responses")
def test_responses_that_answer_nothing_are_refused_where_they_are_looked_at():
    def make(ctx):
        return json.dumps(ctx.input_responses)

    with RawClient(owning(make), revision=MODERN) as raw:
        good = {"a": YES, "b": REPLY, "c": {"roots": []}, "d": {"action": "accept", "content": {"x": 1.5}}}
        assert json.loads(text(call(raw, "tool", inputResponses=good))) == good
        for wrong in (5, None, {}, {"action": "yes"}):
            said = refused(call(raw, "tool", inputResponses={"a": YES, "key": wrong}))
            assert said == "inputResponses.key: is no result of a request for input"


def test_a_legacy_client_cannot_answer_what_was_not_asked():
    """Members of a retry are nothing special there."""
    server = owning(lambda ctx: f"{ctx.input_responses} {ctx.request_state}")
    with RawClient(server, revision="2025-11-25", capabilities=ALL) as raw:
        params = {"name": "tool", "inputResponses": {"sure": YES}, "requestState": "step 1"}
        assert text(raw.request("tools/call", params)) == "{} None"


# -------------------------------------------------------------------------------- the client answers


ROUNDS = """
    STATE = {state!r}
    RESULTS = {results!r}
    request = open_modern()
    for result in RESULTS:
        answer(receive("tools/call"), result)
    go_on(text("done"))
"""


def rounds(*results):
    """A modern server that answers one tools/call after another with these, and then with `done`."""
    return raw_server(ROUNDS.format(state="", results=list(results)))


def calls(notes):
    """The tools/call requests that a server received."""
    return [m for m in notes.all if isinstance(m, dict) and m.get("method") == "tools/call"]


def input_required(*names, **more):
    asked = dict.fromkeys(names, FORM)
    return {"resultType": "input_required", **({"inputRequests": asked} if names else {}), **more}


@pytest.mark.spec("schema/input-responses-all-keys", "schema/input-results-bare")
@pytest.mark.spec(
    "basic/patterns/mrtr/client-constructs-inputs",
    "basic/patterns/mrtr/client-echoes-state",
    "basic/patterns/mrtr/client-no-invented-state",
    "basic/patterns/mrtr/retry-new-id",
    "basic/patterns/mrtr/retry-is-original-request",
    "basic/patterns/mrtr/request-state-opaque",
    "basic/patterns/mrtr/input-response-keys-match",
)
def test_a_client_sends_its_request_again_with_what_was_asked_for():
    odd = '{"not": "ours"}\u2028 ä \\" /+='
    notes = Notes()
    server = rounds(
        input_required("a", "b", requestState=odd),
        input_required("c"),
        input_required(requestState=""),
    )
    params = {"name": "x", "arguments": {"n": [1, 2.5]}, "_meta": {"com.example/trace": "t"}}
    with connect(server, elicitation=lambda question: True, options=ClientOptions(on_stderr=notes)) as client:
        assert client.request("tools/call", params).text == "done"
        notes.until(lambda _: len(calls(notes)) == 4)
    sent = calls(notes)
    assert len({message["id"] for message in sent}) == 4
    metas = [message["params"].pop("_meta") for message in sent]
    assert all(meta == metas[0] and meta["com.example/trace"] == "t" for meta in metas)
    first, second, third, fourth = [message["params"] for message in sent]
    assert first == {"name": "x", "arguments": {"n": [1, 2.5]}}
    assert second == {**first, "inputResponses": {"a": YES, "b": YES}, "requestState": odd}
    assert third == {**first, "inputResponses": {"c": YES}}
    assert fourth == {**first, "requestState": ""}


@pytest.mark.spec("basic/patterns/mrtr/inputs-not-for-other-requests")
def test_what_was_asked_for_one_request_goes_with_no_other():
    """Two calls at once: each takes its own answers and its own state with it."""
    notes = Notes()
    server = raw_server(f"""
        open_modern()
        FORM = {FORM!r}
        requests = [receive("tools/call"), receive("tools/call")]
        for request in requests:
            n = request["params"]["arguments"]["n"]
            answer(request, {{"resultType": "input_required", "inputRequests": {{f"key-{{n}}": FORM}},
                              "requestState": f"state-{{n}}"}})
        go_on(text("done"))
    """)
    with connect(server, elicitation=lambda question: True, options=ClientOptions(on_stderr=notes)) as client:
        asked = [client.submit("tools/call", {"name": "x", "arguments": {"n": n}}) for n in (1, 2)]
        assert [future.result(PATIENCE).text for future in asked] == ["done", "done"]
        notes.until(lambda _: len(calls(notes)) == 4)
    for message in calls(notes)[2:]:
        n = message["params"]["arguments"]["n"]
        assert message["params"]["requestState"] == f"state-{n}"
        assert message["params"]["inputResponses"] == {f"key-{n}": YES}


@pytest.mark.spec("basic/patterns/mrtr/client-immediate-retry")
def test_without_questions_a_client_asks_again_at_once():
    with connect(rounds(input_required(requestState="x"))) as client:
        assert client.call_tool("x").text == "done"


def always(**options):
    """A client of a server that never has enough, and what it asked."""
    asked = []
    server = owning(lambda ctx: OWN)
    client = connect(
        server, **for_connect(revision=MODERN, elicitation=lambda q: asked.append(1) or True, **options)
    )
    return client, asked


@pytest.mark.parametrize(("options", "most"), [({}, mrtr.MAX_ROUNDS), ({"max_rounds": 2}, 2)])
def test_a_client_answers_so_often_and_no_more(options, most):
    client, asked = always(**options)
    with client, pytest.raises(InputRefused, match=f"asked {most + 1} times, and no end"):
        client.call_tool("tool")
    assert len(asked) == most


def test_rounds_hand_the_question_to_the_caller():
    client, asked = always()
    with client:
        result = client.call_tool("tool", rounds=0)
        assert result.is_input_required
        assert result.input_requests == {"sure": FORM}
        assert not asked
        assert client.call_tool("tool", rounds=2).is_input_required
        assert len(asked) == 2


def test_the_caller_answers_and_goes_on():
    def make(ctx):
        step = int(ctx.request_state or 0)
        said = ctx.input_responses.get("sure", {}).get("action")
        return f"{step} {said}" if step == 2 else {**OWN, "requestState": str(step + 1)}

    with connect(owning(make), revision=MODERN, elicitation=pytest.fail) as client:
        first = client.call_tool("tool", rounds=0)
        second = client.resume(first, {"sure": {"action": "decline"}}, rounds=0)
        assert second.is_input_required
        assert client.resume(second, {"sure": {"action": "cancel"}}).text == "2 cancel"
        with pytest.raises(ValueError, match="only an input_required result"):
            client.resume(client.resume(second, {"sure": YES}), {})
        with pytest.raises(TypeError, match="responses"):
            client.resume(first, [])


def test_the_caller_answers_some_and_the_client_the_rest():
    def make(ctx):
        return f"{ctx.elicit('a?').action} {ctx.elicit('b?').action}"

    with connect(owning(make), revision=MODERN, elicitation=lambda question: True) as client:
        first = client.call_tool("tool", rounds=0)
        assert client.resume(first, {"elicitation-1": {"action": "decline"}}).text == "decline accept"


@pytest.mark.parametrize(
    ("result", "said"),
    [
        ({}, "without inputRequests or requestState"),
        ({"inputRequests": []}, "without inputRequests or requestState"),
        ({"inputRequests": None}, "without inputRequests or requestState"),
        ({"requestState": 5}, "a requestState that is no string"),
        ({"requestState": None}, "a requestState that is no string"),
        (
            {"inputRequests": {"a": {"method": "tools/call"}}},
            "inputRequests.a is no request that this client can answer",
        ),
        ({"inputRequests": {"a": 5}}, "inputRequests.a is no request"),
        (
            {"inputRequests": {"a": {"params": {}}}},
            "inputRequests.a is no request that this client can answer",
        ),
        (
            {"inputRequests": {"a": {"method": ["roots/list"]}}},
            "inputRequests.a is no request that this client can answer",
        ),
        ({"inputRequests": {"a": {"method": "roots/list", "params": 5}}}, "inputRequests.a is no request"),
    ],
    ids=repr,
)
@pytest.mark.parametrize("how", ["call_tool", "submit"])
def test_a_question_that_is_none_is_refused(result, said, how):
    options = {"elicitation": pytest.fail, "roots": pytest.fail}
    with connect(rounds({"resultType": "input_required", **result}), **for_connect(**options)) as client:
        with pytest.raises(InvalidResponse, match=said):
            if how == "submit":
                client.submit("tools/call", {"name": "x"}).result(PATIENCE)
            else:
                client.call_tool("x")
        assert client.call_tool("x").text == "done"


@pytest.mark.spec("basic/patterns/mrtr/unsupported-requests")
@pytest.mark.parametrize("method", ["tools/list", "server/discover", "vendor/x"])
def test_questions_from_other_methods_are_refused(method):
    server = raw_server(f"""
        open_modern()
        answer(receive({method!r}), {input_required("a")!r})
        go_on()
    """)
    with (
        connect(server, elicitation=pytest.fail) as client,
        pytest.raises(InvalidResponse, match=f"{method}: the server asks for input"),
    ):
        client.request(method, rounds=0)


@pytest.mark.parametrize("date", LEGACY)
def test_there_are_no_such_results_in_the_legacy_era(date):
    server = raw_server(f"""
        open_legacy({date!r})
        while True:
            answer(receive("tools/call"), {input_required("a")!r})
    """)
    with connect(server, revision=date, elicitation=pytest.fail) as client:
        with pytest.raises(InvalidResponse, match="the server asks for input"):
            client.call_tool("x")
        with pytest.raises(InvalidResponse, match="the server asks for input"):
            client.submit("tools/call", {"name": "x"}).result(PATIENCE)


REFUSALS = {
    "no callback": ({}, "this client has no elicitation"),
    "raises": ({"elicitation": lambda question: 1 / 0}, "failed to answer: division by zero"),
    "nonsense": ({"elicitation": lambda question: "yes"}, "does not fit the form: must be an object"),
    "unknown field": ({"elicitation": lambda question: {"x": 1}}, "x: is not a field of this form"),
}


@pytest.mark.parametrize("how", ["call_tool", "submit"])
@pytest.mark.parametrize("why", REFUSALS)
def test_what_cannot_be_had_is_told_to_the_caller_and_the_request_not_sent_again(why, how):
    options, said = REFUSALS[why]
    notes = Notes()
    with connect(rounds(input_required("a")), **for_connect(on_stderr=notes, **options)) as client:
        with pytest.raises(InputRefused, match=said) as problem:
            if how == "submit":
                client.submit("tools/call", {"name": "x"}).result(PATIENCE)
            else:
                client.call_tool("x")
        assert isinstance(problem.value, LocalError)
        assert client.call_tool("y").text == "done"
    assert [message["params"]["name"] for message in calls(notes)] == ["x", "y"]


def test_a_callback_that_hangs_is_given_up_in_the_modern_era():
    over = threading.Event()

    def hang(question):
        while not question.is_over:
            over.wait(0.001)
        over.set()

    with (
        nothing_left(),
        connect(
            rounds(input_required("a")), elicitation=hang, options=ClientOptions(ask_timeout=0.02)
        ) as client,
    ):
        with pytest.raises(InputRefused, match=r"there was no answer within 0\.02 s"):
            client.call_tool("x")
        assert over.wait(PATIENCE)


@pytest.mark.parametrize("date", LEGACY[2:])
def test_a_callback_that_hangs_is_an_error_to_the_server_in_the_legacy_era(date):
    server = Server("asking")

    @server.tool
    def tool(ctx: Context) -> str:
        try:
            return ctx.elicit("Sure?").action
        except ErrorResponse as problem:
            return f"{problem.code}: {problem.message}"

    let_go = threading.Event()
    with connect(
        server,
        revision=date,
        elicitation=lambda q: let_go.wait(PATIENCE),
        options=ClientOptions(ask_timeout=0.02),
    ) as client:
        assert client.call_tool("tool").text == "-32603: there was no answer within 0.02 s"
        let_go.set()


# ------------------------------------------------------------------------------- futures


def test_futures_go_through_the_rounds():
    def make(ctx):
        return " ".join(ctx.elicit(f"{n}?").action for n in range(3))

    for date in WITH_FORMS:
        with connect(owning(make), revision=date, elicitation=lambda question: True) as client:
            several = [client.submit("tools/call", {"name": "tool"}) for _ in range(3)]
            assert [f.result(PATIENCE).text for f in several] == ["accept accept accept"] * 3


def test_a_future_goes_through_so_many_rounds_and_no_more():
    client, asked = always(max_rounds=3)
    with client:
        future = client.submit("tools/call", {"name": "tool"})
        with pytest.raises(InputRefused, match="asked 4 times, and no end"):
            future.result(PATIENCE)
    assert len(asked) == 3


def test_a_future_that_is_cancelled_between_two_rounds_is_not_sent_again():
    asked, let_go = threading.Event(), threading.Event()

    def ask(question):
        asked.set()
        return let_go.wait(PATIENCE)

    notes = Notes()
    with (
        nothing_left(),
        connect(
            rounds(input_required("a")), elicitation=ask, options=ClientOptions(on_stderr=notes)
        ) as client,
    ):
        future = client.submit("tools/call", {"name": "x"})
        assert asked.wait(PATIENCE)
        future.cancel()
        let_go.set()
        with pytest.raises((RequestCancelled, concurrent.futures.CancelledError)):
            future.result(PATIENCE)
        assert future.cancelled()
        assert client.call_tool("y").text == "done"
    assert [message["params"]["name"] for message in calls(notes)] == ["x", "y"]


def test_a_future_whose_connection_ends_while_a_person_is_asked_fails():
    asked, let_go = threading.Event(), threading.Event()

    def ask(question):
        asked.set()
        return let_go.wait(PATIENCE)

    with nothing_left():
        with connect(rounds(input_required("a")), elicitation=ask) as client:
            future = client.submit("tools/call", {"name": "x"})
            assert asked.wait(PATIENCE)
        let_go.set()
        with pytest.raises((McpError, concurrent.futures.CancelledError)):
            future.result(PATIENCE)


def test_nobody_is_asked_anything_where_one_of_the_questions_is_none():
    asked = []
    wrong = {"a": FORM, "b": {"method": 5}}
    server = rounds({"resultType": "input_required", "inputRequests": wrong})
    with (
        connect(server, elicitation=asked.append, options=ClientOptions(on_stderr=Notes())) as client,
        pytest.raises(InvalidResponse, match=r"inputRequests\.b"),
    ):
        client.call_tool("x")
    assert asked == []


# -- questions of a task ---------------------------------------------------------------------------


@pytest.mark.parametrize("date", [LEGACY[3], MODERN])
def test_a_handler_that_runs_as_a_task_asks_and_waits(date):
    """Also where its question, or its result, was on the way before there was a task."""
    server = Server("tasks", tasks=TaskOptions(grace=0, poll_interval=0.01))

    @server.tool(task="optional")
    def first(ctx: Context) -> str:
        answer = ctx.elicit("One?", {"type": "object", "properties": {}})
        return answer.action + ctx.sample("Two?", max_tokens=9).text

    @server.tool(task="required")
    def late(ctx: Context) -> str:
        return ctx.elicit("One?", {"type": "object", "properties": {}}).action

    @server.tool(task="required")
    def nothing(ctx: Context) -> int:
        return len(ctx.ask_all())

    options = {"elicitation": lambda request: {}, "sampling": lambda request: "!"}
    with connect(server, revision=date, **options) as client:
        assert client.start_tool("first").result(PATIENCE).text == "accept!"
        assert client.start_tool("late").result(PATIENCE).text == "accept"
        assert client.start_tool("nothing").result(PATIENCE).structured == {"result": 0}


@pytest.mark.parametrize("date", [LEGACY[3], MODERN])
def test_a_task_asks_for_nothing_that_its_client_did_not_declare(date):
    server = Server("tasks", tasks=TaskOptions(grace=0, poll_interval=0.01))

    @server.tool(task="required")
    def late(ctx: Context) -> str:
        with pytest.raises(McpError) as caught:
            ctx.elicit("One?", {"type": "object", "properties": {}})
        return str(caught.value)

    with connect(server, revision=date) as client:
        assert "elicitation" in client.start_tool("late").result(PATIENCE).text


def test_a_request_of_the_servers_own_is_a_question_of_the_task():
    server = Server("tasks", tasks=TaskOptions(poll_interval=0.01))

    @server.tool(task="required")
    def roots(ctx: Context) -> int:
        return len(ctx.request("roots/list", {})["roots"])

    with connect(server, revision=LEGACY[3], roots=["/"]) as client:
        assert client.start_tool("roots").result(PATIENCE).structured == {"result": 1}


def test_a_result_that_asks_and_that_a_handler_made_is_asked_by_its_task():
    server = Server("tasks", tasks=TaskOptions(grace=0, poll_interval=0.01))
    server.add_tool(lambda: "", name="own", task="required")

    @server.around
    def own(ctx, params, proceed):
        if ctx.method != "tools/call":
            return proceed(params)
        if ctx.input_responses:
            return {"content": [{"type": "text", "text": ctx.input_responses["q"]["action"]}]}
        return {"resultType": "input_required", "inputRequests": {"q": FORM}}

    with connect(server, revision=MODERN, elicitation=lambda request: {}) as client:
        assert client.start_tool("own").result(PATIENCE).text == "accept"


@pytest.mark.parametrize("can", [True, False])
def test_a_refused_request_goes_again_once_if_the_client_can_correct_it_and_else_never(can):
    corrected, problem = [], ErrorResponse(-32020, "no")
    client = SimpleNamespace(
        max_rounds=5, can_correct=lambda *of: can, correct=lambda *how: corrected.append(how)
    )
    rounds = mrtr.Rounds(client, "tools/call", {"name": "x"}, most=None, timeout=7)
    prepare = rounds.next(problem)
    assert (prepare is not None) is can
    if prepare is not None:
        prepare()
    assert corrected == [({"name": "x"}, problem, 7)] * can
    assert rounds.next(problem) is None


def test_too_many_questions_at_once_are_refused_before_any_is_asked():
    client = SimpleNamespace(input_requests={"elicitation/create": None})
    with pytest.raises(InvalidResponse, match="questions at once"):
        mrtr.check_requests(client, "here", {str(n): FORM for n in range(mrtr.MAX_QUESTIONS + 1)})


def test_to_ask_nothing_of_a_client_sends_nothing_and_a_modern_one_is_sent_no_request():
    context = SimpleNamespace(revision=revision(MODERN))
    assert mrtr.request_all(context, [], None) == []
    with pytest.raises(LocalError, match="a server sends no requests"):
        mrtr.request_all(context, [("ping", {})], None)
