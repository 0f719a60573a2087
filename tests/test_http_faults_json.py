"""Bad input within a body that arrived whole, over HTTP: the list of test_bad_input, each item a POST.

A client that speaks through `Posts` writes lines; each is the body of a POST with the headers that fit it,
as far as it can be read. The answer is the same as over a pipe, and so is what goes on after it. Besides that
the status must be the one that goes with the answer.
"""

from __future__ import annotations

import json
import queue
import re
from collections.abc import Iterator
from typing import Any

import pytest
import test_bad_input as over_pipes
from http_faults import ALL, ERAS, OLD, Standing, added, standing
from http_peers import Peer
from peers import MODERN, Json, RawClient, one_sentence

BOTH = pytest.mark.parametrize("revision", ERAS)

STATUS = {-32700: 400, -32600: 400, -32020: 400, -32022: 400, -32601: 404, 429: 429}
"""Of an error, in the modern era; 200 for most others."""


class Posts(RawClient):
    """A raw client whose lines are POSTs; what is answered waits in `receive`."""

    def __init__(self, at: Standing, peer: Peer) -> None:
        self.at, self.peer, self.revision = at, peer, peer.revision
        self.aside: list[Any] = []
        self.stderr: list[str] = []
        self._ids = iter(range(1000, 1 << 30))
        self._arrived: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def write(self, data: bytes) -> None:
        for line in data.split(b"\n"):
            if line.strip():
                self.post(line)

    def post(self, body: bytes) -> None:
        """One message, or what should be one."""
        message = read(body)
        with self.peer.post(body, **self.headers(message)) as reply:
            if reply.status == 202:
                assert reply.body() == b""
                return
            answer = reply.answer()
            assert reply.status == self.status(message, answer), answer
            self._arrived.put(answer)

    def headers(self, message: Any) -> Json:
        """Those of a message that can be read; of any other, what a client says anyway."""
        if self.revision != MODERN:
            return {}
        found: Json = {"MCP_Protocol_Version": MODERN}
        if isinstance(message, dict) and isinstance(message.get("method"), str) and "id" in message:
            params = message.get("params")
            name = params.get("name") if isinstance(params, dict) else None
            meta = params.get("_meta") if isinstance(params, dict) else None
            said = meta.get("io.modelcontextprotocol/protocolVersion") if isinstance(meta, dict) else None
            found["Mcp_Method"] = message["method"]
            found["Mcp_Name"] = name if message["method"] == "tools/call" and isinstance(name, str) else None
            found["MCP_Protocol_Version"] = said if isinstance(said, str) else MODERN
        return found

    def status(self, message: Any, answer: Json) -> int:
        """What an answer comes with."""
        code = answer.get("error", {}).get("code")
        if code is None:
            return 200
        if self.revision != MODERN:
            return 400 if code == -32700 or not is_request(message) else 200
        if code == -32602:  # of the protocol, or of one method
            return 400 if re.search("_meta|params must be an object", answer["error"]["message"]) else 200
        return STATUS[code]


def read(body: bytes) -> Any:
    """What a lenient reader makes of it; None if nothing."""
    try:
        return json.loads(body.decode())
    except (ValueError, RecursionError):
        return None


def is_request(message: Any) -> bool:
    """Whether it can be served as one, rightly or not."""
    return (
        isinstance(message, dict)
        and message.get("jsonrpc") == "2.0"
        and isinstance(message.get("method"), str)
        and type(message.get("id")) in (int, str)
        and not {"result", "error"} & set(message)
    )


@pytest.fixture
def client(revision: str) -> Iterator[Posts]:
    with standing() as at, at.peer(revision) as peer:
        posts = Posts(at, peer)
        yield posts
        assert added(peer) == "42"
        assert posts.aside == []
        assert posts._arrived.empty()


# What is in a body is what is on a line. These are the tests of test_bad_input themselves.
test_bytes_that_are_not_utf8 = over_pipes.test_bytes_that_are_not_utf8
test_another_encoding = over_pipes.test_another_encoding
test_a_byte_order_mark = over_pipes.test_a_byte_order_mark
test_json_that_is_not_an_object = over_pipes.test_json_that_is_not_an_object
test_an_array = over_pipes.test_an_array
test_what_is_not_json = over_pipes.test_what_is_not_json
test_levels_of_nesting = over_pipes.test_levels_of_nesting
test_numbers_beyond_float = over_pipes.test_numbers_beyond_float
test_an_integer_of_many_digits = over_pipes.test_an_integer_of_many_digits
test_tiny_numbers_are_zero = over_pipes.test_tiny_numbers_are_zero
test_duplicate_keys = over_pipes.test_duplicate_keys
test_lone_surrogates = over_pipes.test_lone_surrogates
test_surrogates_in_pairs_are_characters = over_pipes.test_surrogates_in_pairs_are_characters
test_params_that_are_no_object = over_pipes.test_params_that_are_no_object
test_missing_or_wrong_params_of_a_call = over_pipes.test_missing_or_wrong_params_of_a_call
test_wrong_arguments_of_a_tool = over_pipes.test_wrong_arguments_of_a_tool
test_a_wrong_cursor = over_pipes.test_a_wrong_cursor
test_wrong_meta_of_a_modern_request = over_pipes.test_wrong_meta_of_a_modern_request
test_missing_meta_of_a_modern_request = over_pipes.test_missing_meta_of_a_modern_request
test_a_second_initialize = over_pipes.test_a_second_initialize
test_ids_of_wrong_types = over_pipes.test_ids_of_wrong_types
test_ids_written_as_fractions = over_pipes.test_ids_written_as_fractions
test_messages_of_another_version_of_json_rpc = over_pipes.test_messages_of_another_version_of_json_rpc
test_methods_of_wrong_types = over_pipes.test_methods_of_wrong_types
test_a_message_that_is_everything_at_once = over_pipes.test_a_message_that_is_everything_at_once
test_notifications_with_errors_in_them = over_pipes.test_notifications_with_errors_in_them
test_what_is_no_notification_either = over_pipes.test_what_is_no_notification_either
test_progress_for_unknown_tokens = over_pipes.test_progress_for_unknown_tokens
test_cancellation_of_the_unknown_and_the_finished = (
    over_pipes.test_cancellation_of_the_unknown_and_the_finished
)


