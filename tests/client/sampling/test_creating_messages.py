"""client/sampling: the shapes as each revision has them, and both halves."""

import logging
import threading
from types import SimpleNamespace

import pytest
from peers import LEGACY, MODERN, PATIENCE, REVISIONS, nothing_left

from mcp_ref import ClientOptions, Context, ErrorResponse, McpError, Server, connect
from mcp_ref.api.callbacks import Callbacks, CallbackTimeout
from mcp_ref.basic.index.error_responses import InternalError, InvalidParams, MethodNotFound, TooManyRequests
from mcp_ref.basic.versioning import revision
from mcp_ref.client.sampling import creating_messages as sampling
from mcp_ref.client.sampling.creating_messages import Sample, SamplingRefused
from mcp_ref.client.sampling.messages import tool_result, tool_use
from mcp_ref.client.sampling.replies import SamplingRequest
from mcp_ref.runtime.errors import InvalidResponse, LocalError
from mcp_ref.runtime.limits import Limit
from mcp_ref.schema import Mismatch, checker, definitions
from mcp_ref.server import content

ASK = {"messages": [{"role": "user", "content": {"type": "text", "text": "hi"}}], "maxTokens": 10}
GOOD = {"role": "assistant", "content": content.text("hello"), "model": "m", "stopReason": "endTurn"}
TOOL = {"name": "weather", "inputSchema": {"type": "object"}}
USE = tool_use("call_1", "weather", {"city": "Paris"})
WITH_TOOLS = [date for date in REVISIONS if date >= "2025-11-25"]
WITHOUT_TOOLS = [date for date in REVISIONS if date < "2025-11-25"]


def message(block):
    return {**ASK, "messages": [{"role": "user", "content": block}]}


# ---------------------------------------------------------------------------- shapes


@pytest.mark.spec("client/sampling/message-role-content", "client/sampling/priorities-normalised")
@pytest.mark.parametrize("date", REVISIONS)
def test_a_request_has_messages_and_a_limit(date):
    check = checker(sampling.CreateMessageRequestParams, date)
    check({**ASK, "modelPreferences": {"hints": [{"name": "x"}], "costPriority": 0.5}})
    wrong = {
        "messages": {"maxTokens": 1},
        "maxTokens": {"messages": []},
        "messages[0].role": {**ASK, "messages": [{"role": "system", "content": content.text("x")}]},
        "messages[0].content": {**ASK, "messages": [{"role": "user"}]},
        "modelPreferences.costPriority": {**ASK, "modelPreferences": {"costPriority": 2}},
        "modelPreferences.speedPriority": {**ASK, "modelPreferences": {"speedPriority": -0.1}},
        "modelPreferences.intelligencePriority": {**ASK, "modelPreferences": {"intelligencePriority": "1"}},
        "includeContext": {**ASK, "includeContext": "everything"},
    }
    for place, params in wrong.items():
        with pytest.raises(Mismatch) as problem:
            check(params)
        assert place in str(problem.value)


BLOCKS = [
    (content.text("x"), "2024-11-05"),
    (content.image(b"x", "image/png"), "2024-11-05"),
    (content.audio(b"x", "audio/wav"), "2025-03-26"),
    ({"type": "tool_use", "id": "1", "name": "add", "input": {}}, "2025-11-25"),
    ({"type": "tool_result", "toolUseId": "1", "content": []}, "2025-11-25"),
    ([content.text("x"), content.text("y")], "2025-11-25"),
    (content.resource_link("file:///a", "a"), "9999-99-99"),
    (content.embedded("file:///a", "a"), "9999-99-99"),
]
KINDS = ["text", "image", "audio", "tool_use", "tool_result", "several", "link", "resource"]


@pytest.mark.spec("client/sampling/content-types")
@pytest.mark.parametrize(("block", "since"), BLOCKS, ids=KINDS)
@pytest.mark.parametrize("date", REVISIONS)
def test_what_a_message_may_hold_grew_with_the_revisions(date, block, since):
    check = checker(sampling.CreateMessageRequestParams, date)
    if date >= since:
        check(message(block))
    else:
        with pytest.raises(Mismatch, match="content"):
            check(message(block))


