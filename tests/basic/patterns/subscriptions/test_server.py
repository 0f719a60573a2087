"""Subscriptions, the server's half (page: basic/patterns/subscriptions): who is told what, and when."""

import itertools
import json
import signal
import socket
import threading
import time

import pytest
from choices import for_server
from peers import LEGACY, META, MODERN, PATIENCE, REVISIONS, RawClient, eventually, nothing_left, source

from mcp_ref import Server, connect
from mcp_ref.basic.patterns.subscriptions import server as module
from mcp_ref.basic.patterns.subscriptions.server import Change, SubscriptionsListenResult, TaskChange
from mcp_ref.basic.transports.stdio.framing import Writer
from mcp_ref.runtime.errors import ConnectionClosed
from mcp_ref.runtime.threads.outbox import Full, Outbox
from mcp_ref.schema import checker

ACK = "notifications/subscriptions/acknowledged"
UPDATED = "notifications/resources/updated"
SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"
LAST = "demo://last"
"""A resource whose change is the last one in a test: what is heard before it is all there was."""

NOTICES = {
    "toolsListChanged": "notifications/tools/list_changed",
    "promptsListChanged": "notifications/prompts/list_changed",
    "resourcesListChanged": "notifications/resources/list_changed",
}


@pytest.fixture(autouse=True)
def clean():
    with nothing_left():
        yield


def demo(**options):
    server = Server("demo", version="1.0", **for_server(options))
    server.add_tool(lambda: "x", name="it")
    server.add_prompt(lambda: "x", name="it")
    for uri in ("demo://a", "demo://b", LAST):
        server.add_resource(lambda: "x", uri, name=uri)
    server.add_resource(lambda id: "x", "item:///{id}", name="item")
    return server


def change_all(server):
    """A change of each kind."""
    for add in (server.add_tool, server.add_prompt):
        add(lambda: "new", name="it", replace=True)
    server.add_resource(lambda: "new", "demo://b", name="b", replace=True)
    for uri in ("demo://a", "demo://b", "item:///1", "demo://nowhere"):
        server.resource_updated(uri)


def begin(raw, wanted, **members):
    """Ask to listen; the id, and what was agreed to."""
    name = raw.ask("subscriptions/listen", {"notifications": wanted}, **members)
    return name, raw.until(lambda m: m.get("method") == ACK and tag(m) == name)["params"]["notifications"]


def tag(message):
    """Which subscription a message belongs to; None for those that belong to none."""
    body = message.get("params", message.get("result", {}))
    return body.get("_meta", {}).get(SUBSCRIPTION)


def told(raw, server):
    """All that is told until a last change is: (subscription, method, uri) of each."""
    name, _ = begin(raw, {"resourceSubscriptions": [LAST]})
    assert eventually(lambda: all_begun(server))
    server.resource_updated(LAST)
    raw.until(lambda m: tag(m) == name)
    heard = [(tag(m), m["method"], m["params"].get("uri")) for m in raw.aside]
    raw.aside.clear()
    raw.notify("notifications/cancelled", {"requestId": name})
    assert raw.is_alive()
    return heard


def all_begun(server):
    """Whether each subscription counts as acknowledged, a moment after it says so."""
    with server.listeners._lock:
        return all(stream.acknowledged for stream in server.listeners._all_streams())


@pytest.fixture
def by_hand(monkeypatch):
    """The time that makes a burst is the test's: each call makes what is due happen, to its end."""
    due = []
    monkeypatch.setattr(module, "later", lambda seconds, run: due.append(run))

    def happen():
        assert len(due) <= 1
        while due:
            due.pop()()
            assert eventually(lambda: "mcp_ref changes" not in {t.name for t in threading.enumerate()})

    happen.due = due
    return happen


# -- the acknowledgment ----------------------------------------------------------------------------


def begun(raw, server, wanted):
    """As `begin`; and the server counts its one subscription as acknowledged, a moment after it says so."""
    name, _ = begin(raw, wanted)
    assert eventually(lambda: stream_of(server).acknowledged)
    return name


@pytest.mark.spec(
    "basic/patterns/subscriptions/ack-first",
    "basic/patterns/subscriptions/nothing-before-ack",
    "basic/index/support-base-versioning-patterns",
)
def test_the_acknowledgment_comes_first_and_what_changed_meanwhile_after_it(by_hand):
    server = demo()
    add = server.listeners.add

    def change_before_it_is_acknowledged(stream):
        add(stream)
        change_all(server)
        by_hand()  # everybody was told who could be

    server.listeners.add = change_before_it_is_acknowledged
    with RawClient(server, revision=MODERN) as raw:
        name = raw.ask(
            "subscriptions/listen",
            {"notifications": {"toolsListChanged": True, "resourceSubscriptions": ["demo://a"]}},
        )
        first = raw.receive()
        assert first["method"] == ACK
        assert tag(first) == name
        assert eventually(lambda: stream_of(server).acknowledged and by_hand.due)
        by_hand()
        assert [raw.receive()["method"] for _ in range(2)] == ["notifications/tools/list_changed", UPDATED]
        assert raw.is_alive()
        assert raw.aside == []


