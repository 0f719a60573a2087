"""Listening, the client's half (page: basic/patterns/subscriptions): one call for both eras."""

import contextlib
import queue
import threading
import time
from types import SimpleNamespace

import pytest
from choices import for_connect
from peers import (
    ENV,
    LEGACY,
    MODERN,
    PATIENCE,
    REVISIONS,
    Notes,
    eventually,
    nothing_left,
    python,
    raw_server,
    source,
)
from web import talking

from mcp_ref import (
    ClientOptions,
    ConnectionClosed,
    ErrorResponse,
    InvalidResponse,
    McpError,
    RequestTimeout,
    Server,
    connect,
)
from mcp_ref.basic.patterns.subscriptions import client as module
from mcp_ref.basic.patterns.subscriptions.client import Changes
from mcp_ref.basic.patterns.subscriptions.server import Change

UPDATED = "notifications/resources/updated"

every = pytest.mark.parametrize("date", REVISIONS)


@pytest.fixture(autouse=True)
def clean():
    with nothing_left():
        yield


def demo():
    server = Server("demo", version="1.0")
    server.add_tool(lambda: "x", name="it")
    server.add_prompt(lambda: "x", name="it")
    for uri in ("demo://a", "demo://b"):
        server.add_resource(lambda: "x", uri, name=uri)
    server.add_resource(lambda id: "x", "item:///{id}", name="item")
    return server


CHILD = source(
    """
    import os

    @server.tool
    def change(kinds: list[str], uris: list[str]) -> str:
        if "tools" in kinds:
            server.add_tool(lambda: "", name="new", replace=True)
        if "prompts" in kinds:
            server.add_prompt(lambda: "", name="it", replace=True)
        if "resources" in kinds:
            server.add_resource(lambda: "", "demo://new", name="new", replace=True)
        for uri in uris:
            server.resource_updated(uri)
        return "changed"

    @server.tool
    def leave(code: int) -> str:
        os._exit(code)

    server.add_prompt(lambda: "", name="it")
    for uri in ("demo://a", "demo://b"):
        server.add_resource(lambda: "x", uri, name=uri)
    """
)


def change(client, *kinds, uris=()):
    client.call_tool("change", {"kinds": list(kinds), "uris": list(uris)})


def taken(changes, count):
    """The next changes, as a set."""
    return {changes.next(PATIENCE) for _ in range(count)}


class Iterating:
    """A thread that takes all changes until there are no more, or something is raised."""

    def __init__(self, changes):
        self.changes, self.seen, self.problem = changes, queue.SimpleQueue(), None
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self):
        try:
            for change in self.changes:
                self.seen.put(change)
        except McpError as problem:
            self.problem = problem

    def ends(self):
        self.thread.join(PATIENCE)
        return not self.thread.is_alive()


LISTENED = (
    '''
SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"
ABLE.update(tools={"listChanged": True}, resources={"subscribe": True, "listChanged": True})

def acknowledge(request, agreed=None):
    agreed = request["params"]["notifications"] if agreed is None else agreed
    tell(request, "notifications/subscriptions/acknowledged", notifications=agreed)

def tell(request, method="notifications/tools/list_changed", **params):
    send(method=method, params={"_meta": {SUBSCRIPTION: request["id"]}, **params})

def update(request, uri):
    tell(request, "notifications/resources/updated", uri=uri)

def begin(agreed=None):
    """An open subscription."""
    request = receive("subscriptions/listen")
    acknowledge(request, agreed)
    return request

def end(request):
    answer(request, {"resultType": "complete", "_meta": {SUBSCRIPTION: request["id"]}})
'''.strip()
    + "\n"
)


def scripted(script, **options):
    """A client of a server that is a few lines of script."""
    notes = Notes()
    lines = [line.removeprefix("    ") for line in script.splitlines()]
    return connect(raw_server(LISTENED + "\n".join(lines)), **for_connect(on_stderr=notes, **options)), notes


# -- one call, either era --------------------------------------------------------------------------


@pytest.mark.spec(
    "architecture/index/updates-need-listen-stream",
    "server/tools/list-changed",
    "server/tools/list-changed-subscribed",
    "basic/index/support-base-versioning-patterns",
)
@every
def test_whoever_listens_hears_what_it_asked_for_and_nothing_else(date):
    with connect(python(CHILD), revision=date, options=ClientOptions(env=ENV)) as client:
        everything = {"tools", "prompts", "resources"}, ("demo://a", "demo://b")
        with client.listen(tools=True, resources=["demo://a"]) as changes:
            assert changes.refused == set()
            change(client, *everything[0], uris=everything[1])
            assert taken(changes, 2) == {Change("tools"), Change("resource", "demo://a")}
            change(client, *everything[0], uris=everything[1])
            assert taken(changes, 2) == {Change("tools"), Change("resource", "demo://a")}
            assert changes.next(0) is None
        with client.listen(prompts=True, resources=True) as changes:
            change(client, *everything[0], uris=everything[1])
            assert taken(changes, 2) == {Change("prompts"), Change("resources")}
        with client.listen(resources=["demo://b"], resource_list=True) as changes:
            change(client, *everything[0], uris=everything[1])
            assert taken(changes, 2) == {Change("resources"), Change("resource", "demo://b")}