@pytest.mark.spec("client/sampling/result-fields")
@pytest.mark.parametrize("date", REVISIONS)
def test_an_answer_names_role_content_and_model(date):
    checker(sampling.CreateMessageResult, date)(GOOD)
    checker(sampling.CreateMessageResult, date)({k: v for k, v in GOOD.items() if k != "stopReason"})
    for lacking in ("role", "content", "model"):
        with pytest.raises(Mismatch, match=lacking):
            checker(sampling.CreateMessageResult, date)({k: v for k, v in GOOD.items() if k != lacking})


def test_tools_may_be_offered_from_2025_11_25_on():
    found = {date: "ToolUseContent" in definitions(date) for date in REVISIONS}
    assert [date for date, there in found.items() if there] == ["2025-11-25", "2026-07-28"]


# ----------------------------------------------------------------------- server half


def asked_in(date, **declared):
    """The context of a request whose client declared `sampling`."""
    return SimpleNamespace(revision=revision(date), client_capabilities={"sampling": declared})


def question(date, *given, **options):
    return Sample(*given, **{"max_tokens": 10, **options}).question(asked_in(date, tools={}, context={}))


@pytest.mark.spec("client/sampling/create-message-request", "client/sampling/create-message-input-request")
@pytest.mark.parametrize("date", REVISIONS)
def test_a_question_is_the_request_of_the_page(date):
    asked = question(
        date,
        ["hi", {"role": "assistant", "content": content.text("hello")}, "who are you?"],
        max_tokens=50,
        system_prompt="be brief",
        temperature=0.5,
        stop_sequences=("END",),
        model_preferences={"hints": [{"name": "sonnet"}], "speedPriority": 1},
        include_context="none",
        metadata={"com.example/x": [1]},
    )
    assert asked.method == "sampling/createMessage"
    assert asked.needs == {"sampling": {}}
    assert asked.params == {
        "messages": [
            {"role": "user", "content": content.text("hi")},
            {"role": "assistant", "content": content.text("hello")},
            {"role": "user", "content": content.text("who are you?")},
        ],
        "maxTokens": 50,
        "systemPrompt": "be brief",
        "temperature": 0.5,
        "stopSequences": ["END"],
        "modelPreferences": {"hints": [{"name": "sonnet"}], "speedPriority": 1},
        "includeContext": "none",
        "metadata": {"com.example/x": [1]},
    }
    checker(sampling.CreateMessageRequestParams, date)(asked.params)


def test_what_is_not_given_is_not_sent():
    assert question(MODERN, "hi").params == ASK


WRONG = {
    "messages: must hold a message": {"messages": []},
    "messages[0]: must be an object, not 5": {"messages": 5},
    "messages[1].content.type": {"messages": ["x", content.resource_link("file:///a", "a")]},
    "messages[0].role": {"messages": {"role": "system", "content": content.text("x")}},
    "messages[0].content: is required": {"messages": {"role": "user"}},
    "messages[0].content.data: must be base64": {
        "messages": {"type": "image", "data": "?", "mimeType": "image/png"}
    },
    "messages: Tool result missing": {"messages": {"role": "assistant", "content": USE}},
    "maxTokens: must be at least 1, not 0": {"max_tokens": 0},
    "maxTokens: must be at least 1, not -5": {"max_tokens": -5},
    "maxTokens: must be an integer, not true": {"max_tokens": True},
    "maxTokens: must be an integer, not 1.5": {"max_tokens": 1.5},
    "modelPreferences.costPriority: must be at most 1": {"model_preferences": {"costPriority": 1.5}},
    "modelPreferences.hints[0]: must be an object": {"model_preferences": {"hints": ["sonnet"]}},
    "includeContext": {"include_context": "all"},
    "systemPrompt: must be a string": {"system_prompt": 5},
    "temperature: must be a finite number": {"temperature": float("inf")},
    "stopSequences: must be an array": {"stop_sequences": "END"},
    "metadata: must be an object": {"metadata": []},
    "tools[0].inputSchema: is required": {"tools": [{"name": "x"}]},
    "tools: two tools have the same name": {"tools": [TOOL, TOOL]},
    "toolChoice.mode": {"tools": [TOOL], "tool_choice": "always"},
    'toolChoice: "required" needs tools to choose from': {"tool_choice": "required"},
}


