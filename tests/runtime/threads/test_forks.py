"""runtime/threads/forks: what is told in a forked child, and how such a child ends.

What follows for servers and clients is in tests/test_forks.py.
"""

import os
import signal
import subprocess
import sys
import textwrap
import threading

import pytest
from peers import ENV, PATIENCE

from mcp_ref.runtime.threads import forks

OPENING = """
import os, sys
from mcp_ref.runtime.threads import forks

def waited(pid):
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
"""


def run(script, opening=OPENING):
    """What a program says."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", opening + textwrap.dedent(script)],
        env={**os.environ, **ENV},
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines(), done.stderr


def test_what_has_said_so_is_told_in_the_child_and_only_there():
    said, _ = run(
        """
        class Thing:
            def forked(self):
                print("told", forks.count, flush=True)

        thing, gone = Thing(), Thing()
        forks.register(thing)
        forks.register(gone)
        forks.on_fork(lambda: print("called", forks.count, flush=True))
        del gone
        pid = os.fork()
        if not pid:
            os._exit(forks.count)
        print("child", waited(pid), "parent", forks.count, flush=True)
        """
    )
    assert said == ["called 1", "told 1", "child 1 parent 0"]


def test_one_that_fails_does_not_keep_the_others_from_being_told():
    said, errors = run(
        """
        def fails():
            raise LookupError("of its own")

        forks.on_fork(fails)
        forks.on_fork(lambda: print("called", flush=True))
        pid = os.fork()
        if not pid:
            os._exit(0)
        print("child", waited(pid))
        """
    )
    assert said == ["called", "child 0"]
    assert errors.endswith("LookupError: of its own\n")


@pytest.mark.parametrize(
    ("problem", "status", "told"),
    [
        ("None", 0, ""),
        ("SystemExit()", 0, ""),
        ("SystemExit(0)", 0, ""),
        ("SystemExit(7)", 7, ""),
        ("SystemExit('why')", 1, "why\n"),
        ("SystemExit(-1)", 255, ""),
        ("ValueError('why')", 1, "ValueError: why\n"),
        ("KeyboardInterrupt()", 1, "KeyboardInterrupt\n"),
    ],
)
def test_a_child_ends_as_a_program_would(problem, status, told):
    """At once: functions of `atexit` are the parent's. What it printed is not lost."""
    said, errors = run(
        f"""
        import atexit
        atexit.register(print, "at exit")
        pid = os.fork()
        if not pid:
            print("said by the child")
            try:
                forks.end_child({problem})
            finally:
                print("it goes on")
        print("child", waited(pid), flush=True)
        """
    )
    assert said == ["said by the child", f"child {status}", "at exit"]
    assert errors == told


# -- signals that come early ----------------------------------------------------------------------


BESIDE = (
    OPENING
    + """
import signal, threading, time
from mcp_ref.runtime.threads.signals import Handled, Uninterrupted

def blocked():
    return sorted(map(int, signal.pthread_sigmask(signal.SIG_BLOCK, [])))

def beside(run):
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
"""
)


def test_a_signal_that_is_sent_as_a_child_begins_has_its_usual_effect_there():
    """Its hooks take 0.2 s here: for so long the parent's handler, which only notes a signal, is set."""
    said, errors = run(
        """
        forks.on_fork(lambda: time.sleep(0.2))

        def forks_and_signals():
            for number in (signal.SIGTERM, signal.SIGINT):
                pid = os.fork()
                if not pid:
                    time.sleep(20)
                    os._exit(9)
                os.kill(pid, number)
                print(waited(pid), flush=True)

        with Handled(lambda *_: print("noted", flush=True), (signal.SIGTERM, signal.SIGINT)):
            beside(forks_and_signals)
        """,
        BESIDE,
    )
    assert said == ["-15", "1"]  # SIGINT raised KeyboardInterrupt
    assert errors.endswith("KeyboardInterrupt\n")


@pytest.mark.parametrize("raised", ["LookupError", "SystemExit", "KeyboardInterrupt"])
def test_after_a_fork_the_same_signals_are_blocked_as_before_it(raised):
    """Whatever a hook of the child raises."""
    said, errors = run(
        f"""
        def fails():
            raise {raised}("of its own")

        forks.on_fork(fails)

        def forks_and_looks():
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
            pid = os.fork()
            if not pid:
                os._exit(blocked() != [signal.SIGUSR1])
            print("child", waited(pid), "parent", blocked() == [signal.SIGUSR1], flush=True)

        beside(forks_and_looks)
        """,
        BESIDE,
    )
    assert said == ["child 0 parent True"]
    assert errors.endswith(f"{raised}: of its own\n")