@pytest.mark.spec("basic/patterns/subscriptions/multiple-concurrent")
@every
def test_many_listen_at_once_and_each_hears_its_own(date):
    server = demo()
    with connect(server, revision=date) as client:
        several = [client.listen(resources=[f"item:///{n}"]) for n in range(100)]
        lists = client.listen(tools=True)
        for n in range(100):
            server.resource_updated(f"item:///{n}")
        server.add_tool(lambda: "x", name="new")
        for n, changes in enumerate(several):
            assert changes.next(PATIENCE) == Change("resource", f"item:///{n}")
        assert lists.next(PATIENCE) == Change("tools")
        assert all(changes.next(0) is None for changes in (*several, lists))
        for changes in (*several, lists):
            changes.close()
        assert not client.asker.subscriptions


@every
def test_what_changed_many_times_is_one_change_until_it_is_taken(date):
    server = demo()
    with connect(server, revision=date) as client, client.listen(resources=["demo://a"]) as changes:
        for _ in range(3):
            for _ in range(100):
                server.resource_updated("demo://a")
            assert changes.next(PATIENCE) == Change("resource", "demo://a")
            with client.listen(resources=["demo://b"]) as last:
                server.resource_updated("demo://b")
                assert last.next(PATIENCE)
            assert changes.next(0) in (None, Change("resource", "demo://a"))  # told in two rounds, perhaps


@every
def test_a_wait_has_an_end(date):
    with connect(demo(), revision=date) as client, client.listen(tools=True) as changes:
        for timeout in (0, -1, 0.01):
            assert changes.next(timeout) is None


def test_a_wait_may_be_longer_than_a_lock_can_count():
    server = demo()
    with connect(server) as client, client.listen(tools=True) as changes:
        server.add_tool(lambda: "x", name="new")
        assert changes.next(1e300) == Change("tools")


@every
def test_listening_to_nothing_is_an_error(date):
    with connect(demo(), revision=date) as client:
        for wanted in ({}, {"resources": []}, {"tools": False, "resources": False}):
            with pytest.raises(ValueError, match="name what to listen to"):
                client.listen(**wanted)
        assert not client.asker.subscriptions


# -- closing ---------------------------------------------------------------------------------------


@every
def test_an_iteration_ends_when_it_is_closed_from_any_thread(date):
    server = demo()
    with connect(server, revision=date) as client:
        for _ in range(3):
            changes = client.listen(tools=True, resources=["demo://a"])
            iterating = Iterating(changes)
            server.resource_updated("demo://a")
            assert iterating.seen.get(timeout=PATIENCE) == Change("resource", "demo://a")
            closing = [threading.Thread(target=changes.close) for _ in range(4)]
            for thread in closing:
                thread.start()
            for thread in closing:
                thread.join(PATIENCE)
            assert iterating.ends()
            assert iterating.problem is None
            assert changes.next() is None
            changes.close()
        assert not client.asker.subscriptions


@every
def test_what_was_not_taken_when_it_was_closed_is_gone(date):
    server = demo()
    with connect(server, revision=date) as client:
        changes, other = client.listen(tools=True), client.listen(tools=True)
        server.add_tool(lambda: "x", name="new")
        assert other.next(PATIENCE)
        changes.close()
        assert list(changes) == []
        changes.push(Change("tools"))  # of a reader that was a little late
        assert list(changes) == []


@pytest.mark.spec("basic/patterns/subscriptions/ends-with-transport")
@every
def test_an_iteration_ends_with_its_client(date):
    client = connect(demo(), revision=date)
    iterating = Iterating(client.listen(tools=True, resources=["demo://a"]))
    client.close()
    assert iterating.ends()
    assert iterating.problem is None
    assert not client.asker.subscriptions


@every
def test_a_client_that_is_closed_hears_nothing_more_and_says_so(date):
    client = connect(demo(), revision=date)
    client.close()
    for wanted in ({"tools": True}, {"resources": ["demo://a"]}):
        with pytest.raises(ConnectionClosed, match="closed"):
            client.listen(**wanted)
    assert not client.asker.subscriptions


@pytest.mark.spec(
    "basic/patterns/subscriptions/client-cancels",
    "basic/patterns/cancellation/stdio-cancelled-notification",
)
def test_closing_cancels_the_request_and_what_still_comes_is_ignored():
    client, notes = scripted("""
    open_modern()
    request = begin()
    receive("notifications/cancelled")
    tell(request)
    end(request)
    go_on()
    """)
    with client:
        changes = client.listen(tools=True)
        changes.close()
        cancelled = notes.message("notifications/cancelled")
        assert cancelled["params"]["requestId"] == notes.message("subscriptions/listen")["id"]
        client.ping()
        assert list(changes) == []
        assert not client.asker.connection.waiting


def test_closing_while_the_server_has_not_agreed_yet_cancels_as_well():
    client, notes = scripted("open_modern()\ngo_on_listening = receive('notifications/cancelled')\ngo_on()")
    with client:
        changes = Changes(client.asker, ["tools"], [])
        opening = threading.Thread(target=changes.open)
        opening.start()
        request = notes.message("subscriptions/listen")
        changes.close()
        opening.join(PATIENCE)
        assert notes.message("notifications/cancelled")["params"]["requestId"] == request["id"]
        assert list(changes) == []
        assert not client.asker.subscriptions
        assert not client.asker.connection.waiting


