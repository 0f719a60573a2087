"""client/elicitation/url_mode: a user is asked to open a URL, and its completion is notified."""

import threading
from types import SimpleNamespace

import pytest
from choices import for_server
from peers import LEGACY, MODERN, PATIENCE, REVISIONS, Notes, RawClient, eventually, nothing_left, raw_server
from task_peers import Stage
from web import opened, web

from mcp_ref import (
    ClientOptions,
    ConnectionClosed,
    Context,
    ErrorResponse,
    HttpError,
    McpError,
    Server,
    UrlElicitationNeeded,
    connect,
)
from mcp_ref.basic.patterns.index.context import Handling, Initiator
from mcp_ref.basic.patterns.mrtr.basic_workflow import InputRefused
from mcp_ref.basic.utilities.tasks.data_types import RELATED_TASK
from mcp_ref.basic.versioning import revision
from mcp_ref.client.elicitation import url_mode as url_elicitation
from mcp_ref.client.elicitation.requests import Answer
from mcp_ref.client.elicitation.url_mode import Completions, ElicitUrl, UrlElicitationRequired
from mcp_ref.runtime.errors import InvalidResponse, LocalError
from mcp_ref.schema import Mismatch, checker, definitions, message_shapes

WITH_URLS = REVISIONS[3:]
WHERE = "https://example.com/sign-in?state=1"
FORM = {"type": "object", "properties": {"name": {"type": "string"}}}
ABLE = {"elicitation": {"form": {}, "url": {}}}


def asked_in(date, connection=None):
    """As much of a request's context as a question looks at."""
    server = SimpleNamespace(elicitations={})
    handling = Handling(server=server)
    return SimpleNamespace(revision=revision(date), handling=handling, connection=connection)


# ---------------------------------------------------------------------------- shapes


@pytest.mark.parametrize("name", ["ElicitationCompleteNotification", "URLElicitationRequiredError"])
def test_the_completion_and_the_error_are_in_2025_11_25_only(name):
    assert [date for date in REVISIONS if name in definitions(date)] == ["2025-11-25"]


@pytest.mark.spec("client/elicitation/complete-includes-id")
def test_a_completion_names_its_elicitation():
    check = checker(message_shapes("2025-11-25")["ElicitationCompleteNotification"], "2025-11-25")
    method = {"jsonrpc": "2.0", "method": "notifications/elicitation/complete"}
    check({**method, "params": {"elicitationId": "1"}})
    with pytest.raises(Mismatch, match="elicitationId: is required"):
        check({**method, "params": {}})


# ----------------------------------------------------------------------- server half: asking


@pytest.mark.spec("client/elicitation/url-parameters", "client/elicitation/common-parameters")
def test_a_question_of_2026_07_28_has_no_id():
    asked = ElicitUrl("Sign in", WHERE, "mine").question(asked_in(MODERN))
    assert asked.method == "elicitation/create"
    assert asked.needs == {"elicitation": {"url": {}}}
    assert asked.params == {"mode": "url", "message": "Sign in", "url": WHERE}


@pytest.mark.spec("client/elicitation/url-parameters-with-id", "schema/elicitation-id-unique")
def test_a_question_of_2025_11_25_has_an_id():
    context = asked_in("2025-11-25", connection="ours")
    asked = [ElicitUrl("Sign in", WHERE).question(context).params for _ in range(3)]
    ids = {params.pop("elicitationId") for params in asked}
    assert asked == [{"mode": "url", "message": "Sign in", "url": WHERE}] * 3
    assert len(ids) == 3
    own = ElicitUrl("Sign in", WHERE, "mine").question(context).params["elicitationId"]
    assert own == "mine"
    assert context.handling.server.elicitations == dict.fromkeys([*ids, "mine"], Initiator("ours", None))


@pytest.mark.parametrize("date", REVISIONS[:3])
def test_there_are_no_urls_before_2025_11_25(date):
    with pytest.raises(LocalError, match=f"came with 2025-11-25; this client speaks {date}"):
        ElicitUrl("Sign in", WHERE).question(asked_in(date))