def test_a_fork_on_the_main_thread_blocks_no_signal():
    """Handlers run in the hook that unblocks them, and a KeyboardInterrupt would be lost there."""
    said, _ = run(
        """
        os.register_at_fork(after_in_parent=lambda: seen.append(blocked()))
        seen = []
        pid = os.fork()
        if not pid:
            os._exit(0)
        print(waited(pid), seen)
        """,
        BESIDE,
    )
    assert said == ["0 [[]]"]


def test_in_a_child_of_another_thread_nothing_is_held_back_that_the_main_thread_held_back():
    said, _ = run(
        """
        def forks_and_looks():
            pid = os.fork()
            if not pid:
                usual = signal.getsignal(signal.SIGINT) is signal.default_int_handler
                with Uninterrupted():
                    held = signal.getsignal(signal.SIGINT) is not signal.default_int_handler
                os._exit(10 * usual + held)
            print("child", waited(pid), flush=True)

        with Uninterrupted(), Uninterrupted():
            beside(forks_and_looks)
        """,
        BESIDE,
    )
    assert said == ["child 11"]


# -- the same in this process, which is not forked: what the hook and the end do ------------------


class Ended(BaseException):
    """Instead of the end of this process."""


def test_each_thing_that_is_still_there_is_told_and_the_fork_is_counted(monkeypatch, capsys):
    monkeypatch.setattr(forks, "count", 5)
    monkeypatch.setattr(forks, "_functions", [])
    monkeypatch.setattr(forks, "_told", forks.WeakSet())
    told = []

    class Thing:
        def forked(self):
            told.append(forks.count)

    def fails():
        raise LookupError("of its own")

    thing, gone = Thing(), Thing()
    forks.on_fork(fails)
    forks.on_fork(lambda: told.append("called"))
    forks.register(thing)
    forks.register(gone)
    del gone
    forks._in_child()
    assert told == ["called", 6]
    assert capsys.readouterr().err.endswith("LookupError: of its own\n")


def test_all_signals_are_blocked_around_a_fork_and_what_a_handler_raises_then_ends_the_child(monkeypatch):
    ended, blocked = [], []
    monkeypatch.setattr(forks, "count", 5)
    monkeypatch.setattr(forks, "_functions", [])
    monkeypatch.setattr(forks, "_told", forks.WeakSet())
    monkeypatch.setattr(forks, "end_child", ended.append)
    problem = KeyboardInterrupt()

    def look():
        blocked.append(signal.pthread_sigmask(signal.SIG_BLOCK, []))

    def unblocks():
        raise problem

    def forking():
        look()
        forks._block_signals()
        look()
        forks._unblock_signals()
        look()
        forks._unblock_signals()  # blocked by nobody: nothing to do
        look()
        monkeypatch.setattr(forks, "_unblock_signals", unblocks)
        forks._in_child()

    thread = threading.Thread(target=forking)
    thread.start()
    thread.join(PATIENCE)
    before, during, *after = blocked
    assert {signal.SIGINT, signal.SIGTERM, signal.SIGHUP} <= during
    assert after == [before, before]
    assert ended == [problem]


@pytest.mark.parametrize(
    ("problem", "status", "told"),
    [
        (None, 0, ""),
        (SystemExit(1), 1, ""),
        (SystemExit(2), 2, ""),
        (SystemExit(7), 7, ""),
        (SystemExit(-1), 255, ""),
        (SystemExit("why"), 1, "why\n"),
        (ValueError("why"), 1, "ValueError: why\n"),
    ],
)
def test_the_status_of_a_child_is_the_one_that_a_program_would_have(
    problem, status, told, monkeypatch, capsys
):
    statuses = []

    def end(status):
        statuses.append(status)
        raise Ended

    monkeypatch.setattr(forks.os, "_exit", end)
    with pytest.raises(Ended):
        forks.end_child(problem)
    assert statuses == [status]
    assert capsys.readouterr().err == told