# What differs over HTTP.


@pytest.mark.parametrize("revision", ALL)
@pytest.mark.parametrize(
    "method",
    [
        "x",
        "",
        "tools",
        "tools/",
        "tools/list ",
        "Tools/List",
        "tools/lists",
        "rpc.discover",
        "é" * 5000,
        "\0",
    ],
)
def test_unknown_methods(client: Posts, method: str) -> None:
    """A modern client has to say it in a header, where not everything can be said."""
    in_header = client.headers({"method": method, "id": 1}).get("Mcp_Method")
    speakable = in_header is None or (method.isascii() and method.isprintable() and method == method.strip())
    if speakable:
        client.ask(method)
        answer = over_pipes.refused(client, -32601, "no method")
    else:
        message = client.message(method)
        with client.peer.post(
            json.dumps(message).encode(), Mcp_Method="x", MCP_Protocol_Version=MODERN
        ) as reply:
            answer = reply.answer()
            assert (reply.status, answer["error"]["code"]) == (400, -32020)
    assert len(one_sentence(answer["error"]["message"])) < 300


@BOTH
def test_methods_of_the_other_era(client: Posts, revision: str) -> None:
    methods = ["ping", "logging/setLevel", "tasks/list"] if revision == MODERN else ["subscriptions/listen"]
    for method in methods:
        client.ask(method)
        over_pipes.refused(client, -32601)


@BOTH
@pytest.mark.parametrize("found", [1, 0, -1, "x", None, 1.5, True, [], {}])
def test_responses_to_nobody(client: Posts, revision: str, found: Any) -> None:
    """Taken and ignored in a session, where there is nobody to tell; in the modern era there are none."""
    for members in ({"result": {}}, {"error": {"code": 1, "message": "no"}}, {"result": {}, "error": {}}, {}):
        with client.peer.post(
            json.dumps({"jsonrpc": "2.0", "id": found, **members}).encode(), **client.headers(None)
        ) as reply:
            well_made = len(members) == 1
            assert reply.status == (202 if revision != MODERN and well_made else 400)


@BOTH
@pytest.mark.parametrize("body", [b"5\n", b"[]", b"{}", b'{"jsonrpc":"2.0"}', b'"initialize"', b"nil"])
def test_what_is_no_message_and_has_no_headers(revision: str, body: bytes) -> None:
    """From a client that has none of what either era asks for."""
    with standing() as at, at.peer(None) as peer, peer.post(body) as reply:
        assert reply.status == 400
        assert reply.json()["error"]["message"]


@pytest.mark.parametrize(
    "change",
    [
        {"params": {}},
        {"params": None},
        {"params": []},
        {"params": {"protocolVersion": 5, "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}},
        {"params": {"protocolVersion": OLD, "capabilities": [], "clientInfo": {}}},
        {"id": None},
        {"id": 1.5},
        {"jsonrpc": "1.0"},
        {"result": {}},
    ],
)
def test_an_initialize_that_is_none_opens_nothing(change: Json) -> None:
    with standing() as at, at.peer(OLD, opens=False) as peer:
        info = {"name": "raw", "version": "1"}
        right = {"protocolVersion": OLD, "capabilities": {}, "clientInfo": info}
        with peer.post({**peer.message("initialize", right), **change}) as reply:
            assert reply.status in (200, 400)
            assert reply.json()["error"]["message"]
            assert "mcp-session-id" not in reply.headers
        assert len(at.app.sessions) == 0


def test_ids_reused_while_in_flight() -> None:
    """Within a session the second is refused, the first goes on; once it is over, its id is free again."""
    with standing() as at, at.peer(OLD) as peer:
        message = peer.message("tools/call", {"name": "hold", "arguments": {}}, id="busy")
        held = peer.send("POST", message)
        assert at.seen.all_begun()
        for _ in range(3):
            with peer.ask("tools/call", {"name": "add", "arguments": {"a": 1, "b": 1}}, id="busy") as reply:
                assert "in use" in reply.answer()["error"]["message"]
        at.seen.go.set()
        assert held.response().status == 200
        assert added(peer) == "42"
        with peer.ask("tools/call", {"name": "add", "arguments": {"a": 1, "b": 1}}, id="busy") as reply:
            assert "result" in reply.answer()
