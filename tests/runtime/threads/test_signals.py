"""runtime/threads/signals: a signal waits for what was begun, the second one does not.

A real SIGINT belongs to a process, so most of this runs in a child; what it prints is checked here.
"""

import signal
import subprocess
import sys
import threading
from types import SimpleNamespace

import pytest
from peers import PATIENCE, ROOT

from mcp_ref.runtime.threads import signals
from mcp_ref.runtime.threads.signals import HELD_BACK, Handled, Uninterrupted

BEGIN = """
import os, signal, sys, threading
sys.path.insert(0, sys.argv[1])
from mcp_ref.runtime.threads.signals import Uninterrupted

def interrupt():
    os.kill(os.getpid(), signal.SIGINT)
"""


def child(script):
    """The lines that a script prints, and its exit code."""
    done = subprocess.run(
        [sys.executable, "-S", "-c", BEGIN + script, ROOT],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    return done.stdout.split(), done.returncode, done.stderr


def test_an_interrupt_waits_until_the_block_is_done():
    said, code, trouble = child(
        """
try:
    with Uninterrupted():
        interrupt()
        print("finished")
    print("not reached")
except KeyboardInterrupt:
    print("interrupted")
print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)
"""
    )
    assert (said, code) == (["finished", "interrupted", "True"], 0), trouble


def test_without_an_interrupt_nothing_happens_and_all_is_as_before():
    said, code, trouble = child(
        """
with Uninterrupted():
    print("finished")
print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)
try:
    interrupt()
except KeyboardInterrupt:
    print("at once")
"""
    )
    assert (said, code) == (["finished", "True", "at", "once"], 0), trouble


def test_the_second_interrupt_is_not_held_back():
    said, code, trouble = child(
        """
try:
    with Uninterrupted():
        interrupt()
        print("first")
        interrupt()
        print("not reached")
except KeyboardInterrupt:
    print("second")
print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)
"""
    )
    assert (said, code) == (["first", "second", "True"], 0), trouble


def test_within_another_block_an_interrupt_waits_for_the_outer_one():
    said, code, trouble = child(
        """
try:
    with Uninterrupted():
        with Uninterrupted():
            interrupt()
            print("inner")
        print("outer")
    print("not reached")
except KeyboardInterrupt:
    print("interrupted")
print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)
"""
    )
    assert (said, code) == (["inner", "outer", "interrupted", "True"], 0), trouble


def test_a_handler_of_the_applications_is_called_when_the_block_is_done():
    said, code, trouble = child(
        """
def mine(number, frame):
    print("mine", int(number), frame.f_code.co_name)

signal.signal(signal.SIGINT, mine)
with Uninterrupted():
    interrupt()
    print("finished")
print(signal.getsignal(signal.SIGINT) is mine)
"""
    )
    assert (said, code) == (["finished", "mine", str(int(signal.SIGINT)), "interrupt", "True"], 0), trouble


def test_an_ignored_interrupt_stays_ignored():
    said, code, trouble = child(
        """
signal.signal(signal.SIGINT, signal.SIG_IGN)
with Uninterrupted():
    print(signal.getsignal(signal.SIGINT) is signal.SIG_IGN)
    interrupt()
print("finished", signal.getsignal(signal.SIGINT) is signal.SIG_IGN)
"""
    )
    assert (said, code) == (["True", "finished", "True"], 0), trouble


def test_a_deadly_interrupt_stays_deadly():
    said, code, trouble = child(
        """
signal.signal(signal.SIGINT, signal.SIG_DFL)
with Uninterrupted():
    print("begun", flush=True)
    interrupt()
    print("not reached")
"""
    )
    assert (said, code) == (["begun"], -signal.SIGINT), trouble


def test_on_another_thread_it_does_nothing():
    """Only the main thread is ever interrupted, and only it may say what a signal does."""
    said, code, trouble = child(
        """
inside, go_on = threading.Event(), threading.Event()

def beside():
    with Uninterrupted():
        inside.set()
        go_on.wait(10)

thread = threading.Thread(target=beside)
thread.start()
inside.wait(10)
print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)
try:
    interrupt()
except KeyboardInterrupt:
    print("interrupted")
go_on.set()
thread.join()
"""
    )
    assert (said, code) == (["True", "interrupted"], 0), trouble


def test_what_the_block_raises_is_not_lost_with_an_interrupt():
    said, code, trouble = child(
        """
try:
    with Uninterrupted():
        interrupt()
        raise ValueError("both")
except KeyboardInterrupt as problem:
    print("interrupted", type(problem.__context__).__name__)
"""
    )
    assert (said, code) == (["interrupted", "ValueError"], 0), trouble


# -- in this process: with a handler that notes --------------------------------------------------


@pytest.fixture
def noted():
    """The signals that reached a handler of the test's."""
    told = []
    before = [signal.signal(number, lambda number, frame: told.append(number)) for number in HELD_BACK]
    yield told
    for number, handler in zip(HELD_BACK, before, strict=True):
        signal.signal(number, handler)


@pytest.mark.parametrize("number", HELD_BACK)
def test_a_handler_hears_it_after_the_block(noted, number):
    handler = signal.getsignal(number)
    with Uninterrupted():
        assert signal.getsignal(number) is not handler
        signal.raise_signal(number)
        assert noted == []
    assert noted == [number]
    assert signal.getsignal(number) is handler


@pytest.mark.parametrize("second", HELD_BACK)
@pytest.mark.parametrize("first", HELD_BACK)
def test_a_handler_hears_the_second_at_once(noted, first, second):
    with Uninterrupted():
        signal.raise_signal(first)
        signal.raise_signal(second)
        assert noted == [second]
    assert noted == [second, first]


@pytest.mark.parametrize("number", HELD_BACK)
@pytest.mark.parametrize("at", ["the beginning", "the end"])
def test_an_exception_of_a_handler_leaves_none_of_ours_behind(monkeypatch, at, number):
    """The signal comes when the others are held back already, or still."""

    def stops(number, frame):
        raise KeyboardInterrupt

    def sets(which, handler):
        done = signal.signal(which, handler)
        if which != number and (handler is stops) == (at == "the end"):
            monkeypatch.undo()
            raise KeyboardInterrupt
        return done

    before = [signal.signal(each, stops) for each in HELD_BACK]
    block = Uninterrupted()
    try:
        if at == "the end":
            block.__enter__()
        monkeypatch.setattr(signals, "signal", SimpleNamespace(signal=sets, getsignal=signal.getsignal))
        with pytest.raises(KeyboardInterrupt):
            block.__enter__() if at == "the beginning" else block.__exit__()
        assert [signal.getsignal(each) for each in HELD_BACK] == [stops, stops]
    finally:
        for each, handler in zip(HELD_BACK, before, strict=True):
            signal.signal(each, handler)


@pytest.mark.parametrize("disposition", [signal.SIG_IGN, signal.SIG_DFL])
def test_what_is_no_function_is_left_alone(noted, disposition):
    signal.signal(signal.SIGINT, disposition)
    with Uninterrupted():
        assert signal.getsignal(signal.SIGINT) == disposition


def test_threads_leave_the_signal_alone(noted):
    handler, seen = signal.getsignal(signal.SIGINT), []

    def beside():
        with Uninterrupted():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=beside)
    thread.start()
    thread.join(PATIENCE)
    assert seen == [handler]