@pytest.mark.spec("client/sampling/priorities-normalised", "client/sampling/validate-content")
@pytest.mark.parametrize(("said", "given"), WRONG.items(), ids=range(len(WRONG)))
def test_what_an_author_gets_wrong_is_named_before_it_goes(said, given):
    for date in REVISIONS:
        with pytest.raises(ValueError) as problem:
            question(date, **{"messages": "hi", **given})
        assert str(problem.value).startswith(f"sample: {said}")


@pytest.mark.spec("client/sampling/content-types")
@pytest.mark.parametrize(("block", "since"), BLOCKS[2:3] + BLOCKS[5:6], ids=["audio", "several"])
@pytest.mark.parametrize("date", REVISIONS)
def test_what_the_clients_revision_lacks_is_refused_and_not_turned_into_something_else(date, block, since):
    given = {"role": "user", "content": block}
    if date >= since:
        assert question(date, given).params["messages"] == [given]
        return
    with pytest.raises(LocalError, match=f"the client speaks {date}: messages.0..content"):
        question(date, given)


@pytest.mark.parametrize("date", WITHOUT_TOOLS)
def test_tools_are_refused_for_a_client_of_a_revision_without(date):
    with pytest.raises(LocalError, match=f"{date}: tools: this revision has no such member"):
        question(date, "hi", tools=[TOOL])
    with pytest.raises(LocalError, match=f"{date}: toolChoice: this revision has no such member"):
        question(date, "hi", tool_choice="none")
    with pytest.raises(LocalError, match=r"messages\[0\].content"):
        question(date, [{"role": "assistant", "content": USE}, tool_result(USE, "18")])


@pytest.mark.spec("client/sampling/no-tools-without-capability", "client/sampling/tools-scoped-to-request")
@pytest.mark.parametrize("date", WITH_TOOLS)
def test_tools_need_a_client_that_declared_them(date):
    asked = question(date, "hi", tools=(TOOL,), tool_choice="required")
    assert asked.needs == {"sampling": {"tools": {}}}
    assert asked.params["tools"] == [TOOL]
    assert asked.params["toolChoice"] == {"mode": "required"}
    assert question(date, "hi", tool_choice={"mode": "none"}).needs == {"sampling": {"tools": {}}}
    assert question(date, "hi", tools=[]).needs == {"sampling": {"tools": {}}}
    assert question(date, "hi").needs == {"sampling": {}}


@pytest.mark.parametrize("date", WITH_TOOLS)
def test_a_tools_definition_is_as_the_revision_has_it(date):
    asked = question(date, "hi", tools=[{**TOOL, "execution": {"taskSupport": "optional"}}])
    assert ("execution" in asked.params["tools"][0]) == (date == "2025-11-25")


@pytest.mark.spec(
    "client/sampling/include-context-needs-capability",
    "client/sampling/include-context-avoided",
    "schema/sampling-context-none",
)
@pytest.mark.parametrize("wanted", ["thisServer", "allServers"])
@pytest.mark.parametrize("date", REVISIONS)
def test_context_of_other_servers_is_asked_for_only_where_it_was_declared(date, wanted, caplog):
    caplog.set_level(logging.INFO, "mcp_ref.sampling")
    sample = Sample("hi", max_tokens=10, include_context=wanted)
    assert sample.question(asked_in(date, context={})).params["includeContext"] == wanted
    assert not caplog.records
    bare = sample.question(asked_in(date)).params
    assert ("includeContext" in bare) == (date < "2025-11-25")
    assert len(caplog.records) == (date >= "2025-11-25")
    assert "includeContext" not in Sample("hi", max_tokens=10).question(asked_in(date)).params


