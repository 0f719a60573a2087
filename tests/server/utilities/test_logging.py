"""server/utilities/logging: as loud as the client wants, and nothing for whom it does not concern."""

import logging
import queue
import threading

import pytest
from choices import for_server
from http_peers import Peer, endpoint
from peers import LEGACY, META, MODERN, PATIENCE, REVISIONS, RawClient

from mcp_ref import Context, ErrorResponse, Limit, Server, ServerOptions, connect
from mcp_ref.runtime.errors import LocalError
from mcp_ref.schema import checker
from mcp_ref.server.utilities import logging as page

LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
LEVEL = "io.modelcontextprotocol/logLevel"
SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"


def talkative(**options):
    """A server with a tool that says one thing at every level."""
    server = Server("talkative", **for_server(options))

    @server.tool
    def talk(ctx: Context) -> str:
        for level in LEVELS:
            ctx.log(level, {"at": level}, logger="talk")
        return "done"

    return server


def heard(raw, tool="talk", **more):
    """The levels of the messages that a call brings, in order; the answer must be the last to come."""
    request_id = raw.call(tool, **more)
    messages = []
    while True:
        message = raw.receive()
        if message.get("id") == request_id:
            assert "result" in message, message
            return messages
        assert message["method"] == "notifications/message"
        messages.append(message["params"])


def levels(messages):
    return [message["level"] for message in messages]


# -- the level --------------------------------------------------------------------------------


@pytest.mark.spec("server/utilities/logging/syslog-levels")
def test_the_levels_are_those_of_syslog_in_their_order():
    assert tuple(page.LEVELS) == LEVELS
    assert list(page.LEVELS.values()) == sorted(page.LEVELS.values())


@pytest.mark.spec(
    "server/utilities/logging/set-level-honoured",
    "server/utilities/logging/set-level-empty-result",
    "server/utilities/logging/set-level",
)
@pytest.mark.parametrize("date", LEGACY)
def test_a_legacy_client_hears_from_its_level_on(date):
    with RawClient(talkative(), revision=date) as raw:
        for index, level in enumerate(LEVELS):
            assert raw.request("logging/setLevel", {"level": level})["result"] == {}
            assert levels(heard(raw)) == list(LEVELS[index:])


@pytest.mark.spec("server/utilities/logging/default-level-by-server")
@pytest.mark.parametrize("date", LEGACY)
def test_before_a_legacy_client_sets_a_level_info_applies(date):
    with RawClient(talkative(), revision=date) as raw:
        assert levels(heard(raw)) == list(LEVELS[1:])


@pytest.mark.spec("server/utilities/logging/opt-in-per-request", "server/utilities/logging/at-or-above-level")
def test_a_modern_request_brings_its_own_level_and_none_means_silence():
    with RawClient(talkative(), revision=MODERN) as raw:
        assert heard(raw) == []
        for index, level in enumerate(LEVELS):
            assert levels(heard(raw, meta={LEVEL: level})) == list(LEVELS[index:])
        assert heard(raw) == []


@pytest.mark.spec("server/utilities/logging/invalid-level-32602", "server/utilities/logging/errors")
@pytest.mark.parametrize("date", LEGACY)
@pytest.mark.parametrize("params", [{"level": "loud"}, {"level": "INFO"}, {"level": 3}, {"level": None}, {}])
def test_a_legacy_level_that_there_is_not_is_32602(date, params):
    with RawClient(talkative(), revision=date) as raw:
        assert raw.request("logging/setLevel", params)["error"]["code"] == -32602
        assert levels(heard(raw)) == list(LEVELS[1:])  # the session's level is what it was


@pytest.mark.spec("server/utilities/logging/unknown-level-rejected")
@pytest.mark.parametrize("level", ["loud", "", 1, None, {}])
def test_a_modern_level_that_there_is_not_is_32602(level):
    with RawClient(talkative(), revision=MODERN) as raw:
        params = {"name": "talk", "_meta": {**META, LEVEL: level}}
        assert raw.request("tools/call", params)["error"]["code"] == -32602


