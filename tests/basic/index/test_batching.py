"""basic/index, "Batching", of 2025-03-26: an array of messages in, an array of answers out."""

import itertools
import json
import threading

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from peers import LEGACY, META, PATIENCE, RawClient, nothing_left

from mcp_ref import Context, Server, ServerOptions
from mcp_ref.basic.index.batching import MAX_BATCH, Batch, wants_answer
from mcp_ref.runtime.threads.outbox import Outbox

REVISION = "2025-03-26"


@pytest.fixture(autouse=True)
def no_thread_stays():
    with nothing_left():
        yield


def request(request_id, method="ping", params=None):
    message = {"jsonrpc": "2.0", "id": request_id, "method": method}
    return message if params is None else {**message, "params": params}


def notification(method="notifications/x", params=None):
    return {"jsonrpc": "2.0", "method": method, **({"params": params} if params is not None else {})}


class Doors:
    """A server with a method that stays until its door is opened."""

    def __init__(self, workers=8, queue=1000):
        self.server = Server("batches", options=ServerOptions(workers=workers, queue=queue))
        self.entered = threading.Semaphore(0)
        self.opened = {}
        self.seen = []

        @self.server.on_request("vendor/wait")
        def wait(params, ctx: Context):
            door = self.opened.setdefault(params["door"], threading.Event())
            self.entered.release()
            while not door.wait(0.005):
                ctx.check_cancelled()
            return {"door": params["door"]}

        @self.server.on_request("vendor/echo")
        def echo(params):
            return {"said": params.get("say")}

        @self.server.on_notification("vendor/note")
        def note(params):
            self.seen.append(params)
            self.entered.release()

    def wait(self):
        assert self.entered.acquire(timeout=PATIENCE)

    def open(self, door):
        self.opened.setdefault(door, threading.Event()).set()


@pytest.fixture
def doors():
    doors = Doors()
    yield doors
    for door in doors.opened.values():
        door.set()


@pytest.fixture
def raw(doors):
    with RawClient(doors.server, revision=REVISION) as raw:
        yield raw


def by_id(answers):
    assert isinstance(answers, list)
    return {answer.get("id"): answer for answer in answers}


# -- answers ----------------------------------------------------------------------------------


@pytest.mark.spec("basic/index/batch-receive", "basic/transports/stdio/batch-per-line")
def test_the_answers_of_a_batch_come_back_as_one_array(raw):
    raw.send([request(n, "vendor/echo", {"say": n}) for n in range(20)])
    answers = raw.receive()
    assert len(answers) == 20
    assert {n: a["result"] for n, a in by_id(answers).items()} == {n: {"said": n} for n in range(20)}
    assert raw.is_alive()


@pytest.mark.spec("basic/index/batch-receive")
def test_a_batch_of_one_is_answered_with_an_array_of_one(raw):
    raw.send([request("a")])
    assert raw.receive() == [{"jsonrpc": "2.0", "id": "a", "result": {}}]


@pytest.mark.spec("basic/index/batch-receive", "basic/index/notification-no-response")
def test_a_batch_of_notifications_has_no_answer(raw, doors):
    raw.send([notification("vendor/note", {"n": n}) for n in range(3)], request(1))
    assert raw.receive() == {"jsonrpc": "2.0", "id": 1, "result": {}}
    for _ in range(3):
        doors.wait()
    assert sorted(seen["n"] for seen in doors.seen) == [0, 1, 2]


@pytest.mark.spec("basic/index/batch-receive")
def test_requests_and_notifications_may_be_mixed(raw, doors):
    raw.send([notification("vendor/note", {"n": 1}), request(1), notification(), request(2, "vendor/none")])
    answers = by_id(raw.receive())
    assert answers.keys() == {1, 2}
    assert answers[1]["result"] == {}
    assert answers[2]["error"]["code"] == -32601
    doors.wait()


def test_the_array_waits_for_the_slowest_and_nothing_else_does(raw, doors):
    raw.send([request(1, "vendor/wait", {"door": "a"}), request(2)])
    doors.wait()
    raw.send(request(3))
    assert raw.receive()["id"] == 3  # the batch is not done, and holds up nobody
    doors.open("a")
    assert by_id(raw.receive()).keys() == {1, 2}