@pytest.mark.spec("client/sampling/tool-use-answered", "client/sampling/tool-results-only")
@pytest.mark.parametrize("date", WITH_TOOLS)
def test_a_tool_loop_goes_on_with_what_the_reply_was(date):
    asked = question(date, "the weather?", tools=[TOOL])
    reply = asked.read({"role": "assistant", "content": [USE], "model": "m", "stopReason": "toolUse"})
    results = [tool_result(use, "18") for use in reply.tool_uses]
    again = question(date, ["the weather?", reply.as_message(), *results], tools=[TOOL], tool_choice="none")
    assert [m["role"] for m in again.params["messages"]] == ["user", "assistant", "user"]
    assert again.read(GOOD).text == "hello"


@pytest.mark.spec("schema/tool-result-structured")
def test_the_data_of_a_tool_result_is_what_the_tool_promised():
    tool = {**TOOL, "outputSchema": {"type": "object", "required": ["degrees"]}}
    asked = {"role": "assistant", "content": USE}

    def send(result):
        return question(MODERN, ["?", asked, result], tools=[tool])

    send(tool_result(USE, "18"))
    send(tool_result(USE, "18", structured={"degrees": 18}))
    send(tool_result(USE, "no such city", structured={"why": "unknown"}, is_error=True))
    with pytest.raises(ValueError, match=r"messages\[2\]\.content\[0\]\.structuredContent: .*degrees"):
        send(tool_result(USE, "18", structured={"celsius": 18}))


def test_structured_content_is_an_object_for_a_client_of_2025_11_25():
    given = ["?", {"role": "assistant", "content": USE}, tool_result(USE, "18", structured=18)]
    assert question(MODERN, given).params["messages"][2]["content"]["structuredContent"] == 18
    with pytest.raises(LocalError, match=r"the client speaks 2025-11-25: .*structuredContent"):
        question("2025-11-25", given)


@pytest.mark.parametrize("date", REVISIONS)
def test_a_reply_is_the_clients_answer(date):
    reply = question(date, "hi").read(GOOD)
    assert reply == GOOD
    assert (reply.text, reply.model, reply.stop_reason) == ("hello", "m", "endTurn")


@pytest.mark.spec("client/sampling/validate-content")
@pytest.mark.parametrize("date", REVISIONS)
def test_an_answer_that_breaks_a_rule_is_not_taken(date):
    asked = question(date, "hi")
    wrong = {
        "content: is required": {"role": "assistant", "model": "m"},
        "role": {**GOOD, "role": "system"},
        "model: is required": {k: v for k, v in GOOD.items() if k != "model"},
        "content.text: is required": {**GOOD, "content": {"type": "text"}},
        "content.data: must be base64": {
            **GOOD,
            "content": {"type": "image", "data": "?", "mimeType": "image/png"},
        },
    }
    for said, result in wrong.items():
        with pytest.raises(InvalidResponse) as problem:
            asked.read(result)
        assert str(problem.value).startswith(f"sampling/createMessage: the client's answer: {said}")


@pytest.mark.parametrize("date", WITH_TOOLS)
def test_a_model_uses_tools_only_if_it_was_given_some(date):
    use = {**GOOD, "content": [content.text("let me see"), USE]}
    assert question(date, "hi", tools=[TOOL]).read(use).tool_uses == [USE]
    for options in ({}, {"tools": []}, {"tools": [TOOL], "tool_choice": "none"}):
        with pytest.raises(InvalidResponse, match="content: a tool use, though no tools may be used"):
            question(date, "hi", **options).read(use)
    with pytest.raises(InvalidResponse, match="content: two tool uses have the id 'call_1'"):
        question(date, "hi", tools=[TOOL]).read({**GOOD, "content": [USE, USE]})
    with pytest.raises(InvalidResponse, match="content: a model must not answer with tool results"):
        question(date, "hi", tools=[TOOL]).read({**GOOD, "content": tool_result(USE, "18")})


# ----------------------------------------------------------------------- client half


def client(date, model=lambda request: "hello", **options):
    """As much of a client as answering takes."""
    callbacks = Callbacks(sampling=model, **options)
    return SimpleNamespace(
        callbacks=callbacks,
        negotiated=SimpleNamespace(
            revision=revision(date),
            capabilities=callbacks.capabilities(),
            server_info={"name": "bookings"},
        ),
    )


def refused(date, params, **options):
    with pytest.raises(InvalidParams) as problem:
        sampling.answer(client(date, **options), params, None)
    assert problem.value.code == -32602
    return str(problem.value).removeprefix("sampling/createMessage: ")


