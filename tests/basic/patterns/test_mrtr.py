"""Multi round-trip requests (page: basic/patterns/mrtr): the shapes, which is all there is so far."""

from __future__ import annotations

from typing import Any

import pytest
from peers import LEGACY, META, MODERN

from mcp_ref.basic.patterns import mrtr
from mcp_ref.schema import Mismatch, checker, definitions


def test_the_shapes_exist_in_2026_07_28_only() -> None:
    names = set(mrtr.DEFINITIONS)
    assert names <= set(definitions(MODERN))
    for revision in LEGACY:
        assert not names & set(definitions(revision))


@pytest.mark.parametrize(
    "result",
    [
        {"resultType": "input_required", "requestState": "opaque"},
        {"resultType": "input_required", "inputRequests": {"roots": {"method": "roots/list"}}},
        {"resultType": "input_required", "inputRequests": {}, "requestState": "", "_meta": {}},
    ],
)
def test_an_unfinished_result_may_carry_requests_a_state_or_both(result: Any) -> None:
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
def test_another_unfinished_result_is_refused(result: Any, words: str) -> None:
    """Only elicitation, sampling and roots may be asked for."""
    with pytest.raises(Mismatch, match=words):
        checker(mrtr.InputRequiredResult, MODERN)(result)


def test_a_retry_carries_answers_and_the_state() -> None:
    check = checker(mrtr.InputResponseRequestParams, MODERN)
    check({"_meta": META, "inputResponses": {"a": {"action": "decline"}}, "requestState": "opaque"})
    check({"_meta": META})
    with pytest.raises(Mismatch, match="inputResponses"):
        check({"_meta": META, "inputResponses": {"a": 5}})