def test_two_batches_at_once_do_not_mix(raw, doors):
    raw.send([request(1, "vendor/wait", {"door": "a"}), request(2)])
    raw.send([request(3, "vendor/wait", {"door": "b"}), request(4)])
    doors.wait()
    doors.wait()
    doors.open("b")
    assert by_id(raw.receive()).keys() == {3, 4}
    doors.open("a")
    assert by_id(raw.receive()).keys() == {1, 2}


def test_an_array_of_answers_has_no_answer(raw):
    """What a client sends back for a batch of requests that a server sent."""
    answers = [
        {"jsonrpc": "2.0", "id": 1, "result": {}},
        {"jsonrpc": "2.0", "id": 2, "error": {"code": 1, "message": "no"}},
    ]
    raw.send(answers, request(5))
    assert raw.receive()["id"] == 5


# -- members that are wrong -------------------------------------------------------------------


def test_an_empty_array_is_one_error(raw):
    raw.send([])
    answer = raw.receive()
    assert answer["error"]["code"] == -32600
    assert answer["id"] is None
    assert raw.is_alive()


WRONG = {
    "a number": 1,
    "null": None,
    "a string": "ping",
    "an empty array": [],
    "a batch in a batch": [request(1)],
    "an empty object": {},
    "no version": {"method": "ping"},
    "a method that is a number": {"jsonrpc": "2.0", "method": 5},
    "a method and a result": {"jsonrpc": "2.0", "method": "x", "result": {}},
    "a null id": request(None),
    "a fractional id": request(1.5),
    "a boolean id": request(True),
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
@pytest.mark.parametrize("first", [True, False])
def test_a_member_that_is_no_message_is_one_error_and_the_others_are_answered(raw, wrong, first):
    members = [wrong, request("good")] if first else [request("good"), wrong]
    raw.send(members)
    answers = by_id(raw.receive())
    assert answers.keys() == {None, "good"}
    assert answers[None]["error"]["code"] == -32600
    assert answers["good"]["result"] == {}
    assert raw.is_alive()


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
def test_a_wrong_member_beside_a_slow_one_is_still_part_of_one_array(raw, doors, wrong):
    raw.send([request("slow", "vendor/wait", {"door": "a"}), wrong])
    doors.wait()
    raw.send(request("meanwhile"))
    assert raw.receive()["id"] == "meanwhile"
    doors.open("a")
    assert by_id(raw.receive()).keys() == {None, "slow"}


@pytest.mark.parametrize(
    "stray",
    [
        {"id": 9, "result": {}},
        {"jsonrpc": "2.0", "id": 9, "result": {}},
        {"jsonrpc": "2.0", "id": 9, "result": {}, "error": {"code": 1, "message": "both"}},
        {"jsonrpc": "2.0", "result": {}},
        {"jsonrpc": "2.0", "id": None, "error": {"code": 1, "message": "x"}},
    ],
)
def test_a_stray_response_in_a_batch_holds_up_no_answer(raw, stray):
    """Responses are never answered, not even wrong ones: then two peers could go on for ever."""
    raw.send([stray, request("good")])
    answers = raw.receive()
    assert [answer["id"] for answer in answers] == ["good"]


def test_a_member_without_a_method_is_an_error_under_its_id(raw):
    raw.send([{"jsonrpc": "2.0", "id": "lacks"}, request("good")])
    answers = by_id(raw.receive())
    assert answers.keys() == {"lacks", "good"}
    assert answers["lacks"]["error"]["code"] == -32600


@pytest.mark.parametrize("count", [1, 3])
def test_nothing_but_wrong_members_is_an_array_of_errors(raw, count):
    raw.send([1] * count)
    answers = raw.receive()
    assert [answer["error"]["code"] for answer in answers] == [-32600] * count


def test_wrong_params_are_an_error_of_that_member(raw):
    raw.send([request(1, "vendor/echo", [1]), request(2)])
    answers = by_id(raw.receive())
    assert answers[1]["error"]["code"] == -32602
    assert answers[2]["result"] == {}


def test_the_same_id_twice_in_a_batch_is_refused_the_second_time(raw, doors):
    raw.send([request(1, "vendor/wait", {"door": "a"}), request(1), request(2)])
    doors.wait()
    doors.open("a")
    answers = raw.receive()
    assert sorted(answer["id"] for answer in answers) == [1, 1, 2]
    [refused] = [answer for answer in answers if "error" in answer]
    assert refused["id"] == 1
    assert "in use" in refused["error"]["message"]


def test_a_batch_that_the_queue_cannot_hold_is_answered_in_full():
    """Each member is run or refused; none is forgotten."""
    doors = Doors(workers=1, queue=2)
    with RawClient(doors.server, revision=REVISION) as raw:
        raw.send([request(n, "vendor/wait", {"door": "a"}) for n in range(10)])
        doors.wait()
        raw.send(request("ping"))
        assert raw.receive()["id"] == "ping"
        doors.open("a")
        answers = raw.receive()
        assert {answer["id"] for answer in answers} == set(range(10))
        refused = [answer for answer in answers if "error" in answer]
        assert len(refused) >= 7
        assert all(answer["error"]["data"]["retryAfterMs"] > 0 for answer in refused)


@pytest.mark.spec("basic/lifecycle/init-not-in-batch")
@pytest.mark.parametrize("with_id", [True, False])
def test_initialize_in_a_batch_is_refused(raw, with_id):
    opening = request(1, "initialize", {"protocolVersion": REVISION, "capabilities": {}})
    if not with_id:
        del opening["id"]
    raw.send([opening, request(2)])
    answers = by_id(raw.receive())
    assert answers.keys() == {1 if with_id else None, 2}
    [refused] = [answer for answer in answers.values() if "error" in answer]
    assert refused["error"] == {"code": -32600, "message": "initialize in a batch"}


# -- cancellation -----------------------------------------------------------------------------


def cancel(request_id):
    return notification("notifications/cancelled", {"requestId": request_id})


def test_a_cancelled_member_is_left_out_of_the_array(raw, doors):
    raw.send([request(1, "vendor/wait", {"door": "a"}), request(2, "vendor/wait", {"door": "b"})])
    doors.wait()
    doors.wait()
    raw.send(cancel(1))
    doors.open("b")
    assert [answer["id"] for answer in raw.receive()] == [2]


def test_when_the_last_open_member_is_cancelled_the_others_are_sent(raw, doors):
    raw.send([request(1, "vendor/wait", {"door": "a"}), request(2)])
    doors.wait()
    raw.send(cancel(1))
    assert [answer["id"] for answer in raw.receive()] == [2]


def test_when_all_members_are_cancelled_nothing_is_sent(raw, doors):
    raw.send([request(1, "vendor/wait", {"door": "a"}), request(2, "vendor/wait", {"door": "b"})])
    doors.wait()
    doors.wait()
    raw.send(cancel(1), cancel(2), request(3))
    assert raw.receive() == {"jsonrpc": "2.0", "id": 3, "result": {}}


def test_a_batch_may_cancel_its_own_member(raw, doors):
    raw.send([request(1, "vendor/wait", {"door": "a"}), request(2), cancel(1)])
    assert [answer["id"] for answer in raw.receive()] == [2]
    assert raw.is_alive()


# -- where there are no batches ---------------------------------------------------------------


@pytest.mark.spec("basic/index/batch-removed")
@pytest.mark.parametrize("revision", [r for r in LEGACY if r != REVISION])
@pytest.mark.parametrize("batch", [[request(1)], [], [notification()], [request(1), request(2)]])
def test_in_every_other_revision_a_batch_is_one_error(doors, revision, batch):
    with RawClient(doors.server, revision=revision) as raw:
        raw.send(batch)
        answer = raw.receive()
        assert answer["error"]["code"] == -32600
        assert "only 2025-03-26 has batches" in answer["error"]["message"]
        assert raw.is_alive()


@pytest.mark.spec("basic/index/batch-removed")
def test_before_initialize_a_batch_is_one_error(doors):
    opening = {"protocolVersion": REVISION, "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    with RawClient(doors.server) as raw:
        raw.send([request(1, "initialize", opening), request(2)])
        answer = raw.receive()
        assert answer["error"]["code"] == -32600
        assert answer.get("id") is None
        raw.initialize(REVISION)  # which was not done by the batch
        raw.send([request(1)])
        assert raw.receive() == [{"jsonrpc": "2.0", "id": 1, "result": {}}]


@pytest.mark.spec("basic/index/batch-removed")
def test_modern_requests_in_a_batch_are_one_error(doors):
    with RawClient(doors.server) as raw:
        raw.send([request(1, "server/discover", {"_meta": META})])
        assert raw.receive()["error"]["code"] == -32600
        raw.send(request(2, "server/discover", {"_meta": META}))
        assert "result" in raw.receive()


# -- the parts --------------------------------------------------------------------------------


def test_the_answers_of_many_threads_become_one_line():
    sent = []
    batch = Batch(Outbox(sent.append), 200)
    begin = threading.Barrier(4)

    def add(start):
        begin.wait(PATIENCE)
        for n in range(start, 200, 4):
            if n % 3:
                batch.answer(b'{"id":%d}\n' % n)
            else:
                batch.cancel("cancelled")

    threads = [threading.Thread(target=add, args=(start,)) for start in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    [line] = sent
    assert line.count(b"\n") == 1
    assert sorted(answer["id"] for answer in json.loads(line)) == [n for n in range(200) if n % 3]


MEMBERS = [
    *[request(1), request("x", "vendor/none"), request(1.5), notification(), notification("initialize")],
    *[request(7, "initialize"), {"jsonrpc": "2.0", "id": 1, "result": {}}, {"id": 1}, {}, 5, None, [], "x"],
    *[{"method": "ping"}, {"jsonrpc": "2.0", "method": 5}, {"jsonrpc": "2.0", "id": 1, "method": None}],
    *[{"jsonrpc": "2.0", "error": {}}, {"jsonrpc": "2.0", "id": 3, "method": "ping", "params": 5}],
]


@settings(deadline=None, max_examples=100, suppress_health_check=list(HealthCheck))
@given(st.lists(st.sampled_from(MEMBERS), min_size=1, max_size=8))
def test_whatever_is_in_a_batch_all_who_want_an_answer_get_one(members):
    """In one array, which comes when the last of them is there; and the connection goes on."""
    out = []
    arrived = threading.Semaphore(0)
    numbers = itertools.count(100)
    members = [
        {**m, "id": next(numbers)} if type(m) is dict and type(m.get("id")) is int else m for m in members
    ]
    server = Server("any")
    connection = server.attach(Outbox(lambda data: (out.append(data), arrived.release())))
    info = {"protocolVersion": REVISION, "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    for message in (request(1, "initialize", info), notification("notifications/initialized"), members):
        connection.receive(json.dumps(message).encode())
    assert arrived.acquire(timeout=PATIENCE)
    wanted = sum(map(wants_answer, members))
    if wanted:
        assert arrived.acquire(timeout=PATIENCE)
    connection.receive(b'{"jsonrpc":"2.0","id":"after","method":"ping"}')
    server.detach(connection, "the test is over")
    _, *answers, after = [json.loads(line) for line in b"".join(out).splitlines()]
    assert after["id"] == "after"
    assert [len(answer) for answer in answers] == ([wanted] if wanted else [])


@pytest.mark.parametrize("member", [b"1", b'{"jsonrpc":"2.0","id":1,"method":"ping"}'])
def test_a_batch_beyond_what_can_be_answered_is_one_error(raw, member):
    """Its answers would all be kept until the last one is there."""
    raw.write(b"[" + b",".join([member] * (MAX_BATCH + 1)) + b"]\n")
    refused = raw.receive()
    assert refused["error"]["code"] == -32600
    assert str(MAX_BATCH) in refused["error"]["message"]
    assert raw.is_alive()
    assert raw.aside == []


def test_a_batch_of_as_many_as_may_be_is_answered_in_full(raw):
    raw.send([request(number) for number in range(10, 10 + MAX_BATCH)])
    assert {answer["id"] for answer in raw.receive()} == set(range(10, 10 + MAX_BATCH))