def stream_of(server):
    """The one subscription that there is."""
    ((stream,),) = server.listeners._streams.values()
    return stream


@pytest.mark.spec(
    "basic/patterns/subscriptions/ack-first",
    "basic/patterns/subscriptions/nothing-before-ack",
    "basic/patterns/subscriptions/ack-order-per-subscription",
)
def test_the_first_message_of_each_is_its_acknowledgment_while_all_changes_all_the_time():
    server = demo()
    over = threading.Event()

    def change():
        while not over.is_set():
            change_all(server)

    with RawClient(server, revision=MODERN) as raw:
        changing = threading.Thread(target=change)
        changing.start()
        wanted = {"toolsListChanged": True, "resourceSubscriptions": ["demo://a", "item:///1"]}
        asked = [raw.message("subscriptions/listen", {"notifications": wanted}) for _ in range(50)]
        raw.send(*asked)
        names, first = {message["id"] for message in asked}, {}
        while first.keys() < names or not raw.aside:
            message = raw._next(PATIENCE)
            first.setdefault(tag(message), message["method"])
            if message["method"] != ACK:
                raw.aside.append(message)
        over.set()
        changing.join(PATIENCE)
    assert set(first.values()) == {ACK}


@pytest.mark.spec(
    "basic/patterns/subscriptions/ack-lists-honoured-subset",
    "basic/patterns/subscriptions/omitted-means-unsubscribed",
)
@pytest.mark.parametrize(
    ("wanted", "agreed"),
    [
        ({}, {}),
        ({"toolsListChanged": True}, {"toolsListChanged": True}),
        ({"toolsListChanged": False, "promptsListChanged": True}, {"promptsListChanged": True}),
        ({"vendorChanged": True, "taskIds": ["x"]}, {}),
        ({"resourceSubscriptions": []}, {"resourceSubscriptions": []}),
        (
            {"resourceSubscriptions": ["demo://b", "item:///9", "demo://a", "demo://b"]},
            {"resourceSubscriptions": ["demo://b", "item:///9", "demo://a"]},
        ),
        (
            {"resourceSubscriptions": ["demo://x", "no uri", "", "item:///%zz", "demo://A"]},
            {"resourceSubscriptions": []},
        ),
    ],
)
def test_what_is_acknowledged_is_what_will_be_told(wanted, agreed):
    """URIs where nothing is are left out; each is named once; what was not asked for is not there."""
    with RawClient(demo(), revision=MODERN) as raw:
        assert begin(raw, wanted)[1] == agreed


@pytest.mark.spec("basic/patterns/subscriptions/ack-lists-honoured-subset")
def test_what_a_server_does_not_have_is_not_acknowledged():
    everything = {**dict.fromkeys(NOTICES, True), "resourceSubscriptions": ["demo://a"]}
    with RawClient(Server("bare"), revision=MODERN) as raw:
        assert begin(raw, everything)[1] == {}
        assert raw.is_alive()
    server = Server("tools only")
    server.add_tool(lambda: "x", name="it")
    with RawClient(server, revision=MODERN) as raw:
        assert begin(raw, everything)[1] == {"toolsListChanged": True}


@pytest.mark.spec("basic/patterns/subscriptions/ack-lists-honoured-subset")
def test_a_file_of_a_directory_can_be_watched_and_one_that_is_not_there_cannot(tmp_path):
    (tmp_path / "a.txt").write_text("a")
    server = Server("files")
    server.add_directory(tmp_path, uri="files:///")
    with RawClient(server, revision=MODERN) as raw:
        uris = ["files:///a.txt", "files:///b.txt", "files:///../a.txt"]
        assert begin(raw, {"resourceSubscriptions": uris})[1] == {"resourceSubscriptions": uris[:1]}
        assert begin(raw, {"resourcesListChanged": True})[1] == {"resourcesListChanged": True}


@pytest.mark.parametrize("params", [{}, {"notifications": None}, {"notifications": {"toolsListChanged": 1}}])
def test_a_filter_that_is_none_is_refused_and_nothing_is_open(params):
    server = demo()
    with RawClient(server, revision=MODERN) as raw:
        refused = raw.request("subscriptions/listen", params)["error"]
        assert refused["code"] == -32602
        assert "notifications" in refused["message"]
        assert server.listeners._streams == {}