@pytest.mark.spec("client/elicitation/url-valid")
@pytest.mark.parametrize("date", WITH_URLS)
def test_what_cannot_be_opened_is_not_asked(date):
    for url in ("example.com", "javascript:alert(1)", "https://", "https://example.com/a b"):
        with pytest.raises(ValueError, match="URL"):
            ElicitUrl("Sign in", url).question(asked_in(date))
    for wrong in (ElicitUrl(5, WHERE), ElicitUrl("x", 5), ElicitUrl("x", WHERE, 5)):
        with pytest.raises(TypeError, match="is a string"):
            wrong.question(asked_in(date))


@pytest.mark.spec("client/elicitation/url-accept-is-consent", "client/elicitation/handle-actions")
@pytest.mark.parametrize("date", WITH_URLS)
def test_the_answer_is_consent_and_brings_nothing(date):
    read = ElicitUrl("Sign in", WHERE).question(asked_in(date)).read
    for action in ("accept", "decline", "cancel"):
        assert read({"action": action}) == read({"action": action, "content": {"x": 1}}) == Answer(action)
    with pytest.raises(InvalidResponse, match="action"):
        read({"action": "done"})


# ------------------------------------------------------------------------ over a connection


def signing_in(**options):
    """A server with a tool that asks for a visit, and one that cannot go on before there was one."""
    server = Server("signing in", **for_server(options))
    server.done = set()

    @server.tool
    def ask(ctx: Context, name: str = "id-1") -> str:
        return ctx.elicit_url("Sign in", WHERE, elicitation_id=name).action

    @server.tool
    def need(ctx: Context, name: str = "id-1") -> str:
        if name not in server.done:
            raise UrlElicitationRequired(ElicitUrl("Sign in", WHERE, name), message="sign in first")
        return f"signed in as {name}"

    return server


@pytest.mark.parametrize("date", WITH_URLS)
@pytest.mark.parametrize(("said", "action"), [(True, "accept"), (False, "decline"), (None, "cancel")])
def test_a_tool_asks_for_a_visit(date, said, action):
    seen = []

    def ask(question):
        seen.append((question.mode, question.url, question.host, question.elicitation_id))
        return said

    with nothing_left(), connect(signing_in(), revision=date, elicitation=ask) as client:
        assert client.call_tool("ask").text == action
    assert seen == [("url", WHERE, "example.com", None if date == MODERN else "id-1")]


def told(raw):
    """Ids of the completions that a client was told of, up to now."""
    other = raw.ask("ping")
    messages = []
    while (message := raw.receive()).get("id") != other:
        messages.append(message)
    methods = {message["method"] for message in messages}
    assert methods <= {"notifications/elicitation/complete"}
    return [message["params"] for message in messages]


def accept(raw, name):
    """Have a raw client be asked for a visit, and agree to it."""
    called = raw.call("ask", {"name": name})
    request = raw.receive()
    assert request["params"]["elicitationId"] == name
    raw.send({"jsonrpc": "2.0", "id": request["id"], "result": {"action": "accept"}})
    assert raw.answer(called)["result"]["content"][0]["text"] == "accept"


@pytest.mark.spec(
    "client/elicitation/complete-notification",
    "client/elicitation/complete-to-initiator-only",
    "client/elicitation/complete-includes-id",
)
def test_only_the_client_that_was_asked_is_notified_of_the_completion():
    server = signing_in()
    with (
        RawClient(server, revision="2025-11-25", capabilities=ABLE) as one,
        RawClient(server, revision="2025-11-25", capabilities=ABLE) as other,
        RawClient(server, revision="2025-06-18", capabilities=ABLE) as older,
    ):
        accept(one, "a")
        accept(other, "b")
        assert server.elicitation_complete("a")
        assert told(one) == [{"elicitationId": "a"}]
        assert told(other) == told(older) == []
        assert server.elicitation_complete("b")
        assert told(other) == [{"elicitationId": "b"}]
        assert told(one) == []
        for name in ("a", "b", "c", ""):  # told already, or never asked
            assert not server.elicitation_complete(name)
        assert told(one) == told(other) == []


