"""basic/patterns/index/context: one request; what ends with it, and what belongs to it."""

import json
import logging
import threading
from types import SimpleNamespace

import pytest
from handlers import Handler, cancel, nothing_about
from peers import LEGACY, MODERN, PATIENCE, REVISIONS, RawClient, nothing_left

from mcp_ref import Context, Server, connect
from mcp_ref.basic.patterns.index.context import ALLOWED, Arrival, ending
from mcp_ref.runtime.errors import ConnectionClosed, RequestCancelled, WriteRefused
from mcp_ref.runtime.threads.outbox import Outbox


@pytest.fixture(autouse=True)
def no_thread_stays():
    with nothing_left():
        yield


@pytest.mark.parametrize("revision", REVISIONS)
def test_a_handler_knows_its_request(revision):
    handler = Handler(
        lambda ctx: [ctx.request_id, ctx.method, ctx.params["a"], str(ctx.revision), ctx.cancelled]
    )
    with RawClient(handler.server, revision=revision) as raw:
        answer = raw.request("vendor/x", {"a": 1}, id="the id")
        assert answer["result"]["value"] == ["the id", "vendor/x", 1, revision, False]


def test_over_http_it_has_what_a_protected_server_allows_its_caller():
    for environ, access in ((None, None), ({}, None), ({ALLOWED: "all"}, "all")):
        assert Arrival(Outbox(print), 1, environ=environ).access == access


@pytest.mark.parametrize("revision", LEGACY)
def test_in_the_legacy_era_it_has_the_session(revision):
    handler = Handler(lambda ctx: ctx.session is ctx.connection.session)
    with RawClient(handler.server, revision=revision) as raw:
        assert raw.request("vendor/x")["result"]["value"] is True
    assert handler.contexts[0].client_info == {"name": "raw", "version": "1"}


def test_in_the_modern_era_it_has_none():
    handler = Handler(lambda ctx: ctx.session is None)
    with RawClient(handler.server, revision=MODERN) as raw:
        assert raw.request("vendor/x")["result"]["value"] is True


@pytest.mark.spec("basic/transports/stdio/stop-cancelled-work", "basic/transports/stdio/silent-after-cancel")
@pytest.mark.parametrize("revision", REVISIONS)
def test_a_cancelled_handler_finds_out_and_its_answer_is_dropped(revision):
    go_on = threading.Event()

    def run(ctx):
        assert go_on.wait(PATIENCE)
        return [ctx.cancelled, ctx.reason, ctx.is_over]

    handler = Handler(run)
    with RawClient(handler.server, revision=revision) as raw:
        request_id = raw.ask("vendor/x")
        handler.is_entered()
        cancel(raw, request_id, reason="changed my mind")
        assert nothing_about(raw, request_id)
        go_on.set()
        assert handler.outcome() == [True, "changed my mind", True]
        assert nothing_about(raw, request_id)


@pytest.mark.parametrize(
    ("reason", "words"), [("enough", "enough"), (None, "the client cancelled the request")]
)
def test_check_cancelled_raises_with_the_reason(reason, words):
    go_on = threading.Event()

    def run(ctx):
        ctx.check_cancelled()  # nothing yet
        assert go_on.wait(PATIENCE)
        ctx.check_cancelled()

    handler = Handler(run)
    with RawClient(handler.server, revision="2025-06-18") as raw:
        request_id = raw.ask("vendor/x")
        handler.is_entered()
        cancel(raw, request_id, **({"reason": reason} if reason else {}))
        assert raw.is_alive()
        go_on.set()
        problem = handler.outcome()
        assert isinstance(problem, RequestCancelled)
        assert str(problem) == words


@pytest.mark.spec("basic/transports/stdio/stop-cancelled-work", "basic/patterns/cancellation/free-resources")
@pytest.mark.parametrize("seconds", [3600, float("inf"), 1e30])
@pytest.mark.parametrize("revision", [LEGACY[0], MODERN])
def test_sleep_ends_at_once_when_the_request_is_cancelled(revision, seconds):
    handler = Handler(lambda ctx: ctx.sleep(seconds))
    with RawClient(handler.server, revision=revision) as raw:
        request_id = raw.ask("vendor/x")
        handler.is_entered()
        cancel(raw, request_id)
        assert isinstance(handler.outcome(), RequestCancelled)
        assert nothing_about(raw, request_id)


