"""api/from_function/common: what a tool, a resource and a prompt all say of themselves."""

import pytest

from mcp_ref.api.from_function.common import common_members, name_of, scopes_of


def greet():
    """Greet somebody."""


def test_a_name_that_is_given_goes_before_the_functions_own():
    assert (name_of(greet, None), name_of(greet, "hello")) == ("greet", "hello")
    assert name_of(object(), None) == ""


def test_the_description_is_the_docstring_unless_one_is_given():
    assert common_members(greet, None, None, None, None) == {"description": "Greet somebody."}
    assert common_members(greet, None, "Hello.", None, None) == {"description": "Hello."}


def test_what_was_given_is_checked_and_the_rest_is_left_out():
    icons = [{"src": "https://example.org/icon.png"}]
    members = common_members(greet, "Greeting", "", icons, {"example.org/x": 1})
    assert members == {"title": "Greeting", "description": "", "icons": icons, "_meta": {"example.org/x": 1}}
    with pytest.raises(ValueError, match="src"):
        common_members(greet, None, None, [{"src": "file:///x"}], None)
    with pytest.raises(ValueError):
        common_members(greet, None, None, None, {"mcp.dev/x": 1})


def test_scopes_are_such_as_a_challenge_can_name():
    assert scopes_of([]) == ()
    assert scopes_of(["notes:read", "notes:read"]) == ("notes:read",)
    with pytest.raises(ValueError, match="no scope"):
        scopes_of(["notes read"])
    with pytest.raises(TypeError, match="a list of strings"):
        scopes_of("notes:read")