# -- handlers for a while, and forked children ---------------------------------------------------


def ends(number, frame):
    """Somebody's handler."""


@pytest.fixture
def as_before():
    """Two signals, handled afterwards as they were before."""
    numbers = [signal.SIGUSR1, signal.SIGUSR2]
    before = [signal.signal(signal.SIGUSR1, ends), signal.signal(signal.SIGUSR2, signal.SIG_IGN)]
    yield numbers
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)


def test_a_signal_is_handled_for_as_long_as_the_block_lasts(as_before):
    told = []
    with Handled(lambda number, frame: told.append(number), as_before):
        for number in as_before:
            signal.raise_signal(number)
    assert told == as_before
    assert [signal.getsignal(number) for number in as_before] == [ends, signal.SIG_IGN]


def test_in_a_forked_child_a_signal_is_handled_as_before_the_block(as_before):
    told = []
    handled = Handled(lambda number, frame: told.append(number), as_before)
    with handled:
        handled.forked()
        assert [signal.getsignal(number) for number in as_before] == [ends, signal.SIG_IGN]
    assert [signal.getsignal(number) for number in as_before] == [ends, signal.SIG_IGN]
    assert told == []


def test_another_thread_gives_no_signal_a_handler(as_before):
    seen = []

    def beside():
        with Handled(lambda number, frame: None, as_before):
            seen.extend(map(signal.getsignal, as_before))

    thread = threading.Thread(target=beside)
    thread.start()
    thread.join(PATIENCE)
    assert seen == [ends, signal.SIG_IGN]


def test_in_a_forked_child_the_thread_that_forked_is_the_main_one(noted, monkeypatch):
    """Of a process that forked on another thread: its child is interrupted on that one."""
    handler = signal.getsignal(signal.SIGINT)
    monkeypatch.setattr(signals, "main_thread_id", -1)
    with Uninterrupted():
        assert signal.getsignal(signal.SIGINT) is handler
    signals._forked()
    with Uninterrupted():
        assert signal.getsignal(signal.SIGINT) is not handler