def test_sleep_ends_at_once_when_the_client_goes():
    handler = Handler(lambda ctx: ctx.sleep(3600))
    with RawClient(handler.server, revision="2025-11-25") as raw:
        raw.ask("vendor/x")
        handler.is_entered()
    assert isinstance(handler.outcome(), RequestCancelled)


def test_sleep_after_the_cancellation_does_not_sleep():
    go_on = threading.Event()
    handler = Handler(lambda ctx: go_on.wait(PATIENCE) and ctx.sleep(3600))
    with RawClient(handler.server, revision="2025-11-25") as raw:
        request_id = raw.ask("vendor/x")
        handler.is_entered()
        cancel(raw, request_id)
        assert raw.is_alive()
        go_on.set()
        assert isinstance(handler.outcome(), RequestCancelled)


@pytest.mark.parametrize("seconds", [0.01, 0, -1])
def test_sleep_otherwise_lasts_as_long_as_it_should(seconds):
    def run(ctx):
        ctx.sleep(seconds)
        ctx.sleep(seconds)
        return "awake"

    handler = Handler(run)
    with RawClient(handler.server, revision=MODERN) as raw:
        assert raw.request("vendor/x")["result"]["value"] == "awake"


@pytest.mark.spec("basic/patterns/cancellation/free-resources")
def test_what_ends_with_a_request_is_told_on_cancellation():
    told = []
    go_on = threading.Event()

    def run(ctx):
        ctx.ends_with(told.append)
        ctx.ends_with(lambda reason: told.append(f"second: {reason}"))
        assert go_on.wait(PATIENCE)
        ctx.ends_with(lambda reason: told.append(f"late: {reason}"))

    handler = Handler(run)
    with RawClient(handler.server, revision="2025-11-25") as raw:
        request_id = raw.ask("vendor/x")
        handler.is_entered()
        while not (handler.contexts and len(handler.contexts[0].cancellation.enders) == 2):
            assert raw.is_alive()
        cancel(raw, request_id, reason="enough")
        assert raw.is_alive()
        assert told == ["enough", "second: enough"]
        go_on.set()
        handler.outcome()
        assert told[2:] == ["late: enough"]


def test_without_a_reason_there_is_one_all_the_same():
    told = []
    context = Context(None, 1, "vendor/x", {}, Outbox(print))
    context.ends_with(told.append)
    context.cancel(None)
    context.ends_with(told.append)
    assert told == ["the request it belongs to was cancelled"] * 2


def test_what_fails_while_it_ends_harms_neither_the_others_nor_the_connection(caplog):
    told = []

    def run(ctx):
        ctx.ends_with(lambda reason: 1 / 0)
        ctx.ends_with(told.append)
        ctx.sleep(3600)

    handler = Handler(run)
    with RawClient(handler.server, revision="2025-11-25") as raw, caplog.at_level(logging.ERROR):
        request_id = raw.ask("vendor/x")
        handler.is_entered()
        while not (handler.contexts and len(handler.contexts[0].cancellation.enders) == 2):
            assert raw.is_alive()
        cancel(raw, request_id, reason="enough")
        assert raw.is_alive()
        assert isinstance(handler.outcome(), RequestCancelled)
    assert told == ["enough"]
    assert "what should end with it failed" in caplog.text


def test_a_handler_that_finishes_ends_nothing():
    told = []
    handler = Handler(lambda ctx: ctx.ends_with(told.append))
    with RawClient(handler.server, revision="2025-11-25") as raw:
        raw.request("vendor/x")
        assert handler.contexts[0].is_over
        cancel(raw, 1)
        assert raw.is_alive()
    assert not told