def test_a_completion_is_for_an_id():
    with pytest.raises(TypeError, match="elicitation_id is a string"):
        signing_in().elicitation_complete(None)


@pytest.mark.spec("schema/elicitation-id-unique", "client/elicitation/complete-to-initiator-only")
def test_an_id_belongs_to_one_client():
    """Else the second one who asked would hear that the first one's person is done."""
    server = signing_in()
    with (
        RawClient(server, revision="2025-11-25", capabilities=ABLE) as one,
        RawClient(server, revision="2025-11-25", capabilities=ABLE) as other,
    ):
        accept(one, "a")
        said = other.answer(other.call("ask", {"name": "a"}))["result"]
        assert said["isError"]
        assert said["content"][0]["text"] == "the elicitation id 'a' is in use by another client"
        error = other.answer(other.call("need", {"name": "a"}))["error"]
        assert (error["code"], error["message"]) == (
            -32603,
            "the elicitation id 'a' is in use by another client",
        )
        accept(one, "a")  # its own again
        assert server.elicitation_complete("a")
        assert told(one) == [{"elicitationId": "a"}]


@pytest.mark.spec("basic/utilities/tasks/related-task-everywhere", "client/elicitation/complete-notification")
@pytest.mark.parametrize("way", ["asked", "required"])
def test_a_completion_that_belongs_to_a_task_names_it(way):
    with Stage() as stage:

        @stage.tool(task="required")
        def sign_in(ctx: Context) -> str:
            if way == "required":
                raise UrlElicitationRequired(ElicitUrl("Sign in", WHERE, "a"))
            return ctx.elicit_url("Sign in", WHERE, elicitation_id="a").action

        with stage.client() as raw:
            task_id = raw.start("sign_in")["taskId"]
            if way == "required":
                error = raw.outcome(task_id)["error"]
                assert error["data"]["elicitations"][0]["elicitationId"] == "a"
            else:
                result = raw.ask("tasks/result", {"taskId": task_id})
                raw.reply(raw.requested("elicitation/create"), {"action": "accept"})
                assert raw.answer(result)["result"]["content"][0]["text"] == "accept"
            assert stage.server.elicitation_complete("a")
            params = raw.notified("notifications/elicitation/complete")
    assert params == {"elicitationId": "a", "_meta": {RELATED_TASK: {"taskId": task_id}}}


def test_a_client_that_is_gone_is_not_told():
    server = signing_in()
    with RawClient(server, revision="2025-11-25", capabilities=ABLE) as raw:
        accept(raw, "a")
    assert eventually(lambda: not server.serving.elicitations)
    assert not server.elicitation_complete("a")
    server.serving.elicitations["b"] = Initiator(SimpleNamespace(notify=gone), None)
    assert not server.elicitation_complete("b")


def gone(*given, **options):
    raise url_elicitation.ConnectionClosed("gone")


def test_a_server_remembers_so_many_and_forgets_the_oldest(monkeypatch):
    monkeypatch.setattr(url_elicitation, "MAX_REMEMBERED", 3)
    context = asked_in("2025-11-25", connection="ours")
    for name in "abcbd":
        url_elicitation.remember(context, name)
    assert list(context.handling.server.elicitations) == ["c", "b", "d"]


def test_nothing_is_remembered_in_the_modern_era():
    context = asked_in(MODERN)
    ElicitUrl("Sign in", WHERE, "a").question(context)
    assert context.handling.server.elicitations == {}


# -------------------------------------------------------------------- what must be done first


