"""Tests of a server, as its clients see it. Run them with `pytest`."""

import sys
from pathlib import Path

import pytest

from mcp_ref import Client, ToolError, connect

SERVER = Path(__file__).with_name("weights.py")


def test_a_weight_is_converted(client: Client) -> None:
    assert client.call_tool("convert", {"kilos": 2}, returns=dict[str, float]) == {"pounds": 4.41}


def test_what_is_wrong_is_said(client: Client) -> None:
    result = client.call_tool("convert", {"kilos": -1})
    assert result.is_error and "not negative" in result.text
    with pytest.raises(ToolError, match="kilos"):
        client.call_tool("convert", {"kilos": "two"}, check=True)


def test_what_a_model_is_told(client: Client) -> None:
    """A model knows what is in here and nothing else: so it is worth a test."""
    tools = {tool["name"]: tool for tool in client.list_tools()}
    assert tools["convert"]["description"] == "Convert a weight to pounds."
    assert tools["convert"]["inputSchema"]["properties"] == {"kilos": {"type": "number"}}


def test_the_person_is_asked(client: Client) -> None:
    assert client.call_tool("clear").text == "cleared"


def test_over_http(http_client: Client) -> None:
    assert http_client.call_tool("convert", {"kilos": 1}).structured == {"pounds": 2.2}


def test_as_a_process() -> None:
    """As a host starts it: nothing on stdout, no missing import, and an end when the client leaves."""
    with connect([sys.executable, SERVER]) as client:
        assert client.call_tool("convert", {"kilos": 1}).structured == {"pounds": 2.2}