@every
def test_what_was_closed_before_it_was_open_is_not_left_open(date):
    server = demo()
    with connect(server, revision=date) as client:
        changes = Changes(client.asker, ["tools"], ["demo://a"])
        changes.close()
        changes.open()
        client.ping()
        assert eventually(lambda: server.listeners._streams == {})
        assert all(not listener.uris for listener in server.listeners._sessions.values())
        assert not client.asker.subscriptions


# -- the server ends it ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "how",
    [
        "end(request)",
        'send(method="notifications/cancelled", params={"requestId": request["id"]})',
        'send(method="notifications/cancelled", params={"requestId": request["id"]}); end(request)',
        'end(request); send(method="notifications/cancelled", params={"requestId": request["id"]})',
        "answer(request, {})",
    ],
    ids=["response", "cancelled", "cancelled, response", "response, cancelled", "bare response"],
)
def test_an_iteration_ends_when_the_server_ends_it_and_all_it_told_was_taken(how):
    client, _ = scripted(f"""
    open_modern()
    request = begin()
    tell(request)
    update(request, "demo://a")
    {how}
    tell(request)
    go_on()
    """)
    with client:
        changes = client.listen(tools=True, resources=["demo://a"])
        client.ping()  # by now it is over
        assert list(changes) == [Change("tools"), Change("resource", "demo://a")]
        assert not client.asker.subscriptions
        changes.close()
        client.ping()


def test_a_cancellation_of_another_id_ends_nothing():
    client, _ = scripted("""
    open_modern()
    request = begin()
    for other in (str(request["id"]), request["id"] + 1, None, [request["id"]], 0.5, True):
        send(method="notifications/cancelled", params={"requestId": other})
    tell(request)
    go_on()
    """)
    with client, client.listen(tools=True) as changes:
        assert changes.next(PATIENCE) == Change("tools")
        client.ping()
        assert changes.next(0) is None
        assert list(client.asker.subscriptions) == [changes]


def test_a_server_that_ends_it_before_it_agreed_refused_everything():
    client, _ = scripted('open_modern()\nend(receive("subscriptions/listen"))\ngo_on()')
    with client:
        changes = client.listen(tools=True, resources=["demo://a"])
        assert changes.refused == {"tools", "demo://a"}
        assert list(changes) == []


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ('error(request, -32601, "no such method")', ErrorResponse),
        ('error(request, 429, "too many", data={"retryAfterMs": 5})', ErrorResponse),
        ("answer(request, 5)", InvalidResponse),
        ('send(id=request["id"], error=7)', InvalidResponse),
    ],
)
def test_a_server_that_does_not_want_to_be_listened_to_is_an_error(said, kind):
    client, _ = scripted(f'open_modern()\nrequest = receive("subscriptions/listen")\n{said}\ngo_on()')
    with client:
        with pytest.raises(kind):
            client.listen(tools=True)
        assert not client.asker.subscriptions
        client.ping()


def test_an_error_after_the_acknowledgment_is_raised_when_all_was_taken():
    client, _ = scripted("""
    open_modern()
    request = begin()
    tell(request)
    error(request, -32603, "the disk is full")
    go_on()
    """)
    with client:
        changes = client.listen(tools=True)
        iterating = Iterating(changes)
        assert iterating.ends()
        assert iterating.seen.get(timeout=PATIENCE) == Change("tools")
        assert "the disk is full" in str(iterating.problem)
        with pytest.raises(ErrorResponse):
            changes.next()
        assert not client.asker.subscriptions


def test_an_acknowledgment_that_does_not_come_in_time_is_a_timeout():
    client, notes = scripted(
        """
    open_modern()
    request = receive("subscriptions/listen")
    receive("notifications/cancelled")
    acknowledge(request)
    tell(request)
    go_on()
    """
    )
    with client:
        client.asker.connection.timeout = 0.2
        with pytest.raises(RequestTimeout, match=r"no acknowledgment within 0\.2 s"):
            client.listen(tools=True)
        notes.message("notifications/cancelled")
        client.ping(timeout=PATIENCE)
        assert not client.asker.subscriptions
        assert not client.asker.connection.waiting


# -- what the server agrees to ---------------------------------------------------------------------


@pytest.mark.spec("basic/patterns/subscriptions/client-checks-ack")
@pytest.mark.parametrize(
    ("agreed", "refused"),
    [
        ({"toolsListChanged": True, "resourceSubscriptions": ["demo://a", "demo://b"]}, set()),
        ({"toolsListChanged": True, "resourceSubscriptions": ["demo://b"]}, {"demo://a"}),
        ({"toolsListChanged": True}, {"demo://a", "demo://b"}),
        ({"resourceSubscriptions": ["demo://a", "demo://b", "more"]}, {"tools"}),
        ({"toolsListChanged": False, "promptsListChanged": True}, {"tools", "demo://a", "demo://b"}),
        ({"toolsListChanged": 1, "resourceSubscriptions": 5}, {"tools", "demo://a", "demo://b"}),
        ({"resourceSubscriptions": [5, None, "demo://a"]}, {"tools", "demo://b"}),
        ([], {"tools", "demo://a", "demo://b"}),
    ],
)
def test_what_the_server_does_not_tell_of_is_known_and_no_error(agreed, refused, caplog):
    client, _ = scripted(f"open_modern()\nbegin({agreed!r})\ngo_on()")
    with client, client.listen(tools=True, resources=["demo://a", "demo://b"]) as changes:
        assert changes.refused == refused
        assert ("does not report" in caplog.text) == bool(refused)