def test_the_modern_era_has_no_set_level():
    with RawClient(talkative(), revision=MODERN) as raw:
        assert raw.request("logging/setLevel", {"level": "info"})["error"]["code"] == -32601


def test_sessions_have_levels_of_their_own():
    server = talkative()
    with RawClient(server, revision=LEGACY[0]) as one, RawClient(server, revision=LEGACY[3]) as other:
        one.request("logging/setLevel", {"level": "emergency"})
        other.request("logging/setLevel", {"level": "debug"})
        assert len(heard(one)) == 1
        assert len(heard(other)) == 8


# -- the message --------------------------------------------------------------------------------


@pytest.mark.spec("server/utilities/logging/message-fields")
@pytest.mark.parametrize("date", REVISIONS)
def test_a_message_has_level_data_and_logger_in_the_shape_of_its_revision(date):
    with RawClient(talkative(), revision=date) as raw:
        meta = {LEVEL: "alert"} if date == MODERN else None
        for message in heard(raw, meta=meta):
            checker(page.LoggingMessageNotificationParams, date)(message)
            assert message["data"] == {"at": message["level"]}
            assert message["logger"] == "talk"


def test_data_may_be_any_json_and_the_logger_is_optional():
    server = Server("any")
    values = ["text", 1, None, [1, {"a": None}], {"deep": [[]]}, True, 2.5]

    @server.tool
    def talk(ctx: Context) -> None:
        for value in values:
            ctx.log("error", value)

    with RawClient(server, revision=LEGACY[3]) as raw:
        assert heard(raw) == [{"level": "error", "data": value} for value in values]


@pytest.mark.parametrize("level", ["loud", "INFO", "warn", ""])
def test_a_tool_that_logs_at_no_level_is_told_so(level):
    server = Server("wrong")

    @server.tool
    def talk(ctx: Context) -> None:
        ctx.log(level, "x")

    with connect(server) as client:
        assert "is not a log level" in client.call_tool("talk").text


@pytest.mark.spec("server/utilities/logging/request-scoped-only")
def test_over_http_the_messages_of_a_request_are_on_its_own_stream_and_on_no_other():
    """Not on a subscription, although that one asks for messages; not on the stream of another call."""
    server = talkative()
    begun, go = threading.Event(), threading.Event()

    @server.tool
    def wait(ctx: Context) -> str:
        ctx.log("debug", "of the other call")
        begun.set()
        return "done" if go.wait(PATIENCE) else "left alone"

    with endpoint(server) as at, Peer(at.port) as peer:
        wanted = {"notifications": {"toolsListChanged": True}, "_meta": {LEVEL: "debug"}}
        with peer.ask("subscriptions/listen", wanted) as listening:
            assert listening.message()["method"] == "notifications/subscriptions/acknowledged"
            with peer.call("wait", meta={LEVEL: "debug"}) as other:
                assert begun.wait(PATIENCE)
                with peer.call("talk", meta={LEVEL: "debug"}) as own:
                    *messages, answer = own.messages()
                assert levels(message["params"] for message in messages) == list(LEVELS)
                assert "result" in answer
                go.set()
                message, answer = other.messages()
                assert message["params"]["data"] == "of the other call"
                assert answer["result"]["content"][0]["text"] == "done"
            server.remove_tool("wait")
            assert listening.message()["method"] == "notifications/tools/list_changed"


@pytest.mark.spec("server/utilities/logging/request-scoped-only")
def test_on_a_pipe_no_message_belongs_to_a_subscription():
    with RawClient(talkative(), revision=MODERN) as raw:
        wanted = {"notifications": {"toolsListChanged": True}, "_meta": {LEVEL: "debug"}}
        raw.ask("subscriptions/listen", wanted)
        assert raw.receive()["method"] == "notifications/subscriptions/acknowledged"
        messages = heard(raw, meta={LEVEL: "debug"})
        assert levels(messages) == list(LEVELS)
        assert not [message for message in messages if SUBSCRIPTION in message.get("_meta", {})]
        assert raw.is_alive()
        assert raw.aside == []


