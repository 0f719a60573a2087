"""client/sampling/messages: what a conversation with a model is made of, and what its order must be."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from peers import REVISIONS

from mcp_ref.client.sampling import messages
from mcp_ref.client.sampling.messages import as_messages, check_messages, tool_result, tool_use
from mcp_ref.schema import Mismatch
from mcp_ref.server import content

PICTURE = content.image(b"\x89PNG", "image/png")
USE = tool_use("call_1", "weather", {"city": "Paris"})
OTHER = tool_use("call_2", "weather", {"city": "London"})


def user(*blocks):
    return {"role": "user", "content": list(blocks) if len(blocks) > 1 else blocks[0]}


def assistant(*blocks):
    return {"role": "assistant", "content": list(blocks)}


def refused(*conversation):
    """What is said of a conversation that breaks a rule."""
    with pytest.raises(Mismatch) as problem:
        check_messages(list(conversation))
    return str(problem.value)


# ---------------------------------------------------------------------------- making


def test_a_string_or_a_block_is_what_the_user_says():
    assert as_messages("hi") == [user(content.text("hi"))]
    assert as_messages(PICTURE) == [user(PICTURE)]
    assert as_messages(("hi", PICTURE)) == [user(content.text("hi")), user(PICTURE)]


def test_a_message_stays_as_it_is():
    said = assistant(content.text("hello"))
    assert as_messages(said) == [said]
    assert as_messages(["hi", said])[1] is said


def test_what_is_no_message_is_left_for_the_check_to_name():
    assert as_messages([5, None]) == [5, None]


def test_tool_results_in_a_row_are_one_message():
    one, two = tool_result(USE, "18"), tool_result(OTHER, "15")
    made = as_messages(["hi", assistant(USE, OTHER), one, two, "go on", tool_result("x", "1")])
    assert [m["role"] for m in made] == ["user", "assistant", "user", "user", "user"]
    assert made[2] == user(one, two)
    assert made[4] == {"role": "user", "content": tool_result("x", "1")}
    check_messages(made[:4])


def test_a_tool_result_says_what_it_is_the_result_of():
    made = tool_result(
        USE, ["18", PICTURE], structured={"degrees": 18}, is_error=True, meta={"com.example/a": 1}
    )
    assert made == {
        "type": "tool_result",
        "toolUseId": "call_1",
        "content": [content.text("18"), PICTURE],
        "structuredContent": {"degrees": 18},
        "isError": True,
        "_meta": {"com.example/a": 1},
    }
    assert tool_result("call_1", "18").keys() == {"type", "toolUseId", "content"}


def test_a_tool_use_may_carry_meta():
    assert "_meta" not in USE
    assert tool_use("1", "x", {}, meta={"com.example/a": 1})["_meta"] == {"com.example/a": 1}


def test_the_members_that_a_revision_lacks_are_left_out_of_its_blocks():
    marked = content.text("hi", meta={"com.example/a": 1})
    for date in REVISIONS:
        there = date >= "2025-06-18"
        assert ("_meta" in messages.prune_message(user(marked), date)["content"]) == there
    several = messages.prune_message(user(marked, USE), "2025-11-25")
    assert several == user(marked, USE)
    assert messages.prune_message(user(USE), "2025-11-25") == user(USE)


# -------------------------------------------------------------------------- checking


def test_a_balanced_conversation_passes():
    check_messages([])
    check_messages([user(content.text("hi")), assistant(content.text("hello"), PICTURE)])
    check_messages(
        [
            user(content.text("the weather?")),
            assistant(content.text("let me see"), USE, OTHER),
            user(tool_result(OTHER, "15"), tool_result(USE, "18")),
            assistant(content.text("18 and 15")),
        ]
    )


@pytest.mark.spec(
    "client/sampling/tool-use-balanced", "client/sampling/tool-use-answered", "schema/tool-result-id-matches"
)
def test_every_tool_use_is_answered_by_the_very_next_message():
    asked = [user(content.text("?")), assistant(USE, OTHER)]
    assert refused(*asked).startswith(
        "messages: Tool result missing in request: none for the tool use 'call_1'"
    )
    said = refused(*asked, user(tool_result(USE, "18")), assistant(content.text("18")))
    assert said == "messages[2]: Tool result missing in request: none for the tool use 'call_2'"
    late = refused(
        *asked, assistant(content.text("wait")), user(tool_result(USE, "1"), tool_result(OTHER, "2"))
    )
    assert late.startswith("messages[2]: Tool result missing")
    stray = refused(*asked, user(tool_result(USE, "1"), tool_result(OTHER, "2"), tool_result("call_3", "3")))
    assert "messages[2]: a tool result for 'call_3', which is not an open tool use" in stray
    assert "not an open tool use" in refused(user(tool_result(USE, "1")))
    twice = refused(
        user(content.text("?")), assistant(USE), user(tool_result(USE, "1"), tool_result(USE, "2"))
    )
    assert "a tool result for 'call_1'" in twice


@pytest.mark.spec("client/sampling/tool-results-only")
def test_a_message_with_tool_results_holds_nothing_else():
    said = refused(assistant(USE), user(content.text("here:"), tool_result(USE, "18")))
    assert said.startswith("messages[1]: Tool results mixed with other content")


def test_uses_are_an_assistants_and_results_a_users():
    assert refused(user(USE)).startswith("messages[0].role: tool uses must be in a message of the assistant")
    said = refused(assistant(USE), assistant(tool_result(USE, "18")))
    assert said.startswith("messages[1].role: tool results must be in a message of the user")


def test_no_two_uses_of_a_message_share_an_id():
    assert "two tool uses have the id 'call_1'" in refused(assistant(USE, USE), user(tool_result(USE, "18")))


@pytest.mark.spec("client/sampling/tool-loop-limits")
def test_a_tool_loop_has_an_end():
    once = [assistant(USE), user(tool_result(USE, "18"))]
    check_messages(once * messages.MAX_TOOL_ROUNDS)
    assert "at most 100 messages with tool uses" in refused(*(once * (messages.MAX_TOOL_ROUNDS + 1)))


@pytest.mark.spec("client/sampling/validate-content")
@pytest.mark.parametrize("data", ["@@@@", "abc", "YQ", "é===", "YQ==YQ=="])
def test_pictures_and_sound_are_base64(data):
    picture = {"type": "image", "data": data, "mimeType": "image/png"}
    assert refused(user(picture)).startswith("messages[0].content.data: must be base64")
    sound = {"type": "audio", "data": data, "mimeType": "audio/wav"}
    assert refused(user(content.text("x"), sound)).startswith("messages[0].content[1].data: must be base64")
    inside = refused(assistant(USE), user(tool_result(USE, ["x", picture])))
    assert inside.startswith("messages[1].content.content[1].data: must be base64")


def test_the_results_are_found_with_their_tools():
    given = [assistant(USE), user(tool_result(USE, "18"))]
    found = list(messages.results_of(given))
    assert found == [(("messages", 1, "content", 0), "weather", tool_result(USE, "18"))]


IDS = st.sampled_from(["a", "b"])
BLOCKS = st.one_of(
    st.just(content.text("x")),
    IDS.map(lambda i: tool_use(i, "t", {})),
    IDS.map(lambda i: tool_result(i, "r")),
)
MESSAGES = st.builds(
    lambda role, blocks: {"role": role, "content": blocks},
    st.sampled_from(["user", "assistant"]),
    st.lists(BLOCKS, max_size=3),
)


@given(st.lists(MESSAGES, max_size=4))
def test_what_passes_is_balanced(conversation):
    try:
        check_messages(conversation)
    except Mismatch:
        return
    owed = []
    for message in [*conversation, {"content": []}]:
        results = [b["toolUseId"] for b in message["content"] if b["type"] == "tool_result"]
        assert sorted(results) == sorted(owed)
        assert not results or len(results) == len(message["content"])
        owed = [b["id"] for b in message["content"] if b["type"] == "tool_use"]


def test_many_tool_uses_are_checked_in_no_time():
    uses = [tool_use(str(i), "t", {}) for i in range(20_000)]
    results = [tool_result(use, "r") for use in uses]
    check_messages([assistant(*uses), user(*reversed(results))])
    assert "two tool uses have the id '19999'" in refused(assistant(*uses, uses[-1]))