@every
def test_what_a_server_does_not_have_is_refused(date):
    server = Server("some")
    server.add_resource(lambda: "x", "demo://a", name="a")
    with connect(server, revision=date) as client:
        wanted = {"tools": True, "prompts": True, "resources": ["demo://a", "demo://nowhere", "no uri"]}
        with client.listen(resource_list=True, **wanted) as changes:
            assert changes.refused == {"tools", "prompts", "demo://nowhere", "no uri"}
            server.resource_updated("demo://nowhere")
            server.resource_updated("demo://a")
            assert changes.next(PATIENCE) == Change("resource", "demo://a")


@pytest.mark.spec("basic/lifecycle/negotiated-capabilities-only")
@pytest.mark.parametrize("date", LEGACY)
@pytest.mark.parametrize("able", [{}, {"subscribe": False, "listChanged": False}])
def test_in_the_legacy_era_what_was_not_declared_is_not_asked_for(date, able):
    client, notes = scripted(f"ABLE.update(resources={able!r})\nopen_any({date!r})\ngo_on()", revision=date)
    with client, client.listen(tools=True, resources=["demo://a"], resource_list=True) as changes:
        assert changes.refused == {"resources", "demo://a"}
        client.ping()
    assert "resources/subscribe" not in str(notes.all)


# -- whose a notification is -----------------------------------------------------------------------


@pytest.mark.spec("basic/patterns/subscriptions/stdio-correlate")
def test_what_belongs_to_no_subscription_of_ours_is_ignored():
    """A wrong id, another type, none, that of another request, one that is over."""
    client, _ = scripted("""
    open_modern()
    other = receive("vendor/other")
    over = begin()
    receive("notifications/cancelled")
    first, second = begin(), begin()
    name = first["id"]
    for wrong in (other["id"], over["id"], str(name), name + 0.0, name + 1000, None, True, [name], {}):
        tell({"id": wrong})
        update({"id": wrong}, "demo://a")
    for meta in ({}, None, 5, [name]):
        send(method="notifications/tools/list_changed", params={"_meta": meta})
    send(method="notifications/tools/list_changed")
    send(method="notifications/resources/updated", params={"uri": "demo://a"})
    for params in ({}, {"uri": 5}, {"uri": None}):
        tell(first, "notifications/resources/updated", **params)
    tell(second)
    go_on()
    """)
    with client:
        waiting = client.submit("vendor/other")
        client.listen(tools=True).close()
        wanted = {"tools": True, "resources": ["demo://a"]}
        with client.listen(**wanted) as first, client.listen(**wanted) as second:
            assert second.next(PATIENCE) == Change("tools")
            assert first.next(0) is None
            assert second.next(0) is None
        waiting.cancel()


@pytest.mark.spec("basic/patterns/subscriptions/stdio-correlate")
def test_an_acknowledgment_is_for_the_one_it_names():
    client, _ = scripted("""
    open_modern()
    request = receive("subscriptions/listen")
    for wrong in (request["id"] + 1, str(request["id"]), None):
        acknowledge({**request, "id": wrong})
    send(method="notifications/subscriptions/acknowledged", params={"notifications": {}})
    tell(request)
    acknowledge(request)
    go_on()
    """)
    with client, client.listen(tools=True) as changes:
        assert changes.refused == set()
        assert changes.next(PATIENCE) == Change("tools")  # though it came too early


@pytest.mark.spec("basic/patterns/subscriptions/client-checks-ack")
@every
def test_what_nobody_asked_for_is_not_heard_though_the_server_tells_it(date):
    client, _ = scripted(
        f"""
    open_any({date!r})
    request = {{"id": 0}}
    if {date!r} == "2026-07-28":
        request = begin()
    else:
        answer(receive("resources/subscribe"), {{}})
    for kind in ("prompts", "resources"):
        tell(request, f"notifications/{{kind}}/list_changed")
    for uri in ("demo://b", "demo://ab", "demo:", "", "demo://a"):
        update(request, uri)
    go_on()
    """,
        revision=date,
    )
    with client, client.listen(tools=True, resources=["demo://a"]) as changes:
        assert changes.next(PATIENCE) == Change("resource", "demo://a")
        client.ping()
        assert changes.next(0) is None


@pytest.mark.spec("schema/updated-sub-resource")
@every
def test_a_part_of_what_was_asked_for_is_heard_too(date):
    parts = ["demo://a/b", "demo://a?x=1", "demo://a#top", "dir:///x"]
    client, _ = scripted(
        f"""
    open_any({date!r})
    request = {{"id": 0}}
    if {date!r} == "2026-07-28":
        request = begin()
    else:
        answer(receive("resources/subscribe"), {{}})
        answer(receive("resources/subscribe"), {{}})
    for uri in {parts!r}:
        update(request, uri)
    go_on()
    """,
        revision=date,
    )
    with client, client.listen(resources=["demo://a", "dir:///"]) as changes:
        assert [changes.next(PATIENCE).uri for _ in parts] == parts