@pytest.mark.parametrize("date", REVISIONS)
def test_after_its_request_is_over_a_context_is_silent(date):
    server = Server("late")
    kept: queue.SimpleQueue[Context] = queue.SimpleQueue()

    @server.tool
    def leave(ctx: Context) -> str:
        kept.put(ctx)
        return "gone"

    with RawClient(server, revision=date) as raw:
        meta = {LEVEL: "debug"} if date == MODERN else None
        assert heard(raw, "leave", meta=meta) == []
        kept.get(timeout=PATIENCE).log("emergency", "too late")
        assert heard(raw, "leave", meta=meta) == []


@pytest.mark.parametrize("date", REVISIONS)
def test_a_cancelled_request_logs_no_more(date):
    server = Server("cancelled")
    started, told = threading.Event(), threading.Event()

    @server.tool
    def wait(ctx: Context) -> None:
        started.set()
        try:
            ctx.sleep(PATIENCE)
        finally:
            ctx.log("emergency", "nobody listens")
            told.set()

    with RawClient(server, revision=date) as raw:
        request_id = raw.call("wait", meta={LEVEL: "debug"} if date == MODERN else None)
        assert started.wait(PATIENCE)
        raw.notify("notifications/cancelled", {"requestId": request_id})
        assert told.wait(PATIENCE)
        assert raw.is_alive()
        assert raw.aside == []


@pytest.mark.spec("server/utilities/logging/rate-limit-messages")
@pytest.mark.parametrize("date", REVISIONS)
def test_messages_are_limited_in_rate_and_the_answer_still_comes(date):
    server = Server("flood", options=ServerOptions(notices=Limit(rate=0.001, burst=5)))

    @server.tool
    def talk(ctx: Context) -> str:
        for number in range(1000):
            ctx.log("error", number)
        return "done"

    with RawClient(server, revision=date) as raw:
        messages = heard(raw, meta={LEVEL: "debug"} if date == MODERN else None)
        assert [message["data"] for message in messages] == [0, 1, 2, 3, 4]


@pytest.mark.spec("server/utilities/logging/capability-declared", "schema/method-not-found-ungated")
@pytest.mark.parametrize("date", REVISIONS)
def test_a_server_without_logging_declares_none_has_no_set_level_and_sends_nothing(date):
    server = talkative(logging=False)
    with connect(server, revision=date) as client:
        assert "logging" not in client.server_capabilities
    with RawClient(server, revision=date) as raw:
        assert heard(raw, meta={LEVEL: "debug"} if date == MODERN else None) == []
        assert raw.request("logging/setLevel", {"level": "debug"})["error"]["code"] == -32601


@pytest.mark.spec("server/utilities/logging/capability-declared")
@pytest.mark.parametrize("date", REVISIONS)
def test_a_server_with_logging_declares_it(date):
    with connect(talkative(), revision=date) as client:
        assert client.server_capabilities["logging"] == {}


# -- the bridge -----------------------------------------------------------------------------------


@pytest.fixture
def library():
    """The logger of a library, with the bridge on it."""
    logger = logging.getLogger("some_library.part")
    handler = page.bridge()
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    logger.propagate = False
    yield logger
    logger.removeHandler(handler)
    logger.setLevel(logging.NOTSET)
    logger.propagate = True


def bridged(function):
    """What a client hears of the level debug while a tool runs this."""
    server = Server("bridged")
    server.add_tool(function, name="work")
    with RawClient(server, revision=LEGACY[3]) as raw:
        raw.request("logging/setLevel", {"level": "debug"})
        return heard(raw, "work")


