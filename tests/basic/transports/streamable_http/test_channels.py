"""The ways of a client's messages: what stands where a pipe has its outbox."""

import threading

import pytest
from web import talking, text

from mcp_ref.basic.transports.streamable_http.channels import Posts, Way
from mcp_ref.runtime.http_client.sockets import Aborted


class Exchange:
    """Knows only whether it was ended."""

    def __init__(self):
        self.was_aborted = threading.Event()

    def abort(self):
        self.was_aborted.set()


def test_whoever_gives_a_request_up_ends_the_exchange_that_is_under_way():
    way = Way(None)
    first, second = Exchange(), Exchange()
    assert way.go(first) is first
    way.go(second)
    way.let_go_of_answer()
    assert second.was_aborted.is_set() and not first.was_aborted.is_set()


def test_no_exchange_begins_on_a_way_that_was_given_up():
    way = Way(None, modern=True)
    way.let_go_of_answer()
    with pytest.raises(Aborted):
        way.go(Exchange())
    assert way.is_modern and way.closes


def test_a_message_that_is_no_request_is_posted():
    def handle(request, wire):
        if request.rpc is None:
            wire.answer(500 if request.message["id"] == "bad" else 202)
        else:
            wire.result(request, text("hello"))

    with talking(handle, "2025-11-25", "s-1") as (site, client):
        posts = client.connection.outbox
        assert isinstance(posts, Posts) and posts.is_busy and posts.two_way and not posts.closes
        posts.begins(None)
        posts.answer(b'{"jsonrpc": "2.0", "id": "good", "result": {}}')
        posts.answer(b'{"jsonrpc": "2.0", "id": "bad", "result": {}}')
        assert [r.headers["mcp-session-id"] for r in site.requests if r.rpc is None and r.body] == ["s-1"] * 2
        assert posts.settle(1)
        assert not posts.let_go()
        posts.abandon("no reason")
        posts.fail(OSError())


def test_what_the_server_asked_on_a_way_is_given_up_with_it():
    class Asked:
        def __init__(self):
            self.is_over = False

    class Connection:
        def __init__(self):
            self.given_up = []

        def give_up(self, context, reason):
            self.given_up.append(context)
            assert "over" in reason

    connection = Connection()
    way = Way(connection)
    first, second, third = Asked(), Asked(), Asked()
    for asked in (first, second):
        way.begins(asked)
    first.is_over = True
    way.begins(third)
    way.let_go_of_answer()
    way.let_go_of_answer()
    assert connection.given_up == [second, third], "once, and not what is over anyway"


def test_whatever_else_is_said_there_is_a_post_too():
    class Connection:
        def __init__(self):
            self.posted = []

        def headers(self, method, params):
            return {"X": "y"}

        def post(self, line, headers, wait):
            self.posted.append((line, headers, wait))

    connection = Connection()
    Posts(connection).send(b"{}", 0.2)
    assert connection.posted == [(b"{}", {"X": "y"}, 0.2)]