@pytest.mark.spec("basic/patterns/index/request-scoped-notifications")
@pytest.mark.parametrize("revision", REVISIONS)
def test_what_a_handler_sends_comes_before_its_answer(revision):
    def run(ctx):
        ctx.notify("vendor/bare")
        ctx.notify("vendor/news", {"n": 1})
        ctx.progress(1, 2)
        return "done"

    handler = Handler(run)
    with RawClient(handler.server, revision=revision) as raw:
        request_id = raw.ask("vendor/x", {"_meta": {"progressToken": "t"}})
        messages = [raw.receive() for _ in range(4)]
        assert messages[0] == {"jsonrpc": "2.0", "method": "vendor/bare"}
        assert messages[1] == {"jsonrpc": "2.0", "method": "vendor/news", "params": {"n": 1}}
        assert messages[2]["params"] == {"progressToken": "t", "progress": 1, "total": 2}
        assert messages[3]["id"] == request_id


def everything(ctx):
    ctx.notify("vendor/news", {"late": True})
    ctx.progress(99)
    ctx.log("emergency", "late")


LOUD = {"io.modelcontextprotocol/logLevel": "debug", "progressToken": "t"}


@pytest.mark.spec(
    "basic/transports/stdio/silent-after-cancel", "basic/patterns/index/request-scoped-notifications"
)
@pytest.mark.parametrize("revision", REVISIONS)
def test_nothing_belongs_to_a_request_that_was_cancelled(revision):
    go_on = threading.Event()

    def run(ctx):
        everything(ctx)
        assert go_on.wait(PATIENCE)
        everything(ctx)

    handler = Handler(run)
    with RawClient(handler.server, revision=revision) as raw:
        request_id = raw.ask("vendor/x", {"_meta": LOUD})
        for _ in range(3):
            assert "method" in raw.receive()
        cancel(raw, request_id)
        assert nothing_about(raw, request_id)
        go_on.set()
        assert handler.outcome() is None
        assert nothing_about(raw, request_id)


@pytest.mark.spec("basic/patterns/index/request-scoped-notifications")
@pytest.mark.parametrize("revision", REVISIONS)
def test_nothing_belongs_to_a_request_that_was_answered(revision):
    """A thread that a tool left behind can no longer speak for it."""
    handler = Handler(lambda ctx: "done")
    with RawClient(handler.server, revision=revision) as raw:
        answer = raw.request("vendor/x", {"_meta": LOUD})
        assert handler.contexts[0].is_over
        everything(handler.contexts[0])
        assert nothing_about(raw, answer["id"])


@pytest.mark.parametrize("revision", REVISIONS)
def test_a_new_request_with_the_same_id_is_another_one(revision):
    """The context of the first stays over, although its id is at work again."""
    handler = Handler(lambda ctx: ctx.is_over)
    with RawClient(handler.server, revision=revision) as raw:
        for _ in range(2):
            assert raw.request("vendor/x", {"_meta": LOUD}, id=7)["result"]["value"] is False
        first, second = handler.contexts
        first.connection.responder.serving[7] = second
        assert first.is_over
        assert not second.is_over
        everything(first)
        del first.connection.responder.serving[7]
        assert nothing_about(raw, 7)


