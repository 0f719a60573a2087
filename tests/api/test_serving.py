"""api/serving: the steps of an answer; what each method answers is tested with its page."""

from __future__ import annotations

import pytest
from peers import LEGACY, MODERN, RawClient

from mcp_ref import Server, ServerOptions


def test_a_server_serves_all_its_clients_by_one_endpoint():
    server = Server("one", version="1", options=ServerOptions(identify=False))
    with RawClient(server, revision=LEGACY[-1]) as old, RawClient(server, revision=MODERN) as new:
        for client in (old, new):
            client.request("ping") if client is old else client.request("server/discover")
    assert server.serving.server is server
    assert server.serving.handlers is server.handlers


@pytest.mark.parametrize("returned", [[1], "text", 5])
def test_a_handler_that_returns_no_object_is_at_fault(returned):
    server = Server("odd")
    server.on_request("vendor/odd")(lambda params: returned)
    with RawClient(server, revision=MODERN) as client:
        error = client.request("vendor/odd")["error"]
    assert (error["code"], error["message"]) == (-32603, "vendor/odd: the handler returned no object")


def test_a_method_of_no_revision_is_not_found():
    with RawClient(Server("small"), revision=MODERN) as client:
        assert client.request("tools/list")["error"]["code"] == -32601
        assert client.request("x" * 200)["error"]["message"] == (
            f"there is no method {'x' * 100!r} here, in {MODERN}"
        )