@pytest.mark.spec("client/sampling/result-fields", "client/sampling/max-tokens-respected")
@pytest.mark.parametrize("date", REVISIONS)
def test_the_callback_answers(date):
    seen = []

    def model(request):
        seen.append(request)
        return f"{request.server} said {request.text}, {request.max_tokens}"

    answered = sampling.answer(client(date, model), ASK, None)
    assert answered == {
        "role": "assistant",
        "content": content.text("bookings said hi, 10"),
        "model": "unknown",
        "stopReason": "endTurn",
    }
    assert seen == [ASK]
    assert isinstance(seen[0], SamplingRequest)
    checker(sampling.CreateMessageResult, date)(answered)


@pytest.mark.spec("client/sampling/result-content-array")
@pytest.mark.parametrize("date", WITH_TOOLS)
def test_the_callback_may_use_tools_if_some_were_given(date):
    def model(request):
        return ["let me see", USE]

    able = client(date, model, sampling_tools=True)
    answered = sampling.answer(able, {**ASK, "tools": [TOOL]}, None)
    assert answered["content"] == [content.text("let me see"), USE]
    assert answered["stopReason"] == "toolUse"
    for params in (ASK, {**ASK, "tools": [TOOL], "toolChoice": {"mode": "none"}}):
        with pytest.raises(InternalError, match="a tool use, though no tools may be used"):
            sampling.answer(able, params, None)


@pytest.mark.parametrize("date", REVISIONS)
def test_an_answer_is_as_the_revision_has_it(date):
    marked = content.text("hi", meta={"com.example/a": 1})
    answered = sampling.answer(client(date, lambda request: marked), ASK, None)
    assert ("_meta" in answered["content"]) == (date >= "2025-06-18")


@pytest.mark.spec("client/sampling/content-types")
@pytest.mark.parametrize("date", REVISIONS)
def test_an_answer_that_the_revision_lacks_is_an_error_and_not_something_else(date, caplog):
    sound = content.audio(b"x", "audio/wav")
    if date >= "2025-03-26":
        assert sampling.answer(client(date, lambda request: sound), ASK, None)["content"] == sound
        return
    with pytest.raises(InternalError, match=r"the answer of this client's model: content\.type"):
        sampling.answer(client(date, lambda request: sound), ASK, None)
    assert "the answer of the callback for sampling cannot be sent" in caplog.text


@pytest.mark.spec("client/sampling/validate-content")
@pytest.mark.parametrize("date", REVISIONS)
def test_a_request_that_breaks_a_rule_is_invalid(date):
    assert refused(date, {"maxTokens": 1}).startswith("messages: is required")
    assert refused(date, {**ASK, "maxTokens": 0}) == "maxTokens: must be at least 1, not 0"
    assert refused(date, {**ASK, "maxTokens": "many"}).startswith("maxTokens: must be an integer")
    assert refused(date, {**ASK, "messages": ["hi"]}).startswith("messages[0]: must be an object")
    assert refused(date, {**ASK, "modelPreferences": {"hints": 5}}).startswith("modelPreferences.hints")
    picture = {"type": "image", "data": "?", "mimeType": "image/png"}
    assert refused(date, message(picture)).startswith("messages[0].content.data: must be base64")


@pytest.mark.spec("client/sampling/tool-result-missing-32602", "client/sampling/tool-result-mixed-32602")
@pytest.mark.parametrize("date", WITH_TOOLS)
def test_tool_uses_and_results_that_do_not_fit_are_invalid(date):
    asked = {"role": "assistant", "content": [USE]}
    mixed = {"role": "user", "content": [content.text("here:"), tool_result(USE, "18")]}
    said = refused(date, {**ASK, "messages": [asked]}, sampling_tools=True)
    assert said.startswith("messages: Tool result missing in request")
    said = refused(date, {**ASK, "messages": [asked, mixed]}, sampling_tools=True)
    assert said.startswith("messages[1]: Tool results mixed with other content")