@pytest.mark.parametrize("date", LEGACY)
def test_there_is_nothing_to_listen_to_in_the_legacy_era(date):
    with RawClient(demo(), revision=date) as raw:
        refused = raw.request("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
        assert refused["error"]["code"] == -32601


# -- the filter ------------------------------------------------------------------------------------


@pytest.mark.spec(
    "basic/patterns/subscriptions/only-requested-types",
    "basic/patterns/subscriptions/omitted-means-unsubscribed",
    "server/resources/updated-on-listen",
    "server/tools/list-changed-subscribed",
    "server/prompts/list-changed-subscribed",
)
def test_each_is_told_what_it_asked_for_and_nothing_else():
    """Sixteen subscriptions at once on one connection: every combination there is."""
    server = demo()
    members = (*NOTICES, "resourceSubscriptions")
    expected = set()
    with RawClient(server, revision=MODERN) as raw:
        for chosen in itertools.product((True, False), repeat=4):
            wanted = {member: True for member, on in zip(NOTICES, chosen, strict=False) if on}
            if chosen[3]:
                wanted["resourceSubscriptions"] = ["demo://a", "item:///1"]
            name, agreed = begin(raw, wanted)
            assert agreed == wanted
            assert eventually(lambda: all_begun(server))
            expected |= {(name, NOTICES[m], None) for m in members[:3] if m in wanted}
            expected |= {(name, UPDATED, uri) for uri in wanted.get("resourceSubscriptions", ())}
        change_all(server)
        heard = told(raw, server)
    assert set(heard) == expected
    assert len(heard) == len(expected)


@pytest.mark.spec("basic/patterns/subscriptions/only-requested-types")
def test_a_connection_that_does_not_listen_is_told_nothing():
    server = demo()
    with RawClient(server, revision=MODERN) as silent, RawClient(server, revision=MODERN) as raw:
        assert silent.is_alive()
        begun(raw, server, {"toolsListChanged": True})
        change_all(server)
        assert told(raw, server)
        assert silent.is_alive()
        assert silent.aside == []


@pytest.mark.spec(
    "basic/patterns/subscriptions/id-is-request-id",
    "basic/index/meta-subscription-id",
    "basic/patterns/subscriptions/ack-first",
)
@pytest.mark.parametrize("name", [1, 0, -7, 2**70, "1", "", "é\n", "x" * 1000], ids=repr)
def test_all_that_belongs_to_a_subscription_has_its_id_and_the_type_of_it(name):
    server = demo()
    with RawClient(server, revision=MODERN) as raw:
        begin(raw, {"toolsListChanged": True}, id=12345)  # another one beside it
        wanted = {**dict.fromkeys(NOTICES, True), "resourceSubscriptions": ["demo://a"]}
        raw.ask("subscriptions/listen", {"notifications": wanted}, id=name)
        messages = [raw.receive()]
        change_all(server)
        while len(messages) < 5:
            message = raw.receive()
            if tag(message) != 12345:
                messages.append(message)
        assert [m["method"] for m in messages] == [ACK, *NOTICES.values(), UPDATED]
        assert [tag(m) for m in messages] == [name] * 5
        assert {type(tag(m)) for m in messages} == {type(name)}


def test_an_id_and_the_same_as_text_are_two_subscriptions():
    server = demo()
    with RawClient(server, revision=MODERN) as raw:
        begin(raw, {"toolsListChanged": True}, id=7)
        begin(raw, {"promptsListChanged": True}, id="7")
        assert eventually(lambda: all_begun(server))
        refused = raw.answer(raw.ask("subscriptions/listen", {"notifications": {}}, id="7"))
        assert "in use" in refused["error"]["message"]
        raw.notify("notifications/cancelled", {"requestId": 7})
        change_all(server)
        assert told(raw, server) == [("7", NOTICES["promptsListChanged"], None)]


# -- many ------------------------------------------------------------------------------------------


def test_1000_subscriptions_of_one_connection_need_no_thread_each():
    """Two workers serve them all, and go on serving."""
    server = demo(workers=2)
    with RawClient(server, revision=MODERN) as raw:
        asked = [
            raw.message(
                "subscriptions/listen", {"notifications": {"resourceSubscriptions": [f"item:///{n}"]}}
            )
            for n in range(1000)
        ]
        for at in range(0, 1000, 200):
            raw.send(*asked[at : at + 200])
            for _ in range(200):
                assert raw._next(PATIENCE)["method"] == ACK
        connection = stream_owner(server)
        assert len(connection.responder.serving) == 1000
        for n in range(1000):
            server.resource_updated(f"item:///{n}")
        heard = [raw._next(PATIENCE) for _ in range(1000)]
        assert {(tag(m), m["params"]["uri"]) for m in heard} == {
            (message["id"], f"item:///{n}") for n, message in enumerate(asked)
        }
        for message in asked[1:]:
            raw.notify("notifications/cancelled", {"requestId": message["id"]})
        assert raw.is_alive()
        assert len(connection.responder.serving) == 1
        for n in range(1000):
            server.resource_updated(f"item:///{n}")
        assert told(raw, server) == [(asked[0]["id"], UPDATED, "item:///0")]


def stream_owner(server):
    """The connection that has subscriptions."""
    (connection,) = server.listeners._streams
    return connection


def test_more_than_the_limits_is_refused_and_what_ends_makes_room(monkeypatch):
    monkeypatch.setattr(module, "MAX_STREAMS", 3)
    monkeypatch.setattr(module, "MAX_URIS", 5)
    server = demo()
    with RawClient(server, revision=MODERN) as raw, RawClient(server, revision=MODERN) as other:

        def refused(count):
            uris = [f"item:///{n}" for n in range(count)]
            answer = raw.request("subscriptions/listen", {"notifications": {"resourceSubscriptions": uris}})
            assert answer["error"]["data"]["retryAfterMs"] > 0
            return answer["error"]["code"], answer["error"]["message"]

        code, said = refused(6)
        assert code == 429
        assert "resources" in said
        first, _ = begin(raw, {"resourceSubscriptions": ["demo://a", "demo://b", LAST]})
        assert refused(3) == (code, said)  # together with the first these are six
        begin(raw, {"resourceSubscriptions": ["demo://a", "demo://b"]})
        begin(raw, {"toolsListChanged": True})
        code, said = refused(0)
        assert code == 429
        assert "at most 2000 subscriptions" in said or "at most 3 subscriptions" in said
        begin(other, {"toolsListChanged": True})  # another connection has limits of its own
        raw.notify("notifications/cancelled", {"requestId": first})
        begin(raw, {"resourceSubscriptions": [f"item:///{n}" for n in range(3)]})


@pytest.mark.parametrize("date", LEGACY)
def test_a_session_watches_no_more_resources_than_it_may(monkeypatch, date):
    monkeypatch.setattr(module, "MAX_URIS", 2)
    with RawClient(demo(), revision=date) as raw:
        for uri in ("demo://a", "demo://b", "demo://a"):
            assert raw.request("resources/subscribe", {"uri": uri})["result"] == {}
        assert raw.request("resources/subscribe", {"uri": LAST})["error"]["code"] == 429
        assert raw.request("resources/unsubscribe", {"uri": "demo://a"})["result"] == {}
        assert raw.request("resources/subscribe", {"uri": LAST})["result"] == {}


def test_many_connections_listen_and_leave_while_all_changes():
    """Nobody hears what is not theirs, and what each waits for comes."""
    server = demo()
    over = threading.Event()
    problems = []

    def change():
        while not over.wait(0.001):
            change_all(server)

    def come_and_go(number):
        try:
            for _ in range(5):
                with RawClient(server, revision=MODERN) as raw:
                    uri = f"item:///{number}"
                    name, _ = begin(raw, {"resourceSubscriptions": [uri]})
                    server.resource_updated(uri)
                    raw.until(lambda m, name=name: tag(m) == name and m["method"] == UPDATED)
                    raw.notify("notifications/cancelled", {"requestId": name})
                    assert raw.is_alive()
                    assert {m["params"].get("uri", uri) for m in raw.aside} <= {uri}
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=come_and_go, args=(n,)) for n in range(8)]
    changing = threading.Thread(target=change)
    for thread in (changing, *threads):
        thread.start()
    for thread in threads:
        thread.join(3 * PATIENCE)
    over.set()
    changing.join(PATIENCE)
    assert problems == []
    assert eventually(lambda: server.listeners._streams == {} and server.listeners._sessions == {})