def test_what_waits_is_weighed(caplog):
    """Parts of what was asked for may have long names, and there is no end of them."""
    client, _ = scripted(
        "open_legacy(); answer(receive('resources/subscribe'), {}); go_on()", revision=LEGACY[3]
    )
    with client, client.listen(resources=["demo://a"]) as changes:
        for n in range(1000):
            changes.push(module.Change("resource", f"demo://a/{n}/" + "x" * 60_000))
        changes.push(module.Change("resource", "demo://a"))
        seen = []
        while (found := changes.next(0)) is not None:
            seen.append(found.uri)
        assert seen[-1] == "demo://a"
        assert 60 < len(seen) < 70
        assert changes._pending._size == 0
    assert sum("changes are dropped" in record.getMessage() for record in caplog.records) == 1


@every
def test_what_waits_is_bounded_and_what_was_asked_for_by_name_is_always_kept(date, monkeypatch, caplog):
    monkeypatch.setattr(module, "MAX_PENDING", 10)
    client, _ = scripted(
        f"""
    open_any({date!r})
    request = {{"id": 0}}
    if {date!r} == "2026-07-28":
        request = begin()
    else:
        for _ in range(3):
            answer(receive("resources/subscribe"), {{}})
    update(request, "demo://a")
    for n in range(1000):
        update(request, f"demo://a/{{n}}")
    update(request, "demo://b")
    go_on()
    """,
        revision=date,
    )
    with client, client.listen(tools=True, resources=["demo://a", "demo://b", "demo://c"]) as changes:
        client.ping()
        seen = []
        while (found := changes.next(0)) is not None:
            seen.append(found.uri)
        assert seen == ["demo://a", *(f"demo://a/{n}" for n in range(9)), "demo://b"]
        assert caplog.text.count("changes are dropped") == 1


# -- the server is gone ----------------------------------------------------------------------------


@pytest.mark.parametrize(("date", "code"), [*((date, 9) for date in LEGACY), (MODERN, 0), (LEGACY[0], 0)])
def test_a_server_that_is_gone_for_good_is_an_error_for_all_who_listen(date, code):
    """The session is over; and a modern server that ended by itself is not started again."""
    with connect(python(CHILD), revision=date, options=ClientOptions(env=ENV)) as client:
        several = [client.listen(tools=True), client.listen(resources=["demo://a"])]
        iterating = [Iterating(changes) for changes in several]
        with pytest.raises(ConnectionClosed):
            client.call_tool("leave", {"code": code})
        for each in iterating:
            assert each.ends()
            assert isinstance(each.problem, ConnectionClosed)
            assert f"code {code}" in str(each.problem)
        for changes in several:
            with pytest.raises(ConnectionClosed):  # again: it is still gone
                changes.next()
            changes.close()
        for wanted in ({"tools": True}, {"resources": ["demo://a"]}):
            with pytest.raises(ConnectionClosed, match=f"code {code}"):
                client.listen(**wanted)
        assert not client.asker.subscriptions


@pytest.mark.parametrize("date", LEGACY)
def test_a_session_that_ends_while_one_begins_to_listen_is_an_error(date, monkeypatch):
    """`listen` asks nothing of a legacy server for lists: it must find out all the same."""
    with connect(python(CHILD), revision=date, options=ClientOptions(env=ENV)) as client:
        agree = Changes.agree

        def end_before(changes, agreed):
            with pytest.raises(ConnectionClosed):
                client.call_tool("leave", {"code": 9})
            assert eventually(lambda: client.asker.connection.failure is not None)
            agree(changes, agreed)

        monkeypatch.setattr(Changes, "agree", end_before)
        with pytest.raises(ConnectionClosed, match="code 9"):
            client.listen(tools=True)
        assert not client.asker.subscriptions


@pytest.mark.spec(
    "basic/patterns/subscriptions/stdio-relisten",
    "basic/patterns/subscriptions/reconnect-on-abrupt-close",
    "basic/transports/stdio/relisten-after-restart",
    "basic/patterns/index/listen-state-scoped-to-request",
)
def test_a_server_that_crashed_is_listened_to_anew_and_all_may_have_changed():
    with (
        connect(python(CHILD), revision=MODERN, options=ClientOptions(env=ENV)) as client,
        client.listen(tools=True, resources=["demo://a", "demo://nowhere"]) as changes,
    ):
        with pytest.raises(ConnectionClosed):
            client.call_tool("leave", {"code": 9})
        assert taken(changes, 2) == {Change("tools"), Change("resource", "demo://a")}
        change(client, "prompts", uris=["demo://b", "demo://a"])
        assert changes.next(PATIENCE) == Change("resource", "demo://a")
        assert changes.refused == {"demo://nowhere"}


@pytest.mark.spec(
    "basic/patterns/subscriptions/stdio-relisten",
    "basic/patterns/index/listen-state-scoped-to-request",
)
def test_whoever_waits_when_the_server_crashes_asks_the_new_one_for_the_same():
    client, notes = scripted(
        """
    again = open_modern()["params"]["_meta"]["io.modelcontextprotocol/clientInfo"]["name"] == "second"
    request = begin()
    if not again:
        receive("vendor/crash")
        sys.exit(9)
    go_on()
    """,
        name="first",
    )
    with client, client.listen(prompts=True, resources=["demo://b"]) as changes:
        iterating = Iterating(changes)
        client.asker.negotiated.info = {**client.asker.negotiated.info, "name": "second"}
        with pytest.raises(ConnectionClosed):
            client.request("vendor/crash")
        seen = [iterating.seen.get(timeout=PATIENCE) for _ in range(2)]
        assert set(seen) == {Change("prompts"), Change("resource", "demo://b")}

        def asked():
            return [m for m in notes.all if isinstance(m, dict) and m["method"] == "subscriptions/listen"]

        assert eventually(lambda: len(asked()) == 2)  # what a child says of itself takes its time
        wanted = {"promptsListChanged": True, "resourceSubscriptions": ["demo://b"]}
        assert [m["params"]["notifications"] for m in asked()] == [wanted, wanted]
        changes.close()
        assert iterating.ends()