def test_threads_of_a_handlers_own_may_speak_for_it():
    def run(ctx):
        threads = [
            threading.Thread(target=lambda n=n: [ctx.notify("vendor/news", {"n": n}) for _ in range(20)])
            for n in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
        return "done"

    handler = Handler(run)
    with RawClient(handler.server, revision=MODERN) as raw:
        request_id = raw.ask("vendor/x")
        messages = [raw.receive() for _ in range(81)]
        assert messages[-1]["id"] == request_id
        assert sorted(m["params"]["n"] for m in messages[:-1]) == sorted(list(range(4)) * 20)


def test_a_notification_to_nobody_is_a_lost_connection_and_no_more():
    """A handler that outlives its client: what it says goes nowhere."""
    server = Server("gone")
    out = []
    connection = server.attach(Outbox(out.append))
    context = Context(connection, 1, "vendor/x", {})
    connection.responder.serving[1] = context
    context.notify("vendor/news")
    assert [json.loads(line)["method"] for line in out] == ["vendor/news"]
    server.detach(connection, "the client went")
    context.notify("vendor/news")
    assert len(out) == 1


def test_what_ends_with_a_request_is_forgotten_when_its_block_is_over():
    """A tool may ask a thousand times in one request: none of the answers is kept for it."""
    ended = []
    context = Context(None, 1, "tools/call", {}, Outbox(print))
    with ending(context, ended.append):
        pass
    with ending(context, ended.append):
        context.cancel("not wanted")
    assert ended == ["not wanted"]


def test_who_speaks_to_a_client_that_is_gone_is_told_that_the_request_was_given_up():
    """Not that a connection failed, which would count as a fault of the handler's own."""

    class Lost:
        def __init__(self):
            self.responder, self.outbox = self, Outbox(print)

        def serves(self, context):
            return True

        def may_notify(self):
            return True

        def notify(self, method, params, outbox):
            raise ConnectionClosed("the client hung up")

    context = Context(Lost(), 1, "tools/call", {})
    with pytest.raises(RequestCancelled, match="tools/call: the client hung up"):
        context.notify("notifications/x")


def test_a_request_that_a_peer_cannot_be_told_of_before_its_answer_goes_on():
    class Mute:
        def __init__(self):
            self.responder, self.outbox, self.asked = self, Outbox(print), 0

        def serves(self, context):
            return True

        def may_notify(self):
            return True

        def notify(self, method, params, outbox):
            self.asked += 1
            raise WriteRefused("nothing can be sent before the answer")

    mute = Mute()
    Context(mute, 1, "tools/call", {}).notify("notifications/x")
    assert mute.asked == 1


@pytest.mark.parametrize("revision", REVISIONS)
def test_a_context_says_which_request_it_is(revision):
    said = []
    server = Server("notes")

    @server.tool
    def look(ctx: Context) -> None:
        said.append(repr(ctx))
        ctx.cancel("enough")
        said.append(repr(ctx))

    with connect(server, revision=revision) as client:
        client.call_tool("look")
    about = f"<Context of 'tools/call' 'look' by 'mcp_ref' in {revision}"
    assert said == [f"{about}>", f"{about}, cancelled>"]


def test_a_context_can_say_what_it_is_whatever_the_client_sent():
    for params in ({}, {"name": {"a": 1}}, {"uri": "note://1"}, {"name": "a" * 10**6}):
        context = Context(SimpleNamespace(outbox=None), 1, "x/y", params)
        for info in ({}, None, [], {"name": ["a"]}):
            context.client_info = info
            assert repr(context).startswith("<Context of 'x/y'")
            assert len(repr(context)) < 200


RELATED = "io.modelcontextprotocol/related-task"


@pytest.mark.spec("basic/utilities/tasks/related-task-metadata")
@pytest.mark.parametrize("revision", REVISIONS)
def test_what_is_said_of_a_request_that_belongs_to_a_task_names_the_task_in_2025_11_25(revision):
    handler = Handler(lambda ctx: ctx.notify("notifications/x", {"a": 1}))
    with RawClient(handler.server, revision=revision) as raw:
        raw.request("vendor/x", {"_meta": {RELATED: {"taskId": "7"}}})
        said = raw.until(lambda m: m.get("method") == "notifications/x")["params"]
        named = {"_meta": {RELATED: {"taskId": "7"}}} if revision == "2025-11-25" else {}
        assert said == {"a": 1, **named}


def test_what_a_request_says_as_a_task_goes_by_its_run():
    said = []
    run = SimpleNamespace(notify=lambda *told: said.append(told), is_over=False)

    def say(ctx):
        ctx.handling.task = run
        ctx.notify("notifications/x")
        ctx.handling.task = None

    handler = Handler(say)
    with RawClient(handler.server, revision=MODERN) as raw:
        raw.request("vendor/x")
        assert said == [("notifications/x", {})]