# -- the end of a subscription ---------------------------------------------------------------------


def test_nothing_is_told_after_the_client_has_cancelled():
    """Neither a notification nor a response; the id may be used again, and other ids cancel nothing."""
    server = demo()
    with RawClient(server, revision=MODERN) as raw:
        name = begun(raw, server, {"toolsListChanged": True, "resourceSubscriptions": ["demo://a"]})
        for wrong in (str(name), 999, None, [name], 1.5, True):
            raw.notify("notifications/cancelled", {"requestId": wrong})
        change_all(server)
        assert [method for _, method, _ in told(raw, server)] == [NOTICES["toolsListChanged"], UPDATED]
        raw.notify("notifications/cancelled", {"requestId": name, "reason": "enough"})
        assert raw.is_alive()
        assert server.listeners._streams == {}
        change_all(server)
        assert told(raw, server) == []
        assert begin(raw, {"promptsListChanged": True}, id=name)[1] == {"promptsListChanged": True}
        assert eventually(lambda: all_begun(server))
        change_all(server)
        assert told(raw, server) == [(name, NOTICES["promptsListChanged"], None)]


def test_what_was_to_be_told_when_the_client_cancelled_is_not_told(by_hand):
    server = demo()
    with RawClient(server, revision=MODERN) as raw:
        name = begun(raw, server, {"toolsListChanged": True})
        change_all(server)
        raw.notify("notifications/cancelled", {"requestId": name})
        assert raw.is_alive()
        by_hand()
        assert raw.is_alive()
        assert raw.aside == []


SERVED = """
from mcp_ref.basic.patterns.subscriptions import server as subscriptions
from mcp_ref.basic.transports.stdio import server as stdio
subscriptions.ACKNOWLEDGMENT_SECONDS = stdio.GRACE_SECONDS = 20.0
@server.tool
def it() -> str: return "x"
@server.resource("demo://a")
def a() -> str: return "x"
@server.tool
def change() -> str:
    server.resource_updated("demo://a")
    return "x"
"""


