"""basic/authorization/index/scope_selection: which scopes a client asks for."""

import pytest

from mcp_ref.basic.authorization.index import scope_selection
from mcp_ref.basic.authorization.index.scope_selection import scopes_of, select_scopes, union


@pytest.mark.spec(
    "basic/authorization/index/scope-priority",
    "basic/authorization/index/least-privilege",
    "basic/authorization/index/challenge-authoritative",
    "basic/authorization/index/no-scope-set-assumption",
    "basic/authorization/index/scope-fallback",
)
@pytest.mark.parametrize(
    ("challenged", "supported", "wanted", "selected"),
    [
        (("a",), ("b", "c"), None, ("a",)),
        (None, ("b", "c"), None, ("b", "c")),
        ((), ("b",), None, ("b",)),
        (None, None, None, None),
        (None, (), None, ()),
        (("a",), ("b",), ("x", "a"), ("x", "a")),
        (("a",), None, ("x",), ("x", "a")),
        (None, ("b",), (), ()),
    ],
)
def test_what_is_asked_for_has_an_order(challenged, supported, wanted, selected):
    assert select_scopes(challenged, supported, wanted) == selected


@pytest.mark.spec("basic/authorization/index/reauth-keeps-scopes")
def test_a_union_keeps_the_order_and_each_scope_once():
    assert union(("b", "a"), ("a", "c"), ()) == ("b", "a", "c")
    assert len(union(map(str, range(1000)))) == scope_selection.MAX_SCOPES


@pytest.mark.parametrize(
    ("given", "scopes"),
    [
        ("a b  a", ("a", "b")),
        ("", ()),
        (["a", "b c", "", 5, "d\u00e9", 'q"', "back\\slash", "x" * 501], ("a",)),
        (("a",), ("a",)),
        (None, None),
        (5, None),
        ({"a": 1}, None),
    ],
)
def test_what_is_no_scope_is_left_out(given, scopes):
    assert scopes_of(given) == scopes


def test_a_server_cannot_have_a_client_ask_for_any_number():
    assert len(scopes_of([str(n) for n in range(1000)])) == scope_selection.MAX_SCOPES
