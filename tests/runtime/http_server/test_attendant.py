"""runtime/http_server/attendant: one thread looks after all responses, and sleeps while there are none."""

import socket
import threading
import time

import pytest
from peers import PATIENCE, eventually, nothing_left

from mcp_ref.runtime.http_server import attendant as module
from mcp_ref.runtime.http_server.attendant import Attendant
from mcp_ref.runtime.http_server.reply import HttpReply


@pytest.fixture(autouse=True)
def clean():
    with nothing_left():
        yield


@pytest.fixture
def attendant():
    attendant = Attendant(0.01)
    yield attendant
    attendant.close(PATIENCE)


class Response:
    """A response that is under way, and what it was told."""

    def __init__(self, connection=None):
        environ = {} if connection is None else {"werkzeug.socket": connection}
        self.reply = HttpReply(environ, lambda *head: None)
        self.attended = threading.Semaphore(0)
        self.flushed = threading.Semaphore(0)
        self.refusals = 0
        """How often it asks to be flushed later."""
        self.left = threading.Event()
        self.threads = set()

    def attend(self, now):
        assert abs(now - time.monotonic()) < PATIENCE
        self.threads.add(threading.current_thread().name)
        self.attended.release()

    def client_left(self):
        self.left.set()

    def flush_held(self):
        self.threads.add(threading.current_thread().name)
        if self.refusals:
            self.refusals -= 1
            return False
        self.flushed.release()
        return True


def attendants_since(before):
    return [t for t in set(threading.enumerate()) - before if t.name == "mcp_ref attendant"]


def attended(response, times=1):
    return all(response.attended.acquire(timeout=PATIENCE) for _ in range(times))


def test_there_is_no_thread_before_there_is_a_response(attendant):
    assert attendant._thread is None
    response = Response()
    attendant.watch(response)
    assert attended(response, 3)
    assert response.threads == {"mcp_ref attendant"}


def test_one_thread_looks_after_all(attendant):
    responses, before = [Response() for _ in range(50)], set(threading.enumerate())
    for response in responses:
        attendant.watch(response)
    assert all(attended(response, 2) for response in responses)
    assert len(attendants_since(before)) == 1


def test_a_client_that_leaves_is_told_to_its_response_alone_and_once(attendant):
    ours, theirs = socket.socketpair()
    with ours:
        leaves, stays = Response(ours), Response()
        attendant.watch(leaves)
        attendant.watch(stays)
        assert attended(leaves)
        theirs.close()
        assert leaves.left.wait(PATIENCE)
        assert leaves not in attendant.watched
        leaves.left.clear()
        assert attended(stays, 5)
        assert not leaves.left.is_set()
        assert not stays.left.is_set()


def test_what_a_response_holds_back_is_flushed_soon_whatever_the_pause():
    attendant, response = Attendant(PATIENCE), Response()
    attendant.watch(response)
    attendant.flush_soon(response)
    assert response.flushed.acquire(timeout=PATIENCE / 2)
    assert response.threads == {"mcp_ref attendant"}
    assert eventually(lambda: not attendant._holding)
    attendant.close(PATIENCE)


def test_what_cannot_be_flushed_yet_is_tried_again(attendant):
    response = Response()
    response.refusals = 3
    attendant.watch(response)
    attendant.flush_soon(response)
    assert response.flushed.acquire(timeout=PATIENCE)
    assert response.refusals == 0


def test_rounds_go_on_while_something_cannot_be_flushed(attendant):
    stuck, other = Response(), Response()
    stuck.refusals = 10**9
    for each in (stuck, other):
        attendant.watch(each)
    attendant.flush_soon(stuck)
    assert attended(other, 3)


def test_what_is_over_is_looked_after_no_more(attendant):
    response, other = Response(), Response()
    for each in (response, other):
        attendant.watch(each)
        assert attended(each)
    attendant.leave(response)
    attendant.leave(response)
    while other.attended.acquire(blocking=False):
        pass
    assert attended(other, 2)  # the second of these rounds began without the response
    while response.attended.acquire(blocking=False):
        pass
    assert attended(other, 3)
    assert not response.attended.acquire(blocking=False)