def test_whoever_closes_while_the_server_is_started_again_leaves_nothing_open():
    client, notes = scripted("""
    request = open_modern()
    if "again" in request["params"]["_meta"]["io.modelcontextprotocol/clientInfo"]["name"]:
        receive("subscriptions/listen")
        receive("notifications/cancelled")
        go_on()
    begin()
    sys.exit(9)
    """)
    with client:
        changes = client.listen(tools=True)
        assert eventually(lambda: client.asker.connection.failure is not None)
        client.asker.negotiated.info = {**client.asker.negotiated.info, "name": "again"}
        iterating = Iterating(changes)
        notes.until(lambda m: str(m).count("again") and "subscriptions/listen" in str(m))
        changes.close()
        assert iterating.ends()
        notes.message("notifications/cancelled")
        client.ping()
        assert not client.asker.connection.waiting
        assert not client.asker.subscriptions


CRASHES_ONCE = """
    first = open_modern()
    if first["params"]["_meta"]["io.modelcontextprotocol/clientInfo"]["name"] == "first":
        begin(), begin()
        receive("vendor/crash")
        sys.exit(9)
"""


def test_one_that_has_not_listened_anew_takes_nothing_of_one_that_has():
    """Ids begin anew with the connection: the same number is somebody else's now."""
    client, _ = scripted(
        CRASHES_ONCE
        + """
    request = begin({"toolsListChanged": True})
    tell(request)
    later = begin({"promptsListChanged": True})
    tell(later, "notifications/prompts/list_changed")
    go_on()
    """,
        name="first",
    )
    with client:
        stale, other = client.listen(prompts=True), client.listen(tools=True)
        client.asker.negotiated.info = {**client.asker.negotiated.info, "name": "second"}
        with pytest.raises(ConnectionClosed):
            client.request("vendor/crash")
        assert other.next(PATIENCE) == Change("tools")  # all counts as changed
        assert other.call.id == stale.call.id
        assert other.refused == set()
        assert stale.refused == set()  # as far as it knows: it was not asked since
        assert not stale._pending
        assert stale.next(PATIENCE) == Change("prompts")
        assert stale.refused == set()


def test_closing_what_was_lost_ends_no_request_of_the_connection_after_it():
    client, notes = scripted(
        CRASHES_ONCE
        + """
    request = receive("vendor/slow")
    receive("vendor/go")
    answer(request, {"resultType": "complete", "said": "done"})
    go_on()
    """,
        name="first",
    )
    with client:
        stale, _ = client.listen(tools=True), client.listen(tools=True)
        client.asker.negotiated.info = {**client.asker.negotiated.info, "name": "second"}
        with pytest.raises(ConnectionClosed):
            client.request("vendor/crash")
        slow = client.submit("vendor/slow")
        assert slow.call.id == stale.call.id
        stale.close()
        client.submit("vendor/go")
        assert slow.result(PATIENCE)["said"] == "done"
        assert "notifications/cancelled" not in str(notes.all)


def test_a_server_that_crashes_again_and_again_is_given_up():
    client, _ = scripted("open_modern()\nbegin()\nsys.exit(9)")
    with client:
        changes = client.listen(tools=True)
        seen = 0
        with pytest.raises(ConnectionClosed, match="code 9"):
            while changes.next(PATIENCE) is not None:
                seen += 1
        assert seen <= 4


# -- the legacy era --------------------------------------------------------------------------------


@pytest.mark.parametrize("date", LEGACY)
def test_a_resource_is_unsubscribed_by_the_last_who_listens_to_it(date):
    server = demo()

    def watched():
        (session,) = server.listeners._sessions.values()
        return session.uris

    with connect(server, revision=date) as client:
        first = client.listen(resources=["demo://a", "demo://b", "demo://nowhere"])
        second = client.listen(tools=True, resources=["demo://a"])
        assert watched() == {"demo://a", "demo://b"}
        first.close()
        assert watched() == {"demo://a"}
        server.resource_updated("demo://a")
        assert second.next(PATIENCE) == Change("resource", "demo://a")
        second.close()
        assert watched() == set()