@pytest.mark.spec(
    "basic/patterns/subscriptions/graceful-response",
    "basic/patterns/subscriptions/graceful-result-meta",
    "basic/patterns/cancellation/server-cancels-listen",
    "basic/patterns/cancellation/server-cancels-nothing-else",
    "basic/patterns/subscriptions/id-is-request-id",
)
@pytest.mark.parametrize("at_once", [False, True], ids=["later", "at once"])
def test_at_the_end_of_input_each_is_ended_gracefully(at_once):
    """First notifications/cancelled, last the response; also of those that were asked for just before."""
    names = [1, "1", "a", 4]
    with RawClient(source(SERVED), revision=MODERN) as raw:
        wanted = {"toolsListChanged": True, "resourceSubscriptions": ["demo://a"]}
        raw.send(*(raw.message("subscriptions/listen", {"notifications": wanted}, id=name) for name in names))
        if not at_once:
            for _ in names:
                assert raw._next(PATIENCE)["method"] == ACK
        raw.end_input()
        assert raw.wait() == 0
        messages = []
        with pytest.raises(EOFError):
            while True:
                messages.append(raw._next(PATIENCE))
    for name in names:
        mine = [m for m in messages if tag(m) == name and type(tag(m)) is type(name)]
        cancelled, response = mine[-2:]
        assert [m["method"] for m in mine[:-2]] == ([ACK] if at_once else [])
        assert cancelled["method"] == "notifications/cancelled"
        assert cancelled["params"]["requestId"] == name
        assert type(cancelled["params"]["requestId"]) is type(name)
        assert response["id"] == name
        assert type(response["id"]) is type(name)
        assert response["result"].keys() == {"resultType", "_meta"}
        assert response["result"]["resultType"] == "complete"
        checker(SubscriptionsListenResult, MODERN)(response["result"])
    assert len(messages) == len(names) * (3 if at_once else 2)


@pytest.mark.spec("basic/patterns/cancellation/server-cancels-listen")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_server_that_is_told_to_end_ends_them_in_the_same_way(number):
    with RawClient(source(SERVED), revision=MODERN) as raw:
        name, _ = begin(raw, {"toolsListChanged": True})
        raw.child.send_signal(number)
        cancelled, response = raw.receive(), raw.receive()
        assert cancelled["method"] == "notifications/cancelled"
        assert cancelled["params"]["requestId"] == name
        assert response["id"] == name
        raw.wait()


def test_what_is_being_acknowledged_when_its_connection_closes_is_ended_after_its_acknowledgment():
    server = demo()
    add = server.listeners.add

    def close_before_it_is_acknowledged(stream):
        add(stream)
        server.listeners.close(stream.connection, "going")

    server.listeners.add = close_before_it_is_acknowledged
    with RawClient(server, revision=MODERN) as raw:
        name = raw.ask("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
        first, second, third = (raw.receive() for _ in range(3))
        assert [first["method"], second["method"]] == [ACK, "notifications/cancelled"]
        assert second["params"]["reason"] == "going"
        assert third["id"] == name
        change_all(server)
        assert raw.is_alive()
        assert raw.aside == []


def test_a_subscription_ends_once_though_both_sides_end_it():
    server = demo()
    with RawClient(server, revision=MODERN) as raw:
        name = begun(raw, server, {"toolsListChanged": True})
        stream = stream_of(server)
        remove = server.listeners._remove

        def cancelled_first(stream):
            removed = remove(stream)
            stream.connection.responder.cancel_by_id(name, "the client was quicker")
            return removed

        server.listeners._remove = cancelled_first
        server.listeners.close(stream.connection, "going")
        assert raw.is_alive()
        assert raw.aside == []
        server.listeners._remove = remove
        assert remove(stream) is False


def test_a_client_that_is_gone_cannot_be_told_that_it_is_over():
    server = demo()
    connection, written = attached(server)
    listen(connection, 1, {"toolsListChanged": True})
    listen(connection, 2, {"toolsListChanged": True})
    assert eventually(lambda: len(written) == 2)

    def gone(line):
        raise BrokenPipeError("gone")

    connection.outbox._write = gone
    server.hang_up(connection, 0.01)
    server.detach(connection, "over")
    assert server.listeners._streams == {}


def test_a_client_that_reads_nothing_is_not_told_why_but_its_request_ends():
    """Else it would run for ever, and the end of the server would wait for it."""
    server = demo()
    connection, written = attached(server)
    listen(connection, 1, {"toolsListChanged": True})
    assert eventually(lambda: len(written) == 1 and stream_of(server).acknowledged)
    send = connection.outbox.send

    def full(line, wait=None):
        if b"notifications/cancelled" in line:
            raise Full("the peer has read nothing for 1 s")
        send(line, wait)

    connection.outbox.send = full
    server.listeners.close(connection, "over")
    assert not connection.responder.serving
    assert [json.loads(line)["id"] for line in written[1:]] == [1]
    server.detach(connection, "over")


def test_of_a_listener_that_has_gone_one_change_is_tried():
    server = demo()
    connection, written = attached(server)
    listen(connection, 1, {"toolsListChanged": True, "promptsListChanged": True})
    assert eventually(lambda: len(written) == 1 and stream_of(server).acknowledged)
    stream, tried = stream_of(server), []

    def gone(listener, change):
        tried.append(change)
        raise ConnectionClosed("gone")

    stream.pending = {Change("tools"): None, Change("prompts"): None}
    server.listeners._say = gone
    assert server.listeners._tell_one(stream)
    assert tried == [Change("tools")]
    assert server.listeners._streams == {}
    server.detach(connection, "over")


def attached(server, write=None):
    """A connection without a transport, and what was written to it."""
    written = []
    return server.attach(Outbox(write or (lambda data: written.extend(data.splitlines())))), written


def listen(connection, name, wanted):
    """Have a connection receive a subscriptions/listen."""
    params = {"notifications": wanted, "_meta": META}
    message = {"jsonrpc": "2.0", "id": name, "method": "subscriptions/listen", "params": params}
    connection.receive(json.dumps(message).encode())


@pytest.mark.spec("basic/patterns/subscriptions/ends-with-transport")
def test_a_connection_takes_its_subscriptions_with_it():
    server = demo()
    with RawClient(server, revision=MODERN) as raw:
        for _ in range(3):
            begin(raw, {"toolsListChanged": True})
    assert eventually(lambda: server.listeners._streams == {})
    assert server.listeners._sessions == {}
    server.listeners.unsubscribe(object(), "demo://a")
    change_all(server)  # nobody is there


# -- a client that does not read -------------------------------------------------------------------


class Deaf:
    """A client that listens and does not read, over a socket that holds little."""

    def __init__(self, server, count):
        self.server, self.held = server, b""
        self.ours, self._theirs = socket.socketpair()
        self._theirs.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4608)
        self.connection = server.attach(Outbox(Writer(self._theirs.fileno())))
        self.connection.outbox.limit = 4000
        listen(self.connection, "deaf", {"resourceSubscriptions": [f"item:///{n}" for n in range(count)]})
        self.ours.settimeout(PATIENCE)

    @property
    def pending(self):
        """What waits for it."""
        return stream_named(self.server, "deaf").pending

    def messages(self):
        """What it is sent, as soon as it reads."""
        while True:
            *lines, self.held = self.held.split(b"\n")
            yield from map(json.loads, lines)
            self.held += self.ours.recv(65536)

    def close(self):
        self.ours.close()
        self.server.detach(self.connection, "gone")
        self._theirs.close()