def test_a_response_that_has_ended_meanwhile_is_left_alone(attendant):
    ended, other = Response(), Response()
    ended.reply = None
    attendant.watch(ended)
    attendant.watch(other)
    assert attended(other, 3)
    assert not ended.attended.acquire(blocking=False)


def test_one_that_is_taken_off_within_a_round_is_not_attended_in_it(attendant):
    first, second = Response(), Response()
    first.attend = lambda now: attendant.leave(second)
    attendant.watched = {first: None, second: None}
    attendant._look()
    assert not second.attended.acquire(blocking=False)


def test_a_fault_with_one_is_logged_and_is_not_the_end_of_all_rounds(attendant, caplog):
    broken, good = Response(), Response()
    broken.attend = lambda now: 1 / 0
    attendant.watch(broken)
    assert eventually(lambda: "the attendant failed" in caplog.text)
    attendant.leave(broken)
    attendant.watch(good)
    assert attended(good, 2)


def test_it_sleeps_while_there_is_nothing_to_do_and_is_woken_at_once(attendant):
    response = Response()
    attendant.watch(response)
    assert attended(response)
    attendant.leave(response)
    assert eventually(lambda: attendant._is_asleep and attendant._wakes.locked())
    for _ in range(20):
        response = Response()
        attendant.watch(response)
        assert attended(response)
        attendant.leave(response)


def test_quick_responses_do_not_wake_it_each_time():
    """The switch of a thread costs more than looking at one."""
    attendant, looks = Attendant(0.05), []
    attendant._look = lambda: looks.append(1)
    for _ in range(1000):
        response = Response()
        attendant.watch(response)
        attendant.leave(response)
    attendant.close(PATIENCE)
    assert len(looks) < 100


def test_responses_that_come_and_go_on_many_threads_are_all_attended(attendant):
    missed = []

    def come_and_go():
        for _ in range(20):
            response = Response()
            attendant.watch(response)
            if not attended(response):
                missed.append(response)
            attendant.leave(response)

    threads = [threading.Thread(target=come_and_go) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(3 * PATIENCE)
        assert not thread.is_alive()
    assert missed == []
    assert attendant.watched == {}


@pytest.mark.parametrize("state", ["at work", "asleep", "never begun"])
def test_close_ends_the_thread_and_it_stays_ended(state):
    attendant, before = Attendant(0.01), set(threading.enumerate())
    if state != "never begun":
        response = Response()
        attendant.watch(response)
        assert attended(response)
        if state == "asleep":
            attendant.leave(response)
            assert eventually(lambda: attendant._is_asleep)
    begun = time.monotonic()
    attendant.close(PATIENCE)
    attendant.close(PATIENCE)
    assert time.monotonic() - begun < PATIENCE
    attendant.watch(Response())
    assert not attendants_since(before)


def test_a_response_may_close_it():
    attendant, done = Attendant(0.01), threading.Event()
    response = Response()

    def attend(now):
        attendant.close(PATIENCE)
        done.set()

    response.attend = attend
    attendant.watch(response)
    assert done.wait(PATIENCE)


def test_without_a_thread_it_is_logged_and_the_next_response_tries_again(attendant, monkeypatch, caplog):
    def none(thread):
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(module.threading.Thread, "start", none)
        attendant.watch(Response())
    assert "no thread looks after silent requests" in caplog.text
    response = Response()
    attendant.watch(response)
    assert attended(response)


def test_a_forked_child_begins_with_nothing_to_watch():
    attendant, response = Attendant(0.01), Response()
    attendant.watch(response)
    assert attended(response)
    parents, thread = attendant.watched, attendant._thread
    with attendant._lock:  # held for ever, by a thread that the child does not have
        attendant.forked()
        assert (attendant.watched, attendant._thread) == ({}, None)
        assert parents == {response: None}
    again = Response()
    attendant.watch(again)
    assert attended(again)
    attendant.close(PATIENCE)
    thread.join(PATIENCE)  # of the same process here, it ends with the other
    assert not thread.is_alive()
