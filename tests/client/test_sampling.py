"""client/sampling: the shapes, as each revision has them."""

import pytest
from peers import REVISIONS

from mcp_ref.client import sampling
from mcp_ref.schema import Mismatch, checker, definitions
from mcp_ref.server import content

ASK = {"messages": [{"role": "user", "content": {"type": "text", "text": "hi"}}], "maxTokens": 10}


def message(block):
    return {**ASK, "messages": [{"role": "user", "content": block}]}


@pytest.mark.parametrize("date", REVISIONS)
def test_a_request_has_messages_and_a_limit(date):
    check = checker(sampling.CreateMessageRequestParams, date)
    check({**ASK, "modelPreferences": {"hints": [{"name": "x"}], "costPriority": 0.5}})
    wrong = {
        "messages": {"maxTokens": 1},
        "maxTokens": {"messages": []},
        "messages[0].role": {**ASK, "messages": [{"role": "system", "content": content.text("x")}]},
        "modelPreferences.costPriority": {**ASK, "modelPreferences": {"costPriority": 2}},
        "includeContext": {**ASK, "includeContext": "everything"},
    }
    for place, params in wrong.items():
        with pytest.raises(Mismatch) as problem:
            check(params)
        assert place in str(problem.value)


@pytest.mark.parametrize(
    ("block", "since"),
    [
        (content.text("x"), "2024-11-05"),
        (content.image(b"x", "image/png"), "2024-11-05"),
        (content.audio(b"x", "audio/wav"), "2025-03-26"),
        ({"type": "tool_use", "id": "1", "name": "add", "input": {}}, "2025-11-25"),
        ({"type": "tool_result", "toolUseId": "1", "content": []}, "2025-11-25"),
        ([content.text("x"), content.text("y")], "2025-11-25"),
    ],
    ids=["text", "image", "audio", "tool_use", "tool_result", "several"],
)
@pytest.mark.parametrize("date", REVISIONS)
def test_what_a_message_may_hold_grew_with_the_revisions(date, block, since):
    check = checker(sampling.CreateMessageRequestParams, date)
    if date >= since:
        check(message(block))
    else:
        with pytest.raises(Mismatch, match="content"):
            check(message(block))


@pytest.mark.parametrize("date", REVISIONS)
def test_an_answer_names_role_content_and_model(date):
    good = {"role": "assistant", "content": content.text("hello"), "model": "m", "stopReason": "endTurn"}
    checker(sampling.CreateMessageResult, date)(good)
    for lacking in ("role", "content", "model"):
        with pytest.raises(Mismatch, match=lacking):
            checker(sampling.CreateMessageResult, date)({k: v for k, v in good.items() if k != lacking})


def test_tools_may_be_offered_from_2025_11_25_on():
    found = {date: "ToolUseContent" in definitions(date) for date in REVISIONS}
    assert [date for date, there in found.items() if there] == ["2025-11-25", "2026-07-28"]
