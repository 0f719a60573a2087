"""runtime/threads/flags: waits that `set` ends, whoever calls it and wherever."""

import os
import signal
import threading

import pytest
from peers import PATIENCE, eventually, nothing_left

from mcp_ref.runtime.threads.flags import Flag


@pytest.fixture(autouse=True)
def no_thread_stays():
    with nothing_left():
        yield


def test_a_wait_ends_with_its_time_or_when_the_flag_is_set():
    flag = Flag()
    assert flag.wait(0.01) is False
    assert flag.wait(-1) is False
    flag.set()
    assert flag.is_set()
    assert flag.wait(PATIENCE) is True
    flag.clear()
    assert not flag.is_set()
    assert flag.wait(0) is False
    assert flag._waiting == []


def test_all_that_wait_are_woken():
    flag, found = Flag(), []
    threads = [threading.Thread(target=lambda: found.append(flag.wait(PATIENCE))) for _ in range(5)]
    for thread in threads:
        thread.start()
    assert eventually(lambda: len(flag._waiting) == 5)
    flag.set()
    flag.set()
    for thread in threads:
        thread.join(PATIENCE)
    assert found == [True] * 5
    assert flag._waiting == []


def test_what_is_set_while_a_thread_enters_its_wait_is_seen():
    """Round by round, with nothing between the two threads but the flag."""
    flag, rounds = Flag(), 2000
    back = Flag()

    def answer():
        for _ in range(rounds):
            assert flag.wait(PATIENCE)
            flag.clear()
            back.set()

    thread = threading.Thread(target=answer)
    thread.start()
    for _ in range(rounds):
        flag.set()
        assert back.wait(PATIENCE)
        back.clear()
    thread.join(PATIENCE)
    assert not thread.is_alive()


class Interrupting:
    """In place of the locks that wait: a signal comes at each step of a wait."""

    def __init__(self, lock, flag):
        self._lock, self._flag = lock, flag

    def acquire(self, **options):
        self._flag.set()  # as the handler of a signal would, on this thread
        return self._lock.acquire(**options)

    def release(self):
        self._lock.release()


def test_the_handler_of_a_signal_sets_the_flag_that_its_own_thread_is_about_to_wait_for(monkeypatch):
    flag, locks = Flag(), []
    new = threading.Lock

    def lock():
        locks.append(Interrupting(new(), flag))
        return locks[-1]

    monkeypatch.setattr(threading, "Lock", lock)
    assert flag.wait(PATIENCE) is True
    monkeypatch.undo()
    assert len(locks) == 1


def test_a_signal_ends_a_wait_on_the_main_thread():
    flag = Flag()
    before = signal.signal(signal.SIGUSR1, lambda number, frame: flag.set())
    main = threading.get_ident()

    def interrupt():
        assert eventually(lambda: flag._waiting)
        signal.pthread_kill(main, signal.SIGUSR1)

    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        assert flag.wait(PATIENCE) is True
    finally:
        thread.join(PATIENCE)
        signal.signal(signal.SIGUSR1, before)


def test_a_forked_child_waits_for_none_of_its_parents_locks():
    """The parent's threads that wait are not there in the child, which sets and waits all the same."""
    flag = Flag()
    thread = threading.Thread(target=flag.wait, args=(PATIENCE,))
    thread.start()
    assert eventually(lambda: flag._waiting)
    child = os.fork()
    if child == 0:
        is_late = flag.wait(0.01)
        flag.set()
        os._exit(0 if not is_late and flag.wait(PATIENCE) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert not flag.is_set()
    flag.set()
    thread.join(PATIENCE)