def test_what_a_library_logs_reaches_the_client_of_the_request(library):
    def work() -> None:
        library.debug("one")
        library.info("two %s", 2)
        library.warning("three")
        library.error("four")
        library.critical("five")

    assert bridged(work) == [
        {"level": "debug", "data": "one", "logger": "some_library.part"},
        {"level": "info", "data": "two 2", "logger": "some_library.part"},
        {"level": "warning", "data": "three", "logger": "some_library.part"},
        {"level": "error", "data": "four", "logger": "some_library.part"},
        {"level": "critical", "data": "five", "logger": "some_library.part"},
    ]


def test_two_clients_hear_each_only_their_own_requests(library):
    server = Server("two")
    both = threading.Barrier(2, timeout=PATIENCE)

    @server.tool
    def work(who: str) -> None:
        both.wait()
        library.error("for %s", who)
        both.wait()

    with RawClient(server, revision=LEGACY[3]) as one, RawClient(server, revision=LEGACY[3]) as other:
        first, second = one.call("work", {"who": "one"}), other.call("work", {"who": "other"})
        assert one.receive()["params"]["data"] == "for one"
        assert other.receive()["params"]["data"] == "for other"
        assert one.receive()["id"] == first
        assert other.receive()["id"] == second


def test_outside_a_request_the_bridge_leads_nowhere(library):
    library.error("nobody is there")


@pytest.mark.parametrize("name", ["mcp_ref", "mcp_ref.connection"])
def test_what_this_package_logs_does_not_travel_on_the_connection(name):
    logger, handler = logging.getLogger(name), page.bridge()

    def work() -> None:
        logger.error("of the connection itself")

    logger.addHandler(handler)
    try:
        assert bridged(work) == []
    finally:
        logger.removeHandler(handler)


def test_a_name_that_only_begins_like_ours_does_travel():
    logger, handler = logging.getLogger("mcp_reference"), page.bridge()

    def work() -> None:
        logger.error("mine")

    logger.addHandler(handler)
    try:
        assert [message["data"] for message in bridged(work)] == ["mine"]
    finally:
        logger.removeHandler(handler)


def fail():
    raise ValueError("the secret place failed")


@pytest.mark.parametrize("seen_before", [False, True], ids=["alone", "after another handler"])
def test_the_bridge_sends_no_traceback(library, seen_before):
    """Also when another handler has formatted the record before, and kept the traceback in it."""
    texts: list[str] = []

    class Keeps(logging.Handler):
        def emit(self, record):
            texts.append(self.format(record))

    def work() -> None:
        try:
            fail()
        except ValueError:
            library.exception("it failed")
        library.error("no stack", stack_info=True)
        library.error("nothing", exc_info=True)

    keeps = Keeps()
    library.handlers.insert(0 if seen_before else 1, keeps)
    try:
        said = [message["data"] for message in bridged(work)]
    finally:
        library.removeHandler(keeps)
    assert said[0] == "it failed\nValueError: the secret place failed"
    assert said[1:] == ["no stack", "nothing"]
    assert "Traceback" in texts[0]  # for the others the record is what it was
    assert "Stack" in texts[1]


def test_the_bridge_keeps_its_own_level():
    logger, handler = logging.getLogger("leveled"), page.bridge(logging.ERROR)

    def work() -> None:
        logger.warning("less")
        logger.error("enough")

    logger.addHandler(handler)
    try:
        assert [message["data"] for message in bridged(work)] == ["enough"]
    finally:
        logger.removeHandler(handler)


def test_a_record_that_cannot_be_formatted_harms_nobody(library, capsys):
    handler = page.bridge()

    def work() -> None:
        record = logging.LogRecord("x", logging.ERROR, __file__, 1, "%d", ("no number",), None)
        handler.handle(record)
        library.error("after it")

    assert [message["data"] for message in bridged(work)] == ["after it"]
    assert "no number" in capsys.readouterr().err  # as logging reports such things


