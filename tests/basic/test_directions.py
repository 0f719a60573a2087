"""Who may send what (page: schema): the unions of messages, revision by revision."""

from __future__ import annotations

from typing import Any

import pytest
from peers import LEGACY, MODERN, REVISIONS

from mcp_ref.api.server import ROWS
from mcp_ref.basic import directions
from mcp_ref.basic.versioning import methods
from mcp_ref.schema import Mismatch, ShapeCompiler, definitions

LISTS = {"tools/list", "prompts/list", "resources/list", "resources/templates/list"}
USES = {"tools/call", "prompts/get", "resources/read", "completion/complete"}
SESSION = {"initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"}
TASKS = {"tasks/get", "tasks/result", "tasks/cancel", "tasks/list"}
QUESTIONS = {"ping", "sampling/createMessage", "roots/list"}
TOLD = {"cancelled", "progress", "message", "resources/updated"} | {
    f"{kind}/list_changed" for kind in ("tools", "prompts", "resources")
}


def members(union: str, date: str) -> list[str]:
    """The names of what a union consists of."""
    schema = definitions(date)[union]
    return [part["$ref"].rpartition("/")[2] for part in schema.get("anyOf", [schema])]


def sent(union: str, date: str) -> set[str]:
    """The methods of the requests or notifications of a union."""
    shapes = [definitions(date)[name]["properties"]["method"] for name in members(union, date)]
    return {shape["const"].removeprefix("notifications/") for shape in shapes}


@pytest.mark.parametrize("date", LEGACY)
def test_until_2025_11_25_a_client_asks_within_a_session(date: str) -> None:
    tasks = TASKS if date == "2025-11-25" else set()
    assert sent("ClientRequest", date) == LISTS | USES | SESSION | tasks


def test_in_2026_07_28_a_client_asks_without_a_session() -> None:
    assert sent("ClientRequest", MODERN) == LISTS | USES | {"server/discover", "subscriptions/listen"}


@pytest.mark.parametrize("date", LEGACY)
def test_until_2025_11_25_a_server_asks_too(date: str) -> None:
    more = {
        "2024-11-05": set(),
        "2025-03-26": set(),
        "2025-06-18": {"elicitation/create"},
        "2025-11-25": {"elicitation/create"} | TASKS,
    }
    assert sent("ServerRequest", date) == QUESTIONS | more[date]


@pytest.mark.spec("basic/index/requests-client-to-server-only")
def test_in_2026_07_28_there_is_no_request_for_a_server_to_send() -> None:
    assert "ServerRequest" not in definitions(MODERN)
    assert "InputRequiredResult" in members("ServerResult", MODERN)
    assert members("ClientResult", MODERN) == ["Result"]


@pytest.mark.parametrize("date", REVISIONS)
def test_what_a_client_tells(date: str) -> None:
    told = {"cancelled"}
    if date != MODERN:
        told |= {"initialized", "progress", "roots/list_changed"}
    if date == "2025-11-25":
        told.add("tasks/status")
    assert sent("ClientNotification", date) == told


@pytest.mark.parametrize("date", REVISIONS)
def test_what_a_server_tells(date: str) -> None:
    more: dict[str, set[str]] = {
        "2025-11-25": {"tasks/status", "elicitation/complete"},
        MODERN: {"subscriptions/acknowledged"},
    }
    assert sent("ServerNotification", date) == TOLD | more.get(date, set())


@pytest.mark.parametrize("date", REVISIONS)
@pytest.mark.parametrize("side", ["Client", "Server"])
def test_each_request_has_its_result_on_the_other_side(side: str, date: str) -> None:
    other = "Server" if side == "Client" else "Client"
    if f"{side}Request" not in definitions(date):
        return
    results = set(members(f"{other}Result", date))
    empty = {"PingRequest", "SubscribeRequest", "UnsubscribeRequest", "SetLevelRequest"}
    for name in set(members(f"{side}Request", date)) - empty:
        assert name.replace("Request", "Result") in results
    assert "Result" in results  # the empty one, and those of later revisions


@pytest.mark.parametrize("date", REVISIONS)
def test_our_server_answers_what_a_client_may_send(date: str) -> None:
    """Tasks are no method of the server itself."""
    answered = {name for name in methods(ROWS, date) if not name.startswith("tasks/")}
    assert answered == sent("ClientRequest", date) - TASKS


@pytest.mark.parametrize("date", REVISIONS)
def test_a_message_is_told_from_what_is_none(date: str) -> None:
    def load(union: Any, message: Any) -> Any:
        return ShapeCompiler(date, refer=False).codec(union).load(message)

    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "add"}}
    meta = {
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    if date == MODERN:
        call["params"] = {"name": "add", "_meta": meta}
    load(directions.ClientRequest, call)
    with pytest.raises(Mismatch):
        load(directions.ClientRequest, {**call, "method": "tools/drop"})
    with pytest.raises(Mismatch):
        load(directions.ServerNotification, {"jsonrpc": "2.0", "method": "notifications/initialized"})