def stream_named(server, name):
    """The subscription of this id."""
    streams = itertools.chain(*server.listeners._streams.values())
    return next(stream for stream in streams if stream.context.request_id == name)


def test_a_listener_that_stops_reading_holds_up_nobody_and_hears_of_each_change_once():
    server, count = demo(), 300
    deaf = Deaf(server, count)
    try:
        messages = deaf.messages()
        assert next(messages)["method"] == ACK
        with RawClient(server, revision=MODERN) as raw:
            begin(raw, {"resourceSubscriptions": [f"item:///{n}" for n in range(count)]})
            for _ in range(5):  # the others are told at once
                for n in range(count):
                    server.resource_updated(f"item:///{n}")
                heard = [raw.receive()["params"]["uri"] for _ in range(count)]
                assert set(heard) == {f"item:///{n}" for n in range(count)}
            assert 0 < len(deaf.pending) <= count
        seen = []
        while set(seen) != {f"item:///{n}" for n in range(count)} or deaf.pending:
            seen.append(next(messages)["params"]["uri"])
        assert len(seen) <= 2 * count  # five times as many were told to the other
    finally:
        deaf.close()


def test_a_listener_that_never_reads_again_is_forgotten_when_it_is_gone():
    server = demo()
    deaf = Deaf(server, 100)
    try:
        assert next(deaf.messages())["method"] == ACK
        for _ in range(50):
            for n in range(100):
                server.resource_updated(f"item:///{n}")
        assert eventually(lambda: deaf.connection.outbox.is_busy)
    finally:
        deaf.close()
    assert server.listeners._streams == {}


def test_one_that_cannot_be_written_to_is_left_out_and_the_others_are_told():
    server = demo()

    def gone(line):
        raise BrokenPipeError("gone")

    connection, written = attached(server)
    listen(connection, 1, {"toolsListChanged": True, "promptsListChanged": True})
    assert eventually(lambda: len(written) == 1 and stream_of(server).acknowledged)
    connection.outbox._write = gone
    with RawClient(server, revision=MODERN) as raw:
        begin(raw, {"toolsListChanged": True})
        assert eventually(lambda: all_begun(server))
        change_all(server)
        assert [method for _, method, _ in told(raw, server)] == [NOTICES["toolsListChanged"]]
        assert connection not in server.listeners._streams
    server.detach(connection, "over")


# -- many changes ----------------------------------------------------------------------------------