@pytest.mark.spec(
    "client/elicitation/url-required-error",
    "client/elicitation/url-required-list",
    "client/elicitation/url-required-mode",
    "client/elicitation/server-errors",
)
def test_a_handler_that_cannot_go_on_is_an_error_in_2025_11_25():
    with RawClient(signing_in(), revision="2025-11-25", capabilities=ABLE) as raw:
        error = raw.answer(raw.call("need"))["error"]
    assert error["code"] == -32042
    assert error["message"] == "sign in first"
    asked = {"mode": "url", "message": "Sign in", "url": WHERE, "elicitationId": "id-1"}
    assert error["data"] == {"elicitations": [asked]}
    checker(url_elicitation.UrlRequiredError, "2025-11-25")(error)


def test_it_names_at_least_one():
    with pytest.raises(ValueError, match="at least one ElicitUrl"):
        UrlElicitationRequired()


def test_a_url_and_a_message_are_written_as_one_question():
    with pytest.raises(TypeError, match=r"UrlElicitationRequired\(ElicitUrl\(message, url\)\), not 'https:"):
        UrlElicitationRequired("https://example.com/", "Sign in")


@pytest.mark.spec("client/elicitation/url-required-mode", "client/elicitation/url-valid")
def test_it_names_only_urls_that_can_be_opened():
    with pytest.raises(ValueError, match="URL"):
        UrlElicitationRequired(ElicitUrl("Sign in", "javascript:alert(1)"))


def needing_two(kind):
    """A server, and how to ask it for something that needs two visits first."""
    server = Server("all")

    def handler(ctx: Context) -> str:
        raise UrlElicitationRequired(ElicitUrl("Sign in", WHERE), ElicitUrl("Sign in there", WHERE + "2"))

    if kind == "prompt":
        server.prompt(handler)
        return server, lambda client: client.get_prompt("handler")
    if kind == "resource":
        server.resource("x://y")(handler)
        return server, lambda client: client.read_resource("x://y")
    if kind == "tool":
        server.tool(handler)
    else:
        server.add_tool(lambda: "fine", name="handler")
        server.around(lambda ctx, params, go_on: handler(ctx) if "name" in params else go_on(params))
    return server, lambda client: client.call_tool("handler")


@pytest.mark.spec("client/elicitation/server-errors")
@pytest.mark.parametrize("kind", ["tool", "prompt", "resource", "hook"])
@pytest.mark.parametrize("date", WITH_URLS)
def test_tools_prompts_resources_and_hooks_may_need_visits(kind, date):
    asked = []
    server, call = needing_two(kind)
    with (
        connect(server, revision=date, elicitation=lambda q: asked.append(q.message) or True) as client,
        pytest.raises(McpError) as problem,
    ):
        call(client)
    if date == MODERN:
        assert asked == ["Sign in", "Sign in there"] * 30
        assert isinstance(problem.value, InputRefused)
    else:
        assert isinstance(problem.value, UrlElicitationNeeded)
        assert not asked
        assert [each["message"] for each in problem.value.elicitations] == ["Sign in", "Sign in there"]


@pytest.mark.spec("client/elicitation/url-required-only-then")
@pytest.mark.parametrize(
    ("date", "capabilities", "said"),
    [
        ("2025-11-25", {}, "the client did not declare the capability elicitation"),
        ("2025-11-25", {"elicitation": {}}, "the client did not declare the capability elicitation.url"),
        ("2025-06-18", ABLE, "elicitation by url came with 2025-11-25"),
        ("2024-11-05", ABLE, "elicitation by url came with 2025-11-25"),
    ],
)
def test_a_client_that_knows_no_urls_gets_another_error(date, capabilities, said):
    with RawClient(signing_in(), revision=date, capabilities=capabilities) as raw:
        error = raw.answer(raw.call("need"))["error"]
    assert error["code"] == -32603
    assert said in error["message"]
    assert "data" not in error


def test_a_modern_client_that_knows_no_urls_is_told_what_it_lacks():
    with (
        connect(
            signing_in(),
            revision=MODERN,
            elicitation=print,
            options=ClientOptions(elicitation_modes=["form"]),
        ) as client,
        pytest.raises(ErrorResponse) as problem,
    ):
        client.call_tool("need")
    assert problem.value.code == -32021
    assert problem.value.data == {"requiredCapabilities": {"elicitation": {"url": {}}}}


