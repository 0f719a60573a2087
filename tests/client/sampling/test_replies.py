"""client/sampling/replies: a request for a message and its answer, as people handle them."""

import pytest

from mcp_ref.client.sampling.messages import tool_result, tool_use
from mcp_ref.client.sampling.replies import Reply, SamplingRequest, as_reply
from mcp_ref.schema import Mismatch
from mcp_ref.server import content

USE = tool_use("1", "add", {"a": 1}, meta={"com.example/cache": "k"})


def request(**more):
    said = {"role": "user", "content": content.text("hi")}
    return SamplingRequest({"messages": [said], "maxTokens": 10, **more}, "bookings")


# --------------------------------------------------------------------- SamplingRequest


def test_a_request_is_its_params_with_short_cuts():
    asked = request(systemPrompt="be brief", tools=[{"name": "add", "inputSchema": {}}])
    assert asked["maxTokens"] == asked.max_tokens == 10
    assert asked.server == "bookings"
    assert asked.system_prompt == "be brief"
    assert asked.messages is asked["messages"]
    assert [tool["name"] for tool in asked.tools] == ["add"]


@pytest.mark.spec("client/sampling/tool-choice-auto-default", "schema/sampling-include-context-default")
def test_what_a_request_leaves_out_has_its_default():
    asked = request()
    assert asked.tool_choice == "auto"
    assert request(toolChoice={}).tool_choice == "auto"
    assert request(toolChoice={"mode": "none"}).tool_choice == "none"
    assert asked.include_context == "none"
    assert request(includeContext="allServers").include_context == "allServers"
    assert (asked.system_prompt, asked.tools, asked.hints) == (None, [], [])


def test_the_text_is_that_of_the_last_thing_the_user_said():
    asked = request()
    asked.messages.append({"role": "user", "content": [content.text("a"), content.text("b")]})
    asked.messages.append({"role": "assistant", "content": content.text("c")})
    assert asked.text == "a\nb"
    assert SamplingRequest({"messages": [], "maxTokens": 1}).text == ""


@pytest.mark.spec(
    "client/sampling/hints-advisory", "schema/sampling-hints-order", "schema/sampling-hint-substring"
)
def test_hints_are_parts_of_names_and_the_first_that_fits_is_taken():
    hints = [{"name": "opus"}, {"com.example/size": "small"}, {"name": "sonnet"}, {"name": "mini"}]
    asked = request(modelPreferences={"hints": hints})
    assert asked.hints == ["opus", "sonnet", "mini"]
    assert asked.choose(["gpt-mini", "claude-sonnet-1", "claude-sonnet-2"]) == "claude-sonnet-1"
    assert asked.choose(["gemini-pro", "gpt-5-mini"]) == "gemini-pro"  # "mini" is a part of it
    assert asked.choose(["llama", "gpt-5"]) == "llama"  # the choice stays the client's
    assert request().choose(["llama", "gpt-5"]) == "llama"


# ------------------------------------------------------------------------------ Reply


@pytest.mark.spec("client/sampling/result-content-array")
def test_the_blocks_of_a_reply_are_a_list_whatever_came():
    one = Reply({"role": "assistant", "content": content.text("a"), "model": "m"})
    several = Reply(
        {"role": "assistant", "content": [content.text("a"), USE], "model": "m", "stopReason": "x"}
    )
    assert one.blocks == [content.text("a")]
    assert (one.text, one.tool_uses, one.model, one.stop_reason) == ("a", [], "m", None)
    assert len(several.blocks) == 2
    assert (several.text, several.tool_uses, several.stop_reason) == ("a", [USE], "x")


@pytest.mark.spec("schema/tool-use-meta-preserved", "schema/tool-result-meta-preserved")
def test_a_reply_becomes_the_next_message_with_all_that_is_in_it():
    reply = Reply({"role": "assistant", "content": USE, "model": "m", "stopReason": "toolUse"})
    assert reply.as_message() == {"role": "assistant", "content": USE}
    later = [
        reply.as_message(),
        {"role": "user", "content": tool_result(USE, "3", meta={"com.example/x": 1})},
    ]
    asked = SamplingRequest({"messages": later, "maxTokens": 1})
    assert asked.messages[0]["content"]["_meta"] == {"com.example/cache": "k"}
    assert asked.messages[1]["content"]["_meta"] == {"com.example/x": 1}


# -------------------------------------------------------------------------- as_reply


def test_a_callback_may_return_text():
    assert as_reply("hello") == {
        "role": "assistant",
        "content": content.text("hello"),
        "model": "unknown",
        "stopReason": "endTurn",
    }


def test_a_callback_may_return_blocks():
    picture = content.image(b"x", "image/png")
    assert as_reply(picture)["content"] == picture
    assert as_reply([picture])["content"] == picture
    assert as_reply(("see", picture))["content"] == [content.text("see"), picture]
    assert as_reply([])["content"] == content.text("")


@pytest.mark.spec("client/sampling/stop-reason-open")
def test_a_callback_may_return_a_whole_result():
    given = {
        "content": "hello",
        "model": "m-1",
        "stopReason": "content_filter",
        "_meta": {"com.example/a": 1},
    }
    assert as_reply(given) == {**given, "role": "assistant", "content": content.text("hello")}
    assert as_reply({"content": "hello"}).stop_reason is None  # nobody said


def test_tool_uses_are_why_the_model_stopped():
    assert as_reply(USE).stop_reason == "toolUse"
    assert as_reply(["let me see", USE]).stop_reason == "toolUse"
    assert as_reply({"content": USE}).stop_reason == "toolUse"
    assert as_reply({"content": USE, "stopReason": "maxTokens"}).stop_reason == "maxTokens"


@pytest.mark.parametrize("given", [None, 5, {}, {"content": None}, [5], {"type": 5}, {"content": [{"a": 1}]}])
def test_what_is_no_answer_is_said_to_be_none(given):
    with pytest.raises(Mismatch, match="must be text, a content block, a list of these or a result"):
        as_reply(given)


def test_requests_and_replies_say_what_they_are_in_short():
    picture = content.image(b"0" * 10_000, "image/png")
    params = {"messages": [{"role": "user", "content": picture}], "maxTokens": 9}
    said = repr(SamplingRequest(params, "notes"))
    assert said.startswith("<SamplingRequest of 'notes': {'messages': [{'role': 'user', 'content': {")
    assert len(said) < 300
    reply = as_reply(picture)
    assert repr(reply).startswith(
        "Reply({'role': 'assistant', 'model': 'unknown', 'content': {'type': 'image'"
    )
    assert len(repr(reply)) < 300
