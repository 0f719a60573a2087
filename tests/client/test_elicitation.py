"""client/elicitation: the shapes, as each revision has them."""

import jsonschema
import pytest
from peers import REVISIONS

from mcp_ref.client import elicitation
from mcp_ref.schema import Mismatch, checker, definitions

FORM = {
    "message": "Who?",
    "requestedSchema": {"type": "object", "properties": {"name": {"type": "string", "minLength": 1}}},
}
URL = {"mode": "url", "message": "Sign in", "url": "https://example.org/x", "elicitationId": "1"}
CHOICES = {
    "untitled": {"type": "string", "enum": ["a", "b"]},
    "titled": {"type": "string", "oneOf": [{"const": "a", "title": "A"}]},
    "several": {"type": "array", "items": {"type": "string", "enum": ["a"]}},
    "several titled": {"type": "array", "items": {"anyOf": [{"const": "a", "title": "A"}]}},
}


def valid(date, name, value):
    """Whether the schema of this revision takes the value."""
    schema = {"$ref": f"#/$defs/{name}", "$defs": definitions(date)}
    return jsonschema.Draft202012Validator(schema).is_valid(value)


def test_elicitation_came_with_2025_06_18():
    found = ["ElicitRequest" in definitions(date) for date in REVISIONS]
    assert found == [False, False, True, True, True]


@pytest.mark.parametrize("date", REVISIONS[2:])
def test_a_form_is_asked_for_in_every_revision_that_has_it(date):
    ids = {"jsonrpc": "2.0", "id": 1}
    assert valid(date, "ElicitRequest", {**ids, "method": "elicitation/create", "params": FORM})
    assert not valid(date, "ElicitRequest", {**ids, "method": "elicitation/create", "params": {}})


def test_a_url_is_asked_for_from_2025_11_25_on():
    assert [valid(date, "ElicitRequestURLParams", URL) for date in REVISIONS[3:]] == [True, True]
    without = {key: value for key, value in URL.items() if key != "elicitationId"}
    assert [valid(date, "ElicitRequestURLParams", without) for date in REVISIONS[3:]] == [False, True]


@pytest.mark.parametrize("choice", CHOICES.values(), ids=CHOICES)
def test_selections_grew_with_2025_11_25(choice):
    found = [valid(date, "PrimitiveSchemaDefinition", choice) for date in REVISIONS[3:]]
    assert found == [True, True]


@pytest.mark.parametrize("date", REVISIONS[2:])
@pytest.mark.parametrize(
    ("action", "good"), [("accept", True), ("decline", True), ("cancel", True), ("no", False)]
)
def test_an_answer_has_one_of_three_actions(date, action, good):
    check = checker(elicitation.ElicitResult, date)
    if good:
        check({"action": action, "content": {"name": "x", "n": 1, "yes": True}})
    else:
        with pytest.raises(Mismatch, match="action"):
            check({"action": action})


def test_a_selection_of_several_is_an_answer_from_2025_11_25_on():
    several = {"action": "accept", "content": {"tags": ["a", "b"]}}
    checker(elicitation.ElicitResult, "2025-11-25")(several)
    with pytest.raises(Mismatch, match="tags"):
        checker(elicitation.ElicitResult, "2025-06-18")(several)


@pytest.mark.parametrize("date", REVISIONS[2:])
def test_a_form_is_flat(date):
    nested = {"type": "object", "properties": {"a": {"type": "object", "properties": {}}}}
    with pytest.raises(Mismatch, match="properties"):
        checker(elicitation.ElicitRequestFormParams, date)({"message": "x", "requestedSchema": nested})