@pytest.mark.spec("basic/index/no-emit-32042")
@pytest.mark.spec("client/elicitation/url-required-only-then")
def test_in_the_modern_era_the_same_is_a_question():
    """There is no -32042 any more; whoever is done by the time of the retry goes on."""
    server = signing_in()

    def ask(question):
        assert question.url == WHERE
        server.done.add("id-1")
        return True

    with connect(server, revision=MODERN, elicitation=ask) as client:
        assert client.call_tool("need").text == "signed in as id-1"


@pytest.mark.spec("client/elicitation/url-accept-is-consent", "basic/patterns/mrtr/repeat-input-required")
def test_who_accepted_and_is_not_back_yet_is_asked_again_and_not_refused():
    """Consent is not the visit: on the retry the server looks, and answers with another question."""
    server, asked = signing_in(), []

    def ask(question):
        asked.append(question.url)
        if len(asked) == 3:
            server.done.add("id-1")
        return True

    with connect(server, revision=MODERN, elicitation=ask) as client:
        assert client.call_tool("need").text == "signed in as id-1"
    assert asked == [WHERE] * 3


@pytest.mark.spec(
    "client/elicitation/url-accept-is-consent",
    "client/elicitation/retry-final-or-input-required",
    "basic/patterns/mrtr/repeat-input-required",
)
@pytest.mark.parametrize("first", [False, True])
def test_on_the_wire_the_second_question_is_another_input_required_result(first):
    """Also after other questions of the handler's, whose answers stay."""
    server = Server("signing in", secret="a secret of thirty-two characters")
    signed_in = []

    @server.tool
    def need(ctx: Context) -> str:
        who = ctx.elicit("Who?", FORM).content["name"] if first else "nobody"
        if not signed_in:
            raise UrlElicitationRequired(ElicitUrl("Sign in", WHERE))
        return who

    with RawClient(server, revision=MODERN) as raw:
        able = {"io.modelcontextprotocol/clientCapabilities": ABLE}
        params = {"name": "need", "arguments": {}, "_meta": able}

        def go_on(result, answer):
            [key] = result["inputRequests"]
            again = {"inputResponses": {key: answer}, "requestState": result["requestState"]}
            return raw.request("tools/call", {**params, **again})["result"]

        result = raw.request("tools/call", params)["result"]
        if first:
            result = go_on(result, {"action": "accept", "content": {"name": "ada"}})
        for _ in range(3):
            assert result["resultType"] == "input_required"
            [question] = result["inputRequests"].values()
            assert question["params"]["url"] == WHERE
            result = go_on(result, {"action": "accept"})
        signed_in.append(1)
        result = go_on(result, {"action": "accept"})
        assert result["content"][0]["text"] == ("ada" if first else "nobody")


@pytest.mark.spec("client/elicitation/handle-decline")
@pytest.mark.parametrize("said", [False, None])
def test_a_user_who_does_not_agree_ends_the_request_with_an_error(said):
    asked = []
    with (
        connect(signing_in(), revision=MODERN, elicitation=lambda q: asked.append(1) or said) as client,
        pytest.raises(ErrorResponse) as problem,
    ):
        client.call_tool("need")
    assert problem.value.message == "the user did not agree to open the URL"
    assert problem.value.code == -32603
    assert asked == [1]


# ----------------------------------------------------------------------------- client half


@pytest.mark.spec("client/elicitation/complete-manual-controls", "client/elicitation/complete-auto-retry")
def test_a_client_makes_the_visit_and_asks_again():
    server, asked = signing_in(), []

    def ask(question):
        asked.append((question.mode, question.url))
        server.done.add("id-1")  # what the person does there
        assert server.elicitation_complete("id-1")
        return True

    with nothing_left(), connect(server, revision="2025-11-25", elicitation=ask) as client:
        with pytest.raises(UrlElicitationNeeded, match="sign in first") as problem:
            client.call_tool("need")
        assert not asked  # of its own accord it asks nobody
        assert client.visit(problem.value)
        assert client.call_tool("need").text == "signed in as id-1"
    assert asked == [("url", WHERE)]