@pytest.mark.spec("schema/sampling-tools-error", "schema/sampling-tool-choice-error")
@pytest.mark.parametrize("date", REVISIONS)
@pytest.mark.parametrize("extra", [{"tools": [TOOL]}, {"tools": []}, {"toolChoice": {"mode": "auto"}}])
def test_tools_are_invalid_for_a_client_that_did_not_declare_them(date, extra):
    name = next(iter(extra))
    if date in WITH_TOOLS:
        assert refused(date, {**ASK, **extra}) == f"{name}: this client did not declare sampling.tools"
        return
    seen = []  # a revision without tools: members that it does not know
    sampling.answer(client(date, lambda request: seen.append(request) or "hi"), {**ASK, **extra}, None)
    assert seen == [ASK]


@pytest.mark.parametrize("date", REVISIONS)
def test_without_a_callback_there_is_no_such_method(date):
    with pytest.raises(MethodNotFound) as problem:
        sampling.answer(client(date, None), ASK, None)
    assert problem.value.code == -32601


@pytest.mark.spec(
    "client/sampling/user-rejected-code", "client/sampling/errors", "client/sampling/declined-needs-no-replay"
)
@pytest.mark.parametrize("date", REVISIONS)
@pytest.mark.parametrize("where", ["callback", "review"])
def test_a_user_may_refuse(date, where):
    def refuse(*what):
        raise SamplingRefused

    options = {"model": refuse} if where == "callback" else {"sampling_review": refuse}
    with pytest.raises(SamplingRefused, match="User rejected sampling request") as problem:
        sampling.answer(client(date, **options), ASK, None)
    assert problem.value.to_wire() == {"code": -1, "message": "User rejected sampling request"}
    assert SamplingRefused("not today").message == "not today"


@pytest.mark.spec("client/sampling/view-edit-prompts", "client/sampling/review-responses")
@pytest.mark.parametrize("date", REVISIONS)
def test_a_review_sees_and_edits_the_request_and_the_answer(date):
    seen = []

    def review(request, proceed):
        seen.append((request.text, request.server))
        request["systemPrompt"] = "be kind"
        reply = proceed(request)
        seen.append(reply.text)
        return {**reply, "content": reply.text.upper()}

    def model(request):
        return f"{request.system_prompt}: hello"

    answered = sampling.answer(client(date, model, sampling_review=review), ASK, None)
    assert seen == [("hi", "bookings"), "be kind: hello"]
    assert answered["content"] == content.text("BE KIND: HELLO")
    assert answered["stopReason"] == "endTurn"
    assert "systemPrompt" not in ASK


def test_a_review_may_ask_something_else_or_not_at_all():
    def instead(request, proceed):
        return proceed({"messages": [{"role": "user", "content": content.text("bye")}], "maxTokens": 3})

    model = client(MODERN, lambda request: f"{request.server}: {request.text}", sampling_review=instead)
    assert sampling.answer(model, ASK, None)["content"] == content.text("bookings: bye")
    silent = client(MODERN, pytest.fail, sampling_review=lambda request, proceed: "no comment")
    assert sampling.answer(silent, ASK, None)["content"] == content.text("no comment")


def test_tools_that_a_review_adds_are_not_the_servers():
    def review(request, proceed):
        request["tools"] = [TOOL]
        return proceed(request)

    able = client(MODERN, lambda request: USE, sampling_review=review, sampling_tools=True)
    with pytest.raises(InternalError, match="no tools may be used"):
        sampling.answer(able, ASK, None)


@pytest.mark.parametrize("date", REVISIONS)
def test_a_callback_that_raises_is_an_internal_error_without_a_traceback(date):
    def model(request):
        raise RuntimeError("no credit left")

    with pytest.raises(InternalError) as problem:
        sampling.answer(client(date, model), ASK, None)
    assert problem.value.code == -32603
    assert "no credit left" in problem.value.message
    assert "Traceback" not in problem.value.message
    assert problem.value.data is None


def test_a_callback_that_returns_nonsense_is_an_internal_error():
    for nonsense in (None, 5, {"content": 5}, [{}], {"type": "video"}):
        with pytest.raises(InternalError, match="the answer of this client's model"):
            sampling.answer(client(MODERN, lambda request, given=nonsense: given), ASK, None)