@pytest.mark.parametrize("date", REVISIONS)
def test_a_thousand_updates_in_a_burst_are_one_notification(by_hand, date):
    server = demo()
    with RawClient(server, revision=date) as raw:
        if date == MODERN:
            begun(raw, server, {"resourceSubscriptions": ["demo://a"]})
        else:
            raw.request("resources/subscribe", {"uri": "demo://a"})
        for _ in range(1000):
            server.resource_updated("demo://a")
        by_hand()
        assert raw.receive()["params"]["uri"] == "demo://a"
        assert raw.is_alive()
        assert raw.aside == []
        server.resource_updated("demo://a")  # what comes later is told anew
        by_hand()
        assert raw.receive()["method"] == UPDATED


def test_updates_without_a_pause_are_a_notification_a_round():
    server = demo()
    with RawClient(server, revision=MODERN) as raw:
        name = begun(raw, server, {"resourceSubscriptions": ["demo://a"]})
        start = time.monotonic()
        while time.monotonic() < start + 10 * module.BURST_SECONDS:
            server.resource_updated("demo://a")
        heard = told(raw, server)
        rounds = (time.monotonic() - start) / module.BURST_SECONDS
    assert heard == [(name, UPDATED, "demo://a")] * len(heard)
    assert 1 <= len(heard) <= rounds + 2


def test_the_last_change_is_never_lost_and_none_is_told_that_was_not():
    """A client that reads whenever it is told ends with what there is at the end."""
    server, value = Server("counter"), [0]
    server.add_resource(lambda: str(value[0]), "demo://n", name="n")

    def count():
        for n in range(1, 301):
            value[0] = n
            server.resource_updated("demo://n")
            if n % 10 == 0:
                threading.Event().wait(0.001)

    with RawClient(server, revision=MODERN) as raw:
        begin(raw, {"resourceSubscriptions": ["demo://n"]})
        thread = threading.Thread(target=count)
        thread.start()
        last, heard = 0, 0
        while last < 300:
            raw.until(lambda m: m.get("method") == UPDATED)
            heard += 1
            read = raw.request("resources/read", {"uri": "demo://n"})
            last = int(read["result"]["contents"][0]["text"])
        thread.join(PATIENCE)
        assert heard + len([m for m in raw.aside if m.get("method") == UPDATED]) <= 300


def test_what_changes_while_others_are_told_is_told_in_the_next_round(by_hand, monkeypatch):
    server = demo()
    notify = module.Stream.say

    def change_meanwhile(stream, method, params, wait):
        notify(stream, method, params, wait)
        if method == NOTICES["toolsListChanged"]:
            server.resource_updated("demo://a")

    with RawClient(server, revision=MODERN) as raw:
        begun(raw, server, {"toolsListChanged": True, "resourceSubscriptions": ["demo://a"]})
        monkeypatch.setattr(module.Stream, "say", change_meanwhile)
        server.add_tool(lambda: "x", name="new")
        by_hand()
        assert [raw.receive()["method"] for _ in range(2)] == [NOTICES["toolsListChanged"], UPDATED]


def test_a_change_for_which_there_was_no_timer_is_told_with_the_next(monkeypatch, caplog):
    """Nor is it the fault of whoever changed something."""
    server, later = demo(), module.later

    def no_thread(seconds, run):
        raise RuntimeError("can't start new thread")

    with RawClient(server, revision=MODERN) as raw:
        begun(raw, server, {"toolsListChanged": True, "promptsListChanged": True})
        monkeypatch.setattr(module, "later", no_thread)
        server.add_tool(lambda: "x", name="new")
        assert "the changes could not be reported" in caplog.text
        monkeypatch.setattr(module, "later", later)
        server.add_prompt(lambda: "x", name="new")
        heard = {raw.receive()["method"] for _ in range(2)}
        assert heard == {NOTICES["toolsListChanged"], NOTICES["promptsListChanged"]}


def test_a_change_that_no_thread_could_tell_is_told_with_the_next(by_hand, monkeypatch, caplog):
    server = demo()
    thread = threading.Thread

    class NoThread(thread):
        def start(self):
            raise RuntimeError("can't start new thread")

    with RawClient(server, revision=MODERN) as raw:
        begun(raw, server, {"toolsListChanged": True, "promptsListChanged": True})
        monkeypatch.setattr(module.threading, "Thread", NoThread)
        server.add_tool(lambda: "x", name="new")
        by_hand()
        assert "the changes could not be reported" in caplog.text
        monkeypatch.setattr(module.threading, "Thread", thread)
        server.add_prompt(lambda: "x", name="new")
        by_hand()
        heard = {raw.receive()["method"] for _ in range(2)}
        assert heard == {NOTICES["toolsListChanged"], NOTICES["promptsListChanged"]}


# -- the legacy era --------------------------------------------------------------------------------


@pytest.mark.spec("schema/list-changed-unsubscribed", "server/tools/list-changed")
@pytest.mark.parametrize("date", LEGACY)
def test_changes_of_lists_are_told_to_every_session_without_being_asked_for(date):
    server = demo()
    with RawClient(server, revision=date) as raw:
        assert raw.is_alive()
        change_all(server)
        heard = [raw.receive() for _ in range(3)]
        assert [m["method"] for m in heard] == list(NOTICES.values())
        assert all(m.keys() == {"jsonrpc", "method"} for m in heard)
        assert raw.is_alive()
        assert raw.aside == []