@pytest.mark.parametrize("said", [False, None])
def test_a_visit_that_is_not_made_is_not_waited_for(said):
    with connect(signing_in(), revision="2025-11-25", elicitation=lambda question: said) as client:
        with pytest.raises(UrlElicitationNeeded) as problem:
            client.call_tool("need")
        assert not client.visit(problem.value)


def test_a_visit_whose_end_is_never_told_is_given_up():
    with connect(signing_in(), revision="2025-11-25", elicitation=lambda question: True) as client:
        with pytest.raises(UrlElicitationNeeded) as problem:
            client.call_tool("need")
        assert not client.visit(problem.value, timeout=0.02)


def test_a_visit_that_nobody_can_be_asked_for_is_an_error():
    with connect(signing_in(), revision="2025-11-25", elicitation=lambda question: 1 / 0) as client:
        with pytest.raises(UrlElicitationNeeded) as problem:
            client.call_tool("need")
        with pytest.raises(InputRefused, match=r"cannot be asked to open the URL: .*division by zero"):
            client.visit(problem.value)


@pytest.mark.parametrize("status", [200, 403])
def test_a_visit_that_an_http_status_asks_for_says_the_status_and_the_url(status):
    error = {"code": -32042, "message": "sign in first", "data": {"elicitations": [GOOD]}}

    def handle(request, wire):
        wire.json({"jsonrpc": "2.0", "id": request.message["id"], "error": error}, status=status)

    with (
        web(opened(handle, "2025-11-25")) as site,
        connect(site.url, elicitation=lambda question: True) as client,
    ):
        later = client.submit("tools/call", {"name": "need"})
        for call in (lambda: client.call_tool("need"), lambda: later.result(PATIENCE)):
            with pytest.raises(UrlElicitationNeeded) as problem:
                call()
            assert problem.value.elicitations == [GOOD]
            text = "sign in first (-32042)"
            if status == 403:
                text += f"; HTTP status 403 from {site.url}"
                assert isinstance(problem.value.__cause__, HttpError)
                assert (problem.value.__cause__.status, problem.value.__cause__.url) == (403, site.url)
            assert str(problem.value) == text


GOOD = {"mode": "url", "message": "Sign in", "url": WHERE, "elicitationId": "good"}


def needing(data):
    """A server of 2025-11-25 whose every call is this error -32042."""
    return raw_server(f"""
        open_legacy("2025-11-25")
        while True:
            error(receive("tools/call"), -32042, "sign in first", data={data!r})
    """)


@pytest.mark.parametrize(
    "data",
    [
        None,
        5,
        [],
        {},
        {"elicitations": None},
        {"elicitations": {}},
        {"elicitations": []},
        {"elicitations": [5, {}, {**GOOD, "url": "javascript:alert(1)"}, {**GOOD, "mode": "form"}]},
        {
            "elicitations": [
                {**GOOD, "elicitationId": 5},
                {k: v for k, v in GOOD.items() if k != "elicitationId"},
            ]
        },
    ],
    ids=repr,
)
def test_what_an_error_names_that_cannot_be_visited_is_left_out(data):
    with connect(needing(data), revision="2025-11-25", elicitation=pytest.fail) as client:
        with pytest.raises(UrlElicitationNeeded) as problem:
            client.call_tool("x")
        assert problem.value.elicitations == []
        assert (problem.value.code, problem.value.data) == (-32042, data)
        assert not client.visit(problem.value)