@pytest.mark.parametrize("date", [LEGACY[0], LEGACY[3]])
def test_those_who_come_and_those_who_go_do_not_undo_each_other(date):
    """Whoever listens at the end is subscribed, whatever others did meanwhile."""
    server = demo()
    with connect(server, revision=date) as client:
        for _ in range(20):
            old, start = client.listen(resources=["demo://a"]), threading.Barrier(2, timeout=PATIENCE)
            found = queue.SimpleQueue()

            def come(start=start, found=found):
                start.wait()
                found.put(client.listen(resources=["demo://a"]))

            def go(start=start, old=old):
                start.wait()
                old.close()

            threads = [threading.Thread(target=act) for act in (come, go)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(PATIENCE)
            with found.get(timeout=PATIENCE) as changes:
                server.resource_updated("demo://a")
                assert changes.next(PATIENCE) == Change("resource", "demo://a")


@pytest.mark.parametrize("date", LEGACY)
def test_many_resources_are_subscribed_several_at_once(date):
    """The server answers only when as many have come as are to be under way: 1, 2, 4, ... 32, 32."""
    client, notes = scripted(
        f"""
    open_legacy({date!r})
    for method in ("resources/subscribe", "resources/unsubscribe"):
        for count in (1, 2, 4, 8, 16, 32, 32, 5):
            for request in [receive(method) for _ in range(count)]:
                answer(request, {{}})
    go_on()
    """,
        revision=date,
        timeout=PATIENCE,
    )
    uris = [f"demo://{n}" for n in range(100)]
    with client:
        with client.listen(resources=uris) as changes:
            assert changes.refused == set()
        client.ping()
    asked = [
        m["params"]["uri"] for m in notes.all if isinstance(m, dict) and "resources/" in m.get("method", "")
    ]
    assert asked == uris * 2


@pytest.mark.parametrize("date", LEGACY)
def test_after_an_error_one_resource_is_asked_for_at_a_time(date):
    """What a server refused is refused alone, and the others are subscribed."""
    client, _ = scripted(
        f"""
    open_legacy({date!r})
    answer(receive("resources/subscribe"), {{}})
    two = [receive("resources/subscribe") for _ in range(2)]
    error(two[0], -32002)
    answer(two[1], {{}})
    answer(receive("resources/subscribe"), {{}})
    for request in [receive("resources/subscribe") for _ in range(2)]:
        answer(request, {{}})
    go_on()
    """,
        revision=date,
        timeout=PATIENCE,
    )
    with client:
        changes = client.listen(resources=[f"demo://{n}" for n in range(6)])
        assert changes.refused == {"demo://1"}


@pytest.mark.parametrize("date", LEGACY)
def test_a_server_that_does_not_unsubscribe_is_left_alone(date, caplog):
    """What it goes on telling is ignored; and silence is waited for once."""
    client, notes = scripted(
        f"""
    open_legacy({date!r})
    for _ in range(4):
        answer(receive("resources/subscribe"), {{}})
    error(receive("resources/unsubscribe"), -32603)
    silent = receive("resources/unsubscribe")
    receive("notifications/cancelled")
    send(method="{UPDATED}", params={{"uri": "demo://1"}})
    go_on()
    """,
        revision=date,
    )
    with client:
        changes = client.listen(resources=[f"demo://{n}" for n in range(4)])
        client.asker.connection.timeout = 0.2
        held = contextlib.ExitStack()
        held.enter_context(client.asker.connection.clock.hold())  # no time passes before there is silence

        def let_time_pass():
            notes.until(lambda _: left(notes) == 2)
            held.close()

        waiting = threading.Thread(target=let_time_pass)
        waiting.start()
        start = time.monotonic()
        changes.close()
        assert time.monotonic() - start < PATIENCE
        waiting.join(PATIENCE)
        client.ping(timeout=PATIENCE)
        assert list(changes) == []
    assert left(notes) == 2


def left(notes):
    """How many times a server was asked to unsubscribe."""
    return sum(isinstance(m, dict) and m.get("method") == "resources/unsubscribe" for m in notes.all)


@pytest.mark.parametrize("date", LEGACY)
def test_a_server_that_does_not_answer_to_subscribe_is_a_timeout(date):
    client, _ = scripted(f"open_legacy({date!r})\nreceive('notifications/cancelled')\ngo_on()", revision=date)
    with client:
        client.asker.connection.timeout = 0.1
        with pytest.raises(RequestTimeout, match="resources/subscribe"):
            client.listen(resources=["demo://a"])
        assert not client.asker.subscriptions
        client.ping(timeout=PATIENCE)


@pytest.mark.parametrize("date", LEGACY)
def test_a_change_right_after_connecting_is_heard(date):
    """notifications/initialized may still be on its way then."""
    for _ in range(5):
        server = demo()
        with connect(server, revision=date) as client, client.listen(tools=True) as changes:
            server.add_tool(lambda: "x", name="new")
            assert changes.next(PATIENCE) == Change("tools")


# --------------------------------------------------------------------------------- over HTTP


def acknowledged(request):
    meta = {"io.modelcontextprotocol/subscriptionId": request.message["id"]}
    params = {"_meta": meta, "notifications": {"toolsListChanged": True}}
    return {"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": params}


def listened(times):
    """A server whose subscriptions end after a moment, but for the last of so many."""
    begun = []

    def handle(request, wire):
        begun.append(request)
        wire.stream()
        wire.event(acknowledged(request))
        if len(begun) < times:
            wire.close()
        else:
            wire.gone()

    return begun, handle


@pytest.mark.spec("basic/patterns/subscriptions/reconnect-on-abrupt-close")
def test_a_subscription_whose_connection_breaks_is_opened_again():
    begun, handle = listened(2)
    with talking(handle) as (_site, client), client.listen(tools=True) as changes:
        assert changes.next(PATIENCE) == Change("tools"), "nobody knows what was missed"
        assert eventually(lambda: len(begun) == 2)


def lost(changes):
    """Wait until a subscription is known to be lost: what follows is the pause before the next try."""
    assert eventually(lambda: changes._problem)


def test_a_server_that_ends_each_subscription_at_once_is_not_asked_without_pause(monkeypatch):
    """The time is the test's."""
    now = [1000.0]
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now[0]))
    begun, handle = listened(4)
    with talking(handle) as (_site, client), client.listen(tools=True) as changes:
        for number, pause in enumerate((0, 1, 2), 1):
            lost(changes)
            if pause:
                now[0] += pause - 0.1
                assert changes.next(0) is None
                now[0] += 0.2
            assert len(begun) == number
            assert changes.next(PATIENCE) == Change("tools")