def test_a_client_that_is_gone_is_no_error_for_the_library(library, capsys):
    server = Server("gone")
    started, gone, done = threading.Event(), threading.Event(), threading.Event()

    @server.tool
    def work() -> None:
        started.set()
        gone.wait(PATIENCE)
        library.error("into the void")
        done.set()

    with RawClient(server, revision=LEGACY[3]) as raw:
        raw.call("work")
        assert started.wait(PATIENCE)
    gone.set()
    assert done.wait(PATIENCE)
    assert capsys.readouterr().err == ""


# -- client ---------------------------------------------------------------------------------------


@pytest.mark.spec("server/utilities/logging/set-level")
@pytest.mark.parametrize("date", REVISIONS)
def test_a_client_sets_its_level_in_the_way_of_its_era(date):
    said: queue.SimpleQueue = queue.SimpleQueue()
    with connect(talkative(), revision=date, on_log=lambda *message: said.put(message)) as client:
        client.set_log_level("alert")
        client.call_tool("talk")
        assert said.get(timeout=PATIENCE) == ("alert", {"at": "alert"}, "talk")
        assert said.get(timeout=PATIENCE) == ("emergency", {"at": "emergency"}, "talk")
        client.set_log_level("emergency")
        client.call_tool("talk")
        assert said.get(timeout=PATIENCE) == ("emergency", {"at": "emergency"}, "talk")


@pytest.mark.parametrize("date", REVISIONS)
def test_a_level_that_there_is_not_is_not_sent(date):
    with connect(talkative(), revision=date) as client:
        with pytest.raises(ValueError, match="is not a log level; the levels are debug, info"):
            client.set_log_level("loud")
        assert client.asker.log.level is None


@pytest.mark.parametrize("date", LEGACY)
def test_without_the_capability_a_client_asks_for_no_level(date):
    with connect(talkative(logging=False), revision=date) as client:
        with pytest.raises(LocalError, match="logging"):
            client.set_log_level("info")
        assert client.asker.log.level is None


def test_a_level_that_the_server_refuses_is_not_taken_for_set():
    server = talkative()

    @server.around
    def refuse(ctx, params, proceed):
        if ctx.method == "logging/setLevel":
            raise RuntimeError("not today")
        return proceed(params)

    with connect(server, revision=LEGACY[3]) as client:
        with pytest.raises(ErrorResponse):
            client.set_log_level("info")
        assert client.asker.log.level is None


def receiver():
    """What a client has for messages, and what the application was told."""
    said = []
    return page.LogReceiver(lambda *message: said.append(message)), said


@pytest.mark.spec("server/utilities/logging/validate-fields")
@pytest.mark.parametrize(
    "params",
    [
        {},
        {"level": "info"},
        {"data": 1},
        *({"level": level, "data": 1} for level in ("loud", 1, None, ["info"], {})),
    ],
)
def test_what_is_no_message_is_ignored(params):
    messages, said = receiver()
    messages.on_message(params)
    assert said == []


@pytest.mark.spec("server/utilities/logging/validate-fields")
def test_a_logger_that_is_no_text_is_none():
    messages, said = receiver()
    messages.on_message({"level": "info", "data": None, "logger": 5})
    messages.on_message({"level": "info", "data": 1, "logger": "x"})
    assert said == [("info", None, None), ("info", 1, "x")]


def test_nobody_listens():
    page.LogReceiver(None).on_message({"level": "info", "data": 1})


@pytest.mark.parametrize("date", REVISIONS)
def test_whoever_gives_on_log_hears_info_and_above_in_either_era(date):
    """In 2026-07-28 nothing is sent unless a request asks for it: giving a callback is asking."""
    server = Server("talks")

    @server.tool
    def talk(ctx: Context) -> str:
        ctx.log("debug", "quiet")
        ctx.log("info", "aloud")
        return "done"

    heard: queue.Queue = queue.Queue()
    with connect(server, revision=date, on_log=lambda *said: heard.put(said)) as client:
        client.call_tool("talk")
        assert heard.get(timeout=10) == ("info", "aloud", None)
    assert heard.empty()