def test_the_rest_of_such_an_error_is_good():
    data = {"elicitations": [5, GOOD]}
    with connect(needing(data), revision="2025-11-25", elicitation=pytest.fail) as client:
        for call in (
            lambda: client.call_tool("x"),
            lambda: client.submit("tools/call", {"name": "x"}).result(PATIENCE),
        ):
            with pytest.raises(UrlElicitationNeeded) as problem:
                call()
            assert problem.value.elicitations == [GOOD]


@pytest.mark.parametrize("date", [date for date in LEGACY if date != "2025-11-25"])
def test_in_other_revisions_the_code_means_nothing(date):
    server = raw_server(f"""
        open_legacy({date!r})
        error(receive("tools/call"), -32042, "something else", data={{"elicitations": [{GOOD!r}]}})
        go_on()
    """)
    with connect(server, revision=date, elicitation=pytest.fail) as client:
        with pytest.raises(ErrorResponse) as problem:
            client.call_tool("x")
        assert not isinstance(problem.value, UrlElicitationNeeded)


@pytest.mark.spec("client/elicitation/complete-unknown-ignored")
def test_completions_that_are_unknown_or_malformed_change_nothing():
    notes = Notes()
    server = raw_server("""
        open_legacy("2025-11-25")
        call = receive("tools/call")
        for params in ({"elicitationId": "never asked"}, {"elicitationId": 5}, {}, {"x": 1}):
            send(method="notifications/elicitation/complete", params=params)
        send(method="notifications/elicitation/complete")
        answer(call, text("done"))
        go_on()
    """)
    with connect(
        server, revision="2025-11-25", elicitation=pytest.fail, options=ClientOptions(on_stderr=notes)
    ) as client:
        assert client.call_tool("x").text == "done"
        assert not client.asker.answering.callbacks.elicitations.wait("another", 0.0)


def test_a_completion_ends_the_wait_for_it():
    known = Completions()
    known.expect("a")
    found = []
    waiting = threading.Thread(target=lambda: found.append(known.wait("a", PATIENCE)))
    waiting.start()
    known.on_complete({"elicitationId": "b"})
    known.on_complete({"elicitationId": "a"})
    waiting.join(PATIENCE)
    assert found == [True]
    known.on_complete({"elicitationId": "a"})  # once more: no matter
    known.expect("a")
    assert known.wait("a", 0.0)
    assert not known.wait("c", 0.001)


def test_a_completion_that_overtakes_whoever_waits_is_not_lost():
    """The error -32042 is looked at by its caller a moment after the reader has read on."""
    known = Completions()
    known.on_complete({"elicitationId": "a"})
    assert known.wait("a", 0.0)


def test_a_client_remembers_so_many(monkeypatch):
    monkeypatch.setattr(url_elicitation, "MAX_REMEMBERED", 3)
    monkeypatch.setattr(url_elicitation, "MAX_EARLY_COMPLETIONS", 2)
    known = Completions()
    for name in "abcd":
        known.expect(name)
    assert list(known._known) == ["b", "c", "d"]
    for name in "wxyz":
        known.on_complete({"elicitationId": name})
    assert list(known._early) == ["y", "z"]


def test_who_waits_for_a_visit_waits_no_longer_than_the_server_is_there():
    known, problems = Completions(), []

    def wait():
        try:
            known.wait("1", PATIENCE)
        except ConnectionClosed as problem:
            problems.append(str(problem))

    thread = threading.Thread(target=wait)
    thread.start()
    known.end(ConnectionClosed("the server is gone"))
    thread.join(PATIENCE)
    assert problems == ["the server is gone"]
    with pytest.raises(ConnectionClosed):
        known.wait("2", PATIENCE)


@pytest.mark.spec("schema/elicitation-id-opaque")
@pytest.mark.parametrize("name", ["", " ", "id/1?x=2#3", "\u00e4\u2028", "0", "x" * 10_000])
def test_an_elicitation_id_is_taken_as_it_is(name):
    known = Completions()
    known.expect(name)
    known.on_complete({"elicitationId": name + "."})
    assert not known.wait(name, 0.0)
    known.on_complete({"elicitationId": name})
    assert known.wait(name, 0.0)