def test_whoever_has_no_time_for_that_pause_is_told_so_and_loses_nothing():
    begun, handle = listened(3)
    with talking(handle) as (_site, client), client.listen(tools=True) as changes:
        assert changes.next(PATIENCE) == Change("tools")
        lost(changes)
        changes._next_try = time.monotonic() + PATIENCE
        assert changes.next(0.1) is None
        changes._next_try = time.monotonic()
        assert changes.next(PATIENCE) == Change("tools")
        assert len(begun) == 3


@pytest.mark.parametrize("closed", ["the subscription", "the client"])
def test_a_pause_ends_when_the_subscription_or_its_client_is_closed(closed):
    _, handle = listened(100)
    with talking(handle) as (_site, client), client.listen(tools=True) as changes:
        changes.next(PATIENCE)
        lost(changes)
        began = time.monotonic()
        changes._next_try = began + 2 * PATIENCE
        timer = threading.Timer(0.1, client.close if closed == "the client" else changes.close)
        timer.start()
        assert changes.next(3 * PATIENCE) is None
        assert time.monotonic() - began < PATIENCE
        timer.join()


def test_a_server_that_comes_back_is_found_again(monkeypatch):
    away = threading.Event()

    def handle(request, wire):
        if away.is_set():
            wire.close()
            return
        wire.stream()
        wire.event(acknowledged(request))
        if len(wire.site.of("subscriptions/listen")) == 1:
            away.set()
            wire.close()
        else:
            wire.gone()

    with talking(handle) as (site, client), client.listen(tools=True) as changes:
        lost(changes)
        assert changes.next(0.3) is None
        assert len(site.of("subscriptions/listen")) > 1
        away.clear()
        assert changes.next(PATIENCE) == Change("tools")


def test_a_server_that_stays_away_is_given_up(monkeypatch):
    monkeypatch.setattr(module, "MAX_LOSSES", 2)

    def handle(request, wire):
        if len(wire.site.of("subscriptions/listen")) == 1:
            wire.stream()
            wire.event(acknowledged(request))
        wire.close()

    with talking(handle) as (_site, client):
        changes = client.listen(tools=True)
        with pytest.raises(ConnectionClosed):
            changes.next(20)
        assert changes not in client.asker.subscriptions
        changes.close()


def test_a_session_that_was_opened_anew_has_its_subscriptions_and_nobody_knows_what_was_missed():
    def handle(request, wire):
        wire.result(request, {})

    with (
        talking(handle, "2025-11-25") as (site, client),
        client.listen(tools=True, resources=["x://a"]) as changes,
    ):
        client.asker.subscriptions.renew()
        assert len(site.of("resources/subscribe")) == 2
        assert {changes.next(1), changes.next(1)} == {Change("tools"), Change("resource", "x://a")}


def test_in_a_forked_child_the_changes_wait_for_no_lock_of_a_thread_that_is_not_there():
    """`forked` is what the child calls; what it is told then, tests/test_forks.py says."""
    with connect(demo(), revision=MODERN) as client:
        changes = Changes(client.asker, {"tool"}, ())
        with changes._news:
            changes.forked()
            changes.push(Change("tool"))
            assert changes.next(0) == Change("tool")


def test_changes_say_what_they_are_of():
    with connect(Server("notes")) as client:
        with client.listen(tools=True, prompts=True, resources=["note://1"]) as changes:
            assert repr(changes) == "<Changes of ['prompts', 'tools', 'note://1']>"
        assert repr(changes) == "<Changes of ['prompts', 'tools', 'note://1'], over>"


@pytest.mark.parametrize("date", REVISIONS)
def test_a_subscription_that_is_dropped_is_closed(date):
    """The server of the modern era is told; the client forgets it in any case, and can go on."""
    server = Server("notes")
    server.add_resource(lambda: "", "note://1", name="note")
    server.add_tool(lambda: None, name="first")
    with connect(server, revision=date) as client:
        changes = client.listen(tools=True, resources=["note://1"])
        call = changes.call
        assert (call is not None) == (date == MODERN)
        assert len(client.asker.subscriptions) == 1
        del changes
        assert eventually(lambda: len(client.asker.subscriptions) == 0)  # the reader may hold it for a moment
        assert call is None or eventually(lambda: call.done)
        server.resource_updated("note://1")
        with client.listen(tools=True) as changes:
            server.add_tool(lambda: None, name="another")
            assert changes.next(PATIENCE) == Change("tools")


def test_a_subscription_that_a_forked_child_drops_is_its_parents():
    with connect(Server("notes")) as client, client.listen(tools=True) as changes:
        module._dropped(changes.opened, module.forks.count - 1)
        assert not changes.call.done


def test_another_subscription_under_the_name_of_a_dropped_one_stays():
    """The name is an address in memory, which may be used again."""
    with connect(Server("notes")) as client, client.listen(tools=True) as changes:
        subscriptions = client.asker.subscriptions
        subscriptions._forget(id(changes), None)
        assert list(subscriptions) == [changes]