def test_a_callback_that_hangs_is_given_up():
    go_on = threading.Event()
    hanging = client(MODERN, lambda request: go_on.wait(PATIENCE) and "late", seconds=0.02)
    with pytest.raises(CallbackTimeout):
        sampling.answer(hanging, ASK, None)
    go_on.set()


@pytest.mark.spec("client/sampling/rate-limit")
def test_a_server_asks_only_so_often():
    slow = client(MODERN, limit=Limit(rate=0.01, burst=2))
    sampling.answer(slow, ASK, None)
    sampling.answer(slow, ASK, None)
    with pytest.raises(TooManyRequests):
        sampling.answer(slow, ASK, None)


@pytest.mark.spec("client/sampling/messages-not-retained")
def test_each_request_is_answered_from_its_own_messages():
    seen = []
    asked = client(LEGACY[3], lambda request: seen.append(request.messages) or "ok")
    sampling.answer(asked, ASK, None)
    sampling.answer(asked, message(content.text("bye")), None)
    assert seen == [ASK["messages"], message(content.text("bye"))["messages"]]
    assert seen[0] is not seen[1]


# ----------------------------------------------------------------- both, over a connection


def greeter():
    """A server that asks the client's model."""
    server = Server("bookings")

    @server.tool
    def greet(ctx: Context) -> str:
        return ctx.sample("Write a greeting", max_tokens=50).text

    @server.tool
    def weather(ctx: Context) -> str:
        messages = ["the weather?"]
        reply = ctx.sample(messages, max_tokens=50, tools=[TOOL])
        results = [tool_result(use, use["input"]["city"]) for use in reply.tool_uses]
        messages += [reply.as_message(), *results]
        return ctx.sample(messages, max_tokens=50, tools=[TOOL], tool_choice="none").text

    return server


@pytest.mark.spec("client/sampling/capability-at-initialize", "client/sampling/capability-per-request")
@pytest.mark.parametrize("date", REVISIONS)
def test_a_tool_asks_the_clients_model_in_every_revision(date):
    seen = []

    def model(request):
        seen.append((request.server, request.text, request.max_tokens))
        return "Hello!"

    with nothing_left(), connect(greeter(), revision=date, sampling=model) as client:
        assert client.call_tool("greet").text == "Hello!"
        assert client.call_tool("greet").text == "Hello!"
    assert seen == [("bookings", "Write a greeting", 50)] * 2


@pytest.mark.spec("client/sampling/tools-capability-declared")
@pytest.mark.parametrize("date", WITH_TOOLS)
def test_a_tool_loop_over_a_connection(date):
    def model(request):
        if request.tool_choice == "none":
            return request.messages[-1]["content"]["content"][0]["text"]
        return USE

    with connect(
        greeter(), revision=date, sampling=model, options=ClientOptions(sampling_tools=True)
    ) as client:
        assert client.call_tool("weather").text == "Paris"


@pytest.mark.spec("client/sampling/no-tools-without-capability")
@pytest.mark.parametrize("date", REVISIONS)
def test_a_client_is_not_asked_for_what_it_did_not_declare(date):
    with connect(greeter(), revision=date, sampling=pytest.fail) as client:
        if date == MODERN:
            with pytest.raises(ErrorResponse) as problem:
                client.call_tool("weather")
            assert problem.value.code == -32021
            assert problem.value.data == {"requiredCapabilities": {"sampling": {"tools": {}}}}
        else:
            said = client.call_tool("weather")
            assert said.is_error
            assert "did not declare" in said.text or "tools: this revision has no such member" in said.text


@pytest.mark.spec("client/sampling/user-rejected-code", "client/sampling/declined-needs-no-replay")
@pytest.mark.parametrize("date", REVISIONS)
def test_a_refusal_reaches_the_server_in_the_legacy_era_and_the_caller_in_the_modern(date):
    def refuse(request):
        raise SamplingRefused

    with connect(greeter(), revision=date, sampling=refuse) as client:
        if date == MODERN:
            with pytest.raises(McpError, match="User rejected sampling request"):
                client.call_tool("greet")
        else:
            said = client.call_tool("greet")
            assert said.is_error
            assert said.text == "User rejected sampling request (-1)"