@pytest.mark.spec(
    "server/resources/subscribe-method",
    "server/resources/subscribe-empty-result",
    "server/resources/updated-notification",
    "architecture/index/subscription-capability-needed",
)
@pytest.mark.parametrize("date", LEGACY)
def test_changes_of_resources_are_told_to_those_that_subscribed_until_they_unsubscribe(date):
    server = demo()
    with RawClient(server) as raw, RawClient(server, revision=date) as other:
        raw.revision = date
        assert raw.initialize(date)["capabilities"]["resources"]["subscribe"] is True
        assert raw.request("resources/subscribe", {"uri": "demo://a"})["result"] == {}
        assert raw.request("resources/subscribe", {"uri": "item:///1"})["result"] == {}
        assert raw.request("resources/subscribe", {"uri": LAST})["result"] == {}
        for uri in ("demo://a", "demo://b", "item:///1", "item:///2", LAST):
            server.resource_updated(uri)
        heard = [raw.receive() for _ in range(3)]
        assert heard == [
            {"jsonrpc": "2.0", "method": UPDATED, "params": {"uri": uri}}
            for uri in ("demo://a", "item:///1", LAST)
        ]
        for _ in range(2):  # twice is no error
            assert raw.request("resources/unsubscribe", {"uri": "demo://a"})["result"] == {}
        for uri in ("demo://a", "item:///1"):
            server.resource_updated(uri)
        assert raw.receive()["params"] == {"uri": "item:///1"}
        assert other.is_alive()
        assert raw.aside + other.aside == []


@pytest.mark.spec("server/resources/not-found-32002")
@pytest.mark.parametrize("date", LEGACY)
def test_a_resource_that_there_is_not_cannot_be_subscribed_to(date):
    with RawClient(demo(), revision=date) as raw:
        refused = raw.request("resources/subscribe", {"uri": "demo://nowhere"})["error"]
        assert refused["code"] == -32002
        assert refused["data"] == {"uri": "demo://nowhere"}


@pytest.mark.spec("architecture/index/subscription-capability-needed")
@pytest.mark.parametrize("date", LEGACY)
def test_a_session_that_was_told_of_no_resources_cannot_subscribe(date):
    server = Server("empty")
    with RawClient(server, revision=date) as raw:
        server.add_resource(lambda: "x", "demo://a", name="a")
        refused = raw.request("resources/subscribe", {"uri": "demo://a"})["error"]
        assert refused["code"] == -32601
        server.resource_updated("demo://a")
        with connect(server, revision=date) as client, client.listen(resources=["demo://a"]) as changes:
            server.resource_updated("demo://a")
            assert changes.next(PATIENCE) == Change("resource", "demo://a")
        assert raw.is_alive()
        assert raw.aside == []


@pytest.mark.parametrize("date", LEGACY)
def test_what_changes_before_a_session_is_open_is_told_when_it_is(by_hand, date):
    server = demo()
    with RawClient(server) as raw:
        info = {"name": "raw", "version": "1"}
        params = {"protocolVersion": date, "capabilities": {}, "clientInfo": info}
        raw.request("initialize", params)
        for n in range(3):
            server.add_tool(lambda: "x", name=f"new{n}")
        by_hand()
        assert raw.is_alive()
        assert raw.aside == []
        raw.notify("notifications/initialized")
        assert raw.is_alive()
        by_hand()
        assert raw.receive() == {"jsonrpc": "2.0", "method": NOTICES["toolsListChanged"]}
        assert raw.is_alive()
        assert raw.aside == []


@pytest.mark.parametrize("date", LEGACY)
def test_both_eras_on_one_connection_are_told_in_the_way_of_each(date):
    server = demo()
    with RawClient(server, revision=date) as raw:
        params = {"notifications": {"toolsListChanged": True}, "_meta": META}
        name = raw.ask("subscriptions/listen", params)
        assert raw.receive()["method"] == ACK
        server.add_tool(lambda: "x", name="new")
        plain, tagged = raw.receive(), raw.receive()
        assert plain == {"jsonrpc": "2.0", "method": NOTICES["toolsListChanged"]}
        assert tagged == {**plain, "params": {"_meta": {SUBSCRIPTION: name}}}


def test_a_change_knows_the_notification_that_tells_it():
    assert Change("tools").method == NOTICES["toolsListChanged"]
    assert Change("resource", "demo://a").method == UPDATED


def test_a_change_is_printed_with_what_it_is_about():
    assert repr(Change("tools")) == "Change(kind='tools', uri=None)"
    assert repr(Change("resource", "demo://a")) == "Change(kind='resource', uri='demo://a')"
    assert repr(TaskChange("1")) == "TaskChange(task_id='1')"


def test_nobody_subscribes_who_is_gone():
    server = demo()
    connection, _ = attached(server)
    connection.session.server_capabilities = {"resources": {"subscribe": True}}
    server.detach(connection, "over")
    server.listeners.subscribe(connection, "demo://a")
    server.listeners.opened(connection)
    assert server.listeners._sessions == {}
