"""Handles of tools: what clients see after each change, and that they are told of it."""

from __future__ import annotations

from typing import Any

import pytest
from peers import LEGACY, MODERN, PATIENCE

from mcp_ref import Context, ErrorResponse, Server, ToolHandle, connect

BOTH = pytest.mark.parametrize("revision", [LEGACY[-1], MODERN])


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def names(client: Any) -> list[str]:
    return [tool["name"] for tool in client.list_tools()]


@BOTH
def test_a_tool_is_disabled_and_enabled_and_clients_are_told(revision: str) -> None:
    server = Server("demo")
    handle = server.add_tool(add)
    server.add_tool(lambda: 1, name="other")
    with connect(server, revision=revision) as client, client.listen(tools=True) as changes:
        assert names(client) == ["add", "other"]
        handle.disable()
        handle.disable()
        change = changes.next(timeout=PATIENCE)
        assert change is not None and change.kind == "tools"
        assert names(client) == ["other"]
        with pytest.raises(ErrorResponse, match="Unknown tool: add"):
            client.call_tool("add", {"a": 1, "b": 2})
        handle.enable()
        handle.enable()
        assert changes.next(timeout=PATIENCE) is not None
        assert names(client) == ["other", "add"]
        assert client.call_tool("add", {"a": 1, "b": 2}).text == "3"
        handle.update(description="Add.", title="Sum", annotations={"readOnlyHint": True}, meta={"a": 1})
        assert changes.next(timeout=PATIENCE) is not None
        tool = client.list_tools()[1]
        assert (tool["description"], tool["title"]) == ("Add.", "Sum")
        assert (tool["annotations"], tool["_meta"]) == ({"readOnlyHint": True}, {"a": 1})
        handle.update(title=None)
        assert "title" not in client.list_tools()[1]
        handle.update(lambda a: a * 2, description="Double.")
        assert client.call_tool("add", {"a": 4}).text == "8"
        handle.remove()
        assert names(client) == ["other"]
        with pytest.raises(KeyError, match="'add'"):
            handle.update(title="x")


def test_a_disabled_tool_can_be_changed_and_removed() -> None:
    server = Server("demo")
    server.tool(add)
    handle = ToolHandle(server, "add")
    assert repr(handle) == "<ToolHandle add>"
    handle.disable()
    assert (repr(handle), handle.is_enabled) == ("<ToolHandle add, disabled>", False)
    handle.update(description="New.")
    handle.update(lambda: 5, description="Five.", task="optional")
    with connect(server) as client:
        assert names(client) == []
        handle.enable()
        assert client.list_tools()[0]["description"] == "Five."
        assert client.call_tool("add").text == "5"
        handle.disable()
        handle.remove()
        handle.enable()
    with pytest.raises(KeyError, match="there is no 'add'"):
        handle.disable()
    with pytest.raises(KeyError, match="there is no 'add'"):
        ToolHandle(server, "add")


def test_a_name_that_was_taken_meanwhile_is_not_taken_back() -> None:
    server = Server("demo")
    handle = server.add_tool(add)
    handle.disable()
    server.add_tool(lambda: 1, name="add")
    with pytest.raises(ValueError, match="'add' is among the tools already"):
        handle.enable()
    assert not handle.is_enabled


@pytest.mark.parametrize(
    ("options", "kind", "why"),
    [
        ({"task": "optional"}, TypeError, "update changes title, description, .*; pass a function for task"),
        (
            {"descripton": "x"},
            TypeError,
            r"^ToolHandle\.update got an unexpected keyword argument 'descripton'; there are title, ",
        ),
        ({"function": add, "nme": "x"}, TypeError, r"^ToolHandle\.update got .* 'nme'; there are title, "),
        ({"name": "x"}, TypeError, r"^ToolHandle\.update got an unexpected keyword argument 'name'"),
        ({"description": 5}, ValueError, "description"),
        ({"meta": {"a": object()}}, (TypeError, ValueError), "object"),
    ],
)
def test_a_change_that_makes_no_sense_changes_nothing(options: Any, kind: Any, why: str) -> None:
    server = Server("demo")
    handle = server.add_tool(add)
    function = [options.pop("function")] if "function" in options else []
    with pytest.raises(kind, match=why):
        handle.update(*function, **options)
    with connect(server) as client:
        assert client.list_tools()[0]["description"] == "Add two numbers."


def test_a_tool_may_disable_itself() -> None:
    server = Server("demo")

    def last(ctx: Context) -> str:
        handle.disable()
        return "that was all"

    handle = server.add_tool(last)
    handle.forked()
    with connect(server) as client:
        assert client.call_tool("last").text == "that was all"
        assert names(client) == []
